/*
 * cli/novelty/novelty.c - `ole novelty`: does a model know what it does not know?
 *
 * Opens the model and both sets with as few options as possible: the known set's classes are the
 * model's, its validation split is that of the run, and if one set serves as both, the novel
 * classes are the others.  novelty_report.c prints and draws.
 */
#include "base/memory_file.h"
#include "commands.h"
#include "common/common.h"
#include "common/download.h"
#include "common/model_and_data.h"
#include "common/outputs.h"
#include "common/progress.h"
#include "novelty/novelty_features.h"
#include "novelty/novelty_report.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char novelty_summary[] = "find what a model does not know, and the threshold for it";

/* What is open. */
typedef struct subjects {
    ole_model *model;
    ole_dataset *set[2]; /* known, novel */
    ole_dataset *whole;  /* the known set with classes that are not the model's; or NULL */
    char *classes[2];    /* lists of names made here */
    trained_data run;
    bool fitted_on; /* the known samples are those of the fit */
} subjects;

/* ---- The command line --------------------------------------------------------------------- */

/* Flags that belong to a model, or to features without one. */
static bool check_mode(const novelty_arguments *a, int *code) {
    *code = EXIT_USAGE;
    const struct {
        const char *flag;
        bool given, of_model;
    } flags[] = {
        {"test", a->test, false},
        {"save", a->save, false},
        {"method", a->method != OLE_EMBED_LINEAR, false},
        {"lambda", !isnan(a->embed.lambda), false},
        {"weight-decay", !isnan(a->embed.weight_decay), false},
        {"width", a->embed.width != 0, false},
        {"known-classes", a->classes[0], true},
        {"novel-classes", a->classes[1], true},
        {"val-split", a->flags.has_validation, true},
        {"test-share", a->flags.has_test_share, true},
        {"known-split", a->known_split != OLE_SPLIT_TEST, true},
        {"novel-split", a->novel_split != 0, true},
        {"no-store", a->no_store, true},
    };
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
        if (flags[i].given && flags[i].of_model != (a->model != NULL))
            return refuse("novelty", "--%s works only %s MODEL", flags[i].flag,
                          flags[i].of_model ? "with a" : "without a");
    if (!a->model && !a->data[0])
        fail_command("novelty",
                     "missing argument MODEL, or features without one: --known X.npy,y.npy; "
                     "see 'ole novelty --help'");
    else if (a->method == OLE_EMBED_MLP + 1 && a->save)
        fail_command("novelty", "--save needs a map: --method none has none");
    else if (a->method != OLE_EMBED_MLP && a->embed.width != 0)
        fail_command("novelty", "--width does not apply to --method %s: give it with mlp",
                     a->method == OLE_EMBED_LINEAR ? "linear" : "none");
    else
        return true;
    return false;
}

static bool parse(novelty_arguments *a, int argc, char **argv, int *code) {
    *a = (novelty_arguments){.method = OLE_EMBED_LINEAR,
                             .known_split = OLE_SPLIT_TEST,
                             .score_name = "auto",
                             .flags = {.classes = "", .samples_per_class = -1}};
    ole_embed_options_init(&a->embed);
    ole_novelty_options_init(&a->options);
    a->options.threads = default_threads();
    const arg_positional positionals[] = {
        {"MODEL", &a->model, MODEL_HELP},
        {0},
    };
    const ole_option options[] = {
        {"known", OLE_TEXT, &a->data[0], "DATA", .heading = "Data",
         .help = "data with the model's classes (default: the run's); without MODEL, features and "
                 "labels, as X.npy,y.npy"},
        {"novel", OLE_TEXT, &a->data[1], "DATA",
         .help = "data with other classes, to test with (default: none); without MODEL, "
                 "features, as X.npy"},
        {"test", OLE_TEXT, &a->test, "X.npy,y.npy",
         .help = "known features to test on, without MODEL (default: a fifth of --known)"},
        {"known-classes", OLE_TEXT, &a->classes[0], "A,B,...",
         .help = "the model's classes in the known data (default: matched by name)"},
        {"novel-classes", OLE_TEXT, &a->classes[1], "A,B,...",
         .help = "classes of the novel data (default: all, or those not known)"},
        {"val-split", OLE_SHARE, &a->flags.validation, "10%", .given = &a->flags.has_validation,
         .help =
             "share of the known training set held out for validation (default: as in the run)"},
        {"seed", OLE_SEED, &a->flags.seed, "N", .given = &a->flags.has_seed,
         .help =
             "seed of the validation split (default: as in the run), without MODEL of the fits"},
        {"known-split", OLE_CHOICE, &a->known_split, "train|test|validation",
         .help = "part of the known data to test on"},
        {"novel-split", OLE_CHOICE, &a->novel_split, "all|train|test",
         .help = "part of the novel data to test on"},
        {"test-share", OLE_SHARE, &a->flags.test_share, "20%", .given = &a->flags.has_test_share,
         .help = "share held out for testing, if the data have no test set (default: as in the "
                 "run, or 20%)"},
        {"skip-bad", OLE_SWITCH, .to = &a->flags.skip_bad,
         .help = "skip unreadable images of a folder"},
        {"keep", OLE_SHARE, &a->options.keep, "95%", .heading = "Threshold", .max = 1,
         .flags = OLE_NOT_ZERO,
         .help = "share of the known validation samples above the threshold"},
        {"score", OLE_TEXT, &a->score_name, "NAME",
         .help = "score whose threshold is stored: softmax, calibrated, residual, cosine, "
                 "energy, gen, knn, vim, mahalanobis, relative, fdbd, nci, neco; auto: chosen "
                 "without novel samples"},
        {"temperature", OLE_NUMBER, &a->options.temperature, "X",
         .help = "temperature of the softmax; fit: on the validation split, 1: as trained",
         .min = 1e-3, .max = 1e3, .special = "fit", .special_value = 0.0},
        {"no-store", OLE_SWITCH, .to = &a->no_store,
         .help = "do not store the threshold in the model"},
        {"method", OLE_CHOICE, &a->method, "linear|mlp|none", .heading = "Without MODEL",
         .help = "map of the features; none: as they are", .min = OLE_EMBED_LINEAR},
        {"lambda", OLE_NUMBER, &a->embed.lambda, "X", .help = "weight of OLE (default: chosen)",
         .max = 1e6, .special = "auto", .special_value = NAN},
        {"weight-decay", OLE_NUMBER, &a->embed.weight_decay, "X",
         .help = "L2 penalty of the map (default: chosen)", .max = 1e6, .special = "auto",
         .special_value = NAN},
        {"width", OLE_WHOLE, &a->embed.width, "N", .help = "hidden units of mlp; 0: chosen",
         .max = 65536},
        {"save", OLE_TEXT, &a->save, "MODEL.safetensors",
         .help = "write map, classifier, score and threshold as a model"},
        {"scores", OLE_TEXT, &a->scores, "FILE.csv", .heading = "Output",
         .help = "write the score of every sample"},
        FIGURE_OPTIONS(&a->figures),
        THREADS_OPTION(&a->options.threads),
        JSON_OPTION(&a->json),
        {0},
    };
    const arg_command command = {
        .name = "novelty",
        .summary = novelty_summary,
        .example = "  $ ole train digits --classes 0,1,2,3,4,5,6 --val-split 20% \\\n"
                   "        --net C16-MP-FC32 --out runs/seven\n"
                   "  $ ole novelty runs/seven --novel digits\n"
                   "  $ ole predict runs/seven eight.png        # unknown\n"
                   "  $ ole novelty --known X.npy,y.npy --save model.safetensors\n",
        .about =
            "Finds the threshold that keeps 95% of the known validation samples and stores it\n"
            "in the model for 'ole predict'. Novel samples serve for testing only: how many\n"
            "would pass for known ones? A temperature, fitted on the validation samples,\n"
            "turns scores into probabilities.\n"
            "\n"
            "Which score to use is decided without novel samples: the known classes are split\n"
            "into five groups of similar ones, and each group is left out of a fit and plays\n"
            "the novel one.\n"
            "Without MODEL, features of any model will do: a map and a classifier are fitted\n"
            "to the known ones.\n",
        .positionals = positionals,
        .none_will_do = true,
        .options = options,
    };
    if (!args_parse(&command, argc, argv, code)) return false;
    *code = EXIT_USAGE;
    return novelty_parse_score("novelty", a->score_name, &a->score) && check_mode(a, code);
}

/* ---- Opening ------------------------------------------------------------------------------ */

static bool has_name(const char *const *names, int count, const char *name) {
    for (int c = 0; c < count; c++)
        if (strcmp(names[c], name) == 0) return true;
    return false;
}

/* One more in a list of classes: its name, or its number where a comma would cut the name. */
static void put_class(FILE *out, const ole_dataset_info *set, int c, bool *first) {
    if (!*first) fputc(',', out);
    *first = false;
    if (strchr(set->class_names[c], ','))
        fprintf(out, "%d", c);
    else
        fputs(set->class_names[c], out);
}

/* The set's classes that the model knows, in its order, or those that it does not; NULL without
 * memory, "" for none. */
static char *list_classes(const ole_dataset_info *set, const ole_model_info *model, bool known) {
    ole_memory_file memory;
    if (!ole_memory_file_open(&memory)) return NULL;
    bool first = true;
    for (int m = 0; m < model->classes && known; m++)
        for (int c = 0; c < set->classes; c++)
            if (strcmp(set->class_names[c], model->class_names[m]) == 0)
                put_class(memory.file, set, c, &first);
    for (int c = 0; c < set->classes && !known; c++)
        if (!has_name(model->class_names, model->classes, set->class_names[c]))
            put_class(memory.file, set, c, &first);
    return ole_memory_file_close(&memory);
}

/* Whether a set has the model's classes, in its order. */
static bool fits_model(const ole_dataset_info *set, const ole_model_info *model) {
    if (set->classes != model->classes) return false;
    for (int c = 0; c < model->classes; c++)
        if (strcmp(set->class_names[c], model->class_names[c]) != 0) return false;
    return true;
}

/* Lists the model's classes among those of s->whole, unless there is nothing to choose: they are
 * all, in their order, or names are missing (of which the library tells). */
static int choose_known(subjects *s, bool *as_it_is) {
    const ole_model_info *model = ole_model_get_info(s->model);
    const ole_dataset_info *whole = ole_dataset_get_info(s->whole);
    *as_it_is = fits_model(whole, model);
    for (int c = 0; c < model->classes && !*as_it_is; c++)
        *as_it_is = !has_name(whole->class_names, whole->classes, model->class_names[c]);
    if (*as_it_is) return EXIT_DONE;
    s->classes[0] = list_classes(whole, model, true);
    return s->classes[0] ? EXIT_DONE : fail_command("novelty", "out of memory");
}

/* The known set; where it has other classes too, it stays open as s->whole. */
static int open_known(const novelty_arguments *a, subjects *s, ole_dataset_options *options) {
    options->classes = a->classes[0];
    if (options->classes) return open_dataset("novelty", a->data[0], options, &s->set[0]);
    int64_t samples = options->samples_per_class;
    options->samples_per_class = 0; /* classes that the model does not know may have fewer */
    int code = open_dataset("novelty", a->data[0], options, &s->whole);
    options->samples_per_class = samples;
    bool as_it_is = false;
    if (code == EXIT_DONE) code = choose_known(s, &as_it_is);
    if (code != EXIT_DONE) return code;
    if (as_it_is && samples == 0) {
        s->set[0] = s->whole;
        s->whole = NULL;
        return EXIT_DONE;
    }
    options->classes = s->classes[0];
    return open_dataset("novelty", a->data[0], options, &s->set[0]);
}

/* Of the known data: a class that the model was trained on is not novel, whatever the flag says. */
static int check_novel(const novelty_arguments *a, const subjects *s) {
    const ole_model_info *model = ole_model_get_info(s->model);
    const ole_dataset_info *novel = ole_dataset_get_info(s->set[1]);
    for (int c = 0; c < novel->classes; c++)
        if (has_name(model->class_names, model->classes, novel->class_names[c]))
            return fail_usage(
                "novelty",
                "--novel-classes %s: the model knows the class '%s' of %s: name classes that "
                "it does not know",
                a->classes[1], novel->class_names[c], a->data[1]);
    return EXIT_DONE;
}

/* The novel set; of the known set the classes that the model does not know. */
static int open_novel(const novelty_arguments *a, subjects *s, ole_dataset_options *options) {
    options->validation = 0.0;
    options->samples_per_class = 0;
    options->classes = a->classes[1];
    bool there, same = same_data(a->data[0], a->data[1], &there);
    if (options->classes || !same) {
        int code = open_dataset("novelty", a->data[1], options, &s->set[1]);
        return code == EXIT_DONE && same ? check_novel(a, s) : code;
    }
    if (!s->whole && a->classes[0]) {
        int code = open_dataset("novelty", a->data[1], options, &s->whole);
        if (code != EXIT_DONE) return code;
    }
    const ole_model_info *model = ole_model_get_info(s->model);
    const ole_dataset_info *whole = ole_dataset_get_info(s->whole ? s->whole : s->set[0]);
    s->classes[1] = list_classes(whole, model, false);
    if (!s->classes[1]) return fail_command("novelty", "out of memory");
    if (!*s->classes[1])
        return fail_command("novelty",
                            "%s: the model knows all its classes: name another set with "
                            "--novel, or classes with --novel-classes",
                            a->data[1]);
    options->classes = s->classes[1];
    return open_dataset("novelty", a->data[1], options, &s->set[1]);
}

static void warn_of_one_class(const novelty_arguments *a, const ole_model_info *model) {
    ole_score score = a->score;
    if (model->classes > 1 || (score != OLE_SCORE_SOFTMAX && score != OLE_SCORE_CALIBRATED)) return;
    fprintf(stderr,
            "ole novelty: warning: with a single class the %s score is always 1; use --score "
            "residual, cosine or energy\n",
            ole_score_name(score));
}

/* Where nothing is held out, the known samples are shared out: src/model/novelty.c. */
static void tell_halves(const novelty_arguments *a, const subjects *s) {
    static const char *const parts[] = {"training", "test", "validation"};
    const ole_dataset_info *known = ole_dataset_get_info(s->set[0]);
    if (known->count[OLE_SPLIT_VALIDATION] > 0) return;
    tell_command("novelty",
                 "no samples were held out: half of the %" PRId64 " %s samples set the threshold, "
                 "the others test it",
                 known->count[a->known_split], parts[a->known_split]);
    if (a->known_split == OLE_SPLIT_TRAIN)
        tell_command("novelty", "warning: the model was trained on them; the threshold will be too "
                                "high");
}

static int open_subjects(novelty_arguments *a, subjects *s) {
    ole_dataset_options options;
    int code = open_model("novelty", a->model, a->options.threads, &s->model);
    if (code == EXIT_DONE)
        code = trained_data_open(&s->run, "novelty", a->model, a->data[0], &a->flags, &options);
    if (code != EXIT_DONE) return code;
    bool named = a->data[0];
    a->data[0] = s->run.data;
    trained_data_warn(&s->run, "novelty", &options, a->known_split == OLE_SPLIT_TEST, true);
    options.threads = a->options.threads;
    const ole_model_info *info = ole_model_get_info(s->model);
    warn_of_one_class(a, info);
    fit_folder(&options, a->data[0], info);
    code = open_known(a, s, &options);
    if (code != EXIT_DONE && !named)
        tell_data_moved("novelty", s->run.recipe, "name them with --known");
    if (code != EXIT_DONE) return code;
    if (fits_model(ole_dataset_get_info(s->set[0]), info)) /* else it is refused for that */
        trained_data_compare(&s->run, "novelty", &a->flags, s->model, s->set[0]);
    s->fitted_on = ole_model_fitted_on(s->model, s->set[0], (ole_split)a->known_split);
    if (s->fitted_on) tell_fitted_on("novelty", a->data[0]);
    if (s->fitted_on && !a->no_store && a->score == OLE_SCORE_NONE)
        tell_command("novelty", "the threshold in %s stays as it is; --score S replaces it",
                     a->model);
    tell_halves(a, s);
    if (!a->data[1]) return EXIT_DONE;
    fit_folder(&options, a->data[1], info);
    return open_novel(a, s, &options);
}

static void close_subjects(subjects *s) {
    for (int which = 0; which < 2; which++) {
        ole_dataset_close(s->set[which]);
        free(s->classes[which]);
    }
    ole_dataset_close(s->whole);
    trained_data_close(&s->run);
    ole_model_free(s->model);
}

/* ---- The command -------------------------------------------------------------------------- */

static int measure(const novelty_arguments *a, const subjects *s, ole_novelty *n) {
    progress line = progress_start();
    ole_novelty_options options = a->options;
    options.known_split = (ole_split)a->known_split;
    options.novel_all = a->novel_split == 0;
    options.novel_split = a->novel_split == 2 ? OLE_SPLIT_TEST : OLE_SPLIT_TRAIN;
    options.choose = a->score == OLE_SCORE_NONE;
    options.callback = progress_images;
    options.callback_context = &line;
    catch_interrupts();
    ole_error error;
    ole_status status = ole_novelty_measure(n, s->model, s->set[0], s->set[1], &options, &error);
    progress_clear(&line);
    if (status != OLE_OK) return fail_command("novelty", "%s", error.message);
    if (!n->interrupted) return EXIT_DONE;
    return end_interrupted("novelty", "the model file is unchanged");
}

/* Writes all files, the model last: it changes only if the rest went well.  Prints in any case. */
static int report(const novelty_arguments *a, const subjects *s, const ole_novelty *n) {
    novelty_report r = {.result = n,
                        .model = ole_model_get_info(s->model),
                        .set = {ole_dataset_get_info(s->set[0]), ole_dataset_get_info(s->set[1])},
                        .score = a->score != OLE_SCORE_NONE ? a->score : n->choice.score,
                        .path = a->model,
                        .temperature_given = a->options.temperature > 0.0};
    ole_error error;
    int code = novelty_draw(&r, &a->figures); /* first: it makes the folder of figures */
    if (a->scores && novelty_write_scores(&r, a->scores) != EXIT_DONE) code = EXIT_FAILED;
    bool keeps = s->fitted_on && a->score == OLE_SCORE_NONE;
    r.stored = code == EXIT_DONE && !a->no_store && !keeps;
    if (r.stored && ole_novelty_store(n, r.score, a->model, &error) != OLE_OK) {
        code = fail_command("novelty", "%s", error.message);
        r.stored = false;
    }
    trained_data_tell(&s->run, "novelty", &a->flags);
    if (n->choice.groups > 0)
        fprintf(stderr,
                "ole novelty: warning: the network has seen all classes, so the AUROCs behind the "
                "choice of a score are too high; only the classifier was fitted again\n");
    novelty_tell_calibration(n);
    if (r.stored) novelty_tell_export("novelty", r.score, &n->choice);
    (a->json ? novelty_print_json : novelty_print_text)(&r);
    if (code == EXIT_DONE && !a->json) figure_output_tell(&a->figures, 20);
    return code;
}

int run_novelty(int argc, char **argv) {
    novelty_arguments a;
    int code;
    if (!parse(&a, argc, argv, &code)) return code;
    if (!a.model) {
        const char *const written[] = {a.save, a.scores, a.figures.page};
        if (!outputs_ready("novelty", written, 3, a.figures.folder)) return EXIT_FAILED;
        a.embed.method =
            a.method == OLE_EMBED_MLP + 1 ? OLE_EMBED_NONE : (ole_embed_method)a.method;
        if (a.flags.has_seed) a.embed.seed = a.flags.seed;
        return novelty_features_run(&a);
    }
    const char *const inputs[] = {a.model, a.data[0], a.data[1]};
    const char *const outputs[] = {a.scores, a.figures.page};
    if (!spares_inputs("novelty", outputs, 2, inputs, 3)) return EXIT_USAGE;
    if (!outputs_ready("novelty", outputs, 2, a.figures.folder)) return EXIT_FAILED;
    if (is_on_hub(a.model) && !a.no_store)
        return fail_usage("novelty",
                          "%s: a threshold cannot be stored in a model on a hub; pass --no-store",
                          a.model);
    subjects s = {0};
    code = open_subjects(&a, &s);
    ole_novelty n = {0};
    if (code == EXIT_DONE) code = measure(&a, &s, &n);
    if (code == EXIT_DONE) code = report(&a, &s, &n);
    ole_novelty_free(&n);
    close_subjects(&s);
    return code;
}
