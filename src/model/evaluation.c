/*
 * src/model/evaluation.c - a model's errors on a data set: by its classifier, by the nearest
 * neighbour, by the nearest class subspace.
 */
#include "ole/train/evaluate.h"

#include "base/error.h"
#include "base/quote.h"
#include "data/dataset.h"
#include "features/nearest.h"
#include "model/model.h"
#include "model/split_runner.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Collects the features of a split, and the logits if wanted; nothing to free if stopped. */
static ole_status collect(ole_outputs *o, ole_model *model, const ole_dataset *set, ole_split split,
                          bool logits, bool *stopped, ole_error *error) {
    const ole_part part = {ole_split_part(split), set, split, false, ole_model_report, model};
    return ole_outputs_collect(o, model, &part, logits, stopped, error);
}

/* ---- Classes ------------------------------------------------------------------------------ */

/* The model's class of this name, searched from `from` on, where it usually is; -1: none. */
static int find_class(const ole_model_info *model, const char *name, int from) {
    for (int k = 0; k < model->classes; k++) {
        int c = (from + k) % model->classes;
        if (strcmp(model->class_names[c], name) == 0) return c;
    }
    return -1;
}

int ole_model_find_classes(const ole_model_info *model, const ole_dataset_info *set, int *to,
                           int *stranger) {
    int known = 0;
    *stranger = -1;
    for (int c = 0; c < set->classes; c++) {
        to[c] = find_class(model, set->class_names[c], c);
        if (to[c] >= 0) known++;
        if (to[c] < 0 && *stranger < 0) *stranger = c;
    }
    return known;
}

/* Maps each class of the set to one of the model, [set->classes]: by name, or by position if the
 * model knows none of the names. */
static ole_status match_classes(const ole_model_info *model, const ole_dataset_info *set, int *to,
                                bool *by_order, ole_error *error) {
    int stranger, known = ole_model_find_classes(model, set, to, &stranger);
    *by_order = known == 0;
    if (known == set->classes) return OLE_OK;
    if (known > 0)
        return ole_fail(
            error, OLE_ERROR_ARGUMENT,
            "%s: the model does not know its class '%s'; name the others with --classes", set->name,
            ole_quote_string(set->class_names[stranger]).text);
    if (set->classes != model->classes)
        return ole_fail(
            error, OLE_ERROR_ARGUMENT,
            "the model has %d classes, %s has %d, and no names match; choose them with --classes",
            model->classes, set->name, set->classes);
    for (int c = 0; c < set->classes; c++)
        to[c] = c;
    return OLE_OK;
}

static ole_status count_confusion(ole_evaluation *e, const ole_outputs *o, const int *to,
                                  ole_error *error) {
    size_t classes = (size_t)e->classes;
    e->confusion = calloc(classes * classes, sizeof *e->confusion);
    if (!e->confusion) return ole_fail(error, OLE_ERROR_MEMORY, "out of memory for the confusion");
    int64_t wrong = 0;
    for (int64_t i = 0; i < e->count; i++) {
        int predicted = ole_largest(o->logits + i * e->classes, e->classes);
        int label = to[o->labels[i]];
        e->confusion[label * e->classes + predicted]++;
        wrong += predicted != label;
    }
    e->error = e->count > 0 ? 100.0 * (double)wrong / (double)e->count : NAN;
    return OLE_OK;
}

/* ---- The nearest subspace ----------------------------------------------------------------- */

static ole_status classify_all(const ole_subspaces *subspaces, const ole_outputs *query,
                               ole_pool *pool, double *percent, ole_error *error) {
    ole_directions directions;
    ole_status status = ole_directions_of_subspaces(&directions, subspaces, error);
    if (status != OLE_OK) return status;
    const ole_row_set rows = {query->count, subspaces->dim, OLE_F32, query->features, NULL};
    int64_t *predicted = malloc(((size_t)query->count + 1) * sizeof *predicted);
    status = predicted ? ole_nearest_class(&directions, &rows, NULL, pool, predicted, error)
                       : ole_fail(error, OLE_ERROR_MEMORY, "out of memory");
    if (status == OLE_OK) {
        int64_t wrong = 0;
        for (int64_t i = 0; i < query->count; i++)
            wrong += predicted[i] < 0 || subspaces->of[predicted[i]].label != query->labels[i];
        *percent = 100.0 * (double)wrong / (double)query->count;
    }
    free(predicted);
    ole_directions_destroy(&directions);
    return status;
}

static ole_status subspace_error(int64_t dim, const ole_outputs *reference,
                                 const ole_outputs *query, int threads, double *percent,
                                 ole_error *error) {
    ole_pool *pool;
    ole_subspaces subspaces;
    ole_status status = ole_pool_create(&pool, threads, error);
    if (status != OLE_OK) return status;
    status = ole_outputs_subspaces(&subspaces, reference, dim, pool, threads, error);
    if (status == OLE_OK) {
        status = classify_all(&subspaces, query, pool, percent, error);
        ole_subspaces_destroy(&subspaces);
    }
    ole_pool_destroy(pool);
    return status;
}

/* ---- All together ------------------------------------------------------------------------- */

/* Progress of the search for neighbours. */
typedef struct search {
    ole_model *model;
    int64_t queries;
    bool stopped;
} search;

static bool report_search(void *context, double share) {
    search *s = context;
    int64_t done = (int64_t)(share * (double)s->queries);
    s->stopped = ole_model_report(s->model, "nearest neighbours", done, s->queries);
    return s->stopped;
}

static ole_status compare(ole_evaluation *e, ole_model *model, const ole_outputs *train,
                          const ole_outputs *o, int threads, ole_error *error) {
    int64_t dim = ole_model_get_info(model)->features;
    search s = {.model = model, .queries = o->count};
    const ole_knn_watch watch = {report_search, &s};
    const ole_labelled reference = {train->count, train->features, train->labels};
    const ole_labelled query = {o->count, o->features, o->labels};
    ole_status status =
        ole_knn1_error(dim, &reference, &query, threads, &watch, &e->knn1_error, error);
    e->interrupted = s.stopped || ole_model_report(model, "class subspaces", 0, o->count);
    if (status == OLE_OK && !e->interrupted)
        status = subspace_error(dim, train, o, threads, &e->subspace_error, error);
    return status;
}

static ole_status measure(ole_evaluation *e, ole_prediction *each, ole_model *model,
                          const ole_dataset *set, ole_split split, const int *to, int threads,
                          ole_error *error) {
    bool trained = ole_model_get_info(model)->classifier;
    ole_outputs o, train = {0};
    ole_status status = collect(&o, model, set, split, trained, &e->interrupted, error);
    if (status != OLE_OK || e->interrupted) return status;
    if (trained) status = count_confusion(e, &o, to, error);
    if (each) ole_model_judge(model, o.features, o.logits, o.count, each);
    if (status == OLE_OK && split == OLE_SPLIT_TRAIN) {
        status = compare(e, model, &o, &o, threads, error);
    } else if (status == OLE_OK && ole_dataset_get_info(set)->count[OLE_SPLIT_TRAIN] > 0) {
        status = collect(&train, model, set, OLE_SPLIT_TRAIN, false, &e->interrupted, error);
        if (status == OLE_OK && !e->interrupted)
            status = compare(e, model, &train, &o, threads, error);
    }
    ole_outputs_free(&train);
    ole_outputs_free(&o);
    return status;
}

static ole_status evaluate(ole_evaluation *result, ole_prediction *each, ole_model *model,
                           const ole_dataset *set, ole_split split, int threads, ole_error *error) {
    if (!result || !model || !set || threads < 1)
        return ole_fail(error, OLE_ERROR_ARGUMENT,
                        "ole_evaluate: result, model or set is NULL, or threads is not positive");
    const ole_dataset_info *info = ole_dataset_get_info(set);
    if (info->count[split] == 0)
        return ole_fail(error, OLE_ERROR_ARGUMENT, "%s has no %s samples", info->name,
                        ole_split_name(split));
    int *to = malloc((size_t)info->classes * sizeof *to);
    if (!to) return ole_fail(error, OLE_ERROR_MEMORY, "out of memory");
    ole_evaluation e = {.count = info->count[split],
                        .classes = ole_model_get_info(model)->classes,
                        .error = NAN,
                        .knn1_error = NAN,
                        .subspace_error = NAN};
    ole_status status = match_classes(ole_model_get_info(model), info, to, &e.by_order, error);
    if (status == OLE_OK) status = measure(&e, each, model, set, split, to, threads, error);
    free(to);
    bool interrupted = e.interrupted;
    if (status != OLE_OK || interrupted) ole_evaluation_free(&e);
    e.interrupted = interrupted;
    if (status == OLE_OK) *result = e;
    return status;
}

ole_status ole_evaluate(ole_evaluation *result, ole_model *model, const ole_dataset *set,
                        ole_split split, int threads, ole_error *error) {
    return evaluate(result, NULL, model, set, split, threads, error);
}

ole_status ole_evaluate_each(ole_evaluation *result, ole_prediction *predictions, ole_model *model,
                             const ole_dataset *set, ole_split split, int threads,
                             ole_error *error) {
    if (!predictions || !model)
        return ole_fail(error, OLE_ERROR_ARGUMENT,
                        "ole_evaluate_each: predictions or model is NULL");
    ole_status status = ole_model_check_classifier(model, error);
    if (status != OLE_OK) return status;
    return evaluate(result, predictions, model, set, split, threads, error);
}

void ole_evaluation_free(ole_evaluation *result) {
    if (!result) return;
    free(result->confusion);
    *result = (ole_evaluation){0};
}
