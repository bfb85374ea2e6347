/*
 * fuzz/fuzz_model.c - a safetensors file: its tensors, read again after writing; its model card;
 * the model with its threshold, the same after saving, run on an image; and its export as ONNX.
 */
#include "formats/safetensors.h"
#include "fuzz.h"
#include "model/model.h"
#include "model/model_card.h"
#include "ole/train/export.h"
#include "ole/train/net.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void read_tensors(const ole_safetensors *file, size_t size) {
    for (size_t i = 0; i < ole_safetensors_count(file); i++) {
        const ole_tensor *tensor = ole_safetensors_get(file, i);
        size_t bytes = (size_t)ole_tensor_count(tensor) * ole_dtype_size(tensor->dtype);
        require(bytes <= size, "more elements than the file has bytes");
        require(ole_safetensors_find(file, tensor->name) == tensor, "a name is there twice");
        touch(tensor->data, bytes);
    }
}

/* Another file with the same tensors and texts. */
static void check_round_trip(const ole_safetensors *file) {
    size_t count = ole_safetensors_count(file), texts = ole_safetensors_texts(file);
    ole_tensor *tensors = calloc(count + 1, sizeof *tensors);
    ole_metadata *metadata = calloc(texts + 1, sizeof *metadata);
    char path[100];
    ole_safetensors *again;
    ole_error error = {0};
    require(tensors && metadata, "out of memory");
    for (size_t i = 0; i < count; i++)
        tensors[i] = *ole_safetensors_get(file, i);
    size_t kept = 0;
    for (size_t i = 0; i < texts; i++) {
        metadata[kept] = ole_safetensors_text(file, i);
        kept += strcmp(metadata[kept].key, "checksum") != 0; /* the writer's own */
    }
    snprintf(path, sizeof path, "%s", fuzz_path("again.safetensors"));
    ole_status status = ole_safetensors_write(path, tensors, count, metadata, kept, &error);
    require(status == OLE_OK, error.message);
    require(ole_safetensors_open(&again, path, &error) == OLE_OK, error.message);
    require(ole_safetensors_count(again) == count, "another number of tensors after writing");
    for (size_t i = 0; i < count; i++) {
        const ole_tensor *t = ole_safetensors_find(again, tensors[i].name);
        size_t bytes = (size_t)ole_tensor_count(&tensors[i]) * ole_dtype_size(tensors[i].dtype);
        require(t && t->dtype == tensors[i].dtype && t->ndim == tensors[i].ndim &&
                    memcmp(t->shape, tensors[i].shape, sizeof t->shape) == 0 &&
                    (bytes == 0 || memcmp(t->data, tensors[i].data, bytes) == 0),
                "another tensor after writing");
    }
    for (size_t i = 0; i < kept; i++) {
        const char *text = ole_safetensors_metadata(again, metadata[i].key);
        require(text && strcmp(text, metadata[i].value) == 0, "another text after writing");
    }
    ole_safetensors_close(again);
    free(tensors);
    free(metadata);
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
    check_round_trip(file);
    ole_card card;
    status = ole_card_read(&card, file, path, &error);
    if (status == OLE_OK)
        ole_card_free(&card);
    else
        check_error(status, &error);
    ole_safetensors_close(file);
}

/* A prediction of a grey image, where the network is small. */
static void predict(ole_model *model) {
    enum { MOST_PIXELS = 4096 };
    static const double most_flop = 1e6;
    const ole_model_info *info = ole_model_get_info(model);
    float image[MOST_PIXELS];
    ole_net *net;
    ole_error error = {0};
    ole_prediction p;
    if ((int64_t)info->channels * info->height * info->width > MOST_PIXELS) return;
    require(ole_net_create(&net, info->net, info->channels, info->height, info->width,
                           info->classes, &error) == OLE_OK,
            "a model without a net");
    bool small = (double)ole_net_totals(net).flop < most_flop;
    ole_net_destroy(net);
    if (!small) return;
    for (int i = 0; i < MOST_PIXELS; i++)
        image[i] = 0.5f;
    ole_status status = ole_model_predict(model, image, 1, &p, &error);
    if (status != OLE_OK)
        check_error(status, &error);
    else
        require(p.label >= -1 && p.label < info->classes && p.best >= 0 && p.best < info->classes,
                "a class that is not there");
}

static ole_card read_card(const char *path) {
    ole_safetensors *file;
    ole_card card;
    ole_error error = {0};
    require(ole_safetensors_open(&file, path, &error) == OLE_OK, error.message);
    require(ole_card_read(&card, file, path, &error) == OLE_OK, error.message);
    ole_safetensors_close(file);
    return card;
}

static void check_same_card(const char *path, const char *saved) {
    ole_card a = read_card(path), b = read_card(saved);
    size_t floats = (size_t)a.input.c * sizeof *a.mean;
    require(strcmp(a.net, b.net) == 0 && memcmp(&a.input, &b.input, sizeof a.input) == 0 &&
                a.classes == b.classes && memcmp(a.mean, b.mean, floats) == 0 &&
                memcmp(a.deviation, b.deviation, floats) == 0,
            "another network after saving");
    for (int i = 0; i < a.classes; i++)
        require(strcmp(a.class_names[i], b.class_names[i]) == 0, "another class after saving");
    require(a.threshold == b.threshold && a.threshold_score == b.threshold_score &&
                a.temperature == b.temperature && a.classifier == b.classifier &&
                a.threshold_from == b.threshold_from && a.threshold_samples == b.threshold_samples,
            "another threshold after saving");
    require(a.fitted.count == b.fitted.count &&
                memcmp(a.fitted.mark, b.fitted.mark,
                       (size_t)a.fitted.count * sizeof *a.fitted.mark) == 0,
            "other marks of rows after saving");
    ole_card_free(&a);
    ole_card_free(&b);
}

static void check_saving(const ole_model *model, const char *path) {
    char saved[100];
    ole_model *again;
    ole_error error = {0};
    snprintf(saved, sizeof saved, "%s", fuzz_path("saved.safetensors"));
    ole_status status = ole_model_save(model, saved, &error);
    if (status != OLE_OK) { /* NaN in the weights */
        check_error(status, &error);
        require(status == OLE_ERROR_NUMERIC, error.message);
        return;
    }
    require(ole_model_load_on(&again, saved, "ref", 1, &error) == OLE_OK, error.message);
    const char *was = ole_model_choice(model), *is = ole_model_choice(again);
    require(!was == !is && strcmp(was ? was : "", is ? is : "") == 0,
            "another choice after saving");
    ole_model_free(again);
    check_same_card(path, saved);
}

static void try_model(const char *path) {
    ole_model *model;
    ole_error error = {0};
    ole_status status = ole_model_load_on(&model, path, "ref", 1, &error);
    if (status != OLE_OK) {
        require(model == NULL, "a model in spite of an error");
        check_error(status, &error);
        return;
    }
    predict(model);
    check_saving(model, path);
    ole_model_free(model);
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
    char kept[100];
    snprintf(kept, sizeof kept, "%s", path);
    path = kept;
    try_safetensors(path, size);
    try_model(path);
    try_export(path);
}
