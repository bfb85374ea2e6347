/*
 * src/device/cpu/linear.c - the linear layer as three matrix products:
 *
 *     y[n, o] = bias[o] + sum over i of weight[o, i] * x[n, i]
 *
 * Everything is plain; any other x is converted in scratch.
 */
#include "base/error.h"
#include "device/cpu/cpu.h"

#include <string.h>

/* Bytes of the plain copy of x, which precedes the scratch of the products. */
static size_t copy_bytes(const cpu_state *s) {
    if (!s->x_layout[0]) return 0;
    return cpu_whole_lines((size_t)(s->n * ole_shape_size(s->x_shape[0])) * sizeof(float));
}

static ole_status plan_linear(const cpu_plan_request *r, ole_op_plan *plan, ole_error *error) {
    cpu_state *state = cpu_state_create(r, NULL, sizeof *state, plan);
    if (!state) return ole_fail(error, OLE_ERROR_MEMORY, "out of memory");
    int64_t in = ole_shape_size(r->node->in), out = ole_shape_size(r->node->out);
    size_t most = cpu_gemm_scratch(r->context, r->n, in);
    if (r->train) {
        size_t data = cpu_gemm_scratch(r->context, r->n, out);
        size_t weight = cpu_gemm_scratch(r->context, out, r->n);
        if (data > most) most = data;
        if (weight > most) most = weight;
    }
    plan->scratch_bytes = copy_bytes(state) + most;
    plan->backward_reads_x = true;
    return OLE_OK;
}

static const float *plain_x(const cpu_call *c) {
    const cpu_state *s = c->state;
    if (!s->x_layout[0]) return c->call->x[0];
    cpu_convert(c->context, s->x_layout[0], NULL, s->n, s->x_shape[0], c->call->x[0], false,
                c->call->scratch);
    return c->call->scratch;
}

static float *product_scratch(const cpu_call *c) {
    return (float *)((char *)c->call->scratch + copy_bytes(c->state));
}

static void forward(const cpu_call *c) {
    const cpu_state *s = c->state;
    int64_t in = ole_shape_size(c->node->in), out = ole_shape_size(c->node->out);
    float *y = c->call->y;
    for (int64_t n = 0; c->node->bias && n < s->n; n++)
        memcpy(y + n * out, c->call->param[1], (size_t)out * sizeof *y);
    cpu_gemm_run(c->context, &(cpu_gemm){.transpose_b = true,
                                         .m = s->n,
                                         .n = out,
                                         .k = in,
                                         .a = plain_x(c),
                                         .lda = in,
                                         .b = c->call->param[0],
                                         .ldb = in,
                                         .add = c->node->bias,
                                         .c = y,
                                         .ldc = out,
                                         .scratch = product_scratch(c)});
}

static void backward_input(const cpu_call *c) {
    const cpu_state *s = c->state;
    int64_t in = ole_shape_size(c->node->in), out = ole_shape_size(c->node->out);
    bool plain = !s->x_layout[0], add = c->call->accumulate[0];
    cpu_gemm_run(c->context, &(cpu_gemm){.m = s->n,
                                         .n = in,
                                         .k = out,
                                         .a = c->call->dy,
                                         .lda = out,
                                         .b = c->call->param[0],
                                         .ldb = in,
                                         .add = plain && add,
                                         .c = plain ? c->call->dx[0] : c->call->scratch,
                                         .ldc = in,
                                         .scratch = product_scratch(c)});
    if (!plain)
        cpu_convert(c->context, NULL, s->x_layout[0], s->n, s->x_shape[0], c->call->scratch, add,
                    c->call->dx[0]);
}

/* Column sums of dy [rows, channels], plain, in double: the gradient of a bias. */
static void column_sums(int64_t rows, int64_t channels, const float *dy, float *sums) {
    enum { WIDE = 64 };
    for (int64_t first = 0; first < channels; first += WIDE) {
        double sum[WIDE] = {0};
        int64_t wide = channels - first < WIDE ? channels - first : WIDE;
        for (int64_t r = 0; r < rows; r++)
            for (int64_t i = 0; i < wide; i++)
                sum[i] += (double)dy[r * channels + first + i];
        for (int64_t i = 0; i < wide; i++)
            sums[first + i] = (float)sum[i];
    }
}

static void backward(const cpu_call *c) {
    const cpu_state *s = c->state;
    int64_t in = ole_shape_size(c->node->in), out = ole_shape_size(c->node->out);
    if (c->call->dparam[0])
        cpu_gemm_run(c->context, &(cpu_gemm){.transpose_a = true,
                                             .m = out,
                                             .n = in,
                                             .k = s->n,
                                             .a = c->call->dy,
                                             .lda = out,
                                             .b = plain_x(c),
                                             .ldb = in,
                                             .c = c->call->dparam[0],
                                             .ldc = in,
                                             .scratch = product_scratch(c)});
    if (c->node->bias && c->call->dparam[1])
        column_sums(s->n, out, c->call->dy, c->call->dparam[1]);
    if (c->call->dx[0]) backward_input(c);
}

const cpu_op cpu_op_linear = {plan_linear, forward, backward};
