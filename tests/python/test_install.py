"""pip installs the package into an empty folder, and what is there works alone: no OLE_LIBRARY, no build.

Needs scikit-build-core, found or fetched by pip; skipped where neither works.
"""
import importlib.util
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from support import PACKAGE, main

PROGRAM = """
import importlib.util, numpy, ole
x, y = numpy.random.default_rng(0).random((40, 8), numpy.float32), numpy.arange(40) % 4
value = ole.score(x, y).value
if importlib.util.find_spec("torch"):
    import torch
    from ole.torch import ole_loss
    assert float(ole_loss(torch.from_numpy(x), torch.from_numpy(y))) == numpy.float32(value)
if importlib.util.find_spec("jax") and importlib.util.find_spec("jax.ffi"):
    from ole.jax import ole_loss
    assert abs(ole_loss(x, y) - value) < 1e-6
print(value, ole.__file__, sorted(open("/proc/self/maps").read().split()))
"""
FILES = {"ole/py.typed", "ole/torch.py", "ole/jax.py", "ole/lib/libole.so", "ole/lib/libole_jax.so"}


def pip(*arguments, **options):
    return subprocess.run([sys.executable, "-m", "pip", "--disable-pip-version-check", *arguments],
                          text=True, capture_output=True, **options)


class Configure(unittest.TestCase):
    def test_gpu_module(self):
        """It is configured where there is a GPU, or on request, and what is built is printed."""
        driver = any(map(os.path.exists, ("/dev/nvidiactl", "/proc/driver/nvidia/version", "/dev/dxg")))
        for argument, built in ((None, driver), ("-DOLE_CUDA=OFF", False), ("-DOLE_CUDA=ON", True)):
            with tempfile.TemporaryDirectory(prefix="ole-configure-") as folder:
                done = subprocess.run(["cmake", "-S", PACKAGE, "-B", folder, *([argument] if argument else [])],
                                      text=True, capture_output=True)
            said = "the library and, where nvcc is, its GPU module" if built else "the library without the GPU module"
            self.assertIn(f"Olé for Python: {said}", done.stdout)
            if not built and done.returncode == 0:
                self.assertIn("off (OLE_CUDA)", done.stdout)


class Install(unittest.TestCase):
    def setUp(self):
        if importlib.util.find_spec("pip") is None:
            self.skipTest("this Python has no pip")
        folder = tempfile.TemporaryDirectory(prefix="ole-install-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.environment = {name: value for name, value in os.environ.items()
                            if name not in ("OLE_LIBRARY", "PYTHONPATH", "LD_LIBRARY_PATH")}
        tools = self.folder / "tools"
        got = pip("install", "--quiet", "--target", tools, "--timeout", "20", "--retries", "1",
                  "scikit-build-core>=0.10")
        if got.returncode != 0:
            self.skipTest("scikit-build-core cannot be installed here")
        self.environment["PYTHONPATH"] = str(tools)
        self.environment["CMAKE_ARGS"] = "-DOLE_CUDA=OFF"

    def wheel(self):
        made = pip("wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", self.folder / "wheel", PACKAGE,
                   env=self.environment)
        if made.returncode != 0:
            if "libopenblas.a" in made.stdout + made.stderr or "SerialOpenBLAS" in made.stdout + made.stderr:
                self.skipTest("there is no static OpenBLAS here")
            self.fail(f"pip wheel:\n{made.stdout}\n{made.stderr}")
        (path,) = (self.folder / "wheel").glob("ole-*.whl")
        return path

    def test_wheel(self):
        wheel = self.wheel()
        target = self.folder / "target"
        got = pip("install", "--no-deps", "--target", target, wheel, env=self.environment)
        self.assertEqual(got.returncode, 0, got.stderr)
        names = {str(path.relative_to(target)) for path in target.rglob("*") if path.is_file()}
        self.assertLessEqual(FILES, names)
        self.assertTrue([name for name in names if name.endswith(".dist-info/licenses/LICENSE")])
        self.assertFalse([name for name in names if not name.startswith(("ole/", "ole-"))])
        run = subprocess.run([sys.executable, "-c", PROGRAM], cwd=self.folder, text=True, capture_output=True,
                             env=dict(self.environment, PYTHONPATH=str(target), JAX_PLATFORMS="cpu"))
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn(str(target / "ole" / "lib" / "libole.so"), run.stdout)
        needed = subprocess.run(["readelf", "-d", *(target / "ole" / "lib").glob("*.so")], text=True,
                                capture_output=True, check=True).stdout
        libraries = {line.split("[")[1].split("]")[0] for line in needed.splitlines() if "NEEDED" in line}
        self.assertLessEqual(libraries, {"libole.so", "libc.so.6", "libm.so.6", "ld-linux-x86-64.so.2"})
        self.check_audit(wheel)

    def test_pure_wheel(self):
        """Without CMake the wheel fits every system, warns, and gives the same numbers."""
        made = pip("wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", self.folder / "wheel", PACKAGE,
                   "--config-settings=wheel.cmake=false", env=self.environment)
        self.assertEqual(made.returncode, 0, made.stderr)
        (wheel,) = (self.folder / "wheel").glob("ole-*-py3-none-any.whl")
        target = self.folder / "target"
        got = pip("install", "--no-deps", "--target", target, wheel, env=self.environment)
        self.assertEqual(got.returncode, 0, got.stderr)
        program = "import numpy, ole; print(ole.__version__, ole.score(numpy.eye(4), [0, 0, 1, 1]).value)"
        run = subprocess.run([sys.executable, "-c", program], cwd=self.folder, text=True, capture_output=True,
                             env=dict(self.environment, PYTHONPATH=str(target)))
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn("the loss runs in NumPy, many times slower", run.stderr)
        version, value = run.stdout.split()
        self.assertRegex(version, r"^\d+\.\d+\.\d+$")
        self.assertAlmostEqual(float(value), 0.0)

    def check_audit(self, wheel):
        if importlib.util.find_spec("auditwheel") is None:
            print("auditwheel is not installed: what the library needs was looked at with readelf alone")
            return
        shown = subprocess.run([sys.executable, "-m", "auditwheel", "show", wheel], text=True,
                               capture_output=True, check=True).stdout
        self.assertIn('"manylinux_', " ".join(shown.split()).split("consistent with")[1])


if __name__ == "__main__":
    main()
