/*
 * src/train/options/options.c - the public functions over the option table, the checks that
 * involve more than one option, and choices left to the data.
 */
#include "train/options/options.h"

#include "base/error.h"
#include "base/min_max.h"
#include "base/quote.h"
#include "base/struct_size.h"
#include "base/utf8.h"
#include "data/source.h"
#include "model/option_syntax.h"
#include "ole/train/net.h"
#include "train/options/schedule.h"
#include "train/run/run.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static ole_train_options defaults(void) {
    ole_train_options options = {.struct_size = sizeof options};
    ole_options_init(ole_train_table, &options);
    return options;
}

void ole_train_options_init_sized(ole_train_options *options, size_t struct_size) {
    ole_train_options ours = defaults();
    ole_struct_fill(options, struct_size, &ours);
}

ole_status ole_train_options_read(ole_train_options *options, const ole_train_options *given,
                                  ole_error *error) {
    *options = defaults();
    if (!given)
        return ole_fail(error, OLE_ERROR_ARGUMENT,
                        "options is NULL: fill options with ole_train_options_init()");
    return ole_struct_read(options, given, OLE_SIZE_UP_TO(ole_train_options, delta_rel),
                           "ole_train_options_init", error);
}

void ole_train_dataset_options(const ole_train_options *o, ole_dataset_options *data) {
    ole_dataset_options_init(data);
    data->validation = o->val_split;
    data->calibration = o->calibration;
    data->samples_per_class = o->samples_per_class;
    data->classes = o->classes;
    data->seed = o->seed;
    data->resize = o->resize;
    data->channels = o->channels;
    data->skip_bad = o->skip_bad;
    data->align = o->align;
    data->test_share = o->test_share;
    data->apart = o->out;
}

void ole_train_put_flags(FILE *to, const ole_train_options *options, unsigned flags) {
    const ole_train_options usual = defaults();
    for (const ole_option *o = ole_train_table; o->name; o++) {
        char room[OLE_OPTION_VALUE], flag[OLE_OPTION_FLAG];
        const char *value = ole_option_text(o, options, room);
        bool wanted = (flags ? o->flags & flags : o->offset != offsetof(ole_train_options, data)) &&
                      ole_option_differs(o, options, &usual);
        if (!wanted || !value) continue;
        bool off = o->kind == OLE_SWITCH && strcmp(value, "false") == 0;
        char *shown = ole_without_secrets(value), *word = shown ? ole_shell_word(shown) : NULL;
        fprintf(to, " --%s%s", off ? "no-" : "", ole_option_flag(o, flag) + 2);
        if (o->kind != OLE_SWITCH) fprintf(to, " %s", word ? word : "");
        free(shown);
        free(word);
    }
}

ole_status ole_train_options_set(ole_train_options *options, const char *name, const char *text,
                                 ole_error *error) {
    if (!options || !name || !text)
        return ole_fail(error, OLE_ERROR_ARGUMENT, "ole_train_options_set: an argument is NULL");
    char why[OLE_OPTION_WHY];
    const ole_option *o = ole_option_find(ole_train_table, name, strlen(name));
    if (o && o->offset >= options->struct_size)
        return ole_fail(error, OLE_ERROR_ARGUMENT,
                        "%s is newer than the program, which was built for an older version of the "
                        "library",
                        o->name);
    if (o) {
        if (ole_option_set(o, options, name, text, why)) return OLE_OK;
        return ole_fail(error, OLE_ERROR_ARGUMENT, "%s", why);
    }
    const ole_quoted quoted = ole_quote_string(name);
    o = ole_option_nearest(ole_train_table, name, strlen(name));
    if (!o) return ole_fail(error, OLE_ERROR_ARGUMENT, "unknown option %s", quoted.text);
    return ole_fail(error, OLE_ERROR_ARGUMENT, "unknown option %s; did you mean %s?", quoted.text,
                    o->name);
}

int ole_train_moments(const ole_train_options *options) {
    return strcmp(options->opt, "sgd") == 0 ? 1 : 2;
}

bool ole_train_keeps_best(const ole_train_options *o) {
    if (strcmp(o->keep, "auto") == 0) return o->val_split > 0.0;
    return strcmp(o->keep, "best") == 0;
}

/* ---- Checking ----------------------------------------------------------------------------- */

/* Texts go into the run's files, which are UTF-8. */
static ole_status check_utf8(const ole_option *o, const char *text, ole_error *error) {
    if (ole_utf8_is_valid(text)) return OLE_OK;
    return ole_fail(error, OLE_ERROR_ARGUMENT,
                    "%s '%s': not UTF-8; rename it, as a run's files are UTF-8", o->name,
                    ole_quote_string(text).text);
}

/* Checks one option on its own; a missing text gets its default. */
static ole_status check_option(ole_train_options *options, const ole_option *o, ole_error *error) {
    char why[OLE_OPTION_WHY];
    if (o->kind == OLE_TEXT || o->kind == OLE_WORD) {
        const char **text = (const char **)((char *)options + o->offset);
        if (!*text) *text = o->initial;
        bool stored = *text && !(o->flags & OLE_TRANSIENT);
        ole_status status = stored ? check_utf8(o, *text, error) : OLE_OK;
        if (status != OLE_OK) return status;
    }
    if (ole_option_check(o, options, o->name, why)) return OLE_OK;
    return ole_fail(error, OLE_ERROR_ARGUMENT, "%s", why);
}

/* Checks the options whose text has a syntax of its own. */
static ole_status check_texts(const ole_train_options *o, ole_error *error) {
    ole_schedule schedule;
    ole_augment_spec augment;
    ole_sampler_spec sampler;
    ole_normalize_spec normalize;
    ole_acts acts;
    const ole_criterion *criterion;
    double factor, param[OLE_CRITERION_PARAMS];
    ole_status status = ole_schedule_init(&schedule, o, 1, error);
    if (status == OLE_OK) status = ole_augment_parse(&augment, o->augment, error);
    if (status == OLE_OK) status = ole_sampler_parse(&sampler, o->sampler, error);
    if (status == OLE_OK) status = ole_normalize_parse(&normalize, o->normalize, error);
    if (status == OLE_OK) status = ole_acts_parse(&acts, o->ole_at, o->lambda, error);
    if (status == OLE_OK) status = ole_train_criterion(o, &criterion, param, error);
    if (status == OLE_OK && augment.mixup > 0 && (criterion || !(o->loss & OLE_LOSS_SOFTMAX)))
        status =
            ole_fail(error, OLE_ERROR_ARGUMENT,
                     "augment '%s': mixup blends labels for softmax; train with --loss softmax "
                     "or softmax+ole, or omit it",
                     ole_quote_string(o->augment).text);
    if (status == OLE_OK)
        status = ole_rate_parse(&factor, "lr_backbone", o->lr_backbone, o->lr, error);
    return status;
}

/* The criterion of a bit of ole_loss_kind: behind those of softmax and OLÉ. */
static const ole_criterion *criterion_of_bit(int bit) {
    return bit < 2 ? NULL : ole_criterion_at(bit - 2);
}

ole_status ole_train_criterion(const ole_train_options *o, const ole_criterion **criterion,
                               double param[OLE_CRITERION_PARAMS], ole_error *error) {
    const ole_criterion *c = NULL;
    for (int bit = 2; criterion_of_bit(bit); bit++) {
        if (!(o->loss & 1 << bit)) continue;
        if (c)
            return ole_fail(
                error, OLE_ERROR_ARGUMENT,
                "loss: %s and %s cannot be combined; use one of them, with softmax or OLE", c->name,
                criterion_of_bit(bit)->name);
        c = criterion_of_bit(bit);
    }
    *criterion = c;
    if (c && c->traits & OLE_CRITERION_HEAD && o->loss & OLE_LOSS_SOFTMAX)
        return ole_fail(error, OLE_ERROR_ARGUMENT, "loss: %s replaces softmax; omit one of them",
                        c->name);
    if (c && !(c->traits & (OLE_CRITERION_ALONE | OLE_CRITERION_HEAD)) &&
        !(o->loss & OLE_LOSS_CLASSIFIERS))
        return ole_fail(error, OLE_ERROR_ARGUMENT, "loss: %s needs a classifier; use softmax+%s",
                        c->name, c->name);
    if (!c && *o->loss_options)
        return ole_fail(error, OLE_ERROR_ARGUMENT,
                        "loss_options %s: softmax and ole have options of their own",
                        ole_quote_string(o->loss_options).text);
    if (!c) return OLE_OK;
    ole_criterion_defaults(c, param);
    return ole_criterion_read(c, o->loss_options, param, error);
}

static ole_status check_together(const ole_train_options *o, ole_error *error) {
    if (!o->data || !*o->data)
        return ole_fail(error, OLE_ERROR_ARGUMENT,
                        "data is required: name a data set, such as digits");
    if (*o->align && strncmp(o->data, "folder:", 7) != 0)
        return ole_fail(error, OLE_ERROR_ARGUMENT,
                        "align %s applies to image folders (folder:PATH) only, not to %s",
                        ole_quote_string(o->align).text, ole_quote_string(o->data).text);
    if ((o->resize != 0 || o->channels != 0) && strncmp(o->data, "folder:", 7) != 0)
        return ole_fail(error, OLE_ERROR_ARGUMENT,
                        "%s %d applies to image folders (folder:PATH) only, not to %s",
                        o->resize ? "resize" : "channels", o->resize ? o->resize : o->channels,
                        ole_quote_string(o->data).text);
    if (o->net && !*o->net)
        return ole_fail(error, OLE_ERROR_ARGUMENT,
                        "net is empty: use a name or the notation, or omit it");
    if (o->resume && !o->out)
        return ole_fail(error, OLE_ERROR_ARGUMENT,
                        "resume needs out, the run folder to continue in");
    if (o->restart_schedule && !o->resume)
        return ole_fail(error, OLE_ERROR_ARGUMENT,
                        "restart_schedule is for a run that is resumed; add resume");
    if (o->probe_epochs > 0 && !(o->loss & OLE_LOSS_CLASSIFIERS))
        return ole_fail(error, OLE_ERROR_ARGUMENT,
                        "probe_epochs trains the classifier, which this loss does not have; add "
                        "softmax");
    if (o->model && o->seeds > 1)
        return ole_fail(error, OLE_ERROR_ARGUMENT,
                        "several seeds train several models; load them from their run folders");
    return OLE_OK;
}

ole_status ole_train_options_check(const ole_train_options *given, ole_train_options *out,
                                   ole_error *error) {
    ole_status status = ole_train_options_read(out, given, error);
    if (status != OLE_OK) return status;
    for (const ole_option *o = ole_train_table; o->name; o++) {
        status = check_option(out, o, error);
        if (status != OLE_OK) return status;
    }
    if (out->lr == 0.0) out->lr = ole_train_moments(out) == 2 ? 1e-3 : 0.1;
    status = check_together(out, error);
    return status == OLE_OK ? check_texts(out, error) : status;
}

/* ---- What published weights expect ---------------------------------------------------------- */

ole_status ole_train_expect(ole_train_options *o, ole_pretrained *p, ole_error *error) {
    *p = (ole_pretrained){0};
    if (!o->init_from || o->resume) return OLE_OK;
    ole_status status = ole_ranks_rank(o->ranks) == 0
                            ? ole_pretrained_read(p, o->init_from, o->net, error)
                            : OLE_OK;
    status = ole_ranks_agree(o->ranks, status, error);
    if (status != OLE_OK) return status;
    ole_ranks_broadcast(o->ranks, p, sizeof *p, 0);
    if (p->mistake[0] && strcmp(o->normalize, "auto") == 0)
        return ole_fail(error, OLE_ERROR_FORMAT, "%s: %s", p->config, p->mistake);
    const ole_quoted weights = ole_quote_string(o->init_from);
    if (p->licence[0])
        ole_run_say(o, "%s: licence %s, from its model card", weights.text, p->licence);
    else if (p->has_card)
        ole_run_say(o, "%s: its model card states no licence", weights.text);
    if (p->normalize[0] && strcmp(o->normalize, "auto") == 0) {
        o->normalize = p->normalize;
        ole_run_say(o,
                    "normalize: %s, from the config.json of the weights; --normalize sets another",
                    o->normalize);
    }
    if (p->net[0] && !o->net) {
        o->net = p->net;
        ole_run_say(o, "net: %s, that of the weights; --net sets another", o->net);
    }
    if (strncmp(o->data, "folder:", 7) != 0) return OLE_OK;
    if (p->channels > 0 && o->channels == 0) {
        o->channels = p->channels;
        ole_run_say(o, "images: in %s, as the weights expect; --channels sets another number",
                    o->channels == 1 ? "grey" : "colour");
    }
    if (p->side > 0 && o->resize == 0) {
        o->resize = p->side;
        ole_run_say(o, "images: %dx%d, from the %s of the weights; --resize sets another size",
                    o->resize, o->resize, p->side_stated ? "config.json" : "network");
    }
    return OLE_OK;
}

/* ---- What the data decide -------------------------------------------------------------------- */

enum { LARGE = 128 }; /* images whose longer side has at most this many pixels keep their size */

/* Small sets get more epochs: with fewer steps neither the weights nor batch norm's running
 * statistics converge. */
enum { EPOCHS = 20, MOST_EPOCHS = 100, STEPS = 200 };

ole_status ole_train_fail_single_class(const ole_train_options *o, ole_error *error) {
    return ole_fail(error, OLE_ERROR_FORMAT,
                    "%s has a single class; classification needs at least two",
                    ole_quote_string(o->data).text);
}

ole_status ole_train_choose(ole_train_options *o, ole_error *error) {
    bool folder = strncmp(o->data, "folder:", 7) == 0;
    bool images = folder && (o->resize == 0 || o->channels == 0);
    if (!o->net && o->init_from && !o->resume)
        return ole_fail(error, OLE_ERROR_ARGUMENT,
                        "init_from %s: name the network of the weights with --net",
                        ole_quote_string(o->init_from).text);
    if (o->net && o->epochs > 0 && !images) return OLE_OK;
    ole_probe probe;
    ole_status status = ole_dataset_probe(o->data, o->out, &probe, error);
    if (status != OLE_OK) return status;
    if (probe.classes == 1) return ole_train_fail_single_class(o, error);
    bool large = probe.height > LARGE || probe.width > LARGE;
    bool align = *o->align;
    if (folder && o->resize == 0 && (align || probe.sizes_differ || (large && !o->net))) {
        o->resize = probe.side < 48 ? 32 : probe.side < 80 ? 64 : 96; /* the nearest of the three */
        ole_run_say(o, "images: %dx%d, chosen because they %s; --resize sets another size",
                    o->resize, o->resize,
                    align                ? "are aligned"
                    : probe.sizes_differ ? "differ in size"
                                         : "are large");
    }
    if (folder && o->channels == 0 && probe.channels_differ) {
        o->channels = 3;
        ole_run_say(o, "images: in colour, although some are grey; --channels 1 makes all grey");
    }
    if (folder && o->resize > 0) probe.height = probe.width = o->resize;
    if (folder && o->channels > 0) probe.channels = o->channels;
    if (!o->net) {
        o->net = ole_net_suggest(probe.channels, probe.height, probe.width);
        if (probe.height == 1 && probe.width == 1)
            ole_run_say(o, "net: %s, chosen for vectors of %d; --net sets another", o->net,
                        probe.channels);
        else
            ole_run_say(o, "net: %s, chosen for %dx%dx%d; --net sets another", o->net,
                        probe.channels, probe.height, probe.width);
    }
    if (o->epochs > 0) return OLE_OK;
    /* Held-out samples do not count; a choice of classes or of samples per class is not known. */
    double share = (1.0 - o->val_split) * (probe.has_test ? 1.0 : 1.0 - o->test_share);
    double samples = share * (double)probe.samples;
    int64_t steps = (int64_t)ceil(samples / (double)o->batch_size);
    o->epochs = EPOCHS;
    if (steps == 0 || EPOCHS * steps >= STEPS) return OLE_OK;
    o->epochs = ole_min((STEPS + steps - 1) / steps, MOST_EPOCHS);
    ole_run_say(o, "epochs: %lld, chosen for %s%.0f sample%s; --epochs sets another number",
                (long long)o->epochs, samples < 100 ? "" : "about ", samples,
                samples < 1.5 ? "" : "s");
    return OLE_OK;
}
