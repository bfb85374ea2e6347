/*
 * src/data/loader/augment.c - from a stored sample to a row of a batch, in one pass over its
 * pixels.
 */
#include "data/loader/augment.h"

#include "base/philox.h"

#include <string.h>

/* Where output pixel (y, x) comes from: (y + top, x + left), x counted from the right if mirrored.
 */
typedef struct window {
    int top, left;
    bool mirror;
} window;

static float normalise(const ole_augment *a, float x, int channel) {
    return (x - a->mean[channel]) / a->deviation[channel];
}

void ole_augment_init(ole_augment *augment, const ole_loader_options *options) {
    augment->seed = options->seed;
    augment->crop = options->crop;
    augment->flip = options->flip;
    memcpy(augment->mean, options->mean, sizeof augment->mean);
    memcpy(augment->deviation, options->deviation, sizeof augment->deviation);
    for (int c = 0; c < OLE_MAX_CHANNELS; c++)
        for (int v = 0; v < 256; v++)
            augment->table[c][v] = normalise(augment, (float)v / 255.0f, c);
}

static window draw_window(const ole_augment *a, int64_t epoch, int64_t i) {
    uint32_t words[4];
    ole_philox(a->seed, OLE_RANDOM_AUGMENT, (uint64_t)epoch, (uint64_t)i, words);
    uint32_t places = 2 * (uint32_t)a->crop + 1;
    return (window){
        .top = (int)ole_below(words[0], places) - a->crop,
        .left = (int)ole_below(words[1], places) - a->crop,
        .mirror = a->flip && words[2] >> 31,
    };
}

/* One row of `width` pixels; `at` is its element number in the source, -1 for a row of the pad. */
static void copy_row(const ole_augment *a, const ole_source *source, int64_t at, int channel,
                     const window *w, float *out) {
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

/* Neither crop nor mirror: `size` elements of one channel as they lie. */
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

void ole_augment_sample(const ole_augment *augment, const ole_dataset *set, ole_split split,
                        int64_t epoch, int64_t i, float *out) {
    const ole_source *source = &set->source;
    int64_t size = ole_source_sample_size(source), start = set->splits.index[split][i] * size;
    int pieces = ole_statistic_count(&set->info);
    int64_t plane = size / pieces;
    if (augment->crop == 0 && !augment->flip) {
        for (int c = 0; c < pieces; c++)
            copy_plain(augment, source, start + c * plane, plane, c, out + c * plane);
        return;
    }
    window w = draw_window(augment, epoch, i);
    for (int c = 0; c < source->channels; c++)
        for (int y = 0; y < source->height; y++, out += source->width) {
            int from = y + w.top;
            bool inside = from >= 0 && from < source->height;
            int64_t row = start + c * plane + (int64_t)from * source->width;
            copy_row(augment, source, inside ? row : -1, c, &w, out);
        }
}
