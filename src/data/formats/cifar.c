/*
 * src/data/formats/cifar.c - CIFAR-10 and CIFAR-100 in their binary version.
 *
 * A record is its label (CIFAR-100: the coarse label, then the fine one, which counts) and
 * 3 x 32 x 32 bytes, the planes red, green, blue, row by row: as they are kept here.
 */
#include "base/error.h"
#include "data/find.h"
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

/* One file of records with `label_bytes` before the pixels, the last of which is the class. */
static ole_status read_records(ole_stream *stream, int label_bytes, ole_source *source,
                               ole_error *error) {
    int64_t record = label_bytes + PIXELS, first = source->count;
    if (stream->size == 0 || stream->size % record != 0)
        return ole_fail(error, OLE_ERROR_FORMAT,
                        "%s: has %" PRId64 " bytes, not a multiple of %" PRId64
                        ": it is cut off at its end or no CIFAR file, get it again",
                        stream->name.text, stream->size, record);
    ole_status status = ole_source_grow(source, stream->size / record, error);
    for (int64_t i = first; status == OLE_OK && i < source->count; i++) {
        uint8_t label[2];
        status = ole_stream_read(stream, label, (size_t)label_bytes, "a label", error);
        int class = label[label_bytes - 1];
        if (status == OLE_OK && class >= source->classes)
            status = ole_fail(error, OLE_ERROR_FORMAT,
                              "%s: byte %" PRId64 ": label %d, not 0 to %d: get the file again",
                              stream->name.text, stream->offset - 1, class, source->classes - 1);
        if (status != OLE_OK) break;
        source->labels[i] = class;
        status =
            ole_stream_read(stream, source->bytes + (size_t)i * PIXELS, PIXELS, "an image", error);
    }
    return status;
}

static ole_status read_file(const char *folder, const char *name, int label_bytes,
                            ole_source *source, ole_error *error) {
    char path[OLE_PATH_ROOM];
    ole_status status = ole_find_file(path, folder, name, error);
    if (status != OLE_OK) return status;
    ole_stream stream;
    status = ole_stream_open(&stream, path, error);
    if (status == OLE_OK) status = read_records(&stream, label_bytes, source, error);
    if (status == OLE_OK) status = ole_stream_end(&stream, error);
    ole_stream_close(&stream);
    return status;
}

/* The files of `names`, the last of which is the test part. */
static ole_status read_set(const char *folder, const char *const *names, int count, int label_bytes,
                           ole_source *source, ole_error *error) {
    source->channels = 3;
    source->height = source->width = SIDE;
    ole_status status = OLE_OK;
    for (int i = 0; status == OLE_OK && i < count; i++) {
        source->train_count = source->count;
        status = read_file(folder, names[i], label_bytes, source, error);
    }
    return status;
}

ole_status ole_read_cifar10(const char *path, const ole_dataset_options *options,
                            ole_source *source, ole_error *error) {
    (void)options;
    static const char *const files[] = {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin",
                                        "data_batch_4.bin", "data_batch_5.bin", "test_batch.bin"};
    ole_status status = ole_source_name_all(source, 10, names10, error);
    return status == OLE_OK ? read_set(path, files, 6, 1, source, error) : status;
}

ole_status ole_read_cifar100(const char *path, const ole_dataset_options *options,
                             ole_source *source, ole_error *error) {
    (void)options;
    static const char *const files[] = {"train.bin", "test.bin"};
    ole_status status = ole_source_name_all(source, 100, names100, error);
    return status == OLE_OK ? read_set(path, files, 2, 2, source, error) : status;
}
