/*
 * ole/verify.h - do two feature vectors show the same class?  The protocol of Labeled Faces in the
 * Wild: pairs of rows, their cosine, a threshold found on nine of ten folds and tested on the
 * tenth.
 *
 *     ole_pairs pairs;
 *     if (ole_pairs_read(&pairs, "pairs.txt", "names.txt", rows, 10, &error) != OLE_OK) ...
 *     ole_verification v;
 *     if (ole_verify(&v, rows, dim, OLE_F32, features, &pairs, NULL, NULL, &error) != OLE_OK) ...
 *     printf("accuracy %.2f +- %.2f %%, AUC %.4f\n", v.accuracy, v.accuracy_std, v.roc.auroc);
 *     ole_verification_free(&v);
 *     ole_pairs_free(&pairs);
 *
 * A file of pairs is one of two kinds, told apart by its first line:
 *
 *     0 17 1                     rows of the features, from 0, and whether they are the same (1)
 *     0 42 0                     or different (0)
 *
 *     10  300                    LFW's: folds, and pairs of each kind in a fold (folds may be left
 *     Ada_Lovelace  1  4         out: one); then for each fold the same ones, name and two numbers,
 *     Ada_Lovelace  1  Alan_Turing  2       and the different ones, two names with a number each
 *
 * Words are separated by spaces or tabs; empty lines and lines that begin with # do not count.  For
 * LFW's kind a list says whose picture each row is, one line a row, in the rows' order: a picture's
 * name, `Ada_Lovelace_0004.jpg` (folders before it and what follows the dot do not count), or
 * `Ada_Lovelace 4`.
 *
 * Pairs without folds of their own are dealt to the folds in turn, the same and the different ones
 * each for themselves, so that every fold has as many of each.
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
 * Reads the pairs of `rows` rows.  `names` is the list of LFW's kind; it must be NULL where
 * the pairs are rows.  `folds` (2 or more) is used where the file has none of its own.  What is
 * wrong with a file is OLE_ERROR_FORMAT with its name and the line.
 */
OLE_API ole_status ole_pairs_read(ole_pairs *pairs, const char *path, const char *names,
                                  int64_t rows, int folds, ole_error *error);
OLE_API void ole_pairs_free(ole_pairs *pairs);

/* Accuracies are in %. */
typedef struct ole_verification {
    int64_t count, same; /* pairs, and those that are the same */
    double accuracy;     /* mean over the folds */
    double accuracy_std; /* standard deviation over the folds (n - 1) */
    int folds;
    double *fold_accuracy;  /* [folds], at the threshold of the other folds */
    double *fold_threshold; /* [folds]: cosines at or over it are the same */
    double *score;          /* [count]: the cosine of each pair */
    ole_roc roc;            /* of all pairs; same is positive */
} ole_verification;

/*
 * `features` is [rows, dim] of OLE_F32 or OLE_F64.  The threshold of a fold lies between two scores
 * of the other folds, where most of their pairs are right; of several such places, at the lowest.
 * A row of zeros has the cosine 0 with everything; one with NaN or Inf in a pair is
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
