/*
 * tests/unit/net/test_net_memory.c - placing tensors: those alive together never overlap, those
 * that share an alias lie together, and the block stays near its lower bound.
 */
#include "net/memory.h"
#include "random.h"
#include "test.h"

#include <stdbool.h>
#include <string.h>

enum { COUNT = 200, TIMES = 60 };

static int root_of(const ole_lifetime *t, int i) {
    while (t[i].alias >= 0)
        i = t[i].alias;
    return i;
}

static void fill_random(ole_lifetime *t, test_random *random) {
    for (int i = 0; i < COUNT; i++) {
        int first = (int)random_below(random, TIMES);
        t[i] = (ole_lifetime){.bytes = (size_t)random_below(random, 5000),
                              .first = first,
                              .last = first + (int)random_below(random, TIMES - first),
                              .alias = -1};
        /* An alias of an earlier one that ends where this one begins, as an op in place makes. */
        int other = i ? (int)random_below(random, i) : -1;
        if (other >= 0 && t[other].last == first && t[other].bytes >= t[i].bytes)
            t[i].alias = other;
    }
}

static bool overlap(size_t a, size_t a_size, size_t b, size_t b_size) {
    return a < b + b_size && b < a + a_size;
}

static void nothing_alive_overlaps(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 50; seed++) {
        test_random random = {seed};
        ole_lifetime before[COUNT], t[COUNT];
        fill_random(before, &random);
        memcpy(t, before, sizeof t);
        size_t size = ole_place_all(t, COUNT);
        for (int i = 0; i < COUNT; i++) {
            assert_true(t[i].offset % 64 == 0);
            assert_true(t[i].offset + before[i].bytes <= size);
            assert_int_equal(t[i].offset, t[root_of(t, i)].offset);
            for (int j = 0; j < i; j++) {
                bool together =
                    before[i].first <= before[j].last && before[j].first <= before[i].last;
                bool related = root_of(t, i) == root_of(t, j);
                if (!together || related || !before[i].bytes || !before[j].bytes) continue;
                assert_false(overlap(t[i].offset, before[i].bytes, t[j].offset, before[j].bytes));
            }
        }
    }
}

/* A chain, each tensor alive until the next is made: two places suffice. */
static void a_chain_takes_two(void **state) {
    (void)state;
    ole_lifetime t[10];
    for (int i = 0; i < 10; i++)
        t[i] = (ole_lifetime){640, i, i + 1, -1, 0};
    assert_int_equal(ole_place_all(t, 10), 1280);
    assert_int_equal(ole_sum_all(t, 10), 6400);
}

static void an_alias_takes_one(void **state) {
    (void)state;
    ole_lifetime t[3] = {{640, 0, 1, -1, 0}, {640, 1, 2, 0, 0}, {600, 2, 3, 1, 0}};
    assert_int_equal(ole_place_all(t, 3), 640);
    assert_int_equal(t[2].offset, t[0].offset);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_alive_overlaps),
        cmocka_unit_test(a_chain_takes_two),
        cmocka_unit_test(an_alias_takes_one),
    };
    return cmocka_run_group_tests_name("net_memory", tests, NULL, NULL);
}
