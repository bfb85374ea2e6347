/* tests/support/GPU.h - tests that need a GPU: skipped, with the reason, where there is none. */
#ifndef OLE_TESTS_CARD_H
#define OLE_TESTS_CARD_H

#include "base/cuda_module.h"
#include "test.h"

/* A table of the CUDA module; where there is no GPU, the test is skipped. */
static inline const void *gpu_table(const char *name) {
    const void *table = NULL;
    ole_error error;
    if (ole_cuda_module_check(&error) != OLE_OK) {
        print_message("no GPU to test: %s\n", error.message);
        skip();
    }
    assert_ok(ole_cuda_module_table(name, &table, &error), &error);
    return table;
}

/* `program PATTERN` runs only the tests that match it, as `*` and `?` do for files: for checkers
 * under which all of them would take too long. */
static inline void gpu_filter(int argc, char **argv) {
    if (argc > 1) cmocka_set_test_filter(argv[1]);
}

#endif
