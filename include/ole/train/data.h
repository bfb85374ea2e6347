/*
 * ole/train/data.h - labelled data: the sets of the paper in their authors' own files, image
 * folders, .npy arrays and the embedded digits; and batches of them, shuffled, augmented and
 * normalised.
 *
 * A data set is named NAME[:PATH], e.g. "digits", "cifar10", "stl10:/data/stl10_binary",
 * "folder:photos", "npy:X.npy,y.npy".  Without PATH: $OLE_DATA/NAME, the cache
 * ($XDG_CACHE_HOME/ole/NAME or ~/.cache/ole/NAME), the usual places, then an error that lists what
 * was sought.
 *
 *     ole_dataset *set;
 *     ole_dataset_open(&set, "digits", NULL, &error);
 *     ole_loader_options options;
 *     ole_loader_options_init(&options);
 *     options.batch_size = 64;
 *     ole_loader *loader;
 *     ole_loader_create(&loader, set, OLE_SPLIT_TRAIN, &options, &error);
 *     ole_batch batch;
 *     for (int64_t b = 0; b < ole_loader_batches(loader); b++)
 *         ole_loader_get(loader, 0, b, &batch, &error); // epoch 0, batch b
 *     ole_loader_destroy(loader);
 *     ole_dataset_close(set);
 *
 * The order of samples, crops and flips follow from (seed, epoch, position) alone: any batch can be
 * asked for again, whatever was asked before and however many threads assemble them.
 */
#ifndef OLE_TRAIN_DATA_H
#define OLE_TRAIN_DATA_H

#include "ole/base.h"

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ole_dataset ole_dataset;

typedef enum ole_split {
    OLE_SPLIT_TRAIN = 0,
    OLE_SPLIT_TEST = 1,
    OLE_SPLIT_VALIDATION = 2, /* what ole_dataset_options.validation took out of the training set */
} ole_split;

/* What is taken from a data set. Fill with ole_dataset_options_init(). */
typedef struct ole_dataset_options {
    size_t struct_size;
    double validation;         /* share of the training set held out, stratified; default 0 */
    int64_t samples_per_class; /* of the training set (after validation); 0: all */
    const char *classes;       /* "a,b,c": only these, by name or number, renumbered; NULL: all */
    uint64_t seed;             /* of the choices above */
    int resize;                /* folder: the shorter side, then a centre crop of it; 0: as it is */
    int channels;              /* folder: 1 grey, 3 colour; 0: as the first image is */
    bool skip_bad;             /* folder: leave out unreadable images, count them */
    double test_share;         /* folder, npy without a test part: share held out; default 0.2 */
    int threads;               /* folder: that decode images; default 1 */
    bool skip_test;            /* the test split stays empty, its samples unused; default false */
    int resize_width;          /* folder: makes `resize` the height alone; 0 (default): of both */
    const char *apart;         /* folder: a path in it that is no class, as of a run; or NULL */
} ole_dataset_options;

OLE_API void ole_dataset_options_init(ole_dataset_options *options);

/* Of image files, in pixels. */
typedef struct ole_image_sizes {
    int least_height, most_height, least_width, most_width;
} ole_image_sizes;

typedef struct ole_dataset_info {
    const char *name;
    int channels, height, width; /* vectors: D, 1, 1 */
    bool bytes;                  /* stored as bytes 0 to 255 (else as float) */
    int classes;
    const char *const *class_names; /* [classes] */
    int64_t count[3];               /* by ole_split */
    int64_t skipped;                /* images left out by skip_bad */
    int64_t passed_over;            /* folder: files and folders that are not called as images */
    ole_image_sizes sizes; /* folder: of the images before they are resized; 0 where not known */
} ole_dataset_info;

OLE_API ole_status ole_dataset_open(ole_dataset **set, const char *name,
                                    const ole_dataset_options *options, ole_error *error);
OLE_API void ole_dataset_close(ole_dataset *set);
OLE_API const ole_dataset_info *ole_dataset_get_info(const ole_dataset *set);

/* Labels of a split, [count]. */
OLE_API const int32_t *ole_dataset_labels(const ole_dataset *set, ole_split split);

/*
 * Sample i of a split, unnormalised: bytes scaled to [0, 1], floats as they are;
 * [channels, height, width] floats into `out`.
 */
OLE_API ole_status ole_dataset_sample(const ole_dataset *set, ole_split split, int64_t i,
                                      float *out, ole_error *error);

/*
 * Mean and standard deviation of the training split, of the values that ole_dataset_sample gives:
 * one each a channel; for vectors one for all elements.  The deviation of a constant is given as 1.
 */
OLE_API ole_status ole_dataset_statistics(const ole_dataset *set, float *mean, float *deviation,
                                          ole_error *error);

enum { OLE_MAX_CHANNELS = 4 };

/* How batches are made. Fill with ole_loader_options_init(). */
typedef struct ole_loader_options {
    size_t struct_size;
    int64_t batch_size; /* default 64 */
    uint64_t seed;
    bool shuffle;   /* default false: in order */
    bool drop_last; /* leave out the last, smaller batch; default false */
    int crop;       /* pad by this many black pixels on each side, then a random crop; 0: no */
    bool flip;      /* mirror half of the images at random */
    float mean[OLE_MAX_CHANNELS];      /* x = (x - mean) / deviation, after augmentation; for */
    float deviation[OLE_MAX_CHANNELS]; /* vectors [0] holds for all; default 0 and 1 */
    int balanced_classes;              /* > 0: each batch has this many classes... */
    int balanced_samples; /* ...with this many samples each (batch_size is their product) */
    int threads;          /* that assemble batches ahead; 0: in the call */
    int part, parts; /* only part `part` of each batch is assembled, of `parts` equal ones (the */
                     /* first have one sample more where it does not divide); 0, 0: all of it */
} ole_loader_options;

OLE_API void ole_loader_options_init(ole_loader_options *options);

typedef struct ole_loader ole_loader;

typedef struct ole_batch {
    int64_t count;
    const float *images;    /* [count, channels, height, width], normalised */
    const int32_t *labels;  /* [count] */
    const int64_t *indices; /* [count] sample numbers in the split */
} ole_batch;

OLE_API ole_status ole_loader_create(ole_loader **loader, const ole_dataset *set, ole_split split,
                                     const ole_loader_options *options, ole_error *error);
OLE_API void ole_loader_destroy(ole_loader *loader);

/* Batches of an epoch, the same for every part of them. */
OLE_API int64_t ole_loader_batches(const ole_loader *loader);

/*
 * Batch `batch` of epoch `epoch`, or the loader's part of it (which may have no samples), valid
 * until the next call.  The batches that follow it are assembled ahead where the loader has
 * threads.  One call at a time: another thread's meanwhile is an OLE_ERROR_ARGUMENT.
 */
OLE_API ole_status ole_loader_get(ole_loader *loader, int64_t epoch, int64_t batch, ole_batch *out,
                                  ole_error *error);

/* ---- Getting data sets --------------------------------------------------------------------- */

typedef struct ole_known_file {
    const char *name; /* NULL ends a list */
    int64_t size;     /* bytes; 0: not known */
    const char *md5;  /* 32 hexadecimal digits; NULL: not known */
} ole_known_file;

/* A data set that can be fetched from where its authors publish it. */
typedef struct ole_known_dataset {
    const char *name;           /* as in ole_dataset_open() */
    const char *about;          /* one line: what it holds */
    const char *page;           /* its authors' page */
    const char *terms;          /* licence, or what the authors ask for */
    const char *const *sources; /* folders to download from, tried in their order; NULL ends them */
    const ole_known_file *downloads; /* files, or one archive */
    const ole_known_file *files;     /* what lies in the data set's folder in the end */
    int64_t train, test;             /* samples of it */
} ole_known_dataset;

/* All of them, the embedded digits first (which have neither sources nor files). */
OLE_API const ole_known_dataset *ole_known_datasets(size_t *count);

/* The folder that NAME[:PATH] is read from, "" for the digits; an error when it is nowhere. */
OLE_API ole_status ole_dataset_locate(const char *name, char *path, size_t capacity,
                                      ole_error *error);

/* What a callback sees during a download. */
typedef struct ole_download_progress {
    const char *file;
    int64_t done, total; /* bytes; total is 0 while it is not known */
} ole_download_progress;

/* Return true to stop; what has arrived is kept and a later call goes on from there. */
typedef bool ole_download_callback(void *context, const ole_download_progress *progress);

/* Fill with ole_download_options_init(). */
typedef struct ole_download_options {
    size_t struct_size;
    const char *folder;   /* where the files go; NULL: $OLE_DATA/NAME, else the cache */
    const char *source;   /* a folder (URL) to download from instead of the authors' */
    const char *checksum; /* of a URL: 32 (md5) or 64 (sha256) hexadecimal digits; NULL: none */
    int retries;          /* after a broken connection, each from where it broke; default 5 */
    ole_download_callback *callback;
    void *callback_context;
    int64_t max_bytes; /* of a URL, and of all that its archive unpacks to; default 20e9 */
    int64_t max_files; /* entries in the archive of a URL; default 2,000,000 */
    int stall; /* seconds after which a connection under 1 kB/s counts as broken; default 60 */
} ole_download_options;

OLE_API void ole_download_options_init(ole_download_options *options);

/*
 * Fetches a known data set, or the file of a URL (http or https; then options.folder must be
 * given). A broken download is resumed, here and in a later call; a file counts as there only with
 * the right checksum; tar.gz and zip archives are unpacked.  Files that are there already are kept:
 * one that differs from what the archive of a URL holds under its name is an error.
 *
 * Files of known data sets have known sizes; what a URL delivers is limited by the options.  A
 * redirect from https to http is refused.
 */
OLE_API ole_status ole_dataset_download(const char *name_or_url,
                                        const ole_download_options *options, ole_error *error);

typedef enum ole_file_state {
    OLE_FILE_GOOD = 0,      /* size and checksum as published */
    OLE_FILE_UNCHECKED = 1, /* there; no checksum is known */
    OLE_FILE_DIFFERS = 2,   /* not as published: damaged, or a part or another version of it */
    OLE_FILE_MISSING = 3,
} ole_file_state;

typedef struct ole_file_check {
    const char *name;
    ole_file_state state;
    int64_t size;
    char md5[33]; /* "" when the file is missing */
} ole_file_check;

typedef void ole_check_callback(void *context, const ole_file_check *file);

/*
 * Compares the files of a known data set NAME[:PATH] with what its authors publish, one call of
 * `callback` each.  The status tells whether that could be done, not what came out.
 */
OLE_API ole_status ole_dataset_check(const char *name, ole_check_callback *callback, void *context,
                                     ole_error *error);

#ifdef __cplusplus
}
#endif
#endif
