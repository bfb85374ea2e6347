/*
 * tests/unit/features/test_geometry.c - angles and spectra against the obvious way: every pair,
 * every SVD.
 */
#include "ole/analyze.h"
#include "ole/linalg.h"
#include "ole/loss.h"

#include "random.h"
#include "test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double degrees = 57.295779513082323;

typedef struct set {
    float *x;
    int64_t *labels;
    ole_embedding view;
} set;

/* Random rows that lean towards a direction of their class; every 9th is ignored. */
static set make(int64_t rows, int64_t dim, int64_t classes, uint64_t seed) {
    set s = {
        malloc((size_t)(rows * dim) * sizeof(float)), malloc((size_t)rows * sizeof(int64_t)), {0}};
    test_random r = {seed};
    for (int64_t i = 0; i < rows; i++) {
        s.labels[i] = i % 9 == 8 ? -1 : random_below(&r, classes);
        for (int64_t k = 0; k < dim; k++)
            s.x[i * dim + k] = (float)(random_normal(&r) + 2.0 * (double)(k == s.labels[i] % dim));
    }
    s.view = (ole_embedding){rows, dim, OLE_F32, s.x, s.labels};
    return s;
}

static void release(set *s) {
    free(s->x);
    free(s->labels);
}

static double angle_of(const set *s, int64_t i, int64_t j) {
    double ab = 0, aa = 0, bb = 0;
    for (int64_t k = 0; k < s->view.dim; k++) {
        double a = s->x[i * s->view.dim + k], b = s->x[j * s->view.dim + k];
        ab += a * b;
        aa += a * a;
        bb += b * b;
    }
    return degrees * acos(fmax(-1, fmin(1, ab / sqrt(aa) / sqrt(bb))));
}

static int rising(const void *x, const void *y) {
    double a = *(const double *)x, b = *(const double *)y;
    return (a > b) - (a < b);
}

/* ---- Angles ------------------------------------------------------------------------------- */

/* The rows that count, by label. */
static int64_t order_rows(const set *s, int64_t *order) {
    int64_t n = 0;
    for (int64_t label = 0; label < 64; label++)
        for (int64_t i = 0; i < s->view.rows; i++)
            if (s->labels[i] == label) order[n++] = i;
    return n;
}

static void check_summary(double *angles, int64_t count, const ole_angle_summary *got) {
    assert_int_equal(got->pairs, count);
    qsort(angles, (size_t)count, sizeof *angles, rising);
    double sum = 0;
    for (int64_t i = 0; i < count; i++)
        sum += angles[i];
    assert_float_equal(got->mean, sum / (double)count, 1e-9);
    assert_float_equal(got->minimum, angles[0], 1e-6);
    assert_float_equal(got->maximum, angles[count - 1], 1e-6);
    const double shares[] = {0.05, 0.25, 0.5, 0.75, 0.95};
    const double found[] = {got->q05, got->q25, got->median, got->q75, got->q95};
    for (int i = 0; i < 5; i++) { /* between the order statistics beside it, to a bin */
        int64_t at = (int64_t)(shares[i] * (double)count);
        double low = angles[at > 0 ? at - 1 : 0], high = angles[at < count ? at : count - 1];
        assert_true(found[i] >= low - 0.0101 && found[i] <= high + 0.0101);
    }
}

static void check_picture(const set *s, const int64_t *order, int64_t n, const ole_angles *a) {
    int64_t side = a->side;
    double *sum = calloc((size_t)(side * side), sizeof *sum);
    int64_t *count = calloc((size_t)(side * side), sizeof *count);
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n; j++) {
            if (i == j) continue;
            int64_t at = i * side / n * side + j * side / n;
            sum[at] += angle_of(s, order[i], order[j]);
            count[at]++;
        }
    for (int64_t at = 0; at < side * side; at++) {
        double mean = count[at] ? sum[at] / (double)count[at] : 0;
        assert_float_equal(a->picture[at], mean, 2e-5);
    }
    free(sum);
    free(count);
}

static void check_angles(int64_t rows, int64_t dim, int64_t classes, int64_t picture) {
    set s = make(rows, dim, classes, 3);
    int64_t *order = malloc((size_t)rows * sizeof *order), n = order_rows(&s, order);
    double *list[2] = {malloc((size_t)(n * n) * sizeof(double)),
                       malloc((size_t)(n * n) * sizeof(double))};
    int64_t count[2] = {0, 0}, bins[2][OLE_ANGLE_BINS] = {{0}};
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = i + 1; j < n; j++) {
            int differ = s.labels[order[i]] != s.labels[order[j]];
            double angle = angle_of(&s, order[i], order[j]);
            list[differ][count[differ]++] = angle;
            bins[differ][(int)fmin(angle, OLE_ANGLE_BINS - 1)]++;
        }
    ole_angles_options options;
    ole_angles_options_init(&options);
    options.picture = picture;
    ole_angles first;
    for (int threads = 1; threads <= 3; threads++) {
        ole_angles a;
        ole_error error;
        options.threads = threads;
        assert_ok(ole_angles_measure(&a, &s.view, &options, &error), &error);
        if (threads == 1) {
            assert_int_equal(a.rows, n);
            check_summary(list[0], count[0], &a.within);
            check_summary(list[1], count[1], &a.between);
            assert_memory_equal(a.within_bins, bins[0], sizeof bins[0]);
            assert_memory_equal(a.between_bins, bins[1], sizeof bins[1]);
            assert_int_equal(a.side, picture < n ? picture : n);
            check_picture(&s, order, n, &a);
            assert_int_equal(a.labels[0], 0);
            assert_int_equal(a.begins[0], 0);
            first = a;
            continue;
        }
        assert_memory_equal(&a.within, &first.within, sizeof a.within);
        assert_memory_equal(&a.between, &first.between, sizeof a.between);
        assert_memory_equal(a.picture, first.picture,
                            (size_t)(a.side * a.side) * sizeof *a.picture);
        ole_angles_free(&a);
    }
    ole_angles_free(&first);
    free(order);
    free(list[0]);
    free(list[1]);
    release(&s);
}

static void test_angles(void **state) {
    (void)state;
    check_angles(40, 3, 2, 500);
    check_angles(700, 5, 4, 50);
    check_angles(620, 20, 3, 397);
}

/* The sample is smaller, ordered, and says how large it is; rows of zeros have no angle. */
/* The short call: the means of the long one. */
static void test_mean_angles(void **state) {
    (void)state;
    enum { ROWS = 40, DIM = 3 };
    set s = make(ROWS, DIM, 2, 5);
    int32_t labels[ROWS];
    for (int i = 0; i < ROWS; i++)
        labels[i] = (int32_t)s.labels[i];
    ole_angles a;
    ole_error error;
    double within, between;
    assert_ok(ole_angles_measure(&a, &s.view, NULL, &error), &error);
    assert_ok(ole_mean_angles(ROWS, DIM, s.x, labels, &within, &between, &error), &error);
    assert_true(within == a.within.mean && between == a.between.mean && within < between);
    ole_angles_free(&a);
    assert_ok(ole_mean_angles(0, DIM, s.x, labels, &within, &between, &error), &error);
    assert_true(isnan(within) && isnan(between));
    assert_int_equal(ole_mean_angles(ROWS, DIM, s.x, labels, NULL, &between, &error),
                     OLE_ERROR_ARGUMENT);
    release(&s);
}

static void test_sampled_angles(void **state) {
    (void)state;
    set s = make(2000, 4, 3, 5);
    memset(s.x, 0, 4 * sizeof *s.x);
    ole_angles_options options;
    ole_angles_options_init(&options);
    options.sample = 300;
    options.picture = 0;
    ole_angles few, all;
    ole_error error;
    assert_ok(ole_angles_measure(&few, &s.view, &options, &error), &error);
    options.sample = 0;
    assert_ok(ole_angles_measure(&all, &s.view, &options, &error), &error);
    assert_int_equal(few.rows + few.zeros, 300);
    assert_int_equal(all.zeros, 1);
    assert_int_equal(few.of_rows, all.of_rows);
    assert_int_equal(all.rows, all.of_rows - 1);
    assert_true(fabs(few.between.mean - all.between.mean) < 3);
    ole_angles_free(&few);
    ole_angles_free(&all);
    release(&s);
}

/* ---- Spectra ------------------------------------------------------------------------------ */

static void test_spectra(void **state) {
    (void)state;
    static const int64_t shapes[][3] = {{30, 4, 3}, {50, 70, 4}, {400, 9, 2}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        int64_t rows = shapes[i][0], dim = shapes[i][1];
        set s = make(rows, dim, shapes[i][2], 11 + i);
        ole_spectra a;
        ole_error error;
        assert_ok(ole_spectra_measure(&a, &s.view, 2, &error), &error);
        ole_loss_plan *plan;
        ole_loss_class per_class[8];
        ole_loss_result r = {.per_class = per_class, .per_class_capacity = 8};
        assert_ok(ole_loss_plan_create(&plan, rows, dim, OLE_F32, NULL, &error), &error);
        const ole_loss_batch batch = {
            .rows = rows, .features = s.x, .labels = s.labels, .label_type = OLE_I64};
        assert_ok(ole_loss_eval(plan, &batch, NULL, &r, &error), &error);
        ole_loss_plan_destroy(plan);
        assert_float_equal(a.class_term, r.class_term, 1e-6 * r.class_term);
        assert_float_equal(a.global_norm, r.global_norm, 1e-6 * r.global_norm);
        assert_float_equal(a.loss, r.value, 1e-6 * r.class_term);
        assert_int_equal(a.classes, r.classes);
        assert_int_equal(a.all.rows, r.rows);
        for (int64_t c = 0; c < a.classes; c++) {
            assert_int_equal(a.of[c].label, per_class[c].label);
            assert_int_equal(a.of[c].rows, per_class[c].count);
            assert_float_equal(a.of[c].norm, per_class[c].norm, 1e-6 * per_class[c].norm);
            assert_true(a.of[c].effective_rank <= (double)a.of[c].count + 1e-9);
        }
        ole_spectra_free(&a);
        release(&s);
    }
}

/* Over 16 million elements the Gram matrix is summed block by block: the same spectrum. */
static void test_many_rows(void **state) {
    (void)state;
    if (SANITIZED) skip();
    enum { ROWS = 1100000, DIM = 16 };
    set s = make(ROWS, DIM, 3, 21);
    ole_spectra a, b;
    ole_error error;
    assert_ok(ole_spectra_measure(&a, &s.view, 1, &error), &error);
    assert_ok(ole_spectra_measure(&b, &s.view, 2, &error), &error);
    assert_memory_equal(a.all.sigma, b.all.sigma, DIM * sizeof *a.all.sigma);
    float *kept = malloc((size_t)ROWS * DIM * sizeof *kept);
    double sigma[DIM];
    int64_t n = 0;
    for (int64_t i = 0; i < ROWS; i++)
        if (s.labels[i] >= 0) memcpy(kept + DIM * n++, s.x + i * DIM, DIM * sizeof *kept);
    assert_int_equal(n, a.all.rows);
    const ole_matrix m = {.data = kept, .rows = n, .cols = DIM, .dtype = OLE_F32};
    assert_ok(ole_singular_values(&m, 1, sigma, &error), &error);
    for (int k = 0; k < DIM; k++)
        assert_float_equal(a.all.sigma[k], sigma[k], 1e-8 * sigma[0]);
    free(kept);
    ole_spectra_free(&a);
    ole_spectra_free(&b);
    release(&s);
}

/* ---- An analysis in parts ------------------------------------------------------------------ */

static bool stop_now(void *left) {
    return (*(int *)left)-- == 0;
}

/* One class is enough without errors and overlaps; stopped at any point there is nothing to free.
 */
static void test_parts(void **state) {
    (void)state;
    set s = make(40, 4, 2, 1);
    ole_analysis whole, part;
    ole_analyze_options options;
    ole_error error;
    ole_analyze_options_init(&options);
    assert_ok(ole_analyze(&whole, &s.view, &options, &error), &error);
    options.errors = options.overlap = false;
    assert_ok(ole_analyze(&part, &s.view, &options, &error), &error);
    assert_true(isnan(part.errors.knn1) && part.overlap_count == 0 && whole.overlap_count > 0);
    assert_true(part.angles.within.mean == whole.angles.within.mean && part.kl == whole.kl);
    assert_true(part.spectra.all.effective_rank == whole.spectra.all.effective_rank);
    ole_analysis_free(&whole);
    ole_analysis_free(&part);
    for (int calls = 0; calls < 6; calls++) {
        int left = calls;
        options.stop = stop_now;
        options.context = &left;
        assert_ok(ole_analyze(&part, &s.view, &options, &error), &error);
        assert_true(left < 0 && part.rows == 0 && !part.map && !part.point_rows);
    }
    for (int i = 0; i < 40; i++)
        s.labels[i] = 3;
    options.stop = NULL;
    assert_ok(ole_analyze(&part, &s.view, &options, &error), &error);
    assert_int_equal(part.classes, 1);
    ole_analysis_free(&part);
    options.errors = true;
    assert_int_equal(ole_analyze(&part, &s.view, &options, &error), OLE_ERROR_ARGUMENT);
    release(&s);
}

/* ---- Errors ------------------------------------------------------------------------------- */

static void test_options_not_filled(void **state) {
    (void)state;
    set s = make(20, 3, 2, 1);
    ole_angles angles;
    ole_angles_options angle_options;
    ole_analysis analysis;
    ole_analyze_options options;
    ole_error error;
    ole_angles_options_init(&angle_options);
    angle_options.struct_size--;
    assert_int_equal(ole_angles_measure(&angles, &s.view, &angle_options, &error),
                     OLE_ERROR_ARGUMENT);
    assert_non_null(strstr(error.message, "fill options with ole_angles_options_init()"));
    ole_analyze_options_init(&options);
    options.struct_size--;
    assert_int_equal(ole_analyze(&analysis, &s.view, &options, &error), OLE_ERROR_ARGUMENT);
    assert_non_null(strstr(error.message, "fill options with ole_analyze_options_init()"));
    release(&s);
}

static void test_errors(void **state) {
    (void)state;
    set s = make(20, 3, 2, 1);
    ole_angles angles;
    ole_spectra spectra;
    ole_error error;
    s.x[3 * 4] = NAN;
    assert_int_equal(ole_angles_measure(&angles, &s.view, NULL, &error), OLE_ERROR_DATA);
    assert_string_equal(error.message, "features: row 4 holds NaN or Inf");
    assert_int_equal(ole_spectra_measure(&spectra, &s.view, 1, &error), OLE_ERROR_DATA);
    s.labels[4] = -1;
    assert_ok(ole_spectra_measure(&spectra, &s.view, 1, &error), &error);
    ole_spectra_free(&spectra);
    assert_int_equal(ole_spectra_measure(&spectra, &s.view, 0, &error), OLE_ERROR_ARGUMENT);
    assert_string_equal(error.message, "ole_spectra_measure: threads is 0 (1 to 1024)");
    s.view.rows = 0;
    assert_int_equal(ole_angles_measure(&angles, &s.view, NULL, &error), OLE_ERROR_ARGUMENT);
    assert_string_equal(error.message,
                        "ole_angles_measure: rows is 0 and dim is 3: both must be at least 1");
    release(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_angles),
        cmocka_unit_test(test_mean_angles),
        cmocka_unit_test(test_sampled_angles),
        cmocka_unit_test(test_spectra),
        cmocka_unit_test(test_many_rows),
        cmocka_unit_test(test_errors),
        cmocka_unit_test(test_options_not_filled),
        cmocka_unit_test(test_parts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
