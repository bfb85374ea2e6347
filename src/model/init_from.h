/* src/model/init_from.h - initial weights from a file, and frozen parameters. */
#ifndef OLE_SRC_MODEL_INIT_FROM_H
#define OLE_SRC_MODEL_INIT_FROM_H

#include "model/network.h"

enum { OLE_REPORT_ROOM = 600 };

/*
 * Loads what fits: from .safetensors the tensors of the same name, ours or a published one
 * (published_names.h), and shape; from .caffemodel the
 * convolutions and linear layers in their order, where the sizes agree (the first convolution's
 * input turned from BGR to RGB).  `report` says what was loaded, skipped and left; `warning`, ""
 * mostly, which layers of a .safetensors file's network start untrained besides the classifier.
 * Such layers in front of loaded ones are an error: these are the weights of another network.
 */
ole_status ole_init_from(ole_network *network, const char *path, char report[OLE_REPORT_ROOM],
                         char warning[OLE_REPORT_ROOM], ole_error *error);

/* Freezes the parameters whose names begin with one of the comma-separated prefixes, or that are in
 * such a part of the network: backbone, or stem, stage1, ... in front of and of residual blocks. */
ole_status ole_freeze(ole_network *network, const char *prefixes, ole_error *error);

#endif
