/*
 * src/linalg/panels.c - packing and multiplying in tiles.  Tiles are cut by shape alone and each is
 * summed over its whole depth by one thread, so the bits do not depend on the number of threads.
 */
#include "linalg/panels.h"

#include "base/cpu.h"
#include "linalg/float_kernels.h"
#include "linalg/kernels.h"

enum {
    TILE_PANELS = 4,       /* a tile is this many panels square */
    PACK_PANELS = 4,       /* panels packed by one task */
    SERIAL_WORK = 1 << 20, /* multiplications under which waking threads does not pay */
    SERIAL_PACK = 1 << 18, /* the same for elements packed */
};

int64_t ole_panels_size(int64_t items, int64_t depth) {
    int64_t width = ole_kernels_get()->width;
    return (items + width - 1) / width * width * depth;
}

typedef struct pack_job {
    const ole_kernels *kernels;
    const ole_operand *source;
    double *buffer;
} pack_job;

static void pack_task(void *context, int64_t task, int worker) {
    (void)worker;
    const pack_job *job = context;
    const ole_operand *s = job->source;
    int64_t step = PACK_PANELS * job->kernels->width;
    int64_t first = task * step, items = s->items - first < step ? s->items - first : step;
    double *to = job->buffer + first * s->depth;
    if (s->dtype == OLE_F32)
        job->kernels->pack_f32(to, (const float *)s->data + first * s->item_stride, s->item_stride,
                               s->depth_stride, items, s->depth);
    else
        job->kernels->pack_f64(to, (const double *)s->data + first * s->item_stride, s->item_stride,
                               s->depth_stride, items, s->depth);
}

ole_panels ole_panels_pack(ole_pool *pool, double *buffer, const ole_operand *source) {
    pack_job job = {ole_kernels_get(), source, buffer};
    int64_t step = PACK_PANELS * job.kernels->width;
    if (source->items * source->depth < SERIAL_PACK) pool = NULL;
    ole_pool_run(pool, (source->items + step - 1) / step, pack_task, &job);
    return (ole_panels){buffer, source->items, source->depth};
}

typedef struct multiply_job {
    const ole_kernels *kernels;
    const ole_panels *a, *b;
    const ole_product *out;
    int64_t tile;
    int64_t tile_columns;
} multiply_job;

static void multiply_task(void *context, int64_t task, int worker) {
    (void)worker;
    const multiply_job *job = context;
    const ole_panels *a = job->a, *b = job->b;
    const ole_product *out = job->out;
    int64_t row = task / job->tile_columns * job->tile, col = task % job->tile_columns * job->tile;
    if (out->lower && col > row) return;
    int64_t rows = a->items - row < job->tile ? a->items - row : job->tile;
    int64_t cols = b->items - col < job->tile ? b->items - col : job->tile;
    job->kernels->multiply(a->data + row * a->depth, b->data + col * b->depth, rows, cols, a->depth,
                           out->alpha, out->c + row * out->ldc + col, out->ldc, row, col,
                           out->lower, out->store);
}

void ole_panels_multiply(ole_pool *pool, const ole_panels *a, const ole_panels *b,
                         const ole_product *out) {
    const ole_kernels *kernels = ole_kernels_get();
    int64_t tile = (int64_t)TILE_PANELS * kernels->width;
    int64_t tile_rows = (a->items + tile - 1) / tile, tile_columns = (b->items + tile - 1) / tile;
    multiply_job job = {kernels, a, b, out, tile, tile_columns};
    if (a->items * b->items * a->depth < SERIAL_WORK) pool = NULL;
    ole_pool_run(pool, tile_rows * tile_columns, multiply_task, &job);
}

void ole_multiply(ole_pool *pool, const ole_operand *a, double *a_room, const ole_operand *b,
                  double *b_room, const ole_product *out) {
    ole_panels left = ole_panels_pack(pool, a_room, a), right = ole_panels_pack(pool, b_room, b);
    ole_panels_multiply(pool, &left, &right, out);
}

/* ---- The kernels of the CPU that runs: asking twice gives the same answer -------------------- */

OLE_CPU_VARIANTS(ole_kernels, ole_kernels);

const ole_kernels *ole_kernels_get(void) {
    return OLE_CPU_SELECT(ole_kernels);
}

OLE_CPU_VARIANTS(ole_float_kernels, ole_float_kernels);

const ole_float_kernels *ole_float_kernels_get(void) {
    return OLE_CPU_SELECT(ole_float_kernels);
}

const char *ole_kernels_name(void) {
    return ole_kernels_get()->name;
}
