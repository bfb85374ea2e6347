/* src/train/run/criterion_step.c - a criterion of loss/criteria in training steps. */
#include "train/run/criterion_step.h"

#include "base/arena.h"
#include "base/error.h"
#include "train/options/options.h"

#include <math.h>
#include <stdlib.h>

static bool has(const ole_criterion_step *s, unsigned trait) {
    return s->criterion && s->criterion->traits & trait;
}

static int64_t dim_of(const ole_graph *graph) {
    return ole_shape_size(graph->node[graph->features].out);
}

int ole_classifier_param(const ole_graph *graph, bool bias) {
    const ole_node *node = &graph->node[graph->classifier];
    for (int p = node->first_param; p < node->first_param + node->params; p++)
        if ((graph->param[p].kind == OLE_PARAM_BIAS) == bias) return p;
    return -1;
}

int64_t ole_criterion_state(const ole_train_options *options, const ole_graph *graph) {
    const ole_criterion *criterion;
    double param[OLE_CRITERION_PARAMS];
    if (ole_train_criterion(options, &criterion, param, NULL) != OLE_OK || !criterion) return 0;
    return criterion->traits & OLE_CRITERION_CENTERS ? graph->classes * dim_of(graph) : 0;
}

/* ---- Opening ------------------------------------------------------------------------------ */

static void lay_out(ole_criterion_step *s, ole_arena *arena) {
    const ole_graph *graph = s->network->graph;
    int64_t dim = dim_of(graph), classes = graph->classes;
    int64_t weights = has(s, OLE_CRITERION_HEAD) ? classes * dim : 0;
    s->features = ole_arena_take(arena, s->batch * dim, sizeof *s->features);
    s->gradient = ole_arena_take(arena, s->batch * dim, sizeof *s->gradient);
    s->all = ole_arena_take(arena, s->ranks ? s->batch * dim : 0, sizeof *s->all);
    s->x = ole_arena_take(arena, s->batch * dim, sizeof *s->x);
    s->dx = ole_arena_take(arena, s->batch * dim, sizeof *s->dx);
    s->plain = ole_arena_take(arena, weights + classes, sizeof *s->plain);
    s->w = ole_arena_take(arena, weights, sizeof *s->w);
    s->dw = ole_arena_take(arena, weights, sizeof *s->dw);
    s->b = ole_arena_take(arena, classes, sizeof *s->b);
    s->db = ole_arena_take(arena, classes, sizeof *s->db);
    s->labels = ole_arena_take(arena, s->batch, sizeof *s->labels);
    s->bytes = ole_arena_take(arena, ole_ranks_size(s->ranks), sizeof *s->bytes);
    double *own = ole_arena_take(arena, has(s, OLE_CRITERION_CENTERS) ? classes * dim : 0,
                                 sizeof *s->centers);
    if (!s->centers) s->centers = own;
}

/* A bias that the loss does not know stays 0. */
static void drop_bias(ole_criterion_step *s) {
    int p = ole_classifier_param(s->network->graph, true);
    if (p < 0 || !has(s, OLE_CRITERION_NO_BIAS)) return;
    for (int64_t c = 0; c < s->network->graph->classes; c++)
        s->plain[c] = 0.0f;
    ole_params_set(s->network->params, p, s->plain);
    ole_params_freeze(s->network->params, p);
}

ole_status ole_criterion_step_open(ole_criterion_step *s, const ole_network *network,
                                   const ole_train_options *options, int64_t batch,
                                   ole_error *error) {
    *s = (ole_criterion_step){.network = network, .batch = batch};
    ole_status status = ole_train_criterion(options, &s->criterion, s->param, error);
    if (status != OLE_OK || !s->criterion) return status;
    s->ranks = ole_ranks_size(options->ranks) > 1 ? options->ranks : NULL;
    s->weight = options->loss & OLE_LOSS_CLASSIFIERS && !has(s, OLE_CRITERION_HEAD)
                    ? options->loss_weight
                    : 1.0;
    if (s->weight == OLE_LOSS_WEIGHT_AUTO) s->weight = s->criterion->weight;
    ole_arena arena = {0};
    lay_out(s, &arena);
    s->memory = ole_arena_reserve(&arena);
    if (!s->memory)
        return ole_fail(error, OLE_ERROR_MEMORY, "out of memory for the loss %s",
                        s->criterion->name);
    lay_out(s, &arena);
    int64_t state = ole_criterion_state(options, network->graph);
    for (int64_t i = 0; i < state; i++)
        s->centers[i] = 0.0;
    drop_bias(s);
    ole_criterion_step_updated(s);
    return OLE_OK;
}

ole_criterion_plan_options ole_criterion_step_options(const ole_criterion_step *s) {
    const ole_graph *graph = s->network->graph;
    ole_criterion_plan_options options = {.criterion = s->criterion,
                                          .rows = s->batch,
                                          .dim = dim_of(graph),
                                          .classes = graph->classes};
    for (int i = 0; i < OLE_CRITERION_PARAMS; i++)
        options.param[i] = s->param[i];
    return options;
}

ole_status ole_criterion_step_plan(ole_criterion_step *s, ole_error *error) {
    if (!s->criterion || s->plan) return OLE_OK;
    const ole_criterion_plan_options options = ole_criterion_step_options(s);
    return ole_criterion_plan_create(&s->plan, &options, error);
}

void ole_criterion_step_free(ole_criterion_step *s) {
    ole_criterion_plan_free(s->plan);
    free(s->memory);
    *s = (ole_criterion_step){0};
}

void ole_criterion_step_use(ole_criterion_step *s, double *state) {
    if (has(s, OLE_CRITERION_CENTERS)) s->centers = state;
}

/* ---- Steps -------------------------------------------------------------------------------- */

/* A parameter of the classifier as doubles; zeros if it has none. */
static void read_param(ole_criterion_step *s, bool bias, double *to, int64_t count) {
    int p = ole_classifier_param(s->network->graph, bias);
    if (p >= 0) ole_params_get(s->network->params, p, s->plain);
    for (int64_t i = 0; i < count; i++)
        to[i] = p >= 0 ? (double)s->plain[i] : 0.0;
}

/* Features and labels of all rows, of all ranks. */
static void gather(ole_criterion_step *s, ole_plan *plan, const ole_batch *batch, int64_t rows) {
    const ole_graph *graph = s->network->graph;
    int64_t dim = dim_of(graph);
    const float *all = s->features;
    if (plan) ole_plan_read(plan, graph->features, s->features);
    if (s->ranks) {
        ole_ranks_part_bytes(s->ranks, rows, dim * (int64_t)sizeof(float), s->bytes);
        ole_ranks_gather(s->ranks, s->features, s->bytes, s->all);
        ole_ranks_part_bytes(s->ranks, rows, sizeof(int32_t), s->bytes);
        ole_ranks_gather(s->ranks, batch->labels, s->bytes, s->labels);
        all = s->all;
    } else {
        for (int64_t i = 0; i < rows; i++)
            s->labels[i] = batch->labels[i];
    }
    for (int64_t i = 0; i < rows * dim; i++)
        s->x[i] = (double)all[i];
}

ole_status ole_criterion_step_run(ole_criterion_step *s, ole_plan *plan, const ole_batch *batch,
                                  int64_t rows, int64_t number, ole_error *error) {
    const ole_graph *graph = s->network->graph;
    int64_t dim = dim_of(graph);
    gather(s, plan, batch, rows);
    if (has(s, OLE_CRITERION_HEAD)) {
        read_param(s, false, s->w, graph->classes * dim);
        read_param(s, true, s->b, graph->classes);
    }
    const ole_criterion_batch call = {.rows = rows,
                                      .step = number,
                                      .x = s->x,
                                      .labels = s->labels,
                                      .w = s->w,
                                      .b = s->b,
                                      .centers = s->centers};
    ole_criterion_result result = {.dx = s->dx, .dw = s->dw, .db = s->db};
    ole_status status = ole_criterion_eval(s->plan, &call, &result, error);
    s->value = result.value;
    s->correct = result.correct;
    if (status == OLE_ERROR_DATA || status == OLE_ERROR_NUMERIC) {
        s->value = NAN;
        return OLE_OK;
    }
    int64_t first = ole_ranks_first(s->ranks, rows, ole_ranks_rank(s->ranks)) * dim;
    for (int64_t i = 0; i < batch->count * dim; i++)
        s->gradient[i] = (float)(s->weight * s->dx[first + i]);
    return status;
}

void ole_criterion_step_features(const ole_criterion_step *s, ole_plan *plan, int node) {
    if (s->criterion && node == s->network->graph->features)
        ole_plan_add_gradient(plan, node, s->gradient);
}

/* With ranks, whose gradients are summed, rank 0 has it all. */
void ole_criterion_step_classifier(const ole_criterion_step *s, int node) {
    const ole_graph *graph = s->network->graph;
    if (!has(s, OLE_CRITERION_HEAD) || node != graph->classifier) return;
    double share = ole_ranks_rank(s->ranks) == 0 ? 1.0 : 0.0;
    for (int bias = 0; bias < 2; bias++) {
        int p = ole_classifier_param(graph, bias);
        const double *gradient = bias ? s->db : s->dw;
        if (p < 0 || !ole_params_gradient(s->network->params, p)) continue;
        for (int64_t i = 0; i < graph->param[p].count; i++)
            s->plain[i] = (float)(share * gradient[i]);
        ole_params_set_gradient(s->network->params, p, s->plain);
    }
}

void ole_criterion_step_updated(const ole_criterion_step *s) {
    static const double close = 1e-6; /* a second time changes nothing, so that a resumed run does
                                       * what an uninterrupted one does */
    const ole_graph *graph = s->network->graph;
    int64_t dim = dim_of(graph);
    int p = ole_classifier_param(graph, false);
    if (!has(s, OLE_CRITERION_UNIT) || p < 0) return;
    ole_params_get(s->network->params, p, s->plain);
    for (int64_t c = 0; c < graph->classes; c++) {
        float *row = s->plain + c * dim;
        double sum = 0.0;
        for (int64_t d = 0; d < dim; d++)
            sum += (double)row[d] * (double)row[d];
        double length = sqrt(sum);
        for (int64_t d = 0; d < dim && length > 0.0 && fabs(length - 1.0) > close; d++)
            row[d] = (float)((double)row[d] / length);
    }
    ole_params_set(s->network->params, p, s->plain);
}
