/*
 * src/data/shared.h - one copy of a data set's samples for all processes on a host.
 *
 * The process that has read a source publishes it: its samples move to memory that others can map,
 * under a name that is valid as long as the descriptor is open.  A process that attaches maps the
 * samples and copies the rest.
 */
#ifndef OLE_SRC_DATA_SHARED_H
#define OLE_SRC_DATA_SHARED_H

#include "data/source.h"

/* Where a published source is found: by processes of the same host and user. */
typedef struct ole_shared_name {
    char path[64];
    uint64_t token; /* identifies it, in case something else took the path */
} ole_shared_name;

/* Close *fd when all have attached. On failure the source is as before. */
ole_status ole_source_publish(ole_source *source, ole_shared_name *name, int *fd, ole_error *error);

/* To be freed like any source. */
ole_status ole_source_attach(ole_source *source, const ole_shared_name *name, ole_error *error);

#endif
