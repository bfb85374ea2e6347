/*
 * src/device/cuda/conv/side_stream.c - weight gradients on a side stream: when they start, and when
 * the main stream waits for them.
 *
 * event[0] marks where side work may start; the side stream waits for it at once, so one is enough.
 * The ends are a ring of CUDA_LAG events, one per node of the last CUDA_LAG backwards: next_event
 * is the slot of the current node, and side_pending has the slots whose end the main stream has not
 * waited for.  The side stream runs in order, so an end covers everything enqueued before it.
 *
 * Captured events and waits become edges of the graph.  Nothing is pending after cuda_side_join, so
 * no wait inside a capture refers to an event from before it.
 */
#include "base/error.h"
#include "device/cuda/cuda.h"

#include <stdlib.h>

enum { START = 0, FIRST_END = 1, EVENTS = FIRST_END + CUDA_LAG };

ole_status cuda_side_open(ole_device_context *context, ole_error *error) {
    context->event = calloc(EVENTS, sizeof *context->event);
    if (!context->event) return ole_fail(error, OLE_ERROR_MEMORY, "out of memory");
    for (context->events = 0; context->events < EVENTS; context->events++) {
        cudaError_t code =
            cudaEventCreateWithFlags(&context->event[context->events], cudaEventDisableTiming);
        if (code != cudaSuccess)
            return ole_fail(error, OLE_ERROR_UNSUPPORTED, "CUDA: cannot create an event: %s",
                            cudaGetErrorString(code));
    }
    context->use_side = true;
    return OLE_OK;
}

void cuda_side_close(ole_device_context *context) {
    for (int i = 0; i < context->events; i++)
        cudaEventDestroy(context->event[i]);
    free(context->event);
    context->event = NULL;
    context->events = 0;
    context->use_side = false;
}

cudaStream_t cuda_side_begin(ole_device_context *context) {
    if (!context->use_side) return context->stream;
    cudaEvent_t start = context->event[START];
    if (!cuda_failed(context, cudaEventRecord(start, context->stream), "starting side work"))
        cuda_failed(context, cudaStreamWaitEvent(context->side, start, 0), "starting side work");
    return context->side;
}

void cuda_side_end(ole_device_context *context) {
    if (!context->use_side) return;
    cudaEvent_t end = context->event[FIRST_END + context->next_event];
    if (!cuda_failed(context, cudaEventRecord(end, context->side), "ending side work"))
        context->side_pending |= 1u << context->next_event;
}

static void wait_for(ole_device_context *context, int slot) {
    cuda_failed(context, cudaStreamWaitEvent(context->stream, context->event[FIRST_END + slot], 0),
                "joining side work");
}

void cuda_side_advance(ole_device_context *context) {
    context->next_event = (context->next_event + 1) % CUDA_LAG; /* what it holds is CUDA_LAG old */
    unsigned bit = 1u << context->next_event;
    if (context->side_pending & bit) wait_for(context, context->next_event);
    context->side_pending &= ~bit;
}

/* The slot of the latest pending end, which covers the others; -1: none. */
static int latest(const ole_device_context *context) {
    for (int back = 0; back < CUDA_LAG; back++) {
        int slot = (context->next_event + CUDA_LAG - back) % CUDA_LAG;
        if (context->side_pending & 1u << slot) return slot;
    }
    return -1;
}

void cuda_side_follow(ole_device_context *context, cudaStream_t stream) {
    int slot = latest(context);
    if (slot >= 0)
        cuda_failed(context, cudaStreamWaitEvent(stream, context->event[FIRST_END + slot], 0),
                    "following side work");
}

void cuda_side_join(ole_device_context *context) {
    cuda_side_follow(context, context->stream);
    context->side_pending = 0;
}
