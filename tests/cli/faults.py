#!/usr/bin/env python3
"""faults.py OLE FAULTS - nothing is lost when a system call fails, memory runs out, or the process is killed.

In turn, each of many calls of a command fails, once or from then on: the nth write, fsync, rename and so on with
strace, the nth allocation with the module FAULTS (tests/support/faults.c). The command may still succeed; otherwise it
ends with exit code 1 (2 where it cannot read its options) and one line that says why. Files that were there stay whole,
and a run that was hit resumes to the same bits as one that was not. So does a run that is killed fifty times.
"""
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import npyfile
import run
from run import check_that, report

SKIPPED = 77
MOST = 3  # of the calls of one kind: the first, the last, and some between
MEMORY = 16  # of the allocations of one command, once and from then on
KILLS = 50

TRAIN = ("train", "digits", "--net", "C4-MP-FC8", "--samples-per-class", "12", "--batch-size", "32", "--threads", "1",
         "--no-report", "--val-split", "20%", "--epochs")
# Each command, and the files it writes.
COMMANDS = {
    "train": ((*TRAIN, "3", "--save-every", "1", "--out", "new"), ()),
    "resume": (("train", "--resume", "--no-report", "--epochs", "3", "--out", "begun"), ()),
    "score": (("score", "F.npy", "L.npy", "--json"), ()),
    "analyze": (("analyze", "F.npy", "L.npy", "--threads", "1", "--out", "out.html"), ("out.html",)),
    "eval": (("eval", "begun", "--out", "out.csv"), ("out.csv",)),
    "predict": (("predict", "begun", "--json"), ()),
    "fit": (("fit", "F.npy", "L.npy", "--lambda", "0.25", "--weight-decay", "0.01", "--score", "energy", "--threads",
             "1", "--out", "out.safetensors"), ("out.safetensors",)),
    "novelty": (("novelty", "begun", "--json", "--threads", "1"), ("begun/best.safetensors",)),
    "report": (("report", "begun", "--no-tsne", "--threads", "1", "--out", "out.html"), ("out.html",)),
    "export": (("export", "begun", "--hub", "hub"), ()),
    "sweep": (("sweep", "digits", "--net", "FC4", "--threads", "1", "--epochs", "1", "--samples", "4", "--lambdas",
               "0,0.25", "--out", "grid"), ()),
}
AGAIN = ("train", "resume", "export", "sweep")  # what works in a folder: the next try finds what the last one left
RESUME = ("train", "--resume", "--no-report", "--out", "new")
ERRORS = {"write": "ENOSPC", "fsync": "EIO", "rename": "EIO", "link": "ENOSPC", "linkat": "ENOSPC", "openat": "EMFILE",
          "read": "EIO", "ftruncate": "EIO", "mkdir": "ENOSPC"}


def spread(count, most):
    """Up to `most` of the numbers from 1 to count, both ends among them."""
    if count <= most:
        return range(1, count + 1)
    return sorted({1 + round(i * (count - 1) / (most - 1)) for i in range(most)})


class World:
    """A folder with what the commands read, to copy for each try."""

    def __init__(self, ole, work):
        self.ole, self.work = ole, work
        self.start = work / "start"
        self.start.mkdir()
        (self.start / "F.npy").write_bytes(npyfile.array("<f4", (60, 4), [i * i % 11 for i in range(240)]))
        (self.start / "L.npy").write_bytes(npyfile.array("<i8", (60,), [i % 3 for i in range(60)]))
        for name in ("out.html", "out.csv", "out.safetensors"):
            (self.start / name).write_text("earlier")
        made = self.run(self.start, (*TRAIN, "1", "--out", "begun"))
        check_that(f"a run to start from: {made.stderr}", made.returncode == 0)
        # What undisturbed commands leave.
        self.whole = {}
        for name, (command, files) in COMMANDS.items():
            with self.copy() as folder:
                done = self.run(folder, command)
                check_that(f"{name}: {done.stderr}", done.returncode == 0)
                self.whole[name] = self.results(folder, name, files, done.stdout)

    def copy(self):
        folder = tempfile.TemporaryDirectory(dir=self.work)
        shutil.copytree(self.start, folder.name, dirs_exist_ok=True)
        return folder

    def run(self, folder, command, before=(), **environment):
        return subprocess.run([*before, self.ole.path, *command], cwd=folder, text=True, timeout=120,
                              env={**self.ole.environment, **environment}, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE)

    @staticmethod
    def results(folder, name, files, printed):
        """What must come out the same: weights, numbers of the epochs, pages, or what is printed."""
        made = Path(folder) / {"train": "new", "resume": "begun", "export": "hub", "sweep": "grid"}.get(name, "")
        if name == "export":
            return {file.name: file.read_bytes() for file in made.iterdir()}
        if name not in AGAIN:
            return printed if not files else [(Path(folder) / file).read_bytes() for file in files]
        # A checkpoint holds times too; the best model does not.
        return [(str(metrics.relative_to(made)), World.numbers(metrics), *(
            model.read_bytes() for model in metrics.parent.glob("best.safetensors")))
            for metrics in sorted(made.rglob("metrics.jsonl"))]

    @staticmethod
    def numbers(metrics):
        return [{key: value for key, value in json.loads(line).items()
                 if key.endswith(("loss", "error", "lr", "epoch"))} for line in metrics.read_text().splitlines()]

    def judge(self, folder, name, mute, done):
        """What is wrong after a disturbed command, which could print nothing if mute; None: nothing."""
        _, files = COMMANDS[name]
        if done.returncode == 0:
            same = self.results(folder, name, files, done.stdout) == self.whole[name]
            # A run whose model cannot be read still has a page, and one without memory for a threshold a model.
            same = same or "without its model" in done.stderr or "without a threshold" in done.stderr
            return None if same else "it succeeds with other results"
        lines = [line for line in done.stderr.splitlines() if not line.startswith("warning: ")]
        said = mute or (lines and lines[-1].startswith("ole"))
        if done.returncode not in (1, 2) or not said:
            return f"exit code {done.returncode}, {done.stderr!r}"
        if any((Path(folder) / file).read_bytes() not in ((self.start / file).read_bytes(), whole)
               for file, whole in zip(files, self.whole[name])):
            return "an output is neither the earlier one nor the new one"
        return self.resume(folder, name)

    def resume(self, folder, name):
        """A run that was hit goes on, or starts anew where it had not begun, to the same results."""
        if name not in AGAIN:
            return None
        done = self.run(folder, COMMANDS[name][0])
        if "continue it with --resume" in done.stderr:
            done = self.run(folder, RESUME)
        if done.returncode != 0:
            return f"it cannot go on: {done.stderr!r}"
        same = self.results(folder, name, (), done.stdout) == self.whole[name]
        return None if same else "it goes on to other results"


def try_all(world, what, tries):
    """tries: pairs of a name and a function of a folder that returns (command's name, whether it is mute, its run)."""
    def one(item):
        name, disturb = item
        with world.copy() as folder:
            problem = world.judge(folder, *disturb(folder))
            return f"{name}: {problem}" if problem else None

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        report(f"{what}, {len(tries)} of them", [problem for problem in pool.map(one, tries) if problem])


# ---- System calls -------------------------------------------------------------------------------

def is_in(folder, kind, arguments):
    """Whether a call of strace's log is for a file in the folder, the current one."""
    if kind in ("read", "write", "fsync", "ftruncate"):
        return f"<{folder}/" in arguments.split(",")[0]
    names = re.findall(r'"([^"]*)"', arguments)
    return any(not name.startswith("/") or name.startswith(folder) for name in names)


def calls_of(world, command):
    """For each kind of call, which of them (from 1) are for files in the folder."""
    with world.copy() as folder:
        log = world.work / f"{Path(folder).name}.trace"
        world.run(folder, command, ("strace", "-f", "-y", "-o", str(log), "-e", "trace=" + ",".join(ERRORS)))
        counts, found = {}, {}
        lines = log.read_text(errors="replace").splitlines()
        for line in lines:
            match = re.match(r"(\d+) +(\w+)\((.*)", line)
            if not match or match[1] != lines[0].split()[0]:  # strace counts per thread; files are the first one's
                continue
            kind, rest = match[2], match[3]
            counts[kind] = counts.get(kind, 0) + 1
            if is_in(folder, kind, rest):
                found.setdefault(kind, []).append(counts[kind])
        return found


def check_calls(world):
    tries = []
    for name, (command, _) in COMMANDS.items():
        for kind, numbers in sorted(calls_of(world, command).items()):
            for i in spread(len(numbers), MOST):
                for end in ("", "+"):  # once, and from then on
                    inject = f"inject={kind}:error={ERRORS[kind]}:when={numbers[i - 1]}{end}"
                    mute = kind == "write" and end == "+"  # a program that may write no more cannot say why

                    def disturb(folder, name=name, command=command, inject=inject, mute=mute):
                        return name, mute, world.run(folder, command, ("strace", "-f", "-o", "/dev/null", "-e", inject))
                    tries.append((f"{name}, {inject}", disturb))
    check_that(f"there are calls to disturb: {len(tries)}", len(tries) > 80)
    try_all(world, "failing system calls", tries)


# ---- Memory -------------------------------------------------------------------------------------

def check_memory(world, module):
    tries = []
    preload = {"LD_PRELOAD": os.path.abspath(module)}
    for name, (command, _) in COMMANDS.items():
        with world.copy() as folder:
            count = Path(folder) / "count"
            world.run(folder, command, FAULT_COUNT=str(count), **preload)
            most = int(count.read_text())
        for n in [f"{n}{end}" for n in spread(most, MEMORY) for end in ("", "+")]:
            def disturb(folder, name=name, command=command, n=n):
                return name, False, world.run(folder, command, FAULT_ALLOCATION=n, **preload)
            tries.append((f"{name}, allocation {n} of {most}", disturb))
    try_all(world, "failing allocations", tries)


# ---- Kills --------------------------------------------------------------------------------------

def check_kills(world):
    """A run that is killed at random times, resumed each time."""
    chance = random.Random(1)
    command = (*TRAIN, "400", "--save-every", "1", "--out", "new")
    with world.copy() as folder:
        start = time.monotonic()
        done = world.run(folder, command)
        whole, seconds = world.results(folder, "train", (), done.stdout), time.monotonic() - start
    with world.copy() as folder:
        kills = resumed = 0
        while kills <= KILLS:
            resumes = (Path(folder) / "new/config.yaml").exists()
            resumed += resumes
            process = subprocess.Popen([world.ole.path, *(RESUME if resumes else command)], cwd=folder,
                                       env=world.ole.environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
            try:  # after the last kill it may end
                _, said = process.communicate(timeout=chance.uniform(0.05, 0.15 + seconds / KILLS)
                                              if kills < KILLS else 120)
                check_that(f"after {kills} kills the run goes on: {said[-300:]}", process.returncode == 0)
                check_that(f"after {kills} kills the same bits", world.results(folder, "train", (), "") == whole)
                if kills == KILLS or process.returncode != 0:
                    break
                shutil.rmtree(Path(folder) / "new")
            except subprocess.TimeoutExpired:
                process.kill()
                process.communicate()
                kills += 1
        check_that(f"{kills} kills, {resumed} times resumed", kills == KILLS and resumed > KILLS / 2)


def can_trace():
    try:
        return subprocess.run(["strace", "-o", "/dev/null", "-e", "inject=mkdir:error=EIO", "true"],
                              stderr=subprocess.DEVNULL, check=False).returncode == 0
    except OSError:
        return False


def check_all(ole, work):
    world = World(ole, work)
    if can_trace():
        check_calls(world)
    else:
        print("strace is not installed or may not trace: system calls are not disturbed")
    check_memory(world, sys.argv[2])
    check_kills(world)
    if not can_trace() and not run.failed:
        sys.exit(SKIPPED)


if __name__ == "__main__":
    run.conduct(__doc__, check_all, arguments=2)
