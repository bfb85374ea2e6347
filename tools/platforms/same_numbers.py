#!/usr/bin/env python3
"""same_numbers.py OLE OTHER - two builds of the program agree on the same features.

Runs `ole score` and `ole analyze` of both and compares their JSON and gradients. Counts, ranks, errors and
histograms must be equal. The loss may differ by twice its documented error (1e-6 of the class term for
float32, 1e-12 for float64; for the gradient 1e-5 and 1e-9, times the root of the rows), anything else by
1e-6, as in the program's own tests.
"""
import json
import math
import random
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests/cli"))
import npyfile  # noqa: E402

ROWS, DIMENSIONS, CLASSES = 240, 48, 6
PROMISE = {"float32": ("<f4", 1e-6, 1e-5), "float64": ("<f8", 1e-12, 1e-9)}


def write_features(work, descr):
    """Classes around subspaces of two directions each, with noise: full rank, few errors."""
    rng = random.Random(20)
    normal = rng.gauss
    directions = [[[normal(0, 1) for _ in range(DIMENSIONS)] for _ in range(2)] for _ in range(CLASSES)]
    values = []
    for row in range(ROWS):
        first, second = directions[row % CLASSES]
        a, b = normal(1, 1), normal(0, 1)
        values += [a * x + b * y + normal(0, 0.7) for x, y in zip(first, second)]
    (work / "F.npy").write_bytes(npyfile.array(descr, (ROWS, DIMENSIONS), values))
    (work / "L.npy").write_bytes(npyfile.array("<i4", (ROWS,), [i % CLASSES for i in range(ROWS)]))


def run(ole, work, *args):
    done = subprocess.run([ole, *args, "F.npy", "L.npy", "--json"], cwd=work, text=True,
                          capture_output=True, timeout=600)
    if done.returncode:
        sys.exit(f"{ole} {' '.join(args)}: exit code {done.returncode}\n{done.stderr}")
    return json.loads(done.stdout)


def differences(one, other, allowed, path=""):
    """One line per difference; allowed(path, value) is how much two numbers may differ."""
    if isinstance(one, dict) and isinstance(other, dict) and one.keys() == other.keys():
        return [line for key in one
                for line in differences(one[key], other[key], allowed, f"{path}.{key}")]
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        return [line for i, pair in enumerate(zip(one, other))
                for line in differences(*pair, allowed, f"{path}[{i}]")]
    if isinstance(one, float) and isinstance(other, float):
        if abs(one - other) <= allowed(path, one):
            return []
    elif one == other:
        return []
    return [f"{path[1:]}: {one} and {other}"]


def compare(programs, work, dtype):
    descr, value_error, gradient_error = PROMISE[dtype]
    write_features(work, descr)
    scores = [run(ole, work, "score", "--grad", f"G{i}.npy") for i, ole in enumerate(programs)]
    sizes = 2 * value_error * scores[0]["class_term"]
    found = differences(*scores, lambda path, _: sizes / ROWS if path == ".loss" else sizes)
    one, other = (npyfile.read(work / f"G{i}.npy")[2] for i in range(2))
    apart = math.dist(one, other) * ROWS  # the gradient is of the loss over the rows
    if not apart <= 2 * gradient_error * math.sqrt(ROWS):
        found.append(f"gradients: {apart} apart")
    analyses = [run(ole, work, "analyze", "--no-tsne") for ole in programs]
    found += differences(*analyses, lambda _, value: 1e-6 * max(1.0, abs(value)))
    return [f"{dtype}: {line}" for line in found]


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    with tempfile.TemporaryDirectory(prefix="ole-same-") as name:
        programs = [Path(path).resolve() for path in sys.argv[1:]]
        found = [line for dtype in PROMISE for line in compare(programs, Path(name), dtype)]
    print("\n".join(found) or "the same numbers")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
