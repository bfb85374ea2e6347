/*
 * src/tsne/tsne_map.c - one iteration of t-SNE: a tree over the points, the forces on them, a
 * step with momentum and gains.
 *
 * Points and steps are float64; forces are float32, which is more than the tree gives.  Loops are
 * cut by the number of points alone, and Q's sum runs over groups in their order, so the bits do
 * not depend on the threads.
 */
#include "tsne/tsne_map.h"

#include "base/arena.h"
#include "base/error.h"
#include "tsne/tsne_tree.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    POINTS_A_BLOCK = 1024, /* of a step */
    POINTS_A_WALK = 256,   /* of repulsion: some groups */
    ROWS_A_PULL = 256,     /* of attraction */
};

/* What one block of a step leaves behind: where its points are. */
typedef struct block {
    double sum[2];
    float low[2], high[2];
} block;

struct ole_tsne_map {
    ole_pool *pool;
    const ole_affinity *affinity;
    const ole_tsne_kernels *kernels;
    int64_t rows, blocks, walks, pulls;
    ole_tsne_forest forest;
    double entropy; /* sum p log p */
    double *y;      /* [rows, 2] */
    double *shown;  /* [rows, 2]: y centred, for those who look at it */
    double *update; /* [rows, 2]: the last step */
    double *gain;   /* [rows, 2] */
    float *xy;      /* [rows, 2]: y */
    float *pull;    /* [rows, 2]: attraction */
    float *push_x;  /* [rows] each, in the order of the tree: repulsion before Q's sum */
    float *push_y;
    double *walk_sum;                    /* [walks]: parts of Q's sum */
    double *pull_cost;                   /* [pulls]: parts of the KL divergence */
    block *block;                        /* [blocks] */
    double mean[2];                      /* of the points, which the next step takes off */
    double q_sum;                        /* of all pairs of different points */
    bool forces_current;                 /* they are those of the points as they are */
    double exaggeration, momentum, rate; /* of the step under way */
    void *memory;
};

static void place(ole_tsne_map *m, ole_arena *arena) {
    int64_t n = m->rows;
    m->y = ole_arena_take(arena, 2 * n, sizeof *m->y);
    m->shown = ole_arena_take(arena, 2 * n, sizeof *m->shown);
    m->update = ole_arena_take(arena, 2 * n, sizeof *m->update);
    m->gain = ole_arena_take(arena, 2 * n, sizeof *m->gain);
    m->xy = ole_arena_take(arena, 2 * n, sizeof *m->xy);
    m->pull = ole_arena_take(arena, 2 * n, sizeof *m->pull);
    m->push_x = ole_arena_take(arena, n, sizeof *m->push_x);
    m->push_y = ole_arena_take(arena, n, sizeof *m->push_y);
    m->walk_sum = ole_arena_take(arena, m->walks, sizeof *m->walk_sum);
    m->pull_cost = ole_arena_take(arena, m->pulls, sizeof *m->pull_cost);
    m->block = ole_arena_take(arena, m->blocks, sizeof *m->block);
}

static int64_t parts(int64_t whole, int64_t part) {
    return (whole + part - 1) / part;
}

static int64_t end_of(int64_t task, int64_t part, int64_t whole) {
    return (task + 1) * part < whole ? (task + 1) * part : whole;
}

/* ---- Where the points are ----------------------------------------------------------------- */

static const block no_points = {.low = {INFINITY, INFINITY}, .high = {-INFINITY, -INFINITY}};

/* Rounds point i, and adds it to its block. */
static void note_point(ole_tsne_map *m, int64_t i, block *b) {
    for (int k = 0; k < 2; k++) {
        double y = m->y[2 * i + k];
        float rounded = (float)y;
        m->xy[2 * i + k] = rounded;
        b->sum[k] += y;
        if (rounded < b->low[k]) b->low[k] = rounded;
        if (rounded > b->high[k]) b->high[k] = rounded;
    }
}

static block all_blocks(const ole_tsne_map *m) {
    block all = no_points;
    for (int64_t i = 0; i < m->blocks; i++)
        for (int k = 0; k < 2; k++) {
            const block *b = &m->block[i];
            all.sum[k] += b->sum[k];
            all.low[k] = fminf(all.low[k], b->low[k]);
            all.high[k] = fmaxf(all.high[k], b->high[k]);
        }
    return all;
}

static void note_all(ole_tsne_map *m) {
    for (int64_t b = 0; b < m->blocks; b++) {
        m->block[b] = no_points;
        for (int64_t i = b * POINTS_A_BLOCK; i < end_of(b, POINTS_A_BLOCK, m->rows); i++)
            note_point(m, i, &m->block[b]);
    }
}

ole_status ole_tsne_map_create(ole_tsne_map **map, ole_pool *pool, const ole_affinity *affinity,
                               double theta, const double *start, ole_error *error) {
    int64_t rows = affinity->rows;
    ole_tsne_map *m = *map = calloc(1, sizeof *m);
    if (!m) return ole_fail(error, OLE_ERROR_MEMORY, "out of memory");
    m->pool = pool;
    m->affinity = affinity;
    m->kernels = ole_tsne_kernels_get();
    m->rows = rows;
    m->blocks = parts(rows, POINTS_A_BLOCK);
    m->walks = parts(rows, POINTS_A_WALK);
    m->pulls = parts(rows, ROWS_A_PULL);
    ole_arena arena = {0};
    place(m, &arena);
    m->memory = ole_arena_reserve(&arena);
    ole_status status = OLE_OK;
    if (!m->memory)
        status = ole_fail(error, OLE_ERROR_MEMORY, "out of memory for a map of %" PRId64 " points",
                          rows);
    if (status == OLE_OK) status = ole_tsne_forest_create(&m->forest, rows, theta, error);
    if (status != OLE_OK) {
        ole_tsne_map_destroy(m);
        *map = NULL;
        return status;
    }
    place(m, &arena);
    memcpy(m->y, start, (size_t)(2 * rows) * sizeof *m->y);
    memset(m->update, 0, (size_t)(2 * rows) * sizeof *m->update);
    for (int64_t i = 0; i < 2 * rows; i++)
        m->gain[i] = 1.0;
    for (int64_t e = 0; e < affinity->start[rows]; e++)
        if (affinity->p[e] > 0.0f) m->entropy += (double)affinity->p[e] * log(affinity->p[e]);
    note_all(m);
    return OLE_OK;
}

void ole_tsne_map_destroy(ole_tsne_map *map) {
    if (!map) return;
    ole_tsne_forest_destroy(&map->forest);
    free(map->memory);
    free(map);
}

/* ---- Forces ------------------------------------------------------------------------------- */

static void force_task(void *context, int64_t task, int worker) {
    (void)worker;
    ole_tsne_map *m = context;
    if (task < m->walks) {
        double sum = 0.0;
        int64_t end = end_of(task, POINTS_A_WALK, m->rows);
        for (int64_t first = task * POINTS_A_WALK; first < end; first += m->kernels->group)
            sum += m->kernels->repel(&m->forest.tree, first, m->push_x, m->push_y);
        m->walk_sum[task] = sum;
    } else {
        int64_t pull = task - m->walks;
        m->kernels->attract(m->affinity, m->xy, pull * ROWS_A_PULL,
                            end_of(pull, ROWS_A_PULL, m->rows), m->pull);
    }
}

static void find_forces(ole_tsne_map *m) {
    if (m->forces_current) return;
    block all = all_blocks(m);
    for (int k = 0; k < 2; k++)
        m->mean[k] = all.sum[k] / (double)m->rows;
    ole_tsne_forest_grow(&m->forest, m->pool, m->xy, all.low, all.high);
    ole_pool_run(m->pool, m->walks + m->pulls, force_task, m);
    double sum = 0.0;
    for (int64_t i = 0; i < m->walks; i++)
        sum += m->walk_sum[i];
    m->q_sum = fmax(sum - (double)m->rows, 1e-30); /* without each point's 1 for itself */
    m->forces_current = true;
}

/* ---- Steps -------------------------------------------------------------------------------- */

static void step_task(void *context, int64_t task, int worker) {
    (void)worker;
    ole_tsne_map *m = context;
    block *b = &m->block[task];
    *b = no_points;
    for (int64_t s = task * POINTS_A_BLOCK; s < end_of(task, POINTS_A_BLOCK, m->rows); s++) {
        int64_t i = m->forest.order[s];
        const double push[2] = {m->push_x[s] / m->q_sum, m->push_y[s] / m->q_sum};
        for (int k = 0; k < 2; k++) {
            double gradient = 4.0 * (m->exaggeration * m->pull[2 * i + k] - push[k]);
            double *gain = &m->gain[2 * i + k], *update = &m->update[2 * i + k];
            /* Larger while the direction stays, smaller once it turns. */
            *gain = gradient * *update < 0.0 ? *gain + 0.2 : *gain * 0.8;
            if (*gain < 0.01) *gain = 0.01;
            *update = m->momentum * *update - m->rate * *gain * gradient;
            m->y[2 * i + k] += *update - m->mean[k];
        }
        note_point(m, i, b);
    }
}

bool ole_tsne_map_step(ole_tsne_map *map, double exaggeration, double momentum, double rate) {
    find_forces(map);
    map->exaggeration = exaggeration;
    map->momentum = momentum;
    map->rate = rate;
    ole_pool_run(map->pool, map->blocks, step_task, map);
    map->forces_current = false;
    return isfinite(map->q_sum);
}

/* ---- Looking at it ------------------------------------------------------------------------ */

static void cost_task(void *context, int64_t task, int worker) {
    (void)worker;
    ole_tsne_map *m = context;
    m->pull_cost[task] = m->kernels->cost(m->affinity, m->xy, task * ROWS_A_PULL,
                                          end_of(task, ROWS_A_PULL, m->rows));
}

double ole_tsne_map_kl(ole_tsne_map *map) {
    find_forces(map);
    ole_pool_run(map->pool, map->pulls, cost_task, map);
    double cost = 0.0;
    for (int64_t i = 0; i < map->pulls; i++)
        cost += map->pull_cost[i];
    /* q = 1 / (1 + d²) / sum: log(p / q) = log p + log(1 + d²) + log sum, and P sums to 1. */
    return map->entropy + cost + log(map->q_sum);
}

const double *ole_tsne_map_points(ole_tsne_map *map) {
    block all = all_blocks(map);
    for (int64_t i = 0; i < 2 * map->rows; i++)
        map->shown[i] = map->y[i] - all.sum[i % 2] / (double)map->rows;
    return map->shown;
}
