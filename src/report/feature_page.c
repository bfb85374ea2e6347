/*
 * src/report/feature_page.c - angles and spectra of features on a page.
 */
#include "report/feature_page.h"

#include <stdio.h>

/* The figure onto the page, titled anew unless `title` is NULL; a failure is the page's. */
static void put(ole_page *page, ole_status status, ole_drawing *drawing, const char *title,
                const ole_error *error) {
    if (status != OLE_OK) {
        ole_page_fail(page, status, error->message);
        return;
    }
    if (!drawing) return;
    ole_figure figure = *ole_drawing_figure(drawing);
    if (title) figure.title = title;
    ole_page_figure(page, &figure, ole_drawing_caption(drawing));
    ole_drawing_free(drawing);
}

static void add_one(ole_page *page, const ole_feature_view *view, ole_drawing_kind kind,
                    const char *title) {
    ole_drawing *drawing;
    ole_error error;
    ole_status status = ole_analysis_draw(&drawing, view->analysis, kind, &error);
    put(page, status, drawing, title, &error);
}

/* A network alone as `kind`; several compared. */
static void add(ole_page *page, const ole_feature_view *views, int count, ole_drawing_kind kind,
                ole_comparison first, ole_comparison last) {
    if (count == 1) add_one(page, views, kind, NULL);
    const ole_analysis *analyses[OLE_MOST_COMPARED];
    const char *names[OLE_MOST_COMPARED];
    int compared = count < OLE_MOST_COMPARED ? count : OLE_MOST_COMPARED;
    for (int i = 0; i < compared; i++) {
        analyses[i] = views[i].analysis;
        names[i] = views[i].name;
    }
    for (int c = (int)first; c <= (int)last && count > 1; c++) {
        ole_drawing *drawing;
        ole_error error;
        ole_status status =
            ole_analyses_draw(&drawing, analyses, names, compared, (ole_comparison)c, &error);
        put(page, status, drawing, NULL, &error);
    }
}

void ole_page_add_angles(ole_page *page, const ole_feature_view *views, int count) {
    add(page, views, count, OLE_DRAW_HISTOGRAM, OLE_COMPARE_INSIDE, OLE_COMPARE_BETWEEN);
    for (int i = 0; i < count && i < OLE_MOST_COMPARED; i++) {
        char title[160];
        snprintf(title, sizeof title, "Angles, %.140s", views[i].name);
        add_one(page, &views[i], OLE_DRAW_ANGLES, count > 1 ? title : NULL);
    }
}

void ole_page_add_spectra(ole_page *page, const ole_feature_view *views, int count) {
    if (count == 1) add_one(page, views, OLE_DRAW_CLASS_SPECTRA, NULL);
    add(page, views, count, OLE_DRAW_SPECTRUM, OLE_COMPARE_CLASS_SPECTRA, OLE_COMPARE_SPECTRA);
}
