/*
 * src/device/cuda/ops/kernels.cuh - what kernels share: eight channels of a pixel as a vector, and
 * where such vectors lie in one tensor and in a stacked one.
 *
 * A thread works on eight neighbouring channels of a pixel: 16 bytes of bfloat16, 32 of float.
 * Arithmetic is in float.  Pointers are never declared restrict: outputs may be in place, and a
 * thread reads all it needs of its elements before it writes them.
 */
#ifndef OLE_SRC_DEVICE_CUDA_OPS_KERNELS_CUH
#define OLE_SRC_DEVICE_CUDA_OPS_KERNELS_CUH

#include "device/cuda/cuda.h"

#include <cuda_bf16.h>
#include <cuda_runtime.h>

typedef __nv_bfloat16 bfloat16;

/* ---- eight elements ----------------------------------------------------------------------- */

/* As they lie in memory: one or two quarters of 16 bytes. */
template <class T>
struct vector8 {
    uint32_t w[2 * sizeof(T)];

    __device__ void set(int k, uint4 q) {
        w[4 * k] = q.x;
        w[4 * k + 1] = q.y;
        w[4 * k + 2] = q.z;
        w[4 * k + 3] = q.w;
    }
    __device__ uint4 get(int k) const {
        return make_uint4(w[4 * k], w[4 * k + 1], w[4 * k + 2], w[4 * k + 3]);
    }
};

/* Vector `i` of a tensor. */
template <class T>
__device__ inline vector8<T> load8(const void *base, int64_t i) {
    const uint4 *from = static_cast<const uint4 *>(base) + i * (int64_t)(sizeof(T) / 2);
    vector8<T> v;
#pragma unroll
    for (int k = 0; k < (int)sizeof(T) / 2; k++)
        v.set(k, from[k]);
    return v;
}

template <class T>
__device__ inline void store8(void *base, int64_t i, const vector8<T> &v) {
    uint4 *to = static_cast<uint4 *>(base) + i * (int64_t)(sizeof(T) / 2);
#pragma unroll
    for (int k = 0; k < (int)sizeof(T) / 2; k++)
        to[k] = v.get(k);
}

__device__ inline void widen(const vector8<float> &v, float (&f)[8]) {
#pragma unroll
    for (int k = 0; k < 8; k++)
        f[k] = __uint_as_float(v.w[k]);
}

__device__ inline void widen(const vector8<bfloat16> &v, float (&f)[8]) {
#pragma unroll
    for (int k = 0; k < 4; k++) {
        f[2 * k] = __uint_as_float(v.w[k] << 16);
        f[2 * k + 1] = __uint_as_float(v.w[k] & 0xffff0000u);
    }
}

__device__ inline void narrow(const float (&f)[8], vector8<float> &v) {
#pragma unroll
    for (int k = 0; k < 8; k++)
        v.w[k] = __float_as_uint(f[k]);
}

__device__ inline void narrow(const float (&f)[8], vector8<bfloat16> &v) {
#pragma unroll
    for (int k = 0; k < 4; k++) {
        uint32_t low = __bfloat16_as_ushort(__float2bfloat16_rn(f[2 * k]));
        uint32_t high = __bfloat16_as_ushort(__float2bfloat16_rn(f[2 * k + 1]));
        v.w[k] = low | high << 16;
    }
}

template <class T>
__device__ inline void load8(const void *base, int64_t i, float (&f)[8]) {
    widen(load8<T>(base, i), f);
}

template <class T>
__device__ inline void store8(void *base, int64_t i, const float (&f)[8]) {
    vector8<T> v;
    narrow(f, v);
    store8(base, i, v);
}

template <class T>
__device__ inline void add_to(float (&sum)[8], const vector8<T> &v) {
    float more[8];
    widen(v, more);
#pragma unroll
    for (int k = 0; k < 8; k++)
        sum[k] += more[k];
}

/* Eight floats of a table with an entry a channel, from a multiple of 8 on. */
__device__ inline void load_channels(const float *table, int first, float (&f)[8]) {
    load8<float>(table + first, 0, f);
}

__device__ inline float rectified(float value) {
    return value < 0.0f ? 0.0f : value; /* NaN stays */
}

/* ---- where they lie ----------------------------------------------------------------------- */

/* Eight channels of one tensor. */
template <class T>
struct plain_column {
    enum { CLOSE = 1 }; /* its elements lie close: several pixels can be under way at a time */
    int64_t first;      /* vectors, of pixel 0 */
    int64_t step;       /* vectors a pixel */

    __device__ vector8<T> load(const void *base, int64_t pixel) const {
        return load8<T>(base, first + pixel * step);
    }
    /* `fresh`: what lay there is not added to, so that padding must be written too */
    __device__ void store(void *base, int64_t pixel, const vector8<T> &v, bool fresh) const {
        (void)fresh; /* padding is within the vectors */
        store8(base, first + pixel * step, v);
    }
};

/* One tensor. Views are parameters of kernels: how x lies. */
struct plain_view {
    enum { plain = 1 };
    int pitch;

    template <class T>
    __device__ plain_column<T> column(int group) const {
        return {group, pitch / 8};
    }
};

/* Elements of `SIZE` bytes at a time. */
template <int SIZE>
struct lane_word;
template <>
struct lane_word<2> {
    typedef unsigned short type;
};
template <>
struct lane_word<4> {
    typedef uint32_t type;
};

/* Eight channels of a stacked tensor, in pieces of GRAIN that lie together. */
template <class T, int GRAIN>
struct stacked_column {
    enum { PIECES = 8 / GRAIN, CLOSE = GRAIN > 1 };
    uint32_t first[PIECES]; /* elements, of pixel 0 */
    uint32_t step[PIECES];  /* elements a pixel; 0: there are no such channels */
    uint32_t pad;           /* elements of padding that follow piece p: bits 4 p to 4 p + 3 */

    __device__ vector8<T> load(const void *base, int64_t pixel) const;
    __device__ void store(void *base, int64_t pixel, const vector8<T> &v, bool fresh) const;
};

/* Element `k` of a vector as its bits, and back. */
__device__ inline unsigned short lane_of(const vector8<bfloat16> &v, int k) {
    return (unsigned short)(v.w[k / 2] >> (k % 2 * 16));
}

__device__ inline uint32_t lane_of(const vector8<float> &v, int k) {
    return v.w[k];
}

__device__ inline void put_lane(vector8<bfloat16> &v, int k, unsigned short bits) {
    v.w[k / 2] |= (uint32_t)bits << (k % 2 * 16);
}

__device__ inline void put_lane(vector8<float> &v, int k, uint32_t bits) {
    v.w[k] = bits;
}

template <class T, int GRAIN>
__device__ inline vector8<T> stacked_column<T, GRAIN>::load(const void *base, int64_t pixel) const {
    vector8<T> v = {};
#pragma unroll
    for (int p = 0; p < PIECES; p++) {
        if (!step[p]) continue;
        const T *at = static_cast<const T *>(base) + first[p] + (size_t)pixel * step[p];
        if constexpr (GRAIN == 4 && sizeof(T) == 4) {
            v.set(p, *reinterpret_cast<const uint4 *>(at));
        } else if constexpr (GRAIN == 4) {
            uint2 q = *reinterpret_cast<const uint2 *>(at);
            v.w[2 * p] = q.x;
            v.w[2 * p + 1] = q.y;
        } else {
            put_lane(v, p, *reinterpret_cast<const typename lane_word<sizeof(T)>::type *>(at));
        }
    }
    return v;
}

template <class T, int GRAIN>
__device__ inline void stacked_column<T, GRAIN>::store(void *base, int64_t pixel,
                                                       const vector8<T> &v, bool fresh) const {
    typedef typename lane_word<sizeof(T)>::type word;
#pragma unroll
    for (int p = 0; p < PIECES; p++) {
        if (!step[p]) continue;
        T *at = static_cast<T *>(base) + first[p] + (size_t)pixel * step[p];
        if constexpr (GRAIN == 4 && sizeof(T) == 4)
            *reinterpret_cast<uint4 *>(at) = v.get(p);
        else if constexpr (GRAIN == 4)
            *reinterpret_cast<uint2 *>(at) = make_uint2(v.w[2 * p], v.w[2 * p + 1]);
        else
            *reinterpret_cast<word *>(at) = lane_of(v, p);
        if (!fresh || pad == 0) continue;
        int padding = (int)(pad >> 4 * p & 15);
        for (int k = 0; k < padding; k++)
            reinterpret_cast<word *>(at)[GRAIN + k] = 0;
    }
}

/* A stacked tensor whose parts begin at channels that are multiples of GRAIN: 4 or 1. */
template <int GRAIN>
struct stacked_view {
    enum { plain = 0 };
    struct part {
        size_t offset, moments; /* bytes */
        int first, channels, pitch;
    };
    int parts;
    part list[CUDA_MAX_PARTS];

    explicit stacked_view(const cuda_layout &layout) : parts(layout.parts), list{} {
        for (int i = 0; i < parts; i++) {
            const cuda_part &p = layout.part[i];
            list[i] = {p.offset, p.moments, p.first, p.channels, p.pitch};
        }
    }

    /* The part that has a channel, or -1 beyond the last. */
    __device__ int find(int channel) const {
        for (int i = parts - 1; i >= 0; i--)
            if (channel >= list[i].first)
                return channel < list[i].first + list[i].channels ? i : -1;
        return -1;
    }

    template <class T>
    __device__ stacked_column<T, GRAIN> column(int group) const {
        stacked_column<T, GRAIN> c;
        c.pad = 0;
#pragma unroll
        for (int p = 0; p < 8 / GRAIN; p++) {
            int channel = group * 8 + p * GRAIN, i = find(channel);
            c.first[p] = 0;
            c.step[p] = 0;
            if (i < 0) continue;
            int within = channel - list[i].first;
            bool last = within + GRAIN >= list[i].channels;
            c.first[p] = (uint32_t)(list[i].offset / sizeof(T)) + (uint32_t)within;
            c.step[p] = (uint32_t)list[i].pitch;
            if (last) c.pad |= (uint32_t)(list[i].pitch - within - GRAIN) << 4 * p;
        }
        return c;
    }
};

/* ---- choosing an instance ----------------------------------------------------------------- */

/* f(an element of the type) */
template <class F>
void for_type(cuda_type type, F f) {
    if (type == CUDA_FLOAT)
        f(float());
    else
        f(bfloat16());
}

/* f(the view of a tensor) */
template <class F>
void for_view(const cuda_layout &layout, F f) {
    bool fours = true;
    for (int i = 0; i < layout.parts; i++)
        fours = fours && layout.part[i].first % 4 == 0;
    if (!layout.stacked)
        f(plain_view{layout.part[0].pitch});
    else if (fours)
        f(stacked_view<4>(layout));
    else
        f(stacked_view<1>(layout));
}

/* f(an element of the type, the view of a tensor) */
template <class F>
void for_type_and_view(cuda_type type, const cuda_layout &layout, F f) {
    for_type(type, [&](auto element) { for_view(layout, [&](auto view) { f(element, view); }); });
}

/* ---- kernels with a thread per vector ----------------------------------------------------- */

inline const cuda_state *state_of(const cuda_call *c) {
    return static_cast<const cuda_state *>(c->state);
}

/* Vectors of eight in a tensor, without what rounds up its bytes. */
inline int64_t vectors_of(const cuda_layout &layout) {
    return layout.pixels * (layout.part[0].pitch / 8);
}

/* Blocks for `count` threads' work of `threads` a block; grids of elementwise kernels loop. */
inline unsigned blocks_for(const ole_device_context *context, int64_t count, int threads) {
    int64_t blocks = (count + threads - 1) / threads;
    int64_t most = (int64_t)context->multiprocessors * (4096 / threads);
    return (unsigned)(blocks < most ? (blocks > 0 ? blocks : 1) : most);
}

enum { EACH_THREADS = 256 };

/* This thread's vectors of `count`, in a kernel that LAUNCH_EACH starts. */
#define FOR_EACH(i, count)                                                                         \
    for (int64_t i = (int64_t)blockIdx.x * EACH_THREADS + threadIdx.x; i < (count);                \
         i += (int64_t)gridDim.x * EACH_THREADS)

/* kernel<the type's element>(arguments, count) on context->stream. */
#define LAUNCH_EACH(context, type, count, kernel, ...)                                             \
    do {                                                                                           \
        for_type(type, [&](auto element) {                                                         \
            kernel<decltype(element)><<<blocks_for(context, count, EACH_THREADS), EACH_THREADS, 0, \
                                        (context)->stream>>>(__VA_ARGS__, count);                  \
        });                                                                                        \
        cuda_launched(context, #kernel);                                                           \
    } while (0)

#endif
