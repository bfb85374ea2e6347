/*
 * src/linalg/eigen.c - the symmetric eigenproblem: scale, tridiagonalise, divide and
 * conquer (Cuppen; Gu and Eisenstat) with implicit QL at the leaves, transform back.  The inner
 * loops are in kernels.c; this file puts the steps in order and keeps the padding.
 */
#include "linalg/eigen.h"

#include "base/pool.h"
#include "linalg/kernels.h"
#include "linalg/panels.h"

#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* ---- Divide and conquer ------------------------------------------------------------------- */

/*
 * T is torn in two by subtracting rho v v^T; the halves are solved; then D + rho z z^T, with D the
 * halves' eigenvalues, is diagonalised: its eigenvalues are the roots of a secular equation, its
 * eigenvectors follow from them (with z replaced by the vector for which the computed roots are
 * exact, which keeps them orthogonal), and one product turns them into those of T.  Eigenvalues
 * that z does not reach, or that coincide, are deflated: they pass through unchanged.
 *
 * The eigenvectors are rows: each half's rows are zero in the other half's columns.
 */

enum {
    LEAF = 32, /* rows under which QL is faster */
    SLAB = 96, /* eigenvectors formed at a time */
};

/* One call's memory: arrays of ld doubles or integers, and slabs of SLAB rows. */
typedef struct divide {
    ole_pool *pool;
    const ole_kernels *kernels;
    int64_t ld;
    double *diag, *off, *z, *panels;
    int64_t *rank;   /* the rows of each solved part, by rising eigenvalue */
    int64_t *merged; /* the same while two parts are merged */
    int64_t *source; /* [k] row of each undeflated eigenvalue */
    int64_t *column; /* [k] its place in the product's depth: half 1, both, half 2 */
    char *support;   /* [n] of each row: bit 0 columns of half 1, bit 1 of half 2 */
    int64_t *origin; /* [k] the pole next to each root */
    double *offset;  /* [k] the root minus that pole */
    double *pole;    /* [k] undeflated eigenvalues of the halves, rising */
    double *weight;  /* [k] their components of z */
    double *square;  /* [k] rho z^2 */
    double *vector;  /* one eigenvector of D + rho z z^T */
    double *slab;    /* [SLAB, ld] such vectors, columns in the product's order */
    double *result;  /* [SLAB, ld] the product */
    double *packed;  /* slab, packed */
} divide;

static divide lay_out(ole_pool *pool, double *diag, double *off, double *z, int64_t ld,
                      double *panels, double *scratch) {
    divide w = {.pool = pool, .kernels = ole_kernels_get(), .ld = ld};
    w.diag = diag;
    w.off = off;
    w.z = z;
    w.panels = panels;
    double **arrays[] = {&w.offset, &w.pole, &w.weight, &w.square, &w.vector};
    int64_t **lists[] = {&w.rank, &w.merged, &w.source, &w.column, &w.origin};
    for (int i = 0; i < 5; i++, scratch += ld + 8)
        *arrays[i] = scratch;
    for (int i = 0; i < 5; i++, scratch += ld + 8)
        *lists[i] = (int64_t *)(void *)scratch;
    w.support = (char *)scratch;
    scratch += 2 * (ld + 8);
    w.slab = scratch;
    w.result = w.slab + SLAB * ld;
    w.packed = w.result + SLAB * ld;
    return w;
}

/* A block of rows and columns [first, first + n) of T, solved in two parts of n1 and n - n1. */
typedef struct part {
    int64_t first, n, n1;
} part;

static void sort_by_value(int64_t *rank, int64_t n, const double *value) {
    for (int64_t i = 1; i < n; i++) {
        int64_t x = rank[i], j = i;
        for (; j > 0 && value[rank[j - 1]] > value[x]; j--)
            rank[j] = rank[j - 1];
        rank[j] = x;
    }
}

static bool solve_leaf(divide *w, int64_t first, int64_t n) {
    double *z = w->z + first * w->ld + first;
    for (int64_t i = 0; i < n; i++)
        z[i * w->ld + i] = 1.0;
    if (!w->kernels->ql(w->diag + first, w->off + first, z, n, n, w->ld)) return false;
    for (int64_t i = 0; i < n; i++)
        w->rank[first + i] = first + i;
    sort_by_value(w->rank + first, n, w->diag);
    return true;
}

/* merged[first:first+n] = the two parts' rows by rising eigenvalue. */
static void merge_ranks(divide *w, part p) {
    int64_t i = p.first, j = p.first + p.n1, end1 = j, end2 = p.first + p.n;
    for (int64_t k = p.first; k < end2; k++) {
        bool left = j == end2 || (i < end1 && w->diag[w->rank[i]] <= w->diag[w->rank[j]]);
        w->merged[k] = left ? w->rank[i++] : w->rank[j++];
    }
}

/*
 * Two close eigenvalues, rows a and b: turned so that z vanishes on a.  True if that changes the
 * matrix by no more than `tiny`.
 */
static bool turn_together(divide *w, part p, int64_t a, int64_t b, double *za, double *zb,
                          double tiny) {
    double r = hypot(*za, *zb), c = *zb / r, s = -*za / r;
    double da = w->diag[a], db = w->diag[b];
    if (fabs((db - da) * c * s) > tiny) return false;
    *zb = r;
    *za = 0.0;
    double *x = w->z + a * w->ld + p.first, *y = w->z + b * w->ld + p.first;
    for (int64_t j = 0; j < p.n; j++) {
        double t = c * x[j] + s * y[j];
        y[j] = c * y[j] - s * x[j];
        x[j] = t;
    }
    w->diag[a] = da * c * c + db * s * s;
    w->diag[b] = da * s * s + db * c * c;
    char both = w->support[a] | w->support[b];
    w->support[a] = w->support[b] = both;
    return true;
}

/*
 * Lists in source, pole and weight what is left after deflation, by rising pole; returns how many.
 * `coupling` is z by row (indexed from 0 at p.first).
 */
static int64_t deflate(divide *w, part p, double rho, double *coupling) {
    double largest = 0.0;
    for (int64_t i = p.first; i < p.first + p.n; i++)
        largest = fmax(largest, fmax(fabs(w->diag[i]), fabs(coupling[i - p.first])));
    double tiny = 4.0 * DBL_EPSILON * largest;
    int64_t k = 0, waiting = -1;
    for (int64_t i = p.first; i < p.first + p.n; i++) {
        int64_t row = w->merged[i];
        double *zr = &coupling[row - p.first];
        if (rho * fabs(*zr) <= tiny) continue;
        if (waiting >= 0 &&
            !turn_together(w, p, waiting, row, &coupling[waiting - p.first], zr, tiny))
            w->source[k++] = waiting;
        waiting = row;
    }
    if (waiting >= 0) w->source[k++] = waiting;
    for (int64_t i = 0; i < k; i++) {
        w->pole[i] = w->diag[w->source[i]];
        w->weight[i] = coupling[w->source[i] - p.first];
    }
    return k;
}

/* Finds all roots, and the weights for which they are exact. */
static void solve_secular(divide *w, int64_t k, double rho) {
    double total = 0.0;
    for (int64_t i = 0; i < k; i++) {
        w->square[i] = rho * w->weight[i] * w->weight[i];
        total += w->square[i];
    }
    for (int64_t i = k; i < k + 8; i++) {
        w->square[i] = 0.0;
        w->pole[i] = HUGE_VAL;
    }
    for (int64_t i = 0; i < k; i++)
        w->vector[i] = 1.0;
    for (int64_t j = 0; j < k; j++) {
        w->offset[j] = w->kernels->secular_root(w->pole, w->square, k, j, total, &w->origin[j]);
        w->kernels->secular_weights(w->pole, k, j, w->pole[w->origin[j]], w->offset[j], w->vector);
    }
    for (int64_t i = 0; i < k; i++)
        w->weight[i] = copysign(sqrt(fabs(w->vector[i])), w->weight[i]);
}

/* The order of the product's depth: rows of half 1 alone, of both, of half 2 alone. */
static void order_columns(divide *w, int64_t k, int64_t *alone1, int64_t *with1) {
    int64_t next = 0;
    for (char support = 1; support <= 3; support++) {
        static const char order[] = {0, 1, 3, 2};
        for (int64_t i = 0; i < k; i++)
            if (w->support[w->source[i]] == order[(int)support]) w->column[i] = next++;
        if (support == 1) *alone1 = next;
        if (support == 2) *with1 = next;
    }
}

/* Packs columns [from, from + items) of the source rows whose place lies in [low, high). */
static ole_panels pack_rows(divide *w, int64_t k, int64_t from, int64_t items, int64_t low,
                            int64_t high, double *buffer) {
    int64_t width = w->kernels->width, depth = high - low;
    for (int64_t i = 0; i < k; i++) {
        int64_t place = w->column[i] - low;
        if (place < 0 || place >= depth) continue;
        const double *row = w->z + w->source[i] * w->ld + from;
        for (int64_t j = 0; j < items; j += width) {
            double *to = buffer + j * depth + place * width;
            for (int64_t c = 0; c < width; c++)
                to[c] = j + c < items ? row[j + c] : 0.0;
        }
    }
    return (ole_panels){buffer, items, depth};
}

/* Rows source[j0:j0+count] of z become eigenvectors j0 to j0+count-1 of this part of T. */
static void form_slab(divide *w, part p, int64_t k, int64_t j0, int64_t count, int64_t alone1,
                      const ole_panels *half1, const ole_panels *half2) {
    for (int64_t j = 0; j < count; j++) {
        int64_t pole = w->origin[j0 + j];
        w->kernels->secular_vector(w->pole, w->weight, k, w->pole[pole], w->offset[j0 + j],
                                   w->vector);
        for (int64_t i = 0; i < k; i++)
            w->slab[j * w->ld + w->column[i]] = w->vector[i];
    }
    ole_operand left1 = {w->slab, OLE_F64, count, half1->depth, w->ld, 1, false};
    ole_operand left2 = {w->slab + alone1, OLE_F64, count, half2->depth, w->ld, 1, false};
    ole_product into1 = {.alpha = 1.0, .c = w->result, .ldc = w->ld};
    ole_product into2 = {.alpha = 1.0, .c = w->result + p.n1, .ldc = w->ld};
    ole_panels packed = ole_panels_pack(w->pool, w->packed, &left1);
    ole_panels_multiply(w->pool, &packed, half1, &into1);
    packed = ole_panels_pack(w->pool, w->packed, &left2);
    ole_panels_multiply(w->pool, &packed, half2, &into2);
    for (int64_t j = 0; j < count; j++) {
        int64_t row = w->source[j0 + j];
        memcpy(w->z + row * w->ld + p.first, w->result + j * w->ld,
               (size_t)p.n * sizeof *w->result);
        w->diag[row] = w->pole[w->origin[j0 + j]] + w->offset[j0 + j];
    }
}

/* The two solved parts of p become one. `beta`: the element of T that joins them. */
static void merge(divide *w, part p, double beta) {
    double *coupling = w->result, rho = 2.0 * fabs(beta);
    const double *column = w->z + p.first * w->ld + p.first + p.n1;
    for (int64_t i = 0; i < p.n; i++) {
        bool second = i >= p.n1;
        double end = second ? copysign(1.0, beta) * column[i * w->ld] : column[i * w->ld - 1];
        coupling[i] = end * M_SQRT1_2;
        w->support[p.first + i] = second ? 2 : 1;
    }
    merge_ranks(w, p);
    int64_t k = deflate(w, p, rho, coupling), alone1 = 0, with1 = 0;
    if (k > 0) {
        solve_secular(w, k, rho);
        order_columns(w, k, &alone1, &with1);
        ole_panels half1 = pack_rows(w, k, p.first, p.n1, 0, with1, w->panels);
        double *rest = w->panels + ole_panels_size(p.n1, with1);
        ole_panels half2 = pack_rows(w, k, p.first + p.n1, p.n - p.n1, alone1, k, rest);
        for (int64_t j = 0; j < k; j += SLAB)
            form_slab(w, p, k, j, k - j < SLAB ? k - j : SLAB, alone1, &half1, &half2);
    }
    memcpy(w->rank + p.first, w->merged + p.first, (size_t)p.n * sizeof *w->rank);
    sort_by_value(w->rank + p.first, p.n, w->diag);
}

/*
 * Solves the part of w->diag and w->off (destroyed; one element beyond the last is free to use)
 * from `first` on.  Then diag holds the eigenvalues in no particular order, row i of z the
 * eigenvector of diag[i].  False if a leaf does not converge.
 */
static bool solve(divide *w, int64_t first, int64_t n) {
    if (n <= LEAF) return solve_leaf(w, first, n);
    part p = {first, n, n / 16 * 8}; /* parts begin at multiples of 8, as rows are padded to */
    int64_t middle = first + p.n1;
    double beta = w->off[middle - 1];
    w->diag[middle - 1] -= fabs(beta);
    w->diag[middle] -= fabs(beta);
    if (!solve(w, first, p.n1) || !solve(w, middle, n - p.n1)) return false;
    merge(w, p, beta);
    return true;
}

enum { TILE = 16 };

/* Clears the padding, copies the lower triangle over the upper, and returns the largest element. */
static double symmetrise(double *a, int64_t n, int64_t lda) {
    double largest = 0.0;
    for (int64_t i = 0; i < n; i++) {
        double *row = a + i * lda;
        for (int64_t j = 0; j <= i; j++) {
            double size = fabs(row[j]);
            if (size > largest) largest = size;
            a[j * lda + i] = row[j];
        }
        memset(row + n, 0, (size_t)(lda - n) * sizeof *row);
    }
    memset(a + n * lda, 0, (size_t)((lda - n) * lda) * sizeof *a);
    return largest;
}

static void transpose(double *to, const double *from, int64_t n) {
    for (int64_t i0 = 0; i0 < n; i0 += TILE)
        for (int64_t j0 = 0; j0 < n; j0 += TILE)
            for (int64_t i = i0; i < i0 + TILE && i < n; i++)
                for (int64_t j = j0; j < j0 + TILE && j < n; j++)
                    to[i * n + j] = from[j * n + i];
}

int64_t ole_eigen_panels(int64_t n) {
    int64_t ld = ole_eigen_pad(n);
    return (ld + 2 * ole_kernels_get()->width) * ld;
}

/* Two arrays and the kernels' scratch; lay_out() lists the rest. */
int64_t ole_eigen_scratch(int64_t n) {
    int64_t ld = ole_eigen_pad(n);
    return 10 * ld + 12 * (ld + 8) + 2 * SLAB * ld + ole_panels_size(SLAB, ld);
}

bool ole_eigen(ole_pool *pool, double *a, int64_t n, double *values, double *work, double *panels,
               double *scratch) {
    const ole_kernels *k = ole_kernels_get();
    int64_t lda = ole_eigen_pad(n);
    double largest = symmetrise(a, n, lda);
    if (n == 1) {
        values[0] = a[0];
        a[0] = 1.0;
        return true;
    }
    /* A power of two: exact, and squares inside the reflectors neither overflow nor vanish. */
    int exponent = 0;
    frexp(largest, &exponent);
    double scale = ldexp(1.0, -exponent);
    for (int64_t i = 0; i < n * lda; i++)
        a[i] *= scale;
    double *off = scratch, *tau = scratch + lda, *rest = scratch + 2 * lda;
    k->tridiagonalise(a, n, lda, values, off, tau, rest);
    divide w = lay_out(pool, values, off, work, lda, panels, rest);
    memset(work, 0, (size_t)(lda * lda) * sizeof *work);
    if (!solve(&w, 0, n)) return false;
    /* The reflectors act on columns: they are applied to the transpose. */
    transpose(panels, work, lda);
    k->apply_q(a, n, lda, tau, panels, n, rest);
    transpose(a, panels, lda);
    for (int64_t i = 0; i < n; i++)
        values[i] = ldexp(values[i], exponent);
    return true;
}
