/*
 * tests/unit/model/test_train_caffe.c - Caffe models of both kinds, made here byte by byte, as
 * first weights; and files that are none.
 */
#include "model/caffe.h"

#include "model/init_from.h"
#include "temporary.h"
#include "test.h"

/* ---- Writing protobuf --------------------------------------------------------------------- */

typedef struct bytes {
    unsigned char at[8192];
    size_t size;
} bytes;

static void put_varint(bytes *b, uint64_t value) {
    do {
        b->at[b->size++] = (unsigned char)((value & 0x7f) | (value > 0x7f ? 0x80 : 0));
        value >>= 7;
    } while (value);
}

static void put_bytes(bytes *b, unsigned field, const void *data, size_t size) {
    put_varint(b, field << 3 | 2);
    put_varint(b, size);
    memcpy(b->at + b->size, data, size);
    b->size += size;
}

static void put_number(bytes *b, unsigned field, uint64_t value) {
    put_varint(b, field << 3);
    put_varint(b, value);
}

/* A blob of the numbers first, first + 1, ...: packed, one by one, or as doubles. */
static bytes make_blob(int64_t count, float first, int how) {
    bytes b = {.size = 0};
    float single[256];
    double wide[256];
    for (int64_t i = 0; i < count; i++)
        wide[i] = single[i] = first + (float)i;
    put_number(&b, 1, (uint64_t)count);
    if (how == 0) put_bytes(&b, 5, single, (size_t)count * sizeof *single);
    if (how == 2) put_bytes(&b, 8, wide, (size_t)count * sizeof *wide);
    for (int64_t i = 0; how == 1 && i < count; i++) {
        put_varint(&b, 5 << 3 | 5);
        memcpy(b.at + b.size, &single[i], 4);
        b.size += 4;
    }
    return b;
}

/* A layer with weight and bias, as LayerParameter or V1LayerParameter. */
static void put_layer(bytes *net, bool v1, const char *name, bool linear, int64_t weights,
                      int64_t biases, int how) {
    bytes layer = {.size = 0};
    put_bytes(&layer, v1 ? 4 : 1, name, strlen(name));
    if (v1)
        put_number(&layer, 5, linear ? 14 : 4);
    else
        put_bytes(&layer, 2, linear ? "InnerProduct" : "Convolution", linear ? 12 : 11);
    bytes w = make_blob(weights, 100, how), b = make_blob(biases, 7, how);
    put_bytes(&layer, v1 ? 6 : 7, w.at, w.size);
    put_bytes(&layer, v1 ? 6 : 7, b.at, b.size);
    put_bytes(net, v1 ? 2 : 100, layer.at, layer.size);
}

static const char *write_file(const bytes *b) {
    const char *path = temporary_path("net.caffemodel");
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(b->at, 1, b->size, file), b->size);
    fclose(file);
    return path;
}

/* A convolution 3 -> 2 with kernel 3, a layer without weights, a linear layer, one too many. */
static bytes make_net(bool v1, int how) {
    bytes net = {.size = 0};
    put_bytes(&net, 1, "net", 3);
    put_layer(&net, v1, "conv1", false, 54, 2, how);
    bytes relu = {.size = 0};
    put_bytes(&relu, v1 ? 4 : 1, "relu1", 5);
    put_bytes(&net, v1 ? 2 : 100, relu.at, relu.size);
    put_layer(&net, v1, "fc6", true, 2 * 16 * 4, 4, how);
    put_layer(&net, v1, "fc8", true, 9, 3, how);
    put_layer(&net, v1, "fc9", true, 9, 3, how);
    return net;
}

/* ---- Tests -------------------------------------------------------------------------------- */

static int param(const ole_graph *graph, const char *name) {
    for (int i = 0; i < graph->params; i++)
        if (strcmp(graph->param[i].name, name) == 0) return i;
    fail_msg("no %s", name);
    return -1;
}

static const ole_network_options fitting = {.net = "C2[nobn]-FC4[nobn]",
                                            .input = {3, 4, 4},
                                            .classes = 10,
                                            .device = "ref",
                                            .precision = "fp32",
                                            .conv = "auto",
                                            .threads = 1};

static void test_init(void **state) {
    (void)state;
    for (int kind = 0; kind < 6; kind++) {
        bytes net = make_net(kind % 2, kind / 2);
        const char *path = write_file(&net);
        ole_network network;
        ole_error error;
        char report[OLE_REPORT_ROOM], warning[OLE_REPORT_ROOM], expected[700];
        assert_ok(ole_network_open(&network, &fitting, &error), &error);
        assert_ok(ole_init_from(&network, path, report, warning, &error), &error);
        snprintf(expected, sizeof expected,
                 "%s: 2 loaded, 2 skipped (fc8, fc9), 1 left unchanged (classifier)", path);
        assert_string_equal(report, expected);
        float w[128], b[10];
        ole_params_get(network.params, param(network.graph, "1.conv.weight"), w);
        ole_params_get(network.params, param(network.graph, "1.conv.bias"), b);
        assert_true(w[0] == 118 && w[9] == 109 && w[18] == 100); /* BGR has become RGB */
        assert_true(w[53] == 127 + 8);
        assert_true(b[0] == 7 && b[1] == 8);
        ole_params_get(network.params, param(network.graph, "2.linear.weight"), w);
        assert_true(w[0] == 100 && w[127] == 227);
        ole_network_close(&network);
    }
}

/* A weight that does not fit: the bias, which would, stays as it is too. */
static void test_half_a_layer(void **state) {
    (void)state;
    bytes net = {.size = 0};
    put_bytes(&net, 1, "net", 3);
    put_layer(&net, false, "conv1", false, 54, 2, 0);
    put_layer(&net, false, "fc6", true, 9, 4, 0);
    ole_network network;
    ole_error error;
    char report[OLE_REPORT_ROOM], warning[OLE_REPORT_ROOM];
    assert_ok(ole_network_open(&network, &fitting, &error), &error);
    assert_ok(ole_init_from(&network, write_file(&net), report, warning, &error), &error);
    assert_non_null(strstr(report, "1 loaded, 1 skipped (fc6), 2 left unchanged (2.linear, "));
    float b[4] = {1, 1, 1, 1};
    ole_params_get(network.params, param(network.graph, "2.linear.bias"), b);
    assert_true(b[0] == 0 && b[3] == 0);
    ole_network_close(&network);
}

static void test_damaged(void **state) {
    (void)state;
    bytes net = make_net(false, 0);
    ole_caffe model;
    ole_error error;
    for (size_t cut = 0; cut < net.size; cut += 7) {
        bytes part = net;
        part.size = cut;
        ole_status status = ole_caffe_read(&model, write_file(&part), &error);
        assert_true(status == OLE_OK || status == OLE_ERROR_FORMAT);
        ole_caffe_free(&model);
    }
    bytes empty = {.size = 0};
    assert_int_equal(ole_caffe_read(&model, write_file(&empty), &error), OLE_ERROR_FORMAT);
    assert_non_null(
        strstr(error.message, "not a Caffe model with weights, or damaged, near byte 0"));
    assert_int_equal(ole_caffe_read(&model, temporary_path("no"), &error), OLE_ERROR_IO);
    assert_int_equal(ole_caffe_read(&model, temporary_dir, &error), OLE_ERROR_IO);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_init, temporary_clear),
        cmocka_unit_test_teardown(test_half_a_layer, temporary_clear),
        cmocka_unit_test_teardown(test_damaged, temporary_clear),
    };
    return cmocka_run_group_tests(tests, temporary_make, temporary_remove);
}
