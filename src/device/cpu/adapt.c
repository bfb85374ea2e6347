/*
 * src/device/cpu/adapt.c - ops that do not know the stacked layout read and write blocked copies in
 * scratch.  Networks of the paper do not need it: what follows a concatenation there is a norm.
 */
#include "device/cpu/cpu.h"

static bool knows_stacked(ole_op op) {
    return op == OLE_OP_NORM || op == OLE_OP_CONCAT;
}

void cpu_adapt_request(cpu_plan_request *r, cpu_adapted *adapted) {
    *adapted = (cpu_adapted){0};
    for (int i = 0; i < OLE_MAX_INPUTS; i++) {
        adapted->given[i] = r->x_layout[i];
        adapted->is[i] = r->x_layout[i] == &cpu_stacked && !knows_stacked(r->node->op);
        if (adapted->is[i]) r->x_layout[i] = cpu_best_layout(r->context, r->x_shape[i]);
    }
}

/* The next `bytes` of scratch, which begin on a line. */
static size_t take(ole_op_plan *plan, size_t bytes) {
    size_t first = (plan->scratch_bytes + 63) / 64 * 64;
    plan->scratch_bytes = first + bytes;
    return first;
}

void cpu_adapt_plan(const cpu_plan_request *r, cpu_adapted *adapted, ole_op_plan *plan) {
    for (int i = 0; i < OLE_MAX_INPUTS; i++) {
        if (!adapted->is[i]) continue;
        cpu_view x = cpu_view_images(r->context, r->x_layout[i], r->n, r->x_shape[i]);
        adapted->x[i] = take(plan, (size_t)x.size * x.item);
        if (r->train) adapted->dx[i] = take(plan, (size_t)x.size * x.item);
        plan->in_place = plan->dx_in_place = false;
    }
    ((cpu_state *)plan->state)->adapted = *adapted;
}

void cpu_adapt_call(const cpu_call *given, ole_op_call *adapted) {
    const cpu_state *s = given->state;
    char *scratch = given->call->scratch;
    *adapted = *given->call;
    for (int i = 0; i < OLE_MAX_INPUTS; i++) {
        if (!s->adapted.is[i]) continue;
        void *x = scratch + s->adapted.x[i];
        if (given->call->x[i])
            cpu_convert(given->context, s->adapted.given[i], s->x_layout[i], s->n, s->x_shape[i],
                        given->call->x[i], false, x);
        adapted->x[i] = x;
        if (adapted->dx[i]) adapted->dx[i] = scratch + s->adapted.dx[i];
        adapted->accumulate[i] = false;
    }
}

void cpu_adapt_gradients(const cpu_call *given, const ole_op_call *adapted) {
    const cpu_state *s = given->state;
    for (int i = 0; i < OLE_MAX_INPUTS; i++)
        if (s->adapted.is[i] && given->call->dx[i])
            cpu_convert(given->context, s->x_layout[i], s->adapted.given[i], s->n, s->x_shape[i],
                        adapted->dx[i], given->call->accumulate[i], given->call->dx[i]);
}
