#!/usr/bin/env python3
"""study.py OLE - runs `ole tune` and `ole sweep` on a few of the digits.

Single runs are compared with those of `ole train`; studies that were interrupted, killed or extended
with whole ones; and a tuning with one whose test labels were wrong.
"""
import csv
import json
import random
import re
import shutil
import signal
import subprocess
import time

import npyfile
import run
from run import check, check_next, check_that, read_json
from train import metrics

NET = "--net C4-MP-FC8 --batch-size 32 --threads 1"
SMALL = f"{NET} --samples-per-class 12"
TUNE = f"tune digits {SMALL} --epochs 2 --lambdas 0,1/16,0.25 --seeds 2"
SWEEP = f"sweep digits {NET} --epochs 2 --samples 4,8 --lambdas 0,0.25 --seeds 2"
SEE = "see 'ole tune --help'"


def results(folder):
    """results.json without what depends on the clock."""
    value = json.loads((folder / "results.json").read_text())
    for point in value["points"]:
        for one in point["runs"]:
            del one["seconds"]
    return value


def stamps(folder):
    """When each run's checkpoint was written: unchanged for runs that were not repeated."""
    return {path.parent.relative_to(folder): path.stat().st_mtime_ns
            for path in sorted(folder.glob("**/last.safetensors"))}


def finished(folder):
    """The folders of the runs that have ended."""
    return {path.parent.relative_to(folder) for path in folder.glob("**/metrics.jsonl")
            if '"event":"end"' in path.read_text().replace('": "', '":"')}


# ---- Mistakes -----------------------------------------------------------------------------------

def check_usage(ole, work):
    def wrong(args, message):
        check(ole, args, err=f"ole {args.split()[0]}: {message}\n", code=2)

    wrong("tune --resume --out nowhere", "nowhere: no study to resume")
    wrong("tune", f"missing argument DATA: a data set, such as digits or folder:photos; {SEE}")
    wrong("tune digits", f"missing option --out: the folder of the study, such as runs/first; {SEE}")
    wrong("tune digits --lambda 1", "unknown option --lambda; did you mean --lambdas?")
    net = "digits --net C4 --out never "
    numbers = "use up to 1000 comma-separated numbers"
    wrong(f"tune {net}--lambdas 0,x", f"--lambdas 0,x: unexpected 'x'; {numbers}")
    wrong(f"tune {net}--lambdas 0,,1", f"--lambdas 0,,1: unexpected ''; {numbers}")
    wrong(f"tune {net}--lambdas 0,-1", f"--lambdas 0,-1: unexpected '-1'; {numbers}")
    wrong(f"sweep {net}--samples 5,2.5", f"--samples 5,2.5: unexpected '2.5'; {numbers}")
    wrong(f"tune {net}--lambdas 0,1/4,0.25", "lambdas: 0.25 is given twice")
    wrong(f"tune {net}--lambdas 0",
          "lambdas: a choice needs at least two, such as 0,0.25")
    wrong(f"tune {net}--loss softmax", "this loss has no lambda; add +ole to it: 0 among the "
          "lambdas leaves OLE out")
    wrong(f"tune {net}--loss ole --lambdas 0,1",
          "lambdas: with loss ole, 0 leaves nothing to learn from; use others")
    wrong(f"sweep {net}--samples 0,5", "samples 0: expected numbers from 1 to 1000000000")
    wrong(f"sweep {net}--samples 5,5", "samples: 5 is given twice")
    wrong(f"sweep {net}--samples 5,100000", "digits: class 0 '0' has 125 training samples, not the "
          "requested 100000; request fewer, or exclude the class")
    for share in ("0", "0%"):
        wrong(f"tune {net}--val-split {share}", f"--val-split '{share}': expected a share above 0 "
              "and below 1, such as 10% or 0.1")
    wrong(f"sweep {net}--epochs 0", "--epochs '0': expected a whole number from 1 to 1000000000")
    wrong(f"tune {net}--jobs 0", "--jobs '0': expected a whole number from 1 to 1024")
    wrong("tune digits --net Q --out never", "net: column 1: 'Q' is not a token; known tokens: C, CO, MP, AP, "
          "FC, FCD, R, PR, B, PB, D, CR, BN, ReLU, ID")
    check(ole, "tune --resume --out nowhere --net C4 digits", code=1,
          err="ole tune: nowhere: no study to resume\n")
    check_that("nothing was made", not (work / "never").exists())


# ---- Results ------------------------------------------------------------------------------------

def check_one_lambda(ole, work):
    """Beside a single lambda softmax is a dotted line too; terminal and page say that one was tried."""
    done = ole.run(*f"tune digits {SMALL} --epochs 1 --lambdas 0,0.25 --seeds 1 --out one".split())
    check_that("one lambda: the terminal", "\nonly one lambda above 0 was tried, 0.25; --lambdas " in done.stdout)
    check_that("one lambda: the caption", "<figcaption>Error on the validation set. Only one λ was tried, 0.25. Dashed: "
               "softmax alone.</figcaption>" in (work / "one/report.html").read_text())
    curve = (work / "one/curve.svg").read_text()
    dotted = re.findall(r'stroke-dasharray="4"[^>]* d="M([^"]*)"', curve)
    check_that("one lambda: softmax is a line", len(dotted) == 1 and dotted[0].count("L") == 1)
    check_that("one lambda: its tick", ">0.25</text>" in curve and ">0.2</text>" not in curve)


def check_caption(ole, work):
    """A caption names what is drawn: no dashed line without softmax alone, no bands with one seed."""
    ole.run(*f"tune digits {SMALL} --epochs 1 --lambdas 0.25,1 --seeds 1 --out plain".split())
    page = (work / "plain/report.html").read_text()
    check_that("neither dashed nor bands", "<figcaption>Error on the validation set.</figcaption>" in page)


def check_tune(ole, work):
    done = ole.run(*TUNE.split(), "--baseline", "--out", "tune")
    lines = done.stdout.splitlines()
    check_that("ole tune", done.returncode == 0 and lines[0].startswith("lambda       validation") and
               lines[-3] == "report             tune/report.html")
    check_next(ole, done.stdout, "eval", "export")
    check_that("one line per run", done.stderr.count("\nrun ") in (7, 9) and  # 0 may be the choice
               done.stderr.startswith("run 1/10  lambda-0/seed-0  validation "))
    files = {p.name for p in (work / "tune").iterdir() if p.is_file()}
    check_that("the files", {"config.yaml", "curve.svg", "report.html", "results.csv",
                             "results.json", "study.json"} <= files)
    check_that("its caption", "<figcaption>Error on the validation set. Dashed: softmax alone. Bands: ± standard "
               "deviation over the seeds.</figcaption>" in (work / "tune/report.html").read_text() and
               "only one" not in done.stdout)
    curve = (work / "tune/curve.svg").read_text()
    check_that("the ticks are the lambdas that were tried", ">0.0625</text>" in curve and ">0.25</text>" in curve
               and ">0.1</text>" not in curve)
    got = results(work / "tune")
    grid = [p for p in got["points"] if p["part"] == "grid"]
    best = min(grid, key=lambda p: (p["validation_error"], p["lambda"]))
    check_that("the smallest mean is taken", got["complete"] and got["lambda"] == best["lambda"])
    for point in got["points"]:
        kind = "validation_error" if point["part"] == "grid" else "test_error"
        errors = [one[kind] for one in point["runs"]]
        mean = sum(errors) / 2
        std = sum((e - mean) ** 2 for e in errors) ** 0.5  # n - 1 is 1
        check_that("means", abs(point[kind] - mean) < 1e-9 and
                   abs(point[f"{kind}_std"] - std) < 1e-9)
    check_that("the test split is not looked at", all(
        one["test_error"] is None for point in grid for one in point["runs"]))
    rows = list(csv.DictReader((work / "tune/results.csv").open()))
    check_that("results.csv", [float(row["validation_error"]) for row in rows
                               if row["part"] == "grid"] ==
               [one["validation_error"] for point in grid for one in point["runs"]])
    check_that("--json", json.loads(ole.run("tune", "--resume", "--out", "tune", "--json").stdout) ==
               json.loads((work / "tune/results.json").read_text()))


def check_single_runs(ole, work):
    """A run of a study is the one that `ole train` makes."""
    train = f"train digits {SMALL} --epochs 2 --seed 1".split()
    same = [("tune/lambda-0.25/seed-1", "--val-split 10% --lambda 1/4 --skip-test"),
            ("tune/lambda-0/seed-1", "--val-split 10% --loss softmax --skip-test"),
            ("tune/retrain-lambda-0/seed-1", "--loss softmax --eval-every 2"),
            ("sweep/samples-8/lambda-0.25/seed-1", "--samples-per-class 8")]
    ole.run(*SWEEP.split(), "--out", "sweep")
    for i, (folder, args) in enumerate(same):
        ole.run(*train, *args.split(), "--out", f"single-{i}")
        folder, single = work / folder, work / f"single-{i}"
        check_that(f"{folder} and ole train {args}", metrics(folder) == metrics(single) and
                   (folder / "best.safetensors").read_bytes() ==
                   (single / "best.safetensors").read_bytes())
    seen = read_json(ole, *train, "--val-split", "10%", "--out", "seen", "--json")
    check_that("with a look at the test split",
               metrics(work / "tune/lambda-0.25/seed-1")[-1]["validation_error"] ==
               seen["validation_error"] and seen["test_error"] is not None)


def check_sweep(ole, work):
    got = results(work / "sweep")
    check_that("ole sweep", got["complete"] and got["ended"] == 8 and
               [(p["samples_per_class"], p["lambda"]) for p in got["points"]] ==
               [(4, 0), (4, 0.25), (8, 0), (8, 0.25)] and
               all(p["test_error_std"] is not None for p in got["points"]))
    more = ole.run(*SWEEP.split(), "--samples", "4,8,12", "--out", "sweep")
    check_that("more samples", more.returncode == 0 and results(work / "sweep")["ended"] == 12 and
               results(work / "sweep")["points"][:4] == got["points"] and
               "resuming after 8 of 12 runs" in more.stderr and
               more.stdout.startswith("samples per class  lambda       accuracy"))
    check_next(ole, more.stdout, "report")
    side = ole.run(*SWEEP.split(), "--jobs", "3", "--out", "jobs")
    check_that("--jobs", side.returncode == 0 and results(work / "jobs") == got)


# ---- Test labels do not matter ------------------------------------------------------------------

def write_vectors(work):
    """Vectors of three classes that overlap; test labels as they are, and drawn at random."""
    numbers = random.Random(5)

    def rows(count):
        labels = [i % 3 for i in range(count)]
        return labels, [numbers.gauss(1.5 * (k == c), 1) for c in labels for k in range(6)]

    for name, count in (("train", 120), ("test", 60)):
        labels, values = rows(count)
        (work / f"X-{name}.npy").write_bytes(npyfile.array("<f4", (count, 6), values))
        (work / f"y-{name}.npy").write_bytes(npyfile.array("<i4", (count,), labels))
    numbers.shuffle(labels)
    (work / "y-wrong.npy").write_bytes(npyfile.array("<i4", (60,), labels))


def check_test_labels(ole, work):
    write_vectors(work)
    args = "--net FC8 --batch-size 16 --threads 1 --epochs 3 --seeds 2 --lambdas 0,1/8,1/2,2"
    for name in ("test", "wrong"):
        ole.run("tune", f"npy:X-train.npy,y-train.npy,X-test.npy,y-{name}.npy", *args.split(),
                "--out", f"labels-{name}")
    right, wrong = results(work / "labels-test"), results(work / "labels-wrong")
    check_that("wrong test labels: the same choice", right["lambda"] == wrong["lambda"] and
               right["points"][:4] == wrong["points"][:4])
    check_that("wrong test labels: another test error", right["test_error"] < wrong["test_error"])


def check_no_validation(ole, work):
    (work / "few-x.npy").write_bytes(npyfile.array("<f4", (4, 2), [0, 1, 2, 3, 4, 5, 6, 7]))
    (work / "few-y.npy").write_bytes(npyfile.array("<i4", (4,), [0, 0, 1, 1]))
    done = ole.run(*"tune npy:few-x.npy,few-y.npy --net FC4 --epochs 1 --seeds 1 --lambdas 0,1 --threads 1 "
                   "--out few".split())
    check_that(f"nothing to choose by: {done.stderr}", done.returncode == 1 and done.stderr.endswith(
        "ole tune: no validation samples to choose lambda with: no class has enough for val_split 0.1; "
        "raise it, or add samples\n"))


def check_large_seed(ole, work):
    seed = 2 ** 64 - 1
    ole.run(*f"sweep digits --net FC4 --samples 4 --lambdas 0 --epochs 1 --seeds 1 --seed {seed} --threads 1 "
            "--out seeded".split())
    check_that("a large seed", results(work / "seeded")["points"][0]["runs"][0]["seed"] == seed)


# ---- Stopping and going on ----------------------------------------------------------------------

def start(ole, work, args, runs):
    """Starts a study and waits until some of its runs have ended."""
    process = subprocess.Popen([ole.path, *args.split()], cwd=work, env=ole.environment, text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    for _ in range(runs):
        process.stderr.readline()
    return process


def check_interrupt(ole, work):
    args = f"tune digits {SMALL} --epochs 30 --lambdas 0,1/16,0.25 --seeds 2"
    whole = ole.run(*args.split(), "--out", "whole")
    check_that("a whole study", whole.returncode == 0)
    process = start(ole, work, f"{args} --out stopped", 2)
    check(ole, f"{args} --out stopped", code=1, err="ole tune: stopped: another process is working in this "
          "folder; wait for it to finish, or choose another folder\n")
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=120)
    check_that("Ctrl-C", process.returncode == 130 and not out and
               "and saved; to resume: ole tune --resume --out stopped\n" in err)
    so_far = results(work / "stopped")
    check_that("results so far", 2 <= so_far["ended"] < 8 and not so_far["complete"] and
               so_far["lambda"] is None)
    ended = finished(work / "stopped")
    before = stamps(work / "stopped")
    resumed = ole.run("tune", "--resume", "--out", "stopped")
    after = stamps(work / "stopped")
    check_that("resumed", resumed.returncode == 0 and resumed.stdout ==
               whole.stdout.replace("whole/", "stopped/") and
               results(work / "stopped") == results(work / "whole"))
    check_that("finished runs are not repeated", len(ended) >= 2 and
               all(before[one] == after[one] for one in ended))


def check_kill(ole, work):
    """kill -9 again and again; the same command completes it."""
    args = f"tune digits {SMALL} --epochs 30 --lambdas 0,1/16,0.25 --seeds 2 --out killed"
    seen = {}
    for runs in (1, 3, 2):
        process = start(ole, work, args, runs)
        time.sleep(0.03 * runs)
        process.kill()
        process.communicate()
        now = stamps(work / "killed")
        check_that("killed: runs that had ended stay", all(now[k] == v for k, v in seen.items()))
        seen = {one: now[one] for one in finished(work / "killed")}
        json.loads((work / "killed/results.json").read_text())
    done = ole.run(*args.split())
    now = stamps(work / "killed")
    check_that("killed and completed", done.returncode == 0 and
               results(work / "killed") == results(work / "whole") and
               all(now[one] == stamp for one, stamp in seen.items()))
    check_that("every run is whole", all(
        metrics(work / "killed" / one) == metrics(work / "whole" / one) for one in now))


def check_equals(ole, work):
    """Of equal means the smaller lambda, in whatever order the seeds add up."""
    errors = {"0": (90, 90, 90), "0.25": (10, 13.6, 21.6), "0.5": (10.8, 14, 20.4)}
    ole.run(*f"tune digits {SMALL} --epochs 1 --lambdas 0,0.25,0.5 --seeds 3 --out equal".split())
    for weight, of_seed in errors.items():
        for seed, error in enumerate(of_seed):
            path = work / f"equal/lambda-{weight}/seed-{seed}/metrics.jsonl"
            *lines, end = path.read_text().splitlines()
            end = json.dumps({**json.loads(end), "validation_error": error})
            path.write_text("\n".join([*lines, end]) + "\n")
    again = ole.run("tune", "--resume", "--out", "equal")
    got = results(work / "equal")
    check_that(f"equal means: {got['lambda']}", again.returncode == 0 and got["lambda"] == 0.25)


def check_alone(ole, work):
    """OLE alone trains no classifier: 1-NN is what a study tells."""
    ole.run(*f"tune digits {SMALL} --epochs 1 --loss ole --lambdas 0.25,1 --seeds 2 --out alone".split())
    got = results(work / "alone")
    retrained = [p for p in got["points"] if p["part"] == "retrain"]
    check_that("the 1-NN error of the choice", got["test_error"] is None and
               got["knn1_error"] == retrained[0]["knn1_error"] is not None)
    check_that("... is the page's", f"{got['knn1_error']:.2f} ±" in (work / "alone/report.html").read_text())


def check_threads(ole, work):
    """A run has the same threads, and so the same bits, whatever is left of its study."""
    sweep = "sweep digits --net C16-MP-C32-MP-FC32 --epochs 2 --samples 40 --lambdas 0,0.25 --seeds 2 --jobs 2"
    ole.run(*sweep.split(), "--out", "shared")
    last = work / "shared/samples-40/lambda-0.25/seed-1"
    before = metrics(last)
    shutil.rmtree(last)
    ole.run(*sweep.split(), "--out", "shared")
    check_that("the last run alone", metrics(last) == before)


def check_fewer(ole, work):
    before = stamps(work / "sweep")
    fewer = ole.run(*"sweep --resume --out sweep --lambdas 0.25 --seeds 1".split())
    check_that(f"fewer values are spoken of: {fewer.stderr}", fewer.returncode == 0 and
               "the folder has runs with other lambdas or samples, which the results exclude" in fewer.stderr and
               "the folder has runs with other seeds, which the results exclude" in fewer.stderr and stamps(work / "sweep") == before)
    whole = ole.run(*SWEEP.split(), "--samples", "4,8,12", "--out", "sweep")
    check_that("... and come back", whole.returncode == 0 and "exclude" not in whole.stderr and
               results(work / "sweep")["ended"] == 12 and stamps(work / "sweep") == before)


def check_changes(ole, work):
    go_on = "resume with the same, or choose another folder"
    small = TUNE.split()[2:]
    for args, message in (("--epochs 3", f"the study has epochs '2', not '3'; {go_on}"),
                          ("--lr 0.2", f"the study has lr '0.1', not '0.2'; {go_on}"),
                          ("--val-split 20%", f"the study has val_split '0.1', not '0.2'; {go_on}")):
        check(ole, f"tune digits {' '.join(small)} --out tune {args}", code=2,
              err=f"ole tune: tune: {message}\n")
    check(ole, f"{SWEEP} --out tune", code=2, err="ole sweep: tune: a folder of 'ole tune', not "
          "of 'ole sweep'; choose another\n")
    check(ole, f"{TUNE} --out single-0", code=2, err="ole tune: single-0: already holds "
          "a run of 'ole train'; choose another folder\n")
    config = (work / "tune/config.yaml").read_text()
    for args in ("--resume", "digits --net C4", "--resume --seeds 1"):
        check(ole, f"train {args} --out tune", code=2, err="ole train: tune: a folder of 'ole tune', 'ole "
              "sweep' or 'ole reproduce'; choose another folder\n")
    check_that("it stays as it was", (work / "tune/config.yaml").read_text() == config and
               not (work / "tune/last.safetensors").exists())
    before = stamps(work / "tune")
    more = ole.run(*TUNE.split(), "--lambdas", "0,1/16,1/4,1", "--seeds", "3", "--out", "tune")
    got, after = results(work / "tune"), stamps(work / "tune")
    check_that("more lambdas and seeds", more.returncode == 0 and got["complete"] and
               [p["finished"] for p in got["points"]] == [3] * len(got["points"]) and
               all(after[one] == stamp for one, stamp in before.items()))
    ole.run("train", "--resume", "--out", "tune/lambda-1/seed-0", "--epochs", "3")
    check(ole, "tune --resume --out tune", code=2, err="ole tune: tune/lambda-1/seed-0: the run has "
          "epochs '3', not '2'; remove the folder to train it again\n")
    (work / "tune/study.json").write_text("{")
    check(ole, f"{TUNE} --out tune", code=1, err="ole tune: tune/study.json: damaged, or from "
          "another program; choose another folder for a new study\n")


def check_divergence(ole, work):
    args = f"digits {SMALL} --epochs 2 --seeds 2 --out"
    done = ole.run("tune", *args.split(), "some", "--lambdas", "0,1/4,1e30")
    got = results(work / "some")
    check_that("a lambda that diverges", done.returncode == 0 and got["complete"] and
               got["points"][2]["diverged"] == 2 and got["lambda"] < 1 and
               (work / "some/lambda-1e+30/seed-0/failed.txt").exists())
    again = ole.run("tune", "--resume", "--out", "some")
    check_that("... is not tried again", again.returncode == 0 and again.stderr ==
               "ole tune: some: resuming after 8 of 8 runs\n" and
               again.stdout == done.stdout)
    every = ole.run("tune", *args.split(), "none", "--lambdas", "0,1/4", "--lr", "1e30")
    check_that("all diverge", every.returncode == 1 and every.stderr.endswith(
        "ole tune: runs with every lambda diverged; lower lr, and start in another folder\n"))


def check_all(ole, work):
    check_usage(ole, work)
    check_one_lambda(ole, work)
    check_caption(ole, work)
    check_tune(ole, work)
    check_no_validation(ole, work)
    check_large_seed(ole, work)
    check_single_runs(ole, work)
    check_sweep(ole, work)
    check_test_labels(ole, work)
    check_interrupt(ole, work)
    check_kill(ole, work)
    check_divergence(ole, work)
    check_equals(ole, work)
    check_alone(ole, work)
    check_threads(ole, work)
    check_fewer(ole, work)
    check_changes(ole, work)


if __name__ == "__main__":
    run.conduct(__doc__, check_all)
