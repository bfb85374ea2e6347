/*
 * src/formats/protobuf.h - writes messages in the wire format of protocol buffers: fields with a
 * number and a value; a nested message is a field of bytes.
 *
 *     ole_protobuf w = {0};
 *     ole_protobuf_integer(&w, 1, 8);
 *     size_t inner = ole_protobuf_open(&w, 7);
 *     ole_protobuf_string(&w, 2, "net");
 *     ole_protobuf_close(&w, inner);
 *     if (w.failed) ... // out of memory, at any of the calls
 *     free(w.bytes);
 */
#ifndef OLE_SRC_FORMATS_PROTOBUF_H
#define OLE_SRC_FORMATS_PROTOBUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct ole_protobuf {
    unsigned char *bytes; /* [size] what was written; the caller frees it */
    size_t size, room;
    bool failed;
} ole_protobuf;

void ole_protobuf_integer(ole_protobuf *w, int field, int64_t value);
void ole_protobuf_float(ole_protobuf *w, int field, float value);
void ole_protobuf_string(ole_protobuf *w, int field, const char *text);

/* The start of a field of `size` bytes that the caller writes elsewhere. */
void ole_protobuf_head(ole_protobuf *w, int field, size_t size);

/* Raw bytes, without a field around them. */
void ole_protobuf_append(ole_protobuf *w, const void *bytes, size_t size);

/* A message as a field: what is written between the two calls. `mark` is what open returned. */
size_t ole_protobuf_open(ole_protobuf *w, int field);
void ole_protobuf_close(ole_protobuf *w, size_t mark);

/* The same for a message with `more` bytes to follow, which the caller writes elsewhere. */
void ole_protobuf_close_early(ole_protobuf *w, size_t mark, size_t more);

#endif
