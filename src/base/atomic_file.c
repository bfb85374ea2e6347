/*
 * src/base/atomic_file.c - write beside, sync, rename, sync the directory.
 *
 * Every result that a user may already have (features, gradients, checkpoints) is replaced through
 * here, so that a full disk or a lost machine never costs the version that was there before.  The
 * few files that grow (metrics, logs) are opened here too.
 */
#include "base/atomic_file.h"

#include "base/error.h"
#include "base/fnv.h"
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

static ole_status fail_io(const ole_atomic_file *file, const char *what, int number,
                          ole_error *error) {
    return ole_fail(error, number == ENOMEM ? OLE_ERROR_MEMORY : OLE_ERROR_IO, "%s: %s: %s",
                    ole_quote_string(file->path).text, what, strerror(number));
}

/* The length of the directory part of `path` with its slash; 0 when there is none. */
static size_t directory_length(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? (size_t)(slash - path) + 1 : 0;
}

/*
 * Opens a file in the target's directory that has no name until it is whole, so that a process that
 * is killed leaves nothing behind.  -1 where the file system cannot, or /proc is not there to name
 * the file by.
 */
static int open_nameless(const ole_atomic_file *file) {
    int fd = open(file->directory, O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666);
    if (fd < 0) return -1;
    flock(fd, LOCK_EX); /* before it has a name: see remove_stale() */
    if (access("/proc/self/fd", F_OK) == 0) return fd;
    close(fd);
    return -1;
}

/* Gives the nameless file a name.  Whether that is done; errno says why not. */
static bool take_name(const ole_atomic_file *file, const char *name) {
    char shown[32];
    snprintf(shown, sizeof shown, "/proc/self/fd/%d", file->fd);
    return linkat(AT_FDCWD, shown, AT_FDCWD, name, AT_SYMLINK_FOLLOW) == 0;
}

/* Whether the open file is the one that has this name. */
static bool has_name(int fd, const char *name) {
    struct stat opened, named;
    return fstat(fd, &opened) == 0 && lstat(name, &named) == 0 && S_ISREG(named.st_mode) &&
           opened.st_dev == named.st_dev && opened.st_ino == named.st_ino;
}

/*
 * Creates a file under this name, locked.  Before it is locked another writer may take it for a
 * stale one and remove it: then it is not ours.
 */
static bool create(ole_atomic_file *file, const char *name) {
    file->fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (file->fd < 0) return false;
    if (flock(file->fd, LOCK_EX) != 0 || has_name(file->fd, name)) return true;
    close(file->fd);
    file->fd = -1;
    errno = EEXIST;
    return false;
}

/*
 * Removes a file under a temporary name whose writer was killed: writers keep theirs locked until
 * it is renamed.  Whether it is gone.
 */
static bool remove_stale(const char *name) {
    int fd = open(name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0) return false;
    bool gone = flock(fd, LOCK_EX | LOCK_NB) == 0 && has_name(fd, name) && unlink(name) == 0;
    close(fd);
    return gone;
}

/*
 * A name in the target's directory, of a new file or of ours.  It follows from the target's name,
 * so that the next writer of the same file finds what a killed one left, and is short whatever
 * the target's is.
 */
static int name_beside(ole_atomic_file *file) {
    enum { TRIES = 1000, SUFFIX = 64 };
    size_t length = directory_length(file->target);
    uint32_t hash = ole_fnv32(file->target + length, strlen(file->target + length));
    file->temporary = malloc(length + SUFFIX);
    if (!file->temporary) return ENOMEM;
    memcpy(file->temporary, file->target, length);
    bool nameless = file->fd >= 0;
    int number = EEXIST;
    for (int i = 0; i < TRIES && number == EEXIST; i++) {
        snprintf(file->temporary + length, SUFFIX, ".ole-%08" PRIx32 "-%d.tmp", hash, i);
        do {
            if (nameless ? take_name(file, file->temporary) : create(file, file->temporary))
                return 0;
            number = errno;
        } while (number == EEXIST && remove_stale(file->temporary));
    }
    free(file->temporary); /* not ours to remove */
    file->temporary = NULL;
    return number;
}

/* Opens what the bytes go to.  Returns 0 or an errno. */
static int open_target(ole_atomic_file *file) {
    struct stat old;
    bool exists = stat(file->path, &old) == 0;
    if (!exists && errno != ENOENT) return errno;
    if (exists && S_ISDIR(old.st_mode)) return EISDIR;
    if (exists && !S_ISREG(old.st_mode)) {
        file->fd = open(file->path, O_WRONLY | O_CLOEXEC);
        return file->fd < 0 ? errno : 0;
    }
    file->target = exists ? realpath(file->path, NULL) : strdup(file->path);
    if (!file->target) return errno;
    size_t length = directory_length(file->target);
    file->directory = length > 0 ? strndup(file->target, length) : strdup(".");
    if (!file->directory) return errno;
    file->fd = open_nameless(file);
    int number = file->fd < 0 ? name_beside(file) : 0;
    /* Best effort: a file system without permissions refuses, and the content is what matters. */
    if (number == 0 && exists) fchmod(file->fd, old.st_mode & 0777);
    return number;
}

ole_status ole_atomic_file_begin(ole_atomic_file *file, const char *path, ole_error *error) {
    *file = (ole_atomic_file){.fd = -1, .path = path};
    if (!path || !*path)
        return ole_fail(error, OLE_ERROR_ARGUMENT, "the path of the file to write is empty");
    int number = open_target(file);
    if (number == 0) return OLE_OK;
    ole_atomic_file_abort(file);
    return fail_io(file, "cannot write", number, error);
}

ole_status ole_atomic_file_write(ole_atomic_file *file, const void *bytes, size_t size,
                                 ole_error *error) {
    enum { CHUNK = 1 << 30 }; /* Linux writes at most 2 GiB at once */
    const char *next = bytes;
    while (size > 0) {
        ssize_t written = write(file->fd, next, size < CHUNK ? size : CHUNK);
        if (written < 0) {
            if (errno == EINTR) continue;
            int number = errno;
            ole_atomic_file_abort(file);
            return fail_io(file, "cannot write", number, error);
        }
        next += written;
        size -= (size_t)written;
    }
    return OLE_OK;
}

/* Syncs the directory of the target, so that the rename survives a power cut.  0 or an errno. */
static int sync_directory(const ole_atomic_file *file) {
    int fd = open(file->directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return errno == EACCES ? 0 : errno; /* writable but not readable: no way to sync */
    int number = fsync(fd) == 0 ? 0 : errno;
    close(fd);
    return number == EINVAL || number == ENOTSUP ? 0 : number; /* not every file system can */
}

/* Takes the file from written to durable.  Returns 0 or an errno, and what was being done. */
static int finish(ole_atomic_file *file, const char **what) {
    *what = "cannot write";
    if (!file->target) {
        int fd = file->fd;
        file->fd = -1;
        return close(fd) == 0 ? 0 : errno;
    }
    if (fsync(file->fd) != 0) return errno;
    /* A nameless file becomes a new one in one step; an old one is replaced by renaming alone. */
    bool is_new = !file->temporary && take_name(file, file->target);
    int number = is_new || file->temporary ? 0 : name_beside(file);
    if (number != 0) return number;
    *what = "cannot replace";
    if (!is_new && rename(file->temporary, file->target) != 0) return errno;
    free(file->temporary);
    file->temporary = NULL;
    *what = "written, but its directory cannot be synced";
    return sync_directory(file);
}

ole_status ole_atomic_file_commit(ole_atomic_file *file, ole_error *error) {
    const char *what;
    int number = finish(file, &what);
    ole_atomic_file_abort(file);
    return number == 0 ? OLE_OK : fail_io(file, what, number, error);
}

void ole_atomic_file_abort(ole_atomic_file *file) {
    if (file->fd >= 0) close(file->fd);
    if (file->temporary) unlink(file->temporary);
    free(file->temporary);
    free(file->target);
    free(file->directory);
    *file = (ole_atomic_file){.fd = -1, .path = file->path};
}

ole_status ole_atomic_file_put(const char *path, const void *bytes, size_t size, ole_error *error) {
    ole_atomic_file file;
    ole_status status = ole_atomic_file_begin(&file, path, error);
    if (status == OLE_OK) status = ole_atomic_file_write(&file, bytes, size, error);
    if (status == OLE_OK) status = ole_atomic_file_commit(&file, error);
    ole_atomic_file_abort(&file);
    return status;
}

/* ---- Appending ---------------------------------------------------------------------------- */

/* Gives the name of an open file to a copy of it. */
static ole_status replace_by_copy(int fd, const char *path, ole_error *error) {
    char bytes[1 << 14];
    off_t at = 0;
    ssize_t got = 0;
    ole_atomic_file copy;
    ole_status status = ole_atomic_file_begin(&copy, path, error);
    while (status == OLE_OK && (got = pread(fd, bytes, sizeof bytes, at)) > 0) {
        at += got;
        status = ole_atomic_file_write(&copy, bytes, (size_t)got, error);
    }
    if (status == OLE_OK && got < 0) status = fail_io(&copy, "cannot read", errno, error);
    if (status == OLE_OK) status = ole_atomic_file_commit(&copy, error);
    ole_atomic_file_abort(&copy);
    return status;
}

/*
 * A file with links is copied by one process, which holds its lock meanwhile.  All others look only
 * when they have had the lock too: while the kernel renames the copy, the name still leads to the
 * old file, but that has one link less already.
 */
ole_status ole_append_open(int *fd, const char *path, ole_error *error) {
    const int flags = O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
    ole_status status = OLE_OK;
    for (bool copied = false; status == OLE_OK;) {
        struct stat about = {0};
        *fd = open(path, flags, 0666);
        if (*fd >= 0) flock(*fd, LOCK_EX);
        int number = *fd < 0 || fstat(*fd, &about) != 0 ? errno : 0;
        if (number == 0 && !S_ISREG(about.st_mode)) number = EINVAL;
        bool named = number == 0 && has_name(*fd, path);
        if (named && (about.st_nlink <= 1 || copied)) {
            flock(*fd, LOCK_UN);
            return OLE_OK;
        }
        copied = named;
        if (number != 0)
            status = fail_io(&(ole_atomic_file){.path = path}, "cannot write", number, error);
        else if (named)
            status = replace_by_copy(*fd, path, error);
        if (*fd >= 0) close(*fd);
        *fd = -1;
    }
    return status;
}
