/* cli/bench/peer.h - the same work in PyTorch, run as a child process beside our own measurement.
 */
#ifndef OLE_CLI_BENCH_PEER_H
#define OLE_CLI_BENCH_PEER_H

#include <ole/base.h>
#include <ole/train/net.h>

#include <stdbool.h>

typedef struct peer_job {
    const ole_net *net;
    const char *device;    /* "cpu" or "cuda" */
    const char *precision; /* "fp32", "tf32" or "bf16" */
    int64_t batch;
    int threads;
    double seconds;
} peer_job;

enum { PEER_MODES = 4, PEER_NAME = 40 };

/* A way of doing the step. */
typedef struct peer_mode {
    char name[PEER_NAME];                /* "fp32-nhwc" */
    double ms, processor_ms, peak_bytes; /* NAN: not told */
} peer_mode;

typedef struct peer_answer {
    char library[PEER_NAME]; /* with its version */
    peer_mode mode[PEER_MODES];
    int modes;
    double best_ms; /* of the fastest */
} peer_answer;

/*
 * Runs bench/peer_torch.py (kept inside the program) with the python3 of $OLE_PYTHON or the PATH.
 * False: the reason has been printed.
 */
bool peer_run(const peer_job *job, peer_answer *answer);

#endif
