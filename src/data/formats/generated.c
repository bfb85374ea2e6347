/* src/data/formats/generated.c - random samples where a reader would put those of a file. */
#include "data/formats/generated.h"

#include "base/philox.h"
#include "data/dataset.h"

#include <string.h>

static void fill_samples(ole_source *source) {
    int64_t bytes = source->count * ole_source_sample_size(source);
    uint32_t word[4];
    for (int64_t at = 0; at < bytes; at += (int64_t)sizeof word) {
        int64_t left = bytes - at < (int64_t)sizeof word ? bytes - at : (int64_t)sizeof word;
        ole_philox(0, OLE_RANDOM_TEST, 0, (uint64_t)at, word);
        memcpy(source->bytes + at, word, (size_t)left);
    }
    for (int64_t i = 0; i < source->count; i++)
        source->labels[i] = (int32_t)(i % source->classes);
}

ole_status ole_dataset_generate(ole_dataset **set, const ole_generated_options *options,
                                ole_error *error) {
    ole_source source = {
        .channels = options->channels, .height = options->height, .width = options->width};
    *set = NULL;
    ole_status status = ole_source_name_all(&source, options->classes, NULL, error);
    if (status == OLE_OK) status = ole_source_grow(&source, options->count, error);
    if (status != OLE_OK) {
        ole_source_free(&source);
        return status;
    }
    source.train_count = source.count;
    fill_samples(&source);
    return ole_dataset_take(set, "generated", &source, NULL, error);
}
