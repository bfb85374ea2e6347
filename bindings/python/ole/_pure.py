"""The loss in NumPy, for systems without the native library.

The wheel for macOS, Windows and other CPUs has no libole; its plans come from here.  They take the same calls
and keep the same promise, by NumPy's SVD in float64, and are many times slower.  OLE_PURE_PYTHON=1 selects them
anywhere, which is how the tests run them.
"""
from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from . import _library as native
from ._arrays import view

if TYPE_CHECKING:
    import numpy

    from ._plans import Addresses, Kind

    Matrix = numpy.ndarray[Any, Any]

_NAMES = {native.F32: "float32", native.F64: "float64", native.I32: "int32", native.I64: "int64"}


_turn = threading.Lock()  # some builds of OpenBLAS give wrong numbers to threads that call it at once


def _decompose(rows: "Matrix", absolute: float, relative: float) -> tuple[float, int, "Matrix"]:
    """Nuclear norm, rank and polar factor over the singular values that count."""
    import numpy

    with _turn:
        u, sigma, vt = numpy.linalg.svd(rows, full_matrices=False)
    counted = sigma > max(absolute, relative * sigma[0])
    return float(sigma.sum()), int(counted.sum()), u[:, counted] @ vt[counted]


class Plan:
    """Stands in for ``_plans.Plan``."""

    def __init__(self, kind: "Kind") -> None:
        from ._score import check_not_negative

        check_not_negative("delta_floor", kind.delta_floor)
        check_not_negative("delta_abs", kind.delta_abs)
        if kind.delta_rel != native.AUTO:
            check_not_negative("delta_rel", kind.delta_rel)
        self._kind = kind
        self._error = native.ErrorText()
        self.result = native.Result()

    def evaluate(self, addresses: "Addresses", upstream: float) -> int:
        """The status; ``result`` has the numbers, ``failure()`` the reason."""
        import numpy

        count, features, stride, labels, label_type, gradient = addresses
        kind = self._kind
        x = view(features, (count, kind.dim), _NAMES[kind.dtype], stride)
        y = view(labels, (count,), _NAMES[label_type])
        used = y >= 0
        if not used.any():
            return self._fail(native.ARGUMENT, f"labels: all {count} rows are ignored (label < 0)")
        bad = used & ~numpy.isfinite(x).all(axis=1)
        if bad.any():
            row = int(numpy.flatnonzero(bad)[0])
            return self._fail(native.DATA, f"features: row {row} holds NaN or Inf; check what produced it")

        rows, names = x[used].astype(numpy.float64), y[used]
        relative = kind.delta_rel if kind.delta_rel != native.AUTO else 64 * float(numpy.finfo(x.dtype).eps)
        result = self.result
        result.global_norm, result.rank, polar = _decompose(rows, kind.delta_abs, relative)
        direction, class_term = -polar, 0.0
        classes = numpy.unique(names)
        for i, label in enumerate(classes):
            members = names == label
            norm, rank, polar = _decompose(rows[members], kind.delta_abs, relative)
            class_term += max(kind.delta_floor, norm)
            if norm > kind.delta_floor:
                direction[members] += polar
            if i < result.per_class_capacity:
                result.per_class[i] = native.ClassEntry(int(label), int(members.sum()), rank, norm)
        scale = 1 / len(rows) if kind.mean else 1.0
        result.class_term, result.rows, result.classes = class_term, len(rows), len(classes)
        result.value = scale * (class_term - result.global_norm)
        if not numpy.isfinite(result.value):
            return self._fail(native.NUMERIC, "the norms of the features overflow; scale them down")
        if gradient:
            out = view(gradient, (count, kind.dim), _NAMES[kind.dtype])
            out[...] = 0
            out[used] = scale * upstream * direction
        return native.OK

    def _fail(self, status: int, message: str) -> int:
        self._error.status, self._error.message = status, message.encode()
        return status

    def failure(self) -> native.Error:
        """The exception for the call that just failed."""
        return native.fail(self._error)

    def abandon(self) -> None:
        """Nothing to drop: there are no threads and no native memory."""
