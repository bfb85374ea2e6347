/*
 * src/tsne/affinity.c - the Gaussians by Newton's method inside a bracket, and P = (A + A^T) /
 * 2n as a merge of two lists a row.
 */
#include "tsne/affinity.h"

#include "base/error.h"

#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_STEPS = 200, ROWS_A_TASK = 256 };

static const double LEAST = 1e-35; /* what is less would be slow in float32, and no force */

static double least_of(const double *away, int64_t count) {
    double least = away[0];
    for (int64_t j = 1; j < count; j++)
        least = fmin(least, away[j]);
    return least;
}

double ole_affinity_sum(const double *away, int64_t count, double beta, double least) {
    double sum = 0.0;
    for (int64_t j = 0; j < count; j++)
        sum += exp(-beta * (away[j] - least));
    return sum;
}

/* The entropy at beta, and its derivative: -beta times the variance of the distances. */
static double entropy(const double *away, int64_t count, double beta, double least, double *slope) {
    double sum = 0.0, first = 0.0, second = 0.0;
    for (int64_t j = 0; j < count; j++) {
        double d = away[j] - least, e = exp(-beta * d);
        sum += e;
        first += e * d;
        second += e * d * d;
    }
    double mean = first / sum;
    *slope = -beta * fmax(0.0, second / sum - mean * mean);
    return log(sum) + beta * mean;
}

double ole_affinity_beta(const double *away, int64_t count, double perplexity, double guess) {
    double wanted = log(perplexity), least = least_of(away, count);
    double mean = 0.0;
    for (int64_t j = 0; j < count; j++)
        mean += (away[j] - least) / (double)count;
    if (!(mean > 0.0)) return 0.0; /* all at the same distance */
    double beta = guess > 0.0 ? guess : 1.0 / mean, low = 0.0, high = INFINITY;
    for (int step = 0; step < MOST_STEPS; step++) {
        double slope, excess = entropy(away, count, beta, least, &slope) - wanted;
        if (fabs(excess) < 1e-9) break;
        if (excess > 0.0)
            low = beta;
        else
            high = beta;
        double next = slope < 0.0 ? beta - excess / slope : INFINITY;
        /* Far from the solution: twice as far, or the middle of what is left. */
        if (next > 2.0 * beta && high == INFINITY) next = 2.0 * beta;
        if (!(next > low && next < high)) next = high == INFINITY ? 2.0 * beta : 0.5 * (low + high);
        if (next == beta || !isfinite(next)) break;
        beta = next;
    }
    return beta;
}

/* ---- The conditional ones ----------------------------------------------------------------- */

typedef struct job {
    int64_t rows;
    int count;
    const int32_t *near;
    const double *away;
    double perplexity;
    int32_t *column; /* [rows, count]: near, rising */
    float *p;        /* [rows, count]: p(j|i) / 2n in that order */
    int64_t *from;   /* [rows + 1]: the transpose, rows of the columns */
    int32_t *other;
    float *other_p;
    ole_affinity *out;
} job;

typedef struct entry {
    int32_t column;
    float p;
} entry;

static int by_column(const void *x, const void *y) {
    int32_t a = ((const entry *)x)->column, b = ((const entry *)y)->column;
    return (a > b) - (a < b);
}

static void condition_row(const job *b, int64_t row, entry *line) {
    const double *away = b->away + row * b->count;
    const int32_t *near = b->near + row * b->count;
    double beta = ole_affinity_beta(away, b->count, b->perplexity, 0.0);
    double sum = ole_affinity_sum(away, b->count, beta, away[0]);
    double factor = 0.5 / ((double)b->rows * sum);
    for (int k = 0; k < b->count; k++) {
        double p = factor * exp(-beta * (away[k] - away[0]));
        line[k] = (entry){near[k], p > LEAST ? (float)p : 0.0f};
    }
    qsort(line, (size_t)b->count, sizeof *line, by_column);
    for (int k = 0; k < b->count; k++) {
        b->column[row * b->count + k] = line[k].column;
        b->p[row * b->count + k] = line[k].p;
    }
}

/* `lines` of a worker: room for the entries of a row. */
typedef struct condition_job {
    const job *b;
    entry *lines;
} condition_job;

static void condition_rows(void *context, int64_t task, int worker) {
    const condition_job *c = context;
    int64_t end = (task + 1) * ROWS_A_TASK;
    if (end > c->b->rows) end = c->b->rows;
    for (int64_t row = task * ROWS_A_TASK; row < end; row++)
        condition_row(c->b, row, c->lines + (int64_t)worker * c->b->count);
}

/* ---- Symmetry ----------------------------------------------------------------------------- */

/* Filled by rising row, so each list of the transpose is rising too. */
static void transpose(const job *b) {
    memset(b->from, 0, (size_t)(b->rows + 1) * sizeof *b->from);
    int64_t entries = b->rows * b->count;
    for (int64_t e = 0; e < entries; e++)
        b->from[b->column[e] + 1]++;
    for (int64_t i = 0; i < b->rows; i++)
        b->from[i + 1] += b->from[i];
    for (int64_t e = 0; e < entries; e++) {
        int64_t to = b->from[b->column[e]]++;
        b->other[to] = (int32_t)(e / b->count);
        b->other_p[to] = b->p[e];
    }
    for (int64_t i = b->rows; i > 0; i--)
        b->from[i] = b->from[i - 1];
    b->from[0] = 0;
}

/* Row i of A + A^T; only counts where `column` is NULL. */
static int64_t merge_row(const job *b, int64_t row, int32_t *column, float *p) {
    int64_t x = row * b->count, x_end = x + b->count, y = b->from[row], y_end = b->from[row + 1];
    int64_t n = 0;
    for (; x < x_end || y < y_end; n++) {
        int32_t here = x < x_end ? b->column[x] : INT32_MAX;
        int32_t there = y < y_end ? b->other[y] : INT32_MAX;
        int32_t next = here < there ? here : there;
        float sum = (here == next ? b->p[x] : 0.0f) + (there == next ? b->other_p[y] : 0.0f);
        x += here == next;
        y += there == next;
        if (!column) continue;
        column[n] = next;
        p[n] = sum;
    }
    return n;
}

/* Counts the entries of rows, or fills them once there is room. */
static void merge_rows(void *context, int64_t task, int worker) {
    (void)worker;
    const job *b = context;
    int64_t end = (task + 1) * ROWS_A_TASK;
    if (end > b->rows) end = b->rows;
    for (int64_t i = task * ROWS_A_TASK; i < end; i++)
        if (b->out->column)
            merge_row(b, i, b->out->column + b->out->start[i], b->out->p + b->out->start[i]);
        else
            b->out->start[i + 1] = merge_row(b, i, NULL, NULL);
}

static bool fill(job *b, ole_pool *pool, int threads) {
    int64_t tasks = (b->rows + ROWS_A_TASK - 1) / ROWS_A_TASK;
    condition_job condition = {b, malloc((size_t)(threads * b->count) * sizeof(entry))};
    if (!condition.lines) return false;
    ole_pool_run(pool, tasks, condition_rows, &condition);
    free(condition.lines);
    transpose(b);
    ole_pool_run(pool, tasks, merge_rows, b);
    ole_affinity *a = b->out;
    a->start[0] = 0;
    for (int64_t i = 0; i < b->rows; i++)
        a->start[i + 1] += a->start[i];
    a->column = malloc((size_t)a->start[b->rows] * sizeof *a->column);
    a->p = malloc((size_t)a->start[b->rows] * sizeof *a->p);
    if (!a->column || !a->p) return false;
    ole_pool_run(pool, tasks, merge_rows, b);
    return true;
}

ole_status ole_affinity_make(ole_affinity *a, ole_pool *pool, int threads, int64_t rows, int count,
                             const int32_t *near, const double *away, double perplexity,
                             ole_error *error) {
    size_t entries = (size_t)(rows * count);
    *a = (ole_affinity){.rows = rows, .start = malloc((size_t)(rows + 1) * sizeof *a->start)};
    job b = {.rows = rows,
             .count = count,
             .near = near,
             .away = away,
             .perplexity = perplexity,
             .column = malloc(entries * sizeof *b.column),
             .p = malloc(entries * sizeof *b.p),
             .from = malloc((size_t)(rows + 1) * sizeof *b.from),
             .other = malloc(entries * sizeof *b.other),
             .other_p = malloc(entries * sizeof *b.other_p),
             .out = a};
    bool good = a->start && b.column && b.p && b.from && b.other && b.other_p;
    if (good) good = fill(&b, pool, threads);
    free(b.column);
    free(b.p);
    free(b.from);
    free(b.other);
    free(b.other_p);
    if (good) return OLE_OK;
    return ole_fail(error, OLE_ERROR_MEMORY, "out of memory for %d neighbours of %" PRId64 " rows",
                    count, rows);
}

void ole_affinity_release(ole_affinity *a) {
    free(a->start);
    free(a->column);
    free(a->p);
    *a = (ole_affinity){0};
}
