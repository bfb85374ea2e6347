/*
 * src/loss/criteria/cosface.c - CosFace (Wang et al.: CosFace, Large Margin Cosine Loss for Deep
 * Face Recognition, CVPR 2018): the cross-entropy of logits scale cos θ_j, in which cos θ_y becomes
 * cos θ_y − margin.
 */
#include "loss/criteria/criterion.h"

static bool eval(ole_criterion_call *c, double *value) {
    int64_t size = c->rows * c->classes;
    double margin = c->param[0], scale = c->param[1];
    ole_criterion_class_cosines(c);
    for (int64_t i = 0; i < size; i++)
        c->logits[i] = scale * c->cosines[i];
    ole_criterion_count(c);
    for (int64_t i = 0; i < c->rows; i++)
        c->logits[i * c->classes + c->labels[i]] -= scale * margin;
    *value = ole_criterion_cross_entropy(c);
    for (int64_t i = 0; i < size; i++)
        c->dlogits[i] *= scale;
    ole_criterion_class_cosines_backward(c);
    return true;
}

const ole_criterion ole_cosface = {
    .name = "cosface",
    .title = "CosFace",
    .traits = OLE_CRITERION_HEAD | OLE_CRITERION_NO_BIAS | OLE_CRITERION_UNIT,
    .param = {{.name = "margin", .initial = 0.35, .min = 0.0, .max = 1.0},
              {.name = "scale", .initial = 64.0, .min = 1e-3, .max = 1e4}},
    .tuned = "scale",
    .grid = {4, 8, 16, 32, 64},
    .eval = eval,
};
