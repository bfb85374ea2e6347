/*
 * ole/train/evaluate.h - how well a trained model does on a data set.
 *
 * Example: the test error of a run on the embedded digits.
 *
 *     ole_model *model;
 *     ole_dataset *set;
 *     ole_evaluation e;
 *     if (ole_model_load(&model, "run", 1, &error) != OLE_OK ||
 *         ole_dataset_open(&set, "digits", NULL, &error) != OLE_OK ||
 *         ole_evaluate(&e, model, set, OLE_SPLIT_TEST, 1, &error) != OLE_OK)
 *         return puts(error.message), 1;
 *     printf("error %.2f %%, 1-NN %.2f %%\n", e.error, e.knn1_error);
 *     ole_evaluation_free(&e);
 */
#ifndef OLE_TRAIN_EVALUATE_H
#define OLE_TRAIN_EVALUATE_H

#include "ole/train/model.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Errors are in %; those that need a training split are NaN if the set has none. */
typedef struct ole_evaluation {
    int64_t count;
    double error;          /* of the classifier; NaN if it was not trained (ole/train/model.h) */
    double knn1_error;     /* of the nearest other training feature, by cosine */
    double subspace_error; /* of the class whose subspace of training features is nearest */
    int classes;
    int64_t *confusion; /* [classes, classes]: true class in rows, predicted in columns; NULL if */
                        /* the classifier was not trained */
    bool by_order;      /* no class name was known, so classes were matched by their order */
    bool interrupted;   /* by the callback: the rest is empty then */
} ole_evaluation;

/*
 * Runs the split through the model.  The set must have the model's shape and only classes of the
 * model, matched by name; if the model knows none of the names, as many classes, in the model's
 * order.  Class subspaces hold 95 % of their class's energy.  ole_model_watch() reports progress.
 * On failure, and when interrupted, there is nothing to free.
 */
OLE_API ole_status ole_evaluate(ole_evaluation *result, ole_model *model, const ole_dataset *set,
                                ole_split split, int threads, ole_error *error);

/*
 * The same, with the prediction of each sample, as by ole_model_predict(), in `predictions`, [count
 * of the split].  OLE_ERROR_UNSUPPORTED: the classifier was not trained.
 */
OLE_API ole_status ole_evaluate_each(ole_evaluation *result, ole_prediction *predictions,
                                     ole_model *model, const ole_dataset *set, ole_split split,
                                     int threads, ole_error *error);
OLE_API void ole_evaluation_free(ole_evaluation *result);

#ifdef __cplusplus
}
#endif
#endif
