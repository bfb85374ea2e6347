/* src/train/model.h - a model out of a network that was trained in this process; watching one. */
#ifndef OLE_SRC_TRAIN_MODEL_H
#define OLE_SRC_TRAIN_MODEL_H

#include "ole/model.h"
#include "train/card.h"
#include "train/folder.h"
#include "train/network.h"

/* Copies the weights and the card; the network may go. */
ole_status ole_model_build(ole_model **model, const ole_network *network, const ole_card *card,
                           ole_error *error);

/* The file that a path stands for: of a run folder its best model, or its last. */
ole_status ole_model_find(const char *path, char file[OLE_RUN_PATH], ole_error *error);

/* Tells the callback of ole_model_watch(); whether it asks to stop. */
bool ole_model_report(const ole_model *model, const char *part, int64_t done, int64_t total);

/* ole_model_run_split() that says whether it was stopped. */
ole_status ole_model_run_watched(ole_model *model, const ole_dataset *set, ole_split split,
                                 float *features, float *logits, bool *stopped, ole_error *error);

#endif
