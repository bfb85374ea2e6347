/* src/model/model_card.c - making, storing and reading model cards. */
#include "model/model_card.h"

#include "base/error.h"
#include "base/memory_file.h"
#include "base/quote.h"
#include "formats/json.h"
#include "formats/parse_json.h"
#include "model/option_syntax.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Vectors have one mean and deviation for all their elements. */
static int normalised_channels(ole_shape input) {
    return input.h * input.w == 1 ? 1 : (int)input.c;
}

static const char trained[] = "trained", untrained[] = "untrained"; /* the classifier */

static ole_status out_of_memory(ole_error *error) {
    return ole_fail(error, OLE_ERROR_MEMORY, "out of memory for a model card");
}

/* ---- Making ------------------------------------------------------------------------------- */

static ole_status copy_names(ole_card *card, const char *net, const char *const *names,
                             ole_error *error) {
    card->net = strdup(net);
    card->class_names = calloc((size_t)card->classes + 1, sizeof *card->class_names);
    if (!card->net || !card->class_names) return out_of_memory(error);
    for (int c = 0; c < card->classes; c++) {
        card->class_names[c] = strdup(names[c]);
        if (!card->class_names[c]) return out_of_memory(error);
    }
    return OLE_OK;
}

static ole_status set_normalisation(ole_card *card, const ole_dataset *set, const char *text,
                                    ole_error *error) {
    ole_normalize_spec normalize;
    int channels = normalised_channels(card->input);
    ole_status status = ole_normalize_parse(&normalize, text, error);
    if (status != OLE_OK) return status;
    if (normalize.automatic) return ole_dataset_statistics(set, card->mean, card->deviation, error);
    if (normalize.channels != 1 && normalize.channels != channels)
        return ole_fail(error, OLE_ERROR_ARGUMENT,
                        "normalize %s is for %d channels, but the data have %d", text,
                        normalize.channels, channels);
    for (int i = 0; i < channels; i++) {
        card->mean[i] = normalize.mean[normalize.channels == 1 ? 0 : i];
        card->deviation[i] = normalize.deviation[normalize.channels == 1 ? 0 : i];
    }
    return OLE_OK;
}

ole_status ole_card_make(ole_card *card, const char *net, const ole_dataset *set,
                         const char *normalize, ole_error *error) {
    const ole_dataset_info *info = ole_dataset_get_info(set);
    *card = (ole_card){.input = {info->channels, info->height, info->width},
                       .classes = info->classes,
                       .deviation = {1, 1, 1, 1},
                       .temperature = 1.0,
                       .classifier = true};
    if (normalised_channels(card->input) > OLE_MAX_CHANNELS)
        return ole_fail(error, OLE_ERROR_ARGUMENT, "images of %d channels; the limit is %d",
                        info->channels, OLE_MAX_CHANNELS);
    ole_status status = copy_names(card, net, info->class_names, error);
    if (status == OLE_OK) status = set_normalisation(card, set, normalize, error);
    if (status != OLE_OK) ole_card_free(card);
    return status;
}

ole_status ole_card_copy(ole_card *card, const ole_card *from, ole_error *error) {
    *card = *from;
    card->net = NULL;
    card->class_names = NULL;
    ole_status status = copy_names(card, from->net, (const char *const *)from->class_names, error);
    if (status != OLE_OK) ole_card_free(card);
    return status;
}

void ole_card_free(ole_card *card) {
    for (int c = 0; card->class_names && c < card->classes; c++)
        free(card->class_names[c]);
    free(card->class_names);
    free(card->net);
    *card = (ole_card){0};
}

bool ole_card_same_samples(const ole_card *a, const ole_card *b) {
    const double rounding = 1e-6;
    for (int i = 0; i < normalised_channels(a->input); i++) {
        double most = rounding * (fabs(a->mean[i]) + a->deviation[i]);
        if (!(fabs(a->mean[i] - b->mean[i]) <= most &&
              fabs(a->deviation[i] - b->deviation[i]) <= most))
            return false;
    }
    return true;
}

/* ---- Storing ------------------------------------------------------------------------------ */

/* The names as a JSON list on one line; NULL without memory. */
static char *list_names(const ole_card *card) {
    ole_memory_file memory;
    if (!ole_memory_file_open(&memory)) return NULL;
    ole_json w = ole_json_begin(memory.file, 0, '[');
    for (int c = 0; c < card->classes; c++)
        ole_json_string(&w, NULL, card->class_names[c]);
    ole_json_close(&w);
    char *text = ole_memory_file_close(&memory);
    if (text) text[strcspn(text, "\n")] = '\0';
    return text;
}

static const char *list_floats(const ole_card *card, const float *values, char text[]) {
    char number[OLE_NUMBER_TEXT], *at = text;
    for (int i = 0; i < normalised_channels(card->input); i++)
        at = stpcpy(stpcpy(at, i ? "," : ""), ole_number_write(number, 9, values[i]));
    return text;
}

ole_status ole_card_write(const ole_card *card, ole_card_texts *texts, ole_error *error) {
    texts->class_names = list_names(card);
    if (!texts->class_names) return out_of_memory(error);
    snprintf(texts->writer, sizeof texts->writer, "ole %s", ole_version());
    snprintf(texts->input, sizeof texts->input, "%" PRId64 "x%" PRId64 "x%" PRId64, card->input.c,
             card->input.h, card->input.w);
    const ole_metadata pairs[OLE_CARD_TEXTS] = {
        {"writer", texts->writer},
        {"net", card->net},
        {"input", texts->input},
        {"class_names", texts->class_names},
        {"mean", list_floats(card, card->mean, texts->mean)},
        {"deviation", list_floats(card, card->deviation, texts->deviation)},
        {"threshold", ole_number_write(texts->threshold, 17, card->threshold)},
        {"threshold_score", ole_score_name(card->threshold_score)},
        {"temperature", ole_number_write(texts->temperature, 17, card->temperature)},
        {"classifier", card->classifier ? trained : untrained},
        {"threshold_from", ole_threshold_source_name(card->threshold_from)},
        {"threshold_samples", texts->samples},
        {"fitted_rows", texts->fitted},
    };
    ole_row_marks_write(&card->fitted, texts->fitted);
    texts->count = card->fitted.count > 0 ? OLE_CARD_TEXTS : OLE_CARD_TEXTS - 1;
    snprintf(texts->samples, sizeof texts->samples, "%" PRId64, card->threshold_samples);
    memcpy(texts->pair, pairs, sizeof pairs);
    return OLE_OK;
}

void ole_card_texts_free(ole_card_texts *texts) {
    free(texts->class_names);
    texts->class_names = NULL;
}

/* ---- Reading ------------------------------------------------------------------------------ */

static bool parse_input(const char *text, ole_shape *input) {
    int end = 0;
    if (sscanf(text, "%" SCNd64 "x%" SCNd64 "x%" SCNd64 "%n", &input->c, &input->h, &input->w,
               &end) != 3 ||
        text[end])
        return false;
    const int64_t most = 1 << 20;
    return input->c > 0 && input->h > 0 && input->w > 0 && input->c <= most && input->h <= most &&
           input->w <= most && normalised_channels(*input) <= OLE_MAX_CHANNELS;
}

/* `count` finite numbers that are larger than `least`. */
static bool parse_floats(const char *text, int count, float least, float *out) {
    for (int i = 0; i < count && text; i++) {
        char *end;
        out[i] = (float)ole_number_read(text, &end);
        if (end == text || *end != (i + 1 < count ? ',' : '\0') || !isfinite(out[i]) ||
            !(out[i] > least))
            return false;
        text = end + 1;
    }
    return text;
}

/* A finite number; `otherwise` without a text. */
static bool parse_number(const char *text, double otherwise, double *value) {
    char *end;
    *value = otherwise;
    if (!text) return true;
    *value = ole_number_read(text, &end);
    return end != text && !*end && isfinite(*value);
}

static bool parse_names(const char *text, ole_card *card, bool *no_memory) {
    json_t *names = ole_parse_json(text, strlen(text), JSON_REJECT_DUPLICATES, NULL, no_memory);
    size_t count = json_array_size(names);
    bool good = count > 0 && count <= 1 << 20;
    if (good) {
        card->class_names = calloc(count + 1, sizeof *card->class_names);
        *no_memory = !card->class_names;
        card->classes = *no_memory ? 0 : (int)count;
    }
    for (int c = 0; c < card->classes && good && !*no_memory; c++) {
        const char *name = json_string_value(json_array_get(names, (size_t)c));
        good = name;
        card->class_names[c] = name ? strdup(name) : NULL;
        *no_memory = name && !card->class_names[c];
    }
    json_decref(names);
    return good && !*no_memory;
}

/* Returns the wrong text, or NULL; *no_memory if that is all that is wrong. */
static const char *parse_texts(ole_card *card, const ole_safetensors *file, bool *no_memory) {
    const char *net = ole_safetensors_metadata(file, "net");
    const char *input = ole_safetensors_metadata(file, "input");
    const char *names = ole_safetensors_metadata(file, "class_names");
    const char *score = ole_safetensors_metadata(file, "threshold_score");
    const char *classifier = ole_safetensors_metadata(file, "classifier");
    const char *from = ole_safetensors_metadata(file, "threshold_from");
    double samples;
    card->net = net ? strdup(net) : NULL;
    *no_memory = net && !card->net;
    if (!card->net) return "net";
    if (!input || !parse_input(input, &card->input)) return "input";
    if (!names || !parse_names(names, card, no_memory)) return "class_names";
    int channels = normalised_channels(card->input);
    if (!parse_floats(ole_safetensors_metadata(file, "mean"), channels, -INFINITY, card->mean))
        return "mean";
    if (!parse_floats(ole_safetensors_metadata(file, "deviation"), channels, 0, card->deviation))
        return "deviation";
    /* What follows was added later; older files lack it. */
    if (!parse_number(ole_safetensors_metadata(file, "threshold"), 0.0, &card->threshold))
        return "threshold";
    card->threshold_score = card->threshold != 0.0 ? OLE_SCORE_SOFTMAX : OLE_SCORE_NONE;
    if (score && !ole_score_parse(score, &card->threshold_score)) return "threshold_score";
    if (!parse_number(ole_safetensors_metadata(file, "temperature"), 1.0, &card->temperature) ||
        card->temperature <= 0.0)
        return "temperature";
    card->classifier = !classifier || strcmp(classifier, untrained) != 0;
    card->threshold_from = ole_threshold_source_parse(from);
    if (!parse_number(ole_safetensors_metadata(file, "threshold_samples"), 0.0, &samples) ||
        !(samples >= 0.0 && samples < 1e15))
        return "threshold_samples";
    card->threshold_samples = (int64_t)samples;
    ole_row_marks_read(&card->fitted, ole_safetensors_metadata(file, "fitted_rows"));
    return NULL;
}

ole_status ole_card_read(ole_card *card, const ole_safetensors *file, const char *name,
                         ole_error *error) {
    *card = (ole_card){.deviation = {1, 1, 1, 1}};
    bool no_memory;
    const char *wrong = parse_texts(card, file, &no_memory);
    if (!wrong) return OLE_OK;
    ole_card_free(card);
    if (no_memory)
        return ole_fail(error, OLE_ERROR_MEMORY, "%s: out of memory", ole_quote_string(name).text);
    return ole_fail(error, OLE_ERROR_FORMAT,
                    "%s: not a model of 'ole train': '%s' is missing from its metadata, or wrong",
                    ole_quote_string(name).text, wrong);
}

void ole_card_normalize(const ole_card *card, const float *images, int64_t count, float *out) {
    int channels = normalised_channels(card->input);
    int64_t size = ole_shape_size(card->input), plane = size / channels;
    for (int64_t i = 0; i < count; i++)
        for (int64_t c = 0; c < channels; c++)
            for (int64_t p = 0; p < plane; p++) {
                int64_t at = i * size + c * plane + p;
                out[at] = (images[at] - card->mean[c]) / card->deviation[c];
            }
}
