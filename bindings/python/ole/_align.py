"""``ole.align``: the orthogonal map between two embeddings of the same items."""
from __future__ import annotations

from ctypes import byref, c_size_t, c_void_p
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Iterable, Optional

from . import _library as native
from . import _structs as structs
from ._arrays import copy_of, processors, rows_of, type_of
from ._show import Shown, axes_of

if TYPE_CHECKING:
    import numpy
    from numpy.typing import ArrayLike

    Array = numpy.ndarray[Any, Any]

_calls = native.Calls(
    {"ole_align": [c_void_p] * 4, "ole_align_apply": [c_void_p] * 3},
    {"ole_align_options_init_sized": [None, c_void_p, c_size_t], "ole_alignment_free": [None, c_void_p]},
)


def _matrix(x: "Array") -> structs.Matrix:
    stride = x.strides[0] // x.itemsize if len(x) > 1 else 0  # a single row may have any stride
    return structs.Matrix(x.ctypes.data, *x.shape, stride, type_of(x))


@dataclass(frozen=True)
class Alignment(Shown):
    """An orthogonal map R, and how well it takes one embedding to the other."""

    map: "Array"
    """R: [from, to] float64."""
    shift: "Array"
    """[to], added to mapped rows; zeros without ``centre``."""
    rank: int
    """Below ``from``: other maps do as well."""
    scale: float
    """The factor that would fit best; the map is without it."""
    residual: float
    """‖A R - B‖ / ‖B‖."""
    cosine: float
    """Of a mapped row and its counterpart, mean over the rows."""

    def apply(self, features: "ArrayLike") -> "Array":
        """Rows [N, from] of the first space in the second: [N, to], float32 or float64 as they are.

        >>> import numpy, ole
        >>> a = numpy.random.default_rng(0).normal(size=(20, 3))
        >>> numpy.allclose(ole.align(a, a[:, ::-1]).apply(a), a[:, ::-1])
        True
        """
        import numpy

        x = rows_of(features)
        source, target = self.map.shape
        if x.shape[1] != source:
            raise native.InputError(f"features have {x.shape[1]} dimensions; the map takes {source}")
        mapped = numpy.empty((len(x), target), x.dtype)
        if len(x):
            one = structs.Alignment()
            whole, shift = (numpy.ascontiguousarray(part, numpy.float64) for part in (self.map, self.shift))
            for name, value in (("from", source), ("to", target), ("map", whole.ctypes.data),
                                ("shift", shift.ctypes.data)):
                setattr(one, name, value)
            _calls("ole_align_apply", byref(one), byref(_matrix(x)), byref(_matrix(mapped)))
        return mapped

    def _title(self) -> str:
        return f"orthogonal map from {self.map.shape[0]} to {self.map.shape[1]} dimensions"

    def _table(self) -> Iterable[tuple[str, str]]:
        yield "residual", f"{100 * self.residual:.2f} %"
        yield "cosine", f"mean {self.cosine:.4f}"
        yield "scale", f"{self.scale:.4g}"
        if self.rank < self.map.shape[0]:
            yield "rank", f"{self.rank}: other maps do as well"

    def plot(self, ax: Optional[Any] = None) -> Any:
        """Draws the map as an image with matplotlib; returns the axes.

        >>> import numpy, ole
        >>> axes = ole.align(numpy.eye(3), numpy.eye(3)[::-1]).plot()
        """
        ax = axes_of(ax)
        shown = ax.imshow(self.map, cmap="RdBu", vmin=-1, vmax=1)
        ax.set(xlabel="to", ylabel="from", title=self._title())
        ax.figure.colorbar(shown, ax=ax)
        return ax


def align(a: "ArrayLike", b: "ArrayLike", *, centre: bool = False, threads: Optional[int] = None) -> Alignment:
    """The orthogonal map R for which ‖A R - B‖ is smallest; row i of ``a`` and of ``b`` is the same item.

    It takes embeddings of an old model to the space of a new one and keeps all lengths and angles.  ``b`` may have
    more dimensions than ``a``.  ``centre`` subtracts the means first.

    >>> import numpy, ole
    >>> a = numpy.random.default_rng(0).normal(size=(20, 3))
    >>> turned = a[:, [2, 0, 1]]
    >>> found = ole.align(a, turned)
    >>> numpy.round(numpy.abs(found.map)).astype(int).tolist(), found.residual < 1e-6
    ([[0, 1, 0], [0, 0, 1], [1, 0, 0]], True)
    """
    one, other = rows_of(a, "a"), rows_of(b, "b")
    for name, x in (("a", one), ("b", other)):
        if 0 in x.shape:
            raise native.InputError(f"{name} has shape {x.shape}; give at least one row and one column")
    options = native.initialized(_calls, structs.AlignOptions, centre=bool(centre), threads=processors(threads))
    found = structs.Alignment()
    _calls("ole_align", byref(found), byref(_matrix(one)), byref(_matrix(other)), byref(options))
    try:
        source, target = getattr(found, "from"), found.to
        return Alignment(
            copy_of(found.map, (source, target)),
            copy_of(found.shift, (target,)),
            found.rank,
            found.scale,
            found.residual,
            found.cosine,
        )
    finally:
        _calls("ole_alignment_free", byref(found))
