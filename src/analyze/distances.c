/*
 * src/analyze/distances.c - squared distances as |a|² + |b|² - 2ab, the products by tiles of the
 * kernels of linalg in float64, and a heap a row of the nearest so far.
 *
 * The distances of the neighbours found are computed once more from differences, so that rows close
 * to each other and far from the origin keep their digits.
 */
#include "analyze/distances.h"

#include "base/arena.h"
#include "base/error.h"
#include "linalg/panels.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

enum {
    TILE_PANELS = 4,   /* panels of rows a tile */
    TILE_ACROSS = 24,  /* panels of columns a tile */
    BANDS_A_LOOP = 64, /* bands searched between two calls of the progress */
};

ole_status ole_distances_prepare(ole_distances *d, ole_pool *pool, int64_t rows, int64_t dim,
                                 const double *x, ole_error *error) {
    const ole_kernels *kernels = ole_kernels_get();
    *d = (ole_distances){.rows = rows,
                         .dim = dim,
                         .x = x,
                         .kernels = kernels,
                         .tile_rows = (int64_t)TILE_PANELS * kernels->width,
                         .tile_columns = (int64_t)TILE_ACROSS * kernels->width};
    d->packed = ole_arena_allocate((size_t)ole_panels_size(rows, dim) * sizeof(double));
    d->square = malloc((size_t)rows * sizeof(double));
    if (!d->packed || !d->square)
        return ole_fail(error, OLE_ERROR_MEMORY,
                        "out of memory for %" PRId64 " rows of %" PRId64 " dimensions", rows, dim);
    const ole_operand operand = {x, OLE_F64, rows, dim, dim, 1, false};
    ole_panels_pack(pool, d->packed, &operand);
    for (int64_t i = 0; i < rows; i++)
        d->square[i] = kernels->dot_f64(x + i * dim, x + i * dim, dim);
    return OLE_OK;
}

void ole_distances_release(ole_distances *d) {
    free(d->packed);
    free(d->square);
    *d = (ole_distances){0};
}

int64_t ole_distances_bands(const ole_distances *d) {
    return (d->rows + d->tile_rows - 1) / d->tile_rows;
}

int64_t ole_distances_tile_size(const ole_distances *d) {
    return d->tile_rows * d->tile_columns;
}

static int64_t smaller(int64_t a, int64_t b) {
    return a < b ? a : b;
}

void ole_distances_tile(const ole_distances *d, int64_t row, int64_t column, double *tile) {
    int64_t rows = smaller(d->rows - row, d->tile_rows);
    int64_t columns = smaller(d->rows - column, d->tile_columns);
    d->kernels->multiply(d->packed + row * d->dim, d->packed + column * d->dim, rows, columns,
                         d->dim, -2.0, tile, d->tile_columns, row, column, false, OLE_STORE_SET);
    for (int64_t i = 0; i < rows; i++) {
        double *line = tile + i * d->tile_columns;
        double own = d->square[row + i];
        const double *other = d->square + column;
        for (int64_t j = 0; j < columns; j++) {
            double s = line[j] + (own + other[j]);
            line[j] = s > 0.0 ? s : 0.0;
        }
    }
}

double ole_distance(const ole_distances *d, int64_t a, int64_t b) {
    const double *x = d->x + a * d->dim, *y = d->x + b * d->dim;
    double sum = 0.0;
    for (int64_t k = 0; k < d->dim; k++)
        sum += (x[k] - y[k]) * (x[k] - y[k]);
    return sum;
}

/* ---- Neighbours ----------------------------------------------------------------------------- */

/* A row found: a heap keeps the farthest at its top. */
typedef struct found {
    double away;
    int32_t row;
} found;

static bool farther(found a, found b) {
    return a.away > b.away || (a.away == b.away && a.row > b.row);
}

/* Puts `item` in the place of the top. */
static void replace_top(found *heap, int count, found item) {
    int at = 0;
    for (;;) {
        int child = 2 * at + 1;
        if (child >= count) break;
        if (child + 1 < count && farther(heap[child + 1], heap[child])) child++;
        if (!farther(heap[child], item)) break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = item;
}

static int by_distance(const void *x, const void *y) {
    const found *a = x, *b = y;
    return farther(*a, *b) - farther(*b, *a);
}

typedef struct search {
    const ole_distances *d;
    int count;
    int64_t first_band;
    double *tiles; /* [threads]: a tile each */
    found *heaps;  /* [threads, tile_rows, count] */
    int32_t *near;
    double *away;
} search;

static void take_tile(const search *s, int64_t row, int64_t column, const double *tile,
                      found *heaps) {
    const ole_distances *d = s->d;
    int64_t rows = smaller(d->rows - row, d->tile_rows);
    int64_t columns = smaller(d->rows - column, d->tile_columns);
    for (int64_t i = 0; i < rows; i++) {
        found *heap = heaps + i * s->count;
        const double *line = tile + i * d->tile_columns;
        for (int64_t j = 0; j < columns; j++)
            if (line[j] < heap->away && column + j != row + i)
                replace_top(heap, s->count, (found){line[j], (int32_t)(column + j)});
    }
}

/* All neighbours of the rows of one band. */
static void search_band(void *context, int64_t task, int worker) {
    const search *s = context;
    const ole_distances *d = s->d;
    int64_t row = (s->first_band + task) * d->tile_rows;
    int64_t rows = smaller(d->rows - row, d->tile_rows);
    double *tile = s->tiles + worker * ole_distances_tile_size(d);
    found *heaps = s->heaps + (int64_t)worker * d->tile_rows * s->count;
    for (int64_t i = 0; i < rows * s->count; i++)
        heaps[i] = (found){INFINITY, INT32_MAX};
    for (int64_t column = 0; column < d->rows; column += d->tile_columns) {
        ole_distances_tile(d, row, column, tile);
        take_tile(s, row, column, tile, heaps);
    }
    for (int64_t i = 0; i < rows; i++) {
        found *heap = heaps + i * s->count;
        for (int k = 0; k < s->count; k++)
            heap[k].away = ole_distance(d, row + i, heap[k].row);
        qsort(heap, (size_t)s->count, sizeof *heap, by_distance);
        for (int k = 0; k < s->count; k++) {
            s->near[(row + i) * s->count + k] = heap[k].row;
            if (s->away) s->away[(row + i) * s->count + k] = heap[k].away;
        }
    }
}

ole_status ole_neighbours(const ole_distances *d, ole_pool *pool, int threads, int count,
                          int32_t *near, double *away, ole_neighbours_progress *progress,
                          void *context, bool *stopped, ole_error *error) {
    size_t room = (size_t)(threads * d->tile_rows * count);
    search s = {.d = d, .count = count, .near = near, .away = away};
    s.tiles = ole_arena_allocate((size_t)(threads * ole_distances_tile_size(d)) * sizeof(double));
    s.heaps = malloc(room * sizeof *s.heaps);
    ole_status status = OLE_OK;
    if (stopped) *stopped = false;
    if (!s.tiles || !s.heaps)
        status = ole_fail(error, OLE_ERROR_MEMORY, "out of memory for %d neighbours", count);
    int64_t bands = ole_distances_bands(d);
    bool stop = status != OLE_OK;
    for (int64_t band = 0; band < bands && !stop; band += BANDS_A_LOOP) {
        s.first_band = band;
        int64_t now = smaller(bands - band, BANDS_A_LOOP);
        ole_pool_run(pool, now, search_band, &s);
        if (progress) stop = progress(context, (double)(band + now) / (double)bands);
    }
    if (stopped && status == OLE_OK) *stopped = stop;
    free(s.tiles);
    free(s.heaps);
    return status;
}
