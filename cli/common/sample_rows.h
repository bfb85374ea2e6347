/*
 * cli/common/sample_rows.h - the rows of an array or a table as samples of a model, also where the
 * table holds the labels too.
 */
#ifndef OLE_CLI_COMMON_SAMPLE_ROWS_H
#define OLE_CLI_COMMON_SAMPLE_ROWS_H

#include <ole/train/model.h>

/*
 * As ole_model_read_npy().  A .csv file with one column more than the model takes is read without
 * that of the labels, which is reported: the one by the name it had in training, if `model_path` is
 * a run with such a table, or else the only one with a word in every row.
 */
ole_status read_sample_rows(const char *command, const ole_model *model, const char *model_path,
                            const char *path, float **samples, int64_t *count, ole_error *error);

#endif
