/*
 * tests/unit/train/test_ranks_cuda_off.c - without NCCL: what is said, and that training over ranks
 * still has its way through host memory.  The library is looked for once a process, so this has one
 * of its own.
 */
#include "gpu.h"
#include "rank_threads.h"
#include "train/ranks/link.h"

#include <stdlib.h>
#include <string.h>

/* The backend where the module can be loaded; that takes no GPU. */
static const ole_backend *backend_or_skip(void) {
    const void *table = NULL;
    ole_error error;
    if (ole_cuda_module_table("ole_cuda_backend", &table, &error) != OLE_OK) {
        print_message("no CUDA module to test: %s\n", error.message);
        skip();
    }
    return table;
}

static void missing_is_said(void **state) {
    (void)state;
    const ole_backend *backend = backend_or_skip();
    unsigned char id[OLE_LINK_ID];
    ole_error error = {0};
    assert_int_equal(backend->linker->check(&error), OLE_ERROR_UNSUPPORTED);
    if (!strstr(error.message, "NCCL") || !strstr(error.message, "/nowhere/libnccl.so.2"))
        fail_msg("what is missing, says '%s'?", error.message);
    assert_int_equal(backend->linker->make_id(id, &error), OLE_ERROR_UNSUPPORTED);
}

static void goes_through_the_host(void **state) {
    (void)state;
    ole_network network = {.backend = gpu_table("ole_cuda_backend")};
    const ole_device_options options = {.gpu = -1};
    ole_ranks *group = NULL;
    ole_link link;
    ole_error error;
    assert_ok(network.backend->open(&network.context, &options, &error), &error);
    assert_ok(thread_ranks(&group, 1, &error), &error);
    assert_ok(ole_link_open(&link, group, &network, &error), &error);
    assert_non_null(link.linker);
    assert_false(link.direct);
    if (!strstr(link.how, "rank 0 (") || !strstr(link.how, "NCCL")) fail_msg("'%s'", link.how);
    ole_ranks_close(group);
    network.backend->close(network.context);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(missing_is_said),
        cmocka_unit_test(goes_through_the_host),
    };
    setenv("OLE_NCCL", "/nowhere/libnccl.so.2", 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
