/*
 * src/device/cpu/isa.h - what the CPU has of bfloat16 arithmetic.
 */
#ifndef OLE_SRC_DEVICE_CPU_ISA_H
#define OLE_SRC_DEVICE_CPU_ISA_H

#include <stdbool.h>

/* AVX512_BF16, and the AVX-512 that the kernels for it use besides. */
bool cpu_has_bf16(void);

/* AMX on bfloat16, with the system's permission for this process, asked for here. */
bool cpu_has_amx(void);

/* False where AMX is there but CPUID does not tell the sizes of its tiles. */
bool cpu_tiles_described(void);

#endif
