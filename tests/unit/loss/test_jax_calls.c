/*
 * tests/unit/loss/test_jax_calls.c - the handlers for JAX, called as XLA calls them: on the CPU, on
 * a GPU where there is one, and wrongly.
 */
#include "jax.h"

#include "gpu_loss.h"

/* ---- A stand-in for XLA ------------------------------------------------------------------- */

struct xla_error {
    char message[600];
    int code;
};

static struct xla_error last_error;

static xla_error *make_error(xla_make_error *arguments) {
    snprintf(last_error.message, sizeof last_error.message, "%s", arguments->message);
    last_error.code = arguments->code;
    return &last_error;
}

static xla_error *get_stream(xla_get_stream *arguments) {
    arguments->stream = arguments->context; /* the tests' context is the stream itself */
    return NULL;
}

static const xla_api api = {.struct_size = sizeof api,
                            .version = {.struct_size = sizeof(xla_version), .minor = 3},
                            .make_error = make_error,
                            .get_stream = get_stream};

enum { ATTRIBUTES = 6, CHECK = 2 /* of the integers */ };

/* A call with all that its pointers point at. */
typedef struct frame {
    xla_call call;
    xla_buffer x, y, outcome, gradient;
    int64_t shape[2], words[1];
    void *arguments[2], *results[2];
    int buffers[2], scalars[ATTRIBUTES];
    double number[3];
    int64_t integer[3];
    xla_scalar scalar[ATTRIBUTES];
    xla_text name[ATTRIBUTES], *names[ATTRIBUTES];
    void *values[ATTRIBUTES];
} frame;

static void set_attributes(frame *f) {
    static const char *const names[ATTRIBUTES] = {"delta_abs", "delta_floor", "delta_rel",
                                                  "mean",      "threads",     "check"};
    const double numbers[3] = {1e-6, 1.0, OLE_DELTA_REL_AUTO};
    memcpy(f->number, numbers, sizeof numbers);
    f->integer[0] = f->integer[1] = f->integer[CHECK] = 1;
    for (int i = 0; i < ATTRIBUTES; i++) {
        f->scalar[i] = i < 3 ? (xla_scalar){XLA_F64, &f->number[i]}
                             : (xla_scalar){XLA_S64, &f->integer[i - 3]};
        f->name[i] = (xla_text){names[i], strlen(names[i])};
        f->names[i] = &f->name[i];
        f->values[i] = &f->scalar[i];
        f->scalars[i] = XLA_SCALAR;
    }
    f->call.attributes = (xla_attributes){.struct_size = sizeof(xla_attributes),
                                          .count = ATTRIBUTES,
                                          .type = f->scalars,
                                          .name = f->names,
                                          .value = f->values};
}

static xla_buffer make_buffer(int dtype, void *data, int64_t rank, int64_t *dims) {
    return (xla_buffer){sizeof(xla_buffer), NULL, dtype, data, rank, dims};
}

/* A call on the batch's memory, with its gradient and outcome. */
static void frame_open(frame *f, const ole_loss_batch *b, int64_t dim, ole_dtype dtype,
                       void *gradient, void *outcome) {
    int type = dtype == OLE_F32 ? XLA_F32 : XLA_F64;
    *f = (frame){.shape = {b->rows, dim}, .words = {OLE_JAX_WORDS}};
    f->x = make_buffer(type, (void *)(uintptr_t)b->features, 2, f->shape);
    f->y = make_buffer(b->label_type == OLE_I32 ? XLA_S32 : XLA_S64, (void *)(uintptr_t)b->labels,
                       1, f->shape);
    f->outcome = make_buffer(XLA_U32, outcome, 1, f->words);
    f->gradient = make_buffer(type, gradient, 2, f->shape);
    f->arguments[0] = &f->x;
    f->arguments[1] = &f->y;
    f->results[0] = &f->outcome;
    f->results[1] = &f->gradient;
    f->buffers[0] = f->buffers[1] = XLA_BUFFER;
    f->call = (xla_call){.struct_size = sizeof f->call,
                         .api = &api,
                         .stage = XLA_STAGE_EXECUTE,
                         .arguments = {sizeof(xla_values), NULL, 2, f->buffers, f->arguments},
                         .results = {sizeof(xla_values), NULL, 2, f->buffers, f->results}};
    set_attributes(f);
}

/* ---- On the CPU --------------------------------------------------------------------------- */

enum { ROWS = 6, DIM = 4 };
static float features[ROWS * DIM] = {2, 1, 0, 0, 3, 1, 0, 1, 1, 0, 2, 0,
                                     1, 0, 3, 1, 0, 1, 1, 4, 0, 2, 1, 3};
static int32_t labels[ROWS] = {0, 0, 1, 1, 2, 2};
static const ole_loss_batch batch = {
    .rows = ROWS, .features = features, .labels = labels, .label_type = OLE_I32};

static void test_cpu(void **state) {
    (void)state;
    float expected[ROWS * DIM], gradient[ROWS * DIM];
    ole_loss_outcome outcome;
    ole_loss_result result = {0};
    ole_loss_gradient to = {.data = expected, .upstream = 1.0};
    ole_loss_plan *plan;
    ole_error error;
    assert_ok(ole_loss_plan_create(&plan, ROWS, DIM, OLE_F32, NULL, &error), &error);
    assert_ok(ole_loss_eval(plan, &batch, &to, &result, &error), &error);
    ole_loss_plan_destroy(plan);
    frame f;
    frame_open(&f, &batch, DIM, OLE_F32, gradient, &outcome);
    for (int again = 0; again < 2; again++) {
        assert_null(ole_jax_loss_cpu(&f.call));
        assert_true(outcome.value == result.value && outcome.rank == result.rank);
        assert_int_equal(outcome.rows, ROWS);
        assert_int_equal(outcome.bad_row, -1);
        assert_memory_equal(gradient, expected, sizeof gradient);
    }
    f.call.results.count = 1; /* the value alone */
    outcome.value = 0.0;
    assert_null(ole_jax_loss_cpu(&f.call));
    assert_true(outcome.value == result.value);
}

/* A bad row fails with its number; unchecked it gives NaN. */
static void test_data(void **state) {
    (void)state;
    float x[ROWS * DIM], gradient[ROWS * DIM];
    int32_t none[ROWS] = {-1, -1, -1, -1, -1, -1};
    ole_loss_outcome outcome;
    memcpy(x, features, sizeof x);
    x[5] = NAN;
    ole_loss_batch bad = batch, ignored = batch;
    bad.features = x;
    ignored.labels = none;
    frame f;
    frame_open(&f, &bad, DIM, OLE_F32, gradient, &outcome);
    assert_ptr_equal(ole_jax_loss_cpu(&f.call), &last_error);
    assert_int_equal(last_error.code, XLA_INVALID_ARGUMENT);
    assert_non_null(strstr(last_error.message, "row 1"));
    f.integer[CHECK] = 0;
    assert_null(ole_jax_loss_cpu(&f.call));
    assert_true(isnan(outcome.value) && isnan(gradient[0]) && isnan(gradient[ROWS * DIM - 1]));
    frame_open(&f, &ignored, DIM, OLE_F32, gradient, &outcome);
    assert_null(ole_jax_loss_cpu(&f.call));
    assert_true(outcome.value == 0.0 && outcome.rows == 0 && gradient[7] == 0.0f);
}

static void test_metadata(void **state) {
    (void)state;
    xla_metadata metadata = {.struct_size = sizeof metadata, .traits = 7};
    xla_metadata_extension extension = {{sizeof extension, XLA_METADATA, NULL}, &metadata};
    xla_call call = {.struct_size = sizeof call, .extensions = &extension.base, .api = &api};
    assert_null(ole_jax_loss_cpu(&call));
    assert_int_equal(metadata.version.major, 0);
    assert_int_equal(metadata.version.minor, 3);
    assert_int_equal(metadata.traits, 0);
    call.api = NULL; /* as the first version asks */
    assert_null(ole_jax_loss_cuda(&call));
    assert_int_equal(metadata.version.minor, 1);
}

static void assert_refused(frame *f, const char *message) {
    assert_ptr_equal(ole_jax_loss_cpu(&f->call), &last_error);
    assert_int_equal(last_error.code, XLA_INVALID_ARGUMENT);
    assert_string_equal(last_error.message, message);
}

static void test_mistakes(void **state) {
    (void)state;
    float gradient[ROWS * DIM];
    ole_loss_outcome outcome;
    frame f;
#define FRESH frame_open(&f, &batch, DIM, OLE_F32, gradient, &outcome)
    FRESH;
    f.x.rank = 3;
    assert_refused(&f, "ole_loss: features must be float32 or float64 [N, D]");
    FRESH;
    f.y.dtype = XLA_F32;
    assert_refused(&f, "ole_loss: labels must be int32 or int64 [N]");
    FRESH;
    f.words[0] = 3;
    assert_refused(&f, "ole_loss: the first result must be the outcome's words");
    FRESH;
    f.gradient.dtype = XLA_F64;
    assert_refused(&f, "ole_loss: the gradient must have the features' type and shape");
    FRESH;
    f.call.attributes.count = 4;
    assert_refused(&f,
                   "ole_loss: an attribute is missing or wrong: ole/jax.py and libole_jax.so do "
                   "not fit");
    FRESH;
    f.number[0] = -1.0;
    assert_non_null(ole_jax_loss_cpu(&f.call));
    assert_non_null(strstr(last_error.message, "delta_abs"));
#undef FRESH
}

/* Labels without a sign, of which the last is too large: an error. */
static void refuse_large(frame *f, int type, void *given, const char *message) {
    f->y.dtype = type;
    f->y.data = given;
    assert_refused(f, message);
}

/* Those that a sign would leave as they are count. */
static void count_labels(frame *f, const ole_loss_outcome *outcome) {
    assert_null(ole_jax_loss_cpu(&f->call));
    assert_true(outcome->rows == ROWS && outcome->classes == 3);
}

static void test_unsigned(void **state) {
    (void)state;
    uint32_t narrow[ROWS] = {0, 0, 1, 1, 2, UINT32_MAX};
    uint64_t wide[ROWS] = {0, 0, 1, 1, 2, (uint64_t)1 << 63};
    float gradient[ROWS * DIM];
    ole_loss_outcome outcome;
    frame f;
    frame_open(&f, &batch, DIM, OLE_F32, gradient, &outcome);
    refuse_large(&f, XLA_U32, narrow,
                 "ole_loss: labels: row 5 is 4294967295, which does not fit int32");
    narrow[5] = 2;
    count_labels(&f, &outcome);
    refuse_large(&f, XLA_U64, wide,
                 "ole_loss: labels: row 5 is 9223372036854775808, which does not fit int64");
    wide[5] = 2;
    count_labels(&f, &outcome);
}

/* ---- On a GPU ---------------------------------------------------------------------------- */

static void test_gpu(void **state) {
    (void)state;
    static const int64_t shape[3] = {60, 40, 5};
    gpu_table("ole_cuda_memory"); /* skips here where there is no GPU */
    gpu_batch b = gpu_batch_make(shape, CASE_RELU, OLE_F32, 1.0, 3);
    gpu_loss c = gpu_open(&b);
    gpu_queue(&c);
    gpu_receive(&c);
    size_t bytes = (size_t)(b.rows * b.dim) * sizeof(double);
    double *expected = malloc(bytes);
    memcpy(expected, c.gradient, bytes);
    double value = c.outcome.value;
    gpu_send(&c); /* clears the gradient */
    frame f;
    frame_open(&f, &c.device, b.dim, b.dtype, c.to.data, c.device_outcome);
    f.call.context = c.stream;
    for (int again = 0; again < 2; again++) {
        assert_null(ole_jax_loss_cuda(&f.call));
        gpu_receive(&c);
        assert_true(c.outcome.value == value);
        assert_memory_equal(c.gradient, expected, bytes);
    }
    free(expected);
    gpu_close(&c);
    gpu_batch_free(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cpu),      cmocka_unit_test(test_data),
        cmocka_unit_test(test_metadata), cmocka_unit_test(test_mistakes),
        cmocka_unit_test(test_unsigned), cmocka_unit_test(test_gpu),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
