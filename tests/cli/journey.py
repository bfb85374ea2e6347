#!/usr/bin/env python3
"""journey.py OLE - `ole train folder:photos` and nothing else: what is chosen, said and stored, and
that the other commands take the run folder as it is.

The photos are bright or dark, of several sizes, some grey: two epochs tell them apart.
"""
import json
import os
import re
import shutil
import subprocess

import npyfile
import run
from run import check, check_that, read_json


def write_photo(path, width, height, level, colour):
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = bytes((level + 7 * i) % 60 + level for i in range(width * height))
    if colour:
        pixels = bytes(value for pixel in pixels for value in (pixel, level, pixel))
    path.write_bytes(b"P%d %d %d 255\n" % (6 if colour else 5, width, height) + pixels)


def write_photos(folder, side=40):
    for name, level in (("day", 150), ("night", 20)):
        for i in range(12):
            write_photo(folder / name / f"{i}.ppm", side + i % 3, side + i % 2, level, i % 4 > 0)


def config(folder):
    lines = (folder / "config.yaml").read_text().splitlines()
    return dict(line.split(": ", 1) for line in lines)


# ---- Photos -------------------------------------------------------------------------------------

SETTINGS = ("ole train: settings for photos: --opt adamw --lr 2e-3 --weight-decay 0.05 --milestones cosine{warmup} "
            "--augment flip,jitter:0.2 --sampler balanced; flags set others\n")
CHOSEN = """\
ole train: images: 32x32, chosen because they differ in size; --resize sets another size
ole train: images: in colour, although some are grey; --channels 1 makes all grey
ole train: net: C32(x2)-MP-C64(x2)-MP-C128(x2)-AP, chosen for 3x32x32; --net sets another
""" + SETTINGS.format(warmup="") + """\
ole train: run folder: ole-run; --out sets another
epoch 1/2 """


def check_photos(ole, work):
    write_photos(work / "photos")
    trained = ole.run(*"train folder:photos --epochs 2 --threads 1".split())
    check_that("what is chosen is said", trained.stderr.startswith(CHOSEN))
    check_that("there is an error, a folder and a page", trained.returncode == 0 and re.search(
        r"^test error +\d.*\n1-NN error +\d.*\nunknown +under 0\.\d{4}: cross-fitted on \d+ training samples\n"
        r" +\(the network has seen these samples, so it rejects more new ones\)\nrun folder +ole-run\n"
        r"report +ole-run/report.html\nwhat next +ole predict ole-run photos/day/0.ppm\n"
        r" +ole export ole-run --onnx ole-run/model.onnx\n$", trained.stdout))
    stored = config(work / "ole-run")
    check_that("what is chosen is stored", stored["resize"] == "32" and stored["channels"] == "3" and
               stored["net"] == "C32(x2)-MP-C64(x2)-MP-C128(x2)-AP" and
               (stored["opt"], stored["milestones"], stored["sampler"]) ==
               ("adamw", "cosine", "balanced"))


def check_settings(ole, work):
    """Photos have settings of their own: a flag replaces those that belong together, and a recipe, a resumed run and
    other data have none of them."""
    quick = "--net FC4 --resize 8 --threads 1 --no-report"

    def settings(args, folder):
        done = ole.run(*f"train {args} {quick} --out {folder}".split())
        check_that(f"{args}: {done.stderr}", done.returncode == 0)
        return done.stderr, config(work / folder)

    (work / "plain.yaml").write_text("data: folder:photos\nepochs: 1\n")
    said, _ = settings("folder:photos --epochs 11", "own-0")
    check_that(f"a warm-up where there is time: {said}", SETTINGS.format(warmup=" --warmup 2") in said)
    said, stored = settings("folder:photos --epochs 1 --lr 0.05 --gamma 0.5 --augment none", "own-1")
    check_that(f"flags replace what belongs together: {said}, {stored}",
               "ole train: settings for photos: --sampler balanced; flags set others\n" in said and
               (stored["opt"], stored["lr"], stored["augment"], "cosine" in stored["milestones"]) ==
               ("sgd", "0.05", "none", False))
    said, _ = settings("folder:photos --epochs 1 --opt sgd --milestones none --augment flip --batch-size 8", "own-2")
    check_that(f"all of them: {said}", "settings" not in said)
    for args, folder in (("-c plain.yaml", "own-3"), ("--resume --epochs 2", "own-3")):
        said, stored = settings(args, folder)
        check_that(f"{args}: {said}", "settings" not in said and stored["opt"] == "sgd")


def check_best(ole, work):
    """With 20 photos per class some are held out; --keep best keeps the epoch with the lowest error on them."""
    for name, level in (("day", 40), ("night", 20)):
        for i in range(30):
            write_photo(work / "many" / name / f"{i}.ppm", 9, 9, level + i, False)
    quick = "train folder:many --net FC4 --epochs 4 --threads 1 --no-report --json"
    told = read_json(ole, *f"{quick} --keep best --out best".split())
    epochs = [json.loads(line) for line in (work / "best/metrics.jsonl").read_text().splitlines()][:4]
    errors = [epoch["validation_error"] for epoch in epochs]
    check_that(f"the best epoch: {told}, {errors}", None not in errors and told["best_epoch"] == 4 - errors[::-1].index(min(errors)) and
               told["best_validation_error"] == min(errors) and told["unknown"]["samples"] == 4)
    last = read_json(ole, *f"{quick} --out last".split())
    check_that(f"without it: {last}", "best_epoch" not in last and last["unknown"]["samples"] == 4)
    kept = read_json(ole, *f"{quick} --val-split 20% --keep last --out both".split())
    errors = [json.loads(line)["validation_error"] for line in (work / "both/metrics.jsonl").read_text().splitlines()]
    check_that(f"with --val-split: {kept}", "best_epoch" not in kept and None not in errors and
               kept["validation_error"] == errors[3])


def check_after(ole, work):
    """The commands that follow, on the folder that was made."""
    write_photo(work / "new.ppm", 90, 50, 150, True)
    said = read_json(ole, *"predict ole-run new.ppm --threshold 0 --json".split())
    check_that("predict", said[0]["label"] in ("day", "night"))
    judged = read_json(ole, *"eval ole-run folder:photos --json".split())
    check_that("eval takes the size of the model", judged["n"] == 4)
    made = ole.run(*"features ole-run folder:photos --out F.npy L.npy".split())
    check_that("features", made.returncode == 0 and npyfile.read(work / "F.npy")[1] == (4, 128))
    (work / "ole-run/report.html").unlink()
    check_that("report", ole.run("report", "ole-run").returncode == 0 and
               (work / "ole-run/report.html").exists())
    resumed = ole.run(*"train --resume --epochs 3 --out ole-run --no-report".split())
    check_that("resume", resumed.returncode == 0 and "chosen" not in resumed.stderr and
               "epoch 3/3" in resumed.stderr)


def check_next(ole, work):
    """The commands that training suggests run when they are pasted."""
    write_photos(work / "it's a/photo set")
    (work / "V.npy").write_bytes(npyfile.array("<f4", (20, 4), [float(i % 7) for i in range(80)]))
    (work / "v.npy").write_bytes(npyfile.array("<i8", (20,), [i % 2 for i in range(20)]))
    (work / "it's a/photo set/.hidden.ppm").write_text("")
    for i, (data, more, verb) in enumerate((
            ("folder:it's a/photo set", "", "predict"), ("npy:V.npy,v.npy", "", "predict"),
            ("digits", "--samples-per-class 5", "eval"), ("digits", "--samples-per-class 5 --seeds 2", "eval"),
            ("digits", "--samples-per-class 5 --loss ole", "eval"))):
        out = f"my run, {i}"
        done = ole.run("train", data, *f"--net FC8 --epochs 1 --threads 1 --no-report {more}".split(), "--out", out)
        text = done.stdout.split("what next")[1]
        told = read_json(ole, "train", "--resume", "--epochs", "2", "--out", out, "--no-report", "--json")["next"]
        check_that(f"{data}: JSON has the same: {told}", told == [line.strip() for line in text.splitlines()])
        check_that(f"{data}: {told[0]}", told[0].startswith(f"ole {verb} 'my run"))
        for command in told:
            pasted = subprocess.run(["bash", "-c", f'ole() {{ "{ole.path}" "$@"; }}\n{command}'], cwd=work,
                                    env=ole.environment, text=True, capture_output=True)
            check_that(f"{command}: {pasted.stderr}", pasted.returncode == 0 and pasted.stdout)
        exported = list((work / out).glob("**/model.onnx"))
        check_that(f"{data}: exported", len(exported) == 1)


def check_folders(ole, work):
    """Names count up; nothing is written over, and a command that fails leaves no folder."""
    quick = "train digits --samples-per-class 2 --epochs 1 --threads 1 --no-report --json"
    (work / "ole-run-3").mkdir()
    first, second = (read_json(ole, *quick.split())["out"] for _ in range(2))
    check_that("the next free name", (first, second) == ("ole-run-2", "ole-run-4"))
    check_that("digits have a net", config(work / "ole-run-2")["net"] == "C32-MP-C64-MP-FC64")
    check(ole, "train folder:nowhere", code=1, err="ole train: nowhere: cannot open the folder: "
          "No such file or directory\n")
    check(ole, "train digits --augment flop", code=2, err="ole train: augment 'flop': expected crop:PIXELS, "
          "resized-crop:SHARE, flip, rotate:DEGREES, jitter:X, erase:P, cutout:PIXELS, mixup:ALPHA, or some of them "
          "separated by commas\n")
    check(ole, "train photos", code=2, err="ole train: photos: not a data set; a folder with one subfolder "
          "of images per class is written folder:photos\n")
    check_that("no folder is left behind", not (work / "ole-run-5").exists())


def check_inside(ole, work):
    """Started in the folder of photos: runs and studies that lie among the classes are none."""
    write_photos(work / "here", 12)
    quick = "--net FC4 --resize 8 --epochs 1 --threads 1 --no-report"
    for folder in ("", " --out runs/a", " --out both --seeds 2"):
        done = ole.run(shell=f'cd here && "$@" train folder:. {quick}{folder}')
        check_that(f"train{folder}: {done.stderr}", done.returncode == 0)
    tuned = ole.run(shell='cd here && "$@" tune folder:. --net FC4 --resize 8 --epochs 1 --threads 1 --seeds 1 '
                    '--lambdas 0,1 --out tuned')
    check_that(f"tune: {tuned.stderr}", tuned.returncode == 0)
    check_that("one epoch is no plural", "1 epoch · 1 seed<" in (work / "here/tuned/report.html").read_text())
    for model in ("ole-run", "runs/a", "both/seed-1"):
        done = ole.run(shell=f'cd here && "$@" eval {model} folder:. --json')
        check_that(f"eval {model}: {done.stderr}", done.returncode == 0 and not done.stderr and
                   [row["class"] for row in json.loads(done.stdout)["per_class"]] == ["day", "night"])
    (work / "here/empty").mkdir()
    check(ole, "data check folder:here", code=1, err="ole data check: here/empty: no images in this class; add "
          "png, jpeg, webp, bmp, tiff, pgm or ppm files, or remove the folder\n")


def check_bad(ole, work):
    """An image that cannot be read, and what to do about it; one class alone."""
    write_photo(work / "one/day/0.pgm", 12, 12, 150, False)
    single = "has a single class; classification needs at least two"
    for args in ("", " --epochs 3", " --net FC4 --resize 8"):
        check(ole, f"train folder:one{args} --out one-run", code=1, err=f"ole train: folder:one {single}\n")
    check_that("nothing is left of it", not (work / "one-run").exists())
    (work / "one/day/1.pgm").write_bytes((work / "one/day/0.pgm").read_bytes()[:100])
    write_photo(work / "one/night/0.pgm", 12, 12, 20, False)
    few = ole.run(*"train folder:one --net FC4 --test-share 60% --skip-bad --out one-run".split()).stderr
    check_that(f"one is no plural: {few}", "chosen for 1 sample; " in few)
    alone = ole.run(*"train folder:one --net FC4 --epochs 1 --skip-bad --no-report --out no-test".split()).stderr
    check_that(f"no test set: {alone}", "warning: no test set: no class of folder:one has enough samples to "
               "hold out a share of 0.2 (test_share)" in alone)
    shutil.rmtree(work / "one-run", ignore_errors=True)
    quick = "train folder:one --net FC4 --epochs 1 --threads 1 --no-report"
    check(ole, quick, code=1, err="ole train: one/day/1.pgm: byte 13: the file ends before its 12x12 pixels do: "
          "it is cut off; fix it or pass --skip-bad\n")
    (work / "one/day/2.pgm").write_bytes((work / "one/day/0.pgm").read_bytes())
    check(ole, f"{quick} --skip-bad --seeds 2 --out one-runs".replace("folder:one", "digits --classes 3"), code=1,
          err=f"ole train: digits {single}\n")
    done = ole.run(*f"{quick} --skip-bad --out one-run".split())
    check_that(f"what is left: {done.stderr}", done.returncode == 0 and done.stderr.startswith(
        "ole train: folder:one: skipped an unreadable image: one/day/1.pgm\n"))
    for i in range(4):
        (work / f"one/night/bad{i}.png").write_bytes(b"nonsense")
    done = ole.run(*f"{quick} --skip-bad --out some-run".split())
    check_that(f"five skipped: {done.stderr}", done.returncode == 0 and done.stderr.startswith(
        "ole train: folder:one: skipped 5 unreadable images: one/day/1.pgm, one/night/bad0.png, one/night/bad1.png, ... "
        "(ole data check --skip-bad folder:one lists them)\n"))
    listed = ole.run(*"data check --skip-bad folder:one".split())
    check_that(f"... and listed: {listed.stdout}", listed.returncode == 0 and
               [line.split()[:2] for line in listed.stdout.splitlines()[:5]] ==
               [["unreadable", f"one/{name}:"] for name in
                ("day/1.pgm", *(f"night/bad{i}.png" for i in range(4)))])
    check(ole, quick, code=1, err="ole train: one/day/1.pgm: byte 13: the file ends before its 12x12 pixels do: it is "
          "cut off; 5 images are unreadable, 'ole data check' lists them: fix them or pass --skip-bad\n")


def check_no_test(ole, work):
    """A test folder without an image to test on: not a share of what is trained on instead."""
    for i in range(5):
        write_photo(work / f"parted/train/day/{i}.pgm", 12, 12, 20 * i, False)
    (work / "parted/test").mkdir()
    refused = ("parted/test: no readable images; put the test images there, one subfolder per class, or "
               "remove it to hold out a share of the training images\n")
    check(ole, "data check folder:parted", code=1, err=f"ole data check: {refused}")
    (work / "parted/test/day").mkdir()
    (work / "parted/test/day/0.pgm").write_bytes(b"P5 12 12 255\n")
    check(ole, "data check folder:parted --skip-bad", "unreadable parted/test/day/0.pgm: byte 13: the file ends before "
          "its 12x12 pixels do: it is cut off\n", code=1, err=f"ole data check: {refused}")


def check_not_utf8(ole, work):
    os.mkdir(os.fsencode(work) + b"/caf\xe9")
    done = ole.run(shell='"$1" train "folder:$(printf "caf\\351")" --net FC4 --out never 2>&1 | tr -d "\\351"')
    check_that(f"a path that is not UTF-8: {done.stdout}", done.stdout ==
               "ole train: data 'folder:caf': not UTF-8; rename it, as a run's files are UTF-8\n" and
               not (work / "never").exists())


def check_changed(ole, work):
    """A run goes on with its data: other classes are refused, other samples are warned of."""
    write_photos(work / "album", 12)
    train = "train folder:album --net FC4 --resize 8 --epochs 2 --threads 1 --no-report --out kept"
    ole.run(*train.split())
    go_on = "train --resume --no-report --threads 1 --out kept --epochs"
    check(ole, f"{go_on} 1", code=2, err="ole train: kept/last.safetensors: the run is already at epoch 2; --epochs "
          "1 would end before that\n")
    same = ole.run(*f"{go_on} 3".split())
    check_that(f"the same: {same.stderr}", same.returncode == 0 and "warning" not in same.stderr)
    config_before, metrics = (work / "kept/config.yaml").read_text(), (work / "kept/metrics.jsonl").read_bytes()
    (work / "kept/metrics.jsonl").write_bytes(metrics[:100])
    check(ole, f"{go_on} 4", code=1, err="ole train: kept/metrics.jsonl: shorter than when the checkpoint was saved: it has "
          "been changed since; restore it, or start another run\n")
    check_that("refused, it writes nothing", (work / "kept/config.yaml").read_text() == config_before)
    (work / "kept/metrics.jsonl").write_bytes(metrics)
    write_photo(work / "album/day/new.ppm", 12, 12, 90, True)
    more = ole.run(*f"{go_on} 4".split())
    check_that(f"one more: {more.stderr}", more.returncode == 0 and more.stderr.startswith(
        "ole train: warning: the training samples of folder:album have changed since the run "
        "began; its test samples may include some it was trained on\n"))
    (work / "album/day").rename(work / "album/noon")
    refused = "resume with the same data, or start a new run\n"
    check(ole, f"{go_on} 5", code=2, err="ole train: kept/last.safetensors: class 0 of the run is 'day', that of the "
          f"data 'night'; {refused}")
    check(ole, f"{go_on} 5 digits --resize 0 --channels 0", code=2, err="ole train: kept/last.safetensors: the run "
          f"has resize '8', not '0'; {refused.replace('the same data', 'the same')}")


# ---- Other shapes, other commands ---------------------------------------------------------------

def check_vectors(ole, work):
    said = read_json(ole, *"predict vectors X.npy --json".split())
    check_that("predict takes rows", [p["row"] for p in said] == list(range(20)) and
               {p["label"] for p in said} <= {"0", "1"} and said[0]["file"] == "X.npy")
    check(ole, "predict vectors y.npy new.ppm", code=1, err="ole predict: y.npy: the shape must be (N, D), "
          "(N, H, W), (N, C, H, W) or (N, H, W, C) with 1 to 4 channels C\nole predict: new.ppm: an image, but the model "
          "takes rows of 6 features; make them, then predict: ole features BACKBONE new.ppm --out F.npy L.txt && "
          "ole predict vectors F.npy\n")
    check(ole, "predict X.npy vectors", code=1, err="ole predict: X.npy is an array, not a model; name the model first\n")
    check(ole, "predict new.ppm vectors", code=1, err="ole predict: new.ppm is an image, not a model; name the model first\n")
    first = ole.run(*"predict vectors X.npy".split()).stdout.splitlines()[0]
    check_that("... and says which", re.match(r"X.npy, row 0: [01] \d\.\d{3} \([01] ", first))


def check_images_in_arrays(ole, work):
    """A file's images are the same bytes in whatever layout, and as floats; others are refused."""
    pixels = [[(37 * i + 5 * p + 90 * c) % 256 for p in range(96)] for i in range(3) for c in range(3)]
    planes = [pixels[3 * i + c][p] for i in range(3) for c in range(3) for p in range(96)]
    pixel_by_pixel = [pixels[3 * i + c][p] for i in range(3) for p in range(96) for c in range(3)]
    (work / "bytes.npy").write_bytes(npyfile.array("|u1", (3, 3, 8, 12), planes))
    (work / "last.npy").write_bytes(npyfile.array("|u1", (3, 8, 12, 3), pixel_by_pixel))
    (work / "floats.npy").write_bytes(npyfile.array("<f4", (3, 3, 8, 12), [v / 255 for v in planes]))
    (work / "labels.npy").write_bytes(npyfile.array("<i8", (3,), [0, 1, 2]))
    for i in range(3):
        body = bytes(pixels[3 * i + c][p] for p in range(96) for c in range(3))
        (work / f"image-{i}.ppm").write_bytes(b"P6 12 8 255\n" + body)
    trained = ole.run(*"train npy:bytes.npy,labels.npy,bytes.npy,labels.npy --net C4-MP-FC8 --epochs 2 --threads 1 "
                      "--no-report --out arrays".split())
    check_that(f"images in an array: {trained.stderr}", trained.returncode == 0)
    told = {name: [{k: p[k] for k in ("label", "score", "classes")} for p in
                   read_json(ole, "predict", "arrays", *name.split(), "--json")]
            for name in ("bytes.npy", "last.npy", "floats.npy", "image-0.ppm image-1.ppm image-2.ppm")}
    check_that(f"the same images: {told}", len(told["bytes.npy"]) == 3 and
               all(some == told["bytes.npy"] for some in told.values()))
    check(ole, "predict arrays X.npy", code=1,
          err="ole predict: the model takes 3x8x12, but the samples of X.npy are vectors of 6\n")
    check(ole, "predict vectors bytes.npy", code=1,
          err="ole predict: the model takes vectors of 6, but the samples of bytes.npy are 3x8x12\n")


def check_choices(ole, work):
    """Large photos of one size are scaled where no net is named; a net that is named sees them."""
    for i in range(4):
        write_photo(work / "large" / "ab"[i % 2] / f"{i}.ppm", 140, 130, 40 * i, False)
    flags = "--epochs 1 --threads 1 --no-report --out "
    ole.run(*f"train folder:large {flags} scaled".split())
    ole.run(*f"train folder:large --net C4-MP-AP {flags} as-is".split())
    check_that("large photos", config(work / "scaled")["resize"] == "96" and
               config(work / "scaled")["net"] == "C32-MP-C64-MP-C128-MP-C128-MP-C256-AP" and
               config(work / "as-is")["resize"] == "0")
    values = [float(i % 7 + i // 60) for i in range(120)]
    (work / "X.npy").write_bytes(npyfile.array("<f4", (20, 6), values))
    (work / "y.npy").write_bytes(npyfile.array("<i8", (20,), [i // 10 for i in range(20)]))
    trained = ole.run(*"train npy:X.npy,y.npy --threads 1 --no-report --out vectors".split())
    check_that("vectors", trained.stderr.startswith(
        "ole train: net: FC64(x2), chosen for vectors of 6; --net sets another\n"
        "ole train: epochs: 100, chosen for 16 samples; --epochs sets another number\n"))
    check_vectors(ole, work)
    check_images_in_arrays(ole, work)
    check_that("... to the end", config(work / "vectors")["epochs"] == "100" and
               "epoch 100/100" in trained.stderr)


def check_studies(ole, work):
    tuned = ole.run(*"tune digits --samples-per-class 4 --epochs 1 --seeds 1 --lambdas 0,1 --threads 1 "
                    "--out tuned".split())
    check_that("a tuning chooses, and says so once", tuned.returncode == 0 and tuned.stderr.count(
        "ole tune: net: C32-MP-C64-MP-FC64, chosen for 1x8x8; --net sets another\n") == 1)
    check_that("... and stores it", all(config(work / folder)["net"] == "C32-MP-C64-MP-FC64"
                                        for folder in ("tuned", "tuned/lambda-0/seed-0")))
    again = ole.run(*"tune --resume --out tuned --threads 1".split())
    check_that("... and goes on", again.returncode == 0 and "resuming after" in again.stderr)


def check_all(ole, work):
    check_photos(ole, work)
    check_settings(ole, work)
    check_best(ole, work)
    check_after(ole, work)
    check_next(ole, work)
    check_folders(ole, work)
    check_inside(ole, work)
    check_bad(ole, work)
    check_no_test(ole, work)
    check_not_utf8(ole, work)
    check_changed(ole, work)
    check_choices(ole, work)
    check_studies(ole, work)


if __name__ == "__main__":
    run.conduct(__doc__, check_all)
