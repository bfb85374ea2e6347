/* src/model/network.c - opening a network on a device, and running images through it. */
#include "model/network.h"

#include "base/cuda_module.h"
#include "base/error.h"
#include "base/quote.h"
#include "ole/train/train.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* "cuda" or "cuda:N": which GPU, -1 for the first. */
static bool is_cuda(const char *device, int *gpu) {
    char *end = NULL;
    *gpu = -1;
    if (strncmp(device, "cuda", 4) != 0) return false;
    if (device[4] == '\0') return true;
    if (device[4] != ':' || device[5] < '0' || device[5] > '9') return false;
    long number = strtol(device + 5, &end, 10);
    *gpu = number > 1024 ? 1024 : (int)number;
    return *end == '\0';
}

static ole_status find_cuda(const ole_backend **backend, ole_error *error) {
    const void *table;
    ole_status status = ole_cuda_module_check(error);
    if (status == OLE_OK) status = ole_cuda_module_table("ole_cuda_backend", &table, error);
    if (status == OLE_OK) *backend = table;
    return status;
}

static ole_status find_backend(const char *device, const ole_backend **backend, int *gpu,
                               ole_error *error) {
    *backend = &ole_backend_ref;
    if (is_cuda(device, gpu)) return find_cuda(backend, error);
    if (strcmp(device, "ref") == 0) return OLE_OK;
    bool automatic = strcmp(device, "auto") == 0;
    if (!automatic && strcmp(device, "cpu") != 0) {
        return ole_fail(
            error, OLE_ERROR_ARGUMENT,
            "device %s: choose auto, cpu, cuda, cuda:N or ref; 'ole info' shows what is available",
            ole_quote_string(device).text);
    }
    if (automatic && find_cuda(backend, NULL) == OLE_OK) return OLE_OK;
#if defined(OLE_HAVE_ONEDNN)
    *backend = &ole_backend_cpu;
#else
    if (!automatic)
        return ole_fail(error, OLE_ERROR_UNSUPPORTED,
                        "device cpu: this build is without oneDNN; --device ref works, slowly");
#endif
    return OLE_OK;
}

bool ole_device_queues(const char *device) {
    const ole_backend *backend;
    int gpu;
    return device && find_backend(device, &backend, &gpu, NULL) == OLE_OK && backend->recorder;
}

static ole_precision precision_of(const char *name) {
    if (strcmp(name, "tf32") == 0) return OLE_PRECISION_TF32;
    return strcmp(name, "bf16") == 0 ? OLE_PRECISION_BF16 : OLE_PRECISION_FP32;
}

static ole_status open_device(ole_network *network, const ole_network_options *options,
                              ole_error *error) {
    int gpu;
    ole_status status = find_backend(options->device, &network->backend, &gpu, error);
    if (status != OLE_OK) return status;
    const ole_device_options device = {
        .threads = network->threads,
        .precision = precision_of(options->precision),
        .conv = strcmp(options->conv, "direct") == 0 ? OLE_CONV_DIRECT : OLE_CONV_AUTO,
        .seed = options->seed,
        .gpu = gpu,
    };
    return network->backend->open(&network->context, &device, error);
}

ole_status ole_network_open(ole_network *network, const ole_network_options *options,
                            ole_error *error) {
    *network = (ole_network){.threads = ole_threads(options->threads)};
    ole_status status =
        ole_graph_parse(&network->graph, options->net, options->input, options->classes, error);
    if (status == OLE_OK) status = open_device(network, options, error);
    if (status == OLE_OK)
        status = ole_graph_fuse(network->graph, network->backend->fuses_add, error);
    if (status == OLE_OK)
        status = ole_params_create(&network->params, network->graph, network->backend,
                                   network->context, options->train, options->moments, error);
    if (status != OLE_OK) ole_network_close(network);
    return status;
}

ole_status ole_network_share(ole_network *network, const ole_network *from, ole_error *error) {
    const ole_device_options device = {.threads = 1, .gpu = -1};
    *network = *from;
    network->shared = true;
    network->threads = 1;
    network->context = NULL;
    ole_status status = from->backend->open(&network->context, &device, error);
    if (status != OLE_OK) *network = (ole_network){0};
    return status;
}

ole_status ole_network_wait(const ole_network *network, ole_error *error) {
    return network->backend->wait ? network->backend->wait(network->context, error) : OLE_OK;
}

void ole_network_close(ole_network *network) {
    if (!network->shared) ole_params_free(network->params);
    if (network->context) network->backend->close(network->context);
    if (!network->shared) ole_graph_free(network->graph);
    *network = (ole_network){0};
}

int64_t ole_network_image_size(const ole_network *network) {
    return ole_shape_size(network->graph->node[0].out);
}

int64_t ole_network_feature_size(const ole_network *network) {
    return ole_shape_size(network->graph->node[network->graph->features].out);
}

float *ole_network_plain(const ole_network *network) {
    int64_t largest = 1;
    for (int i = 0; i < network->graph->params; i++)
        if (network->graph->param[i].count > largest) largest = network->graph->param[i].count;
    return malloc((size_t)largest * sizeof(float));
}

/* ---- Running images ----------------------------------------------------------------------- */

ole_status ole_inference_open(ole_inference *inference, const ole_network *network, ole_plan *plan,
                              int64_t batch, ole_error *error) {
    *inference =
        (ole_inference){.network = network, .plan = plan, .owns_plan = !plan, .batch = batch};
    ole_status status = OLE_OK;
    if (!plan) {
        const ole_plan_options options = {.batch = batch};
        status = ole_plan_create(&inference->plan, network->graph, network->params,
                                 network->backend, network->context, &options, error);
    }
    if (status == OLE_OK) {
        size_t rows = (size_t)batch;
        inference->images = calloc(rows * (size_t)ole_network_image_size(network), sizeof(float));
        inference->features =
            calloc(rows * (size_t)ole_network_feature_size(network), sizeof(float));
        inference->logits = calloc(rows * (size_t)network->graph->classes, sizeof(float));
        if (!inference->images || !inference->features || !inference->logits)
            status = ole_fail(error, OLE_ERROR_MEMORY, "out of memory for a batch of %lld",
                              (long long)batch);
    }
    if (status != OLE_OK) ole_inference_close(inference);
    return status;
}

void ole_inference_close(ole_inference *inference) {
    if (inference->owns_plan) ole_plan_free(inference->plan);
    free(inference->images);
    free(inference->features);
    free(inference->logits);
    *inference = (ole_inference){0};
}

ole_status ole_inference_run(ole_inference *inference, const float *images, int64_t count,
                             ole_error *error) {
    const ole_graph *graph = inference->network->graph;
    if (count < inference->batch) {
        size_t size = (size_t)ole_network_image_size(inference->network) * sizeof *images;
        memmove(inference->images, images, (size_t)count * size);
        memset((char *)inference->images + (size_t)count * size, 0,
               (size_t)(inference->batch - count) * size);
        images = inference->images;
    }
    ole_plan_forward(inference->plan, images, false, 0);
    ole_plan_read(inference->plan, graph->features, inference->features);
    ole_plan_read(inference->plan, graph->classifier, inference->logits);
    return ole_network_wait(inference->network, error);
}

int ole_largest(const float *values, int count) {
    int best = 0;
    for (int i = 1; i < count; i++)
        if (values[i] > values[best]) best = i;
    return best;
}

int64_t ole_find_not_finite(const float *rows, int64_t count, int64_t size) {
    for (int64_t i = 0; i < count; i++, rows += size) {
        int bad = 0; /* without a way out, so that the compiler uses vectors */
        for (int64_t k = 0; k < size; k++)
            bad |= !isfinite(rows[k]);
        if (bad) return i;
    }
    return -1;
}
