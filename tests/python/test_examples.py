"""The examples in PyTorch run as printed: those of examples/ and the blocks of docs/training-loop.md."""
import importlib.util
import os
import re
import sys
import tempfile
import unittest
from pathlib import Path

from support import ROOT, import_torch, main, run_script

if import_torch() is None:
    sys.exit(77)

FASHION = Path(os.environ.get("FASHION_MNIST", "/usr/share/datasets/fashion-mnist"))


def run(*command):
    return run_script(*command, OMP_WAIT_POLICY="passive")


def first_numbers(line):
    return [float(number) for number in re.findall(r"(-?[\d.]+) ±", line)]


class Examples(unittest.TestCase):
    def test_digits(self):
        if importlib.util.find_spec("sklearn") is None:
            self.skipTest("this Python has no scikit-learn (Debian: python3-sklearn)")
        between, within, _, error = [first_numbers(line) for line in
                                     run("examples/torch_digits.py").splitlines()[1:]]
        self.assertGreater(between[1], between[0] + 20)  # degrees
        self.assertLess(within[1], within[0] + 3)
        self.assertLess(error[1], 5)

    def test_fashion(self):
        if not FASHION.is_dir():
            self.skipTest("Fashion-MNIST is not there (Debian: dataset-fashion-mnist)")
        lines = run("examples/torch_fashion.py", "5", "2").splitlines()
        self.assertTrue(lines[0].startswith("5 images per class, 2 seeds"))
        for line in lines[1:3]:
            self.assertGreater(first_numbers(line)[0], 55)
        one = run("examples/torch_fashion.py", "1", "1")  # seed has no deviation
        self.assertEqual(len(re.findall(r" [\d.]+ %$", one, re.MULTILINE)), 2, one)
        self.assertFalse("±" in one or "nan" in one, one)

    def test_training_loop_page(self):
        blocks = re.findall(r"^```python\n(.*?)^```$", (ROOT / "docs" / "training-loop.md").read_text(),
                            re.MULTILINE | re.DOTALL)
        self.assertGreaterEqual(len(blocks), 4)
        with tempfile.NamedTemporaryFile("w", suffix=".py") as file:
            file.write("\n".join(blocks))
            file.flush()
            self.assertIn("rank", run(file.name))


if __name__ == "__main__":
    main()
