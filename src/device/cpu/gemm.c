/*
 * src/device/cpu/gemm.c - products of float matrices, for the linear layers.
 *
 * Written here because oneDNN's sgemm allocates its panels in every call, and its inner products
 * want the weights in orders of their own.  A is packed in scratch, tile by tile of rows.  A task
 * then makes some columns of C: it packs a piece of B at a time, panel by panel, and meets it with
 * all tiles of A.  The cut is by shape alone, so results do not depend on the threads.
 */
#include "device/cpu/cpu.h"

#include <stdalign.h>
#include <string.h>

/*
 * A piece of B: its depth, and its panels at most.  In large matrices several panels side by side
 * make the steps from row to row, through another page each, pay.
 */
enum { DEPTH = 256, PANELS = 4, LARGE = 512 };

typedef struct product {
    const cpu_gemm *gemm;
    const cpu_kernels *kernels;
    int64_t wide; /* columns of a task */
} product;

/* A piece of B, [panels][depth, panel], and its place. */
typedef struct piece {
    alignas(64) float b[PANELS * DEPTH * CPU_MAX_PANEL];
    int64_t first, depth, column, columns;
} piece;

static int64_t at_most(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* A tile of rows of A as [k, tile_rows]. */
static void pack_rows(void *argument, int64_t task) {
    const product *p = argument;
    const cpu_gemm *g = p->gemm;
    int tall = p->kernels->tile_rows;
    int64_t row = task * tall, rows = at_most(g->m - row, tall);
    float *to = g->scratch + row * g->k;
    for (int64_t i = 0; i < rows && !g->transpose_a; i++)
        for (int64_t d = 0; d < g->k; d++)
            to[d * tall + i] = g->a[(row + i) * g->lda + d];
    for (int64_t d = 0; d < g->k && g->transpose_a; d++)
        memcpy(to + d * tall, g->a + d * g->lda + row, (size_t)rows * sizeof *to);
}

/* Columns from `column` on of the piece as a panel; what it lacks is zero. */
static void pack_panel(const cpu_gemm *g, const piece *at, int64_t column, int panel, float *to) {
    int64_t columns = at_most(at->column + at->columns - column, panel);
    if (columns < panel) memset(to, 0, (size_t)(at->depth * panel) * sizeof *to);
    for (int64_t d = 0; d < at->depth && !g->transpose_b; d++)
        memcpy(to + d * panel, g->b + (at->first + d) * g->ldb + column,
               (size_t)columns * sizeof *to);
    for (int64_t i = 0; i < columns && g->transpose_b; i++)
        for (int64_t d = 0; d < at->depth; d++)
            to[d * panel + i] = g->b[(column + i) * g->ldb + at->first + d];
}

/* A panel of the piece, `i` columns on, meets all rows of A. */
static void meet_rows(const product *p, const piece *at, int64_t i) {
    const cpu_gemm *g = p->gemm;
    int tall = p->kernels->tile_rows;
    cpu_tile tile = {.columns = (int)at_most(at->columns - i, p->kernels->panel),
                     .depth = at->depth,
                     .ldc = g->ldc,
                     .add = g->add || at->first > 0};
    for (int64_t row = 0; row < g->m; row += tall) {
        tile.rows = (int)at_most(g->m - row, tall);
        p->kernels->tile(&tile, g->scratch + row * g->k + at->first * tall, at->b + i * at->depth,
                         g->c + row * g->ldc + at->column + i);
    }
}

static void make_columns(void *argument, int64_t task) {
    const product *p = argument;
    const cpu_gemm *g = p->gemm;
    int panel = p->kernels->panel;
    piece at;
    at.column = task * p->wide;
    at.columns = at_most(g->n - at.column, p->wide);
    for (at.first = 0; at.first < g->k; at.first += DEPTH) {
        at.depth = at_most(g->k - at.first, DEPTH);
        for (int64_t i = 0; i < at.columns; i += panel)
            pack_panel(g, &at, at.column + i, panel, at.b + i * at.depth);
        for (int64_t i = 0; i < at.columns; i += panel)
            meet_rows(p, &at, i);
    }
}

static int64_t tiles(const cpu_kernels *kernels, int64_t rows) {
    return (rows + kernels->tile_rows - 1) / kernels->tile_rows;
}

size_t cpu_gemm_scratch(const ole_device_context *context, int64_t m, int64_t k) {
    const cpu_kernels *kernels = context->kernels;
    return (size_t)(tiles(kernels, m) * kernels->tile_rows * k) * sizeof(float);
}

void cpu_gemm_run(const ole_device_context *context, const cpu_gemm *gemm) {
    product p = {gemm, context->kernels, context->kernels->panel};
    if (gemm->n >= LARGE) p.wide *= PANELS;
    cpu_parallel(context, tiles(p.kernels, gemm->m), pack_rows, &p);
    cpu_parallel(context, (gemm->n + p.wide - 1) / p.wide, make_columns, &p);
}
