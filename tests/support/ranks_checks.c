/*
 * tests/support/ranks_checks.c - the functions of ranks/ranks.h on one group: values that each rank
 * can foretell, counts from none to several pieces of a transfer, slots in any order.
 */
#include "ranks_checks.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition)                                                                           \
    if (!(condition)) return __FILE__ ": " #condition

/* More than a piece of a large sum (mpi.c), and no multiple of the number of ranks. */
enum { MANY = 2500001 };

static const int64_t counts[] = {0, 1, 2, 5, 1000, 8193, MANY};
enum { COUNTS = sizeof counts / sizeof *counts };

/* What rank r has at i: small integers, whose sums are exact in every type. */
static double value(int r, int64_t i) {
    return (double)((i * 7 + r * 13) % 101 - 50);
}

static double value_sum(int size, int64_t i) {
    double sum = 0;
    for (int r = 0; r < size; r++)
        sum += value(r, i);
    return sum;
}

static void put(void *data, int64_t i, ole_dtype type, double x) {
    if (type == OLE_F32)
        ((float *)data)[i] = (float)x;
    else if (type == OLE_F64)
        ((double *)data)[i] = x;
    else
        ((int64_t *)data)[i] = (int64_t)x;
}

static double get(const void *data, int64_t i, ole_dtype type) {
    if (type == OLE_F32) return ((const float *)data)[i];
    if (type == OLE_F64) return ((const double *)data)[i];
    return (double)((const int64_t *)data)[i];
}

/* Memory for `count` elements and one behind them that nobody may touch. */
static void *fill(ole_ranks *ranks, int64_t count, ole_dtype type) {
    void *data = malloc(((size_t)count + 1) * ole_dtype_size(type));
    for (int64_t i = 0; data && i <= count; i++)
        put(data, i, type, value(ole_ranks_rank(ranks), i));
    return data;
}

static bool is_summed(ole_ranks *ranks, const void *data, int64_t count, ole_dtype type) {
    bool good = true;
    for (int64_t i = 0; i < count; i++)
        good = good && get(data, i, type) == value_sum(ole_ranks_size(ranks), i);
    return good && get(data, count, type) == value(ole_ranks_rank(ranks), count);
}

static const char *check_sums(ole_ranks *ranks, ole_dtype type) {
    for (int c = 0; c < COUNTS; c++) {
        void *data = fill(ranks, counts[c], type);
        CHECK(data);
        ole_ranks_sum(ranks, data, counts[c], type);
        bool good = is_summed(ranks, data, counts[c], type);
        free(data);
        CHECK(good);
    }
    return NULL;
}

/* Sums of all sizes at once, a blocking one in between, waited for from the last to the first. */
static const char *check_slots(ole_ranks *ranks) {
    void *data[OLE_RANKS_SLOTS];
    bool good = true;
    for (int round = 0; round < 2; round++) {
        for (int s = 0; s < OLE_RANKS_SLOTS; s++) {
            int64_t count = s == 3 ? MANY : counts[s % (COUNTS - 1)];
            CHECK(data[s] = fill(ranks, count, OLE_F32));
            ole_ranks_start_sum(ranks, data[s], count, OLE_F32, s);
            if (s % 5 == 0) ole_ranks_progress(ranks);
        }
        int64_t one = 1;
        ole_ranks_sum(ranks, &one, 1, OLE_I64);
        good = good && one == ole_ranks_size(ranks);
        for (int s = OLE_RANKS_SLOTS - 1; s >= 0; s--) {
            int64_t count = s == 3 ? MANY : counts[s % (COUNTS - 1)];
            ole_ranks_wait(ranks, s);
            good = good && is_summed(ranks, data[s], count, OLE_F32);
            free(data[s]);
        }
    }
    ole_ranks_wait(ranks, 0); /* nothing was started: nothing to wait for */
    CHECK(good);
    return NULL;
}

/* Rank r gives base + 3r bytes, rank 1 none. */
static int64_t gather_bytes(int r, int64_t base) {
    return r == 1 ? 0 : base + 3 * r;
}

static const char *check_gather(ole_ranks *ranks, int64_t base, bool in_place) {
    int size = ole_ranks_size(ranks), rank = ole_ranks_rank(ranks);
    int64_t bytes[64], all_bytes = 0, mine_at = 0;
    CHECK(size <= 64);
    for (int r = 0; r < size; r++) {
        bytes[r] = gather_bytes(r, base);
        if (r < rank) mine_at += bytes[r];
        all_bytes += bytes[r];
    }
    unsigned char *all = calloc(1, (size_t)all_bytes + 1);
    unsigned char *own = malloc((size_t)bytes[rank] + 1);
    CHECK(all && own);
    unsigned char *mine = in_place ? all + mine_at : own;
    memset(mine, 'a' + rank, (size_t)bytes[rank]);
    ole_ranks_gather(ranks, mine, bytes, all);
    bool good = all[all_bytes] == 0;
    const unsigned char *at = all;
    for (int r = 0; r < size; r++)
        for (int64_t i = 0; i < bytes[r]; i++)
            good = good && *at++ == 'a' + r;
    free(all);
    free(own);
    CHECK(good);
    return NULL;
}

static const char *check_broadcast(ole_ranks *ranks) {
    for (int root = 0; root < ole_ranks_size(ranks); root++)
        for (int c = 0; c < COUNTS; c++) {
            void *data = fill(ranks, counts[c], OLE_F32);
            CHECK(data);
            ole_ranks_broadcast(ranks, data, counts[c] * 4, root);
            bool good = true;
            for (int64_t i = 0; i < counts[c]; i++)
                good = good && get(data, i, OLE_F32) == value(root, i);
            good = good && get(data, counts[c], OLE_F32) == value(ole_ranks_rank(ranks), counts[c]);
            free(data);
            CHECK(good);
        }
    return NULL;
}

static const char *check_parts(ole_ranks *ranks) {
    for (int count = 1; ranks && count <= ranks->size; count++) {
        ole_ranks *part = ole_ranks_part(ranks, count);
        CHECK((part != NULL) == (ranks->rank < count));
        if (!part) continue;
        CHECK(part->rank == ranks->rank && part->size == count);
        const char *wrong = check_sums(part, OLE_F64);
        if (!wrong) wrong = check_gather(part, 100, false);
        ole_ranks_close(part);
        if (wrong) return wrong;
    }
    return NULL;
}

uint64_t ranks_sum_bits(ole_ranks *ranks) {
    enum { COUNT = 20000 };
    uint64_t bits = 0;
    for (int64_t count = 1; count <= COUNT; count *= 140) {
        float *data = malloc((size_t)count * sizeof *data);
        if (!data) return 0;
        for (int64_t i = 0; i < count; i++)
            data[i] = sinf((float)(i + 1) * (float)(1 + 17 * ole_ranks_rank(ranks))) *
                      powf(10, (float)(ole_ranks_rank(ranks) % 3));
        ole_ranks_sum(ranks, data, count, OLE_F32);
        for (int64_t i = 0; i < count; i++) {
            uint32_t word;
            memcpy(&word, &data[i], sizeof word);
            bits = (bits ^ word) * UINT64_C(1099511628211);
        }
        free(data);
    }
    return bits;
}

/* The same bits everywhere: as 64-bit words, gathered. */
static const char *check_bits(ole_ranks *ranks) {
    uint64_t mine = ranks_sum_bits(ranks), all[64];
    int64_t bytes[64];
    for (int r = 0; r < ole_ranks_size(ranks); r++)
        bytes[r] = sizeof mine;
    ole_ranks_gather(ranks, &mine, bytes, all);
    for (int r = 0; r < ole_ranks_size(ranks); r++)
        CHECK(all[r] == mine);
    CHECK(ranks_sum_bits(ranks) == mine);
    return NULL;
}

const char *check_ranks(ole_ranks *ranks) {
    static const ole_dtype types[] = {OLE_F32, OLE_F64, OLE_I64};
    const char *wrong = NULL;
    for (int i = 0; i < 3 && !wrong; i++)
        wrong = check_sums(ranks, types[i]);
    if (!wrong) wrong = check_slots(ranks);
    for (int i = 0; i < 2 && !wrong; i++)
        wrong = check_gather(ranks, 7 * i, i == 1);
    /* More than one call of MPI takes. */
    if (!wrong && ranks && strcmp(ranks->table->name, "mpi") == 0)
        wrong = check_gather(ranks, 30000000, false);
    if (!wrong) wrong = check_broadcast(ranks);
    if (!wrong) wrong = check_parts(ranks);
    if (!wrong) wrong = check_bits(ranks);
    ole_ranks_barrier(ranks);
    return wrong;
}
