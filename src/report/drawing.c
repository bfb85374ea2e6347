/*
 * src/report/drawing.c - the figures of an analysis, and learning curves.  A drawing owns what its
 * figure points to.
 */
#include "report/drawing.h"

#include "base/error.h"
#include "base/spread.h"
#include "report/canvas.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    LONGEST_NAME = 12,     /* in ems */
    MOST_CLASS_LINES = 10, /* spectra of classes, a line each */
    MOST_GROUPS = 100,     /* of points, told apart by colour and marker */
    MOST_BREAKS = 100,
};

struct ole_drawing {
    ole_figure figure;
    const char *name;
    ole_short_text caption;
    ole_series *series;
    double *numbers;              /* of all series */
    float *values;                /* of a heat map, where it is not the analysis's own */
    char (*text)[OLE_WORDS_ROOM]; /* names of classes */
    const char **names;           /* the same, as figures want them */
    char label[96];               /* of a series, where it holds a number */
};

/* Allocates series, their numbers and the names of groups; false without memory. */
static bool take_room(ole_drawing *d, int64_t series, int64_t numbers, int64_t names) {
    d->series = calloc((size_t)series + 1, sizeof *d->series);
    d->numbers = malloc(((size_t)numbers + 1) * sizeof *d->numbers);
    d->text = calloc((size_t)names + 1, sizeof *d->text);
    d->names = calloc((size_t)names + 1, sizeof *d->names);
    if (!d->series || !d->numbers || !d->text || !d->names) return false;
    for (int64_t i = 0; i < names; i++)
        d->names[i] = d->text[i];
    d->figure.series = d->series;
    d->figure.series_count = (int)series;
    return true;
}

/* A class's name, truncated if it is long; its label if it has none. */
static void name_class(const ole_analysis *a, int64_t label, char out[OLE_WORDS_ROOM]) {
    if (label < 0 || label >= a->name_count)
        snprintf(out, OLE_WORDS_ROOM, "%" PRId64, label);
    else
        ole_words_cut(out, a->names[label], 1.0, LONGEST_NAME);
}

/* " (50 rows drawn from 400)" of a sample, else "". */
static ole_short_text sample_text(int64_t count, int64_t of) {
    if (count >= of) return (ole_short_text){""};
    return ole_printed(" (%" PRId64 " rows drawn from %" PRId64 ")", count, of);
}

/* " without 3 rows of zeros", which have no angle; "" where there are none. */
static ole_short_text zeros_text(int64_t zeros) {
    if (zeros == 0) return (ole_short_text){""};
    return ole_printed(" excluding %" PRId64 " row%s of zeros", zeros, zeros > 1 ? "s" : "");
}

/* ---- Angles ------------------------------------------------------------------------------- */

static bool draw_angles(ole_drawing *d, const ole_analysis *a) {
    const ole_angles *angles = &a->angles;
    bool few = angles->classes <= MOST_BREAKS;
    if (!take_room(d, 0, 0, few ? angles->classes : 0)) return false;
    d->name = "angles";
    d->figure.kind = OLE_FIGURE_HEATMAP;
    d->figure.title = "Angles by class";
    d->figure.values = angles->picture;
    d->figure.rows = d->figure.columns = angles->side;
    d->figure.value_min = 0.0;
    d->figure.value_max = angles->between.pairs > 0 ? fmax(90.0, angles->between.q95) : 90.0;
    d->figure.value_label = "angle, degrees";
    if (few && angles->classes > 0) {
        d->figure.breaks = angles->begins + 1; /* between classes: the first begins at 0 */
        d->figure.break_count = (int)angles->classes - 1;
        d->figure.block_names = d->names;
        for (int64_t c = 0; c < angles->classes; c++)
            name_class(a, angles->labels[c], d->text[c]);
    }
    d->figure.width = 480;
    d->figure.height = 420;
    d->caption = ole_printed(
        "Angles between features, ordered by class%s%s. OLÉ aims at 0° inside the blocks and "
        "90° outside.",
        sample_text(angles->rows + angles->zeros, angles->of_rows).text,
        zeros_text(angles->zeros).text);
    return true;
}

static bool draw_histogram(ole_drawing *d, const ole_analysis *a) {
    const int64_t *bins[] = {a->angles.within_bins, a->angles.between_bins};
    const ole_angle_summary *summary[] = {&a->angles.within, &a->angles.between};
    static const char *const names[] = {"within classes", "between classes"};
    static const double ticks[] = {0, 15, 30, 45, 60, 75, 90, 105, 120, 135, 150, 165, 180};
    int last = 0;
    for (int i = 0; i < OLE_ANGLE_BINS; i++)
        if (bins[0][i] > 0 || bins[1][i] > 0) last = i;
    /* Right angles belong to the bar that ends at 90, where nothing lies beyond but rounding. */
    bool right = last == 90 && fmax(summary[0]->maximum, summary[1]->maximum) < 90.01;
    int64_t count = last < 90 || right ? 90 : last + 1;
    if (!take_room(d, 2, 3 * OLE_ANGLE_BINS + 1, 0)) return false;
    double *edges = d->numbers;
    for (int i = 0; i <= OLE_ANGLE_BINS; i++)
        edges[i] = i;
    for (int s = 0; s < 2; s++) {
        double *share = edges + OLE_ANGLE_BINS + 1 + s * OLE_ANGLE_BINS;
        for (int i = 0; i < OLE_ANGLE_BINS; i++)
            share[i] = summary[s]->pairs > 0
                           ? 100.0 * (double)bins[s][i] / (double)summary[s]->pairs
                           : 0.0;
        if (right) share[89] += share[90];
        d->series[s] = (ole_series){.name = names[s], .count = count, .x = edges, .y = share};
    }
    d->name = "angle-histogram";
    d->figure.kind = OLE_FIGURE_HISTOGRAM;
    d->figure.title = "Angles within and between classes";
    d->figure.x_label = "angle, degrees";
    d->figure.y_label = "pairs, %";
    d->figure.x_ticks = ticks;
    d->figure.x_tick_count = sizeof ticks / sizeof *ticks;
    char inside[64], outside[64] = "all rows compared have the same class";
    snprintf(inside, sizeof inside, "No class has two rows%s",
             a->angles.zeros > 0 ? " that are not zeros" : "");
    if (summary[0]->pairs > 0)
        snprintf(inside, sizeof inside, "Median %.1f° within classes", summary[0]->median);
    if (summary[1]->pairs > 0)
        snprintf(outside, sizeof outside, "%s%.1f° between them",
                 summary[0]->pairs > 0 ? "" : "median ", summary[1]->median);
    d->caption =
        ole_printed("%s, %s. Heights are shares of the pairs of each kind.", inside, outside);
    return true;
}

/* ---- Spectra ------------------------------------------------------------------------------ */

/* x = 1, 2, ... and y = σ/σ_max. */
static ole_series spectrum_line(const ole_row_spectrum *s, const char *name, double *numbers) {
    for (int64_t i = 0; i < s->count; i++) {
        numbers[i] = (double)(i + 1);
        numbers[s->count + i] = s->sigma[0] > 0.0 ? s->sigma[i] / s->sigma[0] : 0.0;
    }
    return (ole_series){.name = name, .count = s->count, .x = numbers, .y = numbers + s->count};
}

static bool draw_spectrum(ole_drawing *d, const ole_analysis *a) {
    const ole_row_spectrum *s = &a->spectra.all;
    if (!take_room(d, 2, 2 * s->count + 4, 0)) return false;
    d->series[0] = spectrum_line(s, "all rows", d->numbers);
    double *mark = d->numbers + 2 * s->count;
    mark[0] = mark[1] = (double)a->classes;
    mark[2] = 0.0;
    mark[3] = 1.0;
    snprintf(d->label, sizeof d->label, "%" PRId64 " classes", a->classes);
    d->series[1] =
        (ole_series){.name = d->label, .count = 2, .x = mark, .y = mark + 2, .dotted = true};
    d->figure.series_count = a->classes <= s->count ? 2 : 1;
    d->name = "spectrum";
    d->figure.title = "Singular values of the features";
    d->figure.x_label = "singular value";
    d->figure.y_label = "σ / largest σ";
    d->caption =
        ole_printed("OLÉ aims at one strong direction per class. Effective rank %.1f of %" PRId64
                    "; nuclear norm %.5g.",
                    s->effective_rank, s->count, s->norm);
    return true;
}

/* The mean over the classes that have such a value, and the deviation. */
static void mean_spectrum(ole_drawing *d, const ole_spectra *s, int64_t count) {
    double *x = d->numbers, *mean = x + count, *spread = mean + count;
    for (int64_t i = 0; i < count; i++) {
        double sum = 0.0, squares = 0.0, n = 0.0;
        for (int64_t c = 0; c < s->classes; c++) {
            const ole_row_spectrum *of = &s->of[c];
            if (i >= of->count || !(of->sigma[0] > 0.0)) continue;
            double value = of->sigma[i] / of->sigma[0];
            sum += value;
            squares += value * value;
            n += 1.0;
        }
        x[i] = (double)(i + 1);
        mean[i] = n > 0.0 ? sum / n : NAN;
        spread[i] = n > 0.0 ? sqrt(fmax(0.0, squares / n - mean[i] * mean[i])) : NAN;
    }
    d->series[0] = (ole_series){.name = "mean ± standard deviation over the classes",
                                .count = count,
                                .x = x,
                                .y = mean,
                                .spread = spread,
                                .band = true};
    d->figure.series_count = 1;
}

double ole_class_rank(const ole_spectra *s) {
    double rank = 0.0;
    for (int64_t c = 0; c < s->classes; c++)
        rank += s->of[c].effective_rank / (double)s->classes;
    return rank;
}

static bool draw_class_spectra(ole_drawing *d, const ole_analysis *a) {
    const ole_spectra *s = &a->spectra;
    int64_t longest = 0, numbers = 0;
    for (int64_t c = 0; c < s->classes; c++) {
        longest = s->of[c].count > longest ? s->of[c].count : longest;
        numbers += 2 * s->of[c].count;
    }
    bool each = s->classes <= MOST_CLASS_LINES;
    if (!take_room(d, each ? s->classes : 1, each ? numbers : 3 * longest, each ? s->classes : 0))
        return false;
    double *next = d->numbers;
    for (int64_t c = 0; each && c < s->classes; c++) {
        name_class(a, s->of[c].label, d->text[c]);
        d->series[c] = spectrum_line(&s->of[c], d->names[c], next);
        next += 2 * s->of[c].count;
    }
    if (!each) mean_spectrum(d, s, longest);
    d->name = "class-spectra";
    d->figure.title = "Singular values of each class";
    d->figure.x_label = "singular value";
    d->figure.y_label = "σ / largest σ";
    d->caption =
        ole_printed("OLÉ aims at low rank within classes. Mean effective rank per class: %.1f.",
                    ole_class_rank(s));
    return true;
}

/* ---- Overlaps ----------------------------------------------------------------------------- */

static int64_t class_of(const ole_spectra *s, int64_t label) {
    int64_t low = 0, high = s->classes - 1;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (s->of[middle].label < label)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool draw_overlaps(ole_drawing *d, const ole_analysis *a) {
    int64_t n = a->classes;
    d->values = malloc((size_t)(n * n) * sizeof *d->values);
    if (!d->values || !take_room(d, 0, 0, n)) return false;
    for (int64_t i = 0; i < n * n; i++)
        d->values[i] = i % (n + 1) == 0 ? 0.0f : NAN;
    for (int64_t i = 0; i < a->overlap_count; i++) {
        int64_t x = class_of(&a->spectra, a->overlaps[i].label_a);
        int64_t y = class_of(&a->spectra, a->overlaps[i].label_b);
        d->values[x * n + y] = d->values[y * n + x] = (float)a->overlaps[i].angle;
    }
    for (int64_t c = 0; c < n; c++)
        name_class(a, a->spectra.of[c].label, d->text[c]);
    d->name = "overlaps";
    d->figure.kind = OLE_FIGURE_HEATMAP;
    d->figure.title = "Smallest principal angle between classes";
    d->figure.values = d->values;
    d->figure.rows = d->figure.columns = n;
    d->figure.value_min = 0.0;
    d->figure.value_max = 90.0;
    d->figure.value_label = "angle, degrees";
    d->figure.row_names = d->figure.column_names = d->names;
    d->figure.width = 460;
    d->figure.height = 400;
    d->caption = ole_printed(
        "Between the principal subspaces of two classes, with %.1f directions on average; 90° "
        "where they are orthogonal.",
        a->errors.directions);
    return true;
}

/* ---- Points ------------------------------------------------------------------------------- */

/* Positions xy[points, 2] in groups by label, which lie one after the other; room for `more`
 * series of two points. */
static bool draw_groups(ole_drawing *d, const ole_analysis *a, const double *xy, int64_t more) {
    bool groups = a->classes <= MOST_GROUPS;
    if (!take_room(d, (groups ? a->classes : 1) + more, 2 * a->points + 4 * more, MOST_GROUPS))
        return false;
    double *x = d->numbers, *y = x + a->points;
    int count = 0;
    for (int64_t i = 0; i < a->points; i++) {
        x[i] = xy[2 * i];
        y[i] = xy[2 * i + 1];
        if (i == 0 || (groups && a->point_labels[i] != a->point_labels[i - 1])) {
            if (groups) name_class(a, a->point_labels[i], d->text[count]);
            d->series[count] =
                (ole_series){.name = groups ? d->names[count] : NULL, .x = x + i, .y = y + i};
            count++;
        }
        d->series[count - 1].count++;
    }
    d->figure.kind = OLE_FIGURE_SCATTER;
    d->figure.series_count = count;
    d->figure.width = 460;
    d->figure.height = 440;
    return true;
}

static ole_short_text map_caption(const ole_analysis *a) {
    return ole_printed("Neighbouring features stay neighbours%s; large distances mean little.",
                       sample_text(a->points, a->rows).text);
}

static bool draw_map(ole_drawing *d, const ole_analysis *a) {
    if (!draw_groups(d, a, a->map, 0)) return false;
    d->name = "map";
    d->figure.title = "t-SNE map";
    d->caption = map_caption(a);
    return true;
}

/* Seen from (1, 1, 1), so that the three axes are 120 degrees apart. */
static void project(const double *from, double to[2]) {
    to[0] = (from[1] - from[0]) * sqrt(1.0 / 2.0);
    to[1] = from[2] * sqrt(2.0 / 3.0) - (from[0] + from[1]) * sqrt(1.0 / 6.0);
}

/* The three axes as lines from the origin, as long as the longest coordinate. */
static void add_axes(ole_drawing *d, const ole_analysis *a) {
    static const char *const names[] = {"axis 1", "axis 2", "axis 3"};
    double longest = 0.0, *line = d->numbers + 2 * a->points;
    for (int64_t i = 0; i < 3 * a->points; i++)
        longest = fmax(longest, fabs(a->space[i]));
    for (int i = 0; i < 3; i++, line += 4) {
        double end[3] = {0.0, 0.0, 0.0}, to[2];
        end[i] = longest;
        project(end, to);
        line[0] = line[2] = 0.0;
        line[1] = to[0];
        line[3] = to[1];
        d->series[d->figure.series_count++] =
            (ole_series){.name = names[i], .count = 2, .x = line, .y = line + 2, .dotted = true};
    }
}

/* The same scale along both axes: the ranges of the figure become a square. */
static void make_square(ole_drawing *d) {
    double low[2] = {INFINITY, INFINITY}, high[2] = {-INFINITY, -INFINITY}, half = 0.0;
    for (int s = 0; s < d->figure.series_count; s++)
        for (int64_t i = 0; i < d->series[s].count; i++) {
            const double at[] = {d->series[s].x[i], d->series[s].y[i]};
            for (int k = 0; k < 2; k++) {
                low[k] = fmin(low[k], at[k]);
                high[k] = fmax(high[k], at[k]);
            }
        }
    for (int k = 0; k < 2; k++)
        half = fmax(half, 0.54 * (high[k] - low[k]));
    if (!(half > 0.0)) return;
    d->figure.x_min = (low[0] + high[0]) / 2 - half;
    d->figure.x_max = (low[0] + high[0]) / 2 + half;
    d->figure.y_min = (low[1] + high[1]) / 2 - half;
    d->figure.y_max = (low[1] + high[1]) / 2 + half;
}

static bool draw_space(ole_drawing *d, const ole_analysis *a) {
    bool deep = a->dim == 3;
    double *xy = malloc((size_t)(2 * a->points + 1) * sizeof *xy);
    if (!xy) return false;
    for (int64_t i = 0; i < a->points; i++) {
        if (deep)
            project(a->space + 3 * i, xy + 2 * i);
        else
            memcpy(xy + 2 * i, a->space + 2 * i, 2 * sizeof *xy);
    }
    bool good = draw_groups(d, a, xy, deep ? 3 : 0);
    free(xy);
    if (!good) return false;
    if (deep) add_axes(d, a);
    if (deep) d->figure.space = a->space;
    make_square(d);
    d->name = "space";
    d->figure.title = deep ? "The features in three dimensions" : "The features in two dimensions";
    if (!deep) {
        d->figure.x_label = "dimension 1";
        d->figure.y_label = "dimension 2";
    }
    d->caption = ole_printed("The features themselves, not a map%s",
                             deep ? "; viewed from (1, 1, 1)." : ".");
    return true;
}

/* ---- The call ----------------------------------------------------------------------------- */

static bool has(const ole_analysis *a, ole_drawing_kind kind) {
    switch (kind) {
    case OLE_DRAW_ANGLES:
        return a->angles.side > 0;
    case OLE_DRAW_HISTOGRAM:
        return a->angles.within.pairs + a->angles.between.pairs > 0;
    case OLE_DRAW_OVERLAPS:
        return a->overlap_count > 0 && a->classes <= 100;
    case OLE_DRAW_MAP:
        return a->map != NULL;
    case OLE_DRAW_SPACE:
        return a->space != NULL;
    default:
        return true;
    }
}

ole_status ole_analysis_draw(ole_drawing **drawing, const ole_analysis *a, ole_drawing_kind kind,
                             ole_error *error) {
    static bool (*const draw[OLE_DRAWINGS])(ole_drawing *, const ole_analysis *) = {
        draw_angles,   draw_histogram, draw_spectrum, draw_class_spectra,
        draw_overlaps, draw_map,       draw_space};
    if (!drawing || !a || (int)kind < 0 || kind >= OLE_DRAWINGS)
        return ole_fail(error, OLE_ERROR_ARGUMENT,
                        "ole_analysis_draw: drawing or analysis is NULL, or kind %d is none",
                        (int)kind);
    *drawing = NULL;
    if (!has(a, kind)) return OLE_OK;
    ole_drawing *d = calloc(1, sizeof *d);
    if (d) ole_figure_init(&d->figure);
    if (!d || !draw[kind](d, a)) {
        ole_drawing_free(d);
        return ole_fail(error, OLE_ERROR_MEMORY, "ole_analysis_draw: out of memory");
    }
    *drawing = d;
    return OLE_OK;
}

/* The number of epoch i of a run and its seeds: NaN where none of them has it. */
static ole_spread number_of(const ole_curve *c, int64_t i) {
    ole_spread all = {0};
    for (int k = 0; k <= c->seed_count; k++) {
        const ole_history *run = k == 0 ? c->run : c->seeds[k - 1];
        double value = NAN;
        if (i < run->count) memcpy(&value, (const char *)&run->epochs[i] + c->offset, sizeof value);
        if (isfinite(value)) ole_spread_add(&all, c->accuracy ? 100.0 - value : value);
    }
    return all;
}

ole_status ole_curves_draw(ole_drawing **drawing, const ole_curve *curves, int count,
                           const char *title, const char *y_label, ole_error *error) {
    int64_t numbers = 0, points = 0;
    for (int c = 0; c < count; c++)
        numbers += 3 * curves[c].run->count;
    *drawing = NULL;
    ole_drawing *d = calloc(1, sizeof *d);
    if (d) ole_figure_init(&d->figure);
    if (!d || !take_room(d, count, numbers, 0)) {
        ole_drawing_free(d);
        return ole_fail(error, OLE_ERROR_MEMORY, "ole_curves_draw: out of memory");
    }
    double *x = d->numbers;
    for (int c = 0; c < count; c++) {
        const ole_curve *from = &curves[c];
        int64_t epochs = from->run->count;
        double *y = x + epochs, *deviation = y + epochs;
        ole_series *to = &d->series[c];
        *to = (ole_series){.x = x, .y = y, .dotted = from->dotted};
        if (from->seed_count > 0) to->spread = deviation, to->band = true;
        for (int64_t i = 0; i < epochs; i++) {
            ole_spread value = number_of(from, i);
            if (value.count == 0) continue;
            x[to->count] = (double)from->run->epochs[i].epoch;
            deviation[to->count] = ole_spread_deviation(&value);
            y[to->count++] = value.mean;
        }
        if (to->count > 0) to->name = from->name;
        points += to->count;
        x = deviation + epochs;
    }
    d->figure.title = title;
    d->figure.x_label = "epoch";
    d->figure.y_label = y_label;
    if (points > 0)
        *drawing = d;
    else
        ole_drawing_free(d);
    return OLE_OK;
}

const ole_figure *ole_drawing_figure(const ole_drawing *drawing) {
    return &drawing->figure;
}

const char *ole_drawing_name(const ole_drawing *drawing) {
    return drawing->name;
}

const char *ole_drawing_caption(const ole_drawing *drawing) {
    return drawing->caption.text;
}

void ole_drawing_free(ole_drawing *d) {
    if (!d) return;
    free(d->series);
    free(d->numbers);
    free(d->values);
    free(d->text);
    free(d->names);
    free(d);
}

/* Images are in the order of the rows, and so are the points with images. */
static bool add_points(ole_page *page, const ole_analysis *a, const char *name,
                       const ole_page_images *images, ole_drawing *d, int32_t *labels) {
    if (!d || !labels || !take_room(d, 0, 2 * a->points, a->classes)) return false;
    for (int64_t c = 0; c < a->classes; c++) { /* names whole, to be searched */
        int64_t label = a->spectra.of[c].label;
        name_class(a, label, d->text[c]);
        if (label >= 0 && label < a->name_count) d->names[c] = a->names[label];
    }
    for (int64_t i = 0; i < a->points; i++) {
        int64_t to = images ? a->point_rows[i] : i;
        memcpy(d->numbers + 2 * to, a->map + 2 * i, 2 * sizeof *a->map);
        labels[to] = (int32_t)class_of(&a->spectra, a->point_labels[i]);
    }
    ole_page_add_map(page, map_caption(a).text,
                     &(ole_page_map){.title = name,
                                     .count = a->points,
                                     .at = d->numbers,
                                     .labels = labels,
                                     .classes = (int)a->classes,
                                     .names = d->names,
                                     .images = images});
    return true;
}

void ole_analysis_add_map(ole_page *page, const ole_analysis *a, const char *name,
                          const ole_page_images *images) {
    if (!a->map) return;
    ole_drawing *d = NULL;
    ole_error error;
    if (a->classes > OLE_PAGE_MAP_CLASSES) { /* more than boxes to check: as a figure */
        if (ole_analysis_draw(&d, a, OLE_DRAW_MAP, &error) == OLE_OK) {
            if (name) d->figure.title = name;
            ole_page_figure(page, &d->figure, d->caption.text);
        } else {
            ole_page_fail(page, error.status, error.message);
        }
    } else {
        int32_t *labels = malloc((size_t)a->points * sizeof *labels);
        if (images && (images->count != a->points || a->points < a->rows + a->ignored))
            images = NULL;
        d = calloc(1, sizeof *d);
        if (!add_points(page, a, name, images, d, labels))
            ole_page_fail(page, OLE_ERROR_MEMORY, "page: out of memory for the map");
        free(labels);
    }
    ole_drawing_free(d);
}
