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

ON_GPU = """
import numpy, torch
from support import make, reference
from ole import _torch_op
from ole._library import AUTO
for dtype, tolerance in ((torch.float64, 1e-12), (torch.float32, 1e-6), (torch.bfloat16, 1e-2), (torch.float16, 1e-2)):
    for rows, dim, classes, mean, floor in ((5, 3, 2, True, 1.0), (64, 40, 10, False, 1.0), (30, 70, 7, True, 9.0)):
        features, labels = make(rows, dim, classes)
        labels[3] = -1
        x, y = torch.from_numpy(features).to(dtype), torch.from_numpy(labels)
        value, direction = _torch_op._evaluate_plain(x, y, 0.25, floor, 1e-6, AUTO, mean)
        wanted, gradient = reference(x.double().numpy(), labels, floor=floor, mean=mean)
        assert abs(value - wanted) <= max(tolerance, 1e-6) * abs(wanted), (dtype, value, wanted)
        factor = (rows if mean else 1.0) if dtype == torch.float16 else 0.25
        scale = abs(gradient).max() * factor
        numpy.testing.assert_allclose(direction.double().numpy(), factor * gradient, atol=tolerance * scale + 1e-15)
x = torch.ones(4, 3)
assert _torch_op._evaluate_plain(x, torch.full((4,), -1), 1.0, 1.0, 1e-6, AUTO, True)[0] == 0.0
x[2, 1] = float("inf")
value, direction = _torch_op._evaluate_plain(x, torch.zeros(4, dtype=torch.long), 1.0, 1.0, 1e-6, AUTO, True)
assert value != value and bool(direction.isnan().all())
assert _torch_op._evaluate_plain(x, torch.tensor([0, 0, -1, 0]), 1.0, 1.0, 1e-6, AUTO, True)[0] == 0.0
print("agree")
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

    @unittest.skipUnless(importlib.util.find_spec("torch"), "this Python has no torch")
    def test_tensors_of_gpus(self):
        """PyTorch's version, which tensors on a GPU take, agrees with NumPy's; here on tensors of the CPU."""
        self.assertEqual(run_script("-c", ON_GPU, cwd=HERE, OLE_PURE_PYTHON="1").split()[-1], "agree")

    def test_it_is_used(self):
        value, used, *library = run_script("-c", PROGRAM, without=("OLE_LIBRARY",), OLE_PURE_PYTHON="1").split()
        self.assertEqual((used, " ".join(library)), ("True", "none: the loss runs in NumPy"))
        native = run_script("-c", "import numpy, ole; x, y = numpy.random.default_rng(0).random((40, 8), numpy.float32), "
                            "numpy.arange(40) % 4; print(ole.score(x, y).value)")
        self.assertAlmostEqual(float(value), float(native), places=6)


if __name__ == "__main__":
    main()
