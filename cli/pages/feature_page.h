/*
 * cli/pages/feature_page.h - what features look like, on a page: angles, spectra and a map, of one
 * network or of several side by side.
 *
 *     feature_view view = {.name = "softmax", .count = n, .dim = d, .features = f, ...};
 *     if (!feature_view_measure(&view, &options, &error)) ...
 *     page_add_angles(page, &view, 1);
 *     feature_view_free(&view);
 */
#ifndef OLE_CLI_PAGES_FEATURE_PAGE_H
#define OLE_CLI_PAGES_FEATURE_PAGE_H

#include "common/progress.h"

#include "report/page.h"
#include <ole/geometry.h>

typedef struct feature_view {
    const char *name; /* of the network */
    int64_t count, dim;
    const float *features;
    const int32_t *labels;
    int classes;
    const char *const *class_names;

    bool measured; /* what follows is there */
    ole_angles angles;
    ole_spectra spectra;
    double class_rank; /* mean effective rank of the classes */
    double *map;       /* [count, 2], or NULL */
} feature_view;

typedef struct feature_options {
    int threads;
    bool map;       /* t-SNE too, where there are points enough */
    progress *line; /* where it says how far it is */
} feature_options;

/* False after an error, or after an interruption (then interrupted() says so). */
bool feature_view_measure(feature_view *view, const feature_options *options, ole_error *error);
void feature_view_free(feature_view *view);

/* Makes the page fail when it is written: memory for a part of it is missing. */
void page_lacks_memory(ole_page *page);

/* Figures of all of them; views that are not measured are left out. */
void page_add_angles(ole_page *page, const feature_view *views, int count);
void page_add_spectra(ole_page *page, const feature_view *views, int count);

/* Their maps; `images` of the points, the same for all of them, or NULL. */
void page_add_maps(ole_page *page, const feature_view *views, int count,
                   const ole_page_images *images);

#endif
