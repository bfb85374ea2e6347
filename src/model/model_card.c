/* src/model/model_card.c - making, storing and reading model cards. */
#include "model/model_card.h"

#include "base/error.h"
#include "base/memory_file.h"
#include "base/number.h"
#include "base/quote.h"
#include "formats/json.h"
#include "formats/parse_json.h"
#include "model/confidence.h"
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
    return ole_fail(error, OLE_ERROR_MEMORY, "out of memory for a model's card");
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
                        "normalize %s is for %d channels, the data have %d", text,
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
        return ole_fail(error, OLE_ERROR_ARGUMENT, "images of %d channels: at most %d are known",
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

static void list_names(const ole_card *card, FILE *out) {
    ole_json w;
    ole_json_init(&w, out, 0);
    ole_json_open(&w, NULL, '[');
    for (int c = 0; c < card->classes; c++)
        ole_json_string(&w, NULL, card->class_names[c]);
    ole_json_close(&w);
}

static void list_floats(const ole_card *card, const float *values, FILE *out) {
    char text[OLE_NUMBER_TEXT];
    for (int i = 0; i < normalised_channels(card->input); i++)
        fprintf(out, "%s%s", i ? "," : "", ole_number_write(text, 9, values[i]));
}

static void print_text(const ole_card *card, int which, FILE *out) {
    char text[OLE_NUMBER_TEXT];
    switch (which) {
    case 0:
        fprintf(out, "ole %s", ole_version());
        return;
    case 1:
        fputs(card->net, out);
        return;
    case 2:
        fprintf(out, "%" PRId64 "x%" PRId64 "x%" PRId64, card->input.c, card->input.h,
                card->input.w);
        return;
    case 3:
        list_names(card, out);
        return;
    case 4:
        list_floats(card, card->mean, out);
        return;
    case 5:
        list_floats(card, card->deviation, out);
        return;
    case 6:
        fputs(ole_number_write(text, 17, card->threshold), out);
        return;
    case 7:
        fputs(ole_score_name(card->threshold_score), out);
        return;
    case 8:
        fputs(ole_number_write(text, 17, card->temperature), out);
        return;
    default:
        fputs(card->classifier ? trained : untrained, out);
    }
}

ole_status ole_card_write(const ole_card *card, ole_card_texts *texts, ole_error *error) {
    static const char *const keys[OLE_CARD_TEXTS] = {
        "writer",    "net",       "input",           "class_names", "mean",
        "deviation", "threshold", "threshold_score", "temperature", "classifier"};
    *texts = (ole_card_texts){0};
    for (int i = 0; i < OLE_CARD_TEXTS; i++) {
        ole_memory_file memory;
        if (ole_memory_file_open(&memory)) print_text(card, i, memory.file);
        texts->value[i] = ole_memory_file_close(&memory);
        if (!texts->value[i]) {
            ole_card_texts_free(texts);
            return out_of_memory(error);
        }
        texts->value[i][strcspn(texts->value[i], "\n")] = '\0'; /* a list's line ends */
        texts->pair[i] = (ole_metadata){keys[i], texts->value[i]};
    }
    return OLE_OK;
}

void ole_card_texts_free(ole_card_texts *texts) {
    for (int i = 0; i < OLE_CARD_TEXTS; i++)
        free(texts->value[i]);
    *texts = (ole_card_texts){0};
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

static bool parse_floats(const char *text, int count, float *out) {
    for (int i = 0; i < count; i++) {
        char *end;
        out[i] = (float)ole_number_read(text, &end);
        if (end == text || *end != (i + 1 < count ? ',' : '\0') || !isfinite(out[i])) return false;
        text = end + 1;
    }
    return true;
}

static bool parse_deviation(const char *text, int count, float *out) {
    if (!parse_floats(text, count, out)) return false;
    for (int i = 0; i < count; i++)
        if (!(out[i] > 0)) return false;
    return true;
}

/* A finite number; `otherwise` without a text. */
static bool parse_number(const char *text, double otherwise, double *value) {
    char *end;
    *value = otherwise;
    if (!text) return true;
    *value = ole_number_read(text, &end);
    return end != text && !*end && isfinite(*value);
}

/* Copies the names of a JSON array. */
static bool copy_array(const json_t *names, ole_card *card, bool *no_memory) {
    size_t count = json_array_size(names);
    if (count == 0 || count > 1 << 20) return false;
    card->class_names = calloc(count + 1, sizeof *card->class_names);
    *no_memory = !card->class_names;
    if (*no_memory) return false;
    card->classes = (int)count;
    for (size_t c = 0; c < count; c++) {
        const char *name = json_string_value(json_array_get(names, c));
        if (!name) return false;
        card->class_names[c] = strdup(name);
        *no_memory = !card->class_names[c];
        if (*no_memory) return false;
    }
    return true;
}

static bool parse_names(const char *text, ole_card *card, bool *no_memory) {
    json_t *names = ole_parse_json(text, strlen(text), JSON_REJECT_DUPLICATES, NULL, no_memory);
    bool good = names && copy_array(names, card, no_memory);
    json_decref(names);
    return good;
}

/* Reads what later versions added; older files lack it. Returns the wrong text, or NULL. */
static const char *parse_scores(ole_card *card, const ole_safetensors *file) {
    const char *threshold = ole_safetensors_metadata(file, "threshold");
    const char *score = ole_safetensors_metadata(file, "threshold_score");
    const char *temperature = ole_safetensors_metadata(file, "temperature");
    const char *classifier = ole_safetensors_metadata(file, "classifier");
    if (!parse_number(threshold, 0.0, &card->threshold)) return "threshold";
    card->threshold_score = card->threshold != 0.0 ? OLE_SCORE_SOFTMAX : OLE_SCORE_NONE;
    if (score && !ole_score_parse(score, &card->threshold_score)) return "threshold_score";
    if (!parse_number(temperature, 1.0, &card->temperature) || card->temperature <= 0.0)
        return "temperature";
    card->classifier = !classifier || strcmp(classifier, untrained) != 0;
    return NULL;
}

/* Returns the wrong text, or NULL; *no_memory if that is all that is wrong. */
static const char *parse_texts(ole_card *card, const ole_safetensors *file, bool *no_memory) {
    const char *net = ole_safetensors_metadata(file, "net");
    const char *input = ole_safetensors_metadata(file, "input");
    const char *names = ole_safetensors_metadata(file, "class_names");
    const char *mean = ole_safetensors_metadata(file, "mean");
    const char *deviation = ole_safetensors_metadata(file, "deviation");
    card->net = net ? strdup(net) : NULL;
    *no_memory = net && !card->net;
    if (!card->net) return "net";
    if (!input || !parse_input(input, &card->input)) return "input";
    if (!names || !parse_names(names, card, no_memory)) return "class_names";
    int channels = normalised_channels(card->input);
    if (!mean || !parse_floats(mean, channels, card->mean)) return "mean";
    if (!deviation || !parse_deviation(deviation, channels, card->deviation)) return "deviation";
    return parse_scores(card, file);
}

ole_status ole_card_read(ole_card *card, const ole_safetensors *file, const char *name,
                         ole_error *error) {
    *card = (ole_card){.deviation = {1, 1, 1, 1}};
    bool no_memory;
    const char *wrong = parse_texts(card, file, &no_memory);
    if (!wrong) return OLE_OK;
    ole_card_free(card);
    ole_quoted quoted;
    if (no_memory)
        return ole_fail(error, OLE_ERROR_MEMORY, "%s: out of memory",
                        ole_quote_string(&quoted, name));
    return ole_fail(error, OLE_ERROR_FORMAT,
                    "%s: no model of 'ole train': its metadata lack '%s', or have it wrong",
                    ole_quote_string(&quoted, name), wrong);
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
