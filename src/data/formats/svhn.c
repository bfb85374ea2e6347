/*
 * src/data/formats/svhn.c - SVHN's cropped digits: MATLAB files, read with matio.
 *
 * X is 32 x 32 x 3 x N bytes in MATLAB's order (the first index the fastest: columns of a plane), y
 * holds N labels 1 to 10, where 10 stands for the digit 0.
 */
#include "base/error.h"
#include "data/formats/stream.h"

enum { SIDE = 32, PIXELS = 3 * SIDE * SIDE, CLASSES = 10 };

#ifndef OLE_HAVE_MATIO

static ole_status read_file(ole_stream *stream, int number, ole_source *source, ole_error *error) {
    (void)stream, (void)number, (void)source;
    return ole_fail(error, OLE_ERROR_UNSUPPORTED,
                    "svhn: this build cannot read .mat files; install matio (libmatio-dev) and "
                    "rebuild, or convert the set to .npy and use npy:X.npy,y.npy");
}

#else

#include <inttypes.h>
#include <matio.h>
#include <string.h>
#include <zlib.h>

typedef struct mat_file {
    mat_t *mat;
    const char *name;
    int64_t room; /* the most bytes it can hold unpacked */
} mat_file;

enum { TAG = 8, MATRIX = 14, PACKED = 15, START = 256 };

static uint32_t word_of(const unsigned char *b, bool little) {
    uint32_t word = 0;
    for (int i = 0; i < 4; i++)
        word = word << 8 | b[little ? 3 - i : i];
    return word;
}

/* The numbers of a part, whose tag is at `at`: their type and bytes, and where the next part is. Up
 * to four bytes lie in the tag itself. */
typedef struct part {
    uint32_t type, length;
    bool is_short;
    int64_t next;
} part;

static part read_part(const unsigned char *start, int64_t at, bool little) {
    uint32_t type = word_of(start + at, little), length = word_of(start + at + 4, little);
    if (type >> 16 != 0) return (part){type & 0xffff, type >> 16, true, at + TAG};
    return (part){type, length, false, at + TAG + ((int64_t)length + 7) / 8 * 8};
}

/* How many numbers the dimensions make; -1: too many. */
static int64_t count_numbers(const unsigned char *dims, uint32_t length, bool little) {
    int64_t count = 1;
    for (uint32_t i = 0; i < length / 4; i++) {
        uint32_t dim = word_of(dims + 4 * (size_t)i, little);
        if (dim > 0 && count > INT64_MAX / 8 / dim) return -1;
        count *= dim;
    }
    return count;
}

/* Whether flags, dimensions and name of a matrix lie inside it: matio allocates what their lengths
 * say. And whether there are as many numbers as the dimensions say: matio leaves out the others,
 * without a word. `start` has its first `got` bytes, behind the tag, of `size`. */
static bool has_parts(const unsigned char *start, size_t got, int64_t size, bool little) {
    enum { DIMENSIONS = 16, FIRST_NUMERIC = 6, LAST_NUMERIC = 15 }; /* classes of matrices */
    static const uint32_t types[] = {6, 5, 1}; /* unsigned and signed integers, characters */
    static const uint8_t sizes[] = {0, 1, 1, 2, 2, 4, 4, 4, 0, 8, 0, 0, 8, 8}; /* by type */
    part p = {.next = 0};
    for (int i = 0; i < 3; i++) {
        if (p.next + TAG > (int64_t)got) return false;
        p = read_part(start, p.next, little);
        if (p.is_short && i < 2) return false; /* matio expects that of names alone */
        if (p.type != types[i] || (i == 0 && p.length != 8) || p.next > size) return false;
    }
    uint32_t class = word_of(start + TAG, little) & 0xff;
    if (class < FIRST_NUMERIC || class > LAST_NUMERIC) return true;
    if (p.next + TAG > (int64_t)got) return false;
    uint32_t dims = read_part(start, DIMENSIONS, little).length;
    int64_t count = count_numbers(start + DIMENSIONS + TAG, dims, little);
    p = read_part(start, p.next, little);
    return p.next - 7 <= size && p.type < sizeof sizes && count >= 0 &&
           count * sizes[p.type] == p.length;
}

/* Whether `left` packed bytes from here on are a whole zlib stream, and a matrix in it sound. */
static bool is_stream_whole(gzFile file, int64_t left, bool little) {
    enum { ROOM = 1 << 15 };
    unsigned char start[TAG + START];
    size_t got = 0;
    unsigned char in[ROOM], out[ROOM];
    z_stream z = {0};
    if (inflateInit(&z) != Z_OK) return false;
    int code = Z_OK;
    while (code == Z_OK && (left > 0 || z.avail_in > 0)) {
        if (z.avail_in == 0) {
            size_t wanted = left < ROOM ? (size_t)left : ROOM;
            if (gzread(file, in, (unsigned)wanted) != (int)wanted) break;
            z.avail_in = (uInt)wanted;
            z.next_in = in;
            left -= z.avail_in;
        }
        z.next_out = out;
        z.avail_out = ROOM;
        code = inflate(&z, Z_NO_FLUSH);
        size_t made = ROOM - z.avail_out, more = sizeof start - got;
        memcpy(start + got, out, made < more ? made : more);
        got += made < more ? made : more;
    }
    inflateEnd(&z);
    if (code != Z_STREAM_END || got < TAG) return false;
    return word_of(start, little) != MATRIX ||
           has_parts(start + TAG, got - TAG, word_of(start + 4, little), little);
}

enum { HEADER = 128, ORDER = 126 };

/* Whether it has the header of versions 5 to 7. Version 4 has none, so matio would take any other
 * file for one, and allocate what its first bytes ask for; 7.3 is HDF5, which prints what it
 * dislikes. */
static bool has_header(gzFile file, unsigned char head[HEADER]) {
    return gzread(file, head, HEADER) == HEADER && (memcmp(head + ORDER - 2, "\0\1IM", 4) == 0 ||
                                                    memcmp(head + ORDER - 2, "\1\0MI", 4) == 0);
}

/* matio reads truncated or damaged data as zeros, so this first walks through the file: behind the
 * header elements with a type and a length, all of them complete. */
static bool is_whole(gzFile file, const unsigned char head[HEADER], int64_t size) {
    unsigned char t[TAG] = {0}, start[START];
    bool little = head[ORDER] == 'I', good = true;
    for (int64_t at = HEADER; good && at < size;) {
        good = gzseek(file, at, SEEK_SET) == at && gzread(file, t, TAG) == TAG;
        uint32_t type = word_of(t, little), length = word_of(t + 4, little);
        at += TAG + (int64_t)length;
        good = good && at <= size && (type != PACKED || is_stream_whole(file, length, little));
        if (good && type == MATRIX) {
            unsigned wanted = length < START ? length : START;
            good = gzread(file, start, wanted) == (int)wanted &&
                   has_parts(start, wanted, length, little);
        }
    }
    return good;
}

static ole_status open_mat(mat_file *file, const ole_stream *stream, ole_error *error) {
    unsigned char head[HEADER];
    *file = (mat_file){.name = stream->name.text, .room = ole_unpack_room(stream->size)};
    if (has_header(stream->file, head)) file->mat = Mat_Open(stream->path, MAT_ACC_RDONLY);
    if (!file->mat)
        return ole_fail(error, OLE_ERROR_FORMAT,
                        "%s: byte 0: not a MATLAB file of version 5 to 7; get it again",
                        file->name);
    if (!is_whole(stream->file, head, stream->size))
        return ole_fail(error, OLE_ERROR_FORMAT, "%s: truncated or damaged; get it again",
                        file->name);
    return OLE_OK;
}

/* The header of a variable, without its data. */
static ole_status describe(mat_file *file, const char *name, matvar_t **variable,
                           ole_error *error) {
    *variable = Mat_VarReadInfo(file->mat, name);
    if (*variable) return OLE_OK;
    return ole_fail(error, OLE_ERROR_FORMAT,
                    "%s: variable %s is missing, or the file is damaged before it; get it again",
                    file->name, name);
}

/* Reads all data of a described variable. */
static ole_status read_data(mat_file *file, matvar_t *variable, ole_error *error) {
    if (Mat_VarReadDataAll(file->mat, variable) == 0 && variable->data) return OLE_OK;
    return ole_fail(error, OLE_ERROR_FORMAT,
                    "%s: variable %s is truncated or damaged; get the file again", file->name,
                    variable->name);
}

static ole_status take_images(mat_file *file, matvar_t *x, ole_source *source, ole_error *error) {
    bool shaped = x->rank == 4 && x->dims[0] == SIDE && x->dims[1] == SIDE && x->dims[2] == 3;
    if (!shaped || x->class_type != MAT_C_UINT8 || x->isComplex || x->dims[3] == 0 ||
        x->dims[3] > (uint64_t)file->room / PIXELS)
        return ole_fail(
            error, OLE_ERROR_FORMAT,
            "%s: variable X is not 32x32x3xN bytes; use the cropped digits of 'ole data get svhn'",
            file->name);
    ole_status status = read_data(file, x, error);
    int64_t first = source->count, count = (int64_t)x->dims[3];
    if (status == OLE_OK) status = ole_source_grow(source, count, error);
    for (int64_t i = 0; status == OLE_OK && i < count; i++)
        ole_transpose_planes((const uint8_t *)x->data + (size_t)i * PIXELS, SIDE,
                             source->bytes + (size_t)(first + i) * PIXELS);
    return status;
}

static ole_status take_labels(mat_file *file, matvar_t *y, ole_source *source, ole_error *error) {
    int64_t first = source->train_count, count = source->count - first;
    bool typed = y->class_type == MAT_C_DOUBLE || y->class_type == MAT_C_UINT8;
    bool shaped = y->rank == 2 && (y->dims[0] == 1 || y->dims[1] == 1);
    if (!typed || !shaped || y->isComplex || y->dims[0] * y->dims[1] != (uint64_t)count)
        return ole_fail(error, OLE_ERROR_FORMAT,
                        "%s: variable y is not one number for each of the %" PRId64
                        " images; get the file again",
                        file->name, count);
    ole_status status = read_data(file, y, error);
    for (int64_t i = 0; status == OLE_OK && i < count; i++) {
        double label = y->class_type == MAT_C_DOUBLE ? ((const double *)y->data)[i]
                                                     : ((const uint8_t *)y->data)[i];
        if (!(label >= 1 && label <= CLASSES) || label != (int)label)
            return ole_fail(error, OLE_ERROR_FORMAT,
                            "%s: y(%" PRId64 ") is %g, not 1 to 10; get the file again", file->name,
                            i + 1, label);
        source->labels[first + i] = (int32_t)label % CLASSES;
    }
    return status;
}

static ole_status read_file(ole_stream *stream, int number, ole_source *source, ole_error *error) {
    (void)number;
    mat_file file;
    matvar_t *x = NULL, *y = NULL;
    ole_status status = open_mat(&file, stream, error);
    if (status == OLE_OK) status = describe(&file, "X", &x, error);
    if (status == OLE_OK) status = take_images(&file, x, source, error);
    if (status == OLE_OK) status = describe(&file, "y", &y, error);
    if (status == OLE_OK) status = take_labels(&file, y, source, error);
    Mat_VarFree(x);
    Mat_VarFree(y);
    if (file.mat) Mat_Close(file.mat);
    return status;
}

#endif

const ole_reader ole_svhn = {
    .name = "svhn",
    .read_file = read_file,
    .train = {"train_32x32.mat"},
    .test = {"test_32x32.mat"},
    .shape = {3, SIDE, SIDE},
    .classes = CLASSES,
};
