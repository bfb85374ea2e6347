/* tests/unit/temporary.h - a directory of its own for each test program that writes files. */
#ifndef OLE_TESTS_UNIT_TEMPORARY_H
#define OLE_TESTS_UNIT_TEMPORARY_H

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char temporary_dir[256];

/* A group setup of cmocka: makes the directory. */
static inline int temporary_make(void **state) {
    (void)state;
    const char *base = getenv("TMPDIR");
    snprintf(temporary_dir, sizeof temporary_dir, "%s/ole-test-XXXXXX", base ? base : "/tmp");
    return mkdtemp(temporary_dir) ? 0 : -1;
}

/* Calls `visit` (may be NULL) for each entry of the directory; returns how many there are. */
static inline int temporary_each(void (*visit)(const char *path)) {
    int count = 0;
    DIR *dir = opendir(temporary_dir);
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
        char path[600];
        snprintf(path, sizeof path, "%s/%s", temporary_dir, entry->d_name);
        if (visit) visit(path);
        count++;
    }
    if (dir) closedir(dir);
    return count;
}

static inline void temporary_unlink(const char *path) {
    if (unlink(path) != 0) rmdir(path);
}

/* A test teardown: empties the directory. */
static inline int temporary_clear(void **state) {
    (void)state;
    temporary_each(temporary_unlink);
    return 0;
}

/* A group teardown: removes the directory. */
static inline int temporary_remove(void **state) {
    temporary_clear(state);
    return rmdir(temporary_dir);
}

/* The path of `name` in the directory; valid until the second next call. */
static inline const char *temporary_path(const char *name) {
    static char paths[2][600];
    static int turn;
    turn = !turn;
    snprintf(paths[turn], sizeof paths[turn], "%s/%s", temporary_dir, name);
    return paths[turn];
}

#endif
