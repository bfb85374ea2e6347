/*
 * src/device/cuda/memory.c - memory, streams and graphs for code without CUDA's headers: the table
 * "ole_cuda_memory" of base/cuda_module.h.
 */
#include "base/cuda_module.h"

#include "base/error.h"

#include <cuda_runtime_api.h>

static bool succeeded(cudaError_t code, const char *doing, ole_error *error) {
    if (code == cudaSuccess) return true;
    cudaGetLastError(); /* it has been heard */
    ole_fail(error, code == cudaErrorMemoryAllocation ? OLE_ERROR_MEMORY : OLE_ERROR_UNSUPPORTED,
             "CUDA: %s: %s", doing, cudaGetErrorString(code));
    return false;
}

static void *allocate(size_t bytes, ole_error *error) {
    void *memory = NULL;
    return succeeded(cudaMalloc(&memory, bytes ? bytes : 1), "allocating", error) ? memory : NULL;
}

static void release(void *memory) {
    cudaFree(memory);
}

static bool copy_in(void *device, const void *host, size_t bytes, ole_error *error) {
    return succeeded(cudaMemcpy(device, host, bytes, cudaMemcpyHostToDevice), "copying to the GPU",
                     error);
}

static bool copy_out(void *host, const void *device, size_t bytes, ole_error *error) {
    return succeeded(cudaMemcpy(host, device, bytes, cudaMemcpyDeviceToHost),
                     "copying from the GPU", error);
}

static void *open_stream(ole_error *error) {
    cudaStream_t stream = NULL;
    return succeeded(cudaStreamCreate(&stream), "opening a stream", error) ? stream : NULL;
}

static void close_stream(void *stream) {
    if (stream) cudaStreamDestroy(stream);
}

static bool wait_for(void *stream, ole_error *error) {
    return succeeded(cudaStreamSynchronize(stream), "waiting for the GPU", error);
}

static bool capture(void *stream, ole_error *error) {
    return succeeded(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal),
                     "recording a graph", error);
}

static ole_cuda_graph *captured(void *stream, ole_error *error) {
    cudaGraph_t graph = NULL;
    cudaGraphExec_t exec = NULL;
    if (!succeeded(cudaStreamEndCapture(stream, &graph), "recording a graph", error)) return NULL;
    cudaError_t code = cudaGraphInstantiate(&exec, graph, 0);
    cudaGraphDestroy(graph);
    if (!succeeded(code, "preparing a graph", error)) return NULL;
    return (ole_cuda_graph *)exec;
}

static bool replay(ole_cuda_graph *graph, void *stream, ole_error *error) {
    return succeeded(cudaGraphLaunch((cudaGraphExec_t)graph, stream), "running a graph", error);
}

static void close_graph(ole_cuda_graph *graph) {
    if (graph) cudaGraphExecDestroy((cudaGraphExec_t)graph);
}

static bool time_work(void *stream, void (*work)(void *context), void *context,
                      double *milliseconds, ole_error *error) {
    cudaEvent_t begin = NULL, end = NULL;
    float elapsed = 0.0f;
    cudaError_t code = cudaEventCreate(&begin);
    if (code == cudaSuccess) code = cudaEventCreate(&end);
    if (code == cudaSuccess) code = cudaEventRecord(begin, stream);
    if (code == cudaSuccess) work(context);
    if (code == cudaSuccess) code = cudaEventRecord(end, stream);
    if (code == cudaSuccess) code = cudaEventSynchronize(end);
    if (code == cudaSuccess) code = cudaEventElapsedTime(&elapsed, begin, end);
    if (begin) cudaEventDestroy(begin);
    if (end) cudaEventDestroy(end);
    *milliseconds = elapsed;
    return succeeded(code, "timing", error);
}

__attribute__((visibility("default"))) extern const ole_cuda_memory_table ole_cuda_memory;
const ole_cuda_memory_table ole_cuda_memory = {
    .allocate = allocate,
    .release = release,
    .copy_in = copy_in,
    .copy_out = copy_out,
    .stream = open_stream,
    .close_stream = close_stream,
    .wait = wait_for,
    .capture = capture,
    .captured = captured,
    .replay = replay,
    .close_graph = close_graph,
    .time = time_work,
};
