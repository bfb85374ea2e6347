/* src/bench/bench_data.c - options, images and steps of a benchmark. */
#include "bench/bench_data.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/philox.h"
#include "base/sort.h"
#include "data/formats/generated.h"
#include "train/options/options.h"
#include "train/ranks/rank_resources.h"

#include <stdlib.h>

enum { CROP = 4 };

ole_status ole_bench_check(const ole_bench_options *o, int ranks, ole_error *error) {
    if (!o->net)
        return ole_fail(error, OLE_ERROR_ARGUMENT, "net is missing; give a name or a notation");
    if (o->batch_size < ranks || o->classes < 1)
        return ole_fail(error, OLE_ERROR_ARGUMENT,
                        "batch_size is %lld and classes %d; give at least 1 image for each of %d "
                        "ranks, and 1 class",
                        (long long)o->batch_size, o->classes, ranks);
    ole_train_options train, checked;
    ole_train_options_init(&train);
    train.data = "generated";
    train.net = o->net;
    train.precision = o->precision;
    train.conv = o->conv;
    train.bn = o->bn;
    train.ole_scope = o->ole_scope;
    return ole_train_options_check(&train, &checked, error);
}

/* A few batches of generated images, and a loader of them; for images of more channels than the
 * loader takes, one batch of random numbers. */
static ole_status make_images(ole_bench_setup *s, ole_error *error) {
    const ole_bench_options *o = s->options;
    if (o->channels <= OLE_MAX_CHANNELS || (o->height == 1 && o->width == 1)) {
        int64_t batches = OLE_BENCH_BATCHES; /* or more: every class has a sample */
        if (batches * s->batch < o->classes) batches = (o->classes + s->batch - 1) / s->batch;
        const ole_generated_options options = {.channels = o->channels,
                                               .height = o->height,
                                               .width = o->width,
                                               .classes = o->classes,
                                               .count = batches * s->batch};
        ole_status status = ole_dataset_generate(&s->set, &options, error);
        return status == OLE_OK ? ole_bench_loader(&s->loader, s, 1, error) : status;
    }
    if (s->beside)
        return ole_fail(error, OLE_ERROR_ARGUMENT,
                        "images of %d channels have no loader; use 1 to %d", o->channels,
                        OLE_MAX_CHANNELS);
    int64_t size = s->batch * ole_network_image_size(&s->network);
    s->images = malloc((size_t)size * sizeof *s->images);
    s->labels = malloc((size_t)s->batch * sizeof *s->labels);
    if (!s->images || !s->labels)
        return ole_fail(error, OLE_ERROR_MEMORY, "out of memory for a batch of %lld",
                        (long long)s->batch);
    for (int64_t i = 0; i < size; i++) {
        uint32_t word[4];
        ole_philox(0, OLE_RANDOM_TEST, 0, (uint64_t)i, word);
        s->images[i] = 2.0f * ole_uniform(word[0]) - 1.0f;
    }
    for (int64_t i = 0; i < s->batch; i++)
        s->labels[i] = (int32_t)(i % o->classes);
    return OLE_OK;
}

ole_status ole_bench_open(ole_bench_setup *s, ole_error *error) {
    const ole_bench_options *o = s->options;
    char device[OLE_DEVICE_NAME];
    const ole_network_options network = {.net = o->net,
                                         .input = {o->channels, o->height, o->width},
                                         .classes = o->classes,
                                         .device = ole_rank_device(o->device, s->beside, device),
                                         .precision = o->precision,
                                         .conv = o->conv,
                                         .threads = ole_rank_threads(o->threads, s->beside),
                                         .train = true,
                                         .moments = 1};
    ole_train_options train;
    ole_train_options_init(&train);
    train.loss = o->softmax_only ? OLE_LOSS_SOFTMAX : OLE_LOSS_BOTH;
    train.weight_decay = 1e-4;
    train.ranks = s->ranks;
    train.bn = o->bn;
    train.ole_scope = o->ole_scope;
    ole_status status = ole_network_open(&s->network, &network, error);
    if (status == OLE_OK) status = ole_params_init(s->network.params, "xavier", 0, error);
    if (status == OLE_OK) status = make_images(s, error);
    status = ole_ranks_agree(s->ranks, status, error);
    if (status == OLE_OK)
        status = ole_stepper_create(&s->stepper, &s->network, &train, s->batch, 0, error);
    if (status == OLE_OK && s->network.backend->recorder && s->set &&
        !ole_recorded_obstacle(s->stepper))
        status = ole_recorded_create(&s->recorded, s->stepper, s->set, s->loader, error);
    return ole_ranks_agree(s->ranks, status, error);
}

void ole_bench_close(ole_bench_setup *s) {
    ole_recorded_free(s->recorded);
    ole_stepper_free(s->stepper);
    ole_loader_destroy(s->loader);
    ole_dataset_close(s->set);
    ole_network_close(&s->network);
    free(s->images);
    free(s->labels);
}

ole_status ole_bench_loader(ole_loader **loader, const ole_bench_setup *s, int threads,
                            ole_error *error) {
    bool vectors = s->options->height == 1 && s->options->width == 1;
    ole_loader_options options;
    ole_loader_options_init(&options);
    options.batch_size = s->batch;
    options.shuffle = true;
    options.crop = vectors ? 0 : CROP;
    options.flip = !vectors;
    options.threads = threads;
    options.part = ole_ranks_rank(s->ranks);
    options.parts = ole_ranks_size(s->ranks);
    for (int c = 0; c < OLE_MAX_CHANNELS; c++)
        options.mean[c] = options.deviation[c] = 0.5f;
    return ole_loader_create(loader, s->set, OLE_SPLIT_TRAIN, &options, error);
}

ole_status ole_bench_next(ole_loader *loader, int64_t number, ole_batch *batch, ole_error *error) {
    return ole_loader_get(loader, number / OLE_BENCH_BATCHES, number % OLE_BENCH_BATCHES, batch,
                          error);
}

ole_status ole_bench_step(ole_bench_setup *s, int64_t number, double *seconds,
                          ole_step_result *result, ole_error *error) {
    ole_batch batch = {s->batch, s->images, s->labels, NULL};
    double start = ole_clock();
    ole_status status = s->loader ? ole_bench_next(s->loader, number, &batch, error) : OLE_OK;
    *seconds = ole_clock() - start;
    const ole_step step = {.batch = &batch, .number = number + 1, .lr = 1e-4};
    return status == OLE_OK ? ole_stepper_run(s->stepper, &step, result, error) : status;
}

double ole_bench_median(double *values, int64_t count) {
    qsort(values, (size_t)count, sizeof *values, ole_by_rising_double);
    return values[count / 2];
}

double ole_bench_flop(const ole_node *node) {
    if (node->op != OLE_OP_CONV && node->op != OLE_OP_LINEAR) return 0.0;
    double window = node->op == OLE_OP_CONV ? (double)(node->kernel * node->kernel * node->in.c)
                                            : (double)ole_shape_size(node->in);
    return 2.0 * window * (double)ole_shape_size(node->out);
}
