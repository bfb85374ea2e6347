/*
 * src/report/report.c - ole_report_run(): finds the runs, measures them and writes their page.
 */
#include "ole/train/report.h"

#include "base/error.h"
#include "base/quote.h"
#include "base/struct_size.h"
#include "model/run_folder.h"
#include "report/run_view.h"
#include "train/options/options.h"
#include "train/run/history.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { PICTURE = 400 }; /* rows and columns of the picture of angles at most */

static const ole_report_options defaults = {
    .struct_size = sizeof(ole_report_options), .maps = OLE_REPORT_MAPS, .device = "auto"};

void ole_report_options_init_sized(ole_report_options *options, size_t struct_size) {
    ole_struct_fill(options, struct_size, &defaults);
}

/* ---- The runs ----------------------------------------------------------------------------- */

static ole_status add_run(ole_report *r, const char *folder, ole_error *error) {
    if (r->count == OLE_REPORT_RUNS)
        return ole_fail(error, OLE_ERROR_ARGUMENT, "a page holds up to %d runs", OLE_REPORT_RUNS);
    return ole_run_view_open(&r->views[r->count++], folder, error);
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
    return r->count > before ? OLE_OK
                             : ole_fail(error, OLE_ERROR_IO, "%.400s: holds no run of 'ole train'",
                                        ole_quote_string(folder).text);
}

static bool is_file(const char *path) {
    struct stat about;
    return stat(path, &about) == 0 && S_ISREG(about.st_mode);
}

/* All folders, or the file of one model. */
static ole_status add_all(ole_report *r, const char *const *folders, int count, const char *data,
                          ole_error *error) {
    bool model = count == 1 && is_file(folders[0]);
    ole_status status = OLE_OK;
    if (model) return ole_run_view_open_model(&r->views[r->count++], folders[0], data, error);
    if (data)
        return ole_fail(error, OLE_ERROR_ARGUMENT,
                        "%.400s: data are for the file of one model; a run has its own",
                        ole_quote_string(folders[0]).text);
    for (int i = 0; i < count && status == OLE_OK; i++) {
        if (is_file(folders[i]))
            return ole_fail(error, OLE_ERROR_ARGUMENT,
                            "%.400s: a file; only runs of 'ole train' share a page, so name it "
                            "alone",
                            ole_quote_string(folders[i]).text);
        status = add_folder(r, folders[i], error);
    }
    return status;
}

/* ---- Their numbers ------------------------------------------------------------------------ */

/* The epoch whose model was kept; NULL: the last.  With keep best, ties go to the later one. */
static const ole_epoch *kept_epoch(const ole_run_view *run) {
    const ole_history *h = &run->history;
    const ole_epoch *best = ole_train_keeps_best(&run->options) ? ole_history_best(h) : NULL;
    if (!best || strcmp(run->options.keep, "best") != 0) return best;
    for (const ole_epoch *e = best; e < h->epochs + h->count; e++)
        if (e->validation_error == best->validation_error) best = e;
    return best;
}

static void fill_row(ole_report_row *row, const ole_run_view *run) {
    const ole_analysis *a = run->measured ? &run->analysis : NULL;
    bool tested = run->lone ? run->split == OLE_SPLIT_TEST
                            : !run->options.skip_test && run->split != OLE_SPLIT_VALIDATION;
    const ole_history *h = &run->history;
    const ole_epoch *best = kept_epoch(run);
    if (!best && !h->ended && h->count > 0) best = &h->epochs[h->count - 1]; /* the one known */
    double test = best ? best->test_error : h->test_error;
    double validation = best ? best->validation_error : h->validation_error;
    *row = (ole_report_row){.folder = run->folder,
                            .data = run->options.data,
                            .epochs = run->history.count,
                            .tested = tested,
                            .error = tested ? test : validation,
                            .knn1_error = run->lone                  ? (double)NAN
                                          : best && !run->classifier ? best->knn1_error
                                                                     : h->knn1_error,
                            .angle_within = a ? a->angles.within.mean : NAN,
                            .angle_between = a ? a->angles.between.mean : NAN,
                            .effective_rank = a ? a->spectra.all.effective_rank : NAN,
                            .changed = run->changed,
                            .without_model = run->without[0] ? run->without : NULL,
                            .without_data = run->without_data,
                            .fitted_on = run->fitted_on};
    if (run->lone) row->error = NAN;
    if (run->confusion)
        row->error = 100.0 * (double)(run->count - run->correct) / (double)run->count;
}

/* ---- The call ----------------------------------------------------------------------------- */

static ole_status measure(ole_report *r, const ole_report_options *o, ole_error *error) {
    ole_analyze_options analyze;
    ole_analyze_options_init(&analyze);
    analyze.errors = analyze.overlap = false;
    analyze.picture = PICTURE;
    ole_status status = OLE_OK;
    for (int i = 0; i < r->count && status == OLE_OK && !r->interrupted; i++) {
        analyze.map = i < o->maps;
        if (!o->curves_only) status = ole_run_view_measure(&r->views[i], o, &analyze, error);
        r->interrupted = r->views[i].stopped;
        fill_row(&r->runs[i], &r->views[i]);
    }
    if (status == OLE_OK && o->callback && !r->interrupted)
        r->interrupted = o->callback(o->callback_context, "page", 0.0);
    return status;
}

/* A page made with the data is worth more than one made without. */
static ole_status check_old_page(const ole_report *r, const ole_report_options *o,
                                 ole_error *error) {
    for (int i = 0; i < r->count && o->keep_full && !o->curves_only; i++) {
        const ole_run_view *run = &r->views[i];
        if (!run->without[0] || !ole_run_page_is_full(o->out)) continue;
        return ole_fail(
            error, OLE_ERROR_IO,
            "%s: kept, as a new page would lack the %s of %s (%.300s); pass --out PAGE.html "
            "to write one",
            ole_quote_string(o->out).text, run->without_data ? "data" : "model",
            ole_quote_string(run->folder).text, run->without);
    }
    return OLE_OK;
}

ole_status ole_report_run(ole_report *report, const char *const *folders, int count,
                          const ole_report_options *options, ole_error *error) {
    ole_report_options o = defaults;
    ole_status status =
        ole_struct_read(&o, options, OLE_SIZE_UP_TO(ole_report_options, callback_context),
                        "ole_report_options_init", error);
    if (status != OLE_OK) return status;
    if (!report || !folders || count < 1 || !o.out || !o.device)
        return ole_fail(error, OLE_ERROR_ARGUMENT,
                        "ole_report_run: report, folders, options.out or options.device is NULL, "
                        "or count is not positive");
    ole_report r = {.runs = calloc(OLE_REPORT_RUNS, sizeof *r.runs),
                    .views = calloc(OLE_REPORT_RUNS, sizeof *r.views)};
    if (!r.runs || !r.views) status = ole_fail(error, OLE_ERROR_MEMORY, "out of memory");
    if (status == OLE_OK) status = add_all(&r, folders, count, o.data, error);
    if (status == OLE_OK && o.model && r.count > 1)
        status =
            ole_fail(error, OLE_ERROR_ARGUMENT,
                     "ole_report_run: options.model is the model of one run, not of %d", r.count);
    if (status == OLE_OK) status = measure(&r, &o, error);
    if (status == OLE_OK && !r.interrupted) status = check_old_page(&r, &o, error);
    if (status == OLE_OK && !r.interrupted) status = ole_run_page_write(&r, &o, error);
    bool interrupted = r.interrupted;
    if (status != OLE_OK || interrupted) ole_report_free(&r);
    r.interrupted = interrupted;
    if (status == OLE_OK) *report = r;
    return status;
}

void ole_report_free(ole_report *r) {
    if (!r) return;
    for (int i = 0; i < r->count; i++)
        ole_run_view_close(&r->views[i]);
    free(r->views);
    free(r->runs);
    *r = (ole_report){0};
}
