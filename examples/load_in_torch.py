#!/usr/bin/env python3
"""load_in_torch.py MODEL.safetensors - a model of 'ole train' as a PyTorch module with its weights.

    net = OleNet("runs/first/best.safetensors").eval()
    features, logits = net(images)  # [N, C, H, W], 0 to 1 (bytes / 255), or vectors [N, D]: it normalises them itself

The file has the weights and the net's notation. The ops behind that notation are listed in config.json beside it, as
in folders of 'ole export --hub', or printed by 'ole net --graph'.
"""
import json
import subprocess
import sys
from pathlib import Path

import torch
from torch import nn


class BatchNorm(nn.BatchNorm2d):
    def _check_input_dim(self, x):  # of images and of vectors alike
        pass


def build(n):
    inputs, outputs, window = n["in"][0], n["out"][0], (n["kernel"], n["stride"], n["pad"])
    return {"conv": lambda: nn.Conv2d(inputs, outputs, *window, bias=n["bias"]),
            "norm": lambda: BatchNorm(outputs, affine=n["affine"]),
            "linear": lambda: nn.Linear(inputs, outputs, bias=n["bias"]),
            "relu": nn.ReLU, "flatten": nn.Flatten, "dropout": lambda: nn.Dropout(n["rate"]),
            "max pool": lambda: nn.MaxPool2d(*window),
            "pad channels": lambda: PadChannels(inputs, outputs),
            "avg pool": lambda: nn.AvgPool2d(n["kernel"] or n["in"][1:], n["stride"]),
            }.get(n["op"], nn.Identity)()


class PadChannels(nn.Module):
    """Channels of zeros, half of them before the input's."""

    def __init__(self, inputs, outputs):
        super().__init__()
        before = (outputs - inputs) // 2
        self.around = (0, 0, 0, 0, before, outputs - inputs - before)

    def forward(self, x):
        return nn.functional.pad(x, self.around)


class OleNet(nn.Module):
    def __init__(self, path, ole="ole"):
        super().__init__()
        data = open(path, "rb").read()  # eight bytes of length, a header in JSON, the numbers
        start = 8 + int.from_bytes(data[:8], "little")
        header, numbers = json.loads(data[8:start]), bytearray(data[start:])
        self.card = card = header["__metadata__"]
        self.class_names = json.loads(card["class_names"])
        config = Path(path).with_name("config.json")
        graph = json.loads(config.read_text("utf-8")).get("graph") if config.exists() else None
        self.nodes = graph or json.loads(subprocess.check_output(
            [ole, "net", card["net"], "--input", card["input"], "--classes", str(len(self.class_names)), "--graph"]))
        self.ops = nn.ModuleList(build(n) for n in self.nodes)
        for key in ("mean", "deviation"):
            self.register_buffer(key, torch.tensor([[[float(v)]] for v in card[key].split(",")]))
        for node, op in zip(self.nodes, self.ops):
            for key, value in op.state_dict(keep_vars=True).items():
                if key != "num_batches_tracked":
                    about = header[f"{node['name']}.{key}"]
                    a, b = about["data_offsets"]
                    value.data = torch.frombuffer(numbers[a:b], dtype=torch.float32).view(about["shape"])

    def forward(self, images):
        out = [(images.reshape(-1, *self.nodes[0]["out"]) - self.mean) / self.deviation]
        for node, op in zip(self.nodes[1:], self.ops[1:]):
            read = [out[k] for k in node["input"]]
            out.append(sum(read) if node["op"] == "add" else
                       torch.cat(read, 1) if node["op"] == "concat" else op(read[0]))
        return out[self.nodes[-1]["input"][0]], out[-1]


if __name__ == "__main__":
    net = OleNet(sys.argv[1]).eval()
    shape = net.nodes[0]["out"]
    features, logits = net(torch.rand(2, *shape))
    print(f"{net.card['net']}: features {list(features.shape)}, logits {list(logits.shape)}")
