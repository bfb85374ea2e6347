/*
 * src/model/row_marks.h - which rows a map of embeddings was fitted on: hashes of a few of them,
 * stored with the model, so that it knows them again in any file, order or share.
 */
#ifndef OLE_SRC_MODEL_ROW_MARKS_H
#define OLE_SRC_MODEL_ROW_MARKS_H

#include <stdint.h>

enum { OLE_ROW_MARKS = 32, OLE_ROW_MARKS_TEXT = 17 * OLE_ROW_MARKS + 1 };

typedef struct ole_row_marks {
    int count; /* 0: not known */
    uint64_t mark[OLE_ROW_MARKS];
} ole_row_marks;

/* Adds the mark of a row of `size` numbers, unless it is there or the room is used up. */
void ole_row_marks_add(ole_row_marks *marks, const float *row, int64_t size);

/* As files have them: hexadecimal, with commas; "" for none. */
void ole_row_marks_write(const ole_row_marks *marks, char text[OLE_ROW_MARKS_TEXT]);

/* The marks of a text; those before its first mistake, none for NULL. */
void ole_row_marks_read(ole_row_marks *marks, const char *text);

#endif
