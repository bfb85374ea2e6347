"""OLÉ in PyTorch Lightning, with batches of 5 classes × 8 samples.

    python3 examples/lightning_digits.py

Trains a small network on scikit-learn's digits with softmax alone and with OLÉ added, and prints the error and how far
apart the classes lie.
"""
import logging
import warnings

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

try:
    import lightning.pytorch as lightning
except ImportError:
    import pytorch_lightning as lightning

import ole
from ole.torch import BalancedBatchSampler, OLELoss


class Digits(lightning.LightningModule):
    def __init__(self, weight):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 32), nn.ReLU())
        self.head = nn.Linear(32, 10)
        self.criterion = OLELoss(weight=weight)

    def training_step(self, batch, number):
        x, y = batch
        features = self.body(x)
        return nn.functional.cross_entropy(self.head(features), y) + self.criterion(features, y)

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=2e-3)


def main():
    warnings.filterwarnings("ignore")
    for name in ("lightning.pytorch", "pytorch_lightning"):
        logging.getLogger(name).setLevel(logging.ERROR)
    digits = load_digits()
    x, y = torch.tensor(digits.data / 16, dtype=torch.float32), torch.tensor(digits.target)
    order = torch.randperm(len(y), generator=torch.Generator().manual_seed(0))
    train, test = order[:1258], order[1258:]
    for name, weight in (("softmax", 0.0), ("softmax + OLE", 0.25)):
        lightning.seed_everything(0)
        # With several processes, pass use_distributed_sampler=False to the Trainer: each rank takes its own batches.
        sampler = BalancedBatchSampler(y[train], classes=5, samples=8, batches=30)
        trainer = lightning.Trainer(max_epochs=10, accelerator="cpu", logger=False, enable_checkpointing=False,
                                    enable_progress_bar=False, enable_model_summary=False)
        model = Digits(weight)
        trainer.fit(model, DataLoader(TensorDataset(x[train], y[train]), batch_sampler=sampler))
        with torch.no_grad():
            features = model.body(x[test])
            error = 100 * float((model.head(features).argmax(1) != y[test]).float().mean())
        found = ole.analyze(features.numpy(), y[test].numpy(), map=False)
        print(f"{name:14} error {error:.1f} %, classes {found.between.mean:.0f} degrees apart")


if __name__ == "__main__":
    main()
