/*
 * tests/unit/model/test_train_onnx.c - ONNX files, taken apart again: the wire format, and the
 * structure of a graph whose numbers are known.
 */
#include "ole/train/export.h"

#include "base/read_file.h"
#include "formats/protobuf.h"
#include "formats/safetensors.h"
#include "model/onnx.h"

#include "shares.h"
#include "temporary.h"
#include "test.h"

#include <math.h>

/* ---- Reading the wire format -------------------------------------------------------------- */

typedef struct span {
    const unsigned char *at, *end;
} span;

/* A field: an integer, or bytes. */
typedef struct field {
    int number, stored;
    uint64_t integer;
    span bytes;
} field;

static uint64_t read_varint(span *s) {
    uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
        assert_true(s->at < s->end && shift < 64);
        value |= (uint64_t)(*s->at & 0x7f) << shift;
        if (!(*s->at++ & 0x80)) return value;
    }
}

static bool next_field(span *s, field *f) {
    if (s->at == s->end) return false;
    uint64_t key = read_varint(s);
    *f = (field){.number = (int)(key >> 3), .stored = (int)(key & 7)};
    size_t size = f->stored == 5 ? 4 : 0;
    if (f->stored == 0) f->integer = read_varint(s);
    if (f->stored == 2) size = (size_t)read_varint(s);
    assert_true(f->stored == 0 || f->stored == 2 || f->stored == 5);
    assert_true(size <= (size_t)(s->end - s->at));
    f->bytes = (span){s->at, s->at + size};
    s->at += size;
    return true;
}

/* The i-th field of that number; false when there are fewer. */
static bool find(span message, int number, int i, field *f) {
    *f = (field){0};
    while (next_field(&message, f))
        if (f->number == number && i-- == 0) return true;
    return false;
}

static int count(span message, int number) {
    field f;
    int n = 0;
    while (find(message, number, n, &f))
        n++;
    return n;
}

static span inner(span message, int number, int i) {
    field f;
    assert_true(find(message, number, i, &f));
    assert_int_equal(f.stored, 2);
    return f.bytes;
}

static int64_t integer(span message, int number, int i) {
    field f;
    assert_true(find(message, number, i, &f));
    assert_int_equal(f.stored, 0);
    return (int64_t)f.integer;
}

/* The text of a field; valid until the eighth next call. */
static const char *text(span message, int number, int i) {
    static char texts[8][128];
    static int turn;
    char *out = texts[turn = (turn + 1) % 8];
    span s = inner(message, number, i);
    size_t size = (size_t)(s.end - s.at);
    assert_true(size < sizeof texts[0]);
    memcpy(out, s.at, size);
    out[size] = '\0';
    return out;
}

/* ---- A model whose numbers are known ------------------------------------------------------ */

/*
 * One conv of one weight, a norm, one feature; two classes:
 *     x -> (x - 0.5) / 0.25 -> 2 x + 1 -> norm: 3 (v - 4) / sqrt(0.25 + eps) + 5 -> relu, flatten
 */
static const char *write_scored_model(const char *score, const char *input) {
    static const int64_t sizes[] = {2, 1};
    static const float basis[] = {1, -1, 0.5f}; /* of one dimension: not orthonormal */
    static const float weight[] = {2}, bias[] = {1}, gamma[] = {3}, beta[] = {5}, mean[] = {4},
                       variance[] = {0.25f}, classes[] = {1, -1}, offsets[] = {0, 7};
    const ole_tensor tensors[] = {
        {"1.conv.weight", OLE_F32, 4, {1, 1, 1, 1}, weight},
        {"1.conv.bias", OLE_F32, 1, {1}, bias},
        {"1.norm.weight", OLE_F32, 1, {1}, gamma},
        {"1.norm.bias", OLE_F32, 1, {1}, beta},
        {"1.norm.running_mean", OLE_F32, 1, {1}, mean},
        {"1.norm.running_var", OLE_F32, 1, {1}, variance},
        {"classifier.weight", OLE_F32, 2, {2, 1}, classes},
        {"classifier.bias", OLE_F32, 1, {2}, offsets},
        {"novelty.sizes", OLE_I64, 1, {2}, sizes},
        {"novelty.directions", OLE_F32, 2, {3, 1}, basis},
    };
    const ole_metadata card[] = {{"net", "C1[k1,d0.5]-AP"},
                                 {"input", input},
                                 {"class_names", "[\"a\",\"b\"]"},
                                 {"mean", "0.5"},
                                 {"deviation", "0.25"},
                                 {"threshold", "0.75"},
                                 {"threshold_score", score},
                                 {"temperature", "2"}};
    const char *path = temporary_path("m.safetensors");
    ole_error error;
    assert_ok(ole_safetensors_write(path, tensors, score ? 10 : 8, card, score ? 8 : 5, &error),
              &error);
    return path;
}

static const char *write_model(void) {
    return write_scored_model(NULL, "1x2x2");
}

/* The whole file; free() it. */
static char *export_model(bool fold, span *model, ole_onnx_summary *summary) {
    ole_onnx_options options;
    ole_onnx_options_init(&options);
    options.fold = fold;
    const char *from = write_model(), *to = temporary_path("m.onnx");
    ole_error error;
    shares told = {0};
    options.progress = shares_note;
    options.context = &told;
    assert_ok(ole_export_onnx(from, to, &options, summary, &error), &error);
    assert_true(told.calls > 3 && told.last > 0.5);
    assert_string_equal(told.what, "writing");
    char *bytes;
    size_t size;
    assert_ok(ole_read_file(to, 1 << 20, &bytes, &size, &error), &error);
    assert_int_equal(summary->bytes, size);
    *model = (span){(unsigned char *)bytes, (unsigned char *)bytes + size};
    return bytes;
}

static void assert_node(span graph, int i, const char *type, const char *input,
                        const char *output) {
    span node = inner(graph, OLE_ONNX_GRAPH_NODE, i);
    assert_string_equal(text(node, OLE_ONNX_NODE_OP_TYPE, 0), type);
    assert_string_equal(text(node, OLE_ONNX_NODE_INPUT, 0), input);
    assert_string_equal(text(node, OLE_ONNX_NODE_OUTPUT, 0), output);
}

/* The first number of a tensor that has so many. */
static double number(span graph, const char *name, int numbers) {
    for (int i = 0; i < count(graph, OLE_ONNX_GRAPH_INITIALIZER); i++) {
        span tensor = inner(graph, OLE_ONNX_GRAPH_INITIALIZER, i);
        if (strcmp(text(tensor, OLE_ONNX_TENSOR_NAME, 0), name) != 0) continue;
        assert_int_equal(integer(tensor, OLE_ONNX_TENSOR_DATA_TYPE, 0), OLE_ONNX_FLOAT);
        span raw = inner(tensor, OLE_ONNX_TENSOR_RAW_DATA, 0);
        int64_t product = 1;
        for (int d = 0; d < count(tensor, OLE_ONNX_TENSOR_DIMS); d++)
            product *= integer(tensor, OLE_ONNX_TENSOR_DIMS, d);
        assert_int_equal(product, numbers);
        assert_int_equal(raw.end - raw.at, (size_t)numbers * sizeof(float));
        float first;
        memcpy(&first, raw.at, sizeof first);
        return (double)first;
    }
    fail_msg("no tensor %s", name);
    return NAN;
}

/* ---- Tests -------------------------------------------------------------------------------- */

static void test_wire_format(void **state) {
    (void)state;
    ole_protobuf w = {0};
    ole_protobuf_integer(&w, 1, 150);
    size_t outer = ole_protobuf_open(&w, 7);
    ole_protobuf_float(&w, 2, 1.0f);
    size_t within = ole_protobuf_open(&w, 20);
    for (int i = 0; i < 50; i++)
        ole_protobuf_string(&w, 2, "abc");
    ole_protobuf_close(&w, within);
    ole_protobuf_close(&w, outer);
    ole_protobuf_integer(&w, 1, -1);
    assert_false(w.failed);
    static const unsigned char start[] = {0x08, 0x96, 0x01, 0x3a, 0x83, 0x02, 0x15, 0, 0,
                                          0x80, 0x3f, 0xa2, 0x01, 0xfa, 0x01, 0x12, 3, 'a'};
    assert_memory_equal(w.bytes, start, sizeof start);
    span all = {w.bytes, w.bytes + w.size};
    assert_int_equal(integer(all, 1, 1), -1);
    assert_int_equal(count(inner(inner(all, 7, 0), 20, 0), 2), 50);
    free(w.bytes);
}

static void test_structure(void **state) {
    (void)state;
    span model;
    ole_onnx_summary summary;
    char *bytes = export_model(false, &model, &summary);
    assert_int_equal(integer(model, OLE_ONNX_MODEL_IR_VERSION, 0), 8);
    assert_int_equal(integer(inner(model, OLE_ONNX_MODEL_OPSET, 0), OLE_ONNX_OPSET_VERSION, 0), 17);
    span net = inner(model, OLE_ONNX_MODEL_METADATA, 1);
    assert_string_equal(text(net, OLE_ONNX_ENTRY_KEY, 0), "net");
    assert_string_equal(text(net, OLE_ONNX_ENTRY_VALUE, 0), "C1[k1,d0.5]-AP");

    span graph = inner(model, OLE_ONNX_MODEL_GRAPH, 0);
    assert_int_equal(count(graph, OLE_ONNX_GRAPH_NODE), 8);
    assert_int_equal(summary.ops, 8);
    assert_node(graph, 0, "Sub", "images", "centred");
    assert_node(graph, 1, "Div", "centred", "normalized");
    assert_node(graph, 2, "Conv", "normalized", "1.conv");
    assert_node(graph, 3, "BatchNormalization", "1.conv", "1.norm");
    assert_node(graph, 4, "Relu", "1.norm", "1.relu");
    assert_node(graph, 5, "GlobalAveragePool", "1.relu", "2.pool"); /* past the dropout */
    assert_node(graph, 6, "Flatten", "2.pool", "features");
    assert_node(graph, 7, "Gemm", "features", "logits");
    span conv = inner(graph, OLE_ONNX_GRAPH_NODE, 2);
    assert_string_equal(text(conv, OLE_ONNX_NODE_INPUT, 1), "1.conv.weight");
    assert_string_equal(text(conv, OLE_ONNX_NODE_INPUT, 2), "1.conv.bias");

    assert_int_equal(count(graph, OLE_ONNX_GRAPH_INITIALIZER), 10);
    assert_int_equal(summary.weights, 12);
    assert_true(number(graph, "mean", 1) == 0.5 && number(graph, "deviation", 1) == 0.25);
    assert_true(number(graph, "1.conv.weight", 1) == 2.0);
    assert_true(number(graph, "1.norm.running_var", 1) == 0.25);
    assert_true(number(graph, "classifier.weight", 2) == 1.0);
    free(bytes);
}

static void test_values(void **state) {
    (void)state;
    span model;
    ole_onnx_summary summary;
    char *bytes = export_model(false, &model, &summary);
    span graph = inner(model, OLE_ONNX_MODEL_GRAPH, 0);
    span images = inner(graph, OLE_ONNX_GRAPH_INPUT, 0);
    assert_string_equal(text(images, OLE_ONNX_VALUE_NAME, 0), "images");
    span type = inner(inner(images, OLE_ONNX_VALUE_TYPE, 0), OLE_ONNX_TYPE_TENSOR, 0);
    assert_int_equal(integer(type, OLE_ONNX_TENSOR_TYPE_ELEMENT, 0), OLE_ONNX_FLOAT);
    span shape = inner(type, OLE_ONNX_TENSOR_TYPE_SHAPE, 0);
    assert_int_equal(count(shape, OLE_ONNX_SHAPE_DIM), 4);
    assert_string_equal(text(inner(shape, OLE_ONNX_SHAPE_DIM, 0), OLE_ONNX_DIM_PARAM, 0), "N");
    assert_int_equal(integer(inner(shape, OLE_ONNX_SHAPE_DIM, 3), OLE_ONNX_DIM_VALUE, 0), 2);
    assert_int_equal(count(graph, OLE_ONNX_GRAPH_OUTPUT), 2);
    assert_string_equal(text(inner(graph, OLE_ONNX_GRAPH_OUTPUT, 1), OLE_ONNX_VALUE_NAME, 0),
                        "logits");
    free(bytes);
}

/* Vectors are rows; before ops of images they become images of one pixel. */
static void test_vectors(void **state) {
    (void)state;
    const char *to = temporary_path("v.onnx");
    char *bytes;
    size_t size;
    ole_error error;
    assert_ok(ole_export_onnx(write_scored_model(NULL, "1x1x1"), to, NULL, NULL, &error), &error);
    assert_ok(ole_read_file(to, 1 << 20, &bytes, &size, &error), &error);
    span model = {(unsigned char *)bytes, (unsigned char *)bytes + size};
    span graph = inner(model, OLE_ONNX_MODEL_GRAPH, 0);
    span x = inner(graph, OLE_ONNX_GRAPH_INPUT, 0);
    assert_string_equal(text(x, OLE_ONNX_VALUE_NAME, 0), "x");
    span type = inner(inner(x, OLE_ONNX_VALUE_TYPE, 0), OLE_ONNX_TYPE_TENSOR, 0);
    span shape = inner(type, OLE_ONNX_TENSOR_TYPE_SHAPE, 0);
    assert_int_equal(count(shape, OLE_ONNX_SHAPE_DIM), 2);
    assert_int_equal(integer(inner(shape, OLE_ONNX_SHAPE_DIM, 1), OLE_ONNX_DIM_VALUE, 0), 1);
    assert_node(graph, 0, "Sub", "x", "centred");
    assert_node(graph, 1, "Div", "centred", "normalized_rows");
    assert_node(graph, 3, "Reshape", "normalized_rows", "normalized");
    assert_node(graph, 4, "Conv", "normalized", "1.conv");
    free(bytes);
}

static void test_fold(void **state) {
    (void)state;
    span model;
    ole_onnx_summary summary;
    char *bytes = export_model(true, &model, &summary);
    span graph = inner(model, OLE_ONNX_MODEL_GRAPH, 0);
    assert_int_equal(summary.folded, 1);
    assert_int_equal(count(graph, OLE_ONNX_GRAPH_NODE), 7);
    assert_node(graph, 2, "Conv", "normalized", "1.norm");
    assert_node(graph, 3, "Relu", "1.norm", "1.relu");
    double scale = 3.0 / sqrt(0.25 + 1e-5);
    assert_true(fabs(number(graph, "1.conv.weight", 1) - scale * 2.0) < 1e-6);
    assert_true(fabs(number(graph, "1.conv.bias", 1) - (scale * (1.0 - 4.0) + 5.0)) < 1e-6);
    free(bytes);
}

/* A threshold comes with the score that it is of, and that with all it needs. */
static void test_known_score(void **state) {
    (void)state;
    static const struct {
        const char *score, *ops[6];
        int tensors;
    } cases[] = {
        {"softmax", {"Softmax", "ReduceMax"}, 10},
        {"calibrated", {"Div", "Softmax", "ReduceMax"}, 11},
        {"energy", {"ReduceLogSumExp"}, 10},
        {"cosine", {"ReduceL2", "Max", "Div", "Gemm", "ReduceMax"}, 12},
        {"residual", {"ReduceL2", "Max", "Div", "Gemm", "Mul", "MatMul"}, 13},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        const char *to = temporary_path("s.onnx");
        char *bytes;
        size_t size;
        ole_error error;
        assert_ok(
            ole_export_onnx(write_scored_model(cases[k].score, "1x2x2"), to, NULL, NULL, &error),
            &error);
        assert_ok(ole_read_file(to, 1 << 20, &bytes, &size, &error), &error);
        span model = {(unsigned char *)bytes, (unsigned char *)bytes + size};
        span graph = inner(model, OLE_ONNX_MODEL_GRAPH, 0);
        assert_int_equal(count(graph, OLE_ONNX_GRAPH_OUTPUT), 3);
        assert_string_equal(text(inner(graph, OLE_ONNX_GRAPH_OUTPUT, 2), OLE_ONNX_VALUE_NAME, 0),
                            "known_score");
        for (int i = 0; i < 6 && cases[k].ops[i]; i++)
            assert_string_equal(
                text(inner(graph, OLE_ONNX_GRAPH_NODE, 8 + i), OLE_ONNX_NODE_OP_TYPE, 0),
                cases[k].ops[i]);
        span last = inner(graph, OLE_ONNX_GRAPH_NODE, count(graph, OLE_ONNX_GRAPH_NODE) - 1);
        assert_string_equal(text(last, OLE_ONNX_NODE_OUTPUT, 0), "known_score");
        assert_int_equal(count(graph, OLE_ONNX_GRAPH_INITIALIZER), cases[k].tensors);
        if (cases[k].tensors == 11) assert_true(number(graph, "temperature", 1) == 2.0);
        if (cases[k].tensors > 11) assert_true(number(graph, "directions", 3) == 1.0);
        if (cases[k].tensors > 12) assert_true(number(graph, "members", 6) == 1.0);
        span threshold = inner(model, OLE_ONNX_MODEL_METADATA, 6);
        assert_string_equal(text(threshold, OLE_ONNX_ENTRY_KEY, 0), "threshold");
        assert_string_equal(text(threshold, OLE_ONNX_ENTRY_VALUE, 0), "0.75");
        free(bytes);
        temporary_clear(state);
    }
}

static void test_arguments(void **state) {
    (void)state;
    ole_error error;
    ole_onnx_options options = {.fold = true};
    assert_int_equal(ole_export_onnx(NULL, "m", NULL, NULL, &error), OLE_ERROR_ARGUMENT);
    assert_int_equal(ole_export_onnx("m", "n", &options, NULL, &error), OLE_ERROR_ARGUMENT);
    const char *model = write_model();
    assert_int_equal(ole_export_onnx(model, model, NULL, NULL, &error), OLE_ERROR_ARGUMENT);
    assert_ok(ole_export_onnx(model, temporary_path("m.onnx"), NULL, NULL, &error), &error);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wire_format),
        cmocka_unit_test_teardown(test_structure, temporary_clear),
        cmocka_unit_test_teardown(test_values, temporary_clear),
        cmocka_unit_test_teardown(test_vectors, temporary_clear),
        cmocka_unit_test_teardown(test_fold, temporary_clear),
        cmocka_unit_test_teardown(test_known_score, temporary_clear),
        cmocka_unit_test_teardown(test_arguments, temporary_clear),
    };
    return cmocka_run_group_tests(tests, temporary_make, temporary_remove);
}
