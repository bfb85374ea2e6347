/*
 * src/embed/embed.h - what the methods of a fit share: each takes a checked problem and ends with a
 * model, whose threshold ole_embed_fit() then sets.
 */
#ifndef OLE_SRC_EMBED_EMBED_H
#define OLE_SRC_EMBED_EMBED_H

#include "embed/choose.h"
#include "model/model.h"

/* A fit's result. */
typedef struct ole_fit_result {
    ole_model *model; /* NULL: stopped by the callback */
    ole_held_out held_out;
    ole_embed_summary summary;
} ole_fit_result;

typedef ole_status ole_fit_method(ole_problem *problem, ole_fit_result *result, ole_error *error);

ole_fit_method ole_fit_linear, ole_fit_mlp, ole_fit_transform, ole_fit_none;

/* The options over their defaults, checked, with the number of threads. */
ole_status ole_embed_options_read(ole_embed_options *read, const ole_embed_options *given,
                                  ole_error *error);

/* A model of this network, with zero weights, for the classes of the problem. */
ole_status ole_fit_make_model(ole_model **model, const ole_problem *problem, const char *net,
                              bool classifier, ole_error *error);

/* Sets a weight from doubles; the network must have it, with this many numbers. */
void ole_fit_set_weight(ole_model *model, const char *name, const double *values, int64_t count,
                        float *room);

#endif
