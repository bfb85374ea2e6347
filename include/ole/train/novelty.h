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
 * Four parts of the data have four roles.  The scores of features are fitted on the known
 * set's training split; its validation split, on which the model was not trained, the
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
#include "ole/train/embed.h"
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
    bool choose;           /* choose a score without novel samples; default true */
    int threads;           /* default 1 */
    ole_part_callback *callback; /* progress of running the model; NULL (default): none */
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
    ole_scorer *scorer;    /* that made them, fitted on the training features */
} ole_novelty_score;

/*
 * Which score to use, decided without novel samples: the known classes are split into five groups,
 * each of classes that are close to each other, by the cosines of their means; map and classifier
 * are fitted without one group at a time, and that group plays the novel one.  A fifth of the known
 * rows is held out of every fit, to stand for known samples.
 */
enum { OLE_NOVELTY_GROUPS = 5 };

typedef struct ole_novelty_choice {
    ole_score score;   /* with the highest mean AUROC; OLE_SCORE_NONE: nothing was chosen */
    int groups;        /* 0: fewer than three classes, or none with two rows: the score is */
                       /* OLE_SCORE_COSINE, by default */
    bool map_refitted; /* false: the features had seen all classes, so that the AUROCs are too */
                       /* high; only the classifier was fitted again */
    int64_t rows;      /* used: at most 20,000, drawn at random */
    int64_t held_out;  /* of these */
    double auroc[OLE_SCORES][OLE_NOVELTY_GROUPS]; /* held-out known rows against the group's */
    double mean[OLE_SCORES];                      /* over the groups; NaN without */
    double threshold[OLE_SCORES]; /* keeps the requested share of the held-out rows, by a fit */
                                  /* on all classes */
    double temperature;           /* of that fit's logits */
} ole_novelty_choice;

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
    ole_novelty_choice choice;
} ole_novelty;

/*
 * `known` must have the model's classes, in its order, and a validation split; `novel` may have any
 * classes, or be NULL: then there are only thresholds and the known samples they keep, and results
 * for novel samples are NaN or empty.  `options` may be NULL.  On failure, and when
 * interrupted, there is nothing to free.
 */
OLE_API ole_status ole_novelty_measure(ole_novelty *result, ole_model *model,
                                       const ole_dataset *known, const ole_dataset *novel,
                                       const ole_novelty_options *options, ole_error *error);
OLE_API void ole_novelty_free(ole_novelty *result);

/*
 * The same for features without a trained network: fits a map and a classifier to the known rows by
 * ole_embed_fit() and measures on test rows.  Without test rows (NULL) a fifth of the known rows is
 * held out for that, and the numbers are those of a fit without them; the model and the stored
 * scorers are those of all rows either way.  `names` and `classes` are as in ole_embed_fit(), and
 * test labels are among the known ones.  `novel` needs no labels; it may be NULL.  `embed` and
 * `options` may be NULL; the splits in `options` are ignored.  The method OLE_EMBED_NONE measures
 * the rows as they are, with a classifier of its own, and gives no model: `model` may be NULL.
 */
OLE_API ole_status ole_novelty_fit(ole_novelty *result, ole_model **model,
                                   const ole_embedding *known, const char *const *names,
                                   int64_t classes, const ole_embedding *test,
                                   const ole_embedding *novel, const ole_embed_options *embed,
                                   const ole_novelty_options *options, ole_error *error);

/*
 * Only chooses.  `embed` is how the map and classifier are fitted; NULL: the rows are features of a
 * network that has seen all classes, and only a classifier is fitted again.  If the callback of
 * `options` stops it: OLE_OK and OLE_SCORE_NONE.
 */
OLE_API ole_status ole_novelty_choose(ole_novelty_choice *choice, const ole_embedding *known,
                                      const ole_embed_options *embed,
                                      const ole_novelty_options *options, ole_error *error);

/*
 * Gives a model that ole_embed_fit() made of these rows, with these options (which may be NULL) and
 * this summary, a score and its threshold, which ole_model_predict() applies and ole_model_save()
 * writes with the evidence.  OLE_SCORE_NONE chooses the best of the scores that an ONNX file can
 * have (softmax, calibrated, energy, residual, cosine), by six fits with the settings of the
 * summary, of at most 20,000 rows.  Any other score takes a single fit.  Nothing is chosen for less
 * than 5 classes, over 1,000, or none with two rows: choice.score is OLE_SCORE_NONE then, and the
 * model as it was; likewise if the callback of `options` stops it.  The model needs a classifier.
 */
enum { OLE_NOVELTY_FEWEST_CLASSES = 5, OLE_NOVELTY_MOST_CLASSES = 1000 };

OLE_API ole_status ole_novelty_attach(ole_novelty_choice *choice, ole_model *model,
                                      const ole_embedding *known, const ole_embed_options *embed,
                                      const ole_embed_summary *summary, ole_score score,
                                      const ole_novelty_options *options, ole_error *error);

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
