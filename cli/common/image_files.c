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
#include <unistd.h>

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

/* ---- stdin -------------------------------------------------------------------------------- */

/*
 * Whether the first line of stdin begins an image or an array, not a list of names.  A few formats
 * begin with letters alone: a line of those is a name if a file of that name exists.
 */
static bool begins_file(const char *line, size_t length) {
    static const struct {
        const char *bytes;
        size_t count;
        bool letters;
    } starts[] = {
        {"\x89PNG", 4, false},   {"\xff\xd8\xff", 3, false},
        {"II*\0", 4, false},     {"MM\0*", 4, false},
        {"\x93NUMPY", 6, false}, {"PK\3\4", 4, false},
        {"RIFF", 4, true},       {"BM", 2, true},
        {"GIF8", 4, true},       {"P2", 2, true},
        {"P3", 2, true},         {"P5", 2, true},
        {"P6", 2, true},
    };
    for (size_t i = 0; i < sizeof starts / sizeof *starts; i++) {
        size_t count = starts[i].count;
        if (length < count || memcmp(line, starts[i].bytes, count) != 0) continue;
        if (!starts[i].letters || memchr(line, '\0', length)) return true;
        bool head = *line == 'P' ? length > 2 && strchr(" \t\r\n", line[2]) : length < 8;
        return head && access(line, F_OK) != 0;
    }
    return false;
}

/* Makes a file of what is left of stdin, behind `start`: readers seek in it. */
static bool store_stdin(const char *start, size_t length) {
    char bytes[1 << 16];
    FILE *file = tmpfile();
    bool good = file && fwrite(start, 1, length, file) == length;
    for (size_t n; good && (n = fread(bytes, 1, sizeof bytes, stdin)) > 0;)
        good = fwrite(bytes, 1, n, file) == n;
    good = good && !ferror(stdin) && fflush(file) == 0 && lseek(fileno(file), 0, SEEK_SET) == 0 &&
           dup2(fileno(file), STDIN_FILENO) >= 0;
    if (file) fclose(file);
    return good;
}

/* Names, one per line; or one file itself, which is then called /dev/stdin. */
static bool read_stdin(const char *command, file_function *use, void *context, bool *failed) {
    char *line = NULL;
    size_t room = 0;
    bool enough = false;
    int64_t lines = 0;
    for (ssize_t length; !enough && (length = getline(&line, &room, stdin)) >= 0;) {
        if (lines++ == 0 && begins_file(line, (size_t)length)) {
            if (store_stdin(line, (size_t)length)) {
                enough = use(context, "/dev/stdin");
            } else {
                fail_command(command, "stdin: cannot store: %s", strerror(errno));
                *failed = true;
            }
            break;
        }
        if (memchr(line, '\0', (size_t)length)) {
            fail_command(command, "stdin: neither an image nor a list of file names, one per line "
                                  "(it holds NUL bytes)");
            *failed = true;
            break;
        }
        if (line[length - 1] == '\n') line[--length] = '\0';
        if (length > 0 && line[length - 1] == '\r') line[length - 1] = '\0';
        if (*line) enough = use(context, line);
    }
    if (lines == 0) { /* what was to write there has probably failed */
        fail_command(command, "stdin: empty; expected an image or file names, one per line");
        *failed = true;
    }
    free(line);
    return enough;
}

bool each_file(const char *command, const char *word, bool arrays, file_function *use,
               void *context, bool *failed) {
    struct stat about;
    if (strcmp(word, "-") == 0) return read_stdin(command, use, context, failed);
    if (stat(word, &about) == 0 && S_ISDIR(about.st_mode))
        return walk_folder(command, word, arrays, use, context, failed);
    return use(context, word);
}
