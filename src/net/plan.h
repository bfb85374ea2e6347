/*
 * src/net/plan.h - a network planned for one batch size: every tensor has its place in one block of
 * memory, shared by tensors that do not live at the same time.  Running it allocates nothing.
 *
 * A training step: forward, softmax (which leaves the gradient of the logits), seeds (OLÉ's
 * gradient at the nodes it acts on), backward, ole_params_update().
 */
#ifndef OLE_SRC_NET_PLAN_H
#define OLE_SRC_NET_PLAN_H

#include "net/params.h"

typedef struct ole_plan ole_plan;

enum { OLE_MAX_TAPS = 16 };

typedef struct ole_plan_options {
    int64_t batch;
    bool train; /* backward will be called */
    int taps;   /* nodes besides features and classifier whose outputs are read */
    int tap[OLE_MAX_TAPS];
    const ole_share *share; /* the rest of the batch is with other ranks; NULL: there is none */
} ole_plan_options;

/* The graph (fused), parameters and context must outlive the plan. */
ole_status ole_plan_create(ole_plan **plan, const ole_graph *graph, ole_params *params,
                           const ole_backend *backend, ole_device_context *context,
                           const ole_plan_options *options, ole_error *error);
void ole_plan_free(ole_plan *plan);

/* images: plain [batch, c, h, w]. `train`: batch statistics (and running ones updated), dropout. */
void ole_plan_forward(ole_plan *plan, const float *images, bool train, uint64_t step);

/* Output of `features`, `classifier` or a tap, plain [batch, c, h, w]. */
void ole_plan_read(const ole_plan *plan, int node, float *plain);

/*
 * Softmax cross-entropy of the logits: mean loss and right rows; with `scale` != 0 the gradient of
 * scale * loss becomes the start of the next backward.  scores [batch, classes] may be NULL.
 */
void ole_plan_softmax(ole_plan *plan, const int32_t *labels, double scale, float *scores,
                      double *loss, int64_t *correct);

/* Adds a gradient at `features` or a tap for the next backward; `gradient` must live until then. */
void ole_plan_seed(ole_plan *plan, int node, const float *gradient);

/*
 * The same by whoever can reach the backend's memory: called in every backward before the node's
 * own, with the node's output and gradient; `accumulate`: the gradient holds a part already.
 */
typedef void ole_plan_seeder(void *argument, const void *output, void *gradient, bool accumulate);
void ole_plan_seed_with(ole_plan *plan, int node, ole_plan_seeder *seeder, void *argument);

/*
 * Called in every backward when the gradients of node `node`'s parameters are complete (on backends
 * that queue: are queued), from the last node to the first; NULL: nobody.
 */
typedef void ole_plan_reached(void *argument, int node);
void ole_plan_watch_backward(ole_plan *plan, ole_plan_reached *reached, void *argument);

/* Gradients of all parameters from what was left by softmax and seeds since the last forward. */
void ole_plan_backward(ole_plan *plan);

/* ---- for backends with a recorder: everything stays in the backend's memory ---- */

/* Where the images go, laid out as ole_plan_layout(plan, 0) says. */
void *ole_plan_input(const ole_plan *plan);

/* Forward of what is there; the step number is the clock's. */
void ole_plan_queue_forward(ole_plan *plan, bool train);

/* Softmax with labels in the backend's memory; the loss goes to the clock. */
void ole_plan_queue_softmax(ole_plan *plan, const int32_t *labels, double scale);

/* As if that had been done: for measuring a step without it. */
void ole_plan_assume_softmax(ole_plan *plan);

/* The seeder of one node alone, on what is there. */
void ole_plan_queue_seed(ole_plan *plan, int node);

/* Output of `features`, `classifier` or a tap, and how it lies. */
const void *ole_plan_output(const ole_plan *plan, int node);
ole_layout ole_plan_layout(const ole_plan *plan, int node);
int64_t ole_plan_batch(const ole_plan *plan);

/* Passes over all nodes of one op, forward or backward, from now on (-1: none): what a step takes
 * less is what they cost.  The numbers are worthless then. */
void ole_plan_skip(ole_plan *plan, int op, bool backward);

/* The first node in order whose output holds NaN or Inf (recomputes forward), or -1. */
int ole_plan_find_bad(ole_plan *plan, const float *images, uint64_t step);

/* Seconds spent since the last call, by op kind, forward and backward; for benchmarks. */
typedef struct ole_plan_times {
    double forward[16], backward[16]; /* by ole_op */
} ole_plan_times;
void ole_plan_measure(ole_plan *plan, bool on);
ole_plan_times ole_plan_get_times(ole_plan *plan);

/* Memory: what the tensors would take apart, and what they take planned. */
size_t ole_plan_bytes(const ole_plan *plan);
size_t ole_plan_bytes_unshared(const ole_plan *plan);

#endif
