/*
 * src/train/options.c - the table of options, and setting, checking and showing one of them.
 */
#include "train/options.h"

#include "base/error.h"
#include "base/number.h"
#include "base/show.h"
#include "base/utf8.h"
#include "data/loader.h"
#include "train/schedule.h"
#include "train/spec.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

typedef enum kind {
    TEXT,   /* const char * */
    CHOICE, /* const char *, one of the words of `value` */
    LOSS,   /* ole_loss_kind */
    NUMBER, /* double; "1/4" is understood */
    SHARE,  /* double from 0 to less than 1; "10%" is understood */
    WHOLE,  /* int64_t */
    SMALL,  /* int */
    SEED,   /* uint64_t */
    SWITCH, /* bool */
} kind;

/* Of an entry: not part of a recipe; may differ when a run is resumed; may differ between ranks. */
enum { LOCAL = 1, FREE = 2, OWN = 4 };

typedef struct entry {
    const char *name;
    kind kind;
    size_t offset;
    const char *value;
    const char *help;
    double min, max;
    const char *fallback; /* of a text: what NULL means */
    int flags;
} entry;

#define AT(field) offsetof(ole_train_options, field)
#define ANY HUGE_VAL

static const entry entries[] = {
    {"data", TEXT, AT(data), "NAME[:PATH]", .help = "data set", .flags = FREE | OWN},
    {"net", TEXT, AT(net), "NET",
     .help = "network: a name ('ole net' lists them) or the notation (default: by the data)"},
    {"out", TEXT, AT(out), "RUN",
     .help = "run folder: config, metrics, checkpoints (default: ole-run, ole-run-2, ...)",
     .flags = LOCAL | FREE | OWN},
    {"resume", SWITCH, AT(resume), NULL, .help = "go on from RUN/last.safetensors",
     .flags = LOCAL | FREE | OWN},
    {"loss", LOSS, AT(loss), "softmax|ole|softmax+ole",
     .help = "what is minimised (default softmax+ole)"},
    {"lambda", NUMBER, AT(lambda), "X", .help = "weight of OLE (default 0.25)", .min = 0,
     .max = ANY},
    {"ole_at", TEXT, AT(ole_at), "N[:W],...",
     .help = "tokens of the net where OLE acts, with weights (default: the features)",
     .fallback = ""},
    {"epochs", WHOLE, AT(epochs), "N",
     .help = "passes over the training set (default 20; of few samples more)", .min = 0, .max = 1e9,
     .flags = FREE},
    {"batch_size", WHOLE, AT(batch_size), "N", .help = "samples a step (default 64)", .min = 1,
     .max = 1e9},
    {"opt", CHOICE, AT(opt), "sgd|adam", .help = "optimiser (default sgd)", .fallback = "sgd"},
    {"lr", NUMBER, AT(lr), "X", .help = "learning rate (default 0.1 for sgd, 0.001 for adam)",
     .min = 0, .max = ANY},
    {"milestones", TEXT, AT(milestones), "50%,75%",
     .help = "when the rate falls: shares, epochs, cosine or none (default 50%,75%)",
     .fallback = "50%,75%"},
    {"gamma", NUMBER, AT(gamma), "X", .help = "factor of the rate at a milestone (default 0.1)",
     .min = 0, .max = ANY},
    {"warmup", NUMBER, AT(warmup), "EPOCHS", .help = "linear warm-up (default 0)", .min = 0,
     .max = ANY},
    {"momentum", NUMBER, AT(momentum), "X", .help = "of sgd (default 0.9)", .min = 0, .max = 1},
    {"nesterov", SWITCH, AT(nesterov), NULL, .help = "Nesterov's momentum (default on)"},
    {"weight_decay", NUMBER, AT(weight_decay), "X",
     .help = "L2, added to the gradient (default 1e-4)", .min = 0, .max = ANY},
    {"augment", TEXT, AT(augment), "crop:4,flip",
     .help = "random crops of padded images, mirrored images", .fallback = ""},
    {"normalize", TEXT, AT(normalize), "HOW",
     .help = "auto (by the training set, default), none, half, cifar or M,M,M/S,S,S",
     .fallback = "auto"},
    {"sampler", TEXT, AT(sampler), "balanced:CxK",
     .help = "batches of C classes with K samples each", .fallback = ""},
    {"seed", SEED, AT(seed), "N", .help = "of every random choice (default 0)"},
    {"seeds", WHOLE, AT(seeds), "K", .help = "K runs from seed on; mean and deviation (default 1)",
     .min = 1, .max = 1e6, .flags = FREE},
    {"samples_per_class", WHOLE, AT(samples_per_class), "K",
     .help = "train on K samples of each class (default 0: all)", .min = 0, .max = 1e9},
    {"classes", TEXT, AT(classes), "A,B,...", .help = "only these classes"},
    {"val_split", SHARE, AT(val_split), "10%", .help = "held out of the training set, stratified"},
    {"test_share", SHARE, AT(test_share), "20%",
     .help = "of a set without a test part (default 20%)"},
    {"skip_test", SWITCH, AT(skip_test), NULL,
     .help = "do not look at the test split: errors of validation alone"},
    {"resize", SMALL, AT(resize), "N",
     .help = "image folders: the shorter side, then a centre crop (default 0: where need be)",
     .min = 0, .max = 4096},
    {"channels", SMALL, AT(channels), "1|3",
     .help = "image folders: grey or colour (default 0: as they are)", .min = 0, .max = 4},
    {"skip_bad", SWITCH, AT(skip_bad), NULL, .help = "image folders: leave out unreadable images"},
    {"init", CHOICE, AT(init), "xavier|msra", .help = "first weights (default xavier)",
     .fallback = "xavier"},
    {"init_from", TEXT, AT(init_from), "FILE",
     .help = "weights of a .safetensors or .caffemodel file", .flags = FREE},
    {"freeze", TEXT, AT(freeze), "A,B,...", .help = "keep the weights whose names begin so"},
    {"eval_every", WHOLE, AT(eval_every), "N", .help = "epochs between evaluations (default 1)",
     .min = 1, .max = 1e9, .flags = FREE},
    {"save_every", WHOLE, AT(save_every), "N",
     .help = "epochs between checkpoints (default 0: as many as take 5% of the time)", .min = 0,
     .max = 1e9, .flags = FREE},
    {"device", TEXT, AT(device), "auto|cpu|cuda[:i]|ref", .help = "where it runs (default auto)",
     .fallback = "auto", .flags = FREE | OWN},
    {"precision", CHOICE, AT(precision), "fp32|tf32|bf16",
     .help = "of the arithmetic (default fp32)", .fallback = "fp32"},
    {"conv", CHOICE, AT(conv), "auto|direct",
     .help = "convolutions: the fastest, or never Winograd", .fallback = "auto"},
    {"bn", CHOICE, AT(bn), "sync|local",
     .help = "several processes: batch norm of the whole batch or of each part (default sync)",
     .fallback = "sync"},
    {"ole_scope", CHOICE, AT(ole_scope), "global|local",
     .help = "several processes: OLE of the whole batch or of each part (default global)",
     .fallback = "global"},
    {"threads", SMALL, AT(threads), "N", .help = "threads (default 0: all processors)", .min = 0,
     .max = 1024, .flags = FREE | OWN},
    {"workers", SMALL, AT(workers), "N", .help = "threads that assemble batches (default 1)",
     .min = 0, .max = OLE_LOADER_MAX_THREADS, .flags = FREE | OWN},
};

enum { COUNT = sizeof entries / sizeof *entries };

static const char *const loss_names[] = {
    [OLE_LOSS_SOFTMAX] = "softmax", [OLE_LOSS_OLE] = "ole", [OLE_LOSS_BOTH] = "softmax+ole"};

void ole_train_options_init(ole_train_options *options) {
    *options = (ole_train_options){
        .struct_size = sizeof *options,
        .milestones = "50%,75%",
        .augment = "",
        .normalize = "auto",
        .ole_at = "",
        .sampler = "",
        .init = "xavier",
        .opt = "sgd",
        .device = "auto",
        .precision = "fp32",
        .conv = "auto",
        .bn = "sync",
        .ole_scope = "global",
        .loss = OLE_LOSS_BOTH,
        .lambda = 0.25,
        .epochs = 20,
        .batch_size = 64,
        .gamma = 0.1,
        .momentum = 0.9,
        .nesterov = true,
        .weight_decay = 1e-4,
        .seeds = 1,
        .test_share = 0.2,
        .workers = 1,
        .eval_every = 1,
    };
}

void ole_train_dataset_options(const ole_train_options *o, ole_dataset_options *data) {
    ole_dataset_options_init(data);
    data->validation = o->val_split;
    data->samples_per_class = o->samples_per_class;
    data->classes = o->classes;
    data->seed = o->seed;
    data->resize = o->resize;
    data->channels = o->channels;
    data->skip_bad = o->skip_bad;
    data->test_share = o->test_share;
    data->apart = o->out;
}

size_t ole_train_option_count(void) {
    return COUNT;
}

ole_train_option ole_train_option_get(size_t i) {
    if (i >= COUNT) return (ole_train_option){0};
    return (ole_train_option){entries[i].name, entries[i].value, entries[i].help};
}

bool ole_option_is_stored(size_t i) {
    return !(entries[i].flags & LOCAL);
}

bool ole_option_is_free(size_t i) {
    return entries[i].flags & FREE;
}

bool ole_option_is_own(size_t i) {
    return entries[i].flags & OWN;
}

/* ---- Showing ------------------------------------------------------------------------------ */

static const void *field_of(const ole_train_options *options, const entry *e) {
    return (const char *)options + e->offset;
}

void ole_option_number(double value, char room[OLE_TRAIN_OPTION_TEXT]) {
    for (int digits = 6; digits <= 17; digits++) {
        ole_number_write(room, digits, value);
        if (ole_number_read(room, NULL) == value) return;
    }
}

const char *ole_train_option_text(const ole_train_options *options, size_t i,
                                  char room[OLE_TRAIN_OPTION_TEXT]) {
    if (i >= COUNT) return NULL;
    const entry *e = &entries[i];
    const void *field = field_of(options, e);
    switch (e->kind) {
    case TEXT:
    case CHOICE:
        return *(const char *const *)field;
    case LOSS:
        return loss_names[*(const ole_loss_kind *)field];
    case NUMBER:
    case SHARE:
        ole_option_number(*(const double *)field, room);
        return room;
    case WHOLE:
        snprintf(room, OLE_TRAIN_OPTION_TEXT, "%" PRId64, *(const int64_t *)field);
        return room;
    case SMALL:
        snprintf(room, OLE_TRAIN_OPTION_TEXT, "%d", *(const int *)field);
        return room;
    case SEED:
        snprintf(room, OLE_TRAIN_OPTION_TEXT, "%" PRIu64, *(const uint64_t *)field);
        return room;
    default:
        return *(const bool *)field ? "true" : "false";
    }
}

/* ---- Checking ----------------------------------------------------------------------------- */

static ole_status fail_value(const char *name, const char *text, const char *expected,
                             ole_error *error) {
    ole_shown shown;
    return ole_fail(error, OLE_ERROR_ARGUMENT, "%s %s: %s expected", name,
                    ole_show_string(&shown, text), expected);
}

static ole_status fail_range(const char *name, const entry *e, const char *text, ole_error *error) {
    char expected[96];
    const char *what = e->kind == NUMBER ? "a number" : "a whole number";
    if (e->max < HUGE_VAL)
        snprintf(expected, sizeof expected, "%s from %g to %.10g", what, e->min, e->max);
    else
        snprintf(expected, sizeof expected, "%s from %g up", what, e->min);
    return fail_value(name, text, expected, error);
}

/* Whether `text` is one of the words of `list`, split at '|'. */
static bool is_choice(const char *list, const char *text) {
    size_t length = strlen(text);
    for (const char *word = list; word; word = strchr(word, '|')) {
        if (*word == '|') word++;
        size_t size = strcspn(word, "|");
        if (size == length && memcmp(word, text, size) == 0) return true;
    }
    return false;
}

static ole_status fail_choice(const char *name, const entry *e, const char *text,
                              ole_error *error) {
    char expected[64];
    snprintf(expected, sizeof expected, "one of %s", e->value);
    return fail_value(name, text, expected, error);
}

/* Texts go into the run's files, which are UTF-8. */
static ole_status check_stored(const char *text, const entry *e, const char *name,
                               ole_error *error) {
    if (!text || !ole_option_is_stored((size_t)(e - entries))) return OLE_OK;
    size_t length = 1;
    for (const char *at = text; *at && length > 0; at += length)
        length = ole_utf8_sequence(at);
    if (length > 0) return OLE_OK;
    ole_shown shown;
    return ole_fail(error, OLE_ERROR_ARGUMENT,
                    "%s %s: is not UTF-8, as the files of a run are: rename it", name,
                    ole_show_string(&shown, text));
}

/* One field of the struct against its entry; `name` is what the message calls it. */
static ole_status check_field(const ole_train_options *options, const entry *e, const char *name,
                              ole_error *error) {
    const void *field = field_of(options, e);
    char room[OLE_TRAIN_OPTION_TEXT];
    double value = 0.0;
    switch (e->kind) {
    case CHOICE:
        if (is_choice(e->value, *(const char *const *)field)) return OLE_OK;
        return fail_choice(name, e, *(const char *const *)field, error);
    case LOSS: {
        int loss = (int)*(const ole_loss_kind *)field;
        if (loss >= OLE_LOSS_SOFTMAX && loss <= OLE_LOSS_BOTH) return OLE_OK;
        snprintf(room, sizeof room, "%d", loss);
        return fail_choice(name, e, room, error);
    }
    case SHARE:
        value = *(const double *)field;
        if (value >= 0.0 && value < 1.0) return OLE_OK;
        ole_option_number(value, room);
        return fail_value(name, room, "a share such as 10% or 0.1, less than 1,", error);
    case NUMBER:
        value = *(const double *)field;
        break;
    case WHOLE:
        value = (double)*(const int64_t *)field;
        break;
    case SMALL:
        value = *(const int *)field;
        break;
    case TEXT:
        return check_stored(*(const char *const *)field, e, name, error);
    default:
        return OLE_OK;
    }
    if (isfinite(value) && value >= e->min && value <= e->max) return OLE_OK;
    return fail_range(name, e, ole_train_option_text(options, (size_t)(e - entries), room), error);
}

/* The options whose text has a form of its own. */
static ole_status check_texts(const ole_train_options *o, ole_error *error) {
    ole_schedule schedule;
    ole_augment_spec augment;
    ole_sampler_spec sampler;
    ole_normalize_spec normalize;
    ole_acts acts;
    ole_status status = ole_schedule_init(&schedule, o, 1, error);
    if (status == OLE_OK) status = ole_augment_parse(&augment, o->augment, error);
    if (status == OLE_OK) status = ole_sampler_parse(&sampler, o->sampler, error);
    if (status == OLE_OK) status = ole_normalize_parse(&normalize, o->normalize, error);
    if (status == OLE_OK) status = ole_acts_parse(&acts, o->ole_at, o->lambda, error);
    return status;
}

static ole_status check_together(const ole_train_options *o, ole_error *error) {
    if (!o->data || !*o->data)
        return ole_fail(error, OLE_ERROR_ARGUMENT, "data is missing: name a data set, as digits");
    if ((o->resize != 0 || o->channels != 0) && strncmp(o->data, "folder:", 7) != 0) {
        ole_shown shown;
        return ole_fail(error, OLE_ERROR_ARGUMENT,
                        "%s %d is for image folders (folder:PATH): the samples of %s stay as they "
                        "are; leave it out",
                        o->resize ? "resize" : "channels", o->resize ? o->resize : o->channels,
                        ole_show_string(&shown, o->data));
    }
    if (o->net && !*o->net)
        return ole_fail(error, OLE_ERROR_ARGUMENT,
                        "net is empty: give a name or the notation, or leave it out");
    if (o->resume && !o->out)
        return ole_fail(error, OLE_ERROR_ARGUMENT, "resume needs out, the run folder to go on in");
    if (o->model && o->seeds > 1)
        return ole_fail(error, OLE_ERROR_ARGUMENT,
                        "several seeds train several models: take them from their run folders");
    return OLE_OK;
}

ole_status ole_train_options_check(const ole_train_options *given, ole_train_options *out,
                                   ole_error *error) {
    ole_train_options_init(out);
    if (!given || given->struct_size < offsetof(ole_train_options, data))
        return ole_fail(error, OLE_ERROR_ARGUMENT,
                        "the options were not filled by ole_train_options_init()");
    size_t size = given->struct_size < sizeof *out ? given->struct_size : sizeof *out;
    memcpy(out, given, size);
    out->struct_size = sizeof *out;
    for (size_t i = 0; i < COUNT; i++) {
        const entry *e = &entries[i];
        if (e->fallback && !*(const char *const *)field_of(out, e))
            *(const char **)((char *)out + e->offset) = e->fallback;
        ole_status status = check_field(out, e, e->name, error);
        if (status != OLE_OK) return status;
    }
    if (out->lr == 0.0) out->lr = strcmp(out->opt, "adam") == 0 ? 1e-3 : 0.1;
    ole_status status = check_together(out, error);
    return status == OLE_OK ? check_texts(out, error) : status;
}

/* ---- Setting ------------------------------------------------------------------------------ */

/* A number, a quotient of two, or (where `percent`) one followed by %. */
static bool parse_number(const char *text, bool percent, double *value) {
    char *end;
    *value = ole_number_read(text, &end);
    if (end == text) return false;
    if (percent && strcmp(end, "%") == 0) {
        *value /= 100.0;
        return true;
    }
    if (*end == '/') {
        const char *second = end + 1;
        double divisor = ole_number_read(second, &end);
        if (end == second || divisor == 0.0) return false;
        *value /= divisor;
    }
    return *end == '\0' && isfinite(*value);
}

/* As YAML has them, in letters of either case. */
static bool parse_switch(const char *text, bool *value) {
    static const char *const words[] = {"false", "true", "no", "yes", "off", "on", "0", "1"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcasecmp(text, words[i]) == 0) {
            *value = i % 2 == 1;
            return true;
        }
    return false;
}

static bool parse_loss(const char *text, ole_loss_kind *loss) {
    for (int i = OLE_LOSS_SOFTMAX; i <= OLE_LOSS_BOTH; i++)
        if (strcmp(text, loss_names[i]) == 0) {
            *loss = (ole_loss_kind)i;
            return true;
        }
    return false;
}

static bool parse_seed(const char *text, uint64_t *seed) {
    char *end;
    errno = 0;
    *seed = strtoull(text, &end, 10);
    return *text >= '0' && *text <= '9' && *end == '\0' && errno == 0;
}

/* Writes the text into the field of its kind; the range is checked afterwards. */
static ole_status set_field(ole_train_options *options, const entry *e, const char *name,
                            const char *text, ole_error *error) {
    void *field = (char *)options + e->offset;
    double value;
    switch (e->kind) {
    case TEXT:
    case CHOICE:
        *(const char **)field = text;
        return OLE_OK;
    case LOSS:
        return parse_loss(text, field) ? OLE_OK : fail_choice(name, e, text, error);
    case SEED:
        if (parse_seed(text, field)) return OLE_OK;
        return fail_value(name, text, "a whole number from 0 up", error);
    case SWITCH:
        if (parse_switch(text, field)) return OLE_OK;
        return fail_value(name, text, "true or false", error);
    case SHARE:
        if (!parse_number(text, true, field)) *(double *)field = NAN;
        if (*(double *)field >= 0.0 && *(double *)field < 1.0) return OLE_OK;
        return fail_value(name, text, "a share such as 10% or 0.1, less than 1,", error);
    case NUMBER:
        return parse_number(text, false, field) ? OLE_OK : fail_range(name, e, text, error);
    default:
        if (!parse_number(text, false, &value) || value != floor(value) || value < e->min ||
            value > e->max)
            return fail_range(name, e, text, error);
        if (e->kind == WHOLE)
            *(int64_t *)field = (int64_t)value;
        else
            *(int *)field = (int)value;
        return OLE_OK;
    }
}

static ole_status fail_unknown(const char *name, const char *canonical, ole_error *error) {
    const char *names[COUNT];
    for (size_t i = 0; i < COUNT; i++)
        names[i] = entries[i].name;
    const char *nearest = ole_nearest(canonical, names, COUNT);
    ole_shown shown;
    ole_show_string(&shown, name);
    if (nearest)
        return ole_fail(error, OLE_ERROR_ARGUMENT, "unknown option %s; did you mean %s?",
                        shown.text, nearest);
    return ole_fail(error, OLE_ERROR_ARGUMENT, "unknown option %s", shown.text);
}

ole_status ole_train_options_set(ole_train_options *options, const char *name, const char *text,
                                 ole_error *error) {
    if (!options || !name || !text)
        return ole_fail(error, OLE_ERROR_ARGUMENT, "ole_train_options_set: an argument is NULL");
    char canonical[64];
    snprintf(canonical, sizeof canonical, "%s", name);
    for (char *c = canonical; *c; c++)
        if (*c == '-') *c = '_';
    for (size_t i = 0; i < COUNT; i++) {
        const entry *e = &entries[i];
        if (strcmp(e->name, canonical) != 0) continue;
        ole_train_options changed = *options;
        ole_status status = set_field(&changed, e, name, text, error);
        if (status == OLE_OK) status = check_field(&changed, e, name, error);
        if (status == OLE_OK) *options = changed;
        return status;
    }
    return fail_unknown(name, canonical, error);
}
