/*
 * src/formats/npy.c - .npy files: mapped for reading, converted on request, written atomically.
 *
 * The usual file, little-endian float32 in C order, is used where it lies in the page cache; every
 * other layout goes through one loop that loads an element, swaps its bytes and converts it.  The
 * size is checked when the file is opened; one that another program cuts off after that raises
 * SIGBUS, which the program `ole` reports (cli/common/guard.c).
 */
#include "ole/npy.h"

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/memory_file.h"
#include "base/quote.h"
#include "formats/half.h"
#include "formats/npy_header.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct ole_npy {
    ole_npy_header header;
    ole_npy_text text;  /* strings; all zero for numbers */
    unsigned char *map; /* the whole file; NULL before it is mapped */
    unsigned char *own; /* the same in memory of its own; or NULL */
    size_t size;
    const unsigned char *elements; /* inside the map */
    ole_quoted name;
};

/* ---- Opening ------------------------------------------------------------------------------ */

static ole_status fail_open(const ole_npy *array, int number, ole_error *error) {
    return ole_fail(error, OLE_ERROR_IO, "%s: cannot open: %s", array->name.text, strerror(number));
}

/* Maps the open file; an empty one stays unmapped, for the parser to report. */
static ole_status map_file(ole_npy *array, int fd, ole_error *error) {
    struct stat about;
    if (fstat(fd, &about) != 0) return fail_open(array, errno, error);
    if (S_ISDIR(about.st_mode)) return fail_open(array, EISDIR, error);
    if (!S_ISREG(about.st_mode))
        return ole_fail(error, OLE_ERROR_IO, "%s: not a regular file; copy it to one first",
                        array->name.text);
    if ((uint64_t)about.st_size > SIZE_MAX) return fail_open(array, EFBIG, error);
    array->size = (size_t)about.st_size;
    if (array->size == 0) return OLE_OK;
    void *map = mmap(NULL, array->size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (map == MAP_FAILED) return fail_open(array, errno, error);
    array->map = map;
    return OLE_OK;
}

static ole_status parse(ole_npy *array, unsigned char *bytes, bool text, ole_error *error) {
    size_t offset = 0;
    ole_status status = ole_npy_parse(bytes, array->size, array->name.text, &array->header,
                                      text ? &array->text : NULL, &offset, error);
    if (status == OLE_OK) array->elements = bytes + offset;
    return status;
}

static ole_status open_file(ole_npy *array, const char *path, bool text, ole_error *error) {
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe must not make us wait */
    if (fd < 0) return fail_open(array, errno, error);
    ole_status status = map_file(array, fd, error);
    close(fd);
    return status == OLE_OK ? parse(array, array->map, text, error) : status;
}

static ole_status create(ole_npy **array, const char *path, ole_error *error) {
    *array = calloc(1, sizeof **array);
    if (!*array) return ole_fail(error, OLE_ERROR_MEMORY, "ole_npy_open: out of memory");
    (*array)->name = ole_quote_string(path);
    return OLE_OK;
}

/* The array, or nothing where the status is an error. */
static ole_status finish(ole_npy **array, ole_status status) {
    if (status == OLE_OK) return status;
    ole_npy_close(*array);
    *array = NULL;
    return status;
}

static ole_status open_path(ole_npy **array, const char *path, bool text, ole_error *error) {
    ole_status status = create(array, path, error);
    return finish(array, status == OLE_OK ? open_file(*array, path, text, error) : status);
}

ole_status ole_npy_open(ole_npy **array, const char *path, ole_error *error) {
    if (!array) return ole_fail(error, OLE_ERROR_ARGUMENT, "ole_npy_open: array is NULL");
    *array = NULL;
    if (!path) return ole_fail(error, OLE_ERROR_ARGUMENT, "ole_npy_open: path is NULL");
    return open_path(array, path, false, error);
}

ole_status ole_npy_open_text(ole_npy **array, const char *path, ole_error *error) {
    return open_path(array, path, true, error);
}

ole_status ole_npy_adopt(ole_npy **array, const char *path, void *bytes, size_t size,
                         const ole_npy_header *header, bool text, ole_error *error) {
    ole_status status = create(array, path, error);
    if (status != OLE_OK) {
        free(bytes);
        return status;
    }
    (*array)->own = bytes;
    (*array)->size = size;
    if (!header) return finish(array, parse(*array, bytes, text, error));
    (*array)->header = *header;
    (*array)->elements = bytes;
    return OLE_OK;
}

void ole_npy_close(ole_npy *array) {
    if (!array) return;
    if (array->map) munmap(array->map, array->size);
    free(array->own);
    free(array);
}

const ole_npy_header *ole_npy_get_header(const ole_npy *array) {
    return array ? &array->header : NULL;
}

/* Native byte order and C order; alignment aside. */
static bool is_plain(const ole_npy_header *header) {
    return !header->swapped && (!header->fortran_order || header->ndim <= 1);
}

const void *ole_npy_data(const ole_npy *array) {
    if (!array || !is_plain(&array->header)) return NULL;
    bool aligned = (uintptr_t)array->elements % ole_dtype_size(array->header.dtype) == 0;
    return aligned ? array->elements : NULL;
}

/* ---- Converting --------------------------------------------------------------------------- */

static bool is_float(ole_dtype dtype) {
    return dtype == OLE_F16 || dtype == OLE_F32 || dtype == OLE_F64;
}

/* An element's bits in native order, in the low bytes. */
static uint64_t load_bits(const unsigned char *at, size_t size, bool swapped) {
    uint8_t one;
    uint16_t two;
    uint32_t four;
    uint64_t eight;
    switch (size) {
    case 1:
        memcpy(&one, at, 1);
        return one;
    case 2:
        memcpy(&two, at, 2);
        return swapped ? __builtin_bswap16(two) : two;
    case 4:
        memcpy(&four, at, 4);
        return swapped ? __builtin_bswap32(four) : four;
    default:
        memcpy(&eight, at, 8);
        return swapped ? __builtin_bswap64(eight) : eight;
    }
}

/* Bits of a signed or unsigned integer type as int64; the caller has ruled out u8 overflow. */
static int64_t bits_to_integer(uint64_t bits, ole_dtype dtype) {
    switch (dtype) {
    case OLE_I8:
        return (int8_t)bits;
    case OLE_I16:
        return (int16_t)bits;
    case OLE_I32:
        return (int32_t)bits;
    default:
        return (int64_t)bits;
    }
}

static double bits_to_double(uint64_t bits, ole_dtype dtype) {
    uint32_t low = (uint32_t)bits;
    float single;
    double wide;
    switch (dtype) {
    case OLE_F16:
        return ole_half_to_double((uint16_t)bits);
    case OLE_F32:
        memcpy(&single, &low, sizeof single);
        return single;
    case OLE_F64:
        memcpy(&wide, &bits, sizeof wide);
        return wide;
    case OLE_U64:
        return (double)bits;
    default:
        return (double)bits_to_integer(bits, dtype);
    }
}

/* Converts one element into out[index]; `index` counts in C order. */
static ole_status convert(const ole_npy *array, const unsigned char *at, ole_dtype as, void *out,
                          int64_t index, ole_error *error) {
    ole_dtype dtype = array->header.dtype;
    uint64_t bits = load_bits(at, ole_dtype_size(dtype), array->header.swapped);
    if (as == OLE_U8) {
        ((uint8_t *)out)[index] = (uint8_t)bits;
        return OLE_OK;
    }
    if (as == OLE_I64) {
        if (dtype == OLE_U64 && bits > INT64_MAX)
            return ole_fail(error, OLE_ERROR_FORMAT,
                            "%s: element %" PRId64 " is %" PRIu64
                            ", too large for int64; renumber the values",
                            array->name.text, index, bits);
        ((int64_t *)out)[index] = bits_to_integer(bits, dtype);
        return OLE_OK;
    }
    double value = bits_to_double(bits, dtype);
    if (as == OLE_F64) {
        ((double *)out)[index] = value;
        return OLE_OK;
    }
    float single = (float)value;
    if (isinf(single) && !isinf(value))
        return ole_fail(error, OLE_ERROR_FORMAT,
                        "%s: element %" PRId64
                        " is %g, too large for float32; scale the values, or read them as float64",
                        array->name.text, index, value);
    ((float *)out)[index] = single;
    return OLE_OK;
}

/*
 * Visits all elements in C order.  `step[i]` is the distance in the file of two neighbours along
 * dimension i, in elements; `at` the position as an odometer, its last digit the fastest.
 */
static ole_status convert_all(const ole_npy *array, ole_dtype as, void *out, ole_error *error) {
    const ole_npy_header *h = &array->header;
    int64_t step[OLE_NPY_MAX_DIMS] = {0}, at[OLE_NPY_MAX_DIMS] = {0};
    int64_t product = 1;
    for (int k = 0; k < h->ndim; k++) {
        int i = h->fortran_order ? k : h->ndim - 1 - k;
        step[i] = product;
        product *= h->shape[i];
    }
    size_t size = ole_dtype_size(h->dtype);
    int64_t source = 0;
    for (int64_t index = 0; index < h->count; index++) {
        ole_status status =
            convert(array, array->elements + (size_t)source * size, as, out, index, error);
        if (status != OLE_OK) return status;
        for (int i = h->ndim - 1; i >= 0; i--) {
            source += step[i];
            if (++at[i] < h->shape[i]) break;
            source -= step[i] * h->shape[i];
            at[i] = 0;
        }
    }
    return OLE_OK;
}

ole_status ole_npy_read(const ole_npy *array, ole_dtype as, void *out, ole_error *error) {
    if (!array) return ole_fail(error, OLE_ERROR_ARGUMENT, "ole_npy_read: array is NULL");
    const ole_npy_header *h = &array->header;
    if (as != OLE_F32 && as != OLE_F64 && as != OLE_I64 && !(as == OLE_U8 && h->dtype == OLE_U8))
        return ole_fail(error, OLE_ERROR_ARGUMENT,
                        "ole_npy_read: as is %s: use OLE_F32, OLE_F64 or OLE_I64",
                        ole_dtype_name(as));
    if (!out && h->count != 0)
        return ole_fail(error, OLE_ERROR_ARGUMENT, "ole_npy_read: out is NULL");
    if (as == OLE_I64 && is_float(h->dtype))
        return ole_fail(error, OLE_ERROR_FORMAT,
                        "%s: the elements, from element 0 on, are %s where integers are needed: "
                        "save it with .astype('int64')",
                        array->name.text, ole_dtype_name(h->dtype));
    if (h->count == 0) return OLE_OK;
    if (h->dtype != as || !is_plain(h)) return convert_all(array, as, out, error);
    memcpy(out, array->elements, (size_t)h->count * ole_dtype_size(as));
    return OLE_OK;
}

/* ---- Strings ------------------------------------------------------------------------------ */

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

char *ole_npy_strings(const ole_npy *array) {
    size_t width = array->text.width, unit = array->text.unit;
    ole_memory_file memory;
    if (width == 0 || !ole_memory_file_open(&memory)) return NULL;
    const unsigned char *at = array->elements;
    for (int64_t i = 0; i < array->header.count; i++, at += width * unit) {
        for (size_t k = 0; k < width; k++) {
            uint32_t c = (uint32_t)load_bits(at + k * unit, unit, array->header.swapped);
            if (c == 0) break;
            if (unit == 4)
                put_utf8(memory.file, c);
            else
                fputc((int)c, memory.file);
        }
        fputc('\0', memory.file);
    }
    return ole_memory_file_close(&memory);
}

/* ---- Writing ------------------------------------------------------------------------------ */

ole_status ole_npy_write(const char *path, ole_dtype dtype, int ndim, const int64_t *shape,
                         const void *data, ole_error *error) {
    size_t item = ole_dtype_size(dtype);
    if (item == 0 || dtype == OLE_BF16)
        return ole_fail(error, OLE_ERROR_ARGUMENT, "ole_npy_write: dtype %s has no .npy code",
                        ole_dtype_name(dtype));
    if (ndim < 0 || ndim > OLE_NPY_MAX_DIMS || (ndim > 0 && !shape))
        return ole_fail(error, OLE_ERROR_ARGUMENT,
                        "ole_npy_write: ndim is %d (0 to %d, with a shape)", ndim,
                        OLE_NPY_MAX_DIMS);
    int64_t count;
    if (!ole_npy_count(ndim, shape, item, &count))
        return ole_fail(error, OLE_ERROR_ARGUMENT,
                        "ole_npy_write: shape has a negative dimension or overflows");
    if (!data && count > 0)
        return ole_fail(error, OLE_ERROR_ARGUMENT, "ole_npy_write: data is NULL");

    char header[OLE_NPY_HEADER_ROOM];
    size_t length = ole_npy_format_header(header, dtype, ndim, shape);
    ole_atomic_file file;
    ole_status status = ole_atomic_file_begin(&file, path, error);
    if (status == OLE_OK) status = ole_atomic_file_write(&file, header, length, error);
    if (status == OLE_OK) status = ole_atomic_file_write(&file, data, (size_t)count * item, error);
    if (status == OLE_OK) status = ole_atomic_file_commit(&file, error);
    ole_atomic_file_abort(&file);
    return status;
}
