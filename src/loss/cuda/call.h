/*
 * src/loss/cuda/call.h - the arguments that one evaluation on a GPU passes to its kernels.
 *
 * The kernels, in the order of the stream (plan.c queues them; docs/maths.md section 7 says why):
 *     group    rows sorted by label; NaN and Inf                              (group.cu)
 *     gram     Gram matrices of the small matrices in twice float64's length  (gram.cu)
 *     small    matrices of up to LOSS_SMALL on their smaller side, a block each    (small.cu)
 *     iterate  larger ones, the whole GPU on all of them                      (iterate.cu)
 *     apply    value and gradient                                             (apply.cu)
 *
 * "Matrices" are the rows of each class and the whole batch.  A class is known by the place of its
 * first row in the sorted order (`slot`); the whole has slot max_rows.
 */
#ifndef OLE_SRC_LOSS_CUDA_CALL_H
#define OLE_SRC_LOSS_CUDA_CALL_H

#include "ole/loss.h"

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
    LOSS_SMALL = 64,                        /* the largest smaller side that small.cu takes */
    GRAM_TILE = 8,                          /* side of a tile of a Gram matrix */
    GRAM_ENTRIES = GRAM_TILE * GRAM_TILE,   /* of a tile */
    GRAM_BAND = LOSS_SMALL / GRAM_TILE + 1, /* tiles left of the diagonal, itself included */
};

/* The terms that a call computes: of the classes, of the whole batch. */
enum { LOSS_CLASSES = 1, LOSS_WHOLE = 2 };

/* A larger matrix under iteration, in device memory. */
typedef struct loss_large {
    int slot, start, rows;
    int side;     /* m, the smaller of rows and dim */
    int columns;  /* nonzero: rows > dim, and Gram matrices are of columns */
    int active;   /* nonzero: takes part in the step at hand */
    int cut;      /* nonzero: there may be σ under the threshold to remove */
    int current;  /* which of the buffers holds Y: 0 or 1; -1: the rows themselves */
    double bound; /* >= σ_max of the matrix at hand */
    double threshold;
} loss_large;

/* The kernels' only argument, passed by value. All pointers are device memory. */
typedef struct loss_call {
    /* the batch */
    const void *x;
    int64_t x_stride;
    const void *labels;
    int wide_labels; /* int64 */
    int dtype;       /* ole_dtype of x and gradient */
    int rows, dim;
    /* what comes out */
    void *gradient; /* or NULL */
    int64_t gradient_stride;
    double upstream;
    int accumulate;
    ole_loss_outcome *outcome; /* or NULL */
    /* options */
    double weight, floor, cut_absolute, cut_relative;
    double shift; /* taken from a matrix's norm for each of its rows */
    int terms;    /* LOSS_CLASSES, LOSS_WHOLE or both; what is left out counts as 0 */
    int mean;
    int scaled; /* float64: rows are scaled by a power of two, so that squares fit */
    int rounds; /* of iterate, at most */
    /* group */
    int max_rows;
    int *used;          /* [1] rows that are not ignored */
    int *order;         /* [max_rows] place in the sorted order -> row */
    int *first;         /* [max_rows] place -> place of its class's first row */
    int *count;         /* [max_rows] place -> rows of its class */
    int64_t *label;     /* [max_rows] place -> label */
    unsigned char *bad; /* [max_rows] row -> holds NaN or Inf and is not ignored */
    double *largest;    /* [max_rows] row -> largest |x|, where scaled */
    /* results of each matrix, by slot */
    double *norm; /* [max_rows + 1] */
    int *rank;    /* [max_rows + 1] */
    /* gram: sums in two parts (x + y), tile by tile, in partial sums to be added */
    double2 *gram_rows;    /* [tiles of max_rows, GRAM_BAND, row_splits, GRAM_ENTRIES] */
    double2 *gram_columns; /* the whole's [column_tiles, column_splits, GRAM_ENTRIES], then those of
                              classes [column_tiles, GRAM_ENTRIES] (column_gram_at) */
    int row_splits, column_splits;
    int column_tiles; /* of a lower triangle of side dim */
    /* small: K with polar = K rows (or rows K, for columns), [LOSS_SMALL] wide */
    double *k_class; /* [max_rows, LOSS_SMALL]: of class c from its slot on */
    double *k_whole; /* [LOSS_SMALL, LOSS_SMALL] */
    /* iterate */
    loss_large *large; /* [max_large] */
    int max_large;
    double *sorted;       /* [max_rows, dim] the rows in float64, sorted and scaled */
    double *y[2][2];      /* [whole 0, classes 1][buffer]: [max_rows, dim] */
    double *square[2][3]; /* likewise: side x side, classes from slot * square_pitch on */
    int64_t square_pitch;
    double *vector[2][2]; /* likewise: [max_rows] */
    double *deviation;    /* [max_large, deviation_pitch] of a tile from the identity */
    int64_t deviation_pitch;
} loss_call;

/* Queue a kernel; the error is that of the launch. */
cudaError_t loss_launch_group(const loss_call *call, cudaStream_t stream);
cudaError_t loss_launch_gram(const loss_call *call, cudaStream_t stream);
cudaError_t loss_launch_small(const loss_call *call, cudaStream_t stream);
cudaError_t loss_launch_iterate(const loss_call *call, int blocks, cudaStream_t stream);
cudaError_t loss_launch_apply(const loss_call *call, cudaStream_t stream);

/* Once per GPU: lets small have the shared memory it needs. */
cudaError_t loss_small_prepare(void);

/* For the losses made of this one (loss/criteria/cuda): changes what a plan computes; and where its
 * norms lie on the GPU, [max_rows + 1] by slot. */
struct ole_cuda_loss;
void loss_restrict(struct ole_cuda_loss *loss, int terms, double shift);
const double *loss_norms(const struct ole_cuda_loss *loss);

/* How many blocks of iterate fit on the current GPU at once. */
cudaError_t loss_iterate_blocks(int multiprocessors, int *blocks);

/* Tiles of the lower triangle of a side x side matrix in iterate. */
int64_t loss_iterate_tiles(int64_t side);

#ifdef __cplusplus
}
#endif
#endif
