/*
 * tests/unit/loss/test_loss_authors.c - the authors' rule (δ_rel = 0, δ_abs = 1e-6, Δ = 1) against
 * values recorded with SciPy: tests/recorded/authors_rule.py makes the numbers and says how.
 */
#include "fixture.h"
#include "test.h"

enum { RANDOM, LOW_RANK, DUPLICATES, UNEVEN, ZERO };

typedef struct recorded_case {
    const char *name;
    int structure;
    int rows, dim, classes;
    double scale;
    double value, global_norm;
    int rank;
    double checksum;   /* sum of gradient[i, j] * weight_of(i, j) */
    double size;       /* the gradient's Frobenius norm */
    double corners[2]; /* its first and its last element */
    struct {
        double norm;
        int rank;
    } per_class[16];
} recorded_case;

#include "../../recorded/authors_rule.h"

enum { CASES = sizeof recorded / sizeof *recorded };

/* ---- the features, as the script makes them ------------------------------------------------- */

static int below(uint64_t *state, int n) {
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (int)((*state >> 33) % (uint64_t)n);
}

static void fill_low_rank(const recorded_case *c, double *x, uint64_t *state) {
    int left[64][3], right[3][64];
    for (int i = 0; i < c->rows; i++)
        for (int s = 0; s < 3; s++)
            left[i][s] = below(state, 7) - 3;
    for (int s = 0; s < 3; s++)
        for (int j = 0; j < c->dim; j++)
            right[s][j] = below(state, 7) - 3;
    for (int i = 0; i < c->rows; i++)
        for (int j = 0; j < c->dim; j++)
            for (int s = 0; s < 3; s++)
                x[i * c->dim + j] += left[i][s] * right[s][j];
}

static void fill(const recorded_case *c, double *x, uint64_t seed) {
    uint64_t state = seed;
    if (c->structure == LOW_RANK) fill_low_rank(c, x, &state);
    if (c->structure == LOW_RANK || c->structure == ZERO) return;
    for (int i = 0; i < c->rows * c->dim; i++)
        x[i] = (below(&state, 129) - 64) / 64.0;
    for (int i = 0; i < c->rows; i++)
        for (int j = 0; j < c->dim; j++) {
            double *at = &x[i * c->dim + j];
            if (c->structure == DUPLICATES && i % 2) *at = x[i / 2 * c->dim + j];
            if (c->structure == UNEVEN && i % 6 < 3) *at /= 64.0;
            *at *= c->scale;
        }
}

static double weight_of(int i, int j) {
    return (i * 7 + j * 5 + i * j) % 17 - 8;
}

/* ---- the checks ----------------------------------------------------------------------------- */

static void assert_close(const recorded_case *c, const char *what, double got, double want,
                         double bound) {
    if (!(fabs(got - want) <= bound))
        fail_msg("%s: %s is %.17g, recorded %.17g", c->name, what, got, want);
}

static void check_gradient(const recorded_case *c, const fixture *f) {
    double sum = 0.0, n = c->rows, bound = fixture_gradient_bound(f) / n;
    for (int i = 0; i < c->rows; i++)
        for (int j = 0; j < c->dim; j++)
            sum += f->gradient[i * c->dim + j] * weight_of(i, j);
    assert_close(c, "checksum", sum, c->checksum, bound * 8.0 * sqrt(n * c->dim));
    assert_close(c, "size", sqrt(inner(f->gradient, f->gradient, f->count)), c->size, bound);
    assert_close(c, "first element", f->gradient[0], c->corners[0], bound);
    assert_close(c, "last element", f->gradient[f->count - 1], c->corners[1], bound);
}

static void check(const recorded_case *c, ole_dtype dtype, uint64_t seed) {
    fixture f = fixture_make(c->rows, c->dim, c->classes, CASE_ZERO, dtype, 1);
    f.options.delta_rel = 0.0;
    fill(c, f.x, seed);
    fixture_evaluate(&f);
    double bound = fixture_value_bound(&f), n = c->rows;
    assert_close(c, "value", f.result.value, c->value, bound / n + 1e-15);
    assert_close(c, "global norm", f.result.global_norm, c->global_norm, bound);
    assert_int_equal(f.result.rank, c->rank);
    assert_int_equal(f.result.classes, c->classes);
    for (int k = 0; k < c->classes; k++) {
        assert_close(c, "class norm", f.class[k].norm, c->per_class[k].norm, bound);
        assert_int_equal(f.class[k].rank, c->per_class[k].rank);
    }
    check_gradient(c, &f);
    fixture_free(&f);
}

static void narrow(void **state) {
    (void)state;
    for (uint64_t i = 0; i < CASES; i++)
        check(&recorded[i], OLE_F32, i + 1);
}

static void wide(void **state) {
    (void)state;
    for (uint64_t i = 0; i < CASES; i++)
        check(&recorded[i], OLE_F64, i + 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(narrow),
        cmocka_unit_test(wide),
    };
    return cmocka_run_group_tests_name("loss_authors", tests, NULL, NULL);
}
