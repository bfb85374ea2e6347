/* src/loss/criteria/parts.c - unit rows, cosines, distances, cross-entropy and nuclear norms, with
 * their gradients: what several criteria are made of. */
#include "base/min_max.h"
#include "loss/criteria/criterion.h"

#include <float.h>
#include <math.h>
#include <string.h>

void ole_criterion_multiply(const ole_criterion_call *call, ole_factor a, ole_factor b, int64_t n,
                            int64_t k, int64_t m, double alpha, double *c) {
    ole_operand left = {a.data, OLE_F64, n, k, a.transposed ? 1 : k, a.transposed ? n : 1, false};
    ole_operand right = {b.data, OLE_F64, m, k, b.transposed ? k : 1, b.transposed ? 1 : m, false};
    const ole_product product = {alpha, c, m, OLE_STORE_SET, false};
    ole_multiply(NULL, &left, call->panels[0], &right, call->panels[1], &product);
}

/* ---- Unit rows ---------------------------------------------------------------------------- */

void ole_unit_rows(const double *x, int64_t rows, int64_t dim, double *u, double *length) {
    for (int64_t i = 0; i < rows; i++) {
        const double *row = x + i * dim;
        double largest = 0.0, sum = 0.0;
        for (int64_t d = 0; d < dim; d++)
            largest = fmax(largest, fabs(row[d]));
        int exponent = 0; /* scaled by it, neither huge nor tiny rows do harm */
        frexp(largest, &exponent);
        for (int64_t d = 0; d < dim; d++) {
            double value = u[i * dim + d] = ldexp(row[d], -exponent);
            sum += value * value;
        }
        double root = sqrt(sum);
        for (int64_t d = 0; d < dim && sum > 0.0; d++)
            u[i * dim + d] /= root;
        length[i] = ldexp(root, exponent);
    }
}

void ole_unit_rows_backward(const double *u, const double *length, const double *du, int64_t rows,
                            int64_t dim, double *dx) {
    for (int64_t i = 0; i < rows; i++) {
        const double *row = u + i * dim, *d = du + i * dim;
        double along = 0.0;
        for (int64_t k = 0; k < dim; k++)
            along += d[k] * row[k];
        for (int64_t k = 0; k < dim && length[i] > 0.0; k++)
            dx[i * dim + k] += (d[k] - along * row[k]) / length[i];
    }
}

void ole_criterion_unit(ole_criterion_call *c) {
    ole_unit_rows(c->x, c->rows, c->dim, c->u, c->length);
}

void ole_criterion_unit_backward(const ole_criterion_call *c) {
    ole_unit_rows_backward(c->u, c->length, c->du, c->rows, c->dim, c->dx);
}

/* ---- Pairs of rows ------------------------------------------------------------------------ */

void ole_criterion_cosines(ole_criterion_call *c) {
    ole_criterion_unit(c);
    ole_criterion_multiply(c, (ole_factor){c->u, false}, (ole_factor){c->u, true}, c->rows, c->dim,
                           c->rows, 1.0, c->square[0]);
    memset(c->square[1], 0, (size_t)(c->rows * c->rows) * sizeof(double));
}

/* square[1] += its transpose */
static void add_transpose(ole_criterion_call *c) {
    int64_t n = c->rows;
    double *s = c->square[1];
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j <= i; j++)
            s[i * n + j] = s[j * n + i] = s[i * n + j] + s[j * n + i];
}

void ole_criterion_cosines_backward(ole_criterion_call *c) {
    add_transpose(c);
    ole_criterion_multiply(c, (ole_factor){c->square[1], false}, (ole_factor){c->u, false}, c->rows,
                           c->rows, c->dim, 1.0, c->du);
    ole_criterion_unit_backward(c);
}

/* From the differences, not from the cosines: those of rows that are close cancel. */
void ole_criterion_distances(ole_criterion_call *c) {
    int64_t n = c->rows, dim = c->dim;
    double *s = c->square[0];
    ole_criterion_unit(c);
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j <= i; j++) {
            const double *a = c->u + i * dim, *b = c->u + j * dim;
            double sum = 0.0;
            for (int64_t d = 0; d < dim; d++)
                sum += (a[d] - b[d]) * (a[d] - b[d]);
            s[i * n + j] = s[j * n + i] = sqrt(sum);
        }
    memset(c->square[1], 0, (size_t)(n * n) * sizeof(double));
}

/* du_i = sum over j of d_ij (u_i - u_j) / distance; equal rows pull at nothing. */
void ole_criterion_distances_backward(ole_criterion_call *c) {
    int64_t n = c->rows;
    double *s = c->square[1];
    add_transpose(c);
    for (int64_t i = 0; i < n; i++) {
        double sum = 0.0;
        for (int64_t j = 0; j < n; j++) {
            double distance = c->square[0][i * n + j];
            double pull = j != i && distance > 0.0 ? s[i * n + j] / distance : 0.0;
            s[i * n + j] = -pull;
            sum += pull;
        }
        s[i * n + i] = sum;
    }
    ole_criterion_multiply(c, (ole_factor){s, false}, (ole_factor){c->u, false}, n, n, c->dim, 1.0,
                           c->du);
    ole_criterion_unit_backward(c);
}

/* ---- The classifier ----------------------------------------------------------------------- */

void ole_criterion_class_cosines(ole_criterion_call *c) {
    ole_criterion_unit(c);
    ole_unit_rows(c->w, c->classes, c->dim, c->unit_w, c->w_length);
    ole_criterion_multiply(c, (ole_factor){c->u, false}, (ole_factor){c->unit_w, true}, c->rows,
                           c->dim, c->classes, 1.0, c->cosines);
    for (int64_t i = 0; i < c->rows * c->classes; i++)
        c->cosines[i] = fmin(fmax(c->cosines[i], -1.0), 1.0);
}

void ole_criterion_class_cosines_backward(ole_criterion_call *c) {
    const ole_factor d = {c->dlogits, false}, dt = {c->dlogits, true};
    ole_criterion_multiply(c, d, (ole_factor){c->unit_w, false}, c->rows, c->classes, c->dim, 1.0,
                           c->du);
    ole_criterion_multiply(c, dt, (ole_factor){c->u, false}, c->classes, c->rows, c->dim, 1.0,
                           c->dunit_w);
    ole_criterion_unit_backward(c);
    ole_unit_rows_backward(c->unit_w, c->w_length, c->dunit_w, c->classes, c->dim, c->dw);
}

void ole_criterion_count(ole_criterion_call *c) {
    for (int64_t i = 0; i < c->rows; i++) {
        const double *z = c->logits + i * c->classes;
        int64_t best = 0;
        for (int64_t j = 1; j < c->classes; j++)
            if (z[j] > z[best]) best = j;
        c->correct += best == c->labels[i];
    }
}

double ole_criterion_cross_entropy(ole_criterion_call *c) {
    double value = 0.0;
    for (int64_t i = 0; i < c->rows; i++) {
        const double *z = c->logits + i * c->classes;
        double *d = c->dlogits + i * c->classes, largest = z[0], sum = 0.0;
        for (int64_t j = 1; j < c->classes; j++)
            largest = fmax(largest, z[j]);
        for (int64_t j = 0; j < c->classes; j++)
            sum += d[j] = exp(z[j] - largest);
        value += log(sum) + (largest - z[c->labels[i]]);
        for (int64_t j = 0; j < c->classes; j++)
            d[j] = (d[j] / sum - (j == c->labels[i])) / (double)c->rows;
    }
    return value / (double)c->rows;
}

/* ---- Singular values ---------------------------------------------------------------------- */

static const ole_cut cut = {1e-6, 64.0 * FLT_EPSILON};

void ole_criterion_center(const ole_criterion_call *c, int64_t first, int64_t count, double *to) {
    for (int64_t d = 0; d < c->dim; d++) {
        const double *u = c->u + first * c->dim + d;
        double mean = 0.0;
        for (int64_t i = 0; i < count; i++)
            mean += u[i * c->dim] / (double)count;
        for (int64_t i = 0; i < count; i++)
            to[i * c->dim + d] = u[i * c->dim] - mean;
    }
}

bool ole_criterion_decompose(ole_criterion_call *c, const double *a, int64_t rows, double *norm) {
    const ole_operand block = {a, OLE_F64, rows, c->dim, c->dim, 1, false};
    if (!ole_svd_of(&block, &c->svd)) return false;
    *norm = ole_svd_norm(&c->svd, ole_min(rows, c->dim));
    return true;
}

int64_t ole_criterion_rank(const ole_criterion_call *c, int64_t rows) {
    return ole_svd_rank(&c->svd, ole_min(rows, c->dim), cut);
}

void ole_criterion_add_polar(ole_criterion_call *c, int64_t rows, int64_t rank, double factor,
                             double *to) {
    const ole_product product = {factor, to, c->dim, OLE_STORE_ADD, false};
    if (rank > 0) ole_svd_polar(NULL, &c->svd, rows, c->dim, rank, &product);
}
