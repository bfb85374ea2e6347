/*
 * fuzz/files.h - what the drivers that read files share: a temporary file, checks, random damage.
 */
#ifndef OLE_FUZZ_FILES_H
#define OLE_FUZZ_FILES_H

#include "ole/base.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static inline void require(bool condition, const char *what) {
    if (condition) return;
    fprintf(stderr, "fuzz: %s\n", what);
    abort();
}

static char path[64];
static volatile unsigned sink; /* takes every byte of the data, so that each is really read */

static void remove_file(void) {
    unlink(path);
}

/* One file, used again and again; in memory where the system has such a place. */
static inline void put_file(const uint8_t *bytes, size_t size) {
    static int fd = -1;
    if (fd < 0) {
        strcpy(path,
               access("/dev/shm", W_OK) == 0 ? "/dev/shm/ole-fuzz-XXXXXX" : "/tmp/ole-fuzz-XXXXXX");
        fd = mkstemp(path);
        require(fd >= 0, "cannot make a temporary file");
        atexit(remove_file);
    }
    require(ftruncate(fd, 0) == 0 && pwrite(fd, bytes, size, 0) == (ssize_t)size,
            "cannot write the temporary file");
}

/* An error is one terminated line, of the status returned. */
static inline void check_error(ole_status status, const ole_error *error) {
    require(error->status == status, "the error has another status");
    require(memchr(error->message, '\0', sizeof error->message) != NULL, "no end of the message");
    require(error->message[0] != '\0', "the message is empty");
    require(strpbrk(error->message, "\n\r\x1b") == NULL, "the message is not one plain line");
}

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

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

/* The program without libFuzzer, NAME [COUNT [SEED]]: COUNT inputs, each a good one of `room` bytes
 * at most that make() writes, mutated up to three times. */
static inline int fuzz_files(int argc, char **argv, const char *name, size_t room,
                             size_t (*make)(uint8_t *bytes), const char *const *words,
                             size_t words_count) {
    long count = argc > 1 ? strtol(argv[1], NULL, 10) : 20000;
    random_state = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    uint8_t *bytes = malloc(room);
    require(bytes != NULL, "out of memory");
    for (long i = 0; i < count; i++) {
        size_t size = make(bytes);
        for (uint64_t m = next_random(4); m > 0; m--)
            size = mutate(bytes, size, room, words, words_count);
        LLVMFuzzerTestOneInput(bytes, size);
    }
    free(bytes);
    printf("%s: %ld files\n", name, count);
    return 0;
}

#endif
