/*
 * src/device/cuda/conv/narrow.cuh - shared by the kernels of the narrow convolutions: tiles of
 * pixels, how they are brought into shared memory, and the products of a tile's rows.
 *
 * A tile is ROWS rows of 16 pixels: 16 columns of one image, or 8 columns each of two, so that a
 * row of it is the 16 rows of a matrix product.  In shared memory a tile has a border of one pixel
 * around each image, zero outside the image.  A product for the tap (i, j) of the kernel reads the
 * rows i further down and j further right; the row of the tile that was loaded for one tap serves
 * the taps above and below it too, for other rows of sums (multiply_rows).
 *
 * Lines of shared memory are 16 bytes longer than their contents, an odd multiple of 16 bytes:
 * eight lines that follow each other then lie in different banks.
 */
#ifndef OLE_SRC_DEVICE_CUDA_CONV_NARROW_CUH
#define OLE_SRC_DEVICE_CUDA_CONV_NARROW_CUH

#include "device/cuda/conv/narrow.h"
#include "device/cuda/conv/narrow_mma.cuh"

enum { NARROW_TAPS = 9, NARROW_PAD = 8 /* elements that a line of shared memory is longer */ };

struct narrow_images {
    int n, h, w;
};

/* A tile's first pixel. */
struct narrow_place {
    int image, row, column;
};

template <int COLUMNS_, int ROWS_>
struct narrow_tile {
    enum {
        COLUMNS = COLUMNS_,
        ROWS = ROWS_,
        IMAGES = 16 / COLUMNS,
        PIXELS = 16 * ROWS,
        HALO_ROWS = ROWS + 2,
        HALO_COLUMNS = COLUMNS + 2,
        HALO = IMAGES * HALO_ROWS * HALO_COLUMNS, /* pixels, with the border */
    };

    __host__ __device__ static int across(const narrow_images &size) {
        return (size.w + COLUMNS - 1) / COLUMNS;
    }
    __host__ __device__ static int down(const narrow_images &size) {
        return (size.h + ROWS - 1) / ROWS;
    }
    __host__ __device__ static int count(const narrow_images &size) {
        return across(size) * down(size) * ((size.n + IMAGES - 1) / IMAGES);
    }

    /* Where tile `index` lies. */
    __host__ __device__ static narrow_place place(const narrow_images &size, int index) {
        int x = index % across(size), rest = index / across(size);
        return {rest / down(size) * IMAGES, rest % down(size) * ROWS, x * COLUMNS};
    }

    /* Pixel `at` (0 to 15) of the row that a tap `below` and `right` reads, among HALO. */
    __host__ __device__ static int halo(int at, int below, int right) {
        return (at / COLUMNS * HALO_ROWS + below) * HALO_COLUMNS + at % COLUMNS + right;
    }

    /* Pixels from the first of the tile's first image to pixel `index` of HALO; -1: outside. */
    __host__ __device__ static int outer(const narrow_images &size, const narrow_place &place,
                                         int index) {
        int column = place.column + index % HALO_COLUMNS - 1, rest = index / HALO_COLUMNS;
        int row = place.row + rest % HALO_ROWS - 1, image = rest / HALO_ROWS;
        bool inside = place.image + image < size.n && row >= 0 && row < size.h && column >= 0 &&
                      column < size.w;
        return inside ? (image * size.h + row) * size.w + column : -1;
    }

    /* The same for pixel `index` of PIXELS, without a border. */
    __host__ __device__ static int inner(const narrow_images &size, const narrow_place &place,
                                         int index) {
        int at = index % 16, row = place.row + index / 16;
        int column = place.column + at % COLUMNS, image = at / COLUMNS;
        bool inside = place.image + image < size.n && row < size.h && column < size.w;
        return inside ? (image * size.h + row) * size.w + column : -1;
    }
};

/* The first element of the tile's first image. */
template <class T>
__device__ inline T *image_of(T *base, const narrow_images &size, const narrow_place &place,
                              int pitch) {
    return base + (int64_t)place.image * size.h * size.w * pitch;
}

/* Lines tap * OUT + o of shared memory = w[o, tap, first to first + 8 * VECTORS), zero beyond
 * `in`; w is [OUT, 9, in].  All THREADS of the block work on it. */
template <int OUT, int VECTORS, int LINE, int THREADS>
__device__ inline void copy_weights(bfloat16 *to, const bfloat16 *w, int in, int first) {
#pragma unroll
    for (int i = (int)threadIdx.x; i < NARROW_TAPS * OUT * VECTORS; i += THREADS) {
        int line = i / VECTORS, channel = first + i % VECTORS * 8;
        int row = line % OUT * NARROW_TAPS + line / OUT;
        bool there = channel < in;
        copy16(to + line * LINE + i % VECTORS * 8, w + (there ? row * in + channel : 0), there);
    }
}

/*
 * sums[r] += (row r + t of a tile) b[t], t < 3, for ROWS rows of 16 pixels and N blocks of 16
 * channels.  `row`: what this lane loads of row 0; rows are `step` elements apart.
 */
template <int ROWS, int N>
__device__ inline void multiply_rows(float (&sums)[ROWS][2 * N][4], const bfloat16 *row, int step,
                                     const uint32_t (&b)[3][N][4]) {
#pragma unroll
    for (int h = 0; h < ROWS + 2; h++) {
        uint32_t a[4];
        load_matrices(a, row + h * step);
#pragma unroll
        for (int t = 0; t < 3; t++) {
            if (h - t < 0 || h - t >= ROWS) continue;
#pragma unroll
            for (int n = 0; n < N; n++) {
                multiply_add(sums[h - t][2 * n], a, b[t][n][0], b[t][n][1]);
                multiply_add(sums[h - t][2 * n + 1], a, b[t][n][2], b[t][n][3]);
            }
        }
    }
}

/* Writes a warp's sums of one row of 16 pixels to lines of floats in shared memory. */
template <int BLOCKS>
__device__ inline void put_sums(float *to, int line, int lane, const float (&sums)[BLOCKS][4]) {
    float *first = to + lane / 4 * line + lane % 4 * 2, *second = first + 8 * line;
#pragma unroll
    for (int n = 0; n < BLOCKS; n++) {
        *reinterpret_cast<float2 *>(first + n * 8) = make_float2(sums[n][0], sums[n][1]);
        *reinterpret_cast<float2 *>(second + n * 8) = make_float2(sums[n][2], sums[n][3]);
    }
}

/* Adds the eight floats at `from`, aligned to 16 bytes. */
__device__ inline void add_floats(float (&sum)[8], const float *from) {
    add_to(sum, load8<float>(from, 0));
}

/* Lets a kernel have so much dynamic shared memory; false where the GPU has less. */
template <class KERNEL>
bool allow_shared(KERNEL *kernel, int bytes) {
    cudaError_t code =
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    if (code != cudaSuccess) cudaGetLastError();
    return code == cudaSuccess;
}

inline narrow_images images_of(const cuda_problem *p) {
    return {(int)p->n, (int)p->in_h, (int)p->in_w};
}

#endif
