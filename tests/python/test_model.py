"""ole.load: models of version 0.1 (tests/frozen), arrays in every layout, image files, threads, mistakes."""
import gc
import hashlib
import http.server
import json
import os
import sys
import tempfile
import threading
import unittest
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from unittest import mock

import numpy as np
from support import ROOT, main

import ole

FROZEN = ROOT / "tests" / "frozen" / "0.1"
try:
    DIGITS = ole.load(FROZEN / "threshold", threads=1)
except ole.Error as error:
    print(f"skipped: {error}")
    sys.exit(77)


def pgm(folder, pixels):
    path = Path(folder) / "digit.pgm"
    path.write_bytes(b"P5 8 8 255\n" + np.asarray(pixels, np.uint8).tobytes())
    return path


class Frozen(unittest.TestCase):
    def test_features(self):
        """The rows that version 0.1 recorded are among the features of the same data."""
        expected = json.loads((FROZEN / "expected.json").read_text())
        try:
            from sklearn.datasets import load_digits

            digits = np.round(load_digits().images / 16 * 255).astype(np.uint8)  # as bytes, as Olé has them
        except ImportError:
            digits = None
        for name, recorded in expected.items():
            with self.subTest(name=name):
                model = ole.load(FROZEN / name, threads=1)
                x = np.load(FROZEN / "x.npy") if recorded["data"].startswith("npy") else digits
                if x is None:
                    self.skipTest("this Python has no scikit-learn (Debian: python3-sklearn)")
                found = model.features(x)
                self.assertEqual(found.shape, (len(x), model.dim))
                for row in np.array(recorded["features"]):
                    self.assertLess(np.abs(found - row).max(axis=1).min(), 1e-3 * np.abs(row).max())

    def test_what_the_model_knows(self):
        self.assertEqual(DIGITS.class_names, tuple("0123456"))
        self.assertEqual((DIGITS.shape, DIGITS.dim, DIGITS.net), ((1, 8, 8), 8, "C4-MP-FC8"))
        self.assertEqual(DIGITS.threshold_score, "cosine")
        self.assertTrue(0 < DIGITS.threshold < 1)
        self.assertIsNone(ole.load(FROZEN / "plain").threshold)
        self.assertIn("7 classes", str(DIGITS))
        self.assertIn("vectors of 6", ole.load(FROZEN / "npy")._repr_html_())


class Samples(unittest.TestCase):
    def test_layouts(self):
        images = np.random.default_rng(0).integers(0, 256, (5, 8, 8), np.uint8)
        wanted = DIGITS.logits(images)
        floats = images.astype(np.float32) / np.float32(255)
        for given in (images[:, None], images[..., None], floats, floats.astype(np.float64), np.asfortranarray(floats),
                      floats.tolist(), np.repeat(floats, 2, axis=0)[::2]):
            np.testing.assert_allclose(DIGITS.logits(given), wanted, rtol=1e-5, atol=1e-5)
        found = DIGITS.predict(images)
        np.testing.assert_array_equal(found.best, wanted.argmax(1))
        scaled = np.exp(wanted.astype(np.float64) / DIGITS.temperature)
        np.testing.assert_allclose(found.score, (scaled / scaled.sum(1, keepdims=True)).max(1), rtol=1e-5)
        np.testing.assert_array_equal(found.label, np.where(found.known_score < DIGITS.threshold, -1, found.best))
        self.assertEqual(len(found[1:3]), 2)
        self.assertEqual([one.best for one in found], [str(number) for number in found.best])
        self.assertEqual(len(found[0].runners_up), 4)
        self.assertIn("5 predictions", found._repr_html_())
        self.assertEqual(set(found.names("?")) - set("0123456?"), set())

    def test_files(self):
        images = np.random.default_rng(1).integers(0, 256, (2, 8, 8), np.uint8)
        with tempfile.TemporaryDirectory() as folder:
            path = pgm(folder, images[0])
            for given in (path, str(path), [path, str(path)]):
                np.testing.assert_allclose(DIGITS.features(given)[-1], DIGITS.features(images)[0], rtol=1e-5)
            self.assertEqual(DIGITS.predict(path)[0].best, DIGITS.predict(images)[0].best)

    def test_blocks(self):
        """Samples are taken in blocks, read in place where they can be."""
        from ole import _model

        x = np.random.default_rng(2).random((100, 8, 8), np.float32)
        x.flags.writeable = False
        wanted = DIGITS.features(x)
        with mock.patch.object(_model, "_AT_ONCE", 4 * 64 * 7):
            np.testing.assert_array_equal(DIGITS.features(x), wanted)
            bad = x.copy()
            bad[51, 3, 3] = np.nan
            with self.assertRaisesRegex(ole.InputError, "row 51 holds NaN or Inf"):
                DIGITS.predict(bad)

    def test_threads_wait_for_each_other(self):
        x = np.random.default_rng(3).random((64, 8, 8), np.float32)
        wanted = DIGITS.features(x)
        with ThreadPoolExecutor(4) as pool:
            for one in pool.map(DIGITS.features, [x] * 4):
                np.testing.assert_array_equal(one, wanted)

    def test_a_result_outlives_its_model(self):
        model = ole.load(FROZEN / "npy", threads=1)
        found = model.predict(np.load(FROZEN / "x.npy"))
        del model
        gc.collect()
        self.assertIn(found[0].best, "012")


class Hub(unittest.TestCase):
    """A server on the loopback that has one model; tests/cli/hub.py tries its failures."""

    def setUp(self):
        content = (FROZEN / "threshold" / "best.safetensors").read_bytes()

        class Handler(http.server.BaseHTTPRequestHandler):
            def log_message(self, *_):
                pass

            def do_HEAD(self):
                if self.path != "/me/digits/resolve/main/model.safetensors":
                    return self.send_error(404)
                self.send_response(200)
                self.send_header("ETag", f'"{hashlib.sha256(content).hexdigest()}"')
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()

            def do_GET(self):
                self.do_HEAD()
                self.wfile.write(content)

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        variables = mock.patch.dict(os.environ, {"HF_ENDPOINT": f"http://127.0.0.1:{server.server_address[1]}",
                                                 "XDG_CACHE_HOME": folder.name})
        variables.start()
        self.addCleanup(variables.stop)
        os.environ.pop("OLE_DATA", None)

    def test_load(self):
        try:
            model = ole.load("hf:me/digits", threads=1)
        except ole.Error as error:
            if error.status != "unsupported":
                raise
            self.skipTest(str(error))
        images = np.random.default_rng(4).integers(0, 256, (5, 8, 8), np.uint8)
        np.testing.assert_array_equal(model.logits(images), DIGITS.logits(images))
        self.assertEqual(model.threshold, DIGITS.threshold)
        with self.assertRaisesRegex(ole.Error, "hf:me/none: the hub has no such model"):
            ole.load("hf:me/none")


class Mistakes(unittest.TestCase):
    def test_messages(self):
        x = np.zeros((3, 8, 8), np.float32)
        for call, words in (
            (lambda: ole.load("/nowhere/run"), "/nowhere/run"),
            (lambda: ole.load(FROZEN / "expected.json"), "expected.json"),
            (lambda: ole.load(FROZEN / "plain", threads=0), "threads is 0"),
            (lambda: DIGITS.predict(x[:, :7]), "[N, 1, 8, 8] or [N, 8, 8, 1] or [N, 8, 8]"),
            (lambda: DIGITS.predict(x[:0]), "no samples"),
            (lambda: DIGITS.predict(x.astype(np.int64)), "int64"),
            (lambda: DIGITS.predict(x + 1j), "complex"),
            (lambda: DIGITS.predict(x + np.inf), "row 0 holds NaN or Inf"),
            (lambda: DIGITS.predict("/nowhere/photo.jpg"), "/nowhere/photo.jpg"),
            (lambda: DIGITS.predict(5), "shape ()"),
        ):
            with self.subTest(words=words), self.assertRaises(ole.Error) as raised:
                call()
            self.assertIn(words, str(raised.exception))


if __name__ == "__main__":
    main()
