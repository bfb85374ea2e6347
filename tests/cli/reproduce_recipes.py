#!/usr/bin/env python3
"""reproduce_recipes.py OLE - the recipes of `ole reproduce`: the values of Table 2, mistakes in one's own,
what is refused before anything is trained or written, and the line of `ole train` that makes a run.
"""
import json
import re
import shlex
import shutil
from pathlib import Path
from fractions import Fraction

import run
from run import check, check_that

# Table 2, row by row: data, net, lambda, batch, epochs, then what softmax and OLE have in the paper, each with
# its deviation.  What the rows have in common is said below.
TABLE = {
    "svhn-densenet40": ("svhn", "densenet40-dropout", 1 / 2, 64, 300, 3.93, 0.08, 3.62, 0.04),
    "mnist-densenet40": ("mnist", "densenet40-dropout", 1 / 2, 64, 300, 0.88, 0.03, 0.78, 0.04),
    "cifar10+-densenet40": ("cifar10", "densenet40", 1 / 8, 64, 300, 5.54, 0.13, 5.30, 0.26),
    "cifar10+-resnet110": ("cifar10", "resnet110", 1 / 4, 64, 164, 6.05, 0.8, 5.39, 0.25),
    "cifar10+-vgg19": ("cifar10", "vgg19", 1 / 4, 64, 164, 7.37, 0.11, 7.13, 0.2),
    "cifar10+-vgg11": ("cifar10", "vgg11", 1 / 2, 64, 164, 8.06, 0.22, 7.73, 0.14),
    "cifar10-vgg16": ("cifar10", "vgg16", 1 / 2, 64, 164, 8.23, 0.13, 7.22, 0.14),
    "cifar100+-preresnet110": ("cifar100", "preresnet110", 1 / 20, 64, 164, 23.01, 0.19, 22.8, 0.34),
    "cifar100+-vgg19": ("cifar100", "vgg19", 1 / 10, 64, 164, 28.04, 0.42, 27.54, 0.11),
    "cifar100-vgg19": ("cifar100", "vgg19", 1 / 10, 64, 164, 38.15, 0.28, 37.25, 0.33),
    "facescrub500-vggface": ("folder:facescrub500", "vggface", 250, 26, 12, 2.49, 0.01, 1.55, 0.02),
    "stl10-cnn5": ("stl10", "cnn5", 1 / 16, 32, 164, 28.68, 0.67, 25.42, 0.20),
    "stl10+-cnn5": ("stl10", "cnn5", 1 / 4, 32, 164, 18.22, 0.27, 16.68, 0.24),
}
SGD = {"opt": "sgd", "lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 1e-4}
ADAM = {"opt": "adam", "lr": 1e-3, "weight_decay": 1e-4}
OTHER = {
    "facescrub500-vggface": {"lr": 1e-5, "weight_decay": 1e-3, "resize": 224, "channels": 3, "test_share": "20%",
                             "init_from": "vggface/VGG_FACE.caffemodel",
                             "normalize": "0.506613,0.410833,0.367035/0.003921569,0.003921569,0.003921569"},
    "cifar10-vgg16": {"init": "msra"},
    "stl10+-cnn5": {"weight_decay": 1e-3, "augment": ["crop:12", "flip"]},
}
NORMALIZE = {"cifar10+": "cifar", "cifar100+": "cifar", "cifar100": "cifar", "stl10": "half", "stl10+": "half"}


def expected(name):
    """All keys of a row's training, and the paper's numbers."""
    data, net, weight, batch, epochs, *numbers = TABLE[name]
    start = name.split("-")[0]
    train = {"data": data, "net": net, "loss": "softmax+ole", "lambda": weight, "epochs": epochs,
             "batch_size": batch, "milestones": ["50%", "75%"], "init": "xavier", "seeds": 5}
    train.update(ADAM if net in ("cnn5", "vggface") else SGD)
    if start in NORMALIZE:
        train["normalize"] = NORMALIZE[start]
    if start.endswith("+"):
        train["augment"] = ["crop:4", "flip"]
    train.update(OTHER.get(name, {}))
    return train, dict(zip(("softmax", "softmax_std", "ole", "ole_std"), numbers))


def value_of(text):
    if text.startswith("["):
        return [word.strip() for word in text[1:-1].split(",")]
    if text in ("true", "false"):
        return text == "true"
    if re.fullmatch(r"\d+/\d+", text):
        return float(Fraction(text))
    try:
        return float(text)
    except ValueError:
        return text


def read_recipe(text):
    """The keys of a recipe and of its block `paper`; folded text is left out."""
    top, block = {}, {}
    for line in text.splitlines():
        if match := re.fullmatch(r"( {2})?(\w+): (.+)", line):
            (block if match[1] else top)[match[2]] = value_of(match[3])
    return top, block


def check_table(ole):
    for place, name in enumerate(TABLE, 1):
        top, block = read_recipe(ole.run("reproduce", name, "--print").stdout)
        train, numbers = expected(name)
        run.report(f"{name}: the recipe", [f"{key}: {top.get(key)}, not {train.get(key)}"
                                           for key in sorted({*top, *train}) if top.get(key) != train.get(key)])
        check_that(f"{name}: the paper's numbers", {key: block.get(key) for key in numbers} == numbers and
                   block["shows"] == f"Table 2, row {place}" and block["kind"] == "compare")


def check_pretrained(ole):
    """VGG-FACE has no batch norm: its weights want what they were trained on, pixels of 0 to 255 less the mean of
    red, green and blue that its authors publish. Images come as 0 to 1."""
    for name in ("facescrub500-vggface", "fig6"):
        how = read_recipe(ole.run("reproduce", name, "--print").stdout)[0].get("normalize", "")
        if "/" not in how:
            run.report(f"{name}: images as VGG-FACE was trained on", [f"normalize is '{how}'"])
            continue
        means, deviations = ([float(word) for word in half.split(",")] for half in how.split("/"))
        wrong = [f"{pixel} of channel {i} is {(pixel / 255 - means[i]) / deviations[i]}, not {pixel - mean}"
                 for i, mean in enumerate((129.1863, 104.7624, 93.5940)) for pixel in (0, 100, 255)
                 if abs((pixel / 255 - means[i]) / deviations[i] - (pixel - mean)) > 1e-3]
        run.report(f"{name}: images as VGG-FACE was trained on", wrong)


# ---- One's own recipes ----------------------------------------------------------------------------

def write(work, file, note="kind: compare", **train):
    """A recipe of a small network on digits; `note` is the rest of its block, on lines."""
    values = {"data": "digits", "net": "C4-MP-FC8", "lambda": 0.25, "epochs": 2, "batch_size": 32, "seeds": 1,
              "samples_per_class": 6, **train}
    lines = [f"{key}: {value}" for key, value in values.items() if value is not None]
    (work / file).write_text("\n".join(lines) + "\npaper:\n  title: T\n  shows: S\n" +
                             "".join(f"  {line}\n" for line in note.split("\n")))
    return file


def borrow(work, file, note):
    return write(work, file, note, data=None, net=None, epochs=None, batch_size=None, seeds=None,
                 samples_per_class=None, **{"lambda": None})


def reproduce(ole, *args, out="out"):
    return ole.run("reproduce", *args, "--device", "cpu", "--threads", "1", "--out", out)


def results(work, out="out"):
    return {row["name"]: row for row in json.loads((work / out / "results.json").read_text())["rows"]}


def fails(name, ole, args, message, code=2, out="out"):
    done = reproduce(ole, *args, out=out)
    run.report(name, [] if done.returncode == code and message in done.stderr else
               [f"{message}\nis not in\n{done.stderr}({done.returncode})"])


def check_mistakes(ole, work):
    write(work, "many.yaml", "lambdas: [0, 0.1, 0.2]")
    check(ole, "reproduce many.yaml", code=2, err="ole reproduce: many.yaml: paper: lambdas: softmax is compared with "
          "one lambda above 0: give one, or a recipe for each; the kind tune takes many\n")
    write(work, "many.yaml", "kind: sweep\nsamples: [2, 4]\nlambdas: [0.1, 0.2]")
    fails("a sweep with two", ole, ["many.yaml", "--dry-run"], "many.yaml: paper: lambdas: softmax is compared with one lambda above 0")
    write(work, "many.yaml", "kind: tune\nlambdas: [0, 0.1, 0.2]")
    check_that("a tuning has many", reproduce(ole, "many.yaml", "--dry-run").returncode == 0)
    write(work, "draw.yaml", "draw: [angles, spektrum]")
    check(ole, "reproduce --list draw.yaml", code=2, err="ole reproduce: draw.yaml: paper: draw 'spektrum': expected "
          "one of angles, angle-histogram, spectrum, class-spectra, overlaps, map, space, curves\n")
    write(work, "quick.yaml", "quick: 0")
    check(ole, "reproduce --list quick.yaml", code=2, err="ole reproduce: quick.yaml: paper: quick '0': expected a "
          "whole number from 1 to 1000000\n")
    write(work, "kind.yaml", "kind: compar")
    check(ole, "reproduce --list kind.yaml", code=2, err="ole reproduce: kind.yaml: paper: kind 'compar': expected "
          "one of compare, tune, sweep, novelty, features, curves\n")
    long = write(work, "x" * 64 + ".yaml")
    fails("a long name", ole, [long], "the file's name needs 1 to 63 characters before the ending")
    check_that("63 characters will do", reproduce(ole, write(work, "x" * 63 + ".yml"), "--dry-run").returncode == 0)
    for hidden in (".hidden.yaml", "...yaml"):
        fails("a hidden name", ole, [write(work, hidden)], f"{hidden}: the file's name needs 1 to 63 characters before "
              "the ending and must not start with a dot")
    write(work, "samples.yaml", "kind: sweep\nlambdas: [0, 0.25]")
    fails("a sweep of nothing", ole, ["samples.yaml"], "samples.yaml: paper: the kind sweep needs samples, as "
          "samples: [50, 100]")
    write(work, "zero.yaml", **{"lambda": 0})
    fails("softmax against itself", ole, ["zero.yaml"], "zero.yaml: lambda is 0: softmax must be compared "
          "with a lambda above 0")
    write(work, "most.yaml", f"kind: tune\nlambdas: {list(range(17))}")
    fails("too many values", ole, ["most.yaml"], "expected 1 to 16 comma-separated numbers")
    (work / "there").mkdir()
    write(work, "there/mine.yaml")
    write(work, "mine.yaml")
    fails("two of one name", ole, ["mine.yaml", "there/mine.yaml"], "two rows are called mine; name one of them")
    check_that("nothing was made", not (work / "out").exists())


def check_novelty(ole, work):
    """What would show only when all is trained is found before."""
    def bad(name, message, note="novel_classes: [8, 9]", code=2, **train):
        values = {"val_split": "25%", "classes": "[0, 1, 2]", **train}
        write(work, "novel.yaml", f"kind: novelty\n{note}", **values)
        fails(name, ole, ["novel.yaml"], message, code)

    needs = "novel.yaml: paper: the kind novelty needs"
    bad("nothing is held out", f"{needs} val_split", val_split=None)
    bad("nothing is novel", f"{needs} classes (the known ones) and, in 'paper', novel_classes", note="verify: true")
    bad("everything is known", f"{needs} classes (the known ones) and, in 'paper', novel_classes", classes=None)
    bad("no classifier", f"{needs} a classifier: loss softmax+ole", loss="ole")
    bad("no such class", "novel: digits: no class 'x'", note="novel_classes: [8, x]", code=1)
    bad("one that is known", "novel: paper: novel_classes: '2' is among the known classes", note="novel_classes: [2, 9]",
        code=1)
    check_that("nothing was trained", not (work / "out/novel").exists())


def check_sources(ole, work):
    """Figures of other recipes' runs."""
    borrow(work, "ff.yaml", "kind: features\nfrom: fig7\ndraw: spectrum")
    for args in (["--list", "ff.yaml"], ["ff.yaml"], ["--dry-run", "ff.yaml"]):
        check(ole, "reproduce " + " ".join(args), code=2, err="ole reproduce: ff: paper: from fig7: it has no runs of "
              "its own, but shows those of cifar10-vgg16: name that one\n")
    borrow(work, "fig7.yaml", "kind: features\nfrom: fig7.yaml\ndraw: spectrum")
    fails("a figure of itself", ole, ["fig7.yaml"], "from fig7.yaml: it has no runs of its own")
    borrow(work, "stl10-cnn5.yaml", "kind: curves\nfrom: stl10-cnn5")
    fails("a figure by its source's name", ole, ["stl10-cnn5.yaml"], "both are called stl10-cnn5")
    borrow(work, "lost.yaml", "kind: curves\nfrom: stl10-cn5")
    fails("a source that is not there", ole, ["lost.yaml"], "unknown row stl10-cn5; did you mean stl10-cnn5? "
          "'ole reproduce --list' shows them\nole reproduce: lost: paper: from stl10-cn5: ")
    write(work, "made.yaml", seeds=2)
    borrow(work, "of.yaml", "kind: features\nfrom: made.yaml\ndraw: spectrum")
    done = reproduce(ole, "of.yaml", out="files")
    got = results(work, "files")
    check_that("from a file", done.returncode == 0 and "effective rank of all features" in done.stdout and
               got["of"]["measures"] and got["made"]["seeds"] == 1 and
               (work / "files/of/figures/ole-spectrum.svg").exists())
    # In one command a figure takes its row's runs: no other net, no fewer seeds.
    borrow(work, "curves.yaml", "kind: curves\nfrom: stl10-cnn5")
    write(work, "stl10-cnn5.yaml", seeds=2)
    done = reproduce(ole, "curves.yaml", "stl10-cnn5.yaml", "of.yaml", out="shared")
    got = results(work, "shared")
    check_that("a row and its figure", done.returncode == 0 and got["stl10-cnn5"]["seeds"] == 2 and
               got["stl10-cnn5"]["ended"] == 4 and "curves" in got)
    text = reproduce(ole, "stl10-cnn5.yaml", "curves.yaml", out="shared")
    check_that("the row first", text.returncode == 0 and results(work, "shared")["stl10-cnn5"]["seeds"] == 2)
    alone = reproduce(ole, "curves.yaml", out="shared")
    check_that("curves have no table", alone.returncode == 0 and alone.stdout.lstrip().startswith("report "))


def check_refused(ole, work):
    """A command that is refused changes nothing, and is refused before anything is trained."""
    write(work, "small.yaml")
    write(work, "bad.yaml", net="bogus")
    fails("a bad net", ole, ["bad.yaml"], "bogus", out="refused")
    fails("no such precision", ole, ["small.yaml", "--precision", "fp16"], "precision 'fp16'", out="refused")
    fails("a bad net behind a good one", ole, ["small.yaml", "bad.yaml"], "ole reproduce: bad: ", out="refused")
    check_that("nothing was made", not (work / "refused").exists())
    write(work, "second.yaml")
    first = reproduce(ole, "second.yaml", out="refused")
    kept = {path: path.read_bytes() for path in (work / "refused").rglob("*") if path.is_file()}
    write(work, "second.yaml", "note: other epochs", epochs=3)
    fails("a folder that does not fit", ole, ["second.yaml"], "epochs '2', not '3'", out="refused")
    dry = reproduce(ole, "second.yaml", "--dry-run", out="refused")
    check_that("its dry run says so", "not timed: refused/second: the study has epochs '2', not '3'" in dry.stdout)
    fails("the same behind a good row", ole, ["small.yaml", "second.yaml"],
          "ole reproduce: second: refused/second: the study has epochs '2', not '3'", out="refused")
    check_that("nothing was changed", first.returncode == 0 and
               kept == {path: path.read_bytes() for path in (work / "refused").rglob("*") if path.is_file()})
    write(work, "second.yaml", "note: more seeds", seeds=2)
    check_that("an accepted recipe is kept", reproduce(ole, "second.yaml", out="refused").returncode == 0 and
               (work / "refused/second/recipe.yaml").read_text() == (work / "second.yaml").read_text())


# ---- Weights and data ------------------------------------------------------------------------------

def check_weights(ole, work):
    """Runs from other first weights are not averaged with these."""
    for name, seed in (("w1", 0), ("w2", 1)):
        ole.run("train", "digits", "--net", "C4-MP-FC8", "--epochs", "1", "--samples-per-class", "6", "--device",
                "cpu", "--seed", str(seed), "--out", name, "--no-report")
        shutil.copy(work / name / "last.safetensors", work / f"{name}.safetensors")
    write(work, "tuned.yaml", init_from="w1.safetensors")
    check_that("from w1", reproduce(ole, "tuned.yaml").returncode == 0)
    write(work, "tuned.yaml", init_from="w2.safetensors", seeds=2)
    fails("from w2", ole, ["tuned.yaml"], "out/tuned: the study has init_from 'w1.safetensors', not 'w2.safetensors'; "
          "resume with the same, or choose another folder")
    write(work, "tuned.yaml", seeds=2)
    fails("from none", ole, ["tuned.yaml"], "init_from 'w1.safetensors', not ''")
    (work / "weights").mkdir()
    (work / "w1.safetensors").rename(work / "weights/moved.safetensors")
    write(work, "tuned.yaml", init_from="weights/moved.safetensors", seeds=2)
    done = reproduce(ole, "tuned.yaml")
    check_that("moved", done.returncode == 0 and results(work)["tuned"]["ended"] == 4)
    shutil.copy(work / "w2.safetensors", work / "weights/moved.safetensors")
    fails("others in the same file", ole, ["tuned.yaml"], "whose weights have changed since")


def write_faces(folder):
    for person in range(2):
        (folder / f"p{person}").mkdir(parents=True)
        for i in range(5):
            (folder / f"p{person}/{i}.pgm").write_bytes(
                b"P5\n8 8\n255\n" + bytes((100 * person + 31 * i + 7 * k) % 256 for k in range(64)))


def check_data(ole, work):
    """The same data at another path."""
    write_faces(work / "one/faces8")
    shutil.copytree(work / "one", work / "two")
    write(work, "faces.yaml", data="folder:faces8", net="FC4", samples_per_class=None, seeds=1)
    borrow(work, "facefig.yaml", "kind: features\nfrom: faces\ndraw: spectrum")
    ole.environment["OLE_DATA"] = str(work / "one")
    check_that("in one place", reproduce(ole, "faces.yaml").returncode == 0)
    shutil.rmtree(work / "one")
    write(work, "other.yaml")
    away = reproduce(ole, "other.yaml")
    check_that("away: what has ended is in the results", away.returncode == 0 and
               results(work)["faces"]["ended"] == 2)
    ole.environment["OLE_DATA"] = str(work / "two")
    done = reproduce(ole, "faces.yaml", "--seeds", "2")
    check_that("in another", done.returncode == 0 and results(work)["faces"]["ended"] == 4)
    figure = reproduce(ole, "facefig.yaml")
    check_that("a figure of them", figure.returncode == 0 and results(work)["facefig"]["measures"])
    del ole.environment["OLE_DATA"]
    home = Path(ole.environment["HOME"])
    shutil.move(work / "two", home / "data")
    check_that("in ~/data", reproduce(ole, "facefig.yaml").returncode == 0)
    shutil.rmtree(home / "data")


# ---- The line of --dry-run -------------------------------------------------------------------------

def metrics(folder):
    """What a run measured, less its times."""
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [{key: line[key] for key in line if key.endswith(("loss", "error")) or key in ("epoch", "lr")}
            for line in lines if line["event"] in ("epoch", "end")]


def check_line(ole, work):
    """The line, with the lambda of a run, trains that run."""
    write(work, "line.yaml", net="'C4(x2)-MP-FC8'", opt="sgd", lr=0.05, momentum=0.8, nesterov="false",
          milestones="[50%]", gamma=0.5, weight_decay="1e-3", augment="[crop:2, flip]", normalize="half", init="msra",
          classes="['1', '3', '7']", sampler="balanced:3x4", test_share="30%")
    plan = reproduce(ole, "line.yaml", "--dry-run")
    line = next(line for line in plan.stdout.splitlines() if line.startswith("  ole train "))
    check_that("reproduced", reproduce(ole, "line.yaml").returncode == 0)
    for flags, folder in ((["--lambda", "0.25"], "lambda-0.25"), (["--loss", "softmax"], "lambda-0")):
        done = ole.run(*shlex.split(line)[1:], *flags, "--out", f"line/{folder}", "--no-report")
        check_that(f"the line's run, {folder}", done.returncode == 0 and
                   metrics(work / "line" / folder) == metrics(work / f"out/line/{folder}/seed-0"))
    stl = reproduce(ole, "stl10+-cnn5", "--dry-run").stdout
    check_that("STL-10+'s line", "ole train stl10 --net cnn5 --epochs 164 --batch-size 32 --opt adam --lr 0.001 "
               "--weight-decay 0.001 --augment crop:12,flip --normalize half --device cpu" in stl)
    toy = reproduce(ole, "fig2-faces", "--dry-run").stdout
    check_that("the toy's line", all(f" {flag}" in toy for flag in (
        "--loss ole", "--milestones none", "--classes baldwin,bracco,butler", "--resize 224", "--channels 3",
        "--samples-per-class 110")))
    tuned = reproduce(ole, "fig4", "--dry-run").stdout
    check_that("a tuning's line", "--val-split 0.1 --skip-test" in tuned)


def check_all(ole, work):
    check_table(ole)
    check_pretrained(ole)
    check_mistakes(ole, work)
    check_novelty(ole, work)
    check_sources(ole, work)
    check_refused(ole, work)
    check_weights(ole, work)
    check_data(ole, work)
    check_line(ole, work)


if __name__ == "__main__":
    run.conduct(__doc__, check_all)
