/*
 * tests/unit/report/test_page.c - pages: what is in the file, escapes, the packing of thumbnails,
 * its size, and failures that are kept until the page is written.  The browser's view is
 * tests/page/.
 */
#include "report/page.h"
#include "report/page/page_parts.h"
#include "temporary.h"
#include "test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static ole_page *new_page(void) {
    ole_page *page;
    ole_error error;
    assert_ok(ole_page_create(&page, "A <title>", "sub & title", &error), &error);
    return page;
}

/* Writes and reads the page, and frees it. */
static char *written(ole_page *page) {
    ole_error error;
    const char *path = temporary_path("page.html");
    assert_ok(ole_page_write(page, path, &error), &error);
    ole_page_free(page);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    fseek(file, 0, SEEK_END);
    size_t size = (size_t)ftell(file);
    rewind(file);
    char *text = malloc(size + 1);
    assert_int_equal(fread(text, 1, size, file), size);
    text[size] = '\0';
    fclose(file);
    return text;
}

static void assert_has(const char *text, const char *part) {
    if (!strstr(text, part)) fail_msg("missing: %s", part);
}

static int occurrences(const char *text, const char *part) {
    int count = 0;
    for (; (text = strstr(text, part)); text++)
        count++;
    return count;
}

static void assert_kept(ole_page *page, ole_status status, const char *part) {
    ole_error error;
    assert_int_equal(ole_page_write(page, temporary_path("page.html"), &error), status);
    assert_has(error.message, part);
    assert_int_equal(temporary_each(NULL), 0);
    ole_page_free(page);
}

/* ---- Parts --------------------------------------------------------------------------------- */

static void test_parts_and_escapes(void **state) {
    (void)state;
    ole_page *page = new_page();
    ole_page_headline(page, "test error", "25.4 %", "softmax <alone>");
    ole_page_section(page, "First & last");
    ole_page_text(page, "a < b");
    const char *const names[] = {"class", "error", "taken for"};
    const char *const cells[] = {"\"cat\"", "1 < 2", "dog", "dog", "–", "cat"};
    ole_page_table(page, "Errors", 2, 3, names, cells);
    const char *const remarks[] = {"row", "differs"};
    const char *const remark[] = {"first", "2 of 164 epochs, 20 samples per class"};
    ole_page_table(page, "Remarks", 1, 2, remarks, remark);
    ole_page_section(page, "Second");
    char *text = written(page);
    assert_has(text, "<title>A &lt;title&gt;</title>");
    assert_has(text, "sub &amp; title");
    assert_has(text, "softmax &lt;alone&gt;");
    assert_has(text, "<h2 id=\"section-1\">First &amp; last</h2>");
    assert_has(text, "<a href=\"#section-2\">Second</a>");
    assert_has(text, "<p>a &lt; b</p>");
    assert_has(
        text,
        "<th scope=\"row\">&quot;cat&quot;</th><td>1 &lt; 2</td><td class=\"words\">dog</td>");
    assert_has(text, "<th scope=\"row\">dog</th><td>–</td>"); /* where a number would be */
    assert_has(text, "<td class=\"words\">2 of 164 epochs");  /* begins with one, but is a text */
    assert_null(strstr(text, "{{"));
    assert_int_equal(occurrences(text, "<section"), occurrences(text, "</section>"));
    assert_null(strstr(text, "src=\"http"));
    assert_null(strstr(text, "url(http"));
    free(text);
}

static void test_figures_come_with_their_numbers(void **state) {
    (void)state;
    const double x[] = {1, 2}, a[] = {0.125, 3}, b[] = {NAN, -4}, spread[] = {0.5, 0.25};
    const ole_series both[] = {{"a", 2, x, a, .spread = spread}, {"b", 2, x, b, .dotted = false}};
    ole_figure f;
    ole_figure_init(&f);
    f.x_label = "epoch";
    f.series = both;
    f.series_count = 2;
    ole_page *page = new_page();
    ole_page_figure(page, &f, "caption");
    ole_page_figure(page, &f, NULL);
    char *text = written(page);
    assert_int_equal(occurrences(text, "<div class=\"grid\">"), 1);
    assert_int_equal(occurrences(text, "<svg xmlns"), 4); /* wide and narrow */
    assert_has(text,
               "<th scope=\"col\">epoch</th><th scope=\"col\">a</th><th scope=\"col\">±</th>");
    assert_has(text, "<tr><td>1</td><td>0.125</td><td>0.5</td><td></td></tr>");
    assert_has(text, "<tr><td>2</td><td>3</td><td>0.25</td><td>−4</td></tr>");
    free(text);
}

static void test_large_heat_maps_show_means_of_classes(void **state) {
    (void)state;
    enum { SIDE = 50 };
    static float values[SIDE * SIDE];
    for (int i = 0; i < SIDE * SIDE; i++)
        values[i] = i / SIDE < 20 && i % SIDE < 20 ? 30 : 90;
    const int64_t breaks[] = {20};
    ole_figure f;
    ole_figure_init(&f);
    f.kind = OLE_FIGURE_HEATMAP;
    f.values = values;
    f.rows = f.columns = SIDE;
    f.breaks = breaks;
    f.break_count = 1;
    ole_page *page = new_page();
    ole_page_figure(page, &f, "angles");
#ifdef OLE_HAVE_PNG
    char *text = written(page);
    assert_has(text, "<tr><th scope=\"row\">0</th><td>30</td><td>90</td></tr>");
    assert_has(text, "data-blocks=\"0 20 50\"");
    assert_has(text, "50 × 50 cells");
    free(text);
    const char *const names[] = {"cat", "dog"};
    f.block_names = names;
    page = new_page();
    ole_page_figure(page, &f, "angles");
    text = written(page);
    assert_has(text, "<tr><th scope=\"row\">dog</th><td>90</td><td>90</td></tr>");
    free(text);
#else
    assert_kept(page, OLE_ERROR_UNSUPPORTED, "libpng");
#endif
}

/* ---- Images and maps ----------------------------------------------------------------------- */

#ifdef OLE_HAVE_PNG

/* Noise, the worst that can come; free() it. */
static uint8_t *noise(size_t size) {
    uint8_t *pixels = malloc(size);
    uint32_t x = 1;
    for (size_t i = 0; i < size; i++) {
        x = x * 1664525u + 1013904223u;
        pixels[i] = (uint8_t)(x >> 24);
    }
    return pixels;
}

static void test_images_carry_their_captions(void **state) {
    (void)state;
    const uint8_t pixels[2 * 4] = {0, 80, 160, 240};
    const char *const captions[] = {"cat → dog\n91 % sure\n<7>.png", "second"};
    const ole_page_images images = {2, 2, 2, 1, pixels, captions};
    ole_page *page = new_page();
    ole_page_add_images(page, "worst", &images);
    char *text = written(page);
    assert_has(text, "alt=\"cat → dog\n");
    assert_has(text, "<b>cat → dog</b><span>91 % sure</span><span>&lt;7&gt;.png</span></li>");
    assert_int_equal(occurrences(text, "src=\"data:image/png;base64,iVBOR"), 2);
    free(text);
}

static void test_thumbnails_fit_their_budget(void **state) {
    (void)state;
    const struct {
        int64_t count;
        int side, channels;
    } cases[] = {{2000, 28, 1}, {1000, 32, 3}, {7, 96, 3}, {1, 1, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        size_t size = (size_t)(cases[i].side * cases[i].side * cases[i].channels);
        uint8_t *pixels = noise((size_t)cases[i].count * size);
        const ole_page_images images = {cases[i].count,    cases[i].side, cases[i].side,
                                        cases[i].channels, pixels,        NULL};
        ole_sprite sprite;
        ole_text bytes = {0};
        ole_error error;
        assert_ok(ole_sprite_make(&sprite, &images, 400000, &bytes, &error), &error);
        assert_true(bytes.size <= 400000);
        assert_true(sprite.width <= 48 && sprite.width >= 1);
        assert_true((int64_t)sprite.columns * sprite.columns >= cases[i].count);
        ole_text_free(&bytes);
        free(pixels);
    }
}

static void test_page_of_ten_thousand_points_under_6_mb(void **state) {
    (void)state;
    enum { COUNT = 10000, SIDE = 32, CHANNELS = 3 };
    uint8_t *pixels = noise((size_t)COUNT * SIDE * SIDE * CHANNELS);
    double *at = malloc(2 * COUNT * sizeof *at);
    int32_t *labels = malloc(COUNT * sizeof *labels);
    for (int i = 0; i < COUNT; i++) {
        at[2 * i] = pixels[i] * 0.1;
        at[2 * i + 1] = pixels[i + COUNT] * -0.1;
        labels[i] = i % 3;
    }
    const char *const names[] = {"a", "b", "c"};
    const ole_page_images images = {COUNT, SIDE, SIDE, CHANNELS, pixels, NULL};
    const ole_page_map map = {NULL, COUNT, at, labels, 3, names, &images};
    ole_page *page = new_page();
    ole_page_add_map(page, "first", &map);
    ole_page_add_map(page, "second, of the same images", &map);
    char *text = written(page);
    assert_true(strlen(text) < 6000000);
    assert_int_equal(occurrences(text, "id=\"sprite-"), 1);
    assert_int_equal(occurrences(text, "data-sprite=\"sprite-1\""), 2);
    free(text);
    free(labels);
    free(at);
    free(pixels);
}

#endif

static void test_maps_hold_every_point(void **state) {
    (void)state;
    const double at[] = {0, 0, 10, 5};
    const int32_t labels[] = {0, 1};
    const char *const names[] = {"cat", "dog <&>"};
    const ole_page_map map = {NULL, 2, at, labels, 2, names, NULL};
    ole_page *page = new_page();
    ole_page_add_map(page, "map", &map);
    char *text = written(page);
    assert_has(text, "data-at=\"AAAAQP///78=\""); /* (0, 16384), (65535, 49151) */
    assert_has(text, "data-labels=\"AAABAA==\"");
    assert_has(text, "dog &lt;&amp;&gt;</label>");
    assert_int_equal(occurrences(text, "data-files="), 0);
    free(text);
}

#ifdef OLE_HAVE_PNG
static void test_maps_name_their_files(void **state) {
    (void)state;
    const double at[] = {0, 0, 10, 5};
    const int32_t labels[] = {0, 0};
    const char *const names[] = {"cat"}, *const files[] = {"cat/a\nb.png", "cat/\"2\".png"};
    const uint8_t pixels[2] = {0};
    const ole_page_images images = {2, 1, 1, 1, pixels, files};
    const ole_page_map map = {"A <title>", 2, at, labels, 1, names, &images};
    ole_page *page = new_page();
    ole_page_add_map(page, "map", &map);
    char *text = written(page);
    assert_has(text, "<p class=\"title\">A &lt;title&gt;</p>");
    assert_has(text, "data-files=\"cat/a b.png\ncat/&quot;2&quot;.png\""); /* a line each */
    free(text);
}
#endif

/* A colour and a shape are of one class: 140 of them. */
static void test_classes_have_marks_of_their_own(void **state) {
    (void)state;
    enum { CLASSES = 140 };
    const double at[] = {0, 0};
    const int32_t label = 0;
    const char *names[CLASSES], *last = NULL;
    for (int i = 0; i < CLASSES; i++)
        names[i] = "class";
    const ole_page_map map = {NULL, 1, at, &label, CLASSES, names, NULL};
    ole_page *page = new_page();
    ole_page_add_map(page, "map", &map);
    char *text = written(page), mark[64];
    int seen = 0;
    for (const char *from = text; (from = strstr(from, "data-colour=")); from++, seen++) {
        snprintf(mark, sizeof mark, "%.*s", (int)(strchr(from, '>') - from), from);
        assert_has(mark, "data-shape=");
        assert_int_equal(occurrences(text, mark), 1);
        last = from;
    }
    assert_int_equal(seen, CLASSES);
    assert_has(last, "class=\"swatch shape-6\"");
    free(text);
}

/* An arrow up or down, and whether that is good. */
static void test_headlines_compare(void **state) {
    (void)state;
    ole_page *page = new_page();
    const ole_page_change changes[] = {
        {-1.5, 0.2, true}, {-1.5, NAN, false}, {0.1, 0.2, true}, {NAN, 0, true}};
    for (int i = 0; i < 4; i++)
        ole_page_compared(page, "error", "1 %", "softmax alone 85.6 ± 0.2 %", &changes[i]);
    char *text = written(page);
    assert_has(text,
               "<span class=\"better\">▼ better</span> softmax alone 85.6\u00a0±\u00a00.2\u00a0%");
    assert_has(text, "<span class=\"worse\">▼ worse</span>");
    assert_has(text, "<span class=\"same\">≈ about the same</span>");
    assert_has(text, "<dd class=\"note\">softmax alone");
    free(text);
}

/* ---- Failures ------------------------------------------------------------------------------ */

static void test_first_failure_is_kept(void **state) {
    (void)state;
    ole_figure f;
    ole_figure_init(&f);
    ole_page *page = new_page();
    ole_page_figure(page, &f, "no series");
    ole_page_section(page, NULL);
    assert_kept(page, OLE_ERROR_ARGUMENT, "series");
}

static void test_bad_parts(void **state) {
    (void)state;
    const double at[] = {0, 0, NAN, 5};
    const int32_t labels[] = {0, 7};
    const char *const names[] = {"cat", "dog"};
    ole_page_map map = {NULL, 2, at, labels, 2, names, NULL};
    ole_page *page = new_page();
    ole_page_add_map(page, NULL, &map);
    assert_kept(page, OLE_ERROR_DATA, "point 1");
    const double good[] = {0, 0, 1, 5};
    map.at = good;
    page = new_page();
    ole_page_add_map(page, NULL, &map);
    assert_kept(page, OLE_ERROR_ARGUMENT, "label 7");
    page = new_page();
    ole_page_add_images(page, NULL, &(ole_page_images){1, 2, 2, 2, (const uint8_t *)"....", NULL});
    assert_kept(page, OLE_ERROR_ARGUMENT, "channels");
    page = new_page();
    ole_page_table(page, NULL, 1, 1, NULL, NULL);
    assert_kept(page, OLE_ERROR_ARGUMENT, "table");
    ole_error error;
    ole_page *none;
    assert_int_equal(ole_page_create(&none, NULL, NULL, &error), OLE_ERROR_ARGUMENT);
    page = new_page();
    assert_int_equal(ole_page_write(page, "/nowhere/page.html", &error), OLE_ERROR_IO);
    ole_page_free(page);
    ole_page_free(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_parts_and_escapes, temporary_clear),
        cmocka_unit_test_teardown(test_figures_come_with_their_numbers, temporary_clear),
        cmocka_unit_test_teardown(test_large_heat_maps_show_means_of_classes, temporary_clear),
#ifdef OLE_HAVE_PNG
        cmocka_unit_test_teardown(test_maps_name_their_files, temporary_clear),
        cmocka_unit_test_teardown(test_images_carry_their_captions, temporary_clear),
        cmocka_unit_test(test_thumbnails_fit_their_budget),
        cmocka_unit_test_teardown(test_page_of_ten_thousand_points_under_6_mb, temporary_clear),
#endif
        cmocka_unit_test_teardown(test_maps_hold_every_point, temporary_clear),
        cmocka_unit_test_teardown(test_headlines_compare, temporary_clear),
        cmocka_unit_test_teardown(test_classes_have_marks_of_their_own, temporary_clear),
        cmocka_unit_test(test_first_failure_is_kept),
        cmocka_unit_test(test_bad_parts),
    };
    return cmocka_run_group_tests(tests, temporary_make, temporary_remove);
}
