/*
 * src/device/cuda/record/recorder.c - device/recorder.h on CUDA graphs: samples stay on the GPU,
 * steps are captured from the stream once and launched again and again.
 *
 * Whatever a step needs at first use (the table of parameters) is created by a run before the
 * recording: copies wait for the stream, which would break a capture.
 */
#include "device/recorder.h"
#include "base/error.h"
#include "device/cuda/cuda.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct ole_resident {
    void *data;
    int gpu;
    bool floating;
    int c, h, w;
    size_t bytes;
    uint64_t hash;
    int users;
    struct ole_resident *next;
};

struct ole_feed {
    cuda_samples samples;
    int64_t batch, batches, count;
    int64_t *index; /* device memory, like the next four */
    int32_t *labels;
    float *table;
    int32_t *order;  /* [batches * batch] */
    double *rates;   /* [batches] */
    int32_t *others; /* [batches * batch], NULL like the next unless batches are mixed */
    float *shares;   /* [batches] */
};

struct ole_recording {
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    int64_t nodes;
};

enum { RING = 64 };

/* Which replays are done. */
struct cuda_replays {
    cudaEvent_t done[RING];
    int64_t queued;
    int64_t first_step; /* clock->step at start() */
};

void cuda_replays_free(ole_device_context *context) {
    if (!context->replays) return;
    for (int i = 0; i < RING; i++)
        if (context->replays->done[i]) cudaEventDestroy(context->replays->done[i]);
    free(context->replays);
    context->replays = NULL;
}

/* ---- samples ------------------------------------------------------------------------------ */

static void *send(ole_device_context *context, const void *from, size_t bytes) {
    return cuda_send(context, from, bytes, "copying the samples to the GPU");
}

/* Concurrent runs on the same data set share one copy per GPU, found by its size, shape and a hash
 * of its bytes. */
static struct {
    pthread_mutex_t mutex;
    ole_resident *first;
} residents = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static uint64_t hash_of(const void *data, size_t bytes) {
    const unsigned char *at = data;
    uint64_t hash = 0x9E3779B97F4A7C15u, word;
    for (; bytes >= sizeof word; bytes -= sizeof word, at += sizeof word) {
        memcpy(&word, at, sizeof word);
        hash = (hash ^ word) * 0xFF51AFD7ED558CCDu;
        hash ^= hash >> 32;
    }
    for (; bytes > 0; bytes--, at++)
        hash = (hash ^ *at) * 0xFF51AFD7ED558CCDu;
    return hash;
}

static void resident_free(ole_device_context *context, ole_resident *resident) {
    if (!resident) return;
    cudaStreamSynchronize(context->stream);
    pthread_mutex_lock(&residents.mutex);
    bool last = --resident->users == 0;
    ole_resident **link = &residents.first;
    while (last && *link && *link != resident)
        link = &(*link)->next;
    if (last && *link) *link = resident->next;
    pthread_mutex_unlock(&residents.mutex);
    if (!last) return;
    cudaFree(resident->data);
    free(resident);
}

static bool is_same(const ole_resident *a, const ole_resident *b) {
    return a->gpu == b->gpu && a->floating == b->floating && a->c == b->c && a->h == b->h &&
           a->w == b->w && a->bytes == b->bytes && a->hash == b->hash;
}

/* Returns an existing copy, or uploads the data as described by `wanted`. */
static ole_resident *find_or_send(ole_device_context *context, const ole_resident *wanted,
                                  const void *data) {
    ole_resident *found = residents.first;
    while (found && !is_same(found, wanted))
        found = found->next;
    if (found) {
        found->users++;
        return found;
    }
    ole_resident *made = malloc(sizeof *made);
    if (!made) {
        cuda_failed(context, cudaErrorMemoryAllocation, "copying the samples to the GPU");
        return NULL;
    }
    *made = *wanted;
    made->data = send(context, data, made->bytes);
    if (context->failed != OLE_OK) {
        cudaFree(made->data);
        free(made);
        return NULL;
    }
    made->users = 1;
    made->next = residents.first;
    residents.first = made;
    return made;
}

static ole_status resident_create(ole_device_context *context, const ole_resident_spec *spec,
                                  ole_resident **result, ole_error *error) {
    const void *data = spec->bytes ? (const void *)spec->bytes : (const void *)spec->floats;
    size_t size = (size_t)spec->channels * (size_t)spec->height * (size_t)spec->width, room, whole;
    ole_resident wanted = {.gpu = context->gpu,
                           .floating = !spec->bytes,
                           .c = spec->channels,
                           .h = spec->height,
                           .w = spec->width,
                           .bytes = (size_t)spec->count * size * (spec->bytes ? 1 : sizeof(float))};
    *result = NULL;
    cudaSetDevice(context->gpu);
    if (cudaMemGetInfo(&room, &whole) == cudaSuccess && wanted.bytes > room / 2)
        return ole_fail(
            error, OLE_ERROR_MEMORY,
            "the data set needs %.3g GiB, over half of the %.3g that are free on the GPU",
            (double)wanted.bytes / 1073741824.0, (double)room / 1073741824.0);
    wanted.hash = hash_of(data, wanted.bytes);
    pthread_mutex_lock(&residents.mutex);
    *result = find_or_send(context, &wanted, data);
    pthread_mutex_unlock(&residents.mutex);
    return cuda_failure(context, error);
}

static void feed_free(ole_device_context *context, ole_feed *feed) {
    if (!feed) return;
    cudaStreamSynchronize(context->stream);
    void *all[] = {feed->index, feed->labels, feed->table, feed->order,
                   feed->rates, feed->others, feed->shares};
    for (int i = 0; i < 7; i++)
        cudaFree(all[i]);
    free(feed);
}

/* [channels, 256] of bytes, or [channels, 2] mean and deviation of floats. */
static float *send_table(ole_device_context *context, const ole_feed_spec *spec) {
    if (!spec->resident->floating)
        return send(context, spec->table, (size_t)spec->channels * 256 * sizeof(float));
    float *pairs = malloc((size_t)spec->channels * 2 * sizeof *pairs);
    if (!pairs) {
        cuda_failed(context, cudaErrorMemoryAllocation, "copying the statistics to the GPU");
        return NULL;
    }
    for (int c = 0; c < spec->channels; c++) {
        pairs[2 * c] = spec->mean[c];
        pairs[2 * c + 1] = spec->deviation[c];
    }
    float *to = send(context, pairs, (size_t)spec->channels * 2 * sizeof *pairs);
    free(pairs);
    return to;
}

static ole_status feed_create(ole_device_context *context, const ole_feed_spec *spec,
                              ole_feed **result, ole_error *error) {
    *result = NULL;
    ole_feed *feed = calloc(1, sizeof *feed);
    if (!feed) return ole_fail(error, OLE_ERROR_MEMORY, "out of memory");
    cudaSetDevice(context->gpu);
    const ole_resident *resident = spec->resident;
    feed->batch = spec->batch;
    feed->batches = spec->batches;
    feed->count = spec->samples;
    feed->index = send(context, spec->index, (size_t)spec->samples * sizeof *feed->index);
    feed->labels = send(context, spec->labels, (size_t)spec->samples * sizeof *feed->labels);
    feed->table = send_table(context, spec);
    feed->order = send(context, NULL, (size_t)(spec->batches * spec->batch) * sizeof *feed->order);
    feed->rates = send(context, NULL, (size_t)spec->batches * sizeof *feed->rates);
    if (spec->mixes) {
        feed->others = send(context, NULL, (size_t)(spec->batches * spec->batch) * sizeof(int32_t));
        feed->shares = send(context, NULL, (size_t)spec->batches * sizeof *feed->shares);
    }
    feed->samples = (cuda_samples){
        .bytes = resident->floating ? NULL : resident->data,
        .floats = resident->floating ? resident->data : NULL,
        .index = feed->index,
        .labels = feed->labels,
        .c = resident->c,
        .h = resident->h,
        .w = resident->w,
        .seed = spec->seed,
        .crop = spec->crop,
        .flip = spec->flip,
        .photo = spec->photo,
        .augments = ole_photo_is_on(&spec->photo),
        .others = feed->others,
        .shares = feed->shares,
        .table = feed->table,
        .statistics = spec->channels,
    };
    for (int c = 0; c < spec->channels && c < OLE_PHOTO_CHANNELS; c++) {
        feed->samples.mean[c] = spec->mean[c];
        feed->samples.deviation[c] = spec->deviation[c];
    }
    if (context->failed != OLE_OK) {
        feed_free(context, feed);
        return cuda_failure(context, error);
    }
    *result = feed;
    return OLE_OK;
}

/* ---- recording ---------------------------------------------------------------------------- */

static ole_status begin(ole_device_context *context, ole_error *error) {
    cudaSetDevice(context->gpu);
    cuda_failed(context, cudaStreamSynchronize(context->stream), "before recording");
    cuda_failed(context, cudaStreamBeginCapture(context->stream, cudaStreamCaptureModeRelaxed),
                "recording");
    return cuda_failure(context, error);
}

static void recording_free(ole_device_context *context, ole_recording *recording) {
    if (!recording) return;
    cudaStreamSynchronize(context->stream);
    if (recording->exec) cudaGraphExecDestroy(recording->exec);
    if (recording->graph) cudaGraphDestroy(recording->graph);
    free(recording);
}

static ole_status end(ole_device_context *context, ole_recording **result, ole_error *error) {
    *result = NULL;
    ole_recording *recording = calloc(1, sizeof *recording);
    cudaGraph_t graph = NULL;
    cuda_failed(context, cudaStreamEndCapture(context->stream, &graph), "recording");
    if (!recording) {
        if (graph) cudaGraphDestroy(graph);
        return ole_fail(error, OLE_ERROR_MEMORY, "out of memory");
    }
    recording->graph = graph;
    size_t nodes = 0;
    if (context->failed == OLE_OK) {
        cuda_failed(context, cudaGraphGetNodes(graph, NULL, &nodes), "recording");
        cuda_failed(context, cudaGraphInstantiate(&recording->exec, graph, 0), "recording");
        cuda_failed(context, cudaGraphUpload(recording->exec, context->stream), "recording");
    }
    recording->nodes = (int64_t)nodes;
    if (context->failed != OLE_OK) {
        recording_free(context, recording);
        return cuda_failure(context, error);
    }
    *result = recording;
    return OLE_OK;
}

static int64_t recording_nodes(const ole_recording *recording) {
    return recording->nodes;
}

/* ---- parts of a step ---------------------------------------------------------------------- */

static void tick(ole_device_context *context, const ole_feed *feed) {
    cuda_tick(context, feed->rates);
}

static void assemble(ole_device_context *context, const ole_feed *feed, int64_t n,
                     ole_layout layout, void *images, int32_t *labels, const ole_mix *mix) {
    cuda_assemble(context, &feed->samples, feed->order, feed->batch, n, layout, images, labels,
                  mix);
}

static void softmax(ole_device_context *context, ole_layout layout, const void *logits,
                    const int32_t *labels, const ole_mix *mix, double smoothing, double scale,
                    void *dlogits) {
    cuda_softmax(context, layout, logits, labels, mix, smoothing, scale, dlogits, NULL, NULL, true);
}

static ole_rows rows(ole_device_context *context, ole_layout layout, ole_shape shape) {
    const cuda_layout *tensor = layout;
    if (tensor->stacked) return (ole_rows){false, ole_shape_size(shape), OLE_F32};
    return (ole_rows){true, shape.h * shape.w * tensor->part[0].pitch,
                      context->type == CUDA_BFLOAT16 ? OLE_BF16 : OLE_F32};
}

static void rows_take(ole_device_context *context, ole_layout layout, const void *rows,
                      bool accumulate, void *tensor) {
    const cuda_layout *of = layout;
    int64_t count = of->pixels * of->part[0].pitch;
    size_t bytes = (size_t)count * cuda_element(of->type);
    if (accumulate)
        cuda_accumulate(context, of->type, count, rows, tensor);
    else
        cuda_failed(context,
                    cudaMemcpyAsync(tensor, rows, bytes, cudaMemcpyDeviceToDevice, context->stream),
                    "taking rows");
}

static void *stream(ole_device_context *context) {
    return context->stream;
}

static const uint64_t *step(ole_device_context *context) {
    return &context->clock->step;
}

static int gpu(ole_device_context *context) {
    return context->gpu;
}

/* ---- running ------------------------------------------------------------------------------ */

static bool open_replays(ole_device_context *context) {
    if (context->replays) return true;
    context->replays = calloc(1, sizeof *context->replays);
    if (!context->replays)
        return !cuda_failed(context, cudaErrorMemoryAllocation, "starting an epoch");
    for (int i = 0; i < RING; i++)
        cuda_failed(context,
                    cudaEventCreateWithFlags(&context->replays->done[i],
                                             cudaEventDisableTiming | cudaEventBlockingSync),
                    "starting an epoch");
    return context->failed == OLE_OK;
}

/* The order as the GPU needs it: 32 bits, -1 past the end of the last batch. */
static void send_order(ole_device_context *context, const ole_feed *feed, const int64_t *order,
                       int32_t *to) {
    size_t length = (size_t)(feed->batches * feed->batch);
    int32_t *list = malloc(length * sizeof *list);
    if (!list) {
        cuda_failed(context, cudaErrorMemoryAllocation, "starting an epoch");
        return;
    }
    for (size_t i = 0; i < length; i++)
        list[i] = (int32_t)order[i];
    cuda_copy(context, to, list, length * sizeof *list, cudaMemcpyHostToDevice,
              "starting an epoch");
    free(list);
}

static ole_status start(ole_device_context *context, ole_feed *feed, const ole_feed_epoch *epoch,
                        ole_error *error) {
    cudaSetDevice(context->gpu);
    cuda_failed(context, cudaStreamSynchronize(context->stream), "starting an epoch");
    if (!open_replays(context)) return cuda_failure(context, error);
    context->replays->queued = 0;
    context->replays->first_step = (int64_t)epoch->step;
    send_order(context, feed, epoch->order, feed->order);
    if (feed->others) {
        send_order(context, feed, epoch->others, feed->others);
        cuda_copy(context, feed->shares, epoch->shares,
                  (size_t)feed->batches * sizeof *feed->shares, cudaMemcpyHostToDevice,
                  "starting an epoch");
    }
    cuda_copy(context, feed->rates, epoch->rates, (size_t)feed->batches * sizeof *feed->rates,
              cudaMemcpyHostToDevice, "starting an epoch");
    const cuda_clock clock = {.step = epoch->step,
                              .epoch = epoch->epoch,
                              .batch = epoch->first,
                              .batches = feed->batches,
                              .bad_step = epoch->idle,
                              .bad_row = -1};
    cuda_copy(context, context->clock, &clock, sizeof clock, cudaMemcpyHostToDevice,
              "starting an epoch");
    return cuda_failure(context, error);
}

static void replay(ole_device_context *context, ole_recording *recording) {
    struct cuda_replays *replays = context->replays;
    if (context->failed != OLE_OK) return;
    cuda_failed(context, cudaGraphLaunch(recording->exec, context->stream), "a step");
    cuda_failed(context, cudaEventRecord(replays->done[replays->queued % RING], context->stream),
                "a step");
    replays->queued++;
}

static ole_status follow(ole_device_context *context, int behind, ole_error *error) {
    struct cuda_replays *replays = context->replays;
    int64_t wanted = replays->queued - behind - 1;
    if (wanted >= 0 && wanted > replays->queued - RING)
        cuda_failed(context, cudaEventSynchronize(replays->done[wanted % RING]), "a step");
    return cuda_failure(context, error);
}

static ole_status read_clock(ole_device_context *context, ole_step_sums *sums, ole_error *error) {
    cuda_clock clock = {0};
    cuda_copy(context, &clock, context->clock, sizeof clock, cudaMemcpyDeviceToHost, "a step");
    *sums = (ole_step_sums){.steps = (int64_t)clock.step - context->replays->first_step,
                            .loss = clock.loss,
                            .softmax_loss = clock.softmax_loss,
                            .added_loss = clock.added_loss,
                            .feature_loss = clock.feature_loss,
                            .correct = clock.correct,
                            .bad_step = clock.bad_step,
                            .bad_row = clock.bad_row};
    return cuda_failure(context, error);
}

const ole_recorder cuda_recorder = {
    .resident_create = resident_create,
    .resident_free = resident_free,
    .feed_create = feed_create,
    .feed_free = feed_free,
    .lock = cuda_setup_lock,
    .unlock = cuda_setup_unlock,
    .begin = begin,
    .end = end,
    .recording_free = recording_free,
    .recording_nodes = recording_nodes,
    .tick = tick,
    .assemble = assemble,
    .softmax = softmax,
    .add_loss = cuda_add_loss,
    .add_criterion = cuda_add_criterion,
    .check = cuda_check,
    .tock = cuda_tock,
    .keep = cuda_keep,
    .rows = rows,
    .rows_read = cuda_to_plain,
    .rows_add = cuda_from_plain,
    .rows_take = rows_take,
    .param_read = cuda_param_read,
    .gradient_write = cuda_gradient_write,
    .unit_rows = cuda_unit_rows,
    .step = step,
    .stream = stream,
    .gpu = gpu,
    .start = start,
    .replay = replay,
    .follow = follow,
    .read = read_clock,
};
