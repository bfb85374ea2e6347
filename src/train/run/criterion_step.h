/*
 * src/train/run/criterion_step.h - the loss besides softmax and OLÉ (loss/criteria) in training
 * steps.
 *
 * It reads the features on the host and adds its gradient where backward arrives at them; in
 * softmax's place it also reads the classifier's weights and writes their gradient, and some keep
 * the classifier's rows at length 1.  Recorded steps do the same on the device
 * (recorded/recorded_criterion.c).  With ranks, each gathers the features of the whole batch and
 * evaluates the same loss, so the value, the gradient and the centres are those of one process.
 */
#ifndef OLE_SRC_TRAIN_RUN_CRITERION_STEP_H
#define OLE_SRC_TRAIN_RUN_CRITERION_STEP_H

#include "data/loader/loader.h"
#include "loss/criteria/criterion.h"
#include "model/network.h"
#include "ole/train/train.h"
#include "ranks/ranks.h"

/* Fields other than criterion, weight, value, correct and centers are private to criterion_step.c.
 */
typedef struct ole_criterion_step {
    const ole_criterion *criterion; /* NULL: there is none */
    double weight;
    double value;    /* of the whole batch, after ole_criterion_step_run() */
    int64_t correct; /* rows of the whole batch that a HEAD's classifier had right */
    const ole_network *network;
    ole_ranks *ranks;
    int64_t batch; /* rows on all ranks */
    double param[OLE_CRITERION_PARAMS];
    ole_criterion_plan *plan;
    void *memory;
    float *features, *gradient, *all, *plain;
    double *x, *dx, *w, *dw, *db, *b, *centers;
    int32_t *labels;
    int64_t *bytes; /* [ranks]: each one's part of a gather */
} ole_criterion_step;

/* The classifier's weights (`bias` false) or its bias; -1: it has none. */
int ole_classifier_param(const ole_graph *graph, bool bias);

/* Doubles that the loss of these options keeps from step to step; 0: none. */
int64_t ole_criterion_state(const ole_train_options *options, const ole_graph *graph);

/* Prepares network and step: a HEAD's bias and rows become what it requires. `batch`: rows on all
 * ranks. Local; free it either way. */
ole_status ole_criterion_step_open(ole_criterion_step *step, const ole_network *network,
                                   const ole_train_options *options, int64_t batch,
                                   ole_error *error);

/* What a plan of it is made from. */
ole_criterion_plan_options ole_criterion_step_options(const ole_criterion_step *step);

/* Plans it, unless it is planned. Local. */
ole_status ole_criterion_step_plan(ole_criterion_step *step, ole_error *error);
void ole_criterion_step_free(ole_criterion_step *step);

/* Uses ole_criterion_state() doubles of the caller from now on. */
void ole_criterion_step_use(ole_criterion_step *step, double *state);

/*
 * Evaluates it for `rows` (of them `batch->count` ours, whose activations are in `plan`, NULL: we
 * have none).  value is NaN if features or weights hold NaN or Inf, and the state is then as
 * before.  Collective.
 */
ole_status ole_criterion_step_run(ole_criterion_step *step, ole_plan *plan, const ole_batch *batch,
                                  int64_t rows, int64_t number, ole_error *error);

/* Adds its gradients during backward, after that of `node`'s successors and, for the classifier,
 * after its own. */
void ole_criterion_step_features(const ole_criterion_step *step, ole_plan *plan, int node);
void ole_criterion_step_classifier(const ole_criterion_step *step, int node);

/* After an update: the classifier's rows at length 1 again, if the loss requires it. */
void ole_criterion_step_updated(const ole_criterion_step *step);

#endif
