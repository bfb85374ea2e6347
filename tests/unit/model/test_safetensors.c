/*
 * tests/unit/model/test_safetensors.c - tensors there and back, and every way a file can be
 * wrong.
 */
#include "formats/safetensors.h"

#include "peak_memory.h"
#include "temporary.h"
#include "test.h"

#include <math.h>
#include <time.h>

/* ---- Making files ------------------------------------------------------------------------- */

static void write_bytes(const char *path, const void *bytes, size_t size) {
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

/* A file with this header and so many zero bytes of data. */
static const char *make(const char *header, size_t data) {
    char bytes[2048] = {0};
    size_t length = strlen(header);
    assert_true(8 + length + data <= sizeof bytes);
    bytes[0] = (char)(length & 0xff);
    bytes[1] = (char)(length >> 8);
    memcpy(bytes + 8, header, length);
    const char *path = temporary_path("t.safetensors");
    write_bytes(path, bytes, 8 + length + data);
    return path;
}

static void assert_fails(const char *path, ole_status status, const char *message) {
    ole_safetensors *file = (ole_safetensors *)&file;
    ole_error error = {0};
    assert_int_equal(ole_safetensors_open(&file, path, &error), status);
    assert_null(file);
    assert_int_equal(strncmp(error.message, path, strlen(path)), 0);
    assert_string_equal(error.message + strlen(path), message);
}

static const float weights[6] = {1, 2, 3, 4, 5, 0.1f};
static const double sums[2] = {1e-300, 0.1};
static const int64_t counters[1] = {-5000000000};

static const char *write_good(void) {
    const ole_tensor tensors[] = {
        {"counters", OLE_I64, 1, {1}, counters},        {"sums", OLE_F64, 1, {2}, sums},
        {"1.conv.weight", OLE_F32, 2, {2, 3}, weights}, {"none", OLE_F32, 2, {0, 4}, NULL},
        {"scalar", OLE_F32, 0, {0}, weights},
    };
    const ole_metadata metadata[] = {{"net", "C32-\"MP\""}, {"names", "é\n"}};
    const char *path = temporary_path("good.safetensors");
    ole_error error;
    assert_ok(ole_safetensors_write(path, tensors, 5, metadata, 2, &error), &error);
    return path;
}

/* ---- Tests -------------------------------------------------------------------------------- */

static void test_there_and_back(void **state) {
    (void)state;
    ole_safetensors *file;
    ole_error error;
    assert_ok(ole_safetensors_open(&file, write_good(), &error), &error);
    assert_int_equal(ole_safetensors_count(file), 5);
    assert_string_equal(ole_safetensors_get(file, 0)->name, "counters");
    assert_null(ole_safetensors_get(file, 5));
    assert_null(ole_safetensors_find(file, "other"));

    const ole_tensor *w = ole_safetensors_find(file, "1.conv.weight");
    float read[6];
    assert_int_equal(w->ndim, 2);
    assert_int_equal(w->shape[1], 3);
    assert_true(ole_tensor_read(w, OLE_F32, read));
    assert_memory_equal(read, weights, sizeof weights);
    assert_false(ole_tensor_read(w, OLE_F64, read));

    double both[2];
    const ole_tensor *s = ole_safetensors_find(file, "sums");
    assert_true(ole_tensor_read(s, OLE_F64, both));
    assert_memory_equal(both, sums, sizeof sums);
    assert_true(ole_tensor_read(s, OLE_F32, read));
    assert_true(read[1] == 0.1f);
    assert_int_equal(ole_tensor_count(ole_safetensors_find(file, "none")), 0);
    assert_int_equal(ole_tensor_count(ole_safetensors_find(file, "scalar")), 1);

    assert_string_equal(ole_safetensors_metadata(file, "net"), "C32-\"MP\"");
    assert_string_equal(ole_safetensors_metadata(file, "names"), "é\n");
    assert_null(ole_safetensors_metadata(file, "no"));
    ole_safetensors_close(file);
}

/* Halves of both kinds become floats: a subnormal, the largest number, infinity. */
static void test_halves(void **state) {
    (void)state;
    static const struct {
        ole_dtype dtype;
        uint16_t bits[4];
        float expected[4];
    } cases[] = {
        {OLE_F16, {0x0001, 0xc100, 0x7bff, 0xfc00}, {0x1p-24f, -2.5f, 65504.0f, -INFINITY}},
        {OLE_BF16, {0x0001, 0xc020, 0x7f7f, 0xff80}, {0x1p-133f, -2.5f, 0x1.fep127f, -INFINITY}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        float read[4];
        const ole_tensor halves = {"h", cases[i].dtype, 1, {4}, cases[i].bits};
        assert_true(ole_tensor_read(&halves, OLE_F32, read));
        assert_memory_equal(read, cases[i].expected, sizeof read);
        assert_false(ole_tensor_read(&halves, OLE_F64, read));
    }
}

static void test_bad_tensors(void **state) {
    (void)state;
#define DAMAGED ": the file is damaged or not a safetensors file"
    static const struct {
        const char *header, *message;
    } cases[] = {
        {"[]", ": the header is not a JSON object" DAMAGED},
        {"{\"a\":{\"dtype\":\"F33\",\"shape\":[2],\"data_offsets\":[0,8]}}",
         ": tensor 'a': its dtype 'F33' is unknown; convert it to F32"},
        {"{\"a\":7}", ": tensor 'a': its dtype is missing" DAMAGED},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[-2],\"data_offsets\":[0,8]}}",
         ": tensor 'a': its shape is missing, wrong or too large" DAMAGED},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,8]}}",
         ": tensor 'a': its shape is missing, wrong or too large" DAMAGED},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1,1,1,1,1,1,1,1,2],\"data_offsets\":[0,8]}}",
         ": tensor 'a': its shape is missing, wrong or too large" DAMAGED},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2]}}",
         ": tensor 'a': its data_offsets are missing or wrong" DAMAGED},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8,9]}}",
         ": tensor 'a': its data_offsets are missing or wrong" DAMAGED},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[0,16]}}",
         ": tensor 'a': its elements lie outside the file, which may be truncated" DAMAGED},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[-8,0]}}",
         ": tensor 'a': its elements lie outside the file, which may be truncated" DAMAGED},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[0,8]}}",
         ": tensor 'a': its shape and data_offsets do not match" DAMAGED},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}",
         ": tensor 'a': its elements do not follow those of the tensor before it" DAMAGED},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}",
         ": 4 bytes at the end belong to no tensor" DAMAGED},
        {"{\"__metadata__\":[],\"a\":{\"dtype\":\"U8\",\"shape\":[8],\"data_offsets\":[0,8]}}",
         ": __metadata__ is not an object" DAMAGED},
        {"{\"__metadata__\":{\"x\":1},\"a\":{\"dtype\":\"U8\",\"shape\":[8],"
         "\"data_offsets\":[0,8]}}",
         ": metadata 'x' is not a string" DAMAGED},
        {"{\"__metadata__\":{\"checksum\":\"1\"},\"a\":{\"dtype\":\"U8\",\"shape\":[8],"
         "\"data_offsets\":[0,8]}}",
         ": wrong checksum: the elements are damaged; copy the file again"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_fails(make(cases[i].header, 8), OLE_ERROR_FORMAT, cases[i].message);
}

static void test_bad_files(void **state) {
    (void)state;
    const char *path = temporary_path("bad.safetensors");
    assert_fails(path, OLE_ERROR_IO, ": cannot read: No such file or directory");
    assert_fails(temporary_dir, OLE_ERROR_IO, ": cannot read: Is a directory");
    write_bytes(path, "abc", 3);
    assert_fails(path, OLE_ERROR_FORMAT, ": truncated after 3 bytes" DAMAGED);
    write_bytes(path, "\377\377\377\377\377\377\377\377{}", 10);
    assert_fails(
        path, OLE_ERROR_FORMAT,
        ": the header should have 18446744073709551615 bytes, but the whole file has 10" DAMAGED);
    ole_safetensors *file;
    ole_error error;
    assert_int_equal(ole_safetensors_open(&file, make("{\"a\":1,\"a\":2}", 0), &error),
                     OLE_ERROR_FORMAT);
    assert_non_null(strstr(error.message, "header, byte "));
}

/* Whatever byte is lost or changed, the file does not load as if nothing had happened. */
static void test_torn_and_flipped(void **state) {
    (void)state;
    char bytes[4096];
    FILE *good = fopen(write_good(), "rb");
    assert_non_null(good);
    size_t size = fread(bytes, 1, sizeof bytes, good);
    fclose(good);
    ole_safetensors *file;
    ole_error error;
    const char *path = temporary_path("torn.safetensors");
    for (size_t cut = 0; cut < size; cut++) {
        write_bytes(path, bytes, cut);
        assert_int_equal(ole_safetensors_open(&file, path, &error), OLE_ERROR_FORMAT);
    }
    for (size_t at = size - 52; at < size; at++) { /* the elements */
        bytes[at] ^= 4;
        write_bytes(path, bytes, size);
        bytes[at] ^= 4;
        assert_int_equal(ole_safetensors_open(&file, path, &error), OLE_ERROR_FORMAT);
    }
}

/* Looking up every tensor and text takes far less than a comparison of each with each. */
static void test_many(void **state) {
    (void)state;
    enum { COUNT = 100000, ROOM = 16, SECONDS = 10 };
    char(*names)[ROOM] = malloc(COUNT * sizeof *names);
    ole_tensor *tensors = calloc(COUNT, sizeof *tensors);
    ole_metadata *texts = calloc(COUNT, sizeof *texts);
    for (int i = 0; i < COUNT; i++) {
        snprintf(names[i], ROOM, "n%d", i);
        tensors[i] = (ole_tensor){names[i], OLE_F32, 1, {0}, NULL};
        texts[i] = (ole_metadata){names[i], "text"};
    }
    const char *path = temporary_path("many.safetensors");
    ole_safetensors *file;
    ole_error error;
    assert_ok(ole_safetensors_write(path, tensors, COUNT, texts, COUNT, &error), &error);
    clock_t start = clock();
    assert_ok(ole_safetensors_open(&file, path, &error), &error);
    assert_int_equal(ole_safetensors_texts(file), COUNT + 1); /* and the checksum */
    for (size_t i = 0; i < COUNT; i++) {
        const ole_tensor *tensor = ole_safetensors_find(file, names[i]);
        assert_non_null(tensor);
        assert_string_equal(tensor->name, names[i]);
        assert_ptr_equal(ole_safetensors_get(file, ole_safetensors_index(file, tensor)), tensor);
        ole_metadata text = ole_safetensors_text(file, i + 1);
        assert_string_equal(text.value, "text");
        assert_true(clock() - start < SECONDS * (clock_t)CLOCKS_PER_SEC);
    }
    assert_null(ole_safetensors_text(file, COUNT + 1).key);
    ole_safetensors_close(file);
    free(names);
    free(tensors);
    free(texts);
}

/* A large file with a bad header costs no more than a small one. */
static void test_large_and_bad(void **state) {
    (void)state;
    static const char start[] = "\2\0\0\0\0\0\0\0[]";
    const char *path = temporary_path("large.safetensors");
    write_bytes(path, start, sizeof start - 1);
    assert_int_equal(truncate(path, INT64_C(1) << 30), 0);
    int64_t before = peak_memory();
    assert_fails(path, OLE_ERROR_FORMAT, ": the header is not a JSON object" DAMAGED);
    assert_true(peak_memory() - before < small_cost);
}

static void test_full_disk(void **state) {
    (void)state;
    const ole_tensor tensor = {"w", OLE_F32, 1, {6}, weights};
    ole_error error;
    assert_int_equal(ole_safetensors_write("/dev/full", &tensor, 1, NULL, 0, &error), OLE_ERROR_IO);
    assert_string_equal(error.message, "/dev/full: cannot write: No space left on device");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_there_and_back, temporary_clear),
        cmocka_unit_test(test_halves),
        cmocka_unit_test_teardown(test_bad_tensors, temporary_clear),
        cmocka_unit_test_teardown(test_bad_files, temporary_clear),
        cmocka_unit_test_teardown(test_torn_and_flipped, temporary_clear),
        cmocka_unit_test_teardown(test_many, temporary_clear),
        cmocka_unit_test_teardown(test_large_and_bad, temporary_clear),
        cmocka_unit_test(test_full_disk),
    };
    return cmocka_run_group_tests(tests, temporary_make, temporary_remove);
}
