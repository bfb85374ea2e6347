/*
 * src/train/bench_data.h - the options of a benchmark, checked, and its images: generated, in
 * memory, assembled by a loader as training has it.
 */
#ifndef OLE_SRC_TRAIN_BENCH_DATA_H
#define OLE_SRC_TRAIN_BENCH_DATA_H

#include "net/graph.h"
#include "ole/bench.h"
#include "ole/data.h"

/* Of an epoch. */
enum { OLE_BENCH_BATCHES = 4 };

/* The net is named, numbers and words are those that training takes, and every rank has an image.
 */
ole_status ole_bench_check(const ole_bench_options *options, int ranks, ole_error *error);

/* A few batches; NULL for images of more channels than the loader takes. */
ole_status ole_bench_images(ole_dataset **set, const ole_bench_options *options, int64_t batch,
                            ole_error *error);

/* Which part of batches of `batch` images a loader assembles, with how many threads ahead. */
typedef struct ole_bench_part {
    int64_t batch;
    int part, parts; /* 0, 0: all of it */
    int threads;
} ole_bench_part;

ole_status ole_bench_loader(ole_loader **loader, const ole_dataset *set,
                            const ole_bench_options *options, const ole_bench_part *part,
                            ole_error *error);

/* Batch `number`, counted over the epochs. */
ole_status ole_bench_next(ole_loader *loader, int64_t number, ole_batch *batch, ole_error *error);

/* FLOP of an image through a convolution or linear layer, forward; 0 for others. */
double ole_bench_flop(const ole_node *node);

#endif
