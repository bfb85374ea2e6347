/*
 * src/net/plan.h - a network planned for one batch size: every tensor has an offset in one block of
 * memory, shared by tensors that are never alive at the same time.  Running a plan allocates
 * nothing.
 *
 * A training step is: forward; softmax, which leaves the gradient of the logits; backward, node by
 * node, with OLÉ's gradient added at the nodes it acts on; ole_params_update().
 */
#ifndef OLE_SRC_NET_PLAN_H
#define OLE_SRC_NET_PLAN_H

#include "net/params.h"

typedef struct ole_plan ole_plan;

enum { OLE_MAX_TAPS = 16 };

typedef struct ole_plan_options {
    int64_t batch;
    bool train;       /* backward will be called */
    double smoothing; /* of the labels in the softmax loss, from 0 to 1 */
    int taps;         /* nodes to read besides features and classifier */
    int tap[OLE_MAX_TAPS];
    const ole_share *share; /* the part of the batch on other ranks; NULL: there is none */
} ole_plan_options;

/* The graph (fused), parameters and context must outlive the plan. */
ole_status ole_plan_create(ole_plan **plan, const ole_graph *graph, ole_params *params,
                           const ole_backend *backend, ole_device_context *context,
                           const ole_plan_options *options, ole_error *error);
void ole_plan_free(ole_plan *plan);

/* images: plain [batch, C, H, W]; NULL: at ole_plan_input() already, and the step number comes from
 * the recorder's clock.  train: dropout on, batch statistics (updates running ones). */
void ole_plan_forward(ole_plan *plan, const float *images, bool train, uint64_t step);

/* Copies the output of `features`, `classifier` or a tap to plain [batch, C, H, W]. */
void ole_plan_read(const ole_plan *plan, int node, float *plain);

/*
 * Softmax cross-entropy of the logits: the mean loss and the number of correct rows.  If scale !=
 * 0, the gradient of scale * loss becomes the start of the next backward.  scores [batch, classes]
 * may be NULL.
 */
void ole_plan_softmax(ole_plan *plan, const int32_t *labels, const ole_mix *mix, double scale,
                      float *scores, double *loss, int64_t *correct);

/*
 * Backward of one node, from what softmax and later nodes left since the last forward.  The caller
 * takes all nodes in turn, and can act before and after each:
 *
 *     for (int node = graph->nodes - 1; node >= 0; node--) {
 *         if (node == graph->features) ole_plan_add_gradient(plan, node, gradient);
 *         ole_plan_backward(plan, node);
 *     }
 *
 * Then the gradients of the node's parameters are complete (on asynchronous backends: queued).
 * Node 0, the input, has none: it ends the backward pass.
 */
void ole_plan_backward(ole_plan *plan, int node);

/* Adds a gradient, plain [batch, C, H, W], at `features` or a tap; only just before its backward.
 */
void ole_plan_add_gradient(ole_plan *plan, int node, const float *gradient);

/* ---- For backends with a recorder: everything stays in the backend's memory --------------- */

/* Where the images belong, in the layout ole_plan_layout(plan, 0). */
void *ole_plan_input(const ole_plan *plan);

/* Softmax with labels and mix in the backend's memory; the loss is added to the recorder's clock.
 */
void ole_plan_queue_softmax(ole_plan *plan, const int32_t *labels, const ole_mix *mix,
                            double scale);

/* The node's gradient in the backend's memory, to be written now, just before its backward; NULL:
 * it has none.  *accumulate: it already holds a part, so add to it. */
void *ole_plan_gradient(ole_plan *plan, int node, bool *accumulate);

/* Output of `features`, `classifier` or a tap in the backend's memory, and its layout. */
const void *ole_plan_output(const ole_plan *plan, int node);
ole_layout ole_plan_layout(const ole_plan *plan, int node);

/*
 * Skips all nodes of one op, forward or backward, from now on (-1: none).  The time saved is what
 * they cost; the results are meaningless.
 */
void ole_plan_skip(ole_plan *plan, int op, bool backward);

/* The first node whose output holds NaN or Inf, or -1. Recomputes forward. */
int ole_plan_find_bad(ole_plan *plan, const float *images, uint64_t step);

/* Seconds spent per op kind since the last call; for benchmarks. */
typedef struct ole_plan_times {
    double forward[16], backward[16]; /* indexed by ole_op */
} ole_plan_times;
void ole_plan_measure(ole_plan *plan, bool on);
ole_plan_times ole_plan_get_times(ole_plan *plan);

/* Bytes of memory as planned, and what the tensors would take without sharing. */
size_t ole_plan_bytes(const ole_plan *plan);
size_t ole_plan_bytes_unshared(const ole_plan *plan);

#endif
