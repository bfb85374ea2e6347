/* fuzz/fuzz_model.c - a safetensors file: its tensors, its model card, and its export as ONNX. */
#include "formats/safetensors.h"
#include "fuzz.h"
#include "model/model_card.h"
#include "ole/train/export.h"

static void read_tensors(const ole_safetensors *file, size_t size) {
    for (size_t i = 0; i < ole_safetensors_count(file); i++) {
        const ole_tensor *tensor = ole_safetensors_get(file, i);
        size_t bytes = (size_t)ole_tensor_count(tensor) * ole_dtype_size(tensor->dtype);
        require(bytes <= size, "more elements than the file has bytes");
        require(ole_safetensors_find(file, tensor->name) == tensor, "a name is there twice");
        touch(tensor->data, bytes);
    }
}

static void try_safetensors(const char *path, size_t size) {
    ole_safetensors *file;
    ole_error error = {0};
    ole_status status = ole_safetensors_open(&file, path, &error);
    if (status != OLE_OK) {
        require(file == NULL, "a file in spite of an error");
        check_error(status, &error);
        return;
    }
    read_tensors(file, size);
    ole_card card;
    status = ole_card_read(&card, file, path, &error);
    if (status == OLE_OK)
        ole_card_free(&card);
    else
        check_error(status, &error);
    ole_safetensors_close(file);
}

/* A model that can be read can be exported, or says why not. */
static void try_export(const char *path) {
    ole_onnx_options options;
    ole_error error = {0};
    ole_onnx_options_init(&options);
    options.fold = true;
    ole_status status = ole_export_onnx(path, "/dev/null", &options, NULL, &error);
    if (status != OLE_OK) check_error(status, &error);
}

void fuzz_one(const uint8_t *bytes, size_t size) {
    const char *path = put_file("model.safetensors", bytes, size);
    try_safetensors(path, size);
    try_export(path);
}
