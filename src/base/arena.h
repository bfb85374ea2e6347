/*
 * src/base/arena.h - one block of memory for everything a plan needs.
 *
 * The same code runs twice: once with base = NULL to count, once with the block to hand out:
 *
 *     ole_arena arena = {0};
 *     place_everything(plan, &arena); // counts
 *     plan->memory = ole_arena_reserve(&arena);
 *     if (!plan->memory) return out_of_memory(arena.used);
 *     place_everything(plan, &arena); // places
 */
#ifndef OLE_SRC_BASE_ARENA_H
#define OLE_SRC_BASE_ARENA_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

enum { OLE_ALIGNMENT = 64 };

typedef struct ole_arena {
    char *base;
    size_t used; /* SIZE_MAX once a request has overflowed */
} ole_arena;

/* The next `count` elements of `size` bytes, aligned; NULL while counting. */
static inline void *ole_arena_take(ole_arena *arena, int64_t count, size_t size) {
    size_t bytes, padded;
    if (arena->used == SIZE_MAX || count < 0 ||
        __builtin_mul_overflow((size_t)count, size, &bytes) ||
        __builtin_add_overflow(bytes, (size_t)OLE_ALIGNMENT - 1, &padded) ||
        __builtin_add_overflow(arena->used, padded / OLE_ALIGNMENT * OLE_ALIGNMENT, &padded)) {
        arena->used = SIZE_MAX;
        return NULL;
    }
    void *place = arena->base ? arena->base + arena->used : NULL;
    arena->used = padded;
    return place;
}

/* An aligned block of that many bytes (free() it), or NULL. */
static inline void *ole_arena_allocate(size_t bytes) {
    if (bytes > (size_t)PTRDIFF_MAX - OLE_ALIGNMENT) return NULL;
    size_t whole = (bytes + OLE_ALIGNMENT - 1) / OLE_ALIGNMENT * OLE_ALIGNMENT;
    return aligned_alloc(OLE_ALIGNMENT, whole ? whole : OLE_ALIGNMENT);
}

/* A block of what was counted, which the next pass takes from (free() it), or NULL. */
static inline void *ole_arena_reserve(ole_arena *arena) {
    void *block = ole_arena_allocate(arena->used);
    if (block) *arena = (ole_arena){.base = (char *)block};
    return block;
}

#endif
