"""pip installs the package into an empty folder, and what is there works alone: no OLE_LIBRARY, no build.

Needs scikit-build-core, found or fetched by pip; skipped where neither works.
"""
import importlib.util
import json
import os
import pty
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from support import PACKAGE, ROOT, main

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
FILES = {"ole/py.typed", "ole/torch.py", "ole/jax.py", "ole/lib/libole.so", "ole/lib/libole_jax.so", "ole/bin/ole", "bin/ole",
         "share/man/man1/ole.1"}
OURS = ("ole/", "ole-", "bin/ole", "share/man/man1/ole")
SYSTEM = {"libole.so", "libc.so.6", "libm.so.6", "libz.so.1", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}


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
            self.assertRegex(done.stdout, r"Olé for Python: with(out)? training \(")
            if not built and done.returncode == 0:
                self.assertIn("off (OLE_CUDA)", done.stdout)


BUILD = """
import sys, ole_build
ole_build._DRIVERS = (sys.argv[1],)
ole_build.build_wheel(sys.argv[2])
"""
# What the backend calls, as one that compiles one of three files. It ends once the file SHOWN exists, if there is one to
# wait for, or after a minute.
COMPILER = """
import json, os, pathlib, time
def build_wheel(target, settings, metadata):
    (pathlib.Path(target) / "settings.json").write_text(json.dumps(settings))
    folder = pathlib.Path(settings["build-dir"])
    (folder / "compile_commands.json").write_text("[1, 2, 3]")
    (folder / "first.c.o").touch()
    end = time.monotonic() + 60
    while "SHOWN" in os.environ and not os.path.exists(os.environ["SHOWN"]) and time.monotonic() < end:
        time.sleep(0.05)
"""


class Backend(unittest.TestCase):
    """bindings/python/backend under a pip that captures what a build prints, as it does without -v."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="ole-backend-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        (self.folder / "scikit_build_core").mkdir()
        (self.folder / "scikit_build_core" / "build.py").write_text(COMPILER)
        (self.folder / "scikit_build_core" / "__init__.py").touch()

    def build(self, driver="/dev/null", answer=None, until=None, **variables):
        """What appears on the terminal, and OLE_CUDA as CMake gets it. The build lasts until `until` is shown."""
        path = f"{self.folder}{os.pathsep}{ROOT / 'bindings' / 'python' / 'backend'}"
        environment = {name: value for name, value in os.environ.items() if name != "CMAKE_ARGS"}
        environment.update({"PYTHONPATH": path, "CUDACXX": "nvcc", "PYTHONDONTWRITEBYTECODE": "1"}, **variables)
        if until:
            environment["SHOWN"] = str(self.folder / "shown")
        child, line = pty.fork()
        if child == 0:
            try:
                os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
                os.execve(sys.executable, [sys.executable, "-c", BUILD, driver, str(self.folder)], environment)
            finally:
                os._exit(1)
        shown = ""
        while True:
            try:
                shown += os.read(line, 1000).decode()
            except OSError:  # the terminal's last user has ended
                break
            if answer is not None and shown.endswith("[Y/n] "):
                os.write(line, f"{answer}\n".encode())
            if until and until in shown:
                (self.folder / "shown").touch()
        os.close(line)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 0, shown)
        return shown, json.loads((self.folder / "settings.json").read_text()).get("cmake.define.OLE_CUDA")

    def test_question(self):
        for answer, built in (("n", "OFF"), ("No", "OFF"), ("", "ON"), ("y", "ON")):
            shown, cuda = self.build(answer=answer)
            self.assertIn("compile the GPU module too? It takes several minutes [Y/n]", shown)
            self.assertEqual(cuda, built, answer)

    def test_nothing_to_ask(self):
        """Without a GPU, or where the command says it."""
        for variables in ({"driver": "/nowhere"}, {"CMAKE_ARGS": "-DOLE_CUDA=ON"}, {"CMAKE_ARGS": "-DOLE_CUDA=OFF"}):
            shown, cuda = self.build(**variables)
            self.assertNotIn("GPU", shown)
            self.assertIsNone(cuda)

    def test_progress(self):
        compiled = "ole: compiled 1 of 3 files"
        self.assertIn(compiled, self.build(driver="/nowhere", until=compiled)[0])


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
        self.assertFalse([name for name in names if not name.startswith(OURS)])
        run = subprocess.run([sys.executable, "-c", PROGRAM], cwd=self.folder, text=True, capture_output=True,
                             env=dict(self.environment, PYTHONPATH=str(target), JAX_PLATFORMS="cpu"))
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn(str(target / "ole" / "lib" / "libole.so"), run.stdout)
        library = target / "ole" / "lib"
        needed = subprocess.run(["readelf", "-d", library / "libole.so", library / "libole_jax.so"], text=True,
                                capture_output=True, check=True).stdout
        libraries = {line.split("[")[1].split("]")[0] for line in needed.splitlines() if "NEEDED" in line}
        self.assertLessEqual(libraries, SYSTEM)
        self.check_program(target)
        self.check_audit(wheel)

    def check_program(self, target):
        """The command that pip installs; it trains if the build found what training needs."""
        def ole(*arguments):
            return subprocess.run([target / "bin" / "ole", *arguments], cwd=self.folder, text=True, capture_output=True,
                                  env=dict(self.environment, PYTHONPATH=str(target)))

        info = dict(line.split(None, 1) for line in ole("info").stdout.splitlines() if " " in line)
        trains = info["training"] == "built"
        self.assertEqual((target / "ole" / "lib" / "liboletrain.so").exists(), trains)
        self.assertEqual(ole("score").returncode, 2)
        if trains:
            done = ole("train", "digits", "--epochs", "1", "--samples-per-class", "5", "--threads", "1", "--out", "run")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertTrue((self.folder / "run" / "best.safetensors").exists(), os.listdir(self.folder / "run"))

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
        self.assertIn("no program for your system", subprocess.run(
            [target / "bin" / "ole", "info"], text=True, capture_output=True,
            env=dict(self.environment, PYTHONPATH=str(target))).stderr)
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
