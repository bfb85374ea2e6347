/*
 * tests/unit/train/test_train_allocations.c - training steps allocate nothing.
 *
 * The allocator of this program counts.  With the reference backend the count of a step is zero.
 * Calls of oneDNN keep small lists of their arguments, which no option of it prevents: there no
 * allocation may be larger than those, whatever the size of the batch.
 *
 * Under AddressSanitizer, which brings its own allocator, there is nothing to count.
 */
#include "base/philox.h"
#include "data/formats/generated.h"
#include "ole/train/train.h"
#include "test.h"
#include "train/run/step.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- the allocator -------------------------------------------------------------------------- */

enum { SMALL = 512 }; /* bytes */

static _Atomic int64_t allocations, large;

#if !defined(__SANITIZE_ADDRESS__) && !defined(OLE_SANITIZED) && defined(__GLIBC__)
enum { COUNTS = 1 };

extern void *__libc_malloc(size_t bytes);
extern void *__libc_calloc(size_t count, size_t bytes);
extern void *__libc_realloc(void *memory, size_t bytes);
extern void *__libc_memalign(size_t line, size_t bytes);

static void count(size_t bytes) {
    allocations++;
    if (bytes > SMALL) large++;
}

void *malloc(size_t bytes) {
    count(bytes);
    return __libc_malloc(bytes);
}

void *calloc(size_t items, size_t bytes) {
    count(items * bytes);
    return __libc_calloc(items, bytes);
}

void *realloc(void *memory, size_t bytes) {
    count(bytes);
    return __libc_realloc(memory, bytes);
}

void *aligned_alloc(size_t line, size_t bytes) {
    count(bytes);
    return __libc_memalign(line, bytes);
}

int posix_memalign(void **memory, size_t line, size_t bytes) {
    count(bytes);
    *memory = __libc_memalign(line, bytes);
    return *memory ? 0 : ENOMEM;
}
#else
enum { COUNTS = 0 };
#endif

/* ---- steps ---------------------------------------------------------------------------------- */

enum { BATCH = 20, CLASSES = 5, IMAGE = 3 * 16 * 16, WARM_UP = 3, STEPS = 3 };

static const char *const nets[] = {
    "FC32-FCD16-FC8",                                          /* mlp3, and vggface's end */
    "C16-MP-C32[p0,noaffine](x2)-MP-FC24",                     /* cnn5, vgg */
    "C16[nobias]-R64/16(x2)-R128/32-AP",                       /* resnet110 */
    "C16[nobn,norelu,nobias]-PR64/16(x2)-PR128/32-BN-ReLU-AP", /* preresnet110 */
    "CO24-D48/12[d0.2]-CR48[d0.2]-D72/12-BN72-ReLU-AP",        /* densenet40 */
};

static void fill(float *images, int32_t *labels) {
    for (int i = 0; i < BATCH * IMAGE; i++) {
        uint32_t word[4];
        ole_philox(1, OLE_RANDOM_TEST, 0, (uint64_t)i, word);
        images[i] = ole_uniform(word[0]) - 0.5f;
    }
    for (int i = 0; i < BATCH; i++)
        labels[i] = i % CLASSES;
}

static void take_steps(const char *net, const char *device, const char *precision,
                       const char *opt) {
    static float images[BATCH * IMAGE];
    static int32_t labels[BATCH];
    ole_network_options options = {.net = net,
                                   .input = {3, 16, 16},
                                   .classes = CLASSES,
                                   .device = device,
                                   .precision = precision,
                                   .conv = "auto",
                                   .threads = 2,
                                   .train = true,
                                   .moments = 2};
    ole_train_options train;
    ole_network network;
    ole_stepper *stepper;
    ole_step_result result;
    ole_error error;
    ole_train_options_init(&train);
    train.opt = opt;
    fill(images, labels);
    const ole_batch batch = {.count = BATCH, .images = images, .labels = labels};
    ole_status status = ole_network_open(&network, &options, &error);
    if (status == OLE_ERROR_UNSUPPORTED && strcmp(precision, "bf16") == 0) skip();
    assert_ok(status, &error);
    assert_ok(ole_params_init(network.params, "xavier", 0, &error), &error);
    assert_ok(ole_stepper_create(&stepper, &network, &train, BATCH, 0, &error), &error);
    for (int64_t step = 1; step <= WARM_UP + STEPS; step++) {
        if (step == WARM_UP + 1) allocations = large = 0;
        const ole_step one = {.batch = &batch, .number = step, .lr = 1e-3};
        assert_ok(ole_stepper_run(stepper, &one, &result, &error), &error);
    }
    int64_t all = allocations, large_ones = large;
    if (strcmp(device, "ref") == 0 && all > 0)
        fail_msg("%s: %lld allocations in %d steps", net, (long long)all, STEPS);
    if (large_ones > 0)
        fail_msg("%s on %s in %s: %lld allocations of more than %d bytes in %d steps", net, device,
                 precision, (long long)large_ones, SMALL, STEPS);
    ole_stepper_free(stepper);
    ole_network_close(&network);
}

static void counting(void **state) {
    (void)state;
    int64_t before = allocations, large_before = large;
    void *volatile memory = malloc(SMALL + 1);
    free(memory);
    assert_int_equal(allocations - before, COUNTS);
    assert_int_equal(large - large_before, COUNTS);
}

static void steps_of(const char *device, const char *precision) {
    for (size_t i = 0; i < sizeof nets / sizeof *nets; i++)
        take_steps(nets[i], device, precision, i % 2 ? "adam" : "sgd");
}

static void reference(void **state) {
    (void)state;
    steps_of("ref", "fp32");
}

#if defined(OLE_HAVE_ONEDNN)
static void onednn(void **state) {
    (void)state;
    steps_of("cpu", "fp32");
}

static void bf16(void **state) {
    (void)state;
    steps_of("cpu", "bf16");
}
#endif

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counting),
        cmocka_unit_test(reference),
#if defined(OLE_HAVE_ONEDNN)
        cmocka_unit_test(onednn),
        cmocka_unit_test(bf16),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
