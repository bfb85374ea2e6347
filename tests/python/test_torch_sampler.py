"""ole.torch.BalancedBatchSampler, and the loss for sentence-transformers with a stand-in for its models."""
import sys
import unittest
from collections import Counter

import numpy as np
from support import import_torch, main, make

torch = import_torch()
if torch is None:
    sys.exit(77)

import ole  # noqa: E402
from ole.sentence_transformers import OLELoss  # noqa: E402
from ole.torch import BalancedBatchSampler, ole_loss  # noqa: E402


class Batches(unittest.TestCase):
    def setUp(self):
        # 5 classes of 40, 10, 10, 10 and 2 samples, and rows without a class
        counts = (40, 10, 10, 10, 2)
        labels = np.repeat(np.arange(5), counts)
        self.labels = np.append(labels, [-1] * 8)
        np.random.default_rng(0).shuffle(self.labels)

    def test_balance(self):
        sampler = BalancedBatchSampler(self.labels, classes=4, samples=5, batches=50)
        batches = list(sampler)
        self.assertEqual(len(batches), len(sampler))
        for batch in batches:
            kinds = Counter(self.labels[batch].tolist())
            self.assertEqual(set(kinds.values()), {5})
            self.assertEqual(len(kinds), 4)
            self.assertNotIn(-1, kinds)
            for kind in set(kinds) - {4}:  # no sample twice, but in the class of two
                rows = [row for row in batch if self.labels[row] == kind]
                self.assertEqual(len(set(rows)), 5)
        times = Counter(self.labels[np.concatenate(batches)].tolist())
        self.assertEqual(set(times.values()), {200})  # classes come equally often
        rows = Counter(row for batch in batches for row in batch if self.labels[row] == 1)
        self.assertEqual(set(rows.values()), {20})  # and so do their samples

    def test_epochs(self):
        def run(**options):
            return BalancedBatchSampler(self.labels, 3, 4, **options)

        one, two = run(seed=1), run(seed=1)
        first, second = list(one), list(one)
        self.assertNotEqual(first, second)
        self.assertEqual(list(two), first)
        two.set_epoch(0)
        self.assertEqual([list(two), list(two)], [first, second])
        self.assertNotEqual(list(run(seed=2)), first)
        self.assertEqual(len(first), 72 // 12)

    def test_ranks(self):
        parts = [BalancedBatchSampler(self.labels, 3, 4, batches=4, rank=rank, replicas=3) for rank in range(3)]
        whole = list(BalancedBatchSampler(self.labels, 3, 4, batches=12))
        self.assertEqual([batch for group in zip(*parts) for batch in group], whole)
        self.assertEqual(len(BalancedBatchSampler(self.labels, 3, 4, rank=0, replicas=3)), 2)

    def test_process_group(self):
        import torch.distributed as distributed

        if not distributed.is_available():
            self.skipTest("this torch has no torch.distributed")
        store = distributed.HashStore()
        distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
        try:
            found = list(BalancedBatchSampler(self.labels, 3, 4))
        finally:
            distributed.destroy_process_group()
        self.assertEqual(found, list(BalancedBatchSampler(self.labels, 3, 4)))

    def test_loader(self):
        x = torch.arange(80.0)
        names = np.array(["no", "a", "b", "c", "d", "e"])[self.labels + 1]
        for labels in (self.labels, torch.tensor(self.labels), self.labels.tolist(), names):
            data = torch.utils.data.TensorDataset(x, torch.tensor(self.labels))
            loader = torch.utils.data.DataLoader(data, batch_sampler=BalancedBatchSampler(labels, 2, 3))
            rows, kinds = next(iter(loader))
            self.assertEqual((len(rows), len(set(kinds.tolist()))), (6, 2))
            self.assertEqual(len(list(loader)), len(loader))

    def test_mistakes(self):
        for arguments, options, words in (
            ((self.labels, 6, 2), {}, "have only 5"),
            ((self.labels, 0, 2), {}, "classes is 0"),
            ((self.labels, 2, 1.5), {}, "samples is 1.5"),
            (([], 2, 2), {}, "one per sample"),
            (([0.5, 1.5], 2, 2), {}, "float64"),
            ((self.labels, 2, 2), {"rank": 1}, "give both"),
            ((self.labels, 2, 2), {"rank": 2, "replicas": 2}, "rank is 2 of 2"),
            ((self.labels, 2, 2), {"batches": 0}, "batches is 0"),
        ):
            with self.subTest(words=words), self.assertRaises(ole.InputError) as raised:
                BalancedBatchSampler(*arguments, **options)
            self.assertIn(words, str(raised.exception))


class Model(torch.nn.Module):
    """What sentence-transformers gives a loss: a module that adds "sentence_embedding" to its features."""

    def __init__(self):
        super().__init__()
        self.map = torch.nn.Linear(12, 8)

    def forward(self, features):
        return {**features, "sentence_embedding": self.map(features["x"])}

    def get_sentence_embedding_dimension(self):
        return 8


class Sentences(unittest.TestCase):
    def test_loss(self):
        x, y = (torch.from_numpy(one) for one in make(24, 12, 3))
        model = Model()
        alone = OLELoss(model, weight=0.5)([{"x": x}], y)
        torch.testing.assert_close(alone, ole_loss(model.map(x), y, 0.5))
        both = OLELoss(model, classes=3, weight=0.5)
        value = both([{"x": x}], y[:, None])  # as its collator gives labels
        entropy = torch.nn.functional.cross_entropy(both.classifier(model.map(x)), y)
        torch.testing.assert_close(value, alone + entropy)
        value.backward()
        self.assertGreater(float(model.map.weight.grad.abs().sum()), 0)
        self.assertGreater(float(both.classifier.weight.grad.abs().sum()), 0)
        self.assertEqual(both.get_config_dict(), {"classes": 3, "weight": 0.5})
        self.assertIn("lezama", both.citation)

    def test_mistakes(self):
        with self.assertRaisesRegex(ole.InputError, "at least 2"):
            OLELoss(Model(), classes=1)
        with self.assertRaisesRegex(ole.InputError, "one column of sentences"):
            OLELoss(Model())([{"x": torch.ones(2, 12)}] * 2, torch.tensor([0, 1]))


if __name__ == "__main__":
    main()
