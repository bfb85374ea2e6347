/* src/base/read_file.c - opening regular files and nothing else, and reading a whole one. */
#include "base/read_file.h"

#include "base/error.h"
#include "base/quote.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int ole_open_regular(const char *path) {
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return -1;
    struct stat about;
    int number = fstat(fd, &about) != 0   ? errno
                 : S_ISDIR(about.st_mode) ? EISDIR
                 : S_ISREG(about.st_mode) ? 0
                                          : EINVAL;
    if (number == 0) return fd;
    close(fd);
    errno = number;
    return -1;
}

FILE *ole_fopen_regular(const char *path) {
    int fd = ole_open_regular(path);
    if (fd < 0) return NULL;
    FILE *file = fdopen(fd, "rb");
    if (file) return file;
    int number = errno;
    close(fd);
    errno = number;
    return NULL;
}

const char *ole_open_reason(int number) {
    return number == EINVAL ? "a pipe or a device; copy it to a file first" : strerror(number);
}

/* Less than the file's size where it is cut meanwhile. 0 or an errno. */
static int read_all(int fd, size_t limit, char **bytes, size_t *size) {
    struct stat about;
    if (fstat(fd, &about) != 0) return errno;
    if ((uint64_t)about.st_size > limit) return EFBIG;
    size_t length = (size_t)about.st_size;
    *bytes = malloc(length + 1);
    if (!*bytes) return ENOMEM;
    while (*size < length) {
        ssize_t got = read(fd, *bytes + *size, length - *size);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return errno;
        if (got == 0) break;
        *size += (size_t)got;
    }
    (*bytes)[*size] = '\0';
    return 0;
}

ole_status ole_read_file(const char *path, size_t limit, char **bytes, size_t *size,
                         ole_error *error) {
    *bytes = NULL;
    *size = 0;
    int fd = ole_open_regular(path);
    int number = fd < 0 ? errno : read_all(fd, limit, bytes, size);
    if (fd >= 0) close(fd);
    if (number == 0) return OLE_OK;
    free(*bytes);
    *bytes = NULL;
    *size = 0;
    return ole_fail(error, number == ENOMEM ? OLE_ERROR_MEMORY : OLE_ERROR_IO,
                    "%s: cannot read: %s", ole_quote_string(path).text, ole_open_reason(number));
}
