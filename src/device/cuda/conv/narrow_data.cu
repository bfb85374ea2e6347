/*
 * src/device/cuda/conv/narrow_data.cu - the gradient of x of a narrow convolution, written or
 * added.
 *
 * dx = dy convolved with the kernel turned round: dx[p, c] is the sum over taps and the 16 or 32
 * channels o of dy[p + 1 - tap, o] w[o, tap, c].  A thread block makes a slice of dx's channels of
 * a tile of pixels: the sum is short, so that dy's tile with its border and the slice's weights
 * fit into shared memory at once, and other blocks on the multiprocessor compute while they come.
 * Warps share out the tile's rows, HIGH ways, and the slice, WIDE ways of 16 or 32 channels.
 */
#include "device/cuda/conv/narrow.cuh"

namespace {

struct data_job {
    bfloat16 *dx;
    const bfloat16 *w, *dy;
    narrow_images size;
    int in; /* channels of dx */
};

template <int OUT_, int COLUMNS, int ROWS_, int HIGH_, int WIDE_, int WARP_CHANNELS_>
struct data_shape {
    typedef narrow_tile<COLUMNS, ROWS_ * HIGH_> tile;
    enum {
        OUT = OUT_,
        ROWS = ROWS_, /* of a warp */
        HIGH = HIGH_,
        WIDE = WIDE_,
        WARP_CHANNELS = WARP_CHANNELS_,
        BLOCKS = WARP_CHANNELS / 8, /* of eight channels */
        SLICE = WARP_CHANNELS * WIDE,
        THREADS = 32 * HIGH * WIDE,
        VECTORS = OUT / 8,
        LINE = OUT + NARROW_PAD,
        SLICE_LINE = SLICE + NARROW_PAD,
        Y = tile::HALO * LINE, /* elements */
        W = NARROW_TAPS * OUT * SLICE_LINE,
        SUM_LINE = WARP_CHANNELS + 8, /* floats a pixel: eight pixels lie in different banks */
        SUMS = 16 * SUM_LINE,         /* floats of a warp: a row of its tile */
        BYTES = 2 * (Y + W) + 4 * SUMS * HIGH * WIDE,
    };
};

template <class S>
__device__ void copy_gradient(const data_job &job, const narrow_place &place, bfloat16 *to) {
    const bfloat16 *image = image_of(job.dy, job.size, place, S::OUT);
    for (int i = (int)threadIdx.x; i < S::tile::HALO * S::VECTORS; i += S::THREADS) {
        int vector = i % S::VECTORS * 8, pixel = S::tile::outer(job.size, place, i / S::VECTORS);
        copy16(to + i / S::VECTORS * S::LINE + vector,
               image + (pixel < 0 ? 0 : pixel * S::OUT + vector), pixel >= 0);
    }
}

/* All products of a warp: ROWS rows from `row`, its channels from `channel` of the slice. */
template <class S>
__device__ void multiply(float (&sums)[S::ROWS][S::BLOCKS][4], const bfloat16 *dy,
                         const bfloat16 *w, int row, int channel, int lane) {
    matrix_row at = down(lane);
#pragma unroll
    for (int first = 0; first < S::OUT; first += 16) { /* of dy's channels */
        const bfloat16 *weights = w + (first + at.row) * S::SLICE_LINE + channel + at.column;
#pragma unroll
        for (int right = 0; right < 3; right++) {
            uint32_t b[3][S::BLOCKS / 2][4];
#pragma unroll
            for (int t = 0; t < 3; t++)
#pragma unroll
                for (int n = 0; n < S::BLOCKS / 2; n++) /* the tap opposite to (t, right) */
                    load_transposed(b[t][n],
                                    weights + ((2 - t) * 3 + 2 - right) * S::OUT * S::SLICE_LINE +
                                        n * 16);
            const bfloat16 *pixel =
                dy + S::tile::halo(at.row, row, right) * S::LINE + first + at.column;
            multiply_rows<S::ROWS, S::BLOCKS / 2>(sums, pixel, S::tile::HALO_COLUMNS * S::LINE, b);
        }
    }
}

/* A row of 16 pixels and a warp's channels from its own shared memory to dx. */
template <class S, bool ADD>
__device__ void store_row(const data_job &job, const narrow_place &place, const float *from,
                          int row, int channel, int lane) {
    bfloat16 *image = image_of(job.dx, job.size, place, job.in);
#pragma unroll
    for (int i = lane; i < 16 * S::BLOCKS; i += 32) {
        int pixel = i / S::BLOCKS, vector = channel + i % S::BLOCKS * 8;
        int at = S::tile::inner(job.size, place, row * 16 + pixel);
        if (at < 0 || vector >= job.in) continue;
        float sum[8] = {};
        add_floats(sum, from + pixel * S::SUM_LINE + i % S::BLOCKS * 8);
        int64_t to = ((int64_t)at * job.in + vector) / 8;
        if (ADD) add_to(sum, load8<bfloat16>(image, to));
        store8<bfloat16>(image, to, sum);
    }
}

template <class S, bool ADD>
__global__ void __launch_bounds__(S::THREADS) data(data_job job) {
    extern __shared__ __align__(16) unsigned char shared[];
    bfloat16 *dy = reinterpret_cast<bfloat16 *>(shared), *w = dy + S::Y;
    int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    float *own = reinterpret_cast<float *>(w + S::W) + warp * S::SUMS;
    int row = warp / S::WIDE * S::ROWS, channel = warp % S::WIDE * S::WARP_CHANNELS;
    int slice = (int)blockIdx.y * S::SLICE;
    narrow_place place = S::tile::place(job.size, (int)blockIdx.x);
    copy_gradient<S>(job, place, dy);
    copy_weights<S::OUT, S::SLICE / 8, S::SLICE_LINE, S::THREADS>(w, job.w, job.in, slice);
    copy_commit();
    copy_wait<0>();
    __syncthreads();
    if (slice + channel >= job.in) return;
    float sums[S::ROWS][S::BLOCKS][4] = {};
    multiply<S>(sums, dy, w, row, channel, lane);
#pragma unroll
    for (int r = 0; r < S::ROWS; r++) {
        put_sums(own, S::SUM_LINE, lane, sums[r]);
        __syncwarp();
        store_row<S, ADD>(job, place, own, row + r, slice + channel, lane);
        __syncwarp(); /* before the next row takes its place */
    }
}

template <class S>
bool run(ole_device_context *context, const cuda_problem *p, const cuda_arrays *arrays) {
    data_job job = {static_cast<bfloat16 *>(arrays->x), static_cast<const bfloat16 *>(arrays->w),
                    static_cast<const bfloat16 *>(arrays->y), images_of(p), (int)p->in};
    auto kernel = p->add ? data<S, true> : data<S, false>;
    dim3 grid((unsigned)S::tile::count(job.size), (unsigned)((p->in + S::SLICE - 1) / S::SLICE));
    if (grid.y > 65535 || !allow_shared(kernel, S::BYTES)) return false;
    kernel<<<grid, S::THREADS, S::BYTES, arrays->stream>>>(job);
    cuda_launched(context, "narrow data gradient");
    return true;
}

#define VARIANT(out, columns, rows, high, wide, channels)                                          \
    {                                                                                              \
        "narrow:" #columns "x" #rows "x" #high ":" #wide "x" #channels, out, columns,              \
            wide *channels, NULL, run<data_shape<out, columns, rows, high, wide, channels>>        \
    }

const narrow_variant variants[] = {
    VARIANT(16, 16, 4, 4, 1, 16), VARIANT(16, 16, 4, 2, 2, 16), VARIANT(16, 16, 4, 4, 1, 32),
    VARIANT(16, 16, 4, 2, 1, 32), VARIANT(16, 16, 4, 4, 2, 32), VARIANT(16, 16, 4, 2, 2, 32),
    VARIANT(16, 8, 4, 2, 1, 16),  VARIANT(16, 8, 4, 2, 2, 16),  VARIANT(16, 8, 4, 2, 1, 32),
    VARIANT(16, 8, 4, 2, 2, 32),  VARIANT(16, 8, 4, 1, 2, 32),  VARIANT(16, 8, 4, 2, 4, 32),
    VARIANT(32, 16, 4, 2, 1, 16), VARIANT(32, 16, 4, 1, 2, 16), VARIANT(32, 16, 4, 2, 1, 32),
    VARIANT(32, 16, 2, 2, 1, 32), VARIANT(32, 8, 4, 2, 1, 16),  VARIANT(32, 8, 4, 2, 1, 32),
    VARIANT(32, 8, 2, 2, 1, 32),
};

} // namespace

const narrow_table narrow_data = {variants, sizeof variants / sizeof *variants};
