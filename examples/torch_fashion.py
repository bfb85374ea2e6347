"""Few samples per class: Fashion-MNIST with and without OLÉ, PyTorch.

    python3 examples/torch_fashion.py [SAMPLES [SEEDS [WEIGHT]]]

Trains a small convolutional network on SAMPLES (20) images of each class, chosen anew for each of SEEDS (5)
seeds, with softmax alone and with OLÉ of weight WEIGHT (0.25) added, and prints the accuracy on the 10,000
test images: mean, and standard deviation over the seeds. The images are those of Debian's package
dataset-fashion-mnist, or of the folder that FASHION_MNIST names. A minute or two on two cores.
"""
import gzip
import os
import sys

import numpy
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from ole.torch import OLELoss

FOLDER = os.environ.get("FASHION_MNIST", "/usr/share/datasets/fashion-mnist")
EPOCHS, BATCH = 40, 50
given = sys.argv[1:]
SAMPLES = int(given[0]) if given else 20
SEEDS = int(given[1]) if given[1:] else 5
WEIGHT = float(given[2]) if given[2:] else 0.25


def read(name, offset, shape):
    with gzip.open(os.path.join(FOLDER, name)) as file:
        return torch.from_numpy(numpy.frombuffer(file.read(), numpy.uint8, offset=offset).copy()).view(shape)


def data(part):
    images = read(f"{part}-images-idx3-ubyte.gz", 16, (-1, 1, 28, 28))
    return (images.float() / 255 - 0.286) / 0.353, read(f"{part}-labels-idx1-ubyte.gz", 8, (-1,)).long()


def few(y, seed):
    """The numbers of SAMPLES images of each class."""
    random = torch.Generator().manual_seed(seed)
    order = torch.randperm(len(y), generator=random)
    return torch.cat([order[y[order] == label][:SAMPLES] for label in range(10)])


def train(x, y, weight, seed):
    torch.manual_seed(seed)
    body = nn.Sequential(
        nn.Conv2d(1, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, padding=1), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(64 * 49, 128), nn.ReLU())
    head = nn.Linear(128, 10)
    optimizer = torch.optim.Adam([*body.parameters(), *head.parameters()], lr=1e-3, weight_decay=1e-4)
    criterion = OLELoss(weight=weight)
    for _ in range(EPOCHS):
        for batch in torch.randperm(len(x)).split(BATCH):
            features = body(x[batch])
            loss = cross_entropy(head(features), y[batch]) + criterion(features, y[batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return nn.Sequential(body, head).eval()


@torch.no_grad()
def accuracy(net, x, y):
    return 100 * float((torch.cat([net(part) for part in x.split(500)]).argmax(1) == y).float().mean())


def deviation(found):
    """Over the seeds; of one there is none."""
    return f" ± {found.std():.2f}" if len(found) > 1 else ""


x, y = data("train")
test = data("t10k")
print(f"{SAMPLES} images per class, {SEEDS} seeds, accuracy on {len(test[1])} test images")
results = []
for name, weight in (("softmax", 0.0), (f"softmax + OLE, weight {WEIGHT:g}", WEIGHT)):
    chosen = [few(y, seed) for seed in range(SEEDS)]
    found = torch.tensor([accuracy(train(x[rows], y[rows], weight, seed), *test) for seed, rows in enumerate(chosen)])
    print(f"{name:28} {found.mean():6.2f}{deviation(found)} %", flush=True)
    results.append(found)
better = results[1] - results[0]
print(f"{'difference, seed by seed':28} {better.mean():+6.2f}{deviation(better)}")
