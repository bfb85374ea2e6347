/*
 * src/train/train.c - ole_train(): checks the options, fills in what the data decide, and makes
 * one run or one per seed.
 */
#include "train/options/options.h"
#include "train/ranks/rank_agreement.h"
#include "train/run/train_once.h"

#include <math.h>

ole_status ole_train(const ole_train_options *options, ole_train_summary *summary,
                     ole_error *error) {
    ole_train_options checked;
    ole_train_summary result;
    if (options && options->model) *options->model = NULL;
    ole_status status = ole_train_options_check(options, &checked, error);
    status = ole_ranks_agree(checked.ranks, status, error);
    ole_pretrained pretrained; /* options point into it */
    if (status == OLE_OK) status = ole_train_expect(&checked, &pretrained, error);
    if (status == OLE_OK)
        status = ole_ranks_agree(checked.ranks, ole_train_choose(&checked, error), error);
    if (status == OLE_OK) status = ole_agree_on_options(&checked, error);
    if (status == OLE_OK) {
        if (checked.seeds > 1) {
            status = ole_train_seeds(&checked, &result, error);
        } else {
            status = ole_train_once(&checked, 1, 1, &result, error);
            result.test_error_std = result.validation_error_std = result.knn1_error_std = NAN;
        }
    }
    if (status == OLE_OK && summary) *summary = result;
    return status;
}
