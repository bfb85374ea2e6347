/*
 * src/device/cuda/module.c - the versions inside libole_cuda.so and the GPUs it finds: the table
 * "ole_cuda_device" of base/cuda_module.h.
 */
#include "base/cuda_module.h"

#include "base/error.h"
#include "device/cuda/link/link.h"

#include <cublas_v2.h>
#include <cuda_runtime_api.h>
#include <cudnn.h>
#include <stdio.h>
#include <string.h>

#define TEXT(x) #x
#define NUMBER(x) TEXT(x)

/* The oldest GPUs that the module has code for. */
enum { MAJOR = 8, MINOR = 0 };

static int count_gpus(ole_error *error) {
    int count = 0;
    cudaError_t code = cudaGetDeviceCount(&count);
    if (code == cudaErrorInsufficientDriver)
        ole_fail(error, OLE_ERROR_UNSUPPORTED,
                 "CUDA: no NVIDIA driver, or one too old for CUDA %d.%d; install a newer one, or "
                 "use --device cpu",
                 CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10);
    else if (code != cudaSuccess || count == 0)
        ole_fail(error, OLE_ERROR_UNSUPPORTED,
                 "CUDA: no usable GPU (%s); see nvidia-smi, or use --device cpu",
                 cudaGetErrorString(code != cudaSuccess ? code : cudaErrorNoDevice));
    return code == cudaSuccess ? count : 0;
}

static ole_status describe(int gpu, ole_cuda_gpu *out, ole_error *error) {
    struct cudaDeviceProp properties;
    int count = count_gpus(error);
    if (count == 0) return OLE_ERROR_UNSUPPORTED;
    if (gpu < 0 || gpu >= count)
        return ole_fail(error, OLE_ERROR_ARGUMENT, "cuda:%d: no such GPU; there are %d, 0 to %d",
                        gpu, count, count - 1);
    cudaError_t code = cudaGetDeviceProperties(&properties, gpu);
    if (code != cudaSuccess)
        return ole_fail(error, OLE_ERROR_UNSUPPORTED, "cuda:%d: %s", gpu, cudaGetErrorString(code));
    *out = (ole_cuda_gpu){.major = properties.major,
                          .minor = properties.minor,
                          .multiprocessors = properties.multiProcessorCount,
                          .memory = properties.totalGlobalMem};
    memcpy(out->name, properties.name, sizeof out->name - 1);
    if (properties.major * 10 + properties.minor < MAJOR * 10 + MINOR)
        return ole_fail(
            error, OLE_ERROR_UNSUPPORTED,
            "cuda:%d: %s has compute capability %d.%d, but %d.%d is the minimum; use --device cpu",
            gpu, out->name, properties.major, properties.minor, MAJOR, MINOR);
    return OLE_OK;
}

static void linking(char *text, size_t room) {
    ole_error error;
    const cuda_collectives *found = cuda_collectives_load(&error);
    snprintf(text, room, "%s", found ? found->version : error.message);
}

__attribute__((visibility("default"))) extern const ole_cuda_device_table ole_cuda_device;
const ole_cuda_device_table ole_cuda_device = {
    .version =
        NUMBER(OLE_VERSION_MAJOR) "." NUMBER(OLE_VERSION_MINOR) "." NUMBER(OLE_VERSION_PATCH),
    .libraries = "cuDNN " NUMBER(CUDNN_MAJOR) "." NUMBER(CUDNN_MINOR) ", cuBLAS " NUMBER(
        CUBLAS_VER_MAJOR) "." NUMBER(CUBLAS_VER_MINOR),
    .count = count_gpus,
    .describe = describe,
    .linking = linking,
};
