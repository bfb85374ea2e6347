/*
 * tests/unit/train/test_train_bf16.c - training in bf16 on the CPU: that it learns as fp32 does,
 * that runs repeat, and what a CPU without it is told.
 */
#include "ole/train/train.h"

#include "run_files.h"
#include "temporary.h"
#include "test.h"

#include <string.h>

static ole_train_options make(const char *net, const char *precision) {
    ole_train_options o;
    ole_train_options_init(&o);
    o.data = "digits";
    o.net = net;
    o.device = "cpu";
    o.precision = precision;
    o.epochs = 4;
    o.lr = 0.05;
    o.threads = 1;
    return o;
}

/* False, after a look at the message, where the machine or the build has no bf16. */
static bool train(const ole_train_options *o, ole_train_summary *summary) {
    ole_error error;
    ole_status status = ole_train(o, summary, &error);
    if (status == OLE_ERROR_UNSUPPORTED && strcmp(o->precision, "bf16") == 0) {
        assert_non_null(strstr(error.message, "bf16"));
        return false;
    }
    assert_ok(status, &error);
    return true;
}

/* Every kind of block, with channels that fill their blocks and some that do not. */
static void learns(void **state) {
    (void)state;
    static const char *const nets[] = {
        "C32-MP-C40-MP-FC32",
        "C16[nobias]-R64/16(x2)-R128/32-AP",
        "C16[nobn,norelu,nobias]-PR64/16-PR128/32-BN-ReLU-AP",
        "CO24-D48/12[d0.1]-CR48-D72/12-BN72-ReLU-AP",
    };
    for (size_t i = 0; i < sizeof nets / sizeof *nets; i++) {
        ole_train_options half = make(nets[i], "bf16"), whole = make(nets[i], "fp32");
        ole_train_summary found, expected;
        if (!train(&half, &found)) skip();
        train(&whole, &expected);
        if (!(found.test_error <= expected.test_error + 2.5 && found.test_error < 10.0))
            fail_msg("%s: test error %.2f %% in bf16, %.2f %% in fp32", nets[i], found.test_error,
                     expected.test_error);
        if (SANITIZED) break;
    }
}

static const char *folder(char path[400], const char *name) {
    snprintf(path, 400, "%s/%s", temporary_dir, name);
    run_remove(path);
    return path;
}

/* The same bits twice, on two threads. */
static void repeats(void **state) {
    (void)state;
    char a[400], b[400];
    ole_train_options first = make("C32-C64-MP-C17-MP-FC32", "bf16");
    ole_train_summary summary;
    first.epochs = 1;
    first.samples_per_class = 20;
    first.threads = 2;
    ole_train_options second = first;
    first.out = folder(a, "first");
    second.out = folder(b, "second");
    if (!train(&first, &summary)) skip();
    train(&second, &summary);
    assert_same_runs(a, b);
}

static int clear(void **state) {
    (void)state;
    temporary_each(run_remove);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(learns),
        cmocka_unit_test_teardown(repeats, clear),
    };
    return cmocka_run_group_tests(tests, temporary_make, temporary_remove);
}
