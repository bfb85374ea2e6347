/*
 * src/data/formats/idx.c - MNIST and Fashion-MNIST: idx files, raw or gzipped, as their authors
 * publish them.
 *
 * An idx file is a big-endian magic (0, 0, type, dimensions), one 32-bit size a dimension, then the
 * elements.  Only unsigned bytes (type 8) occur here.
 */
#include "base/error.h"
#include "data/formats/stream.h"

#include <inttypes.h>

enum { IMAGES_MAGIC = 0x803, LABELS_MAGIC = 0x801, CLASSES = 10, MAX_SIDE = 1 << 15 };

static const char *const fashion_names[CLASSES] = {
    "T-shirt/top", "Trouser", "Pullover", "Dress", "Coat",
    "Sandal",      "Shirt",   "Sneaker",  "Bag",   "Ankle boot"};

static uint32_t big_endian(const uint8_t *at) {
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

/* Reads magic and sizes, and checks that the file can hold the elements. */
static ole_status read_header(ole_stream *stream, uint32_t magic, int dims, uint32_t *size,
                              ole_error *error) {
    uint8_t header[16];
    size_t length = 4 + 4 * (size_t)dims;
    ole_status status = ole_stream_read(stream, header, length, "the header", error);
    if (status != OLE_OK) return status;
    if (big_endian(header) != magic)
        return ole_fail(
            error, OLE_ERROR_FORMAT,
            "%s: begins with 0x%08" PRIx32 ", not 0x%08" PRIx32 ": not an idx file of %s",
            stream->name.text, big_endian(header), magic, dims == 3 ? "images" : "labels");
    uint64_t bytes = 1;
    for (int i = 0; i < dims; i++) {
        size[i] = big_endian(header + 4 + 4 * i);
        bool wrong = size[i] == 0 || (i > 0 && size[i] > MAX_SIDE);
        if (!wrong) wrong = __builtin_mul_overflow(bytes, (uint64_t)size[i], &bytes);
        if (wrong || bytes > (uint64_t)stream->room)
            return ole_fail(error, OLE_ERROR_FORMAT,
                            "%s: byte %d: %" PRIu32
                            " does not fit the file, which is damaged; get it again",
                            stream->name.text, 4 + 4 * i, size[i]);
    }
    return OLE_OK;
}

static ole_status read_images(ole_stream *stream, ole_source *source, ole_error *error) {
    uint32_t size[3] = {0};
    ole_status status = read_header(stream, IMAGES_MAGIC, 3, size, error);
    if (status != OLE_OK) return status;
    int height = (int)size[1], width = (int)size[2];
    if (source->count > 0 && (height != source->height || width != source->width))
        return ole_fail(error, OLE_ERROR_FORMAT,
                        "%s: byte 8: images of %dx%d, but the training images are %dx%d",
                        stream->name.text, height, width, source->height, source->width);
    source->height = height;
    source->width = width;
    size_t one = (size_t)ole_source_sample_size(source), before = (size_t)source->count;
    status = ole_source_grow(source, size[0], error);
    if (status != OLE_OK) return status;
    return ole_stream_read(stream, source->bytes + before * one, size[0] * one, "the images",
                           error);
}

static ole_status read_labels(ole_stream *stream, ole_source *source, ole_error *error) {
    int64_t first = source->train_count;
    uint32_t count = 0;
    ole_status status = read_header(stream, LABELS_MAGIC, 1, &count, error);
    if (status == OLE_OK && count != source->count - first)
        return ole_fail(error, OLE_ERROR_FORMAT,
                        "%s: byte 4: %" PRIu32 " labels, but there are %" PRId64 " images",
                        stream->name.text, count, source->count - first);
    for (int64_t i = first; status == OLE_OK && i < source->count; i++)
        status = ole_stream_read_label(stream, 0, source, i, error);
    return status;
}

static ole_status read_file(ole_stream *stream, int number, ole_source *source, ole_error *error) {
    ole_status status =
        number == 0 ? read_images(stream, source, error) : read_labels(stream, source, error);
    return status == OLE_OK ? ole_stream_end(stream, error) : status;
}

#define IDX_FILES                                                                                  \
    .read_file = read_file, .train = {"train-images-idx3-ubyte", "train-labels-idx1-ubyte"},       \
    .test = {"t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"}, .shape = {1, 28, 28},            \
    .classes = CLASSES

const ole_reader ole_mnist = {.name = "mnist", .folder = "MNIST/raw", IDX_FILES};
const ole_reader ole_fashion_mnist = {
    .name = "fashion-mnist", .folder = "FashionMNIST/raw", .class_names = fashion_names, IDX_FILES};
