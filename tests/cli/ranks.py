#!/usr/bin/env python3
"""ranks.py OLE RANKS_MPI - groups over MPI: the checks of tests/support/ranks_checks.c with 1 to 4
processes, what happens when one of them is lost, and which process of a launch prints.

RANKS_MPI is the program of tests/support/ranks_mpi.c.  Says so and returns 77 where nothing can be
launched.
"""
import os
import re
import signal
import subprocess
import sys
import time

import launched
from run import check_that

SILENCE = 3  # seconds
PATIENCE = 12  # the same where ranks must not be lost, however busy the machine is


def check_groups(ole, program):
    seen = {}
    for ranks in (1, 2, 3, 4, 3):
        code, out, err = ole.launch(ranks, "check", program)
        match = re.fullmatch(r"(\d) ranks, (\d) on this host, 0 wrong, bits ([0-9a-f]{16})\n", out)
        check_that(f"{ranks} ranks: {code} {out}{err}", code == 0 and match and
                   match[1] == match[2] == str(ranks))
        check_that(f"{ranks} ranks leave nothing behind", "src/ranks/" not in err)
        bits = match and match[3]
        check_that(f"{ranks} ranks, the same bits again", seen.setdefault(ranks, bits) == bits)


def start_waiting(ole, program, line, ranks=3, silence=SILENCE):
    """A launch whose ranks wait for each other, and their processes."""
    process = ole.start(ranks, line, program, OLE_RANK_SILENCE=str(silence))
    pids = {}
    while len(pids) < ranks:
        words = process.stdout.readline().split()
        if len(words) != 4:
            break
        pids[int(words[1])] = int(words[3])
    check_that(f"{ranks} ranks wait", len(pids) == ranks)
    return process, pids


def check_end(name, process, pids, began, sentence, silent=()):
    """All ranks but those that cannot speak say the sentence, and all end in time."""
    _, err = process.communicate(timeout=60)
    gone = launched.wait_for(lambda: not any(map(launched.is_running, pids.values())), 30)
    check_that(f"{name}: all end within 30 s", gone and time.monotonic() - began < 30)
    check_that(f"{name}: exit code {process.returncode}", process.returncode != 0)
    for rank in pids:
        if rank not in silent:
            check_that(f"{name}: rank {rank} says '{sentence}', not {err}",
                       re.search(rf"^rank {rank} lost: {sentence}$", err, re.M))


def check_lost(ole, program):
    for rank in range(3):
        process, pids = start_waiting(ole, program, "sleep")
        began = time.monotonic()
        os.kill(pids[rank], signal.SIGKILL)
        check_end(f"kill {rank}", process, pids, began,
                  rf"rank {rank} \(\S+, pid {pids[rank]}\) was killed or ended", silent=[rank])
    for rank in (0, 2):
        process, pids = start_waiting(ole, program, "sleep")
        began = time.monotonic()
        os.kill(pids[rank], signal.SIGSTOP)
        check_end(f"stop {rank}", process, pids, began,
                  rf"rank {rank} \(\S+, pid {pids[rank]}\) has not answered for {SILENCE} s: "
                  r"stopped, or cut off", silent=[rank])
    for rank in (0, 2):
        process, pids = start_waiting(ole, program, f"sleep {rank}")
        check_end(f"fail {rank}", process, pids, time.monotonic(),
                  rf"rank {rank} \(\S+\): no more bananas", silent=[rank])


def check_start(ole, program):
    """A rank that ends or stops before all have come is not waited for; those that are there name it."""
    def absent(how, rank, sentence, witnesses, **environment):
        began = time.monotonic()
        process = ole.start(3, f"{how} {rank}", program, **environment)
        try:
            _, err = process.communicate(timeout=90)
        except subprocess.TimeoutExpired:
            process.kill()
            _, err = process.communicate()
        check_that(f"{how} {rank}: ends in bounded time", time.monotonic() - began < 80)
        check_that(f"{how} {rank}: exit code {process.returncode}", process.returncode != 0)
        told = re.findall(rf"^rank (\d) lost: {sentence}$", launched.said(err), re.M)
        check_that(f"{how} {rank}: told by one of {witnesses}: {err}", told and set(told) <= set(witnesses))

    late = r"3 ranks have not all started after 8 s \(OLE_RANK_START\): rank {} has not started, or has ended"
    for how in ("leave", "stop"):
        absent(how, 1, late.format(1), "02", OLE_RANK_START="8")
    absent("leave", 0, late.format(0), "12", OLE_RANK_START="8")
    absent("freeze", 1, r"rank 1 \(pid \d+\) was stopped before all ranks had started", "0", OLE_RANK_SILENCE="2",
           OLE_RANK_START="60")
    code, _, err = ole.launch(3, "check", program, OLE_RANK_START="60")
    check_that(f"ranks that come are none of these: {err}", code == 0)


def check_launcher(ole, program):
    """Nobody reads what ranks print then: that they end is what can be seen."""
    process, pids = start_waiting(ole, program, "sleep")
    process.kill()
    process.communicate(timeout=60)
    check_that("all end when the launcher has", launched.wait_for(
        lambda: not any(map(launched.is_running, pids.values())), 20))


def check_pause(ole, program):
    """A rank that is stopped for less than the silence goes on, and so do the others."""
    process, pids = start_waiting(ole, program, "sleep", silence=PATIENCE)
    for rank in (2, 0):
        os.kill(pids[rank], signal.SIGSTOP)
        time.sleep(PATIENCE / 6)
        os.kill(pids[rank], signal.SIGCONT)
        time.sleep(PATIENCE / 6)
    check_that("a pause is no loss", process.poll() is None and
               all(map(launched.is_running, pids.values())))
    process.kill()
    process.communicate(timeout=60)
    launched.wait_for(lambda: not any(map(launched.is_running, pids.values())), 20)


def check_different(ole, program):
    code, _, err = ole.launch([("check", ole.work), ("sleep", ole.work)], program=program)
    check_that(f"different tasks: {err}", code != 0 and re.search(
        r"rank 1 \(\S+, pid \d+\) runs 'sleep', rank 0 'check'; start all ranks with the same command", err))


def check_printing(ole):
    code, out, _ = ole.launch(3, "info")
    check_that("info is printed once", code == 0 and out.count("MPI library") == 1)
    check_that("info names the MPI", re.search(r"MPI library +Open MPI v\d", out))
    code, out, _ = ole.launch(2, "--version")
    check_that("the version is printed once", code == 0 and out.count("ole ") == 1)
    code, out, _ = ole.launch(2, "train --help")
    check_that("help is printed once", code == 0 and out.count("Usage") <= 1 and
               out.count("--batch-size") == ole.run("train", "--help").stdout.count("--batch-size"))
    code, _, err = ole.launch(2, "train digits --net C4 --out never", OLE_MPI_MODULE="/no/module.so")
    check_that(f"a missing module: {err}", code == 1 and
               "ole train: MPI: /no/module.so is missing: this build is without MPI; build with "
               "MPI installed" in err)


def check_mistakes(ole):
    """What all ranks have wrong is printed once, what some have by each of them."""
    good = "train digits --net C4 --epochs 1 --out never"
    unknown = "unknown option --bad; 'ole train --help' lists them"
    expected = {
        f"{good} --bad": f"ole train: {unknown}",
        f"{good} --lr abc": "ole train: --lr 'abc': expected a number above 0",
        f"{good} --loss foo": "ole train: --loss 'foo': expected some of softmax, ole, center, contrastive, "
        "triplet, l-softmax, a-softmax, cosface, arcface, supcon, mcr2, opl, ssole, logit-norm, ole-unit with '+' between",
        "bench --net C4 --input x": "ole bench: --input x: channels x height x width expected, as in 3x32x32",
        "trian": "ole: unknown command 'trian'; did you mean 'train'?",
    }

    def own_lines(err):  # without the leaks of MPI that a sanitized build lists
        return [line for line in err.splitlines() if line.startswith(("ole ", "ole:"))]

    for line, sentence in expected.items():
        code, _, err = ole.launch(3, line)
        check_that(f"{line}: once, and code {code}: {err}", own_lines(err) == [sentence] and code == 2)

    def mixed(lines, sentences):
        began = time.monotonic()
        code, _, err = ole.launch([(line, ole.work) for line in lines])
        check_that(f"{lines}: {code} {err}", code in (1, 2) and sorted(own_lines(err)) == sorted(sentences))
        check_that(f"{lines}: ends", time.monotonic() - began < 60)

    mixed([good, f"{good} --bad", good], [f"ole train: rank 1: {unknown}"])
    mixed([good, f"{good} --bad", f"{good} --bad"], [f"ole train: rank 1: {unknown}"])
    mixed([f"{good} --bad", good, good], [f"ole train: rank 0: {unknown}"])
    mixed([f"{good} --bad", f"{good} --lr abc", good],
          [f"ole train: rank 0: {unknown}", "ole train: rank 1: --lr 'abc': expected a number above 0"])
    mixed([f"{good} --bad", f"{good} --lr abc", f"{good} --bad"],
          [f"ole train: {unknown}", "ole train: rank 1: --lr 'abc': expected a number above 0"])
    mixed(["--version", f"{good} --bad"], [f"ole train: rank 1: {unknown}"])  # rank 0 never comes


def check_other_launcher(ole):
    """Processes that their launcher counts and MPI does not would all train into one folder."""
    for rank in (0, 1):
        done = ole.run(*"train digits --net C4 --out never".split(),
                       shell=f'PMI_RANK={rank} PMI_SIZE=2 "$@"')
        said = "ole train: MPI: one of 2 processes finds no others" in done.stderr
        check_that(f"another MPI's launcher, rank {rank}: {done.stderr}",
                   done.returncode == 1 and said == (rank == 0))


def check_all(ole, _):
    program = os.path.abspath(sys.argv[2])
    check_groups(ole, program)
    check_lost(ole, program)
    check_start(ole, program)
    check_launcher(ole, program)
    check_pause(ole, program)
    check_different(ole, program)
    check_printing(ole)
    check_mistakes(ole)
    check_other_launcher(ole)


if __name__ == "__main__":
    launched.conduct(__doc__, "ranks are", check_all, arguments=2)
