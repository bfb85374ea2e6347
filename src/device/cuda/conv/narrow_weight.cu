/*
 * src/device/cuda/conv/narrow_weight.cu - the gradient of the weight of a narrow convolution.
 *
 * dw[o, tap, c] is the sum over pixels p of dy[p, o] x[p + tap - 1, c]: few numbers, each a long
 * sum.  Tiles of pixels are dealt out to slices.  A thread block sums a chunk of x's channels over
 * the tiles of its slice, copying one tile of x and dy into shared memory while it works on
 * another.  Warps share out the tile's rows, DEEP ways, and 16 x 16 blocks of (o, c); a warp keeps
 * all nine taps of its block, so that a row of x serves three of them.  What the slices sum is
 * written as floats to workspace, and a second kernel adds it in the order of the slices.
 */
#include "device/cuda/conv/narrow.cuh"

namespace {

struct weight_job {
    const bfloat16 *x, *dy;
    float *partial; /* [slices, OUT, 9, in] */
    narrow_images size;
    int in; /* channels of x */
    int slices;
};

template <int OUT_, int COLUMNS, int ROWS_, int DEEP_, int CHUNK_, int FILL_>
struct weight_shape {
    typedef narrow_tile<COLUMNS, ROWS_ * DEEP_> tile;
    enum {
        OUT = OUT_,
        ROWS = ROWS_, /* of a warp */
        DEEP = DEEP_,
        CHUNK = CHUNK_,
        FILL = FILL_,             /* thread blocks for each multiprocessor */
        WIDE = CHUNK / 16,        /* warps side by side in the chunk */
        BLOCKS = OUT / 16 * WIDE, /* of 16 x 16 numbers: warps that work on the same rows */
        THREADS = 32 * BLOCKS * DEEP,
        VECTORS = CHUNK / 8,
        LINE = CHUNK + NARROW_PAD,
        Y_VECTORS = OUT / 8,
        Y_LINE = OUT + NARROW_PAD,
        X = tile::HALO * LINE, /* elements of a stage */
        STAGE = X + tile::PIXELS * Y_LINE,
        SUM_LINE = CHUNK + 8, /* floats of (o, tap): eight o lie in different banks */
        SUMS = OUT * NARROW_TAPS * SUM_LINE,
        STAGE_BYTES = 2 * STAGE * 2,
        SUM_BYTES = DEEP * SUMS * 4,
        BYTES = STAGE_BYTES > SUM_BYTES ? STAGE_BYTES : SUM_BYTES,
    };
};

/* Copies tile `index` into a stage: channels from `first` of x with their border, and dy. */
template <class S>
__device__ void copy_tile(const weight_job &job, bfloat16 *stage, int index, int first) {
    narrow_place place = S::tile::place(job.size, index);
    const bfloat16 *x = image_of(job.x, job.size, place, job.in);
    const bfloat16 *dy = image_of(job.dy, job.size, place, S::OUT);
    for (int i = (int)threadIdx.x; i < S::tile::HALO * S::VECTORS; i += S::THREADS) {
        int vector = i % S::VECTORS * 8, channel = first + vector;
        int pixel = S::tile::outer(job.size, place, i / S::VECTORS);
        bool there = pixel >= 0 && channel < job.in;
        copy16(stage + i / S::VECTORS * S::LINE + vector,
               x + (there ? pixel * job.in + channel : 0), there);
    }
    for (int i = (int)threadIdx.x; i < S::tile::PIXELS * S::Y_VECTORS; i += S::THREADS) {
        int vector = i % S::Y_VECTORS * 8;
        int pixel = S::tile::inner(job.size, place, i / S::Y_VECTORS);
        copy16(stage + S::X + i / S::Y_VECTORS * S::Y_LINE + vector,
               dy + (pixel < 0 ? 0 : pixel * S::OUT + vector), pixel >= 0);
    }
}

/* Adds a warp's products of a tile: rows from `row`, dy's channels from `out`, x's from `in`. */
template <class S>
__device__ void multiply_tile(float (&sums)[NARROW_TAPS][2][4], const bfloat16 *stage, int row,
                              int out, int in, int lane) {
    matrix_row x = down(lane), y = across(lane);
    const bfloat16 *dy = stage + S::X + (row * 16 + y.row) * S::Y_LINE + out + y.column;
    uint32_t a[3][4]; /* the latest three rows of dy */
#pragma unroll
    for (int h = 0; h < S::ROWS + 2; h++) {
        if (h < S::ROWS) load_transposed(a[h % 3], dy + h * 16 * S::Y_LINE);
#pragma unroll
        for (int right = 0; right < 3; right++) {
            uint32_t b[4];
            load_transposed(b,
                            stage + S::tile::halo(x.row, row + h, right) * S::LINE + in + x.column);
#pragma unroll
            for (int t = 0; t < 3; t++) {
                if (h - t < 0 || h - t >= S::ROWS) continue;
                multiply_add(sums[t * 3 + right][0], a[(h - t) % 3], b[0], b[1]);
                multiply_add(sums[t * 3 + right][1], a[(h - t) % 3], b[2], b[3]);
            }
        }
    }
}

/* Adds the DEEP sums of the block's numbers and writes its slice's. */
template <class S>
__device__ void write_partial(const weight_job &job, const float *all, int first) {
    float *to = job.partial + (int64_t)blockIdx.y * S::OUT * NARROW_TAPS * job.in;
    for (int i = (int)threadIdx.x; i < S::OUT * NARROW_TAPS * S::VECTORS; i += S::THREADS) {
        int line = i / S::VECTORS, vector = i % S::VECTORS * 8;
        float sum[8] = {};
        if (first + vector >= job.in) continue;
#pragma unroll
        for (int d = 0; d < S::DEEP; d++)
            add_floats(sum, all + d * S::SUMS + line * S::SUM_LINE + vector);
        store8<float>(to + line * job.in + first + vector, 0, sum);
    }
}

template <class S>
__global__ void __launch_bounds__(S::THREADS) weight(weight_job job) {
    extern __shared__ __align__(16) unsigned char shared[];
    bfloat16 *stages = reinterpret_cast<bfloat16 *>(shared);
    float *all = reinterpret_cast<float *>(shared);
    int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    int deep = warp / S::BLOCKS, out = warp % S::BLOCKS / S::WIDE * 16, in = warp % S::WIDE * 16;
    int tiles = S::tile::count(job.size), first = (int)blockIdx.x * S::CHUNK;
    float sums[NARROW_TAPS][2][4] = {};
    copy_tile<S>(job, stages, (int)blockIdx.y, first);
    copy_commit();
    int at = 0; /* the stage of the tile at work */
    for (int tile = (int)blockIdx.y; tile < tiles; tile += job.slices, at = 1 - at) {
        int next = tile + job.slices;
        copy_wait<0>();
        __syncthreads(); /* the tile is there, and the other stage is free */
        if (next < tiles) copy_tile<S>(job, stages + (1 - at) * S::STAGE, next, first);
        copy_commit();
        multiply_tile<S>(sums, stages + at * S::STAGE, deep * S::ROWS, out, in, lane);
    }
    copy_wait<0>();
    __syncthreads(); /* sums take the place of the stages */
#pragma unroll
    for (int tap = 0; tap < NARROW_TAPS; tap++)
        put_sums(all + deep * S::SUMS + (out * NARROW_TAPS + tap) * S::SUM_LINE + in,
                 NARROW_TAPS * S::SUM_LINE, lane, sums[tap]);
    __syncthreads();
    write_partial<S>(job, all, first);
}

/* ---- adding the slices -------------------------------------------------------------------- */

enum { ADD_WARPS = 8 };

/* dw = the sum of `slices` partial sums.  A warp adds every ADD_WARPS-th slice of 32 vectors, and
 * the first warp what they have. */
__global__ void __launch_bounds__(32 * ADD_WARPS)
    add_slices(const float *partial, int slices, int vectors, bfloat16 *dw) {
    __shared__ __align__(16) float sums[ADD_WARPS][32][8];
    int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    int vector = (int)blockIdx.x * 32 + lane;
    float sum[8] = {};
    if (vector < vectors) {
#pragma unroll 4
        for (int slice = warp; slice < slices; slice += ADD_WARPS)
            add_floats(sum, partial + ((int64_t)slice * vectors + vector) * 8);
    }
    store8<float>(sums[warp][lane], 0, sum);
    __syncthreads();
    if (warp > 0 || vector >= vectors) return;
#pragma unroll
    for (int other = 1; other < ADD_WARPS; other++)
        add_floats(sum, sums[other][lane]);
    store8<bfloat16>(dw, vector, sum);
}

/* ---- launching ---------------------------------------------------------------------------- */

template <class S>
int chunks_of(const cuda_problem *p) {
    return (int)((p->in + S::CHUNK - 1) / S::CHUNK);
}

/* Slices: so many that all chunks' thread blocks fill the GPU, with the same number of tiles each
 * but for the last. */
template <class S>
int slices_of(const ole_device_context *context, const cuda_problem *p) {
    int tiles = S::tile::count(images_of(p));
    int wanted = S::FILL * context->multiprocessors / chunks_of<S>(p);
    if (wanted > tiles) wanted = tiles;
    if (wanted < 1) wanted = 1;
    int each = (tiles + wanted - 1) / wanted;
    return (tiles + each - 1) / each;
}

template <class S>
size_t workspace(const ole_device_context *context, const cuda_problem *p) {
    return (size_t)slices_of<S>(context, p) * (size_t)cuda_problem_w(p) * sizeof(float);
}

template <class S>
bool run(ole_device_context *context, const cuda_problem *p, const cuda_arrays *arrays) {
    weight_job job = {static_cast<const bfloat16 *>(arrays->x),
                      static_cast<const bfloat16 *>(arrays->y),
                      static_cast<float *>(arrays->workspace),
                      images_of(p),
                      (int)p->in,
                      slices_of<S>(context, p)};
    if (!allow_shared(weight<S>, S::BYTES)) return false;
    dim3 grid((unsigned)chunks_of<S>(p), (unsigned)job.slices);
    weight<S><<<grid, S::THREADS, S::BYTES, arrays->stream>>>(job);
    cuda_launched(context, "narrow weight gradient");
    int vectors = (int)(cuda_problem_w(p) / 8);
    unsigned blocks = (unsigned)(vectors + 31) / 32;
    bfloat16 *dw = static_cast<bfloat16 *>(arrays->w);
    add_slices<<<blocks, 32 * ADD_WARPS, 0, arrays->stream>>>(job.partial, job.slices, vectors, dw);
    cuda_launched(context, "adding slices");
    return true;
}

#define VARIANT(out, columns, rows, deep, chunk, fill)                                             \
    {                                                                                              \
        "narrow:" #columns "x" #rows "x" #deep ":" #chunk ":" #fill, out, columns, chunk,          \
            workspace<weight_shape<out, columns, rows, deep, chunk, fill>>,                        \
            run<weight_shape<out, columns, rows, deep, chunk, fill>>                               \
    }

const narrow_variant variants[] = {
    VARIANT(16, 16, 4, 4, 32, 1), VARIANT(16, 16, 4, 4, 32, 2), VARIANT(16, 16, 4, 2, 64, 1),
    VARIANT(16, 16, 4, 2, 64, 2), VARIANT(16, 16, 4, 4, 16, 2), VARIANT(16, 16, 2, 4, 16, 4),
    VARIANT(16, 8, 4, 2, 32, 2),  VARIANT(16, 8, 4, 2, 64, 1),  VARIANT(16, 8, 4, 2, 64, 2),
    VARIANT(16, 8, 4, 2, 16, 2),  VARIANT(32, 16, 4, 2, 32, 1), VARIANT(32, 16, 4, 2, 32, 2),
    VARIANT(32, 16, 4, 2, 16, 2), VARIANT(32, 8, 4, 2, 32, 2),  VARIANT(32, 8, 4, 2, 16, 2),
};

} // namespace

const narrow_table narrow_weight = {variants, sizeof variants / sizeof *variants};
