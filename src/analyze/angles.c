/*
 * src/analyze/angles.c - the mean angle between features, inside classes and across them.
 */
#include "ole/analyze.h"

#include "base/error.h"

#include <math.h>
#include <stdlib.h>

/* Rows of length 1 into `unit`, those of zeros left out; their labels into `label`. */
static int64_t normalise(int64_t rows, int64_t dim, const float *features, const int32_t *labels,
                         double *unit, int32_t *label) {
    int64_t used = 0;
    for (int64_t i = 0; i < rows; i++) {
        double square = 0.0;
        for (int64_t k = 0; k < dim; k++)
            square += (double)features[i * dim + k] * features[i * dim + k];
        if (!(square > 0.0)) continue;
        for (int64_t k = 0; k < dim; k++)
            unit[used * dim + k] = features[i * dim + k] / sqrt(square);
        label[used++] = labels[i];
    }
    return used;
}

ole_status ole_mean_angles(int64_t rows, int64_t dim, const float *features, const int32_t *labels,
                           double *within, double *between, ole_error *error) {
    if (rows < 0 || dim < 1 || !features || !labels || !within || !between)
        return ole_fail(error, OLE_ERROR_ARGUMENT,
                        "ole_mean_angles: a pointer is NULL, or there are no dimensions");
    double *unit = malloc(((size_t)(rows * dim) + 1) * sizeof *unit);
    int32_t *label = malloc(((size_t)rows + 1) * sizeof *label);
    if (!unit || !label) {
        free(unit);
        free(label);
        return ole_fail(error, OLE_ERROR_MEMORY, "ole_mean_angles: out of memory");
    }
    int64_t used = normalise(rows, dim, features, labels, unit, label);
    double sums[2] = {0.0, 0.0};
    int64_t counts[2] = {0, 0};
    for (int64_t i = 0; i < used; i++)
        for (int64_t j = 0; j < i; j++) {
            double dot = 0.0;
            for (int64_t k = 0; k < dim; k++)
                dot += unit[i * dim + k] * unit[j * dim + k];
            int differ = label[i] != label[j];
            sums[differ] += acos(fmax(-1.0, fmin(1.0, dot))) * (180.0 / acos(-1.0));
            counts[differ]++;
        }
    *within = counts[0] > 0 ? sums[0] / (double)counts[0] : NAN;
    *between = counts[1] > 0 ? sums[1] / (double)counts[1] : NAN;
    free(unit);
    free(label);
    return OLE_OK;
}
