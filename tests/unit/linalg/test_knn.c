/*
 * tests/unit/linalg/test_knn.c - nearest neighbours by cosine against the obvious way, over block
 * edges.
 */
#include "features/nearest.h"

#include "base/philox.h"
#include "data/formats/generated.h"
#include "test.h"

#include <math.h>
#include <stdlib.h>

typedef struct set {
    float *features;
    int32_t *labels;
    ole_labelled view;
} set;

static set make(int64_t rows, int64_t dim, uint64_t seed) {
    set s = {.features = calloc((size_t)(rows * dim) + 1, sizeof(float)),
             .labels = calloc((size_t)rows + 1, sizeof(int32_t))};
    for (int64_t i = 0; i < rows * dim; i++) {
        uint32_t w[4];
        ole_philox(seed, OLE_RANDOM_TEST, 0, (uint64_t)i, w);
        s.features[i] = ole_uniform(w[0]) - 0.5f;
    }
    for (int64_t i = 0; i < rows; i++)
        s.labels[i] = (int32_t)(i % 7);
    s.view = (ole_labelled){rows, s.features, s.labels};
    return s;
}

static void release(set *s) {
    free(s->features);
    free(s->labels);
}

static double cosine(const float *a, const float *b, int64_t dim) {
    double ab = 0, aa = 0, bb = 0;
    for (int64_t k = 0; k < dim; k++) {
        ab += (double)a[k] * b[k];
        aa += (double)a[k] * a[k];
        bb += (double)b[k] * b[k];
    }
    return aa > 0 && bb > 0 ? ab / sqrt(aa) / sqrt(bb) : 0;
}

static double obvious(const set *reference, const set *query, int64_t dim) {
    int64_t wrong = 0;
    for (int64_t i = 0; i < query->view.rows; i++) {
        int64_t best = 0;
        double most = -2;
        for (int64_t j = 0; j < reference->view.rows; j++) {
            const float *other = reference->features + j * dim, *own = query->features + i * dim;
            double c = cosine(own, other, dim);
            if (c > most && other != own) {
                most = c;
                best = j;
            }
        }
        wrong += reference->labels[best] != query->labels[i];
    }
    return 100.0 * (double)wrong / (double)query->view.rows;
}

static void test_against_obvious(void **state) {
    (void)state;
    static const int64_t shapes[][3] = {{1, 1, 1}, {5, 3, 2}, {513, 40, 9}, {70, 1030, 33}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        int64_t dim = shapes[i][2];
        set reference = make(shapes[i][0], dim, 1), query = make(shapes[i][1], dim, 2);
        double expected = obvious(&reference, &query, dim);
        for (int threads = 1; threads <= 3; threads++) {
            double got;
            ole_error error;
            assert_ok(
                ole_knn1_error(dim, &reference.view, &query.view, threads, NULL, &got, &error),
                &error);
            assert_true(got == expected);
        }
        release(&reference);
        release(&query);
    }
}

static void test_corners(void **state) {
    (void)state;
    set reference = make(9, 4, 1), none = make(0, 4, 1);
    double got;
    ole_error error;
    assert_ok(ole_knn1_error(4, &reference.view, &reference.view, 1, NULL, &got, &error), &error);
    assert_true(got == obvious(&reference, &reference, 4) && got > 0.0); /* none is its own */
    for (int i = 0; i < 36; i++)
        reference.features[i] = 0.0f;
    assert_ok(ole_knn1_error(4, &reference.view, &reference.view, 1, NULL, &got, &error), &error);
    assert_true(got == obvious(&reference, &reference, 4)); /* the first of equals */
    assert_ok(ole_knn1_error(4, &none.view, &reference.view, 1, NULL, &got, &error), &error);
    assert_true(isnan(got));
    assert_ok(ole_knn1_error(4, &reference.view, &none.view, 1, NULL, &got, &error), &error);
    assert_true(isnan(got));
    release(&reference);
    release(&none);
}

static bool stop_at_half(void *context, double share) {
    *(double *)context = share;
    return share >= 0.5;
}

static void test_watch(void **state) {
    (void)state;
    set reference = make(1500, 3, 1), query = make(4, 3, 2);
    double got, share = -1.0;
    ole_error error;
    const ole_knn_watch watch = {stop_at_half, &share};
    assert_ok(ole_knn1_error(3, &reference.view, &query.view, 1, &watch, &got, &error), &error);
    assert_true(share >= 0.5 && share < 1.0);
    release(&reference);
    release(&query);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_obvious),
        cmocka_unit_test(test_corners),
        cmocka_unit_test(test_watch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
