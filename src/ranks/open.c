/* src/ranks/open.c - joining and leaving the group of a launch, through the MPI module. */
#include "base/error.h"
#include "base/module.h"
#include "base/number.h"
#include "base/struct_size.h"
#include "ranks/mpi.h"

#include <stdlib.h>

static ole_module module = {
    .what = "MPI",
    .file = "libole_mpi.so",
    .variable = "OLE_MPI_MODULE",
    .first = "ole_mpi",
    .absent = "this build is without MPI; build with MPI installed (Debian: libopenmpi-dev), or "
              "start a single process",
    .unusable = "install the MPI it was built with, or start a single process",
    .global = true, /* Open MPI loads plugins of its own */
    .mutex = PTHREAD_MUTEX_INITIALIZER,
};

ole_status ole_mpi_module(const ole_mpi_table **table, ole_error *error) {
    const void *found;
    ole_status status = ole_module_table(&module, "ole_mpi", &found, error);
    *table = found;
    return status;
}

/* A number of seconds from the environment. */
static double seconds_of(const char *variable, double otherwise) {
    const char *text = getenv(variable);
    if (!text) return otherwise;
    char *end;
    double seconds = ole_number_read(text, &end);
    return seconds > 0 && seconds < 1e9 && *end == '\0' ? seconds : otherwise;
}

static ole_ranks_options defaults(void) {
    return (ole_ranks_options){
        .struct_size = sizeof(ole_ranks_options),
        .silence = seconds_of("OLE_RANK_SILENCE", 20),
        .start = seconds_of("OLE_RANK_START", 300),
    };
}

void ole_ranks_options_init_sized(ole_ranks_options *options, size_t struct_size) {
    ole_ranks_options ours = defaults();
    ole_struct_fill(options, struct_size, &ours);
}

ole_status ole_ranks_open(ole_ranks **out, const ole_ranks_options *given, ole_error *error) {
    if (!out) return ole_fail(error, OLE_ERROR_ARGUMENT, "ole_ranks_open: out is NULL");
    *out = NULL;
    ole_ranks_options options = defaults();
    ole_status status = ole_struct_read(&options, given, OLE_SIZE_UP_TO(ole_ranks_options, start),
                                        "ole_ranks_options_init", error);
    if (status != OLE_OK) return status;
    if (!(options.silence > 0))
        return ole_fail(error, OLE_ERROR_ARGUMENT, "silence: %g s is not above 0", options.silence);
    if (!(options.start > 0))
        return ole_fail(error, OLE_ERROR_ARGUMENT, "start: %g s is not above 0", options.start);
    const ole_mpi_table *mpi;
    status = ole_mpi_module(&mpi, error);
    if (status != OLE_OK) return status;
    return mpi->open(out, &options, error);
}

void ole_ranks_fail(ole_ranks *ranks, const char *reason) {
    if (ranks && ranks->table->fail) ranks->table->fail(ranks, reason);
}

void ole_ranks_close(ole_ranks *ranks) {
    if (ranks) ranks->table->close(ranks);
}
