"""``ole.OLEClassifier`` and ``ole.OLETransformer``: scikit-learn estimators on the C engine.

    from ole import OLEClassifier

    classifier = OLEClassifier().fit(X, y)
    classifier.predict(X_new), classifier.predict_open(X_new)

scikit-learn is imported with this module, which ``import ole`` does not import.
"""
from __future__ import annotations

import os
import warnings
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, Callable, Optional, Union

import numpy

from . import _embed
from . import _library as native
from . import _state
from ._arrays import matrix
from ._model import Model, load
from ._score import check_not_negative

try:
    from joblib import effective_n_jobs
    from sklearn.base import BaseEstimator, ClassifierMixin, ClassNamePrefixFeaturesOutMixin, TransformerMixin
    from sklearn.utils import check_random_state
    from sklearn.utils.class_weight import compute_class_weight
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import check_is_fitted
except ImportError as _reason:
    raise ImportError(f"ole.OLEClassifier and ole.OLETransformer need scikit-learn 1.2 or later: {_reason}") from None

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    Array = numpy.ndarray[Any, Any]

__all__ = ["OLEClassifier", "OLETransformer"]

_ALL_SINGLE = "every class has a single row, so nothing could be held out"


def _checked(estimator: Any, X: Any, y: Any = None, *, fitting: bool) -> Any:
    """scikit-learn's checks of X, and of y where it fits. NaN is left to the library, which names the row.

    The library fits float32 and float64, so other types become float32, the type of the predictions.  Those convert a
    block of rows at a time: X keeps its type."""
    options: dict[str, Any] = {"dtype": [numpy.float32, numpy.float64] if fitting else "numeric", "reset": fitting}
    given = {"X": X, "y": y} if fitting else {"X": X}
    if hasattr(BaseEstimator, "_validate_data"):  # until scikit-learn 1.6
        return estimator._validate_data(**given, **options, force_all_finite=False)
    from sklearn.utils.validation import validate_data

    return validate_data(estimator, **given, **options, ensure_all_finite=False)


def _in_blocks(x: "Array", run: "Callable[[Array], Array]") -> "Array":
    """``run(x)``. ``Model`` divides bytes by 255, as pixels, which rows of numbers are not: they become float32 here."""
    if x.dtype != numpy.uint8:
        return run(x)
    rows = max(1, (4 << 20) // x.shape[1])
    return numpy.concatenate([run(x[at : at + rows].astype(numpy.float32)) for at in range(0, len(x), rows)])


def _threads(n_jobs: Any) -> int:
    """The number of threads that ``n_jobs`` stands for."""
    if n_jobs is not None and (not isinstance(n_jobs, Integral) or n_jobs == 0):
        raise native.InputError(f"n_jobs is {n_jobs!r}; use a number of threads, -1 for all processors, or None")
    return int(min(effective_n_jobs(n_jobs), 1024))


def _check_labels(y: Any) -> None:
    """Raises if labels are neither all strings nor all numbers; NumPy would make strings of a mixed list."""
    if isinstance(y, (list, tuple)):
        values: Any = y
    elif getattr(y, "dtype", None) == object:
        values = numpy.asarray(y).ravel()
    else:
        return
    text = None
    for row, value in enumerate(values):
        if not isinstance(value, (str, bytes, Real, numpy.bool_)) or value != value:
            if isinstance(value, (list, tuple, numpy.ndarray)):
                return  # scikit-learn says what it thinks of that shape
            raise native.InputError(f"y: row {row} is {value!r}; use strings or integers")
        if text is None:
            text = isinstance(value, (str, bytes))
        if text != isinstance(value, (str, bytes)):
            raise native.InputError(f"y mixes strings and numbers: row {row} is {value!r}; use one of them")
    if values is not y and text is False:  # scikit-learn's metrics do not take them
        raise native.InputError("Unknown label type: y has numbers of type object; convert them, as by y.astype(int)")


class _Estimator(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Shared by both estimators: the parameters and the fit."""

    _methods: tuple[str, ...]
    _learned = ("weight_", "weight_decay_", "width_", "held_out_accuracy_", "n_iter_", "_all_single")
    """What fit learns that the model itself does not hold."""
    _all_single = False
    """Whether every class of the fit has one row."""

    def __init__(
        self,
        method: str = "linear",
        *,
        weight: Optional[float] = None,
        weight_decay: Optional[float] = None,
        width: Optional[int] = None,
        epochs: Optional[int] = None,
        tol: float = 1e-3,
        class_weight: "Union[None, str, dict[Any, float]]" = None,
        random_state: Any = None,
        n_jobs: Optional[int] = None,
        verbose: bool = False,
    ) -> None:
        self.method = method
        self.weight = weight
        self.weight_decay = weight_decay
        self.width = width
        self.epochs = epochs
        self.tol = tol
        self.class_weight = class_weight
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def _fit(self, X: Any, y: Any, unknown: bool, score: Optional[str] = None) -> _embed.Fitted:
        _check_labels(y)
        threads = _threads(self.n_jobs)
        x, y = _checked(self, X, y, fitting=True)
        if self.method not in self._methods:
            raise native.InputError(f"method is {self.method!r}; use one of {', '.join(map(repr, self._methods))}")
        check_not_negative("tol", self.tol)
        if self.tol >= 1:
            raise native.InputError(f"tol is {self.tol!r}; use a number under 1")
        check_classification_targets(y)
        classes, codes = numpy.unique(y, return_inverse=True)
        if len(classes) < 2:
            raise native.InputError(f"y has 1 class, {classes[0]!r}; give at least two")
        weights = None
        if self.class_weight is not None:
            weights = compute_class_weight(self.class_weight, classes=classes, y=y).astype(numpy.float64)
        fitted = _embed.fit(
            matrix(x, "X"),
            codes.astype(numpy.int64),
            [str(name) for name in classes],
            method=self.method,
            weight=self.weight,
            weight_decay=self.weight_decay,
            width=self.width,
            epochs=self.epochs,
            tolerance=float(self.tol),
            class_weights=weights,
            unknown=unknown,
            score=score,
            seed=int(check_random_state(self.random_state).randint(2**31 - 1)),
            threads=threads,
            verbose=bool(self.verbose),
        )
        self.classes_ = classes
        self.weight_ = fitted.weight
        self.weight_decay_ = fitted.weight_decay
        self.width_ = fitted.width
        self.held_out_accuracy_ = fitted.held_out_accuracy
        self.n_iter_ = fitted.iterations
        if self.method == "transform" and fitted.iterations == 0:
            warnings.warn("the transform took no step, as none was an improvement: it only scales the rows", stacklevel=3)
        self._take(fitted.model)
        return fitted

    def _take(self, model: Model) -> None:
        self.model_ = model
        self._n_features_out = model.dim

    def _samples(self, X: Any) -> "Array":
        check_is_fitted(self)
        x: Array = _checked(self, X, fitting=False)
        return x

    def transform(self, X: "ArrayLike") -> "Array":
        """The mapped rows: [N, features] float32 (a data frame after ``set_output(transform="pandas")``).

        >>> import numpy, ole
        >>> x = numpy.random.default_rng(0).normal(size=(60, 8)) + 6 * numpy.eye(8)[numpy.arange(60) % 3]
        >>> ole.OLETransformer(random_state=0).fit(x, numpy.arange(60) % 3).transform(x).shape
        (60, 3)
        """
        return _in_blocks(self._samples(X), self.model_.features)

    def save(self, path: "Union[str, os.PathLike[str]]") -> None:
        """Writes the fitted model to a .safetensors file, which ``load``, ``ole.load`` and every command read.

        >>> import numpy, ole
        >>> x, y = numpy.eye(6), ["cat", "cat", "cat", "owl", "owl", "owl"]
        >>> classifier = ole.OLEClassifier(weight=0.0, weight_decay=1e-3).fit(x, y)
        >>> classifier.save("model.safetensors")
        >>> ole.load("model.safetensors").class_names
        ('cat', 'owl')
        """
        check_is_fitted(self)
        learned = {name: getattr(self, name) for name in self._learned}
        if hasattr(self, "feature_names_in_"):
            learned["feature_names_in_"] = self.feature_names_in_.tolist()
        params = {name: value for name, value in self.get_params(deep=False).items() if name != "n_jobs"}
        self.model_.save(path)
        _state.write_text(path, _state.to_text(params, learned, self.classes_))

    @classmethod
    def load(cls, path: "Union[str, os.PathLike[str]]", *, n_jobs: Optional[int] = None) -> Any:
        """The estimator that ``save`` wrote: its parameters but ``n_jobs`` and a ``random_state`` that is an object,
        its classes with their type, and all that fit learned.

        It also opens models of ``ole fit`` and models on a hub, which hold less: the parameters are the defaults,
        what fit learned beside the model is NaN, and the classes are integers if all their names are, else strings.

        >>> import numpy, ole
        >>> x, y = numpy.eye(6), ["cat", "cat", "cat", "owl", "owl", "owl"]
        >>> classifier = ole.OLEClassifier(weight=0.0, weight_decay=1e-3).fit(x, y)
        >>> classifier.save("model.safetensors")
        >>> same = ole.OLEClassifier.load("model.safetensors")
        >>> same.classes_.tolist(), same.weight_decay
        (['cat', 'owl'], 0.001)
        """
        model = load(path, threads=_threads(n_jobs))
        if len(model.shape) != 1:
            raise native.InputError(f"{os.fspath(path)}: a model of images; open it with ole.load")
        texts = _state.read_texts(path)
        params, learned, classes = cls._state_of(texts, model)
        names = cls().get_params(deep=False)
        estimator = cls(**{**{name: value for name, value in params.items() if name in names}, "n_jobs": n_jobs})
        estimator._check_loaded(model, os.fspath(path))
        estimator.classes_ = classes
        estimator.n_features_in_ = model.shape[0]
        for name in cls._learned:
            setattr(estimator, name, learned.get(name, False if name == "_all_single" else numpy.nan))
        if "feature_names_in_" in learned:
            estimator.feature_names_in_ = numpy.array(learned["feature_names_in_"], object)
        estimator._take(model)
        estimator._take_texts(texts)
        return estimator

    @staticmethod
    def _state_of(texts: "dict[str, str]", model: Model) -> "tuple[dict[str, Any], dict[str, Any], Array]":
        """Parameters, learned attributes and classes of a file; the first two are empty where it has none that fit."""
        try:
            params, learned, classes = _state.from_text(texts[_state.KEY])
            if tuple(str(name) for name in classes) == model.class_names:
                return params, learned, classes
        except (KeyError, TypeError, ValueError, AttributeError):  # none, or that of another version
            pass
        names = numpy.array(model.class_names)
        try:
            numbers = [int(name) for name in model.class_names]
        except ValueError:
            return {}, {}, names
        exact = all(str(number) == name for number, name in zip(numbers, model.class_names))
        return {}, {}, numpy.array(numbers, numpy.int64) if exact else names

    def _take_texts(self, texts: "dict[str, str]") -> None:
        """Takes what else is in the metadata of a file."""

    def _check_loaded(self, model: Model, path: str) -> None:
        """Raises if the model is not one for this estimator."""

    def _more_tags(self) -> dict[str, Any]:  # until scikit-learn 1.6
        return {"requires_y": True, "preserves_dtype": [numpy.float32]}

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.transformer_tags.preserves_dtype = ["float32"]
        return tags


class OLETransformer(_Estimator):
    """Maps embeddings to a space in which classes are orthogonal and each is low-rank.

    ``method``: "linear" (one matrix, trained with softmax + ``weight`` · OLÉ), "mlp" (one hidden layer of ``width``)
    or "transform" (the linear transform of Qiu and Sapiro, without a classifier).  ``weight`` is λ; ``weight``,
    ``weight_decay`` and ``width`` are chosen by cross-validation on the training data unless given.  ``epochs`` is
    the maximum number of passes over the rows, ``tol`` the relative norm of the gradient at which "linear" stops.

    ``fit`` reads float32 and float64 arrays in C order in place; float16 and integers it copies as float32.  After it, ``classes_``, ``weight_``,
    ``weight_decay_``, ``width_``, ``held_out_accuracy_`` (%), ``n_iter_`` and ``model_`` (an ``ole.Model``) are there.

    >>> import numpy, ole
    >>> x = numpy.random.default_rng(0).normal(size=(60, 8)) + 6 * numpy.eye(8)[numpy.arange(60) % 3]
    >>> y = numpy.array(["cat", "dog", "owl"])[numpy.arange(60) % 3]
    >>> z = ole.OLETransformer(random_state=0).fit_transform(x, y)
    >>> z.shape, ole.analyze(z, y, map=False).between.median > ole.analyze(x, y, map=False).between.median - 5
    ((60, 3), True)
    """

    _methods = ("linear", "mlp", "transform")

    def fit(self, X: "ArrayLike", y: "ArrayLike") -> "OLETransformer":
        """Learns the map from rows [N, D] and their classes [N], integers or strings.

        >>> import numpy, ole
        >>> ole.OLETransformer(random_state=0).fit(numpy.eye(6), [0, 0, 0, 1, 1, 1]).classes_.tolist()
        [0, 1]
        """
        self._fit(X, y, unknown=False)
        return self


class OLEClassifier(ClassifierMixin, _Estimator):
    """Classifies embeddings, and knows which rows belong to none of its classes.

    ``method``: "linear" (one matrix, trained with softmax + ``weight`` · OLÉ) or "mlp" (one hidden layer of
    ``width``).  ``weight`` is λ; ``weight``, ``weight_decay`` and ``width`` are chosen by cross-validation on the
    training data unless given.  ``epochs`` is the maximum number of passes over the rows, ``tol`` the relative norm
    of the gradient at which "linear" stops.  ``unknown`` finds the threshold of ``predict_open`` on held-out rows,
    which takes a few more fits; ``unknown_score`` is the score of ``score_samples``: a name as in ``ole.novelty``, or
    "auto", the best of those that can be exported, by six more fits that leave groups of classes out (for fewer than
    5 classes or over 1,000: the largest probability); ``unknown_label`` is what that answers for rows under it, by
    default -1 for integers and "unknown" for strings.

    ``fit`` reads float32 and float64 arrays in C order in place; float16 and integers it copies as float32.  After it, ``classes_``, ``threshold_``,
    ``unknown_score_`` (the name of the score), ``unknown_auroc_`` (what the choice was made by: the mean AUROC of
    each score with groups of similar classes left out; empty where nothing was chosen), ``temperature_``, ``weight_``, ``weight_decay_``, ``width_``, ``held_out_accuracy_`` (%), ``n_iter_`` and
    ``model_`` (an ``ole.Model``) are there.

    >>> import numpy, ole
    >>> x = numpy.random.default_rng(0).normal(size=(60, 8)) + 6 * numpy.eye(8)[numpy.arange(60) % 3]
    >>> y = numpy.array(["cat", "dog", "owl"])[numpy.arange(60) % 3]
    >>> classifier = ole.OLEClassifier(random_state=0).fit(x, y)
    >>> classifier.predict(x[:3]).tolist(), classifier.score(x, y)
    (['cat', 'dog', 'owl'], 1.0)
    """

    _methods = ("linear", "mlp")

    def __init__(
        self,
        method: str = "linear",
        *,
        weight: Optional[float] = None,
        weight_decay: Optional[float] = None,
        width: Optional[int] = None,
        epochs: Optional[int] = None,
        tol: float = 1e-3,
        class_weight: "Union[None, str, dict[Any, float]]" = None,
        unknown: bool = True,
        unknown_score: str = "auto",
        unknown_label: Any = None,
        random_state: Any = None,
        n_jobs: Optional[int] = None,
        verbose: bool = False,
    ) -> None:
        super().__init__(
            method,
            weight=weight,
            weight_decay=weight_decay,
            width=width,
            epochs=epochs,
            tol=tol,
            class_weight=class_weight,
            random_state=random_state,
            n_jobs=n_jobs,
            verbose=verbose,
        )
        self.unknown = unknown
        self.unknown_score = unknown_score
        self.unknown_label = unknown_label

    def fit(self, X: "ArrayLike", y: "ArrayLike") -> "OLEClassifier":
        """Learns from rows [N, D] and their classes [N], integers or strings.

        >>> import numpy, ole
        >>> ole.OLEClassifier(random_state=0).fit(numpy.eye(6), [0, 0, 0, 1, 1, 1]).classes_.tolist()
        [0, 1]
        """
        fitted = self._fit(X, y, unknown=bool(self.unknown), score=self.unknown_score if self.unknown else None)
        self.unknown_auroc_ = fitted.group_auroc
        self._all_single = not fitted.rows_held_out
        if self.unknown and self._all_single:
            warnings.warn(f"{_ALL_SINGLE}: there is no threshold for predict_open and score_samples", stacklevel=2)
        return self

    def _take(self, model: Model) -> None:
        super()._take(model)
        self.threshold_ = model.threshold
        self.unknown_score_ = model.threshold_score
        self.temperature_ = model.temperature

    def _take_texts(self, texts: "dict[str, str]") -> None:
        self.unknown_auroc_ = _state.mean_aurocs(texts)

    def _check_loaded(self, model: Model, path: str) -> None:
        if not model.has_classifier:
            raise native.InputError(f"{path}: the model has no classifier; open it with ole.OLETransformer.load")

    def _logits(self, x: "Array") -> "Array":
        return _in_blocks(x, self.model_.logits)

    def predict(self, X: "ArrayLike") -> "Array":
        """[N] the class of each row, never unknown.

        >>> import numpy, ole
        >>> x, y = numpy.eye(6), ["cat", "cat", "cat", "owl", "owl", "owl"]
        >>> classifier = ole.OLEClassifier(weight=0.0, weight_decay=1e-3).fit(x, y)
        >>> classifier.predict(x[2:4]).tolist()
        ['cat', 'owl']
        """
        x = self._samples(X)
        best = numpy.empty(len(x), numpy.intp)
        for first in range(0, len(x), 65536):  # by the logits: Model.predict also computes the score for unknown
            best[first : first + 65536] = self._logits(x[first : first + 65536]).argmax(axis=1)
        found: Array = self.classes_[best]
        return found

    def predict_open(self, X: "ArrayLike") -> "Array":
        """[N] the class of each row, or ``unknown_label`` where ``score_samples`` is under ``threshold_``.

        >>> import numpy, ole
        >>> x = numpy.random.default_rng(0).normal(size=(90, 8)) + 9 * numpy.eye(8)[numpy.arange(90) % 3]
        >>> classifier = ole.OLEClassifier(random_state=0).fit(x, numpy.arange(90) % 3)
        >>> set(classifier.predict_open(x).tolist()) <= {-1, 0, 1, 2}
        True
        """
        x = self._samples(X)
        self._need_threshold()
        label = _in_blocks(x, lambda block: self.model_.predict(block).label)
        unknown = self.unknown_label
        if unknown is None:
            unknown = "unknown" if self.classes_.dtype.kind in "USO" else -1
        if any(unknown == name for name in self.classes_.tolist()):
            raise native.InputError(f"unknown_label {unknown!r} is one of the classes; choose another")
        classes = self.classes_
        if classes.dtype.kind == "b" or (classes.dtype.kind in "US") != isinstance(unknown, str):
            classes = classes.astype(object)
        if classes.dtype.kind == "O":
            table: Array = numpy.empty(len(classes) + 1, object)
            table[:-1], table[-1] = classes, unknown
        else:
            table = numpy.append(classes, unknown)
        return table[label]

    def score_samples(self, X: "ArrayLike") -> "Array":
        """[N] how sure the model is that a row belongs to one of its classes; larger is surer.

        >>> import numpy, ole
        >>> x = numpy.random.default_rng(0).normal(size=(90, 8)) + 9 * numpy.eye(8)[numpy.arange(90) % 3]
        >>> classifier = ole.OLEClassifier(random_state=0).fit(x, numpy.arange(90) % 3)
        >>> bool((classifier.score_samples(x) >= classifier.threshold_).mean() > 0.8)
        True
        """
        x = self._samples(X)
        self._need_threshold()
        return _in_blocks(x, lambda block: self.model_.predict(block).known_score.copy())

    def _need_threshold(self) -> None:
        if self.threshold_ is None:
            why = f": {_ALL_SINGLE}" if self.unknown and self._all_single else "; fit it with unknown=True"
            raise native.InputError(f"the model has no threshold{why}")

    def decision_function(self, X: "ArrayLike") -> "Array":
        """[N, classes] logits; for two classes [N], that of the second minus that of the first.

        >>> import numpy, ole
        >>> x, y = numpy.eye(6), ["cat", "cat", "cat", "owl", "owl", "owl"]
        >>> classifier = ole.OLEClassifier(weight=0.0, weight_decay=1e-3).fit(x, y)
        >>> (classifier.decision_function(x) > 0).tolist()
        [False, False, False, True, True, True]
        """
        x = self._samples(X)
        logits = self._logits(x)
        return logits[:, 1] - logits[:, 0] if len(self.classes_) == 2 else logits

    def predict_proba(self, X: "ArrayLike") -> "Array":
        """[N, classes] probabilities: softmax of the logits at ``temperature_``.

        >>> import numpy, ole
        >>> x, y = numpy.eye(6), ["cat", "cat", "cat", "owl", "owl", "owl"]
        >>> classifier = ole.OLEClassifier(weight=0.0, weight_decay=1e-3).fit(x, y)
        >>> classifier.predict_proba(x).shape
        (6, 2)
        """
        x = self._samples(X)
        logits = self._logits(x)
        found = numpy.empty(logits.shape)
        for first in range(0, len(x), 4096):  # in blocks, so that no second array of this size is needed
            block = found[first : first + 4096]
            numpy.divide(logits[first : first + 4096], self.temperature_, out=block)
            block -= block.max(axis=1, keepdims=True)
            numpy.exp(block, out=block)
            block /= block.sum(axis=1, keepdims=True)
        return found

    def predict_log_proba(self, X: "ArrayLike") -> "Array":
        """[N, classes] logarithms of ``predict_proba``.

        >>> import numpy, ole
        >>> x, y = numpy.eye(6), ["cat", "cat", "cat", "owl", "owl", "owl"]
        >>> classifier = ole.OLEClassifier(weight=0.0, weight_decay=1e-3).fit(x, y)
        >>> bool((classifier.predict_log_proba(x) < 0).all())
        True
        """
        return numpy.log(self.predict_proba(X))
