/* tests/unit/test_ops_cpu.c - the oneDNN backend against the reference, op by op. */
#include "op_checks.h"
#include "test.h"

static void direct(void **state) {
    (void)state;
    check_ops(&ole_backend_cpu, OLE_CONV_DIRECT, 1e-5);
}

/* Winograd's sums cancel: its errors are a few times larger. */
static void fastest(void **state) {
    (void)state;
    check_ops(&ole_backend_cpu, OLE_CONV_AUTO, 5e-5);
}

static void softmax(void **state) {
    (void)state;
    check_softmax(&ole_backend_cpu, 1e-6);
}

static void updates(void **state) {
    (void)state;
    check_updates(&ole_backend_cpu, 3e-6);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(direct),
        cmocka_unit_test(fastest),
        cmocka_unit_test(softmax),
        cmocka_unit_test(updates),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
