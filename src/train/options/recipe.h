/* src/train/options/recipe.h - recipes as text: for config.yaml and for checkpoints. */
#ifndef OLE_SRC_TRAIN_OPTIONS_RECIPE_H
#define OLE_SRC_TRAIN_OPTIONS_RECIPE_H

#include "ole/train/train.h"

/* The text that ole_recipe_write() writes, terminated; NULL without memory. free() it. */
char *ole_recipe_text(const ole_train_options *options);

#endif
