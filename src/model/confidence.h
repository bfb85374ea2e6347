/*
 * src/model/confidence.h - how sure a model is that it knows what it sees (ole_score of
 * ole/train/model.h), and keeping the threshold of such a score in the model's file.
 *
 * Scores of features compare them with directions of each class: an orthonormal basis of the
 * class's subspace, or its one mean direction.  They are kept as float32, and scores are computed
 * from what is kept, so that a threshold found before storing holds after loading.
 */
#ifndef OLE_SRC_MODEL_CONFIDENCE_H
#define OLE_SRC_MODEL_CONFIDENCE_H

#include "formats/safetensors.h"
#include "ole/train/model.h"

typedef struct ole_score_directions {
    int classes; /* 0: none */
    int64_t dim;
    int64_t *size; /* [classes]: directions of each class */
    float *basis;  /* [sum of size, dim] */
} ole_score_directions;

/* Allocates `rows` directions in all, sizes and basis zero; on failure as after a free. */
ole_status ole_score_directions_make(ole_score_directions *directions, int classes, int64_t dim,
                                     int64_t rows, ole_error *error);
void ole_score_directions_free(ole_score_directions *directions);

/* What a score is computed with. */
typedef struct ole_scorer {
    ole_score score;
    int classes;
    double temperature;
    const ole_score_directions *directions; /* where ole_score_of_features(score) */
} ole_scorer;

bool ole_score_of_features(ole_score score);

/* The score of one sample; `feature` is read only if ole_score_of_features(score). */
double ole_score_sample(const ole_scorer *scorer, const float *feature, const float *logits);

/* The sum of exp((logits - *largest) / temperature). */
double ole_sum_exp(const float *logits, int classes, double temperature, double *largest);

/* The largest score of softmax(logits / temperature). */
double ole_largest_softmax(const float *logits, int classes, double temperature);

/* log of the sum of exp(logits / temperature). */
double ole_log_sum_exp(const float *logits, int classes, double temperature);

/* False, with OLE_SCORE_NONE, for an unknown name. */
bool ole_score_parse(const char *name, ole_score *score);

/* Reads the directions of a model's file: those that its threshold needs must be there. `name` is
 * for messages. */
ole_status ole_score_directions_read(ole_score_directions *directions, const ole_safetensors *file,
                                     const char *name, const ole_model_info *model,
                                     ole_error *error);

/* Rewrites a model's file with this threshold and, if the score needs them, the directions;
 * everything else stays. */
ole_status ole_score_store(const char *path, const ole_scorer *scorer, double threshold,
                           ole_error *error);

#endif
