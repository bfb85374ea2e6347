/*
 * cli/report.c - `ole report`: the page of a run folder, of several side by side, or of the file of
 * a model.
 */
#include "commands.h"
#include "common/common.h"
#include "common/outputs.h"
#include "common/progress.h"
#include "common/trained_data.h"

#include "formats/json.h"
#include <ole/train/report.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { PAGE_PATH = 4096 };

const char report_summary[] = "write the page of a run, of several, or of a fitted model";

/* ---- What is printed ---------------------------------------------------------------------- */

static void print_json(const ole_report *r, const char *page, bool lone) {
    ole_json w = ole_json_begin(stdout, 2, '{');
    ole_json_string(&w, "page", page);
    ole_json_open(&w, "runs", '[');
    for (int i = 0; i < r->count; i++) {
        const ole_report_row *run = &r->runs[i];
        ole_json_open(&w, NULL, '{');
        ole_json_put(&w, J("folder", run->folder), J("epochs", run->epochs),
                     J("test_error", run->tested ? run->error : NAN));
        if (!run->tested) ole_json_number(&w, lone ? "error" : "validation_error", run->error);
        ole_json_number(&w, "knn1_error", run->knn1_error);
        if (run->without_model) {
            ole_json_string(&w, "without_model", run->without_model);
        } else {
            ole_json_put(&w, J("angle_between", run->angle_between),
                         J("angle_within", run->angle_within),
                         J("effective_rank", run->effective_rank));
        }
        ole_json_close(&w);
    }
    ole_json_close(&w);
    ole_json_close(&w);
}

/* Pairs within classes need two samples of one, pairs between them two classes. */
static void print_text(const ole_report *r, const char *page, bool lone) {
    for (int i = 0; i < r->count; i++) {
        const ole_report_row *run = &r->runs[i];
        bool within = isfinite(run->angle_within), between = isfinite(run->angle_between);
        print_lines("%-24s", run->folder);
        if (isfinite(run->error))
            printf(" %s %.2f %%",
                   run->tested ? "test error"
                   : lone      ? "error"
                               : "validation error",
                   run->error);
        if (within) printf("  angles %.1f within", run->angle_within);
        if (between) printf("%s %.1f between", within ? "," : "  angles", run->angle_between);
        printf("%s\n", within || between ? " classes" : "");
    }
    print_lines("page: %s\n", page);
}

/* ---- The command line --------------------------------------------------------------------- */

typedef struct arguments {
    const char **folders;
    int count;
    ole_report_options options;
    bool json;
} arguments;

static bool parse(arguments *a, int argc, char **argv, int *code) {
    bool no_map = false;
    ole_report_options_init(&a->options);
    a->options.threads = default_threads();
    const arg_positional positionals[] = {
        {"RUN", a->folders, "run folders of 'ole train', or the file of one model"}, {0}};
    const ole_option options[] = {
        {"out", OLE_TEXT, &a->options.out, "PAGE.html",
         .help = "the page (default RUN/report.html, MODEL.html; report.html for several runs)"},
        {"data", OLE_TEXT, &a->options.data, "DATA",
         .help = "for a model's file: the data to show it on, such as npy:X.npy,y.npy; of four "
                 "files the last two"},
        {"no-tsne", OLE_SWITCH, .to = &no_map, .help = "no map of the features"},
        THREADS_OPTION(&a->options.threads),
        JSON_OPTION(&a->json),
        {0},
    };
    const arg_command command = {
        .name = "report",
        .summary = report_summary,
        .example = "  $ ole report runs/first\n"
                   "  $ ole report runs/softmax runs/ole --out comparison.html\n"
                   "  $ ole report fitted.safetensors --data npy:X.npy,y.npy\n",
        .about = "Writes one self-contained HTML file: learning curves, errors, the angles\n"
                 "and spectra of the test set's features, the worst mistakes and a t-SNE map.\n"
                 "A model of 'ole fit' has no learning curves, but the numbers behind the choice\n"
                 "of its score for unknown.\n",
        .positionals = positionals,
        .many = &a->count,
        .options = options,
    };
    if (!args_parse(&command, argc, argv, code)) return false;
    if (no_map) a->options.maps = 0;
    *code = EXIT_USAGE;
    if (a->count <= OLE_REPORT_RUNS)
        return spares_inputs("report", &a->options.out, 1, a->folders, a->count);
    return refuse("report", "%d runs: a page holds up to %d", a->count, OLE_REPORT_RUNS);
}

/* "runs/first/report.html", or for a model's file its name with .html; false: too long. */
static bool name_page(const char *of, char path[PAGE_PATH]) {
    static const char suffix[] = ".safetensors";
    struct stat about;
    bool folder = stat(of, &about) != 0 || !S_ISREG(about.st_mode);
    size_t length = strlen(of), cut = sizeof suffix - 1;
    if (!folder && length > cut && strcmp(of + length - cut, suffix) == 0) length -= cut;
    int written =
        snprintf(path, PAGE_PATH, "%.*s%s", (int)length, of, folder ? "/report.html" : ".html");
    return written < PAGE_PATH;
}

static int make(arguments *a) {
    char path[PAGE_PATH];
    ole_report_options options = a->options, *o = &options;
    ole_error error;
    if (!o->out) { /* a name of ours */
        if (!name_page(a->folders[0], path))
            return fail_command("report", "%.100s...: the path is too long", a->folders[0]);
        o->out = a->count == 1 ? path : "report.html";
        o->keep_full = true;
        if (!own_file_ready(o->out, true, &error))
            return fail_command("report", "%s", error.message);
    }
    progress line = progress_start();
    o->callback = progress_stoppable;
    o->callback_context = &line;
    catch_interrupts();
    ole_report r;
    ole_status status = ole_report_run(&r, (const char *const *)a->folders, a->count, o, &error);
    progress_clear(&line);
    if (status != OLE_OK) return fail_command("report", "%s", error.message);
    if (r.interrupted) return end_interrupted("report", "no page was written");
    (a->json ? print_json : print_text)(&r, o->out, o->data != NULL);
    for (int i = 0; i < r.count; i++) {
        const ole_report_row *run = &r.runs[i];
        if (run->changed) tell_data_changed("report", run->data);
        if (run->fitted_on) tell_fitted_on("report", run->data);
        if (run->without_model)
            tell_command("report", "%s: without its %s: %s", run->folder,
                         run->without_data ? "data" : "model", run->without_model);
    }
    ole_report_free(&r);
    return EXIT_DONE;
}

int run_report(int argc, char **argv) {
    arguments a = {.folders = (const char **)argv + 1};
    int code;
    return parse(&a, argc, argv, &code) ? make(&a) : code;
}
