/* src/model/run_folder.c - run folders: paths inside them, creating and locking them. */
#include "model/run_folder.h"

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/quote.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

ole_status ole_run_path(char path[OLE_RUN_PATH], const char *out, const char *name,
                        ole_error *error) {
    int length = snprintf(path, OLE_RUN_PATH, "%s/%s", out, name);
    if (length < OLE_RUN_PATH) return OLE_OK;
    return ole_fail(error, OLE_ERROR_ARGUMENT, "%s: the path is too long",
                    ole_quote_string(out).text);
}

static ole_status fail_obstacle(const char *path, const char *what, ole_error *error) {
    return ole_fail(error, OLE_ERROR_IO, "%s: %s; remove it, or choose another folder",
                    ole_quote_string(path).text, what);
}

/* Joins "out/name" into `path`, and checks everything on the way from `out` to it. */
static ole_status find_output(char path[OLE_RUN_PATH], const char *out, const char *name,
                              bool is_folder, ole_error *error) {
    ole_status status = ole_run_path(path, out, name, error);
    char *at = path + strlen(out) + 1;
    for (bool last = false; !last && status == OLE_OK; at++) {
        struct stat about;
        at += strcspn(at, "/");
        last = !*at;
        *at = '\0';
        bool there = lstat(path, &about) == 0, folder = !last || is_folder;
        if (there && S_ISLNK(about.st_mode))
            return fail_obstacle(path, "a symbolic link, and nothing is written through links",
                                 error);
        if (there && !(folder ? S_ISDIR(about.st_mode) : S_ISREG(about.st_mode)))
            return fail_obstacle(path, folder ? "not a folder" : "not a regular file", error);
        if (!last) *at = '/';
    }
    return status;
}

ole_status ole_run_output(char path[OLE_RUN_PATH], const char *out, const char *name,
                          ole_error *error) {
    return find_output(path, out, name, false, error);
}

ole_status ole_run_output_folder(char path[OLE_RUN_PATH], const char *out, const char *name,
                                 ole_error *error) {
    return find_output(path, out, name, true, error);
}

ole_status ole_run_put(const char *out, const char *name, const char *text, ole_error *error) {
    char path[OLE_RUN_PATH];
    ole_status status = ole_run_output(path, out, name, error);
    if (status != OLE_OK) return status;
    if (!text) return ole_fail(error, OLE_ERROR_MEMORY, "%s: out of memory", name);
    return ole_atomic_file_put(path, text, strlen(text), error);
}

ole_status ole_run_put_memory(const char *out, const char *name, ole_memory_file *memory,
                              ole_error *error) {
    char *text = ole_memory_file_close(memory);
    ole_status status = ole_run_put(out, name, text, error);
    free(text);
    return status;
}

ole_status ole_run_refuse_files(const char *out, const char *const *names, ole_error *error) {
    for (; *names; names++) {
        char path[OLE_RUN_PATH];
        struct stat about;
        ole_status status = ole_run_output(path, out, *names, error);
        if (status != OLE_OK) return status;
        if (lstat(path, &about) == 0 && about.st_size > 0) {
            return ole_fail(error, OLE_ERROR_ARGUMENT,
                            "%s: not a file of a run; move it away, or choose another folder",
                            ole_quote_string(path).text);
        }
    }
    return OLE_OK;
}

ole_status ole_run_make_folder(const char *out, size_t *made, ole_error *error) {
    char path[OLE_RUN_PATH];
    size_t first = 0;
    ole_status status = ole_run_path(path, out, "", error);
    for (char *at = path + 1; status == OLE_OK && *at; at++) {
        if (*at != '/') continue;
        *at = '\0';
        if (mkdir(path, 0777) == 0) {
            if (first == 0) first = (size_t)(at - path);
        } else if (errno != EEXIST) {
            status = ole_fail(error, OLE_ERROR_IO, "%s: cannot create the folder: %s",
                              ole_quote_string(path).text, strerror(errno));
        }
        *at = '/';
    }
    if (status != OLE_OK) {
        ole_run_remove_folder(out, first);
        first = 0;
    }
    if (made) *made = first;
    return status;
}

void ole_run_remove_folder(const char *out, size_t made) {
    char path[OLE_RUN_PATH];
    if (made == 0 || ole_run_path(path, out, "", NULL) != OLE_OK) return;
    char *away =
        strstr(path + made, "/../"); /* what new/../mine leads to may have existed before */
    if (away) away[1] = '\0';
    for (size_t length = strlen(path) - 1; length >= made; length--) {
        if (path[length] != '/') continue;
        path[length] = '\0';
        rmdir(path);
    }
}

bool ole_run_has(const char *out, const char *name) {
    char path[OLE_RUN_PATH];
    ole_error error;
    return ole_run_path(path, out, name, &error) == OLE_OK && access(path, F_OK) == 0;
}

/* What a run writes into its folder. */
static const char *const run_files[] = {"config.yaml",
                                        "metrics.jsonl",
                                        "last.safetensors",
                                        "previous.safetensors",
                                        "best.safetensors",
                                        "report.html",
                                        NULL};

ole_status ole_run_refuse_used(const char *out, bool resume, int64_t seeds, uint64_t seed,
                               ole_error *error) {
    bool one = ole_run_has(out, "last.safetensors") || ole_run_has(out, "previous.safetensors");
    bool begun = one || ole_run_has(out, "config.yaml");
    char first[32];
    const char *why = NULL;
    snprintf(first, sizeof first, "seed-%" PRIu64, seed);
    if (ole_run_has(out, "study.json"))
        why = "a folder of 'ole tune', 'ole sweep' or 'ole reproduce'; choose another folder";
    else if (resume && seeds > 1 && one)
        why = "holds one run, not one per seed; omit --seeds, or choose another folder";
    else if (resume && seeds <= 1 && !one && ole_run_has(out, first))
        why = "holds runs of several seeds; resume with the same --seeds, or in the folder of one "
              "of them";
    else if (begun && !resume)
        why = "already holds a run; continue it with --resume, or choose another folder";
    if (why) return ole_fail(error, OLE_ERROR_ARGUMENT, "%s: %s", ole_quote_string(out).text, why);
    if (!begun) return ole_run_refuse_files(out, run_files, error);
    char path[OLE_RUN_PATH];
    ole_status status = OLE_OK;
    for (int i = 0; run_files[i] && status == OLE_OK; i++)
        status = ole_run_output(path, out, run_files[i], error);
    return status;
}

ole_status ole_run_lock(int *lock, const char *out, ole_error *error) {
    *lock = open(out, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (*lock < 0)
        return ole_fail(error, OLE_ERROR_IO, "%s: cannot open the folder: %s",
                        ole_quote_string(out).text, strerror(errno));
    if (flock(*lock, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return OLE_OK;
    close(*lock);
    *lock = -1;
    return ole_fail(error, OLE_ERROR_IO,
                    "%s: another process is working in this folder; wait for it to finish, or "
                    "choose another folder",
                    ole_quote_string(out).text);
}
