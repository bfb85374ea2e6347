/*
 * bench/bench_tsne.c - how the time of t-SNE grows with the rows:
 *
 *     ./dev bench tsne
 *
 * Ten normal clusters in 50 dimensions; the neighbours by themselves, and a step in the middle of
 * the descent, on all processors.  bench/peer_tsne.py puts scikit-learn beside it on real data.
 */
#include "ole/tsne.h"
#include "random.h"

#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { DIM = 50, CLUSTERS = 10, STEPS = 300, FROM = 100 };

static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
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

typedef struct times {
    double map, from, end; /* when the map began, after FROM steps, after the last one */
} times;

static bool note(void *context, const ole_tsne_progress *p) {
    times *t = context;
    if (strcmp(p->stage, "map") != 0) return false;
    double now = seconds();
    if (p->iteration == 0) t->map = now;
    if (p->iteration == FROM) t->from = now;
    t->end = now;
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
    printf("%d threads\n%8s  %14s  %10s  %s\n", o.threads, "rows", "neighbours, s", "step, ms",
           "a doubling of the rows takes");
    double before = 0.0;
    for (int64_t rows = 1250; rows <= 40000; rows *= 2) {
        float *x = clusters(rows);
        double *map = malloc((size_t)(2 * rows) * sizeof *map), start = seconds();
        ole_error error = {0};
        if (!x || !map || ole_tsne(rows, DIM, OLE_F32, x, &o, map, NULL, &error) != OLE_OK) {
            fprintf(stderr, "bench_tsne: %s\n", x && map ? error.message : "out of memory");
            return 1;
        }
        double step = (t.end - t.from) / (STEPS - FROM);
        printf("%8ld  %14.2f  %10.2f", (long)rows, t.map - start, 1e3 * step);
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
