/*
 * tests/support/cases.h - feature matrices of every structure that matters to the loss, for the
 * tests, the fuzz targets and the benchmark.
 */
#ifndef OLE_TESTS_CASES_H
#define OLE_TESTS_CASES_H

#include "random.h"

#include <stdint.h>

typedef enum case_structure {
    CASE_NORMAL,     /* independent normal entries: full rank, well conditioned unless square */
    CASE_RELU,       /* what a net gives in mid-training: class means, noise, cut at zero */
    CASE_LOW_RANK,   /* exactly low rank in exact arithmetic: small integers times small integers */
    CASE_NEARLY_LOW, /* low rank, then rounded: what OLÉ leaves behind */
    CASE_DUPLICATES, /* rows repeated, some with other labels */
    CASE_ZERO_ROWS,  /* a third of the rows is zero */
    CASE_ZERO,       /* nothing but zeros */
    CASE_SPREAD,     /* σ from 1 to 1e-12, evenly in the logarithm */
    CASE_GAP,        /* σ in two clusters, around 1 and around 1e-3 */
    CASE_ORTHOGONAL, /* classes in orthogonal subspaces: the loss is zero */
    CASE_STRUCTURES
} case_structure;

const char *case_name(case_structure structure);

/* Fills x[rows, dim] for the labels given (negative ones included). */
void case_fill(case_structure structure, double *x, const int64_t *labels, int64_t rows,
               int64_t dim, test_random *random);

/* y[i] = i % classes, or a random class each. */
void case_labels(int64_t *labels, int64_t rows, int64_t classes, test_random *random_or_null);

/* x rounded to float32, both as float (to[count]) and back in x. */
void case_round(float *to, double *x, int64_t count);

#endif
