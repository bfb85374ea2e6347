#!/usr/bin/env python3
"""Measures how noisy OLÉ's gradient is at the end of training: `python3 bench/gradient_noise.py MODEL
[--ole build/ole] [--batch 64] [--batches 8] [--lambda 0.5]`.

Loads a CIFAR-10 model into PyTorch and runs batches of training images ($OLE_DATA/cifar10) through it as in training
(batch statistics, no augmentation).  For the last layer before the features it compares the gradients of softmax and
of λ OLÉ, of one batch and the next, and of OLÉ in float32 and with weights and layer outputs rounded to bfloat16, as
--precision bf16 does.  Prints a JSON object with losses, gradient norms and mean cosines.
"""
import argparse
import itertools
import json
import os
import statistics
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "examples")]

import peer_loss_torch as peer  # noqa: E402
import peer_runs  # noqa: E402
import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from load_in_torch import OleNet  # noqa: E402
from torch import nn  # noqa: E402


class Rounded(torch.autograd.Function):
    """Values and gradients as bfloat16 holds them."""

    @staticmethod
    def forward(ctx, x):
        return x.bfloat16().float()

    @staticmethod
    def backward(ctx, upstream):
        return upstream.bfloat16().float()


def rounded(net):
    for op in net.ops[:-1]:
        if isinstance(op, (nn.Conv2d, nn.Linear)):
            op.weight.data = op.weight.data.bfloat16().float()
        if isinstance(op, (nn.Conv2d, nn.Linear, nn.ReLU)):
            op.register_forward_hook(lambda op, given, out: Rounded.apply(out))
    return net


def gradients(net, images, labels):
    """Both losses, and their gradients by the weights of the last layer under the features."""
    last = [op for op in net.ops[:-1] if isinstance(op, (nn.Conv2d, nn.Linear))][-1].weight
    features, logits = net(images)
    softmax = F.cross_entropy(logits, labels)
    ole, by_features = peer.by_svd(features.detach().double(), labels)
    of_softmax, = torch.autograd.grad(softmax, last, retain_graph=True)
    of_ole, = torch.autograd.grad(features, last, by_features.to(features.dtype))
    return float(softmax), float(ole), of_softmax.flatten(), of_ole.flatten()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--ole", default="ole", help="the program")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--batches", type=int, default=8)
    parser.add_argument("--lambda", type=float, default=0.5, dest="weight")
    options = parser.parse_args()
    planes, labels = peer_runs.read_cifar10(Path(os.environ["OLE_DATA"]) / "cifar10", "train")
    nets = OleNet(options.model, options.ole).train(), rounded(OleNet(options.model, options.ole).train())
    seen = []
    for start in range(0, options.batch * options.batches, options.batch):
        images = torch.from_numpy(planes[start:start + options.batch] / 255).float()
        names = torch.from_numpy(labels[start:start + options.batch].astype("int64"))
        seen.append([gradients(net, images, names) for net in nets])
    plain, narrow = zip(*seen)
    mean = statistics.fmean
    cosine = lambda pairs: round(mean(float(F.cosine_similarity(a, b, 0)) for a, b in pairs), 4)  # noqa: E731
    norm = lambda of, at: round(mean(float(one[at].norm()) for one in of), 5)  # noqa: E731
    print(json.dumps({
        "model": options.model, "batch": options.batch, "batches": options.batches,
        "softmax loss": round(mean(one[0] for one in plain), 5), "OLÉ loss": round(mean(one[1] for one in plain), 5),
        "norm, softmax": norm(plain, 2), "norm, λ OLÉ": round(options.weight * norm(plain, 3), 5),
        "cosine of two batches, softmax": cosine(itertools.combinations([one[2] for one in plain], 2)),
        "cosine of two batches, OLÉ": cosine(itertools.combinations([one[3] for one in plain], 2)),
        "cosine of float32 and bfloat16, OLÉ": cosine(zip([one[3] for one in plain], [one[3] for one in narrow])),
    }, ensure_ascii=False))


if __name__ == "__main__":
    main()
