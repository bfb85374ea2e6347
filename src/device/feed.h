/*
 * src/device/feed.h - samples in a backend's memory, and the order in which recorded steps
 * (recorder.h) take them.
 *
 * The device assembles batches by itself: it crops, mirrors, augments and normalises samples as the
 * loader of the host would, from the same random numbers.
 */
#ifndef OLE_SRC_DEVICE_FEED_H
#define OLE_SRC_DEVICE_FEED_H

#include "data/loader/photo.h"

#include <stdbool.h>
#include <stdint.h>

/* A data set in the backend's memory, and the samples of one split of it. */
typedef struct ole_resident ole_resident;
typedef struct ole_feed ole_feed;

typedef struct ole_resident_spec {
    const uint8_t *bytes; /* [count, c, h, w], or */
    const float *floats;
    int64_t count;
    int channels, height, width;
} ole_resident_spec;

typedef struct ole_feed_spec {
    const ole_resident *resident;
    int64_t samples;
    const int64_t *index;  /* [samples] where each lies */
    const int32_t *labels; /* [samples] */
    uint64_t seed;
    int crop;
    bool flip;
    ole_photo photo;
    bool mixes;         /* with the partners and shares of an epoch: data/loader/mixup.h */
    int channels;       /* normalised apart: table and floats are of so many */
    const float *table; /* [channels, 256] bytes, normalised */
    const float *mean, *deviation; /* [channels] of floats */
    int64_t batch;                 /* samples of a batch */
    int64_t batches;               /* of an epoch at most */
} ole_feed_spec;

typedef struct ole_feed_epoch {
    int64_t epoch;
    int64_t first;        /* batch to begin with */
    uint64_t step;        /* steps done before it, in all */
    const int64_t *order; /* [batches * batch] samples; beyond `samples` of them: none (-1) */
    const double *rates;  /* [batches] learning rates */
    /* Of a feed that mixes: */
    const int64_t *others; /* [batches * batch] samples that those of `order` are blended with; -1:
                              none */
    const float *shares;   /* [batches] */
    bool idle;             /* updates are skipped: a rehearsal */
} ole_feed_epoch;

#endif
