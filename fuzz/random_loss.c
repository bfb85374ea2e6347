/*
 * fuzz/random_loss.c - small random batches against the loss by LAPACK, held to the promises of
 * include/ole/loss.h.
 *
 *     random_loss [COUNT [SEED]]    COUNT cases (default 20000); a failing case prints its seed
 *
 * Each case has a seed of its own, SEED + its number: `random_loss 1 THAT_SEED` runs it alone.
 */
#include "cases.h"
#include "ole/loss.h"
#include "reference.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 12, MOST_STRIDE = MOST + 3, GUARD = 0x5a };

/* One call: what it is given, and what it is asked for. */
typedef struct batch_case {
    uint64_t seed;
    int64_t rows, dim, max_rows, stride, gradient_stride;
    ole_dtype dtype, label_type;
    ole_loss_options options;
    double x[MOST * MOST]; /* as the plan's type holds them */
    int64_t labels[MOST];
    int32_t narrow_labels[MOST];
    int64_t bad_row; /* the first with NaN or Inf that is not ignored, or -1 */
    double upstream;
    bool accumulate, want_gradient;
} batch_case;

/* Memory as the call sees it; rows `stride` apart. */
typedef union memory {
    float narrow[MOST * MOST_STRIDE];
    double wide[MOST * MOST_STRIDE];
    unsigned char bytes[MOST * MOST_STRIDE * sizeof(double)];
} memory;

static uint64_t current_seed;

static void require(bool condition, const char *what, double got, double bound) {
    if (condition) return;
    fprintf(stderr, "random_loss: seed %" PRIu64 ": %s: %.17g, bound %.17g\n", current_seed, what,
            got, bound);
    abort();
}

static double get(const memory *m, ole_dtype dtype, int64_t at) {
    return dtype == OLE_F32 ? m->narrow[at] : m->wide[at];
}

static void put(memory *m, ole_dtype dtype, int64_t at, double value) {
    if (dtype == OLE_F32)
        m->narrow[at] = (float)value;
    else
        m->wide[at] = value;
}

/* ---- making a case ------------------------------------------------------------------------ */

static double pick(test_random *r, const double *from, int64_t count) {
    return from[random_below(r, count)];
}

static void choose_labels(batch_case *c, test_random *r) {
    static const int64_t names[] = {0, 1, 2, 3, 77, 123456, INT32_MAX - 1, INT32_MAX};
    static const int64_t wide_names[] = {INT64_MAX, INT64_MAX - 1, 5000000000};
    int64_t classes = 1 + random_below(r, 8);
    bool ignore = random_below(r, 4) == 0;
    for (int64_t i = 0; i < c->rows; i++) {
        c->labels[i] = names[random_below(r, classes)];
        if (c->label_type == OLE_I64 && random_below(r, 16) == 0)
            c->labels[i] = wide_names[random_below(r, 3)];
        if (ignore && random_below(r, 4) == 0)
            c->labels[i] = random_below(r, 2) ? -1 : INT32_MIN + random_below(r, 9);
        c->narrow_labels[i] = (int32_t)c->labels[i];
    }
}

static void choose_options(batch_case *c, test_random *r) {
    static const double floors[] = {1.0, 0.0, 4.0, 20.0}, absolutes[] = {1e-6, 0.0, 0.3};
    static const double relatives[] = {OLE_DELTA_REL_AUTO, 0.0, 0.02};
    static const double weights[] = {1.0, 0.25, -3.0};
    ole_loss_options_init(&c->options);
    c->options.delta_floor = pick(r, floors, 4);
    c->options.delta_abs = pick(r, absolutes, 3);
    c->options.delta_rel = pick(r, relatives, 3);
    c->options.weight = pick(r, weights, 3);
    c->options.reduction = random_below(r, 3) ? OLE_REDUCTION_MEAN : OLE_REDUCTION_SUM;
    c->options.threads = random_below(r, 64) ? 1 : 2; /* starting threads is slow */
}

/* The structures know labels as small numbers; names are handed out by first appearance. */
static void choose_features(batch_case *c, test_random *r) {
    static const double scales[] = {1.0, 1.0, 1.0, 1e-20, 1e15, 1e-3};
    int64_t numbers[MOST];
    for (int64_t i = 0; i < c->rows; i++) {
        numbers[i] = i;
        for (int64_t j = i; j-- > 0;)
            if (c->labels[j] == c->labels[i]) numbers[i] = numbers[j];
    }
    case_fill((case_structure)random_below(r, CASE_STRUCTURES), c->x, numbers, c->rows, c->dim, r);
    double scale = pick(r, scales, 6);
    bool sparse = random_below(r, 8) == 0;
    float rounded[MOST * MOST];
    for (int64_t i = 0; i < c->rows * c->dim; i++)
        c->x[i] *= sparse && random_below(r, 2) ? 0.0 : scale;
    if (c->dtype == OLE_F32) case_round(rounded, c->x, c->rows * c->dim);
}

/* NaN or Inf in a few places, some of them in ignored rows. */
static void spoil(batch_case *c, test_random *r) {
    static const double bad[] = {NAN, HUGE_VAL, -HUGE_VAL};
    c->bad_row = -1;
    if (random_below(r, 16)) return;
    for (int64_t times = 1 + random_below(r, 3); times > 0; times--) {
        int64_t row = random_below(r, c->rows);
        c->x[row * c->dim + random_below(r, c->dim)] = pick(r, bad, 3);
        if (c->labels[row] >= 0 && (c->bad_row < 0 || row < c->bad_row)) c->bad_row = row;
    }
}

static void make_case(batch_case *c, uint64_t seed) {
    test_random random = {seed}, *r = &random;
    *c = (batch_case){.seed = seed};
    c->rows = 1 + random_below(r, MOST);
    c->dim = 1 + random_below(r, MOST);
    c->max_rows = c->rows + (random_below(r, 4) ? 0 : random_below(r, 20));
    c->stride = c->dim + random_below(r, 4);
    c->gradient_stride = c->dim + random_below(r, 4);
    c->dtype = random_below(r, 3) ? OLE_F32 : OLE_F64;
    c->label_type = random_below(r, 2) ? OLE_I32 : OLE_I64;
    c->upstream = random_below(r, 2) ? 1.0 : 0.5;
    c->accumulate = random_below(r, 4) == 0;
    c->want_gradient = random_below(r, 8) != 0;
    choose_labels(c, r);
    choose_options(c, r);
    choose_features(c, r);
    spoil(c, r);
}

/* ---- checking one ------------------------------------------------------------------------- */

/* An error is the one expected, names the row, and leaves the gradient alone. */
static void check_error(const batch_case *c, ole_status status, const ole_error *error,
                        const memory *gradient) {
    bool any = false;
    for (int64_t i = 0; i < c->rows; i++)
        any = any || c->labels[i] >= 0;
    ole_status want = any ? OLE_ERROR_DATA : OLE_ERROR_ARGUMENT;
    require(status == want && error->status == want, "status", status, want);
    char named[40];
    snprintf(named, sizeof named, any ? "row %" PRId64 " " : "batch.labels", c->bad_row);
    require(strstr(error->message, named) != NULL, error->message, 0, 0);
    for (size_t i = 0; i < sizeof gradient->bytes; i++)
        require(gradient->bytes[i] == GUARD, "gradient touched by an error at", (double)i, 0);
}

static void check_value(const batch_case *c, const ole_loss_result *got,
                        const reference_loss *want) {
    double bound = (c->dtype == OLE_F32 ? 1e-6 : 1e-12) * want->sum_of_norms;
    double difference = got->class_term - got->global_norm;
    double error = fabs(difference - (want->class_term - want->global_norm));
    double factor = c->options.weight;
    if (c->options.reduction == OLE_REDUCTION_MEAN) factor /= (double)want->rows;
    require(error <= bound, "value error", error, bound);
    require(fabs(got->value - factor * difference) <= 1e-15 * fabs(got->value),
            "value and its terms", got->value, factor * difference);
    require(got->rows == want->rows && got->classes == want->classes, "rows and classes",
            (double)got->rows, (double)want->rows);
}

/* What accumulating found in element `at` before: small numbers, exact in both types. */
static double before(int64_t at) {
    return (double)(at % 5) / 4.0;
}

/*
 * Guards between the rows untouched, ignored rows zero or as they were, the rest within the
 * promise; adding to what was there costs one more rounding of numbers of size 1.
 */
static void check_gradient(const batch_case *c, const memory *gradient, const ole_loss_result *got,
                           const reference_loss *want) {
    double n = (double)want->rows, scale = c->options.weight * c->upstream, square = 0.0;
    if (c->options.reduction == OLE_REDUCTION_MEAN) scale /= n;
    size_t size = ole_dtype_size(c->dtype);
    for (int64_t at = 0; at < c->rows * c->gradient_stride; at++) {
        int64_t i = at / c->gradient_stride, j = at % c->gradient_stride;
        if (j >= c->dim) {
            for (size_t b = 0; b < size; b++)
                require(gradient->bytes[(size_t)at * size + b] == GUARD, "guard", (double)at, 0);
            continue;
        }
        double g = get(gradient, c->dtype, at) - (c->accumulate ? before(at) : 0.0);
        if (c->labels[i] < 0) require(g == 0.0, "gradient of an ignored row", g, 0.0);
        double d = g / scale - want->gradient[i * c->dim + j];
        square += d * d;
    }
    /* Beyond these eps * condition, what any float64 method may be off by, nears the promise. */
    if (!want->clear || want->condition > (c->dtype == OLE_F32 ? 1e10 : 1e5)) return;
    double bound = (c->dtype == OLE_F32 ? 1e-5 : 1e-9) * sqrt(n);
    double eps = c->dtype == OLE_F32 ? FLT_EPSILON : DBL_EPSILON;
    if (c->accumulate) bound += 2.0 * eps / fabs(scale) * MOST;
    require(sqrt(square) <= bound, "gradient error", sqrt(square), bound);
    require(got->rank == want->rank, "rank", (double)got->rank, (double)want->rank);
}

/* The same call again, added to known numbers. */
static void add_again(const batch_case *c, ole_loss_plan *plan, const ole_loss_batch *batch,
                      ole_loss_gradient *out, memory *gradient) {
    for (int64_t at = 0; at < c->rows * c->gradient_stride; at++)
        if (at % c->gradient_stride < c->dim) put(gradient, c->dtype, at, before(at));
    out->accumulate = true;
    ole_loss_result unused = {0};
    ole_error error = {0};
    ole_status status = ole_loss_eval(plan, batch, out, &unused, &error);
    require(status == OLE_OK, error.message, status, OLE_OK);
}

static void check_against_reference(const batch_case *c, const memory *gradient,
                                    const ole_loss_result *got) {
    require(c->bad_row < 0, "NaN or Inf was accepted in row", (double)c->bad_row, 0);
    reference_loss want =
        reference_evaluate(c->x, c->labels, c->rows, c->dim, &c->options, c->dtype == OLE_F32);
    check_value(c, got, &want);
    if (c->want_gradient) check_gradient(c, gradient, got, &want);
    free(want.gradient);
}

static void check_case(const batch_case *c) {
    static memory features, gradient;
    memset(features.bytes, 0xff, sizeof features.bytes); /* NaN between the rows */
    memset(gradient.bytes, GUARD, sizeof gradient.bytes);
    for (int64_t at = 0; at < c->rows * c->dim; at++)
        put(&features, c->dtype, at / c->dim * c->stride + at % c->dim, c->x[at]);
    ole_loss_plan *plan;
    ole_error error = {0};
    ole_status status =
        ole_loss_plan_create(&plan, c->max_rows, c->dim, c->dtype, &c->options, &error);
    require(status == OLE_OK, error.message, status, OLE_OK);
    const void *labels = c->narrow_labels;
    if (c->label_type == OLE_I64) labels = c->labels;
    ole_loss_batch batch = {c->rows, &features, c->stride, labels, c->label_type};
    ole_loss_gradient out = {&gradient, c->gradient_stride, c->upstream, false};
    ole_loss_result got = {0};
    status = ole_loss_eval(plan, &batch, c->want_gradient ? &out : NULL, &got, &error);
    if (status == OLE_OK) {
        if (c->want_gradient && c->accumulate) add_again(c, plan, &batch, &out, &gradient);
        check_against_reference(c, &gradient, &got);
    } else {
        check_error(c, status, &error, &gradient);
    }
    ole_loss_plan_destroy(plan);
}

int main(int argc, char **argv) {
    long count = argc > 1 ? strtol(argv[1], NULL, 10) : 20000;
    uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    for (long i = 0; i < count; i++) {
        static batch_case c;
        current_seed = seed + (uint64_t)i;
        make_case(&c, current_seed);
        check_case(&c);
    }
    printf("%ld batches: every value and gradient within its bound\n", count);
    return 0;
}
