#!/usr/bin/env python3
"""compare.py OLE - runs `ole compare` on a few of the digits: results, resuming, novelty, vectors, mistakes."""
import csv
import json

import npyfile
import run
from run import check, check_next, check_that

NET = "--net C4-MP-FC8 --batch-size 40 --threads 1 --samples-per-class 12 --epochs 2 --lr 0.02"
LOSSES = "softmax,softmax+smoothing,softmax+center,arcface,supcon,softmax+ole"


def succeed(ole, args):
    """What it prints to stdout."""
    result = ole.run(*args.split())
    check_that(f"{args}: {result.stderr}", result.returncode == 0)
    return result.stdout


def stamps(folder):
    return {path: path.stat().st_mtime_ns for path in folder.glob("**/last.safetensors")}


def check_usage(ole):
    def wrong(args, message):
        check(ole, args, err=f"ole compare: {message}\n", code=2)

    wrong(f"compare digits {NET} --out x --losses softmax,softmax", "losses: softmax is given twice")
    wrong(f"compare digits {NET} --out x --losses center",
          "loss: center needs a classifier; use softmax+center")
    wrong(f"compare digits {NET} --out x --losses arcface+smoothing",
          "losses: arcface+smoothing: smoothing is for softmax")
    wrong(f"compare digits {NET} --out x --settings 6", "--settings '6': expected a whole number from 1 to 5")


def check_results(ole, work):
    command = f"compare digits {NET} --seeds 2 --settings 2 --novel 8,9 --out compared"
    out = succeed(ole, f"{command} --losses {LOSSES}")
    check_that("the table names the losses", all(f"\n{name}" in "\n" + out for name in LOSSES.split(",")))
    check_that("and fits 80 columns", all(len(line) <= 80 for line in out.split("\n\n")[0].splitlines()))
    check_next(ole, out, "eval", "export")
    folder = work / "compared"
    with open(folder / "losses.csv") as file:
        rows = list(csv.DictReader(file))
    check_that("a line for each loss and seed", len(rows) == 12)
    found = json.loads((folder / "losses.json").read_text())["losses"]
    for entry in found:
        of = [row for row in rows if row["loss"] == entry["loss"]]
        for key in ("test_error", "knn1_error", "angle_between", "effective_rank", "novelty_auroc", "step_ms"):
            mean = sum(float(row[key]) for row in of) / 2
            check_that(f"{entry['loss']}: the mean of {key}", abs(mean - entry[key]["mean"]) < 1e-6)
        own = json.loads((folder / entry["loss"] / "results.json").read_text())
        check_that("the setting that validation chose", own["lambda"] == entry["value"])
        retrained = [p for p in own["points"] if p["part"] == "retrain"]
        kind = "knn1_error" if entry["loss"] == "supcon" else "test_error"
        check_that("its error", abs(retrained[0][kind] - entry["test_error"]["mean"]) < 1e-6)
        check_that("two settings", len([p for p in own["points"] if p["part"] == "grid"]) == 2)
    difference = [float(rows[2 * i + s]["test_error"]) - float(rows[s]["test_error"]) for i in range(6) for s in range(2)]
    check_that("paired differences", all(abs(sum(difference[2 * i:2 * i + 2]) / 2 -
               found[i]["difference"]["test_error"]["mean"]) < 1e-6 for i in range(6)))
    page = (folder / "report.html").read_text().replace("<wbr>", "")
    check_that("the page names them", all(name in page for name in LOSSES.split(",")))
    check_that("the run's options name its loss", "loss: arcface" in next(
        folder.glob("arcface/retrain-*/seed-0/config.yaml")).read_text())

    before = stamps(folder)
    again = succeed(ole, f"{command} --losses {LOSSES},softmax+opl --json")
    after = stamps(folder)
    check_that("finished runs are not repeated", all(after[path] == time for path, time in before.items()))
    check_that("a loss was added", [e["loss"] for e in json.loads(again)["losses"]][-1] == "softmax+opl")


def check_vectors(ole, work):
    values = [float((i * 7 + d * 3) % 11 + 5 * (d == i % 3)) for i in range(90) for d in range(6)]
    (work / "x.npy").write_bytes(npyfile.array("<f4", (90, 6), values))
    (work / "y.npy").write_bytes(npyfile.array("<i8", (90,), [i % 3 for i in range(90)]))
    succeed(ole, "compare npy:x.npy,y.npy --net FC8 --epochs 2 --batch-size 30 --threads 1 --settings 1 --losses "
          "softmax,softmax+mcr2 --out vectors")
    check_that("vectors", len(json.loads((work / "vectors/losses.json").read_text())["losses"]) == 2)
    succeed(ole, "compare npy:x.npy,y.npy --net FC8 --epochs 1 --batch-size 30 --threads 1 --losses softmax --out usual")
    own = json.loads((work / "usual/softmax/results.json").read_text())
    check_that("five settings by default", len([p for p in own["points"] if p["part"] == "grid"]) == 5)


def check_all(ole, work):
    check_usage(ole)
    check_results(ole, work)
    check_vectors(ole, work)


if __name__ == "__main__":
    run.conduct(__doc__, check_all)
