/*
 * src/train/bench.c - ole/bench.h: a training step, repeated and timed by stage and by kind of op.
 */
#include "ole/bench.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/philox.h"
#include "ole/loss.h"
#include "train/bench_data.h"
#include "train/bench_queue.h"
#include "train/network.h"

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

enum { WARM_UP = 2, LEAST_STEPS = 5, MOST_STEPS = 2000, PEAK_SIDE = 1024 };

void ole_bench_options_init(ole_bench_options *options) {
    *options = (ole_bench_options){.struct_size = sizeof *options,
                                   .channels = 3,
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

/* A network with a batch, ready to step. */
typedef struct bench {
    const ole_bench_options *options;
    ole_network network;
    ole_plan *plan;
    ole_loss_plan *loss;
    ole_dataset *set;   /* of a few batches; NULL where the loader does not take such images */
    ole_loader *loader; /* one thread ahead of the steps */
    float *images, *features, *gradient;
    int32_t *labels;
    int64_t dim;
    double stage[OLE_BENCH_STAGES];
} bench;

static void close_bench(bench *b) {
    ole_loader_destroy(b->loader);
    ole_dataset_close(b->set);
    ole_loss_plan_destroy(b->loss);
    ole_plan_free(b->plan);
    ole_network_close(&b->network);
    free(b->images);
    free(b->features);
    free(b->gradient);
    free(b->labels);
}

static ole_status make_data(bench *b, ole_error *error) {
    const ole_bench_options *o = b->options;
    ole_status status = ole_bench_images(&b->set, o, o->batch_size, error);
    if (status != OLE_OK || !b->set) return status;
    const ole_bench_part all = {.batch = o->batch_size, .threads = 1};
    return ole_bench_loader(&b->loader, b->set, o, &all, error);
}

/* The batch of a step: the loader's next one, or always the same. */
static ole_status get_batch(bench *b, int64_t number, ole_batch *batch, ole_error *error) {
    if (b->loader) return ole_bench_next(b->loader, number, batch, error);
    *batch = (ole_batch){b->options->batch_size, b->images, b->labels, NULL};
    return OLE_OK;
}

/* Images a second that one thread assembles when nothing else runs. */
static ole_status measure_loader(const bench *b, double *rate, ole_error *error) {
    ole_loader *loader = NULL;
    ole_batch batch;
    if (!b->set) return OLE_OK;
    const ole_bench_part all = {.batch = b->options->batch_size};
    ole_status status = ole_bench_loader(&loader, b->set, b->options, &all, error);
    if (status == OLE_OK) status = ole_bench_next(loader, 0, &batch, error);
    double start = ole_clock(), spent = 0.0;
    int64_t images = 0;
    for (int64_t i = 1;
         status == OLE_OK && (i <= OLE_BENCH_BATCHES || spent < 0.1 * b->options->seconds); i++) {
        status = ole_bench_next(loader, i, &batch, error);
        images += batch.count;
        spent = ole_clock() - start;
    }
    *rate = (double)images / spent;
    ole_loader_destroy(loader);
    return status;
}

static ole_status make_batch(bench *b, ole_error *error) {
    int64_t n = b->options->batch_size, image = ole_network_image_size(&b->network);
    b->dim = ole_network_feature_size(&b->network);
    b->images = malloc((size_t)(n * image) * sizeof *b->images);
    b->features = malloc((size_t)(n * b->dim) * sizeof *b->features);
    b->gradient = malloc((size_t)(n * b->dim) * sizeof *b->gradient);
    b->labels = malloc((size_t)n * sizeof *b->labels);
    if (!b->images || !b->features || !b->gradient || !b->labels)
        return ole_fail(error, OLE_ERROR_MEMORY, "out of memory for a batch of %lld", (long long)n);
    for (int64_t i = 0; i < n * image; i++) {
        uint32_t word[4];
        ole_philox(0, OLE_RANDOM_TEST, 0, (uint64_t)i, word);
        b->images[i] = 2.0f * ole_uniform(word[0]) - 1.0f;
    }
    for (int64_t i = 0; i < n; i++)
        b->labels[i] = (int32_t)(i % b->options->classes);
    return OLE_OK;
}

static ole_status open_bench(bench *b, ole_error *error) {
    const ole_bench_options *o = b->options;
    ole_network_options network = {.net = o->net,
                                   .input = {o->channels, o->height, o->width},
                                   .classes = o->classes,
                                   .device = o->device,
                                   .precision = o->precision,
                                   .conv = o->conv,
                                   .threads = o->threads,
                                   .train = true};
    ole_status status = ole_network_open(&b->network, &network, error);
    if (status == OLE_OK) status = ole_params_init(b->network.params, "xavier", 0, error);
    if (status == OLE_OK) status = make_batch(b, error);
    return status == OLE_OK ? make_data(b, error) : status;
}

/* What steps that are run one by one need besides. */
static ole_status plan_steps(bench *b, ole_error *error) {
    const ole_bench_options *o = b->options;
    ole_plan_options plan = {.batch = o->batch_size, .train = true};
    ole_status status = ole_plan_create(&b->plan, b->network.graph, b->network.params,
                                        b->network.backend, b->network.context, &plan, error);
    if (status != OLE_OK || o->softmax_only) return status;
    ole_loss_options loss;
    ole_loss_options_init(&loss);
    loss.weight = 0.25;
    loss.threads = b->network.threads;
    return ole_loss_plan_create(&b->loss, o->batch_size, b->dim, OLE_F32, &loss, error);
}

/* Adds the time since *mark to a stage. */
static void lap(bench *b, ole_bench_stage stage, double *mark) {
    double t = ole_clock();
    b->stage[stage] += t - *mark;
    *mark = t;
}

static ole_status step(bench *b, int64_t number, ole_error *error) {
    double mark = ole_clock(), loss;
    int64_t right;
    ole_batch data;
    ole_status status = get_batch(b, number, &data, error);
    if (status != OLE_OK) return status;
    lap(b, OLE_BENCH_DATA, &mark);
    ole_plan_forward(b->plan, data.images, true, (uint64_t)number);
    lap(b, OLE_BENCH_FORWARD, &mark);
    ole_plan_softmax(b->plan, data.labels, 1.0, NULL, &loss, &right);
    lap(b, OLE_BENCH_SOFTMAX, &mark);
    if (b->loss) {
        ole_plan_read(b->plan, b->network.graph->features, b->features);
        ole_loss_batch batch = {.rows = b->options->batch_size,
                                .features = b->features,
                                .labels = data.labels,
                                .label_type = OLE_I32};
        ole_loss_gradient gradient = {.data = b->gradient, .upstream = 1.0};
        ole_loss_result result = {0};
        status = ole_loss_eval(b->loss, &batch, &gradient, &result, error);
        if (status != OLE_OK) return status;
        ole_plan_seed(b->plan, b->network.graph->features, b->gradient);
        lap(b, OLE_BENCH_OLE, &mark);
    }
    ole_plan_backward(b->plan);
    lap(b, OLE_BENCH_BACKWARD, &mark);
    ole_update update = {.kind = OLE_UPDATE_SGD,
                         .lr = 1e-4,
                         .weight_decay = 1e-4,
                         .momentum = 0.9,
                         .nesterov = true,
                         .step = number + 1};
    ole_params_update(b->network.params, &update);
    lap(b, OLE_BENCH_UPDATE, &mark);
    return OLE_OK;
}

static int rising(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* FLOP of a batch through all ops of one kind. */
static double kind_flop(const ole_graph *graph, int64_t batch, ole_op op) {
    double flop = 0.0;
    for (int i = 0; i < graph->nodes; i++)
        if (graph->node[i].op == op) flop += ole_bench_flop(&graph->node[i]);
    return flop * (double)batch;
}

const ole_bench_op ole_bench_ops[] = {
    {OLE_OP_CONV, "conv"},        {OLE_OP_NORM, "norm"},        {OLE_OP_RELU, "relu"},
    {OLE_OP_MAXPOOL, "max pool"}, {OLE_OP_AVGPOOL, "avg pool"}, {OLE_OP_FLATTEN, "flatten"},
    {OLE_OP_LINEAR, "linear"},    {OLE_OP_DROPOUT, "dropout"},  {OLE_OP_ADD, "add"},
    {OLE_OP_CONCAT, "concat"},
};
const size_t ole_bench_op_count = sizeof ole_bench_ops / sizeof *ole_bench_ops;

void ole_bench_add_kind(ole_bench_result *result, const ole_graph *graph, int64_t batch,
                        const ole_bench_op *op, double forward, double backward) {
    double flop = kind_flop(graph, batch, op->op);
    result->kind[result->kinds++] = (ole_bench_kind){
        op->name, forward * 1e3, backward * 1e3, forward > 0.0 ? flop / forward * 1e-9 : 0.0,
        backward > 0.0 ? 2.0 * flop / backward * 1e-9 : 0.0};
}

static void fill_kinds(bench *b, ole_bench_result *result) {
    ole_plan_times times = ole_plan_get_times(b->plan);
    double steps = (double)result->steps;
    for (size_t k = 0; k < ole_bench_op_count; k++) {
        const ole_bench_op *op = &ole_bench_ops[k];
        double forward = times.forward[op->op] / steps, backward = times.backward[op->op] / steps;
        if (forward + backward > 0.0)
            ole_bench_add_kind(result, b->network.graph, b->options->batch_size, op, forward,
                               backward);
    }
}

/* Tells the callback; true to stop. */
static bool report(const bench *b, const char *part, int64_t steps, int64_t total) {
    const ole_bench_options *o = b->options;
    return o->callback &&
           o->callback(o->callback_context, part, steps * o->batch_size, total * o->batch_size);
}

/* The same after n steps; how many there will be follows from the time. */
static bool report_steps(const bench *b, int64_t n, double seconds) {
    const ole_bench_options *o = b->options;
    double share = o->seconds > 0.0 ? seconds / o->seconds : 1.0;
    if (share > (double)n / LEAST_STEPS) share = (double)n / LEAST_STEPS;
    int64_t total = share < 1.0 ? (int64_t)((double)n / share) : n;
    if (total > MOST_STEPS) total = MOST_STEPS;
    return report(b, "steps", n, total);
}

static ole_status run_steps(bench *b, ole_bench_result *result, ole_error *error) {
    ole_status status = plan_steps(b, error);
    for (int64_t i = 0; i < WARM_UP && status == OLE_OK && !result->interrupted; i++) {
        status = step(b, i, error);
        result->interrupted = report(b, "warm-up", i + 1, WARM_UP);
    }
    if (status != OLE_OK || result->interrupted) return status;
    double *times = malloc(MOST_STEPS * sizeof *times);
    if (!times) return ole_fail(error, OLE_ERROR_MEMORY, "out of memory");
    memset(b->stage, 0, sizeof b->stage);
    ole_plan_measure(b->plan, true);
    double start = ole_clock();
    int64_t n = 0;
    while (status == OLE_OK && !result->interrupted && n < MOST_STEPS &&
           (n < LEAST_STEPS || ole_clock() - start < b->options->seconds)) {
        double t = ole_clock();
        status = step(b, WARM_UP + n, error);
        times[n++] = ole_clock() - t;
        result->interrupted = report_steps(b, n, ole_clock() - start);
    }
    qsort(times, (size_t)n, sizeof *times, rising);
    result->steps = n;
    result->step_ms = times[n / 2] * 1e3;
    result->images_per_s = (double)b->options->batch_size / times[n / 2];
    free(times);
    for (int s = 0; s < OLE_BENCH_STAGES; s++)
        result->stage_ms[s] = b->stage[s] / (double)n * 1e3;
    fill_kinds(b, result);
    return status;
}

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

static ole_status run_one_by_one(bench *b, ole_bench_result *result, ole_error *error) {
    struct rusage usage;
    ole_status status = run_steps(b, result, error);
    if (status != OLE_OK) return status;
    getrusage(RUSAGE_SELF, &usage);
    result->peak_bytes = (size_t)usage.ru_maxrss * 1024;
    result->plan_bytes = ole_plan_bytes(b->plan);
    result->unshared_bytes = ole_plan_bytes_unshared(b->plan);
    return OLE_OK;
}

static ole_status run_bench(const ole_bench_options *options, ole_bench_result *result,
                            ole_error *error) {
    bench b = {.options = options};
    ole_status status = ole_bench_check(options, 1, error);
    if (status == OLE_OK) status = open_bench(&b, error);
    if (status == OLE_OK && b.network.backend->recorder && b.set)
        status = ole_bench_queue(options, &b.network, b.set, b.loader, result, error);
    else if (status == OLE_OK)
        status = run_one_by_one(&b, result, error);
    if (status == OLE_OK && !result->interrupted) {
        result->param_bytes = ole_params_bytes(b.network.params);
        result->threads = b.network.threads;
        strncpy(result->device, b.network.backend->name, sizeof result->device - 1);
        if (!options->step_only) status = measure_peak(&b.network, &result->peak_gflops, error);
    }
    if (status == OLE_OK && !result->interrupted && !options->step_only)
        status = measure_loader(&b, &result->loader_images_per_s, error);
    close_bench(&b);
    return status;
}

ole_status ole_bench(const ole_bench_options *options, ole_bench_result *result, ole_error *error) {
    ole_bench_result r = {0};
    if (!options || !result)
        return ole_fail(error, OLE_ERROR_ARGUMENT, "ole_bench: options or result is NULL");
    ole_status status = run_bench(options, &r, error);
    if (status == OLE_OK) *result = r;
    return status;
}
