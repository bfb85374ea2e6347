/*
 * src/loss/ranks/ranks_cost.c - which route a batch takes, by a model of what each costs.
 *
 * The model knows the sizes of the batch and of the group, and three numbers of a usual cluster.
 * They are fixed rather than measured: a choice that hung on a measurement would differ between
 * ranks, and between runs of the same seed.  docs/maths.md explains the terms.
 */
#include "loss/ranks/ranks_parts.h"

#include <math.h>

static const double LATENCY = 2e-5;  /* seconds of one step of a collective */
static const double BANDWIDTH = 2e9; /* bytes a second into a rank */
static const double RATE = 1e10;     /* multiplications a second of one thread */
static const double LOOKS = 1.5;     /* at a matrix: every other one needs a second */

/* Less than this share of the time is worth giving up the bits of one place. */
static const double WORTH = 0.8;

static double steps(const ole_ranks_loss_shape *s) {
    return ceil(log2((double)s->ranks));
}

/* `bytes` in all from the ranks, on every rank. */
static double gather(const ole_ranks_loss_shape *s, double bytes) {
    double others = (double)(s->ranks - 1) / s->ranks;
    return steps(s) * LATENCY + others * bytes / BANDWIDTH;
}

/* `bytes` of each rank summed: as much there and back. */
static double sum(const ole_ranks_loss_shape *s, double bytes) {
    return 2.0 * gather(s, bytes);
}

/* Gram matrix and eigenproblem; for each look after the first, rows and Gram matrix of weak ones.
 */
double ole_ranks_loss_work(int64_t n, int64_t dim) {
    double m = (double)(n < dim ? n : dim), k = (double)(n < dim ? dim : n);
    return m * m * (0.5 * k + 1.5 * (LOOKS - 1.0) * k + 6.0 * LOOKS * m);
}

/* What the sums over the classes of `low` < rows <= `high` are made of. */
typedef struct class_sums {
    double count, rows;
    double work;  /* of the decompositions */
    double apply; /* of the products with the rows */
    double roots; /* bytes of the inverse roots */
} class_sums;

static class_sums add_up(const ole_ranks_loss_shape *s, int64_t low, int64_t high) {
    class_sums sums = {0};
    for (int64_t c = 0; c < s->classes; c++) {
        int64_t n = s->start[c + 1] - s->start[c];
        if (n <= low || n > high) continue;
        double m = (double)(n < s->dim ? n : s->dim);
        sums.count++;
        sums.rows += (double)n;
        sums.work += ole_ranks_loss_work(n, s->dim);
        sums.apply += (double)n * m * (double)s->dim;
        sums.roots += 4.0 * m * m;
    }
    return sums;
}

/* All rows are gathered: everything on every rank, or a share of the matrices on each. */
static double seconds_gathered(const ole_ranks_loss_shape *s, bool split) {
    class_sums all = add_up(s, 0, s->rows);
    double n = (double)s->rows, d = (double)s->dim, m = fmin(n, d), ranks = s->ranks;
    double whole = ole_ranks_loss_work(s->rows, s->dim), rate = RATE * s->threads;
    double moved = gather(s, 4.0 * n * d);
    double solve = whole + all.work, apply = n * m * d + all.apply;
    if (!split) return moved + (solve + apply) / rate;
    moved += gather(s, 4.0 * m * m + all.roots);
    return moved + (fmax(whole, solve / ranks) + apply / ranks) / rate;
}

/* The large matrices go together, at_once of them, each to a rank of its own. */
static double seconds_gram(const ole_ranks_loss_shape *s) {
    class_sums large = add_up(s, s->dim, s->rows), small = add_up(s, 0, s->dim);
    double d = (double)s->dim, ranks = s->ranks, rate = RATE * s->threads;
    double matrices = 1.0 + large.count, rounds = ceil(matrices / s->at_once);
    double here = ((double)s->rows + large.rows) / ranks, together = matrices / rounds;
    double moved = sum(s, 4.0 * d * d * together) + gather(s, 8.0 * d * d * together);
    double seconds = LOOKS * rounds * (moved + 6.0 * d * d * d / rate);
    seconds += here * d * d * (0.5 + 1.5 * (LOOKS - 1.0) + 2.0) / rate;
    if (small.count == 0.0) return seconds;
    seconds += gather(s, 4.0 * small.rows * d) + gather(s, small.roots);
    return seconds + (small.work + small.apply) / (ranks * rate);
}

double ole_ranks_loss_seconds(ole_ranks_loss_route route, const ole_ranks_loss_shape *shape) {
    if (route == OLE_RANKS_LOSS_GRAM) return seconds_gram(shape);
    return seconds_gathered(shape, route == OLE_RANKS_LOSS_SPLIT);
}

ole_ranks_loss_route ole_ranks_loss_choose(const ole_ranks_loss *loss) {
    const ole_groups *groups = &loss->groups;
    ole_ranks_loss_shape shape = {
        .rows = groups->rows,
        .dim = loss->dim,
        .classes = groups->classes,
        .start = groups->start,
        .ranks = ole_ranks_size(loss->ranks),
        .threads = loss->threads,
        .at_once = loss->spectra.most,
    };
    bool open[] = {
        [OLE_RANKS_LOSS_EVERYWHERE] = groups->rows <= loss->max_everywhere,
        [OLE_RANKS_LOSS_SPLIT] = groups->rows <= loss->max_split,
        [OLE_RANKS_LOSS_GRAM] = groups->rows > loss->dim && groups->rows <= loss->max_gram,
    };
    ole_ranks_loss_route best = OLE_RANKS_LOSS_AUTO;
    double least = INFINITY;
    for (int route = OLE_RANKS_LOSS_EVERYWHERE; route <= OLE_RANKS_LOSS_GRAM; route++) {
        double seconds =
            open[route] ? ole_ranks_loss_seconds((ole_ranks_loss_route)route, &shape) : 0.0;
        if (!open[route] || seconds >= least) continue;
        least = route == OLE_RANKS_LOSS_EVERYWHERE ? WORTH * seconds : seconds;
        best = (ole_ranks_loss_route)route;
    }
    return best;
}
