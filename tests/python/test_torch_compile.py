"""The operators of torch 2.4 and later: torch's own checks of it, and torch.compile."""
import os
import sys
import tempfile
import unittest

import numpy as np
from support import import_torch, main, make

cache = tempfile.TemporaryDirectory(prefix="ole-torch-")  # compiled graphs of an older build would be taken else
os.environ["TORCHINDUCTOR_CACHE_DIR"] = cache.name
torch = import_torch()
if torch is None:
    sys.exit(77)
if not hasattr(torch.library, "custom_op"):
    print(f"skipped: torch {torch.__version__} has no torch.library.custom_op (2.4 has)")
    sys.exit(77)

from ole import InputError  # noqa: E402
from ole.torch import OLELoss  # noqa: E402

OPTIONS = (1.0, 1e-6, -1.0, True, 1, True)


def tensors(rows=24, dim=12, classes=3, dtype=torch.float32):
    features, labels = make(rows, dim, classes, dtype=np.float64)
    return torch.from_numpy(features).to(dtype), torch.from_numpy(labels)


class Operator(unittest.TestCase):
    def test_opcheck(self):
        for dtype in (torch.float32, torch.float64, torch.bfloat16):
            features, labels = tensors(dtype=dtype)
            for wanted in (True, False):
                torch.library.opcheck(torch.ops.ole.evaluate.default, (features, labels, *OPTIONS, wanted))
                torch.library.opcheck(torch.ops.ole.unweighted_loss.default, (
                    features.clone().requires_grad_(wanted), labels, *OPTIONS, wanted))

    def test_gradcheck(self):
        features, labels = tensors(9, 5, dtype=torch.float64)
        self.assertTrue(torch.autograd.gradcheck(
            lambda x: torch.ops.ole.unweighted_loss(x, labels, *OPTIONS, True), features.requires_grad_()))


class Compiled(unittest.TestCase):
    def check(self, backend, dtype=torch.float32):
        torch._dynamo.reset()
        torch.manual_seed(0)
        layer, criterion = torch.nn.Linear(12, 8), OLELoss(weight=0.25)

        def objective(x, y):
            with torch.autocast("cpu", torch.bfloat16, enabled=dtype == torch.bfloat16):
                features = layer(x).half() if dtype == torch.float16 else layer(x)
            return torch.nn.functional.cross_entropy(features.float(), y) + criterion(features, y)

        compiled = torch.compile(objective, backend=backend, fullgraph=True)
        for rows in (24, 31, 40):  # the second makes the rows symbolic
            x, y = tensors(rows)
            layer.zero_grad()
            want = objective(x, y)
            want.backward()
            gradient = layer.weight.grad.clone()
            layer.zero_grad()
            got = compiled(x, y)
            got.backward()
            tolerance = 1e-5 if dtype == torch.float32 else 2e-2
            torch.testing.assert_close(got, want, rtol=tolerance, atol=tolerance)
            torch.testing.assert_close(layer.weight.grad, gradient, rtol=tolerance, atol=tolerance)
        with torch.no_grad():
            self.assertFalse(compiled(x, y).requires_grad)

    def test_whole_graph(self):
        self.check("aot_eager")

    def test_whole_graph_autocast(self):
        self.check("aot_eager", torch.bfloat16)

    def test_whole_graph_float16(self):
        self.check("aot_eager", torch.float16)

    def test_empty_batches(self):
        for rows, dim in ((0, 8), (5, 0)):
            torch._dynamo.reset()
            features = torch.randn(rows, dim, requires_grad=True)
            compiled = torch.compile(lambda x, y: OLELoss()(x, y) + x.sum(), backend="aot_eager", fullgraph=True)
            loss = compiled(features, torch.zeros(rows, dtype=torch.int64))
            loss.backward()
            self.assertEqual((float(loss), tuple(features.grad.shape)), (0.0, (rows, dim)))

    def test_bad_rows(self):
        for check in (True, False):
            torch._dynamo.reset()
            features, labels = tensors()
            compiled = torch.compile(lambda x, y: OLELoss(check=check)(2 * x, y), backend="aot_eager", fullgraph=True)
            self.assertGreater(float(compiled(features.requires_grad_(), labels)), 0)
            features = features.detach().clone()
            features[7, 1] = float("inf")
            if check:
                with self.assertRaisesRegex(InputError, "row 7 holds NaN or Inf"):
                    compiled(features.requires_grad_(), labels)
            else:
                loss = compiled(features.requires_grad_(), labels)
                loss.backward()
                self.assertTrue(torch.isnan(loss) and torch.isnan(features.grad).any())

    @unittest.skipIf(getattr(torch._dynamo.config, "specialize_float", True), "this torch compiles every float anew")
    def test_a_weight_that_changes_is_not_compiled_anew(self):
        torch._dynamo.reset()
        features, labels = tensors()
        criterion, graphs = OLELoss(), []

        def count(graph, inputs):
            graphs.append(graph)
            return graph

        compiled = torch.compile(lambda x, y: criterion(x, y), backend=count, fullgraph=True)
        for step in range(1, 6):
            criterion.weight = 0.1 * step
            self.assertAlmostEqual(float(compiled(features, labels)), float(criterion(features, labels)), places=6)
        self.assertLessEqual(len(graphs), 2)  # of the first number, and of any

    def test_inductor(self):
        try:
            torch.compile(lambda x: x + 1)(torch.zeros(2))
        except Exception as reason:  # no compiler for what it generates
            self.skipTest(f"torch.compile does not work here: {type(reason).__name__}")
        self.check("inductor")


if __name__ == "__main__":
    main()
