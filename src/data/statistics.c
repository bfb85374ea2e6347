/*
 * src/data/statistics.c - mean and standard deviation of the training split.
 *
 * Bytes are counted in a histogram, so the sums are exact; floats are summed in double in two
 * passes.  Either way the result does not depend on the order of anything.
 */
#include "base/error.h"
#include "data/dataset.h"

#include <math.h>

/* Which statistic an element of a sample belongs to, as a count of equal, adjacent pieces. */
typedef struct pieces {
    int count;
    int64_t size;
} pieces;

static pieces find_pieces(const ole_dataset *set) {
    int count = ole_statistic_count(&set->info);
    return (pieces){count, ole_source_sample_size(&set->source) / count};
}

static const int64_t *train_samples(const ole_dataset *set, int64_t *count) {
    *count = set->splits.count[OLE_SPLIT_TRAIN];
    return set->splits.index[OLE_SPLIT_TRAIN];
}

static void byte_statistics(const ole_dataset *set, int piece, double *mean, double *variance) {
    pieces p = find_pieces(set);
    int64_t histogram[256] = {0}, samples;
    const int64_t *index = train_samples(set, &samples);
    for (int64_t i = 0; i < samples; i++) {
        const uint8_t *at = set->source.bytes + (index[i] * p.count + piece) * p.size;
        for (int64_t k = 0; k < p.size; k++)
            histogram[at[k]]++;
    }
    double total = (double)samples * (double)p.size;
    *mean = *variance = 0;
    for (int v = 0; v < 256; v++)
        *mean += v / 255.0 * ((double)histogram[v] / total);
    for (int v = 0; v < 256; v++)
        *variance += (v / 255.0 - *mean) * (v / 255.0 - *mean) * ((double)histogram[v] / total);
}

static void float_statistics(const ole_dataset *set, int piece, double *mean, double *variance) {
    pieces p = find_pieces(set);
    int64_t samples;
    const int64_t *index = train_samples(set, &samples);
    double total = (double)samples * (double)p.size;
    *mean = *variance = 0;
    for (int pass = 0; pass < 2; pass++) {
        double sum = 0;
        for (int64_t i = 0; i < samples; i++) {
            const float *at = set->source.floats + (index[i] * p.count + piece) * p.size;
            for (int64_t k = 0; k < p.size; k++)
                sum += pass == 0 ? at[k] : (at[k] - *mean) * (at[k] - *mean);
        }
        *(pass == 0 ? mean : variance) = sum / total;
    }
}

ole_status ole_dataset_statistics(const ole_dataset *set, float *mean, float *deviation,
                                  ole_error *error) {
    if (!set || !mean || !deviation)
        return ole_fail(error, OLE_ERROR_ARGUMENT,
                        "ole_dataset_statistics: set, mean or deviation is NULL");
    for (int piece = 0; piece < ole_statistic_count(&set->info); piece++) {
        double m, variance;
        if (set->source.floating)
            float_statistics(set, piece, &m, &variance);
        else
            byte_statistics(set, piece, &m, &variance);
        mean[piece] = (float)m;
        deviation[piece] = (float)sqrt(variance);
        if (!(deviation[piece] > 0)) deviation[piece] = 1; /* a constant: nothing to divide by */
    }
    return OLE_OK;
}
