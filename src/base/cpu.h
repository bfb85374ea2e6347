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

/* Whether that is less than the machine has. */
OLE_INTERNAL bool ole_cpu_capped(void);

#endif
