#!/usr/bin/env python3
"""Times two builds of Olé against each other on the CPU: the loss, a training step and t-SNE.

    python3 bench/compare_builds.py OLD NEW [--rounds 15]

OLD and NEW are source trees, each with a release build in build/.  All runs have one thread, the builds alternate,
and the time is that of the processor, the least of all rounds: so it means something on a machine that others use
too.  The last column tells whether both builds gave the same bits.
"""
import argparse
import hashlib
import json
import os
import resource
import shutil
import subprocess
import tempfile
from pathlib import Path

LOSS = r"""
#include "ole/loss.h"
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* argv: rows, dimensions, classes.  Prints the least time of an evaluation and its bits. */
int main(int argc, char **argv) {
    int rows = atoi(argv[1]), dim = atoi(argv[2]), classes = atoi(argv[3]), count = rows * dim;
    float *x = malloc(count * sizeof *x), *g = malloc(count * sizeof *g);
    int *y = malloc(rows * sizeof *y);
    unsigned state = 1, bits = (unsigned)argc;
    for (int i = 0; i < count; i++)
        x[i] = (float)((state = state * 1664525u + 1013904223u) >> 8) / 8388608.0f - 1.0f;
    for (int i = 0; i < rows; i++)
        y[i] = i % classes;
    ole_loss_options options;
    ole_loss_options_init(&options);
    options.threads = 1;
    ole_loss_plan *plan;
    ole_error error;
    if (ole_loss_plan_create(&plan, rows, dim, OLE_F32, &options, &error) != OLE_OK)
        return fprintf(stderr, "%s\n", error.message), 1;
    ole_loss_batch batch = {.rows = rows, .features = x, .labels = y, .label_type = OLE_I32};
    ole_loss_gradient gradient = {.data = g, .upstream = 1.0};
    ole_loss_result result = {0};
    double least = 1e9, all = 0;
    while (all < 0.4) {
        struct timespec from, to;
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &from);
        if (ole_loss_eval(plan, &batch, &gradient, &result, &error) != OLE_OK)
            return fprintf(stderr, "%s\n", error.message), 1;
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &to);
        double time = (double)(to.tv_sec - from.tv_sec) + 1e-9 * (double)(to.tv_nsec - from.tv_nsec);
        least = time < least ? time : least;
        all += time;
    }
    for (size_t i = 0; i < (size_t)count * sizeof *g; i++)
        bits = bits * 31 + ((unsigned char *)g)[i];
    printf("%.9g %a-%08x\n", least, result.value, bits);
    return 0;
}
"""
SHAPES = [(64, 256, 10), (256, 512, 10), (1024, 512, 100)]
NETS = [("C32-MP-C64-MP-FC64", 5), ("FC256(x3)", 40)]  # and epochs


def run(*args):
    """The standard output, and the seconds of the processor."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(list(map(str, args)), check=True, capture_output=True, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return done.stdout, after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


class Build:
    def __init__(self, tree, work):
        self.ole, self.work = tree / "build/ole", work
        self.loss = work / "loss"
        subprocess.run(["cc", "-O2", "-o", self.loss, "-x", "c", "-", f"-I{tree}/include", f"-L{tree}/build", "-lole",
                        f"-Wl,-rpath,{tree}/build"], input=LOSS, text=True, check=True)
        options = run(self.ole, "train", "--help")[0]  # later versions hold samples out to set a threshold
        self.whole = ["--calibration", "0"] if "--calibration" in options else []

    def time_loss(self, *shape):
        seconds, bits = run(self.loss, *shape)[0].split()
        return [float(seconds)], bits

    def time_training(self, net, epochs):
        """Without and with `epochs` more than one; what a run does but once cancels."""
        times = []
        for more in (0, epochs):
            out = self.work / "run"
            shutil.rmtree(out, ignore_errors=True)
            times.append(run(self.ole, "train", "digits", "--net", net, "--loss", "softmax+ole", "--epochs", 1 + more,
                             "--threads", 1, "--workers", 0, "--device", "cpu", "--no-report", "--out", out,
                             *self.whole)[1])
        epoch = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()][-2]
        return times, str([epoch[key] for key in ("softmax_loss", "ole_loss", "test_error")])

    def time_tsne(self, features):
        out = self.work / "map.npy"
        _, seconds = run(self.ole, "tsne", features, "--out", out, "--threads", 1, "--iterations", 300)
        return [seconds], hashlib.sha256(out.read_bytes()).hexdigest()


def write_features(path, rows=2000, dim=50):
    values, state = bytearray(), 1
    for _ in range(rows * dim):
        state = (state * 1664525 + 1013904223) % 2**32
        values += (0x3F800000 | state >> 9).to_bytes(4, "little")  # a float32 from 1 to 2
    head = f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({rows}, {dim}), }}".ljust(117) + "\n"
    path.write_bytes(b"\x93NUMPY\x01\x00" + len(head).to_bytes(2, "little") + head.encode() + values)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("trees", nargs=2, type=Path)
    parser.add_argument("--rounds", type=int, default=15)
    args = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        write_features(work / "features.npy")
        builds = []
        for name, tree in zip("ab", args.trees):
            (work / name).mkdir()
            builds.append(Build(tree.resolve(), work / name))
        tasks = [("loss and gradient, %d x %d, %d classes" % shape, lambda b, s=shape: b.time_loss(*s))
                 for shape in SHAPES]
        tasks += [("training, digits, %s, %d epochs" % net, lambda b, n=net: b.time_training(*n)) for net in NETS]
        tasks += [("t-SNE, 2,000 x 50, 300 steps", lambda b: b.time_tsne(work / "features.npy"))]
        print("| on one thread | before, ms | after, ms | after / before | same bits |\n|---|---|---|---|---|")
        for what, measure in tasks:
            times, bits = ([], []), (set(), set())
            for _ in range(args.rounds):
                for build, own, seen in zip(builds, times, bits):
                    seconds, text = measure(build)
                    own.append(seconds)
                    seen.add(text)
            least = [[min(column) for column in zip(*own)] for own in times]
            before, after = (1000 * (own[-1] - (own[0] if len(own) > 1 else 0)) for own in least)
            print(f"| {what} | {before:.4g} | {after:.4g} | {after / before:.3f} | "
                  f"{'yes' if bits[0] == bits[1] and len(bits[0]) == 1 else 'no'} |", flush=True)


if __name__ == "__main__":
    main()
