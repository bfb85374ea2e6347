/*
 * src/formats/npz.c - one array of a .npz file.
 *
 * Archives may be damaged or made to do harm: sizes are compared with what the file holds before
 * anything is allocated, and an array unpacks to 32 MiB or a hundred times the archive at most.
 */
#include "formats/npz.h"

#include "base/error.h"
#include "base/quote.h"
#include "base/read_file.h"
#include "formats/npy_header.h"

#include <stdlib.h>
#include <string.h>
#ifdef OLE_HAVE_ZLIB
#include <zlib.h>
#endif

static const size_t most_bytes = (size_t)1 << 36, unpack_free = 1 << 25, unpack_ratio = 100;

/* The whole file. */
typedef struct archive {
    ole_quoted name;
    char *text; /* `bytes`, as they were read */
    const unsigned char *bytes;
    size_t size;
} archive;

/* One array, as the archive's directory lists it. */
typedef struct member {
    uint32_t method, packed, size, offset;
} member;

static uint32_t little(const unsigned char *at, int bytes) {
    uint32_t value = 0;
    for (int i = bytes; i-- > 0;)
        value = value << 8 | at[i];
    return value;
}

static ole_status fail_damaged(const archive *a, ole_error *error) {
    return ole_fail(error, OLE_ERROR_FORMAT,
                    "%s: not a whole .npz file; save it again with numpy.savez", a->name.text);
}

/* Finds NAME.npy, or (NULL) the first array. */
static ole_status find_member(const archive *a, const char *name, member *found, ole_error *error) {
    const unsigned char *zip = a->bytes;
    size_t end = a->size < 22 ? 0 : a->size - 22;
    while (end > 0 && a->size - end < 66000 && memcmp(zip + end, "PK\5\6", 4) != 0)
        end--;
    if (a->size < 22 || memcmp(zip + end, "PK\5\6", 4) != 0) return fail_damaged(a, error);
    size_t at = little(zip + end + 16, 4);
    for (uint32_t left = little(zip + end + 10, 2); left > 0; left--) {
        if (at > a->size - 22 || a->size - at < 46 || memcmp(zip + at, "PK\1\2", 4) != 0)
            return fail_damaged(a, error);
        size_t length = little(zip + at + 28, 2), next = at + 46 + length;
        if (next > a->size) return fail_damaged(a, error);
        const char *called = (const char *)zip + at + 46;
        bool is_array = length > 4 && memcmp(called + length - 4, ".npy", 4) == 0;
        bool same = !name || (strlen(name) == length - 4 && memcmp(name, called, length - 4) == 0);
        *found = (member){little(zip + at + 10, 2), little(zip + at + 20, 4),
                          little(zip + at + 24, 4), little(zip + at + 42, 4)};
        if (is_array && same) return OLE_OK;
        at = next + little(zip + at + 30, 2) + little(zip + at + 32, 2);
    }
    ole_quoted quoted;
    if (!name)
        return ole_fail(error, OLE_ERROR_FORMAT, "%s: there is no array in it", a->name.text);
    return ole_fail(error, OLE_ERROR_FORMAT, "%s: there is no array '%s' in it", a->name.text,
                    ole_quote_string(&quoted, name));
}

/* Whether `packed` bytes unpack to exactly `size`. */
static bool inflate_bytes(const unsigned char *from, uint32_t packed, unsigned char *to,
                          uint32_t size) {
#ifdef OLE_HAVE_ZLIB
    z_stream z = {.next_in = (unsigned char *)from, .avail_in = packed};
    z.next_out = to;
    z.avail_out = size;
    if (inflateInit2(&z, -MAX_WBITS) != Z_OK) return false;
    int code = inflate(&z, Z_FINISH);
    inflateEnd(&z);
    return code == Z_STREAM_END && z.avail_out == 0;
#else
    (void)from, (void)packed, (void)to, (void)size;
    return false;
#endif
}

/* The bytes of a member, to be freed. */
static ole_status unpack(const archive *a, const member *m, unsigned char **bytes,
                         ole_error *error) {
    enum { STORED = 0, DEFLATED = 8 };
    size_t room = a->size * unpack_ratio > unpack_free ? a->size * unpack_ratio : unpack_free;
    size_t offset = m->offset;
    const unsigned char *zip = a->bytes;
    bool good =
        offset < a->size && a->size - offset >= 30 && memcmp(zip + offset, "PK\3\4", 4) == 0;
    if (good) offset += 30 + little(zip + offset + 26, 2) + little(zip + offset + 28, 2);
    if (m->size == UINT32_MAX || m->packed == UINT32_MAX)
        return ole_fail(error, OLE_ERROR_FORMAT, "%s: an array of 4 GB or more: save it as .npy",
                        a->name.text);
    if (!good || offset > a->size || m->packed > a->size - offset || m->size > room)
        return ole_fail(error, OLE_ERROR_FORMAT, "%s: damaged: an array claims to have %u bytes",
                        a->name.text, m->size);
    *bytes = malloc((size_t)m->size + 1);
    if (!*bytes) return ole_fail(error, OLE_ERROR_MEMORY, "%s: out of memory", a->name.text);
    if (m->method == DEFLATED) {
        good = inflate_bytes(zip + offset, m->packed, *bytes, m->size);
    } else {
        good = m->method == STORED && m->packed == m->size;
        if (good) memcpy(*bytes, zip + offset, m->size);
    }
    if (good) return OLE_OK;
    free(*bytes);
    return ole_fail(error, OLE_ERROR_FORMAT,
                    "%s: an array cannot be unpacked: damaged, or packed in a way that this build "
                    "does not know; save it again with numpy.savez",
                    a->name.text);
}

ole_status ole_npz_open(ole_npy **array, const char *path, const char *name, bool text,
                        ole_error *error) {
    archive a = {0};
    member m = {0};
    unsigned char *bytes = NULL;
    *array = NULL;
    ole_quote_string(&a.name, path);
    ole_status status = ole_read_file(path, most_bytes, &a.text, &a.size, error);
    a.bytes = (const unsigned char *)a.text;
    if (status == OLE_OK) status = find_member(&a, name, &m, error);
    if (status == OLE_OK) status = unpack(&a, &m, &bytes, error);
    free(a.text);
    return status == OLE_OK ? ole_npy_adopt(array, path, bytes, m.size, NULL, text, error) : status;
}
