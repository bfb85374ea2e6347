/*
 * ole/train/report.h - the page of a run, or of several side by side: one HTML file with learning
 * curves, mistakes, angles and spectra of the test features, and a t-SNE map.
 *
 * Example: compare two runs of ole_train().
 *
 *     const char *const runs[] = {"runs/softmax", "runs/ole"};
 *     ole_report_options options;
 *     ole_report_options_init(&options);
 *     options.out = "comparison.html";
 *     ole_report report;
 *     ole_error error;
 *     if (ole_report_run(&report, runs, 2, &options, &error) != OLE_OK)
 *         return puts(error.message), 1;
 *     for (int i = 0; i < report.count; i++)
 *         printf("%s: %.1f degrees between classes\n", report.runs[i].folder,
 *                report.runs[i].angle_between);
 *     ole_report_free(&report);
 *
 * After training, pass the model that is still in memory.  It keeps the outputs of the last
 * evaluation, so no weights are read and no images are run again:
 *
 *     ole_model *model;
 *     train.model = &model; // of ole_train_options
 *     ole_train(&train, &summary, &error);
 *     options.model = model;
 *     ole_report_run(&report, &train.out, 1, &options, &error);
 */
#ifndef OLE_TRAIN_REPORT_H
#define OLE_TRAIN_REPORT_H

#include "ole/train/model.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- The report ----------------------------------------------------------------------------- */

/* The headline numbers of a run.  Errors are in %, angles in degrees; NaN: not measured. */
typedef struct ole_report_row {
    const char *folder;
    const char *data;     /* the data set; NULL if the run does not name one */
    int64_t epochs;       /* completed */
    bool tested;          /* `error` is of the test split; false: of the validation split */
    double error;         /* of the model shown: the one with the lowest validation error, or, */
                          /* without a validation split, the last */
    double knn1_error;    /* at the end of training; of the model shown for OLE_LOSS_OLE */
    double angle_within;  /* mean over pairs of samples of one class ... */
    double angle_between; /* ... and of different classes */
    double effective_rank;
    bool changed; /* the data folder or .npy files changed since training: the model may have */
                  /* seen some of the samples that judge it */
    const char *without_model; /* why the page shows neither model nor features; NULL: it does */
    bool without_data;         /* because the data cannot be opened */
    bool fitted_on;            /* a map of embeddings was fitted on rows that judge it */
} ole_report_row;

typedef struct ole_report {
    int count;
    ole_report_row *runs;       /* [count]; a folder of several seeds has a row per seed */
    bool interrupted;           /* by the callback: there is no page, and no rows */
    struct ole_run_view *views; /* private: what the rows point to */
} ole_report;

typedef struct ole_report_options ole_report_options; /* below */

/*
 * Reads run folders, measures the features of their models on the test split (without one, on the
 * validation split; at most 10,000 samples, spread evenly) and writes the page `options->out`.  A
 * folder of several seeds stands for all its runs.  If a model or its data cannot be opened, the
 * page shows the rest of the run.  Instead of folders, one model's file, such as of
 * ole_embed_fit(), is shown on `options->data`: its test part, or without one all samples.  An
 * existing page is replaced in one step.  On failure there is nothing to free, and no page is
 * written.
 */
OLE_API ole_status ole_report_run(ole_report *report, const char *const *folders, int count,
                                  const ole_report_options *options, ole_error *error);
OLE_API void ole_report_free(ole_report *report);

/* ---- Options -------------------------------------------------------------------------------- */

enum {
    OLE_REPORT_RUNS = 32, /* at most, on one page */
    OLE_REPORT_MAPS = 4,
};

/* Called with the work at hand and the share of it that is done, 0 to 1.  Return true to stop. */
typedef bool ole_report_callback(void *context, const char *what, double share);

/* Fill with ole_report_options_init(). */
struct ole_report_options {
    size_t struct_size;
    const char *out;    /* the page; required */
    int maps;           /* t-SNE maps, of the first runs; 0: none; default OLE_REPORT_MAPS */
    int threads;        /* 0 (default): all processors */
    const char *device; /* to run the models: "auto" (default), "cpu", "cuda[:i]", "ref" */
    ole_model *model;   /* of a single run: shown instead of the model in its folder; the caller */
                        /* keeps it; default NULL */
    ole_report_callback *callback; /* NULL (default): none */
    void *callback_context;
    bool curves_only; /* no model and no data are opened: the page has curves and options, in a */
                      /* few milliseconds, as for a run that still trains */
    int refresh;      /* browsers reload the page after this many seconds; 0 (default): never */
    bool keep_full;   /* an error instead of a page where a run's model or data cannot be opened */
                      /* and `out` is a page that shows features; default false */
    const char *data; /* of a model's file: the data set to show it on, as in ole_dataset_open(); */
                      /* NULL (default): the page has no features */
};

OLE_API void ole_report_options_init_sized(ole_report_options *options, size_t struct_size);
static inline void ole_report_options_init(ole_report_options *options) {
    ole_report_options_init_sized(options, sizeof *options);
}

#ifdef __cplusplus
}
#endif
#endif
