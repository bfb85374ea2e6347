#!/usr/bin/env python3
"""test_published.py - torchvision's networks and ours with the same weights, loaded by torchvision's names.

Outputs of ResNets and VGGs, and of CIFAR's ResNets and wide ResNets written out here, to 1e-4; the losses of twenty
training steps and the outputs after them; checkpoints that hold more than tensors, or harm.  Exits with 77 without
PyTorch and torchvision.

With the files of github.com/akamaster/pytorch_resnet_cifar10 in $OLE_DATA/pytorch_resnet_cifar10 and CIFAR-10 in
$OLE_DATA/cifar10: `ole eval` gives the test errors that their README prints.
"""
import json
import os
import pickle
import subprocess
import sys
import tempfile
from pathlib import Path

try:
    import numpy as np
    import torch
    import torchvision
    from torch import nn
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

import networks
from support import PACKAGE

sys.path.insert(0, str(PACKAGE))
from ole import convert  # noqa: E402

MOST = 1e-4
STEPS, LEARNING_RATE = 20, 1e-4
CIFAR_RESNETS = {"resnet20": 3, "resnet32": 5, "resnet44": 7, "resnet56": 9, "resnet110-basic": 18}
SHALLOW = "C64[k7,s2,nobias]-MP[k3,s2,p1]-R256/64-R512/128-R1024/256-R2048/512-AP"
SMALL_WRN = "C16[nobn,norelu,nobias]-PB16(x2)-PB32(x2)-PB64(x2)-BN-ReLU-AP"  # WRN-16-1


class Basic(nn.Module):
    """A basic block of CIFAR's ResNets, with the shortcut that has no weights."""

    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.stride, self.around = stride, (outputs - inputs) // 2

    def forward(self, x):
        y = self.bn2(self.conv2(self.bn1(self.conv1(x)).relu()))
        x = x[:, :, ::self.stride, ::self.stride]
        return (y + nn.functional.pad(x, (0, 0, 0, 0, self.around, self.around))).relu()


class CifarResNet(nn.Module):
    def __init__(self, blocks):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16)
        width = 16
        for stage in (1, 2, 3):
            layer, outputs = [], 8 << stage
            for block in range(blocks):
                layer.append(Basic(width, outputs, 2 if stage > 1 and block == 0 else 1))
                width = outputs
            setattr(self, f"layer{stage}", nn.Sequential(*layer))
        self.linear = nn.Linear(64, 10)

    def forward(self, x):
        x = self.layer3(self.layer2(self.layer1(self.bn1(self.conv1(x)).relu())))
        return self.linear(x.mean((2, 3)))


class Wide(nn.Module):
    """A block of Zagoruyko and Komodakis' wide ResNets: where the shape changes, a projection of its first ReLU."""

    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.norm1, self.conv1 = nn.BatchNorm2d(inputs), nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.norm2, self.conv2 = nn.BatchNorm2d(outputs), nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.shortcut = None
        if inputs != outputs:
            self.shortcut = nn.ModuleDict({"conv": nn.Conv2d(inputs, outputs, 1, stride, bias=False)})

    def forward(self, x):
        first = self.norm1(x).relu()
        y = self.conv2(self.norm2(self.conv1(first)).relu())
        return y + (self.shortcut["conv"](first) if self.shortcut else x)


class WideResNet(nn.Module):
    """Its modules are called as ours, token by token: no publisher's names for these are common."""

    def __init__(self, depth, factor):
        super().__init__()
        self.add_module("1", nn.ModuleDict({"conv": nn.Conv2d(3, 16, 3, 1, 1, bias=False)}))
        width = 16
        for stage in range(3):
            layer, outputs = nn.Sequential(), (16 << stage) * factor
            for block in range((depth - 4) // 6):
                layer.add_module(f"block{block + 1}", Wide(width, outputs, 2 if stage and block == 0 else 1))
                width = outputs
            self.add_module(str(2 + stage), layer)
        self.add_module("5", nn.ModuleDict({"norm": nn.BatchNorm2d(width)}))
        self.classifier = nn.Linear(width, 10)

    def forward(self, x):
        part = dict(self.named_children())
        x = part["4"](part["3"](part["2"](part["1"]["conv"](x))))
        return self.classifier(part["5"]["norm"](x).relu().mean((2, 3)))


def small_vgg(batch_norm):
    """torchvision's VGG, narrow, and without dropout, whose random numbers would differ."""
    features = torchvision.models.vgg.make_layers(
        [16, 16, "M", 24, 24, "M", 32, 32, 32, "M", 40, 40, 40, "M", 48, 48, 48, "M"], batch_norm=batch_norm)
    module = torchvision.models.VGG(features, num_classes=10, init_weights=False)
    module.avgpool = nn.Identity()
    module.classifier = nn.Sequential(nn.Linear(48, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    return module


def shallow():
    """ResNet-50 with a block per stage.  All 16 blocks amplify rounding: PyTorch's float32 ends 2e-3 from its float64."""
    return torchvision.models.ResNet(torchvision.models.resnet.Bottleneck, [1, 1, 1, 1], num_classes=10)


def small_vgg_net(modifier):
    return "-MP-".join(f"C{c}{modifier}(x{n})" for c, n in ((16, 2), (24, 2), (32, 3), (40, 3), (48, 3))) + \
        "-MP-FCD64[d0](x2)"


def randomise(module, seed):
    """Weights and running statistics that let signals through, and differ everywhere."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, value in module.state_dict().items():
            if not value.is_floating_point():
                continue
            noise = torch.randn(value.shape, generator=generator)
            if value.ndim > 1:
                value.copy_(noise * (2 / value[0].numel()) ** 0.5)
            elif name.endswith("running_var") or name.endswith("weight"):
                value.copy_(1 + 0.1 * noise.clamp(-3, 3))
                if name.endswith("bn3.weight"):  # of bottlenecks, whose sums would double block by block
                    value.mul_(0.25)
            else:
                value.copy_(0.1 * noise)
    return module


def save(module, work, net, size):
    checkpoint, path = Path(work) / "model.pth", Path(work) / "model.safetensors"
    prefix = "" if isinstance(module, WideResNet) else "module."  # as PyTorch's parallel modules leave it
    torch.save({"state_dict": {f"{prefix}{k}": v for k, v in module.state_dict().items()}, "epoch": 3}, checkpoint)
    status = convert.main([str(checkpoint), str(path), "--net", net, "--input", "x".join(map(str, size))])
    checkpoint.unlink()
    if status:
        raise RuntimeError("convert failed")
    return path


def compare(ole, work, net, module, size, count=3):
    randomise(module, len(net)).eval()
    images = networks.random_images(size, count).astype(np.float32) / 255
    with torch.no_grad():
        theirs = module(torch.from_numpy(images)).numpy()
    path = save(module, work, net, size)
    ours = networks.run_model(ole, path, images, width_of(ole, net, size))[1]
    path.unlink()
    worst = networks.distance(ours, theirs)
    print(f"{net}: differs by {worst:.1e}, logits vary by {ours.std(axis=0).max():.2g}")
    return worst <= MOST and ours.std(axis=0).max() > 1e-3


def width_of(ole, net, size):
    return networks.graph(ole, net, size)[-1]["in"][0]


def train(ole, work, net, module, size):
    """All samples in one batch, so that no order of samples matters.  PyTorch runs on one thread: with two, the losses
    of the VGG with batch norm are 2e-4 from those that PyTorch 1.13 itself finds in float64, with one 9e-7."""
    torch.set_num_threads(1)
    randomise(module, 7).train()
    images = networks.random_images(size, 16).astype(np.float32) / 255
    labels = np.arange(16) % 10
    np.save(Path(work) / "X.npy", images)
    np.save(Path(work) / "y.npy", labels)
    path = save(module, work, net, size)
    optimiser = torch.optim.SGD(module.parameters(), lr=LEARNING_RATE, momentum=0.9, nesterov=True, weight_decay=1e-4)
    losses = []
    for _ in range(STEPS):
        loss = nn.functional.cross_entropy(module(torch.from_numpy(images)), torch.from_numpy(labels))
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    done = subprocess.run(
        [ole, "train", "npy:X.npy,y.npy,X.npy,y.npy", "--net", net, "--init-from", path.name, "--loss", "softmax",
         "--epochs", str(STEPS), "--batch-size", "16", "--lr", str(LEARNING_RATE), "--milestones", "none",
         "--weight-decay", "1e-4", "--normalize", "none", "--precision", "fp32", "--out", net, "--no-report", "--no-unknown"],
        cwd=work, capture_output=True, text=True)
    if done.returncode:
        print(done.stdout, done.stderr)
        return False
    lines = [json.loads(line) for line in (Path(work) / net / "metrics.jsonl").read_text().splitlines()]
    ours = [line["softmax_loss"] for line in lines if "softmax_loss" in line]
    error = max(abs(a / b - 1) for a, b in zip(ours, losses))
    module.eval()
    with torch.no_grad():
        theirs = module(torch.from_numpy(images)).numpy()
    after = networks.run_model(ole, Path(work) / net / "last.safetensors", images, width_of(ole, net, size))[1]
    apart = networks.distance(after, theirs)
    print(f"{net}: {STEPS} losses from {losses[0]:.3f} to {losses[-1]:.3f} differ by {error:.1e}, logits by {apart:.1e}")
    every = f"model.safetensors: {len(list(module.parameters())) + 2 * len(ole_norms(module))} loaded, 0 skipped, 0 left"
    if every not in done.stderr:
        print(f"not in stderr: {every}\n{done.stderr}")
    return len(ours) == STEPS and error <= MOST and apart <= MOST and every in done.stderr


def ole_norms(module):
    return [m for m in module.modules() if isinstance(m, nn.BatchNorm2d)]


class Harm:
    def __reduce__(self):
        return exec, ("open('harmed', 'w')",)


def check_checkpoints(work):
    """Numbers beside tensors are read; code is not run; a message says what is wrong."""
    work, good = Path(work), True
    torch.save({"w": Harm()}, work / "harm.zip")
    for name, data, message in (("harm.pth", pickle.dumps({"w": Harm()}), "safely: "), ("harm.zip", None, "safely: "),
                                ("short.pth", b"PK\3\4", "safely: "), ("none.pth", None, "no such file")):
        if data is not None:
            (work / name).write_bytes(data)
        done = subprocess.run([sys.executable, "-m", "ole.convert", name, "out.safetensors"], cwd=work,
                              env={"PYTHONPATH": str(PACKAGE)}, capture_output=True, text=True)
        told = done.returncode == 1 and done.stderr.startswith(f"ole.convert: {name}: ") and done.stderr.count("\n") == 1 and message in done.stderr
        if not told or (work / "out.safetensors").exists() or (work / "harmed").exists():
            print(f"{name}: {done.returncode} {done.stderr}")
            good = False
    old = work / "old.th"  # the format before PyTorch 1.6, with a number beside the tensors
    torch.save({"state_dict": {"w": torch.arange(6.0).reshape(2, 3)}, "best": 91.5}, old, _use_new_zipfile_serialization=False)
    tensors = convert.read_state(str(old))
    return good and list(tensors) == ["w"] and bool((tensors["w"] == torch.arange(6.0).reshape(2, 3)).all())


def check_errors(ole, work):
    """The README of those weights: its test errors of CIFAR-10, to the image."""
    root = Path(os.environ.get("OLE_DATA", "unset"))
    if not (root / "pytorch_resnet_cifar10").is_dir() or not (root / "cifar10").is_dir():
        print("OLE_DATA has no pytorch_resnet_cifar10 and cifar10: published test errors not checked")
        return True
    good = True
    for depth, file, wrong in ((20, "resnet20-12fca82f.th", 827), (32, "resnet32-d509ac18.th", 737),
                               (44, "resnet44-014dd654.th", 690), (56, "resnet56-4bfd9763.th", 661)):
        model = Path(work) / "published.safetensors"
        status = convert.main([str(root / "pytorch_resnet_cifar10" / file), str(model), "--net", f"resnet{depth}",
                               "--normalize", "imagenet"])
        done = subprocess.run([ole, "eval", model, f"cifar10:{root / 'cifar10'}", "--samples-per-class", "10", "--json"],
                              capture_output=True, text=True, check=not status)
        found = json.loads(done.stdout)
        print(f"resnet{depth}, published: error {found['error']:.2f} % of {found['n']}")
        good = good and found["n"] == 10000 and round(found["error"] * 100) == wrong
    return good


def main():
    ole = networks.program()
    torch.set_num_threads(2)
    models = torchvision.models
    with tempfile.TemporaryDirectory(prefix="ole-published-") as work:
        good = [compare(ole, work, "resnet18", models.resnet18(num_classes=10), [3, 64, 64]),
                compare(ole, work, "resnet34", models.resnet34(num_classes=10), [3, 64, 64]),
                compare(ole, work, "resnet50", models.resnet50(num_classes=10), [3, 64, 64]),
                compare(ole, work, "resnet101", models.resnet101(num_classes=10), [3, 64, 64]),
                compare(ole, work, "vgg16-224", models.vgg16(num_classes=10), [3, 224, 224], 2),
                compare(ole, work, "vgg16bn-224", models.vgg16_bn(num_classes=10), [3, 224, 224], 2),
                *(compare(ole, work, net, CifarResNet(blocks), [3, 32, 32]) for net, blocks in CIFAR_RESNETS.items()),
                compare(ole, work, "wrn16-8", WideResNet(16, 8), [3, 32, 32]),
                compare(ole, work, "wrn28-10", WideResNet(28, 10), [3, 32, 32]),
                train(ole, work, "resnet18", models.resnet18(num_classes=10), [3, 32, 32]),
                train(ole, work, SHALLOW, shallow(), [3, 64, 64]),
                train(ole, work, "resnet20", CifarResNet(3), [3, 32, 32]),
                train(ole, work, SMALL_WRN, WideResNet(16, 1), [3, 32, 32]),
                train(ole, work, small_vgg_net("[nobn]"), small_vgg(False), [3, 32, 32]),
                train(ole, work, small_vgg_net(""), small_vgg(True), [3, 32, 32]),
                check_errors(ole, work),
                check_checkpoints(work)]
    return 0 if all(good) else 1


sys.exit(main())
