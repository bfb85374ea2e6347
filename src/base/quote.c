/*
 * src/base/quote.c - foreign bytes in messages.
 *
 * A file name may hold a newline and a damaged file any byte at all; an error message is one line
 * of limited length.  Everything quoted in a message passes through here.
 */
#include "base/quote.h"

#include <string.h>

enum { HEAD = 60, DOTS = 3 };

void ole_quote_in_place(char *text) {
    for (char *at = text; *at; at++) {
        unsigned char c = (unsigned char)at[0], next = (unsigned char)at[1];
        if (c == 0xc2 && next >= 0x80 && next <= 0x9f) at[0] = at[1] = '?';
        if (c < 0x20 || c == 0x7f) at[0] = '?';
    }
}

const char *ole_quote(ole_quoted *quoted, const char *bytes, size_t length) {
    size_t room = sizeof quoted->text - 1;
    size_t used = length;
    if (length <= room) {
        if (length > 0) memcpy(quoted->text, bytes, length);
    } else {
        size_t tail = room - HEAD - DOTS;
        memcpy(quoted->text, bytes, HEAD);
        memcpy(quoted->text + HEAD, "...", DOTS);
        memcpy(quoted->text + HEAD + DOTS, bytes + length - tail, tail);
        used = room;
    }
    for (size_t i = 0; i < used; i++)
        if (!quoted->text[i]) quoted->text[i] = '?';
    quoted->text[used] = '\0';
    ole_quote_in_place(quoted->text);
    return quoted->text;
}

const char *ole_quote_string(ole_quoted *quoted, const char *string) {
    if (!string) string = "(null)";
    return ole_quote(quoted, string, strlen(string));
}
