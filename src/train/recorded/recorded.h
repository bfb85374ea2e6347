/*
 * src/train/recorded/recorded.h - training and evaluation on a device that runs recorded steps
 * (device/recorder.h): samples, their order and the learning rates are uploaded, each step is one
 * replay of a recording, and results are read only when somebody asks.
 *
 * recorded.c records and replays steps, recorded_ole.c and recorded_criterion.c have the losses
 * inside them, recorded_evaluate.c runs whole splits.
 */
#ifndef OLE_SRC_TRAIN_RECORDED_RECORDED_H
#define OLE_SRC_TRAIN_RECORDED_RECORDED_H

#include "device/recorder.h"
#include "loss/criteria/cuda.h"
#include "model/split_runner.h"
#include "train/options/schedule.h"
#include "train/run/step.h"

/* Fields other than ole_seconds and comm_seconds are private to train/recorded. */
typedef struct ole_recorded ole_recorded;

enum { OLE_RECORDED_AHEAD = 32 }; /* replays that may wait on the device */

/* OLÉ at one node, on the device. */
typedef struct ole_recorded_act {
    ole_loss_plan *loss;
    ole_rows rows;
    ole_loss_outcome *outcome; /* device memory, like the next three */
    char *features, *gradient; /* of all rows; NULL if the tensor itself serves */
    float *plain;              /* this rank's rows, to be gathered; NULL likewise */
} ole_recorded_act;

/* A criterion, on the device; `table` NULL: there is none.  All memory is the device's. */
typedef struct ole_recorded_criterion {
    const ole_cuda_criterion_table *table;
    ole_cuda_criterion *plan;
    ole_criterion_outcome *outcome;
    float *x, *dx;              /* [batch, D] */
    float *param[2], *slope[2]; /* of a HEAD's classifier: its weight, its bias */
    double *centers;            /* [classes, D] */
    int64_t state;              /* doubles there */
} ole_recorded_criterion;

enum { OLE_KEEP_FEATURES = 1, OLE_KEEP_LOGITS = 2 };

/* A split uploaded for evaluation. */
typedef struct ole_recorded_split {
    ole_feed *feed;
    ole_recording *recording[4]; /* by what they keep: OLE_KEEP_FEATURES | OLE_KEEP_LOGITS */
    float *kept[2]; /* device memory [batches * batch, D] for features, [..., classes] for logits */
    int64_t first, count; /* this rank's samples */
    int64_t batches;
} ole_recorded_split;

enum { OLE_RECORDED_SPLITS = 3 };

struct ole_recorded {
    ole_stepper *stepper;
    const ole_network *network;
    const ole_recorder *recorder;
    ole_device_context *context;
    const ole_dataset *set;
    ole_loader *loader;
    ole_resident *resident;
    ole_feed *feed;
    ole_recording *recording[2]; /* of whole batches and of the last */
    ole_ranks *ranks;            /* NULL: one process */
    const ole_link *link;        /* between them */
    bool global;                 /* OLÉ is over the rows of all ranks */
    int64_t *bytes;              /* [ranks]: each one's part of a gather */
    int32_t *labels;             /* device memory [batch] */
    int32_t *all_labels;         /* ... of all ranks */
    ole_mix mix;                 /* device memory; NULL without mixup, like `others` and `shares` */
    ole_recorded_act act[OLE_MAX_ACTS];
    ole_recorded_criterion criterion;
    ole_recorded_split split[OLE_RECORDED_SPLITS];
    int64_t *list;  /* samples of the epoch, [batches * whole] */
    int64_t *order; /* this rank's part of it, [batches * batch] */
    double *rates;
    int64_t *others; /* as `order`: what its samples are blended with */
    float *shares;
    int64_t whole; /* samples per batch, on all ranks */
    int64_t batch; /* ... and on this one */
    int64_t batches;
    int64_t next;        /* batch to replay next */
    double ole_seconds;  /* OLÉ and a criterion per step, measured at creation */
    double comm_seconds; /* communication between ranks per step, likewise */
    ole_error failure;   /* of OLÉ while it was queued; status OLE_OK: none */
};

/* Why steps of ranks cannot be recorded, the same on all; NULL if they can or there are no ranks.
 */
const char *ole_recorded_obstacle(const ole_stepper *stepper);

/* Whether recorded steps can have the criterion of the stepper, if any. */
bool ole_recorded_has_criterion(const ole_stepper *stepper);

/*
 * Records the steps of `stepper` with the order and augmentation of `loader`; both must outlive it.
 * The device must have a recorder.  OLE_ERROR_MEMORY if the data set does not fit on the device:
 * steps can still run one by one.  With ranks (and no obstacle) it is collective, and they run out
 * of memory together; any other error may be one rank's alone.
 */
ole_status ole_recorded_create(ole_recorded **recorded, ole_stepper *stepper,
                               const ole_dataset *set, ole_loader *loader, ole_error *error);
void ole_recorded_free(ole_recorded *recorded);

/* Starts at batch `first` of an epoch, after `updates` steps in total. */
ole_status ole_recorded_start(ole_recorded *recorded, const ole_schedule *schedule, int64_t epoch,
                              int64_t first, int64_t updates, ole_error *error);

/* Replays the next step; waits only if the device is far behind. */
ole_status ole_recorded_step(ole_recorded *recorded, ole_error *error);

/* Waits for the device and returns the sums since the start; ranks need not call it together. */
ole_status ole_recorded_read(ole_recorded *recorded, ole_step_sums *sums, ole_error *error);

/* Kernels and copies per step, as recorded. */
int64_t ole_recorded_nodes(const ole_recorded *recorded);

/* What ole_recorded_measure() runs. */
typedef enum ole_recorded_part {
    OLE_RECORDED_STEP,            /* whole steps */
    OLE_RECORDED_FORWARD,         /* only assembling the batch and forward */
    OLE_RECORDED_WITHOUT_DATA,    /* all but assembling the batch, ... */
    OLE_RECORDED_WITHOUT_SOFTMAX, /* ... the softmax loss */
    OLE_RECORDED_WITHOUT_OLE,
    OLE_RECORDED_WITHOUT_UPDATE,
    OLE_RECORDED_STEP_IDLE,           /* whole steps with updates off, to compare with: */
    OLE_RECORDED_WITHOUT_OP,          /* the same without one kind of op in forward */
    OLE_RECORDED_WITHOUT_OP_BACKWARD, /* ... or in backward */
} ole_recorded_part;

/*
 * Seconds per replay of such a step.  The cost of a part is the time that a step without it saves.
 * The learning rate is 0.  `op` is for the last two.
 */
ole_status ole_recorded_measure(ole_recorded *recorded, ole_recorded_part part, ole_op op,
                                double budget, double *seconds, ole_error *error);

/* ole_split_run() by recorded batches.  Ranks each run a part, and all get the whole. */
ole_status ole_recorded_evaluate(ole_recorded *recorded, ole_split split,
                                 ole_runner_outputs *outputs, ole_error *error);

/* ---- Private to train/recorded ------------------------------------------------------------ */

/* What feeds of all splits have in common. */
ole_feed_spec ole_recorded_feed(const ole_recorded *recorded, ole_split split, int64_t batches);

ole_status ole_recorded_plan_act(ole_recorded *recorded, int i, ole_error *error);
void ole_recorded_free_act(ole_recorded *recorded, int i);

/* Gathers the labels of all ranks if a loss is over all rows. */
void ole_recorded_gather_labels(ole_recorded *recorded, int k);

/* Queues a loss, and adds its gradient to that of its node, in a step of plan k. */
void ole_recorded_queue_act(ole_recorded *recorded, int i, int k);

/* The same for a criterion, of which there is at most one: its value and gradients; adding those in
 * backward, before or after that of `node`; what follows the update. */
ole_status ole_recorded_plan_criterion(ole_recorded *recorded, ole_error *error);
void ole_recorded_free_criterion(ole_recorded *recorded);
void ole_recorded_queue_criterion(ole_recorded *recorded, int k);
void ole_recorded_queue_features(ole_recorded *recorded, int node, int k);
void ole_recorded_queue_classifier(ole_recorded *recorded, int node);
void ole_recorded_queue_updated(ole_recorded *recorded);

/* Its state from the host to the device, and back. */
void ole_recorded_send_state(ole_recorded *recorded);
void ole_recorded_receive_state(ole_recorded *recorded);

void ole_recorded_free_split(ole_recorded *recorded, ole_recorded_split *split);

#endif
