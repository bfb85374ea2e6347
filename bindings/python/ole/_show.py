"""Results one can print, see in a notebook and plot: what those of ``ole.analyze`` and its kin have in common."""
from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any, Iterable, Optional, Sequence

from . import _library as native

if TYPE_CHECKING:
    import numpy

    Array = numpy.ndarray[Any, Any]


class Shown:
    """A result with a title and a table of names and values."""

    def _title(self) -> str:
        raise NotImplementedError

    def _table(self) -> Iterable[tuple[str, str]]:
        raise NotImplementedError

    def __str__(self) -> str:
        rows = list(self._table())
        width = max((len(name) for name, _ in rows), default=0)
        return "\n".join([self._title(), *(f"  {name:<{width}}  {value}" for name, value in rows)])

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        cells = "".join(
            f"<tr><th style='text-align:left'>{escape(name)}</th><td style='text-align:left'>{escape(value)}</td></tr>"
            for name, value in self._table()
        )
        return f"<table><caption style='text-align:left'>{escape(self._title())}</caption>{cells}</table>"


def percent(value: float) -> str:
    return "-" if value != value else f"{value:.2f} %"


def degrees(value: float) -> str:
    return "-" if value != value else f"{value:.1f}°"


def pyplot() -> Any:
    """matplotlib's pyplot; an error that says how to get it where it is missing."""
    try:
        from matplotlib import pyplot as plot
    except ImportError:
        raise native.Error("plot() needs matplotlib: pip install matplotlib") from None
    return plot


def axes_of(ax: Optional[Any]) -> Any:
    """``ax``, or the axes of a new figure."""
    return pyplot().subplots()[1] if ax is None else ax


def scatter(ax: Any, points: "Array", names: Optional[Sequence[object]]) -> None:
    """Points in the plane, one colour per name; a legend for up to 20 of them."""
    import numpy

    ax.set_aspect("equal", "datalim")
    ax.set_xticks([])
    ax.set_yticks([])
    if names is None:
        ax.scatter(points[:, 0], points[:, 1], s=8)
        return
    of = numpy.asarray(names)
    kinds = numpy.unique(of)
    for i, kind in enumerate(kinds):
        at = points[of == kind]
        ax.scatter(at[:, 0], at[:, 1], s=8, color=f"C{i % 10}", marker="o^sDv"[i // 10 % 5], label=str(kind))
    if len(kinds) <= 20:
        ax.legend(fontsize="small", markerscale=2)


class Progress:
    """Prints the progress of a long call to stderr, and keeps an exception (Ctrl-C) that arrives meanwhile.

    Exceptions cannot pass through the library, so the callbacks return that the call should stop, and ``check()``
    raises afterwards.
    """

    def __init__(self, verbose: bool) -> None:
        self.verbose = verbose
        self.caught: Optional[BaseException] = None
        self._shown = ""

    def report(self, what: str, share: float) -> bool:
        """Returns whether to stop."""
        try:
            text = f"{what} {100 * share:.0f} %"
            if self.verbose and text != self._shown:
                import sys

                self._shown = text
                print(f"\r{text:<40}", end="", file=sys.stderr, flush=True)
        except BaseException as exception:  # Ctrl-C among them
            self.caught = exception
        return self.caught is not None

    def check(self) -> None:
        """Ends the line, and raises what was caught."""
        if self._shown:
            import sys

            print(file=sys.stderr)
        if self.caught is not None:
            raise self.caught
