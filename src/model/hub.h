/*
 * src/model/hub.h - models on a hub, named hf:OWNER/MODEL.
 *
 * A hub is a web server that keeps the files of a model under
 * ENDPOINT/OWNER/MODEL/resolve/REVISION/FILE, as Hugging Face's does.
 */
#ifndef OLE_SRC_MODEL_HUB_H
#define OLE_SRC_MODEL_HUB_H

#include "base/export.h"
#include "model/run_folder.h"
#include "ole/train/model.h"

/* Whether this names a model on a hub, well or badly. */
OLE_INTERNAL bool ole_is_hub_name(const char *name);

/* Whether this is a URL of http or https. */
bool ole_is_url(const char *text);

/* The file of weights that are named by a path, hf:OWNER/MODEL or a URL of a .safetensors or
 * .caffemodel file, with #sha256=DIGITS behind it to be checked; downloaded where needed.  `again`:
 * after an earlier call of the same run, whose file serves if its server names no version. */
ole_status ole_weights_fetch(const char *text, bool again, char path[OLE_RUN_PATH],
                             ole_error *error);

/* A small file of that name (config.json) beside a model on a hub: fetched, else as cached.  False:
 * there is none. */
bool ole_hub_fetch_beside(const char *text, const char *file, char path[OLE_RUN_PATH]);

#endif
