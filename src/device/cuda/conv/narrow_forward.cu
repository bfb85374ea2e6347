/*
 * src/device/cuda/conv/narrow_forward.cu - y of a narrow convolution: 3 x 3, to 16 or 32 channels.
 *
 * A thread block makes all channels of a tile of pixels.  It goes through the channels of x in
 * chunks: the tile with its border and the weights' share of the chunk are copied into shared
 * memory, STAGES - 1 chunks ahead of the products.  Warps share out the tile's rows, HIGH ways, and
 * the channels of a chunk, DEEP ways; the DEEP sums of an element are added in order at the end.
 */
#include "device/cuda/conv/narrow.cuh"

namespace {

struct forward_job {
    const bfloat16 *x, *w;
    const float *bias; /* or NULL */
    bfloat16 *y;
    narrow_images size;
    int in; /* channels of x */
};

template <int OUT_, int COLUMNS, int ROWS_, int HIGH_, int DEEP_, int CHUNK_, int STAGES_>
struct forward_shape {
    typedef narrow_tile<COLUMNS, ROWS_ * HIGH_> tile;
    enum {
        OUT = OUT_,
        ROWS = ROWS_, /* of a warp */
        HIGH = HIGH_,
        DEEP = DEEP_,
        CHUNK = CHUNK_,
        STAGES = STAGES_,
        THREADS = 32 * HIGH * DEEP,
        STEPS = CHUNK / (16 * DEEP), /* of 16 channels, of a warp in a chunk */
        VECTORS = CHUNK / 8,
        LINE = CHUNK + NARROW_PAD,
        X = tile::HALO * LINE, /* elements of a stage */
        STAGE = X + NARROW_TAPS * OUT * LINE,
        COPIES = (tile::HALO * VECTORS + THREADS - 1) / THREADS, /* of x, by a thread */
        SUM_LINE = OUT + 8, /* floats a pixel: a warp writes eight pixels to different banks */
        STAGE_BYTES = STAGES * STAGE * 2,
        SUM_BYTES = DEEP * tile::PIXELS * SUM_LINE * 4,
        BYTES = STAGE_BYTES > SUM_BYTES ? STAGE_BYTES : SUM_BYTES,
    };
};

/* The part of x that a thread copies in each chunk. */
template <class S>
struct forward_copies {
    const bfloat16 *image;
    int from[S::COPIES]; /* elements from `image` to its part of chunk 0; -1: zeros */

    __device__ forward_copies(const forward_job &job, const narrow_place &place)
        : image(image_of(job.x, job.size, place, job.in)) {
#pragma unroll
        for (int k = 0; k < S::COPIES; k++) {
            int i = (int)threadIdx.x + k * S::THREADS, pixel = -1;
            if (i < S::tile::HALO * S::VECTORS)
                pixel = S::tile::outer(job.size, place, i / S::VECTORS);
            from[k] = pixel < 0 ? -1 : pixel * job.in + i % S::VECTORS * 8;
        }
    }

    /* Chunk `chunk`, tile and weights, into a stage. */
    __device__ void start(const forward_job &job, bfloat16 *stage, int chunk) const {
        int first = chunk * S::CHUNK;
#pragma unroll
        for (int k = 0; k < S::COPIES; k++) {
            int i = (int)threadIdx.x + k * S::THREADS, vector = i % S::VECTORS * 8;
            bool there = from[k] >= 0 && first + vector < job.in;
            if (i >= S::tile::HALO * S::VECTORS) continue;
            copy16(stage + i / S::VECTORS * S::LINE + vector, image + (there ? from[k] + first : 0),
                   there);
        }
        copy_weights<S::OUT, S::VECTORS, S::LINE, S::THREADS>(stage + S::X, job.w, job.in, first);
    }
};

/* Adds a warp's share of a chunk's products. */
template <class S>
__device__ void multiply_chunk(float (&sums)[S::ROWS][S::OUT / 8][4], const bfloat16 *stage,
                               int row, int deep, int lane) {
    matrix_row x = down(lane), w = across(lane);
#pragma unroll
    for (int step = 0; step < S::STEPS; step++) {
        int channel = (deep * S::STEPS + step) * 16;
        const bfloat16 *weights = stage + S::X + w.row * S::LINE + channel + w.column;
#pragma unroll
        for (int right = 0; right < 3; right++) {
            uint32_t b[3][S::OUT / 16][4];
#pragma unroll
            for (int t = 0; t < 3; t++)
#pragma unroll
                for (int n = 0; n < S::OUT / 16; n++)
                    load_matrices(b[t][n], weights + ((t * 3 + right) * S::OUT + n * 16) * S::LINE);
            const bfloat16 *pixel =
                stage + S::tile::halo(x.row, row, right) * S::LINE + channel + x.column;
            multiply_rows<S::ROWS, S::OUT / 16>(sums, pixel, S::tile::HALO_COLUMNS * S::LINE, b);
        }
    }
}

/* Adds the DEEP sums of each element and the bias, and writes y. */
template <class S>
__device__ void finish(const forward_job &job, const narrow_place &place, const float *all) {
    bfloat16 *image = image_of(job.y, job.size, place, S::OUT);
    for (int i = (int)threadIdx.x; i < S::tile::PIXELS * (S::OUT / 8); i += S::THREADS) {
        int vector = i % (S::OUT / 8), pixel = i / (S::OUT / 8);
        int to = S::tile::inner(job.size, place, pixel);
        float sum[8] = {};
        if (to < 0) continue;
#pragma unroll
        for (int d = 0; d < S::DEEP; d++)
            add_floats(sum, all + (d * S::tile::PIXELS + pixel) * S::SUM_LINE + vector * 8);
        if (job.bias) add_floats(sum, job.bias + vector * 8);
        store8<bfloat16>(image, (int64_t)to * (S::OUT / 8) + vector, sum);
    }
}

template <class S>
__global__ void __launch_bounds__(S::THREADS) forward(forward_job job) {
    extern __shared__ __align__(16) unsigned char shared[];
    bfloat16 *stages = reinterpret_cast<bfloat16 *>(shared);
    float *all = reinterpret_cast<float *>(shared);
    int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    int row = warp / S::DEEP * S::ROWS, deep = warp % S::DEEP;
    int chunks = (job.in + S::CHUNK - 1) / S::CHUNK;
    narrow_place place = S::tile::place(job.size, (int)blockIdx.x);
    forward_copies<S> copies(job, place);
    float sums[S::ROWS][S::OUT / 8][4] = {};
#pragma unroll
    for (int chunk = 0; chunk < S::STAGES - 1; chunk++) {
        if (chunk < chunks) copies.start(job, stages + chunk * S::STAGE, chunk);
        copy_commit();
    }
    for (int chunk = 0; chunk < chunks; chunk++) {
        int next = chunk + S::STAGES - 1;
        copy_wait<S::STAGES - 2>();
        __syncthreads(); /* the chunk has arrived, and the last one's buffer is free */
        if (next < chunks) copies.start(job, stages + next % S::STAGES * S::STAGE, next);
        copy_commit(); /* perhaps of nothing: groups count chunks */
        multiply_chunk<S>(sums, stages + chunk % S::STAGES * S::STAGE, row, deep, lane);
    }
    copy_wait<0>();
    __syncthreads(); /* sums take the place of the stages */
#pragma unroll
    for (int r = 0; r < S::ROWS; r++)
        put_sums(all + (deep * S::tile::PIXELS + (row + r) * 16) * S::SUM_LINE, S::SUM_LINE, lane,
                 sums[r]);
    __syncthreads();
    finish<S>(job, place, all);
}

template <class S>
bool run(ole_device_context *context, const cuda_problem *p, const cuda_arrays *arrays) {
    forward_job job = {static_cast<const bfloat16 *>(arrays->x),
                       static_cast<const bfloat16 *>(arrays->w),
                       p->bias ? arrays->bias : NULL,
                       static_cast<bfloat16 *>(arrays->y),
                       images_of(p),
                       (int)p->in};
    if (!allow_shared(forward<S>, S::BYTES)) return false;
    unsigned tiles = (unsigned)S::tile::count(job.size);
    forward<S><<<tiles, S::THREADS, S::BYTES, arrays->stream>>>(job);
    cuda_launched(context, "narrow forward");
    return true;
}

#define VARIANT(out, columns, rows, high, deep, chunk, stages)                                     \
    {                                                                                              \
        "narrow:" #columns "x" #rows "x" #high ":" #deep "x" #chunk ":" #stages, out, columns,     \
            chunk, NULL, run<forward_shape<out, columns, rows, high, deep, chunk, stages>>         \
    }

const narrow_variant variants[] = {
    VARIANT(16, 16, 4, 4, 2, 32, 3), VARIANT(16, 16, 4, 2, 2, 32, 2),
    VARIANT(16, 16, 4, 1, 4, 64, 2), VARIANT(16, 16, 4, 4, 1, 16, 3),
    VARIANT(16, 16, 2, 4, 1, 16, 3), VARIANT(16, 8, 4, 2, 2, 32, 3),
    VARIANT(16, 8, 4, 1, 4, 64, 2),  VARIANT(16, 8, 2, 1, 8, 128, 2),
    VARIANT(16, 8, 4, 1, 1, 16, 3),  VARIANT(32, 16, 4, 2, 2, 32, 2),
    VARIANT(32, 16, 4, 1, 2, 32, 2), VARIANT(32, 16, 2, 2, 1, 32, 2),
    VARIANT(32, 16, 2, 4, 1, 16, 3), VARIANT(32, 8, 4, 1, 2, 32, 2),
    VARIANT(32, 8, 2, 1, 4, 64, 2),  VARIANT(32, 8, 2, 2, 1, 16, 3),
};

} // namespace

const narrow_table narrow_forward = {variants, sizeof variants / sizeof *variants};
