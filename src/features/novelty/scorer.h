/*
 * src/features/novelty/scorer.h - what one score is made of.  Each score has a file of its own with
 * three functions: `fit` fills the scorer's tensors from the known samples, `prepare` checks them
 * and packs what is multiplied (after a fit and after a restore alike), `run` scores one block of
 * rows.  scorer.c does all the rest: checks, logits, blocks, threads.
 */
#ifndef OLE_SRC_FEATURES_NOVELTY_SCORER_H
#define OLE_SRC_FEATURES_NOVELTY_SCORER_H

#include "base/pool.h"
#include "features/classes.h"
#include "linalg/panels.h"
#include "ole/novelty.h"

typedef struct score_kind score_kind;

struct ole_scorer {
    const score_kind *kind;
    ole_score score;
    int64_t dim, classes;
    int count;
    ole_scorer_tensor tensor[OLE_SCORER_TENSORS]; /* data are the scorer's */
    ole_panels weight;                            /* of the classifier, packed; data NULL: none */
    const float *bias;                            /* [classes]; NULL: none */
    ole_panels operand, second;                   /* what a score multiplies its rows with */
    int64_t directions;                           /* of directions.h, and they packed in float32 */
    const float *packed;
    const double *square; /* what prepare() computes, [classes] or more */
    void *memory[5];      /* of these */
};

/* What a score is fitted on. */
typedef struct score_training {
    const ole_embedding *known;              /* NULL: none */
    ole_classes classes;                     /* of the known rows */
    const ole_linear_classifier *classifier; /* NULL: none */
    const ole_scorer_options *options;
    ole_pool *pool;
    int threads;
} score_training;

/* Rows to score together, and scratch. */
typedef struct score_block {
    int64_t rows;
    const float *features; /* [rows, dim] or NULL */
    double *logits;        /* [rows, classes], given or computed, where the score needs them */
    double *centred;       /* [rows, dim] */
    double *product;       /* [rows, operand.items] */
    double *other;         /* [rows, second.items] */
    double *panels;        /* of packed rows */
    float *scaled;         /* [rows, dim] and [rows, padded directions], for directions.h */
    float *along;
    double *list; /* [classes] */
} score_block;

struct score_kind {
    const char *name, *title;
    int needs;
    ole_status (*fit)(ole_scorer *s, const score_training *t, ole_error *error); /* NULL: nothing */
    ole_status (*prepare)(ole_scorer *s, ole_error *error);                      /* NULL: nothing */
    void (*run)(const ole_scorer *s, const score_block *b, double *scores);
    /* Instead of run(): all rows at once. */
    ole_status (*run_all)(const ole_scorer *s, const float *features, int64_t rows, double *scores,
                          ole_pool *pool, ole_error *error);
};

extern const score_kind score_softmax, score_calibrated, score_residual, score_cosine, score_energy,
    score_gen, score_knn, score_vim, score_mahalanobis, score_relative, score_fdbd, score_nci,
    score_neco;

/* ---- For the scores ----------------------------------------------------------------------- */

/* Adds a tensor of zeros [rows, cols] (cols 0: [rows]); NULL, with the error, without memory. */
void *scorer_add(ole_scorer *s, const char *name, ole_dtype dtype, int64_t rows, int64_t cols,
                 ole_error *error);

/* Adds one number. */
ole_status scorer_add_number(ole_scorer *s, const char *name, double value, ole_error *error);

/* Checks that such a number is there and in its range. */
ole_status scorer_find_number(const ole_scorer *s, const char *name, double least, double most,
                              ole_error *error);

/* A number that scorer_find_number() has checked. */
double scorer_number(const ole_scorer *s, const char *name);

/*
 * The tensor of that name, type and shape; -1 for `rows` or `cols` takes any size of at least 1,
 * 0 for `cols` means one dimension.  NULL, with OLE_ERROR_FORMAT, if it is missing or does not fit.
 */
const ole_scorer_tensor *scorer_find(const ole_scorer *s, const char *name, ole_dtype dtype,
                                     int64_t rows, int64_t cols, ole_error *error);

/* Memory that lives as long as the scorer, 64-byte aligned; NULL, with the error, without any. */
void *scorer_keep(ole_scorer *s, int64_t count, size_t size, ole_error *error);

/* Packs a tensor [items, dim] into *panels. */
ole_status scorer_pack(ole_scorer *s, const ole_scorer_tensor *tensor, ole_panels *panels,
                       ole_error *error);

/* to[rows, right.items] = X right^T, X the features, the centred ones or another [rows, depth]. */
void scorer_multiply(const score_block *b, const void *rows, ole_dtype dtype,
                     const ole_panels *right, double *to);

/* block->centred = features - centre. */
void scorer_centre(const ole_scorer *s, const score_block *b, const double *centre);

/* The sum of squares of n numbers. */
double scorer_square(const double *x, int64_t n);

/* The index of the largest of `count` numbers; the first of equals. */
int64_t scorer_largest(const double *values, int64_t count);

/* log of the sum of exp(z). */
double scorer_log_sum_exp(const double *logits, int64_t classes);

#endif
