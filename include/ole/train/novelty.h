/*
 * ole/train/novelty.h - does a model know what it does not know?  Scores of known and novel
 * samples, the threshold between them, and whether the scores are probabilities.
 *
 * Example: digits that a model knows against image files that it does not, with the threshold
 * stored for ole_model_predict().
 *
 *     ole_dataset_options options;
 *     ole_dataset_options_init(&options);
 *     options.validation = 0.1;
 *     ole_model *model;
 *     ole_dataset *known, *novel;
 *     ole_novelty n;
 *     if (ole_model_load(&model, "run", 1, &error) != OLE_OK ||
 *         ole_dataset_open(&known, "digits", &options, &error) != OLE_OK ||
 *         ole_dataset_open(&novel, "folder:photos", NULL, &error) != OLE_OK ||
 *         ole_novelty_measure(&n, model, known, novel, NULL, &error) != OLE_OK)
 *         return puts(error.message), 1;
 *     printf("AUROC %.3f\n", ole_novelty_get(&n, OLE_SCORE_SOFTMAX)->roc.auroc);
 *     if (ole_novelty_store(&n, OLE_SCORE_SOFTMAX, "run", &error) != OLE_OK)
 *         return puts(error.message), 1;
 *     ole_novelty_free(&n);
 *
 * Four parts of the data have four roles.  The known set's training split gives the subspaces and
 * mean directions of the classes; its validation split, on which the model was not trained, the
 * temperature and the thresholds; its test split and the novel set only measure.  So a threshold
 * does not depend on the novel samples.
 *
 * Temperature scaling divides the logits by the T that minimises the negative log-likelihood of the
 * validation split: the order of the classes stays, the scores become probabilities.  If the model
 * makes no mistake on the n validation samples there is no such T (the colder the better); T is
 * then the one at which the largest scores have the mean (n + 1) / (n + 2), the accuracy to expect
 * by Laplace's rule after n samples without a mistake.
 */
#ifndef OLE_TRAIN_NOVELTY_H
#define OLE_TRAIN_NOVELTY_H

#include "ole/roc.h"
#include "ole/train/model.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Fill with ole_novelty_options_init(). */
typedef struct ole_novelty_options {
    size_t struct_size;    /* set by init; see "Versions" in ole/base.h */
    double keep;           /* share of the validation samples over the threshold; default 0.95 */
    double temperature;    /* 0 (default): fitted to the validation split; 1: none */
    ole_split known_split; /* of the known set to measure on; default OLE_SPLIT_TEST */
    ole_split novel_split; /* of the novel set... */
    bool novel_all;        /* ...or all of it, as in the paper; default true */
    int threads;           /* default 1 */
    ole_part_callback *callback; /* samples run through the model; NULL (default): none */
    void *callback_context;
} ole_novelty_options;

OLE_API void ole_novelty_options_init_sized(ole_novelty_options *options, size_t struct_size);
static inline void ole_novelty_options_init(ole_novelty_options *options) {
    ole_novelty_options_init_sized(options, sizeof *options);
}

enum { OLE_CALIBRATION_BINS = 15 };

/* How far softmax scores are from probabilities, over bins of the largest score. */
typedef struct ole_calibration {
    double temperature;
    double ece; /* expected calibration error: mean distance of score and accuracy, 0 to 1 */
    double nll; /* mean negative log-likelihood */
    int64_t count[OLE_CALIBRATION_BINS]; /* samples with a score in (b, b + 1] / bins */
    double score[OLE_CALIBRATION_BINS];  /* their mean; NaN without samples */
    double accuracy[OLE_CALIBRATION_BINS];
} ole_calibration;

/* One score of known (positive) and novel (negative) samples. */
typedef struct ole_novelty_score {
    ole_score score;
    double threshold; /* keeps the requested share of the validation samples */
    double kept;      /* % of the known samples at or over it */
    double accuracy;  /* % of the known samples at or over it and classified correctly */
    double accepted;  /* % of the novel samples at or over it: mistaken for a known class */
    ole_roc roc;
    double *accuracy_at;   /* [roc.points]: accuracy at each threshold of the curve, % */
    double *known, *novel; /* [known_count] and [novel_count] scores */
} ole_novelty_score;

enum { OLE_SCORES = 5 };

typedef struct ole_novelty {
    bool interrupted; /* by the callback: the rest is empty then */
    int64_t validation_count, known_count, novel_count;
    double accuracy;            /* % of the known samples classified correctly, without threshold */
    double validation_accuracy; /* the same for the validation samples */
    bool temperature_fitted;    /* false: given; or 1, because the classifier is no better than */
                                /* chance on the validation samples */
    ole_calibration before, after;          /* of the known samples, at temperature 1 and scaled */
    ole_novelty_score score[OLE_SCORES];    /* in the order of ole_score */
    int32_t *known_label, *known_predicted; /* [known_count] */
    int32_t *novel_label, *novel_predicted; /* [novel_count]; labels are the novel set's */
    struct ole_novelty_directions *directions; /* private */
} ole_novelty;

/*
 * `known` must have the model's classes, in its order, and a validation split; `novel` may have any
 * classes, or be NULL: then only thresholds and what they keep of the known samples are found, and
 * what is about novel samples is NaN or empty.  `options` may be NULL.  On failure, and when
 * interrupted, there is nothing to free.
 */
OLE_API ole_status ole_novelty_measure(ole_novelty *result, ole_model *model,
                                       const ole_dataset *known, const ole_dataset *novel,
                                       const ole_novelty_options *options, ole_error *error);
OLE_API void ole_novelty_free(ole_novelty *result);

/* The numbers of one score; NULL for OLE_SCORE_NONE. */
OLE_API const ole_novelty_score *ole_novelty_get(const ole_novelty *result, ole_score score);

/*
 * Stores a score's threshold and the temperature in the model's file; `path` is as in
 * ole_model_load().  The file is replaced atomically; its weights do not change.
 */
OLE_API ole_status ole_novelty_store(const ole_novelty *result, ole_score score, const char *path,
                                     ole_error *error);

#ifdef __cplusplus
}
#endif
#endif
