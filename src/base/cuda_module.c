/*
 * src/base/cuda_module.c - finding and loading libole_cuda.so: from $OLE_CUDA_MODULE where that is
 * set, else from the folder this code was loaded from (or the one above it, in a build tree), else
 * from where the system looks for libraries.
 */
#include "base/cuda_module.h"

#include "base/error.h"

#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FILE_NAME "libole_cuda.so"

static struct {
    pthread_mutex_t mutex;
    void *handle;
    ole_error failure;
    bool tried;
} module = {.mutex = PTHREAD_MUTEX_INITIALIZER};

/* Tries one file; one that is not there is no failure yet. */
static void *open_file(const char *path, bool *found) {
    if (strchr(path, '/') && access(path, F_OK) != 0) return NULL;
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (handle || strchr(path, '/')) *found = true;
    return handle;
}

/* The module beside the code that is running, or one folder up. */
static void *open_beside(bool *found) {
    Dl_info here;
    char path[PATH_MAX + 32];
    if (!dladdr((void *)(uintptr_t)&ole_cuda_module_check, &here) || !here.dli_fname) return NULL;
    const char *slash = strrchr(here.dli_fname, '/');
    int length = slash ? (int)(slash - here.dli_fname) : 0;
    const char *folders[] = {"", "/.."};
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%.*s%s/" FILE_NAME, length, slash ? here.dli_fname : ".",
                 folders[i]);
        void *handle = open_file(path, found);
        if (*found) return handle;
    }
    return NULL;
}

static ole_status check_version(void *handle, ole_error *error) {
    const ole_cuda_device_table *table = dlsym(handle, "ole_cuda_device");
    if (table && strcmp(table->version, ole_version()) == 0) return OLE_OK;
    return ole_fail(error, OLE_ERROR_UNSUPPORTED,
                    "CUDA: " FILE_NAME " is of version %s, the library of %s: install both from "
                    "one build",
                    table ? table->version : "unknown", ole_version());
}

/* Fills module.handle or module.failure. */
static void load(void) {
    const char *given = getenv("OLE_CUDA_MODULE");
    bool found = false;
    void *handle = given && *given ? open_file(given, &found) : open_beside(&found);
    if (!handle && !found && !(given && *given)) handle = open_file(FILE_NAME, &found);
    if (handle && check_version(handle, &module.failure) == OLE_OK) {
        module.handle = handle;
        return;
    }
    if (handle) {
        dlclose(handle);
        return;
    }
    const char *reason = found ? dlerror() : NULL;
    if (reason)
        ole_fail(&module.failure, OLE_ERROR_UNSUPPORTED,
                 "CUDA: %.300s; install the CUDA libraries it names, or use --device cpu", reason);
    else
        ole_fail(&module.failure, OLE_ERROR_UNSUPPORTED,
                 "CUDA: %s is not there: this build is without CUDA; build where nvcc is, or use "
                 "--device cpu",
                 given && *given ? given : FILE_NAME);
}

ole_status ole_cuda_module_table(const char *name, const void **table, ole_error *error) {
    *table = NULL;
    pthread_mutex_lock(&module.mutex);
    if (!module.tried) load();
    module.tried = true;
    pthread_mutex_unlock(&module.mutex);
    if (!module.handle) {
        if (error) *error = module.failure;
        return module.failure.status;
    }
    *table = dlsym(module.handle, name);
    if (*table) return OLE_OK;
    return ole_fail(error, OLE_ERROR_UNSUPPORTED, "CUDA: " FILE_NAME " is built without %s", name);
}

ole_status ole_cuda_module_check(ole_error *error) {
    const void *table;
    ole_status status = ole_cuda_module_table("ole_cuda_device", &table, error);
    if (status != OLE_OK) return status;
    ole_error reason;
    const ole_cuda_device_table *device = table;
    if (device->count(&reason) > 0) return OLE_OK;
    if (error) *error = reason;
    return reason.status;
}
