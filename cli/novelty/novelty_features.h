/* cli/novelty/novelty_features.h - `ole novelty --known X,y`: the features of any model, without a
 * MODEL.
 */
#ifndef OLE_CLI_NOVELTY_NOVELTY_FEATURES_H
#define OLE_CLI_NOVELTY_NOVELTY_FEATURES_H

#include "common/figure_output.h"

#include <ole/train/novelty.h>

typedef struct novelty_features {
    const char *known, *test, *novel; /* "X,y", "X,y" and "X"; the last two may be NULL */
    const char *save;                 /* a model file; NULL: none */
    const char *scores;               /* a .csv file; NULL: none */
    ole_embed_options embed;
    ole_novelty_options options;
    ole_score score; /* OLE_SCORE_NONE: the chosen one */
    bool json;
    figure_options figures;
} novelty_features;

/* The exit code. */
int novelty_features_run(const novelty_features *features);

#endif
