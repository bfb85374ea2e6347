/*
 * cli/common/outputs.c - checking outputs before the work, and writing texts.
 *
 * What is computed for an hour should not be lost to a folder that is not there: the folder of each
 * output is tried first.
 */
#include "common/outputs.h"

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/number.h"
#include "common/common.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- Before the work ---------------------------------------------------------------------- */

/* Why a file cannot be written: 0 or an errno. */
static int file_obstacle(const char *path) {
    char target[PATH_MAX];
    struct stat about;
    bool exists = stat(path, &about) == 0;
    if (!exists && errno != ENOENT) return errno;
    if (exists && S_ISDIR(about.st_mode)) return EISDIR;
    if (exists && !S_ISREG(about.st_mode)) return access(path, W_OK) == 0 ? 0 : errno;
    if (exists && !realpath(path, target)) return errno;
    if (!exists && snprintf(target, sizeof target, "%s", path) >= PATH_MAX) return ENAMETOOLONG;
    char *slash = strrchr(target, '/');
    if (slash) slash[1] = '\0';
    return access(slash ? target : ".", W_OK | X_OK) == 0 ? 0 : errno;
}

/* Whether figures could be written into the folder; `number` says why it could not be made. */
static bool folder_ready(const char *command, const char *folder, int number) {
    struct stat about;
    bool exists = number == EEXIST;
    errno = number;
    if (exists && stat(folder, &about) == 0 && !S_ISDIR(about.st_mode))
        errno = ENOTDIR;
    else if (exists && access(folder, W_OK | X_OK) == 0)
        return true;
    return refuse(command, "%s: cannot %s the folder: %s", folder, exists ? "write into" : "create",
                  strerror(errno));
}

/* The folder is made for the look and taken away again: files may be going to lie in it. */
bool outputs_ready(const char *command, const char *const *files, int count, const char *folder) {
    bool made = folder && mkdir(folder, 0777) == 0;
    bool ready = !folder || made || folder_ready(command, folder, errno);
    for (int i = 0; i < count && ready; i++) {
        int number = files[i] ? file_obstacle(files[i]) : 0;
        ready = number == 0;
        if (!ready) fail_command(command, "%s: cannot write: %s", files[i], strerror(number));
    }
    if (made) rmdir(folder);
    return ready;
}

/* ---- Files under our own names ------------------------------------------------------------- */

/* Whether the file begins as ours do: the frame of every page says by what it was made. */
static bool is_our_page(const char *path) {
    char start[1024];
    FILE *file = fopen(path, "re");
    if (!file) return false;
    size_t size = fread(start, 1, sizeof start - 1, file);
    fclose(file);
    start[size] = '\0';
    return strstr(start, "<meta name=\"generator\" content=\"Olé ") != NULL;
}

bool own_file_ready(const char *path, bool page, ole_error *error) {
    struct stat about;
    const char *obstacle = NULL;
    if (lstat(path, &about) != 0) return true;
    if (S_ISLNK(about.st_mode))
        obstacle = "a symbolic link, and nothing is written through links; remove it";
    else if (!S_ISREG(about.st_mode))
        obstacle = "not a regular file; remove it";
    else if (page && about.st_size > 0 && !is_our_page(path))
        obstacle = "not a page written by Olé; move it away";
    if (!obstacle) return true;
    ole_fail(error, OLE_ERROR_IO, "%.400s: %s", path, obstacle);
    return false;
}

bool own_files_ready(const char *folder, const char *page, const char *const *files,
                     ole_error *error) {
    char path[PATH_MAX];
    struct stat about;
    snprintf(path, sizeof path, "%s/%s", folder, page);
    if (!own_file_ready(path, true, error)) return false;
    bool ours = stat(path, &about) == 0 && about.st_size > 0;
    for (; *files; files++) {
        snprintf(path, sizeof path, "%s/%s", folder, *files);
        if (!own_file_ready(path, false, error)) return false;
        if (ours || stat(path, &about) != 0 || about.st_size == 0) continue;
        ole_fail(error, OLE_ERROR_IO,
                 "%.400s: not a file written by Olé; move it away, or choose another folder", path);
        return false;
    }
    return true;
}

/* ---- Writing ------------------------------------------------------------------------------ */

void print_csv_name(FILE *out, const char *name) {
    const char *mark = name[0] && strchr("=+-@\t\r\n'", name[0]) ? "'" : "";
    if (!strpbrk(name, ",\"\n\r")) {
        fprintf(out, "%s%s", mark, name);
        return;
    }
    fprintf(out, "\"%s", mark);
    for (; *name; name++) {
        if (*name == '"') fputc('"', out);
        fputc(*name, out);
    }
    fputc('"', out);
}

static bool ends_in(const char *path, const char *end) {
    size_t length = strlen(path), part = strlen(end);
    return length >= part && strcmp(path + length - part, end) == 0;
}

bool takes_array(const char *command, const char *path) {
    static const char *const others[] = {".npz", ".txt", ".json", ".html", ".svg", ".pdf", ".png"};
    for (size_t i = 0; path && i < sizeof others / sizeof *others; i++)
        if (ends_in(path, others[i]))
            return refuse(command, "%s: arrays are written as .npy or .csv files", path);
    return true;
}

ole_status write_array(const char *path, ole_dtype dtype, int64_t rows, int64_t columns,
                       const void *data, const char *name, ole_error *error) {
    const int64_t shape[2] = {rows, columns};
    if (!ends_in(path, ".csv")) return ole_npy_write(path, dtype, 2, shape, data, error);
    const float *floats = data;
    const double *doubles = data;
    ole_memory_file memory;
    char number[OLE_NUMBER_TEXT];
    if (ole_memory_file_open(&memory)) {
        for (int64_t c = 0; c < columns; c++)
            fprintf(memory.file, "%s%s%lld", c ? "," : "", name, (long long)c + 1);
        for (int64_t i = 0; i < rows * columns; i++)
            fprintf(memory.file, "%c%s", i % columns ? ',' : '\n',
                    dtype == OLE_F32 ? ole_number_write(number, 9, (double)floats[i])
                                     : ole_number_write(number, 17, doubles[i]));
        fputc('\n', memory.file);
    }
    char *text = ole_memory_file_close(&memory);
    if (!text) return ole_fail(error, OLE_ERROR_MEMORY, "%.300s: out of memory", path);
    ole_status status = ole_atomic_file_put(path, text, memory.size, error);
    free(text);
    return status;
}

int put_memory(const char *command, const char *path, ole_memory_file *memory) {
    ole_error error;
    char *text = ole_memory_file_close(memory);
    int code = EXIT_DONE;
    if (!text)
        code = fail_command(command, "%s: out of memory", path);
    else if (ole_atomic_file_put(path, text, memory->size, &error) != OLE_OK)
        code = fail_command(command, "%s", error.message);
    free(text);
    return code;
}
