/*
 * tests/unit/loss/test_loss_cuda_calls.c - how the loss on a GPU is called: errors where there is
 * no GPU (which run everywhere), labels of any value, bad and ignored rows, graphs, the same bits
 * twice, and ole_loss_eval() beside the CPU's.
 */
#include "gpu_loss.h"

#include <inttypes.h>

/* ---- everywhere ---------------------------------------------------------------------------- */

static void no_gpu_is_said(void **state) {
    (void)state;
    ole_loss_options options;
    ole_loss_options_init(&options);
    options.device = OLE_DEVICE_CUDA;
    ole_error error = {0}, reason = {0};
    ole_loss_plan *plan = (ole_loss_plan *)&options;
    if (ole_cuda_module_check(&reason) == OLE_OK) {
        options.gpu = 4711;
        assert_int_equal(ole_loss_plan_create(&plan, 8, 8, OLE_F32, &options, &error),
                         OLE_ERROR_ARGUMENT);
        assert_non_null(strstr(error.message, "options.gpu is 4711"));
    } else {
        assert_int_equal(ole_loss_plan_create(&plan, 8, 8, OLE_F32, &options, &error),
                         OLE_ERROR_UNSUPPORTED);
        assert_string_equal(error.message, reason.message);
        assert_non_null(strstr(error.message, "--device cpu"));
    }
    assert_null(plan);
}

static void narrow_types_are_the_gpus(void **state) {
    (void)state;
    ole_loss_plan *plan;
    ole_error error = {0};
    assert_int_equal(ole_loss_plan_create(&plan, 8, 8, OLE_BF16, NULL, &error), OLE_ERROR_ARGUMENT);
    assert_non_null(strstr(error.message, "bfloat16"));
}

static void a_plan_of_the_cpu_is_not_queued(void **state) {
    (void)state;
    ole_loss_plan *plan;
    ole_error error = {0};
    float x[4] = {1, 2, 3, 4};
    int32_t labels[2] = {0, 1};
    assert_ok(ole_loss_plan_create(&plan, 2, 2, OLE_F32, NULL, &error), &error);
    ole_loss_batch batch = {.rows = 2, .features = x, .labels = labels, .label_type = OLE_I32};
    assert_int_equal(ole_loss_queue(plan, &batch, NULL, NULL, NULL, &error), OLE_ERROR_ARGUMENT);
    assert_non_null(strstr(error.message, "the plan is for the CPU"));
    ole_loss_plan_destroy(plan);
}

/* ---- on a GPU ----------------------------------------------------------------------------- */

static const int64_t small[3] = {40, 60, 5}, large[3] = {150, 90, 2};

static bool same_bits(const double *a, const double *b, int64_t count) {
    return memcmp(a, b, (size_t)count * sizeof *a) == 0;
}

/* Queues, waits and gives a copy of the gradient. */
static double *gradient_of(gpu_loss *c) {
    size_t bytes = (size_t)(c->batch->rows * c->batch->dim) * sizeof(double);
    double *copy = malloc(bytes);
    gpu_send(c);
    gpu_queue(c);
    gpu_receive(c);
    memcpy(copy, c->gradient, bytes);
    return copy;
}

/* Only the order of labels counts, not what they are. */
static void labels_of_any_value(void **state) {
    (void)state;
    static const int64_t values[5] = {0, 7, INT32_MAX, INT64_C(1) << 40, INT64_MAX};
    gpu_batch b = gpu_batch_make(small, CASE_RELU, OLE_F32, 1.0, 3);
    gpu_loss c = gpu_open(&b);
    double *plain = gradient_of(&c);
    ole_loss_outcome outcome = c.outcome;
    for (int64_t i = 0; i < b.rows; i++)
        b.labels[i] = values[b.labels[i]];
    gpu_send_labels(&c);
    double *other = gradient_of(&c);
    assert_memory_equal(&outcome, &c.outcome, sizeof outcome);
    assert_true(same_bits(plain, other, b.rows * b.dim));
    free(plain);
    free(other);
    gpu_close(&c);
    gpu_batch_free(&b);
}

static void the_same_bits_twice(void **state) {
    (void)state;
    for (int k = 0; k < 2; k++) {
        gpu_batch b = gpu_batch_make(k ? large : small, CASE_NORMAL, OLE_F32, 1.0, 5);
        gpu_loss c = gpu_open(&b);
        double *first = gradient_of(&c);
        ole_loss_outcome outcome = c.outcome;
        double *second = gradient_of(&c);
        assert_memory_equal(&outcome, &c.outcome, sizeof outcome);
        assert_true(same_bits(first, second, b.rows * b.dim));
        ole_error error = {0};
        assert_ok(ole_loss_queue(c.plan, &c.device, NULL, c.device_outcome, c.stream, &error),
                  &error);
        gpu_receive(&c);
        assert_memory_equal(&outcome, &c.outcome, sizeof outcome);
        free(first);
        free(second);
        gpu_close(&c);
        gpu_batch_free(&b);
    }
}

static void all_rows_ignored(void **state) {
    (void)state;
    gpu_batch b = gpu_batch_make(small, CASE_NORMAL, OLE_F32, 1.0, 2);
    for (int64_t i = 0; i < b.rows; i++)
        b.labels[i] = i % 2 ? -1 : INT64_MIN;
    gpu_loss c = gpu_open(&b);
    gpu_queue(&c);
    gpu_receive(&c);
    const ole_loss_outcome nothing = {.bad_row = -1};
    assert_memory_equal(&c.outcome, &nothing, sizeof nothing);
    for (int64_t i = 0; i < b.rows * b.dim; i++)
        assert_true(c.gradient[i] == 0.0);
    ole_loss_result result = {0};
    ole_error error = {0};
    assert_int_equal(ole_loss_eval(c.plan, &c.device, &c.to, &result, &error), OLE_ERROR_ARGUMENT);
    assert_non_null(strstr(error.message, "all 40 rows are ignored"));
    gpu_close(&c);
    gpu_batch_free(&b);
}

/* NaN and Inf make everything NaN and are named, unless their rows are ignored. */
static void check_bad_rows(const int64_t shape[3], ole_dtype dtype) {
    gpu_batch b = gpu_batch_make(shape, CASE_NORMAL, dtype, 1.0, 9);
    b.labels[3] = -5;
    b.x[3 * b.dim] = NAN;
    gpu_loss c = gpu_open(&b);
    double *good = gradient_of(&c);
    assert_int_equal(c.outcome.bad_row, -1);
    for (int64_t i = 0; i < b.rows * b.dim; i++)
        assert_true(isfinite(good[i]));
    b.x[20 * b.dim + b.dim - 1] = -INFINITY;
    b.x[31 * b.dim] = NAN;
    double *bad = gradient_of(&c);
    assert_int_equal(c.outcome.bad_row, 20);
    assert_true(isnan(c.outcome.value));
    for (int64_t i = 0; i < b.rows * b.dim; i++)
        assert_true(i / b.dim == 3 ? bad[i] == 0.0 : isnan(bad[i]));
    ole_loss_result result = {0};
    ole_error error = {0};
    assert_int_equal(ole_loss_eval(c.plan, &c.device, &c.to, &result, &error), OLE_ERROR_DATA);
    assert_non_null(strstr(error.message, "row 20 holds NaN or Inf"));
    b.x[20 * b.dim + b.dim - 1] = b.x[31 * b.dim] = 0.5;
    double *again = gradient_of(&c);
    assert_int_equal(c.outcome.bad_row, -1);
    assert_true(isfinite(c.outcome.value) && isfinite(again[0]));
    free(good);
    free(bad);
    free(again);
    gpu_close(&c);
    gpu_batch_free(&b);
}

static void bad_rows(void **state) {
    (void)state;
    check_bad_rows(small, OLE_F32);
    check_bad_rows(small, OLE_F64);
    check_bad_rows(large, OLE_F32);
    check_bad_rows(small, OLE_BF16);
}

/* A recorded evaluation reads what lies there when it is run. */
static void recorded(void **state) {
    (void)state;
    for (int k = 0; k < 2; k++) {
        gpu_batch b = gpu_batch_make(k ? large : small, CASE_RELU, OLE_F32, 1.0, 4);
        gpu_loss c = gpu_open(&b);
        ole_error error = {0};
        if (!c.memory->capture(c.stream, &error)) fail_msg("%s", error.message);
        gpu_queue(&c);
        ole_cuda_graph *graph = c.memory->captured(c.stream, &error);
        if (!graph) fail_msg("%s", error.message);
        for (int turn = 0; turn < 3; turn++) {
            for (int64_t i = 0; i < b.rows * b.dim; i++)
                b.x[i] += 0.01 * (double)((i * 7 + turn) % 13);
            b.labels[turn] = turn == 2 ? -1 : 1;
            gpu_send_labels(&c);
            double *direct = gradient_of(&c);
            ole_loss_outcome outcome = c.outcome;
            gpu_send(&c);
            if (!c.memory->replay(graph, c.stream, &error)) fail_msg("%s", error.message);
            gpu_receive(&c);
            assert_memory_equal(&outcome, &c.outcome, sizeof outcome);
            assert_true(same_bits(direct, c.gradient, b.rows * b.dim));
            free(direct);
        }
        c.memory->close_graph(graph);
        gpu_close(&c);
        gpu_batch_free(&b);
    }
}

/* The result of ole_loss_eval(), class by class, beside the CPU's. */
static void classes_as_on_the_cpu(void **state) {
    (void)state;
    gpu_batch b = gpu_batch_make(large, CASE_NEARLY_LOW, OLE_F64, 1.0, 6);
    for (int64_t i = 0; i < b.rows; i++)
        b.labels[i] = i % 5 == 0 ? 3 : (i % 11 == 0 ? -2 : 100 + i % 3);
    gpu_loss c = gpu_open(&b);
    ole_loss_class ours[8], theirs[8];
    ole_loss_result got = {.per_class = ours, .per_class_capacity = 8};
    ole_loss_result want = {.per_class = theirs, .per_class_capacity = 8};
    ole_error error = {0};
    assert_ok(ole_loss_eval(c.plan, &c.device, &c.to, &got, &error), &error);
    ole_loss_plan *plan;
    ole_loss_options options = b.options;
    options.device = OLE_DEVICE_CPU;
    assert_ok(ole_loss_plan_create(&plan, b.rows, b.dim, OLE_F64, &options, &error), &error);
    ole_loss_batch batch = {
        .rows = b.rows, .features = b.x, .labels = b.labels, .label_type = OLE_I64};
    assert_ok(ole_loss_eval(plan, &batch, NULL, &want, &error), &error);
    assert_int_equal(got.classes, want.classes);
    assert_int_equal(got.rank, want.rank);
    assert_true(fabs(got.value - want.value) <= 1e-12 * want.class_term);
    for (int64_t k = 0; k < want.classes; k++) {
        assert_int_equal(ours[k].label, theirs[k].label);
        assert_int_equal(ours[k].count, theirs[k].count);
        assert_int_equal(ours[k].rank, theirs[k].rank);
        assert_true(fabs(ours[k].norm - theirs[k].norm) <= 1e-12 * theirs[k].norm);
    }
    got.per_class_capacity = 2;
    assert_int_equal(ole_loss_eval(c.plan, &c.device, &c.to, &got, &error), OLE_ERROR_ARGUMENT);
    assert_non_null(strstr(error.message, "per_class_capacity is 2"));
    assert_true(ole_loss_plan_bytes(c.plan) > (size_t)(b.rows * b.dim) * 8);
    ole_loss_plan_destroy(plan);
    gpu_close(&c);
    gpu_batch_free(&b);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_gpu_is_said),
        cmocka_unit_test(narrow_types_are_the_gpus),
        cmocka_unit_test(a_plan_of_the_cpu_is_not_queued),
        cmocka_unit_test(labels_of_any_value),
        cmocka_unit_test(the_same_bits_twice),
        cmocka_unit_test(all_rows_ignored),
        cmocka_unit_test(bad_rows),
        cmocka_unit_test(recorded),
        cmocka_unit_test(classes_as_on_the_cpu),
    };
    gpu_filter(argc, argv);
    return cmocka_run_group_tests_name("loss_cuda_calls", tests, NULL, NULL);
}
