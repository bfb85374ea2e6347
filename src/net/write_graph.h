/*
 * src/net/write_graph.h - a net's graph as JSON, for `ole net --json` and the PyTorch side of `ole
 * bench`.
 */
#ifndef OLE_SRC_NET_WRITE_GRAPH_H
#define OLE_SRC_NET_WRITE_GRAPH_H

#include "ole/train/net.h"

#include "formats/json.h"

/*
 * Writes the net's ops as a JSON array in topological order: op, name, input (indices), in and out
 * ([C, H, W]), kernel, stride, pad, bias, affine, rate.  Enough to rebuild the net elsewhere.
 */
OLE_INTERNAL void ole_net_write_graph(const ole_net *net, ole_json *json, const char *key);

#endif
