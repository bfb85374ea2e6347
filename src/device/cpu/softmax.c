/*
 * src/device/cpu/softmax.c - softmax cross-entropy: the mean over a batch of log(sum over j of
 * exp(z[j])) - z[label], its gradient, the scores and the number of correct rows; smoothing is as
 * in ref/softmax.c.
 *
 * Everything is in double: there are few logits, and the loss is a number people compare.
 */
#include "device/cpu/cpu.h"

#include <math.h>

/* The batch is divided into at most PARTS parts, whose sums are added in order. */
enum { PARTS = 64 };

typedef struct rows {
    int64_t n, classes, parts;
    const float *logits;
    const int32_t *labels;
    const ole_mix *mix;
    double smoothing, scale;
    float *dlogits, *scores;
    double loss[PARTS];
    int64_t correct[PARTS];
} rows;

static void one_row(rows *r, int64_t part, int64_t i) {
    const float *z = r->logits + i * r->classes;
    int64_t best = 0, label = r->labels[i], other = r->mix ? r->mix->labels[i] : label;
    double share = r->mix ? *r->mix->share : 1;
    double sum = 0, others = 0, spread = r->smoothing / (double)r->classes;
    for (int64_t j = 1; j < r->classes; j++)
        if (z[j] > z[best]) best = j;
    for (int64_t j = 0; j < r->classes; j++)
        sum += exp((double)z[j] - (double)z[best]);
    for (int64_t j = 0; r->smoothing > 0.0 && j < r->classes; j++)
        others += spread * ((double)z[j] - (double)z[label]);
    r->loss[part] += log(sum) + (double)z[best] - (double)z[label] - others;
    if (r->mix)
        r->loss[part] += (1 - r->smoothing) * (1 - share) * ((double)z[label] - (double)z[other]);
    r->correct[part] += best == label;
    for (int64_t j = 0; (r->scores || r->dlogits) && j < r->classes; j++) {
        double score = exp((double)z[j] - (double)z[best]) / sum;
        if (r->scores) r->scores[i * r->classes + j] = (float)score;
        double hit = share * (j == label) + (1 - share) * (j == other);
        double target = (1 - r->smoothing) * hit + spread;
        if (r->dlogits)
            r->dlogits[i * r->classes + j] = (float)(r->scale * (score - target) / (double)r->n);
    }
}

static void some_rows(void *argument, int64_t part) {
    rows *r = argument;
    for (int64_t i = r->n * part / r->parts; i < r->n * (part + 1) / r->parts; i++)
        one_row(r, part, i);
}

void cpu_softmax_loss(ole_device_context *context, int64_t n, int64_t classes, const void *logits,
                      const int32_t *labels, const ole_mix *mix, double smoothing, double scale,
                      void *dlogits, float *scores, double *loss, int64_t *correct) {
    rows r = {.n = n,
              .classes = classes,
              .parts = n < PARTS ? n : PARTS,
              .logits = logits,
              .labels = labels,
              .mix = mix,
              .smoothing = smoothing,
              .scale = scale,
              .dlogits = dlogits,
              .scores = scores};
    cpu_parallel(context, r.parts, some_rows, &r);
    *loss = 0;
    *correct = 0;
    for (int64_t part = 0; part < r.parts; part++) {
        *loss += r.loss[part] / (double)n;
        *correct += r.correct[part];
    }
}
