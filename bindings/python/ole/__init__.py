"""Olé: orthogonal low-rank embeddings, a geometric loss for deep learning.

    ole.score(features, labels)          the loss of NumPy arrays, its terms and gradient
    from ole.torch import OLELoss        the loss in PyTorch
    from ole.jax import ole_loss         the loss in JAX
    ole.info()                           what the library is built with and what this machine offers

Features are [N, D], one row per sample: the input of the last linear layer.  With X_c the rows of class
c and ‖·‖_* the nuclear norm,

    loss = weight/N * ( sum_c max(Δ, ‖X_c‖_*) - ‖X‖_* )

is zero when each class lies in its own subspace, orthogonal to the others.  PyTorch and JAX are
imported only by the modules named after them.
"""
from __future__ import annotations

from typing import TYPE_CHECKING

from ._library import Error, InputError, info
from ._score import ClassScore, Score, score

__all__ = ["ClassScore", "Error", "InputError", "Score", "__version__", "info", "score"]

if TYPE_CHECKING:
    __version__: str
else:

    def __getattr__(name: str) -> str:
        if name == "__version__":  # the library is loaded on first use
            from ._library import version

            return version()
        raise AttributeError(f"module 'ole' has no attribute {name!r}")

    def __dir__() -> list[str]:
        return sorted(set(globals()) | set(__all__))
