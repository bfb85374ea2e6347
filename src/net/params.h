/*
 * src/net/params.h - a network's parameters in a backend's memory: weights, gradients and optimiser
 * state.  Plans of any batch size share one set.
 */
#ifndef OLE_SRC_NET_PARAMS_H
#define OLE_SRC_NET_PARAMS_H

#include "device/backend.h"
#include "net/graph.h"

typedef struct ole_params ole_params;

/*
 * Everything starts at zero. `train` also allocates a gradient per trained parameter and `moments`
 * optimiser states, 0 to 2.
 */
ole_status ole_params_create(ole_params **params, const ole_graph *graph,
                             const ole_backend *backend, ole_device_context *context, bool train,
                             int moments, ole_error *error);
void ole_params_free(ole_params *params);

/* Copies parameter i of the graph to and from plain floats in the shape of its ole_param. */
void ole_params_set(ole_params *params, int i, const float *plain);
void ole_params_get(const ole_params *params, int i, float *plain);

/* Zeroes the optimiser's states. */
ole_status ole_params_forget(ole_params *params, ole_error *error);

/* Optimiser state `which` (0: momentum or first moment, 1: second moment) of parameter i. */
void ole_params_set_state(ole_params *params, int i, int which, const float *plain);
void ole_params_get_state(const ole_params *params, int i, int which, float *plain);

/*
 * The moving average of all parameters, running statistics included, which ole_params_update()
 * keeps from ole_params_average() on; it starts at the parameters.  Swapping exchanges the two, for
 * evaluation; do it again before the next step.
 */
ole_status ole_params_average(ole_params *params, ole_error *error);
bool ole_params_has_average(const ole_params *params);
void ole_params_set_average(ole_params *params, int i, const float *plain);
void ole_params_get_average(const ole_params *params, int i, float *plain);
void ole_params_swap_average(ole_params *params);

/* A frozen parameter keeps its value; its gradient is not computed. */
void ole_params_freeze(ole_params *params, int i);
void ole_params_thaw(ole_params *params, int i);
bool ole_params_is_frozen(const ole_params *params, int i);

/* A factor of the learning rate of parameter i; 1 unless set. */
void ole_params_set_rate(ole_params *params, int i, double factor);

/*
 * Initial values: random weights ("xavier": uniform; "msra": normal, by fan-out), gamma and running
 * variance 1, the rest 0.
 */
ole_status ole_params_init(ole_params *params, const char *kind, uint64_t seed, ole_error *error);

/*
 * One optimiser step on every trained parameter that is not frozen and that the last backward
 * reached.  Clipping counts these parameters.
 */
void ole_params_update(ole_params *params, const ole_update *update);

size_t ole_params_bytes(const ole_params *params);

/* For plans: parameter i in the backend's memory, and its gradient (NULL: not trained, frozen). */
void *ole_params_data(const ole_params *params, int i);
void *ole_params_gradient(const ole_params *params, int i);

size_t ole_params_size(const ole_params *params, int i);

/*
 * The block that holds all gradients: last node first, parameters of a node in order, each on a
 * multiple of 256 bytes with zeros in the gaps.
 */
void *ole_params_gradients(const ole_params *params, size_t *bytes);

/* Sets the gradient of parameter i, which is not frozen, from plain floats, and marks it. */
void ole_params_set_gradient(ole_params *params, int i, const float *plain);

/* For plans: whether the last backward reached parameter i; updates skip the others. */
void ole_params_mark(ole_params *params, int i, bool has_gradient);
bool ole_params_is_marked(const ole_params *params, int i);

#endif
