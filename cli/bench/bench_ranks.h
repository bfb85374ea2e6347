/* cli/bench/bench_ranks.h - `ole bench --ranks`: how training steps scale with ranks. */
#ifndef OLE_CLI_BENCH_BENCH_RANKS_H
#define OLE_CLI_BENCH_BENCH_RANKS_H

#include "bench/bench.h"

/* Joins the other processes, measures with them and prints on rank 0; the exit code. */
int bench_ranks(const ole_bench_options *options, bool json);

#endif
