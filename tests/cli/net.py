#!/usr/bin/env python3
"""net.py OLE - runs `ole net` and compares what it prints and its exit code."""

import run
from run import check, check_that, read_json

TEXT = """\
C4[d0.5]-MP-CO2[s2]-AP
images of 3x8x8, batches of 1024, 2 features, 10 classes

layer       kind            output            weights      MFLOP        MiB
input       input           3x8x8                   0       0.00       0.75
1.conv      conv 3x3        4x8x8                 112       0.01       1.00
1.norm      norm            4x8x8                   8       0.00       1.00
1.relu      relu            4x8x8                   0       0.00       1.00
1.dropout   dropout 0.5     4x8x8                   0       0.00       1.00
2.pool      max pool 2x2 /2 4x4x4                   0       0.00       0.25
3.conv      conv 3x3 /2     2x2x2                  72       0.00       0.03
4.pool      avg pool        2x1x1                   0       0.00       0.01
flatten     flatten         2x1x1                   0       0.00       0.01
classifier  linear          10x1x1                 30       0.00       0.04
total                                             222       0.02       5.09
"""

JSON = {
    "net": "FC2[nobias]", "notation": "FC2[nobias]", "input": [5, 1, 1], "classes": 3,
    "features": 2, "weights": 10 + 4 + 9, "flop": 20 + 4 + 2 + 15, "activations": 19,
    "batch_size": 64, "activation_bytes": 19 * 64 * 4,
    "layers": [
        {"name": "input", "kind": "input", "token": 0, "output": [5, 1, 1], "weights": 0,
         "flop": 0, "activations": 5},
        {"name": "1.flatten", "kind": "flatten", "token": 1, "output": [5, 1, 1], "weights": 0,
         "flop": 0, "activations": 5},
        {"name": "1.linear", "kind": "linear", "token": 1, "output": [2, 1, 1], "weights": 10,
         "flop": 20, "activations": 2},
        {"name": "1.norm", "kind": "norm", "token": 1, "output": [2, 1, 1], "weights": 4,
         "flop": 4, "activations": 2},
        {"name": "1.relu", "kind": "relu", "token": 1, "output": [2, 1, 1], "weights": 0,
         "flop": 2, "activations": 2},
        {"name": "classifier", "kind": "linear", "token": 0, "output": [3, 1, 1], "weights": 9,
         "flop": 15, "activations": 3},
    ],
}

ZOO = ["mlp3", "mlp4", "cnn5", "cnn5-printed", "vgg11", "vgg16", "vgg19", "vgg11-release",
       "vgg19-release", "vggface", "resnet110", "preresnet110", "densenet40", "densenet40-dropout",
       "resnet20", "resnet32", "resnet44", "resnet56", "resnet110-basic", "resnet18-cifar", "wrn16-8", "wrn28-10",
       "resnet18", "resnet34", "resnet50", "resnet101", "vgg16-224", "vgg16bn-224"]


def check_nets(ole):
    check(ole, "net C4[d0.5]-MP-CO2[s2]-AP --input 3x8x8 --batch-size 1024", TEXT)
    check_that("ole net --json", read_json(ole, "net", "FC2[nobias]", "--input", "5", "--classes",
                                           "3", "--json") == JSON)
    text = ole.run("net", "resnet110").stdout
    check_that("a named net shows its string", text.startswith("C16[nobias]-R64/16(x18)-"))
    check_that("ResNet-110 has 1.7 million weights", " 1704154 " in text.splitlines()[-1])
    face = read_json(ole, "net", "vggface", "--classes", "500", "--json")
    check_that("a net of vectors", "\nvectors of 784, " in ole.run("net", "FC8", "--input", "784").stdout)
    check_that("a named net has its images", face.get("input") == [3, 224, 224])
    check_that("--classes", face.get("layers", [{}])[-1].get("weights") == 1024 * 500 + 500)


def check_graph(ole):
    nodes = read_json(ole, "net", "C4[d0.5]-MP-R8/2-FC2[nobias]", "--input", "1x8x8", "--classes",
                      "3", "--graph")
    check_that("ole net --graph: from the input to the classifier",
               nodes[0]["op"] == "input" and nodes[0]["out"] == [1, 8, 8] and
               nodes[-1]["name"] == "classifier" and nodes[-1]["out"] == [3, 1, 1])
    check_that("each op stands behind those it reads",
               all(k < i for i, node in enumerate(nodes) for k in node["input"]))
    conv = nodes[1]
    check_that("with what it needs", (conv["op"], conv["name"], conv["kernel"], conv["stride"],
                                      conv["pad"], conv["bias"]) == ("conv", "1.conv", 3, 1, 1, True))
    check_that("two summands", any(n["op"] == "add" and len(n["input"]) == 2 for n in nodes))


def check_list(ole):
    lines = ole.run("net").stdout.splitlines()
    check_that("ole net lists the names", [line.split()[0] for line in lines[1:]] == ZOO)
    check_that("with their weights", any(line.split()[:3] == ["vgg16", "3x32x32", "3787146"]
                                         for line in lines))
    nets = read_json(ole, "net", "--json")
    check_that("ole net --json lists them", [net["net"] for net in nets] == ZOO and
               nets[0]["notation"] == "FC10(x3)-FC3" and nets[0]["weights"] == 31089)
    small = {net["net"]: net for net in read_json(ole, "net", "--json", "--input", "1x28x28")}
    check_that("a net too deep for the images has no costs", "weights" not in small["vgg19"])
    check_that("the others have", small["vgg16"]["weights"] > 0 and
               small["mlp3"]["input"] == [1, 28, 28])


def check_mistakes(ole):
    def bad(args, message):
        check(ole, f"net {args}", err=f"ole net: {message}\n", code=2)

    bad("C32-Q12", "net: column 5: 'Q12' is not a token; known tokens: C, CO, MP, AP, FC, FCD, R, PR, B, "
        "PB, D, CR, BN, ReLU, ID")
    bad("nonsense", "net: column 1: 'nonsense' is neither a named net nor a token; 'ole net' lists the names")
    bad("vgg116", "net: column 1: 'vgg116' is neither a named net nor a token; did you mean 'vgg11'?")
    for name, meant in (("VGG-16", "vgg16"), ("ResNet-110", "resnet110"), ("CNN5-PRINTED", "cnn5-printed")):
        bad(name, f"net: column 1: '{name}' is neither a named net nor a token; did you mean '{meant}'?")
    bad("cnn5 --input 3x32x32",
        "net cnn5: column 71: 'C256[p0,noaffine](x2)' leaves nothing of the 2x2 image")
    for shape in ("3x32", "3x32x32x1", "3x0x32", "x", "3x-1x4", "3x32x", "+3x32x32", "3x32x3000000"):
        bad(f"C8 --input {shape}",
            f"--input {shape}: channels x height x width expected, as in 3x32x32")
    bad("C8 --classes 0", "--classes '0': expected a whole number from 1 to 65536")
    bad("--graph", "--graph needs NET; 'ole net' lists the names")
    bad("C8 C8", "unexpected argument 'C8'; see 'ole net --help'")
    check(ole, "net", code=1, shell='"$@" >/dev/full',
          err="ole: cannot write to standard output: No space left on device\n")


def check_all(ole, _):
    check_nets(ole)
    check_graph(ole)
    check_list(ole)
    check_mistakes(ole)


if __name__ == "__main__":
    run.conduct(__doc__, check_all)
