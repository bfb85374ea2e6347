/*
 * src/report/feature_page.c - angles and spectra of features on a page.
 *
 * Each network has its drawings (drawing.h); to compare several, series of theirs that belong
 * together share a figure.
 */
#include "report/feature_page.h"

#include "report/figure_parts.h"

#include <math.h>
#include <stdio.h>

/* The drawings of all networks, each a figure under the network's name; lines on equal axes. */
static void add_each(ole_page *page, ole_drawing *const *drawings, const ole_feature_view *views,
                     int count) {
    double x[2] = {HUGE_VAL, -HUGE_VAL}, y[2] = {HUGE_VAL, -HUGE_VAL};
    for (int i = 0; i < count; i++) {
        const ole_figure *figure = ole_drawing_figure(drawings[i]);
        double own_x[2], own_y[2];
        if (figure->kind != OLE_FIGURE_LINES) continue;
        ole_figure_ends(figure, own_x, own_y);
        x[0] = fmin(x[0], own_x[0]), x[1] = fmax(x[1], own_x[1]);
        y[0] = fmin(y[0], own_y[0]), y[1] = fmax(y[1], own_y[1]);
    }
    for (int i = 0; i < count; i++) {
        ole_figure figure = *ole_drawing_figure(drawings[i]);
        if (figure.kind == OLE_FIGURE_LINES) {
            figure.x_min = x[0], figure.x_max = x[1];
            figure.y_min = y[0], figure.y_max = y[1];
        }
        const ole_short_text title = ole_printed("%s, %.100s", figure.title, views[i].name);
        if (count > 1) figure.title = title.text;
        ole_page_figure(page, &figure, ole_drawing_caption(drawings[i]));
    }
}

/* Series k of the drawings of all networks in one figure. */
static void add_together(ole_page *page, ole_drawing *const *drawings,
                         const ole_feature_view *views, int count, int k, const char *title,
                         const char *caption) {
    ole_series series[OLE_MOST_VIEWS];
    ole_figure figure = *ole_drawing_figure(drawings[0]);
    for (int i = 0; i < count; i++) {
        series[i] = ole_drawing_figure(drawings[i])->series[k];
        series[i].name = views[i].name;
    }
    figure.title = title;
    figure.series = series;
    figure.series_count = count;
    ole_page_figure(page, &figure, caption);
}

/* Adds one kind of drawing; that of several networks as one figure for each of the `shared` leading
 * series, 0: as a figure for each network. */
static void add(ole_page *page, const ole_feature_view *views, int count, ole_drawing_kind kind,
                int shared, const char *const (*texts)[2]) {
    ole_drawing *drawings[OLE_MOST_VIEWS];
    ole_feature_view drawn[OLE_MOST_VIEWS];
    int found = 0;
    for (int i = 0; i < count && i < OLE_MOST_VIEWS; i++) {
        ole_error error;
        if (ole_analysis_draw(&drawings[found], views[i].analysis, kind, &error) != OLE_OK)
            ole_page_fail(page, error.status, error.message);
        drawn[found] = views[i];
        found += drawings[found] != NULL;
    }
    for (int k = 0; k < shared && found > 1; k++)
        add_together(page, drawings, drawn, found, k, texts[k][0], texts[k][1]);
    if (shared == 0 || found == 1) add_each(page, drawings, drawn, found);
    for (int i = 0; i < found; i++)
        ole_drawing_free(drawings[i]);
}

void ole_page_add_angles(ole_page *page, const ole_feature_view *views, int count) {
    static const char *const texts[][2] = {
        {"Angles within classes",
         "Pairs within a class: the smaller the angle, the tighter the class."},
        {"Angles between classes",
         "Pairs from different classes: at 90° the classes are orthogonal."}};
    add(page, views, count, OLE_DRAW_HISTOGRAM, 2, texts);
    add(page, views, count, OLE_DRAW_ANGLES, 0, NULL);
}

void ole_page_add_spectra(ole_page *page, const ole_feature_view *views, int count) {
    static const char *const texts[][2] = {
        {"Singular values of the features",
         "All features together: OLÉ keeps at least one strong direction per class."}};
    add(page, views, count, OLE_DRAW_CLASS_SPECTRA, 0, NULL);
    add(page, views, count, OLE_DRAW_SPECTRUM, 1, texts);
}
