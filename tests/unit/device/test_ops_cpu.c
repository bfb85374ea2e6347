/* tests/unit/device/test_ops_cpu.c - the oneDNN backend against the reference, op by op. */
#include "device/cpu/cpu.h"
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

static bool is_any(const op_case *c) {
    (void)c;
    return true;
}

/* The table is for GPUs; here it shows that its cases are sound. */
static void watched(void **state) {
    (void)state;
    check_watched_ops(&ole_backend_cpu, OLE_PRECISION_FP32, is_any, 5e-5);
}

/* Factors and tensors have 8 bits: what they are given in is exact, what is found is rounded. */
static void bf16(void **state) {
    (void)state;
    if (open_bf16(NULL)) check_ops_in(&ole_backend_cpu, OLE_PRECISION_BF16, false, 1e-2);
}

/* The convolutions of a table in bf16, with the tiles of AMX where there are some, or without. */
static void check_convolutions(const op_case *cases, int count, bool tiles) {
    const ole_device_options options = {.threads = 2, .precision = OLE_PRECISION_BF16};
    const op_way way = {.blocked = true, .accumulate = true};
    ole_device_context *context;
    ole_error error;
    if (ole_backend_cpu.open(&context, &options, &error) != OLE_OK) skip();
    if (!tiles) context->amx = NULL;
    for (int i = 0; i < count; i++) {
        if (cases[i].op != OLE_OP_CONV) continue;
        op_data found = op_data_make(&cases[i], 5);
        op_data_narrow(&found);
        op_data expected = op_data_copy(&found);
        op_run_alone(&ole_backend_ref64, &cases[i], way, &expected);
        assert_ok(op_run(&ole_backend_cpu, context, &cases[i], way, &found, &error), &error);
        op_worst worst = op_compare(&found, &expected);
        if (worst.error > 1e-2)
            fail_msg("%s: %s is off by %.2g", op_case_text(&cases[i]).text, worst.tensor,
                     worst.error);
        op_data_free(&found);
        op_data_free(&expected);
    }
    ole_backend_cpu.close(context);
}

static void bf16_large(void **state) {
    (void)state;
    check_convolutions(op_large_cases, SANITIZED ? 2 : op_large_case_count, true);
}

static void bf16_without_tiles(void **state) {
    (void)state;
    check_convolutions(op_cases, op_case_count, false);
}

/* A CPU that has not what is asked for is named in the error. */
static void missing(void **state) {
    (void)state;
    ole_error error;
    ole_device_options options = {.threads = 1, .precision = OLE_PRECISION_TF32};
    ole_device_context *context;
    assert_int_equal(ole_backend_cpu.open(&context, &options, &error), OLE_ERROR_UNSUPPORTED);
    assert_string_equal(error.message, "the cpu backend has no tf32; use --precision fp32 or bf16");
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
        cmocka_unit_test(direct),     cmocka_unit_test(fastest),
        cmocka_unit_test(watched),    cmocka_unit_test(bf16),
        cmocka_unit_test(bf16_large), cmocka_unit_test(bf16_without_tiles),
        cmocka_unit_test(missing),    cmocka_unit_test(softmax),
        cmocka_unit_test(updates),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
