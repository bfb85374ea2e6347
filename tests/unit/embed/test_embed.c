/*
 * tests/unit/embed/test_embed.c - gradients of the linear fit against differences, its optimum,
 * maps and classifiers as the model computes them, the descent of the transform, folds, bad input.
 */
#include "ole/train/embed.h"

#include "embed/linear.h"
#include "ole/linalg.h"

#include "temporary.h"
#include "test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 90, DIM = 7 };

/* Rows around a centre per class; the last row has no class. */
typedef struct cloud {
    float x[ROWS * DIM];
    double wide[ROWS * DIM];
    int64_t label[ROWS];
} cloud;

static double uniform(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (double)(*state >> 11) * 0x1p-53 - 0.5;
}

static void fill_cloud(cloud *c, int classes, double noise) {
    uint64_t state = 3;
    double centre[16][DIM];
    for (int k = 0; k < 16; k++)
        for (int d = 0; d < DIM; d++)
            centre[k][d] = 4.0 * uniform(&state);
    for (int i = 0; i < ROWS; i++) {
        c->label[i] = i == ROWS - 1 ? -1 : 3 * (i % classes);
        for (int d = 0; d < DIM; d++) {
            /* gcc 12 would give `wide` the number before it is rounded, were this not volatile. */
            volatile float x = (float)(centre[i % classes][d] + noise * uniform(&state) + 1.0);
            c->x[i * DIM + d] = x;
            c->wide[i * DIM + d] = x;
        }
    }
}

static ole_embedding view_of(const cloud *c) {
    return (ole_embedding){ROWS, DIM, OLE_F32, c->x, c->label};
}

static ole_embed_options options_for(ole_embed_method method) {
    ole_embed_options o;
    ole_embed_options_init(&o);
    o.method = method;
    o.threads = 1;
    o.device = TEST_DEVICE;
    return o;
}

/* ---- The objective ------------------------------------------------------------------------ */

/* Central differences of each variable; OLÉ in float32 limits how fine they can be. */
static void check_gradient(int classes, double lambda, int fold) {
    static cloud c;
    fill_cloud(&c, classes, 6.0);
    const ole_embedding e = view_of(&c);
    double weights[16];
    for (int k = 0; k < 16; k++)
        weights[k] = 1.0 + 0.25 * k;
    ole_embed_options o = options_for(OLE_EMBED_LINEAR);
    o.class_weights = weights;
    ole_problem p;
    ole_linear *l;
    ole_error error;
    assert_ok(ole_problem_open(&p, &e, NULL, 0, &o, &error), &error);
    assert_ok(ole_problem_deal(&p, 4, &error), &error);
    assert_ok(ole_linear_create(&l, &p, &error), &error);
    const ole_linear_fit fit = {.lambda = lambda, .decay = 0.05, .fold = fold};
    int64_t n = ole_linear_variables(l);
    assert_int_equal(n, classes * DIM + classes);
    double *x = calloc((size_t)n * 3, sizeof *x), *gradient = x + n, *other = gradient + n, value;
    uint64_t state = 9;
    for (int64_t i = 0; i < n; i++)
        x[i] = 3.0 * uniform(&state);
    assert_ok(ole_linear_evaluate(l, &fit, false, x, &value, gradient, &error), &error);
    double step = lambda > 0.0 ? 1e-2 : 1e-4, tolerance = lambda > 0.0 ? 2e-4 : 1e-7;
    for (int64_t i = 0; i < n; i++) {
        double high, low, kept = x[i];
        x[i] = kept + step;
        assert_ok(ole_linear_evaluate(l, &fit, false, x, &high, other, &error), &error);
        x[i] = kept - step;
        assert_ok(ole_linear_evaluate(l, &fit, false, x, &low, other, &error), &error);
        x[i] = kept;
        if (fabs((high - low) / (2.0 * step) - gradient[i]) > tolerance)
            fail_msg("%d classes, lambda %g, variable %d: gradient %g, differences %g", classes,
                     lambda, (int)i, gradient[i], (high - low) / (2.0 * step));
    }
    free(x);
    ole_linear_free(l);
    ole_problem_close(&p);
}

static void test_gradients(void **state) {
    (void)state;
    check_gradient(4, 0.0, -1);
    check_gradient(4, 0.0, 2);
    check_gradient(4, 0.2, -1);
    check_gradient(4, 0.2, 1);
    check_gradient(11, 0.2, -1); /* more classes than dimensions: OLÉ on rotated rows */
}

/* float32 against float64, far from 0, for shapes with several panels of classes and dimensions.
 * The residuals of W x and b sum to 0, so errors are measured against the largest gradient. */
static void check_fast(int rows, int dim, int classes, double lambda, bool wide, int fold) {
    float *x = malloc((size_t)(rows * dim) * sizeof *x);
    double *y = malloc((size_t)(rows * dim) * sizeof *y);
    int64_t *label = malloc((size_t)rows * sizeof *label);
    uint64_t state = 5;
    for (int i = 0; i < rows * dim; i++)
        x[i] = (float)(300.0 + uniform(&state) + (i % dim == i / dim % classes)), y[i] = x[i];
    for (int i = 0; i < rows; i++)
        label[i] = i % 17 == 3 ? -1 : i % classes;
    const ole_embedding e = {rows, dim, wide ? OLE_F64 : OLE_F32, wide ? (void *)y : x, label};
    ole_embed_options o = options_for(OLE_EMBED_LINEAR);
    o.threads = 2;
    ole_problem p;
    ole_linear *l;
    ole_error error;
    assert_ok(ole_problem_open(&p, &e, NULL, 0, &o, &error), &error);
    assert_ok(ole_problem_deal(&p, 4, &error), &error);
    assert_ok(ole_linear_create(&l, &p, &error), &error);
    const ole_linear_fit fit = {.lambda = lambda, .decay = 1e-3, .fold = fold};
    int64_t n = ole_linear_variables(l);
    double *at = malloc((size_t)n * 3 * sizeof *at), *exact = at + n, *fast = exact + n, most = 0.0;
    double value[2];
    for (int64_t i = 0; i < n; i++)
        at[i] = 20.0 * uniform(&state);
    assert_ok(ole_linear_evaluate(l, &fit, false, at, &value[0], exact, &error), &error);
    assert_ok(ole_linear_evaluate(l, &fit, true, at, &value[1], fast, &error), &error);
    assert_true(fabs(value[1] - value[0]) < 1e-5 * fabs(value[0]));
    for (int64_t i = 0; i < n; i++)
        most = fmax(most, fabs(exact[i]));
    for (int64_t i = 0; i < n; i++)
        if (!(fabs(fast[i] - exact[i]) < 1e-4 * most))
            fail_msg("%d x %d, %d classes: variable %d of %d: %g, in float32 %g", rows, dim,
                     classes, (int)i, (int)n, exact[i], fast[i]);
    free(at);
    free(label);
    free(y);
    free(x);
    ole_linear_free(l);
    ole_problem_close(&p);
}

static void test_fast(void **state) {
    (void)state;
    check_fast(ROWS, 3, 2, 0.0, false, -1);
    check_fast(2500, 209, 131, 0.0, false, -1);
    check_fast(700, 48, 33, 0.0, true, 1);
    check_fast(400, 60, 20, 0.2, false, 2);
    check_fast(400, 20, 40, 0.2, false, -1);
}

/* At lambda 0 the problem is convex: a gradient of 0, by a loop of its own, means the optimum. */
static void test_optimum(void **state) {
    (void)state;
    static cloud c;
    enum { CLASSES = 4 };
    fill_cloud(&c, CLASSES, 6.0);
    const ole_embedding e = view_of(&c);
    ole_embed_options o = options_for(OLE_EMBED_LINEAR);
    o.lambda = 0.0;
    o.weight_decay = 1e-3;
    o.tolerance = 1e-9;
    o.unknown = false;
    ole_model *model;
    ole_embed_summary s;
    ole_error error;
    assert_ok(ole_embed_fit(&model, &e, NULL, 0, &o, &s, &error), &error);
    assert_int_equal(s.rows, ROWS - 1);
    float logits[ROWS * CLASSES], features[ROWS * CLASSES];
    assert_ok(ole_model_run(model, c.x, ROWS, features, logits, &error), &error);
    double mean[DIM] = {0.0}, square = 0.0, gradient[CLASSES][DIM] = {{0.0}}, loss = 0.0;
    for (int i = 0; i < ROWS - 1; i++)
        for (int d = 0; d < DIM; d++)
            mean[d] += c.wide[i * DIM + d] / (ROWS - 1);
    for (int i = 0; i < ROWS - 1; i++)
        for (int d = 0; d < DIM; d++)
            square += pow(c.wide[i * DIM + d] - mean[d], 2) / (ROWS - 1);
    for (int i = 0; i < ROWS - 1; i++) {
        double sum = 0.0;
        for (int k = 0; k < CLASSES; k++)
            sum += exp(logits[i * CLASSES + k]);
        loss -= log(exp(logits[i * CLASSES + c.label[i] / 3]) / sum) / (ROWS - 1);
        for (int k = 0; k < CLASSES; k++)
            for (int d = 0; d < DIM; d++)
                gradient[k][d] += (exp(logits[i * CLASSES + k]) / sum - (c.label[i] == 3 * k)) *
                                  (c.wide[i * DIM + d] - mean[d]) / sqrt(square) / (ROWS - 1);
    }
    /* W = -gradient / decay at the optimum; the features are W of the centred, scaled rows. */
    double penalty = 0.0;
    for (int k = 0; k < CLASSES; k++) {
        for (int d = 0; d < DIM; d++)
            penalty += 0.5 * o.weight_decay * pow(gradient[k][d] / o.weight_decay, 2);
        for (int i = 0; i < ROWS; i++) {
            double want = 0.0;
            for (int d = 0; d < DIM; d++)
                want -= gradient[k][d] / o.weight_decay * (c.wide[i * DIM + d] - mean[d]) /
                        sqrt(square);
            assert_true(fabs(features[i * CLASSES + k] - want) < 2e-3);
        }
    }
    assert_true(fabs(s.objective - loss - penalty) < 1e-5);
    ole_embed_summary_free(&s);
    ole_model_free(model);
}

/* ---- Models ------------------------------------------------------------------------------- */

/* Chosen settings, threads, float64 input and a file change nothing. */
static void test_same_model(void **state) {
    (void)state;
    static cloud c;
    fill_cloud(&c, 11, 3.0);
    ole_embedding e = view_of(&c), wide = e;
    wide.features = c.wide;
    wide.dtype = OLE_F64;
    ole_error error;
    float first[ROWS * 11], again[ROWS * 11];
    double threshold = 0.0;
    for (int k = 0; k < 3; k++) {
        ole_embed_options o = options_for(OLE_EMBED_LINEAR);
        o.threads = k == 1 ? 3 : 1;
        ole_model *model;
        ole_embed_summary s;
        assert_ok(ole_embed_fit(&model, k == 2 ? &wide : &e, NULL, 0, &o, &s, &error), &error);
        const ole_model_info *info = ole_model_get_info(model);
        assert_int_equal(info->features, DIM); /* fewer than the classes */
        assert_int_equal(info->classes, 11);
        assert_string_equal(info->class_names[4], "12");
        assert_true(s.trials > 8 && s.held_out == ROWS - 1);
        assert_ok(ole_model_run(model, c.x, ROWS, NULL, k ? again : first, &error), &error);
        if (k > 0) assert_memory_equal(first, again, sizeof first);
        if (k > 0) assert_true(info->threshold == threshold);
        threshold = info->threshold;
        if (k == 2) {
            char path[300];
            ole_model *loaded;
            snprintf(path, sizeof path, "%s/m.safetensors", temporary_dir);
            assert_ok(ole_model_save(model, path, &error), &error);
            assert_ok(ole_model_load(&loaded, path, 1, &error), &error);
            assert_ok(ole_model_run(loaded, c.x, ROWS, NULL, again, &error), &error);
            assert_memory_equal(first, again, sizeof first);
            assert_true(ole_model_get_info(loaded)->threshold == threshold);
            ole_model_free(loaded);
        }
        ole_embed_summary_free(&s);
        ole_model_free(model);
    }
}

static void test_mlp(void **state) {
    (void)state;
    static cloud c;
    fill_cloud(&c, 4, 3.0);
    const ole_embedding e = view_of(&c);
    ole_embed_options o = options_for(OLE_EMBED_MLP);
    o.width = 16;
    o.weight_decay = 1e-4;
    o.balanced = true; /* classes of 23 and 22 rows: drawn by weight */
    ole_model *model;
    ole_embed_summary s;
    ole_error error;
    assert_ok(ole_embed_fit(&model, &e, NULL, 0, &o, &s, &error), &error);
    ole_prediction p[ROWS];
    int right = 0;
    assert_ok(ole_model_predict(model, c.x, ROWS, p, &error), &error);
    for (int i = 0; i < ROWS - 1; i++)
        right += 3 * p[i].best == c.label[i];
    /* The model takes rows as they are; the network of the fit took scaled ones. */
    assert_true(fabs(100.0 * right / (ROWS - 1) - s.training_accuracy) < 1e-9);
    if (s.training_accuracy < 95.0 || s.held_out_accuracy < 85.0)
        fail_msg("training %g, held out %g", s.training_accuracy, s.held_out_accuracy);
    assert_true(s.trials == 4 && s.width == 16 && s.features == 16);
    ole_embed_summary_free(&s);
    ole_model_free(model);
}

/* The objective as it is defined, by singular values of the mapped rows. */
static double objective(const float *z, const int64_t *labels, int classes, int rows) {
    float part[ROWS * DIM];
    double sum = 0.0, norm;
    ole_error error;
    for (int k = -1; k < classes; k++) {
        int count = 0;
        for (int i = 0; i < rows; i++)
            if (k < 0 || labels[i] == 3 * k)
                memcpy(part + DIM * count++, z + DIM * i, DIM * sizeof *part);
        const ole_matrix view = {part, count, DIM, 0, OLE_F32};
        assert_ok(ole_nuclear_norm(&view, 1, &norm, &error), &error);
        sum += k < 0 ? -norm : norm;
    }
    return sum / rows;
}

static void test_transform(void **state) {
    (void)state;
    static cloud c;
    fill_cloud(&c, 3, 3.0);
    const ole_embedding e = view_of(&c);
    double square = 0.0, last = INFINITY;
    for (int i = 0; i < (ROWS - 1) * DIM; i++)
        square += c.wide[i] * c.wide[i] / (ROWS - 1);
    ole_error error;
    for (int steps = 1; steps <= 12; steps++) {
        ole_embed_options o = options_for(OLE_EMBED_TRANSFORM);
        o.epochs = steps;
        ole_model *model;
        ole_embed_summary s;
        assert_ok(ole_embed_fit(&model, &e, NULL, 0, &o, &s, &error), &error);
        assert_false(ole_model_get_info(model)->classifier);
        float z[ROWS * DIM], unit[DIM * DIM] = {0}, t[DIM * DIM];
        double sigma[DIM];
        assert_ok(ole_model_run(model, c.x, ROWS, z, NULL, &error), &error);
        for (int d = 0; d < DIM; d++)
            unit[d * DIM + d] = 1.0f;
        assert_ok(ole_model_run(model, unit, DIM, t, NULL, &error), &error);
        const ole_matrix view = {t, DIM, DIM, 0, OLE_F32};
        assert_ok(ole_singular_values(&view, 1, sigma, &error), &error);
        assert_true(fabs(sigma[0] - 1.0) < 1e-5);
        assert_true(s.objective < last);
        double found = objective(z, c.label, 3, ROWS - 1) / sqrt(square);
        assert_true(fabs(found - s.objective) < 1e-5);
        last = s.objective;
        ole_embed_summary_free(&s);
        ole_model_free(model);
    }
}

/* ---- Input -------------------------------------------------------------------------------- */

static void fails(const ole_embedding *e, const ole_embed_options *o, const char *const *names,
                  ole_status status, const char *message) {
    ole_model *model = (ole_model *)1;
    ole_error error;
    assert_int_equal(ole_embed_fit(&model, e, names, 2, o, NULL, &error), status);
    assert_null(model);
    if (!strstr(error.message, message)) fail_msg("%s", error.message);
}

/* Calls with many rows, which threads take in batches of their own, against rows one by one. */
static void test_many_rows(void **state) {
    (void)state;
    static cloud c;
    fill_cloud(&c, 5, 2.0);
    const ole_embedding e = view_of(&c);
    ole_embed_options o = options_for(OLE_EMBED_LINEAR);
    o.lambda = 0.0;
    o.weight_decay = 0.01;
    o.threads = 3;
    enum { MANY = 1301 };
    static float x[MANY * DIM], all[MANY * 8], one[8];
    static ole_prediction predicted[MANY];
    for (int i = 0; i < MANY; i++)
        memcpy(x + i * DIM, c.x + i % ROWS * DIM, DIM * sizeof *x);
    ole_model *model;
    ole_error error;
    assert_ok(ole_embed_fit(&model, &e, NULL, 0, &o, NULL, &error), &error);
    const ole_model_info *info = ole_model_get_info(model);
    assert_true(info->features <= 8);
    assert_ok(ole_model_run(model, x, MANY, all, NULL, &error), &error);
    assert_ok(ole_model_predict(model, x, MANY, predicted, &error), &error);
    for (int i = 0; i < MANY; i += 50) {
        ole_prediction p;
        assert_ok(ole_model_run(model, x + i * DIM, 1, one, NULL, &error), &error);
        assert_ok(ole_model_predict(model, x + i * DIM, 1, &p, &error), &error);
        assert_memory_equal(one, all + i * info->features, (size_t)info->features * sizeof *one);
        assert_int_equal(p.best, predicted[i].best);
        assert_true(p.score == predicted[i].score && p.known_score == predicted[i].known_score);
    }
    x[1234 * DIM + 2] = NAN;
    x[700 * DIM] = INFINITY;
    assert_int_equal(ole_model_predict(model, x, MANY, predicted, &error), OLE_ERROR_DATA);
    assert_string_equal(error.message, "row 700 holds NaN or Inf");
    assert_int_equal(ole_model_run(model, x, MANY, all, NULL, &error), OLE_ERROR_DATA);
    assert_string_equal(error.message, "row 700 holds NaN or Inf");
    ole_model_free(model);
}

static void test_bad_input(void **state) {
    (void)state;
    static cloud c;
    static const char *const names[] = {"a", "b"};
    fill_cloud(&c, 2, 1.0);
    ole_embedding e = view_of(&c);
    ole_embed_options o = options_for(OLE_EMBED_LINEAR);
    fails(&e, &o, names, OLE_ERROR_ARGUMENT, "label 3 has no name: there are 2 names");
    fails(NULL, &o, NULL, OLE_ERROR_ARGUMENT, "are NULL");
    o.lambda = -1.0;
    fails(&e, &o, NULL, OLE_ERROR_ARGUMENT, "lambda is -1; must be 0 to 1e6");
    o = options_for(OLE_EMBED_LINEAR);
    o.folds = 1;
    fails(&e, &o, NULL, OLE_ERROR_ARGUMENT, "folds is 1");
    o = options_for((ole_embed_method)9);
    fails(&e, &o, NULL, OLE_ERROR_ARGUMENT, "method is 9");
    o = options_for(OLE_EMBED_LINEAR);
    const double nothing[2] = {0.0, 0.0}, negative[2] = {1.0, -1.0};
    o.class_weights = nothing;
    fails(&e, &o, NULL, OLE_ERROR_ARGUMENT, "class_weights: all weights are 0");
    o.class_weights = negative;
    fails(&e, &o, NULL, OLE_ERROR_ARGUMENT, "class 3 has weight -1");
    o = options_for(OLE_EMBED_LINEAR);
    e.rows = 0;
    fails(&e, &o, NULL, OLE_ERROR_ARGUMENT, "0 rows");
    e = view_of(&c);
    c.x[4 * DIM + 1] = NAN;
    fails(&e, &o, NULL, OLE_ERROR_DATA, "row 4 holds NaN or Inf");
    c.label[4] = -1; /* ignored */
    ole_model *model;
    ole_error error;
    assert_ok(ole_embed_fit(&model, &e, NULL, 0, &o, NULL, &error), &error);
    ole_model_free(model);
    for (int i = 0; i < ROWS; i++)
        c.label[i] = i % 2 ? 0 : -1;
    fails(&e, &o, NULL, OLE_ERROR_ARGUMENT, "all rows have one class");
}

/* One row per class, rows that are all the same, and far from 0: a model all the same. */
static void test_hard_input(void **state) {
    (void)state;
    static const ole_embed_method methods[] = {OLE_EMBED_LINEAR, OLE_EMBED_TRANSFORM,
                                               OLE_EMBED_NONE};
    const float rows[3][6] = {{1, 0, 0, 1, 1, 1}, {2, 2, 2, 2, 2, 2}, {1e9f, 2, 3, -1e9f, 2, 3}};
    const int64_t labels[3] = {5, 6, 7};
    for (int k = 0; k < 3; k++)
        for (int m = 0; m < 3; m++) {
            const ole_embedding e = {3, 2, OLE_F32, rows[k], labels};
            ole_embed_options o = options_for(methods[m]);
            ole_model *model;
            ole_embed_summary s;
            ole_error error;
            assert_ok(ole_embed_fit(&model, &e, NULL, 0, &o, &s, &error), &error);
            assert_int_equal(s.single, 3);
            assert_int_equal(s.held_out, 0);
            float z[6];
            assert_ok(ole_model_run(model, rows[k], 3, NULL, NULL, &error), &error);
            if (s.features == 2)
                assert_ok(ole_model_run(model, rows[k], 3, z, NULL, &error), &error);
            ole_embed_summary_free(&s);
            ole_model_free(model);
        }
}

typedef struct stopper {
    int calls, after;
} stopper;

static bool stop(void *context, const char *part, int64_t done, int64_t total) {
    stopper *s = context;
    assert_non_null(part);
    assert_true(done >= 0 && total > 0);
    return ++s->calls > s->after;
}

static void test_stopping(void **state) {
    (void)state;
    static cloud c;
    fill_cloud(&c, 4, 6.0);
    const ole_embedding e = view_of(&c);
    for (int method = OLE_EMBED_LINEAR; method <= OLE_EMBED_TRANSFORM; method++)
        for (int after = 0; after < 60; after += 13) {
            stopper s = {.after = method == OLE_EMBED_TRANSFORM ? after / 13 : after};
            ole_embed_options o = options_for((ole_embed_method)method);
            o.callback = stop;
            o.callback_context = &s;
            ole_model *model;
            ole_embed_summary summary;
            ole_error error;
            assert_ok(ole_embed_fit(&model, &e, NULL, 0, &o, &summary, &error), &error);
            assert_true(summary.interrupted);
            assert_null(model);
            assert_int_equal(s.calls, s.after + 1);
            ole_embed_summary_free(&summary);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gradients), cmocka_unit_test(test_fast),
        cmocka_unit_test(test_optimum),   cmocka_unit_test(test_same_model),
        cmocka_unit_test(test_mlp),       cmocka_unit_test(test_transform),
        cmocka_unit_test(test_bad_input), cmocka_unit_test(test_hard_input),
        cmocka_unit_test(test_stopping),  cmocka_unit_test(test_many_rows),
    };
    return cmocka_run_group_tests(tests, temporary_make, temporary_remove);
}
