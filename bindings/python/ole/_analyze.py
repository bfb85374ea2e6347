"""``ole.analyze``: how well features separate their classes, in numbers, figures and a map."""
from __future__ import annotations

from ctypes import addressof, byref, c_size_t, c_void_p
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Iterable, Optional

from . import _library as native
from . import _structs as structs
from ._arrays import Labels, Name, copy_of, labels_of, matrix, processors, type_of
from ._show import Progress, Shown, degrees, percent, pyplot, scatter

if TYPE_CHECKING:
    import numpy
    from numpy.typing import ArrayLike

    Array = numpy.ndarray[Any, Any]

_calls = native.Calls(
    {"ole_analyze": [c_void_p] * 3},
    {"ole_analyze_options_init_sized": [None, c_void_p, c_size_t], "ole_analysis_free": [None, c_void_p]},
)


@dataclass(frozen=True)
class FeatureErrors(Shown):
    """Errors in % of classifiers that need no training; NaN where they were not measured."""

    knn1: float
    """Of the nearest neighbour, by cosine."""
    knn: float
    """Of the majority of the ``k`` nearest."""
    centroid: float
    """Of the class mean with the largest cosine."""
    subspace: float
    """Of the class subspace that holds most of the row's energy."""
    directions: float
    """Dimension of a class's subspace, mean over the classes."""
    k: int
    queries: int
    """Rows classified."""
    references: int
    """Rows compared with."""
    tested: bool
    """Whether the rows are those of a test set; otherwise each was left out in turn."""

    def _title(self) -> str:
        how = "test rows" if self.tested else "rows, each left out in turn"
        return f"errors of {self.queries:,} {how}"

    def _table(self) -> Iterable[tuple[str, str]]:
        yield "1-NN", percent(self.knn1)
        yield f"{self.k}-NN", percent(self.knn)
        yield "nearest centroid", percent(self.centroid)
        yield "nearest subspace", f"{percent(self.subspace)} ({self.directions:.1f} directions per class)"


@dataclass(frozen=True)
class AngleSummary:
    """Angles in degrees between pairs of rows; NaN without pairs."""

    pairs: int
    mean: float
    minimum: float
    q05: float
    q25: float
    median: float
    q75: float
    q95: float
    maximum: float
    histogram: "Array"
    """[180] pairs per degree."""


@dataclass(frozen=True)
class Overlap:
    """Two classes and the smallest principal angle between their subspaces, in degrees."""

    a: Name
    b: Name
    angle: float


@dataclass(frozen=True)
class Spectrum:
    """The singular values of a set of rows, falling."""

    rows: int
    singular_values: "Array"
    norm: float
    """Nuclear norm: their sum."""
    effective_rank: float
    """exp of the entropy of the normalised singular values."""


@dataclass(frozen=True)
class Collapse:
    """How far features have collapsed to their class means, and the means to a simplex; NaN where not defined.

    ``nc1`` is the variance within classes over that between them, ``nc2_*`` how equal the means are in length and
    angle.  ``nc3``, ``nc4`` and the angles compare them with a classifier: NaN without one.
    """

    nc1: float
    nc2_norms: float
    nc2_cosines: float
    nc2_simplex: float
    mean_cosine: float
    """Mean |cosine| of pairs of class means, not centred: 0 is the goal of OLÉ."""
    nc3: float
    nc4: float
    """% of rows whose class by the classifier is not that of the nearest mean."""
    angle_mean: float
    """Degrees between a class's vector in the classifier and its subspace."""
    angle_most: float
    angles: "Array"
    """[classes]; empty without a classifier."""


@dataclass(frozen=True)
class Retrieval:
    """Each row queries for the others of its class, by cosine: %, means over the queries."""

    queries: int
    map_at_r: float
    r_precision: float
    recall: dict[int, float]
    """By k: queries with a right row among the k nearest."""


@dataclass(frozen=True)
class Analysis(Shown):
    """The results of ``ole.analyze``."""

    rows: int
    ignored: int
    """Rows with a label below 0."""
    dim: int
    classes: tuple[Name, ...]
    errors: FeatureErrors
    within: AngleSummary
    """Between rows of one class."""
    between: AngleSummary
    """Between rows of different classes."""
    picture: "Array"
    """Mean angles, rows ordered by class."""
    spectrum: Spectrum
    """Of all rows."""
    class_spectra: dict[Name, Spectrum]
    loss: float
    """The OLÉ loss, mean over rows."""
    class_term: float
    global_norm: float
    overlaps: tuple[Overlap, ...]
    """Pairs of classes by rising angle."""
    collapse: Collapse
    retrieval: Retrieval
    map: "Array"
    """[points, 2] of a t-SNE map; empty without one."""
    map_rows: "Array"
    map_labels: tuple[Name, ...]
    kl: float

    def _title(self) -> str:
        return f"{self.rows:,} rows × {self.dim:,}, {len(self.classes):,} classes"

    def _table(self) -> Iterable[tuple[str, str]]:
        if self.ignored:
            yield "ignored (label < 0)", f"{self.ignored:,}"
        if self.errors.queries:
            for name, value in self.errors._table():
                yield f"{name} error", value
        if self.retrieval.queries:
            found = self.retrieval
            recalls = ", ".join(f"recall@{k} {percent(value)}" for k, value in found.recall.items())
            yield "retrieval", f"MAP@R {percent(found.map_at_r)}, R-precision {percent(found.r_precision)}"
            yield "", recalls
        yield "angle within classes", f"mean {degrees(self.within.mean)}, median {degrees(self.within.median)}"
        yield "angle between classes", f"mean {degrees(self.between.mean)}, median {degrees(self.between.median)}"
        yield "OLÉ loss", f"{self.loss:.4g} = ({self.class_term:.6g} - {self.global_norm:.6g}) / {self.rows:,}"
        ranks = [one.effective_rank for one in self.class_spectra.values()]
        yield "effective rank", f"{self.spectrum.effective_rank:.1f}, per class {sum(ranks) / len(ranks):.1f}"
        if self.collapse.nc1 == self.collapse.nc1:
            yield "neural collapse", f"NC1 {self.collapse.nc1:.4g}, NC2 {self.collapse.nc2_simplex:.4g}"
        if self.collapse.nc3 == self.collapse.nc3:
            yield "", f"NC3 {self.collapse.nc3:.4g}, NC4 {percent(self.collapse.nc4)}"
            yield "classifier to subspaces", f"mean {degrees(self.collapse.angle_mean)}"
        for overlap in self.overlaps[:3]:
            yield f"{overlap.a} and {overlap.b}", f"{degrees(overlap.angle)} apart"

    def plot(self) -> Any:
        """Draws angles, singular values, the matrix of angles and the map with matplotlib; returns the figure.

        >>> import numpy, ole
        >>> x = numpy.random.default_rng(0).normal(size=(40, 8)); y = numpy.arange(40) % 4
        >>> figure = ole.analyze(x, y).plot()
        """
        plot = pyplot()
        figure, panels = plot.subplots(2, 2, figsize=(10, 8), layout="constrained")
        angles, spectra, picture, points = panels.ravel()
        for name, one in (("within", self.within), ("between", self.between)):
            if one.pairs:
                angles.stairs(one.histogram / one.pairs, range(181), label=f"{name} classes", fill=True, alpha=0.5)
        angles.set(title="Angles between rows", xlabel="degrees", ylabel="share of the pairs")
        angles.legend()
        for spectrum in self.class_spectra.values():
            spectra.plot(spectrum.singular_values / (spectrum.singular_values[0] or 1), color="C0", alpha=0.4)
        whole = self.spectrum.singular_values
        spectra.plot(whole / (whole[0] or 1), color="black", label="all rows")
        spectra.set(title="Singular values, over the largest", xlabel="number", ylim=(0, None))
        spectra.legend()
        shown = picture.imshow(self.picture, vmin=0, vmax=90)
        picture.set(title="Angles, rows ordered by class", xticks=[], yticks=[])
        figure.colorbar(shown, ax=picture, label="degrees")
        if len(self.map):
            scatter(points, self.map, self.map_labels)
            points.set_title("t-SNE")
        else:
            points.set_axis_off()
        return figure


class Data:
    """An ole_embedding and the arrays that it points to."""

    def __init__(self, features: "ArrayLike", labels: "ArrayLike", kind: str = "") -> None:
        self.features = matrix(features, f"{kind}features")
        self.labels = labels_of(labels, len(self.features), f"{kind}labels", f"{kind}features")
        self._as_struct(self.labels.codes)

    def _as_struct(self, codes: "Array") -> None:
        x = self.features
        self.codes = codes
        self.struct = structs.Embedding(*x.shape, type_of(x), x.ctypes.data, codes.ctypes.data)

    def number_like(self, other: Labels) -> None:
        """Numbers the classes as ``other`` does; those that it lacks get a number that it does not use."""
        import numpy

        if (self.labels.names is None) != (other.names is None):
            raise native.InputError("labels and test labels have different types; use strings or integers for both")
        if other.names is not None and self.labels.names is not None:
            known = {name: code for code, name in enumerate(other.names)}
            table = numpy.array([known.get(name, len(known)) for name in self.labels.names], numpy.int64)
            self._as_struct(table[self.labels.codes])


def test_data(train: Data, test: "Optional[ArrayLike]", test_labels: "Optional[ArrayLike]") -> Optional[Data]:
    """The test set, with labels numbered as those of ``train``."""
    if test is None and test_labels is None:
        return None
    if test is None or test_labels is None:
        raise native.InputError("test and test_labels belong together; pass both or neither")
    data = Data(test, test_labels, "test ")
    data.number_like(train.labels)
    return data


def check_seen(test: Data, train: Data) -> None:
    """Raises if a test label is of a class that the training labels lack."""
    import numpy

    odd = (test.codes >= 0) & ~numpy.isin(test.codes, train.codes)
    if odd.any():
        row = int(odd.argmax())
        label = test.labels.name(int(test.labels.codes[row]))
        raise native.InputError(f"test labels: row {row} is {label!r}, a class that the labels do not have")


def errors_of(errors: structs.FeatureErrors, tested: bool) -> FeatureErrors:
    return FeatureErrors(
        errors.knn1,
        errors.knn,
        errors.centroid,
        errors.subspace,
        errors.directions,
        errors.k,
        errors.queries,
        errors.references,
        tested,
    )


def _summary(summary: structs.AngleSummary, bins: Any) -> AngleSummary:
    import numpy

    values = {name: getattr(summary, name) for name in AngleSummary.__annotations__ if name != "histogram"}
    return AngleSummary(**values, histogram=numpy.array(bins, numpy.int64))


def _spectrum(spectrum: structs.RowSpectrum) -> Spectrum:
    values = copy_of(spectrum.sigma, (spectrum.count,))
    return Spectrum(spectrum.rows, values, spectrum.norm, spectrum.effective_rank)


def _collapse(found: structs.Collapse) -> Collapse:
    names = [name for name in Collapse.__annotations__ if name != "angles"]
    angles = copy_of(found.angle, (found.classes if found.angle else 0,))
    return Collapse(**{name: getattr(found, name) for name in names}, angles=angles)


def _retrieval(found: structs.Retrieval) -> Retrieval:
    recall = dict(zip(found.k, found.recall)) if found.queries else {}
    return Retrieval(found.queries, found.map_at_r, found.r_precision, recall)


def _linear(classifier: Any, classes: int, dim: int) -> "tuple[Any, Array, Array]":
    """An ole_linear_classifier of (weight, bias) or a weight, and the arrays that it points to."""
    import numpy

    weight, bias = classifier if isinstance(classifier, tuple) else (classifier, None)
    w = numpy.require(matrix(weight, "classifier's weights"), numpy.float32, ("C", "A"))
    if w.shape != (classes, dim):
        raise native.InputError(f"classifier's weights have shape {w.shape}; {classes} classes of {dim} need {classes, dim}")
    b = numpy.zeros(classes, numpy.float32) if bias is None else numpy.require(bias, numpy.float32, ("C", "A"))
    if b.shape != (classes,):
        raise native.InputError(f"classifier's bias has shape {b.shape}; use ({classes},)")
    return structs.LinearClassifier(classes, dim, w.ctypes.data, b.ctypes.data), w, b


def _result(found: structs.Analysis, labels: Labels) -> Analysis:
    """A copy of the library's analysis."""
    angles, spectra = found.angles, found.spectra
    of = {labels.name(one.label): _spectrum(one) for one in spectra.of[: spectra.classes]}
    overlaps = found.overlaps[: found.overlap_count] if found.overlap_count else []
    points = found.points if found.map else 0
    return Analysis(
        rows=found.rows,
        ignored=found.ignored,
        dim=found.dim,
        classes=tuple(of),
        errors=errors_of(found.errors, found.tested),
        within=_summary(angles.within, angles.within_bins),
        between=_summary(angles.between, angles.between_bins),
        picture=copy_of(angles.picture, (angles.side, angles.side), "float32"),
        spectrum=_spectrum(spectra.all),
        class_spectra=of,
        loss=spectra.loss,
        class_term=spectra.class_term,
        global_norm=spectra.global_norm,
        collapse=_collapse(found.collapse),
        retrieval=_retrieval(found.retrieval),
        overlaps=tuple(Overlap(labels.name(one.label_a), labels.name(one.label_b), one.angle) for one in overlaps),
        map=copy_of(found.map, (points, 2)),
        map_rows=copy_of(found.point_rows, (points,), "int64"),
        map_labels=tuple(labels.name(int(code)) for code in copy_of(found.point_labels, (points,), "int64")),
        kl=found.kl,
    )


def analyze(
    features: "ArrayLike",
    labels: "ArrayLike",
    *,
    test: "Optional[ArrayLike]" = None,
    test_labels: "Optional[ArrayLike]" = None,
    classifier: Any = None,
    k: int = 5,
    energy: float = 0.95,
    sample: int = 10_000,
    map: bool = True,
    errors: bool = True,
    seed: int = 0,
    threads: Optional[int] = None,
    verbose: bool = False,
) -> Analysis:
    """Measures how well ``features`` [N, D] separate their classes, as ``ole analyze`` does.

    ``labels`` [N] are strings or integers of at least two classes; rows with an integer below 0 are ignored.  Errors
    are those of ``test``, whose classes must be among them, if it is given, otherwise each row is left out in turn.
    At most ``sample`` rows are classified, compared and mapped (0: all).  ``classifier``, weights [classes, D] by
    sorted label or a tuple of weights and bias, adds what compares it with the features (``collapse``).  ``energy``
    is the share of a class's energy in its subspace.  ``threads`` (default: all processors) does not change the
    result.

    float32 and float64 arrays in C order are read in place, memory-mapped ones included.

    >>> import numpy, ole
    >>> x = numpy.random.default_rng(0).normal(size=(60, 8)) + 4 * numpy.eye(8)[numpy.arange(60) % 3]
    >>> found = ole.analyze(x, numpy.array(["cat", "dog", "owl"])[numpy.arange(60) % 3], map=False)
    >>> found.classes, found.errors.knn1 < 10, found.between.median > found.within.median
    (('cat', 'dog', 'owl'), True, True)
    """
    data = Data(features, labels)
    present = data.labels.present()
    if len(present) == 1:
        raise native.InputError(f"labels: all rows have the label {present[0]!r}; at least two classes are needed")
    tested = test_data(data, test, test_labels)
    if tested is not None:
        check_seen(tested, data)
    progress = Progress(verbose)
    report = structs.ProgressCallback(lambda _, what, share: progress.report(what.decode(), share) and None)
    stop = structs.StopCallback(lambda _: progress.caught is not None)
    options = native.initialized(
        _calls,
        structs.AnalyzeOptions,
        k=int(k),
        energy=float(energy),
        sample=int(sample),
        map=bool(map),
        errors=bool(errors),
        seed=int(seed),
        threads=processors(threads),
        progress=report,
        stop=stop,
    )
    if tested is not None:
        options.test.contents = tested.struct
    if classifier is not None:
        linear = _linear(classifier, len(present), data.features.shape[1])
        options.classifier = addressof(linear[0])
    found = structs.Analysis()
    try:
        _calls("ole_analyze", byref(found), byref(data.struct), byref(options))
    finally:
        progress.check()
    try:
        return _result(found, data.labels)
    finally:
        _calls("ole_analysis_free", byref(found))
