/*
 * src/data/loader/loader.c - batches, assembled in the call or ahead of it by threads.
 *
 * A batch is a function of (seed, epoch, batch) alone; threads only change when it is computed, and
 * a loader of one part of each batch has exactly those rows of the whole.  The slots form a ring:
 * one holds the batch last handed out, the others those that follow it.  Which samples a slot gets
 * is decided by the caller's thread, in order; the threads take slots in that order and fill them.
 * Asking for a batch that does not follow the last one empties the ring.
 */
#include "data/loader/loader.h"
#include "base/arena.h"
#include "base/error.h"
#include "base/in_use.h"
#include "base/struct_size.h"
#include "data/loader/augment.h"
#include "data/loader/order.h"

#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_CROP = 4096 };

typedef enum slot_state { WAITING, BUSY, READY } slot_state;

typedef struct slot {
    slot_state state; /* under the mutex */
    int64_t epoch, batch, count;
    float *images;
    int32_t *labels;
    int64_t *indices;
    /* With mixup, else NULL: */
    ole_mix mix;
    int64_t *others; /* [count] sample that a row is blended with, -1 for none */
    float *other;    /* one of them that is in no part of ours */
    float share;
    int64_t first, whole; /* of our rows in the batch; all its rows */
} slot;

struct ole_loader {
    const ole_dataset *set;
    ole_split split;
    ole_augment augment;
    ole_order order;
    int part, parts; /* of each batch, which one is ours */
    bool varies;     /* epochs differ */
    double alpha;    /* of mixup; 0: none */
    void *memory;
    slot *slots;
    int slot_count;
    int head;                       /* the slot handed out last, or to be handed out next */
    int scheduled;                  /* slots in use from head on */
    int next_taken;                 /* the slot a thread takes next, counted from head */
    int64_t next_epoch, next_batch; /* of the next slot to be scheduled */
    bool handed_out;                /* the head slot is with the caller */
    int threads;
    pthread_t *thread;
    pthread_mutex_t mutex;
    pthread_cond_t work, done;
    bool stop;
    ole_in_use in_use;
};

/* ---- Options ------------------------------------------------------------------------------ */

static const ole_loader_options defaults = {
    .struct_size = sizeof(ole_loader_options), .batch_size = 64, .deviation = {1, 1, 1, 1}};

void ole_loader_options_init_sized(ole_loader_options *options, size_t struct_size) {
    ole_struct_fill(options, struct_size, &defaults);
}

static ole_status check_balanced(const ole_loader_options *o, const ole_dataset_info *info,
                                 ole_error *error) {
    if (o->balanced_classes == 0 && o->balanced_samples == 0) return OLE_OK;
    if (o->balanced_classes < 1 || o->balanced_classes > info->classes)
        return ole_fail(error, OLE_ERROR_ARGUMENT,
                        "options.balanced_classes is %d; must be 1 to %d, the classes of %s",
                        o->balanced_classes, info->classes, info->name);
    if (o->balanced_samples < 1 || o->balanced_samples > INT32_MAX / o->balanced_classes)
        return ole_fail(error, OLE_ERROR_ARGUMENT,
                        "options.balanced_samples is %d; must be 1 or more samples per class",
                        o->balanced_samples);
    return OLE_OK;
}

bool ole_loader_augments(const ole_loader_options *o) {
    return o->crop > 0 || o->flip || o->resized_crop > 0 || o->rotate > 0 || o->jitter > 0 ||
           o->erase > 0 || o->cutout > 0;
}

static ole_status check_photo(const ole_loader_options *o, const ole_dataset_info *info,
                              ole_error *error) {
    const struct {
        const char *name;
        double value, most;
    } limits[] = {{"resized_crop", o->resized_crop, 1},
                  {"rotate", o->rotate, 180},
                  {"jitter", o->jitter, 1},
                  {"erase", o->erase, 1},
                  {"cutout", o->cutout, MAX_CROP}};
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++)
        if (!(limits[i].value >= 0 && limits[i].value <= limits[i].most))
            return ole_fail(error, OLE_ERROR_ARGUMENT, "options.%s is %g; must be 0 to %g",
                            limits[i].name, limits[i].value, limits[i].most);
    if (o->jitter > 0 && !info->bytes)
        return ole_fail(error, OLE_ERROR_ARGUMENT,
                        "options.jitter is for images of bytes; %s has floats", info->name);
    return OLE_OK;
}

static ole_status check_pixels(const ole_loader_options *o, const ole_dataset_info *info,
                               ole_error *error) {
    bool vectors = info->height == 1 && info->width == 1;
    if (o->crop < 0 || o->crop > MAX_CROP)
        return ole_fail(error, OLE_ERROR_ARGUMENT, "options.crop is %d; must be 0 to %d", o->crop,
                        MAX_CROP);
    ole_status status = check_photo(o, info, error);
    if (status != OLE_OK) return status;
    if (vectors && ole_loader_augments(o))
        return ole_fail(
            error, OLE_ERROR_ARGUMENT,
            "options.crop, flip, resized_crop, rotate, jitter, erase and cutout are for "
            "images; %s has vectors",
            info->name);
    if (!vectors && info->channels > OLE_MAX_CHANNELS)
        return ole_fail(error, OLE_ERROR_ARGUMENT, "%s has images of %d channels; the limit is %d",
                        info->name, info->channels, OLE_MAX_CHANNELS);
    for (int c = 0; c < ole_statistic_count(info); c++)
        if (!isfinite(o->mean[c]) || !isfinite(o->deviation[c]) || !(o->deviation[c] > 0))
            return ole_fail(
                error, OLE_ERROR_ARGUMENT,
                "options.mean[%d] and deviation[%d] are %g and %g; must be a finite mean "
                "and a deviation over 0",
                c, c, o->mean[c], o->deviation[c]);
    return OLE_OK;
}

static ole_status check_options(const ole_loader_options *o, const ole_dataset *set,
                                ole_split split, ole_error *error) {
    const ole_dataset_info *info = &set->info;
    if (!ole_is_split(split) || info->count[split] == 0)
        return ole_fail(error, OLE_ERROR_ARGUMENT, "%s has no samples in split %d", info->name,
                        (int)split);
    if (info->count[split] > UINT32_MAX)
        return ole_fail(error, OLE_ERROR_ARGUMENT, "%s has more than 2^32 samples", info->name);
    if (o->batch_size < 1)
        return ole_fail(error, OLE_ERROR_ARGUMENT,
                        "options.batch_size is %" PRId64 "; must be 1 or more", o->batch_size);
    if (o->threads < 0 || o->threads > OLE_LOADER_MAX_THREADS)
        return ole_fail(error, OLE_ERROR_ARGUMENT, "options.threads is %d; must be 0 to %d",
                        o->threads, OLE_LOADER_MAX_THREADS);
    if (o->parts < 0 || o->part < 0 || o->part >= (o->parts > 0 ? o->parts : 1))
        return ole_fail(error, OLE_ERROR_ARGUMENT,
                        "options.part is %d of options.parts %d; must be 0 to parts - 1", o->part,
                        o->parts);
    ole_status status = check_balanced(o, info, error);
    return status == OLE_OK ? check_pixels(o, info, error) : status;
}

/* ---- Slots -------------------------------------------------------------------------------- */

/* Where part `part` of a batch of `count` begins. */
static int64_t part_first(const ole_loader *loader, int64_t count, int part) {
    int64_t left = count % loader->parts;
    return count / loader->parts * part + (part < left ? part : left);
}

/* Samples of a whole batch that are ours. */
static int64_t part_size(const ole_loader *loader) {
    int64_t batch = loader->order.batch_size;
    return part_first(loader, batch, loader->part + 1) - part_first(loader, batch, loader->part);
}

static void place_slots(ole_loader *loader, ole_arena *arena) {
    int64_t batch = part_size(loader), size = ole_source_sample_size(&loader->set->source);
    int64_t elements;
    if (__builtin_mul_overflow(batch, size, &elements)) elements = INT64_MAX;
    for (int i = 0; i < loader->slot_count; i++) {
        slot *s = &loader->slots[i];
        s->images = ole_arena_take(arena, elements, sizeof *s->images);
        s->labels = ole_arena_take(arena, batch, sizeof *s->labels);
        s->indices = ole_arena_take(arena, batch, sizeof *s->indices);
    }
}

static ole_status allocate_slots(ole_loader *loader, ole_error *error) {
    loader->slot_count = loader->threads > 0 ? loader->threads + 2 : 1;
    loader->slots = calloc((size_t)loader->slot_count, sizeof *loader->slots);
    ole_arena arena = {0};
    if (loader->slots) place_slots(loader, &arena);
    loader->memory = loader->slots ? ole_arena_reserve(&arena) : NULL;
    if (!loader->memory)
        return ole_fail(error, OLE_ERROR_MEMORY,
                        "out of memory for %d batches of %" PRId64
                        "; use smaller batches or fewer loader threads",
                        loader->slot_count, part_size(loader));
    place_slots(loader, &arena);
    return OLE_OK;
}

/* Chooses the batch of a slot. */
static void assign(ole_loader *loader, slot *s, int64_t epoch, int64_t batch) {
    s->epoch = epoch;
    s->batch = batch;
    int64_t count;
    const int64_t *samples = ole_order_get(&loader->order, epoch, batch, &count);
    int64_t first = part_first(loader, count, loader->part);
    s->count = part_first(loader, count, loader->part + 1) - first;
    memcpy(s->indices, samples + first, (size_t)s->count * sizeof *samples);
    if (loader->alpha == 0) return;
    s->first = first;
    s->whole = count;
    s->share = ole_mixup_share(loader->augment.seed, loader->alpha, epoch, batch);
    for (int64_t i = 0; i < s->count; i++) {
        int64_t other = ole_mixup_other(count, first + i);
        s->others[i] = other < 0 ? -1 : samples[other];
    }
}

/* Blends two rows with each other. */
static void blend_pair(float *one, float *other, int64_t size, float share) {
    for (int64_t k = 0; k < size; k++) {
        float a = one[k], b = other[k];
        one[k] = ole_mix_blend(a, b, share);
        other[k] = ole_mix_blend(b, a, share);
    }
}

/* Blends the rows of a slot, each pair once; of a pair with another part, our row. */
static void mix_rows(const ole_loader *loader, slot *s, int64_t size) {
    const int32_t *labels = loader->set->splits.labels[loader->split];
    for (int64_t i = 0; i < s->count; i++) {
        int64_t k = ole_mixup_other(s->whole, s->first + i) - s->first;
        s->mix.labels[i] = s->others[i] < 0 ? s->labels[i] : labels[s->others[i]];
        if (s->others[i] < 0 || (k >= 0 && k < i)) continue;
        bool ours = k >= 0 && k < s->count;
        if (!ours)
            ole_augment_sample(&loader->augment, loader->set, loader->split, s->epoch, s->others[i],
                               s->other);
        blend_pair(s->images + i * size, ours ? s->images + k * size : s->other, size, s->share);
    }
}

static void fill(const ole_loader *loader, slot *s) {
    const int32_t *labels = loader->set->splits.labels[loader->split];
    int64_t size = ole_source_sample_size(&loader->set->source);
    for (int64_t i = 0; i < s->count; i++) {
        s->labels[i] = labels[s->indices[i]];
        ole_augment_sample(&loader->augment, loader->set, loader->split, s->epoch, s->indices[i],
                           s->images + i * size);
    }
    if (loader->alpha > 0) mix_rows(loader, s, size);
}

/* ---- Threads ------------------------------------------------------------------------------ */

static slot *ring_slot(ole_loader *loader, int from_head) {
    return &loader->slots[(loader->head + from_head) % loader->slot_count];
}

static void *worker(void *context) {
    ole_loader *loader = context;
    pthread_mutex_lock(&loader->mutex);
    for (;;) {
        while (!loader->stop && loader->next_taken == loader->scheduled)
            pthread_cond_wait(&loader->work, &loader->mutex);
        if (loader->stop) break;
        slot *s = ring_slot(loader, loader->next_taken++);
        s->state = BUSY;
        pthread_mutex_unlock(&loader->mutex);
        fill(loader, s);
        pthread_mutex_lock(&loader->mutex);
        s->state = READY;
        pthread_cond_broadcast(&loader->done);
    }
    pthread_mutex_unlock(&loader->mutex);
    return NULL;
}

static ole_status start_threads(ole_loader *loader, int threads, ole_error *error) {
    loader->thread = malloc((size_t)threads * sizeof *loader->thread);
    if (!loader->thread) return ole_fail(error, OLE_ERROR_MEMORY, "out of memory for threads");
    for (loader->threads = 0; loader->threads < threads; loader->threads++)
        if (pthread_create(&loader->thread[loader->threads], NULL, worker, loader) != 0)
            return ole_fail(error, OLE_ERROR_MEMORY,
                            "cannot start loader thread %d of %d; use fewer", loader->threads + 1,
                            threads);
    return OLE_OK;
}

/* Drops the head slot. */
static void advance(ole_loader *loader) {
    loader->head = (loader->head + 1) % loader->slot_count;
    loader->scheduled--;
    loader->next_taken--;
}

/* Empties the ring, once no thread writes to it, and restarts at a batch. */
static void restart(ole_loader *loader, int64_t epoch, int64_t batch) {
    loader->scheduled = loader->next_taken; /* those not taken yet are not wanted */
    for (; loader->scheduled > 0; advance(loader))
        while (ring_slot(loader, 0)->state == BUSY)
            pthread_cond_wait(&loader->done, &loader->mutex);
    loader->next_epoch = epoch;
    loader->next_batch = batch;
}

static void schedule_all(ole_loader *loader) {
    while (loader->scheduled < loader->slot_count) {
        slot *s = ring_slot(loader, loader->scheduled);
        assign(loader, s, loader->next_epoch, loader->next_batch);
        s->state = WAITING;
        loader->scheduled++;
        if (++loader->next_batch == loader->order.batches) {
            loader->next_batch = 0;
            if (loader->varies) loader->next_epoch++;
        }
    }
    pthread_cond_broadcast(&loader->work);
}

static slot *get_ahead(ole_loader *loader, int64_t epoch, int64_t batch) {
    pthread_mutex_lock(&loader->mutex);
    if (loader->handed_out) advance(loader);
    slot *s = ring_slot(loader, 0);
    if (loader->scheduled == 0 || s->epoch != epoch || s->batch != batch)
        restart(loader, epoch, batch);
    schedule_all(loader);
    s = ring_slot(loader, 0);
    while (s->state != READY)
        pthread_cond_wait(&loader->done, &loader->mutex);
    loader->handed_out = true;
    pthread_mutex_unlock(&loader->mutex);
    return s;
}

/* ---- Loaders ------------------------------------------------------------------------------ */

static ole_status prepare(ole_loader *loader, const ole_loader_options *options, ole_error *error) {
    const ole_splits *splits = &loader->set->splits;
    ole_status status = ole_order_create(&loader->order, options, splits->labels[loader->split],
                                         splits->count[loader->split], splits->classes, error);
    if (status != OLE_OK) return status;
    ole_augment_init(&loader->augment, options);
    loader->part = options->part;
    loader->parts = options->parts > 0 ? options->parts : 1;
    loader->varies =
        options->shuffle || ole_loader_augments(options) || options->balanced_classes > 0;
    loader->threads = options->threads;
    status = allocate_slots(loader, error);
    loader->threads = 0;
    if (status == OLE_OK && options->threads > 0)
        status = start_threads(loader, options->threads, error);
    return status;
}

ole_status ole_loader_create(ole_loader **loader, const ole_dataset *set, ole_split split,
                             const ole_loader_options *options, ole_error *error) {
    if (!loader) return ole_fail(error, OLE_ERROR_ARGUMENT, "ole_loader_create: loader is NULL");
    *loader = NULL;
    if (!set) return ole_fail(error, OLE_ERROR_ARGUMENT, "ole_loader_create: set is NULL");
    ole_loader_options o = defaults;
    ole_status status = ole_struct_read(&o, options, OLE_SIZE_UP_TO(ole_loader_options, parts),
                                        "ole_loader_options_init", error);
    if (status == OLE_OK) status = check_options(&o, set, split, error);
    if (status != OLE_OK) return status;
    ole_loader *created = calloc(1, sizeof *created);
    if (!created) return ole_fail(error, OLE_ERROR_MEMORY, "ole_loader_create: out of memory");
    created->set = set;
    created->split = split;
    pthread_mutex_init(&created->mutex, NULL);
    pthread_cond_init(&created->work, NULL);
    pthread_cond_init(&created->done, NULL);
    status = prepare(created, &o, error);
    if (status == OLE_OK)
        *loader = created;
    else
        ole_loader_destroy(created);
    return status;
}

void ole_loader_destroy(ole_loader *loader) {
    if (!loader) return;
    pthread_mutex_lock(&loader->mutex);
    loader->stop = true;
    pthread_cond_broadcast(&loader->work);
    pthread_mutex_unlock(&loader->mutex);
    for (int i = 0; i < loader->threads; i++)
        pthread_join(loader->thread[i], NULL);
    pthread_mutex_destroy(&loader->mutex);
    pthread_cond_destroy(&loader->work);
    pthread_cond_destroy(&loader->done);
    ole_order_destroy(&loader->order);
    for (int i = 0; i < loader->slot_count && loader->slots; i++) {
        free(loader->slots[i].mix.labels);
        free(loader->slots[i].others);
        free(loader->slots[i].other);
    }
    free(loader->thread);
    free(loader->slots);
    free(loader->memory);
    free(loader);
}

ole_status ole_loader_mix_up(ole_loader *loader, double alpha, ole_error *error) {
    size_t rows = (size_t)part_size(loader) + 1;
    int64_t size = ole_source_sample_size(&loader->set->source);
    bool good = true;
    for (int i = 0; i < loader->slot_count; i++) {
        slot *s = &loader->slots[i];
        s->mix = (ole_mix){calloc(rows, sizeof *s->mix.labels), &s->share};
        s->others = calloc(rows, sizeof *s->others);
        s->other = malloc((size_t)size * sizeof *s->other);
        good = good && s->mix.labels && s->others && s->other;
    }
    if (!good) return ole_fail(error, OLE_ERROR_MEMORY, "out of memory for mixed batches");
    pthread_mutex_lock(&loader->mutex);
    loader->alpha = alpha;
    pthread_mutex_unlock(&loader->mutex);
    return OLE_OK;
}

double ole_loader_alpha(const ole_loader *loader) {
    return loader->alpha;
}

const ole_mix *ole_loader_mix(const ole_loader *loader) {
    return loader->alpha > 0 ? &loader->slots[loader->head].mix : NULL;
}

int64_t ole_loader_batches(const ole_loader *loader) {
    return loader ? loader->order.batches : 0;
}

const ole_augment *ole_loader_augment(const ole_loader *loader) {
    return &loader->augment;
}

int64_t ole_loader_batch_size(const ole_loader *loader) {
    return loader->order.batch_size;
}

void ole_loader_list(ole_loader *loader, int64_t epoch, int64_t *list) {
    int64_t size = loader->order.batch_size;
    pthread_mutex_lock(&loader->mutex);
    for (int64_t b = 0; b < loader->order.batches; b++) {
        int64_t count;
        const int64_t *samples =
            ole_order_get(&loader->order, loader->varies ? epoch : 0, b, &count);
        memcpy(list + b * size, samples, (size_t)count * sizeof *list);
        for (int64_t i = count; i < size; i++)
            list[b * size + i] = -1;
    }
    pthread_mutex_unlock(&loader->mutex);
}

ole_status ole_loader_get(ole_loader *loader, int64_t epoch, int64_t batch, ole_batch *out,
                          ole_error *error) {
    if (!loader || !out)
        return ole_fail(error, OLE_ERROR_ARGUMENT, "ole_loader_get: loader or out is NULL");
    if (epoch < 0 || batch < 0 || batch >= loader->order.batches)
        return ole_fail(error, OLE_ERROR_ARGUMENT,
                        "ole_loader_get: there is no batch %" PRId64 " of epoch %" PRId64
                        ": an epoch has %" PRId64,
                        batch, epoch, loader->order.batches);
    if (!ole_in_use_take(&loader->in_use, "loader", error)) return OLE_ERROR_ARGUMENT;
    if (!loader->varies) epoch = 0;
    slot *s = &loader->slots[0];
    if (loader->threads > 0) {
        s = get_ahead(loader, epoch, batch);
    } else {
        assign(loader, s, epoch, batch);
        fill(loader, s);
    }
    *out = (ole_batch){s->count, s->images, s->labels, s->indices};
    ole_in_use_release(&loader->in_use);
    return OLE_OK;
}
