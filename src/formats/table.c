/*
 * src/formats/table.c - text in cells.
 *
 * Quoted cells follow RFC 4180, but end with their line.  A table grows with what was read, never
 * with what a file claims.
 */
#include "formats/table.h"

#include "base/error.h"
#include "base/number.h"
#include "base/quote.h"
#include "base/read_file.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static const size_t most_bytes = (size_t)1 << 36;

/* Takes the cell at *at, up to a comma (unless `whole`) or the end of the line; terminates it. */
static const char *take_cell(char **at, bool whole, bool *more) {
    char *from = *at, *to = from, *cell = from;
    if (!whole && *from == '"')
        for (from++; *from; *to++ = *from++)
            if (*from == '"' && *++from != '"') break; /* two are one of the text */
    while (*from && (whole || *from != ','))
        *to++ = *from++;
    *more = *from == ',';
    *at = from + (*from != '\0');
    *to = '\0';
    return cell;
}

static ole_status add_cell(ole_table *t, int64_t used, int64_t *room, const char *cell,
                           const char *name, ole_error *error) {
    if (used == *room) {
        *room = 2 * *room + 1024;
        const char **grown = realloc(t->cells, (size_t)*room * sizeof *grown);
        if (!grown) return ole_fail(error, OLE_ERROR_MEMORY, "%s: out of memory", name);
        t->cells = grown;
    }
    t->cells[used] = cell;
    return OLE_OK;
}

/* Splits lines into cells; all lines have as many. */
static ole_status split(ole_table *t, size_t size, bool whole, const char *name, ole_error *error) {
    int64_t used = 0, room = 0;
    char *end = t->text + size;
    while (end > t->text && (end[-1] == '\n' || end[-1] == '\r'))
        *--end = '\0';
    /* Spreadsheets begin a file with a byte-order mark. */
    char *first =
        end - t->text >= 3 && memcmp(t->text, "\xef\xbb\xbf", 3) == 0 ? t->text + 3 : t->text;
    for (char *at = first; at < end;) {
        char *stop = memchr(at, '\n', (size_t)(end - at)), *cell = at;
        if (!stop) stop = end;
        t->rows++;
        if (memchr(at, '\0', (size_t)(stop - at)))
            return ole_fail(error, OLE_ERROR_FORMAT,
                            "%s: line %" PRId64 " holds a zero byte, so the file is not text", name,
                            t->rows);
        *stop = '\0';
        if (stop > at && stop[-1] == '\r') stop[-1] = '\0';
        int64_t before = used;
        for (bool more = true; more;) {
            const char *text = take_cell(&cell, whole, &more);
            ole_status status = add_cell(t, used++, &room, text, name, error);
            if (status != OLE_OK) return status;
        }
        if (t->rows == 1) t->columns = used;
        if (used - before != t->columns)
            return ole_fail(error, OLE_ERROR_FORMAT,
                            "%s: line %" PRId64 " has %" PRId64 " columns, line 1 has %" PRId64,
                            name, t->rows, used - before, t->columns);
        at = stop + 1;
    }
    t->first_line = 1;
    if (t->rows > 0) return OLE_OK;
    return ole_fail(error, OLE_ERROR_FORMAT, "%s: the file is empty", name);
}

static bool is_number(const char *cell) {
    char *end;
    ole_number_read(cell, &end);
    return end > cell && end[strspn(end, " \t")] == '\0';
}

/* The column of that name, or else of that number, from 1 on; -1: there is none. */
static int64_t find_column(const ole_table *t, const char *name) {
    for (int64_t c = 0; c < t->columns; c++)
        if (strcmp(t->cells[c], name) == 0) return c;
    char *end;
    long number = strtol(name, &end, 10);
    return *name && !*end && number >= 1 && number <= t->columns ? number - 1 : -1;
}

static bool has_number(const ole_table *t, int64_t row) {
    for (int64_t c = 0; c < t->columns; c++)
        if (is_number(t->cells[row * t->columns + c])) return true;
    return false;
}

/*
 * One rule for features and labels, so that they agree about a file they share.  A first line of
 * which one cell is no number is a mistake in the data, not a header.  A list of words alone has no
 * header, unless its column is named.
 */
static bool find_header(const ole_table *t, int64_t column, const char *name, bool others) {
    if (column >= 0 && strcmp(t->cells[column], name) == 0) return true;
    return !has_number(t, 0) && (t->rows > 1 ? has_number(t, 1) : others);
}

/* Drops the header, and keeps one column, or all others. */
static ole_status pick(ole_table *t, const char *column, bool others, const char *name,
                       ole_error *error) {
    int64_t at = column ? find_column(t, column) : -1, used = 0;
    if (!others && !column)
        return ole_fail(error, OLE_ERROR_FORMAT, "%s: name the column of the labels, as in %s:%s",
                        name, name, ole_quote_string(t->cells[0]).text);
    if (column && at < 0)
        return ole_fail(error, OLE_ERROR_FORMAT,
                        "%s: no column '%s'; the first is '%s', the last '%s'", name,
                        ole_quote_string(column).text, ole_quote_string(t->cells[0]).text,
                        ole_quote_string(t->cells[t->columns - 1]).text);
    bool has_header = find_header(t, at, column, others);
    for (int64_t i = has_header ? t->columns : 0; i < t->rows * t->columns; i++)
        if (at < 0 || (i % t->columns == at) != others) t->cells[used++] = t->cells[i];
    t->first_line += has_header;
    t->rows -= has_header;
    if (at >= 0) t->columns = others ? t->columns - 1 : 1;
    if (t->rows > 0 && t->columns > 0) return OLE_OK;
    return ole_fail(error, OLE_ERROR_FORMAT, "%s: holds no rows", name);
}

ole_status ole_table_read(ole_table *table, const char *path, ole_table_part part,
                          const char *column, ole_error *error) {
    const ole_quoted quoted = ole_quote_string(path);
    const char *name = quoted.text;
    size_t size;
    *table = (ole_table){0};
    ole_status status = ole_read_file(path, most_bytes, &table->text, &size, error);
    if (status == OLE_OK) status = split(table, size, part == OLE_TABLE_LINES, name, error);
    if (status == OLE_OK && part != OLE_TABLE_LINES)
        status = pick(table, column, part == OLE_TABLE_OTHERS, name, error);
    return status;
}

void ole_table_free(ole_table *table) {
    free(table->cells);
    free(table->text);
    *table = (ole_table){0};
}
