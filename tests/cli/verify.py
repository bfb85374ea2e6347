#!/usr/bin/env python3
"""verify.py OLE - runs `ole verify` on pairs of both kinds, and on what is wrong with them.

Where /usr/bin/python3 has scikit-learn, AUC, curve and folds are compared with its own.
"""
import random

import npyfile
import oracle
import run
from run import check, check_that, read_json

SEE = "see 'ole verify --help'"


def check_usage(ole, work):
    check(ole, "verify", code=2, err="ole verify: missing argument FEATURES.npy: [rows, dimensions], as "
          f".npy, .npz or .csv; {SEE}\n")
    check(ole, "verify F.npy", code=2, err=f"ole verify: missing option --pairs PAIRS.txt or --labels L.npy; {SEE}\n")
    check(ole, "verify F.npy --pairs P.txt --labels L.npy", code=2,
          err="ole verify: --pairs cannot be combined with --labels\n")
    check(ole, "verify F.npy --labels L.npy --names N.txt", code=2,
          err="ole verify: --names works only with --pairs\n")
    check(ole, "verify F.npy --pairs P.txt --folds 1", code=2,
          err="ole verify: --folds '1': expected a whole number from 2 to 1000\n")
    check(ole, "verify no.npy --pairs P.txt", code=1,
          err="ole verify: no.npy: cannot open: No such file or directory\n")
    check_that("--help", ole.run("verify", "--help").stdout.startswith("  $ ole verify features"))


def check_exact(ole, work):
    """Four pairs in two folds whose result is plain."""
    (work / "F.npy").write_bytes(npyfile.array("<f4", (4, 2), [1, 0, 2, 0, 0, 1, 0, 3]))
    (work / "P.txt").write_text("0 1 1\n2 3 1\n0 2 0\n1 3 0\n")
    check(ole, "verify F.npy --pairs P.txt --folds 2",
          out="pairs            4, 2 of them the same\n"
              "accuracy         100.00 ± 0.00 % over 2 folds (standard error 0.00)\n"
              "AUC              1.0000\n"
              "threshold        0.5000: call new pairs the same if their cosine is at least this\n")
    result = read_json(ole, "verify", "F.npy", "--pairs", "P.txt", "--folds", "2", "--json")
    check_that("--json", result == {
        "pairs": 4, "same": 2, "auc": 1, "accuracy": 100, "accuracy_std": 0, "standard_error": 0, "threshold": 0.5,
        "folds": [{"accuracy": 100, "threshold": 0.5}] * 2,
        "roc": {"threshold": [None, 1, 0], "fpr": [0, 0, 1], "tpr": [0, 1, 1]}})
    (work / "N.txt").write_text("A_0001.jpg\nA_0002.jpg\nB_0001.jpg\nB_0002.jpg\n")
    (work / "L.txt").write_text("2 1\nA 1 2\nA 1 B 1\nB 1 2\nA 2 B 2\n")
    named = read_json(ole, "verify", "F.npy", "--pairs", "L.txt", "--names", "N.txt", "--json")
    check_that("by name", named == result)


def check_labels(ole, work):
    """Pairs drawn from labels: as many of one class as of two, none twice, the same for the same seed."""
    rng = random.Random(2)
    centre = [[rng.gauss(0, 1) for _ in range(8)] for _ in range(3)]
    names = [("owl", "cat", "bat")[i % 3] for i in range(30)]
    rows = [c + 0.05 * rng.gauss(0, 1) for i in range(30) for c in centre[i % 3]]
    (work / "classes.npy").write_bytes(npyfile.array("<f4", (30, 8), rows))
    (work / "classes.txt").write_text("".join(f"{name}\n" for name in names))
    told = read_json(ole, *"verify classes.npy --labels classes.txt --json".split())
    check_that(f"--labels: {told.get('pairs')}", told["pairs"] == 270 and told["same"] == 135 and
               told["accuracy"] == 100 and told["auc"] == 1 and -1 < told["threshold"] < 1)
    text = ole.run(*"verify classes.npy --labels classes.txt".split()).stdout
    check_that(f"the threshold: {text}", f"\nthreshold        {told['threshold']:.4f}: " in text)
    runs = [ole.run("verify", "classes.npy", "--labels", "classes.txt", "--json", "--seed", seed).stdout
            for seed in "334"]
    check_that("--seed", runs[0] == runs[1] != runs[2])
    check(ole, "verify classes.npy --labels classes.txt --folds 200", code=1, err="ole verify: classes.txt: 135 same and "
          "300 different pairs are too few for 200 folds; use more rows or fewer folds\n")
    (work / "short.txt").write_text("owl\ncat\n")
    check(ole, "verify classes.npy --labels short.txt", code=1,
          err="ole verify: classes.npy has 30 rows and short.txt has 2 labels; they must match\n")


def check_mistakes(ole, work):
    def wrong(text, message, names=None):
        (work / "bad.txt").write_text(text)
        (work / "names.txt").write_text(names or "")
        check(ole, "verify F.npy --pairs bad.txt" + (" --names names.txt" if names else ""),
              code=1, err=f"ole verify: {message}\n")

    wrong("0 1 1\n0 9 0\n", "bad.txt, line 2: no row 9; the features have rows 0 to 3")
    wrong("0 1 1\n0 1 x\n", "bad.txt, line 2: expected two rows and 1 (same) or 0 (different), "
          "found '0 1 x'")
    wrong("2 1\nA 1 2\n", "bad.txt: these pairs are names, so --names must list the name "
          "of each row")
    names = "A_1\nA_2\nB_1\nB_2\n"
    wrong("0 1 1\n2 3 0\n", "bad.txt: these pairs are row numbers, which need no list of names; "
          "omit --names", names)
    wrong("2 1\nA 1 3\nA 1 B 1\nB 1 2\nA 2 B 2\n",
          "bad.txt, line 2: picture 3 of 'A' is not in names.txt", names)
    wrong("0 1 1\n2 3 0\n", "bad.txt: 1 same and 1 different pairs are too few for 10 folds, which "
          "need one of each kind; use more pairs or fewer folds")
    check(ole, "verify F.npy --pairs none.txt", code=1,
          err="ole verify: none.txt: cannot read: No such file or directory\n")
    (work / "nan.npy").write_bytes(npyfile.array("<f4", (4, 2), [1, 0, 2, 0, 0, 1, 0, float("nan")]))
    check(ole, "verify nan.npy --pairs P.txt --folds 2", code=1,
          err="ole verify: nan.npy: features: row 3 holds NaN or Inf\n")
    (work / "int.npy").write_bytes(npyfile.array("<i4", (4, 2), [1, 0, 2, 0, 0, 1, 0, 3]))
    check(ole, "verify int.npy --pairs P.txt --folds 2", code=1, err="ole verify: int.npy: features "
          "are int32; convert them with --dtype float32 or float64\n")


def check_pictures(ole, work):
    done = ole.run("verify", "F.npy", "--pairs", "P.txt", "--folds", "2", "--figures", "figures",
                   "--out", "page.html")
    check_that("--figures", done.returncode == 0 and {p.name for p in (work / "figures").iterdir()} ==
               {f"roc.{end}" for end in run.figure_ends(done.stderr)})
    check_that("--out", "Verification" in (work / "page.html").read_text())
    check(ole, "verify F.npy --pairs P.txt --folds 2 --figures /proc/x", code=1,
          err="ole verify: /proc/x: cannot create the folder: No such file or directory\n")
    done = ole.run("verify", "F.npy", "--pairs", "P.txt", "--folds", "2", "--figures", "new", "--out",
                   "new/page.html")
    check_that("a page among the figures", done.returncode == 0 and (work / "new/page.html").exists())
    check(ole, "verify none.npy --pairs P.txt --figures away", code=1,
          err="ole verify: none.npy: cannot open: No such file or directory\n")
    check_that("no folder is left", not (work / "away").exists())
    check(ole, "verify none.npy --pairs P.txt --figures F.npy", code=1,
          err="ole verify: F.npy: cannot write into the folder: Not a directory\n")
    full = ole.run("verify", "F.npy", "--pairs", "P.txt", "--folds", "2", "--out", "/dev/full")
    check_that(f"results, where the page failed: {full.stderr}", full.returncode == 1 and
               full.stdout.startswith("pairs ") and full.stderr ==
               "ole verify: /dev/full: cannot write: No space left on device\n")


def near(a, b):
    return abs(a - b) < 1e-9


def check_oracle(ole, work):
    """Features of 30 people with ten rows each, 40 + 40 pairs in each of 10 folds."""
    rng = random.Random(4)
    centre = [[rng.gauss(0, 1) for _ in range(6)] for _ in range(30)]
    rows = [[c + rng.gauss(0, 1) for c in centre[i // 10]] for i in range(300)]
    pairs = []
    for i in range(800):
        same, a = i % 2 == 0, rng.randrange(300)
        b = rng.randrange(300)
        while (a // 10 == b // 10) != same or a == b:
            b = rng.randrange(300)
        pairs.append([a, b, int(same), i // 2 % 10])
    (work / "many.npy").write_bytes(npyfile.array("<f8", (300, 6), sum(rows, [])))
    (work / "many.txt").write_text("".join(f"{a} {b} {same}\n" for a, b, same, _ in pairs))
    got = read_json(ole, "verify", "many.npy", "--pairs", "many.txt", "--json")
    expected = oracle.ask("verify", features=rows, pairs=pairs, folds=10)
    if expected is None:
        print("scikit-learn: not in /usr/bin/python3, not compared")
        return
    check_that("AUC", near(got["auc"], expected["auc"]))
    check_that("folds", all(near(f["accuracy"], e) for f, e in zip(got["folds"], expected["folds"])))
    check_that("accuracy", near(got["accuracy"], expected["accuracy"]) and
               near(got["accuracy_std"], expected["accuracy_std"]) and 60 < got["accuracy"] < 99)
    for key in ("fpr", "tpr"):
        check_that(f"roc.{key}", len(got["roc"][key]) == len(expected[key]) and
                   all(near(a, b) for a, b in zip(got["roc"][key], expected[key])))
    check_that("roc.threshold", all(near(a, b) for a, b in zip(got["roc"]["threshold"][1:],
                                                               expected["threshold"])))


def check_all(ole, work):
    check_usage(ole, work)
    check_exact(ole, work)
    check_labels(ole, work)
    check_mistakes(ole, work)
    check_pictures(ole, work)
    check_oracle(ole, work)


if __name__ == "__main__":
    run.conduct(__doc__, check_all)
