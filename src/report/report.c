/*
 * src/report/report.c - ole_report_run(): finds the runs, measures them and writes their page.
 */
#include "ole/train/report.h"

#include "base/error.h"
#include "base/quote.h"
#include "model/run_folder.h"
#include "report/run_page.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PICTURE = 400 }; /* rows and columns of the picture of angles at most */

void ole_report_options_init(ole_report_options *options) {
    *options = (ole_report_options){
        .struct_size = sizeof *options, .maps = OLE_REPORT_MAPS, .device = "auto"};
}

/* ---- The runs ----------------------------------------------------------------------------- */

static ole_status add_run(ole_report *r, const char *folder, ole_error *error) {
    if (r->count == OLE_REPORT_RUNS)
        return ole_fail(error, OLE_ERROR_ARGUMENT, "a page holds up to %d runs", OLE_REPORT_RUNS);
    r->runs[r->count].folder = strdup(folder);
    if (!r->runs[r->count].folder) return ole_fail(error, OLE_ERROR_MEMORY, "out of memory");
    r->count++;
    return OLE_OK;
}

/* The number of seeds that the recipe in a folder names, from *first on; 0 without a recipe. */
static int64_t count_seeds(const char *folder, uint64_t *first) {
    char path[OLE_RUN_PATH];
    ole_train_options options;
    ole_recipe *recipe;
    ole_train_options_init(&options);
    if (ole_run_path(path, folder, "config.yaml", NULL) != OLE_OK ||
        ole_recipe_read(&recipe, path, &options, NULL) != OLE_OK)
        return 0;
    *first = options.seed;
    ole_recipe_free(recipe);
    return options.seeds;
}

/* A run folder, or the runs in a folder of several seeds; the first of them where that folder is
 * the only one and has more than a page holds. */
static ole_status add_folder(ole_report *r, const char *folder, ole_error *error) {
    static const char metrics[] = "metrics.jsonl";
    uint64_t first = 0;
    int before = r->count;
    if (ole_run_has(folder, metrics)) return add_run(r, folder, error);
    int64_t seeds = count_seeds(folder, &first);
    for (int64_t k = 0; k < seeds && (before > 0 || r->count < OLE_REPORT_RUNS); k++) {
        char name[40], path[OLE_RUN_PATH];
        snprintf(name, sizeof name, "seed-%" PRIu64, first + (uint64_t)k);
        ole_status status = ole_run_path(path, folder, name, error);
        if (status == OLE_OK && ole_run_has(path, metrics)) status = add_run(r, path, error);
        if (status != OLE_OK) return status;
    }
    ole_quoted quoted;
    return r->count > before
               ? OLE_OK
               : ole_fail(error, OLE_ERROR_IO, "%.400s: there is no run of 'ole train' in it",
                          ole_quote_string(&quoted, folder));
}

/* ---- Their numbers ------------------------------------------------------------------------ */

static bool copy_text(char **to, const char *from) {
    *to = from ? strdup(from) : NULL;
    return *to || !from;
}

static ole_status fill_row(ole_report_row *row, const ole_run_view *run, ole_error *error) {
    const ole_analysis *a = run->measured ? &run->analysis : NULL;
    row->epochs = run->history.count;
    row->tested = !run->options.skip_test && run->split != OLE_SPLIT_VALIDATION;
    row->error = row->tested ? run->history.test_error : run->history.validation_error;
    if (run->confusion)
        row->error = 100.0 * (double)(run->count - run->correct) / (double)run->count;
    row->knn1_error = run->history.knn1_error;
    row->angle_within = a ? a->angles.within.mean : NAN;
    row->angle_between = a ? a->angles.between.mean : NAN;
    row->effective_rank = a ? a->spectra.all.effective_rank : NAN;
    row->changed = run->changed;
    return copy_text(&row->data, run->options.data) &&
                   copy_text(&row->without_model, run->without[0] ? run->without : NULL)
               ? OLE_OK
               : ole_fail(error, OLE_ERROR_MEMORY, "out of memory");
}

/* ---- The call ----------------------------------------------------------------------------- */

static ole_status measure(ole_report *r, ole_run_view *views, const ole_report_options *o,
                          ole_error *error) {
    ole_analyze_options analyze;
    ole_analyze_options_init(&analyze);
    analyze.errors = analyze.overlap = false;
    analyze.picture = PICTURE;
    ole_status status = OLE_OK;
    for (int i = 0; i < r->count && status == OLE_OK; i++)
        status = ole_run_view_open(&views[i], r->runs[i].folder, error);
    for (int i = 0; i < r->count && status == OLE_OK && !r->interrupted; i++) {
        analyze.map = i < o->maps;
        status = ole_run_view_measure(&views[i], o, &analyze, error);
        r->interrupted = views[i].stopped;
        if (status == OLE_OK) status = fill_row(&r->runs[i], &views[i], error);
    }
    return status;
}

ole_status ole_report_run(ole_report *report, const char *const *folders, int count,
                          const ole_report_options *options, ole_error *error) {
    ole_report_options o;
    ole_report_options_init(&o);
    ole_status status = ole_check_struct(options ? options->struct_size : sizeof o, sizeof o,
                                         "ole_report_options_init", error);
    if (status != OLE_OK) return status;
    if (options) o = *options;
    if (!report || !folders || count < 1 || !o.out || !o.device)
        return ole_fail(error, OLE_ERROR_ARGUMENT,
                        "ole_report_run: report, folders, options.out or options.device is NULL, "
                        "or count is not positive");
    ole_report r = {.runs = calloc(OLE_REPORT_RUNS, sizeof *r.runs)};
    ole_run_view *views = calloc(OLE_REPORT_RUNS, sizeof *views);
    if (!r.runs || !views) status = ole_fail(error, OLE_ERROR_MEMORY, "out of memory");
    for (int i = 0; i < count && status == OLE_OK; i++)
        status = add_folder(&r, folders[i], error);
    if (status == OLE_OK && o.model && r.count > 1)
        status =
            ole_fail(error, OLE_ERROR_ARGUMENT,
                     "ole_report_run: options.model is the model of one run, not of %d", r.count);
    if (status == OLE_OK) status = measure(&r, views, &o, error);
    if (status == OLE_OK && o.callback && !r.interrupted)
        r.interrupted = o.callback(o.callback_context, "page", 0.0);
    if (status == OLE_OK && !r.interrupted)
        status = ole_run_page_write(&(ole_shown_runs){r.count, views, r.runs}, o.out, error);
    for (int i = 0; views && i < r.count; i++)
        ole_run_view_close(&views[i]);
    free(views);
    bool interrupted = r.interrupted;
    if (status != OLE_OK || interrupted) ole_report_free(&r);
    r.interrupted = interrupted;
    if (status == OLE_OK) *report = r;
    return status;
}

void ole_report_free(ole_report *r) {
    if (!r) return;
    for (int i = 0; i < r->count; i++) {
        free(r->runs[i].folder);
        free(r->runs[i].data);
        free(r->runs[i].without_model);
    }
    free(r->runs);
    *r = (ole_report){0};
}
