#!/usr/bin/env python3
"""frozen.py OLE - reads the run folders that earlier versions wrote (tests/frozen, made by make.py there).

Every later version must evaluate, resume, report and export them. Features may differ from the recorded ones
by float32 rounding on another CPU, and a sample that lies on a class boundary may fall to the other side.
"""
import json
import shutil
from pathlib import Path

import npyfile
import run
from run import check_that, read_json

FROZEN = Path(__file__).resolve().parent.parent / "frozen"


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def check_run(ole, work, name, expected):
    data = expected["data"]
    done = ole.run("features", name, data, "--out", "F.npy", "L.npy")
    check_that(f"{name}: features can be written", done.returncode == 0)
    _, shape, values = npyfile.read(work / "F.npy")
    size = max(abs(v) for row in expected["features"] for v in row)
    worst = max(abs(values[i * shape[1] + k] - v)
                for i, row in enumerate(expected["features"]) for k, v in enumerate(row))
    check_that(f"{name}: features of version 0.1, off by {worst:g}", worst <= 1e-4 * size)
    for model in (name, f"{name}/best.safetensors"):
        answer = read_json(ole, "eval", model, data, "--json")
        if model == name:  # the file alone does not know which classes and samples to take
            check_that(f"{name}: samples", answer.get("n") == expected["samples"])
            check_that(f"{name}: error", abs(answer.get("error", 999) - expected["error"])
                       <= 100 * 2 / expected["samples"])
    check_that(f"{name}: exported", ole.run("export", name, "--onnx", "m.onnx").returncode == 0)
    check_that(f"{name}: reported", ole.run("report", name).returncode == 0
               and (work / name / "report.html").stat().st_size > 10000)
    check_resume(ole, work, name, expected["epochs"] + 1)


def check_resume(ole, work, name, epochs):
    metrics = work / name / "metrics.jsonl"
    before = [line for line in lines(metrics) if line["event"] == "epoch"]
    done = ole.run("train", "--resume", "--out", name, "--epochs", str(epochs))
    after = [line for line in lines(metrics) if line["event"] == "epoch"]
    check_that(f"{name}: resumed", done.returncode == 0 and after[:len(before)] == before
               and [line["epoch"] for line in after] == list(range(1, epochs + 1)))


def check_threshold(ole, work):
    (work / "z.pgm").write_bytes(b"P5 8 8 255\n" + bytes(i * 37 % 256 for i in range(64)))
    answer = read_json(ole, "predict", "threshold", "z.pgm", "--json")
    check_that("threshold: predict uses it", answer and answer[0].get("threshold_score") == "cosine"
               and 0 < answer[0]["threshold"] < 1)


def check_study(ole, work):
    """The same command finds every run done, and ends with the same choice."""
    before = json.loads((work / "study/results.json").read_text())
    done = ole.run("tune", "digits", "--net", "C4-MP-FC8", "--lambdas", "0,1/4", "--epochs", "1",
                   "--samples-per-class", "10", "--seeds", "1", "--threads", "1", "--out", "study")
    after = json.loads((work / "study/results.json").read_text())
    check_that(f"study: continued\n{done.stderr}", done.returncode == 0 and "run 1/" not in done.stderr)
    check_that("study: its results are those of before", before["points"] == after["points"])


def check_all(ole, work):
    for version in sorted(FROZEN.iterdir()):
        if not (version / "expected.json").exists():
            continue
        folder = work / version.name
        shutil.copytree(version, folder)
        ole.work = folder
        expected = json.loads((folder / "expected.json").read_text())
        for name, values in expected.items():
            if name == "threshold":
                check_threshold(ole, folder)
            check_run(ole, folder, name, values)
        check_resume(ole, folder, "interrupted", 4)
        check_study(ole, folder)


run.conduct(__doc__, check_all)
