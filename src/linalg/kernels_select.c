/*
 * src/linalg/kernels_select.c - picks the kernel table for the CPU that runs.  The choice follows
 * from the CPU and OLE_CPU alone, so it needs no state: asking twice gives the same answer.
 */
#include "base/cpu.h"
#include "linalg/kernels.h"

OLE_CPU_VARIANTS(ole_kernels, ole_kernels);

const ole_kernels *ole_kernels_get(void) {
    return OLE_CPU_SELECT(ole_kernels);
}

const char *ole_kernels_name(void) {
    return ole_kernels_get()->name;
}
