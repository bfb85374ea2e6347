/*
 * src/train/bench_data.c - options and images of a benchmark, and what one costs.
 */
#include "train/bench_data.h"

#include "base/error.h"
#include "data/generated.h"
#include "train/options.h"

enum { CROP = 4 };

ole_status ole_bench_check(const ole_bench_options *o, int ranks, ole_error *error) {
    ole_status fits = ole_check_struct(o->struct_size, sizeof *o, "ole_bench_options_init", error);
    if (fits != OLE_OK) return fits;
    if (!o->net)
        return ole_fail(error, OLE_ERROR_ARGUMENT, "net is missing: give a name or a notation");
    if (o->batch_size < ranks || o->classes < 1)
        return ole_fail(error, OLE_ERROR_ARGUMENT,
                        "batch_size is %lld and classes %d: give at least 1 image for each of %d "
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

ole_status ole_bench_images(ole_dataset **set, const ole_bench_options *o, int64_t batch,
                            ole_error *error) {
    *set = NULL;
    if (o->channels > OLE_MAX_CHANNELS && (o->height > 1 || o->width > 1)) return OLE_OK;
    int64_t batches = OLE_BENCH_BATCHES; /* or more: every class has a sample */
    if (batches * batch < o->classes) batches = (o->classes + batch - 1) / batch;
    const ole_generated_options options = {.channels = o->channels,
                                           .height = o->height,
                                           .width = o->width,
                                           .classes = o->classes,
                                           .count = batches * batch};
    return ole_dataset_generate(set, &options, error);
}

ole_status ole_bench_loader(ole_loader **loader, const ole_dataset *set, const ole_bench_options *o,
                            const ole_bench_part *part, ole_error *error) {
    bool vectors = o->height == 1 && o->width == 1;
    ole_loader_options options;
    ole_loader_options_init(&options);
    options.batch_size = part->batch;
    options.shuffle = true;
    options.crop = vectors ? 0 : CROP;
    options.flip = !vectors;
    options.threads = part->threads;
    options.part = part->part;
    options.parts = part->parts;
    for (int c = 0; c < OLE_MAX_CHANNELS; c++)
        options.mean[c] = options.deviation[c] = 0.5f;
    return ole_loader_create(loader, set, OLE_SPLIT_TRAIN, &options, error);
}

ole_status ole_bench_next(ole_loader *loader, int64_t number, ole_batch *batch, ole_error *error) {
    return ole_loader_get(loader, number / OLE_BENCH_BATCHES, number % OLE_BENCH_BATCHES, batch,
                          error);
}

double ole_bench_flop(const ole_node *node) {
    if (node->op != OLE_OP_CONV && node->op != OLE_OP_LINEAR) return 0.0;
    double window = node->op == OLE_OP_CONV ? (double)(node->kernel * node->kernel * node->in.c)
                                            : (double)ole_shape_size(node->in);
    return 2.0 * window * (double)ole_shape_size(node->out);
}
