/*
 * src/device/cpu/isa.c - asks CPUID, and the system for the registers of AMX.
 *
 * Tiles are 8 KiB of state a thread, which Linux gives to processes that ask.
 */
#include "device/cpu/isa.h"

#if defined(__x86_64__) && defined(__linux__)

#include <cpuid.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { TILE_DATA = 18, REQUEST_PERMISSION = 0x1023, TILE_LEAF = 0x1d };

bool cpu_has_bf16(void) {
    return __builtin_cpu_supports("avx512bf16") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
           __builtin_cpu_supports("fma");
}

/* CPUID lists AMX_TILE and AMX_BF16. */
static bool lists_amx(void) {
    const unsigned bf16 = 1u << 22, tile = 1u << 24;
    unsigned a, b, c, d;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d & bf16) && (d & tile);
}

/* The system keeps the tiles' registers (XCR0, bits 17 and 18). */
static bool keeps_tiles(void) {
    uint32_t low, high;
    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (low >> 17 & 3) == 3;
}

bool cpu_has_amx(void) {
    return lists_amx() && keeps_tiles() &&
           syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA) == 0;
}

bool cpu_tiles_described(void) {
    unsigned a, b, c, d;
    if (!lists_amx()) return true;
    return __get_cpuid_count(TILE_LEAF, 0, &a, &b, &c, &d) && a > 0;
}

#else

bool cpu_has_bf16(void) {
    return false;
}

bool cpu_has_amx(void) {
    return false;
}

bool cpu_tiles_described(void) {
    return true;
}

#endif
