/* src/formats/npz.h - NumPy's archives of arrays, zip files stored or deflated. */
#ifndef OLE_SRC_FORMATS_NPZ_H
#define OLE_SRC_FORMATS_NPZ_H

#include "ole/npy.h"

/* The array `name` of an archive, or (NULL) its first.  `labels`: strings are taken, and of several
 * arrays one must be named. */
ole_status ole_npz_open(ole_npy **array, const char *path, const char *name, bool labels,
                        ole_error *error);

#endif
