/*
 * fuzz/fuzz_onnx.c - the ONNX file of any small network: messages of the right lengths, tensors of
 * as many bytes as their shapes say, and nodes that read only what is there.
 *
 * The first three bytes choose the image, the classes and the options, the rest is the network.
 */
#include "formats/safetensors.h"
#include "fuzz.h"
#include "model/onnx.h"
#include "net/graph.h"
#include "ole/train/export.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_TEXT = 256, MAX_NUMBERS = 1 << 18, MAX_NODES = 500, MAX_NAMES = 4096 };

/* ---- A model file ------------------------------------------------------------------------------
 */

/* Weights of 1: the variances must not be negative. */
static bool put_model(const char *path, const char *net, ole_shape input, int classes) {
    static float ones[MAX_NUMBERS];
    ole_graph *graph;
    if (ole_graph_parse(&graph, net, input, classes, NULL) != OLE_OK) return false;
    int64_t numbers = 0;
    ole_tensor *tensors = calloc((size_t)graph->params, sizeof *tensors);
    require(tensors != NULL, "out of memory");
    for (int i = 0; i < graph->params; i++) {
        const ole_param *param = &graph->param[i];
        tensors[i] =
            (ole_tensor){.name = param->name, .dtype = OLE_F32, .ndim = param->ndim, .data = ones};
        memcpy(tensors[i].shape, param->shape, sizeof param->shape);
        numbers = numbers + param->count > MAX_NUMBERS ? MAX_NUMBERS + 1 : numbers + param->count;
    }
    for (int i = 0; i < MAX_NUMBERS; i++)
        ones[i] = 1.0f;
    char shape[40], names[40] = "[\"0\"";
    snprintf(shape, sizeof shape, "%dx%dx%d", (int)input.c, (int)input.h, (int)input.w);
    for (int c = 1; c < classes; c++)
        snprintf(names + strlen(names), sizeof names - strlen(names), ",\"%d\"", c);
    strcat(names, "]");
    const ole_metadata card[] = {{"net", net},
                                 {"input", shape},
                                 {"class_names", names},
                                 {"mean", input.c == 1 ? "0" : "0,0,0"},
                                 {"deviation", input.c == 1 ? "1" : "1,1,1"}};
    bool good =
        numbers <= MAX_NUMBERS && graph->nodes <= MAX_NODES &&
        ole_safetensors_write(path, tensors, (size_t)graph->params, card, 5, NULL) == OLE_OK;
    free(tensors);
    ole_graph_free(graph);
    return good;
}

/* ---- Reading protocol buffers ------------------------------------------------------------------
 */

typedef struct message {
    const uint8_t *at, *end;
} message;

typedef struct field {
    int number;
    uint64_t value; /* of a number */
    message bytes;  /* of a text or message */
} field;

static uint64_t read_number(message *m) {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
        require(m->at < m->end, "a number is cut off");
        uint8_t byte = *m->at++;
        value |= (uint64_t)(byte & 127) << shift;
        if (byte < 128) return value;
    }
    require(false, "a number is too long");
    return 0;
}

static bool next_field(message *m, field *f) {
    if (m->at == m->end) return false;
    uint64_t key = read_number(m), size = 0;
    *f = (field){.number = (int)(key >> 3)};
    switch (key & 7) {
    case 0:
        f->value = read_number(m);
        return true;
    case 2:
        size = read_number(m);
        break;
    case 5:
        size = 4;
        break;
    default:
        require(false, "a field of no kind that is written");
    }
    require(size <= (uint64_t)(m->end - m->at), "a field is longer than its message");
    f->bytes = (message){m->at, m->at + size};
    m->at += size;
    return true;
}

/* ---- The graph ---------------------------------------------------------------------------------
 */

static message names[MAX_NAMES];
static int name_count;

static void add_name(message name) {
    require(name_count < MAX_NAMES, "too many names");
    names[name_count++] = name;
}

static bool has_name(message name) {
    size_t size = (size_t)(name.end - name.at);
    for (int i = 0; i < name_count; i++)
        if ((size_t)(names[i].end - names[i].at) == size && memcmp(names[i].at, name.at, size) == 0)
            return true;
    return size == 0; /* an input left out */
}

static void check_tensor(message tensor) {
    uint64_t bytes = 0, count = 1, type = 0;
    field f;
    while (next_field(&tensor, &f)) {
        if (f.number == OLE_ONNX_TENSOR_DIMS) count *= f.value;
        if (f.number == OLE_ONNX_TENSOR_DATA_TYPE) type = f.value;
        if (f.number == OLE_ONNX_TENSOR_RAW_DATA) bytes = (uint64_t)(f.bytes.end - f.bytes.at);
        if (f.number == OLE_ONNX_TENSOR_NAME) add_name(f.bytes);
    }
    require(type == 1 || type == 7, "a tensor is neither float nor int64");
    require(bytes == count * (type == 1 ? 4 : 8), "a tensor has not the bytes of its shape");
}

static void check_node(message node) {
    message outputs[8];
    int count = 0;
    field f;
    while (next_field(&node, &f)) {
        if (f.number == OLE_ONNX_NODE_INPUT) require(has_name(f.bytes), "a node reads nothing");
        if (f.number == OLE_ONNX_NODE_OUTPUT && count < 8) outputs[count++] = f.bytes;
    }
    require(count > 0, "a node has no output");
    for (int i = 0; i < count; i++)
        add_name(outputs[i]);
}

static message name_of(message value) {
    field f = {0};
    while (next_field(&value, &f))
        if (f.number == OLE_ONNX_VALUE_NAME) return f.bytes;
    require(false, "an input or output has no name");
    return value;
}

static void check_graph(message graph) {
    message pass = graph;
    field f;
    name_count = 0;
    while (next_field(&pass, &f)) {
        if (f.number == OLE_ONNX_GRAPH_INITIALIZER) check_tensor(f.bytes);
        if (f.number == OLE_ONNX_GRAPH_INPUT) add_name(name_of(f.bytes));
    }
    for (pass = graph; next_field(&pass, &f);)
        if (f.number == OLE_ONNX_GRAPH_NODE) check_node(f.bytes);
    for (pass = graph; next_field(&pass, &f);)
        if (f.number == OLE_ONNX_GRAPH_OUTPUT)
            require(has_name(name_of(f.bytes)), "an output that no node writes");
}

static void check_file(const char *path) {
    FILE *file = fopen(path, "rb");
    require(file && fseek(file, 0, SEEK_END) == 0, "the ONNX file is missing");
    size_t size = (size_t)ftell(file);
    uint8_t *bytes = malloc(size + 1);
    rewind(file);
    require(bytes && fread(bytes, 1, size, file) == size, "the ONNX file cannot be read");
    fclose(file);
    message model = {bytes, bytes + size};
    field f;
    int graphs = 0;
    while (next_field(&model, &f)) {
        if (f.number != OLE_ONNX_MODEL_GRAPH) continue;
        check_graph(f.bytes);
        graphs++;
    }
    require(graphs == 1, "not one graph");
    free(bytes);
}

void fuzz_one(const uint8_t *bytes, size_t size) {
    char net[MAX_TEXT + 1], path[100];
    if (size < 3 || size - 3 > MAX_TEXT) return;
    ole_shape input = {bytes[0] & 1 ? 3 : 1, 1 + bytes[1] % 64, 1 + bytes[2] % 64};
    memcpy(net, bytes + 3, size - 3);
    net[size - 3] = '\0';
    snprintf(path, sizeof path, "%s", fuzz_path("m.onnx"));
    const char *model = fuzz_path("m.safetensors");
    if (!put_model(model, net, input, 2 + (bytes[0] >> 1) % 6)) return;
    ole_onnx_options options;
    ole_onnx_options_init(&options);
    options.fold = bytes[0] >> 7;
    ole_error error = {0};
    ole_status status = ole_export_onnx(model, path, &options, NULL, &error);
    if (status == OLE_OK)
        check_file(path);
    else
        check_error(status, &error);
}
