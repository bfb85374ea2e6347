/*
 * src/base/quote.h - short texts by value: printed ones, and untrusted text (a path, part of a
 * file) that is made fit for a one-line message.
 */
#ifndef OLE_SRC_BASE_QUOTE_H
#define OLE_SRC_BASE_QUOTE_H

#include "base/error.h"

#include <stddef.h>

typedef struct ole_short_text {
    char text[640];
} ole_short_text;

/*
 * A text that needs no buffer of the caller; it lives until the end of the statement:
 *
 *     ole_page_headline(page, "AUC", ole_printed("%.4f", auc).text, NULL);
 */
OLE_INTERNAL ole_short_text ole_printed(const char *format, ...) OLE_PRINTF(1, 2);

/* Room for a quoted text: short enough to leave room for the rest of a message. */
typedef struct ole_quoted {
    char text[200];
} ole_quoted;

/*
 * Copies `length` bytes, control characters as '?'; the middle of a long text becomes "...", and a
 * URL loses what may be secret, as in ole_without_secrets().  As an argument:
 *
 *     ole_fail(error, OLE_ERROR_IO, "%s: cannot open", ole_quote_string(path).text);
 */
OLE_INTERNAL ole_quoted ole_quote(const char *bytes, size_t length);

/* The same for a terminated string; "(null)" for NULL. */
OLE_INTERNAL ole_quoted ole_quote_string(const char *string);

/* A copy; of a URL without user, password and query, which may hold a token. free() it. NULL: out
 * of memory. */
OLE_INTERNAL char *ole_without_secrets(const char *text);

/* A word of a command that is to be pasted, quoted for the shell where needed; free() it. NULL: out
 * of memory. */
OLE_INTERNAL char *ole_shell_word(const char *word);

/*
 * How many bytes at `text`, which is terminated, are a character that controls a terminal or
 * reorders the text around it: of ASCII, U+0080 to U+009F, or one of Unicode's bidirectional
 * controls; else 0.
 */
OLE_INTERNAL size_t ole_control_length(const char *text);

/* In place: every byte of such a character becomes '?', so that the text stays on one line. */
OLE_INTERNAL void ole_quote_in_place(char *text);

#endif
