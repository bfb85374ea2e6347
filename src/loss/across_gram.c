/*
 * src/loss/across_gram.c - matrices of more rows than columns, whose rows stay where they are.
 *
 * Of X, [n, D] with n > D, only X^T X = sum_r X_r^T X_r is needed to find Σ and V, and with them
 * each rank computes its own rows of polar(X) = X V1 Σ1^-1 V1^T (linalg/spectra.h).  What travels
 * does not depend on n.
 */
#include "loss/across_parts.h"

/* Matrices worked on together: each takes two D x D matrices of memory. */
enum { AT_ONCE = 8 };

void ole_across_gram_place(ole_across *across, ole_arena *arena) {
    int64_t most = 1 + across->max_gram / (across->dim + 1); /* no more classes are large */
    int64_t size = ole_ranks_size(across->ranks);
    most = most < AT_ONCE ? most : AT_ONCE;
    most = most < size ? most : size;
    ole_spectra_place(&across->spectra, arena, across->ranks, across->dim, across->max_rows,
                      (int)most);
}

/* This rank's rows of a class (-1: all its rows), their columns as items. */
static ole_operand columns_of(const ole_across *across, int64_t class) {
    int64_t dim = across->dim, first = class < 0 ? 0 : across->own[class].local;
    int64_t count = class < 0 ? across->mine.rows : across->own[class].count;
    ole_operand rows = {across->rows + first * dim, OLE_F32, count, dim, dim, 1, false};
    return ole_operand_transposed(rows);
}

/* Notes what was found of item i, and adds its part to the direction. */
static void finish_item(ole_across *across, int i, int64_t class) {
    const ole_spectrum *found = &across->spectra.items[i].found;
    ole_product product = {.c = across->direction, .ldc = across->dim, .store = OLE_STORE_ADD};
    if (class < 0) {
        across->norm = found->norm;
        across->rank = found->rank;
        product.alpha = -1.0;
    } else {
        across->classes[class].norm = found->norm;
        across->classes[class].rank = found->rank;
        product.alpha = 1.0;
        product.c += across->own[class].local * across->dim;
    }
    if (across->want && ole_across_counts(across, class, found->norm))
        ole_spectra_polar(across->pool, &across->spectra, i, &product);
}

bool ole_across_gram_solve(ole_across *across, int64_t limit) {
    const ole_groups *groups = &across->groups;
    ole_spectra *spectra = &across->spectra;
    int64_t class[AT_ONCE], next = groups->classes > 1 ? 0 : groups->classes;
    for (bool whole = true; whole || next < groups->classes; whole = false) {
        int count = 0;
        if (whole) class[count++] = -1;
        for (; next < groups->classes && count < spectra->most; next++)
            if (across->classes[next].count > limit) class[count++] = next;
        if (count == 0) break;
        for (int i = 0; i < count; i++)
            spectra->items[i].a = columns_of(across, class[i]);
        if (!ole_spectra_of(across->pool, spectra, count, across->cut)) return false;
        for (int i = 0; i < count; i++)
            finish_item(across, i, class[i]);
    }
    return true;
}
