/*
 * src/formats/input.h - features and labels from the kinds of files people have, for every command
 * and for npy: data sets:
 *
 *     X.npy                          an array
 *     data.npz, data.npz:name        the first array of an archive, or the one of that name
 *     data.csv, data.csv:column      a table with commas; one column of it, by name or number
 *     labels.txt                     one label per line
 */
#ifndef OLE_SRC_FORMATS_INPUT_H
#define OLE_SRC_FORMATS_INPUT_H

#include "base/export.h"
#include "ole/npy.h"

#include <limits.h>

/* The file of "data.csv:column" or "data.npz:name" into `file`; what follows the ':', or NULL. */
OLE_INTERNAL const char *ole_input_file(const char *path, char file[PATH_MAX]);

/* Whether the name is that of an array or a table: .npy, .npz or .csv. */
OLE_INTERNAL bool ole_input_is_array(const char *path);

/*
 * Opens features: an array of numbers, a table as float64 [rows, columns] without the column that
 * `labels` (or NULL) names in the same file.
 */
OLE_INTERNAL ole_status ole_features_open(ole_npy **features, const char *path, const char *labels,
                                          ole_error *error);

/* The one column of a .csv file that holds a word in every row, from 1 on; 0: not exactly one.
 * *columns: how many there are; 0: no table. */
OLE_INTERNAL int64_t ole_table_word_column(const char *path, int64_t *columns);

/* Labels: whole numbers, or words, which are counted in their sorted order. */
typedef struct ole_labels {
    int64_t count;
    int64_t *values;    /* [count] */
    int64_t classes;    /* different words; 0: the labels are numbers */
    const char **names; /* [classes], sorted: label i is names[i]; NULL: the labels are numbers */
    char *text;         /* private: what the names point into */
} ole_labels;

/* Reads one label for each of the `rows` of the features at `of`.  Free them after a failure too.
 */
OLE_INTERNAL ole_status ole_labels_read(ole_labels *labels, const char *path, int64_t rows,
                                        const char *of, ole_error *error);
OLE_INTERNAL void ole_labels_free(ole_labels *labels);

/* Gives a label of both the same meaning; words and numbers do not go together. */
OLE_INTERNAL ole_status ole_labels_unite(ole_labels *a, ole_labels *b, ole_error *error);

/* "(3, 4)", a shape as Python writes it, for messages; returns `out`. */
enum { OLE_SHAPE_ROOM = 256 };
OLE_INTERNAL const char *ole_shape_text(char out[OLE_SHAPE_ROOM], int ndim, const int64_t *shape);

#endif
