"""ole.analyze, knn, tsne and verify on arrays: against NumPy, without copies, with every bad input named."""
import io
import subprocess
import sys
import tempfile
import unittest
from contextlib import redirect_stderr
from pathlib import Path
from unittest import mock

import numpy as np
from support import PACKAGE, main, make

import ole

NAMES = np.array(["cat", "dog", "eel", "owl", "yak"])


def unit(x):
    x = np.asarray(x, np.float64)
    return x / np.linalg.norm(x, axis=1, keepdims=True)


class Analyze(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.x, cls.y = make(120, 12, 5)
        cls.found = ole.analyze(cls.x, NAMES[cls.y], map=False)

    def test_numbers(self):
        x, y, found = self.x, self.y, self.found
        self.assertEqual(found.classes, tuple(NAMES))
        self.assertEqual((found.rows, found.dim, found.ignored), (120, 12, 0))
        angles = np.degrees(np.arccos(np.clip(unit(x) @ unit(x).T, -1, 1)))
        pair = np.triu(np.ones((120, 120), bool), 1)
        same = y[:, None] == y
        for one, chosen in ((found.within, same), (found.between, ~same)):
            self.assertAlmostEqual(one.mean, angles[pair & chosen].mean(), 6)
            self.assertAlmostEqual(one.maximum, angles[pair & chosen].max(), 4)
            self.assertEqual(one.pairs, (pair & chosen).sum())
            self.assertEqual(one.histogram.sum(), one.pairs)
        wanted = np.linalg.svd(x.astype(np.float64), compute_uv=False)
        np.testing.assert_allclose(found.spectrum.singular_values, wanted, rtol=1e-6)
        owls = np.linalg.svd(x[y == 3].astype(np.float64), compute_uv=False)
        np.testing.assert_allclose(found.class_spectra["owl"].norm, owls.sum(), rtol=1e-6)
        self.assertAlmostEqual(found.loss, ole.score(x, y).value, 6)
        self.assertEqual(len(found.overlaps), 10)
        self.assertIn(found.overlaps[0].a, NAMES)
        self.assertAlmostEqual(found.errors.knn1, ole.knn(x, y, k=1).error)

    def test_collapse_and_retrieval(self):
        x, y, found = self.x.astype(np.float64), self.y, self.found
        means = np.array([x[y == c].mean(0) for c in range(5)])
        within = sum((x[y == c] - means[c]).T @ (x[y == c] - means[c]) for c in range(5)) / len(x)
        centred = means - means.mean(0)
        between = np.linalg.pinv(centred.T @ centred / 5, rcond=1e-9)
        self.assertAlmostEqual(found.collapse.nc1, np.trace(within @ between) / 5, 4)
        self.assertTrue(np.isnan(found.collapse.nc3))
        fitted = ole.analyze(self.x, NAMES[y], map=False, classifier=(centred, np.zeros(5)))
        self.assertAlmostEqual(fitted.collapse.nc3, 0, 5)
        self.assertEqual(fitted.collapse.angles.shape, (5,))
        self.assertIn("NC3", str(fitted))
        order = np.argsort(-(unit(x) @ unit(x).T) + 9 * np.eye(len(x)), axis=1)[:, : 120 // 5 - 1]
        right = y[order] == y[:, None]
        self.assertAlmostEqual(found.retrieval.r_precision, 100 * right.mean(), 6)
        self.assertAlmostEqual(found.retrieval.recall[4], 100 * right[:, :4].any(1).mean(), 6)
        with self.assertRaisesRegex(ole.InputError, "weights have shape"):
            ole.analyze(self.x, y, classifier=centred[:3])

    def test_map_and_test_set(self):
        x, y = self.x, NAMES[self.y]
        found = ole.analyze(x, y, test=x[:20], test_labels=y[:20])
        self.assertTrue(found.errors.tested)
        self.assertEqual((found.errors.queries, found.errors.knn1), (20, 0.0))
        self.assertEqual(found.map.shape, (120, 2))
        self.assertEqual(found.map_labels, tuple(y[found.map_rows]))

    def test_integers_and_ignored_rows(self):
        y = self.y * 7
        y[:11] = -1
        found = ole.analyze(self.x.tolist(), y, map=False)
        self.assertEqual((found.rows, found.ignored, found.classes), (109, 11, (0, 7, 14, 21, 28)))

    def test_shown(self):
        self.assertIn("120 rows × 12, 5 classes", str(self.found))
        self.assertIn("1-NN error", self.found._repr_html_())
        self.assertNotIn("<b>0", ole.analyze(self.x, [f"<b>{c}" for c in self.y], map=False)._repr_html_())

    def test_progress_and_interrupt(self):
        shown = io.StringIO()
        with redirect_stderr(shown):
            ole.analyze(self.x, self.y, verbose=True, map=False)
        self.assertIn("angles", shown.getvalue())

        class Stopped(io.StringIO):
            def write(self, text):
                raise KeyboardInterrupt

        with self.assertRaises(KeyboardInterrupt), redirect_stderr(Stopped()):
            ole.analyze(self.x, self.y, verbose=True)
        with self.assertRaises(KeyboardInterrupt), redirect_stderr(Stopped()):
            ole.tsne(self.x, verbose=True)


class Arrays(unittest.TestCase):
    def test_read_in_place(self):
        """What is already as the library reads it costs no memory, read-only and mapped files included."""
        with tempfile.TemporaryDirectory() as folder:
            x, y = make(64, 8, 4)
            path = Path(folder) / "x.npy"
            np.save(path, x)
            mapped = np.load(path, mmap_mode="r")
            fixed = x.copy()
            fixed.flags.writeable = False
            from ole._arrays import matrix

            for one in (mapped, fixed, x, x.astype(np.float64)):
                self.assertTrue(np.shares_memory(matrix(one), one))
            wanted = ole.knn(x, y).index
            for one in (mapped, fixed, np.asfortranarray(x), np.repeat(x, 2, axis=0)[::2], x.tolist(),
                        x.astype(object), x.astype(">f4")):
                np.testing.assert_array_equal(ole.knn(one, y).index, wanted)

    def test_pandas(self):
        try:
            import pandas
        except ImportError:
            self.skipTest("pandas is not installed")
        x, y = make(64, 8, 4)
        frame = pandas.DataFrame(x, columns=list("abcdefgh"))
        for labels in (pandas.Series(NAMES[y]), pandas.Categorical(NAMES[y]), pandas.Series(NAMES[y]).astype("string")):
            self.assertEqual(ole.knn(frame, labels).predicted, ole.knn(x, NAMES[y]).predicted)
        frame["a"] = "?"
        with self.assertRaisesRegex(ole.InputError, "not numbers"):
            ole.knn(frame)

    def test_mistakes(self):
        x, y = make(30, 4, 3)
        bad = x.copy()
        bad[7, 2] = np.inf
        mixed = np.array([*y[:-1], "dog"], object)
        for call, words in (
            (lambda: ole.analyze(x[0], y), "[N, D]"),
            (lambda: ole.analyze(x[:0], y[:0]), "at least one row"),
            (lambda: ole.analyze(x, y[:7]), "30 rows of features need (30,)"),
            (lambda: ole.analyze(bad, y), "row 7 holds NaN or Inf"),
            (lambda: ole.analyze(x, y * 0.5), "labels have type float64"),
            (lambda: ole.analyze(x, mixed), "labels mix strings and numbers"),
            (lambda: ole.analyze(x, mixed.tolist()), "labels mix strings and numbers"),
            (lambda: ole.analyze(x, [None] * 30), "row 0 is None"),
            (lambda: ole.analyze(x, y * 0), "labels: all rows have the label 0; at least two classes are needed"),
            (lambda: ole.analyze(x, ["dog"] * 30), "all rows have the label 'dog'"),
            (lambda: ole.analyze(x, NAMES[y], test=x, test_labels=["dog"] * 29 + ["zebra"]),
             "test labels: row 29 is 'zebra', a class that the labels do not have"),
            (lambda: ole.analyze(x, y, test=x, test_labels=y + 1), "test labels: row 2 is 3, a class"),
            (lambda: ole.analyze(x, y - 9), "every label is negative"),
            (lambda: ole.analyze(x, y, test=x), "test and test_labels belong together"),
            (lambda: ole.analyze(x, y, test=x, test_labels=NAMES[y]), "different types"),
            (lambda: ole.analyze(x, y, test=x[:, :3], test_labels=y), "dimensions"),
            (lambda: ole.analyze(x, y, threads=0), "threads is 0"),
            (lambda: ole.analyze(x + 1j, y), "complex"),
            (lambda: ole.knn(bad), "row 7 holds NaN or Inf"),
            (lambda: ole.knn(x, test=bad), "test features: row 7"),
            (lambda: ole.knn(x, test=x[:, :3]), "3 dimensions"),
            (lambda: ole.knn(x, k=0), "k is 0"),
            (lambda: ole.knn(x, y - 9), "below 0"),
            (lambda: ole.knn(x, test=x, test_labels=y), "test_labels need labels"),
            (lambda: ole.tsne(bad), "row 7 holds NaN or Inf"),
            (lambda: ole.tsne(x, perplexity=20), "perplexity"),
            (lambda: ole.tsne(x, perplexity=5, start=x), "start has shape (30, 4)"),
            (lambda: ole.verify(x), "pass either"),
            (lambda: ole.verify(x, y * 0), "0 different"),
            (lambda: ole.verify(x, pairs=[[0, 1]]), "pairs have shape (1, 2)"),
            (lambda: ole.verify(x, pairs=np.empty((0, 3), int)), "no pairs"),
            (lambda: ole.verify(x, pairs=[[0, 1, 2]] * 9), "third column"),
            (lambda: ole.verify(x, pairs=[[0, 99, i % 2] for i in range(40)]), "not there"),
        ):
            with self.subTest(words=words), self.assertRaises(ole.InputError) as raised:
                call()
            self.assertIn(words, str(raised.exception))
        self.assertEqual(ole.InputError.__module__, "ole")  # as messages show it

    def test_nothing_is_imported_but_numpy(self):
        code = ("import sys, ole; ole.knn([[1.0, 2], [2, 1]])\n"
                "sys.exit(bool({'torch', 'jax', 'sklearn', 'matplotlib', 'pandas', 'scipy'} & set(sys.modules)))\n")
        subprocess.run([sys.executable, "-c", code], check=True, cwd=PACKAGE)


class Neighbours(unittest.TestCase):
    def test_against_numpy(self):
        x, y = make(70, 9, 5, dtype=np.float64)
        q, _ = make(31, 9, 5, seed=3)
        cosine = unit(q) @ unit(x).T
        found = ole.knn(x, NAMES[y], test=q, k=4)
        np.testing.assert_array_equal(found.index, np.argsort(-cosine, axis=1, kind="stable")[:, :4])
        np.testing.assert_allclose(found.cosine, -np.sort(-cosine, axis=1)[:, :4], atol=1e-9)
        for row, name in zip(found.index, found.predicted):
            kinds, counts = np.unique(NAMES[y[row]], return_counts=True)
            self.assertEqual(name, kinds[counts.argmax()])
        self.assertTrue(np.isnan(found.error))

    def test_few_and_ignored(self):
        x, y = make(6, 4, 3)
        y = np.where(np.arange(6) < 3, -1, y)
        found = ole.knn(x, y, k=5)
        self.assertEqual(found.index.shape, (3, 5))
        self.assertTrue((found.index[:, :2] >= 3).all() and (found.index[:, 2:] == -1).all())
        self.assertIn("5-NN error", str(found))

    def test_ties_take_the_first_class(self):
        x = np.array([[1, 0], [1, 0], [0, 1.0]])
        self.assertEqual(ole.knn(x[:2], ["b", "a"], test=x[:1], k=2).predicted, ("a",))


class MapsAndPairs(unittest.TestCase):
    def test_map(self):
        x, y = make(90, 10, 3)
        one = ole.tsne(x, NAMES[y], perplexity=10, quality=True, threads=1)
        two = ole.tsne(x.astype(np.float64), perplexity=10, threads=2)
        np.testing.assert_array_equal(np.asarray(one), two.points)
        self.assertEqual(one.points.shape, (90, 2))
        kept = ole.tsne(x, perplexity=10, start=one.points, iterations=0)
        np.testing.assert_allclose(kept.points, one.points - one.points.mean(0), atol=1e-9)
        try:
            from sklearn.manifold import trustworthiness
        except ImportError:
            return
        self.assertAlmostEqual(one.trustworthiness, trustworthiness(x, one.points, n_neighbors=5), 6)

    def test_pairs(self):
        x, y = make(60, 8, 3)
        found = ole.verify(x, NAMES[y], folds=5)
        a, b, same, fold = found.pairs.T
        np.testing.assert_array_equal(same == 1, y[a] == y[b])
        np.testing.assert_allclose(found.cosine, (unit(x)[a] * unit(x)[b]).sum(1), atol=1e-9)
        right = [(found.cosine[fold == i] >= t) == same[fold == i] for i, t in enumerate(found.fold_threshold)]
        np.testing.assert_allclose(found.fold_accuracy, [100 * r.mean() for r in right])
        over = found.cosine[same == 1][:, None] - found.cosine[same == 0]
        self.assertAlmostEqual(found.roc.auroc, (over > 0).mean() + 0.5 * (over == 0).mean(), 9)
        again = ole.verify(x, pairs=found.pairs)
        self.assertEqual((again.accuracy, again.threshold), (found.accuracy, found.threshold))
        dealt = ole.verify(x, pairs=found.pairs[:, :3], folds=7)
        self.assertEqual(len(dealt.fold_accuracy), 7)
        self.assertEqual(dealt.roc.auroc, found.roc.auroc)


class Alignments(unittest.TestCase):
    def test_procrustes(self):
        random = np.random.default_rng(0)
        a, turn = random.normal(size=(50, 6)), np.linalg.qr(random.normal(size=(6, 6)))[0]
        b = a @ turn + 0.1 * random.normal(size=(50, 6)) + 3
        for centre in (False, True):
            p, q = (a - a.mean(0), b - b.mean(0)) if centre else (a, b)
            u, _, v = np.linalg.svd(p.T @ q)
            found = ole.align(np.repeat(a, 2, axis=0)[::2], b, centre=centre)
            np.testing.assert_allclose(found.map, u @ v, atol=1e-10)
            self.assertAlmostEqual(found.residual, np.linalg.norm(p @ u @ v - q) / np.linalg.norm(q), 9)
            shift = b.mean(0) - a.mean(0) @ (u @ v) if centre else 0
            np.testing.assert_allclose(found.apply(a), a @ u @ v + shift, atol=1e-9)
            self.assertEqual(found.apply(a.astype(np.float32)).dtype, np.float32)
            self.assertIn("residual", found._repr_html_())
        for call, words in (
            (lambda: ole.align(a, b[:9]), "rows"),
            (lambda: ole.align(a, b[:, :4]), "dimensions"),
            (lambda: ole.align(a[:0], b), "a has shape (0, 6)"),
            (lambda: ole.align(a, np.full_like(b, np.nan)), "row 0 holds NaN or Inf"),
            (lambda: found.apply(a[:, :2]), "the map takes 6"),
        ):
            with self.subTest(words=words), self.assertRaises(ole.InputError) as raised:
                call()
            self.assertIn(words, str(raised.exception))


class Plots(unittest.TestCase):
    def test_plots(self):
        try:
            import matplotlib
        except ImportError:
            self.skipTest("matplotlib is not installed")
        matplotlib.use("Agg")
        x, y = make(60, 8, 3)
        analysis, verified = ole.analyze(x, NAMES[y]), ole.verify(x, y)
        for result in (analysis, ole.align(x, x), ole.knn(x, y), ole.tsne(x, y, perplexity=9), verified, verified.roc):
            with self.subTest(result=type(result).__name__):
                self.assertIsNotNone(result.plot())

    def test_without_matplotlib(self):
        x, y = make(60, 8, 3)
        found = ole.knn(x, y)
        with mock.patch.dict(sys.modules, {"matplotlib": None}), self.assertRaises(ole.Error) as raised:
            found.plot()
        self.assertIn("pip install matplotlib", str(raised.exception))


if __name__ == "__main__":
    main()
