"""ole.novelty: scores against NumPy, the choice without novel rows, the model and its threshold, mistakes."""
import sys
import tempfile
import unittest
from pathlib import Path

import numpy as np
from support import main

import ole

FIXED = {"weight": 0.05, "weight_decay": 1e-3}
NAMES = np.array(["ant", "bee", "cat", "dog", "eel", "fox"])


def rows(count, classes, seed):
    random = np.random.default_rng(seed)
    y = np.array(classes)[np.arange(count) % len(classes)]
    return (random.normal(size=(count, 10)) + 5 * np.eye(10)[y]).astype(np.float32), y


X, Y = rows(180, range(6), 0)
FAR, _ = rows(40, (8, 9), 1)
try:
    FOUND = ole.novelty(X, NAMES[Y], novel=FAR, **FIXED)
except ole.Error as error:
    print(f"skipped: {error}")
    sys.exit(77)


class Scores(unittest.TestCase):
    def test_curves(self):
        self.assertEqual((FOUND.known, FOUND.novel, FOUND.classes), (36, 40, tuple(NAMES)))
        self.assertGreater(len(FOUND.scores), 10)
        for name, one in FOUND.scores.items():
            over = one.known[:, None] - one.novel
            self.assertAlmostEqual(one.roc.auroc, (over > 0).mean() + 0.5 * (over == 0).mean(), 9, name)
            self.assertAlmostEqual(one.kept, 100 * (one.known >= one.threshold).mean(), 6)
            self.assertAlmostEqual(one.accepted, 100 * (one.novel >= one.threshold).mean(), 6)
            self.assertIn(name, str(FOUND))
            self.assertIn("threshold", one._repr_html_())

    def test_choice(self):
        best = max(one.group_auroc for one in FOUND.scores.values())
        self.assertEqual(FOUND.chosen.group_auroc, best)
        self.assertEqual(FOUND.groups, 5)
        # Novel rows have no part in it.
        again = ole.novelty(X, NAMES[Y], **FIXED)
        self.assertEqual((again.chosen.name, again.chosen.group_auroc), (FOUND.chosen.name, best))
        self.assertEqual(len(again.chosen.novel), 0)
        self.assertIsNone(ole.novelty(X, Y, choose=False, **FIXED).chosen)

    def test_similar_classes_are_left_out_together(self):
        """Five topics of two classes that are nearly one: without its topic, a class is far from what is known."""
        random = np.random.default_rng(3)
        y = np.arange(400) % 10
        topic = np.array([0, 1, 2, 3, 4, 2, 0, 4, 1, 3])[y]
        x = random.normal(size=(400, 12)) + 8 * np.eye(12)[topic]
        x[:, 5] += 0.5 * y
        found = ole.novelty(x, y, method="none", weight_decay=1e-2)
        self.assertGreater(found.scores["cosine"].group_auroc, 0.99)

    def test_cosine_of_the_features_themselves(self):
        test, labels = rows(30, range(6), 2)
        found = ole.novelty(X, Y, test=test, test_labels=labels, novel=FAR, method="none")
        self.assertIsNone(found.model)
        means = np.array([X[Y == c].astype(np.float64).mean(0) for c in range(6)])
        means /= np.linalg.norm(means, axis=1, keepdims=True)
        for got, given in ((found.scores["cosine"].known, test), (found.scores["cosine"].novel, FAR)):
            unit = given / np.linalg.norm(given.astype(np.float64), axis=1, keepdims=True)
            # The direction of a class is the mean of its rows or of their directions.
            np.testing.assert_allclose(got, (unit @ means.T).max(1), atol=0.05)

    def test_model(self):
        self.assertEqual(FOUND.model.class_names, tuple(NAMES))
        self.assertEqual(FOUND.model.threshold_score, FOUND.chosen.name)
        self.assertAlmostEqual(FOUND.model.threshold, FOUND.chosen.threshold)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.safetensors"
            FOUND.save(path)
            same = ole.load(path)
        np.testing.assert_array_equal(same.predict(X).label, FOUND.model.predict(X).label)
        self.assertGreater((same.predict(X).label >= 0).mean(), 0.8)

    def test_lists_and_ignored_rows(self):
        y = Y.copy()
        y[:6] = -1
        found = ole.novelty(X.tolist(), y.tolist(), choose=False, **FIXED)
        self.assertEqual(found.classes, tuple(range(6)))
        self.assertLess(found.known, 37)


class Mistakes(unittest.TestCase):
    def test_messages(self):
        bad = X.copy()
        bad[5, 5] = np.nan
        for call, words in (
            (lambda: ole.novelty(X, Y * 0, **FIXED), "1 class"),
            (lambda: ole.novelty(bad, Y, **FIXED), "row 5 holds NaN or Inf"),
            (lambda: ole.novelty(X, Y, novel=bad, **FIXED), "row 5"),
            (lambda: ole.novelty(X, Y, novel=FAR[:0], **FIXED), "novel features have shape (0, 10)"),
            (lambda: ole.novelty(X, Y, novel=FAR[:, :4], **FIXED), "novel features have 4 dimensions"),
            (lambda: ole.novelty(X, Y, test=X[:, :4], test_labels=Y, **FIXED), "dimension"),
            (lambda: ole.novelty(X, Y, test=X, test_labels=Y + 1, **FIXED), "do not have"),
            (lambda: ole.novelty(X, Y, test=X, test_labels=NAMES[Y], **FIXED), "different types"),
            (lambda: ole.novelty(X, Y[:9], **FIXED), "labels have shape (9,)"),
            (lambda: ole.novelty(X, Y, keep=1.5, **FIXED), "keep is 1.5"),
            (lambda: ole.novelty(X, Y, method="svm"), "'linear'"),
            (lambda: ole.novelty(X, Y, method="transform"), "'transform' has no classifier: use linear, mlp or none"),
            (lambda: ole.novelty(X, Y, choose=False, **FIXED).plot(), "no novel rows"),
        ):
            with self.subTest(words=words), self.assertRaises(ole.InputError) as raised:
                call()
            self.assertIn(words, str(raised.exception))


if __name__ == "__main__":
    main()
