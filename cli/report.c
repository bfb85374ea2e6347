/*
 * cli/report.c - `ole report`: the page of a run folder, or of several side by side.
 */
#include "report.h"

#include "commands.h"

#include <ole/json.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

const char report_summary[] = "the page of a run, or of several side by side";

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
        ole_json_number(&w, "test_error", run_test_error(run));
        ole_json_number(&w, "knn1_error", run->history.knn1_error);
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

static void print_text(const report *r) {
    for (int i = 0; i < r->count; i++) {
        const run_view *run = &r->runs[i];
        double error = run_test_error(run);
        printf("%-24s", run->folder);
        if (isfinite(error)) printf(" test error %.2f %%", error);
        if (run->view.measured)
            printf("  angles %.1f within, %.1f between classes", run->view.angles.within.mean,
                   run->view.angles.between.mean);
        printf("\n");
        if (run->without[0])
            fprintf(stderr, "ole report: %s: without its model: %s\n", run->folder, run->without);
    }
    printf("page: %s\n", r->out);
}

/* `folders` has room for argc of them. */
static bool parse(report *r, bool *json, const char **folders, int argc, char **argv, int *code) {
    bool no_map = false;
    const arg_positional positionals[] = {{"RUN", folders, "folders of 'ole train'"}, {0}};
    const arg_option options[] = {
        {"out", ARG_STRING, &r->out, "PAGE.html",
         .help = "the page (default RUN/report.html; of several runs report.html)"},
        {"no-tsne", ARG_FLAG, .to = &no_map, .help = "no map of the features"},
        {"threads", ARG_INTEGER, &r->threads, "N", .help = "threads (default: all processors)",
         .min = 1, .max = 1024},
        {"json", ARG_FLAG, .to = json, .help = "print JSON"},
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
    char path[4096];
    ole_error error = {.message = ""};
    snprintf(path, sizeof path, "%s/report.html", r->folders[0]);
    if (!r->out) r->out = r->count == 1 ? path : "report.html";
    catch_interrupts();
    bool good = report_make(r, &error);
    if (good) (json ? print_json : print_text)(r);
    report_free(r);
    if (good) return EXIT_DONE;
    return interrupted() ? EXIT_INTERRUPTED : fail_command("report", "%s", error.message);
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
