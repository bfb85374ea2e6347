/*
 * src/info.c - ole_info(): what this build holds and what this machine offers.
 *
 * It stands outside the modules because it asks several of them.  The rows about the build are
 * those that CMake printed at the end of its configuration (build_parts.h, generated).
 */
#include "ole/base.h"

#include "base/cuda_module.h"
#include "build_parts.h"
#include "linalg/kernels.h"
#include "ranks/mpi.h"

#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* OpenBLAS's own functions; missing where another LAPACK took its place at run time. */
#pragma weak openblas_get_config
#pragma weak openblas_get_corename
#pragma weak openblas_get_parallel
char *openblas_get_config(void);
char *openblas_get_corename(void);
int openblas_get_parallel(void);

#if defined(__clang__)
#define COMPILER "clang " __clang_version__
#elif defined(__GNUC__)
#define COMPILER "gcc " __VERSION__
#else
#define COMPILER "unknown compiler"
#endif

static struct {
    char level[sizeof(ole_error)]; /* may hold the message of one */
    char blas[96];
    char cores[24];
    char memory[24];
    char gpu[640];
    char mpi[640];
    char nccl[640];
    bool threaded_blas;
} machine;

static void describe_level(void) {
    ole_cpu cpu;
    ole_error error;
    if (ole_cpu_describe(&cpu, &error) != OLE_OK)
        snprintf(machine.level, sizeof machine.level, "%s", error.message);
    else if (!cpu.cap)
        snprintf(machine.level, sizeof machine.level, "%s", cpu.level);
    else if (cpu.level != cpu.machine)
        snprintf(machine.level, sizeof machine.level, "%s: OLE_CPU caps this machine's %s",
                 cpu.level, cpu.machine);
    else
        snprintf(machine.level, sizeof machine.level, "%s: OLE_CPU=%s caps nothing here", cpu.level,
                 cpu.cap);
}

static void describe_blas(void) {
    if (!openblas_get_config || !openblas_get_parallel) {
        snprintf(machine.blas, sizeof machine.blas, "another BLAS was loaded in its place");
        return;
    }
    char version[32] = "unknown version";
    sscanf(openblas_get_config(), "OpenBLAS %31s", version);
    machine.threaded_blas = openblas_get_parallel() != 0;
    snprintf(machine.blas, sizeof machine.blas, "%s, %s, %s", version,
             machine.threaded_blas ? "threaded" : "serial",
             openblas_get_corename ? openblas_get_corename() : "unknown core");
}

/* The GPUs, or why there is none to use. */
static void describe_gpu(void) {
    const void *found;
    ole_error error;
    if (ole_cuda_module_table("ole_cuda_device", &found, &error) != OLE_OK) {
        snprintf(machine.gpu, sizeof machine.gpu, "none: %s", error.message);
        snprintf(machine.nccl, sizeof machine.nccl, "none: it is for GPUs");
        return;
    }
    const ole_cuda_device_table *table = found;
    int gpus = table->count(&error);
    size_t used = 0;
    if (gpus == 0) snprintf(machine.gpu, sizeof machine.gpu, "none: %s", error.message);
    for (int i = 0; i < gpus && used < sizeof machine.gpu; i++) {
        ole_cuda_gpu gpu;
        if (table->describe(i, &gpu, &error) != OLE_OK) continue;
        used +=
            (size_t)snprintf(machine.gpu + used, sizeof machine.gpu - used,
                             "%scuda:%d %s, %.0f GiB, compute capability %d.%d", used ? "; " : "",
                             i, gpu.name, (double)gpu.memory / (1 << 30), gpu.major, gpu.minor);
    }
    if (gpus > 0 && used < sizeof machine.gpu)
        snprintf(machine.gpu + used, sizeof machine.gpu - used, " (%s)", table->libraries);
    table->linking(machine.nccl, sizeof machine.nccl);
}

/* The MPI that a launch would use, or why there is none. */
static void describe_mpi(void) {
    const ole_mpi_table *table;
    ole_error error;
    if (ole_mpi_module(&table, &error) == OLE_OK)
        table->describe(machine.mpi, sizeof machine.mpi);
    else
        snprintf(machine.mpi, sizeof machine.mpi, "none: %s", error.message);
}

static void describe_machine(void) {
    describe_level();
    describe_blas();
    describe_gpu();
    describe_mpi();
    cpu_set_t allowed;
    long cores = sched_getaffinity(0, sizeof allowed, &allowed) == 0
                     ? CPU_COUNT(&allowed)
                     : sysconf(_SC_NPROCESSORS_ONLN);
    snprintf(machine.cores, sizeof machine.cores, "%ld", cores);
    double bytes = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
    snprintf(machine.memory, sizeof machine.memory, "%.1f GiB", bytes / (1 << 30));
}

size_t ole_info(ole_info_row *rows, size_t capacity) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, describe_machine);

    const ole_info_row all[] = {
        {"version", ole_version()},
        {"compiler", COMPILER},
        OLE_BUILD_PARTS,
        {"cpu level", machine.level},
        {"cpu kernels", ole_kernels_name()},
        {"cores", machine.cores},
        {"memory", machine.memory},
        {"OpenBLAS", machine.blas},
        {"GPU", machine.gpu},
        {"MPI library", machine.mpi},
        {"NCCL library", machine.nccl},
        {"warning", "a threaded OpenBLAS was loaded: results may depend on its threads; set "
                    "OPENBLAS_NUM_THREADS=1 or install the serial one"},
    };
    size_t count = sizeof all / sizeof *all - (machine.threaded_blas ? 0 : 1);
    size_t filled = count < capacity ? count : capacity;
    if (filled > 0) memcpy(rows, all, filled * sizeof *all);
    return count;
}
