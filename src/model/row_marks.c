/* src/model/row_marks.c - knowing the rows of a fit again; see row_marks.h. */
#include "model/row_marks.h"

#include "base/fnv.h"
#include "model/model.h"
#include "ole/train/model.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

void ole_row_marks_write(const ole_row_marks *marks, char text[OLE_ROW_MARKS_TEXT]) {
    text[0] = '\0';
    for (int i = 0; i < marks->count; i++)
        text += sprintf(text, "%s%016" PRIx64, i ? "," : "", marks->mark[i]);
}

void ole_row_marks_read(ole_row_marks *marks, const char *text) {
    marks->count = 0;
    for (char *end; text && *text && marks->count < OLE_ROW_MARKS; text = end + 1) {
        uint64_t mark = strtoull(text, &end, 16);
        if (end == text) return;
        marks->mark[marks->count++] = mark;
        if (*end != ',') return;
    }
}

static uint64_t mark_of(const float *row, int64_t size) {
    return ole_fnv64(row, (size_t)size * sizeof *row);
}

void ole_row_marks_add(ole_row_marks *marks, const float *row, int64_t size) {
    uint64_t mark = mark_of(row, size);
    for (int i = 0; i < marks->count; i++)
        if (marks->mark[i] == mark) return;
    if (marks->count < OLE_ROW_MARKS) marks->mark[marks->count++] = mark;
}

/* Two of them, or all there are: one row may be in both halves of divided data by chance. */
bool ole_model_fitted_on(const ole_model *model, const ole_dataset *set, ole_split split) {
    const ole_row_marks *marks = model ? ole_model_row_marks(model) : NULL;
    const ole_dataset_info *info = ole_dataset_get_info(set);
    if (!marks || !info || marks->count == 0 || (int)split < 0 || split > OLE_SPLIT_VALIDATION)
        return false;
    int64_t size = (int64_t)info->channels * info->height * info->width;
    float *row = malloc((size_t)size * sizeof *row);
    bool met[OLE_ROW_MARKS] = {false};
    int found = 0, enough = marks->count < 2 ? marks->count : 2;
    for (int64_t i = 0; row && found < enough && i < info->count[split]; i++) {
        if (ole_dataset_sample(set, split, i, row, NULL) != OLE_OK) break;
        uint64_t mark = mark_of(row, size);
        for (int k = 0; k < marks->count; k++)
            if (marks->mark[k] == mark && !met[k]) met[k] = true, found++;
    }
    free(row);
    return found >= enough;
}
