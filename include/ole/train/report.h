/*
 * ole/train/report.h - the page of a run: one HTML file with learning curves, mistakes, the angles
 * and spectra of the test features and a t-SNE map; of several runs side by side.
 *
 *     const char *runs[] = {"runs/softmax", "runs/ole"};
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
 * The report of a training that has just ended takes the model from memory.  What it made of the
 * test split comes with it, so that neither weights are read nor images run again:
 *
 *     ole_model *model;
 *     train.model = &model;
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

enum {
    OLE_REPORT_RUNS = 32, /* on a page at most */
    OLE_REPORT_MAPS = 4,
};

/* What is under way, and the share of it that is done, 0 to 1.  Return true to stop. */
typedef bool ole_report_callback(void *context, const char *what, double share);

/* Fill with ole_report_options_init(). */
typedef struct ole_report_options {
    size_t struct_size;
    const char *out;    /* the page; must be given */
    int maps;           /* the first runs get a t-SNE map; 0: none; default OLE_REPORT_MAPS */
    int threads;        /* 0 (default): all processors */
    const char *device; /* that models are loaded to: "auto" (default), "cpu", "cuda[:i]", "ref" */
    ole_model *model;   /* of one run: the model to show, in place of the one in the folder, as */
                        /* ole_train_options.model gives it; NULL (default): none */
    ole_report_callback *callback; /* NULL (default): none */
    void *callback_context;
} ole_report_options;

OLE_API void ole_report_options_init(ole_report_options *options);

/* The numbers of a run that head its page.  Errors in %, angles in degrees, NaN: not measured. */
typedef struct ole_report_row {
    const char *folder;
    const char *data; /* the data set; NULL where the run does not tell */
    int64_t epochs;
    bool tested;          /* `error` is of the test split; false: of the validation split */
    double error;         /* of the model shown: the best by its validation error, or the last */
    double knn1_error;    /* at the end of training */
    double angle_within;  /* mean of the pairs of samples of a class ... */
    double angle_between; /* ... and of different classes */
    double effective_rank;
    bool changed; /* its folder or .npy files are no longer those it was trained on: the model */
                  /* may know some of the samples that judge it */
    const char
        *without_model; /* why the page shows no model and no features of it; NULL: it does */
} ole_report_row;

typedef struct ole_report {
    int count;
    ole_report_row *runs;       /* [count]; a folder of several seeds has a row for each */
    bool interrupted;           /* by the callback: no page is written and there are no rows */
    struct ole_run_view *views; /* private: what the rows point to */
} ole_report;

/*
 * Reads the run folders, measures the features of their models on the test split (or, without one,
 * the validation split; at most 10,000 samples, spread evenly) and writes the page.  A folder of
 * several seeds stands for its runs.  A model or data set that cannot be opened is no error: the
 * page then shows the rest.  A page that is there is replaced in one step, or left as it was.
 */
OLE_API ole_status ole_report_run(ole_report *report, const char *const *folders, int count,
                                  const ole_report_options *options, ole_error *error);
OLE_API void ole_report_free(ole_report *report);

#ifdef __cplusplus
}
#endif
#endif
