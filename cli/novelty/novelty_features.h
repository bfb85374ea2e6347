/* cli/novelty/novelty_features.h - `ole novelty --known X,y`: the features of any model, without a
 * MODEL.
 */
#ifndef OLE_CLI_NOVELTY_NOVELTY_FEATURES_H
#define OLE_CLI_NOVELTY_NOVELTY_FEATURES_H

#include "common/figure_output.h"
#include "common/model_and_data.h"

#include <ole/train/novelty.h>

/* The command line, of both ways. */
typedef struct novelty_arguments {
    const char *model;           /* NULL: of features */
    const char *data[2];         /* known (NULL: of the run), novel (NULL: none) */
    const char *classes[2];      /* of them; NULL: novelty.c finds them */
    const char *test, *save;     /* of features: "X,y", and the model to write; or NULL */
    const char *scores;          /* a .csv file; NULL: none */
    data_flags flags;            /* of the known set, whose classes are chosen here */
    int known_split;             /* an ole_split */
    int novel_split;             /* 0: all */
    int method;                  /* from 1, as in ole_embed_method; last: none */
    ole_embed_options embed;     /* of features; its method is set last */
    ole_novelty_options options; /* its splits are set last */
    const char *score_name;
    ole_score score; /* OLE_SCORE_NONE: the chosen one */
    bool no_store, json;
    figure_options figures;
} novelty_arguments;

/* Of features; the exit code. */
int novelty_features_run(const novelty_arguments *arguments);

#endif
