/* tests/support/op_checks.c - a backend against ref64. */
#include "op_checks.h"

#include "random.h"
#include "test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

ole_device_context *op_open(const ole_backend *backend, ole_conv_choice conv, uint64_t seed) {
    ole_device_options options = {.threads = 2, .conv = conv, .seed = seed};
    ole_device_context *context;
    ole_error error;
    assert_ok(backend->open(&context, &options, &error), &error);
    return context;
}

void op_run_alone(const ole_backend *backend, const op_case *c, op_way way, op_data *data) {
    ole_device_context *context = op_open(backend, OLE_CONV_DIRECT, 1);
    ole_error error;
    assert_ok(op_run(backend, context, c, way, data, &error), &error);
    backend->close(context);
}

/* ---- ops ------------------------------------------------------------------------------------ */

static const op_way ways[] = {
    {0},
    {.accumulate = true},
    {.blocked = true},
    {.blocked = true, .accumulate = true},
    {.in_place = true},
    {.in_place = true, .blocked = true},
    {.only_dx = true, .blocked = true},
    {.only_dparam = true},
    {.eval = true},
    {.eval = true, .blocked = true, .in_place = true},
};

static void check_case(const ole_backend *backend, ole_device_context *context, const op_case *c,
                       op_way way, double bound) {
    ole_error error;
    op_data found = op_data_make(c, 5), expected = op_data_copy(&found);
    way.step = 3;
    op_run_alone(&ole_backend_ref64, c, way, &expected);
    assert_ok(op_run(backend, context, c, way, &found, &error), &error);
    op_worst worst = op_compare(&found, &expected);
    if (worst.error > bound)
        fail_msg("%s on %s: %s is off by %.2g%s%s%s%s%s%s", op_case_text(c).text, backend->name,
                 worst.tensor, worst.error, way.eval ? ", eval" : "",
                 way.accumulate ? ", accumulate" : "", way.blocked ? ", blocked" : "",
                 way.in_place ? ", in place" : "", way.only_dx ? ", only dx" : "",
                 way.only_dparam ? ", only dparam" : "");
    op_data_free(&found);
    op_data_free(&expected);
}

void check_ops(const ole_backend *backend, ole_conv_choice conv, double bound) {
    ole_device_context *context = op_open(backend, conv, 1);
    for (int i = 0; i < op_case_count; i++)
        for (size_t k = 0; k < sizeof ways / sizeof *ways; k++)
            check_case(backend, context, &op_cases[i], ways[k], bound);
    backend->close(context);
}

/* ---- softmax and optimisers: vectors in the backend's memory -------------------------------- */

/* Plain numbers into a fresh piece of the backend's memory. */
static void *send(const ole_backend *backend, ole_device_context *context, const double *from,
                  int64_t count) {
    size_t bytes = (size_t)count * backend->element_size;
    void *to = backend->allocate(context, bytes);
    assert_non_null(to);
    for (int64_t i = 0; i < count; i++)
        if (backend->element_size == sizeof(double))
            ((double *)to)[i] = from[i];
        else
            ((float *)to)[i] = (float)from[i];
    return to;
}

static double element(const ole_backend *backend, const void *memory, int64_t i) {
    return backend->element_size == sizeof(double) ? ((const double *)memory)[i]
                                                   : (double)((const float *)memory)[i];
}

typedef struct softmax_result {
    double loss, gradient[256];
    float scores[256];
    int64_t correct;
} softmax_result;

static softmax_result run_softmax(const ole_backend *backend, int64_t n, int64_t classes,
                                  const double *logits, const int32_t *labels) {
    softmax_result result;
    ole_device_context *context = op_open(backend, OLE_CONV_AUTO, 1);
    void *z = send(backend, context, logits, n * classes);
    void *dz = send(backend, context, logits, n * classes);
    double loss;
    int64_t correct;
    backend->softmax_loss(context, n, classes, z, labels, 0.0, NULL, NULL, &loss, &correct);
    backend->softmax_loss(context, n, classes, z, labels, 0.25, dz, result.scores, &result.loss,
                          &result.correct);
    assert_true(loss == result.loss && correct == result.correct);
    for (int64_t i = 0; i < n * classes; i++)
        result.gradient[i] = element(backend, dz, i);
    backend->free(context, z);
    backend->free(context, dz);
    backend->close(context);
    return result;
}

static void check_softmax_of(const ole_backend *backend, int64_t n, int64_t classes, double size,
                             double bound) {
    test_random r = {(uint64_t)(n * 100 + classes)};
    double logits[256];
    int32_t labels[64];
    for (int64_t i = 0; i < n * classes; i++)
        logits[i] = (double)(float)(size * random_normal(&r));
    for (int64_t i = 0; i < n; i++)
        labels[i] = (int32_t)random_below(&r, classes);
    softmax_result found = run_softmax(backend, n, classes, logits, labels);
    softmax_result expected = run_softmax(&ole_backend_ref64, n, classes, logits, labels);
    assert_true(fabs(found.loss - expected.loss) <= bound * fmax(1, expected.loss));
    assert_int_equal(found.correct, expected.correct);
    for (int64_t i = 0; i < n * classes; i++) {
        assert_true(fabs(found.gradient[i] - expected.gradient[i]) <= bound / (double)n);
        assert_true(fabs((double)found.scores[i] - (double)expected.scores[i]) <= bound);
    }
}

void check_softmax(const ole_backend *backend, double bound) {
    check_softmax_of(backend, 1, 1, 1, bound);
    check_softmax_of(backend, 1, 10, 1, bound);
    check_softmax_of(backend, 7, 3, 2, bound);
    check_softmax_of(backend, 25, 10, 5, bound);
    check_softmax_of(backend, 6, 17, 1e4, bound);
}

enum { PARAMS = 37, STEPS = 6 };

/* The gradient that a step sees: any function of step, place and parameter will do. */
static double gradient_of(int step, int i, double param) {
    return sin(1.7 * step + i) + 0.3 * param;
}

static void run_updates(const ole_backend *backend, ole_update update, double *param) {
    ole_device_context *context = op_open(backend, OLE_CONV_AUTO, 1);
    double zero[PARAMS] = {0}, gradient[PARAMS];
    void *p = send(backend, context, param, PARAMS);
    void *state[2] = {send(backend, context, zero, PARAMS), send(backend, context, zero, PARAMS)};
    for (update.step = 1; update.step <= STEPS; update.step++) {
        for (int i = 0; i < PARAMS; i++)
            gradient[i] = gradient_of((int)update.step, i, element(backend, p, i));
        void *g = send(backend, context, gradient, PARAMS);
        backend->update(context, &update, PARAMS * backend->element_size, p, g, state);
        backend->free(context, g);
    }
    for (int i = 0; i < PARAMS; i++)
        param[i] = element(backend, p, i);
    backend->free(context, p);
    backend->free(context, state[0]);
    backend->free(context, state[1]);
    backend->close(context);
}

void check_updates(const ole_backend *backend, double bound) {
    static const ole_update updates[] = {
        {OLE_UPDATE_SGD, .lr = 0.1},
        {OLE_UPDATE_SGD, .lr = 0.1, .weight_decay = 1e-2, .momentum = 0.9},
        {OLE_UPDATE_SGD, .lr = 0.1, .weight_decay = 1e-2, .momentum = 0.9, .nesterov = true},
        {OLE_UPDATE_ADAM, .lr = 1e-2, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8},
        {OLE_UPDATE_ADAM, .lr = 1e-2, .weight_decay = 1e-2, .beta1 = 0.8, .beta2 = 0.9,
         .eps = 1e-3},
    };
    for (size_t k = 0; k < sizeof updates / sizeof *updates; k++) {
        double found[PARAMS], expected[PARAMS];
        for (int i = 0; i < PARAMS; i++)
            found[i] = expected[i] = (double)(float)cos(i);
        run_updates(backend, updates[k], found);
        run_updates(&ole_backend_ref64, updates[k], expected);
        for (int i = 0; i < PARAMS; i++)
            if (!(fabs(found[i] - expected[i]) <= bound))
                fail_msg("update %d on %s: parameter %d is %.9g, not %.9g", (int)k, backend->name,
                         i, found[i], expected[i]);
    }
}
