/*
 * src/net/params.c - parameters in a backend's memory.  Initial weights come from Philox counters,
 * so a seed gives the same weights on every backend.
 *
 * All gradients share one block, last node first: that is the order in which backward finishes
 * them, so finished ranges can be summed over ranks in large pieces.
 */
#include "net/params.h"

#include "base/available_memory.h"
#include "base/error.h"
#include "base/min_max.h"
#include "base/philox.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Bytes; a multiple of every device's vector size. */
enum { GRADIENT_ALIGNMENT = 256 };

typedef struct slot {
    size_t bytes, state_bytes;
    void *data;
    void *gradient; /* in the shared block; NULL if not trained */
    void *state[2];
    void *average; /* NULL: none is kept */
    double rate;   /* factor of the learning rate */
    bool frozen;
    bool has_gradient;
} slot;

struct ole_params {
    const ole_graph *graph;
    const ole_backend *backend;
    ole_device_context *context;
    slot *slot;             /* [graph->params] */
    ole_update_item *items; /* [graph->params] scratch of ole_params_update() */
    float *plain[2];        /* room to swap a parameter; NULL without an average */
    char *gradients;        /* the shared block */
    size_t gradient_bytes;
    size_t bytes;
};

static const ole_node *node_of(const ole_params *params, int i) {
    return &params->graph->node[params->graph->param[i].node];
}

/* Allocates backend memory and adds it to `bytes`; sets *failed if there is none. */
static void *take(ole_params *params, size_t bytes, bool *failed) {
    void *memory = params->backend->allocate(params->context, bytes);
    if (!memory) *failed = true;
    params->bytes += bytes;
    return memory;
}

/* Sets the gradients' addresses once the block exists; returns the block's size. */
static size_t place_gradients(ole_params *params) {
    const ole_graph *graph = params->graph;
    size_t at = 0;
    for (int n = graph->nodes - 1; n >= 0; n--) {
        const ole_node *node = &graph->node[n];
        for (int i = node->first_param; i < node->first_param + node->params; i++) {
            if (!graph->param[i].trained) continue;
            if (params->gradients) params->slot[i].gradient = params->gradients + at;
            at += (params->slot[i].bytes + GRADIENT_ALIGNMENT - 1) / GRADIENT_ALIGNMENT *
                  GRADIENT_ALIGNMENT;
        }
    }
    return at;
}

static ole_status check_room(ole_params *params, bool train, int moments, ole_error *error) {
    size_t bytes = train ? place_gradients(params) : 0;
    for (int i = 0; i < params->graph->params; i++) {
        const slot *s = &params->slot[i];
        bytes += s->bytes;
        if (train && params->graph->param[i].trained) bytes += (size_t)moments * s->state_bytes;
    }
    if (params->backend->own_memory) return OLE_OK;
    return ole_memory_check(
        bytes, train ? "the weights, with gradients and the optimiser's state" : "the weights",
        "use a smaller net", error);
}

static ole_status allocate_params(ole_params *params, bool train, int moments, ole_error *error) {
    const ole_graph *graph = params->graph;
    const ole_backend *backend = params->backend;
    for (int i = 0; i < graph->params; i++) {
        const ole_node *node = node_of(params, i);
        const ole_param *param = &graph->param[i];
        slot *s = &params->slot[i];
        s->rate = 1.0;
        s->bytes = s->state_bytes = backend->param_bytes(params->context, node, param);
        if (backend->state_bytes)
            s->state_bytes = backend->state_bytes(params->context, node, param);
    }
    ole_status status = check_room(params, train, moments, error);
    if (status != OLE_OK) return status;
    bool failed = false;
    for (int i = 0; i < graph->params; i++) {
        slot *s = &params->slot[i];
        s->data = take(params, s->bytes, &failed);
        if (!train || !graph->param[i].trained) continue;
        for (int k = 0; k < moments; k++)
            s->state[k] = take(params, s->state_bytes, &failed);
    }
    if (train) params->gradient_bytes = place_gradients(params);
    if (params->gradient_bytes > 0) {
        params->gradients = take(params, params->gradient_bytes, &failed);
        place_gradients(params);
    }
    if (!failed) return OLE_OK;
    return ole_fail(error, OLE_ERROR_MEMORY, "out of memory: the parameters need %.3g GiB",
                    (double)params->bytes / 1073741824.0);
}

ole_status ole_params_create(ole_params **result, const ole_graph *graph,
                             const ole_backend *backend, ole_device_context *context, bool train,
                             int moments, ole_error *error) {
    *result = NULL;
    ole_params *params = calloc(1, sizeof *params);
    slot *slots = calloc((size_t)graph->params + 1, sizeof *slots);
    ole_update_item *items = calloc((size_t)graph->params + 1, sizeof *items);
    if (!params || !slots || !items) {
        free(params);
        free(slots);
        free(items);
        return ole_fail(error, OLE_ERROR_MEMORY, "out of memory for the network's parameters");
    }
    *params = (ole_params){
        .graph = graph, .backend = backend, .context = context, .slot = slots, .items = items};
    ole_status status = allocate_params(params, train, moments, error);
    if (status == OLE_OK)
        *result = params;
    else
        ole_params_free(params);
    return status;
}

void ole_params_free(ole_params *params) {
    if (!params) return;
    for (int i = 0; i < params->graph->params; i++) {
        slot *s = &params->slot[i];
        void *all[] = {s->data, s->state[0], s->state[1], s->average};
        for (int k = 0; k < 4; k++)
            if (all[k]) params->backend->free(params->context, all[k]);
    }
    if (params->gradients) params->backend->free(params->context, params->gradients);
    free(params->plain[0]);
    free(params->plain[1]);
    free(params->slot);
    free(params->items);
    free(params);
}

static void read_plain(const ole_params *params, int i, const void *from, float *plain) {
    params->backend->param_to_plain(params->context, node_of(params, i), &params->graph->param[i],
                                    from, plain);
}

static void write_plain(ole_params *params, int i, const float *plain, void *to) {
    params->backend->param_from_plain(params->context, node_of(params, i), &params->graph->param[i],
                                      plain, to);
}

void ole_params_set(ole_params *params, int i, const float *plain) {
    write_plain(params, i, plain, params->slot[i].data);
}

void ole_params_get(const ole_params *params, int i, float *plain) {
    read_plain(params, i, params->slot[i].data, plain);
}

void ole_params_set_state(ole_params *params, int i, int which, const float *plain) {
    const ole_backend *backend = params->backend;
    (backend->state_from_plain ? backend->state_from_plain : backend->param_from_plain)(
        params->context, node_of(params, i), &params->graph->param[i], plain,
        params->slot[i].state[which]);
}

void ole_params_get_state(const ole_params *params, int i, int which, float *plain) {
    read_plain(params, i, params->slot[i].state[which], plain);
}

ole_status ole_params_average(ole_params *params, ole_error *error) {
    int64_t largest = 1;
    bool failed = false;
    for (int i = 0; i < params->graph->params; i++)
        largest = ole_max(largest, params->graph->param[i].count);
    for (int k = 0; k < 2; k++)
        params->plain[k] = malloc((size_t)largest * sizeof(float));
    for (int i = 0; i < params->graph->params && !failed; i++)
        params->slot[i].average = take(params, params->slot[i].bytes, &failed);
    if (failed || !params->plain[0] || !params->plain[1])
        return ole_fail(error, OLE_ERROR_MEMORY, "out of memory for the average of the weights");
    for (int i = 0; i < params->graph->params; i++) {
        ole_params_get(params, i, params->plain[0]);
        ole_params_set_average(params, i, params->plain[0]);
    }
    return OLE_OK;
}

bool ole_params_has_average(const ole_params *params) {
    return params->plain[0] != NULL;
}

void ole_params_set_average(ole_params *params, int i, const float *plain) {
    write_plain(params, i, plain, params->slot[i].average);
}

void ole_params_get_average(const ole_params *params, int i, float *plain) {
    read_plain(params, i, params->slot[i].average, plain);
}

void ole_params_swap_average(ole_params *params) {
    for (int i = 0; i < params->graph->params; i++) {
        ole_params_get(params, i, params->plain[0]);
        ole_params_get_average(params, i, params->plain[1]);
        ole_params_set(params, i, params->plain[1]);
        ole_params_set_average(params, i, params->plain[0]);
    }
}

void ole_params_freeze(ole_params *params, int i) {
    params->slot[i].frozen = true;
}

void ole_params_thaw(ole_params *params, int i) {
    params->slot[i].frozen = false;
}

bool ole_params_is_frozen(const ole_params *params, int i) {
    return params->slot[i].frozen;
}

void ole_params_set_rate(ole_params *params, int i, double factor) {
    params->slot[i].rate = factor;
}

ole_status ole_params_forget(ole_params *params, ole_error *error) {
    int64_t largest = 1;
    for (int i = 0; i < params->graph->params; i++)
        largest = ole_max(largest, params->graph->param[i].count);
    float *zeros = calloc((size_t)largest, sizeof *zeros);
    if (!zeros) return ole_fail(error, OLE_ERROR_MEMORY, "out of memory for the optimiser");
    for (int i = 0; i < params->graph->params; i++)
        for (int k = 0; k < 2 && params->slot[i].state[k]; k++)
            ole_params_set_state(params, i, k, zeros);
    free(zeros);
    return OLE_OK;
}

/* ---- initialisation ----------------------------------------------------------------------- */

enum { OLE_RANDOM_INIT = 4 }; /* a = parameter, b = pair of elements */

/* Two random numbers: uniform in (-1, 1), or standard normal by the Box-Muller transform. */
static void draw_two(uint64_t seed, int param, int64_t pair, bool normal, double out[2]) {
    uint32_t w[4];
    ole_philox(seed, OLE_RANDOM_INIT, (uint64_t)param, (uint64_t)pair, w);
    double u = ((double)w[0] + (double)w[1] * 0x1p32 + 0.5) * 0x1p-64;
    double v = ((double)w[2] + (double)w[3] * 0x1p32 + 0.5) * 0x1p-64;
    double radius = sqrt(-2.0 * log(u)), angle = 6.283185307179586 * v;
    out[0] = normal ? radius * cos(angle) : 2.0 * u - 1.0;
    out[1] = normal ? radius * sin(angle) : 2.0 * v - 1.0;
}

/* By the fans of a weight [out, in, k, k] or [out, in]. */
static void fill_random(const ole_param *p, int index, bool msra, uint64_t seed, float *plain) {
    double field = p->ndim == 4 ? (double)(p->shape[2] * p->shape[3]) : 1.0;
    double out = (double)p->shape[0] * field, in = (double)p->shape[1] * field, two[2];
    double scale = msra ? sqrt(2.0 / out) : sqrt(6.0 / (in + out));
    for (int64_t e = 0; e < p->count; e++) {
        if (e % 2 == 0) draw_two(seed, index, e / 2, msra, two);
        plain[e] = (float)(scale * two[e % 2]);
    }
}

ole_status ole_params_init(ole_params *params, const char *kind, uint64_t seed, ole_error *error) {
    bool msra = strcmp(kind, "msra") == 0;
    if (!msra && strcmp(kind, "xavier") != 0)
        return ole_fail(error, OLE_ERROR_ARGUMENT, "init '%s': use xavier or msra", kind);
    int64_t largest = 1;
    for (int i = 0; i < params->graph->params; i++)
        if (params->graph->param[i].count > largest) largest = params->graph->param[i].count;
    float *plain = malloc((size_t)largest * sizeof *plain);
    if (!plain) return ole_fail(error, OLE_ERROR_MEMORY, "out of memory for the initial weights");
    for (int i = 0; i < params->graph->params; i++) {
        const ole_param *p = &params->graph->param[i];
        bool one = p->kind == OLE_PARAM_GAMMA || p->kind == OLE_PARAM_VAR;
        if (p->kind == OLE_PARAM_WEIGHT)
            fill_random(p, i, msra, seed, plain);
        else
            for (int64_t e = 0; e < p->count; e++)
                plain[e] = one ? 1.0f : 0.0f;
        ole_params_set(params, i, plain);
    }
    free(plain);
    return OLE_OK;
}

/* ---- use ---------------------------------------------------------------------------------- */

static void average(ole_params *params, const ole_update *update) {
    int count = params->graph->params;
    for (int i = 0; i < count; i++) {
        const slot *s = &params->slot[i];
        params->items[i] = (ole_update_item){.node = node_of(params, i),
                                             .param = &params->graph->param[i],
                                             .data = s->data,
                                             .state = {s->average},
                                             .bytes = s->bytes,
                                             .rate = 1.0};
    }
    params->backend->average(params->context, update, params->items, count);
}

void ole_params_update(ole_params *params, const ole_update *update) {
    int count = 0;
    for (int i = 0; i < params->graph->params; i++) {
        slot *s = &params->slot[i];
        if (!s->gradient || s->frozen || !s->has_gradient) continue;
        params->items[count++] = (ole_update_item){.node = node_of(params, i),
                                                   .param = &params->graph->param[i],
                                                   .data = s->data,
                                                   .gradient = s->gradient,
                                                   .state = {s->state[0], s->state[1]},
                                                   .bytes = s->bytes,
                                                   .rate = s->rate};
    }
    const ole_backend *backend = params->backend;
    if (update->clip > 0.0) backend->clip(params->context, update->clip, params->items, count);
    if (backend->update_all) backend->update_all(params->context, update, params->items, count);
    for (int k = 0; k < count && !backend->update_all; k++) {
        ole_update_item *item = &params->items[k];
        ole_update own = *update;
        own.lr *= item->rate;
        backend->update(params->context, &own, item->bytes, item->data, item->gradient,
                        item->state);
    }
    if (update->average > 0.0 && ole_params_has_average(params)) average(params, update);
}

size_t ole_params_bytes(const ole_params *params) {
    return params->bytes;
}

void *ole_params_data(const ole_params *params, int i) {
    return params->slot[i].data;
}

void *ole_params_gradient(const ole_params *params, int i) {
    return params->slot[i].frozen ? NULL : params->slot[i].gradient;
}

size_t ole_params_size(const ole_params *params, int i) {
    return params->slot[i].bytes;
}

void *ole_params_gradients(const ole_params *params, size_t *bytes) {
    *bytes = params->gradient_bytes;
    return params->gradients;
}

void ole_params_set_gradient(ole_params *params, int i, const float *plain) {
    const ole_backend *backend = params->backend;
    void *to = params->slot[i].gradient;
    if (backend->gradient_from_plain)
        backend->gradient_from_plain(params->context, node_of(params, i), &params->graph->param[i],
                                     plain, to);
    else
        write_plain(params, i, plain, to);
    ole_params_mark(params, i, true);
}

void ole_params_mark(ole_params *params, int i, bool has_gradient) {
    params->slot[i].has_gradient = has_gradient;
}

bool ole_params_is_marked(const ole_params *params, int i) {
    return params->slot[i].has_gradient;
}
