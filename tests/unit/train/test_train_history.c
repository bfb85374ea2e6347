/*
 * tests/unit/train/test_train_history.c - metrics.jsonl read back: epochs, the end, what is not
 * measured, a line that is still being written, and files that are something else.
 */
#include "failing_memory.h"
#include "ole/train/history.h"
#include "temporary.h"
#include "test.h"

#include <math.h>

static void write_lines(const char *text) {
    FILE *file = fopen(temporary_path("metrics.jsonl"), "w");
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
}

static void test_epochs_and_the_end(void **state) {
    (void)state;
    write_lines(
        "{\"event\": \"epoch\", \"epoch\": 1, \"lr\": 0.1, \"loss\": 2.5, \"softmax_loss\": 2, "
        "\"ole_loss\": 0.5, \"train_error\": 50, \"images_per_s\": 10, \"seconds\": 3}\n"
        "{\"event\": \"epoch\", \"epoch\": 2, \"test_error\": 12.5, \"validation_error\": null}\n"
        "{\"event\": \"end\", \"test_error\": 12.5, \"knn1_error\": 13, \"seconds\": 6, "
        "\"device\": \"cpu\", \"date\": \"2018-06-18T09:30:00Z\"}\n"
        "{\"event\": \"epo");
    ole_history h;
    ole_error error;
    assert_ok(ole_history_read(&h, temporary_dir, &error), &error);
    assert_int_equal(h.count, 2);
    assert_true(h.epochs[0].epoch == 1 && h.epochs[0].train_error == 50);
    assert_true(h.epochs[0].ole_loss == 0.5 && isnan(h.epochs[0].test_error));
    assert_true(h.epochs[1].test_error == 12.5 && isnan(h.epochs[1].validation_error));
    assert_true(h.ended && h.knn1_error == 13 && h.seconds == 6 && isnan(h.validation_error));
    assert_string_equal(h.device, "cpu");
    assert_string_equal(h.date, "2018-06-18T09:30:00Z");
    ole_history_free(&h);
}

static void test_runs_at_work(void **state) {
    (void)state;
    write_lines("");
    ole_history h;
    ole_error error;
    assert_ok(ole_history_read(&h, temporary_dir, &error), &error);
    assert_true(h.count == 0 && !h.ended && isnan(h.test_error));
    assert_true(h.device[0] == '\0' && h.date[0] == '\0');
    ole_history_free(&h);
}

static void test_other_files(void **state) {
    (void)state;
    ole_history h;
    ole_error error;
    assert_int_equal(ole_history_read(&h, temporary_dir, &error), OLE_ERROR_IO);
    write_lines("{\"event\": \"epoch\"}\n[1, 2]\n");
    assert_int_equal(ole_history_read(&h, temporary_dir, &error), OLE_ERROR_FORMAT);
    assert_non_null(strstr(error.message, "line 2"));
}

static ole_status read_history(ole_error *error) {
    ole_history history = {0};
    ole_status status = ole_history_read(&history, temporary_dir, error);
    ole_history_free(&history);
    return status;
}

/* Without memory a good file is not called a bad one. */
static void test_no_memory(void **state) {
    (void)state;
    write_lines("{\"event\": \"epoch\", \"epoch\": 1, \"lr\": 0.1}\n"
                "{\"event\": \"end\", \"test_error\": 12.5}\n");
    fail_each(read_history, NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_epochs_and_the_end, temporary_clear),
        cmocka_unit_test_teardown(test_runs_at_work, temporary_clear),
        cmocka_unit_test_teardown(test_other_files, temporary_clear),
        cmocka_unit_test_teardown(test_no_memory, temporary_clear),
    };
    return cmocka_run_group_tests(tests, temporary_make, temporary_remove);
}
