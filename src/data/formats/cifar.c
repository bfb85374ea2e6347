/*
 * src/data/formats/cifar.c - CIFAR-10 and CIFAR-100 in their binary version.
 *
 * A record is its label (CIFAR-100: the coarse label, then the fine one, which counts) and
 * 3 x 32 x 32 bytes, the planes red, green, blue, row by row: as they are kept here.
 */
#include "base/error.h"
#include "data/formats/stream.h"

#include <inttypes.h>

enum { SIDE = 32, PIXELS = 3 * SIDE * SIDE };

static const char *const names10[10] = {"airplane", "automobile", "bird",  "cat",  "deer",
                                        "dog",      "frog",       "horse", "ship", "truck"};

static const char *const names100[100] = {
    "apple",       "aquarium_fish", "baby",      "bear",       "beaver",       "bed",
    "bee",         "beetle",        "bicycle",   "bottle",     "bowl",         "boy",
    "bridge",      "bus",           "butterfly", "camel",      "can",          "castle",
    "caterpillar", "cattle",        "chair",     "chimpanzee", "clock",        "cloud",
    "cockroach",   "couch",         "crab",      "crocodile",  "cup",          "dinosaur",
    "dolphin",     "elephant",      "flatfish",  "forest",     "fox",          "girl",
    "hamster",     "house",         "kangaroo",  "keyboard",   "lamp",         "lawn_mower",
    "leopard",     "lion",          "lizard",    "lobster",    "man",          "maple_tree",
    "motorcycle",  "mountain",      "mouse",     "mushroom",   "oak_tree",     "orange",
    "orchid",      "otter",         "palm_tree", "pear",       "pickup_truck", "pine_tree",
    "plain",       "plate",         "poppy",     "porcupine",  "possum",       "rabbit",
    "raccoon",     "ray",           "road",      "rocket",     "rose",         "sea",
    "seal",        "shark",         "shrew",     "skunk",      "skyscraper",   "snail",
    "snake",       "spider",        "squirrel",  "streetcar",  "sunflower",    "sweet_pepper",
    "table",       "tank",          "telephone", "television", "tiger",        "tractor",
    "train",       "trout",         "tulip",     "turtle",     "wardrobe",     "whale",
    "willow_tree", "wolf",          "woman",     "worm"};

static ole_status read_file(ole_stream *stream, int number, ole_source *source, ole_error *error) {
    (void)number;
    int64_t coarse = source->classes == 100, record = coarse + 1 + PIXELS, first = source->count;
    if (stream->size == 0 || stream->size % record != 0)
        return ole_fail(error, OLE_ERROR_FORMAT,
                        "%s: %" PRId64 " bytes, not a multiple of %" PRId64
                        ": truncated, or not a CIFAR file; get it again",
                        stream->name.text, stream->size, record);
    ole_status status = ole_source_grow(source, stream->size / record, error);
    for (int64_t i = first; status == OLE_OK && i < source->count; i++) {
        uint8_t skipped, *image = source->bytes + (size_t)i * PIXELS;
        status = ole_stream_read(stream, &skipped, (size_t)coarse, "a label", error);
        if (status == OLE_OK) status = ole_stream_read_label(stream, 0, source, i, error);
        if (status == OLE_OK) status = ole_stream_read(stream, image, PIXELS, "an image", error);
    }
    return status == OLE_OK ? ole_stream_end(stream, error) : status;
}

const ole_reader ole_cifar10 = {
    .name = "cifar10",
    .read_file = read_file,
    .train = {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin",
              "data_batch_5.bin"},
    .test = {"test_batch.bin"},
    .folder = "cifar-10-batches-bin",
    .shape = {3, SIDE, SIDE},
    .classes = 10,
    .class_names = names10,
};

const ole_reader ole_cifar100 = {
    .name = "cifar100",
    .read_file = read_file,
    .train = {"train.bin"},
    .test = {"test.bin"},
    .folder = "cifar-100-binary",
    .shape = {3, SIDE, SIDE},
    .classes = 100,
    .class_names = names100,
};
