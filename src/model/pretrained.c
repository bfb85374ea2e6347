/*
 * src/model/pretrained.c - reads config.json and README.md beside published weights.
 *
 * timm's config.json has mean, std and input_size under pretrained_cfg, others have them at the
 * top, transformers as image_mean and image_std.  A hub's README.md begins with a block of YAML
 * between lines of three dashes, in which one line is "license: NAME".
 */
#include "model/pretrained.h"

#include "base/error.h"
#include "base/option.h"
#include "base/quote.h"
#include "base/read_file.h"
#include "formats/parse_json.h"
#include "model/hub.h"
#include "model/option_syntax.h"
#include "net/zoo.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LARGEST = 1 << 20, MOST_CHANNELS = 4 };

/* The file `name` beside the weights; false: there is none. */
static bool find_beside(const char *weights, const char *name, char path[OLE_RUN_PATH]) {
    if (ole_is_hub_name(weights)) return ole_hub_fetch_beside(weights, name, path);
    if (ole_is_url(weights)) return false;
    const char *slash = strrchr(weights, '/');
    int folder = slash ? (int)(slash + 1 - weights) : 0;
    return snprintf(path, OLE_RUN_PATH, "%.*s%s", folder, weights, name) < OLE_RUN_PATH;
}

/* ---- config.json -------------------------------------------------------------------------- */

/* Appends 1 to 4 numbers as "0.5,0.5"; false if there are none. */
static bool put_numbers(char *to, size_t room, const json_t *list) {
    size_t count = json_array_size(list), used = strlen(to);
    if (count < 1 || count > MOST_CHANNELS) return false;
    for (size_t i = 0; i < count && used < room; i++) {
        char number[OLE_OPTION_VALUE];
        const json_t *value = json_array_get(list, i);
        if (!json_is_number(value)) return false;
        ole_option_number(json_number_value(value), number);
        used += (size_t)snprintf(to + used, room - used, "%s%s", i ? "," : "", number);
    }
    return used < room;
}

static const json_t *either(const json_t *object, const char *name, const char *other) {
    const json_t *value = json_object_get(object, name);
    return value ? value : json_object_get(object, other);
}

/* The first deviation that no images have: they would become NaN, or millions. */
static bool find_bad_deviation(const json_t *list, double *bad) {
    static const double smallest = 1e-6; /* one step of 16 bits is 1.5e-5 */
    for (size_t i = 0; i < json_array_size(list); i++) {
        *bad = json_number_value(json_array_get(list, i));
        if (!(*bad >= smallest)) return true;
    }
    return false;
}

static void take_config(ole_pretrained *p, const json_t *top) {
    const json_t *nested = json_object_get(top, "pretrained_cfg");
    const json_t *from = json_is_object(nested) ? nested : top;
    const json_t *size = json_object_get(from, "input_size");
    const char *net = json_string_value(json_object_get(top, "architecture"));
    char text[sizeof p->normalize] = "";
    ole_normalize_spec spec;
    bool good = put_numbers(text, sizeof text - 1, either(from, "mean", "image_mean"));
    if (good) strcat(text, "/");
    const json_t *deviations = either(from, "std", "image_std");
    double bad;
    good = good && put_numbers(text, sizeof text, deviations);
    if (good && find_bad_deviation(deviations, &bad)) {
        good = false;
        snprintf(p->mistake, sizeof p->mistake,
                 "a standard deviation of %g: expected 1e-6 or more; mend the file, or set "
                 "--normalize",
                 bad);
    }
    if (good && ole_normalize_parse(&spec, text, NULL) == OLE_OK) strcpy(p->normalize, text);
    json_int_t c = json_integer_value(json_array_get(size, 0));
    json_int_t h = json_integer_value(json_array_get(size, 1));
    if (json_array_size(size) == 3 && c >= 1 && c <= MOST_CHANNELS && h >= 1 && h <= 4096) {
        p->channels = (int)c;
        p->side = (int)h;
    }
    if (net && strlen(net) < sizeof p->net && ole_zoo_find(net)) strcpy(p->net, net);
}

/* ---- README.md ---------------------------------------------------------------------------- */

/* The value of "license:" in the front matter, without quotes and with unusual characters quoted.
 */
static void take_licence(ole_pretrained *p, const char *text) {
    static const char key[] = "license:";
    if (strncmp(text, "---", 3) != 0) return;
    for (const char *line = strchr(text, '\n'); line; line = strchr(line, '\n')) {
        line++;
        if (strncmp(line, "---", 3) == 0) return;
        if (strncmp(line, key, strlen(key)) != 0) continue;
        const char *at = line + strlen(key) + strspn(line + strlen(key), " \"'");
        snprintf(p->licence, sizeof p->licence, "%.63s",
                 ole_quote(at, strcspn(at, " \"'\r\n")).text);
        return;
    }
}

ole_status ole_pretrained_read(ole_pretrained *p, const char *weights, ole_error *error) {
    char path[OLE_RUN_PATH], *bytes = NULL;
    size_t size;
    *p = (ole_pretrained){0};
    ole_status status = ole_weights_fetch(weights, false, path, error);
    if (status != OLE_OK) return status;
    if (find_beside(weights, "config.json", path) &&
        ole_read_file(path, LARGEST, &bytes, &size, NULL) == OLE_OK) {
        bool no_memory;
        json_error_t where = {0};
        json_t *top = ole_parse_json(bytes, size, 0, &where, &no_memory);
        free(bytes);
        if (no_memory) return ole_fail(error, OLE_ERROR_MEMORY, "out of memory for config.json");
        if (top)
            take_config(p, top);
        else /* JSON has no NaN, but others write it */
            snprintf(p->mistake, sizeof p->mistake,
                     "line %d: %s; mend the file, or set --normalize", where.line,
                     ole_quote_string(where.text).text);
        strcpy(p->config, ole_quote_string(path).text);
        json_decref(top);
    }
    if (find_beside(weights, "README.md", path) &&
        ole_read_file(path, LARGEST, &bytes, &size, NULL) == OLE_OK) {
        p->has_card = ole_is_hub_name(weights) || strncmp(bytes, "---", 3) == 0;
        take_licence(p, bytes);
        free(bytes);
    }
    return OLE_OK;
}
