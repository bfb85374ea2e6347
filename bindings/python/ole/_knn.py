"""``ole.knn``: the nearest rows of each row, and how often their classes are right."""
from __future__ import annotations

from ctypes import byref, c_int, c_void_p
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Iterable, Optional

from . import _library as native
from . import _structs as structs
from ._analyze import Data, test_data
from ._arrays import Labels, Name, matrix, processors, type_of
from ._show import Progress, Shown, axes_of, percent

if TYPE_CHECKING:
    import numpy
    from numpy.typing import ArrayLike

    Array = numpy.ndarray[Any, Any]

_calls = native.Calls(
    {"ole_nearest_rows": [c_void_p, c_void_p, c_int, c_int, structs.PartCallback, c_void_p, c_void_p, c_void_p]},
    {},
)


@dataclass(frozen=True)
class Neighbours(Shown):
    """The nearest rows by cosine, exactly."""

    index: "Array"
    """[queries, k] rows of the features, by falling cosine; -1 where there are too few."""
    cosine: "Array"
    """[queries, k]; NaN where there are too few."""
    predicted: tuple[Name, ...]
    """The class that most of the k neighbours have (in a tie, the first); empty without labels."""
    error: float
    """% of the queries whose class is not ``predicted``; NaN without labels of them."""
    knn1_error: float
    """% of the queries whose class is not that of their nearest row."""

    def _title(self) -> str:
        queries, k = self.index.shape
        return f"{k} nearest rows of {queries:,}"

    def _table(self) -> Iterable[tuple[str, str]]:
        import numpy

        if self.error == self.error:
            yield "1-NN error", percent(self.knn1_error)
            yield f"{self.index.shape[1]}-NN error", percent(self.error)
        for name, column in (("nearest", 0), ("farthest", -1)):
            there = self.cosine[:, column][self.index[:, column] >= 0]
            yield f"cosine of the {name}", f"median {numpy.median(there):.4f}" if len(there) else "-"

    def plot(self, ax: Optional[Any] = None) -> Any:
        """Draws the cosines of the nearest and the farthest neighbour with matplotlib; returns the axes.

        >>> import numpy, ole
        >>> axes = ole.knn(numpy.eye(8) + 1).plot()
        """
        ax = axes_of(ax)
        for name, column in (("nearest", 0), ("farthest", -1)):
            there = self.cosine[:, column]
            ax.hist(there[there == there], bins=50, alpha=0.5, label=f"the {name}")
        ax.set(xlabel="cosine", ylabel="rows", title=self._title())
        ax.legend()
        return ax


def knn(
    features: "ArrayLike",
    labels: "Optional[ArrayLike]" = None,
    *,
    test: "Optional[ArrayLike]" = None,
    test_labels: "Optional[ArrayLike]" = None,
    k: int = 5,
    threads: Optional[int] = None,
    verbose: bool = False,
) -> Neighbours:
    """The ``k`` rows of ``features`` [N, D] with the largest cosine for each row of ``test``.

    Without ``test``, for each row of ``features``, which is not its own neighbour.  With ``labels`` (strings or
    integers; rows with an integer below 0 are no neighbours) the neighbours also predict classes, and the errors are
    measured where the classes of the queries are known.

    >>> import numpy, ole
    >>> x = numpy.array([[1, 0], [2, 0.1], [0, 1], [0.1, 3]])
    >>> found = ole.knn(x, ["cat", "cat", "dog", "dog"], k=1)
    >>> found.index.ravel().tolist(), found.predicted, found.error
    ([1, 0, 3, 2], ('cat', 'cat', 'dog', 'dog'), 0.0)
    """
    import numpy

    x = matrix(features)
    kept: Optional[Array] = None
    known: Optional[Labels] = None
    truth: Optional[Array] = None
    queries: Optional[Array] = None if test is None else matrix(test, "test features")
    if labels is None and test_labels is not None:
        raise native.InputError("test_labels need labels to be compared with")
    if labels is not None:
        data = Data(x, labels)
        known, truth = data.labels, data.codes
        if test_labels is not None:
            tested = test_data(data, queries, test_labels)
            truth = None if tested is None else tested.codes
        elif queries is not None:
            truth = None
        if (known.codes < 0).any():
            kept = numpy.flatnonzero(known.codes >= 0)
            if len(kept) == 0:
                raise native.InputError("labels: every label is below 0, so that every row is ignored")
            x = x[kept]
            if queries is None and truth is not None:
                truth = truth[kept]
    index, cosine = _search(x, queries, int(k), processors(threads), verbose)
    codes = None if known is None else known.codes if kept is None else known.codes[kept]
    if codes is None or known is None:
        return Neighbours(index, cosine, (), numpy.nan, numpy.nan)
    first, most = codes[index[:, 0]], _vote(codes, index)
    first[index[:, 0] < 0] = -1
    errors = [numpy.nan, numpy.nan]
    if truth is not None and (truth >= 0).any():
        errors = [float(100 * numpy.mean((guess != truth)[truth >= 0])) for guess in (most, first)]
    if kept is not None:
        index = numpy.where(index < 0, -1, kept[index])
    names = tuple(known.name(int(code)) for code in most)
    return Neighbours(index, cosine, names, *errors)


def _search(
    x: "Array", queries: "Optional[Array]", k: int, threads: int, verbose: bool
) -> "tuple[Array, Array]":
    import numpy

    count = len(x) if queries is None else len(queries)
    index, cosine = numpy.empty((count, max(k, 1)), numpy.int64), numpy.empty((count, max(k, 1)))
    reference = structs.Embedding(*x.shape, type_of(x), x.ctypes.data, None)
    query = None
    if queries is not None:
        query = byref(structs.Embedding(*queries.shape, type_of(queries), queries.ctypes.data, None))
    progress = Progress(verbose)
    callback = structs.PartCallback(lambda _, what, done, total: progress.report(what.decode(), done / total))
    try:
        _calls("ole_nearest_rows", byref(reference), query, k, threads, callback, None, index.ctypes.data,
               cosine.ctypes.data)
    finally:
        progress.check()
    return index, cosine


def _vote(codes: "Array", index: "Array") -> "Array":
    """[queries] the class that most neighbours have, in a tie the first; -1 without neighbours."""
    import numpy

    votes = numpy.where(index < 0, -1, codes[index])
    votes.sort(axis=1)
    best: Array = numpy.full(len(votes), -1)
    most: Array = numpy.zeros(len(votes), int)
    run: Array = numpy.zeros(len(votes), int)
    for column in range(votes.shape[1]):
        same = votes[:, column] == votes[:, column - 1] if column else numpy.zeros(len(votes), bool)
        run = numpy.where(same, run + 1, 1)
        better = (run > most) & (votes[:, column] >= 0)
        best, most = numpy.where(better, votes[:, column], best), numpy.where(better, run, most)
    return best
