/*
 * src/bench/bench_recorded.h - the benchmark on a device that queues its steps; and what it shares
 * with bench.c.
 */
#ifndef OLE_SRC_BENCH_BENCH_RECORDED_H
#define OLE_SRC_BENCH_BENCH_RECORDED_H

#include "bench/bench_data.h"

/* Kinds of ops that are told apart. */
typedef struct ole_bench_op {
    ole_op op;
    const char *name;
} ole_bench_op;

extern const ole_bench_op ole_bench_ops[];
extern const size_t ole_bench_op_count;

/* Appends a kind with its seconds per step, and the FLOP per second that follow. */
void ole_bench_add_kind(ole_bench_result *result, const ole_graph *graph, int64_t batch,
                        const ole_bench_op *op, double forward, double backward);

/* Step, stages and kinds. */
ole_status ole_bench_queue(const ole_bench_setup *setup, ole_bench_result *result,
                           ole_error *error);

#endif
