/*
 * bench/bench_loss_cuda.c - times the loss and its gradient on a GPU:
 *
 *     build/bench/bench_loss_cuda [--json]
 *
 * For each shape it prints the median GPU time (between events) of evaluations queued one after the
 * other and of replays of a graph of one evaluation, and the error of value and gradient against
 * LAPACK in double on the same data, in the units of the promise (value / sum_c ‖X_c‖_*, gradient /
 * sqrt(N)).  The features are float32 and resemble those of a network in mid-training.  The largest
 * shape has no reference, which would take minutes.
 */
#include "base/cuda_module.h"
#include "base/sort.h"
#include "cases.h"
#include "formats/json.h"
#include "ole/loss.h"
#include "reference.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const int64_t shapes[][3] = {
    {26, 1024, 500}, {32, 256, 10},  {64, 256, 10},   {64, 512, 10},    {64, 512, 100},
    {128, 512, 10},  {256, 512, 10}, {512, 512, 100}, {1024, 512, 100}, {4096, 2048, 1000},
};

enum { TIMES = 31, ELEMENTS_CHECKED = 1024 * 1024 };

typedef struct problem {
    const ole_cuda_memory_table *memory;
    int64_t n, d, c;
    double *wide; /* features as double, for the reference */
    float *x;
    int64_t *labels;
    ole_loss_plan *plan;
    ole_loss_batch batch; /* device memory */
    ole_loss_gradient gradient;
    ole_loss_outcome *outcome;
    void *stream;
    ole_cuda_graph *graph;
    int repeats; /* evaluations between two events */
} problem;

typedef struct line {
    double queued, replayed; /* milliseconds, medians */
    double value, gradient;  /* errors, or -1 */
    double bytes;            /* of the plan */
} line;

static void stop(const ole_error *error) {
    fprintf(stderr, "bench_loss_cuda: %s\n", error->message);
    exit(1);
}

static void *device_copy(const problem *p, const void *from, size_t bytes) {
    ole_error error;
    void *to = p->memory->allocate(bytes, &error);
    if (!to || (from && !p->memory->copy_in(to, from, bytes, &error))) stop(&error);
    return to;
}

static void queue_once(const problem *p) {
    ole_error error;
    if (ole_loss_queue(p->plan, &p->batch, &p->gradient, p->outcome, p->stream, &error) != OLE_OK)
        stop(&error);
}

static void queue_some(void *context) {
    const problem *p = context;
    for (int i = 0; i < p->repeats; i++)
        queue_once(p);
}

static void replay_some(void *context) {
    const problem *p = context;
    ole_error error;
    for (int i = 0; i < p->repeats; i++)
        if (!p->memory->replay(p->graph, p->stream, &error)) stop(&error);
}

/* Median milliseconds of one evaluation; runs that are too short to time are repeated. */
static double time_of(problem *p, void (*work)(void *)) {
    double times[TIMES], once;
    ole_error error;
    p->repeats = 1;
    for (int warm = 0; warm < 3; warm++)
        if (!p->memory->time(p->stream, work, p, &once, &error)) stop(&error);
    p->repeats = once > 10.0 ? 1 : (int)(10.0 / (once + 0.05)) + 1;
    for (int i = 0; i < TIMES; i++) {
        if (!p->memory->time(p->stream, work, p, times + i, &error)) stop(&error);
        times[i] /= p->repeats;
    }
    qsort(times, TIMES, sizeof *times, ole_by_rising_double);
    return times[TIMES / 2];
}

static problem make_problem(const ole_cuda_memory_table *memory, const int64_t shape[3]) {
    problem p = {.memory = memory, .n = shape[0], .d = shape[1], .c = shape[2]};
    size_t count = (size_t)(p.n * p.d);
    ole_error error;
    p.wide = malloc(count * sizeof *p.wide);
    p.x = malloc(count * sizeof *p.x);
    p.labels = malloc((size_t)p.n * sizeof *p.labels);
    test_random random = {7};
    case_labels(p.labels, p.n, p.c, NULL);
    case_fill(CASE_RELU, p.wide, p.labels, p.n, p.d, &random);
    case_round(p.x, p.wide, (int64_t)count);
    ole_loss_options options;
    ole_loss_options_init(&options);
    options.device = OLE_DEVICE_CUDA;
    if (ole_loss_plan_create(&p.plan, p.n, p.d, OLE_F32, &options, &error) != OLE_OK) stop(&error);
    p.batch = (ole_loss_batch){.rows = p.n,
                               .features = device_copy(&p, p.x, count * sizeof *p.x),
                               .labels = device_copy(&p, p.labels, (size_t)p.n * sizeof *p.labels),
                               .label_type = OLE_I64};
    p.gradient =
        (ole_loss_gradient){.data = device_copy(&p, NULL, count * sizeof *p.x), .upstream = 1.0};
    p.outcome = device_copy(&p, NULL, sizeof *p.outcome);
    p.stream = memory->stream(&error);
    if (!p.stream || !memory->capture(p.stream, &error)) stop(&error);
    queue_once(&p);
    p.graph = memory->captured(p.stream, &error);
    if (!p.graph) stop(&error);
    return p;
}

static void free_problem(problem *p) {
    p->memory->close_graph(p->graph);
    p->memory->close_stream(p->stream);
    p->memory->release((void *)(uintptr_t)p->batch.features);
    p->memory->release((void *)(uintptr_t)p->batch.labels);
    p->memory->release(p->gradient.data);
    p->memory->release(p->outcome);
    ole_loss_plan_destroy(p->plan);
    free(p->wide);
    free(p->x);
    free(p->labels);
}

/* Of what the last run left on the GPU. */
static void find_errors(const problem *p, line *l) {
    ole_loss_outcome got;
    ole_loss_options options;
    ole_error error;
    ole_loss_options_init(&options);
    if (!p->memory->copy_out(&got, p->outcome, sizeof got, &error) ||
        !p->memory->copy_out(p->x, p->gradient.data, (size_t)(p->n * p->d) * sizeof *p->x, &error))
        stop(&error);
    reference_loss want = reference_evaluate(p->wide, p->labels, p->n, p->d, &options, true);
    double n = (double)p->n, square = 0.0;
    for (int64_t i = 0; i < p->n * p->d; i++) {
        double e = p->x[i] * n - want.gradient[i];
        square += e * e;
    }
    l->value = fabs(got.value * n - (want.class_term - want.global_norm)) / want.sum_of_norms;
    l->gradient = sqrt(square / n);
    free(want.gradient);
}

static line measure(problem *p) {
    line l = {.value = -1.0, .gradient = -1.0, .bytes = (double)ole_loss_plan_bytes(p->plan)};
    l.queued = time_of(p, queue_some);
    l.replayed = time_of(p, replay_some);
    if (p->n * p->d <= ELEMENTS_CHECKED) find_errors(p, &l);
    return l;
}

static void print_line(const problem *p, const line *l) {
    printf("%4" PRId64 " %5" PRId64 " %5" PRId64 " %10.4f %10.4f", p->n, p->d, p->c, l->queued,
           l->replayed);
    if (l->value < 0.0)
        printf("        -        -");
    else
        printf("  %7.1e  %7.1e", l->value, l->gradient);
    printf(" %9.2f\n", l->bytes / 1048576.0);
    fflush(stdout);
}

static void print_json(const problem *p, const line *l) {
    ole_json json;
    ole_json_init(&json, stdout, 0);
    ole_json_open(&json, NULL, '{');
    ole_json_integer(&json, "n", p->n);
    ole_json_integer(&json, "d", p->d);
    ole_json_integer(&json, "classes", p->c);
    ole_json_number(&json, "queued_ms", l->queued);
    ole_json_number(&json, "replayed_ms", l->replayed);
    if (l->value >= 0.0) {
        ole_json_number(&json, "value_error", l->value);
        ole_json_number(&json, "gradient_error", l->gradient);
    }
    ole_json_number(&json, "plan_bytes", l->bytes);
    ole_json_close(&json);
    fflush(stdout);
}

int main(int argc, char **argv) {
    bool as_json = argc > 1 && strcmp(argv[1], "--json") == 0;
    if (argc > 1 && !as_json) {
        fprintf(stderr, "usage: bench_loss_cuda [--json]\n");
        return 2;
    }
    ole_error error;
    const void *memory, *device;
    ole_cuda_gpu gpu;
    if (ole_cuda_module_check(&error) != OLE_OK ||
        ole_cuda_module_table("ole_cuda_memory", &memory, &error) != OLE_OK ||
        ole_cuda_module_table("ole_cuda_device", &device, &error) != OLE_OK ||
        ((const ole_cuda_device_table *)device)->describe(0, &gpu, &error) != OLE_OK)
        stop(&error);
    if (!as_json) {
        printf("%s, %d multiprocessors; float32 features, gradient included\n\n", gpu.name,
               gpu.multiprocessors);
        printf("   N     D     C  queued ms   graph ms    value gradient  plan MiB\n");
    }
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        problem p = make_problem(memory, shapes[i]);
        line l = measure(&p);
        if (as_json)
            print_json(&p, &l);
        else
            print_line(&p, &l);
        free_problem(&p);
    }
    return 0;
}
