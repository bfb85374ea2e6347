/*
 * src/report/text_table.h - a table of texts, written on a page, in a Markdown file or in a CSV
 * file.
 *
 *     static const char *const names[] = {"lambda", "test error"};
 *     ole_text_table table = {.columns = 2, .names = names};
 *     ole_text_table_add(&table, "%g", 0.25);
 *     ole_text_table_add(&table, "%.2f %%", 7.22);
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

/* Adds the next cell. */
OLE_INTERNAL void ole_text_table_add(ole_text_table *table, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
OLE_INTERNAL void ole_text_table_free(ole_text_table *table);

/* A table without rows adds nothing. */
OLE_INTERNAL void ole_text_table_add_to_page(const ole_text_table *table, ole_page *page,
                                             const char *caption);
OLE_INTERNAL void ole_text_table_print_markdown(const ole_text_table *table, FILE *file);
OLE_INTERNAL void ole_text_table_print_csv(const ole_text_table *table, FILE *file);

#endif
