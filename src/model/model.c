/* src/model/model.c - trained models: loading, running, predicting. */
#include "model/model.h"

#include "base/available_memory.h"
#include "base/error.h"
#include "base/in_use.h"
#include "base/quote.h"
#include "data/images/image.h"
#include "data/source.h"
#include "model/checkpoint.h"
#include "model/confidence.h"
#include "model/split_runner.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { SIZES = 2 };
static const int64_t batch_sizes[SIZES] = {1, 32}; /* a single image need not wait for 31 more */

struct ole_model {
    ole_card card;
    ole_network network;
    ole_inference inference[SIZES];  /* opened when first used */
    ole_score_directions directions; /* needed by the threshold's score */
    ole_outputs outputs;             /* of `outputs_split`, from training; or empty */
    ole_split outputs_split;
    ole_model_info info;
    ole_part_callback *callback; /* or NULL */
    void *callback_context;
    ole_in_use in_use; /* by a run or a prediction, not between the batches of a split */
};

/* ---- Making ------------------------------------------------------------------------------- */

/* Opens a network for a model card, with zero weights. Takes ownership of the card. */
static ole_status open_model(ole_model **result, ole_card *card, const char *device, int threads,
                             ole_error *error) {
    *result = NULL;
    ole_model *m = calloc(1, sizeof *m);
    if (!m) {
        ole_card_free(card);
        return ole_fail(error, OLE_ERROR_MEMORY, "out of memory for a model");
    }
    m->card = *card;
    const ole_network_options options = {.net = card->net,
                                         .input = card->input,
                                         .classes = card->classes,
                                         .device = device,
                                         .precision = "fp32",
                                         .conv = "auto",
                                         .threads = threads};
    ole_status status = ole_network_open(&m->network, &options, error);
    if (status != OLE_OK) {
        ole_model_free(m);
        return status;
    }
    m->info = (ole_model_info){.net = m->card.net,
                               .channels = (int)m->card.input.c,
                               .height = (int)m->card.input.h,
                               .width = (int)m->card.input.w,
                               .features = ole_network_feature_size(&m->network),
                               .classes = m->card.classes,
                               .class_names = (const char *const *)m->card.class_names,
                               .threshold = m->card.threshold,
                               .threshold_score = m->card.threshold_score,
                               .temperature = m->card.temperature,
                               .classifier = m->card.classifier};
    *result = m;
    return OLE_OK;
}

ole_status ole_model_build(ole_model **model, const ole_network *network, const ole_card *card,
                           const char *device, ole_outputs *outputs, ole_split split,
                           ole_error *error) {
    *model = NULL;
    float *plain = ole_network_plain(network);
    if (!plain) return ole_fail(error, OLE_ERROR_MEMORY, "out of memory for a model");
    ole_card copy;
    ole_status status = ole_card_copy(&copy, card, error);
    if (status == OLE_OK) status = open_model(model, &copy, device, network->threads, error);
    for (int i = 0; status == OLE_OK && i < network->graph->params; i++) {
        ole_params_get(network->params, i, plain);
        ole_params_set((*model)->network.params, i, plain);
    }
    free(plain);
    if (status != OLE_OK) return status;
    (*model)->outputs = *outputs;
    (*model)->outputs_split = split;
    *outputs = (ole_outputs){0};
    return OLE_OK;
}

const ole_outputs *ole_model_outputs(const ole_model *m, ole_split split) {
    return m->outputs.features && m->outputs_split == split ? &m->outputs : NULL;
}

ole_status ole_model_find(const char *path, char file[OLE_RUN_PATH], ole_error *error) {
    struct stat about;
    if (stat(path, &about) != 0 || !S_ISDIR(about.st_mode)) {
        strncpy(file, path, OLE_RUN_PATH - 1);
        file[OLE_RUN_PATH - 1] = '\0';
        return OLE_OK;
    }
    if (ole_run_has(path, "best.safetensors"))
        return ole_run_path(file, path, "best.safetensors", error);
    if (ole_run_has(path, "last.safetensors"))
        return ole_run_path(file, path, "last.safetensors", error);
    ole_quoted quoted;
    return ole_fail(error, OLE_ERROR_IO,
                    "%s: no run of 'ole train': neither best.safetensors nor last.safetensors is "
                    "there",
                    ole_quote_string(&quoted, path));
}

ole_status ole_model_load(ole_model **model, const char *path, int threads, ole_error *error) {
    return ole_model_load_on(model, path, "auto", threads, error);
}

ole_status ole_model_load_on(ole_model **model, const char *path, const char *device, int threads,
                             ole_error *error) {
    if (!model || !path)
        return ole_fail(error, OLE_ERROR_ARGUMENT, "ole_model_load: model or path is NULL");
    *model = NULL;
    if (threads < 0 || threads > 1024)
        return ole_fail(error, OLE_ERROR_ARGUMENT,
                        "ole_model_load: threads is %d: give 1 to 1024, or 0 for all", threads);
    char name[OLE_RUN_PATH];
    ole_status status = ole_model_find(path, name, error);
    if (status != OLE_OK) return status;
    ole_safetensors *file;
    ole_card card;
    ole_graph *graph = NULL;
    status = ole_safetensors_open(&file, name, error);
    if (status == OLE_OK) status = ole_card_read(&card, file, name, error);
    if (status == OLE_OK) {
        status = ole_stored_graph(&graph, &card, file, name, error); /* it has all weights */
        ole_graph_free(graph);
        if (status == OLE_OK)
            status = open_model(model, &card, device, threads, error);
        else
            ole_card_free(&card);
    }
    if (status == OLE_OK) status = ole_weights_load(file, name, &(*model)->network, error);
    if (status == OLE_OK)
        status =
            ole_score_directions_read(&(*model)->directions, file, name, &(*model)->info, error);
    ole_safetensors_close(file);
    if (status != OLE_OK) {
        ole_model_free(*model);
        *model = NULL;
    }
    return status;
}

void ole_model_free(ole_model *model) {
    if (!model) return;
    for (int k = 0; k < SIZES; k++)
        ole_inference_close(&model->inference[k]);
    ole_network_close(&model->network);
    ole_card_free(&model->card);
    ole_score_directions_free(&model->directions);
    ole_outputs_free(&model->outputs);
    free(model);
}

const ole_model_info *ole_model_get_info(const ole_model *model) {
    return model ? &model->info : NULL;
}

/* ---- Running ------------------------------------------------------------------------------ */

/* The inference for batches of `count` images. */
static ole_status get_inference(ole_model *m, int64_t count, ole_inference **inference,
                                ole_error *error) {
    int k = count > 1 ? 1 : 0;
    *inference = &m->inference[k];
    if ((*inference)->plan) return OLE_OK;
    return ole_inference_open(*inference, &m->network, NULL, batch_sizes[k], error);
}

static ole_status check_images(const ole_model *m, const float *images, int64_t count,
                               ole_error *error) {
    int64_t bad = ole_find_not_finite(images, count, ole_network_image_size(&m->network));
    if (bad < 0) return OLE_OK;
    return ole_fail(error, OLE_ERROR_DATA, "image %" PRId64 " holds NaN or Inf", bad);
}

/* Runs at most one batch; the results are in inference->features and ->logits. */
static ole_status run_batch(const ole_model *m, ole_inference *inference, const float *images,
                            int64_t rows, ole_error *error) {
    ole_card_normalize(&m->card, images, rows, inference->images);
    return ole_inference_run(inference, inference->images, rows, error);
}

static ole_status run_batches(ole_model *m, const float *images, int64_t count, float *features,
                              float *logits, ole_error *error) {
    ole_inference *inference;
    ole_status status = get_inference(m, count, &inference, error);
    if (status != OLE_OK) return status;
    size_t size = (size_t)ole_network_image_size(&m->network);
    size_t dim = (size_t)m->info.features, classes = (size_t)m->info.classes;
    for (int64_t first = 0; first < count; first += inference->batch) {
        int64_t rows = count - first < inference->batch ? count - first : inference->batch;
        status = run_batch(m, inference, images + (size_t)first * size, rows, error);
        if (status != OLE_OK) return status;
        if (features)
            memcpy(features + (size_t)first * dim, inference->features,
                   (size_t)rows * dim * sizeof(float));
        if (logits)
            memcpy(logits + (size_t)first * classes, inference->logits,
                   (size_t)rows * classes * sizeof(float));
    }
    return OLE_OK;
}

ole_status ole_model_run(ole_model *m, const float *images, int64_t count, float *features,
                         float *logits, ole_error *error) {
    if (!m || !images || count < 1)
        return ole_fail(error, OLE_ERROR_ARGUMENT,
                        "ole_model_run: model or images is NULL, or count is not positive");
    ole_status status = check_images(m, images, count, error);
    if (status != OLE_OK) return status;
    if (!ole_in_use_take(&m->in_use, "model", error)) return OLE_ERROR_ARGUMENT;
    status = run_batches(m, images, count, features, logits, error);
    ole_in_use_release(&m->in_use);
    return status;
}

/* "vectors of 6" or "3x32x32". */
static const char *show_shape(char text[48], int channels, int height, int width) {
    if (height == 1 && width == 1)
        snprintf(text, 48, "vectors of %d", channels);
    else
        snprintf(text, 48, "%dx%dx%d", channels, height, width);
    return text;
}

static ole_status check_shape(const ole_model *m, const ole_dataset_info *info, ole_error *error) {
    if (info->channels == m->info.channels && info->height == m->info.height &&
        info->width == m->info.width)
        return OLE_OK;
    char taken[48], found[48];
    return ole_fail(error, OLE_ERROR_ARGUMENT, "the model takes %s, the samples of %s are %s",
                    show_shape(taken, m->info.channels, m->info.height, m->info.width), info->name,
                    show_shape(found, info->channels, info->height, info->width));
}

bool ole_model_trained_on(const ole_model *m, const ole_dataset *set) {
    if (!m || !set || check_shape(m, ole_dataset_get_info(set), NULL) != OLE_OK) return false;
    ole_card made = {.input = m->card.input};
    return ole_dataset_statistics(set, made.mean, made.deviation, NULL) == OLE_OK &&
           ole_card_same_samples(&m->card, &made);
}

void ole_model_watch(ole_model *m, ole_part_callback *callback, void *context) {
    m->callback = callback;
    m->callback_context = context;
}

bool ole_model_report(void *model, const char *part, int64_t done, int64_t total) {
    const ole_model *m = model;
    return m->callback && m->callback(m->callback_context, part, done, total);
}

/* Runs one split through the model; `before` of `total` samples of the part are done. */
static ole_status run_split(ole_model *m, const ole_part *part, ole_split split, int64_t before,
                            int64_t total, ole_runner_outputs *outputs, ole_error *error) {
    ole_inference *inference;
    ole_status status = check_shape(m, ole_dataset_get_info(part->set), error);
    if (status == OLE_OK) status = get_inference(m, total, &inference, error);
    if (status != OLE_OK) return status;
    const ole_split_runner runner = {.inference = inference,
                                     .card = &m->card,
                                     .batch = inference->batch,
                                     .in_use = &m->in_use,
                                     .finite = true,
                                     .callback = part->callback,
                                     .callback_context = part->callback_context,
                                     .part = part->name,
                                     .before = before,
                                     .total = total};
    return ole_split_run(&runner, part->set, split, outputs, error);
}

ole_status ole_model_run_split(ole_model *m, const ole_dataset *set, ole_split split,
                               float *features, float *logits, ole_error *error) {
    if (!m || !set)
        return ole_fail(error, OLE_ERROR_ARGUMENT, "ole_model_run_split: model or set is NULL");
    const ole_part part = {ole_split_part(split), set, split, false, ole_model_report, m};
    ole_runner_outputs outputs = {.features = features, .logits = logits};
    return run_split(m, &part, split, 0, ole_dataset_get_info(set)->count[split], &outputs, error);
}

ole_status ole_outputs_collect(ole_outputs *outputs, ole_model *m, const ole_part *part,
                               bool logits, bool *stopped, ole_error *error) {
    const int64_t *count = ole_dataset_get_info(part->set)->count;
    int64_t total = 0;
    for (int s = 0; s < 3; s++)
        if (part->all || s == (int)part->split) total += count[s];
    size_t rows = (size_t)total + 1;
    *stopped = false;
    *outputs = (ole_outputs){.features = malloc(rows * (size_t)m->info.features * sizeof(float)),
                             .labels = malloc(rows * sizeof *outputs->labels)};
    if (logits) outputs->logits = malloc(rows * (size_t)m->info.classes * sizeof(float));
    ole_status status = OLE_OK;
    if (!outputs->features || !outputs->labels || (logits && !outputs->logits))
        status = ole_fail(error, OLE_ERROR_MEMORY,
                          "out of memory for the features of %" PRId64 " %s", total, part->name);
    for (int s = 0; s < 3 && status == OLE_OK && !*stopped; s++) {
        if ((!part->all && s != (int)part->split) || count[s] == 0) continue;
        int64_t at = outputs->count;
        ole_runner_outputs out = {.features = outputs->features + at * m->info.features,
                                  .logits = logits ? outputs->logits + at * m->info.classes : NULL};
        status = run_split(m, part, (ole_split)s, at, total, &out, error);
        memcpy(outputs->labels + at, ole_dataset_labels(part->set, (ole_split)s),
               (size_t)count[s] * sizeof *outputs->labels);
        outputs->count += count[s];
        *stopped = out.stopped;
    }
    if (status != OLE_OK || *stopped) ole_outputs_free(outputs);
    return status;
}

void ole_outputs_free(ole_outputs *outputs) {
    free(outputs->features);
    free(outputs->logits);
    free(outputs->labels);
    *outputs = (ole_outputs){0};
}

ole_status ole_outputs_subspaces(ole_subspaces *subspaces, const ole_outputs *o, int64_t dim,
                                 ole_pool *pool, int threads, ole_error *error) {
    int64_t *labels = malloc(((size_t)o->count + 1) * sizeof *labels);
    if (!labels) return ole_fail(error, OLE_ERROR_MEMORY, "out of memory");
    for (int64_t i = 0; i < o->count; i++)
        labels[i] = o->labels[i];
    const ole_embedding e = {o->count, dim, OLE_F32, o->features, labels};
    ole_status status = ole_subspaces_create(subspaces, &e, 0.95, pool, threads, error);
    free(labels);
    return status;
}

/* ---- Predicting --------------------------------------------------------------------------- */

void ole_model_judge(const ole_model *m, const float *feature, const float *logits,
                     ole_prediction *p) {
    const ole_scorer scorer = {m->info.threshold_score, m->info.classes, m->info.temperature,
                               &m->directions};
    int order[1 + OLE_RUNNERS_UP];
    double score[1 + OLE_RUNNERS_UP], largest;
    double sum = ole_sum_exp(logits, m->info.classes, m->info.temperature, &largest);
    for (int k = 0; k < 1 + OLE_RUNNERS_UP; k++) {
        order[k] = -1;
        score[k] = 0.0;
        for (int c = 0; c < m->info.classes; c++) {
            bool taken = false;
            for (int i = 0; i < k; i++)
                taken |= order[i] == c;
            if (!taken && (order[k] < 0 || logits[c] > logits[order[k]])) order[k] = c;
        }
        if (order[k] >= 0) score[k] = exp((logits[order[k]] - largest) / m->info.temperature) / sum;
    }
    *p = (ole_prediction){.best = order[0],
                          .score = score[0],
                          .known_score = ole_score_sample(&scorer, feature, logits)};
    p->label = p->known_score < m->info.threshold ? -1 : p->best;
    memcpy(p->runner_up, order + 1, sizeof p->runner_up);
    memcpy(p->runner_up_score, score + 1, sizeof p->runner_up_score);
}

static ole_status predict_batches(ole_model *m, const float *images, int64_t count,
                                  ole_prediction *predictions, ole_error *error) {
    int64_t most = batch_sizes[SIZES - 1], size = ole_network_image_size(&m->network);
    for (int64_t first = 0; first < count; first += most) {
        int64_t rows = count - first < most ? count - first : most;
        ole_inference *inference;
        ole_status status = get_inference(m, rows, &inference, error);
        if (status == OLE_OK) status = run_batch(m, inference, images + first * size, rows, error);
        if (status != OLE_OK) return status;
        int64_t bad = ole_find_not_finite(inference->logits, rows, m->info.classes);
        if (bad >= 0)
            return ole_fail(error, OLE_ERROR_NUMERIC,
                            "image %" PRId64 ": the network overflows: give numbers as it was "
                            "trained on, 0 to 1 for images",
                            first + bad);
        for (int64_t i = 0; i < rows; i++)
            ole_model_judge(m, inference->features + i * m->info.features,
                            inference->logits + i * m->info.classes, &predictions[first + i]);
    }
    return OLE_OK;
}

ole_status ole_model_check_classifier(const ole_model *m, ole_error *error) {
    if (m->info.classifier) return OLE_OK;
    return ole_fail(error, OLE_ERROR_UNSUPPORTED,
                    "the model was trained with OLE alone: its classifier was not trained and "
                    "knows no class; train with softmax too (--loss softmax+ole), or compare "
                    "features ('ole features')");
}

ole_status ole_model_predict(ole_model *m, const float *images, int64_t count,
                             ole_prediction *predictions, ole_error *error) {
    if (!m || !images || !predictions || count < 1)
        return ole_fail(error, OLE_ERROR_ARGUMENT,
                        "ole_model_predict: model, images or predictions is NULL, or count is not "
                        "positive");
    ole_status status = ole_model_check_classifier(m, error);
    if (status == OLE_OK) status = check_images(m, images, count, error);
    if (status != OLE_OK) return status;
    if (!ole_in_use_take(&m->in_use, "model", error)) return OLE_ERROR_ARGUMENT;
    status = predict_batches(m, images, count, predictions, error);
    ole_in_use_release(&m->in_use);
    return status;
}

ole_status ole_model_read_file(const ole_model *m, const char *path, float *sample,
                               ole_error *error) {
    if (!m || !path || !sample)
        return ole_fail(error, OLE_ERROR_ARGUMENT,
                        "ole_model_read_file: model, path or sample is NULL");
    int channels = m->info.channels, height = m->info.height, width = m->info.width;
    if ((channels != 1 && channels != 3) || height * width == 1)
        return ole_fail(error, OLE_ERROR_ARGUMENT,
                        "the model takes %dx%dx%d numbers, not images: use ole_model_predict()",
                        channels, height, width);
    ole_image image;
    ole_status status = ole_image_read(path, channels, &image, error);
    if (status != OLE_OK) return status;
    size_t size = (size_t)ole_network_image_size(&m->network);
    uint8_t *bytes = malloc(size);
    status = bytes ? ole_image_fit(&image, height, width, channels, bytes) : OLE_ERROR_MEMORY;
    if (status != OLE_OK) ole_fail(error, status, "out of memory for an image");
    for (size_t i = 0; i < size && status == OLE_OK; i++)
        sample[i] = (float)bytes[i] / 255.0f;
    free(bytes);
    ole_image_free(&image);
    return status;
}

ole_status ole_model_predict_file(ole_model *m, const char *path, ole_prediction *prediction,
                                  ole_error *error) {
    if (!m || !path || !prediction)
        return ole_fail(error, OLE_ERROR_ARGUMENT,
                        "ole_model_predict_file: model, path or prediction is NULL");
    size_t size = (size_t)ole_network_image_size(&m->network);
    ole_status status = ole_memory_check(size * (1 + sizeof(float)), "an image for the model",
                                         "take a model of smaller images", error);
    if (status != OLE_OK) return status;
    float *sample = malloc(size * sizeof *sample);
    status = sample ? ole_model_read_file(m, path, sample, error)
                    : ole_fail(error, OLE_ERROR_MEMORY, "out of memory for an image");
    if (status == OLE_OK) status = ole_model_predict(m, sample, 1, prediction, error);
    free(sample);
    return status;
}

ole_status ole_model_read_npy(const ole_model *m, const char *path, float **samples, int64_t *count,
                              ole_error *error) {
    if (samples) *samples = NULL;
    if (!m || !path || !samples || !count)
        return ole_fail(error, OLE_ERROR_ARGUMENT,
                        "ole_model_read_npy: model, path, samples or count is NULL");
    ole_source source = {0};
    ole_status status = ole_read_npy_samples(path, NULL, &source, error);
    ole_quoted quoted;
    const ole_dataset_info found = {.name = ole_quote_string(&quoted, path),
                                    .channels = source.channels,
                                    .height = source.height,
                                    .width = source.width};
    if (status == OLE_OK) status = check_shape(m, &found, error);
    if (status == OLE_OK) {
        *count = source.count;
        *samples = malloc((size_t)(source.count * ole_source_sample_size(&source)) * sizeof(float));
        if (!*samples) status = ole_fail(error, OLE_ERROR_MEMORY, "out of memory for samples");
    }
    if (status == OLE_OK) ole_source_as_floats(&source, 0, source.count, *samples);
    ole_source_free(&source);
    return status;
}
