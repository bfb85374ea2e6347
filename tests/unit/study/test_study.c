/*
 * tests/unit/study/test_study.c - ole_tune(), ole_sweep() and ole_compare(): what callers hear,
 * stop and get back.
 */
#include "ole/train/study.h"
#include "study/by_kind.h"

#include "base/cuda_module.h"
#include "run_files.h"
#include "test.h"

#include <math.h>

/* ---- Studies ------------------------------------------------------------------------------ */

typedef struct watch {
    int64_t stop_after;  /* steps after which the callback stops the study; 0: never */
    int64_t steps, runs; /* seen: calls for steps, runs that ended */
    int64_t ended;       /* of the last call */
    double least, most;  /* seconds left */
    bool inside;         /* a callback is at work */
    int64_t message_count;
    char message[600]; /* the last one */
} watch;

static bool look(void *context, const ole_study_progress *p) {
    watch *w = context;
    assert_false(w->inside);
    w->inside = true;
    const ole_study_result *r = p->result;
    assert_int_in_range(p->run, 0, r->run_count - 1);
    assert_true(r->ended >= w->ended && r->ended <= r->total && r->run_count <= r->total);
    w->ended = r->ended;
    if (isfinite(p->seconds_left)) {
        w->least = fmin(w->least, p->seconds_left);
        w->most = fmax(w->most, p->seconds_left);
    }
    if (p->train) {
        assert_int_equal(r->runs[p->run].state, OLE_STUDY_WAITS);
        w->steps++;
    } else {
        assert_int_not_equal(r->runs[p->run].state, OLE_STUDY_WAITS);
        w->runs++;
    }
    w->inside = false;
    return w->stop_after && w->steps >= w->stop_after;
}

static void listen(void *context, const char *text) {
    watch *w = context;
    w->message_count++;
    snprintf(w->message, sizeof w->message, "%s", text);
}

/* Two λ, two seeds, two epochs of two batches. */
static const double lambdas[] = {0.25, 0};

typedef struct study {
    ole_train_options train;
    ole_study_options options;
    watch watch;
} study;

static void make(study *s, const char *out) {
    *s = (study){.watch = {.least = INFINITY}};
    ole_train_options *o = &s->train;
    ole_train_options_init(o);
    o->data = "digits";
    o->net = "C4-MP-FC8";
    o->out = out;
    o->device = TEST_DEVICE;
    o->samples_per_class = 6;
    o->batch_size = 32;
    o->epochs = 2;
    o->seeds = 2;
    o->threads = 1;
    ole_study_options_init(&s->options);
    s->options.train = o;
    s->options.lambdas = lambdas;
    s->options.lambda_count = 2;
    s->options.callback = look;
    s->options.message = listen;
    s->options.callback_context = &s->watch;
}

static ole_study_result tune(study *s) {
    ole_study_result result;
    ole_error error;
    assert_ok(ole_tune(&s->options, &result, &error), &error);
    return result;
}

static void assert_fails(ole_status (*conduct)(const ole_study_options *, ole_study_result *,
                                               ole_error *),
                         const ole_study_options *options, ole_status status, const char *message) {
    ole_study_result result;
    ole_error error = {0};
    assert_int_equal(conduct(options, &result, &error), status);
    if (!strstr(error.message, message)) fail_msg("'%s' is not in '%s'", message, error.message);
}

static void assert_same_results(const ole_study_result *a, const ole_study_result *b) {
    assert_int_equal(a->run_count, b->run_count);
    assert_int_equal(a->picked, b->picked);
    for (int64_t i = 0; i < a->run_count; i++) {
        const ole_study_run *x = &a->runs[i], *y = &b->runs[i];
        assert_string_equal(x->folder, y->folder);
        assert_int_equal(x->state, y->state);
        assert_memory_equal(&x->knn1_error, &y->knn1_error, sizeof x->knn1_error);
        bool grid = a->points[x->point].part == OLE_STUDY_GRID;
        assert_true(grid ? x->validation_error == y->validation_error
                         : x->test_error == y->test_error);
    }
}

/* ---- Tests -------------------------------------------------------------------------------- */

static void test_tune(void **state) {
    (void)state;
    study s;
    make(&s, run_folder("tune"));
    ole_study_result r = tune(&s);
    assert_int_equal(r.kind, OLE_STUDY_TUNE);
    assert_false(r.interrupted);
    assert_int_equal(r.point_count, 3);
    assert_int_equal(r.run_count, 6);
    assert_true(r.ended == 6 && r.total == 6);
    assert_true(r.points[0].lambda == 0.0 && r.points[1].lambda == 0.25); /* sorted */
    double a = r.points[0].validation.mean, b = r.points[1].validation.mean;
    assert_int_equal(r.picked, b < a ? 1 : 0);
    assert_true(isnan(r.points[0].test.mean) && isnan(r.points[1].test.mean));
    assert_int_equal(r.points[2].part, OLE_STUDY_RETRAIN);
    assert_true(r.points[2].lambda == r.points[r.picked].lambda);
    assert_true(r.points[2].test.mean > 0.0 && isfinite(r.points[2].test.std));
    assert_true(isnan(r.points[2].validation.mean));
    assert_int_equal(s.watch.runs, 6);
    assert_int_equal(s.watch.steps, 6 * (2 * 2 + 2)); /* two batches and the end of each epoch */
    assert_true(s.watch.least >= 0.0 && s.watch.most < 1e6);
    ole_study_result_free(&r);
    assert_int_equal(r.run_count, 0);
}

static void test_stopped_anywhere(void **state) {
    (void)state;
    study s;
    make(&s, run_folder("whole"));
    ole_study_result whole = tune(&s);
    make(&s, run_folder("stopped"));
    int64_t stops = 0;
    for (bool going = true; going; stops++) {
        s.watch = (watch){.stop_after = 5, .least = INFINITY};
        ole_study_result part = tune(&s);
        going = part.interrupted;
        if (!going) assert_same_results(&whole, &part);
        ole_study_result_free(&part);
        assert_true(stops < 20);
    }
    assert_true(stops > 5);
    for (int64_t i = 0; i < whole.run_count; i++) {
        char a[600], b[600];
        snprintf(a, sizeof a, "%s/whole/%s", temporary_dir, whole.runs[i].folder);
        snprintf(b, sizeof b, "%s/stopped/%s", temporary_dir, whole.runs[i].folder);
        assert_same_runs(a, b);
    }
    s.watch = (watch){.least = INFINITY};
    ole_study_result again = tune(&s);
    assert_int_equal(s.watch.steps, 0);
    assert_same_results(&whole, &again);
    assert_non_null(strstr(s.watch.message, "resuming after 6 of 6 runs"));
    ole_study_result_free(&again);
    ole_study_result_free(&whole);
}

static void test_jobs(void **state) {
    (void)state;
    study s;
    make(&s, run_folder("one"));
    s.options.baseline = true;
    ole_study_result one = tune(&s);
    make(&s, run_folder("four"));
    s.options.baseline = true;
    s.options.jobs = 4;
    ole_study_result four = tune(&s);
    assert_same_results(&one, &four);
    assert_int_equal(s.watch.runs, four.run_count);
    ole_study_result_free(&one);
    ole_study_result_free(&four);
}

/* On a GPU the seeds of a point run side by side by themselves. */
static void test_on_a_gpu(void **state) {
    (void)state;
    ole_error error;
    if (ole_cuda_module_check(&error) != OLE_OK) {
        print_message("no GPU to test: %s\n", error.message);
        skip();
    }
    study s;
    make(&s, run_folder("gpu"));
    s.train.device = "cuda";
    s.train.seeds = 3;
    ole_study_result r = tune(&s);
    assert_true(r.ended == 9 && r.total == 9);
    for (int64_t i = 0; i < r.run_count; i++)
        assert_int_equal(r.runs[i].state, OLE_STUDY_FINISHED);
    assert_int_equal(s.watch.runs, 9);
    ole_study_result_free(&r);
}

/* 0 and the options' λ, trained on everything and tested; looking at it changes nothing. */
static void test_compare(void **state) {
    (void)state;
    study s;
    ole_study_result r, seen;
    ole_error error;
    make(&s, run_folder("compare"));
    s.options.lambdas = NULL;
    s.train.lambda = 0.5;
    s.options.look = true;
    assert_fails(ole_compare, &s.options, OLE_ERROR_IO, "no study to resume");
    s.options.look = false;
    s.watch.stop_after = 8;
    assert_ok(ole_compare(&s.options, &r, &error), &error);
    assert_true(r.interrupted && r.ended == 1);
    ole_study_result_free(&r);
    s.options.look = true;
    s.watch = (watch){.least = INFINITY};
    assert_ok(ole_compare(&s.options, &seen, &error), &error);
    assert_true(seen.ended == 1 && seen.total == 4 && s.watch.steps == 0);
    ole_study_result_free(&seen);
    s.options.look = false;
    assert_ok(ole_compare(&s.options, &r, &error), &error);
    assert_true(r.kind == OLE_STUDY_COMPARE && r.ended == 4 && r.point_count == 2);
    assert_true(r.points[0].lambda == 0.0 && r.points[1].lambda == 0.5);
    assert_true(isfinite(r.points[0].test.std) && isfinite(r.points[1].test.mean));
    assert_int_equal(r.picked, -1);
    ole_page *page;
    assert_ok(ole_page_create(&page, "a", "b", &error), &error);
    assert_ok(ole_study_add_curve(page, OLE_STUDY_COMPARE, &s.options, &error), &error);
    ole_page_free(page);
    ole_study_result_free(&r);
    assert_fails(ole_sweep, &s.options, OLE_ERROR_ARGUMENT, "a folder of 'ole reproduce'");
}

/* Softmax alone and OLÉ alone, as in the paper's Fig. 2. */
static void test_compare_alone(void **state) {
    (void)state;
    study s;
    ole_study_result r;
    ole_error error;
    make(&s, run_folder("alone"));
    s.train.loss = OLE_LOSS_OLE;
    assert_ok(ole_compare(&s.options, &r, &error), &error);
    assert_true(isfinite(r.points[0].test.mean) && isnan(r.points[1].test.mean));
    assert_true(isfinite(r.points[0].knn1.mean) && isfinite(r.points[1].knn1.mean));
    ole_study_result_free(&r);
}

/* OLÉ alone has no classifier: 1-NN judges. */
static void test_sweep_of_ole_alone(void **state) {
    (void)state;
    study s;
    make(&s, run_folder("sweep"));
    static const int64_t samples[] = {6, 3};
    static const double one[] = {0.5};
    s.train.loss = OLE_LOSS_OLE;
    s.train.lr = 0.01;
    s.options.lambdas = one;
    s.options.lambda_count = 1;
    s.options.samples = samples;
    s.options.sample_count = 2;
    ole_study_result r;
    ole_error error;
    assert_ok(ole_sweep(&s.options, &r, &error), &error);
    assert_int_equal(r.point_count, 2);
    assert_int_equal(r.picked, -1);
    assert_true(r.points[0].samples == 3 && r.points[1].samples == 6);
    for (int i = 0; i < 2; i++)
        assert_true(isnan(r.points[i].test.mean) && r.points[i].knn1.mean > 0.0);
    ole_study_result_free(&r);
}

/* What every run would say is said once. */
static void test_messages(void **state) {
    (void)state;
    study s;
    make(&s, run_folder("messages"));
    s.train.batch_size = 8; /* most classes of a batch have one sample */
    s.train.epochs = 1;
    ole_study_result r = tune(&s);
    assert_int_equal(s.watch.message_count, 1);
    assert_non_null(strstr(s.watch.message, "have one sample"));
    ole_study_result_free(&r);
}

/* ---- Going on ----------------------------------------------------------------------------- */

/* One run each way, of one epoch. */
static void make_short(study *s, const char *out) {
    make(s, out);
    s->train.epochs = s->train.seeds = 1;
}

static void assert_runs(const study *s, int64_t ended) {
    ole_study_result r;
    ole_error error;
    assert_ok(ole_compare(&s->options, &r, &error), &error);
    assert_int_equal(r.ended, ended);
    ole_study_result_free(&r);
}

/* Starts from other weights make other runs; the same ones may lie elsewhere. */
static void test_first_weights(void **state) {
    (void)state;
    study first, s;
    char w1[600], w2[600];
    const char *begun = run_folder("weights");
    make_short(&first, begun);
    assert_runs(&first, 2);
    snprintf(w1, sizeof w1, "%s/lambda-0/seed-0/last.safetensors", begun);
    snprintf(w2, sizeof w2, "%s/lambda-0.25/seed-0/last.safetensors", begun);
    make_short(&s, run_folder("from"));
    s.train.init_from = w1;
    assert_runs(&s, 2);
    s.train.seeds = 2;
    s.train.init_from = w2;
    assert_fails(ole_compare, &s.options, OLE_ERROR_ARGUMENT, "the study has init_from '");
    s.train.init_from = NULL;
    assert_fails(ole_compare, &s.options, OLE_ERROR_ARGUMENT, "last.safetensors', not ''");
    char moved[600];
    snprintf(moved, sizeof moved, "%s/moved.safetensors", begun);
    assert_int_equal(rename(w1, moved), 0);
    s.train.init_from = moved;
    assert_runs(&s, 4);
    assert_int_equal(rename(w2, moved), 0);
    assert_fails(ole_compare, &s.options, OLE_ERROR_ARGUMENT, "whose weights have changed since");
    s.train.init_from = w1;
    assert_fails(ole_compare, &s.options, OLE_ERROR_IO, "last.safetensors");
}

/* A file of a folder, which begins so; NULL: it is not there. */
static void assert_begins(const char *where, const char *name, const char *text) {
    char path[600], bytes[100] = "";
    snprintf(path, sizeof path, "%s/%s", where, name);
    FILE *file = fopen(path, "r");
    if (file) {
        assert_true(fread(bytes, 1, sizeof bytes - 1, file) > 0);
        fclose(file);
    }
    assert_true(text ? strncmp(bytes, text, strlen(text)) == 0 : !file);
}

/* A recipe is noted once the study is accepted; it says what the data are called. */
static void test_recipe_of_a_study(void **state) {
    (void)state;
    study s;
    const char *out = run_folder("recipe");
    make_short(&s, out);
    s.options.recipe = "first";
    s.options.data_name = "folder:pictures";
    assert_runs(&s, 2);
    s.options.recipe = "second";
    s.train.epochs = 2;
    assert_fails(ole_compare, &s.options, OLE_ERROR_ARGUMENT, "epochs '1', not '2'");
    assert_begins(out, "recipe.yaml", "first");
    s.train.epochs = 1;
    assert_runs(&s, 2);
    assert_begins(out, "recipe.yaml", "second");
    s.options.data_name = "folder:others";
    assert_fails(ole_compare, &s.options, OLE_ERROR_ARGUMENT,
                 "data 'folder:pictures', not 'folder:others'");
    s.options.data_name = NULL;
    assert_runs(&s, 2);
    s.train.data = "npy:x.npy,y.npy";
    assert_fails(ole_compare, &s.options, OLE_ERROR_ARGUMENT, "data 'digits', not 'npy:");
}

/* Checking finds what beginning would find, and leaves nothing behind. */
static void test_check(void **state) {
    (void)state;
    study s;
    const char *out = run_folder("check");
    make_short(&s, out);
    s.options.check = true;
    assert_runs(&s, 0);
    assert_begins(out, "study.json", NULL);
    s.train.net = "bogus";
    assert_fails(ole_compare, &s.options, OLE_ERROR_ARGUMENT, "bogus");
    s.train.net = "C4-MP-FC8";
    s.options.check = false;
    assert_runs(&s, 2);
    s.options.check = true;
    s.train.seeds = 2;
    assert_runs(&s, 2);
    assert_int_equal(s.watch.runs, 2);
    s.train.lr = 0.01;
    assert_fails(ole_compare, &s.options, OLE_ERROR_ARGUMENT, "lr '0.1', not '0.01'");
}

static void test_errors(void **state) {
    (void)state;
    study s;
    make(&s, run_folder("errors"));
    assert_fails(ole_tune, NULL, OLE_ERROR_ARGUMENT, "ole_study_options_init()");
    s.options.struct_size = 3;
    assert_fails(ole_tune, &s.options, OLE_ERROR_ARGUMENT, "ole_study_options_init()");
    make(&s, NULL);
    assert_fails(ole_sweep, &s.options, OLE_ERROR_ARGUMENT, "out is missing");
    make(&s, run_folder("errors"));
    s.options.train = NULL;
    assert_fails(ole_tune, &s.options, OLE_ERROR_ARGUMENT, "ole_train_options_init()");
    make(&s, run_folder("errors"));
    s.options.jobs = -1;
    assert_fails(ole_tune, &s.options, OLE_ERROR_ARGUMENT, "jobs -1");
    make(&s, run_folder("errors"));
    const double bad[] = {0, NAN};
    s.options.lambdas = bad;
    assert_fails(ole_tune, &s.options, OLE_ERROR_ARGUMENT, "lambdas nan");
    s.options.lambda_count = 0;
    assert_fails(ole_tune, &s.options, OLE_ERROR_ARGUMENT, "expected 1 to 1000 values");
    make(&s, run_folder("errors"));
    s.train.seeds = 1000000;
    assert_fails(ole_tune, &s.options, OLE_ERROR_ARGUMENT, "are more than 1000000 runs");
    make(&s, run_folder("errors"));
    s.train.data = "npy:nowhere.npy,y.npy";
    assert_fails(ole_tune, &s.options, OLE_ERROR_IO, "nowhere.npy");
    make(&s, "/proc/study");
    assert_fails(ole_tune, &s.options, OLE_ERROR_IO, "/proc/study: cannot create the folder");
    assert_int_equal(temporary_each(NULL), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_tune, run_folders_remove),
        cmocka_unit_test_teardown(test_stopped_anywhere, run_folders_remove),
        cmocka_unit_test_teardown(test_jobs, run_folders_remove),
        cmocka_unit_test_teardown(test_on_a_gpu, run_folders_remove),
        cmocka_unit_test_teardown(test_compare, run_folders_remove),
        cmocka_unit_test_teardown(test_compare_alone, run_folders_remove),
        cmocka_unit_test_teardown(test_sweep_of_ole_alone, run_folders_remove),
        cmocka_unit_test_teardown(test_messages, run_folders_remove),
        cmocka_unit_test_teardown(test_first_weights, run_folders_remove),
        cmocka_unit_test_teardown(test_recipe_of_a_study, run_folders_remove),
        cmocka_unit_test_teardown(test_check, run_folders_remove),
        cmocka_unit_test_teardown(test_errors, run_folders_remove),
    };
    return cmocka_run_group_tests(tests, temporary_make, temporary_remove);
}
