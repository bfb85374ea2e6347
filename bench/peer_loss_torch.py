"""The OLÉ loss as a PyTorch user would write it, timed: `python3 bench/peer_loss_torch.py [cuda|cpu]`.

Three variants: the authors' (SVDs on the host, class by class), torch.linalg.svd on the device, and one
batched eigendecomposition of masked Gram matrices in float64.  Prints one JSON object per line: rows,
dim, classes, and for each variant the median in ms and the error of its gradient against the first
variant in float64.  The features resemble those of a network in training: one direction per class plus
noise, rectified.
"""
import json
import statistics
import sys
import time

import numpy as np
import torch

ROWS = ((26, 1024, 500), (32, 256, 10), (64, 256, 10), (64, 512, 10), (64, 512, 100), (128, 512, 10),
        (256, 512, 10), (512, 512, 100), (1024, 512, 100))
FLOOR, CUT = 1.0, 1e-6


def make(rows, dim, classes):
    random = torch.Generator().manual_seed(0)
    labels = torch.arange(rows) % classes
    centre = torch.rand(classes, dim, generator=random)[labels]
    scale = 1 + torch.rand(rows, 1, generator=random)
    return torch.relu(centre * scale + 0.3 * torch.randn(rows, dim, generator=random)), labels


def on_host(x, labels):
    """Value and gradient over N by LAPACK's SVD of every class and of the whole."""
    whole, names = x.cpu().numpy(), labels.cpu().numpy()
    gradient, value = np.zeros_like(whole), 0.0

    def norm_and_polar(block):
        u, s, v = np.linalg.svd(block, full_matrices=False)
        kept = s > CUT
        return s.sum(), u[:, kept] @ v[kept]

    for name in np.unique(names):
        norm, polar = norm_and_polar(whole[names == name])
        value += max(norm, FLOOR)
        if norm > FLOOR:
            gradient[names == name] += polar
    norm, polar = norm_and_polar(whole)
    return (value - norm) / len(whole), torch.from_numpy((gradient - polar) / len(whole)).to(x.device)


def by_svd(x, labels):
    gradient, value = torch.zeros_like(x), 0.0

    def norm_and_polar(block):
        u, s, v = torch.linalg.svd(block, full_matrices=False)
        return s.sum(), (u * (s > CUT)) @ v

    for name in torch.unique(labels):
        rows = labels == name
        norm, polar = norm_and_polar(x[rows])
        value = value + norm.clamp(min=FLOOR)
        gradient[rows] += polar * (norm > FLOOR)
    norm, polar = norm_and_polar(x)
    return (value - norm) / len(x), (gradient - polar) / len(x)


def by_eigh(x, labels):
    wide = x.double()
    gram = wide @ wide.T
    of_class = torch.nn.functional.one_hot(labels).T.bool()
    blocks = gram * (of_class[:, :, None] & of_class[:, None, :])
    values, vectors = torch.linalg.eigh(torch.cat([blocks, gram[None]]))
    sigma = values.clamp(min=0).sqrt()
    inverse = torch.where(sigma > CUT, 1 / sigma.clamp(min=CUT), 0.0)
    roots = (vectors * inverse[:, None]) @ vectors.transpose(1, 2)
    norms = sigma.sum(1)
    weights = torch.cat([(norms[:-1] > FLOOR).double(), -norms.new_ones(1)])
    gradient = ((roots * weights[:, None, None]).sum(0) @ wide).to(x.dtype)
    return (norms[:-1].clamp(min=FLOOR).sum() - norms[-1]) / len(x), gradient / len(x)


def median_ms(call, sync):
    for _ in range(3):
        call()
    sync()
    times, end = [], time.time() + 0.5
    while len(times) < 5 or (time.time() < end and len(times) < 300):
        start = time.perf_counter()
        call()
        sync()
        times.append((time.perf_counter() - start) * 1e3)
    return statistics.median(times)


def main():
    device = sys.argv[1] if len(sys.argv) > 1 else "cuda"
    sync = torch.cuda.synchronize if device == "cuda" else lambda: None
    for rows, dim, classes in ROWS:
        x, labels = (t.to(device) for t in make(rows, dim, classes))
        truth = on_host(x.double(), labels)[1]
        line = {"rows": rows, "dim": dim, "classes": classes}
        for name, way in (("authors", on_host), ("svd", by_svd), ("eigh", by_eigh)):
            error = float((way(x, labels)[1].double() - truth).norm() / truth.norm())
            line[name] = {"ms": median_ms(lambda: way(x, labels), sync), "error": error}
        right = [line[w]["ms"] for w in ("authors", "svd", "eigh") if line[w]["error"] < 1e-3]
        line["best_right_ms"] = min(right)
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
