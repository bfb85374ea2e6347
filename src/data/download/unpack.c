/*
 * src/data/download/unpack.c - tar.gz and zip, through libarchive.
 *
 * Names, kinds, sizes and numbers come from the archive, which may be made to do harm.  So only
 * plain files are written, each to a file beside it first; folders are opened one after the other,
 * without following links; and what has no published checksum has limits.
 */
#include "data/download/unpack.h"

#include "base/error.h"
#include "base/quote.h"
#include "data/download/known.h"
#include "data/find.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static ole_status fail_system(const char *path, const char *what, ole_error *error) {
    int number = errno;
    return ole_fail(error, OLE_ERROR_IO, "%s: cannot %s: %s", ole_quote_string(path).text, what,
                    strerror(number));
}

ole_status ole_make_folder(const char *folder, ole_error *error) {
    char path[OLE_PATH_ROOM];
    ole_status status = ole_join_path(path, folder, "", error);
    if (status != OLE_OK) return status;
    for (char *at = path + 1; at[-1]; at++) {
        if (*at != '/' && *at) continue;
        char end = *at;
        *at = '\0';
        struct stat about;
        bool there = mkdir(path, 0777) == 0 || (stat(path, &about) == 0 && S_ISDIR(about.st_mode));
        if (!there) return fail_system(path, "create the folder", error);
        *at = end;
        if (!end) break;
    }
    return OLE_OK;
}

static bool ends_with(const char *name, const char *ending) {
    size_t length = strlen(name), tail = strlen(ending);
    return length >= tail && strcmp(name + length - tail, ending) == 0;
}

bool ole_is_archive(const char *name) {
    return ends_with(name, ".tar.gz") || ends_with(name, ".tgz") || ends_with(name, ".tar") ||
           ends_with(name, ".zip");
}

#ifndef OLE_HAVE_ARCHIVE

ole_status ole_unpack(const char *archive, const char *folder, const ole_known_file *only,
                      const ole_unpack_limits *limits, ole_error *error) {
    (void)folder, (void)only, (void)limits;
    return ole_fail(error, OLE_ERROR_UNSUPPORTED,
                    "%s: this build cannot unpack archives; unpack it yourself, or install "
                    "libarchive (libarchive-dev) and rebuild",
                    ole_quote_string(archive).text);
}

#else

#include <archive.h>
#include <archive_entry.h>
#include <locale.h>

enum { BLOCK = 1 << 17 };

/* The file being written, in the root: one at a time, as the root is locked. */
static const char beside[] = ".ole-unpack.part";

typedef struct unpacking {
    struct archive *archive;
    ole_quoted name;
    const char *folder;
    int root; /* the folder, open */
    const ole_known_file *only;
    ole_unpack_limits limits;
    int64_t entries, bytes; /* so far */
    int64_t written;        /* files */
} unpacking;

/* A file below the root: the folder it lies in, open, and its name there. */
typedef struct place {
    char path[OLE_PATH_ROOM]; /* for messages */
    int folder;
    const char *name; /* inside `path` */
} place;

static ole_status fail_archive(const unpacking *u, ole_error *error) {
    const char *message = archive_error_string(u->archive);
    return ole_fail(error, OLE_ERROR_FORMAT,
                    "%s: damaged after byte %lld (%s); get the archive again", u->name.text,
                    (long long)archive_filter_bytes(u->archive, -1),
                    ole_quote_string(message ? message : "unknown error").text);
}

/* A relative name without "..", so that it stays inside the folder. */
static bool is_inside(const char *name) {
    if (!*name || *name == '/') return false;
    for (const char *part = name; part; part = strchr(part, '/') ? strchr(part, '/') + 1 : NULL)
        if (strncmp(part, "..", 2) == 0 && (part[2] == '/' || !part[2])) return false;
    return true;
}

/* ---- Where a file goes -------------------------------------------------------------------- */

/* The name of an entry below the root; NULL if it is to be skipped. */
static ole_status find_name(const unpacking *u, const char *full, const char **name,
                            ole_error *error) {
    *name = full;
    if (u->only) {
        const char *slash = strrchr(full, '/');
        if (slash) *name = slash + 1;
        if (!ole_known_file_find(u->only, *name)) *name = NULL;
        return OLE_OK;
    }
    if (is_inside(full)) return OLE_OK;
    return ole_fail(error, OLE_ERROR_FORMAT,
                    "%s: its entry '%s' points outside the folder; do not use this archive",
                    u->name.text, ole_quote_string(full).text);
}

/* Whether an entry is a file, or a second name of one. */
static ole_status check_kind(const unpacking *u, struct archive_entry *entry, bool *file,
                             ole_error *error) {
    const char *name = archive_entry_pathname(entry);
    *file = false;
    if (archive_entry_filetype(entry) == AE_IFDIR) return OLE_OK;
    if (!name)
        return ole_fail(error, OLE_ERROR_FORMAT,
                        "%s: a file name in it cannot be read; unpack the archive yourself",
                        u->name.text);
    *file = archive_entry_filetype(entry) == AE_IFREG || archive_entry_hardlink(entry);
    if (*file || u->only) return OLE_OK;
    return ole_fail(error, OLE_ERROR_FORMAT,
                    "%s: its entry '%s' is a symbolic link or a device, not a file; unpack the "
                    "archive yourself",
                    u->name.text, ole_quote_string(name).text);
}

/* The next folder of a file's path, created if it is missing; 0 or an errno, ELOOP for a link.
 */
static int step_into(int *folder, const char *name) {
    if (!*name || strcmp(name, ".") == 0) return 0;
    struct stat about;
    if (mkdirat(*folder, name, 0777) != 0 && errno != EEXIST) return errno;
    int next = openat(*folder, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    int number = next >= 0 ? 0 : errno;
    if (number != 0 && fstatat(*folder, name, &about, AT_SYMLINK_NOFOLLOW) == 0 &&
        S_ISLNK(about.st_mode))
        number = ELOOP;
    close(*folder);
    *folder = next;
    return number;
}

/* Opens the folder of a file; close it.  On an error it is closed. */
static ole_status open_place(const unpacking *u, const char *name, place *at, ole_error *error) {
    at->folder = -1;
    ole_status status = ole_join_path(at->path, u->folder, name, error);
    if (status != OLE_OK) return status;
    char *part = at->path + strlen(at->path) - strlen(name);
    at->folder = fcntl(u->root, F_DUPFD_CLOEXEC, 0);
    int number = at->folder >= 0 ? 0 : errno;
    for (char *slash; number == 0 && (slash = strchr(part, '/')); part = slash + 1) {
        *slash = '\0';
        number = step_into(&at->folder, part);
        if (number == 0) *slash = '/';
    }
    at->name = part;
    if (number == 0) return OLE_OK;
    if (at->folder >= 0) close(at->folder);
    at->folder = -1;
    errno = number;
    if (number != ELOOP) return fail_system(at->path, "create the folder", error);
    return ole_fail(error, OLE_ERROR_IO,
                    "%s: a symbolic link, and %s is not unpacked through links; remove it, or "
                    "choose another folder",
                    ole_quote_string(at->path).text, u->name.text);
}

static ole_status fail_there(const unpacking *u, const place *at, ole_error *error) {
    return ole_fail(
        error, OLE_ERROR_IO,
        "%s: exists and differs from the one in %s; move it away, or choose another folder",
        ole_quote_string(at->path).text, u->name.text);
}

/* ---- Files -------------------------------------------------------------------------------- */

/* The next bytes of an entry; none at its end. */
static ole_status read_block(unpacking *u, char block[BLOCK], size_t *size, ole_error *error) {
    *size = 0;
    la_ssize_t got = archive_read_data(u->archive, block, BLOCK);
    if (got < 0) return fail_archive(u, error);
    *size = (size_t)got;
    u->bytes += got;
    if (u->bytes <= u->limits.bytes) return OLE_OK;
    return ole_fail(error, OLE_ERROR_IO,
                    "%s: unpacks to more than the limit of %g GB; raise it with --max-size (C: "
                    "options.max_bytes)",
                    u->name.text, (double)u->limits.bytes / 1e9);
}

/* Whether the file that is there has the bytes of the entry. */
static ole_status compare_file(unpacking *u, const place *at, ole_error *error) {
    int fd = openat(at->folder, at->name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    struct stat about;
    bool same = fd >= 0 && fstat(fd, &about) == 0 && S_ISREG(about.st_mode);
    FILE *file = same ? fdopen(fd, "rb") : NULL;
    if (!file && fd >= 0) close(fd);
    same = file != NULL;
    ole_status status = OLE_OK;
    for (bool more = true; same && more;) {
        char block[BLOCK], there[BLOCK];
        size_t size;
        status = read_block(u, block, &size, error);
        if (status != OLE_OK) break;
        more = size > 0;
        size_t got = fread(there, 1, more ? size : 1, file);
        same = got == size && memcmp(block, there, size) == 0;
    }
    if (file) fclose(file);
    return same || status != OLE_OK ? status : fail_there(u, at, error);
}

/* Renames the temporary file; a file that has appeared meanwhile is not replaced. */
static int publish(const unpacking *u, const place *at) {
    unsigned keep = u->only ? 0 : RENAME_NOREPLACE;
    if (renameat2(u->root, beside, at->folder, at->name, keep) == 0) return 0;
    if (errno != EINVAL && errno != ENOSYS) return errno; /* not every file system knows the flag */
    return renameat(u->root, beside, at->folder, at->name) == 0 ? 0 : errno;
}

static ole_status write_file(unpacking *u, const place *at, ole_error *error) {
    unlinkat(u->root, beside, 0); /* left by a process that was killed */
    int fd = openat(u->root, beside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    FILE *file = fd >= 0 ? fdopen(fd, "wb") : NULL;
    if (!file) {
        if (fd >= 0) close(fd);
        return fail_system(at->path, "write", error);
    }
    char block[BLOCK];
    size_t size = 0;
    bool written = true;
    ole_status status;
    do {
        status = read_block(u, block, &size, error);
        written = fwrite(block, 1, size, file) == size;
    } while (status == OLE_OK && written && size > 0);
    written = fclose(file) == 0 && written;
    if (status == OLE_OK && written) {
        errno = publish(u, at);
        written = errno == 0;
    }
    if (status == OLE_OK && !written) status = fail_system(at->path, "write", error);
    if (status != OLE_OK) unlinkat(u->root, beside, 0);
    return status;
}

/* A second name of a file that was unpacked before. */
static ole_status link_file(unpacking *u, const place *from, const place *at, ole_error *error) {
    struct stat source, there;
    if (fstatat(from->folder, from->name, &source, AT_SYMLINK_NOFOLLOW) != 0)
        return fail_system(from->path, "link", error);
    if (!S_ISREG(source.st_mode)) return fail_there(u, from, error);
    if (fstatat(at->folder, at->name, &there, AT_SYMLINK_NOFOLLOW) == 0) {
        bool same = source.st_ino == there.st_ino && source.st_dev == there.st_dev;
        if (same) return OLE_OK;
        if (!u->only) return fail_there(u, at, error);
        unlinkat(at->folder, at->name, 0);
    }
    if (linkat(from->folder, from->name, at->folder, at->name, 0) == 0) return OLE_OK;
    return fail_system(at->path, "write", error);
}

static ole_status unpack_file(unpacking *u, struct archive_entry *entry, ole_error *error) {
    const char *name, *source = NULL, *link = archive_entry_hardlink(entry);
    ole_status status = find_name(u, archive_entry_pathname(entry), &name, error);
    if (status == OLE_OK && link) status = find_name(u, link, &source, error);
    if (status != OLE_OK || !name || (link && !source)) return status;
    place at, from;
    status = open_place(u, name, &at, error);
    if (status != OLE_OK) return status;
    struct stat about;
    if (link) {
        status = open_place(u, source, &from, error);
        if (status == OLE_OK) {
            status = link_file(u, &from, &at, error);
            close(from.folder);
        }
    } else if (!u->only && fstatat(at.folder, at.name, &about, AT_SYMLINK_NOFOLLOW) == 0) {
        status = compare_file(u, &at, error);
    } else {
        status = write_file(u, &at, error);
    }
    close(at.folder);
    if (status == OLE_OK) u->written++;
    return status;
}

static ole_status unpack_all(unpacking *u, ole_error *error) {
    for (;;) {
        struct archive_entry *entry;
        int code = archive_read_next_header(u->archive, &entry);
        if (code == ARCHIVE_EOF) break;
        if (code < ARCHIVE_WARN) return fail_archive(u, error);
        if (++u->entries > u->limits.files)
            return ole_fail(error, OLE_ERROR_IO,
                            "%s: holds more files than the limit of %" PRId64
                            "; raise it with --max-files (C: options.max_files)",
                            u->name.text, u->limits.files);
        bool file;
        ole_status status = check_kind(u, entry, &file, error);
        if (status == OLE_OK && file) status = unpack_file(u, entry, error);
        if (status != OLE_OK) return status;
    }
    if (u->written > 0) return OLE_OK;
    return ole_fail(error, OLE_ERROR_FORMAT, "%s: the archive holds none of the expected files",
                    u->name.text);
}

/* The destination folder, which two processes must not unpack into at once. */
static ole_status open_root(unpacking *u, ole_error *error) {
    u->root = open(*u->folder ? u->folder : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (u->root < 0) return fail_system(u->folder, "open", error);
    if (flock(u->root, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return OLE_OK;
    close(u->root);
    return ole_fail(
        error, OLE_ERROR_IO,
        "%s: another process is unpacking into this folder; wait for it to finish, then try again",
        ole_quote_string(u->folder).text);
}

ole_status ole_unpack(const char *archive, const char *folder, const ole_known_file *only,
                      const ole_unpack_limits *limits, ole_error *error) {
    unpacking u = {.folder = folder,
                   .only = only,
                   .limits = limits ? *limits : (ole_unpack_limits){INT64_MAX, INT64_MAX}};
    u.name = ole_quote_string(archive);
    ole_status status = open_root(&u, error);
    if (status != OLE_OK) return status;
    u.archive = archive_read_new();
    if (!u.archive) {
        close(u.root);
        return ole_fail(error, OLE_ERROR_MEMORY, "out of memory for an archive");
    }
    /* libarchive gives names in the locale's characters; in "C" it has none for those of a zip. */
    locale_t utf8 = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0), before = (locale_t)0;
    if (utf8) before = uselocale(utf8);
    archive_read_support_filter_gzip(u.archive);
    archive_read_support_format_tar(u.archive);
    archive_read_support_format_zip(u.archive);
    if (archive_read_open_filename(u.archive, archive, BLOCK) != ARCHIVE_OK)
        status = fail_archive(&u, error);
    if (status == OLE_OK) status = unpack_all(&u, error);
    archive_read_free(u.archive);
    close(u.root);
    if (utf8) {
        uselocale(before);
        freelocale(utf8);
    }
    return status;
}

#endif
