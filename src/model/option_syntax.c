/* src/model/option_syntax.c - parsing the options that have a small language of their own. */
#include "model/option_syntax.h"

#include "base/error.h"
#include "base/number.h"
#include "base/quote.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static ole_status fail_text(const char *option, const char *text, const char *expected,
                            ole_error *error) {
    return ole_fail(error, OLE_ERROR_ARGUMENT, "%s '%s': expected %s", option,
                    ole_quote_string(text).text, expected);
}

/* Reads a whole number from min to max at *at, and moves past it. */
static bool take_whole(const char **at, long min, long max, int *value) {
    char *end;
    if (**at < '0' || **at > '9') return false;
    long number = strtol(*at, &end, 10);
    if (number < min || number > max) return false;
    *value = (int)number;
    *at = end;
    return true;
}

/* Reads a finite number at *at, and moves past it. */
static bool take_number(const char **at, double *value) {
    char *end;
    *value = ole_number_read(*at, &end);
    if (end == *at || !isfinite(*value)) return false;
    *at = end;
    return true;
}

static bool take_word(const char **at, const char *word) {
    size_t length = strlen(word);
    if (strncmp(*at, word, length) != 0) return false;
    *at += length;
    return true;
}

/* After an item: true at the end, or at a comma that something follows. */
static bool take_comma(const char **at) {
    if (**at == '\0') return true;
    if (**at != ',' || (*at)[1] == '\0') return false;
    ++*at;
    return true;
}

ole_status ole_augment_parse(ole_augment_spec *augment, const char *text, ole_error *error) {
    *augment = (ole_augment_spec){0};
    const struct {
        const char *word;
        double *field;
        double most; /* of the number that follows; 0: there is none */
        bool whole;
    } items[] = {{"crop:", &augment->crop, 1024, true},
                 {"flip", &augment->flip, 0, false},
                 {"resized-crop:", &augment->resized_crop, 1, false},
                 {"rotate:", &augment->rotate, 180, false},
                 {"jitter:", &augment->jitter, 1, false},
                 {"erase:", &augment->erase, 1, false},
                 {"cutout:", &augment->cutout, 1024, true},
                 {"mixup:", &augment->mixup, 4, false}};
    const size_t count = sizeof items / sizeof *items;
    const char *at = strcmp(text, "none") == 0 ? "" : text;
    while (*at) {
        size_t i = 0;
        while (i < count && !take_word(&at, items[i].word))
            i++;
        double value = 1;
        bool good = i < count && *items[i].field == 0;
        if (good && items[i].most > 0)
            good = take_number(&at, &value) && value > 0 && value <= items[i].most &&
                   (!items[i].whole || value == floor(value));
        if (!good || !take_comma(&at))
            return fail_text("augment", text,
                             "crop:PIXELS, resized-crop:SHARE, flip, rotate:DEGREES, jitter:X, "
                             "erase:P, cutout:PIXELS, mixup:ALPHA, or some of them separated by "
                             "commas",
                             error);
        *items[i].field = value;
        augment->any = true;
    }
    return OLE_OK;
}

void ole_augment_set(const ole_augment_spec *augment, ole_loader_options *options) {
    options->crop = (int)augment->crop;
    options->flip = augment->flip > 0;
    options->resized_crop = augment->resized_crop;
    options->rotate = augment->rotate;
    options->jitter = augment->jitter;
    options->erase = augment->erase;
    options->cutout = (int)augment->cutout;
}

ole_status ole_sampler_parse(ole_sampler_spec *sampler, const char *text, ole_error *error) {
    *sampler = (ole_sampler_spec){0};
    if (!*text) return OLE_OK;
    const char *at = text;
    sampler->automatic = strcmp(text, "balanced") == 0;
    if (sampler->automatic) return OLE_OK;
    if (take_word(&at, "balanced:") && take_whole(&at, 1, 100000, &sampler->classes) &&
        take_word(&at, "x") && take_whole(&at, 1, 100000, &sampler->samples) && !*at)
        return OLE_OK;
    return fail_text("sampler", text, "balanced, or balanced:CxK, C classes with K samples each",
                     error);
}

void ole_sampler_choose(ole_sampler_spec *sampler, int classes, int64_t batch) {
    const int64_t few = 4;
    int64_t most = batch / few > 0 ? batch / few : 1;
    sampler->classes = most < classes ? (int)most : classes;
    sampler->samples = batch > sampler->classes ? (int)(batch / sampler->classes) : 1;
}

ole_status ole_rate_parse(double *factor, const char *name, const char *text, double lr,
                          ole_error *error) {
    const char *at = text;
    bool good = take_number(&at, factor) && isfinite(*factor) && *factor > 0.0;
    if (good && *at == '\0')
        *factor /= lr;
    else if (!good || strcmp(at, "x") != 0)
        return fail_text(name, text, "a multiple of lr above 0 such as 0.1x, or a rate", error);
    return OLE_OK;
}

/* Reads comma-separated values up to `stop` or the end; returns how many, 0 for a mistake. */
static int take_values(const char **at, char stop, float out[OLE_MAX_CHANNELS]) {
    for (int count = 0; count < OLE_MAX_CHANNELS;) {
        double value;
        if (!take_number(at, &value)) return 0;
        out[count++] = (float)value;
        if (!isfinite(out[count - 1])) return 0;
        if (**at == stop) return count;
        if (**at != ',') return 0;
        ++*at;
    }
    return 0;
}

ole_status ole_normalize_parse(ole_normalize_spec *normalize, const char *text, ole_error *error) {
    static const ole_normalize_spec none = {.channels = 1, .mean = {0}, .deviation = {1}};
    static const ole_normalize_spec half = {.channels = 1, .mean = {0.5f}, .deviation = {0.5f}};
    static const ole_normalize_spec cifar = {.channels = 3,
                                             .mean = {0.4914f, 0.4822f, 0.4465f},
                                             .deviation = {0.2023f, 0.1994f, 0.2010f}};
    static const ole_normalize_spec imagenet = {
        .channels = 3, .mean = {0.485f, 0.456f, 0.406f}, .deviation = {0.229f, 0.224f, 0.225f}};
    static const ole_normalize_spec automatic = {.automatic = true};
    static const struct {
        const char *name;
        const ole_normalize_spec *values;
    } known[] = {{"auto", &automatic},
                 {"none", &none},
                 {"half", &half},
                 {"cifar", &cifar},
                 {"imagenet", &imagenet}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(text, known[i].name) == 0) {
            *normalize = *known[i].values;
            return OLE_OK;
        }
    *normalize = (ole_normalize_spec){0};
    const char *at = text;
    int means = take_values(&at, '/', normalize->mean);
    if (means > 0) at++;
    int deviations = means > 0 ? take_values(&at, '\0', normalize->deviation) : 0;
    bool positive = true;
    for (int i = 0; i < deviations; i++)
        positive &= normalize->deviation[i] > 0.0f;
    normalize->channels = means;
    if (means > 0 && means == deviations && positive) return OLE_OK;
    return fail_text("normalize", text,
                     "auto, none, half, cifar, imagenet, or means and deviations such as "
                     "0.5,0.5,0.5/0.2,0.2,0.2",
                     error);
}

ole_status ole_acts_parse(ole_acts *acts, const char *text, double lambda, ole_error *error) {
    *acts = (ole_acts){0};
    const char *at = text;
    while (*at) {
        int i = acts->count;
        if (i == OLE_MAX_ACTS)
            return ole_fail(error, OLE_ERROR_ARGUMENT, "ole_at names more than %d tokens",
                            OLE_MAX_ACTS);
        bool good = take_whole(&at, 1, 1000000, &acts->token[i]);
        acts->weight[i] = lambda;
        if (good && take_word(&at, ":"))
            good = take_number(&at, &acts->weight[i]) && acts->weight[i] >= 0.0;
        for (int k = 0; k < i && good; k++)
            good = acts->token[k] != acts->token[i];
        if (!good || !take_comma(&at))
            return fail_text("ole_at", text,
                             "different tokens from 1 on, with weights where they differ from "
                             "lambda, such as 3:0.1,5",
                             error);
        acts->count++;
    }
    return OLE_OK;
}
