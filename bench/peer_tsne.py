#!/usr/bin/env python3
"""Compares t-SNE with scikit-learn's in one run: `python3 bench/peer_tsne.py build/ole [DATA...]`.

DATA is digits, or mnist:N for the first N training images of MNIST, found by OLE_DATA (default:
digits mnist:10000).  Both programs get the same 50 principal components, the same initial map and two
threads, and both maps are measured by the same functions (`ole tsne --quality`).  CPU seconds are
printed beside wall time, which says little on a shared machine.

--ours-only skips scikit-learn, for sizes that would take it an hour.
"""
import gzip
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import sklearn
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.manifold import TSNE

THREADS = 2


def load(name):
    if name == "digits":
        x = load_digits().data
    else:
        images = Path(os.environ["OLE_DATA"]) / "mnist/train-images-idx3-ubyte.gz"
        x = np.frombuffer(gzip.open(images).read(), np.uint8, offset=16).reshape(-1, 784)
        x = x[:int(name.split(":")[1])] / 255.0
    return PCA(50, svd_solver="full").fit_transform(x.astype(np.float64)).astype(np.float32)


def processor_seconds(who):
    use = resource.getrusage(who)
    return use.ru_utime + use.ru_stime


def timed(call, who):
    clock, cpu = time.monotonic(), processor_seconds(who)
    result = call()
    return result, time.monotonic() - clock, processor_seconds(who) - cpu


def ole(program, *options):
    command = [program, "tsne", "X.npy", "--pca", "0", "--threads", str(THREADS), "--json", *options]
    return json.loads(subprocess.run(command, check=True, text=True, stdout=subprocess.PIPE).stdout)


def measure(program, path):
    return ole(program, "--start", path, "--iterations", "0", "--out", "/dev/null", "--quality")


def show(who, clock, cpu, quality):
    print(f"  {who:14} {clock:8.2f} s by the clock  {cpu:8.2f} s of processors  "
          f"KL {quality['exact_kl']:.4f}  trustworthiness {quality['trustworthiness']:.4f}",
          flush=True)


def compare(program, name, peer):
    x = load(name)
    np.save("X.npy", x)
    start = 1e-4 * np.random.RandomState(0).standard_normal((len(x), 2))
    np.save("start.npy", start)
    print(f"{name}: {len(x)} rows", flush=True)
    _, clock, cpu = timed(lambda: ole(program, "--start", "start.npy", "--out", "ours.npy"),
                          resource.RUSAGE_CHILDREN)
    ours = measure(program, "ours.npy")
    show("ole tsne", clock, cpu, ours)
    if not peer:
        return
    model = TSNE(init=start.astype(np.float32), method="barnes_hut", learning_rate="auto",
                 n_jobs=THREADS)
    y, their_clock, their_cpu = timed(lambda: model.fit_transform(x), resource.RUSAGE_SELF)
    np.save("theirs.npy", y.astype(np.float64))
    theirs = measure(program, "theirs.npy")
    show(f"sklearn {sklearn.__version__}", their_clock, their_cpu, theirs)
    print(f"  {their_clock / clock:.1f} times as fast by the clock, {their_cpu / cpu:.1f} by the "
          f"processors; KL {100 * (ours['exact_kl'] / theirs['exact_kl'] - 1):+.2f} %, "
          f"trustworthiness {ours['trustworthiness'] - theirs['trustworthiness']:+.4f}", flush=True)


def main():
    words = [word for word in sys.argv[1:] if word != "--ours-only"]
    if not words:
        sys.exit(__doc__)
    program = os.path.abspath(words[0])
    with tempfile.TemporaryDirectory(prefix="ole-tsne-") as work:
        os.chdir(work)
        for name in words[1:] or ("digits", "mnist:10000"):
            compare(program, name, "--ours-only" not in sys.argv)


if __name__ == "__main__":
    main()
