/*
 * ole/classify.h - how well labelled features separate their classes, by classifiers that need no
 * training.
 *
 * Example: leave-one-out error of the nearest neighbour.
 *
 *     ole_embedding e = {rows, dim, OLE_F32, features, labels};
 *     ole_feature_errors errors;
 *     if (ole_classify_features(&errors, &e, NULL, NULL, &error) != OLE_OK)
 *         return puts(error.message), 1;
 *     printf("1-NN error %.2f %%\n", errors.knn1);
 *
 * All classifiers compare directions, not lengths:
 *
 * - 1-NN and k-NN: the neighbours with the largest cosine, found exactly; the majority label of the
 *   k (in a tie, the smallest).
 * - nearest centroid: the class whose mean has the largest cosine.
 * - nearest subspace: the class whose principal subspace (ole/analyze.h) holds most of the row's
 *   energy.
 *
 * Without a test set each row is classified by all others: it is not its own neighbour, and its
 * class's mean and subspace are those of the other rows, exactly (by the secular equation of a
 * rank-one change, without a new decomposition).
 */
#ifndef OLE_CLASSIFY_H
#define OLE_CLASSIFY_H

#include "ole/geometry.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Errors in %. A label that the training set lacks is always an error. */
typedef struct ole_feature_errors {
    int64_t references; /* rows to compare with: all that are not ignored */
    int64_t queries;    /* rows classified */
    int64_t of_queries; /* rows they were drawn from */
    int k;
    double knn1, knn, centroid, subspace;
    double directions; /* dimension of a class's subspace, mean over the classes */
} ole_feature_errors;

/* Fill with ole_classify_options_init(). */
typedef struct ole_classify_options {
    size_t struct_size;
    int k;          /* neighbours of k-NN, 1 to 1000; default 5 */
    double energy;  /* share of a class's energy in its subspace, (0, 1]; default 0.95 */
    int64_t sample; /* classify at most this many rows, drawn at random; 0: all; default 10,000 */
    uint64_t seed;  /* of the sample; default 0 */
    int threads;    /* 1 to 1024; default 1 */
    ole_progress *progress; /* NULL (default): none */
    void *context;
} ole_classify_options;

OLE_API void ole_classify_options_init_sized(ole_classify_options *options, size_t struct_size);
static inline void ole_classify_options_init(ole_classify_options *options) {
    ole_classify_options_init_sized(options, sizeof *options);
}

/*
 * Classifies the rows of `test` by those of `train`; with `test` NULL the rows of `train`, each
 * left out in turn.  There must be at least two classes.  `options` may be NULL.  Errors are as in
 * ole/geometry.h; a message about a row of `test` calls it one of the "test features".
 */
OLE_API ole_status ole_classify_features(ole_feature_errors *errors, const ole_embedding *train,
                                         const ole_embedding *test,
                                         const ole_classify_options *options, ole_error *error);

/*
 * The k (1 to 1000) rows of `reference` with the largest cosine for each row of `query`, exactly:
 * their numbers into nearest[queries, k], by falling cosine (of equals the first row first), and
 * the cosines into cosine[queries, k], which may be NULL.  With `query` NULL the rows of
 * `reference`, of which none is its own neighbour.  Where there are fewer than k rows: -1 and NaN.
 * Labels are not read and may be NULL.  `callback` may be NULL; if it stops the search, the call
 * returns OLE_OK and what was found so far.
 */
OLE_API ole_status ole_nearest_rows(const ole_embedding *reference, const ole_embedding *query,
                                    int k, int threads, ole_part_callback *callback, void *context,
                                    int64_t *nearest, double *cosine, ole_error *error);

#ifdef __cplusplus
}
#endif
#endif
