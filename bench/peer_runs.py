#!/usr/bin/env python3
"""Trains rows of Table 2 in PyTorch with the settings of recipes/ROW.yaml, for comparison.

    python3 bench/peer_runs.py ROW [--seeds 5] [--loss softmax|ole] [--precision fp32|tf32|bf16] [--epochs N]
                               [--init xavier|msra|release] [--test-every N] [--first-seed 0] [--processes K]
                               [--samples N]

Reads the binary files of $OLE_DATA/stl10 or cifar10 and tests on all test images there.  Prints a JSON object per
seed, with the test error after the last epoch and the seconds of training and testing, then one with mean and
standard deviation over the seeds.  With `--test-every` it also prints the lowest error seen, which is what the
authors' release prints for CIFAR-10.

On a GPU the images stay in its memory and a step, augmentation included, is a CUDA graph; otherwise the same steps run
on the CPU, where `--epochs 1 --samples 320` is a quick check.  `--loss ole` uses ole.torch (OLE_LIBRARY names the
libole, with its libole_cuda.so beside it) or, if that cannot be loaded, torch.linalg.svd, which no graph can capture.
"""
import argparse
import bisect
import concurrent.futures
import fractions
import json
import math
import multiprocessing
import os
import re
import statistics
import sys
import time
import types
import warnings
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "bindings" / "python")]

import numpy as np  # noqa: E402
import peer_loss_torch as peer  # noqa: E402
import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402

CLASSES, TEST_BATCH = 10, 250
WARM = 3  # steps before a capture: the choice of convolutions, the optimiser's memory
ROWS = ("stl10-cnn5", "stl10+-cnn5", "cifar10+-vgg11", "cifar10+-vgg11-release", "cifar10+-vgg19",
        "cifar10+-vgg19-release", "cifar10-vgg16", "cifar10-vgg16-release")
NETS = {
    "cnn5": "C32[noaffine]-MP-C64[noaffine]-MP-C128[noaffine]-MP-C128[noaffine]-MP-C256[p0,noaffine](x2)-MP",
    "vgg11": "C64-MP-C128-MP-C256(x2)-MP-C512(x2)-MP-C512(x2)-MP-FC512",
    "vgg11-release": "C64-MP-C128-MP-C256(x2)-MP-C512(x2)-MP-C512(x2)-MP",
    "vgg16": "C64(x5)-MP-C128(x4)-MP-C256(x4)-MP-FC256",
    "vgg19": "C64(x2)-MP-C128(x2)-MP-C256(x4)-MP-C512(x4)-MP-C512(x4)-MP-FC512",
    "vgg19-release": "C64(x2)-MP-C128(x2)-MP-C256(x4)-MP-C512(x4)-MP-C512(x4)-MP",
}
MEANS_AND_DEVIATIONS = {
    "half": ((0.5, 0.5, 0.5), (0.5, 0.5, 0.5)),
    "cifar": ((0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010)),
}


# ---- The recipe -----------------------------------------------------------------------------------


def list_of(text):
    return [word.strip() for word in text.strip("[]").split(",")]


def read_recipe(row, epochs):
    """The lines `key: value` of recipes/ROW.yaml before `paper:`; `epochs`, where not None, instead of its own."""
    text = (HERE.parent / "recipes" / f"{row}.yaml").read_text().split("\npaper:")[0]
    given = dict(line.split(": ", 1) for line in text.splitlines() if not line.startswith("#"))
    left = {"augment": "", "normalize": "auto", "momentum": "0.9", "nesterov": "true", **given}
    take = left.pop
    epochs = epochs or int(left["epochs"])
    recipe = types.SimpleNamespace(
        data=take("data"), net=NETS[take("net")], weight=float(fractions.Fraction(take("lambda"))),
        epochs=epochs, batch=int(take("batch_size")), optimizer=take("opt"), rate=float(take("lr")),
        momentum=float(take("momentum")), nesterov=take("nesterov") == "true", decay=float(take("weight_decay")),
        normalize=take("normalize"), init=take("init"))
    augment = list_of(take("augment"))
    recipe.mirror = "flip" in augment
    recipe.pad = sum(int(word[5:]) for word in augment if word.startswith("crop:"))
    recipe.milestones = [float(mark[:-1]) * epochs / 100 if mark.endswith("%") else float(mark)
                         for mark in list_of(take("milestones"))]  # epochs
    unknown = left.keys() - {"loss", "epochs", "seeds"}
    if unknown:
        sys.exit(f"recipes/{row}.yaml has settings that are not known here: {', '.join(sorted(unknown))}")
    return recipe


# ---- The images -----------------------------------------------------------------------------------


def read_stl10(folder, part):
    """Bytes [N, 3, height, width] and labels from 0."""
    labels = np.fromfile(folder / f"{part}_y.bin", np.uint8)
    planes = np.fromfile(folder / f"{part}_X.bin", np.uint8).reshape(-1, 3, 96, 96)  # columns of a plane
    if not 0 < len(planes) <= len(labels) or not 1 <= labels.min() <= labels.max() <= CLASSES:
        sys.exit(f"{folder}: {len(planes)} images in {part}_X.bin, {len(labels)} labels in {part}_y.bin, each 1 to 10")
    return planes.transpose(0, 1, 3, 2), labels[:len(planes)] - 1


def read_cifar10(folder, part):
    """Bytes [N, 3, height, width] and labels from 0."""
    names = [f"data_batch_{i}.bin" for i in range(1, 6)] if part == "train" else ["test_batch.bin"]
    rows = np.concatenate([np.fromfile(folder / name, np.uint8).reshape(-1, 1 + 3 * 32 * 32) for name in names])
    if not rows[:, 0].max() < CLASSES:
        sys.exit(f"{folder}: a label in {', '.join(names)} is not 0 to 9")
    return rows[:, 1:].reshape(-1, 3, 32, 32), rows[:, 0]


READERS = {"stl10": read_stl10, "cifar10": read_cifar10}


def padded(planes, pad):
    """Images [N, height, width, 3] with `pad` black pixels around."""
    count, _, height, width = planes.shape
    images = np.zeros((count, height + 2 * pad, width + 2 * pad, 3), np.uint8)
    images[:, pad:pad + height, pad:pad + width] = planes.transpose(0, 2, 3, 1)
    return torch.from_numpy(images)


def measure(planes):
    """Mean and deviation of each channel, of numbers from 0 to 1."""
    values, means, deviations = np.arange(256) / 255, [], []
    for channel in planes.transpose(1, 0, 2, 3):
        shares = np.bincount(channel.ravel(), minlength=256) / channel.size
        means.append(shares @ values)
        deviations.append(math.sqrt(shares @ (values - means[-1]) ** 2))
    return means, deviations


def cut_out(images, windows, side):
    """The rows of `windows` are sample, top, left and 1 for a mirrored image."""
    sample, top, left, mirror = windows[:, :, None, None].unbind(1)
    along = torch.arange(side, device=images.device)
    columns = torch.where(mirror == 1, side - 1 - along, along) + left
    return images[sample, along[:, None] + top, columns]


def draw_windows(samples, pad, mirror):
    """An epoch's windows in a new order."""
    order = torch.randperm(samples)
    if pad == 0 and not mirror:
        return F.pad(order[:, None], (0, 3))
    corners, mirrors = torch.randint(2 * pad + 1, (samples, 2)), torch.randint(1 + mirror, (samples, 1))
    return torch.cat([order[:, None], corners, mirrors], 1)


# ---- The network and the losses --------------------------------------------------------------------


def first_weights(shape, init):
    """Xavier's, or MSRA's by the outputs; `release`, as the authors' CIFAR nets: small numbers in linear layers."""
    weight = torch.empty(shape)
    if init == "xavier":
        return nn.init.xavier_uniform_(weight)
    if init == "release" and len(shape) == 2:
        return nn.init.normal_(weight, std=0.01)
    return nn.init.kaiming_normal_(weight, mode="fan_out", nonlinearity="relu")


class Net(nn.Module):
    """C, MP and FC of the paper's notation for square colour images, and a classifier of what the last one gives.

    C64 is a convolution 3x3 with bias, batch norm and ReLU, padded by 1 ([p0]: not at all); FC512 a linear layer, batch
    norm and ReLU; [noaffine]: batch norm without scale and shift; (x2): twice."""

    def __init__(self, notation, side):
        super().__init__()
        layers, channels = [], 3
        for kind, width, marks, times in re.findall(r"(C|MP|FC)(\d*)(?:\[(.*?)\])?(?:\(x(\d+)\))?", notation):
            affine, pad = "noaffine" not in marks, 0 if "p0" in marks else 1
            for _ in range(int(times or 1)):
                if kind == "MP":
                    layers.append(nn.MaxPool2d(2))
                    side //= 2
                    continue
                if kind == "C":
                    layers += [nn.Conv2d(channels, int(width), 3, padding=pad),
                               nn.BatchNorm2d(int(width), affine=affine)]
                    side += 2 * pad - 2
                else:
                    layers += [nn.Flatten(), nn.Linear(channels * side * side, int(width)),
                               nn.BatchNorm1d(int(width), affine=affine)]
                    side = 1
                layers.append(nn.ReLU(inplace=True))
                channels = int(width)
        self.body, self.head = nn.Sequential(*layers, nn.Flatten()), nn.Linear(channels * side * side, CLASSES)

    def forward(self, x):
        features = self.body(x)
        return features, self.head(features)

    @torch.no_grad()
    def begin(self, init):
        """First weights and statistics, in the memory that they have, and the same on every device."""
        for module in self.modules():
            if isinstance(module, (nn.Conv2d, nn.Linear)):
                module.weight.copy_(first_weights(module.weight.shape, init))
                module.bias.zero_()
            elif isinstance(module, (nn.BatchNorm1d, nn.BatchNorm2d)):
                module.reset_parameters()


class BySVD(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, labels):
        value, gradient = peer.by_svd(x.double(), labels)  # float32 would be multiplied in tf32
        ctx.save_for_backward(gradient.to(x.dtype))
        return value.to(x.dtype)

    @staticmethod
    def backward(ctx, upstream):
        return ctx.saved_tensors[0] * upstream, None


def choose_ole(device):
    """The loss, of weight 1, and what computes it."""
    try:
        from ole.torch import ole_loss

        ole_loss(torch.ones(2, 2, device=device), torch.arange(2, device=device))  # loads the library
        return ole_loss, "ole.torch"
    except (ImportError, OSError, RuntimeError) as reason:
        print(f"OLÉ by torch.linalg.svd, without CUDA graphs: {reason}", file=sys.stderr)
        return BySVD.apply, "torch.linalg.svd"


# ---- Training -------------------------------------------------------------------------------------


class Trainer:
    """Network, optimiser and images on a device. What a graph has captured stays where it is: every seed begins in
    the same memory."""

    def __init__(self, options):
        self.options, self.recipe = options, read_recipe(options.row, options.epochs)
        self.init = options.init or self.recipe.init
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        self.ole, self.way = choose_ole(self.device) if options.loss == "ole" else (None, None)
        on_gpu = self.device == "cuda"
        torch.backends.cudnn.benchmark = True
        torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = options.precision != "fp32"

        self.load()
        self.net = Net(self.recipe.net, self.side).to(self.device, memory_format=torch.channels_last)
        self.optimizer = self.make_optimizer(on_gpu)

        samples, batch = len(self.images), self.recipe.batch
        self.batches = [batch] * (samples // batch) + [samples % batch] * (samples % batch > 0)
        make = self.capture if on_gpu and self.way != "torch.linalg.svd" else self.eager
        self.steps = {size: make(size) for size in sorted(set(self.batches), reverse=True)}

    def load(self):
        """Images, labels and how the images are normalised."""
        recipe, folder = self.recipe, Path(os.environ["OLE_DATA"]) / self.recipe.data
        planes, labels = (array[:self.options.samples] for array in READERS[recipe.data](folder, "train"))
        test_planes, test_labels = READERS[recipe.data](folder, "test")
        self.side = planes.shape[-1]
        self.images, self.test_images = (padded(*of).to(self.device) for of in ((planes, recipe.pad), (test_planes, 0)))
        self.labels, self.test_labels = (torch.from_numpy(array.astype(np.int64)).to(self.device)
                                         for array in (labels, test_labels))
        numbers = measure(planes) if recipe.normalize == "auto" else MEANS_AND_DEVIATIONS[recipe.normalize]
        self.mean, self.deviation = (torch.tensor(row, dtype=torch.float32, device=self.device) for row in numbers)

    def make_optimizer(self, on_gpu):
        """On a GPU with the rate in its memory, where a graph reads it anew at each step."""
        recipe, parameters = self.recipe, self.net.parameters()
        rate = {"lr": torch.tensor(recipe.rate, device=self.device), "fused": True} if on_gpu else {"lr": recipe.rate}
        if recipe.optimizer == "adam":
            return torch.optim.Adam(parameters, weight_decay=recipe.decay, capturable=on_gpu, **rate)
        return torch.optim.SGD(parameters, weight_decay=recipe.decay, momentum=recipe.momentum,
                               nesterov=recipe.nesterov, **rate)

    def normalised(self, images):
        """Bytes [N, H, W, 3] as [N, 3, H, W] with the channels last in memory."""
        return ((images / 255 - self.mean) / self.deviation).permute(0, 3, 1, 2)

    def autocast(self):
        half = self.options.precision == "bf16"
        return torch.autocast(self.device, torch.bfloat16, enabled=half, cache_enabled=False)

    def step(self, windows):
        """One step of training on the windows; its loss."""
        self.optimizer.zero_grad(set_to_none=True)
        labels = self.labels[windows[:, 0]]
        with self.autocast():
            features, logits = self.net(self.normalised(cut_out(self.images, windows, self.side)))
        loss = F.cross_entropy(logits.float(), labels)
        if self.ole:
            loss = loss + self.recipe.weight * self.ole(features.float(), labels)
        loss.backward()
        self.optimizer.step()
        return loss.detach()

    def eager(self, size):
        return self.step

    def capture(self, size):
        """A step of `size` windows as a graph. Its gradients lie in the graph's memory: zero_grad before has taken
        away any others, so that they are written there and not added to."""
        windows = torch.zeros(size, 4, dtype=torch.int64, device=self.device)
        windows[:, 0] = torch.arange(size, device=self.device)
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(WARM):  # what these learn, begin() forgets
                self.step(windows)
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            loss = self.step(windows)

        def replay(given):
            windows.copy_(given)
            graph.replay()
            return loss

        return replay

    def set_rate(self, rate):
        for group in self.optimizer.param_groups:
            if torch.is_tensor(group["lr"]):
                group["lr"].fill_(rate)
            else:
                group["lr"] = rate

    def begin(self, seed):
        torch.manual_seed(seed)
        self.net.train()
        self.net.begin(self.init)
        for state in self.optimizer.state.values():  # step and moments, or momentum: there since the first step
            for value in state.values():
                value.zero_()

    def train(self, seed):
        """Errors in % after every so many epochs, and after the last."""
        self.begin(seed)
        recipe, done, errors, start = self.recipe, 0, [], time.perf_counter()
        drops = [math.ceil(mark * len(self.batches)) for mark in recipe.milestones]
        self.set_rate(recipe.rate)
        for epoch in range(1, recipe.epochs + 1):
            windows = draw_windows(len(self.images), recipe.pad, recipe.mirror).to(self.device)
            for part in windows.split(recipe.batch):
                if done in drops:
                    self.set_rate(recipe.rate * 0.1 ** bisect.bisect_right(drops, done))
                loss = self.steps[len(part)](part)
                done += 1
            last, every = epoch == recipe.epochs, self.options.test_every
            if last or (every and epoch % every == 0):
                errors.append(self.test())
            if last or epoch % 20 == 0:
                print(f"seed {seed}, epoch {epoch} of {recipe.epochs}: loss of the last batch {loss.item():.4f}, "
                      f"{time.perf_counter() - start:.1f} s", file=sys.stderr, flush=True)
        return errors

    @torch.no_grad()
    def test(self):
        self.net.eval()
        wrong = torch.zeros((), dtype=torch.int64, device=self.device)
        for images, labels in zip(self.test_images.split(TEST_BATCH), self.test_labels.split(TEST_BATCH)):
            with self.autocast():
                logits = self.net(self.normalised(images))[1]
            wrong += (logits.argmax(1) != labels).sum()
        self.net.train()
        return 100 * wrong.item() / len(self.test_labels)


# ---- The seeds ------------------------------------------------------------------------------------

trainer = None  # of this process


def begin_process(options):
    global trainer
    warnings.filterwarnings("ignore", "This instance was constructed with capturable=True")  # said of the warm-up
    start = time.perf_counter()
    trainer = Trainer(options)
    print(f"ready in {time.perf_counter() - start:.1f} s: {len(trainer.images)} training images, "
          f"{len(trainer.test_images)} test images, on {trainer.device}", file=sys.stderr, flush=True)


def run(seed):
    start = time.perf_counter()
    errors, options = trainer.train(seed), trainer.options
    return {"seed": seed, "row": options.row, "loss": options.loss, **({"ole by": trainer.way} if trainer.way else {}),
            "precision": options.precision, "init": trainer.init, "epochs": trainer.recipe.epochs,
            "training images": len(trainer.images), "test images": len(trainer.test_images),
            "test error %": round(errors[-1], 4), "smallest %": round(min(errors), 4), "tests": len(errors),
            "seconds": round(time.perf_counter() - start, 2)}


def results(options):
    """A record of each seed, in their order."""
    seeds = range(options.first_seed, options.first_seed + options.seeds)
    if options.processes == 1:
        begin_process(options)
        yield from map(run, seeds)
        return
    fresh = multiprocessing.get_context("spawn")  # a fork could not use the GPU
    with concurrent.futures.ProcessPoolExecutor(options.processes, fresh, begin_process, (options,)) as pool:
        yield from pool.map(run, seeds)


def positive(text):
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{value}: give 1 or more")
    return value


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("row", choices=ROWS, metavar="ROW", help=", ".join(ROWS))
    parser.add_argument("--seeds", type=positive, default=5)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--loss", choices=("softmax", "ole"), default="softmax", help="ole: softmax + OLÉ")
    parser.add_argument("--precision", choices=("fp32", "tf32", "bf16"), default="fp32")
    parser.add_argument("--epochs", type=positive, help="instead of the recipe's")
    parser.add_argument("--init", choices=("xavier", "msra", "release"), help="instead of the recipe's")
    parser.add_argument("--test-every", type=positive, metavar="N", help="epochs, for the smallest error of all tests")
    parser.add_argument("--processes", type=positive, default=1, help="that share the seeds, each with its images")
    parser.add_argument("--samples", type=positive, help="the first so many training images alone")
    options = parser.parse_args()
    options.processes = min(options.processes, options.seeds)
    if "OLE_DATA" not in os.environ:
        sys.exit("OLE_DATA is not set: the folder that has stl10/ and cifar10/")
    start, records = time.perf_counter(), []
    for record in results(options):
        records.append(record)
        print(json.dumps(record), flush=True)
    errors = [record["test error %"] for record in records]
    mean, deviation = statistics.mean(errors), statistics.stdev(errors) if len(errors) > 1 else 0.0
    print(json.dumps({"seeds": len(errors), "row": options.row, "loss": options.loss, "precision": options.precision,
                      "test images": record["test images"], "test error %": f"{mean:.2f} ± {deviation:.2f}",
                      "mean": round(mean, 4), "std": round(deviation, 4),
                      "mean of the smallest": round(statistics.mean(r["smallest %"] for r in records), 4),
                      "seconds": round(time.perf_counter() - start, 2), "torch": torch.__version__,
                      "device": torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu"},
                     ensure_ascii=False))


if __name__ == "__main__":
    main()
