/*
 * src/train/run/step.h - one training step: forward, softmax, OLÉ where it acts, backward, update.
 *
 * With ranks, each runs its rows of the batch (reduce.h); results and parameters are those of the
 * whole batch, the same on all ranks.
 */
#ifndef OLE_SRC_TRAIN_RUN_STEP_H
#define OLE_SRC_TRAIN_RUN_STEP_H

#include "data/loader/mixup.h"
#include "loss/ranks/ranks_loss.h"
#include "model/network.h"
#include "model/option_syntax.h"
#include "ole/loss.h"
#include "ole/train/data.h"
#include "ole/train/train.h"
#include "train/ranks/reduce.h"
#include "train/run/criterion_step.h"

/* OLÉ at one node. */
typedef struct ole_act {
    int node;
    double weight;
    /* From ole_stepper_prepare(): */
    ole_loss_plan *plan;        /* for our rows; or */
    ole_ranks_loss *ranks_loss; /* for the rows of all ranks */
    float *features;            /* [batch, D] */
    float *gradient;            /* [batch, D] */
} ole_act;

typedef struct ole_stepper {
    ole_network *network;
    ole_loss_options loss; /* OLÉ's, but for device and threads */

    bool softmax, ole;
    bool classifier; /* softmax or a loss in its place trains it */
    ole_criterion_step criterion;
    double smoothing;  /* of the labels */
    bool global;       /* with ranks: OLÉ is that of the whole batch, not of each rank's rows */
    bool prepared;     /* to run steps one by one */
    ole_update update; /* but for rate and step */
    int64_t batch[2];  /* rows of whole batches and of the last; 0: there is none */
    int64_t rows[2];   /* this rank's part of them */
    ole_plan *plan[2]; /* NULL without rows */
    ole_ranks *ranks;  /* NULL, as the next: one process */
    ole_reduce *reduce;
    bool wants_stop; /* tells the other ranks in the next step */
    int acts;
    ole_act act[OLE_MAX_ACTS];
} ole_stepper;

typedef enum ole_step_stage {
    OLE_STEP_FORWARD,
    OLE_STEP_SOFTMAX,
    OLE_STEP_OLE,
    OLE_STEP_BACKWARD, /* sums over ranks included */
    OLE_STEP_UPDATE,
    OLE_STEP_STAGES
} ole_step_stage;

/* The results of a step. */
typedef struct ole_step_result {
    double loss;         /* softmax + sum of weight * others: what is minimised, without L2 */
    double softmax_loss; /* or that of the loss in its place; NaN without either */
    double ole_loss;     /* OLÉ/N summed over where it acts, without weights; NaN for softmax */
    double feature_loss; /* of a criterion beside softmax or alone, without weight; NaN: none */
    int64_t correct;     /* rows that the classifier had right */
    double seconds[OLE_STEP_STAGES]; /* 0 for a loss that is not used */
    double comm_seconds;             /* waiting for other ranks */
    bool stop;                       /* a rank has asked to stop */
} ole_step_result;

/*
 * Plans for batches of `batch` rows and, unless 0, of `last` rows.  Taken from the options: loss,
 * lambda, ole_at, the deltas, opt and its numbers; ranks, bn, ole_scope.  Freeze parameters before;
 * OLÉ alone freezes the classifier.  The network must outlive the stepper.  Collective; fails on
 * all ranks or none.
 */
ole_status ole_stepper_create(ole_stepper **stepper, ole_network *network,
                              const ole_train_options *options, int64_t batch, int64_t last,
                              ole_error *error);
void ole_stepper_free(ole_stepper *stepper);

/*
 * Plans the losses of steps that ole_stepper_run() runs; recorded steps have their own.  The first
 * step does it otherwise; call this to see failures early.  Collective; fails on all ranks or none.
 */
ole_status ole_stepper_prepare(ole_stepper *stepper, ole_error *error);

/* This rank's share of the rows of whole batches (k = 0) or of the last (1). */
static inline double ole_stepper_share(const ole_stepper *stepper, int k) {
    return (double)stepper->rows[k] / (double)stepper->batch[k];
}

/* One step's batch and rate. */
typedef struct ole_step {
    const ole_batch *batch; /* our rows */
    const ole_mix *mix;     /* what they were mixed with; NULL: nothing */
    bool last;              /* the smaller batch at the end of an epoch */
    int64_t number;         /* counts all steps from 1 */
    double lr;
} ole_step;

/* A loss that is NaN or Inf is OLE_ERROR_NUMERIC, which names the layer; all parameters but the
 * running statistics are then as before. */
ole_status ole_stepper_run(ole_stepper *stepper, const ole_step *step, ole_step_result *result,
                           ole_error *error);

/* The error for such a loss. */
ole_status ole_stepper_fail(const ole_stepper *stepper, const ole_step *step, bool softmax_bad,
                            ole_error *error);

#endif
