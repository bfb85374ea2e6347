/*
 * src/train/step.c - planning and running training steps.
 *
 * OLÉ reads a node's output, and its gradient is added there as a seed for backward: what lies
 * above the node, the classifier in the usual case, never sees it.
 */
#include "train/step.h"

#include "base/clock.h"
#include "base/error.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- Planning ----------------------------------------------------------------------------- */

static void set_update(ole_stepper *s, const ole_train_options *options) {
    bool adam = strcmp(options->opt, "adam") == 0;
    s->update = (ole_update){
        .kind = adam ? OLE_UPDATE_ADAM : OLE_UPDATE_SGD,
        .weight_decay = options->weight_decay,
        .momentum = options->momentum,
        .nesterov = options->nesterov && options->momentum > 0.0,
        .beta1 = 0.9,
        .beta2 = 0.999,
        .eps = 1e-8,
    };
}

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

static ole_status plan_act(ole_stepper *s, ole_act *a, ole_error *error) {
    ole_loss_options options;
    ole_loss_options_init(&options);
    options.threads = s->network->threads;
    int64_t dim = ole_shape_size(s->network->graph->node[a->node].out);
    size_t size = (size_t)(s->rows[0] * dim);
    a->features = malloc(size * sizeof *a->features);
    a->gradient = malloc(size * sizeof *a->gradient);
    if (!a->features || !a->gradient)
        return ole_fail(error, OLE_ERROR_MEMORY, "out of memory for OLE at layer %s",
                        s->network->graph->node[a->node].name);
    return ole_loss_plan_create(&a->plan, s->rows[0], dim, OLE_F32, &options, error);
}

static ole_status plan_batches(ole_stepper *s, ole_error *error) {
    const ole_network *n = s->network;
    ole_status status = OLE_OK;
    for (int k = 0; k < 2 && status == OLE_OK; k++) {
        if (s->rows[k] == 0) continue;
        ole_plan_options options = {.batch = s->rows[k], .train = true};
        for (int i = 0; i < s->acts; i++)
            if (s->act[i].node != n->graph->features) options.tap[options.taps++] = s->act[i].node;
        status = ole_plan_create(&s->plan[k], n->graph, n->params, n->backend, n->context, &options,
                                 error);
    }
    return status;
}

/* OLÉ alone teaches the classifier nothing: weight decay must not wear it down. */
static void freeze_classifier(ole_network *network) {
    const ole_node *node = &network->graph->node[network->graph->classifier];
    for (int p = 0; p < node->params; p++)
        ole_params_freeze(network->params, node->first_param + p);
}

ole_status ole_stepper_create(ole_stepper **stepper, ole_network *network,
                              const ole_train_options *options, int64_t batch, int64_t last,
                              ole_error *error) {
    *stepper = NULL;
    ole_stepper *s = calloc(1, sizeof *s);
    if (!s) return ole_fail(error, OLE_ERROR_MEMORY, "out of memory");
    *s = (ole_stepper){.network = network,
                       .softmax = options->loss != OLE_LOSS_OLE,
                       .ole = options->loss != OLE_LOSS_SOFTMAX,
                       .rows = {batch, last}};
    set_update(s, options);
    if (!s->softmax) freeze_classifier(network);
    ole_status status = s->ole ? find_acts(s, options, error) : OLE_OK;
    for (int i = 0; i < s->acts && status == OLE_OK; i++)
        status = plan_act(s, &s->act[i], error);
    if (status == OLE_OK) status = plan_batches(s, error);
    if (status == OLE_OK)
        *stepper = s;
    else
        ole_stepper_free(s);
    return status;
}

void ole_stepper_free(ole_stepper *s) {
    if (!s) return;
    for (int i = 0; i < s->acts; i++) {
        ole_loss_plan_destroy(s->act[i].plan);
        free(s->act[i].features);
        free(s->act[i].gradient);
    }
    ole_plan_free(s->plan[0]);
    ole_plan_free(s->plan[1]);
    free(s);
}

ole_plan *ole_stepper_plan(const ole_stepper *stepper) {
    return stepper->plan[0];
}

/* ---- Running ------------------------------------------------------------------------------ */

/* The value and the seed at one place; NaN instead of an error for NaN or Inf in the features. */
static ole_status run_act(ole_plan *plan, ole_act *a, const ole_batch *batch, double *value,
                          ole_error *error) {
    const ole_loss_batch rows = {.rows = batch->count,
                                 .features = a->features,
                                 .labels = batch->labels,
                                 .label_type = OLE_I32};
    const ole_loss_gradient gradient = {.data = a->gradient, .upstream = a->weight};
    ole_loss_result result = {0};
    ole_plan_read(plan, a->node, a->features);
    ole_status status =
        ole_loss_eval(a->plan, &rows, a->weight > 0.0 ? &gradient : NULL, &result, error);
    *value = result.value;
    if (status == OLE_ERROR_DATA || status == OLE_ERROR_NUMERIC) {
        *value = NAN;
        return OLE_OK;
    }
    if (status == OLE_OK && a->weight > 0.0) ole_plan_seed(plan, a->node, a->gradient);
    return status;
}

static ole_status run_losses(ole_stepper *s, ole_plan *plan, const ole_batch *batch,
                             ole_step_result *result, ole_error *error) {
    if (s->softmax) {
        ole_plan_softmax(plan, batch->labels, 1.0, NULL, &result->softmax_loss, &result->correct);
        result->loss = result->softmax_loss;
    }
    double start = ole_clock();
    for (int i = 0; i < s->acts; i++) {
        double value;
        ole_status status = run_act(plan, &s->act[i], batch, &value, error);
        if (status != OLE_OK) return status;
        result->ole_loss = i == 0 ? value : result->ole_loss + value;
        result->loss += s->act[i].weight * value;
        if (!isfinite(value)) break;
    }
    result->ole_seconds = ole_clock() - start;
    return OLE_OK;
}

static ole_plan *plan_for(const ole_stepper *s, const ole_batch *batch) {
    return s->plan[batch->count == s->rows[0] ? 0 : 1];
}

ole_status ole_stepper_fail(const ole_stepper *s, const ole_batch *batch, int64_t number,
                            bool softmax_bad, ole_error *error) {
    int node = ole_plan_find_bad(plan_for(s, batch), batch->images, (uint64_t)number);
    const char *loss = softmax_bad ? "softmax" : "OLE";
    if (node == 0)
        return ole_fail(error, OLE_ERROR_NUMERIC,
                        "step %lld: the %s loss is NaN or Inf because the images are: look at the "
                        "data",
                        (long long)number, loss);
    return ole_fail(error, OLE_ERROR_NUMERIC,
                    "step %lld: the %s loss is NaN or Inf, from layer %s on: lower --lr%s or add "
                    "--warmup",
                    (long long)number, loss,
                    s->network->graph->node[node > 0 ? node : s->network->graph->classifier].name,
                    s->ole ? " or --lambda" : "");
}

ole_status ole_stepper_run(ole_stepper *s, const ole_batch *batch, double lr, int64_t number,
                           ole_step_result *result, ole_error *error) {
    double start = ole_clock();
    ole_plan *plan = plan_for(s, batch);
    *result = (ole_step_result){.softmax_loss = NAN, .ole_loss = NAN};
    ole_plan_forward(plan, batch->images, true, (uint64_t)number);
    ole_status status = run_losses(s, plan, batch, result, error);
    if (status != OLE_OK) return status;
    if (!isfinite(result->loss))
        return ole_stepper_fail(s, batch, number, s->softmax && !isfinite(result->softmax_loss),
                                error);
    ole_plan_backward(plan);
    ole_update update = s->update;
    update.lr = lr;
    update.step = number;
    ole_params_update(s->network->params, &update);
    status = ole_network_wait(s->network, error);
    result->seconds = ole_clock() - start;
    return status;
}
