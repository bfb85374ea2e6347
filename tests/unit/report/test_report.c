/*
 * tests/unit/report/test_report.c - ole_report_run(): the same page from a model in memory and from
 * its folder, what is run for it, stopping it, running out of memory, and what it refuses.
 */
#include "ole/train/report.h"

#include "failing_memory.h"
#include "ole/train/train.h"
#include "temporary.h"
#include "test.h"

#include <math.h>

/* What the callback heard. */
typedef struct heard {
    bool samples; /* a split was run through the model */
    bool stop;    /* what it answers */
} heard;

static bool listen(void *context, const char *what, double share) {
    heard *h = context;
    assert_true(share >= 0 && share <= 1);
    h->samples |= strcmp(what, "test samples") == 0;
    return h->stop;
}

static ole_model *train(ole_loss_kind loss) {
    ole_train_options o;
    ole_model *model;
    ole_error error;
    ole_train_options_init(&o);
    o.data = "digits";
    o.net = "C4-MP-FC8";
    o.out = temporary_dir;
    o.loss = loss;
    o.epochs = 1;
    o.samples_per_class = 12;
    o.threads = 1;
    o.model = &model;
    assert_ok(ole_train(&o, NULL, &error), &error);
    return model;
}

static ole_report_options options_for(heard *h, ole_model *model) {
    ole_report_options o;
    ole_report_options_init(&o);
    o.out = temporary_path("page.html");
    o.threads = 1;
    o.model = model;
    o.callback = listen;
    o.callback_context = h;
    return o;
}

static ole_report report(heard *h, ole_model *model) {
    const char *folder = temporary_dir;
    ole_report_options o = options_for(h, model);
    ole_report r;
    ole_error error;
    assert_ok(ole_report_run(&r, &folder, 1, &o, &error), &error);
    return r;
}

static void check_rows(const ole_report_row *a, const ole_report_row *b) {
    assert_true(a->tested && b->tested && a->epochs == 1 && b->epochs == 1);
    assert_true(a->error == b->error || (isnan(a->error) && isnan(b->error)));
    assert_true(a->knn1_error == b->knn1_error);
    assert_float_equal(a->angle_within, b->angle_within, 1e-3);
    assert_float_equal(a->angle_between, b->angle_between, 1e-3);
    assert_float_equal(a->effective_rank, b->effective_rank, 1e-3);
    assert_true(!a->without_model && !b->without_model && !a->changed && !b->changed);
}

/* Neither weights nor another pass over the test split are needed for a model from training. */
static void test_memory_and_folder(void **state) {
    (void)state;
    const ole_loss_kind losses[] = {OLE_LOSS_BOTH, OLE_LOSS_OLE};
    for (int i = 0; i < 2; i++) {
        ole_model *model = train(losses[i]);
        heard first = {0}, second = {0};
        ole_report stored = report(&first, NULL);
        assert_int_equal(unlink(temporary_path("best.safetensors")), 0);
        assert_int_equal(unlink(temporary_path("last.safetensors")), 0);
        ole_report fresh = report(&second, model);
        assert_true(first.samples && !second.samples);
        assert_int_equal(stored.count, 1);
        check_rows(&stored.runs[0], &fresh.runs[0]);
        assert_string_equal(fresh.runs[0].folder, temporary_dir);
        ole_report_free(&stored);
        ole_report_free(&fresh);
        ole_model_free(model);
        temporary_clear(NULL);
    }
}

static void test_no_model(void **state) {
    (void)state;
    ole_model_free(train(OLE_LOSS_BOTH));
    assert_int_equal(unlink(temporary_path("best.safetensors")), 0);
    assert_int_equal(unlink(temporary_path("last.safetensors")), 0);
    heard h = {0};
    ole_report r = report(&h, NULL);
    assert_non_null(r.runs[0].without_model);
    assert_true(isnan(r.runs[0].angle_within) && isfinite(r.runs[0].error));
    assert_int_equal(access(temporary_path("page.html"), F_OK), 0);
    ole_report_free(&r);
}

static void test_stop(void **state) {
    (void)state;
    ole_model *model = train(OLE_LOSS_BOTH);
    for (int i = 0; i < 2; i++) {
        heard h = {.stop = true};
        ole_report r = report(&h, i == 0 ? NULL : model);
        assert_true(r.interrupted && r.count == 0 && !r.runs);
        assert_int_not_equal(access(temporary_path("page.html"), F_OK), 0);
    }
    ole_model_free(model);
}

/* Whatever allocation fails: an error and no page, or a whole page. */
static void test_no_memory(void **state) {
    (void)state;
    if (!MEMORY_FAILS) skip();
    ole_model *model = train(OLE_LOSS_BOTH);
    const char *folder = temporary_dir, *page = temporary_path("page.html");
    heard h = {0};
    ole_report_options o = options_for(&h, model);
    o.maps = 0;
    bool failed = true;
    for (int64_t n = 0; failed; n += 1 + n / 10) {
        ole_report r = {0};
        ole_error error;
        memory_fails_at(n, FAILS_ONCE);
        ole_status status = ole_report_run(&r, &folder, 1, &o, &error);
        failed = memory_has_failed();
        assert_true(status == OLE_OK || (failed && status == OLE_ERROR_MEMORY));
        assert_int_equal(access(page, F_OK), status == OLE_OK ? 0 : -1);
        if (status == OLE_OK) assert_null(r.runs[0].without_model);
        ole_report_free(&r);
        unlink(page);
    }
    ole_model_free(model);
}

static void test_mistakes(void **state) {
    (void)state;
    const char *folders[] = {temporary_dir, temporary_dir};
    ole_model *model = train(OLE_LOSS_BOTH);
    heard h = {0};
    ole_report r;
    ole_report_options o = options_for(&h, model);
    assert_int_equal(ole_report_run(&r, folders, 2, &o, NULL), OLE_ERROR_ARGUMENT);
    assert_int_equal(ole_report_run(&r, folders, 0, &o, NULL), OLE_ERROR_ARGUMENT);
    assert_int_equal(ole_report_run(&r, folders, 1, NULL, NULL), OLE_ERROR_ARGUMENT);
    o.struct_size = 0;
    assert_int_equal(ole_report_run(&r, folders, 1, &o, NULL), OLE_ERROR_ARGUMENT);
    o = options_for(&h, NULL);
    folders[0] = "/nowhere";
    assert_int_equal(ole_report_run(&r, folders, 1, &o, NULL), OLE_ERROR_IO);
    ole_model_free(model);
    ole_report_free(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_memory_and_folder, temporary_clear),
        cmocka_unit_test_teardown(test_no_model, temporary_clear),
        cmocka_unit_test_teardown(test_stop, temporary_clear),
        cmocka_unit_test_teardown(test_no_memory, temporary_clear),
        cmocka_unit_test_teardown(test_mistakes, temporary_clear),
    };
    return cmocka_run_group_tests(tests, temporary_make, temporary_remove);
}
