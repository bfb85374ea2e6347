#!/usr/bin/env python3
"""make.py BUILD VERSION - writes tests/frozen/VERSION with the program in the folder BUILD: small run folders,
one of each kind, and what that version made of them.

    python3 tests/frozen/make.py build 0.1

Run it once per release, with that release's build, and never again: later versions must read these folders
(tests/cli/frozen.py). The functions that a release exports are written by tools/packages/freeze.py.
Pages and pictures are not kept, because nothing reads them back.
"""
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "cli"))
import npyfile  # noqa: E402

SAMPLES = 4  # rows of features kept per run

# name: the data it is evaluated on, then the arguments of `ole train`
RUNS = {
    "plain": ("digits", "train digits --net C4-MP-FC8 --epochs 4"),
    "residual": ("digits", "train digits --net C4-R8/4-R16/4-AP --epochs 3"),
    "dense": ("digits", "train digits --net C4-D10/3-CR5-AP --epochs 3 --loss softmax"),
    "npy": ("npy:x.npy,y.npy", "train npy:x.npy,y.npy --net FC8[nobn] --epochs 6 --lr 0.05"),
    "threshold": ("digits", "train digits --classes 0,1,2,3,4,5,6 --val-split 20% --net C4-MP-FC8 --epochs 6"),
}
INTERRUPTED = "train digits --net C16-MP-C16-MP-FC8 --epochs 400"


def interrupt(command, folder):
    """Runs the command and sends it Ctrl-C once a checkpoint is there: it saves in the middle of an epoch."""
    metrics = folder / "interrupted" / "metrics.jsonl"
    with subprocess.Popen(command, cwd=folder, stderr=subprocess.DEVNULL) as child:
        while not (metrics.exists() and metrics.read_text().count("\n") >= 2):
            time.sleep(0.01)
        child.send_signal(signal.SIGINT)
    if child.returncode != 130:
        sys.exit(f"the interrupted run ended with {child.returncode}")


def write_vectors(folder):
    """60 vectors of three classes, from Python's own generator: the same on every machine."""
    rng = random.Random(7)
    centres = [[rng.gauss(0, 1) for _ in range(6)] for _ in range(3)]
    rows = [[c + rng.gauss(0, 0.3) for c in centres[i % 3]] for i in range(60)]
    (folder / "x.npy").write_bytes(npyfile.array("<f4", (60, 6), [v for row in rows for v in row]))
    (folder / "y.npy").write_bytes(npyfile.array("<i8", (60,), [i % 3 for i in range(60)]))


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    build, folder = Path(sys.argv[1]).resolve(), Path(__file__).resolve().parent / sys.argv[2]
    ole = str(build / "ole")
    folder.mkdir(exist_ok=True)
    if (folder / "expected.json").exists():
        sys.exit(f"{folder} is there already and stays as it is")

    def run(*args):
        return subprocess.run([ole, *args, "--threads", "1"], cwd=folder, check=True, text=True,
                              stdout=subprocess.PIPE).stdout

    write_vectors(folder)
    expected = {}
    for name, (data, train) in RUNS.items():
        run(*train.split(), "--out", name)
        if name == "threshold":
            run("novelty", name, "--known", data, "--novel", data, "--score", "cosine")
        run("features", name, data, "--out", "F.npy", "L.npy")
        _, shape, values = npyfile.read(folder / "F.npy")
        answer = json.loads(run("eval", name, data, "--json"))
        expected[name] = {"data": data, "epochs": int(train.split("--epochs ")[1].split()[0]),
                          "samples": answer["n"], "error": answer["error"],
                          "features": [values[i * shape[1]:(i + 1) * shape[1]] for i in range(SAMPLES)]}
    run("tune", "digits", "--net", "C4-MP-FC8", "--lambdas", "0,1/4", "--epochs", "1", "--samples-per-class",
        "10", "--seeds", "1", "--out", "study")
    interrupt([ole, *INTERRUPTED.split(), "--threads", "1", "--out", "interrupted"], folder)
    for left_out in ("F.npy", "L.npy"):
        (folder / left_out).unlink()
    for pattern in ("**/*.html", "**/*.svg", "**/*.png", "**/*.pdf"):
        for path in folder.glob(pattern):
            path.unlink()
    (folder / "expected.json").write_text(json.dumps(expected, indent=1) + "\n")


main()
