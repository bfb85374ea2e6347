/*
 * src/device/cpu/conv_tiles.c - convolutions on AMX tiles: grids of pixels, how they are filled,
 * and the passes.
 *
 * A grid holds a few images as one line of pixels, [pixels, channels].  Each image row is followed
 * by `pad` zero pixels and each image by `pad` rows of them; the zeros after a row also serve as
 * the left border of the next.  So the pixel a tap reads is always at the same distance, at the
 * price of some work on zeros: 7 % at 32 x 32 pixels, 27 % at 8 x 8.  The gradient of x is the same
 * convolution applied to dy with the flipped kernel; the gradient of the weights is the product of
 * x's grid, transposed to [channels, pixels], with dy's.
 *
 * A group of images fills one grid, small enough for the second-level cache.  Forward, groups are
 * independent.  For the weights they are divided into parts by shape alone, whose sums are added in
 * order.
 */
#include "device/cpu/conv_tiles.h"

#include "base/error.h"
#include "base/min_max.h"

#include <stdlib.h>
#include <string.h>

enum { GRID_BYTES = 1 << 18, MAX_GROUP = 16, PARTS = 8, CHUNK_BLOCKS = 8, MAX_TAPS = 225 };

/* A grid and the convolution that reads it. */
typedef struct grid {
    int64_t height, width, pad;    /* of the input images */
    int64_t out_height, out_width; /* of the output images */
    int64_t pitch, image;          /* pixels from row to row and from image to image */
    int64_t lead, pixels;          /* leading zero pixels; total */
    int64_t group;                 /* images */
    int channels;                  /* rounded up to 32 */
    int taps;
    int64_t tap[MAX_TAPS]; /* distance in pixels from the output to the pixel each tap reads */
    int32_t *target;       /* [group * image] offset in the output tensor, or -1 */
} grid;

struct cpu_tiles {
    int64_t n;
    ole_shape in, out;
    int ins, outs, taps; /* blocks of 16 channels; kernel taps */
    cpu_format weight;
    bool train, needs_dx;
    int threads;
    cpu_view x, y;
    grid forward, data;
    int64_t groups; /* of `forward`; the weight gradient uses the same */
    int parts, chunks;
    size_t scratch;
};

/* ---- planning ----------------------------------------------------------------------------- */

static bool fill_targets(grid *g, const cpu_view *out) {
    g->target = malloc((size_t)(g->group * g->image) * sizeof *g->target);
    if (!g->target) return false;
    for (int64_t p = 0; p < g->group * g->image; p++) {
        int64_t i = p % g->image / g->pitch, j = p % g->pitch;
        bool there = i < g->out_height && j < g->out_width;
        int64_t at = p / g->image * out->image_stride + (i * g->out_width + j) * out->row_stride;
        g->target[p] = there ? (int32_t)at : -1;
    }
    return true;
}

/* A grid of `in` images for a k x k kernel whose results are written as `out` describes. */
static bool make_grid(grid *g, int64_t n, ole_shape in, ole_shape written, int k, int64_t pad,
                      const cpu_view *out) {
    *g = (grid){.height = in.h,
                .width = in.w,
                .pad = pad,
                .out_height = written.h,
                .out_width = written.w,
                .pitch = in.w + pad,
                .channels = (int)((in.c + AMX_DEPTH - 1) / AMX_DEPTH * AMX_DEPTH),
                .taps = k * k};
    g->image = (in.h + pad) * g->pitch;
    g->lead = pad * (g->pitch + 1);
    g->group = GRID_BYTES / (g->image * g->channels * 2);
    if (g->group > MAX_GROUP) g->group = MAX_GROUP;
    if (g->group > n) g->group = n;
    if (g->group < 1) g->group = 1;
    g->pixels = g->lead + g->group * g->image + (k - 1) * (g->pitch + 1) + 2 * AMX_STEP;
    for (int t = 0; t < g->taps; t++)
        g->tap[t] = (t / k - pad) * g->pitch + t % k - pad;
    return fill_targets(g, out);
}

static size_t grid_bytes(const grid *g) {
    return cpu_whole_lines((size_t)(g->pixels * g->channels) * sizeof(uint16_t));
}

/* Bytes of weights as blocks of 16 x 16, zero where channels do not exist. */
static size_t block_bytes(const cpu_tiles *t) {
    return (size_t)t->ins * (size_t)t->outs * (size_t)t->taps * 256 * sizeof(float);
}

/* Bytes of the same packed as the right side of a product; rows come in pairs of blocks. */
static size_t packed_bytes(const cpu_tiles *t) {
    int forward = t->outs * ((t->ins + 1) / 2), backward = t->ins * ((t->outs + 1) / 2);
    int tiles = forward > backward ? forward : backward;
    return (size_t)tiles * (size_t)t->taps * AMX_TILE * sizeof(uint16_t);
}

/* dy's grid has the pixels of x's grid and a chunk of channels. */
static int chunk_channels(const cpu_tiles *t) {
    int blocks = t->outs < CHUNK_BLOCKS ? t->outs : CHUNK_BLOCKS;
    return (blocks + 1) / 2 * AMX_DEPTH;
}

static size_t chunk_bytes(const cpu_tiles *t) {
    return cpu_whole_lines((size_t)(t->forward.pixels * chunk_channels(t)) * sizeof(uint16_t));
}

/* Bytes per task of the weight gradient: x's and dy's grids, each in two orders. */
static size_t task_bytes(const cpu_tiles *t) {
    return 2 * grid_bytes(&t->forward) + 2 * chunk_bytes(t);
}

static size_t needed_scratch(const cpu_tiles *t) {
    size_t threads = (size_t)t->threads, front = block_bytes(t);
    size_t most = front + packed_bytes(t) + threads * grid_bytes(&t->forward);
    size_t data = t->needs_dx ? front + packed_bytes(t) + threads * grid_bytes(&t->data) : 0;
    size_t sums = t->train ? (size_t)t->parts * front + threads * task_bytes(t) : 0;
    if (data > most) most = data;
    return sums > most ? sums : most;
}

static bool is_supported(const cpu_plan_request *r, ole_layout y_layout) {
    const ole_node *node = r->node;
    return r->context->amx && r->x_layout[0] == &cpu_blocked && y_layout == &cpu_blocked &&
           node->stride == 1 && node->pad < node->kernel && node->kernel * node->kernel <= MAX_TAPS;
}

/* Whether pixel offsets within a group of images fit in 32 bits. */
static bool fits_offsets(const cpu_view *view) {
    return view->image_stride <= INT32_MAX / MAX_GROUP;
}

ole_status cpu_tiles_create(cpu_tiles **result, const cpu_plan_request *r, ole_layout y_layout,
                            cpu_format weight, ole_error *error) {
    *result = NULL;
    if (!is_supported(r, y_layout)) return OLE_OK;
    const ole_node *node = r->node;
    cpu_tiles *t = calloc(1, sizeof *t);
    if (!t) return ole_fail(error, OLE_ERROR_MEMORY, "out of memory");
    *t = (cpu_tiles){.n = r->n,
                     .in = node->in,
                     .out = node->out,
                     .taps = node->kernel * node->kernel,
                     .weight = weight,
                     .train = r->train,
                     .needs_dx = r->train && r->needs_dx,
                     .threads = r->context->options.threads,
                     .x = cpu_view_images(r->context, r->x_layout[0], r->n, node->in),
                     .y = cpu_view_images(r->context, y_layout, r->n, node->out)};
    if (!fits_offsets(&t->x) || !fits_offsets(&t->y)) {
        cpu_tiles_destroy(t);
        return OLE_OK;
    }
    t->ins = (int)t->x.groups;
    t->outs = (int)t->y.groups;
    int64_t other = node->kernel - 1 - node->pad;
    bool made = make_grid(&t->forward, r->n, node->in, node->out, node->kernel, node->pad, &t->y) &&
                make_grid(&t->data, r->n, node->out, node->in, node->kernel, other, &t->x);
    if (!made) {
        cpu_tiles_destroy(t);
        return ole_fail(error, OLE_ERROR_MEMORY, "out of memory");
    }
    /* A grid's group has at least one image. NOLINTNEXTLINE(clang-analyzer-core.DivideZero) */
    t->groups = (r->n + t->forward.group - 1) / t->forward.group;
    t->chunks = (t->outs + CHUNK_BLOCKS - 1) / CHUNK_BLOCKS;
    t->parts = (int)ole_min(t->groups, t->chunks < PARTS ? PARTS / t->chunks : 1);
    t->scratch = needed_scratch(t);
    *result = t;
    return OLE_OK;
}

void cpu_tiles_destroy(cpu_tiles *t) {
    if (!t) return;
    free(t->forward.target);
    free(t->data.target);
    free(t);
}

size_t cpu_tiles_scratch(const cpu_tiles *t) {
    return t ? t->scratch : 0;
}

/* ---- filling grids ------------------------------------------------------------------------ */

/* Copies `count` images of a blocked tensor, `blocks` blocks of channels from block `first` on. */
static void fill_grid(const grid *g, int channels, const cpu_view *from, const uint16_t *tensor,
                      int64_t count, int first, int blocks, uint16_t *to) {
    for (int64_t image = 0; image < count; image++)
        for (int64_t i = 0; i < g->height; i++)
            for (int64_t j = 0; j < g->width; j++) {
                uint16_t *pixel = to + (image * g->image + i * g->pitch + j) * channels;
                const uint16_t *at = tensor + image * from->image_stride +
                                     first * from->group_stride + (i * g->width + j) * 16;
                for (int b = 0; b < blocks; b++)
                    memcpy(pixel + b * 16, at + b * from->group_stride, 16 * sizeof *pixel);
            }
}

/* Pixels up to the last one that a convolution of `count` images writes. */
static int64_t reached(const grid *g, int64_t count) {
    return (count - 1) * g->image + (g->out_height - 1) * g->pitch + g->out_width;
}

/* ---- forward, and the gradient of x ------------------------------------------------------- */

typedef struct pass {
    const cpu_tiles *tiles;
    const amx_kernels *kernels;
    const grid *grid;
    const cpu_view *from, *to;
    const uint16_t *source;
    amx_weights weights;
    amx_product product; /* except for what differs per group */
    char *grids;         /* one per task */
    int64_t groups, tasks;
} pass;

static void pack_column(void *argument, int64_t task) {
    const pass *p = argument;
    p->kernels->pack_weights(&p->weights, (int)task);
}

static void run_groups(void *argument, int64_t task) {
    const pass *p = argument;
    const grid *g = p->grid;
    uint16_t *memory = (uint16_t *)(p->grids + (size_t)task * grid_bytes(g));
    memset(memory, 0, grid_bytes(g));
    amx_product product = p->product;
    product.grid = memory + g->lead * g->channels;
    int64_t end = p->groups * (task + 1) / p->tasks;
    for (int64_t group = p->groups * task / p->tasks; group < end; group++) {
        int64_t first = group * g->group, count = ole_min(p->tiles->n - first, g->group);
        fill_grid(g, g->channels, p->from, p->source + first * p->from->image_stride, count, 0,
                  (int)p->from->groups, memory + g->lead * g->channels);
        product.pixels = reached(g, count);
        product.y = p->product.y + first * p->to->image_stride;
        p->kernels->multiply(&product);
    }
}

/* The weights in blocks: as given, or converted from plain order in scratch. */
static const float *blocked_weights(const cpu_tiles *t, const float *weight, float *scratch) {
    if (t->weight == CPU_BLOCKED) return weight;
    memset(scratch, 0, block_bytes(t));
    for (int64_t o = 0; o < t->out.c; o++)
        for (int64_t i = 0; i < t->in.c; i++)
            for (int tap = 0; tap < t->taps; tap++)
                scratch[((o / 16 * t->ins + i / 16) * t->taps + tap) * 256 + i % 16 * 16 + o % 16] =
                    weight[(o * t->in.c + i) * t->taps + tap];
    return scratch;
}

static void run_pass(const cpu_call *c, pass *p, bool transpose) {
    const cpu_tiles *t = p->tiles;
    p->kernels = c->context->amx;
    char *scratch = c->call->scratch, *packed = scratch + block_bytes(t);
    const float *weight = blocked_weights(t, c->call->param[0], (float *)scratch);
    p->weights = (amx_weights){weight, t->outs, t->ins, t->taps, transpose, (uint16_t *)packed};
    p->grids = packed + packed_bytes(t);
    p->groups = (t->n + p->grid->group - 1) / p->grid->group;
    p->tasks = ole_min(p->groups, t->threads);
    p->product.pixel_bytes = p->grid->channels * 2;
    p->product.depth = p->grid->channels / AMX_DEPTH;
    p->product.taps = t->taps;
    p->product.tap = p->grid->tap;
    p->product.weights = p->weights.to;
    p->product.blocks = (int)p->to->groups;
    p->product.channels = (int)p->to->channels;
    p->product.target = p->grid->target;
    p->product.block_stride = p->to->group_stride;
    cpu_parallel(c->context, p->product.blocks, pack_column, p);
    cpu_parallel(c->context, p->tasks, run_groups, p);
}

void cpu_tiles_forward(const cpu_tiles *t, const cpu_call *c) {
    pass p = {.tiles = t,
              .grid = &t->forward,
              .from = &t->x,
              .to = &t->y,
              .source = c->call->x[0],
              .product = {.bias = c->node->bias ? c->call->param[1] : NULL, .y = c->call->y}};
    run_pass(c, &p, false);
}

void cpu_tiles_backward_data(const cpu_tiles *t, const cpu_call *c) {
    pass p = {.tiles = t,
              .grid = &t->data,
              .from = &t->y,
              .to = &t->x,
              .source = c->call->dy,
              .product = {.y = c->call->dx[0], .add = c->call->accumulate[0]}};
    run_pass(c, &p, true);
}

/* ---- the gradient of the weights ---------------------------------------------------------- */

typedef struct gradient {
    const cpu_tiles *tiles;
    const cpu_call *call;
    char *sums;        /* one per part, as blocks */
    char *task_memory; /* one per thread: task_bytes() */
    int64_t jobs, tasks;
} gradient;

/* The grids of a task: x's as is and transposed, dy's as is and in pairs of pixels. */
typedef struct task_grids {
    uint16_t *x, *transposed, *dy, *pairs;
} task_grids;

static task_grids task_grids_of(const gradient *r, int64_t task) {
    const cpu_tiles *t = r->tiles;
    char *at = r->task_memory + (size_t)task * task_bytes(t);
    size_t x = grid_bytes(&t->forward), dy = chunk_bytes(t);
    return (task_grids){(uint16_t *)at, (uint16_t *)(at + x), (uint16_t *)(at + 2 * x),
                        (uint16_t *)(at + 2 * x + dy)};
}

/* Fills the grids with a group of images. */
static void fill_task_grids(const gradient *r, const task_grids *m, int64_t first, int64_t count,
                            int chunk, int blocks) {
    const cpu_tiles *t = r->tiles;
    const amx_kernels *kernels = r->call->context->amx;
    const grid *g = &t->forward;
    grid shape_of_y = *g;
    shape_of_y.height = g->out_height;
    shape_of_y.width = g->out_width;
    int wide = chunk_channels(t);
    const uint16_t *x = r->call->call->x[0], *dy = r->call->call->dy;
    if (count < g->group) {
        memset(m->x, 0, grid_bytes(g));
        memset(m->dy, 0, chunk_bytes(t));
    }
    fill_grid(g, g->channels, &t->x, x + first * t->x.image_stride, count, 0, t->ins,
              m->x + g->lead * g->channels);
    fill_grid(&shape_of_y, wide, &t->y, dy + first * t->y.image_stride, count, chunk * CHUNK_BLOCKS,
              blocks, m->dy);
    for (int b = 0; b < t->ins; b++)
        for (int64_t p = 0; p + AMX_STEP <= g->pixels; p += AMX_STEP)
            kernels->transpose_pixels(m->x + p * g->channels + b * 16, g->channels,
                                      m->transposed + b * 16 * g->pixels + p, g->pixels);
    for (int64_t p = 0; p < g->group * g->image; p += 2)
        for (int b = 0; b < blocks; b++)
            kernels->pair_pixels(m->dy + p * wide + b * 16, wide, m->pairs + p * wide + b * 32);
}

/* The sums of one part for one chunk of output channels. */
static void run_job(const gradient *r, const task_grids *m, int64_t job) {
    const cpu_tiles *t = r->tiles;
    const grid *g = &t->forward;
    int part = (int)(job / t->chunks), chunk = (int)(job % t->chunks);
    int blocks = (int)ole_min(t->outs - chunk * CHUNK_BLOCKS, CHUNK_BLOCKS);
    amx_gradient sum = {.x = m->transposed + g->lead,
                        .x_row = g->pixels,
                        .dy = m->pairs,
                        .dy_row = 2 * chunk_channels(t),
                        .taps = t->taps,
                        .tap = g->tap,
                        .ins = t->ins,
                        .outs = blocks,
                        .sum = (float *)(r->sums + (size_t)part * block_bytes(t)) +
                               (int64_t)chunk * CHUNK_BLOCKS * t->ins * t->taps * 256};
    memset(m->x, 0, task_bytes(t));
    int64_t end = t->groups * (part + 1) / t->parts;
    for (int64_t group = t->groups * part / t->parts; group < end; group++, sum.add = true) {
        int64_t first = group * g->group, count = ole_min(t->n - first, g->group);
        fill_task_grids(r, m, first, count, chunk, blocks);
        sum.steps = (reached(g, count) + AMX_STEP - 1) / AMX_STEP;
        r->call->context->amx->sum_products(&sum);
    }
}

static void run_jobs(void *argument, int64_t task) {
    const gradient *r = argument;
    task_grids m = task_grids_of(r, task);
    for (int64_t job = r->jobs * task / r->tasks; job < r->jobs * (task + 1) / r->tasks; job++)
        run_job(r, &m, job);
}

/* Adds up the parts' sums of a block of output channels, in order, into the weights' layout. */
static void add_parts(void *argument, int64_t out) {
    const gradient *r = argument;
    const cpu_tiles *t = r->tiles;
    int64_t length = (int64_t)t->ins * t->taps * 256, stride = (int64_t)(block_bytes(t) / 4);
    float *sum = (float *)r->sums + out * length, *to = r->call->call->dparam[0];
    for (int part = 1; part < t->parts; part++)
        for (int64_t i = 0; i < length; i++)
            sum[i] += sum[part * stride + i];
    if (t->weight == CPU_BLOCKED) {
        memcpy(to + out * length, sum, (size_t)length * sizeof *to);
        return;
    }
    for (int64_t o = out * 16; o < t->out.c && o < out * 16 + 16; o++)
        for (int64_t i = 0; i < t->in.c; i++)
            for (int tap = 0; tap < t->taps; tap++)
                to[(o * t->in.c + i) * t->taps + tap] =
                    sum[(i / 16 * t->taps + tap) * 256 + i % 16 * 16 + o % 16];
}

/* The gradient of the bias: sums of dy, one block of channels per task. */
static void sum_bias(void *argument, int64_t block) {
    const gradient *r = argument;
    const cpu_view *y = &r->tiles->y;
    cpu_moments m = {0};
    for (int64_t image = 0; image < y->images; image++)
        r->call->context->bf16->moments(
            cpu_view_run(y, block),
            cpu_at(y, r->call->call->dy, image * y->image_stride + block * y->group_stride), &m);
    float *to = r->call->call->dparam[1];
    for (int64_t i = 0; i < 16 && block * 16 + i < y->channels; i++)
        to[block * 16 + i] = (float)(m.mean[i] * m.count);
}

void cpu_tiles_backward_weights(const cpu_tiles *t, const cpu_call *c) {
    gradient r = {.tiles = t,
                  .call = c,
                  .sums = c->call->scratch,
                  .jobs = (int64_t)t->parts * t->chunks,
                  .tasks = ole_min((int64_t)t->parts * t->chunks, t->threads)};
    r.task_memory = r.sums + (size_t)t->parts * block_bytes(t);
    if (c->call->dparam[0]) {
        cpu_parallel(c->context, r.tasks, run_jobs, &r);
        cpu_parallel(c->context, t->outs, add_parts, &r);
    }
    if (c->node->bias && c->call->dparam[1]) cpu_parallel(c->context, t->outs, sum_bias, &r);
}
