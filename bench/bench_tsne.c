/*
 * bench/bench_tsne.c - measures how the time of t-SNE grows with the number of rows:
 *
 *     ./dev bench tsne
 *
 * Ten normal clusters in 50 dimensions: the neighbour search alone, and a step in the middle of the
 * descent, on all processors.  CPU time is printed beside wall time, because it says more on a
 * shared machine.  bench/peer_tsne.py compares with scikit-learn.
 */
#include "base/clock.h"
#include "ole/tsne.h"
#include "random.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DIM = 50, CLUSTERS = 10, STEPS = 300, FROM = 100 };

/* CPU seconds of all threads of the process. */
static double processor_seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int processors(void) {
    cpu_set_t allowed;
    return sched_getaffinity(0, sizeof allowed, &allowed) == 0 ? CPU_COUNT(&allowed) : 1;
}

static float *clusters(int64_t rows) {
    float *x = malloc((size_t)(rows * DIM) * sizeof *x);
    test_random r = {1};
    for (int64_t i = 0; x && i < rows * DIM; i++)
        x[i] = (float)(random_normal(&r) + (i % DIM == i / DIM % CLUSTERS ? 4.0 : 0.0));
    return x;
}

/* By the clock and of the processors: the start, the map's begin, after FROM steps, the end. */
typedef struct moment {
    double clock, cpu;
} moment;

typedef struct times {
    moment start, map, from, end;
} times;

static moment now(void) {
    return (moment){ole_clock(), processor_seconds()};
}

static bool note(void *context, const ole_tsne_progress *p) {
    times *t = context;
    if (strcmp(p->stage, "map") != 0) return false;
    t->end = now();
    if (p->iteration == 0) t->map = t->end;
    if (p->iteration == FROM) t->from = t->end;
    return false;
}

int main(void) {
    ole_tsne_options o;
    ole_tsne_options_init(&o);
    times t = {0};
    o.threads = processors();
    o.iterations = STEPS;
    o.exaggerated = FROM;
    o.every = FROM;
    o.callback = note;
    o.callback_context = &t;
    printf("%d threads\n%8s  %25s  %25s\n%8s  %12s %12s  %12s %12s  %s\n", o.threads, "",
           "neighbours, s", "ms per step", "rows", "clock", "processors", "clock", "processors",
           "processors, twice the rows");
    double before = 0.0;
    for (int64_t rows = 1250; rows <= 40000; rows *= 2) {
        float *x = clusters(rows);
        double *map = malloc((size_t)(2 * rows) * sizeof *map);
        ole_error error = {0};
        t.start = now();
        if (!x || !map || ole_tsne(rows, DIM, OLE_F32, x, &o, map, NULL, &error) != OLE_OK) {
            fprintf(stderr, "bench_tsne: %s\n", x && map ? error.message : "out of memory");
            return 1;
        }
        double step = (t.end.cpu - t.from.cpu) / (STEPS - FROM);
        printf("%8ld  %12.2f %12.2f  %12.2f %12.2f", (long)rows, t.map.clock - t.start.clock,
               t.map.cpu - t.start.cpu, 1e3 * (t.end.clock - t.from.clock) / (STEPS - FROM),
               1e3 * step);
        if (before > 0.0)
            printf("  %.2f times as long\n", step / before);
        else
            printf("\n");
        before = step;
        free(x);
        free(map);
    }
    return 0;
}
