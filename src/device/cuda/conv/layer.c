/*
 * src/device/cuda/conv/layer.c - planning layers with weights: their passes, each a problem of
 * which tune.c knows the best way.
 */
#include "device/cuda/conv/layer.h"

#include "base/error.h"

#include <stdlib.h>

/* What is planned, and for whom. */
typedef struct planning {
    const cuda_request *request;
    const cuda_problem *problem;
    ole_error *error;
} planning;

static ole_status find(const planning *p, cuda_pass pass, bool add, const cuda_solver **solver) {
    const ole_node *node = p->request->node;
    cuda_problem problem = *p->problem;
    problem.pass = pass;
    problem.add = add;
    problem.bias = pass == CUDA_PASS_FORWARD && node->bias;
    return cuda_solver_find(p->request->context, &problem, node->name, solver, p->error);
}

static ole_status find_all(const planning *p, cuda_layer *layer) {
    ole_status status = find(p, CUDA_PASS_FORWARD, false, &layer->forward);
    if (status != OLE_OK || !p->request->train) return status;
    status = find(p, CUDA_PASS_WEIGHT, false, &layer->weight);
    if (status != OLE_OK || !p->request->needs_dx) return status;
    status = find(p, CUDA_PASS_DATA, false, &layer->data);
    if (status != OLE_OK) return status;
    return find(p, CUDA_PASS_DATA, true, &layer->data_add);
}

ole_status cuda_layer_plan(const cuda_request *request, const cuda_problem *problem,
                           ole_op_plan *plan, ole_error *error) {
    cuda_layer *layer = cuda_state_create(request, sizeof *layer, plan);
    if (!layer) return ole_fail(error, OLE_ERROR_MEMORY, "out of memory");
    layer->weight_size = cuda_problem_w(problem);
    ole_status status = find_all(&(planning){request, problem, error}, layer);
    if (status != OLE_OK) {
        free(layer);
        plan->state = NULL;
        return status;
    }
    plan->backward_reads_x = true;
    if (layer->data_add) plan->scratch_bytes = cuda_solver_scratch(layer->data_add);
    return OLE_OK;
}
