/* src/base/module.c - finding and loading a module. */
#include "base/module.h"

#include "base/error.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Tries one file; one that is not there is no failure yet. */
static void *open_file(const ole_module *module, const char *path, bool *found) {
    if (strchr(path, '/') && access(path, F_OK) != 0) return NULL;
    void *handle = dlopen(path, RTLD_NOW | (module->global ? RTLD_GLOBAL : RTLD_LOCAL));
    if (handle || strchr(path, '/')) *found = true;
    return handle;
}

/* The module beside the code that is running, or one folder up. */
static void *open_beside(const ole_module *module, bool *found) {
    Dl_info here;
    char path[PATH_MAX + 32];
    if (!dladdr((void *)(uintptr_t)&ole_module_table, &here) || !here.dli_fname) return NULL;
    const char *slash = strrchr(here.dli_fname, '/');
    int length = slash ? (int)(slash - here.dli_fname) : 0;
    const char *folders[] = {"", "/.."};
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%.*s%s/%s", length, slash ? here.dli_fname : ".", folders[i],
                 module->file);
        void *handle = open_file(module, path, found);
        if (*found) return handle;
    }
    return NULL;
}

/* Fills module->handle or module->failure. */
static void load(ole_module *module) {
    const char *given = getenv(module->variable);
    if (given && !*given) given = NULL;
    bool found = false;
    void *handle = given ? open_file(module, given, &found) : open_beside(module, &found);
    if (!handle && !found && !given) handle = open_file(module, module->file, &found);
    const char *reason = !handle && found ? dlerror() : NULL;
    const char *const *version = handle ? dlsym(handle, module->first) : NULL;
    if (version && strcmp(*version, ole_version()) == 0)
        module->handle = handle;
    else if (handle)
        ole_fail(&module->failure, OLE_ERROR_UNSUPPORTED,
                 "%s: %s has version %s, the library %s: install both from one build", module->what,
                 module->file, version ? *version : "unknown", ole_version());
    else if (reason)
        ole_fail(&module->failure, OLE_ERROR_UNSUPPORTED, "%s: %.300s; %s", module->what, reason,
                 module->unusable);
    else
        ole_fail(&module->failure, OLE_ERROR_UNSUPPORTED, "%s: %s is missing: %s", module->what,
                 given ? given : module->file, module->absent);
    if (handle && !module->handle) dlclose(handle);
}

ole_status ole_module_table(ole_module *module, const char *name, const void **table,
                            ole_error *error) {
    *table = NULL;
    pthread_mutex_lock(&module->mutex);
    if (!module->tried) load(module);
    module->tried = true;
    pthread_mutex_unlock(&module->mutex);
    if (!module->handle) {
        if (error) *error = module->failure;
        return module->failure.status;
    }
    *table = dlsym(module->handle, name);
    if (*table) return OLE_OK;
    return ole_fail(error, OLE_ERROR_UNSUPPORTED, "%s: %s is built without %s", module->what,
                    module->file, name);
}
