/*
 * tests/unit/loss/test_loss_calls.c - what a call reads and writes: ignored rows, added gradients,
 * strides, int32 labels, per-class results, plans used again, and nothing else touched.
 */
#include "fixture.h"
#include "reference.h"
#include "test.h"

#include <stdlib.h>
#include <string.h>

static const ole_dtype dtypes[] = {OLE_F32, OLE_F64};

static void evaluate(ole_loss_plan *plan, const ole_loss_batch *batch,
                     const ole_loss_gradient *gradient, ole_loss_result *result) {
    ole_error error;
    assert_ok(ole_loss_eval(plan, batch, gradient, result, &error), &error);
}

/* The same value, terms and counts, bit for bit. */
static void assert_same_result(const ole_loss_result *a, const ole_loss_result *b) {
    assert_memory_equal(&a->value, &b->value, sizeof a->value);
    assert_memory_equal(&a->class_term, &b->class_term, sizeof a->class_term);
    assert_memory_equal(&a->global_norm, &b->global_norm, sizeof a->global_norm);
    assert_int_equal(a->rows, b->rows);
    assert_int_equal(a->classes, b->classes);
    assert_int_equal(a->rank, b->rank);
}

static size_t gradient_bytes(const fixture *f) {
    return (size_t)f->count * ole_dtype_size(f->dtype);
}

/* Ignored rows are as if they were not there, except that their gradient is written as zero. */
static void ignored_rows(void **state) {
    (void)state;
    for (int s = 0; s < 2; s++) {
        fixture all = fixture_make(18, 8, 3, CASE_NORMAL, dtypes[s], 1);
        fixture kept = fixture_make(12, 8, 3, CASE_ZERO, dtypes[s], 1);
        for (int64_t i = 0, k = 0; i < all.rows; i++) {
            if (i % 3 == 1) {
                all.labels[i] = i % 2 ? -1 : INT64_MIN;
                continue;
            }
            memcpy(kept.x + k * 8, all.x + i * 8, 8 * sizeof *all.x);
            kept.labels[k++] = all.labels[i];
        }
        fixture_evaluate(&all);
        fixture_evaluate(&kept);
        assert_same_result(&all.result, &kept.result);
        for (int64_t i = 0, k = 0; i < all.rows; i++) {
            static const double zero[8];
            const double *want = all.labels[i] < 0 ? zero : kept.gradient + 8 * k++;
            assert_memory_equal(all.gradient + i * 8, want, sizeof zero);
        }
        fixture_free(&all);
        fixture_free(&kept);
    }
}

/* Accumulating adds to what is there and leaves ignored rows alone, even NaN in them. */
static void accumulate(void **state) {
    (void)state;
    fixture f = fixture_make(10, 6, 2, CASE_NORMAL, OLE_F64, 2);
    f.labels[4] = -7;
    f.upstream = -3.0;
    fixture_evaluate(&f);
    double *sum = calloc((size_t)f.count, sizeof *sum);
    for (int64_t i = 0; i < f.count; i++)
        sum[i] = i / f.dim == 4 ? (double)NAN : (double)i;
    ole_loss_plan *plan = fixture_plan(&f, f.rows);
    ole_loss_batch batch = fixture_batch(&f);
    ole_loss_gradient added = {.data = sum, .upstream = f.upstream, .accumulate = true};
    ole_loss_result result = {0};
    evaluate(plan, &batch, &added, &result);
    assert_same_result(&result, &f.result);
    for (int64_t i = 0; i < f.count; i++) {
        if (i / f.dim == 4)
            assert_true(isnan(sum[i]));
        else
            assert_true(fabs(sum[i] - ((double)i + f.gradient[i])) <= 1e-14 * (1.0 + (double)i));
    }
    ole_loss_plan_destroy(plan);
    free(sum);
    fixture_free(&f);
}

/* Rows moved `stride` apart in memory filled with `guard` bytes. */
static char *spread_out(const fixture *f, const void *from, int64_t stride, int guard) {
    size_t size = ole_dtype_size(f->dtype), row = (size_t)f->dim * size;
    char *to = malloc((size_t)(f->rows * stride) * size);
    memset(to, guard, (size_t)(f->rows * stride) * size);
    for (int64_t i = 0; i < f->rows && from; i++)
        memcpy(to + (size_t)(i * stride) * size, (const char *)from + (size_t)i * row, row);
    return to;
}

static void strides(void **state) {
    (void)state;
    for (int s = 0; s < 2; s++) {
        fixture f = fixture_make(11, 7, 3, CASE_RELU, dtypes[s], 3);
        f.labels[5] = -1;
        fixture_evaluate(&f);
        size_t size = ole_dtype_size(f.dtype);
        char *x = spread_out(&f, f.features, 12, 0xff); /* NaN between the rows: never read */
        char *before = spread_out(&f, f.features, 12, 0xff);
        char *g = spread_out(&f, NULL, 9, 0x5a), *want = spread_out(&f, f.raw, 9, 0x5a);
        ole_loss_plan *plan = fixture_plan(&f, f.rows);
        ole_loss_batch batch = fixture_batch(&f);
        batch.features = x;
        batch.stride = 12;
        ole_loss_gradient gradient = {.data = g, .stride = 9, .upstream = 1.0};
        ole_loss_result result = {0};
        evaluate(plan, &batch, &gradient, &result);
        assert_same_result(&result, &f.result);
        assert_memory_equal(g, want, (size_t)(f.rows * 9) * size);
        assert_memory_equal(x, before, (size_t)(f.rows * 12) * size);
        ole_loss_plan_destroy(plan);
        free(x);
        free(before);
        free(g);
        free(want);
        fixture_free(&f);
    }
}

static void narrow_labels(void **state) {
    (void)state;
    fixture f = fixture_make(14, 9, 4, CASE_NORMAL, OLE_F32, 4);
    int32_t labels[14];
    for (int64_t i = 0; i < f.rows; i++) {
        if (f.labels[i] == 3) f.labels[i] = INT32_MAX;
        if (i == 6) f.labels[i] = INT32_MIN;
        labels[i] = (int32_t)f.labels[i];
    }
    fixture_evaluate(&f);
    float *gradient = calloc((size_t)f.count, sizeof *gradient);
    ole_loss_plan *plan = fixture_plan(&f, f.rows);
    ole_loss_batch batch = fixture_batch(&f);
    batch.labels = labels;
    batch.label_type = OLE_I32;
    ole_loss_gradient out = {.data = gradient, .upstream = 1.0};
    ole_loss_result result = {0};
    evaluate(plan, &batch, &out, &result);
    assert_same_result(&result, &f.result);
    assert_memory_equal(gradient, f.raw, gradient_bytes(&f));
    ole_loss_plan_destroy(plan);
    free(gradient);
    fixture_free(&f);
}

/* Without a gradient: the same bits; and features and labels are as they were. */
static void value_alone(void **state) {
    (void)state;
    static const int64_t shapes[][3] = {{20, 30, 4}, {30, 20, 4}, {150, 10, 2}, {9, 9, 1}};
    for (int s = 0; s < 8; s++) {
        const int64_t *shape = shapes[s / 2];
        fixture f = fixture_make(shape[0], shape[1], shape[2], CASE_NEARLY_LOW, dtypes[s % 2], 5);
        fixture_evaluate(&f);
        fixture before = fixture_copy(&f);
        fixture_load(&before);
        ole_loss_plan *plan = fixture_plan(&f, f.rows);
        ole_loss_batch batch = fixture_batch(&f);
        ole_loss_result result = {0};
        evaluate(plan, &batch, NULL, &result);
        assert_same_result(&result, &f.result);
        assert_memory_equal(f.features, before.features, gradient_bytes(&f));
        assert_memory_equal(f.labels, before.labels, (size_t)f.rows * sizeof *f.labels);
        ole_loss_plan_destroy(plan);
        fixture_free(&f);
        fixture_free(&before);
    }
}

/* The entry of one class against the reference on its rows. */
static void check_class(const fixture *f, int64_t c) {
    const ole_loss_class *class = &f->class[c];
    double *rows = calloc((size_t)f->count, sizeof *rows), norm = 0.0;
    double *sigma = calloc((size_t)f->rows, sizeof *sigma);
    int64_t count = 0, rank = 0;
    for (int64_t i = 0; i < f->rows; i++)
        if (f->labels[i] == class->label)
            memcpy(rows + count++ * f->dim, f->x + i * f->dim, (size_t)f->dim * sizeof *rows);
    assert_true(count > 0);
    assert_int_equal(class->count, count);
    reference_svd(rows, count, f->dim, NULL, sigma, NULL);
    for (int64_t i = 0; i < count && i < f->dim; i++) {
        norm += sigma[i];
        rank += sigma[i] > 1e-3;
    }
    assert_int_equal(class->rank, rank);
    assert_true(fabs(class->norm - norm) <= (f->dtype == OLE_F32 ? 1e-6 : 1e-12) * norm);
    free(rows);
    free(sigma);
}

static void per_class(void **state) {
    (void)state;
    for (int s = 0; s < 2; s++) {
        fixture f = fixture_make(26, 12, 5, CASE_LOW_RANK, dtypes[s], 6);
        for (int64_t i = 0; i < f.rows; i++)
            f.labels[i] = (f.labels[i] * 1000003) % 17; /* another order of names */
        f.labels[3] = -1;
        fixture_evaluate(&f);
        assert_int_equal(f.result.classes, 5);
        double term = 0.0;
        for (int64_t c = 0; c < 5; c++) {
            if (c) assert_true(f.class[c - 1].label < f.class[c].label);
            check_class(&f, c);
            term += fmax(1.0, f.class[c].norm);
        }
        assert_true(fabs(term - f.result.class_term) <= 1e-14 * term);
        fixture_free(&f);
    }
}

/* A plan for 60 rows, used with all kinds of batches, gives the bits of a plan made for each. */
static void plan_used_again(void **state) {
    (void)state;
    static const int64_t batches[][2] = {{60, 5}, {3, 1}, {60, 60}, {25, 2}, {1, 1}, {40, 7}};
    for (int s = 0; s < 4; s++) {
        int64_t dim = s / 2 ? 25 : 80;
        fixture most = fixture_make(60, dim, 1, CASE_ZERO, dtypes[s % 2], 1);
        ole_loss_plan *plan = fixture_plan(&most, most.rows);
        for (int turn = 0; turn < 12; turn++) {
            const int64_t *b = batches[turn % 6];
            case_structure structure = (case_structure)(turn % CASE_STRUCTURES);
            fixture f = fixture_make(b[0], dim, b[1], structure, dtypes[s % 2], 7);
            fixture again = fixture_copy(&f);
            fixture_evaluate(&f);
            fixture_evaluate_with(&again, plan);
            assert_same_result(&again.result, &f.result);
            assert_memory_equal(again.raw, f.raw, gradient_bytes(&f));
            fixture_free(&f);
            fixture_free(&again);
        }
        ole_loss_plan_destroy(plan);
        fixture_free(&most);
    }
}

static void weight_and_reduction(void **state) {
    (void)state;
    fixture f = fixture_make(16, 10, 4, CASE_NORMAL, OLE_F64, 8), g = fixture_copy(&f);
    fixture_evaluate(&f);
    g.options.weight = 0.125;
    g.options.reduction = OLE_REDUCTION_SUM;
    g.upstream = 2.0;
    fixture_evaluate(&g);
    double terms = f.result.class_term - f.result.global_norm;
    assert_true(f.result.value == terms / 16.0);
    assert_true(g.result.value == terms * 0.125);
    for (int64_t i = 0; i < f.count; i++) /* 0.125 * 2 is 4/16: powers of two, exact */
        assert_true(g.gradient[i] == 4.0 * f.gradient[i]);
    fixture_free(&f);
    fixture_free(&g);
}

static void size_of_a_plan(void **state) {
    (void)state;
    fixture f = fixture_make(8, 16, 2, CASE_ZERO, OLE_F32, 1);
    ole_loss_plan *small = fixture_plan(&f, 8), *large = fixture_plan(&f, 800);
    assert_true(ole_loss_plan_bytes(small) >= 8 * 16 * sizeof(float));
    assert_true(ole_loss_plan_bytes(large) > ole_loss_plan_bytes(small));
    ole_loss_plan_destroy(small);
    ole_loss_plan_destroy(large);
    ole_loss_plan_destroy(NULL);
    fixture_free(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ignored_rows),    cmocka_unit_test(accumulate),
        cmocka_unit_test(strides),         cmocka_unit_test(narrow_labels),
        cmocka_unit_test(value_alone),     cmocka_unit_test(per_class),
        cmocka_unit_test(plan_used_again), cmocka_unit_test(weight_and_reduction),
        cmocka_unit_test(size_of_a_plan),
    };
    return cmocka_run_group_tests_name("loss_calls", tests, NULL, NULL);
}
