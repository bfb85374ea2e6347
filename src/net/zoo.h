/* src/net/zoo.h - the named networks. */
#ifndef OLE_SRC_NET_ZOO_H
#define OLE_SRC_NET_ZOO_H

#include "device/op.h"

typedef struct ole_zoo_entry {
    const char *name;
    const char *notation;
    ole_shape input; /* image shape in the paper */
} ole_zoo_entry;

/* All names, ending with NULL. */
extern const char *const ole_zoo_names[];

/* The entry of that name, or NULL. */
const ole_zoo_entry *ole_zoo_find(const char *name);

#endif
