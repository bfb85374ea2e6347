"""What an estimator keeps in its model file beside the model, so that ``load`` gives back what ``save`` was given.

It is JSON under the key "python_estimator" of the safetensors metadata, which every other reader ignores: the
parameters, the classes with their type, and what fit learned that the model itself does not hold.
"""
from __future__ import annotations

import json
import math
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Union

import numpy

from . import _library as native

if TYPE_CHECKING:
    Array = numpy.ndarray[Any, Any]
    Texts = dict[str, str]

KEY = "python_estimator"


def _plain(value: Any) -> Any:
    """A value as JSON can hold it; TypeError for what it cannot."""
    if isinstance(value, numpy.generic):
        value = value.item()
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, bytes):
        return {"bytes": value.decode("latin-1")}
    if isinstance(value, dict):
        return {"dict": [[_plain(key), _plain(one)] for key, one in value.items()]}
    raise TypeError(f"{type(value).__name__} is not stored")


def _value(plain: Any) -> Any:
    """The value that ``_plain`` was given."""
    if isinstance(plain, dict):
        if "bytes" in plain:
            return plain["bytes"].encode("latin-1")
        return {_value(key): _value(one) for key, one in plain["dict"]}
    return plain


def to_text(params: dict[str, Any], learned: dict[str, Any], classes: "Array") -> str:
    """The state of an estimator as JSON; parameters that it cannot hold, such as a RandomState, are left out."""
    kept = {}
    for name, value in params.items():
        try:
            kept[name] = _plain(value)
        except TypeError:
            continue
    numbers = {name: None if isinstance(one, float) and math.isnan(one) else one for name, one in learned.items()}
    labels = {"type": classes.dtype.str, "values": [_plain(one) for one in classes.tolist()]}
    return json.dumps({"params": kept, "learned": numbers, "classes": labels})


def from_text(text: str) -> "tuple[dict[str, Any], dict[str, Any], Array]":
    """Parameters, learned attributes and classes; None became NaN among the learned."""
    state = json.loads(text)
    params = {name: _value(one) for name, one in state["params"].items()}
    learned = {name: math.nan if one is None else one for name, one in state["learned"].items()}
    kind, values = numpy.dtype(state["classes"]["type"]), [_value(one) for one in state["classes"]["values"]]
    classes: Array = numpy.empty(len(values), kind)
    classes[:] = values
    return params, learned, classes


def _header(file: BinaryIO) -> dict[str, Any]:
    header: dict[str, Any] = json.loads(file.read(int.from_bytes(file.read(8), "little")))
    return header


def read_texts(path: "Union[str, os.PathLike[str]]") -> "Texts":
    """The metadata of a model file, or of that in a run folder; of a hub's model, {}."""
    folder = Path(path)
    for file in (folder, folder / "best.safetensors", folder / "last.safetensors"):
        if file.is_file():
            with open(file, "rb") as opened:
                texts: Texts = _header(opened).get("__metadata__", {})
            return texts
    return {}


def write_text(path: "Union[str, os.PathLike[str]]", text: str) -> None:
    """Adds the state to a model file, which is replaced at once."""
    partial = Path(f"{os.fspath(path)}.partial")
    try:
        with open(path, "rb") as old, open(partial, "wb") as new:
            header = _header(old)
            header.setdefault("__metadata__", {})[KEY] = text
            start = json.dumps(header, separators=(",", ":")).encode()
            start += b" " * (-len(start) % 8)
            new.write(len(start).to_bytes(8, "little") + start)
            shutil.copyfileobj(old, new)
            new.flush()
            os.fsync(new.fileno())
        shutil.copymode(path, partial)
        os.replace(partial, path)
    except OSError as reason:
        partial.unlink(missing_ok=True)
        raise native.Error(f"{os.fspath(path)}: cannot be written: {reason.strerror}", "io") from None


def mean_aurocs(texts: "Texts") -> dict[str, float]:
    """Of each score that was compared when the threshold was chosen; empty where none were."""
    try:
        of = json.loads(texts["novelty_choice"])["auroc"]
        return {name: math.fsum(groups) / len(groups) for name, groups in of.items()}
    except (KeyError, TypeError, ValueError, ZeroDivisionError):
        return {}
