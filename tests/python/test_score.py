"""ole.score on NumPy arrays: numbers, inputs of all kinds, errors, threads, what is imported."""
import doctest
import subprocess
import sys
import tempfile
import unittest
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from support import PACKAGE, main, make, reference

import ole
from ole import _score
from ole._arrays import integers, rows_of
from ole._plans import Kind, PlanCache, bucket

WITHOUT_TORCH = """
[mypy]
strict = True
disallow_subclassing_any = False
disallow_untyped_calls = False
disallow_untyped_decorators = False
warn_return_any = False
warn_unused_ignores = False
[mypy-certifi,jax.*,joblib.*,matplotlib.*,sklearn.*]
ignore_missing_imports = True
[mypy-torch.*]
follow_imports = skip
ignore_missing_imports = True
"""


class Numbers(unittest.TestCase):
    def check(self, features, labels, tolerance, **options):
        got = ole.score(features, labels, gradient=True, **options)
        names = {"weight": "weight", "delta_floor": "floor"}
        value, gradient = reference(features, labels, **{names[k]: v for k, v in options.items()})
        self.assertAlmostEqual(got.value, value, delta=tolerance * max(1, abs(value)))
        np.testing.assert_allclose(got.gradient, gradient, atol=tolerance)
        return got

    def test_float32(self):
        got = self.check(*make(64, 256, 10), 1e-6, weight=0.25)
        self.assertEqual(got.gradient.dtype, np.float32)
        self.assertEqual((got.rows, got.classes, got.rank), (64, 10, 64))

    def test_float64(self):
        got = self.check(*make(40, 16, 4, dtype=np.float64), 1e-11, weight=-2.0, delta_floor=3.0)
        self.assertEqual(got.gradient.dtype, np.float64)

    def test_terms_and_classes(self):
        features, labels = make(30, 20, 3)
        got = ole.score(features, labels, reduction="sum", weight=0.5)
        self.assertIsNone(got.gradient)
        self.assertAlmostEqual(got.value, 0.5 * (got.class_term - got.global_norm), places=9)
        self.assertEqual([one.label for one in got.per_class], [0, 1, 2])
        self.assertEqual([one.count for one in got.per_class], [10, 10, 10])
        for one in got.per_class:
            block = features[labels == one.label].astype(np.float64)
            self.assertAlmostEqual(one.norm, np.linalg.svd(block)[1].sum(), places=4)

    def test_orthogonal_classes_are_zero(self):
        got = ole.score(np.diag([2.0, 3.0]), [0, 1], gradient=True)
        self.assertAlmostEqual(got.value, 0.0, places=12)
        np.testing.assert_allclose(got.gradient, 0, atol=1e-12)

    def test_directions_that_are_rounding(self):
        """Constant features beside weak ones, every singular value counted: noise of float64 is none of them."""
        random = np.random.default_rng(1)
        for scale in (1.0, 1e9):
            for power in range(3, 16, 2):
                features = np.full((100, 64), scale)
                features[:, -3:] = random.standard_normal((100, 3)) * scale * 10.0 ** -power
                features, labels = features.astype(np.float32), np.arange(100) % 2
                got = ole.score(features, labels, gradient=True, delta_abs=0.0, delta_rel=0.0)
                value, _ = reference(features, labels)
                self.assertAlmostEqual(got.value, value, delta=1e-6 * got.class_term / 100)
                self.assertLessEqual(abs(got.gradient).max() * 100, 2.0)

    def test_ignored_rows(self):
        features, labels = make(20, 8, 4)
        labels[::3] = -1
        got = self.check(features, labels, 1e-6)
        self.assertTrue((got.gradient[::3] == 0).all())

    def test_docstring(self):
        self.assertEqual(doctest.testmod(_score).failed, 0)


class Inputs(unittest.TestCase):
    def test_any_layout_gives_the_same(self):
        features, labels = make(24, 12, 3)
        want = ole.score(features, labels, gradient=True)
        wide = np.zeros((24, 30), np.float32)
        wide[:, 5:17] = features
        for other in (np.asfortranarray(features), wide[:, 5:17], features[::-1][::-1],
                      features.astype(">f4"), features.tolist()):
            got = ole.score(other, labels, gradient=True)
            if isinstance(other, list):  # of Python's floats: float64
                self.assertAlmostEqual(got.value, want.value, places=6)
                continue
            self.assertEqual(got.value, want.value)
            np.testing.assert_array_equal(got.gradient, want.gradient)

    def test_arrays_at_odd_addresses(self):
        features, labels = make(8, 4, 2, dtype=np.float64)
        room = np.frombuffer(bytearray(features.nbytes + labels.nbytes + 2), np.uint8)
        odd = room[1:1 + features.nbytes].view(np.float64).reshape(8, 4)
        names = room[1 + features.nbytes:][:labels.nbytes].view(labels.dtype)
        odd[:], names[:] = features, labels
        self.assertFalse(odd.flags.aligned or names.flags.aligned)
        self.assertTrue(rows_of(odd).flags.aligned and integers(names).flags.aligned)
        self.assertEqual(ole.score(odd, names).value, ole.score(features, labels).value)

    def test_one_row_of_any_stride(self):
        column = np.random.default_rng(0).random((5, 1))
        for dtype in (np.float32, np.float64):
            row = column.astype(dtype).T
            self.assertEqual(row.strides[0], row.itemsize)
            got, wanted = (ole.score(x, [3], gradient=True) for x in (row, row.copy().reshape(-1)[None]))
            self.assertEqual(got.value, wanted.value)
            np.testing.assert_array_equal(got.gradient, wanted.gradient)

    def test_label_types(self):
        features, labels = make(24, 12, 3)
        want = ole.score(features, labels).value
        for dtype in (np.int8, np.uint8, np.int16, np.int32, np.uint32, np.int64):
            self.assertEqual(ole.score(features, labels.astype(dtype)).value, want)
        self.assertEqual(ole.score(features, np.repeat(labels, 2)[::2]).value, want)
        large = ole.score(features, labels.astype(np.uint64) + np.uint64(2**63 - 3))
        self.assertEqual([one.label for one in large.per_class], [2**63 - 3, 2**63 - 2, 2**63 - 1])

    def test_class_names(self):
        features, labels = make(24, 12, 3)
        want = ole.score(features, labels, gradient=True)
        names = np.array(["owl", "bat", "cat"])[labels]
        for given in (names, names.tolist(), names.astype(object)):
            got = ole.score(features, given, gradient=True)
            self.assertAlmostEqual(got.value, want.value, places=6)
            np.testing.assert_allclose(got.gradient, want.gradient, atol=1e-6)
            self.assertEqual([one.label for one in got.per_class], ["bat", "cat", "owl"])
        with self.assertRaisesRegex(ole.InputError, "mix strings and numbers"):
            ole.score(features, np.array(["owl", 1] * 12, object))

    def test_half(self):
        features, labels = make(24, 12, 3)
        half = features.astype(np.float16)
        self.assertEqual(ole.score(half, labels).value, ole.score(half.astype(np.float32), labels).value)

    def test_errors_say_what_to_do(self):
        features, labels = make(6, 4, 2)
        bad = features.copy()
        bad[3, 1] = np.nan
        for arguments, options, words in (
            ((features[0], labels), {}, "[N, D]"),
            ((features, labels[:5]), {}, "(6,)"),
            ((features, labels * 0.5), {}, "integers"),
            ((features[:0], labels[:0]), {}, "nothing"),
            ((features.astype(complex), labels), {}, "floats"),
            ((bad, labels), {}, "row 3"),
            ((features, labels), {"reduction": "none"}, '"mean" or "sum"'),
            ((features, labels), {"delta_abs": -1}, "delta_abs"),
            ((features, labels), {"threads": 0}, "threads"),
            ((features, labels), {"weight": float("nan"), "gradient": True}, "finite"),
            ((features, -1 - labels), {}, "ignored"),
            ((features, np.uint64(2**63 + 7) * labels.astype(np.uint64)), {}, "row 1 is 9223372036854775815"),
        ):
            with self.subTest(words=words), self.assertRaises(ole.InputError) as raised:
                ole.score(*arguments, **options)
            self.assertIn(words, str(raised.exception))
            self.assertIsInstance(raised.exception, ValueError)


class Plans(unittest.TestCase):
    def test_buckets(self):
        for rows in range(1, 3000):
            self.assertTrue(rows <= bucket(rows) <= max(32, rows * 1.25), rows)
        self.assertLess(len({bucket(rows) for rows in range(1, 3000)}), 40)

    def test_the_cache_is_bounded(self):
        cache = PlanCache(capacity=3)
        kinds = [Kind(32, dim, 3) for dim in range(1, 6)]
        for kind in kinds:
            cache.give(kind, cache.take(kind))
        self.assertEqual(len(cache), 3)
        plan = cache.take(kinds[4])
        self.assertEqual(len(cache), 2)
        self.assertIsNot(plan, cache.take(kinds[4]))

    def test_threads_of_python(self):
        for dtype in (np.float32, np.float64):
            sets = [make(48, 64, 6, seed, dtype) for seed in range(4)]
            want = [ole.score(*one, gradient=True) for one in sets]
            wrong = []

            def work(i):
                for _ in range(100):
                    got = ole.score(*sets[i], gradient=True)
                    if got.value != want[i].value or (got.gradient != want[i].gradient).any():
                        wrong.append(i)

            with ThreadPoolExecutor(4) as pool:
                list(pool.map(work, range(4)))
            self.assertEqual(wrong, [], dtype)

    def test_a_forked_process_makes_its_own_plans(self):
        code = ("import os, numpy, ole\n"
                "x = numpy.random.default_rng(0).random((600, 600), numpy.float32); y = numpy.arange(600) % 3\n"
                "a = ole.score(x, y, threads=2).value\n"
                "child = os.fork()\n"
                "if not child: os._exit(ole.score(x, y, threads=2).value != a)\n"
                "assert os.waitpid(child, 0)[1] == 0\n")
        subprocess.run([sys.executable, "-c", code], check=True, timeout=120, cwd=PACKAGE)


class Package(unittest.TestCase):
    def test_no_framework_is_imported(self):
        code = ("import sys, ole; ole.score([[1.0, 2.0]], [0])\n"
                "sys.exit(bool({'torch', 'jax'} & set(sys.modules)))\n")
        subprocess.run([sys.executable, "-c", code], check=True, cwd=PACKAGE)

    def test_version_and_info(self):
        self.assertRegex(ole.__version__, r"^\d+\.\d+\.\d+$")
        self.assertEqual(ole.info()["version"], ole.__version__)
        with self.assertRaises(AttributeError):
            ole.nothing

    def test_a_missing_library_is_named(self):
        code = "import ole; ole.score([[1.0, 2.0]], [0])"
        run = subprocess.run([sys.executable, "-c", code], cwd=PACKAGE, text=True, capture_output=True,
                             env={"OLE_LIBRARY": "/nowhere/libole.so"})
        self.assertIn("/nowhere/libole.so cannot be loaded", run.stderr)

    def test_types(self):
        try:
            import mypy  # noqa: F401
        except ImportError:
            self.skipTest("mypy is not installed")
        checked = []
        try:
            import torch

            old = tuple(map(int, torch.__version__.split(".")[:2])) < (2, 4)
        except ImportError:
            old = True
        if old:  # the types are those of torch 2.4 and later: check the modules that do without
            checked = [path for path in sorted((PACKAGE / "ole").rglob("*.py")) if "torch" not in path.name]
            checked = ["--follow-imports=silent", *checked]
        run = subprocess.run([sys.executable, "-m", "mypy", *checked], cwd=PACKAGE, text=True, capture_output=True)
        self.assertEqual(run.returncode, 0, run.stdout)
        if old:  # the others, with everything of torch's Any
            with tempfile.TemporaryDirectory() as folder:
                options = Path(folder) / "mypy.ini"
                options.write_text(WITHOUT_TORCH)
                checked = sorted((PACKAGE / "ole").rglob("*torch*.py"))
                run = subprocess.run([sys.executable, "-m", "mypy", "--config-file", options, *checked], cwd=PACKAGE,
                                     text=True, capture_output=True)
            self.assertEqual(run.returncode, 0, run.stdout)


if __name__ == "__main__":
    main()
