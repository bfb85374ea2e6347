/* src/linalg/spectrum.c - the Gram route of spectrum.h: first look, refinements, inverse root. */
#include "linalg/spectrum_steps.h"

#include "linalg/eigen.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* λ under this share of the level's largest is looked at again: σ under 1e-4. */
static const double WEAK = 1e-8;

/* A tail whose norm is surely under this share of the whole norm is counted as one number. */
static const double NEGLIGIBLE = 1e-7;

/* Directions kept under this share of σ_max need their vectors cleared of the strong ones. */
static const double DELICATE = 1e-6;

enum { DIRECT = 64 }; /* rows up to which matrices are multiplied unpacked */

void ole_spectrum_lay_out(ole_spectrum_space *space, ole_arena *arena, int64_t n, int64_t k) {
    int64_t square = ole_eigen_pad(n) * ole_eigen_pad(n);
    int64_t wide = ole_panels_size(n, k), tall = ole_panels_size(k, n);
    space->vectors = ole_arena_take(arena, square, sizeof(double));
    space->square[0] = ole_arena_take(arena, square, sizeof(double));
    space->square[1] = ole_arena_take(arena, square, sizeof(double));
    space->values = ole_arena_take(arena, n, sizeof(double));
    space->small_values = ole_arena_take(arena, n, sizeof(double));
    space->scratch = ole_arena_take(arena, ole_eigen_scratch(n), sizeof(double));
    space->panels = ole_arena_take(arena, wide > tall ? wide : tall, sizeof(double));
    int64_t small = ole_panels_size(n, n), eigen = ole_eigen_panels(n);
    space->small_panels = ole_arena_take(arena, small > eigen ? small : eigen, sizeof(double));
    space->rows = ole_arena_take(arena, n * k, sizeof(double));
}

/* A float64 matrix with contiguous rows, small enough that packing would not pay. */
static bool is_direct(const ole_operand *a) {
    return a->dtype == OLE_F64 && a->depth_stride == 1 && !a->transposed && a->items <= DIRECT;
}

void ole_gram(ole_pool *pool, const ole_operand *a, double *panels, double *gram, int64_t ld) {
    if (is_direct(a)) {
        ole_kernels_get()->gram_f64(a->data, a->items, a->depth, a->item_stride, gram, ld);
        return;
    }
    ole_panels packed = ole_panels_pack(pool, panels, a);
    ole_product product = {.alpha = 1.0, .c = gram, .ldc = ld, .lower = true};
    ole_panels_multiply(pool, &packed, &packed, &product);
}

static void swap_rows(double *matrix, double *values, int64_t n, int64_t i, int64_t j) {
    double *x = matrix + i * ole_eigen_pad(n), *y = matrix + j * ole_eigen_pad(n);
    for (int64_t c = 0; c < n; c++) {
        double t = x[c];
        x[c] = y[c];
        y[c] = t;
    }
    double t = values[i];
    values[i] = values[j];
    values[j] = t;
}

/*
 * Values first to n-1 are eigenvalues of one level.  Moves the weak ones to the end, turns the
 * strong ones into singular values, and returns where the weak ones begin.
 */
static int64_t settle_strong(double *vectors, double *values, int64_t n, int64_t first) {
    double top = 0.0;
    for (int64_t i = first; i < n; i++)
        top = fmax(top, values[i]);
    int64_t weak = n;
    for (int64_t i = first; i < weak;) {
        if (values[i] >= WEAK * top && values[i] > 0.0) {
            values[i] = sqrt(values[i]);
            i++;
        } else {
            swap_rows(vectors, values, n, i, --weak);
        }
    }
    return weak;
}

double ole_spectrum_form_rows(ole_pool *pool, const ole_operand *a, ole_spectrum_space *space,
                              int64_t first) {
    int64_t n = a->items, k = a->depth, ld = ole_eigen_pad(n);
    ole_operand weak = {space->vectors + first * ld, OLE_F64, n - first, n, ld, 1, false};
    ole_operand turned = ole_operand_transposed(*a);
    ole_product product = {.alpha = 1.0, .c = space->rows, .ldc = k};
    ole_multiply(pool, &weak, space->small_panels, &turned, space->panels, &product);
    const ole_kernels *kernels = ole_kernels_get();
    double square = 0.0;
    for (int64_t i = 0; i < n - first; i++)
        square += kernels->dot_f64(space->rows + i * k, space->rows + i * k, k);
    return sqrt(square);
}

/* n columns of both at a time. */
void ole_spectrum_rows_times_a(ole_pool *pool, const ole_operand *a, ole_spectrum_space *space,
                               int64_t first) {
    int64_t n = a->items, k = a->depth, ld = ole_eigen_pad(n);
    size_t size = ole_dtype_size(a->dtype);
    for (int64_t p = 0; p < k; p += n) {
        ole_operand rows = {
            space->rows + p, OLE_F64, n - first, k - p < n ? k - p : n, k, 1, false};
        ole_operand part = *a;
        part.data = (const char *)a->data + (size_t)(p * a->depth_stride) * size;
        part.depth = rows.depth;
        ole_product product = {1.0, space->square[0], ld, p ? OLE_STORE_ADD : OLE_STORE_SET, false};
        ole_multiply(pool, &rows, space->small_panels, &part, space->panels, &product);
    }
}

void ole_spectrum_clear(ole_pool *pool, int64_t n, ole_spectrum_space *space, int64_t first) {
    int64_t ld = ole_eigen_pad(n);
    double *trace = space->square[1];
    ole_operand rows = {space->square[0], OLE_F64, n - first, n, ld, 1, false};
    ole_operand strong = {space->vectors, OLE_F64, first, n, ld, 1, false};
    ole_product product = {.alpha = 1.0, .c = trace, .ldc = ld};
    ole_multiply(pool, &rows, space->small_panels, &strong, space->panels, &product);
    for (int64_t i = 0; i < n - first; i++)
        for (int64_t j = 0; j < first; j++)
            trace[i * ld + j] /= space->values[j] * space->values[j];
    ole_operand share = {trace, OLE_F64, n - first, first, ld, 1, false};
    ole_operand across = ole_operand_transposed(strong);
    product = (ole_product){-1.0, space->vectors + first * ld, ld, OLE_STORE_ADD, false};
    ole_multiply(pool, &share, space->small_panels, &across, space->panels, &product);
}

bool ole_spectrum_refine(ole_pool *pool, int64_t n, ole_spectrum_space *space, int64_t first) {
    int64_t count = n - first, ld = ole_eigen_pad(n), small = ole_eigen_pad(count);
    double *gram = space->square[0], *work = space->square[1];
    if (!ole_eigen(pool, gram, count, space->small_values, work, space->small_panels,
                   space->scratch))
        return false;
    ole_operand turn = {gram, OLE_F64, count, count, small, 1, false};
    ole_operand old = {space->vectors + first * ld, OLE_F64, n, count, 1, ld, false};
    ole_product product = {.alpha = 1.0, .c = space->vectors + first * ld, .ldc = ld};
    ole_multiply(pool, &turn, space->panels, &old, space->small_panels, &product);
    memcpy(space->values + first, space->small_values, (size_t)count * sizeof(double));
    return true;
}

/* The eigenvalues from `first` on are below what float64 resolves: their σ as they stand. */
static void settle_rest(double *values, int64_t n, int64_t first) {
    for (int64_t i = first; i < n; i++)
        values[i] = values[i] > 0.0 ? sqrt(values[i]) : 0.0;
}

/* Rows formed in float64 from directions that A does not have are as large as this: under it a σ is
 * noise, whatever the cut. */
static double noise_of(int64_t n, double largest) {
    return (double)n * DBL_EPSILON * largest;
}

void ole_spectrum_begin(ole_spectrum_refinement *refinement, ole_spectrum_space *space, int64_t n,
                        ole_cut cut) {
    *refinement = (ole_spectrum_refinement){.n = n, .cut = cut};
    refinement->weak = settle_strong(space->vectors, space->values, n, 0);
    for (int64_t i = 0; i < refinement->weak; i++)
        refinement->largest = fmax(refinement->largest, space->values[i]);
    refinement->threshold =
        fmax(ole_cut_at(cut, refinement->largest), noise_of(n, refinement->largest));
}

ole_spectrum_next ole_spectrum_judge(ole_spectrum_refinement *refinement, ole_spectrum_space *space,
                                     double size, bool whole_tail) {
    int64_t n = refinement->n, weak = refinement->weak;
    for (; refinement->settled < weak; refinement->settled++)
        refinement->norm += space->values[refinement->settled];
    bool negligible = sqrt((double)(n - weak)) * size <= NEGLIGIBLE * refinement->norm;
    if (!whole_tail && negligible && size <= refinement->threshold) {
        memset(space->values + weak, 0, (size_t)(n - weak) * sizeof(double));
        refinement->tail = size;
        return OLE_SPECTRUM_DONE;
    }
    if (size > refinement->threshold && refinement->threshold < DELICATE * refinement->largest)
        return OLE_SPECTRUM_CLEAR;
    return OLE_SPECTRUM_REFINE;
}

bool ole_spectrum_continue(ole_spectrum_refinement *refinement, ole_spectrum_space *space,
                           double size) {
    int64_t n = refinement->n, before = refinement->weak;
    if (size > noise_of(n, refinement->largest))
        refinement->weak = settle_strong(space->vectors, space->values, n, before);
    if (refinement->weak == before) {
        settle_rest(space->values, n, before);
        return false;
    }
    return refinement->weak < n;
}

void ole_spectrum_end(const ole_spectrum_refinement *refinement, const ole_spectrum_space *space,
                      ole_spectrum *out) {
    *out = (ole_spectrum){.n = refinement->n, .sigma = space->values, .vectors = space->vectors};
    for (int64_t i = 0; i < out->n; i++) {
        out->norm += out->sigma[i];
        out->largest = fmax(out->largest, out->sigma[i]);
    }
    out->norm += refinement->tail;
    out->threshold =
        fmax(ole_cut_at(refinement->cut, out->largest), noise_of(out->n, out->largest));
    for (int64_t i = 0; i < out->n; i++)
        out->rank += out->sigma[i] > out->threshold;
}

/* The Gram matrix of the rows just formed, decomposed. */
static bool refine_rows(ole_pool *pool, int64_t n, int64_t k, ole_spectrum_space *space,
                        int64_t first) {
    ole_operand rows = {space->rows, OLE_F64, n - first, k, k, 1, false};
    ole_gram(pool, &rows, space->panels, space->square[0], ole_eigen_pad(n - first));
    return ole_spectrum_refine(pool, n, space, first);
}

/* Second refinement at the weak directions, until none is left. */
static bool refine(ole_pool *pool, const ole_operand *a, bool whole_tail, ole_spectrum_space *space,
                   ole_spectrum_refinement *refinement) {
    for (bool more = refinement->weak < refinement->n; more;) {
        double size = ole_spectrum_form_rows(pool, a, space, refinement->weak);
        ole_spectrum_next next = ole_spectrum_judge(refinement, space, size, whole_tail);
        if (next == OLE_SPECTRUM_DONE) return true;
        if (next == OLE_SPECTRUM_CLEAR) {
            ole_spectrum_rows_times_a(pool, a, space, refinement->weak);
            ole_spectrum_clear(pool, refinement->n, space, refinement->weak);
            size = ole_spectrum_form_rows(pool, a, space, refinement->weak);
        }
        if (!refine_rows(pool, refinement->n, a->depth, space, refinement->weak)) return false;
        more = ole_spectrum_continue(refinement, space, size);
    }
    return true;
}

bool ole_spectrum_of(ole_pool *pool, const ole_operand *a, bool gram_given, bool whole_tail,
                     ole_cut cut, ole_spectrum_space *space, ole_spectrum *out) {
    int64_t n = a->items;
    if (!gram_given) ole_gram(pool, a, space->panels, space->vectors, ole_eigen_pad(n));
    if (!ole_eigen(pool, space->vectors, n, space->values, space->square[0], space->small_panels,
                   space->scratch))
        return false;
    ole_spectrum_refinement refinement;
    ole_spectrum_begin(&refinement, space, n, cut);
    if (!refine(pool, a, whole_tail, space, &refinement)) return false;
    ole_spectrum_end(&refinement, space, out);
    return true;
}

void ole_spectrum_inverse_root(ole_pool *pool, const ole_spectrum *spectrum,
                               ole_spectrum_space *space, double *root, int64_t ld) {
    int64_t n = spectrum->n, pad = ole_eigen_pad(n), kept = 0;
    double *scaled = space->square[0];
    for (int64_t i = 0; i < n; i++) {
        if (!(spectrum->sigma[i] > spectrum->threshold)) continue;
        double scale = 1.0 / sqrt(spectrum->sigma[i]);
        for (int64_t j = 0; j < n; j++)
            scaled[kept * pad + j] = scale * spectrum->vectors[i * pad + j];
        kept++;
    }
    ole_operand half = {scaled, OLE_F64, n, kept, 1, pad, false};
    ole_panels packed = ole_panels_pack(pool, space->small_panels, &half);
    ole_product product = {.alpha = 1.0, .c = root, .ldc = ld, .lower = true};
    ole_panels_multiply(pool, &packed, &packed, &product);
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < i; j++)
            root[j * ld + i] = root[i * ld + j];
}

void ole_spectrum_apply(ole_pool *pool, const ole_operand *a, const double *root, int64_t ld,
                        ole_spectrum_space *space, const ole_product *product) {
    if (is_direct(a) && product->alpha == 1.0 && product->store == OLE_STORE_SET) {
        ole_kernels_get()->multiply_f64(root, ld, a->items, a->items, a->data, a->item_stride,
                                        a->depth, product->c, product->ldc);
        return;
    }
    ole_operand square = {root, OLE_F64, a->items, a->items, ld, 1, false};
    ole_operand across = ole_operand_transposed(*a);
    ole_panels k = ole_panels_pack(pool, space->small_panels, &square);
    ole_panels x = ole_panels_pack(pool, space->panels, &across);
    ole_panels_multiply(pool, a->transposed ? &x : &k, a->transposed ? &k : &x, product);
}
