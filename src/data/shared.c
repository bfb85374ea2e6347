/*
 * src/data/shared.c - samples in a memory file that other processes map.
 *
 * The file: a header, the labels, the names of the classes (each with its 0), and from a page's
 * beginning on the samples.  Nobody writes to it once it is published.
 */
#include "data/shared.h"

#include "base/clock.h"
#include "base/error.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PAGE = 65536 }; /* as large as pages come */

typedef struct header {
    uint64_t token;
    size_t samples_at, size;
    ole_source source; /* without its pointers */
} header;

static size_t samples_bytes(const ole_source *source) {
    size_t item = source->floating ? sizeof(float) : 1;
    return (size_t)source->count * (size_t)ole_source_sample_size(source) * item;
}

static size_t labels_bytes(int64_t count) {
    return (size_t)count * sizeof(int32_t);
}

static header describe(const ole_source *source, uint64_t token) {
    header h = {.token = token, .source = *source};
    h.source.class_names = h.source.files = NULL;
    h.source.file_count = 0;
    h.source.bytes = NULL;
    h.source.floats = NULL;
    h.source.labels = NULL;
    size_t before = sizeof h + labels_bytes(source->count);
    for (int c = 0; c < source->classes; c++)
        before += strlen(source->class_names[c]) + 1;
    h.samples_at = (before + PAGE - 1) / PAGE * PAGE;
    h.size = h.samples_at + samples_bytes(source);
    return h;
}

/* ---- Publishing --------------------------------------------------------------------------- */

static void write_source(char *map, const header *h, const ole_source *source) {
    memcpy(map, h, sizeof *h);
    memcpy(map + sizeof *h, source->labels, labels_bytes(source->count));
    char *names = map + sizeof *h + labels_bytes(source->count);
    for (int c = 0; c < source->classes; c++)
        names = stpcpy(names, source->class_names[c]) + 1;
    memcpy(map + h->samples_at,
           source->floating ? (const void *)source->floats : (const void *)source->bytes,
           h->size - h->samples_at);
}

/* The samples are those of the map from now on. */
static void use_map(ole_source *source, void *map, const header *h) {
    source->map = map;
    source->map_bytes = h->size;
    if (source->floating)
        source->floats = (float *)((char *)map + h->samples_at);
    else
        source->bytes = (uint8_t *)map + h->samples_at;
}

ole_status ole_source_publish(ole_source *source, ole_shared_name *name, int *fd,
                              ole_error *error) {
    static _Thread_local char here;
    *name = (ole_shared_name){.token = (uint64_t)(ole_clock() * 1e9) ^ (uint64_t)(uintptr_t)&here ^
                                       (uint64_t)getpid() << 40};
    header h = describe(source, name->token);
    *fd = memfd_create("ole-data", MFD_CLOEXEC);
    void *map = MAP_FAILED;
    if (*fd >= 0 && posix_fallocate(*fd, 0, (off_t)h.size) == 0)
        map = mmap(NULL, h.size, PROT_READ | PROT_WRITE, MAP_SHARED, *fd, 0);
    if (map == MAP_FAILED) {
        if (*fd >= 0) close(*fd);
        *fd = -1;
        return ole_fail(error, OLE_ERROR_MEMORY, "no shared memory of %.0f MB for the samples",
                        (double)h.size / 1e6);
    }
    write_source(map, &h, source);
    mprotect(map, h.size, PROT_READ);
    free(source->bytes);
    free(source->floats);
    use_map(source, map, &h);
    snprintf(name->path, sizeof name->path, "/proc/%d/fd/%d", (int)getpid(), *fd);
    return OLE_OK;
}

/* ---- Attaching ---------------------------------------------------------------------------- */

static ole_status take_source(ole_source *source, const char *map, ole_error *error) {
    header h;
    memcpy(&h, map, sizeof h);
    *source = h.source;
    source->classes = 0; /* so many as have names */
    use_map(source, (void *)(uintptr_t)map, &h);
    size_t labels = labels_bytes(source->count);
    source->labels = malloc(labels + 1);
    if (!source->labels) return ole_fail(error, OLE_ERROR_MEMORY, "out of memory for labels");
    memcpy(source->labels, map + sizeof h, labels);
    const char *names = map + sizeof h + labels;
    ole_status status = ole_source_set_classes(source, h.source.classes, error);
    for (int c = 0; status == OLE_OK && c < source->classes; c++) {
        status = ole_source_name_class(source, c, names, error);
        names += strlen(names) + 1;
    }
    return status;
}

/* Maps the file; NULL where it is not the one that is meant. */
static const char *map_file(const ole_shared_name *name) {
    int fd = open(name->path, O_RDONLY | O_CLOEXEC);
    struct stat about;
    void *map = MAP_FAILED;
    if (fd >= 0 && fstat(fd, &about) == 0 && about.st_size > (off_t)sizeof(header))
        map = mmap(NULL, (size_t)about.st_size, PROT_READ, MAP_SHARED, fd, 0);
    if (fd >= 0) close(fd);
    if (map == MAP_FAILED) return NULL;
    header h;
    memcpy(&h, map, sizeof h);
    if (h.token == name->token && h.size == (size_t)about.st_size) return map;
    munmap(map, (size_t)about.st_size);
    return NULL;
}

ole_status ole_source_attach(ole_source *source, const ole_shared_name *name, ole_error *error) {
    *source = (ole_source){0};
    const char *map = map_file(name);
    if (!map) return ole_fail(error, OLE_ERROR_IO, "%s differs from the published one", name->path);
    ole_status status = take_source(source, map, error);
    if (status != OLE_OK) ole_source_free(source);
    return status;
}
