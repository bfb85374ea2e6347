#!/usr/bin/env python3
"""analyze.py OLE - runs `ole analyze` on features made here.

The numbers are compared with scikit-learn, SciPy and NumPy where this Python has them (it says when it
has not), figures and page with what they should hold.
"""
import math
import os
import random
import resource
import subprocess
import sys

import npyfile
import run
from run import check, check_that, read_json

try:
    import numpy
    import scipy.linalg
    import sklearn.neighbors
except ImportError as missing:
    numpy = None
    SYSTEM = "/usr/bin/python3"  # Debian's packages are there, whatever Python the build has found
    if sys.executable != SYSTEM and not subprocess.call(
            [SYSTEM, "-c", "import numpy, scipy, sklearn"], stderr=subprocess.DEVNULL):
        os.execv(SYSTEM, [SYSTEM, *sys.argv])
    print(f"skipped: the comparison with scikit-learn and SciPy ({missing})")


# ---- Files --------------------------------------------------------------------------------------

def make_features(rows, dim, classes, noise, seed):
    """Rows along a line of their class, the lines at random; every 13th row is ignored."""
    lines = random.Random(5)
    lines = [[lines.gauss(0, 1) for _ in range(dim)] for _ in range(classes)]
    chance = random.Random(seed)
    labels = [-1 if i % 13 == 12 else 3 * chance.randrange(classes) for i in range(rows)]
    features = []
    for i, label in enumerate(labels):
        along = chance.uniform(0.5, 2)
        features += [along * x + noise * chance.gauss(0, 1) for x in lines[max(label, 0) // 3]]
    return features, labels


def write_set(work, name, rows, dim, classes, noise, seed=1):
    features, labels = make_features(rows, dim, classes, noise, seed)
    (work / f"{name}-F.npy").write_bytes(npyfile.array("<f4", (rows, dim), features))
    (work / f"{name}-L.npy").write_bytes(npyfile.array("<i8", (rows,), labels))


def write_files(work):
    write_set(work, "train", 400, 12, 4, 1.0)
    write_set(work, "test", 150, 12, 4, 1.0, seed=2)
    write_set(work, "wide", 90, 40, 3, 0.7)
    write_set(work, "toy", 120, 3, 3, 0.2)
    write_set(work, "flat", 60, 2, 2, 0.2)
    write_set(work, "many", 300, 16, 30, 0.4)
    bad = {
        "nan-F": npyfile.array("<f4", (4, 2), [1, 2, 3, 4, 5, math.nan, 7, 8]),
        "four-L": npyfile.array("<i8", (4,), [0, 0, 1, 1]),
        "three-L": npyfile.array("<i8", (3,), [0, 0, 1]),
        "one-L": npyfile.array("<i8", (4,), [5, 5, 5, 5]),
        "none-L": npyfile.array("<i8", (4,), [-1, -1, -2, -1]),
        "four-F": npyfile.array("<f4", (4, 2), [1, 0, 2, 0, 0, 1, 0, 3]),
        "empty-F": npyfile.array("<f4", (0, 2), []),
        "empty-L": npyfile.array("<i8", (0,), []),
        "skip-L": npyfile.array("<i8", (4,), [0, 1, -1, 1]),
        "int-F": npyfile.array("<i4", (4, 2), [1, 0, 2, 0, 0, 1, 0, 3]),
        "zeros-F": npyfile.array("<f4", (4, 2), [1, 0, 2, 1, 0, 0, 0, 0]),
        "zero-F": npyfile.array("<f4", (4, 2), [1, 0, 2, 0, 0, 1, 0, 0]),
    }
    for name, content in bad.items():
        (work / f"{name}.npy").write_bytes(content)


# ---- Mistakes -----------------------------------------------------------------------------------

def check_mistakes(ole):
    def wrong(args, message, code=1):
        check(ole, "analyze " + args, err=f"ole analyze: {message}\n", code=code)

    wrong("four-F.npy three-L.npy",
          "four-F.npy has 4 rows and three-L.npy has 3 labels; they must match")
    wrong("four-F.npy one-L.npy",
          "one-L.npy: all rows have the label 5; at least two classes are needed")
    (ole.work / "one.txt").write_text("owl\n" * 4)
    wrong("four-F.npy one.txt", "one.txt: all rows have the label owl; at least two classes are needed")
    wrong("nan-F.npy four-L.npy", "nan-F.npy: features: row 2 holds NaN or Inf")
    wrong("four-F.npy none-L.npy",
          "none-L.npy: every label is negative, so every row is ignored")
    wrong("empty-F.npy empty-L.npy", "empty-F.npy: no features: the shape is (0, 2)")
    wrong("four-F.npy four-L.npy --test nan-F.npy four-L.npy",
          "nan-F.npy: test features: row 2 holds NaN or Inf")
    wrong("train-F.npy train-L.npy --test four-F.npy four-L.npy",
          "test features have 2 dimensions, the training features 12")
    (ole.work / "birds.txt").write_text("owl\nhen\nowl\nhen\n")
    (ole.work / "zebra.txt").write_text("owl\nhen\nzebra\nhen\n")
    wrong("four-F.npy birds.txt --test four-F.npy zebra.txt",
          "zebra.txt: row 2 has the label 'zebra', which no row of birds.txt has")
    wrong("four-F.npy birds.txt --k 4", "--k 4: four-F.npy has 3 other rows to be neighbours; give at most that")
    wrong("four-F.npy birds.txt --test four-F.npy birds.txt --k 5",
          "--k 5: four-F.npy has 4 rows to be neighbours; give at most that")
    check_that("as many as there are", ole.run(*"analyze four-F.npy birds.txt --k 3".split()).returncode == 0)
    wrong("four-F.npy four-L.npy --k 0", "--k '0': expected a whole number from 1 to 1000", 2)
    wrong("int-F.npy four-L.npy", "int-F.npy: features are int32; save them with .astype('float32')")
    wrong("four-F.npy four-L.npy --sample 20 --exact",
          "--sample 20 cannot be combined with --exact, which uses all rows", 2)
    wrong("nan-F.npy four-L.npy --out nowhere/page.html",  # found before the features are read
          "nowhere/page.html: cannot write: No such file or directory")
    wrong("nan-F.npy four-L.npy --json --figures nowhere/f",
          "nowhere/f: cannot create the folder: No such file or directory")
    wrong("four-F.npy", "missing argument LABELS.npy: [rows], numbers or words, as .npy, .npz, .txt or "
          "FILE.csv:COLUMN; rows with a label < 0 are ignored; see 'ole analyze --help'", 2)
    (ole.work / "each-L.npy").write_bytes(npyfile.array("<i8", (4,), [0, 1, 2, 3]))
    ole.run(*"analyze four-F.npy each-L.npy --no-tsne --out each.html".split())
    page = (ole.work / "each.html").read_text()
    check_that("no class has two rows", "No class has two rows, median " in page and "nan°" not in page)
    ignored = read_json(ole, "analyze", "nan-F.npy", "skip-L.npy", "--json")
    check_that("a row that is ignored may hold NaN",
               ignored.get("n") == 3 and ignored.get("ignored") == 1)


# ---- Numbers ------------------------------------------------------------------------------------

def check_text(ole):
    run_ = ole.run("analyze", "four-F.npy", "four-L.npy", "--no-tsne")
    expected = """\
rows                          4
dimensions                    2
classes                       2

error, %                leave-one-out, 4 rows
  1-NN (cosine)            0.00
  5-NN (cosine)          100.00
  nearest centroid         0.00
  nearest subspace         0.00   1.0 directions per class

angle, degrees             mean      5 %   median     95 %
  within classes           0.00     0.00     0.00     0.00
  between classes         90.00    90.00    90.00    90.00

OLE loss                      0   (5.39835 - 5.39835) / 4
effective rank             1.97   per class 1.00

classes that overlap most, by principal angle (90 degrees: orthogonal)
  0 and 1           90.00 degrees

neural collapse              0: collapsed
  NC1                    0.1168   variance within classes over variance between
  NC2, norms                  0   deviation of the lengths of class means, over their mean
  NC2, cosines                0   deviation of the cosines of class means
  NC2, simplex                0   mean distance of these cosines from -1/(C-1)
  cosine of means             0   of classes, not centred; OLE: 0

retrieval, %            4 queries
  MAP@R                  100.00
  R-precision            100.00
  recall@1               100.00
  recall@2               100.00
  recall@4               100.00
  recall@8               100.00
"""
    check_that(f"the text of two orthogonal classes:\n{run_.stdout}{run_.stderr}",
               run_.stdout == expected and run_.stderr == "")


def check_classifier(ole):
    """A classifier along the classes: it agrees with them, and its vectors lie in their subspaces."""
    (ole.work / "W.npy").write_bytes(npyfile.array("<f4", (2, 2), [2, 0, 0, 2]))
    (ole.work / "b.npy").write_bytes(npyfile.array("<f8", (2,), [0, 0]))
    args = "analyze four-F.npy four-L.npy --no-tsne --classifier"
    told = read_json(ole, *f"{args} W.npy,b.npy --json".split())
    check_that(f"a classifier: {told.get('collapse')}", told["collapse"]["nc4"] == 0 and told["collapse"]["angle_most"] == 0
               and told["collapse"]["angles"] == [0, 0] and told["collapse"]["nc3"] > 0.5
               and told["retrieval"]["recall"] == {"1": 100, "2": 100, "4": 100, "8": 100})
    bare = read_json(ole, *f"{args} W.npy --json".split())
    check_that("without a bias", bare["collapse"] == told["collapse"])
    page = ole.run(*f"{args} W.npy --out collapse.html".split())
    check_that(f"page: {page.stderr}", "w to subspace" in (ole.work / "collapse.html").read_text() and
               "MAP@R" in (ole.work / "collapse.html").read_text() and "w to subspace" in page.stdout)
    for file, message in (("b.npy", "b.npy: the shape is (2,); expected (2, 2), for the classes and dimensions"),
                          ("W.npy,W.npy", "W.npy: the shape is (2, 2); expected (2,), for the classes and dimensions"),
                          ("no.npy", "no.npy: cannot open: No such file or directory")):
        done = ole.run(*f"{args} {file}".split())
        check_that(f"{file}: {done.stderr}", done.returncode == 1 and done.stderr == f"ole analyze: {message}\n")


def check_ties(ole):
    """Rows that are all the same: of equal classes the first is the nearest."""
    chance = random.Random(8)
    row = [chance.gauss(0, 1) for _ in range(7)]
    (ole.work / "same-F.npy").write_bytes(npyfile.array("<f8", (60, 7), row * 60))
    (ole.work / "same-L.npy").write_bytes(npyfile.array("<i8", (60,), [i % 3 for i in range(60)]))
    errors = read_json(ole, "analyze", "same-F.npy", "same-L.npy", "--no-tsne", "--json")["errors"]
    for what in ("centroid_error", "subspace_error"):
        close(f"ties: {what}", errors[what], 200 / 3)


def check_zeros(ole):
    """Rows of zeros have no angle: they are left out, which is no sample, and said."""
    few = ole.run("analyze", "zero-F.npy", "four-L.npy", "--no-tsne").stdout
    check_that(f"a row of zeros:\n{few}", "   excluding 1 row of zeros\n" in few and "drawn from" not in few)
    angles = read_json(ole, "analyze", "zero-F.npy", "four-L.npy", "--no-tsne", "--json")["angles"]
    check_that("its number", (angles["n"], angles.get("zeros"), angles["of"]) == (3, 1, 4))
    ole.run(*"analyze zeros-F.npy four-L.npy --no-tsne --out zeros.html".split())
    page = (ole.work / "zeros.html").read_text()
    check_that("a class of zeros", "nan°" not in page and "there is one class" not in page and
               "all rows compared have the same class" in page and " excluding 2 rows of zeros" in page)


def check_full(ole):
    """What was found is printed where a page cannot be written."""
    for flags in ((), ("--json",)):
        args = ("analyze", "four-F.npy", "four-L.npy", "--no-tsne", *flags)
        full = ole.run(*args, "--out", "/dev/full")
        check_that(f"a full disk {flags}: {full.stderr}", full.returncode == 1 and
                   "ole analyze: /dev/full: cannot write: No space left on device\n" in full.stderr and
                   full.stdout == ole.run(*args).stdout)


def check_same(ole):
    """The same numbers whatever the threads; the loss of `ole score`; --exact is no sample."""
    args = ("analyze", "train-F.npy", "train-L.npy", "--json")
    one = read_json(ole, *args, "--threads", "1")
    check_that("threads do not matter", one and one == read_json(ole, *args, "--threads", "3"))
    score = read_json(ole, "score", "train-F.npy", "train-L.npy", "--json")
    check_that("the loss is that of ole score",
               all(abs(one[k] - score[k]) <= 1e-6 * abs(score["class_term"])
                   for k in ("loss", "class_term", "global_norm")))
    few = read_json(ole, *args, "--sample", "50")
    check_that("a sample says how large it is",
               few["errors"]["n"] == few["angles"]["n"] == few["map"]["n"] == 50
               and few["errors"]["of"] == few["angles"]["of"] == few["errors"]["references"] == 370)
    check_that("--exact takes all rows", read_json(ole, *args, "--exact") == one)
    check_that("--no-tsne leaves the map out", "map" not in read_json(ole, *args, "--no-tsne"))


def load(ole, name):
    x = numpy.load(ole.work / f"{name}-F.npy").astype("f8")
    y = numpy.load(ole.work / f"{name}-L.npy")
    return x[y >= 0], y[y >= 0]


def left_out_errors(x, y, k):
    """Errors in % of each row by all others: 1-NN, k-NN and centroid."""
    wrong = numpy.zeros(3)
    for i in range(len(y)):
        rest = numpy.arange(len(y)) != i
        wrong += [neighbours(x[rest], y[rest], 1).predict(x[i:i + 1])[0] != y[i],
                  neighbours(x[rest], y[rest], k).predict(x[i:i + 1])[0] != y[i],
                  nearest_mean(x[rest], y[rest], x[i:i + 1])[0] != y[i]]
    return 100 * wrong / len(y)


def neighbours(x, y, k):
    return sklearn.neighbors.KNeighborsClassifier(k, metric="cosine", algorithm="brute").fit(x, y)


def nearest_mean(x, y, tx):
    """The class whose mean is nearest by cosine; scikit-learn's NearestCentroid has no cosine from 1.5 on."""
    classes = numpy.unique(y)
    means = numpy.stack([x[y == c].mean(axis=0) for c in classes])
    return classes[numpy.argmax(tx @ (means / numpy.linalg.norm(means, axis=1)[:, None]).T, axis=1)]


def basis(rows, energy=0.95):
    """The principal subspace as `ole analyze` defines it, [dim, directions]."""
    _, sigma, vt = numpy.linalg.svd(rows, full_matrices=False)
    share = numpy.cumsum(sigma ** 2) / numpy.sum(sigma ** 2)
    return vt[:min(32, 1 + int(numpy.argmax(share >= energy)))].T


def subspace_error(x, y, tx, ty):
    energy = [numpy.sum((tx @ basis(x[y == c])) ** 2, axis=1) for c in numpy.unique(y)]
    return 100 * numpy.mean(numpy.unique(y)[numpy.argmax(energy, axis=0)] != ty)


def close(name, got, expected, tolerance=1e-9):
    check_that(f"{name}: {got} is {expected}", abs(got - expected) <= tolerance)


def check_against_libraries(ole, name):
    x, y = load(ole, name)
    got = read_json(ole, "analyze", f"{name}-F.npy", f"{name}-L.npy", "--k", "3", "--no-tsne", "--json")
    for what, expected in zip(("knn1_error", "knn_error", "centroid_error"),
                              left_out_errors(x, y, 3)):
        close(f"{name}: {what}", got["errors"][what], expected)
    unit = x / numpy.linalg.norm(x, axis=1)[:, None]
    angle = numpy.degrees(numpy.arccos(numpy.clip(unit @ unit.T, -1, 1)))
    upper = numpy.triu(numpy.ones_like(angle), 1) > 0
    for what, mask in (("within", y[:, None] == y), ("between", y[:, None] != y)):
        pairs, found = angle[upper & mask], got["angles"][what]
        close(f"{name}: pairs {what}", found["pairs"], pairs.size, 0)
        close(f"{name}: mean angle {what}", found["mean"], pairs.mean(), 1e-6)
        for key, share in (("q05", 5), ("median", 50), ("q95", 95)):
            close(f"{name}: {key} {what}", found[key], numpy.percentile(pairs, share), 0.2)
        histogram = numpy.histogram(pairs, numpy.arange(181))[0]
        check_that(f"{name}: histogram {what}", list(histogram) == found["histogram"])
    sigma = numpy.linalg.svd(x, compute_uv=False)
    check_that(f"{name}: singular values",
               numpy.allclose(got["spectrum"]["singular_values"], sigma, rtol=0, atol=1e-6 * sigma[0]))
    for part in got["per_class"]:
        sigma = numpy.linalg.svd(x[y == part["label"]], compute_uv=False)
        close(f"{name}: norm of class {part['label']}", part["norm"], sigma.sum(), 1e-6 * sigma.sum())
        share = sigma / sigma.sum()
        close(f"{name}: effective rank of class {part['label']}", part["effective_rank"],
              math.exp(-sum(share * numpy.log(share))), 1e-6)
    for pair in got["principal_angles"]:
        angles = scipy.linalg.subspace_angles(basis(x[y == pair["a"]]), basis(x[y == pair["b"]]))
        close(f"{name}: angle of {pair['a']} and {pair['b']}", pair["angle"],
              math.degrees(angles.min()), 1e-4)


def check_test_set(ole):
    x, y = load(ole, "train")
    tx, ty = load(ole, "test")
    got = read_json(ole, "analyze", "train-F.npy", "train-L.npy", "--test", "test-F.npy",
                    "test-L.npy", "--no-tsne", "--json")["errors"]
    check_that("a test set", got["protocol"] == "test" and got["n"] == len(ty)
               and got["references"] == len(y))
    close("1-NN of the test set", got["knn1_error"],
          100 * numpy.mean(neighbours(x, y, 1).predict(tx) != ty))
    close("5-NN of the test set", got["knn_error"],
          100 * numpy.mean(neighbours(x, y, 5).predict(tx) != ty))
    close("centroids of the test set", got["centroid_error"],
          100 * numpy.mean(nearest_mean(x, y, tx) != ty))
    close("subspaces of the test set", got["subspace_error"], subspace_error(x, y, tx, ty))


def check_many_rows(ole):
    """A file of many rows is sampled where rows meet rows, and never held in memory as float64."""
    rows, dim, part = 300_000, 64, 10_000  # 77 MB; 154 MB as float64
    chance = numpy.random.default_rng(3)
    labels = chance.integers(0, 20, rows)
    lines = chance.normal(size=(20, dim))
    file = numpy.lib.format.open_memmap(ole.work / "large-F.npy", "w+", "f4", (rows, dim))
    gram = 0
    for i in range(0, rows, part):  # this process stays small: a child's peak begins with ours
        along = chance.uniform(0.5, 2, (part, 1))
        x = (lines[labels[i:i + part]] * along + chance.normal(size=(part, dim))).astype("f4")
        file[i:i + part] = x
        gram = gram + x.astype("f8").T @ x.astype("f8")
    del file
    numpy.save(ole.work / "large-L.npy", labels)
    args = ("analyze", "large-F.npy", "large-L.npy", "--sample", "300", "--no-tsne", "--json")
    got = read_json(ole, *args)
    check_that("300 of 300,000 rows", got["errors"]["n"] == got["angles"]["n"] == 300
               and got["errors"]["of"] == got["errors"]["references"] == got["n"] == rows)
    sigma = numpy.sqrt(numpy.linalg.eigvalsh(gram))[::-1]
    check_that("the singular values of many rows",
               numpy.allclose(got["spectrum"]["singular_values"], sigma, rtol=1e-6))
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    if "ASan" not in ole.run("info").stdout:
        check_that(f"in {peak} KiB", peak < 300_000)


# ---- Figures and page ---------------------------------------------------------------------------

def check_pictures(ole):
    """Each figure in each format, with its title; one page with all of it, and nothing from afar."""
    common = {"angles", "angle-histogram", "spectrum", "class-spectra", "map", "overlaps"}
    built = ole.run("info").stdout
    files = "cairo" in built
    if "libpng" not in built:
        return print("skipped: figures and page (no libpng in this build)")
    if not files:
        print("skipped: figures as files (no cairo in this build)")
    for name, more in (("toy", {"space"}), ("flat", {"space"}), ("many", set())):
        page, folder = ole.work / f"{name}.html", ole.work / f"{name}-figures"
        done = ole.run("analyze", f"{name}-F.npy", f"{name}-L.npy", "--out", page.name,
                       *(("--figures", folder.name) if files else ()))
        check_that(f"{name}: {done.stderr}", done.returncode == 0 and done.stderr == "")
        check_that(f"{name}: the page is named", f"\n{'page':22} {page.name}\n" in done.stdout)
        made = sorted(path.name for path in folder.iterdir()) if files else []
        wanted = sorted(f"{n}.{e}" for n in common | more for e in ("svg", "pdf", "png"))
        check_that(f"{name}: the figures are {made}", not files or made == wanted)
        for path in map(folder.joinpath, made):
            begin = {".svg": b"<", ".pdf": b"%PDF", ".png": b"\x89PNG"}[path.suffix]
            check_that(f"{path.name} is one", path.read_bytes().startswith(begin))
        text = page.read_text()
        for word in ("1-NN error", "nearest-subspace error", "Angles", "Singular values",
                     "Overlaps", "Map", "OLÉ loss"):
            check_that(f"{name}: the page has '{word}'", word in text)
        for word in ("http://", "https://"):
            far = [line for line in text.split(word)[1:] if not line.startswith("www.w3.org")]
            check_that(f"{name}: the page needs no network", not far)
    raw = (ole.work / "toy-L.npy").read_bytes()
    numbers = memoryview(raw[10 + int.from_bytes(raw[8:10], "little"):]).cast("q")
    (ole.work / "words.txt").write_text("".join(f"bird {n}\n" for n in numbers))
    done = ole.run("analyze", "toy-F.npy", "words.txt", "--out", "words.html")
    text = (ole.work / "words.html").read_text() if done.returncode == 0 else done.stderr
    check_that("words name the classes on the map", f"bird {numbers[0]}</label>" in text)
    check_that("words name the classes of the heat maps", text.count(f">bird {numbers[0]}</text>") >= 4)
    failed = ole.run("analyze", "toy-F.npy", "toy-L.npy", "--out", "nowhere/page.html")
    check_that(f"a page that cannot be written: {failed.stderr}",
               failed.returncode == 1 and "nowhere/page.html" in failed.stderr
               and failed.stdout == "")


def check_all(ole, _):
    write_files(ole.work)
    check_mistakes(ole)
    check_text(ole)
    check_classifier(ole)
    check_ties(ole)
    check_zeros(ole)
    check_full(ole)
    check_same(ole)
    check_pictures(ole)
    if numpy:
        for name in ("train", "wide", "toy", "many"):
            check_against_libraries(ole, name)
        check_many_rows(ole)
        check_test_set(ole)


if __name__ == "__main__":
    run.conduct(__doc__, check_all)
