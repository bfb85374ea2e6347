/*
 * src/model/model_card.h - what a model must know besides its weights: the network, the images it
 * takes, how they are normalised, the names of its classes.  Stored as texts in its safetensors
 * file.
 */
#ifndef OLE_SRC_MODEL_MODEL_CARD_H
#define OLE_SRC_MODEL_MODEL_CARD_H

#include "base/number.h"
#include "device/op.h"
#include "formats/safetensors.h"
#include "model/row_marks.h"
#include "model/threshold_words.h"
#include "ole/train/model.h"

typedef struct ole_card {
    char *net;
    ole_shape input;
    int classes;
    char **class_names;           /* [classes] */
    float mean[OLE_MAX_CHANNELS]; /* as in ole_loader_options */
    float deviation[OLE_MAX_CHANNELS];
    double threshold; /* these six as in ole_model_info */
    ole_score threshold_score;
    double temperature;
    bool classifier;
    ole_threshold_source threshold_from;
    int64_t threshold_samples;
    ole_row_marks fitted; /* of a map of embeddings */
} ole_card;

/* For a net on a data set, normalised as the option says (option_syntax.h). On failure the card is
 * as after a free. */
ole_status ole_card_make(ole_card *card, const char *net, const ole_dataset *set,
                         const char *normalize, ole_error *error);
ole_status ole_card_copy(ole_card *card, const ole_card *from, ole_error *error);
void ole_card_free(ole_card *card);

/* The card as metadata. It may point into `texts`, which must not move; free the texts with
 * ole_card_texts_free(). */
enum { OLE_CARD_TEXTS = 13 };

typedef struct ole_card_texts {
    size_t count;
    ole_metadata pair[OLE_CARD_TEXTS];
    char *class_names;
    char writer[32], input[64], threshold[OLE_NUMBER_TEXT], temperature[OLE_NUMBER_TEXT];
    char samples[32]; /* of the threshold */
    char fitted[OLE_ROW_MARKS_TEXT];
    char mean[OLE_MAX_CHANNELS * OLE_NUMBER_TEXT], deviation[OLE_MAX_CHANNELS * OLE_NUMBER_TEXT];
} ole_card_texts;

ole_status ole_card_write(const ole_card *card, ole_card_texts *texts, ole_error *error);
void ole_card_texts_free(ole_card_texts *texts);

/* The card of a file; `name` is the file's, for messages. */
ole_status ole_card_read(ole_card *card, const ole_safetensors *file, const char *name,
                         ole_error *error);

/* Whether both were made from the same training samples, by their means and deviations; sums of
 * other processors differ less than other samples do. */
bool ole_card_same_samples(const ole_card *a, const ole_card *b);

/* x = (x - mean) / deviation on `count` images. */
void ole_card_normalize(const ole_card *card, const float *images, int64_t count, float *out);

#endif
