#!/usr/bin/env python3
"""LFW for `ole reproduce fig6-lfw`, and its standard pairs judged by the models that this trains.

    python3 bench/lfw.py lay [LFW] [DATA]          LFW: a folder per person, $OLE_DATA/lfw; DATA: $OLE_DATA
    python3 bench/lfw.py pairs REPRODUCED PAIRS.txt [LFW] [--ole build/ole]

`lay` links the people with 20 images and more into DATA/lfw62, those with 2 to 19 into DATA/lfw-others.  `pairs` runs
`ole features` on the images of the pairs and `ole verify` on pairs.txt, for every model in REPRODUCED/fig6-lfw: on all
pairs, and on those without a person of lfw62, in ten folds as they come.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

KNOWN = 20  # images of a person that is known


def people(lfw):
    return {folder.name: sorted(folder.glob("*.jpg")) for folder in sorted(lfw.iterdir()) if folder.is_dir()}


def lay(lfw, data):
    counts = {"lfw62": 0, "lfw-others": 0}
    for name, images in people(lfw).items():
        where = "lfw62" if len(images) >= KNOWN else "lfw-others"
        if len(images) < 2:
            continue
        (data / where / name).mkdir(parents=True)
        for image in images:
            os.link(image, data / where / name / image.name)
        counts[where] += 1
    print(f"{data / 'lfw62'}: {counts['lfw62']} people; {data / 'lfw-others'}: {counts['lfw-others']}")


def read_pairs(path):
    """(person, number, person, number) of each line; LFW's first line says how many follow."""
    for line in path.read_text().splitlines()[1:]:
        words = line.split("\t")
        yield (words[0], int(words[1]), words[0], int(words[2])) if len(words) == 3 else \
            (words[0], int(words[1]), words[2], int(words[3]))


def verify(options, model, lfw, known):
    """Accuracy and AUC of all pairs, and of those without a known person."""
    pairs = list(read_pairs(options.pairs))
    rows, files = {}, []
    for pair in pairs:
        for person, number in (pair[:2], pair[2:]):
            if (person, number) not in rows:
                rows[person, number] = len(files)
                files.append(f"{lfw}/{person}/{person}_{number:04}.jpg")
    with tempfile.TemporaryDirectory() as work:
        features, names, others = (os.path.join(work, n) for n in ("f.npy", "names.txt", "others.txt"))
        subprocess.run([options.ole, "features", model, *files, "--out", features, names], check=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        strangers = [p for p in pairs if p[0] not in known and p[2] not in known]
        Path(others).write_text("".join(f"{rows[p[:2]]} {rows[p[2:]]} {int(p[0] == p[2])}\n" for p in strangers))
        told = []
        for more in (["--pairs", str(options.pairs), "--names", names], ["--pairs", others]):
            done = subprocess.run([options.ole, "verify", features, *more, "--json"], check=True, stdout=subprocess.PIPE)
            told.append(json.loads(done.stdout))
    return told


def judge(options):
    lfw = options.lfw or Path(os.environ["OLE_DATA"]) / "lfw"
    known = {name for name, images in people(lfw).items() if len(images) >= KNOWN}
    found = {}
    for model in sorted(options.reproduced.glob("fig6-lfw/**/best.safetensors")):
        told = verify(options, model.parent, lfw, known)
        print(model.parent, *(f"{t['pairs']} pairs: accuracy {t['accuracy']:.2f} %, AUC {100 * t['auc']:.2f}" for t in told),
              flush=True)
        found.setdefault(str(model.parent.parent), []).append(told)
    for side, runs in found.items():
        for i, which in enumerate(("all pairs", "without known people")):
            for key, times in (("accuracy", 1), ("auc", 100)):
                values = [times * told[i][key] for told in runs]
                deviation = statistics.stdev(values) if len(values) > 1 else 0
                print(f"{side}: {which}: {key} {statistics.mean(values):.2f} ± {deviation:.2f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    laying = verbs.add_parser("lay")
    laying.add_argument("lfw", type=Path, nargs="?")
    laying.add_argument("data", type=Path, nargs="?")
    judging = verbs.add_parser("pairs")
    judging.add_argument("reproduced", type=Path)
    judging.add_argument("pairs", type=Path)
    judging.add_argument("lfw", type=Path, nargs="?")
    judging.add_argument("--ole", default="build/ole")
    options = parser.parse_args()
    if options.verb == "pairs":
        judge(options)
    else:
        data = options.data or Path(os.environ["OLE_DATA"])
        lay(options.lfw or data / "lfw", data)
    return 0


if __name__ == "__main__":
    sys.exit(main())
