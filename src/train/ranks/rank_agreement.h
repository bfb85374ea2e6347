/*
 * src/train/ranks/rank_agreement.h - what must be the same on all ranks of a run: the recipe, the
 * data, the initial weights, and at the end of every epoch the same weights.
 *
 * Everything here is collective; without ranks there is nothing to compare.
 */
#ifndef OLE_SRC_TRAIN_RANKS_RANK_AGREEMENT_H
#define OLE_SRC_TRAIN_RANKS_RANK_AGREEMENT_H

#include "model/checkpoint.h"
#include "ranks/ranks.h"
#include "train/options/options.h"

/*
 * Compares version and options with rank 0, except for a rank's own (data path, folder, device,
 * threads), before ranks do anything that depends on them. The error, the same on all ranks, names
 * the first rank that differs, the option and both values.
 */
ole_status ole_agree_on_options(const ole_train_options *options, ole_error *error);

/* Compares network and data likewise. */
ole_status ole_agree_on_data(ole_ranks *ranks, const ole_network *network, const ole_dataset *set,
                             const ole_card *card, ole_error *error);

/* Sends the weights, the optimiser's `moments` and the state of rank 0 to every rank. */
ole_status ole_agree_on_weights(ole_ranks *ranks, ole_network *network, int moments,
                                ole_state *state, ole_error *error);

/* An error unless the weights are the same to the bit on all ranks. */
ole_status ole_verify_weights(ole_ranks *ranks, const ole_network *network, ole_error *error);

#endif
