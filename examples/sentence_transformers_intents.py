"""OLÉ for sentence-transformers: sentence embeddings whose classes are orthogonal.

    python3 examples/sentence_transformers_intents.py

Trains a tiny model (random word vectors, a mean, a linear layer) on made-up requests, nothing is downloaded.  With a
pretrained model and the package datasets, give the same loss to SentenceTransformerTrainer.
"""
import random

import numpy
import torch
from sentence_transformers import SentenceTransformer, models
from sentence_transformers.models.tokenizer import WhitespaceTokenizer

import ole
from ole.sentence_transformers import OLELoss
from ole.torch import BalancedBatchSampler

INTENTS = {
    "balance": "how much money is on my account",
    "transfer": "send money to another person please",
    "weather": "will it rain or snow today",
    "music": "play next song in my list",
}
WORDS = sorted({word for text in INTENTS.values() for word in text.split()})


def requests(count, seed):
    """Words of an intent's sentence, some replaced by others; their labels."""
    generator = random.Random(seed)
    labels = [i % len(INTENTS) for i in range(count)]
    texts = []
    for label in labels:
        text = generator.sample(list(INTENTS.values())[label].split(), 5)
        text[generator.randrange(5)] = generator.choice(WORDS)
        texts.append(" ".join(text))
    return texts, numpy.array(labels)


def build():
    vectors = torch.randn(len(WORDS), 24).numpy()
    words = models.WordEmbeddings(WhitespaceTokenizer(WORDS, stop_words=[]), vectors, update_embeddings=True)
    mean = models.Pooling(words.get_word_embedding_dimension(), pooling_mode="mean")
    return SentenceTransformer(modules=[words, mean, models.Dense(24, 16, activation_function=torch.nn.Identity())],
                               device="cpu")


def main():
    texts, labels = requests(256, 0)
    test_texts, test_labels = requests(128, 1)
    for name, weight in (("softmax", 0.0), ("softmax + OLE", 0.25)):
        torch.manual_seed(0)
        model = build()
        loss = OLELoss(model, classes=len(INTENTS), weight=weight)
        optimizer = torch.optim.Adam(loss.parameters(), lr=1e-2)
        sampler = BalancedBatchSampler(labels, classes=4, samples=8)
        model.train()
        for _ in range(10):
            for rows in sampler:
                columns = model.tokenize([texts[row] for row in rows])
                optimizer.zero_grad()
                loss([columns], torch.from_numpy(labels[rows])).backward()
                optimizer.step()
        found = ole.analyze(model.encode(test_texts), test_labels, map=False)
        print(f"{name:14} 1-NN error {found.errors.knn1:.1f} %, classes {found.between.mean:.0f} degrees apart")


if __name__ == "__main__":
    main()
