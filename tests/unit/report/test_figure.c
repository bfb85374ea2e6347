/*
 * tests/unit/report/test_figure.c - figures: what is in them, the kinds of file, the same bytes
 * again, and what is refused; the round numbers of axes.
 */
#include "comma_locale.h"
#include "report/axis.h"
#include "report/canvas.h"
#include "report/figure.h"
#include "report/palette.h"
#include "report/text.h"
#include "temporary.h"
#include "test.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- Support ------------------------------------------------------------------------------- */

static const double lambda[] = {0.0625, 0.25, 1}, percent[] = {26.1, 25.4, 25.9},
                    deviation[] = {0.4, 0.3, 0.5};
static const ole_series curve = {"softmax + OLÉ", 3, lambda, percent, .spread = deviation};

static ole_figure lines(void) {
    ole_figure f;
    ole_figure_init(&f);
    f.title = "Error against λ & <more>";
    f.x_label = "weight λ";
    f.y_label = "error, %";
    f.x_log = true;
    f.series = &curve;
    f.series_count = 1;
    return f;
}

/* Tags that open and close in order, no bare '<' or '&': what a reader of XML asks for. */
static void assert_well_formed(const char *text) {
    char stack[16][24];
    int depth = 0;
    for (const char *s = text; (s = strchr(s, '<')); s++) {
        const char *end = strchr(s, '>');
        assert_non_null(end);
        size_t length = strcspn(s + 1, " />\n");
        if (s[1] == '/') {
            assert_true(depth > 0);
            depth--;
            assert_memory_equal(s + 2, stack[depth], strlen(stack[depth]));
            assert_true(s[2 + strlen(stack[depth])] == '>');
        } else if (end[-1] != '/') {
            assert_true(depth < 16 && length < sizeof stack[0]);
            memcpy(stack[depth], s + 1, length);
            stack[depth++][length] = '\0';
        }
    }
    assert_int_equal(depth, 0);
    for (const char *s = text; (s = strchr(s, '&')); s++)
        assert_true(strcspn(s, ";") < 7);
}

static char *svg_of(const ole_figure *figure) {
    char *text = NULL;
    ole_error error;
    assert_ok(ole_figure_svg(figure, &text, &error), &error);
    assert_well_formed(text);
    return text;
}

static void assert_refused(const ole_figure *figure, const char *part) {
    char *text = NULL;
    ole_error error;
    assert_int_equal(ole_figure_svg(figure, &text, &error), OLE_ERROR_ARGUMENT);
    assert_null(text);
    if (!strstr(error.message, part)) fail_msg("'%s' is not in: %s", part, error.message);
}

static size_t read_bytes(const char *path, unsigned char *bytes, size_t room) {
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    size_t size = fread(bytes, 1, room, file);
    fclose(file);
    return size;
}

/* ---- Drawings ------------------------------------------------------------------------------ */

static void test_a_long_title_has_two_lines(void **state) {
    (void)state;
    ole_figure f = lines();
    f.title = "Accuracy on the known against novel samples accepted";
    f.width = 300;
    char *text = svg_of(&f);
    assert_non_null(strstr(text, ">Accuracy on the known against novel<"));
    assert_non_null(strstr(text, ">samples accepted<"));
    free(text);
    f.width = 480;
    text = svg_of(&f);
    assert_non_null(strstr(text, ">Accuracy on the known against novel samples accepted<"));
    free(text);
}

static void test_a_label_longer_than_its_axis_is_cut(void **state) {
    (void)state;
    ole_figure f = lines();
    f.y_label = "a label that is much longer than the axis of this low figure is high";
    f.height = 200;
    char *text = svg_of(&f);
    assert_non_null(strstr(text, ">a label that is"));
    assert_non_null(strstr(text, "…<"));
    free(text);
}

static void test_evenly_spaced_ticks_stay_even(void **state) {
    (void)state;
    static const double ticks[] = {0, 15, 30, 45, 60, 75, 90, 105, 120, 135, 150};
    const double edges[] = {0, 75, 155}, bars[] = {1, 2};
    const ole_series series = {"bars", 2, edges, bars, .dotted = false};
    ole_figure f;
    ole_figure_init(&f);
    f.kind = OLE_FIGURE_HISTOGRAM;
    f.series = &series;
    f.series_count = 1;
    f.x_ticks = ticks;
    f.x_tick_count = sizeof ticks / sizeof *ticks;
    f.width = 300;
    char *text = svg_of(&f);
    assert_non_null(strstr(text, ">30<"));
    assert_non_null(strstr(text, ">150<"));
    assert_null(strstr(text, ">15<"));
    assert_null(strstr(text, ">135<"));
    free(text);
}

static void test_lines_carry_their_words(void **state) {
    (void)state;
    ole_figure f = lines();
    char *text = svg_of(&f);
    const char *const parts[] = {">weight λ<",      ">error, %<",
                                 ">softmax + OLÉ<", ">Error against λ &amp; &lt;more&gt;<",
                                 ">0.1<",           "#0072b2"};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (!strstr(text, parts[i])) fail_msg("%s is missing", parts[i]);
    free(text);
}

static void test_gaps_split_a_line(void **state) {
    (void)state;
    const double x[] = {0, 1, 2, 3, 4}, y[] = {1, 2, NAN, 2, 1};
    const ole_series s = {.count = 5, .x = x, .y = y, .dotted = true};
    ole_figure f = lines();
    f.x_log = false;
    f.series = &s;
    char *text = svg_of(&f);
    const char *line = strstr(text, "stroke-dasharray");
    assert_non_null(line);
    line = strstr(line, " d=\"");
    int moves = 0;
    for (const char *c = line; *c != '>'; c++)
        moves += *c == 'M';
    assert_int_equal(moves, 2);
    assert_null(strstr(text, "nan"));
    free(text);
}

/* How often a line or shape begins in the figure. */
static int count_moves(const ole_figure *f) {
    char *text = svg_of(f);
    int moves = 0;
    for (const char *d = text; (d = strstr(d, " d=\"")); d++)
        for (const char *c = d + 4; *c != '"'; c++)
            moves += *c == 'M';
    free(text);
    return moves;
}

static void test_bands(void **state) {
    (void)state;
    const double x[] = {0, 1, 2, 3, 4}, y[] = {4, 5, 6, 5, 4}, std[] = {1, 1, NAN, 1, 1};
    ole_series s = {.name = "mean", .count = 5, .x = x, .y = y, .spread = std, .band = true};
    ole_figure f = lines();
    f.x_log = false;
    f.series = &s;
    char *text = svg_of(&f);
    const char *band = strstr(strstr(text, "<svg x="), "fill-opacity=\"0.2\"");
    assert_non_null(band);
    assert_true(band < strstr(band, "stroke=\"#0072b2\"")); /* under the line */
    int closed = 0, corners = 0;
    for (const char *c = strstr(band, " d=\""); *c != '>'; c++) {
        closed += *c == 'Z';
        corners += *c == 'M' || *c == 'L';
    }
    assert_int_equal(closed, 2); /* the gap ends a band */
    assert_int_equal(corners, 8);
    free(text);
    f.y_min = 0;
    f.y_max = 10;
    s.count = 1; /* an error bar, as a band would have no width */
    int with_bar = count_moves(&f);
    s.spread = NULL;
    assert_int_equal(with_bar, count_moves(&f) + 3 + 2); /* the band, and that of the legend */
}

static void test_marks(void **state) {
    (void)state;
    const double edges[] = {0, 1, 2}, bars[] = {3, 4};
    const ole_series s = {.count = 2, .x = edges, .y = bars};
    const ole_mark marks[] = {{1.5, "threshold <95 %>"}, {9, "far right"}};
    ole_figure f = lines();
    f.kind = OLE_FIGURE_HISTOGRAM;
    f.x_log = false;
    f.series = &s;
    f.marks = marks;
    f.mark_count = 2;
    char *text = svg_of(&f);
    assert_non_null(strstr(text, ">threshold &lt;95 %&gt;<"));
    assert_non_null(strstr(text, ">far right<")); /* the axis reaches it */
    free(text);
    f.x_max = 2;
    text = svg_of(&f);
    assert_null(strstr(text, ">far right<"));
    free(text);
    f.marks = NULL;
    assert_refused(&f, "marks");
}

/* Lines near 0 show it, accuracies need not. */
static void test_free_axes(void **state) {
    (void)state;
    const double low[] = {30, 60, 95};
    const ole_series series = {"accuracy", 3, lambda, low, .spread = NULL};
    ole_figure f = lines();
    f.series = &series;
    char *text = svg_of(&f);
    assert_non_null(strstr(text, ">0</text>"));
    free(text);
    f.y_free = true;
    text = svg_of(&f);
    assert_null(strstr(text, ">0</text>"));
    free(text);
}

/* Ticks at the numbers given, without those that would touch. */
static void test_ticks_of_ones_own(void **state) {
    (void)state;
    const double ticks[] = {0.0625, 0.0626, 0.25, 1, 7};
    ole_figure f = lines();
    f.x_ticks = ticks;
    f.x_tick_count = 5;
    char *text = svg_of(&f);
    assert_non_null(strstr(text, ">0.0625</text>"));
    assert_non_null(strstr(text, ">0.25</text>"));
    assert_non_null(strstr(text, ">1</text>"));
    assert_null(strstr(text, ">0.0626</text>"));
    assert_null(strstr(text, ">0.1</text>"));
    assert_null(strstr(text, ">7</text>")); /* beyond the axis */
    free(text);
}

static void test_histograms_stand_on_zero(void **state) {
    (void)state;
    const double edges[] = {0, 30, 60, 90}, within[] = {5, 3, 1}, between[] = {0, 2, 9};
    const ole_series s[] = {{"within", 3, edges, within, .dotted = false},
                            {"between", 3, edges, between, .dotted = false}};
    ole_figure f = lines();
    f.kind = OLE_FIGURE_HISTOGRAM;
    f.x_log = false;
    f.series = s;
    f.series_count = 2;
    char *text = svg_of(&f);
    assert_non_null(strstr(text, "fill-opacity=\"0.4\""));
    assert_non_null(strstr(text, ">0<"));
    free(text);
}

static void test_hundred_groups_differ(void **state) {
    (void)state;
    enum { GROUPS = 100 };
    static char names[GROUPS][16];
    static double at[GROUPS];
    ole_series s[GROUPS];
    for (int i = 0; i < GROUPS; i++) {
        snprintf(names[i], sizeof names[i], "group %d", i);
        at[i] = i;
        s[i] = (ole_series){names[i], 1, &at[i], &at[i], .dotted = false};
    }
    ole_figure f = lines();
    f.kind = OLE_FIGURE_SCATTER;
    f.x_log = false;
    f.series = s;
    f.series_count = GROUPS;
    f.width = 900;
    f.height = 600;
    char *text = svg_of(&f);
    assert_non_null(strstr(text, ">group 0<"));
    assert_non_null(strstr(text, ">group 99<"));
    free(text);
}

static void test_heat_maps_small_and_large(void **state) {
    (void)state;
    enum { SIDE = 60 };
    static float values[SIDE * SIDE];
    for (int i = 0; i < SIDE * SIDE; i++)
        values[i] = (float)i;
    values[1] = NAN;
    const char *const names[] = {"cat", "dog"};
    const int64_t breaks[] = {1};
    ole_figure f = lines();
    f.kind = OLE_FIGURE_HEATMAP;
    f.values = values;
    f.rows = f.columns = 2;
    f.row_names = f.column_names = names;
    f.breaks = breaks;
    f.break_count = 1;
    f.value_label = "images";
    char *text = svg_of(&f);
    assert_non_null(strstr(text, ">cat<"));
    assert_non_null(strstr(text, ">images<"));
    assert_non_null(strstr(text, "#d0d0d0")); /* no number */
    assert_null(strstr(text, "<image"));
    free(text);
#ifdef OLE_HAVE_PNG
    f.rows = f.columns = SIDE;
    f.row_names = f.column_names = NULL;
    f.block_names = names;
    text = svg_of(&f);
    assert_non_null(strstr(text, "<image"));
    assert_non_null(strstr(text, ">dog<")); /* the block after the break */
    free(text);
#endif
}

/* A name wider than its place ends with an ellipsis, on whole characters. */
static void test_long_names_are_cut(void **state) {
    (void)state;
    char out[OLE_WORDS_ROOM], longest[200];
    assert_string_equal(ole_words_cut(out, "Brötchen", 10, 100), "Brötchen");
    assert_string_equal(ole_words_cut(out, "öööööö", 10, 25), "ööö…");
    assert_string_equal(ole_words_cut(out, "", 10, 25), "");
    memset(longest, 'i', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    assert_true(strlen(ole_words_cut(out, longest, 10, 1e9)) < OLE_WORDS_ROOM);
    assert_string_equal(out + strlen(out) - 3, "…");
}

static void test_long_titles(void **state) {
    (void)state;
    ole_figure f = lines();
    f.title = "Confusion matrix, a/folder/of/runs/that/has/many/parts/and/does/not/fit/lambda-0.25";
    char *text = svg_of(&f);
    assert_non_null(strstr(text, f.title)); /* for those who cannot see it */
    assert_null(strstr(text, "lambda-0.25</text>"));
    assert_non_null(strstr(text, "…</text>"));
    free(text);
}

static void test_text_of_any_bytes(void **state) {
    (void)state;
    ole_figure f = lines();
    f.title = "\xff\x01 \xc3\xa9 \xed\xa0\x80 \"quoted\"";
    char *text = svg_of(&f);
    assert_non_null(strstr(text, "?? é ??? &quot;quoted&quot;"));
    free(text);
}

static void test_numbers_do_not_follow_the_locale(void **state) {
    (void)state;
    ole_figure f = lines();
    char *before = svg_of(&f);
    if (!comma_locale_set()) {
        free(before);
        skip();
    }
    char *after = svg_of(&f);
    setlocale(LC_ALL, "C");
    assert_string_equal(before, after);
    free(before);
    free(after);
}

/* ---- Files --------------------------------------------------------------------------------- */

static void assert_saved(const char *name, const char *start, size_t length) {
    static unsigned char first[1 << 19], again[1 << 19];
    ole_figure f = lines();
    ole_error error;
    assert_ok(ole_figure_save(&f, temporary_path(name), &error), &error);
    size_t size = read_bytes(temporary_path(name), first, sizeof first);
    assert_true(size > 1000 && size < sizeof first);
    assert_memory_equal(first, start, length);
    assert_ok(ole_figure_save(&f, temporary_path(name), &error), &error);
    assert_int_equal(read_bytes(temporary_path(name), again, sizeof again), size);
    assert_memory_equal(first, again, size);
}

static void test_files_of_each_kind(void **state) {
    (void)state;
    assert_saved("figure.svg", "<svg xmlns=", 11);
#ifdef OLE_HAVE_CAIRO
    assert_saved("figure.pdf", "%PDF-1.", 7);
    assert_saved("figure.PNG", "\x89PNG\r\n\x1a\n", 8);
#else
    ole_figure f = lines();
    ole_error error;
    assert_int_equal(ole_figure_save(&f, temporary_path("f.pdf"), &error), OLE_ERROR_UNSUPPORTED);
    assert_non_null(strstr(error.message, "libcairo2-dev"));
#endif
}

static void test_names_and_folders_that_will_not_do(void **state) {
    (void)state;
    ole_figure f = lines();
    ole_error error;
    assert_int_equal(ole_figure_save(&f, temporary_path("figure.gif"), &error), OLE_ERROR_ARGUMENT);
    assert_non_null(strstr(error.message, ".svg, .pdf or .png"));
    assert_int_equal(ole_figure_save(&f, temporary_path("none/figure.svg"), &error), OLE_ERROR_IO);
    assert_int_equal(ole_figure_save(&f, NULL, &error), OLE_ERROR_ARGUMENT);
    assert_int_equal(temporary_each(NULL), 0);
}

/* ---- What is refused ----------------------------------------------------------------------- */

static void test_bad_figures(void **state) {
    (void)state;
    ole_figure f = lines();
    f.struct_size = 0;
    assert_refused(&f, "ole_figure_init");
    f = lines();
    f.series_count = 0;
    assert_refused(&f, "series");
    f = lines();
    f.width = 5;
    assert_refused(&f, "points");
    f = lines();
    f.kind = (ole_figure_kind)9;
    assert_refused(&f, "unknown kind 9");
    f = lines();
    f.x_min = 3;
    f.x_max = 2;
    assert_refused(&f, "x_min");
    f = lines();
    f.x_min = 0;
    assert_refused(&f, "logarithmic");
    f = lines();
    f.kind = OLE_FIGURE_HEATMAP;
    assert_refused(&f, "heat map");
    const double edges[] = {0, 2, 1}, heights[] = {1, 1};
    const ole_series s = {NULL, 2, edges, heights, .dotted = false};
    f = lines();
    f.kind = OLE_FIGURE_HISTOGRAM;
    f.series = &s;
    assert_refused(&f, "edges");
}

static void test_figures_without_numbers_are_drawn(void **state) {
    (void)state;
    const double none[] = {NAN};
    const ole_series s = {"empty", 1, none, none, .dotted = false};
    ole_figure f = lines();
    f.series = &s;
    free(svg_of(&f));
    f.kind = OLE_FIGURE_SCATTER;
    free(svg_of(&f));
}

static void test_numbers_beyond_whole_ones(void **state) {
    (void)state;
    const float large[] = {1e20f, 1e20f, 1e20f, 1e20f};
    ole_figure f = lines();
    f.kind = OLE_FIGURE_HEATMAP;
    f.values = large;
    f.rows = f.columns = 2;
    char *text = svg_of(&f);
    assert_null(strstr(text, "nan"));
    free(text);
    const double at[] = {0, 1}, y[] = {-1e21, 0};
    const ole_series s = {"deep", 2, at, y, .dotted = false};
    ole_figure_init(&f);
    f.series = &s;
    f.series_count = 1;
    f.y_min = -1e21;
    f.y_max = 0;
    text = svg_of(&f);
    assert_null(strstr(text, "9223372036854775808"));
    free(text);
}

/* ---- Axes and colours ---------------------------------------------------------------------- */

static void assert_ticks(double min, double max, bool log, int wanted, const char *expected) {
    ole_range range = ole_range_start(log);
    ole_range_add(&range, min);
    ole_range_add(&range, max);
    ole_axis axis;
    ole_axis_make(&axis, &range, NAN, NAN, 0, wanted);
    char all[400] = "", number[OLE_NUMBER_ROOM];
    for (int i = 0; i < axis.ticks; i++) {
        if (i > 0) strcat(all, " ");
        strcat(all, ole_axis_tick(&axis, i, number));
    }
    assert_string_equal(all, expected);
}

static void test_round_numbers(void **state) {
    (void)state;
    assert_ticks(0, 1, false, 5, "0.0 0.2 0.4 0.6 0.8 1.0");
    assert_ticks(-1, 1, false, 4, "−1.0 −0.5 0.0 0.5 1.0");
    assert_ticks(3, 97, false, 5, "20 40 60 80");
    assert_ticks(0, 50000, false, 5, "0 10000 20000 30000 40000 50000");
    assert_ticks(0.06, 2, true, 6, "0.1 0.2 0.5 1 2");
    assert_ticks(1e-6, 1e3, true, 5, "1e−06 0.0001 0.01 1 100");
    assert_ticks(1e-300, 1, true, 3, "1e−300 1e−200 1e−100 1");
    assert_ticks(DBL_TRUE_MIN, DBL_MAX, true, 2, "1e−08 1e+308");
    assert_ticks(DBL_TRUE_MIN, DBL_TRUE_MIN, true, 3, "9.88131e−324");
    assert_ticks(7, 7, false, 3, "6.5 7.0 7.5");
}

static void test_epochs_are_whole(void **state) {
    (void)state;
    const double x[] = {1, 2, 3}, y[] = {9, 5, 4};
    const ole_series s = {NULL, 3, x, y, .dotted = false};
    ole_figure f = lines();
    f.x_log = false;
    f.series = &s;
    char *text = svg_of(&f);
    assert_non_null(strstr(text, ">2<"));
    assert_null(strstr(text, ">1.5<"));
    free(text);
}

static void test_scale_falls_evenly(void **state) {
    (void)state;
    uint32_t scale[256];
    ole_palette_scale(scale);
    int last = 1000;
    for (int i = 0; i < OLE_SCALE_STEPS; i++) {
        int grey =
            (int)(299 * (scale[i] >> 16) + 587 * (scale[i] >> 8 & 255) + 114 * (scale[i] & 255)) /
            1000;
        assert_true(grey <= last);
        last = grey;
    }
    assert_true(ole_palette_is_light(scale[0]) &&
                !ole_palette_is_light(scale[OLE_SCALE_STEPS - 1]));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_long_title_has_two_lines),
        cmocka_unit_test(test_a_label_longer_than_its_axis_is_cut),
        cmocka_unit_test(test_evenly_spaced_ticks_stay_even),
        cmocka_unit_test(test_lines_carry_their_words),
        cmocka_unit_test(test_numbers_beyond_whole_ones),
        cmocka_unit_test(test_gaps_split_a_line),
        cmocka_unit_test(test_histograms_stand_on_zero),
        cmocka_unit_test(test_bands),
        cmocka_unit_test(test_marks),
        cmocka_unit_test(test_free_axes),
        cmocka_unit_test(test_ticks_of_ones_own),
        cmocka_unit_test(test_hundred_groups_differ),
        cmocka_unit_test(test_heat_maps_small_and_large),
        cmocka_unit_test(test_long_names_are_cut),
        cmocka_unit_test(test_long_titles),
        cmocka_unit_test(test_text_of_any_bytes),
        cmocka_unit_test(test_numbers_do_not_follow_the_locale),
        cmocka_unit_test_teardown(test_files_of_each_kind, temporary_clear),
        cmocka_unit_test_teardown(test_names_and_folders_that_will_not_do, temporary_clear),
        cmocka_unit_test(test_bad_figures),
        cmocka_unit_test(test_figures_without_numbers_are_drawn),
        cmocka_unit_test(test_round_numbers),
        cmocka_unit_test(test_epochs_are_whole),
        cmocka_unit_test(test_scale_falls_evenly),
    };
    return cmocka_run_group_tests(tests, temporary_make, temporary_remove);
}
