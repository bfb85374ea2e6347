/* fuzz/fuzz_caffe.c - a .caffemodel file. */
#include "fuzz.h"
#include "model/caffe.h"

void fuzz_one(const uint8_t *bytes, size_t size) {
    ole_caffe model;
    ole_error error = {0};
    ole_status status = ole_caffe_read(&model, put_file("m.caffemodel", bytes, size), &error);
    if (status != OLE_OK) check_error(status, &error);
    for (int i = 0; i < model.layers; i++)
        for (int b = 0; b < OLE_CAFFE_BLOBS; b++) {
            require((size_t)model.layer[i].count[b] <= size,
                    "more numbers than the file has bytes");
            touch(model.layer[i].data[b], (size_t)model.layer[i].count[b] * sizeof(float));
        }
    ole_caffe_free(&model);
}
