/*
 * tests/unit/net/test_net_suggest.c - the nets that are taken where none is named: which for which
 * shape, and that each fits all shapes it is taken for.
 */
#include "ole/train/net.h"

#include "test.h"

static void test_choices(void **state) {
    (void)state;
    const struct {
        int c, h, w;
        const char *net;
    } rows[] = {
        {3, 1, 1, "FC64(x2)"},
        {64, 1, 1, "FC64(x2)"},
        {65, 1, 1, "FC256-FC128"},
        {512, 1, 1, "FC256-FC128"},
        {513, 1, 1, "FC512-FC128"},
        {1, 7, 30, "FC128-FC64"},
        {1, 8, 8, "C32-MP-C64-MP-FC64"},
        {3, 20, 20, "C32-MP-C64-MP-FC64"},
        {3, 21, 21, "C32(x2)-MP-C64(x2)-MP-C128(x2)-AP"},
        {3, 48, 300, "C32(x2)-MP-C64(x2)-MP-C128(x2)-AP"},
        {1, 49, 49, "C32-MP-C64-MP-C128-MP-C256-AP"},
        {1, 112, 92, "C32-MP-C64-MP-C128-MP-C256-AP"},
        {3, 96, 96, "C32-MP-C64-MP-C128-MP-C128-MP-C256-AP"},
        {3, 128, 127, "C32-MP-C64-MP-C128-MP-C128-MP-C256-AP"},
        {3, 128, 128, "C32-MP-C64-MP-C128-MP-C128-MP-C256-MP-C256-AP"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_string_equal(ole_net_suggest(rows[i].c, rows[i].h, rows[i].w), rows[i].net);
}

/* The features of the net for a shape; fails where the net does not fit it. */
static int64_t features_of(int c, int h, int w) {
    ole_net *net;
    ole_error error;
    assert_ok(ole_net_create(&net, ole_net_suggest(c, h, w), c, h, w, 10, &error), &error);
    int64_t features = ole_net_totals(net).features;
    ole_net_destroy(net);
    return features;
}

static void test_all_fit(void **state) {
    (void)state;
    for (int side = 1; side <= 300; side++) {
        for (int c = 1; c <= 3; c += 2) {
            assert_int_in_range(features_of(c, side, side), 64, 256);
            assert_int_in_range(features_of(c, side, side + 40), 64, 1024);
            assert_int_in_range(features_of(c, 2 * side, side), 64, 1280);
        }
        assert_int_in_range(features_of(8 * side, 1, 1), 64, 128);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_choices),
        cmocka_unit_test(test_all_fit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
