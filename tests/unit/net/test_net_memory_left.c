/*
 * tests/unit/net/test_net_memory_left.c - how much memory is left, as files of the system tell it;
 * and nets and batches that are larger.
 */
#include "base/available_memory.h"
#include "data_files.h"
#include "net/plan.h"

static const int64_t mib = 1 << 20;

static void write_text(const char *name, const char *text) {
    data_write(name, text, strlen(text));
}

/* Machine: 1000 MiB available, no swap. */
static int write_machine(void **state) {
    if (data_dir_empty(state) != 0) return -1;
    write_text("proc/meminfo", "MemTotal:  4096000 kB\nMemFree:  1 kB\n"
                               "MemAvailable:    1024000 kB\nSwapFree:   0 kB\n");
    return 0;
}

static void test_machine(void **state) {
    assert_int_equal(ole_memory_left(data_dir), 1000 * mib);
    write_text("proc/meminfo", "MemAvailable: 1024000 kB\nSwapFree: 2048 kB\n");
    assert_int_equal(ole_memory_left(data_dir), 1002 * mib);
    write_text("proc/meminfo", "MemTotal: 4096000 kB\n"); /* as old kernels have it */
    assert_true(ole_memory_left(data_dir) == INT64_MAX);
    data_dir_empty(state);
    assert_true(ole_memory_left(data_dir) == INT64_MAX);
}

/* The group's own limit, that of a group above it, and what is but cached. */
static void test_groups(void **state) {
    (void)state;
    write_text("proc/self/cgroup", "0::/user/job\n");
    write_text("sys/fs/cgroup/user/job/memory.max", "max\n");
    write_text("sys/fs/cgroup/user/job/memory.current", "1048576\n");
    assert_int_equal(ole_memory_left(data_dir), 1000 * mib);
    write_text("sys/fs/cgroup/user/job/memory.max", "104857600\n");
    assert_int_equal(ole_memory_left(data_dir), 99 * mib);
    write_text("sys/fs/cgroup/user/memory.max", "20971520\n");
    write_text("sys/fs/cgroup/user/memory.current", "15728640\n");
    assert_int_equal(ole_memory_left(data_dir), 5 * mib);
    write_text("sys/fs/cgroup/user/memory.stat",
               "anon 9437184\nactive_file 2097152\ninactive_file 4194304\n");
    assert_int_equal(ole_memory_left(data_dir), 11 * mib);
    write_text("proc/meminfo", "MemAvailable: 1024000 kB\nSwapFree: 8192 kB\n");
    assert_int_equal(ole_memory_left(data_dir), 19 * mib);
    write_text("sys/fs/cgroup/user/memory.swap.max", "3145728\n");
    write_text("sys/fs/cgroup/user/memory.swap.current", "1048576\n");
    assert_int_equal(ole_memory_left(data_dir), 13 * mib);
    write_text("sys/fs/cgroup/user/memory.swap.max", "0\n");
    assert_int_equal(ole_memory_left(data_dir), 11 * mib);
    write_text("sys/fs/cgroup/user/memory.max", "1048576\n"); /* lowered since */
    assert_int_equal(ole_memory_left(data_dir), 0);
}

static void test_older_groups(void **state) {
    (void)state;
    write_text("proc/self/cgroup", "5:cpu,cpuacct:/small\n4:memory:/host/path\n0::/\n");
    write_text("sys/fs/cgroup/memory/memory.limit_in_bytes", "104857600\n"); /* a container's */
    write_text("sys/fs/cgroup/memory/memory.usage_in_bytes", "52428800\n");
    write_text("sys/fs/cgroup/memory/memory.stat",
               "inactive_file 1\ntotal_inactive_file 1048576\ntotal_active_file 0\n");
    assert_int_equal(ole_memory_left(data_dir), 51 * mib);
    write_text("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    assert_int_equal(ole_memory_left(data_dir), 1000 * mib);
}

/* Only what the optimiser reads: none, SGD's momentum, Adam's two moments. */
static void test_moments(void **state) {
    (void)state;
    const ole_backend *backend = &ole_backend_ref;
    const ole_device_options device = {.threads = 1, .gpu = -1};
    ole_device_context *context;
    ole_graph *graph;
    ole_error error;
    size_t bytes[3], weights = 0;
    assert_ok(backend->open(&context, &device, &error), &error);
    assert_ok(ole_graph_parse(&graph, "C8[nobn]-FC5[nobn]", (ole_shape){3, 6, 6}, 4, &error),
              &error);
    for (int i = 0; i < graph->params; i++)
        weights += (size_t)graph->param[i].count * sizeof(float);
    for (int moments = 0; moments < 3; moments++) {
        ole_params *params;
        assert_ok(ole_params_create(&params, graph, backend, context, true, moments, &error),
                  &error);
        bytes[moments] = ole_params_bytes(params);
        ole_params_free(params);
    }
    assert_int_equal(bytes[1] - bytes[0], weights);
    assert_int_equal(bytes[2] - bytes[1], weights);
    ole_graph_free(graph);
    backend->close(context);
}

/* Neither is tried: nothing would be left to report it. */
static void test_too_large(void **state) {
    (void)state;
    const ole_backend *backend = &ole_backend_ref;
    const ole_device_options device = {.threads = 1, .gpu = -1};
    ole_device_context *context;
    ole_graph *graph;
    ole_params *params;
    ole_plan *plan;
    ole_error error;
    assert_ok(backend->open(&context, &device, &error), &error);
    assert_ok(ole_graph_parse(&graph, "FC65536(x1000)", (ole_shape){64, 1, 1}, 10, &error), &error);
    assert_int_equal(ole_params_create(&params, graph, backend, context, true, 2, &error),
                     OLE_ERROR_MEMORY);
    assert_null(params);
    assert_non_null(strstr(error.message, "the weights, with gradients and the optimiser's state: "
                                          "needs 6.39e+04 GiB of memory, "));
    ole_graph_free(graph);

    assert_ok(ole_graph_parse(&graph, "C64", (ole_shape){1, 512, 512}, 10, &error), &error);
    assert_ok(ole_params_create(&params, graph, backend, context, true, 2, &error), &error);
    const ole_plan_options options = {.batch = 1 << 30, .train = true};
    assert_int_equal(ole_plan_create(&plan, graph, params, backend, context, &options, &error),
                     OLE_ERROR_MEMORY);
    assert_null(plan);
    assert_non_null(strstr(error.message, "a batch of 1073741824: "));
    assert_non_null(strstr(error.message, " GiB are free: use a smaller batch (--batch-size)"));
    assert_non_null(strstr(error.message, "; OLE_MEMORY_CHECK=off tries it anyway"));

    const size_t much = (size_t)1 << 60;
    assert_int_equal(ole_memory_check(much, "it", "do", &error), OLE_ERROR_MEMORY);
    setenv("OLE_MEMORY_CHECK", "off", 1);
    assert_ok(ole_memory_check(much, "it", "do", &error), &error);
    unsetenv("OLE_MEMORY_CHECK");
    ole_params_free(params);
    ole_graph_free(graph);
    backend->close(context);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_machine, write_machine),
        cmocka_unit_test_setup(test_groups, write_machine),
        cmocka_unit_test_setup(test_older_groups, write_machine),
        cmocka_unit_test(test_moments),
        cmocka_unit_test(test_too_large),
    };
    return cmocka_run_group_tests(tests, data_dir_make, data_dir_remove);
}
