/*
 * src/device/cuda/conv/cache.c - reads and writes the file of measured algorithms.
 *
 * It is text: a header, then one line per problem with its key, microseconds, the algorithm and a
 * checksum of the line.  Lines with a wrong checksum are ignored; a file with another header counts
 * as empty.  The file is read again before it is written, so results of other processes are kept;
 * if two have an algorithm for one problem, the writer's own stays.
 */
#include "device/cuda/conv/cache.h"

#include "base/atomic_file.h"
#include "base/fnv.h"
#include "base/memory_file.h"
#include "base/read_file.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define HEADER "ole measured ways, format 1"

enum { MAX_BYTES = 16 << 20, MAX_KEY = 128, MAX_ALGORITHM = 400 };

typedef struct line {
    char key[MAX_KEY], algorithm[MAX_ALGORITHM];
    double microseconds;
    bool own; /* measured here, not read */
} line;

struct cuda_cache {
    char *path; /* NULL: no file */
    line *lines;
    size_t count, room;
};

/* ---- lines -------------------------------------------------------------------------------- */

static line *find(const cuda_cache *cache, const char *key) {
    for (size_t i = 0; i < cache->count; i++)
        if (strcmp(cache->lines[i].key, key) == 0) return &cache->lines[i];
    return NULL;
}

/* The line of `key`, new if there was none; NULL: no memory. */
static line *place_of(cuda_cache *cache, const char *key) {
    line *known = find(cache, key);
    if (known) return known;
    if (cache->count == cache->room) {
        size_t room = cache->room ? 2 * cache->room : 64;
        line *more = realloc(cache->lines, room * sizeof *more);
        if (!more) return NULL;
        cache->lines = more;
        cache->room = room;
    }
    return &cache->lines[cache->count++];
}

static void put(cuda_cache *cache, const line *added) {
    const line *known = find(cache, added->key);
    if (known && known->own && !added->own) return;
    line *place = place_of(cache, added->key);
    if (place) *place = *added;
}

/* ---- the file ----------------------------------------------------------------------------- */

static void read_line(cuda_cache *cache, const char *text) {
    line read = {.own = false};
    unsigned sum;
    int body = 0;
    if (sscanf(text, "%127s %lf %399s%n %x", read.key, &read.microseconds, read.algorithm, &body,
               &sum) == 4 &&
        ole_fnv32(text, (size_t)body) == sum)
        put(cache, &read);
}

void cuda_cache_refresh(cuda_cache *cache) {
    char *bytes, *rest;
    size_t size;
    if (!cache->path || ole_read_file(cache->path, MAX_BYTES, &bytes, &size, NULL) != OLE_OK)
        return;
    char *text = strtok_r(bytes, "\n", &rest);
    if (text && strcmp(text, HEADER) == 0)
        while ((text = strtok_r(NULL, "\n", &rest)))
            read_line(cache, text);
    free(bytes);
}

static void print_lines(const cuda_cache *cache, FILE *file) {
    fprintf(file, "%s\n", HEADER);
    for (size_t i = 0; i < cache->count; i++) {
        const line *l = &cache->lines[i];
        char text[MAX_KEY + MAX_ALGORITHM + 32];
        int size = snprintf(text, sizeof text, "%s %.3f %s", l->key, l->microseconds, l->algorithm);
        if (size < 0 || (size_t)size >= sizeof text) continue;
        fprintf(file, "%s %08x\n", text, (unsigned)ole_fnv32(text, (size_t)size));
    }
}

static void write_lines(const cuda_cache *cache) {
    ole_memory_file memory;
    if (!cache->path || !ole_memory_file_open(&memory)) return;
    print_lines(cache, memory.file);
    char *bytes = ole_memory_file_close(&memory);
    if (bytes) {
        ole_atomic_file file;
        ole_status status = ole_atomic_file_begin(&file, cache->path, NULL);
        if (status == OLE_OK) status = ole_atomic_file_write(&file, bytes, memory.size, NULL);
        if (status == OLE_OK) ole_atomic_file_commit(&file, NULL);
        ole_atomic_file_abort(&file);
    }
    free(bytes);
}

/* ---- where it lies ------------------------------------------------------------------------ */

/* parent/child; NULL: no memory or no parent. */
static char *join(const char *parent, const char *child) {
    char *path = NULL;
    if (!parent || asprintf(&path, "%s/%s", parent, child) < 0) return NULL;
    return path;
}

static char *folder(void) {
    const char *own = getenv("OLE_CACHE"), *shared = getenv("XDG_CACHE_HOME");
    if (own) {
        if (*own) mkdir(own, 0777);
        return *own ? strdup(own) : NULL;
    }
    char *parent = shared && *shared ? strdup(shared) : join(getenv("HOME"), ".cache");
    char *result = join(parent, "ole");
    if (parent) mkdir(parent, 0700);
    if (result) mkdir(result, 0777);
    free(parent);
    return result;
}

cuda_cache *cuda_cache_open(const char *file) {
    cuda_cache *cache = calloc(1, sizeof *cache);
    if (!cache) return NULL;
    char *where = folder();
    cache->path = join(where, file);
    free(where);
    cuda_cache_refresh(cache);
    return cache;
}

void cuda_cache_close(cuda_cache *cache) {
    if (!cache) return;
    free(cache->path);
    free(cache->lines);
    free(cache);
}

const char *cuda_cache_find(const cuda_cache *cache, const char *key) {
    const line *known = find(cache, key);
    return known ? known->algorithm : NULL;
}

void cuda_cache_put(cuda_cache *cache, const char *key, const char *algorithm,
                    double microseconds) {
    line added = {.microseconds = microseconds, .own = true};
    if (strlen(key) >= sizeof added.key || strlen(algorithm) >= sizeof added.algorithm) return;
    memcpy(added.key, key, strlen(key) + 1);
    memcpy(added.algorithm, algorithm, strlen(algorithm) + 1);
    put(cache, &added);
    cuda_cache_refresh(cache);
    write_lines(cache);
}
