/*
 * tests/unit/report/test_drawing.c - the figures of an analysis: what each shows, and which there
 * are.
 */
#include "report/drawing.h"

#include "random.h"
#include "test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Rows near the axis of their class, labels 5, 6, ...; the first row is ignored. */
static ole_analysis analyse(int64_t rows, int64_t dim, int64_t classes, bool map) {
    test_random r = {3};
    double *x = malloc((size_t)(rows * dim) * sizeof *x);
    int64_t *labels = malloc((size_t)rows * sizeof *labels);
    for (int64_t i = 0; i < rows; i++) {
        labels[i] = i == 0 ? -1 : 5 + i % classes;
        for (int64_t k = 0; k < dim; k++)
            x[i * dim + k] = (k == i % classes % dim ? 2.0 : 0.0) + 0.1 * random_normal(&r);
    }
    const ole_embedding e = {rows, dim, OLE_F64, x, labels};
    ole_analyze_options options;
    ole_analyze_options_init(&options);
    options.map = map;
    ole_analysis a;
    ole_error error;
    assert_ok(ole_analyze(&a, &e, &options, &error), &error);
    free(x);
    free(labels);
    return a;
}

static ole_drawing *draw(const ole_analysis *a, ole_drawing_kind kind) {
    ole_drawing *drawing;
    ole_error error;
    assert_ok(ole_analysis_draw(&drawing, a, kind, &error), &error);
    return drawing;
}

/* A drawing that is there, of this kind and name. */
static const ole_figure *check(const ole_drawing *drawing, ole_figure_kind kind, const char *name) {
    assert_non_null(drawing);
    const ole_figure *f = ole_drawing_figure(drawing);
    assert_int_equal(f->kind, kind);
    assert_string_equal(ole_drawing_name(drawing), name);
    assert_true(strlen(ole_drawing_caption(drawing)) > 20);
    return f;
}

static void test_three_dimensions(void **state) {
    (void)state;
    ole_analysis a = analyse(61, 3, 3, true);
    ole_drawing *d = draw(&a, OLE_DRAW_ANGLES);
    const ole_figure *f = check(d, OLE_FIGURE_HEATMAP, "angles");
    assert_int_equal(f->rows, 60);
    assert_int_equal(f->break_count, 2); /* between three classes */
    assert_true(f->breaks[0] > 0 && f->breaks[0] < f->breaks[1] && f->breaks[1] < 60);
    assert_true(f->values[1] < 20 && f->values[59] > 70); /* one class, two classes */
    ole_drawing_free(d);

    d = draw(&a, OLE_DRAW_HISTOGRAM);
    f = check(d, OLE_FIGURE_HISTOGRAM, "angle-histogram");
    for (int s = 0; s < 2; s++) {
        double sum = 0;
        for (int64_t i = 0; i < f->series[s].count; i++)
            sum += f->series[s].y[i];
        assert_float_equal(sum, 100, 1e-9);
    }
    assert_true(f->x_ticks[6] == 90);
    ole_drawing_free(d);

    d = draw(&a, OLE_DRAW_SPECTRUM);
    f = check(d, OLE_FIGURE_LINES, "spectrum");
    assert_int_equal(f->series[0].count, 3);
    assert_true(f->series[0].y[0] == 1.0 && f->series[0].y[2] > 0.5);
    ole_drawing_free(d);

    d = draw(&a, OLE_DRAW_CLASS_SPECTRA);
    f = check(d, OLE_FIGURE_LINES, "class-spectra");
    assert_int_equal(f->series_count, 3);
    assert_string_equal(f->series[1].name, "6");
    assert_true(f->series[1].y[1] < 0.2);
    ole_drawing_free(d);

    d = draw(&a, OLE_DRAW_OVERLAPS);
    f = check(d, OLE_FIGURE_HEATMAP, "overlaps");
    assert_true(f->values[0] == 0 && f->values[1] == f->values[3] && f->values[1] > 70);
    assert_string_equal(f->row_names[2], "7");
    ole_drawing_free(d);

    d = draw(&a, OLE_DRAW_MAP);
    f = check(d, OLE_FIGURE_SCATTER, "map");
    assert_int_equal(f->series_count, 3);
    assert_int_equal(f->series[0].count + f->series[1].count + f->series[2].count, 60);
    ole_drawing_free(d);

    d = draw(&a, OLE_DRAW_SPACE);
    f = check(d, OLE_FIGURE_SCATTER, "space");
    assert_int_equal(f->series_count, 6); /* and the axes, as lines from the origin */
    for (int s = 3; s < 6; s++) {
        assert_true(f->series[s].dotted && f->series[s].count == 2);
        assert_true(f->series[s].x[0] == 0 && f->series[s].y[0] == 0);
    }
    assert_ptr_equal(f->space, a.space);
    assert_true(f->series[0].x[0] < -1 && f->series[1].x[0] > 1 && f->series[2].y[0] > 1);
    assert_float_equal(f->x_max - f->x_min, f->y_max - f->y_min, 1e-9);
    ole_drawing_free(d);
    ole_analysis_free(&a);
}

/* More classes than lines, dimensions that are no space, no map: what there is not is NULL. */
static void test_what_there_is_not(void **state) {
    (void)state;
    ole_analysis a = analyse(241, 6, 120, false);
    assert_null(draw(&a, OLE_DRAW_MAP));
    assert_null(draw(&a, OLE_DRAW_SPACE));
    assert_null(draw(&a, OLE_DRAW_OVERLAPS)); /* of 120 classes */
    ole_drawing *d = draw(&a, OLE_DRAW_CLASS_SPECTRA);
    const ole_figure *f = check(d, OLE_FIGURE_LINES, "class-spectra");
    assert_int_equal(f->series_count, 1);
    assert_true(f->series[0].y[0] == 1.0 && f->series[0].spread[0] == 0.0);
    ole_drawing_free(d);
    d = draw(&a, OLE_DRAW_SPECTRUM);
    assert_int_equal(check(d, OLE_FIGURE_LINES, "spectrum")->series_count, 1); /* 120 > 6 */
    ole_drawing_free(d);
    ole_error error;
    assert_int_equal(ole_analysis_draw(&d, &a, OLE_DRAWINGS, &error), OLE_ERROR_ARGUMENT);
    ole_analysis_free(&a);

    a = analyse(31, 2, 2, false);
    d = draw(&a, OLE_DRAW_SPACE);
    f = check(d, OLE_FIGURE_SCATTER, "space");
    assert_int_equal(f->series_count, 2);
    ole_drawing_free(d);
    ole_analysis_free(&a);
}

/* Right angles, rounded upwards, have no bar of their own beyond 90 degrees. */
static void test_right_angles_end_the_histogram(void **state) {
    (void)state;
    ole_analysis a = analyse(61, 3, 3, true);
    memset(a.angles.between_bins, 0, sizeof a.angles.between_bins);
    memset(a.angles.within_bins, 0, sizeof a.angles.within_bins);
    a.angles.between_bins[90] = a.angles.between.pairs;
    a.angles.between.maximum = 90.0001;
    a.angles.within.maximum = 20;
    ole_drawing *d = draw(&a, OLE_DRAW_HISTOGRAM);
    const ole_series *between = &ole_drawing_figure(d)->series[1];
    assert_int_equal(between->count, 90);
    assert_float_equal(between->y[89], 100, 1e-9);
    ole_drawing_free(d);
    a.angles.between.maximum = 90.7;
    d = draw(&a, OLE_DRAW_HISTOGRAM);
    assert_int_equal(ole_drawing_figure(d)->series[1].count, 91);
    ole_drawing_free(d);
    ole_analysis_free(&a);
}

/* Labels that have a name, and one beyond the names. */
static void test_names(void **state) {
    (void)state;
    static const char *const names[] = {
        "0", "1", "2", "3", "4", "cat", "a name longer 日本語日本語"};
    ole_analysis a = analyse(61, 4, 3, true);
    a.names = names;
    a.name_count = 7;
    static const ole_drawing_kind kinds[] = {OLE_DRAW_CLASS_SPECTRA, OLE_DRAW_MAP};
    for (int k = 0; k < 2; k++) {
        ole_drawing *d = draw(&a, kinds[k]);
        const ole_series *series = ole_drawing_figure(d)->series;
        assert_string_equal(series[0].name, "cat");
        assert_string_equal(series[1].name, "a name longer 日本語…"); /* whole characters */
        assert_string_equal(series[2].name, "7");
        ole_drawing_free(d);
    }
    ole_drawing *d = draw(&a, OLE_DRAW_OVERLAPS);
    assert_string_equal(ole_drawing_figure(d)->row_names[0], "cat");
    ole_drawing_free(d);
    ole_analysis_free(&a);
}

/* Epochs without a number are skipped; a curve without any keeps its place. */
static void test_curves(void **state) {
    (void)state;
    ole_epoch epochs[] = {{.epoch = 1, .test_error = 40, .ole_loss = NAN},
                          {.epoch = 2, .test_error = NAN, .ole_loss = NAN},
                          {.epoch = 3, .test_error = 10, .ole_loss = NAN}};
    const ole_history h = {.count = 3, .epochs = epochs};
    const ole_curve curves[] = {
        {.run = &h, .offset = offsetof(ole_epoch, ole_loss), .name = "none"},
        {.run = &h, .offset = offsetof(ole_epoch, test_error), .name = "test", .accuracy = true}};
    ole_drawing *d;
    ole_error error;
    assert_ok(ole_curves_draw(&d, curves, 2, "Accuracy", "%", &error), &error);
    const ole_figure *f = ole_drawing_figure(d);
    assert_int_equal(f->series_count, 2);
    assert_true(f->series[0].count == 0 && !f->series[0].name);
    assert_true(f->series[1].count == 2 && f->series[1].x[1] == 3 && f->series[1].y[1] == 90);
    assert_string_equal(f->series[1].name, "test");
    ole_drawing_free(d);
    assert_ok(ole_curves_draw(&d, curves, 1, NULL, NULL, &error), &error);
    assert_null(d);
}

/* The mean of the runs that have an epoch, and their deviation. */
static void test_curves_of_seeds(void **state) {
    (void)state;
    ole_epoch first[] = {{.epoch = 1, .test_error = 40}, {.epoch = 2, .test_error = 30}};
    ole_epoch second[] = {{.epoch = 1, .test_error = 20}};
    const ole_history h = {.count = 2, .epochs = first}, other = {.count = 1, .epochs = second};
    const ole_history *const seeds[] = {&other};
    const ole_curve curve = {&h, offsetof(ole_epoch, test_error), "test", .seeds = seeds,
                             .seed_count = 1};
    ole_drawing *d;
    ole_error error;
    assert_ok(ole_curves_draw(&d, &curve, 1, NULL, NULL, &error), &error);
    const ole_series *s = ole_drawing_figure(d)->series;
    assert_true(s->band && s->count == 2 && s->y[0] == 30 && s->y[1] == 30);
    assert_true(fabs(s->spread[0] - sqrt(200.0)) < 1e-12 && isnan(s->spread[1]));
    ole_drawing_free(d);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_three_dimensions),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_what_there_is_not),
        cmocka_unit_test(test_right_angles_end_the_histogram),
        cmocka_unit_test(test_curves),
        cmocka_unit_test(test_curves_of_seeds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
