/*
 * src/report/run_view.h - a run folder for a report: its recipe, its history, and its model's
 * outputs on the test set.
 */
#ifndef OLE_SRC_REPORT_RUN_VIEW_H
#define OLE_SRC_REPORT_RUN_VIEW_H

#include "base/export.h"
#include "model/run_folder.h"
#include "ole/analyze.h"
#include "ole/train/history.h"
#include "ole/train/report.h"
#include "ole/train/train.h"
#include "report/page.h"

enum { OLE_MISTAKES = 24, OLE_THUMBNAIL = 64 }; /* at most; the side of a map's images */

/* A sample taken for another class. */
typedef struct ole_mistake {
    int64_t sample;
    int truth, taken;
    float score;
} ole_mistake;

typedef struct ole_run_view {
    char folder[OLE_RUN_PATH];
    bool lone;           /* `folder` is a model's file, without a run: no recipe, no history */
    const char *weights; /* the model's file; NULL: the folder's best */
    ole_train_options options;
    ole_recipe *recipe;
    ole_history history;
    ole_model *model;
    bool borrowed; /* the model is the caller's */
    ole_dataset *set;
    ole_split split;        /* that judges the model: test, else validation */
    char without[512];      /* why there is no model; "" when there is */
    bool without_data;      /* ... as the data cannot be opened */
    bool changed;           /* the data are not those of the training */
    bool fitted_on;         /* a lone model was fitted on rows of `split` */
    bool classifier;        /* it was trained */
    int *class_of;          /* the model's class of each of the set's; NULL: the same */
    int64_t count, correct; /* samples, and those classified rightly */
    int64_t *confusion;     /* [classes, classes], of a classifier */
    ole_mistake mistakes[OLE_MISTAKES];
    int mistake_count; /* the surest first */
    int64_t kept;      /* samples analysed, spread evenly over all */
    ole_analysis analysis;
    bool measured; /* the analysis is there */

    const ole_report_options *report; /* whose callback gets the progress ... */
    bool stopped;                     /* ... and has asked to stop */
} ole_run_view;

/* Reads recipe and history.  Close it either way. */
OLE_INTERNAL ole_status ole_run_view_open(ole_run_view *view, const char *folder, ole_error *error);

/* The same for a model's file alone, to be shown on `data`: its test part, or without one all of
 * it.  NULL: without features. */
OLE_INTERNAL ole_status ole_run_view_open_model(ole_run_view *view, const char *file,
                                                const char *data, ole_error *error);

/* Opens the model, and the data as in training.  If one cannot be opened, that is no error:
 * `without` has the reason. */
OLE_INTERNAL ole_status ole_run_view_load(ole_run_view *view, const ole_report_options *report,
                                          ole_error *error);

/*
 * Takes the test set, or the validation set, through the model, and analyses the features as
 * `analyze` says; loads the view first, with what ole_run_view_load() calls no error.  Stopped by
 * the report's callback: OLE_OK, and `stopped` is set.
 */
OLE_INTERNAL ole_status ole_run_view_measure(ole_run_view *view, const ole_report_options *report,
                                             const ole_analyze_options *analyze, ole_error *error);
OLE_INTERNAL void ole_run_view_close(ole_run_view *view);

/*
 * Thumbnails, with sides of about `side` pixels at most, of samples of the split (NULL: of those
 * analysed).  They point to *pixels, which the caller frees; it is NULL if the samples are no
 * images.
 */
OLE_INTERNAL ole_status ole_run_view_images(const ole_run_view *view, const int64_t *samples,
                                            int64_t count, int side, ole_page_images *images,
                                            uint8_t **pixels, ole_error *error);

/* The file of each sample analysed, [kept], to be freed; NULL where they are no files. */
OLE_INTERNAL const char **ole_run_view_files(const ole_run_view *view);

/* Whether the file is such a page, and shows features: it was made with the model and its data. */
OLE_INTERNAL bool ole_run_page_is_full(const char *path);

/* Writes the page of a report whose views are measured and whose rows are filled (run_page.c). */
OLE_INTERNAL ole_status ole_run_page_write(const ole_report *report,
                                           const ole_report_options *options, ole_error *error);

#endif
