/*
 * src/base/cpu.c - asks CPUID once, when the library is loaded, and reads OLE_CPU.
 *
 * At that moment no other thread can be changing the environment, and OpenBLAS, which is loaded
 * with the library, has read its own variable then too.
 */
#include "base/cpu.h"

#include "base/error.h"
#include "base/quote.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__)

#include <cpuid.h>

/* By ole_cpu_level: the name, and the newest of OpenBLAS's sets of kernels that needs no more. */
static const struct {
    const char *name, *openblas;
} LEVELS[] = {
    {"generic", "Prescott"},       {"avx2", "Haswell"}, {"avx512", "SkylakeX"},
    {"avx512_bf16", "Cooperlake"}, {"amx", NULL},
};
static const char CHOICES[] = "generic, avx2, avx512, avx512_bf16 or amx";

/* CPUID lists AMX_TILE and AMX_BF16, and the system keeps the tiles' registers (XCR0, bits 17 and
 * 18). */
static bool has_amx(void) {
    const unsigned bf16 = 1u << 22, tile = 1u << 24;
    unsigned a, b, c, d;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || !(d & bf16) || !(d & tile)) return false;
    unsigned low, high;
    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (low >> 17 & 3) == 3;
}

static ole_cpu_level find_machine(void) {
    __builtin_cpu_init();
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) return OLE_CPU_GENERIC;
    if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512dq") ||
        !__builtin_cpu_supports("avx512vl") || !__builtin_cpu_supports("avx512bw"))
        return OLE_CPU_AVX2;
    if (!__builtin_cpu_supports("avx512bf16")) return OLE_CPU_AVX512;
    return has_amx() ? OLE_CPU_AMX : OLE_CPU_AVX512_BF16;
}

#else

#if defined(__aarch64__)
static const struct { const char *name, *openblas; } LEVELS[] = {{"generic", NULL}, {"neon", NULL}};
static const char CHOICES[] = "generic or neon";
#else
static const struct { const char *name, *openblas; } LEVELS[] = {{"generic", NULL}};
static const char CHOICES[] = "generic";
#endif

/* The last one is part of the architecture. */
static ole_cpu_level find_machine(void) {
    return (ole_cpu_level)(sizeof LEVELS / sizeof *LEVELS - 1);
}

#endif

static ole_cpu_level machine, level;
static char cap[64]; /* OLE_CPU, cut; "" where it is not set */
static bool known = true;

__attribute__((constructor)) static void find_level(void) {
    level = machine = find_machine();
    const char *given = getenv("OLE_CPU");
    if (!given || !*given) return;
    snprintf(cap, sizeof cap, "%s", given);
    known = false;
    for (size_t i = 0; i < sizeof LEVELS / sizeof *LEVELS && !known; i++) {
        known = strcmp(given, LEVELS[i].name) == 0;
        if (known && (ole_cpu_level)i < machine) level = (ole_cpu_level)i;
    }
}

ole_cpu_level ole_cpu_allowed(void) {
    return level;
}

bool ole_cpu_capped(void) {
    return level < machine;
}

ole_status ole_cpu_describe(ole_cpu *cpu, ole_error *error) {
    if (!known)
        return ole_fail(error, OLE_ERROR_ARGUMENT, "OLE_CPU=%s: unknown level; choose %s",
                        ole_quote_string(cap).text, CHOICES);
    if (!cpu) return OLE_OK;
    *cpu = (ole_cpu){LEVELS[machine].name, LEVELS[level].name, *cap ? cap : NULL,
                     level < machine ? LEVELS[level].openblas : NULL};
    return OLE_OK;
}

int ole_threads(int given) {
    if (given > 0) return given;
    cpu_set_t allowed;
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return 1;
    int count = CPU_COUNT(&allowed);
    return count < 1 ? 1 : count > 1024 ? 1024 : count;
}
