/*
 * src/train/run/evaluate.c - runs splits through the network (split_runner.h) and measures errors.
 *
 * With ranks, every rank has all features and searches the neighbours of its part of the queries.
 */
#include "train/run/evaluate.h"

#include "base/error.h"
#include "features/nearest.h"
#include "model/threshold.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_LOGITS = 1 << 28 }; /* of training samples that are kept for the threshold */

/* A split and the network's outputs for it. */
typedef struct evaluated {
    int64_t count;
    const int32_t *labels;
    ole_runner_outputs out;
} evaluated;

/* Runs a split; on failure there is nothing to free. */
static ole_status evaluate(evaluated *e, const ole_evaluation_request *m, ole_split split,
                           bool features, bool logits, ole_error *error) {
    const ole_split_runner *runner = &m->runner;
    *e = (evaluated){.count = ole_dataset_get_info(m->set)->count[split],
                     .labels = ole_dataset_labels(m->set, split)};
    if (e->count == 0) return OLE_OK;
    ole_status status = OLE_OK;
    if (features || logits) {
        const ole_network *network = runner->inference->network;
        size_t rows = (size_t)e->count * sizeof(float);
        if (features) e->out.features = malloc(rows * (size_t)ole_network_feature_size(network));
        if (logits) e->out.logits = malloc(rows * (size_t)network->graph->classes);
        if ((features && !e->out.features) || (logits && !e->out.logits))
            status =
                ole_fail(error, OLE_ERROR_MEMORY, "out of memory for the features of %lld samples",
                         (long long)e->count);
        status = ole_ranks_agree(runner->ranks, status, error);
    }
    if (status == OLE_OK)
        status = m->recorded ? ole_recorded_evaluate(m->recorded, split, &e->out, error)
                             : ole_split_run(runner, m->set, split, &e->out, error);
    if (status != OLE_OK) {
        free(e->out.features);
        free(e->out.logits);
        *e = (evaluated){0};
    }
    return status;
}

static double percent(int64_t wrong, int64_t count) {
    return count > 0 ? 100.0 * (double)wrong / (double)count : NAN;
}

static ole_status knn_error(const ole_evaluation_request *m, const evaluated *train,
                            const evaluated *query, double *result, ole_error *error) {
    const ole_network *network = m->runner.inference->network;
    ole_ranks *ranks = m->runner.ranks;
    int64_t dim = ole_network_feature_size(network);
    int rank = ole_ranks_rank(ranks);
    int64_t first = ole_ranks_first(ranks, query->count, rank);
    int64_t rows = ole_ranks_first(ranks, query->count, rank + 1) - first;
    const ole_labelled reference = {train->count, train->out.features, train->labels};
    const ole_labelled queries = {rows, query->out.features + first * dim, query->labels + first};
    ole_status status =
        ole_knn1_error(dim, &reference, &queries, network->threads, NULL, result, error);
    status = ole_ranks_agree(ranks, status, error);
    if (ole_ranks_size(ranks) == 1 || status != OLE_OK) return status;
    int64_t wrong = isfinite(*result) ? llround(*result / 100.0 * (double)rows) : 0;
    ole_ranks_sum(ranks, &wrong, 1, OLE_I64);
    *result = percent(wrong, train->count > 0 ? query->count : 0);
    return OLE_OK;
}

/* Moves the outputs of a split to the caller, with a copy of its labels. */
static ole_status hand_over(evaluated *e, ole_outputs *outputs, ole_error *error) {
    size_t bytes = (size_t)e->count * sizeof *e->labels;
    int32_t *labels = malloc(bytes + 1);
    if (!labels) return ole_fail(error, OLE_ERROR_MEMORY, "out of memory");
    if (bytes > 0) memcpy(labels, e->labels, bytes);
    ole_outputs_free(outputs);
    *outputs = (ole_outputs){e->count, e->out.features, e->out.logits, labels};
    e->out = (ole_runner_outputs){0};
    return OLE_OK;
}

/* From the validation split, else from the training split, if its logits were kept. */
static ole_status set_threshold(const ole_evaluation_request *m, const evaluated *train,
                                const evaluated *validation, bool kept, ole_error *error) {
    const evaluated *from = validation->count > 0 ? validation : train;
    const ole_logits logits = {from->count, m->card->classes, from->out.logits, from->labels};
    if (!kept || !from->out.logits) return ole_card_set_threshold(m->card, NULL, error);
    if (from == validation) return ole_card_set_threshold(m->card, &logits, error);
    return ole_card_cross_fit_threshold(m->card, &logits, train->out.features,
                                        ole_network_feature_size(m->runner.inference->network),
                                        error);
}

/* The features of the training split and, for a threshold, its logits: without memory for those,
 * there is no threshold. */
static ole_status evaluate_training(evaluated *train, const ole_evaluation_request *m, bool logits,
                                    ole_error *error) {
    ole_status status = evaluate(train, m, OLE_SPLIT_TRAIN, true, logits, error);
    if (status != OLE_ERROR_MEMORY || !logits) return status;
    *m->no_memory = true;
    ole_network_wait(m->runner.inference->network, NULL);
    return evaluate(train, m, OLE_SPLIT_TRAIN, true, false, error);
}

ole_status ole_errors_measure(ole_errors *errors, const ole_evaluation_request *m,
                              ole_error *error) {
    *errors = (ole_errors){NAN, NAN, NAN};
    evaluated train = {0}, test = {0}, validation = {0};
    const int64_t *count = ole_dataset_get_info(m->set)->count;
    bool no_test = count[OLE_SPLIT_TEST] == 0;
    bool near_validation = !m->classifier && count[OLE_SPLIT_VALIDATION] > 0;
    bool logits = m->outputs && m->knn && m->classifier, threshold = m->card && m->classifier;
    bool learned = threshold && count[OLE_SPLIT_VALIDATION] == 0 &&
                   count[OLE_SPLIT_TRAIN] <= MOST_LOGITS / m->card->classes;
    bool validates = m->validates || m->knn;
    ole_status status = evaluate(&test, m, OLE_SPLIT_TEST, m->knn, logits, error);
    if (status == OLE_OK && validates)
        status =
            evaluate(&validation, m, OLE_SPLIT_VALIDATION, near_validation || (m->knn && no_test),
                     (logits && no_test) || threshold, error);
    if (status == OLE_OK && (m->knn || near_validation))
        status = evaluate_training(&train, m, learned, error);
    if (status == OLE_OK && m->classifier) {
        errors->test = percent(test.out.wrong, test.count);
        errors->validation = percent(validation.out.wrong, validation.count);
    }
    if (status == OLE_OK && threshold)
        status =
            set_threshold(m, &train, &validation, m->knn || errors->validation < m->best, error);
    if (status == OLE_OK && near_validation)
        status = knn_error(m, &train, &validation, &errors->validation, error);
    if (status == OLE_OK && m->knn)
        status = knn_error(m, &train, no_test ? &validation : &test, &errors->knn1, error);
    if (status == OLE_OK && m->knn && m->outputs)
        status = hand_over(no_test ? &validation : &test, m->outputs, error);
    evaluated *const all[] = {&train, &test, &validation};
    for (int i = 0; i < 3; i++) {
        free(all[i]->out.features);
        free(all[i]->out.logits);
    }
    return status;
}
