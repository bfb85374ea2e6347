"""hub_cards.py - runs the Python that model cards of `ole export --hub` print.

check(ole, work, "torch") trains small models of grey images, colour images and vectors, exports each, runs the block
of its card that imports torch, as printed, and compares the class it prints with `ole predict`.  In the block that
imports ole, files take the place of the hub's name and of the photo's, as Olé tells images by name.  Needs NumPy;
without Pillow only vectors are compared.
"""
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np

try:
    import PIL  # noqa: F401
    KINDS = ("grey", "colour", "vectors")
except ImportError:
    KINDS = ("vectors",)


def quiet(command, **options):
    return subprocess.run(command, check=True, text=True, capture_output=True, **options).stdout


def export(ole, work, kind):
    """The folder of a model of three classes with names."""
    rng = np.random.default_rng(3)
    names = np.array(["a|b", "it's", "<c>"])[np.arange(90) % 3]
    if kind == "vectors":
        x = rng.normal(size=(90, 6)) + 2 * np.eye(6)[np.arange(90) % 3]
    else:
        x = rng.integers(0, 120, (90, 8, 8) + ((3,) if kind == "colour" else ()))
        x[np.arange(90), (np.arange(90) % 3) * 3] += 120
        x = x.astype(np.uint8)
    np.save(work / "x.npy", x)
    (work / "y.txt").write_text("\n".join(names) + "\n")
    net = "FC8" if kind == "vectors" else "C4-MP-FC8"
    quiet([ole, "train", "npy:x.npy,y.txt", "--net", net, "--epochs", "4", "--out", kind, "--no-report"], cwd=work)
    quiet([ole, "export", kind, "--hub", f"hub/{kind}"], cwd=work)
    return work / "hub" / kind


def sample(folder, kind, seed):
    """A file for the card to read, and what to tell `ole predict` of it."""
    rng = np.random.default_rng(seed)
    if kind == "vectors":
        np.save(folder / "X.npy", rng.normal(size=(1, 6)).astype(np.float32))
        return "X.npy"
    pixels = rng.integers(0, 255, (23, 17, 3) if kind == "colour" else (23, 17)).astype(np.uint8)
    head = b"P%d 17 23 255\n" % (6 if kind == "colour" else 5)
    for name in ("image.jpg", "image.ppm"):  # Pillow reads by content, ole by name
        (folder / name).write_bytes(head + pixels.tobytes())
    return "image.ppm"


def check(ole, work, module):
    work = Path(work)
    good = True
    for kind in KINDS:
        folder = export(ole, work, kind)
        card = (folder / "README.md").read_text("utf-8")
        blocks = [b for b in re.findall(r"```python\n(.*?)```", card, re.S) if re.search(rf"^import {module}$", b, re.M)]
        assert len(blocks) == 1, (kind, module, len(blocks))
        for seed in range(2):
            file = sample(folder, kind, seed)
            predicted = json.loads(quiet([ole, "predict", "model.safetensors", file, "--threshold", "0", "--json"],
                                         cwd=folder))[0]["label"]
            block, path = blocks[0], "."
            if module == "ole":
                block = block.replace(f"hf:OWNER/{kind}", "model.safetensors").replace("image.jpg", file)
                path = str(Path(__file__).resolve().parents[2] / "bindings" / "python")
            printed = quiet([sys.executable, "-c", block], cwd=folder,
                            env={**os.environ, "PYTHONPATH": path, "PATH": "/usr/bin:/bin"}).strip()
            print(f"card of {kind}, {module}: {printed!r}, ole predict: {predicted!r}")
            good = good and printed == predicted
    return good
