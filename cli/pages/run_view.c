/*
 * cli/pages/run_view.c - opening a run folder, and running its test set.
 */
#include "pages/run_view.h"

#include "common/model_and_data.h"

#include "common/common.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CHUNK = 256, LARGEST_THUMBNAIL = 64 };

/* ---- Opening ------------------------------------------------------------------------------ */

bool run_view_open(run_view *r, const char *folder, ole_error *error) {
    *r = (run_view){.folder = folder, .view = {.name = folder}};
    ole_train_options_init(&r->options);
    char path[4096];
    snprintf(path, sizeof path, "%s/config.yaml", folder);
    if (ole_recipe_read(&r->recipe, path, &r->options, error) != OLE_OK) return false;
    r->classifier = r->options.loss != OLE_LOSS_OLE;
    return ole_history_read(&r->history, folder, error) == OLE_OK;
}

void run_view_close(run_view *r) {
    feature_view_free(&r->view);
    ole_history_free(&r->history);
    ole_dataset_close(r->set);
    ole_model_free(r->model);
    ole_recipe_free(r->recipe);
    free(r->confusion);
    free(r->features);
    free(r->labels);
    free(r->pixels);
}

const char *run_loss_text(const run_view *r, char out[64]) {
    const char *name = r->options.loss == OLE_LOSS_SOFTMAX ? "softmax"
                       : r->options.loss == OLE_LOSS_OLE   ? "OLÉ alone"
                                                           : "softmax + OLÉ";
    if (r->options.loss == OLE_LOSS_BOTH)
        snprintf(out, 64, "%s, λ = %g", name, r->options.lambda);
    else
        snprintf(out, 64, "%s", name);
    return out;
}

bool run_is_tested(const run_view *r) {
    return !r->options.skip_test && r->split != OLE_SPLIT_VALIDATION;
}

const char *run_error_name(const run_view *r) {
    return run_is_tested(r) ? "test error" : "validation error";
}

double run_error(const run_view *r) {
    if (!r->classifier || r->count == 0 || r->without[0])
        return run_is_tested(r) ? r->history.test_error : r->history.validation_error;
    return 100.0 * (double)(r->count - r->correct) / (double)r->count;
}

/* The data as in training; false with the reason in r->without, or after an error that has nothing
 * to do with them: there was no memory. */
static bool open_data(run_view *r, int threads, ole_error *error) {
    const ole_train_options *o = &r->options;
    ole_dataset_options options = run_dataset_options(o, threads);
    options.skip_test = o->skip_test;
    const char *file = r->weights ? r->weights : r->folder;
    ole_status status = ole_model_load(&r->model, file, threads, error);
    if (status == OLE_OK) status = ole_dataset_open(&r->set, o->data, &options, error);
    if (status != OLE_OK) {
        if (status != OLE_ERROR_MEMORY)
            snprintf(r->without, sizeof r->without, "%s", error->message);
        return false;
    }
    const ole_dataset_info *info = ole_dataset_get_info(r->set);
    const ole_model_info *model = ole_model_get_info(r->model);
    r->split = info->count[OLE_SPLIT_TEST] > 0 ? OLE_SPLIT_TEST : OLE_SPLIT_VALIDATION;
    r->count = info->count[r->split];
    if (r->count == 0)
        snprintf(r->without, sizeof r->without,
                 o->skip_test
                     ? "%s: the test split was not to be looked at, and nothing is held out"
                     : "%s has no test part",
                 o->data);
    else if (info->channels != model->channels || info->height != model->height ||
             info->width != model->width || info->classes != model->classes)
        snprintf(r->without, sizeof r->without, "%s is not what the model was trained on", o->data);
    if (r->without[0]) return false;
    const trained_data run = {.options = *o, .same = true};
    const data_flags none = {.samples_per_class = -1};
    trained_data_compare(&run, "report", &none, r->model, r->set);
    return true;
}

/* ---- Pixels ------------------------------------------------------------------------------- */

/* How many pixels of a sample go into one of a thumbnail's, along a side. */
static int shrink_of(const ole_dataset_info *info) {
    int side = info->height > info->width ? info->height : info->width;
    return (side + LARGEST_THUMBNAIL - 1) / LARGEST_THUMBNAIL;
}

/* Planes of floats to interleaved bytes; floats that are no bytes go from their least to most. */
static void to_pixels(const run_view *r, const float *sample, uint8_t *out) {
    const ole_dataset_info *info = ole_dataset_get_info(r->set);
    int step = shrink_of(info);
    size_t plane = (size_t)info->height * (size_t)info->width;
    float low = 0, high = 1;
    for (size_t i = 0; !info->bytes && i < plane * (size_t)info->channels; i++) {
        if (i == 0 || sample[i] < low) low = sample[i];
        if (i == 0 || sample[i] > high) high = sample[i];
    }
    float scale = high > low ? 255 / (high - low) : 0;
    for (int y = 0; y < r->images.height; y++)
        for (int x = 0; x < r->images.width; x++)
            for (int c = 0; c < info->channels; c++) {
                float sum = 0;
                for (int k = 0; k < step * step; k++)
                    sum += sample[(size_t)c * plane +
                                  (size_t)(y * step + k / step) * (size_t)info->width +
                                  (size_t)(x * step + k % step)];
                float value = (sum / (float)(step * step) - low) * scale + 0.5f;
                *out++ = (uint8_t)(value < 0 ? 0 : value > 255 ? 255 : value);
            }
}

bool run_view_pixels(const run_view *r, int64_t sample, uint8_t *out, ole_error *error) {
    const ole_dataset_info *info = ole_dataset_get_info(r->set);
    float *planes = malloc((size_t)(info->channels * info->height * info->width) * sizeof *planes);
    bool good = planes && ole_dataset_sample(r->set, r->split, sample, planes, error) == OLE_OK;
    if (good) to_pixels(r, planes, out);
    if (!planes) *error = (ole_error){OLE_ERROR_MEMORY, "out of memory"};
    free(planes);
    return good;
}

/* ---- Running ------------------------------------------------------------------------------ */

/* Sample i is kept as number *kept of `keep` spread evenly over all. */
static bool is_kept(const run_view *r, int64_t keep, int64_t i, int64_t *kept) {
    *kept = (i * keep + r->count - 1) / r->count;
    return *kept < keep && *kept * r->count / keep == i;
}

/* Keeps the surest, the surest first. */
static void add_mistake(run_view *r, const run_mistake *m) {
    if (r->mistake_count < RUN_MISTAKES)
        r->mistake_count++;
    else if (r->mistakes[RUN_MISTAKES - 1].score >= m->score)
        return;
    int at = r->mistake_count - 1;
    for (; at > 0 && r->mistakes[at - 1].score < m->score; at--)
        r->mistakes[at] = r->mistakes[at - 1];
    r->mistakes[at] = *m;
}

/* What the classifier says of a sample. */
static void judge(run_view *r, int64_t sample, int truth, const float *logits, int classes) {
    int taken = 0;
    double sum = 0;
    for (int c = 1; c < classes; c++)
        if (logits[c] > logits[taken]) taken = c;
    for (int c = 0; c < classes; c++)
        sum += exp((double)logits[c] - logits[taken]);
    r->confusion[truth * classes + taken]++;
    r->correct += truth == taken;
    if (truth != taken) add_mistake(r, &(run_mistake){sample, truth, taken, (float)(1 / sum)});
}

/* What a chunk needs. */
typedef struct chunk {
    float *samples, *features, *logits;
} chunk;

static bool run_chunk(run_view *r, chunk *k, int64_t first, int64_t keep, ole_error *error) {
    const ole_model_info *model = ole_model_get_info(r->model);
    const int32_t *labels = ole_dataset_labels(r->set, r->split);
    size_t size = (size_t)(model->channels * model->height * model->width);
    size_t pixels = (size_t)(r->images.width * r->images.height * r->images.channels);
    int64_t count = r->count - first < CHUNK ? r->count - first : CHUNK, kept;
    for (int64_t i = 0; i < count; i++)
        if (ole_dataset_sample(r->set, r->split, first + i, k->samples + (size_t)i * size, error) !=
            OLE_OK)
            return false;
    if (ole_model_run(r->model, k->samples, count, k->features, k->logits, error) != OLE_OK)
        return false;
    for (int64_t i = 0; i < count; i++) {
        judge(r, first + i, labels[first + i], k->logits + i * model->classes, model->classes);
        if (!is_kept(r, keep, first + i, &kept)) continue;
        memcpy(r->features + kept * model->features, k->features + i * model->features,
               (size_t)model->features * sizeof(float));
        r->labels[kept] = labels[first + i];
        if (r->pixels)
            to_pixels(r, k->samples + (size_t)i * size, r->pixels + (size_t)kept * pixels);
    }
    return true;
}

static bool run_all(run_view *r, int64_t keep, const feature_options *o, ole_error *error) {
    const ole_model_info *m = ole_model_get_info(r->model);
    size_t size = (size_t)(m->channels * m->height * m->width);
    chunk k = {malloc(CHUNK * size * sizeof(float)),
               malloc(CHUNK * (size_t)m->features * sizeof(float)),
               malloc(CHUNK * (size_t)m->classes * sizeof(float))};
    bool good = k.samples && k.features && k.logits;
    if (!good) snprintf(error->message, sizeof error->message, "out of memory");
    for (int64_t first = 0; good && first < r->count; first += CHUNK) {
        char bar[BAR_ROOM];
        if (progress_due(o->line))
            progress_show(o->line, "%s  %s", bar_text((double)first / (double)r->count, bar),
                          r->folder);
        good = run_chunk(r, &k, first, keep, error) && !interrupted();
    }
    free(k.samples);
    free(k.features);
    free(k.logits);
    return good;
}

static bool allocate(run_view *r, int64_t keep, ole_error *error) {
    const ole_dataset_info *info = ole_dataset_get_info(r->set);
    const ole_model_info *m = ole_model_get_info(r->model);
    bool image =
        (info->channels == 1 || info->channels == 3) && info->height > 1 && info->width > 1;
    int step = shrink_of(info);
    r->confusion = calloc((size_t)m->classes * (size_t)m->classes, sizeof *r->confusion);
    r->features = malloc((size_t)(keep * m->features) * sizeof *r->features);
    r->labels = malloc((size_t)keep * sizeof *r->labels);
    bool good = r->confusion && r->features && r->labels;
    if (image) {
        r->images = (ole_page_images){.count = keep,
                                      .width = info->width / step,
                                      .height = info->height / step,
                                      .channels = info->channels};
        size_t pixels = (size_t)(r->images.width * r->images.height * r->images.channels);
        r->images.pixels = r->pixels = malloc((size_t)keep * pixels);
        good = good && r->pixels;
    }
    if (!good) snprintf(error->message, sizeof error->message, "out of memory");
    return good;
}

bool run_view_measure(run_view *r, const feature_options *o, ole_error *error) {
    if (!open_data(r, o->threads, error)) return r->without[0];
    const ole_model_info *m = ole_model_get_info(r->model);
    int64_t keep = r->count < RUN_MOST_KEPT ? r->count : RUN_MOST_KEPT;
    if (!allocate(r, keep, error) || !run_all(r, keep, o, error)) return false;
    r->view.count = keep;
    r->view.dim = m->features;
    r->view.features = r->features;
    r->view.labels = r->labels;
    r->view.classes = m->classes;
    r->view.class_names = m->class_names;
    return feature_view_measure(&r->view, o, error);
}
