/*
 * src/base/error.c - statuses, error messages, element types and the version: the facts behind
 * include/ole/base.h that need no other module.
 */
#include "base/error.h"

#include "base/module.h"
#include "base/quote.h"

#include <stdarg.h>
#include <stdio.h>

const char *ole_version(void) {
    return OLE_VERSION_TEXT;
}

const char *ole_status_name(ole_status status) {
    static const char *const names[] = {"ok", "argument", "data",    "format",
                                        "io", "memory",   "numeric", "unsupported"};
    size_t i = (size_t)status;
    return i < sizeof names / sizeof *names ? names[i] : "unknown";
}

static const struct {
    const char *name;
    size_t size;
} dtypes[] = {
    [OLE_F16] = {"float16", 2}, [OLE_BF16] = {"bfloat16", 2}, [OLE_F32] = {"float32", 4},
    [OLE_F64] = {"float64", 8}, [OLE_I8] = {"int8", 1},       [OLE_I16] = {"int16", 2},
    [OLE_I32] = {"int32", 4},   [OLE_I64] = {"int64", 8},     [OLE_U8] = {"uint8", 1},
    [OLE_U16] = {"uint16", 2},  [OLE_U32] = {"uint32", 4},    [OLE_U64] = {"uint64", 8},
};

const char *ole_dtype_name(ole_dtype dtype) {
    size_t i = (size_t)dtype;
    return i < sizeof dtypes / sizeof *dtypes && dtypes[i].name ? dtypes[i].name : "unknown";
}

size_t ole_dtype_size(ole_dtype dtype) {
    size_t i = (size_t)dtype;
    return i < sizeof dtypes / sizeof *dtypes ? dtypes[i].size : 0;
}

ole_status(ole_fail)(ole_error *error, ole_status status, const char *format, ...) {
    if (error) {
        error->status = status;
        va_list args;
        va_start(args, format);
        vsnprintf(error->message, sizeof error->message, format, args);
        va_end(args);
        ole_quote_in_place(error->message);
    }
    return status;
}
