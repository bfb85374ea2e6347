/*
 * src/features/classes.h - checks an embedding, groups its rows by class, and draws samples of
 * them. Rows with a label < 0 are ignored throughout.
 */
#ifndef OLE_SRC_FEATURES_CLASSES_H
#define OLE_SRC_FEATURES_CLASSES_H

#include "base/export.h"
#include "base/pool.h"
#include "linalg/unit_rows.h"
#include "ole/geometry.h"

#include <stdbool.h>

typedef struct ole_classes {
    int64_t rows; /* not ignored */
    int64_t classes;
    int64_t *order; /* [rows]: rows of the embedding by (label, row) */
    int64_t *begin; /* [classes + 1]: class c is order[begin[c]] to order[begin[c + 1] - 1] */
    int64_t *label; /* [classes], rising */
} ole_classes;

/* Groups the rows, of which there may be none. On failure there is nothing to free. */
OLE_INTERNAL ole_status ole_classes_create(ole_classes *classes, int64_t rows,
                                           const int64_t *labels, ole_error *error);
OLE_INTERNAL void ole_classes_destroy(ole_classes *classes);

/* Checks pointers, sizes and types; `who` is the public function that was called. */
ole_status ole_embedding_check(const char *who, const ole_embedding *embedding, int threads,
                               ole_error *error);

/* An error names the first row with NaN or Inf. */
ole_status ole_classes_check_finite(const ole_classes *classes, const ole_embedding *embedding,
                                    ole_pool *pool, ole_error *error);

/* Whether none of n numbers is NaN or Inf. */
bool ole_finite_f32(const float *x, int64_t n);
bool ole_finite_f64(const double *x, int64_t n);

/* The same of a row. */
OLE_INTERNAL bool ole_embedding_is_finite(const ole_embedding *embedding, int64_t row);

/* All of the above, and creates a pool; an error if every row is ignored. */
OLE_INTERNAL ole_status ole_classes_open(ole_classes *classes, ole_pool **pool, const char *who,
                                         const ole_embedding *embedding, int threads,
                                         ole_error *error);
OLE_INTERNAL void ole_classes_close(ole_classes *classes, ole_pool *pool);

/* The class of a label, -1 for an unknown one. */
OLE_INTERNAL int64_t ole_classes_find(const ole_classes *classes, int64_t label);

/* Rows of an embedding by their numbers. */
OLE_INTERNAL ole_row_set ole_embedding_rows(const ole_embedding *embedding, const int64_t *index,
                                            int64_t rows);

/*
 * Draws `limit` of the positions 0 to count - 1 (all of them for a limit of 0 or over count),
 * rising, into `chosen`, which has room for ole_sample_size().
 */
OLE_INTERNAL int64_t ole_sample_size(int64_t count, int64_t limit);
OLE_INTERNAL void ole_sample_draw(int64_t count, int64_t limit, uint64_t seed, int64_t *chosen);

#endif
