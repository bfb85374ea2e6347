/* cli/common/omp_spin.h - settings that libraries read before main(). */
#ifndef OLE_CLI_COMMON_OMP_SPIN_H
#define OLE_CLI_COMMON_OMP_SPIN_H

#include <stdbool.h>

/*
 * First thing in main(), before there are threads: starts the program once more where its threads
 * would spin for too long (`long_work`), or OpenBLAS must be told which core to compute for
 * (`openblas_core`, from ole_cpu_describe(); NULL: its own choice).
 */
void start_again(char **argv, const char *openblas_core, bool long_work);

#endif
