/*
 * src/base/show.c - foreign bytes in messages.
 *
 * A file name may hold a newline and a damaged file any byte at all; an error message is one line
 * of limited length.  Everything quoted in a message passes through here.
 */
#include "base/show.h"

#include <string.h>

enum { HEAD = 60, DOTS = 3 };

void ole_show_plainly(char *text) {
    for (char *at = text; *at; at++) {
        unsigned char c = (unsigned char)at[0], next = (unsigned char)at[1];
        if (c == 0xc2 && next >= 0x80 && next <= 0x9f) at[0] = at[1] = '?';
        if (c < 0x20 || c == 0x7f) at[0] = '?';
    }
}

const char *ole_show(ole_shown *shown, const char *bytes, size_t length) {
    size_t room = sizeof shown->text - 1;
    size_t used = length;
    if (length <= room) {
        if (length > 0) memcpy(shown->text, bytes, length);
    } else {
        size_t tail = room - HEAD - DOTS;
        memcpy(shown->text, bytes, HEAD);
        memcpy(shown->text + HEAD, "...", DOTS);
        memcpy(shown->text + HEAD + DOTS, bytes + length - tail, tail);
        used = room;
    }
    for (size_t i = 0; i < used; i++)
        if (!shown->text[i]) shown->text[i] = '?';
    shown->text[used] = '\0';
    ole_show_plainly(shown->text);
    return shown->text;
}

const char *ole_show_string(ole_shown *shown, const char *string) {
    if (!string) string = "(null)";
    return ole_show(shown, string, strlen(string));
}
