/* src/features/novelty/directions.c - the nearest class by its directions. */
#include "features/novelty/directions.h"

#include "base/error.h"

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
    return scorer_pack(s, basis, &s->operand, error);
}

void directions_run(const ole_scorer *s, const score_block *b, bool cosine, double *scores) {
    const int64_t *size = scorer_find(s, "sizes", OLE_I64, -1, 0, NULL)->data;
    scorer_multiply(b, b->features, OLE_F32, &s->operand, b->product);
    for (int64_t i = 0; i < b->rows; i++) {
        const float *x = b->features + i * s->dim;
        const double *along = b->product + i * s->operand.items;
        double square = 0.0, best = cosine ? -INFINITY : 0.0;
        for (int64_t k = 0; k < s->dim; k++)
            square += (double)x[k] * x[k];
        for (int64_t c = 0; c < s->classes; along += size[c++]) {
            double inside = 0.0;
            for (int64_t k = 0; k < size[c]; k++) {
                inside += along[k] * along[k];
                if (cosine) best = fmax(best, along[k]);
            }
            if (!cosine) best = fmax(best, inside);
        }
        scores[i] = square > 0.0 ? cosine ? best / sqrt(square) : best / square : 0.0;
    }
}
