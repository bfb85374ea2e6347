/*
 * src/base/quote.c - printed texts, and foreign bytes in messages.
 *
 * A file name may hold a newline and a damaged file any byte at all; an error message is one line
 * of limited length.  Everything quoted in a message passes through here.
 */
#include "base/quote.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HEAD = 60, DOTS = 3 };

ole_short_text ole_printed(const char *format, ...) {
    ole_short_text printed;
    va_list args;
    va_start(args, format);
    vsnprintf(printed.text, sizeof printed.text, format, args);
    va_end(args);
    return printed;
}

size_t ole_control_length(const char *text) {
    const unsigned char *c = (const unsigned char *)text;
    if (c[0] < 0x20 || c[0] == 0x7f) return 1;
    if (c[0] == 0xc2 && c[1] >= 0x80 && c[1] <= 0x9f) return 2;
    if (c[0] != 0xe2) return 0;
    bool marks = c[1] == 0x80 && (c[2] == 0x8e || c[2] == 0x8f || (c[2] >= 0xaa && c[2] <= 0xae));
    bool isolates = c[1] == 0x81 && c[2] >= 0xa6 && c[2] <= 0xa9;
    return marks || isolates ? 3 : 0;
}

void ole_quote_in_place(char *text) {
    while (*text) {
        size_t length = ole_control_length(text);
        memset(text, '?', length);
        text += length > 0 ? length : 1;
    }
}

static size_t find_any(const char *bytes, size_t from, size_t length, const char *any) {
    while (from < length && (!bytes[from] || !strchr(any, bytes[from])))
        from++;
    return from;
}

/* Where the authority of a URL begins, behind "://"; 0: this is none. */
static size_t find_authority(const char *bytes, size_t length) {
    size_t at = 0;
    while (at < length && (isalnum((unsigned char)bytes[at]) || strchr("+-.", bytes[at])) &&
           bytes[at])
        at++;
    return at > 0 && length - at > 3 && memcmp(bytes + at, "://", 3) == 0 ? at + 3 : 0;
}

/* Copies at most room - 1 bytes of a URL without its secrets, and returns how many. */
static size_t copy_public(const char *url, size_t length, size_t authority, char *to, size_t room) {
    size_t end = find_any(url, authority, length, "/?#"), host = end;
    while (host > authority && url[host - 1] != '@')
        host--;
    size_t query = find_any(url, end, length, "?#"), hash = find_any(url, query, length, "#");
    const size_t parts[][2] = {{0, authority}, {host, query}, {hash, length}};
    size_t used = 0;
    for (int i = 0; i < 3; i++) {
        size_t size = parts[i][1] - parts[i][0];
        if (size > room - 1 - used) size = room - 1 - used;
        memcpy(to + used, url + parts[i][0], size);
        used += size;
    }
    to[used] = '\0';
    return used;
}

char *ole_without_secrets(const char *text) {
    size_t length = strlen(text), authority = find_authority(text, length);
    char *copy = malloc(length + 1);
    if (!copy) return NULL;
    if (authority > 0)
        copy_public(text, length, authority, copy, length + 1);
    else
        memcpy(copy, text, length + 1);
    return copy;
}

ole_quoted ole_quote(const char *bytes, size_t length) {
    ole_quoted quoted;
    char url[2048];
    size_t authority = length > 0 ? find_authority(bytes, length) : 0;
    if (authority > 0) {
        length = copy_public(bytes, length, authority, url, sizeof url);
        bytes = url;
    }
    size_t room = sizeof quoted.text - 1;
    size_t used = length;
    if (length <= room) {
        if (length > 0) memcpy(quoted.text, bytes, length);
    } else {
        size_t tail = room - HEAD - DOTS;
        memcpy(quoted.text, bytes, HEAD);
        memcpy(quoted.text + HEAD, "...", DOTS);
        memcpy(quoted.text + HEAD + DOTS, bytes + length - tail, tail);
        used = room;
    }
    for (size_t i = 0; i < used; i++)
        if (!quoted.text[i]) quoted.text[i] = '?';
    quoted.text[used] = '\0';
    ole_quote_in_place(quoted.text);
    return quoted;
}

ole_quoted ole_quote_string(const char *string) {
    if (!string) string = "(null)";
    return ole_quote(string, strlen(string));
}

char *ole_shell_word(const char *word) {
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "_./+-:,=@%";
    if (*word && word[strspn(word, plain)] == '\0') return strdup(word);
    size_t room = 4 * strlen(word) + 4, used = 0; /* a byte becomes at most \xNN or '\'' */
    char *quoted = malloc(room);
    if (!quoted) return NULL;
    bool controls = false; /* these $'...' alone can hold */
    for (const char *at = word; *at; at++)
        controls |= ole_control_length(at) > 0;
    const char *escape = controls ? "\\%c" : "'\\%c'";
    used += (size_t)snprintf(quoted, room, controls ? "$'" : "'");
    for (size_t control = 0; *word; word++) {
        const char *format = "%c";
        if (control == 0) control = ole_control_length(word);
        if (control > 0)
            format = "\\x%02x";
        else if (*word == '\'' || (controls && *word == '\\'))
            format = escape;
        used += (size_t)snprintf(quoted + used, room - used, format, (unsigned char)*word);
        control -= control > 0;
    }
    snprintf(quoted + used, room - used, "'");
    return quoted;
}
