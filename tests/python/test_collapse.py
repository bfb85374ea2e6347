"""Neural collapse and retrieval of ole/analyze.h against NumPy, by their definitions in float64."""
import ctypes
import unittest
from ctypes import byref, c_double, c_int, c_int64, c_uint64, c_void_p

import numpy as np
from support import main

from ole import _library as native
from ole._structs import Collapse, Embedding, Retrieval

calls = native.Calls({"ole_collapse_measure": [c_void_p, c_void_p, c_void_p, c_double, c_int],
                      "ole_retrieval_measure": [c_void_p, c_void_p, c_void_p, c_int64, c_uint64, c_int, c_void_p,
                                                c_void_p]},
                     {"ole_collapse_free": [None, c_void_p]})


class Linear(ctypes.Structure):
    _fields_ = [("classes", c_int64), ("dim", c_int64), ("weight", c_void_p), ("bias", c_void_p)]


def embedding(x, y):
    return Embedding(x.shape[0], x.shape[1], 3 if x.dtype == np.float32 else 4, x.ctypes.data, y.ctypes.data)


def collapse(x, y, w=None, b=None, threads=1):
    out, linear = Collapse(), None
    if w is not None:
        linear = Linear(*w.shape, w.ctypes.data, b.ctypes.data if b is not None else None)
    calls("ole_collapse_measure", byref(out), byref(embedding(x, y)), byref(linear) if linear else None, 0.95, threads)
    names = ("nc1", "nc2_norms", "nc2_cosines", "nc2_simplex", "mean_cosine", "nc3", "nc4", "angle_mean", "angle_most")
    got = {name: getattr(out, name) for name in names}
    got["angles"] = [ctypes.cast(out.angle, ctypes.POINTER(c_double))[i] for i in range(out.classes)] if w is not None else []
    calls("ole_collapse_free", byref(out))
    return got


def collapse_by_definition(x, y, w, b):
    x, w, b = x.astype(np.float64), w.astype(np.float64), b.astype(np.float64)
    labels = np.unique(y)
    means = np.array([x[y == c].mean(0) for c in labels])
    m = means - means.mean(0)
    rest = x - means[np.searchsorted(labels, y)]
    between = m.T @ m / len(labels)
    values, vectors = np.linalg.eigh(between)
    kept = values > 1e-10 * values[-1]
    inverse = (vectors[:, kept] / values[kept]) @ vectors[:, kept].T
    lengths = np.linalg.norm(m, axis=1)
    pairs = np.triu_indices(len(labels), 1)
    cosines = (m @ m.T / np.outer(lengths, lengths))[pairs]
    plain = (means @ means.T / np.outer(*[np.linalg.norm(means, axis=1)] * 2))[pairs]
    distance = ((x[:, None] - means[None]) ** 2).sum(2)
    angles = []
    for c, row in zip(labels, w):
        _, s, v = np.linalg.svd(x[y == c], full_matrices=False)
        basis = v[:min(32, np.searchsorted(np.cumsum(s ** 2), 0.95 * np.sum(s ** 2)) + 1)]
        angles.append(np.degrees(np.arccos(min(1, np.linalg.norm(basis @ row) / np.linalg.norm(row)))))
    return {"nc1": np.trace(rest.T @ rest / len(x) @ inverse) / len(labels), "nc2_norms": lengths.std() / lengths.mean(),
            "nc2_cosines": cosines.std(), "nc2_simplex": np.abs(cosines + 1 / (len(labels) - 1)).mean(),
            "mean_cosine": np.abs(plain).mean(), "nc3": np.linalg.norm(w / np.linalg.norm(w) - m / np.linalg.norm(m)),
            "nc4": 100 * np.mean((x @ w.T + b).argmax(1) != distance.argmin(1)), "angle_mean": np.mean(angles),
            "angle_most": np.max(angles), "angles": angles}


def retrieval(x, y, test=None, sample=0, threads=1):
    out = Retrieval()
    calls("ole_retrieval_measure", byref(out), byref(embedding(x, y)), byref(embedding(*test)) if test else None, sample, 0,
          threads, None, None)
    return {"queries": out.queries, "map": out.map_at_r, "rp": out.r_precision, "recall": list(out.recall)}


def retrieval_by_definition(x, y, test=None):
    unit = x / np.linalg.norm(x, axis=1, keepdims=True)
    q, labels = (unit, y) if test is None else (test[0] / np.linalg.norm(test[0], axis=1, keepdims=True), test[1])
    rows = []
    for i in range(len(q)):
        order = np.argsort(-(unit @ q[i]), kind="stable")
        if test is None:
            order = order[order != i]
        right = y[order] == labels[i]
        r = right.sum()
        if r:
            precision = np.cumsum(right[:r]) / np.arange(1, r + 1)
            rows.append([np.sum(precision * right[:r]) / r, right[:r].mean()] + [right[:k].any() for k in (1, 2, 4, 8)])
    means = 100 * np.mean(rows, axis=0)
    return {"queries": len(rows), "map": means[0], "rp": means[1], "recall": list(means[2:])}


def make(rows, dim, classes, dtype=np.float32, seed=0):
    random = np.random.default_rng(seed)
    y = np.r_[np.arange(classes), random.integers(0, classes, rows - classes)] * 3
    x = 2 * random.standard_normal((classes, dim))[y // 3] + random.standard_normal((rows, dim)) + 0.5
    w, b = random.standard_normal((classes, dim)), random.standard_normal(classes)
    return x.astype(dtype), y.astype(np.int64), w.astype(np.float32), b.astype(np.float32)


class Measures(unittest.TestCase):
    def test_collapse(self):
        for rows, dim, classes, dtype in ((300, 10, 4, np.float32), (1100, 40, 12, np.float64), (60, 5, 9, np.float32),
                                          (50, 80, 3, np.float32)):
            x, y, w, b = make(rows, dim, classes, dtype)
            want = collapse_by_definition(x, y, w, b)
            got = collapse(x, y, w, b, threads=2)
            for name, value in want.items():
                np.testing.assert_allclose(got[name], value, rtol=1e-6, atol=1e-9, err_msg=name)
            self.assertEqual(collapse(x, y, w, b), got)
            bare = collapse(x, y)
            self.assertEqual(bare["nc1"], got["nc1"])
            self.assertTrue(np.isnan(bare["nc3"]) and np.isnan(bare["angle_mean"]))

    def test_collapsed(self):
        """Features at the corners of a simplex, and the classifier there too: everything is 0."""
        corners = np.eye(5) - 0.2
        x, y = np.repeat(corners, 4, 0), np.repeat(np.arange(5), 4)
        got = collapse(x, y, corners.astype(np.float32), np.zeros(5, np.float32))
        for name in ("nc1", "nc2_norms", "nc2_cosines", "nc2_simplex", "nc3", "nc4", "angle_mean"):
            self.assertAlmostEqual(got[name], 0, places=5, msg=name)

    def test_one_point(self):
        """Class means that coincide have no directions: nothing is defined, and nothing fails."""
        got = collapse(np.ones((6, 3)), np.arange(6) % 2)
        self.assertTrue(np.isnan(got["nc1"]) and np.isnan(got["nc2_norms"]))

    def test_retrieval(self):
        for rows, dim, classes in ((200, 6, 5), (700, 12, 30), (40, 3, 25)):
            x, y, _, _ = make(rows, dim, classes)
            for test in (None, make(90, dim, classes, seed=1)[:2]):
                want = retrieval_by_definition(x.astype(float), y, test and (test[0].astype(float), test[1]))
                got = retrieval(x, y, test, threads=2)
                self.assertEqual(got["queries"], want["queries"])
                for name in ("map", "rp", "recall"):
                    np.testing.assert_allclose(got[name], want[name], atol=1e-9, err_msg=name)
                self.assertEqual(retrieval(x, y, test), got)
            self.assertLessEqual(retrieval(x, y, sample=10)["queries"], 10)

    def test_mistakes(self):
        x, y, w, b = make(30, 4, 3)
        with self.assertRaisesRegex(ValueError, "at least two classes"):
            collapse(x, np.zeros(30, np.int64))
        with self.assertRaisesRegex(ValueError, r"the classifier is \[2, 4\]; the features have 3 classes"):
            collapse(x, y, w[:2].copy(), b)
        x[7] = np.nan
        with self.assertRaisesRegex(ValueError, "row 7 holds NaN or Inf"):
            retrieval(x, y)


if __name__ == "__main__":
    main()
