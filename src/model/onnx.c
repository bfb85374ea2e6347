/*
 * src/model/onnx.c - writing an ONNX file: the model's message around the graph of onnx_graph.c.
 *
 * A message's length stands before it, so the sizes of all tensors are added up first; then the
 * tensors go to the file one after the other, at the end of the graph.
 */
#include "ole/train/export.h"

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/quote.h"
#include "base/struct_size.h"
#include "model/checkpoint.h"
#include "model/confidence.h"
#include "model/model.h"
#include "model/onnx.h"

#include <stdlib.h>
#include <sys/stat.h>

enum { IR_VERSION = 8, OPERATOR_SET = 17 };

static const int64_t most_bytes =
    INT32_MAX; /* the most bytes that protobuf libraries read as one message */

static const ole_onnx_options defaults = {.struct_size = sizeof(ole_onnx_options)};

void ole_onnx_options_init_sized(ole_onnx_options *options, size_t struct_size) {
    ole_struct_fill(options, struct_size, &defaults);
}

/* ---- Messages ----------------------------------------------------------------------------- */

/* An input or output: float [N, shape...]. */
static void add_value(ole_protobuf *w, int field, const char *name, int ndim,
                      const int64_t *shape) {
    size_t value = ole_protobuf_open(w, field);
    ole_protobuf_string(w, OLE_ONNX_VALUE_NAME, name);
    size_t type = ole_protobuf_open(w, OLE_ONNX_VALUE_TYPE);
    size_t tensor = ole_protobuf_open(w, OLE_ONNX_TYPE_TENSOR);
    ole_protobuf_integer(w, OLE_ONNX_TENSOR_TYPE_ELEMENT, OLE_ONNX_FLOAT);
    size_t dims = ole_protobuf_open(w, OLE_ONNX_TENSOR_TYPE_SHAPE);
    size_t batch = ole_protobuf_open(w, OLE_ONNX_SHAPE_DIM);
    ole_protobuf_string(w, OLE_ONNX_DIM_PARAM, "N");
    ole_protobuf_close(w, batch);
    for (int d = 0; d < ndim; d++) {
        size_t dim = ole_protobuf_open(w, OLE_ONNX_SHAPE_DIM);
        ole_protobuf_integer(w, OLE_ONNX_DIM_VALUE, shape[d]);
        ole_protobuf_close(w, dim);
    }
    ole_protobuf_close(w, dims);
    ole_protobuf_close(w, tensor);
    ole_protobuf_close(w, type);
    ole_protobuf_close(w, value);
}

/* Writes all of a tensor before its numbers, as a field of the graph; clears the writer first. */
static void start_tensor(ole_protobuf *w, const ole_onnx_tensor *t) {
    size_t bytes = (size_t)t->count * sizeof(float);
    w->size = 0;
    size_t mark = ole_protobuf_open(w, OLE_ONNX_GRAPH_INITIALIZER);
    for (int d = 0; d < t->ndim; d++)
        ole_protobuf_integer(w, OLE_ONNX_TENSOR_DIMS, t->shape[d]);
    ole_protobuf_integer(w, OLE_ONNX_TENSOR_DATA_TYPE, OLE_ONNX_FLOAT);
    ole_protobuf_string(w, OLE_ONNX_TENSOR_NAME, t->name);
    ole_protobuf_head(w, OLE_ONNX_TENSOR_RAW_DATA, bytes);
    ole_protobuf_close_early(w, mark, bytes);
}

/* The graph without its tensors. */
static void describe_graph(ole_protobuf *w, const ole_onnx *o) {
    const ole_shape in = o->card->input;
    int64_t features = ole_shape_size(o->graph->node[o->graph->features].out);
    int64_t classes = o->graph->classes;
    ole_protobuf_append(w, o->nodes.bytes, o->nodes.size);
    ole_protobuf_string(w, OLE_ONNX_GRAPH_NAME, "ole");
    add_value(w, OLE_ONNX_GRAPH_INPUT, ole_onnx_input(o), ole_onnx_takes_vectors(o) ? 1 : 3,
              (const int64_t[]){in.c, in.h, in.w});
    add_value(w, OLE_ONNX_GRAPH_OUTPUT, "features", 1, &features);
    add_value(w, OLE_ONNX_GRAPH_OUTPUT, "logits", 1, &classes);
    if (o->card->threshold_score != OLE_SCORE_NONE)
        add_value(w, OLE_ONNX_GRAPH_OUTPUT, "known_score", 0, NULL);
}

/* The model without its graph. */
static void describe_model(ole_protobuf *w, const ole_card_texts *card) {
    ole_protobuf_integer(w, OLE_ONNX_MODEL_IR_VERSION, IR_VERSION);
    ole_protobuf_string(w, OLE_ONNX_MODEL_PRODUCER_NAME, "ole");
    ole_protobuf_string(w, OLE_ONNX_MODEL_PRODUCER_VERSION, ole_version());
    size_t opset = ole_protobuf_open(w, OLE_ONNX_MODEL_OPSET);
    ole_protobuf_integer(w, OLE_ONNX_OPSET_VERSION, OPERATOR_SET);
    ole_protobuf_close(w, opset);
    for (size_t i = 0; i < card->count; i++) {
        size_t entry = ole_protobuf_open(w, OLE_ONNX_MODEL_METADATA);
        ole_protobuf_string(w, OLE_ONNX_ENTRY_KEY, card->pair[i].key);
        ole_protobuf_string(w, OLE_ONNX_ENTRY_VALUE, card->pair[i].value);
        ole_protobuf_close(w, entry);
    }
}

/* ---- The file ----------------------------------------------------------------------------- */

/* The parts of a file in order: the start, then tensor by tensor. */
typedef struct layout {
    ole_protobuf start;  /* the model and its graph up to the tensors */
    ole_protobuf tensor; /* the start of the current tensor */
    int64_t largest;     /* numbers of a tensor */
    int64_t weights;     /* in all */
    int64_t bytes;       /* of the file */
} layout;

static ole_status lay_out(layout *l, const ole_onnx *o, const char *path, ole_error *error) {
    *l = (layout){0};
    ole_card_texts card;
    ole_status status = ole_card_write(o->card, &card, error);
    if (status != OLE_OK) return status;
    ole_protobuf graph = {0};
    describe_graph(&graph, o);
    int64_t size = (int64_t)graph.size;
    for (int i = 0; i < o->tensors; i++) {
        start_tensor(&l->tensor, &o->tensor[i]);
        size += (int64_t)l->tensor.size + o->tensor[i].count * (int64_t)sizeof(float);
        l->weights += o->tensor[i].count;
        if (o->tensor[i].count > l->largest) l->largest = o->tensor[i].count;
    }
    describe_model(&l->start, &card);
    ole_protobuf_head(&l->start, OLE_ONNX_MODEL_GRAPH, (size_t)size);
    l->bytes = (int64_t)l->start.size + size;
    ole_protobuf_append(&l->start, graph.bytes, graph.size);
    bool failed = graph.failed || l->start.failed || l->tensor.failed;
    free(graph.bytes);
    ole_card_texts_free(&card);
    if (failed) return ole_fail(error, OLE_ERROR_MEMORY, "out of memory for an ONNX file");
    if (l->bytes <= most_bytes) return OLE_OK;
    return ole_fail(error, OLE_ERROR_UNSUPPORTED,
                    "%s: the model needs %lld bytes, but an ONNX file holds at most %lld",
                    ole_quote_string(path).text, (long long)l->bytes, (long long)most_bytes);
}

static ole_status write_tensors(ole_atomic_file *file, layout *l, const ole_onnx *o,
                                const ole_onnx_options *how, ole_error *error) {
    float *numbers = malloc((size_t)l->largest * sizeof *numbers);
    if (!numbers) return ole_fail(error, OLE_ERROR_MEMORY, "out of memory for a tensor");
    ole_status status = OLE_OK;
    int64_t done = 0;
    for (int i = 0; i < o->tensors && status == OLE_OK; i++) {
        const ole_onnx_tensor *t = &o->tensor[i];
        if (how->progress)
            how->progress(how->context, "writing", (double)done / (double)l->weights);
        done += t->count;
        start_tensor(&l->tensor, t);
        status = ole_onnx_fill(o, t, numbers, error);
        if (status == OLE_OK)
            status = ole_atomic_file_write(file, l->tensor.bytes, l->tensor.size, error);
        if (status == OLE_OK)
            status =
                ole_atomic_file_write(file, numbers, (size_t)t->count * sizeof *numbers, error);
    }
    free(numbers);
    return status;
}

static ole_status write_file(const char *path, const ole_onnx *o, const ole_onnx_options *how,
                             ole_onnx_summary *summary, ole_error *error) {
    layout l;
    ole_status status = lay_out(&l, o, path, error);
    ole_atomic_file file = {.fd = -1};
    if (status == OLE_OK) status = ole_atomic_file_begin(&file, path, error);
    if (status == OLE_OK) status = ole_atomic_file_write(&file, l.start.bytes, l.start.size, error);
    if (status == OLE_OK) status = write_tensors(&file, &l, o, how, error);
    if (status == OLE_OK) status = ole_atomic_file_commit(&file, error);
    ole_atomic_file_abort(&file);
    free(l.start.bytes);
    free(l.tensor.bytes);
    if (status != OLE_OK || !summary) return status;
    const ole_shape in = o->card->input;
    *summary =
        (ole_onnx_summary){.channels = (int)in.c,
                           .height = (int)in.h,
                           .width = (int)in.w,
                           .features = ole_shape_size(o->graph->node[o->graph->features].out),
                           .classes = o->graph->classes,
                           .ops = o->ops,
                           .folded = o->folded,
                           .weights = l.weights,
                           .bytes = l.bytes,
                           .classifier = o->card->classifier};
    return OLE_OK;
}

static ole_status export_file(const ole_safetensors *file, const char *name, const char *path,
                              const ole_onnx_options *how, ole_onnx_summary *summary,
                              ole_error *error) {
    ole_card card;
    ole_graph *graph = NULL;
    ole_status status = ole_card_read(&card, file, name, error);
    if (status != OLE_OK) return status;
    status = ole_stored_graph(&graph, &card, file, name, error);
    if (status == OLE_OK) {
        ole_onnx onnx = {.graph = graph, .card = &card, .file = file, .path = name};
        const ole_model_info info = {.classes = card.classes,
                                     .features = ole_shape_size(graph->node[graph->features].out),
                                     .threshold_score = card.threshold_score,
                                     .temperature = card.temperature};
        status = ole_score_read(&onnx.scorer, file, name, &info, error);
        if (status == OLE_OK) status = ole_onnx_build(&onnx, how->fold, error);
        if (status == OLE_OK) status = write_file(path, &onnx, how, summary, error);
        ole_onnx_free(&onnx);
    }
    ole_graph_free(graph);
    ole_card_free(&card);
    return status;
}

static bool same_file(const char *a, const char *b) {
    struct stat one, other;
    return stat(a, &one) == 0 && stat(b, &other) == 0 && one.st_dev == other.st_dev &&
           one.st_ino == other.st_ino;
}

ole_status ole_export_onnx(const char *model, const char *path, const ole_onnx_options *options,
                           ole_onnx_summary *summary, ole_error *error) {
    if (!model || !path)
        return ole_fail(error, OLE_ERROR_ARGUMENT, "ole_export_onnx: model or path is NULL");
    ole_onnx_options o = defaults;
    ole_status status = ole_struct_read(&o, options, OLE_SIZE_UP_TO(ole_onnx_options, context),
                                        "ole_onnx_options_init", error);
    if (status != OLE_OK) return status;
    char name[OLE_RUN_PATH];
    status = ole_model_find(model, name, error);
    if (status != OLE_OK) return status;
    if (same_file(name, path))
        return ole_fail(error, OLE_ERROR_ARGUMENT, "%s is the model itself; name another file",
                        ole_quote_string(path).text);
    ole_safetensors *file;
    status = ole_safetensors_open(&file, name, error);
    if (status == OLE_OK) status = export_file(file, name, path, &o, summary, error);
    ole_safetensors_close(file);
    return status;
}
