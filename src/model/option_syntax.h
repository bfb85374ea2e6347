/*
 * src/model/option_syntax.h - options that have a small language of their own: augmentation,
 * sampling, normalisation, and where OLÉ acts.  Errors name the option and show the text.
 */
#ifndef OLE_SRC_MODEL_OPTION_SYNTAX_H
#define OLE_SRC_MODEL_OPTION_SYNTAX_H

#include "ole/train/data.h"

/* "crop:4,flip": fields as in ole_loader_options, and mixup's alpha */
typedef struct ole_augment_spec {
    double crop, flip, resized_crop, rotate, jitter, erase, cutout, mixup;
    bool any;
} ole_augment_spec;

ole_status ole_augment_parse(ole_augment_spec *augment, const char *text, ole_error *error);
void ole_augment_set(const ole_augment_spec *augment, ole_loader_options *options);

/* "balanced:CxK" or "balanced"; zeros for "" (all samples, shuffled). */
typedef struct ole_sampler_spec {
    int classes, samples;
    bool automatic; /* "balanced": ole_sampler_choose() has to set both */
} ole_sampler_spec;

ole_status ole_sampler_parse(ole_sampler_spec *sampler, const char *text, ole_error *error);

/* All of `classes`, or as many as have four samples each in a batch of `batch`. */
void ole_sampler_choose(ole_sampler_spec *sampler, int classes, int64_t batch);

/* x = (x - mean) / deviation for each channel; `automatic`: from the training set. */
typedef struct ole_normalize_spec {
    bool automatic;
    int channels; /* how many values were given; 1 holds for all channels */
    float mean[OLE_MAX_CHANNELS], deviation[OLE_MAX_CHANNELS];
} ole_normalize_spec;

ole_status ole_normalize_parse(ole_normalize_spec *normalize, const char *text, ole_error *error);

/* "0.1x" as a factor of a learning rate, or a rate as its multiple. */
ole_status ole_rate_parse(double *factor, const char *name, const char *text, double lr,
                          ole_error *error);

/* Where OLÉ acts: tokens of the notation, each with its weight. None: at the features. */
enum { OLE_MAX_ACTS = 16 };

typedef struct ole_acts {
    int count;
    int token[OLE_MAX_ACTS];
    double weight[OLE_MAX_ACTS];
} ole_acts;

/* A token without a weight takes `lambda`. */
ole_status ole_acts_parse(ole_acts *acts, const char *text, double lambda, ole_error *error);

#endif
