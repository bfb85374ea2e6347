#!/usr/bin/env python3
"""reproduce_results.py OLE - what `ole reproduce` says came out, against the runs themselves.

Means, deviations and counts are computed here again from each run's metrics.jsonl and from numbers.csv,
and compared with results.json, results.md and the table that is printed.
"""
import csv
import json
import re
import shutil
import statistics

import run
from run import check_that

SIDES = ("softmax", "ole")
BASE = """data: digits
net: C4-MP-FC8
samples_per_class: 12
batch_size: 32
epochs: 2
lambda: 0.25
seeds: 2
"""


# ---- What the runs say ----------------------------------------------------------------------------

def end_of(folder):
    """The last line of a finished run; {} of another."""
    path = folder / "metrics.jsonl"
    if (folder / "failed.txt").exists() or not path.exists():
        return {}
    line = json.loads(path.read_text().splitlines()[-1])
    return line if line["event"] == "end" else {}


def runs_of(folder):
    """All runs of a study's folder: side, lambda, samples, part, and how they ended."""
    with open(folder / "results.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    return [{**row, "lambda": float(row["lambda"]), "end": end_of(folder / row["folder"]),
             "failed": (folder / row["folder"] / "failed.txt").exists(),
             "side": "ole" if float(row["lambda"]) > 0 else "softmax"} for row in rows]


def measures_of(folder):
    path = folder / "numbers.csv"
    if not path.exists():
        return []
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def numbers_of(folder):
    return [one for one in measures_of(folder) if one["side"] and one["measure"] != "figures"]


def drawn(folder):
    """The runs that the figures show."""
    return [(one["side"], one["seed"]) for one in measures_of(folder) if one["measure"] == "figures"]


def as_version_0_1(folder):
    """The three files of version 0.1 in place of numbers.csv."""
    rows, data = [one for one in measures_of(folder) if one["side"]], {}
    for one in measures_of(folder):
        data.setdefault(one["measure"], one["value"])
    (folder / "numbers.csv").write_text("side,seed,measure,value,run\n" + "".join(
        f'{one["side"]},{one["seed"]},"{one["measure"]}",{one["value"]},{one["run"]}\n'
        for one in rows if one["measure"] != "figures"))
    if "training samples" in data:
        (folder / "samples.csv").write_text('train,test,part\n{training samples},{test samples},"{part of the data}"\n'
                                            .format(**data))
    if "figures" in data:
        (folder / "drawn.csv").write_text("side,seed,run\n" + "".join(
            f'{one["side"]},{one["seed"]},{one["run"]}\n' for one in rows if one["measure"] == "figures")
            + f"draw,,{data['figures']}\n")


def source_of(out, name):
    match = re.search(r"(?m)^  from: (.*)$", (out / name / "recipe.yaml").read_text())
    return out / (match[1] if match else name)


def chosen(runs):
    """The lambda with the smallest mean validation error."""
    grid = {}
    for one in runs:
        if one["part"] == "grid":
            grid.setdefault(one["lambda"], []).append(one["end"]["validation_error"])
    return min(sorted(grid), key=lambda value: statistics.mean(grid[value]))


def values_of(out, name, measure, side):
    """What a measure is the mean of; None where it is the best run alone."""
    ended = [one for one in runs_of(source_of(out, name)) if one["end"]]
    runs = [one for one in ended if one["side"] == side]
    samples = re.fullmatch(r"accuracy, (\d+) samples per class", measure)
    if any(one["part"] == "retrain" for one in ended):
        picked = chosen(ended)
        part = "grid" if measure == "validation error" else "retrain"
        key = "validation_error" if part == "grid" else "test_error"
        return [one["end"][key] for one in runs if one["part"] == part and one["lambda"] in (0, picked)]
    if samples:
        return [100 - one["end"]["test_error"] for one in runs if one["samples_per_class"] == samples[1]]
    if measure.startswith("accuracy of 1-NN"):
        return [100 - one["end"]["knn1_error"] for one in runs]
    if measure in ("test error", "error of 1-NN"):
        return [one["end"]["test_error" if measure == "test error" else "knn1_error"] for one in runs]
    return [float(one["value"]) for one in numbers_of(out / name)
            if one["side"] == side and one["measure"] == measure]


def expect(out, name, measure, side):
    """Mean, deviation and number of runs."""
    values = values_of(out, name, measure, side)
    if not values:
        return None, None, 0
    if measure.endswith("best run"):
        return max(values), None, len(values)
    return statistics.mean(values), statistics.stdev(values) if len(values) > 1 else None, len(values)


def close(a, b, tolerance=1e-9):
    return a is None and b is None or None not in (a, b) and abs(a - b) <= tolerance


# ---- What the results say -------------------------------------------------------------------------

def results(out):
    return {row["name"]: row for row in json.loads((out / "results.json").read_text())["rows"]}


def measures(out, name):
    return {m["measure"]: m for m in results(out)[name]["measures"]}


def table_cells(text):
    """results.md: the cells of each line, by row and measure."""
    lines = [re.split(r" (?<!\\)\| ", line[2:-2]) for line in text.splitlines() if line.startswith("| ")]
    names = [cell.strip() for cell in lines[0]]
    return {(cells[0], cells[2]): dict(zip(names, (cell.strip() for cell in cells))) for cells in lines[1:]}


def number_of(text):
    """"7.22 ± 0.14" or "-"."""
    parts = [float(part) for part in text.replace("-", "").split(" ± ") if part]
    return (parts + [None, None])[:2]


def printed_cells(text, name, label):
    """Ours of a line of the table on stdout."""
    under = ""
    for line in text.splitlines():
        if not line.startswith(" "):
            under = line.split(": ")[0]
        elif under == name and line.startswith(f"  {label} "):
            return re.findall(r"-(?= )|[\d.]+(?: ± [\d.]+)?", line[2 + len(label):])[2:4]
    return ["", ""]


def check_means(out, printed, *names):
    """Everything that results.json, results.md and the printed table (of these rows; all) say of our runs."""
    cells = table_cells((out / "results.md").read_text())
    for name, row in results(out).items():
        runs = runs_of(source_of(out, name))
        diverged = sum(one["failed"] for one in runs)
        check_that(f"{name}: runs", row["diverged"] == diverged and
                   row["ended"] == diverged + sum(bool(one["end"]) for one in runs))
        for m in row["measures"]:
            label = m["measure"] + (", " + m["unit"] if m["unit"] else "")
            line = cells[name, label]
            said = printed_cells(printed, name, label) if not names or name in names else None
            for i, side in enumerate(SIDES):
                ours, (mean, std, count) = m["ours"][side], expect(out, name, m["measure"], side)
                what = f"{out.name}/{name}: {m['measure']}, {side}"
                check_that(f"{what}: {ours} is {mean} ± {std} of {count}", close(ours["mean"], mean) and
                           close(ours["std"], std) and ours["runs"] == count)
                column = line["ours: " + ("softmax", "with OLÉ")[i]]
                for where, text in (("results.md", column), ("printed", said and said[i])):
                    got = number_of(text) if text is not None else (mean, std)
                    check_that(f"{what}, {where}: {text}", close(got[0], mean, 0.00501) and
                               close(got[1], std, 0.00501))


# ---- Making them ----------------------------------------------------------------------------------

def write_recipe(work, name, notes, base=BASE):
    (work / f"{name}.yaml").write_text(f"{base}paper:\n  title: Digits\n" + "".join(
        f"  {key}: {value}\n" for key, value in {"shows": "Mine", **notes}.items()))
    return f"{name}.yaml"


def reproduce(ole, *args):
    return ole.run("reproduce", *args, "--device", "cpu", "--threads", "1")


def check_kinds(ole, work):
    """Every kind of recipe: means of the runs, on the side they are of."""
    toy = BASE.replace("C4-MP-FC8", "FC8-FC3") + "loss: ole\n"
    sweep = BASE.replace("samples_per_class: 12\n", "")
    files = [write_recipe(work, "mine", {"draw": "angles"}), write_recipe(work, "toy", {"draw": "space"}, toy),
             write_recipe(work, "tuned", {"kind": "tune", "lambdas": "0,0.01,0.25"}),
             write_recipe(work, "swept", {"kind": "sweep", "lambdas": "0,0.25", "samples": "6,12"}, sweep),
             write_recipe(work, "novel", {"kind": "novelty", "novel_classes": "8,9"}, BASE + "classes: 0,1,2,3,4,5,6,7\nval_split: 0.25\n"),
             write_recipe(work, "looked", {"kind": "features", "from": "mine", "draw": "[spectrum, angle-histogram]"})]
    reproduce(ole, *files[:-1], "--out", "kinds")
    done = reproduce(ole, *files, "--out", "kinds")
    check_that(f"all kinds: {done.stderr}", done.returncode == 0 and list(results(work / "kinds")) ==
               sorted(file[:-5] for file in files))
    check_means(work / "kinds", done.stdout)
    widest = max(len(line) for line in done.stdout.splitlines())
    check_that(f"the printed table is narrow: {[line for line in done.stdout.splitlines() if len(line) == widest]}",
               60 < widest <= 100)
    tuned = results(work / "kinds")["tuned"]
    check_that(f"the chosen lambda: {tuned['lambda_ours']}", tuned["lambda_ours"] ==
               chosen(runs_of(work / "kinds/tuned")) > 0)
    sides = measures(work / "kinds", "mine")["test error"]["ours"]
    check_that("the sides differ, so that they cannot be taken for each other",
               sides["softmax"]["mean"] != sides["ole"]["mean"])
    return done


# ---- Where and when -------------------------------------------------------------------------------

def check_place(ole, work):
    out = work / "kinds"
    row = results(out)["mine"]
    dates = [one["end"]["date"] for one in runs_of(out / "mine")]
    check_that("device, precision and date", (row["device"], row["precision"], row["date"]) ==
               ("cpu", "fp32", max(dates)))
    line = table_cells((out / "results.md").read_text())["mine", "test error, %"]
    check_that("... in results.md", line["made on"] == "cpu, fp32" and line["last run"] == max(dates)[:10])
    for name in ("results.md", "report.html"):
        check_that(f"... in {name}", f"on cpu in fp32, the last on {max(dates)[:10]}" in (out / name).read_text())
    path = out / "swept" / runs_of(out / "swept")[-1]["folder"] / "metrics.jsonl"
    path.write_text(path.read_text().replace('"device": "cpu"', '"device": "cuda"'))
    done = reproduce(ole, "swept.yaml", "--out", "kinds")
    check_that("two devices", done.returncode == 0 and results(out)["swept"]["device"] ==
               "cpu and cuda" and "on cpu and cuda in fp32" in (out / "results.md").read_text())


def check_brought(ole, work):
    """Runs of a machine with a card, in a folder that was brought to one without."""
    out = work / "brought"
    shutil.copytree(work / "kinds", out)
    for path in [*out.rglob("config.yaml"), *out.rglob("study.json")]:
        path.write_text(path.read_text().replace("device: cpu", "device: cuda"))
    ole.environment["OLE_CUDA_MODULE"] = str(work / "no-such.so")
    shutil.rmtree(out / "looked")
    done = ole.run("reproduce", "looked.yaml", "--out", "brought")
    check_that(f"figures of runs that have ended need no card: {done.stderr}", done.returncode == 0 and
               (out / "looked/figures/ole-spectrum.svg").exists())
    check_that("they stay those of a card", "device: cuda" in (out / "mine/config.yaml").read_text())
    done = ole.run("reproduce", "looked.yaml", "--out", "brought", "--epochs", "9", "--precision", "bf16")
    check_that(f"what is shown instead is said: {done.stderr}", done.returncode == 0 and
               "looked: shows the existing runs of 2 epochs; for 9 use another --out\n" in done.stderr
               and "looked: shows the existing runs in fp32; for bf16 use another --out\n" in done.stderr)
    for name in ("mine", "tuned"):
        done = ole.run("reproduce", f"{name}.yaml", "--device", "cuda", "--out", "brought")
        check_that(f"nor do results: {done.stderr}", done.returncode == 0)
    done = ole.run("reproduce", "mine.yaml", "--device", "cuda", "--seeds", "3", "--out", "brought")
    check_that(f"more runs do: {done.stderr}", done.returncode == 1 and "no-such.so" in done.stderr)
    del ole.environment["OLE_CUDA_MODULE"]


# ---- Runs that diverged ---------------------------------------------------------------------------

def let_diverge(folder):
    """Leaves a run as the trainer leaves one that diverges: without an end, with the reason."""
    path = folder / "metrics.jsonl"
    path.write_text("".join(path.read_text().splitlines(True)[:1]))
    for checkpoint in folder.glob("*.safetensors"):
        checkpoint.unlink()
    (folder / "failed.txt").write_text("the loss is nan\n")


def check_diverged(ole, work):
    """The first seed of a side diverged: it is said, and the others are shown."""
    out = work / "some"
    shutil.copytree(work / "kinds", out)
    for name in ("mine", "novel"):
        let_diverge(out / name / "lambda-0.25/seed-0")
    files = ["novel.yaml", "mine.yaml", "looked.yaml"]
    done = reproduce(ole, *files, "--out", "some")
    check_that(f"diverged runs are no error: {done.stderr}", done.returncode == 0)
    check_means(out, done.stdout, "mine", "novel", "looked")
    for name in ("mine", "novel", "looked"):
        row = results(out)[name]
        check_that(f"{name}: one diverged", row["diverged"] == 1 and row["ended"] == 4 and row["complete"])
    for name in ("mine", "novel"):
        error = measures(out, name)["test error"]["ours"]
        check_that(f"{name}: on its side", (error["softmax"]["diverged"], error["ole"]["diverged"],
                                            error["softmax"]["runs"], error["ole"]["runs"]) == (0, 1, 2, 1))
        check_that(f"{name}: printed", re.search(rf"(?m)^{name}: .*\n(  .*\n)*  .*  2 and 1 \(0 and 1 diverged\)", done.stdout))
        cells = table_cells((out / "results.md").read_text())
        check_that(f"{name}: results.md", cells[name, "test error, %"]["runs"] == "2 and 1 (0 and 1 diverged)")
    check_that("novelty leaves the seed out", measures(out, "novel")["AUROC of known and novel"]["ours"]["ole"]["runs"] == 1)
    for name in ("results.md", "report.html"):
        check_that(f"{name} says so", "4 of 4 runs, 1 of them diverged, " in (out / name).read_text())
    for name in ("mine", "looked", "novel"):
        check_that(f"{name}: figures of the first that finished",
                   drawn(out / name)[:2] == [("softmax", "0"), ("ole", "1")])
    check_that("no run with it", "not finished" not in done.stderr)
    # All of a side: what is left is shown, and the rows after it are made.
    (work / "wild.yaml").write_text((work / "novel.yaml").read_text().replace("lambda: 0.25", "lambda: 1e30"))
    write_recipe(work, "curves", {"kind": "curves", "from": "wild"})
    first = reproduce(ole, "wild.yaml", "mine.yaml", "--out", "wild")
    check_that("the row after it is made", first.returncode == 0 and "mine" in results(work / "wild"))
    done = reproduce(ole, "wild.yaml", "curves.yaml", "mine.yaml", "--out", "wild")
    check_that(f"a side that diverged: {done.stderr}", done.returncode == 0 and
               "ole reproduce: wild: all runs diverged of softmax + OLÉ: nothing to show\n"
               in done.stderr and list(results(work / "wild")) == ["curves", "mine", "wild"])
    check_means(work / "wild", done.stdout)
    check_that("its other side", (work / "wild/wild/figures/novelty.svg").exists() and
               (work / "wild/curves/figures/accuracy.svg").exists() and
               results(work / "wild")["wild"]["diverged"] == 2)


# ---- Figures of runs that were made anew ----------------------------------------------------------

def check_anew(ole, work):
    out = work / "anew"
    for file in ("mine.yaml", "looked.yaml"):
        reproduce(ole, file, "--out", "anew")
    before, page = numbers_of(out / "looked"), (out / "looked/figures.html").read_bytes()
    reproduce(ole, "looked.yaml", "--out", "anew")
    check_that("the same runs: nothing is drawn again", numbers_of(out / "looked") == before and
               (out / "looked/figures.html").read_bytes() == page)
    said = (out / "results.json").read_text()
    for name in ("mine", "looked"):
        as_version_0_1(out / name)
    reproduce(ole, "looked.yaml", "--out", "anew")
    check_that("a folder of version 0.1: its numbers and figures are ours", (out / "results.json").read_text() == said
               and drawn(out / "looked") == [] and (out / "looked/figures.html").read_bytes() == page and
               "drawn before some runs were trained again" not in (out / "report.html").read_text())
    shutil.rmtree(out / "mine")
    reproduce(ole, "mine.yaml", "--epochs", "1", "--out", "anew")
    check_that("numbers of other runs are not ours", results(out)["looked"]["measures"] == [] and
               "drawn before some runs were trained again" in (out / "report.html").read_text())
    done = reproduce(ole, "looked.yaml", "--out", "anew")
    after = numbers_of(out / "looked")
    check_that("drawn again", done.returncode == 0 and len(after) == len(before) and
               all(a["value"] != b["value"] and a["run"] != b["run"] for a, b in zip(after, before)) and
               (out / "looked/figures.html").read_bytes() != page and
               "drawn before some runs were trained again" not in (out / "report.html").read_text())
    check_means(out, done.stdout, "looked")
    (work / "looked.yaml").write_text((work / "looked.yaml").read_text().replace("spectrum", "angles"))
    reproduce(ole, "looked.yaml", "--out", "anew")
    check_that("another figure is asked for", (out / "looked/figures/ole-angles.svg").exists())


def check_best(ole, work):
    """More seeds: the figures are of the best run of all."""
    def best(side):
        runs = [one for one in runs_of(work / "best/toy") if one["side"] == side]
        return min(runs, key=lambda one: one["end"]["knn1_error"])["seed"]

    seen = []
    for seeds in ("1", "6"):
        done = reproduce(ole, "toy.yaml", "--seeds", seeds, "--out", "best")
        shown = drawn(work / "best/toy")
        check_that(f"the best of {seeds}", done.returncode == 0 and shown == [(side, best(side)) for side in SIDES])
        check_that("its numbers alone", {(n["side"], n["seed"]) for n in numbers_of(work / "best/toy")} == set(shown))
        seen.append(shown)
    check_that("the best is another", seen[0] != seen[1])


# ---- Words ----------------------------------------------------------------------------------------

def check_unread(ole, work):
    """A row that cannot be read is named, in the results and by the command."""
    for name in ("one", "two"):
        write_recipe(work, name, {})
        reproduce(ole, f"{name}.yaml", "--seeds", "1", "--epochs", "1", "--out", "unread")
    (work / "unread/one/study.json").write_text("{")
    done = reproduce(ole, "two.yaml", "--seeds", "1", "--epochs", "1", "--out", "unread")
    why = "unread/one/study.json: damaged, or from another program; choose another folder for a new study"
    got = json.loads((work / "unread/results.json").read_text())
    check_that(f"a row that cannot be read: {done.stderr}", done.returncode == 0 and
               done.stderr.endswith(f"ole reproduce: row one is not in the results: {why}\n") and
               got["unread"] == [{"name": "one", "reason": why}] and list(results(work / "unread")) == ["two"] and
               all(why in (work / "unread" / file).read_text() for file in ("results.md", "report.html")))


def check_words(ole, work):
    note = "A long note. " * 60 + "Its end."
    write_recipe(work, "noted", {"kind": "tune", "lambdas": "0,0.25", "note": note})
    done = reproduce(ole, "noted.yaml", "--seeds", "1", "--epochs", "1", "--out", "words")
    page, text = ((work / "words" / file).read_text() for file in ("report.html", "results.md"))
    check_that("a long note", "Its end." in page and "Its end." in text)
    check_that("a choice that the paper does not have", all("nan" not in out.lower() for out in (done.stdout, text)) and
               "λ chosen on the validation set: " in page and "; the paper's: " not in page)


def check_end_of_training(ole, work):
    """Features are those at the end, also where something held out has chosen a best epoch."""
    write_recipe(work, "held", {}, BASE + "val_split: 0.25\n")
    write_recipe(work, "seen", {"kind": "features", "from": "held", "draw": "spectrum"})
    reproduce(ole, "held.yaml", "--seeds", "1", "--out", "end")
    for path in (work / "end").rglob("best.safetensors"):
        path.write_bytes(b"")
    done = reproduce(ole, "seen.yaml", "--out", "end")
    check_that(f"the last model: {done.stderr}", done.returncode == 0 and numbers_of(work / "end/seen"))


def check_alone(ole, work):
    """Of OLE alone a sweep and a tuning tell 1-NN."""
    base = BASE + "loss: ole\n"
    files = [write_recipe(work, "tunes", {"kind": "tune", "lambdas": "0.25,1"}, base),
             write_recipe(work, "sweeps", {"kind": "sweep", "lambdas": "0.25", "samples": "6,12"},
                          base.replace("samples_per_class: 12\n", ""))]
    reproduce(ole, *files, "--epochs", "1", "--out", "alone")
    tunes, sweeps = (measures(work / "alone", name) for name in ("tunes", "sweeps"))
    check_that(f"1-NN: {list(tunes)}, {list(sweeps)}", tunes["error of 1-NN"]["ours"]["ole"]["mean"] is not None and
               sweeps["accuracy of 1-NN, 12 samples per class"]["ours"]["ole"]["mean"] is not None)


# ---- The command ----------------------------------------------------------------------------------

def check_command(ole, work, out, name, expected):
    """Runs a row's command as it is printed: nothing is left to do, and the results stay."""
    before = results(work / out)
    command = before[name]["command"]
    check_that(f"the command of {name}: {command}", command == expected and
               f"\n    {command}\n" in (work / out / "results.md").read_text())
    done = ole.run("--device", "cpu", "--threads", "1", shell='program=$1; shift; ole() { "$program" "$@"; }; ' +
                   command.replace("$", "\\$") + ' "$@"')
    check_that(f"... works: {done.stderr}", done.returncode == 0 and "\nrun " not in "\n" + done.stderr and
               results(work / out) == before)


def check_commands(ole, work):
    write_recipe(work, "it's mine", {})
    reproduce(ole, "it's mine.yaml", "--seeds", "1", "--epochs", "1", "--out", "a place")
    check_command(ole, work, "a place", "it's mine", "ole reproduce 'a place/it'\\''s mine/recipe.yaml' --seeds 1 "
                  "--epochs 1 --out 'a place'")
    check_command(ole, work, "kinds", "looked", "ole reproduce kinds/looked/recipe.yaml --seeds 2 --out kinds")
    quick = (work / "swept.yaml").read_text().replace("  kind:", "  quick: 4\n  kind:")
    (work / "swept.yaml").write_text(quick)
    reproduce(ole, "swept.yaml", "--quick")
    check_command(ole, work, "reproduced-quick", "swept",
                  "ole reproduce reproduced-quick/swept/recipe.yaml --quick --seeds 1")
    check_that("the samples of a quick sweep", results(work / "reproduced-quick")["swept"]["train_samples"] == 40)
    reproduce(ole, "mine.yaml", "--quick", "--epochs", "4", "--out", "four")
    (work / "mine.yaml").write_text((work / "mine.yaml").read_text().replace("  title:", "  quick: 5\n  title:"))
    reproduce(ole, "mine.yaml", "--quick", "--epochs", "4", "--out", "five")
    check_command(ole, work, "four", "mine", "ole reproduce four/mine/recipe.yaml --seeds 1 --epochs 4 --eval-every 2 "
                  "--out four")
    check_command(ole, work, "five", "mine", "ole reproduce five/mine/recipe.yaml --quick --seeds 1 --epochs 4 "
                  "--out five")


# ---- The table ------------------------------------------------------------------------------------

def check_table(ole, work):
    write_recipe(work, "bars", {"shows": "'Mine | yours'"})
    reproduce(ole, "bars.yaml", "--seeds", "1", "--epochs", "1", "--out", "many")
    line = table_cells((work / "many/results.md").read_text())["bars", "test error, %"]
    check_that("a bar in a cell", line["of the paper"] == "Mine \\| yours" and line["made on"] == "cpu, fp32")
    for i in range(70):
        shutil.copytree(work / "many/bars", work / f"many/bars-{i}")
    done = reproduce(ole, "bars.yaml", "--seeds", "1", "--epochs", "1", "--out", "many")
    check_that("71 rows", done.returncode == 0 and len(results(work / "many")) == 71)


def check_all(ole, work):
    check_kinds(ole, work)
    check_place(ole, work)
    check_brought(ole, work)
    check_diverged(ole, work)
    check_anew(ole, work)
    check_best(ole, work)
    check_unread(ole, work)
    check_words(ole, work)
    check_end_of_training(ole, work)
    check_alone(ole, work)
    check_commands(ole, work)
    check_table(ole, work)


if __name__ == "__main__":
    run.conduct(__doc__, check_all)
