/*
 * src/tsne/tsne.c - t-SNE from features to map: checks, components, neighbours, the schedule of
 * the descent, and the callback.
 */
#include "ole/tsne.h"

#include "base/error.h"
#include "base/philox.h"
#include "base/struct_size.h"
#include "tsne/affinity.h"
#include "tsne/distances.h"
#include "tsne/pca.h"
#include "tsne/tsne_map.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { FEWEST_ROWS = 4 };

static const ole_tsne_options defaults = {
    .struct_size = sizeof(ole_tsne_options),
    .perplexity = 30.0,
    .theta = 0.5,
    .iterations = 1000,
    .exaggeration = 12.0,
    .exaggerated = 250,
    .pca = 50,
    .threads = 1,
    .every = 50,
};

void ole_tsne_options_init_sized(ole_tsne_options *options, size_t struct_size) {
    ole_struct_fill(options, struct_size, &defaults);
}

/* ---- Checks ------------------------------------------------------------------------------- */

static ole_status check_number(const char *name, double value, double least, double most,
                               ole_error *error) {
    if (value >= least && value <= most) return OLE_OK;
    return ole_fail(error, OLE_ERROR_ARGUMENT, "ole_tsne: %s is %g; must be a number from %g to %g",
                    name, value, least, most);
}

static ole_status check_perplexity(int64_t rows, double perplexity, ole_error *error) {
    if (rows < FEWEST_ROWS)
        return ole_fail(error, OLE_ERROR_ARGUMENT,
                        "%" PRId64 " rows are too few for a map, which needs at least %d", rows,
                        FEWEST_ROWS);
    double most = (double)(rows - 1) / 3.0;
    if (perplexity >= 1.0 && perplexity <= most) return OLE_OK;
    if (!(perplexity >= 1.0))
        return ole_fail(error, OLE_ERROR_ARGUMENT, "a perplexity of %g is too small; use 1 or more",
                        perplexity);
    return ole_fail(error, OLE_ERROR_ARGUMENT,
                    "a perplexity of %g needs %.0f rows, but there are %" PRId64
                    "; use %.4g or less",
                    perplexity, ceil(3.0 * perplexity + 1.0), rows, floor(most * 100.0) / 100.0);
}

static ole_status check_start(int64_t rows, const double *start, ole_error *error) {
    for (int64_t i = 0; start && i < 2 * rows; i++)
        if (!isfinite(start[i]) || fabs(start[i]) > 1e6)
            return ole_fail(error, OLE_ERROR_DATA,
                            "start: row %" PRId64 " is %g; use numbers up to 1e6", i / 2, start[i]);
    return OLE_OK;
}

static ole_status check_options(const ole_tsne_options *o, int64_t rows, ole_error *error) {
    ole_status status = check_perplexity(rows, o->perplexity, error);
    if (status == OLE_OK) status = check_number("theta", o->theta, 0.0, 1.0, error);
    if (status == OLE_OK) status = check_number("iterations", o->iterations, 0.0, 1e9, error);
    if (status == OLE_OK) status = check_number("exaggeration", o->exaggeration, 1.0, 1e6, error);
    if (status == OLE_OK) status = check_number("exaggerated", o->exaggerated, 0.0, 1e9, error);
    if (status == OLE_OK) status = check_number("learning_rate", o->learning_rate, 0.0, 1e9, error);
    if (status == OLE_OK) status = check_number("pca", o->pca, 0.0, 1e6, error);
    if (status == OLE_OK) status = check_number("every", o->every, 1.0, 1e9, error);
    return status == OLE_OK ? check_start(rows, o->start, error) : status;
}

/* ---- A run -------------------------------------------------------------------------------- */

typedef struct run {
    const ole_tsne_options *o;
    int64_t rows, dim;
    ole_pool *pool;
    double *x; /* [rows, dim]: what distances are taken of */
    double *y; /* [rows, 2]: the start */
    ole_affinity affinity;
    ole_tsne_map *map;
    bool stopped;
} run;

static bool report(run *r, const ole_tsne_progress *progress) {
    if (r->o->callback && r->o->callback(r->o->callback_context, progress)) r->stopped = true;
    return r->stopped;
}

static bool report_share(run *r, const char *stage, double share) {
    const ole_tsne_progress progress = {
        .stage = stage, .share = share, .iterations = r->o->iterations, .kl = NAN};
    return report(r, &progress);
}

enum { OLE_RANDOM_MAP = 8 }; /* b = point */

/* Normal numbers of deviation 1e-4 (Box and Muller), or what the caller gave. */
static void fill_start(run *r) {
    if (r->o->start) {
        memcpy(r->y, r->o->start, (size_t)(2 * r->rows) * sizeof *r->y);
        return;
    }
    for (int64_t i = 0; i < r->rows; i++) {
        uint32_t w[4];
        ole_philox(r->o->seed, OLE_RANDOM_MAP, 0, (uint64_t)i, w);
        double radius = 1e-4 * sqrt(-2.0 * log(((double)w[0] + 1.0) * 0x1p-32));
        double angle = 2.0 * acos(-1.0) * ((double)w[1] * 0x1p-32);
        r->y[2 * i] = radius * cos(angle);
        r->y[2 * i + 1] = radius * sin(angle);
    }
}

/* Centred features, or their components in place of them. */
static ole_status prepare(run *r, ole_dtype dtype, const void *features, ole_error *error) {
    int64_t rows = r->rows, dim = r->dim;
    r->y = malloc((size_t)(2 * rows) * sizeof *r->y);
    r->x = malloc((size_t)(rows * dim) * sizeof *r->x);
    if (!r->x || !r->y)
        return ole_fail(error, OLE_ERROR_MEMORY,
                        "out of memory for %" PRId64 " rows of %" PRId64 " dimensions", rows, dim);
    double scale;
    ole_features_centre(rows, dim, dtype, features, r->x, &scale);
    fill_start(r);
    int64_t components = r->o->pca;
    if (components == 0 || components >= dim) return OLE_OK;
    if (components > rows) components = rows;
    if (report_share(r, "components", 0.0)) return OLE_OK;
    double *less = malloc((size_t)(rows * components) * sizeof *less);
    if (!less) return ole_fail(error, OLE_ERROR_MEMORY, "out of memory for the components");
    ole_status status = ole_pca_project(r->pool, rows, dim, r->x, components, less, error);
    free(r->x);
    r->x = less;
    r->dim = components;
    return status;
}

static bool neighbours_progress(void *context, double share) {
    return report_share(context, "neighbours", share);
}

/* The affinities from the nearest rows. */
static ole_status find_affinity(run *r, ole_error *error) {
    int count = (int)fmin(floor(3.0 * r->o->perplexity), (double)(r->rows - 1));
    size_t entries = (size_t)(r->rows * count);
    int32_t *near = malloc(entries * sizeof *near);
    double *away = malloc(entries * sizeof *away);
    ole_distances d = {0};
    ole_status status = OLE_OK;
    if (!near || !away)
        status = ole_fail(error, OLE_ERROR_MEMORY,
                          "out of memory for %d neighbours of %" PRId64 " rows", count, r->rows);
    if (status == OLE_OK) status = ole_distances_prepare(&d, r->pool, r->rows, r->dim, r->x, error);
    if (status == OLE_OK)
        status = ole_neighbours(&d, r->pool, r->o->threads, count, near, away, neighbours_progress,
                                r, error);
    ole_distances_release(&d);
    if (status == OLE_OK && !r->stopped)
        status = ole_affinity_make(&r->affinity, r->pool, r->o->threads, r->rows, count, near, away,
                                   r->o->perplexity, error);
    free(near);
    free(away);
    return status;
}

static bool report_map(run *r, int iteration) {
    if (!r->o->callback) return false;
    double kl = ole_tsne_map_kl(r->map);
    const ole_tsne_progress progress = {
        .stage = "map",
        .share = r->o->iterations ? (double)iteration / r->o->iterations : 1.0,
        .iteration = iteration,
        .iterations = r->o->iterations,
        .kl = kl,
        .map = ole_tsne_map_points(r->map),
    };
    return report(r, &progress);
}

/* Exaggeration with little momentum first, then the rest. */
static ole_status descend(run *r, ole_error *error) {
    const ole_tsne_options *o = r->o;
    double rate = o->learning_rate;
    if (rate == 0.0) rate = fmax(50.0, (double)r->rows / o->exaggeration / 4.0);
    for (int i = 0; i < o->iterations; i++) {
        if (i % o->every == 0 && report_map(r, i)) return OLE_OK;
        bool early = i < o->exaggerated;
        if (!ole_tsne_map_step(r->map, early ? o->exaggeration : 1.0, early ? 0.5 : 0.8, rate))
            return ole_fail(error, OLE_ERROR_NUMERIC,
                            "the map diverges at iteration %d; lower the learning rate, now %g", i,
                            rate);
    }
    return OLE_OK;
}

static ole_status make_map(run *r, double *map, double *kl, ole_error *error) {
    ole_status status =
        ole_tsne_map_create(&r->map, r->pool, &r->affinity, r->o->theta, r->y, error);
    if (status == OLE_OK) status = descend(r, error);
    if (status != OLE_OK) return status;
    if (!r->stopped) report_map(r, r->o->iterations);
    double last = ole_tsne_map_kl(r->map);
    if (!isfinite(last))
        return ole_fail(error, OLE_ERROR_NUMERIC, "the map diverges; lower the learning rate");
    memcpy(map, ole_tsne_map_points(r->map), (size_t)(2 * r->rows) * sizeof *map);
    if (kl) *kl = last;
    return OLE_OK;
}

ole_status ole_tsne(int64_t rows, int64_t dim, ole_dtype dtype, const void *features,
                    const ole_tsne_options *options, double *map, double *kl, ole_error *error) {
    ole_tsne_options o = defaults;
    run r = {.o = &o, .rows = rows, .dim = dim};
    if (!map) return ole_fail(error, OLE_ERROR_ARGUMENT, "ole_tsne: map is NULL");
    ole_status status =
        ole_struct_read(&o, options, OLE_SIZE_UP_TO(ole_tsne_options, callback_context),
                        "ole_tsne_options_init", error);
    if (status == OLE_OK)
        status = ole_features_check("ole_tsne", rows, dim, dtype, features, o.threads, error);
    if (status == OLE_OK) status = check_options(&o, rows, error);
    if (status == OLE_OK) status = ole_pool_create(&r.pool, r.o->threads, error);
    if (status == OLE_OK) status = prepare(&r, dtype, features, error);
    if (status == OLE_OK && !r.stopped) status = find_affinity(&r, error);
    if (status == OLE_OK && r.stopped) { /* before there was a map: the start is all there is */
        memcpy(map, r.y, (size_t)(2 * rows) * sizeof *map);
        if (kl) *kl = NAN;
    } else if (status == OLE_OK) {
        status = make_map(&r, map, kl, error);
    }
    ole_tsne_map_destroy(r.map);
    ole_affinity_release(&r.affinity);
    ole_pool_destroy(r.pool);
    free(r.x);
    free(r.y);
    return status;
}
