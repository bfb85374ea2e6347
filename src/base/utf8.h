/* src/base/utf8.h - where the characters of a text in UTF-8 end. */
#ifndef OLE_SRC_BASE_UTF8_H
#define OLE_SRC_BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>

/* The replacement character, which stands for one byte that is no UTF-8. */
#define OLE_UTF8_REPLACEMENT "\xef\xbf\xbd"

/* Bytes in the well-formed sequence at `s`, part of a terminated string; 0 when there is none. */
static inline size_t ole_utf8_sequence(const char *string) {
    const unsigned char *s = (const unsigned char *)string;
    if (s[0] < 0x80) return 1;
    size_t length = s[0] >= 0xf0 ? 4 : s[0] >= 0xe0 ? 3 : 2;
    if (s[0] < 0xc2 || s[0] > 0xf4) return 0;
    for (size_t i = 1; i < length; i++)
        if ((s[i] & 0xc0) != 0x80) return 0; /* stops at the terminator too */
    bool overlong = (s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xf0 && s[1] < 0x90);
    bool surrogate = s[0] == 0xed && s[1] >= 0xa0;
    bool too_large = s[0] == 0xf4 && s[1] >= 0x90;
    return overlong || surrogate || too_large ? 0 : length;
}

static inline bool ole_utf8_is_valid(const char *text) {
    size_t length = 1;
    while (*text && (length = ole_utf8_sequence(text)) > 0)
        text += length;
    return length > 0;
}

#endif
