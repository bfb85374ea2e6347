/* src/net/memory.c - greedy placement of tensors in one block, largest first. */
#include "net/memory.h"

#include <stdlib.h>

enum { ALIGN = 64 };

static int root_of(const ole_lifetime *tensor, int i) {
    while (tensor[i].alias >= 0)
        i = tensor[i].alias;
    return i;
}

/* Extends a tensor to cover the lifetimes and sizes of all aliases that share its memory. */
static void merge_aliases(ole_lifetime *tensor, int count) {
    for (int i = 0; i < count; i++) {
        int r = root_of(tensor, i);
        if (r == i) continue;
        if (tensor[i].bytes > tensor[r].bytes) tensor[r].bytes = tensor[i].bytes;
        if (tensor[i].first < tensor[r].first) tensor[r].first = tensor[i].first;
        if (tensor[i].last > tensor[r].last) tensor[r].last = tensor[i].last;
    }
}

typedef struct entry {
    size_t bytes;
    int index;
} entry;

static int larger_first(const void *x, const void *y) {
    const entry *a = x, *b = y;
    if (a->bytes != b->bytes) return a->bytes < b->bytes ? 1 : -1;
    return a->index - b->index;
}

static size_t padded(size_t bytes) {
    return (bytes + ALIGN - 1) / ALIGN * ALIGN;
}

/*
 * The lowest offset where t overlaps no tensor that is alive at the same time. `placed` is sorted
 * by offset.
 */
static size_t lowest_offset(const ole_lifetime *tensor, const int *placed, int count,
                            const ole_lifetime *t) {
    size_t offset = 0;
    for (int i = 0; i < count; i++) {
        const ole_lifetime *p = &tensor[placed[i]];
        if (p->last < t->first || t->last < p->first) continue;
        if (offset + padded(t->bytes) <= p->offset) break;
        if (p->offset + padded(p->bytes) > offset) offset = p->offset + padded(p->bytes);
    }
    return offset;
}

static void insert_by_offset(const ole_lifetime *tensor, int *placed, int count, int index) {
    int i = count;
    for (; i > 0 && tensor[placed[i - 1]].offset > tensor[index].offset; i--)
        placed[i] = placed[i - 1];
    placed[i] = index;
}

size_t ole_place_all(ole_lifetime *tensor, int count) {
    entry *order = malloc((size_t)(count + 1) * sizeof *order);
    int *placed = malloc((size_t)(count + 1) * sizeof *placed), roots = 0, done = 0;
    size_t size = 0;
    if (!order || !placed) {
        size = SIZE_MAX;
        goto end;
    }
    merge_aliases(tensor, count);
    for (int i = 0; i < count; i++)
        if (tensor[i].alias < 0 && tensor[i].bytes) order[roots++] = (entry){tensor[i].bytes, i};
    qsort(order, (size_t)roots, sizeof *order, larger_first);
    for (int i = 0; i < roots; i++) {
        ole_lifetime *t = &tensor[order[i].index];
        t->offset = lowest_offset(tensor, placed, done, t);
        if (t->offset + padded(t->bytes) > size) size = t->offset + padded(t->bytes);
        insert_by_offset(tensor, placed, done++, order[i].index);
    }
    for (int i = 0; i < count; i++)
        tensor[i].offset = tensor[root_of(tensor, i)].offset;
end:
    free(order);
    free(placed);
    return size;
}

size_t ole_sum_all(const ole_lifetime *tensor, int count) {
    size_t sum = 0;
    for (int i = 0; i < count; i++)
        sum += padded(tensor[i].bytes);
    return sum;
}
