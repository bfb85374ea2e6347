#!/usr/bin/env python3
"""inputs.py OLE - features and labels as .npy, .npz, .csv and .txt: every kind means the same; large images.

Damaged files and files made to do harm end with a message, within a second and 200 MB.
"""
import base64
import io
import json
import random
import resource
import struct
import zipfile
import zlib

import npyfile
import run
from run import check, check_that, read_json

WORDS = ("dog", "cat", "dog", "bird", "cat", "bird")
ROWS = [[1, 0, 0, 0], [0, 1, 0.5, 0], [1.5, 0, 0, 0], [0, 0, 1, 0.25], [0, 2, 1, 0], [0, 0, 3, 1]]


def strings(words, kind="U"):
    """A .npy file of fixed-width strings."""
    width = max(map(len, words))
    data = b"".join(w.ljust(width, "\0").encode("utf-32-le" if kind == "U" else "ascii") for w in words)
    order = "<" if kind == "U" else "|"
    return npyfile.frame(f"{{'descr': '{order}{kind}{width}', 'fortran_order': False, 'shape': ({len(words)},), }}", data)


def archive(method=zipfile.ZIP_DEFLATED, **arrays):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as packed:
        for name, data in arrays.items():
            packed.writestr(f"{name}.npy", data)
    return out.getvalue()


def write_inputs(work):
    features = npyfile.array("<f8", (6, 4), [x for row in ROWS for x in row])
    numbers = npyfile.array("<i8", (6,), [sorted(set(WORDS)).index(w) for w in WORDS])
    lines = [",".join(map(str, row)) for row in ROWS]
    files = {
        "X.npy": features, "y.npy": numbers, "words.npy": strings(WORDS), "bytes.npy": strings(WORDS, "S"),
        "words.txt": "\n".join(WORDS) + "\n\n", "windows.txt": "\ufeff" + "\r\n".join(WORDS), "numbers.txt": "2\n1\n2\n0\n1\n0\n",
        "data.npz": archive(X=features, y=numbers, words=strings(WORDS)),
        "stored.npz": archive(zipfile.ZIP_STORED, X=features, y=numbers),
        "plain.csv": "\n".join(lines), "marked.csv": "\ufeff" + "\n".join(lines),
        "data.csv": "a,b,kind,\"c, d\",d\n" + "".join(f"{r[0]},{r[1]},\"{w}\",{r[2]},{r[3]}\n" for r, w in zip(ROWS, WORDS)),
        "last.csv": "".join(f"{line},{w}\n" for line, w in zip(lines, WORDS)),
    }
    for name, data in files.items():
        (work / name).write_bytes(data if isinstance(data, bytes) else data.encode())


def check_kinds(ole):
    known = read_json(ole, "score", "X.npy", "y.npy", "--json")
    for features in ("X.npy", "data.npz", "data.npz:X", "stored.npz", "plain.csv", "marked.csv"):
        for labels in ("words.npy", "bytes.npy", "words.txt", "windows.txt", "numbers.txt", "data.npz:words",
                       "stored.npz:y", "data.csv:kind", "last.csv:5"):
            told = read_json(ole, "score", features, labels, "--json")
            names = [c.pop("name", None) for c in told.get("per_class", [])]
            check_that(f"score {features} {labels}: {told}", told == known and
                       names == ([None] * 3 if labels in ("numbers.txt", "stored.npz:y") else ["bird", "cat", "dog"]))
    for table in ("data.csv data.csv:kind", "last.csv last.csv:5"):
        told = read_json(ole, "score", *table.split(), "--json")
        for c in told.get("per_class", []):
            c.pop("name", None)
        check_that(f"score {table}: {told}", told == known)


def check_names(ole, work):
    text = ole.run("score", "X.npy", "words.txt").stdout
    check_that(f"score: {text}", "  bird and cat " in text)
    text = ole.run("analyze", "X.npy", "words.txt", "--no-tsne", "--out", "page.html").stdout
    check_that(f"analyze: {text}", "  bird and cat " in text and ">bird<" in (work / "page.html").read_text())
    told = read_json(ole, "analyze", "data.csv", "data.csv:kind", "--no-tsne", "--json")
    check_that("analyze --json", [c.get("name") for c in told.get("per_class", [])] == ["bird", "cat", "dog"])
    (work / "test.txt").write_text("dog\nbird\n")
    (work / "new.txt").write_text("dog\nant\n")
    (work / "test.csv").write_text("1,0,0,0\n0,1,0.5,0\n")
    told = read_json(ole, *"analyze X.npy words.txt --test test.csv test.txt --no-tsne --json".split())
    check_that(f"words of two files: {told.get('errors')}", told.get("errors", {}).get("knn1_error") == 50)
    check(ole, "analyze X.npy words.txt --test test.csv new.txt", code=1,
          err="ole analyze: new.txt: row 1 has the label 'ant', which no row of words.txt has\n")
    check(ole, "analyze X.npy words.txt --test X.npy y.npy", code=1,
          err="ole analyze: labels are words in one file and numbers in the other; use the same in both\n")
    done = ole.run(*"tsne X.npy --labels words.txt --out map.npy --perplexity 1 --iterations 5 --figure map.svg".split())
    check_that(f"tsne: {done.stderr}", done.returncode == 0 and "bird" in (work / "map.svg").read_text())
    (work / "pairs.txt").write_text("0 2 1\n0 1 0\n1 4 1\n2 3 0\n")
    check_that("verify", ole.run(*"verify data.npz:X --pairs pairs.txt --folds 2".split()).stdout ==
               ole.run(*"verify X.npy --pairs pairs.txt --folds 2".split()).stdout != "")


def check_mistakes(ole, work):
    def wrong(files, message):
        check(ole, f"score {files}", err=f"ole score: {message}\n", code=1)

    (work / "letter.csv").write_text("a,b\n1,2\n3,x\n")
    (work / "ragged.csv").write_text("1,2\n3\n")
    (work / "zero.csv").write_bytes(b"1,2\n3,\0\n")
    (work / "empty.csv").write_text("\n")
    (work / "header.csv").write_text("a,b\n")
    (work / "gap.txt").write_text("a\n\nb\n")
    (work / "gap.npy").write_bytes(npyfile.frame("{'descr': '<U1', 'fortran_order': False, 'shape': (6,), }", bytes(24)))
    wrong("letter.csv words.txt", "letter.csv, line 3: 'x' is not a number")
    (work / "first.csv").write_text("1,2.O\n3,4\n5,6\n")
    wrong("first.csv two.txt", "first.csv, line 1: '2.O' is not a number (a first line with numbers in it is no "
          "header, unless the labels' column is named after a cell of it)")
    (work / "pandas.csv").write_text("0,1,kind\n1,2,a\n3,4,b\n")
    (work / "named.csv").write_text("u,v,kind\n1,2,a\n3,4,b\n")
    (work / "kinds.csv").write_text("a\nb\n")
    (work / "plain2.csv").write_text("1,2\n3,4\n")
    value = {read_json(ole, "score", x, y, "--json")["loss"] for x, y in (
        ("pandas.csv", "pandas.csv:kind"), ("named.csv", "named.csv:kind"), ("named.csv", "named.csv:3"),
        ("plain2.csv", "kinds.csv:1"), ("plain2.csv", "named.csv:3"))}
    check_that(f"headers: {value}", len(value) == 1)
    wrong("ragged.csv words.txt", "ragged.csv: line 2 has 1 columns, line 1 has 2")
    wrong("zero.csv words.txt", "zero.csv: line 2 holds a zero byte, so the file is not text")
    wrong("empty.csv words.txt", "empty.csv: the file is empty")
    wrong("header.csv words.txt", "header.csv: holds no rows")
    wrong("X.npy gap.npy", "gap.npy, label 0 is empty")
    wrong("X.npy gap.txt", "X.npy has 6 rows and gap.txt has 3 labels; they must match")
    wrong("X.npy data.csv", "data.csv: name the column of the labels, as in data.csv:a")
    wrong("X.npy data.csv:x", "data.csv: no column 'x'; the first is 'a', the last 'd'")
    for output in ("data.csv", "./data.npz"):
        check(ole, f"score data.npz:X data.csv:kind --grad {output}", code=2,
              err=f"ole score: {output} would overwrite an input; name another file\n")
    wrong("data.npz:z y.npy", "data.npz: holds no array 'z'; it holds X, y, words")
    wrong("data.npz data.npz", "data.npz: holds several arrays (X, y, words); name that of the labels, as in data.npz:words")
    (work / "nan.csv").write_text("1,2\n3,nan\n")
    (work / "two.txt").write_text("a\nb\n")
    wrong("nan.csv two.txt", "nan.csv: features: row 1 holds NaN or Inf; check what produced it")
    object_array = npyfile.frame("{'descr': '|O', 'fortran_order': False, 'shape': (6,), }", b"")
    (work / "object.npy").write_bytes(object_array)
    (work / "object.npz").write_bytes(archive(y=object_array))
    for name in ("object.npy", "object.npz:y"):
        wrong(f"X.npy {name}", f"{name.split(':')[0]}: header, byte 20: dtype '|O': object arrays are not supported; save features "
              "with .astype('float32'), labels with .astype(str) or as integers")
    wrong("nowhere.npz y.npy", "nowhere.npz: cannot read: No such file or directory")
    wrong("nowhere.csv y.npy", "nowhere.csv: cannot read: No such file or directory")


def write_training(work):
    """The same 60 vectors of three classes as a table, an archive, and arrays with a list of words."""
    chance = random.Random(1)
    centres = [[chance.gauss(0, 1) for _ in range(6)] for _ in range(3)]
    words = [("owl", "cat", "bat")[i % 3] for i in range(60)]
    rows = [[round(x + 0.1 * chance.gauss(0, 1), 3) for x in centres[i % 3]] for i in range(60)]
    features = npyfile.array("<f8", (60, 6), [x for row in rows for x in row])
    (work / "set.csv").write_text("a,b,c,d,e,f,kind\n" + "".join(
        ",".join(map(str, row)) + f",{word}\n" for row, word in zip(rows, words)))
    (work / "new.csv").write_text("".join(",".join(map(str, row)) + "\n" for row in rows))
    (work / "set.npz").write_bytes(archive(x=features, kind=strings(words)))
    (work / "set-X.npy").write_bytes(features)
    (work / "set-y.txt").write_text("\n".join(words))
    return words


def check_training(ole, work):
    """Data sets of every kind train the same model, whose classes have the names of the labels."""
    words = write_training(work)
    sets = ("npy:set.csv,set.csv:kind", "npy:set.npz:x,set.npz:kind", "npy:set-X.npy,set-y.txt")
    known = None
    for i, data in enumerate(sets):
        done = ole.run("train", data, *f"--epochs 5 --threads 1 --seed 3 --out run{i}".split())
        check_that(f"train {data}: {done.stderr}", done.returncode == 0)
        for new in ("new.csv", "set.npz:x", "set-X.npy"):
            told = read_json(ole, "predict", f"run{i}", new, "--threshold", "0", "--json")
            labels = [(row["label"], row["score"]) for row in told]
            known = known or labels
            check_that(f"predict run{i} {new}", labels == known and [label for label, _ in labels] == words)
    (work / "away").mkdir()
    done = ole.run(*"eval ../run0 npy:../set.csv,../set.csv:kind".split(), shell='cd away; "$@"')
    check_that(f"eval elsewhere: {done.stdout}{done.stderr}", "bat " in done.stdout and "warning" not in done.stderr)
    whole = "features run0 npy:set.csv,set.csv:kind --split train --test-share 0 --out Z.npy"
    for names in ("Z.txt", "Zy.npy"):
        done = ole.run(*whole.split(), names)
        told = read_json(ole, "analyze", "Z.npy", names, "--no-tsne", "--json")
        check_that(f"features' class names: {done.stderr}",
                   [c.get("name") for c in told.get("per_class", [])] == ["bat", "cat", "owl"])
    for new in ("new.csv", "set.npz:x", "set-X.npy"):
        done = ole.run("features", "run0", new, "--out", "rows.npy", "rows.txt")
        check_that(f"features of {new}: {done.stderr}", npyfile.read(work / "rows.npy") == npyfile.read(work / "Z.npy") and
                   (work / "rows.txt").read_text() == "".join(f"{new}:{i}\n" for i in range(60)))

    def wrong(data, message):
        check(ole, f"train npy:{data} --net FC8 --epochs 1 --out never", code=1, err=f"ole train: {message}\n")

    (work / "nan.csv").write_text("1,2,a\n3,nan,b\n")
    (work / "object.npy").write_bytes(npyfile.frame("{'descr': '|O', 'fortran_order': False, 'shape': (60,), }", b""))
    (work / "other.csv").write_text("a,b,c,d,e,f,kind\n1,2,3,4,5,6,ant\n")
    (work / "numbers.csv").write_text("a,b,c,d,e,f,kind\n1,2,3,4,5,6,7\n")
    wrong("nan.csv,nan.csv:3", "nan.csv: row 1 holds NaN or Inf; check what produced it")
    wrong("set-X.npy,words.txt", "set-X.npy has 60 rows and words.txt has 6 labels; they must match")
    wrong("set.csv,set.csv:sort", "set.csv: no column 'sort'; the first is 'a', the last 'kind'")
    wrong("empty.csv,set-y.txt", "empty.csv: the file is empty")
    wrong("set-X.npy,object.npy", "object.npy: header, byte 20: dtype '|O': object arrays are not supported; save features with "
          ".astype('float32'), labels with .astype(str) or as integers")
    wrong("set.csv,set.csv:kind,other.csv,other.csv:kind",
          "other.csv:kind: label 0 is 'ant', a class without training samples")
    wrong("set.csv,set.csv:kind,numbers.csv,numbers.csv:kind", "labels are words in one file and numbers in the other; use the same in both")
    check_that("no run is left", not (work / "never/config.yaml").exists())


class Cost:
    """The CPU time of the processes run in a `with` block: at most a second, whatever else the machine does."""

    def __enter__(self):
        self.before = self.spent()
        return self

    def __exit__(self, *_):
        self.seconds = self.spent() - self.before

    @staticmethod
    def spent():
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        return used.ru_utime + used.ru_stime

    def fits(self, ole):
        return self.seconds < (8 if "asan" in ole.path else 1)


def check_harm(ole, work):
    """Cut and altered archives, bombs, headers that promise what is not there."""
    whole = (work / "data.npz").read_bytes()
    bombs = {"zeros.npz": archive(X=npyfile.array("<f4", (1 << 12, 1 << 12), []) + bytes(1 << 26)),
             "wide.npy": npyfile.frame("{'descr': '<U0', 'fortran_order': False, 'shape': (1000000000000,), }", b""),
             "many.npy": npyfile.frame("{'descr': '<U1', 'fortran_order': False, 'shape': (4611686018427387904,), }", b""),
             "commas.csv": b"," * (1 << 20) + b"\n1\n" * (1 << 18)}
    for step in range(0, len(whole), 37):
        bombs[f"cut-{step}.npz"] = whole[:step]
        bombs[f"altered-{step}.npz"] = whole[:step] + bytes([whole[step] ^ 0xff]) + whole[step + 1:]
    for name, data in bombs.items():
        (work / name).write_bytes(data)
        for args in (f"score {name} y.npy", f"score X.npy {name}{':2' if name.endswith('csv') else ''}"):
            with Cost() as cost:
                done = ole.run(*args.split())
            check_that(f"{args}: {done.returncode} {cost.seconds} s {done.stderr}", done.returncode in (0, 1) and
                       cost.fits(ole) and done.stderr.count("\n") == done.returncode)
    most = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss  # in kB, of the largest process so far
    check_that(f"memory: {most} kB", most < 200000 or "asan" in ole.path)


def bmp(width, height, bits, packing, rest):
    return struct.pack("<2sIHHIIiiHHIIiiII", b"BM", 0, 0, 0, 54, 40, width, height, 1, bits, packing, 0, 0, 0, 1,
                       0) + rest


def tiff(side, bits):
    """Four samples per pixel, all 0, in one packed strip."""
    strip = zlib.compress(bytes(side * side * bits // 2), 9)
    tags = ((256, 4, side), (257, 4, side), (259, 3, 8), (262, 3, 2), (273, 4, 16), (277, 3, 4), (278, 4, side),
            (279, 4, len(strip)))
    tags = b"".join(struct.pack("<HHII", tag, kind, 1, value) for tag, kind, value in tags)
    tags = tags[:24] + struct.pack("<HHII", 258, 3, 4, 8) + tags[24:]
    return struct.pack("<4sI4H", b"II*\0", 16 + len(strip), *[bits] * 4) + strip + struct.pack("<H", 9) + tags + bytes(4)


def check_images(ole, work):
    """Small files of images that are large, or that say so."""
    webp = base64.b64decode("UklGRhoAAABXRUJQVlA4TA0AAAAv/8//EwcQERGIiP4HAA==")
    files = {"large.webp": (webp, True), "wild.webp": (webp.replace(b"/\xff\xcf\xff\x13", b"/\xff\xff\xff\x1f"), False),
             "large.tif": (tiff(4000, 8), True), "deep.tif": (tiff(2890, 16), True), "deeper.tif": (tiff(4000, 16), False),
             "large.bmp": (bmp(4096, 4096, 8, 1, b"\1\2\3\0\0\1"), True), "wild.bmp": (bmp(1 << 30, 9, 8, 1, b"\0\1\2\0"), False),
             "promise.bmp": (bmp(4096, -4096, 24, 0, b"few"), False)}
    for name, (data, good) in files.items():
        folder = work / f"harm-{name}" / "a"
        folder.mkdir(parents=True)
        (folder / name).write_bytes(data)
        with Cost() as cost:
            done = ole.run("data", "check", f"folder:harm-{name}", "--json")
        told = json.loads(done.stdout)
        if "this build cannot read" in done.stderr:
            continue
        check_that(f"{name}: {cost.seconds} s {done.stdout} {done.stderr}", (done.returncode == 0) == good == told["good"]
                   and len(told["unreadable"]) == (0 if good else 1) and cost.fits(ole))
    most = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    check_that(f"memory of images: {most} kB", most < 200000 or "asan" in ole.path)


def webp(side, colour):
    """One colour: a lossless picture whose codes have a single symbol each."""
    green, red, blue = colour[1], colour[0], colour[2]
    fields = [(0x2f, 8), (side - 1, 14), (side - 1, 14), (0, 1), (0, 3), (0, 3)]  # sizes; alpha, version; no transforms or tables
    for symbol in (green, red, blue, 255):
        fields += [(0b101, 3), (symbol, 8)]  # a simple code of one symbol of 8 bits
    fields += [(0b001, 3), (0, 1)]
    bits, at = 0, 0
    for value, width in fields:
        bits |= value << at
        at += width
    data = bits.to_bytes((at + 15) // 16 * 2, "little")
    return struct.pack("<4sI8sI", b"RIFF", 12 + len(data), b"WEBPVP8L", len(data)) + data


def solid_tiff(side, colour):
    """One colour, as bytes in one strip."""
    strip = bytes(colour) * side * side
    tags = ((256, 4, side), (257, 4, side), (258, 3, 8), (259, 3, 1), (262, 3, 2), (273, 4, 8), (277, 3, 3), (278, 4, side),
            (279, 4, len(strip)))
    return struct.pack("<4sI", b"II*\0", 8 + len(strip)) + strip + struct.pack("<H", len(tags)) + b"".join(
        struct.pack("<HHII", tag, kind, 1, value) for tag, kind, value in tags) + bytes(4)


def check_photos(ole, work):
    """Photos of every kind train, are labelled and give features, and mean the same."""
    writers = {"ppm": lambda side, c: b"P6 %d %d 255\n" % (side, side) + bytes(c) * side ** 2,
               "bmp": lambda side, c: bmp(side, side, 24, 0, bytes(c[::-1]) * side ** 2), "webp": webp, "tif": solid_tiff}
    known = None
    for kind, write in writers.items():
        for name, colour in (("dawn", (220, 120, 40)), ("dusk", (20, 30, 90))):
            (work / f"photos-{kind}/{name}").mkdir(parents=True)
            for i in range(6):
                (work / f"photos-{kind}/{name}/{i}.{kind}").write_bytes(write(8, [level + 5 * i for level in colour]))
        done = ole.run(*f"train folder:photos-{kind} --net FC8 --epochs 3 --threads 1 --no-report --out p-{kind}".split())
        if "this build cannot read" in done.stderr:
            continue
        check_that(f"train on {kind}: {done.stderr}", done.returncode == 0)
        check_that(f"train on {kind}: {done.stderr}", done.returncode == 0)
        told = read_json(ole, *f"predict p-{kind} photos-{kind} --threshold 0 --json".split())
        done = ole.run(*f"features p-{kind} photos-{kind} --out P.npy P.txt".split())
        check_that(f"features of {kind}: {done.stderr}", f"photos-{kind}/dawn/0.{kind}\n" in (work / "P.txt").read_text())
        found = ([(row["label"], row["score"]) for row in told], npyfile.read(work / "P.npy"))
        known = known or found
        check_that(f"{kind}: {found}", found == known and found[1][1] == (12, 8))


def check_all(ole, work):
    write_inputs(work)
    check_kinds(ole)
    check_names(ole, work)
    check_mistakes(ole, work)
    check_harm(ole, work)
    if "\n  train " in ole.run("--help").stdout:  # `ole info` loads modules, and memory is measured here
        check_images(ole, work)
        check_photos(ole, work)
        check_training(ole, work)  # last, as the memory of all processes before it is measured


if __name__ == "__main__":
    run.conduct(__doc__, check_all)
