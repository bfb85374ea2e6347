/*
 * tests/unit/device/test_ops_cuda.c - the CUDA backend against the reference, op by op, in every
 * precision. Skipped, with the reason, where there is no GPU.
 */
#include "gpu.h"
#include "op_checks.h"

#include <stdio.h>
#include <stdlib.h>

static void fp32(void **state) {
    (void)state;
    check_ops_in(gpu_table("ole_cuda_backend"), OLE_PRECISION_FP32, true, 3e-5);
}

static void tf32(void **state) {
    (void)state;
    check_ops_in(gpu_table("ole_cuda_backend"), OLE_PRECISION_TF32, true, 4e-3);
}

static void bf16(void **state) {
    (void)state;
    check_ops_in(gpu_table("ole_cuda_backend"), OLE_PRECISION_BF16, true, 3e-2);
}

/* With kernels of our own wherever there are any, quicker or not (src/device/cuda/conv/narrow.h).
 */
static void bf16_narrow(void **state) {
    (void)state;
    setenv("OLE_CUDA_WAY", "narrow:", 1);
    check_ops_in(gpu_table("ole_cuda_backend"), OLE_PRECISION_BF16, true, 3e-2);
    unsetenv("OLE_CUDA_WAY");
}

static bool is_convolution(const op_case *c) {
    return c->op == OLE_OP_CONV;
}

static bool is_not_of_libraries(const op_case *c) {
    return c->op != OLE_OP_CONV && c->op != OLE_OP_LINEAR;
}

/* What compute-sanitizer can watch in a minute or two (bench/gpu.sh), for no library runs in it:
 * each variant of the narrow kernels in turn, */
static void own_narrow(void **state) {
    (void)state;
    enum { VARIANTS = 6 }; /* at most, of a shape */
    const ole_backend *cuda = gpu_table("ole_cuda_backend");
    for (int i = 0; i < VARIANTS; i++) {
        char way[20];
        snprintf(way, sizeof way, "narrow:@%d", i);
        setenv("OLE_CUDA_WAY", way, 1);
        check_watched_ops(cuda, OLE_PRECISION_BF16, is_convolution, 3e-2);
    }
    unsetenv("OLE_CUDA_WAY");
}

/* and the kernels that are no products. */
static void own_kernels(void **state) {
    (void)state;
    const ole_backend *cuda = gpu_table("ole_cuda_backend");
    check_watched_ops(cuda, OLE_PRECISION_BF16, is_not_of_libraries, 3e-2);
    check_watched_ops(cuda, OLE_PRECISION_FP32, is_not_of_libraries, 3e-5);
}

static void softmax(void **state) {
    (void)state;
    check_softmax(gpu_table("ole_cuda_backend"), 1e-6);
}

static void updates(void **state) {
    (void)state;
    check_updates(gpu_table("ole_cuda_backend"), 3e-6);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fp32),        cmocka_unit_test(tf32),       cmocka_unit_test(bf16),
        cmocka_unit_test(bf16_narrow), cmocka_unit_test(own_narrow), cmocka_unit_test(own_kernels),
        cmocka_unit_test(softmax),     cmocka_unit_test(updates),
    };
    gpu_filter(argc, argv);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
