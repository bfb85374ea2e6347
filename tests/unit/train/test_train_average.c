/*
 * tests/unit/train/test_train_average.c - a run that keeps the moving average of its weights: that
 * is what it measures and saves as the model, while the weights train as without it.
 * test_torch_steps.c has the arithmetic, test_train.c resumes such a run.
 */
#include "formats/safetensors.h"
#include "ole/train/model.h"
#include "ole/train/train.h"
#include "run_files.h"
#include "temporary.h"
#include "test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static ole_train_options make(const char *out) {
    ole_train_options o;
    ole_train_options_init(&o);
    o.data = "digits";
    o.net = "C4-MP-FC8";
    o.out = out;
    o.samples_per_class = 12;
    o.batch_size = 32;
    o.epochs = 3;
    o.save_every = 1;
    o.threads = 1;
    return o;
}

static ole_safetensors *open_in(const char *run, const char *name) {
    char path[500];
    ole_safetensors *file;
    ole_error error;
    snprintf(path, sizeof path, "%s/%s", run, name);
    assert_ok(ole_safetensors_open(&file, path, &error), &error);
    return file;
}

/* Whether the tensors of a file are those of another, with a prefix there. */
static bool are_in(const ole_safetensors *file, const ole_safetensors *other, const char *prefix) {
    bool same = true;
    for (size_t i = 0; i < ole_safetensors_count(file); i++) {
        const ole_tensor *t = ole_safetensors_get(file, i);
        char name[200];
        snprintf(name, sizeof name, "%s%s", prefix, t->name);
        const ole_tensor *u = ole_safetensors_find(other, name);
        assert_non_null(u);
        same &= memcmp(t->data, u->data, (size_t)ole_tensor_count(t) * sizeof(float)) == 0;
    }
    return same;
}

/* The share of test samples that a stored model gets wrong, in %. */
static double error_of(const char *run) {
    char path[500];
    ole_model *model;
    ole_dataset *set;
    ole_dataset_options options;
    ole_error error;
    snprintf(path, sizeof path, "%s/best.safetensors", run);
    ole_dataset_options_init(&options);
    assert_ok(ole_model_load(&model, path, 1, &error), &error);
    assert_ok(ole_dataset_open(&set, "digits", &options, &error), &error);
    const ole_dataset_info *info = ole_dataset_get_info(set);
    int64_t count = info->count[OLE_SPLIT_TEST], wrong = 0;
    const int32_t *labels = ole_dataset_labels(set, OLE_SPLIT_TEST);
    float *logits = malloc((size_t)(count * info->classes) * sizeof *logits);
    assert_non_null(logits);
    assert_ok(ole_model_run_split(model, set, OLE_SPLIT_TEST, NULL, logits, &error), &error);
    for (int64_t i = 0; i < count; i++) {
        const float *row = logits + i * info->classes;
        int best = 0;
        for (int c = 1; c < info->classes; c++)
            if (row[c] > row[best]) best = c;
        wrong += best != labels[i];
    }
    free(logits);
    ole_dataset_close(set);
    ole_model_free(model);
    return 100.0 * (double)wrong / (double)count;
}

static void find_report(void *context, const char *text) {
    if (strstr(text, " loaded, 0 skipped, 0 left")) *(bool *)context = true;
}

static void average_is_the_model(void **state) {
    (void)state;
    char a[400], b[400], first[500];
    ole_train_summary summary;
    ole_error error;
    snprintf(a, sizeof a, "%s/a", temporary_dir);
    snprintf(b, sizeof b, "%s/b", temporary_dir);
    ole_train_options o = make(a);
    o.ema = 0.99;
    assert_ok(ole_train(&o, &summary, &error), &error);
    o.out = b;
    o.ema = 0.0;
    assert_ok(ole_train(&o, NULL, &error), &error);
    ole_safetensors *model = open_in(a, "best.safetensors"),
                    *plain = open_in(b, "best.safetensors");
    ole_safetensors *last = open_in(a, "last.safetensors");
    assert_true(are_in(model, last, "average."));
    assert_false(are_in(model, last, ""));
    assert_true(are_in(plain, last, "")); /* the weights train as without an average */
    ole_safetensors_close(model);
    ole_safetensors_close(plain);
    ole_safetensors_close(last);
    assert_true(fabs(error_of(a) - summary.test_error) < 1e-9);
    assert_true(fabs(error_of(b) - summary.test_error) > 1e-9);

    /* Of a checkpoint as initial weights, the average is no tensor left over. */
    snprintf(first, sizeof first, "%s/last.safetensors", a);
    o.init_from = first;
    o.out = NULL;
    o.epochs = 1;
    bool found = false;
    o.message = find_report;
    o.callback_context = &found;
    assert_ok(ole_train(&o, NULL, &error), &error);
    assert_true(found);
    run_remove(a);
    run_remove(b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(average_is_the_model),
    };
    return cmocka_run_group_tests(tests, temporary_make, temporary_remove);
}
