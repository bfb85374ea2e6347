/*
 * cli/pages/analyze_page.c - an analysis as figures in a folder and as a page.
 */
#include "pages/analyze_page.h"

#include "common/common.h"

#include "report/drawing.h"

#include <inttypes.h>
#include <stdio.h>

enum { CELL = 48, PAIRS = 10 };

static void headline(figure_output *p, const char *label, const char *format, double value,
                     const char *note) {
    char text[CELL];
    snprintf(text, sizeof text, format, value);
    figure_output_headline(p, label, text, note);
}

static void add_headlines(figure_output *p, const ole_analysis *a) {
    char note[96];
    const ole_feature_errors *e = &a->errors;
    const char *how = a->tested ? "test rows" : "rows, each by all others";
    snprintf(note, sizeof note, "%" PRId64 " %s", e->queries, how);
    headline(p, "1-NN error", "%.2f %%", e->knn1, note);
    snprintf(note, sizeof note, "%.1f directions a class", e->directions);
    headline(p, "nearest-subspace error", "%.2f %%", e->subspace, note);
    if (a->angles.within.pairs > 0)
        headline(p, "angle inside classes", "%.1f°", a->angles.within.median, "median; OLÉ: 0°");
    if (a->angles.between.pairs > 0)
        headline(p, "angle between classes", "%.1f°", a->angles.between.median, "median; OLÉ: 90°");
    snprintf(note, sizeof note, "(%.5g − %.5g) / %" PRId64, a->spectra.class_term,
             a->spectra.global_norm, a->rows);
    headline(p, "OLÉ loss", "%.4g", a->spectra.loss, note);
}

/* ---- Tables ------------------------------------------------------------------------------- */

static void add_errors(figure_output *p, const ole_analysis *a) {
    const ole_feature_errors *e = &a->errors;
    const struct {
        const char *name;
        double percent;
    } rows[] = {{"1-NN, cosine", e->knn1},
                {"", e->knn},
                {"nearest centroid, cosine", e->centroid},
                {"nearest class subspace", e->subspace}};
    static const char *const names[] = {"classifier", "error, %"};
    char text[4][2][CELL], caption[160];
    const char *cells[8];
    for (int i = 0; i < 4; i++) {
        snprintf(text[i][0], CELL, "%s", rows[i].name);
        if (i == 1) snprintf(text[i][0], CELL, "%d-NN, cosine", e->k);
        snprintf(text[i][1], CELL, "%.2f", rows[i].percent);
        cells[2 * i] = text[i][0];
        cells[2 * i + 1] = text[i][1];
    }
    snprintf(caption, sizeof caption, "%s: %" PRId64 " of %" PRId64 " rows, by %" PRId64 " rows.",
             a->tested ? "Test set" : "Each row by all others", e->queries, e->of_queries,
             e->references);
    figure_output_table(p, caption, 4, 2, names, cells);
}

static void add_angle_table(figure_output *p, const ole_analysis *a) {
    static const char *const names[] = {"pairs", "number", "mean", "least", "5 %",
                                        "25 %",  "median", "75 %", "95 %",  "most"};
    enum { COLUMNS = sizeof names / sizeof *names };
    const ole_angle_summary *of[] = {&a->angles.within, &a->angles.between};
    char text[2][COLUMNS][CELL];
    const char *cells[2 * COLUMNS];
    for (int r = 0; r < 2; r++) {
        const ole_angle_summary *s = of[r];
        const double values[] = {s->mean,   s->minimum, s->q05, s->q25,
                                 s->median, s->q75,     s->q95, s->maximum};
        snprintf(text[r][0], CELL, "%s", r == 0 ? "inside a class" : "between classes");
        snprintf(text[r][1], CELL, "%" PRId64, s->pairs);
        for (int c = 2; c < COLUMNS; c++)
            snprintf(text[r][c], CELL, s->pairs > 0 ? "%.2f" : "–", values[c - 2]);
        for (int c = 0; c < COLUMNS; c++)
            cells[r * COLUMNS + c] = text[r][c];
    }
    figure_output_table(p, "Angles in degrees.", 2, COLUMNS, names, cells);
}

static void add_overlap_table(figure_output *p, const ole_analysis *a) {
    static const char *const names[] = {"class", "class", "angle, degrees"};
    char text[PAIRS][3][CELL];
    const char *cells[3 * PAIRS];
    int64_t rows = a->overlap_count < PAIRS ? a->overlap_count : PAIRS;
    for (int64_t i = 0; i < rows; i++) {
        snprintf(text[i][0], CELL, "%" PRId64, a->overlaps[i].label_a);
        snprintf(text[i][1], CELL, "%" PRId64, a->overlaps[i].label_b);
        snprintf(text[i][2], CELL, "%.2f", a->overlaps[i].angle);
        for (int c = 0; c < 3; c++)
            cells[3 * i + c] = text[i][c];
    }
    if (rows > 0) figure_output_table(p, "Classes that overlap most.", rows, 3, names, cells);
}

/* ---- The page ----------------------------------------------------------------------------- */

static void add_drawing(figure_output *p, const ole_analysis *a, ole_drawing_kind kind) {
    ole_drawing *drawing;
    ole_error error;
    if (p->failed) return;
    if (ole_analysis_draw(&drawing, a, kind, &error) != OLE_OK) {
        fail_command(p->command, "%s", error.message);
        p->failed = true;
        return;
    }
    if (!drawing) return;
    figure_output_add(p, ole_drawing_figure(drawing), ole_drawing_name(drawing),
                      ole_drawing_caption(drawing));
    ole_drawing_free(drawing);
}

/* The map: one to pan and zoom on the page, a plain figure in the folder. */
static void add_map(figure_output *p, const ole_analysis *a) {
    if (!a->map) return;
    figure_output_section(p, "Map");
    if (p->page) ole_analysis_add_map(p->page, a, NULL, NULL);
    figure_output files = *p;
    files.page = NULL;
    add_drawing(&files, a, OLE_DRAW_MAP);
    p->failed = files.failed;
}

int write_analysis(const figure_options *options, const ole_analysis *a, const char *source) {
    figure_output p;
    char subtitle[320];
    snprintf(subtitle, sizeof subtitle,
             "%.200s: %" PRId64 " rows of %" PRId64 " dimensions, %" PRId64 " classes", source,
             a->rows, a->dim, a->classes);
    int code = figure_output_open(&p, "analyze", options, "Features", subtitle);
    if (code != EXIT_DONE) return code;
    add_headlines(&p, a);
    figure_output_section(&p, "Errors");
    add_errors(&p, a);
    add_map(&p, a);
    if (a->space) figure_output_section(&p, "Features");
    add_drawing(&p, a, OLE_DRAW_SPACE);
    figure_output_section(&p, "Angles");
    add_drawing(&p, a, OLE_DRAW_ANGLES);
    add_drawing(&p, a, OLE_DRAW_HISTOGRAM);
    add_angle_table(&p, a);
    figure_output_section(&p, "Singular values");
    add_drawing(&p, a, OLE_DRAW_SPECTRUM);
    add_drawing(&p, a, OLE_DRAW_CLASS_SPECTRA);
    figure_output_section(&p, "Overlaps");
    add_drawing(&p, a, OLE_DRAW_OVERLAPS);
    add_overlap_table(&p, a);
    return figure_output_close(&p);
}
