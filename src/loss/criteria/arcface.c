/*
 * src/loss/criteria/arcface.c - ArcFace (Deng, Guo, Xue, Zafeiriou: ArcFace, Additive Angular
 * Margin Loss for Deep Face Recognition, CVPR 2019): the cross-entropy of logits scale cos θ_j, in
 * which cos θ_y becomes cos(θ_y + margin), and past θ_y = π − margin, where that would rise again,
 * cos θ_y − margin sin margin, as in the authors' code.
 */
#include "loss/criteria/criterion.h"

#include <math.h>

/* Under this sin θ the derivative of cos(θ + margin), which has no bound, stays as it is. */
static const double LEAST_SINE = 1e-6;

static bool eval(ole_criterion_call *c, double *value) {
    int64_t size = c->rows * c->classes;
    double margin = c->param[0], scale = c->param[1];
    ole_criterion_class_cosines(c);
    for (int64_t i = 0; i < size; i++)
        c->logits[i] = scale * c->cosines[i];
    ole_criterion_count(c);
    for (int64_t i = 0; i < c->rows; i++) {
        int64_t at = i * c->classes + c->labels[i];
        double x = c->cosines[at], sine = sqrt(fmax(0.0, 1.0 - x * x));
        bool past = x < -cos(margin);
        c->slope[i] = past ? 1.0 : cos(margin) + x * sin(margin) / fmax(sine, LEAST_SINE);
        x = past ? x - margin * sin(margin) : x * cos(margin) - sine * sin(margin);
        c->logits[at] = scale * x;
    }
    *value = ole_criterion_cross_entropy(c);
    for (int64_t i = 0; i < size; i++)
        c->dlogits[i] *= scale;
    for (int64_t i = 0; i < c->rows; i++)
        c->dlogits[i * c->classes + c->labels[i]] *= c->slope[i];
    ole_criterion_class_cosines_backward(c);
    return true;
}

const ole_criterion ole_arcface = {
    .name = "arcface",
    .title = "ArcFace",
    .traits = OLE_CRITERION_HEAD | OLE_CRITERION_NO_BIAS | OLE_CRITERION_UNIT,
    .param = {{.name = "margin", .initial = 0.5, .min = 0.0, .max = 1.5},
              {.name = "scale", .initial = 64.0, .min = 1e-3, .max = 1e4}},
    .tuned = "scale",
    .grid = {4, 8, 16, 32, 64},
    .eval = eval,
};
