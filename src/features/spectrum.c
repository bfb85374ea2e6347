/* src/features/spectrum.c - numbers that sum up a spectrum of singular values. */
#include "ole/analyze.h"

#include <math.h>

double ole_effective_rank(const double *sigma, int64_t count) {
    double largest = 0.0, sum = 0.0, entropy = 0.0;
    for (int64_t i = 0; i < count; i++)
        largest = fmax(largest, sigma[i]);
    if (!(largest > 0.0)) return 0.0;
    /* Relative to the largest, so that no sum overflows. */
    for (int64_t i = 0; i < count; i++)
        sum += sigma[i] / largest;
    for (int64_t i = 0; i < count; i++) {
        double share = sigma[i] / largest / sum;
        if (share > 0.0) entropy -= share * log(share);
    }
    return exp(entropy);
}
