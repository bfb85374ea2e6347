/*
 * tests/unit/train/test_recipe.c - options by name, their checks, and recipes there and back.
 */
#include "train/options/recipe.h"

#include "base/memory_file.h"
#include "model/option_syntax.h"
#include "ole/loss.h"
#include "peak_memory.h"
#include "temporary.h"
#include "test.h"
#include "train/options/options.h"

#include <math.h>

#define LOSSES                                                                                     \
    "softmax, ole, center, contrastive, triplet, l-softmax, a-softmax, cosface, arcface, supcon, " \
    "mcr2, opl, ssole, logit-norm, ole-unit with '+' between"

static ole_recipe *parse(const char *text, ole_train_options *options) {
    ole_recipe *recipe;
    ole_error error;
    ole_train_options_init(options);
    assert_ok(ole_recipe_parse(&recipe, text, strlen(text), "r.yaml", options, &error), &error);
    return recipe;
}

static void test_values(void **state) {
    (void)state;
    ole_train_options o;
    ole_recipe *recipe = parse("# a comment\n"
                               "data: 'npy:X.npy,y.npy'\n"
                               "net: C32-MP\n"
                               "batch-size: 32\n"
                               "loss: ole\n"
                               "lambda: 1/16\n"
                               "val_split: 10%\n"
                               "nesterov: No\n"
                               "seed: 18446744073709551615\n"
                               "milestones: [81, 122]\n"
                               "classes:\n  - cat\n  - dog\n"
                               "augment: \"\"\n",
                               &o);
    assert_string_equal(o.data, "npy:X.npy,y.npy");
    assert_int_equal(o.batch_size, 32);
    assert_int_equal(o.loss, OLE_LOSS_OLE);
    assert_true(o.lambda == 0.0625 && o.val_split == 0.1);
    assert_false(o.nesterov);
    assert_true(o.seed == UINT64_MAX);
    assert_string_equal(o.milestones, "81,122");
    assert_string_equal(o.classes, "cat,dog");
    assert_string_equal(o.augment, "");
    assert_int_equal(o.epochs, 20);
    ole_recipe_free(recipe);
    ole_recipe_free(parse("", &o));
    ole_recipe_free(parse("# nothing\n", &o));
    ole_recipe_free(NULL);
}

static void test_mistakes(void **state) {
    (void)state;
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"epochs: 3\nbatch_sise: 3\n",
         "r.yaml, line 2: unknown option batch_sise; did you mean batch_size?"},
        {"frobnicate: 3\n", "r.yaml, line 1: unknown option frobnicate"},
        {"epochs: 3\nepochs: 4\n", "r.yaml, line 2: this key appears twice"},
        {"batch-size: 3\nbatch_size: 4\n", "r.yaml, line 2: this key appears twice"},
        {"epochs: &e 3\nwarmup: *e\n",
         "r.yaml, line 2: aliases are not supported; write the value out"},
        {"epochs: x\n", "r.yaml, line 1: epochs 'x': expected a whole number from 0 to 1000000000"},
        {"epochs: 2.5\n",
         "r.yaml, line 1: epochs '2.5': expected a whole number from 0 to 1000000000"},
        {"epochs:\n", "r.yaml, line 1: epochs '': expected a whole number from 0 to 1000000000"},
        {"lr: -1\n", "r.yaml, line 1: lr '-1': expected a number of at least 0"},
        {"momentum: 2\n", "r.yaml, line 1: momentum '2': expected a number from 0 to 1"},
        {"delta_abs: -1\n", "r.yaml, line 1: delta_abs '-1': expected a number of at least 0"},
        {"delta_rel: -1\n",
         "r.yaml, line 1: delta_rel '-1': expected auto or a number of at least 0"},
        {"lambda: 1/0\n", "r.yaml, line 1: lambda '1/0': expected a number of at least 0"},
        {"opt: sdg\n", "r.yaml, line 1: opt 'sdg': expected one of sgd, adam, adamw"},
        {"loss: both\n", "r.yaml, line 1: loss 'both': expected some of " LOSSES},
        {"nesterov: maybe\n", "r.yaml, line 1: nesterov 'maybe': expected true or false"},
        {"seed: -1\n", "r.yaml, line 1: seed '-1': expected a whole number of at least 0"},
        {"val_split: 100%\n",
         "r.yaml, line 1: val_split '100%': expected a share below 1, such as 10% or 0.1"},
        {"epochs: {a: 1}\n", "r.yaml, line 1: expected a value or a list of values"},
        {"epochs: [[1]]\n", "r.yaml, line 1: expected a value or a list of values"},
        {"? [a]\n: 1\n", "r.yaml, line 1: expected the name of an option"},
        {"- epochs\n", "r.yaml, line 1: a recipe is a map, such as 'epochs: 20'"},
        {"epochs\n", "r.yaml, line 1: a recipe is a map, such as 'epochs: 20'"},
        {"paper: x\n", "r.yaml, line 1: expected a map of notes"},
        {"paper: {a: {b: 1}}\n", "r.yaml, line 1: expected a value or a list of values"},
        {"paper:\n  a: 1\n  a: 2\n", "r.yaml, line 3: this key appears twice"},
        {"paper: {}\npaper: {}\n", "r.yaml, line 2: this key appears twice"},
        {"paper:\n  ? [a]\n  : 1\n", "r.yaml, line 2: expected the name of a note"},
        {"epochs: 'a\n", "r.yaml, line 2: found unexpected end of stream"},
        {"net: \"FC8\\0FC9\"\n", "r.yaml, line 1: text with a zero byte"},
        {"paper: {a: \"b\\0c\"}\n", "r.yaml, line 1: text with a zero byte"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ole_train_options options;
        ole_train_options_init(&options);
        ole_recipe *recipe = (ole_recipe *)&options;
        ole_error error;
        const char *text = cases[i].text;
        assert_int_equal(ole_recipe_parse(&recipe, text, strlen(text), "r.yaml", &options, &error),
                         OLE_ERROR_FORMAT);
        assert_string_equal(error.message, cases[i].message);
        assert_null(recipe);
        assert_int_equal(options.epochs, 20); /* nothing of a bad recipe is taken */
    }
    ole_recipe *recipe;
    ole_train_options options;
    ole_error error;
    ole_train_options_init(&options);
    assert_int_equal(ole_recipe_read(&recipe, temporary_path("no"), &options, &error),
                     OLE_ERROR_IO);
    assert_non_null(strstr(error.message, "cannot read: No such file or directory"));
}

/* A list of many items is read in time and memory in proportion to its length. */
static void test_long_list(void **state) {
    (void)state;
    enum { ITEMS = 100000 };
    ole_memory_file text;
    assert_true(ole_memory_file_open(&text));
    fputs("classes: [a", text.file);
    for (int i = 1; i < ITEMS; i++)
        fputs(",a", text.file);
    fputs("]\n", text.file);
    char *yaml = ole_memory_file_close(&text);
    int64_t before = peak_memory();
    ole_train_options o;
    ole_recipe *recipe = parse(yaml, &o);
    assert_true(peak_memory() - before < small_cost);
    assert_int_equal(strlen(o.classes), 2 * ITEMS - 1);
    assert_string_equal(o.classes + 2 * ITEMS - 5, ",a,a");
    ole_recipe_free(recipe);
    free(yaml);
}

/* `line` with `number` in place of '@'. */
static void put_line(FILE *file, const char *line, int number) {
    for (; *line; line++)
        if (*line == '@')
            fprintf(file, "%d", number);
        else
            fputc(*line, file);
}

/* What would be compared in pairs is limited: `before`, then many lines, then `after`. */
static void test_limits(void **state) {
    (void)state;
    static const struct {
        const char *before, *line, *after;
        int lines;
        const char *message; /* NULL: it is read */
    } cases[] = {
        {"paper:\n", " n@: 1\n", "", 1000, NULL},
        {"paper:\n", " n@: 1\n", "", 1001, "r.yaml, line 1002: more than 1000 notes"},
        {"paper: {", "n@: 1, ", "}\n", 60000, "r.yaml, line 1: more than 1000 notes"},
        {"", "%TAG !t@! tag:\n", "---\nepochs: 3\n", 100, NULL},
        {"", "%TAG !t@! tag:\n", "---\nepochs: 3\n", 40000,
         "r.yaml: more than 100 lines start with '%'; a recipe needs no YAML directives"},
        {"", "#@\n", "", 200000, "r.yaml: a recipe of 1488890 bytes; the limit is 1048576"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ole_memory_file text;
        assert_true(ole_memory_file_open(&text));
        fputs(cases[i].before, text.file);
        for (int line = 0; line < cases[i].lines; line++)
            put_line(text.file, cases[i].line, line);
        fputs(cases[i].after, text.file);
        char *yaml = ole_memory_file_close(&text);
        ole_train_options o;
        ole_train_options_init(&o);
        ole_recipe *recipe;
        ole_error error = {0};
        ole_status status = ole_recipe_parse(&recipe, yaml, text.size, "r.yaml", &o, &error);
        if (cases[i].message) {
            assert_int_equal(status, OLE_ERROR_FORMAT);
            assert_string_equal(error.message, cases[i].message);
        } else {
            assert_ok(status, &error);
        }
        ole_recipe_free(recipe);
        free(yaml);
    }
}

/* The block `paper` is kept and changes nothing. */
static void test_notes(void **state) {
    (void)state;
    ole_train_options o;
    size_t count;
    ole_recipe *recipe = parse("epochs: 3\npaper:\n  title: 'a, b'\n  epochs: 7\n"
                               "  list: [1, 1/2]\n  note: >-\n    two\n    lines\nlr: 1\n",
                               &o);
    const ole_recipe_note *notes = ole_recipe_notes(recipe, &count);
    static const char *const expected[][2] = {
        {"title", "a, b"}, {"epochs", "7"}, {"list", "1,1/2"}, {"note", "two lines"}};
    assert_int_equal(count, 4);
    for (size_t i = 0; i < count; i++) {
        assert_string_equal(notes[i].key, expected[i][0]);
        assert_string_equal(notes[i].value, expected[i][1]);
    }
    assert_true(o.epochs == 3 && o.lr == 1.0);
    ole_recipe_free(recipe);
    recipe = parse("epochs: 3\n", &o);
    ole_recipe_notes(recipe, &count);
    assert_int_equal(count, 0);
    ole_recipe_free(recipe);
}

static void test_there_and_back(void **state) {
    (void)state;
    ole_train_options o, back;
    ole_train_options_init(&o);
    o.data = "folder:a: b #c";
    o.net = "C32-MP";
    o.out = "elsewhere";
    o.lambda = 1.0 / 3.0;
    o.augment = "crop:4,flip";
    o.seed = UINT64_MAX;
    o.resize = 96;
    o.resume = true;
    const char *path = temporary_path("config.yaml");
    ole_error error;
    assert_ok(ole_recipe_write(path, &o, &error), &error);
    ole_train_options_init(&back);
    ole_recipe *recipe;
    assert_ok(ole_recipe_read(&recipe, path, &back, &error), &error);
    assert_null(back.out);
    assert_false(back.resume);
    for (const ole_option *row = ole_train_table; row->name; row++) {
        if (row->flags & OLE_TRANSIENT) continue;
        char a[OLE_OPTION_VALUE], b[OLE_OPTION_VALUE];
        const char *x = ole_option_text(row, &o, a), *y = ole_option_text(row, &back, b);
        if (x || y) assert_string_equal(x, y);
    }
    assert_true(back.lambda == o.lambda);
    ole_recipe_free(recipe);
    assert_int_equal(ole_recipe_write("/dev/full", &o, &error), OLE_ERROR_IO);
}

/* Each row fits the checks of its own default, and names options that exist. */
static void test_table(void **state) {
    (void)state;
    ole_train_options o;
    char why[OLE_OPTION_WHY], room[OLE_OPTION_VALUE];
    ole_train_options_init(&o);
    for (const ole_option *row = ole_train_table; row->name; row++) {
        assert_non_null(row->help);
        assert_int_equal(!row->value, row->kind == OLE_SWITCH);
        if (row->kind != OLE_TEXT && !ole_option_check(row, &o, row->name, why))
            fail_msg("%s", why);
        if (row->initial && row->kind == OLE_TEXT)
            assert_string_equal(ole_option_text(row, &o, room), row->initial);
        if (!row->idle_with) continue;
        size_t length = strcspn(row->idle_with, "=");
        assert_non_null(ole_option_find(ole_train_table, row->idle_with, length));
    }
    assert_true(o.loss == OLE_LOSS_BOTH && o.lambda == 0.25 && o.weight_decay == 1e-4);
    assert_true(o.test_share == 0.2 && o.nesterov && o.seeds == 1 && o.workers == 1);
}

/* Options that came after 0.1 are stored where they differ from the default: 0.1 reads the rest. */
static void test_later_options(void **state) {
    (void)state;
    ole_train_options o, back;
    ole_train_options_init(&o);
    char *text = ole_recipe_text(&o);
    assert_non_null(text);
    assert_null(strstr(text, "delta"));
    assert_null(strstr(text, "beta"));
    free(text);
    o.delta_floor = 0.5;
    o.delta_rel = 0;
    text = ole_recipe_text(&o);
    ole_recipe *recipe = parse(text, &back);
    assert_non_null(strstr(text, "delta_rel: 0\n"));
    assert_true(back.delta_floor == 0.5 && back.delta_abs == 1e-6 && back.delta_rel == 0.0);
    ole_recipe_free(recipe);
    free(text);
    ole_recipe_free(parse("delta-floor: 1/2\ndelta_abs: 0\ndelta_rel: auto\n", &back));
    assert_true(back.delta_floor == 0.5 && back.delta_abs == 0.0);
    assert_true(back.delta_rel == OLE_DELTA_REL_AUTO);
}

static void check_fails(const ole_train_options *o, const char *message) {
    ole_train_options out;
    ole_error error;
    assert_int_equal(ole_train_options_check(o, &out, &error), OLE_ERROR_ARGUMENT);
    assert_string_equal(error.message, message);
}

static void test_checks(void **state) {
    (void)state;
    ole_train_options o, out;
    ole_error error;
    ole_train_options_init(&o);
    check_fails(NULL, "options is NULL: fill options with ole_train_options_init()");
    check_fails(&o, "data is required: name a data set, such as digits");
    o.data = "digits";
    assert_ok(ole_train_options_check(&o, &out, &error), &error); /* the data choose a net */
    o.net = "";
    check_fails(&o, "net is empty: use a name or the notation, or omit it");
    o.net = "C8";
    o.augment = NULL;
    assert_ok(ole_train_options_check(&o, &out, &error), &error);
    assert_true(out.lr == 0.1);
    assert_string_equal(out.augment, "");
    o.opt = "adam";
    assert_ok(ole_train_options_check(&o, &out, &error), &error);
    assert_true(out.lr == 1e-3);
    o.opt = "adamw";
    assert_ok(ole_train_options_check(&o, &out, &error), &error);
    assert_true(out.lr == 1e-3 && out.beta1 == 0.9 && out.beta2 == 0.999 && out.eps == 1e-8);
    o.beta2 = 1;
    check_fails(&o, "beta2 '1': expected a share below 1, such as 10% or 0.1");
    o.beta2 = 0.99;
    o.lr_backbone = "0x";
    check_fails(&o, "lr_backbone '0x': expected a multiple of lr above 0 such as 0.1x, or a rate");
    o.lr_backbone = "0.1y";
    check_fails(&o,
                "lr_backbone '0.1y': expected a multiple of lr above 0 such as 0.1x, or a rate");
    o.lr_backbone = "1e-5";
    o.resume = true;
    check_fails(&o, "resume needs out, the run folder to continue in");
    o.resume = false;
    o.lambda = NAN;
    check_fails(&o, "lambda 'nan': expected a number of at least 0");
    o.lambda = 1;
    o.loss = 0;
    check_fails(&o, "loss '0': expected some of " LOSSES);
    o.loss = OLE_LOSS_OLE;
    o.augment = "flop";
    check_fails(
        &o, "augment 'flop': expected crop:PIXELS, resized-crop:SHARE, flip, rotate:DEGREES, "
            "jitter:X, erase:P, cutout:PIXELS, mixup:ALPHA, or some of them separated by commas");
    static const char *const bad_augment[] = {
        "crop:0",         "crop:2.5",          "crop:1025", "rotate:181", "jitter:1.1",
        "resized-crop:0", "resized-crop",      "erase:-1",  "cutout:nan", "flip,",
        "flip,flip",      "rotate:5,rotate:6", "mixup:0",   "mixup:4.1",  "mixup"};
    for (size_t i = 0; i < sizeof bad_augment / sizeof *bad_augment; i++) {
        o.augment = bad_augment[i];
        assert_int_equal(ole_train_options_check(&o, &out, &error), OLE_ERROR_ARGUMENT);
        assert_non_null(strstr(error.message, "': expected crop:PIXELS, resized-crop:SHARE"));
    }
    o.augment = "flip,mixup:0.2";
    check_fails(&o, "augment 'flip,mixup:0.2': mixup blends labels for softmax; train with --loss "
                    "softmax or softmax+ole, or omit it");
    o.augment = "crop:4,flip";
    o.sampler = "balanced:10";
    check_fails(
        &o,
        "sampler 'balanced:10': expected balanced, or balanced:CxK, C classes with K samples each");
    ole_sampler_spec sampler;
    static const int chosen[][4] = {{10, 64, 10, 6}, {62, 64, 16, 4}, {3, 2, 1, 2}, {2, 7, 1, 7}};
    for (size_t i = 0; i < sizeof chosen / sizeof *chosen; i++) { /* classes, batch, C, K */
        assert_ok(ole_sampler_parse(&sampler, "balanced", &error), &error);
        assert_true(sampler.automatic);
        ole_sampler_choose(&sampler, chosen[i][0], chosen[i][1]);
        assert_int_equal(sampler.classes, chosen[i][2]);
        assert_int_equal(sampler.samples, chosen[i][3]);
    }
    o.sampler = "balanced:10x6";
    o.normalize = "0.5/0";
    check_fails(
        &o,
        "normalize '0.5/0': expected auto, none, half, cifar, imagenet, or means and deviations "
        "such as 0.5,0.5,0.5/0.2,0.2,0.2");
    o.normalize = "0.5,0.4,0.3/1,2,3";
    o.ole_at = "3:0.1,3";
    check_fails(&o,
                "ole_at '3:0.1,3': expected different tokens from 1 on, with weights where they "
                "differ from lambda, such as 3:0.1,5");
    o.ole_at = "3:0.1,5";
    assert_ok(ole_train_options_check(&o, &out, &error), &error);
    ole_acts acts;
    assert_ok(ole_acts_parse(&acts, o.ole_at, 2.0, &error), &error);
    assert_int_equal(acts.count, 2);
    assert_true(acts.weight[0] == 0.1 && acts.weight[1] == 2.0);
}

static void test_null(void **state) {
    (void)state;
    ole_train_options o;
    ole_recipe *recipe;
    ole_error error;
    size_t count = 1;
    ole_train_options_init(&o);
    assert_int_equal(ole_recipe_parse(&recipe, NULL, 0, NULL, &o, &error), OLE_ERROR_ARGUMENT);
    assert_string_equal(error.message, "ole_recipe_parse: an argument is NULL");
    assert_int_equal(ole_recipe_read(NULL, "r.yaml", &o, NULL), OLE_ERROR_ARGUMENT);
    assert_int_equal(ole_train_options_set(&o, "lambda", NULL, NULL), OLE_ERROR_ARGUMENT);
    o.struct_size = offsetof(ole_train_options, delta_rel); /* the caller's has no such field */
    assert_int_equal(ole_train_options_set(&o, "delta_rel", "1", &error), OLE_ERROR_ARGUMENT);
    assert_non_null(strstr(error.message, "delta_rel is newer than the program"));
    ole_train_options_init(&o);
    assert_null(ole_recipe_notes(NULL, &count));
    assert_int_equal(count, 0);
    assert_int_equal(ole_recipe_parse(&recipe, "", 0, NULL, &o, NULL), OLE_OK);
    ole_recipe_free(recipe);
}

/* The command line that leads to these options, and to where training starts. */
static void test_flags(void **state) {
    (void)state;
    ole_train_options o;
    ole_train_options_init(&o);
    o.data = "folder:photos";
    o.net = "C8 -FC8";
    o.nesterov = false;
    o.align = "marks.csv";
    o.skip_bad = true;
    o.epochs = 3;
    static const char *const expected[] = {
        " --net 'C8 -FC8' --epochs 3 --no-nesterov --align marks.csv --skip-bad",
        " --net 'C8 -FC8' --align marks.csv --skip-bad"};
    for (int start = 0; start < 2; start++) {
        ole_memory_file memory;
        assert_true(ole_memory_file_open(&memory));
        ole_train_put_flags(memory.file, &o, start ? OLE_START : 0);
        char *text = ole_memory_file_close(&memory);
        assert_string_equal(text, expected[start]);
        free(text);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_flags),
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_null),
        cmocka_unit_test(test_mistakes),
        cmocka_unit_test(test_long_list),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_notes),
        cmocka_unit_test_teardown(test_there_and_back, temporary_clear),
        cmocka_unit_test(test_table),
        cmocka_unit_test(test_later_options),
        cmocka_unit_test(test_checks),
    };
    return cmocka_run_group_tests(tests, temporary_make, temporary_remove);
}
