/*
 * src/train/recipe.h - recipes as text in memory: config.yaml and what a checkpoint remembers.
 */
#ifndef OLE_SRC_TRAIN_RECIPE_H
#define OLE_SRC_TRAIN_RECIPE_H

#include "ole/train.h"

/* Like ole_recipe_read(), from memory; `name` is what messages call the text. */
ole_status ole_recipe_parse(ole_recipe **recipe, const char *text, size_t length, const char *name,
                            ole_train_options *options, ole_error *error);

/* The text that ole_recipe_write() writes, terminated; NULL without memory. free() it. */
char *ole_recipe_text(const ole_train_options *options);

#endif
