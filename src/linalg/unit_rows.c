/* src/linalg/unit_rows.c - reading rows of either type and scaling them to length 1. */
#include "linalg/unit_rows.h"

#include <math.h>
#include <string.h>

double ole_row_largest(const ole_row_set *set, int64_t i) {
    int64_t first = ole_row_at(set, i) * set->dim;
    double largest = 0.0;
    for (int64_t k = first; k < first + set->dim; k++) {
        double size = fabs(set->dtype == OLE_F32 ? (double)((const float *)set->data)[k]
                                                 : ((const double *)set->data)[k]);
        if (!(size <= largest)) largest = size; /* fmax() here crashes GCC 12.2 for arm64 */
        if (!isfinite(largest)) break;
    }
    return largest;
}

void ole_row_copy(const ole_row_set *set, int64_t i, double *to) {
    int64_t dim = set->dim, first = ole_row_at(set, i) * dim;
    if (set->dtype == OLE_F32) {
        const float *from = (const float *)set->data + first;
        for (int64_t k = 0; k < dim; k++)
            to[k] = from[k];
    } else {
        const double *from = (const double *)set->data + first;
        for (int64_t k = 0; k < dim; k++)
            to[k] = from[k];
    }
}

void ole_row_copy_f32(const ole_row_set *set, int64_t i, float *to) {
    int64_t first = ole_row_at(set, i) * set->dim;
    if (set->dtype == OLE_F32)
        memcpy(to, (const float *)set->data + first, (size_t)set->dim * sizeof *to);
    else
        for (int64_t k = 0; k < set->dim; k++)
            to[k] = (float)((const double *)set->data)[first + k];
}

double ole_row_unit(const ole_row_set *set, int64_t i, double *to) {
    const ole_kernels *kernels = ole_kernels_get();
    ole_row_copy(set, i, to);
    double square = kernels->dot_f64(to, to, set->dim), largest = 1.0;
    if (!(square > 1e-280 && square < 1e280)) { /* squares that vanish or overflow */
        largest = 0.0;
        for (int64_t k = 0; k < set->dim; k++)
            largest = fmax(largest, fabs(to[k]));
        if (!(largest > 0.0)) return 0.0;
        for (int64_t k = 0; k < set->dim; k++)
            to[k] /= largest;
        square = kernels->dot_f64(to, to, set->dim);
    }
    double scale = 1.0 / sqrt(square);
    for (int64_t k = 0; k < set->dim; k++)
        to[k] *= scale;
    return largest * sqrt(square);
}

typedef struct block {
    const ole_row_set *set;
    int64_t first;
    double *rows;
} block;

static void scale_row(void *context, int64_t row, int worker) {
    (void)worker;
    const block *b = context;
    ole_row_unit(b->set, b->first + row, b->rows + row * b->set->dim);
}

ole_panels ole_unit_rows_pack(ole_pool *pool, const ole_row_set *set, int64_t first, int64_t count,
                              double *rows, double *panels) {
    block b = {set, first, rows};
    ole_pool_run(pool, count, scale_row, &b);
    const ole_operand operand = {.data = rows,
                                 .dtype = OLE_F64,
                                 .items = count,
                                 .depth = set->dim,
                                 .item_stride = set->dim,
                                 .depth_stride = 1};
    return ole_panels_pack(pool, panels, &operand);
}
