/*
 * tests/unit/report/test_text_table.c - tables as CSV and Markdown: cells with the characters that
 * either format gives a meaning, and tables without rows.
 */
#include "report/text_table.h"

#include "base/memory_file.h"
#include "test.h"

#include <stdlib.h>

static const char *const names[] = {"name", "value, %"};

static void check(const ole_text_table *table,
                  void (*print)(const ole_text_table *table, FILE *file), const char *expected) {
    ole_memory_file memory;
    assert_true(ole_memory_file_open(&memory));
    print(table, memory.file);
    char *text = ole_memory_file_close(&memory);
    assert_non_null(text);
    assert_string_equal(text, expected);
    free(text);
}

static void test_formats(void **state) {
    (void)state;
    ole_text_table table = {.columns = 2, .names = names};
    check(&table, ole_text_table_print_csv, "name,\"value, %\"\n");
    check(&table, ole_text_table_print_markdown, "| name | value, % |\n|---|---|\n");
    ole_text_table_add(&table, "%s", "a|b");
    ole_text_table_add(&table, "%.2f", 7.221);
    ole_text_table_add(&table, "two\n\"lines\"");
    ole_text_table_add(&table, "%s", "");
    assert_false(table.out_of_memory);
    check(&table, ole_text_table_print_csv,
          "name,\"value, %\"\na|b,7.22\n\"two\n\"\"lines\"\"\",\n");
    check(&table, ole_text_table_print_markdown,
          "| name | value, % |\n|---|---|\n| a\\|b | 7.22 |\n| two \"lines\" |  |\n");
    ole_text_table_free(&table);
    assert_int_equal(table.count, 0);
}

/* A row's cells are counted by its format, whatever its texts hold. */
static void test_rows(void **state) {
    (void)state;
    ole_text_table table = {.columns = 2, .names = names};
    ole_text_table_row(&table, "%s|%.1f %%", "a|b", 7.25);
    ole_text_table_row(&table, "%s", "alone");
    ole_text_table_row(&table, "%s|%s|too many", "", "");
    assert_int_equal(table.count, 6);
    check(&table, ole_text_table_print_csv, "name,\"value, %\"\na|b,7.2 %\nalone,\n,\n");
    ole_text_table_free(&table);
}

/* A page with a table that lost a cell is not written. */
static void test_lost_cell(void **state) {
    (void)state;
    ole_text_table table = {.columns = 2, .names = names, .out_of_memory = true};
    ole_page *page;
    ole_error error;
    assert_ok(ole_page_create(&page, "title", "subtitle", &error), &error);
    ole_text_table_add_to_page(&table, page, "caption");
    assert_int_equal(ole_page_write(page, "/nowhere/page.html", &error), OLE_ERROR_MEMORY);
    ole_page_free(page);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_formats),
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_lost_cell),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
