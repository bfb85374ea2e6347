#!/usr/bin/env python3
"""test_jax.py - the loss in JAX against ole.score(), on the CPU.

Four devices are simulated for shard_map.  Exits with 77 without JAX 0.5 or later.  On a machine with a
GPU, a JAX for it and a CUDA build of the library, OLE_JAX_PLATFORM=cuda runs the same there.
"""
import functools
import importlib.util
import os
import re
import subprocess
import sys
import tempfile
import unittest
from concurrent.futures import ThreadPoolExecutor

PLATFORM = os.environ.get("OLE_JAX_PLATFORM", "cpu")
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=4"
os.environ["JAX_PLATFORMS"] = PLATFORM

try:
    import jax
    import jax.numpy as jnp
    import jaxlib
    import numpy as np
    from jax.sharding import Mesh, NamedSharding, PartitionSpec
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)
if not hasattr(jax, "ffi"):
    print(f"skipped: JAX {jax.__version__} is too old")
    sys.exit(77)

import support
from support import ROOT

import ole
from ole.jax import ole_loss


def batch(rows=24, dim=8, classes=3, dtype=np.float32, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(rows, dim)).astype(dtype), rng.integers(0, classes, rows).astype(np.int32)


def value_and_grad(x, y, *args, jit=True, **options):
    run = jax.value_and_grad(lambda x: ole_loss(x, y, *args, **options))
    return (jax.jit(run) if jit else run)(x)


class Values(unittest.TestCase):
    def compare(self, x, y, tolerance=0.0, **options):
        weight = options.pop("weight", 1.0)
        expected = ole.score(np.asarray(x), y, gradient=True, weight=weight, **options)
        for jit in (True, False):
            value, gradient = value_and_grad(x, y, weight, jit=jit, **options)
            np.testing.assert_allclose(value, expected.value, rtol=3e-7 + tolerance)
            np.testing.assert_allclose(gradient, expected.gradient, rtol=2e-7, atol=2e-8 + tolerance)
            np.testing.assert_allclose(ole_loss(x, y, weight, **options), value, rtol=1e-7)
        self.assertEqual(gradient.dtype, x.dtype)

    def test_float32(self):
        for rows, dim in ((24, 8), (7, 40), (1, 1), (130, 64)):
            self.compare(*batch(rows, dim), tolerance=1e-6 * (PLATFORM != "cpu"))

    def test_options(self):
        x, y = batch()
        tolerance = 1e-6 * (PLATFORM != "cpu")
        self.compare(x, y, weight=0.25, reduction="sum", tolerance=40 * tolerance)
        self.compare(x, y, delta_floor=4.0, tolerance=tolerance)
        self.compare(x, y, delta_rel=0.3, delta_abs=0.1, tolerance=tolerance)
        self.compare(x, y, weight=-2.0, threads=3, tolerance=tolerance)

    def test_labels(self):
        x, y = batch()
        expected = ole_loss(x, y)
        for dtype in (np.int8, np.uint8, np.int16, np.uint32, np.int64):
            self.assertEqual(ole_loss(x, y.astype(dtype)), expected)

    def test_labels_that_are_cut_off(self):
        """JAX has 32 bits by default: what they do not hold is an error, as far as it can be seen."""
        x, y = batch()
        for dtype, label in ((np.uint32, 2**31), (np.uint64, 2**63 + 1), (np.int64, 2**32)):
            large = y.astype(dtype)
            large[5] = label
            with self.assertRaisesRegex(ole.InputError, f"row 5 is {label}, which does not fit int32"):
                ole_loss(x, large)
        large = y.astype(np.uint32)
        large[5] = 2**31
        self.assertTrue(np.isnan(jax.jit(functools.partial(ole_loss, check=False))(x, large)))
        value, gradient = jax.jit(jax.value_and_grad(functools.partial(ole_loss, check=False)))(x, large)
        self.assertTrue(np.isnan(value) and np.isnan(gradient).all())
        if PLATFORM == "cpu":
            with self.assertRaisesRegex(RuntimeError, "row 5 is 2147483648, which does not fit int32"):
                jax.block_until_ready(jax.jit(ole_loss)(x, large))
        self.assertEqual(jax.jit(ole_loss)(x, y.astype(np.uint32)), ole_loss(x, y))

    def test_type_of_the_weight(self):
        """The loss has the features' type, whatever that of the weight."""
        x, y = batch()
        with jax.experimental.enable_x64() if hasattr(jax.experimental, "enable_x64") else jax.enable_x64(True):
            for weight in (0.25, np.float64(0.25), jnp.float64(0.25), np.int64(1)):
                self.assertEqual(ole_loss(x, y, weight).dtype, np.float32)

    def test_float64(self):
        with jax.experimental.enable_x64() if hasattr(jax.experimental, "enable_x64") else jax.enable_x64(True):
            x, y = batch(dtype=np.float64)
            value, gradient = value_and_grad(x, y.astype(np.int64), 0.5)
            expected = ole.score(x, y, gradient=True, weight=0.5)
            self.assertEqual(value.dtype, np.float64)
            np.testing.assert_allclose(value, expected.value, rtol=1e-12)
            np.testing.assert_allclose(gradient, expected.gradient, atol=1e-10)

            step = 1e-6 * np.random.default_rng(1).normal(size=x.shape)
            difference = float(ole_loss(x + step, y, 0.5)) - float(ole_loss(x - step, y, 0.5))
            np.testing.assert_allclose(2 * np.vdot(gradient, step), difference, rtol=1e-5)

    def test_narrow(self):
        """bfloat16 and float16: evaluated in float32, the gradient of the features' type."""
        for dtype in (jnp.bfloat16, jnp.float16):
            x, y = batch()
            x = jnp.asarray(x, dtype)
            value, gradient = value_and_grad(x, y)
            wide, exact = value_and_grad(x.astype(jnp.float32), y)
            self.assertEqual((value.dtype, gradient.dtype), (jnp.float32, dtype))
            self.assertEqual(value, wide)
            np.testing.assert_array_equal(gradient, exact.astype(dtype))

    def test_sizes_of_the_value(self):
        """Float64 of the library to float32 of JAX, from the smallest to the largest."""
        x, y = batch(4, 3, 2)
        for weight in (1e-30, 1e-20, 1e-3, 1.0, 1e3, 1e18, 1e30):
            scaled = (weight * np.float64(x)).astype(np.float32)
            expected = ole.score(scaled, y, delta_floor=0.0, delta_abs=0.0).value
            np.testing.assert_allclose(ole_loss(scaled, y, delta_floor=0.0, delta_abs=0.0), expected, rtol=1e-6)


class Edges(unittest.TestCase):
    def test_empty_batch(self):
        for rows, dim in ((0, 8), (5, 0), (0, 0)):
            x, y = np.zeros((rows, dim), np.float32), np.zeros(rows, np.int32)
            for jit in (True, False):
                value, gradient = value_and_grad(x, y, 0.25, jit=jit)
                self.assertEqual((float(value), gradient.shape), (0.0, (rows, dim)))
            values = jax.jit(jax.vmap(lambda x: ole_loss(x, y)))(np.stack([x, x]))
            np.testing.assert_array_equal(values, [0.0, 0.0])

    def test_ignored_rows(self):
        x, y = batch()
        for labels in (np.full_like(y, -1), np.where(np.arange(24) % 2, y, -1)):
            value, gradient = value_and_grad(x, labels)
            kept = labels >= 0
            self.assertFalse(np.asarray(gradient)[~kept].any())
            if kept.any():
                np.testing.assert_allclose(value, ole.score(x[kept], y[kept]).value, rtol=1e-6)
            else:
                self.assertEqual(float(value), 0.0)

    def test_bad_rows(self):
        for bad in (np.nan, np.inf):
            x, y = batch()
            x[3, 2] = bad
            value, gradient = value_and_grad(x, y, check=PLATFORM != "cpu")  # which there changes nothing
            self.assertTrue(np.isnan(value) and np.isnan(gradient).all())

    @unittest.skipUnless(PLATFORM == "cpu", "a GPU is not waited for")
    def test_bad_rows_are_named(self):
        for bad in (np.nan, np.inf):
            (x, y), (good, _) = batch(), batch()
            x[3, 2] = bad
            whole = NamedSharding(Mesh(np.array(jax.devices()), ("data",)), PartitionSpec("data"))
            for run in (lambda: ole_loss(x, y), lambda: value_and_grad(x, y, jit=False), lambda: value_and_grad(x, y),
                        lambda: value_and_grad(jax.device_put(x, whole), jax.device_put(y, whole)),
                        lambda: jax.jit(jax.vmap(ole_loss, in_axes=(0, None)))(np.stack([good, x]), y)):
                with self.assertRaisesRegex(RuntimeError, "row 3 holds NaN or Inf"):
                    jax.block_until_ready(run())
            y[3] = -1  # ignored, so its NaN does not matter
            self.assertTrue(np.isfinite(ole_loss(x, y)))

    def test_mistakes(self):
        x, y = batch()
        for wrong, message in (((x[0], y), r"features are float32 of shape \(8,\)"),
                               ((x, y[:5]), r"labels have shape \(5,\); 24 rows"),
                               ((x, x[:, 0]), "labels are float32"), ((y[:, None], y), "features are int32")):
            with self.assertRaisesRegex(ole.InputError, message):
                ole_loss(*wrong)
        with self.assertRaisesRegex(ole.InputError, 'use "mean" or "sum"'):
            ole_loss(x, y, reduction="none")
        for threads in (0, 1.5):
            with self.assertRaisesRegex(ole.InputError, "use 1 to 1024"):
                ole_loss(x, y, threads=threads)
        for wrong in ({"delta_floor": -1.0}, {"delta_abs": float("nan")}, {"delta_rel": -1.0}, {"weight": np.inf}):
            with self.subTest(**wrong), self.assertRaisesRegex(ole.InputError, f"{next(iter(wrong))} is"):
                ole_loss(x, y, **wrong)
        with self.assertRaisesRegex(ole.InputError, "use one number"):
            ole_loss(x, y, np.ones(2))
        self.assertEqual(float(ole_loss(x, y == 0)), float(ole_loss(x, (y == 0).astype(int))))

    def test_once_differentiable(self):
        x, y = batch()
        with self.assertRaisesRegex(Exception, "ifferentiat|JVP|jvp"):
            jax.hessian(lambda x: ole_loss(x, y))(x)


class Transformations(unittest.TestCase):
    def test_upstream_and_weight(self):
        x, y = batch()
        plain, direction = value_and_grad(x, y)
        run = jax.jit(jax.grad(lambda x, w: 3.0 * ole_loss(x, y, w) + 2.0 * x.sum(), argnums=(0, 1)))
        gradient, slope = run(x, 0.25)
        np.testing.assert_allclose(gradient, 0.75 * direction + 2.0, rtol=1e-6)
        np.testing.assert_allclose(slope, 3.0 * plain, rtol=1e-6)

    def test_vmap(self):
        x, y = batch()
        stack = jnp.stack([x, 2 * x, x[::-1]])
        run = jax.vmap(jax.value_and_grad(ole_loss), in_axes=(0, None))
        values, gradients = jax.jit(run)(stack, y)
        for i in range(3):
            value, gradient = value_and_grad(stack[i], y)
            np.testing.assert_allclose(values[i], value, rtol=1e-6)
            np.testing.assert_allclose(gradients[i], gradient, atol=1e-7)

    def test_threads(self):
        """Many callers at once: the numbers of one alone."""
        batches = [batch(40 + 8 * (i % 3), 16, 4, seed=i) for i in range(24)]
        alone = [value_and_grad(x, y) for x, y in batches]
        with ThreadPoolExecutor(8) as pool:
            together = list(pool.map(lambda b: value_and_grad(*b), batches))
        for (v, g), (value, gradient) in zip(together, alone):
            self.assertEqual(v, value)
            np.testing.assert_array_equal(g, gradient)

    def mesh(self):
        devices = jax.devices()
        if len(devices) < 2:
            self.skipTest("one device")
        return Mesh(np.array(devices), ("data",))

    def test_shard_map(self):
        """As the documentation has it: each device's gradient is that of the global loss."""
        mesh, (x, y) = self.mesh(), batch(24, 8)
        split, whole = PartitionSpec("data"), PartitionSpec()

        def local(features, labels):
            features = jax.lax.all_gather(features, "data", tiled=True)
            labels = jax.lax.all_gather(labels, "data", tiled=True)
            return jax.lax.pmean(ole_loss(features, labels, 0.25), "data")

        if hasattr(jax, "shard_map"):
            run = jax.shard_map(local, mesh=mesh, in_specs=(split, split), out_specs=whole)
        else:
            from jax.experimental.shard_map import shard_map
            run = shard_map(local, mesh, (split, split), whole, check_rep=False)
        value, gradient = jax.jit(jax.value_and_grad(run))(x, y)
        expected = ole.score(x, y, gradient=True, weight=0.25)
        np.testing.assert_allclose(value, expected.value, rtol=1e-6)
        np.testing.assert_allclose(gradient, expected.gradient, atol=1e-7)

    def test_sharded_arrays(self):
        """Under jit alone, sharded arrays give the loss of the whole batch."""
        x, y = batch(24, 8)
        split = NamedSharding(self.mesh(), PartitionSpec("data"))
        value, gradient = value_and_grad(jax.device_put(x, split), jax.device_put(y, split))
        expected = ole.score(x, y, gradient=True)
        np.testing.assert_allclose(value, expected.value, rtol=1e-6)
        np.testing.assert_allclose(gradient, expected.gradient, atol=1e-7)


class Surroundings(unittest.TestCase):
    @unittest.skipIf(support.INSTALLED, "compares the sources, not the installed package")
    def test_layout(self):
        """Our declarations of XLA's interface are those of this jaxlib."""
        compiled = subprocess.run([
            os.environ.get("CC", "cc"), "-std=c17", "-fsyntax-only", "-I", jax.ffi.include_dir(),
            "-I", ROOT / "bindings/python/native", ROOT / "tests/python/xla_layout.c"], text=True, capture_output=True)
        self.assertEqual(compiled.returncode, 0, f"with jaxlib {jaxlib.__version__}:\n{compiled.stderr}")

    def run_example(self, name):
        with tempfile.TemporaryDirectory() as work:
            return support.run_script(ROOT / "examples" / name, cwd=work, without=("XLA_FLAGS",)).splitlines()

    def test_digits(self):
        """examples/jax_digits.py: as accurate, and at right angles."""
        if importlib.util.find_spec("sklearn") is None:
            self.skipTest("this Python has no scikit-learn")
        softmax, with_ole = self.run_example("jax_digits.py")
        accuracy, angle = map(float, re.search(r"accuracy (.*) %, classes (.*) degrees", with_ole).groups())
        self.assertTrue(softmax.startswith("softmax  ") and accuracy > 96 and 80 <= angle <= 92, with_ole)

    @unittest.skipUnless(hasattr(jax, "shard_map") and PLATFORM == "cpu", "for CPUs, and JAX 0.6 and later")
    def test_shard_map(self):
        """examples/jax_shard_map.py: four devices compute what one does."""
        four, one = self.run_example("jax_shard_map.py")
        self.assertEqual(four.split(",")[0], "4 devices: " + one.split(": ")[1])
        self.assertLess(float(four.split()[-1]), 1e-7)


if __name__ == "__main__":
    support.main()
