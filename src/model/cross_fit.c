/* src/model/cross_fit.c - two ridge classifiers, each fitted to one half of the samples. */
#include "model/cross_fit.h"

#include "base/error.h"

#include <math.h>
#include <stdlib.h>

/*
 * The penalty, as a part of the mean diagonal of the Gram matrix.  On digits with 10 to 126 samples
 * per class, 1e-3 keeps more of the test samples than 1e-2 and 1e-1 do.
 */
static const double penalty = 1e-3;

typedef struct fit {
    int64_t dim, count; /* chosen samples */
    int classes;
    int64_t *row;       /* [count]: of the features */
    int32_t *label;     /* [count] */
    int8_t *half;       /* [count]: 0 or 1 */
    double *gram;       /* [count, count]: x·y + 1, which makes room for a bias */
    int64_t *member;    /* [count]: the samples of the half that is fitted */
    double *factor;     /* [members, members]: its Gram matrix, then the Cholesky factor */
    double *weight;     /* [classes, members] */
    float *own;         /* [members, classes]: logits of the half itself */
    float *network;     /* ... and the network's */
    int32_t *own_label; /* [members] */
} fit;

/* ---- Samples ------------------------------------------------------------------------------ */

/* Chooses the first samples of every class; false where a class has a single one. */
static bool choose(fit *f, const ole_logits *all, int64_t *taken) {
    int64_t most = OLE_CROSS_FIT_SAMPLES / all->classes;
    if (most < 2) most = 2;
    f->count = 0;
    for (int64_t i = 0; i < all->count; i++) {
        int32_t label = all->labels[i];
        if (taken[label] == most) continue;
        f->row[f->count] = i;
        f->label[f->count] = label;
        f->half[f->count++] = (int8_t)(taken[label]++ % 2);
    }
    for (int c = 0; c < all->classes; c++)
        if (taken[c] < 2) return false;
    return true;
}

/* In double: eight sums, which the compiler can keep in vectors. */
enum { LANES = 8 };

#define DEFINE_DOT(NAME, TYPE)                                                                     \
    static double NAME(const TYPE *a, const TYPE *b, int64_t count) {                              \
        double sum[LANES] = {0.0}, total = 0.0;                                                    \
        int64_t whole = count - count % LANES;                                                     \
        for (int64_t k = 0; k < whole; k += LANES)                                                 \
            for (int lane = 0; lane < LANES; lane++)                                               \
                sum[lane] += (double)a[k + lane] * (double)b[k + lane];                            \
        for (int64_t k = whole; k < count; k++)                                                    \
            total += (double)a[k] * (double)b[k];                                                  \
        for (int lane = 0; lane < LANES; lane++)                                                   \
            total += sum[lane];                                                                    \
        return total;                                                                              \
    }

DEFINE_DOT(dot_floats, float)
DEFINE_DOT(dot_doubles, double)

static void multiply_features(fit *f, const float *features) {
    for (int64_t i = 0; i < f->count; i++)
        for (int64_t k = 0; k <= i; k++)
            f->gram[i * f->count + k] = f->gram[k * f->count + i] =
                1.0 +
                dot_floats(features + f->row[i] * f->dim, features + f->row[k] * f->dim, f->dim);
}

/* ---- One half ----------------------------------------------------------------------------- */

/* The lower Cholesky factor in place; the penalty keeps the diagonal positive, unless features are
 * not finite. */
static bool factorise(double *a, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        for (int64_t k = 0; k <= i; k++) {
            double rest = a[i * n + k] - dot_doubles(a + i * n, a + k * n, k);
            if (i == k && !(rest > 0.0)) return false;
            a[i * n + k] = i == k ? sqrt(rest) : rest / a[k * n + k];
        }
    return true;
}

/* x = (L Lᵀ)⁻¹ x */
static void solve(const double *factor, int64_t n, double *x) {
    for (int64_t i = 0; i < n; i++)
        x[i] = (x[i] - dot_doubles(factor + i * n, x, i)) / factor[i * n + i];
    for (int64_t i = n - 1; i >= 0; i--) {
        x[i] /= factor[i * n + i];
        for (int64_t k = 0; k < i; k++)
            x[k] -= factor[i * n + k] * x[i];
    }
}

/* The weights of the classifier of these members; targets are 1 for the class, less their mean. */
static bool fit_half(fit *f, int64_t members) {
    double trace = 0.0;
    for (int64_t i = 0; i < members; i++) {
        for (int64_t k = 0; k < members; k++)
            f->factor[i * members + k] = f->gram[f->member[i] * f->count + f->member[k]];
        trace += f->factor[i * members + i];
    }
    for (int64_t i = 0; i < members; i++)
        f->factor[i * members + i] += penalty * trace / (double)(f->dim + 1);
    if (!factorise(f->factor, members)) return false;
    for (int c = 0; c < f->classes; c++) {
        double *x = f->weight + c * members;
        for (int64_t i = 0; i < members; i++)
            x[i] = (f->label[f->member[i]] == c) - 1.0 / f->classes;
        solve(f->factor, members, x);
    }
    return true;
}

/* What the classifier of the members gives to a sample. */
static double logit(const fit *f, int64_t members, int64_t sample, int c) {
    const double *gram = f->gram + sample * f->count, *weight = f->weight + c * members;
    double sum = 0.0;
    for (int64_t i = 0; i < members; i++)
        sum += gram[f->member[i]] * weight[i];
    return sum;
}

/*
 * The temperature at which the classifier is as sure of its members as the network is: the first,
 * from hot to cold, at which its loss is not larger, or where it is smallest.
 */
static double match_temperature(const ole_logits *own, const ole_logits *network) {
    double target = ole_temperature_nll(network, 1.0), t = 16.0;
    double loss = ole_temperature_nll(own, t);
    while (loss > target && t > 1e-6) {
        double colder = t / 1.1, next = ole_temperature_nll(own, colder);
        if (!(next < loss)) break;
        t = colder;
        loss = next;
    }
    return t;
}

/* Fits to one half and scores the other. */
static bool cross(fit *f, int half, const ole_logits *all, float *out) {
    int64_t members = 0;
    for (int64_t i = 0; i < f->count; i++)
        if (f->half[i] == half) f->member[members++] = i;
    if (!fit_half(f, members)) return false;
    for (int64_t i = 0; i < members; i++) {
        f->own_label[i] = f->label[f->member[i]];
        for (int c = 0; c < f->classes; c++) {
            f->own[i * f->classes + c] = (float)logit(f, members, f->member[i], c);
            f->network[i * f->classes + c] = all->logits[f->row[f->member[i]] * f->classes + c];
        }
    }
    const ole_logits own = {members, f->classes, f->own, f->own_label};
    const ole_logits network = {members, f->classes, f->network, f->own_label};
    double temperature = match_temperature(&own, &network);
    for (int64_t i = 0; i < f->count; i++)
        for (int c = 0; f->half[i] != half && c < f->classes; c++)
            out[i * f->classes + c] = (float)(logit(f, members, i, c) / temperature);
    return true;
}

/* ---- Both --------------------------------------------------------------------------------- */

static bool allocate(fit *f, size_t room) {
    size_t classes = (size_t)f->classes;
    f->row = malloc(room * sizeof *f->row);
    f->label = malloc(room * sizeof *f->label);
    f->half = malloc(room);
    f->gram = malloc(room * room * sizeof *f->gram);
    f->member = malloc(room * sizeof *f->member);
    f->factor = malloc(room * room * sizeof *f->factor);
    f->weight = malloc(room * classes * sizeof *f->weight);
    f->own = malloc(room * classes * sizeof *f->own);
    f->network = malloc(room * classes * sizeof *f->network);
    f->own_label = malloc(room * sizeof *f->own_label);
    return f->row && f->label && f->half && f->gram && f->member && f->factor && f->weight &&
           f->own && f->network && f->own_label;
}

static void release(fit *f) {
    void *const all[] = {f->row,    f->label,  f->half, f->gram,    f->member,
                         f->factor, f->weight, f->own,  f->network, f->own_label};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
}

ole_status ole_cross_fit(ole_cross_fitted *result, const float *features, int64_t dim,
                         const ole_logits *all, ole_error *error) {
    *result = (ole_cross_fitted){0};
    int64_t room = 2 * (int64_t)all->classes;
    if (room < OLE_CROSS_FIT_SAMPLES) room = OLE_CROSS_FIT_SAMPLES;
    if (room > OLE_CROSS_FIT_MOST || all->classes < 2 || all->count == 0) return OLE_OK;
    if (room > all->count) room = all->count;
    fit f = {.dim = dim, .classes = all->classes};
    int64_t *taken = calloc((size_t)all->classes, sizeof *taken);
    bool memory = taken && allocate(&f, (size_t)room);
    if (memory && choose(&f, all, taken)) {
        result->logits = malloc((size_t)f.count * (size_t)f.classes * sizeof *result->logits);
        memory = result->logits;
        if (memory) multiply_features(&f, features);
        if (memory && cross(&f, 0, all, result->logits) && cross(&f, 1, all, result->logits)) {
            result->count = f.count;
            result->labels = f.label;
            f.label = NULL;
        }
    }
    free(taken);
    release(&f);
    if (result->count == 0) ole_cross_fit_free(result);
    return memory ? OLE_OK : ole_fail(error, OLE_ERROR_MEMORY, "out of memory for a threshold");
}

void ole_cross_fit_free(ole_cross_fitted *result) {
    free(result->logits);
    free(result->labels);
    *result = (ole_cross_fitted){0};
}
