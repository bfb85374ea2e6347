/* cli/peer.h - the same work in PyTorch, run as a child process beside our own measurement. */
#ifndef OLE_CLI_PEER_H
#define OLE_CLI_PEER_H

#include <ole/base.h>
#include <ole/net.h>

#include <stdbool.h>

typedef struct peer_job {
    const ole_net *net;
    const char *device;    /* "cpu" or "cuda" */
    const char *precision; /* "fp32", "tf32" or "bf16" */
    int64_t batch;
    int threads;
    double seconds;
} peer_job;

/*
 * Runs bench/peer_torch.py (kept inside the program) with the python3 of $OLE_PYTHON or the PATH.
 * On success `text` holds its answer, one line of JSON, and *best_ms its fastest mode.  False: the
 * reason has been printed.
 */
bool peer_run(const peer_job *job, char *text, size_t size, double *best_ms);

#endif
