/*
 * tests/unit/test_ops_cuda.c - the CUDA backend against the reference, op by op, in every
 * precision. Skipped, with the reason, where there is no card.
 */
#include "base/cuda_module.h"
#include "op_checks.h"
#include "test.h"

static const ole_backend *backend;

static int find_card(void **state) {
    (void)state;
    const void *table;
    ole_error error;
    if (ole_cuda_module_check(&error) != OLE_OK) {
        print_message("no GPU to test: %s\n", error.message);
        return 0;
    }
    assert_ok(ole_cuda_module_table("ole_cuda_backend", &table, &error), &error);
    backend = table;
    return 0;
}

#define NEEDS_CARD                                                                                 \
    (void)state;                                                                                   \
    if (!backend) skip()

static void fp32(void **state) {
    NEEDS_CARD;
    check_ops_in(backend, OLE_PRECISION_FP32, true, 3e-5);
}

static void tf32(void **state) {
    NEEDS_CARD;
    check_ops_in(backend, OLE_PRECISION_TF32, true, 4e-3);
}

static void bf16(void **state) {
    NEEDS_CARD;
    check_ops_in(backend, OLE_PRECISION_BF16, true, 3e-2);
}

static void softmax(void **state) {
    NEEDS_CARD;
    check_softmax(backend, 1e-6);
}

static void updates(void **state) {
    NEEDS_CARD;
    check_updates(backend, 3e-6);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fp32),    cmocka_unit_test(tf32),    cmocka_unit_test(bf16),
        cmocka_unit_test(softmax), cmocka_unit_test(updates),
    };
    return cmocka_run_group_tests(tests, find_card, NULL);
}
