/*
 * cli/pages/feature_page.c - angles, spectra and maps of features on a page.
 */
#include "pages/feature_page.h"

#include <ole/tsne.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { MOST_VIEWS = 8, LEAST_POINTS = 20, PICTURE = 400, RIGHT_ANGLE = 90 };

/* ---- Measuring ---------------------------------------------------------------------------- */

static bool show_map(void *context, const ole_tsne_progress *p) {
    double share = p->iterations > 0 ? (double)p->iteration / p->iterations : 0;
    progress_share(context, "t-SNE", share);
    return interrupted();
}

static bool measure_map(feature_view *v, const feature_options *o, ole_error *error) {
    if (v->count < LEAST_POINTS) return true;
    v->map = malloc((size_t)v->count * 2 * sizeof *v->map);
    if (!v->map) {
        snprintf(error->message, sizeof error->message, "out of memory");
        return false;
    }
    ole_tsne_options t;
    ole_tsne_options_init(&t);
    double most = (double)(v->count - 1) / 3;
    if (t.perplexity > most) t.perplexity = most;
    t.threads = o->threads;
    t.callback = show_map;
    t.callback_context = o->line;
    ole_status status = ole_tsne(v->count, v->dim, OLE_F32, v->features, &t, v->map, NULL, error);
    return status == OLE_OK && !interrupted();
}

static bool measure_geometry(feature_view *v, const int64_t *labels, const feature_options *o,
                             ole_error *error) {
    const ole_embedding e = {v->count, v->dim, OLE_F32, v->features, labels};
    ole_angles_options a;
    ole_angles_options_init(&a);
    a.threads = o->threads;
    a.picture = PICTURE;
    a.progress = progress_share;
    a.context = o->line;
    if (ole_angles_measure(&v->angles, &e, &a, error) != OLE_OK) return false;
    if (ole_spectra_measure(&v->spectra, &e, o->threads, error) != OLE_OK) {
        ole_angles_free(&v->angles);
        return false;
    }
    v->measured = true;
    for (int64_t c = 0; c < v->spectra.classes; c++)
        v->class_rank += v->spectra.of[c].effective_rank / (double)v->spectra.classes;
    return true;
}

bool feature_view_measure(feature_view *v, const feature_options *o, ole_error *error) {
    int64_t *labels = malloc((size_t)v->count * sizeof *labels);
    bool good = labels != NULL;
    if (!good) snprintf(error->message, sizeof error->message, "out of memory");
    for (int64_t i = 0; good && i < v->count; i++)
        labels[i] = v->labels[i];
    good = good && measure_geometry(v, labels, o, error);
    if (good && o->map) good = measure_map(v, o, error);
    free(labels);
    return good && !interrupted();
}

void feature_view_free(feature_view *v) {
    if (v->measured) {
        ole_angles_free(&v->angles);
        ole_spectra_free(&v->spectra);
    }
    free(v->map);
    v->map = NULL;
    v->measured = false;
}

void page_lacks_memory(ole_page *page) {
    ole_page_fail(page, OLE_ERROR_MEMORY, "page: out of memory");
}

/* ---- Angles ------------------------------------------------------------------------------- */

/* Shares of pairs by angle, two degrees a bar, of one kind of pairs of one view. */
typedef struct shares {
    double edges[OLE_ANGLE_BINS / 2 + 1], heights[OLE_ANGLE_BINS / 2];
    int64_t bars; /* up to the last with anything in it */
} shares;

static void fill_shares(shares *s, const ole_angle_summary *all, const int64_t *bins) {
    s->bars = 0;
    for (int i = 0; i < OLE_ANGLE_BINS / 2; i++) {
        int64_t pairs = bins[2 * i] + bins[2 * i + 1];
        s->edges[i] = 2 * i;
        s->heights[i] = all->pairs > 0 ? 100.0 * (double)pairs / (double)all->pairs : 0;
        if (pairs > 0) s->bars = i + 1;
    }
    s->edges[OLE_ANGLE_BINS / 2] = OLE_ANGLE_BINS;
    if (s->bars < RIGHT_ANGLE / 2) s->bars = RIGHT_ANGLE / 2;
}

static ole_figure histogram(const char *title, const ole_series *series, int count) {
    ole_figure f;
    ole_figure_init(&f);
    f.kind = OLE_FIGURE_HISTOGRAM;
    f.title = title;
    f.x_label = "angle, degrees";
    f.y_label = "share of pairs, %";
    f.series = series;
    f.series_count = count;
    return f;
}

/* One view: both kinds of pairs in one figure. */
static void add_both_kinds(ole_page *page, const feature_view *v) {
    shares s[2];
    fill_shares(&s[0], &v->angles.within, v->angles.within_bins);
    fill_shares(&s[1], &v->angles.between, v->angles.between_bins);
    const ole_series series[2] = {
        {"within a class", s[0].bars, s[0].edges, s[0].heights, NULL, 0},
        {"between classes", s[1].bars, s[1].edges, s[1].heights, NULL, 0}};
    const ole_figure f = histogram("Angles between features", series, 2);
    char caption[200], within[64] = "no class has two of them",
                       between[64] = "all are of one class";
    if (v->angles.within.pairs > 0)
        snprintf(within, sizeof within, "on average %.1f° within a class", v->angles.within.mean);
    if (v->angles.between.pairs > 0)
        snprintf(between, sizeof between, "on average %.1f° between classes",
                 v->angles.between.mean);
    snprintf(caption, sizeof caption,
             "Angles of all pairs of %lld features: %s, %s. OLÉ asks for 0° and 90°.",
             (long long)v->angles.rows, within, between);
    ole_page_figure(page, &f, caption);
}

/* Several: a figure for each kind of pairs, the views in it. */
static void add_one_kind(ole_page *page, const feature_view *const *views, int count, bool within) {
    shares s[MOST_VIEWS];
    ole_series series[MOST_VIEWS];
    for (int i = 0; i < count; i++) {
        const ole_angles *a = &views[i]->angles;
        fill_shares(&s[i], within ? &a->within : &a->between,
                    within ? a->within_bins : a->between_bins);
        series[i] = (ole_series){views[i]->name, s[i].bars, s[i].edges, s[i].heights, NULL, 0};
    }
    const ole_figure f =
        histogram(within ? "Angles within classes" : "Angles between classes", series, count);
    ole_page_figure(page, &f,
                    within ? "Pairs of features of one class: the smaller, the tighter the class."
                           : "Pairs of features of different classes: at 90° the classes are "
                             "orthogonal.");
}

static void add_angle_picture(ole_page *page, const feature_view *v, bool several) {
    const ole_angles *a = &v->angles;
    char title[160];
    ole_figure f;
    if (!a->picture || a->side < 2) return;
    snprintf(title, sizeof title, several ? "Angles, %s" : "Angles by class", v->name);
    ole_figure_init(&f);
    f.kind = OLE_FIGURE_HEATMAP;
    f.title = title;
    f.values = a->picture;
    f.rows = f.columns = a->side;
    f.breaks = a->begins + 1; /* between classes: the first begins at 0 */
    f.break_count = (int)a->classes - 1;
    f.value_min = 0;
    f.value_max = RIGHT_ANGLE;
    f.value_label = "degrees";
    ole_page_figure(page, &f,
                    "Each feature against each, ordered by class. Light blocks on the diagonal are "
                    "tight classes; dark elsewhere are orthogonal ones.");
}

/* Those that are measured, MOST_VIEWS at most. */
static int measured_views(const feature_view *views, int count,
                          const feature_view *there[MOST_VIEWS]) {
    int found = 0;
    for (int i = 0; i < count && found < MOST_VIEWS; i++)
        if (views[i].measured) there[found++] = &views[i];
    return found;
}

void page_add_angles(ole_page *page, const feature_view *views, int count) {
    const feature_view *there[MOST_VIEWS];
    int found = measured_views(views, count, there);
    if (found == 1) add_both_kinds(page, there[0]);
    for (int kind = 0; kind < 2 && found > 1; kind++)
        add_one_kind(page, there, found, kind == 0);
    for (int i = 0; i < found; i++)
        add_angle_picture(page, there[i], found > 1);
}

/* ---- Spectra ------------------------------------------------------------------------------ */

/* Singular values over their largest, against their number; free() `values`, which holds both. */
typedef struct spectrum_line {
    int64_t count;
    double *values; /* [2, count] */
} spectrum_line;

static bool fill_all(spectrum_line *line, const ole_spectra *s) {
    line->count = s->all.count;
    line->values = malloc(2 * (size_t)line->count * sizeof *line->values);
    for (int64_t i = 0; line->values && i < line->count; i++) {
        double share = s->all.sigma[0] > 0 ? s->all.sigma[i] / s->all.sigma[0] : NAN;
        line->values[i] = (double)(i + 1);
        line->values[line->count + i] = share > 1e-9 ? share : NAN;
    }
    return line->values != NULL;
}

/* The mean over the classes that have so many. */
static bool fill_classes(spectrum_line *line, const ole_spectra *s) {
    line->count = 0;
    for (int64_t c = 0; c < s->classes; c++)
        if (s->of[c].count > line->count) line->count = s->of[c].count;
    line->values = malloc(2 * (size_t)line->count * sizeof *line->values);
    for (int64_t i = 0; line->values && i < line->count; i++) {
        double sum = 0;
        int64_t classes = 0;
        for (int64_t c = 0; c < s->classes; c++) {
            const ole_row_spectrum *of = &s->of[c];
            if (i >= of->count || !(of->sigma[0] > 0)) continue;
            sum += of->sigma[i] / of->sigma[0];
            classes++;
        }
        line->values[i] = (double)(i + 1);
        line->values[line->count + i] = sum > 1e-9 ? sum / (double)classes : NAN;
    }
    return line->values != NULL;
}

static void add_spectrum_figure(ole_page *page, const feature_view *const *views, int count,
                                bool classes) {
    spectrum_line lines[MOST_VIEWS] = {{0}};
    ole_series series[MOST_VIEWS];
    bool good = true;
    for (int i = 0; i < count && good; i++) {
        good = (classes ? fill_classes : fill_all)(&lines[i], &views[i]->spectra);
        series[i] = (ole_series){count > 1 ? views[i]->name : NULL, lines[i].count, lines[i].values,
                                 lines[i].values + lines[i].count,  NULL,           false};
    }
    ole_figure f;
    ole_figure_init(&f);
    f.title = classes ? "Singular values of a class" : "Singular values of all features";
    f.x_label = "number";
    f.y_label = "share of the largest";
    f.y_log = true;
    f.series = series;
    f.series_count = count;
    if (good)
        ole_page_figure(page, &f,
                        classes ? "Mean over the classes. The steeper the fall, the fewer "
                                  "directions a class needs: OLÉ makes it low-rank."
                                : "All features together: OLÉ keeps their norm large, a direction "
                                  "or more for each class.");
    else
        page_lacks_memory(page);
    for (int i = 0; i < count; i++)
        free(lines[i].values);
}

void page_add_spectra(ole_page *page, const feature_view *views, int count) {
    const feature_view *there[MOST_VIEWS];
    int found = measured_views(views, count, there);
    for (int kind = 0; kind < 2 && found > 0; kind++)
        add_spectrum_figure(page, there, found, kind == 0);
}

/* ---- Maps --------------------------------------------------------------------------------- */

void page_add_maps(ole_page *page, const feature_view *views, int count,
                   const ole_page_images *images) {
    for (int i = 0; i < count; i++) {
        const feature_view *v = &views[i];
        if (!v->map || v->classes > OLE_PAGE_MAP_CLASSES) continue;
        const ole_page_map map = {.count = v->count,
                                  .at = v->map,
                                  .labels = v->labels,
                                  .classes = v->classes,
                                  .names = v->class_names,
                                  .images = images && images->count == v->count ? images : NULL};
        char caption[240];
        snprintf(caption, sizeof caption, "%s%st-SNE of the features of %lld samples.",
                 count > 1 ? v->name : "", count > 1 ? ": " : "", (long long)v->count);
        ole_page_add_map(page, caption, &map);
    }
}
