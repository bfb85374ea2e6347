/*
 * src/features/verify.c - cosines of pairs, and how well a threshold on them tells same from
 * different.
 */
#include "ole/verify.h"

#include "base/error.h"
#include "linalg/unit_rows.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

enum { NUMBERS_A_CALL = 1 << 20 }; /* read between two calls of the progress */

/* ---- Cosines ------------------------------------------------------------------------------ */

/* Rows are brought to magnitude 1 first, so that their squares neither overflow nor vanish. */
static double cosine(const double *a, double size_a, const double *b, double size_b, int64_t dim) {
    if (size_a == 0.0 || size_b == 0.0) return 0.0;
    double ab = 0.0, aa = 0.0, bb = 0.0;
    for (int64_t k = 0; k < dim; k++) {
        double x = a[k] / size_a, y = b[k] / size_b;
        ab += x * y;
        aa += x * x;
        bb += y * y;
    }
    return ab / (sqrt(aa) * sqrt(bb));
}

/* An accuracy is the mean over folds, each of which has pairs. */
static ole_status check_folds(const ole_pairs *pairs, ole_error *error) {
    for (int fold = 0; fold < pairs->folds; fold++) {
        int64_t i = 0;
        while (i < pairs->count && pairs->pair[i].fold != fold)
            i++;
        if (i == pairs->count)
            return ole_fail(error, OLE_ERROR_ARGUMENT, "ole_verify: fold %d has no pairs", fold);
    }
    return OLE_OK;
}

static ole_status score_pairs(const ole_row_set *m, const ole_pairs *pairs, double *score,
                              double *rows, ole_progress *progress, void *context,
                              ole_error *error) {
    ole_status status = check_folds(pairs, error);
    if (status != OLE_OK) return status;
    int64_t between = NUMBERS_A_CALL / m->dim + 1; /* calls of the progress */
    for (int64_t i = 0; i < pairs->count; i++) {
        if (progress && i % between == 0)
            progress(context, "comparing pairs", (double)i / (double)pairs->count);
        const ole_pair *p = &pairs->pair[i];
        if (p->a < 0 || p->a >= m->rows || p->b < 0 || p->b >= m->rows || p->fold < 0 ||
            p->fold >= pairs->folds)
            return ole_fail(error, OLE_ERROR_ARGUMENT,
                            "ole_verify: pair %" PRId64 " names a row or a fold that is not there",
                            i);
        double a = ole_row_largest(m, p->a), b = ole_row_largest(m, p->b);
        if (!isfinite(a) || !isfinite(b))
            return ole_fail(error, OLE_ERROR_DATA, "features: row %" PRId64 " holds NaN or Inf",
                            isfinite(a) ? p->b : p->a);
        ole_row_copy(m, p->a, rows);
        ole_row_copy(m, p->b, rows + m->dim);
        score[i] = cosine(rows, a, rows + m->dim, b, m->dim);
    }
    return OLE_OK;
}

/* ---- Folds -------------------------------------------------------------------------------- */

typedef struct scored {
    double score;
    bool same;
    int fold;
} scored;

static int by_score(const void *left, const void *right) {
    double a = ((const scored *)left)->score, b = ((const scored *)right)->score;
    return (a > b) - (a < b);
}

/*
 * The threshold under which most pairs of the folds other than `fold` (-1: of all) are right.
 * `sorted` rises; with a threshold under all scores the same pairs are right, and each score passed
 * makes a different pair right or a same pair wrong.
 */
static double best_threshold(const scored *sorted, int64_t count, int fold) {
    double before = -INFINITY, best = -INFINITY;
    int64_t right = 0, most = -1;
    for (int64_t i = 0; i < count; i++) { /* `right` is relative: their number does not matter */
        if (sorted[i].fold == fold) continue;
        if (sorted[i].score > before && right > most) {
            most = right;
            best = before == -INFINITY ? sorted[i].score : 0.5 * (before + sorted[i].score);
        }
        before = sorted[i].score;
        right += sorted[i].same ? -1 : 1;
    }
    return right > most ? nextafter(before, INFINITY) : best;
}

static double accuracy_at(const scored *sorted, int64_t count, int fold, double threshold) {
    int64_t right = 0, all = 0;
    for (int64_t i = 0; i < count; i++) {
        if (sorted[i].fold != fold) continue;
        all++;
        right += (sorted[i].score >= threshold) == sorted[i].same;
    }
    return all > 0 ? 100.0 * (double)right / (double)all : NAN;
}

static void cross_validate(ole_verification *v, const scored *sorted) {
    double sum = 0.0, squares = 0.0;
    for (int f = 0; f < v->folds; f++) {
        v->fold_threshold[f] = best_threshold(sorted, v->count, f);
        v->fold_accuracy[f] = accuracy_at(sorted, v->count, f, v->fold_threshold[f]);
        sum += v->fold_accuracy[f];
    }
    v->accuracy = sum / v->folds;
    v->threshold = best_threshold(sorted, v->count, -1);
    for (int f = 0; f < v->folds; f++)
        squares += (v->fold_accuracy[f] - v->accuracy) * (v->fold_accuracy[f] - v->accuracy);
    v->accuracy_std = v->folds > 1 ? sqrt(squares / (v->folds - 1)) : NAN;
}

/* The scores of one kind, one after the other; returns how many. */
static int64_t select_kind(const ole_pairs *pairs, const double *score, bool same, double *to) {
    int64_t count = 0;
    for (int64_t i = 0; i < pairs->count; i++)
        if (pairs->pair[i].same == same) to[count++] = score[i];
    return count;
}

static ole_status judge(ole_verification *v, const ole_pairs *pairs, ole_error *error) {
    double *kinds = malloc((size_t)v->count * sizeof *kinds);
    scored *sorted = malloc((size_t)v->count * sizeof *sorted);
    ole_status status = OLE_OK;
    if (!kinds || !sorted) {
        status = ole_fail(error, OLE_ERROR_MEMORY, "out of memory for %" PRId64 " pairs", v->count);
    } else {
        v->same = select_kind(pairs, v->score, true, kinds);
        int64_t different = select_kind(pairs, v->score, false, kinds + v->same);
        if (v->same == 0 || different == 0)
            status = ole_fail(error, OLE_ERROR_ARGUMENT, "all pairs are %s: both kinds are needed",
                              v->same ? "the same" : "different");
        else
            status = ole_roc_make(&v->roc, kinds, v->same, kinds + v->same, different, error);
    }
    if (status == OLE_OK) {
        for (int64_t i = 0; i < v->count; i++)
            sorted[i] = (scored){v->score[i], pairs->pair[i].same, pairs->pair[i].fold};
        qsort(sorted, (size_t)v->count, sizeof *sorted, by_score);
        cross_validate(v, sorted);
    }
    free(kinds);
    free(sorted);
    return status;
}

ole_status ole_verify(ole_verification *result, int64_t rows, int64_t dim, ole_dtype dtype,
                      const void *features, const ole_pairs *pairs, ole_progress *progress,
                      void *context, ole_error *error) {
    if (!result || !features || !pairs || rows < 1 || dim < 1 || pairs->count < 1 ||
        pairs->folds < 2 || (dtype != OLE_F32 && dtype != OLE_F64))
        return ole_fail(error, OLE_ERROR_ARGUMENT,
                        "ole_verify: a pointer is NULL, a size is not positive, there are fewer "
                        "than 2 folds, or the type is not float32 or float64");
    ole_verification v = {.count = pairs->count, .folds = pairs->folds};
    v.score = malloc((size_t)v.count * sizeof *v.score);
    v.fold_accuracy = malloc((size_t)v.folds * 2 * sizeof *v.fold_accuracy);
    double *two = malloc(2 * (size_t)dim * sizeof *two); /* rows of a pair */
    ole_status status = OLE_OK;
    if (!v.score || !v.fold_accuracy || !two)
        status = ole_fail(error, OLE_ERROR_MEMORY, "out of memory for %" PRId64 " pairs", v.count);
    if (status == OLE_OK) {
        v.fold_threshold = v.fold_accuracy + v.folds;
        const ole_row_set m = {rows, dim, dtype, features, NULL};
        status = score_pairs(&m, pairs, v.score, two, progress, context, error);
    }
    free(two);
    if (status == OLE_OK) status = judge(&v, pairs, error);
    if (status == OLE_OK)
        *result = v;
    else
        ole_verification_free(&v);
    return status;
}

void ole_verification_free(ole_verification *result) {
    if (!result) return;
    free(result->score);
    free(result->fold_accuracy); /* the thresholds lie behind it */
    ole_roc_free(&result->roc);
    *result = (ole_verification){0};
}
