/*
 * tests/unit/loss/test_loss_cuda.c - the loss on a GPU against LAPACK in double over shapes,
 * structures, types, scales and sizes, held to the promises of include/ole/loss.h.  Skipped, with
 * the reason, where there is no GPU.
 */
#include "gpu_loss.h"

#include <inttypes.h>

static int cases_run, gradients_checked;

typedef struct promise {
    double value, gradient, condition; /* the condition up to which the gradient's is given */
} promise;

static promise promise_of(ole_dtype dtype) {
    return dtype == OLE_F64 ? (promise){1e-12, 1e-9, 1e5} : (promise){1e-6, 1e-5, 1e10};
}

/* What rounding the gradient to its type adds: half a unit of its last place, of elements <= 2. */
static double rounding_of(ole_dtype dtype) {
    return dtype == OLE_BF16 ? 0x1p-8 : (dtype == OLE_F16 ? 0x1p-11 : 0.0);
}

static void describe(char *text, size_t size, const gpu_batch *b, const char *structure) {
    snprintf(text, size, "%" PRId64 " x %" PRId64 ", %s, %s%s%s", b->rows, b->dim, structure,
             ole_dtype_name(b->dtype), b->pad ? ", padded" : "",
             b->accumulate ? ", accumulating" : "");
}

static void check_value(const gpu_loss *c, const char *text, const reference_loss *want) {
    const ole_loss_outcome *got = &c->outcome;
    double bound = promise_of(c->batch->dtype).value * want->sum_of_norms;
    double error =
        fabs((got->class_term - got->global_norm) - (want->class_term - want->global_norm));
    if (!(error <= bound)) fail_msg("%s: value error %g, promised %g", text, error, bound);
    assert_int_equal(got->rows, want->rows);
    assert_int_equal(got->classes, want->classes);
    assert_int_equal(got->bad_row, -1);
    double value = c->batch->options.weight * (got->class_term - got->global_norm);
    if (c->batch->options.reduction == OLE_REDUCTION_MEAN) value /= (double)want->rows;
    if (!(fabs(got->value - value) <= 1e-14 * fabs(value)))
        fail_msg("%s: value %.17g is not that of its terms, %.17g", text, got->value, value);
}

static void check_gradient(const gpu_loss *c, const char *text, const reference_loss *want) {
    const gpu_batch *b = c->batch;
    promise promised = promise_of(b->dtype);
    if (!want->clear || want->condition >= promised.condition) return;
    if (c->outcome.rank != want->rank)
        fail_msg("%s: rank %" PRId64 ", not %" PRId64, text, c->outcome.rank, want->rank);
    double n = (double)want->rows, square = 0.0, most = 0.0;
    double factor = b->options.weight * b->upstream;
    if (b->options.reduction == OLE_REDUCTION_MEAN) factor /= n;
    for (int64_t i = 0; i < b->rows * b->dim; i++) {
        double before = b->accumulate ? CARD_BEFORE : 0.0;
        bool ignored = b->labels[i / b->dim] < 0;
        if (ignored && c->gradient[i] != before) fail_msg("%s: an ignored row", text);
        double d = (c->gradient[i] - before) / factor - want->gradient[i];
        square += d * d;
        most = fmax(most, fabs(c->gradient[i]));
    }
    double size = b->dtype == OLE_F32 ? 0x1p-24 : (b->dtype == OLE_F64 ? 0x1p-53 : 0.0);
    double rounding = (rounding_of(b->dtype) + size) * most / fabs(factor);
    double bound = promised.gradient * sqrt(n) + rounding * sqrt(n * (double)b->dim);
    if (!(sqrt(square) <= bound))
        fail_msg("%s: gradient error %g, promised %g", text, sqrt(square), bound);
    gradients_checked++;
}

static void run_case(gpu_batch *b, const char *structure) {
    char text[200];
    describe(text, sizeof text, b, structure);
    gpu_loss c = gpu_open(b);
    reference_loss want =
        reference_evaluate(b->x, b->labels, b->rows, b->dim, &b->options, b->dtype != OLE_F64);
    gpu_queue(&c);
    gpu_receive(&c);
    check_value(&c, text, &want);
    check_gradient(&c, text, &want);
    cases_run++;
    free(want.gradient);
    gpu_close(&c);
    gpu_batch_free(b);
}

/* The ways a batch can be handed over, by the bits of `seed`. */
static void vary(gpu_batch *b, uint64_t seed) {
    b->pad = seed % 3 == 0 ? 5 : 0;
    b->more_rows = seed % 4 == 1 ? 70 : 0;
    b->accumulate = seed % 7 == 2;
    b->narrow_labels = seed % 2 == 0;
    b->upstream = seed % 5 == 3 ? -0.25 : 1.0;
    b->options.weight = seed % 6 == 4 ? 0.5 : 1.0;
    b->options.reduction = seed % 11 == 6 ? OLE_REDUCTION_SUM : OLE_REDUCTION_MEAN;
    for (int64_t i = 1; i < b->rows && seed % 5 == 0 && b->rows > 2; i += 3)
        b->labels[i] = -1 - i;
}

static const int64_t shapes[][3] = {
    {1, 1, 1},    {1, 7, 1},    {2, 2, 2},      {3, 1, 2},    {5, 3, 1},    {8, 8, 8},
    {9, 40, 3},   {16, 16, 2},  {17, 300, 1},   {26, 97, 26}, {31, 33, 4},  {33, 31, 4},
    {40, 513, 2}, {50, 8, 5},   {64, 128, 10},  {64, 64, 1},  {65, 64, 3},  {64, 65, 2},
    {65, 66, 1},  {70, 300, 2}, {130, 20, 130}, {96, 160, 4}, {160, 96, 2}, {200, 64, 7},
};

enum { SHAPES = sizeof shapes / sizeof *shapes };

static void grid(void **state) {
    (void)state;
    uint64_t seed = 1;
    for (int s = 0; s < SHAPES; s++)
        for (int structure = 0; structure < CASE_STRUCTURES; structure++)
            for (int dtype = OLE_F32; dtype <= OLE_F64; dtype++, seed++) {
                gpu_batch b = gpu_batch_make(shapes[s], structure, dtype, 1.0, seed);
                vary(&b, seed);
                run_case(&b, case_name(structure));
            }
}

static void narrow_types(void **state) {
    (void)state;
    static const int64_t some[][3] = {{12, 40, 3}, {64, 100, 8}, {40, 12, 2}, {90, 130, 3}};
    static const case_structure structures[] = {CASE_NORMAL, CASE_RELU, CASE_LOW_RANK,
                                                CASE_DUPLICATES, CASE_ZERO_ROWS};
    uint64_t seed = 3000;
    for (int s = 0; s < 4; s++)
        for (int k = 0; k < 5; k++)
            for (int dtype = OLE_F16; dtype <= OLE_BF16; dtype++, seed++) {
                gpu_batch b = gpu_batch_make(some[s], structures[k], dtype, 1.0, seed);
                vary(&b, seed);
                b.accumulate = false; /* 3 + a small number is lost in so few bits */
                run_case(&b, case_name(structures[k]));
            }
}

static void authors_rule(void **state) {
    (void)state;
    uint64_t seed = 6000;
    for (int s = 0; s < SHAPES; s++)
        for (int structure = 0; structure < CASE_STRUCTURES; structure++) {
            gpu_batch b = gpu_batch_make(shapes[s], structure, OLE_F32, 1.0, seed++);
            b.options.delta_rel = 0.0;
            run_case(&b, case_name(structure));
        }
}

/* Every direction that float64 can tell counts, however weak. */
static void delicate(void **state) {
    (void)state;
    static const int64_t weak[][3] = {{12, 12, 2},  {40, 70, 3},   {70, 40, 2},
                                      {64, 300, 1}, {130, 150, 1}, {150, 140, 2}};
    static const case_structure structures[] = {CASE_SPREAD, CASE_NEARLY_LOW, CASE_GAP};
    uint64_t seed = 8000;
    for (int s = 0; s < 6; s++)
        for (int pick = 0; pick < 3; pick++) {
            gpu_batch b = gpu_batch_make(weak[s], structures[pick], OLE_F32, 1e3, seed++);
            b.options.delta_rel = 0.0;
            b.options.delta_abs = 0.0;
            run_case(&b, case_name(structures[pick]));
        }
}

static void scales(void **state) {
    (void)state;
    static const double narrow[] = {1e-20, 1e15, 1e-30, 3e30}, wide[] = {1e-150, 1e150, 1e-300};
    static const int64_t some[][3] = {{24, 40, 4}, {90, 80, 2}};
    uint64_t seed = 5000;
    for (int s = 0; s < 2; s++)
        for (int structure = 0; structure < CASE_STRUCTURES; structure++)
            for (int k = 0; k < 7; k++, seed++) {
                double scale = k < 4 ? narrow[k] : wide[k - 4];
                ole_dtype dtype = k < 4 ? OLE_F32 : OLE_F64;
                gpu_batch b = gpu_batch_make(some[s], structure, dtype, scale, seed);
                b.options.delta_abs = 0.0;
                run_case(&b, case_name(structure));
            }
}

static void larger(void **state) {
    (void)state;
    static const int64_t large[][3] = {{256, 512, 10}, {700, 300, 3}, {300, 700, 3},
                                       {512, 512, 4},  {129, 700, 1}, {1024, 512, 100}};
    static const case_structure structures[] = {CASE_RELU, CASE_NEARLY_LOW, CASE_SPREAD,
                                                CASE_DUPLICATES};
    uint64_t seed = 7000;
    for (int s = 0; s < 6; s++)
        for (int pick = 0; pick < 4; pick++) {
            gpu_batch b = gpu_batch_make(large[s], structures[pick], OLE_F32, 1.0, seed++);
            run_case(&b, case_name(structures[pick]));
        }
    gpu_batch wide = gpu_batch_make(large[1], CASE_RELU, OLE_F64, 1.0, seed);
    run_case(&wide, "relu");
}

static void enough_was_checked(void **state) {
    (void)state;
    gpu_table("ole_cuda_loss");
    printf("%d cases, %d gradients held to their bound\n", cases_run, gradients_checked);
    assert_true(gradients_checked >= 400);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(grid),
        cmocka_unit_test(narrow_types),
        cmocka_unit_test(authors_rule),
        cmocka_unit_test(delicate),
        cmocka_unit_test(scales),
        cmocka_unit_test(larger),
        cmocka_unit_test(enough_was_checked),
    };
    gpu_filter(argc, argv);
    return cmocka_run_group_tests_name("loss_cuda", tests, NULL, NULL);
}
