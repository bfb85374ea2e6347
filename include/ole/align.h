/*
 * ole/align.h - the orthogonal map between two embeddings of the same items, for spaces that change
 * with retraining.
 *
 * Example: embeddings of an old model, moved into the space of a new one.
 *
 *     float *moved = malloc((size_t)(rows * dim) * sizeof *moved);
 *     ole_matrix old = {.data = (void *)features, .rows = rows, .cols = dim, .dtype = OLE_F32};
 *     ole_matrix now = old, out = old; // `now`: the same items by the new model
 *     out.data = moved;
 *     ole_alignment fit;
 *     if (ole_align(&fit, &old, &now, NULL, &error) != OLE_OK) return puts(error.message), 1;
 *     printf("residual %.1f %%\n", 100 * fit.residual);
 *     ole_align_apply(&fit, &old, &out, &error);
 *     ole_alignment_free(&fit);
 *
 * min over R of ‖A R - B‖_F, R^T R = I: with A^T B = U Σ V^T it is R = U V^T (Schönemann, "A
 * generalized solution of the orthogonal Procrustes problem", Psychometrika 1966).  R keeps all
 * lengths and angles.  B may have more dimensions than A: R then embeds A's space in B's.
 */
#ifndef OLE_ALIGN_H
#define OLE_ALIGN_H

#include "ole/linalg.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Fill with ole_align_options_init(). */
typedef struct ole_align_options {
    size_t struct_size;
    bool centre; /* subtract the means of A and B first; default false */
    int threads; /* 1 to 1024; default 1 */
} ole_align_options;

OLE_API void ole_align_options_init_sized(ole_align_options *options, size_t struct_size);
static inline void ole_align_options_init(ole_align_options *options) {
    ole_align_options_init_sized(options, sizeof *options);
}

typedef struct ole_alignment {
    int64_t from, to; /* dimensions */
    double *map;      /* R, [from, to] */
    double *shift;    /* [to]: mean of B - mean of A times R; zeros without `centre` */
    int64_t rank;     /* of A^T B: below `from`, other maps do as well */
    double scale;    /* the factor s for which ‖s A R - B‖ is smallest; the map is without it */
    double residual; /* ‖A R - B‖ / ‖B‖ */
    double cosine;   /* of a mapped row and its counterpart, mean over rows that are not zero */
} ole_alignment;

/*
 * Row i of `a` and of `b` is the same item.  `options` may be NULL.  OLE_ERROR_DATA: NaN or Inf in
 * a row, which the message names.  OLE_ERROR_ARGUMENT: other numbers of rows, or `b` has fewer
 * dimensions than `a`.  Rows are read block by block; results have the same bits for any number of
 * threads.  On failure there is nothing to free.
 */
OLE_API ole_status ole_align(ole_alignment *alignment, const ole_matrix *a, const ole_matrix *b,
                             const ole_align_options *options, ole_error *error);
OLE_API void ole_alignment_free(ole_alignment *alignment);

/* mapped = rows R + shift; `mapped` is [rows, to], of either type. */
OLE_API ole_status ole_align_apply(const ole_alignment *alignment, const ole_matrix *rows,
                                   const ole_matrix *mapped, ole_error *error);

#ifdef __cplusplus
}
#endif
#endif
