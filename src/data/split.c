/*
 * src/data/split.c - test share, validation split, samples per class, and the choice of classes.
 *
 * All of it is done class by class, so every split has the classes in the proportions of the whole.
 * A class's samples are permuted once by (seed, class): the first go to validation, the next K are
 * kept for training.  So more samples per class means the same ones and some more, and leaving out
 * other classes changes nothing.  The test part of a set without one does not follow the seed: runs
 * that differ in the seed are judged on the same samples.
 */
#include "data/dataset.h"

#include "base/error.h"
#include "base/quote.h"
#include "data/shuffle.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { OUT = -1 };
enum { OLE_RANDOM_SPLIT = 5 };          /* a = class, b = position */
#define TEST_STREAM (UINT64_C(1) << 32) /* added to the class: its own permutation */

typedef struct work {
    const ole_source *source;
    const char *name;
    const ole_dataset_options *options;
    int *to;           /* [source classes]: new number, or OUT */
    int8_t *role;      /* [count]: an ole_split, or OUT */
    int64_t *members;  /* [count]: training part by class */
    int64_t *start;    /* [source classes + 1]: where each class begins in members */
    double validation; /* the share that is held out */
} work;

/* ---- Classes ------------------------------------------------------------------------------ */

static int find_class(const ole_source *source, const char *text, size_t length) {
    for (int c = 0; c < source->classes; c++)
        if (strlen(source->class_names[c]) == length &&
            memcmp(source->class_names[c], text, length) == 0)
            return c;
    char number[16];
    if (length == 0 || length >= sizeof number) return OUT;
    memcpy(number, text, length);
    number[length] = '\0';
    if (number[strspn(number, "0123456789")]) return OUT;
    long value = strtol(number, NULL, 10);
    return value < source->classes ? (int)value : OUT;
}

static ole_status unknown_class(const work *w, const char *text, size_t length, ole_error *error) {
    const ole_source *source = w->source;
    return ole_fail(error, OLE_ERROR_ARGUMENT,
                    "%s: no class '%s'; its %d classes are 0 '%s' to %d '%s'", w->name,
                    ole_quote(text, length).text, source->classes,
                    ole_quote_string(source->class_names[0]).text, source->classes - 1,
                    ole_quote_string(source->class_names[source->classes - 1]).text);
}

/* Fills `to` and the splits' list of classes. */
static ole_status choose_classes(work *w, ole_splits *splits, ole_error *error) {
    const char *text = w->options->classes;
    for (int c = 0; c < w->source->classes; c++) {
        w->to[c] = text ? OUT : c;
        if (!text) splits->class[splits->classes++] = c;
    }
    while (text) {
        size_t length = strcspn(text, ",");
        int c = find_class(w->source, text, length);
        if (c == OUT) return unknown_class(w, text, length, error);
        if (w->to[c] != OUT)
            return ole_fail(error, OLE_ERROR_ARGUMENT, "%s: class '%s' is given twice", w->name,
                            ole_quote(text, length).text);
        w->to[c] = splits->classes;
        splits->class[splits->classes++] = c;
        text = text[length] ? text + length + 1 : NULL;
    }
    return OLE_OK;
}

/* ---- Roles -------------------------------------------------------------------------------- */

/* The share of n samples, rounded, but neither none nor all if possible. */
static int64_t share_of(int64_t n, double share) {
    if (share <= 0 || n < 2) return 0;
    int64_t taken = (int64_t)floor((double)n * share + 0.5);
    if (taken < 1) return 1;
    return taken > n - 1 ? n - 1 : taken;
}

/* Sorts the training part by class, stable. */
static void group_members(work *w) {
    const ole_source *source = w->source;
    int64_t *start = w->start;
    memset(start, 0, ((size_t)source->classes + 1) * sizeof *start);
    for (int64_t i = 0; i < source->train_count; i++)
        start[source->labels[i] + 1]++;
    for (int c = 0; c < source->classes; c++)
        start[c + 1] += start[c];
    for (int64_t i = 0; i < source->train_count; i++)
        w->members[start[source->labels[i]]++] = i;
    for (int c = source->classes; c > 0; c--) /* each start has moved to the next one's place */
        start[c] = start[c - 1];
    start[0] = 0;
}

static void give_role(work *w, const int64_t *members, int64_t count, int role) {
    for (int64_t i = 0; i < count; i++)
        w->role[members[i]] = (int8_t)role;
}

/* Where test samples go: into their split, or nowhere. */
static int test_role(const work *w) {
    return w->options->skip_test ? OUT : OLE_SPLIT_TEST;
}

/* The size of the test part, of n samples, for a set that has none of its own. */
static int64_t test_count(const work *w, int64_t n) {
    const ole_source *source = w->source;
    bool divides = !source->has_test && source->train_count == source->count;
    return divides ? share_of(n, source->test_share) : 0;
}

/* The share for validation, or for calibration if every class has enough samples. */
static double held_out(const work *w) {
    const ole_dataset_options *o = w->options;
    if (o->validation > 0.0 || o->samples_per_class > 0) return o->validation;
    for (int c = 0; c < w->source->classes; c++) {
        int64_t count = w->start[c + 1] - w->start[c];
        if (w->to[c] != OUT && count - test_count(w, count) < OLE_CALIBRATION_SAMPLES) return 0.0;
    }
    return o->calibration;
}

static ole_status divide_class(work *w, int c, ole_error *error) {
    const ole_source *source = w->source;
    int64_t *members = w->members + w->start[c], count = w->start[c + 1] - w->start[c];
    int64_t test = test_count(w, count);
    if (test > 0) {
        ole_shuffle(members, count, 0, OLE_RANDOM_SPLIT, TEST_STREAM + (uint64_t)c, 0);
        give_role(w, members, test, test_role(w));
        members += test;
        count -= test;
    }
    ole_shuffle(members, count, w->options->seed, OLE_RANDOM_SPLIT, (uint64_t)c, 0);
    int64_t validation = share_of(count, w->validation);
    give_role(w, members, validation, OLE_SPLIT_VALIDATION);
    members += validation;
    count -= validation;
    int64_t wanted = w->options->samples_per_class;
    const ole_quoted quoted = ole_quote_string(source->class_names[c]);
    const char *class_name = quoted.text;
    if (count == 0)
        return ole_fail(error, OLE_ERROR_DATA, "%s: class %d '%s' has no training samples", w->name,
                        c, class_name);
    if (wanted > count)
        return ole_fail(error, OLE_ERROR_ARGUMENT,
                        "%s: class %d '%s' has %" PRId64
                        " training samples, not the requested %" PRId64
                        "; request fewer, or exclude the class",
                        w->name, c, class_name, count, wanted);
    give_role(w, members, wanted ? wanted : count, OLE_SPLIT_TRAIN);
    return OLE_OK;
}

static ole_status assign_roles(work *w, ole_error *error) {
    const ole_source *source = w->source;
    for (int64_t i = 0; i < source->count; i++) {
        bool test = i >= source->train_count && w->to[source->labels[i]] != OUT;
        w->role[i] = test ? (int8_t)test_role(w) : OUT;
    }
    group_members(w);
    w->validation = held_out(w);
    for (int c = 0; c < source->classes; c++) {
        ole_status status = w->to[c] == OUT ? OLE_OK : divide_class(w, c, error);
        if (status != OLE_OK) return status;
    }
    return OLE_OK;
}

/* ---- Lists -------------------------------------------------------------------------------- */

static ole_status out_of_memory(const char *name, ole_error *error) {
    return ole_fail(error, OLE_ERROR_MEMORY, "%s: out of memory for its splits", name);
}

static ole_status list_samples(const work *w, ole_splits *splits, ole_error *error) {
    const ole_source *source = w->source;
    for (int64_t i = 0; i < source->count; i++)
        if (w->role[i] != OUT) splits->count[w->role[i]]++;
    for (int s = 0; s < 3; s++) {
        size_t room = (size_t)splits->count[s] + 1;
        splits->index[s] = malloc(room * sizeof *splits->index[s]);
        splits->labels[s] = malloc(room * sizeof *splits->labels[s]);
        if (!splits->index[s] || !splits->labels[s]) return out_of_memory(w->name, error);
        splits->count[s] = 0;
    }
    for (int64_t i = 0; i < source->count; i++) {
        int s = w->role[i];
        if (s == OUT) continue;
        int64_t at = splits->count[s]++;
        splits->index[s][at] = i;
        splits->labels[s][at] = w->to[source->labels[i]];
    }
    return OLE_OK;
}

ole_status ole_splits_make(ole_splits *splits, const ole_source *source, const char *name,
                           const ole_dataset_options *options, ole_error *error) {
    *splits = (ole_splits){0};
    size_t classes = (size_t)source->classes, count = (size_t)source->count;
    splits->class = malloc(classes * sizeof *splits->class);
    work w = {
        .source = source,
        .name = name,
        .options = options,
        .to = malloc(classes * sizeof *w.to),
        .role = malloc(count + 1),
        .members = malloc((count + 1) * sizeof *w.members),
        .start = malloc((classes + 1) * sizeof *w.start),
    };
    ole_status status = OLE_OK;
    if (!splits->class || !w.to || !w.role || !w.members || !w.start)
        status = out_of_memory(name, error);
    if (status == OLE_OK) status = choose_classes(&w, splits, error);
    if (status == OLE_OK) status = assign_roles(&w, error);
    if (status == OLE_OK) status = list_samples(&w, splits, error);
    free(w.to);
    free(w.role);
    free(w.members);
    free(w.start);
    if (status != OLE_OK) ole_splits_free(splits);
    return status;
}

void ole_splits_free(ole_splits *splits) {
    free(splits->class);
    for (int s = 0; s < 3; s++) {
        free(splits->index[s]);
        free(splits->labels[s]);
    }
    *splits = (ole_splits){0};
}
