/*
 * src/model/published_names.h - finds our parameters in weights that others published.
 *
 * torchvision, timm and the usual CIFAR repositories name the same layers differently. A file that
 * lacks our name for a parameter is searched for theirs, so such weights load as they are.
 */
#ifndef OLE_SRC_MODEL_PUBLISHED_NAMES_H
#define OLE_SRC_MODEL_PUBLISHED_NAMES_H

#include "formats/safetensors.h"
#include "net/graph.h"
#include "net/zoo.h"

/* The tensor of parameter i, under our name or a published one; NULL: there is none. It may have
 * another shape. */
const ole_tensor *ole_published_find(const ole_safetensors *file, const ole_graph *graph, int i);

/* Whether a tensor has the numbers of a parameter, in its order, as floats: the same shape, or for
 * a linear layer that of the convolution that some publish in its place. */
bool ole_tensor_fits(const ole_tensor *tensor, const ole_param *param);

/* The stage of residual blocks that a node belongs to, from 1; 0: it comes before all of them. */
int ole_stage_of(const ole_graph *graph, const ole_node *node);

/* Whether a tensor is of no use as a weight: batches that a batch norm has counted, or the state of
 * a run's optimiser. */
bool ole_tensor_is_state(const char *name);

/* The named network that has all tensors of a file and no others, but for the classifier's; NULL:
 * none. */
ole_status ole_published_net(const ole_safetensors *file, const ole_zoo_entry **net,
                             ole_error *error);

/* The channels, 1 or 3, that the first convolution of `net` takes according to a file; 0: not
 * known. */
int ole_published_channels(const ole_safetensors *file, const char *net, ole_shape input);

#endif
