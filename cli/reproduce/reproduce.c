/*
 * cli/reproduce/reproduce.c - `ole reproduce`: the command line, and the course of a command.
 *
 * Every mistake is found before the first run: recipes and data (open_rows), then nets, options and
 * folders (a check of each study).  Then row by row: the study, the figures, the results.
 */
#include "reproduce/reproduce.h"

#include "commands.h"
#include "common/common.h"
#include "common/launch.h"
#include "common/outputs.h"
#include "study/by_kind.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

const char reproduce_summary[] = "run the paper's table rows and figures";

typedef struct arguments {
    const char **names; /* with room for all recipes */
    int count;
    int given; /* the others are of a group: one without its data is skipped */
    int skipped;
    reproduction how;
    bool list, dry_run, print, json;
} arguments;

/* ---- The command line --------------------------------------------------------------------- */

static bool parse(arguments *a, int argc, char **argv, int *code) {
    const arg_positional positionals[] = {
        {"ROW", a->names, "names from --list, table2, or a recipe file such as mine.yaml"}, {0}};
    const ole_option options[] = {
        {"list", OLE_SWITCH, .to = &a->list, .heading = "Before running",
         .help = "list the recipes: data, time, the paper's numbers"},
        {"dry-run", OLE_SWITCH, .to = &a->dry_run,
         .help = "show the runs and how long they take here"},
        {"print", OLE_SWITCH, .to = &a->print, .help = "print the recipe"},
        {"seeds", OLE_INTEGER, &a->how.seeds, "K", .heading = "The runs",
         .help = "runs of each kind (default: as in the recipe, 5)", .min = 1, .max = 100000},
        {"device", OLE_TEXT, &a->how.device, "auto|cpu|cuda[:i]",
         .help = "where it runs (default auto)"},
        {"precision", OLE_TEXT, &a->how.precision, "fp32|tf32|bf16",
         .help = "precision of tensors (default fp32); noted in the results"},
        {"out", OLE_TEXT, &a->how.out, "FOLDER",
         .help = "for runs and results (default reproduced; with --quick reproduced-quick)"},
        {"epochs", OLE_INTEGER, &a->how.epochs, "N",
         .help = "fewer than in the paper; noted in the results", .min = 1, .max = 100000},
        {"eval-every", OLE_INTEGER, &a->how.eval_every, "N",
         .help =
             "epochs between evaluations; curves have fewer points (default: as in the recipe, 1)",
         .min = 1, .max = 100000},
        {"quick", OLE_SWITCH, .to = &a->how.quick,
         .help = "2 epochs, a few samples, 1 seed: checks that everything works"},
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
                   "  $ ole reproduce table2 --seeds 3 --device cuda --precision bf16\n"
                   "  $ ole reproduce stl10+-cnn5 fig5 --precision bf16\n"
                   "  $ ole reproduce cifar10-vgg16 fig1 fig7 --seeds 3 --device cuda\n"
                   "  $ ole reproduce fig2-faces --quick\n",
        .about =
            "Makes the runs of the paper's rows and figures, with softmax and with OLE, by the\n"
            "paper's protocol; prints the paper's numbers beside ours, and adds them to\n"
            "results.json, results.md and report.html in the folder, which are rewritten\n"
            "after each run. Ctrl-C saves; the same command resumes. lambda is the paper's;\n"
            "errors are those at the end of training. table2 stands for all rows of the\n"
            "paper's Table 2; those whose data are missing are skipped and named.\n",
        .positionals = positionals,
        .none_will_do = true,
        .many = &a->count,
        .options = options,
    };
    if (!args_parse(&command, argc, argv, code)) return false;
    *code = EXIT_USAGE;
    if (a->count == 0 && !a->list)
        return refuse("reproduce", "missing argument ROW: 'ole reproduce --list' shows them");
    if (a->count > ROW_MOST)
        return refuse("reproduce", "%d rows; the limit is %d", a->count, ROW_MOST);
    if (!a->how.out) a->how.out = a->how.quick ? "reproduced-quick" : "reproduced";
    return true;
}

/* Whether a recipe of the program is a row of Table 2 as it is printed. */
static bool is_of_table(const char *name) {
    static const char table[] = "Table 2, row ";
    recipe r;
    bool is = recipe_open(&r, name) && strncmp(r.shows, table, strlen(table)) == 0 &&
              !strchr(r.shows + strlen(table), ',');
    recipe_close(&r);
    return is;
}

/* Adds the rows that "table2", or --list without names, stands for. */
static void expand(arguments *a) {
    bool all = a->list && a->count == 0, table = false;
    int given = 0;
    for (int i = 0; i < a->count; i++)
        if (strcmp(a->names[i], "table2") == 0)
            table = true;
        else
            a->names[given++] = a->names[i];
    a->count = a->given = given;
    for (int i = 0; i < recipe_count(); i++) {
        bool wanted = all || (table && is_of_table(recipe_name(i)));
        for (int k = 0; k < given; k++)
            wanted &= strcmp(a->names[k], recipe_name(i)) != 0;
        if (wanted) a->names[a->count++] = recipe_name(i);
    }
}

/* ---- Before the runs ---------------------------------------------------------------------- */

/* Whether what will be written replaces no other files and follows no links; else prints why. */
static bool are_ours(const char *out, const row *rows, int count) {
    static const char *const results[] = {"results.json", "results.md", NULL};
    ole_error error;
    bool good = own_files_ready(out, "report.html", results, &error);
    for (const row *r = rows; r < rows + count && good; r++) {
        char path[ROW_PATH];
        good = ole_run_output_folder(path, out, r->asked.name, &error) == OLE_OK &&
               ole_run_output_folder(path, r->folder, "figures", &error) == OLE_OK;
        join_path(path, r->folder, "figures.html");
        good = good && own_file_ready(path, true, &error);
    }
    if (!good) fail_command("reproduce", "%s", error.message);
    return good;
}

/* A figure takes the runs of another row of the command, which must outlive it. */
static void take_runs(row *r, const row *with) {
    r->runs = with->runs;
    r->train = with->train;
    r->as_made = with->as_made;
}

static int open_rows(arguments *a, row *rows) {
    bool writes = !a->list && !a->dry_run && !a->print;
    char why[ROW_WHY];
    int count = 0;
    for (int i = 0; i < a->count; i++) {
        row *r = &rows[count];
        if (!row_open(r, a->names[i], &a->how)) return EXIT_USAGE;
        for (int k = 0; k < count; k++)
            if (strcmp(rows[k].asked.name, r->asked.name) == 0)
                return fail_usage("reproduce", "two rows are called %s; name one of them",
                                  r->asked.name);
        bool skip = writes && i >= a->given && !row_locate(r, why);
        if (skip) tell_command("reproduce", "skipped %s: %s", r->asked.name, row_missing(r, why));
        if (skip) row_close(r);
        count += !skip;
    }
    a->skipped = a->count - count;
    a->count = count;
    if (count == 0)
        return fail_command("reproduce", "the data of every row of Table 2 are missing; 'ole "
                                         "reproduce --list table2' shows them");
    for (int i = 0; i < a->count; i++) {
        row *r = &rows[i];
        for (int k = 0; k < a->count; k++)
            if (!a->list && r->asked.from && !rows[k].asked.from &&
                strcmp(r->runs_folder, rows[k].folder) == 0)
                take_runs(r, &rows[k]);
        a->names[i] = r->asked.name; /* of a file: its name in the folder */
        if (!writes || (r->asked.kind == RECIPE_CURVES && row_is_whole(r)))
            continue; /* curves of finished runs need no data */
        if (!row_locate(r, why) || !check_novel(r, default_threads(), why))
            return fail_command("reproduce", "%s", why);
    }
    return !writes || are_ours(a->how.out, rows, a->count) ? EXIT_DONE : EXIT_FAILED;
}

/* Whether the row's study could begin or resume, on all ranks; nothing is written. */
static int check_row(const row *r, const reproduction *how) {
    ole_study_options options = row_study(r);
    ole_study_result result = {0};
    ole_error error;
    options.check = true;
    options.ranks = how->ranks;
    ole_status status = ole_study_conduct(row_study_kind(r), &options, &result, &error);
    if (status == OLE_OK) ole_study_result_free(&result);
    if (status != OLE_OK && launch_prints(how->ranks))
        fail_command("reproduce", "%s: %s", r->asked.name, error.message);
    return exit_code(status);
}

/* ---- A row -------------------------------------------------------------------------------- */

/* The context of a study's callbacks; study_show() and study_say() take it for the view. */
typedef struct work {
    study_view view;
    const char *out;
    row *row;
} work;

/* An ole_study_callback: rewrites the results after each run. */
static bool show(void *context, const ole_study_progress *p) {
    work *w = context;
    if (!p->train && !w->view.quiet && row_note_samples(w->row, default_threads()))
        write_results(w->out);
    return study_show(&w->view, p);
}

/* Reports where runs in the folder take precedence over the flags. */
static void tell_kept(const row *r, const reproduction *how) {
    const char *name = r->asked.name;
    if (how->seeds > 0 && how->seeds < r->train.seeds)
        tell_command("reproduce", "%s: %" PRId64 " seeds are in progress; for %d use another --out",
                     name, r->train.seeds, how->seeds);
    if (r->as_made && how->epochs > 0 && how->epochs != r->train.epochs)
        tell_command("reproduce",
                     "%s: shows the existing runs of %" PRId64 " epochs; for %d use another --out",
                     name, r->train.epochs, how->epochs);
    if (r->as_made && how->precision && strcmp(how->precision, row_precision(r)) != 0)
        tell_command("reproduce", "%s: shows the existing runs in %s; for %s use another --out",
                     name, row_precision(r), how->precision);
}

/* Measures, draws and writes what the runs show, on rank 0. */
static int conclude_row(row *r, const reproduction *how, bool stopped) {
    int threads = how->threads > 0 ? how->threads : default_threads();
    ole_error error;
    bool good = true;
    if (r->runs == &r->asked) {
        row_note_samples(r, threads); /* a stop may have come before the last run's */
    } else {                          /* a folder without runs: the study has not put it there */
        good = ole_run_make_folder(r->folder, NULL, &error) == OLE_OK &&
               ole_run_put(r->folder, "recipe.yaml", r->asked.text, &error) == OLE_OK;
        if (!good) fail_command("reproduce", "%s", error.message);
    }
    good = good && (stopped || show_runs(r, threads));
    good = write_results(how->out) && good;
    if (stopped || interrupted()) return EXIT_INTERRUPTED;
    return good ? EXIT_DONE : EXIT_FAILED;
}

static int run_row(row *r, const reproduction *how) {
    bool prints = launch_prints(how->ranks);
    work w = {{"reproduce", progress_start(), .quiet = !prints}, how->out, r};
    ole_study_options options = row_study(r);
    ole_study_result result;
    options.jobs = how->jobs;
    options.ranks = how->ranks;
    options.callback = show;
    options.message = study_say;
    options.callback_context = &w;
    if (prints) tell_kept(r, how);
    int code = study_conduct(row_study_kind(r), &options, &result);
    if (code != EXIT_DONE) return code;
    bool stopped = result.interrupted;
    ole_study_result_free(&result);
    code = prints ? conclude_row(r, how, stopped) : stopped ? EXIT_INTERRUPTED : EXIT_DONE;
    if (!launch_go_on(how->ranks, code == EXIT_DONE) && code == EXIT_DONE) code = EXIT_FAILED;
    return code;
}

/* ---- All of them -------------------------------------------------------------------------- */

static int conclude(const arguments *a, int code) {
    const char *out = a->how.out;
    if (code == EXIT_INTERRUPTED)
        fprintf(stderr, "ole reproduce: stopped and saved in %s; the same command resumes\n", out);
    if (code == EXIT_DONE && a->json) return study_print_json("reproduce", out, "results.json");
    if (code == EXIT_DONE) {
        print_results(out, a->names, a->count);
        printf("\n%-12s %s/report.html\n%-12s %s/results.md\n", "report", out, "table", out);
        if (a->skipped > 0)
            printf("%-12s %d of Table 2, whose data are missing: 'ole reproduce --list table2'\n",
                   "skipped", a->skipped);
    }
    return code;
}

static int run_rows(arguments *a, row *rows) {
    int code = EXIT_DONE;
    if (!launch_join("reproduce", a->how.out, &a->how.ranks)) return EXIT_FAILED;
    bool prints = launch_prints(a->how.ranks);
    catch_interrupts();
    for (int i = 0; i < a->count && code == EXIT_DONE; i++)
        if (row_with_runs(rows, a->count, &rows[i]) == &rows[i])
            code = check_row(&rows[i], &a->how);
    if (code == EXIT_DONE && prints) announce_rows(rows, a->count, &a->how);
    for (int i = 0; i < a->count && code == EXIT_DONE; i++) {
        if (a->count > 1 && prints)
            tell_command("reproduce", "%s, %s: %s", rows[i].asked.name, rows[i].asked.shows,
                         rows[i].asked.title);
        code = run_row(&rows[i], &a->how);
    }
    if (prints) code = conclude(a, code);
    return launch_leave(a->how.ranks, code);
}

static int reproduce(arguments *a) {
    int most = a->count;
    row *rows = calloc((size_t)most + 1, sizeof *rows);
    if (!rows) return fail_command("reproduce", "out of memory");
    int code = open_rows(a, rows);
    if (code == EXIT_DONE && a->print)
        for (int i = 0; i < a->count; i++)
            print_lines("%s", rows[i].asked.text);
    else if (code == EXIT_DONE && (a->list || a->dry_run))
        code = plan_rows(rows, a->count, a->list, a->json);
    else if (code == EXIT_DONE)
        code = run_rows(a, rows);
    for (int i = 0; i < most; i++)
        row_close(&rows[i]);
    free(rows);
    return code;
}

int run_reproduce(int argc, char **argv) {
    arguments a = {.names = calloc((size_t)argc + (size_t)recipe_count(), sizeof *a.names)};
    int code;
    if (!a.names) return fail_command("reproduce", "out of memory");
    if (parse(&a, argc, argv, &code)) {
        expand(&a);
        code = reproduce(&a);
    }
    free(a.names);
    return code;
}
