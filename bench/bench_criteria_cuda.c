/*
 * bench/bench_criteria_cuda.c - times the criteria and their gradients on a GPU:
 *
 *     build/bench/bench_criteria_cuda
 *
 * For each shape and criterion, with its default options, it prints the median GPU time (between
 * events) of replays of a graph of one evaluation, and the host's time for the same.
 */
#include "base/clock.h"
#include "base/cuda_module.h"
#include "base/sort.h"
#include "loss/criteria/criterion.h"
#include "loss/criteria/cuda.h"
#include "random.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static const int64_t shapes[][3] = {{64, 512, 10}, {64, 512, 100}, {128, 512, 10}, {256, 512, 100}};

enum { TIMES = 31, REPEATS = 20, HOST_TIMES = 5 };

typedef struct problem {
    const ole_cuda_memory_table *memory;
    const ole_cuda_criterion_table *table;
    int64_t rows, dim, classes;
    double *x, *w, *b, *centers, *dx, *dw, *db;
    int32_t *labels;
    ole_criterion_queued in; /* device memory, like the next two */
    ole_criterion_slopes out;
    ole_criterion_outcome *outcome;
    void *stream;
    ole_cuda_graph *graph;
} problem;

static void stop(const ole_error *error) {
    fprintf(stderr, "bench_criteria_cuda: %s\n", error->message);
    exit(1);
}

static void *sent(const problem *p, const void *from, int64_t count, size_t size) {
    ole_error error;
    void *to = p->memory->allocate((size_t)count * size, &error);
    if (!to || (from && !p->memory->copy_in(to, from, (size_t)count * size, &error))) stop(&error);
    return to;
}

/* Random normal numbers on the host, as floats on the GPU. */
static double *draw(const problem *p, int64_t count, test_random *random, const float **device) {
    double *wide = malloc((size_t)count * sizeof *wide);
    float *narrow = malloc((size_t)count * sizeof *narrow);
    for (int64_t i = 0; i < count; i++)
        wide[i] = (double)(narrow[i] = (float)random_normal(random));
    *device = sent(p, narrow, count, sizeof *narrow);
    free(narrow);
    return wide;
}

static void make_problem(problem *p, const int64_t shape[3]) {
    test_random random = {3};
    uint64_t step = 100;
    p->rows = shape[0];
    p->dim = shape[1];
    p->classes = shape[2];
    int64_t features = p->rows * p->dim, vectors = p->classes * p->dim;
    p->x = draw(p, features, &random, &p->in.x);
    p->w = draw(p, vectors, &random, &p->in.w);
    p->b = draw(p, p->classes, &random, &p->in.b);
    p->labels = malloc((size_t)p->rows * sizeof *p->labels);
    for (int64_t i = 0; i < p->rows; i++)
        p->labels[i] = (int32_t)(i % p->classes);
    p->centers = calloc((size_t)vectors, sizeof *p->centers);
    p->dx = malloc((size_t)features * sizeof *p->dx);
    p->dw = malloc((size_t)vectors * sizeof *p->dw);
    p->db = malloc((size_t)p->classes * sizeof *p->db);
    p->in.rows = p->rows;
    p->in.step = sent(p, &step, 1, sizeof step);
    p->in.labels = sent(p, p->labels, p->rows, sizeof *p->labels);
    p->in.centers = sent(p, p->centers, vectors, sizeof *p->centers);
    p->out = (ole_criterion_slopes){.dtype = OLE_F32,
                                    .weight = 1.0,
                                    .dx = sent(p, NULL, features, sizeof(float)),
                                    .dw = sent(p, NULL, vectors, sizeof(float)),
                                    .db = sent(p, NULL, p->classes, sizeof(float))};
    p->outcome = sent(p, NULL, 1, sizeof *p->outcome);
}

static void free_problem(problem *p) {
    const void *device[] = {p->in.x,       p->in.w,   p->in.b,   p->in.step, p->in.labels,
                            p->in.centers, p->out.dx, p->out.dw, p->out.db,  p->outcome};
    void *host[] = {p->x, p->w, p->b, p->labels, p->centers, p->dx, p->dw, p->db};
    for (size_t i = 0; i < sizeof device / sizeof *device; i++)
        p->memory->release((void *)(uintptr_t)device[i]);
    for (size_t i = 0; i < sizeof host / sizeof *host; i++)
        free(host[i]);
}

static void replay_some(void *context) {
    const problem *p = context;
    ole_error error;
    for (int i = 0; i < REPEATS; i++)
        if (!p->memory->replay(p->graph, p->stream, &error)) stop(&error);
}

static double median(double *times, int count) {
    qsort(times, (size_t)count, sizeof *times, ole_by_rising_double);
    return times[count / 2];
}

/* Milliseconds on the GPU. */
static double time_gpu(problem *p, const ole_criterion_plan_options *options) {
    ole_cuda_criterion *plan;
    ole_error error;
    double times[TIMES];
    if (p->table->create(&plan, options, 0, &error) != OLE_OK) stop(&error);
    p->stream = p->memory->stream(&error);
    if (!p->stream) stop(&error);
    for (int i = 0; i < 2; i++) { /* once before it is recorded */
        if (i == 1 && !p->memory->capture(p->stream, &error)) stop(&error);
        if (p->table->queue(plan, &p->in, &p->out, p->outcome, p->stream, &error) != OLE_OK)
            stop(&error);
        if (i == 0 && !p->memory->wait(p->stream, &error)) stop(&error);
    }
    p->graph = p->memory->captured(p->stream, &error);
    if (!p->graph) stop(&error);
    for (int i = -3; i < TIMES; i++)
        if (!p->memory->time(p->stream, replay_some, p, &times[i < 0 ? 0 : i], &error))
            stop(&error);
    p->memory->close_graph(p->graph);
    p->memory->close_stream(p->stream);
    p->table->destroy(plan);
    return median(times, TIMES) / REPEATS;
}

/* Milliseconds on the host. */
static double time_host(const problem *p, const ole_criterion_plan_options *options) {
    const ole_criterion_batch batch = {.rows = p->rows,
                                       .step = 100,
                                       .x = p->x,
                                       .labels = p->labels,
                                       .w = p->w,
                                       .b = p->b,
                                       .centers = p->centers};
    ole_criterion_result result = {.dx = p->dx, .dw = p->dw, .db = p->db};
    ole_criterion_plan *plan;
    ole_error error;
    double times[HOST_TIMES];
    if (ole_criterion_plan_create(&plan, options, &error) != OLE_OK) stop(&error);
    for (int i = -1; i < HOST_TIMES; i++) {
        double start = ole_clock();
        if (ole_criterion_eval(plan, &batch, &result, &error) != OLE_OK) stop(&error);
        times[i < 0 ? 0 : i] = 1e3 * (ole_clock() - start);
    }
    ole_criterion_plan_free(plan);
    return median(times, HOST_TIMES);
}

int main(void) {
    ole_error error;
    const void *memory, *table;
    if (ole_cuda_module_check(&error) != OLE_OK ||
        ole_cuda_module_table("ole_cuda_memory", &memory, &error) != OLE_OK ||
        ole_cuda_module_table("ole_cuda_criterion", &table, &error) != OLE_OK)
        stop(&error);
    printf("  N     D     C  loss           GPU ms   host ms\n");
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
        problem p = {.memory = memory, .table = table};
        make_problem(&p, shapes[s]);
        for (int i = 0; ole_criterion_at(i); i++) {
            ole_criterion_plan_options options = {.criterion = ole_criterion_at(i),
                                                  .rows = p.rows,
                                                  .dim = p.dim,
                                                  .classes = p.classes};
            ole_criterion_defaults(options.criterion, options.param);
            printf("%3" PRId64 " %5" PRId64 " %5" PRId64 "  %-11s %9.4f %9.3f\n", p.rows, p.dim,
                   p.classes, options.criterion->name, time_gpu(&p, &options),
                   time_host(&p, &options));
            fflush(stdout);
        }
        free_problem(&p);
    }
    return 0;
}
