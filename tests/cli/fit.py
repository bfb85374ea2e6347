#!/usr/bin/env python3
"""fit.py OLE - embeddings from fit to predict: the methods, what they write, and what is wrong with the input."""
import html
import math
import random
import re

import npyfile
import run
from run import check, check_next, check_that, read_json

NAMES = ("alarm", "balance", "calendar", "dinner", "exchange")
DIM = 12


def draw(rng, centres, per_class, noise=0.6):
    rows, names = [], []
    for k in range(per_class * len(centres)):
        c = k % len(centres)
        rows.append([x + rng.gauss(0, noise) for x in centres[c]])
        names.append(NAMES[c])
    return rows, names


def write(work, name, rows, labels=None, descr="<f4"):
    (work / f"{name}.npy").write_bytes(npyfile.array(descr, (len(rows), len(rows[0])), [x for r in rows for x in r]))
    if labels:
        (work / f"{name}.txt").write_text("".join(f"{n}\n" for n in labels))


def write_inputs(work):
    """Classes of sentences, as it were, and sentences of none of them."""
    rng = random.Random(5)
    centres = [[rng.gauss(0, 1) for _ in range(DIM)] for _ in NAMES]
    train, names = draw(rng, centres, 16)
    write(work, "X", train, names)
    write(work, "X64", train, names, "<f8")
    test, test_names = draw(rng, centres, 20)
    write(work, "T", test, test_names)
    write(work, "far", [[rng.gauss(0, 1) for _ in range(DIM)] for _ in range(60)])
    write(work, "few", train[:5], names[:5])
    write(work, "lonely", train[:11], names[:10] + ["weather"])
    write(work, "one", train[:3], ["alarm"] * 3)
    write(work, "short", train[:3], names[:2])
    write(work, "wide", [row + [0.0] for row in test])
    write(work, "nan", train[:7] + [[math.nan] * DIM] + train[8:], names)
    write(work, "numbers", train)
    (work / "numbers.txt").write_text("".join(f"{10 * NAMES.index(n) if n != 'exchange' else -1}\n" for n in names))


def labels_of(answer):
    return [one["label"] for one in answer]


def check_linear(ole, work):
    told = read_json(ole, *"fit X.npy X.txt --out m.safetensors --json".split())
    check_that(f"summary: {told}", told["rows"] == 80 and told["classes"] == 5 and told["features"] == 5 and
               told["held_out"] == 80 and told["held_out_accuracy"] > 90 and len(told["trials"]) > 8 and
               told["threshold_score"] == told["choice"]["score"] and told["choice"]["groups"] == 5 and
               len(told["choice"]["auroc"]) == 13)
    again = read_json(ole, *"fit X.npy X.txt --out again.safetensors --json --threads 1".split())
    check_that("the same on other threads", {k: v for k, v in again.items() if k not in ("seconds", "model")} ==
               {k: v for k, v in told.items() if k not in ("seconds", "model")} and
               (work / "m.safetensors").read_bytes() == (work / "again.safetensors").read_bytes())
    names = (work / "T.txt").read_text().split()
    known, far = (read_json(ole, "predict", "m.safetensors", f"{x}.npy", "--json") for x in ("T", "far"))
    right = sum(one["classes"][0]["label"] == n for one, n in zip(known, names)) / len(names)
    unknown = [sum(not one["known"] for one in answer) / len(answer) for answer in (known, far)]
    check_that(f"predict: {right}, unknown {unknown}", right > 0.9 and unknown[0] < 0.25 and unknown[1] > 0.4)
    text = ole.run(*"fit X.npy X.txt --out m.safetensors".split()).stdout
    swapped = ole.run(*"fit X.txt X.npy --out n.safetensors".split())
    check_that("swapped arguments", swapped.returncode == 1 and
               swapped.stderr.endswith("; name the features first, then the labels\n"))
    check_that(f"what was tried is printed: {text}", "tried on held-out rows" in text and "  chosen\n" in text and
               f"chosen without novel samples, of the scores that can be exported: {told['threshold_score']}\n" in text)
    check_next(ole, text, "predict", "export")
    fixed = read_json(ole, *"fit X64.npy X.txt --out f.safetensors --json --lambda 0 --weight-decay 0.01".split())
    check_that("given settings are not searched", fixed["lambda"] == 0 and fixed["weight_decay"] == 0.01 and
               len(fixed["trials"]) == 1)
    given = read_json(ole, *"fit X.npy X.txt --out knn.safetensors --json --lambda 0 --weight-decay 0.01 --score knn".split())
    check_that(f"a given score: {given}", given["threshold_score"] == "knn" and "choice" not in given)
    done = ole.run(*"fit X.npy X.txt --out knn.safetensors --lambda 0 --weight-decay 0.01 --score knn".split())
    check_that(f"no export of it: {done.stderr}", done.stderr == "ole fit: a model with the score knn cannot be "
               "exported as ONNX; one with --score softmax, calibrated, energy, residual or cosine can\n")
    unknown = [sum(not one["known"] for one in read_json(ole, "predict", "knn.safetensors", f"{x}.npy", "--json"))
               for x in ("T", "far")]
    check_that(f"and its threshold: {unknown}", unknown[0] < 25 and unknown[1] > 24)
    judged = read_json(ole, *"eval m.safetensors npy:X.npy,X.txt,T.npy,T.txt --json".split())
    check_that(f"eval: {judged}", abs(judged["error"] - 100 * (1 - right)) < 1e-6 and judged["knn1_error"] < 15)
    pair = read_json(ole, *"eval m.safetensors T.npy T.txt --json".split())
    check_that(f"eval of two files takes all rows: {pair}", pair["n"] == 100 and pair["error"] == judged["error"])
    check(ole, "eval m.safetensors T.npy T.txt X.npy", code=2,
          err="ole eval: unexpected argument 'X.npy'; see 'ole eval --help'\n")
    check(ole, "eval m.safetensors digits T.txt", code=2, err="ole eval: 'digits' and 'T.txt': name one data set, or "
          "features as .npy, .npz or .csv and their labels, without a comma\n")
    long = "the name of a class of 34 letters."
    write(work, "long", [[i % 2 + 0.1 * i] for i in range(12)], [(long, "accept_reservations")[i % 2] for i in range(12)])
    ole.run(*"fit long.npy long.txt --out long.safetensors --lambda 0 --weight-decay 0.1 --no-unknown".split())
    text = ole.run(*"eval long.safetensors long.npy long.txt".split()).stdout
    check_that(f"long names: {text}", f"\n{'accept_reservations':32} " in text and "\nclass" + " " * 28 in text)
    done = ole.run(*"export m.safetensors --onnx m.onnx".split())
    check_that(f"export: {done.stderr}", done.returncode == 0 and (work / "m.onnx").stat().st_size > 500 and
               done.stdout.startswith("m.onnx: x [N, 12] to features [N, 5] and logits [N, 5]\n"))


def check_tables(ole, work):
    """A table that holds the labels too is read without them, as far as they can be told."""
    rows = npyfile.read(work / "X.npy")[2]
    names = (work / "X.txt").read_text().split()
    header = [f"m{i}" for i in range(DIM)]

    def write_table(name, last, kind):
        lines = [header + ([kind] if kind else [])]
        lines += [[str(x) for x in rows[DIM * i:DIM * (i + 1)]] + last(i) for i in range(len(names))]
        (work / name).write_text("".join(",".join(line) + "\n" for line in lines))
    write_table("plain.csv", lambda i: [], None)
    write_table("words.csv", lambda i: [names[i]], "intent")
    write_table("integers.csv", lambda i: [str(NAMES.index(names[i]))], "intent")
    expected = {"m.safetensors": None, "table": None}
    ole.run(*"train npy:words.csv,words.csv:intent --net FC8 --epochs 1 --out table --no-report".split())
    for model in expected:
        expected[model] = ole.run("predict", model, "plain.csv").stdout
    both = "13 columns, but the model takes 12 features, by their position; remove the column that holds the labels\n"
    for model, name, err in (("m.safetensors", "words", "column 13 holds words, so labels, and is ignored\n"),
                             ("table", "words", "the column 'intent' holds the labels and is ignored\n"),
                             ("table", "integers", "the column 'intent' holds the labels and is ignored\n"),
                             ("m.safetensors", "integers", both)):
        check(ole, f"predict {model} {name}.csv", err=f"ole predict: {name}.csv: {err}", code=int(err == both),
              out="" if err == both else expected[model].replace("plain.csv", f"{name}.csv"))
    done = ole.run(*"features m.safetensors words.csv --out W.npy W.txt".split())
    check_that(f"features: {done.stderr}", done.returncode == 0 and npyfile.read(work / "W.npy")[1] == (80, 5))


def check_apply(ole, work):
    told = read_json(ole, *"apply m.safetensors T.npy --out Z.npy --json".split())
    descr, shape, values = npyfile.read(work / "Z.npy")
    check_that(f"apply: {told}", (descr, shape) == ("<f4", (100, 5)) and told["n"] == 100 and told["d"] == 5)
    ole.run(*"features m.safetensors T.npy --out F.npy F.txt".split())
    check_that("apply gives the features of the model", npyfile.read(work / "F.npy")[2] == values)
    check(ole, "apply m.safetensors wide.npy --out Z2.npy", code=1,
          err="ole apply: wide.npy: rows have 13 dimensions, but the model takes 12\n")
    check(ole, "apply m.safetensors m.safetensors --out Z2.npy", code=1, err=ole.run(
        *"apply m.safetensors m.safetensors --out Z2.npy".split()).stderr)
    check(ole, "apply m.safetensors nan.npy --out Z2.npy", code=1,
          err="ole apply: nan.npy: row 7 holds NaN or Inf\n")
    check(ole, "predict m.safetensors nan.npy", code=1, err="ole predict: nan.npy: row 7 holds NaN or Inf\n")
    rows = [[0.5] * DIM] * 17000
    for descr in "<f4", "<f8":  # mapped and read, beyond the first block
        write(work, "long", rows[:16500] + [[math.inf] * DIM] + rows[16501:], descr=descr)
        check(ole, "apply m.safetensors long.npy --out Z2.npy", code=1,
              err="ole apply: long.npy: row 16500 holds NaN or Inf\n")
        done = ole.run(*"predict m.safetensors long.npy".split())
        check_that(f"predict: {done.stderr}", done.returncode == 1 and
                   done.stderr.startswith("ole predict: long.npy: row 16500 holds NaN or Inf"))
    check_that("nothing half-written", not (work / "Z2.npy").exists())


def cells(path, heading):
    """The rows of the table under a heading of a page, as lists of texts."""
    part = path.read_text().split(f">{heading}</h2>")[1].split("</table>")[0]
    return [[html.unescape(re.sub("<[^>]*>", "", cell)) for cell in re.findall(r"<t[hd].*?</t[hd]>", row)]
            for row in part.split("<tr")[1:]]


def check_report(ole, work):
    """The page of a model's file: what it says, why its score was chosen, and its features where data are named."""
    told = read_json(ole, *"report m.safetensors --data npy:X.npy,X.txt,T.npy,T.txt --json --no-tsne".split())
    judged = read_json(ole, *"eval m.safetensors npy:X.npy,X.txt,T.npy,T.txt --json".split())
    row = told["runs"][0]
    check_that(f"report: {told}", told["page"] == "m.html" and row["test_error"] == judged["error"] and
               row["angle_between"] > row["angle_within"])
    choice = read_json(ole, *"fit X.npy X.txt --out m.safetensors --json".split())["choice"]
    page = (work / "m.html").read_text()
    check_that("what is on it", all(text in page for text in ("Confusion matrix", "Angles between features", *NAMES)) and
               "Error after each epoch" not in page)
    facts = dict(cells(work / "m.html", "The model")[1:])
    check_that(f"facts: {facts}", facts["input"] == f"vectors of {DIM} numbers" and facts["classes"] == "5" and
               "samples by 'ole fit'" in facts["unknown"])
    table = cells(work / "m.html", "Which score to use")
    wanted = [[f"{s['mean']:.4f}", *(f"{g:.4f}" for g in s["groups"])] for s in choice["auroc"].values()]
    check_that(f"the choice: {table}", table[0] == ["score", "mean", *(f"group {g}" for g in range(1, 6)),
               "what it measures"] and [row[1:-1] for row in table[1:]] == wanted and sum("(chosen)" in row[0] for row in table) == 1)
    whole = read_json(ole, *"report m.safetensors --data npy:T.npy,T.txt --json --no-tsne --out whole.html".split())
    check_that(f"two files are shown whole: {whole}", whole["runs"][0]["error"] == judged["error"] and
               whole["runs"][0]["test_error"] is None)
    told = "warning: the model was fitted on rows of npy:X.npy,X.txt; errors will be too low, thresholds too high\n"
    for split in ("test", "train"):
        done = ole.run(*f"eval m.safetensors npy:X.npy,X.txt --split {split}".split())
        check_that(f"rows of the fit: {done.stderr}", "ole eval: " + told in done.stderr)
    done = ole.run(*"report m.safetensors --data npy:X64.npy,X.txt --no-tsne --out own.html".split())
    check_that(f"as doubles, reported: {done.stderr}", done.stderr == "ole report: " + told.replace("X.npy", "X64.npy")
               and "too low: the model was fitted on some of the 80 samples" in (work / "own.html").read_text())
    check_that("others", "fitted on" not in ole.run(*"eval m.safetensors npy:T.npy,T.txt".split()).stderr)
    before = (work / "m.safetensors").read_bytes()
    done = ole.run(*"novelty m.safetensors --known npy:X.npy,X.txt".split())
    check_that(f"no threshold from them: {done.stderr}", "fitted on rows" in done.stderr and done.returncode == 0 and
               "the threshold in m.safetensors stays as it is; --score S replaces it" in done.stderr and
               (work / "m.safetensors").read_bytes() == before)
    (work / "own.safetensors").write_bytes(before)
    done = ole.run(*"novelty own.safetensors --known npy:X.npy,X.txt --score softmax".split())
    check_that(f"unless a score is named: {done.stderr}", "stays as it is" not in done.stderr and
               (work / "own.safetensors").read_bytes() != before)
    (work / "bytes.npy").write_bytes(npyfile.array("|u1", (2, DIM), [7] * 2 * DIM))
    (work / "a;b.pgm").write_bytes(b"P5 8 8 255 " + bytes(64))
    check(ole, "predict m.safetensors a;b.pgm", code=1, err="ole predict: a;b.pgm: an image, but the model takes rows of "
          f"{DIM} features; make them, then predict: ole features BACKBONE 'a;b.pgm' --out F.npy L.txt && "
          "ole predict m.safetensors F.npy\n")
    check(ole, "predict m.safetensors none.jpg", code=1, err="ole predict: none.jpg: cannot open: No such file or directory\n")
    check(ole, "predict m.safetensors bytes.npy", code=1, err="ole predict: bytes.npy: features are uint8; save them "
          "with .astype('float32')\n")
    done = ole.run(*"report m.safetensors --out bare.html".split())
    check_that(f"without data: {done.stderr}", done.returncode == 0 and "--data" in done.stderr and
               "Confusion" not in (work / "bare.html").read_text() and cells(work / "bare.html", "The model"))
    (work / "strange.txt").write_text("alarm\n" * 99 + "weather\n")

    def wrong(args, message):
        check(ole, f"report {args} --out no.html", code=1, err=f"ole report: {message}\n")
        check_that("no page", not (work / "no.html").exists())

    wrong("m.safetensors --data npy:T.npy,strange.txt", "npy: the model does not know the class 'weather'")
    wrong("m.safetensors --data npy:wide.npy,T.txt", "the model takes vectors of 12, but the samples of npy are vectors "
          "of 13")
    wrong("m.safetensors m.safetensors", "m.safetensors: a file; only runs of 'ole train' share a page, so name it alone")
    wrong("X.npy", ole.run(*"eval X.npy npy:X.npy,X.txt".split()).stderr.split(": ", 1)[1].strip())


def check_none(ole, work):
    told = read_json(ole, *"fit X.npy X.txt --out none.safetensors --method none --json".split())
    check_that(f"none: {told}", told["features"] == DIM and told["lambda"] is None and told["trials"] == [])
    ole.run(*"apply none.safetensors X.npy --out same.npy".split())
    check_that("the rows as they are", (work / "same.npy").read_bytes()[-200:] == (work / "X.npy").read_bytes()[-200:])
    done = ole.run(*"predict none.safetensors X.npy".split())
    check_that(f"no classifier: {done.stderr}", done.returncode == 1 and "has no trained classifier" in done.stderr)


def check_transform(ole, work):
    """Where no step helps it says so; equal rows are warned of."""
    write(work, "apart", [[i % 2 * 9.0, (i + 1) % 2 * 9.0] for i in range(20)], [NAMES[i % 2] for i in range(20)])
    args = "fit apart.npy apart.txt --out tr.safetensors --method transform".split()
    told, text, note = read_json(ole, *args, "--json"), ole.run(*args).stdout, "no step helped: the map only scales the rows"
    check_that(f"transform: {told}, {text}", told["iterations"] == 0 and told["note"] == note and f" {note}\n" in text)
    told = read_json(ole, *"fit X.npy X.txt --out tr.safetensors --method transform --epochs 3 --json".split())
    check_that(f"steps: {told}", told["iterations"] == 3 and "note" not in told)
    write(work, "zeros", [[0.0, 0.0]] * 6, NAMES[:2] * 3)
    done = ole.run(*"fit zeros.npy zeros.txt --out z.safetensors --lambda 0 --weight-decay 0.1 --no-unknown".split())
    check_that(f"equal rows: {done.stderr}", done.returncode == 0 and done.stderr ==
               "ole fit: warning: zeros.npy: all rows are equal, so nothing tells the classes apart\n")


def check_labels(ole, work):
    """Numbers are names too; negative ones are ignored. One row per class leaves nothing to hold out."""
    told = read_json(ole, *"fit numbers.npy numbers.txt --out n.safetensors --json --balanced".split())
    check_that(f"numbers: {told}", told["rows"] == 64 and told["classes"] == 4)
    got = labels_of(read_json(ole, *"predict n.safetensors X.npy --threshold 0 --json".split()))
    check_that(f"named by numbers: {set(got)}", set(got) == {"0", "10", "20", "30"})
    told = read_json(ole, *"fit few.npy few.txt --out few.safetensors --json".split())
    check_that(f"one row per class: {told}", told["held_out"] == 0 and told["single_row_classes"] == 5 and
               "threshold" not in told)
    lonely = ole.run(*"fit lonely.npy lonely.txt --out l.safetensors --lambda 0 --weight-decay 0.01".split()).stdout
    check_that(f"one class of one row: {lonely}", "1 class has a single row and was never held out\n" in lonely)
    got = labels_of(read_json(ole, *"predict few.safetensors few.npy --json".split()))
    check_that(f"and yet a classifier: {got}", got == list(NAMES))


def check_mistakes(ole, work):
    def wrong(args, message, code=1):
        check(ole, f"fit {args} --out bad.safetensors", code=code, err=f"ole fit: {message}\n")
        check_that("nothing is written", not (work / "bad.safetensors").exists())

    wrong("nan.npy nan.txt", "nan.npy: row 7 holds NaN or Inf")
    wrong("one.npy one.txt", "one.txt: all rows have one class; a fit needs at least two")
    wrong("short.npy short.txt", "short.npy has 3 rows and short.txt has 2 labels; they must match")
    wrong("no.npy X.txt", "no.npy: cannot open: No such file or directory")
    wrong("X.npy X.txt --folds 1", "--folds 1: give at least 2, or 0", 2)
    wrong("X.npy X.txt --score no", "--score 'no': expected auto or one of " + ", ".join(
        "softmax calibrated residual cosine energy gen knn vim mahalanobis relative fdbd nci neco".split()), 2)
    for method, given, takes in (
            ("none", "score softmax", "linear or mlp, which have a classifier"), ("none", "lambda 3", "linear or mlp"),
            ("none", "balanced", "linear or mlp"), ("none", "epochs 3", "linear, mlp or transform"),
            ("transform", "lambda 1", "linear or mlp"), ("transform", "score auto", "linear or mlp, which have a classifier"),
            ("transform", "weight-decay auto", "linear or mlp"), ("linear", "width 64", "mlp"),
            ("linear", "batch-size 3", "mlp"), ("linear", "lr 9", "mlp"), ("mlp", "tolerance 0.1", "linear")):
        wrong(f"X.npy X.txt --method {method} --{given}",
              f"--{given.split()[0]} does not apply to --method {method}: give it with {takes}", 2)
    wrong("X.npy X.txt --score knn --no-unknown", "--score cannot be combined with --no-unknown", 2)
    for name in ("m.pt", "m", ".safetensors"):
        check(ole, f"fit X.npy X.txt --out {name}", code=2,
              err=f"ole fit: --out '{name}': models are .safetensors files; give a name with this ending\n")
        check_that(f"{name} is not written", not (work / name).exists())
    wrong("X.npy X.txt --lambda -1", "--lambda '-1': expected auto or a number from 0 to 1000000", 2)
    check(ole, "fit X.npy X.txt --out X.npy", code=2, err=ole.run(*"fit X.npy X.txt --out X.npy".split()).stderr)
    check_that("the input is spared", (work / "X.npy").stat().st_size > 3000)
    check(ole, "predict m.safetensors wide.npy", code=1, err="ole predict: the model takes vectors of 12, but the samples of "
          "wide.npy are vectors of 13\n")


def check_all(ole, work):
    write_inputs(work)
    check_linear(ole, work)
    check_tables(ole, work)
    check_apply(ole, work)
    check_report(ole, work)
    check_none(ole, work)
    check_transform(ole, work)
    check_labels(ole, work)
    check_mistakes(ole, work)


if __name__ == "__main__":
    run.conduct(__doc__, check_all)
