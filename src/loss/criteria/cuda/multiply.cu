/*
 * src/loss/criteria/cuda/multiply.cu - products of float64 matrices whose sizes may be known on the
 * GPU alone, by tiles on the tensor cores (loss/cuda/product.cuh).
 */
#include "loss/criteria/cuda/call.h"
#include "loss/cuda/product.cuh"

namespace {

__global__ void __launch_bounds__(PRODUCT_THREADS) multiply(const criterion_product p) {
    __shared__ ProductMemory memory;
    int used = p.used ? *p.used : 0, n = p.n < 0 ? used : p.n, m = p.m < 0 ? used : p.m;
    int i0 = (int)blockIdx.y * PRODUCT_TILE, j0 = (int)blockIdx.x * PRODUCT_TILE;
    if (i0 >= n || j0 >= m) return; /* the whole block */
    ProductSums sums;
    product_tile(Vectors{p.a.at, p.a.vector, p.a.element, n}, i0,
                 Vectors{p.b.at, p.b.vector, p.b.element, m}, j0, p.depth < 0 ? used : p.depth,
                 &memory, sums);
    product_entries(sums, i0, j0, [&](int i, int j, double v) {
        if (i < n && j < m) p.c[i * p.pitch + j] = v;
    });
}

} // namespace

cudaError_t criterion_multiply(const criterion_product *product, int most, cudaStream_t stream) {
    int n = product->n < 0 ? most : product->n, m = product->m < 0 ? most : product->m;
    dim3 grid((unsigned)(m + PRODUCT_TILE - 1) / PRODUCT_TILE,
              (unsigned)(n + PRODUCT_TILE - 1) / PRODUCT_TILE);
    multiply<<<grid, PRODUCT_THREADS, 0, stream>>>(*product);
    return cudaGetLastError();
}
