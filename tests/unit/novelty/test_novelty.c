/*
 * tests/unit/novelty/test_novelty.c - known and novel digits: roles of the splits, thresholds, what
 * is stored in a model's file and what a loaded model makes of it.
 */
#include "ole/train/novelty.h"
#include "ole/train/train.h"

#include "novelty/choose.h"
#include "random.h"
#include "run_files.h"
#include "temporary.h"
#include "test.h"

#include <math.h>

enum { IMAGE = 64 };

typedef struct subjects {
    char out[400];
    ole_model *model;
    ole_dataset *known, *novel;
} subjects;

static ole_dataset *open_digits(const char *classes, double validation) {
    ole_dataset_options options;
    ole_dataset_options_init(&options);
    options.classes = classes;
    options.validation = validation;
    ole_dataset *set = NULL;
    ole_error error;
    if (ole_dataset_open(&set, "digits", &options, &error) != OLE_OK) return NULL;
    return set;
}

static int make_subjects(void **state) {
    static subjects s;
    if (temporary_make(state) != 0) return -1;
    snprintf(s.out, sizeof s.out, "%s/run", temporary_dir);
    ole_train_options o;
    ole_train_options_init(&o);
    o.data = "digits";
    o.classes = "0,1,2,3,4,5,6";
    o.val_split = 0.2;
    o.net = "C8-MP-FC12";
    o.out = s.out;
    o.epochs = 3;
    o.threads = 1;
    o.model = &s.model;
    ole_train_summary summary;
    ole_error error;
    if (ole_train(&o, &summary, &error) != OLE_OK) return -1;
    s.known = open_digits(o.classes, 0.2);
    s.novel = open_digits("7,8,9", 0.0);
    *state = &s;
    return s.known && s.novel ? 0 : -1;
}

static int remove_subjects(void **state) {
    subjects *s = *state;
    ole_model_free(s->model);
    ole_dataset_close(s->known);
    ole_dataset_close(s->novel);
    run_remove(s->out);
    return temporary_remove(state);
}

static ole_novelty measure(const subjects *s, const ole_novelty_options *options) {
    ole_novelty n;
    ole_error error;
    assert_ok(ole_novelty_measure(&n, s->model, s->known, s->novel, options, &error), &error);
    return n;
}

/* ---- Measuring ---------------------------------------------------------------------------- */

static void test_counts(void **state) {
    const subjects *s = *state;
    const ole_dataset_info *known = ole_dataset_get_info(s->known);
    const ole_dataset_info *novel = ole_dataset_get_info(s->novel);
    ole_novelty n = measure(s, NULL);
    assert_int_equal(n.validation_count, known->count[OLE_SPLIT_VALIDATION]);
    assert_int_equal(n.known_count, known->count[OLE_SPLIT_TEST]);
    assert_int_equal(n.novel_count, novel->count[OLE_SPLIT_TRAIN] + novel->count[OLE_SPLIT_TEST]);
    assert_int_equal(n.choice.groups, 5);
    assert_false(n.choice.map_refitted);
    assert_true(n.choice.mean[n.choice.score - 1] > 0.8);
    for (int i = 1; i <= OLE_SCORES; i++) {
        const ole_novelty_score *one = ole_novelty_get(&n, (ole_score)i);
        assert_int_equal(one->score, i);
        assert_true(one->roc.auroc > 0.6 && one->roc.auroc <= 1.0);
        assert_true(one->accuracy <= one->kept && one->accuracy <= n.accuracy);
        assert_true(one->accuracy_at[0] == 0.0);
        assert_true(one->accuracy_at[one->roc.points - 1] == n.accuracy);
    }
    assert_null(ole_novelty_get(&n, OLE_SCORE_NONE));
    assert_null(ole_novelty_get(&n, (ole_score)(OLE_SCORES + 1)));
    assert_null(ole_novelty_get(NULL, OLE_SCORE_SOFTMAX));
    ole_novelty_free(&n);
    assert_null(n.known_label);
    ole_novelty_free(NULL);
}

/* Judged by the validation samples themselves, just the share asked for is kept. */
static void test_keep(void **state) {
    const subjects *s = *state;
    ole_novelty_options o;
    ole_novelty_options_init(&o);
    o.known_split = OLE_SPLIT_VALIDATION;
    static const double shares[] = {1.0, 0.95, 0.5, 0.01};
    for (size_t k = 0; k < sizeof shares / sizeof *shares; k++) {
        o.keep = shares[k];
        ole_novelty n = measure(s, &o);
        double least = 100.0 * ceil(o.keep * (double)n.known_count - 1e-9) / (double)n.known_count;
        for (int i = 0; i < OLE_SCORES; i++)
            assert_true(n.score[i].kept >= least - 1e-9 && n.score[i].kept < least + 2.0);
        ole_novelty_free(&n);
    }
}

/* Same thresholds and temperature whatever the novel set, and whatever the threads. */
static void test_novel_only_judges(void **state) {
    const subjects *s = *state;
    ole_novelty first = measure(s, NULL);
    ole_dataset *other = open_digits("9", 0.0);
    ole_novelty_options o;
    ole_novelty_options_init(&o);
    o.threads = 3;
    ole_novelty second;
    ole_error error;
    assert_ok(ole_novelty_measure(&second, s->model, s->known, other, &o, &error), &error);
    assert_true(first.after.temperature == second.after.temperature);
    for (int i = 0; i < OLE_SCORES; i++) {
        assert_true(first.score[i].threshold == second.score[i].threshold);
        assert_true(first.score[i].kept == second.score[i].kept);
        assert_memory_equal(first.score[i].known, second.score[i].known,
                            (size_t)first.known_count * sizeof(double));
    }
    ole_novelty_free(&first);
    ole_novelty_free(&second);
    ole_dataset_close(other);
}

typedef struct stopper {
    int calls, stop_at;
    char last[64];
} stopper;

static bool interrupt(void *context, const char *part, int64_t done, int64_t total) {
    stopper *s = context;
    assert_true(done > 0 && done <= total);
    snprintf(s->last, sizeof s->last, "%s", part);
    return ++s->calls == s->stop_at;
}

static void test_interrupted(void **state) {
    const subjects *s = *state;
    ole_novelty_options o;
    ole_novelty_options_init(&o);
    o.choose = false;
    stopper counter = {.stop_at = 1000};
    o.callback = interrupt;
    o.callback_context = &counter;
    ole_novelty n = measure(s, &o);
    assert_false(n.interrupted);
    assert_string_equal(counter.last, "training samples");
    ole_novelty_free(&n);
    for (int at = 1; at <= counter.calls; at++) {
        stopper stops = {.stop_at = at};
        o.callback_context = &stops;
        n = measure(s, &o);
        assert_true(n.interrupted && stops.calls == at);
        assert_null(n.known_label);
    }
    o.choose = true;
    for (int beyond = 1; beyond < 100; beyond += 17) {
        stopper stops = {.stop_at = counter.calls + beyond};
        o.callback_context = &stops;
        n = measure(s, &o);
        assert_true(n.interrupted && stops.calls == stops.stop_at);
        assert_null(n.known_label);
    }
}

/* ---- Storing ------------------------------------------------------------------------------ */

/* A model that was stored to judges every sample as the measurement did. */
static void test_store(void **state) {
    const subjects *s = *state;
    ole_novelty n = measure(s, NULL);
    ole_error error;
    for (int i = 0; i < OLE_SCORES; i++) {
        const ole_novelty_score *one = &n.score[i];
        assert_ok(ole_novelty_store(&n, one->score, s->out, &error), &error);
        ole_model *model;
        assert_ok(ole_model_load(&model, s->out, 1, &error), &error);
        const ole_model_info *info = ole_model_get_info(model);
        assert_int_equal(info->threshold_score, one->score);
        assert_true(info->threshold == one->threshold);
        assert_true(info->temperature == n.after.temperature);
        assert_true(info->classifier);
        float images[32 * IMAGE];
        ole_prediction p[32];
        for (int k = 0; k < 32; k++)
            assert_ok(ole_dataset_sample(s->known, OLE_SPLIT_TEST, k, images + k * IMAGE, &error),
                      &error);
        assert_ok(ole_model_predict(model, images, 32, p, &error), &error);
        for (int k = 0; k < 32; k++) {
            assert_true(fabs(p[k].known_score - one->known[k]) <= 1e-5 * (1 + fabs(one->known[k])));
            assert_int_equal(p[k].best, n.known_predicted[k]);
            assert_int_equal(p[k].label, p[k].known_score < one->threshold ? -1 : p[k].best);
        }
        ole_model_free(model);
    }
    assert_int_equal(ole_novelty_store(&n, OLE_SCORE_NONE, s->out, &error), OLE_ERROR_ARGUMENT);
    assert_int_equal(ole_novelty_store(&n, OLE_SCORE_SOFTMAX, "/nowhere", &error), OLE_ERROR_IO);
    ole_novelty_free(&n);
    assert_int_equal(ole_novelty_store(&n, OLE_SCORE_SOFTMAX, s->out, &error), OLE_ERROR_ARGUMENT);
}

/* ---- Choosing alone ----------------------------------------------------------------------- */

/* Of embeddings, with settings given or chosen. */
static void test_choose(void **state) {
    (void)state;
    enum { ROWS = 90, DIM = 4, CLASSES = 6 };
    float rows[ROWS * DIM];
    int64_t labels[ROWS];
    test_random r = {4};
    for (int i = 0; i < ROWS; i++) {
        labels[i] = i % CLASSES;
        for (int k = 0; k < DIM; k++)
            rows[i * DIM + k] = (float)(random_normal(&r) + 4.0 * (double)(k == labels[i] % DIM) +
                                        8.0 * (double)(labels[i] >= DIM && k == 3));
    }
    const ole_embedding known = {ROWS, DIM, OLE_F32, rows, labels};
    ole_novelty_choice choice;
    ole_error error;
    ole_embed_options embed;
    ole_embed_options_init(&embed);
    embed.threads = 1;
    for (int given = 0; given < 2; given++) {
        assert_ok(ole_novelty_choose(&choice, &known, &embed, NULL, &error), &error);
        assert_true(choice.groups > 1 && choice.map_refitted);
        assert_true(choice.score > OLE_SCORE_NONE && choice.mean[choice.score - 1] > 0.5);
        embed.lambda = 0.1;
        embed.weight_decay = 0.01;
    }
    assert_ok(ole_novelty_choose(&choice, &known, NULL, NULL, &error), &error);
    assert_true(choice.groups > 1 && !choice.map_refitted);
    ole_novelty_options options;
    ole_novelty_options_init(&options);
    stopper stops = {.stop_at = 1};
    options.callback = interrupt;
    options.callback_context = &stops;
    assert_ok(ole_novelty_choose(&choice, &known, &embed, &options, &error), &error);
    assert_int_equal(choice.score, OLE_SCORE_NONE);
    assert_int_equal(ole_novelty_choose(&choice, NULL, &embed, NULL, &error), OLE_ERROR_ARGUMENT);
}

/* ---- Mistakes ----------------------------------------------------------------------------- */

static void expect(const subjects *s, const ole_dataset *known, const ole_novelty_options *options,
                   const char *words) {
    ole_novelty n = {.known_count = 7};
    ole_error error;
    assert_int_equal(ole_novelty_measure(&n, s->model, known, s->novel, options, &error),
                     OLE_ERROR_ARGUMENT);
    assert_int_equal(n.known_count, 7);
    if (!strstr(error.message, words)) fail_msg("\"%s\" lacks \"%s\"", error.message, words);
}

static void test_mistakes(void **state) {
    const subjects *s = *state;
    ole_novelty_options o;
    ole_novelty_options_init(&o);
    expect(s, s->novel, &o, "the model has 7 classes, the known set digits has 3");
    ole_dataset *order = open_digits("0,1,2,3,4,6,5", 0.2);
    expect(s, order, &o, "class 5 of the model is '5', that of the known set digits is '6'");
    ole_dataset_close(order);
    o.keep = 0.0;
    expect(s, s->known, &o, "options.keep is 0");
    o.keep = NAN;
    expect(s, s->known, &o, "options.keep is nan");
    ole_novelty_options_init(&o);
    o.temperature = -1;
    expect(s, s->known, &o, "options.temperature is -1");
    ole_novelty_options_init(&o);
    o.known_split = (ole_split)9;
    expect(s, s->known, &o, "options.known_split is 9");
    ole_novelty_options_init(&o);
    o.threads = 0;
    expect(s, s->known, &o, "options.threads is 0");
    ole_novelty_options_init(&o);
    o.novel_all = false;
    o.novel_split = OLE_SPLIT_VALIDATION;
    expect(s, s->known, &o, "the novel set digits has no validation samples");
    ole_novelty_options_init(&o);
    o.struct_size--;
    expect(s, s->known, &o, "struct_size");
    expect(s, NULL, NULL, "is NULL");
}

/* The evidence of a choice, as files keep it; what is none reads as none. */
static void test_choice_text(void **state) {
    (void)state;
    ole_novelty_choice given = {
        .score = OLE_SCORE_ENERGY, .groups = 5, .map_refitted = true, .rows = 70, .held_out = 14};
    for (int s = 0; s < OLE_SCORES; s++)
        for (int g = 0; g < 5; g++)
            given.auroc[s][g] = 0.5 + 0.01 * s + 0.001 * g;
    char *text = ole_choice_text(&given);
    assert_non_null(text);
    ole_novelty_choice read;
    assert_true(ole_choice_read(&read, text));
    assert_int_equal(read.score, OLE_SCORE_ENERGY);
    assert_int_equal(read.groups, 5);
    assert_true(read.map_refitted && read.rows == 70 && read.held_out == 14);
    assert_memory_equal(read.auroc, given.auroc, sizeof given.auroc);
    assert_float_equal(read.mean[0], 0.502, 1e-12);
    text[strlen(text) / 2] = '\0';
    const char *const damaged[] = {
        text,
        "",
        "[]",
        "{}",
        "{\"score\": \"energy\"}",
        "{\"score\": \"best\", \"auroc\": {}}",
        "{\"score\": \"energy\", \"auroc\": {\"softmax\": [1, \"x\"]}}",
        "{\"score\": \"energy\", \"auroc\": {\"softmax\": [1,1,1,1,1,1]}}"};
    for (size_t i = 0; i < sizeof damaged / sizeof *damaged; i++) {
        assert_false(ole_choice_read(&read, damaged[i]));
        assert_int_equal(read.groups, 0);
    }
    free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_counts),
        cmocka_unit_test(test_keep),
        cmocka_unit_test(test_novel_only_judges),
        cmocka_unit_test(test_interrupted),
        cmocka_unit_test(test_store),
        cmocka_unit_test(test_mistakes),
        cmocka_unit_test(test_choose),
        cmocka_unit_test(test_choice_text),
    };
    return cmocka_run_group_tests(tests, make_subjects, remove_subjects);
}
