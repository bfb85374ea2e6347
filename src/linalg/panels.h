/*
 * src/linalg/panels.h - matrix products in float64, threaded over fixed tiles.
 *
 * An operand is packed once (ole_panels_pack: any strides, float32 or float64) and multiplied as
 * often as needed.  "Items" are what the result is indexed by, "depth" is what is summed over: for
 * C = A B the items of A are its rows and the items of B its columns.
 */
#ifndef OLE_SRC_LINALG_PANELS_H
#define OLE_SRC_LINALG_PANELS_H

#include "base/pool.h"
#include "linalg/kernels.h"
#include "ole/base.h"

#include <stdbool.h>

/* Where an operand comes from: element (i, p) at data[i * item_stride + p * depth_stride]. */
typedef struct ole_operand {
    const void *data;
    ole_dtype dtype; /* OLE_F32 or OLE_F64 */
    int64_t items;
    int64_t depth;
    int64_t item_stride;
    int64_t depth_stride;
    bool transposed; /* items are the columns of what lies in memory row by row */
} ole_operand;

/* A packed operand. */
typedef struct ole_panels {
    const double *data;
    int64_t items;
    int64_t depth;
} ole_panels;

/* The operand with the roles of its two indices exchanged. */
static inline ole_operand ole_operand_transposed(ole_operand a) {
    return (ole_operand){a.data,         a.dtype,       a.depth,      a.items,
                         a.depth_stride, a.item_stride, !a.transposed};
}

/* Doubles that the panels of an operand take. */
OLE_INTERNAL int64_t ole_panels_size(int64_t items, int64_t depth);

/* Packs into `buffer` (ole_panels_size() doubles, 64-byte aligned). */
OLE_INTERNAL ole_panels ole_panels_pack(ole_pool *pool, double *buffer, const ole_operand *source);

/* Where a product goes. With `lower`, only C's lower triangle is meaningful afterwards. */
typedef struct ole_product {
    double alpha;
    double *c;
    int64_t ldc;
    ole_store store;
    bool lower;
} ole_product;

/* C (+)= alpha A B, A: [a.items, depth], B: [depth, b.items]. */
OLE_INTERNAL void ole_panels_multiply(ole_pool *pool, const ole_panels *a, const ole_panels *b,
                                      const ole_product *out);

/* The same of operands that are packed for this one product, into `a_room` and `b_room`. */
OLE_INTERNAL void ole_multiply(ole_pool *pool, const ole_operand *a, double *a_room,
                               const ole_operand *b, double *b_room, const ole_product *out);

#endif
