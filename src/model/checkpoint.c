/* src/model/checkpoint.c - writing and reading models and checkpoints. */
#include "model/checkpoint.h"

#include "base/error.h"
#include "base/quote.h"
#include "model/published_names.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Weights, two moments and the average. */
enum { AVERAGE = 3, KINDS = 4, COUNTERS = 8, SUMS = 8, NAME = OLE_NODE_NAME + 48 };

static const char *const kind_prefix[KINDS] = {"", "optimizer.0.", "optimizer.1.", "average."};

static void name_tensor(char name[NAME], int kind, const ole_param *param) {
    snprintf(name, NAME, "%s%s", kind_prefix[kind], param->name);
}

/* ---- The state as tensors ----------------------------------------------------------------- */

static ole_state unpack_state(const int64_t c[COUNTERS], const double d[SUMS]) {
    return (ole_state){.epoch = c[0],
                       .step = c[1],
                       .updates = c[2],
                       .metrics_bytes = c[3],
                       .best_epoch = c[4],
                       .best_error = d[0],
                       .seconds = d[1],
                       .sums = {.loss = d[2],
                                .softmax_loss = d[3],
                                .ole_loss = d[4],
                                .seconds = d[5],
                                .ole_seconds = d[6],
                                .comm_seconds = d[7],
                                .steps = c[5],
                                .images = c[6],
                                .correct = c[7]}};
}

/* ---- Saving ------------------------------------------------------------------------------- */

/* The tensors of a file being written, and the memory they lie in. */
typedef struct collection {
    const ole_graph *graph;
    ole_tensor *tensors;
    size_t count;
    char (*names)[NAME];
    float *values;
    int64_t used;
} collection;

/* With room for `more` tensors beside those of the parameters and the state. */
static ole_status collection_open(collection *c, const ole_graph *graph, int kinds, size_t more,
                                  ole_error *error) {
    size_t most = (size_t)graph->params * (size_t)kinds + 5 + more, elements = 1;
    for (int i = 0; i < graph->params; i++)
        elements += (size_t)graph->param[i].count * (size_t)kinds;
    *c = (collection){.graph = graph,
                      .tensors = calloc(most, sizeof *c->tensors),
                      .names = calloc(most, sizeof *c->names),
                      .values = malloc(elements * sizeof *c->values)};
    if (c->tensors && c->names && c->values) return OLE_OK;
    return ole_fail(error, OLE_ERROR_MEMORY, "out of memory for a checkpoint");
}

static void collection_close(collection *c) {
    free(c->tensors);
    free(c->names);
    free(c->values);
}

/* Adds parameter i (kind 0) or one of its moments; returns its values, to be filled. */
static float *collection_add(collection *c, int kind, int i) {
    const ole_param *param = &c->graph->param[i];
    float *values = c->values + c->used;
    c->used += param->count;
    name_tensor(c->names[c->count], kind, param);
    ole_tensor tensor = {
        .name = c->names[c->count], .dtype = OLE_F32, .ndim = param->ndim, .data = values};
    memcpy(tensor.shape, param->shape, sizeof param->shape);
    c->tensors[c->count++] = tensor;
    return values;
}

static ole_status collect_weights(collection *c, const ole_network *network, ole_error *error) {
    for (int i = 0; i < c->graph->params; i++) {
        float *values = collection_add(c, 0, i);
        ole_params_get(network->params, i, values);
        for (int64_t e = 0; e < c->graph->param[i].count; e++)
            if (!isfinite(values[e]))
                return ole_fail(error, OLE_ERROR_NUMERIC,
                                "the weights of %s hold NaN or Inf and were not saved: lower --lr "
                                "or --lambda, or add --warmup",
                                c->graph->param[i].name);
    }
    return OLE_OK;
}

static ole_status write_collection(const collection *c, const char *path, const ole_card *card,
                                   ole_metadata text, ole_error *error) {
    ole_card_texts texts;
    ole_status status = ole_card_write(card, &texts, error);
    if (status != OLE_OK) return status;
    ole_metadata metadata[OLE_CARD_TEXTS + 1];
    size_t count = texts.count;
    memcpy(metadata, texts.pair, count * sizeof *metadata);
    if (text.value) metadata[count++] = text;
    status = ole_safetensors_write(path, c->tensors, c->count, metadata, count, error);
    ole_card_texts_free(&texts);
    return status;
}

ole_status ole_weights_save(const char *path, const ole_network *network, const ole_card *card,
                            const ole_extra *extra, ole_error *error) {
    static const ole_extra none;
    if (!extra) extra = &none;
    collection c;
    ole_status status = collection_open(&c, network->graph, 1, extra->count, error);
    if (status == OLE_OK) status = collect_weights(&c, network, error);
    for (size_t i = 0; status == OLE_OK && i < extra->count; i++)
        c.tensors[c.count++] = extra->tensors[i];
    if (status == OLE_OK) status = write_collection(&c, path, card, extra->text, error);
    collection_close(&c);
    return status;
}

ole_status ole_checkpoint_save(const char *path, const ole_network *network, const ole_card *card,
                               int moments, const char *config, const ole_state *state,
                               ole_error *error) {
    collection c;
    const ole_state *s = state;
    const int64_t counters[COUNTERS] = {s->epoch,         s->step,        s->updates,
                                        s->metrics_bytes, s->best_epoch,  s->sums.steps,
                                        s->sums.images,   s->sums.correct};
    const double sums[SUMS] = {s->best_error,        s->seconds,          s->sums.loss,
                               s->sums.softmax_loss, s->sums.ole_loss,    s->sums.seconds,
                               s->sums.ole_seconds,  s->sums.comm_seconds};
    bool averages = ole_params_has_average(network->params);
    ole_status status = collection_open(&c, network->graph, 1 + moments + averages, 0, error);
    if (status == OLE_OK) {
        c.tensors[c.count++] = (ole_tensor){"train.counters", OLE_I64, 1, {COUNTERS}, counters};
        c.tensors[c.count++] = (ole_tensor){"train.sums", OLE_F64, 1, {SUMS}, sums};
        if (s->schedule > 0)
            c.tensors[c.count++] = (ole_tensor){"train.schedule", OLE_I64, 1, {1}, &s->schedule};
        if (s->loss_state)
            c.tensors[c.count++] =
                (ole_tensor){"train.loss_state", OLE_F64, 1, {s->loss_state_count}, s->loss_state};
        if (s->sums.feature_loss != 0.0)
            c.tensors[c.count++] =
                (ole_tensor){"train.feature_loss", OLE_F64, 1, {1}, &s->sums.feature_loss};
        status = collect_weights(&c, network, error);
    }
    if (status == OLE_OK) {
        for (int kind = 1; kind <= moments; kind++)
            for (int i = 0; i < c.graph->params; i++)
                if (c.graph->param[i].trained)
                    ole_params_get_state(network->params, i, kind - 1, collection_add(&c, kind, i));
        for (int i = 0; i < c.graph->params && averages; i++)
            ole_params_get_average(network->params, i, collection_add(&c, AVERAGE, i));
        status = write_collection(&c, path, card, (ole_metadata){"config", config}, error);
    }
    collection_close(&c);
    return status;
}

/* ---- Loading ------------------------------------------------------------------------------ */

/* The tensor of a parameter (kind 0) or of one of its moments. */
static ole_status find_tensor(const ole_safetensors *file, const char *path, int kind,
                              const ole_graph *graph, int i, const ole_tensor **tensor,
                              ole_error *error) {
    const ole_param *param = &graph->param[i];
    char name[NAME];
    name_tensor(name, kind, param);
    *tensor = kind == 0 ? ole_published_find(file, graph, i) : ole_safetensors_find(file, name);
    if (!*tensor)
        return ole_fail(error, OLE_ERROR_FORMAT, "%s: tensor '%s' is missing",
                        ole_quote_string(path).text, name);
    if (!ole_tensor_fits(*tensor, param))
        return ole_fail(error, OLE_ERROR_FORMAT,
                        "%s: tensor '%s' has another shape or type than the net needs",
                        ole_quote_string(path).text, name);
    return OLE_OK;
}

static ole_status read_tensor(const ole_safetensors *file, const char *path, int kind,
                              const ole_graph *graph, int i, float *plain, ole_error *error) {
    const ole_tensor *tensor;
    ole_status status = find_tensor(file, path, kind, graph, i, &tensor, error);
    if (status == OLE_OK) ole_tensor_read(tensor, OLE_F32, plain);
    return status;
}

ole_status ole_stored_graph(ole_graph **graph, const ole_card *card, const ole_safetensors *file,
                            const char *path, ole_error *error) {
    ole_error wrong;
    ole_status status = ole_graph_parse(graph, card->net, card->input, card->classes, &wrong);
    if (status != OLE_OK) /* a malformed net is the file's mistake */
        return ole_fail(error, status == OLE_ERROR_ARGUMENT ? OLE_ERROR_FORMAT : status, "%s: %s",
                        ole_quote_string(path).text, wrong.message);
    const ole_tensor *tensor;
    for (int i = 0; i < (*graph)->params && status == OLE_OK; i++)
        status = find_tensor(file, path, 0, *graph, i, &tensor, error);
    if (status == OLE_OK) return OLE_OK;
    ole_graph_free(*graph);
    *graph = NULL;
    return status;
}

/* Loads the tensors of all parameters of one kind into the network. */
static ole_status load_kind(const ole_safetensors *file, const char *path, int kind,
                            ole_network *network, ole_error *error) {
    const ole_graph *graph = network->graph;
    float *plain = ole_network_plain(network);
    if (!plain) return ole_fail(error, OLE_ERROR_MEMORY, "out of memory for a checkpoint");
    ole_status status = OLE_OK;
    for (int i = 0; i < graph->params && status == OLE_OK; i++) {
        if (kind > 0 && kind != AVERAGE && !graph->param[i].trained) continue;
        status = read_tensor(file, path, kind, graph, i, plain, error);
        if (status != OLE_OK) break;
        if (kind == AVERAGE)
            ole_params_set_average(network->params, i, plain);
        else if (kind == 0)
            ole_params_set(network->params, i, plain);
        else
            ole_params_set_state(network->params, i, kind - 1, plain);
    }
    free(plain);
    return status;
}

ole_status ole_weight_read(const ole_safetensors *file, const char *path, const ole_graph *graph,
                           int i, float *plain, ole_error *error) {
    return read_tensor(file, path, 0, graph, i, plain, error);
}

ole_status ole_weights_load(const ole_safetensors *file, const char *path, ole_network *network,
                            ole_error *error) {
    return load_kind(file, path, 0, network, error);
}

/* What a loss keeps, and its sum over the steps of the epoch so far. */
static ole_status load_loss(const ole_safetensors *file, const char *path, ole_state *state,
                            ole_error *error) {
    const ole_tensor *kept = ole_safetensors_find(file, "train.loss_state");
    const ole_tensor *sum = ole_safetensors_find(file, "train.feature_loss"); /* or NULL */
    bool good = true;
    if (state->loss_state)
        good = kept && ole_tensor_count(kept) == state->loss_state_count &&
               ole_tensor_read(kept, OLE_F64, state->loss_state);
    if (sum)
        good = good && ole_tensor_count(sum) == 1 &&
               ole_tensor_read(sum, OLE_F64, &state->sums.feature_loss);
    if (good) return OLE_OK;
    return ole_fail(error, OLE_ERROR_FORMAT,
                    "%s: the state of the loss is missing or has another size; start a new run",
                    ole_quote_string(path).text);
}

ole_status ole_checkpoint_load(const ole_safetensors *file, const char *path, ole_network *network,
                               int moments, ole_state *state, ole_error *error) {
    const ole_tensor *c = ole_safetensors_find(file, "train.counters");
    const ole_tensor *d = ole_safetensors_find(file, "train.sums");
    const ole_tensor *schedule = ole_safetensors_find(file, "train.schedule"); /* or NULL */
    int64_t counters[COUNTERS], epochs = 0;
    double sums[SUMS] = {0.0};
    int64_t given = d ? ole_tensor_count(d) : 0; /* older files have one fewer, from before ranks */
    bool good = c && ole_tensor_count(c) == COUNTERS && (given == SUMS || given == SUMS - 1) &&
                ole_tensor_read(c, OLE_I64, counters) && ole_tensor_read(d, OLE_F64, sums);
    if (good && schedule)
        good = ole_tensor_count(schedule) == 1 && ole_tensor_read(schedule, OLE_I64, &epochs) &&
               epochs > 0 && epochs <= counters[0];
    for (int i = 0; good && i < COUNTERS; i++)
        good = counters[i] >= 0 && counters[i] < INT64_MAX / 2; /* they are added up */
    if (!good) {
        return ole_fail(
            error, OLE_ERROR_FORMAT,
            "%s: a model, not a checkpoint to resume from; name last.safetensors of a run",
            ole_quote_string(path).text);
    }
    double *loss_state = state->loss_state;
    int64_t loss_state_count = state->loss_state_count;
    *state = unpack_state(counters, sums);
    state->schedule = epochs;
    state->loss_state = loss_state;
    state->loss_state_count = loss_state_count;
    ole_status status = load_loss(file, path, state, error);
    for (int kind = 0; kind <= moments && status == OLE_OK; kind++)
        status = load_kind(file, path, kind, network, error);
    if (status == OLE_OK && ole_params_has_average(network->params))
        status = load_kind(file, path, AVERAGE, network, error);
    return status;
}
