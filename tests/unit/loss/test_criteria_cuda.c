/*
 * tests/unit/loss/test_criteria_cuda.c - the criteria on a GPU against those of the CPU, on the
 * same float32 features: value, gradients, centres and counts over shapes and batches with absent,
 * zero and bad rows.  Skipped, with the reason, where there is no GPU.
 */
#include "gpu.h"
#include "loss/criteria/criterion.h"
#include "loss/criteria/cuda.h"
#include "random.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MORE_ROWS = 3 }; /* that plans on the GPU take beyond those of the batch */

/* What of a batch is out of the ordinary, as bits. */
enum { PLAIN = 0, ABSENT = 1, ZEROS = 2, EQUAL = 4, ALL_ABSENT = 8 };

/* A batch in host memory, with the results of one device. */
typedef struct batch {
    int64_t rows, dim, classes;
    uint64_t step;
    int32_t *labels;
    float *x, *w, *b;
    double *wide_x, *wide_w, *wide_b; /* the same numbers */
    double *centers, *moved;          /* before and after */
    double *dx, *dw, *db;
    double value;
    int64_t correct, bad_row;
} batch;

static void *room_for(int64_t count, size_t size) {
    void *room = calloc((size_t)count, size);
    assert_non_null(room);
    return room;
}

/* Random normal floats, also as doubles. */
static float *draw(int64_t count, test_random *random, double **wide) {
    float *to = room_for(count, sizeof *to);
    *wide = room_for(count, sizeof **wide);
    for (int64_t i = 0; i < count; i++)
        (*wide)[i] = (double)(to[i] = (float)random_normal(random));
    return to;
}

static void spoil_row(batch *b, int64_t row, const float *like) {
    for (int64_t d = 0; d < b->dim; d++)
        b->wide_x[row * b->dim + d] = (double)(b->x[row * b->dim + d] = like ? like[d] : 0.0f);
}

static batch make_batch(const int64_t shape[3], int oddities, uint64_t seed) {
    batch b = {.rows = shape[0], .dim = shape[1], .classes = shape[2], .step = 7 * seed};
    test_random random = {seed};
    b.x = draw(b.rows * b.dim, &random, &b.wide_x);
    b.w = draw(b.classes * b.dim, &random, &b.wide_w);
    b.b = draw(b.classes, &random, &b.wide_b);
    b.labels = room_for(b.rows, sizeof *b.labels);
    b.centers = room_for(b.classes * b.dim, sizeof *b.centers);
    b.moved = room_for(b.classes * b.dim, sizeof *b.moved);
    b.dx = room_for(b.rows * b.dim, sizeof *b.dx);
    b.dw = room_for(b.classes * b.dim, sizeof *b.dw);
    b.db = room_for(b.classes, sizeof *b.db);
    for (int64_t i = 0; i < b.classes * b.dim; i++)
        b.centers[i] = random_normal(&random);
    for (int64_t i = 0; i < b.rows; i++) {
        b.labels[i] = (int32_t)(seed % 2 ? (int64_t)(random_uniform(&random) * (double)b.classes)
                                         : i % b.classes);
        if (oddities & ALL_ABSENT || (oddities & ABSENT && i % 3 == 1)) b.labels[i] = -1;
    }
    for (int64_t i = 0; i < b.rows && oddities & ZEROS; i += 4)
        spoil_row(&b, i, NULL);
    for (int64_t i = 5; i < b.rows && oddities & EQUAL; i += 5)
        spoil_row(&b, i, b.x + (i - 1) * b.dim);
    return b;
}

static void free_batch(batch *b) {
    void *all[] = {b->labels, b->x,       b->w,     b->b,  b->wide_x, b->wide_w,
                   b->wide_b, b->centers, b->moved, b->dx, b->dw,     b->db};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
}

static ole_criterion_plan_options options_of(const char *name, const char *text, const batch *b) {
    ole_criterion_plan_options o = {.criterion = ole_criterion_find(name),
                                    .rows = b->rows,
                                    .dim = b->dim,
                                    .classes = b->classes};
    ole_error error;
    assert_non_null(o.criterion);
    ole_criterion_defaults(o.criterion, o.param);
    assert_ok(ole_criterion_read(o.criterion, text, o.param, &error), &error);
    return o;
}

static void run_on_cpu(batch *b, const ole_criterion_plan_options *options) {
    ole_criterion_plan *plan;
    ole_error error;
    memcpy(b->moved, b->centers, (size_t)(b->classes * b->dim) * sizeof *b->moved);
    assert_ok(ole_criterion_plan_create(&plan, options, &error), &error);
    const ole_criterion_batch given = {.rows = b->rows,
                                       .step = (int64_t)b->step,
                                       .x = b->wide_x,
                                       .labels = b->labels,
                                       .w = b->wide_w,
                                       .b = b->wide_b,
                                       .centers = b->moved};
    ole_criterion_result result = {.dx = b->dx, .dw = b->dw, .db = b->db};
    assert_ok(ole_criterion_eval(plan, &given, &result, &error), &error);
    b->value = result.value;
    b->correct = result.correct;
    ole_criterion_plan_free(plan);
}

/* ---- On the GPU --------------------------------------------------------------------------- */

typedef struct gpu {
    const ole_cuda_memory_table *memory;
    const ole_cuda_criterion_table *table;
    ole_cuda_criterion *plan;
    ole_criterion_queued in; /* device memory, like the next two */
    ole_criterion_slopes out;
    ole_criterion_outcome *outcome;
    void *stream;
} gpu;

static void *sent(const gpu *g, const void *from, int64_t count, size_t size) {
    ole_error error = {0};
    void *to = g->memory->allocate((size_t)count * size, &error);
    if (!to || (from && !g->memory->copy_in(to, from, (size_t)count * size, &error)))
        fail_msg("%s", error.message);
    return to;
}

static void fetch(const gpu *g, void *to, const void *from, int64_t count, size_t size) {
    ole_error error = {0};
    if (!g->memory->copy_out(to, from, (size_t)count * size, &error)) fail_msg("%s", error.message);
}

static gpu open_gpu(const batch *b, ole_criterion_plan_options options, ole_dtype dtype,
                    double weight) {
    gpu g = {.memory = gpu_table("ole_cuda_memory"), .table = gpu_table("ole_cuda_criterion")};
    size_t size = dtype == OLE_F64 ? sizeof(double) : sizeof(float);
    int64_t vectors = b->classes * b->dim;
    ole_error error = {0};
    options.rows += MORE_ROWS;
    assert_true(g.table->has(options.criterion->name));
    assert_ok(g.table->create(&g.plan, &options, 0, &error), &error);
    g.in = (ole_criterion_queued){.rows = b->rows,
                                  .step = sent(&g, &b->step, 1, sizeof b->step),
                                  .x = sent(&g, b->x, b->rows * b->dim, sizeof *b->x),
                                  .labels = sent(&g, b->labels, b->rows, sizeof *b->labels),
                                  .w = sent(&g, b->w, vectors, sizeof *b->w),
                                  .b = sent(&g, b->b, b->classes, sizeof *b->b),
                                  .centers = sent(&g, b->centers, vectors, sizeof *b->centers)};
    g.out = (ole_criterion_slopes){.dtype = dtype,
                                   .weight = weight,
                                   .dx = sent(&g, NULL, b->rows * b->dim, size),
                                   .dw = sent(&g, NULL, vectors, size),
                                   .db = sent(&g, NULL, b->classes, size)};
    g.outcome = sent(&g, NULL, 1, sizeof *g.outcome);
    g.stream = g.memory->stream(&error);
    if (!g.stream) fail_msg("%s", error.message);
    return g;
}

static void close_gpu(gpu *g) {
    const void *all[] = {g->in.step,    g->in.x,   g->in.labels, g->in.w,   g->in.b,
                         g->in.centers, g->out.dx, g->out.dw,    g->out.db, g->outcome};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        g->memory->release((void *)(uintptr_t)all[i]);
    g->table->destroy(g->plan);
    g->memory->close_stream(g->stream);
}

static void queue(const gpu *g) {
    ole_error error = {0};
    assert_ok(g->table->queue(g->plan, &g->in, &g->out, g->outcome, g->stream, &error), &error);
}

static void fetch_slope(const gpu *g, const void *from, double *to, int64_t count) {
    if (g->out.dtype == OLE_F64) {
        fetch(g, to, from, count, sizeof *to);
        return;
    }
    float *narrow = room_for(count, sizeof *narrow);
    fetch(g, narrow, from, count, sizeof *narrow);
    for (int64_t i = 0; i < count; i++)
        to[i] = (double)narrow[i];
    free(narrow);
}

static void receive(const gpu *g, batch *b, bool head) {
    ole_error error = {0};
    ole_criterion_outcome outcome;
    if (!g->memory->wait(g->stream, &error)) fail_msg("%s", error.message);
    fetch(g, &outcome, g->outcome, 1, sizeof outcome);
    b->value = outcome.value;
    b->correct = outcome.correct;
    b->bad_row = outcome.bad_row;
    fetch_slope(g, g->out.dx, b->dx, b->rows * b->dim);
    if (head) fetch_slope(g, g->out.dw, b->dw, b->classes * b->dim);
    if (head) fetch_slope(g, g->out.db, b->db, b->classes);
    fetch(g, b->moved, g->in.centers, b->classes * b->dim, sizeof *b->moved);
}

static bool is_head(const ole_criterion_plan_options *o) {
    return o->criterion->traits & OLE_CRITERION_HEAD;
}

/* ---- Against the CPU ---------------------------------------------------------------------- */

typedef struct subject {
    const char *name, *options;
    double value, gradient; /* how close they must be, relative */
} subject;

/* The gradients through OLÉ's kernels are as close as that promises for float64. */
static const subject subjects[] = {
    {"center", "", 1e-12, 1e-12},
    {"center", "alpha=0.1", 1e-12, 1e-12},
    {"contrastive", "", 1e-12, 1e-10},
    {"contrastive", "margin=1.4,power=1", 1e-12, 1e-10},
    {"contrastive", "power=3.5", 1e-12, 1e-10},
    {"triplet", "", 1e-12, 1e-10},
    {"triplet", "mining=semi-hard", 1e-12, 1e-10},
    {"triplet", "mining=semi-hard,margin=1", 1e-12, 1e-10},
    {"l-softmax", "", 1e-12, 1e-10},
    {"l-softmax", "margin=3,base=0", 1e-12, 1e-10},
    {"a-softmax", "", 1e-12, 1e-10},
    {"a-softmax", "margin=2,base=1", 1e-12, 1e-10},
    {"cosface", "", 1e-12, 1e-10},
    {"arcface", "", 1e-12, 1e-10},
    {"arcface", "margin=1.4,scale=8", 1e-12, 1e-10},
    {"supcon", "", 1e-12, 1e-10},
    {"supcon", "tau=1", 1e-12, 1e-10},
    {"mcr2", "", 1e-11, 1e-10},
    {"mcr2", "eps2=0.01", 1e-11, 1e-10},
    {"opl", "", 1e-11, 1e-10},
    {"opl", "absolute=no,gamma=2", 1e-11, 1e-10},
    {"ssole", "", 1e-10, 1e-8},
    {"ssole", "spread=10", 1e-10, 1e-8},
    {"logit-norm", "", 1e-12, 1e-10},
    {"logit-norm", "tau=1", 1e-12, 1e-10},
    {"ole-unit", "", 1e-10, 1e-8},
    {"ole-unit", "smooth=0.1", 1e-10, 1e-8},
    {"ole-unit", "smooth=0.3,floor=0.5,gamma=0", 1e-10, 1e-8},
    {"ole-unit", "centered=no,floor=2", 1e-10, 1e-8},
    {"ole-unit", "unit=no", 1e-10, 1e-8},
    {"ole-unit", "unit=no,smooth=0.2,gamma=1", 1e-10, 1e-8},
};

enum { SUBJECTS = sizeof subjects / sizeof *subjects };

/* A value is close by its own size, but for terms of different signs, of order 1, that cancel. */
static void check_near(const char *what, const double *found, const double *expected, int64_t count,
                       double tolerance) {
    double scale = 1e-3;
    for (int64_t i = 0; i < count; i++)
        scale = fmax(scale, fabs(expected[i]));
    for (int64_t i = 0; i < count; i++)
        if (!(fabs(found[i] - expected[i]) <= tolerance * scale))
            fail_msg("%s[%" PRId64 "]: %.17g on the GPU, %.17g on the CPU, of at most %.3g", what,
                     i, found[i], expected[i], scale);
}

static void check(const subject *s, const int64_t shape[3], int oddities, uint64_t seed) {
    char text[200], what[240];
    batch found = make_batch(shape, oddities, seed), expected = make_batch(shape, oddities, seed);
    ole_criterion_plan_options options = options_of(s->name, s->options, &found);
    gpu g = open_gpu(&found, options, OLE_F64, 1.0);
    run_on_cpu(&expected, &options);
    queue(&g);
    receive(&g, &found, is_head(&options));
    snprintf(text, sizeof text,
             "%s %s, %" PRId64 " x %" PRId64 ", %" PRId64 " classes, oddities %d, seed %d", s->name,
             s->options, shape[0], shape[1], shape[2], oddities, (int)seed);
    const struct {
        const char *name;
        const double *found, *expected;
        int64_t count;
        double tolerance;
    } parts[] = {
        {"value", &found.value, &expected.value, 1, 1e3 * s->value}, /* of scale 1e-3: absolute */
        {"dx", found.dx, expected.dx, found.rows * found.dim, s->gradient},
        {"dw", found.dw, expected.dw, found.classes * found.dim, s->gradient},
        {"db", found.db, expected.db, found.classes, s->gradient},
        {"centres", found.moved, expected.moved, found.classes * found.dim, 1e-13},
    };
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        bool small = i == 0 && fabs(expected.value) > 1e-3;
        snprintf(what, sizeof what, "%s: %s", text, parts[i].name);
        check_near(what, parts[i].found, parts[i].expected, parts[i].count,
                   small ? s->value : parts[i].tolerance);
    }
    if (found.correct != expected.correct || found.bad_row != -1)
        fail_msg("%s: %" PRId64 " correct, not %" PRId64 "; bad row %" PRId64, text, found.correct,
                 expected.correct, found.bad_row);
    close_gpu(&g);
    free_batch(&found);
    free_batch(&expected);
}

static const int64_t shapes[][3] = {
    {1, 3, 2},     {2, 3, 2},     {5, 12, 2},   {20, 3, 2},     {26, 97, 26},  {33, 31, 4},
    {40, 512, 40}, {64, 512, 10}, {64, 65, 99}, {100, 7, 3},    {65, 33, 2},   {130, 300, 10},
    {160, 40, 2},  {200, 96, 3},  {256, 64, 7}, {256, 128, 97}, {256, 512, 2},
};

enum { SHAPES = sizeof shapes / sizeof *shapes };

static void same_as_the_cpu(void **state) {
    (void)state;
    gpu_table("ole_cuda_criterion");
    uint64_t seed = 1;
    for (int k = 0; k < SUBJECTS; k++)
        for (int s = 0; s < SHAPES; s++, seed++)
            check(&subjects[k], shapes[s], PLAIN, seed);
}

/* Rows of zeros are at a distance of 1 but for rounding from all others, so which of them triplets
 * are made of is nobody's promise. */
static void odd_batches(void **state) {
    (void)state;
    gpu_table("ole_cuda_criterion");
    static const int64_t some[][3] = {{7, 5, 3}, {64, 70, 10}, {66, 12, 2}, {150, 20, 150}};
    static const int oddities[] = {ABSENT, ZEROS, EQUAL, ABSENT | ZEROS | EQUAL, ALL_ABSENT};
    uint64_t seed = 1000;
    for (int k = 0; k < SUBJECTS; k++)
        for (int s = 0; s < 4; s++)
            for (int o = 0; o < 5; o++, seed++) {
                bool mines = strcmp(subjects[k].name, "triplet") == 0;
                check(&subjects[k], some[s], oddities[o] & (mines ? ~ZEROS : ~0), seed);
            }
}

/* ---- Otherwise ---------------------------------------------------------------------------- */

static void every_criterion_has_a_version(void **state) {
    (void)state;
    const ole_cuda_criterion_table *table = gpu_table("ole_cuda_criterion");
    for (int i = 0; ole_criterion_at(i); i++) {
        const char *name = ole_criterion_at(i)->name;
        bool tested = false;
        for (int k = 0; k < SUBJECTS; k++)
            tested |= strcmp(subjects[k].name, name) == 0;
        if (!tested || !table->has(name)) fail_msg("%s has no version, or no test of it", name);
    }
    assert_false(table->has("hinge"));
}

/* Gradients as float are those as double, times the weight and rounded. */
static void narrow_gradients(void **state) {
    (void)state;
    gpu_table("ole_cuda_criterion");
    static const int64_t shape[] = {50, 40, 6};
    for (int k = 0; k < SUBJECTS; k++) {
        batch wide = make_batch(shape, ABSENT, 3), narrow = make_batch(shape, ABSENT, 3);
        ole_criterion_plan_options options =
            options_of(subjects[k].name, subjects[k].options, &wide);
        gpu g = open_gpu(&wide, options, OLE_F64, 1.0),
            n = open_gpu(&narrow, options, OLE_F32, 0.3);
        queue(&g);
        queue(&n);
        receive(&g, &wide, is_head(&options));
        receive(&n, &narrow, is_head(&options));
        for (int64_t i = 0; i < wide.rows * wide.dim; i++)
            assert_true(narrow.dx[i] == (double)(float)(0.3 * wide.dx[i]));
        for (int64_t i = 0; i < wide.classes * wide.dim; i++)
            assert_true(narrow.dw[i] == (double)(float)wide.dw[i]);
        close_gpu(&g);
        close_gpu(&n);
        free_batch(&wide);
        free_batch(&narrow);
    }
}

/* NaN and Inf are named, but not in rows that do not count; the centres stay. */
static void bad_rows(void **state) {
    (void)state;
    gpu_table("ole_cuda_criterion");
    static const int64_t shape[] = {70, 66, 4};
    for (int k = 0; k < SUBJECTS; k++) {
        batch b = make_batch(shape, ABSENT, 5);
        ole_criterion_plan_options options = options_of(subjects[k].name, subjects[k].options, &b);
        b.x[1 * b.dim + 2] = NAN; /* ignored */
        b.x[8 * b.dim + 1] = INFINITY;
        b.labels[8] = 2;
        b.x[30 * b.dim] = NAN;
        gpu g = open_gpu(&b, options, OLE_F64, 1.0);
        queue(&g);
        receive(&g, &b, is_head(&options));
        assert_true(isnan(b.value) && b.bad_row == 8);
        assert_memory_equal(b.moved, b.centers, (size_t)(b.classes * b.dim) * sizeof *b.moved);
        close_gpu(&g);
        free_batch(&b);
    }
}

/* Replays of a captured evaluation read what lies in memory then, and repeat to the bit. */
static void captured(void **state) {
    (void)state;
    gpu_table("ole_cuda_criterion");
    static const int64_t shape[] = {96, 80, 5};
    for (int k = 0; k < SUBJECTS; k++) {
        batch one = make_batch(shape, ABSENT, 8), other = make_batch(shape, ZEROS, 9);
        batch again = make_batch(shape, ABSENT, 8);
        ole_criterion_plan_options options =
            options_of(subjects[k].name, subjects[k].options, &one);
        ole_error error = {0};
        gpu g = open_gpu(&one, options, OLE_F64, 1.0);
        size_t features = (size_t)(one.rows * one.dim) * sizeof *one.x;
        size_t centers = (size_t)(one.classes * one.dim) * sizeof *one.centers;
        queue(&g);
        receive(&g, &one, is_head(&options));
        assert_true(g.memory->capture(g.stream, &error));
        queue(&g);
        ole_cuda_graph *graph = g.memory->captured(g.stream, &error);
        if (!graph) fail_msg("%s", error.message);
        for (int i = 0; i < 2; i++) {
            const batch *from = i == 0 ? &other : &again;
            assert_true(g.memory->copy_in((void *)(uintptr_t)g.in.x, from->x, features, &error) &&
                        g.memory->copy_in((void *)(uintptr_t)g.in.labels, from->labels,
                                          (size_t)one.rows * sizeof *one.labels, &error) &&
                        g.memory->copy_in(g.in.centers, from->centers, centers, &error) &&
                        g.memory->replay(graph, g.stream, &error));
            receive(&g, i == 0 ? &other : &again, is_head(&options));
        }
        assert_true(one.value == again.value && one.value != other.value);
        assert_memory_equal(one.dx, again.dx, (size_t)(one.rows * one.dim) * sizeof *one.dx);
        assert_memory_equal(one.dw, again.dw, centers);
        assert_memory_equal(one.moved, again.moved, centers);
        g.memory->close_graph(graph);
        close_gpu(&g);
        free_batch(&one);
        free_batch(&other);
        free_batch(&again);
    }
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_criterion_has_a_version),
        cmocka_unit_test(same_as_the_cpu),
        cmocka_unit_test(odd_batches),
        cmocka_unit_test(narrow_gradients),
        cmocka_unit_test(bad_rows),
        cmocka_unit_test(captured),
    };
    gpu_filter(argc, argv);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
