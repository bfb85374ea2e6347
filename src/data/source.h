/*
 * src/data/source.h - the result of a reader: all samples of a data set, in memory, with labels.
 *
 * A reader turns files into one ole_source: the training samples first, the test samples behind
 * them.  Everything after that (splits, classes, batches) is the same for all formats.
 */
#ifndef OLE_SRC_DATA_SOURCE_H
#define OLE_SRC_DATA_SOURCE_H

#include "ole/train/data.h"

typedef struct ole_source {
    int channels, height, width; /* vectors: D, 1, 1 */
    bool floating;               /* samples are in `floats`, else in `bytes` */
    int classes;
    char **class_names; /* [classes] */
    int64_t count;
    int64_t train_count; /* the first ones; the rest is the test part */
    bool has_test;       /* there is a test part, empty or not */
    double test_share;   /* to hold out of the training part where there is no test part */
    uint8_t *bytes;      /* [count, channels, height, width] */
    float *floats;
    int32_t *labels;       /* [count], 0 to classes - 1 */
    int64_t skipped;       /* unreadable images */
    int64_t passed_over;   /* folder: entries of class folders whose names are not an image's */
    ole_image_sizes sizes; /* folder: of the others, as their files have them */
    char **files;          /* folder: [file_count] paths, first those of the samples; or NULL */
    int64_t file_count;
    size_t folder_length; /* of the folder that all of them start with, the slash included */
    void *map; /* the mapping that holds the samples (shared.h); NULL: they are our own */
    size_t map_bytes;
} ole_source;

/* `path` is the folder that has the probe, or what follows NAME: (NULL: nothing does). */
typedef ole_status ole_read_function(const char *path, const ole_dataset_options *options,
                                     ole_source *source, ole_error *error);

/* The shape of the samples, from the headers of their files; unreadable images are skipped. */
typedef struct ole_probe {
    int channels, height, width; /* vectors: D, 1, 1; folders: as the first readable image */
    int side;                    /* folders: the median of the images' shorter sides; else 0 */
    bool sizes_differ;           /* folders: not all images have the size above */
    bool channels_differ;        /* folders: some images are grey, some coloured */
    int64_t samples;             /* folders, npy: of the training part; else 0 */
    bool has_test;               /* folders, npy: there is a test part */
    int classes;                 /* folders; else 0 */
} ole_probe;

/* `apart` as in ole_dataset_options. */
typedef ole_status ole_probe_function(const char *path, const char *apart, ole_probe *probe,
                                      ole_error *error);
ole_probe_function ole_dataset_probe; /* `path` is the name of a data set */
ole_probe_function ole_probe_folder, ole_probe_npy;

/* File `number` of a part, open; its samples go behind those that the source has. */
struct ole_stream;
typedef ole_status ole_file_function(struct ole_stream *stream, int number, ole_source *source,
                                     ole_error *error);

enum { OLE_PART_FILES = 8 };

/* A format: where its files lie and how to read them. */
typedef struct ole_reader {
    const char *name;
    ole_read_function *read; /* searches for files itself; NULL: these say what there is */
    ole_file_function *read_file;
    const char *train[OLE_PART_FILES], *test[OLE_PART_FILES]; /* the first file marks the folder */
    const char *folder; /* the subfolder they may also lie in, as archives unpack; or NULL */
    int shape[3];       /* channels, height, width; 0: `probe_shape` tells, given the same path */
    int classes;
    const char *const *class_names; /* NULL: "0", "1", ... */
    ole_probe_function *probe_shape;
} ole_reader;

/* Elements of one sample. */
int64_t ole_source_sample_size(const ole_source *source);

/* Samples from `first` on as floats, bytes as 0 to 1. */
void ole_source_as_floats(const ole_source *source, int64_t first, int64_t count, float *out);

/* Makes room for `more` samples and counts them; the shape must be set. */
ole_status ole_source_grow(ole_source *source, int64_t more, ole_error *error);

/* Three square planes from column by column to row by row. */
void ole_transpose_planes(const uint8_t *columns, int side, uint8_t *rows);

/* Room for `classes` names, all NULL; each is to be set by ole_source_name_class(). */
ole_status ole_source_set_classes(ole_source *source, int classes, ole_error *error);
ole_status ole_source_name_class(ole_source *source, int index, const char *name, ole_error *error);

/* The same for a fixed list; a NULL list names them "0", "1", ... */
ole_status ole_source_name_all(ole_source *source, int classes, const char *const *names,
                               ole_error *error);

void ole_source_free(ole_source *source);

extern const ole_reader ole_digits, ole_mnist, ole_fashion_mnist, ole_svhn, ole_cifar10,
    ole_cifar100, ole_stl10;
ole_read_function ole_read_folder, ole_read_npy;

/* One array's samples behind those that the source has, which must be alike; labels are not set. Of
 * a table without the column that `labels` (or NULL) names in it. */
ole_status ole_read_npy_samples(const char *path, const char *labels, ole_source *source,
                                ole_error *error);

#endif
