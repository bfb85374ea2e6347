/* src/base/struct_size.c - copying options between this version's layout and the caller's. */
#include "base/struct_size.h"

#include "base/error.h"

#include <string.h>

/* No version's options are this long: struct_size was never set. */
enum { MOST_BYTES = 4096 };

/* struct_size is the first member of all options. */
static size_t size_of(const void *options) {
    size_t size;
    memcpy(&size, options, sizeof size);
    return size;
}

void ole_struct_fill(void *options, size_t size, const void *defaults) {
    size_t known = size_of(defaults), both = size < known ? size : known;
    if (size < sizeof size) return;
    memcpy(options, defaults, both);
    memset((char *)options + both, 0, size - both);
    memcpy(options, &size, sizeof size);
}

ole_status ole_struct_read(void *options, const void *given, size_t first, const char *init,
                           ole_error *error) {
    if (!given) return OLE_OK;
    size_t known = size_of(options), size = size_of(given);
    if (size < first || size > MOST_BYTES || size % sizeof size != 0)
        return ole_fail(error, OLE_ERROR_ARGUMENT,
                        "options.struct_size is %zu: fill options with %s()", size, init);
    for (size_t i = known; i < size; i++)
        if (((const char *)given)[i])
            return ole_fail(
                error, OLE_ERROR_ARGUMENT,
                "options.struct_size is %zu, this version reads %zu bytes, and an option beyond "
                "them is set: fill options with %s(), or use a newer library",
                size, known, init);
    memcpy(options, given, size < known ? size : known);
    memcpy(options, &known, sizeof known);
    return OLE_OK;
}
