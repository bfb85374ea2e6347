"""The examples for other people's trainers run as printed: Hugging Face, Lightning, sentence-transformers.

On the CPU, with tiny random models and no downloads; each is skipped where its package is missing
(tests/python/requirements.txt has them, for `./dev test --all`).
"""
import importlib.util
import re
import sys
import unittest

from support import ROOT, import_torch, main, run_script

torch = import_torch()
if torch is None:
    sys.exit(77)

# Debian 12's PyTorch 1.13 cannot import its sharded tensors under Python 3.11, which Lightning asks for where
# torch.distributed is there.
WITHOUT_DISTRIBUTED = """
import runpy, sys, torch.distributed
torch.distributed.is_available = lambda: False
runpy.run_path(sys.argv[1], run_name="__main__")
"""

TRAINER = """
import sys, tempfile
sys.path.insert(0, sys.argv[1])
import torch
import sentence_transformers_intents as intents
from datasets import Dataset
from sentence_transformers import SentenceTransformerTrainer, SentenceTransformerTrainingArguments
from sentence_transformers.training_args import BatchSamplers
import ole
from ole.sentence_transformers import OLELoss

texts, labels = intents.requests(256, 0)
torch.manual_seed(0)
model = intents.build()
loss = OLELoss(model, classes=4, weight=0.25)
first = loss.classifier.weight.detach().clone()
with tempfile.TemporaryDirectory() as folder:
    options = SentenceTransformerTrainingArguments(
        output_dir=folder, num_train_epochs=10, per_device_train_batch_size=32, learning_rate=1e-2, use_cpu=True,
        batch_sampler=BatchSamplers.GROUP_BY_LABEL, report_to=[], save_strategy="no", disable_tqdm=True)
    data = Dataset.from_dict({"sentence": texts, "label": labels.tolist()})
    SentenceTransformerTrainer(model, options, train_dataset=data, loss=loss).train()
texts, labels = intents.requests(128, 1)
found = ole.analyze(model.encode(texts), labels, map=False)
print(float((loss.classifier.weight - first).abs().max()), found.errors.knn1, found.between.mean)
"""


class Trainers(unittest.TestCase):
    def compare(self, package, script, *, alone=()):
        if importlib.util.find_spec(package) is None:
            self.skipTest(f"{package} is not installed")
        printed = run_script(*alone, f"examples/{script}.py", HF_HUB_OFFLINE="1", OMP_WAIT_POLICY="passive")
        found = {name: (float(error), float(angle)) for name, error, angle in re.findall(
            r"^(softmax(?: \+ OLE)?) +(?:1-NN )?error ([\d.]+) %, classes (\d+) degrees apart$", printed, re.MULTILINE)}
        self.assertEqual(len(found), 2, printed)
        return found["softmax"], found["softmax + OLE"]

    def test_huggingface(self):
        if importlib.util.find_spec("accelerate") is None:
            self.skipTest("accelerate, which the Trainer needs, is not installed")
        _, ours = self.compare("transformers", "huggingface_trainer")
        self.assertLess(ours[0], 50)  # chance: 75 %
        self.assertGreater(ours[1], 80)

    def test_sentence_transformers(self):
        _, ours = self.compare("sentence_transformers", "sentence_transformers_intents")
        self.assertLess(ours[0], 15)
        self.assertLess(abs(ours[1] - 90), 12)  # orthogonal

    def test_sentence_transformers_trainer(self):
        """The trainer of sentence-transformers, as the docstring of ole.sentence_transformers has it."""
        for package in ("sentence_transformers", "datasets", "accelerate"):
            if importlib.util.find_spec(package) is None:
                self.skipTest(f"{package} is not installed")
        printed = run_script("-c", TRAINER, str(ROOT / "examples"), HF_HUB_OFFLINE="1", HF_DATASETS_OFFLINE="1",
                             OMP_WAIT_POLICY="passive")
        moved, error, angle = map(float, printed.splitlines()[-1].split())
        self.assertGreater(moved, 0.05)  # the optimiser has the classifier's parameters, which belong to the loss
        self.assertLess(error, 15)
        self.assertLess(abs(angle - 90), 20)

    def test_lightning(self):
        package = "lightning" if importlib.util.find_spec("lightning") else "pytorch_lightning"
        broken = torch.__version__.startswith("1.13") and sys.version_info >= (3, 11)
        plain, ours = self.compare(package, "lightning_digits", alone=("-c", WITHOUT_DISTRIBUTED) if broken else ())
        self.assertLess(ours[0], 10)
        self.assertGreater(ours[1], plain[1] + 10)


if __name__ == "__main__":
    main()
