/*
 * src/train/run/step.c - planning and running training steps.
 *
 * OLÉ reads a node's output, and its gradient is added when backward arrives there: nodes above it,
 * usually the classifier, never see it.
 *
 * With ranks, everything is scaled so that the sums over ranks are what one process would compute:
 * the softmax loss, a mean, and its gradient by this rank's share of the rows.
 */
#include "train/run/step.h"

#include "base/clock.h"
#include "base/error.h"
#include "train/options/options.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- Planning ----------------------------------------------------------------------------- */

/* Finds the nodes where OLÉ acts. */
static ole_status find_acts(ole_stepper *s, const ole_train_options *options, ole_error *error) {
    const ole_graph *graph = s->network->graph;
    ole_acts acts;
    ole_status status = ole_acts_parse(&acts, options->ole_at, options->lambda, error);
    if (status != OLE_OK) return status;
    s->acts = acts.count > 0 ? acts.count : 1;
    s->act[0] = (ole_act){.node = graph->features, .weight = options->lambda};
    for (int i = 0; i < acts.count; i++) {
        if (acts.token[i] > graph->tokens)
            return ole_fail(error, OLE_ERROR_ARGUMENT,
                            "ole_at %s: the net has %d tokens, there is no token %d",
                            options->ole_at, graph->tokens, acts.token[i]);
        s->act[i] = (ole_act){.node = graph->token_node[acts.token[i]], .weight = acts.weight[i]};
    }
    return OLE_OK;
}

/* Plans each batch size of which this rank has rows, with taps where OLÉ reads. */
static ole_status plan_batches(ole_stepper *s, ole_error *error) {
    const ole_network *n = s->network;
    ole_status status = OLE_OK;
    for (int k = 0; k < 2 && status == OLE_OK; k++) {
        if (s->rows[k] == 0) continue;
        ole_plan_options options = {.batch = s->rows[k], .train = true, .smoothing = s->smoothing};
        if (s->reduce) options.share = &s->reduce->batch[k].share;
        for (int i = 0; i < s->acts; i++)
            if (s->act[i].node != n->graph->features) options.tap[options.taps++] = s->act[i].node;
        status = ole_plan_create(&s->plan[k], n->graph, n->params, n->backend, n->context, &options,
                                 error);
    }
    return status;
}

/* The backbone's learning rate. */
static ole_status set_rates(ole_network *network, const ole_train_options *options,
                            ole_error *error) {
    double factor;
    ole_status status =
        ole_rate_parse(&factor, "lr_backbone", options->lr_backbone, options->lr, error);
    for (int i = 0; i < network->graph->params && status == OLE_OK; i++)
        if (network->graph->param[i].node != network->graph->classifier)
            ole_params_set_rate(network->params, i, factor);
    return status;
}

ole_status ole_stepper_create(ole_stepper **stepper, ole_network *network,
                              const ole_train_options *options, int64_t batch, int64_t last,
                              ole_error *error) {
    *stepper = NULL;
    ole_stepper *s = calloc(1, sizeof *s);
    if (!s) return ole_fail(error, OLE_ERROR_MEMORY, "out of memory");
    *s = (ole_stepper){
        .network = network,
        .softmax = options->loss & OLE_LOSS_SOFTMAX,
        .ole = options->loss & OLE_LOSS_OLE,
        .classifier = options->loss & OLE_LOSS_CLASSIFIERS,
        .global = strcmp(options->ole_scope, "global") == 0,
        .update = {.kind = ole_train_moments(options) == 2 ? OLE_UPDATE_ADAM : OLE_UPDATE_SGD,
                   .weight_decay = options->weight_decay,
                   .momentum = options->momentum,
                   .nesterov = options->nesterov && options->momentum > 0.0,
                   .beta1 = options->beta1,
                   .beta2 = options->beta2,
                   .eps = options->eps,
                   .decoupled = strcmp(options->opt, "adamw") == 0,
                   .clip = options->clip_norm,
                   .average = options->ema},
        .smoothing = options->label_smoothing,
        .batch = {batch, last},
        .rows = {batch, last}};
    ole_loss_options_init(&s->loss);
    s->loss.delta_floor = options->delta_floor;
    s->loss.delta_abs = options->delta_abs;
    s->loss.delta_rel = options->delta_rel;
    if (!s->classifier) { /* nothing trains it: weight decay must not shrink it */
        const ole_node *node = &network->graph->node[network->graph->classifier];
        for (int p = 0; p < node->params; p++)
            ole_params_freeze(network->params, node->first_param + p);
    }
    ole_status status = set_rates(network, options, error);
    if (status == OLE_OK)
        status = ole_criterion_step_open(&s->criterion, network, options, batch, error);
    status = ole_ranks_agree(options->ranks, status, error);
    if (status == OLE_OK && ole_ranks_size(options->ranks) > 1) {
        s->ranks = options->ranks;
        bool sync = strcmp(options->bn, "sync") == 0;
        status = ole_reduce_create(&s->reduce, network, options->ranks, s->batch, sync, error);
        for (int k = 0; k < 2 && status == OLE_OK; k++)
            s->rows[k] = s->reduce->batch[k].rows;
    }
    if (status == OLE_OK) {
        if (s->ole) status = find_acts(s, options, error);
        if (status == OLE_OK) status = plan_batches(s, error);
        status = ole_ranks_agree(s->ranks, status, error);
    }
    if (status == OLE_OK)
        *stepper = s;
    else
        ole_stepper_free(s);
    return status;
}

/* Each rank's local work comes first, so that no rank waits for one that failed. */
ole_status ole_stepper_prepare(ole_stepper *s, ole_error *error) {
    const ole_graph *graph = s->network->graph;
    if (s->prepared) return OLE_OK;
    ole_status status = OLE_OK;
    for (int i = 0; i < s->acts && status == OLE_OK; i++) {
        ole_act *a = &s->act[i];
        size_t size = (size_t)(s->rows[0] * ole_shape_size(graph->node[a->node].out));
        if (!a->features) a->features = malloc(size * sizeof *a->features);
        if (!a->gradient) a->gradient = calloc(size, sizeof *a->gradient);
        if (!a->features || !a->gradient)
            status = ole_fail(error, OLE_ERROR_MEMORY, "out of memory for OLE at layer %s",
                              graph->node[a->node].name);
    }
    if (status == OLE_OK) status = ole_criterion_step_plan(&s->criterion, error);
    status = ole_ranks_agree(s->ranks, status, error);
    ole_loss_options options = s->loss;
    options.threads = s->network->threads;
    for (int i = 0; i < s->acts && status == OLE_OK; i++) {
        ole_act *a = &s->act[i];
        int64_t dim = ole_shape_size(graph->node[a->node].out);
        if (s->ranks && s->global)
            status = ole_ranks_loss_create(&a->ranks_loss, s->ranks, s->rows[0], dim, &options,
                                           OLE_RANKS_LOSS_AUTO, error);
        else
            status = ole_loss_plan_create(&a->plan, s->rows[0], dim, OLE_F32, &options, error);
        status = ole_ranks_agree(s->ranks, status, error);
    }
    s->prepared = status == OLE_OK;
    return status;
}

void ole_stepper_free(ole_stepper *s) {
    if (!s) return;
    for (int i = 0; i < s->acts; i++) {
        ole_loss_plan_destroy(s->act[i].plan);
        ole_ranks_loss_destroy(s->act[i].ranks_loss);
        free(s->act[i].features);
        free(s->act[i].gradient);
    }
    ole_criterion_step_free(&s->criterion);
    ole_plan_free(s->plan[0]);
    ole_plan_free(s->plan[1]);
    ole_reduce_free(s->reduce);
    free(s);
}

/* ---- Losses ------------------------------------------------------------------------------- */

/* Evaluates OLÉ at one node; NaN instead of an error for NaN or Inf in the features. `plan` NULL:
 * this rank has no rows of the batch. */
static ole_status run_act(ole_plan *plan, ole_act *a, const ole_batch *batch, double share,
                          double *value, ole_error *error) {
    const ole_loss_batch rows = {.rows = batch->count,
                                 .features = a->features,
                                 .labels = batch->labels,
                                 .label_type = OLE_I32};
    const ole_loss_gradient gradient = {.data = a->gradient,
                                        .upstream = a->ranks_loss ? a->weight : a->weight * share};
    const ole_loss_gradient *wanted = a->weight > 0.0 ? &gradient : NULL;
    ole_loss_result result = {0};
    ole_status status = OLE_OK;
    if (plan) ole_plan_read(plan, a->node, a->features);
    if (a->ranks_loss)
        status = ole_ranks_loss_eval(a->ranks_loss, &rows, wanted, &result, error);
    else if (plan)
        status = ole_loss_eval(a->plan, &rows, wanted, &result, error);
    *value = result.value;
    if (status != OLE_ERROR_DATA && status != OLE_ERROR_NUMERIC) return status;
    *value = NAN;
    return OLE_OK;
}

/* ---- Losses that are NaN or Inf ----------------------------------------------------------- */

ole_status ole_stepper_fail(const ole_stepper *s, const ole_step *step, bool softmax_bad,
                            ole_error *error) {
    const ole_graph *graph = s->network->graph;
    ole_plan *plan = s->plan[step->last];
    int node = plan ? ole_plan_find_bad(plan, step->batch->images, (uint64_t)step->number) : -1;
    for (int r = 0; r < ole_ranks_size(s->ranks); r++) { /* the first that any rank finds */
        int of_rank = node;
        ole_ranks_broadcast(s->ranks, &of_rank, sizeof of_rank, r);
        if (of_rank >= 0 && (node < 0 || of_rank < node)) node = of_rank;
    }
    const ole_criterion *criterion = s->criterion.criterion;
    const char *loss = softmax_bad && s->softmax                    ? "softmax"
                       : criterion && (softmax_bad || !s->ole)      ? criterion->title
                       : criterion && !isfinite(s->criterion.value) ? criterion->title
                                                                    : "OLE";
    if (node == 0)
        return ole_fail(
            error, OLE_ERROR_NUMERIC,
            "step %lld: the %s loss is NaN or Inf because the images are; check the data",
            (long long)step->number, loss);
    return ole_fail(
        error, OLE_ERROR_NUMERIC,
        "step %lld: the %s loss is NaN or Inf, from layer %s on; lower --lr%s or add --warmup",
        (long long)step->number, loss, graph->node[node > 0 ? node : graph->classifier].name,
        s->ole                                                ? " or --lambda"
        : criterion && s->softmax && loss != criterion->title ? " or --loss-weight"
                                                              : "");
}

/* ---- A step ------------------------------------------------------------------------------- */

/* Whether a criterion takes softmax's place. */
static bool is_head(const ole_stepper *s) {
    return s->criterion.criterion && s->criterion.criterion->traits & OLE_CRITERION_HEAD;
}

/* What ranks sum up in a step. */
typedef struct numbers {
    double softmax_loss, ole_loss, weighted_ole, feature_loss, correct, stop;
} numbers;

/* Backward, with OLÉ's gradients added at their nodes; with ranks, sums of gradients start as
 * soon as these are complete. */
static void run_backward(ole_stepper *s, ole_plan *plan) {
    if (!plan) {
        ole_reduce_advance_empty(s->reduce);
        return;
    }
    for (int node = s->network->graph->nodes - 1; node >= 0; node--) {
        for (int i = 0; i < s->acts; i++)
            if (s->act[i].node == node && s->act[i].weight > 0.0)
                ole_plan_add_gradient(plan, node, s->act[i].gradient);
        ole_criterion_step_features(&s->criterion, plan, node);
        ole_plan_backward(plan, node);
        ole_criterion_step_classifier(&s->criterion, node);
        if (s->reduce) ole_reduce_advance(s->reduce, node);
    }
}

/* Gradients and the step's numbers become sums over the ranks. OLÉ of the whole batch and a
 * criterion, which all ranks have, are counted once. */
static void run_backward_on_ranks(ole_stepper *s, const ole_step *step, ole_step_result *result) {
    double share = ole_stepper_share(s, step->last), ole = share;
    double once = ole_ranks_rank(s->ranks) == 0 ? 1.0 : 0.0;
    double of_softmax = s->softmax ? share : s->classifier ? once : 0.0;
    bool feature = s->criterion.criterion && !is_head(s);
    if (s->ole && s->act[0].ranks_loss) ole = once;
    numbers sums = {.softmax_loss = of_softmax > 0.0 ? of_softmax * result->softmax_loss : 0.0,
                    .ole_loss = ole > 0.0 && s->ole ? ole * result->ole_loss : 0.0,
                    .weighted_ole = ole > 0.0 ? ole * result->loss : 0.0,
                    .feature_loss = feature && once > 0.0 ? result->feature_loss : 0.0,
                    .correct = (double)result->correct * (is_head(s) ? once : 1.0),
                    .stop = s->wants_stop};
    ole_reduce_start(s->reduce, (double *)&sums, sizeof sums / sizeof(double));
    run_backward(s, s->plan[step->last]);
    ole_reduce_finish(s->reduce, step->last);
    result->softmax_loss = s->classifier ? sums.softmax_loss : NAN;
    result->feature_loss = feature ? sums.feature_loss : NAN;
    result->ole_loss = s->ole ? sums.ole_loss : NAN;
    result->loss = sums.weighted_ole;
    result->correct = (int64_t)sums.correct;
    result->stop = sums.stop > 0.0;
}

static bool is_good(const ole_stepper *s, const ole_step_result *result) {
    return isfinite(result->loss) && (!s->classifier || isfinite(result->softmax_loss)) &&
           (!s->criterion.criterion || is_head(s) || isfinite(result->feature_loss));
}

/* Ends a stage that began at *mark. */
static void lap(ole_step_result *result, ole_step_stage stage, double *mark) {
    double now = ole_clock();
    result->seconds[stage] = now - *mark;
    *mark = now;
}

ole_status ole_stepper_run(ole_stepper *s, const ole_step *step, ole_step_result *result,
                           ole_error *error) {
    ole_status status = ole_stepper_prepare(s, error);
    if (status != OLE_OK) return status;
    double mark = ole_clock(), waited = s->reduce ? s->reduce->seconds : 0.0;
    double share = ole_stepper_share(s, step->last);
    ole_plan *plan = s->plan[step->last]; /* NULL: this rank has no rows of the batch */
    *result = (ole_step_result){.softmax_loss = NAN, .ole_loss = NAN, .feature_loss = NAN};
    if (plan) ole_plan_forward(plan, step->batch->images, true, (uint64_t)step->number);
    lap(result, OLE_STEP_FORWARD, &mark);

    /* Means over this rank's rows; OLÉ over ranks is that of the whole batch. */
    if (s->softmax && plan)
        ole_plan_softmax(plan, step->batch->labels, step->mix, share, NULL, &result->softmax_loss,
                         &result->correct);
    if (s->softmax) lap(result, OLE_STEP_SOFTMAX, &mark);
    for (int i = 0; i < s->acts; i++) {
        double value;
        status = run_act(plan, &s->act[i], step->batch, share, &value, error);
        if (status != OLE_OK) return status;
        result->ole_loss = i == 0 ? value : result->ole_loss + value;
        result->loss += s->act[i].weight * value;
        if (!isfinite(value)) break;
    }
    if (s->criterion.criterion) {
        status = ole_criterion_step_run(&s->criterion, plan, step->batch, s->batch[step->last],
                                        step->number, error);
        if (status != OLE_OK) return status;
        *(is_head(s) ? &result->softmax_loss : &result->feature_loss) = s->criterion.value;
        if (is_head(s)) result->correct = s->criterion.correct;
    }
    if (s->ole || s->criterion.criterion) lap(result, OLE_STEP_OLE, &mark);

    if (s->reduce)
        run_backward_on_ranks(s, step, result);
    else if (is_good(s, result))
        run_backward(s, plan);
    lap(result, OLE_STEP_BACKWARD, &mark);
    if (!is_good(s, result))
        return ole_stepper_fail(s, step, s->classifier && !isfinite(result->softmax_loss), error);
    if (s->classifier) result->loss += result->softmax_loss;
    if (isfinite(result->feature_loss)) result->loss += s->criterion.weight * result->feature_loss;

    ole_update update = s->update;
    update.lr = step->lr;
    update.step = step->number;
    ole_params_update(s->network->params, &update);
    ole_criterion_step_updated(&s->criterion);
    status = ole_network_wait(s->network, error);
    lap(result, OLE_STEP_UPDATE, &mark);
    if (s->reduce) result->comm_seconds = s->reduce->seconds - waited;
    return status;
}
