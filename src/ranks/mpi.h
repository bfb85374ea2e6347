/*
 * src/ranks/mpi.h - libole_mpi.so, ranks that are processes of an MPI launch: a module
 * (base/module.h) with one table, "ole_mpi".  Its sources are in ranks/mpi/.
 */
#ifndef OLE_SRC_RANKS_MPI_H
#define OLE_SRC_RANKS_MPI_H

#include "ranks/ranks.h"

typedef struct ole_mpi_table {
    const char *version; /* ole_version() of the module */
    /* "Open MPI v4.1.4 (MPI 3.1)": the library that was loaded. Needs no MPI_Init. */
    void (*describe)(char *out, size_t room);
    /* All processes of the launch as a group, with a watch over them. */
    ole_status (*open)(ole_ranks **ranks, const ole_ranks_options *options, ole_error *error);
} ole_mpi_table;

ole_status ole_mpi_module(const ole_mpi_table **table, ole_error *error);

#endif
