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
#include "ole/base.h"

/*
 * What a packed file may unpack to: FREE bytes, and beyond them RATIO times the file.  Images pack
 * to a fifth or so, zeros to a thousandth: a small file of them must not cost gigabytes.
 */
enum { OLE_UNPACK_RATIO = 100, OLE_UNPACK_FREE = 1 << 26 };

typedef struct ole_stream {
    void *file;
    ole_quoted name; /* for messages */
    int64_t size;    /* of the file as it lies there */
    int64_t room;    /* the most bytes it may hold unpacked: guards against wild headers */
    int64_t offset;  /* unpacked bytes read so far */
} ole_stream;

ole_status ole_stream_open(ole_stream *stream, const char *path, ole_error *error);

/* Exactly `size` bytes; `what` names them where the file ends before. */
ole_status ole_stream_read(ole_stream *stream, void *out, size_t size, const char *what,
                           ole_error *error);

/* OLE_ERROR_FORMAT when there are bytes left. */
ole_status ole_stream_end(ole_stream *stream, ole_error *error);
void ole_stream_close(ole_stream *stream);

#endif
