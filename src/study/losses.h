/*
 * src/study/losses.h - losses side by side on equal budgets: `ole compare`.
 *
 * Every loss gets a study of its own (ole_tune()) in OUT/LOSS: the same number of settings of the
 * one number that matters most to it (its weight beside softmax, a margin, a temperature), fixed in
 * advance, each with the same epochs and seeds; the validation split chooses one, which is trained
 * on all training data and tested once.  losses.c lists and runs them, losses_measure.c measures
 * the retrained models, losses_report.c writes losses.csv, losses.json and report.html.
 */
#ifndef OLE_SRC_STUDY_LOSSES_H
#define OLE_SRC_STUDY_LOSSES_H

#include "model/run_folder.h"
#include "ole/train/study.h"

#include <string.h>

enum { OLE_LOSSES = 32, OLE_LOSS_NAME = 48, OLE_LOSS_SETTINGS = 5 };

typedef struct ole_losses_options {
    const ole_train_options *train; /* `out` is the folder; loss and what is tuned are ignored */
    const char *losses;             /* "softmax,softmax+ole,arcface"; NULL: the nine of losses.c */
    const char *novel;              /* classes to leave out of training and to detect; or NULL */
    int64_t settings;               /* of each loss, 1 to OLE_LOSS_SETTINGS */
    int jobs;                       /* as in ole_study_options, like the rest */
    ole_study_callback *callback;
    ole_train_message *message;
    void *callback_context;
    ole_ranks *ranks;
} ole_losses_options;

/* The measures of a retrained model on the test split; NaN where there is none. */
enum {
    OLE_MEASURED_ERROR,   /* %, of the classifier; of 1-NN without one */
    OLE_MEASURED_KNN,     /* %, of 1-NN */
    OLE_MEASURED_WITHIN,  /* median angle in degrees between features of one class */
    OLE_MEASURED_BETWEEN, /* ... of different classes */
    OLE_MEASURED_RANK,    /* effective rank of all features */
    OLE_MEASURED_CLASS,   /* ... of one class, mean over the classes */
    OLE_MEASURED_ECE,     /* expected calibration error of the confidence, % */
    OLE_MEASURED_AUROC,   /* %, known against novel classes by the 5th nearest training feature */
    OLE_MEASURED_STEP,    /* milliseconds per training step */
    OLE_MEASURES
};

typedef struct ole_loss_entry {
    char name[OLE_LOSS_NAME]; /* "softmax+center" */
    ole_loss_kind loss;
    char tuned[OLE_LOSS_NAME]; /* as in ole_study_options.vary */
    double value[OLE_LOSS_SETTINGS];
    double picked;             /* NaN: not chosen yet, or every setting diverged */
    char folder[OLE_RUN_PATH]; /* of the retrained run of the first seed; "": none is finished */
    ole_study_error validation;
    double *measured; /* [seeds, OLE_MEASURES] */
    int64_t finished; /* seeds */
} ole_loss_entry;

typedef struct ole_losses {
    int64_t count, seeds, settings;
    ole_loss_entry entry[OLE_LOSSES];
    bool interrupted;
} ole_losses;

/* What is tuned, in a word: "scale" of "loss_options:scale". */
static inline const char *ole_losses_tuned(const ole_loss_entry *entry) {
    const char *colon = strchr(entry->tuned, ':');
    return colon ? colon + 1 : entry->tuned;
}

/*
 * Runs or resumes the studies in train.out, measures and writes the results after each loss.  The
 * same call resumes.  A loss of which every setting diverges has no measures.  Free the result.
 */
OLE_INTERNAL ole_status ole_losses_compare(ole_losses *losses, const ole_losses_options *options,
                                           ole_error *error);
OLE_INTERNAL void ole_losses_free(ole_losses *losses);

/* Mean and deviation over the seeds of a measure, or of its paired difference from that of the
 * entry `from` (NULL: none). */
OLE_INTERNAL ole_study_error ole_losses_spread(const ole_losses *losses,
                                               const ole_loss_entry *entry,
                                               const ole_loss_entry *from, int measure);

#endif
