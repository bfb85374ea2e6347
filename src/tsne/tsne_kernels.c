/*
 * src/tsne/tsne_kernels.c - the inner loops of tsne_kernels.h, written with vector types and
 * compiled once per instruction set (OLE_ISA is generic, avx2, avx512 or neon).  float32
 * throughout: forces need three digits, and a cell stands for its points to two.
 */
#include "tsne/tsne_kernels.h"

#include <math.h>
#include <string.h>
#if defined(__AVX2__)
#include <immintrin.h>
#elif defined(OLE_NEON)
#include <arm_neon.h>
#endif

#if defined(__AVX512F__)
enum { VL = 16 };
#elif defined(__AVX2__)
enum { VL = 8 };
#else
enum { VL = 4 };
#endif
#if defined(OLE_NEON)
enum { NV = 4 }; /* vectors per group: with 32 registers four fit */
#else
enum { NV = 2 };
#endif
enum {
    GROUP = NV * VL, /* points that walk together */
    LIST = 512,      /* sources summed at once; a leaf at its deepest level may hold more */
};

#define OLE_SCALAR float
#include "base/vector.h"

typedef int32_t ivec __attribute__((vector_size(VL * sizeof(int32_t))));
typedef uint32_t uvec __attribute__((vector_size(VL * sizeof(uint32_t))));

/* Unlike fminf() and fmaxf() one instruction each; of a NaN in front they give the other. */
INLINE float lesser(float a, float b) {
    return a < b ? a : b;
}

INLINE float greater(float a, float b) {
    return a > b ? a : b;
}

/* 1 / v for v >= 1, to a few units in the last place. */
INLINE vec reciprocal(vec v) {
#if defined(__AVX512F__)
    vec r = (vec)_mm512_rcp14_ps((__m512)v);
    return r * (2.0f - v * r);
#elif defined(__AVX2__)
    vec r = (vec)_mm256_rcp_ps((__m256)v);
    return r * (2.0f - v * r);
#elif defined(OLE_NEON)
    float32x4_t r = vrecpeq_f32((float32x4_t)v); /* to 8 bits; each step doubles them */
    r = vmulq_f32(r, vrecpsq_f32((float32x4_t)v, r));
    return (vec)vmulq_f32(r, vrecpsq_f32((float32x4_t)v, r));
#else
    return 1.0f / v;
#endif
}

/* ---- Neighbours --------------------------------------------------------------------------- */

static int64_t nearer(double *line, const double *square, double own, int64_t count, double limit,
                      int32_t *place) {
    enum { CHUNK = 32 }; /* few chunks hold one that is nearer, once the nearest are found */
    int64_t found = 0;
    for (int64_t at = 0; at < count; at += CHUNK) {
        int64_t width = count - at < CHUNK ? count - at : CHUNK, here = 0;
        for (int64_t i = at; i < at + width; i++) {
            double s = line[i] + (own + square[i]);
            line[i] = s = s > 0.0 ? s : 0.0;
            here += s < limit;
        }
        for (int64_t i = at; here && i < at + width; i++)
            if (line[i] < limit) place[found++] = (int32_t)i;
    }
    return found;
}

/* ---- Order -------------------------------------------------------------------------------- */

/* The places of VL points whose coordinates are whole numbers of OLE_TSNE_LEVELS bits. */
INLINE uvec places(uvec x, uvec y) {
    /* The curve's turns on the way down: both axes flipped, axes swapped. */
    uvec flip = {0}, swap = {0}, place = {0};
    for (int level = OLE_TSNE_LEVELS - 1; level >= 0; level--) {
        uvec a = (x >> level & 1) ^ flip, b = (y >> level & 1) ^ flip;
        uvec cross = (a ^ b) & swap;
        a ^= cross;
        b ^= cross;
        place = place << 2 | (a << 1 | (a ^ b));
        flip ^= a & ~b;
        swap ^= b ^ 1;
    }
    return place;
}

static void codes(const float *xy, int64_t count, float x0, float y0, float side, uint32_t *code) {
    const float most = (float)((1 << OLE_TSNE_LEVELS) - 1);
    const float scale = side > 0.0f ? (most + 1.0f) / side : 0.0f;
    for (int64_t i = 0; i < count; i += VL) {
        int width = count - i < VL ? (int)(count - i) : VL;
        uvec x = {0}, y = {0};
        uint32_t at[2][VL] = {{0}};
        for (int j = 0; j < 2 * width; j++) {
            float away = (xy[2 * i + j] - (j & 1 ? y0 : x0)) * scale;
            at[j & 1][j >> 1] = (uint32_t)(int32_t)lesser(greater(away, 0.0f), most);
        }
        memcpy(&x, at[0], sizeof x);
        memcpy(&y, at[1], sizeof y);
        uvec place = places(x, y);
        memcpy(code + i, &place, (size_t)width * sizeof *code);
    }
}

/* ---- Repulsion ---------------------------------------------------------------------------- */

/* A group of points and what has been summed for them. */
typedef struct group {
    vec x[NV], y[NV], fx[NV], fy[NV], z[NV];
} group;

/* Points or cells to be summed. */
typedef struct sources {
    int count;
    float x[LIST], y[LIST], mass[LIST];
} sources;

INLINE void sum_sources(group *g, const float *x, const float *y, const float *mass,
                        int64_t count) {
    group h = *g;
    for (int64_t s = 0; s < count; s++) {
        vec sx = splat(x[s]), sy = splat(y[s]), m = splat(mass ? mass[s] : 1.0f);
#pragma GCC unroll 4
        for (int v = 0; v < NV; v++) {
            vec dx = h.x[v] - sx, dy = h.y[v] - sy;
            vec q = reciprocal(1.0f + dx * dx + dy * dy);
            vec mq = m * q, w = mq * q;
            h.z[v] += mq;
            h.fx[v] += w * dx;
            h.fy[v] += w * dy;
        }
    }
    *g = h;
}

INLINE void flush(group *g, sources *s) {
    sum_sources(g, s->x, s->y, s->mass, s->count);
    s->count = 0;
}

/* Loads the points from `first` on; those past the end repeat the last. */
INLINE void load_group(group *g, const float *x, const float *y, int width) {
    float px[GROUP], py[GROUP];
    for (int i = 0; i < GROUP; i++) {
        px[i] = x[i < width ? i : width - 1];
        py[i] = y[i < width ? i : width - 1];
    }
    memset(g, 0, sizeof *g);
    for (int v = 0; v < NV; v++) {
        g->x[v] = load(px + v * VL);
        g->y[v] = load(py + v * VL);
    }
}

static double sum_z(const group *g, int width) {
    double sum = 0.0;
    for (int i = 0; i < width; i++)
        sum += (double)g->z[i / VL][i % VL];
    return sum;
}

/* Walks through the tree and sums what the group sees. */
static void walk(const ole_tsne_tree *tree, group *g, int width, const float *x, const float *y) {
    float left = x[0], right = x[0], low = y[0], high = y[0];
    for (int i = 1; i < width; i++) {
        left = lesser(left, x[i]);
        right = greater(right, x[i]);
        low = lesser(low, y[i]);
        high = greater(high, y[i]);
    }
    sources list;
    list.count = 0;
    const ole_tsne_cell *cells = tree->cell;
    for (int64_t c = 0; c < tree->cells;) {
        const ole_tsne_cell *cell = &cells[c];
        float dx = greater(0.0f, greater(left - cell->x, cell->x - right));
        float dy = greater(0.0f, greater(low - cell->y, cell->y - high));
        if (dx * dx + dy * dy > cell->reach) {
            list.x[list.count] = cell->x;
            list.y[list.count] = cell->y;
            list.mass[list.count] = cell->mass;
            if (++list.count == LIST) flush(g, &list);
            c = cell->next;
        } else {
            if (cell->end)
                sum_sources(g, tree->x + cell->begin, tree->y + cell->begin, NULL,
                            cell->end - cell->begin);
            c++;
        }
    }
    flush(g, &list);
}

static double repel(const ole_tsne_tree *tree, int64_t first, float *fx, float *fy) {
    int width = (int)(tree->points - first < GROUP ? tree->points - first : GROUP);
    group g;
    load_group(&g, tree->x + first, tree->y + first, width);
    walk(tree, &g, width, tree->x + first, tree->y + first);
    for (int i = 0; i < width; i++) {
        fx[first + i] = g.fx[i / VL][i % VL];
        fy[first + i] = g.fy[i / VL][i % VL];
    }
    return sum_z(&g, width);
}

static double repel_all(const float *x, const float *y, int64_t count, int64_t first) {
    int width = (int)(count - first < GROUP ? count - first : GROUP);
    group g;
    load_group(&g, x + first, y + first, width);
    double sum = 0.0;
    for (int64_t at = 0; at < count; at += LIST) {
        memset(g.z, 0, sizeof g.z);
        sum_sources(&g, x + at, y + at, NULL, count - at < LIST ? count - at : LIST);
        sum += sum_z(&g, width);
    }
    return sum;
}

/* ---- Attraction --------------------------------------------------------------------------- */

/* Points at column[0 ... VL - 1]: their two coordinates apart. */
INLINE void gather(const float *xy, const int32_t *column, vec *x, vec *y) {
#if defined(__AVX512F__)
    const __m512i even =
        _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    const __m512i odd =
        _mm512_setr_epi32(1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
    __m512 a =
        _mm512_castpd_ps(_mm512_i32gather_pd(_mm256_loadu_si256((const __m256i *)column), xy, 8));
    __m512 b = _mm512_castpd_ps(
        _mm512_i32gather_pd(_mm256_loadu_si256((const __m256i *)(column + 8)), xy, 8));
    *x = (vec)_mm512_permutex2var_ps(a, even, b);
    *y = (vec)_mm512_permutex2var_ps(a, odd, b);
#elif defined(OLE_NEON)
    float32x2_t p[VL];
    for (int i = 0; i < VL; i++)
        p[i] = vld1_f32(xy + 2 * (int64_t)column[i]);
    float32x4_t a = vcombine_f32(p[0], p[1]), b = vcombine_f32(p[2], p[3]);
    *x = (vec)vuzp1q_f32(a, b);
    *y = (vec)vuzp2q_f32(a, b);
#else
    float px[VL], py[VL];
    for (int i = 0; i < VL; i++) {
        px[i] = xy[2 * (int64_t)column[i]];
        py[i] = xy[2 * (int64_t)column[i] + 1];
    }
    *x = load(px);
    *y = load(py);
#endif
}

static void attract(const ole_affinity *a, const float *xy, int64_t begin, int64_t end, float *f) {
    for (int64_t row = begin; row < end; row++) {
        vec x = splat(xy[2 * row]), y = splat(xy[2 * row + 1]), fx = {0}, fy = {0};
        int64_t e = a->start[row], last = a->start[row + 1];
        for (; e + VL <= last; e += VL) {
            vec ox, oy;
            gather(xy, a->column + e, &ox, &oy);
            vec dx = x - ox, dy = y - oy;
            vec w = load(a->p + e) * reciprocal(1.0f + dx * dx + dy * dy);
            fx += w * dx;
            fy += w * dy;
        }
        float sx = sum_lanes(fx), sy = sum_lanes(fy);
        for (; e < last; e++) {
            const float *other = xy + 2 * (int64_t)a->column[e];
            float dx = xy[2 * row] - other[0], dy = xy[2 * row + 1] - other[1];
            float w = a->p[e] / (1.0f + dx * dx + dy * dy);
            sx += w * dx;
            sy += w * dy;
        }
        f[2 * row] = sx;
        f[2 * row + 1] = sy;
    }
}

/* log v for v >= 1: the exponent, and a series in (m - 1) / (m + 1) for the rest. */
INLINE vec logarithm(vec v) {
    ivec bits = (ivec)v;
    ivec exponent = (bits >> 23) - 127;
    vec m = (vec)((bits & 0x7fffff) | 0x3f800000);
    vec s = (m - 1.0f) / (m + 1.0f), t = s * s;
    vec series = 2.0f + t * (2.0f / 3 + t * (2.0f / 5 + t * (2.0f / 7 + t * (2.0f / 9))));
    return __builtin_convertvector(exponent, vec) * 0.69314718f + s * series;
}

static double cost(const ole_affinity *a, const float *xy, int64_t begin, int64_t end) {
    double sum = 0.0;
    for (int64_t row = begin; row < end; row++) {
        vec x = splat(xy[2 * row]), y = splat(xy[2 * row + 1]), part = {0};
        int64_t e = a->start[row], last = a->start[row + 1];
        for (; e + VL <= last; e += VL) {
            vec ox, oy;
            gather(xy, a->column + e, &ox, &oy);
            vec dx = x - ox, dy = y - oy;
            part += load(a->p + e) * logarithm(1.0f + dx * dx + dy * dy);
        }
        sum += (double)sum_lanes(part);
        for (; e < last; e++) {
            const float *other = xy + 2 * (int64_t)a->column[e];
            float dx = xy[2 * row] - other[0], dy = xy[2 * row + 1] - other[1];
            sum += (double)(a->p[e] * log1pf(dx * dx + dy * dy));
        }
    }
    return sum;
}

extern const ole_tsne_kernels PASTE(ole_tsne_kernels_, OLE_ISA);
const ole_tsne_kernels PASTE(ole_tsne_kernels_, OLE_ISA) = {
    .group = GROUP,
    .nearer = nearer,
    .codes = codes,
    .repel = repel,
    .repel_all = repel_all,
    .attract = attract,
    .cost = cost,
};
