/*
 * tests/unit/model/test_threshold.c - the threshold for "unknown" that training stores: from the
 * validation split, from training samples, and none where there is nothing to go by.
 */
#include "model/confidence.h"
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
    assert_ok(ole_card_set_threshold(&card, &all, true, &error), &error);
    assert_true(card.temperature == 1.0); /* no mistake to fit it to */
    assert_int_equal(card.threshold_score, OLE_SCORE_CALIBRATED);
    assert_float_equal(card.threshold, 0.5 * (softmax_of(0.3) + softmax_of(0.4)), 1e-7); /* 57 */

    all = make_logits(logits, labels, COUNT, 6);
    assert_ok(ole_card_set_threshold(&card, &all, true, &error), &error);
    double temperature;
    assert_true(ole_temperature_fit(&all, &temperature) && card.temperature == temperature);
    assert_float_equal(card.threshold,
                       0.5 * (softmax_of(0.3 / temperature) + softmax_of(0.4 / temperature)), 1e-6);
}

static void test_learned(void **state) {
    (void)state;
    float logits[2 * COUNT];
    int32_t labels[COUNT];
    ole_card card = {.classes = 2};
    ole_error error;
    ole_logits all = make_logits(logits, labels, 2 * OLE_THRESHOLD_SAMPLES, 1);
    assert_ok(ole_card_set_threshold(&card, &all, false, &error), &error);
    assert_true(card.temperature == 1.0);
    assert_float_equal(card.threshold, softmax_of(0.1), 1e-7); /* the lowest of all */
    all.count--;
    assert_ok(ole_card_set_threshold(&card, &all, false, &error), &error);
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
        assert_ok(ole_card_set_threshold(&card, i == 0 ? NULL : &all, true, &error), &error);
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
    assert_true(known_share(model, 0.0, OLE_SPLIT_TRAIN) == 100.0);
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
        cmocka_unit_test(test_learned),
        cmocka_unit_test(test_none),
        cmocka_unit_test(test_runs),
    };
    return cmocka_run_group_tests(tests, temporary_make, temporary_remove);
}
