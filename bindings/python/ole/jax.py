"""The OLÉ loss in JAX.

    from ole.jax import ole_loss

    def objective(params, images, labels):
        features, logits = apply(params, images)
        return cross_entropy(logits, labels) + ole_loss(features, labels, 0.25)

``features`` [N, D] are the inputs of the last linear layer, ``labels`` [N] integers (negative: ignored).
Works with ``jit``, ``grad`` (first derivatives only), ``vmap`` (one batch after the other) and
``shard_map``, on the CPU and, if the library was built with its GPU module, on CUDA GPUs, where the loss is
queued on XLA's stream without synchronising.

On multiple devices the loss is that of the whole batch.  ``jit`` with sharded arrays does this by itself;
inside ``shard_map`` gather the features first and average over the devices, which all compute the same
number:

    features = jax.lax.all_gather(features, "data", tiled=True)
    labels = jax.lax.all_gather(labels, "data", tiled=True)
    loss = jax.lax.pmean(ole_loss(features, labels, 0.25), "data")

Each device then gets the exact gradient of the whole batch's loss with respect to its own features.
"""
from __future__ import annotations

import ctypes
import functools
import os
from pathlib import Path
from typing import Any, NamedTuple, Optional, Union

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from . import _library as native
from ._arrays import thread_count, too_large
from ._score import check_not_negative, kind_options, relative_cut

__all__ = ["ole_loss"]

_TARGET = "ole_loss"
_WORDS = 2 * native.OUTCOME_WORDS  # an ole_loss_outcome as uint32
_MAX_THREADS = 16  # by default; the loss of a batch gains nothing from more


class _Options(NamedTuple):
    """Attributes of the call."""

    delta_floor: float
    delta_abs: float
    delta_rel: float
    mean: bool
    threads: int
    check: bool


def ole_loss(
    features: Array,
    labels: Array,
    weight: Union[float, Array] = 1.0,
    *,
    delta_floor: float = 1.0,
    delta_abs: float = 1e-6,
    delta_rel: Optional[float] = None,
    reduction: str = "mean",
    threads: Optional[int] = None,
    check: bool = True,
) -> Array:
    """The OLÉ loss of a batch, a scalar: float64 for float64 features, otherwise float32.

    ``weight`` is λ, a number or a traced scalar.  ``delta_floor`` is the lower bound of each class's norm.
    A singular value counts if it exceeds ``delta_abs`` and ``delta_rel`` times the largest one (``None``:
    64 times the machine epsilon).  ``reduction`` "mean" divides by the number of rows that are not
    ignored, "sum" does not.  ``threads`` is the number of CPU threads (default: all processors, at most
    16).  A batch without rows or columns, or with all rows ignored, gives 0 and a zero gradient.

    On the CPU, NaN or Inf in a row that is not ignored raises an error that names the row: a
    jax.errors.JaxRuntimeError or, from JAX's fast path for repeated calls, a ValueError, either at the call or
    when the result is used.  On a GPU value and gradient become NaN instead.  ``check=False`` gives NaN on
    the CPU too: for loops that skip such steps, for branches that are computed but not taken, and for
    devices that evaluate rows of their own, where the others would hang in the next collective.

    >>> import jax.numpy as jnp
    >>> from ole.jax import ole_loss
    >>> features = jnp.array([[2.0, 1, 0], [3, 1, 0], [1, 0, 2], [1, 0, 3]])
    >>> round(float(ole_loss(features, jnp.array([0, 0, 1, 1]))), 4)
    0.087
    """
    features, labels = jnp.asarray(features), _as_array(labels)
    _check(features, labels)
    mean, _ = kind_options(reduction, weight if isinstance(weight, (int, float)) else 1.0)
    if jnp.shape(weight) != ():
        raise native.InputError(f"weight has shape {jnp.shape(weight)}; use one number")
    count = thread_count(threads) or min(len(os.sched_getaffinity(0)), _MAX_THREADS)
    check_not_negative("delta_floor", delta_floor)
    check_not_negative("delta_abs", delta_abs)
    options = _Options(float(delta_floor), float(delta_abs), relative_cut(delta_rel), mean, count, bool(check))
    if features.dtype != jnp.float64:
        features = features.astype(jnp.float32)
    if labels.dtype != jnp.int32 and labels.dtype.itemsize < _widest().itemsize:
        labels = labels.astype(_widest())
    value = _loss(features, labels, options)
    return jnp.asarray(weight).astype(value.dtype) * value


def _widest() -> Any:
    """JAX's widest integer type: int32, or int64 if that is enabled."""
    return jnp.dtype(jax.dtypes.canonicalize_dtype(jnp.int64))


def _as_array(labels: Any) -> Array:
    """The labels in JAX, which silently truncates NumPy's to 32 bits unless 64 are enabled."""
    if isinstance(labels, np.ndarray) and labels.dtype.kind in "iu":
        limits = np.iinfo(_widest())
        outside = (labels > limits.max) | ((labels < limits.min) if labels.dtype.kind == "i" else False)
        if outside.any():
            at = int(np.flatnonzero(outside)[0])
            raise too_large(at, int(labels.flat[at]), limits.dtype.name)
    return jnp.asarray(labels)


def _check(features: Array, labels: Array) -> None:
    if features.ndim != 2 or not jnp.issubdtype(features.dtype, jnp.floating):
        raise native.InputError(
            f"features are {features.dtype} of shape {features.shape}; use floats [N, D], one row per sample "
            "(flatten further dimensions)"
        )
    if labels.ndim != 1 or labels.shape[0] != features.shape[0]:
        raise native.InputError(
            f"labels have shape {labels.shape}; {features.shape[0]} rows of features need "
            f"({features.shape[0]},)"
        )
    if not (jnp.issubdtype(labels.dtype, jnp.integer) or labels.dtype == jnp.bool_):
        raise native.InputError(f"labels are {labels.dtype}; use integers, the class index of each row")


# ---- The call ---------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=None)
def _register() -> ctypes.CDLL:
    """Registers the handlers of libole_jax.so with XLA, once."""
    native.library()
    path = Path(native.library_path())
    beside = str(path.with_name("libole_jax.so")) if path.parent != Path(".") else "libole_jax.so"
    try:
        handlers = ctypes.CDLL(beside)
    except OSError as reason:
        raise native.Error(
            f"{beside} cannot be loaded ({reason}); it belongs beside libole.so, where pip and CMake put it"
        ) from None
    if not hasattr(jax, "ffi"):
        raise native.Error(f"JAX {jax.__version__} is too old; install 0.5 or later")
    for platform in ("cpu", "CUDA"):
        handler = getattr(handlers, f"ole_jax_loss_{platform.lower()}")
        capsule = jax.ffi.pycapsule(handler)  # type: ignore[no-untyped-call]
        jax.ffi.register_ffi_target(_TARGET, capsule, platform=platform)
    return handlers


def _like(features: Array, result: Array) -> Array:
    """The same result, marked as varying over the devices of a shard_map as the features do. JAX infers that
    for every operation except a foreign call. It compiles to nothing."""
    return jnp.where(False, features.ravel()[0].astype(result.dtype), result)


def _call(
    features: Array, labels: Array, options: _Options, *, gradient: bool
) -> tuple[Array, Optional[Array]]:
    """The value and, if requested, the gradient."""
    if features.size == 0:  # the sum, 0, varies over the devices as the features do
        return features.sum(), jnp.zeros_like(features) if gradient else None
    _register()
    shapes = [((_WORDS,), jnp.uint32), (features.shape, features.dtype)][: 2 if gradient else 1]
    results = [jax.ShapeDtypeStruct(*shape) for shape in shapes]  # type: ignore[no-untyped-call]
    words, *rest = jax.ffi.ffi_call(_TARGET, results, vmap_method="sequential")(
        features,
        _like(features, labels),
        delta_floor=np.float64(options.delta_floor),
        delta_abs=np.float64(options.delta_abs),
        delta_rel=np.float64(options.delta_rel),
        mean=np.int64(options.mean),
        threads=np.int64(options.threads),
        check=np.int64(options.check),
    )
    value = _like(features, _first_double(words, features.dtype))
    slope = _like(features, rest[0]) if rest else None
    if jnp.issubdtype(labels.dtype, jnp.unsignedinteger):  # a GPU ignores those that are too large
        wrong = (labels > np.iinfo(labels.dtype).max // 2).any()
        value = jnp.where(wrong, jnp.nan, value)
        slope = None if slope is None else jnp.where(wrong, jnp.nan, slope)
    return value, slope


def _first_double(words: Array, dtype: Any) -> Array:
    """The float64 in the first two words, as float32 if JAX has no float64."""
    if dtype == jnp.float64:
        return jax.lax.bitcast_convert_type(words[:2], jnp.float64)
    low, high = words[0], words[1]
    exponent = (high >> 20 & 0x7FF).astype(jnp.int32) - 1023
    fraction = (high & 0xFFFFF) << 3 | low >> 29
    shifted = jnp.clip(exponent + 127, 0, 254).astype(jnp.uint32) << 23
    bits = (shifted | fraction) + (low >> 28 & 1)  # rounding may carry into the exponent
    bits = jnp.where(exponent < -126, jnp.uint32(0), bits)
    bits = jnp.where(exponent > 127, jnp.uint32(0x7F800000), bits)
    not_a_number = (exponent == 1024) & ((high & 0xFFFFF | low) != 0)
    bits = jnp.where(not_a_number, jnp.uint32(0x7FC00000), bits)
    return jax.lax.bitcast_convert_type(bits | high & jnp.uint32(0x80000000), jnp.float32)


# ---- Its derivative ---------------------------------------------------------------------------------


@functools.partial(jax.custom_vjp, nondiff_argnums=(2,))
def _loss(features: Array, labels: Array, options: _Options) -> Array:
    return _call(features, labels, options, gradient=False)[0]


def _forward(features: Array, labels: Array, options: _Options) -> tuple[Array, Optional[Array]]:
    return _call(features, labels, options, gradient=True)


def _backward(options: _Options, gradient: Array, upstream: Array) -> tuple[Array, None]:
    return upstream * gradient, None


_loss.defvjp(_forward, _backward)
