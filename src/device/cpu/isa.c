/*
 * src/device/cpu/isa.c - requests AMX registers from the kernel, and reads their sizes from CPUID.
 *
 * Tiles are 8 KiB of state per thread, which Linux grants only to processes that request it.
 */
#include "device/cpu/isa.h"

#include "base/cpu.h"

#if defined(__x86_64__) && defined(__linux__)

#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { TILE_DATA = 18, REQUEST_PERMISSION = 0x1023, TILE_LEAF = 0x1d };

bool cpu_has_amx(void) {
    return ole_cpu_allowed() >= OLE_CPU_AMX &&
           syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA) == 0;
}

bool cpu_tiles_described(void) {
    unsigned a, b, c, d;
    return __get_cpuid_count(TILE_LEAF, 0, &a, &b, &c, &d) && a > 0;
}

#else

bool cpu_has_amx(void) {
    return false;
}

bool cpu_tiles_described(void) {
    return true;
}

#endif
