"""What the tests of the Python package share: the loss by NumPy's SVD in float64, features, and a
runner that tells ctest when everything was skipped (exit status 77).

The tests use the package of bindings/python with the libole that OLE_LIBRARY names, without installing
anything; ctest sets both.  OLE_TEST_INSTALLED=1 runs them on an installed package instead.
"""
import importlib.util
import os
import subprocess
import sys
import unittest
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent.parent
INSTALLED = bool(os.environ.get("OLE_TEST_INSTALLED"))  # the package that this Python finds is tested
found = importlib.util.find_spec("ole") if INSTALLED else None
PACKAGE = Path(found.origin).resolve().parents[1] if found else ROOT / "bindings" / "python"  # where ole/ is
if not INSTALLED:
    sys.path.insert(0, str(PACKAGE))


def reference(features, labels, weight=1.0, floor=1.0, cut=1e-6, mean=True):
    """Value and gradient of the loss, from LAPACK in float64; rows with a label below 0 ignored."""
    features, labels = np.asarray(features, np.float64), np.asarray(labels)
    kept = labels >= 0
    x, y = features[kept], labels[kept]

    def norm_and_polar(block):
        u, s, v = np.linalg.svd(block, full_matrices=False)
        rank = s > max(cut, 1e-9 * s[0])
        return s.sum(), u[:, rank] @ v[rank]

    norm, polar = norm_and_polar(x)
    value, direction = -norm, -polar
    for label in np.unique(y):
        norm, polar = norm_and_polar(x[y == label])
        value += max(floor, norm)
        if norm > floor:
            direction[y == label] += polar
    scale = weight / (len(x) if mean else 1)
    gradient = np.zeros_like(features)
    gradient[kept] = scale * direction
    return scale * value, gradient


def make(rows, dim, classes, seed=0, dtype=np.float32):
    """Features as a net gives them in mid-training, and their labels."""
    random = np.random.default_rng(seed)
    labels = np.arange(rows) % classes
    centre = random.random((classes, dim))[labels]
    noise = 0.3 * random.standard_normal((rows, dim))
    features = np.maximum(centre * (1 + random.random((rows, 1))) + noise, 0)
    return features.astype(dtype), labels


def import_torch():
    """torch, or None with a line that says that it is missing."""
    try:
        import torch
    except ImportError:
        print("skipped: this Python has no torch (Debian: python3-torch)")
        return None
    torch.manual_seed(0)
    return torch


def run_script(*command, cwd=ROOT, without=(), **environment):
    """What a script of Python prints that runs with the package under test."""
    environment = {**{name: value for name, value in os.environ.items() if name not in without}, **environment}
    if not INSTALLED:
        environment["PYTHONPATH"] = str(PACKAGE)
    done = subprocess.run([sys.executable, *command], cwd=cwd, env=environment, text=True, capture_output=True)
    if done.returncode != 0:
        raise AssertionError(f"{command}:\n{done.stdout}\n{done.stderr}")
    return done.stdout


def main():
    """Runs the tests of the calling script: 77 when none of them could run."""
    run = unittest.main(exit=False, verbosity=2).result
    if not run.wasSuccessful():
        sys.exit(1)
    if run.testsRun == len(run.skipped):
        sys.exit(77)
