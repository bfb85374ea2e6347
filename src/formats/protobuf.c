/*
 * src/formats/protobuf.c - the wire format of protocol buffers: a field is a key (its number and
 * how the value is stored) and the value.  Keys, integers and lengths are varints: seven bits a
 * byte, the lowest first, the top bit set on all but the last.
 */
#include "formats/protobuf.h"

#include <stdlib.h>
#include <string.h>

enum { VARINT = 0, LENGTH = 2, FIXED32 = 5 }; /* how a value is stored */
enum { MAX_VARINT = 10 };

/* Room for `size` more bytes; NULL when there is none, now or before. */
static unsigned char *extend(ole_protobuf *w, size_t size) {
    if (w->failed) return NULL;
    if (w->room - w->size < size) {
        size_t room = 2 * w->room + size + 256;
        unsigned char *grown = realloc(w->bytes, room);
        if (!grown) {
            w->failed = true;
            return NULL;
        }
        w->bytes = grown;
        w->room = room;
    }
    unsigned char *at = w->bytes + w->size;
    w->size += size;
    return at;
}

static size_t encode(unsigned char out[MAX_VARINT], uint64_t value) {
    size_t size = 0;
    for (; value >= 0x80; value >>= 7)
        out[size++] = (unsigned char)(value | 0x80);
    out[size++] = (unsigned char)value;
    return size;
}

void ole_protobuf_append(ole_protobuf *w, const void *bytes, size_t size) {
    unsigned char *at = extend(w, size);
    if (at && size > 0) memcpy(at, bytes, size);
}

static void append_varint(ole_protobuf *w, uint64_t value) {
    unsigned char code[MAX_VARINT];
    ole_protobuf_append(w, code, encode(code, value));
}

static void append_key(ole_protobuf *w, int field, int stored) {
    append_varint(w, (uint64_t)field << 3 | (unsigned)stored);
}

void ole_protobuf_integer(ole_protobuf *w, int field, int64_t value) {
    append_key(w, field, VARINT);
    append_varint(w, (uint64_t)value);
}

void ole_protobuf_float(ole_protobuf *w, int field, float value) {
    append_key(w, field, FIXED32);
    ole_protobuf_append(w, &value, sizeof value);
}

void ole_protobuf_head(ole_protobuf *w, int field, size_t size) {
    append_key(w, field, LENGTH);
    append_varint(w, size);
}

void ole_protobuf_string(ole_protobuf *w, int field, const char *text) {
    ole_protobuf_head(w, field, strlen(text));
    ole_protobuf_append(w, text, strlen(text));
}

size_t ole_protobuf_open(ole_protobuf *w, int field) {
    append_key(w, field, LENGTH);
    return w->size;
}

/* The length is known only now: the message moves up to let it in. */
void ole_protobuf_close_early(ole_protobuf *w, size_t mark, size_t more) {
    unsigned char code[MAX_VARINT];
    size_t size = w->size - mark, length = encode(code, size + more);
    if (!extend(w, length)) return;
    memmove(w->bytes + mark + length, w->bytes + mark, size);
    memcpy(w->bytes + mark, code, length);
}

void ole_protobuf_close(ole_protobuf *w, size_t mark) {
    ole_protobuf_close_early(w, mark, 0);
}
