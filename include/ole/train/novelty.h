/*
 * ole/train/novelty.h - does a model know what it does not know?  Scores of known and novel
 * samples, the threshold between them, and whether the scores are probabilities.
 *
 *     ole_novelty n;
 *     if (ole_novelty_measure(&n, model, known, novel, NULL, &error) != OLE_OK) ...
 *     printf("AUROC %.3f\n", ole_novelty_get(&n, OLE_SCORE_SOFTMAX)->roc.auroc);
 *     ole_novelty_store(&n, OLE_SCORE_SOFTMAX, "runs/first", &error); // for ole_model_predict()
 *     ole_novelty_free(&n);
 *
 * Four parts of the data have four roles.  The known set's training split gives the classes'
 * subspaces and mean directions; its validation split, which the model was not trained on, the
 * temperature and the thresholds; its test split and the novel set only judge.  So a threshold does
 * not depend on the novel samples.
 *
 * Temperature scaling divides the logits by the T at which the validation split's negative
 * log-likelihood is smallest: the order of the classes stays, the scores become probabilities.
 * Where the model makes no mistake on the n validation samples there is no such T (the colder the
 * better); then it is the one at which the largest scores have the mean (n + 1) / (n + 2), the
 * accuracy to expect by Laplace's rule after n samples without a mistake.
 */
#ifndef OLE_TRAIN_NOVELTY_H
#define OLE_TRAIN_NOVELTY_H

#include "ole/roc.h"
#include "ole/train/model.h"

#ifdef __cplusplus
extern "C" {
#endif

/* How far it is: samples run through the model. */
typedef ole_part_callback ole_novelty_callback;

/* Fill with ole_novelty_options_init(). */
typedef struct ole_novelty_options {
    size_t struct_size;
    double keep;           /* share of the validation samples over the threshold; default 0.95 */
    double temperature;    /* 0 (default): fitted to the validation split; 1: none */
    ole_split known_split; /* that judges; default OLE_SPLIT_TEST */
    ole_split novel_split; /* of the novel set... */
    bool novel_all;        /* ...or all of it, as in the paper; default true */
    int threads;           /* default 1 */
    ole_novelty_callback *callback;
    void *callback_context;
} ole_novelty_options;

OLE_API void ole_novelty_options_init(ole_novelty_options *options);

enum { OLE_CALIBRATION_BINS = 15 };

/* How far softmax scores are from probabilities, over bins of the largest score. */
typedef struct ole_calibration {
    double temperature;
    double ece; /* expected calibration error: mean distance of score and accuracy, 0 to 1 */
    double nll; /* mean negative log-likelihood */
    int64_t count[OLE_CALIBRATION_BINS]; /* samples with a score in (b, b + 1] / bins */
    double score[OLE_CALIBRATION_BINS];  /* their mean; NaN where there are none */
    double accuracy[OLE_CALIBRATION_BINS];
} ole_calibration;

/* What one score makes of known (positive) and novel (negative) samples. */
typedef struct ole_novelty_score {
    ole_score score;
    double threshold; /* that keeps the share asked for of the validation samples */
    double kept;      /* % of the known samples at or over it */
    double accuracy;  /* % of the known samples at or over it and classified right */
    double accepted;  /* % of the novel samples at or over it: taken for a known class */
    ole_roc roc;
    double *accuracy_at;   /* [roc.points]: accuracy at each threshold of the curve, % */
    double *known, *novel; /* [known_count] and [novel_count] scores */
} ole_novelty_score;

enum { OLE_SCORES = 5 };

typedef struct ole_novelty {
    bool interrupted; /* by the callback: the rest is empty then */
    int64_t validation_count, known_count, novel_count;
    double accuracy;            /* % of the known samples classified right, without a threshold */
    double validation_accuracy; /* the same for the validation samples */
    bool temperature_fitted; /* false: given; or the classifier is no better than chance on the */
                             /* validation samples: then it is 1 */
    ole_calibration before, after;          /* of the known samples, at temperature 1 and scaled */
    ole_novelty_score score[OLE_SCORES];    /* in the order of ole_score */
    int32_t *known_label, *known_predicted; /* [known_count] */
    int32_t *novel_label, *novel_predicted; /* [novel_count]; labels are the novel set's */
    struct ole_novelty_directions *directions; /* private */
} ole_novelty;

/*
 * `known` must have the model's classes, in its order, and a validation split; `novel` any classes.
 * NULL options: the defaults.  On failure, and when interrupted, there is nothing to free.
 */
OLE_API ole_status ole_novelty_measure(ole_novelty *result, ole_model *model,
                                       const ole_dataset *known, const ole_dataset *novel,
                                       const ole_novelty_options *options, ole_error *error);
OLE_API void ole_novelty_free(ole_novelty *result);

/* The numbers of one score; NULL for OLE_SCORE_NONE. */
OLE_API const ole_novelty_score *ole_novelty_get(const ole_novelty *result, ole_score score);

/*
 * Stores a score's threshold and the temperature in the model's file; `path` is as in
 * ole_model_load().  The file is written beside and renamed; its weights stay as they are.
 */
OLE_API ole_status ole_novelty_store(const ole_novelty *result, ole_score score, const char *path,
                                     ole_error *error);

#ifdef __cplusplus
}
#endif
#endif
