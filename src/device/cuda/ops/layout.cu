/*
 * src/device/cuda/ops/layout.cu - tensors from and to plain floats [N, C, H, W] in device memory.
 *
 * A thread takes eight channels of a pixel, its neighbours the next pixels: plain floats are read
 * and written in runs.
 */
#include "device/cuda/ops/kernels.cuh"

namespace {

enum { THREADS = 256 };

/* Where channel 0 of the pixel's group is among the plain floats; channels are `area` apart. */
__device__ int64_t plain_at(int64_t pixel, int group, int channels, int64_t area) {
    return (pixel / area * channels + group * 8) * area + pixel % area;
}

template <class T, class View>
__global__ void from_plain(View view, const float *plain, int64_t pixels, int channels,
                           int64_t area, bool add, void *to) {
    int group = (int)blockIdx.y;
    auto column = view.template column<T>(group);
    for (int64_t pixel = (int64_t)blockIdx.x * THREADS + threadIdx.x; pixel < pixels;
         pixel += (int64_t)gridDim.x * THREADS) {
        const float *from = plain + plain_at(pixel, group, channels, area);
        float value[8];
#pragma unroll
        for (int k = 0; k < 8; k++)
            value[k] = group * 8 + k < channels ? from[k * area] : 0.0f;
        if (add) add_to(value, column.load(to, pixel));
        vector8<T> v;
        narrow(value, v);
        column.store(to, pixel, v, !add);
    }
}

template <class T, class View>
__global__ void to_plain(View view, const void *from, int64_t pixels, int channels, int64_t area,
                         float *plain) {
    int group = (int)blockIdx.y;
    auto column = view.template column<T>(group);
    for (int64_t pixel = (int64_t)blockIdx.x * THREADS + threadIdx.x; pixel < pixels;
         pixel += (int64_t)gridDim.x * THREADS) {
        float *to = plain + plain_at(pixel, group, channels, area), value[8];
        widen(column.load(from, pixel), value);
#pragma unroll
        for (int k = 0; k < 8; k++)
            if (group * 8 + k < channels) to[k * area] = value[k];
    }
}

dim3 grid_of(const ole_device_context *context, const cuda_layout &layout) {
    return dim3(blocks_for(context, layout.pixels, THREADS), (unsigned)(cuda_pitch(layout.c) / 8));
}

} // namespace

extern "C" void cuda_from_plain(ole_device_context *context, ole_layout given, const float *plain,
                                bool accumulate, void *to) {
    const cuda_layout *layout = static_cast<const cuda_layout *>(given);
    for_type_and_view(layout->type, *layout, [&](auto element, auto view) {
        from_plain<decltype(element)><<<grid_of(context, *layout), THREADS, 0, context->stream>>>(
            view, plain, layout->pixels, layout->c, (int64_t)layout->h * layout->w, accumulate, to);
    });
    cuda_launched(context, "from_plain");
}

extern "C" void cuda_to_plain(ole_device_context *context, ole_layout given, const void *from,
                              float *plain) {
    const cuda_layout *layout = static_cast<const cuda_layout *>(given);
    for_type_and_view(layout->type, *layout, [&](auto element, auto view) {
        to_plain<decltype(element)><<<grid_of(context, *layout), THREADS, 0, context->stream>>>(
            view, from, layout->pixels, layout->c, (int64_t)layout->h * layout->w, plain);
    });
    cuda_launched(context, "to_plain");
}
