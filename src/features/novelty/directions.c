/* src/features/novelty/directions.c - the nearest class by its directions. */
#include "features/novelty/directions.h"

#include "base/error.h"
#include "linalg/float_kernels.h"

#include <math.h>

ole_status directions_prepare(ole_scorer *s, ole_error *error) {
    const ole_scorer_tensor *sizes = scorer_find(s, "sizes", OLE_I64, -1, 0, error);
    const ole_scorer_tensor *basis =
        sizes ? scorer_find(s, "directions", OLE_F32, -1, -1, error) : NULL;
    if (!basis) return OLE_ERROR_FORMAT;
    const int64_t *size = sizes->data;
    int64_t left = basis->shape[0];
    bool fits = true;
    for (int64_t c = 0; c < sizes->shape[0] && fits; c++) {
        fits = size[c] >= 0 && size[c] <= left;
        left -= size[c];
    }
    if (!fits || left != 0)
        return ole_fail(error, OLE_ERROR_FORMAT,
                        "the tensors 'sizes' and 'directions' of the score '%s' contradict each "
                        "other",
                        s->kind->name);
    s->classes = sizes->shape[0];
    s->dim = basis->shape[1];
    s->directions = basis->shape[0];
    float *packed = scorer_keep(s, ole_float_padded(s->directions) * s->dim, sizeof *packed, error);
    if (!packed) return OLE_ERROR_MEMORY;
    ole_float_kernels_get()->pack(packed, basis->data, s->directions, s->dim);
    s->packed = packed;
    return OLE_OK;
}

/* Copies a row times a power of two that makes its largest number about 1, so that no product
 * overflows or vanishes; returns the sum of squares of the copy. */
static double scale_row(const float *x, int64_t dim, float *to) {
    float largest = 0.0f;
    for (int64_t k = 0; k < dim; k++)
        largest = fmaxf(largest, fabsf(x[k]));
    int exponent;
    frexpf(largest, &exponent);
    /* In two steps: 2^-exponent itself may be beyond float's range. */
    float once = ldexpf(1.0f, -exponent / 2), again = ldexpf(1.0f, -exponent - -exponent / 2);
    double square = 0.0;
    for (int64_t k = 0; k < dim; k++) {
        to[k] = x[k] * once * again;
        square += (double)to[k] * to[k];
    }
    return square;
}

/* Four sums side by side: one alone would wait for every addition. */
static double sum_squares(const float *x, int64_t n) {
    double sum[4] = {0.0};
    int64_t i = 0;
    for (; i + 4 <= n; i += 4)
        for (int k = 0; k < 4; k++)
            sum[k] += (double)x[i + k] * x[i + k];
    for (; i < n; i++)
        sum[0] += (double)x[i] * x[i];
    return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

void directions_run(const ole_scorer *s, const score_block *b, bool cosine, double *scores) {
    const int64_t *size = scorer_find(s, "sizes", OLE_I64, -1, 0, NULL)->data;
    const int64_t padded = ole_float_padded(s->directions);
    for (int64_t i = 0; i < b->rows; i++)
        scores[i] = scale_row(b->features + i * s->dim, s->dim, b->scaled + i * s->dim);
    ole_float_kernels_get()->multiply(b->scaled, b->rows, s->dim, s->packed, s->directions,
                                      b->along, padded);
    for (int64_t i = 0; i < b->rows; i++) {
        const float *along = b->along + i * padded;
        double square = scores[i], best = cosine ? -INFINITY : 0.0;
        for (int64_t k = 0; k < s->directions && cosine; k++)
            best = fmax(best, along[k]);
        for (int64_t c = 0; c < s->classes && !cosine; along += size[c++])
            best = fmax(best, sum_squares(along, size[c]));
        scores[i] = square > 0.0 ? cosine ? best / sqrt(square) : best / square : 0.0;
    }
}
