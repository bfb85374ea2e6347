#!/usr/bin/env python3
"""novelty.py OLE - runs `ole novelty` on digits: seven known classes, three novel ones.

The numbers are computed again from --scores: curves by scikit-learn where /usr/bin/python3 has it,
the rest here.
"""
import csv
import json
import math
import os
import re
import stat

import npyfile
import oracle
import run
from run import check, check_that, read_json

SEE = "see 'ole novelty --help'"
TRAIN = "train digits --net C8-MP-FC16 --epochs 3 --threads 1"
SEVEN = TRAIN + " --classes 0,1,2,3,4,5,6"
SCORES = ("softmax", "calibrated", "residual", "cosine", "energy", "gen", "knn", "vim", "mahalanobis", "relative",
          "fdbd", "nci", "neco")
BINS = 15


def near(a, b, tolerance=1e-9):
    return abs(a - b) <= tolerance * (1 + abs(b))


def metadata(path):
    """The header of a safetensors file, and what follows it."""
    content = path.read_bytes()
    size = int.from_bytes(content[:8], "little")
    return json.loads(content[8:8 + size]), content[8 + size:]


# ---- Mistakes -----------------------------------------------------------------------------------

def check_usage(ole):
    def wrong(args, message, code=2):
        check(ole, "novelty " + args, err=f"ole novelty: {message}\n", code=code)

    wrong("", f"missing argument MODEL, or features without one: --known X.npy,y.npy; {SEE}")
    wrong("m --test X.npy,y.npy", "--test works only without a MODEL")
    wrong("--known X.npy,y.npy --val-split 10%", "--val-split works only with a MODEL")
    wrong("MODEL --width 8", "--width works only without a MODEL")
    wrong("--known X.npy", "--known 'X.npy': expected two files, as FEATURES.npy,LABELS.npy")
    wrong("--known X.npy,y.npy --method none --save m", "--save needs a map: --method none has none")
    wrong("--known X.npy,y.npy --width 9", "--width does not apply to --method linear: give it with mlp")
    wrong("--known X.npy,y.npy --method none --width 9", "--width does not apply to --method none: give it with mlp")
    wrong("--known no.npy,y.npy", "no.npy: cannot open: No such file or directory", 1)
    wrong("m --known digits --novel digits --score best",
          "--score 'best': expected auto or one of " + ", ".join(SCORES))
    wrong("m --known digits --novel digits --temperature 0",
          "--temperature '0': expected fit or a number from 0.001 to 1000")
    wrong("no --known digits --novel digits", "no: cannot read: No such file or directory", 1)
    check_that("--help", ole.run("novelty", "--help").stdout.startswith("  $ ole train digits"))


def check_data_mistakes(ole, work):
    def wrong(args, message, code=1):
        check(ole, "novelty " + args, err=f"ole novelty: {message}\n", code=code)

    both = "--known digits --novel digits"
    wrong(f"m {both} --keep 0", "--keep '0': expected a share above 0 and at most 1, such as 10% or 0.1", 2)
    wrong(f"m {both} --keep 120%", "--keep '120%': expected a share above 0 and at most 1, such as 10% or 0.1", 2)
    wrong(f"m {both} --val-split x", "--val-split 'x': expected a share below 1, such as 10% or 0.1", 2)
    wrong(f"m {both} --known-classes 0,1", "the model has 7 classes, the known set digits "
          "has 2, and the threshold needs samples of all; name the set it was trained on")
    wrong(f"m {both} --known-classes 0,1,2,3,4,5,6,7", "the model has 7 classes, the known set digits has 8; "
          "choose them with --known-classes")
    wrong(f"m {both} --known-classes 1,0,2,3,4,5,6", "class 0 of the model is '0', that of the "
          "known set digits is '1'; choose them with --known-classes, in the model's order")
    wrong(f"m {both} --novel-classes 8,3", "--novel-classes 8,3: the model knows the class '3' of digits: "
          "name classes that it does not know", 2)
    for flag, name, what in (("scores", "no/s.csv", "cannot write"), ("out", "no/p.html", "cannot write"),
                             ("figures", "no/f", "cannot create the folder")):
        wrong(f"none {both} --{flag} {name}",  # found before the model is read
              f"{name}: {what}: No such file or directory")
    wrong(f"m {both} --novel-classes 12",
          "digits: no class '12'; its 10 classes are 0 '0' to 9 '9'", 2)
    least = read_json(ole, *f"novelty m {both} --keep 1e-11 --no-store --json".split())
    check_that("at least one is kept", all(s["threshold"] is not None for s in least["scores"]))
    unknown = "mnits: unknown data set; choose "
    for args in ("novelty m --known digits --novel mnits", "novelty m --known mnits --novel digits",
                 "eval m mnits", "features m mnits --out F.npy L.npy"):
        told = ole.run(*args.split())
        check_that(f"ole {args}", told.returncode == 2 and f": {unknown}" in told.stderr)
    wrong("m --known digits --novel mnist:nowhere",
          "nowhere: there is no train-images-idx3-ubyte(.gz) here")
    ole.run(*SEVEN.split(), "--out", "none-held-out")
    check_halves(ole, "none-held-out", both)
    done = ole.run("novelty", "none-held-out", *both.split(), "--val-split", "20%", "--no-store")
    check_that("a warning", done.returncode == 0 and done.stderr.startswith(
        "ole novelty: warning: the run held out no samples, so "))
    ole.run(*TRAIN.split(), "--val-split", "20%", "--out", "ten")
    wrong(f"ten {both}", "digits: the model knows all its classes: name another set with --novel, "
          "or classes with --novel-classes")
    ole.run(*SEVEN.split(), "--val-split", "20%", "--loss", "ole", "--out", "alone")
    wrong(f"alone {both}", "the model has no trained classifier: it was trained with OLE alone, or fitted as a map; "
          "train with --loss softmax+ole or fit with --method linear, or score its features: 'ole features' or 'ole "
          "apply', then 'ole novelty --known Z.npy,LABELS --method none'")


def check_halves(ole, model, both):
    """Without held-out samples every other test sample of a class sets the threshold; the rest are judged."""
    asked = ["novelty", model, *both.split(), "--no-store"]
    whole = read_json(ole, *asked, "--val-split", "20%", "--scores", "all.csv", "--json")
    done = ole.run(*asked, "--scores", "half.csv", "--json")
    told = json.loads(done.stdout)
    check_that(f"halves: {done.stderr}", done.stderr.startswith(
        f"ole novelty: no samples were held out: half of the {whole['known']} test samples set the threshold, "
        "the others test it\n"))
    check_that("their number", told["validation"] + told["known"] == whole["known"] and
               0 <= told["validation"] - told["known"] <= 7 and told["novel"] == whole["novel"])
    rows = []
    for name in ("all.csv", "half.csv"):
        with open(ole.work / name, newline="") as file:
            rows.append([(row["class"], row["predicted"], row["softmax"]) for row in csv.DictReader(file)
                         if row["set"] == "known"])
    halves, count = ([], []), {}
    for row in rows[0]:
        count[row[0]] = count.get(row[0], 1) + 1
        halves[count[row[0]] % 2].append(row)
    check_that("every other one", rows[1] == halves[1])
    taken = [float(row[2]) for row in halves[0]]
    score = next(s for s in told["scores"] if s["score"] == "softmax")
    kept = sum(s >= score["threshold"] for s in taken)
    check_that("95 % of the others reach the threshold", kept == max(1, math.ceil(0.95 * len(taken) - 1e-9)))


def keep_one_class(folder):
    """Cuts a model of two classes, whose tensors end with the classifier's, to the first: version 0.1 trained such."""
    data = (folder / "best.safetensors").read_bytes()
    size = int.from_bytes(data[:8], "little")
    header, body = json.loads(data[8:8 + size]), data[8 + size:]
    del header["__metadata__"]["checksum"]
    header["__metadata__"]["class_names"] = json.dumps(json.loads(header["__metadata__"]["class_names"])[:1])
    begin, end = header["classifier.weight"]["data_offsets"]
    middle, start = (begin + end) // 2, header["classifier.bias"]["data_offsets"][0]
    header["classifier.weight"].update(shape=[1, header["classifier.weight"]["shape"][1]], data_offsets=[begin, middle])
    header["classifier.bias"].update(shape=[1], data_offsets=[middle, middle + 4])
    text = json.dumps(header).encode()
    (folder / "best.safetensors").write_bytes(len(text).to_bytes(8, "little") + text + body[:middle] +
                                              body[start:start + 4])
    config = (folder / "config.yaml").read_text()
    (folder / "config.yaml").write_text(config.replace("classes: e,c\n", "classes: e\n"))


def check_odd_classes(ole, work):
    """Names with a comma, which lists of classes have between names; a model of one class."""
    for c, name in enumerate(("a,b", "c", "d,", "e")):
        (work / "odd" / name).mkdir(parents=True)
        for i in range(10):
            (work / "odd" / name / f"{i}.pgm").write_bytes(
                b"P5 8 8 255\n" + bytes((60 * c + i * k) % 256 for k in range(64)))
    train = "train folder:odd --net FC4 --epochs 1 --threads 1 --val-split 20% --no-report"
    for classes, novel in (("c,0", 20), ("3,2,1", 10)):
        made = ole.run(*train.split(), "--classes", classes, "--out", f"odd-{novel}")
        check_that(f"trained on {classes}: {made.stderr}", made.returncode == 0)
        result = read_json(ole, "novelty", f"odd-{novel}", "--known", "folder:odd", "--novel",
                           "folder:odd", "--json")
        check_that(f"the others of {classes}", result["novel"] == novel)
        again = read_json(ole, "novelty", f"odd-{novel}", "--known", "folder:odd", "--novel",
                          "folder:./odd/", "--json")
        check_that(f"the others of {classes}, by another name of the folder", again == result)
    ole.run(*train.split(), "--normalize", "none", "--classes", "e,c", "--out", "single")
    keep_one_class(work / "single")
    taken = "ole novelty: as in single/config.yaml: --val-split 20%\n"
    single = ["novelty", "single", "--known", "folder:odd", "--novel", "folder:odd"]
    for score in ("softmax", "calibrated"):
        done = ole.run(*single, "--score", score)
        check_that(f"one class, {score}: {done.stderr}", done.returncode == 0 and done.stderr ==
                   f"ole novelty: warning: with a single class the {score} score is always 1; use "
                   "--score residual, cosine or energy\n" + taken)
    done = ole.run(*single, "--score", "residual")
    check_that("one class, residual", done.returncode == 0 and done.stderr == taken and
               "temperature          1 (not fitted: with one class every score is 1)\n" in done.stdout)


def check_formulas(ole, work):
    """Names that a spreadsheet would compute stand behind a ' in a .csv file; numbers do not."""
    names = ['=1+1', '+a', '-b', '@c', '\td', '\re', "'f", '=g,"h"', "i=j", "k"]
    for c, name in enumerate(names):
        (work / "formulas" / name).mkdir(parents=True)
        for i in range(10):
            (work / "formulas" / name / f"{i}.pgm").write_bytes(
                b"P5 8 8 255\n" + bytes((25 * c + i * k) % 256 for k in range(64)))
    made = ole.run("train", "folder:formulas", "--net", "FC4", "--epochs", "1", "--threads", "1", "--val-split",
                   "20%", "--no-report", "--classes", "0,1,2,3,4,5,6,7,8", "--out", "formulas-run")
    check_that(f"trained on formulas: {made.stderr}", made.returncode == 0)
    done = ole.run("novelty", "formulas-run", "--known", "folder:formulas", "--novel", "folder:formulas",
                   "--no-store", "--scores", "formulas.csv")
    check_that(f"scores of formulas: {done.stderr}", done.returncode == 0)
    with open(work / "formulas.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    written = {row[column] for row in rows for column in ("class", "predicted")}
    check_that(f"no formula: {written}", not [name for name in written if name[0] in "=+-@\t\r"])
    check_that("the names come back", {name.removeprefix("'") for name in written} == set(names))
    check_that("numbers are numbers", all(math.isfinite(float(row[score])) for row in rows for score in SCORES))


def check_vectors(ole, work):
    """Vectors of two classes and of a third; empty, of another size, with NaN."""
    def write(name, rows, labels):
        flat = [x for row in rows for x in row]
        (work / f"{name}-x.npy").write_bytes(npyfile.array("<f4", (len(rows), len(rows[0])), flat))
        (work / f"{name}-y.npy").write_bytes(npyfile.array("<i8", (len(labels),), labels))
        return f"npy:{name}-x.npy,{name}-y.npy"

    known = write("known", [[5 * (i % 2), i / 40, 1, 0] for i in range(80)],
                  [i % 2 for i in range(80)])
    novel = write("novel", [[0, 0, -4, i / 10] for i in range(10)], [0] * 10)
    wide = write("wide", [[1, 2, 3, 4, 5]] * 4, [0] * 4)
    nan = write("nan", [[1, 2, 3, 4]] * 4 + [[1, float("nan"), 3, 4]], [0] * 5)
    done = ole.run("train", known, "--net", "FC4", "--epochs", "2", "--batch-size", "16",
                   "--val-split", "25%", "--threads", "1", "--out", "vectors")
    check_that("training on vectors", done.returncode == 0)
    result = read_json(ole, "novelty", "vectors", "--known", known, "--novel", novel, "--json")
    check_that("vectors", result.get("novel") == 10 and result["known"] == 16)
    check(ole, f"novelty vectors --known {known} --novel {wide}", code=1, err="ole novelty: the "
          "model takes vectors of 4, but the samples of npy are vectors of 5\n")
    moved = ("ole novelty: warning: the run held out other samples; the validation set that remains after "
             "--test-share includes some it was trained on; errors will be too low, thresholds too high\n")
    check(ole, f"novelty vectors --known {known} --novel {novel} --novel-split test "
          "--test-share 0", code=1, err=moved + "ole novelty: the known set npy has no test "
          "samples\n")
    check(ole, f"novelty vectors --known {known} --novel {novel} --novel-split test "
          "--test-share 0 --known-split train", code=1,
          err=moved + "ole novelty: the novel set npy has no test samples\n")
    bad = ole.run("novelty", "vectors", "--known", known, "--novel", nan)
    check_that("NaN", bad.returncode == 1 and "NaN" in bad.stderr and bad.stderr.count("\n") == 1)


def make_features(work, name, classes, rows, seed, noise=0.4):
    """Rows around one point per class in 8 dimensions, with words as labels; without classes, rows around others."""
    random = oracle_random(seed)
    points = [[((c * 7 + k * 3) % 11 - 5) / 2 for k in range(8)] for c in range(12)]
    flat, words = [], []
    for c in classes:
        for _ in range(rows):
            flat += [x + noise * next(random) for x in points[c]]
            words.append(f"class {c}")
    (work / f"{name}.npy").write_bytes(npyfile.array("<f4", (len(words), 8), flat))
    (work / f"{name}.txt").write_text("".join(f"{word}\n" for word in words))


def oracle_random(seed):
    """Numbers of about normal distribution, the same everywhere."""
    state = seed
    while True:
        total = 0.0
        for _ in range(12):
            state = (state * 6364136223846793005 + 1442695040888963407) % 2 ** 64
            total += (state >> 11) / 2 ** 53
        yield total - 6


def check_features(ole, work):
    """Features without a model: a map is fitted, a score chosen, both saved; numbers fit the scores of all samples."""
    make_features(work, "fk", range(7), 20, 1)
    make_features(work, "ft", range(7), 10, 2)
    make_features(work, "fn", range(7, 12), 10, 3)
    fixed = "--lambda 0.01 --weight-decay 0.001"
    told = read_json(ole, *f"novelty --known fk.npy,fk.txt --test ft.npy,ft.txt --novel fn.npy {fixed} --scores f.csv "
                     "--save f.safetensors --json --out f.html".split())
    check_choice(told["choice"], True)
    chosen = told["choice"]["score"]
    check_that("counts", told["known"] == 70 and told["novel"] == 50 and told["validation"] == 28)
    known, novel = read_scores(work / "f.csv")
    check_that("class names", {r["class"] for r in known} == {f"class {c}" for c in range(7)} and
               {r["class"] for r in novel} == {"novel"})
    for s in told["scores"]:
        expected = sum((float(a[s["score"]]) > float(b[s["score"]])) + 0.5 * (a[s["score"]] == b[s["score"]])
                       for a in known for b in novel) / (len(known) * len(novel))
        check_that(f"{s['score']}: AUROC", near(s["auroc"], expected))
    stored = metadata(work / "f.safetensors")[0]["__metadata__"]
    index = SCORES.index(chosen)
    check_that(f"saved: {stored}", stored["threshold_score"] == chosen and
               near(float(stored["threshold"]), told["scores"][index]["threshold"]) and
               json.loads(stored["novelty_choice"])["score"] == chosen)
    part = (work / "f.html").read_text().split("Which score to use</h2>")[1].split("</table>")[0]
    cells = [float(text) for text in re.findall(r"<td>(0\.\d+|1\.0000)</td>", part)]
    wanted = [value for s in told["choice"]["auroc"].values() for value in (s["mean"], *s["groups"])]
    check_that(f"page: {cells}", len(cells) == len(wanted) and all(abs(a - b) < 6e-5 for a, b in zip(cells, wanted)))
    again = read_json(ole, *f"novelty --known fk.npy,fk.txt --test ft.npy,ft.txt --novel fn.npy {fixed} --threads 1 "
                      "--json".split())
    check_that("threads do not matter", again["choice"] == told["choice"] and again["scores"] == told["scores"])
    alone = ole.run(*f"novelty --known fk.npy,fk.txt {fixed} --method none --score energy --scores n.csv --out n.html".split())
    check_that(f"known alone: {alone.stdout}{alone.stderr}", alone.returncode == 0 and alone.stdout.startswith(
        "samples              28 known (held out), 0 novel; the threshold from 28 held out\n"))
    check_that("class names without a model", {r["predicted"] for r in read_scores(work / "n.csv")[0]} <=
               {f"class {c}" for c in range(7)})
    seeds = [read_json(ole, *f"novelty --known fk.npy,fk.txt {fixed} --method mlp --width 24 --seed {seed} --save w.safetensors "
                       "--json".split())["choice"]["auroc"] for seed in (1, 1, 2)]
    check_that("mlp: width and seed", metadata(work / "w.safetensors")[0]["__metadata__"]["net"] == "FC24" and
               seeds[0] == seeds[1] != seeds[2])
    make_features(work, "f2", range(2), 10, 4)
    two = ole.run(*f"novelty --known f2.npy,f2.txt {fixed}".split())
    check_that(f"two classes: {two.stdout}", "score by default: cosine; choosing one takes three classes" in two.stdout)
    make_features(work, "f1", range(1), 10, 4)
    check(ole, "novelty --known f1.npy,f1.txt", code=1, err="ole novelty: the known features have a single class; a score "
          "is fitted on at least two\n")
    make_features(work, "fs", range(3), 1, 4)
    check(ole, f"novelty --known fs.npy,fs.txt {fixed}", code=1, err="ole novelty: each known class has a single row: a "
          "threshold needs rows to hold out\n")
    check(ole, "novelty --known fk.npy,fk.txt --test fn.npy,fn.txt " + fixed, code=1, err="ole novelty: test row 0 has the "
          "label 'class 7', which no known row has: rows of other classes are novel\n")
    wide = npyfile.array("<f4", (1, 9), [0.0] * 9)
    (work / "wide.npy").write_bytes(wide)
    check(ole, "novelty --known fk.npy,fk.txt --novel wide.npy " + fixed, code=1, err="ole novelty: the novel features have "
          "9 dimensions, the known ones 8\n")
    (work / "nan.npy").write_bytes(npyfile.array("<f4", (1, 8), [0.0] * 7 + [math.nan]))
    check(ole, "novelty --known fk.npy,fk.txt --novel nan.npy " + fixed, code=1, err="ole novelty: novel features: row 0 "
          "holds NaN or Inf\n")


# ---- Numbers ------------------------------------------------------------------------------------

def read_scores(path):
    with open(path, newline="") as file:
        rows = list(csv.DictReader(file))
    return ([r for r in rows if r["set"] == "known"], [r for r in rows if r["set"] == "novel"])


def calibration_error(rows, column):
    bins = {}
    for r in rows:
        score = float(r[column])
        bins.setdefault(math.ceil(score * BINS), []).append((score, r["class"] == r["predicted"]))
    return sum(abs(sum(right for _, right in b) - sum(score for score, _ in b))
               for b in bins.values()) / len(rows)


def check_score(s, known, novel):
    name, t = s["score"], s["threshold"]
    kept = [r for r in known if float(r[name]) >= t]
    right = [r for r in kept if r["class"] == r["predicted"]]
    check_that(f"{name} at its threshold", near(s["kept"], 100 * len(kept) / len(known)) and
               near(s["accuracy"], 100 * len(right) / len(known)) and
               near(s["accepted"], 100 * sum(float(r[name]) >= t for r in novel) / len(novel)))
    x, y = s["curve"]["novel_accepted"], s["curve"]["known_accuracy"]
    check_that(f"{name}: the curve", len(x) == len(y) <= 500 and x == sorted(x) and
               y == sorted(y) and [x[0], y[0], x[-1]] == [0, 0, 1] and s["accuracy"] <= y[-1])
    expected = oracle.ask("curve", positive=[float(r[name]) for r in known],
                          negative=[float(r[name]) for r in novel])
    if expected is None:
        print("scikit-learn: not in /usr/bin/python3, not compared")
        return
    check_that(f"{name} against scikit-learn", all(
        near(s[key], expected[key]) for key in ("auroc", "aupr_known", "aupr_novel", "fpr95")))
    check_that(f"{name} tells something", s["auroc"] > 0.7)


def check_choice(choice, refitted):
    """The score with the highest mean over the groups, of AUROCs that are there for every score."""
    means = {name: s["mean"] for name, s in choice["auroc"].items()}
    check_that(f"a choice: {choice}", list(means) == list(SCORES) and choice["groups"] == 5 and
               choice["map_refitted"] == refitted and 0 < choice["held_out"] <= choice["rows"] / 5 and
               means[choice["score"]] == max(means.values()) and
               all(near(s["mean"], sum(s["groups"]) / 5) and len(s["groups"]) == 5 for s in choice["auroc"].values()))


def check_numbers(ole, work):
    done = ole.run(*SEVEN.split(), "--val-split", "20%", "--seed", "3", "--out", "m")
    check_that("training", done.returncode == 0)
    result = read_json(ole, "novelty", "m", "--known", "digits", "--novel", "digits", "--scores",
                       "s.csv", "--json")
    known, novel = read_scores(work / "s.csv")
    check_that("counts", result.get("known") == len(known) == 379 and
               result["novel"] == len(novel) == 533 and result["validation"] == 176)
    check_that("classes", {r["class"] for r in known} == set("0123456") and
               {r["class"] for r in novel} == set("789") and
               {r["predicted"] for r in novel} <= set("0123456"))
    check_that("accuracy", near(result["accuracy"], 100 * sum(
        r["class"] == r["predicted"] for r in known) / len(known)) and result["accuracy"] > 80)
    check_that("ECE before", near(result["before"]["ece"], calibration_error(known, "softmax")))
    check_that("ECE after", near(result["after"]["ece"], calibration_error(known, "calibrated")))
    check_that("temperature", result["temperature_fitted"] and 0.05 < result["temperature"] < 20 and
               result["after"]["temperature"] == result["temperature"] and
               result["before"]["temperature"] == 1)
    check_that("scores", [s["score"] for s in result["scores"]] == list(SCORES))
    for s in result["scores"]:
        check_score(s, known, novel)
    check_that("kept", all(85 < s["kept"] <= 100 for s in result["scores"]))
    chosen = result["choice"]["score"]
    check_that("stored", result["stored"] == {
        "score": chosen, "threshold": result["scores"][SCORES.index(chosen)]["threshold"]})
    check_choice(result["choice"], False)
    text = ole.run("novelty", "m", "--known", "digits", "--novel", "digits").stdout
    check_that("text", text.startswith("samples              379 known, 533 novel; the threshold "
                                       "from 176 for validation\n") and
               "\nm: unknown under " in text)


def check_scores_file(ole, work):
    """--scores goes through a link and keeps permissions; a pipe or device is written, not replaced."""
    def write(path, **more):
        return ole.run("novelty", "m", "--known", "digits", "--novel", "digits", "--no-store",
                       "--scores", path, **more)

    expected = (work / "s.csv").read_text()
    (work / "target.csv").write_text("old")
    (work / "target.csv").chmod(0o640)
    (work / "link.csv").symlink_to("target.csv")
    write("link.csv")
    check_that("a link", (work / "link.csv").is_symlink() and
               (work / "target.csv").read_text() == expected and
               (work / "target.csv").stat().st_mode & 0o777 == 0o640)
    os.mkfifo(work / "pipe")
    piped = write("pipe", shell='timeout 20 cat pipe >piped.csv & "$@"; wait')
    check_that("a pipe", piped.returncode == 0 and stat.S_ISFIFO((work / "pipe").stat().st_mode) and
               (work / "piped.csv").read_text() == expected)
    for name in ("null", "stdout", "full"):  # by a link, lest a mistake replaces the device
        (work / name).symlink_to(f"/dev/{name}")
    check_that("a device", write("null").returncode == 0 and (work / "null").is_symlink())
    check_that("stdout", write("stdout").stdout.startswith(expected))
    model = (work / "m/best.safetensors").read_bytes()
    full = ole.run("novelty", "m", "--known", "digits", "--novel", "digits", "--keep", "50%", "--scores",
                   "full")
    check_that(f"a full disk: {full.stderr}", full.returncode == 1 and full.stdout.startswith("samples ")
               and "unknown under" not in full.stdout and "full: cannot write: No space left on device\n"
               in full.stderr and (work / "m/best.safetensors").read_bytes() == model)
    check_that("nothing is left beside", not list(work.glob("*.part")) and not list(work.glob("s.csv.*")))


def check_known_alone(ole, work):
    """Without novel samples: the same thresholds, nothing about novel ones; by default on the run's data."""
    with_novel = read_json(ole, *"novelty m --known digits --novel digits --no-store --json".split())
    alone = read_json(ole, *"novelty m --no-store --json --scores alone.csv --out alone.html".split())
    check_that("counts", alone["novel"] == 0 and alone["known"] == with_novel["known"])
    check_that("the same thresholds", [[s[key] for key in ("score", "threshold", "kept", "accuracy")] for s in
                                       alone["scores"]] == [[s[key] for key in ("score", "threshold", "kept", "accuracy")]
                                                            for s in with_novel["scores"]])
    check_that("nothing of novel ones", all(s[key] is None for s in alone["scores"] for key in
                                            ("auroc", "aupr_known", "aupr_novel", "fpr95", "accepted")))
    best = max(with_novel["scores"], key=lambda s: s["auroc"])
    check_that("best", with_novel["best"] == best["score"] and alone["best"] == "none")
    check_that("chosen without novel samples", with_novel["choice"] == alone["choice"])
    check_that("their scores", "novel" not in (work / "alone.csv").read_text())
    text = ole.run(*"novelty m --known digits --novel digits --no-store --score energy".split()).stdout
    energy = with_novel["scores"][SCORES.index("energy")]["auroc"]
    check_that(f"as text: {text}", f"best on these novel samples: {best['score']}, AUROC {best['auroc']:.4f}; energy: {energy:.4f}\n" in text)
    page, both = (work / "alone.html").read_text(), ole.run(*"novelty m --novel digits --no-store --out both.html".split())
    check_that("the threshold is drawn", page.count(">threshold</text>") == 2 * len(SCORES))  # wide and narrow
    check_that(f"page: {both.stderr}", ">energy: energy (log-sum-exp) of the logits<" in page and "novel samples accepted" not in page and
               "AUROC" not in page[page.index(">Thresholds</h2>"):page.index("</table>")] and
               "(used)" in (work / "both.html").read_text())


def check_worse(ole):
    """A temperature that makes the calibration worse is warned of."""
    def told(temperature):
        done = ole.run("novelty", "m", "--novel", "digits", "--no-store", "--temperature", temperature)
        return "warning: the temperature" in done.stderr
    check_that("a temperature that spoils it", told("50") and not told("1"))


def check_exported(ole):
    """An ONNX file has the score of its threshold as an output, and the directions where that needs them."""
    for score in ("softmax", "cosine", "residual"):
        ole.run("novelty", "m", "--known", "digits", "--novel", "digits", "--score", score)
        ole.run("export", "m", "--onnx", "m.onnx")
        file = (ole.work / "m.onnx").read_bytes()
        metadata = file[file.index(b"threshold_score"):][:40]
        check_that(f"a threshold on {score}: {metadata}", score.encode() in metadata and b"known_score" in file and
                   (b"directions" in file) == (score != "softmax"))


def check_pictures(ole, work):
    done = ole.run("novelty", "m", "--known", "digits", "--novel", "digits", "--figures", "f",
                   "--out", "page.html", "--no-store")
    check_that(f"where they are: {done.stdout}", done.stdout.endswith(f"\n{'page':20} page.html\n{'figures':20} f\n"))
    names = ["novelty", "reliability", *(f"scores-{s}" for s in SCORES)]
    check_that("--figures", done.returncode == 0 and
               {p.name for p in (work / "f").iterdir()} ==
               {f"{n}.{end}" for n in names for end in run.figure_ends(done.stderr)})
    ticks = re.findall(r'text-anchor="end">(\d+)<', (work / "f" / "novelty.svg").read_text())
    check_that(f"the axis of accuracy begins near the curves: {ticks}",
               ticks and ticks[-1] == "100" and 0 < int(ticks[0]) <= 90)
    done = ole.run("novelty", "m", "--known", "digits", "--novel", "digits", "--figures", "all",
                   "--out", "all/page.html", "--scores", "all/s.csv", "--no-store")
    check_that(f"page and scores among the figures: {done.stderr}", done.returncode == 0 and
               (work / "all/page.html").exists() and (work / "all/s.csv").exists())
    page = (work / "page.html").read_text()
    check_that("--out", "Reliability" in page and "AUROC" in page)


# ---- The threshold ------------------------------------------------------------------------------

def check_no_leak(ole, work):
    """Novel samples change nothing of what is stored, nor do threads."""
    model = work / "m/best.safetensors"
    stored = []
    for novel in (["--novel-classes", "7"], ["--novel-classes", "8,9", "--threads", "1"],
                  ["--novel-classes", "9,8,7", "--novel-split", "test", "--threads", "2"]):
        ole.run("novelty", "m", "--known", "digits", "--novel", "digits", *novel)
        stored.append(model.read_bytes())
    check_that("the stored threshold does not see novel samples", stored[0] == stored[1] ==
               stored[2])
    ole.run("novelty", "m", "--known", "digits", "--novel", "digits", "--keep", "50%",
            "--no-store")
    check_that("--no-store", model.read_bytes() == stored[0])
    thresholds = [read_json(ole, "novelty", "m", "--known", "digits", "--novel", "digits",
                            "--no-store", "--keep", keep, "--json")["scores"]
                  for keep in ("0.99", "90%", "50%")]
    check_that("--keep", all(a["threshold"] < b["threshold"] < c["threshold"]
                             for a, b, c in zip(*thresholds)))
    given = read_json(ole, "novelty", "m", "--known", "digits", "--novel", "digits", "--no-store",
                      "--temperature", "1", "--json")
    check_that("--temperature 1", given["after"]["ece"] == given["before"]["ece"] and
               not given["temperature_fitted"] and
               {**given["scores"][0], "score": ""} == {**given["scores"][1], "score": ""})


def check_weights_stay(work, before):
    """Storing changes the metadata and adds directions; all other tensors keep their bytes."""
    def tensors(path):
        header, data = metadata(path)
        del header["__metadata__"]
        return {name: data[t["data_offsets"][0]:t["data_offsets"][1]]
                for name, t in header.items() if not name.startswith("novelty.")}
    check_that("weights stay", tensors(work / "m/best.safetensors") == tensors(before))


def check_predict(ole, work):
    one = bytes(255 if x in (3, 4) else 0 for _ in range(8) for x in range(8))
    (work / "one.pgm").write_bytes(b"P5 8 8 255\n" + one)
    (work / "before.safetensors").write_bytes((work / "m/best.safetensors").read_bytes())
    for score in SCORES:
        for keep, known in (("100%", True), ("0.1%", False))[score not in ("softmax", "residual", "vim", "relative"):]:
            ole.run("novelty", "m", "--known", "digits", "--novel", "digits", "--keep", keep,
                    "--score", score)
            answer = read_json(ole, "predict", "m", "one.pgm", "--json")[0]
            check_that(f"{score}, {keep} kept", answer["threshold_score"] == score and
                       answer["known"] == (answer["known_score"] >= answer["threshold"]))
            if not known:
                check_that(f"{score}: unknown", answer["label"] == "unknown" and
                           ole.run("predict", "m", "one.pgm").stdout.startswith("one.pgm: unknown"))
            if score == "calibrated":
                check_that("the score is calibrated", answer["known_score"] == answer["score"])
        check_weights_stay(work, work / "before.safetensors")
    check_that("--threshold is of the score as printed",
               "score, as printed, below which" in ole.run("predict", "--help").stdout)
    for share in (0.999, 1.001):
        answer = read_json(ole, "predict", "m", "one.pgm", "--json")[0]
        given = min(1, share * answer["score"])
        judged = read_json(ole, "predict", "m", "one.pgm", "--threshold", str(given), "--json")[0]
        check_that(f"--threshold at {share} of the score", judged["known"] == (answer["score"] >= given))
    check_that("--threshold", ole.run("predict", "m", "one.pgm", "--threshold", "0").stdout
               .startswith("one.pgm: 1 "))


def check_old_files(ole, work):
    """A model of before has no score, no temperature: it loads, and knows everything."""
    header, data = metadata(work / "m/best.safetensors")
    texts = header["__metadata__"]
    for key in ("threshold_score", "temperature", "classifier"):
        del texts[key]
    texts["threshold"] = "0"
    encoded = json.dumps(header).encode()
    (work / "old.safetensors").write_bytes(len(encoded).to_bytes(8, "little") + encoded + data)
    answer = read_json(ole, "predict", "old.safetensors", "one.pgm", "--json")[0]
    check_that("old model", answer["known"] and "threshold" not in answer)
    texts.update(threshold="0.5", temperature="-1")
    encoded = json.dumps(header).encode()
    (work / "bad.safetensors").write_bytes(len(encoded).to_bytes(8, "little") + encoded + data)
    check(ole, "predict bad.safetensors one.pgm", code=1, err="ole predict: bad.safetensors: not "
          "a model of 'ole train': 'temperature' is missing from its metadata, or wrong\n")


def check_damaged(ole, work):
    """Directions that do not fit the model, or are not there."""
    ole.run("novelty", "m", "--known", "digits", "--novel", "digits", "--score", "cosine")
    header, data = metadata(work / "m/best.safetensors")

    def wrong(change, message):
        changed = json.loads(json.dumps(header))
        change(changed)
        encoded = json.dumps(changed).encode()
        (work / "d.safetensors").write_bytes(len(encoded).to_bytes(8, "little") + encoded + data)
        check(ole, "predict d.safetensors one.pgm", code=1,
              err=f"ole predict: d.safetensors: {message}\n")

    def fit(name):
        return f"the tensor '{name}' does not fit the score 'cosine': the file is damaged"
    check_that("directions", header["novelty.directions"]["shape"] == [7, 16] and
               header["novelty.sizes"]["shape"] == [7])
    wrong(lambda h: h["novelty.directions"].update(shape=[16, 7]),
          "the tensors 'sizes' and 'directions' of the score 'cosine' contradict each other: the file is damaged")
    wrong(lambda h: h["novelty.directions"].update(shape=[112]), fit("directions"))
    wrong(lambda h: h["novelty.directions"].update(dtype="I32"), fit("directions"))
    wrong(lambda h: h["novelty.sizes"].update(shape=[7, 1]), fit("sizes"))
    wrong(lambda h: h.update({"novelty.size": h.pop("novelty.sizes")}),
          "the tensor 'sizes' of the score 'cosine' is missing: the file is damaged")
    wrong(lambda h: h.update({"a": h.pop("novelty.sizes"), "b": h.pop("novelty.directions")}),
          "the data of its threshold's score, 'cosine', are missing: the file is damaged")
    wrong(lambda h: h["__metadata__"].update(threshold_score="best"),
          "not a model of 'ole train': 'threshold_score' is missing from its metadata, or wrong")


def check_all(ole, work):
    check_usage(ole)
    check_numbers(ole, work)
    check_scores_file(ole, work)
    check_pictures(ole, work)
    check_known_alone(ole, work)
    check_worse(ole)
    check_exported(ole)
    check_no_leak(ole, work)
    check_predict(ole, work)
    check_old_files(ole, work)
    check_damaged(ole, work)
    check_features(ole, work)
    check_data_mistakes(ole, work)
    check_vectors(ole, work)
    check_odd_classes(ole, work)
    check_formulas(ole, work)


if __name__ == "__main__":
    run.conduct(__doc__, check_all)
