/*
 * tests/unit/model/test_model.c - models from memory and from files: the same numbers as in
 * training, predictions, evaluation, and files that are no models.
 */
#include "ole/npy.h"
#include "ole/train/evaluate.h"
#include "ole/train/export.h"
#include "ole/train/train.h"

#include "held_memory.h"
#include "peak_memory.h"
#include "run_files.h"
#include "temporary.h"
#include "test.h"

#include "formats/safetensors.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

typedef struct trained {
    char out[400];
    ole_model *model; /* as it was left in memory */
    ole_train_summary summary;
    ole_dataset *set;
} trained;

static int train_one(void **state) {
    static trained t;
    if (temporary_make(state) != 0) return -1;
    snprintf(t.out, sizeof t.out, "%s/run", temporary_dir);
    ole_train_options o;
    ole_train_options_init(&o);
    o.data = "digits";
    o.net = "C8-MP-FC12";
    o.out = t.out;
    o.epochs = 4;
    o.threads = 1;
    o.model = &t.model;
    ole_error error;
    if (ole_train(&o, &t.summary, &error) != OLE_OK) return -1;
    if (ole_dataset_open(&t.set, "digits", NULL, &error) != OLE_OK) return -1;
    *state = &t;
    return 0;
}

static int remove_one(void **state) {
    trained *t = *state;
    ole_model_free(t->model);
    ole_dataset_close(t->set);
    run_remove(t->out);
    return temporary_remove(state);
}

static ole_model *load(const char *path) {
    ole_model *model;
    ole_error error;
    assert_ok(ole_model_load(&model, path, 1, &error), &error);
    return model;
}

static void test_info(void **state) {
    const trained *t = *state;
    ole_model *model = load(t->out);
    const ole_model_info *info = ole_model_get_info(model);
    assert_string_equal(info->net, "C8-MP-FC12");
    assert_int_equal(info->channels, 1);
    assert_int_equal(info->height, 8);
    assert_int_equal(info->features, 12);
    assert_int_equal(info->classes, 10);
    assert_string_equal(info->class_names[9], "9");
    assert_true(info->threshold > 0.1 && info->threshold < 1.0);
    assert_int_equal(info->threshold_score, OLE_SCORE_CALIBRATED);
    ole_model_free(model);
    assert_null(ole_model_get_info(NULL));
}

/* From file and from memory, alone and in batches of any size: the same features and logits. */
static void test_run(void **state) {
    const trained *t = *state;
    enum { COUNT = 45 };
    ole_error error;
    float *images = malloc(COUNT * 64 * sizeof *images);
    for (int64_t i = 0; i < COUNT; i++)
        assert_ok(ole_dataset_sample(t->set, OLE_SPLIT_TEST, i, images + 64 * i, &error), &error);
    float whole[COUNT][12], logits[COUNT][10], part[COUNT][12];
    assert_ok(ole_model_run(t->model, images, COUNT, whole[0], logits[0], &error), &error);
    ole_model *model = load(t->out);
    assert_ok(ole_model_run(model, images, COUNT, part[0], NULL, &error), &error);
    assert_memory_equal(whole, part, sizeof whole);
    for (int i = 0; i < COUNT; i++) {
        assert_ok(ole_model_run(model, images + 64 * i, 1, part[0], NULL, &error), &error);
        for (int k = 0; k < 12; k++)
            assert_true(fabsf(part[0][k] - whole[i][k]) <= 1e-4f * (1.0f + fabsf(whole[i][k])));
    }
    assert_int_equal(ole_model_run(model, images, 0, part[0], NULL, &error), OLE_ERROR_ARGUMENT);
    ole_model_free(model);
    free(images);
}

static void test_predict(void **state) {
    const trained *t = *state;
    int64_t count = ole_dataset_get_info(t->set)->count[OLE_SPLIT_TEST], wrong = 0;
    const int32_t *labels = ole_dataset_labels(t->set, OLE_SPLIT_TEST);
    const ole_model_info *info = ole_model_get_info(t->model);
    ole_error error;
    for (int64_t i = 0; i < count; i++) {
        float image[64];
        ole_prediction p;
        assert_ok(ole_dataset_sample(t->set, OLE_SPLIT_TEST, i, image, &error), &error);
        assert_ok(ole_model_predict(t->model, image, 1, &p, &error), &error);
        wrong += p.best != labels[i];
        assert_int_equal(p.label, p.known_score < info->threshold ? -1 : p.best);
        double sum = p.score;
        for (int k = 0; k < OLE_RUNNERS_UP; k++) {
            assert_true(p.runner_up[k] >= 0 && p.runner_up[k] < 10 && p.runner_up[k] != p.best);
            assert_true(p.runner_up_score[k] <= (k ? p.runner_up_score[k - 1] : p.score));
            sum += p.runner_up_score[k];
        }
        assert_true(sum <= 1.0 + 1e-9 && p.score >= 0.1);
    }
    assert_true(fabs(100.0 * (double)wrong / (double)count - t->summary.test_error) < 0.3);
}

/* NaN is no class: the image is named, and nothing of the others is written. */
static void test_bad_images(void **state) {
    const trained *t = *state;
    enum { COUNT = 40, BAD = 35 };
    static float images[COUNT * 64], features[COUNT * 12];
    static ole_prediction p[COUNT];
    ole_error error;
    p[0].best = features[0] = 77;
    for (int k = 0; k < 2; k++) {
        images[BAD * 64 + 3] = k ? INFINITY : NAN;
        assert_int_equal(ole_model_predict(t->model, images, COUNT, p, &error), OLE_ERROR_DATA);
        assert_string_equal(error.message, "image 35 holds NaN or Inf");
        assert_int_equal(ole_model_run(t->model, images, COUNT, features, NULL, &error),
                         OLE_ERROR_DATA);
        assert_true(p[0].best == 77 && features[0] == 77);
    }
    for (int i = 0; i < 64; i++)
        images[BAD * 64 + i] = 3e38f;
    assert_int_equal(ole_model_predict(t->model, images, COUNT, p, &error), OLE_ERROR_NUMERIC);
    assert_non_null(strstr(error.message, "image 35: the network overflows"));
}

static void test_evaluate(void **state) {
    const trained *t = *state;
    ole_evaluation e;
    ole_error error;
    assert_ok(ole_evaluate(&e, t->model, t->set, OLE_SPLIT_TEST, 2, &error), &error);
    assert_true(fabs(e.error - t->summary.test_error) < 0.3);
    assert_true(fabs(e.knn1_error - t->summary.knn1_error) < 0.5);
    assert_true(e.subspace_error < 40.0);
    int64_t sum = 0, right = 0;
    for (int i = 0; i < 100; i++)
        sum += e.confusion[i];
    for (int c = 0; c < 10; c++)
        right += e.confusion[11 * c];
    assert_int_equal(sum, e.count);
    assert_true(fabs(100.0 * (double)(sum - right) / (double)sum - e.error) < 1e-9);
    ole_evaluation_free(&e);
    assert_int_equal(ole_evaluate(&e, t->model, t->set, OLE_SPLIT_VALIDATION, 1, &error),
                     OLE_ERROR_ARGUMENT);
    assert_string_equal(error.message, "digits has no validation samples");

    ole_dataset_options options;
    ole_dataset_options_init(&options);
    options.classes = "3,1,2"; /* by name, whatever their number and order */
    ole_dataset *three;
    assert_ok(ole_dataset_open(&three, "digits", &options, &error), &error);
    assert_ok(ole_evaluate(&e, t->model, three, OLE_SPLIT_TEST, 1, &error), &error);
    assert_int_equal(e.classes, 10);
    for (int c = 0; c < 10; c++)
        assert_true((e.confusion[11 * c] > 0) == (c >= 1 && c <= 3));
    assert_true(e.error < 20.0);
    ole_evaluation_free(&e);
    ole_dataset_close(three);
}

/* Which parts were told of, in their order, and where to stop. */
typedef struct watched {
    const char *part[8];
    int64_t last[8], total[8]; /* of them */
    int parts, calls;
    int stop_at; /* this call; 0: never */
} watched;

static bool watch(void *context, const char *part, int64_t done, int64_t total) {
    watched *w = context;
    assert_true(done >= 0 && done <= total);
    if (w->parts == 0 || strcmp(w->part[w->parts - 1], part) != 0) {
        assert_true(w->parts < 8);
        w->part[w->parts++] = part;
    } else {
        assert_true(done >= w->last[w->parts - 1] && total == w->total[w->parts - 1]);
    }
    w->last[w->parts - 1] = done;
    w->total[w->parts - 1] = total;
    return ++w->calls == w->stop_at;
}

/* Wherever the callback stops it, ole_evaluate() says so and leaves nothing to free. */
static void test_watch(void **state) {
    static const char *const parts[] = {"test samples", "training samples", "nearest neighbours",
                                        "class subspaces"};
    const trained *t = *state;
    const int64_t *count = ole_dataset_get_info(t->set)->count;
    watched all = {0};
    ole_evaluation e;
    ole_error error;
    ole_model_watch(t->model, watch, &all);
    assert_ok(ole_evaluate(&e, t->model, t->set, OLE_SPLIT_TEST, 1, &error), &error);
    assert_false(e.interrupted);
    ole_evaluation_free(&e);
    assert_int_equal(all.parts, 4);
    for (int i = 0; i < 4; i++)
        assert_string_equal(all.part[i], parts[i]);
    assert_int_equal(all.last[0], count[OLE_SPLIT_TEST]);
    assert_int_equal(all.last[1], count[OLE_SPLIT_TRAIN]);
    for (int stop = 1; stop <= all.calls; stop++) {
        watched w = {.stop_at = stop};
        ole_model_watch(t->model, watch, &w);
        assert_ok(ole_evaluate(&e, t->model, t->set, OLE_SPLIT_TEST, 1, &error), &error);
        assert_true(e.interrupted && w.calls == stop && e.count == 0 && !e.confusion);
    }
    int64_t rows = count[OLE_SPLIT_TEST];
    float *some = malloc((size_t)rows * 12 * sizeof *some);
    assert_non_null(some);
    some[(rows - 1) * 12] = -1.0f;
    watched w = {.stop_at = 1};
    ole_model_watch(t->model, watch, &w);
    assert_ok(ole_model_run_split(t->model, t->set, OLE_SPLIT_TEST, some, NULL, &error), &error);
    assert_true(w.calls == 1 && some[(rows - 1) * 12] == -1.0f);
    ole_model_watch(t->model, NULL, NULL);
    assert_ok(ole_model_run_split(t->model, t->set, OLE_SPLIT_TEST, some, NULL, &error), &error);
    assert_true(w.calls == 1 && some[(rows - 1) * 12] != -1.0f);
    free(some);
}

/* ---- Two threads -------------------------------------------------------------------------- */

typedef struct runner {
    ole_model *model;
    float *image, *features;
    ole_status status;
} runner;

static void *run_into(void *argument) {
    runner *r = argument;
    r->status = ole_model_run(r->model, r->image, 1, r->features, NULL, NULL);
    return NULL;
}

/* Whoever comes while a run stands still, at its last step, is refused; the run is undisturbed. */
static void test_two_threads(void **state) {
    const trained *t = *state;
    float image[64], alone[12], other[12] = {7};
    ole_prediction p = {.best = 77};
    ole_error error[2] = {0};
    assert_ok(ole_dataset_sample(t->set, OLE_SPLIT_TEST, 0, image, &error[0]), &error[0]);
    assert_ok(ole_model_run(t->model, image, 1, alone, NULL, &error[0]), &error[0]);
    runner first = {t->model, image, held_make(sizeof alone), OLE_OK};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, run_into, &first), 0);
    held_wait();
    ole_status status[2] = {ole_model_run(t->model, image, 1, other, NULL, &error[0]),
                            ole_model_predict(t->model, image, 1, &p, &error[1])};
    held_let_go();
    pthread_join(thread, NULL);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(status[i], OLE_ERROR_ARGUMENT);
        assert_string_equal(error[i].message,
                            "the model is in use by another thread; make one model per thread");
    }
    assert_true(other[0] == 7 && p.best == 77);
    assert_int_equal(first.status, OLE_OK);
    assert_memory_equal(first.features, alone, sizeof alone);
    assert_ok(ole_model_predict(t->model, image, 1, &p, &error[0]), &error[0]);
    held_free();
}

static bool predict_inside(void *context, const char *part, int64_t done, int64_t total) {
    const trained *t = context;
    float image[64] = {0};
    ole_prediction p;
    (void)part, (void)done, (void)total;
    assert_int_equal(ole_model_predict(t->model, image, 1, &p, NULL), OLE_OK);
    return false;
}

/* The callback of a split may use the model: it is called between batches. */
static void test_callback_predicts(void **state) {
    trained *t = *state;
    int64_t rows = ole_dataset_get_info(t->set)->count[OLE_SPLIT_TEST];
    float *alone = malloc((size_t)rows * 12 * sizeof *alone);
    float *with = malloc((size_t)rows * 12 * sizeof *with);
    ole_error error;
    assert_ok(ole_model_run_split(t->model, t->set, OLE_SPLIT_TEST, alone, NULL, &error), &error);
    ole_model_watch(t->model, predict_inside, t);
    assert_ok(ole_model_run_split(t->model, t->set, OLE_SPLIT_TEST, with, NULL, &error), &error);
    ole_model_watch(t->model, NULL, NULL);
    assert_memory_equal(alone, with, (size_t)rows * 12 * sizeof *with);
    free(alone);
    free(with);
}

static void test_image_file(void **state) {
    const trained *t = *state;
    const int32_t *labels = ole_dataset_labels(t->set, OLE_SPLIT_TEST);
    int right = 0;
    ole_error error;
    for (int i = 0; i < 20; i++) { /* each digit as a picture of 16 x 16 */
        float image[64];
        assert_ok(ole_dataset_sample(t->set, OLE_SPLIT_TEST, i, image, &error), &error);
        const char *path = temporary_path("digit.pgm");
        FILE *file = fopen(path, "wb");
        fprintf(file, "P5 16 16 255\n");
        for (int y = 0; y < 16; y++)
            for (int x = 0; x < 16; x++)
                fputc((int)lrintf(255.0f * image[y / 2 * 8 + x / 2]), file);
        fclose(file);
        ole_prediction p;
        assert_ok(ole_model_predict_file(t->model, path, &p, &error), &error);
        right += p.label == labels[i];
    }
    assert_true(right >= 18);
    ole_prediction p;
    assert_int_equal(ole_model_predict_file(t->model, temporary_path("no.png"), &p, &error),
                     OLE_ERROR_IO);
}

static void test_array_file(void **state) {
    const trained *t = *state;
    enum { COUNT = 3 };
    float images[COUNT][64];
    uint8_t bytes[COUNT][64];
    ole_error error;
    for (int i = 0; i < COUNT; i++) {
        assert_ok(ole_dataset_sample(t->set, OLE_SPLIT_TEST, i, images[i], &error), &error);
        for (int k = 0; k < 64; k++)
            bytes[i][k] = (uint8_t)lrintf(255.0f * images[i][k]);
    }
    char path[512];
    snprintf(path, sizeof path, "%s", temporary_path("images.npy"));
    const int64_t shape[] = {COUNT, 8, 8}, flat[] = {COUNT, 64};
    float *samples;
    int64_t count = 0;
    assert_ok(ole_npy_write(path, OLE_U8, 3, shape, bytes, &error), &error);
    assert_ok(ole_model_read_npy(t->model, path, &samples, &count, &error), &error);
    assert_int_equal(count, COUNT);
    assert_memory_equal(samples, images, sizeof images);
    free(samples);
    assert_ok(ole_npy_write(path, OLE_F32, 2, flat, images, &error), &error);
    assert_int_equal(ole_model_read_npy(t->model, path, &samples, &count, &error),
                     OLE_ERROR_ARGUMENT);
    assert_null(samples);
    images[1][5] = NAN;
    assert_ok(ole_npy_write(path, OLE_F32, 3, shape, images, &error), &error);
    assert_int_equal(ole_model_read_npy(t->model, path, &samples, &count, &error), OLE_ERROR_DATA);
    assert_null(samples);
    assert_int_equal(ole_model_read_npy(t->model, NULL, &samples, &count, &error),
                     OLE_ERROR_ARGUMENT);
}

static void assert_no_model(const char *path, ole_status status, const char *message) {
    ole_model *model = (ole_model *)&model;
    ole_error error;
    assert_int_equal(ole_model_load(&model, path, 1, &error), status);
    assert_null(model);
    if (!strstr(error.message, message)) fail_msg("'%s' is not in '%s'", message, error.message);
}

static void test_no_models(void **state) {
    (void)state;
    const ole_tensor tensor = {"w", OLE_F32, 1, {1}, "abcd"};
    static const ole_metadata lies[] = {{"net", "FC3"},
                                        {"input", "1x8x8"},
                                        {"class_names", "[]"},
                                        {"mean", "0"},
                                        {"deviation", "1"}};
    static const ole_metadata truth[] = {{"net", "FC3"},
                                         {"input", "1x8x8"},
                                         {"class_names", "[\"a\",\"b\"]"},
                                         {"mean", "0"},
                                         {"deviation", "1"}};
    const char *path = temporary_path("m.safetensors");
    ole_error error;
    assert_no_model(temporary_path("no"), OLE_ERROR_IO, "cannot read: No such file or directory");
    assert_no_model(temporary_dir, OLE_ERROR_IO, "not a run of 'ole train': it holds neither best");
    assert_ok(ole_safetensors_write(path, &tensor, 1, NULL, 0, &error), &error);
    assert_no_model(path, OLE_ERROR_FORMAT, "'net' is missing from its metadata");
    assert_ok(ole_safetensors_write(path, &tensor, 1, lies, 5, &error), &error);
    assert_no_model(path, OLE_ERROR_FORMAT, "'class_names' is missing from its metadata, or wrong");
    assert_ok(ole_safetensors_write(path, &tensor, 1, truth, 5, &error), &error);
    assert_no_model(path, OLE_ERROR_FORMAT, "tensor '1.linear.weight' is missing");
}

/* Texts that would give numbers without a meaning are refused, and the file is named. */
static void test_wrong_texts(void **state) {
    (void)state;
    enum { TEXTS = 7 };
    static const ole_metadata truth[TEXTS] = {
        {"net", "FC3"},      {"input", "1x8x8"},    {"class_names", "[\"a\",\"b\"]"},
        {"mean", "0.5"},     {"deviation", "0.25"}, {"threshold", "0.5"},
        {"temperature", "2"}};
    static const struct {
        int text;
        const char *value, *words;
    } lies[] = {{0, "Q3", "m.safetensors: net: column 1: 'Q3' is no"},
                {3, "nan", "'mean'"},
                {4, "0", "'deviation'"},
                {4, "-1", "'deviation'"},
                {4, "inf", "'deviation'"},
                {5, "", "'threshold'"},
                {5, "0.5x", "'threshold'"},
                {5, "nan", "'threshold'"},
                {6, "", "'temperature'"},
                {6, "0", "'temperature'"}};
    const ole_tensor tensor = {"w", OLE_F32, 1, {1}, "abcd"};
    const char *path = temporary_path("m.safetensors");
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
        ole_metadata texts[TEXTS];
        ole_error error;
        memcpy(texts, truth, sizeof texts);
        texts[lies[i].text].value = lies[i].value;
        assert_ok(ole_safetensors_write(path, &tensor, 1, texts, TEXTS, &error), &error);
        assert_no_model(path, OLE_ERROR_FORMAT, lies[i].words);
    }
}

/* A model's size is known by its tensors before any memory is taken for it. */
static void test_hollow(void **state) {
    (void)state;
    static const float zeros[6];
    static const ole_tensor tensors[] = {{"classifier.weight", OLE_F32, 2, {2, 3}, zeros},
                                         {"classifier.bias", OLE_F32, 1, {2}, zeros}};
    enum { LAYERS = 300000 };
    char *many = malloc(3 * LAYERS + 1);
    for (int i = 0; i < LAYERS; i++)
        memcpy(many + 3 * i, "C1-", 4);
    const struct {
        const char *net, *input, *words; /* NULL: it loads */
    } cases[] = {
        {"FC200", "1048576x1x1", "m.safetensors: tensor '1.linear.weight' is missing"},
        {"C65536(x40)", "1x8x8", "m.safetensors: tensor '1.conv1.weight' is missing"},
        {many, "1x8x8", "m.safetensors: net: 300001 tokens; at most 4096 are allowed"},
        {"AP", "1x4096x4096", "'classifier.weight' has another shape"},
        {"AP", "1x32768x32768", "net: images of 1x32768x32768"},
        {"AP", "3x4096x4096", NULL}, /* 6 GiB for a batch, which it may never run */
    };
    char path[600], onnx[600];
    snprintf(path, sizeof path, "%s/m.safetensors", temporary_dir);
    snprintf(onnx, sizeof onnx, "%s/m.onnx", temporary_dir);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const ole_metadata texts[] = {{"net", cases[i].net},
                                      {"input", cases[i].input},
                                      {"class_names", "[\"a\",\"b\"]"},
                                      {"mean", cases[i].input[0] == '3' ? "0,0,0" : "0"},
                                      {"deviation", cases[i].input[0] == '3' ? "1,1,1" : "1"}};
        ole_error error = {0};
        assert_ok(ole_safetensors_write(path, tensors, 2, texts, 5, &error), &error);
        int64_t before = peak_memory();
        ole_model *model;
        ole_status status = ole_model_load(&model, path, 1, &error);
        ole_model_free(model);
        assert_true(peak_memory() - before < small_cost);
        if (!cases[i].words) {
            assert_ok(status, &error);
            continue;
        }
        assert_int_equal(status, OLE_ERROR_FORMAT);
        if (!strstr(error.message, cases[i].words)) fail_msg("%s", error.message);
        assert_int_equal(ole_export_onnx(path, onnx, NULL, NULL, &error), OLE_ERROR_FORMAT);
        assert_true(peak_memory() - before < small_cost);
    }
    free(many);
}

/* OLÉ alone trains no classifier: no predictions, no error by it, but features that tell. */
static void test_untrained(void **state) {
    const trained *t = *state;
    ole_train_options o;
    ole_train_options_init(&o);
    ole_model *model;
    o.data = "digits";
    o.net = "FC12";
    o.loss = OLE_LOSS_OLE;
    o.epochs = 1;
    o.threads = 1;
    o.model = &model;
    ole_train_summary summary;
    ole_error error;
    assert_ok(ole_train(&o, &summary, &error), &error);
    assert_false(ole_model_get_info(model)->classifier);
    float image[64] = {0};
    ole_prediction p;
    assert_int_equal(ole_model_predict(model, image, 1, &p, &error), OLE_ERROR_UNSUPPORTED);
    assert_non_null(strstr(error.message, "no trained classifier"));
    ole_evaluation e;
    assert_ok(ole_evaluate(&e, model, t->set, OLE_SPLIT_TEST, 1, &error), &error);
    assert_true(isnan(e.error) && !e.confusion);
    assert_true(e.knn1_error < 50.0 && e.subspace_error < 50.0);
    ole_evaluation_free(&e);
    ole_model_free(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_info),        cmocka_unit_test(test_run),
        cmocka_unit_test(test_predict),     cmocka_unit_test(test_bad_images),
        cmocka_unit_test(test_evaluate),    cmocka_unit_test(test_watch),
        cmocka_unit_test(test_image_file),  cmocka_unit_test(test_array_file),
        cmocka_unit_test(test_no_models),   cmocka_unit_test(test_wrong_texts),
        cmocka_unit_test(test_hollow),      cmocka_unit_test(test_untrained),
        cmocka_unit_test(test_two_threads), cmocka_unit_test(test_callback_predicts),
    };
    return cmocka_run_group_tests(tests, train_one, remove_one);
}
