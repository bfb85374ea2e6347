/*
 * src/data/formats/svhn.c - SVHN's cropped digits: MATLAB files, read with matio.
 *
 * X is 32 x 32 x 3 x N bytes in MATLAB's order (the first index the fastest: columns of a plane), y
 * holds N labels 1 to 10, where 10 stands for the digit 0.
 */
#include "base/error.h"
#include "data/find.h"

#ifndef OLE_HAVE_MATIO

ole_status ole_read_svhn(const char *path, const ole_dataset_options *options, ole_source *source,
                         ole_error *error) {
    (void)path, (void)options, (void)source;
    return ole_fail(error, OLE_ERROR_UNSUPPORTED,
                    "svhn: this build cannot read .mat files: install matio (libmatio-dev) and "
                    "build again, or convert the set to .npy and use npy:X.npy,y.npy");
}

#else

#include "base/quote.h"
#include "base/read_file.h"
#include "data/formats/stream.h"

#include <errno.h>
#include <inttypes.h>
#include <matio.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <zlib.h>

enum { SIDE = 32, PIXELS = 3 * SIDE * SIDE, CLASSES = 10 };

typedef struct mat_file {
    mat_t *mat;
    ole_quoted name;
    int64_t room; /* the most bytes it can hold unpacked */
} mat_file;

/* Whether `left` packed bytes from here on are a whole zlib stream. */
static bool is_stream_whole(FILE *file, int64_t left) {
    enum { ROOM = 1 << 15 };
    unsigned char in[ROOM], out[ROOM];
    z_stream z = {0};
    if (inflateInit(&z) != Z_OK) return false;
    int code = Z_OK;
    while (code == Z_OK && (left > 0 || z.avail_in > 0)) {
        if (z.avail_in == 0) {
            size_t wanted = left < ROOM ? (size_t)left : ROOM;
            z.avail_in = (uInt)fread(in, 1, wanted, file);
            z.next_in = in;
            if (z.avail_in < wanted) break;
            left -= z.avail_in;
        }
        z.next_out = out;
        z.avail_out = ROOM;
        code = inflate(&z, Z_NO_FLUSH);
    }
    inflateEnd(&z);
    return code == Z_STREAM_END;
}

static uint32_t word_of(const unsigned char *b, bool little) {
    uint32_t word = 0;
    for (int i = 0; i < 4; i++)
        word = word << 8 | b[little ? 3 - i : i];
    return word;
}

/* matio reads what is cut off or damaged as zeros, so the parts of the file are walked through
 * first: 128 bytes of header, then a type and a length before each, all of it there. */
static bool is_whole(FILE *file, int64_t size) {
    enum { HEADER = 128, TAG = 8, PACKED = 15 };
    unsigned char head[HEADER] = {0}, t[TAG] = {0};
    bool good = fread(head, 1, HEADER, file) == HEADER;
    bool little = memcmp(head + 126, "IM", 2) == 0, big = memcmp(head + 126, "MI", 2) == 0;
    bool five = little ? head[125] == 1 : big && head[124] == 1; /* 7.3 is HDF5, with its checks */
    for (int64_t at = HEADER; five && good && at < size;) {
        good = fseeko(file, at, SEEK_SET) == 0 && fread(t, 1, TAG, file) == TAG;
        uint32_t type = word_of(t, little), length = word_of(t + 4, little);
        at += TAG + (int64_t)length;
        good = good && at <= size && (type != PACKED || is_stream_whole(file, length));
    }
    return good;
}

static ole_status open_mat(mat_file *file, const char *path, ole_error *error) {
    *file = (mat_file){0};
    ole_quote_string(&file->name, path);
    FILE *bytes = ole_fopen_regular(path); /* matio itself would wait for a pipe's writer */
    struct stat about;
    if (!bytes || fstat(fileno(bytes), &about) != 0) {
        int number = errno;
        if (bytes) fclose(bytes);
        return ole_fail(error, OLE_ERROR_IO, "%s: cannot open: %s", file->name.text,
                        ole_open_reason(number));
    }
    file->mat = Mat_Open(path, MAT_ACC_RDONLY);
    bool whole = file->mat && is_whole(bytes, about.st_size);
    fclose(bytes);
    if (!file->mat)
        return ole_fail(error, OLE_ERROR_FORMAT, "%s: byte 0: this is no MATLAB file: get it again",
                        file->name.text);
    if (!whole)
        return ole_fail(error, OLE_ERROR_FORMAT, "%s: is cut off or damaged: get it again",
                        file->name.text);
    if (__builtin_mul_overflow((int64_t)about.st_size, (int64_t)OLE_UNPACK_RATIO, &file->room))
        file->room = INT64_MAX;
    if (file->room < OLE_UNPACK_FREE) file->room = OLE_UNPACK_FREE;
    return OLE_OK;
}

/* What the file says about a variable, its data not read yet. */
static ole_status describe(mat_file *file, const char *name, matvar_t **variable,
                           ole_error *error) {
    *variable = Mat_VarReadInfo(file->mat, name);
    if (*variable) return OLE_OK;
    return ole_fail(error, OLE_ERROR_FORMAT,
                    "%s: there is no variable %s, or the file is damaged before it: get it again",
                    file->name.text, name);
}

/* Reads all data of a described variable. */
static ole_status read_data(mat_file *file, matvar_t *variable, ole_error *error) {
    if (Mat_VarReadDataAll(file->mat, variable) == 0 && variable->data) return OLE_OK;
    return ole_fail(error, OLE_ERROR_FORMAT,
                    "%s: variable %s is cut off or damaged: get the file again", file->name.text,
                    variable->name);
}

static ole_status take_images(mat_file *file, matvar_t *x, ole_source *source, ole_error *error) {
    bool shaped = x->rank == 4 && x->dims[0] == SIDE && x->dims[1] == SIDE && x->dims[2] == 3;
    if (!shaped || x->class_type != MAT_C_UINT8 || x->isComplex || x->dims[3] == 0 ||
        x->dims[3] > (uint64_t)file->room / PIXELS)
        return ole_fail(error, OLE_ERROR_FORMAT,
                        "%s: variable X is not 32x32x3xN bytes: use the cropped digits of "
                        "'ole data get svhn'",
                        file->name.text);
    ole_status status = read_data(file, x, error);
    int64_t first = source->count, count = (int64_t)x->dims[3];
    if (status == OLE_OK) status = ole_source_grow(source, count, error);
    for (int64_t i = 0; status == OLE_OK && i < count; i++)
        ole_transpose_planes((const uint8_t *)x->data + (size_t)i * PIXELS, SIDE,
                             source->bytes + (size_t)(first + i) * PIXELS);
    return status;
}

static ole_status take_labels(mat_file *file, matvar_t *y, int64_t first, ole_source *source,
                              ole_error *error) {
    int64_t count = source->count - first;
    bool typed = y->class_type == MAT_C_DOUBLE || y->class_type == MAT_C_UINT8;
    bool shaped = y->rank == 2 && (y->dims[0] == 1 || y->dims[1] == 1);
    if (!typed || !shaped || y->isComplex || y->dims[0] * y->dims[1] != (uint64_t)count)
        return ole_fail(error, OLE_ERROR_FORMAT,
                        "%s: variable y is not one number for each of the %" PRId64
                        " images: get the file again",
                        file->name.text, count);
    ole_status status = read_data(file, y, error);
    for (int64_t i = 0; status == OLE_OK && i < count; i++) {
        double label = y->class_type == MAT_C_DOUBLE ? ((const double *)y->data)[i]
                                                     : ((const uint8_t *)y->data)[i];
        if (!(label >= 1 && label <= CLASSES) || label != (int)label)
            return ole_fail(error, OLE_ERROR_FORMAT,
                            "%s: y(%" PRId64 ") is %g, not 1 to 10: get the file again",
                            file->name.text, i + 1, label);
        source->labels[first + i] = (int32_t)label % CLASSES;
    }
    return status;
}

static ole_status read_part(const char *folder, const char *name, ole_source *source,
                            ole_error *error) {
    char path[OLE_PATH_ROOM];
    ole_status status = ole_find_file(path, folder, name, error);
    if (status != OLE_OK) return status;
    mat_file file;
    matvar_t *x = NULL, *y = NULL;
    int64_t first = source->count;
    status = open_mat(&file, path, error);
    if (status == OLE_OK) status = describe(&file, "X", &x, error);
    if (status == OLE_OK) status = take_images(&file, x, source, error);
    if (status == OLE_OK) status = describe(&file, "y", &y, error);
    if (status == OLE_OK) status = take_labels(&file, y, first, source, error);
    Mat_VarFree(x);
    Mat_VarFree(y);
    if (file.mat) Mat_Close(file.mat);
    return status;
}

ole_status ole_read_svhn(const char *path, const ole_dataset_options *options, ole_source *source,
                         ole_error *error) {
    (void)options;
    source->channels = 3;
    source->height = source->width = SIDE;
    ole_status status = ole_source_name_all(source, CLASSES, NULL, error);
    if (status == OLE_OK) status = read_part(path, "train_32x32.mat", source, error);
    source->train_count = source->count;
    if (status == OLE_OK) status = read_part(path, "test_32x32.mat", source, error);
    return status;
}

#endif
