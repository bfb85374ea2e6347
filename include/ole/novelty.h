/*
 * ole/novelty.h - is a sample one of the known classes?  Scores of features and logits, fitted on
 * the features of known samples: arrays in, numbers out.
 *
 * Example: how sure the nearest class mean is of some features; no classifier is needed.
 *
 *     ole_embedding known = {rows, dim, OLE_F32, features, labels};
 *     double scores[10]; // of ten rows, here the first known ones
 *     ole_scorer *scorer;
 *     if (ole_scorer_fit(&scorer, OLE_SCORE_COSINE, &known, NULL, NULL, &error) != OLE_OK ||
 *         ole_scorer_run(scorer, features, NULL, 10, scores, 1, &error) != OLE_OK)
 *         return puts(error.message), 1;
 *     ole_scorer_free(scorer);
 *
 * A larger score means: surer that the sample belongs to a known class.  Scores of different kinds
 * have different scales; only thresholds and the order of samples are comparable.  No score is the
 * best everywhere: ole/train/novelty.h chooses one without novel samples.
 *
 * Rows with a label < 0 are ignored.  NaN or Inf is OLE_ERROR_DATA and the message names the row.
 * Scores are computed in float64, have the same bits for any number of threads, and do not depend
 * on the other rows of a call.  Residual and cosine multiply in float32, in which their directions
 * are stored: they are good to about 1e-6.
 */
#ifndef OLE_NOVELTY_H
#define OLE_NOVELTY_H

#include "ole/geometry.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Scores --------------------------------------------------------------------------------- */

/*
 * h is a feature, z its logits, w_c and b_c the classifier's weights and bias of class c, μ the
 * mean of the known features and μ_c that of class c.  Each score has a file in
 * src/features/novelty/ with its formula and source.
 */
typedef enum ole_score {
    OLE_SCORE_NONE = 0,
    OLE_SCORE_SOFTMAX = 1,    /* the largest softmax probability, as in the paper */
    OLE_SCORE_CALIBRATED = 2, /* the same at a temperature: the score of predictions */
    OLE_SCORE_RESIDUAL = 3,   /* share of ‖h‖² in the nearest class's subspace */
    OLE_SCORE_COSINE = 4,     /* cosine of h and the mean direction of the nearest class */
    OLE_SCORE_ENERGY = 5,     /* log-sum-exp of the logits */
    OLE_SCORE_GEN = 6,        /* minus the generalised entropy of the probabilities */
    OLE_SCORE_KNN = 7,        /* cosine of h and its k-th nearest known feature */
    OLE_SCORE_VIM = 8,        /* energy minus the scaled length of h outside a principal subspace */
    OLE_SCORE_MAHALANOBIS = 9, /* minus the squared Mahalanobis distance to the nearest μ_c */
    OLE_SCORE_RELATIVE = 10,   /* the same relative to the distance to μ under one Gaussian */
    OLE_SCORE_FDBD = 11,       /* mean distance to the decision boundaries over ‖h - μ‖ */
    OLE_SCORE_NCI = 12,        /* projection of w_c on the direction of h - μ, plus a·‖h‖_1 */
    OLE_SCORE_NECO = 13,       /* share of the standardised h in a principal subspace */
} ole_score;

enum { OLE_SCORES = 13 }; /* besides OLE_SCORE_NONE */

/* "softmax", "relative", ...: the name in files and options; never NULL. */
OLE_API const char *ole_score_name(ole_score score);

/* A short description in plain English, such as "largest softmax probability"; never NULL. */
OLE_API const char *ole_score_title(ole_score score);

/* False, with OLE_SCORE_NONE, for an unknown name. */
OLE_API bool ole_score_parse(const char *name, ole_score *score);

/* The inputs of a score: a sum of these. */
enum {
    OLE_NEEDS_FEATURES = 1, /* of the known samples, and of those to be scored */
    OLE_NEEDS_LOGITS = 2,   /* of the samples to be scored: passed in, or from the weights */
    OLE_NEEDS_WEIGHTS = 4,  /* of the classifier */
};
OLE_API int ole_score_needs(ole_score score);

/* ---- Fitting and scoring -------------------------------------------------------------------- */

/* Fill with ole_scorer_options_init(). Each comment names the scores that read the field. */
typedef struct ole_scorer_options {
    size_t struct_size;
    double temperature; /* calibrated: divides the logits; default 1 */
    double energy;      /* residual: share of a class's energy in its subspace; default 0.95 */
    int64_t neighbours; /* knn: k, at most the rows there are; default 5 */
    int64_t principal;  /* vim, neco: dimensions of the principal subspace; 0 (default): chosen */
    double gamma;       /* gen: exponent; default 0.1 */
    int64_t largest;    /* gen: how many of the largest probabilities count; default 100 */
    double norm_weight; /* nci: a; default 0.0001 */
    int64_t threads;    /* of the fit, 1 to 1024; default 1 */
} ole_scorer_options;

OLE_API void ole_scorer_options_init_sized(ole_scorer_options *options, size_t struct_size);
static inline void ole_scorer_options_init(ole_scorer_options *options) {
    ole_scorer_options_init_sized(options, sizeof *options);
}

/* A score fitted to the known samples. Immutable: threads may share it. */
typedef struct ole_scorer ole_scorer;

/*
 * `known` may be NULL for scores without OLE_NEEDS_FEATURES, `classifier` for those without
 * OLE_NEEDS_LOGITS, and `options` for any.  A classifier without weights gives the number of logits
 * that are passed to each ole_scorer_run().  OLE_ERROR_ARGUMENT: the score needs a classifier and
 * there is none; the message lists the scores that need none.
 */
OLE_API ole_status ole_scorer_fit(ole_scorer **scorer, ole_score score, const ole_embedding *known,
                                  const ole_linear_classifier *classifier,
                                  const ole_scorer_options *options, ole_error *error);
OLE_API void ole_scorer_free(ole_scorer *scorer);

/*
 * The scores of `rows` samples.  `features` [rows, dim] may be NULL if the score needs logits only
 * and these are given; `logits` [rows, classes] may be NULL if the classifier's weights were given,
 * or if none are needed.
 */
OLE_API ole_status ole_scorer_run(const ole_scorer *scorer, const float *features,
                                  const float *logits, int64_t rows, double *scores, int threads,
                                  ole_error *error);

typedef struct ole_scorer_info {
    ole_score score;
    int64_t dim;     /* 0: the score does not use features */
    int64_t classes; /* of the logits, or of the known features; 0: the score keeps none */
    bool weights;    /* logits may be NULL */
} ole_scorer_info;

OLE_API ole_scorer_info ole_scorer_get_info(const ole_scorer *scorer);

/* ---- Keeping a scorer ----------------------------------------------------------------------- */

/* An array of a scorer's state. Its data need not be aligned. */
typedef struct ole_scorer_tensor {
    const char *name;
    ole_dtype dtype; /* OLE_F32, OLE_F64 or OLE_I64 */
    int ndim;        /* 1 or 2 */
    int64_t shape[2];
    const void *data;
} ole_scorer_tensor;

enum { OLE_SCORER_TENSORS = 8 }; /* the most that a scorer has */

/* Fills `tensors` and returns how many there are; their data live as long as the scorer. */
OLE_API int ole_scorer_save(const ole_scorer *scorer,
                            ole_scorer_tensor tensors[OLE_SCORER_TENSORS]);

/*
 * The scorer that these tensors were saved from: it gives the same scores, bit for bit.  Tensors of
 * other names are ignored.  OLE_ERROR_FORMAT: one is missing or does not fit; the message names it.
 */
OLE_API ole_status ole_scorer_restore(ole_scorer **scorer, ole_score score,
                                      const ole_scorer_tensor *tensors, int count,
                                      ole_error *error);

#ifdef __cplusplus
}
#endif
#endif
