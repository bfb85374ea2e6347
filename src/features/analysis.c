/* src/features/analysis.c - everything about an embedding, one measurement after the other. */
#include "ole/analyze.h"

#include "base/error.h"
#include "base/struct_size.h"
#include "features/classes.h"
#include "ole/tsne.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { FEWEST_ON_MAP = 8 };
static const double perplexity = 30.0; /* less for few points */

static const ole_analyze_options defaults = {.struct_size = sizeof(ole_analyze_options),
                                             .k = 5,
                                             .energy = 0.95,
                                             .sample = 10000,
                                             .picture = 500,
                                             .map = true,
                                             .threads = 1,
                                             .errors = true,
                                             .overlap = true};

void ole_analyze_options_init_sized(ole_analyze_options *options, size_t struct_size) {
    ole_struct_fill(options, struct_size, &defaults);
}

static void say(const ole_analyze_options *o, const char *what) {
    if (o->progress) o->progress(o->context, what, 0.0);
}

static bool stay_stopped(void *context) {
    (void)context;
    return true;
}

/* Whether the caller has asked to stop, now or before; `o` is our copy of the options. */
static bool stops(ole_analyze_options *o) {
    if (o->stop && o->stop(o->context)) o->stop = stay_stopped;
    return o->stop == stay_stopped;
}

/* ---- Numbers ------------------------------------------------------------------------------ */

static ole_status classify(ole_analysis *a, const ole_embedding *e, const ole_analyze_options *o,
                           ole_error *error) {
    const ole_classify_options options = {.struct_size = sizeof options,
                                          .k = o->k,
                                          .energy = o->energy,
                                          .sample = o->sample,
                                          .seed = o->seed,
                                          .threads = o->threads,
                                          .progress = o->progress,
                                          .context = o->context};
    a->tested = o->test != NULL;
    if (!o->errors) {
        a->errors = (ole_feature_errors){.knn1 = NAN, .knn = NAN, .centroid = NAN, .subspace = NAN};
        return OLE_OK;
    }
    return ole_classify_features(&a->errors, e, o->test, &options, error);
}

static ole_status find_overlaps(ole_analysis *a, const ole_embedding *e,
                                const ole_analyze_options *o, ole_error *error) {
    if (!o->overlap) return OLE_OK;
    int64_t pairs = a->classes < 1000 ? a->classes * (a->classes - 1) / 2 : OLE_MOST_OVERLAPS;
    if (pairs > OLE_MOST_OVERLAPS) pairs = OLE_MOST_OVERLAPS;
    a->overlaps = malloc(((size_t)pairs + 1) * sizeof *a->overlaps);
    if (!a->overlaps) return ole_fail(error, OLE_ERROR_MEMORY, "ole_analyze: out of memory");
    say(o, "overlaps");
    return ole_overlaps(e, o->energy, o->threads, a->overlaps, pairs, &a->overlap_count,
                        o->progress, o->context, error);
}

static ole_status measure_collapse(ole_analysis *a, const ole_embedding *e,
                                   const ole_analyze_options *o, ole_error *error) {
    a->collapse = (ole_collapse){a->classes, NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN, NULL};
    if (!o->overlap || a->classes < 2) return OLE_OK;
    say(o, "neural collapse");
    return ole_collapse_measure(&a->collapse, e, o->classifier, o->energy, o->threads, error);
}

static ole_status measure_retrieval(ole_analysis *a, const ole_embedding *e,
                                    const ole_analyze_options *o, ole_error *error) {
    if (!o->errors) return OLE_OK;
    return ole_retrieval_measure(&a->retrieval, e, o->test, o->sample, o->seed, o->threads,
                                 o->progress, o->context, error);
}

/* ---- Points ------------------------------------------------------------------------------- */

static ole_status draw_points(ole_analysis *a, const ole_embedding *e, const ole_analyze_options *o,
                              ole_error *error) {
    ole_classes classes;
    ole_status status = ole_classes_create(&classes, e->rows, e->labels, error);
    if (status != OLE_OK) return status;
    a->points = ole_sample_size(classes.rows, o->sample);
    a->point_rows = malloc((size_t)a->points * sizeof *a->point_rows);
    a->point_labels = malloc((size_t)a->points * sizeof *a->point_labels);
    if (a->point_rows && a->point_labels) {
        ole_sample_draw(classes.rows, o->sample, o->seed, a->point_rows);
        for (int64_t i = 0; i < a->points; i++) {
            a->point_rows[i] = classes.order[a->point_rows[i]];
            a->point_labels[i] = e->labels[a->point_rows[i]];
        }
    } else {
        status = ole_fail(error, OLE_ERROR_MEMORY, "ole_analyze: out of memory");
    }
    ole_classes_destroy(&classes);
    return status;
}

static ole_status copy_space(ole_analysis *a, const ole_embedding *e, ole_error *error) {
    if (e->dim != 2 && e->dim != 3) return OLE_OK;
    a->space = malloc((size_t)(a->points * e->dim) * sizeof *a->space);
    if (!a->space) return ole_fail(error, OLE_ERROR_MEMORY, "ole_analyze: out of memory");
    const ole_row_set set = ole_embedding_rows(e, a->point_rows, a->points);
    for (int64_t i = 0; i < a->points; i++)
        ole_row_copy(&set, i, a->space + i * e->dim);
    return OLE_OK;
}

static bool report_map(void *context, const ole_tsne_progress *progress) {
    ole_analyze_options *o = context;
    if (o->progress) o->progress(o->context, progress->stage, progress->share);
    return stops(o);
}

static ole_status make_map(ole_analysis *a, const ole_embedding *e, ole_analyze_options *o,
                           ole_error *error) {
    a->kl = NAN;
    if (!o->map || a->points < FEWEST_ON_MAP) return OLE_OK;
    size_t bytes = (size_t)e->dim * ole_dtype_size(e->dtype);
    char *rows = malloc((size_t)a->points * bytes);
    a->map = malloc(2 * (size_t)a->points * sizeof *a->map);
    ole_status status = OLE_ERROR_MEMORY;
    if (rows && a->map) {
        for (int64_t i = 0; i < a->points; i++)
            memcpy(rows + (size_t)i * bytes,
                   (const char *)e->features + (size_t)a->point_rows[i] * bytes, bytes);
        ole_tsne_options options;
        ole_tsne_options_init(&options);
        options.perplexity = fmin(perplexity, (double)((a->points - 1) / 3));
        options.seed = o->seed;
        options.threads = o->threads;
        options.callback = report_map;
        options.callback_context = o;
        status = ole_tsne(a->points, e->dim, e->dtype, rows, &options, a->map, &a->kl, error);
    } else {
        ole_fail(error, status, "ole_analyze: out of memory for a map of %lld points",
                 (long long)a->points);
    }
    free(rows);
    return status;
}

/* ---- All together ------------------------------------------------------------------------- */

static ole_status analyze(ole_analysis *a, const ole_embedding *e, ole_analyze_options *o,
                          ole_error *error) {
    ole_status status = classify(a, e, o, error);
    if (status != OLE_OK || stops(o)) return status;
    const ole_angles_options angles = {.struct_size = sizeof angles,
                                       .sample = o->sample,
                                       .picture = o->picture,
                                       .seed = o->seed,
                                       .threads = o->threads,
                                       .progress = o->progress,
                                       .context = o->context};
    status = ole_angles_measure(&a->angles, e, &angles, error);
    if (status != OLE_OK || stops(o)) return status;
    say(o, "spectra");
    status = ole_spectra_measure(&a->spectra, e, o->threads, error);
    if (status != OLE_OK || stops(o)) return status;
    a->rows = a->spectra.all.rows;
    a->ignored = e->rows - a->rows;
    a->dim = e->dim;
    a->classes = a->spectra.classes;
    a->names = o->names;
    a->name_count = o->name_count;
    status = find_overlaps(a, e, o, error);
    if (status != OLE_OK || stops(o)) return status;
    status = measure_collapse(a, e, o, error);
    if (status != OLE_OK || stops(o)) return status;
    status = measure_retrieval(a, e, o, error);
    if (status != OLE_OK || stops(o)) return status;
    status = draw_points(a, e, o, error);
    if (status == OLE_OK) status = copy_space(a, e, error);
    if (status == OLE_OK) status = make_map(a, e, o, error);
    return status;
}

ole_status ole_analyze(ole_analysis *analysis, const ole_embedding *e,
                       const ole_analyze_options *options, ole_error *error) {
    ole_analyze_options o = defaults;
    ole_status status =
        ole_struct_read(&o, options, OLE_SIZE_UP_TO(ole_analyze_options, classifier),
                        "ole_analyze_options_init", error);
    if (status != OLE_OK) return status;
    if (!analysis) return ole_fail(error, OLE_ERROR_ARGUMENT, "ole_analyze: analysis is NULL");
    ole_analysis a = {0};
    status = analyze(&a, e, &o, error);
    if (status != OLE_OK || stops(&o)) ole_analysis_free(&a);
    if (status == OLE_OK) *analysis = a;
    return status;
}

void ole_analysis_free(ole_analysis *a) {
    if (!a) return;
    ole_angles_free(&a->angles);
    ole_spectra_free(&a->spectra);
    free(a->overlaps);
    free(a->point_rows);
    free(a->point_labels);
    free(a->map);
    free(a->space);
    ole_collapse_free(&a->collapse);
    *a = (ole_analysis){0};
}
