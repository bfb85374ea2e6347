/*
 * src/bench/bench.h - how long a training step of a network takes on this machine, and where the
 * time goes: `ole bench`.
 *
 * The images are random and in memory.  A loader thread crops, mirrors and normalises them ahead of
 * the step, as in training; the measured time is the wait for a batch, forward, losses, backward
 * and update.  On a GPU a step is one recorded graph; the time of a part is what the step saves
 * without it, so parts that overlap with others cost little or nothing.
 */
#ifndef OLE_SRC_BENCH_BENCH_H
#define OLE_SRC_BENCH_BENCH_H

#include "base/export.h"
#include "ole/ranks.h"

#include <stdbool.h>

/* Fill with ole_bench_options_init(). */
typedef struct ole_bench_options {
    const char *net;
    int channels, height, width; /* default 3 x 32 x 32 */
    int classes;                 /* default 10 */
    int64_t batch_size;          /* default 64 */
    const char *device;          /* "auto" (default), "cpu", "cuda[:i]", "ref" */
    const char *precision;       /* "fp32" (default), "tf32", "bf16" */
    const char *conv;            /* "auto" (default), "direct" */
    int threads;                 /* 0 (default): all processors */
    double seconds;              /* to measure for, at least 5 steps; default 3 */
    bool softmax_only;           /* without OLÉ; default false */
    bool step_only;              /* only a step's time, without the parts that take time to find */
                                 /* (stages and kinds on a GPU, loader, product); default false */
    const char *bn, *ole_scope;  /* of ole_bench_ranks(): as in ole/train/train.h */
    ole_part_callback *callback; /* NULL (default): none.  Images run of those expected; for */
                                 /* ole_bench_ranks() rows of the table, which cannot be stopped */
    void *callback_context;
} ole_bench_options;

OLE_INTERNAL void ole_bench_options_init(ole_bench_options *options);

/* Parts of a step. */
typedef enum ole_bench_stage {
    OLE_BENCH_DATA, /* waiting for the loader's batch; 0 for images of more than 4 channels, */
                    /* which it does not take: there the batch stays the same */
    OLE_BENCH_FORWARD,
    OLE_BENCH_SOFTMAX, /* the loss, its gradient, reading the features */
    OLE_BENCH_OLE,
    OLE_BENCH_BACKWARD,
    OLE_BENCH_UPDATE,
    OLE_BENCH_STAGES,
} ole_bench_stage;

OLE_INTERNAL const char *ole_bench_stage_name(ole_bench_stage stage);

/* All ops of one kind. */
typedef struct ole_bench_kind {
    const char *name; /* "conv", "norm", ... */
    double forward_ms, backward_ms;
    double forward_gflops, backward_gflops; /* FLOP per second; 0 for kinds that only move memory */
} ole_bench_kind;

enum { OLE_BENCH_KINDS = 16 };

typedef struct ole_bench_result {
    double step_ms;      /* median */
    double processor_ms; /* of all threads, loader included: the mean of a step, which other */
                         /* programs on the machine disturb less; 0 on a GPU */
    double images_per_s;
    double loader_images_per_s;        /* of one loader thread by itself */
    int64_t steps;                     /* measured */
    double stage_ms[OLE_BENCH_STAGES]; /* means */
    int kinds;
    ole_bench_kind kind[OLE_BENCH_KINDS];
    int64_t launches;      /* on a GPU: kernels and copies per step; else 0 */
    size_t peak_bytes;     /* of the process, as the system counts it; on a GPU: of its memory */
    size_t plan_bytes;     /* activations, gradients, scratch: planned */
    size_t unshared_bytes; /* the same if every tensor had memory of its own */
    size_t param_bytes;    /* weights, gradients, optimiser state */
    double peak_gflops;    /* of a 1024 x 1024 x 1024 matrix product on this device */
    int threads;
    char device[32];
    bool interrupted; /* by the callback: the rest is meaningless then */
} ole_bench_result;

OLE_INTERNAL ole_status ole_bench(const ole_bench_options *options, ole_bench_result *result,
                                  ole_error *error);

/*
 * How steps scale with ranks.  Strong: batch_size images on all ranks together; weak: batch_size on
 * each.  Every row is measured by the first ranks of the group while the others wait.
 */
typedef struct ole_bench_scale {
    int ranks;
    bool weak;
    int64_t batch;  /* of all ranks */
    double step_ms; /* median */
    double images_per_s;
    double efficiency;   /* one rank's time over ranks times ours (strong), or over ours (weak) */
    double apart_ms;     /* the same ranks, as many images each, at the same time, but each alone */
    double exposed_ms;   /* of a step that a rank waits for others: mean of the ranks */
    double ole_ms;       /* of a step, for OLÉ, including its messages */
    double ole_apart_ms; /* the same with each rank alone */
    char route[16];      /* how the loss of all rows was computed; "" without one */
} ole_bench_scale;

/* A sum over ranks. */
typedef struct ole_bench_sum {
    int ranks;
    int64_t bytes;
    double ms; /* median */
} ole_bench_sum;

enum { OLE_BENCH_SCALES = 64, OLE_BENCH_SUMS = 160 };

typedef struct ole_bench_scaling {
    int scales, sums;
    ole_bench_scale scale[OLE_BENCH_SCALES];
    ole_bench_sum sum[OLE_BENCH_SUMS];
    int64_t gradient_bytes;    /* summed per step */
    int norms, norm_sums;      /* batch norms, and their sums over ranks per step */
    int64_t norm_bytes;        /* of all these sums */
    int64_t features;          /* per image, as OLÉ reads them */
    double flop;               /* per image, forward and backward */
    int threads, ranks, hosts; /* threads per rank */
    char device[32];
} ole_bench_scaling;

/* All ranks call it with the same options; all get the same result or error. */
OLE_INTERNAL ole_status ole_bench_ranks(const ole_bench_options *options, ole_ranks *ranks,
                                        ole_bench_scaling *result, ole_error *error);

#endif
