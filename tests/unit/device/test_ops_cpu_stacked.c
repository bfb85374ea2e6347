/*
 * tests/unit/device/test_ops_cpu_stacked.c - what a concatenation leaves, read by every op of the
 * oneDNN backend: the same numbers as when the op reads it plain.
 */
#include "device/backend.h"
#include "random.h"
#include "test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { N = 3, A = 20, B = 7, C = A + B, SIDE = 6, PIXELS = SIDE * SIDE, MOST = N * 64 * PIXELS };

/* In bfloat16, where the stacked tensor is of that: numbers are given so, results are rounded. */
static bool half;

static const ole_shape shape_a = {A, SIDE, SIDE}, shape_c = {C, SIDE, SIDE};

static float *fresh(int64_t count, uint64_t seed) {
    float *made = malloc((size_t)count * sizeof *made);
    test_random random = {seed};
    assert_non_null(made);
    for (int64_t i = 0; i < count; i++) {
        made[i] = (float)random_normal(&random);
        uint32_t bits;
        memcpy(&bits, &made[i], sizeof bits);
        if (half) bits &= 0xffff0000;
        memcpy(&made[i], &bits, sizeof bits);
    }
    return made;
}

static void *allocate(ole_device_context *context, size_t bytes) {
    void *memory = ole_backend_cpu.allocate(context, bytes + 64);
    assert_non_null(memory);
    memset(memory, 0xff, bytes); /* NaN wherever nothing is written */
    return memory;
}

static ole_op_plan plan(ole_device_context *context, const ole_node *node,
                        const ole_layout layouts[OLE_MAX_INPUTS]) {
    ole_op_plan made;
    ole_error error;
    assert_ok(ole_backend_cpu.plan_op(context, node, N, true, true, layouts, &made, &error),
              &error);
    return made;
}

/* The concatenation of two random tensors, as the backend leaves it. */
typedef struct joined {
    ole_op_plan plan;
    void *memory;
    float *plain;
} joined;

static joined join(ole_device_context *context) {
    ole_node node = {.op = OLE_OP_CONCAT, .in = shape_a, .out = shape_c};
    ole_layout layouts[OLE_MAX_INPUTS] = {NULL, NULL};
    joined j = {.plan = plan(context, &node, layouts)};
    float *a = fresh(N * A * PIXELS, 1), *b = fresh(N * B * PIXELS, 2);
    j.memory = allocate(context, j.plan.y_bytes);
    j.plain = malloc(MOST * sizeof *j.plain);
    void *scratch = allocate(context, j.plan.scratch_bytes);
    ole_op_call call = {.x = {a, b}, .y = j.memory, .scratch = scratch, .train = true};
    ole_backend_cpu.forward(context, &node, &j.plan, &call);
    ole_backend_cpu.to_plain(context, j.plan.y_layout, N, shape_c, j.memory, j.plain);
    for (int n = 0; n < N; n++) {
        assert_memory_equal(j.plain + n * C * PIXELS, a + n * A * PIXELS, A * PIXELS * 4);
        assert_memory_equal(j.plain + (n * C + A) * PIXELS, b + n * B * PIXELS, B * PIXELS * 4);
    }
    ole_backend_cpu.free(context, scratch);
    free(a);
    free(b);
    return j;
}

/* What an op gives: y, gradients of its inputs and of its parameters, plain. */
typedef struct outcome {
    float y[MOST], dx[OLE_MAX_INPUTS][MOST], dparam[OLE_MAX_PARAMS][16384];
} outcome;

static ole_shape input_shape(const ole_node *node, int i) {
    ole_shape shape = node->in;
    if (i == 1 && node->op == OLE_OP_CONCAT) shape.c = node->out.c - node->in.c;
    return shape;
}

/* Runs `node` with input `which` as given in `layout`, the other one plain. */
static void run(ole_device_context *context, const ole_node *node, int which, ole_layout layout,
                const void *x, bool add, outcome *out) {
    ole_layout layouts[OLE_MAX_INPUTS] = {NULL};
    layouts[which] = layout;
    ole_op_plan p = plan(context, node, layouts);
    int inputs = node->op == OLE_OP_ADD || node->op == OLE_OP_CONCAT ? 2 : 1;
    float *other = fresh(MOST, 3), *gradient = fresh(MOST, 4), *params[OLE_MAX_PARAMS] = {0};
    void *dx[OLE_MAX_INPUTS] = {0}, *dparam[OLE_MAX_PARAMS] = {0};
    void *y = allocate(context, p.y_bytes), *dy = allocate(context, p.y_bytes);
    void *saved = allocate(context, p.saved_bytes), *scratch = allocate(context, p.scratch_bytes);
    ole_op_call call = {.y = y, .saved = saved, .scratch = scratch, .train = true, .step = 5};
    for (int i = 0; i < inputs; i++) {
        call.x[i] = i == which ? x : other;
        dx[i] = allocate(context, MOST * sizeof(float));
        ole_backend_cpu.from_plain(context, layouts[i], N, input_shape(node, i), other, false,
                                   dx[i]);
    }
    for (int i = 0; i < OLE_MAX_PARAMS; i++) {
        params[i] = fresh(16384, 10 + (uint64_t)i);
        for (int k = 0; k < 16384; k++)
            params[i][k] = fabsf(params[i][k]);
        call.param[i] = params[i];
        dparam[i] = allocate(context, 16384 * sizeof(float));
        memset(dparam[i], 0, 16384 * sizeof(float));
    }
    ole_backend_cpu.forward(context, node, &p, &call);
    ole_backend_cpu.to_plain(context, p.y_layout, N, node->out, y, out->y);
    ole_backend_cpu.from_plain(context, p.y_layout, N, node->out, gradient, false, dy);
    call.dy = dy;
    for (int i = 0; i < inputs; i++) {
        call.dx[i] = dx[i];
        call.accumulate[i] = add;
    }
    for (int i = 0; i < OLE_MAX_PARAMS; i++)
        call.dparam[i] = dparam[i];
    ole_backend_cpu.backward(context, node, &p, &call);
    for (int i = 0; i < inputs; i++)
        ole_backend_cpu.to_plain(context, layouts[i], N, input_shape(node, i), dx[i], out->dx[i]);
    for (int i = 0; i < OLE_MAX_PARAMS; i++) {
        memcpy(out->dparam[i], dparam[i], sizeof out->dparam[i]);
        ole_backend_cpu.free(context, dparam[i]);
        free(params[i]);
    }
    void *all[] = {y, dy, saved, scratch, dx[0], dx[1]};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i]) ole_backend_cpu.free(context, all[i]);
    ole_backend_cpu.release_op(context, &p);
    free(other);
    free(gradient);
}

static void assert_near(const float *found, const float *expected, int64_t count, const char *what,
                        ole_op op) {
    for (int64_t i = 0; i < count; i++) {
        double error = fabs((double)found[i] - (double)expected[i]);
        if (!(error <= (half ? 2e-2 : 2e-5) * (1 + fabs((double)expected[i]))))
            fail_msg("op %d, %s[%lld]: %g, expected %g", (int)op, what, (long long)i,
                     (double)found[i], (double)expected[i]);
    }
}

static void compare(ole_device_context *context, const ole_node *node, int which) {
    joined j = join(context);
    outcome *stacked = calloc(1, sizeof *stacked), *plain = calloc(1, sizeof *plain);
    assert_true(stacked && plain);
    for (int add = 0; add < 2; add++) {
        run(context, node, which, j.plan.y_layout, j.memory, add, stacked);
        run(context, node, which, NULL, j.plain, add, plain);
        assert_near(stacked->y, plain->y, N * ole_shape_size(node->out), "y", node->op);
        for (int i = 0; i < OLE_MAX_INPUTS; i++)
            assert_near(stacked->dx[i], plain->dx[i], N * ole_shape_size(input_shape(node, i)),
                        "dx", node->op);
        for (int i = 0; i < OLE_MAX_PARAMS; i++)
            assert_near(stacked->dparam[i], plain->dparam[i], 16384, "dparam", node->op);
    }
    ole_backend_cpu.release_op(context, &j.plan);
    ole_backend_cpu.free(context, j.memory);
    free(j.plain);
    free(stacked);
    free(plain);
}

static void read_by_all(ole_device_context *context) {
    static const ole_node nodes[] = {
        {.op = OLE_OP_CONV,
         .out = {16, SIDE, SIDE},
         .kernel = 3,
         .stride = 1,
         .pad = 1,
         .bias = true},
        {.op = OLE_OP_CONV, .out = {9, 3, 3}, .kernel = 1, .stride = 2},
        {.op = OLE_OP_CONV, .out = {32, SIDE, SIDE}, .kernel = 1, .stride = 1},
        {.op = OLE_OP_NORM, .out = {C, SIDE, SIDE}, .affine = true, .relu = true},
        {.op = OLE_OP_NORM, .out = {C, SIDE, SIDE}},
        {.op = OLE_OP_RELU, .out = {C, SIDE, SIDE}},
        {.op = OLE_OP_MAXPOOL, .out = {C, 3, 3}, .kernel = 2, .stride = 2},
        {.op = OLE_OP_AVGPOOL, .out = {C, 1, 1}},
        {.op = OLE_OP_FLATTEN, .out = {C * PIXELS, 1, 1}},
        {.op = OLE_OP_LINEAR, .out = {10, 1, 1}, .bias = true},
        {.op = OLE_OP_DROPOUT, .out = {C, SIDE, SIDE}, .rate = 0.5f, .index = 4},
    };
    static const ole_node pairs[] = {
        {.op = OLE_OP_ADD, .out = {C, SIDE, SIDE}, .relu = true},
        {.op = OLE_OP_CONCAT, .out = {2 * C, SIDE, SIDE}},
    };
    for (size_t i = 0; i < sizeof nodes / sizeof *nodes; i++) {
        ole_node node = nodes[i];
        node.in = shape_c;
        compare(context, &node, 0);
    }
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        for (int which = 0; which < 2; which++) {
            ole_node node = pairs[i];
            node.in = shape_c;
            compare(context, &node, which);
        }
}

static void every_op_reads_it(void **state) {
    (void)state;
    ole_device_context *context;
    ole_error error;
    half = false;
    assert_ok(ole_backend_cpu.open(&context, &(ole_device_options){.threads = 2}, &error), &error);
    read_by_all(context);
    ole_backend_cpu.close(context);
}

static void every_op_reads_it_in_bf16(void **state) {
    (void)state;
    const ole_device_options options = {.threads = 2, .precision = OLE_PRECISION_BF16};
    ole_device_context *context;
    ole_error error;
    half = true;
    if (ole_backend_cpu.open(&context, &options, &error) != OLE_OK) skip();
    read_by_all(context);
    ole_backend_cpu.close(context);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_op_reads_it),
                                       cmocka_unit_test(every_op_reads_it_in_bf16)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
