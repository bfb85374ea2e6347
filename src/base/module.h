/*
 * src/base/module.h - parts of the library that need libraries not everyone has (CUDA, MPI):
 * separate shared objects next to libole.so, loaded on first use, so that one package runs with and
 * without them.
 *
 * A module hands out tables, structs of functions by name.  Its first table begins with the version
 * it was built for, a const char *.
 */
#ifndef OLE_SRC_BASE_MODULE_H
#define OLE_SRC_BASE_MODULE_H

#include "ole/base.h"

#include <pthread.h>
#include <stdbool.h>

/* "0.2.0": ole_version() as a constant. */
#define OLE_VERSION_TEXT2(a, b, c) #a "." #b "." #c
#define OLE_VERSION_TEXT1(a, b, c) OLE_VERSION_TEXT2(a, b, c)
#define OLE_VERSION_TEXT OLE_VERSION_TEXT1(OLE_VERSION_MAJOR, OLE_VERSION_MINOR, OLE_VERSION_PATCH)

typedef struct ole_module {
    const char *what;     /* begins messages: "CUDA" */
    const char *file;     /* "libole_cuda.so" */
    const char *variable; /* of the environment, where the file may be named instead */
    const char *first;    /* the table with the version */
    const char *absent;   /* ends the message when there is no file: why, and what to do */
    const char *unusable; /* ... when it cannot be loaded: what to do */
    bool global;          /* its libraries' symbols are for plugins to see */
    pthread_mutex_t mutex;
    void *handle;
    ole_error failure;
    bool tried;
} ole_module;

/*
 * A table of the module, which is loaded on first use: from $variable if set, else from the folder
 * this code was loaded from (or its parent, in a build tree), else from the system's library path.
 * The message of OLE_ERROR_UNSUPPORTED names what is missing: the module itself, one of its
 * libraries, or the right version.  Thread-safe.
 */
ole_status ole_module_table(ole_module *module, const char *name, const void **table,
                            ole_error *error);

#endif
