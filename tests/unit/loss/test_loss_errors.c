/*
 * tests/unit/loss/test_loss_errors.c - every way to call the loss wrongly: the status, a message
 * that names what was wrong, and outputs left as they were.
 */
#include "fixture.h"
#include "test.h"

#include <float.h>
#include <stdlib.h>
#include <string.h>

static const ole_dtype dtypes[] = {OLE_F32, OLE_F64};

static void assert_error(ole_status got, ole_status want, const ole_error *error,
                         const char *named) {
    if (got != want)
        fail_msg("%s: status %s, not %s", named, ole_status_name(got), ole_status_name(want));
    assert_int_equal(error->status, want);
    if (!strstr(error->message, named)) fail_msg("\"%s\" does not name %s", error->message, named);
}

/* ---- planning ------------------------------------------------------------------------------- */

/* Tries to plan, with and without an error to fill. */
static void refuse_plan(int64_t max_rows, int64_t dim, ole_dtype dtype,
                        const ole_loss_options *options, ole_status want, const char *named) {
    ole_error error = {0};
    char dummy;
    ole_loss_plan *plan = (ole_loss_plan *)(void *)&dummy;
    ole_status got = ole_loss_plan_create(&plan, max_rows, dim, dtype, options, &error);
    assert_null(plan);
    assert_error(got, want, &error, named);
    assert_int_equal(ole_loss_plan_create(&plan, max_rows, dim, dtype, options, NULL), want);
}

static void bad_shapes(void **state) {
    (void)state;
    refuse_plan(0, 4, OLE_F32, NULL, OLE_ERROR_ARGUMENT, "max_rows");
    refuse_plan(-1, 4, OLE_F32, NULL, OLE_ERROR_ARGUMENT, "max_rows");
    refuse_plan(INT64_MAX, 4, OLE_F32, NULL, OLE_ERROR_ARGUMENT, "max_rows");
    refuse_plan(4, 0, OLE_F64, NULL, OLE_ERROR_ARGUMENT, "dim");
    refuse_plan(4, -3, OLE_F64, NULL, OLE_ERROR_ARGUMENT, "dim");
    refuse_plan(4, INT64_MAX, OLE_F64, NULL, OLE_ERROR_ARGUMENT, "dim");
    refuse_plan(4, 4, OLE_F16, NULL, OLE_ERROR_ARGUMENT, "float16");
    refuse_plan(4, 4, OLE_I32, NULL, OLE_ERROR_ARGUMENT, "dtype");
    refuse_plan(4, 4, (ole_dtype)0, NULL, OLE_ERROR_ARGUMENT, "dtype");
    refuse_plan(4, 4, (ole_dtype)99, NULL, OLE_ERROR_ARGUMENT, "dtype");
    ole_error error;
    assert_error(ole_loss_plan_create(NULL, 4, 4, OLE_F32, NULL, &error), OLE_ERROR_ARGUMENT,
                 &error, "plan");
}

/* Sanitizers end the process on an allocation this large instead of refusing it. */
static void too_large_for_memory(void **state) {
    (void)state;
    if (SANITIZED) skip();
    for (int s = 0; s < 2; s++)
        refuse_plan(1 << 30, 1 << 30, dtypes[s], NULL, OLE_ERROR_MEMORY, "memory");
}

/* One option set to `value`, which the plan must refuse. */
static void refuse_option(size_t offset, double value, const char *named) {
    ole_loss_options options;
    ole_loss_options_init(&options);
    memcpy((char *)&options + offset, &value, sizeof value);
    refuse_plan(4, 4, OLE_F32, &options, OLE_ERROR_ARGUMENT, named);
}

static void bad_numbers_in_options(void **state) {
    (void)state;
    static const double bad[] = {NAN, HUGE_VAL, -HUGE_VAL, -0.5};
    for (int i = 0; i < 4; i++) {
        if (i < 3) refuse_option(offsetof(ole_loss_options, weight), bad[i], "options.weight");
        refuse_option(offsetof(ole_loss_options, delta_floor), bad[i], "options.delta_floor");
        refuse_option(offsetof(ole_loss_options, delta_abs), bad[i], "options.delta_abs");
        refuse_option(offsetof(ole_loss_options, delta_rel), bad[i], "options.delta_rel");
    }
}

static void other_bad_options(void **state) {
    (void)state;
    ole_loss_options options;
    static const int threads[] = {0, -1, 1025};
    for (int i = 0; i < 3; i++) {
        ole_loss_options_init(&options);
        options.threads = threads[i];
        refuse_plan(4, 4, OLE_F32, &options, OLE_ERROR_ARGUMENT, "options.threads");
    }
    struct {
        ole_loss_options options;
        double unknown;
    } newer = {.unknown = 1.0};
    static const size_t sizes[] = {0, sizeof options - 8, sizeof options + 1, sizeof newer};
    for (int i = 0; i < 4; i++) {
        ole_loss_options_init(&newer.options);
        newer.options.struct_size = sizes[i];
        refuse_plan(4, 4, OLE_F32, &newer.options, OLE_ERROR_ARGUMENT, "options.struct_size");
    }
    ole_loss_options_init(&options);
    options.reduction = (ole_reduction)2;
    refuse_plan(4, 4, OLE_F32, &options, OLE_ERROR_ARGUMENT, "options.reduction");
    ole_loss_options_init(&options);
    options.device = (ole_device)7;
    refuse_plan(4, 4, OLE_F32, &options, OLE_ERROR_ARGUMENT, "options.device");
}

/* ---- evaluating ----------------------------------------------------------------------------- */

/* A good call, to be spoiled in one place. */
typedef struct call {
    fixture f;
    ole_loss_plan *plan;
    ole_loss_batch batch;
    ole_loss_gradient gradient;
    ole_loss_result result;
} call;

static call make_call(ole_dtype dtype) {
    call c = {.f = fixture_make(6, 4, 2, CASE_NORMAL, dtype, 1)};
    c.plan = fixture_plan(&c.f, 6);
    c.batch = fixture_batch(&c.f);
    c.gradient = fixture_destination(&c.f);
    return c;
}

static void end_call(call *c) {
    ole_loss_plan_destroy(c->plan);
    fixture_free(&c->f);
}

/* Evaluates: the error is as wanted, and gradient, result and per_class are as they were. */
static void refuse_eval(call *c, ole_loss_plan *plan, const ole_loss_batch *batch, ole_status want,
                        const char *named) {
    size_t bytes = (size_t)c->f.count * sizeof(double);
    size_t class_bytes = (size_t)c->f.rows * sizeof *c->f.class;
    memset(c->f.raw, 0x5a, bytes);
    memset(c->f.class, 0x5a, class_bytes);
    c->result.value = c->result.class_term = c->result.global_norm = 42.0;
    c->result.rows = c->result.classes = c->result.rank = 43;
    ole_loss_result before = c->result;
    ole_error error = {0};
    ole_status got = ole_loss_eval(plan, batch, &c->gradient, &c->result, &error);
    assert_error(got, want, &error, named);
    assert_int_equal(ole_loss_eval(plan, batch, &c->gradient, &c->result, NULL), want);
    assert_memory_equal(&before, &c->result, sizeof before);
    for (size_t i = 0; i < bytes; i++)
        assert_int_equal(((unsigned char *)c->f.raw)[i], 0x5a);
    for (size_t i = 0; i < class_bytes; i++)
        assert_int_equal(((unsigned char *)c->f.class)[i], 0x5a);
}

static void bad_pointers(void **state) {
    (void)state;
    call c = make_call(OLE_F32);
    refuse_eval(&c, NULL, &c.batch, OLE_ERROR_ARGUMENT, "plan");
    refuse_eval(&c, c.plan, NULL, OLE_ERROR_ARGUMENT, "batch");
    ole_loss_batch batch = c.batch;
    batch.features = NULL;
    refuse_eval(&c, c.plan, &batch, OLE_ERROR_ARGUMENT, "batch.features");
    batch = c.batch;
    batch.labels = NULL;
    refuse_eval(&c, c.plan, &batch, OLE_ERROR_ARGUMENT, "batch.labels");
    c.gradient.data = NULL;
    refuse_eval(&c, c.plan, &c.batch, OLE_ERROR_ARGUMENT, "gradient.data");
    ole_error error;
    assert_error(ole_loss_eval(c.plan, &c.batch, NULL, NULL, &error), OLE_ERROR_ARGUMENT, &error,
                 "result");
    assert_int_equal(ole_loss_eval(c.plan, &c.batch, NULL, NULL, NULL), OLE_ERROR_ARGUMENT);
    end_call(&c);
}

static void bad_sizes(void **state) {
    (void)state;
    call c = make_call(OLE_F64);
    static const int64_t rows[] = {0, -1, 7, INT64_MIN, INT64_MAX};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ole_loss_batch batch = c.batch;
        batch.rows = rows[i];
        refuse_eval(&c, c.plan, &batch, OLE_ERROR_ARGUMENT, "batch.rows");
    }
    static const int64_t strides[] = {3, -4, INT64_MIN};
    for (size_t i = 0; i < sizeof strides / sizeof *strides; i++) {
        ole_loss_batch batch = c.batch;
        batch.stride = strides[i];
        refuse_eval(&c, c.plan, &batch, OLE_ERROR_ARGUMENT, "batch.stride");
        c.gradient.stride = strides[i];
        refuse_eval(&c, c.plan, &c.batch, OLE_ERROR_ARGUMENT, "gradient.stride");
        c.gradient.stride = 0;
    }
    end_call(&c);
}

static void bad_labels(void **state) {
    (void)state;
    call c = make_call(OLE_F32);
    static const ole_dtype types[] = {OLE_U8, OLE_F32, OLE_U64, (ole_dtype)0, (ole_dtype)-1};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        ole_loss_batch batch = c.batch;
        batch.label_type = types[i];
        refuse_eval(&c, c.plan, &batch, OLE_ERROR_ARGUMENT, "batch.label_type");
    }
    for (int64_t i = 0; i < c.f.rows; i++)
        c.f.labels[i] = -1 - i;
    refuse_eval(&c, c.plan, &c.batch, OLE_ERROR_ARGUMENT, "batch.labels");
    end_call(&c);
}

static void bad_upstream(void **state) {
    (void)state;
    call c = make_call(OLE_F32);
    static const double bad[] = {NAN, HUGE_VAL, -HUGE_VAL};
    for (int i = 0; i < 3; i++) {
        c.gradient.upstream = bad[i];
        refuse_eval(&c, c.plan, &c.batch, OLE_ERROR_ARGUMENT, "gradient.upstream");
    }
    end_call(&c);
}

static void too_little_room_for_classes(void **state) {
    (void)state;
    call c = make_call(OLE_F32);
    c.result.per_class = c.f.class;
    for (int64_t capacity = -1; capacity < 2; capacity++) {
        c.result.per_class_capacity = capacity;
        refuse_eval(&c, c.plan, &c.batch, OLE_ERROR_ARGUMENT, "result.per_class_capacity");
    }
    c.result.per_class_capacity = 2;
    assert_int_equal(ole_loss_eval(c.plan, &c.batch, NULL, &c.result, NULL), OLE_OK);
    end_call(&c);
}

/* ---- values --------------------------------------------------------------------------------- */

/* Puts a value into row i, column j of the features; fixture_load() would round it first. */
static void poison(fixture *f, int64_t i, int64_t j, double value) {
    if (f->dtype == OLE_F32)
        ((float *)f->features)[i * f->dim + j] = (float)value;
    else
        ((double *)f->features)[i * f->dim + j] = value;
}

static void not_finite(void **state) {
    (void)state;
    static const double bad[] = {NAN, HUGE_VAL, -HUGE_VAL};
    for (int s = 0; s < 6; s++)
        for (int64_t row = 0; row < 6; row++) {
            call c = make_call(dtypes[s % 2]);
            for (int64_t i = 0; i < 6; i++)
                c.f.labels[i] = (5 - i) / 2; /* class order is not input order */
            for (int64_t i = row; i < 6; i += 2)
                poison(&c.f, i, (row + i) % 4, bad[s / 2]);
            char named[20];
            snprintf(named, sizeof named, "row %d ", (int)row);
            refuse_eval(&c, c.plan, &c.batch, OLE_ERROR_DATA, named);
            end_call(&c);
        }
}

/* The last element of a row longer than any vector, and NaN where nobody looks. */
static void not_finite_at_the_edges(void **state) {
    (void)state;
    for (int s = 0; s < 2; s++) {
        call c = {.f = fixture_make(3, 37, 1, CASE_NORMAL, dtypes[s], 1)};
        c.plan = fixture_plan(&c.f, 3);
        c.batch = fixture_batch(&c.f);
        c.gradient = fixture_destination(&c.f);
        poison(&c.f, 2, 36, NAN);
        refuse_eval(&c, c.plan, &c.batch, OLE_ERROR_DATA, "row 2 ");
        c.f.labels[2] = -1;
        assert_int_equal(ole_loss_eval(c.plan, &c.batch, &c.gradient, &c.result, NULL), OLE_OK);
        assert_true(isfinite(c.result.value));
        end_call(&c);
    }
}

static void all_finite(const fixture *f) {
    assert_true(isfinite(f->result.value));
    assert_true(isfinite(f->result.class_term) && isfinite(f->result.global_norm));
    for (int64_t i = 0; i < f->count; i++)
        assert_true(isfinite(f->gradient[i]));
}

/* The largest float32 features are no problem; float64 either fits or says that it does not. */
static void near_overflow(void **state) {
    (void)state;
    fixture f = fixture_make(9, 5, 3, CASE_RELU, OLE_F32, 1);
    for (int64_t i = 0; i < f.count; i++)
        f.x[i] = i % 3 ? (double)FLT_MAX : -(double)FLT_MAX;
    fixture_evaluate(&f);
    all_finite(&f);
    fixture_free(&f);
    static const double sizes[] = {1e300, 1e307, 1e308, DBL_MAX};
    for (int s = 0; s < 4; s++) {
        call c = {.f = fixture_make(9, 5, 3, CASE_ZERO, OLE_F64, 1)};
        for (int64_t i = 0; i < c.f.count; i++)
            c.f.x[i] = i % 3 ? sizes[s] : -sizes[s];
        fixture_load(&c.f);
        c.plan = fixture_plan(&c.f, 9);
        c.batch = fixture_batch(&c.f);
        c.gradient = fixture_destination(&c.f);
        if (s < 2) {
            fixture_evaluate(&c.f);
            all_finite(&c.f);
        } else {
            refuse_eval(&c, c.plan, &c.batch, OLE_ERROR_NUMERIC, "overflow");
        }
        end_call(&c);
    }
}

/* weight and upstream that a float cannot hold: an error, not Inf in the gradient. */
static void gradient_overflow(void **state) {
    (void)state;
    static const double weights[] = {1e39, 1e300};
    for (int s = 0; s < 2; s++) {
        call c = make_call(dtypes[s]);
        ole_loss_plan_destroy(c.plan);
        c.f.options.weight = weights[s];
        c.plan = fixture_plan(&c.f, 6);
        c.gradient.upstream = s ? 1e10 : 1.0;
        refuse_eval(&c, c.plan, &c.batch, OLE_ERROR_NUMERIC, "gradient");
        end_call(&c);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_shapes),
        cmocka_unit_test(too_large_for_memory),
        cmocka_unit_test(bad_numbers_in_options),
        cmocka_unit_test(other_bad_options),
        cmocka_unit_test(bad_pointers),
        cmocka_unit_test(bad_sizes),
        cmocka_unit_test(bad_labels),
        cmocka_unit_test(bad_upstream),
        cmocka_unit_test(too_little_room_for_classes),
        cmocka_unit_test(not_finite),
        cmocka_unit_test(not_finite_at_the_edges),
        cmocka_unit_test(near_overflow),
        cmocka_unit_test(gradient_overflow),
    };
    return cmocka_run_group_tests_name("loss_errors", tests, NULL, NULL);
}
