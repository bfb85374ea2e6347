/*
 * ole/geometry.h - how labelled features lie in space: angles and spectra, inside classes and over
 * all of them.
 *
 *     ole_embedding e = {.rows = n, .dim = d, .dtype = OLE_F32, .features = x, .labels = y};
 *     ole_angles angles;
 *     if (ole_angles_measure(&angles, &e, NULL, &error) != OLE_OK) ...
 *     printf("between classes: median %.1f degrees\n", angles.between.median);
 *     ole_angles_free(&angles);
 *
 * Features are read block by block, so they may lie in a mapped file larger than the memory.  Rows
 * with a label < 0 are ignored.  NaN or Inf in a row that counts is OLE_ERROR_DATA and the message
 * names the row; no row that counts is OLE_ERROR_ARGUMENT.  Results do not depend on the number of
 * threads, bit for bit.
 */
#ifndef OLE_GEOMETRY_H
#define OLE_GEOMETRY_H

#include "ole/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Features with their labels, the caller's. */
typedef struct ole_embedding {
    int64_t rows;
    int64_t dim;
    ole_dtype dtype;       /* OLE_F32 or OLE_F64 */
    const void *features;  /* [rows, dim], contiguous */
    const int64_t *labels; /* [rows] */
} ole_embedding;

/* ---- Angles --------------------------------------------------------------------------------- */

/* Fill with ole_angles_options_init(). */
typedef struct ole_angles_options {
    size_t struct_size;
    int64_t sample;         /* rows compared at most, drawn at random; 0: all; default 10,000 */
    int64_t picture;        /* rows and columns of the picture at most; 0: none; default 500 */
    uint64_t seed;          /* of the sample; default 0 */
    int threads;            /* 1 to 1024; default 1 */
    ole_progress *progress; /* NULL (default): none */
    void *context;
} ole_angles_options;

OLE_API void ole_angles_options_init(ole_angles_options *options);

/* The angles of a kind of pairs, in degrees; NaN without pairs. Quantiles to 0.01 degrees. */
typedef struct ole_angle_summary {
    int64_t pairs;
    double mean, minimum, q05, q25, median, q75, q95, maximum;
} ole_angle_summary;

enum { OLE_ANGLE_BINS = 180 }; /* of one degree */

typedef struct ole_angles {
    int64_t rows;    /* compared, each with each */
    int64_t zeros;   /* drawn with them and left out: rows of zeros, which have no angle */
    int64_t of_rows; /* that both were drawn from */
    ole_angle_summary within, between; /* pairs of one class, pairs of different classes */
    int64_t within_bins[OLE_ANGLE_BINS], between_bins[OLE_ANGLE_BINS]; /* pairs, by degree */
    int64_t side;                                                      /* of the picture */
    float *picture; /* [side, side]: mean angle of the pairs in a cell; rows ordered by class */
    int64_t classes;
    int64_t *labels; /* [classes] of the rows compared, rising */
    int64_t *begins; /* [classes]: row of the picture where the class begins */
} ole_angles;

/*
 * The angles between all pairs of rows (as a vector of features points, 0 to 180), streamed: the
 * matrix of cosines is never held.  `options` may be NULL.  On failure there is nothing to free.
 */
OLE_API ole_status ole_angles_measure(ole_angles *angles, const ole_embedding *embedding,
                                      const ole_angles_options *options, ole_error *error);
OLE_API void ole_angles_free(ole_angles *angles);

/* ---- Spectra -------------------------------------------------------------------------------- */

/* The singular values of some rows. */
typedef struct ole_row_spectrum {
    int64_t label; /* of a class; -1: of all rows */
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
 * ole_singular_values(); beyond that they come from a Gram matrix in float64 summed block by block,
 * which is right to about 1e-8 of the largest singular value.  On failure nothing is to be freed.
 */
OLE_API ole_status ole_spectra_measure(ole_spectra *spectra, const ole_embedding *embedding,
                                       int threads, ole_error *error);
OLE_API void ole_spectra_free(ole_spectra *spectra);

#ifdef __cplusplus
}
#endif
#endif
