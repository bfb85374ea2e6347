/*
 * src/embed/choose.h - settings by cross-validation, and scores of rows that the fit had not seen.
 */
#ifndef OLE_SRC_EMBED_CHOOSE_H
#define OLE_SRC_EMBED_CHOOSE_H

#include "embed/problem.h"
#include "model/calibration.h"

typedef struct ole_setting {
    double lambda, decay;
    int64_t width;
} ole_setting;

/* A way to fit, as cross-validation sees it. */
typedef struct ole_fitter {
    void *context;
    /* Fits without the rows of a fold. */
    ole_status (*fit)(void *context, const ole_setting *setting, int fold, const char *part,
                      ole_error *error);
    /* Logits [count, C] of these rows, in rising order, by the last fit. */
    ole_status (*score)(void *context, const int64_t *rows, int64_t count, float *logits,
                        ole_error *error);
    /* Values to try where the options leave a setting open; the first width and decay are used
     * where no row can be held out. */
    const double *decays, *lambdas;
    const int64_t *widths;
    int decay_count, lambda_count, width_count;
} ole_fitter;

/* Rows that were held out, and what a fit without them made of them. */
typedef struct ole_held_out {
    int64_t count;
    float *logits;   /* [count, C] */
    int32_t *labels; /* [count] */
} ole_held_out;

void ole_held_out_free(ole_held_out *held_out);

/*
 * Chooses what the options leave open, adds the trials to the summary, and leaves the scores with
 * the chosen setting in `held_out`, if the options ask for a threshold.
 */
ole_status ole_choose(ole_problem *problem, const ole_fitter *fitter, ole_setting *setting,
                      ole_held_out *held_out, ole_embed_summary *summary, ole_error *error);

#endif
