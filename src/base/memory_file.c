/* src/base/memory_file.c - a stream into memory, by fopencookie(). */
#include "base/memory_file.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static bool make_room(ole_memory_file *m, size_t length) {
    enum { FIRST = 256 };
    if (length > SIZE_MAX / 4 - m->size) return false;
    size_t needed = m->size + length + 1, room = m->room ? m->room : FIRST;
    while (room < needed)
        room *= 2;
    if (room == m->room) return true;
    char *more = realloc(m->bytes, room);
    if (!more) return false;
    m->bytes = more;
    m->room = room;
    return true;
}

/* Returning less than `length` sets the stream's error flag. */
static ssize_t append(void *cookie, const char *bytes, size_t length) {
    ole_memory_file *m = cookie;
    if (m->failed || !make_room(m, length)) {
        m->failed = true;
        return 0;
    }
    memcpy(m->bytes + m->size, bytes, length);
    m->size += length;
    m->bytes[m->size] = '\0';
    return (ssize_t)length;
}

bool ole_memory_file_open(ole_memory_file *m) {
    *m = (ole_memory_file){0};
    m->failed = !make_room(m, 0);
    if (m->failed) return false;
    m->bytes[0] = '\0';
    m->file = fopencookie(m, "w", (cookie_io_functions_t){.write = append});
    m->failed = !m->file;
    return !m->failed;
}

char *ole_memory_file_close(ole_memory_file *m) {
    bool good = m->file && fclose(m->file) == 0 && !m->failed;
    m->file = NULL;
    if (good) return m->bytes;
    free(m->bytes);
    m->bytes = NULL;
    return NULL;
}
