"""Fits a map and a classifier to embeddings: ``ole_embed_fit()`` of ole/train/embed.h, for the estimators."""
from __future__ import annotations

import math
from ctypes import byref, c_bool, c_char_p, c_int, c_int64, c_size_t, c_void_p
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Optional, Sequence

from . import _library as native
from . import _train_library as structs
from ._arrays import type_of
from ._model import Model
from ._score import check_not_negative
from ._show import Progress
from ._structs import Embedding, PartCallback
from ._train_library import train_library

if TYPE_CHECKING:
    import numpy

    Array = numpy.ndarray[Any, Any]

METHODS = {"linear": 1, "mlp": 2, "transform": 3, "none": 4}

_calls = native.Calls(
    {
        "ole_embed_fit": [c_void_p, c_void_p, c_void_p, c_int64, c_void_p, c_void_p],
        "ole_novelty_attach": [c_void_p, c_void_p, c_void_p, c_void_p, c_void_p, c_int, c_void_p],
    },
    {
        "ole_embed_options_init_sized": [None, c_void_p, c_size_t],
        "ole_novelty_options_init_sized": [None, c_void_p, c_size_t],
        "ole_embed_summary_free": [None, c_void_p],
        "ole_score_name": [c_char_p, c_int],
        "ole_score_parse": [c_bool, c_char_p, c_void_p],
        "ole_model_free": [None, c_void_p],
    },
    train_library,
)


@dataclass(frozen=True)
class Fitted:
    """A model and how it was found."""

    model: Model
    weight: float
    """λ in use; NaN where the method has none."""
    weight_decay: float
    width: int
    held_out_accuracy: float
    """% of rows that the model scored without having seen them; NaN for none."""
    iterations: int
    rows_held_out: bool
    """Whether any class has more than one row, so that the fit could hold rows out."""
    group_auroc: dict[str, float]
    """Of each score, with groups of classes in the part of the unknown; empty where none was chosen."""


def options_of(
    calls: native.Calls,
    *,
    method: str = "linear",
    weight: Optional[float] = None,
    weight_decay: Optional[float] = None,
    width: Optional[int] = None,
    epochs: Optional[int] = None,
    **others: Any,
) -> structs.EmbedOptions:
    """Options of a fit; ``others`` are fields of ole_embed_options."""
    if method not in METHODS:
        raise native.InputError(f"method is {method!r}; use one of {', '.join(map(repr, METHODS))}")
    for name, value in (("weight", weight), ("weight_decay", weight_decay), ("width", width), ("epochs", epochs)):
        if value is not None:
            check_not_negative(name, value, " or None")
    for name, count in (("width", width), ("epochs", epochs)):
        if count is not None and count != int(count):
            raise native.InputError(f"{name} is {count!r}; use a whole number or None")
    return native.initialized(
        calls,
        structs.EmbedOptions,
        method=METHODS[method],
        width=int(width or 0),
        epochs=int(epochs or 0),
        weight_decay=math.nan if weight_decay is None else float(weight_decay),
        **{"lambda": math.nan if weight is None else float(weight)},
        **others,
    )


def fit(
    x: "Array",
    codes: "Array",
    names: Sequence[str],
    *,
    class_weights: "Optional[Array]" = None,
    score: Optional[str] = None,
    threads: int = 1,
    verbose: bool = False,
    **options: Any,
) -> Fitted:
    """Fits rows ``x`` (as ``_arrays.matrix`` gives them) of the classes ``codes``, int64, which ``names`` names.
    ``score`` is that of the threshold: "auto", a name, or None for the one that the fit itself sets; ``options`` are
    those of ``options_of``."""
    number = c_int(0)
    if score not in (None, "auto") and not _calls("ole_score_parse", str(score).encode(), byref(number)):
        raise native.InputError(f"score is {score!r}; use 'auto' or the name of a score, such as 'cosine'")
    progress = Progress(verbose)
    callback = PartCallback(lambda _, what, done, total: progress.report(what.decode(), done / max(total, 1)))
    chosen = options_of(_calls, threads=threads, callback=callback, **options)
    if class_weights is not None:
        chosen.class_weights = class_weights.ctypes.data
    train = Embedding(*x.shape, type_of(x), x.ctypes.data, codes.ctypes.data)
    called = (c_char_p * len(names))(*(name.encode() for name in names))
    handle, summary, choice = c_void_p(), structs.EmbedSummary(), structs.NoveltyChoice()
    try:
        _calls("ole_embed_fit", byref(handle), byref(train), called, len(names), byref(chosen), byref(summary))
        if score is not None:
            known = native.initialized(_calls, structs.NoveltyOptions, threads=threads, callback=callback)
            _calls(
                "ole_novelty_attach",
                byref(choice),
                handle,
                byref(train),
                byref(chosen),
                byref(summary),
                number.value,
                byref(known),
            )
        if progress.caught is not None:
            raise progress.caught
    except BaseException:
        _calls("ole_embed_summary_free", byref(summary))
        _calls("ole_model_free", handle)
        raise
    finally:
        progress.check()
    try:
        return Fitted(
            Model(handle, threads),
            getattr(summary, "lambda"),
            summary.weight_decay,
            summary.width,
            summary.held_out_accuracy,
            summary.iterations,
            summary.single < summary.classes,
            {_calls("ole_score_name", at + 1).decode(): mean for at, mean in enumerate(choice.mean) if choice.groups},
        )
    finally:
        _calls("ole_embed_summary_free", byref(summary))
