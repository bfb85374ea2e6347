/*
 * src/report/text.h - a growing text, for SVG, HTML and what they embed.
 *
 *     ole_text text = {0};
 *     ole_text_add(&text, "<p>");
 *     ole_text_escaped(&text, "a < b");
 *     if (text.failed) ... // out of memory: one check for everything added
 *     ole_text_free(&text);
 *
 * Numbers are written with a point whatever the locale, and the same number always as the same
 * characters.
 */
#ifndef OLE_SRC_REPORT_TEXT_H
#define OLE_SRC_REPORT_TEXT_H

#include "base/error.h"

#include <stdbool.h>

typedef struct ole_text {
    char *bytes; /* terminated once something was added */
    size_t size, room;
    bool failed;
} ole_text;

void ole_text_free(ole_text *text);

void ole_text_bytes(ole_text *text, const void *bytes, size_t size);
void ole_text_add(ole_text *text, const char *string);

/* printf; for integers and strings, as numbers with a point would follow the locale. */
void ole_text_format(ole_text *text, const char *format, ...) OLE_PRINTF(2, 3);

/* For XML and HTML, in text and attributes; control characters and invalid UTF-8 become '?'. */
void ole_text_escaped(ole_text *text, const char *string);

/* The same between two strings that are markup; NULL is "". */
void ole_text_between(ole_text *text, const char *before, const char *string, const char *after);

/* Rounded to hundredths, without needless zeros: for coordinates. */
void ole_text_hundredths(ole_text *text, double value);

void ole_text_base64(ole_text *text, const void *bytes, size_t size);

/* `value` with so many significant digits, as "0.25", "1e-06", "-3" (a real minus sign is shown).
 */
enum { OLE_NUMBER_ROOM = 48 };
const char *ole_shown_number(char out[OLE_NUMBER_ROOM], double value, int digits);

/* Length in bytes of the UTF-8 character at `s` (0: malformed, or a control character). */
size_t ole_utf8_length(const char *s);

#endif
