/*
 * src/formats/json.h - writes JSON: commas, quotes, escapes and numbers that read back to the same
 * bits.
 *
 *     ole_json w;
 *     ole_json_init(&w, stdout, 2);            // indent by 2; 0 writes one line
 *     ole_json_open(&w, NULL, '{');
 *     ole_json_number(&w, "loss", 0.1);
 *     ole_json_open(&w, "shape", '[');
 *     ole_json_integer(&w, NULL, 64);
 *     ole_json_close(&w);
 *     ole_json_close(&w);                      // the outermost close ends the line
 *     bool good = ole_json_good(&w);           // false after any write error
 *
 * `key` is NULL inside an array and at the top.  NaN and infinities are written as null.
 */
#ifndef OLE_SRC_FORMATS_JSON_H
#define OLE_SRC_FORMATS_JSON_H

#include "base/export.h"
#include "ole/base.h"

#include <stdbool.h>
#include <stdio.h>

#define OLE_JSON_MAX_DEPTH 16

/* A writer. Its fields are private. */
typedef struct ole_json {
    FILE *file;
    int indent;
    int depth;
    char closers[OLE_JSON_MAX_DEPTH];
    bool empty[OLE_JSON_MAX_DEPTH];
    bool failed;
} ole_json;

OLE_INTERNAL void ole_json_init(ole_json *writer, FILE *file, int indent);
OLE_INTERNAL void ole_json_open(ole_json *writer, const char *key, char bracket); /* '{' or '[' */
OLE_INTERNAL void ole_json_close(ole_json *writer);
OLE_INTERNAL void ole_json_number(ole_json *writer, const char *key, double value);
OLE_INTERNAL void ole_json_integer(ole_json *writer, const char *key, int64_t value);
OLE_INTERNAL void ole_json_unsigned(ole_json *writer, const char *key, uint64_t value);
OLE_INTERNAL void ole_json_string(ole_json *writer, const char *key, const char *value); /* UTF-8 */
OLE_INTERNAL void ole_json_bool(ole_json *writer, const char *key, bool value);
OLE_INTERNAL bool ole_json_good(const ole_json *writer);

#endif
