/*
 * src/base/cuda_module.h - libole_cuda.so, the part of the library that needs CUDA's libraries: a
 * shared object of its own beside libole.so, loaded when a GPU is first asked for, so that the same
 * package runs where there is neither driver nor card.
 *
 * It hands out tables, each a struct of functions declared where it is used:
 *     "ole_cuda_device"   ole_cuda_device_table, below
 *     "ole_cuda_loss"     loss/cuda.h
 *     "ole_cuda_backend"  ole_backend of device/backend.h
 */
#ifndef OLE_SRC_BASE_CUDA_MODULE_H
#define OLE_SRC_BASE_CUDA_MODULE_H

#include "ole/base.h"

/* The cards. */
typedef struct ole_cuda_card {
    char name[64];
    int major, minor; /* compute capability */
    int multiprocessors;
    size_t memory; /* bytes */
} ole_cuda_card;

typedef struct ole_cuda_device_table {
    const char *version;   /* ole_version() of the module */
    const char *libraries; /* "CUDA 13.0, cuDNN 9.14, cuBLAS 13.1" */
    /* How many cards there are that the module has code for; 0 with the reason in `error`. */
    int (*count)(ole_error *error);
    ole_status (*describe)(int card, ole_cuda_card *out, ole_error *error);
} ole_cuda_device_table;

/*
 * A table of the module, which is loaded first if need be.  OLE_ERROR_UNSUPPORTED says what is
 * missing: the module itself, one of CUDA's libraries, or the right version.  Thread-safe.
 */
ole_status ole_cuda_module_table(const char *name, const void **table, ole_error *error);

/* Whether there is a module and a card to run it on. */
ole_status ole_cuda_module_check(ole_error *error);

#endif
