/*
 * tests/unit/train/test_train_criteria.c - training with the losses of loss/criteria: each learns
 * in every place it may take, runs resume to the same bits, classifiers keep unit rows, and
 * mistakes are named.  tests/unit/loss/test_criteria.c has their numbers, test_train_ranks.c the
 * ranks.
 */
#include "formats/safetensors.h"
#include "loss/criteria/criterion.h"
#include "ole/train/train.h"
#include "run_files.h"
#include "temporary.h"
#include "test.h"
#include "train/options/option_table.h"

#include <math.h>
#include <stdlib.h>

typedef struct watch {
    int64_t stop_at, steps; /* 0: never */
    double first, last;     /* the loss of the first and the last epoch */
    ole_train_progress seen;
    char messages[1000];
} watch;

static bool look(void *context, const ole_train_progress *p) {
    watch *w = context;
    if (!p->epoch_done) return ++w->steps == w->stop_at;
    w->last = isfinite(p->feature_loss) ? p->feature_loss : p->softmax_loss;
    if (p->epoch == 1) w->first = w->last;
    w->seen = *p;
    return false;
}

static void listen(void *context, const char *text) {
    watch *w = context;
    size_t used = strlen(w->messages);
    snprintf(w->messages + used, sizeof w->messages - used, "%s\n", text);
}

static ole_train_options make(const char *out, const char *loss, watch *w) {
    ole_train_options o;
    ole_error error;
    ole_train_options_init(&o);
    *w = (watch){0};
    o.data = "digits";
    o.net = "C4-MP-FC8";
    o.out = out;
    o.device = TEST_DEVICE;
    o.samples_per_class = 12;
    o.batch_size = 40;
    o.epochs = 4;
    o.lr = 0.05;
    o.threads = 1;
    o.save_every = 1;
    o.callback = look;
    o.message = listen;
    o.callback_context = w;
    assert_ok(ole_train_options_set(&o, "loss", loss, &error), &error);
    return o;
}

static ole_train_summary train(const ole_train_options *o) {
    ole_train_summary summary;
    ole_error error;
    assert_ok(ole_train(o, &summary, &error), &error);
    return summary;
}

static const char *folder(const char *name) {
    static char paths[4][400];
    static int next;
    char *path = paths[next++ % 4];
    snprintf(path, 400, "%s/%s", temporary_dir, name);
    run_remove(path);
    return path;
}

static int clear(void **state) {
    (void)state;
    temporary_each(run_remove);
    return 0;
}

/* ---- Learning ----------------------------------------------------------------------------- */

/* "softmax+center", "center" or "center+ole"; scales that suit a small net. */
static void check_learns(const ole_criterion *c, const char *format, bool classifier) {
    char loss[64];
    watch w;
    snprintf(loss, sizeof loss, format, c->name);
    ole_train_options o = make(NULL, loss, &w);
    bool margin = strcmp(c->name, "cosface") == 0 || strcmp(c->name, "arcface") == 0;
    if (margin) o.loss_options = "scale=8,margin=0.1";
    o.lambda = 0.05;
    o.epochs = 12;
    ole_train_summary s = train(&o);
    if (!(w.last < w.first)) fail_msg("%s: the loss goes from %g to %g", loss, w.first, w.last);
    assert_true(isnan(s.test_error) == !classifier && s.knn1_error < 70.0);
    if (classifier && s.test_error > 80.0) fail_msg("%s: test error %g", loss, s.test_error);
    assert_true(isnan(w.seen.feature_loss) == !!(c->traits & OLE_CRITERION_HEAD));
    assert_true(isnan(w.seen.softmax_loss) == !classifier);
    assert_true(isnan(w.seen.train_error) == !classifier);
}

static void test_learns(void **state) {
    (void)state;
    for (int i = 0; ole_criterion_at(i); i++) {
        const ole_criterion *c = ole_criterion_at(i);
        if (c->traits & OLE_CRITERION_HEAD) check_learns(c, "%s", true);
        if (c->traits & OLE_CRITERION_BESIDE) check_learns(c, "softmax+%s", true);
        if (c->traits & OLE_CRITERION_ALONE) check_learns(c, "%s", false);
    }
    check_learns(ole_criterion_find("arcface"), "%s+ole", true);
    check_learns(ole_criterion_find("supcon"), "ole+%s+softmax", true);
}

/* A weight of 0 leaves softmax alone, bit for bit. */
static void test_weight_of_zero(void **state) {
    (void)state;
    watch w;
    const char *a = folder("a"), *b = folder("b");
    ole_train_options o = make(a, "softmax", &w);
    train(&o);
    o = make(b, "softmax+supcon", &w);
    o.loss_weight = 0.0;
    train(&o);
    assert_true(same_tensor(a, b, "classifier.weight"));
    assert_true(same_tensor(a, b, "1.conv.weight"));
    run_remove(b);
    o.loss_weight = 0.1;
    train(&o);
    assert_false(same_tensor(a, b, "1.conv.weight"));
}

/* The words of the option, the bits of ole_loss_kind and the table have one order. */
static void test_words(void **state) {
    (void)state;
    const ole_option *row = ole_option_find(ole_train_table, "loss", 4);
    for (int i = 0; ole_criterion_at(i); i++) {
        char word[OLE_OPTION_VALUE];
        assert_string_equal(ole_option_word(row->words, i + 2, word), ole_criterion_at(i)->name);
        bool head = ole_criterion_at(i)->traits & OLE_CRITERION_HEAD;
        assert_true(!(OLE_LOSS_CLASSIFIERS & 1 << (i + 2)) == !head);
    }
}

/* ---- What is kept ------------------------------------------------------------------------- */

/* Stopped within an epoch and resumed: weights, optimiser and centres are those of one run. */
static void test_resume(void **state) {
    (void)state;
    static const char *const losses[] = {"softmax+center", "arcface", "l-softmax", "softmax+mcr2"};
    for (int i = 0; i < 4; i++) {
        watch w;
        const char *a = folder("a"), *b = folder("b");
        ole_train_options o = make(a, losses[i], &w);
        o.ema = 0.9;
        train(&o);
        o = make(b, losses[i], &w);
        o.ema = 0.9;
        w.stop_at = 5;
        assert_true(train(&o).interrupted);
        o.resume = true;
        train(&o);
        assert_same_runs(a, b); /* all tensors of last.safetensors */
        run_remove(a);
        run_remove(b);
    }
}

/* Rows of length 1 and no bias in the model that was saved. */
static void test_unit_rows(void **state) {
    (void)state;
    watch w;
    const char *out = folder("unit");
    ole_train_options o = make(out, "cosface", &w);
    o.weight_decay = 0.1;
    o.loss_options = "scale=8";
    train(&o);
    char path[500];
    snprintf(path, sizeof path, "%s/last.safetensors", out);
    ole_safetensors *file;
    ole_error error;
    assert_ok(ole_safetensors_open(&file, path, &error), &error);
    const float *weight = ole_safetensors_find(file, "classifier.weight")->data;
    const float *bias = ole_safetensors_find(file, "classifier.bias")->data;
    for (int c = 0; c < 10; c++) {
        double sum = 0.0;
        for (int d = 0; d < 8; d++)
            sum += (double)weight[c * 8 + d] * (double)weight[c * 8 + d];
        assert_true(fabs(sqrt(sum) - 1.0) < 2e-6);
        assert_true(bias[c] == 0.0f);
    }
    ole_safetensors_close(file);
}

/* ---- Mistakes ----------------------------------------------------------------------------- */

static void test_mistakes(void **state) {
    (void)state;
    static const struct {
        const char *loss, *options, *message;
    } wrong[] = {
        {"center", "", "loss: center needs a classifier; use softmax+center"},
        {"ole+center", "", "loss: center needs a classifier; use softmax+center"},
        {"softmax+arcface", "", "loss: arcface replaces softmax; omit one of them"},
        {"softmax+center+supcon", "",
         "loss: center and supcon cannot be combined; use one of them, with softmax or OLE"},
        {"softmax", "margin=1", "loss_options margin=1: softmax and ole have options of their own"},
        {"arcface", "margins=1",
         "loss_options: arcface has no parameter 'margins'; it has margin, scale"},
        {"arcface", "margin=9", "loss_options: margin '9': expected a number from 0 to 1.5"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        watch w;
        ole_error error = {0};
        ole_train_options o = make(NULL, wrong[i].loss, &w);
        o.loss_options = wrong[i].options;
        assert_int_equal(ole_train(&o, NULL, &error), OLE_ERROR_ARGUMENT);
        assert_string_equal(error.message, wrong[i].message);
    }
    static const char *const unknown[] = {"softmaxx", "softmax+", "softmax+softmax", ""};
    for (int i = 0; i < 4; i++) {
        watch w;
        ole_error error;
        ole_train_options o = make(NULL, "softmax", &w);
        assert_int_equal(ole_train_options_set(&o, "loss", unknown[i], &error), OLE_ERROR_ARGUMENT);
        if (!strstr(error.message, "expected some of softmax, ole, center,"))
            fail_msg("%s", error.message);
    }
}

/* The error of a loss that is NaN names the loss. */
static void test_nan(void **state) {
    (void)state;
    watch w;
    ole_error error = {0};
    ole_train_options o = make(NULL, "softmax+center", &w);
    o.loss_weight = 1e30;
    o.lr = 1e8;
    assert_int_equal(ole_train(&o, NULL, &error), OLE_ERROR_NUMERIC);
    if (!strstr(error.message, " loss is NaN or Inf")) fail_msg("%s", error.message);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_learns),
        cmocka_unit_test_teardown(test_weight_of_zero, clear),
        cmocka_unit_test(test_words),
        cmocka_unit_test_teardown(test_resume, clear),
        cmocka_unit_test_teardown(test_unit_rows, clear),
        cmocka_unit_test(test_mistakes),
        cmocka_unit_test(test_nan),
    };
    return cmocka_run_group_tests(tests, temporary_make, temporary_remove);
}
