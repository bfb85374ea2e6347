/*
 * src/model/onnx_values.c - the numbers of an ONNX file's tensors: those of the model, or those of
 * a layer that has taken in the batch norm behind it:
 *
 *     gamma (W x + b - mean) / sqrt(variance + eps) + beta = (s W) x + (b - mean) s + beta,
 *     s = gamma / sqrt(variance + eps)
 */
#include "base/error.h"
#include "model/checkpoint.h"
#include "model/onnx.h"

#include <math.h>
#include <stdlib.h>

/* A norm for each of its channels: y = scale x + shift. */
typedef struct channel_map {
    int64_t channels;
    double *scale, *shift;
} channel_map;

/* The parameter of a kind, or `otherwise` for every channel where the node has none. */
static ole_status read_vector(const ole_onnx *o, const ole_node *node, ole_param_kind kind,
                              double otherwise, float *out, ole_error *error) {
    int i = ole_onnx_find_param(o->graph, node, kind);
    if (i >= 0) return ole_weight_read(o->file, o->path, &o->graph->param[i], out, error);
    for (int64_t c = 0; c < node->out.c; c++)
        out[c] = (float)otherwise;
    return OLE_OK;
}

static void map_free(channel_map *map) {
    free(map->scale);
    free(map->shift);
    *map = (channel_map){0};
}

static ole_status map_read(channel_map *map, const ole_onnx *o, const ole_node *norm,
                           ole_error *error) {
    size_t n = (size_t)norm->out.c;
    *map = (channel_map){norm->out.c, malloc(n * sizeof(double)), malloc(n * sizeof(double))};
    float *v = malloc(4 * n * sizeof *v);
    ole_status status = map->scale && map->shift && v
                            ? OLE_OK
                            : ole_fail(error, OLE_ERROR_MEMORY, "out of memory for a batch norm");
    static const ole_param_kind kinds[4] = {OLE_PARAM_GAMMA, OLE_PARAM_BETA, OLE_PARAM_MEAN,
                                            OLE_PARAM_VAR};
    for (int k = 0; k < 4 && status == OLE_OK; k++)
        status = read_vector(o, norm, kinds[k], k == 0 ? 1.0 : 0.0, v + (size_t)k * n, error);
    for (size_t c = 0; c < n && status == OLE_OK; c++) {
        double gamma = v[c], beta = v[n + c], mean = v[2 * n + c], variance = v[3 * n + c];
        map->scale[c] = gamma / sqrt(variance + OLE_ONNX_EPSILON);
        map->shift[c] = beta - mean * map->scale[c];
    }
    free(v);
    if (status != OLE_OK) map_free(map);
    return status;
}

static ole_status fill_folded(const ole_onnx *o, const ole_onnx_tensor *t, float *out,
                              ole_error *error) {
    const ole_node *node = &o->graph->node[t->index];
    bool weight = t->source == OLE_ONNX_FROM_FOLDED_WEIGHT;
    channel_map map;
    ole_status status = map_read(&map, o, &o->graph->node[o->norm[t->index]], error);
    if (status != OLE_OK) return status;
    status = read_vector(o, node, weight ? OLE_PARAM_WEIGHT : OLE_PARAM_BIAS, 0.0, out, error);
    int64_t fan = t->count / map.channels;
    for (int64_t i = 0; i < t->count && status == OLE_OK; i++) {
        int64_t c = i / fan;
        out[i] = (float)(map.scale[c] * (double)out[i] + (weight ? 0.0 : map.shift[c]));
    }
    map_free(&map);
    return status;
}

ole_status ole_onnx_fill(const ole_onnx *o, const ole_onnx_tensor *t, float *out,
                         ole_error *error) {
    switch (t->source) {
    case OLE_ONNX_FROM_PARAM:
        return ole_weight_read(o->file, o->path, &o->graph->param[t->index], out, error);
    case OLE_ONNX_FROM_FOLDED_WEIGHT:
    case OLE_ONNX_FROM_FOLDED_BIAS:
        return fill_folded(o, t, out, error);
    default:
        break;
    }
    for (int64_t i = 0; i < t->count; i++)
        out[i] = t->source == OLE_ONNX_FROM_MEAN        ? o->card->mean[i]
                 : t->source == OLE_ONNX_FROM_DEVIATION ? o->card->deviation[i]
                 : t->source == OLE_ONNX_FROM_ONES      ? 1.0f
                                                        : 0.0f;
    return OLE_OK;
}
