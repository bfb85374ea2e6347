/*
 * src/data/statistics.c - mean and standard deviation of the training split.
 *
 * Bytes are counted in a histogram, so the sums are exact; floats are summed in double in two
 * passes.  Either way the result does not depend on the order of anything.
 */
#include "base/error.h"
#include "data/dataset.h"

#include <math.h>

/* Elements of one statistic in all training samples: `size` from `offset` on in each. */
typedef struct elements {
    const ole_source *source;
    const int64_t *index; /* [samples] */
    int64_t samples, offset, size;
} elements;

static void byte_statistics(const elements *e, double *mean, double *variance) {
    int64_t histogram[256] = {0}, one = ole_source_sample_size(e->source);
    for (int64_t i = 0; i < e->samples; i++) {
        const uint8_t *at = e->source->bytes + e->index[i] * one + e->offset;
        for (int64_t k = 0; k < e->size; k++)
            histogram[at[k]]++;
    }
    double total = (double)e->samples * (double)e->size;
    for (int v = 0; v < 256; v++)
        *mean += v / 255.0 * ((double)histogram[v] / total);
    for (int v = 0; v < 256; v++)
        *variance += (v / 255.0 - *mean) * (v / 255.0 - *mean) * ((double)histogram[v] / total);
}

static void float_statistics(const elements *e, double *mean, double *variance) {
    int64_t one = ole_source_sample_size(e->source);
    for (int pass = 0; pass < 2; pass++) {
        double sum = 0;
        for (int64_t i = 0; i < e->samples; i++) {
            const float *at = e->source->floats + e->index[i] * one + e->offset;
            for (int64_t k = 0; k < e->size; k++)
                sum += pass == 0 ? at[k] : (at[k] - *mean) * (at[k] - *mean);
        }
        *(pass == 0 ? mean : variance) = sum / ((double)e->samples * (double)e->size);
    }
}

ole_status ole_dataset_statistics(const ole_dataset *set, float *mean, float *deviation,
                                  ole_error *error) {
    if (!set || !mean || !deviation)
        return ole_fail(error, OLE_ERROR_ARGUMENT,
                        "ole_dataset_statistics: set, mean or deviation is NULL");
    int count = ole_statistic_count(&set->info);
    elements e = {&set->source, set->splits.index[OLE_SPLIT_TRAIN],
                  set->splits.count[OLE_SPLIT_TRAIN], 0,
                  ole_source_sample_size(&set->source) / count};
    for (int i = 0; i < count; i++, e.offset += e.size) {
        double m = 0, variance = 0;
        (set->source.floating ? float_statistics : byte_statistics)(&e, &m, &variance);
        mean[i] = (float)m;
        deviation[i] = (float)sqrt(variance);
        if (!(deviation[i] > 0)) deviation[i] = 1; /* a constant: nothing to divide by */
    }
    return OLE_OK;
}
