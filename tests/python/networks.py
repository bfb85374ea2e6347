"""networks.py - models of the paper's networks with random weights, and what Olé computes with them.

For tests that compare other libraries with ours.  Needs NumPy.  Program and library are those of the
build folder $OLE_BUILD.
"""
import ctypes
import json
import os
import subprocess
import sys
import zlib
from pathlib import Path

import numpy as np

# Table 1 of the paper. Its images are those that 'ole net' gives each of them.
TABLE_1 = ["mlp3", "mlp4", "cnn5", "vgg11", "vgg16", "vgg19", "resnet110", "preresnet110",
           "densenet40"]
# What those do not have: odd windows, norms without images, vectors as input.
OTHERS = {"C8[k5,s2]-MP[k3,p1]-C8[nobn,d0.2]-AP[k2]-CO4-BN-ReLU-AP-BN-FCD8": [2, 37, 29],
          "C6-B6-B9[noproj](x2)-B16[s1,noproj]-PB20(x2)-PB20[s2,noproj]-AP": [3, 16, 12],
          "FC16-FC4[noaffine]": [20, 1, 1]}
CLASSES = 10


def program():
    """The path of `ole`; without the program there is nothing to test."""
    path = Path(os.environ.get("OLE_BUILD", Path(__file__).resolve().parents[2] / "build")) / "ole"
    if not path.exists():
        print(f"skipped: {path} is not built")
        sys.exit(77)
    return str(path)


def graph(ole, net, shape):
    return json.loads(subprocess.check_output(
        [ole, "net", net, "--input", "x".join(map(str, shape)), "--classes", str(CLASSES), "--graph"]))


def input_shape(ole, net):
    if net in OTHERS:
        return OTHERS[net]
    return json.loads(subprocess.check_output([ole, "net", net, "--json"]))["input"]


def random_tensors(nodes, net, rng):
    """Running statistics and all, such that nothing vanishes or explodes on the way."""
    gain = 0.6 if "resnet" in net else 1.0  # a residual branch adds to what is there
    tensors = {}

    def put(node, key, values):
        tensors[f"{node['name']}.{key}"] = values.astype(np.float32)

    for n in nodes:
        inputs, outputs = n["in"][0], n["out"][0]
        if n["op"] in ("conv", "linear"):
            kernel = [n["kernel"]] * 2 if n["op"] == "conv" else []
            shape = [outputs, inputs, *kernel]
            put(n, "weight", rng.normal(0, np.sqrt(2 / np.prod(shape[1:])), shape))
            if n["bias"]:
                put(n, "bias", rng.normal(0, 0.1, outputs))
        if n["op"] == "norm":
            if n["affine"]:
                put(n, "weight", gain * rng.uniform(0.5, 1.5, outputs))
                put(n, "bias", rng.normal(0.3, 0.1, outputs))
            put(n, "running_mean", rng.normal(0, 0.1, outputs))
            put(n, "running_var", rng.uniform(0.5, 1.5, outputs))
    return tensors


def write_safetensors(path, tensors, metadata):
    header, offset = {"__metadata__": metadata}, 0
    for name, values in tensors.items():
        header[name] = {"dtype": "F32", "shape": list(values.shape),
                        "data_offsets": [offset, offset + values.nbytes]}
        offset += values.nbytes
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for values in tensors.values():
            file.write(values.tobytes())


def write_model(ole, path, net, shape):
    """A model file of `net`; its images are normalised by numbers that differ by channel."""
    rng = np.random.default_rng(zlib.crc32(net.encode()))
    channels = range(shape[0] if shape[1] * shape[2] > 1 else 1)
    write_safetensors(path, random_tensors(graph(ole, net, shape), net, rng), {
        "net": net, "input": "x".join(map(str, shape)),
        "class_names": json.dumps([f"class {c}" for c in range(CLASSES)]),
        "mean": ",".join(f"{0.4 + 0.05 * c}" for c in channels),
        "deviation": ",".join(f"{0.2 + 0.03 * c}" for c in channels)})


class Error(ctypes.Structure):
    _fields_ = [("status", ctypes.c_int), ("message", ctypes.c_char * 508)]


def run_model(ole, path, images, features):
    """Features and logits by ole_model_run()."""
    library = ctypes.CDLL(str(Path(ole).resolve().parent / "liboletrain.so"))
    library.ole_model_free.argtypes = [ctypes.c_void_p]
    model, error = ctypes.c_void_p(), Error()
    images = np.ascontiguousarray(images, np.float32)
    out = [np.empty((len(images), size), np.float32) for size in (features, CLASSES)]
    status = library.ole_model_load(ctypes.byref(model), str(path).encode(), 1, ctypes.byref(error))
    if status == 0:
        status = library.ole_model_run(
            model, images.ctypes.data_as(ctypes.c_void_p), ctypes.c_int64(len(images)),
            *(a.ctypes.data_as(ctypes.c_void_p) for a in out), ctypes.byref(error))
        library.ole_model_free(model)
    if status != 0:
        raise RuntimeError(error.message.decode())
    return out


def random_images(shape, count):
    """Bytes, as [count, C, H, W], with large patches: such as pictures have."""
    rng = np.random.default_rng(11)
    patches = rng.integers(0, 256, (count, shape[0], -(-shape[1] // 4), -(-shape[2] // 4)))
    return np.kron(patches, np.ones((1, 1, 4, 4), int))[:, :, :shape[1], :shape[2]].astype(np.uint8)


def distance(ours, theirs):
    """The largest difference, in units of the largest number (or of 1)."""
    return float(np.abs(ours - theirs).max() / max(1.0, np.abs(ours).max()))
