/*
 * fuzz/fuzz_models.c - safetensors and .caffemodel files that are nearly right: no crash, no leak,
 * and an error is one line.
 *
 *     fuzz_models [COUNT [SEED]]       COUNT mutated files (default 20000)
 *
 * The same target serves libFuzzer: clang -fsanitize=fuzzer -DOLE_LIBFUZZER.
 */
#include "files.h"
#include "formats/safetensors.h"
#include "model/caffe.h"
#include "model/model_card.h"
#include "ole/train/export.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void read_tensors(const ole_safetensors *file, size_t size) {
    for (size_t i = 0; i < ole_safetensors_count(file); i++) {
        const ole_tensor *tensor = ole_safetensors_get(file, i);
        size_t bytes = (size_t)ole_tensor_count(tensor) * ole_dtype_size(tensor->dtype);
        require(bytes <= size, "more elements than the file has bytes");
        require(ole_safetensors_find(file, tensor->name) == tensor, "a name is there twice");
        for (size_t k = 0; k < bytes; k++)
            sink += ((const unsigned char *)tensor->data)[k];
    }
}

static void try_safetensors(size_t size) {
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
static void try_export(void) {
    ole_onnx_options options;
    ole_error error = {0};
    ole_onnx_options_init(&options);
    options.fold = true;
    ole_status status = ole_export_onnx(path, "/dev/null", &options, NULL, &error);
    if (status != OLE_OK) check_error(status, &error);
}

static void try_caffe(size_t size) {
    ole_caffe model;
    ole_error error = {0};
    ole_status status = ole_caffe_read(&model, path, &error);
    if (status != OLE_OK) check_error(status, &error);
    for (int i = 0; i < model.layers; i++)
        for (int b = 0; b < OLE_CAFFE_BLOBS; b++)
            for (int64_t k = 0; k < model.layer[i].count[b]; k++) {
                require((size_t)k < size, "more numbers than the file has bytes");
                sink += model.layer[i].data[b][k] > 0.0f;
            }
    ole_caffe_free(&model);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    put_file(bytes, size);
    try_safetensors(size);
    try_export();
    try_caffe(size);
    return 0;
}

#ifndef OLE_LIBFUZZER

enum { MAX_FILE = 2048 };

/* A small model as a safetensors file, without the checksum; returns its size. */
static size_t make_safetensors(uint8_t *bytes) {
    int length = snprintf(
        (char *)bytes + 8, MAX_FILE - 8,
        "{\"__metadata__\":{\"net\":\"FC2[noaffine]\",\"input\":\"1x2x2\","
        "\"class_names\":\"[\\\"a\\\",\\\"b\\\"]\",\"mean\":\"0\",\"deviation\":\"1\"},"
        "\"1.linear.weight\":{\"dtype\":\"F32\",\"shape\":[2,4],\"data_offsets\":[0,32]},"
        "\"1.linear.bias\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[32,40]},"
        "\"1.norm.running_mean\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[40,48]},"
        "\"1.norm.running_var\":{\"dtype\":\"F64\",\"shape\":[2],\"data_offsets\":[48,64]},"
        "\"classifier.weight\":{\"dtype\":\"F32\",\"shape\":[2,2],\"data_offsets\":[64,80]},"
        "\"classifier.bias\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[80,88]},"
        "\"c\":{\"dtype\":\"I64\",\"shape\":[1],\"data_offsets\":[88,96]}}");
    memset(bytes, 0, 8);
    bytes[0] = (uint8_t)length;
    bytes[1] = (uint8_t)(length >> 8);
    size_t size = 8 + (size_t)length;
    for (int i = 0; i < 96; i++)
        bytes[size++] = (uint8_t)next_random(256);
    return size;
}

/* A Caffe net of one layer with two blobs. */
static size_t make_caffe(uint8_t *bytes) {
    static const uint8_t net[] = {
        0xa2, 6,   41,                                       /* layer (100), 41 bytes */
        10,   2,   'f', 'c',                                 /* name */
        18,   12,  'I', 'n', 'n', 'e', 'r', 'P',             /* type */
        'r',  'o', 'd', 'u', 'c', 't',                       /*  */
        58,   10,  42,  8,   0,   0,   1,   2,   3, 4, 5, 6, /* blob, packed data */
        58,   7,   8,   1,   45,  0,   0,   1,   2,          /* blob, one number */
    };
    memcpy(bytes, net, sizeof net);
    return sizeof net;
}

/* What the format is made of, and what breaks it. */
static const char *const words[] = {"-1",         "99999999999999999999",
                                    "4294967296", "[",
                                    "]",          "\"",
                                    "{",          "}",
                                    ",",          "BOOL",
                                    "\\u0000",    ":",
                                    "null"};

static size_t make_model(uint8_t *bytes) {
    return next_random(2) ? make_safetensors(bytes) : make_caffe(bytes);
}

int main(int argc, char **argv) {
    return fuzz_files(argc, argv, "fuzz_models", MAX_FILE, make_model, words,
                      sizeof words / sizeof *words);
}

#endif
