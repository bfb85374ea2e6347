/*
 * src/loss/ranks/ranks_gram.c - matrices of more rows than columns, whose rows stay where they are.
 *
 * Of X, [n, D] with n > D, only X^T X = sum_r X_r^T X_r is needed to find Σ and V, and with them
 * each rank computes its own rows of polar(X) = X V1 Σ1^-1 V1^T (ranks_spectra.h).  What
 * travels does not depend on n.
 */
#include "loss/ranks/ranks_parts.h"

/* Matrices worked on together: each takes two D x D matrices of memory. */
enum { AT_ONCE = 8 };

void ole_ranks_loss_gram_lay_out(ole_ranks_loss *loss, ole_arena *arena) {
    int64_t most = 1 + loss->max_gram / (loss->dim + 1); /* no more classes are large */
    int64_t size = ole_ranks_size(loss->ranks);
    most = most < AT_ONCE ? most : AT_ONCE;
    most = most < size ? most : size;
    ole_ranks_loss_spectra_place(&loss->spectra, arena, loss->ranks, loss->dim, loss->max_rows,
                                 (int)most);
}

/* This rank's rows of a class (-1: all its rows), their columns as items. */
static ole_operand columns_of(const ole_ranks_loss *loss, int64_t class) {
    int64_t dim = loss->dim, first = class < 0 ? 0 : loss->own[class].local;
    int64_t count = class < 0 ? loss->mine.rows : loss->own[class].count;
    ole_operand rows = {loss->rows + first * dim, OLE_F32, count, dim, dim, 1, false};
    return ole_operand_transposed(rows);
}

/* Notes what was found of item i, and adds its part to the direction. */
static void finish_item(ole_ranks_loss *loss, int i, int64_t class) {
    const ole_spectrum *found = &loss->spectra.items[i].found;
    ole_product product = {.c = loss->direction, .ldc = loss->dim, .store = OLE_STORE_ADD};
    if (class < 0) {
        loss->norm = found->norm;
        loss->rank = found->rank;
        product.alpha = -1.0;
    } else {
        loss->classes[class].norm = found->norm;
        loss->classes[class].rank = found->rank;
        product.alpha = 1.0;
        product.c += loss->own[class].local * loss->dim;
    }
    if (loss->want && ole_ranks_loss_counts(loss, class, found->norm))
        ole_ranks_loss_spectra_polar(loss->pool, &loss->spectra, i, &product);
}

bool ole_ranks_loss_gram_solve(ole_ranks_loss *loss, int64_t limit) {
    const ole_groups *groups = &loss->groups;
    ole_ranks_loss_spectra *spectra = &loss->spectra;
    int64_t class[AT_ONCE], next = groups->classes > 1 ? 0 : groups->classes;
    for (bool whole = true; whole || next < groups->classes; whole = false) {
        int count = 0;
        if (whole) class[count++] = -1;
        for (; next < groups->classes && count < spectra->most; next++)
            if (loss->classes[next].count > limit) class[count++] = next;
        if (count == 0) break;
        for (int i = 0; i < count; i++)
            spectra->items[i].a = columns_of(loss, class[i]);
        if (!ole_ranks_loss_spectra_of(loss->pool, spectra, count, loss->cut)) return false;
        for (int i = 0; i < count; i++)
            finish_item(loss, i, class[i]);
    }
    return true;
}
