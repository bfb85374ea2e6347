/* src/base/error.h - filling an ole_error: `return ole_fail(error, OLE_ERROR_IO, "...", ...)`. */
#ifndef OLE_SRC_BASE_ERROR_H
#define OLE_SRC_BASE_ERROR_H

#include "base/export.h"

#if defined(__GNUC__)
#define OLE_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#else
#define OLE_PRINTF(fmt, args)
#endif

/* Writes the message (cut to fit, control characters as '?') when `error` is not NULL, and returns
 * `status` either way. */
OLE_INTERNAL ole_status ole_fail(ole_error *error, ole_status status, const char *format, ...)
    OLE_PRINTF(3, 4);

#endif
