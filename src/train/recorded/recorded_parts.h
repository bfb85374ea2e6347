/*
 * src/train/recorded/recorded_parts.h - what the files of the queue share: queue.c records and
 * replays steps, queue_ole.c has the places where OLÉ acts, queue_evaluate.c runs whole splits.
 */
#ifndef OLE_SRC_TRAIN_RECORDED_RECORDED_PARTS_H
#define OLE_SRC_TRAIN_RECORDED_RECORDED_PARTS_H

#include "train/recorded/recorded.h"

enum { OLE_QUEUE_AHEAD = 32 }; /* replays that may wait on the device */

/* One place where OLÉ acts, on the device. */
typedef struct ole_queued_act {
    ole_queue *queue;
    const ole_act *act;
    int k; /* of the plan being recorded */
    ole_loss_plan *loss;
    ole_rows rows;
    bool global;               /* of the rows of all ranks */
    ole_loss_outcome *outcome; /* device memory, like the next three */
    char *features, *gradient; /* of all rows, where the tensor itself will not do */
    float *plain;              /* our rows on their way to all ranks, where it will not do */
    bool failed;
} ole_queued_act;

/* A split brought over for evaluation. */
typedef struct ole_queued_split {
    ole_feed *feed;
    ole_recording *recording[3]; /* that keep nothing, features, features and logits */
    float *features;             /* device memory [batches * batch, D] */
    float *logits;               /* device memory [batches * batch, classes] */
    int64_t first, count;        /* our samples of it */
    int64_t batches;
} ole_queued_split;

enum { OLE_QUEUE_SPLITS = 3 };

struct ole_queue {
    ole_stepper *stepper;
    const ole_network *network;
    const ole_recorder *recorder;
    ole_device_context *context;
    const ole_dataset *set;
    ole_loader *loader;
    ole_resident *resident;
    ole_feed *feed;
    ole_recording *recording[2]; /* of whole batches and of the last */
    ole_ranks *ranks;            /* NULL: alone */
    const ole_link *link;        /* between them */
    int64_t *bytes;              /* [ranks]: what each gives in a gather */
    int32_t *labels;             /* device memory [batch] */
    int32_t *all_labels;         /* ... of all ranks */
    ole_queued_act act[OLE_MAX_ACTS];
    ole_queued_split split[OLE_QUEUE_SPLITS];
    int64_t *list;  /* of the epoch, [batches * whole] samples */
    int64_t *order; /* our part of it, [batches * batch] */
    double *rates;
    int64_t whole; /* samples of a whole batch on all ranks */
    int64_t batch; /* ... and ours */
    int64_t batches;
    int64_t next;        /* batch of the epoch */
    double ole_seconds;  /* of a step */
    double comm_seconds; /* ... which it takes longer for the sums over ranks */
    ole_error failure;   /* of OLÉ while a step was recorded */
};

/* What feeds of a split have in common. */
ole_feed_spec ole_queue_feed(const ole_queue *queue, ole_split split, int64_t batches);

/* Our share of the rows of whole batches (k = 0) or of the last (1). */
double ole_queue_share(const ole_queue *queue, int k);

/* ---- queue_ole.c ---- */

ole_status ole_queue_plan_act(ole_queue *queue, int i, ole_error *error);
void ole_queue_free_act(ole_queue *queue, int i);

/* Labels of all ranks' rows, where a loss is of all of them. */
void ole_queue_gather_labels(ole_queue *queue, int k);

/* Lets backward of plan k find the losses and their gradients, or not. */
void ole_queue_seed(ole_queue *queue, int k, bool on);

/* What went wrong while they were queued. */
ole_status ole_queue_acts_status(const ole_queue *queue, ole_error *error);

/* ---- queue_evaluate.c ---- */

void ole_queue_free_split(ole_queue *queue, ole_queued_split *split);

#endif
