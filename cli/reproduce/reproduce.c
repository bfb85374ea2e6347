/*
 * cli/reproduce/reproduce.c - `ole reproduce`: the paper's table rows and figures, each from its
 * recipe.
 */
#include "reproduce/reproduce.h"

#include "commands.h"
#include "common/common.h"
#include "common/launch.h"
#include "common/outputs.h"
#include "common/study_command.h"

#include "formats/json.h"
#include <ole/train/data.h>

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

const char reproduce_summary[] = "the paper's table rows and figures, from their recipes";

typedef struct arguments {
    const char **names;
    int count;
    reproduction how;
    bool list, dry_run, print, json;
} arguments;

/* ---- The command line --------------------------------------------------------------------- */

static bool parse(arguments *a, int argc, char **argv, int *code) {
    const arg_positional positionals[] = {
        {"ROW", a->names, "names of --list, or a recipe's file, as mine.yaml"}, {0}};
    const ole_option options[] = {
        {"list", OLE_SWITCH, .to = &a->list,
         .help = "what there is: data, time, what the paper has"},
        {"dry-run", OLE_SWITCH, .to = &a->dry_run,
         .help = "show the runs and how long they take here"},
        {"print", OLE_SWITCH, .to = &a->print, .help = "print the recipe"},
        {"seeds", OLE_INTEGER, &a->how.seeds, "K",
         .help = "runs of each kind (default: as in the recipe, 5)", .min = 1, .max = 100000},
        {"device", OLE_TEXT, &a->how.device, "auto|cpu|cuda[:i]",
         .help = "where it runs (default auto)"},
        {"precision", OLE_TEXT, &a->how.precision, "fp32|tf32|bf16",
         .help = "of tensors (default fp32); said in the results"},
        {"out", OLE_TEXT, &a->how.out, "FOLDER",
         .help = "of runs and results (default reproduced; of --quick reproduced-quick)"},
        {"epochs", OLE_INTEGER, &a->how.epochs, "N",
         .help = "fewer than the paper has; said in the results", .min = 1, .max = 100000},
        {"eval-every", OLE_INTEGER, &a->how.eval_every, "N",
         .help =
             "epochs between evaluations; curves have fewer points (default: as in the recipe, 1)",
         .min = 1, .max = 100000},
        {"quick", OLE_SWITCH, .to = &a->how.quick,
         .help = "2 epochs, a few samples, 1 seed: to see that all works"},
        {"jobs", OLE_INTEGER, &a->how.jobs, "J",
         .help = "runs at once (default: the seeds on a GPU, else 1)", .min = 1, .max = 1024},
        {"threads", OLE_INTEGER, &a->how.threads, "N", .help = "threads (default: all processors)",
         .min = 1, .max = 1024},
        {"json", OLE_SWITCH, .to = &a->json,
         .help = "print JSON: results.json, the list or the plan"},
        {0},
    };
    const arg_command command = {
        .name = "reproduce",
        .summary = reproduce_summary,
        .example = "  $ ole reproduce --list\n"
                   "  $ ole reproduce stl10+-cnn5 fig5 --precision bf16\n"
                   "  $ ole reproduce cifar10-vgg16 fig1 fig7 --seeds 3 --device cuda\n"
                   "  $ ole reproduce fig2-faces --quick\n",
        .about =
            "Makes the runs of the paper's rows and figures, with softmax and with OLE, by the\n"
            "paper's protocol; prints the paper's numbers beside ours, and adds them to\n"
            "results.json, results.md and report.html in the folder, which are written anew\n"
            "after each run. Ctrl-C saves; the same command goes on. lambda is the paper's;\n"
            "errors are those at the end of training.\n",
        .positionals = positionals,
        .none_will_do = true,
        .many = &a->count,
        .options = options,
    };
    if (!args_parse(&command, argc, argv, code)) return false;
    *code = EXIT_USAGE;
    if (a->count == 0 && !a->list) {
        fail_command("reproduce", "ROW is missing: 'ole reproduce --list' shows them");
        return false;
    }
    if (a->count > ROW_MOST) {
        fail_command("reproduce", "%d rows: give %d at most", a->count, ROW_MOST);
        return false;
    }
    if (!a->how.out) a->how.out = a->how.quick ? "reproduced-quick" : "reproduced";
    return true;
}

/* ---- The list ----------------------------------------------------------------------------- */

static const char *paper_text(const paper *p, char out[256]) {
    char softmax[NUMBER_ROOM], ole[NUMBER_ROOM];
    if (isfinite(p->reported[SOFTMAX].mean))
        snprintf(out, 256, "%s: softmax %s %%, with OLÉ %s %%", p->measure ? p->measure : "",
                 number_text(p->reported[SOFTMAX], softmax),
                 number_text(p->reported[WITH_OLE], ole));
    else
        snprintf(out, 256, "%s", p->reports ? p->reports : "no numbers");
    return out;
}

/* How to come by data that are not here. */
static const char *getting_text(const row *r, const char *data, char out[600]) {
    if (r->runs->needs)
        snprintf(out, 600, "it needs %.500s", r->asked.needs ? r->asked.needs : r->runs->needs);
    else
        snprintf(out, 600, "'ole data get %.100s'", data);
    return out;
}

/* `part`: of the data that are here. */
static void list_json(const row *r, ole_json *w, const char *data, bool here, const char *part) {
    const paper *p = &r->asked;
    char reports[256];
    ole_json_open(w, NULL, '{');
    ole_json_string(w, "name", p->name);
    ole_json_string(w, "shows", p->shows);
    ole_json_string(w, "title", p->title);
    ole_json_string(w, "data", data);
    ole_json_bool(w, "here", here);
    ole_json_string(w, "part", part);
    ole_json_string(w, "net", r->train.net);
    ole_json_number(w, "lambda", r->train.lambda);
    ole_json_integer(w, "epochs", r->train.epochs);
    ole_json_integer(w, "batch_size", r->train.batch_size);
    ole_json_string(w, "opt", r->train.opt ? r->train.opt : "sgd");
    ole_json_number(w, "lr", r->train.lr);
    ole_json_number(w, "weight_decay", r->train.weight_decay);
    ole_json_string(w, "augment", r->train.augment ? r->train.augment : "");
    ole_json_string(w, "init", r->train.init ? r->train.init : "");
    ole_json_integer(w, "seeds", r->train.seeds);
    ole_json_integer(w, "runs", row_count_runs(r));
    ole_json_number(w, "minutes_a_run", r->runs->minutes);
    ole_json_number(w, "softmax", p->reported[SOFTMAX].mean);
    ole_json_number(w, "softmax_std", p->reported[SOFTMAX].std);
    ole_json_number(w, "ole", p->reported[WITH_OLE].mean);
    ole_json_number(w, "ole_std", p->reported[WITH_OLE].std);
    ole_json_string(w, "paper", paper_text(p, reports));
    ole_json_close(w);
}

static void list_text(const row *r, const char *data, bool here, const char *part) {
    const paper *p = &r->asked;
    char getting[600], reports[256], time[USUAL_ROOM];
    print_lines("%s\n    %s: %s\n    paper  %s\n    data   %s, %s%s%s\n    time   %" PRId64
                " runs%s%s%s\n\n",
                p->name, p->shows, p->title, paper_text(p, reports), data,
                !here   ? "not here: "
                : *part ? "here: "
                        : "here",
                here ? "" : getting_text(r, data, getting), part, row_count_runs(r),
                row_usual_time(r, time), p->from ? ", shared with " : "", p->from ? p->from : "");
}

/* All, or those named. */
static int list(const arguments *a) {
    ole_json w;
    int count = a->count > 0 ? a->count : paper_count();
    ole_json_init(&w, stdout, 2);
    if (a->json) ole_json_open(&w, NULL, '[');
    for (int i = 0; i < count; i++) {
        row r;
        bool good = row_open(&r, a->count > 0 ? a->names[i] : paper_name(i), &a->how);
        const char *data = good ? r.train.data : NULL;
        char why[600], part[PART_ROOM] = "";
        bool here = good && row_locate(&r, why);
        if (here) row_part(&r, part);
        if (good && a->json)
            list_json(&r, &w, data, here, part);
        else if (good)
            list_text(&r, data, here, part);
        row_close(&r);
        if (!good) return EXIT_USAGE;
    }
    if (a->json) ole_json_close(&w);
    return EXIT_DONE;
}

/* ---- A row -------------------------------------------------------------------------------- */

/* What the callbacks of a study need; the view is their first part. */
typedef struct work {
    study_view view;
    const char *out;
    const row *row;
} work;

/* After each run the page is made anew. */
static bool show(void *context, const ole_study_progress *p) {
    work *w = context;
    if (!p->train && !w->view.quiet && row_note_samples(w->row, default_threads()))
        write_results(w->out);
    return study_show(&w->view, p);
}

static bool put_recipe(const char *folder, const paper *p) {
    char path[ROW_PATH];
    join_path(path, folder, "recipe.yaml");
    return make_folders(folder) && put_file(path, p->text, strlen(p->text));
}

/* Looks at what was trained, where the recipe asks for that. */
static bool look(const row *r, int threads) {
    switch (r->asked.kind) {
    case PAPER_NOVELTY:
        return look_at_novelty(r, threads);
    case PAPER_CURVES:
        return look_at_curves(r);
    default:
        return !r->asked.draw || look_at_features(r, threads);
    }
}

/* Whether its runs could begin or go on, by all ranks; nothing is written. */
static int check_row(const row *r, const reproduction *how) {
    ole_study_options options = row_study(r);
    ole_study_result result = {0};
    ole_error error;
    options.check = true;
    options.ranks = how->ranks;
    ole_status status = row_conduct(r, &options, &result, &error);
    if (status == OLE_OK) ole_study_result_free(&result);
    if (status != OLE_OK && launch_prints(how->ranks))
        fail_command("reproduce", "%s: %s", r->asked.name, error.message);
    return exit_code(status);
}

/* The runs, by all ranks; the code, or EXIT_DONE and whether it was stopped. */
static int conduct_row(row *r, const reproduction *how, bool *stopped) {
    bool prints = launch_prints(how->ranks);
    work w = {{"reproduce", progress_start(), .quiet = !prints}, how->out, r};
    ole_study_options options = row_study(r);
    ole_study_result result = {0};
    ole_error error;
    options.jobs = how->jobs;
    options.ranks = how->ranks;
    options.callback = show;
    options.message = study_say;
    options.callback_context = &w;
    if (prints) progress_wait(&w.view.line, "preparing");
    ole_status status = row_conduct(r, &options, &result, &error);
    progress_clear(&w.view.line);
    if (status != OLE_OK) {
        if (prints) fail_command("reproduce", "%s", error.message);
        return exit_code(status);
    }
    *stopped = result.interrupted;
    ole_study_result_free(&result);
    return EXIT_DONE;
}

/* What the runs show, by rank 0. */
static int conclude_row(const row *r, const reproduction *how, bool stopped) {
    int threads = how->threads > 0 ? how->threads : default_threads();
    bool own = r->runs == &r->asked, good = own || put_recipe(r->folder, &r->asked);
    if (own) row_note_samples(r, threads); /* a stop may have come before the last run's */
    good = good && (stopped || look(r, threads));
    good = write_results(how->out) && good;
    if (stopped || interrupted()) return EXIT_INTERRUPTED;
    return good ? EXIT_DONE : EXIT_FAILED;
}

static void name_row(const row *r) {
    fprintf(stderr, "ole reproduce: ");
    print_name(stderr, r->asked.name);
    fprintf(stderr, ", ");
    print_name(stderr, r->asked.shows);
    fprintf(stderr, ": ");
    print_name(stderr, r->asked.title);
}

/* What comes, and how long it takes: here, and where runs are whole on an H200. */
static row_time announce_row(const row *r, const reproduction *how) {
    progress line = progress_start();
    char time[32], part[PART_ROOM];
    row_part(r, part);
    progress_wait(&line, "timing a few steps");
    row_time left = row_time_left(r);
    progress_clear(&line);
    bool whole = !how->quick && how->epochs <= 0 && r->runs->minutes > 0.0;
    name_row(r);
    fprintf(stderr, "; %" PRId64 " run%s to make", left.runs, left.runs == 1 ? "" : "s");
    bool here = left.runs > 0 && isfinite(left.seconds), there = left.runs > 0 && whole;
    if (here) fprintf(stderr, ", about %s here", duration_text(left.seconds, time));
    if (there)
        fprintf(stderr, ", about %s on an H200 in bf16",
                duration_text(60.0 * r->runs->minutes * (double)left.runs, time));
    fprintf(stderr, (here || there) && left.runs > 1 ? ", one after the other\n" : "\n");
    if (*part)
        tell_command("reproduce", "%s: the data here are a part of what is published: %s",
                     r->asked.name, part);
    return left;
}

/* All rows, before the first run. */
static void announce_all(const arguments *a, row *rows) {
    double seconds = 0.0;
    int timed = 0;
    char time[32];
    for (int i = 0; i < a->count && !interrupted(); i++) {
        if (row_with_runs(rows, a->count, &rows[i]) != &rows[i]) continue;
        seconds += announce_row(&rows[i], &a->how).seconds;
        timed++;
    }
    if (timed > 1 && isfinite(seconds))
        fprintf(stderr, "ole reproduce: about %s here in all\n", duration_text(seconds, time));
}

/* Where runs that are there go before what was asked for. */
static void tell_kept(const row *r, const reproduction *how) {
    if (how->seeds > 0 && how->seeds < r->train.seeds)
        tell_command("reproduce",
                     "%s: %" PRId64
                     " seeds were begun, and are gone on with; another --out begins with %d",
                     r->asked.name, r->train.seeds, how->seeds);
    if (r->config && how->epochs > 0 && how->epochs != r->train.epochs)
        tell_command("reproduce",
                     "%s: the runs that are there are shown, of %" PRId64
                     " epochs; another --out makes some of %d",
                     r->asked.name, r->train.epochs, how->epochs);
    const char *precision = r->train.precision ? r->train.precision : "fp32";
    if (r->config && how->precision && strcmp(how->precision, precision) != 0)
        tell_command("reproduce",
                     "%s: the runs that are there are shown, in %s; another --out makes some in %s",
                     r->asked.name, precision, how->precision);
}

static int run_row(row *r, const reproduction *how) {
    bool prints = launch_prints(how->ranks), stopped = false;
    if (prints) tell_kept(r, how);
    int code = conduct_row(r, how, &stopped);
    if (code != EXIT_DONE) return code;
    code = prints ? conclude_row(r, how, stopped) : stopped ? EXIT_INTERRUPTED : EXIT_DONE;
    if (!launch_go_on(how->ranks, code == EXIT_DONE) && code == EXIT_DONE) code = EXIT_FAILED;
    return code;
}

/* ---- All of them -------------------------------------------------------------------------- */

/* Learning curves of runs that are all there are drawn from their metrics. */
static bool needs_no_data(const row *r) {
    return r->asked.kind == PAPER_CURVES && row_is_whole(r);
}

/* Whether what will be written into the folders replaces nothing of others, nor goes elsewhere;
 * else says why. */
static bool are_ours(const char *out, const row *rows, int count) {
    static const char *const results[] = {"results.json", "results.md", NULL};
    ole_error error;
    bool good = own_files_ready(out, "report.html", results, &error);
    for (int i = 0; i < count && good; i++) {
        char figures[ROW_PATH];
        struct stat about;
        const char *folders[] = {rows[i].folder, figures};
        join_path(figures, rows[i].folder, "figures");
        for (int k = 0; k < 2 && good; k++) {
            good = lstat(folders[k], &about) != 0 || S_ISDIR(about.st_mode);
            if (!good)
                snprintf(error.message, sizeof error.message,
                         "%.400s: not a folder, or a link to one; remove it", folders[k]);
        }
        join_path(figures, rows[i].folder, "figures.html");
        good = good && own_file_ready(figures, true, &error);
    }
    if (!good) fail_command("reproduce", "%s", error.message);
    return good;
}

/* Mistakes and missing data are found before the first run of the first row. */
static int open_all(const arguments *a, row *rows) {
    for (int i = 0; i < a->count; i++) {
        if (!row_open(&rows[i], a->names[i], &a->how)) return EXIT_USAGE;
        for (int k = 0; k < i; k++)
            if (strcmp(rows[k].asked.name, rows[i].asked.name) == 0) {
                fail_command("reproduce", "two rows are called %s: give one of them",
                             rows[i].asked.name);
                return EXIT_USAGE;
            }
    }
    for (int i = 0; i < a->count; i++) {
        char why[600];
        for (int k = 0; k < a->count; k++)
            if (rows[i].asked.from && !rows[k].asked.from &&
                strcmp(rows[i].runs_folder, rows[k].folder) == 0)
                row_share(&rows[i], &rows[k]);
        a->names[i] = rows[i].asked.name; /* of a file: what it is called in the folder */
        if (a->dry_run || a->print || needs_no_data(&rows[i])) continue;
        if (!row_locate(&rows[i], why) || !check_novel(&rows[i], default_threads(), why))
            return fail_command("reproduce", "%s", why);
    }
    bool writes = !a->dry_run && !a->print;
    return !writes || are_ours(a->how.out, rows, a->count) ? EXIT_DONE : EXIT_FAILED;
}

/* So are nets, options and folders that do not fit. */
static int check_all(const arguments *a, row *rows) {
    int code = EXIT_DONE;
    for (int i = 0; i < a->count && code == EXIT_DONE; i++)
        if (row_with_runs(rows, a->count, &rows[i]) == &rows[i])
            code = check_row(&rows[i], &a->how);
    return code;
}

/* What is printed at the end. */
static int conclude(const arguments *a, int code) {
    if (code == EXIT_INTERRUPTED)
        fprintf(stderr, "ole reproduce: stopped, and saved in %s; the same command goes on\n",
                a->how.out);
    if (code == EXIT_DONE && a->json) return study_print_json("reproduce", a->how.out);
    if (code == EXIT_DONE) {
        print_results(a->how.out, a->names, a->count);
        printf("\n%-12s %s/report.html\n%-12s %s/results.md\n", "report", a->how.out, "table",
               a->how.out);
    }
    return code;
}

static int run_all(arguments *a, row *rows) {
    int code;
    if (!launch_join("reproduce", a->how.out, &a->how.ranks)) return EXIT_FAILED;
    catch_interrupts();
    code = check_all(a, rows);
    if (code == EXIT_DONE && launch_prints(a->how.ranks)) announce_all(a, rows);
    for (int i = 0; i < a->count && code == EXIT_DONE; i++) {
        if (a->count > 1 && launch_prints(a->how.ranks)) {
            name_row(&rows[i]);
            fprintf(stderr, "\n");
        }
        code = run_row(&rows[i], &a->how);
    }
    if (launch_prints(a->how.ranks)) code = conclude(a, code);
    return launch_leave(a->how.ranks, code);
}

static int reproduce(arguments *a) {
    row *rows = calloc((size_t)a->count, sizeof *rows);
    if (!rows) return fail_command("reproduce", "out of memory");
    int code = open_all(a, rows);
    if (code == EXIT_DONE && a->print)
        for (int i = 0; i < a->count; i++)
            print_lines("%s", rows[i].asked.text);
    else if (code == EXIT_DONE && a->dry_run)
        code = plan_rows(rows, a->count, a->json) ? EXIT_DONE : EXIT_FAILED;
    else if (code == EXIT_DONE)
        code = run_all(a, rows);
    for (int i = 0; i < a->count; i++)
        row_close(&rows[i]);
    free(rows);
    return code;
}

int run_reproduce(int argc, char **argv) {
    arguments a = {.names = calloc((size_t)argc + 1, sizeof *a.names)};
    int code;
    if (!a.names) return fail_command("reproduce", "out of memory");
    if (parse(&a, argc, argv, &code)) code = a.list ? list(&a) : reproduce(&a);
    free(a.names);
    return code;
}
