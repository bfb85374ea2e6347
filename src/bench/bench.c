/*
 * src/bench/bench.c - bench/bench.h: a training step, repeated and timed by stage and by kind
 * of op.
 */
#include "bench/bench.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/philox.h"
#include "bench/bench_data.h"
#include "data/formats/generated.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

enum { WARM_UP = 2, LEAST_STEPS = 5, MOST_STEPS = 2000, PEAK_SIDE = 1024 };

void ole_bench_options_init(ole_bench_options *options) {
    *options = (ole_bench_options){.channels = 3,
                                   .height = 32,
                                   .width = 32,
                                   .classes = 10,
                                   .batch_size = 64,
                                   .device = "auto",
                                   .precision = "fp32",
                                   .conv = "auto",
                                   .seconds = 3.0,
                                   .bn = "sync",
                                   .ole_scope = "global"};
}

const char *ole_bench_stage_name(ole_bench_stage stage) {
    static const char *const names[] = {"data", "forward", "softmax", "ole", "backward", "update"};
    size_t count = sizeof names / sizeof *names;
    return (size_t)stage < count ? names[stage] : "unknown";
}

/* Images per second that one thread assembles when nothing else runs. */
static ole_status measure_loader(const ole_bench_setup *s, double *rate, ole_error *error) {
    ole_loader *loader = NULL;
    ole_batch batch;
    if (!s->set) return OLE_OK;
    ole_status status = ole_bench_loader(&loader, s, 0, error);
    if (status == OLE_OK) status = ole_bench_next(loader, 0, &batch, error);
    double start = ole_clock(), spent = 0.0;
    int64_t images = 0;
    for (int64_t i = 1;
         status == OLE_OK && (i <= OLE_BENCH_BATCHES || spent < 0.1 * s->options->seconds); i++) {
        status = ole_bench_next(loader, i, &batch, error);
        images += batch.count;
        spent = ole_clock() - start;
    }
    *rate = (double)images / spent;
    ole_loader_destroy(loader);
    return status;
}

/* ---- Steps -------------------------------------------------------------------------------- */

/* Kinds of ops that are timed apart. */
typedef struct op_kind {
    ole_op op;
    const char *name;
} op_kind;

static const op_kind kinds[] = {
    {OLE_OP_CONV, "conv"},        {OLE_OP_NORM, "norm"},        {OLE_OP_RELU, "relu"},
    {OLE_OP_MAXPOOL, "max pool"}, {OLE_OP_AVGPOOL, "avg pool"}, {OLE_OP_FLATTEN, "flatten"},
    {OLE_OP_LINEAR, "linear"},    {OLE_OP_DROPOUT, "dropout"},  {OLE_OP_ADD, "add"},
    {OLE_OP_CONCAT, "concat"},    {OLE_OP_PAD, "pad channels"},
};
enum { KINDS = sizeof kinds / sizeof *kinds };

/* Appends a kind with its seconds per step and FLOP per second. */
static void add_kind(ole_bench_result *result, const ole_graph *graph, int64_t batch,
                     const op_kind *op, double forward, double backward) {
    double flop = 0.0;
    for (int i = 0; i < graph->nodes; i++)
        if (graph->node[i].op == op->op) flop += ole_bench_flop(&graph->node[i]) * (double)batch;
    result->kind[result->kinds++] = (ole_bench_kind){
        op->name, forward * 1e3, backward * 1e3, forward > 0.0 ? flop / forward * 1e-9 : 0.0,
        backward > 0.0 ? 2.0 * flop / backward * 1e-9 : 0.0};
}

/* Tells the callback; true to stop. */
static bool report(const ole_bench_options *o, const char *part, int64_t steps, int64_t total) {
    return o->callback &&
           o->callback(o->callback_context, part, steps * o->batch_size, total * o->batch_size);
}

/* The same after n steps; how many there will be follows from the time. */
static bool report_steps(const ole_bench_options *o, int64_t n, double seconds) {
    double share = o->seconds > 0.0 ? seconds / o->seconds : 1.0;
    if (share > (double)n / LEAST_STEPS) share = (double)n / LEAST_STEPS;
    int64_t total = share < 1.0 ? (int64_t)((double)n / share) : n;
    if (total > MOST_STEPS) total = MOST_STEPS;
    return report(o, "steps", n, total);
}

static ole_status run_steps(ole_bench_setup *s, ole_bench_result *result, ole_error *error) {
    static const ole_bench_stage stage_of[] = {
        [OLE_STEP_FORWARD] = OLE_BENCH_FORWARD, [OLE_STEP_SOFTMAX] = OLE_BENCH_SOFTMAX,
        [OLE_STEP_OLE] = OLE_BENCH_OLE,         [OLE_STEP_BACKWARD] = OLE_BENCH_BACKWARD,
        [OLE_STEP_UPDATE] = OLE_BENCH_UPDATE,
    };
    const ole_bench_options *o = s->options;
    ole_plan *plan = s->stepper->plan[0];
    ole_step_result step;
    double data, stage[OLE_BENCH_STAGES] = {0};
    ole_status status = OLE_OK;
    for (int64_t i = 0; i < WARM_UP && status == OLE_OK && !result->interrupted; i++) {
        status = ole_bench_step(s, i, &data, &step, error);
        result->interrupted = report(o, "warm-up", i + 1, WARM_UP);
    }
    if (status != OLE_OK || result->interrupted) return status;
    double *times = malloc(MOST_STEPS * sizeof *times);
    if (!times) return ole_fail(error, OLE_ERROR_MEMORY, "out of memory");
    ole_plan_measure(plan, true);
    double start = ole_clock(), processor = ole_processor_clock();
    int64_t n = 0;
    while (status == OLE_OK && !result->interrupted && n < MOST_STEPS &&
           (n < LEAST_STEPS || ole_clock() - start < o->seconds)) {
        double t = ole_clock();
        status = ole_bench_step(s, WARM_UP + n, &data, &step, error);
        times[n++] = ole_clock() - t;
        stage[OLE_BENCH_DATA] += data;
        for (int i = 0; i < OLE_STEP_STAGES && status == OLE_OK; i++)
            stage[stage_of[i]] += step.seconds[i];
        result->interrupted = report_steps(o, n, ole_clock() - start);
    }
    processor = ole_processor_clock() - processor;
    double median = ole_bench_median(times, n);
    free(times);
    if (status != OLE_OK) return status;
    result->processor_ms = processor / (double)n * 1e3;
    result->steps = n;
    result->step_ms = median * 1e3;
    result->images_per_s = (double)o->batch_size / median;
    for (int i = 0; i < OLE_BENCH_STAGES; i++)
        result->stage_ms[i] = stage[i] / (double)n * 1e3;
    ole_plan_times sums = ole_plan_get_times(plan);
    for (int k = 0; k < KINDS; k++) {
        const op_kind *op = &kinds[k];
        double forward = sums.forward[op->op] / (double)n;
        double backward = sums.backward[op->op] / (double)n;
        if (forward + backward > 0.0)
            add_kind(result, s->network.graph, o->batch_size, op, forward, backward);
    }
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    result->peak_bytes = (size_t)usage.ru_maxrss * 1024;
    return OLE_OK;
}

/* ---- Recorded steps -------------------------------------------------------------------------- */

/*
 * Nothing inside a recorded step can be timed from outside, and work overlaps.  So a part is timed
 * by how much faster a step is without it; the parts need not add up to the whole.
 */
typedef struct recorded_bench {
    const ole_bench_options *options;
    const ole_graph *graph;
    ole_recorded *recorded;
    double step; /* seconds */
    double idle; /* without updates: what ops are left out of, since bad losses stop updates */
    double spent, budget; /* seconds measured, and to measure in all */
    bool interrupted;
} recorded_bench;

static bool has_op(const ole_graph *graph, ole_op op) {
    for (int i = 0; i < graph->nodes; i++)
        if (graph->node[i].op == op) return true;
    return false;
}

/* What all measurements take together. */
static double find_budget(const recorded_bench *b) {
    double parts = 0.5 + 0.1 + 5 * 0.05;
    if (b->options->step_only) return 0.5 * b->options->seconds;
    for (int k = 0; k < KINDS; k++)
        if (has_op(b->graph, kinds[k].op)) parts += 2 * 0.05;
    return parts * b->options->seconds;
}

/* Tells the callback, in images of whole steps. */
static bool report_budget(const recorded_bench *b) {
    const ole_bench_options *o = b->options;
    double rate = b->step > 0.0 ? (double)o->batch_size / b->step : 1.0;
    return o->callback && o->callback(o->callback_context, "steps", (int64_t)(b->spent * rate),
                                      (int64_t)(b->budget * rate) + 1);
}

/* A measurement that takes a share of the seconds; none once it was stopped. */
static ole_status measure_part(recorded_bench *b, ole_recorded_part part, ole_op op, double share,
                               double *seconds, ole_error *error) {
    *seconds = 0.0;
    if (b->interrupted) return OLE_OK;
    double budget = share * b->options->seconds;
    ole_status status = ole_recorded_measure(b->recorded, part, op, budget, seconds, error);
    b->spent += budget;
    if (status == OLE_OK) b->interrupted = report_budget(b);
    return status;
}

/* What a step takes less without a part. */
static ole_status cost_of(recorded_bench *b, ole_recorded_part part, ole_op op, double *seconds,
                          ole_error *error) {
    double without;
    ole_status status = measure_part(b, part, op, 0.05, &without, error);
    *seconds = fmax(0.0, (part < OLE_RECORDED_STEP_IDLE ? b->step : b->idle) - without);
    return status;
}

static ole_status fill_stages(recorded_bench *b, ole_bench_result *result, ole_error *error) {
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

static ole_status fill_kinds(recorded_bench *b, ole_bench_result *result, ole_error *error) {
    ole_status status = OLE_OK;
    for (int k = 0; k < KINDS && status == OLE_OK; k++) {
        const op_kind *op = &kinds[k];
        double forward, backward;
        if (!has_op(b->graph, op->op)) continue;
        status = cost_of(b, OLE_RECORDED_WITHOUT_OP, op->op, &forward, error);
        if (status == OLE_OK)
            status = cost_of(b, OLE_RECORDED_WITHOUT_OP_BACKWARD, op->op, &backward, error);
        if (status == OLE_OK)
            add_kind(result, b->graph, b->options->batch_size, op, forward, backward);
    }
    return status;
}

static ole_status measure_recorded(recorded_bench *b, ole_bench_result *result, ole_error *error) {
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

static ole_status run_recorded(const ole_bench_setup *s, ole_bench_result *result,
                               ole_error *error) {
    recorded_bench b = {.options = s->options, .graph = s->network.graph, .recorded = s->recorded};
    ole_status status = measure_recorded(&b, result, error);
    result->interrupted = b.interrupted;
    return status;
}

/* ---- The device's peak -------------------------------------------------------------------- */

/* A linear layer of 1024 x 1024 on 1024 rows of random numbers: the device's matrix product. */
typedef struct product {
    ole_node node;
    ole_param weight;
    ole_op_plan plan;
    void *memory[4]; /* x, y, weight, scratch */
} product;

static bool fill_product(const ole_network *n, product *p) {
    size_t count = (size_t)PEAK_SIDE * PEAK_SIDE;
    float *plain = malloc(count * sizeof *plain);
    for (size_t i = 0; plain && i < count; i++) {
        uint32_t word[4];
        ole_philox(1, OLE_RANDOM_TEST, 0, i, word);
        plain[i] = 2.0f * ole_uniform(word[0]) - 1.0f;
    }
    if (plain) {
        n->backend->from_plain(n->context, NULL, PEAK_SIDE, p->node.in, plain, false, p->memory[0]);
        n->backend->param_from_plain(n->context, &p->node, &p->weight, plain, p->memory[2]);
    }
    free(plain);
    return plain != NULL;
}

/* FLOP per second of it, the best of several bunches. */
static ole_status time_product(const ole_network *n, const product *p, double *gflops,
                               ole_error *error) {
    enum { TRIES = 5 };
    int bunch = n->backend->wait ? 20 : 1; /* where work is queued, waiting must not count */
    const ole_op_call call = {
        .x = {p->memory[0]}, .y = p->memory[1], .param = {p->memory[2]}, .scratch = p->memory[3]};
    double best = 1e9;
    ole_status status = OLE_OK;
    for (int i = 0; i < TRIES && status == OLE_OK; i++) {
        double t = ole_clock();
        for (int k = 0; k < bunch; k++)
            n->backend->forward(n->context, &p->node, &p->plan, &call);
        status = ole_network_wait(n, error);
        t = (ole_clock() - t) / bunch;
        if (t < best) best = t;
    }
    *gflops = 2.0 * PEAK_SIDE * PEAK_SIDE * PEAK_SIDE / best * 1e-9;
    return status;
}

static ole_status measure_peak(const ole_network *n, double *gflops, ole_error *error) {
    const ole_shape side = {PEAK_SIDE, 1, 1};
    const ole_layout layouts[OLE_MAX_INPUTS] = {NULL};
    product p = {.node = {.op = OLE_OP_LINEAR,
                          .input = {0, -1},
                          .in = side,
                          .out = side,
                          .params = 1,
                          .name = "peak"},
                 .weight = {.kind = OLE_PARAM_WEIGHT,
                            .ndim = 2,
                            .shape = {PEAK_SIDE, PEAK_SIDE},
                            .count = (int64_t)PEAK_SIDE * PEAK_SIDE}};
    ole_status status =
        n->backend->plan_op(n->context, &p.node, PEAK_SIDE, false, false, layouts, &p.plan, error);
    if (status != OLE_OK) return status;
    const size_t bytes[] = {p.plan.y_bytes, p.plan.y_bytes,
                            n->backend->param_bytes(n->context, &p.node, &p.weight),
                            p.plan.scratch_bytes + 64};
    bool whole = true;
    for (int i = 0; i < 4; i++) {
        p.memory[i] = n->backend->allocate(n->context, bytes[i]);
        whole = whole && p.memory[i];
    }
    status = whole && fill_product(n, &p)
                 ? time_product(n, &p, gflops, error)
                 : ole_fail(error, OLE_ERROR_MEMORY, "out of memory for a matrix product");
    for (int i = 0; i < 4; i++)
        if (p.memory[i]) n->backend->free(n->context, p.memory[i]);
    n->backend->release_op(n->context, &p.plan);
    return status;
}

static ole_status run_bench(ole_bench_setup *s, ole_bench_result *result, ole_error *error) {
    ole_status status = ole_bench_open(s, error);
    if (status == OLE_OK)
        status = s->recorded ? run_recorded(s, result, error) : run_steps(s, result, error);
    if (status != OLE_OK || result->interrupted) return status;
    ole_plan *plan = s->stepper->plan[0];
    result->plan_bytes = ole_plan_bytes(plan);
    result->unshared_bytes = ole_plan_bytes_unshared(plan);
    result->param_bytes = ole_params_bytes(s->network.params);
    if (s->recorded) result->peak_bytes = result->plan_bytes + result->param_bytes;
    result->threads = s->network.threads;
    strncpy(result->device, s->network.backend->name, sizeof result->device - 1);
    if (s->options->step_only) return OLE_OK;
    status = measure_peak(&s->network, &result->peak_gflops, error);
    return status == OLE_OK ? measure_loader(s, &result->loader_images_per_s, error) : status;
}

ole_status ole_bench(const ole_bench_options *options, ole_bench_result *result, ole_error *error) {
    ole_bench_result r = {0};
    if (!options || !result)
        return ole_fail(error, OLE_ERROR_ARGUMENT, "ole_bench: options or result is NULL");
    ole_status status = ole_bench_check(options, 1, error);
    if (status != OLE_OK) return status;
    ole_bench_setup setup = {.options = options, .batch = options->batch_size};
    status = run_bench(&setup, &r, error);
    ole_bench_close(&setup);
    if (status == OLE_OK) *result = r;
    return status;
}
