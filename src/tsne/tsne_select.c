/*
 * src/tsne/tsne_select.c - picks the kernels of t-SNE for the CPU that runs, as linalg picks its
 * own.
 */
#include "base/cpu.h"
#include "tsne/tsne_kernels.h"

extern const ole_tsne_kernels ole_tsne_kernels_generic;
#if OLE_X86_DISPATCH
extern const ole_tsne_kernels ole_tsne_kernels_avx2;
extern const ole_tsne_kernels ole_tsne_kernels_avx512;
#elif OLE_ARM_DISPATCH
extern const ole_tsne_kernels ole_tsne_kernels_neon;
#endif

/* The best first. */
static const struct {
    ole_cpu_level needs;
    const ole_tsne_kernels *kernels;
} tables[] = {
#if OLE_X86_DISPATCH
    {OLE_CPU_AVX512, &ole_tsne_kernels_avx512},
    {OLE_CPU_AVX2, &ole_tsne_kernels_avx2},
#elif OLE_ARM_DISPATCH
    {OLE_CPU_NEON, &ole_tsne_kernels_neon},
#endif
    {OLE_CPU_GENERIC, &ole_tsne_kernels_generic},
};

const ole_tsne_kernels *ole_tsne_kernels_get(void) {
    int i = 0;
    while (ole_cpu_allowed() < tables[i].needs)
        i++;
    return tables[i].kernels;
}
