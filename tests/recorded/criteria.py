#!/usr/bin/env python3
"""criteria.py - the losses of src/loss/criteria in NumPy, recorded into criteria.h beside it.

    /usr/bin/python3 tests/recorded/criteria.py && clang-format -i tests/recorded/criteria.h

Each loss is written down once more from its paper's formula, for clarity alone, with loops over pairs and with numpy's
linear algebra. Gradients are Richardson-extrapolated central differences of these values, which are good to about
1e-10. Features, weights and centres are multiples of 1/8, so that C and Python hold the same numbers.

With --metric-learning it compares its values and gradients with those of pytorch-metric-learning instead, which needs
PyTorch and that package, and prints the largest differences.
"""
import sys
from itertools import combinations, permutations
from pathlib import Path

import numpy as np

ROWS, DIM, CLASSES = 12, 6, 4
LABELS = [0, 1, 2, 0, 1, 3, 0, 2, 1, 0, 2, 1]  # class 3 has one sample
CASES = [  # name, parameters, step
    ("center", {}, 1),
    ("center", {"alpha": 0.25}, 1),
    ("contrastive", {}, 1),
    ("contrastive", {"margin": 1.5, "power": 1}, 1),
    ("triplet", {"margin": 0.5}, 1),
    ("triplet", {"margin": 0.75, "mining": "semi-hard"}, 1),
    ("l-softmax", {}, 7),
    ("l-softmax", {"margin": 4, "base": 0}, 1),
    ("l-softmax", {"margin": 3, "base": 0}, 1),
    ("a-softmax", {}, 1000),
    ("a-softmax", {"margin": 2, "base": 0, "least": 0}, 1),
    ("a-softmax", {"margin": 4, "base": 0, "least": 0}, 1),
    ("cosface", {}, 1),
    ("cosface", {"margin": 0.2, "scale": 8}, 1),
    ("arcface", {}, 1),
    ("arcface", {"margin": 1.25, "scale": 8}, 1),
    ("supcon", {}, 1),
    ("supcon", {"tau": 0.5}, 1),
    ("mcr2", {}, 1),
    ("mcr2", {"eps2": 0.1}, 1),
    ("opl", {}, 1),
    ("opl", {"gamma": 2, "absolute": "no"}, 1),
    ("ssole", {}, 1),
    ("ssole", {"spread": 3}, 1),
    ("logit-norm", {}, 1),
    ("logit-norm", {"tau": 1}, 1),
    ("ole-unit", {}, 1),
    ("ole-unit", {"gamma": 3, "smooth": 0.25}, 1),
    ("ole-unit", {"centered": "no", "gamma": 1, "floor": 1.5}, 1),
    ("ole-unit", {"unit": "no", "gamma": 1, "smooth": 0.5, "floor": 4}, 1),
]


def unit(x):
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def cross_entropy(logits, y):
    shifted = logits - logits.max(axis=1, keepdims=True)
    return np.mean(np.log(np.exp(shifted).sum(axis=1)) - shifted[np.arange(len(y)), y])


def center(x, y, w, b, centers, p, step):
    return np.sum((x - centers[y]) ** 2) / (2 * len(y))


def moved_centers(x, y, centers, alpha):
    out = centers.copy()
    for c in set(y):
        rows = x[np.array(y) == c]
        out[c] -= alpha * np.sum(centers[c] - rows, axis=0) / (1 + len(rows))
    return out


def contrastive(x, y, w, b, centers, p, step):
    u, same, other = unit(x), [], []
    for i, j in combinations(range(len(y)), 2):
        d = np.linalg.norm(u[i] - u[j])
        if y[i] == y[j]:
            same.append(d ** p["power"] / p["power"])
        else:
            other.append(max(0, p["margin"] - d) ** p["power"] / p["power"])
    return np.mean(same) + np.mean(other)


def triplet(x, y, w, b, centers, p, step):
    u, rows, losses = unit(x), range(len(y)), []
    d = np.array([[np.linalg.norm(u[i] - u[j]) for j in rows] for i in rows])
    for a in rows:
        same = [i for i in rows if i != a and y[i] == y[a]]
        other = [i for i in rows if y[i] != y[a]]
        if p["mining"] == "semi-hard":
            losses += [d[a, i] - d[a, j] + p["margin"] for i in same for j in other
                       if d[a, i] < d[a, j] < d[a, i] + p["margin"]]
        elif same:
            losses.append(max(0, max(d[a, same]) - min(d[a, other]) + p["margin"]))
    return np.mean(losses)


def psi(theta, m):
    k = min(int(m * theta / np.pi), m - 1)
    return (-1) ** k * np.cos(m * theta) - 2 * k


def angular(x, y, w, p, step, lengths):
    theta = np.arccos(np.clip(unit(x) @ unit(w).T, -1, 1))
    scale = np.linalg.norm(x, axis=1)[:, None] * lengths[None, :]
    lam = max(p["least"], p["base"] * (1 + p["gamma"] * step) ** -p["power"])
    cosine = np.cos(theta)
    for i, c in enumerate(y):
        cosine[i, c] = (lam * cosine[i, c] + psi(theta[i, c], p["margin"])) / (1 + lam)
    return cross_entropy(scale * cosine, y)


def l_softmax(x, y, w, b, centers, p, step):
    return angular(x, y, w, p, step, np.linalg.norm(w, axis=1))


def a_softmax(x, y, w, b, centers, p, step):
    return angular(x, y, w, p, step, np.ones(len(w)))


def cosface(x, y, w, b, centers, p, step):
    z = unit(x) @ unit(w).T
    z[np.arange(len(y)), y] -= p["margin"]
    return cross_entropy(p["scale"] * z, y)


def arcface(x, y, w, b, centers, p, step):
    z = np.clip(unit(x) @ unit(w).T, -1, 1)
    for i, c in enumerate(y):
        theta = np.arccos(z[i, c])
        z[i, c] = np.cos(theta + p["margin"]) if theta <= np.pi - p["margin"] else (
            z[i, c] - p["margin"] * np.sin(p["margin"]))
    return cross_entropy(p["scale"] * z, y)


def supcon(x, y, w, b, centers, p, step):
    u, rows, losses = unit(x), range(len(y)), []
    for i in rows:
        others = [j for j in rows if j != i]
        total = sum(np.exp(u[i] @ u[j] / p["tau"]) for j in others)
        same = [-np.log(np.exp(u[i] @ u[j] / p["tau"]) / total) for j in others if y[j] == y[i]]
        if same:
            losses.append(np.mean(same))
    return np.mean(losses)


def rate(z, eps2):
    n, d = z.shape
    return np.linalg.slogdet(np.eye(d) + d / (n * eps2) * z.T @ z)[1] / 2


def mcr2(x, y, w, b, centers, p, step):
    u, y = unit(x), np.array(y)
    return -rate(u, p["eps2"]) + sum(np.mean(y == c) * rate(u[y == c], p["eps2"]) for c in set(y))


def opl(x, y, w, b, centers, p, step):
    u, same, other = unit(x), [], []
    for i, j in permutations(range(len(y)), 2):
        (same if y[i] == y[j] else other).append(u[i] @ u[j])
    away = np.mean(other)
    return 1 - np.mean(same) + p["gamma"] * (abs(away) if p["absolute"] == "yes" else away)


def nuclear(a):
    return np.linalg.svd(a, compute_uv=False).sum()


def ssole(x, y, w, b, centers, p, step):
    u, y, n = unit(x), np.array(y), len(y)
    low = [(nuclear(u[y == c] - u[y == c].mean(axis=0)) / (np.sum(y == c) - 1)) ** 2
           for c in set(y) if np.sum(y == c) > 1]
    r = nuclear(u)
    beta = np.arcsin(r / n) - np.arcsin(1 / np.sqrt(n))
    high = ((n ** 2 / r ** 2 - 1) / (n - 1) + (n * np.cos(beta) ** 2 - 1) / (n - 1)) / 2
    return np.mean(low) + p["spread"] * high


def logit_norm(x, y, w, b, centers, p, step):
    z = x @ w.T + b
    return cross_entropy(z / (p["tau"] * (np.linalg.norm(z, axis=1, keepdims=True) + 1e-7)), y)


def ole_unit(x, y, w, b, centers, p, step):
    def norm(a):
        s = np.linalg.svd(a, compute_uv=False)
        return np.sum(np.sqrt(s ** 2 + p["smooth"] ** 2) - p["smooth"])

    rows, y = unit(x) if p["unit"] == "yes" else x, np.array(y)
    centered = p["unit"] == p["centered"] == "yes"
    low = sum(max(p["floor"], norm(rows[y == c] - rows[y == c].mean(axis=0) * centered)) for c in set(y))
    return (low - p["gamma"] * norm(rows)) / len(y)


MARGINS = {"margin": 4, "base": 1000, "gamma": 0.12, "power": 1, "least": 0}
LOSSES = {
    "center": (center, {"alpha": 0.5}),
    "contrastive": (contrastive, {"margin": 1, "power": 2}),
    "triplet": (triplet, {"margin": 0.2, "mining": "hard"}),
    "l-softmax": (l_softmax, MARGINS),
    "a-softmax": (a_softmax, {**MARGINS, "least": 5}),
    "cosface": (cosface, {"margin": 0.35, "scale": 64}),
    "arcface": (arcface, {"margin": 0.5, "scale": 64}),
    "supcon": (supcon, {"tau": 0.07}),
    "mcr2": (mcr2, {"eps2": 0.5}),
    "opl": (opl, {"gamma": 0.5, "absolute": "yes"}),
    "ssole": (ssole, {"spread": 1}),
    "logit-norm": (logit_norm, {"tau": 0.04}),
    "ole-unit": (ole_unit, {"unit": "yes", "centered": "yes", "gamma": 1.5, "smooth": 0, "floor": 0}),
}
HEADS = {"l-softmax", "a-softmax", "cosface", "arcface", "logit-norm"}


def gradient(f, at):
    """Central differences at h and 2h, extrapolated."""
    out, h = np.zeros_like(at), 4e-5
    for i in np.ndindex(at.shape):
        def difference(step):
            a, b = at.copy(), at.copy()
            a[i] += step
            b[i] -= step
            return (f(a) - f(b)) / (2 * step)
        one, two, four = difference(h), difference(2 * h), difference(4 * h)
        a, b = (4 * one - two) / 3, (4 * two - four) / 3
        out[i] = (16 * a - b) / 15
    return out


def inputs():
    rng = np.random.default_rng(25)
    make = lambda *shape: np.round(8 * rng.normal(size=shape)) / 8
    return make(ROWS, DIM), make(CLASSES, DIM), make(CLASSES), make(CLASSES, DIM)


def numbers(a):
    return "{" + ",".join(f"{v:.17g}" for v in np.ravel(a)) + "}"


def record():
    x, w, b, centers = inputs()
    lines = [
        "/* tests/recorded/criteria.h - written by criteria.py with NumPy " + np.__version__ + "; run that again",
        " * instead of changing numbers here. */",
        f"enum {{ ROWS = {ROWS}, DIM = {DIM}, CLASSES = {CLASSES} }};",
        f"static const int32_t labels[ROWS] = {{{','.join(map(str, LABELS))}}};",
        f"static const double features[ROWS * DIM] = {numbers(x)};",
        f"static const double weights[CLASSES * DIM] = {numbers(w)};",
        f"static const double biases[CLASSES] = {numbers(b)};",
        f"static const double centers[CLASSES * DIM] = {numbers(centers)};",
        "typedef struct recorded_loss { const char *name, *options; int64_t step; double value, dx[ROWS * DIM],",
        "    dw[CLASSES * DIM], db[CLASSES], moved[CLASSES * DIM]; } recorded_loss;",
        "static const recorded_loss recorded[] = {",
    ]
    for name, given, step in CASES:
        f, p = LOSSES[name][0], {**LOSSES[name][1], **given}
        at = lambda x, w, b: f(x, LABELS, w, b, centers, p, step)
        options = ",".join(f"{k}={v}" for k, v in given.items())
        line = f'{{.name = "{name}", .options = "{options}", .step = {step}, .value = {at(x, w, b):.17g}'
        line += f", .dx = {numbers(gradient(lambda v: at(v, w, b), x))}"
        if name in HEADS:
            line += f", .dw = {numbers(gradient(lambda v: at(x, v, b), w))}"
        if name == "logit-norm":
            line += f", .db = {numbers(gradient(lambda v: at(x, w, v), b))}"
        if name == "center":
            line += f", .moved = {numbers(moved_centers(x, LABELS, centers, p['alpha']))}"
        lines.append(line + "},")
    lines.append("};")
    Path(__file__).with_suffix(".h").write_text("\n".join(lines) + "\n")


def compare():
    import torch
    from pytorch_metric_learning import distances, losses, miners, reducers
    x, w, b, centers = inputs()
    labels = torch.tensor(LABELS)
    mean = reducers.MeanReducer()
    distance = distances.LpDistance(p=2)

    def head(loss, normalized_w):
        loss = loss.double()
        with torch.no_grad():
            loss.W.copy_(torch.tensor(w.T))
        return lambda e: loss(e, labels)

    def mined(loss, miner):
        return lambda e: loss(e, labels, miner(e, labels))

    tests = [
        ("contrastive", {"margin": 1.5, "power": 1}, lambda e: losses.ContrastiveLoss(
            pos_margin=0, neg_margin=1.5, distance=distance, reducer=mean)(e, labels)),
        ("triplet", {"margin": 0.5}, mined(losses.TripletMarginLoss(margin=0.5, distance=distance, reducer=mean),
                                           miners.BatchHardMiner(distance=distance))),
        ("triplet", {"margin": 0.75, "mining": "semi-hard"}, mined(
            losses.TripletMarginLoss(margin=0.75, distance=distance, reducer=mean),
            miners.TripletMarginMiner(margin=0.75, type_of_triplets="semihard", distance=distance))),
        ("l-softmax", {"margin": 4, "base": 0}, head(losses.LargeMarginSoftmaxLoss(CLASSES, DIM, margin=4, scale=1), False)),
        ("a-softmax", {"margin": 4, "base": 0, "least": 0}, head(losses.SphereFaceLoss(CLASSES, DIM, margin=4, scale=1), True)),
        ("cosface", {}, head(losses.CosFaceLoss(CLASSES, DIM, margin=0.35, scale=64), True)),
        ("arcface", {}, head(losses.ArcFaceLoss(CLASSES, DIM, margin=np.rad2deg(0.5), scale=64), True)),
        ("arcface", {"margin": 1.25, "scale": 8}, head(losses.ArcFaceLoss(CLASSES, DIM, margin=np.rad2deg(1.25), scale=8), True)),
        ("supcon", {}, lambda e: losses.SupConLoss(temperature=0.07)(e, labels)),
        ("supcon", {"tau": 0.5}, lambda e: losses.SupConLoss(temperature=0.5)(e, labels)),
    ]
    for name, given, loss in tests:
        f, p = LOSSES[name][0], {**LOSSES[name][1], **given}
        e = torch.tensor(x, requires_grad=True)
        theirs = loss(e)
        theirs.backward()
        ours = f(x, LABELS, w, b, centers, p, 1)
        slope = gradient(lambda v: f(v, LABELS, w, b, centers, p, 1), x)
        print(f"{name:12} {str(given):45} value {ours:.12g} {theirs.item():.12g}  difference"
              f" {abs(ours - theirs.item()):.1e}, of gradients {np.abs(slope - e.grad.numpy()).max():.1e}")


if __name__ == "__main__":
    compare() if "--metric-learning" in sys.argv else record()
