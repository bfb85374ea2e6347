/*
 * src/data/loader/augment.h - one sample of a batch: cropped, mirrored, normalised, as floats.
 *
 * The crop pads the image with black (0, before normalisation) on each side and takes a window of
 * the image's size; mirroring comes after the crop.  What photo.h adds comes in its order.
 */
#ifndef OLE_SRC_DATA_LOADER_AUGMENT_H
#define OLE_SRC_DATA_LOADER_AUGMENT_H

#include "data/dataset.h"
#include "data/loader/photo.h"

typedef struct ole_augment {
    uint64_t seed;
    int crop;
    bool flip;
    ole_photo photo;
    float mean[OLE_MAX_CHANNELS];
    float deviation[OLE_MAX_CHANNELS];
    float table[OLE_MAX_CHANNELS][256]; /* bytes, normalised */
} ole_augment;

/* From the loader's options, which have been checked. */
void ole_augment_init(ole_augment *augment, const ole_loader_options *options);

/* Sample `i` of the split in an epoch, into `out` [channels, height, width]. */
void ole_augment_sample(const ole_augment *augment, const ole_dataset *set, ole_split split,
                        int64_t epoch, int64_t i, float *out);

#endif
