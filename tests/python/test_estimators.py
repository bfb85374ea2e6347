"""ole.OLEClassifier and ole.OLETransformer: scikit-learn's own checks, its tools, labels of all kinds, mistakes."""
import copy
import io
import os
import pickle
import re
import subprocess
import sys
import tempfile
import tracemalloc
import unittest
import warnings
from contextlib import redirect_stderr
from pathlib import Path

import numpy as np
from support import PACKAGE, ROOT, main, run_script

try:
    import sklearn  # noqa: F401
    from sklearn.base import clone
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import GridSearchCV, cross_val_score
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
except ImportError:
    print("skipped: this Python has no scikit-learn (Debian: python3-sklearn)")
    sys.exit(77)

import ole

try:
    ole.OLEClassifier(weight=0.0, weight_decay=1e-2).fit(np.eye(4), [0, 0, 1, 1])
except ole.Error as error:
    print(f"skipped: {error}")
    sys.exit(77)

NAMES = np.array(["cat", "dog", "owl"])
QUICK = {"weight": 0.05, "weight_decay": 1e-3, "random_state": 0}


def data(rows=90, seed=0, dtype=np.float32):
    """Three classes around lines of their own, not centred."""
    random = np.random.default_rng(seed)
    y = np.arange(rows) % 3
    x = random.normal(size=(rows, 8)) + 4 * np.eye(8)[y] + 1
    return x.astype(dtype), y


def growth(call):
    """Most MB of Python's and NumPy's memory that a call takes."""
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1] / 1e6
    finally:
        tracemalloc.stop()


class Checks(unittest.TestCase):
    """What scikit-learn asks of every estimator."""

    def check(self, estimator):
        from sklearn.utils import estimator_checks as checks

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what a check skips, it warns of
            if hasattr(checks, "estimator_checks_generator"):  # scikit-learn 1.6
                for one, check in checks.estimator_checks_generator(estimator):
                    self.run_check(one, check)
            else:
                for one, check in checks.check_estimator(estimator, generate_only=True):
                    self.run_check(one, check)

    def run_check(self, estimator, check):
        name = getattr(check, "func", check).__name__
        with self.subTest(check=name):
            try:
                check(estimator)
            except unittest.SkipTest:
                pass  # for want of pandas and the like

    def test_classifier(self):
        self.check(ole.OLEClassifier())

    def test_transformer(self):
        self.check(ole.OLETransformer())
        self.check(ole.OLETransformer("transform"))


class Page(unittest.TestCase):
    def test_docs(self):
        """The blocks of docs/python.md on embeddings run in order, as printed."""
        page = (ROOT / "docs" / "python.md").read_text()
        part = page[page.index("## Embeddings"):page.index("## PyTorch")]
        blocks = re.findall(r"^```python\n(.*?)^```$", part, re.MULTILINE | re.DOTALL)
        self.assertEqual(len(blocks), 3)
        with tempfile.TemporaryDirectory() as folder:
            code = "\n".join(blocks)
            printed = run_script("-c", code, cwd=folder, OPENBLAS_NUM_THREADS="1").splitlines()
        self.assertGreater(float(printed[0]), 0.85)
        self.assertEqual(printed[1], "(1, 10)")
        self.assertIn("digit", printed[-1])


class Numbers(unittest.TestCase):
    def test_logistic_regression(self):
        """Without OLÉ the fit is a convex problem: scikit-learn solves the same one."""
        x, y = data(dtype=np.float64)
        decay = 1e-2
        ours = ole.OLEClassifier(weight=0.0, weight_decay=decay, tol=1e-7, unknown=False).fit(x, y)
        centred = x - x.mean(axis=0)
        centred /= np.sqrt((centred**2).sum(axis=1).mean())
        theirs = LogisticRegression(C=1 / (decay * len(x)), tol=1e-10, max_iter=5000).fit(centred, y)
        np.testing.assert_allclose(ours.predict_proba(x), theirs.predict_proba(centred), atol=1e-4)

    def test_default_tolerance(self):
        """That of the C library and so of `ole fit`."""
        from ole import _embed

        for kind in (ole.OLEClassifier, ole.OLETransformer):
            self.assertEqual(kind().tol, _embed.options_of(_embed._calls).tolerance)

    def test_parts_agree(self):
        x, y = data()
        fitted = ole.OLEClassifier(**QUICK).fit(x, NAMES[y])
        proba, logits = fitted.predict_proba(x), fitted.decision_function(x)
        np.testing.assert_array_equal(fitted.predict(x), fitted.classes_[logits.argmax(1)])
        np.testing.assert_allclose(proba.sum(1), 1)
        np.testing.assert_allclose(np.log(proba), fitted.predict_log_proba(x))
        known = fitted.score_samples(x) >= fitted.threshold_
        np.testing.assert_array_equal(fitted.predict_open(x), np.where(known, fitted.predict(x), "unknown"))
        self.assertEqual(fitted.score(x, NAMES[y]), (fitted.predict(x) == NAMES[y]).mean())
        far = -9 * np.ones((5, 8), np.float32)
        self.assertGreater(np.median(fitted.score_samples(x)), fitted.score_samples(far).max())
        z = fitted.transform(x)
        self.assertEqual((z.shape, z.dtype), ((90, 3), np.float32))

    def test_transform_without_a_step(self):
        x, y = data(300)
        x = x - x.min() + 1  # classes that are easy to tell apart as they are
        with self.assertWarnsRegex(UserWarning, "took no step"):
            fitted = ole.OLETransformer("transform", random_state=0).fit(x, y)
        self.assertEqual(fitted.n_iter_, 0)
        scale = fitted.transform(x) / x
        np.testing.assert_allclose(scale, scale[0, 0], rtol=1e-5)
        self.assertGreater(ole.OLETransformer("transform", epochs=3).fit(x, y).n_iter_, 0)

    def test_angles_grow(self):
        x, y = data(300)
        plain = ole.OLETransformer(weight=0.0, weight_decay=1e-3).fit_transform(x, y)
        ours = ole.OLETransformer(weight=1.0, weight_decay=1e-3).fit_transform(x, y)
        one, other = (ole.analyze(z, y, map=False) for z in (plain, ours))
        self.assertLess(other.loss / np.linalg.norm(ours), one.loss / np.linalg.norm(plain))

    def test_what_does_not_matter(self):
        """Rows in another order, threads, types and strides."""
        x, y = data()
        wanted = ole.OLEClassifier(**QUICK, unknown=False).fit(x, y).predict_proba(x)
        order = np.random.default_rng(1).permutation(len(x))
        for given, labels, jobs in (
            (x[order], y[order], 1), (x, y, 2), (x.astype(np.float64), y, 1), (np.asfortranarray(x), y, 1),
            (x, y.astype(np.uint8), 1), (x.tolist(), y.tolist(), 1), (x, NAMES[y], 1), (x, NAMES[y].astype(object), 1),
            (x, y.astype(float), 1),
        ):
            found = ole.OLEClassifier(**QUICK, unknown=False, n_jobs=jobs).fit(given, labels)
            np.testing.assert_allclose(found.predict_proba(x), wanted, atol=2e-3)
            self.assertEqual(list(found.classes_), sorted(set(np.asarray(labels).tolist())))

    def test_read_only_and_mapped(self):
        x, y = data()
        wanted = ole.OLEClassifier(**QUICK).fit(x, y).decision_function(x)
        with tempfile.TemporaryDirectory() as folder:
            np.save(Path(folder) / "x.npy", x)
            mapped = np.load(Path(folder) / "x.npy", mmap_mode="r")
            np.testing.assert_array_equal(ole.OLEClassifier(**QUICK).fit(mapped, y).decision_function(mapped), wanted)

    def test_memory(self):
        """float32 takes none; float16 and integers take a float32 copy in fit, and blocks in predictions."""
        y = np.arange(50000) % 3
        x = (8 * np.random.default_rng(0).random((50000, 300), np.float32) + 9 * np.eye(300, dtype=np.float32)[y])
        options = {"weight": 0.0, "weight_decay": 1e-2, "epochs": 1}
        for dtype, most in (("f4", 8), ("f2", 60), ("u1", 60), ("i4", 60)):  # MB beside 60 MB of float32
            given = x.astype(dtype)
            bare, known = ole.OLEClassifier(**options, unknown=False), ole.OLEClassifier(**options, unknown_score="cosine")
            self.assertLess(growth(lambda: bare.fit(given, y)), most + 8, dtype)
            known.fit(given[:900], y[:900])
            for name in ("predict", "transform", "score_samples", "predict_open", "predict_proba"):
                self.assertLess(growth(lambda: getattr(known, name)(given)), 40, (dtype, name))
                wanted = getattr(known, name)(given[-99:].astype(np.float32))
                np.testing.assert_array_equal(getattr(known, name)(given)[-99:], wanted)

    def test_class_weight(self):
        x, y = data()
        x[:, :3] -= 4 * np.eye(8, dtype=np.float32)[y][:, :3] * 0.8  # classes that overlap
        heavy = ole.OLEClassifier(**QUICK, class_weight={"cat": 50, "dog": 1, "owl": 1}).fit(x, NAMES[y])
        plain = ole.OLEClassifier(**QUICK).fit(x, NAMES[y])
        self.assertGreater((heavy.predict(x) == "cat").sum(), (plain.predict(x) == "cat").sum())
        balanced = ole.OLEClassifier(**QUICK, class_weight="balanced").fit(x[:70], y[:70])
        self.assertEqual(balanced.classes_.tolist(), [0, 1, 2])


class Tools(unittest.TestCase):
    def test_clone_and_pickle(self):
        x, y = data()
        for kind in (ole.OLEClassifier, ole.OLETransformer):
            fitted = kind(**QUICK).fit(x, NAMES[y])
            fresh = clone(fitted)
            self.assertEqual(fresh.get_params(), fitted.get_params())
            self.assertFalse(hasattr(fresh, "model_"))
            for same in (pickle.loads(pickle.dumps(fitted)), copy.deepcopy(fitted)):
                np.testing.assert_array_equal(same.transform(x), fitted.transform(x))

    def test_search_in_a_pipeline(self):
        x, y = data()
        line = make_pipeline(StandardScaler(), ole.OLEClassifier(**QUICK))
        search = GridSearchCV(line, {"oleclassifier__weight": [0.0, 0.1]}, cv=3).fit(x, NAMES[y])
        self.assertGreater(search.best_score_, 0.9)
        self.assertEqual(search.predict(x[:3]).tolist(), NAMES.tolist())
        line = make_pipeline(ole.OLETransformer(**QUICK), LogisticRegression())
        self.assertGreater(cross_val_score(line, x, y, cv=3).mean(), 0.9)

    def test_pandas(self):
        try:
            import pandas
        except ImportError:
            self.skipTest("pandas is not installed")
        x, y = data()
        frame, series = pandas.DataFrame(x, columns=list("abcdefgh")), pandas.Series(NAMES[y])
        for kind in (ole.OLEClassifier, ole.OLETransformer):
            fitted = kind(**QUICK).set_output(transform="pandas").fit(frame, series)
            out = fitted.transform(frame)
            name = kind.__name__.lower()
            self.assertEqual(list(out.columns), [f"{name}{i}" for i in range(3)])
            self.assertEqual(fitted.feature_names_in_.tolist(), list("abcdefgh"))
            with self.assertRaisesRegex(ValueError, "feature names"):
                fitted.transform(frame[list("hgfedcba")])

    def test_random_state_and_verbose(self):
        x, y = data()
        one, two = (ole.OLEClassifier(random_state=3).fit(x, y) for _ in range(2))
        np.testing.assert_array_equal(one.decision_function(x), two.decision_function(x))
        self.assertEqual((one.weight_, one.weight_decay_), (two.weight_, two.weight_decay_))
        shown = io.StringIO()
        with redirect_stderr(shown):
            ole.OLEClassifier(verbose=True, random_state=3).fit(x, y)
        self.assertIn("%", shown.getvalue())

    def test_save_and_load(self):
        x, y = data()
        for labels in (NAMES[y], y, 10 * y):
            fitted = ole.OLEClassifier(**QUICK).fit(x, labels)
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "model.safetensors"
                fitted.save(path)
                same = ole.OLEClassifier.load(path)
                model = ole.load(path, threads=1)
            np.testing.assert_array_equal(same.predict_open(x), fitted.predict_open(x))
            np.testing.assert_array_equal(same.score_samples(x), fitted.score_samples(x))
            self.assertEqual(same.classes_.tolist(), fitted.classes_.tolist())
            self.assertEqual(model.class_names, tuple(str(name) for name in fitted.classes_))
            np.testing.assert_array_equal(model.features(x), fitted.transform(x))

    def test_all_is_loaded(self):
        """Types of labels, parameters, and what fit learned."""
        x, y = data()
        learned = ("weight_", "weight_decay_", "width_", "held_out_accuracy_", "n_iter_", "n_features_in_",
                   "unknown_auroc_", "unknown_score_", "threshold_", "temperature_")
        for labels in (y, y.astype(float), y.astype(str), y.astype(np.uint8), y > 0, NAMES[y],
                       NAMES[y].astype(object)):
            weights = {name: 1 + i for i, name in enumerate(np.unique(labels).tolist())}
            named = "1" not in weights  # which scikit-learn takes for 1
            options = {"class_weight": weights if named else "balanced",
                       "unknown_label": -7 if labels.dtype.kind in "iuf" else "?", "unknown_score": "cosine",
                       "epochs": 50, "tol": 1e-2}
            fitted = ole.OLEClassifier(**QUICK, **options).fit(x, labels)
            with self.subTest(type=labels.dtype), tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "model.safetensors"
                fitted.save(path)
                self.assertEqual(os.listdir(folder), ["model.safetensors"])
                same = ole.OLEClassifier.load(path, n_jobs=1)
                self.assertEqual(same.get_params(), {**fitted.get_params(), "n_jobs": 1})
                self.assertEqual(same.classes_.dtype, fitted.classes_.dtype)
                self.assertEqual([type(name) for name in same.classes_], [type(name) for name in fitted.classes_])
                self.assertEqual(same.score(x, labels), fitted.score(x, labels))
                np.testing.assert_array_equal(same.predict_open(x), fitted.predict_open(x))
                for name in learned:
                    self.assertEqual(getattr(same, name), getattr(fitted, name), name)
        y = np.arange(180) % 6
        x = np.random.default_rng(0).normal(size=(180, 8)) + 4 * np.eye(8)[y]
        random = np.random.RandomState(0)
        for kind, method in ((ole.OLEClassifier, "linear"), (ole.OLETransformer, "transform")):
            fitted = kind(method, random_state=random).fit(x, y)
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "model.safetensors"
                fitted.save(path)
                same = kind.load(path)
            self.assertEqual((same.method, same.random_state), (method, None))
            for name in learned[:6]:
                np.testing.assert_equal(getattr(same, name), getattr(fitted, name), name)
            np.testing.assert_array_equal(same.transform(x), fitted.transform(x))
            if kind is ole.OLEClassifier:
                self.assertEqual(same.unknown_auroc_.keys(), fitted.unknown_auroc_.keys())
                for name, value in fitted.unknown_auroc_.items():
                    self.assertAlmostEqual(same.unknown_auroc_[name], value)

    def test_load_a_file_without_state(self):
        """As `ole fit` writes it: the classes are named, and what the file lacks is NaN."""
        x, y = data()
        for labels, wanted in ((y, [0, 1, 2]), (NAMES[y], NAMES.tolist()), (y / 2 * 2, ["0.0", "1.0", "2.0"])):
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "model.safetensors"
                ole.OLEClassifier(**QUICK).fit(x, labels).model_.save(path)
                loaded = ole.OLEClassifier.load(path)
            self.assertEqual(loaded.classes_.tolist(), wanted)
            self.assertTrue(np.isnan(loaded.weight_))
            self.assertEqual((loaded.unknown_auroc_, len(loaded.predict_open(x))), ({}, 90))

    def test_hidden_layer(self):
        x, y = data(150)
        options = {"method": "mlp", "weight_decay": 1e-4, "width": 16, "epochs": 100, "unknown": False}
        fitted = ole.OLEClassifier(weight=0.05, random_state=0, **options).fit(x, NAMES[y])
        self.assertGreater(fitted.score(x, NAMES[y]), 0.9)
        self.assertEqual((fitted.transform(x).shape, fitted.width_), ((150, 16), 16))
        np.testing.assert_array_equal(pickle.loads(pickle.dumps(fitted)).predict_proba(x), fitted.predict_proba(x))

    def test_interrupt(self):
        class Stopped(io.StringIO):
            def write(self, text):
                raise KeyboardInterrupt

        x, y = data()
        with self.assertRaises(KeyboardInterrupt), redirect_stderr(Stopped()):
            ole.OLEClassifier(verbose=True).fit(x, y)


class Unknown(unittest.TestCase):
    def test_chosen_score(self):
        """Six classes: the score is chosen; the file keeps it with the evidence, saved again too."""
        y = np.arange(180) % 6
        x = (np.random.default_rng(0).normal(size=(180, 8)) + 4 * np.eye(8)[y]).astype(np.float32)
        fitted = ole.OLEClassifier(**QUICK).fit(x, y)
        exports = {name: fitted.unknown_auroc_[name] for name in ("softmax", "calibrated", "energy", "residual", "cosine")}
        self.assertEqual(exports[fitted.unknown_score_], max(exports.values()))
        self.assertEqual(len(fitted.unknown_auroc_), 13)
        with tempfile.TemporaryDirectory() as folder:
            one, two = Path(folder) / "one.safetensors", Path(folder) / "two.safetensors"
            fitted.save(one)
            again = ole.OLEClassifier.load(one)
            again.save(two)
            self.assertIn(b"novelty_choice", one.read_bytes())
            self.assertEqual(one.read_bytes(), two.read_bytes())
            np.testing.assert_array_equal(again.score_samples(x), fitted.score_samples(x))
            self.assertEqual(again.unknown_score_, fitted.unknown_score_)
        given = ole.OLEClassifier(**QUICK, unknown_score="cosine").fit(x, y)
        self.assertEqual((given.unknown_score_, given.unknown_auroc_), ("cosine", {}))
        z = given.transform(x).astype(float)
        z /= np.linalg.norm(z, axis=1, keepdims=True)
        means = np.array([z[y == c].mean(0) for c in range(6)])
        means /= np.linalg.norm(means, axis=1, keepdims=True)
        np.testing.assert_allclose(given.score_samples(x), (z @ means.T).max(1), atol=1e-5)
        self.assertLess((given.predict_open(x) == -1).mean(), 0.2)
        with self.assertRaisesRegex(ValueError, "score is 'no'; use 'auto'"):
            ole.OLEClassifier(unknown_score="no").fit(x, y)

    def test_labels(self):
        x, y = data()
        far = np.full((2, 8), -99, np.float32)
        for labels, options, wanted in (
            (y, {}, -1), (NAMES[y], {}, "unknown"), (NAMES[y], {"unknown_label": "none of these"}, "none of these"),
            (y.astype(float), {}, -1), (y, {"unknown_label": "?"}, "?"), (NAMES[y].astype(object), {}, "unknown"),
        ):
            fitted = ole.OLEClassifier(**QUICK, **options).fit(x, labels)
            fitted.threshold_, label = 2.0, None
            fitted.model_ = _Unsure(fitted.model_)
            label = fitted.predict_open(far).tolist()
            self.assertEqual(label, [wanted, wanted])
            self.assertIs(type(label[0]), float if labels.dtype.kind == "f" else type(wanted))
        two = y > 0
        self.assertIn(ole.OLEClassifier(**QUICK).fit(x, two).predict_open(x)[0], (False, True, -1))

    def test_single_rows(self):
        """One row per class: no row can be held out, so that there is no threshold."""
        x = np.random.default_rng(0).normal(size=(30, 8))
        with self.assertWarnsRegex(UserWarning, "every class has a single row"):
            fitted = ole.OLEClassifier(**QUICK).fit(x, np.arange(30))
        self.assertIsNone(fitted.threshold_)
        for name in ("predict_open", "score_samples"):
            with self.assertRaisesRegex(ole.InputError, "no threshold: every class has a single row, so nothing could"):
                getattr(fitted, name)(x)
        with warnings.catch_warnings():
            warnings.filterwarnings("error", message=".*single row")
            ole.OLEClassifier(**QUICK, unknown=False).fit(x, np.arange(30))
            ole.OLEClassifier(**QUICK).fit(x, np.arange(30) // 2)

    def test_mistakes(self):
        x, y = data()
        bad = x.copy()
        bad[17, 3] = np.nan
        fitted = ole.OLEClassifier(**QUICK).fit(x, y)
        clash = ole.OLEClassifier(**QUICK, unknown_label=2).fit(x, y)
        bare = ole.OLEClassifier(**QUICK, unknown=False).fit(x, y)
        for call, words in (
            (lambda: ole.OLEClassifier().fit(x, y * 0), "y has 1 class"),
            (lambda: ole.OLEClassifier().fit(x, y[:9]), "inconsistent numbers of samples"),
            (lambda: ole.OLEClassifier().fit(bad, y), "row 17 holds NaN or Inf"),
            (lambda: ole.OLEClassifier().fit(x, y + np.random.random(90)), "continuous"),
            (lambda: ole.OLEClassifier().fit(x[:0], y[:0]), "0 sample"),
            (lambda: ole.OLEClassifier(method="svm").fit(x, y), "'linear', 'mlp'"),
            (lambda: ole.OLEClassifier(weight=-1.0).fit(x, y), "weight is -1.0"),
            (lambda: ole.OLEClassifier(weight="1").fit(x, y), "weight is '1'; use a finite number"),
            (lambda: ole.OLEClassifier(weight_decay=np.ones(2)).fit(x, y), "weight_decay is array([1., 1.])"),
            (lambda: ole.OLEClassifier(tol=2).fit(x, y), "tol is 2; use a number under 1"),
            (lambda: ole.OLEClassifier(epochs=1.5).fit(x, y), "epochs is 1.5; use a whole number or None"),
            (lambda: ole.OLEClassifier(n_jobs="a").fit(x, y), "n_jobs is 'a'; use a number of threads"),
            (lambda: ole.OLEClassifier(n_jobs=0).fit(x, y), "n_jobs is 0"),
            (lambda: ole.OLEClassifier(n_jobs=1.5).fit(x, y), "n_jobs is 1.5"),
            (lambda: ole.OLEClassifier().fit(x, [None] * 90), "y: row 0 is None; use strings or integers"),
            (lambda: ole.OLEClassifier().fit(x, np.array(["a"] * 89 + [None], object)), "y: row 89 is None"),
            (lambda: ole.OLEClassifier().fit(x, ["a"] * 89 + [float("nan")]), "y: row 89 is nan"),
            (lambda: ole.OLEClassifier().fit(x, ["a"] * 89 + [7]), "y mixes strings and numbers: row 89 is 7"),
            (lambda: ole.OLEClassifier().fit(x, y.astype(object)), "y has numbers of type object; convert them"),
            (lambda: ole.OLETransformer().fit(x, np.array(["a"] * 89 + [7], object)), "y mixes strings and numbers"),
            (lambda: fitted.predict(bad), "row 17 holds NaN or Inf"),
            (lambda: fitted.predict(x[:, :5]), "5 features"),
            (lambda: fitted.score_samples(x[:0]), "0 sample"),
            (lambda: clash.predict_open(x), "unknown_label 2 is one of the classes"),
            (lambda: bare.predict_open(x), "unknown=True"),
            (lambda: ole.OLEClassifier().predict(x), "not fitted"),
            (lambda: ole.OLEClassifier().save("x"), "not fitted"),
        ):
            with self.subTest(words=words), self.assertRaises(ValueError) as raised:
                call()
            self.assertIn(words, str(raised.exception))

    def test_without_scikit_learn(self):
        code = ("import sys; sys.modules['sklearn'] = None\nimport ole\n"
                "try: ole.OLEClassifier\nexcept ImportError as error: sys.exit('scikit-learn' not in str(error))\n"
                "sys.exit(2)\n")
        subprocess.run([sys.executable, "-c", code], check=True, cwd=PACKAGE)


class _Unsure:
    """A model that knows nothing."""

    def __init__(self, model):
        self.model = model

    def predict(self, x):
        found = self.model.predict(x)
        found.label[:] = -1
        return found


if __name__ == "__main__":
    main()
