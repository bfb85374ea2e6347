/*
 * src/device/cpu/gemm.c - products of float matrices for the linear layers.
 *
 * We need our own because oneDNN's sgemm allocates its panels in every call, and its inner products
 * require weights in their own formats.  A is packed into scratch in tiles of rows.  Each task
 * computes some columns of C: it packs one piece of B at a time, panel by panel, and multiplies it
 * with all tiles of A.  Tasks depend on the shape alone, so results do not depend on the threads.
 */
#include "device/cpu/cpu.h"

#include "base/min_max.h"

#include <stdalign.h>
#include <string.h>

/* The depth of a piece of B, and its maximum number of panels.  In large matrices each row lies in
 * another page, so taking several adjacent panels per row pays off. */
enum { DEPTH = 256, PANELS = 4, LARGE = 512 };

typedef struct product {
    const cpu_gemm *gemm;
    const cpu_kernels *kernels;
    int64_t wide; /* columns per task */
} product;

/* A packed piece of B, [panels][depth, panel], and its position in B. */
typedef struct piece {
    alignas(64) float b[PANELS * DEPTH * CPU_MAX_PANEL];
    int64_t first, depth, column, columns;
} piece;

/* Packs a tile of rows of A as [k, tile_rows]. */
static void pack_rows(void *argument, int64_t task) {
    const product *p = argument;
    const cpu_gemm *g = p->gemm;
    int tall = p->kernels->tile_rows;
    int64_t row = task * tall, rows = ole_min(g->m - row, tall);
    float *to = g->scratch + row * g->k;
    for (int64_t i = 0; i < rows && !g->transpose_a; i++)
        for (int64_t d = 0; d < g->k; d++)
            to[d * tall + i] = g->a[(row + i) * g->lda + d];
    for (int64_t d = 0; d < g->k && g->transpose_a; d++)
        memcpy(to + d * tall, g->a + d * g->lda + row, (size_t)rows * sizeof *to);
}

/* Packs the columns of the piece from `column` on as a panel, padded with zeros. */
static void pack_panel(const cpu_gemm *g, const piece *at, int64_t column, int panel, float *to) {
    int64_t columns = ole_min(at->column + at->columns - column, panel);
    if (columns < panel) memset(to, 0, (size_t)(at->depth * panel) * sizeof *to);
    for (int64_t d = 0; d < at->depth && !g->transpose_b; d++)
        memcpy(to + d * panel, g->b + (at->first + d) * g->ldb + column,
               (size_t)columns * sizeof *to);
    for (int64_t i = 0; i < columns && g->transpose_b; i++)
        for (int64_t d = 0; d < at->depth; d++)
            to[d * panel + i] = g->b[(column + i) * g->ldb + at->first + d];
}

/* Multiplies all rows of A with the piece's panel that starts at its column `i`. */
static void multiply_panel(const product *p, const piece *at, int64_t i) {
    const cpu_gemm *g = p->gemm;
    int tall = p->kernels->tile_rows;
    cpu_tile tile = {.columns = (int)ole_min(at->columns - i, p->kernels->panel),
                     .depth = at->depth,
                     .ldc = g->ldc,
                     .add = g->add || at->first > 0};
    for (int64_t row = 0; row < g->m; row += tall) {
        tile.rows = (int)ole_min(g->m - row, tall);
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
    at.columns = ole_min(g->n - at.column, p->wide);
    for (at.first = 0; at.first < g->k; at.first += DEPTH) {
        at.depth = ole_min(g->k - at.first, DEPTH);
        for (int64_t i = 0; i < at.columns; i += panel)
            pack_panel(g, &at, at.column + i, panel, at.b + i * at.depth);
        for (int64_t i = 0; i < at.columns; i += panel)
            multiply_panel(p, &at, i);
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
