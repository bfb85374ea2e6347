"""``ole.score``: the loss of NumPy arrays, with its terms, per-class numbers and gradient."""
from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Optional

from . import _library as native
from ._arrays import Name, integers, labels_of, rows_of, thread_count
from ._plans import Kind, bucket, plans

if TYPE_CHECKING:
    import numpy
    from numpy.typing import ArrayLike


@dataclass(frozen=True)
class ClassScore:
    """The numbers of one class."""

    label: Name
    """The integer or string that the rows have."""
    count: int
    """Number of rows."""
    rank: int
    """Number of singular values above the threshold."""
    norm: float
    """Nuclear norm of the rows, before the floor."""


@dataclass(frozen=True)
class Score:
    """The loss of a set of features, and its terms."""

    value: float
    """weight/rows * (class_term - global_norm), without the 1/rows for reduction "sum"."""
    class_term: float
    """The sum over classes of max(delta_floor, nuclear norm of the class)."""
    global_norm: float
    """The nuclear norm of all rows."""
    rows: int
    """Number of rows that are not ignored."""
    classes: int
    rank: int
    """Number of singular values of all rows above the threshold."""
    per_class: tuple[ClassScore, ...]
    """One entry per class, sorted by label."""
    gradient: Optional["numpy.ndarray[Any, Any]"] = None
    """dvalue/dfeatures, in the shape of the features; None unless requested."""


def score(
    features: "ArrayLike",
    labels: "ArrayLike",
    *,
    gradient: bool = False,
    weight: float = 1.0,
    delta_floor: float = 1.0,
    delta_abs: float = 1e-6,
    delta_rel: Optional[float] = None,
    reduction: str = "mean",
    threads: int = 1,
) -> Score:
    """The OLÉ loss of ``features`` [N, D] with ``labels`` [N], integers or strings.

    float32 and float64 features with contiguous rows are read in place; other types are converted
    (float16 to float32, integers to float64).  Rows with a label below 0 are ignored.

    ``delta_floor`` is the lower bound of each class's norm.  A singular value counts if it exceeds
    ``delta_abs`` and ``delta_rel`` times the largest one (``None``: 64 times the machine epsilon).

    Raises ``ole.InputError`` for wrong shapes, and for NaN or Inf.

    >>> import numpy, ole
    >>> features = numpy.array([[2, 1, 0], [3, 1, 0], [1, 0, 2], [1, 0, 3]], numpy.float32)
    >>> round(ole.score(features, [0, 0, 1, 1]).value, 4)
    0.087
    """
    import numpy

    x, y, names = rows_of(features), numpy.asarray(labels), None
    rows, dim = x.shape
    if y.dtype.kind in "OUS":
        y, names = labels_of(y, rows)
    else:
        y = integers(y)  # int32 stays as it is
    if y.shape != (rows,):
        raise native.InputError(f"labels have shape {y.shape}; {rows} rows of features need ({rows},)")
    if rows == 0 or dim == 0:
        raise native.InputError(f"features have shape {x.shape}; there is nothing to score")
    mean, scale = kind_options(reduction, weight)
    kind = Kind(
        bucket(rows),
        dim,
        native.F64 if x.dtype == numpy.float64 else native.F32,
        mean,
        float(delta_floor),
        float(delta_abs),
        relative_cut(delta_rel),
        thread_count(threads),
    )
    found = numpy.empty_like(x, order="C", subok=False) if gradient else None
    plan = plans.take(kind)
    try:
        entries = (native.ClassEntry * rows)()
        plan.result.per_class, plan.result.per_class_capacity = entries, rows
        addresses = (
            rows,
            x.ctypes.data,
            x.strides[0] // x.itemsize if rows > 1 else 0,  # a single row may have any stride
            y.ctypes.data,
            native.I32 if y.itemsize == 4 else native.I64,
            0 if found is None else found.ctypes.data,
        )
        status = plan.evaluate(addresses, scale)
        plan.result.per_class, plan.result.per_class_capacity = None, 0
        if status != native.OK:
            raise plan.failure()
        result = plan.result
        return Score(
            value=scale * result.value,
            class_term=result.class_term,
            global_norm=result.global_norm,
            rows=result.rows,
            classes=result.classes,
            rank=result.rank,
            per_class=tuple(
                ClassScore(entry.label if names is None else names[entry.label], entry.count, entry.rank, entry.norm)
                for entry in entries[: result.classes]
            ),
            gradient=found,
        )
    finally:
        plans.give(kind, plan)


def kind_options(reduction: str, weight: float) -> tuple[bool, float]:
    """Whether to divide by the number of rows, and the weight as a float."""
    if reduction not in ("mean", "sum"):
        raise native.InputError(f'reduction is {reduction!r}; use "mean" or "sum"')
    weight = float(weight)
    if weight - weight != 0.0:  # not finite, written so that torch.compile can trace it
        raise native.InputError(f"weight is {weight}; use a finite number")
    return reduction == "mean", weight


def relative_cut(delta_rel: Optional[float]) -> float:
    """``delta_rel`` as the library expects it."""
    if delta_rel is None:
        return native.AUTO
    check_not_negative("delta_rel", delta_rel, " or None")
    return float(delta_rel)


def check_not_negative(name: str, value: float, otherwise: str = "") -> None:
    try:
        fits = 0.0 <= value < float("inf")
    except (TypeError, ValueError):  # no number, or an array
        fits = False
    if not fits:
        raise native.InputError(f"{name} is {value!r}; use a finite number of 0 or more{otherwise}")
