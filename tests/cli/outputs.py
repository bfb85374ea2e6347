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
SWEEP = ("sweep", "digits", "--net", "C4-MP-FC8", "--batch-size", "32", "--threads", "1", "--epochs", "1",
         "--samples", "4,8", "--seeds", "2")


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
                f"ole: {work.resolve()}/{name}: truncated by another program while it was being read; "
                "run the command again once the file is complete\n"))


RUN_FILES = ("config.yaml", "metrics.jsonl", "last.safetensors", "previous.safetensors",
             "best.safetensors", "report.html")
LINK = "a symbolic link, and nothing is written through links; remove it"


def check_links(ole, work):
    """No file of a run is written through a link, and no folder of one is entered by it."""
    (work / "precious").write_text("precious")
    for name in RUN_FILES:
        folder = work / f"linked-{name}"
        folder.mkdir()
        (folder / name).symlink_to("../precious")
        done = ole.run(*SMALL, "--out", folder.name)
        check_that(f"a link {name}: {done}", done.returncode in (1, 2) and
                   done.stderr.startswith(f"ole train: {folder.name}") and
                   (work / "precious").read_text() == "precious" and os.listdir(folder) == [name])
    for name in ("metrics.jsonl", "config.yaml", "last.safetensors"):  # a run that is there already
        subprocess.run(["cp", "-r", "m", "resumed"], cwd=work, check=True)
        (work / "resumed" / name).rename(work / "elsewhere")
        before = (work / "elsewhere").read_bytes()
        (work / "resumed" / name).symlink_to("../elsewhere")
        done = ole.run("train", "--resume", "--epochs", "3", "--out", "resumed")
        check_that(f"a link {name} of a run: {done}", done.returncode == 1 and
                   done.stderr == f"ole train: resumed/{name}: {LINK}, or choose another folder\n" and
                   (work / "elsewhere").read_bytes() == before)
        subprocess.run(["rm", "-r", "resumed", "elsewhere"], cwd=work, check=True)
    for command, name in (((*SMALL, "--seeds", "2"), "seed-0"), (SWEEP, "samples-4")):
        (work / "seeds").mkdir()
        (work / "other").mkdir()
        (work / "seeds" / name).symlink_to("../other")
        done = ole.run(*command, "--out", "seeds")
        check_that(f"a link to a folder: {done}", done.returncode == 1 and
                   f"seeds/{name}: {LINK}" in done.stderr and not os.listdir(work / "other"))
        subprocess.run(["rm", "-r", "seeds", "other"], cwd=work, check=True)
    (work / "m/report.html").symlink_to("../precious")
    check(ole, "report m --no-tsne", code=1, err=f"ole report: m/report.html: {LINK}\n")
    (work / "m/report.html").unlink()
    (work / "m/best.safetensors").rename(work / "elsewhere")
    (work / "m/best.safetensors").symlink_to("../elsewhere")
    before = (work / "elsewhere").read_bytes()
    done = ole.run("novelty", "m", "--known", "digits", "--novel", "digits")
    check_that(f"a threshold into a link: {done.stderr}", done.returncode == 1 and
               f"ole novelty: m/best.safetensors: {LINK}, or choose another folder\n" in done.stderr and
               (work / "elsewhere").read_bytes() == before)
    (work / "elsewhere").rename(work / "m/best.safetensors")
    (work / "figures").mkdir()
    (work / "figures/roc.svg").symlink_to("../precious")
    (work / "P.txt").write_text("".join(f"{i} {i + 5} 1\n{i} {i + 1} 0\n" for i in range(20)))
    check(ole, "verify F.npy --pairs P.txt --figures figures", code=1,
          err=f"ole verify: figures/roc.svg: {LINK}\n",
          out=ole.run("verify", "F.npy", "--pairs", "P.txt").stdout)
    check_that("nothing goes through a link", (work / "precious").read_text() == "precious")


def check_foreign(ole, work):
    """A file that is not ours is not replaced under a name that nobody gave."""
    def refused(command, path, *args):
        (work / path).parent.mkdir(exist_ok=True)
        (work / path).write_text("precious")
        done = ole.run(command, *args)
        check_that(f"{command}, {path}: {done}", done.returncode in (1, 2) and
                   done.stderr.startswith(f"ole {command}: {path}: ") and "; move it away" in done.stderr
                   and (work / path).read_text() == "precious" and done.stderr.count("\n") == 1)
        (work / path).unlink()

    for name in RUN_FILES[1:2] + RUN_FILES[4:]:
        refused("train", f"foreign/{name}", *SMALL[1:], "--out", "foreign")
    refused("train", "foreign/metrics.jsonl", *SMALL[1:], "--resume", "--out", "foreign")
    for name in ("results.json", "results.csv", "curve.svg", "report.html"):
        refused("sweep", f"foreign/{name}", *SWEEP[1:], "--out", "foreign")
    refused("demo", "foreign/report.html", "--seeds", "1", "--epochs", "1", "--out", "foreign")
    refused("demo", "foreign/F-ole.npy", "--seeds", "1", "--epochs", "1", "--out", "foreign")
    refused("demo", "ole-demo.html", "--seeds", "1", "--epochs", "1")
    refused("report", "m/report.html", "m", "--no-tsne")
    for _ in range(2):  # a page of ours is replaced
        made = ole.run("report", "m", "--no-tsne")
        check_that(f"our own page: {made.stderr}", made.returncode == 0)
    (work / "m/report.html").unlink()


def check_metrics(ole, work):
    """Before a run is resumed the lines of its metrics are those of its epochs."""
    lines = (work / "m/metrics.jsonl").read_text().splitlines(keepends=True)

    def resume(*changed):
        subprocess.run(["rm", "-rf", "again"], cwd=work, check=True)
        subprocess.run(["cp", "-r", "m", "again"], cwd=work, check=True)
        text = "".join(changed)
        (work / "again/metrics.jsonl").write_text(text)
        done = ole.run("train", "--resume", "--epochs", "3", "--no-report", "--out", "again")
        return done, (work / "again/metrics.jsonl").read_text(), text

    def refused(message, *changed):
        done, after, before = resume(*changed)
        check_that(f"{message}: {done}", done.returncode == 1 and after == before and done.stderr ==
                   f"ole train: again/metrics.jsonl{message}: it has been changed since; restore it, "
                   "or start another run\n")

    length = len(lines[0])
    for first in ("#" * (length - 1) + "\n", "{}".ljust(length - 1) + "\n", lines[0].replace(
            '"epoch": 1', '"epoch": 2'), lines[0].replace('"epoch",', '"other",')):
        refused(", line 1: not the line of epoch 1", first, *lines[1:])
    refused(", line 2: not the line of epoch 2", lines[0], lines[1][:-2] + "#\n", *lines[2:])
    refused(": shorter than when the checkpoint was saved", lines[0])
    for tail in ("", "".join(lines[2:]), lines[2][:20]):  # as after an end, or a kill
        done, after, _ = resume(*lines[:2], tail)
        check_that(f"an end: {done}", done.returncode == 0 and "warning" not in done.stderr and
                   after.startswith("".join(lines[:2])) and after.count('"event": "epoch"') == 3 and
                   after.count("\n") == 4)
    done, after, _ = resume(*lines[:2], "my notes\n")
    check_that(f"a foreign tail: {done}", done.returncode == 0 and "my notes" not in after and
               "warning: again/metrics.jsonl: removed lines after the last checkpoint, which belong to "
               "no run\n" in done.stderr)


def check_backup(ole, work):
    """A backup of hard links (cp -al) keeps every byte when the run goes on."""
    subprocess.run(["cp", "-al", "m", "backup"], cwd=work, check=True)
    before = {path.name: path.read_bytes() for path in (work / "backup").iterdir()}
    done = ole.run("train", "--resume", "--epochs", "3", "--no-report", "--out", "m")
    after = {path.name: path.read_bytes() for path in (work / "backup").iterdir()}
    check_that(f"the backup is as it was: {done.stderr}", done.returncode == 0 and after == before)
    check_that("the run went on", (work / "m/metrics.jsonl").read_text().count('"event": "epoch"') == 3)
    subprocess.run(["rm", "-rf", "m"], cwd=work, check=True)
    subprocess.run(["mv", "backup", "m"], cwd=work, check=True)


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
    check_links(ole, work)
    check_foreign(ole, work)
    check_metrics(ole, work)
    check_backup(ole, work)
    check_memory(ole, work)


if __name__ == "__main__":
    run.conduct(__doc__, check_all, arguments=2)
