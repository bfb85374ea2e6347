/*
 * src/device/cuda/conv/measure.c - how long something takes on the card.
 *
 * Failures stay here: what does not run is not taken, and that is all.
 */
#include "device/cuda/conv/measure.h"

typedef struct timer {
    cudaStream_t stream;
    cudaEvent_t start, end;
    bool (*launch)(void *argument);
    void *argument;
} timer;

static bool launch_all(const timer *t, int runs) {
    for (int i = 0; i < runs; i++)
        if (!t->launch(t->argument)) return false;
    return true;
}

/* Time from start to here, for each of `runs`. */
static bool read_timer(const timer *t, int runs, double *microseconds) {
    float milliseconds = 0;
    if (cudaEventRecord(t->end, t->stream) != cudaSuccess ||
        cudaEventSynchronize(t->end) != cudaSuccess ||
        cudaEventElapsedTime(&milliseconds, t->start, t->end) != cudaSuccess)
        return false;
    *microseconds = 1e3 * (double)milliseconds / runs;
    return true;
}

static bool time_launched(const timer *t, int runs, double *microseconds) {
    return cudaEventRecord(t->start, t->stream) == cudaSuccess && launch_all(t, runs) &&
           read_timer(t, runs, microseconds);
}

static bool time_replayed(const timer *t, cudaGraphExec_t graph, int runs, double *microseconds) {
    return cudaEventRecord(t->start, t->stream) == cudaSuccess &&
           cudaGraphLaunch(graph, t->stream) == cudaSuccess && read_timer(t, runs, microseconds);
}

/* A graph of `runs` in a row; NULL where it cannot be recorded. */
static cudaGraphExec_t record(const timer *t, int runs) {
    cudaGraph_t graph = NULL;
    cudaGraphExec_t executable = NULL;
    if (cudaStreamBeginCapture(t->stream, cudaStreamCaptureModeThreadLocal) != cudaSuccess)
        return NULL;
    bool launched = launch_all(t, runs);
    bool ended = cudaStreamEndCapture(t->stream, &graph) == cudaSuccess;
    if (launched && ended && cudaGraphInstantiate(&executable, graph, 0) != cudaSuccess)
        executable = NULL;
    if (graph) cudaGraphDestroy(graph);
    return executable;
}

/* The quickest of several batches. */
static bool time_batches(const timer *t, double estimate, cuda_measured *measured) {
    enum { BATCH_MICROSECONDS = 400, MOST_RUNS = 20, LONG_MICROSECONDS = 2000 };
    int runs = estimate > 0 ? (int)(BATCH_MICROSECONDS / estimate) : MOST_RUNS;
    if (runs > MOST_RUNS) runs = MOST_RUNS;
    if (runs < 1) runs = 1;
    int batches = estimate > LONG_MICROSECONDS ? 2 : 5;
    cudaGraphExec_t graph = record(t, runs);
    double once;
    bool ok = graph ? time_replayed(t, graph, runs, &once) : true; /* warms up */
    if (!graph) cudaGetLastError();
    measured->recorded = graph != NULL;
    for (int i = 0; i < batches && ok; i++) {
        ok = graph ? time_replayed(t, graph, runs, &once) : time_launched(t, runs, &once);
        if (ok && (i == 0 || once < measured->microseconds)) measured->microseconds = once;
    }
    if (graph) cudaGraphExecDestroy(graph);
    return ok;
}

bool cuda_measure(ole_device_context *context, bool (*launch)(void *argument), void *argument,
                  double best, cuda_measured *measured) {
    timer t = {.stream = context->stream, .launch = launch, .argument = argument};
    double estimate = 0; /* with the host's time to launch, which may be most of it */
    bool ok = cudaEventCreate(&t.start) == cudaSuccess && cudaEventCreate(&t.end) == cudaSuccess &&
              time_launched(&t, 1, &estimate) && time_launched(&t, 2, &estimate) &&
              (best <= 0 || estimate < 3 * best + 30) && time_batches(&t, estimate, measured);
    if (t.start) cudaEventDestroy(t.start);
    if (t.end) cudaEventDestroy(t.end);
    if (!ok) cudaGetLastError(); /* not to be found by who checks next */
    return ok;
}
