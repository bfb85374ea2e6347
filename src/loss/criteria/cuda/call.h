/*
 * src/loss/criteria/cuda/call.h - the argument that one evaluation passes to the kernels of the
 * criteria, and what they share.
 *
 * plan.c queues, in the order of the stream: the rows sorted by label (loss/cuda/group.cu); sorted,
 * unit and class vectors (rows.cu); the kernels of the criterion, which leave a value per place and
 * a gradient `du` of the unit rows; the gradients of rows and class vectors, and the outcome
 * (rows.cu).  A "place" is a row's number in the sorted order; only *used of them exist.
 */
#ifndef OLE_SRC_LOSS_CRITERIA_CUDA_CALL_H
#define OLE_SRC_LOSS_CRITERIA_CUDA_CALL_H

#include "loss/criteria/cuda.h"
#include "ole/loss.h"

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { CRITERION_CALL_PARAMS = 5, RATE_TILE = 32 };

/* The kernels' argument, passed by value. All pointers are device memory. */
typedef struct criterion_call {
    ole_criterion_queued in;
    ole_criterion_slopes out;
    ole_criterion_outcome *outcome;
    int rows, dim, classes; /* of this batch; squares are `rows` wide */
    double param[CRITERION_CALL_PARAMS];
    /* by group: */
    const int *used;          /* [1] places */
    const int *order;         /* [rows] place -> row */
    const int *first;         /* place -> that of its class's first row */
    const int *count;         /* place -> rows of its class */
    const unsigned char *bad; /* row -> holds NaN or Inf and is not ignored */
    /* by rows: */
    double *x, *u;  /* [rows, dim] sorted; u: of unit length */
    double *length; /* [rows] */
    double *w, *unit_w, *w_length;
    /* by the criterion: */
    double *value;            /* [rows] part of the value by place */
    unsigned char *right;     /* [rows] place -> counts as correct; NULL: not a HEAD */
    double *du;               /* gradient of u or, where not `unit`, of x; [rows, du_pitch] */
    int64_t du_pitch;         /* ... */
    int unit;                 /* the chain goes on through the length of rows and class vectors */
    double *along;            /* [rows]: this many times u is added to dx; NULL: nothing */
    double *square[2];        /* [rows, rows] */
    double *cosines, *logits; /* [rows, classes] */
    double *dlogits;
    double *dunit_w; /* [classes, dim] */
    int lengths;     /* the lengths of class vectors count, by column sums of `logits` */
    double *room[2]; /* [rows] */
    double *pivot;   /* [2, RATE_TILE, RATE_TILE], of rate.cu */
    /* spectral.cu, with two losses of loss/cuda: */
    int32_t *sorted_labels;             /* [rows] */
    double *centred, *wide;             /* [rows, pitch] what the two losses read */
    double *slopes[2];                  /* [rows, pitch] what they write */
    int64_t pitch;                      /* dim, and room for smoothing */
    const double *norms[2];             /* by class, from its first place; of the whole */
    const ole_loss_outcome *spectra[2]; /* of the two */
} criterion_call;

/* c[n, m] (rows `pitch` apart) = products of vectors of a and b over `depth` elements; a count of
 * -1 is *used.  Element k of vector i is at[i * vector + k * element]; one of the strides is 1. */
typedef struct criterion_vectors {
    const double *at;
    int64_t vector, element;
} criterion_vectors;

typedef struct criterion_product {
    criterion_vectors a, b;
    double *c;
    int64_t pitch;
    int n, m, depth;
    const int *used;
} criterion_product;

/* Queue a kernel or a few; the error is that of the launches.  `most`: the rows of the batch, where
 * a count is *used. */
cudaError_t criterion_multiply(const criterion_product *product, int most, cudaStream_t stream);

/* rows.cu */
cudaError_t criterion_sort_rows(const criterion_call *call, cudaStream_t stream);
cudaError_t criterion_class_vectors(const criterion_call *call, cudaStream_t stream);
cudaError_t criterion_row_gradients(const criterion_call *call, cudaStream_t stream);
cudaError_t criterion_class_gradients(const criterion_call *call, cudaStream_t stream);
cudaError_t criterion_finish(const criterion_call *call, cudaStream_t stream);

/* pairs.cu: square[0] = distances; the losses of square[0], whose derivative goes to square[1];
 * from there to the factor in square[0] that gives du = square[0] u. */
cudaError_t criterion_distances(const criterion_call *call, cudaStream_t stream);
cudaError_t criterion_contrastive(const criterion_call *call, cudaStream_t stream);
cudaError_t criterion_triplet(const criterion_call *call, cudaStream_t stream);
cudaError_t criterion_supcon(const criterion_call *call, cudaStream_t stream);
cudaError_t criterion_opl(const criterion_call *call, cudaStream_t stream);

/* classes.cu: from cosines, or for LogitNorm logits, to dlogits. */
cudaError_t criterion_arcface(const criterion_call *call, cudaStream_t stream);
cudaError_t criterion_cosface(const criterion_call *call, cudaStream_t stream);
cudaError_t criterion_l_softmax(const criterion_call *call, cudaStream_t stream);
cudaError_t criterion_a_softmax(const criterion_call *call, cudaStream_t stream);
cudaError_t criterion_logit_norm(const criterion_call *call, cudaStream_t stream);

/* center.cu */
cudaError_t criterion_center(const criterion_call *call, cudaStream_t stream);

/* rate.cu: from the cosines in square[0] to the factor there that gives du. */
cudaError_t criterion_mcr2(const criterion_call *call, cudaStream_t stream);

/* spectral.cu: what the two losses read; what becomes of their gradients. */
cudaError_t criterion_spectral_rows(const criterion_call *call, int centred, double smooth,
                                    cudaStream_t stream);
cudaError_t criterion_ole_unit(const criterion_call *call, cudaStream_t stream);
cudaError_t criterion_ssole(const criterion_call *call, cudaStream_t stream);

#ifdef __cplusplus
}
#endif
#endif
