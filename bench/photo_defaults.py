#!/usr/bin/env python3
"""Compares settings of `ole train folder:PHOTOS` on five small sets of photos: how its defaults were chosen.

    python3 bench/photo_defaults.py OUT [--ole build/ole] [--seeds 2] [--jobs 2] [--only cifar10,lfw]
                                        [--settings before,chosen] [--final] [--resize 0] [--table]
                                        [--init-from WEIGHTS --net resnet20 --normalize imagenet]

STL-10 and CIFAR-10 with 50 images per class, AT&T's 40 faces, 12 people of FaceScrub, and the 62 people of LFW with 20
and more images, all from $OLE_DATA, are laid out as folders of images in OUT.  Without --final the errors are those on
training images that were set aside, and settings may be chosen by them; --final uses the test images (LFW and the
faces: a fifth), and is for reporting alone.  Each run is kept: the same command continues, --table only prints.
CIFAR-100, 20 classes with 25 images, joins by --only, to fine-tune weights (--init-from) that know none of its classes.
A run's two errors are that of its last epoch and that of the epoch with the lowest validation error.
"""
import argparse
import json
import os
import re
import statistics
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from PIL import Image

SMALL = "32"  # image size when settings are chosen; 0: what `ole train` chooses
COSINE = ["--milestones", "cosine", "--warmup", "2"]
ADAMW = ["--opt", "adamw", "--lr", "2e-3", "--weight-decay", "0.05", *COSINE]
LIGHT = ["--augment", "resized-crop:0.5,flip,jitter:0.2"]
MILD = ["--augment", "resized-crop:0.75,flip,jitter:0.2"]
SETTINGS = {
    "before": ["--opt", "sgd", "--lr", "0.1", "--weight-decay", "1e-4", "--milestones", "50%,75%"],
    "cosine": ["--opt", "sgd", "--lr", "0.05", *COSINE],
    "adamw": ADAMW,
    "light": [*ADAMW, *LIGHT],
    "light-sgd": ["--opt", "sgd", "--lr", "0.05", "--weight-decay", "5e-4", *COSINE, *LIGHT],
    "crop": [*ADAMW, "--augment", "crop:4,flip"],
    "balanced": [*ADAMW, *LIGHT, "--sampler", "balanced"],
    "mild": [*ADAMW, *MILD, "--sampler", "balanced"],
    "crop-balanced": [*ADAMW, "--augment", "crop:4,flip", "--sampler", "balanced"],
    "mild-all": [*ADAMW, *MILD],
    "sgd-mild": ["--opt", "sgd", "--lr", "0.1", "--weight-decay", "5e-4", *COSINE, *MILD],
    "sgd-balanced": ["--opt", "sgd", "--lr", "0.1", "--weight-decay", "5e-4", *COSINE, *MILD, "--sampler", "balanced"],
    "flip": [*ADAMW, "--augment", "flip,jitter:0.2", "--sampler", "balanced"],
    "flip-all": [*ADAMW, "--augment", "flip,jitter:0.2"],
    "flip-sgd": ["--opt", "sgd", "--lr", "0.1", *COSINE, "--augment", "flip,jitter:0.2", "--sampler", "balanced"],
    "smooth": [*ADAMW, *LIGHT, "--label-smoothing", "0.1"],
}
AS_DEFAULT = {  # what `ole train folder:` takes by itself, but for these flags
    "defaults": [],
    "scratch": [],  # without --init-from
    "backbone-0.1": ["--lr-backbone", "0.1x"],
    "probe": ["--lr-backbone", "0.1x", "--probe-epochs", "3"],
    "lr-5e-4": ["--opt", "adamw", "--lr", "5e-4", "--weight-decay", "0.05"],
    "lr-5e-3": ["--opt", "adamw", "--lr", "5e-3", "--weight-decay", "0.05"],
    "head-1e-2": ["--opt", "adamw", "--lr", "1e-2", "--lr-backbone", "0.2x", "--weight-decay", "0.05"],
    "long": ["--epochs", "100"],
    "long-backbone-0.1": ["--epochs", "100", "--lr-backbone", "0.1x"],
    "mixup": ["--augment", "flip,jitter:0.2,mixup:0.2"],
    "softmax": ["--loss", "softmax"],
    "softmax-mixup": ["--loss", "softmax", "--augment", "flip,jitter:0.2,mixup:0.2"],
}
SETTINGS.update(AS_DEFAULT)
STEPS = {"": 200, "x3": 600}  # "light-x3": three times as many steps


# ---- The sets -----------------------------------------------------------------------------------


def cifar10(data):
    names = "airplane automobile bird cat deer dog frog horse ship truck".split()
    for part, files in (("pool", [f"data_batch_{i}.bin" for i in range(1, 6)]), ("test", ["test_batch.bin"])):
        for file in files:
            rows = np.fromfile(data / "cifar10" / file, np.uint8).reshape(-1, 3073)
            for row in rows:
                yield part, names[row[0]], row[1:].reshape(3, 32, 32).transpose(1, 2, 0)


def cifar100(data):
    names = (data / "cifar100/fine_label_names.txt").read_text().split()
    for part, file in (("pool", "train.bin"), ("test", "test.bin")):
        for row in np.fromfile(data / "cifar100" / file, np.uint8).reshape(-1, 3074):
            if row[1] % 5 == 0:
                yield part, names[row[1]], row[2:].reshape(3, 32, 32).transpose(1, 2, 0)


def stl10(data):
    names = "airplane bird car cat deer dog horse monkey ship truck".split()
    for part, stem in (("pool", "train"), ("test", "test")):
        labels = np.fromfile(data / "stl10" / f"{stem}_y.bin", np.uint8)
        images = np.memmap(data / "stl10" / f"{stem}_X.bin", np.uint8).reshape(-1, 3, 96, 96)
        for label, image in zip(labels, images):
            yield part, names[label - 1], image.transpose(2, 1, 0)


def files_of(folders):
    for folder in folders:
        for path in sorted(folder.iterdir(), key=lambda p: [int(x) for x in re.findall(r"\d+", p.name)[-1:]]):
            yield "all", folder.name, path


def faces(data, name):
    for folder in (data / name, data / "faces" / name):
        if folder.is_dir():
            return sorted(f for f in folder.iterdir() if f.is_dir()), sorted(folder.iterdir())
    raise FileNotFoundError(data / name)


def att(data):
    return files_of(faces(data, "att_faces")[0])


def facescrub12(data):
    folder = next(f for f in (data / "facescrub12", data / "faces" / "facescrub12-crop", data / "facescrub12-crop")
                  if f.is_dir())
    for path in sorted(folder.iterdir()):
        if path.is_file():
            yield "all", re.match(r"[a-z]+", path.name)[0], path


def lfw(data):
    return files_of(sorted(f for f in (data / "lfw").iterdir() if f.is_dir() and len(list(f.iterdir())) >= 20))


# name: (reader, images per class to train on, to choose settings by and to test on; where the set has no test part,
# shares of each class)
SETS = {"stl10": (stl10, 50, 100, 160), "cifar10": (cifar10, 50, 100, 200), "att": (att, 0.6, 0.2, 0.2),
        "facescrub12": (facescrub12, 0.6, 0.2, 0.2), "lfw": (lfw, 0.6, 0.2, 0.2), "cifar100": (cifar100, 25, 50, 100)}
FIVE = "stl10,cifar10,att,facescrub12,lfw"


def put(image, folder, number):
    folder.mkdir(parents=True, exist_ok=True)
    if isinstance(image, Path):
        name = folder / f"{number:04d}{image.suffix.lower()}"
        os.link(image, name) if os.stat(image).st_dev == os.stat(folder).st_dev else name.write_bytes(image.read_bytes())
    else:
        Image.fromarray(np.ascontiguousarray(image)).save(folder / f"{number:04d}.png")


def lay(name, out, data):
    """OUT/NAME-choose and OUT/NAME-final, each with train and test; the training images are the same."""
    if (out / f"{name}-done").exists():
        return
    reader, train, choose, test = SETS[name]
    pools = {}
    for part, label, image in reader(data):
        pools.setdefault((part, label), []).append(image)
    draw = np.random.default_rng(0)
    for (part, label), images in sorted(pools.items()):
        order = draw.permutation(len(images))
        if part == "all":
            first, second = round(train * len(images)), round((train + choose) * len(images))
            shares = {"train": order[:first], "choose": order[first:second], "final": order[second:]}
        elif part == "pool":
            shares = {"train": order[:train], "choose": order[train:train + choose]}
        else:
            shares = {"final": order[:test]}
        for share, rows in shares.items():
            for row in rows:
                for kind in ("choose", "final"):
                    if share in ("train", kind):
                        where = "train" if share == "train" else "test"
                        put(images[row], out / f"{name}-{kind}" / where / label, int(row))
    (out / f"{name}-done").touch()


# ---- The runs -----------------------------------------------------------------------------------


def run(options, name, setting, seed):
    kind = "final" if options.final else "choose"
    resize = options.resize
    kind = kind + "-tuned" if options.init_from else kind
    folder = options.out / "runs" / f"{name}-{kind}-{resize}" / setting / str(seed)
    done = folder / "done.json"
    if done.exists():
        return json.loads(done.read_text())
    if options.table:
        return None
    subprocess.run(["rm", "-rf", folder], check=True)
    folder.parent.mkdir(parents=True, exist_ok=True)
    base, _, steps = setting.partition("-x")
    flags = [*SETTINGS[base]]
    data = options.out / f"{name}-{'final' if options.final else 'choose'}"
    if options.init_from:
        flags += ["--net", options.net, "--normalize", options.normalize, "--channels", "3"]
        if base != "scratch":
            flags += ["--init-from", options.init_from]
    if base not in AS_DEFAULT:
        images = sum(len(files) for _, _, files in os.walk(data / "train"))
        flags += ["--epochs", str(max(20, round(200 * int(steps or 1) / max(1, -(-images // 64)))))]
        if base != "before":
            flags += ["--val-split", "10%"]
    if resize != "0":
        flags += ["--resize", resize]
    subprocess.run([*options.wrap.split(), options.ole, "train", f"folder:{data}", "--seed", str(seed), "--threads",
                    "1", "--no-report", "--device", "cpu", "--eval-every", str(options.eval_every), "--out", str(folder), *flags],
                   stdout=subprocess.DEVNULL, stderr=open(str(folder) + ".log", "w"), check=True)
    epochs = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    rows = [{k: e.get(k) for k in ("epoch", "test_error", "validation_error", "seconds")} for e in epochs
            if e.get("epoch") and e.get("test_error") is not None]
    done.write_text(json.dumps(rows))
    for big in folder.glob("*.safetensors"):
        big.unlink()
    return rows


def errors(rows):
    """Test error of the last epoch and, if epochs were validated, of the best: the latest of the best."""
    rows = [r for r in rows if r["epoch"]]
    last = rows[-1]["test_error"]
    if rows[0]["validation_error"] is None:
        return last, last, last
    lowest = min(r["validation_error"] for r in rows)
    ties = [r["test_error"] for r in rows if r["validation_error"] == lowest]
    return last, ties[0], ties[-1]


def spread(values):
    deviation = statistics.stdev(values) if len(values) > 1 else 0
    return f"{statistics.mean(values):.2f} ± {deviation:.2f}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--ole", default="build/ole")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", default=FIVE)
    parser.add_argument("--settings", default="before,cosine,adamw,light,balanced")
    parser.add_argument("--resize", default=SMALL)
    parser.add_argument("--init-from")
    parser.add_argument("--net", default="resnet20")
    parser.add_argument("--normalize", default="imagenet")
    parser.add_argument("--wrap", default="", help="a command that runs each training, such as nice")
    parser.add_argument("--eval-every", type=int, default=1)
    parser.add_argument("--final", action="store_true")
    parser.add_argument("--table", action="store_true")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    names, settings = options.only.split(","), options.settings.split(",")
    if not options.table:
        for name in names:
            lay(name, options.out, Path(os.environ["OLE_DATA"]))
    jobs = [(n, s, seed) for seed in range(options.seeds) for s in settings for n in names]
    with ThreadPoolExecutor(options.jobs) as pool:
        found = dict(zip(jobs, pool.map(lambda job: run(options, *job), jobs)))
    print(f"{'set':12} {'settings':14} {'seeds':>5}  {'last epoch':>14}  {'first of best':>14}  {'last of best':>14}")
    for name in names:
        for setting in settings:
            rows = [errors(found[name, setting, seed]) for seed in range(options.seeds) if found[name, setting, seed]]
            if rows:
                print(f"{name:12} {setting:14} {len(rows):5}  " + "  ".join(f"{spread(v):>14}" for v in zip(*rows)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
