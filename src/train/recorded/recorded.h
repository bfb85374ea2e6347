/*
 * src/train/recorded/recorded.h - training and evaluation on a device that queues its steps by
 * itself (device/recorder.h): samples, order and rates are brought over, each step is one replay of
 * a recording, and results are read when somebody wants to see them.
 */
#ifndef OLE_SRC_TRAIN_RECORDED_RECORDED_H
#define OLE_SRC_TRAIN_RECORDED_RECORDED_H

#include "device/recorder.h"
#include "model/split_runner.h"
#include "train/options/schedule.h"
#include "train/run/step.h"

typedef struct ole_queue ole_queue;

/* Why the steps of ranks cannot be queued; NULL: they can, or there are none. The same on all. */
const char *ole_queue_obstacle(const ole_stepper *stepper);

/*
 * Takes over the steps of `stepper` and the order and augmentation of `loader`, all of which must
 * outlive it.  OLE_ERROR_MEMORY when the data set has no room on the device: then steps can still
 * be run one by one.  The device must have a recorder.  Ranks, between which there is no obstacle,
 * all call it, and are out of memory together; any other error may be one rank's alone.
 */
ole_status ole_queue_create(ole_queue **queue, ole_stepper *stepper, const ole_dataset *set,
                            ole_loader *loader, ole_error *error);
void ole_queue_free(ole_queue *queue);

/* Begins with batch `first` of an epoch, `updates` steps having been done before. */
ole_status ole_queue_start(ole_queue *queue, const ole_schedule *schedule, int64_t epoch,
                           int64_t first, int64_t updates, ole_error *error);

/* Queues the next step; waits only where the device has fallen far behind. */
ole_status ole_queue_step(ole_queue *queue, ole_error *error);

/* Waits, and tells what was done since the start; of ranks each can do so when it likes. */
ole_status ole_queue_read(ole_queue *queue, ole_queue_sums *sums, ole_error *error);

/* Seconds that OLÉ takes in a step, measured when the queue was made. */
double ole_queue_ole_seconds(const ole_queue *queue);

/* Seconds that a step takes longer for what goes between ranks, measured likewise. */
double ole_queue_comm_seconds(const ole_queue *queue);

/* Kernels and copies of a step, as recorded. */
int64_t ole_queue_nodes(const ole_queue *queue);

/* What ole_queue_measure() runs. */
typedef enum ole_queue_part {
    OLE_QUEUE_STEP,            /* whole steps */
    OLE_QUEUE_FORWARD,         /* only assembling and forward */
    OLE_QUEUE_WITHOUT_DATA,    /* all but assembling the batch, ... */
    OLE_QUEUE_WITHOUT_SOFTMAX, /* ... the softmax loss */
    OLE_QUEUE_WITHOUT_OLE,
    OLE_QUEUE_WITHOUT_UPDATE,
    OLE_QUEUE_STEP_IDLE,           /* whole steps whose updates find nothing to do: for comparing */
    OLE_QUEUE_WITHOUT_OP,          /* the latter with one kind of op left out in forward */
    OLE_QUEUE_WITHOUT_OP_BACKWARD, /* ... or in backward */
} ole_queue_part;

/*
 * Seconds that one replay takes of a step recorded so: what a step takes less without something is
 * what that costs inside it.  Updates run at a rate of 0.  op: of the last two.
 */
ole_status ole_queue_measure(ole_queue *queue, ole_queue_part part, ole_op op, double budget,
                             double *seconds, ole_error *error);

/* ole_split_run() by recorded batches.  Ranks each run their part and all get the whole. */
ole_status ole_queue_evaluate(ole_queue *queue, ole_split split, ole_runner_outputs *outputs,
                              ole_error *error);

#endif
