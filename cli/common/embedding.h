/* cli/common/embedding.h - features and labels from two .npy files, checked against each other. */
#ifndef OLE_CLI_COMMON_EMBEDDING_H
#define OLE_CLI_COMMON_EMBEDDING_H

#include <ole/linalg.h>
#include <ole/npy.h>

typedef struct embedding {
    int64_t rows;
    int64_t dim;
    ole_dtype dtype;       /* OLE_F32 or OLE_F64 */
    const void *features;  /* [rows, dim]; in the file's map where it can be used as it is */
    const int64_t *labels; /* [rows]; NULL without a file of labels */

    ole_npy *feature_file; /* private from here on */
    ole_npy *label_file;
    void *feature_copy;
    void *label_copy;
} embedding;

/* Who reads, and how. */
typedef struct embedding_reader {
    const char *command; /* in whose name errors are explained on stderr */
    bool converts;       /* it has --dtype */
    bool keeps_all;      /* rows with a label < 0 count as well */
    ole_dtype dtype;     /* to compute in; 0: that of the file (float32 for float16) */
} embedding_reader;

/*
 * Opens both, or without `label_path` (NULL) the features alone.  False after an error that was
 * explained; close it either way.
 */
bool embedding_open(embedding *e, const embedding_reader *reader, const char *feature_path,
                    const char *label_path);
void embedding_close(embedding *e);

/* ole_effective_rank() of a matrix's singular values. */
ole_status matrix_effective_rank(const ole_matrix *matrix, int threads, double *rank,
                                 ole_error *error);

#endif
