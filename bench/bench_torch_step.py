#!/usr/bin/env python3
"""A training step in PyTorch with OLÉ, and the loss alone, beside the ways a user has without it.

    python3 bench/bench_torch_step.py step [--nets resnet110,vgg16] [--modes eager,compile,graphs]
                                           [--precisions bf16,tf32] [--ways softmax,ours]
                                           [--device cuda] [--seconds 2]
    python3 bench/bench_torch_step.py loss [--device cpu] [--threads 2] [--cpu-time]

`step`: forward, softmax, OLÉ (λ = 0.25), backward and SGD with Nesterov momentum on a batch of 64 that is
kept in memory, with softmax alone, with ole.torch, with the authors' way (SVDs by SciPy's gesvd on the
host, class by class) and with torch.linalg.svd.  `compile` is torch.compile of the objective, `graphs` the
same with mode="reduce-overhead" (CUDA graphs).  The ways take turns, a step each, and medians are given.

`loss`: value and gradient through autograd, at the sizes of the paper's nets.  --cpu-time takes the processor's time of
the process instead of the clock's, for a machine with other work (and, to be fair, OPENBLAS_NUM_THREADS=1).

One JSON object a line.  OLE_LIBRARY names the libole to use (its libole_cuda.so beside it); the package is
taken from bindings/python.
"""
import argparse
import json
import os
import statistics
import sys
import time
import types
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "bindings" / "python")]

import numpy as np  # noqa: E402
import peer_loss_torch as peer  # noqa: E402
import scipy.linalg  # noqa: E402
import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402

import ole  # noqa: E402
from ole.torch import OLELoss  # noqa: E402

WEIGHT, BATCH, CLASSES = 0.25, 64, 10


# ---- The networks of Table 1 ----------------------------------------------------------------------


def convolve(channels_in, channels, kernel=3, stride=1, bias=False):
    return nn.Sequential(nn.Conv2d(channels_in, channels, kernel, stride, kernel // 2, bias=bias),
                         nn.BatchNorm2d(channels))


class Bottleneck(nn.Module):
    def __init__(self, channels_in, middle, stride):
        super().__init__()
        channels = 4 * middle
        self.way = nn.Sequential(convolve(channels_in, middle, 1), nn.ReLU(inplace=True),
                                 convolve(middle, middle, 3, stride), nn.ReLU(inplace=True),
                                 convolve(middle, channels, 1))
        same = stride == 1 and channels_in == channels
        self.around = nn.Identity() if same else convolve(channels_in, channels, 1, stride)

    def forward(self, x):
        return F.relu(self.way(x) + self.around(x))


def resnet110():
    layers, channels = [convolve(3, 16), nn.ReLU(inplace=True)], 16
    for middle, stride in ((16, 1), (32, 2), (64, 2)):
        for block in range(18):
            layers.append(Bottleneck(channels, middle, stride if block == 0 else 1))
            channels = 4 * middle
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten()), channels


def vgg16():
    layers, channels = [], 3
    for width, count in ((64, 5), (128, 4), (256, 4)):
        for _ in range(count):
            layers += [convolve(channels, width, bias=True), nn.ReLU(inplace=True)]
            channels = width
        layers.append(nn.MaxPool2d(2))
    layers += [nn.Flatten(), nn.Linear(256 * 16, 256), nn.BatchNorm1d(256), nn.ReLU(inplace=True)]
    return nn.Sequential(*layers), 256


NETS = {"resnet110": resnet110, "vgg16": vgg16}


# ---- The ways to the loss -------------------------------------------------------------------------


def authors(x, labels):
    """Value and gradient as the authors' release has them: on the host, LAPACK's gesvd for each class."""
    whole, names = x.detach().cpu().numpy(), labels.cpu().numpy()
    gradient, value = np.zeros_like(whole), 0.0

    def norm_and_polar(block):
        u, s, v = scipy.linalg.svd(block, full_matrices=False, lapack_driver="gesvd")
        rank = int((s >= peer.CUT).sum())
        return s.sum(), u[:, :rank] @ v[:rank]

    for name in np.unique(names):
        rows = names == name
        norm, polar = norm_and_polar(whole[rows])
        value += max(norm, peer.FLOOR)
        if norm > peer.FLOOR:
            gradient[rows] += polar
    norm, polar = norm_and_polar(whole)
    gradient = torch.from_numpy((gradient - polar) / len(whole)).to(x.device)
    return torch.as_tensor((value - norm) / len(whole), device=x.device), gradient


class ByHand(torch.autograd.Function):
    """A way that gives value and gradient together, as a loss."""

    @staticmethod
    def forward(ctx, x, labels, way):
        value, gradient = way(x, labels)
        ctx.save_for_backward(gradient)
        return value.to(x.dtype)

    @staticmethod
    def backward(ctx, upstream):
        (gradient,) = ctx.saved_tensors
        return gradient * upstream, None, None


def as_loss(way):
    def loss(x, labels):
        return WEIGHT * ByHand.apply(x.float(), labels, way)

    disable = getattr(getattr(torch, "compiler", None), "disable", None)
    return disable(loss) if disable else loss  # nothing a compiler could look into


def ways(device):
    found = {"softmax": None, "ours": OLELoss(weight=WEIGHT), "authors": as_loss(authors)}
    if device == "cuda":
        found["svd"] = as_loss(peer.by_svd)
    return found


# ---- Measuring ------------------------------------------------------------------------------------


def in_turn(calls, device, seconds, warm=3, clock=time.perf_counter):
    """The median of each call in ms; they take turns until `seconds` each have passed."""
    sync = torch.cuda.synchronize if device == "cuda" else (lambda: None)
    for call in calls.values():
        for _ in range(warm):
            call()
    sync()
    times = {name: [] for name in calls}
    while True:
        for name, call in calls.items():
            start = clock()
            call()
            sync()
            times[name].append(1e3 * (clock() - start))
        least = min(times.values(), key=sum)  # of the fastest
        if len(least) >= 15 and sum(least) > 1e3 * seconds or len(least) >= 400:
            return {name: statistics.median(values) for name, values in times.items()}


def make_step(net_name, precision, mode, device, extra):
    """One step of a fresh net with the loss `extra` (None: softmax alone)."""
    torch.manual_seed(0)
    layout = torch.channels_last if device == "cuda" else torch.contiguous_format
    body, dim = NETS[net_name]()
    body, head = body.to(device, memory_format=layout), nn.Linear(dim, CLASSES).to(device)
    fused = {"fused": True} if device == "cuda" else {}
    optimizer = torch.optim.SGD([*body.parameters(), *head.parameters()], lr=0.01, momentum=0.9,
                                nesterov=True, weight_decay=1e-4, **fused)
    x = torch.randn(BATCH, 3, 32, 32, device=device).contiguous(memory_format=layout)
    y = (torch.arange(BATCH) % CLASSES).to(device)

    def objective():
        with torch.autocast(device, torch.bfloat16, enabled=precision == "bf16"):
            features = body(x)
            logits = head(features)
        loss = F.cross_entropy(logits.float(), y)
        return loss if extra is None else loss + extra(features, y)

    if mode != "eager":
        # A code object of its own: torch.compile keeps what it makes by code object, and mixes the ways up else.
        own = objective.__code__.replace(co_name=f"objective_{id(optimizer)}")
        objective = types.FunctionType(own, globals(), own.co_name, None, objective.__closure__)
        objective = torch.compile(objective, mode="reduce-overhead" if mode == "graphs" else "default")

    def step():
        if mode == "graphs":
            torch.compiler.cudagraph_mark_step_begin()
        optimizer.zero_grad(set_to_none=True)
        objective().backward()
        optimizer.step()

    return step


def bench_step(options):
    torch.backends.cudnn.benchmark = True
    for net in options.nets.split(","):
        for precision in options.precisions.split(","):
            torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = precision != "fp32"
            for mode in options.modes.split(","):
                if mode != "eager" and hasattr(torch, "_dynamo"):
                    torch._dynamo.reset()
                steps, failed = {}, {}
                for name, way in ways(options.device).items():
                    if name not in options.ways.split(","):
                        continue
                    step = make_step(net, precision, mode, options.device, way)
                    try:
                        step()
                        steps[name] = step
                    except Exception as reason:  # of a way that this mode cannot take
                        failed[name] = f"{type(reason).__name__}: {reason}"[:300]
                ms = in_turn(steps, options.device, options.seconds, warm=8)
                over = {f"{name} over softmax %": round(100 * (value / ms["softmax"] - 1), 2)
                        for name, value in ms.items() if name != "softmax"}
                print(json.dumps({"net": net, "precision": precision, "mode": mode, "batch": BATCH,
                                  "ms": {name: round(value, 3) for name, value in ms.items()}, **over,
                                  **({"failed": failed} if failed else {})}), flush=True)


def bench_loss(options):
    for rows, dim, classes in peer.ROWS:
        x, y = peer.make(rows, dim, classes)
        x, y = x.to(options.device).requires_grad_(), y.to(options.device)

        def call(way):
            return lambda: torch.autograd.grad(way(x, y), x)

        calls = {name: call(way) for name, way in ways(options.device).items() if way}
        clock = time.process_time if options.cpu_time else time.perf_counter
        ms = in_turn(calls, options.device, options.seconds, clock=clock)
        exact = authors(x.detach().double(), y)[1] * WEIGHT
        error = {name: float((run()[0].double() - exact).norm() / exact.norm()) for name, run in calls.items()}
        print(json.dumps({"rows": rows, "dim": dim, "classes": classes,
                          "ms": {name: round(value, 4) for name, value in ms.items()},
                          "authors / ours": round(ms["authors"] / ms["ours"], 2),
                          "gradient error": {name: f"{value:.1e}" for name, value in error.items()}}), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("step", "loss"))
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--nets", default="resnet110,vgg16")
    parser.add_argument("--modes", default="eager,compile,graphs" if hasattr(torch, "compile") else "eager")
    parser.add_argument("--precisions", default="bf16,tf32")
    parser.add_argument("--ways", default="softmax,ours,authors,svd", help="of step: softmax is what others are held against")
    parser.add_argument("--seconds", type=float, default=1.0, help="of each way's steps")
    parser.add_argument("--cpu-time", action="store_true", help="of the loss: processor time, not the clock's")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    print(json.dumps({"torch": torch.__version__, "ole": ole.__version__, "threads": options.threads, "cpu time": options.cpu_time,
                      "device": torch.cuda.get_device_name() if options.device == "cuda" else "cpu"}), flush=True)
    (bench_step if options.what == "step" else bench_loss)(options)


if __name__ == "__main__":
    main()
