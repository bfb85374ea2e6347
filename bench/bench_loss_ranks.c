/*
 * bench/bench_loss_ranks.c - times each route of the loss over ranks beside the same batch on one
 * rank, and prints what the cost model of docs/maths.md predicts for a cluster.
 *
 *     build/bench/bench_loss_ranks            a table for 2 and 4 ranks
 *     build/bench/bench_loss_ranks 8          for 8 ranks
 *
 * Ranks are threads of this process, so there is no network, and with fewer cores than ranks they
 * wait for each other.  The features resemble those of a network in mid-training.
 */
#include "base/clock.h"
#include "cases.h"
#include "loss/ranks/ranks_parts.h"
#include "thread_ranks.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { REPEATS = 5, MOST_RANKS = 64 };

typedef struct problem {
    int64_t rows, dim, classes;
    float *features, *gradient;
    int64_t *labels;
} problem;

typedef struct rank_job {
    const problem *batch;
    ole_ranks *ranks;
    ole_ranks_loss_route route;
    int number;
    double seconds;             /* the quickest, of rank 0 */
    ole_ranks_loss_route taken; /* ... */
    ole_status status;
    ole_error error;
} rank_job;

static problem make(int64_t rows, int64_t dim, int64_t classes) {
    problem p = {rows, dim, classes, NULL, NULL, NULL};
    size_t count = (size_t)(rows * dim);
    double *x = malloc(count * sizeof *x);
    p.features = malloc(count * sizeof *p.features);
    p.gradient = malloc(count * sizeof *p.gradient);
    p.labels = malloc((size_t)rows * sizeof *p.labels);
    if (!x || !p.features || !p.gradient || !p.labels) exit(1);
    test_random random = {1};
    case_labels(p.labels, rows, classes, NULL);
    case_fill(CASE_RELU, x, p.labels, rows, dim, &random);
    case_round(p.features, x, (int64_t)count);
    free(x);
    return p;
}

static void drop(problem *p) {
    free(p->features);
    free(p->gradient);
    free(p->labels);
}

static void *be_a_rank(void *context) {
    rank_job *me = context;
    const problem *p = me->batch;
    int64_t first = ole_ranks_first(me->ranks, p->rows, me->number);
    int64_t count = ole_ranks_first(me->ranks, p->rows, me->number + 1) - first;
    ole_loss_batch mine = {count, p->features + first * p->dim, 0, p->labels + first, OLE_I64};
    ole_loss_gradient gradient = {p->gradient + first * p->dim, 0, 1.0, false};
    ole_ranks_loss *loss;
    me->status =
        ole_ranks_loss_create(&loss, me->ranks, count, p->dim, NULL, me->route, &me->error);
    me->seconds = 1e30;
    for (int i = 0; i < REPEATS && me->status == OLE_OK; i++) {
        ole_ranks_barrier(me->ranks);
        double start = ole_clock();
        ole_loss_result result = {0};
        me->status = ole_ranks_loss_eval(loss, &mine, &gradient, &result, &me->error);
        double seconds = ole_clock() - start;
        if (seconds < me->seconds) me->seconds = seconds;
    }
    if (loss) me->taken = ole_ranks_loss_taken(loss);
    ole_ranks_loss_destroy(loss);
    return NULL;
}

/* The quickest evaluation on `size` ranks; *taken says by which route. */
static double measure(const problem *p, int size, ole_ranks_loss_route route,
                      ole_ranks_loss_route *taken) {
    ole_ranks *groups[MOST_RANKS];
    pthread_t threads[MOST_RANKS];
    rank_job jobs[MOST_RANKS];
    ole_error error;
    if (thread_ranks(groups, size, &error) != OLE_OK) {
        fprintf(stderr, "%s\n", error.message);
        exit(1);
    }
    for (int r = 0; r < size; r++) {
        jobs[r] = (rank_job){.batch = p, .ranks = groups[r], .route = route, .number = r};
        if (pthread_create(&threads[r], NULL, be_a_rank, &jobs[r]) != 0) exit(1);
    }
    for (int r = 0; r < size; r++)
        pthread_join(threads[r], NULL);
    for (int r = 0; r < size; r++)
        ole_ranks_close(groups[r]);
    if (jobs[0].status != OLE_OK) {
        fprintf(stderr, "%s\n", jobs[0].error.message);
        exit(1);
    }
    *taken = jobs[0].taken;
    return jobs[0].seconds;
}

static double model(const problem *p, int size, ole_ranks_loss_route route) {
    int64_t *start = malloc((size_t)(p->classes + 1) * sizeof *start);
    if (!start) exit(1);
    for (int64_t c = 0; c <= p->classes; c++)
        start[c] = p->rows * c / p->classes;
    ole_ranks_loss_shape shape = {p->rows, p->dim, p->classes, start, size, 1, size < 8 ? size : 8};
    double seconds = ole_ranks_loss_seconds(route, &shape);
    free(start);
    return seconds;
}

static void print_row(const problem *p, int size) {
    static const char *const names[] = {"auto", "everywhere", "split", "gram"};
    ole_ranks_loss_route taken;
    double alone = measure(p, 1, OLE_RANKS_LOSS_EVERYWHERE, &taken);
    printf("%6lld %5lld %4lld %3d %9.2f", (long long)p->rows, (long long)p->dim,
           (long long)p->classes, size, 1e3 * alone);
    for (int route = OLE_RANKS_LOSS_EVERYWHERE; route <= OLE_RANKS_LOSS_GRAM; route++) {
        if (route == OLE_RANKS_LOSS_GRAM && p->rows <= p->dim) {
            printf("  %17s", "-");
            continue;
        }
        double seconds = measure(p, size, (ole_ranks_loss_route)route, &taken);
        printf("  %8.2f %8.2f", 1e3 * seconds, 1e3 * model(p, size, (ole_ranks_loss_route)route));
    }
    measure(p, size, OLE_RANKS_LOSS_AUTO, &taken);
    printf("  %s\n", names[taken]);
}

int main(int argc, char **argv) {
    static const int64_t shapes[][3] = {{128, 64, 10},   {128, 512, 10}, {512, 512, 10},
                                        {1024, 512, 10}, {4096, 64, 10}, {2048, 128, 100}};
    int given = argc > 1 ? atoi(argv[1]) : 0;
    if (argc > 1 && (given < 1 || given > MOST_RANKS)) {
        fprintf(stderr, "usage: bench_loss_ranks [ranks, 1 to %d]\n", MOST_RANKS);
        return 2;
    }
    printf("%6s %5s %4s %3s %9s  %17s  %17s  %17s  %s\n", "rows", "dim", "C", "P", "one place",
           "everywhere, model", "split, model", "gram, model", "taken (ms)");
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
        problem p = make(shapes[s][0], shapes[s][1], shapes[s][2]);
        for (int size = given ? given : 2; size <= (given ? given : 4); size *= 2)
            print_row(&p, size);
        drop(&p);
    }
    return 0;
}
