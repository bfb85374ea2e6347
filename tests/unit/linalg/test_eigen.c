/*
 * tests/unit/linalg/test_eigen.c - the symmetric eigensolver: A q = λ q and orthogonal q to a small
 * multiple of n eps, for every size around its tiles and leaves and for the structures that make
 * divide and conquer deflate, or not deflate, or underflow.
 */
#include "base/arena.h"
#include "cases.h"
#include "linalg/eigen.h"
#include "test.h"

#include <float.h>
#include <stdlib.h>
#include <string.h>

/* A symmetric matrix [n, n], its decomposition, and the memory of the solver. */
typedef struct problem {
    int64_t n, ld;
    double *given; /* [n, n] */
    double *a, *work, *panels, *scratch;
    double *values;
} problem;

static double *room(int64_t count) {
    size_t bytes = ((size_t)count * sizeof(double) + 63) / 64 * 64;
    double *p = ole_arena_allocate(bytes);
    if (!p) abort();
    memset(p, 0xff, bytes); /* NaN: nothing may depend on what was there */
    return p;
}

static problem make(int64_t n) {
    int64_t ld = ole_eigen_pad(n);
    problem p = {.n = n, .ld = ld};
    p.given = room(n * n);
    memset(p.given, 0, (size_t)(n * n) * sizeof *p.given);
    p.a = room(ld * ld);
    p.work = room(ld * ld);
    p.panels = room(ole_eigen_panels(n));
    p.scratch = room(ole_eigen_scratch(n));
    p.values = room(n);
    return p;
}

static void end(problem *p) {
    free(p->given);
    free(p->a);
    free(p->work);
    free(p->panels);
    free(p->scratch);
    free(p->values);
}

static void set(problem *p, int64_t i, int64_t j, double value) {
    p->given[i * p->n + j] = p->given[j * p->n + i] = value;
}

/* ---- checking ------------------------------------------------------------------------------- */

static double largest_element(const problem *p) {
    double largest = 0.0;
    for (int64_t i = 0; i < p->n * p->n; i++)
        largest = fmax(largest, fabs(p->given[i]));
    return largest;
}

static double dot(const double *x, const double *y, int64_t n) {
    double sum = 0.0;
    for (int64_t i = 0; i < n; i++)
        sum += x[i] * y[i];
    return sum;
}

/* max |q_i q_j - δ_ij|, rows of a. */
static double orthogonality(const problem *p) {
    double worst = 0.0;
    for (int64_t i = 0; i < p->n; i++)
        for (int64_t j = 0; j <= i; j++) {
            double d = dot(p->a + i * p->ld, p->a + j * p->ld, p->n) - (i == j);
            worst = isfinite(d) ? fmax(worst, fabs(d)) : HUGE_VAL;
        }
    return worst;
}

/* max ‖A q - λ q‖_2 over the eigenpairs, in units of the largest element. */
static double residual(const problem *p) {
    double worst = 0.0, scale = largest_element(p);
    if (scale == 0.0) scale = 1.0;
    for (int64_t i = 0; i < p->n; i++) {
        const double *q = p->a + i * p->ld;
        double square = 0.0;
        for (int64_t j = 0; j < p->n; j++) {
            double r = dot(p->given + j * p->n, q, p->n) / scale - p->values[i] / scale * q[j];
            square += r * r;
        }
        worst = isfinite(square) ? fmax(worst, sqrt(square)) : HUGE_VAL;
    }
    return worst;
}

static double trace_error(const problem *p) {
    double sum = 0.0, scale = largest_element(p);
    for (int64_t i = 0; i < p->n; i++)
        sum += p->values[i] - p->given[i * p->n + i];
    return scale == 0.0 ? fabs(sum) : fabs(sum) / scale;
}

/* Solves from the lower triangle alone and holds the result to c n eps. */
static void solve_and_check(problem *p, const char *name) {
    for (int64_t i = 0; i < p->n; i++)
        memcpy(p->a + i * p->ld, p->given + i * p->n, (size_t)(i + 1) * sizeof *p->a);
    if (!ole_eigen(NULL, p->a, p->n, p->values, p->work, p->panels, p->scratch))
        fail_msg("%s, n = %d: no convergence", name, (int)p->n);
    double n = (double)p->n, bound = (8.0 + n) * DBL_EPSILON;
    double r = residual(p), o = orthogonality(p), t = trace_error(p);
    if (!(r <= 2.0 * bound && o <= 2.0 * bound && t <= n * bound))
        fail_msg("%s, n = %d: residual %g, orthogonality %g, trace %g, in units of n eps %g", name,
                 (int)p->n, r / bound, o / bound, t / bound, bound);
}

/* ---- structures ----------------------------------------------------------------------------- */

static void fill_random(problem *p, test_random *random) {
    for (int64_t i = 0; i < p->n; i++)
        for (int64_t j = 0; j <= i; j++)
            set(p, i, j, random_normal(random));
}

static void fill_zero(problem *p, test_random *random) {
    (void)random;
    (void)p;
}

static void fill_identity(problem *p, test_random *random) {
    (void)random;
    for (int64_t i = 0; i < p->n; i++)
        set(p, i, i, 1.0);
}

static void fill_diagonal(problem *p, test_random *random) {
    for (int64_t i = 0; i < p->n; i++)
        set(p, i, i, random_normal(random));
}

static void fill_rank_one(problem *p, test_random *random) {
    double *v = calloc((size_t)p->n, sizeof *v);
    for (int64_t i = 0; i < p->n; i++)
        v[i] = random_normal(random);
    for (int64_t i = 0; i < p->n; i++)
        for (int64_t j = 0; j <= i; j++)
            set(p, i, j, v[i] * v[j]);
    free(v);
}

/* Eigenvalues 1 and 2, each many times, and 1 + tiny: turned by reflections. */
static void fill_clustered(problem *p, test_random *random) {
    double *v = calloc((size_t)p->n, sizeof *v);
    for (int64_t i = 0; i < p->n; i++)
        p->given[i * p->n + i] = i % 3 ? 1.0 + 1e-13 * (double)(i % 7) : 2.0;
    for (int turn = 0; turn < 3; turn++) {
        for (int64_t i = 0; i < p->n; i++)
            v[i] = random_normal(random);
        double square = dot(v, v, p->n);
        for (int side = 0; side < 2; side++)
            for (int64_t i = 0; i < p->n; i++) {
                double *x = p->given + i * (side ? 1 : p->n), sum = 0.0;
                int64_t step = side ? p->n : 1;
                for (int64_t j = 0; j < p->n; j++)
                    sum += v[j] * x[j * step];
                for (int64_t j = 0; j < p->n; j++)
                    x[j * step] -= 2.0 * sum / square * v[j];
            }
    }
    for (int64_t i = 0; i < p->n; i++)
        for (int64_t j = 0; j < i; j++)
            set(p, i, j, p->given[i * p->n + j]);
    free(v);
}

/* Blocks of Wilkinson's W21+ joined by tiny elements: pairs of eigenvalues equal to all digits. */
static void fill_wilkinson(problem *p, test_random *random) {
    (void)random;
    for (int64_t i = 0; i < p->n; i++) {
        set(p, i, i, fabs((double)(i % 21) - 10.0));
        if (i + 1 < p->n) set(p, i, i + 1, i % 21 == 20 ? 1e-9 : 1.0);
    }
}

/* Elements from 1 down to 1e-200, as Gram matrices of rows of very different lengths. */
static void grade(problem *p, test_random *random, bool upwards) {
    for (int64_t i = 0; i < p->n; i++)
        for (int64_t j = 0; j <= i; j++) {
            int64_t from_top = upwards ? 2 * p->n - 2 - i - j : i + j;
            double down = -100.0 * (double)from_top / (double)p->n;
            set(p, i, j, random_normal(random) * pow(10.0, down));
        }
}

static void fill_graded(problem *p, test_random *random) {
    grade(p, random, false);
}

static void fill_graded_upwards(problem *p, test_random *random) {
    grade(p, random, true);
}

/* One element of 1, all others so small that their squares lose digits or vanish. */
static void fill_tiny_block(problem *p, test_random *random) {
    static const double sizes[] = {1e-140, 1e-155, 1e-160, 3e-162, 1e-170, 1e-300};
    double size = sizes[random_below(random, 6)];
    fill_random(p, random);
    for (int64_t i = 0; i < p->n * p->n; i++)
        p->given[i] *= size;
    for (int64_t j = 0; j < p->n; j++)
        set(p, 0, j, j ? 0.0 : 1.0);
}

static void fill_tridiagonal_with_gaps(problem *p, test_random *random) {
    for (int64_t i = 0; i < p->n; i++) {
        set(p, i, i, random_normal(random));
        if (i + 1 < p->n) set(p, i, i + 1, i % 5 == 2 ? 0.0 : random_normal(random));
    }
}

static void fill_blocks(problem *p, test_random *random) {
    for (int64_t i = 0; i < p->n; i++)
        for (int64_t j = i / 6 * 6; j <= i; j++)
            set(p, i, j, random_normal(random));
}

/* A Gram matrix of few rows: most eigenvalues are zero but for rounding. */
static void fill_low_rank(problem *p, test_random *random) {
    int64_t k = 1 + p->n / 5;
    double *x = calloc((size_t)(p->n * k), sizeof *x);
    for (int64_t i = 0; i < p->n * k; i++)
        x[i] = random_normal(random);
    for (int64_t i = 0; i < p->n; i++)
        for (int64_t j = 0; j <= i; j++)
            set(p, i, j, dot(x + i * k, x + j * k, k));
    free(x);
}

static const struct structure {
    const char *name;
    void (*fill)(problem *, test_random *);
} structures[] = {
    {"random", fill_random},
    {"zero", fill_zero},
    {"identity", fill_identity},
    {"diagonal", fill_diagonal},
    {"rank one", fill_rank_one},
    {"clustered", fill_clustered},
    {"Wilkinson", fill_wilkinson},
    {"graded", fill_graded},
    {"graded upwards", fill_graded_upwards},
    {"tiny block", fill_tiny_block},
    {"tridiagonal with gaps", fill_tridiagonal_with_gaps},
    {"blocks", fill_blocks},
    {"low rank", fill_low_rank},
};
enum { STRUCTURES = sizeof structures / sizeof *structures };

static void check_size(int64_t n) {
    for (int s = 0; s < STRUCTURES; s++) {
        test_random random = {(uint64_t)(1000 * n + s)};
        problem p = make(n);
        structures[s].fill(&p, &random);
        solve_and_check(&p, structures[s].name);
        end(&p);
    }
}

static void small_sizes(void **state) {
    (void)state;
    for (int64_t n = 1; n <= 70; n++)
        check_size(n);
}

static void larger_sizes(void **state) {
    (void)state;
    static const int64_t sizes[] = {100, 128, 129, 200, 257};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        check_size(sizes[i]);
}

static void size_512(void **state) {
    (void)state;
    static const int picks[] = {0, 5, 6, 9};
    for (size_t i = 0; i < sizeof picks / sizeof *picks; i++) {
        test_random random = {(uint64_t)picks[i]};
        problem p = make(512);
        structures[picks[i]].fill(&p, &random);
        solve_and_check(&p, structures[picks[i]].name);
        end(&p);
    }
}

/* The same matrix times 1e±200 and 1e±300: the eigenvalues scale along. */
static void scaled(void **state) {
    (void)state;
    static const double scales[] = {1e-300, 1e-200, 1e200, 1e300};
    for (size_t i = 0; i < sizeof scales / sizeof *scales; i++)
        for (int64_t n = 3; n <= 90; n += 29) {
            test_random random = {(uint64_t)n};
            problem p = make(n);
            fill_random(&p, &random);
            for (int64_t k = 0; k < n * n; k++)
                p.given[k] *= scales[i];
            solve_and_check(&p, "scaled");
            end(&p);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_sizes),
        cmocka_unit_test(larger_sizes),
        cmocka_unit_test(size_512),
        cmocka_unit_test(scaled),
    };
    return cmocka_run_group_tests_name("eigen", tests, NULL, NULL);
}
