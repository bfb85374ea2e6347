/*
 * cli/common/embedding.h - features and labels from files of any kind (formats/input.h), for the
 * commands that take them: both are checked, and errors explained on stderr.
 */
#ifndef OLE_CLI_COMMON_EMBEDDING_H
#define OLE_CLI_COMMON_EMBEDDING_H

#include "common/args.h"

#include "formats/input.h"
#include "formats/json.h"
#include <ole/analyze.h>

typedef struct embedding {
    int64_t rows;
    int64_t dim;
    ole_dtype dtype;       /* OLE_F32 or OLE_F64 */
    const void *features;  /* [rows, dim]; in the file's map where it can be used as it is */
    const int64_t *labels; /* [rows]; NULL without a file of labels */
    const char **names;    /* [classes]: the words that labels count; NULL: labels are numbers */
    int64_t classes;

    ole_npy *file; /* private from here on */
    void *copy;
    ole_labels read;
} embedding;

/* Rows of a command's tables. */
#define FEATURES_POSITIONAL(variable)                                                              \
    { "FEATURES.npy", variable, "[rows, dimensions], as .npy, .npz or .csv" }
#define LABELS_POSITIONAL(variable)                                                                \
    {                                                                                              \
        "LABELS.npy", variable,                                                                    \
            "[rows], numbers or words, as .npy, .npz, .txt or FILE.csv:COLUMN; rows with a label " \
            "< 0 are ignored"                                                                      \
    }
#define DTYPE_OPTION(variable)                                                                     \
    {                                                                                              \
        "dtype", OLE_CHOICE, variable, "auto|float32|float64",                                     \
            .help = "type to compute in (default auto: the file's)"                                \
    }

enum { DTYPE_AUTO, DTYPE_FLOAT32, DTYPE_FLOAT64 };

/* Who reads, and how. */
typedef struct embedding_reader {
    const char *command; /* in whose name errors are explained on stderr */
    bool converts;       /* it has --dtype */
    int dtype;           /* its choice; DTYPE_AUTO: the file's type (float32 for float16) */
    bool keeps_all;      /* rows with a label < 0 count as well */
} embedding_reader;

/*
 * Opens both, or without `label_path` (NULL) the features alone.  False after an error that was
 * explained; close it either way.
 */
bool embedding_open(embedding *e, const embedding_reader *reader, const char *feature_path,
                    const char *label_path);
void embedding_close(embedding *e);

ole_embedding embedding_view(const embedding *e);

/* Explains an error of a call on the features: of their numbers with the file's name before it.
 * Returns EXIT_FAILED. */
int embedding_fail(const char *command, const char *path, const ole_error *error);

/* The first of `count` rows of `dim` numbers that holds NaN or Inf; -1: none. */
int64_t embedding_bad_row(const float *rows, int64_t count, int64_t dim);

/* Gives a label of both the same meaning; call it once both are open.  False after an error. */
bool embedding_share_names(embedding *e, embedding *other, const char *command);

/* What a label is called: its word, else the number, in `room`. */
enum { LABEL_ROOM = 24 };
const char *embedding_label(const embedding *e, int64_t label, char room[LABEL_ROOM]);

/* Which classes overlap most, as text (the first OVERLAPS_PRINTED) and as "principal_angles". */
enum { OVERLAPS_PRINTED = 5 };
void print_overlaps(const embedding *e, const ole_overlap *pairs, int64_t count);
void json_overlaps(ole_json *w, const ole_overlap *pairs, int64_t count);

#endif
