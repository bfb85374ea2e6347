/*
 * src/device/cpu/norm.c - batch norm over (N, H, W) of each channel, as in PyTorch's BatchNorm2d,
 * with an optional ReLU in the same pass.
 *
 * It is bound by memory, so it makes few passes: two over x forward (moments, then y), two over x
 * and dy backward (sums, then dx).  The ReLU's mask is recomputed from x, so y is not read.
 * Parameters: gamma, beta if `affine`, then running mean and variance.  Saved: mean and 1 /
 * deviation, [2, groups * block] floats.  A stacked x (cpu.h) has its moments stored with it; y is
 * blocked then.
 *
 * A group of channels is divided into chunks of whole images, one task each, whose sums are
 * combined in order.  A group with a single chunk does both passes in one task, while it is in the
 * cache.
 *
 * With a share, the sums of all groups are added up over the ranks between the passes, in one call:
 * forward those of x - s and (x - s)^2, where s is the running mean, which all ranks know; backward
 * those that dx needs.  Gradients of gamma and beta cover this rank's rows: they are added up later
 * with those of all parameters.
 */
#include "base/error.h"
#include "device/cpu/cpu.h"
#include "device/share.h"

#include <math.h>
#include <string.h>

static const double eps = 1e-5, momentum = 0.1;

enum { CHUNK_ROWS = 4096 };

/* The result of a task: forward moments or backward sums. */
typedef union partial {
    cpu_moments moments;
    cpu_sums sums;
} partial;

typedef struct norm_state {
    cpu_state base;
    cpu_view x, y;  /* the same except for image and group strides */
    int64_t chunks; /* chunks of images per group */
} norm_state;

/* One call, shared by its tasks. */
typedef struct norm_run {
    const cpu_call *c;
    const norm_state *state;
    const cpu_kernels *kernels;
    partial *part;  /* scratch [chunks, groups] */
    double *shared; /* scratch [2, groups * width]: sums over all ranks; NULL: not shared */
    double count;   /* values per channel, over all ranks */
} norm_run;

static bool has_moments(const norm_state *s) {
    return s->base.x_layout[0] == &cpu_stacked;
}

static ole_status plan_norm(const cpu_plan_request *r, ole_op_plan *plan, ole_error *error) {
    bool stacked = r->x_layout[0] == &cpu_stacked;
    ole_layout y_layout = stacked ? &cpu_blocked : r->x_layout[0];
    norm_state *state = cpu_state_create(r, y_layout, sizeof *state, plan);
    if (!state) return ole_fail(error, OLE_ERROR_MEMORY, "out of memory");
    cpu_view x = cpu_view_of(r->context, r->x_layout[0], r->n, r->node->in);
    state->x = x;
    state->y = cpu_view_of(r->context, y_layout, r->n, r->node->in);
    state->chunks = x.images * x.rows / CHUNK_ROWS;
    if (state->chunks > x.images) state->chunks = x.images;
    if (state->chunks < 1) state->chunks = 1;
    plan->scratch_bytes = (size_t)(state->chunks * x.groups) * sizeof(partial) +
                          (size_t)(2 * x.groups * r->context->block) * sizeof(double);
    plan->saved_bytes = (size_t)(2 * x.groups * r->context->block) * sizeof(float);
    plan->backward_reads_x = true;
    plan->in_place = !r->train && !stacked;
    plan->dx_in_place = !stacked;
    return OLE_OK;
}

/* ---- one chunk of one group --------------------------------------------------------------- */

typedef struct norm_chunk {
    int64_t group, first_image, end_image;
    cpu_run run;
} norm_chunk;

static norm_chunk chunk_of(const norm_run *n, int64_t task) {
    const cpu_view *v = &n->state->x;
    int64_t chunk = task / v->groups, group = task % v->groups;
    return (norm_chunk){group, v->images * chunk / n->state->chunks,
                        v->images * (chunk + 1) / n->state->chunks, cpu_view_run(v, group)};
}

/* Loops over the chunk's images: offset `at` in x and dx, `to` in y and dy. */
#define FOR_IMAGES(n, p, at, to)                                                                   \
    for (int64_t                                                                                   \
             image_ = (p).first_image,                                                             \
             at = image_ * (n)->state->x.image_stride + (p).group * (n)->state->x.group_stride,    \
             to = image_ * (n)->state->y.image_stride + (p).group * (n)->state->y.group_stride;    \
         image_ < (p).end_image;                                                                   \
         image_++, at += (n)->state->x.image_stride, to += (n)->state->y.image_stride)

static const float *param_of(const cpu_call *c, int i, const cpu_view *v, int64_t group) {
    return (const float *)c->call->param[i] + group * v->width;
}

/* Actual channels of a group. */
static int channels_of(const cpu_view *v, int64_t group) {
    int64_t left = v->channels - group * v->width;
    return left < v->width ? (int)left : v->width;
}

static float *saved_mean(const norm_run *n, int64_t group) {
    return (float *)n->c->call->saved + group * n->kernels->block;
}

static float *saved_inverse(const norm_run *n, int64_t group) {
    return saved_mean(n, group) + n->state->x.groups * n->kernels->block;
}

/* y = (x - mean) * scale + shift; channels that do not exist give 0. */
static cpu_affine affine_of(const norm_run *n, int64_t group) {
    const cpu_view *v = &n->state->x;
    const ole_node *node = n->c->node;
    const float *mean = saved_mean(n, group), *inverse = saved_inverse(n, group);
    cpu_affine a = {.relu = node->relu};
    for (int i = 0; i < channels_of(v, group); i++) {
        a.mean[i] = mean[i];
        a.scale[i] = inverse[i] * (node->affine ? param_of(n->c, 0, v, group)[i] : 1);
        a.shift[i] = node->affine ? param_of(n->c, 1, v, group)[i] : 0;
    }
    return a;
}

/* ---- forward ------------------------------------------------------------------------------ */

static void find_moments(void *argument, int64_t task) {
    const norm_run *n = argument;
    norm_chunk p = chunk_of(n, task);
    cpu_moments *m = &n->part[task].moments;
    *m = (cpu_moments){0};
    const cpu_view *x = &n->state->x;
    for (int64_t image = p.first_image; image < p.end_image; image++)
        n->kernels->moments(
            p.run, cpu_at(x, n->c->call->x[0], image * x->image_stride + p.group * x->group_stride),
            m);
}

static cpu_moments stored_moments(const norm_run *n, int64_t group) {
    const cpu_view *x = &n->state->x;
    const double *from = cpu_stacked_moments(x, n->c->call->x[0], group);
    cpu_moments m = {.count = (double)(x->images * x->rows)};
    for (int i = 0; i < channels_of(x, group); i++) {
        m.mean[i] = from[i];
        m.squares[i] = from[x->width + i];
    }
    return m;
}

/* The group's moments, combined from its chunks in order. */
static cpu_moments group_moments(const norm_run *n, int64_t group) {
    if (has_moments(n->state)) return stored_moments(n, group);
    cpu_moments all = n->part[group].moments;
    for (int64_t chunk = 1; chunk < n->state->chunks; chunk++) {
        const cpu_moments *m = &n->part[chunk * n->state->x.groups + group].moments;
        double total = all.count + m->count;
        for (int i = 0; i < n->state->x.width; i++) {
            double delta = m->mean[i] - all.mean[i];
            all.mean[i] += delta * m->count / total;
            all.squares[i] += m->squares[i] + delta * delta * all.count * m->count / total;
        }
        all.count = total;
    }
    return all;
}

/* A group's two sums over all ranks. */
static double *shared_first(const norm_run *n, int64_t group) {
    return n->shared + group * n->state->x.width;
}

static double *shared_second(const norm_run *n, int64_t group) {
    return shared_first(n, group) + n->state->x.groups * n->state->x.width;
}

static const float *running_mean_of(const norm_run *n, int64_t group) {
    return param_of(n->c, n->c->node->affine ? 2 : 0, &n->state->x, group);
}

/* This rank's moments as sums of distances to the running mean. */
static void share_moments(void *argument, int64_t group) {
    const norm_run *n = argument;
    cpu_moments m = group_moments(n, group);
    const float *shift = running_mean_of(n, group);
    for (int i = 0; i < channels_of(&n->state->x, group); i++) {
        double distance = m.mean[i] - (double)shift[i];
        shared_first(n, group)[i] = m.count * distance;
        shared_second(n, group)[i] = m.squares[i] + m.count * distance * distance;
    }
}

/* The moments over all ranks, from those sums. */
static cpu_moments shared_moments(const norm_run *n, int64_t group) {
    cpu_moments m = {.count = n->count};
    const float *shift = running_mean_of(n, group);
    for (int i = 0; i < channels_of(&n->state->x, group); i++) {
        double distance = shared_first(n, group)[i] / m.count;
        m.mean[i] = (double)shift[i] + distance;
        m.squares[i] = fmax(shared_second(n, group)[i] - m.count * distance * distance, 0);
    }
    return m;
}

/* Collects the two sums of every group and adds them up over the ranks. */
static void sum_over_ranks(norm_run *n, cpu_task *put_sums) {
    int64_t groups = n->state->x.groups, count = 2 * groups * n->state->x.width;
    n->shared = (double *)(n->part + n->state->chunks * groups);
    memset(n->shared, 0, (size_t)count * sizeof *n->shared);
    for (int64_t group = 0; group < groups; group++)
        put_sums(n, group);
    ole_share_sum(n->c->call->share, n->shared, count);
}

/* Mean and 1 / deviation of a group in the batch; updates the running statistics. */
static void batch_statistics(const norm_run *n, int64_t group, float *mean, float *inverse) {
    const cpu_view *v = &n->state->x;
    cpu_moments m = n->shared ? shared_moments(n, group) : group_moments(n, group);
    int first = n->c->node->affine ? 2 : 0;
    float *running_mean = (float *)n->c->call->param[first] + group * v->width;
    float *running_var = (float *)n->c->call->param[first + 1] + group * v->width;
    for (int i = 0; i < channels_of(v, group); i++) {
        mean[i] = (float)m.mean[i];
        inverse[i] = (float)(1 / sqrt(m.squares[i] / m.count + eps));
        double unbiased = m.squares[i] / fmax(m.count - 1, 1);
        running_mean[i] = (float)((1 - momentum) * (double)running_mean[i] + momentum * m.mean[i]);
        running_var[i] = (float)((1 - momentum) * (double)running_var[i] + momentum * unbiased);
    }
}

static void running_statistics(const norm_run *n, int64_t group, float *mean, float *inverse) {
    const cpu_view *v = &n->state->x;
    int first = n->c->node->affine ? 2 : 0;
    for (int i = 0; i < channels_of(v, group); i++) {
        mean[i] = param_of(n->c, first, v, group)[i];
        inverse[i] = (float)(1 / sqrt((double)param_of(n->c, first + 1, v, group)[i] + eps));
    }
}

/* Stores the statistics of a group for apply() and backward. */
static void store_statistics(void *argument, int64_t group) {
    const norm_run *n = argument;
    if (n->c->call->train)
        batch_statistics(n, group, saved_mean(n, group), saved_inverse(n, group));
    else
        running_statistics(n, group, saved_mean(n, group), saved_inverse(n, group));
}

static void apply(void *argument, int64_t task) {
    const norm_run *n = argument;
    norm_chunk p = chunk_of(n, task);
    cpu_affine a = affine_of(n, p.group);
    const ole_op_call *call = n->c->call;
    FOR_IMAGES(n, p, at, to)
    n->kernels->norm(p.run, &a, cpu_at(&n->state->x, call->x[0], at),
                     cpu_at(&n->state->y, call->y, to));
}

static void forward_group(void *argument, int64_t group) {
    const norm_run *n = argument;
    if (!has_moments(n->state)) find_moments(argument, group);
    store_statistics(argument, group);
    apply(argument, group);
}

static norm_run run_of(const cpu_call *c) {
    const norm_state *state = c->state;
    int64_t values = state->x.images * state->x.rows;
    if (ole_norm_shared(c->call)) values = values / state->base.n * c->call->share->rows;
    return (norm_run){.c = c,
                      .state = state,
                      .kernels = cpu_kernels_of(c->context, state->base.x_layout[0]),
                      .part = c->call->scratch,
                      .count = (double)values};
}

static void forward(const cpu_call *c) {
    norm_run n = run_of(c);
    int64_t groups = n.state->x.groups, tasks = groups * n.state->chunks;
    bool shared = ole_norm_shared(c->call);
    if (c->call->train && n.state->chunks == 1 && !shared) {
        cpu_parallel(c->context, groups, forward_group, &n);
        return;
    }
    if (c->call->train && !has_moments(n.state)) cpu_parallel(c->context, tasks, find_moments, &n);
    if (shared) sum_over_ranks(&n, share_moments);
    for (int64_t group = 0; group < groups; group++)
        store_statistics(&n, group);
    cpu_parallel_backwards(c->context, tasks, apply, &n);
}

/* ---- backward ----------------------------------------------------------------------------- */

static void find_sums(void *argument, int64_t task) {
    const norm_run *n = argument;
    norm_chunk p = chunk_of(n, task);
    cpu_sums *s = &n->part[task].sums;
    *s = (cpu_sums){0};
    cpu_affine a = affine_of(n, p.group);
    const ole_op_call *call = n->c->call;
    FOR_IMAGES(n, p, at, to)
    n->kernels->norm_sums(p.run, &a, cpu_at(&n->state->x, call->x[0], at),
                          cpu_at(&n->state->y, call->dy, to), s);
}

static cpu_sums sums_of(const norm_run *n, int64_t group) {
    cpu_sums all = n->part[group].sums;
    for (int64_t chunk = 1; chunk < n->state->chunks; chunk++) {
        const cpu_sums *s = &n->part[chunk * n->state->x.groups + group].sums;
        for (int i = 0; i < n->state->x.width; i++) {
            all.g[i] += s->g[i];
            all.gx[i] += s->gx[i];
        }
    }
    return all;
}

static void store_gradients(const norm_run *n, int64_t group, const cpu_sums *sums) {
    if (!n->c->node->affine) return;
    const cpu_view *v = &n->state->x;
    float *dgamma = n->c->call->dparam[0], *dbeta = n->c->call->dparam[1];
    for (int i = 0; i < channels_of(v, group); i++) {
        double inverse = (double)saved_inverse(n, group)[i];
        if (dgamma) dgamma[group * v->width + i] = (float)(sums->gx[i] * inverse);
        if (dbeta) dbeta[group * v->width + i] = (float)sums->g[i];
    }
}

/* Stores the gradients of gamma and beta, and this rank's sums. */
static void share_sums(void *argument, int64_t group) {
    const norm_run *n = argument;
    cpu_sums sums = sums_of(n, group);
    store_gradients(n, group, &sums);
    memcpy(shared_first(n, group), sums.g, (size_t)n->state->x.width * sizeof *sums.g);
    memcpy(shared_second(n, group), sums.gx, (size_t)n->state->x.width * sizeof *sums.gx);
}

static cpu_sums shared_sums(const norm_run *n, int64_t group) {
    cpu_sums sums = {0};
    memcpy(sums.g, shared_first(n, group), (size_t)n->state->x.width * sizeof *sums.g);
    memcpy(sums.gx, shared_second(n, group), (size_t)n->state->x.width * sizeof *sums.gx);
    return sums;
}

/* dx of a chunk; the group's first chunk also stores the gradients of gamma and beta, unless
 * share_sums() has done so. */
static void find_dx(void *argument, int64_t task) {
    const norm_run *n = argument;
    norm_chunk p = chunk_of(n, task);
    const cpu_view *v = &n->state->x;
    const float *inverse = saved_inverse(n, p.group);
    cpu_sums sums = n->shared ? shared_sums(n, p.group) : sums_of(n, p.group);
    if (p.first_image == 0 && !n->shared) store_gradients(n, p.group, &sums);
    const ole_op_call *call = n->c->call;
    if (!call->dx[0]) return;
    cpu_affine a = affine_of(n, p.group);
    float slope[CPU_MAX_BLOCK] = {0}, level[CPU_MAX_BLOCK] = {0};
    for (int i = 0; i < channels_of(v, p.group); i++) {
        double scale = (double)a.scale[i], inv = (double)inverse[i];
        slope[i] = (float)(-scale * inv * inv * sums.gx[i] / n->count);
        level[i] = (float)(-scale * sums.g[i] / n->count);
    }
    FOR_IMAGES(n, p, at, to)
    n->kernels->norm_gradient(p.run, &a, slope, level, cpu_at(v, call->x[0], at),
                              cpu_at(&n->state->y, call->dy, to), call->accumulate[0],
                              cpu_at(v, call->dx[0], at));
}

static void backward_group(void *argument, int64_t group) {
    find_sums(argument, group);
    find_dx(argument, group);
}

static void backward(const cpu_call *c) {
    norm_run n = run_of(c);
    int64_t groups = n.state->x.groups, tasks = groups * n.state->chunks;
    bool shared = ole_norm_shared(c->call);
    if (n.state->chunks == 1 && !shared) {
        cpu_parallel(c->context, groups, backward_group, &n);
        return;
    }
    cpu_parallel(c->context, tasks, find_sums, &n);
    if (shared) sum_over_ranks(&n, share_sums);
    cpu_parallel_backwards(c->context, tasks, find_dx, &n);
}

const cpu_op cpu_op_norm = {plan_norm, forward, backward};
