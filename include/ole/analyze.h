/*
 * ole/analyze.h - what embedded features look like: every measurement in one call, and which class
 * subspaces overlap.
 *
 * Example: all measurements of labelled features.
 *
 *     ole_embedding e = {rows, dim, OLE_F32, features, labels};
 *     ole_analysis a;
 *     if (ole_analyze(&a, &e, NULL, &error) != OLE_OK) return puts(error.message), 1;
 *     printf("1-NN error %.2f %%\n", a.errors.knn1);
 *     ole_analysis_free(&a);
 *
 * The principal subspace of a class is spanned by the leading right singular vectors of its rows
 * X_c that hold a share `energy` of ‖X_c‖_F².  The principal angle between two classes is the
 * smallest angle between a vector of one subspace and a vector of the other: 90° when the classes
 * are orthogonal, the goal of OLÉ; 0° when they share a direction.  examples/analyze.c calls the
 * measurements one by one.
 */
#ifndef OLE_ANALYZE_H
#define OLE_ANALYZE_H

#include "ole/classify.h"
#include "ole/geometry.h"

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Single measurements -------------------------------------------------------------------- */

/*
 * exp of the entropy of the normalised singular values σ_i / sum σ: the number of directions that
 * carry the features.  Between 1 and min(rows, cols); 0 for an all-zero spectrum.
 */
OLE_API double ole_effective_rank(const double *sigma, int64_t count);

/*
 * The mean angle in degrees (0 to 180) between two rows of one class and between two rows of
 * different classes; NaN where there are no such rows.  Rows of zeros and rows with a label < 0 are
 * ignored.  ole_angles_measure() of ole/geometry.h measures more.
 */
OLE_API ole_status ole_mean_angles(int64_t rows, int64_t dim, const float *features,
                                   const int32_t *labels, double *within, double *between,
                                   ole_error *error);

/* Two classes and the smallest principal angle between their subspaces, in degrees. */
typedef struct ole_overlap {
    int64_t label_a; /* label_a < label_b */
    int64_t label_b;
    double angle;
} ole_overlap;

/*
 * Up to `capacity` pairs of classes with the smallest principal angles into `pairs`, by rising
 * angle (then by labels), and their number into *count.  Rows with a label < 0 and classes of zeros
 * are ignored.  `energy` is in (0, 1], usually 0.95; a class uses at most 32 directions. `progress`
 * may be NULL.
 */
OLE_API ole_status ole_overlaps(const ole_embedding *embedding, double energy, int threads,
                                ole_overlap *pairs, int64_t capacity, int64_t *count,
                                ole_progress *progress, void *context, ole_error *error);

/* ---- Everything in one call ----------------------------------------------------------------- */

/* Fill with ole_analyze_options_init(). */
typedef struct ole_analyze_options {
    size_t struct_size;
    const ole_embedding *test; /* rows to classify; NULL (default): each row, left out in turn */
    int k;                     /* neighbours of k-NN; default 5 */
    double energy;             /* share of a class's energy in its subspace; default 0.95 */
    int64_t sample;  /* classify, compare and map at most this many rows; 0: all; default 10,000 */
    int64_t picture; /* at most this many rows and columns of the picture of angles; default 500 */
    bool map;        /* make a t-SNE map (ole/tsne.h); default true */
    uint64_t seed;   /* of samples and map; default 0 */
    int threads;     /* 1 to 1024; default 1 */
    ole_progress *progress; /* NULL (default): none */
    void *context;
    const char *const *names; /* of classes 0, 1, ... in drawings; NULL (default): their labels. */
    int64_t name_count;       /* The names must outlive the analysis */
    bool errors;              /* classify the rows; default true.  False: all errors are NaN */
    bool overlap;             /* compare the subspaces of classes; default true */
    /*
     * Asked between measurements and while the map is made; true stops the call, which then returns
     * OLE_OK and an analysis of 0 rows with nothing to free.  NULL (default): it runs to the end.
     */
    bool (*stop)(void *context);
} ole_analyze_options;

OLE_API void ole_analyze_options_init_sized(ole_analyze_options *options, size_t struct_size);
static inline void ole_analyze_options_init(ole_analyze_options *options) {
    ole_analyze_options_init_sized(options, sizeof *options);
}

enum { OLE_MOST_OVERLAPS = 4950 }; /* all pairs of 100 classes */

typedef struct ole_analysis {
    int64_t rows;    /* measured */
    int64_t ignored; /* with a label < 0 */
    int64_t dim;
    int64_t classes;
    bool tested; /* the errors are those of a test set */
    ole_feature_errors errors;
    ole_angles angles;
    ole_spectra spectra;
    ole_overlap *overlaps; /* by rising angle: all pairs of classes, or OLE_MOST_OVERLAPS */
    int64_t overlap_count;
    int64_t points;           /* rows of the map and of `space`: a sample, ordered by class */
    int64_t *point_rows;      /* [points] */
    int64_t *point_labels;    /* [points] */
    double *map;              /* [points, 2]; NULL without a map, or for fewer than 8 points */
    double kl;                /* of the map; NaN without */
    double *space;            /* [points, dim]: the features, if dim is 2 or 3; else NULL */
    const char *const *names; /* as in the options */
    int64_t name_count;
} ole_analysis;

/*
 * Classifiers, angles, spectra, overlaps and a map of the features; errors need at least two
 * classes.  All but the classifiers measure `embedding`.  Memory besides the features does not grow
 * with rows x dim.  On failure there is nothing to free.
 */
OLE_API ole_status ole_analyze(ole_analysis *analysis, const ole_embedding *embedding,
                               const ole_analyze_options *options, ole_error *error);
OLE_API void ole_analysis_free(ole_analysis *analysis);

#ifdef __cplusplus
}
#endif
#endif
