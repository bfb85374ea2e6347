/*
 * src/device/cuda/ops/concat.cu - concatenation along C into a stacked tensor (cuda.h), and packing
 * such a tensor into one.
 *
 * y holds the parts of the first input, then those of the second; an input that is one tensor
 * counts as one part.  The first input is a prefix of y, and usually the same memory: then only the
 * second is copied, and the first, unless it is stacked already, gets its moments.  In backward the
 * gradient of the first input is a prefix of dy, and usually the same memory.
 *
 * Moments are computed while a part is copied.  The last block to finish a chunk of channels adds
 * up the others' partial sums (chunk.cuh).
 */
#include "device/cuda/ops/chunk.cuh"

#include <stdlib.h>

extern "C" {
#include "base/error.h"
}

namespace {

struct concat_state {
    cuda_state base;
    unsigned *arrived; /* device memory [chunks], zero between calls: blocks that are done */
};

concat_state *concat_of(const cuda_call *c) {
    return static_cast<concat_state *>(c->state);
}

/* ---- planning ----------------------------------------------------------------------------- */

/* Bytes of a part's elements. */
size_t part_bytes(const cuda_layout &layout, const cuda_part &part) {
    return (size_t)layout.pixels * (size_t)part.pitch * cuda_element(layout.type);
}

/* Puts the parts of x behind those that y has. */
void append(const cuda_layout &x, cuda_layout *y) {
    for (int i = 0; i < x.parts; i++) {
        cuda_part part = x.part[i];
        const cuda_part *last = y->parts ? &y->part[y->parts - 1] : NULL;
        part.first = last ? last->first + last->channels : 0;
        part.offset = y->bytes;
        part.moments = part.offset + part_bytes(*y, part);
        y->bytes = cuda_aligned(part.moments + 2 * (size_t)part.pitch * sizeof(double));
        y->part[y->parts++] = part;
    }
}

void release(void *state) {
    cudaFree(static_cast<concat_state *>(state)->arrived);
}

/* Counters for the larger of the inputs, zeroed. */
ole_status plan_counters(const cuda_request *request, concat_state *s, ole_error *error) {
    int channels = request->x[0]->c > request->x[1]->c ? request->x[0]->c : request->x[1]->c;
    size_t bytes = (size_t)chunks_of(cuda_pitch(channels)) * sizeof *s->arrived;
    void *memory = NULL;
    if (cudaMalloc(&memory, bytes) != cudaSuccess ||
        cudaMemsetAsync(memory, 0, bytes, request->context->stream) != cudaSuccess) {
        cudaGetLastError();
        cudaFree(memory);
        return ole_fail(error, OLE_ERROR_MEMORY, "the GPU memory is full");
    }
    s->arrived = static_cast<unsigned *>(memory);
    s->base.release = release;
    return OLE_OK;
}

ole_status plan_concat(const cuda_request *request, ole_op_plan *plan, ole_error *error) {
    const cuda_layout &first = *request->x[0], &second = *request->x[1];
    if (first.parts + second.parts > CUDA_MAX_PARTS)
        return ole_fail(error, OLE_ERROR_UNSUPPORTED,
                        "%s: a concatenation of %d outputs; the limit on CUDA is %d",
                        request->node->name, first.parts + second.parts, (int)CUDA_MAX_PARTS);
    concat_state *s =
        static_cast<concat_state *>(cuda_state_create(request, sizeof(concat_state), plan));
    if (!s) return ole_fail(error, OLE_ERROR_MEMORY, "out of memory");
    cuda_layout *y = &s->base.y;
    y->parts = 0;
    y->bytes = 0;
    y->stacked = true;
    append(first, y);
    append(second, y);
    plan->y_bytes = y->bytes;
    plan->dx_in_place = plan->y_extends_x = true;
    int chunks = chunks_of(y->part[0].pitch) + chunks_of(y->part[y->parts - 1].pitch);
    int blocks = request->context->multiprocessors + chunks; /* at most, of a part */
    plan->scratch_bytes = (size_t)blocks * CHUNK_SUMS * sizeof(float);
    if (y->bytes / cuda_element(y->type) > UINT32_MAX || y->pixels > INT32_MAX / 2) {
        free(s);
        return ole_fail(error, OLE_ERROR_UNSUPPORTED, "%s: more than 2^32 elements per batch",
                        request->node->name);
    }
    ole_status status = plan_counters(request, s, error);
    if (status != OLE_OK) free(s);
    return status;
}

/* ---- forward ------------------------------------------------------------------------------ */

struct part_copy {
    const void *from;
    void *to;        /* may be `from`: only moments are found */
    double *moments; /* [2, pitch] */
    float *partials;
    unsigned *arrived;
    int pixels, pitch;
    double inverse_count;
};

/* Whether this block is the last of its chunk to finish; if so, the others' writes are visible. */
__device__ bool is_last_of_chunk(unsigned *arrived) {
    __shared__ bool last;
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) /* wraps to zero with the last */
        last = atomicInc(&arrived[blockIdx.y], gridDim.x - 1) == gridDim.x - 1;
    __syncthreads();
    __threadfence();
    return last;
}

template <class T>
__global__ void __launch_bounds__(CHUNK_THREADS) copy_part(part_copy a) {
    chunk_place at = chunk_place_of(a.pitch, a.pixels);
    plain_column<T> column = plain_view{a.pitch}.column<T>(at.group);
    float sums[16], first[8];
    enum { BATCH = 8 / sizeof(T) };
    chunk_clear(sums);
    if (at.steps > 0) widen(column.load(a.from, 0), first);
    for (int s = 0; s < at.steps; s += BATCH) {
        vector8<T> v[BATCH];
#pragma unroll
        for (int b = 0; b < BATCH; b++)
            v[b] = column.load(a.from, at.pixel(min(s + b, at.steps - 1)));
#pragma unroll
        for (int b = 0; b < BATCH; b++) {
            float value[8];
            if (s + b >= at.steps) continue;
            widen(v[b], value);
            chunk_add_moments(sums, value, first);
            if (a.to != a.from) column.store(a.to, at.pixel(s + b), v[b], true);
        }
    }
    chunk_partial(sums, chunk_own(a.partials));
    if (!is_last_of_chunk(a.arrived)) return;
    double total = chunk_total(a.partials, (int)gridDim.x);
    if (threadIdx.x >= 32) return;
    int c = chunk_channel(a.pitch);
    float origin = c < 0 ? 0.0f : (float)static_cast<const T *>(a.from)[c];
    chunk_moments m = chunk_moments_of(total, a.inverse_count, origin);
    if (c < 0) return;
    a.moments[c] = m.mean;
    a.moments[a.pitch + c] = m.squares;
}

/* Input `i`, one tensor, to its part of y. */
void copy_tensor(const cuda_call *c, int i, const cuda_part &part) {
    concat_state *s = concat_of(c);
    char *y = static_cast<char *>(c->call->y);
    part_copy a = {c->call->x[i],
                   y + part.offset,
                   reinterpret_cast<double *>(y + part.moments),
                   static_cast<float *>(c->call->scratch),
                   s->arrived,
                   (int)s->base.y.pixels,
                   part.pitch,
                   1 / (double)s->base.y.pixels};
    int chunks = chunks_of(part.pitch);
    dim3 grid((unsigned)chunk_blocks_for(a.pixels, chunks, c->context->multiprocessors),
              (unsigned)chunks);
    for_type(s->base.y.type, [&](auto element) {
        copy_part<decltype(element)><<<grid, CHUNK_THREADS, 0, c->context->stream>>>(a);
    });
    cuda_launched(c->context, "copy_part");
}

/* ---- ranges ------------------------------------------------------------------------------- */

/* `count` vectors; `add`: instead of overwriting. */
template <class T>
__global__ void move_range(const void *from, void *to, bool add, int64_t count) {
    FOR_EACH(i, count) {
        vector8<T> v = load8<T>(from, i);
        if (add) {
            float sum[8];
            load8<T>(to, i, sum);
            add_to(sum, v);
            narrow(sum, v);
        }
        store8(to, i, v);
    }
}

/* Bytes of an input as it lies in y: up to the end of its last part, or of that one's moments where
 * it has them. */
size_t range_bytes(const cuda_layout &x) {
    return x.stacked ? x.bytes : part_bytes(x, x.part[0]);
}

/* Between an input (or its gradient) and its place in y (or dy). Gaps between parts go along: what
 * is there in gradients is never read. */
void move(const cuda_call *c, int i, const void *from, bool add, void *to) {
    const cuda_layout &x = concat_of(c)->base.x[i];
    int64_t count = (int64_t)(range_bytes(x) / (8 * cuda_element(x.type)));
    if (from == to) return;
    LAUNCH_EACH(c->context, x.type, count, move_range, from, to, add);
}

/* The part of y that an input begins with. */
const cuda_part &part_of(const concat_state *s, int i) {
    return s->base.y.part[i == 0 ? 0 : s->base.x[0].parts];
}

void concat_forward(const cuda_call *c) {
    const concat_state *s = concat_of(c);
    for (int i = 0; i < OLE_MAX_INPUTS; i++) {
        char *to = static_cast<char *>(c->call->y) + part_of(s, i).offset;
        if (!s->base.x[i].stacked && c->call->train)
            copy_tensor(c, i, part_of(s, i));
        else
            move(c, i, c->call->x[i], false, to);
    }
}

void concat_backward(const cuda_call *c) {
    for (int i = OLE_MAX_INPUTS - 1; i >= 0; i--) {
        const char *from = static_cast<const char *>(c->call->dy) + part_of(concat_of(c), i).offset;
        if (c->call->dx[i]) move(c, i, from, c->call->accumulate[i], c->call->dx[i]);
    }
}

/* ---- packing ------------------------------------------------------------------------------ */

/* Between a stacked tensor and one, whose pitch is `pitch`. */
template <class T, class View>
__global__ void __launch_bounds__(CHUNK_THREADS)
    pack(View view, const void *from, int pixels, int pitch, void *to) {
    chunk_place at = chunk_place_of(pitch, pixels);
    auto column = view.template column<T>(at.group);
    for (int s = 0; s < at.steps; s++)
        store8(to, at.pixel(s) * (int64_t)(pitch / 8) + at.group, column.load(from, at.pixel(s)));
}

template <class T, class View>
__global__ void __launch_bounds__(CHUNK_THREADS)
    unpack(View view, const void *from, int pixels, int pitch, bool add, void *to) {
    chunk_place at = chunk_place_of(pitch, pixels);
    auto column = view.template column<T>(at.group);
    for (int s = 0; s < at.steps; s++) {
        vector8<T> v = load8<T>(from, at.pixel(s) * (int64_t)(pitch / 8) + at.group);
        if (add) {
            float sum[8];
            widen(v, sum);
            add_to(sum, column.load(to, at.pixel(s)));
            narrow(sum, v);
        }
        column.store(to, at.pixel(s), v, !add);
    }
}

dim3 packing_grid(const ole_device_context *context, const cuda_layout &packed) {
    int chunks = chunks_of(packed.part[0].pitch);
    return dim3((unsigned)chunk_blocks_for(packed.pixels, chunks, 4 * context->multiprocessors),
                (unsigned)chunks);
}

} // namespace

extern "C" void cuda_pack(ole_device_context *context, const cuda_layout *stacked, const void *from,
                          const cuda_layout *packed, void *to) {
    for_type_and_view(packed->type, *stacked, [&](auto element, auto view) {
        pack<decltype(element)>
            <<<packing_grid(context, *packed), CHUNK_THREADS, 0, context->stream>>>(
                view, from, (int)packed->pixels, packed->part[0].pitch, to);
    });
    cuda_launched(context, "pack");
}

extern "C" void cuda_unpack(ole_device_context *context, const cuda_layout *packed,
                            const void *from, const cuda_layout *stacked, bool accumulate,
                            void *to) {
    for_type_and_view(packed->type, *stacked, [&](auto element, auto view) {
        unpack<decltype(element)>
            <<<packing_grid(context, *packed), CHUNK_THREADS, 0, context->stream>>>(
                view, from, (int)packed->pixels, packed->part[0].pitch, accumulate, to);
    });
    cuda_launched(context, "unpack");
}

const cuda_op cuda_concat = {true, plan_concat, concat_forward, concat_backward};
