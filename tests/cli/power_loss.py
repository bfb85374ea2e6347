#!/usr/bin/env python3
"""power_loss.py OLE - after a power failure at any moment a run resumes to the same bits.

strace records what `ole train` writes. From that, this makes folders as a power failure may leave them: what was synced
is there; of the rest, each write to a file and each change of a name may be there or not, in any combination. A folder
whose checkpoint was once synced must resume; one without a checkpoint must start anew.
"""
import os
import random
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import run
from faults import RESUME, SKIPPED, TRAIN, World, can_trace
from run import check_that, report

STATES = 80
COMMAND = (*TRAIN, "4", "--save-every", "1", "--out", "new")
CALLS = "openat,write,pwrite64,ftruncate,fsync,rename,link,linkat,unlink,mkdir,close,lseek"


class File:
    def __init__(self):
        self.data = b""     # as synced
        self.pending = []   # writes since: (offset, bytes), or (size, None) for a truncation


class Disk:
    """The files of a folder: what is synced, and what waits."""

    def __init__(self):
        self.names = {}      # synced: name -> File; None for a folder
        self.pending = []    # changes of names since: (name that goes, name that comes, File)
        self.now = {}        # name -> File, as the program sees it
        self.open = {}       # descriptor -> [name, File, position, appends]

    def change(self, gone, come, file):
        self.pending.append((gone, come, file))
        if gone:
            self.now.pop(gone, None)
        if come:
            self.now[come] = file

    def crash(self, chance):
        """Name -> bytes, after a power failure."""
        names = dict(self.names)
        for gone, come, file in self.pending:
            if chance.random() < 0.5:
                continue
            if gone:
                names.pop(gone, None)
            if come:
                names[come] = file
        return {name: self.content(file, chance) for name, file in names.items()}

    @staticmethod
    def content(file, chance):
        data = bytearray(file.data)
        for offset, what in file.pending:
            if chance.random() < 0.5:
                continue
            if what is None:
                data[offset:] = b""
                data.extend(bytes(max(0, offset - len(data))))
            else:
                data.extend(bytes(max(0, offset - len(data))))
                data[offset:offset + len(what)] = what
        return bytes(data)


def size_of(file):
    size = len(file.data)
    for offset, what in file.pending:
        size = offset if what is None else max(size, offset + len(what))
    return size


def replay(log, folder):
    """Yields the disk after each call of the log; folder/ is dropped from names."""
    disk = Disk()

    def text(quoted):
        return bytes.fromhex(quoted.replace("\\x", "")).decode()

    def inside(name):
        name = name.removeprefix(folder + "/")
        return name if not name.startswith("/") and name.startswith("new") else None

    pid = None
    for line in log.read_text().splitlines():
        match = re.match(r"(\d+) +(\w+)\((.*)\) += (-?\w+)", line)
        if not match or (pid := pid or match[1]) != match[1] or match[4].startswith("-"):
            continue
        call, rest, result = match[2], match[3], match[4]
        words = re.findall(r'"((?:\\x..)*)"', rest)
        fd = re.match(r"\d+", rest)
        fd = fd and fd[0]
        if call == "openat" and (name := inside(text(words[0]))):
            if "O_TMPFILE" in rest:
                disk.open[result] = [None, File(), 0, False]
            elif "O_DIRECTORY" in rest:
                disk.open[result] = [name, None, 0, False]
            else:
                file = disk.now.get(name)
                if file is None:
                    file = File()
                    disk.change(None, name, file)
                if "O_TRUNC" in rest:
                    file.pending.append((0, None))
                disk.open[result] = [name, file, 0, "O_APPEND" in rest]
        elif call == "close":
            disk.open.pop(fd, None)
        elif fd in disk.open and call in ("write", "pwrite64", "ftruncate", "fsync", "lseek"):
            opened = disk.open[fd]
            name, file = opened[0], opened[1]
            if call == "lseek":
                opened[2] = int(result)
            elif call == "fsync" and file:
                chance = random.Random(0)
                chance.random = lambda: 1.0
                file.data, file.pending = Disk.content(file, chance), []
            elif call == "fsync":
                disk.names, disk.pending = dict(disk.now), []
            elif call == "ftruncate":
                file.pending.append((int(rest.split(",")[1]), None))
            else:
                data = bytes.fromhex(words[0].replace("\\x", ""))[:int(result)]
                at = size_of(file) if opened[3] else opened[2]
                if call == "pwrite64":
                    at = int(rest.split(",")[-1])
                else:
                    opened[2] = at + len(data)
                file.pending.append((at, data))
        elif call == "linkat":
            descriptor = text(words[0]).rpartition("/")[2]
            if descriptor in disk.open and (name := inside(text(words[1]))):
                disk.change(None, name, disk.open[descriptor][1])
        elif call == "link" and (name := inside(text(words[1]))):
            disk.change(None, name, disk.now[inside(text(words[0]))])
        elif call == "rename" and (name := inside(text(words[1]))):
            old = inside(text(words[0]))
            disk.change(old, name, disk.now[old])
        elif call == "unlink" and (name := inside(text(words[0]))):
            disk.change(name, None, None)
        else:
            continue
        yield disk


def check_all(ole, work):
    if not can_trace():
        print("strace is not installed or may not trace")
        sys.exit(SKIPPED)
    start = work / "start"
    start.mkdir()
    log = work / "log"
    done = subprocess.run(["strace", "-f", "-xx", "-s", "10000000", "-e", f"trace={CALLS}", "-o", str(log), ole.path,
                           *COMMAND], cwd=start, env=ole.environment, capture_output=True, text=True, timeout=120)
    check_that(f"a run to record: {done.stderr}", done.returncode == 0)
    whole = World.results(start, "train", (), "")
    moments = sum(1 for _ in replay(log, str(start)))
    last = None
    for last in replay(log, str(start)):
        pass
    for path in (start / "new").iterdir():  # the replay must know every byte, or it proves nothing
        file = last.now.get(f"new/{path.name}")
        chance = random.Random(0)
        chance.random = lambda: 1.0
        check_that(f"the replay knows {path.name}", file and Disk.content(file, chance) == path.read_bytes())
    chance = random.Random(1)
    wanted = sorted(chance.randrange(moments) for _ in range(STATES))
    states = []
    for moment, disk in enumerate(replay(log, str(start))):
        checkpoint = "new/last.safetensors" in disk.names
        states += [(moment, checkpoint, disk.crash(chance)) for _ in range(wanted.count(moment))]

    def try_state(state):
        moment, checkpoint, files = state
        with tempfile.TemporaryDirectory(dir=work) as folder:
            (Path(folder) / "new").mkdir()
            for name, data in files.items():
                (Path(folder) / name).write_bytes(data)
            if checkpoint:
                done = ole_run(ole, folder, RESUME)
            else:
                done = ole_run(ole, folder, COMMAND)
                if "continue it with --resume" in done.stderr:
                    done = ole_run(ole, folder, RESUME)
            what = f"after call {moment} of {moments}, with {sorted(files)}"
            if done.returncode != 0:
                return f"{what}: {done.stderr}"
            return None if World.results(folder, "train", (), "") == whole else f"{what}: other results"

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        report(f"{STATES} power failures", [problem for problem in pool.map(try_state, states) if problem])
    check_that("most of them had a checkpoint", sum(state[1] for state in states) > STATES / 2)


def ole_run(ole, folder, command):
    return subprocess.run([ole.path, *command], cwd=folder, env=ole.environment, capture_output=True, text=True,
                          timeout=120, check=False)


if __name__ == "__main__":
    run.conduct(__doc__, check_all)
