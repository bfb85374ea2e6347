#!/usr/bin/env python3
"""scaling.py GROUP=FILE[,FILE...]... - the cost model of docs/scaling.md, fitted to measurements.

A FILE is the output of `mpirun ... ole bench --ranks --json`; the files of a GROUP were measured on the
same machines ("cores=a.json,b.json hosts=c.json").  Prints Markdown: measurements beside the model, the
fitted numbers, and a prediction for GPUs, which were not measured: it assumes a network (--alpha-us,
--gbytes, --jitter) and takes the steps from docs/results.md.
"""
import argparse
import json
import math

# Seconds per step of 64 images (CNN-5: 32) on one H200 in bf16, from docs/results.md.  Seconds of the
# loss: measured up to 64 rows; beyond, 14 steps of products of all matrices at once (docs/maths.md, 7),
# with a constant and a rate fitted to 1024 x 512 (1.12 ms) and 4096 x 2048 (36.7 ms), which miss
# 256 x 512 and 512 x 512 by at most a third.
GPU_STEP = {"cnn5": (32, 0.493e-3), "vgg16": (64, 1.083e-3), "resnet110": (64, 5.15e-3)}
GPU_SMALL = {32: 0.049e-3, 64: 0.165e-3}
GPU_STEPS, GPU_CONSTANT, GPU_FLOPS = 14, 0.55e-3, 40e12
BACKWARD = 2 / 3  # of a step's arithmetic, under which gradients can travel


# ---- The model ----------------------------------------------------------------------------------

class Network:
    """alpha: seconds per step of a collective; beta: seconds per byte into a rank."""

    def __init__(self, alpha, beta):
        self.alpha, self.beta = alpha, beta

    def gather(self, ranks, total):
        """`total` bytes of all ranks on every rank."""
        return math.ceil(math.log2(ranks)) * self.alpha + (ranks - 1) / ranks * total * self.beta

    def sum(self, ranks, size):
        """`size` bytes of each rank added up: scattered and gathered."""
        return 2 * self.gather(ranks, size)


def norm_seconds(net, network, ranks):
    """Batch norm over all ranks: sums too small for their bytes to matter much."""
    if ranks == 1 or net["norm_sums"] == 0:
        return 0.0
    each = net["norm_bytes"] / net["norm_sums"]
    return net["norm_sums"] * network.sum(ranks, each)


def work(rows, features):
    """Multiplications of Gram matrix, eigenproblem and gradient of one matrix (docs/maths.md, 6)."""
    small, large = min(rows, features), max(rows, features)
    return small * small * (1.25 * large + 9 * small) + rows * small * features


def loss_work(rows, features, classes):
    return work(rows, features) + classes * work(math.ceil(rows / classes), features)


# ---- Fitting ------------------------------------------------------------------------------------

def solve2(rows):
    """Least squares of a*x + b*y = z over (x, y, z), a and b from 0 up."""
    xx, xy, yy, xz, yz = (sum(f(*row) for row in rows) for f in (
        lambda x, y, z: x * x, lambda x, y, z: x * y, lambda x, y, z: y * y,
        lambda x, y, z: x * z, lambda x, y, z: y * z))
    determinant = xx * yy - xy * xy
    if determinant > 1e-12 * xx * yy:
        a, b = (xz * yy - yz * xy) / determinant, (yz * xx - xz * xy) / determinant
        if a >= 0 and b >= 0:
            return a, b
    a = max(0.0, xz / xx) if xx else 0.0
    b = max(0.0, yz / yy) if yy else 0.0
    with_a = sum((a * x - z) ** 2 for x, y, z in rows)
    with_b = sum((b * y - z) ** 2 for x, y, z in rows)
    return (a, 0.0) if with_a < with_b else (0.0, b)


def fit_network(files):
    """alpha and beta from the sums over ranks, small and large ones counting alike."""
    rows = []
    for net in files:
        for one in net["sums"]:
            ranks, seconds = one["ranks"], one["ms"] * 1e-3
            steps = 2 * math.ceil(math.log2(ranks))
            share = 2 * (ranks - 1) / ranks * one["bytes"]
            rows.append((steps / seconds, share / seconds, 1.0))
    return Network(*solve2(rows))


def fit_rate(files):
    """Multiplications a second of OLE on a rank by itself."""
    rates = [loss_work(row["batch_size"] / row["ranks"], net["features"], net["classes"]) /
             (row["ole_apart_ms"] * 1e-3)
             for net in files for row in net["scaling"] if row["ole_apart_ms"] > 0]
    return sorted(rates)[len(rates) // 2] if rates else math.inf


def ole_extra(net, row, network, rate):
    """What OLE of all rows takes longer than OLE of a rank's own."""
    ranks, batch = row["ranks"], row["batch_size"]
    if net["ole_scope"] != "global" or ranks == 1:
        return 0.0
    here = loss_work(batch / ranks, net["features"], net["classes"])
    whole = loss_work(batch, net["features"], net["classes"])
    return network.gather(ranks, 4 * batch * net["features"]) + (whole - here) / rate


def parts(net, row, network, rate):
    """Seconds of a step: arithmetic, messages that nothing hides, gradients."""
    plain = row["apart_ms"] * 1e-3
    if row["ranks"] == 1:
        return plain, 0.0, 0.0
    messages = norm_seconds(net, network, row["ranks"]) + ole_extra(net, row, network, rate)
    return plain, messages, network.sum(row["ranks"], net["gradient_bytes"])


def fit_steps(files, network, rate):
    """The exposed share of the gradients' time, and what ranks lose by not being in step."""
    rows = []
    for net in files:
        for row in net["scaling"]:
            if row["ranks"] == 1:
                continue
            plain, messages, gradients = parts(net, row, network, rate)
            seconds = row["step_ms"] * 1e-3
            rows.append((gradients / seconds, plain / seconds,
                         (seconds - plain - messages) / seconds))
    exposed, jitter = solve2(rows) if rows else (1.0, 0.0)
    return min(1.0, exposed), jitter


def report_group(name, files):
    network, rate = fit_network(files), fit_rate(files)
    exposed, jitter = fit_steps(files, network, rate)
    print(f"\n### {name}\n")
    print(f"α {network.alpha * 1e6:.1f} µs, bandwidth {1e-9 / network.beta if network.beta else math.inf:.2f} GB/s "
          f"into a rank, OLÉ {rate * 1e-9:.1f}·10⁹ multiplications/s, {100 * exposed:.0f} % of the "
          f"gradients' time not hidden, {100 * jitter:.1f} % of the arithmetic lost by ranks out of "
          "step.\n")
    print("| net | ranks | scaling | batch | step ms | efficiency | each alone ms | waiting ms | "
          "OLÉ ms (share) | model ms | off by |")
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    worst = 0.0
    for net in files:
        for row in net["scaling"]:
            plain, messages, gradients = parts(net, row, network, rate)
            model = 1e3 * (plain * (1 + jitter * (row["ranks"] > 1)) + messages +
                           exposed * gradients)
            off = model / row["step_ms"] - 1
            worst = max(worst, abs(off) if row["ranks"] > 1 else 0.0)
            print(f"| {net['net']} | {row['ranks']} | {row['scaling']} | {row['batch_size']} | "
                  f"{row['step_ms']:.1f} | {100 * row['efficiency']:.0f} % | {row['apart_ms']:.1f} | "
                  f"{row['exposed_ms']:.1f} | {row['ole_ms']:.2f} "
                  f"({100 * row['ole_ms'] / row['step_ms']:.1f} %) | {model:.1f} | {100 * off:+.0f} % |")
    print(f"\nLargest error of the model: {100 * worst:.0f} %.")


# ---- Prediction for GPUs --------------------------------------------------------------------------

def products(rows, features):
    """FLOP of the iteration on a matrix of which all rows are there."""
    small, large = min(rows, features), max(rows, features)
    return GPU_STEPS * 4 * (large * small * small + small ** 3)


def gpu_loss(rows, features, classes):
    """Seconds of a GPU that has all rows."""
    if rows <= 64:
        return GPU_SMALL[32 if rows <= 32 else 64]
    each = rows / classes
    flop = products(rows, features) + (classes * products(each, features) if each > 64 else 0)
    return GPU_CONSTANT + flop / GPU_FLOPS


def gpu_routes(rows, features, classes, ranks, network):
    """Seconds of each way to the loss of `rows` rows on `ranks` gpus, messages included."""
    each = rows / classes
    ways = {"gathered": network.gather(ranks, 4 * rows * features) +
                        gpu_loss(rows, features, classes),
            "Gram": math.inf,
            "local": gpu_loss(rows / ranks, features, classes)}
    if rows <= features:
        return ways
    grams = 1 + (classes if each > features else 0)
    own = math.ceil(grams / ranks)  # matrices that a GPU solves for all
    flop = 2 * own * products(features, features) + 6 * 2 * rows / ranks * features * features
    ways["Gram"] = (network.sum(ranks, 8 * features * features * grams) +
                    network.gather(ranks, 8 * features * features * grams) +
                    GPU_CONSTANT + flop / GPU_FLOPS)
    if each <= features:  # the rows of small classes have to come together
        solved = math.ceil(classes / ranks) * products(each, features)
        ways["Gram"] += network.gather(ranks, 4 * rows * features) + solved / GPU_FLOPS
    return ways


def print_gpus(nets, network, jitter, counts):
    print(f"\n### GPUs: α {network.alpha * 1e6:.1f} µs, {1e-9 / network.beta:.0f} GB/s into each, "
          f"{100 * jitter:.0f} % lost by ranks out of step\n")
    print("Weak scaling; the gradients travel under the backward pass, as far as it lasts.\n")
    print("| net | GPUs | batch | arithmetic ms | sync BN ms | gradients, exposed ms | "
          "OLÉ gathered / Gram / local ms | step ms, exact | efficiency | with local BN |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for net in nets:
        rows, seconds = GPU_STEP[net["net"]]
        one = seconds + gpu_loss(rows, net["features"], net["classes"])
        for ranks in counts:
            batch = rows * ranks
            if ranks == 1:
                norm = exposed = 0.0
                ways = {"gathered": one - seconds, "Gram": math.inf, "local": one - seconds}
            else:
                norm = norm_seconds(net, network, ranks)
                gradients = network.sum(ranks, net["gradient_bytes"])
                last = network.sum(ranks, 0)  # of the last bucket, which nothing hides
                exposed = max(last, gradients - BACKWARD * seconds)
                ways = gpu_routes(batch, net["features"], net["classes"], ranks, network)
            ole = min(ways["gathered"], ways["Gram"])
            plain = seconds * (1 + (jitter if ranks > 1 else 0.0)) + exposed + ole
            texts = " / ".join("–" if math.isinf(ways[k]) else f"{1e3 * ways[k]:.2f}"
                               for k in ("gathered", "Gram", "local"))
            print(f"| {net['net']} | {ranks} | {batch} | {1e3 * seconds:.2f} | {1e3 * norm:.2f} | "
                  f"{1e3 * exposed:.2f} | {texts} | {1e3 * (plain + norm):.2f} | "
                  f"{100 * one / (plain + norm):.0f} % | {100 * one / plain:.0f} % |")


def print_loss(network, ranks, step):
    print(f"\n### The exact loss on {ranks} GPUs, by batch, features and classes: ms\n")
    print("| batch | features | classes | gathered | Gram | cheaper one, of a step of "
          f"{1e3 * step:.1f} ms | local | exact, of 4,096 of the rows |")
    print("|---|---|---|---|---|---|---|---|")
    for features, classes in ((256, 10), (512, 100), (512, 1000), (2048, 1000)):
        for batch in (4096, 16384, 65536):
            ways = gpu_routes(batch, features, classes, ranks, network)
            part = gpu_routes(4096, features, classes, ranks, network)
            best = min(ways["gathered"], ways["Gram"])
            print(f"| {batch} | {features} | {classes} | {1e3 * ways['gathered']:.2f} | "
                  f"{1e3 * ways['Gram']:.2f} | {100 * best / step:.0f} % | {1e3 * ways['local']:.2f} | "
                  f"{1e3 * min(part['gathered'], part['Gram']):.2f} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("groups", nargs="+", metavar="GROUP=FILE,FILE")
    parser.add_argument("--alpha-us", type=float, default=2.5, help="of GPUs (default 2.5)")
    parser.add_argument("--gbytes", type=float, default=45.0,
                        help="GB/s into a GPU (default 45: 400 Gb/s, less what protocols take)")
    parser.add_argument("--jitter", type=float, default=0.03, help="share (default 0.03)")
    options = parser.parse_args()
    nets = {}
    for group in options.groups:
        name, _, paths = group.partition("=")
        files = []
        for path in paths.split(","):
            with open(path, encoding="utf-8") as file:
                files.append(json.load(file))
        report_group(name, files)
        for net in files:
            if net["net"] in GPU_STEP:
                nets.setdefault(net["net"], net)
    network = Network(options.alpha_us * 1e-6, 1e-9 / options.gbytes)
    print_gpus(list(nets.values()), network, options.jitter, (1, 8, 64, 256, 1024))
    print_loss(network, 1024, GPU_STEP["vgg16"][1])


if __name__ == "__main__":
    main()
