/*
 * src/novelty/of_model.c - the novelty of data sets' samples for a trained model, and storing a
 * threshold in a model's file.
 */
#include "base/error.h"
#include "base/quote.h"
#include "data/dataset.h"
#include "model/confidence.h"
#include "model/hub.h"
#include "novelty/choose.h"
#include "novelty/measure.h"

#include <stdlib.h>
#include <string.h>

/* A measurement. */
typedef struct work {
    ole_model *model;
    const ole_model_info *info;
    const ole_dataset *known, *novel;
    const ole_novelty_options *options;
    ole_novelty_work samples;
    bool interrupted;
} work;

/* ---- Checks ------------------------------------------------------------------------------- */

/* The model and the known set must have the same class names, in the same order. */
static ole_status check_classes(const work *w, ole_error *error) {
    const ole_dataset_info *set = ole_dataset_get_info(w->known);
    if (set->classes < w->info->classes)
        return ole_fail(error, OLE_ERROR_ARGUMENT,
                        "the model has %d classes, the known set %s has %d, and the threshold "
                        "needs samples of all; name the set it was trained on",
                        w->info->classes, set->name, set->classes);
    if (set->classes > w->info->classes)
        return ole_fail(
            error, OLE_ERROR_ARGUMENT,
            "the model has %d classes, the known set %s has %d; choose them with --known-classes",
            w->info->classes, set->name, set->classes);
    for (int c = 0; c < set->classes; c++)
        if (strcmp(set->class_names[c], w->info->class_names[c]) != 0)
            return ole_fail(error, OLE_ERROR_ARGUMENT,
                            "class %d of the model is '%.100s', that of the known set %s is "
                            "'%.100s'; choose them with --known-classes, in the model's order",
                            c, w->info->class_names[c], set->name, set->class_names[c]);
    return OLE_OK;
}

static ole_status check_data(const work *w, ole_error *error) {
    const ole_dataset_info *known = ole_dataset_get_info(w->known);
    const ole_dataset_info *novel = ole_dataset_get_info(w->novel); /* or NULL */
    if (!w->info->classifier)
        return ole_fail(error, OLE_ERROR_ARGUMENT,
                        "the model has no trained classifier: it was trained with OLE alone, or "
                        "fitted as a map; train with --loss softmax+ole or fit with --method "
                        "linear, or score its features: 'ole features' or 'ole apply', then 'ole "
                        "novelty --known Z.npy,LABELS --method none'");
    ole_status status = check_classes(w, error);
    if (status != OLE_OK) return status;
    if (known->count[w->options->known_split] == 0)
        return ole_fail(error, OLE_ERROR_ARGUMENT, "the known set %s has no %s samples",
                        known->name, ole_split_name(w->options->known_split));
    const int64_t none[3] = {0}, *count = novel ? novel->count : none;
    if (novel && (w->options->novel_all ? count[0] + count[1] + count[2]
                                        : count[w->options->novel_split]) == 0)
        return ole_fail(error, OLE_ERROR_ARGUMENT, "the novel set %s has no %s samples",
                        novel->name, ole_split_name(w->options->novel_split));
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

/* Without validation samples every other one of a class sets the threshold; the rest are judged. */
static ole_status share_out(work *w, ole_error *error) {
    ole_outputs *all = &w->samples.judged, *half = &w->samples.validation;
    size_t rows = (size_t)all->count, dim = (size_t)w->info->features;
    size_t classes = (size_t)w->info->classes;
    *half = (ole_outputs){.features = malloc(rows * dim * sizeof *half->features + 1),
                          .logits = malloc(rows * classes * sizeof *half->logits + 1),
                          .labels = malloc(rows * sizeof *half->labels + 1)};
    bool *second = calloc(classes, sizeof *second);
    bool memory = half->features && half->logits && half->labels && second;
    int64_t kept = 0;
    for (int64_t i = 0; i < all->count && memory; i++) {
        int32_t label = all->labels[i];
        ole_outputs *to = second[label] ? all : half; /* which are written behind what is read */
        int64_t at = second[label] ? kept++ : half->count++;
        memmove(to->features + at * (int64_t)dim, all->features + i * (int64_t)dim,
                dim * sizeof *to->features);
        memmove(to->logits + at * (int64_t)classes, all->logits + i * (int64_t)classes,
                classes * sizeof *to->logits);
        to->labels[at] = label;
        second[label] = !second[label];
    }
    free(second);
    if (!memory) return ole_fail(error, OLE_ERROR_MEMORY, "out of memory for half of the samples");
    all->count = kept;
    if (kept > 0) return OLE_OK;
    return ole_fail(error, OLE_ERROR_ARGUMENT,
                    "%s has no validation samples to set the threshold on, and no class with two "
                    "samples in this split: train with --val-split 10%%",
                    ole_dataset_get_info(w->known)->name);
}

static ole_status collect_all(work *w, ole_error *error) {
    const ole_novelty_options *o = w->options;
    bool held_out = ole_dataset_get_info(w->known)->count[OLE_SPLIT_VALIDATION] > 0;
    ole_status status = OLE_OK;
    if (held_out)
        status = collect(w, &w->samples.validation, "validation samples", w->known,
                         OLE_SPLIT_VALIDATION, false, error);
    if (status == OLE_OK)
        status =
            collect(w, &w->samples.judged, "known samples", w->known, o->known_split, false, error);
    if (status == OLE_OK && !held_out && !w->interrupted) status = share_out(w, error);
    if (status == OLE_OK && w->novel)
        status = collect(w, &w->samples.strange, "novel samples", w->novel, o->novel_split,
                         o->novel_all, error);
    if (status == OLE_OK)
        status = collect(w, &w->samples.training, "training samples", w->known, OLE_SPLIT_TRAIN,
                         false, error);
    return status;
}

/* ---- Choosing a score --------------------------------------------------------------------- */

/* On the training features: the network stays as it is, and so do its thresholds. */
static ole_status choose_score(work *w, ole_novelty *n, ole_error *error) {
    ole_embedding known;
    int64_t *labels;
    ole_status status =
        ole_outputs_embedding(&known, &labels, &w->samples.training, w->info->features, error);
    if (status == OLE_OK)
        status =
            ole_choice_make(&n->choice, NULL, &known, NULL, w->options, &w->interrupted, error);
    free(labels);
    return status;
}

/* ---- The measurement ------------------------------------------------------------------------- */

static ole_status measure(work *w, ole_novelty *n, ole_error *error) {
    ole_status status = check_data(w, error);
    if (status == OLE_OK) status = collect_all(w, error);
    if (status != OLE_OK || w->interrupted) return status;
    const ole_novelty_options *o = w->options;
    ole_novelty_work *samples = &w->samples;
    float *weights = NULL;
    samples->classes = w->info->classes;
    samples->features = w->info->features;
    samples->keep = o->keep;
    samples->temperature = o->temperature;
    samples->threads = o->threads;
    status = ole_model_classifier(&samples->classifier, &weights, w->model, error);
    if (status == OLE_OK) status = ole_novelty_fill(n, samples, error);
    if (status == OLE_OK && o->choose) status = choose_score(w, n, error);
    free(weights);
    return status;
}

ole_status ole_novelty_measure(ole_novelty *result, ole_model *model, const ole_dataset *known,
                               const ole_dataset *novel, const ole_novelty_options *options,
                               ole_error *error) {
    if (!result || !model || !known)
        return ole_fail(error, OLE_ERROR_ARGUMENT,
                        "ole_novelty_measure: result, model or known is NULL");
    ole_novelty_options o;
    ole_status status = ole_novelty_read_options(&o, options, error);
    if (status != OLE_OK) return status;
    work w = {.model = model,
              .info = ole_model_get_info(model),
              .known = known,
              .novel = novel,
              .options = &o};
    ole_novelty n = {0};
    status = measure(&w, &n, error);
    ole_outputs_free(&w.samples.training);
    ole_outputs_free(&w.samples.validation);
    ole_outputs_free(&w.samples.judged);
    ole_outputs_free(&w.samples.strange);
    if (status != OLE_OK || w.interrupted) ole_novelty_free(&n);
    if (status != OLE_OK) return status;
    n.interrupted = w.interrupted;
    *result = n;
    return OLE_OK;
}

ole_status ole_novelty_store(const ole_novelty *result, ole_score score, const char *path,
                             ole_error *error) {
    const ole_novelty_score *s = ole_novelty_get(result, score);
    if (!s || !s->scorer || !path)
        return ole_fail(error, OLE_ERROR_ARGUMENT,
                        "ole_novelty_store: no result, no such score, or no path");
    if (ole_is_hub_name(path))
        return ole_fail(error, OLE_ERROR_ARGUMENT,
                        "%s: a threshold cannot be stored in a model on a hub",
                        ole_quote_string(path).text);
    char file[OLE_RUN_PATH], same[OLE_RUN_PATH];
    ole_status status = ole_model_find(path, file, error);
    if (status == OLE_OK && strcmp(file, path) != 0) /* of a run folder: not through a link */
        status = ole_run_output(same, path, file + strlen(path) + 1, error);
    if (status != OLE_OK) return status;
    char *choice = NULL;
    if (score == result->choice.score && result->choice.groups > 0) {
        choice = ole_choice_text(&result->choice);
        if (!choice) return ole_fail(error, OLE_ERROR_MEMORY, "out of memory for a model");
    }
    const ole_threshold_record record = {s->threshold, result->after.temperature,
                                         OLE_THRESHOLD_NOVELTY, result->validation_count, choice};
    status = ole_score_store(file, s->scorer, &record, error);
    free(choice);
    return status;
}
