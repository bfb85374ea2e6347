/*
 * src/data/formats/stream.c - zlib reads raw and gzipped files alike; what it reports becomes a
 * sentence.
 */
#include "data/formats/stream.h"

#include "base/error.h"
#include "base/read_file.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

enum { CHUNK = 1 << 30 };

static ole_status fail_system(const ole_stream *stream, const char *what, int number,
                              ole_error *error) {
    return ole_fail(error, OLE_ERROR_IO, "%s: cannot %s: %s", stream->name.text, what,
                    ole_open_reason(number));
}

int64_t ole_unpack_room(int64_t size) {
    enum { RATIO = 100, FREE = 1 << 26 };
    int64_t room;
    if (__builtin_mul_overflow(size, (int64_t)RATIO, &room)) room = INT64_MAX;
    return room < FREE ? FREE : room;
}

/* Finds the size of the file, and the most that it may unpack to. */
static ole_status measure(ole_stream *stream, int fd, ole_error *error) {
    struct stat about;
    if (fstat(fd, &about) != 0) return fail_system(stream, "open", errno, error);
    unsigned char magic[2] = {0};
    bool packed = pread(fd, magic, 2, 0) == 2 && magic[0] == 0x1f && magic[1] == 0x8b;
    stream->size = stream->room = about.st_size;
    if (packed) stream->room = ole_unpack_room(stream->size);
    return OLE_OK;
}

ole_status ole_stream_open(ole_stream *stream, const char *path, ole_error *error) {
    *stream = (ole_stream){.path = path};
    stream->name = ole_quote_string(path);
    int fd = ole_open_regular(path);
    if (fd < 0) return fail_system(stream, "open", errno, error);
    ole_status status = measure(stream, fd, error);
    errno = ENOMEM;
    if (status == OLE_OK && !(stream->file = gzdopen(fd, "rb")))
        status = fail_system(stream, "open", errno, error);
    if (stream->file)
        gzbuffer(stream->file, 1 << 17);
    else
        close(fd);
    return status;
}

/* Up to `size` bytes, fewer only at the end of the file. */
static ole_status read_some(ole_stream *stream, void *out, size_t size, size_t *got,
                            ole_error *error) {
    *got = 0;
    while (*got < size) {
        size_t left = size - *got;
        errno = 0;
        int count = gzread(stream->file, (char *)out + *got, left < CHUNK ? (unsigned)left : CHUNK);
        if (count > 0) {
            *got += (size_t)count;
            stream->offset += count;
        }
        int number;
        const char *message = gzerror(stream->file, &number);
        if (number == Z_ERRNO) return fail_system(stream, "read", errno, error);
        if (number != Z_OK && number != Z_BUF_ERROR)
            return ole_fail(error, OLE_ERROR_FORMAT,
                            "%s: after %" PRId64
                            " unpacked bytes: damaged gzip data (%s); get it again",
                            stream->name.text, stream->offset, message);
        if (count <= 0) break;
    }
    return OLE_OK;
}

ole_status ole_stream_read(ole_stream *stream, void *out, size_t size, const char *what,
                           ole_error *error) {
    size_t got;
    ole_status status = read_some(stream, out, size, &got, error);
    if (status == OLE_OK && got < size)
        return ole_fail(error, OLE_ERROR_FORMAT,
                        "%s: truncated at byte %" PRId64 ", in %s; get it again", stream->name.text,
                        stream->offset, what);
    return status;
}

ole_status ole_stream_read_label(ole_stream *stream, int lowest, ole_source *source, int64_t i,
                                 ole_error *error) {
    uint8_t label;
    ole_status status = ole_stream_read(stream, &label, 1, "the labels", error);
    if (status != OLE_OK) return status;
    source->labels[i] = label - lowest;
    if (label >= lowest && source->labels[i] < source->classes) return OLE_OK;
    return ole_fail(
        error, OLE_ERROR_FORMAT, "%s: byte %" PRId64 ": label %d, not %d to %d; get the file again",
        stream->name.text, stream->offset - 1, label, lowest, lowest + source->classes - 1);
}

ole_status ole_stream_end(ole_stream *stream, ole_error *error) {
    int64_t end = stream->offset;
    char byte;
    size_t got;
    ole_status status = read_some(stream, &byte, 1, &got, error);
    if (status == OLE_OK && got > 0)
        return ole_fail(error, OLE_ERROR_FORMAT,
                        "%s: continues after byte %" PRId64
                        ", where it should end: damaged; get it again",
                        stream->name.text, end);
    return status;
}

void ole_stream_close(ole_stream *stream) {
    if (stream->file) gzclose(stream->file);
    stream->file = NULL;
}
