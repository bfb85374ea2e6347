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
    char skipped_names[120], left_names[120];
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

static ole_status load_safetensors(ole_network *network, const ole_safetensors *file, float *plain,
                                   tally *t, ole_error *error) {
    const ole_graph *graph = network->graph;
    size_t count = ole_safetensors_count(file);
    bool *used = calloc(count + 1, sizeof *used); /* [count] */
    if (!used) return ole_fail(error, OLE_ERROR_MEMORY, "out of memory for initial weights");
    for (int i = 0; i < graph->params; i++) {
        const ole_tensor *tensor = ole_published_find(file, graph, i);
        if (!tensor || !ole_tensor_fits(tensor, &graph->param[i])) {
            leave(t, graph->param[i].name);
            continue;
        }
        ole_tensor_read(tensor, OLE_F32, plain);
        ole_params_set(network->params, i, plain);
        used[ole_safetensors_index(file, tensor)] = true;
        t->loaded++;
    }
    for (size_t k = 0; k < count; k++) {
        const char *name = ole_safetensors_get(file, k)->name;
        bool state = strncmp(name, "optimizer.", 10) == 0 || strncmp(name, "train.", 6) == 0 ||
                     strncmp(name, "average.", 8) == 0;
        if (!used[k] && !state && !ole_tensor_is_state(name))
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

ole_status ole_init_from(ole_network *network, const char *path, char report[OLE_REPORT_ROOM],
                         ole_error *error) {
    float *plain = ole_network_plain(network);
    if (!plain) return ole_fail(error, OLE_ERROR_MEMORY, "out of memory for initial weights");
    tally t = {0};
    ole_status status = load_file(network, path, plain, &t, error);
    free(plain);
    if (status != OLE_OK) return status;
    snprintf(report, OLE_REPORT_ROOM, "%s: %d loaded, %d skipped%s%s%s, %d left unchanged%s%s%s",
             ole_quote_string(path).text, t.loaded, t.skipped, t.skipped ? " (" : "",
             t.skipped_names, t.skipped ? ")" : "", t.left, t.left ? " (" : "", t.left_names,
             t.left ? ")" : "");
    if (t.loaded > 0) return OLE_OK;
    return ole_fail(error, OLE_ERROR_ARGUMENT, "init_from %s: no tensor in it fits the net",
                    report);
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
