/* src/formats/parse_json.h - jansson's parser, with running out of memory told from bad JSON. */
#ifndef OLE_SRC_FORMATS_PARSE_JSON_H
#define OLE_SRC_FORMATS_PARSE_JSON_H

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#include <jansson.h>

/*
 * json_loadb(); *no_memory says whether an allocation failed, and the result is then NULL.
 *
 * jansson's error codes cannot be used for that: a failed allocation may be an invalid token to it,
 * or cost a token its last byte, or end the program in an assertion.  So this tries first whether
 * there is memory for JSON of that length, and looks at errno afterwards, which malloc() sets.
 */
static inline json_t *ole_parse_json(const char *bytes, size_t length, size_t flags,
                                     json_error_t *where, bool *no_memory) {
    enum { ROOM = 1 << 14, PER_BYTE = 16 };
    void *volatile room = malloc(ROOM + PER_BYTE * length);
    *no_memory = !room;
    free(room);
    if (*no_memory) return NULL;
    errno = 0;
    json_t *json = json_loadb(bytes, length, flags, where);
    *no_memory = errno == ENOMEM;
    if (!*no_memory) return json;
    json_decref(json);
    return NULL;
}

#endif
