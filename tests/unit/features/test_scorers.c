/*
 * tests/unit/features/test_scorers.c - novelty scores where formulas end (one sample per class,
 * constant features, more dimensions than rows, two equal classes), and mistakes of the caller.
 * tests/python/test_scorers.py compares the numbers with NumPy.
 */
#include "ole/novelty.h"

#include "failing_memory.h"
#include "random.h"
#include "test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { DIM = 6, CLASSES = 3, ROWS = 30, QUERIES = 20 };

typedef struct data {
    float x[ROWS * DIM], q[QUERIES * DIM], w[CLASSES * DIM], b[CLASSES];
    int64_t labels[ROWS];
    ole_embedding known;
    ole_linear_classifier classifier;
} data;

static void make(data *d) {
    test_random r = {3};
    for (int i = 0; i < CLASSES * DIM; i++)
        d->w[i] = (float)random_normal(&r);
    for (int i = 0; i < CLASSES; i++)
        d->b[i] = (float)random_normal(&r);
    for (int i = 0; i < ROWS; i++) {
        d->labels[i] = i % CLASSES;
        for (int k = 0; k < DIM; k++)
            d->x[i * DIM + k] = (float)(2 * d->w[i % CLASSES * DIM + k] + random_normal(&r));
    }
    for (int i = 0; i < QUERIES * DIM; i++)
        d->q[i] = (float)random_normal(&r);
    d->known = (ole_embedding){ROWS, DIM, OLE_F32, d->x, d->labels};
    d->classifier = (ole_linear_classifier){CLASSES, DIM, d->w, d->b};
}

static ole_scorer *fit(ole_score score, const data *d) {
    ole_scorer *s;
    ole_error error;
    assert_ok(ole_scorer_fit(&s, score, &d->known, &d->classifier, NULL, &error), &error);
    return s;
}

/* Every score of the data is a finite number, for the queries, for zeros and for the known rows. */
static void check_finite(const data *d) {
    const float zeros[DIM] = {0};
    for (int i = 1; i <= OLE_SCORES; i++) {
        ole_scorer *s = fit((ole_score)i, d);
        double scores[ROWS];
        ole_error error;
        const struct {
            const float *rows;
            int64_t count;
        } parts[] = {{d->q, QUERIES}, {zeros, 1}, {d->x, d->known.rows}};
        for (size_t p = 0; p < sizeof parts / sizeof *parts; p++) {
            assert_ok(ole_scorer_run(s, parts[p].rows, NULL, parts[p].count, scores, 1, &error),
                      &error);
            for (int64_t k = 0; k < parts[p].count; k++)
                if (!isfinite(scores[k]))
                    fail_msg("%s: row %d of part %d has the score %g", ole_score_name((ole_score)i),
                             (int)k, (int)p, scores[k]);
        }
        ole_scorer_free(s);
    }
}

static void test_degenerate(void **state) {
    (void)state;
    data d;
    make(&d);
    d.known.rows = CLASSES; /* one sample per class, more dimensions than rows */
    check_finite(&d);
    d.known.rows = 1; /* one class */
    check_finite(&d);
    make(&d);
    for (int i = 0; i < ROWS; i++) { /* constant features, and duplicates */
        d.x[i * DIM] = 7.0f;
        memcpy(d.x + i * DIM + 1, d.x + i % CLASSES * DIM + 1, (DIM - 1) * sizeof *d.x);
    }
    check_finite(&d);
    memcpy(d.w + DIM, d.w, DIM * sizeof *d.w); /* two classes with equal weights */
    check_finite(&d);
    for (int i = 0; i < ROWS * DIM; i++) /* one point */
        d.x[i] = 1.0f;
    check_finite(&d);
    memset(d.x, 0, sizeof d.x);
    memset(d.w, 0, sizeof d.w);
    check_finite(&d);
    make(&d);
    for (int i = 0; i < ROWS * DIM; i++) /* huge and tiny */
        d.x[i] *= i % 2 ? 1e30f : 1e-30f;
    check_finite(&d);
}

/* One sample per class: no covariance, so the distances are Euclidean. */
static void test_euclidean(void **state) {
    (void)state;
    data d;
    make(&d);
    d.known.rows = CLASSES;
    ole_scorer *s = fit(OLE_SCORE_MAHALANOBIS, &d);
    double scores[QUERIES], ratio = 0.0;
    assert_ok(ole_scorer_run(s, d.q, NULL, QUERIES, scores, 1, NULL), NULL);
    for (int i = 0; i < QUERIES; i++) {
        double least = INFINITY;
        for (int c = 0; c < CLASSES; c++) {
            double square = 0.0;
            for (int k = 0; k < DIM; k++)
                square += pow((double)d.q[i * DIM + k] - d.x[c * DIM + k], 2.0);
            least = fmin(least, square);
        }
        if (i == 0) ratio = -scores[0] / least;
        assert_true(fabs(scores[i] + ratio * least) < 1e-9 * ratio * least);
    }
    ole_scorer_free(s);
}

/* A score of directions is the same for a row of any length, even at the ends of float's range. */
static void test_scaled(void **state) {
    (void)state;
    static const ole_score kinds[] = {OLE_SCORE_RESIDUAL, OLE_SCORE_COSINE};
    static const float factors[] = {0x1p-100f, 0x1p-60f, 0x1p60f, 0x1p120f};
    data d;
    make(&d);
    for (int k = 0; k < 2; k++) {
        ole_scorer *s = fit(kinds[k], &d);
        double want[QUERIES], got[QUERIES];
        assert_ok(ole_scorer_run(s, d.q, NULL, QUERIES, want, 1, NULL), NULL);
        for (int f = 0; f < 4; f++) {
            float scaled[QUERIES * DIM];
            for (int i = 0; i < QUERIES * DIM; i++)
                scaled[i] = d.q[i] * factors[f];
            assert_ok(ole_scorer_run(s, scaled, NULL, QUERIES, got, 1, NULL), NULL);
            assert_memory_equal(got, want, sizeof got);
        }
        ole_scorer_free(s);
    }
}

/* ---- Mistakes ----------------------------------------------------------------------------- */

static void expect(ole_status status, ole_status wanted, const ole_error *error,
                   const char *words) {
    assert_int_equal(status, wanted);
    if (!strstr(error->message, words)) fail_msg("\"%s\" lacks \"%s\"", error->message, words);
}

static void test_mistakes(void **state) {
    (void)state;
    data d;
    make(&d);
    ole_scorer *s = (ole_scorer *)&d;
    ole_error error;
    expect(ole_scorer_fit(&s, OLE_SCORE_ENERGY, &d.known, NULL, NULL, &error), OLE_ERROR_ARGUMENT,
           &error,
           "the score 'energy' needs a classifier, and there is none; these do not: residual, "
           "cosine, knn, mahalanobis, relative, neco");
    assert_null(s);
    expect(ole_scorer_fit(&s, OLE_SCORE_COSINE, NULL, &d.classifier, NULL, &error),
           OLE_ERROR_ARGUMENT, &error, "'cosine' is fitted on features of known samples");
    expect(ole_scorer_fit(&s, (ole_score)99, &d.known, NULL, NULL, &error), OLE_ERROR_ARGUMENT,
           &error, "99 is no ole_score");
    ole_linear_classifier c = {.classes = CLASSES, .dim = DIM};
    expect(ole_scorer_fit(&s, OLE_SCORE_VIM, &d.known, &c, NULL, &error), OLE_ERROR_ARGUMENT,
           &error, "'vim' needs the weights of the classifier");
    c = d.classifier;
    c.dim = DIM - 1;
    expect(ole_scorer_fit(&s, OLE_SCORE_NCI, &d.known, &c, NULL, &error), OLE_ERROR_ARGUMENT,
           &error, "the classifier takes 5 dimensions, the features have 6");
    d.w[DIM] = NAN;
    expect(ole_scorer_fit(&s, OLE_SCORE_NCI, &d.known, &d.classifier, NULL, &error), OLE_ERROR_DATA,
           &error, "weights of class 1 hold NaN or Inf");
    d.w[DIM] = 1.0f;
    d.x[2 * DIM] = INFINITY;
    expect(ole_scorer_fit(&s, OLE_SCORE_KNN, &d.known, NULL, NULL, &error), OLE_ERROR_DATA, &error,
           "row 2 holds NaN or Inf");
    d.x[2 * DIM] = 1.0f;
    ole_scorer_options o;
    ole_scorer_options_init(&o);
    o.neighbours = 0;
    expect(ole_scorer_fit(&s, OLE_SCORE_KNN, &d.known, NULL, &o, &error), OLE_ERROR_ARGUMENT,
           &error, "options.neighbours is 0; must be 1 or more");
    ole_scorer_options_init(&o);
    o.principal = DIM;
    expect(ole_scorer_fit(&s, OLE_SCORE_VIM, &d.known, &d.classifier, &o, &error),
           OLE_ERROR_ARGUMENT, &error, "fewer than the features' 6");
}

static void test_running_mistakes(void **state) {
    (void)state;
    data d;
    make(&d);
    ole_error error;
    double scores[QUERIES];
    for (int i = 1; i <= OLE_SCORES; i++) {
        ole_scorer *s = fit((ole_score)i, &d);
        d.q[3 * DIM + 1] = NAN;
        expect(ole_scorer_run(s, d.q, NULL, QUERIES, scores, 2, &error), OLE_ERROR_DATA, &error,
               "row 3 holds NaN or Inf");
        d.q[3 * DIM + 1] = 0.0f;
        expect(ole_scorer_run(s, NULL, NULL, QUERIES, scores, 1, &error), OLE_ERROR_ARGUMENT,
               &error, "needs features, which are NULL");
        expect(ole_scorer_run(s, d.q, NULL, QUERIES, scores, 0, &error), OLE_ERROR_ARGUMENT, &error,
               "threads is 0");
        assert_ok(ole_scorer_run(s, NULL, NULL, 0, NULL, 1, &error), &error);
        ole_scorer_free(s);
    }
    ole_scorer_free(NULL);
}

/* Without weights the logits are passed; a damaged state is an error. */
static void test_restored(void **state) {
    (void)state;
    data d;
    make(&d);
    ole_error error;
    const ole_linear_classifier logits = {.classes = 2};
    ole_scorer *s, *again;
    const float z[4] = {1, 2, -3, 5};
    double scores[2], same[2];
    assert_ok(ole_scorer_fit(&s, OLE_SCORE_GEN, NULL, &logits, NULL, &error), &error);
    expect(ole_scorer_run(s, d.q, NULL, 2, scores, 1, &error), OLE_ERROR_ARGUMENT, &error,
           "was fitted without the classifier's weights: pass logits");
    assert_ok(ole_scorer_run(s, NULL, z, 2, scores, 1, &error), &error);
    ole_scorer_tensor tensors[OLE_SCORER_TENSORS];
    int count = ole_scorer_save(s, tensors);
    assert_ok(ole_scorer_restore(&again, OLE_SCORE_GEN, tensors, count, &error), &error);
    assert_int_equal(ole_scorer_get_info(again).classes, 2);
    assert_ok(ole_scorer_run(again, NULL, z, 2, same, 1, &error), &error);
    assert_memory_equal(scores, same, sizeof same);
    ole_scorer_free(again);
    expect(ole_scorer_restore(&again, OLE_SCORE_GEN, tensors, count - 1, &error), OLE_ERROR_FORMAT,
           &error, "is missing");
    assert_null(again);
    ole_scorer_free(s);
    for (int i = 1; i <= OLE_SCORES; i++) { /* each tensor missing, of another shape, with NaN */
        s = fit((ole_score)i, &d);
        count = ole_scorer_save(s, tensors);
        for (int t = 0; t < count; t++) {
            ole_scorer_tensor damaged[OLE_SCORER_TENSORS];
            memcpy(damaged, tensors, sizeof damaged);
            damaged[t].name = "other";
            bool optional = !(ole_score_needs((ole_score)i) & ~OLE_NEEDS_LOGITS);
            if (!optional)
                assert_int_equal(ole_scorer_restore(&again, (ole_score)i, damaged, count, &error),
                                 OLE_ERROR_FORMAT);
            damaged[t] = tensors[t];
            damaged[t].ndim = 3 - damaged[t].ndim;
            damaged[t].shape[1] = 1;
            assert_int_equal(ole_scorer_restore(&again, (ole_score)i, damaged, count, &error),
                             OLE_ERROR_FORMAT);
        }
        ole_scorer_free(s);
    }
}

static void test_out_of_memory(void **state) {
    (void)state;
    if (!MEMORY_FAILS) skip();
    data d;
    make(&d);
    for (int i = 1; i <= OLE_SCORES; i++)
        for (int64_t n = 0;; n++) {
            ole_scorer *s = NULL;
            double scores[QUERIES];
            memory_fails_at(n, FAILS_ONCE);
            ole_status status =
                ole_scorer_fit(&s, (ole_score)i, &d.known, &d.classifier, NULL, NULL);
            if (status == OLE_OK) status = ole_scorer_run(s, d.q, NULL, QUERIES, scores, 1, NULL);
            bool failed = memory_has_failed();
            ole_scorer_free(s);
            if (!failed) break;
            assert_int_equal(status, OLE_ERROR_MEMORY);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_degenerate),       cmocka_unit_test(test_euclidean),
        cmocka_unit_test(test_scaled),           cmocka_unit_test(test_mistakes),
        cmocka_unit_test(test_running_mistakes), cmocka_unit_test(test_restored),
        cmocka_unit_test(test_out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
