"""Arrays as the library reads them: features, labels, class names, and views of the library's memory.

float32 and float64 arrays in C order are read in place, whether writable or not.  Everything else (lists, pandas,
float16, integers, other strides) is converted once, which costs a copy.  NumPy is imported on first use.
"""
from __future__ import annotations

import ctypes
import os
from typing import TYPE_CHECKING, Any, NamedTuple, Optional, Sequence, Union

from . import _library as native

if TYPE_CHECKING:
    import numpy
    from numpy.typing import ArrayLike

    Array = numpy.ndarray[Any, Any]

Name = Union[int, str]
"""A class as the caller calls it: the label itself."""


def rows_of(features: "ArrayLike", name: str = "features") -> "Array":
    """Features as float32 or float64 with contiguous rows; not copied if they already are."""
    import numpy

    x = numpy.asarray(features)
    if x.ndim != 2:
        raise native.InputError(f"{name} have shape {x.shape}; use [N, D], one row per sample")
    if x.dtype not in (numpy.float32, numpy.float64) or not x.dtype.isnative:
        if x.dtype.kind == "O":
            x = _numbers(x, name)
        if x.dtype.kind not in "fiub":
            raise native.InputError(f"{name} have type {x.dtype}; use floats")
        short = x.dtype.kind == "f" and x.itemsize <= 4
        x = x.astype(numpy.float32 if short else numpy.float64)
    along, across = x.strides
    in_rows = across == x.itemsize and along >= x.shape[1] * x.itemsize and along % x.itemsize == 0
    return x if in_rows and x.flags.aligned else numpy.require(x, requirements=("C", "A"))


def _numbers(x: "Array", name: str) -> "Array":
    """An array of objects, such as a data frame of mixed columns, as floats."""
    try:
        return x.astype(float)
    except (TypeError, ValueError) as reason:
        raise native.InputError(f"{name} are not numbers ({reason})") from None


def matrix(features: "ArrayLike", name: str = "features") -> "Array":
    """Features [N, D] as C-contiguous float32 or float64, neither dimension empty."""
    import numpy

    x = numpy.require(rows_of(features, name), requirements=("C", "A"))
    if 0 in x.shape:
        raise native.InputError(f"{name} have shape {x.shape}; give at least one row and one column")
    return x


def type_of(x: "Array") -> int:
    """The ole_dtype of a matrix."""
    return native.F64 if x.itemsize == 8 else native.F32


class Labels(NamedTuple):
    """Labels of rows as numbers, and the names of the classes."""

    codes: "Array"
    """[N] int64; below 0: ignored."""
    names: Optional[tuple[str, ...]]
    """Of the codes 0, 1, ...; None: the labels are integers, and stand for themselves."""

    def name(self, code: int) -> Name:
        return code if self.names is None else self.names[code]

    def present(self) -> tuple[Name, ...]:
        """The classes, sorted."""
        import numpy

        return tuple(self.name(int(code)) for code in numpy.unique(self.codes) if code >= 0)


def labels_of(labels: "ArrayLike", rows: int, name: str = "labels", of: str = "features") -> Labels:
    """Labels of any integer type, or strings; strings are numbered in sorted order."""
    import numpy

    y = numpy.asarray(labels)
    if y.shape != (rows,):
        raise native.InputError(f"{name} have shape {y.shape}; {rows} rows of {of} need ({rows},)")
    if y.dtype.kind in "US" and isinstance(labels, (list, tuple)):  # NumPy makes strings of numbers among them
        y = numpy.array(labels, object)
    if y.dtype.kind == "O":
        y = _one_kind(y, name)
    if y.dtype.kind in "US":
        names, codes = numpy.unique(y, return_inverse=True)
        return Labels(codes.reshape(rows).astype(numpy.int64), tuple(str(one) for one in names.astype(str)))
    return Labels(numpy.require(integers(y, name), numpy.int64, ("C", "A")), None)


def _one_kind(y: "Array", name: str) -> "Array":
    """An array of objects as strings or integers."""
    import numpy

    for row, value in enumerate(y):
        if not isinstance(value, (str, bytes, int, numpy.integer)):
            raise native.InputError(f"{name}: row {row} is {value!r}; use strings or integers")
    kinds = {isinstance(value, (str, bytes)) for value in y}
    if len(kinds) > 1:
        raise native.InputError(f"{name} mix strings and numbers; use one of them")
    return y.astype(str) if kinds == {True} else y.astype(numpy.int64)


def integers(y: "Array", name: str = "labels") -> "Array":
    """Integer labels as contiguous int32 or int64; not copied if they already are."""
    import numpy

    if y.dtype.kind not in "iub":
        raise native.InputError(f"{name} have type {y.dtype}; use integers or strings")
    if y.dtype not in (numpy.int32, numpy.int64) or not y.dtype.isnative:
        given, y = y, y.astype(numpy.int64)
        if given.dtype.kind == "u" and (y < 0).any():
            at = int(numpy.flatnonzero(y < 0)[0])
            raise too_large(at, int(given.flat[at]))
    return numpy.require(y, requirements=("C", "A"))


def too_large(row: int, label: int, held: str = "int64") -> native.InputError:
    """The exception for a label that does not fit its type."""
    return native.InputError(
        f"labels: row {row} is {label}, which does not fit {held}; use 0 to 2^{int(held[3:]) - 1} - 1, or a negative "
        "label to ignore the row"
    )


def view(address: int, shape: Sequence[int], dtype: Any, stride: int = 0) -> "Array":
    """The array at an address of the library's; ``stride`` counts elements between rows (0: contiguous)."""
    import numpy

    kind = numpy.dtype(dtype)
    stride = stride or shape[-1]
    extent = (shape[0] - 1) * stride + shape[1] if len(shape) == 2 else shape[0]
    memory: Any = (ctypes.c_char * (extent * kind.itemsize)).from_address(address)
    strides = (stride * kind.itemsize, kind.itemsize)[-len(shape) :]
    return numpy.ndarray(tuple(shape), kind, memory, strides=strides)


def copy_of(address: Optional[int], shape: Sequence[int], dtype: str = "float64") -> "Array":
    """A copy of the library's array; empty where there is none."""
    import numpy

    if not address or 0 in shape:
        return numpy.empty(tuple(shape), dtype)
    return view(address, shape, dtype).copy()


def processors(threads: Optional[int]) -> int:
    """``threads``, by default all processors that this process may use."""
    if threads is None:
        return min(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1, 1024)
    return thread_count(threads)


def thread_count(threads: Optional[int]) -> int:
    """``threads``, or 0 for the default."""
    if threads is None:
        return 0
    if not 1 <= threads <= 1024 or threads != int(threads):
        raise native.InputError(f"threads is {threads}; use 1 to 1024")
    return int(threads)
