/*
 * tests/unit/train/test_train_link.c - ranks whose tensors are reached through a linker
 * (device/link.h): what is chosen and said, and that steps have the same bits from GPU to GPU,
 * through the host, and without any of it.
 *
 * The linker here is that of no device: the reference's memory plays the GPUs'.
 */
#include "ole/train/data.h"
#include "rank_threads.h"
#include "train/run/step.h"

#include <stdlib.h>
#include <string.h>

enum { RANKS = 3, STEPS = 8, BATCH = 20, LAST = 2, MARK = 7 };

/* What the ranks of a test have for GPUs. */
typedef enum setting {
    NO_LINKER,  /* tensors lie in host memory */
    OWN_CARDS,  /* each rank has one */
    SHARED,     /* ranks 1 and 2 share one */
    MISSING,    /* the library is not there on rank 1 */
    OTHER_KIND, /* rank 2 has another device */
} setting;

static setting now;
static _Thread_local ole_ranks *self;
static _Thread_local int opened, buckets, summed;

/* ---- a linker ------------------------------------------------------------------------------ */

struct ole_bucket {
    int count;
    int64_t size;
    float *gradient[64];
    int64_t length[64];
};

static void name_gpu(ole_device_context *context, char name[OLE_LINK_GPU]) {
    (void)context;
    memset(name, 0, OLE_LINK_GPU);
    int gpu = now == SHARED && self->rank == 2 ? 1 : self->rank;
    snprintf(name, OLE_LINK_GPU, "gpu-%d", gpu);
}

static ole_status check_library(ole_error *error) {
    if (now != MISSING || self->rank != 1) return OLE_OK;
    snprintf(error->message, sizeof error->message, "no such library");
    return error->status = OLE_ERROR_UNSUPPORTED;
}

static ole_status make_id(unsigned char id[OLE_LINK_ID], ole_error *error) {
    (void)error;
    memset(id, MARK, OLE_LINK_ID);
    return OLE_OK;
}

/* All ranks have the id that rank 0 made. */
static ole_status open_link(ole_device_context *context, const unsigned char id[OLE_LINK_ID],
                            int rank, int size, ole_error *error) {
    (void)context;
    bool right =
        rank == self->rank && size == RANKS && id[0] == MARK && id[OLE_LINK_ID - 1] == MARK;
    if (right) {
        opened++;
        return OLE_OK;
    }
    snprintf(error->message, sizeof error->message, "rank %d of %d, id %d", rank, size, id[0]);
    return error->status = OLE_ERROR_DATA;
}

static void sum(ole_device_context *context, void *data, int64_t count, ole_dtype type) {
    (void)context;
    summed++;
    ole_ranks_sum(self, data, count, type);
}

static ole_status bucket_create(ole_device_context *context, const ole_update_item *items,
                                int count, ole_bucket **bucket, ole_error *error) {
    (void)context;
    (void)error;
    ole_bucket *b = calloc(1, sizeof *b);
    *bucket = b;
    if (!b || count > 64) return OLE_ERROR_MEMORY;
    for (int i = 0; i < count; i++) {
        b->gradient[i] = (float *)(uintptr_t)items[i].gradient;
        b->length[i] = items[i].param->count;
        b->size += b->length[i];
    }
    b->count = count;
    buckets++;
    return OLE_OK;
}

static void bucket_free(ole_device_context *context, ole_bucket *bucket) {
    (void)context;
    free(bucket);
}

static int64_t bucket_size(const ole_bucket *bucket) {
    return bucket->size;
}

static void bucket_sum(ole_device_context *context, ole_bucket *bucket) {
    for (int i = 0; i < bucket->count; i++)
        sum(context, bucket->gradient[i], bucket->length[i], OLE_F32);
}

static void bucket_join(ole_device_context *context) {
    (void)context;
}

static void bucket_read(ole_device_context *context, ole_bucket *bucket, float *to) {
    (void)context;
    for (int i = 0; i < bucket->count; to += bucket->length[i], i++)
        memcpy(to, bucket->gradient[i], (size_t)bucket->length[i] * sizeof *to);
}

static void bucket_write(ole_device_context *context, ole_bucket *bucket, const float *from) {
    (void)context;
    for (int i = 0; i < bucket->count; from += bucket->length[i], i++)
        memcpy(bucket->gradient[i], from, (size_t)bucket->length[i] * sizeof *from);
}

static void clear(ole_device_context *context, void *memory, size_t bytes) {
    (void)context;
    memset(memory, 0, bytes);
}

static const ole_linker linker = {.gpu = name_gpu,
                                  .check = check_library,
                                  .make_id = make_id,
                                  .open = open_link,
                                  .sum = sum,
                                  .bucket_create = bucket_create,
                                  .bucket_free = bucket_free,
                                  .bucket_size = bucket_size,
                                  .bucket_sum = bucket_sum,
                                  .bucket_join = bucket_join,
                                  .clear = clear,
                                  .bucket_read = bucket_read,
                                  .bucket_write = bucket_write};

/* ---- steps --------------------------------------------------------------------------------- */

/* What each rank saw. */
typedef struct seen {
    double losses[STEPS];
    float *weights; /* all parameters */
    int64_t count;
    char how[OLE_LINK_HOW];
    bool direct;
    int opened, buckets, summed;
} seen;

typedef struct trial {
    const ole_dataset *set;
    seen of[RANKS];
} trial;

static ole_status open_network(ole_network *n, ole_backend *backend, ole_error *error) {
    const ole_device_options device = {.threads = 1, .seed = 5, .gpu = -1};
    static const char net[] = "C8[nobias]-R8/4-AP-FCD12-FC8";
    *n = (ole_network){.backend = backend, .threads = 1};
    ole_status status = ole_graph_parse(&n->graph, net, (ole_shape){1, 8, 8}, 10, error);
    if (status == OLE_OK) status = backend->open(&n->context, &device, error);
    if (status == OLE_OK) status = ole_graph_fuse(n->graph, backend->fuses_add, error);
    if (status == OLE_OK)
        status = ole_params_create(&n->params, n->graph, backend, n->context, true, 2, error);
    if (status == OLE_OK) status = ole_params_init(n->params, "xavier", 3, error);
    return status;
}

static ole_status open_loaders(ole_loader *loaders[2], const ole_dataset *set, ole_error *error) {
    static const int64_t sizes[] = {BATCH, LAST};
    ole_status status = OLE_OK;
    for (int k = 0; k < 2 && status == OLE_OK; k++) {
        ole_loader_options options;
        ole_loader_options_init(&options);
        options.batch_size = sizes[k];
        options.shuffle = true;
        options.mean[0] = 0.3f;
        options.deviation[0] = 0.4f;
        options.part = self->rank;
        options.parts = RANKS;
        status = ole_loader_create(&loaders[k], set, OLE_SPLIT_TRAIN, &options, error);
    }
    return status;
}

static void keep(seen *s, const ole_stepper *stepper, const ole_network *n) {
    const ole_link *link = &stepper->reduce->link;
    for (int i = 0; i < n->graph->params; i++)
        s->count += n->graph->param[i].count;
    s->weights = malloc((size_t)s->count * sizeof *s->weights);
    float *to = s->weights;
    for (int i = 0; to && i < n->graph->params; to += n->graph->param[i].count, i++)
        ole_params_get(n->params, i, to);
    memcpy(s->how, link->how, sizeof s->how);
    s->direct = link->direct;
    s->opened = opened;
    s->buckets = buckets;
    s->summed = summed;
}

static ole_status run_steps(seen *s, ole_stepper *stepper, ole_loader *loaders[2],
                            ole_error *error) {
    ole_status status = OLE_OK;
    for (int64_t i = 0; i < STEPS && status == OLE_OK; i++) {
        bool last = i % 3 == 2;
        ole_batch batch;
        ole_step_result result;
        status = ole_loader_get(loaders[last], 1, i, &batch, error);
        const ole_step step = {.batch = &batch, .last = last, .number = i + 1, .lr = 0.02};
        if (status == OLE_OK) status = ole_stepper_run(stepper, &step, &result, error);
        if (status == OLE_OK) s->losses[i] = result.loss;
    }
    return status;
}

/* A rank_function. */
static ole_status train(void *context, ole_ranks *ranks, ole_error *error) {
    trial *t = context;
    ole_backend backend = ole_backend_ref;
    ole_network network = {0};
    ole_stepper *stepper = NULL;
    ole_loader *loaders[2] = {NULL};
    ole_train_options options;
    ole_train_options_init(&options);
    options.ranks = self = ranks;
    opened = buckets = summed = 0;
    if (now != NO_LINKER) backend.linker = &linker;
    if (now == OTHER_KIND && ranks->rank == 2) backend.name = "abacus";
    ole_status status = open_network(&network, &backend, error);
    if (status == OLE_OK)
        status = ole_stepper_create(&stepper, &network, &options, BATCH, LAST, error);
    if (status == OLE_OK) status = open_loaders(loaders, t->set, error);
    if (status == OLE_OK) status = run_steps(&t->of[ranks->rank], stepper, loaders, error);
    if (status == OLE_OK) keep(&t->of[ranks->rank], stepper, &network);
    ole_loader_destroy(loaders[0]);
    ole_loader_destroy(loaders[1]);
    ole_stepper_free(stepper);
    ole_network_close(&network);
    return status;
}

static ole_dataset *open_data(void) {
    ole_dataset_options options;
    ole_dataset *set = NULL;
    ole_error error;
    ole_dataset_options_init(&options);
    options.samples_per_class = 20;
    assert_ok(ole_dataset_open(&set, "digits", &options, &error), &error);
    return set;
}

static trial run(setting which) {
    trial t = {.set = open_data()};
    rank_thread threads[MOST_RANKS];
    now = which;
    run_ranks(RANKS, train, &t, threads);
    for (int r = 0; r < RANKS; r++)
        assert_ok(threads[r].status, &threads[r].error);
    ole_dataset_close((ole_dataset *)(uintptr_t)t.set);
    return t;
}

static void same_steps(const seen *a, const seen *b) {
    assert_non_null(a->weights);
    assert_int_equal(a->count, b->count);
    assert_memory_equal(a->losses, b->losses, sizeof a->losses);
    assert_memory_equal(a->weights, b->weights, (size_t)a->count * sizeof *a->weights);
}

/* ---- tests --------------------------------------------------------------------------------- */

/* Every way has the bits of host memory, on every rank; only own GPUs are linked. */
static void same_bits_every_way(void **state) {
    (void)state;
    trial plain = run(NO_LINKER);
    for (setting which = OWN_CARDS; which <= MISSING; which++) {
        trial t = run(which);
        for (int r = 0; r < RANKS; r++) {
            same_steps(&t.of[r], &plain.of[0]);
            assert_int_equal(t.of[r].direct, which == OWN_CARDS);
            assert_int_equal(t.of[r].opened, which == OWN_CARDS);
            assert_int_equal(t.of[r].summed > 0, which == OWN_CARDS);
            assert_true(t.of[r].buckets > 0);
            assert_string_equal(t.of[r].how, t.of[0].how);
            free(t.of[r].weights);
        }
    }
    for (int r = 0; r < RANKS; r++) {
        assert_string_equal(plain.of[r].how, "");
        free(plain.of[r].weights);
    }
}

static void check_said(setting which, const char *text) {
    trial t = run(which);
    if (!strstr(t.of[0].how, text)) fail_msg("no '%s' in '%s'", text, t.of[0].how);
    for (int r = 0; r < RANKS; r++)
        free(t.of[r].weights);
}

static void says_which_way(void **state) {
    (void)state;
    check_said(OWN_CARDS, "3 ranks, each on its own GPU");
    check_said(SHARED, "ranks 1 and 2 share GPU gpu-1 of ");
    check_said(MISSING, "rank 1 (");
    check_said(MISSING, "no such library; sums go through host memory");
}

static void one_kind_of_device(void **state) {
    (void)state;
    trial t = {.set = open_data()};
    rank_thread threads[MOST_RANKS];
    now = OTHER_KIND;
    run_ranks(RANKS, train, &t, threads);
    for (int r = 0; r < RANKS; r++) {
        assert_int_equal(threads[r].status, OLE_ERROR_ARGUMENT);
        if (!strstr(threads[r].error.message, "would train on abacus, rank 0 ("))
            fail_msg("what differs, says '%s'?", threads[r].error.message);
    }
    ole_dataset_close((ole_dataset *)(uintptr_t)t.set);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_bits_every_way),
        cmocka_unit_test(says_which_way),
        cmocka_unit_test(one_kind_of_device),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
