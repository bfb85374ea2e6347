/*
 * ole/tsne.h - Barnes-Hut t-SNE (van der Maaten 2014): a map of high-dimensional features in the
 * plane, on which neighbours stay neighbours.
 *
 *     ole_tsne_options options;
 *     ole_tsne_options_init(&options);
 *     options.threads = 8;
 *     double *map = malloc(sizeof(double) * 2 * rows), kl;
 *     if (ole_tsne(rows, dim, OLE_F32, features, &options, map, &kl, &error) != OLE_OK)
 *         return puts(error.message), 1;
 *
 * What happens: principal components (50 of them), the 3 * perplexity nearest rows of each row
 * (exact, Euclidean), a Gaussian around each row with the perplexity asked for, then gradient
 * descent of KL(P || Q) with momentum and gains, far rows summed up by a quadtree.
 *
 * The map follows from features, options and start alone: the same bits, whatever the number of
 * threads, for the same build and CPU model.  Time grows with rows * log(rows), and for the
 * neighbours with rows²: a million rows are for the caller to sample.
 */
#ifndef OLE_TSNE_H
#define OLE_TSNE_H

#include "ole/base.h"

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* How far a map is. */
typedef struct ole_tsne_progress {
    const char *stage; /* "components", "neighbours" or "map" */
    double share;      /* of the stage, 0 to 1 */
    int iteration;     /* of the stage "map", from 0: iterations done */
    int iterations;
    double kl;         /* KL(P || Q) of the map as the tree estimates it; NaN before "map" */
    const double *map; /* [rows, 2]: the map so far, until the callback returns; or NULL */
} ole_tsne_progress;

/* Called in the calling thread. Return true to stop: the map so far is given, the status OLE_OK. */
typedef bool ole_tsne_callback(void *context, const ole_tsne_progress *progress);

/* Fill with ole_tsne_options_init() and change what differs. */
typedef struct ole_tsne_options {
    size_t struct_size; /* set by init */
    double perplexity;  /* neighbours that count, 1 to (rows - 1) / 3; default 30 */
    double theta;       /* 0 (exact) to 1: cells of width < theta * distance are one; default 0.5 */
    int iterations;     /* 0 and more; default 1000 */
    double exaggeration;  /* factor of P in the beginning; default 12 */
    int exaggerated;      /* iterations of it, with momentum 0.5, then 0.8; default 250 */
    double learning_rate; /* 0 (default): max(50, rows / exaggeration / 4) */
    int pca;              /* components kept, 0: the features as they are; default 50 */
    uint64_t seed;        /* of the start; default 0 */
    const double *start;  /* [rows, 2], or NULL (default): normal numbers of deviation 1e-4 */
    int threads;          /* 1 to 1024; default 1 */
    int every;            /* iterations between two calls of the callback; default 50 */
    ole_tsne_callback *callback; /* or NULL */
    void *callback_context;
} ole_tsne_options;

OLE_API void ole_tsne_options_init(ole_tsne_options *options);

/*
 * The map of features[rows, dim] (OLE_F32 or OLE_F64, contiguous) into map[rows, 2], centred at 0,
 * and KL(P || Q) as the tree estimates it into *kl, which may be NULL.  `options` may be NULL for
 * the defaults.  Errors: OLE_ERROR_ARGUMENT (fewer than 4 rows, a perplexity too large for the
 * rows, ...), OLE_ERROR_DATA (NaN or Inf: the message names the row), OLE_ERROR_MEMORY,
 * OLE_ERROR_NUMERIC (a learning rate at which the map diverges).
 */
OLE_API ole_status ole_tsne(int64_t rows, int64_t dim, ole_dtype dtype, const void *features,
                            const ole_tsne_options *options, double *map, double *kl,
                            ole_error *error);

/*
 * What ole_tsne() does first: the `components` leading principal components of the features, a
 * coordinate each, into out[rows, components], by falling variance.  A component's sign makes the
 * largest of its weights positive.  components <= min(rows, dim).
 */
OLE_API ole_status ole_pca(int64_t rows, int64_t dim, ole_dtype dtype, const void *features,
                           int64_t components, int threads, double *out, ole_error *error);

/* ---- How good a map is ---------------------------------------------------------------------- */

/*
 * KL(P || Q) of any map of the features as they are (no components), over all pairs of rows: P with
 * the perplexity over all other rows, Q without a tree.  Time grows with rows² * dim.
 */
OLE_API ole_status ole_tsne_kl(int64_t rows, int64_t dim, ole_dtype dtype, const void *features,
                               double perplexity, const double *map, int threads, double *kl,
                               ole_error *error);

/*
 * Whether the `neighbours` (5 is usual, under rows / 2) nearest rows on the map are near in the
 * features too: 1 when all are among the nearest there, less the further down they rank (Venna and
 * Kaski 2001).
 */
OLE_API ole_status ole_trustworthiness(int64_t rows, int64_t dim, ole_dtype dtype,
                                       const void *features, const double *map, int neighbours,
                                       int threads, double *trustworthiness, ole_error *error);

#ifdef __cplusplus
}
#endif
#endif
