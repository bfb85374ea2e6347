#!/usr/bin/env python3
"""authors_rule.py - the loss by the authors' rule, recorded: writes authors_rule.h beside itself.

    python3 tests/recorded/authors_rule.py && clang-format -i tests/recorded/authors_rule.h

Needs NumPy and SciPy; the tests need only the header.  Everything is computed in float64 by
scipy.linalg.svd (dgesvd) as the authors' release does it: a singular value counts when it is over
1e-6, a class pulls when its nuclear norm is over 1.  The features come from a linear congruential
generator and are multiples of 1/64 (small integers for the low-rank case), so that float32,
float64 and this script hold exactly the same numbers.
"""
from pathlib import Path

import numpy as np
import scipy
import scipy.linalg

DELTA_FLOOR, DELTA_ABS = 1.0, 1e-6

# name, structure, rows, dim, classes, scale (a power of two)
CASES = [
    ("random, wide", "RANDOM", 24, 40, 4, 1.0),
    ("random, tall", "RANDOM", 50, 12, 3, 1.0),
    ("random, square", "RANDOM", 16, 16, 2, 1.0),
    ("one class", "RANDOM", 9, 14, 1, 1.0),
    ("low rank", "LOW_RANK", 30, 20, 3, 1.0),
    ("low rank, wide", "LOW_RANK", 12, 64, 2, 1.0),
    ("one sample per class", "RANDOM", 10, 18, 10, 1.0),
    ("one sample per class, one column", "RANDOM", 6, 1, 6, 1.0),
    ("duplicates", "DUPLICATES", 20, 15, 4, 1.0),
    ("hinge: some classes under the floor", "UNEVEN", 18, 10, 6, 1.0),
    ("hinge: one class under the floor", "RANDOM", 3, 7, 1, 1.0 / 64),
    ("hinge: all classes under the floor", "RANDOM", 8, 30, 4, 1.0 / 256),
    ("zero", "ZERO", 5, 6, 2, 1.0),
]


class Generator:
    """The generator of Knuth's MMIX; its upper bits."""

    def __init__(self, seed):
        self.state = seed

    def below(self, n):
        self.state = (self.state * 6364136223846793005 + 1442695040888963407) % 2**64
        return (self.state >> 33) % n


def features(structure, rows, dim, scale, seed):
    g = Generator(seed)
    if structure == "ZERO":
        return np.zeros((rows, dim))
    if structure == "LOW_RANK":
        left = [[g.below(7) - 3 for _ in range(3)] for _ in range(rows)]
        right = [[g.below(7) - 3 for _ in range(dim)] for _ in range(3)]
        return np.array(left, float) @ np.array(right, float) * scale
    x = np.array([[g.below(129) - 64 for _ in range(dim)] for _ in range(rows)], float) / 64
    for i in range(rows):
        if structure == "DUPLICATES" and i % 2:
            x[i] = x[i // 2]
        if structure == "UNEVEN" and i % 6 < 3:
            x[i] /= 64
    return x * scale


def decompose(a):
    u, s, vt = scipy.linalg.svd(a, full_matrices=False, lapack_driver="gesvd")
    rank = int((s > DELTA_ABS).sum())
    return s.sum(), rank, u[:, :rank] @ vt[:rank]


def checksum_weights(rows, dim):
    """Integers from -8 to 8 in a pattern of their own."""
    return np.fromfunction(lambda i, j: (i * 7 + j * 5 + i * j) % 17 - 8, (rows, dim))


def record(number, case):
    name, structure, rows, dim, classes, scale = case
    x = features(structure, rows, dim, scale, number + 1)
    labels = np.arange(rows) % classes
    norm, rank, polar = decompose(x)
    gradient = -polar
    term, per_class = 0.0, []
    for c in range(classes):
        class_norm, class_rank, class_polar = decompose(x[labels == c])
        term += max(DELTA_FLOOR, class_norm)
        if class_norm > DELTA_FLOOR:
            gradient[labels == c] += class_polar
        per_class.append((class_norm, class_rank))
    gradient /= rows
    entries = ", ".join(f"{{{float(n)!r}, {r}}}" for n, r in per_class)
    return f"""    {{.name = "{name}",
     .structure = {structure},
     .rows = {rows},
     .dim = {dim},
     .classes = {classes},
     .scale = {scale!r},
     .value = {float(term - norm) / rows!r},
     .global_norm = {float(norm)!r},
     .rank = {rank},
     .checksum = {float((gradient * checksum_weights(rows, dim)).sum())!r},
     .size = {float(np.linalg.norm(gradient))!r},
     .corners = {{{float(gradient[0, 0])!r}, {float(gradient[-1, -1])!r}}},
     .per_class = {{{entries}}}}},
"""


def main():
    body = "".join(record(i, case) for i, case in enumerate(CASES))
    text = f"""/*
 * tests/recorded/authors_rule.h - written by authors_rule.py with SciPy {scipy.__version__}; run that
 * again instead of changing numbers here.
 */
static const recorded_case recorded[] = {{
{body}}};
"""
    Path(__file__).with_suffix(".h").write_text(text)


if __name__ == "__main__":
    main()
