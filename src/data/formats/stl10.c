/*
 * src/data/formats/stl10.c - STL-10 in its binary version: images in one file, labels 1 to 10 in
 * another.
 *
 * An image is 3 x 96 x 96 bytes, the planes red, green, blue, each column by column; it is kept row
 * by row here.
 */
#include "base/error.h"
#include "data/find.h"
#include "data/formats/stream.h"

#include <inttypes.h>

enum { SIDE = 96, PIXELS = 3 * SIDE * SIDE, CLASSES = 10 };

static const char *const names[CLASSES] = {"airplane", "bird",  "car",    "cat",  "deer",
                                           "dog",      "horse", "monkey", "ship", "truck"};

static ole_status read_images(ole_stream *stream, ole_source *source, ole_error *error) {
    if (stream->size == 0 || stream->size % PIXELS != 0)
        return ole_fail(error, OLE_ERROR_FORMAT,
                        "%s: has %" PRId64 " bytes, not a multiple of %d: it is cut off at its end "
                        "or no file of STL-10 images, get it again",
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

static ole_status read_labels(ole_stream *stream, int64_t first, ole_source *source,
                              ole_error *error) {
    int64_t count = source->count - first;
    if (stream->size != count)
        return ole_fail(error, OLE_ERROR_FORMAT,
                        "%s: has %" PRId64 " bytes, one a label, but there are %" PRId64
                        " images: get both files again",
                        stream->name.text, stream->size, count);
    ole_status status = OLE_OK;
    for (int64_t i = first; status == OLE_OK && i < source->count; i++) {
        uint8_t label;
        status = ole_stream_read(stream, &label, 1, "the labels", error);
        if (status == OLE_OK && (label < 1 || label > CLASSES))
            status = ole_fail(error, OLE_ERROR_FORMAT,
                              "%s: byte %" PRId64 ": label %d, not 1 to 10: get the file again",
                              stream->name.text, stream->offset - 1, label);
        source->labels[i] = label - 1;
    }
    return status;
}

static ole_status read_part(const char *folder, const char *images, const char *labels,
                            ole_source *source, ole_error *error) {
    char path[OLE_PATH_ROOM];
    ole_stream stream = {0};
    int64_t first = source->count;
    ole_status status = ole_find_file(path, folder, images, error);
    if (status == OLE_OK) status = ole_stream_open(&stream, path, error);
    if (status == OLE_OK) status = read_images(&stream, source, error);
    ole_stream_close(&stream);
    if (status == OLE_OK) status = ole_find_file(path, folder, labels, error);
    if (status == OLE_OK) status = ole_stream_open(&stream, path, error);
    if (status == OLE_OK) status = read_labels(&stream, first, source, error);
    ole_stream_close(&stream);
    return status;
}

ole_status ole_read_stl10(const char *path, const ole_dataset_options *options, ole_source *source,
                          ole_error *error) {
    (void)options;
    source->channels = 3;
    source->height = source->width = SIDE;
    ole_status status = ole_source_name_all(source, CLASSES, names, error);
    if (status == OLE_OK) status = read_part(path, "train_X.bin", "train_y.bin", source, error);
    source->train_count = source->count;
    if (status == OLE_OK) status = read_part(path, "test_X.bin", "test_y.bin", source, error);
    return status;
}
