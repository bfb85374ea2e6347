/*
 * src/data/formats/stream.h - files of fixed layout, raw or gzipped: exact reads, errors with
 * offsets.
 *
 *     ole_stream stream;
 *     ole_status status = ole_stream_open(&stream, path, error);
 *     if (status == OLE_OK) status = ole_stream_read(&stream, header, 16, "the header", error);
 *     if (status == OLE_OK) status = ole_stream_end(&stream, error);
 *     ole_stream_close(&stream); // after a failed open too
 */
#ifndef OLE_SRC_DATA_FORMATS_STREAM_H
#define OLE_SRC_DATA_FORMATS_STREAM_H

#include "base/quote.h"
#include "data/source.h"

typedef struct ole_stream {
    void *file;
    const char *path; /* as given */
    ole_quoted name;  /* for messages */
    int64_t size;     /* of the file on disk */
    int64_t room;     /* the most bytes it may hold unpacked: guards against wild headers */
    int64_t offset;   /* unpacked bytes read so far */
} ole_stream;

/*
 * The most that a packed file of `size` bytes may unpack to: 64 MB, and beyond that a hundred times
 * the file.  Images pack to a fifth or so, zeros to a thousandth: a small file of them must not
 * cost gigabytes.
 */
int64_t ole_unpack_room(int64_t size);

ole_status ole_stream_open(ole_stream *stream, const char *path, ole_error *error);

/* Exactly `size` bytes; `what` names them if the file ends early. */
ole_status ole_stream_read(ole_stream *stream, void *out, size_t size, const char *what,
                           ole_error *error);

/* The label of sample i, a byte: `lowest` for the first of the source's classes. */
ole_status ole_stream_read_label(ole_stream *stream, int lowest, ole_source *source, int64_t i,
                                 ole_error *error);

/* OLE_ERROR_FORMAT when there are bytes left. */
ole_status ole_stream_end(ole_stream *stream, ole_error *error);
void ole_stream_close(ole_stream *stream);

#endif
