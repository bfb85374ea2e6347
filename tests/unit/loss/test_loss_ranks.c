/*
 * tests/unit/loss/test_loss_ranks.c - the loss of a batch over ranks against LAPACK in double and
 * against the same batch in one place: shapes, structures, cuts, routes, held to the promises of
 * include/ole/loss.h.
 */
#include "ranks_loss_run.h"
#include "reference.h"
#include "test.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static int batches, gradients;

/* ---- one batch ------------------------------------------------------------------------------ */

static void describe(char *text, size_t size, const ranks_loss_run *run, case_structure structure) {
    const fixture *f = run->f;
    int used = snprintf(text, size, "%" PRId64 " x %" PRId64 " %s, %s, rows", f->rows, f->dim,
                        case_name(structure), ranks_loss_route_name(run->route));
    for (int r = 0; r < run->size; r++)
        used += snprintf(text + used, size - (size_t)used, " %" PRId64, run->rank[r].batch.rows);
}

/* The same result on every rank, bit for bit. */
static void check_same(const ranks_loss_run *run, const char *text) {
    const ranks_loss_rank *first = &run->rank[0];
    for (int r = 0; r < run->size; r++) {
        const ranks_loss_rank *me = &run->rank[r];
        if (me->status != OLE_OK) fail_msg("%s: rank %d: %s", text, r, me->error.message);
        ole_loss_result a = first->result, b = me->result;
        a.per_class = b.per_class = NULL;
        size_t bytes = (size_t)a.classes * sizeof *first->classes;
        if (memcmp(&a, &b, sizeof a) != 0 || memcmp(first->classes, me->classes, bytes) != 0)
            fail_msg("%s: rank %d got another result than rank 0", text, r);
        assert_int_equal(me->taken, first->taken);
    }
}

static double difference(const ole_loss_result *result) {
    return result->class_term - result->global_norm;
}

/* Against LAPACK, as promised. */
static void check_promise(const ranks_loss_run *run, const reference_loss *want, const char *text) {
    const fixture *f = run->f;
    const ole_loss_result *got = &run->rank[0].result;
    double off = fabs(difference(got) - (want->class_term - want->global_norm));
    if (!(off <= 1e-6 * want->sum_of_norms))
        fail_msg("%s: value off by %g, promised %g", text, off, 1e-6 * want->sum_of_norms);
    assert_int_equal(got->rows, want->rows);
    assert_int_equal(got->classes, want->classes);
    if (!want->clear || want->condition >= 1e10) return;
    if (got->rank != want->rank)
        fail_msg("%s: rank %" PRId64 ", not %" PRId64, text, got->rank, want->rank);
    double square = 0.0, n = (double)want->rows;
    for (int64_t i = 0; i < f->count; i++) {
        double d = (double)run->gradient[i] * n - want->gradient[i];
        square += d * d;
    }
    if (!(sqrt(square) <= 1e-5 * sqrt(n)))
        fail_msg("%s: gradient off by %g, promised %g", text, sqrt(square), 1e-5 * sqrt(n));
    gradients++;
}

/* Against one place: the same bits where the same code runs, 1e-10 where only sums differ. */
static void check_one_place(const ranks_loss_run *run, const fixture *one, const char *text) {
    const ole_loss_result *got = &run->rank[0].result, *want = &one->result;
    if (run->rank[0].taken == OLE_RANKS_LOSS_EVERYWHERE) {
        size_t bytes = (size_t)one->count * sizeof(float);
        if (got->value != want->value || got->global_norm != want->global_norm ||
            memcmp(run->gradient, one->raw, bytes) != 0)
            fail_msg("%s: other bits than in one place", text);
    }
    double scale = want->class_term;
    if (!(fabs(got->class_term - want->class_term) <= 1e-10 * scale) ||
        !(fabs(got->global_norm - want->global_norm) <= 1e-10 * scale))
        fail_msg("%s: terms %.17g, %.17g are not those of one place, %.17g, %.17g", text,
                 got->class_term, got->global_norm, want->class_term, want->global_norm);
}

static void check_batch(fixture *f, int size, const int64_t *rows, ole_ranks_loss_route route,
                        case_structure structure, const reference_loss *want) {
    char text[300];
    ranks_loss_run run = ranks_loss_make(f, size, route);
    if (rows) ranks_loss_cut(&run, rows);
    describe(text, sizeof text, &run, structure);
    ranks_loss_evaluate(&run);
    check_same(&run, text);
    check_promise(&run, want, text);
    check_one_place(&run, f, text);
    batches++;
    ranks_loss_free(&run);
}

/* ---- grids ---------------------------------------------------------------------------------- */

/* N < D, N = D, N > D; classes smaller and larger than D; one class, one sample per class. */
static const int64_t shapes[][3] = {
    {1, 1, 1},   {4, 7, 1},    {2, 2, 2},     {9, 1, 2},     {12, 12, 12}, {9, 40, 3},
    {13, 30, 2}, {33, 31, 4},  {50, 8, 5},    {60, 12, 2},   {40, 12, 1},  {64, 20, 40},
    {90, 70, 2}, {160, 16, 3}, {170, 150, 2}, {300, 140, 2},
};
enum { SHAPES = sizeof shapes / sizeof *shapes };

/* Rows of each rank at random, some of them none. */
static void random_cut(int64_t *rows, int size, int64_t total, test_random *random) {
    memset(rows, 0, (size_t)size * sizeof *rows);
    for (int64_t left = total; left > 0;) {
        int64_t take = 1 + random_below(random, left);
        rows[random_below(random, size)] += take;
        left -= take;
    }
}

/* All ways of one fixture: every number of ranks, every route. */
static void check_fixture(fixture *f, case_structure structure, uint64_t seed) {
    test_random random = {seed};
    int64_t rows[ACROSS_RANKS];
    fixture_evaluate(f);
    reference_loss want = reference_evaluate(f->x, f->labels, f->rows, f->dim, &f->options, true);
    for (int size = 1; size <= ACROSS_RANKS; size++)
        for (int route = OLE_RANKS_LOSS_AUTO; route <= OLE_RANKS_LOSS_GRAM; route++) {
            random_cut(rows, size, f->rows, &random);
            check_batch(f, size, rows, (ole_ranks_loss_route)route, structure, &want);
        }
    free(want.gradient);
}

static void grid(void **state) {
    (void)state;
    uint64_t seed = 1;
    for (int s = 0; s < SHAPES; s++)
        for (int structure = 0; structure < CASE_STRUCTURES; structure++, seed++) {
            if (SANITIZED && seed % 5 != 0) continue;
            fixture f = fixture_make(shapes[s][0], shapes[s][1], shapes[s][2],
                                     (case_structure)structure, OLE_F32, seed);
            if (seed % 3 == 0 && f.rows > 4) f.labels[1] = f.labels[f.rows - 1] = -1;
            if (seed % 4 == 0) f.options.delta_floor = 0.0;
            check_fixture(&f, (case_structure)structure, seed);
            fixture_free(&f);
        }
}

/* Weak directions that the authors' rule keeps: they are cleared of the strong ones on the way. */
static void delicate(void **state) {
    (void)state;
    static const int64_t weak[][3] = {{40, 12, 2}, {70, 40, 1}, {150, 40, 3}};
    static const case_structure structures[] = {CASE_SPREAD, CASE_NEARLY_LOW, CASE_GAP};
    for (int s = 0; s < 9; s++) {
        fixture f = fixture_make(weak[s / 3][0], weak[s / 3][1], weak[s / 3][2], structures[s % 3],
                                 OLE_F32, 700 + (uint64_t)s);
        f.options.delta_rel = 0.0;
        for (int64_t i = 0; i < f.count; i++)
            f.x[i] *= 1e3;
        fixture_load(&f);
        check_fixture(&f, structures[s % 3], 800 + (uint64_t)s);
        fixture_free(&f);
    }
}

/* Hundreds of small batches: random shapes, labels, structures, thresholds, cuts, routes. */
static void random_batches(void **state) {
    (void)state;
    test_random random = {4711};
    for (int b = 0; b < (SANITIZED ? 100 : 400); b++) {
        case_structure structure = (case_structure)random_below(&random, CASE_STRUCTURES);
        int64_t n = 1 + random_below(&random, 60), dim = 1 + random_below(&random, 24);
        fixture f = fixture_make(n, dim, 1 + random_below(&random, 6), structure, OLE_F32,
                                 10000 + (uint64_t)b);
        case_labels(f.labels, n, 1 + random_below(&random, 6), &random);
        for (int64_t i = 1; i < n; i++)
            if (random_below(&random, 10) == 0) f.labels[i] = -1 - random_below(&random, 3);
        f.options.delta_floor = (double)random_below(&random, 3);
        fixture_evaluate(&f);
        reference_loss want = reference_evaluate(f.x, f.labels, f.rows, f.dim, &f.options, true);
        int64_t rows[ACROSS_RANKS];
        int size = 2 + (int)random_below(&random, ACROSS_RANKS - 1);
        random_cut(rows, size, n, &random);
        check_batch(&f, size, rows, (ole_ranks_loss_route)random_below(&random, 4), structure,
                    &want);
        free(want.gradient);
        fixture_free(&f);
    }
}

/* ---- particular cuts ------------------------------------------------------------------------ */

/* All rows on one rank; each class on a rank of its own; a rank whose rows are all ignored. */
static void cuts(void **state) {
    (void)state;
    static const int64_t cut[][4] = {
        {48, 0, 0, 0}, {0, 0, 0, 48}, {0, 24, 24, 0}, {12, 12, 12, 12}, {1, 1, 1, 45}};
    for (int s = 0; s < 5; s++)
        for (int ignored = 0; ignored < 2; ignored++) {
            fixture f = fixture_make(48, 10, 4, CASE_RELU, OLE_F32, 60 + (uint64_t)s);
            for (int64_t i = 0; i < 48; i++)
                f.labels[i] = i / 12;
            for (int64_t i = 0; i < 12 && ignored; i++)
                f.labels[i] = -1;
            fixture_evaluate(&f);
            reference_loss want =
                reference_evaluate(f.x, f.labels, f.rows, f.dim, &f.options, true);
            for (int route = OLE_RANKS_LOSS_AUTO; route <= OLE_RANKS_LOSS_GRAM; route++)
                check_batch(&f, 4, cut[s], (ole_ranks_loss_route)route, CASE_RELU, &want);
            free(want.gradient);
            fixture_free(&f);
        }
}

static void enough_was_checked(void **state) {
    (void)state;
    printf("%d batches, %d gradients held to their bound\n", batches, gradients);
    assert_true(batches >= (SANITIZED ? 750 : 3000));
    assert_true(gradients >= (SANITIZED ? 550 : 2500));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(grid),
        cmocka_unit_test(delicate),
        cmocka_unit_test(random_batches),
        cmocka_unit_test(cuts),
        cmocka_unit_test(enough_was_checked),
    };
    return cmocka_run_group_tests_name("loss_ranks", tests, NULL, NULL);
}
