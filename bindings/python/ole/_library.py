"""Finds and loads libole, and mirrors its structs and errors.

This module does not depend on NumPy, PyTorch or JAX.  ``library()`` loads libole.so once and sets the
argument types; ctypes releases the interpreter lock during every call.  The structs mirror
include/ole/loss.h field by field; a newer libole with longer options works too.
"""
from __future__ import annotations

import ctypes
import functools
import os
import re
import struct
import warnings
from ctypes import POINTER, byref, c_bool, c_char, c_char_p, c_double, c_int, c_int64, c_size_t, c_void_p, sizeof
from pathlib import Path
from typing import Any, Callable, Iterator, Sequence, TypeVar

# ole_dtype and ole_device of ole/base.h.
F16, BF16, F32, F64, I32, I64 = 1, 2, 3, 4, 7, 8
CPU, CUDA = 0, 1
# ole_status.
OK, ARGUMENT, DATA, NUMERIC = 0, 1, 2, 6

_PURE_STATUS = {ARGUMENT: "argument", DATA: "data", NUMERIC: "numeric"}

AUTO = -1.0  # OLE_DELTA_REL_AUTO


class Error(RuntimeError):
    """The library failed; ``status`` names the kind of failure, such as "memory"."""

    def __init__(self, message: str, status: str = "unsupported") -> None:
        super().__init__(message)
        self.status = status


class InputError(Error, ValueError):
    """Invalid arguments or data: shapes, options, NaN or Inf."""


for _public in (Error, InputError):
    _public.__module__ = "ole"  # the name that messages show


class ErrorText(ctypes.Structure):
    """ole_error"""

    _fields_ = [("status", c_int), ("message", c_char * 508)]


class Options(ctypes.Structure):
    """ole_loss_options"""

    _fields_ = [
        ("struct_size", c_size_t),
        ("weight", c_double),
        ("delta_floor", c_double),
        ("delta_abs", c_double),
        ("delta_rel", c_double),
        ("reduction", c_int),
        ("device", c_int),
        ("threads", c_int),
        ("gpu", c_int),
    ]


class Batch(ctypes.Structure):
    """ole_loss_batch"""

    _fields_ = [
        ("rows", c_int64),
        ("features", c_void_p),
        ("stride", c_int64),
        ("labels", c_void_p),
        ("label_type", c_int),
    ]


class Gradient(ctypes.Structure):
    """ole_loss_gradient"""

    _fields_ = [("data", c_void_p), ("stride", c_int64), ("upstream", c_double), ("accumulate", c_bool)]


class Call(ctypes.Structure):
    """The arguments of a call. ``FILL.pack_into`` writes all fields up to upstream at once, which is faster
    than setting them one by one."""

    _fields_ = [("batch", Batch), ("gradient", Gradient)]


FILL = struct.Struct("@qPqPi Pqd")


class ClassEntry(ctypes.Structure):
    """ole_loss_class"""

    _fields_ = [("label", c_int64), ("count", c_int64), ("rank", c_int64), ("norm", c_double)]


class Result(ctypes.Structure):
    """ole_loss_result"""

    _fields_ = [
        ("value", c_double),
        ("class_term", c_double),
        ("global_norm", c_double),
        ("rows", c_int64),
        ("classes", c_int64),
        ("rank", c_int64),
        ("per_class", POINTER(ClassEntry)),
        ("per_class_capacity", c_int64),
    ]


class InfoRow(ctypes.Structure):
    """ole_info_row"""

    _fields_ = [("name", c_char_p), ("value", c_char_p)]


OUTCOME_WORDS = 7  # ole_loss_outcome: three doubles and four int64_t

_SIGNATURES: dict[str, tuple[object, list[object]]] = {
    "ole_version": (c_char_p, []),
    "ole_status_name": (c_char_p, [c_int]),
    "ole_info": (c_size_t, [c_void_p, c_size_t]),
    "ole_loss_options_init_sized": (None, [c_void_p, c_size_t]),
    "ole_loss_plan_create": (c_int, [c_void_p, c_int64, c_int64, c_int, c_void_p, c_void_p]),
    "ole_loss_plan_destroy": (None, [c_void_p]),
    "ole_loss_plan_bytes": (c_size_t, [c_void_p]),
    "ole_loss_eval": (c_int, [c_void_p] * 5),
    "ole_loss_queue": (c_int, [c_void_p] * 6),
}


def _candidates() -> Iterator[str]:
    """Where to look for libole: only $OLE_LIBRARY if it is set; otherwise beside this file (a package), in
    build/ (a checkout), and in the system's library path."""
    given = os.environ.get("OLE_LIBRARY")
    if given:
        yield given
        return
    here = Path(__file__).resolve().parent
    for path in (here / "lib" / "libole.so", here.parents[2] / "build" / "libole.so"):
        if path.exists():
            yield str(path)
    yield "libole.so.0.2"


@functools.lru_cache(maxsize=None)
def is_pure() -> bool:
    """Whether the loss runs in NumPy (``_pure``): OLE_PURE_PYTHON is set, or this is the wheel without libole."""
    if os.environ.get("OLE_PURE_PYTHON", "0") not in ("", "0"):
        return True
    if os.environ.get("OLE_LIBRARY") or not _is_pure_wheel():
        return False
    try:
        library()
    except Error:
        warnings.warn(
            "this package of ole has no native library for your system: the loss runs in NumPy, many times slower",
            stacklevel=2,
        )
        return True
    return False


def _metadata(name: str) -> str | None:
    """A file of the installed package's metadata, or None in a checkout."""
    from importlib import metadata

    for package in ("ole", "ole-loss"):  # the second name is there in case the first is taken
        try:
            return metadata.distribution(package).read_text(name) or ""
        except metadata.PackageNotFoundError:
            continue
    return None


def _is_pure_wheel() -> bool:
    return "Root-Is-Purelib: true" in (_metadata("WHEEL") or "")


def library_path() -> str:
    """The file that ``library()`` loads."""
    return next(_candidates())


@functools.lru_cache(maxsize=None)
def library() -> ctypes.CDLL:
    """libole, loaded on the first call."""
    path = library_path()
    try:
        loaded = ctypes.CDLL(path)
    except OSError as reason:
        raise Error(
            f"{path} cannot be loaded ({reason}); install the package with pip, or set OLE_LIBRARY "
            "to the libole.so of a build"
        ) from None
    if not _fits(loaded):
        known = hasattr(loaded, "ole_version")
        what = f"version {loaded.ole_version().decode()}, which does not match this package" if known else "not libole"
        raise Error(f"{path} is {what}; install both from the same checkout")
    return loaded


def _fits(loaded: ctypes.CDLL) -> bool:
    """Sets the argument types; returns whether every function exists."""
    try:
        for name, (result, arguments) in _SIGNATURES.items():
            function = getattr(loaded, name)
            function.restype, function.argtypes = result, arguments
    except AttributeError:  # ole_version comes first, so it can be called if it exists
        return False
    return True


def version() -> str:
    """The library's version, for example "0.2.0"."""
    if is_pure():
        about = _metadata("METADATA")
        if about is not None:
            return str(re.findall(r"^Version: (\S+)", about, re.MULTILINE)[0])
        header = Path(__file__).resolve().parents[3] / "include" / "ole" / "base.h"
        return ".".join(re.findall(r"^#define OLE_VERSION_\w+ (\d+)", header.read_text(), re.MULTILINE))
    return str(library().ole_version().decode())


def info() -> dict[str, str]:
    """What the library is built with and what this machine offers, as ``ole info`` prints it.

    >>> import ole
    >>> ole.info()["version"] == ole.__version__
    True
    """
    if is_pure():
        return {"version": version(), "library": "none: the loss runs in NumPy"}
    rows = (InfoRow * 64)()
    count = min(library().ole_info(rows, len(rows)), len(rows))
    return {row.name.decode(): row.value.decode() for row in rows[:count]}


def fail(error: ErrorText) -> Error:
    """The exception to raise for a filled ole_error."""
    kind = InputError if error.status in (ARGUMENT, DATA) else Error
    name = _PURE_STATUS[error.status] if is_pure() else library().ole_status_name(error.status).decode()
    text = error.message.decode("utf-8", "replace").replace("options.", "")  # its fields are arguments here
    return kind(text, name)


class Calls:
    """Functions of a library by name, ``calls("ole_tsne", rows, ...)``: the last argument, an ole_error, is added,
    and a status other than OLE_OK raised. ``statuses`` and ``others`` have the types of their arguments, the second
    those that return something else, which comes first."""

    def __init__(
        self,
        statuses: dict[str, Sequence[Any]],
        others: dict[str, Sequence[Any]],
        load: Callable[[], ctypes.CDLL] = library,
    ) -> None:
        self._load = load
        self._statuses = statuses
        self._others = others
        self._known: dict[str, Any] = {}

    def _function(self, name: str) -> Any:
        if name in self._known:
            return self._known[name]
        if is_pure():
            raise Error("this needs the native library, which this package of ole lacks on your system")
        try:
            function = getattr(self._load(), name)
        except AttributeError:
            raise Error(f"the library lacks {name}(); install it and the package from the same checkout") from None
        if name in self._statuses:
            function.restype, function.argtypes = c_int, [*self._statuses[name], c_void_p]
        else:
            function.restype, *function.argtypes = self._others[name]
        self._known[name] = function
        return function

    def __call__(self, name: str, *arguments: Any) -> Any:
        if name in self._others:
            return self._function(name)(*arguments)
        error = ErrorText()
        if self._function(name)(*arguments, byref(error)) != OK:
            raise fail(error)
        return None


Struct = TypeVar("Struct", bound=ctypes.Structure)


def initialized(calls: Calls, kind: type[Struct], **fields: Any) -> Struct:
    """Options with the defaults of the struct's ``_init_sized`` function, and the given fields."""
    options = kind()
    calls(f"{(kind.__doc__ or '').split()[0]}_init_sized", byref(options), sizeof(options))
    for name, value in fields.items():
        setattr(options, name, value)
    return options
