/*
 * src/linalg/kernels.c - the inner loops of kernels.h, written with vector types and compiled once
 * per instruction set (OLE_ISA is generic, avx2, avx512 or neon).
 *
 * Micro-kernel: MR rows times up to NV vectors of columns are kept in registers while the depth
 * runs; a panel holds NV vectors of items, so it is MR-row panels and NV-vector panels at once.
 */
#include "linalg/kernels.h"

#include <float.h>
#include <math.h>
#include <string.h>

#if defined(__AVX512F__)
enum { VL = 8, MR = 8, NV = 3, RB = 4, GR = 4, GC = 6 };
#elif defined(__AVX2__)
enum { VL = 4, MR = 4, NV = 3, RB = 2, GR = 3, GC = 3 };
#elif defined(OLE_NEON)
/* 32 registers, twice as many as generic code may count on: tiles of 16 accumulators. */
enum { VL = 2, MR = 4, NV = 4, RB = 2, GR = 4, GC = 4 };
#else
enum { VL = 2, MR = 4, NV = 2, RB = 2, GR = 3, GC = 3 };
#endif
enum { NR = VL * NV };

/* Depth of one pass over the panels: NR * DEPTH doubles stay in the first-level cache. */
enum { DEPTH = 128 };

#define OLE_SCALAR double
#include "base/vector.h"

/* ---- packing ------------------------------------------------------------------------------ */

/* A panel of up to NR rows: LINE elements of each at a time, so that a cache line is read
 * once even where all rows fall into the same cache sets. */
enum { LINE = 8 };

#define DEFINE_PACK(NAME, TYPE)                                                                    \
    static void NAME##_rows(double *d, const TYPE *s, int64_t stride, int64_t rows,                \
                            int64_t depth) {                                                       \
        for (int64_t p = 0; p < depth; p += LINE) {                                                \
            int64_t length = depth - p < LINE ? depth - p : LINE;                                  \
            for (int64_t i = 0; i < NR; i++)                                                       \
                for (int64_t q = 0; q < length; q++)                                               \
                    d[(p + q) * NR + i] = i < rows ? s[i * stride + p + q] : 0.0;                  \
        }                                                                                          \
    }                                                                                              \
                                                                                                   \
    static void NAME(double *dst, const TYPE *src, int64_t item_stride, int64_t depth_stride,      \
                     int64_t items, int64_t depth) {                                               \
        for (int64_t i0 = 0; i0 < items; i0 += NR, dst += NR * depth) {                            \
            int64_t width = items - i0 < NR ? items - i0 : NR;                                     \
            const TYPE *s = src + i0 * item_stride;                                                \
            if (depth_stride == 1) {                                                               \
                NAME##_rows(dst, s, item_stride, width, depth);                                    \
                continue;                                                                          \
            }                                                                                      \
            for (int64_t p = 0; p < depth; p++, s += depth_stride) {                               \
                double *d = dst + p * NR;                                                          \
                if (width == NR && item_stride == 1)                                               \
                    for (int64_t i = 0; i < NR; i++)                                               \
                        d[i] = s[i];                                                               \
                else                                                                               \
                    for (int64_t i = 0; i < NR; i++)                                               \
                        d[i] = i < width ? s[i * item_stride] : 0.0;                               \
            }                                                                                      \
        }                                                                                          \
    }

DEFINE_PACK(pack_f32, float)
DEFINE_PACK(pack_f64, double)

/* ---- products ----------------------------------------------------------------------------- */

/* C[0:rows, 0:nv*VL cut to cols] (+)= alpha * sum_p a[p][0:MR] b[p][0:nv*VL]. */
INLINE void micro(int nv, const double *a, const double *b, int64_t rows, int64_t cols,
                  int64_t depth, double alpha, double *c, int64_t ldc, ole_store how) {
    vec acc[MR][NV];
    for (int r = 0; r < MR; r++)
        for (int v = 0; v < nv; v++)
            acc[r][v] = (vec){0};
    for (int64_t p = 0; p < depth; p++, a += NR, b += NR) {
        vec bv[NV];
        for (int v = 0; v < nv; v++)
            bv[v] = load(b + v * VL);
        for (int r = 0; r < MR; r++) {
            vec ar = splat(a[r]);
            for (int v = 0; v < nv; v++)
                acc[r][v] += ar * bv[v];
        }
    }
    if (rows >= MR && cols >= nv * VL) {
        for (int r = 0; r < MR; r++)
            for (int v = 0; v < nv; v++) {
                double *p = c + r * ldc + v * VL;
                vec x = acc[r][v] * alpha;
                if (how == OLE_STORE_ADD) x += load(p);
                store(p, x);
            }
        return;
    }
    for (int r = 0; r < MR && r < rows; r++) {
        double line[NR];
        for (int v = 0; v < nv; v++)
            store(line + v * VL, acc[r][v] * alpha);
        for (int64_t j = 0; j < cols && j < nv * VL; j++)
            c[r * ldc + j] = how == OLE_STORE_ADD ? c[r * ldc + j] + line[j] : line[j];
    }
}

/* Functions of their own, so that each keeps its sums in registers. */
#define DEFINE_MICRO(NAME, VECTORS)                                                                \
    static void NAME(const double *a, const double *b, int64_t rows, int64_t cols, int64_t depth,  \
                     double alpha, double *c, int64_t ldc, ole_store how) {                        \
        micro(VECTORS, a, b, rows, cols, depth, alpha, c, ldc, how);                               \
    }

DEFINE_MICRO(micro1, 1)
DEFINE_MICRO(micro2, 2)
DEFINE_MICRO(micro_full, NV)

static void multiply(const double *a, const double *b, int64_t rows, int64_t cols, int64_t depth,
                     double alpha, double *c, int64_t ldc, int64_t row0, int64_t col0, bool lower,
                     ole_store how) {
    for (int64_t p = 0; p < depth || p == 0; p += DEPTH) {
        int64_t pd = depth - p < DEPTH ? depth - p : DEPTH;
        ole_store now = p ? OLE_STORE_ADD : how;
        for (int64_t j = 0; j < cols; j += NR) {
            const double *bp = b + j * depth + p * NR;
            int64_t nc = cols - j < NR ? cols - j : NR;
            for (int64_t i = 0; i < rows; i += MR) {
                if (lower && row0 + i + MR <= col0 + j) continue;
                const double *ap = a + (i / NR * NR) * depth + p * NR + i % NR;
                double *cp = c + i * ldc + j;
                if (nc <= VL)
                    micro1(ap, bp, rows - i, nc, pd, alpha, cp, ldc, now);
                else if (nc <= 2 * VL)
                    micro2(ap, bp, rows - i, nc, pd, alpha, cp, ldc, now);
                else
                    micro_full(ap, bp, rows - i, nc, pd, alpha, cp, ldc, now);
            }
        }
    }
}

/* The products of rows i to i+GR-1 with rows j to j+GC-1 (both cut at n), summed in vectors. */
INLINE void gram_block(const double *x, int64_t n, int64_t depth, int64_t ldx, int64_t i, int64_t j,
                       double *gram, int64_t ld) {
    vec acc[GR][GC];
    const double *xi[GR], *xj[GC];
    for (int r = 0; r < GR; r++)
        xi[r] = x + (i + r < n ? i + r : n - 1) * ldx;
    for (int c = 0; c < GC; c++)
        xj[c] = x + (j + c < n ? j + c : n - 1) * ldx;
    for (int r = 0; r < GR; r++)
        for (int c = 0; c < GC; c++)
            acc[r][c] = (vec){0};
    int64_t p = 0;
    for (; p + VL <= depth; p += VL) {
        vec a[GR];
        for (int r = 0; r < GR; r++)
            a[r] = load(xi[r] + p);
        for (int c = 0; c < GC; c++) {
            vec b = load(xj[c] + p);
            for (int r = 0; r < GR; r++)
                acc[r][c] += a[r] * b;
        }
    }
    for (int r = 0; r < GR && i + r < n; r++)
        for (int c = 0; c < GC && j + c <= i + r; c++) {
            double s = sum_lanes(acc[r][c]);
            for (int64_t q = p; q < depth; q++)
                s += xi[r][q] * xj[c][q];
            gram[(i + r) * ld + j + c] = s;
        }
}

static void gram_f64(const double *x, int64_t n, int64_t depth, int64_t ldx, double *gram,
                     int64_t ld) {
    for (int64_t i = 0; i < n; i += GR)
        for (int64_t j = 0; j < n && j < i + GR; j += GC)
            gram_block(x, n, depth, ldx, i, j, gram, ld);
}

/* c[0:mr, 0:nv*VL] = m[0:mr, 0:n] x[0:n, 0:nv*VL]. */
INLINE void direct_block(int mr, int nv, const double *m, int64_t ldm, int64_t n, const double *x,
                         int64_t ldx, double *c, int64_t ldc) {
    vec acc[MR][NV];
    for (int r = 0; r < mr; r++)
        for (int v = 0; v < nv; v++)
            acc[r][v] = (vec){0};
    for (int64_t p = 0; p < n; p++) {
        vec b[NV];
        for (int v = 0; v < nv; v++)
            b[v] = load(x + p * ldx + v * VL);
        for (int r = 0; r < mr; r++)
            for (int v = 0; v < nv; v++)
                acc[r][v] += m[r * ldm + p] * b[v];
    }
    for (int r = 0; r < mr; r++)
        for (int v = 0; v < nv; v++)
            store(c + r * ldc + v * VL, acc[r][v]);
}

/* c[0:mr, 0:cols] = m[0:mr, 0:n] x[0:n, 0:cols]. */
INLINE void direct_rows(int mr, const double *m, int64_t ldm, int64_t n, const double *x,
                        int64_t ldx, int64_t cols, double *c, int64_t ldc) {
    int64_t j = 0;
    for (; j + NR <= cols; j += NR)
        direct_block(mr, NV, m, ldm, n, x + j, ldx, c + j, ldc);
    for (; j + VL <= cols; j += VL)
        direct_block(mr, 1, m, ldm, n, x + j, ldx, c + j, ldc);
    for (; j < cols; j++)
        for (int r = 0; r < mr; r++) {
            double s = 0.0;
            for (int64_t p = 0; p < n; p++)
                s += m[r * ldm + p] * x[p * ldx + j];
            c[r * ldc + j] = s;
        }
}

static void multiply_f64(const double *m, int64_t ldm, int64_t rows, int64_t n, const double *x,
                         int64_t ldx, int64_t cols, double *c, int64_t ldc) {
    int64_t i = 0;
    for (; i + MR <= rows; i += MR)
        direct_rows(MR, m + i * ldm, ldm, n, x, ldx, cols, c + i * ldc, ldc);
    for (; i + 2 <= rows; i += 2)
        direct_rows(2, m + i * ldm, ldm, n, x, ldx, cols, c + i * ldc, ldc);
    if (i < rows) direct_rows(1, m + i * ldm, ldm, n, x, ldx, cols, c + i * ldc, ldc);
}

/* NaN and Inf are the values whose exponent bits are all ones: an integer test, which vectorises.
 */
static bool copy_finite_f32(double *to, const float *from, int64_t n) {
    const uint32_t exponent = UINT32_C(0x7f800000);
    uint32_t special = 0;
    for (int64_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &from[i], sizeof bits);
        special |= (bits & exponent) == exponent;
        to[i] = from[i];
    }
    return !special;
}

static void scale_to_f32(float *to, const double *from, double factor, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        to[i] = (float)(factor * from[i]);
}

static double dot_f64(const double *x, const double *y, int64_t n) {
    vec acc[4] = {{0}};
    int64_t i = 0;
    for (; i + 4 * VL <= n; i += 4 * VL)
        for (int u = 0; u < 4; u++)
            acc[u] += load(x + i + u * VL) * load(y + i + u * VL);
    for (; i + VL <= n; i += VL)
        acc[0] += load(x + i) * load(y + i);
    double s = sum_lanes((acc[0] + acc[1]) + (acc[2] + acc[3]));
    for (; i < n; i++)
        s += x[i] * y[i];
    return s;
}

static void axpy(double *y, double a, const double *x, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        y[i] += a * x[i];
}

/* ---- symmetric tridiagonalisation --------------------------------------------------------- */

/*
 * Matrices come scaled to about 1.  Elements under this are as good as zero, and must be taken for
 * zero: their squares would lose digits or vanish, and turns made of them would not be orthogonal.
 */
static const double VANISHING = 1e-140;

/*
 * The Householder reflector I - tau v v^T that takes x[0:n] to (0, ..., 0, alpha).  Overwrites x
 * with v (v[n-1] = 1) and returns alpha.
 */
static double householder(double *x, int64_t n, double *tau) {
    double pivot = x[n - 1];
    double rest = dot_f64(x, x, n - 1);
    x[n - 1] = 1.0;
    if (rest < VANISHING * VANISHING) {
        *tau = 0.0;
        return pivot;
    }
    double alpha = -copysign(sqrt(pivot * pivot + rest), pivot);
    double scale = 1.0 / (pivot - alpha);
    *tau = (alpha - pivot) / alpha;
    for (int64_t i = 0; i < n - 1; i++)
        x[i] *= scale;
    return alpha;
}

/*
 * One pass over the leading m x m block, rows [r0, r0 + RB): a -= v w^T + w v^T, and at once the
 * product p += a * u with the next reflector u.  Blocks left of the diagonal count for both
 * triangles; the diagonal block is kept whole, so it needs no special care.
 */
INLINE void update_rows(double *a, int64_t lda, int64_t r0, const double *v, const double *w,
                        const double *u, double *p) {
    vec vr[RB], wr[RB], ur[RB], dot[RB];
    for (int r = 0; r < RB; r++) {
        vr[r] = splat(v[r0 + r]);
        wr[r] = splat(w[r0 + r]);
        ur[r] = splat(u[r0 + r]);
        dot[r] = (vec){0};
    }
    double *row = a + r0 * lda;
    int64_t diagonal = r0 / VL * VL;
    for (int64_t j = 0; j < diagonal; j += VL) {
        vec vj = load(v + j), wj = load(w + j), uj = load(u + j), pj = load(p + j);
        for (int r = 0; r < RB; r++) {
            vec x = load(row + r * lda + j) - vr[r] * wj - wr[r] * vj;
            store(row + r * lda + j, x);
            dot[r] += x * uj;
            pj += x * ur[r];
        }
        store(p + j, pj);
    }
    vec vj = load(v + diagonal), wj = load(w + diagonal), uj = load(u + diagonal);
    for (int r = 0; r < RB; r++) {
        vec x = load(row + r * lda + diagonal) - vr[r] * wj - wr[r] * vj;
        store(row + r * lda + diagonal, x);
        p[r0 + r] += sum_lanes(dot[r] + x * uj);
    }
}

/*
 * Works upwards from the last row, so that every row access is contiguous.  v, w of step i are
 * applied to the rest in the same pass that forms step i - 1's product: half the memory traffic.
 */
static void tridiagonalise(double *a, int64_t n, int64_t lda, double *diag, double *off,
                           double *tau, double *scratch) {
    double *v = scratch, *w = scratch + lda, *u = scratch + 2 * lda, *p = scratch + 3 * lda;
    memset(scratch, 0, 4 * (size_t)lda * sizeof *scratch);
    tau[0] = 0.0;
    for (int64_t i = n - 1; i > 0; i--) {
        double *row = a + i * lda;
        for (int64_t j = 0; j <= i; j++)
            row[j] -= v[i] * w[j] + w[i] * v[j];
        diag[i] = row[i];
        v[i] = w[i] = 0.0;
        off[i - 1] = householder(row, i, &tau[i]);
        memcpy(u, row, (size_t)i * sizeof *u);
        memset(u + i, 0, (size_t)(lda - i) * sizeof *u);
        memset(p, 0, (size_t)lda * sizeof *p);
        for (int64_t r = 0; r < i; r += RB)
            update_rows(a, lda, r, v, w, u, p);
        double half = 0.5 * tau[i] * tau[i] * dot_f64(p, u, i);
        for (int64_t j = 0; j < i; j++)
            w[j] = tau[i] * p[j] - half * u[j];
        memset(w + i, 0, (size_t)(lda - i) * sizeof *w);
        double *next = v;
        v = u;
        u = next;
    }
    diag[0] = a[0] - 2.0 * v[0] * w[0];
}

/* ---- the orthogonal factor ---------------------------------------------------------------- */

enum {
    WY = 8,               /* reflectors applied together */
    ST = VL == 8 ? 2 : 1, /* vectors of columns they are applied to at a time */
};

/* The columns of q[0:m] in `st` vectors at q: q <- (I - V S V^T) q. */
INLINE void apply_block(int st, double *q, int64_t lda, int64_t m, const double *v,
                        double s[WY][WY]) {
    vec t[WY][ST], y[WY][ST];
    for (int k = 0; k < WY; k++)
        for (int c = 0; c < st; c++)
            t[k][c] = (vec){0};
    for (int64_t i = 0; i < m; i++)
        for (int c = 0; c < st; c++) {
            vec x = load(q + i * lda + c * VL);
            for (int k = 0; k < WY; k++)
                t[k][c] += x * v[i * WY + k];
        }
    for (int k = 0; k < WY; k++)
        for (int c = 0; c < st; c++) {
            y[k][c] = (vec){0};
            for (int l = 0; l <= k; l++)
                y[k][c] += t[l][c] * s[k][l];
        }
    for (int64_t i = 0; i < m; i++)
        for (int c = 0; c < st; c++) {
            vec x = load(q + i * lda + c * VL);
            for (int k = 0; k < WY; k++)
                x -= y[k][c] * v[i * WY + k];
            store(q + i * lda + c * VL, x);
        }
}

/*
 * q[0:m, 0:cols] <- H_last ... H_first q for the reflectors of rows first to first+count-1 of `a`,
 * in compact form: H_last ... H_first = I - V S V^T with S[count, count] lower triangular.
 * `v`: scratch of m * WY doubles, V by rows.
 */
static void apply_reflectors(const double *a, int64_t lda, const double *tau, int64_t first,
                             int count, double *q, int64_t m, int64_t cols, double *v) {
    double s[WY][WY] = {{0}};
    for (int k = 0; k < count; k++) {
        const double *vk = a + (first + k) * lda;
        double cross[WY] = {0};
        for (int l = 0; l < k; l++)
            cross[l] = dot_f64(vk, a + (first + l) * lda, first + l);
        for (int l = 0; l < k; l++) {
            double x = 0.0;
            for (int h = l; h < k; h++)
                x += cross[h] * s[h][l];
            s[k][l] = -tau[first + k] * x;
        }
        s[k][k] = tau[first + k];
    }
    for (int64_t i = 0; i < m; i++)
        for (int k = 0; k < WY; k++)
            v[i * WY + k] = k < count && i < first + k ? a[(first + k) * lda + i] : 0.0;
    int64_t j = 0;
    for (; j + ST * VL <= cols; j += ST * VL)
        apply_block(ST, q + j, lda, m, v, s);
    for (; j < cols; j += VL)
        apply_block(1, q + j, lda, m, v, s);
}

static void apply_q(const double *a, int64_t n, int64_t lda, const double *tau, double *m,
                    int64_t cols, double *scratch) {
    for (int64_t first = 1; first < n; first += WY) {
        int count = n - first < WY ? (int)(n - first) : WY;
        apply_reflectors(a, lda, tau, first, count, m, first + count - 1, cols, scratch);
    }
}

/* ---- the tridiagonal eigenproblem --------------------------------------------------------- */

/* Rows x and y turn: (x, y) <- (c x - s y, s x + c y). */
INLINE void turn_rows(double *x, double *y, int64_t n, double c, double s) {
    for (int64_t j = 0; j < n; j += VL) {
        vec xj = load(x + j), yj = load(y + j);
        store(x + j, c * xj - s * yj);
        store(y + j, s * xj + c * yj);
    }
}

/* The first m >= l where the matrix falls apart between m and m + 1 (n - 1 when it does not). */
static int64_t split_after(const double *d, const double *e, int64_t l, int64_t n, double tiny) {
    int64_t m = l;
    while (m < n - 1 && fabs(e[m]) > DBL_EPSILON / 2 * (fabs(d[m]) + fabs(d[m + 1])) &&
           fabs(e[m]) > tiny)
        m++;
    return m;
}

/* Squares under this count as zero: the matrix is scaled to 1, so they are far below rounding. */
static const double TINY_SQUARE = 1e-290;

/*
 * One implicit QL sweep over rows l to m.  The turns of z run in the shadow of the next turns'
 * square roots and divisions, so vectors cost little more than values alone.
 */
static void ql_sweep(double *d, double *e, double *z, int64_t cols, int64_t ldz, int64_t l,
                     int64_t m) {
    double g = (d[l + 1] - d[l]) / (2.0 * e[l]);
    double r = sqrt(g * g + 1.0);
    g = d[m] - d[l] + e[l] / (g + copysign(r, g));
    double s = 1.0, c = 1.0, p = 0.0;
    int64_t i = m - 1;
    for (; i >= l; i--) {
        /* 1/r = r/r^2: the root and the division run side by side instead of one after the other.
         */
        double f = s * e[i], b = c * e[i], square = f * f + g * g;
        if (square < TINY_SQUARE) {
            e[i + 1] = 0.0;
            break;
        }
        r = sqrt(square);
        e[i + 1] = r;
        double inverse = r * (1.0 / square);
        s = f * inverse;
        c = g * inverse;
        g = d[i + 1] - p;
        r = (d[i] - g) * s + 2.0 * c * b;
        p = s * r;
        d[i + 1] = g + p;
        g = c * r - b;
        turn_rows(z + i * ldz, z + (i + 1) * ldz, cols, c, s);
    }
    d[i >= l ? i + 1 : l] -= p;
    if (i < l) e[l] = g;
    e[m] = 0.0;
}

static bool ql(double *d, double *e, double *z, int64_t n, int64_t cols, int64_t ldz) {
    double norm = 0.0;
    for (int64_t i = 0; i < n; i++)
        norm = fmax(norm, fabs(d[i]) + (i < n - 1 ? fabs(e[i]) : 0.0));
    e[n - 1] = 0.0;
    double tiny = fmax(DBL_EPSILON / 4 * norm, VANISHING);
    int64_t sweeps = 60 * n;
    for (int64_t l = 0; l < n; l++)
        for (int64_t m; (m = split_after(d, e, l, n, tiny)) != l; sweeps--) {
            if (sweeps == 0) return false;
            ql_sweep(d, e, z, cols, ldz, l, m);
        }
    return true;
}

/* ---- the secular equation ----------------------------------------------------------------- */

typedef long long mask __attribute__((vector_size(VL * sizeof(double))));

/* 1 + sum_i square[i] / (pole[i] - λ), its negative terms, and both parts' derivatives. */
typedef struct secular {
    double value;
    double below, above; /* the terms of poles below λ (negative), and above it */
    double below_slope, above_slope;
} secular;

INLINE secular evaluate(const double *pole, const double *square, int64_t k, double base,
                        double offset) {
    vec below = {0}, above = {0}, below_slope = {0}, above_slope = {0};
    for (int64_t i = 0; i < k; i += VL) {
        vec inverse = 1.0 / (load(pole + i) - base - offset);
        vec term = load(square + i) * inverse, slope = term * inverse;
        mask negative = term < 0.0;
        below += (vec)((mask)term & negative);
        above += (vec)((mask)term & ~negative);
        below_slope += (vec)((mask)slope & negative);
        above_slope += (vec)((mask)slope & ~negative);
    }
    secular f = {0, sum_lanes(below), sum_lanes(above), sum_lanes(below_slope),
                 sum_lanes(above_slope)};
    f.value = 1.0 + f.below + f.above;
    return f;
}

/*
 * The step from f's point to the root of the model c + p/(low - x) + q/(high - x), the terms below
 * and above matched in value and slope.  low, high: the neighbouring poles seen from the point;
 * `last`: there is no pole above.
 */
INLINE double model_step(const secular *f, double low, double high, bool last) {
    if (last) return low + f->below_slope * low * low / (f->value - f->below_slope * low);
    double c = f->value - low * f->below_slope - high * f->above_slope;
    double b = low * high * f->value;
    double a = (low + high) * f->value - low * high * (f->below_slope + f->above_slope);
    double root = sqrt(fabs(a * a - 4.0 * b * c));
    return a <= 0.0 ? (a - root) / (2.0 * c) : 2.0 * b / (a + root);
}

static double secular_root(const double *pole, const double *square, int64_t k, int64_t j,
                           double total, int64_t *origin) {
    *origin = j;
    if (k == 1) return total;
    bool last = j == k - 1;
    double width = last ? total : pole[j + 1] - pole[j], base = pole[j], at = 0.5 * width;
    double low = 0.0, high = width;
    secular f = evaluate(pole, square, k, base, at);
    if (!last && f.value < 0.0) {
        *origin = j + 1;
        base = pole[j + 1];
        low = -width;
        high = 0.0;
        at = -at;
    }
    for (int turn = 0; turn < 120; turn++) {
        double noise = 8.0 * (f.above - f.below) + 2.0 + fabs(at) * (f.below_slope + f.above_slope);
        if (fabs(f.value) <= DBL_EPSILON / 2 * noise) break;
        if (f.value < 0.0)
            low = at;
        else
            high = at;
        double below = pole[j] - base - at, above = last ? 0.0 : pole[j + 1] - base - at;
        double next = at + model_step(&f, below, above, last);
        if (!(next > low && next < high)) next = 0.5 * (low + high);
        if (next == at || next == low || next == high) break;
        at = next;
        f = evaluate(pole, square, k, base, at);
    }
    return at;
}

static void secular_weights(const double *pole, int64_t k, int64_t j, double base, double offset,
                            double *product) {
    double own = product[j] * (pole[j] - base - offset), at = pole[j];
    for (int64_t i = 0; i < k; i += VL) {
        vec p = load(pole + i);
        store(product + i, load(product + i) * ((p - base - offset) / (p - at)));
    }
    product[j] = own;
}

static void secular_vector(const double *pole, const double *weight, int64_t k, double base,
                           double offset, double *u) {
    vec square = {0};
    int64_t i = 0;
    for (; i + VL <= k; i += VL) {
        vec x = load(weight + i) / (load(pole + i) - base - offset);
        store(u + i, x);
        square += x * x;
    }
    double norm = sum_lanes(square);
    for (; i < k; i++) {
        u[i] = weight[i] / (pole[i] - base - offset);
        norm += u[i] * u[i];
    }
    double scale = 1.0 / sqrt(norm);
    for (i = 0; i < k; i++)
        u[i] *= scale;
}

const ole_kernels PASTE(ole_kernels_, OLE_ISA) = {
    .name = TEXT(OLE_ISA),
    .width = NR,
    .pack_f32 = pack_f32,
    .pack_f64 = pack_f64,
    .multiply = multiply,
    .gram_f64 = gram_f64,
    .multiply_f64 = multiply_f64,
    .copy_finite_f32 = copy_finite_f32,
    .scale_to_f32 = scale_to_f32,
    .dot_f64 = dot_f64,
    .axpy = axpy,
    .tridiagonalise = tridiagonalise,
    .apply_q = apply_q,
    .ql = ql,
    .secular_root = secular_root,
    .secular_weights = secular_weights,
    .secular_vector = secular_vector,
};
