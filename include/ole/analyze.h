/*
 * ole/analyze.h - what embedded features look like: every measurement in one call, which class
 * subspaces overlap, neural collapse, and retrieval.
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

/* ---- Neural collapse ------------------------------------------------------------------------ */

/*
 * How far features have collapsed to their class means, and the means to a simplex (Papyan, Han and
 * Donoho, PNAS 2020); all but the angles vanish in the limit.  μ_c is the mean of class c, μ the
 * mean of the μ_c, m_c = μ_c - μ.  NaN where a measure is not defined.
 */
typedef struct ole_collapse {
    int64_t classes;
    double nc1;         /* tr(Σ_W Σ_B⁺) / C: variance within classes over variance between */
    double nc2_norms;   /* standard deviation of ‖m_c‖ over their mean */
    double nc2_cosines; /* standard deviation of the cosines of pairs of m_c */
    double nc2_simplex; /* mean distance of these cosines from -1/(C - 1) */
    double mean_cosine; /* mean |cosine| of pairs of μ_c, not centred: 0 is the goal of OLÉ */
    /* With a classifier, else NaN and NULL: */
    double nc3;        /* ‖W / ‖W‖_F - M / ‖M‖_F‖_F, M the matrix of the m_c */
    double nc4;        /* % of rows whose class by the classifier is not that of the nearest μ_c */
    double angle_mean; /* degrees between w_c and the subspace of class c, which the OLÉ paper */
    double angle_most; /* predicts to vanish */
    double *angle;     /* [classes] by rising label */
} ole_collapse;

/*
 * The rows of `classifier` (or NULL) are the classes by rising label.  `energy` is as in
 * ole_overlaps().  At least two classes.  On failure there is nothing to free.
 */
OLE_API ole_status ole_collapse_measure(ole_collapse *collapse, const ole_embedding *embedding,
                                        const ole_linear_classifier *classifier, double energy,
                                        int threads, ole_error *error);
OLE_API void ole_collapse_free(ole_collapse *collapse);

/* ---- Retrieval ------------------------------------------------------------------------------ */

enum { OLE_RECALLS = 4 };

/*
 * Each row seeks the others of its class, by cosine.  R is how many there are; rows that are the
 * only ones of their class are skipped.  All in %, means over the queries.
 */
typedef struct ole_retrieval {
    int64_t queries;    /* with an R of at least 1 */
    int64_t of_queries; /* rows they were drawn from */
    double map_at_r;    /* mean over ranks i <= R of (precision at i if row i is right, else 0) */
    double r_precision; /* share of right rows among the R nearest */
    int k[OLE_RECALLS]; /* 1, 2, 4, 8 */
    double recall[OLE_RECALLS]; /* queries with a right row among the k nearest */
} ole_retrieval;

/*
 * Rows of `test` seek those of `train`; with `test` NULL each row of `train` seeks the others.  At
 * most `sample` queries (0: all) are drawn by `seed`.  `progress` may be NULL.
 */
OLE_API ole_status ole_retrieval_measure(ole_retrieval *retrieval, const ole_embedding *train,
                                         const ole_embedding *test, int64_t sample, uint64_t seed,
                                         int threads, ole_progress *progress, void *context,
                                         ole_error *error);

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
    const ole_linear_classifier
        *classifier; /* for neural collapse; NULL (default): none. Its rows */
                     /* are the classes by rising label */
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
    ole_collapse collapse;   /* without `overlap`, or of one class: all NaN */
    ole_retrieval retrieval; /* without `errors`: no queries */
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
