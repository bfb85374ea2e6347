#!/usr/bin/env python3
"""tsne.py OLE - runs `ole tsne`: messages exactly, maps against each other and, where the system's
Python has scikit-learn, against its t-SNE and its measures.
"""
import json
import math
import random
import signal
import subprocess
import time

import npyfile
import run
from run import check, check_that, read_json

SYSTEM = "/usr/bin/python3"  # Debian's, which has python3-sklearn where that is installed
ROWS, DIM = 120, 8

# Both with the same input and start; measures of both by both programs.  Prints JSON.
ORACLE = """
import json, sys
import numpy
from scipy.spatial.distance import pdist, squareform
from sklearn.datasets import load_digits
from sklearn.manifold import TSNE, trustworthiness
from sklearn.manifold._t_sne import _joint_probabilities

def exact_kl(x, y, perplexity):
    # over the pairs i < j, each of which counts twice
    p = _joint_probabilities(squareform(pdist(x, "sqeuclidean")), perplexity, 0)
    q = 1 / (1 + pdist(y, "sqeuclidean"))
    return float(2 * numpy.sum(p * numpy.log(p / (q / (2 * q.sum())))))

if sys.argv[1] == "make":
    x = load_digits().data[:600].astype(numpy.float32)
    start = 1e-4 * numpy.random.RandomState(0).standard_normal((600, 2))
    theirs = TSNE(init=start.astype(numpy.float32), learning_rate="auto", perplexity=20)
    numpy.save("X.npy", x)
    numpy.save("start.npy", start)
    numpy.save("theirs.npy", theirs.fit_transform(x).astype(float))
else:
    x = numpy.load("X.npy").astype(float)
    print(json.dumps([{"exact_kl": exact_kl(x, numpy.load(name), 20),
                       "trustworthiness": trustworthiness(x, numpy.load(name), n_neighbors=5)}
                      for name in ("ours.npy", "theirs.npy")]))
"""


def write_files(work):
    draw = random.Random(1)
    rows = [[draw.gauss(0, 1) + (30 if k == i % 2 else 0) for k in range(DIM)] for i in range(ROWS)]
    flat = [x for row in rows for x in row]
    (work / "F.npy").write_bytes(npyfile.array("<f4", (ROWS, DIM), flat))
    (work / "L.npy").write_bytes(npyfile.array("<i8", (ROWS,), [i % 2 for i in range(ROWS)]))
    (work / "short.npy").write_bytes(npyfile.array("<i8", (3,), [0, 1, 2]))
    flat[5 * DIM] = math.nan
    (work / "nan.npy").write_bytes(npyfile.array("<f4", (ROWS, DIM), flat))
    (work / "few.npy").write_bytes(npyfile.array("<f4", (3, 2), [0, 1, 2, 3, 4, 5]))
    (work / "start.npy").write_bytes(npyfile.array("<f8", (ROWS, 3), [0] * (3 * ROWS)))
    (work / "int.npy").write_bytes(npyfile.array("<i4", (4, 2), [1, 0, 2, 0, 0, 1, 0, 3]))
    place = [draw.gauss(0, 1) for _ in range(2 * ROWS)]
    place[7] = math.nan
    (work / "nan-start.npy").write_bytes(npyfile.array("<f8", (ROWS, 2), place))
    (work / "negative.npy").write_bytes(npyfile.array("<i8", (ROWS,), [-1 - i % 3 for i in range(ROWS)]))
    for labels in (100, 101):
        (work / f"L{labels}.npy").write_bytes(
            npyfile.array("<i8", (ROWS,), [i % labels for i in range(ROWS)]))
    many = [draw.gauss(0, 1) for _ in range(20000)]
    (work / "many.npy").write_bytes(npyfile.array("<f4", (4000, 5), many))


def check_mistakes(ole, work):
    def wrong(args, message, code=1):
        check(ole, "tsne " + args, err=f"ole tsne: {message}\n", code=code)

    wrong("", "missing argument FEATURES.npy: [rows, dimensions], as .npy, .npz or .csv; "
          "see 'ole tsne --help'", 2)
    wrong("F.npy --out m.npy --learning-rate 0",
          "--learning-rate '0': expected auto or a number from 1e-09 to 1000000000", 2)
    wrong("F.npy", "missing option --out Y.npy; see 'ole tsne --help'", 2)
    wrong("F.npy --theta 2", "--theta '2': expected a number from 0 to 1", 2)
    wrong("none.npy --out Y.npy", "none.npy: cannot open: No such file or directory")
    wrong("nan.npy --out Y.npy", "nan.npy: row 5 holds NaN or Inf")
    wrong("few.npy --out Y.npy", "few.npy: 3 rows are too few for a map, which needs at least 4")
    wrong("F.npy --out Y.npy --perplexity 50",
          "F.npy: a perplexity of 50 needs 151 rows, but there are 120; use 39.66 or less")
    wrong("F.npy --out Y.npy --labels short.npy",
          "F.npy has 120 rows and short.npy has 3 labels; they must match")
    wrong("F.npy --out Y.npy --start start.npy",
          "start.npy: the initial map must have shape (120, 2), one point per row of F.npy")
    wrong("F.npy --out Y.npy --start nan-start.npy", "nan-start.npy: row 3 is nan; use numbers up to 1e6")
    wrong("int.npy --out Y.npy", "int.npy: features are int32; save them with .astype('float32')")
    for flags in ("--out no/m.npy", "--out Y.npy --figure no/m.svg", "--out Y.npy --preview no/m.npy"):
        name = flags.split()[-1]  # found before the features are read
        wrong(f"nan.npy {flags}", f"{name}: cannot write: No such file or directory")
    wrong("F.npy --out Y.npy --figure map.gif",
          "--figure map.gif: the name must end in .svg, .pdf or .png", 2)
    wrong("F.npy --out Y.npy --preview map",
          "--preview map: the name must end in .npy, .svg, .pdf or .png", 2)
    wrong("F.npy --out m.svg --figure m.svg", "m.svg would be written twice; name two files", 2)
    wrong("F.npy --out map.npz", "map.npz: arrays are written as .npy or .csv files", 2)
    wrong("F.npy --out ./F.npy", "./F.npy would overwrite an input; name another file", 2)
    check_that("nothing was written", not (work / "Y.npy").exists())


def check_labels(ole, work):
    """Labels are colours, negative ones too; so many that colours end are told."""
    common = ["tsne", "F.npy", "--out", "l.npy", "--perplexity", "10", "--iterations", "5"]
    text = ole.run(*common, "--labels", "negative.npy", "--figure", "l.svg")
    check_that(f"negative labels: {text.stderr}", text.returncode == 0 and not text.stderr and
               all(f">-{n}<" in (work / "l.svg").read_text() for n in (1, 2, 3)))
    text = ole.run(*common, "--labels", "L100.npy", "--figure", "l.svg")
    check_that("a hundred labels", not text.stderr and ">99<" in (work / "l.svg").read_text())
    text = ole.run(*common, "--labels", "L101.npy", "--figure", "l.svg")
    check_that(f"one more: {text.stderr}", text.returncode == 0 and text.stderr ==
               "ole tsne: warning: L101.npy has 101 labels; a figure distinguishes up to 100, so all "
               "points get one colour\n")
    check_that("no figure, no word", not ole.run(*common, "--labels", "L101.npy").stderr)


def check_full(ole):
    """What was found is printed where the map cannot be written."""
    common = ["tsne", "F.npy", "--perplexity", "10", "--iterations", "5", "--out", "/dev/full"]
    text = ole.run(*common)
    check_that(f"a full disk: {text.stdout}", text.returncode == 1 and text.stderr ==
               "ole tsne: /dev/full: cannot write: No space left on device\n" and
               text.stdout.startswith("KL divergence") and "map" not in text.stdout)
    result = read_json(ole, *common, "--json")
    check_that("JSON of a full disk", "kl" in result and "map" not in result)


def nearest_agree(path):
    """The share of points whose nearest on the map has their parity."""
    _, shape, values = npyfile.read(path)
    points = list(zip(values[::2], values[1::2]))
    right = 0
    for i, a in enumerate(points):
        _, j = min((math.dist(a, b), j) for j, b in enumerate(points) if j != i)
        right += i % 2 == j % 2
    return shape == (ROWS, 2) and right / ROWS


def check_maps(ole, work):
    text = ole.run("tsne", "F.npy", "--out", "a.npy", "--perplexity", "10", "--labels", "L.npy",
                   "--figure", "a.svg", "--preview", "p.npy")
    check_that("the text", [line.split("  ")[0] for line in text.stdout.splitlines()] ==
               ["KL divergence", "map", "figure"] and not text.stderr)
    check_that("clusters apart", nearest_agree(work / "a.npy") == 1.0)
    check_that("the figure", "<svg" in (work / "a.svg").read_text())
    for threads in ("1", "2", "3"):
        ole.run("tsne", "F.npy", "--out", "b.npy", "--perplexity", "10", "--threads", threads)
        check_that(f"{threads} threads", (work / "a.npy").read_bytes() == (work / "b.npy").read_bytes())
    ole.run("tsne", "F.npy", "--out", "b.npy", "--perplexity", "10", "--seed", "1")
    check_that("another seed", (work / "a.npy").read_bytes() != (work / "b.npy").read_bytes())
    result = read_json(ole, "tsne", "F.npy", "--out", "c.npy", "--perplexity", "10", "--start",
                       "a.npy", "--iterations", "0", "--quality", "--json")
    check_that("JSON", sorted(result) == ["dimensions", "exact_kl", "iterations", "kl", "map", "rows",
                                          "seconds", "trustworthiness"] and result["rows"] == ROWS)
    check_that("no step moves nothing", max(
        abs(x - y) for x, y in zip(npyfile.read(work / "a.npy")[2],
                                   npyfile.read(work / "c.npy")[2])) < 1e-9)


def check_interrupt(ole, work):
    """Ctrl-C in the middle: exit 130, no map, what a preview wrote stays whole."""
    process = subprocess.Popen([ole.path, "tsne", "many.npy", "--out", "never.npy", "--preview",
                                "preview.npy", "--iterations", "1000000"], cwd=work,
                               env=ole.environment, stderr=subprocess.PIPE)
    end = time.monotonic() + 60
    while not (work / "preview.npy").exists() and time.monotonic() < end:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    told = process.communicate(timeout=60)[1]
    check_that(f"interrupted: {told}", process.returncode == 130 and not (work / "never.npy").exists() and
               npyfile.read(work / "preview.npy")[1] == (4000, 2) and
               told == b"ole tsne: interrupted; no map was written\n")


def check_oracle(ole, work):
    """Beside scikit-learn on some of the digits: KL at most 2 % over, trustworthiness within 0.002."""
    (work / "oracle.py").write_text(ORACLE)
    if subprocess.run([SYSTEM, "-c", "import sklearn, scipy"], capture_output=True).returncode:
        print("without scikit-learn (Debian: python3-sklearn): not compared with its t-SNE")
        return
    subprocess.run([SYSTEM, "oracle.py", "make"], cwd=work, check=True, env=ole.environment)
    common = ["--pca", "0", "--perplexity", "20", "--quality", "--json"]
    ours = read_json(ole, "tsne", "X.npy", "--start", "start.npy", "--out", "ours.npy", *common)
    theirs = read_json(ole, "tsne", "X.npy", "--start", "theirs.npy", "--out", "same.npy",
                       "--iterations", "0", *common)
    told = subprocess.run([SYSTEM, "oracle.py", "measure"], cwd=work, check=True, text=True,
                          capture_output=True, env=ole.environment).stdout
    for name, mine, other in zip(("ours", "theirs"), (ours, theirs), json.loads(told)):
        check_that(f"exact KL of {name}", abs(mine["exact_kl"] / other["exact_kl"] - 1) < 1e-3)
        check_that(f"trustworthiness of {name}",
                   abs(mine["trustworthiness"] - other["trustworthiness"]) < 1e-4)  # ties
    check_that(f"KL {ours['exact_kl']:.4f} beside {theirs['exact_kl']:.4f}",
               ours["exact_kl"] < 1.02 * theirs["exact_kl"])
    check_that(f"trustworthiness {ours['trustworthiness']:.4f} beside "
               f"{theirs['trustworthiness']:.4f}",
               ours["trustworthiness"] > theirs["trustworthiness"] - 0.002)


def check_all(ole, work):
    write_files(work)
    check_mistakes(ole, work)
    check_labels(ole, work)
    check_full(ole)
    check_maps(ole, work)
    check_interrupt(ole, work)
    check_oracle(ole, work)


if __name__ == "__main__":
    run.conduct(__doc__, check_all)
