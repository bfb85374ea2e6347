/*
 * src/model/pretrained.c - finds the network of published weights, and reads config.json and
 * README.md beside them.
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
#include "model/model_card.h"
#include "model/option_syntax.h"
#include "model/published_names.h"
#include "ole/train/net.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LARGEST = 1 << 20, MOST_CHANNELS = 4, LARGEST_SIDE = 4096 };

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
    if (json_array_size(size) == 3 && c >= 1 && c <= MOST_CHANNELS && h >= 1 && h <= LARGEST_SIDE) {
        p->channels = (int)c;
        p->side = (int)h;
        p->side_stated = true;
    }
    if (net) snprintf(p->architecture, sizeof p->architecture, "%.63s", ole_quote_string(net).text);
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

/* ---- The network -------------------------------------------------------------------------- */

/* What timm calls a named network.  The paper's vgg11, vgg16 and vgg19 are nets for small images,
 * of which timm has none. */
static const char *architecture_of(const ole_zoo_entry *net) {
    if (strcmp(net->name, "vgg16-224") == 0) return "vgg16";
    return strcmp(net->name, "vgg16bn-224") == 0 ? "vgg16_bn" : net->name;
}

/* Takes the network, and the size of its images where none is stated, from the card of a model of
 * ours or else from the tensors. */
static ole_status find_net(ole_pretrained *p, const ole_safetensors *file, const char *weights,
                           ole_error *error) {
    ole_card card;
    const ole_zoo_entry *net = NULL;
    const ole_quoted name = ole_quote_string(weights);
    if (ole_safetensors_metadata(file, "net") &&
        ole_card_read(&card, file, weights, NULL) == OLE_OK) {
        bool square =
            card.input.h == card.input.w && card.input.h > 1 && card.input.h <= LARGEST_SIDE;
        int length = snprintf(p->net, sizeof p->net, "%s", card.net);
        if (p->side == 0 && square) p->side = (int)card.input.h;
        if (p->channels == 0 && square && card.input.c <= MOST_CHANNELS)
            p->channels = (int)card.input.c;
        ole_card_free(&card);
        if (length < (int)sizeof p->net) return OLE_OK;
    }
    ole_status status = ole_published_net(file, &net, error);
    if (status != OLE_OK) return status;
    if (!net && p->architecture[0])
        return ole_fail(error, OLE_ERROR_ARGUMENT,
                        "%s: weights of the architecture '%s', whose layers none of the named "
                        "networks has; name a network with these layers with --net",
                        name.text, p->architecture);
    if (!net)
        return ole_fail(error, OLE_ERROR_ARGUMENT,
                        "%s: these are weights of another network than 'ole net' lists; name it "
                        "with --net",
                        name.text);
    if (p->architecture[0] && strcmp(p->architecture, architecture_of(net)) != 0)
        return ole_fail(
            error, OLE_ERROR_ARGUMENT,
            "%s: weights of the architecture '%s', which is none of the named networks; "
            "--net %s has the same layers",
            name.text, p->architecture, net->name);
    strcpy(p->net, net->name);
    if (p->side == 0) p->side = (int)net->input.h;
    return OLE_OK;
}

/* What the tensors in the file at `path` tell: without a `net`, that; and the channels. */
static ole_status read_tensors(ole_pretrained *p, const char *path, const char *weights,
                               const char *net, ole_error *error) {
    size_t length = strlen(path);
    if (length >= 11 && strcmp(path + length - 11, ".caffemodel") == 0) {
        if (net) return OLE_OK;
        return ole_fail(error, OLE_ERROR_ARGUMENT,
                        "%s: a Caffe model does not state its network; name it with --net",
                        ole_quote_string(weights).text);
    }
    ole_safetensors *file;
    ole_status status = ole_safetensors_open(&file, path, error);
    if (status != OLE_OK) return status;
    if (!net) {
        status = find_net(p, file, weights, error);
        net = p->net;
    }
    if (status == OLE_OK && p->channels == 0) {
        int c, h, w;
        ole_net_input(net, &c, &h, &w);
        p->channels = ole_published_channels(file, net, (ole_shape){c, h, w});
    }
    ole_safetensors_close(file);
    return status;
}

/* ---- All of it ---------------------------------------------------------------------------- */

ole_status ole_pretrained_read(ole_pretrained *p, const char *weights, const char *net,
                               ole_error *error) {
    char file[OLE_RUN_PATH], path[OLE_RUN_PATH], *bytes = NULL;
    size_t size;
    *p = (ole_pretrained){0};
    ole_status status = ole_weights_fetch(weights, false, file, error);
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
    return read_tensors(p, file, weights, net, error);
}
