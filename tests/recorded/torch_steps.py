#!/usr/bin/env python3
"""torch_steps.py - twenty training steps by PyTorch, recorded: writes torch_steps.h beside itself.

    python3 tests/recorded/torch_steps.py && clang-format -i tests/recorded/torch_steps.h

Needs PyTorch and NumPy; the tests need only the header.  One small net of every kind of block, in
the notation of the project and, here, written out with torch.nn.functional; SGD with Nesterov
momentum and Adam, both with weight decay, and what fine-tuning adds (RULES) on one of the nets.  First weights and batches come from a hash that the test
computes too, rounded to float32.  The numbers recorded are those of float64; how far PyTorch's own
float32 is from them is printed, and stands at the head of the header.
"""
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F

STEPS, BATCH, CLASSES, SHAPE = 20, 8, 4, (3, 8, 8)
RULES = ("adamw", "smooth", "clip", "groups", "average")


# ---- numbers that both sides compute ------------------------------------------------------------


def key(name):
    """FNV-1a."""
    h = 2166136261
    for byte in name.encode():
        h = (h ^ byte) * 16777619 % 2**32
    return h


def bits(name, count):
    z = (np.arange(count, dtype=np.uint64) * 0x9E3779B9 + key(name)) % 2**32
    for shift, factor in ((16, 0x7FEB352D), (15, 0x846CA68B)):
        z = (z ^ (z >> np.uint64(shift))) * np.uint64(factor) % 2**32
    return z ^ (z >> np.uint64(16))


def uniform(name, count):
    """In [-1, 1), multiples of 2^-23."""
    return (bits(name, count) >> np.uint64(8)).astype(np.float64) * 2.0**-23 - 1.0


def tensor(values, shape):
    return torch.from_numpy(values.astype(np.float32).reshape(shape)).to(torch.get_default_dtype())


def batch(step):
    """Images: a pattern for each class, and noise."""
    size = int(np.prod(SHAPE))
    labels = (bits(f"labels{step}", BATCH) % CLASSES).astype(np.int64)
    patterns = np.concatenate([uniform(f"class{label}", size) for label in labels])
    images = patterns + uniform(f"images{step}", BATCH * size)
    return tensor(images, (BATCH, *SHAPE)), torch.from_numpy(labels)


# ---- layers, which make their parameters when they are first called ------------------------------


class Net:
    def __init__(self):
        self.param = {}

    def get(self, name, shape, first, trained=True):
        if name not in self.param:
            values = first(uniform(name, int(np.prod(shape))))
            self.param[name] = tensor(values, shape).requires_grad_(trained)
        return self.param[name]

    def weight_and_bias(self, name, shape, bias):
        scale = np.sqrt(3.0 / np.prod(shape[1:]))
        weight = self.get(name + ".weight", shape, lambda u: scale * u)
        if not bias:
            return weight, None
        return weight, self.get(name + ".bias", shape[:1], lambda u: 0.25 + 0.125 * u)

    def conv(self, name, x, width, kernel=3, stride=1, pad=None, bias=False):
        weight, b = self.weight_and_bias(name, (width, x.shape[1], kernel, kernel), bias)
        return F.conv2d(x, weight, b, stride, kernel // 2 if pad is None else pad)

    def linear(self, name, x, width):
        weight, bias = self.weight_and_bias(name, (width, x.shape[1]), True)
        return F.linear(x, weight, bias)

    def norm(self, name, x, affine=True):
        shape, gamma, beta = x.shape[1:2], None, None
        if affine:
            gamma = self.get(name + ".weight", shape, lambda u: 1.0 + 0.25 * u)
            beta = self.get(name + ".bias", shape, lambda u: 0.25 + 0.125 * u)
        mean = self.get(name + ".running_mean", shape, lambda u: 0.0 * u, False)
        variance = self.get(name + ".running_var", shape, lambda u: 0.0 * u + 1.0, False)
        return F.batch_norm(x, mean, variance, gamma, beta, training=True, momentum=0.1, eps=1e-5)

    def norm_relu(self, name, x, affine=True):
        return F.relu(self.norm(name, x, affine))

    def bottleneck(self, name, x, width, inner, stride):
        y = self.norm_relu(name + "norm1", self.conv(name + "conv1", x, inner, 1))
        y = self.norm_relu(name + "norm2", self.conv(name + "conv2", y, inner, 3, stride))
        y = self.norm(name + "norm3", self.conv(name + "conv3", y, width, 1))
        if stride != 1 or x.shape[1] != width:
            x = self.conv(name + "shortcut.conv", x, width, 1, stride)
            x = self.norm(name + "shortcut.norm", x)
        return F.relu(y + x)

    def pre_bottleneck(self, name, x, width, inner, stride):
        y = self.conv(name + "conv1", self.norm_relu(name + "norm1", x), inner, 1)
        y = self.conv(name + "conv2", self.norm_relu(name + "norm2", y), inner, 3, stride)
        y = self.conv(name + "conv3", self.norm_relu(name + "norm3", y), width, 1)
        if stride != 1 or x.shape[1] != width:
            x = self.conv(name + "shortcut.conv", x, width, 1, stride)
        return y + x

    def padded(self, x, width, stride):
        """A shortcut without weights: some of the pixels, zeros around the channels."""
        before = (width - x.shape[1]) // 2
        return F.pad(x[:, :, ::stride, ::stride], (0, 0, 0, 0, before, width - x.shape[1] - before))

    def basic(self, name, x, width, stride, padded=False):
        y = self.norm_relu(name + "norm1", self.conv(name + "conv1", x, width, 3, stride))
        y = self.norm(name + "norm2", self.conv(name + "conv2", y, width))
        if padded:
            x = self.padded(x, width, stride)
        elif stride != 1 or x.shape[1] != width:
            x = self.conv(name + "shortcut.conv", x, width, 1, stride)
            x = self.norm(name + "shortcut.norm", x)
        return F.relu(y + x)

    def pre_basic(self, name, x, width, stride, padded=False):
        activated = self.norm_relu(name + "norm1", x)
        y = self.conv(name + "conv1", activated, width, 3, stride)
        y = self.conv(name + "conv2", self.norm_relu(name + "norm2", y), width)
        if padded:
            x = self.padded(activated, width, stride)
        elif stride != 1 or x.shape[1] != width:
            x = self.conv(name + "shortcut.conv", activated, width, 1, stride)
        return y + x

    def dense(self, name, x, width, growth):
        layer = 0
        while x.shape[1] < width:
            layer += 1
            y = self.norm_relu(f"{name}layer{layer}.norm", x)
            x = torch.cat([x, self.conv(f"{name}layer{layer}.conv", y, growth)], 1)
        return x


# ---- the nets -----------------------------------------------------------------------------------


def plain(n, x):
    x = F.max_pool2d(F.relu(n.conv("1.conv", x, 6, bias=True)), 2)
    x = F.relu(n.conv("3.conv", x, 10, pad=0, bias=True))
    return F.relu(n.linear("4.linear", x.flatten(1), 12))


def normed(n, x):
    for i in (1, 2):
        x = n.norm_relu(f"1.norm{i}", n.conv(f"1.conv{i}", x, 7, bias=True))
    x = F.max_pool2d(x, 2)
    x = n.norm_relu("3.norm", n.conv("3.conv", x, 17, bias=True), affine=False)
    return F.max_pool2d(x, 2).flatten(1)


def residual(n, x):
    x = n.norm_relu("1.norm", n.conv("1.conv", x, 6))
    x = n.bottleneck("2.block1.", x, 8, 4, 1)
    x = n.bottleneck("3.block1.", x, 12, 4, 2)
    x = n.bottleneck("3.block2.", x, 12, 4, 1)
    return x.mean((2, 3))


def pre_activation(n, x):
    x = n.conv("1.conv", x, 6)
    x = n.pre_bottleneck("2.block1.", x, 8, 4, 1)
    x = n.pre_bottleneck("3.block1.", x, 12, 4, 2)
    x = n.pre_bottleneck("3.block2.", x, 12, 4, 1)
    return n.norm_relu("4.norm", x).mean((2, 3))


def basic(n, x):
    x = n.norm_relu("1.norm", n.conv("1.conv", x, 6))
    x = n.basic("2.block1.", x, 7, 1)
    x = n.basic("3.block1.", x, 12, 2, padded=True)
    x = n.basic("3.block2.", x, 12, 1)
    return n.basic("4.block1.", x, 11, 2).mean((2, 3))


def pre_basic(n, x):
    x = n.conv("1.conv", x, 6)
    x = n.pre_basic("2.block1.", x, 7, 1)
    x = n.pre_basic("2.block2.", x, 7, 1)
    x = n.pre_basic("3.block1.", x, 9, 2)
    x = n.pre_basic("4.block1.", x, 14, 2, padded=True)
    return n.norm_relu("5.norm", x).mean((2, 3))


def dense(n, x):
    x = n.conv("1.conv", x, 6)
    x = n.dense("2.", x, 14, 4)
    x = F.avg_pool2d(n.conv("3.conv", n.norm_relu("3.norm", x), 9, 1), 2)
    x = n.dense("4.", x, 19, 5)
    return n.norm_relu("5.norm", x).mean((2, 3))


def pooled(n, x):
    x = n.norm_relu("1.norm", n.conv("1.conv", x, 6, 5, bias=True))
    x = F.max_pool2d(x, 3, 2, 1)
    x = n.norm_relu("3.norm", n.conv("3.conv", x, 9, bias=True))
    return F.avg_pool2d(x, 3, 1).flatten(1)


def linear(n, x):
    x = x.flatten(1)
    for i in (1, 2):
        x = n.norm_relu(f"1.norm{i}", n.linear(f"1.linear{i}", x, 20))
    return n.norm_relu("2.norm", n.linear("2.linear", x, 3), affine=False)


def no_dropout(n, x):
    x = F.relu(n.conv("1.conv", x, 5, stride=2, bias=True))
    return F.relu(n.linear("2.linear", x.flatten(1), 16))


NETS = [
    ("C6[nobn]-MP-C10[nobn,p0]-FC12[nobn]", plain),
    ("C7(x2)-MP-C17[noaffine]-MP", normed),
    ("C6[nobias]-R8/4-R12/4(x2)-AP", residual),
    ("C6[nobn,norelu,nobias]-PR8/4-PR12/4(x2)-BN-ReLU-AP", pre_activation),
    # Of widths that keep every ReLU's input 2e-6 or more from 0, where float32 can round past it.
    ("C6[nobias]-B7-B12[noproj](x2)-B11-AP", basic),
    ("C6[nobn,norelu,nobias]-PB7(x2)-PB9-PB14[noproj]-BN-ReLU-AP", pre_basic),
    ("CO6-D14/4-CR9-D19/5-BN19-ReLU-AP", dense),
    ("C6[k5]-MP[k3,s2,p1]-C9-AP[k3,s1]", pooled),
    ("FC20(x2)-FC3[noaffine]", linear),
    ("C5[nobn,s2]-FCD16[d0]", no_dropout),
]


# ---- training and recording ---------------------------------------------------------------------


def make_optimiser(rule, net):
    params = [p for p in net.param.values() if p.requires_grad]
    if rule == "groups":  # the backbone at a tenth of the rate
        head = [net.param["classifier.weight"], net.param["classifier.bias"]]
        body = [p for p in params if not any(p is h for h in head)]
        params = [{"params": body, "lr": 1e-3}, {"params": head, "lr": 1e-2}]
        return torch.optim.AdamW(params, weight_decay=0.5)
    if rule in ("sgd", "smooth", "clip", "average"):
        return torch.optim.SGD(params, lr=0.02, momentum=0.9, nesterov=True, weight_decay=1e-4)
    if rule == "adam":
        return torch.optim.Adam(params, lr=1e-3, weight_decay=1e-4)
    return torch.optim.AdamW(params, lr=1e-3, betas=(0.8, 0.95), eps=1e-6, weight_decay=0.5)


def train(body, rule, dtype):
    """Losses of the steps, and the parameters after them in the order of the net."""
    torch.set_default_dtype(dtype)
    net = Net()

    def logits(images):
        return net.linear("classifier", body(net, images), CLASSES)

    logits(torch.zeros((BATCH, *SHAPE)))  # makes the parameters, and moves the running statistics
    for name, value in net.param.items():
        if "running" in name:
            value.fill_(1.0 if name.endswith("var") else 0.0)
    optimiser = make_optimiser(rule, net)
    trained = [p for p in net.param.values() if p.requires_grad]
    losses, average = [], {k: p.detach().clone() for k, p in net.param.items()}
    for step in range(STEPS):
        images, labels = batch(step)
        smoothing = 0.1 if rule == "smooth" else 0.0
        loss = F.cross_entropy(logits(images), labels, label_smoothing=smoothing)
        optimiser.zero_grad()
        loss.backward()
        if rule == "clip":  # some of the steps
            torch.nn.utils.clip_grad_norm_(trained, 1.25)
        optimiser.step()
        losses.append(loss.item())
        part = 1 - min(0.9, (2 + step) / (11 + step))  # of the moving average, statistics included
        for name, value in net.param.items():
            average[name] += part * (value.detach() - average[name])
    final = average if rule == "average" else net.param
    return losses, {k: p.detach().double().flatten().numpy() for k, p in final.items()}


def compare(exact, other):
    """The largest relative error of a loss, and of a parameter tensor's norm."""
    losses = max(abs(b / a - 1) for a, b in zip(exact[0], other[0]))
    params = max(np.linalg.norm(other[1][k] - v) / np.linalg.norm(v) for k, v in exact[1].items())
    return losses, params


def format_run(notation, rule, losses, params):
    rows = [f'{{.net = "{notation}", .rule = "{rule}", .params = {len(params)},']
    rows.append(".loss = {" + ", ".join(f"{loss:.12g}" for loss in losses) + "},")
    rows.append(".param = {")
    for name, value in params.items():
        projection = float(value @ uniform("check", len(value)))
        numbers = np.linalg.norm(value), projection, value[0], value[-1]
        rows.append(f'{{"{name}", ' + ", ".join(f"{number:.9g}" for number in numbers) + "},")
    rows.append("}},")
    return "\n".join(rows)


def main():
    torch.set_num_threads(1)
    runs, worst = [], (0.0, 0.0)
    for notation, body in NETS:
        for rule in ("sgd", "adam") + (RULES if body is residual else ()):
            exact = train(body, rule, torch.float64)
            errors = compare(exact, train(body, rule, torch.float32))
            print(f"{notation} {rule}: loss {exact[0][0]:.4f} to "
                  f"{exact[0][-1]:.4f}; float32 off by {errors[0]:.1e}, {errors[1]:.1e}")
            worst = tuple(map(max, worst, errors))
            runs.append(format_run(notation, rule, *exact))
    head = (f"/*\n * tests/recorded/torch_steps.h - written by torch_steps.py with PyTorch "
            f"{torch.__version__.split('+')[0]}; run that again\n * instead of changing numbers "
            f"here.  PyTorch's float32 is within {worst[0]:.1e} of these losses and\n * within "
            f"{worst[1]:.1e} of these weights, relative.\n */\n")
    text = head + "static const recorded_run recorded[] = {\n" + "\n".join(runs) + "\n};\n"
    Path(__file__).with_suffix(".h").write_text(text)


main()
