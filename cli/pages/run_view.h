/*
 * cli/pages/run_view.h - a run folder for a report: its recipe, its history, and what its model
 * makes of the test set.
 */
#ifndef OLE_CLI_PAGES_RUN_VIEW_H
#define OLE_CLI_PAGES_RUN_VIEW_H

#include "pages/feature_page.h"

#include <ole/train/history.h>
#include <ole/train/model.h>
#include <ole/train/train.h>

enum { RUN_MISTAKES = 24, RUN_MOST_KEPT = 10000 };

/* A sample taken for another class. */
typedef struct run_mistake {
    int64_t sample;
    int truth, taken;
    float score;
} run_mistake;

typedef struct run_view {
    const char *folder;
    const char *weights; /* the model's file; NULL: the folder's best */
    ole_train_options options;
    ole_recipe *recipe;
    ole_history history;
    ole_model *model;
    ole_dataset *set;
    ole_split split;        /* looked at: test, else validation */
    char without[512];      /* why the model was not looked at; "" when it was */
    bool classifier;        /* it was trained */
    int64_t count, correct; /* samples, and those classified rightly */
    int64_t *confusion;     /* [classes, classes] */
    run_mistake mistakes[RUN_MISTAKES];
    int mistake_count; /* the surest first */
    float *features;   /* of the samples kept, RUN_MOST_KEPT at most */
    int32_t *labels;
    ole_page_images images; /* of the samples kept; count 0 where they are no images */
    uint8_t *pixels;
    feature_view view;
} run_view;

/* Reads recipe and history; false after an error. Close it either way. */
bool run_view_open(run_view *r, const char *folder, ole_error *error);

/*
 * Runs the test set, or what was held out, through the model and looks at the features.  A data set
 * or model that is not there is no error: `without` says why.
 */
bool run_view_measure(run_view *r, const feature_options *options, ole_error *error);
void run_view_close(run_view *r);

/* "softmax + OLÉ, λ = 0.25" */
const char *run_loss_text(const run_view *r, char out[64]);

/* Whether it is judged by the test split: not where it does not look at that, or has none.  What
 * its error is called, and that in %, of the model; NaN where there is none. */
bool run_is_tested(const run_view *r);
const char *run_error_name(const run_view *r);
double run_error(const run_view *r);

/* A sample's pixels into `out`, [height, width, channels] of `images`. */
bool run_view_pixels(const run_view *r, int64_t sample, uint8_t *out, ole_error *error);

#endif
