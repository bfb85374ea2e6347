"""Olé: orthogonal low-rank embeddings, a geometric loss for deep learning.

    ole.score(features, labels)          the loss of NumPy arrays, its terms and gradient
    ole.analyze(features, labels)        errors, angles, spectra, overlaps and a map
    ole.knn, ole.tsne, ole.verify        neighbours; a map; same or different
    ole.align(a, b)                      the orthogonal map from one embedding to another
    ole.OLEClassifier, ole.OLETransformer    scikit-learn estimators: a map, a classifier, "unknown"
    ole.novelty(features, labels)        is a row one of the known classes? Scores, and a threshold
    ole.load(path)                       a trained model: predict, features
    from ole.torch import OLELoss        the loss in PyTorch
    from ole.jax import ole_loss         the loss in JAX
    ole.info()                           what the library is built with and what this machine offers

Features are [N, D], one row per sample: the input of the last linear layer.  With X_c the rows of class
c and ‖·‖_* the nuclear norm,

    loss = weight/N * ( sum_c max(Δ, ‖X_c‖_*) - ‖X‖_* )

is zero when each class lies in its own subspace, orthogonal to the others.  PyTorch, JAX, scikit-learn and
matplotlib are imported only by what needs them.
"""
from __future__ import annotations

from typing import TYPE_CHECKING

from ._align import Alignment, align
from ._analyze import Analysis, analyze
from ._knn import Neighbours, knn
from ._library import Error, InputError, info
from ._model import Model, Prediction, Predictions, load
from ._novelty import Novelty, NoveltyScore, novelty
from ._score import ClassScore, Score, score
from ._tsne import Map, tsne
from ._verify import Roc, Verification, verify

__all__ = [
    "Alignment",
    "Analysis",
    "ClassScore",
    "Error",
    "InputError",
    "Map",
    "Model",
    "Novelty",
    "NoveltyScore",
    "OLEClassifier",
    "OLETransformer",
    "Neighbours",
    "Prediction",
    "Predictions",
    "Roc",
    "Score",
    "Verification",
    "__version__",
    "align",
    "analyze",
    "info",
    "knn",
    "load",
    "novelty",
    "score",
    "tsne",
    "verify",
]

if TYPE_CHECKING:
    from .estimators import OLEClassifier, OLETransformer

    __version__: str
else:

    def __getattr__(name):
        if name == "__version__":  # the library is loaded on first use
            from ._library import version

            return version()
        if name in ("OLEClassifier", "OLETransformer"):  # they import scikit-learn
            from . import estimators

            return getattr(estimators, name)
        raise AttributeError(f"module 'ole' has no attribute {name!r}")

    def __dir__() -> list[str]:
        return sorted(set(globals()) | set(__all__))
