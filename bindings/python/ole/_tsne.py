"""``ole.tsne``: a map of features in the plane."""
from __future__ import annotations

from ctypes import byref, c_double, c_int, c_int64, c_size_t, c_void_p
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Iterable, Optional

from . import _library as native
from . import _structs as structs
from ._arrays import Name, labels_of, matrix, processors, type_of
from ._show import Progress, Shown, axes_of, scatter

if TYPE_CHECKING:
    import numpy
    from numpy.typing import ArrayLike

    Array = numpy.ndarray[Any, Any]

_calls = native.Calls(
    {
        "ole_tsne": [c_int64, c_int64, c_int, c_void_p, c_void_p, c_void_p, c_void_p],
        "ole_trustworthiness": [c_int64, c_int64, c_int, c_void_p, c_void_p, c_int, c_int, c_void_p],
    },
    {"ole_tsne_options_init_sized": [None, c_void_p, c_size_t]},
)


@dataclass(frozen=True)
class Map(Shown):
    """A t-SNE map; ``numpy.asarray(map)`` gives its points."""

    points: "Array"
    """[N, 2] float64, centred at 0."""
    kl: float
    """KL(P || Q), as the tree estimates it."""
    trustworthiness: float
    """1 if the 5 nearest rows on the map are the nearest in the features; NaN unless ``quality=True``."""
    labels: Optional[tuple[Name, ...]] = field(repr=False)

    def __array__(self, dtype: Any = None, copy: Optional[bool] = None) -> "Array":
        return self.points if dtype is None else self.points.astype(dtype)

    def _title(self) -> str:
        return f"t-SNE map of {len(self.points):,} rows"

    def _table(self) -> Iterable[tuple[str, str]]:
        yield "KL divergence", f"{self.kl:.4f}"
        if self.trustworthiness == self.trustworthiness:
            yield "trustworthiness", f"{self.trustworthiness:.4f}"

    def plot(self, ax: Optional[Any] = None) -> Any:
        """Draws the map with matplotlib, coloured by label; returns the axes.

        >>> import numpy, ole
        >>> axes = ole.tsne(numpy.random.default_rng(0).normal(size=(20, 4)), perplexity=5).plot()
        """
        ax = axes_of(ax)
        scatter(ax, self.points, self.labels)
        return ax


def tsne(
    features: "ArrayLike",
    labels: "Optional[ArrayLike]" = None,
    *,
    perplexity: float = 30.0,
    theta: float = 0.5,
    iterations: int = 1000,
    exaggeration: float = 12.0,
    learning_rate: Optional[float] = None,
    pca: int = 50,
    start: "Optional[ArrayLike]" = None,
    quality: bool = False,
    seed: int = 0,
    threads: Optional[int] = None,
    verbose: bool = False,
) -> Map:
    """Maps ``features`` [N, D] to the plane by Barnes-Hut t-SNE, as ``ole tsne`` does.

    ``perplexity`` is at most a third of the rows.  ``pca`` principal components are kept (0: the raw features).
    ``start`` [N, 2] replaces the random initial map.  ``labels`` colour the plot and change nothing else.
    ``quality=True`` also measures the trustworthiness; its time grows with the square of the rows.  The same seed
    gives the same map for any number of ``threads`` (default: all processors).

    >>> import numpy, ole
    >>> x = numpy.random.default_rng(0).normal(size=(40, 8)) + 9 * numpy.eye(8)[numpy.arange(40) % 2]
    >>> found = ole.tsne(x, perplexity=8)
    >>> found.points.shape, found.kl < 0.5
    ((40, 2), True)
    """
    import numpy

    x = matrix(features)
    names = None
    if labels is not None:
        of = labels_of(labels, len(x))
        names = tuple(of.name(int(code)) for code in of.codes)
    progress = Progress(verbose)
    callback = structs.TsneCallback(
        lambda _, at: progress.report(at.contents.stage.decode(), at.contents.share)
    )
    options = native.initialized(
        _calls,
        structs.TsneOptions,
        perplexity=float(perplexity),
        theta=float(theta),
        iterations=int(iterations),
        exaggeration=float(exaggeration),
        learning_rate=0.0 if learning_rate is None else float(learning_rate),
        pca=min(int(pca), *x.shape),
        seed=int(seed),
        threads=processors(threads),
        callback=callback,
    )
    begin = None
    if start is not None:
        begin = numpy.require(start, numpy.float64, ("C", "A"))
        if begin.shape != (len(x), 2):
            raise native.InputError(f"start has shape {begin.shape}; {len(x)} rows need ({len(x)}, 2)")
        options.start = begin.ctypes.data
    points, kl, trust = numpy.empty((len(x), 2)), c_double(), c_double(numpy.nan)
    try:
        _calls("ole_tsne", *x.shape, type_of(x), x.ctypes.data, byref(options), points.ctypes.data, byref(kl))
    finally:
        progress.check()
    if quality:
        near = max(1, min(5, (len(x) - 1) // 2))
        _calls("ole_trustworthiness", *x.shape, type_of(x), x.ctypes.data, points.ctypes.data, near,
               processors(threads), byref(trust))
    return Map(points, kl.value, trust.value, names)
