/*
 * src/bench/bench_ranks.c - ole_bench_ranks(): training steps on 1, 2, ... ranks, next to the same
 * ranks each on its own, and the cost of sums over ranks: the data behind docs/scaling.md.
 */
#include "base/clock.h"
#include "base/error.h"
#include "bench/bench_data.h"
#include "train/ranks/rank_resources.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WARM_UP = 2, LEAST_STEPS = 5, MOST_STEPS = 500, LARGEST = 1 << 23 };

/* The mean over the ranks, the same on all. */
static double mean_of(ole_ranks *ranks, double value) {
    ole_ranks_sum(ranks, &value, 1, OLE_F64);
    return value / ole_ranks_size(ranks);
}

/* ---- Steps -------------------------------------------------------------------------------- */

/* What was measured, in seconds per step. */
typedef struct times {
    double step, exposed, ole;
    const char *device, *route;
} times;

/* All ranks take as many steps as rank 0 has time for. */
static ole_status time_steps(ole_bench_setup *s, times *t, ole_error *error) {
    ole_step_result result;
    ole_status status = OLE_OK;
    double *took = malloc(MOST_STEPS * sizeof *took), start = 0.0, data;
    if (!took) return ole_fail(error, OLE_ERROR_MEMORY, "out of memory");
    for (int64_t i = 0; i < WARM_UP && status == OLE_OK; i++) {
        start = ole_clock();
        status = ole_bench_step(s, i, &data, &result, error);
    }
    double fit = s->options->seconds / (ole_clock() - start);
    int64_t count = (int64_t)fmin(MOST_STEPS, fmax(LEAST_STEPS, fit));
    ole_ranks_broadcast(s->ranks, &count, sizeof count, 0);
    *t = (times){0};
    for (int64_t i = 0; i < count && status == OLE_OK; i++) {
        start = ole_clock();
        status = ole_bench_step(s, WARM_UP + i, &data, &result, error);
        took[i] = ole_clock() - start;
        t->exposed += result.comm_seconds / (double)count;
        t->ole += result.seconds[OLE_STEP_OLE] / (double)count;
    }
    if (status == OLE_OK) t->step = ole_bench_median(took, count);
    free(took);
    return status;
}

/* Nothing inside a recorded step can be timed: the cost of OLÉ and of communication is what a step
 * saves without them. */
static ole_status time_recorded(ole_bench_setup *s, times *t, ole_error *error) {
    double seconds = s->options->seconds, without = 0.0;
    *t = (times){.exposed = s->recorded->comm_seconds};
    ole_status status = ole_recorded_measure(s->recorded, OLE_RECORDED_STEP, OLE_OP_INPUT, seconds,
                                             &t->step, error);
    if (status == OLE_OK && !s->options->softmax_only)
        status = ole_recorded_measure(s->recorded, OLE_RECORDED_WITHOUT_OLE, OLE_OP_INPUT,
                                      seconds / 4, &without, error);
    if (!s->options->softmax_only) t->ole = fmax(0.0, t->step - without);
    return status;
}

/* Steps of `batch` images by the ranks together, or of as many by this rank alone. */
static ole_status measure_steps(const ole_bench_options *o, ole_ranks *ranks,
                                const ole_ranks *beside, int64_t batch, times *t,
                                ole_error *error) {
    ole_bench_setup s = {.options = o, .ranks = ranks, .beside = beside, .batch = batch};
    ole_status status = ole_bench_open(&s, error);
    if (status == OLE_OK)
        status = s.recorded ? time_recorded(&s, t, error) : time_steps(&s, t, error);
    if (status == OLE_OK) {
        static const char *const routes[] = {"", "everywhere", "split", "gram"};
        const ole_ranks_loss *loss = s.stepper->acts > 0 ? s.stepper->act[0].ranks_loss : NULL;
        t->device = s.network.backend->name;
        t->route = loss && !s.recorded ? routes[ole_ranks_loss_taken(loss)] : "";
    }
    ole_bench_close(&s);
    return ole_ranks_agree(ranks, status, error);
}

/* One row, by a part of all ranks. */
static ole_status measure_scale(const ole_bench_options *o, const ole_ranks *all, ole_ranks *part,
                                ole_bench_scaling *result, ole_bench_scale *row, ole_error *error) {
    times together, apart;
    int rank = ole_ranks_rank(part);
    int64_t own =
        ole_ranks_first(part, row->batch, rank + 1) - ole_ranks_first(part, row->batch, rank);
    ole_status status = measure_steps(o, part, all, row->batch, &together, error);
    if (status == OLE_OK) status = measure_steps(o, NULL, all, own, &apart, error);
    status = ole_ranks_agree(part, status, error);
    if (status != OLE_OK) return status;
    snprintf(result->device, sizeof result->device, "%s", together.device);
    snprintf(row->route, sizeof row->route, "%s", together.route);
    row->step_ms = 1e3 * mean_of(part, together.step);
    row->images_per_s = 1e3 * (double)row->batch / row->step_ms;
    row->apart_ms = 1e3 * mean_of(part, apart.step);
    row->exposed_ms = 1e3 * mean_of(part, together.exposed);
    row->ole_ms = 1e3 * mean_of(part, together.ole);
    row->ole_apart_ms = 1e3 * mean_of(part, apart.ole);
    return OLE_OK;
}

/* ---- Sums --------------------------------------------------------------------------------- */

static void measure_sum(ole_ranks *part, float *data, ole_bench_sum *sum) {
    enum { TIMES = 15 };
    double took[TIMES];
    for (int i = -2; i < TIMES; i++) {
        ole_ranks_barrier(part);
        double start = ole_clock();
        ole_ranks_sum(part, data, sum->bytes / (int64_t)sizeof *data, OLE_F32);
        if (i >= 0) took[i] = ole_clock() - start;
    }
    sum->ms = 1e3 * mean_of(part, ole_bench_median(took, TIMES));
}

/* Of 8 bytes to 8 MiB. */
static ole_status measure_sums(ole_ranks *part, ole_bench_scaling *result, ole_error *error) {
    float *data = calloc(LARGEST / sizeof *data, sizeof *data);
    ole_status status = data ? OLE_OK : ole_fail(error, OLE_ERROR_MEMORY, "out of memory");
    status = ole_ranks_agree(part, status, error);
    for (int64_t bytes = 8; bytes <= LARGEST && status == OLE_OK; bytes *= 16) {
        ole_bench_sum *sum = &result->sum[result->sums++];
        *sum = (ole_bench_sum){.ranks = ole_ranks_size(part), .bytes = bytes};
        measure_sum(part, data, sum);
    }
    free(data);
    return status;
}

/* ---- The table ---------------------------------------------------------------------------- */

/* The ranks of the next part: all numbers up to 4, then doubled; the last are all. */
static int next_size(int size, int all) {
    int next = size < 4 ? size + 1 : 2 * size;
    return size == all ? all + 1 : next < all ? next : all;
}

/* One rank alone has one row, every larger part two. */
static void report_row(const ole_bench_options *o, const ole_ranks *all, int64_t done) {
    int ranks = ole_ranks_size(all);
    int64_t rows = -1;
    for (int size = 1; size <= ranks; size = next_size(size, ranks))
        rows += 2;
    if (o->callback) o->callback(o->callback_context, "rows", done, rows);
}

/* What one part of the group measures: strong and weak, and the sums. */
static ole_status measure_part(const ole_bench_options *o, const ole_ranks *all, ole_ranks *part,
                               ole_bench_scaling *result, ole_error *error) {
    int ranks = ole_ranks_size(part);
    ole_status status = OLE_OK;
    for (int weak = ranks == 1; weak < 2 && status == OLE_OK; weak++) {
        ole_bench_scale *row = &result->scale[result->scales++];
        *row = (ole_bench_scale){
            .ranks = ranks, .weak = weak, .batch = weak ? ranks * o->batch_size : o->batch_size};
        status = measure_scale(o, all, part, result, row, error);
        report_row(o, all, result->scales);
    }
    if (status == OLE_OK && ranks > 1) status = measure_sums(part, result, error);
    return status;
}

/* What is summed in a step, from the net itself. */
static ole_status describe(const ole_bench_options *o, ole_bench_scaling *result,
                           ole_error *error) {
    ole_graph *graph;
    ole_status status = ole_graph_parse(
        &graph, o->net, (ole_shape){o->channels, o->height, o->width}, o->classes, error);
    if (status != OLE_OK) return status;
    for (int i = 0; i < graph->params; i++)
        if (graph->param[i].trained)
            result->gradient_bytes += graph->param[i].count * (int64_t)sizeof(float);
    for (int i = 0; i < graph->nodes; i++) {
        const ole_node *node = &graph->node[i];
        result->flop += 3.0 * ole_bench_flop(node);
        if (node->op != OLE_OP_NORM || strcmp(o->bn, "sync") != 0) continue;
        result->norms++;
        result->norm_sums += 2; /* two numbers of each channel, forward and backward */
        result->norm_bytes += 2 * 2 * node->out.c * (int64_t)sizeof(double);
    }
    result->features = ole_shape_size(graph->node[graph->features].out);
    ole_graph_free(graph);
    return OLE_OK;
}

ole_status ole_bench_ranks(const ole_bench_options *options, ole_ranks *ranks,
                           ole_bench_scaling *result, ole_error *error) {
    *result = (ole_bench_scaling){.ranks = ole_ranks_size(ranks)};
    ole_status status = ole_bench_check(options, ole_ranks_size(ranks), error);
    if (status == OLE_OK) status = describe(options, result, error);
    status = ole_ranks_agree(ranks, status, error);
    if (status != OLE_OK) return status;
    int64_t hosts = !ranks || ranks->on_host == 0;
    ole_ranks_sum(ranks, &hosts, 1, OLE_I64);
    result->hosts = (int)hosts;
    result->threads = ole_rank_threads(options->threads, ranks);
    for (int size = 1; size <= result->ranks && status == OLE_OK;
         size = next_size(size, result->ranks)) {
        ole_ranks *part = ole_ranks_part(ranks, size);
        if (part || !ranks) status = measure_part(options, ranks, part, result, error);
        ole_ranks_close(part);
        status = ole_ranks_agree(ranks, status, error);
    }
    for (int i = 0; i < result->scales && status == OLE_OK; i++) {
        ole_bench_scale *row = &result->scale[i];
        row->efficiency = result->scale[0].step_ms / row->step_ms / (row->weak ? 1 : row->ranks);
    }
    ole_ranks_broadcast(ranks, result, sizeof *result, 0);
    return status;
}
