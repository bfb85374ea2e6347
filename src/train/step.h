/*
 * src/train/step.h - one training step: forward, softmax, OLÉ where it acts, backward, update.
 *
 * Of several ranks each runs its rows of the batch (reduce.h); the results are of the whole batch
 * and the same on all, and so are the parameters afterwards.
 */
#ifndef OLE_SRC_TRAIN_STEP_H
#define OLE_SRC_TRAIN_STEP_H

#include "loss/across.h"
#include "ole/data.h"
#include "ole/loss.h"
#include "ole/train.h"
#include "train/network.h"
#include "train/reduce.h"
#include "train/spec.h"

/* One place where OLÉ acts. */
typedef struct ole_act {
    int node;
    double weight;
    ole_loss_plan *plan; /* of our rows; or */
    ole_across *across;  /* of the rows of all ranks */
    float *features;     /* [batch, D] */
    float *gradient;     /* [batch, D] */
} ole_act;

/* The fields are for step.c and queue.c. */
typedef struct ole_stepper {
    ole_network *network;
    bool softmax, ole;
    ole_update update;  /* but for rate and step */
    int64_t batch[2];   /* rows of whole batches and of the last; 0: there is none */
    int64_t rows[2];    /* ours of them: all, unless there are ranks */
    ole_plan *plan[2];  /* NULL without rows */
    ole_reduce *reduce; /* NULL: alone */
    bool wants_stop;    /* tells the other ranks in the next step */
    int acts;
    ole_act act[OLE_MAX_ACTS];
} ole_stepper;

/* What a step gave. */
typedef struct ole_step_result {
    double loss;         /* softmax + sum of weight * OLÉ: what is minimised, without L2 */
    double softmax_loss; /* NaN for OLÉ alone */
    double ole_loss;     /* OLÉ/N summed over where it acts, without weights; NaN for softmax */
    int64_t correct;     /* rows that the classifier had right */
    double seconds, ole_seconds;
    double comm_seconds; /* waiting for other ranks */
    bool stop;           /* some rank wants to stop */
} ole_step_result;

/*
 * Plans for batches of `batch` rows and, unless 0, of `last` rows.  Taken from the options: loss,
 * lambda, ole_at, opt and its numbers; ranks, bn, ole_scope.  Freeze parameters before; OLÉ alone
 * freezes the classifier.  The network must outlive the stepper.  With ranks this is collective,
 * and an error is one on all.
 */
ole_status ole_stepper_create(ole_stepper **stepper, ole_network *network,
                              const ole_train_options *options, int64_t batch, int64_t last,
                              ole_error *error);
void ole_stepper_free(ole_stepper *stepper);

/* The plan for whole batches, for evaluation. */
ole_plan *ole_stepper_plan(const ole_stepper *stepper);

/* Which batch a step is of. */
typedef struct ole_step {
    const ole_batch *batch; /* our rows */
    bool last;              /* it is the smaller one at the end of the epoch */
    int64_t number;         /* counts all steps from 1 */
    double lr;
} ole_step;

/*
 * A loss that is NaN or Inf is OLE_ERROR_NUMERIC that names the layer; the parameters are as before
 * then, the running statistics aside.
 */
ole_status ole_stepper_run(ole_stepper *stepper, const ole_step *step, ole_step_result *result,
                           ole_error *error);

/* The error for such a loss. */
ole_status ole_stepper_fail(const ole_stepper *stepper, const ole_step *step, bool softmax_bad,
                            ole_error *error);

#endif
