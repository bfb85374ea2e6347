/* tests/support/op_checks.c - a backend against ref64. */
#include "op_checks.h"

#include "random.h"
#include "test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static ole_device_context *open_with(const ole_backend *backend, ole_device_options options) {
    ole_device_context *context;
    ole_error error;
    options.threads = 2;
    assert_ok(backend->open(&context, &options, &error), &error);
    return context;
}

ole_device_context *op_open(const ole_backend *backend, ole_conv_choice conv, uint64_t seed) {
    return open_with(backend, (ole_device_options){.conv = conv, .seed = seed});
}

void op_run_alone(const ole_backend *backend, const op_case *c, op_way way, op_data *data) {
    ole_device_context *context = op_open(backend, OLE_CONV_DIRECT, 1);
    ole_error error;
    assert_ok(op_run(backend, context, c, way, data, &error), &error);
    backend->close(context);
}

/* ---- ops ------------------------------------------------------------------------------------ */

static const op_way all_ways[] = {
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
    {.shared = true},
    {.shared = true, .blocked = true, .accumulate = true},
    {.shared = true, .only_dparam = true},
};

static const op_way few_ways[] = {
    /* the first will do for a convolution */
    {.accumulate = true},
    {.in_place = true},
    {.eval = true},
    {.shared = true, .accumulate = true},
};

/* A backend at work, and how exact it must be. */
typedef struct checked {
    const ole_backend *backend;
    ole_device_context *context;
    bool narrow; /* numbers are given in bfloat16 */
    const op_way *ways;
    size_t way_count;
    double bound;
} checked;

#define IN_WAYS(list) .ways = (list), .way_count = sizeof(list) / sizeof *(list)

static void check_case(const checked *with, const op_case *c, const op_data *given, op_way way) {
    const ole_backend *backend = with->backend;
    ole_error error;
    op_data found = op_data_copy(given), expected = op_data_copy(given);
    way.step = 3;
    op_run_alone(&ole_backend_ref64, c, way, &expected);
    assert_ok(op_run(backend, with->context, c, way, &found, &error), &error);
    if (backend->wait) assert_ok(backend->wait(with->context, &error), &error);
    op_worst worst = op_compare(&found, &expected);
    if (worst.error > with->bound)
        fail_msg("%s on %s: %s is off by %.2g%s%s%s%s%s%s%s", op_case_text(c).text, backend->name,
                 worst.tensor, worst.error, way.eval ? ", eval" : "",
                 way.accumulate ? ", accumulate" : "", way.blocked ? ", blocked" : "",
                 way.in_place ? ", in place" : "", way.only_dx ? ", only dx" : "",
                 way.only_dparam ? ", only dparam" : "", way.shared ? ", shared" : "");
    op_data_free(&found);
    op_data_free(&expected);
}

static void check_in_ways(const checked *with, const op_case *c) {
    if (c->sum && !with->backend->fuses_add) return;
    op_data given = op_data_make(c, 5);
    if (with->narrow) op_data_narrow(&given);
    for (size_t k = 0; k < with->way_count; k++)
        check_case(with, c, &given, with->ways[k]);
    op_data_free(&given);
}

void check_ops(const ole_backend *backend, ole_conv_choice conv, double bound) {
    checked with = {.backend = backend,
                    .context = op_open(backend, conv, 1),
                    IN_WAYS(all_ways),
                    .bound = bound};
    for (int i = 0; i < op_case_count; i++)
        check_in_ways(&with, &op_cases[i]);
    backend->close(with.context);
}

static checked open_in(const ole_backend *backend, ole_precision precision, double bound) {
    const ole_device_options options = {.precision = precision, .seed = 1};
    return (checked){.backend = backend,
                     .context = open_with(backend, options),
                     .narrow = precision == OLE_PRECISION_BF16,
                     IN_WAYS(all_ways),
                     .bound = bound};
}

void check_ops_in(const ole_backend *backend, ole_precision precision, bool large, double bound) {
    checked with = open_in(backend, precision, bound);
    for (int i = 0; i < op_case_count; i++)
        check_in_ways(&with, &op_cases[i]);
    for (int i = 0; large && i < op_large_case_count; i++)
        check_in_ways(&with, &op_large_cases[i]);
    backend->close(with.context);
}

void check_watched_ops(const ole_backend *backend, ole_precision precision, op_wanted *wanted,
                       double bound) {
    checked with = open_in(backend, precision, bound);
    with.ways = few_ways;
    for (int i = 0; i < op_watched_case_count; i++) {
        const op_case *c = &op_watched_cases[i];
        with.way_count = c->op == OLE_OP_CONV ? 1 : sizeof few_ways / sizeof *few_ways;
        if (wanted(c)) check_in_ways(&with, c);
    }
    backend->close(with.context);
}

/* ---- softmax and optimisers: vectors in the backend's memory -------------------------------- */

/* Plain numbers into a fresh piece of the backend's memory. */
static void *send(const ole_backend *backend, ole_device_context *context, const double *from,
                  int64_t count) {
    size_t bytes = (size_t)count * backend->element_size;
    void *to = backend->allocate(context, bytes), *host = malloc(bytes);
    assert_non_null(to);
    assert_non_null(host);
    for (int64_t i = 0; i < count; i++)
        if (backend->element_size == sizeof(double))
            ((double *)host)[i] = from[i];
        else
            ((float *)host)[i] = (float)from[i];
    if (backend->copy_in)
        backend->copy_in(context, host, bytes, to);
    else
        memcpy(to, host, bytes);
    free(host);
    return to;
}

static double element(const ole_backend *backend, ole_device_context *context, const void *memory,
                      int64_t i) {
    union {
        double wide;
        float narrow;
    } value;
    const char *at = (const char *)memory + (size_t)i * backend->element_size;
    if (backend->copy_out)
        backend->copy_out(context, at, backend->element_size, &value);
    else
        memcpy(&value, at, backend->element_size);
    return backend->element_size == sizeof(double) ? value.wide : (double)value.narrow;
}

/* The same as vectors of n rows: a backend with memory of its own pads them. */
static void *send_rows(const ole_backend *backend, ole_device_context *context, int64_t n,
                       int64_t width, const double *from) {
    if (!backend->own_memory) return send(backend, context, from, n * width);
    const ole_node input = {.op = OLE_OP_INPUT, .input = {-1, -1}, .out = {width, 1, 1}};
    const ole_layout none[OLE_MAX_INPUTS] = {NULL};
    ole_op_plan plan;
    ole_error error;
    float plain[256];
    for (int64_t i = 0; i < n * width; i++)
        plain[i] = (float)from[i];
    assert_ok(backend->plan_op(context, &input, n, true, true, none, &plan, &error), &error);
    void *to = backend->allocate(context, plan.y_bytes);
    assert_non_null(to);
    backend->from_plain(context, plan.y_layout, n, input.out, plain, false, to);
    backend->release_op(context, &plan);
    return to;
}

static void read_rows(const ole_backend *backend, ole_device_context *context, int64_t n,
                      int64_t width, const void *from, double *to) {
    float plain[256];
    if (backend->own_memory) {
        backend->to_plain(context, NULL, n, (ole_shape){width, 1, 1}, from, plain);
        for (int64_t i = 0; i < n * width; i++)
            to[i] = (double)plain[i];
        return;
    }
    for (int64_t i = 0; i < n * width; i++)
        to[i] = element(backend, context, from, i);
}

typedef struct softmax_result {
    double loss, gradient[256];
    float scores[256];
    int64_t correct;
} softmax_result;

static softmax_result run_softmax(const ole_backend *backend, int64_t n, int64_t classes,
                                  const double *logits, const int32_t *labels, const ole_mix *mix,
                                  double smoothing) {
    softmax_result result;
    ole_device_context *context = op_open(backend, OLE_CONV_AUTO, 1);
    void *z = send_rows(backend, context, n, classes, logits);
    void *dz = send_rows(backend, context, n, classes, logits);
    double loss;
    int64_t correct;
    backend->softmax_loss(context, n, classes, z, labels, mix, smoothing, 0.0, NULL, NULL, &loss,
                          &correct);
    backend->softmax_loss(context, n, classes, z, labels, mix, smoothing, 0.25, dz, result.scores,
                          &result.loss, &result.correct);
    assert_true(loss == result.loss && correct == result.correct);
    read_rows(backend, context, n, classes, dz, result.gradient);
    backend->free(context, z);
    backend->free(context, dz);
    backend->close(context);
    return result;
}

static void check_softmax_rows(const ole_backend *backend, int64_t n, int64_t classes,
                               const double *logits, const int32_t *labels, const ole_mix *mix,
                               double smoothing, double bound) {
    softmax_result found = run_softmax(backend, n, classes, logits, labels, mix, smoothing);
    softmax_result expected =
        run_softmax(&ole_backend_ref64, n, classes, logits, labels, mix, smoothing);
    assert_true(fabs(found.loss - expected.loss) <= bound * fmax(1, expected.loss));
    assert_int_equal(found.correct, expected.correct);
    for (int64_t i = 0; i < n * classes; i++) {
        assert_true(fabs(found.gradient[i] - expected.gradient[i]) <= bound / (double)n);
        assert_true(fabs((double)found.scores[i] - (double)expected.scores[i]) <= bound);
    }
}

/* Mixed labels are the sum of both losses, each by its share. */
static void check_mixed(const ole_backend *backend, int64_t n, int64_t classes,
                        const double *logits, const int32_t *labels, const ole_mix *mix,
                        double smoothing) {
    softmax_result found = run_softmax(backend, n, classes, logits, labels, mix, smoothing);
    softmax_result own = run_softmax(backend, n, classes, logits, labels, NULL, smoothing);
    softmax_result other = run_softmax(backend, n, classes, logits, mix->labels, NULL, smoothing);
    double share = (double)*mix->share, size = fmax(1, fmax(own.loss, other.loss));
    double loss = share * own.loss + (1 - share) * other.loss;
    assert_true(fabs(found.loss - loss) <= 1e-13 * size);
    assert_int_equal(found.correct, own.correct);
    for (int64_t i = 0; i < n * classes; i++)
        assert_true(fabs(found.gradient[i] - share * own.gradient[i] -
                         (1 - share) * other.gradient[i]) <= 1e-13);
}

static void check_softmax_of(const ole_backend *backend, int64_t n, int64_t classes, double size,
                             double smoothing, double bound) {
    test_random r = {(uint64_t)(n * 100 + classes)};
    double logits[256];
    int32_t labels[64];
    for (int64_t i = 0; i < n * classes; i++)
        logits[i] = (double)(float)(size * random_normal(&r));
    for (int64_t i = 0; i < n; i++)
        labels[i] = (int32_t)random_below(&r, classes);
    check_softmax_rows(backend, n, classes, logits, labels, NULL, smoothing, bound);
    float share = 0.5f + 0.5f * (float)random_below(&r, 100) / 100;
    int32_t others[64];
    for (int64_t i = 0; i < n; i++)
        others[i] = (int32_t)random_below(&r, classes);
    const ole_mix mix = {others, &share};
    check_softmax_rows(backend, n, classes, logits, labels, &mix, smoothing, bound);
    check_mixed(&ole_backend_ref64, n, classes, logits, labels, &mix, smoothing);
}

void check_softmax(const ole_backend *backend, double bound) {
    for (int smooth = 0; smooth < 2; smooth++) {
        double smoothing = 0.125 * smooth;
        check_softmax_of(backend, 1, 1, 1, smoothing, bound);
        check_softmax_of(backend, 1, 10, 1, smoothing, bound);
        check_softmax_of(backend, 7, 3, 2, smoothing, bound);
        check_softmax_of(backend, 25, 10, 5, smoothing, bound);
        check_softmax_of(backend, 6, 17, 1e4, smoothing, bound);
    }
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
            gradient[i] = gradient_of((int)update.step, i, element(backend, context, p, i));
        void *g = send(backend, context, gradient, PARAMS);
        backend->update(context, &update, PARAMS * backend->element_size, p, g, state);
        backend->free(context, g);
    }
    for (int i = 0; i < PARAMS; i++)
        param[i] = element(backend, context, p, i);
    backend->free(context, p);
    backend->free(context, state[0]);
    backend->free(context, state[1]);
    backend->close(context);
}

/* Two gradients, large enough for several parts or tiles, clipped by their joint norm; returns how
 * far an element is at most from what it was times `factor`. */
static double clip(const ole_backend *backend, double largest, double factor) {
    enum { MANY = 20000 };
    static double values[MANY];
    static const int64_t counts[] = {PARAMS, MANY};
    ole_device_context *context = op_open(backend, OLE_CONV_AUTO, 2);
    ole_node node = {0};
    ole_param param[2];
    ole_update_item items[2];
    double worst = 0.0;
    for (int k = 0; k < 2; k++) {
        for (int64_t i = 0; i < counts[k]; i++)
            values[i] = (double)(float)sin((double)(i + k));
        void *gradient = send(backend, context, values, counts[k]);
        param[k] = (ole_param){.kind = OLE_PARAM_BIAS, .count = counts[k]};
        items[k] = (ole_update_item){.node = &node,
                                     .param = &param[k],
                                     .data = gradient,
                                     .gradient = gradient,
                                     .bytes = (size_t)counts[k] * backend->element_size,
                                     .rate = 1.0};
    }
    backend->clip(context, largest, items, 2);
    for (int k = 0; k < 2; k++) {
        for (int64_t i = 0; i < counts[k]; i++) {
            double expected = factor * (double)(float)sin((double)(i + k));
            worst = fmax(worst, fabs(element(backend, context, items[k].gradient, i) - expected));
        }
        backend->free(context, items[k].gradient);
    }
    backend->close(context);
    return worst;
}

static void check_clip(const ole_backend *backend, double bound) {
    double squares = 0.0;
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < (k ? 20000 : PARAMS); i++)
            squares += pow((double)(float)sin((double)(i + k)), 2);
    assert_true(clip(backend, 1e3, 1.0) == 0.0); /* small enough already */
    double factor = 0.5 / (sqrt(squares) + 1e-6);
    assert_true(clip(backend, 0.5, factor) <= bound * factor);
}

void check_updates(const ole_backend *backend, double bound) {
    check_clip(backend, bound);
    static const ole_update updates[] = {
        {OLE_UPDATE_SGD, .lr = 0.1},
        {OLE_UPDATE_SGD, .lr = 0.1, .weight_decay = 1e-2, .momentum = 0.9},
        {OLE_UPDATE_SGD, .lr = 0.1, .weight_decay = 1e-2, .momentum = 0.9, .nesterov = true},
        {OLE_UPDATE_ADAM, .lr = 1e-2, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8},
        {OLE_UPDATE_ADAM, .lr = 1e-2, .weight_decay = 1e-2, .beta1 = 0.8, .beta2 = 0.9,
         .eps = 1e-3},
        {OLE_UPDATE_ADAM, .lr = 1e-2, .weight_decay = 0.5, .beta1 = 0.8, .beta2 = 0.9, .eps = 1e-3,
         .decoupled = true},
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
