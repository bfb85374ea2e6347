/*
 * src/train/bench.c - ole/bench.h: a training step, repeated and timed by stage and by kind of op.
 */
#include "ole/bench.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/philox.h"
#include "data/generated.h"
#include "ole/loss.h"
#include "train/network.h"

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

enum { WARM_UP = 2, LEAST_STEPS = 5, MOST_STEPS = 2000, PEAK_SIDE = 1024, BATCHES = 4, CROP = 4 };

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
                                   .seconds = 3.0};
}

const char *ole_bench_stage_name(ole_bench_stage stage) {
    static const char *const names[] = {"data", "forward", "softmax", "ole", "backward", "update"};
    return names[stage];
}

/* A network with a batch, ready to step. */
typedef struct bench {
    const ole_bench_options *options;
    ole_network network;
    ole_plan *plan;
    ole_loss_plan *loss;
    ole_dataset *set;   /* of BATCHES batches; NULL where the loader does not take such images */
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

/* A loader as training makes it, of the generated images. */
static ole_status make_loader(const bench *b, int threads, ole_loader **loader, ole_error *error) {
    const ole_bench_options *o = b->options;
    bool vectors = o->height == 1 && o->width == 1;
    ole_loader_options options;
    ole_loader_options_init(&options);
    options.batch_size = o->batch_size;
    options.shuffle = true;
    options.crop = vectors ? 0 : CROP;
    options.flip = !vectors;
    options.threads = threads;
    for (int c = 0; c < OLE_MAX_CHANNELS; c++)
        options.mean[c] = options.deviation[c] = 0.5f;
    return ole_loader_create(loader, b->set, OLE_SPLIT_TRAIN, &options, error);
}

static ole_status make_data(bench *b, ole_error *error) {
    const ole_bench_options *o = b->options;
    if (o->channels > OLE_MAX_CHANNELS && (o->height > 1 || o->width > 1)) return OLE_OK;
    const ole_generated_options set = {.channels = o->channels,
                                       .height = o->height,
                                       .width = o->width,
                                       .classes = o->classes,
                                       .count = BATCHES * o->batch_size};
    ole_status status = ole_dataset_generate(&b->set, &set, error);
    return status == OLE_OK ? make_loader(b, 1, &b->loader, error) : status;
}

/* The batch of a step: the loader's next one, or always the same. */
static ole_status get_batch(bench *b, int64_t number, ole_batch *batch, ole_error *error) {
    if (b->loader)
        return ole_loader_get(b->loader, number / BATCHES, number % BATCHES, batch, error);
    *batch = (ole_batch){b->options->batch_size, b->images, b->labels, NULL};
    return OLE_OK;
}

/* Images a second that one thread assembles when nothing else runs. */
static ole_status measure_loader(const bench *b, double *rate, ole_error *error) {
    ole_loader *loader = NULL;
    ole_batch batch;
    if (!b->set) return OLE_OK;
    ole_status status = make_loader(b, 0, &loader, error);
    if (status == OLE_OK) status = ole_loader_get(loader, 0, 0, &batch, error);
    double start = ole_clock(), spent = 0.0;
    int64_t images = 0;
    for (int64_t i = 1; status == OLE_OK && (i <= BATCHES || spent < 0.1 * b->options->seconds);
         i++) {
        status = ole_loader_get(loader, i / BATCHES, i % BATCHES, &batch, error);
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
    ole_plan_options plan = {.batch = o->batch_size, .train = true};
    if (status == OLE_OK)
        status = ole_plan_create(&b->plan, b->network.graph, b->network.params, b->network.backend,
                                 b->network.context, &plan, error);
    if (status == OLE_OK) status = make_batch(b, error);
    if (status == OLE_OK) status = make_data(b, error);
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
static double kind_flop(const bench *b, ole_op op) {
    double flop = 0.0;
    for (int i = 0; i < b->network.graph->nodes; i++) {
        const ole_node *node = &b->network.graph->node[i];
        if (node->op != op || (op != OLE_OP_CONV && op != OLE_OP_LINEAR)) continue;
        double window = op == OLE_OP_CONV ? (double)(node->kernel * node->kernel * node->in.c)
                                          : (double)ole_shape_size(node->in);
        flop += 2.0 * window * (double)ole_shape_size(node->out);
    }
    return flop * (double)b->options->batch_size;
}

static void fill_kinds(bench *b, ole_bench_result *result) {
    static const struct {
        ole_op op;
        const char *name;
    } kinds[] = {{OLE_OP_CONV, "conv"},        {OLE_OP_NORM, "norm"},
                 {OLE_OP_RELU, "relu"},        {OLE_OP_MAXPOOL, "max pool"},
                 {OLE_OP_AVGPOOL, "avg pool"}, {OLE_OP_FLATTEN, "flatten"},
                 {OLE_OP_LINEAR, "linear"},    {OLE_OP_DROPOUT, "dropout"},
                 {OLE_OP_ADD, "add"},          {OLE_OP_CONCAT, "concat"}};
    ole_plan_times times = ole_plan_get_times(b->plan);
    double steps = (double)result->steps;
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        double forward = times.forward[kinds[k].op] / steps;
        double backward = times.backward[kinds[k].op] / steps;
        if (forward + backward == 0.0) continue;
        double flop = kind_flop(b, kinds[k].op);
        result->kind[result->kinds++] =
            (ole_bench_kind){kinds[k].name, forward * 1e3, backward * 1e3,
                             forward > 0.0 ? flop / forward * 1e-9 : 0.0,
                             backward > 0.0 ? 2.0 * flop / backward * 1e-9 : 0.0};
    }
}

static ole_status run_steps(bench *b, ole_bench_result *result, ole_error *error) {
    ole_status status = OLE_OK;
    for (int64_t i = 0; i < WARM_UP && status == OLE_OK; i++)
        status = step(b, i, error);
    double *times = malloc(MOST_STEPS * sizeof *times);
    if (!times) return ole_fail(error, OLE_ERROR_MEMORY, "out of memory");
    memset(b->stage, 0, sizeof b->stage);
    ole_plan_measure(b->plan, true);
    double start = ole_clock();
    int64_t n = 0;
    while (status == OLE_OK && n < MOST_STEPS &&
           (n < LEAST_STEPS || ole_clock() - start < b->options->seconds)) {
        double t = ole_clock();
        status = step(b, WARM_UP + n, error);
        times[n++] = ole_clock() - t;
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

/* FLOP per second of a linear layer of 1024 x 1024 on 1024 rows: the device's matrix product. */
static ole_status measure_peak(bench *b, double *gflops, ole_error *error) {
    const ole_backend *backend = b->network.backend;
    ole_device_context *context = b->network.context;
    const ole_shape side = {PEAK_SIDE, 1, 1};
    ole_node node = {.op = OLE_OP_LINEAR, .input = {0, -1}, .in = side, .out = side, .params = 1};
    size_t bytes = (size_t)PEAK_SIDE * PEAK_SIDE * backend->element_size;
    ole_op_plan plan = {0};
    const ole_layout layouts[OLE_MAX_INPUTS] = {NULL};
    ole_status status =
        backend->plan_op(context, &node, PEAK_SIDE, false, false, layouts, &plan, error);
    if (status != OLE_OK) return status;
    void *memory[] = {backend->allocate(context, bytes), backend->allocate(context, bytes),
                      backend->allocate(context, bytes),
                      backend->allocate(context, plan.scratch_bytes + 64)};
    ole_op_call call = {
        .x = {memory[0]}, .y = memory[1], .param = {memory[2]}, .scratch = memory[3]};
    double best = 1e9;
    for (int i = 0; i < 5 && memory[0] && memory[1] && memory[2] && memory[3]; i++) {
        double t = ole_clock();
        backend->forward(context, &node, &plan, &call);
        t = ole_clock() - t;
        if (t < best) best = t;
    }
    for (int i = 0; i < 4; i++)
        backend->free(context, memory[i]);
    backend->release_op(context, &plan);
    *gflops = 2.0 * PEAK_SIDE * PEAK_SIDE * PEAK_SIDE / best * 1e-9;
    return OLE_OK;
}

ole_status ole_bench(const ole_bench_options *options, ole_bench_result *result, ole_error *error) {
    if (!options->net)
        return ole_fail(error, OLE_ERROR_ARGUMENT, "net is missing: give a name or a notation");
    if (options->batch_size < 1 || options->classes < 1)
        return ole_fail(error, OLE_ERROR_ARGUMENT,
                        "batch_size is %lld and classes %d: give at least 1",
                        (long long)options->batch_size, options->classes);
    *result = (ole_bench_result){0};
    bench b = {.options = options};
    ole_status status = open_bench(&b, error);
    if (status == OLE_OK) status = run_steps(&b, result, error);
    if (status == OLE_OK) {
        struct rusage usage;
        getrusage(RUSAGE_SELF, &usage);
        result->peak_bytes = (size_t)usage.ru_maxrss * 1024;
        result->plan_bytes = ole_plan_bytes(b.plan);
        result->unshared_bytes = ole_plan_bytes_unshared(b.plan);
        result->param_bytes = ole_params_bytes(b.network.params);
        result->threads = b.network.threads;
        strncpy(result->device, b.network.backend->name, sizeof result->device - 1);
        status = measure_peak(&b, &result->peak_gflops, error);
    }
    if (status == OLE_OK) status = measure_loader(&b, &result->loader_images_per_s, error);
    close_bench(&b);
    return status;
}
