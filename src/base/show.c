/*
 * src/base/show.c - foreign bytes in messages.
 *
 * A file name may hold a newline and a damaged file any byte at all; an error message is one line
 * of limited length.  Everything quoted in a message passes through here.
 */
#include "base/show.h"

#include <string.h>

enum { HEAD = 60, DOTS = 3 };

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
    for (size_t i = 0; i < used; i++) {
        unsigned char c = (unsigned char)shown->text[i];
        if (c < 0x20 || c == 0x7f) shown->text[i] = '?';
    }
    shown->text[used] = '\0';
    return shown->text;
}

const char *ole_show_string(ole_shown *shown, const char *string) {
    if (!string) string = "(null)";
    return ole_show(shown, string, strlen(string));
}
