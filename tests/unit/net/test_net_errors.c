/*
 * tests/unit/net/test_net_errors.c - strings that are no network: each error names the column and
 * says what is wrong there.
 */
#include "net/graph.h"
#include "ole/train/net.h"
#include "test.h"

static const struct {
    const char *net, *message;
} mistakes[] = {
    {"C32-MP-Q12",
     "net: column 8: 'Q12' is not a token; known tokens: C, CO, MP, AP, FC, FCD, R, PR, B, PB, D, "
     "CR, BN, ReLU, ID"},
    {"C32-mp", "net: column 5: 'mp' is not a token; known tokens: C, CO, MP, AP, FC, FCD, R, PR, "
               "B, PB, D, CR, BN, ReLU, ID"},
    {"resnt110",
     "net: column 1: 'resnt110' is neither a named net nor a token; did you mean 'resnet110'?"},
    {"a very long name", "net: column 1: 'a very long name' is neither a named net nor a token; "
                         "'ole net' lists the names"},
    {"", "net: column 1: the net ends where a token is expected"},
    {"C8-", "net: column 4: the net ends where a token is expected"},
    {"C8--C8", "net: column 4: '-' found where a token is expected"},
    {"C-MP", "net: column 1: 'C' needs a width, as in C64"},
    {"MP3", "net: column 1: 'MP3' takes no number: write MP"},
    {"C0", "net: column 2: '0' is out of range; use 1 to 65536"},
    {"C99999999999999999999",
     "net: column 2: '99999999999999999999' is out of range; use 1 to 65536"},
    {"R64(x2)", "net: column 1: 'R64(x2)' needs a second number, as in R64/16"},
    {"R64/", "net: column 5: the net ends where a number is expected"},
    {"R16/64",
     "net: column 1: 'R16/64' is not a bottleneck: its inner width 64 exceeds its outer width 16"},
    {"C8 -MP",
     "net: column 3: ' ' found where '-', a modifier in [] or a repetition (xN) is expected"},
    {"C8(3)", "net: column 4: '3)' found where a repetition count xN is expected"},
    {"C8(x0)", "net: column 5: '0' is out of range; use 1 to 4096"},
    {"C8(x2", "net: column 6: the net ends where ')' is expected"},
    {"C8(x2)(x2)", "net: column 7: '(x2)' found where '-', a modifier in [] or a repetition (xN) "
                   "is expected"},
    {"C8[]", "net: column 4: ']' found where a modifier (kN, sN, pN, dX, nobn, norelu, nobias, "
             "noaffine or noproj) is expected"},
    {"C8[k3,z]",
     "net: column 7: 'z]' found where a modifier (kN, sN, pN, dX, nobn, norelu, nobias, "
     "noaffine or noproj) is expected"},
    {"C8[k3 p1]", "net: column 6: ' p1]' found where ',' or ']' is expected"},
    {"C8[k3,k3]", "net: column 7: 'k' is given twice"},
    {"C8[k]", "net: column 5: ']' found where a number is expected"},
    {"C8[s0]", "net: column 5: '0' is out of range; use 1 to 63"},
    {"CO8[nobn]", "net: column 5: 'nobn' is not a modifier of CO"},
    {"FC8[d1.0]", "net: column 6: '1.0' is not a dropout rate: use at least 0 and less than 1"},
    {"FC8[d]", "net: column 6: ']' found where a dropout rate such as 0.5 is expected"},
    {"FC8[d.]", "net: column 6: '.]' found where a dropout rate such as 0.5 is expected"},
    {"C8-MP(x4)", "net: column 4: 'MP(x4)' leaves nothing of the 1x1 image"},
    {"C8[k9,p0]", "net: column 1: 'C8[k9,p0]' leaves nothing of the 8x8 image"},
    {"MP[p2]", "net: column 1: 'MP[p2]' pads by 2, which is more than half of its window of 2"},
    {"C8-AP[s3]", "net: column 4: 'AP[s3]' has a stride but no window size, as in AP[k2,s2]"},
    {"FC8-AP", "net: column 5: 'AP' needs an image, but the FC before it outputs a vector"},
    {"C8-BN9", "net: column 4: 'BN9' does not fit the 8 channels before it"},
    {"C8-D18/4", "net: column 4: 'D18/4' cannot grow from 8 to 18 channels in steps of 4"},
    {"C8-D8/4", "net: column 4: 'D8/4' cannot grow from 8 to 8 channels in steps of 4"},
    {"CO8(x4096)", "net: column 1: 'CO8(x4096)' exceeds the limit of 4096 ops"},
    {"C65536-C65536[k63]",
     "net: column 8: 'C65536[k63]' makes a layer that is too large (65536x8x8)"},
    {"cnn5", "net cnn5: column 68: 'MP' leaves nothing of the 1x1 image"},
    {"vgg19", "net vgg19: column 45: 'MP' leaves nothing of the 1x1 image"},
};

static void test_errors(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof mistakes / sizeof *mistakes; i++) {
        ole_graph *graph = (ole_graph *)&graph;
        ole_error error = {0};
        assert_int_equal(ole_graph_parse(&graph, mistakes[i].net, (ole_shape){3, 8, 8}, 10, &error),
                         OLE_ERROR_ARGUMENT);
        assert_string_equal(error.message, mistakes[i].message);
        assert_null(graph);
        assert_int_equal(ole_graph_parse(&graph, mistakes[i].net, (ole_shape){3, 8, 8}, 10, NULL),
                         OLE_ERROR_ARGUMENT);
    }
}

static void test_bad_arguments(void **state) {
    (void)state;
    static const struct {
        const char *net;
        int c, h, w, classes;
    } bad[] = {
        {"C8", 0, 8, 8, 10},       {"C8", 3, -1, 8, 10},
        {"C8", 3, 8, 1 << 30, 10}, {"C8", 1 << 20, 1 << 20, 1 << 20, 10},
        {"C8", 3, 8, 8, 0},        {"C8", 3, 8, 8, 1 << 30},
        {NULL, 3, 8, 8, 10},       {"AP", 1, 4096, 4097, 10},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        ole_net *net;
        ole_error error = {0};
        assert_int_equal(
            ole_net_create(&net, bad[i].net, bad[i].c, bad[i].h, bad[i].w, bad[i].classes, &error),
            OLE_ERROR_ARGUMENT);
        assert_null(net);
        assert_memory_equal(error.message, "net: ", 5);
    }
    ole_net *largest;
    assert_int_equal(ole_net_create(&largest, "AP", 1, 4096, 4096, 10, NULL), OLE_OK);
    ole_net_destroy(largest);
    ole_net_destroy(NULL);
    ole_graph_free(NULL);
}

static void test_layers_that_are_not_there(void **state) {
    (void)state;
    ole_net *net;
    assert_int_equal(ole_net_create(NULL, "C8", 3, 8, 8, 10, NULL), OLE_ERROR_ARGUMENT);
    assert_int_equal(ole_net_create(&net, "C8", 3, 8, 8, 10, NULL), OLE_OK);
    assert_null(ole_net_get_layer(net, -1).name);
    assert_null(ole_net_get_layer(net, ole_net_layers(net)).name);
    assert_non_null(ole_net_get_layer(net, 0).name);
    ole_net_destroy(net);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_errors),
        cmocka_unit_test(test_bad_arguments),
        cmocka_unit_test(test_layers_that_are_not_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
