/*
 * src/features/roc.c - ROC curves.
 *
 * Everything follows from two counts at each distinct score, of positives and negatives at or over
 * it, which are exact; rates and areas are divided at the end.
 */
#include "ole/roc.h"

#include "base/error.h"

#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

static const double recall = 0.95; /* the TPR of fpr95 */

typedef struct sample {
    double score;
    bool positive;
} sample;

/* Counts at a threshold. */
typedef struct point {
    double threshold;
    int64_t positives, negatives;
} point;

static int by_falling_score(const void *left, const void *right) {
    double a = ((const sample *)left)->score, b = ((const sample *)right)->score;
    return (a < b) - (a > b);
}

static ole_status gather(sample *to, const double *scores, int64_t count, bool positive,
                         ole_error *error) {
    for (int64_t i = 0; i < count; i++) {
        if (isnan(scores[i]))
            return ole_fail(error, OLE_ERROR_DATA, "the score of %s sample %" PRId64 " is NaN",
                            positive ? "positive" : "negative", i);
        to[i] = (sample){scores[i], positive};
    }
    return OLE_OK;
}

/* The points of the curve from samples sorted by falling score; returns how many. */
static int64_t count_points(const sample *samples, int64_t count, point *points) {
    int64_t last = 0;
    points[0] = (point){.threshold = INFINITY};
    for (int64_t i = 0; i < count; i++) {
        if (i == 0 || samples[i].score != samples[i - 1].score) {
            points[last + 1] = points[last];
            points[++last].threshold = samples[i].score;
        }
        points[last].positives += samples[i].positive;
        points[last].negatives += !samples[i].positive;
    }
    return last + 1;
}

/* ---- Areas -------------------------------------------------------------------------------- */

static double area(const point *p, int64_t count, double positives, double negatives) {
    double sum = 0.0;
    for (int64_t i = 1; i < count; i++)
        sum += (double)(p[i].negatives - p[i - 1].negatives) *
               (double)(p[i].positives + p[i - 1].positives);
    return sum / (2.0 * positives * negatives);
}

static double precision_of_positives(const point *p, int64_t count, double positives) {
    double sum = 0.0;
    for (int64_t i = 1; i < count; i++)
        sum += (double)(p[i].positives - p[i - 1].positives) * (double)p[i].positives /
               (double)(p[i].positives + p[i].negatives);
    return sum / positives;
}

/* Seeking the negatives, the lowest scores come first: the curve is walked from its end. */
static double precision_of_negatives(const point *p, int64_t count, double negatives) {
    const point *end = &p[count - 1];
    double sum = 0.0;
    for (int64_t i = count - 1; i > 0; i--) {
        double found = (double)(end->negatives - p[i - 1].negatives);
        double taken = found + (double)(end->positives - p[i - 1].positives);
        sum += (double)(p[i].negatives - p[i - 1].negatives) * found / taken;
    }
    return sum / negatives;
}

static double false_positives_at(const point *p, int64_t count, double share) {
    double needed = share * (double)p[count - 1].positives;
    int64_t i = 0;
    while (i < count - 1 && (double)p[i].positives < needed)
        i++;
    return (double)p[i].negatives / (double)p[count - 1].negatives;
}

/* ---- The curve ---------------------------------------------------------------------------- */

static ole_status fill(ole_roc *roc, const point *p, int64_t count, ole_error *error) {
    double *memory = malloc((size_t)count * 3 * sizeof *memory);
    if (!memory) return ole_fail(error, OLE_ERROR_MEMORY, "out of memory for a ROC curve");
    double positives = (double)p[count - 1].positives, negatives = (double)p[count - 1].negatives;
    *roc = (ole_roc){.positives = p[count - 1].positives,
                     .negatives = p[count - 1].negatives,
                     .auroc = area(p, count, positives, negatives),
                     .ap_positive = precision_of_positives(p, count, positives),
                     .ap_negative = precision_of_negatives(p, count, negatives),
                     .fpr95 = false_positives_at(p, count, recall),
                     .points = count,
                     .threshold = memory,
                     .tpr = memory + count,
                     .fpr = memory + 2 * count};
    for (int64_t i = 0; i < count; i++) {
        roc->threshold[i] = p[i].threshold;
        roc->tpr[i] = (double)p[i].positives / positives;
        roc->fpr[i] = (double)p[i].negatives / negatives;
    }
    return OLE_OK;
}

ole_status ole_roc_make(ole_roc *roc, const double *positive, int64_t positives,
                        const double *negative, int64_t negatives, ole_error *error) {
    if (!roc || !positive || !negative || positives < 1 || negatives < 1)
        return ole_fail(error, OLE_ERROR_ARGUMENT,
                        "ole_roc_make: a pointer is NULL, or there are no samples of a kind");
    size_t count = (size_t)positives + (size_t)negatives;
    sample *samples = malloc(count * sizeof *samples);
    point *points = malloc((count + 1) * sizeof *points);
    ole_status status = samples && points ? gather(samples, positive, positives, true, error)
                                          : ole_fail(error, OLE_ERROR_MEMORY,
                                                     "out of memory for %zu scores", count);
    if (status == OLE_OK) status = gather(samples + positives, negative, negatives, false, error);
    if (status == OLE_OK) {
        qsort(samples, count, sizeof *samples, by_falling_score);
        status = fill(roc, points, count_points(samples, (int64_t)count, points), error);
    }
    free(samples);
    free(points);
    return status;
}

void ole_roc_free(ole_roc *roc) {
    if (!roc) return;
    free(roc->threshold); /* the other two lie behind it */
    *roc = (ole_roc){0};
}
