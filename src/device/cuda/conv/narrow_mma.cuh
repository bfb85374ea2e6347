/*
 * src/device/cuda/conv/narrow_mma.cuh - the instructions that the narrow convolutions are made of:
 * copies into shared memory that a thread need not wait for, and products of small matrices by a
 * warp.
 *
 * A product is m16n8k16: sums [16, 8] += a [16, 16] b [16, 8], a and b bfloat16, sums float.  Its
 * operands are spread over the lanes of a warp: with g = lane / 4 and q = lane % 4,
 *
 *     a[0..3]     pairs (g, 2q..), (g + 8, 2q..), (g, 2q + 8..), (g + 8, 2q + 8..)
 *     b[0..1]     pairs (2q.., g), (2q + 8.., g)
 *     sums[0..3]  (g, 2q), (g, 2q + 1), (g + 8, 2q), (g + 8, 2q + 1)
 *
 * They are loaded from shared memory as 8 x 8 matrices, four at a time, each lane naming one row of
 * 16 bytes: lanes 0 to 7 those of the first matrix, and so on.
 */
#ifndef OLE_SRC_DEVICE_CUDA_CONV_NARROW_MMA_CUH
#define OLE_SRC_DEVICE_CUDA_CONV_NARROW_MMA_CUH

#include "device/cuda/ops/kernels.cuh"

/* 16 bytes from device to shared memory; zeros where they are not `there`, and nothing is read. */
__device__ inline void copy16(bfloat16 *to, const bfloat16 *from, bool there) {
    uint32_t at = (uint32_t)__cvta_generic_to_shared(to);
    int bytes = there ? 16 : 0;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(at), "l"(from), "r"(bytes)
                 : "memory");
}

/* Ends a group of copies. */
__device__ inline void copy_commit() {
    asm volatile("cp.async.commit_group;" ::: "memory");
}

/* Waits until at most GROUPS of this thread's groups, the latest, are still under way. */
template <int GROUPS>
__device__ inline void copy_wait() {
    asm volatile("cp.async.wait_group %0;" ::"n"(GROUPS) : "memory");
}

/* Four matrices: load_matrices() as they lie, load_transposed() each transposed. */
#define DEFINE_LOAD(NAME, TURN)                                                                    \
    __device__ inline void NAME(uint32_t(&to)[4], const bfloat16 *row) {                           \
        uint32_t at = (uint32_t)__cvta_generic_to_shared(row);                                     \
        asm volatile("ldmatrix.sync.aligned.m8n8.x4" TURN ".shared.b16 {%0, %1, %2, %3}, [%4];"    \
                     : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])                          \
                     : "r"(at)                                                                     \
                     : "memory");                                                                  \
    }
DEFINE_LOAD(load_matrices, "")
DEFINE_LOAD(load_transposed, ".trans")

__device__ inline void multiply_add(float (&sums)[4], const uint32_t (&a)[4], uint32_t b0,
                                    uint32_t b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, "
        "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/*
 * Where a lane's row begins in a 16 x 16 block: `across` for matrices in the order (0, 0), (0, 8),
 * (8, 0), (8, 8) of (row, column), `down` for (0, 0), (8, 0), (0, 8), (8, 8).
 */
struct matrix_row {
    int row, column;
};

__device__ inline matrix_row across(int lane) {
    return {(lane & 7) + (lane >> 4) * 8, (lane >> 3 & 1) * 8};
}

__device__ inline matrix_row down(int lane) {
    return {lane & 15, (lane >> 4) * 8};
}

#endif
