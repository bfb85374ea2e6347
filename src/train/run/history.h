/* src/train/run/history.h - finding the best epoch in a run's history. */
#ifndef OLE_SRC_TRAIN_RUN_HISTORY_H
#define OLE_SRC_TRAIN_RUN_HISTORY_H

#include "ole/train/history.h"

/* The epoch of best.safetensors: the first with the lowest validation error; NULL: none has one. */
const ole_epoch *ole_history_best(const ole_history *history);

#endif
