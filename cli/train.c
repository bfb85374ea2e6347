/*
 * cli/train.c - `ole train`: a network on a data set, into a run folder.
 *
 * The flags are the options of ole/train/train.h, one for each (train_flags.h).
 */
#include "commands.h"
#include "common/common.h"
#include "common/launch.h"
#include "common/outputs.h"
#include "common/progress.h"
#include "common/train_flags.h"
#include "common/trained_data.h"

#include "base/clock.h"
#include "base/quote.h"
#include "data/images/image_name.h"
#include "formats/json.h"
#include "model/threshold_words.h"
#include <ole/train/model.h>
#include <ole/train/report.h>
#include <ole/train/train.h>

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

const char train_summary[] = "train a network with softmax, OLE or both";

/* ---- The command line --------------------------------------------------------------------- */

typedef struct flags {
    train_flags train;
    bool json, no_report;
    const char *made; /* the folder that was made for the run; NULL: --out names it */
} flags;

static bool parse(flags *f, int argc, char **argv, int *code) {
    const arg_positional positionals[] = {
        {"DATA", &f->train.data, "NAME[:PATH]: digits, mnist, cifar10, stl10, folder:photos, ..."},
        {0},
    };
    static const arg_positional files[] = {
        {"config.yaml", NULL, "all options, as a recipe"},
        {"metrics.jsonl", NULL, "a line of JSON per epoch: losses, errors, learning rate, time"},
        {"last.safetensors", NULL, "the weights and what --resume needs"},
        {"best.safetensors", NULL, "the model with the lowest validation error"},
        {"report.html", NULL, "the run's page, refreshed while it trains"},
        {0},
    };
    ole_option options[TRAIN_FLAGS + 3] = {{0}};
    ole_option *rows = train_flags_rows(&f->train, NULL, options);
    rows[0] = (ole_option){"json", OLE_SWITCH, &f->json, .help = "print the result as JSON"};
    rows[0].heading = "Output";
    rows[1] = (ole_option){"no-report", OLE_SWITCH, &f->no_report, .help = "write no report.html"};
    const arg_command command = {
        .name = "train",
        .summary = train_summary,
        .example = "  $ ole train folder:photos\n"
                   "  $ ole train digits --net C32-MP-C64-MP-FC64 --out runs/first\n"
                   "  $ ole train stl10 --net cnn5 --opt adam --batch-size 32 --epochs 164 \\\n"
                   "        --augment crop:12,flip --weight-decay 1e-3 --out runs/stl10\n"
                   "  $ ole train --resume --out runs/stl10\n",
        .about = "Trains a network and writes config.yaml, metrics.jsonl, last.safetensors, "
                 "best.safetensors and report.html into the output folder (ole-run, ole-run-2, ... "
                 "without --out). Without --net it picks a network that suits the data. Ctrl-C "
                 "saves; --resume continues.",
        .positionals = positionals,
        .none_will_do = true,
        .options = options,
        .files = files,
    };
    return args_parse(&command, argc, argv, code);
}

/* ---- While it runs ------------------------------------------------------------------------ */

enum { PATH = 4096, REFRESH = 5, PAUSE = 2 }; /* bytes; seconds */

typedef struct view {
    progress line;
    bool quiet;               /* another process prints */
    const train_setup *setup; /* whose settings are to be printed when training has begun; NULL: */
                              /* they have been */
    const char *folder;       /* likewise; NULL: the user chose it */
    int64_t epoch, step;      /* where it was stopped */
    const char *out;          /* of the page; NULL: without one */
    double page_due;          /* when the next page so far may be written, by ole_clock() */
    bool has_page, told_page;
} view;

/* "softmax 0.0487  OLE 0.5929  ", what there is of it. */
static ole_short_text losses_text(const ole_train_progress *p) {
    ole_short_text softmax = {""}, ole = {""}, feature = {""};
    if (isfinite(p->softmax_loss)) softmax = ole_printed("softmax %.4f  ", p->softmax_loss);
    if (isfinite(p->ole_loss)) ole = ole_printed("OLE %.4f  ", p->ole_loss);
    if (isfinite(p->feature_loss)) feature = ole_printed("added %.4f  ", p->feature_loss);
    return ole_printed("%s%s%s", softmax.text, ole.text, feature.text);
}

static ole_short_text error_text(const char *name, double percent) {
    return isfinite(percent) ? ole_printed("%s %.2f %%  ", name, percent) : (ole_short_text){""};
}

static ole_short_text run_text(const ole_train_progress *p) {
    if (p->runs <= 1) return (ole_short_text){""};
    return ole_printed("run %" PRId64 "/%" PRId64 "  ", p->run, p->runs);
}

/* A line per epoch; on a terminal that is too narrow for all of it, what matters most. */
static void print_epoch(view *v, const ole_train_progress *p) {
    enum { RUN, EPOCH, LOSSES, TRAIN, VALIDATION, TEST, NEAREST, SPEED, PARTS };
    static const int least[] = {SPEED, TRAIN, LOSSES, RUN}; /* dropped first */
    ole_short_text part[PARTS] = {
        [RUN] = run_text(p),
        [EPOCH] = ole_printed("epoch %" PRId64 "/%" PRId64 "  ", p->epoch, p->epochs),
        [LOSSES] = losses_text(p),
        [TRAIN] = error_text("train", p->train_error),
        [VALIDATION] = error_text("validation", p->validation_error),
        [TEST] = error_text("test", p->test_error),
        [NEAREST] = error_text("1-NN", p->knn1_error),
        [SPEED] = ole_printed("%.0f samples/s", p->images_per_second)};
    static const char label[] = "error: "; /* before the first of the errors */
    size_t length = strlen(label), width = (size_t)progress_width(&v->line);
    for (int i = 0; i < PARTS; i++)
        length += strlen(part[i].text);
    for (size_t i = 0; i < sizeof least / sizeof *least && length > width; i++) {
        length -= strlen(part[least[i]].text);
        part[least[i]].text[0] = '\0';
    }
    char line[PARTS * sizeof part[0] + sizeof label] = "", *end = line;
    bool labelled = false;
    for (int i = 0; i < PARTS; i++) {
        bool first = !labelled && i >= TRAIN && i <= NEAREST && *part[i].text;
        end = stpcpy(stpcpy(end, first ? label : ""), part[i].text);
        labelled |= first;
    }
    while (end > line && end[-1] == ' ')
        *--end = '\0';
    progress_clear(&v->line);
    fprintf(stderr, "%s\n", line);
}

/* Once, on a terminal: where to look while it runs. */
static void tell_page(view *v, const char *path) {
    if (v->told_page || !v->line.terminal) return;
    progress_clear(&v->line);
    tell_command("train", "%s shows the curves%s and refreshes itself", path,
                 v->has_page || v->epoch > 0 ? " so far" : " from the first epoch on,");
    v->told_page = true;
}

/*
 * The page so far: the curves alone, and in browsers that have it open a new one each time until
 * `refresh` is 0.  That it cannot be written is for the page at the end to say.
 */
static void write_page_so_far(view *v, int refresh) {
    char path[PATH];
    ole_report_options options;
    ole_report report;
    ole_error error;
    ole_report_options_init(&options);
    options.out = path;
    options.curves_only = true;
    options.refresh = refresh;
    snprintf(path, sizeof path, "%s/report.html", v->out);
    if (!own_file_ready(path, true, &error) ||
        ole_report_run(&report, &v->out, 1, &options, &error) != OLE_OK)
        return;
    ole_report_free(&report);
    tell_page(v, path);
    v->has_page = true;
}

/* Pages so far take at most a fiftieth of the time; what is over in seconds has none. */
static void follow(view *v) {
    enum { SHARE = 50 }; /* a pause lasts so many times as long as the page took */
    double now = ole_clock();
    if (!v->out || now < v->page_due) return;
    write_page_so_far(v, REFRESH);
    double ended = ole_clock();
    v->page_due = ended + fmax(PAUSE, SHARE * (ended - now));
}

/* Names the page during the first epoch, where that takes long. */
static void begin_page(view *v, const ole_train_progress *p) {
    char path[PATH];
    if (!v->out || v->has_page || v->told_page || p->seconds < PAUSE) return;
    write_page_so_far(v, REFRESH);
    snprintf(path, sizeof path, "%s/report.html", v->out);
    tell_page(v, path);
}

static bool show(void *context, const ole_train_progress *p) {
    view *v = context;
    v->epoch = p->epoch_done ? p->epoch : p->epoch - 1;
    v->step = p->epoch_done ? 0 : p->step;
    if (v->quiet) return interrupted();
    if (v->setup) {
        progress_clear(&v->line);
        train_setup_tell(v->setup, "train");
        v->setup = NULL;
    }
    if (v->folder) {
        progress_clear(&v->line);
        tell_command("train", "run folder: %s; --out sets another", v->folder);
        v->folder = NULL;
    }
    if (p->epoch_done) {
        print_epoch(v, p);
        follow(v);
    } else if (p->seconds > 1.0 && progress_due(&v->line)) {
        begin_page(v, p);
        progress_show(&v->line, "%sepoch %" PRId64 "/%" PRId64 " %s  %s left  %s%s%.0f samples/s",
                      run_text(p).text, p->epoch, p->epochs,
                      bar_text((double)p->step / (double)p->steps).text,
                      duration_text(p->seconds_left).text, losses_text(p).text,
                      error_text("error", p->train_error).text, p->images_per_second);
    }
    return interrupted();
}

static void say(void *context, const char *text) {
    view *v = context;
    if (!v->quiet) progress_say(&v->line, "train", text);
}

/* ---- The folder --------------------------------------------------------------------------- */

/* Makes the first of ole-run, ole-run-2, ... that is not there yet; the exit code. */
static int make_folder(char name[PATH]) {
    if (ole_ranks_launched()) {
        if (ole_ranks_launched_rank() == 0)
            fail_command("train",
                         "missing option --out: ranks that train together need a run folder, "
                         "such as runs/first");
        return EXIT_USAGE;
    }
    snprintf(name, PATH, "ole-run");
    for (int k = 2; mkdir(name, 0777) != 0; k++) {
        if (errno != EEXIST)
            return fail_command("train", "%s: cannot create the folder: %s; --out names another",
                                name, strerror(errno));
        snprintf(name, PATH, "ole-run-%d", k);
    }
    return EXIT_DONE;
}

/* ---- The page ----------------------------------------------------------------------------- */

/*
 * out/report.html of the run, or of the seeds side by side; false without one, after a message. The
 * model in memory is that of the last epoch: where an earlier one is better, its file is read.
 */
static bool write_page(const ole_train_options *o, const ole_train_summary *summary,
                       char path[PATH]) {
    progress line = progress_start();
    ole_report_options options;
    ole_report_options_init(&options);
    options.out = path;
    options.maps = 1;
    options.threads = o->threads > 0 ? o->threads : default_threads();
    options.device = o->device;
    if (o->model && (summary->best_epoch == 0 || summary->best_epoch == summary->epochs))
        options.model = *o->model;
    options.callback = progress_stoppable;
    options.callback_context = &line;
    ole_report report = {0};
    ole_error error;
    snprintf(path, PATH, "%s/report.html", o->out);
    bool good = own_file_ready(path, true, &error) &&
                ole_report_run(&report, &o->out, 1, &options, &error) == OLE_OK;
    progress_clear(&line);
    if (!good || report.interrupted)
        fail_command("train", "the run is complete but has no page: %s; 'ole report' writes it",
                     good ? "interrupted" : error.message);
    for (int i = 0; i < report.count; i++)
        if (report.runs[i].changed) tell_data_changed("train", report.runs[i].data);
    good = good && !report.interrupted;
    ole_report_free(&report);
    return good;
}

/* ---- What next ---------------------------------------------------------------------------- */

static int is_shown(const struct dirent *entry) {
    return entry->d_name[0] != '.';
}

/* The first image of a folder of classes, by name, in `path`, which holds the folder. */
static bool find_image(char path[PATH], int depth) {
    struct dirent **entries;
    size_t length = strlen(path);
    bool found = false;
    int count = depth > 0 ? scandir(path, &entries, is_shown, alphasort) : -1;
    for (int i = 0; i < count; i++) {
        const char *name = entries[i]->d_name;
        if (!found && snprintf(path + length, PATH - length, "/%s", name) < (int)(PATH - length))
            found = ole_image_has_name(name) || find_image(path, depth - 1);
        free(entries[i]);
    }
    if (count >= 0) free(entries);
    if (!found) path[length] = '\0';
    return found;
}

enum { NEXT = 2 };

/* What one does with a model: labels a sample of the data, or judges the model where these are in
 * no files of their own; and exports it. */
static void next_commands(const ole_train_options *o, char *commands[NEXT]) {
    char run[PATH], path[PATH], *comma;
    bool folder = strncmp(o->data, "folder:", 7) == 0, npy = strncmp(o->data, "npy:", 4) == 0;
    snprintf(run, sizeof run, "%s", o->out);
    if (o->seeds > 1) snprintf(run, sizeof run, "%.4000s/seed-%" PRIu64, o->out, o->seed);
    snprintf(path, sizeof path, "%s", strchr(o->data, ':') ? strchr(o->data, ':') + 1 : "");
    comma = strchr(path, ',');
    if (npy && comma) *comma = '\0';
    /* A table that holds the labels too is no input of `ole predict`. */
    size_t file = strcspn(path, ":");
    bool table = npy && comma && file >= 4 && strncmp(path + file - 4, ".csv", 4) == 0 &&
                 strncmp(path, comma + 1, file) == 0;
    bool labels =
        !table && (o->loss & OLE_LOSS_CLASSIFIERS) && (npy || (folder && find_image(path, 3)));
    commands[0] = next_command(labels ? "predict" : "eval", run, "", labels ? path : o->data);
    snprintf(path, sizeof path, "%.4000s/model.onnx", run);
    commands[1] = next_command("export", run, "--onnx ", path);
}

/* ---- The result --------------------------------------------------------------------------- */

/*
 * The model that `ole predict` uses, to tell its threshold: that in memory, where it is the best,
 * or read into *read, to be freed.  NULL without one.
 */
static const ole_model_info *find_model(const ole_train_options *o, const ole_train_summary *r,
                                        ole_model **read) {
    *read = NULL;
    if (r->interrupted || o->seeds > 1 || !(o->loss & OLE_LOSS_CLASSIFIERS) || !o->unknown)
        return NULL;
    bool latest = !o->resume && (r->best_epoch == 0 || r->best_epoch == r->epochs);
    if (o->model && *o->model && latest) /* a resumed run may have a threshold of its own */
        return ole_model_get_info(*o->model);
    if (!o->out || ole_model_load(read, o->out, 1, NULL) != OLE_OK) return NULL;
    return ole_model_get_info(*read);
}

static void json_threshold(ole_json *w, const ole_model_info *model) {
    bool stored = model->threshold_score != OLE_SCORE_NONE;
    ole_json_object(w, "unknown", J("threshold", stored ? model->threshold : (double)NAN),
                    J("score", ole_score_name(model->threshold_score)),
                    J("temperature", model->temperature),
                    J("from", ole_threshold_source_name(model->threshold_from)),
                    J("samples", model->threshold_samples));
}

static void print_threshold(const ole_model_info *model) {
    const ole_short_text words = ole_threshold_words(model);
    const char *caution = ole_threshold_caution(model);
    if (model->threshold_score == OLE_SCORE_NONE)
        printf("%-18s %s\n", "unknown", words.text);
    else
        printf("%-18s under %.4f: %s\n", "unknown", model->threshold, words.text);
    if (caution) printf("%-18s (%s)\n", "", caution);
}

static void print_json(const train_setup *s, const ole_train_summary *r,
                       const ole_model_info *model, const char *page, char *const next[NEXT]) {
    bool several = s->options.seeds > 1;
    ole_json w = ole_json_begin(stdout, 2, '{');
    ole_json_put(&w, J("out", s->options.out), J("interrupted", r->interrupted), J("runs", r->runs),
                 J("epochs", r->epochs));
    json_spread(&w, "test_error", r->test_error, r->test_error_std, several);
    json_spread(&w, "validation_error", r->validation_error, r->validation_error_std, several);
    json_spread(&w, "knn1_error", r->knn1_error, r->knn1_error_std, several);
    if (r->best_epoch > 0)
        ole_json_put(&w, J("best_epoch", r->best_epoch), J("best_validation_error", r->best_error),
                     J("last_test_error", r->last_test_error),
                     J("last_validation_error", r->last_validation_error));
    if (model) json_threshold(&w, model);
    ole_json_number(&w, "seconds", r->seconds);
    if (page) ole_json_string(&w, "report", page);
    ole_json_open(&w, "next", '[');
    for (int i = 0; i < NEXT && !r->interrupted; i++)
        if (next[i]) ole_json_string(&w, NULL, next[i]);
    ole_json_close(&w);
    ole_json_close(&w);
}

static void print_error_row(const char *name, double mean, double deviation) {
    if (!isfinite(mean)) return;
    printf("%-18s %.2f%s %%\n", name, mean,
           isfinite(deviation) ? ole_printed(" ± %.2f", deviation).text : "");
}

static void print_text(const train_setup *s, const ole_train_summary *r,
                       const ole_model_info *model, const char *page, char *const next[NEXT]) {
    print_error_row("test error", r->test_error, r->test_error_std);
    print_error_row("validation error", r->validation_error, r->validation_error_std);
    print_error_row("1-NN error", r->knn1_error, r->knn1_error_std);
    if (r->best_epoch > 0) {
        printf("%-18s epoch %" PRId64 " of %" PRId64 ", for predict and eval\n", "best model",
               r->best_epoch, r->epochs);
        if (r->best_epoch != r->epochs)
            printf("%-18s %svalidation %.2f %%\n", "last epoch",
                   error_text("test", r->last_test_error).text, r->last_validation_error);
    }
    if (model) print_threshold(model);
    if (s->options.seeds > 1) printf("%-18s %" PRId64 "\n", "runs", r->runs);
    print_lines("%-18s %s\n", s->options.seeds > 1 ? "run folders in" : "run folder",
                s->options.out);
    if (page) print_lines("%-18s %s\n", "report", page);
    for (int i = 0; i < NEXT; i++)
        if (next[i]) print_lines("%-18s %s\n", i == 0 ? "what next" : "", next[i]);
}

/* Prints the result; the exit code. */
static int conclude(const train_setup *s, const flags *f, const view *v,
                    const ole_train_summary *summary) {
    if (summary->interrupted)
        tell_resume("train",
                    ole_printed("after epoch %" PRId64 ", step %" PRId64, v->epoch, v->step).text,
                    s->options.out);
    char path[PATH];
    bool wanted = !f->no_report && !summary->interrupted && s->options.out;
    const char *page = wanted && write_page(&s->options, summary, path) ? path : NULL;
    char *next[NEXT];
    next_commands(&s->options, next);
    ole_model *read;
    const ole_model_info *model = find_model(&s->options, summary, &read);
    if (f->json)
        print_json(s, summary, model, page, next);
    else if (!summary->interrupted)
        print_text(s, summary, model, page, next);
    ole_model_free(read);
    for (int i = 0; i < NEXT; i++)
        free(next[i]);
    bool lacks_page = wanted && !page;
    if (summary->interrupted || (lacks_page && interrupted())) return EXIT_INTERRUPTED;
    return lacks_page ? EXIT_FAILED : EXIT_DONE;
}

/* On multiple ranks, rank 0 prints; an error may be one rank's alone. */
static int train(train_setup *s, const flags *f) {
    view v = {.line = progress_start(), .setup = s, .folder = f->made};
    ole_ranks *ranks;
    if (!launch_join("train", s->options.out, &ranks)) return EXIT_FAILED;
    v.quiet = !launch_prints(ranks);
    if (!f->no_report) v.out = s->options.out;
    v.page_due = ole_clock() + PAUSE;
    s->options.ranks = ranks;
    s->options.callback = show;
    s->options.message = say;
    s->options.callback_context = &v;
    catch_interrupts();
    ole_train_summary summary;
    ole_error error;
    ole_model *model = NULL;
    if (!v.quiet && !f->no_report && s->options.seeds == 1) s->options.model = &model;
    if (!v.quiet) progress_wait(&v.line, "preparing");
    ole_status status = ole_train(&s->options, &summary, &error);
    progress_clear(&v.line);
    if (status != OLE_OK) {
        if (v.has_page) write_page_so_far(&v, 0);
        if (!v.quiet) fail_command("train", "%s", error.message);
        ole_ranks_fail(ranks, error.message); /* the others may end once they hear of it */
        return exit_code(status);
    }
    int code = summary.interrupted ? EXIT_INTERRUPTED : EXIT_DONE;
    if (!v.quiet) code = conclude(s, f, &v, &summary);
    if (v.has_page && code != EXIT_DONE) write_page_so_far(&v, 0);
    ole_model_free(model);
    return launch_leave(ranks, code);
}

/* Without --out, trains in a new folder, which is removed if training fails before it begins. */
static int train_in_new(train_setup *s, flags *f) {
    char name[PATH];
    int code = make_folder(name);
    if (code != EXIT_DONE) return code;
    s->options.out = f->made = name;
    code = train(s, f);
    s->options.out = f->made = NULL;
    if (code != EXIT_DONE) rmdir(name); /* where it is empty */
    return code;
}

int run_train(int argc, char **argv) {
    flags f = {.train = {.command = "train", .calibrates = true}};
    train_setup s;
    int code;
    if (!parse(&f, argc, argv, &code)) return code;
    if (!train_flags_read(&f.train, &s))
        code = EXIT_USAGE;
    else
        code = s.options.out ? train(&s, &f) : train_in_new(&s, &f);
    train_setup_free(&s);
    return code;
}
