"""The loss on a GPU through PyTorch: numbers, streams, no waiting, CUDA graphs, compiled steps."""
import os
import sys
import tempfile
import unittest
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from support import import_torch, main, make, reference

cache = tempfile.TemporaryDirectory(prefix="ole-torch-")  # compiled graphs of an older build would be taken else
os.environ["TORCHINDUCTOR_CACHE_DIR"] = cache.name
torch = import_torch()
if torch is None:
    sys.exit(77)
if not torch.cuda.is_available():
    print("skipped: PyTorch sees no CUDA GPU here")
    sys.exit(77)

from ole.torch import OLELoss, ole_loss  # noqa: E402

try:
    ole_loss(torch.ones(2, 2, device="cuda"), torch.zeros(2, dtype=torch.long, device="cuda"))
except RuntimeError as reason:
    print(f"skipped: {reason}")
    sys.exit(77)


def tensors(rows, dim, classes, seed=0, dtype=torch.float32):
    features, labels = make(rows, dim, classes, seed, np.float64)
    return torch.from_numpy(features).to("cuda", dtype).requires_grad_(), torch.from_numpy(labels).cuda()


def gradient_of(features, labels, **options):
    loss = ole_loss(features, labels, **options)
    return loss, torch.autograd.grad(loss, features)[0]


class Numbers(unittest.TestCase):
    def test_types_and_sizes(self):
        tolerances = {torch.float64: 1e-9, torch.float32: 2e-6, torch.bfloat16: 5e-3, torch.float16: 1e-3}
        for dtype, tolerance in tolerances.items():
            for rows, dim, classes in ((5, 3, 2), (64, 512, 10), (300, 40, 7)):
                with self.subTest(dtype=dtype, rows=rows):
                    features, labels = tensors(rows, dim, classes, dtype=dtype)
                    loss, gradient = gradient_of(features, labels, weight=0.25)
                    value, wanted = reference(features.detach().double().cpu().numpy(),
                                              labels.cpu().numpy(), weight=0.25)
                    self.assertEqual(gradient.dtype, dtype)
                    np.testing.assert_allclose(loss.item(), value, rtol=1e-5)
                    np.testing.assert_allclose(gradient.double().cpu().numpy(), wanted, atol=tolerance)

    def test_gradcheck(self):
        features, labels = tensors(9, 5, 3, dtype=torch.float64)
        self.assertTrue(torch.autograd.gradcheck(lambda x: ole_loss(x, labels, 0.7), features))

    def test_layouts_and_labels(self):
        features, labels = tensors(24, 12, 3)
        loss, wanted = gradient_of(features, labels)
        wide = torch.zeros(24, 30, device="cuda")
        wide[:, 5:17] = features.detach()
        for other in (wide[:, 5:17], features.detach().t().contiguous().t()):
            for dtype in (torch.int32, torch.int64):
                got, gradient = gradient_of(other.detach().requires_grad_(), labels.to(dtype))
                self.assertEqual(got.item(), loss.item())
                self.assertTrue(torch.equal(gradient, wanted))

    def test_empty_and_bad(self):
        for rows in (0, 5):
            features = torch.randn(rows, 8, device="cuda", requires_grad=True)
            loss, gradient = gradient_of(features, torch.full((rows,), -1, device="cuda"))
            self.assertEqual(loss.item(), 0.0)
            self.assertTrue((gradient == 0).all())
        features, labels = tensors(6, 4, 2)
        broken = features.detach().clone()
        broken[2, 1] = float("inf")
        loss, gradient = gradient_of(broken.requires_grad_(), labels)
        self.assertTrue(torch.isnan(loss) and torch.isnan(gradient).any())

    def test_labels_elsewhere(self):
        features, labels = tensors(6, 4, 2)
        with self.assertRaisesRegex(ValueError, "one device"):
            ole_loss(features, labels.cpu())

    def test_grad_scaler(self):
        features, labels = tensors(64, 32, 4)
        layer = torch.nn.Linear(32, 16).cuda()
        optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
        scaler = torch.cuda.amp.GradScaler()
        before = layer.weight.detach().clone()
        with torch.autocast("cuda", torch.float16):
            loss = ole_loss(layer(features), labels)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        self.assertGreater((layer.weight - before).abs().max().item(), 0)


class Streams(unittest.TestCase):
    def test_nothing_waits(self):
        features, labels = tensors(64, 256, 10)
        gradient_of(features, labels)
        torch.cuda.set_sync_debug_mode("error")
        try:
            gradient_of(features, labels)
            torch.cuda._sleep(2_000_000_000)  # about a second of the GPU's time
            gradient_of(features, labels)
            busy = not torch.cuda.current_stream().query()
        finally:
            torch.cuda.set_sync_debug_mode("default")
        torch.cuda.synchronize()
        self.assertTrue(busy, "the call returned only when the GPU was done")

    def test_many_streams_and_threads(self):
        sets = [tensors(96, 128, 8, seed) for seed in range(4)]
        want = [gradient_of(*one)[1] for one in sets]
        torch.cuda.synchronize()
        wrong = []

        def work(i):
            with torch.cuda.stream(torch.cuda.Stream()):
                got = [gradient_of(*sets[i])[1] for _ in range(30)]
                torch.cuda.current_stream().synchronize()
                wrong.extend(i for one in got if not torch.equal(one, want[i]))

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(work, range(4)))
        self.assertEqual(wrong, [])


class Graphs(unittest.TestCase):
    def test_capture(self):
        for rows, dim in ((64, 256), (96, 300)):
            features, labels = tensors(rows, dim, 10)
            other, _ = tensors(rows, dim, 10, seed=1)
            want = gradient_of(other, labels)
            graph = torch.cuda.CUDAGraph()
            side = torch.cuda.Stream()
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                gradient_of(features, labels)
            torch.cuda.current_stream().wait_stream(side)
            with torch.cuda.graph(graph):
                loss, gradient = gradient_of(features, labels)
            with torch.no_grad():
                features.copy_(other)
            gradient_of(other, labels)  # eager calls do not disturb the graph's plan
            graph.replay()
            torch.cuda.synchronize()
            self.assertEqual(loss.item(), want[0].item())
            self.assertTrue(torch.equal(gradient, want[1]))

    @unittest.skipUnless(hasattr(torch.library, "custom_op"), "needs torch 2.4")
    def test_compiled(self):
        torch.library.opcheck(torch.ops.ole.unweighted_loss.default, (
            *tensors(24, 12, 3), 1.0, 1e-6, -1.0, True, 0, True, True))
        for mode in ("default", "reduce-overhead"):
            torch._dynamo.reset()
            torch.manual_seed(0)
            layer, criterion = torch.nn.Linear(32, 16).cuda(), OLELoss(weight=0.25)

            def objective(x, y):
                features = torch.relu(layer(x))
                return torch.nn.functional.cross_entropy(features, y) + criterion(features, y)

            compiled = torch.compile(objective, mode=mode, fullgraph=True)
            features, labels = tensors(64, 32, 10)
            features = features.detach()
            objective(features, labels).backward()
            want = layer.weight.grad.clone()
            for _ in range(5):  # warm-up, capture, replay
                layer.weight.grad = None
                compiled(features, labels).backward()
                torch.testing.assert_close(layer.weight.grad, want, rtol=1e-3, atol=1e-5)


if __name__ == "__main__":
    main()
