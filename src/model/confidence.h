/*
 * src/model/confidence.h - the score that a model's threshold applies to (ole_score of
 * ole/novelty.h), in the model's file and for single samples.
 *
 * What the score needs of the known features lies in the file as tensors "novelty.NAME", and scores
 * are computed from what is stored, so that a threshold found before storing holds after loading.
 */
#ifndef OLE_SRC_MODEL_CONFIDENCE_H
#define OLE_SRC_MODEL_CONFIDENCE_H

#include "formats/safetensors.h"
#include "ole/train/model.h"

/* The scores of a model's outputs; NaN where one is not finite, and without a scorer. */
void ole_score_samples(const ole_scorer *scorer, const ole_model_info *model, const float *features,
                       const float *logits, int64_t count, double *scores);

/* What a model with this scorer, which may be NULL, predicts of samples with these outputs. */
void ole_predict_outputs(const ole_scorer *scorer, const ole_model_info *model, int threads,
                         const float *features, const float *logits, int64_t count,
                         ole_prediction *predictions);

/* The sum of exp((logits - *largest) / temperature). */
double ole_sum_exp(const float *logits, int classes, double temperature, double *largest);

/* The largest score of softmax(logits / temperature). */
double ole_largest_softmax(const float *logits, int classes, double temperature);

/* log of the sum of exp(logits / temperature). */
double ole_log_sum_exp(const float *logits, int classes, double temperature);

/*
 * The scorer of the model's threshold where the score follows from the logits and the temperature;
 * NULL for any other score, and without a threshold.
 */
ole_status ole_score_of_card(ole_scorer **scorer, const ole_model_info *model, ole_error *error);

/*
 * The scorer of a file's threshold; NULL without a threshold.  What it needs must be there and fit
 * the model.  `name` is for messages.
 */
ole_status ole_score_read(ole_scorer **scorer, const ole_safetensors *file, const char *name,
                          const ole_model_info *model, ole_error *error);

/* What a file holds for a scorer; the tensors point into it and into the scorer. */
typedef struct ole_score_tensors {
    ole_tensor tensor[OLE_SCORER_TENSORS];
    char name[OLE_SCORER_TENSORS][64];
    size_t count; /* 0 where the score follows from the logits and the model's card */
} ole_score_tensors;

void ole_score_list(ole_score_tensors *list, const ole_scorer *scorer);

/* What a file says of a threshold. */
typedef struct ole_threshold_record {
    double threshold, temperature;
    ole_threshold_source from; /* how it was found, */
    int64_t samples;           /* on how many samples */
    const char *choice;        /* JSON: why this score was chosen; NULL: it was not */
} ole_threshold_record;

/* Rewrites a model's file with this threshold, and with what its score needs in place of what the
 * last one needed; everything else stays. */
ole_status ole_score_store(const char *path, const ole_scorer *scorer,
                           const ole_threshold_record *record, ole_error *error);

#endif
