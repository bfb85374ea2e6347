/*
 * ole/tsne.h - Barnes-Hut t-SNE (van der Maaten 2014): a map of high-dimensional features in the
 * plane on which neighbours stay neighbours.
 *
 * Example: a map of features, with 8 threads.
 *
 *     ole_tsne_options options;
 *     ole_tsne_options_init(&options);
 *     options.threads = 8;
 *     double *map = malloc(sizeof(double) * 2 * (size_t)rows), kl;
 *     if (ole_tsne(rows, dim, OLE_F32, features, &options, map, &kl, &error) != OLE_OK)
 *         return puts(error.message), 1;
 *
 * Steps: principal components (50 of them); the 3 * perplexity nearest rows of each row (exact,
 * Euclidean); a Gaussian around each row with the requested perplexity; then gradient descent on
 * KL(P || Q) with momentum and gains, where a quadtree sums up distant rows.
 *
 * The map depends on features, options and start alone: the same build and CPU model give the same
 * bits for any number of threads.  Time grows with rows * log(rows), and for the neighbours with
 * rows²: sample first if there are a million.
 */
#ifndef OLE_TSNE_H
#define OLE_TSNE_H

#include "ole/base.h"

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Simple calls --------------------------------------------------------------------------- */

typedef struct ole_tsne_options ole_tsne_options; /* below */

/*
 * Maps features[rows, dim] (OLE_F32 or OLE_F64, contiguous) to map[rows, 2], centred at 0, and
 * stores KL(P || Q) as the tree estimates it in *kl, which may be NULL.  `options` may be NULL for
 * the defaults.  Errors: OLE_ERROR_ARGUMENT (fewer than 4 rows, a perplexity too large for the
 * rows, ...), OLE_ERROR_DATA (NaN or Inf; the message names the row), OLE_ERROR_MEMORY,
 * OLE_ERROR_NUMERIC (the map diverges: the learning rate is too high).
 */
OLE_API ole_status ole_tsne(int64_t rows, int64_t dim, ole_dtype dtype, const void *features,
                            const ole_tsne_options *options, double *map, double *kl,
                            ole_error *error);

/*
 * The first step of ole_tsne(): the `components` leading principal components of the features, one
 * coordinate each, into out[rows, components], by falling variance.  A component's sign makes the
 * largest of its weights positive.  components <= min(rows, dim).
 */
OLE_API ole_status ole_pca(int64_t rows, int64_t dim, ole_dtype dtype, const void *features,
                           int64_t components, int threads, double *out, ole_error *error);

/* ---- Options -------------------------------------------------------------------------------- */

typedef struct ole_tsne_progress {
    const char *stage; /* "components", "neighbours" or "map" */
    double share;      /* of the stage, 0 to 1 */
    int iteration;     /* of the stage "map": iterations done */
    int iterations;
    double kl;         /* KL(P || Q) of the map as the tree estimates it; NaN before "map" */
    const double *map; /* [rows, 2]: the map so far, until the callback returns; or NULL */
} ole_tsne_progress;

/* Called in the calling thread. Return true to stop: the call returns the map so far and OLE_OK. */
typedef bool ole_tsne_callback(void *context, const ole_tsne_progress *progress);

/* Fill with ole_tsne_options_init(), then change what differs. */
struct ole_tsne_options {
    size_t struct_size; /* set by init; see "Versions" in ole/base.h */
    double perplexity;  /* effective number of neighbours, 1 to (rows - 1) / 3; default 30 */
    double theta; /* 0 (exact) to 1: cells narrower than theta * distance are merged; default 0.5 */
    int iterations;              /* 0 or more; default 1000 */
    double exaggeration;         /* initial factor of P; default 12 */
    int exaggerated;             /* its iterations, with momentum 0.5, then 0.8; default 250 */
    double learning_rate;        /* 0 (default): max(50, rows / exaggeration / 4) */
    int pca;                     /* components kept; 0: the raw features; default 50 */
    uint64_t seed;               /* of the initial map; default 0 */
    const double *start;         /* [rows, 2] initial map; NULL (default): normal, deviation 1e-4 */
    int threads;                 /* 1 to 1024; default 1 */
    int every;                   /* iterations between calls of the callback; default 50 */
    ole_tsne_callback *callback; /* or NULL */
    void *callback_context;
};

OLE_API void ole_tsne_options_init_sized(ole_tsne_options *options, size_t struct_size);
static inline void ole_tsne_options_init(ole_tsne_options *options) {
    ole_tsne_options_init_sized(options, sizeof *options);
}

/* ---- Quality of a map ----------------------------------------------------------------------- */

/*
 * KL(P || Q) of any map of the raw features (no components), over all pairs of rows: P has the
 * perplexity over all other rows, Q is exact.  Time grows with rows² * dim.
 */
OLE_API ole_status ole_tsne_kl(int64_t rows, int64_t dim, ole_dtype dtype, const void *features,
                               double perplexity, const double *map, int threads, double *kl,
                               ole_error *error);

/*
 * Whether the `neighbours` (usually 5, under rows / 2) nearest rows on the map are also near in the
 * features: 1 if all are among the nearest there, less the further down they rank (Venna and Kaski
 * 2001).
 */
OLE_API ole_status ole_trustworthiness(int64_t rows, int64_t dim, ole_dtype dtype,
                                       const void *features, const double *map, int neighbours,
                                       int threads, double *trustworthiness, ole_error *error);

#ifdef __cplusplus
}
#endif
#endif
