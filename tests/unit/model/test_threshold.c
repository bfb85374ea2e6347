/*
 * tests/unit/model/test_threshold.c - the threshold for "unknown" that training stores: from the
 * validation split, by cross-fitting training samples, and none where there is nothing to go by.
 */
#include "model/confidence.h"
#include "model/cross_fit.h"
#include "model/threshold.h"
#include "ole/train/evaluate.h"
#include "ole/train/train.h"

#include "run_files.h"
#include "temporary.h"
#include "test.h"

#include <math.h>
#include <stdlib.h>

/* ---- Numbers that are known --------------------------------------------------------------- */

enum { COUNT = 60 };

/* Two classes; sample i is right, with the margin (i + 1) / 10, but for the first `wrong`. */
static ole_logits make_logits(float logits[2 * COUNT], int32_t labels[COUNT], int count,
                              int wrong) {
    for (int i = 0; i < count; i++) {
        labels[i] = i % 2;
        logits[2 * i + labels[i]] = (float)(i < wrong ? -1 : 1) * (float)(i + 1) / 10.0f;
        logits[2 * i + 1 - labels[i]] = 0.0f;
    }
    return (ole_logits){count, 2, logits, labels};
}

static double softmax_of(double margin) {
    return 1.0 / (1.0 + exp(-margin));
}

static void test_held_out(void **state) {
    (void)state;
    float logits[2 * COUNT];
    int32_t labels[COUNT];
    ole_card card = {.classes = 2};
    ole_error error;
    ole_logits all = make_logits(logits, labels, COUNT, 0);
    assert_ok(ole_card_set_threshold(&card, &all, &error), &error);
    assert_true(card.temperature == 1.0); /* no mistake to fit it to */
    assert_int_equal(card.threshold_score, OLE_SCORE_CALIBRATED);
    assert_float_equal(card.threshold, 0.5 * (softmax_of(0.3) + softmax_of(0.4)), 1e-7); /* 57 */

    all = make_logits(logits, labels, COUNT, 6);
    assert_ok(ole_card_set_threshold(&card, &all, &error), &error);
    double temperature;
    assert_true(ole_temperature_fit(&all, &temperature) && card.temperature == temperature);
    assert_float_equal(card.threshold,
                       0.5 * (softmax_of(0.3 / temperature) + softmax_of(0.4 / temperature)), 1e-6);
}

/*
 * Two halves of two samples per class in one dimension, (x, 1), whose ridge classifiers are solved
 * by hand; one class has a sample that lies with the other's.
 */
static void solve_by_hand(const float *x, const int32_t *label, int count, int half, double w[2]) {
    double g[2][2] = {{0.0}}, r[2] = {0.0};
    int of[2] = {0};
    for (int i = 0; i < count; i++) {
        if (of[label[i]]++ % 2 != half) continue;
        double y = label[i] == 0 ? 0.5 : -0.5, row[2] = {x[i], 1.0};
        for (int a = 0; a < 2; a++) {
            r[a] += row[a] * y;
            for (int b = 0; b < 2; b++)
                g[a][b] += row[a] * row[b];
        }
    }
    double ridge = 1e-3 * (g[0][0] + g[1][1]) / 2.0;
    g[0][0] += ridge;
    g[1][1] += ridge;
    double det = g[0][0] * g[1][1] - g[0][1] * g[1][0];
    w[0] = (r[0] * g[1][1] - r[1] * g[0][1]) / det;
    w[1] = (r[1] * g[0][0] - r[0] * g[1][0]) / det;
}

static void test_cross_fit(void **state) {
    (void)state;
    enum { N = 8 };
    static const float x[N] = {2.0f, -1.5f, 1.0f, -2.5f, 3.0f, -1.0f, 0.25f, -0.5f};
    static const int32_t label[N] = {0, 1, 0, 1, 0, 1, 0, 1};
    float logits[2 * N];
    for (int i = 0; i < N; i++) {
        logits[2 * i] = 2.0f * x[i];
        logits[2 * i + 1] = -2.0f * x[i];
    }
    const ole_logits network = {N, 2, logits, label};
    ole_cross_fitted result;
    ole_error error;
    assert_ok(ole_cross_fit(&result, x, 1, &network, &error), &error);
    assert_int_equal(result.count, N);
    double w[2][2], scale[2] = {0.0};
    int of[2] = {0};
    for (int half = 0; half < 2; half++)
        solve_by_hand(x, label, N, half, w[half]);
    for (int i = 0; i < N; i++) { /* scored by the other half's, times a factor of its own */
        int other = 1 - of[label[i]]++ % 2;
        double margin = 2.0 * (w[other][0] * x[i] + w[other][1]);
        double factor = (result.logits[2 * i] - result.logits[2 * i + 1]) / margin;
        if (scale[other] == 0.0) scale[other] = factor;
        assert_true(factor > 0.0);
        assert_float_equal(factor / scale[other], 1.0, 1e-5);
        assert_int_equal(result.labels[i], label[i]);
    }
    ole_cross_fit_free(&result);

    ole_card card = {.classes = 2};
    assert_ok(ole_card_cross_fit_threshold(&card, &network, x, 1, &error), &error);
    assert_int_equal(card.threshold_from, OLE_THRESHOLD_CROSS_FITTED);
    assert_int_equal(card.threshold_samples, N);
    assert_int_equal(card.threshold_score, OLE_SCORE_CALIBRATED);
    assert_true(card.threshold >= 0.5 && card.threshold < 1.0 && card.temperature == 1.0);

    static const int32_t alone[N] = {0, 1, 0, 0, 0, 0, 0, 0}; /* a class of one sample */
    const ole_logits single = {N, 2, logits, alone};
    assert_ok(ole_card_cross_fit_threshold(&card, &single, x, 1, &error), &error);
    assert_int_equal(card.threshold_score, OLE_SCORE_NONE);
    assert_true(card.threshold == 0.0);
}

static void test_none(void **state) {
    (void)state;
    float logits[2 * COUNT];
    int32_t labels[COUNT];
    ole_error error;
    ole_logits all = make_logits(logits, labels, COUNT, 3);
    for (int i = 0; i < 3; i++) {
        ole_card card = {.classes = i == 1 ? 1 : 2, .threshold = 0.5, .temperature = 3.0};
        if (i == 2) logits[7] = NAN;
        assert_ok(ole_card_set_threshold(&card, i == 0 ? NULL : &all, &error), &error);
        assert_int_equal(card.threshold_score, OLE_SCORE_NONE);
        assert_true(card.threshold == 0.0 && card.temperature == 1.0);
    }
}

/* ---- Runs --------------------------------------------------------------------------------- */

static ole_model *train(const char *out, double val_split, bool unknown) {
    ole_train_options o;
    ole_train_options_init(&o);
    assert_true(o.unknown);
    o.data = "digits";
    o.net = "FC12";
    o.out = out;
    o.epochs = 3;
    o.threads = 1;
    o.val_split = val_split;
    o.unknown = unknown;
    ole_error error;
    ole_model *model;
    assert_ok(ole_train(&o, NULL, &error), &error);
    assert_ok(ole_model_load(&model, out, 1, &error), &error);
    return model;
}

/* The share of a split's samples that is known, in %. */
static double known_share(ole_model *model, double val_split, ole_split split) {
    ole_dataset_options options;
    ole_dataset_options_init(&options);
    options.validation = val_split;
    ole_error error;
    ole_dataset *set;
    ole_evaluation e;
    assert_ok(ole_dataset_open(&set, "digits", &options, &error), &error);
    int64_t count = ole_dataset_get_info(set)->count[split], known = 0;
    ole_prediction *p = calloc((size_t)count, sizeof *p);
    assert_ok(ole_evaluate_each(&e, p, model, set, split, 1, &error), &error);
    int64_t right = 0;
    for (int64_t i = 0; i < count; i++) {
        known += p[i].label >= 0;
        right += p[i].best == ole_dataset_labels(set, split)[i];
        assert_true(p[i].label < 0 || p[i].label == p[i].best);
        assert_true(isnan(p[i].known_score) || fabs(p[i].known_score - p[i].score) < 1e-12);
    }
    assert_float_equal(e.error, 100.0 * (double)(count - right) / (double)count, 1e-9);
    free(p);
    ole_evaluation_free(&e);
    ole_dataset_close(set);
    return 100.0 * (double)known / (double)count;
}

static void test_runs(void **state) {
    (void)state;
    char out[400], plain[400];
    snprintf(out, sizeof out, "%s/run", temporary_dir);
    snprintf(plain, sizeof plain, "%s/plain", temporary_dir);
    ole_model *model = train(out, 0.2, true);
    assert_int_equal(ole_model_get_info(model)->threshold_score, OLE_SCORE_CALIBRATED);
    double kept = known_share(model, 0.2, OLE_SPLIT_VALIDATION);
    assert_true(kept >= 95.0 && kept < 96.0);
    assert_true(known_share(model, 0.2, OLE_SPLIT_TEST) > 88.0);
    ole_model_free(model);
    run_remove(out);

    model = train(out, 0.0, true);
    assert_true(ole_model_get_info(model)->threshold > 0.1);
    assert_int_equal(ole_model_get_info(model)->threshold_from, OLE_THRESHOLD_CROSS_FITTED);
    assert_int_equal(ole_model_get_info(model)->threshold_samples, 1000);
    assert_true(known_share(model, 0.0, OLE_SPLIT_TRAIN) > 90.0);
    assert_true(known_share(model, 0.0, OLE_SPLIT_TEST) > 85.0);
    ole_model *without = train(plain, 0.0, false);
    assert_int_equal(ole_model_get_info(without)->threshold_score, OLE_SCORE_NONE);
    assert_true(known_share(without, 0.0, OLE_SPLIT_TEST) == 100.0);
    float sample[64] = {0.5f}, one[12], other[12]; /* the weights are the same */
    ole_error error;
    assert_ok(ole_model_run(model, sample, 1, one, NULL, &error), &error);
    assert_ok(ole_model_run(without, sample, 1, other, NULL, &error), &error);
    assert_memory_equal(one, other, sizeof one);
    ole_model_free(model);
    ole_model_free(without);
    run_remove(out);
    run_remove(plain);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_held_out),
        cmocka_unit_test(test_cross_fit),
        cmocka_unit_test(test_none),
        cmocka_unit_test(test_runs),
    };
    return cmocka_run_group_tests(tests, temporary_make, temporary_remove);
}
