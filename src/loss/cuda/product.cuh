/*
 * src/loss/cuda/product.cuh - a tile of a float64 matrix product by a block on the tensor cores
 * (mma m8n8k4): 32 x 32 entries, four warps with 16 x 16 each.  What is multiplied is two lists of
 * vectors at any strides, so that transposes cost nothing.
 */
#ifndef OLE_SRC_LOSS_CUDA_PRODUCT_CUH
#define OLE_SRC_LOSS_CUDA_PRODUCT_CUH

#include <stdint.h>

enum {
    PRODUCT_THREADS = 128,
    PRODUCT_TILE = 32,
    PRODUCT_DEPTH = 32,
    PRODUCT_PITCH = PRODUCT_DEPTH + 4, /* 4 mod 16: a half-warp reads distinct banks */
    PRODUCT_LOADS = PRODUCT_TILE * PRODUCT_DEPTH / PRODUCT_THREADS,
};

/* Element k of vector i is at[i * vector + k * element]; one of the strides is 1. */
struct Vectors {
    const double *at;
    int64_t vector, element;
    int count;
};

struct ProductMemory {
    double a[PRODUCT_TILE * PRODUCT_PITCH], b[PRODUCT_TILE * PRODUCT_PITCH];
};

/* A thread's share of the tile: for each 8 x 8 of its warp's 2 x 2 two neighbours in a row. */
struct ProductSums {
    double at[2][2][2];
};

/* Which element of a tile's vectors a thread loads: along the memory. */
__device__ static inline void product_place(const Vectors &v, int q, int *i, int *k) {
    int e = (int)threadIdx.x + q * PRODUCT_THREADS;
    bool along = v.element == 1;
    *i = along ? e / PRODUCT_DEPTH : e % PRODUCT_TILE;
    *k = along ? e % PRODUCT_DEPTH : e / PRODUCT_TILE;
}

__device__ static inline void product_fetch(const Vectors &v, int first, int k0, int depth,
                                            double (&to)[PRODUCT_LOADS]) {
#pragma unroll
    for (int q = 0; q < PRODUCT_LOADS; q++) {
        int i, k;
        product_place(v, q, &i, &k);
        bool there = first + i < v.count && k0 + k < depth;
        to[q] = there ? v.at[(first + i) * v.vector + (k0 + k) * v.element] : 0.0;
    }
}

__device__ static inline void product_put(const Vectors &v, const double (&from)[PRODUCT_LOADS],
                                          double *to) {
#pragma unroll
    for (int q = 0; q < PRODUCT_LOADS; q++) {
        int i, k;
        product_place(v, q, &i, &k);
        to[i * PRODUCT_PITCH + k] = from[q];
    }
}

/* c += a b: a is [8, 4], b [4, 8], a lane holds a[lane / 4][lane % 4] and b[lane % 4][lane / 4]. */
__device__ static inline void product_mma(double (&c)[2], double a, double b) {
    asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};"
                 : "+d"(c[0]), "+d"(c[1])
                 : "d"(a), "d"(b));
}

__device__ static inline void product_chunk(const ProductMemory *m, ProductSums &sums) {
    int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    const double *a = m->a + (warp / 2 * 16 + lane / 4) * PRODUCT_PITCH + lane % 4;
    const double *b = m->b + (warp % 2 * 16 + lane / 4) * PRODUCT_PITCH + lane % 4;
#pragma unroll
    for (int k = 0; k < PRODUCT_DEPTH; k += 4) {
        double a0 = a[k], a1 = a[8 * PRODUCT_PITCH + k];
        double b0 = b[k], b1 = b[8 * PRODUCT_PITCH + k];
        product_mma(sums.at[0][0], a0, b0);
        product_mma(sums.at[0][1], a0, b1);
        product_mma(sums.at[1][0], a1, b0);
        product_mma(sums.at[1][1], a1, b1);
    }
}

/* sums = the products of vectors i0.. of a with vectors j0.. of b over `depth` elements. All
 * threads of the block. */
__device__ static inline void product_tile(const Vectors &a, int i0, const Vectors &b, int j0,
                                           int depth, ProductMemory *m, ProductSums &sums) {
    double next_a[PRODUCT_LOADS], next_b[PRODUCT_LOADS];
    sums = ProductSums{};
    product_fetch(a, i0, 0, depth, next_a);
    product_fetch(b, j0, 0, depth, next_b);
    for (int k0 = 0; k0 < depth; k0 += PRODUCT_DEPTH) {
        __syncthreads(); /* the old contents have been read */
        product_put(a, next_a, m->a);
        product_put(b, next_b, m->b);
        __syncthreads();
        if (k0 + PRODUCT_DEPTH < depth) {
            product_fetch(a, i0, k0 + PRODUCT_DEPTH, depth, next_a);
            product_fetch(b, j0, k0 + PRODUCT_DEPTH, depth, next_b);
        }
        product_chunk(m, sums);
    }
}

/* body(i, j, value) for each entry of the thread; i, j count from the matrix's corner. */
template <typename Body>
__device__ static inline void product_entries(const ProductSums &sums, int i0, int j0, Body body) {
    int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    int i = i0 + warp / 2 * 16 + lane / 4, j = j0 + warp % 2 * 16 + 2 * (lane % 4);
#pragma unroll
    for (int p = 0; p < 2; p++)
#pragma unroll
        for (int q = 0; q < 2; q++)
#pragma unroll
            for (int e = 0; e < 2; e++)
                body(i + 8 * p, j + 8 * q + e, sums.at[p][q][e]);
}

#endif
