/* src/formats/table.h - text in cells: .csv files, and lists of one line each. */
#ifndef OLE_SRC_FORMATS_TABLE_H
#define OLE_SRC_FORMATS_TABLE_H

#include "base/export.h"

typedef struct ole_table {
    int64_t rows, columns;
    const char **cells; /* [rows, columns] */
    int64_t first_line; /* line of row 0, from 1 on */
    char *text;         /* private: what the cells point into */
} ole_table;

typedef enum ole_table_part {
    OLE_TABLE_LINES,  /* each line is one cell */
    OLE_TABLE_COLUMN, /* of a .csv file, the column by that name or number, from 1 on */
    OLE_TABLE_OTHERS, /* ... all columns but that one, or (NULL) all */
} ole_table_part;

/*
 * The first line is a header where it names the column, or holds no number while the next one does.
 * Free the table after a failure too.
 */
OLE_INTERNAL ole_status ole_table_read(ole_table *table, const char *path, ole_table_part part,
                                       const char *column, ole_error *error);
OLE_INTERNAL void ole_table_free(ole_table *table);

#endif
