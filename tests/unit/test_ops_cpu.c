/* tests/unit/test_ops_cpu.c - the oneDNN backend against the reference, op by op. */
#include "op_checks.h"
#include "test.h"

#include <string.h>

/* Whether this machine and build have bf16. */
static bool open_bf16(ole_error *error) {
    ole_device_options options = {.threads = 1, .precision = OLE_PRECISION_BF16};
    ole_device_context *context;
    if (ole_backend_cpu.open(&context, &options, error) != OLE_OK) return false;
    ole_backend_cpu.close(context);
    return true;
}

static void direct(void **state) {
    (void)state;
    check_ops(&ole_backend_cpu, OLE_CONV_DIRECT, 1e-5);
}

/* Winograd's sums cancel: its errors are a few times larger. */
static void fastest(void **state) {
    (void)state;
    check_ops(&ole_backend_cpu, OLE_CONV_AUTO, 5e-5);
}

/* Factors and tensors have 8 bits: what they are given in is exact, what is found is rounded. */
static void bf16(void **state) {
    (void)state;
    if (open_bf16(NULL)) check_ops_in(&ole_backend_cpu, OLE_PRECISION_BF16, true, 1e-2);
}

/* A CPU that has not what is asked for is named in the error. */
static void missing(void **state) {
    (void)state;
    ole_error error;
    ole_device_options options = {.threads = 1, .precision = OLE_PRECISION_TF32};
    ole_device_context *context;
    assert_int_equal(ole_backend_cpu.open(&context, &options, &error), OLE_ERROR_UNSUPPORTED);
    assert_string_equal(error.message,
                        "the cpu backend has no tf32; choose --precision fp32 or bf16");
    if (!open_bf16(&error)) assert_non_null(strstr(error.message, "AVX512_BF16"));
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
        cmocka_unit_test(direct),  cmocka_unit_test(fastest), cmocka_unit_test(bf16),
        cmocka_unit_test(missing), cmocka_unit_test(softmax), cmocka_unit_test(updates),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
