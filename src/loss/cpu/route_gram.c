/*
 * src/loss/cpu/route_gram.c - the loss of float32 features through float64 Gram matrices.
 *
 * With N <= D everything shares G = X X^T: the rows are sorted by class, so the Gram matrix of
 * class c is a diagonal block of G.  With K = (X X^T)^(-1/2) over the kept directions and K_c the
 * same of class c, direction = (blockdiag(K_c) - K) X is one product.
 *
 * With N > D the whole is decomposed through X^T X, [D, D]: direction = blockdiag(K_c) X - X K.
 *
 * The classes are solved beside the whole, each by one thread; classes too large for that follow
 * one by one, threaded inside.
 *
 * Whether threads pay for a batch of middle size depends on the machine: what one core has written
 * must move to another, and that costs little inside one cache and much between two.  The bits are
 * the same either way, so such batches are timed with one thread and with all, and the faster way
 * is taken.
 */
#include "loss/route.h"

#include "base/clock.h"
#include "base/min_max.h"
#include "linalg/eigen.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

/* Multiplications under which threads cost more than they save, about half a millisecond's worth,
 * and over which they always pay. */
static const double SERIAL_WORK = 2e7, THREADED_WORK = 1e9;

/* Of every so many calls two are made with all threads and two with one, and timed. */
enum { PACE_PERIOD = 64, PACE_TIMED = 2 };

void ole_route_gram_lay_out(ole_route_gram *route, ole_arena *arena, int64_t max_rows, int64_t dim,
                            int threads) {
    int64_t m = ole_min(max_rows, dim), k = max_rows + dim - m;
    route->rows = ole_arena_take(arena, max_rows * dim, sizeof(double));
    route->small = ole_arena_take(arena, threads, sizeof *route->small);
    route->gram = ole_arena_take(arena, m * m, sizeof(double));
    route->root = ole_arena_take(arena, m * m, sizeof(double));
    route->direction = ole_arena_take(arena, max_rows * dim, sizeof(double));
    ole_spectrum_lay_out(&route->whole, arena, m, k);
    for (int t = 0; t < threads; t++) {
        ole_spectrum_space counted;
        ole_spectrum_lay_out(route->small ? &route->small[t] : &counted, arena,
                             ole_min(m, OLE_SMALL_CLASS), k);
    }
}

/* A route at work on one batch. */
typedef struct gram_run {
    ole_route_gram *route;
    ole_route_job *job;
    bool shared; /* N <= D: classes take their Gram matrices from G */
    ole_spectrum whole;
    atomic_bool failed;
} gram_run;

/* Rows first to last-1 of X, the smaller side as items. */
static ole_operand block(const gram_run *run, int64_t first, int64_t last) {
    int64_t dim = run->job->dim;
    ole_operand rows = {run->route->rows + first * dim, OLE_F64, last - first, dim, dim, 1, false};
    return rows.items <= dim ? rows : ole_operand_transposed(rows);
}

static void copy_lower(double *to, int64_t ld_to, const double *from, int64_t ld_from, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        memcpy(to + i * ld_to, from + i * ld_from, (size_t)(i + 1) * sizeof *to);
}

/* G's diagonal block that begins at row `first`. */
static double *diagonal_block(const gram_run *run, int64_t first) {
    return run->route->gram + first * (run->job->groups->rows + 1);
}

/*
 * The part of class c in the direction: its root into G's block, or its polar factor into the
 * direction's rows; nothing where its norm is at or under the floor.
 */
static void place_class(gram_run *run, ole_pool *pool, int64_t first, const ole_operand *a,
                        bool active, const ole_spectrum *found, ole_spectrum_space *space) {
    int64_t dim = run->job->dim, rows = run->job->groups->rows, n = a->items;
    if (run->shared) {
        double *into = diagonal_block(run, first);
        if (active)
            ole_spectrum_inverse_root(pool, found, space, into, rows);
        else
            for (int64_t i = 0; i < n; i++)
                memset(into + i * rows, 0, (size_t)n * sizeof *into);
        return;
    }
    double *into = run->route->direction + first * dim;
    if (active) {
        int64_t ld = ole_eigen_pad(n);
        ole_spectrum_inverse_root(pool, found, space, space->square[1], ld);
        ole_product product = {.alpha = 1.0, .c = into, .ldc = dim};
        ole_spectrum_apply(pool, a, space->square[1], ld, space, &product);
    } else {
        int64_t count = a->transposed ? a->depth : a->items;
        memset(into, 0, (size_t)(count * dim) * sizeof *into);
    }
}

static void solve_class(gram_run *run, ole_pool *pool, int64_t c, ole_spectrum_space *space) {
    ole_route_job *job = run->job;
    int64_t first = job->groups->start[c], rows = job->groups->rows;
    ole_operand a = block(run, first, job->groups->start[c + 1]);
    if (run->shared)
        copy_lower(space->vectors, ole_eigen_pad(a.items), diagonal_block(run, first), rows,
                   a.items);
    ole_spectrum found;
    if (!ole_spectrum_of(pool, &a, run->shared, false, job->cut, space, &found)) {
        atomic_store(&run->failed, true);
        return;
    }
    job->classes[c].norm = found.norm;
    job->classes[c].rank = found.rank;
    if (job->want_direction)
        place_class(run, pool, first, &a, found.norm > job->floor, &found, space);
}

/* A class is small when one thread's space holds it. */
static bool is_small(const gram_run *run, int64_t c) {
    const ole_groups *groups = run->job->groups;
    return ole_min(groups->start[c + 1] - groups->start[c], run->job->dim) <= OLE_SMALL_CLASS;
}

/* Task 0 decomposes the whole, the others one small class each. */
static void solve_task(void *context, int64_t task, int worker) {
    gram_run *run = context;
    if (task > 0) {
        if (is_small(run, task - 1)) solve_class(run, NULL, task - 1, &run->route->small[worker]);
        return;
    }
    ole_operand a = block(run, 0, run->job->groups->rows);
    if (!ole_spectrum_of(NULL, &a, true, false, run->job->cut, &run->route->whole, &run->whole))
        atomic_store(&run->failed, true);
}

/* direction = (blockdiag(K_c) - K) X, the blocks K_c standing in G. */
static void direction_shared(gram_run *run) {
    ole_route_gram *route = run->route;
    const ole_groups *groups = run->job->groups;
    int64_t n = groups->rows, dim = run->job->dim;
    for (int64_t i = 0; i < n * n; i++)
        route->root[i] = -route->root[i];
    for (int64_t c = 0; c < groups->classes; c++) {
        int64_t first = groups->start[c], count = groups->start[c + 1] - first;
        const double *from = diagonal_block(run, first);
        double *to = route->root + first * (n + 1);
        for (int64_t i = 0; i < count; i++)
            for (int64_t j = 0; j < count; j++)
                to[i * n + j] += from[i * n + j];
    }
    ole_operand a = block(run, 0, n);
    ole_product product = {.alpha = 1.0, .c = route->direction, .ldc = dim};
    ole_spectrum_apply(run->job->pool, &a, route->root, n, &route->whole, &product);
}

/* direction -= X K. */
static void direction_apart(gram_run *run) {
    int64_t dim = run->job->dim;
    ole_operand a = block(run, 0, run->job->groups->rows);
    ole_product product = {-1.0, run->route->direction, dim, OLE_STORE_ADD, false};
    ole_spectrum_apply(run->job->pool, &a, run->route->root, dim, &run->route->whole, &product);
}

/* One class: it is the whole. Its pull cancels the whole's push unless the floor switches it off.
 */
static void finish_single(gram_run *run) {
    ole_route_job *job = run->job;
    job->classes[0].norm = run->whole.norm;
    job->classes[0].rank = run->whole.rank;
    size_t bytes = (size_t)(job->groups->rows * job->dim) * sizeof(double);
    memset(run->route->direction, 0, bytes);
    if (run->whole.norm > job->floor || !job->want_direction) return;
    ole_operand a = block(run, 0, job->groups->rows);
    ole_spectrum_inverse_root(job->pool, &run->whole, &run->route->whole, run->route->root,
                              a.items);
    ole_product product = {.alpha = -1.0, .c = run->route->direction, .ldc = job->dim};
    ole_spectrum_apply(job->pool, &a, run->route->root, a.items, &run->route->whole, &product);
}

/* About how many multiplications the batch takes: what decides whether threads pay. */
static double work_of(const ole_route_job *job) {
    double n = (double)job->groups->rows, d = (double)job->dim, m = fmin(n, d);
    return m * m * (3.0 * fmax(n, d) + 6.0 * m);
}

static bool run_batch(ole_route_gram *route, ole_route_job *job) {
    const ole_groups *groups = job->groups;
    gram_run run = {.route = route, .job = job, .shared = groups->rows <= job->dim};
    job->direction = route->direction;
    ole_operand a = block(&run, 0, groups->rows);
    int64_t m = a.items, pad = ole_eigen_pad(m);
    ole_gram(job->pool, &a, route->whole.panels, route->gram, m);
    copy_lower(route->whole.vectors, pad, route->gram, m, m);
    bool several = groups->classes > 1;
    ole_pool_run(job->pool, several ? groups->classes + 1 : 1, solve_task, &run);
    if (atomic_load(&run.failed)) return false;
    job->norm = run.whole.norm;
    job->rank = run.whole.rank;
    if (!several) {
        finish_single(&run);
        return true;
    }
    if (job->want_direction)
        ole_spectrum_inverse_root(job->pool, &run.whole, &route->whole, route->root, m);
    for (int64_t c = 0; c < groups->classes; c++)
        if (!is_small(&run, c)) solve_class(&run, job->pool, c, &route->whole);
    if (atomic_load(&run.failed)) return false;
    if (job->want_direction) (run.shared ? direction_shared : direction_apart)(&run);
    return true;
}

bool ole_route_gram_run(ole_route_gram *route, ole_route_job *job) {
    ole_route_pace *pace = &route->pace;
    double work = work_of(job);
    if (work < SERIAL_WORK) job->pool = NULL;
    if (!job->pool || work > THREADED_WORK) return run_batch(route, job);
    unsigned turn = pace->calls++ % PACE_PERIOD;
    bool timed = turn < 2 * PACE_TIMED;
    bool threaded = timed ? turn < PACE_TIMED : pace->cost[1] < pace->cost[0];
    if (!threaded) job->pool = NULL;
    double start = ole_clock();
    bool solved = run_batch(route, job);
    double cost = (ole_clock() - start) / work;
    /* The first of each is slower: the data lie with the other cores. */
    if (timed && (turn % PACE_TIMED == 0 || cost < pace->cost[threaded]))
        pace->cost[threaded] = cost;
    return solved;
}
