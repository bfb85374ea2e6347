/*
 * src/report/text.c - growing text, escapes, base64 and numbers that do not follow the locale.
 */
#include "report/text.h"

#include "base/number.h"
#include "base/utf8.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void ole_text_free(ole_text *text) {
    free(text->bytes);
    *text = (ole_text){0};
}

/* Room for `more` bytes and the end; false when there is none. */
static bool reserve(ole_text *text, size_t more) {
    if (text->failed) return false;
    if (text->size + more < text->room) return true;
    size_t room = text->room ? text->room : 1024;
    while (room <= text->size + more)
        room += room / 2;
    char *bytes = realloc(text->bytes, room);
    if (!bytes) {
        text->failed = true;
        return false;
    }
    text->bytes = bytes;
    text->room = room;
    return true;
}

void ole_text_bytes(ole_text *text, const void *bytes, size_t size) {
    if (!reserve(text, size)) return;
    if (size > 0) memcpy(text->bytes + text->size, bytes, size);
    text->size += size;
    text->bytes[text->size] = '\0';
}

void ole_text_add(ole_text *text, const char *string) {
    ole_text_bytes(text, string, strlen(string));
}

void ole_text_format(ole_text *text, const char *format, ...) {
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int size = vsnprintf(NULL, 0, format, args);
    if (size >= 0 && reserve(text, (size_t)size + 1)) {
        vsnprintf(text->bytes + text->size, (size_t)size + 1, format, again);
        text->size += (size_t)size;
    }
    va_end(again);
    va_end(args);
}

size_t ole_utf8_length(const char *s) {
    unsigned char first = (unsigned char)s[0];
    if (first < 0x20) return first == '\n' || first == '\t';
    bool none = first == 0xef && (unsigned char)s[1] == 0xbf && (unsigned char)s[2] >= 0xbe;
    return none ? 0 : ole_utf8_sequence(s); /* U+FFFE and U+FFFF are no characters */
}

void ole_text_escaped(ole_text *text, const char *string) {
    for (const char *s = string; *s;) {
        size_t length = ole_utf8_length(s);
        if (length == 0)
            ole_text_add(text, "?");
        else if (*s == '&')
            ole_text_add(text, "&amp;");
        else if (*s == '<')
            ole_text_add(text, "&lt;");
        else if (*s == '>')
            ole_text_add(text, "&gt;");
        else if (*s == '"')
            ole_text_add(text, "&quot;");
        else
            ole_text_bytes(text, s, length);
        s += length ? length : 1;
    }
}

void ole_text_between(ole_text *text, const char *before, const char *string, const char *after) {
    ole_text_add(text, before);
    if (string) ole_text_escaped(text, string);
    ole_text_add(text, after);
}

void ole_text_hundredths(ole_text *text, double value) {
    const double most = 1e7;
    value = value > most ? most : value < -most ? -most : value == value ? value : 0;
    long long n = llround(value * 100);
    unsigned long long size = (unsigned long long)(n < 0 ? -n : n);
    ole_text_format(text, "%s%llu", n < 0 ? "-" : "", size / 100);
    if (size % 10)
        ole_text_format(text, ".%02llu", size % 100);
    else if (size % 100)
        ole_text_format(text, ".%llu", size % 100 / 10);
}

void ole_text_base64(ole_text *text, const void *bytes, size_t size) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const unsigned char *from = bytes;
    if (!reserve(text, (size + 2) / 3 * 4)) return;
    char *to = text->bytes + text->size;
    for (size_t i = 0; i < size; i += 3) {
        size_t left = size - i;
        unsigned n = (unsigned)from[i] << 16;
        if (left > 1) n |= (unsigned)from[i + 1] << 8;
        if (left > 2) n |= from[i + 2];
        *to++ = digits[n >> 18];
        *to++ = digits[n >> 12 & 63];
        *to++ = left > 1 ? digits[n >> 6 & 63] : '=';
        *to++ = left > 2 ? digits[n & 63] : '=';
    }
    *to = '\0';
    text->size = (size_t)(to - text->bytes);
}

const char *ole_shown_number(char out[OLE_NUMBER_ROOM], double value, int digits) {
    static const char minus[] = "\u2212";
    char plain[OLE_NUMBER_TEXT] = "";
    if (isfinite(value))
        ole_number_write(plain, digits < 9 ? digits : 9, value == 0 ? 0.0 : value);
    else if (!isnan(value))
        snprintf(plain, sizeof plain, "%s∞", value > 0 ? "" : "-");
    size_t size = 0;
    for (const char *s = plain; *s; s++) {
        size_t width = *s == '-' ? sizeof minus - 1 : 1;
        memcpy(out + size, *s == '-' ? minus : s, width);
        size += width;
    }
    out[size] = '\0';
    return out;
}
