/* src/model/image_file.c - reading an image file as a model takes it. */
#include "model/image_file.h"

#include "base/error.h"
#include "data/formats/landmarks.h"
#include "data/images/image.h"

#include <stdlib.h>

struct ole_aligner {
    ole_landmarks landmarks;
};

/* Fills the model's input from an image; `aligner` NULL: scaled and cropped. */
static ole_status read_image(const ole_aligner *aligner, const ole_model *model, const char *path,
                             const char *file, float *sample, ole_error *error) {
    const ole_model_info *info = ole_model_get_info(model);
    int channels = info->channels, height = info->height, width = info->width;
    if ((channels != 1 && channels != 3) || height * width == 1)
        return ole_fail(error, OLE_ERROR_ARGUMENT,
                        "the model takes %dx%dx%d numbers, not images: use ole_model_predict()",
                        channels, height, width);
    ole_similarity to_source;
    ole_status status = OLE_OK;
    if (aligner)
        status = ole_landmarks_fit(&aligner->landmarks, file, height, width, &to_source, error);
    ole_image image;
    if (status == OLE_OK) status = ole_image_read(path, channels, &image, error);
    if (status != OLE_OK) return status;
    size_t size = (size_t)channels * (size_t)height * (size_t)width;
    uint8_t *bytes = malloc(size);
    if (!bytes)
        status = OLE_ERROR_MEMORY;
    else if (aligner)
        status = ole_image_align(&image, &to_source, height, width, channels, bytes);
    else
        status = ole_image_fit(&image, height, width, channels, bytes);
    if (status != OLE_OK) ole_fail(error, status, "out of memory for an image");
    for (size_t i = 0; i < size && status == OLE_OK; i++)
        sample[i] = (float)bytes[i] / 255.0f;
    free(bytes);
    ole_image_free(&image);
    return status;
}

ole_status ole_model_read_file(const ole_model *m, const char *path, float *sample,
                               ole_error *error) {
    if (!m || !path || !sample)
        return ole_fail(error, OLE_ERROR_ARGUMENT,
                        "ole_model_read_file: model, path or sample is NULL");
    return read_image(NULL, m, path, NULL, sample, error);
}

ole_status ole_aligner_open(ole_aligner **aligner, const char *folder, const char *path,
                            ole_error *error) {
    ole_aligner *a = *aligner = calloc(1, sizeof *a);
    if (!a) return ole_fail(error, OLE_ERROR_MEMORY, "out of memory for landmarks");
    ole_status status = ole_landmarks_read(&a->landmarks, folder, path, error);
    if (status == OLE_OK) return OLE_OK;
    ole_aligner_close(a);
    *aligner = NULL;
    return status;
}

void ole_aligner_close(ole_aligner *aligner) {
    if (!aligner) return;
    ole_landmarks_free(&aligner->landmarks);
    free(aligner);
}

bool ole_aligner_has(const ole_aligner *aligner, const char *file) {
    return ole_landmarks_has(&aligner->landmarks, file);
}

const char *ole_aligner_path(const ole_aligner *aligner) {
    return aligner->landmarks.path;
}

ole_status ole_aligner_read(const ole_aligner *aligner, const ole_model *model, const char *path,
                            const char *file, float *sample, ole_error *error) {
    return read_image(aligner, model, path, file, sample, error);
}
