/*
 * tests/unit/study/test_study_ranks.c - runs shared out over ranks: job pools, ole_train() with
 * seeds, and studies give what one process alone gives, however many ranks there are, also when
 * they are stopped or one of them fails.
 */
#include "ole/train/study.h"

#include "base/error.h"
#include "run_files.h"
#include "temporary.h"
#include "test.h"
#include "thread_ranks.h"
#include "train/ranks/job_pool.h"

#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

enum { MOST = 4, RUNS = 23 };

/* ---- Ranks as threads --------------------------------------------------------------------- */

typedef struct one_rank {
    ole_ranks *ranks;
    void (*work)(struct one_rank *);
    void *context; /* of all */
    ole_status status;
    ole_error error;
    bool stopped;
    ole_study_result study;
    ole_train_summary summary;
} one_rank;

static void *enter(void *context) {
    one_rank *r = context;
    r->work(r);
    ole_ranks_close(r->ranks);
    return NULL;
}

static void run_ranks(one_rank *ranks, int size, void (*work)(one_rank *), void *context) {
    ole_ranks *groups[MOST];
    pthread_t threads[MOST];
    ole_error error;
    assert_ok(thread_ranks(groups, size, &error), &error);
    for (int r = 0; r < size; r++) {
        ranks[r] = (one_rank){.ranks = groups[r], .work = work, .context = context};
        assert_int_equal(pthread_create(&threads[r], NULL, enter, &ranks[r]), 0);
    }
    for (int r = 0; r < size; r++)
        pthread_join(threads[r], NULL);
}

static int clear(void **state) {
    (void)state;
    temporary_each(run_remove);
    return 0;
}

static const char *folder(const char *name, int number) {
    static char paths[8][400];
    static int next;
    char *path = paths[next++ % 8];
    snprintf(path, 400, "%s/%s-%d", temporary_dir, name, number);
    return path;
}

static void assert_says(const char *message, const char *part) {
    if (!strstr(message, part)) fail_msg("'%s' is not in '%s'", part, message);
}

/* ---- Crews -------------------------------------------------------------------------------- */

typedef struct board {
    atomic_int done[RUNS];         /* times that a run was done */
    int64_t heard[MOST][RUNS];     /* what each rank heard it left */
    int by[RUNS];                  /* the rank that did it */
    int jobs, slow;                /* slow: a rank whose runs take long, or -1 */
    int64_t fails, stops, refuses; /* run numbers, or -1; refuses: rank 0 does not take it */
    atomic_int at_once[MOST], most_at_once;
} board;

/* What a pool's context is on one rank. */
typedef struct member {
    board *board;
    int rank;
} member;

static ole_status do_run(void *context, ole_job_pool *pool, int64_t number, void *result,
                         bool *stopped, ole_error *error) {
    const member *m = context;
    board *b = m->board;
    int here = atomic_fetch_add(&b->at_once[m->rank], 1) + 1;
    int most = atomic_load(&b->most_at_once);
    while (here > most && !atomic_compare_exchange_weak(&b->most_at_once, &most, here)) {
    }
    const struct timespec pause = {.tv_nsec = m->rank == b->slow ? 60000000 : 2000000};
    nanosleep(&pause, NULL);
    atomic_fetch_sub(&b->at_once[m->rank], 1);
    b->by[number] = m->rank;
    if (number == b->fails) return ole_fail(error, OLE_ERROR_IO, "run %" PRId64 " broke", number);
    if (number == b->stops) {
        ole_job_pool_lock(pool);
        ole_job_pool_stop(pool);
        ole_job_pool_unlock(pool);
        *stopped = true;
        return OLE_OK;
    }
    atomic_fetch_add(&b->done[number], 1);
    *(int64_t *)result = 100 + number;
    return OLE_OK;
}

static ole_status hear(void *context, ole_job_pool *pool, int64_t number, int rank,
                       const void *result, ole_error *error) {
    const member *m = context;
    (void)pool;
    assert_int_equal(m->board->by[number], rank);
    memcpy(&m->board->heard[m->rank][number], result, sizeof(int64_t));
    if (number == m->board->refuses && m->rank == 0)
        return ole_fail(error, OLE_ERROR_IO, "no room for %" PRId64, number);
    return OLE_OK;
}

static void work_in_pool(one_rank *r) {
    int64_t order[RUNS];
    for (int64_t i = 0; i < RUNS; i++)
        order[i] = RUNS - 1 - i;
    member m = {r->context, ole_ranks_rank(r->ranks)};
    const ole_job_plan plan = {.ranks = r->ranks,
                               .order = order,
                               .count = RUNS,
                               .jobs = m.board->jobs,
                               .result_bytes = sizeof(int64_t),
                               .run = do_run,
                               .ended = hear,
                               .context = &m};
    r->status = ole_job_pool_run(&plan, &r->stopped, &r->error);
}

static board *new_board(int jobs) {
    static board b;
    b = (board){.jobs = jobs, .slow = -1, .fails = -1, .stops = -1, .refuses = -1};
    return &b;
}

/* Every run is done once, by any number of ranks and threads, and everyone hears of it. */
static void test_job_pool(void **state) {
    (void)state;
    for (int size = 1; size <= MOST; size++)
        for (int jobs = 1; jobs <= 3; jobs += 2) {
            board *b = new_board(jobs);
            one_rank ranks[MOST];
            run_ranks(ranks, size, work_in_pool, b);
            assert_true(atomic_load(&b->most_at_once) <= jobs);
            for (int r = 0; r < size; r++) {
                assert_ok(ranks[r].status, &ranks[r].error);
                assert_false(ranks[r].stopped);
                for (int i = 0; i < RUNS; i++) {
                    assert_int_equal(atomic_load(&b->done[i]), 1);
                    assert_int_equal(b->heard[r][i], 100 + i);
                }
            }
        }
}

/* A slow rank gets fewer runs than the others. */
static void test_job_pool_with_a_slow_rank(void **state) {
    (void)state;
    board *b = new_board(1);
    one_rank ranks[MOST];
    int shares[3] = {0};
    b->slow = 1;
    run_ranks(ranks, 3, work_in_pool, b);
    for (int i = 0; i < RUNS; i++)
        shares[b->by[i]]++;
    assert_true(shares[1] >= 1);
    assert_true(2 * shares[1] < shares[0] && 2 * shares[1] < shares[2]);
}

static int count_heard(const board *b, int rank) {
    int count = 0;
    for (int i = 0; i < RUNS; i++)
        count += b->heard[rank][i] != 0;
    return count;
}

/* One wish to stop ends all; what had ended by then is known to all. */
static void test_job_pool_stopped(void **state) {
    (void)state;
    board *b = new_board(1);
    one_rank ranks[MOST];
    b->stops = RUNS - 6;
    run_ranks(ranks, 3, work_in_pool, b);
    for (int r = 0; r < 3; r++) {
        assert_ok(ranks[r].status, &ranks[r].error);
        assert_true(ranks[r].stopped);
        assert_memory_equal(b->heard[r], b->heard[0], sizeof b->heard[0]);
    }
    assert_true(count_heard(b, 0) < RUNS - 1);
    for (int i = 0; i < RUNS; i++)
        assert_int_equal(b->heard[0][i] != 0, atomic_load(&b->done[i]));
}

/* An error names the rank, and is everyone's. */
static void test_job_pool_fails(void **state) {
    (void)state;
    board *b = new_board(1);
    one_rank ranks[MOST];
    char name[40];
    b->fails = RUNS - 5;
    run_ranks(ranks, 3, work_in_pool, b);
    snprintf(name, sizeof name, "rank %d (", b->by[b->fails]);
    for (int r = 0; r < 3; r++) {
        assert_int_equal(ranks[r].status, OLE_ERROR_IO);
        assert_says(ranks[r].error.message, name);
        assert_says(ranks[r].error.message, "): run 18 broke");
    }
    b = new_board(1);
    b->refuses = 4;
    run_ranks(ranks, 3, work_in_pool, b);
    for (int r = 0; r < 3; r++) {
        assert_int_equal(ranks[r].status, OLE_ERROR_IO);
        assert_says(ranks[r].error.message, "rank 0 (");
        assert_says(ranks[r].error.message, "no room for 4");
    }
}

/* ---- Agreement ---------------------------------------------------------------------------- */

static void disagree(one_rank *r) {
    int rank = ole_ranks_rank(r->ranks);
    if (*(const int *)r->context & 1 << rank)
        r->status = ole_fail(&r->error, OLE_ERROR_FORMAT, "bad on %d", rank);
    r->status = ole_ranks_agree(r->ranks, r->status, &r->error);
}

static void test_agree(void **state) {
    (void)state;
    one_rank ranks[MOST];
    for (int mask = 0; mask < 8; mask++) {
        run_ranks(ranks, 3, disagree, &mask);
        for (int r = 0; r < 3; r++) {
            assert_int_equal(ranks[r].status, mask ? OLE_ERROR_FORMAT : OLE_OK);
            if (mask == 7) assert_string_equal(ranks[r].error.message, "bad on 0");
            if (mask == 4 || mask == 6) assert_says(ranks[r].error.message, "rank ");
            if (mask == 4) assert_says(ranks[r].error.message, "): bad on 2");
            if (mask == 6) assert_says(ranks[r].error.message, "): bad on 1");
        }
    }
}

/* ---- Studies ------------------------------------------------------------------------------ */

/* A study that all ranks are asked for. */
typedef struct asked {
    ole_study_kind kind;
    const char *out;
    int64_t stop_after; /* steps of a rank after which it wants to stop; 0: never */
    int differs;        /* the rank that has another learning rate; -1: none */
    int lost;           /* the rank that does not find the data; -1: none */
    bool diverges;
} asked;

typedef struct ears {
    const asked *asked;
    int64_t steps, ends;
    int64_t last_ended;
    char message[600];
} ears;

static bool look(void *context, const ole_study_progress *p) {
    ears *e = context;
    assert_true(p->result->ended >= e->last_ended);
    e->last_ended = p->result->ended;
    e->steps += p->train != NULL;
    e->ends += p->train == NULL;
    return e->asked->stop_after && e->steps >= e->asked->stop_after;
}

static void listen(void *context, const char *text) {
    ears *e = context;
    snprintf(e->message, sizeof e->message, "%s", text);
}

static ole_train_options train_options(const char *out) {
    ole_train_options o;
    ole_train_options_init(&o);
    o.data = "digits";
    o.net = "C4-MP-FC8";
    o.out = out;
    o.device = TEST_DEVICE;
    o.samples_per_class = 6;
    o.batch_size = 32;
    o.epochs = 2;
    o.seeds = 2;
    o.threads = 1; /* bits depend on it */
    return o;
}

static void conduct(one_rank *r) {
    static const double lambdas[] = {0, 0.25, 1e30};
    static const int64_t samples[] = {3, 6};
    const asked *a = r->context;
    int rank = ole_ranks_rank(r->ranks);
    ole_train_options train = train_options(a->out);
    ears e = {.asked = a};
    if (rank == a->differs && r->ranks) train.lr = 0.05;
    if (rank == a->lost && r->ranks) train.data = "npy:nowhere.npy,y.npy";
    ole_study_options o;
    ole_study_options_init(&o);
    o.train = &train;
    o.lambdas = lambdas;
    o.lambda_count = a->diverges ? 3 : 2;
    o.samples = samples;
    o.sample_count = 2;
    o.callback = look;
    o.message = listen;
    o.callback_context = &e;
    o.ranks = r->ranks;
    r->status = (a->kind == OLE_STUDY_TUNE ? ole_tune : ole_sweep)(&o, &r->study, &r->error);
    if (r->status != OLE_OK || r->study.interrupted) return;
    if (rank == 0) assert_int_equal(e.last_ended, r->study.total);
}

static void assert_same_studies(const ole_study_result *a, const ole_study_result *b) {
    assert_int_equal(a->run_count, b->run_count);
    assert_int_equal(a->ended, b->ended);
    assert_int_equal(a->picked, b->picked);
    for (int64_t i = 0; i < a->run_count; i++) {
        const ole_study_run *x = &a->runs[i], *y = &b->runs[i];
        assert_string_equal(x->folder, y->folder);
        assert_int_equal(x->state, y->state);
        assert_true(x->knn1_error == y->knn1_error || isnan(x->knn1_error + y->knn1_error));
        assert_true(x->test_error == y->test_error || isnan(x->test_error + y->test_error));
        assert_true(x->validation_error == y->validation_error ||
                    isnan(x->validation_error + y->validation_error));
    }
}

static void assert_same_folders(const ole_study_result *study, const char *a, const char *b) {
    for (int64_t i = 0; i < study->run_count; i++) {
        char x[600], y[600];
        if (study->runs[i].state != OLE_STUDY_FINISHED) continue;
        snprintf(x, sizeof x, "%s/%s", a, study->runs[i].folder);
        snprintf(y, sizeof y, "%s/%s", b, study->runs[i].folder);
        assert_same_runs(x, y);
    }
}

static void free_all(one_rank *ranks, int size) {
    for (int r = 0; r < size; r++)
        if (ranks[r].status == OLE_OK) ole_study_result_free(&ranks[r].study);
}

/* Tuning and sweep, by 1 to 4 ranks, as by one process; one λ diverges, on any rank. */
static void test_studies(void **state) {
    (void)state;
    for (int kind = OLE_STUDY_TUNE; kind <= OLE_STUDY_SWEEP; kind++) {
        asked a = {.kind = kind, .differs = -1, .lost = -1, .diverges = kind == OLE_STUDY_TUNE};
        const char *alone = a.out = folder("alone", kind);
        one_rank one = {.context = &a}, ranks[MOST];
        conduct(&one);
        assert_ok(one.status, &one.error);
        for (int size = 1; size <= MOST; size++) {
            a.out = folder("ranks", 10 * kind + size);
            run_ranks(ranks, size, conduct, &a);
            for (int r = 0; r < size; r++) {
                assert_ok(ranks[r].status, &ranks[r].error);
                assert_same_studies(&one.study, &ranks[r].study);
            }
            assert_same_folders(&one.study, alone, a.out);
            free_all(ranks, size);
        }
        if (a.diverges) assert_int_equal(one.study.points[2].diverged, 2);
        ole_study_result_free(&one.study);
    }
}

/* Stopped again and again, and taken up by another number of ranks each time. */
static void test_stopped_anywhere(void **state) {
    (void)state;
    asked a = {.kind = OLE_STUDY_TUNE, .differs = -1, .lost = -1};
    const char *alone = a.out = folder("whole", 0);
    one_rank one = {.context = &a}, ranks[MOST];
    conduct(&one);
    assert_ok(one.status, &one.error);
    a.out = folder("stopped", 0);
    a.stop_after = 5;
    int stops = 0;
    for (bool going = true; going; stops++) {
        int size = 1 + stops % 3;
        run_ranks(ranks, size, conduct, &a);
        for (int r = 0; r < size; r++) {
            assert_ok(ranks[r].status, &ranks[r].error);
            assert_int_equal(ranks[r].study.interrupted, ranks[0].study.interrupted);
        }
        going = ranks[0].study.interrupted;
        if (!going) assert_same_studies(&one.study, &ranks[size - 1].study);
        free_all(ranks, size);
        assert_true(stops < 20);
    }
    assert_true(stops > 2);
    assert_same_folders(&one.study, alone, a.out);
    ole_study_result_free(&one.study);
}

/* What one rank cannot do, none begins. */
static void test_errors(void **state) {
    (void)state;
    asked a = {.kind = OLE_STUDY_TUNE, .differs = 2, .lost = -1, .out = folder("errors", 0)};
    one_rank ranks[MOST];
    run_ranks(ranks, 3, conduct, &a);
    for (int r = 0; r < 3; r++) {
        assert_int_equal(ranks[r].status, OLE_ERROR_ARGUMENT);
        assert_says(ranks[r].error.message, "rank 2 (");
        assert_says(ranks[r].error.message, "lr '0.1', not '0.05'");
    }
    a.differs = -1;
    a.lost = 0;
    run_ranks(ranks, 3, conduct, &a);
    for (int r = 0; r < 3; r++)
        assert_int_equal(ranks[r].status, OLE_ERROR_ARGUMENT); /* the others have other data */
    a.lost = -1;
    a.out = "/proc/study";
    run_ranks(ranks, 3, conduct, &a);
    for (int r = 0; r < 3; r++) {
        assert_int_equal(ranks[r].status, OLE_ERROR_IO);
        assert_says(ranks[r].error.message, "rank 0 (");
        assert_says(ranks[r].error.message, "/proc/study: cannot create the folder");
    }
    assert_int_equal(temporary_each(NULL), 0);
}

/* ---- Seeds -------------------------------------------------------------------------------- */

static void train(one_rank *r) {
    ole_train_options o = train_options(r->context);
    o.seeds = 3;
    o.ranks = r->ranks;
    r->status = ole_train(&o, &r->summary, &r->error);
}

static void test_seeds(void **state) {
    (void)state;
    char alone[400], spread[400];
    snprintf(alone, sizeof alone, "%s", folder("seeds", 1));
    snprintf(spread, sizeof spread, "%s", folder("seeds", 2));
    one_rank one = {.context = alone}, ranks[MOST];
    train(&one);
    assert_ok(one.status, &one.error);
    run_ranks(ranks, 2, train, spread);
    for (int r = 0; r < 2; r++) {
        assert_ok(ranks[r].status, &ranks[r].error);
        assert_int_equal(ranks[r].summary.runs, 3);
        assert_true(ranks[r].summary.test_error == one.summary.test_error);
        assert_true(ranks[r].summary.test_error_std == one.summary.test_error_std);
        assert_true(ranks[r].summary.knn1_error == one.summary.knn1_error);
    }
    for (int seed = 0; seed < 3; seed++) {
        char a[600], b[600];
        snprintf(a, sizeof a, "%s/seed-%d", alone, seed);
        snprintf(b, sizeof b, "%s/seed-%d", spread, seed);
        assert_same_runs(a, b);
    }
    run_ranks(ranks, 2, train, spread);
    for (int r = 0; r < 2; r++) {
        assert_int_equal(ranks[r].status, OLE_ERROR_ARGUMENT);
        assert_says(ranks[r].error.message, "already holds a run");
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_job_pool),
        cmocka_unit_test(test_job_pool_with_a_slow_rank),
        cmocka_unit_test(test_job_pool_stopped),
        cmocka_unit_test(test_job_pool_fails),
        cmocka_unit_test(test_agree),
        cmocka_unit_test_teardown(test_studies, clear),
        cmocka_unit_test_teardown(test_stopped_anywhere, clear),
        cmocka_unit_test_teardown(test_errors, clear),
        cmocka_unit_test_teardown(test_seeds, clear),
    };
    return cmocka_run_group_tests(tests, temporary_make, temporary_remove);
}
