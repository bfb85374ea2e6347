/*
 * src/linalg/kernels_select.c - picks the kernel table for the CPU that runs.  The choice follows
 * from the CPU and OLE_CPU alone, so it needs no state: asking twice gives the same answer.
 */
#include "base/cpu.h"
#include "linalg/kernels.h"

extern const ole_kernels ole_kernels_generic;
#if OLE_X86_DISPATCH
extern const ole_kernels ole_kernels_avx2;
extern const ole_kernels ole_kernels_avx512;
#elif OLE_ARM_DISPATCH
extern const ole_kernels ole_kernels_neon;
#endif

/* The best first. */
static const struct {
    ole_cpu_level needs;
    const ole_kernels *kernels;
} tables[] = {
#if OLE_X86_DISPATCH
    {OLE_CPU_AVX512, &ole_kernels_avx512},
    {OLE_CPU_AVX2, &ole_kernels_avx2},
#elif OLE_ARM_DISPATCH
    {OLE_CPU_NEON, &ole_kernels_neon},
#endif
    {OLE_CPU_GENERIC, &ole_kernels_generic},
};

const ole_kernels *ole_kernels_get(void) {
    int i = 0;
    while (ole_cpu_allowed() < tables[i].needs)
        i++;
    return tables[i].kernels;
}

const char *ole_kernels_name(void) {
    return ole_kernels_get()->name;
}
