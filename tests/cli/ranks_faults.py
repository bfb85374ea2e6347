#!/usr/bin/env python3
"""ranks_faults.py OLE - `mpirun -n 3 ole train` and what can happen to it: each rank and the
launcher killed, a rank stopped, a full disk, ranks that were not started alike, Ctrl-C.

Each time all ranks end within 30 s, those that can say why do, and the last checkpoint is taken up
by one process alone.  Says so and returns 77 where nothing can be launched.
"""
import os
import re
import shutil
import signal
import subprocess
import time

import launched
import npyfile
from run import check_that

SILENCE = 3  # seconds
RANKS = 3
NET = "--net C4-MP-FC8 --batch-size 32 --threads 1 --no-report"
LONG = f"train digits {NET} --epochs 100000"


def start_training(ole, out, line=LONG, **environment):
    """A launch that has saved its first checkpoint, and its processes."""
    process = ole.start(RANKS, f"{line} --out {out}", OLE_RANK_SILENCE=str(SILENCE), **environment)
    saved = ole.work / out / "last.safetensors"
    check_that(f"{out}: a checkpoint is there", launched.wait_for(
        lambda: saved.exists() or process.poll() is not None) and saved.exists())
    pids = launched.ranks_of(process)
    check_that(f"{out}: {RANKS} ranks are running", sorted(pids) == list(range(RANKS)))
    return process, pids


def check_end(name, process, pids, began):
    """All have ended in time; what they printed."""
    try:
        _, err = process.communicate(timeout=40)
    except subprocess.TimeoutExpired:
        process.kill()
        _, err = process.communicate()
    gone = launched.wait_for(lambda: not any(map(launched.is_running, pids.values())), 30)
    check_that(f"{name}: all end within 30 s", gone and time.monotonic() - began < 30)
    check_that(f"{name}: exit code {process.returncode}", process.returncode != 0)
    return launched.said(err)


def check_said(name, text, sentence, times, least=None):
    """`sentence` is there `times` times, or at least `least` times."""
    said = re.findall(sentence, text)
    check_that(f"{name}: said {len(said)} times instead of {times}: {sentence}\n{text}",
               (times if least is None else least) <= len(said) <= times)


def check_goes_on(ole, out):
    """The last checkpoint loads, and one process alone goes on from it for an epoch."""
    loaded = ole.run("eval", f"{out}/last.safetensors", "digits", "--json")
    check_that(f"{out}: the last checkpoint loads: {loaded.stderr}", loaded.returncode == 0)
    before = len((ole.work / out / "metrics.jsonl").read_text().splitlines())
    process = subprocess.Popen([ole.path, "train", "--resume", "--out", out, "--no-report"],
                               cwd=ole.work, env=ole.environment, stderr=subprocess.PIPE,
                               stdout=subprocess.PIPE, text=True)
    metrics = ole.work / out / "metrics.jsonl"
    launched.wait_for(lambda: len(metrics.read_text().splitlines()) > before + 1 or
                      process.poll() is not None, 30)
    process.terminate()
    _, err = process.communicate(timeout=30)
    check_that(f"{out}: one process goes on: {err}", process.returncode == 130)


def log_of(ole, out):
    path = ole.work / out / "lost.log"
    return path.read_text() if path.exists() else ""


# ---- Lost ranks ---------------------------------------------------------------------------------

def check_killed(ole):
    for rank in range(RANKS):
        out = f"killed-{rank}"
        process, pids = start_training(ole, out)
        began = time.monotonic()
        os.kill(pids[rank], signal.SIGKILL)
        err = check_end(out, process, pids, began)
        sentence = rf"rank {rank} \(\S+, pid {pids[rank]}\) was killed or ended"
        least = 1 if ole.launcher_is_hasty else RANKS - 1
        check_said(out, err, rf"ole train: {sentence}; everything saved in {out} is intact\n",
                   RANKS - 1, least)
        check_said(out, log_of(ole, out), sentence, RANKS - 1, least)
        check_goes_on(ole, out)


def check_stopped(ole):
    for rank in (0, 1):
        out = f"stopped-{rank}"
        process, pids = start_training(ole, out)
        began = time.monotonic()
        os.kill(pids[rank], signal.SIGSTOP)
        err = check_end(out, process, pids, began)
        sentence = (rf"ole train: rank {rank} \(\S+, pid {pids[rank]}\) has not answered for "
                    rf"{SILENCE} s: stopped, or cut off; everything saved in {out} is intact\n")
        check_that(f"{out}: the others say it: {err}",
                   len(re.findall(sentence, err)) in (RANKS - 1, RANKS))
        check_goes_on(ole, out)


def check_launcher(ole):
    """Nobody reads what ranks print then, but lost.log is there."""
    process, pids = start_training(ole, "orphans")
    (ole.work / "kept.log").write_text("before\n")
    (ole.work / "orphans/lost.log").hardlink_to(ole.work / "kept.log")
    began = time.monotonic()
    process.kill()
    check_end("orphans", process, pids, began)
    check_said("orphans", log_of(ole, "orphans"),
               rf"rank \d \(pid \d+\): the launcher \(\S+ on \S+, pid {process.pid}\) ended",
               RANKS)
    check_that("orphans: another name of the log keeps its bytes",
               (ole.work / "kept.log").read_text() == "before\n" and
               log_of(ole, "orphans").startswith("before\n"))
    check_goes_on(ole, "orphans")


# ---- Errors of one rank -------------------------------------------------------------------------

def mount_small(folder):
    """A file system of 400 kB, where that is allowed."""
    folder.mkdir()
    return os.geteuid() == 0 and shutil.which("mount") and subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=400k", "none", str(folder)],
        stderr=subprocess.DEVNULL, check=False).returncode == 0


def check_full_disk(ole):
    folder = ole.work / "small"
    if not mount_small(folder):
        print("no file system can be mounted: a full disk is not tested")
        return
    try:
        process, pids = start_training(ole, "small/run")
        began = time.monotonic()
        (folder / "fill").write_bytes(bytes(16))
        subprocess.run(["dd", "if=/dev/zero", f"of={folder}/fill", "bs=4k"], check=False,
                       stderr=subprocess.DEVNULL)
        err = check_end("full disk", process, pids, began)
        check_that(f"full disk: {err}", re.search(
            r"ole train: (rank 0 \(\S+\): )?\S*small/run\S*: .*No space left on device", err))
        (folder / "fill").unlink()
        check_goes_on(ole, "small/run")
    finally:
        subprocess.run(["umount", str(folder)], check=False)


def write_vectors(folder, values):
    """As many random vectors of two classes, in folder/x.npy and y.npy."""
    folder.mkdir()
    numbers = [(i * i * 31 + values) % 97 / 97 for i in range(40 * 4)]
    (folder / "x.npy").write_bytes(npyfile.array("<f4", (40, 4), numbers))
    (folder / "y.npy").write_bytes(npyfile.array("<i4", (40,), [i % 2 for i in range(40)]))


def check_different(ole):
    def refused(name, first, second, sentence, folders=None):
        began = time.monotonic()
        folders = folders or (ole.work, ole.work)
        for _ in range(3 if ole.launcher_is_hasty else 1):  # Open MPI 5 may lose the last words of ranks
            code, _, err = ole.launch(list(zip((first, second), folders)),
                                      OLE_RANK_SILENCE=str(SILENCE))
            if err:
                break
        check_that(f"{name}: {code} {err}", code in (1, 2) and re.search(sentence, err))
        check_that(f"{name} ends within 30 s", time.monotonic() - began < 30)

    few = f"train digits {NET} --samples-per-class 12 --epochs 2 --out other"
    refused("another option", few, f"{few} --lr 0.2",
            r"rank 1 \(\S+\): lr is '0.2' here and '0.1' on rank 0")
    refused("another net", few, few.replace("C4", "C8"), r"rank 1 \(\S+\): net is 'C8-MP-FC8' here")
    refused("another command", few, "sweep digits --net C4 --samples 4 --lambdas 0 --out other",
            r"rank 1 \(\S+, pid \d+\) runs 'sweep', rank 0 'train'; start all ranks with the same command")
    (ole.work / "recipe.yaml").write_text("epochs: 2\nlambda: 0.5\n")
    refused("another recipe", few, f"{few} -c recipe.yaml", r"rank 1 \(\S+\): lambda is '0.5' here")
    folders = ole.work / "here", ole.work / "there"
    for i, folder in enumerate(folders):
        write_vectors(folder, i)
    line = f"train npy:x.npy,y.npy --net FC4 --epochs 2 --threads 1 --no-report --out {ole.work}/other"
    refused("other data under the same name", line, line, r"rank 1 \(\S+\): \S.* on rank 0", folders)


# ---- Stopping -----------------------------------------------------------------------------------

def check_interrupt(ole):
    """Ctrl-C reaches mpirun, which passes it on; SIGUSR1 too, as batch systems send it."""
    for number in (signal.SIGINT, signal.SIGUSR1):
        out = f"interrupted-{number}"
        process, pids = start_training(ole, out)
        began = time.monotonic()
        process.send_signal(number)
        err = check_end(out, process, pids, began)
        if number == signal.SIGUSR1 or launched.open_mpi() < 5:  # which kills half a second later, and forwards nothing
            check_said(out, err, r"ole train: stopped after epoch \d+, step \d+ and saved; "
                       rf"to resume: ole train --resume --out {out}\n", 1)
        check_goes_on(ole, out)


def check_all(ole, _):
    check_killed(ole)
    check_stopped(ole)
    check_launcher(ole)
    check_full_disk(ole)
    check_different(ole)
    check_interrupt(ole)


if __name__ == "__main__":
    launched.conduct(__doc__, "faults of ranks are", check_all)
