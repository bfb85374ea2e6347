/*
 * src/device/cpu/isa.h - whether AMX can be used, by us and by oneDNN.
 */
#ifndef OLE_SRC_DEVICE_CPU_ISA_H
#define OLE_SRC_DEVICE_CPU_ISA_H

#include <stdbool.h>

/* The level is AMX, and the system gives this process its registers: that is requested here. */
bool cpu_has_amx(void);

/* Whether CPUID tells the sizes of the tiles: some virtual machines have AMX and do not. */
bool cpu_tiles_described(void);

#endif
