/* src/study/losses_measure.c - a retrained model on the test split: errors, angles, ranks,
 * calibration, novelty, and the time of its training steps. */
#include "study/losses_parts.h"

#include "base/error.h"
#include "model/calibration.h"
#include "model/model.h"
#include "model/split_runner.h"
#include "ole/novelty.h"
#include "ole/roc.h"
#include "ole/train/history.h"
#include "report/drawing.h"
#include "train/options/option_table.h"
#include "train/ranks/rank_resources.h"

#include <math.h>
#include <stdlib.h>

const char *const ole_measured_title[OLE_MEASURES] = {
    "test error, %",  "1-NN error, %", "angle within",     "angle between", "rank",
    "rank per class", "ECE, %",        "novelty AUROC, %", "ms per step"};
const char *const ole_measured_key[OLE_MEASURES] = {
    "test_error", "knn1_error", "angle_within",  "angle_between", "effective_rank",
    "class_rank", "ece",        "novelty_auroc", "step_ms"};

/* What a model makes of a split. */
typedef struct part {
    ole_outputs outputs;
    ole_embedding features;
    int64_t *labels; /* of the features */
} part;

static void part_free(part *p) {
    ole_outputs_free(&p->outputs);
    free(p->labels);
}

/* Of a part that is zero; free it either way. */
static ole_status part_run(part *p, ole_model *model, const ole_dataset *set, ole_split split,
                           bool logits, ole_error *error) {
    const ole_part of = {ole_split_part(split), set, split, false, NULL, NULL};
    bool stopped;
    ole_status status = ole_outputs_collect(&p->outputs, model, &of, logits, &stopped, error);
    if (status != OLE_OK) return status;
    return ole_outputs_embedding(&p->features, &p->labels, &p->outputs,
                                 ole_model_get_info(model)->features, error);
}

/* ---- Measures ----------------------------------------------------------------------------- */

static ole_status measure_features(double *to, const ole_embedding *e, int threads,
                                   ole_error *error) {
    ole_angles_options options;
    ole_angles_options_init(&options);
    options.threads = threads;
    options.picture = 0;
    ole_angles angles;
    ole_spectra spectra;
    ole_status status = ole_angles_measure(&angles, e, &options, error);
    if (status != OLE_OK) return status;
    to[OLE_MEASURED_WITHIN] = angles.within.median;
    to[OLE_MEASURED_BETWEEN] = angles.between.median;
    ole_angles_free(&angles);
    status = ole_spectra_measure(&spectra, e, threads, error);
    if (status != OLE_OK) return status;
    to[OLE_MEASURED_RANK] = spectra.all.effective_rank;
    to[OLE_MEASURED_CLASS] = ole_class_rank(&spectra);
    ole_spectra_free(&spectra);
    return OLE_OK;
}

/* Known against novel test samples by the cosine to the 5th nearest training feature, a score that
 * needs no classifier. */
static ole_status measure_novelty(double *to, const ole_embedding *train, const ole_embedding *test,
                                  const ole_embedding *novel, int threads, ole_error *error) {
    double *scores = malloc((size_t)(test->rows + novel->rows) * sizeof *scores);
    ole_scorer *scorer = NULL;
    ole_roc roc;
    ole_status status =
        scores ? OLE_OK : ole_fail(error, OLE_ERROR_MEMORY, "out of memory for scores");
    if (status == OLE_OK) status = ole_scorer_fit(&scorer, OLE_SCORE_KNN, train, NULL, NULL, error);
    if (status == OLE_OK)
        status = ole_scorer_run(scorer, test->features, NULL, test->rows, scores, threads, error);
    if (status == OLE_OK)
        status = ole_scorer_run(scorer, novel->features, NULL, novel->rows, scores + test->rows,
                                threads, error);
    if (status == OLE_OK)
        status = ole_roc_make(&roc, scores, test->rows, scores + test->rows, novel->rows, error);
    if (status == OLE_OK) {
        to[OLE_MEASURED_AUROC] = 100.0 * roc.auroc;
        ole_roc_free(&roc);
    }
    ole_scorer_free(scorer);
    free(scores);
    return status;
}

/* From the run's own metrics: errors, and the median time of a step over the epochs. */
static ole_status measure_run(double *to, const char *folder, bool classifier,
                              const ole_train_options *train, int64_t samples, ole_error *error) {
    ole_history h;
    ole_status status = ole_history_read(&h, folder, error);
    if (status != OLE_OK) return status;
    double best = 0.0, batch = (double)(train->batch_size < samples ? train->batch_size : samples);
    for (int64_t i = 0; i < h.count; i++)
        best = fmax(best, h.epochs[i].images_per_second);
    to[OLE_MEASURED_ERROR] = classifier ? h.test_error : h.knn1_error;
    to[OLE_MEASURED_KNN] = h.knn1_error;
    if (best > 0.0) to[OLE_MEASURED_STEP] = 1e3 * batch / best;
    ole_history_free(&h);
    return OLE_OK;
}

/* The known classes of `set`, and the novel ones of the same data. */
static ole_status measure_model(double *to, ole_model *model, const ole_dataset *set,
                                const ole_dataset *novel, int threads, ole_error *error) {
    const ole_model_info *info = ole_model_get_info(model);
    part test = {0}, train = {0}, other = {0};
    ole_status status = part_run(&test, model, set, OLE_SPLIT_TEST, info->classifier, error);
    if (status == OLE_OK && info->classifier) {
        const ole_outputs *o = &test.outputs;
        const ole_logits logits = {o->count, info->classes, o->logits, o->labels};
        ole_calibration calibration;
        ole_calibration_measure(&calibration, &logits, info->temperature);
        to[OLE_MEASURED_ECE] = 100.0 * calibration.ece;
    }
    if (status == OLE_OK) status = measure_features(to, &test.features, threads, error);
    if (status == OLE_OK && novel) {
        status = part_run(&train, model, set, OLE_SPLIT_TRAIN, false, error);
        if (status == OLE_OK) status = part_run(&other, model, novel, OLE_SPLIT_TEST, false, error);
        if (status == OLE_OK)
            status = measure_novelty(to, &train.features, &test.features, &other.features, threads,
                                     error);
    }
    part_free(&test);
    part_free(&train);
    part_free(&other);
    return status;
}

ole_status ole_losses_measure(ole_loss_entry *entry, int64_t seed, const char *folder,
                              const ole_train_options *train, const char *novel, ole_error *error) {
    double *to = entry->measured + seed * OLE_MEASURES;
    int threads = ole_rank_threads(train->threads, NULL);
    ole_dataset_options data;
    ole_dataset *set = NULL, *others = NULL;
    ole_model *model = NULL;
    ole_train_options own = *train;
    own.val_split = 0.0; /* as the run was retrained */
    own.seed += (uint64_t)seed;
    ole_train_dataset_options(&own, &data);
    ole_status status = ole_dataset_open(&set, train->data, &data, error);
    if (status == OLE_OK && novel) {
        data.classes = novel;
        data.samples_per_class = 0;
        status = ole_dataset_open(&others, train->data, &data, error);
    }
    if (status == OLE_OK) {
        int64_t samples = ole_dataset_get_info(set)->count[OLE_SPLIT_TRAIN];
        bool classifier = train->loss & OLE_LOSS_CLASSIFIERS;
        status = measure_run(to, folder, classifier, &own, samples, error);
    }
    if (status == OLE_OK) status = ole_model_load(&model, folder, threads, error);
    if (status == OLE_OK) status = measure_model(to, model, set, others, threads, error);
    ole_model_free(model);
    ole_dataset_close(others);
    ole_dataset_close(set);
    return status;
}
