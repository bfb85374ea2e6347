/* src/base/nearest_name.h - the known name closest to an unknown word, for "did you mean". */
#ifndef OLE_SRC_BASE_NEAREST_NAME_H
#define OLE_SRC_BASE_NEAREST_NAME_H

#include "base/export.h"

/* The one of names[count] closest to `word`; NULL when none is close. */
OLE_INTERNAL const char *ole_nearest_name(const char *word, const char *const *names, size_t count);

#endif
