/*
 * tests/unit/device/test_ops_ref.c - the reference backend: its gradients against finite
 * differences in double, what ops do at evaluation, ties, dropout, and the formulas of loss and
 * optimisers.
 */
#include "op_checks.h"
#include "random.h"
#include "test.h"

#include <math.h>
#include <string.h>

static const ole_backend *const ref64 = &ole_backend_ref64;

/* ---- gradients ------------------------------------------------------------------------------ */

enum { PROBES = 40 }; /* elements of a tensor that are moved, at most */

/* sum of dy * y, whose gradients are dx and dparam. */
static double objective(const op_case *c, const op_data *data) {
    op_data moved = op_data_copy(data);
    op_run_alone(ref64, c, (op_way){0}, &moved);
    op_tensor y = moved.tensor[OP_Y], dy = moved.tensor[OP_DY];
    double sum = 0;
    for (int64_t i = 0; i < y.count; i++)
        sum += y.at[i] * dy.at[i];
    op_data_free(&moved);
    return sum;
}

static double slope(const op_case *c, const op_data *data, int tensor, int64_t i) {
    const double h = 1e-5;
    double *at = &data->tensor[tensor].at[i], old = *at;
    *at = old + h;
    double above = objective(c, data);
    *at = old - h;
    double below = objective(c, data);
    *at = old;
    return (above - below) / (2 * h);
}

static void check_slopes(const op_case *c, const op_data *data, int tensor, op_tensor gradient) {
    test_random r = {(uint64_t)tensor};
    double scale = 1;
    for (int64_t i = 0; i < gradient.count; i++)
        scale = fmax(scale, fabs(gradient.at[i]));
    for (int64_t k = 0; k < PROBES && k < gradient.count; k++) {
        int64_t i = gradient.count <= PROBES ? k : random_below(&r, gradient.count);
        double expected = slope(c, data, tensor, i);
        if (!(fabs(gradient.at[i] - expected) <= 1e-8 * scale))
            fail_msg("%s: gradient %d of tensor %d is %.10g, by differences %.10g",
                     op_case_text(c).text, (int)i, tensor, gradient.at[i], expected);
    }
}

static void gradients_are_slopes(void **state) {
    (void)state;
    for (int k = 0; k < op_case_count; k++) {
        const op_case *c = &op_cases[k];
        op_data data = op_data_make(c, 11), found = op_data_copy(&data);
        op_run_alone(ref64, c, (op_way){0}, &found);
        for (int i = 0; i < OLE_MAX_INPUTS; i++)
            check_slopes(c, &data, OP_X + i, found.tensor[OP_DX + i]);
        for (int p = 0; p < OLE_MAX_PARAMS; p++)
            check_slopes(c, &data, OP_PARAM + p, found.tensor[OP_DPARAM + p]);
        op_data_free(&data);
        op_data_free(&found);
    }
}

static void float_agrees_with_double(void **state) {
    (void)state;
    check_ops(&ole_backend_ref, OLE_CONV_AUTO, 1e-6);
    check_softmax(&ole_backend_ref, 1e-6);
    check_updates(&ole_backend_ref, 1e-6);
}

/* dx with accumulate is dx without plus what was there. */
static void accumulate_adds(void **state) {
    (void)state;
    for (int k = 0; k < op_case_count; k++) {
        const op_case *c = &op_cases[k];
        op_data before = op_data_make(c, 3);
        op_data set = op_data_copy(&before), added = op_data_copy(&before);
        op_run_alone(ref64, c, (op_way){0}, &set);
        op_run_alone(ref64, c, (op_way){.accumulate = true}, &added);
        for (int i = OP_DX; i < OP_DX + OLE_MAX_INPUTS; i++)
            for (int64_t e = 0; e < set.tensor[i].count; e++)
                assert_true(fabs(added.tensor[i].at[e] - set.tensor[i].at[e] -
                                 before.tensor[i].at[e]) < 1e-12);
        op_data_free(&before);
        op_data_free(&set);
        op_data_free(&added);
    }
}

/* ---- single ops ----------------------------------------------------------------------------- */

static void norm_at_evaluation(void **state) {
    (void)state;
    op_case c = {.op = OLE_OP_NORM, .n = 2, .c = 3, .h = 2, .w = 2, .affine = true};
    op_data data = op_data_make(&c, 1), before = op_data_copy(&data);
    op_run_alone(ref64, &c, (op_way){.eval = true}, &data);
    op_tensor *t = data.tensor, *gamma = &t[OP_PARAM], *beta = gamma + 1, *mean = gamma + 2,
              *variance = gamma + 3;
    for (int64_t e = 0; e < t[OP_Y].count; e++) {
        int64_t ch = e / 4 % 3;
        double normal = (t[OP_X].at[e] - mean->at[ch]) / sqrt(variance->at[ch] + 1e-5);
        double expected = normal * gamma->at[ch] + beta->at[ch];
        assert_true(fabs(t[OP_Y].at[e] - expected) < 1e-12);
    }
    for (int64_t ch = 0; ch < 3; ch++)
        assert_true(mean->at[ch] == before.tensor[OP_PARAM + 2].at[ch] &&
                    variance->at[ch] == before.tensor[OP_PARAM + 3].at[ch]);
    op_data_free(&data);
    op_data_free(&before);
}

/* Values 1, 2, 3, 6: mean 3, biased variance 3.5, unbiased 14/3. */
static void norm_in_training(void **state) {
    (void)state;
    op_case c = {.op = OLE_OP_NORM, .n = 2, .c = 1, .h = 1, .w = 2};
    op_data data = op_data_make(&c, 1);
    op_tensor *t = data.tensor;
    memcpy(t[OP_X].at, (double[]){1, 2, 3, 6}, 4 * sizeof(double));
    t[OP_PARAM].at[0] = 10;
    t[OP_PARAM + 1].at[0] = 20;
    op_run_alone(ref64, &c, (op_way){0}, &data);
    for (int e = 0; e < 4; e++)
        assert_true(fabs(t[OP_Y].at[e] - (t[OP_X].at[e] - 3) / sqrt(3.5 + 1e-5)) < 1e-12);
    assert_true(fabs(t[OP_PARAM].at[0] - 9.3) < 1e-12);
    assert_true(fabs(t[OP_PARAM + 1].at[0] - (18 + 1.4 / 3)) < 1e-12);
    op_data_free(&data);
}

/* The first of equal values takes the gradient; NaN counts as the largest. */
static void maxpool_ties(void **state) {
    (void)state;
    op_case c = {.op = OLE_OP_MAXPOOL, .n = 1, .c = 1, .h = 2, .w = 4, .kernel = 2, .stride = 2};
    op_data data = op_data_make(&c, 1);
    op_tensor *t = data.tensor;
    memcpy(t[OP_X].at, (double[]){1, 5, 2, NAN, 5, 5, 7, 3}, 8 * sizeof(double));
    memcpy(t[OP_DY].at, (double[]){10, 20}, 2 * sizeof(double));
    op_run_alone(ref64, &c, (op_way){0}, &data);
    static const double expected[] = {0, 10, 0, 20, 0, 0, 0, 0};
    assert_true(t[OP_Y].at[0] == 5 && isnan(t[OP_Y].at[1]));
    assert_memory_equal(t[OP_DX].at, expected, sizeof expected);
    op_data_free(&data);
}

/* A window of 3x3 that reaches over the edge of ones: 4 or 6 of 9 are there, the others count as 0.
 */
static void avgpool_counts_the_padding(void **state) {
    (void)state;
    op_case c = {
        .op = OLE_OP_AVGPOOL, .n = 1, .c = 1, .h = 3, .w = 5, .kernel = 3, .stride = 2, .pad = 1};
    op_data data = op_data_make(&c, 1);
    for (int e = 0; e < 15; e++)
        data.tensor[OP_X].at[e] = 1;
    op_run_alone(ref64, &c, (op_way){0}, &data);
    static const double ninths[] = {4, 6, 4, 4, 6, 4};
    assert_int_equal(data.tensor[OP_Y].count, 6);
    for (int e = 0; e < 6; e++)
        assert_true(fabs(data.tensor[OP_Y].at[e] - ninths[e] / 9) < 1e-15);
    op_data_free(&data);
}

/* ---- dropout -------------------------------------------------------------------------------- */

static const op_case dropped = {
    .op = OLE_OP_DROPOUT, .n = 50, .c = 20, .h = 5, .w = 4, .rate = 0.2f};

/* Runs dropout on ones: y is 0 or 1 / (1 - rate). */
static op_data drop_ones(const ole_backend *backend, uint64_t seed, op_way way) {
    op_data data = op_data_make(&dropped, 1);
    for (int64_t e = 0; e < data.tensor[OP_X].count; e++)
        data.tensor[OP_X].at[e] = data.tensor[OP_DY].at[e] = 1;
    ole_device_context *context = op_open(backend, OLE_CONV_AUTO, seed);
    ole_error error;
    assert_ok(op_run(backend, context, &dropped, way, &data, &error), &error);
    backend->close(context);
    return data;
}

/* Elements at which two runs agree. */
static int64_t agreement(uint64_t seed, uint64_t step) {
    op_data a = drop_ones(ref64, 1, (op_way){.step = 1});
    op_data b = drop_ones(ref64, seed, (op_way){.step = step});
    int64_t same = 0;
    for (int64_t e = 0; e < a.tensor[OP_Y].count; e++)
        same += a.tensor[OP_Y].at[e] == b.tensor[OP_Y].at[e];
    op_data_free(&a);
    op_data_free(&b);
    return same;
}

static void dropout_mask(void **state) {
    (void)state;
    op_data data = drop_ones(ref64, 1, (op_way){.step = 1});
    op_tensor y = data.tensor[OP_Y], dx = data.tensor[OP_DX];
    int64_t kept = 0;
    for (int64_t e = 0; e < y.count; e++) {
        assert_true(y.at[e] == 0 || fabs(y.at[e] - 1 / (1 - (double)0.2f)) < 1e-15);
        assert_true(dx.at[e] == y.at[e]);
        kept += y.at[e] != 0;
    }
    /* 20,000 elements: the deviation of the share is 0.0028. */
    assert_true(fabs((double)kept / (double)y.count - 0.8) < 0.012);
    op_data_free(&data);
}

static void dropout_is_a_function_of_seed_and_step(void **state) {
    (void)state;
    int64_t all = dropped.n * dropped.c * dropped.h * dropped.w;
    assert_int_equal(agreement(1, 1), all);
    /* Independent masks agree at 0.8^2 + 0.2^2 of the elements. */
    assert_true(fabs((double)agreement(2, 1) / (double)all - 0.68) < 0.02);
    assert_true(fabs((double)agreement(1, 2) / (double)all - 0.68) < 0.02);
}

static void dropout_at_evaluation(void **state) {
    (void)state;
    op_data data = drop_ones(ref64, 1, (op_way){.eval = true});
    for (int64_t e = 0; e < data.tensor[OP_Y].count; e++)
        assert_true(data.tensor[OP_Y].at[e] == 1);
    op_data_free(&data);
}

/* ---- loss and optimisers -------------------------------------------------------------------- */

/* logits (0, log 3) of class 1, and (log 3, 0) of class 1: probabilities 3/4 and 1/4. */
static void softmax_by_hand(void **state) {
    (void)state;
    ole_device_context *context = op_open(ref64, OLE_CONV_AUTO, 1);
    double logits[] = {0, log(3), log(3), 0}, gradient[4], loss;
    int64_t correct;
    ref64->softmax_loss(context, 2, 2, logits, (int32_t[]){1, 1}, NULL, 0.0, 2.0, gradient, NULL,
                        &loss, &correct);
    static const double expected[] = {0.25, -0.25, 0.75, -0.75};
    assert_true(fabs(loss + 0.5 * (log(0.75) + log(0.25))) < 1e-15);
    assert_int_equal(correct, 1);
    for (int i = 0; i < 4; i++)
        assert_true(fabs(gradient[i] - expected[i]) < 1e-15);
    /* Targets 0.1 and 0.9: the loss is the cross-entropy, the gradient score - target. */
    ref64->softmax_loss(context, 2, 2, logits, (int32_t[]){1, 1}, NULL, 0.2, 2.0, gradient, NULL,
                        &loss, &correct);
    assert_true(fabs(loss + 0.5 * (0.9 * log(0.75) + 0.1 * log(0.25) + 0.9 * log(0.25) +
                                   0.1 * log(0.75))) < 1e-15);
    static const double smooth[] = {0.15, -0.15, 0.65, -0.65};
    for (int i = 0; i < 4; i++)
        assert_true(fabs(gradient[i] - smooth[i]) < 1e-15);
    /* Three quarters of class 1 and a quarter of class 0, in the second row of class 1 alone. */
    float share = 0.75f;
    const ole_mix mix = {(int32_t[]){0, 1}, &share};
    ref64->softmax_loss(context, 2, 2, logits, (int32_t[]){1, 1}, &mix, 0.0, 2.0, gradient, NULL,
                        &loss, &correct);
    assert_true(fabs(loss + 0.5 * (0.75 * log(0.75) + 0.25 * log(0.25) + log(0.25))) < 1e-15);
    static const double mixed[] = {0, 0, 0.75, -0.75};
    for (int i = 0; i < 4; i++)
        assert_true(fabs(gradient[i] - mixed[i]) < 1e-15);
    assert_int_equal(correct, 1);
    ref64->close(context);
}

/* Three steps of one parameter with gradients 1, -2, 0.5. */
static double three_steps(ole_update update) {
    ole_device_context *context = op_open(ref64, OLE_CONV_AUTO, 1);
    static const double gradients[] = {1, -2, 0.5};
    double param = 3, first = 0, second = 0;
    for (update.step = 1; update.step <= 3; update.step++)
        ref64->update(context, &update, sizeof param, &param, &gradients[update.step - 1],
                      (void *[2]){&first, &second});
    ref64->close(context);
    return param;
}

static void sgd_by_hand(void **state) {
    (void)state;
    ole_update u = {OLE_UPDATE_SGD, .lr = 0.1};
    assert_true(fabs(three_steps(u) - (3 - 0.1 * (1 - 2 + 0.5))) < 1e-15);

    u.momentum = 0.9; /* buffers 1, -1.1, -0.49 */
    assert_true(fabs(three_steps(u) - (3 - 0.1 * (1 - 1.1 - 0.49))) < 1e-15);

    u.nesterov = true; /* g + 0.9 b: 1.9, -2.99, 0.059 */
    assert_true(fabs(three_steps(u) - (3 - 0.1 * (1.9 - 2.99 + 0.059))) < 1e-15);

    u.weight_decay = 0.5;
    double g1 = 1 + 0.5 * 3, p1 = 3 - 0.1 * (1.9 * g1);
    double g2 = -2 + 0.5 * p1, b2 = 0.9 * g1 + g2, p2 = p1 - 0.1 * (g2 + 0.9 * b2);
    double g3 = 0.5 + 0.5 * p2, b3 = 0.9 * b2 + g3, p3 = p2 - 0.1 * (g3 + 0.9 * b3);
    assert_true(fabs(three_steps(u) - p3) < 1e-14);
}

static void adam_by_hand(void **state) {
    (void)state;
    ole_update u = {OLE_UPDATE_ADAM, .lr = 0.1,     .weight_decay = 0.5,
                    .beta1 = 0.9,    .beta2 = 0.99, .eps = 1e-3};
    double g1 = 1 + 0.5 * 3, m1 = 0.1 * g1, v1 = 0.01 * g1 * g1;
    double p1 = 3 - 0.1 * (m1 / 0.1) / (sqrt(v1 / 0.01) + 1e-3);
    double g2 = -2 + 0.5 * p1, m2 = 0.9 * m1 + 0.1 * g2, v2 = 0.99 * v1 + 0.01 * g2 * g2;
    double p2 = p1 - 0.1 * (m2 / 0.19) / (sqrt(v2 / 0.0199) + 1e-3);
    double g3 = 0.5 + 0.5 * p2, m3 = 0.9 * m2 + 0.1 * g3, v3 = 0.99 * v2 + 0.01 * g3 * g3;
    double p3 = p2 - 0.1 * (m3 / 0.271) / (sqrt(v3 / 0.029701) + 1e-3);
    assert_true(fabs(three_steps(u) - p3) < 1e-13);
}

static void adamw_by_hand(void **state) {
    (void)state;
    ole_update u = {OLE_UPDATE_ADAM, .lr = 0.1,     .weight_decay = 0.5, .decoupled = true,
                    .beta1 = 0.9,    .beta2 = 0.99, .eps = 1e-3};
    double m1 = 0.1, v1 = 0.01, p1 = 3 * 0.95 - 0.1 * (m1 / 0.1) / (sqrt(v1 / 0.01) + 1e-3);
    double m2 = 0.9 * m1 - 0.2, v2 = 0.99 * v1 + 0.04;
    double p2 = p1 * 0.95 - 0.1 * (m2 / 0.19) / (sqrt(v2 / 0.0199) + 1e-3);
    double m3 = 0.9 * m2 + 0.05, v3 = 0.99 * v2 + 0.0025;
    double p3 = p2 * 0.95 - 0.1 * (m3 / 0.271) / (sqrt(v3 / 0.029701) + 1e-3);
    assert_true(fabs(three_steps(u) - p3) < 1e-13);
}

static void other_precisions_are_refused(void **state) {
    (void)state;
    ole_device_options options = {.threads = 1, .precision = OLE_PRECISION_BF16};
    ole_device_context *context;
    ole_error error;
    assert_int_equal(ref64->open(&context, &options, &error), OLE_ERROR_UNSUPPORTED);
    assert_non_null(strstr(error.message, "fp32"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_are_slopes),
        cmocka_unit_test(float_agrees_with_double),
        cmocka_unit_test(accumulate_adds),
        cmocka_unit_test(norm_at_evaluation),
        cmocka_unit_test(norm_in_training),
        cmocka_unit_test(maxpool_ties),
        cmocka_unit_test(avgpool_counts_the_padding),
        cmocka_unit_test(dropout_mask),
        cmocka_unit_test(dropout_is_a_function_of_seed_and_step),
        cmocka_unit_test(dropout_at_evaluation),
        cmocka_unit_test(softmax_by_hand),
        cmocka_unit_test(sgd_by_hand),
        cmocka_unit_test(adam_by_hand),
        cmocka_unit_test(adamw_by_hand),
        cmocka_unit_test(other_precisions_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
