/* src/base/cuda_module.c - libole_cuda.so as a module (module.h), and whether there is a GPU. */
#include "base/cuda_module.h"

#include "base/module.h"

static ole_module module = {
    .what = "CUDA",
    .file = "libole_cuda.so",
    .variable = "OLE_CUDA_MODULE",
    .first = "ole_cuda_device",
    .absent = "this build has no CUDA; build it where nvcc is installed (Python: pip install "
              "'ole[cuda]'), or "
              "use --device cpu",
    .unusable = "install the CUDA libraries it names, or use --device cpu",
    .mutex = PTHREAD_MUTEX_INITIALIZER,
};

ole_status ole_cuda_module_table(const char *name, const void **table, ole_error *error) {
    return ole_module_table(&module, name, table, error);
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
