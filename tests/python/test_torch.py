"""OLELoss and ole_loss of ole.torch on the CPU, in any version of PyTorch from 1.13 on."""
import copy
import sys
import unittest
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from support import import_torch, main, make, reference

torch = import_torch()
if torch is None:
    sys.exit(77)

import ole  # noqa: E402
from ole._library import is_pure  # noqa: E402
from ole._plans import plans  # noqa: E402
from ole.torch import OLELoss, ole_loss  # noqa: E402


def tensors(rows, dim, classes, seed=0, dtype=torch.float32):
    features, labels = make(rows, dim, classes, seed, np.float64)
    return torch.from_numpy(features).to(dtype).requires_grad_(), torch.from_numpy(labels)


class Numbers(unittest.TestCase):
    def check(self, features, labels, tolerance, upstream=1.0, **options):
        loss = ole_loss(features, labels, **options)
        (gradient,) = torch.autograd.grad(loss, features, torch.tensor(upstream, dtype=loss.dtype))
        names = {"weight": "weight", "delta_floor": "floor", "delta_abs": "cut"}
        value, wanted = reference(features.detach().double().numpy(), labels.numpy(), mean=options.get(
            "reduction", "mean") == "mean", **{names[k]: v for k, v in options.items() if k in names})
        self.assertAlmostEqual(float(loss), value, delta=tolerance * max(1, abs(value)))
        np.testing.assert_allclose(gradient.double().numpy(), upstream * wanted, atol=tolerance)
        self.assertEqual(gradient.dtype, features.dtype)
        self.assertEqual(loss.dim(), 0)
        return loss

    def test_float32(self):
        self.assertEqual(self.check(*tensors(64, 256, 10), 1e-6).dtype, torch.float32)

    def test_float64(self):
        features, labels = tensors(30, 12, 3, dtype=torch.float64)
        self.assertEqual(self.check(features, labels, 1e-11).dtype, torch.float64)

    def test_options(self):
        features, labels = tensors(30, 12, 3)
        self.check(features, labels, 1e-5, reduction="sum", weight=0.5, delta_floor=20.0, threads=2)
        self.check(features, labels, 1e-6, delta_abs=1e-3, delta_rel=0.0)

    def test_upstream_gradient(self):
        self.check(*tensors(30, 12, 3), 1e-4, upstream=-1000.0, weight=0.25)

    def test_gradcheck(self):
        features, labels = tensors(9, 5, 3, dtype=torch.float64)
        for reduction in ("mean", "sum"):
            self.assertTrue(torch.autograd.gradcheck(
                lambda x: ole_loss(x, labels, 0.7, reduction=reduction), features))

    def test_same_bits_as_score(self):
        features, labels = tensors(30, 12, 3)
        self.assertEqual(float(ole_loss(features, labels)),
                         np.float32(ole.score(features.detach().numpy(), labels.numpy()).value))

    def test_training_moves_classes_apart_as_in_c(self):
        features = torch.tensor([[2.0, 1, 0], [3, 1, 0], [1, 0, 2], [1, 0, 3]], requires_grad=True)
        optimizer = torch.optim.SGD([features], lr=0.3)
        criterion, labels, losses = OLELoss(), torch.tensor([0, 0, 1, 1]), []
        for _ in range(5):
            optimizer.zero_grad()
            loss = criterion(features, labels)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        np.testing.assert_allclose(losses, [0.0870, 0.0720, 0.0579, 0.0448, 0.0315], atol=5e-5)


class Inputs(unittest.TestCase):
    def gradient(self, features, labels):
        loss = ole_loss(features, labels)
        return float(loss), torch.autograd.grad(loss, features)[0]

    def test_layouts(self):
        features, labels = tensors(24, 12, 3)
        value, wanted = self.gradient(features, labels)
        wide = torch.zeros(24, 30)
        wide[:, 5:17] = features.detach()
        transposed = features.detach().t().contiguous().t()
        for other in (wide[:, 5:17], transposed):
            self.assertFalse(other.is_contiguous())
            got, gradient = self.gradient(other.detach().requires_grad_(), labels)
            self.assertEqual(got, value)
            self.assertTrue(torch.equal(gradient, wanted))
        self.assertEqual(float(ole_loss(features.detach()[:1].expand(4, -1), torch.zeros(4).long())), 0.0)
        # Its numbers lie there with the other sign, and a bit says so.
        _, gradient = self.gradient(torch._neg_view(-features.detach()).detach().requires_grad_(), labels)
        self.assertTrue(torch.equal(gradient, wanted))

    def test_one_row_of_any_stride(self):
        numbers, label = torch.randn(40), torch.tensor([3])
        for strides in ((1, 1), (3, 1), (0, 1), (7, 2)):  # the first is that of a transposed column
            row = numbers.as_strided((1, 5), strides).detach().requires_grad_()
            alone = row.detach().clone(memory_format=torch.contiguous_format).requires_grad_()
            value, wanted = self.gradient(alone, label)
            got, gradient = self.gradient(row, label)
            self.assertEqual(got, value)
            self.assertTrue(torch.equal(gradient, wanted))

    def test_rows_are_not_copied(self):
        from ole import _torch_op
        wide = torch.zeros(24, 30)
        self.assertEqual(_torch_op._in_rows(wide[:, 5:17]).data_ptr(), wide[:, 5:17].data_ptr())

    def test_label_types(self):
        features, labels = tensors(24, 12, 3)
        want = float(ole_loss(features, labels))
        for dtype in (torch.int32, torch.int16, torch.uint8):
            self.assertEqual(float(ole_loss(features, labels.to(dtype))), want)
        self.assertEqual(float(ole_loss(features, labels.repeat_interleave(2)[::2])), want)
        if hasattr(torch, "uint64"):
            large = labels.to(torch.uint64)
            self.assertEqual(float(ole_loss(features, large)), want)
            numbers = labels.numpy().astype(np.uint64)
            numbers[7] = 2**63 + 5
            large = torch.from_numpy(numbers)  # torch 2.6 cannot assign such a number itself
            with self.assertRaisesRegex(ole.InputError, "row 7 is 9223372036854775813, which does not fit int64"):
                ole_loss(features, large)

    def test_narrow_types(self):
        for dtype, tolerance in ((torch.bfloat16, 1e-2), (torch.float16, 1e-3)):
            features, labels = tensors(24, 12, 3, dtype=dtype)
            wide = features.detach().float().requires_grad_()
            value, wanted = self.gradient(wide, labels)
            loss = ole_loss(features, labels)
            (gradient,) = torch.autograd.grad(loss, features)
            self.assertEqual((loss.dtype, gradient.dtype), (torch.float32, dtype))
            self.assertEqual(float(loss), value)
            torch.testing.assert_close(gradient.float(), wanted, rtol=tolerance, atol=1e-6)

    def test_narrow_gradients_do_not_vanish(self):
        features, labels = tensors(64, 512, 4, dtype=torch.float16)
        scale = 2.0 ** 16  # of a GradScaler: the unscaled gradient would be lost in float16
        loss = ole_loss(features, labels, 1e-6)
        (gradient,) = torch.autograd.grad(loss * scale, features)
        wide = features.detach().float().requires_grad_()
        (wanted,) = torch.autograd.grad(ole_loss(wide, labels, 1e-6) * scale, wide)
        torch.testing.assert_close(gradient.float(), wanted, rtol=1e-2, atol=1e-6)

    def test_narrow_gradients_are_rounded_once(self):
        third = torch.tensor(1 / 3)  # as of three batches per step: not a number of 16 bits
        for dtype in (torch.bfloat16, torch.float16):
            features, labels = tensors(24, 12, 3, dtype=dtype)
            (gradient,) = torch.autograd.grad(ole_loss(features, labels, 32.0), features, third)
            wide = features.detach().float().requires_grad_()
            (wanted,) = torch.autograd.grad(ole_loss(wide, labels, 32.0), wide, third)
            difference = (gradient.float() - wanted).abs() / wanted.abs()
            self.assertLess(float(difference.max()), 1.01 * torch.finfo(dtype).eps / 2)

    def test_backward_twice(self):
        for dtype in (torch.float32, torch.bfloat16, torch.float16):
            features, labels = tensors(24, 12, 3, dtype=dtype)
            loss = ole_loss(features, labels)
            first, again = (torch.autograd.grad(loss, features, retain_graph=True)[0] for _ in range(2))
            self.assertTrue(torch.equal(first, again))

    def test_many_upstream_gradients_at_once(self):
        for dtype in (torch.float32, torch.bfloat16, torch.float16):
            features, labels = tensors(24, 12, 3, dtype=dtype)
            loss = ole_loss(features, labels)
            factors = torch.tensor([1.0, 3.0])
            each = [torch.autograd.grad(loss, features, factor, retain_graph=True)[0] for factor in factors]
            (both,) = torch.autograd.grad(loss, features, factors, is_grads_batched=True)
            self.assertTrue(torch.equal(both, torch.stack(each)))

    def test_the_loss_may_be_changed_in_place(self):
        features, labels = tensors(24, 12, 3)
        value, wanted = self.gradient(features, labels)
        loss = ole_loss(features, labels)
        loss *= 2
        loss.backward()
        self.assertEqual(float(loss), 2 * value)
        self.assertTrue(torch.equal(features.grad, 2 * wanted))

    def test_autocast(self):
        features, labels = tensors(24, 12, 3)
        layer = torch.nn.Linear(12, 8)
        with torch.autocast("cpu", torch.bfloat16):
            embedded = layer(features)
            loss = ole_loss(embedded, labels)
        self.assertEqual((embedded.dtype, loss.dtype), (torch.bfloat16, torch.float32))
        loss.backward()
        self.assertGreater(float(layer.weight.grad.norm()), 0)

    def test_empty_batches(self):
        for rows, dim, label in ((0, 8, -1), (5, 8, -1), (5, 0, 1), (0, 0, 1)):
            features, labels = torch.randn(rows, dim, requires_grad=True), torch.full((rows,), label)
            loss = ole_loss(features, labels)
            loss.backward()
            self.assertEqual(float(loss), 0.0)
            self.assertEqual(tuple(features.grad.shape), (rows, dim))
            self.assertTrue((features.grad == 0).all())
            with torch.no_grad():
                self.assertEqual(float(ole_loss(features, labels)), 0.0)

    def test_without_gradient(self):
        features, labels = tensors(24, 12, 3)
        want = float(ole_loss(features, labels))
        for loss in (ole_loss(features.detach(), labels),):
            self.assertFalse(loss.requires_grad)
            self.assertEqual(float(loss), want)
        with torch.no_grad():
            self.assertEqual(float(ole_loss(features, labels)), want)

    def broken(self, bad, dtype=torch.float32):
        features, labels = tensors(6, 4, 2, dtype=dtype)
        features = features.detach().clone()
        features[2, 1] = bad
        return features.requires_grad_(), labels

    def test_bad_rows_are_named(self):
        for bad in (float("nan"), float("inf")):
            for dtype in (torch.float32, torch.float64, torch.bfloat16):
                features, labels = self.broken(bad, dtype)
                for given in (features, features.detach()):
                    with self.assertRaisesRegex(ole.InputError, "row 2 holds NaN or Inf"):
                        ole_loss(given, labels)
                with self.assertRaisesRegex(ValueError, "row 2 holds NaN or Inf"):
                    OLELoss()(features, labels)
            labels[2] = -1  # which is not looked at
            self.assertEqual(float(ole_loss(features, labels)), float(ole_loss(features, labels, check=False)))

    def test_unchecked_bad_rows_give_nan(self):
        for bad in (float("nan"), float("inf")):
            features, labels = self.broken(bad)
            loss = OLELoss(check=False)(features, labels)
            loss.backward()
            self.assertTrue(torch.isnan(loss))
            self.assertTrue(torch.isnan(features.grad).any())

    def test_a_scaler_skips_unchecked_bad_rows(self):
        if not hasattr(torch.amp, "GradScaler"):
            self.skipTest("this torch scales no gradients of the CPU")
        layer, labels = torch.nn.Linear(4, 3), torch.arange(6) % 2
        scaler, optimizer = torch.amp.GradScaler("cpu"), torch.optim.SGD(layer.parameters(), lr=0.1)
        before, images = layer.weight.detach().clone(), torch.randn(6, 4)
        for scale in (1e38, 1.0):  # whose products overflow, and do not
            self.assertTrue(torch.equal(layer.weight, before))
            optimizer.zero_grad()
            scaler.scale(ole_loss(scale * 100 * layer(images), labels, check=False)).backward()
            scaler.step(optimizer)
            scaler.update()
        self.assertFalse(torch.equal(layer.weight, before))

    def test_values_too_large_for_float32_are_inf(self):
        features, labels = torch.full((4, 3), 1e38), torch.tensor([0, 0, 1, 1])
        for wanted in (False, True):
            for weight, value in ((1e10, float("inf")), (-1e10, -float("inf"))):
                loss = ole_loss(features.clone().requires_grad_(wanted), labels, weight, reduction="sum")
                self.assertEqual(float(loss), value)

    def test_second_derivatives_are_refused(self):
        features, labels = tensors(6, 4, 2)
        layer = torch.nn.Linear(4, 3).to(features.dtype)
        loss = ole_loss(layer(features), labels)
        (gradient,) = torch.autograd.grad(loss, layer.weight, create_graph=True)
        with self.assertRaisesRegex(RuntimeError, "OLE can be differentiated once"):
            (loss + gradient.pow(2).sum()).backward()
        loss = ole_loss(layer(features), labels) * features.sum()  # whose upstream wants a gradient too
        (gradient,) = torch.autograd.grad(loss, layer.weight, create_graph=True)
        with self.assertRaisesRegex(RuntimeError, "OLE can be differentiated once"):
            gradient.sum().backward()

    def test_second_derivatives_are_refused_whoever_asks(self):
        features, labels = tensors(6, 4, 2)
        with self.assertRaisesRegex(RuntimeError, "OLE can be differentiated once"):
            torch.autograd.functional.hessian(lambda x: ole_loss(x, labels) + x.pow(2).sum(), features.detach())
        (gradient,) = torch.autograd.grad(ole_loss(features, labels) + features.pow(3).sum(), features,
                                          create_graph=True)
        with self.assertRaisesRegex(RuntimeError, "OLE can be differentiated once"):
            torch.autograd.grad(gradient.pow(2).sum(), features)

    def test_derivatives_by_what_comes_from_above(self):
        features, labels = tensors(24, 10, 4)
        (gradient,) = torch.autograd.grad(ole_loss(features, labels), features)
        x = features.detach()
        _, along = torch.autograd.functional.jvp(lambda z: ole_loss(z, labels, 10.0) + z.sum(), x, x)
        self.assertAlmostEqual(float(along), float((10 * gradient * x).sum() + x.sum()), places=5)
        scale = torch.tensor(2.0, dtype=x.dtype, requires_grad=True)
        (scaled,) = torch.autograd.grad(scale * ole_loss(features, labels), features, create_graph=True)
        (by_scale,) = torch.autograd.grad((scaled * x).sum(), scale)
        self.assertAlmostEqual(float(by_scale), float((gradient * x).sum()), places=5)

    def test_recording_the_gradient_is_no_error(self):
        features, labels = tensors(6, 4, 2)
        (wanted,) = torch.autograd.grad(ole_loss(features, labels), features)
        (gradient,) = torch.autograd.grad(ole_loss(features, labels), features, create_graph=True)
        self.assertTrue(torch.equal(gradient, wanted))

    def test_forward_mode_is_refused(self):
        features, labels = tensors(6, 4, 2)
        with torch.autograd.forward_ad.dual_level():
            dual = torch.autograd.forward_ad.make_dual(features.detach(), features.detach())
            with self.assertRaisesRegex(RuntimeError, "forward-mode"):
                ole_loss(dual, labels)

    def test_jit_trace_sees_the_loss_or_is_refused(self):
        features, labels = tensors(6, 4, 2)
        features = features.detach()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if not hasattr(torch.library, "custom_op"):
                with self.assertRaisesRegex(RuntimeError, "torch 2.4"):
                    torch.jit.trace(ole_loss, (features, labels))
                return
            traced = torch.jit.trace(ole_loss, (features, labels))
        self.assertEqual(traced(2 * features, labels).item(), ole_loss(2 * features, labels).item())

    @unittest.skipUnless(hasattr(torch.library, "custom_op"), "torch.func is served from torch 2.4 on")
    def test_func(self):
        features, labels = tensors(6, 4, 2)
        (wanted,) = torch.autograd.grad(ole_loss(features, labels, 0.5), features)
        plain = features.detach()

        def loss(x):
            return ole_loss(x, labels, 0.5)

        torch.testing.assert_close(torch.func.grad(loss)(plain), wanted)
        with self.assertRaisesRegex(RuntimeError, "OLE can be differentiated once"):
            torch.func.grad(lambda x: torch.func.grad(loss)(x).pow(2).sum())(plain)

    @unittest.skipUnless(hasattr(torch.library, "custom_op"), "torch.func is served from torch 2.4 on")
    def test_vmap(self):
        features, labels = tensors(6, 4, 2)
        plain = features.detach()

        def loss(x):
            return ole_loss(x, labels, 0.5)

        both = torch.stack([plain, 2 * plain])
        values = torch.stack([loss(plain), loss(2 * plain)])
        gradients = torch.stack([torch.func.grad(loss)(plain), torch.func.grad(loss)(2 * plain)])
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # torch warns where an operator has no rule for batches
            torch.testing.assert_close(torch.func.vmap(loss)(both), values)
            torch.testing.assert_close(torch.func.vmap(loss, in_dims=1)(both.movedim(0, 1)), values)
            torch.testing.assert_close(torch.func.vmap(torch.func.grad(loss))(both), gradients)
            torch.testing.assert_close(torch.func.grad(lambda x: torch.func.vmap(loss)(x).sum())(both), gradients)
            four = torch.stack([both, both.flip(0)])
            torch.testing.assert_close(torch.func.vmap(torch.func.vmap(loss))(four), torch.stack([values, values.flip(0)]))
            sides = torch.stack([labels, labels.flip(0) - 1])  # labels differ, features do not
            torch.testing.assert_close(torch.func.vmap(lambda y: ole_loss(features, y))(sides),
                                       torch.stack([ole_loss(plain, y) for y in sides]))
            both[1, 3, 0] = float("nan")
            with self.assertRaisesRegex(ole.InputError, "row 3 holds NaN or Inf"):
                torch.func.vmap(torch.func.grad(loss))(both)
            for rows, dim in ((0, 4), (6, 0)):
                none = torch.func.vmap(torch.func.grad(lambda x: ole_loss(x, labels[:rows])))(both[:, :rows, :dim])
                self.assertEqual(tuple(none.shape), (2, rows, dim))

    def test_errors_say_what_to_do(self):
        features, labels = tensors(6, 4, 2)
        for arguments, words in (
            ((features[0], labels), "[N, D]"),
            ((features.long(), labels), "floats"),
            ((features, labels[:5]), "(6,)"),
            ((features, labels * 0.5), "integers"),
            ((features.detach().numpy(), labels), "use tensors"),
            ((features, [0] * 6), "use tensors"),
            ((features.detach().to_sparse(), labels), "sparse"),
            ((features.to("meta"), labels.to("meta")), "cpu and cuda"),
            ((features, labels.to("meta")), "same device"),
            ((features, labels, float("nan")), "finite"),
            ((features, labels, torch.ones((), requires_grad=True)), "multiply the loss"),
        ):
            with self.subTest(words=words), self.assertRaises(ValueError) as raised:
                ole_loss(*arguments)
            self.assertIn(words, str(raised.exception))
        with self.assertRaises(ValueError):
            OLELoss(reduction="none")
        with self.assertRaisesRegex(ValueError, "delta_floor"):
            ole_loss(features, labels, delta_floor=-1)
        for threads in (-3, 0, 1.5, 1025):
            for run in (OLELoss, lambda threads: ole_loss(features[:0], labels[:0], threads=threads)):
                with self.assertRaisesRegex(ValueError, f"^threads is {threads}; use 1 to 1024"):
                    run(threads=threads)
        for wrong in ({"delta_floor": -1}, {"delta_abs": float("nan")}, {"delta_rel": -1.0}, {"group": "wrld"}):
            with self.subTest(**wrong), self.assertRaisesRegex(ValueError, f"{next(iter(wrong))} is"):
                OLELoss(**wrong)
        with self.assertRaisesRegex(ValueError, "indices_tuple"):
            OLELoss()(features, labels, (labels, labels))
        with self.assertRaisesRegex(RuntimeError, "init_process_group"):
            OLELoss(group="world")(features, labels)


class Module(unittest.TestCase):
    def test_weight_may_change(self):
        features, labels = tensors(24, 12, 3)
        criterion = OLELoss(weight=0.25)
        quarter, idle = float(criterion(features, labels)), len(plans)
        criterion.weight = 0.5
        self.assertAlmostEqual(float(criterion(features, labels)), 2 * quarter, places=6)
        self.assertEqual(len(plans), idle)

    def test_it_is_a_module(self):
        criterion = copy.deepcopy(OLELoss(weight=0.25, delta_floor=2.0))
        self.assertEqual(repr(criterion), "OLELoss(weight=0.25, delta_floor=2.0)")
        self.assertEqual(repr(OLELoss(check=False)), "OLELoss(weight=1, check=False)")
        self.assertEqual(criterion.state_dict(), {})

    def test_threads_of_python(self):
        sets = [tensors(48, 64, 6, seed) for seed in range(4)]
        want = [torch.autograd.grad(ole_loss(*one), one[0])[0] for one in sets]
        wrong = []

        def close(one, other):  # NumPy's SVD in several threads at a time does not always give the same bits
            return torch.linalg.vector_norm(one - other) <= 1e-5 / len(one) ** 0.5  # the promise, over N rows

        same = close if is_pure() else torch.equal

        def work(i):
            for _ in range(30):
                if not same(torch.autograd.grad(ole_loss(*sets[i]), sets[i][0])[0], want[i]):
                    wrong.append(i)

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(work, range(4)))
        self.assertEqual(wrong, [])

    def test_metric_learning(self):
        try:
            from pytorch_metric_learning.losses import ContrastiveLoss, MultipleLosses
        except ImportError:
            self.skipTest("pytorch-metric-learning is not installed")
        features, labels = tensors(24, 12, 3)
        both = MultipleLosses([ContrastiveLoss(), OLELoss()], weights=[1.0, 0.25])
        both(features, labels).backward()
        alone = features.detach().clone().requires_grad_()
        (ContrastiveLoss()(alone, labels) + 0.25 * ole_loss(alone, labels)).backward()
        torch.testing.assert_close(features.grad, alone.grad)


if __name__ == "__main__":
    main()
