/*
 * ole/verify.h - do two feature vectors show the same class?  The protocol of Labeled Faces in the
 * Wild: pairs of rows, their cosine, and a threshold found on nine of ten folds and tested on the
 * tenth.
 *
 * Example: the verification accuracy of features.
 *
 *     ole_pairs pairs;
 *     if (ole_pairs_read(&pairs, "pairs.txt", "names.txt", rows, 10, &error) != OLE_OK)
 *         return puts(error.message), 1;
 *     ole_verification v;
 *     if (ole_verify(&v, rows, dim, OLE_F32, features, &pairs, NULL, NULL, &error) != OLE_OK)
 *         return puts(error.message), 1;
 *     printf("accuracy %.2f +- %.2f %%, AUC %.4f\n", v.accuracy, v.accuracy_std, v.roc.auroc);
 *     ole_verification_free(&v);
 *     ole_pairs_free(&pairs);
 *
 * A file of pairs has one of two formats, recognised by its first line.  Row numbers from 0, and
 * whether the pair is the same (1) or different (0):
 *
 *     0 17 1
 *     0 42 0
 *
 * Or LFW's: the number of folds (optional, 1 by default) and of pairs of each kind per fold; then
 * for each fold its same pairs, a name and two numbers, and its different pairs, two names with a
 * number each:
 *
 *     10  300
 *     Ada_Lovelace  1  4
 *     Ada_Lovelace  1  Alan_Turing  2
 *
 * Words are separated by spaces or tabs; empty lines and lines that begin with # are ignored.
 * LFW's format needs a list of the picture in each row, one line per row in row order: either a
 * file name, `Ada_Lovelace_0004.jpg` (folders and extension are ignored), or `Ada_Lovelace 4`.
 *
 * Pairs without folds of their own are dealt to the folds in turn, same and different pairs
 * separately, so that every fold has as many of each.
 */
#ifndef OLE_VERIFY_H
#define OLE_VERIFY_H

#include "ole/roc.h"

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ole_pair {
    int64_t a, b; /* rows */
    bool same;
    int fold;
} ole_pair;

typedef struct ole_pairs {
    int64_t count;
    int folds;
    ole_pair *pair; /* [count] */
} ole_pairs;

/*
 * Reads pairs of `rows` rows.  `names` is the list for LFW's format; it must be NULL for pairs of
 * row numbers.  `folds` (2 or more) applies if the file has none.  A malformed file is
 * OLE_ERROR_FORMAT with its name and the line.
 */
OLE_API ole_status ole_pairs_read(ole_pairs *pairs, const char *path, const char *names,
                                  int64_t rows, int folds, ole_error *error);

/*
 * Draws pairs from the labels of the rows, as many of one class as of two: all pairs of the rarer
 * kind, or `most` of each.  Rows with a label < 0 are in no pair.  The pairs are dealt to the folds
 * in turn; the same seed draws the same pairs.
 */
OLE_API ole_status ole_pairs_draw(ole_pairs *pairs, int64_t rows, const int64_t *labels,
                                  int64_t most, int folds, uint64_t seed, ole_error *error);

OLE_API void ole_pairs_free(ole_pairs *pairs);

/* Accuracies are in %. */
typedef struct ole_verification {
    int64_t count, same; /* pairs, and same pairs */
    double accuracy;     /* mean over the folds */
    double accuracy_std; /* standard deviation over the folds (n - 1) */
    int folds;
    double *fold_accuracy;  /* [folds], at the threshold of the other folds */
    double *fold_threshold; /* [folds]: pairs with a cosine at or over it count as the same */
    double *score;          /* [count]: the cosine of each pair */
    double threshold;       /* for new pairs: found as that of a fold, on all pairs */
    ole_roc roc;            /* of all pairs; same is positive */
} ole_verification;

/*
 * `features` is [rows, dim] of OLE_F32 or OLE_F64.  The threshold of a fold lies between two scores
 * of the other folds, where most of their pairs are right; among several such places it is the
 * lowest.  A row of zeros has cosine 0 with everything; NaN or Inf in a row of a pair is
 * OLE_ERROR_DATA.  `progress` may be NULL.
 */
OLE_API ole_status ole_verify(ole_verification *result, int64_t rows, int64_t dim, ole_dtype dtype,
                              const void *features, const ole_pairs *pairs, ole_progress *progress,
                              void *context, ole_error *error);
OLE_API void ole_verification_free(ole_verification *result);

#ifdef __cplusplus
}
#endif
#endif
