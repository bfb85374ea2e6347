/*
 * tests/unit/ranks/test_ranks.c - groups of ranks that are threads, and one rank alone: every
 * function, and how things are parted.  The same checks run over MPI in tests/cli/ranks.py.
 */
#include "ranks_checks.h"
#include "test.h"
#include "thread_ranks.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 4 };

typedef struct member {
    ole_ranks *ranks;
    bool check;
    const char *wrong;
    uint64_t bits;
} member;

static void *check_member(void *argument) {
    member *m = argument;
    if (m->check) m->wrong = check_ranks(m->ranks);
    m->bits = ranks_sum_bits(m->ranks);
    ole_ranks_close(m->ranks);
    return NULL;
}

static void run_threads(int size, bool check, member members[MOST]) {
    ole_ranks *groups[MOST];
    pthread_t threads[MOST];
    ole_error error;
    assert_ok(thread_ranks(groups, size, &error), &error);
    for (int r = 0; r < size; r++) {
        assert_int_equal(groups[r]->rank, r);
        assert_int_equal(groups[r]->on_host, r);
        assert_int_equal(groups[r]->ranks_on_host, size);
        assert_true(groups[r]->host[0]);
        members[r] = (member){.ranks = groups[r], .check = check};
        assert_int_equal(pthread_create(&threads[r], NULL, check_member, &members[r]), 0);
    }
    for (int r = 0; r < size; r++)
        pthread_join(threads[r], NULL);
}

static void threads_as_ranks(void **state) {
    (void)state;
    for (int size = 1; size <= MOST; size++) {
        member first[MOST], again[MOST];
        run_threads(size, true, first);
        run_threads(size, false, again);
        for (int r = 0; r < size; r++) {
            if (first[r].wrong) fail_msg("rank %d of %d: %s", r, size, first[r].wrong);
            assert_true(first[r].bits == first[0].bits);
            assert_true(first[r].bits == again[r].bits);
        }
    }
}

static void one_alone(void **state) {
    (void)state;
    const char *wrong = check_ranks(NULL);
    if (wrong) fail_msg("%s", wrong);
    assert_int_equal(ole_ranks_rank(NULL), 0);
    assert_int_equal(ole_ranks_size(NULL), 1);
    assert_null(ole_ranks_part(NULL, 1));
    ole_ranks_fail(NULL, "nobody hears it");
    ole_ranks_close(NULL);
}

static void parts_cover_everything(void **state) {
    (void)state;
    ole_ranks group = {.size = 3};
    static const int64_t counts[] = {0, 1, 2, 3, 4, 1000, INT64_MAX};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        assert_true(ole_ranks_first(&group, counts[i], 0) == 0);
        assert_true(ole_ranks_first(&group, counts[i], 3) == counts[i]);
        for (int r = 0; r < 3; r++) {
            int64_t part =
                ole_ranks_first(&group, counts[i], r + 1) - ole_ranks_first(&group, counts[i], r);
            assert_true(part == counts[i] / 3 || part == counts[i] / 3 + 1);
        }
        assert_true(ole_ranks_first(NULL, counts[i], 1) == counts[i]);
    }
}

/* What launchers tell a process: its number and how many there are. */
static void launchers(void **state) {
    (void)state;
    static const struct {
        const char *rank_name, *rank, *size_name, *size;
        bool launched;
    } cases[] = {
        {"OMPI_COMM_WORLD_RANK", "2", "OMPI_COMM_WORLD_SIZE", "4", true},
        {"OMPI_COMM_WORLD_RANK", "0", "OMPI_COMM_WORLD_SIZE", "1", false},
        {"PMI_RANK", "1", "PMI_SIZE", "3", true},
        {"MV2_COMM_WORLD_RANK", "1", "MV2_COMM_WORLD_SIZE", "2", true},
        {"PMIX_RANK", "5", "SLURM_NTASKS", "8", true},
        {"PMIX_RANK", "0", "SLURM_NTASKS", "1", false},
        {"SLURM_PROCID", "0", "SLURM_NTASKS", "8", false}, /* sbatch alone has no PMI */
        {"PMI_RANK", "1", "PMI_SIZE", "many", false},
        {"PMI_RANK", "3", "PMI_SIZE", "3", false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        setenv(cases[i].rank_name, cases[i].rank, 1);
        setenv(cases[i].size_name, cases[i].size, 1);
        assert_true(ole_ranks_launched() == cases[i].launched);
        assert_int_equal(ole_ranks_launched_rank(), cases[i].launched ? atoi(cases[i].rank) : 0);
        unsetenv(cases[i].rank_name);
        unsetenv(cases[i].size_name);
    }
    assert_false(ole_ranks_launched());
}

static void no_module(void **state) {
    (void)state;
    ole_ranks *ranks = NULL;
    ole_error error;
    setenv("OLE_MPI_MODULE", "/nowhere/libole_mpi.so", 1);
    assert_int_equal(ole_ranks_open(&ranks, NULL, &error), OLE_ERROR_UNSUPPORTED);
    assert_null(ranks);
    assert_non_null(strstr(error.message, "/nowhere/libole_mpi.so is missing"));
    assert_non_null(strstr(error.message, "build with MPI installed"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_as_ranks),
        cmocka_unit_test(one_alone),
        cmocka_unit_test(parts_cover_everything),
        cmocka_unit_test(launchers),
        cmocka_unit_test(no_module),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
