/*
 * src/report/run_view.c - opening a run folder, and its model's outputs on the test set.
 *
 * A model fresh from training brings the outputs of its last evaluation; any other is run here.
 */
#include "report/run_view.h"

#include "base/error.h"
#include "base/quote.h"
#include "model/confidence.h"
#include "model/model.h"
#include "model/split_runner.h"
#include "train/options/option_table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_KEPT = 10000 };

/* ---- Opening ------------------------------------------------------------------------------ */

ole_status ole_run_view_open(ole_run_view *r, const char *folder, ole_error *error) {
    *r = (ole_run_view){.weights = NULL};
    snprintf(r->folder, sizeof r->folder, "%s", folder);
    ole_train_options_init(&r->options);
    char path[OLE_RUN_PATH];
    ole_status status = ole_run_path(path, folder, "config.yaml", error);
    if (status == OLE_OK) status = ole_recipe_read(&r->recipe, path, &r->options, error);
    if (status == OLE_OK) status = ole_history_read(&r->history, folder, error);
    r->classifier = (r->options.loss & OLE_LOSS_CLASSIFIERS);
    return status;
}

ole_status ole_run_view_open_model(ole_run_view *r, const char *file, const char *data,
                                   ole_error *error) {
    *r = (ole_run_view){.lone = true};
    if (snprintf(r->folder, sizeof r->folder, "%s", file) >= (int)sizeof r->folder)
        return ole_fail(error, OLE_ERROR_ARGUMENT, "%.100s...: the path is too long", file);
    ole_train_options_init(&r->options);
    r->options.data = data;
    r->options.test_share = 0.0;
    r->options.val_split = 0.0;
    return OLE_OK;
}

void ole_run_view_close(ole_run_view *r) {
    if (r->measured) ole_analysis_free(&r->analysis);
    ole_history_free(&r->history);
    ole_dataset_close(r->set);
    if (!r->borrowed) ole_model_free(r->model);
    ole_recipe_free(r->recipe);
    free(r->confusion);
    free(r->class_of);
}

/* Whether a folder or files changed since the training, as far as normalisation tells. */
static bool has_changed(const ole_run_view *r) {
    const ole_train_options *o = &r->options;
    bool files = strncmp(o->data, "folder:", 7) == 0 || strncmp(o->data, "npy:", 4) == 0;
    bool automatic = !o->normalize || strcmp(o->normalize, "auto") == 0;
    return files && automatic && !ole_model_trained_on(r->model, r->set);
}

/* A model's file alone: its data must be there, with classes that it knows. */
static ole_status load_lone(ole_run_view *r, ole_error *error) {
    int threads = ole_threads(r->report->threads), stranger;
    ole_dataset_options options;
    ole_status status = ole_model_load_on(&r->model, r->folder, r->report->device, threads, error);
    if (status != OLE_OK) return status;
    const ole_model_info *model = ole_model_get_info(r->model);
    r->classifier = model->classifier;
    r->without_data = !r->options.data;
    if (r->without_data) {
        snprintf(r->without, sizeof r->without, "pass --data to choose the samples");
        return OLE_OK;
    }
    ole_train_dataset_options(&r->options, &options);
    options.threads = threads;
    status = ole_dataset_open(&r->set, r->options.data, &options, error);
    if (status != OLE_OK) return status;
    const ole_dataset_info *set = ole_dataset_get_info(r->set);
    r->class_of = malloc(((size_t)set->classes + 1) * sizeof *r->class_of);
    if (!r->class_of) return ole_fail(error, OLE_ERROR_MEMORY, "out of memory");
    if (ole_model_find_classes(model, set, r->class_of, &stranger) < set->classes)
        return ole_fail(error, OLE_ERROR_ARGUMENT, "%s: the model does not know the class '%s'",
                        set->name, ole_quote_string(set->class_names[stranger]).text);
    r->split = set->count[OLE_SPLIT_TEST] > 0 ? OLE_SPLIT_TEST : OLE_SPLIT_TRAIN;
    r->count = set->count[r->split];
    r->fitted_on = ole_model_fitted_on(r->model, r->set, r->split);
    return OLE_OK;
}

ole_status ole_run_view_load(ole_run_view *r, const ole_report_options *report, ole_error *error) {
    const ole_train_options *o = &r->options;
    int threads = ole_threads(report->threads);
    ole_dataset_options options;
    r->report = report;
    if (r->lone) return load_lone(r, error);
    ole_train_dataset_options(o, &options);
    options.threads = threads;
    options.skip_test = o->skip_test;
    ole_error why;
    ole_status status = OLE_OK;
    r->borrowed = r->report->model != NULL;
    r->model = r->report->model;
    if (!r->borrowed)
        status = ole_model_load_on(&r->model, r->weights ? r->weights : r->folder,
                                   r->report->device, threads, &why);
    if (status == OLE_OK) {
        status = ole_dataset_open(&r->set, o->data, &options, &why);
        r->without_data = status != OLE_OK;
    }
    if (status == OLE_ERROR_MEMORY) return ole_fail(error, status, "%s", why.message);
    if (status != OLE_OK) {
        snprintf(r->without, sizeof r->without, "%s", why.message);
        return OLE_OK;
    }
    const ole_dataset_info *info = ole_dataset_get_info(r->set);
    const ole_model_info *model = ole_model_get_info(r->model);
    r->split = info->count[OLE_SPLIT_TEST] > 0 ? OLE_SPLIT_TEST : OLE_SPLIT_VALIDATION;
    r->count = info->count[r->split];
    if (r->count == 0)
        snprintf(r->without, sizeof r->without,
                 o->skip_test ? "%s: the run skips the test split and has no validation split"
                              : "%s has no test split",
                 o->data);
    else if (info->channels != model->channels || info->height != model->height ||
             info->width != model->width || info->classes != model->classes)
        snprintf(r->without, sizeof r->without, "%s is not the data the model was trained on",
                 o->data);
    else
        r->changed = has_changed(r);
    return OLE_OK;
}

/* ---- Thumbnails --------------------------------------------------------------------------- */

/* How many pixels of a sample go into one of a thumbnail's, along a side. */
static int shrink_of(const ole_dataset_info *info, int side) {
    int longest = info->height > info->width ? info->height : info->width;
    return (longest + side - 1) / side;
}

/* Planes of floats to interleaved bytes; floats that are no bytes go from their least to most. */
static void to_pixels(const ole_dataset_info *info, const float *sample, int step, uint8_t *out) {
    size_t plane = (size_t)info->height * (size_t)info->width;
    float low = 0, high = 1;
    for (size_t i = 0; !info->bytes && i < plane * (size_t)info->channels; i++) {
        if (i == 0 || sample[i] < low) low = sample[i];
        if (i == 0 || sample[i] > high) high = sample[i];
    }
    float scale = high > low ? 255 / (high - low) : 0;
    for (int y = 0; y < info->height / step; y++)
        for (int x = 0; x < info->width / step; x++)
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

/* Sample k of those analysed, which are spread evenly over the split. */
static int64_t kept_sample(const ole_run_view *r, int64_t k) {
    return k * r->count / r->kept;
}

ole_status ole_run_view_images(const ole_run_view *r, const int64_t *samples, int64_t count,
                               int side, ole_page_images *images, uint8_t **pixels,
                               ole_error *error) {
    const ole_dataset_info *info = ole_dataset_get_info(r->set);
    int step = shrink_of(info, side), width = info->width / step, height = info->height / step;
    size_t size = (size_t)width * (size_t)height * (size_t)info->channels;
    *pixels = NULL;
    if ((info->channels != 1 && info->channels != 3) || info->height < 2 || info->width < 2)
        return OLE_OK;
    uint8_t *all = malloc((size_t)count * size + 1);
    float *sample = malloc((size_t)(info->channels * info->height * info->width) * sizeof *sample);
    ole_status status = OLE_OK;
    if (!all || !sample) status = ole_fail(error, OLE_ERROR_MEMORY, "out of memory for thumbnails");
    for (int64_t k = 0; k < count && status == OLE_OK; k++) {
        int64_t from = samples ? samples[k] : kept_sample(r, k);
        status = ole_dataset_sample(r->set, r->split, from, sample, error);
        if (status == OLE_OK) to_pixels(info, sample, step, all + (size_t)k * size);
    }
    free(sample);
    if (status != OLE_OK) {
        free(all);
        return status;
    }
    *pixels = all;
    *images = (ole_page_images){count, width, height, info->channels, all, NULL};
    return OLE_OK;
}

const char **ole_run_view_files(const ole_run_view *r) {
    if (!ole_dataset_file_name(r->set, r->split, 0)) return NULL;
    const char **files = malloc((size_t)r->kept * sizeof *files);
    for (int64_t k = 0; files && k < r->kept; k++)
        files[k] = ole_dataset_file_name(r->set, r->split, kept_sample(r, k));
    return files;
}

/* ---- Judging ------------------------------------------------------------------------------ */

/* A sample's class, as the model numbers it. */
static int truth_of(const ole_run_view *r, const ole_outputs *o, int64_t sample) {
    int label = o->labels[sample];
    return r->class_of ? r->class_of[label] : label;
}

/* Keeps the surest, the surest first. */
static void add_mistake(ole_run_view *r, const ole_mistake *m) {
    if (r->mistake_count < OLE_MISTAKES)
        r->mistake_count++;
    else if (r->mistakes[OLE_MISTAKES - 1].score >= m->score)
        return;
    int at = r->mistake_count - 1;
    for (; at > 0 && r->mistakes[at - 1].score < m->score; at--)
        r->mistakes[at] = r->mistakes[at - 1];
    r->mistakes[at] = *m;
}

static ole_status judge(ole_run_view *r, const ole_outputs *o, ole_error *error) {
    int classes = ole_model_get_info(r->model)->classes;
    r->confusion = calloc((size_t)classes * (size_t)classes, sizeof *r->confusion);
    if (!r->confusion) return ole_fail(error, OLE_ERROR_MEMORY, "out of memory");
    for (int64_t i = 0; i < r->count; i++) {
        const float *logits = o->logits + i * classes;
        int truth = truth_of(r, o, i), taken = ole_largest(logits, classes);
        r->confusion[truth * classes + taken]++;
        r->correct += truth == taken;
        if (truth == taken) continue;
        float score = (float)ole_largest_softmax(logits, classes, 1.0);
        add_mistake(r, &(ole_mistake){i, truth, taken, score});
    }
    return OLE_OK;
}

/* ---- Measuring ---------------------------------------------------------------------------- */

/* An ole_progress. */
static void tell(void *view, const char *what, double share) {
    ole_run_view *r = view;
    if (!r->stopped && r->report->callback)
        r->stopped = r->report->callback(r->report->callback_context, what, share);
}

/* An ole_part_callback. */
static bool tell_part(void *view, const char *part, int64_t done, int64_t total) {
    ole_run_view *r = view;
    tell(r, part, (double)done / (double)total);
    return r->stopped;
}

static bool is_stopped(void *view) {
    const ole_run_view *r = view;
    return r->stopped;
}

static ole_status analyze(ole_run_view *r, const ole_outputs *outputs,
                          const ole_analyze_options *given, ole_error *error) {
    const ole_model_info *m = ole_model_get_info(r->model);
    size_t bytes = (size_t)m->features * sizeof(float);
    r->kept = r->count < MOST_KEPT ? r->count : MOST_KEPT;
    char *features = malloc((size_t)r->kept * bytes);
    int64_t *labels = malloc((size_t)r->kept * sizeof *labels);
    ole_status status = OLE_OK;
    if (!features || !labels) status = ole_fail(error, OLE_ERROR_MEMORY, "out of memory");
    for (int64_t k = 0; k < r->kept && status == OLE_OK; k++) {
        int64_t sample = kept_sample(r, k);
        memcpy(features + (size_t)k * bytes, outputs->features + sample * m->features, bytes);
        labels[k] = truth_of(r, outputs, sample);
    }
    ole_analyze_options options = *given;
    options.threads = ole_threads(r->report->threads);
    options.progress = tell;
    options.stop = is_stopped;
    options.context = r;
    options.names = m->class_names;
    options.name_count = m->classes;
    const ole_embedding e = {r->kept, m->features, OLE_F32, features, labels};
    if (status == OLE_OK) status = ole_analyze(&r->analysis, &e, &options, error);
    r->measured = status == OLE_OK && r->analysis.rows > 0;
    free(features);
    free(labels);
    return status;
}

ole_status ole_run_view_measure(ole_run_view *r, const ole_report_options *report,
                                const ole_analyze_options *given, ole_error *error) {
    ole_status status = ole_run_view_load(r, report, error);
    if (status != OLE_OK || r->without[0]) return status;
    ole_outputs own = {0};
    const ole_outputs *outputs = ole_model_outputs(r->model, r->split);
    if (!outputs || outputs->count != r->count || (r->classifier && !outputs->logits)) {
        const ole_part part = {ole_split_part(r->split), r->set, r->split, false, tell_part, r};
        bool stopped;
        status = ole_outputs_collect(&own, r->model, &part, r->classifier, &stopped, error);
        outputs = &own;
    }
    if (status == OLE_OK && !r->stopped && r->classifier) status = judge(r, outputs, error);
    if (status == OLE_OK && !r->stopped) status = analyze(r, outputs, given, error);
    ole_outputs_free(&own);
    return status;
}
