/*
 * src/bench/bench_data.h - what benchmarks time: the real training step (step.h or
 * recorded.h) on generated images, assembled by a loader as in training.
 */
#ifndef OLE_SRC_BENCH_BENCH_DATA_H
#define OLE_SRC_BENCH_BENCH_DATA_H

#include "bench/bench.h"
#include "train/recorded/recorded.h"

/* Of an epoch. */
enum { OLE_BENCH_BATCHES = 4 };

/* The net is named, numbers and words are those that training takes, and every rank has an image.
 */
ole_status ole_bench_check(const ole_bench_options *options, int ranks, ole_error *error);

/* A network ready to step.  Fill the first four fields and open it. */
typedef struct ole_bench_setup {
    const ole_bench_options *options;
    ole_ranks *ranks;        /* that step together; NULL: this one alone */
    const ole_ranks *beside; /* all on the hosts: each keeps to its share of them; or NULL */
    int64_t batch;           /* images per step, on all ranks together */
    ole_network network;
    ole_dataset *set;   /* a few batches; NULL where the loader does not take such images */
    ole_loader *loader; /* one thread ahead of the steps */
    float *images;      /* without a set: one batch for every step, */
    int32_t *labels;    /* ... alone */
    ole_stepper *stepper;
    ole_recorded *recorded; /* where the device records its steps; or NULL */
} ole_bench_setup;

/* With ranks this is collective, and an error is one on all.  Close it after a failure too. */
ole_status ole_bench_open(ole_bench_setup *setup, ole_error *error);
void ole_bench_close(ole_bench_setup *setup);

/* A loader of the images, with `threads` ahead. */
ole_status ole_bench_loader(ole_loader **loader, const ole_bench_setup *setup, int threads,
                            ole_error *error);

/* Batch `number`, counted over the epochs. */
ole_status ole_bench_next(ole_loader *loader, int64_t number, ole_batch *batch, ole_error *error);

/* Step `number`, counted from 0; *seconds: what assembling its batch took. */
ole_status ole_bench_step(ole_bench_setup *setup, int64_t number, double *seconds,
                          ole_step_result *result, ole_error *error);

/* The median; sorts the values. */
double ole_bench_median(double *values, int64_t count);

/* FLOP per image of a convolution or linear layer, forward; 0 for others. */
double ole_bench_flop(const ole_node *node);

#endif
