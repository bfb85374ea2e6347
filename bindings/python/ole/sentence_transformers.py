"""OLÉ for sentence-transformers: a loss for sentences with class labels.

    from sentence_transformers import SentenceTransformer, SentenceTransformerTrainer
    from ole.sentence_transformers import OLELoss

    model = SentenceTransformer("all-MiniLM-L6-v2")
    loss = OLELoss(model, classes=150, weight=0.25)
    SentenceTransformerTrainer(model, train_dataset=data, loss=loss).train()    # columns: sentence, label

The trainer needs the packages accelerate and datasets.
sentence-transformers itself is not imported: any model that fills "sentence_embedding" will do.
"""
from __future__ import annotations

from typing import Any, Dict, Iterable, Optional

import torch
from torch import Tensor

from . import _library as native
from . import torch as _ole_torch

__all__ = ["OLELoss"]


class OLELoss(torch.nn.Module):
    """Cross-entropy of a linear classifier on the sentence embeddings, plus ``weight`` · OLÉ of the embeddings.

    ``classes`` is the number of labels 0, 1, ...; ``None`` leaves the classifier out, so that the loss is
    ``weight`` · OLÉ alone.  The batch should hold several sentences per class
    (``BatchSamplers.GROUP_BY_LABEL``, or ``ole.torch.BalancedBatchSampler``).  The classifier is
    ``loss.classifier``; its parameters are trained along with the model's.

    >>> import torch
    >>> from ole.sentence_transformers import OLELoss
    >>> class Model(torch.nn.Module):
    ...     def forward(self, features):
    ...         return {"sentence_embedding": features["x"]}
    ...     def get_sentence_embedding_dimension(self):
    ...         return 3
    >>> loss = OLELoss(Model(), classes=2)
    >>> float(loss([{"x": torch.eye(3)}], torch.tensor([0, 0, 1]))) > 0
    True
    """

    def __init__(self, model: Any, classes: Optional[int] = None, weight: float = 0.25, **options: Any) -> None:
        super().__init__()
        self.model = model
        self.ole = _ole_torch.OLELoss(weight, **options)
        self.classifier: Optional[torch.nn.Linear] = None
        if classes is not None:
            if classes < 2:
                raise native.InputError(f"classes is {classes}; use at least 2, or None for OLÉ alone")
            self.classifier = torch.nn.Linear(model.get_sentence_embedding_dimension(), int(classes))

    def forward(self, sentence_features: Iterable[Dict[str, Tensor]], labels: Tensor) -> Tensor:
        """The loss of a batch of one sentence per row.

        >>> import torch
        >>> from ole.sentence_transformers import OLELoss
        >>> class Model(torch.nn.Module):
        ...     def forward(self, features):
        ...         return {"sentence_embedding": features["x"]}
        >>> float(OLELoss(Model())([{"x": torch.eye(3)}], torch.tensor([0, 1, 2])))
        0.0
        """
        columns = list(sentence_features)
        if len(columns) != 1:
            raise native.InputError(f"the loss takes one column of sentences and one of labels, not {len(columns)}")
        embeddings: Tensor = self.model(columns[0])["sentence_embedding"]
        labels = labels.reshape(-1)
        loss: Tensor = self.ole(embeddings, labels)
        if self.classifier is not None:
            logits = self.classifier(embeddings)
            loss = loss + torch.nn.functional.cross_entropy(logits, labels).to(loss.dtype)
        return loss

    def get_config_dict(self) -> Dict[str, Any]:
        """What sentence-transformers writes into the model card.

        >>> import torch
        >>> from ole.sentence_transformers import OLELoss
        >>> OLELoss(torch.nn.Identity(), weight=0.5).get_config_dict()
        {'classes': None, 'weight': 0.5}
        """
        classes = None if self.classifier is None else self.classifier.out_features
        return {"classes": classes, "weight": float(self.ole.weight)}

    @property
    def citation(self) -> str:
        """BibTeX of the paper, for the model card.

        >>> import torch
        >>> from ole.sentence_transformers import OLELoss
        >>> print(OLELoss(torch.nn.Identity()).citation.splitlines()[-1])
        }
        """
        return (
            "@inproceedings{lezama2018ole,\n"
            "    title={OL\\'E: Orthogonal Low-rank Embedding, A Plug and Play Geometric Loss for Deep Learning},\n"
            "    author={Lezama, Jos\\'e and Qiu, Qiang and Mus\\'e, Pablo and Sapiro, Guillermo},\n"
            "    booktitle={CVPR},\n    year={2018}\n}"
        )
