/*
 * src/data/loader/augment.c - from a stored sample to a row of a batch, in one pass over its
 * pixels.
 */
#include "data/loader/augment.h"

#include <string.h>

static float normalise(const ole_augment *a, float x, int channel) {
    return (x - a->mean[channel]) / a->deviation[channel];
}

void ole_augment_init(ole_augment *augment, const ole_loader_options *options) {
    augment->seed = options->seed;
    augment->crop = options->crop;
    augment->flip = options->flip;
    augment->photo = (ole_photo){.resized = (float)options->resized_crop,
                                 .rotate = (float)options->rotate,
                                 .jitter = (float)options->jitter,
                                 .erase = (float)options->erase,
                                 .cutout = options->cutout};
    memcpy(augment->mean, options->mean, sizeof augment->mean);
    memcpy(augment->deviation, options->deviation, sizeof augment->deviation);
    for (int c = 0; c < OLE_MAX_CHANNELS; c++)
        for (int v = 0; v < 256; v++)
            augment->table[c][v] = normalise(augment, (float)v / 255.0f, c);
}

/* One row of `width` pixels; `at` is its element number in the source, -1 for a row of the pad. */
static void copy_row(const ole_augment *a, const ole_source *source, int64_t at, int channel,
                     const ole_photo_draw *w, float *out) {
    int width = source->width;
    float black = source->floating ? normalise(a, 0, channel) : a->table[channel][0];
    for (int x = 0; x < width; x++) {
        int from = (w->mirror ? width - 1 - x : x) + w->left;
        if (at < 0 || from < 0 || from >= width)
            out[x] = black;
        else if (source->floating)
            out[x] = normalise(a, source->floats[at + from], channel);
        else
            out[x] = a->table[channel][source->bytes[at + from]];
    }
}

/* Neither crop nor mirror: `size` elements of one channel, unchanged. */
static void copy_plain(const ole_augment *a, const ole_source *source, int64_t at, int64_t size,
                       int channel, float *out) {
    const float *table = a->table[channel];
    if (source->floating)
        for (int64_t k = 0; k < size; k++)
            out[k] = normalise(a, source->floats[at + k], channel);
    else
        for (int64_t k = 0; k < size; k++)
            out[k] = table[source->bytes[at + k]];
}

/* The whole image that starts at element `start`, pixel by pixel. */
static void take_photo(const ole_augment *a, const ole_source *source, int64_t start, int64_t epoch,
                       int64_t i, float *out) {
    int c = source->channels, h = source->height, w = source->width;
    int64_t plane = (int64_t)h * w;
    const uint8_t *bytes = source->floating ? NULL : source->bytes + start;
    const float *floats = source->floating ? source->floats + start : NULL;
    bool jitter = a->photo.jitter > 0;
    ole_photo_draw draw;
    ole_photo_draw_sample(&a->photo, a->seed, a->crop, a->flip, h, w, epoch, i, &draw);
    for (int y = 0; y < h; y++)
        for (int x = 0; x < w; x++, out++) {
            float value[OLE_PHOTO_CHANNELS];
            bool kept = ole_photo_pixel(&draw, jitter, bytes, floats, c, h, w, y, x, value);
            for (int k = 0; k < c; k++)
                out[k * plane] = kept ? normalise(a, value[k], k) : 0.0f;
        }
}

void ole_augment_sample(const ole_augment *augment, const ole_dataset *set, ole_split split,
                        int64_t epoch, int64_t i, float *out) {
    const ole_source *source = &set->source;
    int64_t size = ole_source_sample_size(source), start = set->splits.index[split][i] * size;
    int pieces = ole_statistic_count(&set->info);
    int64_t plane = size / pieces;
    if (ole_photo_is_on(&augment->photo)) {
        take_photo(augment, source, start, epoch, i, out);
        return;
    }
    if (augment->crop == 0 && !augment->flip) {
        for (int c = 0; c < pieces; c++)
            copy_plain(augment, source, start + c * plane, plane, c, out + c * plane);
        return;
    }
    ole_photo_draw w;
    uint32_t words[4];
    ole_philox(augment->seed, OLE_RANDOM_WINDOW, (uint64_t)epoch, (uint64_t)i, words);
    ole_photo_window(words, augment->crop, augment->flip, &w);
    for (int c = 0; c < source->channels; c++)
        for (int y = 0; y < source->height; y++, out += source->width) {
            int from = y + w.top;
            bool inside = from >= 0 && from < source->height;
            int64_t row = start + c * plane + (int64_t)from * source->width;
            copy_row(augment, source, inside ? row : -1, c, &w, out);
        }
}
