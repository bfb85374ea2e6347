#!/usr/bin/env python3
"""Times a PyTorch training step with OLÉ, and the loss alone, beside the alternatives to ole.torch.

    python3 bench/bench_torch_step.py step [--nets resnet110,vgg16] [--modes eager,compile,graphs]
                                           [--precisions bf16,tf32] [--ways softmax,ours]
                                           [--device cuda] [--seconds 2]
    python3 bench/bench_torch_step.py loss [--device cpu] [--threads 2] [--cpu-time]
    python3 bench/bench_torch_step.py call [--device cpu] [--modes eager,compile] [--cpu-time]

`step`: forward, softmax, OLÉ (λ = 0.25), backward and SGD with Nesterov momentum on one batch of 64 in memory:
with softmax alone, with ole.torch, with the authors' algorithm (SciPy's gesvd on the host, class by class) and
with torch.linalg.svd.  `compile` is torch.compile of the objective, `graphs` the same with
mode="reduce-overhead" (CUDA graphs).  The variants alternate in random order, on a GPU eight consecutive steps
at a time so that the host's caches are as warm as in training; the result is the median.

`loss`: value and gradient through autograd, at the sizes of the paper's networks.  On a busy machine use --cpu-time,
which measures the CPU time of the process (and, to be fair, OPENBLAS_NUM_THREADS=1).

`call`: the host time of one call, forward and backward, on 8 x 16 features, in microseconds: with ole.torch, with
an empty autograd.Function (`nothing`), compiled with an empty operator (`operator`), and the library call alone
(`library`).  `own` is what ole.torch adds to the last two.  Medians, and first deciles for busy machines.

Prints one JSON object per line.  OLE_LIBRARY names the libole to use (with its libole_cuda.so beside it); the package
comes from bindings/python.
"""
import argparse
import json
import os
import random
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
from ole import _library as native  # noqa: E402
from ole._plans import Kind, Plan, bucket  # noqa: E402
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


def in_turn(calls, device, seconds, warm=3, clock=time.perf_counter, repeat=1, turns=40, wait=True,
            summary=statistics.median):
    """The median of each call in ms; they take turns in an order drawn anew each time, `repeat` calls in a row each,
    for so many turns and until `seconds` each have passed.  `wait`: until the GPU is done, else the host's part alone."""
    sync = torch.cuda.synchronize if device == "cuda" else (lambda: None)
    for call in calls.values():
        for _ in range(warm):
            call()
    sync()
    times = {name: [] for name in calls}
    draw = random.Random(0)
    while True:
        for name, call in draw.sample(list(calls.items()), len(calls)):
            start = clock()
            for _ in range(repeat):
                call()
            if wait:
                sync()
            times[name].append(1e3 * (clock() - start) / repeat)
            sync()
        least = min(times.values(), key=sum)  # of the fastest
        if len(least) >= turns and repeat * sum(least) > 1e3 * seconds or len(least) >= 400:
            return {name: summary(values) for name, values in times.items()}


def compiled(function, own_name, **options):
    """torch.compile with a code object of its own: what it makes is kept by code object, and mixed up else."""
    own = function.__code__.replace(co_name=own_name)
    return torch.compile(types.FunctionType(own, globals(), own_name, None, function.__closure__), **options)


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
        objective = compiled(objective, f"objective_{id(optimizer)}",
                             mode="reduce-overhead" if mode == "graphs" else "default")

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
                ms = in_turn(steps, options.device, options.seconds, warm=8, repeat=8 if options.device == "cuda" else 1, turns=8)
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


# ---- What a call costs the host --------------------------------------------------------------------


class Nothing(torch.autograd.Function):
    """What every loss with a derivative of its own pays: a number forward, what was saved backward."""

    @staticmethod
    def forward(ctx, x, labels):
        ctx.save_for_backward(x)
        return x.new_empty((), dtype=torch.float32)

    @staticmethod
    def backward(ctx, upstream):
        return ctx.saved_tensors[0], None


def nothing_as_operator():
    """A loss through an operator that computes nothing, and the library that has to live as long."""
    def numbers(x, labels):
        return x.new_empty(1, dtype=torch.float64), torch.empty_like(x)

    library = torch.library.Library("ole_bench", "DEF")
    library.define("nothing(Tensor x, Tensor labels) -> (Tensor, Tensor)")
    library.impl("nothing", numbers, "CompositeExplicitAutograd")
    torch.library.register_fake("ole_bench::nothing", numbers, lib=library)

    class Operator(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, labels):
            value, direction = torch.ops.ole_bench.nothing(x, labels)
            ctx.save_for_backward(direction)
            return value[0].to(torch.float32)

        @staticmethod
        def backward(ctx, upstream):
            return ctx.saved_tensors[0] * upstream, None

    return Operator.apply, library


def library_alone(x, labels):
    """The library's call on the tensors, value and gradient, without PyTorch; and what it writes to."""
    on_cpu = x.device.type == "cpu"
    gradient, outcome = torch.empty_like(x), torch.empty(native.OUTCOME_WORDS, dtype=torch.float64, device=x.device)
    stream = 0 if on_cpu else torch.cuda.current_stream().cuda_stream
    plan = Plan(Kind(bucket(len(x)), x.size(1), native.F32, gpu=-1 if on_cpu else x.device.index, stream=stream))
    addresses = (len(x), x.data_ptr(), x.stride(0), labels.data_ptr(), native.I64, gradient.data_ptr())
    if on_cpu:
        return lambda: plan.evaluate(addresses, 1.0), gradient
    return lambda: plan.queue(addresses, 1.0, outcome.data_ptr(), stream), (gradient, outcome)


def bench_call(options):
    clock = time.process_time if options.cpu_time else time.perf_counter
    labels = torch.arange(8, device=options.device) % 2
    wide = torch.randn(8, 16, device=options.device)
    for mode in options.modes.split(","):
        if mode == "graphs":  # whose replay calls nobody
            continue
        losses = {"nothing": Nothing.apply, "ours": OLELoss(weight=WEIGHT)}
        if mode == "compile":
            losses["operator"], library = nothing_as_operator()
        for dtype in (torch.float32, torch.bfloat16):
            x = wide.to(dtype).requires_grad_()

            def call(name, loss):
                def objective():
                    return loss(x.relu(), labels)

                run = objective if mode == "eager" else compiled(objective, f"{name}_{dtype}".replace(".", "_"))
                return lambda: torch.autograd.grad(run(), x)

            calls = {name: call(name, loss) for name, loss in losses.items()}
            calls["library"], written = library_alone(wide, labels)
            deciles = in_turn(calls, options.device, options.seconds, warm=20, clock=clock, repeat=20, wait=False,
                              summary=lambda values: statistics.quantiles(values, n=10))
            found = {}
            for word, i in (("median", 4), ("decile", 0)):
                us = {name: 1e3 * values[i] for name, values in deciles.items()}
                us["own"] = us["ours"] - us["library"] - us["operator" if mode == "compile" else "nothing"]
                found[word] = {name: round(value, 1) for name, value in us.items()}
            print(json.dumps({"mode": mode, "type": str(dtype).split(".")[1], **found}), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("step", "loss", "call"))
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--nets", default="resnet110,vgg16")
    parser.add_argument("--modes", default="eager,compile,graphs" if hasattr(torch, "compile") else "eager")
    parser.add_argument("--precisions", default="bf16,tf32")
    parser.add_argument("--ways", default="softmax,ours,authors,svd", help="of step: softmax is what others are held against")
    parser.add_argument("--seconds", type=float, default=1.0, help="of each way's steps")
    parser.add_argument("--cpu-time", action="store_true", help="of loss and call: processor time, not the clock's")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    print(json.dumps({"torch": torch.__version__, "ole": ole.__version__, "threads": options.threads, "cpu time": options.cpu_time,
                      "device": torch.cuda.get_device_name() if options.device == "cuda" else "cpu"}), flush=True)
    {"step": bench_step, "loss": bench_loss, "call": bench_call}[options.what](options)


if __name__ == "__main__":
    main()
