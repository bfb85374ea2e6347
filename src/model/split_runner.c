/*
 * src/model/split_runner.c - the one loop that runs a split through a network.
 *
 * Wrong predictions are summed over ranks; features and logits are gathered batch by batch, so that
 * every rank has them in the order of the split.
 */
#include "model/split_runner.h"

#include "base/error.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

const char *ole_split_part(ole_split split) {
    static const char *const parts[] = {"training samples", "test samples", "validation samples"};
    return parts[split];
}

static ole_status run_batch(const ole_split_runner *r, const ole_batch *batch, ole_error *error) {
    if (batch->count == 0) return OLE_OK; /* other ranks have the rows of this batch */
    if (r->in_use && !ole_in_use_take(r->in_use, "model", error)) return OLE_ERROR_ARGUMENT;
    ole_status status = ole_inference_run(r->inference, batch->images, batch->count, error);
    if (r->in_use) ole_in_use_release(r->in_use);
    return status;
}

/* Checks the outputs that are requested. */
static ole_status check_finite(const ole_split_runner *r, const ole_runner_outputs *out,
                               ole_split split, int64_t first, int64_t rows, ole_error *error) {
    const ole_inference *i = r->inference;
    int64_t dim = ole_network_feature_size(i->network), bad = -1;
    if (out->features) bad = ole_find_not_finite(i->features, rows, dim);
    if (bad < 0 && out->logits)
        bad = ole_find_not_finite(i->logits, rows, i->network->graph->classes);
    if (bad < 0) return OLE_OK;
    return ole_fail(error, OLE_ERROR_NUMERIC,
                    "sample %" PRId64 " of the %s: the network overflows; check its values",
                    first + bad, ole_split_part(split));
}

/* Gathers `rows` rows of `width` floats, some from each rank; `bytes` [ranks] is scratch. */
static void gather(ole_ranks *ranks, const float *mine, int64_t rows, int64_t width, float *all,
                   int64_t *bytes) {
    ole_ranks_part_bytes(ranks, rows, width * (int64_t)sizeof *all, bytes);
    ole_ranks_gather(ranks, mine, bytes, all);
}

/* A rank that fails keeps taking part until the end: the others wait for its rows. */
static ole_status run_batches(const ole_split_runner *r, ole_loader *loader, ole_split split,
                              int64_t count, int64_t *bytes, ole_runner_outputs *out,
                              ole_error *error) {
    const ole_inference *inference = r->inference;
    int classes = inference->network->graph->classes;
    int64_t dim = ole_network_feature_size(inference->network);
    ole_status status = OLE_OK;
    for (int64_t first = 0; first < count && !out->stopped; first += r->batch) {
        int64_t rows = count - first < r->batch ? count - first : r->batch;
        ole_batch batch = {0};
        if (status == OLE_OK) status = ole_loader_get(loader, 0, first / r->batch, &batch, error);
        if (status == OLE_OK) status = run_batch(r, &batch, error);
        if (status == OLE_OK && r->finite)
            status = check_finite(r, out, split, first, batch.count, error);
        if (status != OLE_OK && !r->ranks) return status;
        for (int64_t i = 0; i < batch.count; i++)
            out->wrong += ole_largest(inference->logits + i * classes, classes) != batch.labels[i];
        if (out->features)
            gather(r->ranks, inference->features, rows, dim, out->features + first * dim, bytes);
        if (out->logits)
            gather(r->ranks, inference->logits, rows, classes, out->logits + first * classes,
                   bytes);
        if (r->callback)
            out->stopped =
                r->callback(r->callback_context, r->part, r->before + first + rows, r->total);
    }
    ole_ranks_sum(r->ranks, &out->wrong, 1, OLE_I64);
    return ole_ranks_agree(r->ranks, status, error);
}

ole_status ole_split_run(const ole_split_runner *r, const ole_dataset *set, ole_split split,
                         ole_runner_outputs *out, ole_error *error) {
    int64_t count = ole_dataset_get_info(set)->count[split];
    out->wrong = 0;
    out->stopped = false;
    if (count == 0) return OLE_OK;
    ole_loader_options options;
    ole_loader_options_init(&options);
    options.batch_size = r->batch;
    options.part = ole_ranks_rank(r->ranks);
    options.parts = ole_ranks_size(r->ranks);
    options.threads = r->workers;
    memcpy(options.mean, r->card->mean, sizeof options.mean);
    memcpy(options.deviation, r->card->deviation, sizeof options.deviation);
    ole_loader *loader = NULL;
    int64_t *bytes = calloc((size_t)options.parts, sizeof *bytes);
    ole_status status = bytes ? ole_loader_create(&loader, set, split, &options, error)
                              : ole_fail(error, OLE_ERROR_MEMORY, "out of memory");
    status = ole_ranks_agree(r->ranks, status, error);
    if (status == OLE_OK) status = run_batches(r, loader, split, count, bytes, out, error);
    ole_loader_destroy(loader);
    free(bytes);
    return status;
}
