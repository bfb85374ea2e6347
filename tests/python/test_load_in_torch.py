#!/usr/bin/env python3
"""test_load_in_torch.py - examples/load_in_torch.py rebuilds our networks: the same outputs.

Every network of the paper's Table 1, and two more, with random weights, to 1e-4.
The PyTorch of model cards, as printed.  Exits with 77 without PyTorch.
"""
import os
import subprocess
import sys
import tempfile
from pathlib import Path

try:
    import numpy as np
    import torch
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

import hub_cards
import networks

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "examples"))
from load_in_torch import OleNet  # noqa: E402

MOST = 1e-4


def compare(ole, work, net):
    shape = networks.input_shape(ole, net)
    path = Path(work) / "model.safetensors"
    networks.write_model(ole, path, net, shape)
    images = networks.random_images(shape, 3).astype(np.float32) / 255
    theirs = OleNet(path, ole).eval()
    with torch.no_grad():
        features, logits = (v.numpy() for v in theirs(torch.from_numpy(images)))
    ours = networks.run_model(ole, path, images, features.shape[1])
    path.unlink()
    worst = max(networks.distance(a, b) for a, b in zip(ours, (features, logits)))
    print(f"{net}: differs by {worst:.1e}, logits vary by {ours[1].std(axis=0).max():.2g}")
    return worst <= MOST and ours[1].std(axis=0).max() > 0.01


def check_as_program(ole, work):
    """As printed in its first line, with `ole` on the path."""
    networks.write_model(ole, Path(work) / "m.safetensors", "C4-MP-FC8", [1, 8, 8])
    done = subprocess.run(
        [sys.executable, ROOT / "examples/load_in_torch.py", "m.safetensors"], cwd=work, text=True,
        capture_output=True, env={"PATH": str(Path(ole).resolve().parent)})
    if done.stdout != "C4-MP-FC8: features [2, 8], logits [2, 10]\n":
        print(done.stdout, done.stderr)
        return False
    return True


def main():
    ole = networks.program()
    torch.set_num_threads(2)
    with tempfile.TemporaryDirectory(prefix="ole-torch-") as work:
        good = [compare(ole, work, net) for net in (*networks.TABLE_1, *networks.OTHERS)]
        good.append(check_as_program(ole, work))
        for module in ("ole", "torch"):
            os.mkdir(f"{work}/{module}")
            good.append(hub_cards.check(ole, f"{work}/{module}", module))
    return 0 if all(good) else 1


sys.exit(main())
