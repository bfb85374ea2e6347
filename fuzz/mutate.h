/*
 * fuzz/mutate.h - random damage to a file in memory, for the drivers that read files.
 */
#ifndef OLE_FUZZ_MUTATE_H
#define OLE_FUZZ_MUTATE_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

static uint64_t random_state;

static inline uint64_t next_random(uint64_t below) {
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (random_state >> 33) % below;
}

/*
 * Changes a byte or a bit, cuts the end or a piece, or inserts one of `count` words that the format
 * knows; returns the new size, at most `room`.
 */
static inline size_t mutate(uint8_t *bytes, size_t size, size_t room, const char *const *words,
                            size_t count) {
    size_t at = (size_t)next_random(size + 1);
    switch (next_random(5)) {
    case 0:
        if (at < size) bytes[at] = (uint8_t)next_random(256);
        return size;
    case 1:
        if (at < size) bytes[at] ^= (uint8_t)(1u << next_random(8));
        return size;
    case 2:
        return at;
    case 3: {
        size_t cut = at + (size_t)next_random(8);
        if (cut >= size) return at;
        memmove(bytes + at, bytes + cut, size - cut);
        return size - (cut - at);
    }
    default: {
        const char *word = words[next_random(count)];
        size_t length = strlen(word);
        if (size + length > room) return size;
        memmove(bytes + at + length, bytes + at, size - at);
        memcpy(bytes + at, word, length);
        return size + length;
    }
    }
}

#endif
