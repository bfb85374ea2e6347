#!/usr/bin/env python3
"""outputs.py OLE FAULTS - what the program writes, and what it leaves alone: names that are taken,
links, files of others, limits on the size of files, memory that runs out, files that shrink.

FAULTS is the module tests/support/faults.c, or `none`: then what needs it is left out.
"""
import os
import resource
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import npyfile
import run
from run import check, check_that

SMALL = ("train", "digits", "--net", "C4-MP-FC8", "--samples-per-class", "12", "--batch-size", "32",
         "--threads", "1", "--epochs", "2", "--no-report",
         "--classes", "0,1,2,3,4,5,6", "--val-split", "20%")


def with_faults(ole, *args, **faults):
    """A run with the faults asked for; None where there is no module for them."""
    if sys.argv[2] == "none":
        return None
    environment = {**ole.environment, "LD_PRELOAD": os.path.abspath(sys.argv[2]),
                   **{f"FAULT_{name.upper()}": str(value) for name, value in faults.items()}}
    return subprocess.run([ole.path, *args], cwd=ole.work, env=environment, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120)


def prepared(ole, prepare, *args):
    """A run of which `prepare` is called in the new process, before the program."""
    return subprocess.run([ole.path, *args], cwd=ole.work, env=ole.environment, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120,
                          preexec_fn=prepare)


def write_arrays(work):
    (work / "F.npy").write_bytes(npyfile.array("<f4", (4000, 8), [i * i % 11 for i in range(32000)]))
    (work / "L.npy").write_bytes(npyfile.array("<i8", (4000,), [i % 5 for i in range(4000)]))


def check_temporary_names(ole, work):
    """A name beside the output that somebody has linked elsewhere is not written through."""
    (work / "precious").write_text("precious")
    linked = prepared(ole, lambda: os.symlink("precious", work / f"scores.csv.{os.getpid()}.part"),
                      "novelty", "m", "--known", "digits", "--novel", "digits", "--no-store",
                      "--scores", "scores.csv")
    check_that(f"scores: {linked.stderr}", linked.returncode == 0 and
               (work / "scores.csv").read_text().count("\n") > 100)
    check_that("nothing goes through a link", (work / "precious").read_text() == "precious")


def check_size_limit(ole, work):
    """A limit on the size of files is an error like a full disk, not the end of the process."""
    def limited(*args):
        return prepared(ole, lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096)), *args)

    (work / "G.npy").write_text("old")
    done = limited("score", "F.npy", "L.npy", "--grad", "G.npy")
    check_that(f"a gradient: {done}", done.returncode == 1 and done.stderr ==
               "ole score: G.npy: cannot write: File too large\n" and
               (work / "G.npy").read_text() == "old")
    done = limited(*SMALL, "--out", "limited")
    check_that(f"a run: {done}", done.returncode == 1 and "File too large" in done.stderr)


def check_cut_off(ole, work):
    """A file that another program cuts off while it is mapped."""
    for name, command in (("F.npy", ("score", "F.npy", "L.npy")),
                          ("F.npy", ("analyze", "F.npy", "L.npy", "--no-tsne"))):
        whole = (work / name).read_bytes()
        done = with_faults(ole, *command, truncate=f"/{name}")
        (work / name).write_bytes(whole)
        if done:
            check_that(f"{command[0]}, cut off: {done}", done.returncode == 1 and done.stderr.endswith(
                f"ole: {work.resolve()}/{name}: cut off by another program while it was read; run the "
                "command again when the file is whole\n"))


def check_memory(ole, work):
    """A page without memory for a part of it is an error, and the page before stays."""
    command = ("report", "m", "--no-tsne", "--threads", "1", "--out")
    counted = with_faults(ole, *command, "page.html", count=work / "count")
    if counted is None:
        return
    whole, count = (work / "page.html").read_text(), int((work / "count").read_text())
    check_that("there is something to fail", counted.returncode == 0 and count > 200)

    def fails(n):
        """What is wrong when allocation n fails; None: nothing."""
        page = work / f"page-{n}.html"
        page.write_text("earlier")
        done = with_faults(ole, *command, page.name, allocation=n)
        text = page.read_text()
        good = text == whole if done.returncode == 0 else (
            done.returncode == 1 and text == "earlier" and done.stderr.startswith("ole report: "))
        page.unlink()
        return None if good else f"allocation {n}: exit code {done.returncode}, {done.stderr}"

    with ThreadPoolExecutor(os.cpu_count()) as pool:  # the model is read first, then the page made
        problems = [problem for problem in pool.map(fails, range(count // 2, count + 1)) if problem]
    run.report("pages without memory", problems)


def check_all(ole, work):
    write_arrays(work)
    made = ole.run(*SMALL, "--out", "m")
    check_that(f"a run to look at: {made.stderr}", made.returncode == 0)
    check_temporary_names(ole, work)
    check_size_limit(ole, work)
    check_cut_off(ole, work)
    check_memory(ole, work)


if __name__ == "__main__":
    run.conduct(__doc__, check_all, arguments=2)
