/*
 * src/loss/criteria/triplet.c - triplet loss on unit rows, d = ‖u_i − u_j‖, with triplets mined
 * from the batch:
 *
 *     value = mean of max(0, d(a, p) − d(a, n) + margin)
 *
 * hard (Hermans, Beyer, Leibe: In Defense of the Triplet Loss, 2017): each anchor with its farthest
 * positive and its nearest negative.  semi-hard (Schroff, Kalenichenko, Philbin: FaceNet, CVPR
 * 2015): all triplets with d(a, p) < d(a, n) < d(a, p) + margin.
 */
#include "loss/criteria/criterion.h"

#include <math.h>

enum { HARD, SEMI_HARD };

/* Each pair's derivative counts triplets; the caller divides by their number. */
static double mine_hard(ole_criterion_call *c, double margin, int64_t *triplets) {
    int64_t n = c->rows;
    double sum = 0.0;
    for (int64_t a = 0; a < n; a++) {
        const double *d = c->square[0] + a * n;
        int64_t far = -1, near = -1;
        for (int64_t i = 0; i < n; i++) {
            if (i == a) continue;
            if (c->labels[i] != c->labels[a])
                near = near < 0 || d[i] < d[near] ? i : near;
            else
                far = far < 0 || d[i] > d[far] ? i : far;
        }
        if (far < 0 || near < 0) continue;
        ++*triplets;
        double loss = d[far] - d[near] + margin;
        if (loss <= 0.0) continue;
        sum += loss;
        c->square[1][a * n + far] += 1.0;
        c->square[1][a * n + near] -= 1.0;
    }
    return sum;
}

static double mine_semi_hard(ole_criterion_call *c, double margin, int64_t *triplets) {
    int64_t n = c->rows;
    double sum = 0.0;
    for (int64_t k = 0; k < c->present; k++)
        for (int64_t a = c->start[k]; a < c->start[k + 1]; a++)
            for (int64_t p = c->start[k]; p < c->start[k + 1]; p++) {
                const double *d = c->square[0] + a * n;
                for (int64_t i = 0; i < n && p != a; i++) {
                    bool negative = i < c->start[k] || i >= c->start[k + 1];
                    if (!negative || d[i] <= d[p] || d[i] >= d[p] + margin) continue;
                    ++*triplets;
                    sum += d[p] - d[i] + margin;
                    c->square[1][a * n + p] += 1.0;
                    c->square[1][a * n + i] -= 1.0;
                }
            }
    return sum;
}

static bool eval(ole_criterion_call *c, double *value) {
    int64_t triplets = 0;
    ole_criterion_distances(c);
    double sum = c->param[1] == HARD ? mine_hard(c, c->param[0], &triplets)
                                     : mine_semi_hard(c, c->param[0], &triplets);
    for (int64_t i = 0; i < c->rows * c->rows && triplets > 0; i++)
        c->square[1][i] /= (double)triplets;
    ole_criterion_distances_backward(c);
    *value = triplets > 0 ? sum / (double)triplets : 0.0;
    return true;
}

const ole_criterion ole_triplet = {
    .name = "triplet",
    .title = "triplet loss",
    .traits = OLE_CRITERION_BESIDE | OLE_CRITERION_ALONE,
    .weight = 0.3,
    .param = {{.name = "margin", .initial = 0.2, .min = 0.0, .max = 2.0},
              {.name = "mining",
               .initial = 0.0,
               .min = 0.0,
               .max = 1.0,
               .whole = true,
               .words = "hard|semi-hard"}},
    .weight_grid = {0.03, 0.1, 0.3, 1.0, 3.0},
    .tuned = "margin",
    .grid = {0.1, 0.2, 0.3, 0.5, 1.0},
    .eval = eval,
};
