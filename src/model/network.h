/*
 * src/model/network.h - a network with its parameters on a device, and running images through it.
 */
#ifndef OLE_SRC_MODEL_NETWORK_H
#define OLE_SRC_MODEL_NETWORK_H

#include "base/cpu.h"
#include "net/plan.h"

typedef struct ole_network_options {
    const char *net;
    ole_shape input;
    int classes;
    const char *device;    /* "auto", "cpu", "cuda", "cuda:N", "ref" */
    const char *precision; /* "fp32", "tf32", "bf16" */
    const char *conv;      /* "auto", "direct" */
    int threads;           /* 0: all processors */
    uint64_t seed;
    bool train;  /* gradients and optimiser state */
    int moments; /* of the optimiser: 1 for SGD, 2 for Adam */
} ole_network_options;

typedef struct ole_network {
    ole_graph *graph; /* fused */
    const ole_backend *backend;
    ole_device_context *context;
    ole_params *params; /* zero */
    int threads;
    bool shared; /* graph and parameters are another network's */
} ole_network;

/* On failure the network is as after a close. */
ole_status ole_network_open(ole_network *network, const ole_network_options *options,
                            ole_error *error);
void ole_network_close(ole_network *network);

/* The same graph and parameters for one more thread, on a device context of its own, which runs in
 * that thread alone; for networks in host memory.  Close it before `from`. */
ole_status ole_network_share(ole_network *network, const ole_network *from, ole_error *error);

/* Waits for the device, and reports what went wrong there. */
ole_status ole_network_wait(const ole_network *network, ole_error *error);

/* Floats of one image, and of its features. */
int64_t ole_network_image_size(const ole_network *network);
int64_t ole_network_feature_size(const ole_network *network);

/* Room for the largest parameter as plain floats; free() it. NULL without memory. */
float *ole_network_plain(const ole_network *network);

/* Running images in evaluation mode: a plan, and room to pad the last batch. */
typedef struct ole_inference {
    const ole_network *network;
    ole_plan *plan;
    bool owns_plan;
    int64_t batch;
    float *images;   /* [batch, image] */
    float *features; /* [batch, D] */
    float *logits;   /* [batch, classes] */
} ole_inference;

/* `plan`: an existing one for `batch` images, or NULL. */
ole_status ole_inference_open(ole_inference *inference, const ole_network *network, ole_plan *plan,
                              int64_t batch, ole_error *error);
void ole_inference_close(ole_inference *inference);

/* 1 to `batch` normalised images; the results are in inference->features and ->logits. */
ole_status ole_inference_run(ole_inference *inference, const float *images, int64_t count,
                             ole_error *error);

/* The index of the largest of `count` numbers; the first of equals. */
int ole_largest(const float *values, int count);

/* The first of `count` rows of `size` numbers that holds NaN or Inf; -1: none. */
int64_t ole_find_not_finite(const float *rows, int64_t count, int64_t size);

#endif
