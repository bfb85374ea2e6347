/*
 * src/train/options/options.h - the options of a run: their table, the check before a run begins,
 * and the choices left to the data.
 */
#ifndef OLE_SRC_TRAIN_OPTIONS_OPTIONS_H
#define OLE_SRC_TRAIN_OPTIONS_OPTIONS_H

#include "loss/criteria/criterion.h"
#include "model/pretrained.h"
#include "ole/train/train.h"
#include "train/options/option_table.h"

/* A copy of the caller's options, of whatever version, unchecked. */
ole_status ole_train_options_read(ole_train_options *options, const ole_train_options *given,
                                  ole_error *error);

/*
 * The same with missing texts replaced by their defaults, checked: ranges, choices and the texts of
 * model/option_syntax.h.  An error names the option.
 */
ole_status ole_train_options_check(const ole_train_options *given, ole_train_options *out,
                                   ole_error *error);

/* Whether samples that are held out choose the epoch whose model is kept; else it is the last. */
bool ole_train_keeps_best(const ole_train_options *options);

/* The error of data with one class. */
ole_status ole_train_fail_single_class(const ole_train_options *options, ole_error *error);

/*
 * In checked options: net if NULL; resize if the images of a folder differ in size, or are large
 * and no net is given; channels if some are grey and some coloured; epochs if 0. The options are
 * then as if the caller had given them, and each choice is reported by the options' message.
 * A folder with a single class is refused before anything is reported.
 */
ole_status ole_train_choose(ole_train_options *options, ole_error *error);

/*
 * Before that, what the weights of init_from expect: normalize if auto; net, resize and channels of
 * a folder if not given.  Reports each, and the licence.  `pretrained` holds the texts and must
 * outlive the options.  Collective; rank 0 reads.
 */
ole_status ole_train_expect(ole_train_options *options, ole_pretrained *pretrained,
                            ole_error *error);

/* How many numbers per weight the optimiser keeps: 1 for SGD, 2 for Adam and AdamW. */
int ole_train_moments(const ole_train_options *options);

/* The loss besides softmax and OLÉ, or NULL, and its parameters; an error if the losses do not go
 * together or a parameter is wrong. */
ole_status ole_train_criterion(const ole_train_options *options, const ole_criterion **criterion,
                               double param[OLE_CRITERION_PARAMS], ole_error *error);

#endif
