/*
 * src/report/feature_page.h - what features look like, on a page: angles and spectra, of one
 * network or of several side by side; ole_analysis_add_map() adds maps.
 *
 *     ole_analysis analysis;
 *     if (ole_analyze(&analysis, &embedding, &options, &error) != OLE_OK) ...
 *     const ole_feature_view view = {.name = "softmax", .analysis = &analysis};
 *     ole_page_add_angles(page, &view, 1);
 *     ole_analysis_free(&analysis);
 *
 * Of many networks the first OLE_MOST_VIEWS are shown.  What goes wrong makes ole_page_write()
 * fail.
 */
#ifndef OLE_SRC_REPORT_FEATURE_PAGE_H
#define OLE_SRC_REPORT_FEATURE_PAGE_H

#include "report/drawing.h"

enum { OLE_MOST_VIEWS = 8 };

/* The features of one network. */
typedef struct ole_feature_view {
    const char *name;
    const ole_analysis *analysis;
} ole_feature_view;

/* Histograms of the angles, and the angle of each pair of rows. */
OLE_INTERNAL void ole_page_add_angles(ole_page *page, const ole_feature_view *views, int count);

/* Singular values of each class and of all features. */
OLE_INTERNAL void ole_page_add_spectra(ole_page *page, const ole_feature_view *views, int count);

#endif
