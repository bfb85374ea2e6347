/*
 * tests/unit/train/test_train_mixup.c - the loss of a mixed batch against that of both labels,
 * computed here from the logits; and OLÉ, which counts the label with the larger share.
 */
#include "data/loader/loader.h"
#include "run_files.h"
#include "temporary.h"
#include "test.h"
#include "train/options/options.h"
#include "train/run/run.h"

#include <math.h>
#include <stdlib.h>

static double cross_entropy(const float *logits, int label) {
    double sum = 0;
    for (int j = 0; j < 10; j++)
        sum += exp((double)logits[j]);
    return log(sum) - (double)logits[label];
}

/* Steps with a rate of 0: forward once more gives the same logits. */
static void check_steps(const char *device, double smoothing) {
    ole_train_options o = small_run("C8-MP-FC16", device), checked;
    o.augment = "crop:1,mixup:0.4";
    o.label_smoothing = smoothing;
    ole_run run;
    ole_error error;
    assert_ok(ole_train_options_check(&o, &checked, &error), &error);
    assert_ok(ole_run_open(&run, &checked, &error), &error);
    int classifier = run.network.graph->classifier, features = run.network.graph->features;
    for (int64_t b = 0; b < 3; b++) {
        ole_batch batch;
        ole_step_result result;
        float logits[32 * 10], rows[32 * 16];
        assert_ok(ole_loader_get(run.loader, 0, b, &batch, &error), &error);
        const ole_mix *mix = ole_loader_mix(run.loader);
        const ole_step step = {.batch = &batch, .mix = mix, .number = b + 1};
        assert_ok(ole_stepper_run(run.stepper, &step, &result, &error), &error);
        ole_plan *plan = run.stepper->plan[0];
        ole_plan_forward(plan, batch.images, true, (uint64_t)b + 1);
        ole_plan_read(plan, classifier, logits);
        ole_plan_read(plan, features, rows);
        double share = (double)*mix->share, loss = 0;
        for (int64_t i = 0; i < 32; i++) {
            const float *z = logits + i * 10;
            double spread = 0;
            for (int j = 0; j < 10; j++)
                spread += cross_entropy(z, j) / 10;
            double sharp = share * cross_entropy(z, batch.labels[i]) +
                           (1 - share) * cross_entropy(z, mix->labels[i]);
            loss += ((1 - smoothing) * sharp + smoothing * spread) / 32;
        }
        assert_float_equal(result.softmax_loss, loss, 1e-6);
        const ole_loss_batch own = {
            .rows = 32, .features = rows, .labels = batch.labels, .label_type = OLE_I32};
        ole_loss_result expected = {0};
        assert_ok(ole_loss_eval(run.stepper->act[0].plan, &own, NULL, &expected, &error), &error);
        assert_float_equal(result.ole_loss, expected.value, 1e-6);
    }
    ole_run_close(&run);
}

static void test_steps(void **state) {
    (void)state;
    check_steps("cpu", 0);
    check_steps("cpu", 0.1);
    check_steps("ref", 0.1);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_steps)};
    return cmocka_run_group_tests(tests, temporary_make, temporary_remove);
}
