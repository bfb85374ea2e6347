/*
 * src/base/export.h - OLE_INTERNAL marks private functions that cross the border of a library: the
 * project's other libraries, its modules and its program call them.
 *
 * The linker gives them the version OLE_PRIVATE_x.y.z, so a program that takes one of them stops
 * working with the next release; users keep to OLE_API.
 */
#ifndef OLE_SRC_BASE_EXPORT_H
#define OLE_SRC_BASE_EXPORT_H

#include "ole/base.h"

#define OLE_INTERNAL OLE_API

#endif
