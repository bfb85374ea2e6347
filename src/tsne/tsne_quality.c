/*
 * src/tsne/tsne_quality.c - how good a map is, over all pairs of rows: the KL divergence without
 * neighbours cut off and without a tree, and the trustworthiness.
 */
#include "ole/tsne.h"

#include "base/arena.h"
#include "base/error.h"
#include "base/min_max.h"
#include "tsne/affinity.h"
#include "tsne/distances.h"
#include "tsne/pca.h"
#include "tsne/tsne_kernels.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Both functions: features and map, distances between the former, a tile and a row a worker. */
typedef struct quality {
    int64_t rows;
    int threads;
    ole_pool *pool;
    double *x; /* [rows, dim]: centred */
    ole_distances d;
    double *tiles; /* [threads]: a tile each */
    const double *map;
    double *part; /* [bands]: what each band adds */
} quality;

static ole_status check_map(int64_t rows, const double *map, ole_error *error) {
    if (!map) return ole_fail(error, OLE_ERROR_ARGUMENT, "map is NULL");
    for (int64_t i = 0; i < 2 * rows; i++)
        if (!isfinite(map[i]))
            return ole_fail(error, OLE_ERROR_DATA, "map: row %" PRId64 " holds NaN or Inf", i / 2);
    return OLE_OK;
}

/* Close it in any case. */
static ole_status open_quality(quality *q, const char *function, int64_t rows, int64_t dim,
                               ole_dtype dtype, const void *features, const double *map,
                               int threads, ole_error *error) {
    *q = (quality){.rows = rows, .threads = threads, .map = map};
    ole_status status = ole_features_check(function, rows, dim, dtype, features, threads, error);
    if (status == OLE_OK) status = check_map(rows, map, error);
    if (status == OLE_OK) status = ole_pool_create(&q->pool, threads, error);
    if (status != OLE_OK) return status;
    q->x = malloc((size_t)(rows * dim) * sizeof *q->x);
    if (!q->x)
        return ole_fail(error, OLE_ERROR_MEMORY, "%s: out of memory for %" PRId64 " rows", function,
                        rows);
    double scale;
    ole_features_centre(rows, dim, dtype, features, q->x, &scale);
    status = ole_distances_prepare(&q->d, q->pool, rows, dim, q->x, error);
    if (status != OLE_OK) return status;
    size_t tile = (size_t)ole_distances_tile_size(&q->d);
    q->tiles = ole_arena_allocate((size_t)threads * tile * sizeof *q->tiles);
    q->part = malloc((size_t)ole_distances_bands(&q->d) * sizeof *q->part);
    if (q->tiles && q->part) return OLE_OK;
    return ole_fail(error, OLE_ERROR_MEMORY, "%s: out of memory", function);
}

static void close_quality(quality *q) {
    ole_distances_release(&q->d);
    ole_pool_destroy(q->pool);
    free(q->x);
    free(q->tiles);
    free(q->part);
}

static double sum_parts(const quality *q) {
    double sum = 0.0;
    for (int64_t band = 0; band < ole_distances_bands(&q->d); band++)
        sum += q->part[band];
    return sum;
}

static double map_distance(const double *map, int64_t a, int64_t b) {
    double dx = map[2 * a] - map[2 * b], dy = map[2 * a + 1] - map[2 * b + 1];
    return dx * dx + dy * dy;
}

/* ---- KL divergence ------------------------------------------------------------------------ */

/* p(j|i) / 2n = factor exp(-beta (d² - shift)), with the nearest distance as the shift. */
typedef struct gaussian {
    double beta, factor, shift;
} gaussian;

typedef struct divergence {
    quality q;
    double perplexity;
    gaussian *row; /* [rows] */
    double *away;  /* [threads, tile_rows, rows]: the distances of a band */
} divergence;

/* beta of the rows of a band, from the distances to all other rows. */
static void beta_task(void *context, int64_t band, int worker) {
    divergence *v = context;
    const ole_distances *d = &v->q.d;
    int64_t row = band * d->tile_rows, rows = ole_min(d->rows - row, d->tile_rows);
    double *tile = v->q.tiles + worker * ole_distances_tile_size(d);
    double *away = v->away + (int64_t)worker * d->tile_rows * d->rows;
    for (int64_t column = 0; column < d->rows; column += d->tile_columns) {
        ole_distances_tile(d, row, column, tile);
        for (int64_t i = 0; i < rows; i++)
            memcpy(away + i * d->rows + column, tile + i * d->tile_columns,
                   (size_t)ole_min(d->rows - column, d->tile_columns) * sizeof *away);
    }
    double guess = 0.0;
    for (int64_t i = 0; i < rows; i++) {
        double *line = away + i * d->rows;
        int64_t others = d->rows - 1;
        line[row + i] = line[others]; /* all but the row itself, in any order */
        double least = INFINITY;
        for (int64_t j = 0; j < others; j++)
            least = fmin(least, line[j]);
        double beta = guess = ole_affinity_beta(line, others, v->perplexity, guess);
        double sum = ole_affinity_sum(line, others, beta, least);
        v->row[row + i] = (gaussian){beta, 0.5 / ((double)d->rows * sum), least};
    }
}

static double conditional(const gaussian *g, double d2) {
    double exponent = g->beta * (d2 - g->shift);
    return exponent < 80.0 ? g->factor * exp(-exponent) : 0.0;
}

/* sum p (log p + log(1 + d²)) over the pairs i > j of a band. */
static void cost_task(void *context, int64_t band, int worker) {
    divergence *v = context;
    const ole_distances *d = &v->q.d;
    int64_t row = band * d->tile_rows, rows = ole_min(d->rows - row, d->tile_rows);
    double *tile = v->q.tiles + worker * ole_distances_tile_size(d);
    double sum = 0.0;
    for (int64_t column = 0; column < row + rows; column += d->tile_columns) {
        ole_distances_tile(d, row, column, tile);
        for (int64_t i = 0; i < rows; i++) {
            int64_t end = ole_min(row + i, column + d->tile_columns);
            for (int64_t j = column; j < end; j++) {
                double d2 = tile[i * d->tile_columns + j - column];
                double p = conditional(&v->row[row + i], d2) + conditional(&v->row[j], d2);
                if (p > 0.0) sum += p * (log(p) + log1p(map_distance(v->q.map, row + i, j)));
            }
        }
    }
    v->q.part[band] = 2.0 * sum;
}

/* The map in float32, less its first point's place. */
typedef struct all_pairs {
    int64_t rows;
    float *x, *y;
    double *part; /* [groups] */
} all_pairs;

static void sum_task(void *context, int64_t task, int worker) {
    (void)worker;
    all_pairs *a = context;
    const ole_tsne_kernels *kernels = ole_tsne_kernels_get();
    a->part[task] = kernels->repel_all(a->x, a->y, a->rows, task * kernels->group);
}

/* sum over all pairs i != j of 1 / (1 + |y_i - y_j|²); negative when out of memory. */
static double sum_of_q(const quality *q) {
    int group = ole_tsne_kernels_get()->group;
    int64_t groups = (q->rows + group - 1) / group;
    all_pairs a = {q->rows, malloc((size_t)q->rows * sizeof(float)),
                   malloc((size_t)q->rows * sizeof(float)),
                   malloc((size_t)groups * sizeof(double))};
    double sum = -1.0;
    if (a.x && a.y && a.part) {
        for (int64_t i = 0; i < q->rows; i++) {
            a.x[i] = (float)(q->map[2 * i] - q->map[0]);
            a.y[i] = (float)(q->map[2 * i + 1] - q->map[1]);
        }
        ole_pool_run(q->pool, groups, sum_task, &a);
        sum = -(double)q->rows;
        for (int64_t i = 0; i < groups; i++)
            sum += a.part[i];
        sum = fmax(sum, 1e-30);
    }
    free(a.x);
    free(a.y);
    free(a.part);
    return sum;
}

static ole_status find_divergence(divergence *v, double *kl, ole_error *error) {
    quality *q = &v->q;
    size_t rows = (size_t)q->rows;
    v->row = malloc(rows * sizeof *v->row);
    v->away = malloc((size_t)q->threads * (size_t)q->d.tile_rows * rows * sizeof *v->away);
    double q_sum = v->row && v->away ? sum_of_q(q) : -1.0;
    if (q_sum < 0.0) return ole_fail(error, OLE_ERROR_MEMORY, "ole_tsne_kl: out of memory");
    ole_pool_run(q->pool, ole_distances_bands(&q->d), beta_task, v);
    ole_pool_run(q->pool, ole_distances_bands(&q->d), cost_task, v);
    *kl = sum_parts(q) + log(q_sum);
    return OLE_OK;
}

ole_status ole_tsne_kl(int64_t rows, int64_t dim, ole_dtype dtype, const void *features,
                       double perplexity, const double *map, int threads, double *kl,
                       ole_error *error) {
    if (!kl) return ole_fail(error, OLE_ERROR_ARGUMENT, "ole_tsne_kl: kl is NULL");
    if (!(rows >= 2 && perplexity >= 1.0 && perplexity <= (double)(rows - 1)))
        return ole_fail(error, OLE_ERROR_ARGUMENT,
                        "ole_tsne_kl: perplexity is %g with %" PRId64
                        " rows; must be 1 to rows - 1",
                        perplexity, rows);
    divergence v = {.perplexity = perplexity};
    ole_status status =
        open_quality(&v.q, "ole_tsne_kl", rows, dim, dtype, features, map, threads, error);
    if (status == OLE_OK) status = find_divergence(&v, kl, error);
    close_quality(&v.q);
    free(v.row);
    free(v.away);
    return status;
}

/* ---- Trustworthiness ---------------------------------------------------------------------- */

typedef struct trust {
    quality q;
    int count;
    int32_t *near; /* [rows, count]: neighbours on the map */
    int64_t *rank; /* [rows, count]: in the features, from 1 */
} trust;

/* How many rows are nearer in the features than each neighbour on the map: ranks of a band. */
static void rank_task(void *context, int64_t band, int worker) {
    trust *t = context;
    const ole_distances *d = &t->q.d;
    int64_t row = band * d->tile_rows, rows = ole_min(d->rows - row, d->tile_rows);
    double *tile = t->q.tiles + worker * ole_distances_tile_size(d);
    /* The distance of a neighbour as its tile gives it, so that it equals itself. */
    double *limit = t->q.tiles + t->q.threads * ole_distances_tile_size(d) +
                    (int64_t)worker * d->tile_rows * t->count;
    const int32_t *near = t->near + row * t->count;
    int64_t *rank = t->rank + row * t->count;
    for (int pass = 0; pass < 2; pass++)
        for (int64_t column = 0; column < d->rows; column += d->tile_columns) {
            int64_t columns = ole_min(d->rows - column, d->tile_columns);
            ole_distances_tile(d, row, column, tile);
            for (int64_t e = 0; e < rows * t->count; e++) {
                const double *line = tile + e / t->count * d->tile_columns;
                int64_t own = row + e / t->count - column, other = near[e] - column;
                if (pass == 0) {
                    if (other >= 0 && other < columns) limit[e] = line[other];
                    continue;
                }
                int64_t nearer = 0;
                for (int64_t j = 0; j < columns; j++)
                    nearer += line[j] < limit[e];
                if (own >= 0 && own < columns) nearer -= line[own] < limit[e];
                rank[e] += nearer;
            }
        }
    double sum = 0.0;
    for (int64_t e = 0; e < rows * t->count; e++)
        sum += (double)(rank[e] + 1 > t->count ? rank[e] + 1 - t->count : 0);
    t->q.part[band] = sum;
}

static ole_status find_trust(trust *t, double *trustworthiness, ole_error *error) {
    quality *q = &t->q;
    size_t entries = (size_t)(q->rows * t->count);
    ole_distances on_map = {0};
    t->near = malloc(entries * sizeof *t->near);
    t->rank = calloc(entries, sizeof *t->rank);
    /* Tiles again, with room for the limits behind them. */
    free(q->tiles);
    size_t room = (size_t)(ole_distances_tile_size(&q->d) + q->d.tile_rows * t->count);
    q->tiles = ole_arena_allocate((size_t)q->threads * room * sizeof *q->tiles);
    ole_status status = OLE_OK;
    if (!t->near || !t->rank || !q->tiles)
        status = ole_fail(error, OLE_ERROR_MEMORY, "ole_trustworthiness: out of memory");
    if (status == OLE_OK)
        status = ole_distances_prepare(&on_map, q->pool, q->rows, 2, q->map, error);
    if (status == OLE_OK)
        status = ole_neighbours(&on_map, q->pool, q->threads, t->count, t->near, NULL, NULL, NULL,
                                error);
    ole_distances_release(&on_map);
    if (status != OLE_OK) return status;
    ole_pool_run(q->pool, ole_distances_bands(&q->d), rank_task, t);
    double n = (double)q->rows, k = t->count;
    *trustworthiness = 1.0 - sum_parts(q) * 2.0 / (n * k * (2.0 * n - 3.0 * k - 1.0));
    return OLE_OK;
}

ole_status ole_trustworthiness(int64_t rows, int64_t dim, ole_dtype dtype, const void *features,
                               const double *map, int neighbours, int threads,
                               double *trustworthiness, ole_error *error) {
    if (!trustworthiness)
        return ole_fail(error, OLE_ERROR_ARGUMENT, "ole_trustworthiness: trustworthiness is NULL");
    if (neighbours < 1 || 2 * (int64_t)neighbours >= rows)
        return ole_fail(error, OLE_ERROR_ARGUMENT,
                        "ole_trustworthiness: neighbours is %d with %" PRId64
                        " rows; must be 1 to less than half of the rows",
                        neighbours, rows);
    trust t = {.count = neighbours};
    ole_status status =
        open_quality(&t.q, "ole_trustworthiness", rows, dim, dtype, features, map, threads, error);
    if (status == OLE_OK) status = find_trust(&t, trustworthiness, error);
    close_quality(&t.q);
    free(t.near);
    free(t.rank);
    return status;
}
