/*
 * src/loss/ranks/ranks_spectra.c - the steps of spectrum.h for matrices whose columns lie on
 * several ranks.
 */
#include "loss/ranks/ranks_spectra.h"

#include "linalg/eigen.h"

#include <math.h>
#include <string.h>

void ole_ranks_loss_spectra_place(ole_ranks_loss_spectra *spectra, ole_arena *arena,
                                  ole_ranks *ranks, int64_t n, int64_t k, int most) {
    int size = ole_ranks_size(ranks), shared = (most + size - 1) / size;
    int64_t pad = ole_eigen_pad(n), whole = n * (n + 1);
    spectra->ranks = ranks;
    spectra->n = n;
    spectra->most = most;
    spectra->items = ole_arena_take(arena, most, sizeof *spectra->items);
    for (int i = 0; i < most; i++) {
        double *vectors = ole_arena_take(arena, pad * pad, sizeof(double));
        double *values = ole_arena_take(arena, n, sizeof(double));
        if (!arena->base) continue;
        spectra->items[i].vectors = vectors;
        spectra->items[i].values = values;
    }
    spectra->message = ole_arena_take(arena, most * whole, sizeof(double));
    spectra->mine = ole_arena_take(arena, shared * whole, sizeof(double));
    spectra->bytes = ole_arena_take(arena, size, sizeof(int64_t));
    ole_spectrum_lay_out(&spectra->space, arena, n, k > n ? k : n);
}

/* The space as the steps want it for one item: its own vectors and values. */
static ole_spectrum_space space_of(const ole_ranks_loss_spectra *spectra,
                                   const ole_ranks_loss_spectrum *item) {
    ole_spectrum_space space = spectra->space;
    space.vectors = item->vectors;
    space.values = item->values;
    return space;
}

static int64_t weak_of(const ole_ranks_loss_spectrum *item) {
    return item->refinement.n - item->refinement.weak;
}

static int64_t packed_size(int64_t n) {
    return n * (n + 1) / 2;
}

static void pack_lower(double *to, const double *from, int64_t ld, int64_t n) {
    for (int64_t i = 0; i < n; to += ++i)
        memcpy(to, from + i * ld, (size_t)(i + 1) * sizeof *to);
}

static void unpack_lower(double *to, int64_t ld, const double *from, int64_t n) {
    for (int64_t i = 0; i < n; from += ++i)
        memcpy(to + i * ld, from, (size_t)(i + 1) * sizeof *to);
}

/*
 * This rank's share of an open item's Gram matrix into its place in the message: of A at the first
 * look, then of the rows of its weak directions.
 */
static void share_gram(ole_pool *pool, ole_ranks_loss_spectra *spectra,
                       ole_ranks_loss_spectrum *item, bool first) {
    int64_t count = weak_of(item), k = item->a.depth, ld = ole_eigen_pad(count);
    if (k == 0) {
        memset(item->gram, 0, (size_t)packed_size(count) * sizeof *item->gram);
        return;
    }
    ole_spectrum_space space = space_of(spectra, item);
    ole_operand rows = {space.rows, OLE_F64, count, k, k, 1, false};
    if (!first) ole_spectrum_form_rows(pool, &item->a, &space, item->refinement.weak);
    ole_gram(pool, first ? &item->a : &rows, space.panels, space.square[0], ld);
    pack_lower(item->gram, space.square[0], ld, count);
}

/* Gives the open items their places in the message and their owners; returns its length. */
static int64_t lay_out(ole_ranks_loss_spectra *spectra, int count) {
    int open = 0, seen = 0;
    for (int i = 0; i < count; i++)
        open += spectra->items[i].open;
    int64_t length = 0;
    for (int i = 0; i < count; i++) {
        ole_ranks_loss_spectrum *item = &spectra->items[i];
        if (!item->open) continue;
        item->owner = (int)((int64_t)seen++ * ole_ranks_size(spectra->ranks) / open);
        item->gram = spectra->message + length;
        length += packed_size(weak_of(item));
    }
    return length;
}

/* The Frobenius norm of the rows whose Gram matrix an item has. */
static double norm_of(const ole_ranks_loss_spectrum *item) {
    double trace = 0.0;
    for (int64_t i = 0; i < weak_of(item); i++)
        trace += item->gram[packed_size(i) + i];
    return sqrt(trace);
}

/* The Gram matrices of all open items, summed over the ranks. */
static void sum_grams(ole_pool *pool, ole_ranks_loss_spectra *spectra, int count, bool first) {
    int64_t length = lay_out(spectra, count);
    for (int i = 0; i < count; i++)
        if (spectra->items[i].open) share_gram(pool, spectra, &spectra->items[i], first);
    ole_ranks_sum(spectra->ranks, spectra->message, length, OLE_F64);
    for (int i = 0; i < count; i++)
        if (spectra->items[i].open) spectra->items[i].size = norm_of(&spectra->items[i]);
}

/* Clears an item's weak vectors of the strong ones and sums their Gram matrix again. */
static void straighten(ole_pool *pool, ole_ranks_loss_spectra *spectra,
                       ole_ranks_loss_spectrum *item) {
    int64_t n = spectra->n, weak = item->refinement.weak, count = n - weak, ld = ole_eigen_pad(n);
    ole_spectrum_space space = space_of(spectra, item);
    double *product = spectra->mine; /* [count, n] */
    memset(product, 0, (size_t)(count * n) * sizeof *product);
    if (item->a.depth > 0) {
        ole_spectrum_form_rows(pool, &item->a, &space, weak);
        ole_spectrum_rows_times_a(pool, &item->a, &space, weak);
        for (int64_t i = 0; i < count; i++)
            memcpy(product + i * n, space.square[0] + i * ld, (size_t)n * sizeof *product);
    }
    ole_ranks_sum(spectra->ranks, product, count * n, OLE_F64);
    for (int64_t i = 0; i < count; i++)
        memcpy(space.square[0] + i * ld, product + i * n, (size_t)n * sizeof *product);
    ole_spectrum_clear(pool, n, &space, weak);
    share_gram(pool, spectra, item, false);
    ole_ranks_sum(spectra->ranks, item->gram, packed_size(count), OLE_F64);
    item->size = norm_of(item);
}

/* An owner's part: values and vectors of its item's weak directions to `to`; NaN where it fails. */
static void decompose(ole_pool *pool, ole_ranks_loss_spectra *spectra,
                      ole_ranks_loss_spectrum *item, bool first, double *to) {
    int64_t n = spectra->n, weak = item->refinement.weak, count = n - weak, ld = ole_eigen_pad(n);
    ole_spectrum_space space = space_of(spectra, item);
    bool solved;
    if (first) {
        unpack_lower(space.vectors, ld, item->gram, n);
        solved = ole_eigen(pool, space.vectors, n, space.values, space.square[0],
                           space.small_panels, space.scratch);
    } else {
        unpack_lower(space.square[0], ole_eigen_pad(count), item->gram, count);
        solved = ole_spectrum_refine(pool, n, &space, weak);
    }
    for (int64_t i = 0; i < count; i++) {
        to[i] = solved ? space.values[weak + i] : NAN;
        memcpy(to + count + i * n, space.vectors + (weak + i) * ld, (size_t)n * sizeof *to);
    }
}

/* Takes over what an item's owner found; false if it did not. */
static bool take_over(const ole_ranks_loss_spectra *spectra, ole_ranks_loss_spectrum *item,
                      const double *from) {
    int64_t n = spectra->n, weak = item->refinement.weak, count = n - weak, ld = ole_eigen_pad(n);
    if (isnan(from[0])) return false;
    for (int64_t i = 0; i < count; i++) {
        item->values[weak + i] = from[i];
        memcpy(item->vectors + (weak + i) * ld, from + count + i * n, (size_t)n * sizeof *from);
    }
    return true;
}

/* Owners decompose the open items, and everyone gets what they found. */
static bool decompose_all(ole_pool *pool, ole_ranks_loss_spectra *spectra, int count, bool first) {
    int size = ole_ranks_size(spectra->ranks), rank = ole_ranks_rank(spectra->ranks);
    memset(spectra->bytes, 0, (size_t)size * sizeof *spectra->bytes);
    double *to = spectra->mine;
    for (int i = 0; i < count; i++) {
        ole_ranks_loss_spectrum *item = &spectra->items[i];
        if (!item->open) continue;
        int64_t length = weak_of(item) * (spectra->n + 1);
        spectra->bytes[item->owner] += length * (int64_t)sizeof(double);
        if (item->owner != rank) continue;
        decompose(pool, spectra, item, first, to);
        to += length;
    }
    ole_ranks_gather(spectra->ranks, spectra->mine, spectra->bytes, spectra->message);
    const double *from = spectra->message;
    bool solved = true;
    for (int i = 0; i < count; i++) {
        ole_ranks_loss_spectrum *item = &spectra->items[i];
        if (!item->open) continue;
        solved &= take_over(spectra, item, from);
        from += weak_of(item) * (spectra->n + 1);
    }
    return solved;
}

/* One more look at the weak directions of all open items. */
static bool refine_open(ole_pool *pool, ole_ranks_loss_spectra *spectra, int count) {
    sum_grams(pool, spectra, count, false);
    for (int i = 0; i < count; i++) {
        ole_ranks_loss_spectrum *item = &spectra->items[i];
        if (!item->open) continue;
        ole_spectrum_space space = space_of(spectra, item);
        ole_spectrum_next next = ole_spectrum_judge(&item->refinement, &space, item->size, false);
        if (next == OLE_SPECTRUM_CLEAR) straighten(pool, spectra, item);
        item->open = next != OLE_SPECTRUM_DONE;
    }
    if (!decompose_all(pool, spectra, count, false)) return false;
    for (int i = 0; i < count; i++) {
        ole_ranks_loss_spectrum *item = &spectra->items[i];
        if (!item->open) continue;
        ole_spectrum_space space = space_of(spectra, item);
        item->open = ole_spectrum_continue(&item->refinement, &space, item->size);
    }
    return true;
}

static bool any_open(const ole_ranks_loss_spectra *spectra, int count) {
    for (int i = 0; i < count; i++)
        if (spectra->items[i].open) return true;
    return false;
}

bool ole_ranks_loss_spectra_of(ole_pool *pool, ole_ranks_loss_spectra *spectra, int count,
                               ole_cut cut) {
    for (int i = 0; i < count; i++) {
        spectra->items[i].refinement = (ole_spectrum_refinement){.n = spectra->n};
        spectra->items[i].open = true;
    }
    sum_grams(pool, spectra, count, true);
    if (!decompose_all(pool, spectra, count, true)) return false;
    for (int i = 0; i < count; i++) {
        ole_ranks_loss_spectrum *item = &spectra->items[i];
        ole_spectrum_space space = space_of(spectra, item);
        ole_spectrum_begin(&item->refinement, &space, spectra->n, cut);
        item->open = item->refinement.weak < spectra->n;
    }
    while (any_open(spectra, count))
        if (!refine_open(pool, spectra, count)) return false;
    for (int i = 0; i < count; i++) {
        ole_ranks_loss_spectrum *item = &spectra->items[i];
        ole_spectrum_space space = space_of(spectra, item);
        ole_spectrum_end(&item->refinement, &space, &item->found);
    }
    return true;
}

/* A^T Q1 Σ1^-1 Q1^T by its factors: cheaper than the n x n matrix where few columns are here. */
void ole_ranks_loss_spectra_polar(ole_pool *pool, ole_ranks_loss_spectra *spectra, int index,
                                  const ole_product *product) {
    const ole_ranks_loss_spectrum *item = &spectra->items[index];
    const ole_spectrum *found = &item->found;
    int64_t n = spectra->n, ld = ole_eigen_pad(n), k = item->a.depth, kept = 0;
    if (k == 0) return;
    ole_spectrum_space *space = &spectra->space;
    double *half = space->square[0]; /* Q1 Σ1^-1/2, vectors as rows */
    for (int64_t i = 0; i < n; i++) {
        if (!(found->sigma[i] > found->threshold)) continue;
        double scale = 1.0 / sqrt(found->sigma[i]);
        for (int64_t j = 0; j < n; j++)
            half[kept * ld + j] = scale * found->vectors[i * ld + j];
        kept++;
    }
    ole_operand vectors = {half, OLE_F64, kept, n, ld, 1, false};
    ole_operand columns = ole_operand_transposed(item->a);
    ole_product rows = {.alpha = 1.0, .c = space->rows, .ldc = k};
    ole_multiply(pool, &vectors, space->small_panels, &columns, space->panels, &rows);
    ole_operand turned = {space->rows, OLE_F64, k, kept, 1, k, false};
    ole_operand back = ole_operand_transposed(vectors);
    ole_multiply(pool, &turned, space->panels, &back, space->small_panels, product);
}
