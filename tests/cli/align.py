#!/usr/bin/env python3
"""align.py OLE - runs `ole align`: a known rotation is found and applied; mistakes.  tests/python/test_align.py
compares the library with SciPy."""
import json
import math

import npyfile
import run
from run import check, check_that, read_json


def check_rotation(ole, work):
    """Rows turned by 30 degrees and shifted: --centre finds both, and --apply maps other rows."""
    c, s = math.cos(math.pi / 6), math.sin(math.pi / 6)

    def turn(x, y):
        return c * x - s * y + 1, s * x + c * y - 2

    rows = [(math.sin(i) * 3, math.cos(2 * i) + i / 10) for i in range(12)]
    others = [(1.0, 0.0), (0.0, 1.0), (5.0, -2.0)]
    for name, some in (("a", rows), ("b", [turn(*r) for r in rows]), ("x", others)):
        (work / f"{name}.npy").write_bytes(npyfile.array("<f8", (len(some), 2), [v for r in some for v in r]))
    told = read_json(ole, *"align a.npy b.npy --centre --out r.npy --apply x.npy z.npy --json".split())
    check_that(f"an exact fit: {told}", told["residual"] < 1e-12 and told["cosine"] > 1 - 1e-12 and
               abs(told["scale"] - 1) < 1e-12 and (told["n"], told["from"], told["to"], told["rank"]) == (12, 2, 2, 2) and
               told["cosine_before"] < 0.99)
    descr, shape, values = npyfile.read(work / "r.npy")
    expected = [c, s, -s, c, 1, -2]
    check_that(f"the map and its shift: {values}", (descr, tuple(shape)) == ("<f8", (3, 2)) and
               all(abs(v - e) < 1e-12 for v, e in zip(values, expected)))
    descr, shape, values = npyfile.read(work / "z.npy")
    wanted = [v for r in others for v in turn(*r)]
    check_that("mapped rows", (descr, tuple(shape)) == ("<f8", (3, 2)) and
               all(abs(v - e) < 1e-12 for v, e in zip(values, wanted)))
    plain = ole.run("align", "a.npy", "b.npy")
    check_that(f"text: {plain.stdout}", plain.returncode == 0 and plain.stdout.startswith("items            12\n") and
               "residual" in plain.stdout and "before" in plain.stdout)
    check_that("without --centre the fit is worse", float(plain.stdout.split("residual")[1].split()[0]) > 0.1)


def check_mistakes(ole, work):
    def wrong(args, message, code=1):
        check(ole, "align " + args, err=f"ole align: {message}\n", code=code)

    (work / "short.npy").write_bytes(npyfile.array("<f4", (3, 2), [1, 2, 3, 4, 5, 6]))
    (work / "wide.npy").write_bytes(npyfile.array("<f4", (3, 3), [1, 0, 0, 0, 1, 0, 0, 0, 1]))
    (work / "nan.npy").write_bytes(npyfile.array("<f4", (3, 2), [1, 2, 3, math.nan, 5, 6]))
    see = "see 'ole align --help'"
    wrong("a.npy", f"missing argument B.npy: the same items in the same order, in the space to map to; {see}", 2)
    wrong("a.npy short.npy", "a.npy has 12 rows, short.npy 3: both must hold the same items in the same order")
    wrong("wide.npy short.npy", "wide.npy has 3 dimensions, short.npy only 2: a map into fewer keeps no angles; swap "
          "the files")
    wrong("short.npy nan.npy", "nan.npy: row 1 holds NaN or Inf")
    wrong("short.npy no.npy", "no.npy: cannot open: No such file or directory")
    wrong("short.npy wide.npy --apply wide.npy q.npy", "wide.npy has 3 dimensions, short.npy 2")
    told = json.loads(ole.run("align", "short.npy", "wide.npy", "--json").stdout)
    check_that("into more dimensions", told["from"] == 2 and told["to"] == 3)


def check_all(ole, work):
    check_rotation(ole, work)
    check_mistakes(ole, work)


if __name__ == "__main__":
    run.conduct(__doc__, check_all)
