#!/usr/bin/env python3
"""large_features.py F.npy L.npy [ROWS DIM CLASSES] - writes features of any size, block by block, to
measure `ole analyze`: each class lies along its own direction, orthogonal to the others, plus noise.
"""
import sys

import numpy

BLOCK = 20_000


def main():
    if len(sys.argv) not in (3, 6):
        sys.exit(__doc__)
    rows, dim, classes = [int(word) for word in sys.argv[3:]] or [1_000_000, 512, 100]
    lines = numpy.linalg.qr(numpy.random.default_rng(7).normal(size=(dim, dim)))[0].astype("f4")
    chance = numpy.random.default_rng(1)
    labels = chance.integers(0, classes, rows)
    file = numpy.lib.format.open_memmap(sys.argv[1], "w+", "f4", (rows, dim))
    for i in range(0, rows, BLOCK):
        part = labels[i:i + BLOCK]
        along = chance.uniform(0.5, 3, (len(part), 1)).astype("f4")
        noise = chance.standard_normal((len(part), dim), dtype="f4")
        file[i:i + BLOCK] = lines[part % dim] * along + numpy.float32(0.06) * noise
    file.flush()
    numpy.save(sys.argv[2], labels)


if __name__ == "__main__":
    main()
