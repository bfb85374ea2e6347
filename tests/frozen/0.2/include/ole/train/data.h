/*
 * ole/train/data.h - labelled data: the paper's data sets in their authors' own files, image
 * folders, .npy arrays and the embedded digits; and batches of them, shuffled, augmented and
 * normalised.
 *
 * Example: one epoch of shuffled batches of the embedded digits.
 *
 *     ole_dataset *set;
 *     if (ole_dataset_open(&set, "digits", NULL, &error) != OLE_OK) return puts(error.message), 1;
 *     ole_loader_options options;
 *     ole_loader_options_init(&options);
 *     options.shuffle = true;
 *     ole_loader *loader;
 *     if (ole_loader_create(&loader, set, OLE_SPLIT_TRAIN, &options, &error) != OLE_OK)
 *         return puts(error.message), 1;
 *     ole_batch batch;
 *     for (int64_t b = 0; b < ole_loader_batches(loader); b++)
 *         if (ole_loader_get(loader, 0, b, &batch, &error) != OLE_OK) // epoch 0, batch b
 *             return puts(error.message), 1;
 *     ole_loader_destroy(loader);
 *     ole_dataset_close(set);
 *
 * A data set is named NAME[:PATH]: "digits", "cifar10", "stl10:/data/stl10_binary",
 * "folder:photos", "npy:X.npy,y.npy".  Without PATH the library searches $OLE_DATA/NAME, the cache
 * ($XDG_CACHE_HOME/ole/NAME or ~/.cache/ole/NAME) and the usual places; if it finds nothing, the
 * error lists them.
 *
 * The order of samples, crops and flips depends on (seed, epoch, position) alone: any batch can be
 * assembled again, in any order and with any number of threads.
 */
#ifndef OLE_TRAIN_DATA_H
#define OLE_TRAIN_DATA_H

#include "ole/base.h"

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Data sets ------------------------------------------------------------------------------ */

typedef struct ole_dataset ole_dataset;

typedef enum ole_split {
    OLE_SPLIT_TRAIN = 0,
    OLE_SPLIT_TEST = 1,
    OLE_SPLIT_VALIDATION = 2, /* what ole_dataset_options.validation holds out of training */
} ole_split;

/* An image that cannot be read, and why. */
typedef void ole_bad_image_callback(void *context, const char *path, const char *reason);

/* Samples per class below which ole_dataset_options.calibration holds nothing out. */
enum { OLE_CALIBRATION_SAMPLES = 20 };

/* Which samples to take. Fill with ole_dataset_options_init(). */
typedef struct ole_dataset_options {
    size_t struct_size;        /* set by init; see "Versions" in ole/base.h */
    double validation;         /* share of the training set to hold out, stratified; default 0 */
    int64_t samples_per_class; /* of the training set (after validation); 0: all */
    const char *classes;       /* "a,b,c": only these, by name or number, renumbered; NULL: all */
    uint64_t seed;             /* of the choices above */
    int resize;                /* folder: scale the shorter side, then centre crop; 0: keep */
    int channels;              /* folder: 1 grey, 3 colour; 0: as in the first image */
    bool skip_bad;             /* folder: skip and count unreadable images */
    double test_share;         /* folder, npy without a test part: share to hold out; default 0.2 */
    int threads;               /* folder: decode with this many; default 1 */
    bool skip_test;    /* leave the test split empty and its samples unused; default false */
    int resize_width;  /* folder: width, with `resize` as the height; 0 (default): square */
    const char *apart; /* folder: a path inside it that is no class, such as a run folder */
    ole_bad_image_callback
        *bad_image;          /* folder: called for every unreadable image, in order, even */
    void *bad_image_context; /* if the data set cannot be opened then; NULL: not */
    double
        calibration; /* as `validation`, if that and samples_per_class are 0 and every class has */
                     /* OLE_CALIBRATION_SAMPLES to train on; else nothing is held out. Default 0 */
    const char
        *align; /* folder: a .csv of landmarks, in the folder or elsewhere: scale, turn and */
                /* shift each image so that they come to lie at a template's; needs */
                /* `resize`. NULL or "": no */
    ole_bad_image_callback
        *passed_over; /* folder: called, with the context of bad_image and before it, for every */
                      /* file or folder that is no image of a class; NULL (default): not */
} ole_dataset_options;

OLE_API void ole_dataset_options_init_sized(ole_dataset_options *options, size_t struct_size);
static inline void ole_dataset_options_init(ole_dataset_options *options) {
    ole_dataset_options_init_sized(options, sizeof *options);
}

/* Sizes of image files, in pixels. */
typedef struct ole_image_sizes {
    int least_height, most_height, least_width, most_width;
} ole_image_sizes;

typedef struct ole_dataset_info {
    const char *name;
    int channels, height, width; /* vectors: D, 1, 1 */
    bool bytes;                  /* stored as bytes 0 to 255 (else as float) */
    int classes;
    const char *const *class_names; /* [classes] */
    int64_t count[3];               /* samples by ole_split */
    int64_t skipped;                /* unreadable images, with skip_bad */
    int64_t passed_over;            /* folder: files and folders whose names are not an image's */
    ole_image_sizes sizes;          /* folder: before resizing; 0 where unknown */
} ole_dataset_info;

/* `options` may be NULL for the defaults. */
OLE_API ole_status ole_dataset_open(ole_dataset **set, const char *name,
                                    const ole_dataset_options *options, ole_error *error);
OLE_API void ole_dataset_close(ole_dataset *set);
OLE_API const ole_dataset_info *ole_dataset_get_info(const ole_dataset *set);

/* Labels of a split, [count]. */
OLE_API const int32_t *ole_dataset_labels(const ole_dataset *set, ole_split split);

/*
 * The file of sample i of a split, relative to the folder: "cat/12.jpg".  NULL for data that are
 * not a folder of images, and on ranks that share another rank's samples.  The bytes are those of
 * the file system, which need not be UTF-8.
 */
OLE_API const char *ole_dataset_file_name(const ole_dataset *set, ole_split split, int64_t i);

/*
 * Which sample of its files sample i of a split is, from 0: the row of an array.  The samples that
 * the data set's authors keep for testing are counted apart.  -1 if there is no such sample.
 */
OLE_API int64_t ole_dataset_row(const ole_dataset *set, ole_split split, int64_t i);

/*
 * Sample i of a split without normalisation into `out`, [channels, height, width] floats: bytes
 * scaled to [0, 1], floats unchanged.
 */
OLE_API ole_status ole_dataset_sample(const ole_dataset *set, ole_split split, int64_t i,
                                      float *out, ole_error *error);

/*
 * Mean and standard deviation of the training split, over the values of ole_dataset_sample(): one
 * of each per channel; for vectors one for all elements.  The deviation of a constant is 1.
 */
OLE_API ole_status ole_dataset_statistics(const ole_dataset *set, float *mean, float *deviation,
                                          ole_error *error);

/* ---- Batches -------------------------------------------------------------------------------- */

enum { OLE_MAX_CHANNELS = 4 };

/* How to make batches. Fill with ole_loader_options_init(). */
typedef struct ole_loader_options {
    size_t struct_size; /* set by init; see "Versions" in ole/base.h */
    int64_t batch_size; /* default 64 */
    uint64_t seed;
    bool shuffle;   /* default false: in order */
    bool drop_last; /* drop the last, smaller batch; default false */
    int crop;       /* pad each side by this many black pixels, then crop at random; 0: no */
    bool flip;      /* mirror half of the images at random */
    float mean[OLE_MAX_CHANNELS];      /* x = (x - mean) / deviation, after augmentation; for */
    float deviation[OLE_MAX_CHANNELS]; /* vectors [0] applies to all; default 0 and 1 */
    int balanced_classes;              /* > 0: each batch has this many classes... */
    int balanced_samples; /* ...with this many samples each (batch_size is their product) */
    int threads;          /* that assemble batches ahead; 0: in the call */
    int part, parts; /* assemble only part `part` of each batch, of `parts` equal ones (the first */
                     /* have one sample more if they do not divide it); 0, 0: the whole batch */
    double
        resized_crop; /* scale a random part of the image to its full size: at least this share */
                      /* of its area, with sides of 3:4 to 4:3; 0: no */
    double rotate;    /* turn by up to this many degrees either way; corners are black; 0: no */
    double jitter;    /* bytes: multiply brightness, contrast and saturation by 1 - jitter to */
                      /* 1 + jitter each; 0: no */
    double erase;     /* with this probability, set a rectangle with sides of 1/8 to 1/2 of the */
                      /* image's to 0, after normalisation */
    int cutout; /* set a square of this side at a random place to 0, after normalisation; 0: no */
} ole_loader_options;

OLE_API void ole_loader_options_init_sized(ole_loader_options *options, size_t struct_size);
static inline void ole_loader_options_init(ole_loader_options *options) {
    ole_loader_options_init_sized(options, sizeof *options);
}

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

/* Batches per epoch, the same for every part. */
OLE_API int64_t ole_loader_batches(const ole_loader *loader);

/*
 * Batch `batch` of epoch `epoch`, or the loader's part of it (which may be empty), valid until the
 * next call.  A loader with threads assembles the following batches ahead.  A call from a second
 * thread meanwhile is OLE_ERROR_ARGUMENT.
 */
OLE_API ole_status ole_loader_get(ole_loader *loader, int64_t epoch, int64_t batch, ole_batch *out,
                                  ole_error *error);

/* ---- May still change: downloads ------------------------------------------------------------ */

typedef struct ole_known_file {
    const char *name; /* NULL ends a list */
    int64_t size;     /* bytes; 0: unknown */
    const char *md5;  /* 32 hexadecimal digits; NULL: unknown */
} ole_known_file;

/* A data set that its authors publish for download. */
typedef struct ole_known_dataset {
    const char *name;           /* as in ole_dataset_open() */
    const char *about;          /* its contents in one line */
    const char *page;           /* its authors' page */
    const char *terms;          /* licence, or the authors' request */
    const char *const *sources; /* folders to download from, in order of preference, NULL-ended */
    const ole_known_file *downloads; /* files, or one archive */
    const ole_known_file *files;     /* what the data set's folder holds in the end */
    int64_t train, test;             /* samples */
} ole_known_dataset;

/* All of them, first the embedded digits (which have neither sources nor files). */
OLE_API const ole_known_dataset *ole_known_datasets(size_t *count);

/* The folder that NAME[:PATH] is read from, "" for the digits; an error if there is none. */
OLE_API ole_status ole_dataset_locate(const char *name, char *path, size_t capacity,
                                      ole_error *error);

typedef struct ole_download_progress {
    const char *file;
    int64_t done, total; /* bytes; total is 0 while unknown */
} ole_download_progress;

/* Return true to stop; what has arrived is kept, and a later call resumes from there. */
typedef bool ole_download_callback(void *context, const ole_download_progress *progress);

/* Fill with ole_download_options_init(). */
typedef struct ole_download_options {
    size_t struct_size;   /* set by init; see "Versions" in ole/base.h */
    const char *folder;   /* destination; NULL: $OLE_DATA/NAME, else the cache */
    const char *source;   /* a folder (URL) to download from instead of the authors' */
    const char *checksum; /* of a URL: 32 (md5) or 64 (sha256) hexadecimal digits; NULL: none */
    int retries;          /* after a broken connection, each from where it broke; default 5 */
    int stall; /* seconds under 1 kB/s after which a connection counts as broken; default 60 */
    ole_download_callback *callback;
    void *callback_context;
    int64_t max_bytes; /* of a URL, and of all that its archive unpacks to; default 20e9 */
    int64_t max_files; /* entries in the archive of a URL; default 2,000,000 */
} ole_download_options;

OLE_API void ole_download_options_init_sized(ole_download_options *options, size_t struct_size);
static inline void ole_download_options_init(ole_download_options *options) {
    ole_download_options_init_sized(options, sizeof *options);
}

/*
 * Downloads a known data set, or the file of a URL (http or https; options.folder is then
 * required). A broken download is resumed, in this call or a later one.  A file counts as complete
 * only with the right checksum; tar.gz and zip archives are unpacked.  Existing files are kept; one
 * that differs from its namesake in the archive of a URL is an error.
 *
 * The files of known data sets have known sizes; the options limit what a URL delivers.  A redirect
 * from https to http is refused.
 */
OLE_API ole_status ole_dataset_download(const char *name_or_url,
                                        const ole_download_options *options, ole_error *error);

typedef enum ole_file_state {
    OLE_FILE_GOOD = 0,      /* size and checksum as published */
    OLE_FILE_UNCHECKED = 1, /* present; no checksum is known */
    OLE_FILE_DIFFERS = 2,   /* not as published: damaged, incomplete or another version */
    OLE_FILE_MISSING = 3,
    OLE_FILE_REPACKED = 4, /* compressed differently; the content is as published */
} ole_file_state;

typedef struct ole_file_check {
    const char *name;
    ole_file_state state;
    int64_t size;
    char md5[33]; /* "" if the file is missing */
} ole_file_check;

typedef void ole_check_callback(void *context, const ole_file_check *file);

/*
 * Compares the files of a known data set NAME[:PATH] with what its authors publish and calls
 * `callback` once per file.  The status is OLE_OK if the comparison ran, whatever its outcome.
 */
OLE_API ole_status ole_dataset_check(const char *name, ole_check_callback *callback, void *context,
                                     ole_error *error);

#ifdef __cplusplus
}
#endif
#endif
