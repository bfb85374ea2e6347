/*
 * src/report/text_table.c - tables of texts.
 */
#include "report/text_table.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

void ole_text_table_add(ole_text_table *t, const char *format, ...) {
    char **cells = realloc(t->cells, ((size_t)t->count + 1) * sizeof *cells);
    va_list args;
    if (cells) t->cells = cells;
    va_start(args, format);
    bool good = cells && vasprintf(&cells[t->count], format, args) >= 0;
    va_end(args);
    t->count += good;
    t->out_of_memory |= !good;
}

/* The bars of the format become a character that no text has. */
void ole_text_table_row(ole_text_table *t, const char *format, ...) {
    char *separated = strdup(format), *line = NULL;
    va_list args;
    for (char *bar = separated; bar && (bar = strchr(bar, '|'));)
        *bar = '\x1f';
    va_start(args, format);
    if (!separated || vasprintf(&line, separated, args) < 0) line = NULL;
    va_end(args);
    t->out_of_memory |= !line;
    char *rest = line;
    for (int c = 0; c < t->columns && line; c++) {
        const char *cell = strsep(&rest, "\x1f");
        ole_text_table_add(t, "%s", cell ? cell : "");
    }
    free(separated);
    free(line);
}

void ole_text_table_free(ole_text_table *t) {
    for (int64_t i = 0; i < t->count; i++)
        free(t->cells[i]);
    free(t->cells);
    t->cells = NULL;
    t->count = 0;
}

void ole_text_table_add_to_page(ole_text_table *t, ole_page *page, const char *caption) {
    if (t->out_of_memory) ole_page_fail(page, OLE_ERROR_MEMORY, "page: out of memory for a table");
    if (t->count >= t->columns)
        ole_page_table(page, caption, t->count / t->columns, t->columns, t->names,
                       (const char *const *)t->cells);
    ole_text_table_free(t);
}

/* ---- Files -------------------------------------------------------------------------------- */

static void print_row(FILE *file, const char *const *cells, int columns) {
    fprintf(file, "|");
    for (int c = 0; c < columns; c++) {
        fprintf(file, " ");
        for (const char *at = cells[c]; *at; at++) {
            if (*at == '|') fputc('\\', file); /* a bar would end the cell */
            fputc(*at == '\n' ? ' ' : *at, file);
        }
        fprintf(file, " |");
    }
    fprintf(file, "\n");
}

void ole_text_table_print_markdown(const ole_text_table *t, FILE *file) {
    print_row(file, t->names, t->columns);
    for (int c = 0; c < t->columns; c++)
        fprintf(file, "|---");
    fprintf(file, "|\n");
    for (int64_t i = 0; i + t->columns <= t->count; i += t->columns)
        print_row(file, (const char *const *)t->cells + i, t->columns);
}

static void print_field(FILE *file, const char *text) {
    bool quoted = strpbrk(text, ",\"\n") != NULL;
    if (quoted) fputc('"', file);
    for (; *text; text++) {
        if (*text == '"') fputc('"', file);
        fputc(*text, file);
    }
    if (quoted) fputc('"', file);
}

void ole_text_table_print_csv(const ole_text_table *t, FILE *file) {
    for (int64_t i = -t->columns; i < t->count; i++) {
        print_field(file, i < 0 ? t->names[i + t->columns] : t->cells[i]);
        fputc((i + t->columns + 1) % t->columns ? ',' : '\n', file);
    }
}
