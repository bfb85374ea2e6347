/*
 * src/device/cpu/adapt.c - converts stacked inputs to blocked copies in scratch for ops that cannot
 * read them.  The paper's networks do not need it: there, a norm follows every concatenation.
 */
#include "device/cpu/cpu.h"

void cpu_adapt_request(cpu_plan_request *r, cpu_adapted *adapted) {
    *adapted = (cpu_adapted){0};
    for (int i = 0; i < OLE_MAX_INPUTS; i++) {
        adapted->given[i] = r->x_layout[i];
        bool stacked = r->x_layout[i] == &cpu_stacked;
        adapted->is[i] = stacked && r->node->op != OLE_OP_NORM && r->node->op != OLE_OP_CONCAT;
        if (adapted->is[i]) r->x_layout[i] = cpu_best_layout(r->context, r->x_shape[i]);
    }
}

/* Reserves `bytes` of scratch, aligned to a cache line; returns their offset. */
static size_t take_scratch(ole_op_plan *plan, size_t bytes) {
    size_t first = cpu_whole_lines(plan->scratch_bytes);
    plan->scratch_bytes = first + bytes;
    return first;
}

void cpu_adapt_plan(const cpu_plan_request *r, cpu_adapted *adapted, ole_op_plan *plan) {
    for (int i = 0; i < OLE_MAX_INPUTS; i++) {
        if (!adapted->is[i]) continue;
        cpu_view x = cpu_view_images(r->context, r->x_layout[i], r->n, r->x_shape[i]);
        adapted->x[i] = take_scratch(plan, (size_t)x.size * x.item);
        if (r->train) adapted->dx[i] = take_scratch(plan, (size_t)x.size * x.item);
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
