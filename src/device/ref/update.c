/*
 * src/device/ref/update.c - one optimiser step on one parameter, as in torch.optim.SGD, Adam and
 * AdamW.
 *
 * Weight decay is the gradient of the L2 penalty: g = gradient + weight_decay * param.  Decoupled,
 * it is a step of its own: param -= lr * weight_decay * param.  Gradients are clipped by their
 * joint norm, as in torch.nn.utils.clip_grad_norm_.
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
    double correct1 = 1 - pow(u->beta1, (double)(u->step - u->begun));
    double correct2 = 1 - pow(u->beta2, (double)(u->step - u->begun));
    double penalty = u->decoupled ? 0.0 : u->weight_decay;
    double keep = u->decoupled ? 1 - u->lr * u->weight_decay : 1.0;
    for (int64_t i = 0; i < count; i++) {
        double g = (double)gradient[i] + penalty * (double)param[i];
        double m = u->beta1 * (double)first[i] + (1 - u->beta1) * g;
        double v = u->beta2 * (double)second[i] + (1 - u->beta2) * g * g;
        first[i] = (real)m;
        second[i] = (real)v;
        double step = u->lr / correct1 * m / (sqrt(v / correct2) + u->eps);
        param[i] = (real)(keep * (double)param[i] - step);
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

void REF(clip)(ole_device_context *context, double largest, const ole_update_item *items,
               int count) {
    (void)context;
    double squares = 0.0;
    for (int i = 0; i < count; i++) {
        const real *g = items[i].gradient;
        for (size_t k = 0; k < items[i].bytes / sizeof *g; k++)
            squares += (double)g[k] * (double)g[k];
    }
    double factor = largest / (sqrt(squares) + 1e-6);
    for (int i = 0; i < count && factor < 1.0; i++) {
        real *g = items[i].gradient;
        for (size_t k = 0; k < items[i].bytes / sizeof *g; k++)
            g[k] = (real)(factor * (double)g[k]);
    }
}

void REF(average)(ole_device_context *context, const ole_update *update,
                  const ole_update_item *items, int count) {
    (void)context;
    double part = 1 - ole_average_decay(update->average, update->step - update->begun);
    for (int i = 0; i < count; i++) {
        const real *p = items[i].data;
        real *average = items[i].state[0];
        for (size_t k = 0; k < items[i].bytes / sizeof *p; k++)
            average[k] = (real)((double)average[k] + part * ((double)p[k] - (double)average[k]));
    }
}
