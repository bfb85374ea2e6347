"""``ole.novelty``: is a row one of the known classes? Thirteen scores compared, one chosen without novel rows."""
from __future__ import annotations

import os
from ctypes import byref, c_char_p, c_int, c_int64, c_size_t, c_void_p
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Iterable, Optional, Union

from . import _library as native
from . import _train_library as structs
from ._analyze import Data, check_seen, test_data
from ._arrays import Name, copy_of, matrix, processors, type_of
from ._embed import options_of
from ._model import Model, load
from ._show import Progress, Shown, axes_of
from ._structs import Embedding, PartCallback
from ._train_library import train_library
from ._verify import Roc, roc_of

if TYPE_CHECKING:
    import numpy
    from numpy.typing import ArrayLike

    Array = numpy.ndarray[Any, Any]

_calls = native.Calls(
    {
        "ole_novelty_fit": [c_void_p, c_void_p, c_void_p, c_void_p, c_int64, c_void_p, c_void_p, c_void_p, c_void_p],
        "ole_novelty_store": [c_void_p, c_int, c_char_p],
        "ole_model_save": [c_void_p, c_char_p],
    },
    {
        "ole_novelty_options_init_sized": [None, c_void_p, c_size_t],
        "ole_embed_options_init_sized": [None, c_void_p, c_size_t],
        "ole_novelty_free": [None, c_void_p],
        "ole_model_free": [None, c_void_p],
        "ole_score_name": [c_char_p, c_int],
        "ole_score_title": [c_char_p, c_int],
    },
    train_library,
)


@dataclass(frozen=True)
class NoveltyScore(Shown):
    """One score of known and novel rows; larger is surer that a row is known."""

    name: str
    title: str
    threshold: float
    """Keeps the requested share of held-out known rows."""
    kept: float
    """% of the known test rows at or over it."""
    accepted: float
    """% of the novel rows at or over it, which are mistaken for a known class; NaN without novel rows."""
    group_auroc: float
    """Mean AUROC with groups of known classes in the part of the novel ones; NaN where it was not measured."""
    known: "Array"
    novel: "Array"
    roc: Roc

    def _title(self) -> str:
        return f"{self.name}: {self.title}"

    def _table(self) -> Iterable[tuple[str, str]]:
        yield "threshold", f"{self.threshold:.4g}, keeps {self.kept:.1f} % of the known rows"
        if len(self.novel):
            yield "novel rows over it", f"{self.accepted:.1f} %"
            yield "AUROC", f"{self.roc.auroc:.4f}"
        if self.group_auroc == self.group_auroc:
            yield "AUROC without novel rows", f"{self.group_auroc:.4f}"

    def plot(self, ax: Optional[Any] = None) -> Any:
        """Draws the scores of known and novel rows with matplotlib; returns the axes.

        >>> import numpy, ole
        >>> x = numpy.random.default_rng(0).normal(size=(60, 8)) + 6 * numpy.eye(8)[numpy.arange(60) % 6]
        >>> found = ole.novelty(x[:48], numpy.arange(48) % 6, novel=-x[48:], weight=0.05, weight_decay=1e-3)
        >>> axes = found.chosen.plot()
        """
        ax = axes_of(ax)
        for name, values in (("known", self.known), ("novel", self.novel)):
            if len(values):
                ax.hist(values, bins=50, alpha=0.5, density=True, label=name)
        ax.axvline(self.threshold, color="black", linestyle="--", label="threshold")
        ax.set(xlabel=self.title, ylabel="density")
        ax.legend()
        return ax


@dataclass(frozen=True)
class Novelty(Shown):
    """The results of ``ole.novelty``: the scores by name, and the one that was chosen."""

    scores: dict[str, NoveltyScore]
    chosen: Optional[NoveltyScore]
    """The score with the highest ``group_auroc``; novel rows had no part in it. None with ``choose=False``."""
    accuracy: float
    """% of the known test rows classified correctly."""
    known: int
    novel: int
    groups: int
    """Groups of classes that stood for novel ones; 0: too few classes, so that the cosine was chosen by default."""
    classes: tuple[Name, ...]
    model: Optional[Model]
    """Fitted to all known rows, with the chosen score's threshold; None for the method "none"."""

    def _title(self) -> str:
        novel = f", {self.novel:,} novel" if self.novel else ""
        return f"{self.known:,} known rows of {len(self.classes):,} classes{novel}"

    def _table(self) -> Iterable[tuple[str, str]]:
        yield "accuracy", f"{self.accuracy:.2f} %"
        if self.chosen is not None:
            yield "chosen", f"{self.chosen.name} ({self.chosen.title}), threshold {self.chosen.threshold:.4g}"
        for one in sorted(self.scores.values(), key=lambda one: -(one.group_auroc if one.group_auroc > 0 else 0)):
            parts = []
            if one.group_auroc == one.group_auroc:
                parts.append(f"AUROC {one.group_auroc:.4f} without novel rows")
            if self.novel:
                parts.append(f"{one.roc.auroc:.4f} with them, {one.accepted:.1f} % of them over the threshold")
            yield one.name, ", ".join(parts)

    def plot(self, ax: Optional[Any] = None) -> Any:
        """Draws the ROC curve of every score with matplotlib; returns the axes.

        >>> import numpy, ole
        >>> x = numpy.random.default_rng(0).normal(size=(60, 8)) + 6 * numpy.eye(8)[numpy.arange(60) % 6]
        >>> found = ole.novelty(x[:48], numpy.arange(48) % 6, novel=-x[48:], weight=0.05, weight_decay=1e-3)
        >>> axes = found.plot()
        """
        if not self.novel:
            raise native.InputError("there are no novel rows, so there are no curves; plot one of scores instead")
        ax = axes_of(ax)
        for one in self.scores.values():
            ax.plot(one.roc.fpr, one.roc.tpr, label=f"{one.name} {one.roc.auroc:.4f}",
                    linewidth=3 if one is self.chosen else 1)
        ax.set(xlabel="novel rows accepted", ylabel="known rows accepted", title=self._title())
        ax.legend(fontsize="small", title="AUROC")
        return ax

    def save(self, path: "Union[str, os.PathLike[str]]") -> None:
        """Writes the model with its threshold to a .safetensors file, which ``ole.load`` and every command read.

        >>> import numpy, ole
        >>> x = numpy.random.default_rng(0).normal(size=(60, 8)) + 6 * numpy.eye(8)[numpy.arange(60) % 6]
        >>> found = ole.novelty(x[:48], numpy.arange(48) % 6, novel=-x[48:], weight=0.05, weight_decay=1e-3)
        >>> found.save("model.safetensors")
        >>> ole.load("model.safetensors").threshold_score == found.chosen.name
        True
        """
        if self.model is None:
            raise native.InputError('the method "none" has no model to save')
        self.model.save(path)


def _scores(found: structs.Novelty) -> dict[str, NoveltyScore]:
    scores = {}
    for number, one in enumerate(found.score):
        if one.score == 0 or not one.known:
            continue
        mean = found.choice.mean[number] if found.choice.groups else float("nan")
        name = _calls("ole_score_name", one.score).decode()
        scores[name] = NoveltyScore(
            name,
            _calls("ole_score_title", one.score).decode(),
            one.threshold,
            one.kept,
            one.accepted,
            mean,
            copy_of(one.known, (found.known_count,)),
            copy_of(one.novel, (found.novel_count,)),
            roc_of(one.roc),
        )
    return scores


def novelty(
    features: "ArrayLike",
    labels: "ArrayLike",
    *,
    test: "Optional[ArrayLike]" = None,
    test_labels: "Optional[ArrayLike]" = None,
    novel: "Optional[ArrayLike]" = None,
    method: str = "linear",
    weight: Optional[float] = None,
    weight_decay: Optional[float] = None,
    width: Optional[int] = None,
    keep: float = 0.95,
    choose: bool = True,
    seed: int = 0,
    threads: Optional[int] = None,
    verbose: bool = False,
) -> Novelty:
    """Compares scores that tell known rows from novel ones, and chooses one without novel rows, as ``ole novelty``.

    A map and a classifier are fitted to ``features`` [N, D] and ``labels`` [N] (strings or integers; rows with an
    integer below 0 are ignored) by ``method`` with ``weight`` (λ), ``weight_decay`` and ``width``, as in
    ``OLEClassifier`` ("linear", "mlp"); "none" takes the features as they are.  The scores are measured on ``test``
    rows, or on a fifth of the known rows, against ``novel`` rows if there are any.  To choose, five groups of known
    classes play the novel ones in turn.  Thresholds keep the share ``keep`` of held-out known rows.

    >>> import numpy, ole
    >>> random = numpy.random.default_rng(0)
    >>> x = random.normal(size=(200, 16)) + 6 * numpy.eye(16)[numpy.arange(200) % 10]
    >>> far = random.normal(size=(50, 16)) + 6 * numpy.eye(16)[15]
    >>> found = ole.novelty(x, numpy.arange(200) % 10, novel=far, weight=0.05, weight_decay=1e-3)
    >>> found.chosen.name in found.scores, found.chosen.roc.auroc > 0.9
    (True, True)
    """
    if method not in ("linear", "mlp", "none"):
        why = ", which has no classifier" if method == "transform" else ""
        raise native.InputError(f"method is {method!r}{why}; use 'linear', 'mlp' or 'none'")
    known = Data(features, labels)
    present = known.labels.present()
    tested = test_data(known, test, test_labels)
    if tested is not None:
        check_seen(tested, known)
    others: Any = None
    if novel is not None:
        rows = matrix(novel, "novel features")
        others = Embedding(*rows.shape, type_of(rows), rows.ctypes.data, None)
        if rows.shape[1] != known.features.shape[1]:
            raise native.InputError(
                f"novel features have {rows.shape[1]} dimensions, the features {known.features.shape[1]}"
            )
    if not 0 < keep < 1:
        raise native.InputError(f"keep is {keep}; use a share between 0 and 1")
    if len(present) < 2:
        raise native.InputError(f"the labels have {len(present)} class; give at least two")
    names, count = None, 0
    if known.labels.names is not None:
        names = (c_char_p * len(known.labels.names))(*(name.encode() for name in known.labels.names))
        count = len(names)
    progress, workers = Progress(verbose), processors(threads)
    callback = PartCallback(lambda _, what, done, total: progress.report(what.decode(), done / max(total, 1)))
    embed = options_of(
        _calls,
        method=method,
        weight=weight,
        weight_decay=weight_decay,
        width=width,
        threads=workers,
        seed=int(seed),
        callback=callback,
    )
    options = native.initialized(
        _calls, structs.NoveltyOptions, keep=float(keep), choose=bool(choose), threads=workers, callback=callback
    )
    found, handle = structs.Novelty(), c_void_p()
    try:
        _calls(
            "ole_novelty_fit",
            byref(found),
            byref(handle),
            byref(known.struct),
            names,
            count,
            None if tested is None else byref(tested.struct),
            None if others is None else byref(others),
            byref(embed),
            byref(options),
        )
    finally:
        progress.check()
    try:
        scores = _scores(found)
        number = found.choice.score if choose else 0
        chosen = scores.get(_calls("ole_score_name", number).decode()) if number else None
        model = _with_threshold(found, handle, number, workers) if handle else None
        return Novelty(
            scores, chosen, found.accuracy, found.known_count, found.novel_count, found.choice.groups, present, model
        )
    finally:
        _calls("ole_novelty_free", byref(found))
        if handle:
            _calls("ole_model_free", handle)


def _with_threshold(found: structs.Novelty, handle: c_void_p, score: int, threads: int) -> Model:
    """The model with the threshold of a score (0: as it is), by way of its file."""
    with TemporaryDirectory(prefix="ole-") as folder:
        path = Path(folder) / "model.safetensors"
        _calls("ole_model_save", handle, os.fsencode(path))
        if score:
            _calls("ole_novelty_store", byref(found), score, os.fsencode(path))
        return load(path, threads=threads)
