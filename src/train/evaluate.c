/*
 * src/train/evaluate.c - running splits through a network.
 *
 * Ranks each run their part of every batch.  What the classifier has wrong is added up; features,
 * where neighbours are wanted, are gathered batch after batch, so that they lie on all ranks as
 * they would on one, and each rank looks for the neighbours of its part of the queries.
 */
#include "train/evaluate.h"

#include "base/error.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* What the network made of a split. */
typedef struct outputs {
    int64_t count;
    int64_t wrong;   /* samples whose class the classifier misses */
    float *features; /* [count, D]; NULL where not asked for */
    const int32_t *labels;
} outputs;

/* Takes over the results of one batch, whose `rows` rows on all ranks begin with sample `first`. */
static void take_batch(outputs *o, const ole_measure *m, const ole_batch *batch, int64_t first,
                       int64_t rows, int64_t *bytes) {
    const ole_inference *inference = m->inference;
    int classes = inference->network->graph->classes;
    int64_t dim = ole_network_feature_size(inference->network);
    for (int64_t i = 0; i < batch->count; i++)
        o->wrong += ole_largest(inference->logits + i * classes, classes) != batch->labels[i];
    if (!o->features) return;
    for (int r = 0; r < ole_ranks_size(m->ranks); r++)
        bytes[r] = (ole_ranks_first(m->ranks, rows, r + 1) - ole_ranks_first(m->ranks, rows, r)) *
                   dim * (int64_t)sizeof(float);
    ole_ranks_gather(m->ranks, inference->features, bytes, o->features + first * dim);
}

/* `bytes` [ranks] is room.  A rank that fails goes on to the end: the others wait for its part. */
static ole_status run_batches(outputs *o, const ole_measure *m, ole_loader *loader, int64_t *bytes,
                              ole_error *error) {
    ole_status status = OLE_OK;
    for (int64_t b = 0; b < ole_loader_batches(loader); b++) {
        ole_batch batch = {0};
        int64_t first = b * m->batch, left = o->count - first;
        if (status == OLE_OK) status = ole_loader_get(loader, 0, b, &batch, error);
        if (status == OLE_OK && batch.count > 0)
            status = ole_inference_run(m->inference, batch.images, batch.count, error);
        if (status != OLE_OK && !m->ranks) return status;
        take_batch(o, m, &batch, first, left < m->batch ? left : m->batch, bytes);
    }
    ole_ranks_sum(m->ranks, &o->wrong, 1, OLE_I64);
    return ole_ranks_agree(m->ranks, status, error);
}

/* Batch by batch, from a loader. */
static ole_status run_split(outputs *o, const ole_measure *m, ole_split split, ole_error *error) {
    ole_loader_options options;
    ole_loader_options_init(&options);
    options.batch_size = m->batch;
    options.part = ole_ranks_rank(m->ranks);
    options.parts = ole_ranks_size(m->ranks);
    options.threads = m->workers;
    memcpy(options.mean, m->card->mean, sizeof options.mean);
    memcpy(options.deviation, m->card->deviation, sizeof options.deviation);
    ole_loader *loader = NULL;
    int64_t *bytes = calloc((size_t)options.parts, sizeof *bytes);
    ole_status status = bytes ? ole_loader_create(&loader, m->set, split, &options, error)
                              : ole_fail(error, OLE_ERROR_MEMORY, "out of memory");
    status = ole_ranks_agree(m->ranks, status, error);
    if (status == OLE_OK) status = run_batches(o, m, loader, bytes, error);
    ole_loader_destroy(loader);
    free(bytes);
    return status;
}

/* Runs the split through the network. On failure there is nothing to free. */
static ole_status collect(outputs *o, const ole_measure *m, ole_split split, bool features,
                          ole_error *error) {
    int64_t count = ole_dataset_get_info(m->set)->count[split];
    *o = (outputs){.count = count, .labels = ole_dataset_labels(m->set, split)};
    if (count == 0) return OLE_OK;
    ole_status status = OLE_OK;
    if (features) {
        size_t dim = (size_t)ole_network_feature_size(m->inference->network);
        o->features = malloc((size_t)count * dim * sizeof(float));
        if (!o->features)
            status = ole_fail(error, OLE_ERROR_MEMORY,
                              "out of memory for the features of %lld samples", (long long)count);
        status = ole_ranks_agree(m->ranks, status, error);
    }
    if (status == OLE_OK)
        status = m->queue ? ole_queue_evaluate(m->queue, split, &o->wrong, o->features, error)
                          : run_split(o, m, split, error);
    if (status != OLE_OK) {
        free(o->features);
        *o = (outputs){0};
    }
    return status;
}

static double error_of(const outputs *o) {
    return o->count > 0 ? 100.0 * (double)o->wrong / (double)o->count : NAN;
}

static ole_status knn_error(const ole_measure *m, const outputs *train, const outputs *query,
                            double *percent, ole_error *error) {
    int64_t dim = ole_network_feature_size(m->inference->network);
    int rank = ole_ranks_rank(m->ranks);
    int64_t first = ole_ranks_first(m->ranks, query->count, rank);
    int64_t rows = ole_ranks_first(m->ranks, query->count, rank + 1) - first;
    const ole_labelled reference = {train->count, train->features, train->labels};
    const ole_labelled queries = {rows, query->features + first * dim, query->labels + first};
    ole_status status = ole_knn1_error(dim, &reference, &queries, m->inference->network->threads,
                                       NULL, percent, error);
    status = ole_ranks_agree(m->ranks, status, error);
    if (ole_ranks_size(m->ranks) == 1 || status != OLE_OK) return status;
    int64_t wrong = isfinite(*percent) ? llround(*percent / 100.0 * (double)rows) : 0;
    ole_ranks_sum(m->ranks, &wrong, 1, OLE_I64);
    const outputs all = {.count = train->count > 0 ? query->count : 0, .wrong = wrong};
    *percent = error_of(&all);
    return OLE_OK;
}

ole_status ole_errors_measure(ole_errors *errors, const ole_measure *m, ole_error *error) {
    *errors = (ole_errors){NAN, NAN, NAN};
    outputs train = {0}, test = {0}, validation = {0};
    const int64_t *count = ole_dataset_get_info(m->set)->count;
    bool no_test = count[OLE_SPLIT_TEST] == 0;
    bool near_validation = !m->classifier && count[OLE_SPLIT_VALIDATION] > 0;
    ole_status status = collect(&test, m, OLE_SPLIT_TEST, m->knn, error);
    if (status == OLE_OK)
        status = collect(&validation, m, OLE_SPLIT_VALIDATION,
                         near_validation || (m->knn && no_test), error);
    if (status == OLE_OK && (m->knn || near_validation))
        status = collect(&train, m, OLE_SPLIT_TRAIN, true, error);
    if (status == OLE_OK && m->classifier) {
        errors->test = error_of(&test);
        errors->validation = error_of(&validation);
    }
    if (status == OLE_OK && near_validation)
        status = knn_error(m, &train, &validation, &errors->validation, error);
    if (status == OLE_OK && m->knn)
        status = knn_error(m, &train, no_test ? &validation : &test, &errors->knn1, error);
    free(train.features);
    free(test.features);
    free(validation.features);
    return status;
}
