/*
 * tests/unit/train/test_train_cuda.c - whole runs on a GPU: the same batches as on the CPU,
 * recorded steps against single ones, the GPU against the reference, going on elsewhere, and
 * failures.
 */
#include "gpu.h"
#include "run_files.h"
#include "temporary.h"
#include "train/options/options.h"
#include "train/run/run.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const nets[] = {
    "C8-MP-FC16",
    "C8[nobias]-C8[nobias]-AP-FCD12[nobias]-FC8[nobias]",
    "C8[nobias]-R16/4(x2)-AP",
    "CO8-PR16/4(x2)-BN-ReLU-AP",
    "CO8-D20/4-CR12-D24/4-BN-ReLU-AP",
    "CO8-D18/5-BN-ReLU-AP",
    "C8[k5,nobias]-MP[k3,p1]-B8(x2)-B12[noproj]-PB16-BN-ReLU-AP",
};
enum { NETS = sizeof nets / sizeof *nets };

static void open_run(ole_run *run, const ole_train_options *o) {
    ole_train_options checked;
    ole_error error;
    assert_ok(ole_train_options_check(o, &checked, &error), &error);
    assert_ok(ole_run_open(run, &checked, &error), &error);
}

/* ---- batches ------------------------------------------------------------------------------ */

/* The labels and the share that rows were mixed with, exactly. */
static void check_mix(const ole_run *run, const ole_batch *batch) {
    const ole_mix *mix = ole_loader_mix(run->loader);
    assert_true(!mix == !run->recorded->others);
    if (!mix) return;
    int32_t labels[32];
    float share;
    const ole_backend *backend = run->network.backend;
    backend->copy_out(run->network.context, run->recorded->mix.share, sizeof share, &share);
    backend->copy_out(run->network.context, run->recorded->mix.labels,
                      (size_t)batch->count * sizeof *labels, labels);
    assert_true(share == *mix->share);
    assert_memory_equal(labels, mix->labels, (size_t)batch->count * sizeof *labels);
}

/* Pixels agree within `relative` of their value, or `absolute`. */
static void check_batch(ole_run *run, int64_t epoch, int64_t number, float relative,
                        float absolute) {
    ole_error error;
    ole_batch batch;
    ole_step_sums sums;
    int64_t size = ole_network_image_size(&run->network);
    float *images = malloc((size_t)(32 * size) * sizeof *images);
    assert_non_null(images);
    assert_ok(ole_recorded_start(run->recorded, &run->schedule, epoch, number, 0, &error), &error);
    assert_ok(ole_recorded_step(run->recorded, &error), &error);
    assert_ok(ole_recorded_read(run->recorded, &sums, &error), &error);
    assert_int_equal(sums.steps, 1);
    assert_ok(ole_loader_get(run->loader, epoch, number, &batch, &error), &error);
    check_mix(run, &batch);
    ole_plan_read(run->stepper->plan[batch.count == 32 ? 0 : 1], 0, images);
    for (int64_t i = 0; i < batch.count * size; i++)
        if (!(fabsf(images[i] - batch.images[i]) <=
              fmaxf(relative * fabsf(batch.images[i]), absolute)))
            fail_msg("batch %d of epoch %d: pixel %d is %.9g, not %.9g", (int)number, (int)epoch,
                     (int)i, (double)images[i], (double)batch.images[i]);
    free(images);
}

static void same_batches(void **state) {
    (void)state;
    gpu_table("ole_cuda_backend");
    ole_train_options o = small_run("C8-MP-FC16", "cuda");
    static const char photos[] =
        "crop:1,flip,resized-crop:0.4,rotate:15,jitter:0.4,erase:0.5,cutout:3,mixup:0.4";
    static const struct {
        const char *augment;
        float absolute;
    } cases[] = {{NULL, 0}, {"crop:1,flip,mixup:0.4", 1e-6f}, {photos, 1e-4f}};
    for (int i = 0; i < 3; i++) {
        ole_run run;
        if (cases[i].augment) o.augment = cases[i].augment;
        open_run(&run, &o);
        assert_non_null(run.recorded);
        for (int64_t epoch = 0; epoch < 3; epoch++)
            for (int64_t b = 0; b < 7; b += 3)
                check_batch(&run, epoch, b, 0x1p-23f, cases[i].absolute);
        ole_run_close(&run);
    }
}

/* ---- steps -------------------------------------------------------------------------------- */

/* The steps of the first three epochs, recorded or one by one. */
static void run_steps(ole_run *run, bool recorded, double losses[3]) {
    ole_error error;
    int64_t updates = 0;
    for (int64_t epoch = 0; epoch < 3; epoch++) {
        losses[epoch] = 0;
        if (recorded) {
            ole_step_sums sums;
            assert_ok(ole_recorded_start(run->recorded, &run->schedule, epoch, 0, updates, &error),
                      &error);
            for (int64_t b = 0; b < run->batches; b++)
                assert_ok(ole_recorded_step(run->recorded, &error), &error);
            assert_ok(ole_recorded_read(run->recorded, &sums, &error), &error);
            assert_int_equal(sums.bad_step, 0);
            losses[epoch] = sums.loss;
            updates += run->batches;
            continue;
        }
        for (int64_t b = 0; b < run->batches; b++) {
            ole_batch batch;
            ole_step_result result;
            double lr = ole_schedule_rate(&run->schedule, epoch, b);
            assert_ok(ole_loader_get(run->loader, epoch, b, &batch, &error), &error);
            const ole_step step = {.batch = &batch,
                                   .mix = ole_loader_mix(run->loader),
                                   .last = run->stepper->rows[1] && b == run->batches - 1,
                                   .number = ++updates,
                                   .lr = lr};
            assert_ok(ole_stepper_run(run->stepper, &step, &result, &error), &error);
            losses[epoch] += result.loss;
        }
    }
}

static float *get_param(const ole_run *run, int i) {
    float *plain = malloc((size_t)run->network.graph->param[i].count * sizeof *plain);
    assert_non_null(plain);
    ole_params_get(run->network.params, i, plain);
    return plain;
}

static double distance(const float *a, const float *b, int64_t count) {
    double square = 0;
    for (int64_t e = 0; e < count; e++)
        square += ((double)a[e] - (double)b[e]) * ((double)a[e] - (double)b[e]);
    return sqrt(square);
}

/* Each parameter by how far it has moved, or by a thousandth of the farthest: what has no gradient
 * but rounding, such as a bias before batch norm, moves by noise. */
static void check_params(const ole_run *found, const ole_run *expected, float *const *start,
                         double bound) {
    const ole_graph *graph = found->network.graph;
    double *moved = calloc((size_t)graph->params, sizeof *moved), farthest = 0;
    assert_non_null(moved);
    for (int i = 0; i < graph->params; i++) {
        float *b = get_param(expected, i);
        moved[i] = distance(b, start[i], graph->param[i].count);
        farthest = fmax(farthest, moved[i]);
        free(b);
    }
    for (int i = 0; i < graph->params; i++) {
        float *a = get_param(found, i), *b = get_param(expected, i);
        double off = distance(a, b, graph->param[i].count);
        if (!(off <= bound * fmax(moved[i], 1e-3 * farthest)))
            fail_msg("%s, %s: off by %.2g, moved by %.2g", found->options.net, graph->param[i].name,
                     off, moved[i]);
        free(a);
        free(b);
    }
    free(moved);
}

/* One run against another, each of a device: losses, and unless `moves` is negative the weights. */
static void compare(ole_train_options a, bool a_recorded, ole_train_options b, double losses,
                    double moves) {
    ole_run found, expected;
    double losses_a[3], losses_b[3];
    open_run(&found, &a);
    open_run(&expected, &b);
    int params = expected.network.graph->params;
    float **start = calloc((size_t)params, sizeof *start);
    assert_non_null(start);
    for (int i = 0; i < params; i++)
        start[i] = get_param(&expected, i);
    run_steps(&found, a_recorded, losses_a);
    run_steps(&expected, false, losses_b);
    for (int k = 0; k < 3; k++)
        if (!(fabs(losses_a[k] - losses_b[k]) <= losses * fabs(losses_b[k])))
            fail_msg("%s: the loss of epoch %d is %.9g, not %.9g", a.net, k, losses_a[k],
                     losses_b[k]);
    if (moves >= 0) check_params(&found, &expected, start, moves);
    for (int i = 0; i < params; i++)
        free(start[i]);
    free(start);
    ole_run_close(&found);
    ole_run_close(&expected);
}

/* OLÉ's gradient jumps where a class reaches the floor or loses a singular value, so runs that
 * differ by rounding part there; in short steps they seldom get that far. */
static const double short_sgd = 5e-4, short_adam = 1e-5;
enum { LOSSES_ONLY = -1 };

static void recorded_as_single(void **state) {
    (void)state;
    gpu_table("ole_cuda_backend");
    for (int i = 0; i < NETS; i++) {
        ole_train_options o = small_run(nets[i], "cuda");
        o.loss = OLE_LOSS_SOFTMAX;
        compare(o, true, o, 0.0, 0.0);
    }
}

static void as_the_reference(void **state) {
    (void)state;
    gpu_table("ole_cuda_backend");
    for (int i = 0; i < NETS; i++)
        for (int loss = OLE_LOSS_SOFTMAX; loss <= OLE_LOSS_BOTH; loss++) {
            ole_train_options a = small_run(nets[i], "cuda"), b = small_run(nets[i], "ref");
            a.loss = b.loss = (ole_loss_kind)loss;
            a.opt = b.opt = i % 2 ? "adam" : "sgd";
            a.lr = b.lr = i % 2 ? short_adam : short_sgd;
            compare(a, true, b, 1e-5, 0.01);
        }
}

/* All that fine-tuning adds to a step. Not the first net: the gradients of its biases before batch
 * norm are zero but for rounding, and Adam makes whole steps of them. */
static void fine_tuning(void **state) {
    (void)state;
    gpu_table("ole_cuda_backend");
    for (int i = 1; i < NETS; i++) {
        ole_train_options a = small_run(nets[i], "cuda");
        a.opt = "adamw";
        a.lr = short_adam;
        a.beta1 = 0.8;
        a.label_smoothing = 0.1;
        a.clip_norm = 1;
        a.lr_backbone = "0.5x";
        a.probe_epochs = i % 2;
        a.ema = 0.9;
        a.weight_decay = 0.5;
        a.augment = i % 2 ? "crop:1,mixup:0.4" : "mixup:1";
        ole_train_options b = a;
        b.device = "ref";
        compare(a, true, b, 1e-5, 0.01);
    }
}

static void ole_at_any_layer(void **state) {
    (void)state;
    gpu_table("ole_cuda_backend");
    ole_train_options a = small_run(nets[4], "cuda"), b = small_run(nets[4], "ref");
    a.ole_at = b.ole_at = "2:0.1,4:0.05";
    a.lr = b.lr = short_sgd;
    compare(a, true, b, 1e-5, 0.01);
}

static void set_loss(ole_train_options *o, const char *loss) {
    ole_error error;
    assert_ok(ole_train_options_set(o, "loss", loss, &error), &error);
}

static const char *const criteria[] = {
    "softmax+center", "softmax+contrastive",
    "triplet+ole",    "l-softmax",
    "a-softmax",      "cosface",
    "arcface+ole",    "supcon",
    "softmax+opl",    "softmax+mcr2",
    "softmax+ssole",  "logit-norm",
    "ole-unit",       "softmax+ole+ole-unit",
};
enum { CRITERIA = sizeof criteria / sizeof *criteria };

/* Recorded on the GPU, against steps whose loss is the host's: on the reference, and on the GPU. */
static void criteria_as_the_host(void **state) {
    (void)state;
    gpu_table("ole_cuda_backend");
    for (int i = 0; i < CRITERIA; i++) {
        ole_train_options a = small_run(nets[i % 2 ? 3 : 2], "cuda");
        set_loss(&a, criteria[i]);
        a.lr = short_sgd;
        ole_train_options b = a;
        print_message("%s\n", criteria[i]);
        compare(a, true, b, 1e-6, 0.01);
        b.device = "ref";
        compare(a, true, b, 1e-5, 0.01);
    }
}

/* In bfloat16 the classifier has a copy, which keeps up with its unit rows. */
static void narrow_criteria(void **state) {
    (void)state;
    gpu_table("ole_cuda_backend");
    for (int i = 0; i < CRITERIA; i++) {
        ole_train_options a = small_run(nets[2], "cuda");
        set_loss(&a, criteria[i]);
        a.precision = "bf16";
        a.lr = 1e-3;
        ole_train_options b = a;
        print_message("%s\n", criteria[i]);
        compare(a, true, b, 0.05, LOSSES_ONLY);
    }
}

static void narrow_learns(void **state) {
    (void)state;
    gpu_table("ole_cuda_backend");
    static const char *const precisions[] = {"tf32", "bf16"};
    for (int i = 0; i < 2; i++)
        for (int k = 0; k < NETS; k++) {
            ole_train_options a = small_run(nets[k], "cuda"), b = small_run(nets[k], "ref");
            a.precision = precisions[i];
            a.lr = b.lr = short_sgd;
            compare(a, true, b, i == 0 ? 0.005 : 0.05, LOSSES_ONLY);
        }
}

/* Convolutions by our own kernels, and concatenation between them: of the libraries the last layer
 * is left, so that compute-sanitizer can watch (bench/gpu.sh). */
static void own_steps(void **state) {
    (void)state;
    gpu_table("ole_cuda_backend");
    ole_train_options a = small_run("CO16-D40/12-BN-ReLU-AP", "cuda");
    ole_train_options b = small_run("CO16-D40/12-BN-ReLU-AP", "ref");
    a.precision = "bf16";
    setenv("OLE_CUDA_WAY", "narrow:@0", 1);
    compare(a, true, b, 0.1, LOSSES_ONLY);
    unsetenv("OLE_CUDA_WAY");
}

/* ---- whole runs --------------------------------------------------------------------------- */

static ole_train_summary train(ole_train_options o, const char *out, const char *device,
                               int64_t epochs, bool resume) {
    char path[600];
    ole_train_summary summary;
    ole_error error;
    snprintf(path, sizeof path, "%s/%s", temporary_dir, out);
    o.out = path;
    o.device = device;
    o.epochs = epochs;
    o.resume = resume;
    o.milestones = "none";
    assert_ok(ole_train(&o, &summary, &error), &error);
    return summary;
}

static void goes_on_elsewhere(void **state) {
    (void)state;
    gpu_table("ole_cuda_backend");
    ole_train_options o = small_run(nets[2], "cuda");
    o.epochs = 4;
    ole_train_summary there = train(o, "there", "ref", 4, false);
    train(o, "both", "ref", 1, false);
    train(o, "both", "cuda", 2, true);
    train(o, "both", "ref", 3, true);
    ole_train_summary both = train(o, "both", "cuda", 4, true);
    assert_true(fabs(both.test_error - there.test_error) <= 1.0);
    char path[600];
    static const char *const folders[] = {"there", "both"};
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/%s", temporary_dir, folders[i]);
        run_remove(path);
    }
}

/* Centres, classifiers and the number of the step are what they would be without a break. */
static void criteria_resume(void **state) {
    (void)state;
    gpu_table("ole_cuda_backend");
    for (int i = 0; i < CRITERIA; i++) {
        char path[2][600];
        static const char *const folders[] = {"whole", "broken"};
        ole_train_options o = small_run(nets[2], "cuda");
        set_loss(&o, criteria[i]);
        o.lr = 1e-3;
        o.ema = 0.9;
        train(o, "whole", "cuda", 3, false);
        train(o, "broken", "cuda", 1, false);
        train(o, "broken", "cuda", 3, true);
        for (int k = 0; k < 2; k++)
            snprintf(path[k], sizeof path[k], "%s/%s/last.safetensors", temporary_dir, folders[k]);
        assert_same_tensors(path[0], path[1]);
        for (int k = 0; k < 2; k++) {
            snprintf(path[k], sizeof path[k], "%s/%s", temporary_dir, folders[k]);
            run_remove(path[k]);
        }
    }
}

static void bad_criteria_are_named(void **state) {
    (void)state;
    gpu_table("ole_cuda_backend");
    static const char *const losses[] = {"arcface", "softmax+center", "supcon"};
    static const char *const words[] = {"the ArcFace loss is NaN", " loss is NaN",
                                        "the SupCon loss is NaN"};
    for (int i = 0; i < 3; i++) {
        ole_train_options o = small_run(nets[1], "cuda");
        ole_error error = {0};
        set_loss(&o, losses[i]);
        o.lr = 1e30;
        assert_int_equal(ole_train(&o, NULL, &error), OLE_ERROR_NUMERIC);
        if (!strstr(error.message, words[i])) fail_msg("no loss in '%s'", error.message);
    }
}

static void bad_losses_name_the_layer(void **state) {
    (void)state;
    gpu_table("ole_cuda_backend");
    ole_train_options o = small_run(nets[1], "cuda");
    ole_error error = {0};
    o.lr = 1e30;
    assert_int_equal(ole_train(&o, NULL, &error), OLE_ERROR_NUMERIC);
    if (!strstr(error.message, "NaN or Inf, from layer "))
        fail_msg("no layer in '%s'", error.message);
    if (!strstr(error.message, "the first such row of features is 0 of the batch"))
        fail_msg("no row in '%s'", error.message);
}

static void clear_errors(void **state) {
    (void)state;
    ole_train_options o = small_run(nets[0], "cuda:77");
    ole_error error = {0};
    assert_int_not_equal(ole_train(&o, NULL, &error), OLE_OK);
    if (!strstr(error.message, "cuda:77") && !strstr(error.message, "CUDA"))
        fail_msg("what is wrong with '%s'?", error.message);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(clear_errors),
        cmocka_unit_test(same_batches),
        cmocka_unit_test(recorded_as_single),
        cmocka_unit_test(as_the_reference),
        cmocka_unit_test(fine_tuning),
        cmocka_unit_test(ole_at_any_layer),
        cmocka_unit_test(criteria_as_the_host),
        cmocka_unit_test(narrow_criteria),
        cmocka_unit_test(narrow_learns),
        cmocka_unit_test(goes_on_elsewhere),
        cmocka_unit_test(criteria_resume),
        cmocka_unit_test(bad_criteria_are_named),
        cmocka_unit_test(bad_losses_name_the_layer),
        cmocka_unit_test(own_steps),
    };
    gpu_filter(argc, argv);
    return cmocka_run_group_tests(tests, temporary_make, temporary_remove);
}
