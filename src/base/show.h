/* src/base/show.h - foreign bytes (a path, a piece of a file) made fit for a one-line message. */
#ifndef OLE_SRC_BASE_SHOW_H
#define OLE_SRC_BASE_SHOW_H

#include <stddef.h>

/* Room for a shown text: short enough that a message still has room to say what is wrong. */
typedef struct ole_shown {
    char text[200];
} ole_shown;

/*
 * Copies `length` bytes, control characters as '?'; a text too long loses its middle to "...".
 * Returns shown->text, for use as an argument of ole_fail().
 */
const char *ole_show(ole_shown *shown, const char *bytes, size_t length);

/* The same for a terminated string; "(null)" for NULL. */
const char *ole_show_string(ole_shown *shown, const char *string);

/*
 * In place: every byte of a control character (of ASCII, or U+0080 to U+009F) becomes '?', so that
 * the text is one line and cannot steer a terminal.
 */
void ole_show_plainly(char *text);

#endif
