/*
 * tests/unit/formats/test_input.c - features and labels from .npy, .npz, .csv and .txt files.
 * tests/cli/inputs.py tries the same files, damaged ones and archives through the program.
 */
#include "formats/input.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "temporary.h"

static const char *write_file(const char *name, const void *bytes, size_t size) {
    const char *path = temporary_path(name);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    fclose(file);
    return path;
}

static const char *write_text(const char *name, const char *text) {
    return write_file(name, text, strlen(text));
}

/* A .npy file of strings, whose bytes follow the header. */
static const char *write_strings(const char *descr, const char *shape, const void *data,
                                 size_t size) {
    unsigned char bytes[512] = {0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0, 118, 0};
    memset(bytes + 10, ' ', 118);
    char header[100];
    int length = snprintf(header, sizeof header,
                          "{'descr': '%s', 'fortran_order': False, 'shape': %s, }", descr, shape);
    memcpy(bytes + 10, header, (size_t)length);
    memcpy(bytes + 128, data, size);
    return write_file("L.npy", bytes, 128 + size);
}

static void assert_words(const char *path, int64_t count, const int64_t *values, int64_t classes,
                         const char *const *names) {
    ole_labels labels;
    ole_error error = {0};
    ole_status status = ole_labels_read(&labels, path, count, "X.npy", &error);
    if (status != OLE_OK) print_error("%s\n", error.message);
    assert_int_equal(status, OLE_OK);
    assert_memory_equal(labels.values, values, (size_t)count * sizeof *values);
    assert_int_equal(labels.classes, classes);
    for (int64_t i = 0; i < classes; i++)
        assert_string_equal(labels.names[i], names[i]);
    ole_labels_free(&labels);
}

static void assert_refused(const char *path, int64_t rows, const char *message) {
    ole_labels labels;
    ole_error error = {0};
    assert_int_not_equal(ole_labels_read(&labels, path, rows, "X.npy", &error), OLE_OK);
    if (!strstr(error.message, message)) print_error("%s\n", error.message);
    assert_non_null(strstr(error.message, message));
    ole_labels_free(&labels);
}

static void test_strings(void **state) {
    (void)state;
    static const char *const names[] = {"a", "\xc3\xa9t\xc3\xa9"};
    const int64_t values[] = {1, 0};
    const uint32_t little[] = {0xe9, 't', 0xe9, 'a', 0, 0};
    uint32_t big[6];
    for (int i = 0; i < 6; i++)
        big[i] = __builtin_bswap32(little[i]);
    assert_words(write_strings("<U3", "(2,)", little, sizeof little), 2, values, 2, names);
    assert_words(write_strings(">U3", "(2, 1)", big, sizeof big), 2, values, 2, names);
    static const char *const ascii[] = {"cat", "owl"};
    assert_words(write_strings("|S3", "(2,)", "owlcat", 6), 2, values, 2, ascii);
    assert_refused(write_strings("|S3", "(1, 2)", "owlcat", 6), 2,
                   "labels have shape (1, 2), not (N,) or (N, 1)");
    assert_refused(write_strings("|S3", "(3,)", "owlcat", 6), 3, "3 bytes short");
    assert_refused(write_strings("|S0", "(2,)", "", 0), 2, "dtype '|S0'");
    assert_refused(write_strings("|O", "(2,)", "owlcat", 6), 2, "object arrays are not supported");
    ole_npy *array;
    ole_error error = {0};
    const char *path = write_strings("|S3", "(2,)", "owlcat", 6);
    assert_int_equal(ole_features_open(&array, path, NULL, &error), OLE_ERROR_FORMAT);
    assert_non_null(strstr(error.message, "strings are no features"));
}

static void test_text(void **state) {
    (void)state;
    static const char *const names[] = {"7up", "8", "ant"};
    assert_words(write_text("L.txt", "8\nant\r\n7up\n"), 3, (const int64_t[]){1, 2, 0}, 3, names);
    assert_words(write_text("L.txt", "8\n-1\n7"), 3, (const int64_t[]){8, -1, 7}, 0, NULL);
    assert_refused(write_text("L.txt", "8\n-1\n7"), 2, "X.npy has 2 rows and ");
    assert_refused(write_text("L.txt", "8\n\n7"), 3, "line 2 is empty");
    assert_refused(write_text("L.txt", ""), 0, "the file is empty");
}

static void test_table(void **state) {
    (void)state;
    const char *path = write_text("T.csv", "a,\"kind\",b\n1,\"x, \"\"y\"\"\",2\n3,z,nan\n");
    char column[4096];
    snprintf(column, sizeof column, "%s:kind", path);
    static const char *const names[] = {"x, \"y\"", "z"};
    assert_words(column, 2, (const int64_t[]){0, 1}, 2, names);
    ole_npy *array;
    ole_error error = {0};
    assert_int_equal(ole_features_open(&array, path, column, &error), OLE_OK);
    const ole_npy_header *h = ole_npy_get_header(array);
    assert_true(h->dtype == OLE_F64 && h->ndim == 2 && h->shape[0] == 2 && h->shape[1] == 2);
    const double *x = ole_npy_data(array);
    assert_true(x[0] == 1 && x[1] == 2 && x[2] == 3 && x[3] != x[3]);
    float narrow[4];
    assert_int_equal(ole_npy_read(array, OLE_F32, narrow, &error), OLE_OK);
    assert_true(narrow[2] == 3);
    ole_npy_close(array);
    assert_int_equal(ole_features_open(&array, path, NULL, &error), OLE_ERROR_FORMAT);
    assert_null(array);
    assert_non_null(strstr(error.message, ", line 2: 'x, \"y\"' is not a number"));
}

static void test_unite(void **state) {
    (void)state;
    ole_labels a, b;
    ole_error error = {0};
    const char *path = write_text("A.txt", "owl\ncat\n");
    assert_int_equal(ole_labels_read(&a, path, 2, "X.npy", &error), OLE_OK);
    path = write_text("B.txt", "cat\nbat\nowl\n");
    assert_int_equal(ole_labels_read(&b, path, 3, "X.npy", &error), OLE_OK);
    assert_int_equal(ole_labels_unite(&a, &b, &error), OLE_OK);
    assert_true(a.classes == 3 && b.classes == 3);
    assert_true(a.values[0] == 2 && a.values[1] == 1);
    assert_true(b.values[0] == 1 && b.values[1] == 0 && b.values[2] == 2);
    assert_string_equal(a.names[0], "bat");
    ole_labels_free(&b);
    path = write_text("B.txt", "1\n2\n");
    assert_int_equal(ole_labels_read(&b, path, 2, "X.npy", &error), OLE_OK);
    assert_int_equal(ole_labels_unite(&a, &b, &error), OLE_ERROR_FORMAT);
    assert_string_equal(
        error.message,
        "labels are words in one file and numbers in the other; use the same in both");
    ole_labels_free(&a);
    ole_labels_free(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_strings),
        cmocka_unit_test(test_text),
        cmocka_unit_test(test_table),
        cmocka_unit_test(test_unite),
    };
    return cmocka_run_group_tests(tests, temporary_make, temporary_remove);
}
