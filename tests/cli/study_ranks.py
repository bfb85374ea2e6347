#!/usr/bin/env python3
"""study_ranks.py OLE - runs `ole sweep`, `tune`, `reproduce` and `train --seeds` under mpirun, and
compares what they leave with what one process alone leaves.

Says so and returns 77 where there is no mpirun, or the program was built without MPI.
"""
import os
import re
import signal

import launched
from launched import ranks_of, wait_for
from run import check_that
from study import NET, results
from train import metrics

SWEEP = f"sweep digits {NET} --epochs 2 --samples 4,8 --lambdas 0,0.25 --seeds 2"
TUNE = f"tune digits {NET} --samples-per-class 12 --epochs 2 --lambdas 0,0.25 --seeds 2 --baseline"
TRAIN = f"train digits {NET} --samples-per-class 12 --epochs 2 --seeds 3"
LONG = f"sweep digits {NET} --epochs 30 --samples 100 --lambdas 0,0.25 --seeds 3"
RECIPE = """data: digits
net: C4-MP-FC8
batch_size: 32
epochs: 2
seeds: 2
lambda: 0.25
samples_per_class: 12
paper:
  title: digits
  shows: no figure
  kind: compare
  measure: test error
  minutes: 1
"""


def same_runs(name, a, b):
    """Two folders hold the same files, and run by run the same bits, times aside."""
    def files(folder):
        return {path.relative_to(folder) for path in folder.rglob("*") if path.is_file()}

    check_that(f"{name}: the same files", files(a) == files(b))
    for path in sorted(files(a)):
        if path.name == "metrics.jsonl":
            check_that(f"{name}: {path}", metrics(a / path.parent) == metrics(b / path.parent))
        elif path.name in ("best.safetensors", "config.yaml", "study.json", "recipe.yaml"):
            check_that(f"{name}: {path}", (a / path).read_bytes() == (b / path).read_bytes())
        elif path.name == "results.json" and (a / path.parent / "study.json").exists():
            check_that(f"{name}: {path}", results(a / path.parent) == results(b / path.parent))


def check_same(ole, work):
    for name, line in (("sweep", SWEEP), ("tune", TUNE), ("train", TRAIN)):
        alone = ole.run(*line.split(), "--out", f"{name}-0")
        code, out, err = ole.launch(3, f"{line} --out {name}-3")
        check_that(f"{name}: {err}", code == 0 and alone.returncode == 0)
        check_that(f"{name} prints once, the same",
                   out == alone.stdout.replace(f"{name}-0", f"{name}-3"))
        same_runs(name, work / f"{name}-0", work / f"{name}-3")
        if name != "train":
            told = [int(number) for number in re.findall(r"^run (\d+)/", err, re.M)]
            runs = len(list((work / f"{name}-3").rglob("metrics.jsonl")))
            check_that(f"{name}: all runs are told of, once", told == list(range(1, runs + 1)))


def check_reproduce(ole, work):
    (work / "mine.yaml").write_text(RECIPE)
    alone = ole.run(*"reproduce mine.yaml --threads 1 --out made-0".split())
    code, out, err = ole.launch(2, "reproduce mine.yaml --threads 1 --out made-2")
    check_that(f"reproduce: {err}{alone.stderr}", code == 0 and alone.returncode == 0)
    check_that("reproduce prints once, the same", out == alone.stdout.replace("made-0", "made-2"))
    same_runs("reproduce", work / "made-0", work / "made-2")


def check_errors(ole, work):
    code, out, err = ole.launch(2, f"{SWEEP} --lambdas 0,0 --out never")
    check_that(f"a mistake is told once: {err}",
               code == 2 and err.count("lambdas: 0 is given twice") == 1 and out == "")
    (work / "file").write_text("")
    code, out, err = ole.launch(3, f"{SWEEP} --out file/inside")
    check_that(f"one rank's error is everyone's: {err}",
               code != 0 and err.count("file/inside: cannot create the folder") == 1)


def check_interrupt(ole, work):
    """Stopped by SIGTERM to all ranks, or by kill -9 of one, then taken up by another number."""
    def begun():
        return len(list((work / "long-3").rglob("last.safetensors")))

    alone = ole.run(*LONG.split(), "--out", "long-0")
    check_that("long", alone.returncode == 0)
    process = ole.start(3, f"{LONG} --out long-3")
    check_that("runs have begun", wait_for(lambda: begun() >= 2))
    for rank in ranks_of(process).values():
        os.kill(rank, signal.SIGTERM)
    out, err = process.communicate(timeout=60)
    check_that(f"stopped: {process.returncode} {err}", process.returncode == 130 and
               err.count("runs finished and saved; to resume: ole sweep --resume --out long-3\n") == 1)
    process = ole.start(2, f"{LONG} --out long-3")
    before = begun()
    check_that("going on", wait_for(lambda: begun() > before or process.poll() is not None))
    os.kill(ranks_of(process)[1], signal.SIGKILL)
    out, err = process.communicate(timeout=60)
    check_that(f"a killed rank ends all: {err}", process.returncode != 0)
    code, out, err = ole.launch(3, f"{LONG} --out long-3")
    check_that(f"going on again: {err}", code == 0 and "resuming after " in err)
    check_that("what is printed", out == alone.stdout.replace("long-0", "long-3"))
    check_that("results", results(work / "long-0") == results(work / "long-3"))


def check_all(ole, work):
    check_same(ole, work)
    check_reproduce(ole, work)
    check_errors(ole, work)
    check_interrupt(ole, work)


if __name__ == "__main__":
    launched.conduct(__doc__, "studies over ranks are", check_all)
