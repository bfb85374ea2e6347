/*
 * src/train/ranks/rank_agreement.c - compares ranks with rank 0, and sends them its weights.
 *
 * Properties are written as lines "name=value"; rank 0 sends its lines to all, and the first line
 * that differs is the error.
 */
#include "train/ranks/rank_agreement.h"

#include "base/error.h"
#include "base/memory_file.h"
#include "base/quote.h"
#include "data/dataset.h"
#include "data/download/checksum.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Lines -------------------------------------------------------------------------------- */

/* All labels of a split. */
static void put_labels(FILE *to, const ole_dataset *set, ole_split split, const char *name) {
    char text[OLE_SHA256_DIGITS + 1];
    ole_checksum sum;
    int64_t count = set->info.count[split];
    ole_checksum_begin(&sum, OLE_MD5_DIGITS);
    if (count > 0)
        ole_checksum_add(&sum, ole_dataset_labels(set, split), (size_t)count * sizeof(int32_t));
    ole_checksum_end(&sum, text);
    fprintf(to, "%s samples=%" PRId64 "\nMD5 of the %s labels=%s\n", name, count, name, text);
}

/* Some training samples; the normalisation depends on all of them. */
static ole_status put_samples(FILE *to, const ole_dataset *set, ole_error *error) {
    enum { SAMPLES = 16 };
    char text[OLE_SHA256_DIGITS + 1];
    ole_checksum sum;
    size_t size = (size_t)ole_source_sample_size(&set->source);
    int64_t count = set->info.count[OLE_SPLIT_TRAIN];
    float *sample = malloc(size * sizeof *sample);
    ole_status status = sample ? OLE_OK : ole_fail(error, OLE_ERROR_MEMORY, "out of memory");
    ole_checksum_begin(&sum, OLE_MD5_DIGITS);
    for (int64_t k = 0; k < SAMPLES && k < count && status == OLE_OK; k++) {
        int64_t i = count < SAMPLES ? k : count / SAMPLES * k;
        status = ole_dataset_sample(set, OLE_SPLIT_TRAIN, i, sample, error);
        if (status == OLE_OK) ole_checksum_add(&sum, sample, size * sizeof *sample);
    }
    ole_checksum_end(&sum, text);
    free(sample);
    if (status == OLE_OK) fprintf(to, "MD5 of some training samples=%s\n", text);
    return status;
}

/* ---- Comparing ---------------------------------------------------------------------------- */

/* The first line in which two texts differ is the error. */
static ole_status compare_lines(const char *ours, const char *theirs, ole_error *error) {
    while (*ours || *theirs) {
        size_t a = strcspn(ours, "\n"), b = strcspn(theirs, "\n");
        if (a != b || memcmp(ours, theirs, a) != 0) {
            size_t name = strcspn(ours, "=\n"), other = strcspn(theirs, "=\n");
            if (name >= a || name != other || memcmp(ours, theirs, name) != 0)
                return ole_fail(
                    error, OLE_ERROR_ARGUMENT,
                    "it runs another build than rank 0; start the same program everywhere");
            return ole_fail(error, OLE_ERROR_ARGUMENT,
                            "%s is '%s' here and '%s' on rank 0; start all ranks with the same",
                            ole_quote(ours, name).text,
                            ole_quote(ours + name + 1, a - name - 1).text,
                            ole_quote(theirs + name + 1, b - name - 1).text);
        }
        ours += a + (ours[a] == '\n');
        theirs += b + (theirs[b] == '\n');
    }
    return OLE_OK;
}

/* Compares the lines with rank 0's, unless `status` is an error on some rank; frees them. */
static ole_status end_lines(ole_memory_file *lines, ole_ranks *ranks, ole_status status,
                            ole_error *error) {
    char *text = ole_memory_file_close(lines), *first = NULL;
    int64_t bytes = (int64_t)lines->size;
    if (!text && status == OLE_OK) status = ole_fail(error, OLE_ERROR_MEMORY, "out of memory");
    status = ole_ranks_agree(ranks, status, error);
    if (status == OLE_OK) {
        ole_ranks_broadcast(ranks, &bytes, sizeof bytes, 0);
        first = calloc((size_t)bytes + 1, 1);
        if (!first) status = ole_fail(error, OLE_ERROR_MEMORY, "out of memory to compare ranks");
        status = ole_ranks_agree(ranks, status, error);
    }
    if (status == OLE_OK) {
        if (ole_ranks_rank(ranks) == 0) memcpy(first, text, (size_t)bytes);
        ole_ranks_broadcast(ranks, first, bytes, 0);
        status = ole_ranks_agree(ranks, compare_lines(text, first, error), error);
    }
    free(first);
    free(text);
    return status;
}

ole_status ole_agree_on_options(const ole_train_options *options, ole_error *error) {
    if (ole_ranks_size(options->ranks) == 1) return OLE_OK;
    ole_memory_file lines;
    bool open = ole_memory_file_open(&lines);
    if (open) fprintf(lines.file, "version=%s\n", ole_version());
    for (const ole_option *o = ole_train_table; o->name && open; o++) {
        char room[OLE_OPTION_VALUE];
        const char *text = ole_option_text(o, options, room);
        char *shown = ole_without_secrets(text ? text : "");
        if (!(o->flags & OLE_PER_RANK)) fprintf(lines.file, "%s=%s\n", o->name, shown ? shown : "");
        free(shown);
    }
    return end_lines(&lines, options->ranks, OLE_OK, error);
}

ole_status ole_agree_on_data(ole_ranks *ranks, const ole_network *network, const ole_dataset *set,
                             const ole_card *card, ole_error *error) {
    if (ole_ranks_size(ranks) == 1) return OLE_OK;
    const ole_dataset_info *info = &set->info;
    const ole_backend *backend = network->backend;
    ole_memory_file lines;
    ole_status status = OLE_OK;
    if (ole_memory_file_open(&lines)) {
        FILE *to = lines.file;
        size_t bytes;
        ole_params_gradients(network->params, &bytes);
        fprintf(to, "device=%s\n", backend->name);
        if (backend->kernels)
            fprintf(to, "instruction set of the CPU=%s\n", backend->kernels(network->context));
        fprintf(to, "bytes of gradients=%zu\n", bytes);
        fprintf(to, "classes of the data=%d\n", info->classes);
        fprintf(to, "shape of the samples=%d x %d x %d\n", info->channels, info->height,
                info->width);
        put_labels(to, set, OLE_SPLIT_TRAIN, "training");
        put_labels(to, set, OLE_SPLIT_TEST, "test");
        put_labels(to, set, OLE_SPLIT_VALIDATION, "validation");
        for (int c = 0; c < ole_statistic_count(info); c++)
            fprintf(to, "normalisation of channel %d=%.9g / %.9g\n", c, (double)card->mean[c],
                    (double)card->deviation[c]);
        status = put_samples(to, set, error);
    }
    return end_lines(&lines, ranks, status, error);
}

/* ---- Weights ------------------------------------------------------------------------------ */

ole_status ole_agree_on_weights(ole_ranks *ranks, ole_network *network, int moments,
                                ole_state *state, ole_error *error) {
    if (ole_ranks_size(ranks) == 1) return OLE_OK;
    float *plain = ole_network_plain(network);
    ole_status status = plain ? OLE_OK : ole_fail(error, OLE_ERROR_MEMORY, "out of memory");
    status = ole_ranks_agree(ranks, status, error);
    for (int i = 0; i < network->graph->params && status == OLE_OK; i++) {
        const ole_param *param = &network->graph->param[i];
        int64_t bytes = param->count * (int64_t)sizeof *plain;
        ole_params_get(network->params, i, plain);
        ole_ranks_broadcast(ranks, plain, bytes, 0);
        ole_params_set(network->params, i, plain);
        if (ole_params_has_average(network->params)) {
            ole_params_get_average(network->params, i, plain);
            ole_ranks_broadcast(ranks, plain, bytes, 0);
            ole_params_set_average(network->params, i, plain);
        }
        for (int m = 0; m < moments && param->trained; m++) {
            ole_params_get_state(network->params, i, m, plain);
            ole_ranks_broadcast(ranks, plain, bytes, 0);
            ole_params_set_state(network->params, i, m, plain);
        }
    }
    if (status == OLE_OK) {
        double *loss_state = state->loss_state;
        ole_ranks_broadcast(ranks, state, sizeof *state, 0);
        state->loss_state = loss_state;
        if (loss_state)
            ole_ranks_broadcast(ranks, loss_state,
                                state->loss_state_count * (int64_t)sizeof *loss_state, 0);
    }
    free(plain);
    return status;
}

static ole_status checksum(const ole_network *network, char text[OLE_SHA256_DIGITS + 1],
                           ole_error *error) {
    float *plain = ole_network_plain(network);
    if (!plain) return ole_fail(error, OLE_ERROR_MEMORY, "out of memory to compare weights");
    ole_checksum sum;
    ole_checksum_begin(&sum, OLE_MD5_DIGITS);
    for (int i = 0; i < network->graph->params; i++) {
        ole_params_get(network->params, i, plain);
        ole_checksum_add(&sum, plain, (size_t)network->graph->param[i].count * sizeof *plain);
    }
    ole_checksum_end(&sum, text);
    free(plain);
    return OLE_OK;
}

ole_status ole_verify_weights(ole_ranks *ranks, const ole_network *network, ole_error *error) {
    if (ole_ranks_size(ranks) == 1) return OLE_OK;
    char ours[OLE_SHA256_DIGITS + 1] = "", first[OLE_SHA256_DIGITS + 1];
    ole_status status = checksum(network, ours, error);
    memcpy(first, ours, sizeof first);
    ole_ranks_broadcast(ranks, first, sizeof first, 0);
    if (status == OLE_OK && strcmp(ours, first) != 0)
        status = ole_fail(error, OLE_ERROR_NUMERIC,
                          "its weights differ from those of rank 0, perhaps from faulty memory or "
                          "different kinds of processors; resume from the last checkpoint");
    return ole_ranks_agree(ranks, status, error);
}
