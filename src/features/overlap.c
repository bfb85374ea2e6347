/*
 * src/features/overlap.c - which classes overlap most.
 *
 * The cosine of the smallest principal angle between two subspaces with orthonormal bases A and B
 * is the largest singular value of G = A B^T.  A thousand classes have half a million pairs, so the
 * cross products come from blocked products of all bases, and a pair is dropped as soon as an upper
 * bound of its cosine is under the cosines already found.  With M = G G^T and p = 1, 2, 4, ...
 *
 *     tr(M^2p) / tr(M^p) <= λ_max^p   and   λ_max^2p <= tr(M^2p),      λ_max = cos²,
 *
 * bounds that close in on λ_max as M is squared, usually after three or four squarings.
 *
 * Tasks are rows of blocks, cut by the sizes of the subspaces alone: the result does not depend on
 * the number of threads.
 */
#include "ole/analyze.h"

#include "base/error.h"
#include "features/subspace.h"
#include "linalg/kernels.h"
#include "ole/linalg.h"

#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK = 192, SIDE = OLE_SUBSPACE_MAX, ROWS_A_LOOP = 4 };
static const double close_enough = 1e-14; /* of the bounds, relative */

/* A pair of classes by their numbers, a < b. */
typedef struct candidate {
    double cosine2;
    int64_t a;
    int64_t b;
} candidate;

/*
 * The best `limit` candidates of a task: a buffer of twice that, cut back when it is full.  `floor`
 * is the squared cosine that a newcomer has to reach.
 */
typedef struct shortlist {
    candidate *entries;
    int64_t count;
    int64_t limit;
    double floor;
} shortlist;

/* Consecutive classes whose directions, `size` in all, are packed together. */
typedef struct block {
    int64_t first, last; /* classes first to last - 1 */
    int64_t size;
    double *panels;
} block;

/* Who gets the progress; `progress` may be NULL. */
typedef struct watcher {
    ole_progress *progress;
    void *context;
} watcher;

typedef struct search {
    const ole_subspaces *subspaces;
    int64_t first_row; /* of blocks, of the tasks at work */
    int64_t *offset;   /* of each class in its block */
    block *blocks;
    int64_t block_count;
    double *panels;
    double *tiles;    /* [threads, BLOCK, BLOCK] */
    shortlist *lists; /* one a block */
    candidate *entries;
} search;

/* ---- The short list ----------------------------------------------------------------------- */

static int compare_candidates(const void *left, const void *right) {
    const candidate *x = left, *y = right;
    if (x->cosine2 != y->cosine2) return x->cosine2 > y->cosine2 ? -1 : 1;
    if (x->a != y->a) return x->a < y->a ? -1 : 1;
    return (x->b > y->b) - (x->b < y->b);
}

static void cut_back(shortlist *list) {
    if (list->count == 0) return;
    qsort(list->entries, (size_t)list->count, sizeof *list->entries, compare_candidates);
    if (list->count < list->limit) return;
    list->count = list->limit;
    list->floor = list->entries[list->limit - 1].cosine2;
}

/* ---- One pair ----------------------------------------------------------------------------- */

/* m [rows, rows] = a a^T / scale for a [rows, cols]. */
static void square(double *m, const double *a, int64_t ld, int64_t rows, int64_t cols,
                   double scale) {
    const ole_kernels *k = ole_kernels_get();
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j <= i; j++)
            m[i * rows + j] = m[j * rows + i] = k->dot_f64(a + i * ld, a + j * ld, cols) / scale;
}

/* cos² of the pair with the cross product g [rows, cols]; -1 once it is known to be below floor. */
static double squared_cosine(const double *g, int64_t ld, int64_t rows, int64_t cols,
                             double floor) {
    const ole_kernels *k = ole_kernels_get();
    double trace = 0.0;
    for (int64_t i = 0; i < rows; i++)
        trace += k->dot_f64(g + i * ld, g + i * ld, cols);
    if (trace < floor) return -1.0;
    if (rows == 1 || cols == 1 || trace == 0.0) return fmin(trace, 1.0);

    double matrices[2][SIDE * SIDE];
    double *n = matrices[0], *next = matrices[1];
    square(n, g, ld, rows, cols, trace);
    double log_floor = floor > 0.0 ? log(floor) : -HUGE_VAL;
    double upper = log(trace);
    for (double p = 1.0;; p *= 2.0) {
        /* n = M^p / tr(M^p) and upper = log(tr(M^p)) / p. */
        double frobenius2 = k->dot_f64(n, n, rows * rows);
        double lower = upper + log(frobenius2) / p;
        upper += log(frobenius2) / (2.0 * p);
        if (upper < log_floor) return -1.0;
        if (lower >= -close_enough || upper - lower < close_enough) return exp(fmin(upper, 0.0));
        square(next, n, rows, rows, rows, frobenius2);
        double *swap = n;
        n = next;
        next = swap;
    }
}

/* Compares each class of block x with each later class of block y. */
static void compare_blocks(const search *s, const block *x, const block *y, const double *tile,
                           shortlist *list) {
    const ole_subspace *of = s->subspaces->of;
    for (int64_t a = x->first; a < x->last; a++) {
        for (int64_t b = a < y->first ? y->first : a + 1; b < y->last; b++) {
            if (of[a].size == 0 || of[b].size == 0) continue;
            const double *g = tile + s->offset[a] * BLOCK + s->offset[b];
            double cosine2 = squared_cosine(g, BLOCK, of[a].size, of[b].size, list->floor);
            if (cosine2 < 0.0) continue;
            list->entries[list->count++] = (candidate){cosine2, a, b};
            if (list->count == 2 * list->limit) cut_back(list);
        }
    }
}

static void search_row(void *context, int64_t task, int worker) {
    const search *s = context;
    int64_t row = s->first_row + task;
    double *tile = s->tiles + (int64_t)worker * BLOCK * BLOCK;
    const block *x = &s->blocks[row];
    for (int64_t col = row; col < s->block_count; col++) {
        const block *y = &s->blocks[col];
        ole_kernels_get()->multiply(x->panels, y->panels, x->size, y->size, s->subspaces->dim, 1.0,
                                    tile, BLOCK, 0, 0, false, OLE_STORE_SET);
        compare_blocks(s, x, y, tile, &s->lists[row]);
    }
    cut_back(&s->lists[row]);
}

/* ---- All pairs ---------------------------------------------------------------------------- */

/* Groups classes into blocks of at most BLOCK directions. */
static void make_blocks(search *s) {
    const ole_subspaces *all = s->subspaces;
    for (int64_t c = 0; c < all->classes; c++) {
        block *last = s->block_count > 0 ? &s->blocks[s->block_count - 1] : NULL;
        if (!last || last->size + all->of[c].size > BLOCK) {
            last = &s->blocks[s->block_count++];
            *last = (block){.first = c};
        }
        s->offset[c] = last->size;
        last->size += all->of[c].size;
        last->last = c + 1;
    }
}

static int64_t panel_doubles(const block *b, int64_t dim) {
    int64_t width = ole_kernels_get()->width;
    return (b->size + width - 1) / width * width * dim;
}

/* Packs each block.  Its directions are first copied together into `rows` [BLOCK, dim]. */
static void pack_blocks(search *s, double *rows) {
    int64_t dim = s->subspaces->dim;
    double *next = s->panels;
    for (int64_t i = 0; i < s->block_count; i++) {
        block *b = &s->blocks[i];
        for (int64_t c = b->first; c < b->last; c++) {
            const ole_subspace *of = &s->subspaces->of[c];
            memcpy(rows + s->offset[c] * dim, of->basis, (size_t)(of->size * dim) * sizeof *rows);
        }
        b->panels = next;
        ole_kernels_get()->pack_f64(b->panels, rows, dim, 1, b->size, dim);
        next += panel_doubles(b, dim);
    }
}

/* Gives each block's list room for twice the pairs it can keep. */
static bool make_lists(search *s, int64_t capacity) {
    int64_t total = 0;
    for (int pass = 0; pass < 2; pass++) {
        candidate *next = s->entries;
        for (int64_t i = 0; i < s->block_count; i++) {
            const block *b = &s->blocks[i];
            int64_t pairs = (b->last - b->first) * (s->subspaces->classes - b->first);
            int64_t limit = pairs < capacity ? pairs : capacity;
            if (pass == 0) {
                total += 2 * limit;
                continue;
            }
            s->lists[i] = (shortlist){.entries = next, .limit = limit};
            next += 2 * limit;
        }
        if (pass == 0) s->entries = malloc((size_t)total * sizeof *s->entries);
        if (!s->entries) return false;
    }
    return true;
}

static bool prepare(search *s, int threads, int64_t capacity) {
    int64_t classes = s->subspaces->classes, dim = s->subspaces->dim;
    s->offset = malloc((size_t)classes * sizeof *s->offset);
    s->blocks = malloc((size_t)classes * sizeof *s->blocks);
    s->lists = malloc((size_t)classes * sizeof *s->lists);
    s->tiles = malloc((size_t)threads * BLOCK * BLOCK * sizeof *s->tiles);
    double *rows = malloc((size_t)(BLOCK * dim) * sizeof *rows);
    bool good = s->offset && s->blocks && s->lists && s->tiles && rows;
    if (good) {
        make_blocks(s);
        int64_t total = 0;
        for (int64_t i = 0; i < s->block_count; i++)
            total += panel_doubles(&s->blocks[i], dim);
        /* One more: all classes may be zero, and malloc(0) may be NULL. */
        s->panels = malloc((size_t)(total + 1) * sizeof *s->panels);
        good = s->panels && make_lists(s, capacity);
    }
    if (good) pack_blocks(s, rows);
    free(rows);
    return good;
}

/* Moves the candidates of all lists to the front of `entries`, best first; returns their number. */
static int64_t merge(search *s) {
    int64_t count = 0;
    for (int64_t i = 0; i < s->block_count; i++) {
        const shortlist *list = &s->lists[i];
        memmove(s->entries + count, list->entries, (size_t)list->count * sizeof *s->entries);
        count += list->count;
    }
    if (count > 0) qsort(s->entries, (size_t)count, sizeof *s->entries, compare_candidates);
    return count;
}

/*
 * The angle of one pair, to full accuracy even near 0 and 90 degrees, where the cosine alone is not
 * enough: 2 atan(|u - v| / |u + v|) for the unit vectors u and v that are closest to each other.
 */
static ole_status pair_angle(const ole_subspace *a, const ole_subspace *b, int64_t dim,
                             double *vectors, double *angle, ole_error *error) {
    const ole_kernels *k = ole_kernels_get();
    double cross[SIDE * SIDE], left[SIDE * SIDE], right[SIDE * SIDE], sigma[SIDE];
    for (int64_t i = 0; i < a->size; i++)
        for (int64_t j = 0; j < b->size; j++)
            cross[i * b->size + j] = k->dot_f64(a->basis + i * dim, b->basis + j * dim, dim);
    int64_t side = a->size < b->size ? a->size : b->size;
    ole_matrix g = {.data = cross, .rows = a->size, .cols = b->size, .dtype = OLE_F64};
    ole_matrix u = {.data = left, .rows = a->size, .cols = side, .dtype = OLE_F64};
    ole_matrix vt = {.data = right, .rows = side, .cols = b->size, .dtype = OLE_F64};
    ole_status status = ole_svd(&g, &u, sigma, &vt, error);
    if (status != OLE_OK) return status;

    double *difference = vectors, *sum = vectors + dim;
    memset(vectors, 0, 2 * (size_t)dim * sizeof *vectors);
    for (int64_t i = 0; i < a->size; i++) {
        k->axpy(difference, left[i * side], a->basis + i * dim, dim);
        k->axpy(sum, left[i * side], a->basis + i * dim, dim);
    }
    for (int64_t j = 0; j < b->size; j++) {
        k->axpy(difference, -right[j], b->basis + j * dim, dim);
        k->axpy(sum, right[j], b->basis + j * dim, dim);
    }
    double chord = sqrt(k->dot_f64(difference, difference, dim));
    double other = sqrt(k->dot_f64(sum, sum, dim));
    *angle = 2.0 * atan2(chord, other) * (180.0 / acos(-1.0));
    return OLE_OK;
}

static int compare_overlaps(const void *left, const void *right) {
    const ole_overlap *x = left, *y = right;
    if (x->angle != y->angle) return x->angle < y->angle ? -1 : 1;
    if (x->label_a != y->label_a) return x->label_a < y->label_a ? -1 : 1;
    return (x->label_b > y->label_b) - (x->label_b < y->label_b);
}

/* Turns the best candidates into pairs with their exact angles. */
static ole_status report(search *s, ole_overlap *pairs, int64_t capacity, int64_t *count,
                         ole_error *error) {
    int64_t found = merge(s);
    if (found > capacity) found = capacity;
    int64_t dim = s->subspaces->dim;
    double *vectors = malloc(2 * (size_t)dim * sizeof *vectors);
    ole_overlap *exact = malloc(((size_t)found + 1) * sizeof *exact);
    ole_status status = OLE_OK;
    if (!vectors || !exact) status = ole_fail(error, OLE_ERROR_MEMORY, "out of memory");
    for (int64_t i = 0; i < found && status == OLE_OK; i++) {
        const ole_subspace *a = &s->subspaces->of[s->entries[i].a];
        const ole_subspace *b = &s->subspaces->of[s->entries[i].b];
        exact[i] = (ole_overlap){.label_a = a->label, .label_b = b->label};
        status = pair_angle(a, b, dim, vectors, &exact[i].angle, error);
    }
    if (status == OLE_OK) {
        qsort(exact, (size_t)found, sizeof *exact, compare_overlaps);
        if (found > 0) memcpy(pairs, exact, (size_t)found * sizeof *exact);
        *count = found;
    }
    free(vectors);
    free(exact);
    return status;
}

/* Rows of blocks, some at a time, so that the calling thread can tell how much of the triangle is
 * done. */
static void search_all(search *s, ole_pool *pool, int threads, const watcher *w) {
    for (int64_t row = 0; row < s->block_count; row = s->first_row) {
        int64_t rows = s->block_count - row, most = (int64_t)ROWS_A_LOOP * threads;
        double left = (double)rows / (double)s->block_count;
        if (w->progress) w->progress(w->context, "overlaps", 1.0 - left * left);
        if (rows > most) rows = most;
        ole_pool_run(pool, rows, search_row, s);
        s->first_row += rows;
    }
}

static ole_status find_overlaps(const ole_subspaces *subspaces, ole_pool *pool, int threads,
                                ole_overlap *pairs, int64_t capacity, int64_t *count,
                                const watcher *w, ole_error *error) {
    if (subspaces->classes < 2 || capacity == 0) {
        *count = 0;
        return OLE_OK;
    }
    search s = {.subspaces = subspaces};
    ole_status status;
    if (prepare(&s, threads, capacity)) {
        search_all(&s, pool, threads, w);
        status = report(&s, pairs, capacity, count, error);
    } else {
        status = ole_fail(error, OLE_ERROR_MEMORY,
                          "out of memory for the pairs of %" PRId64 " classes", subspaces->classes);
    }
    free(s.offset);
    free(s.blocks);
    free(s.lists);
    free(s.tiles);
    free(s.panels);
    free(s.entries);
    return status;
}

ole_status ole_overlaps(const ole_embedding *e, double energy, int threads, ole_overlap *pairs,
                        int64_t capacity, int64_t *count, ole_progress *progress, void *context,
                        ole_error *error) {
    ole_status status = ole_embedding_check("ole_overlaps", e, threads, error);
    if (status != OLE_OK) return status;
    if (!(energy > 0.0 && energy <= 1.0))
        return ole_fail(error, OLE_ERROR_ARGUMENT,
                        "ole_overlaps: energy is %g: it must be over 0 and at most 1", energy);
    if (capacity < 0)
        return ole_fail(error, OLE_ERROR_ARGUMENT, "ole_overlaps: capacity is %" PRId64, capacity);
    if (!count || (!pairs && capacity > 0))
        return ole_fail(error, OLE_ERROR_ARGUMENT, "ole_overlaps: %s is NULL",
                        count ? "pairs" : "count");
    ole_pool *pool;
    status = ole_pool_create(&pool, threads, error);
    if (status != OLE_OK) return status;
    ole_subspaces subspaces;
    status = ole_subspaces_create(&subspaces, e, energy, pool, threads, error);
    if (status == OLE_OK) {
        const watcher w = {progress, context};
        status = find_overlaps(&subspaces, pool, threads, pairs, capacity, count, &w, error);
        ole_subspaces_destroy(&subspaces);
    }
    ole_pool_destroy(pool);
    return status;
}
