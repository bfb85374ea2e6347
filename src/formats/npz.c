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

#include <stdio.h>
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
                    "%s: truncated or not an .npz file; save it again with numpy.savez",
                    a->name.text);
}

/* What an archive holds, for messages: the first names, quoted, and the last of all. */
typedef struct listing {
    int64_t count;
    char names[160], last[64];
} listing;

static void list_array(listing *l, const char *name, size_t length) {
    size_t used = strlen(l->names);
    const ole_quoted quoted = ole_quote(name, length);
    if (used + strlen(quoted.text) + 6 < sizeof l->names)
        snprintf(l->names + used, sizeof l->names - used, "%s%s", l->count ? ", " : "",
                 quoted.text);
    else if (used > 3 && strcmp(l->names + used - 3, "...") != 0)
        strcpy(l->names + used, ", ...");
    snprintf(l->last, sizeof l->last, "%s", quoted.text);
    l->count++;
}

/* Finds NAME.npy, or (NULL) the first array; labels are never the first of several. */
static ole_status find_member(const archive *a, const char *name, bool labels, member *found,
                              ole_error *error) {
    const unsigned char *zip = a->bytes;
    size_t end = a->size < 22 ? 0 : a->size - 22;
    while (end > 0 && a->size - end < 66000 && memcmp(zip + end, "PK\5\6", 4) != 0)
        end--;
    if (a->size < 22 || memcmp(zip + end, "PK\5\6", 4) != 0) return fail_damaged(a, error);
    size_t at = little(zip + end + 16, 4);
    listing arrays = {0};
    bool has = false;
    for (uint32_t left = little(zip + end + 10, 2); left > 0 && !(has && name); left--) {
        if (at > a->size - 22 || a->size - at < 46 || memcmp(zip + at, "PK\1\2", 4) != 0)
            return fail_damaged(a, error);
        size_t length = little(zip + at + 28, 2), next = at + 46 + length;
        if (next > a->size) return fail_damaged(a, error);
        const char *called = (const char *)zip + at + 46;
        if (length > 4 && memcmp(called + length - 4, ".npy", 4) == 0) {
            bool same =
                name ? strlen(name) == length - 4 && memcmp(name, called, length - 4) == 0 : !has;
            if (same)
                *found = (member){little(zip + at + 10, 2), little(zip + at + 20, 4),
                                  little(zip + at + 24, 4), little(zip + at + 42, 4)};
            has |= same;
            list_array(&arrays, called, length - 4);
        }
        at = next + little(zip + at + 30, 2) + little(zip + at + 32, 2);
    }
    if (has && (name || !labels || arrays.count == 1)) return OLE_OK;
    if (arrays.count == 0)
        return ole_fail(error, OLE_ERROR_FORMAT, "%s: holds no array", a->name.text);
    if (name)
        return ole_fail(error, OLE_ERROR_FORMAT, "%s: holds no array '%s'; it holds %s",
                        a->name.text, ole_quote_string(name).text, arrays.names);
    return ole_fail(error, OLE_ERROR_FORMAT,
                    "%s: holds several arrays (%s); name that of the labels, as in %s:%s",
                    a->name.text, arrays.names, a->name.text, arrays.last);
}

#ifdef OLE_HAVE_ZLIB
static const bool inflates = true;

/* Whether `packed` bytes unpack to exactly `size`. */
static bool inflate_bytes(const unsigned char *from, uint32_t packed, unsigned char *to,
                          uint32_t size) {
    z_stream z = {.next_in = (unsigned char *)from, .avail_in = packed};
    z.next_out = to;
    z.avail_out = size;
    if (inflateInit2(&z, -MAX_WBITS) != Z_OK) return false;
    int code = inflate(&z, Z_FINISH);
    inflateEnd(&z);
    return code == Z_STREAM_END && z.avail_out == 0;
}
#else
static const bool inflates = false;

static bool inflate_bytes(const unsigned char *from, uint32_t packed, unsigned char *to,
                          uint32_t size) {
    (void)from, (void)packed, (void)to, (void)size;
    return false;
}
#endif

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
        return ole_fail(error, OLE_ERROR_FORMAT,
                        "%s: holds an array of 4 GB or more; save it as .npy", a->name.text);
    if (!good || offset > a->size || m->packed > a->size - offset || m->size > room)
        return ole_fail(error, OLE_ERROR_FORMAT, "%s: damaged: an array claims to have %u bytes",
                        a->name.text, m->size);
    if (m->method == DEFLATED && !inflates)
        return ole_fail(error, OLE_ERROR_UNSUPPORTED,
                        "%s: compressed, and this build has no zlib; save it with numpy.savez",
                        a->name.text);
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
                    "%s: an array cannot be unpacked: damaged, or in an unknown compression; save "
                    "it again with numpy.savez",
                    a->name.text);
}

ole_status ole_npz_open(ole_npy **array, const char *path, const char *name, bool labels,
                        ole_error *error) {
    archive a = {0};
    member m = {0};
    unsigned char *bytes = NULL;
    *array = NULL;
    a.name = ole_quote_string(path);
    ole_status status = ole_read_file(path, most_bytes, &a.text, &a.size, error);
    a.bytes = (const unsigned char *)a.text;
    if (status == OLE_OK) status = find_member(&a, name, labels, &m, error);
    if (status == OLE_OK) status = unpack(&a, &m, &bytes, error);
    free(a.text);
    return status == OLE_OK ? ole_npy_adopt(array, path, bytes, m.size, NULL, labels, error)
                            : status;
}
