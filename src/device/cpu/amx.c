/*
 * src/device/cpu/amx.c - the loops of amx.h, compiled for AVX512_BF16 and AMX.
 *
 * Tiles 0 to 3 hold sums, 4 and 5 the left operand, 6 and 7 the right one: each loaded tile is used
 * twice, so that products take longer than loads.
 */
#include "device/cpu/amx.h"

#include <immintrin.h>
#include <stdalign.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline))

enum { LINE = 64 };

/* Sets all eight tiles to 16 x 64 bytes. Every call configures and releases them, since tile state
 * makes context switches slower. */
static void configure(void) {
    alignas(64) struct {
        uint8_t palette, start, zero[14];
        uint16_t bytes[16];
        uint8_t rows[16];
    } tiles = {.palette = 1};
    for (int i = 0; i < 8; i++) {
        tiles.bytes[i] = LINE;
        tiles.rows[i] = AMX_ROWS;
    }
    _tile_loadconfig(&tiles);
}

/* ---- element order ------------------------------------------------------------------------ */

/* Transposes 16 x 16 words. */
INLINE void transpose_words(__m512i r[16]) {
    __m512i t[16];
    for (int i = 0; i < 16; i += 2) {
        t[i] = _mm512_unpacklo_epi32(r[i], r[i + 1]);
        t[i + 1] = _mm512_unpackhi_epi32(r[i], r[i + 1]);
    }
    for (int i = 0; i < 16; i += 4) {
        r[i] = _mm512_unpacklo_epi64(t[i], t[i + 2]);
        r[i + 1] = _mm512_unpackhi_epi64(t[i], t[i + 2]);
        r[i + 2] = _mm512_unpacklo_epi64(t[i + 1], t[i + 3]);
        r[i + 3] = _mm512_unpackhi_epi64(t[i + 1], t[i + 3]);
    }
    for (int i = 0; i < 4; i++) {
        t[i] = _mm512_shuffle_i32x4(r[i], r[i + 4], 0x88);
        t[i + 4] = _mm512_shuffle_i32x4(r[i], r[i + 4], 0xdd);
        t[i + 8] = _mm512_shuffle_i32x4(r[i + 8], r[i + 12], 0x88);
        t[i + 12] = _mm512_shuffle_i32x4(r[i + 8], r[i + 12], 0xdd);
    }
    for (int i = 0; i < 8; i++) {
        r[i] = _mm512_shuffle_i32x4(t[i], t[i + 8], 0x88);
        r[i + 8] = _mm512_shuffle_i32x4(t[i], t[i + 8], 0xdd);
    }
}

/* 16 words with the elements of `low` in the lower halves and of `high` in the upper ones. */
INLINE __m512i pair(__m256i low, __m256i high) {
    return _mm512_or_si512(_mm512_cvtepu16_epi32(low),
                           _mm512_slli_epi32(_mm512_cvtepu16_epi32(high), 16));
}

INLINE __m256i load_half(const uint16_t *p) {
    return _mm256_loadu_si256((const __m256i *)p);
}

static void pair_pixels(const uint16_t *from, int64_t pixel_elements, uint16_t *to) {
    _mm512_storeu_si512(to, pair(load_half(from), load_half(from + pixel_elements)));
}

static void transpose_pixels(const uint16_t *from, int64_t pixel_elements, uint16_t *to,
                             int64_t to_row) {
    __m512i r[16];
    for (int i = 0; i < 16; i++, from += 2 * pixel_elements)
        r[i] = pair(load_half(from), load_half(from + pixel_elements));
    transpose_words(r);
    for (int i = 0; i < 16; i++)
        _mm512_storeu_si512(to + i * to_row, r[i]);
}

/* Row `i` of a block [16, 16] of weights, rounded; zero if there is no block. */
INLINE __m256i weight_row(const float *block, int i) {
    if (!block) return _mm256_setzero_si256();
    return (__m256i)_mm512_cvtneps_pbh(_mm512_loadu_ps(block + i * 16));
}

static const float *block_of(const amx_weights *w, int out, int in, int tap) {
    if (out >= w->outs || in >= w->ins) return NULL;
    return w->weight + (((int64_t)out * w->ins + in) * w->taps + tap) * 256;
}

static void pack_weights(const amx_weights *w, int column) {
    int rows = w->transpose ? w->outs : w->ins, depth = (rows + 1) / 2;
    uint16_t *to = w->to + (int64_t)column * w->taps * depth * AMX_TILE;
    for (int tap = 0; tap < w->taps; tap++)
        for (int k = 0; k < 2 * depth; k += 2, to += AMX_TILE) {
            __m512i r[16];
            if (w->transpose) {
                int from = w->taps - 1 - tap;
                const float *a = block_of(w, k, column, from),
                            *b = block_of(w, k + 1, column, from);
                for (int i = 0; i < 16; i++)
                    r[i] = _mm512_inserti64x4(_mm512_castsi256_si512(weight_row(a, i)),
                                              weight_row(b, i), 1);
                transpose_words(r);
            } else {
                for (int i = 0; i < 16; i++) {
                    const float *a = block_of(w, column, k + i / 8, tap);
                    r[i] = pair(weight_row(a, i % 8 * 2), weight_row(a, i % 8 * 2 + 1));
                }
            }
            for (int i = 0; i < 16; i++)
                _mm512_storeu_si512(to + i * 32, r[i]);
        }
}

/* ---- products ----------------------------------------------------------------------------- */

/* Stores the sums of 32 pixels and one block of channels in y. */
INLINE void put_block(const amx_product *p, int64_t pixel, int block, const float *sums) {
    alignas(64) float bias[16] = {0};
    int left = p->channels - block * 16;
    if (p->bias && left > 0)
        memcpy(bias, p->bias + block * 16, (size_t)(left < 16 ? left : 16) * sizeof *bias);
    __m512 level = _mm512_load_ps(bias);
    uint16_t *y = p->y + block * p->block_stride;
    int64_t end = p->pixels - pixel < 32 ? p->pixels - pixel : 32;
    for (int64_t i = 0; i < end; i++) {
        int64_t at = p->target[pixel + i];
        if (at < 0) continue;
        __m512 v = _mm512_add_ps(_mm512_load_ps(sums + i * 16), level);
        if (p->add)
            v = _mm512_add_ps(v, _mm512_castsi512_ps(_mm512_slli_epi32(
                                     _mm512_cvtepu16_epi32(load_half(y + at)), 16)));
        _mm256_storeu_si256((__m256i *)(y + at), (__m256i)_mm512_cvtneps_pbh(v));
    }
}

/* Computes 32 pixels of block `block` and, if `two`, of the next one. */
INLINE void multiply_tiles(const amx_product *p, int64_t pixel, int block, bool two) {
    alignas(64) float sums[2][32 * 16];
    int64_t column = (int64_t)p->taps * p->depth * AMX_TILE;
    const uint16_t *b = p->weights + block * column;
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    for (int tap = 0; tap < p->taps; tap++) {
        const char *a = (const char *)p->grid + (pixel + p->tap[tap]) * p->pixel_bytes;
        for (int k = 0; k < p->depth; k++, a += LINE, b += AMX_TILE) {
            _tile_loadd(4, a, p->pixel_bytes);
            _tile_loadd(5, a + AMX_ROWS * p->pixel_bytes, p->pixel_bytes);
            _tile_loadd(6, b, LINE);
            _tile_dpbf16ps(0, 4, 6);
            _tile_dpbf16ps(1, 5, 6);
            if (two) {
                _tile_loadd(7, b + column, LINE);
                _tile_dpbf16ps(2, 4, 7);
                _tile_dpbf16ps(3, 5, 7);
            }
        }
    }
    _tile_stored(0, sums[0], LINE);
    _tile_stored(1, sums[0] + 256, LINE);
    put_block(p, pixel, block, sums[0]);
    if (!two) return;
    _tile_stored(2, sums[1], LINE);
    _tile_stored(3, sums[1] + 256, LINE);
    put_block(p, pixel, block + 1, sums[1]);
}

static void multiply(const amx_product *p) {
    configure();
    for (int block = 0; block < p->blocks; block += 2)
        for (int64_t pixel = 0; pixel < p->pixels; pixel += 32)
            if (block + 1 < p->blocks)
                multiply_tiles(p, pixel, block, true);
            else
                multiply_tiles(p, pixel, block, false);
    _tile_release();
}

/* ---- gradients of weights ----------------------------------------------------------------- */

static float *sum_of(const amx_gradient *g, int in, int out, int tap) {
    return g->sum + (((int64_t)out * g->ins + in) * g->taps + tap) * 256;
}

/* The sums of two blocks of inputs and two of outputs, as far as they exist. */
static void sum_tiles(const amx_gradient *g, int in, int out, int tap) {
    bool more_in = in + 1 < g->ins, more_out = out + 1 < g->outs;
    const uint16_t *a = g->x + in * 16 * g->x_row + g->tap[tap], *b = g->dy + out * AMX_STEP;
    int64_t a_bytes = g->x_row * 2, b_bytes = g->dy_row * 2, second = more_in ? 16 * g->x_row : 0;
    int64_t right = more_out ? AMX_STEP : 0;
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    if (g->add) {
        _tile_loadd(0, sum_of(g, in, out, tap), LINE);
        if (more_in) _tile_loadd(1, sum_of(g, in + 1, out, tap), LINE);
        if (more_out) _tile_loadd(2, sum_of(g, in, out + 1, tap), LINE);
        if (more_in && more_out) _tile_loadd(3, sum_of(g, in + 1, out + 1, tap), LINE);
    }
    for (int64_t step = 0; step < g->steps; step++, a += AMX_STEP, b += AMX_ROWS * g->dy_row) {
        _tile_loadd(4, a, a_bytes);
        _tile_loadd(5, a + second, a_bytes);
        _tile_loadd(6, b, b_bytes);
        _tile_loadd(7, b + right, b_bytes);
        _tile_dpbf16ps(0, 4, 6);
        _tile_dpbf16ps(1, 5, 6);
        _tile_dpbf16ps(2, 4, 7);
        _tile_dpbf16ps(3, 5, 7);
    }
    _tile_stored(0, sum_of(g, in, out, tap), LINE);
    if (more_in) _tile_stored(1, sum_of(g, in + 1, out, tap), LINE);
    if (more_out) _tile_stored(2, sum_of(g, in, out + 1, tap), LINE);
    if (more_in && more_out) _tile_stored(3, sum_of(g, in + 1, out + 1, tap), LINE);
}

static void sum_products(const amx_gradient *g) {
    configure();
    for (int in = 0; in < g->ins; in += 2)
        for (int out = 0; out < g->outs; out += 2)
            for (int tap = 0; tap < g->taps; tap++)
                sum_tiles(g, in, out, tap);
    _tile_release();
}

const amx_kernels ole_amx_kernels = {
    .pack_weights = pack_weights,
    .multiply = multiply,
    .transpose_pixels = transpose_pixels,
    .pair_pixels = pair_pixels,
    .sum_products = sum_products,
};
