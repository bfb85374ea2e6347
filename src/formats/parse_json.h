/* src/formats/parse_json.h - jansson's parser, which distinguishes lack of memory from bad JSON. */
#ifndef OLE_SRC_FORMATS_PARSE_JSON_H
#define OLE_SRC_FORMATS_PARSE_JSON_H

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#include <jansson.h>

/*
 * json_loadb(); if an allocation failed, *no_memory is true and the result NULL.
 *
 * jansson's error codes do not tell: a failed allocation may appear as an invalid token, cost a
 * token its last byte, or end the program in an assertion.  So this first tries to allocate what
 * JSON of that length needs, and afterwards reads errno, which malloc() sets.
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
