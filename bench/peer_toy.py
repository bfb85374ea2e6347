#!/usr/bin/env python3
"""The toy of Fig. 2 in PyTorch, with OLÉ alone by torch.linalg.svd, for comparison with recipes/fig2-cifar10.yaml.

    python3 bench/peer_toy.py [--last plain|norm|relu] [--epochs 300] [--batch 64] [--weight-decay 1e-4]
                              [--rate 1e-4] [--seeds 1] [--every 50]

Planes, cars and birds of $OLE_DATA/cifar10 (data_batch_1.bin to data_batch_5.bin, test_batch.bin; the first 1,000
training images of each, all test images), four hidden layers of 100 with batch norm and ReLU, and three features:
linear (`plain`), after batch norm (`norm`), or after batch norm and ReLU (`relu`).  Every few epochs it prints a JSON
object with the loss of a batch, the 1-NN accuracy by cosine on the test images and (leave-one-out) on the training
images, and the geometry of the training features: the share of the first singular value in a class's nuclear norm, the
largest cosine between the first directions of two classes, and the share of images whose feature is shorter than a
tenth of the longest of its class.
"""
import argparse
import json
import os
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import numpy as np  # noqa: E402
import peer_loss_torch as peer  # noqa: E402
import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402

CLASSES, SAMPLES, PIXELS, HIDDEN, DIM = 3, 1000, 3 * 32 * 32, 100, 3


def read(folder, names, most):
    """Pixels from 0 to 1 and labels of the first images of each of the three classes."""
    rows = np.concatenate([np.fromfile(folder / name, np.uint8).reshape(-1, 1 + PIXELS) for name in names])
    rows = np.concatenate([rows[rows[:, 0] == name][:most] for name in range(CLASSES)])
    return torch.from_numpy(rows[:, 1:] / np.float32(255)), torch.from_numpy(rows[:, 0].astype(np.int64))


def make_net(last):
    layers, width = [], PIXELS
    for _ in range(4):
        layers += [nn.Linear(width, HIDDEN), nn.BatchNorm1d(HIDDEN), nn.ReLU()]
        width = HIDDEN
    layers.append(nn.Linear(width, DIM))
    if last != "plain":
        layers.append(nn.BatchNorm1d(DIM))
    if last == "relu":
        layers.append(nn.ReLU())
    for layer in layers:
        if isinstance(layer, nn.Linear):
            nn.init.xavier_uniform_(layer.weight)
            nn.init.zeros_(layer.bias)
    return nn.Sequential(*layers)


def nearest(known, labels, asked, answers, leave_out=False):
    cosines = F.normalize(asked) @ F.normalize(known).T
    if leave_out:
        cosines.fill_diagonal_(-2)
    return 100 * float((labels[cosines.argmax(1)] == answers).double().mean())


def how_they_lie(x, labels):
    blocks = [x[labels == name] for name in range(CLASSES)]
    parts = [torch.linalg.svd(block, full_matrices=False) for block in blocks]
    first = torch.stack([v[0] for _, _, v in parts])
    cosines = (first @ first.T).abs().fill_diagonal_(0)
    lengths = [block.norm(dim=1) for block in blocks]
    return {"first singular value": [round(float(s[0] / s.sum()), 3) for _, s, _ in parts],
            "largest cosine": round(float(cosines.max()), 3),
            "short": round(float(torch.cat([long < long.max() / 10 for long in lengths]).double().mean()), 3)}


def train(seed, options, x, labels, asked, answers):
    torch.manual_seed(seed)
    net = make_net(options.last)
    optimizer = torch.optim.Adam(net.parameters(), lr=options.rate, weight_decay=options.weight_decay)
    for epoch in range(1, options.epochs + 1):
        losses = []
        for rows in torch.randperm(len(x)).split(options.batch):
            if len(rows) < 2:  # no batch norm
                continue
            features = net(x[rows])
            value, gradient = peer.by_svd(features.detach(), labels[rows])
            optimizer.zero_grad()
            features.backward(gradient)
            optimizer.step()
            losses.append(float(value))
        if epoch % options.every and epoch != options.epochs:
            continue
        net.eval()
        with torch.no_grad():
            known, found = net(x), net(asked)
        net.train()
        print(json.dumps({"seed": seed, "epoch": epoch, "loss": round(sum(losses) / len(losses), 5),
                          "test": round(nearest(known, labels, found, answers), 2),
                          "train": round(nearest(known, labels, known, labels, leave_out=True), 2),
                          **how_they_lie(known, labels)}), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--last", choices=("plain", "norm", "relu"), default="relu")
    parser.add_argument("--epochs", type=int, default=300)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--weight-decay", type=float, default=1e-4)
    parser.add_argument("--rate", type=float, default=1e-4)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--every", type=int, default=50, help="epochs between lines")
    options = parser.parse_args()
    if "OLE_DATA" not in os.environ:
        sys.exit("OLE_DATA is not set: the folder that has cifar10 in it")
    folder = Path(os.environ["OLE_DATA"]) / "cifar10"
    torch.set_num_threads(1)  # more are no quicker at these sizes
    x, labels = read(folder, [f"data_batch_{i}.bin" for i in range(1, 6)], SAMPLES)
    asked, answers = read(folder, ["test_batch.bin"], None)
    mean, deviation = x.mean(0), x.std(0)
    for seed in range(options.seeds):
        train(seed, options, (x - mean) / deviation, labels, (asked - mean) / deviation, answers)


if __name__ == "__main__":
    main()
