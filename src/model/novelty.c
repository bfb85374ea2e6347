/* src/model/novelty.c - known versus novel samples: scores, thresholds, curves, calibration. */
#include "ole/train/novelty.h"
#include "base/error.h"
#include "base/pool.h"
#include "base/sort.h"
#include "base/struct_size.h"
#include "data/dataset.h"
#include "features/subspace.h"
#include "model/calibration.h"
#include "model/confidence.h"
#include "model/model.h"
#include "model/threshold.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- The directions of known classes ------------------------------------------------------ */

/* What the scores of features compare with, from the training features. */
struct ole_novelty_directions {
    ole_score_directions subspaces; /* orthonormal, 95 % of each class's energy */
    ole_score_directions means;     /* one per class: the mean of its features, at length 1 */
};

static ole_status find_subspaces(ole_score_directions *d, const ole_outputs *training, int classes,
                                 int64_t dim, ole_pool *pool, int threads, ole_error *error) {
    ole_subspaces s;
    ole_status status = ole_outputs_subspaces(&s, training, dim, pool, threads, error);
    if (status != OLE_OK) return status;
    int64_t rows = 0;
    for (int64_t c = 0; c < s.classes; c++)
        rows += s.of[c].size;
    status = ole_score_directions_make(d, classes, dim, rows, error);
    float *to = d->basis;
    for (int64_t c = 0; c < s.classes && status == OLE_OK; c++) { /* by rising label */
        d->size[s.of[c].label] = s.of[c].size;
        for (int64_t i = 0; i < s.of[c].size * dim; i++)
            *to++ = (float)s.of[c].basis[i];
    }
    ole_subspaces_destroy(&s);
    return status;
}

/* Adds x / ‖x‖ to `sum`; a row of zeros adds nothing. */
static void add_unit(double *sum, const float *x, int64_t dim) {
    double square = 0.0;
    for (int64_t k = 0; k < dim; k++)
        square += (double)x[k] * x[k];
    for (int64_t k = 0; k < dim && square > 0.0; k++)
        sum[k] += x[k] / sqrt(square);
}

static ole_status find_means(ole_score_directions *d, const ole_outputs *training, int classes,
                             int64_t dim, ole_error *error) {
    ole_status status = ole_score_directions_make(d, classes, dim, classes, error);
    double *sums = calloc((size_t)(classes * dim), sizeof *sums);
    if (status == OLE_OK && !sums) status = ole_fail(error, OLE_ERROR_MEMORY, "out of memory");
    for (int64_t i = 0; i < training->count && status == OLE_OK; i++)
        add_unit(sums + training->labels[i] * dim, training->features + i * dim, dim);
    for (int c = 0; c < classes && status == OLE_OK; c++) {
        double *sum = sums + c * dim, square = 0.0;
        for (int64_t k = 0; k < dim; k++)
            square += sum[k] * sum[k];
        d->size[c] = 1;
        for (int64_t k = 0; k < dim; k++)
            d->basis[c * dim + k] = square > 0.0 ? (float)(sum[k] / sqrt(square)) : 0.0f;
    }
    free(sums);
    return status;
}

static const ole_novelty_options defaults = {.struct_size = sizeof(ole_novelty_options),
                                             .keep = 0.95,
                                             .known_split = OLE_SPLIT_TEST,
                                             .novel_split = OLE_SPLIT_TEST,
                                             .novel_all = true,
                                             .threads = 1};

void ole_novelty_options_init_sized(ole_novelty_options *options, size_t struct_size) {
    ole_struct_fill(options, struct_size, &defaults);
}

/* A measurement. */
typedef struct work {
    ole_model *model;
    const ole_model_info *info;
    const ole_dataset *known, *novel;
    const ole_novelty_options *options;
    ole_pool *pool;
    ole_outputs validation, judged, strange; /* of the known set (both), of the novel set */
    bool interrupted;
} work;

/* ---- Checks ------------------------------------------------------------------------------- */

static ole_status check_options(const ole_novelty_options *o, ole_error *error) {
    if (!(o->keep > 0.0 && o->keep <= 1.0))
        return ole_fail(error, OLE_ERROR_ARGUMENT,
                        "options.keep is %g: give a share over 0, at most 1", o->keep);
    if (!(o->temperature >= 0.0 && isfinite(o->temperature)))
        return ole_fail(error, OLE_ERROR_ARGUMENT,
                        "options.temperature is %g: give 0 to fit it, or more", o->temperature);
    if (!ole_is_split(o->known_split) || !ole_is_split(o->novel_split))
        return ole_fail(error, OLE_ERROR_ARGUMENT,
                        "options.known_split is %d, options.novel_split %d: give an ole_split",
                        (int)o->known_split, (int)o->novel_split);
    if (o->threads < 1 || o->threads > 1024)
        return ole_fail(error, OLE_ERROR_ARGUMENT, "options.threads is %d: give 1 to 1024",
                        o->threads);
    return OLE_OK;
}

/* The model and the known set must have the same class names, in the same order. */
static ole_status check_classes(const work *w, ole_error *error) {
    const ole_dataset_info *set = ole_dataset_get_info(w->known);
    if (set->classes < w->info->classes)
        return ole_fail(error, OLE_ERROR_ARGUMENT,
                        "the model knows %d classes, the known set %s has %d: the threshold is "
                        "found on samples of all of them; give the set that it was trained on",
                        w->info->classes, set->name, set->classes);
    if (set->classes > w->info->classes)
        return ole_fail(error, OLE_ERROR_ARGUMENT,
                        "the model knows %d classes, the known set %s has %d: choose them with "
                        "--known-classes",
                        w->info->classes, set->name, set->classes);
    for (int c = 0; c < set->classes; c++)
        if (strcmp(set->class_names[c], w->info->class_names[c]) != 0)
            return ole_fail(error, OLE_ERROR_ARGUMENT,
                            "class %d of the model is '%.100s', that of the known set %s is "
                            "'%.100s': choose them with --known-classes, in the model's order",
                            c, w->info->class_names[c], set->name, set->class_names[c]);
    return OLE_OK;
}

static ole_status check_data(const work *w, ole_error *error) {
    const ole_dataset_info *known = ole_dataset_get_info(w->known);
    const ole_dataset_info *novel = ole_dataset_get_info(w->novel); /* or NULL */
    if (!w->info->classifier)
        return ole_fail(error, OLE_ERROR_ARGUMENT,
                        "the model was trained with OLE alone: its classifier was not trained, so "
                        "that its scores mean nothing; train with --loss softmax+ole");
    ole_status status = check_classes(w, error);
    if (status != OLE_OK) return status;
    if (known->count[OLE_SPLIT_VALIDATION] == 0)
        return ole_fail(error, OLE_ERROR_ARGUMENT,
                        "%s has no validation samples to set the threshold on: train with "
                        "--val-split 10%%, and give the same here",
                        known->name);
    if (known->count[w->options->known_split] == 0)
        return ole_fail(error, OLE_ERROR_ARGUMENT, "the known set %s has no samples in this split",
                        known->name);
    const int64_t none[3] = {0}, *count = novel ? novel->count : none;
    if (novel && (w->options->novel_all ? count[0] + count[1] + count[2]
                                        : count[w->options->novel_split]) == 0)
        return ole_fail(error, OLE_ERROR_ARGUMENT, "the novel set %s has no samples in this split",
                        novel->name);
    return OLE_OK;
}

/* ---- Collecting --------------------------------------------------------------------------- */

/* One split, or all three, unless an earlier call was interrupted. */
static ole_status collect(work *w, ole_outputs *to, const char *name, const ole_dataset *set,
                          ole_split split, bool all, ole_error *error) {
    if (w->interrupted) return OLE_OK;
    const ole_novelty_options *o = w->options;
    const ole_part part = {name, set, split, all, o->callback, o->callback_context};
    return ole_outputs_collect(to, w->model, &part, true, &w->interrupted, error);
}

static ole_status collect_all(work *w, ole_novelty *n, ole_error *error) {
    const ole_novelty_options *o = w->options;
    ole_outputs training = {0};
    n->directions = calloc(1, sizeof *n->directions);
    if (!n->directions) return ole_fail(error, OLE_ERROR_MEMORY, "out of memory");
    ole_status status = collect(w, &w->validation, "validation samples", w->known,
                                OLE_SPLIT_VALIDATION, false, error);
    if (status == OLE_OK)
        status = collect(w, &w->judged, "known samples", w->known, o->known_split, false, error);
    if (status == OLE_OK && w->novel)
        status =
            collect(w, &w->strange, "novel samples", w->novel, o->novel_split, o->novel_all, error);
    if (status == OLE_OK)
        status = collect(w, &training, "training samples", w->known, OLE_SPLIT_TRAIN, false, error);
    if (status == OLE_OK && !w->interrupted)
        status = find_subspaces(&n->directions->subspaces, &training, w->info->classes,
                                w->info->features, w->pool, o->threads, error);
    if (status == OLE_OK && !w->interrupted)
        status = find_means(&n->directions->means, &training, w->info->classes, w->info->features,
                            error);
    ole_outputs_free(&training);
    return status;
}

/* ---- Scores ------------------------------------------------------------------------------- */

static ole_scorer make_scorer(const ole_novelty *n, ole_score score, int classes) {
    return (ole_scorer){score, classes, n->after.temperature,
                        score == OLE_SCORE_COSINE ? &n->directions->means
                                                  : &n->directions->subspaces};
}

/* Scoring in parallel: samples from task * ROWS on are one task. */
enum { ROWS = 64 };

typedef struct scoring {
    const ole_scorer *scorer;
    const ole_outputs *outputs;
    int64_t features;
    double *scores;
} scoring;

static void score_rows(void *context, int64_t task, int worker) {
    (void)worker;
    const scoring *s = context;
    int64_t end = (task + 1) * ROWS;
    for (int64_t i = task * ROWS; i < end && i < s->outputs->count; i++)
        s->scores[i] = ole_score_sample(s->scorer, s->outputs->features + i * s->features,
                                        s->outputs->logits + i * s->scorer->classes);
}

/* The scores of all samples; free() them. NULL without memory. */
static double *score_all(const work *w, const ole_scorer *scorer, const ole_outputs *o) {
    scoring s = {scorer, o, w->info->features, malloc(((size_t)o->count + 1) * sizeof(double))};
    if (s.scores) ole_pool_run(w->pool, (o->count + ROWS - 1) / ROWS, score_rows, &s);
    return s.scores;
}

static double share_from(const double *scores, int64_t count, double threshold) {
    int64_t over = 0;
    for (int64_t i = 0; i < count; i++)
        over += scores[i] >= threshold;
    return 100.0 * (double)over / (double)count;
}

/* The share of known samples classified right and kept, at each threshold of the curve, in %. */
static ole_status trace_accuracy(ole_novelty_score *s, const ole_novelty *n, ole_error *error) {
    double *right = malloc((size_t)n->known_count * sizeof *right);
    s->accuracy_at = malloc(((size_t)s->roc.points + 1) * sizeof *s->accuracy_at);
    if (!right || !s->accuracy_at) {
        free(right);
        return ole_fail(error, OLE_ERROR_MEMORY, "out of memory for a curve");
    }
    int64_t count = 0, kept = 0, over = 0;
    for (int64_t i = 0; i < n->known_count; i++) {
        if (n->known_predicted[i] != n->known_label[i]) continue;
        right[count++] = s->known[i];
        kept += s->known[i] >= s->threshold;
    }
    s->accuracy = 100.0 * (double)kept / (double)n->known_count;
    qsort(right, (size_t)count, sizeof *right, ole_by_falling_double);
    for (int64_t p = 0; p < s->roc.points; p++) {
        while (over < count && right[over] >= s->roc.threshold[p])
            over++;
        s->accuracy_at[p] = 100.0 * (double)over / (double)n->known_count;
    }
    free(right);
    return OLE_OK;
}

static ole_status measure_score(const work *w, ole_novelty *n, ole_score score, ole_error *error) {
    ole_novelty_score *s = &n->score[score - 1];
    s->score = score;
    s->roc.auroc = s->roc.ap_positive = s->roc.ap_negative = s->roc.fpr95 = s->accepted = NAN;
    const ole_scorer scorer = make_scorer(n, score, w->info->classes);
    double *validation = score_all(w, &scorer, &w->validation);
    s->known = score_all(w, &scorer, &w->judged);
    s->novel = score_all(w, &scorer, &w->strange);
    ole_status status = OLE_OK;
    if (!validation || !s->known || !s->novel)
        status = ole_fail(error, OLE_ERROR_MEMORY, "out of memory for scores");
    else
        s->threshold = ole_threshold_keep(validation, w->validation.count, w->options->keep);
    free(validation);
    if (status == OLE_OK && n->novel_count > 0)
        status = ole_roc_make(&s->roc, s->known, n->known_count, s->novel, n->novel_count, error);
    if (status != OLE_OK) return status;
    s->kept = share_from(s->known, n->known_count, s->threshold);
    if (n->novel_count > 0) s->accepted = share_from(s->novel, n->novel_count, s->threshold);
    return trace_accuracy(s, n, error);
}

/* ---- The measurement ------------------------------------------------------------------------- */

static int32_t *predict_all(const work *w, const ole_outputs *o) {
    int32_t *predicted = malloc(((size_t)o->count + 1) * sizeof *predicted);
    for (int64_t i = 0; i < o->count && predicted; i++)
        predicted[i] = ole_largest(o->logits + i * w->info->classes, w->info->classes);
    return predicted;
}

/* In %; `predicted` may be NULL. */
static double accuracy_of(const ole_outputs *o, const int32_t *predicted) {
    int64_t right = 0;
    for (int64_t i = 0; i < o->count && predicted; i++)
        right += predicted[i] == o->labels[i];
    return 100.0 * (double)right / (double)o->count;
}

/* Moves the labels to the result. */
static ole_status predict(work *w, ole_novelty *n, ole_error *error) {
    int32_t *validation = predict_all(w, &w->validation);
    n->known_predicted = predict_all(w, &w->judged);
    n->novel_predicted = predict_all(w, &w->strange);
    n->validation_count = w->validation.count;
    n->known_count = w->judged.count;
    n->novel_count = w->strange.count;
    n->accuracy = accuracy_of(&w->judged, n->known_predicted);
    n->validation_accuracy = accuracy_of(&w->validation, validation);
    n->known_label = w->judged.labels;
    n->novel_label = w->strange.labels;
    w->judged.labels = w->strange.labels = NULL;
    bool good = validation && n->known_predicted && n->novel_predicted;
    free(validation);
    return good ? OLE_OK : ole_fail(error, OLE_ERROR_MEMORY, "out of memory for predictions");
}

static ole_status measure(work *w, ole_novelty *n, ole_error *error) {
    ole_status status = check_data(w, error);
    if (status == OLE_OK) status = collect_all(w, n, error);
    if (status != OLE_OK || w->interrupted) return status;
    status = predict(w, n, error);
    if (status != OLE_OK) return status;
    const ole_logits validation = {w->validation.count, w->info->classes, w->validation.logits,
                                   w->validation.labels};
    const ole_logits known = {n->known_count, w->info->classes, w->judged.logits, n->known_label};
    double temperature = w->options->temperature;
    if (temperature == 0.0) n->temperature_fitted = ole_temperature_fit(&validation, &temperature);
    ole_calibration_measure(&n->before, &known, 1.0);
    ole_calibration_measure(&n->after, &known, temperature);
    for (int s = 1; s <= OLE_SCORES && status == OLE_OK; s++)
        status = measure_score(w, n, (ole_score)s, error);
    return status;
}

ole_status ole_novelty_measure(ole_novelty *result, ole_model *model, const ole_dataset *known,
                               const ole_dataset *novel, const ole_novelty_options *options,
                               ole_error *error) {
    if (!result || !model || !known)
        return ole_fail(error, OLE_ERROR_ARGUMENT,
                        "ole_novelty_measure: result, model or known is NULL");
    ole_novelty_options o = defaults;
    ole_status status =
        ole_struct_read(&o, options, OLE_SIZE_UP_TO(ole_novelty_options, callback_context),
                        "ole_novelty_options_init", error);
    if (status == OLE_OK) status = check_options(&o, error);
    if (status != OLE_OK) return status;
    work w = {.model = model,
              .info = ole_model_get_info(model),
              .known = known,
              .novel = novel,
              .options = &o};
    ole_novelty n = {0};
    status = ole_pool_create(&w.pool, o.threads, error);
    if (status != OLE_OK) return status;
    status = measure(&w, &n, error);
    ole_pool_destroy(w.pool);
    ole_outputs_free(&w.validation);
    ole_outputs_free(&w.judged);
    ole_outputs_free(&w.strange);
    if (status != OLE_OK || w.interrupted) ole_novelty_free(&n);
    if (status != OLE_OK) return status;
    n.interrupted = w.interrupted;
    *result = n;
    return OLE_OK;
}

void ole_novelty_free(ole_novelty *n) {
    if (!n) return;
    for (int s = 0; s < OLE_SCORES; s++) {
        ole_roc_free(&n->score[s].roc);
        free(n->score[s].accuracy_at);
        free(n->score[s].known);
        free(n->score[s].novel);
    }
    free(n->known_label);
    free(n->known_predicted);
    free(n->novel_label);
    free(n->novel_predicted);
    if (n->directions) {
        ole_score_directions_free(&n->directions->subspaces);
        ole_score_directions_free(&n->directions->means);
        free(n->directions);
    }
    *n = (ole_novelty){0};
}

const ole_novelty_score *ole_novelty_get(const ole_novelty *result, ole_score score) {
    if (!result || score < OLE_SCORE_SOFTMAX || score > OLE_SCORE_ENERGY) return NULL;
    return &result->score[score - 1];
}

ole_status ole_novelty_store(const ole_novelty *result, ole_score score, const char *path,
                             ole_error *error) {
    const ole_novelty_score *s = ole_novelty_get(result, score);
    if (!s || !path || !result->directions)
        return ole_fail(error, OLE_ERROR_ARGUMENT,
                        "ole_novelty_store: there is no result, no such score, or no path");
    char file[OLE_RUN_PATH], same[OLE_RUN_PATH];
    ole_status status = ole_model_find(path, file, error);
    if (status == OLE_OK && strcmp(file, path) != 0) /* of a run folder: not through a link */
        status = ole_run_output(same, path, file + strlen(path) + 1, error);
    if (status != OLE_OK) return status;
    const ole_scorer scorer = make_scorer(result, score, result->directions->means.classes);
    return ole_score_store(file, &scorer, s->threshold, error);
}
