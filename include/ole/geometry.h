/*
 * ole/geometry.h - how labelled features lie in space: angles and singular values, within classes
 * and over all of them.
 *
 * Example: the median angle between features of different classes.
 *
 *     ole_embedding e = {rows, dim, OLE_F32, features, labels};
 *     ole_angles angles;
 *     if (ole_angles_measure(&angles, &e, NULL, &error) != OLE_OK) return puts(error.message), 1;
 *     printf("between classes: median %.1f degrees\n", angles.between.median);
 *     ole_angles_free(&angles);
 *
 * Features are read block by block, so they may lie in a mapped file larger than memory.  Rows with
 * a label < 0 are ignored.  NaN or Inf in any other row is OLE_ERROR_DATA and the message names the
 * row; if every row is ignored, that is OLE_ERROR_ARGUMENT.  Results have the same bits for any
 * number of threads.
 */
#ifndef OLE_GEOMETRY_H
#define OLE_GEOMETRY_H

#include "ole/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Features with their labels, owned by the caller. */
typedef struct ole_embedding {
    int64_t rows;
    int64_t dim;
    ole_dtype dtype;       /* OLE_F32 or OLE_F64 */
    const void *features;  /* [rows, dim], contiguous */
    const int64_t *labels; /* [rows] */
} ole_embedding;

/* logits = W h + b, owned by the caller. */
typedef struct ole_linear_classifier {
    int64_t classes;
    int64_t dim;
    const float *weight; /* [classes, dim]; NULL: only logits are known (ole/novelty.h) */
    const float *bias;   /* [classes]; NULL: 0 */
} ole_linear_classifier;

/* ---- Spectra -------------------------------------------------------------------------------- */

/* The singular values of all rows, or of one class. */
typedef struct ole_row_spectrum {
    int64_t label; /* of the class; -1: all rows */
    int64_t rows;
    int64_t count;         /* min(rows, dim) */
    double *sigma;         /* [count], falling */
    double norm;           /* the nuclear norm, their sum */
    double effective_rank; /* as ole_effective_rank() of ole/analyze.h */
} ole_row_spectrum;

/* The spectra, and the OLE loss that follows from them (ole/loss.h, Δ = 1, mean over rows). */
typedef struct ole_spectra {
    ole_row_spectrum all;
    int64_t classes;
    ole_row_spectrum *of; /* [classes], by rising label */
    double loss;          /* (class_term - global_norm) / rows */
    double class_term;    /* sum_c max(1, ‖X_c‖_*) */
    double global_norm;   /* ‖X‖_* */
} ole_spectra;

/*
 * The spectra of all rows and of each class.  Up to 16 million elements they are those of
 * ole_singular_values(); beyond that they come from a float64 Gram matrix summed block by block,
 * accurate to about 1e-8 of the largest singular value.  On failure there is nothing to free.
 */
OLE_API ole_status ole_spectra_measure(ole_spectra *spectra, const ole_embedding *embedding,
                                       int threads, ole_error *error);
OLE_API void ole_spectra_free(ole_spectra *spectra);

/* ---- Angles --------------------------------------------------------------------------------- */

/* Fill with ole_angles_options_init(). */
typedef struct ole_angles_options {
    size_t struct_size;
    int64_t sample;  /* compare at most this many rows, drawn at random; 0: all; default 10,000 */
    int64_t picture; /* rows and columns of the picture, at most; 0: no picture; default 500 */
    uint64_t seed;   /* of the sample; default 0 */
    int threads;     /* 1 to 1024; default 1 */
    ole_progress *progress; /* NULL (default): none */
    void *context;
} ole_angles_options;

OLE_API void ole_angles_options_init_sized(ole_angles_options *options, size_t struct_size);
static inline void ole_angles_options_init(ole_angles_options *options) {
    ole_angles_options_init_sized(options, sizeof *options);
}

/* Angles of one kind of pairs, in degrees; NaN without pairs. Quantiles are to 0.01 degrees. */
typedef struct ole_angle_summary {
    int64_t pairs;
    double mean, minimum, q05, q25, median, q75, q95, maximum;
} ole_angle_summary;

enum { OLE_ANGLE_BINS = 180 }; /* of one degree */

typedef struct ole_angles {
    int64_t rows;    /* compared, each with every other */
    int64_t zeros;   /* rows of zeros in the sample, excluded: they have no angle */
    int64_t of_rows; /* rows the sample was drawn from */
    ole_angle_summary within, between; /* pairs of one class, pairs of different classes */
    int64_t within_bins[OLE_ANGLE_BINS], between_bins[OLE_ANGLE_BINS]; /* pairs per degree */
    int64_t side;                                                      /* of the picture */
    float *picture; /* [side, side]: mean angle of the pairs in a cell; rows ordered by class */
    int64_t classes;
    int64_t *labels; /* [classes] of the compared rows, rising */
    int64_t *begins; /* [classes]: row of the picture where the class begins */
} ole_angles;

/*
 * The angles between all pairs of rows (feature vectors as directions, 0 to 180 degrees), streamed:
 * the matrix of cosines is never stored.  `options` may be NULL.  On failure there is nothing to
 * free.
 */
OLE_API ole_status ole_angles_measure(ole_angles *angles, const ole_embedding *embedding,
                                      const ole_angles_options *options, ole_error *error);
OLE_API void ole_angles_free(ole_angles *angles);

#ifdef __cplusplus
}
#endif
#endif
