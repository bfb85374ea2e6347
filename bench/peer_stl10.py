#!/usr/bin/env python3
"""CNN-5 on STL-10 by the authors' recipe in PyTorch: what recipes/stl10-cnn5.yaml and stl10+-cnn5.yaml are held against.

    python3 bench/peer_stl10.py --seeds 5 [--loss softmax|ole] [--augment] [--precision fp32|tf32|bf16]
                                [--epochs 164] [--first-seed 0] [--processes K] [--samples N]

Reads train_X.bin, train_y.bin, test_X.bin and test_y.bin of $OLE_DATA/stl10, and tests on all the images that
test_X.bin has.  Prints a JSON object for each seed, with the test error after the last epoch and the seconds of
training and test, then one with mean and standard deviation over the seeds.

On a GPU the images stay there and a step is a CUDA graph, the augmentation in it; without one the same steps run on
the CPU, where `--epochs 1 --samples 320` is a quick check.  `--loss ole` adds OLÉ by ole.torch; where that does not
load (OLE_LIBRARY names the libole to use, its libole_cuda.so beside it) by torch.linalg.svd, which no graph can hold.
"""
import argparse
import concurrent.futures
import json
import math
import multiprocessing
import os
import statistics
import sys
import time
import warnings
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "bindings" / "python")]

import numpy as np  # noqa: E402
import peer_loss_torch as peer  # noqa: E402
import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402

SIDE, CLASSES, BATCH, TEST_BATCH, RATE = 96, 10, 32, 250, 1e-3
WARM = 3  # steps before a capture: the choice of convolutions, the optimiser's memory
# Without and with --augment: λ, weight decay, and the pixels of black around an image that is cropped.
PLAIN, AUGMENTED = (1 / 16, 1e-4, 0), (1 / 4, 1e-3, 12)


# ---- The images -----------------------------------------------------------------------------------


def read(folder, part, pad, most=None):
    """Images [N, height, width, 3] in bytes with `pad` black pixels around, and labels from 0."""
    labels = np.fromfile(folder / f"{part}_y.bin", np.uint8)
    planes = np.fromfile(folder / f"{part}_X.bin", np.uint8).reshape(-1, 3, SIDE, SIDE)  # columns of a plane
    if not 0 < len(planes) <= len(labels) or not 1 <= labels.min() <= labels.max() <= CLASSES:
        sys.exit(f"{folder}: {len(planes)} images in {part}_X.bin, {len(labels)} labels in {part}_y.bin, which are 1 to 10")
    planes = planes[:most]
    labels = labels[:len(planes)]
    images = np.zeros((len(planes), SIDE + 2 * pad, SIDE + 2 * pad, 3), np.uint8)
    images[:, pad:pad + SIDE, pad:pad + SIDE] = planes.transpose(0, 3, 2, 1)
    return torch.from_numpy(images), torch.from_numpy(labels.astype(np.int64) - 1)


def normalised(images):
    """(x / 255 - 0.5) / 0.5 of bytes [N, H, W, 3], as [N, 3, H, W] with the channels last in memory."""
    return (images / 127.5 - 1).permute(0, 3, 1, 2)


def cut_out(images, windows):
    """The rows of `windows` are sample, top, left and 1 for a mirrored image."""
    sample, top, left, mirror = windows[:, :, None, None].unbind(1)
    along = torch.arange(SIDE, device=images.device)
    columns = torch.where(mirror == 1, SIDE - 1 - along, along) + left
    return normalised(images[sample, along[:, None] + top, columns])


def draw_windows(samples, pad):
    """An epoch's windows in a new order."""
    order = torch.randperm(samples)
    if pad == 0:
        return F.pad(order[:, None], (0, 3))
    corners, mirrors = torch.randint(2 * pad + 1, (samples, 2)), torch.randint(2, (samples, 1))
    return torch.cat([order[:, None], corners, mirrors], 1)


# ---- The network and the losses --------------------------------------------------------------------


class CNN5(nn.Module):
    """C32-MP-C64-MP-C128-MP-C128-MP-C256-C256-MP, the last two convolutions without padding, batch norm without
    scale and shift; 256 features and a classifier."""

    def __init__(self):
        super().__init__()
        layers, channels = [], 3
        for width, padding, pool in ((32, 1, True), (64, 1, True), (128, 1, True), (128, 1, True), (256, 0, False),
                                     (256, 0, True)):
            layers += [nn.Conv2d(channels, width, 3, padding=padding), nn.BatchNorm2d(width, affine=False),
                       nn.ReLU(inplace=True)]
            layers += [nn.MaxPool2d(2)] if pool else []
            channels = width
        self.body, self.head = nn.Sequential(*layers, nn.Flatten()), nn.Linear(channels, CLASSES)

    def forward(self, x):
        features = self.body(x)
        return features, self.head(features)

    def begin(self):
        """First weights and statistics, in the memory that they have, and the same on every device."""
        with torch.no_grad():
            for parameter in self.parameters():
                first = torch.zeros(parameter.shape)
                parameter.copy_(nn.init.xavier_uniform_(first) if first.dim() > 1 else first)
        for module in self.modules():
            if isinstance(module, nn.BatchNorm2d):
                module.reset_running_stats()


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
        self.options = options
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        self.weight, decay, self.pad = AUGMENTED if options.augment else PLAIN
        self.ole, self.way = choose_ole(self.device) if options.loss == "ole" else (None, None)
        on_card = self.device == "cuda"
        torch.backends.cudnn.benchmark = True
        torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = options.precision != "fp32"

        folder = Path(os.environ["OLE_DATA"]) / "stl10"
        self.images, self.labels = (t.to(self.device) for t in read(folder, "train", self.pad, options.samples))
        self.test_images, self.test_labels = (t.to(self.device) for t in read(folder, "test", 0))
        self.net = CNN5().to(self.device, memory_format=torch.channels_last)
        # A rate in the card's memory, where a graph reads it anew at each step.
        rate = {"lr": torch.tensor(RATE, device=self.device), "capturable": True, "fused": True} if on_card else {"lr": RATE}
        self.optimizer = torch.optim.Adam(self.net.parameters(), weight_decay=decay, **rate)

        samples = len(self.images)
        self.batches = [BATCH] * (samples // BATCH) + [samples % BATCH] * (samples % BATCH > 0)
        make = self.capture if on_card and self.way != "torch.linalg.svd" else self.eager
        self.steps = {size: make(size) for size in sorted(set(self.batches), reverse=True)}

    def autocast(self):
        return torch.autocast(self.device, torch.bfloat16, enabled=self.options.precision == "bf16", cache_enabled=False)

    def step(self, windows):
        """One step of training on the windows; its loss."""
        self.optimizer.zero_grad(set_to_none=True)
        labels = self.labels[windows[:, 0]]
        with self.autocast():
            features, logits = self.net(cut_out(self.images, windows))
        loss = F.cross_entropy(logits.float(), labels)
        if self.ole:
            loss = loss + self.weight * self.ole(features.float(), labels)
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
        self.net.begin()
        for state in self.optimizer.state.values():  # step and both moments, there since the first step
            for value in state.values():
                value.zero_()

    def train(self, seed):
        self.begin(seed)
        epochs, done, rate, start = self.options.epochs, 0, RATE, time.perf_counter()
        drops = [math.ceil(share * epochs * len(self.batches)) for share in (0.5, 0.75)]
        self.set_rate(rate)
        for epoch in range(1, epochs + 1):
            windows = draw_windows(len(self.images), self.pad).to(self.device)
            for part in windows.split(BATCH):
                if done in drops:
                    rate *= 0.1
                    self.set_rate(rate)
                loss = self.steps[len(part)](part)
                done += 1
            if epoch % 20 == 0 or epoch == epochs:
                print(f"seed {seed}, epoch {epoch} of {epochs}: loss of the last batch {loss.item():.4f}, "
                      f"{time.perf_counter() - start:.1f} s", file=sys.stderr, flush=True)

    @torch.no_grad()
    def test(self):
        """The error in %."""
        self.net.eval()
        wrong = torch.zeros((), dtype=torch.int64, device=self.device)
        for images, labels in zip(self.test_images.split(TEST_BATCH), self.test_labels.split(TEST_BATCH)):
            with self.autocast():
                logits = self.net(normalised(images))[1]
            wrong += (logits.argmax(1) != labels).sum()
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
    trainer.train(seed)
    error, options = trainer.test(), trainer.options
    return {"seed": seed, "loss": options.loss, **({"ole by": trainer.way} if trainer.way else {}),
            "precision": options.precision, "augment": options.augment, "epochs": options.epochs,
            "training images": len(trainer.images), "test images": len(trainer.test_images),
            "test error %": round(error, 4), "seconds": round(time.perf_counter() - start, 2)}


def results(options):
    """A record of each seed, in their order."""
    seeds = range(options.first_seed, options.first_seed + options.seeds)
    if options.processes == 1:
        begin_process(options)
        yield from map(run, seeds)
        return
    fresh = multiprocessing.get_context("spawn")  # a fork could not use the card
    with concurrent.futures.ProcessPoolExecutor(options.processes, fresh, begin_process, (options,)) as pool:
        yield from pool.map(run, seeds)


def positive(text):
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{value}: give 1 or more")
    return value


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=positive, default=5)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--loss", choices=("softmax", "ole"), default="softmax", help="ole: softmax + OLÉ")
    parser.add_argument("--augment", action="store_true", help="crops of images padded by 12, mirrored images")
    parser.add_argument("--precision", choices=("fp32", "tf32", "bf16"), default="fp32")
    parser.add_argument("--epochs", type=positive, default=164)
    parser.add_argument("--processes", type=positive, default=1, help="that share the seeds, each with images and graphs")
    parser.add_argument("--samples", type=positive, help="the first so many training images alone")
    options = parser.parse_args()
    options.processes = min(options.processes, options.seeds)
    if "OLE_DATA" not in os.environ:
        sys.exit("OLE_DATA is not set: the folder that has stl10/")
    start, errors = time.perf_counter(), []
    for record in results(options):
        errors.append(record["test error %"])
        print(json.dumps(record), flush=True)
    mean, deviation = statistics.mean(errors), statistics.stdev(errors) if len(errors) > 1 else 0.0
    print(json.dumps({"seeds": len(errors), "loss": options.loss, "precision": options.precision,
                      "augment": options.augment, "test images": record["test images"],
                      "test error %": f"{mean:.2f} ± {deviation:.2f}", "mean": round(mean, 4), "std": round(deviation, 4),
                      "seconds": round(time.perf_counter() - start, 2), "torch": torch.__version__,
                      "device": torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu"},
                     ensure_ascii=False))


if __name__ == "__main__":
    main()
