/*
 * cli/common/image_files.c - files, folders and lists of files that the user names.
 */
#include "common/image_files.h"

#include "common/common.h"

#include "data/images/image_name.h"

#include <errno.h>
#include <fts.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* ---- Folders ------------------------------------------------------------------------------ */

static int by_name(const FTSENT **a, const FTSENT **b) {
    return strcmp((*a)->fts_name, (*b)->fts_name);
}

static bool is_array_name(const char *name) {
    const char *dot = strrchr(name, '.');
    return dot &&
           (strcmp(dot, ".npy") == 0 || strcmp(dot, ".npz") == 0 || strcmp(dot, ".csv") == 0);
}

static bool walk_folder(const char *command, const char *folder, bool arrays, file_function *use,
                        void *context, bool *failed) {
    char *roots[] = {strdup(folder), NULL};
    FTS *tree = roots[0] ? fts_open(roots, FTS_LOGICAL | FTS_NOCHDIR, by_name) : NULL;
    bool enough = false, found = false;
    for (FTSENT *e; tree && !enough && (e = fts_read(tree));) {
        if (e->fts_level > 0 && e->fts_name[0] == '.') {
            fts_set(tree, e, FTS_SKIP);
        } else if (e->fts_info == FTS_DNR || e->fts_info == FTS_ERR) {
            fail_command(command, "%s: cannot open: %s", e->fts_path, strerror(e->fts_errno));
            *failed = found = true;
        } else if (e->fts_info == FTS_F &&
                   (arrays ? is_array_name(e->fts_name) : ole_image_has_name(e->fts_name))) {
            found = true;
            enough = use(context, e->fts_path);
        }
    }
    if (!tree) fail_command(command, "%s: cannot open the folder: %s", folder, strerror(errno));
    if (tree && !found)
        fail_command(command, "%s: no %s in this folder", folder,
                     arrays ? ".npy, .npz or .csv files" : "images");
    *failed |= !found;
    if (tree) fts_close(tree);
    free(roots[0]);
    return enough;
}

/* ---- Lists -------------------------------------------------------------------------------- */

static bool read_list(file_function *use, void *context) {
    char *line = NULL;
    size_t room = 0;
    bool enough = false;
    for (ssize_t length; !enough && (length = getline(&line, &room, stdin)) >= 0;) {
        if (length > 0 && line[length - 1] == '\n') line[length - 1] = '\0';
        if (*line) enough = use(context, line);
    }
    free(line);
    return enough;
}

bool each_file(const char *command, const char *word, bool arrays, file_function *use,
               void *context, bool *failed) {
    struct stat about;
    if (strcmp(word, "-") == 0) return read_list(use, context);
    if (stat(word, &about) == 0 && S_ISDIR(about.st_mode))
        return walk_folder(command, word, arrays, use, context, failed);
    return use(context, word);
}
