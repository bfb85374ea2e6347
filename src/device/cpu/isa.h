/* src/device/cpu/isa.h - whether AMX can be used, by us and by oneDNN. */
#ifndef OLE_SRC_DEVICE_CPU_ISA_H
#define OLE_SRC_DEVICE_CPU_ISA_H

#include <stdbool.h>

/* Whether the CPU level is AMX; requests its registers from the kernel. */
bool cpu_has_amx(void);

/* Whether CPUID describes the tile sizes: some virtual machines offer AMX without that. */
bool cpu_tiles_described(void);

#endif
