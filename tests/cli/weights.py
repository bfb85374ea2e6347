#!/usr/bin/env python3
"""weights.py OLE - photos with published weights: which network they choose, and what does not fit.

The weights are those of torchvision's ResNet-18, CIFAR's ResNet-20, VGG-16 and their relatives, by names and shapes;
their numbers are all alike.
"""
import array
import json
import os
import re
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

ole = os.path.abspath(sys.argv[1])
folder = Path(tempfile.mkdtemp())
passed = 0


def run(*words, code=0):
    r = subprocess.run([ole, *words], capture_output=True, text=True, cwd=folder,
                       env={**os.environ, "XDG_CACHE_HOME": str(folder / "cache")})
    assert r.returncode == code, (words, r.returncode, r.stdout, r.stderr)
    return r


def check(what, good, shown=""):
    global passed
    assert good, (what, shown)
    passed += 1


def fails(message, *words, code=1):
    r = run(*words, code=code)
    check(message, re.search(message, r.stderr), r.stderr)
    check("nothing was begun", not (folder / "new").exists())


def norm(name, channels):
    return {**{f"{name}.{part}": (channels,) for part in ("weight", "bias", "running_mean", "running_var")},
            f"{name}.num_batches_tracked": ()}


def resnet(kernel, widths, blocks, inputs=3, projected=True, classes=1000):
    """Basic blocks, as torchvision names them."""
    width = widths[0]
    shapes = {"conv1.weight": (width, inputs, kernel, kernel), **norm("bn1", width)}
    for stage, (outputs, count) in enumerate(zip(widths, blocks), 1):
        for block in range(count):
            name = f"layer{stage}.{block}"
            for conv, into in ((1, width), (2, outputs)):
                shapes |= {f"{name}.conv{conv}.weight": (outputs, into, 3, 3), **norm(f"{name}.bn{conv}", outputs)}
            if projected and width != outputs:
                shapes |= {f"{name}.downsample.0.weight": (outputs, width, 1, 1), **norm(f"{name}.downsample.1", outputs)}
            width = outputs
    return shapes | {"fc.weight": (classes, width), "fc.bias": (classes,)}


def vgg16(batch_norm):
    shapes, at, inputs = {}, 0, 3
    for width, count in ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3)):
        for _ in range(count):
            shapes |= {f"features.{at}.weight": (width, inputs, 3, 3), f"features.{at}.bias": (width,)}
            if batch_norm:
                shapes |= norm(f"features.{at + 1}", width)
            at, inputs = at + (3 if batch_norm else 2), width
        at += 1
    for at, inputs, outputs in ((0, 25088, 4096), (3, 4096, 4096), (6, 4096, 1000)):
        shapes |= {f"classifier.{at}.weight": (outputs, inputs), f"classifier.{at}.bias": (outputs,)}
    return shapes


ONE = {"F32": array.array("f", [0.0625]).tobytes(), "F16": b"\x00\x2c", "BF16": b"\x80\x3d", "F8_E4M3": b"\x18"}


def save(path, shapes, dtype="F32", config=None, hollow=False):
    """`hollow`: zeros that take no space."""
    header, at = {}, 0
    for name, shape in shapes.items():
        kind, size = ("I64", 8) if name.endswith("tracked") else (dtype, len(ONE[dtype]))
        for side in shape:
            size *= side
        header[name] = {"dtype": kind, "shape": shape, "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header).encode()
    path = folder / path
    path.parent.mkdir(exist_ok=True)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        if hollow:
            file.truncate(8 + len(text) + at)
        for tensor in header.values():
            size = tensor["data_offsets"][1] - tensor["data_offsets"][0]
            if not hollow:
                file.write(bytes(8) if tensor["dtype"] == "I64" else ONE[dtype] * (size // len(ONE[dtype])))
    if config is not None:
        (path.parent / "config.json").write_text(json.dumps(config))
    return str(path.relative_to(folder))


def photos(name, kind=b"P6", channels=3, classes=2):
    for c in range(classes):
        (folder / name / f"class{c}").mkdir(parents=True)
        for i in range(5):
            (folder / name / f"class{c}" / f"{i}.ppm").write_bytes(kind + b" 40 40 255 " + os.urandom(1600 * channels))


photos("colour")
photos("grey", b"P5", 1)
photos("one", classes=1)

R20 = resnet(3, (16, 32, 64), (3, 3, 3), projected=False, classes=10)
R18 = resnet(7, (64, 128, 256, 512), (2, 2, 2, 2))
TRAIN = ["--epochs", "1", "--no-report", "--init-from"]
START = ["train", "folder:colour", *TRAIN]
r20, r18 = save("r20.safetensors", R20), save("r18.safetensors", R18)

# ---- The network of the weights -----------------------------------------------------------------

r = run(*START, r20, "--out", "found")
check("by the tensors", "net: resnet20, that of the weights;" in r.stderr and "images: 32x32, from the network" in r.stderr, r.stderr)
check("every tensor is counted", "95 loaded, 2 skipped (fc.weight, fc.bias), 2 left unchanged (classifier.weight, "
      "classifier.bias), 19 not needed\n" in r.stderr and "warning" not in r.stderr and len(R20) == 95 + 2 + 19, r.stderr)
r = run(*START, "found/last.safetensors", "--out", "again")
check("of a model of ours", "net: resnet20, that" in r.stderr and "97 loaded, 0 skipped, 0 left unchanged, " in r.stderr, r.stderr)
other = "of another network than 'ole net' lists; name it with --net\n"
for change in ({"layer1.0.conv1.weight": (16, 8, 3, 3)}, {"layer1.3.conv1.weight": (16, 16, 3, 3)}):
    fails("others.safetensors: these are weights " + other, *START, save("others.safetensors", R20 | change), "--out", "new", code=2)
fails(other, *START, save("others.safetensors", {k: v for k, v in R20.items() if k != "bn1.weight"}), "--out", "new", code=2)
(folder / "w.caffemodel").write_bytes(b"")
fails("a Caffe model does not state its network; name it with --net\n", *START, "w.caffemodel", "--out", "new", code=2)
fails("init_from r20.safetensors: name the network of the weights with --net", "tune", "folder:colour", "--init-from", r20,
      "--out", "new", code=2)


def choice(config, shapes, code=1):
    """What is chosen for these weights; a folder of one class ends it there."""
    path = save("stated/w.safetensors", shapes, "F16", config, True)
    return run("train", "folder:one", *TRAIN, path, "--out", "new", code=code).stderr


# timm's names: vgg16 is the network for 224x224, not the paper's; it has no vgg11 as ours.
for architecture, net, shapes in (("resnet18", "resnet18", R18), ("vgg16", "vgg16-224", vgg16(False)),
                                  ("vgg16_bn", "vgg16bn-224", vgg16(True))):
    said = choice({"architecture": architecture}, shapes)
    check(architecture, f"net: {net}, that of the weights" in said and "images: 224x224" in said and "single class" in said, said)
no_layers = "weights of the architecture '{}', whose layers none of the named networks has; name a network with these layers with --net\n"
for architecture in ("resnext50_32x4d", "vgg11", "vgg19", "resnet18"):
    said = choice({"architecture": architecture}, R20 | {"layer1.0.conv2.weight": (16, 4, 3, 3)}, code=2)
    check(architecture, no_layers.format(architecture) in said, said)
said = choice({"architecture": "resnetblur18"}, R18, code=2)
check("the same tensors, another network", "'resnetblur18', which is none of the named networks; --net resnet18 has the same" in said, said)
said = run("train", "folder:one", "--net", "resnet18", *TRAIN, "stated/w.safetensors", code=1).stderr
check("--net goes before", "single class" in said and "that of the weights" not in said, said)

# ---- What does not fit --------------------------------------------------------------------------

fails("0 loaded, 102 skipped .*, 20 not needed: no tensor in it fits the net", *START, r18, "--net", "C64-MP-C64-AP", "--out", "new", code=2)
fails("weights of another network: nothing in it fits 3.block3.conv1.weight, though later layers fit "
      r"\(100 tensors loaded, 2 skipped, 82 left\); name their network with --net\n", *START, r18, "--net", "resnet34", "--out",
      "new", code=2)
widened = {name: tuple(4 * s if "conv2" in name and i == 1 else s for i, s in enumerate(shape)) for name, shape in R20.items()}
fails("nothing in it fits 2.block1.conv2.weight", *START, save("wide.safetensors", widened), "--net", "resnet20", "--out", "new", code=2)
shorter = "C16[nobias]-B16[noproj](x3)-B32[noproj](x3)-AP"
r = run(*START, r20, "--net", shorter, "--resize", "32", "--out", "shorter")
check("the first layers of others", "2 left unchanged (classifier" in r.stderr and "warning" not in r.stderr, r.stderr)
r = run(*START, r20, "--net", shorter + "-FC8", "--resize", "32", "--out", "longer")
check("new layers behind them", "warning: r20.safetensors: nothing in it fits 5.linear.weight and the layers after it, which start "
      "untrained; if these are weights of another network, name that with --net\n" in r.stderr, r.stderr)

# ---- Channels -----------------------------------------------------------------------------------

r = run("train", "folder:grey", *TRAIN, r20, "--out", "grey")
check("grey photos", "images: in colour, as the weights expect;" in r.stderr and "95 loaded" in r.stderr and
      json.loads(run("predict", "grey", "grey", "--json").stdout)[0]["label"], r.stderr)
r = run("train", "folder:grey", *TRAIN, r20, "--net", "resnet20", "--channels", "1", "--out", "one-channel")
check("as asked", "94 loaded, 3 skipped (conv1.weight, " in r.stderr and "warning: r20.safetensors: 1.conv.weight is for images of "
      "3 channels, these have 1; it starts untrained\n" in r.stderr, r.stderr)
r = run(*START, save("r20-grey.safetensors", resnet(3, (16, 32, 64), (3, 3, 3), 1, False)), "--out", "from-grey")
check("weights for grey", "net: resnet20, that" in r.stderr and "images: in grey, as" in r.stderr and "95 loaded" in r.stderr, r.stderr)

# ---- Types, and PyTorch's own files -------------------------------------------------------------

reports = {}
for dtype in ("F32", "F16", "BF16"):
    run(*START, save(f"{dtype}.safetensors", R20, dtype), "--freeze", "backbone", "--out", dtype)
    reports[dtype] = (folder / dtype / "metrics.jsonl").read_text()
losses = {kind: re.findall(r'"softmax_loss": [^,]*', text) for kind, text in reports.items()}
check("1/16 in all types", losses["F32"] and losses["F16"] == losses["F32"] == losses["BF16"], losses)
fails("f8.safetensors: tensor 'conv1.weight': its dtype 'F8_E4M3' is unknown; convert it to F32\n", *START,
      save("f8.safetensors", R20, "F8_E4M3"), "--out", "new")
for name, start in (("zip.pth", b"PK\3\4"), ("pickle.pt", b"\x80\2"), ("model.bin", b"\x80\4\x95")):
    (folder / name).write_bytes(start + bytes(range(100, 200)))
    for words in ((*START, name, "--out", "new"), ("eval", name, "folder:colour")):
        fails(f"{name}: a PyTorch checkpoint; convert it to safetensors first: python3 -m ole.convert IN.pth OUT.safetensors\n", *words)

print(f"{passed} checks passed")
