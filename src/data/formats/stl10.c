/*
 * src/data/formats/stl10.c - STL-10 in its binary version: images in one file, labels 1 to 10 in
 * another.
 *
 * An image is 3 x 96 x 96 bytes, the planes red, green, blue, each column by column; it is kept row
 * by row here.
 */
#include "base/error.h"
#include "data/formats/stream.h"

#include <inttypes.h>

enum { SIDE = 96, PIXELS = 3 * SIDE * SIDE, CLASSES = 10 };

static const char *const names[CLASSES] = {"airplane", "bird",  "car",    "cat",  "deer",
                                           "dog",      "horse", "monkey", "ship", "truck"};

static ole_status read_images(ole_stream *stream, ole_source *source, ole_error *error) {
    if (stream->size == 0 || stream->size % PIXELS != 0)
        return ole_fail(
            error, OLE_ERROR_FORMAT,
            "%s: %" PRId64
            " bytes, not a multiple of %d: truncated, or not a file of STL-10 images; get it again",
            stream->name.text, stream->size, PIXELS);
    int64_t first = source->count;
    ole_status status = ole_source_grow(source, stream->size / PIXELS, error);
    for (int64_t i = first; status == OLE_OK && i < source->count; i++) {
        uint8_t image[PIXELS];
        status = ole_stream_read(stream, image, PIXELS, "an image", error);
        if (status == OLE_OK) ole_transpose_planes(image, SIDE, source->bytes + (size_t)i * PIXELS);
    }
    return status;
}

static ole_status read_labels(ole_stream *stream, ole_source *source, ole_error *error) {
    int64_t first = source->train_count, count = source->count - first;
    if (stream->size != count)
        return ole_fail(error, OLE_ERROR_FORMAT,
                        "%s: %" PRId64 " bytes, one per label, but there are %" PRId64
                        " images; get both files again",
                        stream->name.text, stream->size, count);
    ole_status status = OLE_OK;
    for (int64_t i = first; status == OLE_OK && i < source->count; i++)
        status = ole_stream_read_label(stream, 1, source, i, error);
    return status;
}

static ole_status read_file(ole_stream *stream, int number, ole_source *source, ole_error *error) {
    return number == 0 ? read_images(stream, source, error) : read_labels(stream, source, error);
}

const ole_reader ole_stl10 = {
    .name = "stl10",
    .read_file = read_file,
    .train = {"train_X.bin", "train_y.bin"},
    .test = {"test_X.bin", "test_y.bin"},
    .folder = "stl10_binary",
    .shape = {3, SIDE, SIDE},
    .classes = CLASSES,
    .class_names = names,
};
