/*
 * tests/unit/train/test_train.c - training on a few digits: that it learns, that the same seed
 * gives the same bits, and that a run survives whatever stops it.
 */
#include "ole/train/train.h"

#include "ole/loss.h"
#include "run_files.h"
#include "test.h"

#include <math.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

/* ---- Runs --------------------------------------------------------------------------------- */

typedef struct watch {
    int64_t stop_at;       /* steps after which the callback stops the run; 0: never */
    int64_t die_at;        /* steps after which the process dies; 0: never */
    int64_t steps, epochs; /* seen */
    double first_loss, last_loss;
    ole_train_progress last; /* of an epoch's end */
    char messages[2000];
} watch;

static bool look(void *context, const ole_train_progress *p) {
    watch *w = context;
    if (p->epoch_done) {
        double loss = isfinite(p->softmax_loss) ? p->softmax_loss : p->ole_loss;
        if (w->epochs++ == 0) w->first_loss = loss;
        w->last_loss = loss;
        w->last = *p;
        return false;
    }
    w->steps++;
    if (w->steps == w->die_at) _exit(9);
    return w->steps == w->stop_at;
}

static void listen(void *context, const char *text) {
    watch *w = context;
    size_t used = strlen(w->messages);
    snprintf(w->messages + used, sizeof w->messages - used, "%s\n", text);
}

static ole_train_options make(const char *out, watch *w) {
    ole_train_options o;
    ole_train_options_init(&o);
    *w = (watch){0};
    o.data = "digits";
    o.net = "C4-MP-FC8";
    o.out = out;
    o.samples_per_class = 12; /* 120 samples: 3 batches of 32 and one of 24 */
    o.batch_size = 32;
    o.epochs = 3;
    o.save_every = 1;
    o.threads = 1;
    o.callback = look;
    o.message = listen;
    o.callback_context = w;
    return o;
}

/* Everything that is drawn at random or kept between steps. */
static ole_train_options make_rich(const char *out, watch *w) {
    ole_train_options o = make(out, w);
    o.net = "C4-MP-FCD8-FC6";
    o.opt = "adamw";
    o.beta1 = 0.8;
    o.label_smoothing = 0.1;
    o.clip_norm = 1;
    o.lr_backbone = "0.5x";
    o.probe_epochs = 1;
    o.ema = 0.9;
    o.weight_decay = 0.5;
    o.augment = "crop:1,flip,mixup:0.3";
    o.val_split = 0.2;
    o.warmup = 0.5;
    o.milestones = "cosine";
    o.ole_at = "1:0.01,4";
    return o;
}

static ole_train_summary train(const ole_train_options *o) {
    ole_train_summary summary;
    ole_error error;
    assert_ok(ole_train(o, &summary, &error), &error);
    return summary;
}

static void assert_fails(const ole_train_options *o, ole_status status, const char *message) {
    ole_error error = {0};
    assert_int_equal(ole_train(o, NULL, &error), status);
    if (!strstr(error.message, message)) fail_msg("'%s' is not in '%s'", message, error.message);
}

/* ---- Learning ----------------------------------------------------------------------------- */

static void test_learns(void **state) {
    (void)state;
    static const char *const devices[] = {"ref", "auto"};
    for (int d = 0; d < 2; d++)
        for (int loss = OLE_LOSS_SOFTMAX; loss <= OLE_LOSS_BOTH; loss++) {
            watch w;
            ole_train_options o = make(NULL, &w);
            o.device = devices[d];
            o.loss = (ole_loss_kind)loss;
            o.lambda = 1.0;
            o.lr = loss == OLE_LOSS_OLE ? 0.01 : 0.1;
            o.epochs = 6;
            ole_train_summary s = train(&o);
            assert_true(w.last_loss < w.first_loss);
            assert_int_equal(s.epochs, 6);
            assert_true(s.knn1_error < 60.0);
            assert_true(isnan(s.validation_error) && isnan(s.test_error_std));
            if (loss == OLE_LOSS_OLE) {
                assert_true(isnan(s.test_error) && isnan(w.last.train_error));
            } else {
                assert_true(s.test_error < 60.0 && s.test_error == w.last.test_error);
            }
        }
}

/* OLÉ's gradient does not reach the classifier: one step moves it by the same whatever λ is. */
static void test_classifier_is_left_alone(void **state) {
    (void)state;
    watch w;
    const char *a = run_folder("a"), *b = run_folder("b");
    ole_train_options o = make(a, &w);
    o.batch_size = 120;
    o.epochs = 1;
    o.lambda = 0.0;
    train(&o);
    o.out = b;
    o.lambda = 5.0;
    train(&o);
    assert_int_equal(w.steps, 2);
    assert_true(same_tensor(a, b, "classifier.weight"));
    assert_true(same_tensor(a, b, "classifier.bias"));
    assert_false(same_tensor(a, b, "3.linear.weight"));
    assert_false(same_tensor(a, b, "1.conv.weight"));
    run_remove(a);
    run_remove(b);
    o.loss = OLE_LOSS_OLE; /* alone: it stays as it was made, in spite of the weight decay */
    o.weight_decay = 0.1;
    train(&o);
    o.out = a;
    o.epochs = 3;
    train(&o);
    assert_true(same_tensor(a, b, "classifier.weight"));
    assert_false(same_tensor(a, b, "3.linear.weight"));
}

/* OLÉ at a token moves what lies before it, and nothing behind it. */
static void test_ole_at_a_token(void **state) {
    (void)state;
    watch w;
    const char *a = run_folder("a"), *b = run_folder("b");
    ole_train_options o = make(a, &w);
    o.batch_size = 120;
    o.epochs = 1;
    o.ole_at = "1:0";
    train(&o);
    o.out = b;
    o.ole_at = "1:0.5";
    train(&o);
    assert_true(same_tensor(a, b, "3.linear.weight"));
    assert_false(same_tensor(a, b, "1.conv.weight"));
}

/* Parts of a residual net by name: whatever the batches, they stay, statistics included. */
static void test_freeze_stages(void **state) {
    (void)state;
    watch w;
    const char *a = run_folder("a"), *b = run_folder("b");
    ole_train_options o = make(a, &w);
    o.net = "C4-B4-B6-AP";
    o.freeze = "stem,stage1";
    o.epochs = 1;
    train(&o);
    o.out = b;
    o.batch_size = 16;
    train(&o);
    assert_true(same_tensor(a, b, "1.conv.weight"));
    assert_true(same_tensor(a, b, "1.norm.running_mean"));
    assert_true(same_tensor(a, b, "2.block1.norm2.running_var"));
    assert_false(same_tensor(a, b, "3.block1.conv1.weight"));
    assert_false(same_tensor(a, b, "3.block1.norm1.running_mean"));
    assert_false(same_tensor(a, b, "classifier.bias"));
    o.out = NULL;
    o.freeze = "stage3";
    assert_fails(&o, OLE_ERROR_ARGUMENT, "freeze: no parameter begins with 'stage3'");
}

/* The probe is a run with a frozen backbone at one learning rate; then everything trains. */
static void test_probe(void **state) {
    (void)state;
    watch w;
    const char *probe = run_folder("a"), *frozen = run_folder("b"), *whole = run_folder("c");
    ole_train_options o = make(frozen, &w);
    o.net = "C4-MP-FC8"; /* with batch norms */
    o.opt = "adamw";
    o.milestones = "none";
    o.freeze = "backbone";
    o.epochs = 1;
    train(&o);
    o.out = probe;
    o.lr = 0.01;
    train(&o);
    assert_false(same_tensor(probe, frozen, "classifier.bias"));
    run_remove(probe);
    o.lr = 0.0;
    o.freeze = NULL;
    o.epochs = 2;
    o.probe_epochs = 1;
    o.milestones = "cosine";
    o.out = whole;
    train(&o);
    o.out = probe;
    w = (watch){.stop_at = 4}; /* the steps of an epoch */
    train(&o);
    static const char *const still[] = {"1.conv.weight", "1.norm.running_mean",
                                        "1.norm.running_var", "3.linear.weight"};
    for (size_t i = 0; i < sizeof still / sizeof *still; i++) {
        assert_true(same_tensor(probe, frozen, still[i]));
        assert_false(same_tensor(probe, whole, still[i]));
    }
    assert_true(same_tensor(probe, frozen, "classifier.weight"));
    assert_false(same_tensor(probe, whole, "classifier.weight"));
    o = make(NULL, &w);
    o.probe_epochs = 3;
    assert_fails(&o, OLE_ERROR_ARGUMENT,
                 "probe_epochs 3: leaves none of 3 epochs for the other layers");
    o.probe_epochs = 1;
    o.loss = OLE_LOSS_OLE;
    assert_fails(&o, OLE_ERROR_ARGUMENT, "probe_epochs trains the classifier");
}

static void test_init_from_and_freeze(void **state) {
    (void)state;
    watch w;
    const char *a = run_folder("a"), *b = run_folder("b");
    ole_train_options o = make(a, &w);
    train(&o);
    char path[500];
    snprintf(path, sizeof path, "%s/last.safetensors", a);
    o.out = b;
    o.seed = 7;
    o.init_from = path;
    o.freeze = "1.conv,classifier";
    train(&o);
    assert_non_null(strstr(w.messages, "last.safetensors: 14 loaded, 0 skipped, 0 left "
                                       "unchanged, 12 not needed\n"));
    assert_true(same_tensor(a, b, "1.conv.weight"));
    assert_true(same_tensor(a, b, "classifier.bias"));
    assert_false(same_tensor(a, b, "3.linear.weight"));
    o = make(NULL, &w);
    o.net = "C4-MP-FC9";
    o.init_from = path;
    train(&o);
    assert_non_null(strstr(w.messages, "7 loaded, 7 skipped (3.linear.weight, 3.linear.bias"));
    assert_non_null(strstr(w.messages, "7 left unchanged (3.linear.weight"));
    assert_non_null(strstr(w.messages, "nothing in it fits 3.linear.weight and the layers after"));
    o.net = "FC3";
    o.classes = "0,1,2";
    assert_fails(&o, OLE_ERROR_ARGUMENT, "no tensor in it fits the net");
}

/* Token 1 is not token 10, and of what is frozen nothing moves. */
static void test_freeze_numbers(void **state) {
    (void)state;
    watch w;
    const char *a = run_folder("a"), *b = run_folder("b");
    ole_train_options o = make(a, &w);
    o.net = "FC4-FC4-FC4-FC4-FC4-FC4-FC4-FC4-FC4-FC4";
    o.epochs = 1;
    train(&o);
    o.out = b;
    o.epochs = 2;
    o.freeze = "1";
    train(&o);
    assert_false(same_tensor(a, b, "10.linear.weight"));
    o = make(NULL, &w);
    o.freeze = "1,3,classifier";
    train(&o);
    assert_non_null(strstr(w.messages, "warning: freeze 1,3,classifier: every weight is frozen"));
}

/* Thresholds over every singular value leave OLÉ no gradient: softmax learns as without it. */
static void test_deltas(void **state) {
    (void)state;
    static const struct {
        double lambda, floor, absolute, relative;
        bool as_without;
    } cases[] = {
        {0.0, 1.0, 1e-6, OLE_DELTA_REL_AUTO, true},
        {1.0, 1.0, 1e9, OLE_DELTA_REL_AUTO, true},
        {1.0, 1.0, 1e-6, 2.0, true},
        {1.0, 1.0, 1e-6, OLE_DELTA_REL_AUTO, false},
        {1.0, 1e9, 1e-6, OLE_DELTA_REL_AUTO, false},
    };
    double loss[5];
    for (int i = 0; i < 5; i++) {
        watch w;
        ole_train_options o = make(NULL, &w);
        o.lambda = cases[i].lambda;
        o.delta_floor = cases[i].floor;
        o.delta_abs = cases[i].absolute;
        o.delta_rel = cases[i].relative;
        train(&o);
        loss[i] = w.last_loss;
        assert_int_equal(loss[i] == loss[0], cases[i].as_without);
    }
    assert_true(loss[3] != loss[4]);
}

static void test_warnings(void **state) {
    (void)state;
    watch w;
    ole_train_options o = make(NULL, &w);
    o.epochs = 1;
    o.samples_per_class = 2;
    o.batch_size = 1;
    o.warmup = 2;
    o.milestones = "4";
    o.val_split = 0.1;
    train(&o);
    assert_non_null(strstr(w.messages, "warning: batch norm needs more than one sample per batch"));
    assert_non_null(strstr(w.messages, "warning: a warm-up of 2 in 1 epoch:"));
    assert_non_null(strstr(
        w.messages, "warning: milestones 4: the learning rate does not drop within 1 epoch\n"));
    o.sampler = "balanced:11x2";
    assert_fails(&o, OLE_ERROR_ARGUMENT, "sampler balanced:11x2: digits has only 10 classes");
    o.sampler = "";
    o.augment = "crop:2,crop:3";
    assert_fails(&o, OLE_ERROR_ARGUMENT,
                 "augment 'crop:2,crop:3': expected crop:PIXELS, resized-crop:SHARE, flip");
    o.augment = "";
    o.normalize = "1e39/1";
    assert_fails(&o, OLE_ERROR_ARGUMENT, "normalize '1e39/1': expected auto, none, half, cifar");
}

static void test_same_seed_same_bits(void **state) {
    (void)state;
    watch w;
    const char *a = run_folder("a"), *b = run_folder("b"), *c = run_folder("c");
    ole_train_options o = make_rich(a, &w);
    train(&o);
    o.out = b;
    o.workers = 3;
    train(&o);
    assert_same_runs(a, b);
    o.out = c;
    o.seed = 1;
    train(&o);
    char *m = run_metrics(a), *n = run_metrics(c);
    assert_string_not_equal(m, n);
    free(m);
    free(n);
}

/* ---- Stopping and resuming ---------------------------------------------------------------- */

static void test_stop_and_resume(void **state) {
    (void)state;
    watch w;
    const char *whole = run_folder("whole"), *parts = run_folder("parts");
    ole_train_options o = make_rich(whole, &w);
    train(&o);
    int64_t steps = w.steps;
    assert_int_equal(steps, 12);
    for (int64_t stop = 1; stop <= steps; stop++) {
        run_remove(parts);
        o = make_rich(parts, &w);
        w.stop_at = stop;
        ole_train_summary s = train(&o);
        assert_true(s.interrupted);
        assert_int_equal(run_epochs(parts), (stop - 1) / 4);
        o = make_rich(parts, &w);
        o.resume = true;
        s = train(&o);
        assert_false(s.interrupted);
        assert_int_equal(w.steps, steps - stop);
        assert_same_runs(whole, parts);
    }
    o = make_rich(parts, &w); /* again, with nothing left to do */
    o.resume = true;
    train(&o);
    assert_int_equal(w.steps, 0);
    assert_same_runs(whole, parts);
}

/* Runs in a process of its own, which dies without a word after so many steps. */
static void train_and_die(ole_train_options *o, watch *w, int64_t die_at) {
    w->die_at = die_at;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        ole_train(o, NULL, NULL);
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 9);
}

static void test_kill_and_resume(void **state) {
    (void)state;
    watch w;
    const char *whole = run_folder("whole"), *parts = run_folder("parts");
    ole_train_options o = make(whole, &w);
    o.device = "ref"; /* no threads, which would not survive the fork */
    o.workers = 0;
    ole_train_options base = o;
    train(&o);
    static const struct {
        int64_t step, every, left;
    } deaths[] = {{1, 1, 12}, {4, 1, 12}, {5, 1, 8}, {11, 1, 4}, {5, 2, 12}, {11, 2, 4}, {5, 0, 8}};
    for (size_t i = 0; i < sizeof deaths / sizeof *deaths; i++) { /* an epoch has 4 steps */
        run_remove(parts);
        o = base;
        o.out = parts;
        o.save_every = deaths[i].every;
        w = (watch){0};
        train_and_die(&o, &w, deaths[i].step);
        w = (watch){0};
        o.resume = true;
        train(&o);
        bool no_checkpoint = deaths[i].left == 12;
        assert_true(no_checkpoint == (strstr(w.messages, "starting from the beginning") != NULL));
        assert_int_equal(w.steps, deaths[i].left);
        assert_same_runs(whole, parts);
    }
}

/* A run that is stopped is saved, whatever is said of how often. */
static void test_stop_between_saves(void **state) {
    (void)state;
    watch w;
    const char *whole = run_folder("whole"), *parts = run_folder("parts");
    ole_train_options o = make(whole, &w);
    train(&o);
    for (int64_t stop = 7; stop <= 8; stop++) { /* in the second epoch, and at its end */
        run_remove(parts);
        o = make(parts, &w);
        o.save_every = 100;
        w.stop_at = stop;
        assert_true(train(&o).interrupted);
        w = (watch){0};
        o.resume = true;
        train(&o);
        assert_int_equal(w.steps, 12 - stop);
        assert_same_runs(whole, parts);
    }
}

static void test_longer(void **state) {
    (void)state;
    watch w;
    const char *out = run_folder("out"), *whole = run_folder("whole");
    ole_train_options o = make(whole, &w);
    o.milestones = "none";
    train(&o);
    o.out = out;
    o.epochs = 2;
    train(&o);
    o.epochs = 3;
    o.resume = true;
    train(&o);
    assert_true(same_tensor(whole, out, "1.conv.weight"));
    assert_true(run_end(whole, "test_error") == run_end(out, "test_error"));
}

static void test_resume_mistakes(void **state) {
    (void)state;
    watch w;
    const char *out = run_folder("out");
    ole_train_options o = make(out, &w);
    o.epochs = 1;
    train(&o);
    assert_fails(&o, OLE_ERROR_ARGUMENT, "already holds a run; continue it with --resume");
    o.resume = true;
    o.lambda = 0.5;
    assert_fails(&o, OLE_ERROR_ARGUMENT,
                 "last.safetensors: the run has lambda '0.25', not '0.5'; resume with the same");
    o.out = run_folder("nowhere");
    assert_fails(&o, OLE_ERROR_IO, "no run to resume");
}

/* ---- Bad weather -------------------------------------------------------------------------- */

static void cut_file(const char *out, const char *name) {
    char path[500];
    snprintf(path, sizeof path, "%s/%s", out, name);
    assert_int_equal(truncate(path, 5000), 0);
}

static void test_torn_checkpoint(void **state) {
    (void)state;
    watch w;
    const char *whole = run_folder("whole"), *out = run_folder("out");
    ole_train_options o = make(whole, &w);
    train(&o);
    o = make(out, &w);
    w.stop_at = 9; /* in the third epoch */
    train(&o);
    cut_file(out, "last.safetensors");
    o = make(out, &w);
    o.resume = true;
    train(&o);
    assert_non_null(strstr(w.messages, "resuming from previous.safetensors"));
    assert_int_equal(w.steps, 4);
    assert_same_runs(whole, out);
    cut_file(out, "last.safetensors");
    cut_file(out, "previous.safetensors");
    assert_fails(&o, OLE_ERROR_FORMAT, "out/last.safetensors: ");
}

static void test_full_disk(void **state) {
    (void)state;
    watch w;
    const char *whole = run_folder("whole"), *out = run_folder("out");
    ole_train_options o = make(whole, &w);
    train(&o);
    o = make(out, &w);
    w.stop_at = 5;
    train(&o);
    struct rlimit old, small;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    small = old;
    small.rlim_cur = 4000;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    o = make(out, &w);
    o.resume = true;
    ole_error error;
    ole_status status = ole_train(&o, NULL, &error);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    assert_int_equal(status, OLE_ERROR_IO);
    assert_non_null(strstr(error.message, "best.safetensors: cannot write: File too large"));
    assert_int_equal(run_epochs(out), 1);
    train(&o);
    assert_same_runs(whole, out);
}

static void test_nan(void **state) {
    (void)state;
    watch w;
    const char *out = run_folder("out");
    ole_train_options o = make(out, &w);
    o.milestones = "2";
    o.gamma = 1e30;
    assert_fails(&o, OLE_ERROR_NUMERIC, "the softmax loss is NaN or Inf, from layer ");
    ole_error error;
    run_remove(out);
    ole_train(&o, NULL, &error);
    assert_non_null(strstr(error.message, "step 10: "));
    assert_non_null(strstr(error.message, "; lower --lr or --lambda or add --warmup; "));
    assert_non_null(strstr(error.message, "out/last.safetensors holds epoch 2"));
    assert_int_equal(run_epochs(out), 2);
}

/* ---- Options ------------------------------------------------------------------------------ */

static void test_best(void **state) {
    (void)state;
    watch w;
    const char *out = run_folder("out"), *one = run_folder("one"), *plain = run_folder("plain");
    ole_train_options o = make(out, &w);
    o.lr = 1e-5; /* hardly anything is learned, so that the first epoch stays the best */
    o.val_split = 0.3;
    o.milestones = "none";
    o.net = "FC8[nobn]";
    ole_train_summary s = train(&o);
    assert_true(isfinite(s.validation_error));
    o.out = one;
    o.epochs = 1;
    train(&o);
    assert_true(same_tensor(out, one, "1.linear.weight"));
    o.out = plain; /* without a validation split the best is the last */
    o.val_split = 0.0;
    o.epochs = 3;
    o.keep = "best";
    train(&o);
    assert_non_null(strstr(w.messages, "warning: keep best: no samples are held out"));
    assert_false(same_tensor(out, plain, "1.linear.weight"));
    char best[500];
    snprintf(best, sizeof best, "%s/best.safetensors", plain);
    ole_train_options again = make(NULL, &w);
    again.net = o.net;
    again.init_from = best;
    again.epochs = 1;
    train(&again);
    assert_non_null(strstr(w.messages, "4 loaded, 0 skipped, 0 left"));
}

static void test_seeds(void **state) {
    (void)state;
    watch w;
    const char *out = run_folder("out"), *one = run_folder("one");
    ole_train_options o = make(out, &w);
    o.seeds = 3;
    o.seed = 4;
    ole_train_summary s = train(&o);
    assert_int_equal(s.runs, 3);
    assert_int_equal(w.last.run, 3);
    double sum = 0, squares = 0;
    char path[500];
    for (int k = 0; k < 3; k++) {
        snprintf(path, sizeof path, "%s/seed-%d", out, 4 + k);
        double e = run_end(path, "test_error");
        sum += e;
        squares += e * e;
    }
    assert_true(fabs(s.test_error - sum / 3) < 1e-9);
    assert_true(fabs(s.test_error_std - sqrt((squares - sum * sum / 3) / 2)) < 1e-6);
    o.seeds = 1;
    o.seed = 6;
    o.out = one;
    train(&o);
    assert_same_runs(one, path);
    o.seeds = 4; /* a fourth; the first three are done */
    o.seed = 4;
    o.out = out;
    assert_fails(&o, OLE_ERROR_ARGUMENT, "out: already holds a run");
    o.resume = true;
    w.steps = 0;
    s = train(&o);
    assert_int_equal(s.runs, 4);
    assert_int_equal(w.steps, 12);
}

static void test_warning(void **state) {
    (void)state;
    watch w;
    ole_train_options o = make(NULL, &w);
    o.batch_size = 8;
    o.epochs = 1;
    train(&o);
    assert_non_null(strstr(w.messages, "have one sample, from which OLE learns little; --sampler "
                                       "balanced:CxK draws K samples"));
    static const char *const balanced[] = {"balanced:4x2", "balanced"}; /* 2 classes, 4 each */
    for (int i = 0; i < 2; i++) {
        o.sampler = balanced[i];
        w.messages[0] = '\0';
        train(&o);
        assert_string_equal(w.messages, "");
    }
    o.sampler = "";
    o.loss = OLE_LOSS_SOFTMAX;
    train(&o);
    assert_string_equal(w.messages, "");
}

static void test_mistakes(void **state) {
    (void)state;
    watch w;
    ole_train_options o = make(NULL, &w);
    o.device = "tpu";
    assert_fails(&o, OLE_ERROR_ARGUMENT, "device tpu: choose auto, cpu, cuda, cuda:N or ref");
    o = make(NULL, &w);
    o.ole_at = "4";
    assert_fails(&o, OLE_ERROR_ARGUMENT, "ole_at 4: the net has 3 tokens, there is no token 4");
    o = make(NULL, &w);
    o.freeze = "1,9.conv";
    assert_fails(&o, OLE_ERROR_ARGUMENT, "freeze: no parameter begins with '9.conv'");
    o = make(NULL, &w);
    o.normalize = "cifar";
    assert_fails(&o, OLE_ERROR_ARGUMENT, "normalize cifar is for 3 channels, but the data have 1");
    o = make(NULL, &w);
    o.init_from = temporary_path("no.safetensors");
    assert_fails(&o, OLE_ERROR_IO, "cannot read: No such file or directory");
    o = make("/proc/run", &w);
    assert_fails(&o, OLE_ERROR_IO, "/proc/run: cannot create the folder: ");
    o = make(NULL, &w);
    o.net = "C4-Q3";
    assert_fails(&o, OLE_ERROR_ARGUMENT, "column 4");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_learns),
        cmocka_unit_test_teardown(test_classifier_is_left_alone, run_folders_remove),
        cmocka_unit_test_teardown(test_ole_at_a_token, run_folders_remove),
        cmocka_unit_test_teardown(test_init_from_and_freeze, run_folders_remove),
        cmocka_unit_test_teardown(test_freeze_numbers, run_folders_remove),
        cmocka_unit_test(test_deltas),
        cmocka_unit_test_teardown(test_warnings, run_folders_remove),
        cmocka_unit_test_teardown(test_same_seed_same_bits, run_folders_remove),
        cmocka_unit_test_teardown(test_freeze_stages, run_folders_remove),
        cmocka_unit_test_teardown(test_probe, run_folders_remove),
        cmocka_unit_test_teardown(test_stop_and_resume, run_folders_remove),
        cmocka_unit_test_teardown(test_kill_and_resume, run_folders_remove),
        cmocka_unit_test_teardown(test_stop_between_saves, run_folders_remove),
        cmocka_unit_test_teardown(test_longer, run_folders_remove),
        cmocka_unit_test_teardown(test_resume_mistakes, run_folders_remove),
        cmocka_unit_test_teardown(test_torn_checkpoint, run_folders_remove),
        cmocka_unit_test_teardown(test_full_disk, run_folders_remove),
        cmocka_unit_test_teardown(test_nan, run_folders_remove),
        cmocka_unit_test_teardown(test_best, run_folders_remove),
        cmocka_unit_test_teardown(test_seeds, run_folders_remove),
        cmocka_unit_test(test_warning),
        cmocka_unit_test(test_mistakes),
    };
    return cmocka_run_group_tests(tests, temporary_make, temporary_remove);
}
