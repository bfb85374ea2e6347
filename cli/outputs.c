/*
 * cli/outputs.c - looking at outputs before the work, and replacing files by texts.
 *
 * What is computed for an hour should not be lost to a folder that is not there: the folder of each
 * output is tried first.
 */
#include "outputs.h"

#include "commands.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* What a name stands for. */
typedef struct place {
    char target[PATH_MAX]; /* the file to replace, links resolved; "": to be written in place */
    mode_t mode;           /* of the file that is there; 0: none is */
} place;

/* Finds it; 0 or an errno. */
static int find_place(place *p, const char *path) {
    struct stat about;
    *p = (place){0};
    bool exists = stat(path, &about) == 0;
    if (!exists && errno != ENOENT) return errno;
    if (exists && S_ISDIR(about.st_mode)) return EISDIR;
    if (exists && !S_ISREG(about.st_mode)) return access(path, W_OK) == 0 ? 0 : errno;
    if (exists) {
        p->mode = about.st_mode & 0777;
        return realpath(path, p->target) ? 0 : errno;
    }
    return snprintf(p->target, sizeof p->target, "%s", path) < PATH_MAX ? 0 : ENAMETOOLONG;
}

/* ---- Before the work ---------------------------------------------------------------------- */

/* Why a file cannot be written: 0 or an errno. */
static int file_obstacle(const char *path) {
    place p;
    int number = find_place(&p, path);
    if (number != 0 || !p.target[0]) return number;
    char *slash = strrchr(p.target, '/');
    if (slash) slash[1] = '\0';
    return access(slash ? p.target : ".", W_OK | X_OK) == 0 ? 0 : errno;
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
    fail_command(command, "%s: cannot %s the folder: %s", folder, exists ? "write into" : "make",
                 strerror(errno));
    return false;
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

/* ---- Writing ------------------------------------------------------------------------------ */

/* Writes all of a new or special file; 0 or an errno. */
static int put_all(const char *path, const char *text, size_t size, bool sync) {
    FILE *file = fopen(path, "w");
    if (!file) return errno;
    bool good = fwrite(text, 1, size, file) == size && fflush(file) == 0;
    good = good && (!sync || fsync(fileno(file)) == 0);
    int number = good ? 0 : errno;
    if (fclose(file) != 0 && number == 0) number = errno;
    return number;
}

/* The text in the place of the target, or nothing changed; 0 or an errno. */
static int replace(const place *p, const char *text, size_t size) {
    char beside[PATH_MAX];
    int length = snprintf(beside, sizeof beside, "%s.%ld.part", p->target, (long)getpid());
    if (length >= PATH_MAX) return ENAMETOOLONG;
    int number = put_all(beside, text, size, true);
    if (number == 0 && p->mode) chmod(beside, p->mode); /* where the file system has permissions */
    if (number == 0 && rename(beside, p->target) != 0) number = errno;
    if (number != 0) unlink(beside);
    return number;
}

int put_text(const char *command, const char *path, const char *text, size_t size) {
    place p;
    int number = find_place(&p, path);
    if (number == 0)
        number = p.target[0] ? replace(&p, text, size) : put_all(path, text, size, false);
    if (number == 0) return EXIT_DONE;
    return fail_command(command, "%s: cannot write: %s", path, strerror(number));
}
