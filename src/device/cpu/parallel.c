/*
 * src/device/cpu/parallel.c - runs our loops on oneDNN's threads.
 *
 * As distributions build it, oneDNN runs on OpenMP, whose workers keep spinning for a while after
 * each loop: threads of our own would compete with them for cores.  So our loops run on the same
 * workers, through the function that compilers call for "#pragma omp parallel".  It is a weak
 * symbol: this library does not link OpenMP itself but uses whichever came with oneDNN, whatever
 * compiler built either, and falls back to its own thread pool if there is none.
 *
 * OpenMP's thread count belongs to the calling thread; it is set on entry to the backend and
 * restored on exit.
 */
#include "device/cpu/cpu.h"

extern void GOMP_parallel(void (*function)(void *), void *argument, unsigned threads,
                          unsigned flags) __attribute__((weak));
extern int omp_get_thread_num(void) __attribute__((weak));
extern int omp_get_num_threads(void) __attribute__((weak));
extern int omp_get_max_threads(void) __attribute__((weak));
extern void omp_set_num_threads(int threads) __attribute__((weak));

typedef struct loop {
    cpu_task *task;
    void *argument;
    int64_t count;
    int parts;
    bool backwards;
} loop;

static void run_part(const loop *l, int64_t part) {
    int64_t first = l->count * part / l->parts, end = l->count * (part + 1) / l->parts;
    for (int64_t i = first; i < end; i++)
        l->task(l->argument, l->backwards ? first + end - 1 - i : i);
}

/* An OpenMP thread; it runs several parts if there are fewer threads than requested. */
static void openmp_body(void *argument) {
    const loop *l = argument;
    for (int part = omp_get_thread_num(); part < l->parts; part += omp_get_num_threads())
        run_part(l, part);
}

static void pool_body(void *argument, int64_t part, int worker) {
    (void)worker;
    run_part(argument, part);
}

bool cpu_parallel_on_openmp(void) {
    return GOMP_parallel && omp_get_thread_num && omp_get_num_threads && omp_get_max_threads &&
           omp_set_num_threads;
}

static void run_loop(const ole_device_context *context, loop l) {
    int threads = context->options.threads;
    l.parts = l.count < threads ? (int)l.count : threads;
    if (l.parts == 1)
        run_part(&l, 0);
    else if (context->pool)
        ole_pool_run(context->pool, l.parts, pool_body, &l);
    else if (l.parts > 1)
        GOMP_parallel(openmp_body, &l, (unsigned)threads, 0);
}

void cpu_parallel(const ole_device_context *context, int64_t count, cpu_task *task,
                  void *argument) {
    run_loop(context, (loop){.task = task, .argument = argument, .count = count});
}

void cpu_parallel_backwards(const ole_device_context *context, int64_t count, cpu_task *task,
                            void *argument) {
    run_loop(context,
             (loop){.task = task, .argument = argument, .count = count, .backwards = true});
}

int cpu_threads_enter(const ole_device_context *context) {
    if (!cpu_parallel_on_openmp()) return 0;
    int before = omp_get_max_threads();
    if (before != context->options.threads) omp_set_num_threads(context->options.threads);
    return before;
}

void cpu_threads_leave(int before) {
    if (before && before != omp_get_max_threads()) omp_set_num_threads(before);
}

/* Floats per slice: long enough to be worth a task, short enough to balance the load. */
enum { SLICE = 16384 };

int64_t cpu_slices(int64_t count) {
    return (count + SLICE - 1) / SLICE;
}

void cpu_slice(int64_t count, int64_t task, int64_t *first, int64_t *length) {
    *first = task * SLICE;
    *length = count - *first < SLICE ? count - *first : SLICE;
}
