/*
 * tests/support/at_level.c - at_level [PROGRAM]: runs the program with OpenBLAS held to the level
 * that OLE_CPU names, which `ole` does for itself and a test cannot.  Exit code 77 where that is no
 * cap, as the machine has no more; without a program, 0 where it is one.
 */
#include "ole/base.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv) {
    ole_cpu cpu;
    ole_error error;
    if (ole_cpu_describe(&cpu, &error) != OLE_OK) {
        fprintf(stderr, "at_level: %s\n", error.message);
        return 2;
    }
    if (cpu.level == cpu.machine) {
        printf("skipped: OLE_CPU=%s caps nothing on this machine, whose level is %s\n",
               cpu.cap ? cpu.cap : "", cpu.machine);
        return 77;
    }
    if (argc < 2) return 0;
    if (cpu.openblas_core) setenv("OPENBLAS_CORETYPE", cpu.openblas_core, 0);
    execv(argv[1], argv + 1);
    perror(argv[1]);
    return 2;
}
