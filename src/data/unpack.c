/*
 * src/data/unpack.c - tar.gz and zip, through libarchive.
 *
 * Only plain files are written, each to NAME.part first.  The names come from the archive, so they
 * are looked at before anything is opened.
 */
#include "data/unpack.h"

#include "base/error.h"
#include "base/show.h"
#include "data/find.h"
#include "data/known.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static ole_status fail_system(const char *path, const char *what, ole_error *error) {
    int number = errno;
    ole_shown shown;
    return ole_fail(error, OLE_ERROR_IO, "%s: cannot %s: %s", ole_show_string(&shown, path), what,
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
        if (!there) return fail_system(path, "make the folder", error);
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
                      ole_error *error) {
    (void)folder, (void)only;
    ole_shown shown;
    return ole_fail(error, OLE_ERROR_UNSUPPORTED,
                    "%s: this build cannot unpack archives: unpack it by hand, or install "
                    "libarchive (libarchive-dev) and build again",
                    ole_show_string(&shown, archive));
}

#else

#include <archive.h>
#include <archive_entry.h>
#include <locale.h>

enum { BLOCK = 1 << 17 };

typedef struct unpacking {
    struct archive *archive;
    ole_shown name;
    const char *folder;
    const ole_known_file *only;
    int64_t written;
} unpacking;

static ole_status fail_archive(const unpacking *u, ole_error *error) {
    ole_shown shown;
    const char *message = archive_error_string(u->archive);
    return ole_fail(error, OLE_ERROR_FORMAT,
                    "%s: after byte %lld: the archive is damaged (%s): get it again", u->name.text,
                    (long long)archive_filter_bytes(u->archive, -1),
                    ole_show_string(&shown, message ? message : "unknown error"));
}

/* A relative name without "..", so that it stays inside the folder. */
static bool is_inside(const char *name) {
    if (!*name || *name == '/') return false;
    for (const char *part = name; part; part = strchr(part, '/') ? strchr(part, '/') + 1 : NULL)
        if (strncmp(part, "..", 2) == 0 && (part[2] == '/' || !part[2])) return false;
    return true;
}

/* Where a file of the archive goes; "" when it is not wanted. */
static ole_status find_place(const unpacking *u, const char *name, char target[OLE_PATH_ROOM],
                             ole_error *error) {
    target[0] = '\0';
    if (u->only) {
        const char *slash = strrchr(name, '/');
        if (slash) name = slash + 1;
        if (!ole_known_file_find(u->only, name)) return OLE_OK;
    }
    ole_shown shown;
    if (!is_inside(name))
        return ole_fail(error, OLE_ERROR_FORMAT,
                        "%s: its entry '%s' lies outside the folder: do not use this archive",
                        u->name.text, ole_show_string(&shown, name));
    return ole_join_path(target, u->folder, name, error);
}

/* Where an entry goes; "" when it is not wanted. */
static ole_status find_target(const unpacking *u, struct archive_entry *entry,
                              char target[OLE_PATH_ROOM], ole_error *error) {
    const char *name = archive_entry_pathname(entry);
    target[0] = '\0';
    if (archive_entry_filetype(entry) == AE_IFDIR) return OLE_OK;
    if (!name)
        return ole_fail(error, OLE_ERROR_FORMAT,
                        "%s: a name in it cannot be read: unpack the archive by hand",
                        u->name.text);
    if (archive_entry_filetype(entry) == AE_IFREG || archive_entry_hardlink(entry))
        return find_place(u, name, target, error);
    if (u->only) return OLE_OK;
    ole_shown shown;
    return ole_fail(error, OLE_ERROR_FORMAT,
                    "%s: its entry '%s' is no file but a symbolic link or a device, which are not "
                    "unpacked: unpack the archive by hand",
                    u->name.text, ole_show_string(&shown, name));
}

static ole_status copy_data(unpacking *u, int fd, const char *target, ole_error *error) {
    char block[BLOCK];
    for (;;) {
        la_ssize_t got = archive_read_data(u->archive, block, sizeof block);
        if (got < 0) return fail_archive(u, error);
        if (got == 0) return OLE_OK;
        for (la_ssize_t done = 0; done < got;) {
            ssize_t written = write(fd, block + done, (size_t)(got - done));
            if (written < 0 && errno == EINTR) continue;
            if (written < 0) return fail_system(target, "write", error);
            done += written;
        }
    }
}

/* The folder that a file goes to. */
static ole_status make_parents(const char *target, ole_error *error) {
    char folder[OLE_PATH_ROOM];
    snprintf(folder, sizeof folder, "%.*s", (int)(strrchr(target, '/') - target), target);
    return ole_make_folder(folder, error);
}

static ole_status write_file(unpacking *u, const char *target, ole_error *error) {
    char part[OLE_PATH_ROOM];
    if (snprintf(part, sizeof part, "%s.part", target) >= (int)sizeof part)
        return ole_fail(error, OLE_ERROR_FORMAT, "%s: a name in it is too long", u->name.text);
    ole_status status = make_parents(target, error);
    if (status != OLE_OK) return status;
    int fd = open(part, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (fd < 0) return fail_system(part, "write", error);
    status = copy_data(u, fd, target, error);
    if (close(fd) != 0 && status == OLE_OK) status = fail_system(part, "write", error);
    if (status == OLE_OK && rename(part, target) != 0) status = fail_system(target, "write", error);
    if (status != OLE_OK) unlink(part);
    if (status == OLE_OK) u->written++;
    return status;
}

/* The second name of a file that was unpacked before. */
static ole_status link_file(unpacking *u, const char *name, const char *target, ole_error *error) {
    char source[OLE_PATH_ROOM];
    ole_status status = find_place(u, name, source, error);
    if (status == OLE_OK) status = make_parents(target, error);
    if (status != OLE_OK || !*source || strcmp(source, target) == 0) return status;
    unlink(target);
    if (link(source, target) != 0) return fail_system(target, "write", error);
    u->written++;
    return OLE_OK;
}

static ole_status unpack_all(unpacking *u, ole_error *error) {
    for (;;) {
        struct archive_entry *entry;
        char target[OLE_PATH_ROOM];
        int code = archive_read_next_header(u->archive, &entry);
        if (code == ARCHIVE_EOF) break;
        if (code < ARCHIVE_WARN) return fail_archive(u, error);
        ole_status status = find_target(u, entry, target, error);
        const char *link = archive_entry_hardlink(entry);
        if (status == OLE_OK && *target)
            status = link ? link_file(u, link, target, error) : write_file(u, target, error);
        if (status != OLE_OK) return status;
    }
    if (u->written > 0) return OLE_OK;
    return ole_fail(error, OLE_ERROR_FORMAT, "%s: the archive holds none of the files sought",
                    u->name.text);
}

ole_status ole_unpack(const char *archive, const char *folder, const ole_known_file *only,
                      ole_error *error) {
    unpacking u = {.folder = folder, .only = only, .archive = archive_read_new()};
    ole_show_string(&u.name, archive);
    if (!u.archive) return ole_fail(error, OLE_ERROR_MEMORY, "out of memory for an archive");
    /* libarchive gives names in the locale's characters; in "C" it has none for those of a zip. */
    locale_t utf8 = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0), before = (locale_t)0;
    if (utf8) before = uselocale(utf8);
    archive_read_support_filter_gzip(u.archive);
    archive_read_support_format_tar(u.archive);
    archive_read_support_format_zip(u.archive);
    ole_status status = OLE_OK;
    if (archive_read_open_filename(u.archive, archive, BLOCK) != ARCHIVE_OK)
        status = fail_archive(&u, error);
    if (status == OLE_OK) status = unpack_all(&u, error);
    archive_read_free(u.archive);
    if (utf8) {
        uselocale(before);
        freelocale(utf8);
    }
    return status;
}

#endif
