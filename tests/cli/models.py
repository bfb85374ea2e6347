#!/usr/bin/env python3
"""models.py OLE - what commands make of a trained model: `eval`, `features`, `predict`.

Data are those of the run, as it held them out; of two files there are both or none; a classifier that
was not trained gives no labels.  Samples are named: by their files, and their classes by name.
"""
import csv
import json
import os
import pty
import random
import re
import shutil
import struct
import subprocess

import npyfile
import run
from run import check, check_that, read_json

QUICK = "--epochs 1 --threads 1 --no-report --json"


def single(text):
    """The float32 that a text means."""
    return struct.unpack("<f", struct.pack("<f", float(text)))[0]


def rows_of(ole, work, args):
    """How many features there are."""
    done = ole.run("features", *args.split(), "--out", "F.npy", "L.npy")
    check_that(f"features {args}: {done.stderr}", done.returncode == 0)
    return npyfile.read(work / "F.npy")[1][0]


# ---- Files and names ----------------------------------------------------------------------------

def check_both_files(ole, work):
    """Where one of the two files cannot be written, there is neither; an older one stays."""
    def wrong(features, labels):
        before = {path.name: path.read_bytes() for path in work.iterdir() if path.is_file()}
        bad = features if features.startswith("no/") else labels
        check(ole, f"features m digits --out {features} {labels}", code=1,
              err=f"ole features: {bad}: cannot write: No such file or directory\n")
        after = {path.name: path.read_bytes() for path in work.iterdir() if path.is_file()}
        check_that(f"{features} {labels}: files as they were", after == before)

    ole.run(*f"train digits --net FC8 {QUICK} --out m".split())
    wrong("new.npy", "no/L.npy")
    wrong("no/F.npy", "new.npy")
    (work / "old.npy").write_bytes(b"old")
    (work / "link.npy").symlink_to("old.npy")
    wrong("old.npy", "no/L.npy")
    wrong("link.npy", "no/L.npy")
    check_that("features over old ones", rows_of(ole, work, "m digits") ==
               rows_of(ole, work, "m digits") and not list(work.glob("*.part")))


def on_terminal(ole, *args):
    """What is shown where stdout and stderr are a terminal."""
    master, end = pty.openpty()
    job = subprocess.Popen([ole.path, *args], cwd=ole.work, env=ole.environment, stdout=end, stderr=end)
    os.close(end)
    shown = b""
    while True:
        try:
            more = os.read(master, 1 << 16)
        except OSError:  # the other end is closed
            break
        shown += more
    os.close(master)
    job.wait(60)
    return shown


def check_names(ole, work):
    """Control characters of names are shown to a terminal, not obeyed; data that are piped stay."""
    name = "a\033[31m\u009b31m\u00e9.pgm"
    (work / name).write_bytes(b"P5 8 8 255\n" + bytes(64))
    escaped = "a\\x1b[31m\\xc2\\x9b31m\u00e9.pgm: "
    check_that("piped", ole.run("predict", "m", name).stdout.startswith(name + ": "))
    shown = on_terminal(ole, "predict", "m", name)
    check_that(f"on a terminal: {shown}", escaped.encode() in shown and name.encode() not in shown)
    shown = on_terminal(ole, "predict", name, "x")
    check_that(f"in a message: {shown}", b"\033[31m" not in shown and b"ole predict: " in shown)
    piped = ole.run("predict", name, "x").stderr
    check_that(f"in a piped message: {piped}", "\033[31m" not in piped and piped.startswith("ole predict: "))


def check_closed_pipes(ole, work):
    """When the reader ends, predict ends quietly by SIGPIPE; a training goes on and is saved."""
    (work / "many.npy").write_bytes(npyfile.array("<f4", (5000, 8, 8), [1] * 320000))
    ended = 'sh -c \'"$@"; echo $? >code\' sh "$@" | head -n 1; cat code'
    check(ole, "predict m many.npy --json", "[\n141\n", shell=ended)
    done = ole.run(*f"train digits --net FC4 {QUICK} --out unread".split(),
                   shell='{ sleep 0.2; "$@"; echo $? >code; } | true; cat code')
    check_that(f"an unread training: {done.stdout} {done.stderr}", done.stdout == "141\n" and
               "ipe" not in done.stderr and (work / "unread/best.safetensors").exists())


# ---- The data of the run ------------------------------------------------------------------------

def write_photos(folder, classes=("day", "night"), count=60):
    for c, name in enumerate(classes):
        (folder / name).mkdir(parents=True)
        for i in range(count):
            pixels = bytes((i * i * (c + 2) + 37 * k * (i + c)) % 251 for k in range(64))
            (folder / name / f"{i:02}.pgm").write_bytes(b"P5 8 8 255\n" + pixels)


def check_test_share(ole, work):
    """A folder's test part is what the run held out, however model and folder are written."""
    write_photos(work / "photos")
    trained = read_json(ole, *f"train folder:photos --net FC8 --test-share 5% {QUICK} --out shared"
                        .split())
    said = "ole eval: as in shared/config.yaml: --test-share 5%\n"
    for model, data in (("shared", "folder:photos"), ("shared/best.safetensors", "folder:./photos/")):
        done = ole.run("eval", model, data)
        check_that(f"eval {model} {data}: {done.stderr}", done.stderr == said and
                   done.stdout.startswith("samples                  6\n"))
    judged = read_json(ole, *"eval shared folder:photos --json".split())
    check_that("the errors of the training", judged["error"] == trained["test_error"] and
               judged["knn1_error"] == trained["knn1_error"])
    check_that("features", rows_of(ole, work, "shared folder:photos") == 6 and
               rows_of(ole, work, "shared folder:photos --split train") == 102 and
               rows_of(ole, work, "shared folder:photos --split validation") == 12)
    shutil.copytree(work / "photos", work / "others")
    done = ole.run("eval", "shared", "folder:others")
    check_that(f"other photos: {done.stderr}", done.stdout.startswith("samples                  24\n") and
               done.stderr == "ole eval: 24 of the 120 samples of folder:others, a share of each class; "
               "'--test-share 0 --split train' uses all\n")


def check_predictions(ole, work):
    """eval --out: a line per sample, with its file or its number; nothing of the input is overwritten."""
    judged = read_json(ole, *"eval shared folder:photos --out p.csv --json".split())
    with open(work / "p.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    check_that("columns", list(rows[0]) == ["file", "true", "predicted", "score", "runner-up"])
    check_that(f"files: {rows}", judged["predictions"] == "p.csv" and len(rows) == judged["n"] == 6 and
               all((work / row["file"]).is_file() and row["file"].startswith(f"photos/{row['true']}/")
                   and {row["predicted"], row["runner-up"]} == {"day", "night"} for row in rows))
    wrong = sum(row["true"] != row["predicted"] for row in rows)
    check_that("the error is that of the rows", judged["error"] == 100 * wrong / 6)
    names = [row["file"] for row in rows]
    alone = read_json(ole, "predict", "shared", *names, "--threshold", "0", "--json")
    check_that("as predict has it", all(p["label"] == row["predicted"] and
                                        abs(p["score"] - float(row["score"])) < 1e-4
                                        for p, row in zip(alone, rows, strict=True)))
    done = ole.run(*"eval m --out p.csv".split())
    with open(work / "p.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    numbers = [int(row["row"]) for row in rows]
    check_that(f"numbers: {done.stderr}", numbers == sorted(set(numbers)) and
               "\npredictions              p.csv\n" in done.stdout)
    for out, code, why in (("shared/best.safetensors", 2, "would overwrite an input; name another file"),
                           ("no/p.csv", 1, "cannot write: No such file or directory")):
        done = ole.run("eval", "shared", "folder:photos", "--out", out)
        check_that(f"eval --out {out}: {done.stderr}", done.returncode == code and done.stdout == "" and
                   done.stderr.endswith(f"ole eval: {out}: {why}\n" if code == 1 else f"ole eval: {out} {why}\n"))


def check_unknown(ole, work):
    """Every training has a threshold: held out where each class has 20 samples, else cross-fitted; text, JSON and
    page tell it, and a run resumes with what it held out."""
    header = b"P5 8 8 255\n"
    for count in (24, 25):
        for c, name in enumerate(("day", "night")):
            (work / f"few{count}" / name).mkdir(parents=True)
            for i in range(count):
                pixels = bytes((97 * c + 31 * i + 7 * k * (c + 1)) % 256 for k in range(64))
                (work / f"few{count}" / name / f"{i:02}.pgm").write_bytes(header + pixels)
    train = f"train folder:few25 --net FC8 {QUICK} --epochs 3 --out"
    told = {name: (ole.run(*args.split())) for name, args in {
        "held": f"{train} held25", "crossed": f"{train.replace('few25', 'few24')} crossed",
        "off": f"{train} off25 --calibration 0", "none": f"{train} none25 --no-unknown",
        "chosen": f"{train} chosen25 --val-split 10%"}.items()}
    unknown = {name: json.loads(done.stdout).get("unknown") for name, done in told.items()}
    said = "ole train: held out 4 samples to set the threshold for 'unknown'; --calibration 0 trains on them too\n"
    check_that(f"said: {told['held'].stderr}", said in told["held"].stderr and
               not any("held out" in told[name].stderr for name in ("crossed", "off", "none", "chosen")))
    check_that(f"found: {unknown}", [(u["from"], u["samples"]) if u else u for u in unknown.values()] ==
               [("held-out", 4), ("cross-fitted", 38), ("cross-fitted", 40), None, ("held-out", 4)])
    check_that("a threshold", all(0.4 < u["threshold"] <= 1 and u["score"] == "calibrated"
                                  for u in unknown.values() if u))
    stored = {name: (work / folder / "config.yaml").read_text() for name, folder in
              (("held", "held25"), ("crossed", "crossed"), ("off", "off25"))}
    check_that("stored where it was", ["calibration: 0.1\n" in text for text in stored.values()] == [True, False, False])
    ole.run(*f"{train} whole25 --epochs 4".split())
    more = ole.run(*"train --resume --out held25 --epochs 4 --restart-schedule --threads 1 --no-report --json".split())
    again = json.loads(more.stdout)["unknown"]
    check_that(f"resumed: {more.stderr}", again["from"] == "held-out" and "held out" not in more.stderr)
    done = ole.run("eval", "held25", "--split", "validation")
    check_that(f"its samples: {done.stderr}", done.stdout.startswith("samples                  4\n"))
    done = ole.run("novelty", "held25")
    check_that(f"novelty from them: {done.stderr}", "the threshold from 4 for validation" in done.stdout)
    last = json.loads(ole.run(*"train --resume --out held25 --threads 1 --no-report --json".split()).stdout)["unknown"]
    used = read_json(ole, *"predict held25 few25/day/00.pgm --json".split())[0]
    check_that(f"ended, resumed, it tells what predict uses: {last} {used}", (last["score"], last["threshold"]) ==
               (used["threshold_score"], used["threshold"]))
    ole.run(*"report held25 --no-tsne".split())
    check_that("the page tells it", re.search(r"unknown</t[dh]>\s*<td[^>]*>under 0\.\d{4}",
                                             (work / "held25/report.html").read_text()))
    text = ole.run(*f"train folder:few25 --net FC8 --epochs 1 --threads 1 --no-report --out text25".split()).stdout
    check_that(f"the text: {text}", re.search(r"\nunknown +under [01]\.\d{4}: 95 % of 4 held-out samples reach it\n", text))


def check_page_names(ole, work):
    """On the page mistakes have the names of their files, and so has each point of the map."""
    write_photos(work / "alike/one", ("any",), 40)
    (work / "alike/other").mkdir()
    for path in (work / "alike/one/any").iterdir():
        shutil.copy(path, work / "alike/other" / path.name)
        path.rename(work / "alike/one" / f"1-{path.name}")
    (work / "alike/one/any").rmdir()
    ole.run(*"train folder:alike --net FC8 --epochs 2 --threads 1 --out named".split())
    told = read_json(ole, *"eval named --out alike.csv --json".split())
    with open(work / "alike.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    wrong = [row for row in rows if row["true"] != row["predicted"]]
    page = (work / "named/report.html").read_text()
    titles = re.findall(r'<li><img [^>]*alt="([^"]*)"', page)
    check_that(f"mistakes: {wrong} {titles}", 0 < len(titles) <= len(wrong) and told["n"] == len(rows) == 16 and
               {(words.split("\n")[0], words.split("\n")[-1]) for words in titles} <=
               {(f"{row['true']} → {row['predicted']}", os.path.basename(row["file"])) for row in wrong})
    files = re.search(r'data-files="([^"]*)"', page)[1].split("\n")
    check_that(f"the map: {files}", sorted(files) == sorted(os.path.relpath(row["file"], "alike") for row in rows))


def check_photos_stay(ole, work):
    """No output replaces an image of the data, named or of the run, nor a file of another set."""
    photo, packed = work / "photos/day/03.pgm", work / "packed/train-images-idx3-ubyte"
    packed.parent.mkdir()
    for name in ("train-images-idx3-ubyte", "train-labels-idx1-ubyte"):
        (work / "packed" / name).write_bytes(b"kept")
    before, out = photo.read_bytes(), "./photos/day/03.pgm"
    for args in (f"eval shared --out {out}", f"eval shared folder:photos --out {out}",
                 f"features shared --out {out} L.npy", f"features shared photos --out F.npy {out}",
                 f"report shared --out {out}", f"export shared --onnx {out}",
                 f"novelty shared --scores {out}", f"novelty m --novel folder:photos --out {out}",
                 "eval m mnist:packed --out packed/train-images-idx3-ubyte"):
        done = ole.run(*args.split())
        check_that(f"{args}: {done.stderr}", done.returncode in (1, 2) and photo.read_bytes() == before and
                   packed.read_bytes() == b"kept")
        if args.split()[1] == "shared":
            check_that(f"{args}: {done.stderr}", done.returncode == 2 and
                       done.stderr.endswith(f": {out} would overwrite an input; name another file\n"))
    check_that("a page among them", ole.run(*"report shared --no-tsne --out photos/page.html".split()).returncode == 0)
    (work / "photos/page.html").unlink()


def check_own_data(ole, work):
    """Without data, those of the run, from any folder; a model without a run says what to name."""
    elsewhere = run.Program(ole.path, work / "elsewhere")
    (work / "elsewhere").mkdir()
    where = f"folder:{work}/photos"
    for command in ("eval", "predict", "features"):
        files = ["--out", "F.npy", "L.npy"] if command == "features" else []
        own, named = (elsewhere.run(command, str(work / "shared"), *data, *files) for data in ([], [where]))
        if command == "predict":
            check_that(f"predict: {own.stderr}", own.returncode == 0 and own.stdout.count("\n") == 6 and
                       own.stdout.startswith(f"{work}/photos/day/"))
        else:
            check_that(f"{command} of the run's data: {own.stderr}", own.stdout == named.stdout != "" and
                       own.stderr == f"ole {command}: {where}, the run's data\n" + named.stderr)
    rows = [int(line.split(":")[0].removeprefix("row ")) for line in ole.run("predict", "m").stdout.splitlines()]
    samples = read_json(ole, *"predict m --json".split())
    check_that("in JSON", [p["row"] for p in samples] == rows)
    shutil.copy(work / "shared/best.safetensors", work / "elsewhere/lone.safetensors")
    for command, what in (("eval", "the data, such as npy:X.npy,y.npy or folder:photos"),
                          ("predict", "files, such as X.npy or cat.jpg")):
        check(elsewhere, f"{command} lone.safetensors", code=2, err=f"ole {command}: lone.safetensors: no "
              f"config.yaml beside it records the data it was trained on; name {what}\n")


def check_rows(ole, work):
    """Samples of arrays go by their row in the file, whichever split they are in."""
    rng = random.Random(3)
    labels = [rng.randrange(3) for _ in range(60)]
    values = [rng.gauss(2 * (d == y), 0.3) for y in labels for d in range(4)]
    (work / "rows.npy").write_bytes(npyfile.array("<f4", (60, 4), values))
    (work / "named.npy").write_bytes(npyfile.array("<i4", (60,), labels))
    ole.run(*f"train npy:rows.npy,named.npy --net FC4 {QUICK} --out rows".split())
    wanted = [p["label"] for p in read_json(ole, *"predict rows rows.npy --json".split())]
    own = read_json(ole, *"predict rows --json".split())
    check_that(f"rows: {own}", 0 < len(own) < 60 and all(p["label"] == wanted[p["row"]] for p in own))
    ole.run(*"eval rows --split train --out rows.csv".split())
    header, *lines = [line.split(",") for line in (work / "rows.csv").read_text().splitlines()]
    check_that(f"by row: {header}", header[0] == "row" and {int(line[0]) for line in lines}.isdisjoint(p["row"] for p in own)
               and all(int(line[1]) == labels[int(line[0])] for line in lines))


def check_file_lists(ole, work):
    """predict takes files, folders with what is in them, and names from stdin."""
    (work / "photos/.hidden.pgm").write_bytes(b"nothing")
    (work / "photos/notes.txt").write_text("no image")
    inside = ole.run("predict", "shared", "photos").stdout.splitlines()
    names = [f"photos/{name}/{i:02}.pgm" for name in ("day", "night") for i in range(60)]
    check_that("a folder", [line.split(": ")[0] for line in inside] == names)
    (work / "list").write_text("\n\n".join(names[58:62]))
    listed = ole.run("predict", "shared", "-", names[0], shell='"$@" <list')
    check_that(f"names from stdin: {listed.stderr}", listed.stdout.splitlines() == inside[58:62] + inside[:1])
    (work / "list").write_text("nowhere.pgm\nphotos/day/00.pgm\n")
    listed = ole.run("predict", "shared", "-", shell='"$@" <list')
    check_that("one that is missing", listed.returncode == 1 and listed.stdout.splitlines() == inside[:1] and
               listed.stderr.startswith("ole predict: nowhere.pgm: "))
    (work / "list").write_text("photos/day/00.pgm\r\nphotos/day/01.pgm\r\n")
    listed = ole.run("predict", "shared", "-", shell='"$@" <list')
    check_that(f"lines of Windows: {listed.stderr}", listed.stdout.splitlines() == inside[:2])
    piped = ole.run("predict", "shared", "-", shell='cat photos/day/00.pgm | "$@"')
    check_that(f"an image on stdin: {piped.stdout}{piped.stderr}",
               piped.stdout == inside[0].replace(names[0], "/dev/stdin") + "\n")
    (work / "cut.png").write_bytes(b"\x89PNG\r\n\x1a\n\0\0")
    check(ole, "predict shared -", code=1, shell='cat cut.png | "$@"', err=ole.run(
        "predict", "shared", "cut.png").stderr.replace("cut.png", "/dev/stdin"))
    (work / "list").write_bytes(b"photos/day/00.pgm\0photos/day/01.pgm\0")
    check(ole, "predict shared -", code=1, shell='"$@" </dev/null', err="ole predict: stdin: empty; expected an image or "
          "file names, one per line\n")
    check(ole, "predict shared -", code=1, shell='"$@" <list', err="ole predict: stdin: neither an image nor a list "
          "of file names, one per line (it holds NUL bytes)\n")
    (work / "empty").mkdir()
    check(ole, "predict shared empty", code=1, err="ole predict: empty: no images in this folder\n")


def check_feature_names(ole, work):
    """features writes the names of classes, or of image files, and analyze uses them."""
    ole.run(*"features shared folder:photos --out F.npy L.npy".split())
    ole.run(*"features shared folder:photos --out G.npy L.txt".split())
    labels = npyfile.read(work / "L.npy")
    check_that(f"texts: {labels}", labels == ("<U5", (6,), ("day",) * 3 + ("night",) * 3))
    done = ole.run(*"features shared folder:photos --out F.csv L.csv".split())
    with open(work / "F.csv", newline="") as file:
        table = list(csv.reader(file))
    check_that(f"a table: {done.stderr}", table[0] == [f"f{i + 1}" for i in range(8)] and
               [single(x) for row in table[1:] for x in row] == list(npyfile.read(work / "F.npy")[2]) and
               (work / "L.csv").read_text().splitlines() == ["label", *labels[2]])
    check_that("read again", round(read_json(ole, *"score F.csv L.csv:label --json".split())["loss"], 4) ==
               round(read_json(ole, *"score F.npy L.npy --json".split())["loss"], 4))
    check(ole, "features shared folder:photos --out F.npz L.npy", code=2,
          err="ole features: F.npz: arrays are written as .npy or .csv files\n")
    check_that("lines", (work / "L.txt").read_text().splitlines() == list(labels[2]) and
               (work / "F.npy").read_bytes() == (work / "G.npy").read_bytes())
    page = ole.run(*"analyze F.npy L.npy --no-tsne --out a.html".split())
    check_that(f"analyze: {page.stderr}", page.returncode == 0 and "night" in (work / "a.html").read_text())
    ole.run(*"features m --out N.npy M.npy".split())
    check_that("numbers", npyfile.read(work / "M.npy")[0] == "<i8")
    files = [f"photos/{name}" for name in ("night/07.pgm", "day/03.pgm")]
    done = ole.run("features", "shared", *files, "--out", "I.npy", "I.txt")
    check_that(f"images: {done.stdout}{done.stderr}", (work / "I.txt").read_text().splitlines() == files and
               done.stdout == "I.npy: 2 features of 8 dimensions; I.txt: the names of their files\n")
    ole.run(*"features shared photos/day --out I.npy J.npy".split())
    check_that("a folder", npyfile.read(work / "J.npy")[2] == tuple(f"photos/day/{i:02}.pgm" for i in range(60)))
    every = npyfile.read(work / "I.npy")[2]
    kept = read_json(ole, *"eval shared folder:photos --out p.csv --json".split())
    with open(work / "p.csv", newline="") as file:
        first = int(next(csv.DictReader(file))["file"][11:13])
    check_that(f"the same features: {kept['n']}", every[8 * first:8 * first + 8] == npyfile.read(work / "F.npy")[2][:8])
    before = (work / "I.npy").read_bytes()
    check(ole, "features shared photos/notes.txt photos/day/03.pgm --out I.npy J.npy", code=1,
          err="ole features: photos/notes.txt: byte 0: not a png, jpeg, webp, bmp, tiff, pgm or ppm image\n")
    check_that("nothing is written", (work / "I.npy").read_bytes() == before)
    check(ole, "features shared photos/day/03.pgm --out photos/day/03.pgm J.npy", code=2,
          err="ole features: photos/day/03.pgm would overwrite an input; name another file\n")


def check_classes(ole, work):
    """Classes of other data are the model's of the same names; a table keeps them apart."""
    shutil.copytree(work / "photos/night", work / "nights/night")
    judged = read_json(ole, *"eval shared folder:nights --json".split())
    check_that(f"one of two classes: {judged}", [row["n"] for row in judged["per_class"]] == [0, 12] and
               judged["confusion"][0] == [0, 0] and judged["error"] == judged["per_class"][1]["error"] and
               abs(judged["balanced_accuracy"] + judged["error"] - 100) < 1e-9)
    every = read_json(ole, *"eval shared folder:others --test-share 0 --split train --json".split())
    done = ole.run(*"features shared folder:others --test-share 0 --split train --out F.npy L.npy".split())
    alone = read_json(ole, *"analyze F.npy L.npy --json".split())
    check_that(f"all samples, none its own neighbour: {every['knn1_error']}, {done.stderr}", every["n"] == 120 and
               every["knn1_error"] == alone["errors"]["knn1_error"] > 0)
    (work / "others/night").rename(work / "others/dusk")
    check(ole, "eval shared folder:others --test-share 20%", code=1, err="ole eval: folder: the model does "
          "not know its class 'dusk'; name the others with --classes\n")
    (work / "others/day").rename(work / "others/dawn")
    done = ole.run("eval", "shared", "folder:others")
    check_that(f"none of the names: {done.stderr}", done.returncode == 0 and done.stderr.endswith(
               "\nole eval: warning: the model knows none of folder's class names; classes are "
               "matched by their order\n"))


def check_strange_names(ole, work):
    """Names of classes that are no UTF-8, that steer a terminal, that are long."""
    names = [b"caf\xe9", "漢字のとても長い名前です、十六字より".encode(), b"red\033[31m\n"]
    write_photos(work / "strange", [os.fsdecode(name) for name in names], 12)
    ole.run(*f"train folder:strange --net FC8 --val-split 20% {QUICK} --out strange-run".split())
    done = ole.run(*"eval strange-run folder:strange".split())
    check_that(f"eval: {done.stdout}", done.returncode == 0 and
               "\ncaf\ufffd                      2 " in done.stdout and
               "\n漢字のとても長い名前です、十六字より        2 " in done.stdout)
    shown = on_terminal(ole, "eval", "strange-run", "folder:strange")
    check_that(f"on a terminal: {shown}", b"\nred\\x1b[31m\\x0a           2 " in shown)
    done = ole.run(*"novelty strange-run --known folder:strange --novel folder:photos --json".split())
    check_that(f"novelty: {done.stderr}", done.returncode == 0)


def check_steering(ole, work):
    """Text from a run's config.yaml and from recipes is shown to a terminal, not obeyed."""
    steers, yaml = "\033[31m\u009b31m", r"\e[31m\x9b31m"

    def shows(*args, text):
        shown = on_terminal(ole, *args)
        check_that(f"{args}: {shown}", b"\033[31m" not in shown and "\u009b".encode() not in shown and
                   text.encode() in shown)

    shutil.copytree(work / "shared", work / "away")
    (work / "away/config.yaml").write_text(f'data: "folder:gone{yaml}"\n')
    shows("eval", "away", "folder:photos", text="the run's data, folder:gone\\x1b[31m\\xc2\\x9b31m, cannot")
    (work / "away/config.yaml").write_text(f'"epo{yaml}": 3\n')
    shows("eval", "away", "folder:photos", text="unknown option epo?[31m??31m")
    write_photos(work / f"steers{steers}", ["day", "red" + steers], 12)
    ole.run("train", f"folder:steers{steers}", *f"--net FC8 {QUICK} --out s".split(), "--classes", f"red{steers},day")
    shows("eval", "s", f"folder:steers{steers}", text="--classes red\\x1b[31m\\xc2\\x9b31m,day")
    for i in range(12, 20):
        shutil.copy(work / f"steers{steers}/day/03.pgm", work / f"steers{steers}/day/{i}.pgm")
    shows("eval", "s", f"folder:steers{steers}", text="the samples of folder:steers\\x1b[31m")
    write_photos(work / f"one{steers}", ["day"], 8)
    (work / "c.yaml").write_text(f'data: "folder:one{yaml}"\nout: "out{yaml}"\nnet: FC4\nepochs: 1\n')
    shows("train", "--config", "c.yaml", text="folder:one?[31m??31m has a single class")
    write_photos(work / f"one{steers}", ["night"], 8)
    shows("train", "--config", "c.yaml", text="out\\x1b[31m")
    shows("train", "--config", "c.yaml", "--resume", text="out\\x1b[31m")
    recipe = ole.run("reproduce", "--print", "stl10-cnn5").stdout
    (work / "r.yaml").write_text(re.sub(r"(\n +title: ).*", lambda m: f'{m[1]}"T{yaml}"', recipe))
    shows("reproduce", "./r.yaml", "--dry-run", text="T\\x1b[31m")


def check_flags(ole, work):
    """A flag goes before the run; one that takes what was trained on is warned of."""
    done = ole.run(*"eval shared folder:photos --test-share 0.5".split())
    check_that(f"--test-share: {done.stderr}", done.stdout.startswith(
        "samples                  60\n") and done.stderr ==
        "ole eval: warning: the run held out 5% for the test, so --test-share includes samples it "
        "was trained on; errors will be too low, thresholds too high\n")
    done = ole.run(*"eval shared folder:photos --val-split 10% --split validation".split())
    check_that(f"--val-split: {done.stderr}", done.returncode == 0 and "warning" not in done.stderr)
    done = ole.run(*"eval shared folder:photos --val-split 20% --split validation".split())
    check_that(f"more of it: {done.stderr}", done.returncode == 0 and
               "\nole eval: warning: the run held out other samples; " in done.stderr)
    ole.run(*f"train folder:photos --net FC8 --calibration 0 --test-share 5% {QUICK} --out all".split())
    done = ole.run(*"eval all folder:photos --val-split 10% --split validation".split())
    check_that(f"none: {done.stderr}", done.returncode == 0 and
               "\nole eval: warning: the run held out no samples, so " in done.stderr)
    ole.run(*f"train folder:photos --net FC8 --val-split 20% --test-share 20% {QUICK} --out held".split())
    done = ole.run(*"eval held folder:photos --split validation --test-share 10%".split())
    check_that(f"what another --test-share leaves: {done.stderr}", "\nole eval: warning: the run held out "
               "other samples; the validation set that remains after --test-share includes some it was trained on; "
               in "\n" + done.stderr)
    check(ole, "eval shared folder:photos --test-share 1", code=2, err="ole eval: --test-share '1': expected "
          "a share below 1, such as 10% or 0.1\n")


def check_grown(ole, work):
    """A folder that has grown since: what is held out now was partly trained on."""
    shutil.copytree(work / "photos", work / "album")
    ole.run(*f"train folder:album --net FC8 --val-split 20% {QUICK} --out before".split())
    commands = {"eval": "eval before folder:album",
                "features": "features before folder:album --out F.npy L.npy",
                "report": "report before --no-tsne",
                "novelty": "novelty before --known folder:album --novel folder:strange --no-store"}
    for name, command in commands.items():
        done = ole.run(*command.split())
        check_that(f"{name}: {done.stderr}", done.returncode == 0 and "warning" not in done.stderr)
    shutil.copy(work / "photos/day/07.pgm", work / "album/day/070.pgm")
    for name, command in commands.items():
        done = ole.run(*command.split())
        check_that(f"{name}, grown: {done.stderr}", done.returncode == 0 and
                   f"ole {name}: warning: the samples of folder:album have changed since the run: "
                   "the model was trained on some that are held out now; errors will be too low, "
                   "thresholds too high\n" in done.stderr)


def check_few(ole, work):
    """Seed, classes, validation split and samples per class; neighbours are those of the training."""
    trained = read_json(ole, *"train digits --net C8-MP-FC8 --classes 3,1,5 --samples-per-class 5 "
                        f"--val-split 10% --seed 7 {QUICK} --out few".split())
    said = ("as in few/config.yaml: --val-split 10% --samples-per-class 5 --seed 7 --classes "
            "3,1,5\n")
    test = read_json(ole, *"eval few digits --json".split())
    check_that("eval", test["error"] == trained["test_error"] and
               test["knn1_error"] == trained["knn1_error"] and
               [c["class"] for c in test["per_class"]] == ["3", "1", "5"])
    held_out = read_json(ole, *"eval few digits --split validation --json".split())
    check_that("eval --split validation", held_out["error"] == trained["validation_error"])
    done = ole.run(*"features few digits --split train --out F.npy L.npy".split())
    check_that(f"features: {done.stderr}", done.stderr == "ole features: " + said and
               npyfile.read(work / "F.npy")[1][0] == 15)
    check_that("... of all", rows_of(ole, work, "few digits --split train --samples-per-class 0 "
                                     "--val-split 0") > 300)
    done = ole.run(*"eval few digits --split validation --seed 8".split())
    check_that(f"another seed: {done.stderr}", "\nole eval: warning: the run held out other samples; "
               "the validation set" in done.stderr)


def check_novelty(ole, work):
    """The same for `ole novelty`, where classes that the model does not know may have few samples."""
    write_photos(work / "three", ("a", "b"))
    write_photos(work / "three", ("few",), 3)
    ole.run(*"train folder:three --net FC8 --classes b,a --samples-per-class 10 --val-split 20% "
            f"--test-share 10% {QUICK} --out two".split())
    done = ole.run(*"novelty two --known folder:three --novel folder:three".split())
    check_that(f"novelty: {done.stderr}", done.stderr == "ole novelty: as in two/config.yaml: "
               "--test-share 10% --val-split 20% --samples-per-class 10\n" and
               done.stdout.startswith("samples              12 known, 3 novel; the threshold from "
                                      "22 for validation\n"))


def check_configs(ole, work):
    """A config.yaml that is none of ours; data that cannot be found from here."""
    (work / "bare").mkdir()
    shutil.copy(work / "shared/best.safetensors", work / "bare/m.safetensors")
    (work / "bare/config.yaml").write_text("port: 80\n")
    done = ole.run("eval", "bare/m.safetensors", "folder:photos")
    check_that(f"another program's: {done.stderr}", done.returncode == 0 and done.stderr.startswith(
        "ole eval: warning: the folder's config.yaml is ignored, as it was not written by 'ole train': bare/config.yaml, line 1: "))
    shutil.copytree(work / "few", work / "broken")
    (work / "broken/config.yaml").write_text("port: 80\n")
    done = ole.run("eval", "broken", "digits")
    check_that("a run's that is broken", done.returncode == 1 and not done.stdout and
               done.stderr.startswith("ole eval: broken/config.yaml, line 1: "))
    done = ole.run("novelty", "shared", "--known-classes", "day")
    check_that(f"too few known classes: {done.stderr}", done.returncode == 1 and "changed" not in done.stderr and
               "the model has 2 classes, the known set folder has 1" in done.stderr)
    (work / "photos").rename(work / "moved")
    done = ole.run("eval", "shared", "folder:moved")
    check_that(f"moved: {done.stderr}", done.returncode == 0 and done.stderr.startswith(
               "ole eval: warning: the run's data, folder:photos, cannot be found from this "
               "folder; folder:moved is treated as other data, which the model was not trained on\n"))
    at = f"folder:{work.resolve()}/photos"
    done = ole.run("novelty", "shared")
    check_that(f"moved, not named: {done.stderr}", done.returncode == 1 and done.stderr.endswith(
        f"ole novelty: these are the data of the run, which were at {at}; if they have moved, name them with --known\n"))
    done = ole.run(*"train --resume --out shared --epochs 99".split())
    check_that(f"moved, resumed: {done.stderr}", done.returncode == 1 and
               f"ole train: the data of the run, folder:photos, are not there, nor are {at}; if they have moved, name "
               "them: ole train DATA --resume --out shared\n" in done.stderr)


def check_elsewhere(ole, work):
    """A run folder is used from any directory, also after it was moved, and knows its data by any path."""
    write_photos(work / "project/photos")
    far = work / "far/away"
    far.mkdir(parents=True)
    ole.run(shell=f'cd project && "$@" train folder:photos --net FC8 --val-split 10% --test-share 10% {QUICK} '
            '--out run')
    (work / "project/run").rename(far / "moved")
    said = "ole eval: as in moved/config.yaml: --test-share 10% --val-split 10%\n"
    here = ole.run(shell='cd project && "$@" eval ../far/away/moved folder:photos')
    for data in ("../../project/photos", str(work / "project/photos")):
        done = ole.run(shell=f'cd far/away && "$@" eval moved folder:{data}')
        check_that(f"eval {data}: {done.stderr}", done.returncode == 0 and done.stdout == here.stdout and
                   done.stderr == said)
    write_photos(work / "project/other", ("fog",), 8)
    done = ole.run(shell='cd far/away && "$@" novelty moved --known folder:../../project/photos --novel '
                   'folder:../../project/other')
    check_that(f"novelty: {done.stderr}", done.returncode == 0 and
               "as in moved/config.yaml: --test-share 10% --val-split 10%\n" in done.stderr)
    done = ole.run(shell='cd far/away && "$@" report moved --no-tsne --out page.html')
    check_that(f"report: {done.stderr}", done.returncode == 0 and not done.stderr and "within" in done.stdout)
    done = ole.run(shell='cd far/away && "$@" train --resume --out moved --epochs 3 --no-report')
    check_that(f"resume: {done.stderr}", done.returncode == 0 and "warning" not in done.stderr and
               "epoch 3/3" in done.stderr)
    (work / "project/photos").rename(work / "project/gone")
    done = ole.run(shell='cd far/away && "$@" report moved --no-tsne')
    check_that(f"no data: {done.stderr}", done.returncode == 0 and
               done.stderr.startswith("ole report: moved: without its data: ") and
               "moved: shown without its data (" in (far / "moved/report.html").read_text())
    at = f"folder:{work.resolve()}/project/photos"
    for command, how in (("eval moved", "name them after MODEL"), ("novelty moved", "name them with --known"),
                         ("predict moved", "name files")):
        done = ole.run(shell=f'cd far/away && "$@" {command}')
        check_that(f"{command}, no data: {done.stderr}", done.returncode == 1 and done.stderr.endswith(
            f"ole {command.split()[0]}: these are the data of the run; if they have moved, {how}\n"))
    done = ole.run(shell='cd far/away && "$@" train --resume --out moved --epochs 4 --no-report')
    check_that(f"resume, no data: {done.stderr}", done.returncode == 1 and f"ole train: the data of the run, {at}, are not there; if they "
               "have moved, name them: ole train DATA --resume --out moved\n" in done.stderr)
    done = ole.run(shell='cd far/away && "$@" train folder:../../project/gone --resume --out moved --epochs 4 --no-report')
    check_that(f"resume, data named: {done.stderr}", done.returncode == 0 and "are not there" not in done.stderr)


def check_fixed_size(ole, work):
    """What only folders can be asked for is refused of other data, and not stored."""
    for flag in ("resize 14", "channels 3"):
        check(ole, f"train digits --{flag} --out fixed", code=2, err=f"ole train: {flag} applies to image "
              "folders (folder:PATH) only, not to digits\n")
    check_that("no run", not (work / "fixed").exists())


# ---- OLE alone ----------------------------------------------------------------------------------

def check_overflow(ole, work):
    """A sample that the network makes Inf of is named; it is not counted as one of some class."""
    values = [0.1 * ((7 * i) % 5 - 2) for i in range(24 * 3)]
    (work / "ox.npy").write_bytes(npyfile.array("<f4", (24, 3), values))
    (work / "ox-test.npy").write_bytes(npyfile.array("<f4", (24, 3), values[:-3] + [3e38] * 3))
    (work / "oy.npy").write_bytes(npyfile.array("<i4", (24,), [i % 2 for i in range(24)]))
    ole.run(*"train npy:ox.npy,oy.npy,ox.npy,oy.npy --net FC4[norelu] --epochs 1 --threads 1 --no-report --out "
            "over".split())
    for command, more in (("eval", ""), ("features", " --out F.npy L.npy")):
        check(ole, f"{command} over npy:ox.npy,oy.npy,ox-test.npy,oy.npy{more}", code=1, err=f"ole {command}: sample 23 "
              "of the test samples: the network overflows; check its values\n")


def check_untrained(ole, work):
    """A classifier that was not trained gives no labels and no errors; features do."""
    trained = read_json(ole, *f"train digits --net C8-MP-FC8 --loss ole {QUICK} --out alone".split())
    (work / "one.pgm").write_bytes(b"P5 8 8 255\n" + bytes(64))
    for form in ("", " --json"):
        check(ole, f"predict alone one.pgm one.pgm{form}", code=1, err="ole predict: alone: has no "
              "trained classifier, so it cannot label samples; train with --loss softmax+ole or fit with --method "
              "linear, or compare features with 'ole features' or 'ole eval'\n")
    why = ("ole eval: the model has no trained classifier: error and confusion are "
           "omitted; 1-NN and nearest subspace compare features\n")
    done = ole.run("eval", "alone", "digits")
    check_that(f"eval: {done.stdout}", done.returncode == 0 and done.stderr == why and
               [line[:22].rstrip() for line in done.stdout.splitlines()] ==
               ["samples", "1-NN error (cosine)", "nearest-subspace error"])
    judged = read_json(ole, *"eval alone digits --json".split())
    check_that("eval --json", [judged[key] for key in ("error", "per_class", "confusion")] ==
               [None] * 3 and judged["knn1_error"] == trained["knn1_error"] and
               judged["subspace_error"] is not None)
    for name, shown in (("alone", False), ("few", True)):
        ole.run("report", name, "--out", "page.html")
        check_that(f"report {name}", (">Confusion matrix<" in (work / "page.html").read_text()) == shown)


def check_aligned(ole, work):
    """A run remembers its landmarks; those of other images are named; other data have none."""
    for name, x in (("faces", 1), ("strangers", 2)):
        write_photos(work / name, count=12)
        files = sorted(path.relative_to(work / name) for path in (work / name).glob("*/*.pgm"))
        rows = "".join(f"{file},{x},1,{x + 2},1\n" for file in files)
        (work / name / "marks.csv").write_text("file,left_x,left_y,right_x,right_y\n" + rows)
    check(ole, "train digits --align marks.csv", code=2, err="ole train: align marks.csv applies to image folders "
          "(folder:PATH) only, not to digits\n")
    trained = read_json(ole, *"train folder:faces --align marks.csv --resize 8 --net FC8 --epochs 2 --out aligned --json "
                        "--no-report".split())
    judged = read_json(ole, *"eval aligned --json".split())
    plain = read_json(ole, *"eval aligned --align strangers/marks.csv --json".split())
    check_that(f"eval as in the run: {judged['error']}", judged["error"] == trained["test_error"] and plain["n"] == judged["n"])
    for flags, file in ((("--align", "marks.csv"), "A"), ((), "B")):
        ole.run(*"features aligned folder:strangers --test-share 0 --split train --out".split(), f"{file}.npy", f"{file}L.npy",
                *flags)
    check_that("landmarks of other images", (work / "A.npy").read_bytes() != (work / "B.npy").read_bytes())
    check_aligned_files(ole, work)


def scores_of(ole, command, err="", **where):
    done = ole.run(*command.split(), "--json", **where)
    check_that(f"{command}: {done.stderr}", done.returncode == 0 and done.stderr == err)
    return {p["image"].split("/", 1)[1]: p["score"] for p in json.loads(done.stdout)}


def check_aligned_files(ole, work):
    """Image files of the run are aligned as in it; others by --align, or not at all with a warning."""
    tested = read_json(ole, *"predict aligned --json".split())
    scores = {p["image"].split("/", 1)[1]: p["score"] for p in tested}
    said = "which aligned the run's images: it is used unaligned, and so are others without; --align FILE.csv names theirs\n"
    own = scores_of(ole, "predict aligned faces")
    check_that("the run's files", len(own) == 24 and scores.items() <= own.items())
    plain = scores_of(ole, "predict aligned faces --align none")
    check_that("--align none", plain != own and scores_of(ole, "predict aligned strangers --align none").keys() == plain.keys())
    for files in ("faces", f"{work}/faces/", "./strangers/../faces"):
        check_that(f"predict {files}", [*scores_of(ole, f"predict aligned {files}").values()] == [*own.values()])
    (work / "beyond").mkdir()
    away = ole.run(shell='cd beyond && "$@" predict ../aligned ../faces --json')
    check_that(f"from elsewhere: {away.stderr}", [p["score"] for p in json.loads(away.stdout)] == [*own.values()])

    first = sorted((work / "strangers").glob("*/*.pgm"))[0].relative_to(work)
    others = scores_of(ole, "predict aligned strangers", f"ole predict: warning: {first} has no landmarks in faces/marks.csv, "
                       + said)
    marked = scores_of(ole, "predict aligned strangers --align strangers/marks.csv")
    check_that("strangers", others != marked and others == scores_of(ole, "predict aligned strangers --align none"))
    shutil.copy(work / "strangers/marks.csv", work / "beyond/named.csv")
    check_that("rows of the folder that is named", marked == scores_of(ole, "predict aligned strangers --align beyond/named.csv"))
    check(ole, "predict aligned one.pgm --align strangers/marks.csv", code=1, err="ole predict: one.pgm: no row in "
          "strangers/marks.csv; add its landmarks, or use it as it is with --align none\n")
    check(ole, "features aligned one.pgm --align strangers/marks.csv --out F.npy L.txt", code=1, err="ole features: one.pgm: no "
          "row in strangers/marks.csv; add its landmarks, or use it as it is with --align none\n")
    check(ole, f"predict aligned {first} --align none.csv", code=1, err="ole predict: none.csv: cannot read: No such file or directory\n")
    rows = {}
    for name, words in (("A", ["folder:strangers", "--test-share", "0", "--split", "train", "--align", "marks.csv"]),
                        ("B", ["strangers", "--align", "strangers/marks.csv"]), ("C", ["strangers", "--align", "none"])):
        ole.run("features", "aligned", *words, "--out", f"{name}.npy", f"{name}L.npy")
        data = (work / f"{name}.npy").read_bytes()
        rows[name] = sorted(data[i:i + 32] for i in range(len(data) - 24 * 32, len(data), 32))
    check_that("features of files", rows["A"] == rows["B"] != rows["C"])
    (work / "faces/marks.csv").rename(work / "faces/marks.old")
    done = ole.run("predict", "aligned", "faces", "--json")
    check_that(f"landmarks gone: {done.stderr}", done.returncode == 0 and [p["score"] for p in json.loads(done.stdout)] ==
               [*plain.values()] and done.stderr.startswith("ole predict: warning: the run's images were aligned by landmarks "
                                                            "that cannot be read, so images are used unaligned: "))


def check_all(ole, work):
    check_both_files(ole, work)
    check_names(ole, work)
    check_closed_pipes(ole, work)
    check_test_share(ole, work)
    check_predictions(ole, work)
    check_page_names(ole, work)
    check_own_data(ole, work)
    check_rows(ole, work)
    check_photos_stay(ole, work)
    check_unknown(ole, work)
    check_file_lists(ole, work)
    check_feature_names(ole, work)
    check_classes(ole, work)
    check_strange_names(ole, work)
    check_steering(ole, work)
    check_flags(ole, work)
    check_grown(ole, work)
    check_few(ole, work)
    check_novelty(ole, work)
    check_configs(ole, work)
    check_elsewhere(ole, work)
    check_fixed_size(ole, work)
    check_overflow(ole, work)
    check_untrained(ole, work)
    check_aligned(ole, work)


if __name__ == "__main__":
    run.conduct(__doc__, check_all)
