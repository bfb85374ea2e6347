/*
 * src/analyze/tsne_select.c - picks the kernels of t-SNE for the CPU that runs, as linalg picks its
 * own.
 */
#include "analyze/tsne_kernels.h"

#include "linalg/kernels.h"

extern const ole_tsne_kernels ole_tsne_kernels_generic;

#if OLE_X86_DISPATCH
#include <string.h>

extern const ole_tsne_kernels ole_tsne_kernels_avx2;
extern const ole_tsne_kernels ole_tsne_kernels_avx512;

const ole_tsne_kernels *ole_tsne_kernels_get(void) {
    const char *name = ole_kernels_name();
    if (strcmp(name, "avx512") == 0) return &ole_tsne_kernels_avx512;
    if (strcmp(name, "avx2") == 0) return &ole_tsne_kernels_avx2;
    return &ole_tsne_kernels_generic;
}
#else
const ole_tsne_kernels *ole_tsne_kernels_get(void) {
    return &ole_tsne_kernels_generic;
}
#endif
