/*
 * tests/unit/formats/test_npy.c - reading and writing .npy: every type and layout, and every way a
 * file can be wrong, with the message that says so.
 */
#include "ole/npy.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "temporary.h"

/* ---- Making files ------------------------------------------------------------------------- */

static void write_bytes(const char *path, const void *bytes, size_t size) {
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    fclose(file);
}

/* Writes a file of the version with this header text (padded as NumPy pads it) and data. */
static const char *make(int version, const char *header, const void *data, size_t size) {
    unsigned char bytes[4096] = {0x93, 'N', 'U', 'M', 'P', 'Y', (unsigned char)version, 0};
    size_t width = version == 1 ? 2 : 4, begin = 8 + width;
    size_t end = (begin + strlen(header) + 1 + 63) / 64 * 64;
    assert_true(end + size <= sizeof bytes);
    for (size_t i = 0; i < width; i++)
        bytes[8 + i] = (unsigned char)((end - begin) >> (8 * i));
    memset(bytes + begin, ' ', end - begin);
    memcpy(bytes + begin, header, strlen(header));
    bytes[end - 1] = '\n';
    if (size > 0) memcpy(bytes + end, data, size);
    const char *path = temporary_path("F.npy");
    write_bytes(path, bytes, end + size);
    return path;
}

static const char *make_typed(const char *descr, const char *shape, const void *data, size_t size) {
    char header[256];
    snprintf(header, sizeof header, "{'descr': '%s', 'fortran_order': False, 'shape': %s, }", descr,
             shape);
    return make(1, header, data, size);
}

static ole_npy *open_good(const char *path) {
    ole_npy *array = NULL;
    ole_error error = {0};
    ole_status status = ole_npy_open(&array, path, &error);
    if (status != OLE_OK) print_error("%s\n", error.message);
    assert_int_equal(status, OLE_OK);
    assert_non_null(array);
    return array;
}

/* Opening fails with this status, and the message is the path and `message`. */
static void assert_open_fails(const char *path, ole_status status, const char *message) {
    ole_npy *array = (ole_npy *)&array;
    ole_error error = {0};
    assert_int_equal(ole_npy_open(&array, path, &error), status);
    assert_null(array);
    assert_int_equal(error.status, status);
    assert_int_equal(strncmp(error.message, path, strlen(path)), 0);
    assert_string_equal(error.message + strlen(path), message);
}

/* ---- Types and layouts -------------------------------------------------------------------- */

typedef struct typed_case {
    const char *descr;
    ole_dtype dtype;
    bool swapped; /* on a little-endian machine */
    size_t size;
    unsigned char bytes[16]; /* two elements */
    double values[2];
} typed_case;

static const typed_case typed_cases[] = {
    {"<f2", OLE_F16, false, 4, {0x00, 0x3e, 0x00, 0xc0}, {1.5, -2}},
    {">f2", OLE_F16, true, 4, {0x3e, 0x00, 0xc0, 0x00}, {1.5, -2}},
    {"<f4", OLE_F32, false, 8, {0, 0, 0xc0, 0x3f, 0, 0, 0, 0xc0}, {1.5, -2}},
    {">f4", OLE_F32, true, 8, {0x3f, 0xc0, 0, 0, 0xc0, 0, 0, 0}, {1.5, -2}},
    {"<f8",
     OLE_F64,
     false,
     16,
     {0, 0, 0, 0, 0, 0, 0xf8, 0x3f, 0, 0, 0, 0, 0, 0, 0, 0xc0},
     {1.5, -2}},
    {">f8",
     OLE_F64,
     true,
     16,
     {0x3f, 0xf8, 0, 0, 0, 0, 0, 0, 0xc0, 0, 0, 0, 0, 0, 0, 0},
     {1.5, -2}},
    {"|i1", OLE_I8, false, 2, {0x7f, 0xff}, {127, -1}},
    {">i1", OLE_I8, false, 2, {0x7f, 0xff}, {127, -1}},
    {"<i2", OLE_I16, false, 4, {1, 2, 0xfe, 0xff}, {513, -2}},
    {">i2", OLE_I16, true, 4, {2, 1, 0xff, 0xfe}, {513, -2}},
    {"<i4", OLE_I32, false, 8, {1, 2, 0, 0, 0xfe, 0xff, 0xff, 0xff}, {513, -2}},
    {">i4", OLE_I32, true, 8, {0, 0, 2, 1, 0xff, 0xff, 0xff, 0xfe}, {513, -2}},
    {"<i8",
     OLE_I64,
     false,
     16,
     {1, 2, 0, 0, 0, 0, 0, 0, 0xfe, 255, 255, 255, 255, 255, 255, 255},
     {513, -2}},
    {">i8",
     OLE_I64,
     true,
     16,
     {0, 0, 0, 0, 0, 0, 2, 1, 255, 255, 255, 255, 255, 255, 255, 0xfe},
     {513, -2}},
    {"|u1", OLE_U8, false, 2, {0x7f, 0xff}, {127, 255}},
    {"u1", OLE_U8, false, 2, {0x7f, 0xff}, {127, 255}},
    {"<u2", OLE_U16, false, 4, {1, 2, 0xfe, 0xff}, {513, 65534}},
    {">u2", OLE_U16, true, 4, {2, 1, 0xff, 0xfe}, {513, 65534}},
    {"<u4", OLE_U32, false, 8, {1, 2, 0, 0, 0xfe, 0xff, 0xff, 0xff}, {513, 4294967294.0}},
    {">u4", OLE_U32, true, 8, {0, 0, 2, 1, 0xff, 0xff, 0xff, 0xfe}, {513, 4294967294.0}},
    {"<u8", OLE_U64, false, 16, {1, 2, 0, 0, 0, 0, 0, 0, 3}, {513, 3}},
    {">u8", OLE_U64, true, 16, {0, 0, 0, 0, 0, 0, 2, 1, 0, 0, 0, 0, 0, 0, 0, 3}, {513, 3}},
};

static void check_typed(const typed_case *c) {
    ole_npy *array = open_good(make_typed(c->descr, "(2,)", c->bytes, c->size));
    const ole_npy_header *h = ole_npy_get_header(array);
    assert_int_equal(h->dtype, c->dtype);
    assert_int_equal(h->swapped, c->swapped);
    assert_int_equal(h->ndim, 1);
    assert_int_equal(h->shape[0], 2);
    assert_int_equal(h->count, 2);
    assert_int_equal(ole_npy_data(array) == NULL, c->swapped);

    double wide[2];
    float single[2];
    assert_int_equal(ole_npy_read(array, OLE_F64, wide, NULL), OLE_OK);
    assert_int_equal(ole_npy_read(array, OLE_F32, single, NULL), OLE_OK);
    int64_t whole[2] = {7, 7};
    bool is_float = c->dtype == OLE_F16 || c->dtype == OLE_F32 || c->dtype == OLE_F64;
    ole_status status = ole_npy_read(array, OLE_I64, whole, NULL);
    assert_int_equal(status, is_float ? OLE_ERROR_FORMAT : OLE_OK);
    for (int i = 0; i < 2; i++) {
        assert_true(wide[i] == c->values[i]);
        assert_true(single[i] == (float)c->values[i]);
        assert_true(whole[i] == (is_float ? 7 : (int64_t)c->values[i]));
    }
    ole_npy_close(array);
}

static void test_types(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof typed_cases / sizeof *typed_cases; i++)
        check_typed(&typed_cases[i]);
}

static void test_half_precision(void **state) {
    (void)state;
    static const struct {
        uint16_t bits;
        double value;
    } halves[] = {{0x0000, 0},       {0x8000, -0.0},     {0x0001, 0x1p-24},   {0x03ff, 0x3ffp-24},
                  {0x0400, 0x1p-14}, {0x3c00, 1},        {0x3555, 0x555p-12}, {0x7bff, 65504},
                  {0xfbff, -65504},  {0x7c00, INFINITY}, {0xfc00, -INFINITY}};
    for (size_t i = 0; i < sizeof halves / sizeof *halves; i++) {
        unsigned char bytes[2] = {halves[i].bits & 0xff, halves[i].bits >> 8};
        ole_npy *array = open_good(make_typed("<f2", "()", bytes, 2));
        double value;
        assert_int_equal(ole_npy_read(array, OLE_F64, &value, NULL), OLE_OK);
        assert_memory_equal(&value, &halves[i].value, sizeof value);
        ole_npy_close(array);
    }
    ole_npy *array = open_good(make_typed("<f2", "()", "\x01\x7e", 2));
    float value;
    assert_int_equal(ole_npy_read(array, OLE_F32, &value, NULL), OLE_OK);
    assert_true(isnan(value));
    ole_npy_close(array);
}

static void test_fortran_order(void **state) {
    (void)state;
    static const unsigned char bytes[24] = {0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11,
                                            12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23};
    ole_npy *array = open_good(
        make(1, "{'descr': '|u1', 'fortran_order': True, 'shape': (2, 3, 4)}", bytes, 24));
    assert_true(ole_npy_get_header(array)->fortran_order);
    assert_null(ole_npy_data(array));
    int64_t out[24];
    assert_int_equal(ole_npy_read(array, OLE_I64, out, NULL), OLE_OK);
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 3; j++)
            for (int k = 0; k < 4; k++)
                assert_int_equal(out[(i * 3 + j) * 4 + k], i + 2 * j + 6 * k);
    ole_npy_close(array);

    array =
        open_good(make(1, "{'descr': '|u1', 'fortran_order': True, 'shape': (24,)}", bytes, 24));
    assert_non_null(ole_npy_data(array)); /* one dimension: the order does not matter */
    ole_npy_close(array);
}

static void test_in_place(void **state) {
    (void)state;
    const float data[] = {1, 2, 3, 4, 5, 6};
    ole_npy *array = open_good(make_typed("<f4", "(2, 3)", data, sizeof data));
    const float *in_place = ole_npy_data(array);
    assert_non_null(in_place);
    assert_memory_equal(in_place, data, sizeof data);
    ole_npy_close(array);

    /* A header that leaves the elements at an odd address: read, but not in place. */
    unsigned char bytes[128] = "\x93NUMPY\x01\x00\x37";
    memcpy(bytes + 10, "{'descr':'<f4','fortran_order':False,'shape':(2,3)}   \n", 55);
    memcpy(bytes + 65, data, sizeof data);
    const char *path = temporary_path("odd.npy");
    write_bytes(path, bytes, 65 + sizeof data);
    array = open_good(path);
    assert_null(ole_npy_data(array));
    float copy[6];
    assert_int_equal(ole_npy_read(array, OLE_F32, copy, NULL), OLE_OK);
    assert_memory_equal(copy, data, sizeof data);
    ole_npy_close(array);
}

static void test_versions_and_spellings(void **state) {
    (void)state;
    static const char *const headers[] = {
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 1), }",
        "{\"shape\":(2,1,),\"fortran_order\":False,\"descr\":\"<f4\"}",
        " \n{ 'shape' : ( 2L , 1L ) , 'descr' : '=f4' , 'fortran_order' : True }\t",
    };
    const float data[] = {1, 2};
    for (int version = 1; version <= 3; version++) {
        for (size_t i = 0; i < sizeof headers / sizeof *headers; i++) {
            ole_npy *array = open_good(make(version, headers[i], data, sizeof data));
            const ole_npy_header *h = ole_npy_get_header(array);
            assert_int_equal(h->ndim, 2);
            assert_int_equal(h->shape[0], 2);
            assert_int_equal(h->shape[1], 1);
            float out[2];
            assert_int_equal(ole_npy_read(array, OLE_F32, out, NULL), OLE_OK);
            assert_memory_equal(out, data, sizeof data);
            ole_npy_close(array);
        }
    }
}

static void test_scalars_and_empty_arrays(void **state) {
    (void)state;
    const double one = 2.5;
    ole_npy *array = open_good(make_typed("<f8", "()", &one, sizeof one));
    assert_int_equal(ole_npy_get_header(array)->ndim, 0);
    assert_int_equal(ole_npy_get_header(array)->count, 1);
    double out = 0;
    assert_int_equal(ole_npy_read(array, OLE_F64, &out, NULL), OLE_OK);
    assert_true(out == one);
    ole_npy_close(array);

    array = open_good(make_typed("<f8", "(3, 0, 9223372036854775)", NULL, 0));
    assert_int_equal(ole_npy_get_header(array)->count, 0);
    assert_int_equal(ole_npy_read(array, OLE_F64, NULL, NULL), OLE_OK);
    ole_npy_close(array);
}

/* ---- Files that are wrong ----------------------------------------------------------------- */

#define AGAIN "save it again with numpy.save"
#define DAMAGED "the header is damaged, " AGAIN

static void test_not_npy(void **state) {
    (void)state;
    const char *path = temporary_path("F.npy");
    assert_open_fails(path, OLE_ERROR_IO, ": cannot open: No such file or directory");
    assert_open_fails(temporary_dir, OLE_ERROR_IO, ": cannot open: Is a directory");
    write_bytes(path, "", 0);
    assert_open_fails(path, OLE_ERROR_FORMAT, ": the file is empty: " AGAIN);
    static const char *const others[] = {"P", "PK\3\4", "hello, world", "\x93NUMPX\1\0", "\x93NUN"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        write_bytes(path, others[i], strlen(others[i]));
        assert_open_fails(path, OLE_ERROR_FORMAT,
                          ": not a .npy file, as its first bytes are not \\x93NUMPY: " AGAIN);
    }
    const char *pipe = temporary_path("pipe");
    assert_int_equal(mkfifo(pipe, 0600), 0);
    assert_open_fails(pipe, OLE_ERROR_IO, ": not a regular file; copy it to one first");
}

static void test_versions_not_known(void **state) {
    (void)state;
    const char *path = temporary_path("F.npy");
    write_bytes(path, "\x93NUMPY\x04\x00\x10\x00\x00\x00{}", 14);
    assert_open_fails(path, OLE_ERROR_FORMAT,
                      ": unknown .npy version 4 at byte 6 (known: 1 to 3): " AGAIN);
    write_bytes(path, "\x93NUMPY\x00\x00\x10\x00\x00\x00{}", 14);
    assert_open_fails(path, OLE_ERROR_FORMAT,
                      ": unknown .npy version 0 at byte 6 (known: 1 to 3): " AGAIN);
}

/* Every proper prefix of a good file, and the file with a byte more, is refused. */
static void test_every_truncation(void **state) {
    (void)state;
    const float data[] = {1, 2, 3, 4, 5, 6};
    for (int version = 1; version <= 3; version++) {
        const char *path =
            make(version, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3)}", data, 24);
        unsigned char bytes[256];
        FILE *file = fopen(path, "rb");
        size_t size = fread(bytes, 1, sizeof bytes - 1, file);
        fclose(file);
        bytes[size] = 0;
        for (size_t cut = 0; cut <= size + 1; cut++) {
            if (cut == size) continue;
            write_bytes(path, bytes, cut);
            ole_npy *array;
            ole_error error;
            assert_int_equal(ole_npy_open(&array, path, &error), OLE_ERROR_FORMAT);
            assert_null(array);
            assert_null(strchr(error.message, '\n'));
        }
    }
}

static void test_lengths(void **state) {
    (void)state;
    const char *path = temporary_path("F.npy");
    write_bytes(path, "\x93NUMPY\x01", 7);
    assert_open_fails(path, OLE_ERROR_FORMAT,
                      ": truncated after 7 bytes, inside the header; copy it again");
    write_bytes(path, "\x93NUMPY\x02\x00\xff\xff\xff\xff{}", 14);
    assert_open_fails(path, OLE_ERROR_FORMAT,
                      ": the header should have 4294967295 bytes, but the whole file has 14: "
                      "truncated or damaged; copy it again");
    const float data[] = {1, 2, 3, 4, 5, 6, 7};
    assert_open_fails(make_typed("<f4", "(2, 3)", data, 21), OLE_ERROR_FORMAT,
                      ": 3 bytes short: header says (2, 3) float32, 24 bytes, and 21 follow it; "
                      "copy or save it again");
    assert_open_fails(
        make_typed("<f4", "(2, 3)", data, 25), OLE_ERROR_FORMAT,
        ": 1 byte too many: header says (2, 3) float32, 24 bytes, and 25 follow it; " AGAIN);
    assert_open_fails(make_typed("<f4", "(7,)", data, 0), OLE_ERROR_FORMAT,
                      ": 28 bytes short: header says (7,) float32, 28 bytes, and 0 follow it; "
                      "copy or save it again");
}

typedef struct header_case {
    const char *header;
    const char *message; /* after the path */
} header_case;

static const header_case header_cases[] = {
    {"", ": header, byte 64: expected '{': " DAMAGED},
    {"[]", ": header, byte 10: expected '{': " DAMAGED},
    {"{}", ": header, byte 12: key 'descr' is missing: " DAMAGED},
    {"{'descr': '<f4', 'shape': (2,)}",
     ": header, byte 41: key 'fortran_order' is missing: " DAMAGED},
    {"{'descr': '<f4', 'fortran_order': False}",
     ": header, byte 50: key 'shape' is missing: " DAMAGED},
    {"{'descr': '<f4', 'descr': '<f4'}", ": header, byte 27: key 'descr' comes twice: " DAMAGED},
    {"{'colour': 1}", ": header, byte 11: key 'colour' is unknown: " DAMAGED},
    {"{'a\nb\x01': 1}", ": header, byte 11: key 'a?b?' is unknown: " DAMAGED},
    {"{descr: '<f4'}", ": header, byte 11: expected a quoted string: " DAMAGED},
    {"{'descr: <f4}", ": header, byte 11: the string has no end: " DAMAGED},
    {"{'descr' '<f4'}", ": header, byte 19: expected ':': " DAMAGED},
    {"{'descr': '<f4' 'shape': (2,)}", ": header, byte 26: expected ',' or '}': " DAMAGED},
    {"{'descr': '<f4', 'fortran_order': Maybe}",
     ": header, byte 44: expected True or False: " DAMAGED},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,)} x",
     ": header, byte 66: text after the dictionary: " DAMAGED},
    {"{'shape': 2}", ": header, byte 20: expected '(': " DAMAGED},
    {"{'shape': [2]}", ": header, byte 20: expected '(': " DAMAGED},
    {"{'shape': (2)}", ": header, byte 23: the shape is not a tuple: " DAMAGED},
    {"{'shape': (,)}", ": header, byte 21: expected a dimension: " DAMAGED},
    {"{'shape': (2 3)}", ": header, byte 23: expected ',' or ')': " DAMAGED},
    {"{'shape': (2.5,)}", ": header, byte 22: expected ',' or ')': " DAMAGED},
    {"{'shape': (-2,)}", ": header, byte 21: a dimension is negative: " DAMAGED},
    {"{'shape': (None,)}", ": header, byte 21: expected a dimension: " DAMAGED},
    {"{'shape': (2", ": header, byte 64: expected ',' or ')': " DAMAGED},
    {"{'shape': (9223372036854775808,)}",
     ": header, byte 39: a dimension is too large for int64: the header is damaged"},
    {"{'shape': (1,1,1,1,1,1,1,1,1)}",
     ": header, byte 37: more than 8 dimensions: reshape the array"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296)}",
     ": shape (4294967296, 4294967296) is larger than any file: " DAMAGED},
    {"{'descr': '<f8', 'fortran_order': False, 'shape': (2305843009213693952,)}",
     ": shape (2305843009213693952,) is larger than any file: " DAMAGED},
    {"{'descr': '<f8', 'fortran_order': False, 'shape': (0, 4294967296, 4294967296)}",
     ": shape (0, 4294967296, 4294967296) is larger than any file: " DAMAGED},
    {"{'descr': '|O'}",
     ": header, byte 20: dtype '|O': object arrays are not supported; save features with "
     ".astype('float32'), labels with .astype(str) or as integers"},
    {"{'descr': [('x', '<f4'), ('y', '<f4')]}",
     ": header, byte 20: structured arrays are not supported; save one field, as a['field']"},
    {"{'descr': ('<f4', (3,))}",
     ": header, byte 20: structured arrays are not supported; save one field, as a['field']"},
    {"{'descr': '<c8'}", ": header, byte 20: dtype '<c8': complex numbers are not supported; save "
                         "the real and imaginary "
                         "parts separately"},
    {"{'descr': '|b1'}",
     ": header, byte 20: dtype '|b1': booleans are not supported; save them with .astype('uint8')"},
    {"{'descr': '<U5'}", ": header, byte 20: dtype '<U5': strings are no features; save those with "
                         ".astype('float32'), and name the labels behind them"},
    {"{'descr': '<M8[ns]'}", ": header, byte 20: dtype '<M8[ns]': this type is not supported; save "
                             "it as float32, float64 or an "
                             "integer type"},
    {"{'descr': '<f16'}", ": header, byte 20: dtype '<f16': this type is not supported; save it as "
                          "float32, float64 or an "
                          "integer type"},
    {"{'descr': ''}",
     ": header, byte 20: dtype '': this type is not supported; save it as float32, float64 or an "
     "integer type"},
    {"{'descr': '<'}",
     ": header, byte 20: dtype '<': this type is not supported; save it as float32, float64 or an "
     "integer type"},
};

static void test_headers(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof header_cases / sizeof *header_cases; i++)
        assert_open_fails(make(1, header_cases[i].header, NULL, 0), OLE_ERROR_FORMAT,
                          header_cases[i].message);
}

/* A path that is long or holds control characters still leaves one line with the reason. */
static void test_odd_paths(void **state) {
    (void)state;
    ole_npy *array;
    ole_error error;
    assert_int_equal(ole_npy_open(&array, "no\nsuch", &error), OLE_ERROR_IO);
    assert_string_equal(error.message, "no?such: cannot open: No such file or directory");
    char path[3000];
    memset(path, 'x', sizeof path);
    for (size_t i = 100; i < sizeof path; i += 100)
        path[i] = '/';
    memcpy(path + sizeof path - 7, "/F.npy", 7);
    assert_int_equal(ole_npy_open(&array, path, &error), OLE_ERROR_IO);
    assert_non_null(strstr(error.message, "xxx...xxx"));
    assert_non_null(strstr(error.message, "/F.npy: cannot open: No such file or directory"));
}

static void test_values_that_do_not_fit(void **state) {
    (void)state;
    const uint64_t large[] = {1, UINT64_MAX};
    ole_npy *array = open_good(make_typed("<u8", "(2,)", large, sizeof large));
    int64_t whole[2];
    ole_error error;
    assert_int_equal(ole_npy_read(array, OLE_I64, whole, &error), OLE_ERROR_FORMAT);
    assert_non_null(strstr(error.message, "F.npy: element 1 is 18446744073709551615, too "
                                          "large for int64; renumber the values"));
    ole_npy_close(array);

    const double wide[] = {1, 2, -1e300};
    array = open_good(make_typed("<f8", "(3,)", wide, sizeof wide));
    float single[3];
    assert_int_equal(ole_npy_read(array, OLE_F32, single, &error), OLE_ERROR_FORMAT);
    assert_non_null(strstr(error.message, "F.npy: element 2 is -1e+300, too large for float32; "
                                          "scale the values, or read them as float64"));
    assert_int_equal(ole_npy_read(array, OLE_I64, whole, &error), OLE_ERROR_FORMAT);
    assert_non_null(strstr(error.message, "F.npy: the elements, from element 0 on, are float64 "
                                          "where integers are needed: save it with "
                                          ".astype('int64')"));
    ole_npy_close(array);
}

static void test_wrong_arguments(void **state) {
    (void)state;
    ole_npy *array;
    ole_error error;
    assert_int_equal(ole_npy_open(NULL, "x", &error), OLE_ERROR_ARGUMENT);
    assert_int_equal(ole_npy_open(&array, NULL, &error), OLE_ERROR_ARGUMENT);
    ole_npy_close(NULL);
    assert_null(ole_npy_get_header(NULL));
    assert_null(ole_npy_data(NULL));
    assert_int_equal(ole_npy_read(NULL, OLE_F32, &error, &error), OLE_ERROR_ARGUMENT);
    const float one = 1;
    array = open_good(make_typed("<f4", "()", &one, sizeof one));
    assert_int_equal(ole_npy_read(array, OLE_F32, NULL, &error), OLE_ERROR_ARGUMENT);
    float out;
    assert_int_equal(ole_npy_read(array, OLE_I32, &out, &error), OLE_ERROR_ARGUMENT);
    assert_string_equal(error.message,
                        "ole_npy_read: as is int32: use OLE_F32, OLE_F64 or OLE_I64");
    ole_npy_close(array);
}

/* ---- Writing ------------------------------------------------------------------------------ */

static void test_write_and_read(void **state) {
    (void)state;
    const int64_t shape[8] = {2, 1, 3, 1, 1, 1, 1, 1};
    const unsigned char data[48] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
    for (ole_dtype dtype = OLE_F16; dtype <= OLE_U64; dtype++) {
        if (dtype == OLE_BF16) continue;
        for (int ndim = 0; ndim <= 8; ndim++) {
            const char *path = temporary_path("W.npy");
            assert_int_equal(ole_npy_write(path, dtype, ndim, shape, data, NULL), OLE_OK);
            ole_npy *array = open_good(path);
            const ole_npy_header *h = ole_npy_get_header(array);
            assert_int_equal(h->dtype, dtype);
            assert_int_equal(h->ndim, ndim);
            assert_int_equal(h->count, ndim == 0 ? 1 : ndim < 3 ? 2 : 6);
            assert_memory_equal(h->shape, shape, (size_t)ndim * sizeof *shape);
            assert_non_null(ole_npy_data(array));
            assert_memory_equal(ole_npy_data(array), data,
                                (size_t)h->count * ole_dtype_size(dtype));
            ole_npy_close(array);
        }
    }
    assert_int_equal(temporary_each(NULL), 1);
}

/* Byte for byte what numpy.save(path, numpy.array([[1, 2]], '<f4')) writes. */
static void test_written_bytes(void **state) {
    (void)state;
    const float data[] = {1, 2};
    const char *path = temporary_path("W.npy");
    assert_int_equal(ole_npy_write(path, OLE_F32, 2, (const int64_t[]){1, 2}, data, NULL), OLE_OK);
    unsigned char bytes[256];
    FILE *file = fopen(path, "rb");
    assert_int_equal(fread(bytes, 1, sizeof bytes, file), 136);
    fclose(file);
    assert_memory_equal(bytes, "\x93NUMPY\x01\x00\x76\x00", 10);
    assert_memory_equal(bytes + 10, "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 2), }  ",
                        61);
    assert_int_equal(bytes[126], ' ');
    assert_int_equal(bytes[127], '\n');
    assert_memory_equal(bytes + 128, data, sizeof data);
}

static void test_write_errors(void **state) {
    (void)state;
    const int64_t shape[] = {2, 2}, negative[] = {2, -2}, huge[] = {INT64_MAX, 2};
    const float data[4] = {0};
    ole_error error;
    const char *path = temporary_path("W.npy");
    assert_int_equal(ole_npy_write(path, OLE_BF16, 2, shape, data, &error), OLE_ERROR_ARGUMENT);
    assert_string_equal(error.message, "ole_npy_write: dtype bfloat16 has no .npy code");
    assert_int_equal(ole_npy_write(path, 99, 2, shape, data, &error), OLE_ERROR_ARGUMENT);
    assert_int_equal(ole_npy_write(path, OLE_F32, 9, shape, data, &error), OLE_ERROR_ARGUMENT);
    assert_int_equal(ole_npy_write(path, OLE_F32, -1, shape, data, &error), OLE_ERROR_ARGUMENT);
    assert_int_equal(ole_npy_write(path, OLE_F32, 2, NULL, data, &error), OLE_ERROR_ARGUMENT);
    assert_int_equal(ole_npy_write(path, OLE_F32, 2, negative, data, &error), OLE_ERROR_ARGUMENT);
    assert_int_equal(ole_npy_write(path, OLE_F32, 2, huge, data, &error), OLE_ERROR_ARGUMENT);
    assert_int_equal(ole_npy_write(path, OLE_F32, 2, shape, NULL, &error), OLE_ERROR_ARGUMENT);
    assert_int_equal(ole_npy_write(NULL, OLE_F32, 2, shape, data, &error), OLE_ERROR_ARGUMENT);
    assert_int_equal(temporary_each(NULL), 0);
    assert_int_equal(ole_npy_write("/dev/full", OLE_F32, 2, shape, data, &error), OLE_ERROR_IO);
    assert_string_equal(error.message, "/dev/full: cannot write: No space left on device");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_types, temporary_clear),
        cmocka_unit_test_teardown(test_half_precision, temporary_clear),
        cmocka_unit_test_teardown(test_fortran_order, temporary_clear),
        cmocka_unit_test_teardown(test_in_place, temporary_clear),
        cmocka_unit_test_teardown(test_versions_and_spellings, temporary_clear),
        cmocka_unit_test_teardown(test_scalars_and_empty_arrays, temporary_clear),
        cmocka_unit_test_teardown(test_not_npy, temporary_clear),
        cmocka_unit_test_teardown(test_versions_not_known, temporary_clear),
        cmocka_unit_test_teardown(test_every_truncation, temporary_clear),
        cmocka_unit_test_teardown(test_lengths, temporary_clear),
        cmocka_unit_test_teardown(test_headers, temporary_clear),
        cmocka_unit_test_teardown(test_odd_paths, temporary_clear),
        cmocka_unit_test_teardown(test_values_that_do_not_fit, temporary_clear),
        cmocka_unit_test_teardown(test_wrong_arguments, temporary_clear),
        cmocka_unit_test_teardown(test_write_and_read, temporary_clear),
        cmocka_unit_test_teardown(test_written_bytes, temporary_clear),
        cmocka_unit_test_teardown(test_write_errors, temporary_clear),
    };
    return cmocka_run_group_tests(tests, temporary_make, temporary_remove);
}
