/*
 * bench/bench_loss.c - times the loss and its gradient beside the authors' algorithm, in one run:
 *
 *     ./dev bench loss [--json]
 *
 * The authors' release takes LAPACK's sgesvd (float32) of each class and of all rows, and U V^T
 * over the σ >= 1e-6.  Here it runs under the best conditions: on a threaded OpenBLAS if one is
 * found (OLE_BENCH_BLAS, or Debian's libopenblas0-pthread), with kernels for this CPU (OpenBLAS
 * 0.3.21 does not know newer Intel models and falls back to its oldest code), and with its work
 * space allocated once.
 *
 * Each time comes with the error of value and gradient against LAPACK in double, in the units of
 * the promise (value / sum_c ‖X_c‖_*, gradient / sqrt(N)), and with the floor: the FLOP of the
 * method at the rate of our own matrix product, and the gap to it.
 */
#include "authors.h"
#include "base/clock.h"
#include "base/sort.h"
#include "cases.h"
#include "formats/json.h"
#include "linalg/kernels.h"
#include "linalg/panels.h"
#include "ole/loss.h"
#include "reference.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const int64_t rows_of_table[][3] = {
    {26, 1024, 500}, {32, 256, 10},  {64, 256, 10},   {64, 512, 10},    {64, 512, 100},
    {128, 512, 10},  {256, 512, 10}, {512, 512, 100}, {1024, 512, 100}, {4096, 512, 1000},
};

typedef void timed_call(void *context);

enum { ROUNDS = 15 };

static double median(double *values, int n) {
    qsort(values, (size_t)n, sizeof *values, ole_by_rising_double);
    return values[n / 2];
}

/* Seconds of a call, the median of enough calls in a row to fill 10 ms. */
static double time_call(timed_call *call, void *context) {
    enum { MOST = 200 };
    double times[MOST], start = ole_clock();
    int n = 0;
    while (n < MOST && (n < 1 || ole_clock() - start < 0.01)) {
        double t = ole_clock();
        call(context);
        times[n++] = ole_clock() - t;
    }
    return median(times, n);
}

/* Both ways in turn, so that a change of the machine's pace meets both alike. */
typedef struct duel {
    double ours, theirs; /* median seconds */
    double ratio;        /* median of the rounds' ratios */
} duel;

static duel run_duel(timed_call *ours, timed_call *theirs, void *context) {
    double a[ROUNDS], b[ROUNDS], ratio[ROUNDS], start = ole_clock();
    int n = 0;
    ours(context);
    theirs(context);
    while (n < ROUNDS && (n < 5 || ole_clock() - start < 4.0)) {
        a[n] = time_call(ours, context);
        b[n] = time_call(theirs, context);
        ratio[n] = b[n] / a[n];
        n++;
    }
    return (duel){median(a, n), median(b, n), median(ratio, n)};
}

/* ---- the two ways ------------------------------------------------------------------------- */

typedef struct problem {
    int64_t n, d, c;
    double *wide; /* features as double, for the reference */
    float *x;
    float *gradient;
    int64_t *labels;
    ole_loss_plan *plan;
    authors *peer;
    double value;
} problem;

static void run_ours(void *context) {
    problem *p = context;
    ole_loss_batch batch = {
        .rows = p->n, .features = p->x, .labels = p->labels, .label_type = OLE_I64};
    ole_loss_gradient gradient = {.data = p->gradient, .upstream = 1.0};
    ole_loss_result result = {0};
    if (ole_loss_eval(p->plan, &batch, &gradient, &result, NULL) != OLE_OK) abort();
    p->value = result.value;
}

static void run_authors(void *context) {
    problem *p = context;
    p->value = authors_evaluate(p->peer, p->x, p->labels, p->n, p->d, p->gradient);
}

typedef struct errors {
    double value, gradient;
} errors;

static errors errors_of(const problem *p, const reference_loss *want) {
    double n = (double)p->n, square = 0.0;
    for (int64_t i = 0; i < p->n * p->d; i++) {
        double e = p->gradient[i] * n - want->gradient[i];
        square += e * e;
    }
    double value = fabs(p->value * n - (want->class_term - want->global_norm));
    return (errors){value / want->sum_of_norms, sqrt(square / n)};
}

/* ---- the floor ---------------------------------------------------------------------------- */

/* FLOP of one block of r rows: Gram, eigenproblem, inverse root, and root times rows. */
static double block_flop(double r, double d) {
    double m = r < d ? r : d, k = r < d ? d : r;
    if (r == 1.0) return 4.0 * d;
    return m * m * k + 14.0 / 3.0 * m * m * m + m * m * m + 2.0 * m * m * k;
}

static double floor_flop(int64_t n, int64_t d, int64_t c) {
    double flop = block_flop((double)n, (double)d);
    for (int64_t k = 0; k < c && k < n; k++)
        flop += block_flop((double)((n - k + c - 1) / c), (double)d);
    return flop;
}

typedef struct product_run {
    ole_panels a;
    double *c;
    int64_t n;
} product_run;

static void run_product(void *context) {
    product_run *p = context;
    ole_product out = {.alpha = 1.0, .c = p->c, .ldc = p->n};
    ole_panels_multiply(NULL, &p->a, &p->a, &out);
}

/* FLOP per second of a 960 x 960 x 960 product in float64 on one core. */
static double measure_product_rate(void) {
    product_run p = {.n = 960};
    size_t bytes = (size_t)(p.n * p.n) * sizeof(double);
    double *a = aligned_alloc(64, bytes), *packed = aligned_alloc(64, bytes);
    p.c = aligned_alloc(64, bytes);
    test_random random = {1};
    for (int64_t i = 0; i < p.n * p.n; i++)
        a[i] = random_normal(&random);
    ole_operand source = {a, OLE_F64, p.n, p.n, p.n, 1, false};
    p.a = ole_panels_pack(NULL, packed, &source);
    double rate = 2.0 * (double)(p.n * p.n * p.n) / time_call(run_product, &p);
    free(a);
    free(packed);
    free(p.c);
    return rate;
}

/* ---- the table ---------------------------------------------------------------------------- */

typedef struct line {
    int threads;
    double ours, theirs, ratio, floor;
    errors our_error, their_error;
} line;

static line measure(problem *p, int threads, double rate, const reference_loss *want) {
    line l = {.threads = threads};
    ole_loss_options options;
    ole_loss_options_init(&options);
    options.threads = threads;
    if (ole_loss_plan_create(&p->plan, p->n, p->d, OLE_F32, &options, NULL) != OLE_OK) abort();
    authors_set_threads(p->peer, threads);
    duel d = run_duel(run_ours, run_authors, p);
    l.ours = d.ours;
    l.theirs = d.theirs;
    l.ratio = d.ratio;
    run_ours(p);
    l.our_error = errors_of(p, want);
    run_authors(p);
    l.their_error = errors_of(p, want);
    l.floor = floor_flop(p->n, p->d, p->c) / (rate * threads);
    ole_loss_plan_destroy(p->plan);
    return l;
}

static problem make_problem(const int64_t shape[3], authors *peer) {
    problem p = {.n = shape[0], .d = shape[1], .c = shape[2], .peer = peer};
    size_t count = (size_t)(p.n * p.d);
    p.wide = malloc(count * sizeof *p.wide);
    p.x = malloc(count * sizeof *p.x);
    p.gradient = malloc(count * sizeof *p.gradient);
    p.labels = malloc((size_t)p.n * sizeof *p.labels);
    test_random random = {7};
    case_labels(p.labels, p.n, p.c, NULL);
    case_fill(CASE_RELU, p.wide, p.labels, p.n, p.d, &random);
    case_round(p.x, p.wide, (int64_t)count);
    return p;
}

static void print_line(const problem *p, const line *l, ole_json *json) {
    if (!json) {
        printf("%4" PRId64 " %5" PRId64 " %5" PRId64
               " %3d %10.3f %10.3f %6.1fx %9.3f %5.1f  %7.1e %7.1e  %7.1e %7.1e\n",
               p->n, p->d, p->c, l->threads, l->ours * 1e3, l->theirs * 1e3, l->ratio,
               l->floor * 1e3, l->ours / l->floor, l->our_error.value, l->our_error.gradient,
               l->their_error.value, l->their_error.gradient);
        fflush(stdout);
        return;
    }
    ole_json_open(json, NULL, '{');
    ole_json_integer(json, "n", p->n);
    ole_json_integer(json, "d", p->d);
    ole_json_integer(json, "classes", p->c);
    ole_json_integer(json, "threads", l->threads);
    ole_json_number(json, "ms", l->ours * 1e3);
    ole_json_number(json, "authors_ms", l->theirs * 1e3);
    ole_json_number(json, "ratio", l->ratio);
    ole_json_number(json, "floor_ms", l->floor * 1e3);
    ole_json_number(json, "value_error", l->our_error.value);
    ole_json_number(json, "gradient_error", l->our_error.gradient);
    ole_json_number(json, "authors_value_error", l->their_error.value);
    ole_json_number(json, "authors_gradient_error", l->their_error.gradient);
    ole_json_close(json);
}

static void run_table(authors *peer, double rate, ole_json *json) {
    for (size_t i = 0; i < sizeof rows_of_table / sizeof *rows_of_table; i++) {
        problem p = make_problem(rows_of_table[i], peer);
        ole_loss_options options;
        ole_loss_options_init(&options);
        reference_loss want = reference_evaluate(p.wide, p.labels, p.n, p.d, &options, true);
        for (int threads = 1; threads <= 2; threads++) {
            line l = measure(&p, threads, rate, &want);
            print_line(&p, &l, json);
        }
        free(want.gradient);
        free(p.wide);
        free(p.x);
        free(p.gradient);
        free(p.labels);
    }
}

int main(int argc, char **argv) {
    bool as_json = argc > 1 && strcmp(argv[1], "--json") == 0;
    if (argc > 1 && !as_json) {
        fprintf(stderr, "usage: bench_loss [--json]\n");
        return 2;
    }
    authors *peer = authors_open();
    double rate = measure_product_rate();
    if (as_json) {
        ole_json json;
        ole_json_init(&json, stdout, 2);
        ole_json_open(&json, NULL, '[');
        run_table(peer, rate, &json);
        ole_json_close(&json);
        authors_close(peer);
        return ole_json_good(&json) ? 0 : 1;
    }
    printf("kernels %s, %.1f GFLOP/s a core in our float64 product; authors' way on %s\n\n",
           ole_kernels_name(), rate * 1e-9, authors_library(peer));
    printf("                           ours    authors'                            ours           "
           " authors'\n");
    printf("   N     D     C thr        ms         ms  ratio     floor   gap    value    grad    "
           "value    grad\n");
    run_table(peer, rate, NULL);
    authors_close(peer);
    return 0;
}
