/*
 * src/base/cpu.h - which instruction sets the code may use: the machine's, or fewer if OLE_CPU
 * caps them (ole_cpu_describe() in ole/base.h is the public side).
 *
 * Each level includes those below it, so code that needs one checks `ole_cpu_allowed() >=
 * OLE_CPU_AVX2`.
 */
#ifndef OLE_SRC_BASE_CPU_H
#define OLE_SRC_BASE_CPU_H

#include "base/export.h"

#include <stdbool.h>

typedef enum ole_cpu_level {
    OLE_CPU_GENERIC, /* what every CPU of the architecture has */

    OLE_CPU_AVX2 = 1, /* with FMA */
    OLE_CPU_AVX512,   /* F, DQ, VL and BW */
    OLE_CPU_AVX512_BF16,
    OLE_CPU_AMX, /* on bfloat16 */

    OLE_CPU_NEON = 1,
} ole_cpu_level;

/* The level in use, constant for the life of the process. */
OLE_INTERNAL ole_cpu_level ole_cpu_allowed(void);

/*
 * Kernels that are compiled once per instruction set: OLE_CPU_VARIANTS(type, name) declares the
 * tables name_generic, name_avx2, ..., OLE_CPU_SELECT(name) is the one for the level in use.
 */
#if defined(OLE_X86_DISPATCH) && OLE_X86_DISPATCH
#define OLE_CPU_VARIANTS(type, name) extern const type name##_generic, name##_avx2, name##_avx512
#define OLE_CPU_SELECT(name)                                                                       \
    (ole_cpu_allowed() >= OLE_CPU_AVX512 ? &name##_avx512                                          \
     : ole_cpu_allowed() >= OLE_CPU_AVX2 ? &name##_avx2                                            \
                                         : &name##_generic)
#elif defined(OLE_ARM_DISPATCH) && OLE_ARM_DISPATCH
#define OLE_CPU_VARIANTS(type, name) extern const type name##_generic, name##_neon
#define OLE_CPU_SELECT(name) (ole_cpu_allowed() >= OLE_CPU_NEON ? &name##_neon : &name##_generic)
#else
#define OLE_CPU_VARIANTS(type, name) extern const type name##_generic
#define OLE_CPU_SELECT(name) (&name##_generic)
#endif

/* Whether that is less than the machine has. */
OLE_INTERNAL bool ole_cpu_capped(void);

/* `given` threads, or for 0 one per processor that this process may use, at most 1024. */
OLE_INTERNAL int ole_threads(int given);

#endif
