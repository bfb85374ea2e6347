/*
 * src/model/calibration.c - temperature scaling and calibration errors.
 *
 * With β = 1/T the negative log-likelihood, sum of log sum exp(β z) - β z_y, is convex in β: its
 * derivative, the mean logit under the softmax less the logit of the right class, rises.  So the
 * minimum is where the derivative crosses zero, and bisection on log β finds it to the last bits.
 *
 * Without a mistake among n samples it never crosses zero: the colder, the likelier.  Then the
 * scores are made to say what n samples without a mistake say by Laplace's rule of succession: the
 * mean of the largest scores becomes (n + 1) / (n + 2).  It rises with β too.
 */
#include "model/calibration.h"

#include "model/confidence.h"
#include "model/network.h"

#include <math.h>

static const double coldest = 1e-4, hottest = 1e4; /* nothing changes beyond these */

/* d/dβ of the negative log-likelihood, summed over the samples. */
static double slope(const ole_logits *d, double beta) {
    double sum = 0.0;
    for (int64_t i = 0; i < d->count; i++) {
        const float *z = d->logits + i * d->classes;
        double largest = z[ole_largest(z, d->classes)], total = 0.0, mean = 0.0;
        for (int c = 0; c < d->classes; c++) {
            double weight = exp(beta * (z[c] - largest));
            total += weight;
            mean += weight * (z[c] - largest);
        }
        sum += mean / total - (z[d->labels[i]] - largest);
    }
    return sum;
}

/* The mean of the largest softmax scores, less what Laplace's rule expects. */
static double surplus(const ole_logits *d, double beta) {
    double sum = 0.0, n = (double)d->count;
    for (int64_t i = 0; i < d->count; i++)
        sum += ole_largest_softmax(d->logits + i * d->classes, d->classes, 1.0 / beta);
    return sum / n - (n + 1.0) / (n + 2.0);
}

static bool all_right(const ole_logits *d) {
    for (int64_t i = 0; i < d->count; i++)
        if (ole_largest(d->logits + i * d->classes, d->classes) != d->labels[i]) return false;
    return true;
}

/* Finds T at the zero of a rising function of β; false if it has none. */
static bool find_zero(double (*rising)(const ole_logits *, double), const ole_logits *data,
                      double *temperature) {
    double low = log(1.0 / hottest), high = log(1.0 / coldest); /* of β */
    if (!(rising(data, exp(low)) < 0.0) || !(rising(data, exp(high)) > 0.0)) return false;
    for (int step = 0; step < 64; step++) {
        double middle = 0.5 * (low + high);
        if (rising(data, exp(middle)) < 0.0)
            low = middle;
        else
            high = middle;
    }
    *temperature = exp(-0.5 * (low + high));
    return true;
}

bool ole_temperature_fit(const ole_logits *data, double *temperature) {
    *temperature = 1.0;
    return find_zero(all_right(data) ? surplus : slope, data, temperature);
}

double ole_temperature_nll(const ole_logits *d, double temperature) {
    double sum = 0.0;
    for (int64_t i = 0; i < d->count; i++) {
        const float *z = d->logits + i * d->classes;
        sum += ole_log_sum_exp(z, d->classes, temperature) - z[d->labels[i]] / temperature;
    }
    return d->count > 0 ? sum / (double)d->count : NAN;
}

void ole_calibration_measure(ole_calibration *calibration, const ole_logits *data,
                             double temperature) {
    *calibration = (ole_calibration){.temperature = temperature};
    double *sum_score = calibration->score, *sum_right = calibration->accuracy;
    for (int64_t i = 0; i < data->count; i++) {
        const float *z = data->logits + i * data->classes;
        int best = ole_largest(z, data->classes);
        double score = ole_largest_softmax(z, data->classes, temperature);
        int bin = (int)ceil(score * OLE_CALIBRATION_BINS) - 1; /* (b, b + 1] / bins */
        bin = bin < 0 ? 0 : bin >= OLE_CALIBRATION_BINS ? OLE_CALIBRATION_BINS - 1 : bin;
        calibration->count[bin]++;
        sum_score[bin] += score;
        sum_right[bin] += best == data->labels[i];
    }
    double distance = 0.0;
    for (int b = 0; b < OLE_CALIBRATION_BINS; b++) {
        distance += fabs(sum_right[b] - sum_score[b]);
        double count = (double)calibration->count[b];
        calibration->score[b] = count > 0 ? sum_score[b] / count : NAN;
        calibration->accuracy[b] = count > 0 ? sum_right[b] / count : NAN;
    }
    calibration->ece = data->count > 0 ? distance / (double)data->count : NAN;
    calibration->nll = ole_temperature_nll(data, temperature);
}
