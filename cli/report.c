/*
 * cli/report.c - `ole report`: the page of a run folder, or of several side by side.
 */
#include "pages/report.h"

#include "commands.h"
#include "common/common.h"
#include "common/outputs.h"

#include "formats/json.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char report_summary[] = "the page of a run, or of several side by side";

/* ---- What is printed ---------------------------------------------------------------------- */

static void print_json(const report *r) {
    ole_json w;
    ole_json_init(&w, stdout, 2);
    ole_json_open(&w, NULL, '{');
    ole_json_string(&w, "page", r->out);
    ole_json_open(&w, "runs", '[');
    for (int i = 0; i < r->count; i++) {
        const run_view *run = &r->runs[i];
        ole_json_open(&w, NULL, '{');
        ole_json_string(&w, "folder", run->folder);
        ole_json_integer(&w, "epochs", run->history.count);
        ole_json_number(&w, "test_error", run_is_tested(run) ? run_error(run) : NAN);
        if (!run_is_tested(run)) ole_json_number(&w, "validation_error", run_error(run));
        ole_json_number(&w, "knn1_error", run->history.knn1_error);
        if (run->without[0]) ole_json_string(&w, "without_model", run->without);
        if (run->view.measured) {
            ole_json_number(&w, "angle_between", run->view.angles.between.mean);
            ole_json_number(&w, "angle_within", run->view.angles.within.mean);
            ole_json_number(&w, "effective_rank", run->view.spectra.all.effective_rank);
        }
        ole_json_close(&w);
    }
    ole_json_close(&w);
    ole_json_close(&w);
}

/* Pairs within classes need two samples of one, pairs between them two classes. */
static void print_angles(const ole_angles *angles) {
    double within = angles->within.mean, between = angles->between.mean;
    if (isfinite(within)) printf("  angles %.1f within", within);
    if (isfinite(between)) printf("%s %.1f between", isfinite(within) ? "," : "  angles", between);
    if (isfinite(within) || isfinite(between)) printf(" classes");
}

static void warn_of_models(const report *r) {
    for (int i = 0; i < r->count; i++)
        if (r->runs[i].without[0])
            tell_command("report", "%s: without its model: %s", r->runs[i].folder,
                         r->runs[i].without);
}

static void print_text(const report *r) {
    for (int i = 0; i < r->count; i++) {
        const run_view *run = &r->runs[i];
        double error = run_error(run);
        print_lines("%-24s", run->folder);
        if (isfinite(error)) printf(" %s %.2f %%", run_error_name(run), error);
        if (run->view.measured) print_angles(&run->view.angles);
        printf("\n");
    }
    print_lines("page: %s\n", r->out);
}

/* ---- The runs ----------------------------------------------------------------------------- */

enum { PATH = 4096 };

static bool is_run(const char *folder) {
    char path[PATH + 16];
    snprintf(path, sizeof path, "%s/metrics.jsonl", folder);
    return access(path, F_OK) == 0;
}

/* Seeds of the recipe in a folder, from *first on; 0 where there is none. */
static int64_t count_seeds(const char *folder, uint64_t *first) {
    char path[PATH];
    ole_train_options options;
    ole_recipe *recipe;
    ole_train_options_init(&options);
    snprintf(path, sizeof path, "%s/config.yaml", folder);
    if (ole_recipe_read(&recipe, path, &options, NULL) != OLE_OK) return 0;
    *first = options.seed;
    ole_recipe_free(recipe);
    return options.seeds;
}

static bool add_folder(report_list *l, const char *folder, ole_error *error) {
    if (l->count == REPORT_MOST_RUNS) {
        snprintf(error->message, sizeof error->message, "a page holds up to %d runs",
                 REPORT_MOST_RUNS);
        return false;
    }
    l->folders[l->count] = strdup(folder);
    if (!l->folders[l->count]) {
        snprintf(error->message, sizeof error->message, "out of memory");
        return false;
    }
    l->count++;
    return true;
}

bool report_list_add(report_list *l, const char *folder, ole_error *error) {
    uint64_t first = 0;
    int before = l->count;
    if (is_run(folder)) return add_folder(l, folder, error);
    int64_t seeds = count_seeds(folder, &first);
    for (int64_t k = 0; k < seeds && (before > 0 || l->count < REPORT_MOST_RUNS); k++) {
        char path[PATH];
        snprintf(path, sizeof path, "%s/seed-%" PRIu64, folder, first + (uint64_t)k);
        if (is_run(path) && !add_folder(l, path, error)) return false;
    }
    if (l->count == before)
        snprintf(error->message, sizeof error->message,
                 "%.400s: there is no run of 'ole train' in it", folder);
    return l->count > before;
}

void report_list_free(report_list *l) {
    for (int i = 0; i < l->count; i++)
        free(l->folders[i]);
    l->count = 0;
}

/* ---- The command line --------------------------------------------------------------------- */

/* `folders` has room for argc of them. */
static bool parse(report *r, bool *json, const char **folders, int argc, char **argv, int *code) {
    bool no_map = false;
    const arg_positional positionals[] = {{"RUN", folders, "folders of 'ole train'"}, {0}};
    const ole_option options[] = {
        {"out", OLE_TEXT, &r->out, "PAGE.html",
         .help = "the page (default RUN/report.html; of several runs report.html)"},
        {"no-tsne", OLE_SWITCH, .to = &no_map, .help = "no map of the features"},
        {"threads", OLE_INTEGER, &r->threads, "N", .help = "threads (default: all processors)",
         .min = 1, .max = 1024},
        {"json", OLE_SWITCH, .to = json, .help = "print JSON"},
        {0},
    };
    const arg_command command = {
        .name = "report",
        .summary = report_summary,
        .example = "  $ ole report runs/first\n"
                   "  $ ole report runs/softmax runs/ole --out comparison.html\n",
        .about =
            "Makes one HTML file that needs nothing else: learning curves, errors, the angles\n"
            "and spectra of the test set's features, the worst mistakes and a t-SNE map.\n",
        .positionals = positionals,
        .many = &r->count,
        .options = options,
    };
    if (!args_parse(&command, argc, argv, code)) return false;
    r->folders = folders;
    r->maps = no_map ? 0 : REPORT_MOST_MAPS;
    *code = EXIT_USAGE;
    if (r->count <= REPORT_MOST_RUNS) return spares_inputs("report", &r->out, 1, folders, r->count);
    fail_command("report", "%d runs: a page holds up to %d", r->count, REPORT_MOST_RUNS);
    return false;
}

static int make(report *r, bool json) {
    char path[PATH];
    report_list list = {.count = 0};
    ole_error error = {.message = ""};
    bool good = true;
    snprintf(path, sizeof path, "%s/report.html", r->folders[0]);
    bool own = !r->out;
    if (own) r->out = r->count == 1 ? path : "report.html";
    if (own) good = own_file_ready(r->out, true, &error);
    for (int i = 0; i < r->count && good; i++)
        good = report_list_add(&list, r->folders[i], &error);
    r->folders = (const char *const *)list.folders;
    r->count = list.count;
    catch_interrupts();
    good = good && report_make(r, &error);
    if (good) (json ? print_json : print_text)(r);
    if (good) warn_of_models(r);
    report_free(r);
    report_list_free(&list);
    if (good) return EXIT_DONE;
    return interrupted() ? end_interrupted("report", "no page was written")
                         : fail_command("report", "%s", error.message);
}

int run_report(int argc, char **argv) {
    report r = {.threads = default_threads()};
    const char **folders = calloc((size_t)argc + 1, sizeof *folders);
    bool json = false;
    int code;
    if (!folders) return fail_command("report", "out of memory");
    if (parse(&r, &json, folders, argc, argv, &code)) code = make(&r, json);
    free(folders);
    return code;
}
