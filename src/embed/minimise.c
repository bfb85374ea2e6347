/* src/embed/minimise.c - preconditioned L-BFGS with a backtracking line search. */
#include "embed/minimise.h"

#include "base/error.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MEMORY = 8, MOST_BYTES = 1 << 29, MOST_HALVINGS = 30, VECTORS = 6 };

/* The last steps s, changes of the gradient y, and y preconditioned, as a ring. */
typedef struct history {
    int room, count, next;
    double *s, *y, *py; /* [room, n] */
    double rho[MEMORY];
} history;

/* Points and gradients, [n] each. */
typedef struct search {
    const ole_minimiser *m;
    history past;
    double *g, *pg, *d, *x_new, *g_new, *pg_new; /* p: preconditioned */
    double *block;
} search;

/* Eight sums, which the compiler can keep in vectors. */
static double dot(const double *a, const double *b, int64_t n) {
    double sum[8] = {0.0};
    int64_t whole = n - n % 8;
    for (int64_t i = 0; i < whole; i += 8)
        for (int k = 0; k < 8; k++)
            sum[k] += a[i + k] * b[i + k];
    for (int64_t i = whole; i < n; i++)
        sum[0] += a[i] * b[i];
    return ((sum[0] + sum[1]) + (sum[2] + sum[3])) + ((sum[4] + sum[5]) + (sum[6] + sum[7]));
}

static void add(double *to, double factor, const double *from, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        to[i] += factor * from[i];
}

static ole_status allocate(search *s, ole_error *error) {
    int64_t n = s->m->n, room = MOST_BYTES / (3 * n * (int64_t)sizeof(double));
    s->past.room = room < 2 ? 2 : room > MEMORY ? MEMORY : (int)room;
    size_t vectors = VECTORS + 3 * (size_t)s->past.room;
    s->block = malloc(vectors * (size_t)n * sizeof *s->block);
    if (!s->block)
        return ole_fail(error, OLE_ERROR_MEMORY, "out of memory for a fit: it needs %.3g GiB",
                        (double)vectors * (double)n * sizeof(double) / 1073741824.0);
    double **places[] = {&s->g, &s->pg, &s->d, &s->x_new, &s->g_new, &s->pg_new};
    for (int i = 0; i < VECTORS; i++)
        *places[i] = s->block + i * n;
    s->past.s = s->block + VECTORS * n;
    s->past.y = s->past.s + s->past.room * n;
    s->past.py = s->past.y + s->past.room * n;
    return OLE_OK;
}

/*
 * d = -H g by the two-loop recursion around the preconditioner P. As P is linear, P q is that of
 * the gradient less the shares of the y's, and nothing is preconditioned here.
 */
static void find_direction(search *s) {
    const ole_minimiser *m = s->m;
    history *h = &s->past;
    double alpha[MEMORY], *q = s->x_new; /* free until the line search */
    memcpy(q, s->g, (size_t)m->n * sizeof *q);
    memcpy(s->d, s->pg, (size_t)m->n * sizeof *q);
    for (int k = 0; k < h->count; k++) {
        int at = (h->next - 1 - k + 2 * h->room) % h->room;
        alpha[at] = h->rho[at] * dot(h->s + at * m->n, q, m->n);
        add(q, -alpha[at], h->y + at * m->n, m->n);
        add(s->d, -alpha[at], h->py + at * m->n, m->n);
    }
    if (h->count > 0) { /* scaled to the curvature of the last step */
        int at = (h->next - 1 + h->room) % h->room;
        double factor = 1.0 / (h->rho[at] * dot(h->y + at * m->n, h->py + at * m->n, m->n));
        for (int64_t i = 0; i < m->n; i++)
            s->d[i] *= factor;
    }
    for (int k = h->count - 1; k >= 0; k--) {
        int at = (h->next - 1 - k + 2 * h->room) % h->room;
        double beta = h->rho[at] * dot(h->y + at * m->n, s->d, m->n);
        add(s->d, alpha[at] - beta, h->s + at * m->n, m->n);
    }
    for (int64_t i = 0; i < m->n; i++)
        s->d[i] = -s->d[i];
}

/* Keeps the step in the history if the curvature along it is positive. */
static void remember(search *s, const double *x) {
    history *h = &s->past;
    int64_t n = s->m->n;
    double *step = h->s + h->next * n, *change = h->y + h->next * n, *pc = h->py + h->next * n;
    for (int64_t i = 0; i < n; i++) {
        step[i] = s->x_new[i] - x[i];
        change[i] = s->g_new[i] - s->g[i];
        pc[i] = s->pg_new[i] - s->pg[i];
    }
    double curvature = dot(step, change, n);
    if (!(curvature > 1e-10 * sqrt(dot(step, step, n) * dot(change, change, n)))) return;
    h->rho[h->next] = 1.0 / curvature;
    h->next = (h->next + 1) % h->room;
    if (h->count < h->room) h->count++;
}

/* Halves the step until the value falls enough (Armijo). *moved: false if it never does. */
static ole_status search_line(search *s, const double *x, double *value, double slope, bool *moved,
                              ole_error *error) {
    const ole_minimiser *m = s->m;
    double step = 1.0;
    *moved = false;
    for (int k = 0; k < MOST_HALVINGS && !*moved; k++) {
        double f;
        for (int64_t i = 0; i < m->n; i++)
            s->x_new[i] = x[i] + step * s->d[i];
        ole_status status = m->evaluate(m->context, s->x_new, &f, s->g_new, error);
        if (status != OLE_OK) return status;
        *moved = isfinite(f) && f <= *value + 1e-4 * step * slope;
        if (*moved) {
            *value = f;
        } else { /* the minimum of the parabola through what is known, within limits */
            double better = isfinite(f) ? -slope * step / (2.0 * ((f - *value) / step - slope)) : 0;
            step = better > 0.1 * step && better < 0.6 * step ? better : 0.3 * step;
        }
    }
    return OLE_OK;
}

ole_status ole_minimise(ole_minimiser *m, double *x, ole_minimum *minimum, ole_error *error) {
    search s = {.m = m};
    *minimum = (ole_minimum){0};
    ole_status status = allocate(&s, error);
    if (status == OLE_OK) status = m->evaluate(m->context, x, &minimum->value, s.g, error);
    if (status == OLE_OK) m->precondition(m->context, s.g, s.pg);
    bool restarted = false;
    while (status == OLE_OK && minimum->steps < m->most) {
        double length = sqrt(dot(s.g, s.pg, m->n)), before = minimum->value;
        if (m->reference == 0.0) m->reference = length;
        minimum->converged = !(length > m->tolerance * m->reference);
        if (minimum->converged) break;
        find_direction(&s);
        double slope = dot(s.g, s.d, m->n);
        bool moved = false;
        if (slope < 0.0) status = search_line(&s, x, &minimum->value, slope, &moved, error);
        if (status != OLE_OK) break;
        if (!moved) { /* once more without the history, then it is as low as rounding lets it be */
            if (restarted || s.past.count == 0) break;
            restarted = true;
            s.past.count = 0;
            continue;
        }
        restarted = false;
        m->precondition(m->context, s.g_new, s.pg_new);
        remember(&s, x);
        memcpy(x, s.x_new, (size_t)m->n * sizeof *x);
        memcpy(s.g, s.g_new, (size_t)m->n * sizeof *s.g);
        memcpy(s.pg, s.pg_new, (size_t)m->n * sizeof *s.pg);
        minimum->steps++;
        minimum->stopped = m->report && m->report(m->context, minimum->steps, minimum->value);
        if (minimum->stopped || before - minimum->value <= 1e-13 * fabs(before)) break;
    }
    free(s.block);
    return status;
}
