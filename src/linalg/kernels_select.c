/*
 * src/linalg/kernels_select.c - picks the kernel table for the CPU that runs.  The choice follows
 * from the CPU alone, so it needs no state: asking twice gives the same answer.
 */
#include "linalg/kernels.h"

extern const ole_kernels ole_kernels_generic;

#if OLE_X86_DISPATCH
extern const ole_kernels ole_kernels_avx2;
extern const ole_kernels ole_kernels_avx512;

const ole_kernels *ole_kernels_get(void) {
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw"))
        return &ole_kernels_avx512;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return &ole_kernels_avx2;
    return &ole_kernels_generic;
}
#else
const ole_kernels *ole_kernels_get(void) {
    return &ole_kernels_generic;
}
#endif

const char *ole_kernels_name(void) {
    return ole_kernels_get()->name;
}
