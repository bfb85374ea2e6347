/*
 * tests/unit/train/test_train_ranks_runs.c - whole runs over ranks: epochs, evaluation, folders,
 * stopping and resuming on other numbers of ranks, and ranks that do not fit together.
 */
#include "ole/train/train.h"
#include "rank_threads.h"
#include "run_files.h"
#include "temporary.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A run on several ranks; `differ` changes the options of one of them. */
typedef struct many {
    ole_train_options options;
    void (*differ)(ole_train_options *options, int rank);
    ole_train_summary summary[MOST_RANKS];
} many;

/* A rank_function. */
static ole_status train_rank(void *context, ole_ranks *ranks, ole_error *error) {
    many *m = context;
    int rank = ole_ranks_rank(ranks);
    ole_train_options options = m->options;
    options.ranks = ranks;
    if (m->differ) m->differ(&options, rank);
    return ole_train(&options, &m->summary[rank], error);
}

static ole_train_options make(const char *out) {
    ole_train_options o;
    ole_train_options_init(&o);
    o.data = "digits";
    o.net = "C8-MP-C12-MP-FC16";
    o.device = TEST_DEVICE;
    o.out = out;
    o.epochs = 2;
    o.lr = 0.02;
    o.batch_size = 50; /* 1258 samples: the last batch has 8 */
    o.augment = "crop:1";
    o.threads = 1;
    return o;
}

static const char *folder(char path[400], const char *name) {
    snprintf(path, 400, "%s/%s", temporary_dir, name);
    run_remove(path);
    return path;
}

/* Trains on `size` ranks (1: alone), which all must succeed; the summary of rank 0. */
static ole_train_summary train(const ole_train_options *o, int size) {
    many m = {.options = *o};
    rank_thread threads[MOST_RANKS];
    ole_error error;
    if (size == 1) {
        assert_ok(ole_train(o, &m.summary[0], &error), &error);
        return m.summary[0];
    }
    run_ranks(size, train_rank, &m, threads);
    for (int r = 0; r < size; r++) {
        assert_ok(threads[r].status, &threads[r].error);
        assert_true(m.summary[r].test_error == m.summary[0].test_error ||
                    isnan(m.summary[0].test_error));
        assert_int_equal(m.summary[r].interrupted, m.summary[0].interrupted);
        assert_int_equal(m.summary[r].epochs, m.summary[0].epochs);
    }
    return m.summary[0];
}

/* ---- Runs ---------------------------------------------------------------------------------- */

/* A number of the first epoch's line. */
static double first_epoch(const char *out, const char *key) {
    char *text = run_metrics(out), name[40];
    snprintf(name, sizeof name, "\"%s\": ", key);
    const char *at = strstr(text, name);
    double value = at ? strtod(at + strlen(name), NULL) : NAN;
    free(text);
    return value;
}

static void assert_close(double a, double b, double tolerance, const char *what) {
    if (!(fabs(a - b) <= tolerance * fabs(b))) fail_msg("%s: %.9g, alone %.9g", what, a, b);
}

static void test_epochs(void **state) {
    (void)state;
    static const ole_loss_kind losses[] = {OLE_LOSS_BOTH, OLE_LOSS_OLE};
    for (int k = 0; k < 2; k++) {
        char alone[400], several[400];
        ole_train_options o = make(folder(alone, "alone"));
        o.loss = losses[k];
        o.val_split = k * 0.1;
        if (k == 0) o.augment = "crop:1,mixup:0.4";
        ole_train_summary expected = train(&o, 1);
        for (int size = 2; size <= MOST_RANKS; size++) {
            o.out = folder(several, "several");
            ole_train_summary found = train(&o, size);
            assert_close(first_epoch(several, "loss"), first_epoch(alone, "loss"), 1e-5, "loss");
            if (k == 0)
                assert_true(fabs(found.test_error - expected.test_error) < 1.0);
            else
                assert_true(fabs(found.validation_error - expected.validation_error) < 3.0);
            assert_true(fabs(found.knn1_error - expected.knn1_error) < 1.0);
            run_remove(several);
        }
        run_remove(alone);
    }
}

/* ---- Stopping and resuming ----------------------------------------------------------------- */

/* Stops after a few steps of the second epoch, on one rank alone. */
static bool stop_soon(void *context, const ole_train_progress *progress) {
    (void)context;
    return progress->epoch == 2 && progress->step >= 5;
}

static void stop_on_last(ole_train_options *o, int rank) {
    o->callback = rank == ole_ranks_size(o->ranks) - 1 ? stop_soon : NULL;
}

static void train_stopped(const ole_train_options *o, int size) {
    many m = {.options = *o, .differ = stop_on_last};
    rank_thread threads[MOST_RANKS];
    run_ranks(size, train_rank, &m, threads);
    for (int r = 0; r < size; r++) {
        assert_ok(threads[r].status, &threads[r].error);
        assert_true(m.summary[r].interrupted);
        assert_int_equal(m.summary[r].epochs, 1);
    }
    assert_int_equal(run_epochs(o->out), 1);
}

static void test_resume(void **state) {
    (void)state;
    char whole[400], path[400];
    ole_train_options o = make(folder(whole, "whole"));
    o.ema = 0.5;
    ole_train_summary expected = train(&o, 1);
    o.out = folder(path, "resumed");
    for (int size = 1; size <= MOST_RANKS; size++) {
        if (size == 2) continue;
        o.resume = false;
        train_stopped(&o, 4);
        o.resume = true;
        ole_train_summary found = train(&o, size);
        assert_int_equal(found.epochs, 2);
        assert_true(fabs(found.test_error - expected.test_error) < 1.0);
        assert_close(run_end(path, "knn1_error"), expected.knn1_error, 0.2, "1-NN error");
        if (size == 4) { /* to the bit */
            char again[400];
            o.resume = false;
            o.out = folder(again, "again");
            train(&o, 4);
            assert_same_runs(path, again);
            run_remove(again);
            o.out = path;
        }
        run_remove(path);
    }
    run_remove(whole);
}

/* ---- Ranks that do not fit together -------------------------------------------------------- */

static void other_rate(ole_train_options *o, int rank) {
    if (rank == 2) o->lr = 0.03;
}

static void other_data(ole_train_options *o, int rank) {
    if (rank == 1) o->data = "digits:nowhere";
}

static void other_samples(ole_train_options *o, int rank) {
    if (rank == 1) o->samples_per_class = 20;
}

static void other_seed(ole_train_options *o, int rank) {
    if (rank == 1) o->seed = 7;
}

/* All ranks have the same error, which names the rank. */
static void expect(const ole_train_options *o, void (*differ)(ole_train_options *, int),
                   ole_status status, const char *message) {
    many m = {.options = *o, .differ = differ};
    rank_thread threads[MOST_RANKS];
    run_ranks(3, train_rank, &m, threads);
    for (int r = 0; r < 3; r++) {
        assert_int_equal(threads[r].status, status);
        if (!strstr(threads[r].error.message, message))
            fail_msg("rank %d says: %s", r, threads[r].error.message);
    }
}

static void test_differences(void **state) {
    (void)state;
    ole_train_options o = make(NULL);
    expect(&o, other_rate, OLE_ERROR_ARGUMENT, "): lr is '0.03' here and '0.02' on rank 0");
    expect(&o, other_seed, OLE_ERROR_ARGUMENT, "): seed is '7' here and '0' on rank 0");
    expect(&o, other_samples, OLE_ERROR_ARGUMENT, "samples_per_class is '20' here and '0' on");
    expect(&o, other_data, OLE_ERROR_ARGUMENT, "rank 1 (");
    o.batch_size = 2;
    expect(&o, NULL, OLE_ERROR_ARGUMENT, "a batch of 2 samples is too small for 3 ranks");
}

/* A folder that is in use is rank 0's to see, and ends all. */
static void test_folder(void **state) {
    (void)state;
    char path[400];
    ole_train_options o = make(folder(path, "used"));
    o.epochs = 1;
    train(&o, 2);
    expect(&o, NULL, OLE_ERROR_ARGUMENT, "rank 0 (");
    run_remove(path);
}

/* A loss that is NaN is found by all in the same step, with the layer. */
static void test_bad_loss(void **state) {
    (void)state;
    ole_train_options o = make(NULL);
    o.lr = 1e30;
    expect(&o, NULL, OLE_ERROR_NUMERIC, "loss is NaN or Inf, from layer");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_epochs),      cmocka_unit_test(test_resume),
        cmocka_unit_test(test_differences), cmocka_unit_test(test_folder),
        cmocka_unit_test(test_bad_loss),
    };
    return cmocka_run_group_tests(tests, temporary_make, temporary_remove);
}
