/*
 * src/formats/json.c - the JSON writer of src/formats/json.h.
 *
 * It holds no text of its own: every call prints at once.  Misuse (a key inside an array, a close
 * too many, nesting too deep) counts as a failed write instead of leaving a file that no reader
 * takes.
 */
#include "formats/json.h"

#include "base/quote.h"
#include "base/utf8.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void put(ole_json *writer, const char *text) {
    if (fputs(text, writer->file) == EOF) writer->failed = true;
}

/* A new line, indented for `depth`; nothing in one-line output. */
static void put_line_break(ole_json *writer, int depth) {
    if (writer->indent <= 0) return;
    fprintf(writer->file, "\n%*s", depth * writer->indent, "");
}

/* A control character of `length` bytes in UTF-8, escaped: JSON may be printed to a terminal. */
static void put_control(ole_json *writer, const char *s, size_t length) {
    static const char plain[] = "\b\f\n\r\t", letters[] = "bfnrt";
    const char *at = length == 1 ? memchr(plain, *s, sizeof plain - 1) : NULL;
    unsigned code = (unsigned char)s[0] & (length == 1 ? 0x7fu : 0xffu >> (length + 1));
    for (size_t i = 1; i < length; i++)
        code = code << 6 | ((unsigned char)s[i] & 0x3fu);
    if (at)
        fprintf(writer->file, "\\%c", letters[at - plain]);
    else
        fprintf(writer->file, "\\u%04x", code);
}

static void put_quoted(ole_json *writer, const char *string) {
    putc('"', writer->file);
    for (const char *s = string; *s;) {
        size_t length = ole_utf8_sequence(s);
        if (length == 0) {
            put(writer, "\\ufffd"); /* the replacement character stands for one bad byte */
            length = 1;
        } else if (*s == '"' || *s == '\\') {
            fprintf(writer->file, "\\%c", *s);
        } else if (ole_control_length(s) > 0) {
            put_control(writer, s, length);
        } else {
            fwrite(s, 1, length, writer->file);
        }
        s += length;
    }
    putc('"', writer->file);
}

/* What comes before a value: comma, line break, key.  False when no value may stand here. */
static bool begin_value(ole_json *writer, const char *key) {
    bool in_object = writer->depth > 0 && writer->closers[writer->depth - 1] == '}';
    if (in_object != (key != NULL)) writer->failed = true;
    if (writer->failed) return false;
    if (writer->depth > 0) {
        bool *empty = &writer->empty[writer->depth - 1];
        if (!*empty) put(writer, writer->indent > 0 ? "," : ", ");
        *empty = false;
        put_line_break(writer, writer->depth);
    }
    if (key) {
        put_quoted(writer, key);
        put(writer, ": ");
    }
    return true;
}

/* What comes after a value: at the top, the end of the line. */
static void end_value(ole_json *writer) {
    if (writer->depth == 0) put(writer, "\n");
    if (ferror(writer->file)) writer->failed = true;
}

void ole_json_init(ole_json *writer, FILE *file, int indent) {
    *writer = (ole_json){.file = file, .indent = indent};
}

void ole_json_open(ole_json *writer, const char *key, char bracket) {
    bool known = bracket == '{' || bracket == '[';
    if (!known || writer->depth >= OLE_JSON_MAX_DEPTH) writer->failed = true;
    if (!begin_value(writer, key)) return;
    putc(bracket, writer->file);
    writer->closers[writer->depth] = bracket == '{' ? '}' : ']';
    writer->empty[writer->depth] = true;
    writer->depth++;
}

ole_json ole_json_begin(FILE *file, int indent, char bracket) {
    ole_json writer;
    ole_json_init(&writer, file, indent);
    ole_json_open(&writer, NULL, bracket);
    return writer;
}

void ole_json_close(ole_json *writer) {
    if (writer->depth == 0) writer->failed = true;
    if (writer->failed) return;
    writer->depth--;
    if (!writer->empty[writer->depth]) put_line_break(writer, writer->depth);
    putc(writer->closers[writer->depth], writer->file);
    end_value(writer);
}

/* The process's locale may write 0,5; JSON has the point alone. */
static void force_point(char *text) {
    char *out = text;
    bool foreign = false;
    for (const char *in = text; *in; in++) {
        bool keep = strchr("0123456789+-eE.", *in) != NULL;
        if (keep)
            *out++ = *in;
        else if (!foreign)
            *out++ = '.'; /* one point for a mark of several bytes */
        foreign = !keep;
    }
    *out = '\0';
}

void ole_json_number(ole_json *writer, const char *key, double value) {
    if (!begin_value(writer, key)) return;
    char text[64] = "null";
    if (isfinite(value)) {
        for (int digits = 15; digits <= 17; digits++) {
            snprintf(text, sizeof text, "%.*g", digits, value);
            if (strtod(text, NULL) == value) break;
        }
        force_point(text);
    }
    put(writer, text);
    end_value(writer);
}

void ole_json_integer(ole_json *writer, const char *key, int64_t value) {
    if (!begin_value(writer, key)) return;
    fprintf(writer->file, "%lld", (long long)value);
    end_value(writer);
}

void ole_json_unsigned(ole_json *writer, const char *key, uint64_t value) {
    if (!begin_value(writer, key)) return;
    fprintf(writer->file, "%llu", (unsigned long long)value);
    end_value(writer);
}

void ole_json_string(ole_json *writer, const char *key, const char *value) {
    if (!begin_value(writer, key)) return;
    if (value)
        put_quoted(writer, value);
    else
        put(writer, "null");
    end_value(writer);
}

void ole_json_bool(ole_json *writer, const char *key, bool value) {
    if (!begin_value(writer, key)) return;
    put(writer, value ? "true" : "false");
    end_value(writer);
}

void ole_json_items(ole_json *writer, const ole_json_item *items, size_t count) {
    for (const ole_json_item *i = items; i < items + count; i++)
        if (i->kind == 'n')
            ole_json_number(writer, i->key, i->number);
        else if (i->kind == 'i')
            ole_json_integer(writer, i->key, i->integer);
        else if (i->kind == 'u')
            ole_json_unsigned(writer, i->key, i->natural);
        else if (i->kind == 's')
            ole_json_string(writer, i->key, i->string);
        else
            ole_json_bool(writer, i->key, i->truth);
}

void ole_json_numbers(ole_json *writer, const char *key, const double *values, int64_t count) {
    ole_json_open(writer, key, '[');
    for (int64_t i = 0; i < count; i++)
        ole_json_number(writer, NULL, values[i]);
    ole_json_close(writer);
}

void ole_json_integers(ole_json *writer, const char *key, const int64_t *values, int64_t count) {
    ole_json_open(writer, key, '[');
    for (int64_t i = 0; i < count; i++)
        ole_json_integer(writer, NULL, values[i]);
    ole_json_close(writer);
}

/* Flushes: a full disk shows only when the buffer is written out. */
bool ole_json_good(const ole_json *writer) {
    return !writer->failed && fflush(writer->file) == 0 && !ferror(writer->file);
}
