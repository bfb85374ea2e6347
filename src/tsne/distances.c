/*
 * src/tsne/distances.c - squared distances as |a|² + |b|² - 2ab, the products by tiles of the
 * kernels of linalg in float64, and a list a row of those that may be nearest.
 *
 * The distances of the neighbours found are computed once more from differences, so that rows close
 * to each other and far from the origin keep their digits.
 */
#include "tsne/distances.h"

#include "base/arena.h"
#include "base/cpu.h"
#include "base/error.h"
#include "base/min_max.h"
#include "base/sort.h"
#include "linalg/panels.h"
#include "tsne/tsne_kernels.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

enum {
    TILE_PANELS = 4,   /* panels of rows a tile */
    TILE_ACROSS = 24,  /* panels of columns a tile */
    ROOM = 4,          /* times the neighbours wanted: candidates kept before a selection */
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

/* -2ab of a tile. */
static void multiply_tile(const ole_distances *d, int64_t row, int64_t column, double *tile) {
    d->kernels->multiply(d->packed + row * d->dim, d->packed + column * d->dim,
                         ole_min(d->rows - row, d->tile_rows),
                         ole_min(d->rows - column, d->tile_columns), d->dim, -2.0, tile,
                         d->tile_columns, row, column, false, OLE_STORE_SET);
}

void ole_distances_tile(const ole_distances *d, int64_t row, int64_t column, double *tile) {
    int64_t rows = ole_min(d->rows - row, d->tile_rows);
    int64_t columns = ole_min(d->rows - column, d->tile_columns);
    multiply_tile(d, row, column, tile);
    for (int64_t i = 0; i < rows; i++)
        ole_tsne_kernels_get()->nearer(tile + i * d->tile_columns, d->square + column,
                                       d->square[row + i], columns, -1.0, NULL);
}

/* The squared distance of two rows, from their differences. */
static double distance(const ole_distances *d, int64_t a, int64_t b) {
    const double *x = d->x + a * d->dim, *y = d->x + b * d->dim;
    double sum = 0.0;
    for (int64_t k = 0; k < d->dim; k++)
        sum += (x[k] - y[k]) * (x[k] - y[k]);
    return sum;
}

/* ---- Neighbours --------------------------------------------------------------------------- */

/* A row found. */
typedef struct found {
    double away;
    int32_t row;
} found;

static bool farther(found a, found b) {
    return a.away > b.away || (a.away == b.away && a.row > b.row);
}

#define NEARER(a, b) farther(b, a)
OLE_DEFINE_SELECT(select_nearest, found, NEARER)

static int by_distance(const void *x, const void *y) {
    const found *a = x, *b = y;
    return farther(*a, *b) - farther(*b, *a);
}

/* Candidates of one row: those nearer than `limit` are collected, and cut down when it is full. */
typedef struct shortlist {
    int64_t items;
    double limit;
    found *item; /* [ROOM * count] */
} shortlist;

typedef struct search {
    const ole_distances *d;
    int count;
    int64_t first_band;
    double *tiles;    /* [threads]: a tile each */
    shortlist *lists; /* [threads, tile_rows] */
    found *items;     /* [threads, tile_rows, ROOM * count] */
    int32_t *places;  /* [threads, tile_columns] */
    int32_t *near;
    double *away;
} search;

static void cut_down(shortlist *list, int count) {
    select_nearest(list->item, list->items, count);
    list->items = count;
    list->limit = list->item[count - 1].away;
}

static void take_tile(const search *s, int64_t row, int64_t column, double *tile, shortlist *lists,
                      int32_t *place) {
    const ole_distances *d = s->d;
    const ole_tsne_kernels *kernels = ole_tsne_kernels_get();
    int64_t rows = ole_min(d->rows - row, d->tile_rows);
    int64_t columns = ole_min(d->rows - column, d->tile_columns);
    multiply_tile(d, row, column, tile);
    for (int64_t i = 0; i < rows; i++) {
        shortlist *list = lists + i;
        double *line = tile + i * d->tile_columns;
        int64_t nearer = kernels->nearer(line, d->square + column, d->square[row + i], columns,
                                         list->limit, place);
        for (int64_t n = 0; n < nearer; n++) {
            int64_t j = place[n];
            if (line[j] >= list->limit || column + j == row + i) continue;
            list->item[list->items++] = (found){line[j], (int32_t)(column + j)};
            if (list->items == (int64_t)ROOM * s->count) cut_down(list, s->count);
        }
    }
}

/* The neighbours of a row from its list, with distances from differences. */
static void finish_row(const search *s, int64_t row, shortlist *list) {
    cut_down(list, s->count);
    for (int k = 0; k < s->count; k++)
        list->item[k].away = distance(s->d, row, list->item[k].row);
    qsort(list->item, (size_t)s->count, sizeof *list->item, by_distance);
    for (int k = 0; k < s->count; k++) {
        s->near[row * s->count + k] = list->item[k].row;
        if (s->away) s->away[row * s->count + k] = list->item[k].away;
    }
}

/* All neighbours of the rows of one band. */
static void search_band(void *context, int64_t task, int worker) {
    const search *s = context;
    const ole_distances *d = s->d;
    int64_t row = (s->first_band + task) * d->tile_rows;
    int64_t rows = ole_min(d->rows - row, d->tile_rows);
    int64_t room = (int64_t)ROOM * s->count;
    shortlist *lists = s->lists + worker * d->tile_rows;
    found *items = s->items + worker * d->tile_rows * room;
    for (int64_t i = 0; i < rows; i++)
        lists[i] = (shortlist){0, INFINITY, items + i * room};
    for (int64_t column = 0; column < d->rows; column += d->tile_columns)
        take_tile(s, row, column, s->tiles + worker * ole_distances_tile_size(d), lists,
                  s->places + worker * d->tile_columns);
    for (int64_t i = 0; i < rows; i++)
        finish_row(s, row + i, &lists[i]);
}

ole_status ole_neighbours(const ole_distances *d, ole_pool *pool, int threads, int count,
                          int32_t *near, double *away, ole_neighbours_progress *progress,
                          void *context, ole_error *error) {
    size_t rows = (size_t)threads * (size_t)d->tile_rows;
    search s = {.d = d, .count = count, .near = near, .away = away};
    s.tiles = ole_arena_allocate((size_t)(threads * ole_distances_tile_size(d)) * sizeof(double));
    s.lists = malloc(rows * sizeof *s.lists);
    s.items = malloc(rows * ROOM * (size_t)count * sizeof *s.items);
    s.places = malloc((size_t)(threads * d->tile_columns) * sizeof *s.places);
    ole_status status = OLE_OK;
    if (!s.tiles || !s.lists || !s.items || !s.places)
        status = ole_fail(error, OLE_ERROR_MEMORY, "out of memory for %d neighbours", count);
    int64_t bands = ole_distances_bands(d);
    bool stop = status != OLE_OK;
    for (int64_t band = 0; band < bands && !stop; band += BANDS_A_LOOP) {
        s.first_band = band;
        int64_t now = ole_min(bands - band, BANDS_A_LOOP);
        ole_pool_run(pool, now, search_band, &s);
        if (progress) stop = progress(context, (double)(band + now) / (double)bands);
    }
    free(s.tiles);
    free(s.lists);
    free(s.items);
    free(s.places);
    return status;
}

/* ---- The kernels of the CPU that runs -------------------------------------------------------- */

OLE_CPU_VARIANTS(ole_tsne_kernels, ole_tsne_kernels);

const ole_tsne_kernels *ole_tsne_kernels_get(void) {
    return OLE_CPU_SELECT(ole_tsne_kernels);
}
