/*
 * src/report/text_table.h - a table of texts, written on a page, in a Markdown file or in a CSV
 * file.
 *
 *     static const char *const names[] = {"lambda", "test error"};
 *     ole_text_table table = {.columns = 2, .names = names};
 *     ole_text_table_row(&table, "%g|%.2f %%", 0.25, 7.22);
 *     ole_text_table_print_csv(&table, stdout);
 *     ole_text_table_free(&table);
 */
#ifndef OLE_SRC_REPORT_TEXT_TABLE_H
#define OLE_SRC_REPORT_TEXT_TABLE_H

#include "report/page.h"

#include <stdio.h>

typedef struct ole_text_table {
    int columns;
    const char *const *names; /* [columns] */
    int64_t count;            /* cells, row by row */
    char **cells;
    bool out_of_memory; /* a cell was lost: a page with the table cannot be written */
} ole_text_table;

/* Adds a row, or the next cell.  Bars in the format, and no others, separate the cells of a row. */
OLE_INTERNAL void ole_text_table_row(ole_text_table *table, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
OLE_INTERNAL void ole_text_table_add(ole_text_table *table, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
OLE_INTERNAL void ole_text_table_free(ole_text_table *table);

/* Adds the table, unless it has no rows, and frees it. */
OLE_INTERNAL void ole_text_table_add_to_page(ole_text_table *table, ole_page *page,
                                             const char *caption);
OLE_INTERNAL void ole_text_table_print_markdown(const ole_text_table *table, FILE *file);
OLE_INTERNAL void ole_text_table_print_csv(const ole_text_table *table, FILE *file);

#endif
