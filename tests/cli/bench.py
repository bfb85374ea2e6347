#!/usr/bin/env python3
"""bench.py OLE - runs `ole bench`: its JSON, its text, the peer, and mistakes. No time is judged."""
import json
import os
import re
import shutil
import stat
import subprocess
from pathlib import Path

import launched
import run
from run import check, check_that, read_json

NET = ["bench", "--net", "C8-MP-FC8", "--input", "1x8x8", "--batch-size", "4", "--threads", "1",
       "--seconds", "0"]
KEYS = {"net", "device", "threads", "precision", "input", "classes", "batch_size", "steps", "step_ms", "processor_ms",
        "images_per_s", "ole_share", "loader_images_per_s", "peak_bytes", "plan_bytes", "unshared_bytes", "param_bytes", "peak_gflops", "stages",
        "kinds"}


def check_figures(ole):
    figures = read_json(ole, *NET, "--json") or {}
    check_that("ole bench --json has its keys", set(figures) == KEYS)
    check_that("what was measured", [figures.get(key) for key in ("input", "classes", "precision")] ==
               [[1, 8, 8], 10, "fp32"] and figures.get("steps", 0) >= 5)
    check_that("rates of what has one", "forward_gflops" in figures["kinds"]["conv"] and
               "forward_gflops" not in figures["kinds"]["norm"])
    stages = figures.get("stages", {})
    check_that("its stages", list(stages) == ["data", "forward", "softmax", "ole", "backward",
                                               "update"])
    check_that("its times are positive", figures.get("step_ms", 0) > 0 and figures.get("processor_ms", 0) > 0 and
               figures.get("loader_images_per_s", 0) > 0 and
               all(ms > 0 for ms in stages.values()))
    check_that("OLE's share of the step", abs(figures.get("ole_share", 0) * figures.get("step_ms", 0) -
                                              stages.get("ole", 0)) < 1e-6 * stages.get("ole", 0))
    check_that("memory is shared", figures.get("plan_bytes", 1) < figures.get("unshared_bytes", 0))
    alone = read_json(ole, *NET, "--softmax-only", "--json") or {}
    check_that("--softmax-only leaves OLE out", alone.get("stages", {}).get("ole") == 0 and
               alone.get("ole_share") == 0)
    for shape in ("7", "5x8x8"):
        net = [shape if a == "1x8x8" else "FC8" if a == "C8-MP-FC8" else a for a in NET]
        data = read_json(ole, *net, "--json") or {}
        waits = data.get("stages", {}).get("data", 0) > 0 and data.get("loader_images_per_s", 0) > 0
        check_that(f"the loader's stage for --input {shape}", waits == (shape == "7"))
    text = ole.run(*NET, "--device", "ref").stdout
    check_that("ole bench as text", text.startswith("C8-MP-FC8, 4 x 1x8x8, device ref, 1 thread\n")
               and "images/s" in text and "conv" in text)
    told = re.search(r"\nstep +([\d.]+) ms[^§]*\n  ole +([\d.]+) ms, ([\d.]+) % of the step\n", text)
    step, part, share = map(float, told.groups()) if told else (1, 1, 0)
    check_that("its text has OLE's share", (part - 5e-4) / (step + 5e-4) - 1e-3 < share / 100 <
               (part + 5e-4) / (step - 5e-4) + 1e-3)


def check_ranks(ole):
    """Alone, and by two processes where there is MPI; what is in the table follows from the net."""
    net = [*NET, "--ranks"]
    table = read_json(ole, *net, "--json") or {}
    check_that("ole bench --ranks alone", table.get("ranks") == 1 and table.get("hosts") == 1 and
               table.get("gradient_bytes") == 4 * (8 * 9 + 8 + 16 + 128 * 8 + 8 + 16 + 8 * 10 + 10)
               and table.get("norms") == 2 and len(table.get("scaling", [])) == 1)
    check_that("its text names mpirun", "mpirun -n 4 ole bench --ranks" in ole.run(*net).stdout)
    if not shutil.which("mpirun"):
        print("no mpirun: ole bench --ranks is tested alone")
        return
    several = launched.Launched(ole.path, ole.work)
    code, out, err = several.launch(2, " ".join([*net, "--json"]))
    if "without MPI" in err:
        print("built without MPI: ole bench --ranks is tested alone")
        return
    table = json.loads(out) if code == 0 else {}
    rows = [(row["ranks"], row["scaling"], row["batch_size"]) for row in table.get("scaling", [])]
    check_that(f"ole bench --ranks by two: {err}",
               rows == [(1, "weak", 4), (2, "strong", 4), (2, "weak", 8)])
    check_that("its times are positive", all(
        row["step_ms"] > 0 and row["apart_ms"] > 0 and row["efficiency"] > 0 and
        row["ole_share"] > 0 for row in table.get("scaling", [])) and
        all(one["ms"] > 0 for one in table.get("sums", [])))
    check_that("its sums", [one["bytes"] for one in table.get("sums", [])] ==
               [8 * 16 ** i for i in range(6)])
    code, _, err = several.launch(2, " ".join([*net, "--batch-size", "1"]))
    check_that(f"fewer images than ranks: {err}", code == 2 and
               err.count("give at least 1 image for each of 2 ranks") == 1)


def check_peer(ole, work):
    """A python3 of our own stands in for one with PyTorch: it must get the graph and be believed."""
    fake = work / "python"
    fake.write_text('#!/bin/sh\ngrep -q \'"op": "conv"\' && '
                    'echo \'{"library": "x 1", "modes": {"a": 9e9, "b": 8e9}, "processor_ms": {"a": 5, "b": 4}, '
                    '"peak_bytes": {"a": 7, "b": 6}}\'\n')
    fake.chmod(fake.stat().st_mode | stat.S_IXUSR)
    ole.environment["OLE_PYTHON"] = str(fake)
    figures = read_json(ole, *NET, "--peer", "torch", "--json") or {}
    check_that("--peer takes the fastest mode", figures.get("peer_ms") == 8e9)
    check_that("and tells of all", figures["peer"] == {"library": "x 1", "modes": {
        "a": {"step_ms": 9e9, "processor_ms": 5, "peak_bytes": 7},
        "b": {"step_ms": 8e9, "processor_ms": 4, "peak_bytes": 6}}})
    check_that("as text", re.search(r"\nx 1: 8000000000.00 ms at best, [\d.]+ times ours\n  a +9000000000.000 ms\n"
                                    r"  b +8000000000.000 ms\n$", ole.run(*NET, "--peer", "torch").stdout))
    fake.write_text("#!/bin/sh\necho nonsense\n")
    result = ole.run(*NET, "--peer", "torch")
    check_that("an answer without a time", result.returncode == 1 and result.stderr ==
               "ole bench: --peer torch: python3 printed no time: nonsense\n")
    ole.environment["OLE_PYTHON"] = str(work / "missing")
    result = ole.run(*NET, "--peer", "torch")
    check_that("--peer without python3 fails", result.returncode == 1 and
               "set OLE_PYTHON" in result.stderr)


def check_patience(ole, work):
    """Threads spin for a short time, unless the user chose; programs started from here have their own."""
    fake = work / "spy"
    fake.write_text('#!/bin/sh\ncat > graph; env > child; tr "\\0" "\\n" < /proc/$PPID/environ > parent\n'
                    'cat /proc/$PPID/comm > name\n'
                    'echo \'{"library": "x", "modes": {"a": 1}}\'\n')
    fake.chmod(fake.stat().st_mode | stat.S_IXUSR)
    for chosen in ({}, {"OMP_WAIT_POLICY": "active"}, {"GOMP_SPINCOUNT": "77"}, {"LD_PRELOAD": ""}):
        environment = {name: value for name, value in ole.environment.items() if name != "OMP_WAIT_POLICY"}
        result = subprocess.run([ole.path, *NET, "--peer", "torch"], cwd=work, text=True, capture_output=True,
                                env={**environment, "OLE_PYTHON": str(fake), **chosen})
        check_that(f"it is called as it was, {chosen}", (work / "name").read_text() == Path(ole.path).name[:15] + "\n")
        words = [set((work / name).read_text().split("\n")) for name in ("parent", "child")]
        check_that(f"threads' patience, {chosen}", result.returncode == 0 and
                   ("GOMP_SPINCOUNT=10000" in words[0]) == (not chosen and os.cpu_count() > 1) and
                   all(f"{name}={value}" in words[1] for name, value in chosen.items()) and
                   not any(word.startswith(("OLE_STARTED", "GOMP_SPINCOUNT=1")) for word in words[1]))


def check_mistakes(ole):
    for line, message in (
            ("--net Q", "net: column 1: 'Q' is not a token; known tokens: C, CO, MP, AP, FC, FCD, R, PR, B, "
             "PB, D, CR, BN, ReLU, ID"),
            ("--net FC8 --precision fp16", "precision 'fp16': expected one of fp32, tf32, bf16"),
            ("--net FC8 --conv x", "conv 'x': expected one of auto, direct"),
            ("--net FC8 --ranks --peer torch", "--peer cannot be combined with --ranks"),
            ("--net FC8 --bn local", "--bn and --ole-scope need --ranks"),
            ("--net FC8 --ranks --bn x", "bn 'x': expected one of sync, local"),
            ("--net FC8 --device x", "device x: choose auto, cpu, cuda, cuda:N or ref; 'ole info' shows what is "
             "available"),
            ("--input 3x3", "--input 3x3: channels x height x width expected, as in 3x32x32"),
            ("--threads 0", "--threads '0': expected a whole number from 1 to 1024")):
        check(ole, f"bench {line}", err=f"ole bench: {message}\n", code=2)


def check_all(ole, work):
    check_figures(ole)
    check_ranks(ole)
    check_peer(ole, work)
    check_patience(ole, work)
    check_mistakes(ole)


if __name__ == "__main__":
    run.conduct(__doc__, check_all)
