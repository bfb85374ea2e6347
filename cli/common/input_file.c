/*
 * cli/common/input_file.c - .npy, .npz, .csv and .txt files, for every command that reads features.
 *
 * Files may be damaged or made to do harm: sizes are compared with what the file holds before
 * anything is allocated, an archive unpacks to 32 MiB or a hundred times its size at most, and
 * tables grow with what was read.
 */
#include "common/input_file.h"

#include "base/memory_file.h"
#include "base/number.h"
#include "base/quote.h"
#include "base/read_file.h"

#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#ifdef OLE_HAVE_ZLIB
#include <zlib.h>
#endif

static const size_t most_bytes = (size_t)1 << 36, unpack_free = 1 << 25, unpack_ratio = 100;

__attribute__((format(printf, 3, 4))) static bool fail(ole_error *error, const char *path,
                                                       const char *format, ...) {
    char why[sizeof error->message / 2];
    ole_quoted quoted;
    va_list args;
    va_start(args, format);
    vsnprintf(why, sizeof why, format, args);
    va_end(args);
    error->status = OLE_ERROR_FORMAT;
    snprintf(error->message, sizeof error->message, "%s: %s", ole_quote_string(&quoted, path), why);
    return false;
}

/* The part of "data.csv:column" behind the ':', or NULL; `path` gets the file. */
static const char *split_path(const char *given, char path[PATH_MAX]) {
    static const char *const ends[] = {".npz:", ".csv:"};
    const char *part = NULL;
    for (int i = 0; i < 2; i++)
        for (const char *at = given; (at = strstr(at, ends[i])); at++)
            part = at + 5;
    snprintf(path, PATH_MAX, "%.*s", part ? (int)(part - 1 - given) : INT_MAX, given);
    return part;
}

static bool ends_in(const char *path, const char *end) {
    size_t length = strlen(path), part = strlen(end);
    return length > part && strcmp(path + length - part, end) == 0;
}

static uint32_t little(const unsigned char *at, int bytes) {
    uint32_t value = 0;
    for (int i = bytes; i-- > 0;)
        value = value << 8 | at[i];
    return value;
}

/* ---- Strings of NumPy --------------------------------------------------------------------- */

/* Whether a .npy file begins here whose elements are strings: kind U or S, of `width` characters,
 * `count` of them; they begin at the offset that is returned, else 0. */
static size_t find_strings(const unsigned char *bytes, size_t size, char *kind, size_t *width,
                           size_t *count) {
    if (size < 12 || memcmp(bytes, "\x93NUMPY", 6) != 0) return 0;
    int bytes_of_length = bytes[6] == 1 ? 2 : 4;
    size_t begin = 8 + (size_t)bytes_of_length, length = little(bytes + 8, bytes_of_length);
    char header[256], order, is_fortran[8], end[2];
    if (length > size - begin) return 0;
    snprintf(header, sizeof header, "%.*s", (int)length, (const char *)bytes + begin);
    int got = sscanf(
        header, " { 'descr' : '%c%c%zu' , 'fortran_order' : %7[A-Za-z] , 'shape' : ( %zu %1[,)]",
        &order, kind, width, is_fortran, count, end);
    bool good = got == 6 && (order == '<' || order == '|') && (*kind == 'U' || *kind == 'S');
    return good ? begin + length : 0;
}

static void put_utf8(FILE *out, uint32_t c) {
    if (c < 0x80)
        fputc((int)c, out);
    else if (c < 0x800)
        fprintf(out, "%c%c", 0xc0 | c >> 6, 0x80 | (c & 0x3f));
    else if (c < 0x10000)
        fprintf(out, "%c%c%c", 0xe0 | c >> 12, 0x80 | (c >> 6 & 0x3f), 0x80 | (c & 0x3f));
    else
        fprintf(out, "%c%c%c%c", 0xf0 | (c >> 18 & 7), 0x80 | (c >> 12 & 0x3f),
                0x80 | (c >> 6 & 0x3f), 0x80 | (c & 0x3f));
}

/* Cells from strings of fixed width, which zeros fill up. */
static bool read_strings(input_file *file, const char *path, const unsigned char *bytes,
                         size_t size, size_t offset, char kind, size_t width, size_t count,
                         ole_error *error) {
    size_t unit = kind == 'U' ? 4 : 1, left = size - offset;
    if (width == 0 || width > left / unit || count != left / unit / width ||
        count * width * unit != left)
        return fail(error, path, "%zu strings of %zu characters do not fill its %zu bytes", count,
                    width, left);
    ole_memory_file memory;
    if (!ole_memory_file_open(&memory)) return fail(error, path, "out of memory");
    for (size_t i = 0; i < count; i++, fputc('\0', memory.file))
        for (size_t k = 0; k < width; k++) {
            const unsigned char *at = bytes + offset + (i * width + k) * unit;
            uint32_t c = at[0];
            if (unit == 4) memcpy(&c, at, 4);
            if (c == 0) break;
            if (unit == 4)
                put_utf8(memory.file, c);
            else
                fputc((int)c, memory.file);
        }
    file->text = ole_memory_file_close(&memory);
    file->cells = malloc((count + 1) * sizeof *file->cells);
    if (!file->text || !file->cells) return fail(error, path, "out of memory");
    const char *at = file->text;
    for (size_t i = 0; i < count; i++, at += strlen(at) + 1)
        file->cells[i] = at;
    file->rows = (int64_t)count;
    file->columns = 1;
    return true;
}

/* ---- .npz --------------------------------------------------------------------------------- */

/* One file of an archive, as its directory has it. */
typedef struct member {
    uint32_t method, packed, size, offset;
} member;

/* Finds NAME.npy, or (NULL) the first array. */
static bool find_member(const char *path, const unsigned char *zip, size_t size, const char *name,
                        member *found, ole_error *error) {
    static const char damaged[] = "not a whole .npz file; save it again with numpy.savez";
    size_t end = size < 22 ? 0 : size - 22;
    while (end > 0 && size - end < 66000 && memcmp(zip + end, "PK\5\6", 4) != 0)
        end--;
    if (size < 22 || memcmp(zip + end, "PK\5\6", 4) != 0) return fail(error, path, "%s", damaged);
    size_t at = little(zip + end + 16, 4);
    for (uint32_t left = little(zip + end + 10, 2); left > 0; left--) {
        if (at > size - 22 || size - at < 46 || memcmp(zip + at, "PK\1\2", 4) != 0)
            return fail(error, path, "%s", damaged);
        size_t length = little(zip + at + 28, 2), next = at + 46 + length;
        if (next > size) return fail(error, path, "%s", damaged);
        const char *called = (const char *)zip + at + 46;
        bool is_array = length > 4 && memcmp(called + length - 4, ".npy", 4) == 0;
        bool same = !name || (strlen(name) == length - 4 && memcmp(name, called, length - 4) == 0);
        *found = (member){little(zip + at + 10, 2), little(zip + at + 20, 4),
                          little(zip + at + 24, 4), little(zip + at + 42, 4)};
        if (is_array && same) return true;
        at = next + little(zip + at + 30, 2) + little(zip + at + 32, 2);
    }
    return fail(error, path, name ? "there is no array '%s' in it" : "there is no array in it%s",
                name ? name : "");
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

/* The bytes of a member, unpacked; free() them.  NULL: an error. */
static unsigned char *unpack(const char *path, const unsigned char *zip, size_t size,
                             const member *m, ole_error *error) {
    enum { STORED = 0, DEFLATED = 8 };
    size_t room = size * unpack_ratio > unpack_free ? size * unpack_ratio : unpack_free;
    size_t offset = m->offset;
    bool good = offset < size && size - offset >= 30 && memcmp(zip + offset, "PK\3\4", 4) == 0;
    if (good) offset += 30 + little(zip + offset + 26, 2) + little(zip + offset + 28, 2);
    if (m->size == UINT32_MAX || m->packed == UINT32_MAX)
        return fail(error, path, "an array of 4 GB or more: save it as .npy"), NULL;
    if (!good || offset > size || m->packed > size - offset || m->size > room)
        return fail(error, path, "damaged: an array claims to have %u bytes", m->size), NULL;
    unsigned char *bytes = malloc((size_t)m->size + 1);
    if (!bytes) return fail(error, path, "out of memory"), NULL;
    if (m->method == DEFLATED) {
        good = inflate_bytes(zip + offset, m->packed, bytes, m->size);
    } else {
        good = m->method == STORED && m->packed == m->size;
        if (good) memcpy(bytes, zip + offset, m->size);
    }
    if (good) return bytes;
    free(bytes);
    return fail(error, path,
                "an array cannot be unpacked: damaged, or packed in a way that this build does "
                "not know; save it again with numpy.savez"),
           NULL;
}

/* ole_npy_open() of bytes: through a file in memory, which messages call by its real name. */
static bool open_bytes(input_file *file, const char *path, const unsigned char *bytes, size_t size,
                       ole_error *error) {
    char name[64];
    int fd = memfd_create("npz", MFD_CLOEXEC);
    size_t done = 0;
    for (ssize_t got = 1; fd >= 0 && done < size && got > 0; done += got > 0 ? (size_t)got : 0)
        got = write(fd, bytes + done, size - done);
    snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    bool good = fd >= 0 && done == size;
    if (!good) fail(error, path, "out of memory");
    if (good && ole_npy_open(&file->npy, name, error) != OLE_OK) {
        char *message = strdup(error->message);
        size_t known = strlen(name) + 2;
        good = fail(error, path, "%s", message && strlen(message) > known ? message + known : "");
        free(message);
    }
    if (fd >= 0) close(fd);
    return good;
}

static bool open_npz(input_file *file, const char *path, const char *name, bool strings,
                     ole_error *error) {
    char *zip = NULL;
    size_t size;
    member m = {0};
    if (ole_read_file(path, most_bytes, &zip, &size, error) != OLE_OK) return false;
    const unsigned char *from = (const unsigned char *)zip;
    unsigned char *bytes =
        find_member(path, from, size, name, &m, error) ? unpack(path, from, size, &m, error) : NULL;
    free(zip);
    if (!bytes) return false;
    char kind = 0;
    size_t width = 0, count = 0;
    size_t offset = strings ? find_strings(bytes, m.size, &kind, &width, &count) : 0;
    bool good = offset ? read_strings(file, path, bytes, m.size, offset, kind, width, count, error)
                       : open_bytes(file, path, bytes, m.size, error);
    free(bytes);
    return good;
}

/* Labels: strings are read here, numbers where they lie. */
static bool open_npy(input_file *file, const char *path, ole_error *error) {
    unsigned char start[512];
    FILE *in = ole_fopen_regular(path);
    size_t got = in ? fread(start, 1, sizeof start, in) : 0, width = 0, count = 0;
    if (in) fclose(in);
    char kind = 0, *bytes = NULL;
    if (got == 0 || !find_strings(start, got, &kind, &width, &count))
        return ole_npy_open(&file->npy, path, error) == OLE_OK;
    if (ole_read_file(path, most_bytes, &bytes, &got, error) != OLE_OK) return false;
    const unsigned char *from = (const unsigned char *)bytes;
    size_t offset = find_strings(from, got, &kind, &width, &count);
    bool good = offset && read_strings(file, path, from, got, offset, kind, width, count, error);
    free(bytes);
    return good;
}

/* ---- Text --------------------------------------------------------------------------------- */

/* Takes the cell at *at, up to a comma (unless `whole`) or the end of the line; terminates it. */
static const char *take_cell(char **at, bool whole, bool *more) {
    char *from = *at, *to = from, *cell = from;
    if (!whole && *from == '"')
        for (from++; *from; *to++ = *from++)
            if (*from == '"' && *++from != '"') break; /* two are one of the text */
    while (*from && (whole || *from != ','))
        *to++ = *from++;
    *more = *from == ',';
    *at = from + (*from != '\0');
    *to = '\0';
    return cell;
}

/* Splits lines into cells; all lines have as many. */
static bool split_table(input_file *file, const char *path, size_t size, bool whole,
                        ole_error *error) {
    int64_t used = 0, room = 0, line = 0;
    char *end = file->text + size;
    while (end > file->text && (end[-1] == '\n' || end[-1] == '\r'))
        *--end = '\0';
    for (char *at = file->text; at < end;) {
        char *stop = memchr(at, '\n', (size_t)(end - at)), *cell = at;
        if (!stop) stop = end;
        line++;
        if (memchr(at, '\0', (size_t)(stop - at)))
            return fail(error, path, "line %" PRId64 " holds a zero byte: not text", line);
        *stop = '\0';
        if (stop > at && stop[-1] == '\r') stop[-1] = '\0';
        int64_t before = used;
        for (bool more = true; more;) {
            if (used == room) {
                room = 2 * room + 1024;
                const char **grown = realloc(file->cells, (size_t)room * sizeof *grown);
                if (!grown) return fail(error, path, "out of memory");
                file->cells = grown;
            }
            file->cells[used++] = take_cell(&cell, whole, &more);
        }
        if (line == 1) file->columns = used;
        if (used - before != file->columns)
            return fail(error, path,
                        "line %" PRId64 " has %" PRId64 " columns, line 1 has %" PRId64, line,
                        used - before, file->columns);
        at = stop + 1;
    }
    file->rows = line;
    file->first_line = 1;
    return line > 0 || fail(error, path, "the file is empty");
}

static bool is_number(const char *cell) {
    char *end;
    ole_number_read(cell, &end);
    return end > cell && end[strspn(end, " \t")] == '\0';
}

static void drop_header(input_file *file) {
    memmove(file->cells, file->cells + file->columns,
            (size_t)((file->rows - 1) * file->columns) * sizeof *file->cells);
    file->rows--;
    file->first_line++;
}

/* The column of that name, or else of that number, from 1 on; -1: there is none. */
static int64_t find_column(const input_file *file, const char *name) {
    for (int64_t c = 0; c < file->columns; c++)
        if (strcmp(file->cells[c], name) == 0) return c;
    char *end;
    long number = strtol(name, &end, 10);
    return *name && !*end && number >= 1 && number <= file->columns ? number - 1 : -1;
}

/* Keeps one column, or all others. */
static void keep_columns(input_file *file, int64_t column, bool others) {
    int64_t used = 0;
    for (int64_t i = 0; i < file->rows * file->columns; i++)
        if ((i % file->columns == column) != others) file->cells[used++] = file->cells[i];
    file->columns = others ? file->columns - 1 : 1;
}

static bool open_csv(input_file *file, const char *path, const char *column, bool others,
                     ole_error *error) {
    size_t size;
    if (ole_read_file(path, most_bytes, &file->text, &size, error) != OLE_OK) return false;
    if (!split_table(file, path, size, false, error)) return false;
    int64_t at = column ? find_column(file, column) : -1;
    bool by_name = at >= 0 && strcmp(file->cells[at], column) == 0;
    if (!others && !column)
        return fail(error, path, "labels need a column, as in %s:%s", path, file->cells[0]);
    if (column && at < 0)
        return fail(error, path, "there is no column '%s'; the first is '%s', the last '%s'",
                    column, file->cells[0], file->cells[file->columns - 1]);
    bool has_header = by_name;
    for (int64_t c = 0; c < file->columns && others && !has_header; c++)
        has_header = c != at && !is_number(file->cells[c]);
    if (has_header) drop_header(file);
    if (at >= 0) keep_columns(file, at, others);
    return (file->rows > 0 && file->columns > 0) || fail(error, path, "there are no rows in it");
}

bool input_file_open(input_file *file, const char *features, const char *labels, ole_error *error) {
    char path[PATH_MAX], other[PATH_MAX] = "";
    *file = (input_file){0};
    const char *part = split_path(features ? features : labels, path), *column = part;
    if (features) column = labels ? split_path(labels, other) : NULL;
    if (ends_in(path, ".npz")) return open_npz(file, path, part, !features, error);
    if (ends_in(path, ".csv"))
        return open_csv(file, path, !features || strcmp(path, other) == 0 ? column : NULL,
                        features != NULL, error);
    if (features) return ole_npy_open(&file->npy, path, error) == OLE_OK;
    if (!ends_in(path, ".txt")) return open_npy(file, path, error);
    size_t size;
    return ole_read_file(path, most_bytes, &file->text, &size, error) == OLE_OK &&
           split_table(file, path, size, true, error);
}

void input_file_close(input_file *file) {
    ole_npy_close(file->npy);
    free(file->cells);
    free(file->text);
    *file = (input_file){0};
}
