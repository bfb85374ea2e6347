"""``ole.verify``: do two rows show the same class, and from which cosine on?"""
from __future__ import annotations

from ctypes import POINTER, addressof, byref, c_int, c_int64, c_uint64, c_void_p, cast, sizeof
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Iterable, Optional

from . import _library as native
from . import _structs as structs
from ._arrays import copy_of, labels_of, matrix, type_of, view
from ._show import Shown, axes_of, percent

if TYPE_CHECKING:
    import numpy
    from numpy.typing import ArrayLike

    Array = numpy.ndarray[Any, Any]

_calls = native.Calls(
    {
        "ole_pairs_draw": [c_void_p, c_int64, c_void_p, c_int64, c_int, c_uint64],
        "ole_verify": [c_void_p, c_int64, c_int64, c_int, c_void_p, c_void_p, structs.ProgressCallback, c_void_p],
    },
    {"ole_pairs_free": [None, c_void_p], "ole_verification_free": [None, c_void_p]},
)


@dataclass(frozen=True)
class Roc(Shown):
    """How well a score separates two kinds of samples."""

    auroc: float
    """Area under the curve: P(positive over negative)."""
    ap_positive: float
    """Average precision."""
    ap_negative: float
    """The same with negatives as the kind to find."""
    fpr95: float
    """False-positive rate where 95 % of the positives are accepted."""
    positives: int
    negatives: int
    threshold: "Array"
    """[points], falling; the first is infinity."""
    tpr: "Array"
    fpr: "Array"

    def _title(self) -> str:
        return f"ROC of {self.positives:,} positives and {self.negatives:,} negatives"

    def _table(self) -> Iterable[tuple[str, str]]:
        yield "AUROC", f"{self.auroc:.4f}"
        yield "FPR at 95 % TPR", f"{self.fpr95:.4f}"
        yield "average precision", f"{self.ap_positive:.4f} (negatives: {self.ap_negative:.4f})"

    def plot(self, ax: Optional[Any] = None) -> Any:
        """Draws the curve with matplotlib; returns the axes.

        >>> import numpy, ole
        >>> axes = ole.verify(numpy.eye(4)[[0, 0, 1, 1]], [0, 0, 1, 1], folds=2).roc.plot()
        """
        ax = axes_of(ax)
        ax.plot(self.fpr, self.tpr, label=f"AUROC {self.auroc:.4f}")
        ax.set(xlabel="false-positive rate", ylabel="true-positive rate", xlim=(0, 1), ylim=(0, 1))
        ax.legend()
        return ax


def roc_of(roc: structs.Roc) -> Roc:
    """A copy of the library's curve."""
    curves = [copy_of(getattr(roc, name), (roc.points,)) for name in ("threshold", "tpr", "fpr")]
    return Roc(roc.auroc, roc.ap_positive, roc.ap_negative, roc.fpr95, roc.positives, roc.negatives, *curves)


@dataclass(frozen=True)
class Verification(Shown):
    """How well the cosine of two rows tells whether they show the same class."""

    accuracy: float
    """%, mean over the folds."""
    accuracy_std: float
    """%, standard deviation over the folds."""
    threshold: float
    """For new pairs: a cosine at or over it counts as the same."""
    fold_accuracy: "Array"
    fold_threshold: "Array"
    pairs: "Array"
    """[count, 4] int64: two rows, 1 for the same class, fold."""
    cosine: "Array"
    """[count]"""
    roc: Roc

    def _title(self) -> str:
        return f"{len(self.pairs):,} pairs, {int(self.pairs[:, 2].sum()):,} of one class"

    def _table(self) -> Iterable[tuple[str, str]]:
        yield "accuracy", f"{percent(self.accuracy)} ± {self.accuracy_std:.2f} over {len(self.fold_accuracy)} folds"
        yield "threshold", f"cosine {self.threshold:.4f}"
        yield from self.roc._table()

    def plot(self, ax: Optional[Any] = None) -> Any:
        """Draws the cosines of same and different pairs with matplotlib; returns the axes.

        >>> import numpy, ole
        >>> axes = ole.verify(numpy.eye(4)[[0, 0, 1, 1]], [0, 0, 1, 1], folds=2).plot()
        """
        ax = axes_of(ax)
        for name, same in (("same", 1), ("different", 0)):
            ax.hist(self.cosine[self.pairs[:, 2] == same], bins=50, alpha=0.5, density=True, label=name)
        ax.axvline(self.threshold, color="black", linestyle="--", label="threshold")
        ax.set(xlabel="cosine", ylabel="density", title=self._title())
        ax.legend()
        return ax


_COLUMNS = ("a", "b", "same", "fold")


def _record() -> Any:
    """An ole_pair as a type of NumPy's."""
    import numpy

    formats = {"a": "i8", "b": "i8", "same": "?", "fold": "i4"}
    offsets = [getattr(structs.Pair, name).offset for name in formats]
    return numpy.dtype(
        {"names": list(formats), "formats": list(formats.values()), "offsets": offsets, "itemsize": sizeof(structs.Pair)}
    )


def _given(pairs: "ArrayLike", folds: int) -> "tuple[Array, int]":
    """The pairs as [count, 4]; those without folds are dealt to them in turn, same and different ones separately."""
    import numpy

    given = numpy.asarray(pairs)
    if given.ndim != 2 or given.shape[1] not in (3, 4) or given.dtype.kind not in "iub":
        raise native.InputError(
            f"pairs have shape {given.shape} and type {given.dtype}; use integers [N, 3] (two rows, and 1 for the same "
            "class or 0) or [N, 4] with the fold"
        )
    found = numpy.empty((len(given), 4), numpy.int64)
    found[:, : given.shape[1]] = given
    if not numpy.isin(found[:, 2], (0, 1)).all():
        raise native.InputError("pairs: the third column is 1 for the same class and 0 for different ones")
    if given.shape[1] == 4:
        return found, int(found[:, 3].max(initial=-1)) + 1
    for kind in (0, 1):
        of = found[:, 2] == kind
        found[of, 3] = numpy.arange(of.sum()) % folds
    return found, folds


def verify(
    features: "ArrayLike",
    labels: "Optional[ArrayLike]" = None,
    *,
    pairs: "Optional[ArrayLike]" = None,
    most: int = 10_000,
    folds: int = 10,
    seed: int = 0,
) -> Verification:
    """Verifies pairs of rows of ``features`` [N, D] by their cosine, as ``ole verify`` does.

    Pairs are drawn from ``labels`` (strings or integers; rows with an integer below 0 are in no pair), ``most`` of
    each kind, or given as ``pairs``: integers [P, 3], two rows and 1 (same) or 0, or [P, 4] with the fold.  Each fold
    is judged at the threshold that is best on the others.

    >>> import numpy, ole
    >>> x = numpy.random.default_rng(0).normal(size=(60, 8)) + 9 * numpy.eye(8)[numpy.arange(60) % 3]
    >>> found = ole.verify(x, numpy.arange(60) % 3)
    >>> found.accuracy > 99, found.roc.auroc > 0.99
    (True, True)
    """
    import numpy

    x = matrix(features)
    if (labels is None) == (pairs is None):
        raise native.InputError("pass either labels, to draw pairs from, or pairs")
    drawn = structs.Pairs()
    if labels is not None:
        codes = labels_of(labels, len(x)).codes
        _calls("ole_pairs_draw", byref(drawn), len(x), codes.ctypes.data, int(most), int(folds), int(seed))
        raw = view(addressof(drawn.pair.contents), (drawn.count,), _record())
        table = numpy.stack([raw[name].astype(numpy.int64) for name in _COLUMNS], axis=1)
        given = drawn
    else:
        assert pairs is not None
        table, folds = _given(pairs, int(folds))
        raw = numpy.zeros(len(table), _record())
        for column, name in enumerate(_COLUMNS):
            raw[name] = table[:, column]
        given = structs.Pairs(len(table), folds, cast(raw.ctypes.data, POINTER(structs.Pair)))
    found = structs.Verification()
    try:
        if not len(table):
            raise native.InputError("there are no pairs to verify")
        _calls("ole_verify", byref(found), *x.shape, type_of(x), x.ctypes.data, byref(given),
               structs.ProgressCallback(), None)
        try:
            return Verification(
                found.accuracy,
                found.accuracy_std,
                found.threshold,
                copy_of(found.fold_accuracy, (found.folds,)),
                copy_of(found.fold_threshold, (found.folds,)),
                table,
                copy_of(found.score, (found.count,)),
                roc_of(found.roc),
            )
        finally:
            _calls("ole_verification_free", byref(found))
    finally:
        _calls("ole_pairs_free", byref(drawn))
