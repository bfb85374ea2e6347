"""The loss in NumPy, which the wheel without the native library has, passes the tests of the native one."""
import importlib.util
import os
import subprocess
import sys
import unittest
from pathlib import Path

from support import PACKAGE, main, run_script

HERE = Path(__file__).resolve().parent
PROGRAM = """
import warnings, numpy
warnings.simplefilter("error")
import ole
from ole import _library, _plans, _pure
x, y = numpy.random.default_rng(0).random((40, 8), numpy.float32), numpy.arange(40) % 4
print(ole.score(x, y).value, type(_plans.plans._idle[0][1]) is _pure.Plan, ole.info()["library"])
"""


class Pure(unittest.TestCase):
    def run_tests(self, name):
        """All tests of a script in NumPy; no native library can be found."""
        environment = dict(os.environ, OLE_PURE_PYTHON="1", OLE_LIBRARY="/nowhere/libole.so", PYTHONPATH=str(PACKAGE))
        done = subprocess.run([sys.executable, "-B", HERE / name], env=environment, text=True, capture_output=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stderr, r"Ran [1-9]\d+ tests")

    def test_score(self):
        self.run_tests("test_score.py")

    @unittest.skipUnless(importlib.util.find_spec("torch"), "this Python has no torch")
    def test_torch(self):
        self.run_tests("test_torch.py")

    def test_it_is_used(self):
        value, used, *library = run_script("-c", PROGRAM, without=("OLE_LIBRARY",), OLE_PURE_PYTHON="1").split()
        self.assertEqual((used, " ".join(library)), ("True", "none: the loss runs in NumPy"))
        native = run_script("-c", "import numpy, ole; x, y = numpy.random.default_rng(0).random((40, 8), numpy.float32), "
                            "numpy.arange(40) % 4; print(ole.score(x, y).value)")
        self.assertAlmostEqual(float(value), float(native), places=6)


if __name__ == "__main__":
    main()
