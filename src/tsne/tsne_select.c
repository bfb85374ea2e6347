/* src/tsne/tsne_select.c - picks the kernels of t-SNE for the CPU that runs. */
#include "base/cpu.h"
#include "tsne/tsne_kernels.h"

OLE_CPU_VARIANTS(ole_tsne_kernels, ole_tsne_kernels);

const ole_tsne_kernels *ole_tsne_kernels_get(void) {
    return OLE_CPU_SELECT(ole_tsne_kernels);
}
