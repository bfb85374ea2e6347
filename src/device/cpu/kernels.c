/*
 * src/device/cpu/kernels.c - the inner loops of kernels.h, written with vector types and compiled
 * once per instruction set (OLE_ISA is generic, avx2 or avx512), and once more for bfloat16 tensors
 * (avx512bf16).
 *
 * All of them are bound by memory, so each loads an element once and does everything to it.
 */
#include "device/cpu/kernels.h"

#include <math.h>
#include <string.h>
#if defined(__AVX512BF16__)
#include <immintrin.h>
#endif

#if defined(__AVX512F__)
enum { VL = 16 };
#else
enum { VL = 8 };
#endif

#define OLE_SCALAR float
#include "base/vector.h"

typedef int32_t ivec __attribute__((vector_size(VL * sizeof(int32_t))));
typedef uint8_t bytes __attribute__((vector_size(VL)));

/* Only the first `width` elements: the others load as zero and are not stored. */
INLINE vec load_part(const float *p, int width) {
    if (width == VL) return load(p);
    vec v = {0};
    for (int i = 0; i < width; i++)
        v[i] = p[i];
    return v;
}

INLINE void store_part(float *p, vec v, int width) {
    if (width == VL) {
        store(p, v);
        return;
    }
    for (int i = 0; i < width; i++)
        p[i] = v[i];
}

/* ---- elements of tensors ------------------------------------------------------------------ */

#if defined(__AVX512BF16__)

/* A bfloat16 is the upper half of a float. */
typedef uint16_t element;
typedef uint16_t half __attribute__((vector_size(VL * sizeof(uint16_t))));
typedef half half_anywhere __attribute__((aligned(2), may_alias));

INLINE half half_of(vec v) {
    return (half)_mm512_cvtneps_pbh((__m512)v);
}

INLINE vec get(const element *p, int width) {
    half h = {0};
    if (width == VL)
        h = *(const half_anywhere *)p;
    else
        for (int i = 0; i < width; i++)
            h[i] = p[i];
    return (vec)(__builtin_convertvector(h, ivec) << 16);
}

INLINE void put(element *p, vec v, int width) {
    half h = half_of(v);
    if (width == VL)
        *(half_anywhere *)p = h;
    else
        for (int i = 0; i < width; i++)
            p[i] = h[i];
}

#else

typedef float element;

INLINE vec get(const element *p, int width) {
    return load_part(p, width);
}

INLINE void put(element *p, vec v, int width) {
    store_part(p, v, width);
}

#endif

INLINE vec where(ivec mask, vec v) {
    return (vec)((ivec)v & mask);
}

/* Keeps NaN. */
INLINE vec rectify(vec v) {
    return where(~(v < (vec){0}), v);
}

/* ---- batch norm --------------------------------------------------------------------------- */

/* Rows summed in float before the sum is added in double. */
enum { CHUNK = 256 };

INLINE void merge_moments(cpu_moments *m, double count, const float *shift, const float *sum,
                          const float *squares) {
    double total = m->count + count;
    for (int i = 0; i < VL; i++) {
        double distance = (double)sum[i] / count; /* from the shift to this chunk's mean */
        double delta = (double)shift[i] + distance - m->mean[i];
        double own = (double)squares[i] - (double)sum[i] * distance;
        m->mean[i] += delta * count / total;
        m->squares[i] += (own > 0 ? own : 0) + delta * delta * m->count * count / total;
    }
    m->count = total;
}

/* Sums distances to the chunk's first row, which stays accurate when means are large. */
INLINE void moments_body(cpu_run run, const element *x, cpu_moments *moments, int width) {
    for (int64_t first = 0; first < run.rows; first += CHUNK) {
        int64_t rows = run.rows - first < CHUNK ? run.rows - first : CHUNK, r = 0;
        const element *p = x + first * run.stride;
        vec shift = get(p, width), s0 = {0}, s1 = {0}, q0 = {0}, q1 = {0};
        for (; r + 2 <= rows; r += 2, p += 2 * run.stride) {
            vec a = get(p, width) - shift, b = get(p + run.stride, width) - shift;
            s0 += a;
            s1 += b;
            q0 += a * a;
            q1 += b * b;
        }
        if (r < rows) {
            vec a = get(p, width) - shift;
            s0 += a;
            q0 += a * a;
        }
        float at[VL], sum[VL], squares[VL];
        store(at, shift);
        store(sum, s0 + s1);
        store(squares, q0 + q1);
        merge_moments(moments, (double)rows, at, sum, squares);
    }
}

static void moments(cpu_run run, const void *x, cpu_moments *m) {
    if (run.width == VL)
        moments_body(run, x, m, VL);
    else
        moments_body(run, x, m, run.width);
}

INLINE void norm_body(cpu_run run, const cpu_affine *a, const element *x, element *y, int width,
                      bool relu) {
    vec mean = load(a->mean), scale = load(a->scale), shift = load(a->shift);
    for (int64_t r = 0; r < run.rows; r++, x += run.stride, y += run.stride) {
        vec v = (get(x, width) - mean) * scale + shift;
        put(y, relu ? rectify(v) : v, width);
    }
}

static void norm(cpu_run run, const cpu_affine *a, const void *x, void *y) {
    if (run.width != VL)
        norm_body(run, a, x, y, run.width, a->relu);
    else if (a->relu)
        norm_body(run, a, x, y, VL, true);
    else
        norm_body(run, a, x, y, VL, false);
}

/* dy, or 0 where the ReLU gave 0, recomputed from x with the same arithmetic as norm(). */
INLINE vec gradient(const cpu_affine *a, vec centred, vec dy, bool relu) {
    if (!relu) return dy;
    return where(centred * load(a->scale) + load(a->shift) > (vec){0}, dy);
}

INLINE void norm_sums_body(cpu_run run, const cpu_affine *a, const element *x, const element *dy,
                           cpu_sums *sums, int width, bool relu) {
    vec mean = load(a->mean);
    for (int64_t first = 0; first < run.rows; first += CHUNK) {
        int64_t end = first + CHUNK < run.rows ? first + CHUNK : run.rows;
        vec s[2] = {{0}}, q[2] = {{0}};
        for (int64_t r = first; r < end; r++) {
            vec centred = get(x + r * run.stride, width) - mean;
            vec g = gradient(a, centred, get(dy + r * run.stride, width), relu);
            s[r & 1] += g;
            q[r & 1] += g * centred;
        }
        s[0] += s[1];
        q[0] += q[1];
        for (int i = 0; i < VL; i++) {
            sums->g[i] += (double)s[0][i];
            sums->gx[i] += (double)q[0][i];
        }
    }
}

static void norm_sums(cpu_run run, const cpu_affine *a, const void *x, const void *dy,
                      cpu_sums *sums) {
    if (run.width != VL)
        norm_sums_body(run, a, x, dy, sums, run.width, a->relu);
    else if (a->relu)
        norm_sums_body(run, a, x, dy, sums, VL, true);
    else
        norm_sums_body(run, a, x, dy, sums, VL, false);
}

INLINE void norm_gradient_body(cpu_run run, const cpu_affine *a, vec slope, vec level,
                               const element *x, const element *dy, bool accumulate, element *dx,
                               int width, bool relu) {
    vec mean = load(a->mean), scale = load(a->scale);
    for (int64_t r = 0; r < run.rows; r++) {
        int64_t at = r * run.stride;
        vec centred = get(x + at, width) - mean;
        vec g = gradient(a, centred, get(dy + at, width), relu);
        vec v = g * scale + (centred * slope + level);
        if (accumulate) v += get(dx + at, width);
        put(dx + at, v, width);
    }
}

static void norm_gradient(cpu_run run, const cpu_affine *a, const float *slope, const float *level,
                          const void *x, const void *dy, bool accumulate, void *dx) {
    vec k1 = load(slope), k0 = load(level);
    if (run.width != VL)
        norm_gradient_body(run, a, k1, k0, x, dy, accumulate, dx, run.width, a->relu);
    else if (a->relu && accumulate)
        norm_gradient_body(run, a, k1, k0, x, dy, true, dx, VL, true);
    else if (a->relu)
        norm_gradient_body(run, a, k1, k0, x, dy, false, dx, VL, true);
    else
        norm_gradient_body(run, a, k1, k0, x, dy, accumulate, dx, VL, false);
}

/* ---- pooling ------------------------------------------------------------------------------ */

#define FOR_WINDOW(w, pixel)                                                                       \
    for (int64_t row_ = (w)->top; row_ < (w)->bottom; row_++)                                      \
        for (int64_t column_ = (w)->left, pixel = (row_ * (w)->row + column_) * (w)->stride;       \
             column_ < (w)->right; column_++, pixel += (w)->stride)

INLINE void max_window_body(const cpu_window *w, const element *x, element *y, uint8_t *at,
                            int width) {
    vec best = get(x + (w->top * w->row + w->left) * w->stride, width);
    ivec place = {0}, here = {0};
    FOR_WINDOW(w, pixel) {
        vec v = get(x + pixel, width);
        /* NaN differs from itself. NOLINTNEXTLINE(misc-redundant-expression) */
        ivec better = (v > best) | ((v != v) & (best == best));
        best = (vec)(((ivec)v & better) | ((ivec)best & ~better));
        place = (here & better) | (place & ~better);
        here += 1;
    }
    put(y, best, width);
    if (!at) return;
    bytes narrow = __builtin_convertvector(place, bytes);
    memcpy(at, &narrow, (size_t)width);
}

static void max_window(const cpu_window *w, const void *x, void *y, uint8_t *at) {
    if (w->width == VL)
        max_window_body(w, x, y, at, VL);
    else
        max_window_body(w, x, y, at, w->width);
}

INLINE void max_spread_body(const cpu_window *w, const element *dy, const uint8_t *at, element *dx,
                            int width) {
    bytes narrow = {0};
    memcpy(&narrow, at, (size_t)width);
    ivec place = __builtin_convertvector(narrow, ivec), here = {0};
    vec g = get(dy, width);
    FOR_WINDOW(w, pixel) {
        put(dx + pixel, get(dx + pixel, width) + where(place == here, g), width);
        here += 1;
    }
}

static void max_spread(const cpu_window *w, const void *dy, const uint8_t *at, void *dx) {
    if (w->width == VL)
        max_spread_body(w, dy, at, dx, VL);
    else
        max_spread_body(w, dy, at, dx, w->width);
}

static void sum_window(const cpu_window *w, const void *from, float factor, void *to) {
    const element *x = from;
    vec sum = {0};
    FOR_WINDOW(w, pixel) sum += get(x + pixel, w->width);
    put(to, sum * splat(factor), w->width);
}

static void sum_spread(const cpu_window *w, const void *from, float factor, void *to) {
    vec g = get(from, w->width) * splat(factor);
    element *dx = to;
    FOR_WINDOW(w, pixel)
    put(dx + pixel, get(dx + pixel, w->width) + g, w->width);
}

/* ---- elementwise -------------------------------------------------------------------------- */

/* Whole vectors, then one partial vector. */
#define FOR_VECTORS(i, width, count)                                                               \
    for (int64_t i = 0, width = VL; i < (count) && (width = (count)-i < VL ? (count)-i : VL, 1);   \
         i += VL)

static void add(int64_t count, const void *first, const void *second, bool relu, void *sum) {
    const element *a = first, *b = second;
    element *y = sum;
    FOR_VECTORS(i, width, count) {
        vec v = get(a + i, (int)width) + get(b + i, (int)width);
        put(y + i, relu ? rectify(v) : v, (int)width);
    }
}

static void relu(int64_t count, const void *from, void *to) {
    const element *x = from;
    element *y = to;
    FOR_VECTORS(i, width, count)
    put(y + i, rectify(get(x + i, (int)width)), (int)width);
}

/* dy, masked by the ReLU if y is given. */
INLINE vec passed(const element *dy, const element *y, int64_t i, int width) {
    vec g = get(dy + i, width);
    return y ? where(get(y + i, width) > (vec){0}, g) : g;
}

static void pass(int64_t count, const void *dy, const void *y, bool accumulate, void *to) {
    element *dx = to;
    FOR_VECTORS(i, width, count) {
        vec g = passed(dy, y, i, (int)width);
        if (accumulate) g += get(dx + i, (int)width);
        put(dx + i, g, (int)width);
    }
}

static void pass_both(int64_t count, const void *dy, const void *y, const bool accumulate[2],
                      void *const dx[2]) {
    element *a = dx[0], *b = dx[1];
    bool add_a = accumulate[0], add_b = accumulate[1];
    FOR_VECTORS(i, width, count) {
        vec g = passed(dy, y, i, (int)width), to_a = g, to_b = g;
        if (add_a) to_a += get(a + i, (int)width);
        if (add_b) to_b += get(b + i, (int)width);
        put(a + i, to_a, (int)width);
        put(b + i, to_b, (int)width);
    }
}

static void apply_mask(int64_t count, const void *from, const uint8_t *mask, float factor,
                       bool accumulate, void *to) {
    const element *x = from;
    element *dx = to;
    FOR_VECTORS(i, width, count) {
        bytes narrow = {0};
        memcpy(&narrow, mask + i, (size_t)width);
        vec v = where(__builtin_convertvector(narrow, ivec) != 0,
                      get(x + i, (int)width) * splat(factor));
        if (accumulate) v += get(dx + i, (int)width);
        put(dx + i, v, (int)width);
    }
}

/* ---- products ----------------------------------------------------------------------------- */

/* As many sums as registers can hold. */
enum { TILE_ROWS = VL == 16 ? 12 : 6, PANEL = 2 * VL };

INLINE void tile_body(const cpu_tile *t, const float *a, const float *b, float *c, int rows,
                      int columns) {
    vec sum[TILE_ROWS][2];
#pragma GCC unroll 12
    for (int i = 0; i < rows; i++)
        sum[i][0] = sum[i][1] = (vec){0};
    for (int64_t p = 0; p < t->depth; p++, a += TILE_ROWS, b += PANEL) {
        vec left = load(b), right = load(b + VL);
#pragma GCC unroll 12
        for (int i = 0; i < rows; i++) {
            vec x = splat(a[i]);
            sum[i][0] += x * left;
            sum[i][1] += x * right;
        }
    }
    int width[2] = {columns < VL ? columns : VL, columns > VL ? columns - VL : 0};
#pragma GCC unroll 12
    for (int i = 0; i < rows; i++, c += t->ldc) {
        if (t->add) {
            sum[i][0] += load_part(c, width[0]);
            sum[i][1] += load_part(c + VL, width[1]);
        }
        store_part(c, sum[i][0], width[0]);
        store_part(c + VL, sum[i][1], width[1]);
    }
}

static void tile(const cpu_tile *t, const float *a, const float *b, float *c) {
    int i = 0;
    if (t->columns == PANEL && t->rows == TILE_ROWS) {
        tile_body(t, a, b, c, TILE_ROWS, PANEL);
        return;
    }
    for (; i + 4 <= t->rows && t->columns == PANEL; i += 4)
        tile_body(t, a + i, b, c + i * t->ldc, 4, PANEL);
    for (; i < t->rows; i++)
        tile_body(t, a + i, b, c + i * t->ldc, 1, t->columns);
}

/* ---- updates ------------------------------------------------------------------------------ */

static void sgd(int64_t count, const ole_update *u, float *param, const float *gradient,
                float *momentum) {
    vec decay = splat((float)u->weight_decay), mu = splat((float)u->momentum);
    vec rate = splat((float)u->lr);
    FOR_VECTORS(i, width, count) {
        vec p = load_part(param + i, (int)width);
        vec g = load_part(gradient + i, (int)width) + decay * p;
        if (u->momentum != 0) {
            vec b = mu * load_part(momentum + i, (int)width) + g;
            store_part(momentum + i, b, (int)width);
            if (u->nesterov)
                g += mu * b;
            else
                g = b;
        }
        store_part(param + i, p - rate * g, (int)width);
    }
}

static void adam(int64_t count, const ole_update *u, float *param, const float *gradient,
                 float *first, float *second) {
    double correct1 = 1 - pow(u->beta1, (double)(u->step - u->begun));
    double correct2 = 1 - pow(u->beta2, (double)(u->step - u->begun));
    float rate = (float)(u->lr / correct1), root = (float)(1 / sqrt(correct2));
    float decay = u->decoupled ? 0.0f : (float)u->weight_decay, eps = (float)u->eps;
    float keep = u->decoupled ? (float)(1 - u->lr * u->weight_decay) : 1.0f;
    float b1 = (float)u->beta1, c1 = (float)(1 - u->beta1);
    float b2 = (float)u->beta2, c2 = (float)(1 - u->beta2);
    for (int64_t i = 0; i < count; i++) {
        float g = gradient[i] + decay * param[i];
        float m = b1 * first[i] + c1 * g, v = b2 * second[i] + c2 * g * g;
        first[i] = m;
        second[i] = v;
        param[i] = keep * param[i] - rate * m / (sqrtf(v) * root + eps);
    }
}

extern const cpu_kernels PASTE(ole_cpu_kernels_, OLE_ISA);
const cpu_kernels PASTE(ole_cpu_kernels_, OLE_ISA) = {
    .name = TEXT(OLE_ISA),
    .block = VL,
    .panel = PANEL,
    .tile_rows = TILE_ROWS,
    .tile = tile,
    .moments = moments,
    .norm = norm,
    .norm_sums = norm_sums,
    .norm_gradient = norm_gradient,
    .max_window = max_window,
    .max_spread = max_spread,
    .sum_window = sum_window,
    .sum_spread = sum_spread,
    .add = add,
    .relu = relu,
    .pass = pass,
    .pass_both = pass_both,
    .apply_mask = apply_mask,
    .sgd = sgd,
    .adam = adam,
};
