/*
 * src/bench/bench_recorded.c - the benchmark on a device that queues its steps.
 *
 * Inside a recorded step nothing can be timed from outside, and work overlaps.  So parts are timed
 * by what a step takes less without them; they need not add up to the whole.
 */
#include "bench/bench_recorded.h"

#include <math.h>

typedef struct bench {
    const ole_bench_options *options;
    const ole_graph *graph;
    ole_recorded *recorded;
    double step; /* seconds */
    double idle; /* without updates: what ops are left out of, since bad losses stop updates */
    double spent, budget; /* seconds measured, and to measure in all */
    bool interrupted;
} bench;

static bool has_op(const ole_graph *graph, ole_op op) {
    for (int i = 0; i < graph->nodes; i++)
        if (graph->node[i].op == op) return true;
    return false;
}

/* What all measurements take together. */
static double find_budget(const bench *b) {
    double parts = 0.5 + 0.1 + 5 * 0.05;
    if (b->options->step_only) return 0.5 * b->options->seconds;
    for (size_t k = 0; k < ole_bench_op_count; k++)
        if (has_op(b->graph, ole_bench_ops[k].op)) parts += 2 * 0.05;
    return parts * b->options->seconds;
}

/* Tells the callback, in images of whole steps. */
static bool report(const bench *b) {
    const ole_bench_options *o = b->options;
    double rate = b->step > 0.0 ? (double)o->batch_size / b->step : 1.0;
    return o->callback && o->callback(o->callback_context, "steps", (int64_t)(b->spent * rate),
                                      (int64_t)(b->budget * rate) + 1);
}

/* A measurement that takes a share of the seconds; none once it was stopped. */
static ole_status measure_part(bench *b, ole_recorded_part part, ole_op op, double share,
                               double *seconds, ole_error *error) {
    *seconds = 0.0;
    if (b->interrupted) return OLE_OK;
    double budget = share * b->options->seconds;
    ole_status status = ole_recorded_measure(b->recorded, part, op, budget, seconds, error);
    b->spent += budget;
    if (status == OLE_OK) b->interrupted = report(b);
    return status;
}

/* What a step takes less without a part. */
static ole_status cost_of(bench *b, ole_recorded_part part, ole_op op, double *seconds,
                          ole_error *error) {
    double without;
    ole_status status = measure_part(b, part, op, 0.05, &without, error);
    *seconds = fmax(0.0, (part < OLE_RECORDED_STEP_IDLE ? b->step : b->idle) - without);
    return status;
}

static ole_status fill_stages(bench *b, ole_bench_result *result, ole_error *error) {
    static const struct {
        ole_bench_stage stage;
        ole_recorded_part part;
    } parts[] = {{OLE_BENCH_DATA, OLE_RECORDED_WITHOUT_DATA},
                 {OLE_BENCH_SOFTMAX, OLE_RECORDED_WITHOUT_SOFTMAX},
                 {OLE_BENCH_OLE, OLE_RECORDED_WITHOUT_OLE},
                 {OLE_BENCH_UPDATE, OLE_RECORDED_WITHOUT_UPDATE}};
    double rest = b->step, forward, seconds;
    ole_status status = OLE_OK;
    for (size_t i = 0; i < sizeof parts / sizeof *parts && status == OLE_OK; i++) {
        status = cost_of(b, parts[i].part, OLE_OP_INPUT, &seconds, error);
        result->stage_ms[parts[i].stage] = seconds * 1e3;
        rest -= seconds;
    }
    if (status == OLE_OK)
        status = measure_part(b, OLE_RECORDED_FORWARD, OLE_OP_INPUT, 0.05, &forward, error);
    if (status != OLE_OK) return status;
    forward = fmax(0.0, forward - result->stage_ms[OLE_BENCH_DATA] * 1e-3);
    result->stage_ms[OLE_BENCH_FORWARD] = forward * 1e3;
    result->stage_ms[OLE_BENCH_BACKWARD] = fmax(0.0, rest - forward) * 1e3;
    return OLE_OK;
}

static ole_status fill_kinds(bench *b, ole_bench_result *result, ole_error *error) {
    ole_status status = OLE_OK;
    for (size_t k = 0; k < ole_bench_op_count && status == OLE_OK; k++) {
        const ole_bench_op *op = &ole_bench_ops[k];
        double forward, backward;
        if (!has_op(b->graph, op->op)) continue;
        status = cost_of(b, OLE_RECORDED_WITHOUT_OP, op->op, &forward, error);
        if (status == OLE_OK)
            status = cost_of(b, OLE_RECORDED_WITHOUT_OP_BACKWARD, op->op, &backward, error);
        if (status == OLE_OK)
            ole_bench_add_kind(result, b->graph, b->options->batch_size, op, forward, backward);
    }
    return status;
}

static ole_status measure(bench *b, ole_bench_result *result, ole_error *error) {
    b->budget = find_budget(b);
    ole_status status = measure_part(b, OLE_RECORDED_STEP, OLE_OP_INPUT, 0.5, &b->step, error);
    if (status == OLE_OK && !b->options->step_only)
        status = measure_part(b, OLE_RECORDED_STEP_IDLE, OLE_OP_INPUT, 0.1, &b->idle, error);
    if (status != OLE_OK || b->interrupted) return status;
    result->step_ms = b->step * 1e3;
    result->images_per_s = (double)b->options->batch_size / b->step;
    result->steps = (int64_t)(b->options->seconds / 2 / b->step);
    result->launches = ole_recorded_nodes(b->recorded);
    if (b->options->step_only) return OLE_OK;
    status = fill_stages(b, result, error);
    return status == OLE_OK ? fill_kinds(b, result, error) : status;
}

ole_status ole_bench_queue(const ole_bench_setup *setup, ole_bench_result *result,
                           ole_error *error) {
    bench b = {
        .options = setup->options, .graph = setup->network.graph, .recorded = setup->recorded};
    ole_status status = measure(&b, result, error);
    result->interrupted = b.interrupted;
    return status;
}
