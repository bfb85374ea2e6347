/*
 * src/device/ref/update.c - one optimiser step on one parameter, as in torch.optim.SGD and Adam.
 *
 * Weight decay is the gradient of the L2 penalty: g = gradient + weight_decay * param.
 */
#include "device/ref/ref.h"

#include <math.h>

/* b = momentum b + g; param -= lr (g + momentum b) with Nesterov, else lr b. b starts at 0. */
static void sgd(const ole_update *u, int64_t count, real *param, const real *gradient,
                real *buffer) {
    for (int64_t i = 0; i < count; i++) {
        double g = (double)gradient[i] + u->weight_decay * (double)param[i];
        if (u->momentum != 0) {
            double b = u->momentum * (double)buffer[i] + g;
            buffer[i] = (real)b;
            g = u->nesterov ? g + u->momentum * b : b;
        }
        param[i] = (real)((double)param[i] - u->lr * g);
    }
}

/* The correction factors undo the bias of moments that start at 0. */
static void adam(const ole_update *u, int64_t count, real *param, const real *gradient, real *first,
                 real *second) {
    double correct1 = 1 - pow(u->beta1, (double)u->step);
    double correct2 = 1 - pow(u->beta2, (double)u->step);
    for (int64_t i = 0; i < count; i++) {
        double g = (double)gradient[i] + u->weight_decay * (double)param[i];
        double m = u->beta1 * (double)first[i] + (1 - u->beta1) * g;
        double v = u->beta2 * (double)second[i] + (1 - u->beta2) * g * g;
        first[i] = (real)m;
        second[i] = (real)v;
        double step = u->lr / correct1 * m / (sqrt(v / correct2) + u->eps);
        param[i] = (real)((double)param[i] - step);
    }
}

void REF(update)(ole_device_context *context, const ole_update *update, size_t bytes, void *param,
                 const void *gradient, void *state[2]) {
    (void)context;
    int64_t count = (int64_t)(bytes / sizeof(real));
    if (update->kind == OLE_UPDATE_SGD)
        sgd(update, count, param, gradient, state[0]);
    else
        adam(update, count, param, gradient, state[0], state[1]);
}
