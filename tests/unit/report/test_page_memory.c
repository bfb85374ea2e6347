/*
 * tests/unit/report/test_page_memory.c - a page is whole or not written: whichever allocation
 * fails, what was there before stays, or the page is the one that would have been written with
 * memory enough.
 */
#include "failing_memory.h"
#include "report/feature_page.h"
#include "temporary.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#ifdef OLE_HAVE_PNG
enum { EMBEDS = 1 };
#else
enum { EMBEDS = 0 }; /* a build without libpng has no images to put on a page */
#endif

enum { ROWS = 60, DIM = 3, CLASSES = 3, SIDE = 8, IMAGES = 20 };

static ole_analysis analysis;

static int make_analysis(void **state) {
    static double x[ROWS * DIM];
    static int64_t labels[ROWS];
    for (int i = 0; i < ROWS * DIM; i++)
        x[i] = (i % DIM == i / DIM % CLASSES) + 0.1 * sin(i * i);
    for (int i = 0; i < ROWS; i++)
        labels[i] = i % CLASSES;
    const ole_embedding e = {ROWS, DIM, OLE_F64, x, labels};
    ole_analyze_options options;
    ole_analyze_options_init(&options);
    ole_error error;
    assert_ok(ole_analyze(&analysis, &e, &options, &error), &error);
    return temporary_make(state);
}

static int free_analysis(void **state) {
    ole_analysis_free(&analysis);
    return temporary_remove(state);
}

/* Something of every kind. */
static void fill(ole_page *page) {
    static uint8_t pixels[IMAGES * SIDE * SIDE * 3];
    static double at[IMAGES * 2];
    static int32_t labels[IMAGES];
    static const char *const names[] = {"a", "b"}, *const cells[] = {"c", "1", "d", "2"};
    for (int i = 0; i < IMAGES * SIDE * SIDE * 3; i++)
        pixels[i] = (uint8_t)(i * i);
    for (int i = 0; i < IMAGES; i++) {
        at[2 * i] = i;
        at[2 * i + 1] = i * i;
        labels[i] = i % 2;
    }
    const ole_page_images images = {IMAGES, SIDE, SIDE, 3, pixels, NULL};
    const ole_page_map map = {NULL, IMAGES, at, labels, 2, names, &images};
    ole_page_headline(page, "label", "value", "note");
    ole_page_section(page, "One");
    ole_page_text(page, "text");
    ole_page_table(page, "caption", 2, 2, names, cells);
    ole_page_section(page, "Two");
    ole_page_add_images(page, "caption", &images);
    ole_page_add_map(page, "caption", &map);
    ole_analysis_add_map(page, &analysis, NULL, NULL);
    const ole_feature_view views[] = {{"a", &analysis}, {"b", &analysis}};
    ole_page_add_angles(page, views, 2);
    ole_page_add_spectra(page, views, 2);
    for (int kind = 0; kind < OLE_DRAWINGS; kind++) {
        ole_drawing *drawing;
        ole_error error;
        if (ole_analysis_draw(&drawing, &analysis, (ole_drawing_kind)kind, &error) != OLE_OK)
            ole_page_fail(page, error.status, error.message);
        else if (drawing)
            ole_page_figure(page, ole_drawing_figure(drawing), ole_drawing_caption(drawing));
        ole_drawing_free(drawing);
    }
}

static ole_status make_page(const char *path, ole_error *error) {
    ole_page *page = NULL;
    ole_status status = ole_page_create(&page, "title", "subtitle", error);
    if (status != OLE_OK) return status;
    fill(page);
    status = ole_page_write(page, path, error);
    ole_page_free(page);
    return status;
}

/* Whether the file holds exactly these bytes. */
static bool holds(const char *path, const char *bytes, size_t size) {
    static char content[1 << 20];
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    size_t length = fread(content, 1, sizeof content, file);
    fclose(file);
    return length == size && memcmp(content, bytes, size) == 0;
}

static void put_old(const char *path) {
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    fputs("old", file);
    fclose(file);
}

static void test_whole_or_not_written(void **state) {
    (void)state;
    if (!MEMORY_FAILS || !EMBEDS) skip();
    static char whole[1 << 20];
    ole_error error;
    const char *path = temporary_path("page.html");
    assert_ok(make_page(path, &error), &error);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    size_t size = fread(whole, 1, sizeof whole, file);
    fclose(file);
    assert_true(size > 50000 && size < sizeof whole);

    int64_t refused = 0;
    for (int64_t n = 0;; n++) {
        put_old(path);
        memory_fails_at(n, FAILS_ONCE);
        ole_status status = make_page(path, &error);
        if (!memory_has_failed()) break;
        if (status == OLE_OK ? !holds(path, whole, size) : !holds(path, "old", 3))
            fail_msg("allocation %lld: the page is %s, but not whole", (long long)n,
                     status == OLE_OK ? "good" : error.message);
        refused += status != OLE_OK;
    }
    assert_true(refused > 50);
    assert_int_equal(temporary_each(NULL), 1);
}

/* A figure as a file likewise. */
static void test_figures(void **state) {
    (void)state;
    if (!MEMORY_FAILS || !EMBEDS) skip();
    const char *path = temporary_path("figure.svg");
    ole_drawing *drawing;
    ole_error error;
    assert_ok(ole_analysis_draw(&drawing, &analysis, OLE_DRAW_ANGLES, &error), &error);
    for (int64_t n = 0;; n++) {
        put_old(path);
        memory_fails_at(n, FAILS_ONCE);
        ole_status status = ole_figure_save(ole_drawing_figure(drawing), path, &error);
        if (!memory_has_failed()) break;
        if (status != OLE_OK && !holds(path, "old", 3)) fail_msg("allocation %lld", (long long)n);
        if (status == OLE_OK) fail_msg("allocation %lld is not missed", (long long)n);
    }
    ole_drawing_free(drawing);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_whole_or_not_written, temporary_clear),
        cmocka_unit_test_teardown(test_figures, temporary_clear),
    };
    return cmocka_run_group_tests(tests, make_analysis, free_analysis);
}
