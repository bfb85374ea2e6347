/*
 * src/formats/json.h - writes JSON: commas, quotes, escapes and numbers that read back to the same
 * bits.
 *
 *     ole_json w = ole_json_begin(stdout, 2, '{');  // indent by 2; 0 writes one line
 *     ole_json_put(&w, J("loss", 0.1), J("device", "cpu"));
 *     ole_json_open(&w, "runs", '[');
 *     ole_json_object(&w, NULL, J("seed", 0), J("error", 7.22));
 *     ole_json_close(&w);
 *     ole_json_close(&w);                           // the outermost close ends the line
 *     bool good = ole_json_good(&w);                // false after any write error
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
OLE_INTERNAL ole_json ole_json_begin(FILE *file, int indent, char bracket);       /* and open it */
OLE_INTERNAL void ole_json_open(ole_json *writer, const char *key, char bracket); /* '{' or '[' */
OLE_INTERNAL void ole_json_close(ole_json *writer);
OLE_INTERNAL void ole_json_number(ole_json *writer, const char *key, double value);
OLE_INTERNAL void ole_json_integer(ole_json *writer, const char *key, int64_t value);
OLE_INTERNAL void ole_json_unsigned(ole_json *writer, const char *key, uint64_t value);
OLE_INTERNAL void ole_json_string(ole_json *writer, const char *key, const char *value); /* UTF-8 */
OLE_INTERNAL void ole_json_bool(ole_json *writer, const char *key, bool value);
OLE_INTERNAL bool ole_json_good(const ole_json *writer);

/* Arrays of numbers. */
OLE_INTERNAL void ole_json_numbers(ole_json *writer, const char *key, const double *values,
                                   int64_t count);
OLE_INTERNAL void ole_json_integers(ole_json *writer, const char *key, const int64_t *values,
                                    int64_t count);

/* ---- Several values at once --------------------------------------------------------------- */

/* A key with its value; J(key, value) makes one, of the kind that the value's type has. */
typedef struct ole_json_item {
    const char *key;
    char kind; /* number, integer, unsigned, string or bool: its first letter */
    union {
        double number;
        int64_t integer;
        uint64_t natural;
        const char *string;
        bool truth;
    };
} ole_json_item;

static inline ole_json_item ole_json_number_item(const char *key, double value) {
    return (ole_json_item){key, 'n', {.number = value}};
}

static inline ole_json_item ole_json_integer_item(const char *key, int64_t value) {
    return (ole_json_item){key, 'i', {.integer = value}};
}

static inline ole_json_item ole_json_unsigned_item(const char *key, uint64_t value) {
    return (ole_json_item){key, 'u', {.natural = value}};
}

static inline ole_json_item ole_json_string_item(const char *key, const char *value) {
    return (ole_json_item){key, 's', {.string = value}};
}

static inline ole_json_item ole_json_bool_item(const char *key, bool value) {
    return (ole_json_item){key, 'b', {.truth = value}};
}

/* Comparisons, true and false are ints in C: cast them to bool where true or false is meant. */
#define J(key, value)                                                                              \
    _Generic((value),                                                                              \
        bool: ole_json_bool_item,                                                                  \
        int: ole_json_integer_item,                                                                \
        long: ole_json_integer_item,                                                               \
        long long: ole_json_integer_item,                                                          \
        unsigned: ole_json_unsigned_item,                                                          \
        unsigned long: ole_json_unsigned_item,                                                     \
        unsigned long long: ole_json_unsigned_item,                                                \
        float: ole_json_number_item,                                                               \
        double: ole_json_number_item,                                                              \
        char *: ole_json_string_item,                                                              \
        const char *: ole_json_string_item)(key, value)

OLE_INTERNAL void ole_json_items(ole_json *writer, const ole_json_item *items, size_t count);

/* Values side by side: ole_json_put(&w, J("loss", 0.1), J("rows", 64)). */
#define ole_json_put(writer, ...)                                                                  \
    ole_json_items(writer, (const ole_json_item[]){__VA_ARGS__},                                   \
                   sizeof((const ole_json_item[]){__VA_ARGS__}) / sizeof(ole_json_item))

/* An object that holds these and nothing else. */
#define ole_json_object(writer, key, ...)                                                          \
    do {                                                                                           \
        ole_json_open(writer, key, '{');                                                           \
        ole_json_put(writer, __VA_ARGS__);                                                         \
        ole_json_close(writer);                                                                    \
    } while (0)

#endif
