/*
 * src/data/loader/order.c - the order of an epoch.
 *
 * Balanced batches deal classes from a shuffled deck, so that all come up equally often, and the
 * samples of a class from a shuffled deck of its own; one that cannot serve a whole batch is
 * shuffled again.  So no sample is twice in a batch, unless its class has fewer than K.
 */
#include "data/loader/order.h"

#include "base/error.h"
#include "data/shuffle.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static ole_status out_of_memory(ole_error *error) {
    return ole_fail(error, OLE_ERROR_MEMORY, "out of memory for the order of the samples");
}

/* ---- Balanced batches --------------------------------------------------------------------- */

static ole_status create_balanced(ole_order *order, ole_error *error) {
    size_t classes = (size_t)order->classes;
    order->members = malloc((size_t)order->samples * sizeof *order->members);
    order->start = calloc(classes + 1, sizeof *order->start);
    order->used = malloc(classes * sizeof *order->used);
    order->deck = malloc(classes * sizeof *order->deck);
    order->dealt = malloc((size_t)order->classes_per_batch * sizeof *order->dealt);
    if (!order->members || !order->start || !order->used || !order->deck || !order->dealt)
        return out_of_memory(error);
    for (int64_t i = 0; i < order->samples; i++)
        order->start[order->labels[i] + 1]++;
    for (int c = 0; c < order->classes; c++) {
        if (order->start[c + 1] == 0)
            return ole_fail(error, OLE_ERROR_DATA, "balanced batches: class %d has no samples", c);
        order->start[c + 1] += order->start[c];
    }
    return OLE_OK;
}

/* What deals the batches of one epoch. */
typedef struct dealer {
    ole_order *order;
    uint64_t next; /* position of the Philox counter: no two shuffles draw the same numbers */
    int64_t left;  /* classes at the front of the deck that have not been dealt from it */
} dealer;

static void shuffle_again(dealer *d, int64_t *items, int64_t count) {
    ole_shuffle(items, count, d->order->seed, OLE_RANDOM_SHUFFLE, (uint64_t)d->order->epoch,
                d->next);
    d->next += (uint64_t)count;
}

/* All decks as they are before the first shuffle of an epoch, whatever epoch was before. */
static void reset_decks(ole_order *order) {
    memset(order->used, 0, (size_t)order->classes * sizeof *order->used);
    for (int64_t i = 0; i < order->samples; i++) {
        int32_t class = order->labels[i];
        order->members[order->start[class] + order->used[class]++] = i;
    }
    for (int c = 0; c < order->classes; c++)
        order->deck[c] = c;
}

/* K samples of a class. */
static void deal_samples(dealer *d, int64_t class, int64_t *out) {
    ole_order *order = d->order;
    int64_t *members = order->members + order->start[class], *used = &order->used[class];
    int64_t count = order->start[class + 1] - order->start[class];
    for (int k = 0; k < order->samples_per_class; k++) {
        bool too_few = k == 0 && *used + order->samples_per_class > count;
        if (too_few || *used == count) {
            shuffle_again(d, members, count);
            *used = 0;
        }
        out[k] = members[(*used)++];
    }
}

/*
 * C different classes.  Where the deck has fewer left, those and some of a new deck, into which the
 * former are put back behind the others.
 */
static void deal_batch(dealer *d, int64_t *out) {
    ole_order *order = d->order;
    int64_t wanted = order->classes_per_batch, rest = order->classes - wanted, *deck = order->deck;
    if (d->left < wanted) shuffle_again(d, deck + d->left, order->classes - d->left);
    d->left = d->left < wanted ? d->left + rest : d->left - wanted;
    for (int64_t k = 0; k < wanted; k++)
        deal_samples(d, deck[k], out + k * order->samples_per_class);
    memcpy(order->dealt, deck, (size_t)wanted * sizeof *deck);
    memmove(deck, deck + wanted, (size_t)rest * sizeof *deck);
    memcpy(deck + rest, order->dealt, (size_t)wanted * sizeof *deck);
}

/* ---- All orders --------------------------------------------------------------------------- */

static ole_status plan_batches(ole_order *order, const ole_loader_options *options,
                               ole_error *error) {
    if (order->classes_per_batch > 0) {
        order->batch_size = (int64_t)order->classes_per_batch * order->samples_per_class;
        order->batches = order->samples / order->batch_size;
        if (order->batches == 0) order->batches = 1;
        return create_balanced(order, error);
    }
    order->batch_size = options->batch_size < order->samples ? options->batch_size : order->samples;
    order->batches = (order->samples + order->batch_size - 1) / order->batch_size;
    if (options->drop_last) order->batches = order->samples / options->batch_size;
    if (order->batches == 0)
        return ole_fail(error, OLE_ERROR_ARGUMENT,
                        "the split has %" PRId64 " samples, fewer than one batch of %" PRId64
                        ", and drop_last skips smaller ones",
                        order->samples, options->batch_size);
    return OLE_OK;
}

ole_status ole_order_create(ole_order *order, const ole_loader_options *options,
                            const int32_t *labels, int64_t samples, int classes, ole_error *error) {
    *order = (ole_order){
        .seed = options->seed,
        .shuffle = options->shuffle,
        .samples = samples,
        .epoch = -1,
        .classes_per_batch = options->balanced_classes,
        .samples_per_class = options->balanced_samples,
        .classes = classes,
        .labels = labels,
    };
    ole_status status = plan_batches(order, options, error);
    if (status != OLE_OK) return status;
    int64_t length = order->batches * order->batch_size;
    if (length < samples) length = samples;
    order->list = malloc((size_t)length * sizeof *order->list);
    return order->list ? OLE_OK : out_of_memory(error);
}

void ole_order_destroy(ole_order *order) {
    free(order->list);
    free(order->members);
    free(order->start);
    free(order->used);
    free(order->deck);
    free(order->dealt);
    *order = (ole_order){0};
}

static void list_epoch(ole_order *order, int64_t epoch) {
    order->epoch = epoch;
    if (order->classes_per_batch > 0) {
        dealer d = {.order = order};
        reset_decks(order);
        for (int64_t b = 0; b < order->batches; b++)
            deal_batch(&d, order->list + b * order->batch_size);
        return;
    }
    for (int64_t i = 0; i < order->samples; i++)
        order->list[i] = i;
    if (order->shuffle)
        ole_shuffle(order->list, order->samples, order->seed, OLE_RANDOM_SHUFFLE, (uint64_t)epoch,
                    0);
}

const int64_t *ole_order_get(ole_order *order, int64_t epoch, int64_t batch, int64_t *count) {
    if (order->epoch != epoch) list_epoch(order, epoch);
    int64_t first = batch * order->batch_size, left = order->samples - first;
    bool whole = order->classes_per_batch > 0 || left >= order->batch_size;
    *count = whole ? order->batch_size : left;
    return order->list + first;
}
