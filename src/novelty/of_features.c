/*
 * src/novelty/of_features.c - the novelty of features without a trained network: a map and a
 * classifier are fitted to the known rows first.
 */
#include "base/error.h"
#include "embed/embed.h"
#include "features/classes.h"
#include "novelty/choose.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One measurement. */
typedef struct work {
    const ole_embedding *known, *test, *novel; /* the last two may be NULL */
    const char *const *names;
    int64_t name_count;
    ole_embed_options embed;
    ole_novelty_options options;
    ole_classes classes; /* of the known rows */
    ole_model *model;    /* of all known rows; NULL for OLE_EMBED_NONE */
    ole_space space;     /* of all known rows */
    ole_held_fit held;   /* the fit without held-out rows */
    ole_outputs all;     /* of all known rows */
    bool stopped;
} work;

/* ---- Checks ------------------------------------------------------------------------------- */

static ole_status check_part(const work *w, const ole_embedding *part, const char *name,
                             ole_error *error) {
    if (!part) return OLE_OK;
    if (part->rows < 1) return ole_fail(error, OLE_ERROR_ARGUMENT, "the %s set is empty", name);
    if (part->dim != w->known->dim)
        return ole_fail(error, OLE_ERROR_ARGUMENT,
                        "the %s features have %" PRId64 " dimensions, the known ones %" PRId64,
                        name, part->dim, w->known->dim);
    for (int64_t i = 0; i < part->rows; i++)
        if (!ole_embedding_is_finite(part, i))
            return ole_fail(error, OLE_ERROR_DATA, "%s features: row %" PRId64 " holds NaN or Inf",
                            name, i);
    return OLE_OK;
}

static ole_status open_known(work *w, ole_error *error) {
    ole_pool *pool;
    ole_classes open;
    ole_status status =
        ole_classes_open(&open, &pool, "ole_novelty_fit", w->known, w->options.threads, error);
    if (status != OLE_OK) return status;
    ole_pool_destroy(pool);
    w->classes = open;
    if (open.classes < 2)
        return ole_fail(error, OLE_ERROR_ARGUMENT,
                        "the known features have a single class; a score is fitted on at least "
                        "two");
    status = check_part(w, w->test, "test", error);
    return status == OLE_OK ? check_part(w, w->novel, "novel", error) : status;
}

/* ---- Fitting ------------------------------------------------------------------------------ */

/* The map of all known rows, and the settings for all other fits. */
static ole_status fit_all(work *w, ole_error *error) {
    ole_embed_options *e = &w->embed;
    if (e->method == OLE_EMBED_NONE) return OLE_OK;
    if (e->method == OLE_EMBED_TRANSFORM)
        return ole_fail(error, OLE_ERROR_ARGUMENT,
                        "the method '%s' has no classifier: use linear, mlp or none",
                        ole_embed_method_name(e->method));
    ole_embed_summary summary;
    ole_status status =
        ole_embed_fit(&w->model, w->known, w->names, w->name_count, e, &summary, error);
    if (status != OLE_OK) return status;
    w->stopped = summary.interrupted;
    *e = ole_choice_settle(e, &summary);
    ole_embed_summary_free(&summary);
    return OLE_OK;
}

/* The classifier on the rows as they are has the decay that the choice found. */
static ole_status open_space(work *w, ole_error *error) {
    if (w->model) {
        ole_status status = ole_space_of_model(&w->space, w->model, w->options.threads, error);
        w->space.model = w->model;
        return status;
    }
    ole_embed_options head = w->embed;
    head.method = OLE_EMBED_LINEAR;
    head.threads = w->options.threads;
    if (isnan(head.weight_decay)) head.weight_decay = w->held.space.decay;
    const ole_space_rule rule = {&head, true};
    return ole_space_fit(&w->space, w->known, &rule, &w->stopped, error);
}

/* Classes of rows by their labels: positions among the known ones. */
static ole_status find_classes(const work *w, const ole_embedding *e, const char *name,
                               int32_t **class_of, int64_t **index, int64_t *count,
                               ole_error *error) {
    *class_of = malloc((size_t)e->rows * sizeof **class_of);
    *index = malloc((size_t)e->rows * sizeof **index);
    *count = 0;
    if (!*class_of || !*index) return ole_fail(error, OLE_ERROR_MEMORY, "out of memory for labels");
    for (int64_t i = 0; i < e->rows; i++) {
        (*class_of)[i] = -1;
        if (e->labels[i] < 0) continue;
        (*class_of)[i] = (int32_t)ole_classes_find(&w->classes, e->labels[i]);
        (*index)[(*count)++] = i;
        if ((*class_of)[i] >= 0) continue;
        bool named = w->names && e->labels[i] < w->name_count;
        char number[24];
        snprintf(number, sizeof number, "%" PRId64, e->labels[i]);
        return ole_fail(error, OLE_ERROR_ARGUMENT,
                        "%s row %" PRId64 " has the label '%.100s', which no known row has: rows "
                        "of other classes are novel",
                        name, i, named ? w->names[e->labels[i]] : number);
    }
    if (*count == 0)
        return ole_fail(error, OLE_ERROR_ARGUMENT, "the %s set has no labelled rows", name);
    return OLE_OK;
}

static ole_status run_labelled(const work *w, const ole_embedding *e, const char *name,
                               ole_outputs *outputs, ole_error *error) {
    int32_t *class_of = NULL;
    int64_t *index = NULL, count = 0;
    ole_status status = find_classes(w, e, name, &class_of, &index, &count, error);
    if (status == OLE_OK)
        status = ole_space_run(&w->space, e, index, count, class_of, outputs, error);
    free(class_of);
    free(index);
    return status;
}

/* ---- Measuring ---------------------------------------------------------------------------- */

/* On test rows by the fit on all rows, or on held-out rows by the fit without them. */
static ole_status measure(work *w, ole_novelty *n, ole_error *error) {
    const ole_space *space = w->test ? &w->space : &w->held.space;
    ole_novelty_work m = {.classes = space->classes,
                          .features = space->features,
                          .classifier = space->classifier,
                          .training = w->test ? w->all : w->held.training,
                          .validation = w->held.held_out,
                          .keep = w->options.keep,
                          .temperature = n->choice.temperature,
                          .threshold = n->choice.threshold,
                          .threads = w->options.threads};
    ole_status status = OLE_OK;
    if (w->test) {
        status = run_labelled(w, w->test, "test", &m.judged, error);
    } else {
        m.judged = w->held.held_out;
        m.judged.labels = malloc(((size_t)m.judged.count + 1) * sizeof *m.judged.labels);
        if (m.judged.labels)
            memcpy(m.judged.labels, w->held.held_out.labels,
                   (size_t)m.judged.count * sizeof *m.judged.labels);
        else
            status = ole_fail(error, OLE_ERROR_MEMORY, "out of memory for labels");
    }
    if (status == OLE_OK && w->novel)
        status = ole_space_run(space, w->novel, NULL, w->novel->rows, NULL, &m.strange, error);
    if (status == OLE_OK) status = ole_novelty_fill(n, &m, error);
    n->temperature_fitted = w->options.temperature == 0.0;
    if (w->test) ole_outputs_free(&m.judged);
    if (!w->test) free(m.judged.labels);
    ole_outputs_free(&m.strange);
    return status;
}

/* The scorers that are stored are those of the fit on all rows. */
static ole_status replace_scorers(work *w, ole_novelty *n, ole_error *error) {
    ole_scorer *scorer[OLE_SCORES];
    ole_status status =
        ole_novelty_fit_scorers(scorer, &w->all, w->space.features, &w->space.classifier,
                                n->after.temperature, w->options.threads, error);
    for (int s = 0; s < OLE_SCORES && status == OLE_OK; s++) {
        ole_scorer_free(n->score[s].scorer);
        n->score[s].scorer = scorer[s];
    }
    return status;
}

static ole_status run(work *w, ole_novelty *n, ole_error *error) {
    ole_status status = open_known(w, error);
    if (status == OLE_OK) status = fit_all(w, error);
    if (status == OLE_OK && !w->stopped)
        status = ole_choice_make(&n->choice, &w->held, w->known, &w->embed, &w->options,
                                 &w->stopped, error);
    if (status == OLE_OK && !w->stopped && n->choice.held_out == 0)
        status = ole_fail(error, OLE_ERROR_ARGUMENT,
                          "each known class has a single row: a threshold needs rows to hold out");
    if (status == OLE_OK && !w->stopped) status = open_space(w, error);
    if (status == OLE_OK && !w->stopped)
        status = run_labelled(w, w->known, "known", &w->all, error);
    if (status == OLE_OK && !w->stopped) status = measure(w, n, error);
    if (status == OLE_OK && !w->stopped && !w->test) status = replace_scorers(w, n, error);
    return status;
}

ole_status ole_novelty_fit(ole_novelty *result, ole_model **model, const ole_embedding *known,
                           const char *const *names, int64_t classes, const ole_embedding *test,
                           const ole_embedding *novel, const ole_embed_options *embed,
                           const ole_novelty_options *options, ole_error *error) {
    if (model) *model = NULL;
    if (!result || !known)
        return ole_fail(error, OLE_ERROR_ARGUMENT, "ole_novelty_fit: result or known is NULL");
    work w = {.known = known, .test = test, .novel = novel, .names = names, .name_count = classes};
    ole_status status = ole_novelty_read_options(&w.options, options, error);
    if (status == OLE_OK) status = ole_embed_options_read(&w.embed, embed, error);
    if (status != OLE_OK) return status;
    w.embed.callback = w.options.callback;
    w.embed.callback_context = w.options.callback_context;
    w.embed.threads = w.options.threads;
    ole_novelty n = {0};
    status = run(&w, &n, error);
    w.space.model = NULL; /* it is w.model */
    ole_space_free(&w.space);
    ole_held_fit_free(&w.held);
    ole_outputs_free(&w.all);
    ole_classes_destroy(&w.classes);
    if (status != OLE_OK || w.stopped) ole_novelty_free(&n);
    if (status == OLE_OK && !w.stopped && model)
        *model = w.model;
    else
        ole_model_free(w.model);
    if (status != OLE_OK) return status;
    n.interrupted = w.stopped;
    *result = n;
    return OLE_OK;
}
