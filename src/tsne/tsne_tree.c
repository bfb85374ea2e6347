/*
 * src/tsne/tsne_tree.c - sorts by radix and cuts the sorted codes into cells.
 *
 * The points of a cell are a range of the sorted order, so a cell is found by a binary search and
 * its centre is a difference of running sums; cells that hold all points of the cell above are
 * skipped, so each cell with parts has at least two.
 */
#include "tsne/tsne_tree.h"

#include "base/arena.h"
#include "base/error.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

enum {
    LEAF = 8, /* points that are not divided further */
    RADIX = 11,
    BUCKETS = 1 << RADIX,
    CODES_A_TASK = 4096,
};

static void place(ole_tsne_forest *f, ole_arena *arena) {
    int64_t n = f->tree.points;
    f->tree.cell = ole_arena_take(arena, 2 * n, sizeof *f->tree.cell);
    f->tree.x = ole_arena_take(arena, n, sizeof *f->tree.x);
    f->tree.y = ole_arena_take(arena, n, sizeof *f->tree.y);
    f->order = ole_arena_take(arena, n, sizeof *f->order);
    f->code = ole_arena_take(arena, n, sizeof *f->code);
    f->order_before = ole_arena_take(arena, n, sizeof *f->order_before);
    f->code_before = ole_arena_take(arena, n, sizeof *f->code_before);
    f->sum = ole_arena_take(arena, 2 * (n + 1), sizeof *f->sum);
}

ole_status ole_tsne_forest_create(ole_tsne_forest *f, int64_t points, double theta,
                                  ole_error *error) {
    *f = (ole_tsne_forest){.tree = {.points = points, .theta = (float)theta}};
    ole_arena arena = {0};
    place(f, &arena);
    f->memory = ole_arena_reserve(&arena);
    if (!f->memory)
        return ole_fail(error, OLE_ERROR_MEMORY, "out of memory for a tree of %" PRId64 " points",
                        points);
    place(f, &arena);
    return OLE_OK;
}

void ole_tsne_forest_destroy(ole_tsne_forest *f) {
    free(f->memory);
    *f = (ole_tsne_forest){0};
}

/* ---- Sorting ------------------------------------------------------------------------------ */

typedef struct code_job {
    const float *xy;
    int64_t count;
    float x0, y0, side;
    uint32_t *code;
} code_job;

static void code_task(void *context, int64_t task, int worker) {
    (void)worker;
    const code_job *job = context;
    int64_t first = task * CODES_A_TASK, count = job->count - first;
    ole_tsne_kernels_get()->codes(job->xy + 2 * first, count < CODES_A_TASK ? count : CODES_A_TASK,
                                  job->x0, job->y0, job->side, job->code + first);
}

/* One pass of a stable radix sort by the bits from `shift` on. */
static void sort_pass(int64_t n, int shift, const uint32_t *code, const int32_t *order,
                      uint32_t *to_code, int32_t *to_order) {
    int32_t place[BUCKETS] = {0};
    for (int64_t i = 0; i < n; i++)
        place[code[i] >> shift & (BUCKETS - 1)]++;
    int32_t before = 0;
    for (int b = 0; b < BUCKETS; b++) {
        int32_t count = place[b];
        place[b] = before;
        before += count;
    }
    for (int64_t i = 0; i < n; i++) {
        int32_t to = place[code[i] >> shift & (BUCKETS - 1)]++;
        to_code[to] = code[i];
        to_order[to] = order[i];
    }
}

/* Three passes: 33 bits hold the 32 of a code. The result ends in code and order. */
static void sort(ole_tsne_forest *f) {
    int64_t n = f->tree.points;
    for (int64_t i = 0; i < n; i++)
        f->order_before[i] = (int32_t)i;
    sort_pass(n, 0, f->code_before, f->order_before, f->code, f->order);
    sort_pass(n, RADIX, f->code, f->order, f->code_before, f->order_before);
    sort_pass(n, 2 * RADIX, f->code_before, f->order_before, f->code, f->order);
}

/* ---- Cells -------------------------------------------------------------------------------- */

/* The first place from `begin` on whose code is `least` or more. */
static int64_t lower_bound(const uint32_t *code, int64_t begin, int64_t end, uint32_t least) {
    while (begin < end) {
        int64_t middle = begin + (end - begin) / 2;
        if (code[middle] < least)
            begin = middle + 1;
        else
            end = middle;
    }
    return begin;
}

typedef struct grower {
    const uint32_t *code;
    const double *sum;
    ole_tsne_cell *cell;
    float reach[OLE_TSNE_LEVELS + 1]; /* of cells by their level from below */
} grower;

/* Fills the cell at `at` with the points [begin, end) and its parts behind it; what follows. */
static int32_t grow(const grower *g, int32_t at, int64_t begin, int64_t end) {
    double count = (double)(end - begin);
    /* The smallest cell around all of them: as many levels as their codes differ in. */
    uint32_t differ = g->code[begin] ^ g->code[end - 1];
    int level = differ ? (33 - __builtin_clz(differ)) / 2 : 0;
    ole_tsne_cell *cell = &g->cell[at];
    *cell = (ole_tsne_cell){
        .x = (float)((g->sum[2 * end] - g->sum[2 * begin]) / count),
        .y = (float)((g->sum[2 * end + 1] - g->sum[2 * begin + 1]) / count),
        .mass = (float)count,
        .reach = g->reach[level],
        .begin = (int32_t)begin,
    };
    int32_t next = at + 1;
    if (end - begin <= LEAF || level == 0) {
        cell->end = (int32_t)end;
    } else {
        int shift = 2 * (level - 1);
        for (int64_t part = begin; part < end;) {
            uint32_t last = g->code[part] | ((UINT32_C(1) << shift) - 1);
            int64_t part_end = last == UINT32_MAX ? end : lower_bound(g->code, part, end, last + 1);
            next = grow(g, next, part, part_end);
            part = part_end;
        }
    }
    cell->next = next;
    return next;
}

/* The sorted points, and the running sums of their coordinates. */
static void lay_out(ole_tsne_forest *f, const float *xy) {
    double x = 0.0, y = 0.0;
    int64_t n = f->tree.points;
    for (int64_t i = 0; i < n; i++) {
        const float *point = xy + 2 * (int64_t)f->order[i];
        f->sum[2 * i] = x;
        f->sum[2 * i + 1] = y;
        f->tree.x[i] = point[0];
        f->tree.y[i] = point[1];
        x += point[0];
        y += point[1];
    }
    f->sum[2 * n] = x;
    f->sum[2 * n + 1] = y;
}

void ole_tsne_forest_grow(ole_tsne_forest *f, ole_pool *pool, const float *xy, const float low[2],
                          const float high[2]) {
    int64_t n = f->tree.points;
    float side = fmaxf(high[0] - low[0], high[1] - low[1]);
    code_job job = {xy, n, low[0], low[1], side, f->code_before};
    ole_pool_run(pool, (n + CODES_A_TASK - 1) / CODES_A_TASK, code_task, &job);
    sort(f);
    lay_out(f, xy);
    grower g = {.code = f->code, .sum = f->sum, .cell = f->tree.cell};
    for (int level = 0; level <= OLE_TSNE_LEVELS; level++) {
        float width = ldexpf(side, level - OLE_TSNE_LEVELS) / f->tree.theta;
        g.reach[level] = f->tree.theta > 0.0f ? width * width : INFINITY;
    }
    f->tree.cells = grow(&g, 0, 0, n);
}
