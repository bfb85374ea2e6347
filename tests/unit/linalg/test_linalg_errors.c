/*
 * tests/unit/linalg/test_linalg_errors.c - the public matrix functions called wrongly, or with
 * values that they cannot take: status, a message that names the argument, outputs as they were.
 */
#include "ole/linalg.h"
#include "test.h"

#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

enum { ROWS = 3, COLS = 4, SIDE = 3 };

/* All four functions and what they fill. */
typedef struct outputs {
    double sigma[SIDE], norm;
    double u[ROWS * SIDE], vt[SIDE * COLS], polar[ROWS * COLS];
    int64_t rank;
} outputs;

enum { VALUES, NORM, SVD, POLAR, FUNCTIONS };

static ole_matrix view(double *data, int64_t rows, int64_t cols) {
    return (ole_matrix){.data = data, .rows = rows, .cols = cols, .dtype = OLE_F64};
}

static ole_status call(int function, const ole_matrix *a, int threads, outputs *out,
                       ole_error *error) {
    ole_matrix u = view(out->u, ROWS, SIDE), vt = view(out->vt, SIDE, COLS);
    ole_matrix polar = view(out->polar, ROWS, COLS);
    if (a && a->dtype == OLE_F32) u.dtype = vt.dtype = polar.dtype = OLE_F32;
    switch (function) {
    case VALUES:
        return ole_singular_values(a, threads, out->sigma, error);
    case NORM:
        return ole_nuclear_norm(a, threads, &out->norm, error);
    case SVD:
        return ole_svd(a, &u, out->sigma, &vt, error);
    default:
        return ole_polar(a, 0.0, 0.0, threads, &polar, &out->rank, error);
    }
}

/* A call that must fail, with and without an error to fill. */
static void refuse(int function, const ole_matrix *a, int threads, ole_status want,
                   const char *named) {
    outputs out, before;
    memset(&out, 0x5a, sizeof out);
    before = out;
    ole_error error = {0};
    assert_int_equal(call(function, a, threads, &out, &error), want);
    assert_int_equal(error.status, want);
    if (!strstr(error.message, named)) fail_msg("\"%s\" does not name %s", error.message, named);
    assert_int_equal(call(function, a, threads, &out, NULL), want);
    assert_memory_equal(&out, &before, sizeof out);
}

static void refuse_all(const ole_matrix *a, ole_status want, const char *named) {
    for (int function = 0; function < FUNCTIONS; function++)
        refuse(function, a, 1, want, named);
}

static void bad_matrices(void **state) {
    (void)state;
    double data[ROWS * COLS] = {1, 2, 3, 4};
    ole_matrix good = view(data, ROWS, COLS), a = good;
    refuse_all(NULL, OLE_ERROR_ARGUMENT, "a is NULL");
    a.data = NULL;
    refuse_all(&a, OLE_ERROR_ARGUMENT, "a is NULL");
    static const int64_t sides[][2] = {{0, 4}, {3, 0}, {-1, 4}, {3, -4}, {INT64_MAX, 1}};
    for (size_t i = 0; i < sizeof sides / sizeof *sides; i++) {
        a = good;
        a.rows = sides[i][0];
        a.cols = sides[i][1];
        refuse_all(&a, OLE_ERROR_ARGUMENT, "a is ");
    }
    a = good;
    a.stride = COLS - 1;
    refuse_all(&a, OLE_ERROR_ARGUMENT, "a.stride");
    a = good;
    a.dtype = OLE_F16;
    refuse_all(&a, OLE_ERROR_ARGUMENT, "float16");
}

static void bad_threads(void **state) {
    (void)state;
    double data[ROWS * COLS] = {1, 2, 3, 4};
    ole_matrix a = view(data, ROWS, COLS);
    static const int threads[] = {0, -5, 1025};
    for (int i = 0; i < 3; i++) {
        refuse(VALUES, &a, threads[i], OLE_ERROR_ARGUMENT, "threads");
        refuse(NORM, &a, threads[i], OLE_ERROR_ARGUMENT, "threads");
        refuse(POLAR, &a, threads[i], OLE_ERROR_ARGUMENT, "threads");
    }
}

static void not_finite(void **state) {
    (void)state;
    static const double bad[] = {NAN, HUGE_VAL, -HUGE_VAL};
    for (int i = 0; i < 3; i++)
        for (int64_t row = 0; row < ROWS; row++) {
            char named[20];
            snprintf(named, sizeof named, "row %d", (int)row);
            double wide[ROWS * COLS] = {0};
            float narrow[ROWS * COLS] = {0};
            wide[row * COLS + 3] = narrow[row * COLS + 3] = (float)bad[i];
            ole_matrix a = view(wide, ROWS, COLS);
            refuse_all(&a, OLE_ERROR_DATA, named);
            a.data = narrow;
            a.dtype = OLE_F32;
            refuse_all(&a, OLE_ERROR_DATA, named);
        }
}

/* Elements that fit while their singular values do not. */
static void overflow(void **state) {
    (void)state;
    double data[ROWS * COLS];
    for (int i = 0; i < ROWS * COLS; i++)
        data[i] = DBL_MAX;
    ole_matrix a = view(data, ROWS, COLS);
    refuse_all(&a, OLE_ERROR_NUMERIC, "overflow");
    for (int i = 0; i < ROWS * COLS; i++) /* each fits, their sum does not */
        data[i] = i % (COLS + 1) == 0 ? DBL_MAX / 1.5 : 0.0;
    refuse(NORM, &a, 1, OLE_ERROR_NUMERIC, "overflow");
    outputs out;
    assert_int_equal(call(VALUES, &a, 1, &out, NULL), OLE_OK);
    assert_true(isfinite(out.sigma[0]));
}

static void bad_outputs(void **state) {
    (void)state;
    double data[ROWS * COLS] = {1, 2, 3, 4}, sigma[SIDE], norm = 0.0, place[ROWS * COLS];
    ole_matrix a = view(data, ROWS, COLS), right = view(place, ROWS, SIDE), wrong = right;
    ole_error error;
    assert_int_equal(ole_singular_values(&a, 1, NULL, &error), OLE_ERROR_ARGUMENT);
    assert_non_null(strstr(error.message, "sigma"));
    assert_int_equal(ole_nuclear_norm(&a, 1, NULL, &error), OLE_ERROR_ARGUMENT);
    assert_non_null(strstr(error.message, "norm"));
    assert_int_equal(ole_svd(&a, &right, NULL, NULL, &error), OLE_ERROR_ARGUMENT);
    assert_non_null(strstr(error.message, "sigma"));
    assert_int_equal(ole_svd(&a, NULL, sigma, &right, &error), OLE_ERROR_ARGUMENT);
    assert_non_null(strstr(error.message, "vt is 3 x 3"));
    wrong.dtype = OLE_F32;
    assert_int_equal(ole_svd(&a, &wrong, sigma, NULL, &error), OLE_ERROR_ARGUMENT);
    assert_non_null(strstr(error.message, "u is"));
    assert_int_equal(ole_polar(&a, 0.0, 0.0, 1, NULL, NULL, &error), OLE_ERROR_ARGUMENT);
    assert_non_null(strstr(error.message, "polar"));
    assert_int_equal(ole_polar(&a, 0.0, 0.0, 1, &right, NULL, &error), OLE_ERROR_ARGUMENT);
    assert_non_null(strstr(error.message, "polar is 3 x 3"));
    assert_true(norm == 0.0);
}

static void bad_deltas(void **state) {
    (void)state;
    double data[ROWS * COLS] = {1, 2, 3, 4}, place[ROWS * COLS];
    ole_matrix a = view(data, ROWS, COLS), polar = view(place, ROWS, COLS);
    static const double bad[] = {NAN, -0.5, -HUGE_VAL};
    for (int i = 0; i < 3; i++) {
        ole_error error;
        assert_int_equal(ole_polar(&a, bad[i], 0.0, 1, &polar, NULL, &error), OLE_ERROR_ARGUMENT);
        assert_non_null(strstr(error.message, "delta_abs"));
        assert_int_equal(ole_polar(&a, 0.0, bad[i], 1, &polar, NULL, &error), OLE_ERROR_ARGUMENT);
        assert_non_null(strstr(error.message, "delta_rel"));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_matrices), cmocka_unit_test(bad_threads), cmocka_unit_test(not_finite),
        cmocka_unit_test(overflow),     cmocka_unit_test(bad_outputs), cmocka_unit_test(bad_deltas),
    };
    return cmocka_run_group_tests_name("linalg_errors", tests, NULL, NULL);
}
