/*
 * cli/common/input_file.h - features or labels from a file of any kind that people have:
 *
 *     X.npy                          an array
 *     data.npz, data.npz:name        the first array of an archive, or the one of that name
 *     data.csv, data.csv:column      a table with commas; one column of it, by name or number
 *     labels.txt                     one label per line
 *
 * Numbers of .npy and .npz files stay in an ole_npy; everything else is cells of text.
 */
#ifndef OLE_CLI_COMMON_INPUT_FILE_H
#define OLE_CLI_COMMON_INPUT_FILE_H

#include <ole/npy.h>

typedef struct input_file {
    ole_npy *npy; /* NULL: cells of text */
    int64_t rows, columns;
    const char **cells; /* [rows, columns] */
    int64_t first_line; /* the line of row 0, from 1 on; 0: the rows are not lines */
    char *text;         /* private: what the cells point into */
} input_file;

/*
 * Opens features, without the column that `labels` (or NULL) names in the same table; or, where
 * `features` is NULL, labels.  False, with an error; close it either way.
 */
bool input_file_open(input_file *file, const char *features, const char *labels, ole_error *error);
void input_file_close(input_file *file);

#endif
