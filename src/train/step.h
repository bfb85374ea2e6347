/*
 * src/train/step.h - one training step: forward, softmax, OLÉ where it acts, backward, update.
 */
#ifndef OLE_SRC_TRAIN_STEP_H
#define OLE_SRC_TRAIN_STEP_H

#include "ole/data.h"
#include "ole/loss.h"
#include "ole/train.h"
#include "train/network.h"
#include "train/spec.h"

/* One place where OLÉ acts. */
typedef struct ole_act {
    int node;
    double weight;
    ole_loss_plan *plan;
    float *features; /* [batch, D] */
    float *gradient; /* [batch, D] */
} ole_act;

/* The fields are for step.c and queue.c. */
typedef struct ole_stepper {
    ole_network *network;
    bool softmax, ole;
    ole_update update; /* but for rate and step */
    int64_t rows[2];   /* batch sizes; 0: none */
    ole_plan *plan[2];
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
} ole_step_result;

/*
 * Plans for batches of `batch` rows and, unless 0, of `last` rows.  Taken from the options: loss,
 * lambda, ole_at, opt and its numbers.  Freeze parameters before; OLÉ alone freezes the classifier.
 * The network must outlive the stepper.
 */
ole_status ole_stepper_create(ole_stepper **stepper, ole_network *network,
                              const ole_train_options *options, int64_t batch, int64_t last,
                              ole_error *error);
void ole_stepper_free(ole_stepper *stepper);

/* The plan for whole batches, for evaluation. */
ole_plan *ole_stepper_plan(const ole_stepper *stepper);

/*
 * A step on a batch of one of the two sizes; `number` counts all steps from 1.  A loss that is NaN
 * or Inf is OLE_ERROR_NUMERIC that names the layer; the parameters are as before then, the running
 * statistics aside.
 */
ole_status ole_stepper_run(ole_stepper *stepper, const ole_batch *batch, double lr, int64_t number,
                           ole_step_result *result, ole_error *error);

/* The error for such a loss in step `number` on this batch. */
ole_status ole_stepper_fail(const ole_stepper *stepper, const ole_batch *batch, int64_t number,
                            bool softmax_bad, ole_error *error);

#endif
