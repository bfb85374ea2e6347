/*
 * src/base/philox.h - Philox4x32-10 (Salmon et al. 2011): random numbers as a function of a
 * counter.
 *
 * Every random choice of a training run is ole_philox(seed, stream, a, b), where a and b identify
 * it (an epoch and a position, a step and a sample, a weight's index).  So the numbers of any step
 * can be drawn in any order, on any device, without drawing those before it.
 *
 * Streams are independent.  Each user defines the number of its stream, 1 to 255, as an enumerator
 * OLE_RANDOM_...; tests/check_layers.py finds duplicates.
 */
#ifndef OLE_SRC_BASE_PHILOX_H
#define OLE_SRC_BASE_PHILOX_H

#include <math.h>
#include <stdint.h>

#ifdef __CUDACC__
#define OLE_PHILOX __host__ __device__ static inline /* kernels draw the same numbers */
#else
#define OLE_PHILOX static inline
#endif

/* Four words for the counter (a, b) of a stream. */
OLE_PHILOX void ole_philox(uint64_t seed, uint32_t stream, uint64_t a, uint64_t b,
                           uint32_t out[4]) {
    uint32_t x0 = (uint32_t)b, x1 = (uint32_t)(b >> 32), x2 = (uint32_t)a, x3 = (uint32_t)(a >> 32);
    uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32) ^ (stream << 24);
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)x0 * 0xD2511F53u, p1 = (uint64_t)x2 * 0xCD9E8D57u;
        x0 = (uint32_t)(p1 >> 32) ^ x1 ^ k0;
        x1 = (uint32_t)p1;
        x2 = (uint32_t)(p0 >> 32) ^ x3 ^ k1;
        x3 = (uint32_t)p0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    out[0] = x0;
    out[1] = x1;
    out[2] = x2;
    out[3] = x3;
}

/* A word as a number in [0, 1), exact in float. */
OLE_PHILOX float ole_uniform(uint32_t word) {
    return (float)(word >> 8) * 0x1p-24f;
}

/* A word as an integer in [0, n). */
OLE_PHILOX uint32_t ole_below(uint32_t word, uint32_t n) {
    return (uint32_t)(((uint64_t)word * n) >> 32);
}

#endif
