/*
 * ole/classify.h - how well labelled features tell their classes apart, by classifiers that need
 * no training.
 *
 *     ole_embedding e = {.rows = n, .dim = d, .dtype = OLE_F32, .features = x, .labels = y};
 *     ole_feature_errors errors;
 *     if (ole_classify_features(&errors, &e, NULL, NULL, &error) == OLE_OK)
 *         printf("1-NN, each row against all others: %.2f %% wrong\n", errors.knn1);
 *
 * All of them look at directions, not at lengths:
 *
 * - 1-NN and k-NN: the neighbours with the largest cosine, found exactly; the label most of the k
 *   have (of equally many the smallest).
 * - nearest centroid: the class whose mean has the largest cosine.
 * - nearest subspace: the class whose principal subspace (ole/analyze.h) holds most of the row's
 *   energy.
 *
 * Without a test set each row is classified by all others: it is no neighbour of its own, its
 * class's mean is that of the others, and so is its class's subspace, exactly (by the secular
 * equation of a rank-one change, not by decomposing again).
 */
#ifndef OLE_CLASSIFY_H
#define OLE_CLASSIFY_H

#include "ole/geometry.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Fill with ole_classify_options_init(). */
typedef struct ole_classify_options {
    size_t struct_size;
    int k;                  /* neighbours of k-NN, 1 to 1000; default 5 */
    double energy;          /* share of a class's energy in its subspace, (0, 1]; default 0.95 */
    int64_t sample;         /* rows classified at most, drawn at random; 0: all; default 10,000 */
    uint64_t seed;          /* of the sample; default 0 */
    int threads;            /* 1 to 1024; default 1 */
    ole_progress *progress; /* NULL (default): none */
    void *context;
} ole_classify_options;

OLE_API void ole_classify_options_init(ole_classify_options *options);

/* Errors in %. A label that the training set lacks is always an error. */
typedef struct ole_feature_errors {
    int64_t references; /* rows that others are compared with: all that count */
    int64_t queries;    /* rows classified */
    int64_t of_queries; /* that they were drawn from */
    int k;
    double knn1, knn, centroid, subspace;
    double directions; /* of a class's subspace, mean over the classes */
} ole_feature_errors;

/*
 * Classifies the rows of `test` by those of `train`, or with `test` NULL those of `train`, each
 * left out in turn.  There must be two classes.  `options` may be NULL.  Errors as in
 * ole/geometry.h; the message about a row says "test features" where it is one of those.
 */
OLE_API ole_status ole_classify_features(ole_feature_errors *errors, const ole_embedding *train,
                                         const ole_embedding *test,
                                         const ole_classify_options *options, ole_error *error);

#ifdef __cplusplus
}
#endif
#endif
