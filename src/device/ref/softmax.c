/*
 * src/device/ref/softmax.c - softmax cross-entropy: the mean over a batch of log(sum over j of
 * exp(z[j])) - z[label], its gradient, the scores and the number of correct rows.  With smoothing,
 * z[label] becomes (1 - smoothing) z[label] + smoothing mean(z), as in PyTorch; with a mix,
 * z[label] in it becomes share z[label] + (1 - share) z[the other label].
 */
#include "device/ref/ref.h"

#include <math.h>

static int64_t largest(const real *z, int64_t classes) {
    int64_t best = 0;
    for (int64_t j = 1; j < classes; j++)
        if (z[j] > z[best]) best = j;
    return best;
}

void REF(softmax_loss)(ole_device_context *context, int64_t n, int64_t classes, const void *logits,
                       const int32_t *labels, const ole_mix *mix, double smoothing, double scale,
                       void *dlogits, float *scores, double *loss, int64_t *correct) {
    (void)context;
    double total = 0, spread = smoothing / (double)classes, share = mix ? *mix->share : 1;
    *correct = 0;
    for (int64_t i = 0; i < n; i++) {
        const real *z = (const real *)logits + i * classes;
        int64_t best = largest(z, classes), other = mix ? mix->labels[i] : labels[i];
        double sum = 0, others = 0;
        for (int64_t j = 0; j < classes; j++)
            sum += exp((double)z[j] - (double)z[best]);
        for (int64_t j = 0; smoothing > 0.0 && j < classes; j++)
            others += spread * ((double)z[j] - (double)z[labels[i]]);
        total += log(sum) + (double)z[best] - (double)z[labels[i]] - others;
        if (mix) total += (1 - smoothing) * (1 - share) * ((double)z[labels[i]] - (double)z[other]);
        *correct += best == labels[i];
        for (int64_t j = 0; j < classes; j++) {
            double score = exp((double)z[j] - (double)z[best]) / sum;
            if (scores) scores[i * classes + j] = (float)score;
            if (dlogits)
                ((real *)dlogits)[i * classes + j] =
                    (real)(scale *
                           (score -
                            (1 - smoothing) *
                                (share * (j == labels[i]) + (1 - share) * (j == other)) -
                            spread) /
                           (double)n);
        }
    }
    *loss = total / (double)n;
}
