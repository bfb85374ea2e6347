/*
 * bench/bench_step.c - a training step (forward, softmax, backward, SGD) of the paper's networks,
 * and where its time goes by kind of op:
 *
 *     build/bench/bench_step [NET [BATCH [THREADS [DEVICE [direct]]]]]
 *
 * Without a net: those of Table 1, each with its batch.  The batch is random and stays in memory.
 * Times are of the fastest step (what the code can do) and the median (what a user sees); GFLOP/s
 * count a multiply-add as two, and direct convolutions whatever way they are computed.
 */
#include "net/plan.h"
#include "net/zoo.h"
#include "ole/net.h"
#include "random.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

typedef struct job {
    const char *net;
    int64_t batch;
    int classes, threads;
    const char *device;
    bool direct;
} job;

static const char *const op_names[] = {"input",   "conv",   "norm",    "relu", "maxpool", "avgpool",
                                       "flatten", "linear", "dropout", "add",  "concat"};
enum { OPS = sizeof op_names / sizeof *op_names, MOST_STEPS = 200 };

static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void stop_on(ole_status status, const ole_error *error) {
    if (status == OLE_OK) return;
    fprintf(stderr, "bench_step: %s\n", error->message);
    exit(1);
}

static const ole_backend *find_backend(const char *name) {
    const ole_backend *all[] = {
        &ole_backend_ref,
#ifdef OLE_HAVE_ONEDNN
        &ole_backend_cpu,
#endif
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (strcmp(all[i]->name, name) == 0) return all[i];
    fprintf(stderr, "bench_step: no device %s in this build\n", name);
    exit(1);
}

/* Everything a step needs. */
typedef struct bench {
    ole_graph *graph;
    ole_params *params;
    ole_plan *plan;
    float *images;
    int32_t *labels;
    ole_plan_times best; /* of each kind of op */
    double step[MOST_STEPS];
    int steps;
} bench;

static void one_step(bench *b) {
    double loss, start = seconds();
    int64_t correct;
    ole_plan_forward(b->plan, b->images, true, (uint64_t)b->steps);
    ole_plan_softmax(b->plan, b->labels, 1.0, NULL, &loss, &correct);
    ole_plan_backward(b->plan);
    ole_params_update(b->params, &(ole_update){.kind = OLE_UPDATE_SGD,
                                               .lr = 0.01,
                                               .weight_decay = 1e-4,
                                               .momentum = 0.9,
                                               .nesterov = true,
                                               .step = b->steps + 1});
    b->step[b->steps++] = seconds() - start;
}

static void keep_best(double *best, const double *now) {
    for (int op = 0; op < OPS; op++)
        if (best[op] == 0 || now[op] < best[op]) best[op] = now[op];
}

static int rising(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void measure(bench *b) {
    one_step(b);
    ole_plan_get_times(b->plan);
    b->steps = 0;
    for (double start = seconds(); b->steps < 5 || seconds() - start < 4;) {
        if (b->steps == MOST_STEPS) break;
        one_step(b);
        ole_plan_times now = ole_plan_get_times(b->plan);
        keep_best(b->best.forward, now.forward);
        keep_best(b->best.backward, now.backward);
    }
    qsort(b->step, (size_t)b->steps, sizeof *b->step, rising);
}

/* FLOP of the forward pass of one image in ops of a kind. */
static double flop_of(const ole_graph *graph, ole_op op) {
    double flop = 0;
    for (int i = 0; i < graph->nodes; i++) {
        const ole_node *node = &graph->node[i];
        if (node->op != op) continue;
        double taps = op == OLE_OP_CONV ? (double)(node->kernel * node->kernel) : 1.0;
        if (op == OLE_OP_CONV || op == OLE_OP_LINEAR)
            flop += 2 * taps * (double)node->in.c * (double)ole_shape_size(node->out);
    }
    return flop;
}

static void print(const job *j, const bench *b) {
    double best = b->step[0], median = b->step[b->steps / 2];
    printf("%-13s batch %-4" PRId64
           "%s, %d threads%s: best %.1f ms, median %.1f ms, %.1f images/s, "
           "plan %.0f MiB (unshared %.0f), weights %.1f MiB\n",
           j->net, j->batch, j->device, j->threads, j->direct ? ", direct" : "", 1e3 * best,
           1e3 * median, (double)j->batch / best, (double)ole_plan_bytes(b->plan) / 1048576,
           (double)ole_plan_bytes_unshared(b->plan) / 1048576,
           (double)ole_params_bytes(b->params) / 1048576);
    for (int op = 0; op < OPS; op++) {
        double forward = b->best.forward[op], backward = b->best.backward[op];
        double flop = flop_of(b->graph, op) * (double)j->batch * 1e-9;
        if (forward + backward < 5e-5) continue;
        printf("    %-8s forward %8.2f ms, backward %8.2f ms", op_names[op], 1e3 * forward,
               1e3 * backward);
        if (flop > 0) printf(", %4.0f and %4.0f GFLOP/s", flop / forward, 2 * flop / backward);
        printf("\n");
    }
    fflush(stdout);
}

static void fill(bench *b, const job *j, ole_shape input) {
    int64_t count = j->batch * ole_shape_size(input);
    b->images = malloc((size_t)count * sizeof *b->images);
    b->labels = malloc((size_t)j->batch * sizeof *b->labels);
    if (!b->images || !b->labels) exit(1);
    test_random random = {1};
    for (int64_t i = 0; i < count; i++)
        b->images[i] = (float)random_normal(&random);
    for (int64_t i = 0; i < j->batch; i++)
        b->labels[i] = (int32_t)(i % j->classes);
}

static void run(const job *j) {
    ole_error error;
    bench b = {0};
    int channels, height, width;
    ole_net_input(j->net, &channels, &height, &width);
    ole_shape input = {channels, height, width};
    const ole_backend *backend = find_backend(j->device);
    ole_device_context *context;
    ole_device_options options = {.threads = j->threads,
                                  .conv = j->direct ? OLE_CONV_DIRECT : OLE_CONV_AUTO};
    stop_on(backend->open(&context, &options, &error), &error);
    stop_on(ole_graph_parse(&b.graph, j->net, input, j->classes, &error), &error);
    stop_on(ole_graph_fuse(b.graph, &error), &error);
    stop_on(ole_params_create(&b.params, b.graph, backend, context, true, &error), &error);
    stop_on(ole_params_init(b.params, "msra", 1, &error), &error);
    ole_plan_options plan = {.batch = j->batch, .train = true};
    stop_on(ole_plan_create(&b.plan, b.graph, b.params, backend, context, &plan, &error), &error);
    ole_plan_measure(b.plan, true);
    fill(&b, j, input);
    measure(&b);
    print(j, &b);
    ole_plan_free(b.plan);
    ole_params_free(b.params);
    ole_graph_free(b.graph);
    backend->close(context);
    free(b.images);
    free(b.labels);
}

int main(int argc, char **argv) {
    static const job table[] = {
        {.net = "cnn5", .batch = 32, .classes = 10},
        {.net = "vgg11", .batch = 64, .classes = 10},
        {.net = "vgg16", .batch = 64, .classes = 10},
        {.net = "resnet110", .batch = 64, .classes = 10},
        {.net = "preresnet110", .batch = 64, .classes = 100},
        {.net = "densenet40", .batch = 64, .classes = 10},
    };
    int threads = argc > 3 ? atoi(argv[3]) : (int)sysconf(_SC_NPROCESSORS_ONLN);
    const char *device = argc > 4 ? argv[4] : "cpu";
    bool direct = argc > 5 && strcmp(argv[5], "direct") == 0;
    job one = {
        .net = argc > 1 ? argv[1] : NULL, .batch = argc > 2 ? atoll(argv[2]) : 64, .classes = 10};
    int jobs = one.net ? 1 : (int)(sizeof table / sizeof *table);
    for (int i = 0; i < jobs; i++) {
        job j = one.net ? one : table[i];
        j.threads = threads;
        j.device = device;
        j.direct = direct;
        run(&j);
    }
    return 0;
}
