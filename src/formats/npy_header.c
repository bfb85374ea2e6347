/*
 * src/formats/npy_header.c - the header of a .npy file.
 *
 * A file begins with \x93NUMPY, two version bytes, the length of the header (two bytes in version
 * 1, four in 2 and 3, little-endian) and the header itself, a Python literal:
 *
 *     {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }
 *
 * The parser takes exactly this literal, in any order and spacing, and no other Python.  Nothing in
 * the file is believed before it is checked: every read is bounded by the header's end, which is
 * bounded by the file's.
 */
#include "formats/npy_header.h"

#include "base/error.h"
#include "base/quote.h"
#include "formats/input.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define SAVE_AGAIN "save it again with numpy.save"

enum { MAGIC_SIZE = 6, VERSION_SIZE = 2, ALIGNMENT = 64 };
static const unsigned char magic[MAGIC_SIZE] = {0x93, 'N', 'U', 'M', 'P', 'Y'};

/* Where the parser stands in the header. `begin` is the file's first byte, for offsets. */
typedef struct cursor {
    const char *begin;
    const char *next;
    const char *end;
    const char *name;
    ole_npy_text *text; /* NULL: strings are refused */
    ole_error *error;
} cursor;

/* Fails with "NAME: header, byte OFFSET: MESSAGE". */
OLE_PRINTF(2, 3)
static ole_status fail_at(const cursor *c, const char *format, ...) {
    char message[sizeof c->error->message];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    return ole_fail(c->error, OLE_ERROR_FORMAT, "%s: header, byte %td: %s", c->name,
                    c->next - c->begin, message);
}

/* ---- Pieces of the Python literal --------------------------------------------------------- */

static void skip_space(cursor *c) {
    while (c->next < c->end && strchr(" \t\r\n", *c->next) && *c->next)
        c->next++;
}

/* Skips space; takes `wanted` when it comes next. */
static bool take(cursor *c, char wanted) {
    skip_space(c);
    if (c->next == c->end || *c->next != wanted) return false;
    c->next++;
    return true;
}

static ole_status expect(cursor *c, char wanted) {
    if (take(c, wanted)) return OLE_OK;
    return fail_at(c, "expected '%c': the header is damaged, " SAVE_AGAIN, wanted);
}

static bool take_word(cursor *c, const char *word) {
    size_t length = strlen(word);
    skip_space(c);
    if ((size_t)(c->end - c->next) < length || memcmp(c->next, word, length) != 0) return false;
    c->next += length;
    return true;
}

/* A quoted string without escapes; [*text, *text + *length) lies in the header. */
static ole_status parse_string(cursor *c, const char **text, size_t *length) {
    skip_space(c);
    char quote = c->next < c->end ? *c->next : '\0';
    if (quote != '\'' && quote != '"')
        return fail_at(c, "expected a quoted string: the header is damaged, " SAVE_AGAIN);
    const char *begin = c->next + 1;
    const char *close = memchr(begin, quote, (size_t)(c->end - begin));
    if (!close) return fail_at(c, "the string has no end: the header is damaged, " SAVE_AGAIN);
    *text = begin;
    *length = (size_t)(close - begin);
    c->next = close + 1;
    return OLE_OK;
}

static bool is_digit(const cursor *c) {
    return c->next < c->end && *c->next >= '0' && *c->next <= '9';
}

static ole_status parse_dimension(cursor *c, int64_t *value) {
    skip_space(c);
    if (c->next < c->end && *c->next == '-')
        return fail_at(c, "a dimension is negative: the header is damaged, " SAVE_AGAIN);
    if (!is_digit(c)) return fail_at(c, "expected a dimension: the header is damaged, " SAVE_AGAIN);
    *value = 0;
    for (; is_digit(c); c->next++) {
        int digit = *c->next - '0';
        if (*value > (INT64_MAX - digit) / 10)
            return fail_at(c, "a dimension is too large for int64: the header is damaged");
        *value = *value * 10 + digit;
    }
    if (c->next < c->end && *c->next == 'L') c->next++; /* Python 2 wrote 3L */
    return OLE_OK;
}

/* A tuple: (), (3,), (3, 4), (3, 4,). */
static ole_status parse_shape(cursor *c, ole_npy_header *header) {
    ole_status status = expect(c, '(');
    bool comma = true;
    while (status == OLE_OK && !take(c, ')')) {
        if (header->ndim == OLE_NPY_MAX_DIMS)
            return fail_at(c, "more than %d dimensions: reshape the array", OLE_NPY_MAX_DIMS);
        if (!comma) return fail_at(c, "expected ',' or ')': the header is damaged, " SAVE_AGAIN);
        status = parse_dimension(c, &header->shape[header->ndim++]);
        comma = take(c, ',');
    }
    if (status == OLE_OK && header->ndim == 1 && !comma)
        return fail_at(c, "the shape is not a tuple: the header is damaged, " SAVE_AGAIN);
    return status;
}

static ole_status parse_order(cursor *c, ole_npy_header *header) {
    header->fortran_order = take_word(c, "True");
    if (header->fortran_order || take_word(c, "False")) return OLE_OK;
    return fail_at(c, "expected True or False: the header is damaged, " SAVE_AGAIN);
}

/* ---- Element types ------------------------------------------------------------------------ */

static const struct {
    char code[3];
    ole_dtype dtype;
} codes[] = {
    {"f2", OLE_F16}, {"f4", OLE_F32}, {"f8", OLE_F64}, {"i1", OLE_I8},
    {"i2", OLE_I16}, {"i4", OLE_I32}, {"i8", OLE_I64}, {"u1", OLE_U8},
    {"u2", OLE_U16}, {"u4", OLE_U32}, {"u8", OLE_U64},
};

static bool host_is_little_endian(void) {
    const uint16_t one = 1;
    return *(const unsigned char *)&one == 1;
}

/* What to say of a type that is not taken, by its kind letter. */
static const char *kind_advice(char kind) {
    switch (kind) {
    case 'O':
        return "object arrays are not supported; save features with .astype('float32'), labels "
               "with .astype(str) or as integers";
    case 'c':
        return "complex numbers are not supported; save the real and imaginary parts separately";
    case 'b':
        return "booleans are not supported; save them with .astype('uint8')";
    case 'S':
    case 'U':
    case 'a':
        return "strings are no features; save those with .astype('float32'), and name the labels "
               "behind them";
    default:
        return "this type is not supported; save it as float32, float64 or an integer type";
    }
}

/* "U12" or "S3". */
static bool parse_text_code(const char *code, size_t length, ole_npy_text *text) {
    enum { MOST = 1 << 20 };
    if (length < 2 || (code[0] != 'U' && code[0] != 'S')) return false;
    size_t width = 0;
    for (size_t i = 1; i < length && width <= MOST; i++) {
        if (code[i] < '0' || code[i] > '9') return false;
        width = 10 * width + (size_t)(code[i] - '0');
    }
    *text = (ole_npy_text){width, code[0] == 'U' ? 4 : 1};
    return width >= 1 && width <= MOST;
}

static ole_status parse_descr(cursor *c, ole_npy_header *header) {
    skip_space(c);
    if (c->next < c->end && (*c->next == '[' || *c->next == '('))
        return fail_at(c, "structured arrays are not supported; save one field, as a['field']");
    cursor start = *c;
    const char *text = "";
    size_t length = 0;
    ole_status status = parse_string(c, &text, &length);
    if (status != OLE_OK) return status;

    bool has_order = length > 0 && text[0] && strchr("<>=|", text[0]);
    const char *code = text + has_order;
    size_t code_length = length - has_order;
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
        if (code_length != 2 || memcmp(code, codes[i].code, 2) != 0) continue;
        char other = host_is_little_endian() ? '>' : '<';
        header->dtype = codes[i].dtype;
        header->swapped = has_order && text[0] == other && ole_dtype_size(header->dtype) > 1;
        return OLE_OK;
    }
    if (c->text && parse_text_code(code, code_length, c->text)) {
        header->swapped = has_order && text[0] == (host_is_little_endian() ? '>' : '<');
        return OLE_OK;
    }
    return fail_at(&start, "dtype '%s': %s", ole_quote(text, length).text,
                   kind_advice(code_length > 0 ? code[0] : '\0'));
}

/* ---- The dictionary ----------------------------------------------------------------------- */

static const struct {
    const char *name;
    ole_status (*parse)(cursor *c, ole_npy_header *header);
} keys[] = {{"descr", parse_descr}, {"fortran_order", parse_order}, {"shape", parse_shape}};
enum { KEYS = sizeof keys / sizeof *keys };

static ole_status parse_entry(cursor *c, ole_npy_header *header, bool seen[KEYS]) {
    skip_space(c);
    cursor start = *c;
    const char *text = "";
    size_t length = 0;
    ole_status status = parse_string(c, &text, &length);
    if (status != OLE_OK) return status;
    size_t k = 0;
    while (k < KEYS && (strlen(keys[k].name) != length || memcmp(keys[k].name, text, length) != 0))
        k++;
    if (k == KEYS)
        return fail_at(&start, "key '%s' is unknown: the header is damaged, " SAVE_AGAIN,
                       ole_quote(text, length).text);
    if (seen[k])
        return fail_at(&start, "key '%s' comes twice: the header is damaged, " SAVE_AGAIN,
                       keys[k].name);
    seen[k] = true;
    status = expect(c, ':');
    return status == OLE_OK ? keys[k].parse(c, header) : status;
}

static ole_status parse_dictionary(cursor *c, ole_npy_header *header) {
    bool seen[KEYS] = {false};
    ole_status status = expect(c, '{');
    bool comma = true;
    while (status == OLE_OK && !take(c, '}')) {
        if (!comma) return fail_at(c, "expected ',' or '}': the header is damaged, " SAVE_AGAIN);
        status = parse_entry(c, header, seen);
        comma = take(c, ',');
    }
    if (status != OLE_OK) return status;
    for (size_t k = 0; k < KEYS; k++)
        if (!seen[k])
            return fail_at(c, "key '%s' is missing: the header is damaged, " SAVE_AGAIN,
                           keys[k].name);
    skip_space(c);
    if (c->next < c->end)
        return fail_at(c, "text after the dictionary: the header is damaged, " SAVE_AGAIN);
    return OLE_OK;
}

/* ---- The file ----------------------------------------------------------------------------- */

/* Finds the header: [*begin, *end) in bytes. */
static ole_status locate(const unsigned char *bytes, size_t size, const char *name, size_t *begin,
                         size_t *end, ole_error *error) {
    if (size == 0)
        return ole_fail(error, OLE_ERROR_FORMAT, "%s: the file is empty: " SAVE_AGAIN, name);
    size_t compared = size < MAGIC_SIZE ? size : (size_t)MAGIC_SIZE;
    if (memcmp(bytes, magic, compared) != 0)
        return ole_fail(error, OLE_ERROR_FORMAT,
                        "%s: not a .npy file, as its first bytes are not \\x93NUMPY: " SAVE_AGAIN,
                        name);
    size_t fixed = MAGIC_SIZE + VERSION_SIZE;
    int major = size > MAGIC_SIZE ? bytes[MAGIC_SIZE] : 1;
    if (major < 1 || major > 3)
        return ole_fail(error, OLE_ERROR_FORMAT,
                        "%s: unknown .npy version %d at byte %d (known: 1 to 3): " SAVE_AGAIN, name,
                        major, MAGIC_SIZE);
    size_t width = major == 1 ? 2 : 4;
    if (size < fixed + width)
        return ole_fail(error, OLE_ERROR_FORMAT,
                        "%s: truncated after %zu bytes, inside the header; copy it again", name,
                        size);
    uint32_t length = 0;
    for (size_t i = width; i-- > 0;)
        length = length << 8 | bytes[fixed + i];
    *begin = fixed + width;
    if (length > size - *begin)
        return ole_fail(error, OLE_ERROR_FORMAT,
                        "%s: the header should have %" PRIu32
                        " bytes, but the whole file has %zu: truncated or damaged; copy it again",
                        name, length, size);
    *end = *begin + length;
    return OLE_OK;
}

const char *ole_shape_text(char out[OLE_SHAPE_ROOM], int ndim, const int64_t *shape) {
    size_t room = OLE_SHAPE_ROOM, used = (size_t)snprintf(out, room, "(");
    for (int i = 0; i < ndim; i++)
        used += (size_t)snprintf(out + used, room - used, "%s%" PRId64, i ? ", " : "", shape[i]);
    snprintf(out + used, room - used, ndim == 1 ? ",)" : ")");
    return out;
}

bool ole_npy_count(int ndim, const int64_t *shape, size_t item, int64_t *count) {
    int64_t bytes = (int64_t)item;
    bool zero = false;
    for (int i = 0; i < ndim; i++) {
        if (shape[i] < 0) return false;
        if (shape[i] == 0) {
            zero = true;
            continue;
        }
        if (bytes > INT64_MAX / shape[i]) return false;
        bytes *= shape[i];
    }
    *count = zero ? 0 : bytes / (int64_t)item;
    return true;
}

/* Sets header->count, and checks that `available` bytes are what the elements take. */
static ole_status check_size(ole_npy_header *header, const ole_npy_text *text, size_t available,
                             const char *name, ole_error *error) {
    char shape[OLE_SHAPE_ROOM];
    ole_shape_text(shape, header->ndim, header->shape);
    size_t item = text->width > 0 ? text->width * text->unit : ole_dtype_size(header->dtype);
    if (!ole_npy_count(header->ndim, header->shape, item, &header->count))
        return ole_fail(error, OLE_ERROR_FORMAT,
                        "%s: shape %s is larger than any file: the header is damaged, " SAVE_AGAIN,
                        name, shape);
    uint64_t needed = (uint64_t)header->count * item;
    if (needed == available) return OLE_OK;
    bool is_short = available < needed;
    uint64_t difference = is_short ? needed - available : available - needed;
    return ole_fail(error, OLE_ERROR_FORMAT,
                    "%s: %" PRIu64 " byte%s %s: header says %s %s, %" PRIu64
                    " bytes, and %zu follow it; %s",
                    name, difference, difference == 1 ? "" : "s", is_short ? "short" : "too many",
                    shape, text->width > 0 ? "strings" : ole_dtype_name(header->dtype), needed,
                    available, is_short ? "copy or save it again" : SAVE_AGAIN);
}

ole_status ole_npy_parse(const unsigned char *bytes, size_t size, const char *name,
                         ole_npy_header *header, ole_npy_text *strings, size_t *offset,
                         ole_error *error) {
    ole_npy_text found = {0};
    size_t begin = 0, end = 0;
    ole_status status = locate(bytes, size, name, &begin, &end, error);
    if (status != OLE_OK) return status;
    const char *text = (const char *)bytes;
    cursor c = {.begin = text,
                .next = text + begin,
                .end = text + end,
                .name = name,
                .text = strings ? &found : NULL,
                .error = error};
    ole_npy_header parsed = {0};
    status = parse_dictionary(&c, &parsed);
    if (status == OLE_OK) status = check_size(&parsed, &found, size - end, name, error);
    if (status != OLE_OK) return status;
    *header = parsed;
    if (strings) *strings = found;
    *offset = end;
    return OLE_OK;
}

size_t ole_npy_format_header(char out[OLE_NPY_HEADER_ROOM], ole_dtype dtype, int ndim,
                             const int64_t *shape) {
    size_t prefix = MAGIC_SIZE + VERSION_SIZE + 2;
    const char *code = "";
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
        if (codes[i].dtype == dtype) code = codes[i].code;
    char order = ole_dtype_size(dtype) == 1 ? '|' : host_is_little_endian() ? '<' : '>';
    char tuple[OLE_SHAPE_ROOM];
    size_t used = prefix + (size_t)snprintf(out + prefix, OLE_NPY_HEADER_ROOM - prefix,
                                            "{'descr': '%c%s', 'fortran_order': False, "
                                            "'shape': %s, }",
                                            order, code, ole_shape_text(tuple, ndim, shape));
    size_t total = (used + 1 + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    memset(out + used, ' ', total - used - 1);
    out[total - 1] = '\n';
    memcpy(out, magic, MAGIC_SIZE);
    out[MAGIC_SIZE] = 1;
    out[MAGIC_SIZE + 1] = 0;
    out[prefix - 2] = (char)((total - prefix) & 0xff);
    out[prefix - 1] = (char)((total - prefix) >> 8);
    return total;
}
