/*
 * src/loss/group.c - sorting rows by label with memory of the plan's own (the C library's qsort may
 * allocate, and is not stable).
 */
#include "loss/group.h"

#include <stdbool.h>

void ole_groups_lay_out(ole_groups *groups, ole_arena *arena, int64_t max_rows) {
    groups->order = ole_arena_take(arena, max_rows, sizeof(int64_t));
    groups->spare = ole_arena_take(arena, max_rows, sizeof(int64_t));
    groups->label = ole_arena_take(arena, max_rows, sizeof(int64_t));
    groups->start = ole_arena_take(arena, max_rows + 1, sizeof(int64_t));
}

int64_t ole_label_at(const void *labels, ole_dtype type, int64_t i) {
    return type == OLE_I32 ? ((const int32_t *)labels)[i] : ((const int64_t *)labels)[i];
}

/* Merges the sorted runs from[low:middle] and from[middle:high] into to[low:high]. */
static void merge(const void *labels, ole_dtype type, const int64_t *from, int64_t *to, int64_t low,
                  int64_t middle, int64_t high) {
    int64_t i = low, j = middle;
    for (int64_t k = low; k < high; k++) {
        bool left = j == high || (i < middle && ole_label_at(labels, type, from[i]) <=
                                                    ole_label_at(labels, type, from[j]));
        to[k] = left ? from[i++] : from[j++];
    }
}

static void sort_by_label(ole_groups *groups, const void *labels, ole_dtype type) {
    int64_t n = groups->rows;
    for (int64_t width = 1; width < n; width *= 2) {
        for (int64_t low = 0; low < n; low += 2 * width) {
            int64_t middle = low + width < n ? low + width : n;
            int64_t high = low + 2 * width < n ? low + 2 * width : n;
            merge(labels, type, groups->order, groups->spare, low, middle, high);
        }
        int64_t *sorted = groups->spare;
        groups->spare = groups->order;
        groups->order = sorted;
    }
}

void ole_groups_fill(ole_groups *groups, const void *labels, ole_dtype type, int64_t rows) {
    groups->rows = groups->classes = 0;
    for (int64_t i = 0; i < rows; i++)
        if (ole_label_at(labels, type, i) >= 0) groups->order[groups->rows++] = i;
    sort_by_label(groups, labels, type);
    for (int64_t i = 0; i < groups->rows; i++) {
        int64_t label = ole_label_at(labels, type, groups->order[i]);
        if (groups->classes && groups->label[groups->classes - 1] == label) continue;
        groups->label[groups->classes] = label;
        groups->start[groups->classes++] = i;
    }
    groups->start[groups->classes] = groups->rows;
}
