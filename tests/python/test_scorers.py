"""The novelty scores of ole/novelty.h against NumPy, written from the papers' formulas, in float64."""
import ctypes
import unittest
from ctypes import byref, c_char_p, c_int, c_int64, c_void_p

import numpy as np
from support import main

from ole import _library as native

NAMES = ("softmax", "calibrated", "residual", "cosine", "energy", "gen", "knn", "vim", "mahalanobis", "relative", "fdbd",
         "nci", "neco")
calls = native.Calls(
    {"ole_scorer_fit": [c_void_p, c_int] + [c_void_p] * 3,
     "ole_scorer_run": [c_void_p, c_void_p, c_void_p, c_int64, c_void_p, c_int],
     "ole_scorer_restore": [c_void_p, c_int, c_void_p, c_int]},
    {"ole_scorer_free": [None, c_void_p], "ole_scorer_save": [c_int, c_void_p, c_void_p],
     "ole_score_name": [c_char_p, c_int], "ole_scorer_options_init_sized": [None, c_void_p, ctypes.c_size_t]})


class Embedding(ctypes.Structure):
    _fields_ = [("rows", c_int64), ("dim", c_int64), ("dtype", c_int), ("features", c_void_p), ("labels", c_void_p)]


class Linear(ctypes.Structure):
    _fields_ = [("classes", c_int64), ("dim", c_int64), ("weight", c_void_p), ("bias", c_void_p)]


class Tensor(ctypes.Structure):
    _fields_ = [("name", c_char_p), ("dtype", c_int), ("ndim", c_int), ("shape", c_int64 * 2), ("data", c_void_p)]


class Options(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("temperature", ctypes.c_double), ("energy", ctypes.c_double),
                ("neighbours", c_int64), ("principal", c_int64), ("gamma", ctypes.c_double), ("largest", c_int64),
                ("norm_weight", ctypes.c_double), ("threads", c_int64)]


def fit(name, known, labels, weight, bias, **options):
    """A scorer, by its address."""
    scorer, o = c_void_p(), Options()
    calls("ole_scorer_options_init_sized", byref(o), ctypes.sizeof(o))
    for key, value in options.items():
        setattr(o, key, value)
    dtype = 3 if known.dtype == np.float32 else 4
    embedding = Embedding(*known.shape, dtype, known.ctypes.data, labels.ctypes.data)
    classifier = Linear(*weight.shape, weight.ctypes.data, bias.ctypes.data)
    calls("ole_scorer_fit", byref(scorer), NAMES.index(name) + 1, byref(embedding), byref(classifier), byref(o))
    return scorer


def run(scorer, queries, logits=None, threads=1):
    out = np.empty(len(queries))
    calls("ole_scorer_run", scorer, queries.ctypes.data, None if logits is None else logits.ctypes.data, len(queries),
          out.ctypes.data, threads)
    return out


# ---- The formulas -------------------------------------------------------------------------------

def unit(rows):
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def shrunk(x):
    """Ledoit and Wolf (2004): S + a (m I - S), from the definitions of their lemma 3.2."""
    n, p = x.shape
    s = x.T @ x / n
    mean = np.trace(s) / p
    d2 = np.sum((s - mean * np.eye(p)) ** 2) / p
    b2 = min(d2, sum(np.sum((np.outer(row, row) - s) ** 2) for row in x) / p / n ** 2)
    return (1 - b2 / d2) * s + b2 / d2 * mean * np.eye(p)


def distances(q, means, covariance):
    inverse = np.linalg.inv(covariance)
    return np.array([np.einsum("ij,jk,ik->i", q - m, inverse, q - m) for m in means])


def subspace_share(x, labels, q):
    best = np.zeros(len(q))
    for c in np.unique(labels):
        _, s, v = np.linalg.svd(x[labels == c], full_matrices=False)
        size = min(32, np.searchsorted(np.cumsum(s ** 2), 0.95 * np.sum(s ** 2)) + 1)
        best = np.maximum(best, np.sum((q @ v[:size].T) ** 2, axis=1) / np.sum(q ** 2, axis=1))
    return best


def vim(x, w, b, q, energy):
    origin = -np.linalg.pinv(w, rcond=max(w.shape) * np.finfo(np.float32).eps) @ b
    values, vectors = np.linalg.eigh((x - origin).T @ (x - origin) / len(x))
    inside, spanned = x.shape[1] // 2, np.sum(values > 1e-12 * values[-1])
    if spanned <= inside:
        inside = spanned // 2
    outside = vectors[:, ::-1][:, inside:]
    scale = (x @ w.T + b).max(1).mean() / np.linalg.norm((x - origin) @ outside, axis=1).mean()
    return energy - scale * np.linalg.norm((q - origin) @ outside, axis=1)


def fdbd(w, z, q, mean):
    score = []
    for row, x in zip(z, q):
        p = row.argmax()
        away = np.linalg.norm(w[p] - w, axis=1)
        gaps = np.divide(row[p] - row, away, out=np.zeros(len(w)), where=away > 0)
        score.append(gaps.sum() / (len(w) - 1) / np.linalg.norm(x - mean))
    return np.array(score)


def neco(x, labels, q, mean):
    scale = x.std(0)
    scale[scale == 0] = 1
    size = len(np.unique(labels)) - 1
    size = max(1, size if size < x.shape[1] else x.shape[1] // 2)
    v = np.linalg.svd((x - mean) / scale, full_matrices=False)[2][:size]
    z = (q - mean) / scale
    return np.linalg.norm(z @ v.T, axis=1) / np.linalg.norm(z, axis=1)


def expected(name, x, labels, w, b, q, temperature=1.0, k=5):
    x, w, b, q = (a.astype(np.float64) for a in (x, w, b, q))
    z, mean = q @ w.T + b, x.mean(0)
    means = np.array([x[labels == c].mean(0) for c in np.unique(labels)])
    tempered = np.exp((z - z.max(1, keepdims=True)) / temperature)
    p = tempered / tempered.sum(1, keepdims=True)
    energy = z.max(1) + np.log(np.exp(z - z.max(1, keepdims=True)).sum(1))
    if name in ("softmax", "calibrated"):
        return p.max(1)
    if name == "energy":
        return energy
    if name == "gen":
        rest = np.array([[np.delete(row, c).sum() for c in range(len(row))] for row in p])  # 1 - p, exactly
        return np.array([-np.sum((a * r)[np.argsort(-a)[:100]] ** 0.1) for a, r in zip(p, rest)])
    if name == "cosine":
        return (unit(q) @ unit(np.array([unit(x[labels == c]).sum(0) for c in np.unique(labels)])).T).max(1)
    if name == "knn":
        return np.sort(unit(q) @ unit(x).T, axis=1)[:, -k]
    if name == "residual":
        return subspace_share(x, labels, q)
    if name == "vim":
        return vim(x, w, b, q, energy)
    if name in ("mahalanobis", "relative"):
        within = distances(q, means, shrunk(x - means[np.searchsorted(np.unique(labels), labels)])).min(0)
        return -within + (distances(q, [mean], shrunk(x - mean))[0] if name == "relative" else 0)
    if name == "fdbd":
        return fdbd(w, z, q, mean)
    if name == "nci":
        along = np.sum(w[z.argmax(1)] * (q - mean), axis=1) / np.linalg.norm(q - mean, axis=1)
        return along + 1e-4 * np.abs(q).sum(1)
    return neco(x, labels, q, mean)


# ---- The tests ----------------------------------------------------------------------------------

def make(rows, dim, classes, dtype=np.float32, seed=0):
    random = np.random.default_rng(seed)
    labels = np.r_[np.arange(classes), random.integers(0, classes, rows - classes)]
    centre = 2 * random.standard_normal((classes, dim))
    x = centre[labels] + random.standard_normal((rows, dim)) * random.uniform(0.2, 2, dim)
    w, b = random.standard_normal((classes, dim)), random.standard_normal(classes)
    q = 2 * random.standard_normal((301, dim))
    return x.astype(dtype), labels.astype(np.int64), w.astype(np.float32), b.astype(np.float32), q.astype(np.float32)


class Scores(unittest.TestCase):
    def check(self, data, **options):
        x, labels, w, b, q = data
        for name in NAMES:
            scorer = fit(name, x, labels, w, b, **options)
            got = run(scorer, q, threads=2)
            want = expected(name, *data, temperature=options.get("temperature", 1) if name == "calibrated" else 1,
                            k=options.get("neighbours", 5))
            stored = name in ("residual", "cosine", "knn")  # as float32
            np.testing.assert_allclose(got, want, rtol=1e-5 if stored else 1e-8, atol=1e-6 if stored else 1e-9,
                                       err_msg=name)
            np.testing.assert_array_equal(got, np.r_[run(scorer, q[:1]), run(scorer, q[1:270]), run(scorer, q[270:])])
            self.check_kept(name, scorer, q, got)
            calls("ole_scorer_free", scorer)

    def check_kept(self, name, scorer, q, scores):
        """Saved and restored, from memory that is not aligned: the same bits."""
        tensors = (Tensor * 8)()
        count = calls("ole_scorer_save", scorer, tensors)
        copies = []
        for t in tensors[:count]:
            size = t.shape[0] * (t.shape[1] if t.ndim == 2 else 1) * (4 if t.dtype == 3 else 8)
            copies.append(ctypes.create_string_buffer(b"?" + ctypes.string_at(t.data, size)))
            t.data = ctypes.addressof(copies[-1]) + 1
        again = c_void_p()
        calls("ole_scorer_restore", byref(again), NAMES.index(name) + 1, tensors, count)
        np.testing.assert_array_equal(run(again, q), scores)
        calls("ole_scorer_free", again)

    def test_names(self):
        self.assertEqual(tuple(calls("ole_score_name", i + 1).decode() for i in range(13)), NAMES)

    def test_shapes(self):
        for rows, dim, classes in ((600, 20, 5), (60, 100, 10), (40, 3, 6), (900, 33, 2), (400, 8, 130)):
            with self.subTest(rows=rows, dim=dim, classes=classes):
                self.check(make(rows, dim, classes))

    def test_many_classes(self):
        """Of more classes than its table has room for, fDBD computes distances row by row."""
        x, labels, w, b, q = make(2200, 3, 2100)
        w[7] = w[11]
        scorer = fit("fdbd", x, labels, w, b)
        q = np.repeat(q[:8], 2, axis=0)
        np.testing.assert_allclose(run(scorer, q), expected("fdbd", x, labels, w, b, q), rtol=1e-8)
        calls("ole_scorer_free", scorer)

    def test_float64(self):
        self.check(make(300, 12, 4, np.float64))

    def test_options(self):
        self.check(make(200, 16, 4), temperature=2.5, neighbours=9)

    def test_given_logits(self):
        """Logits that are passed replace those of the weights."""
        x, labels, w, b, q = make(100, 6, 3)
        other = q[:, :3].copy()
        scorer = fit("energy", x, labels, w, b)
        np.testing.assert_allclose(run(scorer, q, other), np.log(np.exp(other.astype(float)).sum(1)), rtol=1e-12)
        calls("ole_scorer_free", scorer)

    def test_duplicates(self):
        """Rows that occur twice, and labels below 0, which are ignored."""
        x, labels, w, b, q = make(100, 10, 4)
        extra = np.full((5, 10), np.nan, np.float32)
        twice = np.r_[x, x, extra], np.r_[labels, labels, np.full(5, -1)]
        for name in NAMES:
            once, doubled = fit(name, x, labels, w, b, neighbours=1), fit(name, *twice, w, b, neighbours=1)
            if name not in ("mahalanobis", "relative"):  # their shrinkage depends on the number of rows
                np.testing.assert_allclose(run(doubled, q), run(once, q), rtol=1e-6, atol=1e-6, err_msg=name)
            calls("ole_scorer_free", once)
            calls("ole_scorer_free", doubled)


if __name__ == "__main__":
    main()
