/* tests/support/cases.c - the matrices of cases.h. */
#include "cases.h"

#include <stdlib.h>
#include <string.h>

const char *case_name(case_structure structure) {
    static const char *const names[CASE_STRUCTURES] = {
        "normal", "relu",   "low rank", "nearly low rank", "duplicates", "zero rows",
        "zero",   "spread", "gap",      "orthogonal"};
    return names[structure];
}

void case_labels(int64_t *labels, int64_t rows, int64_t classes, test_random *random) {
    for (int64_t i = 0; i < rows; i++)
        labels[i] = random ? random_below(random, classes) : i % classes;
}

void case_round(float *to, double *x, int64_t count) {
    for (int64_t i = 0; i < count; i++)
        x[i] = to[i] = (float)x[i];
}

static void fill_normal(double *x, int64_t count, test_random *random) {
    for (int64_t i = 0; i < count; i++)
        x[i] = random_normal(random);
}

/* A class's mean: a fixed function of label and column, so that equal labels share it. */
static double class_mean(int64_t label, int64_t column) {
    test_random r = {(uint64_t)label * 1000003 + (uint64_t)column * 7919 + 17};
    return random_uniform(&r);
}

static void fill_relu(double *x, const int64_t *labels, int64_t rows, int64_t dim,
                      test_random *random) {
    for (int64_t i = 0; i < rows; i++) {
        double gain = 1.0 + random_uniform(random);
        for (int64_t j = 0; j < dim; j++)
            x[i * dim + j] =
                fmax(0.0, class_mean(labels[i], j) * gain + 0.3 * random_normal(random));
    }
}

/* x = a b with inner size `rank`; integers from -3 to 3 where `integers`, else normal. */
static void fill_product(double *x, int64_t rows, int64_t dim, int64_t rank, int integers,
                         test_random *random) {
    double *b = malloc((size_t)(rank * dim) * sizeof *b);
    for (int64_t i = 0; i < rank * dim; i++)
        b[i] = integers ? (double)(random_below(random, 7) - 3) : random_normal(random);
    memset(x, 0, (size_t)(rows * dim) * sizeof *x);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t s = 0; s < rank; s++) {
            double a = integers ? (double)(random_below(random, 7) - 3) : random_normal(random);
            for (int64_t j = 0; j < dim; j++)
                x[i * dim + j] += a * b[s * dim + j];
        }
    free(b);
}

/* Multiplies x[rows, dim] from both sides with a few random reflections: singular values stay. */
static void turn_both_sides(double *x, int64_t rows, int64_t dim, test_random *random) {
    double *v = malloc((size_t)(rows + dim) * sizeof *v);
    for (int turn = 0; turn < 6; turn++) {
        int64_t n = turn % 2 ? dim : rows, other = rows + dim - n;
        int64_t along = turn % 2 ? 1 : dim, across = turn % 2 ? dim : 1;
        double square = 0.0;
        for (int64_t i = 0; i < n; i++) {
            v[i] = random_normal(random);
            square += v[i] * v[i];
        }
        for (int64_t j = 0; j < other; j++) {
            double dot = 0.0;
            for (int64_t i = 0; i < n; i++)
                dot += v[i] * x[i * along + j * across];
            dot *= 2.0 / square;
            for (int64_t i = 0; i < n; i++)
                x[i * along + j * across] -= dot * v[i];
        }
    }
    free(v);
}

static void fill_spectrum(case_structure structure, double *x, int64_t rows, int64_t dim,
                          test_random *random) {
    int64_t k = rows < dim ? rows : dim;
    memset(x, 0, (size_t)(rows * dim) * sizeof *x);
    for (int64_t i = 0; i < k; i++) {
        double share = k > 1 ? (double)i / (double)(k - 1) : 0.0;
        double jitter = 1.0 + 0.2 * random_uniform(random);
        double sigma =
            structure == CASE_SPREAD ? pow(10.0, -12.0 * share) : (share <= 0.5 ? 1.0 : 1e-3);
        x[i * dim + i] = 10.0 * sigma * jitter;
    }
    turn_both_sides(x, rows, dim, random);
}

/* Class c lives on the columns j with j % classes == c % classes, then everything is turned. */
static void fill_orthogonal(double *x, const int64_t *labels, int64_t rows, int64_t dim,
                            test_random *random) {
    int64_t classes = 1;
    for (int64_t i = 0; i < rows; i++)
        if (labels[i] >= classes) classes = labels[i] + 1;
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < dim; j++)
            x[i * dim + j] = j % classes == labels[i] ? 2.0 + random_normal(random) : 0.0;
}

void case_fill(case_structure structure, double *x, const int64_t *labels, int64_t rows,
               int64_t dim, test_random *random) {
    int64_t k = rows < dim ? rows : dim, low = 1 + k / 4;
    switch (structure) {
    case CASE_RELU:
        fill_relu(x, labels, rows, dim, random);
        break;
    case CASE_LOW_RANK:
        fill_product(x, rows, dim, low, 1, random);
        break;
    case CASE_NEARLY_LOW:
        fill_product(x, rows, dim, low, 0, random);
        break;
    case CASE_ZERO:
        memset(x, 0, (size_t)(rows * dim) * sizeof *x);
        break;
    case CASE_SPREAD:
    case CASE_GAP:
        fill_spectrum(structure, x, rows, dim, random);
        break;
    case CASE_ORTHOGONAL:
        fill_orthogonal(x, labels, rows, dim, random);
        break;
    default:
        fill_normal(x, rows * dim, random);
        break;
    }
    for (int64_t i = 1; i < rows; i++) {
        if (structure == CASE_DUPLICATES && i % 2)
            memcpy(x + i * dim, x + (i / 2) * dim, (size_t)dim * sizeof *x);
        if (structure == CASE_ZERO_ROWS && i % 3 == 1)
            memset(x + i * dim, 0, (size_t)dim * sizeof *x);
    }
}
