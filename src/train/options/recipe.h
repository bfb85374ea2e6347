/*
 * src/train/options/recipe.h - recipes beyond ole/train/train.h: as text in memory (config.yaml,
 * checkpoints), and the notes of the paper's recipes.
 */
#ifndef OLE_SRC_TRAIN_OPTIONS_RECIPE_H
#define OLE_SRC_TRAIN_OPTIONS_RECIPE_H

#include "base/export.h"
#include "ole/train/train.h"

/* The options as ole_recipe_write() writes them, terminated; NULL without memory. free() it. */
OLE_INTERNAL char *ole_recipe_text(const ole_train_options *options);

/*
 * ole_recipe_write() also stores where relative data paths lead, so that a run folder can be used
 * from any directory: a recipe whose data are not found from the current one sets these as `data`.
 * NULL: the recipe has none.
 */
OLE_INTERNAL const char *ole_recipe_data_at(const ole_recipe *recipe);

/* Whether the files of a data set can be seen from the current directory. */
OLE_INTERNAL bool ole_recipe_data_here(const char *data);

/*
 * The key `paper` of a recipe holds a map of its own: the description of the experiment.  Training
 * ignores it; `ole reproduce` reads it.  The recipe owns the notes, which keep their order.
 */
typedef struct ole_recipe_note {
    const char *key, *value; /* lists are comma-separated */
} ole_recipe_note;

OLE_INTERNAL const ole_recipe_note *ole_recipe_notes(const ole_recipe *recipe, size_t *count);

#endif
