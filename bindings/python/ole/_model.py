"""``ole.load``: a trained model, to predict arrays and image files, or to compute their features."""
from __future__ import annotations

import os
import threading
from ctypes import byref, c_char_p, c_int, c_int64, c_void_p, sizeof
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Callable, Iterable, Iterator, Optional, Sequence, Union, overload

from . import _library as native
from . import _train_library as structs
from ._arrays import thread_count
from ._show import Shown, axes_of
from ._train_library import train_library

if TYPE_CHECKING:
    import numpy
    from numpy.typing import ArrayLike

    Array = numpy.ndarray[Any, Any]
    Samples = Union[ArrayLike, str, os.PathLike[str], Sequence[Union[str, os.PathLike[str]]]]

calls = native.Calls(
    {
        "ole_model_load": [c_void_p, c_char_p, c_int],
        "ole_model_save": [c_void_p, c_char_p],
        "ole_model_predict": [c_void_p, c_void_p, c_int64, c_void_p],
        "ole_model_run": [c_void_p, c_void_p, c_int64, c_void_p, c_void_p],
        "ole_model_read_file": [c_void_p, c_char_p, c_void_p],
    },
    {
        "ole_model_free": [None, c_void_p],
        "ole_model_get_info": [c_void_p, c_void_p],
        "ole_score_name": [c_char_p, c_int],
    },
    train_library,
)

_AT_ONCE = 16 << 20  # bytes of samples converted at a time


@dataclass(frozen=True)
class Prediction:
    """A model's prediction for one sample."""

    label: Optional[str]
    """The class; None: unknown, ``known_score`` is under the threshold."""
    best: str
    """The class with the highest score, known or not."""
    score: float
    """Its probability: the softmax score, at the model's temperature."""
    runners_up: tuple[tuple[str, float], ...]
    """The next classes with their scores."""
    known_score: float
    """What the threshold applies to; NaN without a threshold."""

    def __str__(self) -> str:
        known = self.label if self.label is not None else f"unknown (most like {self.best})"
        return f"{known} {self.score:.3f}"


class Predictions(Shown):
    """Predictions of several samples: a sequence of ``Prediction``, and their numbers as arrays.

    >>> import numpy, ole
    >>> x, y = numpy.eye(6), ["cat", "cat", "cat", "owl", "owl", "owl"]
    >>> ole.OLEClassifier(weight=0.0, weight_decay=1e-3).fit(x, y).save("model.safetensors")
    >>> found = ole.load("model.safetensors").predict(x)
    >>> len(found), found.best.tolist(), found.score.shape, found[0].runners_up[0][0]
    (6, [0, 0, 0, 1, 1, 1], (6,), 'owl')
    """

    def __init__(self, names: tuple[str, ...], raw: "Array") -> None:
        self._names = names
        self._raw = raw

    @property
    def label(self) -> "Array":
        """[N] class numbers; -1: unknown."""
        return self._raw["label"]

    @property
    def best(self) -> "Array":
        """[N] numbers of the classes with the highest score, known or not."""
        return self._raw["best"]

    @property
    def score(self) -> "Array":
        """[N] probability of ``best``."""
        return self._raw["score"]

    @property
    def known_score(self) -> "Array":
        """[N] what the threshold applies to; NaN without a threshold."""
        return self._raw["known_score"]

    def names(self, unknown: str = "unknown") -> "Array":
        """[N] class names, ``unknown`` where the label is -1.

        >>> import numpy, ole
        >>> x, y = numpy.eye(6), ["cat", "cat", "cat", "owl", "owl", "owl"]
        >>> ole.OLEClassifier(weight=0.0, weight_decay=1e-3).fit(x, y).save("model.safetensors")
        >>> ole.load("model.safetensors").predict(x[:1]).names(unknown="neither").tolist()
        ['cat']
        """
        import numpy

        return numpy.array([*self._names, unknown])[self.label]

    def __len__(self) -> int:
        return len(self._raw)

    def __iter__(self) -> Iterator[Prediction]:
        return (self[i] for i in range(len(self)))

    @overload
    def __getitem__(self, at: int) -> Prediction: ...
    @overload
    def __getitem__(self, at: slice) -> "Predictions": ...

    def __getitem__(self, at: Union[int, slice]) -> "Union[Prediction, Predictions]":
        if isinstance(at, slice):
            return Predictions(self._names, self._raw[at])
        one, names = self._raw[at], self._names
        runners = zip(one["runner_up"], one["runner_up_score"])
        return Prediction(
            names[one["label"]] if one["label"] >= 0 else None,
            names[one["best"]],
            float(one["score"]),
            tuple((names[label], float(score)) for label, score in runners if label >= 0),
            float(one["known_score"]),
        )

    def _title(self) -> str:
        unknown = int((self.label < 0).sum())
        return f"{len(self):,} predictions" + (f", {unknown:,} unknown" if unknown else "")

    def _table(self) -> Iterable[tuple[str, str]]:
        for number in range(min(len(self), 10)):
            yield str(number), str(self[number])
        if len(self) > 10:
            yield "...", ""

    def plot(self, ax: Optional[Any] = None) -> Any:
        """Draws how many samples each class has with matplotlib; returns the axes.

        >>> import numpy, ole
        >>> x, y = numpy.eye(6), ["cat", "cat", "cat", "owl", "owl", "owl"]
        >>> ole.OLEClassifier(weight=0.0, weight_decay=1e-3).fit(x, y).save("model.safetensors")
        >>> axes = ole.load("model.safetensors").predict(x).plot()
        """
        import numpy

        ax = axes_of(ax)
        kinds, counts = numpy.unique(self.names(), return_counts=True)
        ax.barh(kinds, counts)
        ax.set(xlabel="samples", title=self._title())
        return ax


class Model(Shown):
    """A trained model; ``ole.load`` opens one. One call at a time runs it, others wait."""

    def __init__(self, handle: c_void_p, threads: int = 0) -> None:
        self._handle = handle
        self._threads = threads
        self._lock = threading.Lock()
        info = structs.ModelInfo.from_address(calls("ole_model_get_info", handle))
        self.net: str = info.net.decode()
        """The network, in the notation of the paper."""
        self.shape: tuple[int, ...] = (info.channels, info.height, info.width)
        """Of a sample: (D,) for vectors, (channels, height, width) for images."""
        if self.shape[1:] == (1, 1):
            self.shape = self.shape[:1]
        self.dim: int = info.features
        """Of the features."""
        self.class_names: tuple[str, ...] = tuple(name.decode() for name in info.class_names[: info.classes])
        self.threshold: Optional[float] = info.threshold if info.threshold_score else None
        """Samples whose ``known_score`` is under it are unknown; None: no threshold is stored."""
        self.threshold_score: Optional[str] = (
            calls("ole_score_name", info.threshold_score).decode() if info.threshold_score else None
        )
        """The kind of score that the threshold applies to, such as "cosine"."""
        self.temperature: float = info.temperature
        """Divides the logits for the scores of predictions."""
        self.has_classifier: bool = info.classifier
        """False: trained without one; use features."""

    def __del__(self) -> None:
        if getattr(self, "_handle", None):
            calls("ole_model_free", self._handle)
            self._handle = c_void_p()

    def __repr__(self) -> str:
        return f"<ole.Model {self.net}, {len(self.class_names)} classes>"

    def _title(self) -> str:
        return f"{self.net}, {len(self.class_names):,} classes"

    def _table(self) -> Iterable[tuple[str, str]]:
        yield "input", f"vectors of {self.shape[0]}" if len(self.shape) == 1 else "×".join(map(str, self.shape))
        yield "features", f"{self.dim:,}"
        names = ", ".join(self.class_names[:8]) + (", ..." if len(self.class_names) > 8 else "")
        yield "classes", names
        if self.threshold is not None:
            yield "threshold", f"{self.threshold_score} {self.threshold:.4g}"

    def predict(self, samples: "Samples") -> Predictions:
        """Predicts an array of samples, an image file, or a list of image files.

        Vectors are [N, D]; images [N, H, W], [N, C, H, W] or [N, H, W, C], as bytes or as floats from 0 to 1.

        >>> import numpy, ole
        >>> x, y = numpy.eye(6), ["cat", "cat", "cat", "owl", "owl", "owl"]
        >>> ole.OLEClassifier(weight=0.0, weight_decay=1e-3).fit(x, y).save("model.safetensors")
        >>> ole.load("model.safetensors").predict(x)[0].best
        'cat'
        """
        import numpy

        given = self._given(samples)
        found = numpy.zeros(len(given), _record())
        at = found.ctypes.data

        def run(block: "Array", first: int) -> None:
            calls("ole_model_predict", self._handle, block.ctypes.data, len(block), at + first * found.itemsize)

        self._each(given, run)
        return Predictions(self.class_names, found)

    def features(self, samples: "Samples") -> "Array":
        """[N, ``dim``] float32 features of samples, which are as in ``predict``.

        >>> import numpy, ole
        >>> x, y = numpy.eye(6), ["cat", "cat", "cat", "owl", "owl", "owl"]
        >>> ole.OLEClassifier(weight=0.0, weight_decay=1e-3).fit(x, y).save("model.safetensors")
        >>> ole.load("model.safetensors").features(x).shape
        (6, 2)
        """
        return self._run(samples, features=True)

    def logits(self, samples: "Samples") -> "Array":
        """[N, classes] float32 logits of samples, which are as in ``predict``.

        >>> import numpy, ole
        >>> x, y = numpy.eye(6), ["cat", "cat", "cat", "owl", "owl", "owl"]
        >>> ole.OLEClassifier(weight=0.0, weight_decay=1e-3).fit(x, y).save("model.safetensors")
        >>> ole.load("model.safetensors").logits(x).argmax(axis=1).tolist()
        [0, 0, 0, 1, 1, 1]
        """
        return self._run(samples, features=False)

    def save(self, path: "Union[str, os.PathLike[str]]") -> None:
        """Writes the model to a .safetensors file, which ``ole.load`` and every command reads.

        >>> import numpy, ole
        >>> x, y = numpy.eye(6), ["cat", "cat", "cat", "owl", "owl", "owl"]
        >>> ole.OLEClassifier(weight=0.0, weight_decay=1e-3).fit(x, y).save("model.safetensors")
        >>> ole.load("model.safetensors").save("copy.safetensors")
        """
        calls("ole_model_save", self._handle, os.fsencode(path))

    def __reduce__(self) -> "tuple[Callable[[bytes, int], Model], tuple[bytes, int]]":
        """Pickles the model as its file."""
        with TemporaryDirectory(prefix="ole-") as folder:
            path = Path(folder) / "model.safetensors"
            self.save(path)
            return _unpickle, (path.read_bytes(), self._threads)

    def _run(self, samples: "Samples", features: bool) -> "Array":
        import numpy

        given = self._given(samples)
        found = numpy.empty((len(given), self.dim if features else len(self.class_names)), numpy.float32)

        def run(block: "Array", first: int) -> None:
            to = found.ctypes.data + first * found.strides[0]
            calls("ole_model_run", self._handle, block.ctypes.data, len(block), *((to, None) if features else (None, to)))

        self._each(given, run)
        return found

    def _given(self, samples: "Samples") -> "Union[Array, list[Union[str, os.PathLike[str]]]]":
        """The files, or the samples as an array [N, *shape] whose numbers are not converted yet."""
        paths = _paths(samples)
        if paths is not None:
            return paths
        import numpy

        x = numpy.asarray(samples)
        wanted = self.shape
        good: list[tuple[int, ...]] = [wanted]
        if len(wanted) == 3:
            good += [(*wanted[1:], wanted[0])] + ([wanted[1:]] if wanted[0] == 1 else [])
        if x.dtype.kind == "O":
            x = x.astype(numpy.float32)
        if x.ndim == 0 or x.shape[1:] not in good:
            takes = " or ".join("[N, " + ", ".join(map(str, shape)) + "]" for shape in good)
            raise native.InputError(f"samples have shape {x.shape}; the model takes {takes}")
        if x.dtype.kind not in "fiub" or (x.dtype.kind in "iu" and len(wanted) == 3 and x.dtype != numpy.uint8):
            raise native.InputError(f"samples have type {x.dtype}; use floats" + ", or bytes for images" * (len(wanted) == 3))
        if len(wanted) == 1 and x.dtype == numpy.uint8:
            raise native.InputError("samples have type uint8; use floats, divided by 255 if the model was trained on pixels")
        if len(x) == 0:
            raise native.InputError("there are no samples")
        if len(wanted) == 3 and x.shape[1:] == good[1] and x.shape[1:] != wanted:
            x = x.transpose(0, 3, 1, 2)
        return x.reshape(len(x), *wanted)

    def _each(self, given: "Union[Array, list[Union[str, os.PathLike[str]]]]", run: Any) -> None:
        """Calls ``run`` with blocks of float32 samples and the number of the first of each."""
        import numpy

        if isinstance(given, list):
            block = numpy.empty((1, *self.shape), numpy.float32)
            for number, path in enumerate(given):
                with self._lock:
                    calls("ole_model_read_file", self._handle, os.fsencode(path), block.ctypes.data)
                    run(block, number)
            return
        x = given
        in_place = x.dtype == numpy.float32 and x.flags.c_contiguous and x.flags.aligned and x.dtype.isnative
        rows = max(1, _AT_ONCE // (4 * int(numpy.prod(self.shape))))
        for first in range(0, len(x), rows):
            block = x[first : first + rows]
            if not in_place:
                block = numpy.require(block, numpy.float32, ("C", "A"))
                if x.dtype == numpy.uint8:
                    block = block / numpy.float32(255)
            with self._lock:
                try:
                    run(block, first)
                except native.InputError:
                    self._name_row(block, first)
                    raise

    def _name_row(self, block: "Array", first: int) -> None:
        """Raises an error that names the first bad row of all."""
        import numpy

        bad = ~numpy.isfinite(block.reshape(len(block), -1)).all(axis=1)
        if bad.any():
            raise native.InputError(f"samples: row {first + int(bad.argmax())} holds NaN or Inf") from None


def _unpickle(file: bytes, threads: int) -> Model:
    with TemporaryDirectory(prefix="ole-") as folder:
        path = Path(folder) / "model.safetensors"
        path.write_bytes(file)
        return load(path, threads=threads or None)


def _paths(samples: "Samples") -> "Optional[list[Union[str, os.PathLike[str]]]]":
    """The files that were given, if they are files."""
    if isinstance(samples, (str, os.PathLike)):
        return [samples]
    if isinstance(samples, (list, tuple)) and samples and all(isinstance(one, (str, os.PathLike)) for one in samples):
        return list(samples)
    return None


def _record() -> Any:
    """An ole_prediction as a type of NumPy's."""
    import numpy

    kind = structs.Prediction
    formats: dict[str, Any] = {
        "label": "i4",
        "best": "i4",
        "score": "f8",
        "runner_up": ("i4", (structs.RUNNERS_UP,)),
        "runner_up_score": ("f8", (structs.RUNNERS_UP,)),
        "known_score": "f8",
    }
    offsets = [getattr(kind, name).offset for name in formats]
    return numpy.dtype(
        {"names": list(formats), "formats": list(formats.values()), "offsets": offsets, "itemsize": sizeof(kind)}
    )


def load(path: "Union[str, os.PathLike[str]]", *, threads: Optional[int] = None) -> Model:
    """Opens a trained model: a .safetensors file, a run folder, or ``hf:OWNER/MODEL`` on a model hub.

    ``threads`` defaults to all processors.  A model with more than one has OpenMP's threads, which a forked process
    lacks: where you fork, as PyTorch's data loaders do, load with ``threads=1``.

    >>> import numpy, ole
    >>> x, y = numpy.eye(6), ["cat", "cat", "cat", "owl", "owl", "owl"]
    >>> ole.OLEClassifier(weight=0.0, weight_decay=1e-3).fit(x, y).save("model.safetensors")
    >>> model = ole.load("model.safetensors")
    >>> model.class_names, model.predict(x[5:])[0].best
    (('cat', 'owl'), 'owl')
    """
    handle = c_void_p()
    calls("ole_model_load", byref(handle), os.fsencode(path), thread_count(threads))
    return Model(handle, thread_count(threads))


