#!/usr/bin/env python3
"""reproduce.py OLE - runs `ole reproduce`: its list against the paper's table, and every kind of recipe
end to end on small files in the formats that the data sets' authors publish.

For speed those runs have a small network in place of the recipe's; everything else is the recipe's.
"""
import gzip
import json
import random
import re
import shutil
import signal
import struct
import subprocess

import run
from reproduce_results import check_means
from run import check, check_that, read_json

# Table 2, row by row: net, lambda, batch, optimiser and rate, epochs, weight decay, augmentation, what
# the paper reports for softmax and with OLE.
SGD, ADAM, PLUS = ("sgd", 0.1), ("adam", 1e-3), "crop:4,flip"
TABLE = {
    "svhn-densenet40": ("svhn", "densenet40-dropout", 1 / 2, 64, SGD, 300, 1e-4, "", 3.93, 3.62),
    "mnist-densenet40": ("mnist", "densenet40-dropout", 1 / 2, 64, SGD, 300, 1e-4, "", 0.88, 0.78),
    "cifar10+-densenet40": ("cifar10", "densenet40", 1 / 8, 64, SGD, 300, 1e-4, PLUS, 5.54, 5.30),
    "cifar10+-resnet110": ("cifar10", "resnet110", 1 / 4, 64, SGD, 164, 1e-4, PLUS, 6.05, 5.39),
    "cifar10+-vgg19": ("cifar10", "vgg19", 1 / 4, 64, SGD, 164, 1e-4, PLUS, 7.37, 7.13),
    "cifar10+-vgg11": ("cifar10", "vgg11", 1 / 2, 64, SGD, 164, 1e-4, PLUS, 8.06, 7.73),
    "cifar10-vgg16": ("cifar10", "vgg16", 1 / 2, 64, SGD, 164, 1e-4, "", 8.23, 7.22),
    "cifar100+-preresnet110": ("cifar100", "preresnet110", 1 / 20, 64, SGD, 164, 1e-4, PLUS, 23.01, 22.8),
    "cifar100+-vgg19": ("cifar100", "vgg19", 1 / 10, 64, SGD, 164, 1e-4, PLUS, 28.04, 27.54),
    "cifar100-vgg19": ("cifar100", "vgg19", 1 / 10, 64, SGD, 164, 1e-4, "", 38.15, 37.25),
    "facescrub500-vggface": ("folder:facescrub500", "vggface", 250, 26, ("adam", 1e-5), 12, 1e-3, "", 2.49, 1.55),
    "stl10-cnn5": ("stl10", "cnn5", 1 / 16, 32, ADAM, 164, 1e-4, "", 28.68, 25.42),
    "stl10+-cnn5": ("stl10", "cnn5", 1 / 4, 32, ADAM, 164, 1e-3, "crop:12,flip", 18.22, 16.68),
}

# What the files written here are of those that are published, behind what else differs.
PARTS = {"cifar10": ", 100 of 50000 training images, 20 of 10000 test images",
         "cifar100": ", 200 of 50000 training images, 100 of 10000 test images",
         "svhn": ", 60 of 73257 training images, 20 of 26032 test images",
         "stl10": ", 60 of 5000 training images, 20 of 8000 test images",
         "mnist": ", 60 of 60000 training images, 20 of 10000 test images", "folder:facescrub500": ""}


# ---- Files as their authors publish them ----------------------------------------------------------

def image(numbers, label, size):
    """Bytes that depend on the label, with noise."""
    level = 20 + label * 23 % 200
    return bytes(level + numbers.randrange(30) for _ in range(size))


def write_cifar10(folder, numbers):
    folder.mkdir()
    for name in [f"data_batch_{i}" for i in range(1, 6)] + ["test_batch"]:
        (folder / f"{name}.bin").write_bytes(b"".join(
            bytes([i % 10]) + image(numbers, i % 10, 3072) for i in range(20)))


def write_cifar100(folder, numbers):
    folder.mkdir()
    for name, count in (("train", 200), ("test", 100)):
        (folder / f"{name}.bin").write_bytes(b"".join(
            bytes([i % 20, i % 100]) + image(numbers, i % 100, 3072) for i in range(count)))


def write_stl10(folder, numbers):
    folder.mkdir()
    for name, count in (("train", 60), ("test", 20)):
        (folder / f"{name}_X.bin").write_bytes(b"".join(
            image(numbers, i % 10, 64) * 432 for i in range(count)))
        (folder / f"{name}_y.bin").write_bytes(bytes(1 + i % 10 for i in range(count)))


def write_mnist(folder, numbers):
    folder.mkdir()
    for part, count in (("train", 60), ("t10k", 20)):
        images = struct.pack(">4I", 0x803, count, 28, 28) + b"".join(
            image(numbers, i % 10, 784) for i in range(count))
        labels = struct.pack(">2I", 0x801, count) + bytes(i % 10 for i in range(count))
        (folder / f"{part}-images-idx3-ubyte.gz").write_bytes(gzip.compress(images))
        (folder / f"{part}-labels-idx1-ubyte.gz").write_bytes(gzip.compress(labels))


def element(kind, data):
    return struct.pack("<2I", kind, len(data)) + data + bytes(-len(data) % 8)


def matrix(name, shape, data):
    """A MATLAB 5 array of bytes."""
    return element(14, element(6, struct.pack("<2I", 9, 0)) +
                   element(5, struct.pack(f"<{len(shape)}i", *shape)) +
                   element(1, name.encode()) + element(2, data))


def write_svhn(folder, numbers):
    """X is 32 x 32 x 3 x N in Fortran's order; a 0 is labelled 10."""
    folder.mkdir()
    for part, count in (("train", 60), ("test", 20)):
        x = b"".join(image(numbers, i % 10, 3072) for i in range(count))
        y = bytes(i % 10 or 10 for i in range(count))
        head = b"MATLAB 5.0 MAT-file".ljust(124) + struct.pack("<H", 0x100) + b"IM"
        (folder / f"{part}_32x32.mat").write_bytes(
            head + matrix("X", (32, 32, 3, count), x) + matrix("y", (count, 1), y))


def write_faces(folder, numbers, names, count, side=12):
    for label, name in enumerate(names):
        (folder / name).mkdir(parents=True)
        for i in range(count):
            (folder / name / f"{i}.ppm").write_bytes(
                f"P6 {side} {side} 255\n".encode() + image(numbers, label, 3 * side * side))


def message(number, data):
    """A field of a protobuf message."""
    def varint(value):
        return bytes([value]) if value < 128 else bytes([value % 128 + 128]) + varint(value // 128)
    return varint(number * 8 + 2) + varint(len(data)) + data


def write_caffemodel(path, numbers):
    """The first convolution of the network that stands for VGG-FACE."""
    path.parent.mkdir()
    blobs = b"".join(message(7, message(5, struct.pack(f"<{n}f", *(numbers.gauss(0, 0.2)
                                                                   for _ in range(n)))))
                     for n in (4 * 27, 4))
    path.write_bytes(message(100, message(1, b"conv1_1") + message(2, b"Convolution") + blobs))


def write_data(work):
    numbers = random.Random(7)
    data = work / "data"
    data.mkdir()
    for name, write in (("cifar10", write_cifar10), ("cifar100", write_cifar100), ("svhn", write_svhn),
                        ("stl10", write_stl10), ("mnist", write_mnist)):
        write(data / name, numbers)
    write_faces(data / "facescrub500", numbers, [f"known{i}" for i in range(4)], 12)
    write_faces(data / "facescrub30", numbers, ["novel1", "novel2"], 8)
    write_faces(data / "facescrub12", numbers, "baldwin bracco butler carell chenoweth drescher ferrera "
                "gilpin hader harmon radcliffe vartan".split(), 14)
    write_faces(data / "lfw62", numbers, [f"known{i}" for i in range(4)], 12)
    write_faces(data / "lfw-others", numbers, ["novel1", "novel2"], 8)
    write_faces(data / "att_faces", numbers, [f"s{i}" for i in range(1, 41)], 10)
    write_caffemodel(data / "vggface" / "VGG_FACE.caffemodel", numbers)


# ---- The list -----------------------------------------------------------------------------------

def check_list(ole):
    rows = read_json(ole, "reproduce", "--list", "--json")
    by_name = {row["name"]: row for row in rows}
    for place, (name, expected) in enumerate(TABLE.items(), 1):
        row = by_name[name]
        data, net, weight, batch, (opt, lr), epochs, decay, augment, softmax, with_ole = expected
        check_that(f"Table 2, row {place}", row["shows"] == f"Table 2, row {place}" and
                   (row["data"], row["net"], row["lambda"], row["batch_size"], row["opt"], row["lr"],
                    row["epochs"], row["weight_decay"], row["augment"], row["softmax"], row["ole"]) ==
                   (data, net, weight, batch, opt, lr, epochs, decay, augment, softmax, with_ole) and
                   row["seeds"] == 5 and row["runs"] == 10)
        check_that(f"init of row {place}", row["init"] == ("msra" if net == "vgg16" else "xavier"))
    figures = {match[1] for row in rows if (match := re.match(r"Fig\. (\d)", row["shows"]))}
    check_that("seven figures", figures == set("1234567"))
    check_that("times", all(row["minutes_a_run"] > 0 for row in rows))
    toy = by_name["fig2-cifar10"]
    check_that("the toy", (toy["net"], toy["epochs"], toy["seeds"], toy["opt"], toy["lr"]) ==
               ("mlp4", 300, 50, "adam", 1e-4) and (toy["softmax"], toy["ole"]) == (76.69, 78.38))
    for name, printed, net, *settings in (
            ("cifar10-vgg16-release", "cifar10-vgg16", "vgg16", 256, 5e-4, "flip"),
            ("cifar10+-vgg19-release", "cifar10+-vgg19", "vgg19-release", 64, 5e-4, "crop:4,flip"),
            ("cifar10+-vgg11-release", "cifar10+-vgg11", "vgg11-release", 64, 5e-4, "crop:4,flip")):
        released, row = by_name[name], by_name[printed]
        check_that(name, released["net"] == net and
                   [released["batch_size"], released["weight_decay"], released["augment"]] == settings and
                   all(released[key] == row[key] for key in ("lambda", "softmax", "ole", "seeds")))
    text = ole.run("reproduce", "--list").stdout
    lines = [line for line in text.splitlines() if line.split(" ")[0] in by_name]
    check_that("ole reproduce --list: a line for each row, with its time", [line.split(" ")[0] for line in lines] ==
               list(by_name) and all(re.search(r" (missing|here) +\d+ (s|min \d+ s|h \d+ min|days)$", line)
                                     for line in lines))
    check_that("within 80 columns", all(len(line) <= 80 for line in text.splitlines()))
    check_that("the paper's numbers", re.search(r"(?m)^cifar10-vgg16 +Table 2, row 7 +8\.23, 7\.22 +missing ", text))
    check_that("times in JSON", all(row["seconds_left"] > 0 and row["runs_left"] == row["runs"] for row in rows))
    plan = ole.run("reproduce", *by_name, "--dry-run")
    check_that("--dry-run: the paper, and missing data", "softmax 8.23 ± 0.13 %, with OLÉ 7.22 ± 0.14 %" in plan.stdout
               and "its data are missing; get them with 'ole data get svhn'" in plan.stdout)
    check_that("--dry-run", plan.returncode == 0 and all(f"\n{name}: " in "\n" + plan.stdout
                                                         for name in by_name))
    check_that("Fig. 4's lambdas", "lambda 0 0.015625 0.03125 0.0625 0.125 0.25 0.5 1; 5 seeds: 50 runs"
               in plan.stdout)
    check_that("Fig. 5's samples", "lambda 0 0.25; samples per class 50 100 200 300 400 500; 5 seeds: 60"
               in plan.stdout)


def check_mistakes(ole, work):
    lists = "'ole reproduce --list' shows them\n"
    check(ole, "reproduce", err=f"ole reproduce: missing argument ROW: {lists}", code=2)
    check(ole, "reproduce cifar10-vgg61", code=2, err="ole reproduce: unknown row cifar10-vgg61; did you "
          f"mean cifar10-vgg16? {lists}")
    check(ole, "reproduce xyzzy", code=2, err=f"ole reproduce: unknown row xyzzy; {lists}")
    missing = ole.run("reproduce", "stl10-cnn5", "svhn-densenet40")
    check_that("data that are missing", missing.returncode == 1 and not missing.stdout and
               "get it with 'ole data get stl10'" in missing.stderr)
    faces = ole.run("reproduce", "fig6")
    check_that("faces that are missing", faces.returncode == 1 and
               "there is no folder facescrub500 here or in $OLE_DATA; put it there, as it cannot be downloaded: FaceScrub" in faces.stderr)
    (work / "wrong.yaml").write_text("data: digits\nnet: C4\npaper:\n  titel: x\n")
    check(ole, "reproduce wrong.yaml", code=2,
          err="ole reproduce: wrong.yaml: paper has no key 'titel'; did you mean title?\n")
    (work / "wrong.yaml").write_text("data: digits\npaper:\n  title: x\n  shows: y\n")
    check(ole, "reproduce wrong.yaml --dry-run", code=2,
          err="ole reproduce: wrong.yaml: data or net is missing\n")
    (work / "own.yaml").write_text("data: digits\nnet: C4-FC4\nseeds: 2\npaper:\n  title: x\n  shows: y\n")
    for how, seen in (("--dry-run", "4 runs\n"), ("--list", "\nown ")):
        own = ole.run("reproduce", "own.yaml", how)
        check_that(f"a recipe that knows no time, {how}", own.returncode == 0 and seen in own.stdout and
                   "?" not in own.stdout)
    check(ole, "reproduce nowhere.yaml", code=2,
          err="ole reproduce: nowhere.yaml: cannot read this recipe\n")
    shown = ole.run("reproduce", "fig6", "--print")
    check_that("--print", shown.returncode == 0 and "novel: folder:facescrub30" in shown.stdout)
    check_that("nothing was made", not (work / "reproduced").exists())


# ---- Runs ---------------------------------------------------------------------------------------

def small(ole, work, name, net="C4-MP-FC8", more=""):
    """The recipe with a small network, as a file of the same name."""
    text = ole.run("reproduce", name, "--print").stdout
    text = re.sub(r"(?m)^net: .*$", f"net: '{net}'", text)
    if more:
        text = re.sub(r"(?m)^(resize|samples_per_class): .*\n", "", text).replace("paper:", f"{more}paper:", 1)
    (work / f"{name}.yaml").write_text(text)
    return f"{name}.yaml"


def reproduce(ole, *args):
    return ole.run("reproduce", *args, "--device", "cpu", "--threads", "1")


def results(work, out="out"):
    return {row["name"]: row for row in json.loads((work / out / "results.json").read_text())["rows"]}


def measures(row):
    return {m["measure"]: m for m in row["measures"]}


def check_rows(ole, work):
    """All rows of the table, each on its data set's own format."""
    has_mat = "not built" not in re.search(r"\.mat \(SVHN\)(.*)", ole.run("info").stdout)[1]
    names = [name for name in TABLE if name != "svhn-densenet40" or has_mat]
    files = []
    for name in names:
        face = name.startswith("facescrub")
        files.append(small(ole, work, name, "C4[nobn]-MP-FC8[nobn]" if face else "C4-MP-FC8"))
    done = reproduce(ole, *files, "--epochs", "1", "--seeds", "1", "--out", "out")
    check_that("the table's rows", done.returncode == 0)
    check_that("VGG-FACE's weights", "1 loaded" in done.stderr)
    got = results(work)
    check_that("all are in results.json", list(got) == names and all(
        row["complete"] and row["changes"] == f"1 of {row_epochs} epochs{part}"
        for row, row_epochs, part in ((got[n], TABLE[n][5], PARTS[TABLE[n][0]]) for n in names)))
    check_that("a part of the data is told first", "ole reproduce: stl10-cnn5: the data here are part of "
               f"the published set: {PARTS['stl10'][2:]}\n" in done.stderr)
    check_that("and in the table printed", all(re.search(
        rf"(?m)^{re.escape(n)}: .*; 1 of \d+ epochs{PARTS[TABLE[n][0]]}\n  test error, % .*  1$", done.stdout)
        for n in names))
    for name in names:
        error = measures(got[name])["test error"]
        check_that(f"{name}: paper and ours", error["paper"]["ole"]["mean"] == TABLE[name][9] and
                   error["paper"]["softmax"]["mean"] == TABLE[name][8] and
                   all(0 <= error["ours"][side]["mean"] <= 100 and error["ours"][side]["runs"] == 1
                       for side in ("softmax", "ole")))
    check_that("samples", (got["stl10-cnn5"]["train_samples"], got["stl10-cnn5"]["test_samples"]) ==
               (60, 20) and got["facescrub500-vggface"]["train_samples"] +
               got["facescrub500-vggface"]["test_samples"] == 48)
    check_that("the table printed", "\n  test error, % " in done.stdout and
               "report       out/report.html" in done.stdout)
    check_means(work / "out", done.stdout)
    page, table = (work / "out/report.html").read_text(), (work / "out/results.md").read_text()
    check_that("the page", "Table 2, row 7" in page and "<svg" in page)
    check_that("results.md", "| cifar10-vgg16 | Table 2, row 7 | test error, % | 8.23 ± 0.13 | 7.22 ± 0.14 |"
               in table and f"1 of 164 epochs{PARTS['cifar10']} |" in table)


def check_table2(ole, work):
    """table2 is every row of the table; one whose data are missing is skipped and named."""
    names = [row["name"] for row in read_json(ole, "reproduce", "--list", "table2", "--json")]
    check_that("table2", names == list(TABLE))
    names = [row["name"] for row in read_json(ole, "reproduce", "--list", "fig1", "stl10-cnn5", "table2", "--json")]
    check_that("beside others, none twice", names == ["fig1", "stl10-cnn5"] + [n for n in TABLE if n != "stl10-cnn5"])
    everything, few = ole.environment["OLE_DATA"], work / "few"
    few.mkdir()
    shutil.copytree(work / "data/stl10", few / "stl10")
    (work / "data").rename(work / "away")  # the data folder of the current folder
    ole.environment["OLE_DATA"] = str(few)
    done = reproduce(ole, "table2", "--epochs", "1", "--seeds", "1", "--out", "few-rows")
    missing = [name for name in TABLE if not name.startswith("stl10")]
    check_that("rows without data", done.returncode == 0 and list(results(work, "few-rows")) ==
               ["stl10-cnn5", "stl10+-cnn5"] and re.findall("reproduce: skipped (.*?): ", done.stderr) == missing and
               "skipped svhn-densenet40: its data are missing; get them with 'ole data get svhn'\n" in done.stderr and
               "skipped facescrub500-vggface: its data are missing; it needs FaceScrub" in done.stderr and
               "skipped      11 of Table 2, whose data are missing: " in done.stdout)
    shutil.rmtree(few / "stl10")
    none = reproduce(ole, "table2", "--out", "no-rows")
    check_that("no row has data", none.returncode == 1 and not (work / "no-rows").exists() and
               none.stderr.endswith("ole reproduce: the data of every row of Table 2 are missing; 'ole reproduce --list table2' shows them\n"))
    ole.environment["OLE_DATA"] = everything
    (work / "away").rename(work / "data")


def check_parts(ole, work):
    """Files that are a part of what is published are told; a set without a known size is not judged."""
    rows = {row["name"]: row["part"] for row in read_json(ole, "reproduce", "--list", "--json")}
    check_that("--list --json", all(rows[name] == PARTS[TABLE[name][0]][2:] for name in TABLE
                                    if not name.startswith("svhn")))
    listed = ole.run("reproduce", "--list", "stl10-cnn5", "fig6-cifar10", "fig6-faces").stdout
    check_that("--list", [re.split(r"  +", line)[-2] for line in listed.splitlines()[1:4]] ==
               ["partly", "partly", "here"])
    plan = ole.run("reproduce", "--dry-run", "mnist-densenet40").stdout
    check_that("--dry-run", f"\n  uses part of the data: {PARTS['mnist'][2:]}\n" in plan)
    (work / "out/stl10-cnn5/numbers.csv").unlink()
    old = work / "out/stl10-cnn5/samples.csv"  # of an earlier version
    old.write_text("train,test\n5000,1600\n")
    again = reproduce(ole, "stl10-cnn5.yaml", "--epochs", "1", "--seeds", "1", "--out", "out")
    check_that("a folder that noted only samples", again.returncode == 0 and
               results(work)["stl10-cnn5"]["changes"] == "1 of 164 epochs, 1600 of 8000 test images")
    old.write_text("train,test\n5000,8000\n")
    reproduce(ole, "stl10-cnn5.yaml", "--epochs", "1", "--seeds", "1", "--out", "out")
    check_that("all of them", results(work)["stl10-cnn5"]["changes"] == "1 of 164 epochs")


def check_single(ole, work):
    """A run is the one that `ole train` makes by the same recipe; training passes over the notes."""
    ole.run("train", "-c", "cifar10-vgg16.yaml", "--epochs", "1", "--seeds", "1", "--device", "cpu",
            "--threads", "1", "--out", "single", "--no-report")
    check_that("ole train -c recipe", (work / "single/best.safetensors").read_bytes() ==
               (work / "out/cifar10-vgg16/lambda-0.5/seed-0/best.safetensors").read_bytes())


def check_eval_every(ole, work):
    """Fewer evaluations: the end has one, and the same numbers."""
    reproduce(ole, "cifar10-vgg16.yaml", "--epochs", "3", "--eval-every", "2", "--seeds", "1", "--out", "sparse")
    lines = (work / "sparse/cifar10-vgg16/lambda-0/seed-0/metrics.jsonl").read_text().splitlines()
    epochs = [line for line in map(json.loads, lines) if line["event"] == "epoch"]
    check_that("evaluated after epochs 2 and 3", ["test_error" in line for line in epochs] == [False, True, True])
    check_that("--eval-every is no change", results(work, "sparse")["cifar10-vgg16"]["changes"] ==
               f"3 of 164 epochs{PARTS['cifar10']}")


def check_figures_of_rows(ole, work):
    """Figs. 1, 3 and 7 take the runs that are there."""
    before = (work / "out/cifar10-vgg16/lambda-0/seed-0/last.safetensors").stat().st_mtime_ns
    done = reproduce(ole, "fig1", "fig3", "fig3-vgg16", "fig7", "--out", "out")
    check_that("figures of the table's runs", done.returncode == 0 and
               (work / "out/cifar10-vgg16/lambda-0/seed-0/last.safetensors").stat().st_mtime_ns == before)
    for name, figure in (("fig1", "softmax-angles"), ("fig1", "ole-map"), ("fig3", "ole-loss"),
                         ("fig3-vgg16", "accuracy"), ("fig7", "ole-spectrum")):
        check_that(f"{name}: {figure}", (work / f"out/{name}/figures/{figure}.svg").exists() and
                   (work / f"out/{name}/figures.html").exists())
    check_means(work / "out", done.stdout, "fig1", "fig3", "fig3-vgg16", "fig7")
    angle = measures(results(work)["fig1"])["angle between classes, median"]
    check_that("angles", angle["unit"] == "°" and 0 <= angle["ours"]["ole"]["mean"] <= 180)
    (work / "data").rename(work / "away")
    shutil.rmtree(work / "out/fig3/figures")
    (work / "out/fig3/numbers.csv").unlink()
    done = reproduce(ole, "fig3", "--out", "out")
    check_that(f"learning curves without the data: {done.stderr}", done.returncode == 0 and
               (work / "out/fig3/figures/accuracy.svg").exists())
    done = reproduce(ole, "fig1", "--out", "out")
    check_that("features need them", done.returncode == 1 and "fig1: cifar10: data_batch_1.bin not found in" in done.stderr)
    (work / "away").rename(work / "data")


def check_toy(ole, work):
    files = [small(ole, work, "fig2-cifar10", "FC8-FC3", "samples_per_class: 5\n"),
             small(ole, work, "fig2-faces", "FC8-FC3", "resize: 8\nsamples_per_class: 5\n")]
    done = reproduce(ole, *files, "--epochs", "2", "--seeds", "3", "--out", "toy")
    check_that("the toys", done.returncode == 0)
    check_means(work / "toy", done.stdout)
    for name, paper in (("fig2-cifar10", (76.69, 78.38)), ("fig2-faces", (96.47, 100))):
        got = measures(results(work, "toy")[name])
        best, every = got["accuracy of 1-NN, best run"], got["accuracy of 1-NN, all runs, last epoch"]
        check_that(f"{name}: the best and all", all(
            best["ours"][side]["mean"] >= every["ours"][side]["mean"] and
            every["ours"][side]["std"] is not None and every["ours"][side]["runs"] == 3 and
            best["paper"][side]["mean"] == reported
            for side, reported in zip(("softmax", "ole"), paper)))
        check_that(f"{name}: features in space", (work / f"toy/{name}/figures/ole-space.svg").exists())
    check_that("Fig. 3 (a)", (work / "toy/fig2-faces/figures/ole-loss.svg").exists())


def check_studies(ole, work):
    files = [small(ole, work, "fig4"), small(ole, work, "fig5")]
    done = reproduce(ole, *files, "--quick", "--out", "study")
    check_that("too few samples", done.returncode == 2 and "training samples, not the" in done.stderr)
    for file in files:
        path = work / file
        path.write_text(path.read_text().replace("  kind:", "  quick: 4\n  kind:"))
    done = reproduce(ole, *files, "--quick", "--out", "study")
    check_means(work / "study", done.stdout)
    got = results(work, "study")
    check_that("Figs. 4 and 5", done.returncode == 0 and got["fig4"]["lambda_paper"] == 0.25 and
               got["fig4"]["lambda_ours"] is not None and list(measures(got["fig5"])) ==
               ["accuracy, 2 samples per class", "accuracy, 4 samples per class"] and
               got["fig4"]["changes"] == f"2 of 164 epochs, 4 samples per class{PARTS['stl10']}")


def check_novelty(ole, work):
    files = [small(ole, work, "fig6", "C4[nobn]-MP-FC8[nobn]"), small(ole, work, "fig6-faces"),
             small(ole, work, "fig6-facescrub12"), small(ole, work, "fig6-lfw"), small(ole, work, "fig6-cifar10")]
    done = reproduce(ole, *files, "--epochs", "1", "--seeds", "2", "--out", "novel")
    check_that("Fig. 6", done.returncode == 0)
    check_means(work / "novel", done.stdout)
    for name in ("fig6", "fig6-faces", "fig6-facescrub12", "fig6-lfw", "fig6-cifar10"):
        got = measures(results(work, "novel")[name])
        auroc = got["AUROC of known and novel"]["ours"]
        check_that(f"{name}: AUROC", all(0 <= auroc[side]["mean"] <= 100 and auroc[side]["runs"] == 2
                                         for side in ("softmax", "ole")))
        check_that(f"{name}: figures", (work / f"novel/{name}/figures/novelty.svg").exists() and
                   (work / f"novel/{name}/figures/novel-scores.svg").exists())
        check_that(f"{name}: pairs", ("verification AUC, novel pairs" in got) ==
                   (name in ("fig6-faces", "fig6-facescrub12", "fig6-lfw")))
    check_that("a part of the data, with some of its classes", results(work, "novel")["fig6-cifar10"]["changes"]
               == f"1 of 164 epochs{PARTS['cifar10']}")
    lines = (work / "novel/fig6/numbers.csv").read_text()
    again = reproduce(ole, *files, "--epochs", "1", "--seeds", "2", "--out", "novel")
    check_that("again: nothing is done twice", again.returncode == 0 and again.stdout == done.stdout and
               (work / "novel/fig6/numbers.csv").read_text() == lines and "\nrun " not in again.stderr)


def check_resume(ole, work):
    args = ["stl10-cnn5.yaml", "cifar10-vgg16.yaml", "--epochs", "12", "--seeds", "2", "--device", "cpu",
            "--threads", "1"]
    whole = ole.run("reproduce", *args, "--out", "whole")
    process = subprocess.Popen([ole.path, "reproduce", *args, "--out", "stopped"], cwd=work,
                               env=ole.environment, text=True, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE)
    while not process.stderr.readline().startswith("run 1/4"):
        pass
    json.loads((work / "stopped/results.json").read_text())
    process.send_signal(signal.SIGINT)
    _, messages = process.communicate(timeout=120)
    check_that("Ctrl-C", process.returncode == 130 and "and saved in stopped; the same command resumes" in
               messages)
    so_far = results(work, "stopped")
    check_that("readable so far", not so_far["stl10-cnn5"]["complete"] and
               so_far["stl10-cnn5"]["ended"] >= 1 and not list((work / "stopped").glob("**/*.part")))
    done = ole.run("reproduce", *args, "--out", "stopped")
    a, b = results(work, "whole"), results(work, "stopped")
    check_that("gone on with", whole.returncode == 0 and done.returncode == 0 and
               all(a[name]["measures"] == b[name]["measures"] for name in a) and
               done.stdout.replace("stopped", "whole") == whole.stdout)
    more = ole.run("reproduce", "cifar10-vgg16.yaml", *args[2:4], "--seeds", "3", *args[6:], "--out", "stopped")
    got = results(work, "stopped")
    check_that("more seeds", more.returncode == 0 and got["cifar10-vgg16"]["seeds"] == 3 and
               list(got) == ["cifar10-vgg16", "stl10-cnn5"])
    fewer = ole.run("reproduce", *args, "--out", "stopped")
    check_that("fewer seeds give up none", fewer.returncode == 0 and
               results(work, "stopped")["cifar10-vgg16"]["seeds"] == 3 and
               "cifar10-vgg16: 3 seeds are in progress; for 2 use another --out\n"
               in fewer.stderr)
    check(ole, "sweep digits --net C4 --out stopped/cifar10-vgg16", code=2, err="ole sweep: "
          "stopped/cifar10-vgg16: a folder of 'ole reproduce', not of 'ole sweep'; choose another\n")
    other = ole.run("reproduce", "cifar10-vgg16.yaml", "--epochs", "5", "--out", "stopped", "--device", "cpu")
    check_that("other epochs", other.returncode == 2 and other.stderr ==
               "ole reproduce: cifar10-vgg16: stopped/cifar10-vgg16: the study has epochs '12', not '5'; resume with "
               "the same, or choose another folder\n")
    both = read_json(ole, "reproduce", "cifar10-vgg16", "fig7", "--dry-run", "--json", "--device", "cpu")
    check_that("runs that a figure shares are counted once", both[0]["runs_left"] > 0 and
               both[1]["runs_left"] == 0 and both[1]["seconds_left"] == 0)
    shown = ole.run("reproduce", "cifar10-vgg16", "--dry-run", "--device", "xyz")
    check_that("why there is no time", "\n  not timed: device xyz: " in shown.stdout)


def check_times(ole, work):
    """The time that the runs take here is said before them; of a folder that is there what is left."""
    title = "ole reproduce: cifar10-vgg16, Table 2, row 7: CIFAR-10, VGG-16; "
    args = ["cifar10-vgg16.yaml", "--seeds", "2", "--out", "times"]
    plans = {epochs: read_json(ole, "reproduce", *args, "--epochs", str(epochs), "--dry-run", "--json")[0]
             for epochs in (1, 100)}
    check_that("--dry-run --json", all(plan["name"] == "cifar10-vgg16" and plan["lambdas"] == [0, 0.5] and
                                       plan["runs"] == plan["runs_left"] == 4 and plan["seconds_left"] > 0 and
                                       plan["part"] == PARTS["cifar10"][2:] and plan["here"] and
                                       plan["command"].startswith("ole train cifar10 --net C4-MP-FC8 ")
                                       for plan in plans.values()))
    check_that("100 epochs take longer than one",
               plans[100]["seconds_left"] > 5 * plans[1]["seconds_left"])
    plan = ole.run("reproduce", *args, "--dry-run")
    check_that("--dry-run", re.search(r"\n  4 runs to train, about \d.* here, one after the other, estimated from a "
                                      r"few steps\n", plan.stdout) and not (work / "times").exists())
    done = reproduce(ole, *args, "--epochs", "1")
    check_that("before the runs", done.returncode == 0 and re.match(
        re.escape(title) + r"4 runs to train, about \d+ s here, one after the other\n", done.stderr))
    more = reproduce(ole, "cifar10-vgg16.yaml", "--epochs", "1", "--seeds", "3", "--out", "times")
    check_that("of what is left", more.stderr.startswith(f"{title}2 runs to train, about "))
    none = reproduce(ole, "cifar10-vgg16.yaml", "--epochs", "1", "--seeds", "3", "--out", "times")
    check_that("nothing is left", none.stderr.startswith(f"{title}0 runs to train\n"))
    left = read_json(ole, "reproduce", "cifar10-vgg16.yaml", "--epochs", "1", "--seeds", "3", "--out", "times",
                     "--dry-run", "--json")[0]
    check_that("nor in the plan", (left["runs"], left["runs_left"], left["seconds_left"]) == (6, 0, 0))
    process = subprocess.Popen([ole.path, "reproduce", *args[:3], "--out", "all-epochs", "--threads", "1"],
                               cwd=work, env=ole.environment, text=True, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE)
    first = process.stderr.readline()
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=120)
    check_that("beside an H200's where runs are whole", re.fullmatch(
        re.escape(title) + r"4 runs to train, about .* here, about 12 min 00 s on an H200 in bf16, one after the "
        r"other\n", first))
    several = reproduce(ole, "cifar10-vgg16.yaml", "stl10-cnn5.yaml", "--epochs", "1", "--seeds", "1",
                        "--out", "several")
    lines = several.stderr.splitlines()
    at = next((i for i, line in enumerate(lines) if re.fullmatch(r"ole reproduce: about \d+ s here in all", line)), 0)
    check_that("of several rows, before the first run", several.returncode == 0 and at > 0 and
               sum("runs to train, about" in line for line in lines[:at]) == 2 and
               not any(line.startswith("run ") for line in lines[:at]))


def check_all(ole, work):
    check_list(ole)
    check_mistakes(ole, work)
    write_data(work)
    ole.environment["OLE_DATA"] = str(work / "data")
    check_rows(ole, work)
    check_table2(ole, work)
    check_parts(ole, work)
    check_single(ole, work)
    check_eval_every(ole, work)
    check_figures_of_rows(ole, work)
    check_toy(ole, work)
    check_studies(ole, work)
    check_novelty(ole, work)
    check_resume(ole, work)
    check_times(ole, work)


if __name__ == "__main__":
    run.conduct(__doc__, check_all)
