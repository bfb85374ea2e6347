"""Turns a PyTorch checkpoint into safetensors, which Olé reads.

    python3 -m ole.convert model.pth model.safetensors
    python3 -m ole.convert resnet20.th resnet20.safetensors --net resnet20 --classes 10 --normalize imagenet

The first form is for ``ole train --init-from``. With ``--net`` the file becomes a model that ``ole eval`` and
``ole predict`` take: it then says which network the weights belong to and what its input looks like.

Checkpoints are pickles, which could run any code.  They are read with PyTorch's ``weights_only``; files that old
versions of PyTorch cannot read that way are read by an unpickler that knows tensors and dictionaries only.
"""
from __future__ import annotations

import argparse
import json
import pickle
import sys
import types
from pathlib import Path
from typing import Any, BinaryIO, Optional

NORMALIZE = {
    "none": ("0", "1"),
    "half": ("0.5", "0.5"),
    "cifar": ("0.4914,0.4822,0.4465", "0.2023,0.1994,0.2010"),
    "imagenet": ("0.485,0.456,0.406", "0.229,0.224,0.225"),
}


class ConvertError(Exception):
    """The checkpoint or the description of its network cannot be used."""


class _TensorUnpickler(pickle.Unpickler):
    """Finds what tensors, parameters and dictionaries are made of; anything else is an error."""

    ALLOWED = {
        ("collections", "OrderedDict"),
        ("torch._utils", "_rebuild_tensor"),
        ("torch._utils", "_rebuild_tensor_v2"),
        ("torch._utils", "_rebuild_parameter"),
    }

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) in self.ALLOWED or (module == "torch" and name.endswith("Storage") and "." not in name):
            return super().find_class(module, name)
        raise pickle.UnpicklingError(f"it refers to {module}.{name}")


def _load_tensors(file: BinaryIO, **options: Any) -> Any:
    return _TensorUnpickler(file, **options).load()


def _load(path: str) -> Any:
    import torch
    from torch import serialization

    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError:
        if not torch.__version__.startswith("1."):
            raise
    # PyTorch 1.13's weights_only knows no numbers beside tensors, and its torch.load() ignores pickle_module, so what
    # that calls is called here.
    tensors_only: Any = types.ModuleType("tensors_only")
    tensors_only.load, tensors_only.Unpickler = _load_tensors, _TensorUnpickler
    private: Any = serialization
    with open(path, "rb") as file:
        if not private._is_zipfile(file):
            return private._legacy_load(file, "cpu", tensors_only, encoding="utf-8")
        with private._open_zipfile_reader(file) as archive:
            return private._load(archive, "cpu", tensors_only, encoding="utf-8")


def read_state(path: str) -> dict[str, Any]:
    """The tensors of a checkpoint: itself, or what it holds as "state_dict" or "model".

    >>> import torch
    >>> from ole.convert import read_state
    >>> torch.save({"state_dict": {"weight": torch.eye(2)}}, "model.pth")
    >>> read_state("model.pth")["weight"].shape
    torch.Size([2, 2])
    """
    import torch

    try:
        state = _load(path)
    except FileNotFoundError:
        raise ConvertError(f"{path}: no such file") from None
    except Exception as reason:  # damaged files end in errors of many kinds
        first = str(reason).strip().split("\n")[0]
        raise ConvertError(f"{path}: not a checkpoint that can be read safely: {first}") from None
    for key in ("state_dict", "model"):
        if isinstance(state, dict) and isinstance(state.get(key), dict):
            state = state[key]
    if not isinstance(state, dict):
        raise ConvertError(f"{path}: holds a {type(state).__name__}, not a dictionary of tensors")
    tensors = {str(name): value for name, value in state.items() if isinstance(value, torch.Tensor)}
    if not tensors:
        raise ConvertError(f"{path}: holds no tensors")
    return tensors


def write_safetensors(path: str, tensors: dict[str, Any], metadata: dict[str, str]) -> None:
    """Floating tensors as float32, whole numbers as int64; the file appears complete or not at all.

    >>> import torch
    >>> from ole.convert import write_safetensors
    >>> write_safetensors("model.safetensors", {"weight": torch.eye(2)}, {})
    >>> from pathlib import Path
    >>> Path("model.safetensors").read_bytes()[8:34]
    b'{"weight":{"dtype":"F32","'
    """
    import torch

    header: dict[str, Any] = {"__metadata__": metadata} if metadata else {}
    pieces, offset = [], 0
    for name, value in tensors.items():
        floating = value.is_floating_point()
        data = value.detach().contiguous().to(torch.float32 if floating else torch.int64).numpy()
        header[name] = {
            "dtype": "F32" if floating else "I64",
            "shape": list(data.shape),
            "data_offsets": [offset, offset + data.nbytes],
        }
        pieces.append(data)
        offset += data.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    partial = Path(f"{path}.partial")
    with open(partial, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for data in pieces:
            file.write(data.tobytes())
    partial.replace(path)


def describe(net: str, size: str, classes: str, normalize: str) -> dict[str, str]:
    """The metadata of an Olé model.

    >>> from ole.convert import describe
    >>> describe("resnet20", "3x32x32", "cat,dog", "half")["mean"]
    '0.5,0.5,0.5'
    """
    if normalize not in NORMALIZE:
        raise ConvertError(f"--normalize '{normalize}': expected {', '.join(NORMALIZE)}")
    names = [f"{i}" for i in range(int(classes))] if classes.isdigit() else classes.split(",")
    if len(names) < 2:
        raise ConvertError(f"--classes '{classes}': expected a number of at least 2, or names with commas between")
    channels = int(size.split("x")[0])
    mean, deviation = (text if "," in text else ",".join([text] * channels) for text in NORMALIZE[normalize])
    return {"net": net, "input": size, "class_names": json.dumps(names), "mean": mean, "deviation": deviation}


def main(arguments: Optional[list[str]] = None) -> int:
    """The command; returns its exit status.

    >>> import torch
    >>> from ole.convert import main
    >>> torch.save({"weight": torch.eye(2), "bias": torch.zeros(2)}, "model.pth")
    >>> main(["model.pth", "model.safetensors"])
    model.safetensors: 2 tensors
    0
    """
    parser = argparse.ArgumentParser(prog="python3 -m ole.convert", description="PyTorch checkpoint to safetensors.")
    parser.add_argument("checkpoint", help="a .pth, .pt, .th or .bin file")
    parser.add_argument("out", help="the .safetensors file to write")
    parser.add_argument("--net", help="network that the weights belong to: a name or string that 'ole net' takes")
    parser.add_argument("--input", default="3x32x32", help="images of that network (default 3x32x32)")
    parser.add_argument("--classes", default="10", help="number of classes, or their names: cat,dog (default 10)")
    parser.add_argument("--normalize", default="none", help=f"{', '.join(NORMALIZE)} (default none)")
    given = parser.parse_args(arguments)
    try:
        metadata = describe(given.net, given.input, given.classes, given.normalize) if given.net else {}
        tensors = read_state(given.checkpoint)
        write_safetensors(given.out, tensors, metadata)
    except (ConvertError, OSError) as reason:
        print(f"ole.convert: {reason}", file=sys.stderr)
        return 1
    print(f"{given.out}: {len(tensors)} tensors")
    return 0


if __name__ == "__main__":
    sys.exit(main())
