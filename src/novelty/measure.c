/* src/novelty/measure.c - all scores side by side: thresholds, curves, calibration. */
#include "novelty/measure.h"

#include "base/error.h"
#include "base/sort.h"
#include "base/struct_size.h"
#include "data/dataset.h"
#include "model/calibration.h"
#include "model/threshold.h"

#include <math.h>
#include <stdlib.h>

/* ---- Options ------------------------------------------------------------------------------ */

static const ole_novelty_options defaults = {.struct_size = sizeof(ole_novelty_options),
                                             .keep = 0.95,
                                             .known_split = OLE_SPLIT_TEST,
                                             .novel_split = OLE_SPLIT_TEST,
                                             .novel_all = true,
                                             .choose = true,
                                             .threads = 1};

void ole_novelty_options_init_sized(ole_novelty_options *options, size_t struct_size) {
    ole_struct_fill(options, struct_size, &defaults);
}

static ole_status check_options(const ole_novelty_options *o, ole_error *error) {
    if (!(o->keep > 0.0 && o->keep <= 1.0))
        return ole_fail(error, OLE_ERROR_ARGUMENT, "options.keep is %g; must be over 0, at most 1",
                        o->keep);
    if (!(o->temperature >= 0.0 && isfinite(o->temperature)))
        return ole_fail(error, OLE_ERROR_ARGUMENT,
                        "options.temperature is %g; must be 0 (fitted) or more", o->temperature);
    if (!ole_is_split(o->known_split) || !ole_is_split(o->novel_split))
        return ole_fail(
            error, OLE_ERROR_ARGUMENT,
            "options.known_split is %d, options.novel_split %d; must be values of ole_split",
            (int)o->known_split, (int)o->novel_split);
    if (o->threads < 1 || o->threads > 1024)
        return ole_fail(error, OLE_ERROR_ARGUMENT, "options.threads is %d; must be 1 to 1024",
                        o->threads);
    return OLE_OK;
}

ole_status ole_novelty_read_options(ole_novelty_options *read, const ole_novelty_options *given,
                                    ole_error *error) {
    *read = defaults;
    ole_status status =
        ole_struct_read(read, given, OLE_SIZE_UP_TO(ole_novelty_options, callback_context),
                        "ole_novelty_options_init", error);
    return status == OLE_OK ? check_options(read, error) : status;
}

/* ---- Scores ------------------------------------------------------------------------------- */

/* The scores of all samples; free() them. */
static ole_status score_all(double **scores, const ole_novelty_work *w, const ole_scorer *scorer,
                            const ole_outputs *o, ole_error *error) {
    *scores = malloc(((size_t)o->count + 1) * sizeof **scores);
    if (!*scores) return ole_fail(error, OLE_ERROR_MEMORY, "out of memory for scores");
    return ole_scorer_run(scorer, o->features, o->logits, o->count, *scores, w->threads, error);
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

ole_status ole_novelty_fit_scorers(ole_scorer *scorer[OLE_SCORES], const ole_outputs *training,
                                   int64_t features, const ole_linear_classifier *classifier,
                                   double temperature, int threads, ole_error *error) {
    ole_embedding known;
    int64_t *labels;
    ole_status status = ole_outputs_embedding(&known, &labels, training, features, error);
    ole_scorer_options options;
    ole_scorer_options_init(&options);
    options.temperature = temperature;
    options.threads = threads;
    for (int s = 0; s < OLE_SCORES; s++)
        scorer[s] = NULL;
    for (int s = 0; s < OLE_SCORES && status == OLE_OK; s++)
        status =
            ole_scorer_fit(&scorer[s], (ole_score)(s + 1), &known, classifier, &options, error);
    free(labels);
    for (int s = 0; s < OLE_SCORES && status != OLE_OK; s++) {
        ole_scorer_free(scorer[s]);
        scorer[s] = NULL;
    }
    return status;
}

static ole_status measure_score(const ole_novelty_work *w, ole_novelty *n, ole_score score,
                                ole_error *error) {
    ole_novelty_score *s = &n->score[score - 1];
    s->score = score;
    s->roc.auroc = s->roc.ap_positive = s->roc.ap_negative = s->roc.fpr95 = s->accepted = NAN;
    double *validation = NULL;
    ole_status status = OLE_OK;
    if (!w->threshold) status = score_all(&validation, w, s->scorer, &w->validation, error);
    if (status == OLE_OK) status = score_all(&s->known, w, s->scorer, &w->judged, error);
    if (status == OLE_OK) status = score_all(&s->novel, w, s->scorer, &w->strange, error);
    if (status == OLE_OK)
        s->threshold = w->threshold ? w->threshold[score - 1]
                                    : ole_threshold_keep(validation, w->validation.count, w->keep);
    free(validation);
    if (status == OLE_OK && n->novel_count > 0)
        status = ole_roc_make(&s->roc, s->known, n->known_count, s->novel, n->novel_count, error);
    if (status != OLE_OK) return status;
    s->kept = share_from(s->known, n->known_count, s->threshold);
    if (n->novel_count > 0) s->accepted = share_from(s->novel, n->novel_count, s->threshold);
    return trace_accuracy(s, n, error);
}

/* ---- The measurement ------------------------------------------------------------------------- */

static int32_t *predict_all(const ole_novelty_work *w, const ole_outputs *o) {
    int32_t *predicted = malloc(((size_t)o->count + 1) * sizeof *predicted);
    for (int64_t i = 0; i < o->count && predicted; i++)
        predicted[i] = ole_largest(o->logits + i * w->classes, w->classes);
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
static ole_status predict(ole_novelty_work *w, ole_novelty *n, ole_error *error) {
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

ole_status ole_novelty_fill(ole_novelty *n, ole_novelty_work *w, ole_error *error) {
    ole_status status = predict(w, n, error);
    if (status != OLE_OK) return status;
    const ole_logits validation = {w->validation.count, w->classes, w->validation.logits,
                                   w->validation.labels};
    const ole_logits known = {n->known_count, w->classes, w->judged.logits, n->known_label};
    double temperature = w->temperature;
    if (temperature == 0.0) n->temperature_fitted = ole_temperature_fit(&validation, &temperature);
    ole_calibration_measure(&n->before, &known, 1.0);
    ole_calibration_measure(&n->after, &known, temperature);
    ole_scorer *scorer[OLE_SCORES];
    status = ole_novelty_fit_scorers(scorer, &w->training, w->features, &w->classifier, temperature,
                                     w->threads, error);
    for (int s = 0; s < OLE_SCORES && status == OLE_OK; s++)
        n->score[s].scorer = scorer[s];
    for (int s = 1; s <= OLE_SCORES && status == OLE_OK; s++)
        status = measure_score(w, n, (ole_score)s, error);
    return status;
}

void ole_novelty_free(ole_novelty *n) {
    if (!n) return;
    for (int s = 0; s < OLE_SCORES; s++) {
        ole_roc_free(&n->score[s].roc);
        free(n->score[s].accuracy_at);
        free(n->score[s].known);
        free(n->score[s].novel);
        ole_scorer_free(n->score[s].scorer);
    }
    free(n->known_label);
    free(n->known_predicted);
    free(n->novel_label);
    free(n->novel_predicted);
    *n = (ole_novelty){0};
}

const ole_novelty_score *ole_novelty_get(const ole_novelty *result, ole_score score) {
    if (!result || score < OLE_SCORE_SOFTMAX || (int)score > OLE_SCORES) return NULL;
    return &result->score[score - 1];
}
