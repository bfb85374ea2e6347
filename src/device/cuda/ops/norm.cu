/*
 * src/device/cuda/ops/norm.cu - batch norm over (N, H, W) of each channel, as PyTorch's
 * BatchNorm2d, optionally followed by an addition and ReLU: y = relu(norm(x) + residual).  This is
 * the host side; kernels are in norm_forward.cu and norm_backward.cu.
 *
 * Small tensors, which stay in the cache, are bound by launches and latency.  They take one kernel
 * if possible, each block keeping its part of the tensor in shared memory while the sums are added
 * up (norm.cuh).  A stacked x comes with its moments, so forward is one pass without sums.  Saved:
 * mean and 1 / deviation, [2, pitch] floats.  Backward recomputes from x which elements the ReLU
 * zeroed, or reads it from y if there is a residual.
 *
 * If other ranks have parts of the batch (ole_share), there are always two kernels, with the sum
 * over ranks between them.
 */
#include "device/cuda/ops/norm.cuh"

extern "C" {
#include "base/error.h"
}

namespace {

/* At most this much of x a block for blocks of one chunk to be a cluster, which waits sooner than a
 * grid but leaves more multiprocessors idle. */
const size_t cluster_share = 32 << 10;
const int cluster_blocks = 8; /* every GPU that has clusters allows that many */

struct norm_state {
    cuda_state base;
    norm_shape forward, backward;
    norm_shape apply;     /* of forward without sums: evaluation, stacked x */
    bool packs;           /* the residual is stacked: packed into scratch first */
    cuda_layout residual; /* packed */
    size_t shared_at;     /* in scratch, behind the partial sums: what ranks add up */
    size_t residual_at;   /* in scratch, behind that */
};

/* ---- planning ----------------------------------------------------------------------------- */

int attribute_of(const ole_device_context *context, cudaDeviceAttr attribute) {
    int value = 0;
    cudaDeviceGetAttribute(&value, attribute, context->gpu);
    return value;
}

/* Shared memory that holds a block's share of `held` tensors. */
size_t tile_bytes(const cuda_layout &y, int blocks, int held) {
    int all = chunk_blocks(y.pixels);
    size_t steps = (size_t)((all + blocks - 1) / blocks);
    return steps * (size_t)held * CHUNK_ROWS * CHUNK_CHANNELS * cuda_element(y.type);
}

/* One kernel, if a tile of it fits, of the way that its sizes call for. */
norm_shape one_kernel(const ole_device_context *context, const cuda_layout &y, int held) {
    int chunks = chunks_of(y.part[0].pitch), most = chunk_blocks(y.pixels), blocks = 1;
    bool clusters =
        attribute_of(context, cudaDevAttrComputeCapabilityMajor) >= 9 && norm_knows_clusters();
    bool grids = attribute_of(context, cudaDevAttrCooperativeLaunch) != 0;
    while (2 * blocks <= cluster_blocks && 2 * blocks <= most)
        blocks *= 2;
    if (most == 1) return {NORM_ALONE, 1, chunks, tile_bytes(y, 1, held)};
    if (clusters && tile_bytes(y, blocks, 1) <= cluster_share)
        return {NORM_CLUSTER, blocks, chunks, tile_bytes(y, blocks, held)};
    if (!grids || chunks > context->multiprocessors) return {NORM_TWO, 0, 0, 0};
    blocks = chunk_blocks_for(y.pixels, chunks, context->multiprocessors);
    return {NORM_GRID, blocks, chunks, tile_bytes(y, blocks, held)};
}

norm_shape two_kernels(const ole_device_context *context, const cuda_layout &y) {
    int chunks = chunks_of(y.part[0].pitch);
    return {NORM_TWO, chunk_blocks_for(y.pixels, chunks, context->multiprocessors), chunks, 0};
}

void choose_shapes(const ole_device_context *context, norm_state *s) {
    const cuda_layout &x = s->base.x[0], &y = s->base.y;
    s->apply = two_kernels(context, y);
    s->forward = one_kernel(context, y, 1);
    if (s->forward.way != NORM_TWO && !norm_forward_fits(y.type, s->forward.tile))
        s->forward.way = NORM_TWO;
    s->backward = one_kernel(context, y, 2);
    if (s->backward.way != NORM_TWO && !norm_backward_fits(x, s->backward.tile))
        s->backward.way = NORM_TWO;
    if (x.stacked || s->forward.way == NORM_TWO) s->forward = s->apply;
    if (s->backward.way == NORM_TWO) s->backward = s->apply;
}

size_t partial_bytes(const norm_shape &shape) {
    return (size_t)shape.blocks * (size_t)shape.chunks * CHUNK_SUMS * sizeof(float);
}

size_t larger(size_t a, size_t b) {
    return a > b ? a : b;
}

ole_status plan_norm(const cuda_request *request, ole_op_plan *plan, ole_error *error) {
    const ole_node *node = request->node;
    if (request->n * node->in.h * node->in.w > INT32_MAX / 2)
        return ole_fail(error, OLE_ERROR_UNSUPPORTED, "%s: more than 2^30 pixels per batch",
                        node->name);
    norm_state *s = static_cast<norm_state *>(cuda_state_create(request, sizeof(norm_state), plan));
    if (!s) return ole_fail(error, OLE_ERROR_MEMORY, "out of memory");
    choose_shapes(request->context, s);
    s->packs = request->x[1] && request->x[1]->stacked;
    s->residual = s->base.y;
    size_t partials = larger(partial_bytes(s->forward), partial_bytes(s->backward));
    s->shared_at = cuda_aligned(larger(partials, partial_bytes(s->apply)));
    s->residual_at =
        cuda_aligned(s->shared_at + 3 * (size_t)s->base.y.part[0].pitch * sizeof(double));
    plan->scratch_bytes = s->residual_at + (s->packs ? s->residual.bytes : 0);
    plan->saved_bytes = 2 * (size_t)s->base.y.part[0].pitch * sizeof(float);
    plan->backward_reads_x = true;
    plan->backward_reads_y = node->relu && request->x[1];
    plan->in_place = !request->train && !s->base.x[0].stacked;
    plan->dx_in_place = !s->base.x[0].stacked;
    return OLE_OK;
}

/* ---- running ------------------------------------------------------------------------------ */

const float *affine_of(const cuda_call *c, int i) {
    return c->node->affine ? static_cast<const float *>(c->call->param[i]) : NULL;
}

float *running_of(const cuda_call *c, int i) {
    return static_cast<float *>(c->call->param[(c->node->affine ? 2 : 0) + i]);
}

void *packed_residual(const cuda_call *c) {
    const norm_state *s = static_cast<const norm_state *>(c->state);
    return static_cast<char *>(c->call->scratch) + s->residual_at;
}

double *shared_sums(const cuda_call *c) {
    const norm_state *s = static_cast<const norm_state *>(c->state);
    return reinterpret_cast<double *>(static_cast<char *>(c->call->scratch) + s->shared_at);
}

/* Values of a channel in the batch, other ranks' included where they count. */
double count_of(const cuda_call *c) {
    const norm_state *s = static_cast<const norm_state *>(c->state);
    if (!ole_norm_shared(c->call)) return (double)s->base.x[0].pixels;
    return (double)(c->call->share->rows * c->node->in.h * c->node->in.w);
}

void launch_forward(const cuda_call *c, norm_forward a) {
    const norm_state *s = static_cast<const norm_state *>(c->state);
    const cuda_layout &x = s->base.x[0];
    if (ole_norm_shared(c->call)) {
        a.shared = shared_sums(c);
        norm_share_forward(c->context, x, s->apply, a);
        cuda_share_sum(c->context, c->call->share, a.shared, 2 * (int64_t)a.pitch);
        a.source = NORM_SHARED;
    }
    norm_run_forward(c->context, x, a.source == NORM_SUMS ? s->forward : s->apply, a);
}

void run_forward(const cuda_call *c) {
    const norm_state *s = static_cast<const norm_state *>(c->state);
    const cuda_layout &x = s->base.x[0];
    double count = count_of(c);
    norm_forward a = {};
    a.x = c->call->x[0];
    a.residual = c->call->x[1];
    a.y = c->call->y;
    a.gamma = affine_of(c, 0);
    a.beta = affine_of(c, 1);
    a.running_mean = running_of(c, 0);
    a.running_var = running_of(c, 1);
    a.saved = static_cast<float *>(c->call->saved);
    a.partials = static_cast<float *>(c->call->scratch);
    a.pixels = (int)x.pixels;
    a.pitch = s->base.y.part[0].pitch;
    a.relu = c->node->relu;
    a.source = !c->call->train ? NORM_RUNNING : x.stacked ? NORM_MOMENTS : NORM_SUMS;
    a.inverse_count = 1 / count;
    a.inverse_unbiased = 1 / (count > 1 ? count - 1 : 1);
    if (s->packs) {
        cuda_pack(c->context, &s->base.x[1], a.residual, &s->residual, packed_residual(c));
        a.residual = packed_residual(c);
    }
    launch_forward(c, a);
}

/* Where the residual's gradient goes. */
void choose_dresidual(const cuda_call *c, norm_backward *a) {
    const norm_state *s = static_cast<const norm_state *>(c->state);
    void *given = c->call->dx[1];
    if (!given) return;
    a->both = given == c->call->dx[0] && !s->packs;
    if (a->both) return;
    a->dresidual = s->packs ? packed_residual(c) : given;
    a->add_residual = !s->packs && c->call->accumulate[1];
}

void launch_backward(const cuda_call *c, norm_backward a) {
    const norm_state *s = static_cast<const norm_state *>(c->state);
    const cuda_layout &x = s->base.x[0];
    if (!ole_norm_shared(c->call)) {
        norm_run_backward(c->context, x, s->backward, a);
        return;
    }
    a.shared = shared_sums(c);
    norm_share_backward(c->context, x, s->apply, a);
    cuda_share_sum(c->context, c->call->share, a.shared, 2 * (int64_t)a.pitch);
    norm_run_backward(c->context, x, s->apply, a);
}

void run_backward(const cuda_call *c) {
    const norm_state *s = static_cast<const norm_state *>(c->state);
    const cuda_layout &x = s->base.x[0];
    norm_backward a = {};
    a.x = c->call->x[0];
    a.dy = c->call->dy;
    a.y = c->node->relu && c->call->x[1] ? c->call->y : NULL;
    a.dx = c->call->dx[0];
    a.add = a.dx && c->call->accumulate[0];
    choose_dresidual(c, &a);
    a.relu = c->node->relu;
    a.gamma = affine_of(c, 0);
    a.beta = affine_of(c, 1);
    a.saved = static_cast<const float *>(c->call->saved);
    a.dgamma = c->node->affine ? static_cast<float *>(c->call->dparam[0]) : NULL;
    a.dbeta = c->node->affine ? static_cast<float *>(c->call->dparam[1]) : NULL;
    a.partials = static_cast<float *>(c->call->scratch);
    a.pixels = (int)x.pixels;
    a.pitch = s->base.y.part[0].pitch;
    a.inverse_count = 1 / count_of(c);
    launch_backward(c, a);
    if (s->packs && c->call->dx[1])
        cuda_unpack(c->context, &s->residual, packed_residual(c), &s->base.x[1],
                    c->call->accumulate[1], c->call->dx[1]);
}

} // namespace

const cuda_op cuda_norm = {true, plan_norm, run_forward, run_backward};
