"""OLÉ in the Hugging Face Trainer: one overridden method.

    python3 examples/huggingface_trainer.py

Trains a small BERT with random weights on made-up requests, nothing is downloaded, and prints how far apart the
classes lie.  With a pretrained model, put its name in place of the configuration.
"""
import random
import tempfile

import numpy
import torch
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments, set_seed

import ole
from ole.torch import OLELoss

INTENTS = {
    "balance": "how much money is on my account",
    "transfer": "send money to another person please",
    "weather": "will it rain or snow today",
    "music": "play the next song in my list",
}


class OLETrainer(Trainer):
    """Adds OLÉ on the input of the classifier: for BERT the pooled output."""

    criterion = OLELoss(weight=0.25)

    def compute_loss(self, model, inputs, return_outputs=False, **unused):
        labels = inputs["labels"]
        pooled = model.bert(inputs["input_ids"], inputs["attention_mask"]).pooler_output
        logits = model.classifier(model.dropout(pooled))
        loss = torch.nn.functional.cross_entropy(logits, labels) + self.criterion(pooled, labels)  # the added term
        return (loss, {"loss": loss, "logits": logits}) if return_outputs else loss


class Requests(torch.utils.data.Dataset):
    """Words of an intent's sentence in random order, some replaced by others."""

    def __init__(self, count, seed):
        generator = random.Random(seed)
        words = sorted({word for text in INTENTS.values() for word in text.split()})
        number = {word: 2 + i for i, word in enumerate(words)}  # 0 pads, 1 begins
        self.vocabulary = 2 + len(words)
        self.rows = []
        for i in range(count):
            label = i % len(INTENTS)
            text = generator.sample(list(INTENTS.values())[label].split(), 5)
            text[generator.randrange(5)] = generator.choice(words)
            self.rows.append({"input_ids": [1, *(number[word] for word in text)], "attention_mask": [1] * 6,
                              "labels": label})

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return {name: torch.tensor(value) for name, value in self.rows[i].items()}


def features_of(model, data):
    model.eval()
    with torch.no_grad():
        ids = torch.stack([row["input_ids"] for row in data])
        return model.bert(ids).pooler_output.numpy(), numpy.array([int(row["labels"]) for row in data])


def main():
    torch.set_num_threads(1)
    train, test = Requests(256, 0), Requests(128, 1)
    for name, weight in (("softmax", 0.0), ("softmax + OLE", 0.25)):
        set_seed(0)
        model = BertForSequenceClassification(
            BertConfig(vocab_size=train.vocabulary, hidden_size=32, num_hidden_layers=1, num_attention_heads=2,
                       intermediate_size=64, max_position_embeddings=8, num_labels=len(INTENTS)))
        OLETrainer.criterion.weight = weight
        with tempfile.TemporaryDirectory() as folder:
            arguments = TrainingArguments(folder, num_train_epochs=10, per_device_train_batch_size=32,
                                          learning_rate=2e-3, report_to=[], disable_tqdm=True, save_strategy="no",
                                          logging_strategy="no", use_cpu=True)
            OLETrainer(model, arguments, train_dataset=train).train()
        found = ole.analyze(*features_of(model, test), map=False)
        print(f"{name:14} 1-NN error {found.errors.knn1:.1f} %, classes {found.between.mean:.0f} degrees apart")


if __name__ == "__main__":
    main()
