/* src/model/init_from.c - initial weights from a file, and frozen parameters. */
#include "model/init_from.h"

#include "base/error.h"
#include "base/quote.h"
#include "model/caffe.h"
#include "model/hub.h"
#include "model/published_names.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Counts, and the first names of tensors that did not fit. */
typedef struct tally {
    int loaded, skipped, left;
    int unneeded; /* counters of batches, and the state of a run */
    char skipped_names[120], left_names[120];
    int first_gap; /* the first parameter left, unless weights of this network may lack it; or -1 */
    bool behind_it;         /* later ones were loaded */
    char other_images[160]; /* the layer left as it is for images of other channels or size */
} tally;

static void add_name(char names[120], const char *name) {
    size_t used = strlen(names);
    /* Names lie inside structs. NOLINTNEXTLINE(clang-analyzer-core.NonNullParamChecker) */
    if (used + strlen(name) + 8 < 120)
        snprintf(names + used, 120 - used, "%s%s", used ? ", " : "", name);
    else if (used < 5 || strcmp(names + used - 5, ", ...") != 0)
        snprintf(names + used, 120 - used, ", ...");
}

static void skip(tally *t, const char *name) {
    t->skipped++;
    add_name(t->skipped_names, name);
}

static void leave(tally *t, const char *name) {
    t->left++;
    add_name(t->left_names, name);
}

/* ---- safetensors -------------------------------------------------------------------------- */

/* Whether a tensor is the convolution `param`, but for images of other channels. */
static bool has_other_channels(const ole_tensor *tensor, const ole_param *param) {
    return tensor && tensor->ndim == 4 && param->ndim == 4 && tensor->shape[0] == param->shape[0] &&
           tensor->shape[1] != param->shape[1] && tensor->shape[2] == param->shape[2] &&
           tensor->shape[3] == param->shape[3];
}

/* Whether a tensor is the linear layer `param` over all pixels, but for images of another size. */
static bool has_other_size(const ole_tensor *tensor, const ole_graph *graph,
                           const ole_param *param) {
    const ole_node *node = &graph->node[param->node];
    return tensor && tensor->ndim >= 2 && node->op == OLE_OP_LINEAR &&
           graph->node[node->input[0]].op == OLE_OP_FLATTEN &&
           tensor->shape[0] == param->shape[0] && ole_tensor_count(tensor) != param->count;
}

/* Parameter i stays as it is.  The classifier may be one of other classes, layers that read all
 * channels or pixels may be for other images, and a bias that no one published is 0. */
static void leave_param(tally *t, const ole_graph *graph, int i, const ole_tensor *tensor) {
    const ole_param *param = &graph->param[i];
    leave(t, param->name);
    if (param->node == graph->classifier) return;
    if (i == 0 && has_other_channels(tensor, param))
        snprintf(t->other_images, sizeof t->other_images,
                 "%s is for images of %d channels, these have %d", param->name,
                 (int)tensor->shape[1], (int)param->shape[1]);
    else if (has_other_size(tensor, graph, param))
        snprintf(t->other_images, sizeof t->other_images, "%s is for images of another size",
                 param->name);
    else if (t->first_gap < 0 && (tensor || param->kind != OLE_PARAM_BIAS))
        t->first_gap = i;
}

static ole_status load_safetensors(ole_network *network, const ole_safetensors *file, float *plain,
                                   tally *t, ole_error *error) {
    const ole_graph *graph = network->graph;
    size_t count = ole_safetensors_count(file);
    bool *used = calloc(count + 1, sizeof *used); /* [count] */
    if (!used) return ole_fail(error, OLE_ERROR_MEMORY, "out of memory for initial weights");
    for (int i = 0; i < graph->params; i++) {
        const ole_tensor *tensor = ole_published_find(file, graph, i);
        if (!tensor || !ole_tensor_fits(tensor, &graph->param[i])) {
            leave_param(t, graph, i, tensor);
            continue;
        }
        t->behind_it |= t->first_gap >= 0 && graph->param[i].node != graph->classifier;
        ole_tensor_read(tensor, OLE_F32, plain);
        ole_params_set(network->params, i, plain);
        used[ole_safetensors_index(file, tensor)] = true;
        t->loaded++;
    }
    for (size_t k = 0; k < count; k++) {
        const char *name = ole_safetensors_get(file, k)->name;
        if (used[k]) continue;
        if (ole_tensor_is_state(name))
            t->unneeded++;
        else
            skip(t, ole_quote_string(name).text);
    }
    free(used);
    return OLE_OK;
}

/* ---- Caffe -------------------------------------------------------------------------------- */

/* Caffe's images are BGR, ours are RGB: exchanges channels 0 and 2 of [out, 3, k, k]. */
static void turn_channels(const ole_param *param, const float *from, float *to) {
    int64_t plane = param->shape[2] * param->shape[3];
    for (int64_t o = 0; o < param->shape[0]; o++)
        for (int64_t c = 0; c < 3; c++)
            memcpy(to + (o * 3 + c) * plane, from + (o * 3 + 2 - c) * plane,
                   (size_t)plane * sizeof *to);
}

/* The blob of a parameter: the weight is 0, the bias 1. */
static int blob_of(const ole_param *param) {
    return param->kind == OLE_PARAM_WEIGHT ? 0 : 1;
}

/* Whether a layer has a node's parameters; the bias may be missing. */
static bool layer_fits(const ole_graph *graph, const ole_node *node, const ole_caffe_layer *layer) {
    for (int p = 0; p < node->params; p++) {
        const ole_param *param = &graph->param[node->first_param + p];
        int64_t count = layer->count[blob_of(param)];
        if (count != param->count && (blob_of(param) == 0 || count > 0)) return false;
    }
    return true;
}

/* Loads weight and bias of one node; false, with nothing loaded, if they do not fit. */
static bool load_layer(ole_network *network, const ole_node *node, const ole_caffe_layer *layer,
                       bool first, float *plain) {
    if (!layer_fits(network->graph, node, layer)) return false;
    for (int p = 0; p < node->params; p++) {
        int i = node->first_param + p;
        const ole_param *param = &network->graph->param[i];
        int blob = blob_of(param);
        if (layer->count[blob] != param->count) continue;
        memcpy(plain, layer->data[blob], (size_t)param->count * sizeof *plain);
        if (first && blob == 0 && param->ndim == 4 && param->shape[1] == 3)
            turn_channels(param, layer->data[blob], plain);
        ole_params_set(network->params, i, plain);
    }
    return true;
}

static void load_caffe(ole_network *network, const ole_caffe *model, float *plain, tally *t) {
    const ole_graph *graph = network->graph;
    int next = 0;
    for (int n = 0; n < graph->nodes; n++) {
        const ole_node *node = &graph->node[n];
        if (node->op != OLE_OP_CONV && node->op != OLE_OP_LINEAR) continue;
        const ole_caffe_layer *layer = next < model->layers ? &model->layer[next] : NULL;
        bool loaded = layer && load_layer(network, node, layer, next == 0, plain);
        if (loaded) {
            t->loaded++;
        } else {
            if (layer) skip(t, layer->name);
            leave(t, node->name);
        }
        next++;
    }
    for (; next < model->layers; next++)
        skip(t, model->layer[next].name);
}

/* ---- Both --------------------------------------------------------------------------------- */

static ole_status load_file(ole_network *network, const char *path, float *plain, tally *t,
                            ole_error *error) {
    char fetched[OLE_RUN_PATH];
    ole_status status = ole_weights_fetch(path, true, fetched, error);
    if (status != OLE_OK) return status;
    path = fetched;
    size_t length = strlen(path);
    if (length >= 11 && strcmp(path + length - 11, ".caffemodel") == 0) {
        ole_caffe model;
        status = ole_caffe_read(&model, path, error);
        if (status == OLE_OK) load_caffe(network, &model, plain, t);
        ole_caffe_free(&model);
        return status;
    }
    ole_safetensors *file = NULL;
    status = ole_safetensors_open(&file, path, error);
    if (status == OLE_OK) status = load_safetensors(network, file, plain, t, error);
    ole_safetensors_close(file);
    return status;
}

/* What of a network that its weights do not fill should be known; "": nothing. */
static void warn(const tally *t, const ole_graph *graph, const char *name,
                 char warning[OLE_REPORT_ROOM]) {
    if (t->first_gap >= 0)
        snprintf(
            warning, OLE_REPORT_ROOM,
            "warning: %s: nothing in it fits %s and the layers after it, which start untrained; "
            "if these are weights of another network, name that with --net",
            name, graph->param[t->first_gap].name);
    else if (t->other_images[0])
        snprintf(warning, OLE_REPORT_ROOM, "warning: %s: %s; it starts untrained", name,
                 t->other_images);
}

ole_status ole_init_from(ole_network *network, const char *path, char report[OLE_REPORT_ROOM],
                         char warning[OLE_REPORT_ROOM], ole_error *error) {
    float *plain = ole_network_plain(network);
    if (!plain) return ole_fail(error, OLE_ERROR_MEMORY, "out of memory for initial weights");
    tally t = {.first_gap = -1};
    ole_status status = load_file(network, path, plain, &t, error);
    free(plain);
    if (status != OLE_OK) return status;
    const ole_quoted name = ole_quote_string(path);
    int used = snprintf(
        report, OLE_REPORT_ROOM, "%s: %d loaded, %d skipped%s%s%s, %d left unchanged%s%s%s",
        name.text, t.loaded, t.skipped, t.skipped ? " (" : "", t.skipped_names,
        t.skipped ? ")" : "", t.left, t.left ? " (" : "", t.left_names, t.left ? ")" : "");
    if (t.unneeded > 0)
        snprintf(report + used, (size_t)(OLE_REPORT_ROOM - used), ", %d not needed", t.unneeded);
    *warning = '\0';
    warn(&t, network->graph, name.text, warning);
    if (t.loaded == 0)
        return ole_fail(error, OLE_ERROR_ARGUMENT, "init_from %s: no tensor in it fits the net",
                        report);
    if (t.behind_it)
        return ole_fail(error, OLE_ERROR_ARGUMENT,
                        "init_from %s: weights of another network: nothing in it fits %s, though "
                        "later layers fit (%d tensors loaded, %d skipped, %d left); name their "
                        "network with --net",
                        name.text, network->graph->param[t.first_gap].name, t.loaded, t.skipped,
                        t.left);
    return OLE_OK;
}

/* Whether a name starts with the prefix; numbers match whole: 1 is not a prefix of 10. */
static bool begins_with(const char *name, const char *prefix, size_t length) {
    if (length == 0 || strncmp(name, prefix, length) != 0) return false;
    return !isdigit((unsigned char)prefix[length - 1]) || !isdigit((unsigned char)name[length]);
}

/* Whether a parameter is in a part of the network: backbone, or in a net of residual blocks stem,
 * stage1, ... */
static bool is_in_part(const ole_graph *graph, int i, const char *part, size_t length) {
    const ole_node *node = &graph->node[graph->param[i].node];
    int stages = ole_stage_of(graph, &graph->node[graph->token_node[graph->tokens]]);
    char name[24] = "stem";
    if (graph->param[i].node == graph->classifier) return false;
    if (length == 8 && memcmp(part, "backbone", length) == 0) return true;
    if (ole_stage_of(graph, node) > 0)
        snprintf(name, sizeof name, "stage%d", ole_stage_of(graph, node));
    return stages > 0 && length == strlen(name) && memcmp(part, name, length) == 0;
}

ole_status ole_freeze(ole_network *network, const char *prefixes, ole_error *error) {
    const ole_graph *graph = network->graph;
    for (const char *at = prefixes; *at;) {
        size_t length = strcspn(at, ",");
        bool found = false;
        for (int i = 0; i < graph->params; i++)
            if (begins_with(graph->param[i].name, at, length) || is_in_part(graph, i, at, length)) {
                ole_params_freeze(network->params, i);
                found = true;
            }
        if (!found) {
            return ole_fail(error, OLE_ERROR_ARGUMENT,
                            "freeze: no parameter begins with '%s'; 'ole net' lists the layers",
                            ole_quote(at, length).text);
        }
        at += length;
        at += *at == ',';
    }
    return OLE_OK;
}
