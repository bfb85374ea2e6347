"""The loss as an operator of PyTorch: tensors to plans, and its derivative.

``loss_of`` is what ole.torch calls.  Under torch.compile and the like it is the operator ``ole::loss``
of torch.library (torch 2.4 and later), which stays whole in the graph; else a torch.autograd.Function,
which costs a quarter of the operator's overhead.  Both run ``_run`` and ``_pull_back``:

    forward    value = weight/N (class term - global norm), and the *direction*: the gradient, for features
               of 16 bits without weight and, for the mean, times the rows; its entries are at most 2 in
               size then, whatever the batch, so that float16 holds them.
    backward   direction * upstream, and for 16 bits * weight/rows, multiplied in float32.

Addresses go to the library as they are.  On a GPU everything is queued on the current stream and
nothing waits.  A row with NaN or Inf makes value and gradient NaN, on the CPU as on a GPU, so that a
GradScaler can skip the step.
"""
from __future__ import annotations

from typing import Any, Optional, Tuple

import torch
from torch import Tensor

from . import _library as native
from ._plans import Kind, Plan, bucket, plans

_TYPES = {
    torch.float16: native.F16,
    torch.bfloat16: native.BF16,
    torch.float32: native.F32,
    torch.float64: native.F64,
}
_NARROW = (torch.float16, torch.bfloat16)
_MAX_THREADS = 16  # by default; the loss of a batch gains nothing from more

SCHEMA = (
    "(Tensor features, Tensor labels, float weight, float delta_floor, float delta_abs, "
    "float delta_rel, bool mean, int threads, bool want_gradient) -> (Tensor, Tensor)"
)


def value_type(features: Tensor) -> torch.dtype:
    """The type of the loss: float64 of float64, else float32."""
    return torch.float64 if features.dtype == torch.float64 else torch.float32


def _direction_type(features: Tensor) -> torch.dtype:
    """On a GPU that of the features; the CPU's plans know float32 and float64 only."""
    if features.dtype in _NARROW and features.device.type == "cpu":
        return torch.float32
    return features.dtype


def _in_rows(x: Tensor) -> Tensor:
    """The same tensor where the library can read it: each row in one piece."""
    along, across = x.stride()
    return x if across == 1 and along >= x.size(1) else x.contiguous()


def _integers(labels: Tensor) -> Tensor:
    if labels.dtype not in (torch.int32, torch.int64):
        labels = labels.to(torch.int64)
    return labels.contiguous()


def _run(
    features: Tensor,
    labels: Tensor,
    weight: float,
    delta_floor: float,
    delta_abs: float,
    delta_rel: float,
    mean: bool,
    threads: int,
    want_gradient: bool,
) -> Tuple[Tensor, Tensor]:
    """Value, and direction (of no elements unless wanted). Neither is a view of anything."""
    rows, dim = features.shape
    shape = (rows, dim) if want_gradient else (0,)
    direction = torch.empty(shape, dtype=_direction_type(features), device=features.device)
    if rows == 0:
        return torch.zeros((), dtype=value_type(features), device=features.device), direction
    x, y = _in_rows(features.detach().to(direction.dtype)), _integers(labels)
    on_cpu = x.device.type == "cpu"
    kind = Kind(
        bucket(rows),
        dim,
        _TYPES[x.dtype],
        mean,
        delta_floor,
        delta_abs,
        delta_rel,
        (threads or min(torch.get_num_threads(), _MAX_THREADS)) if on_cpu else 1,
        -1 if on_cpu else x.device.index,
        0 if on_cpu else torch.cuda.current_stream(x.device).cuda_stream,
    )
    run = _evaluate if on_cpu else _queue
    upstream = (float(rows) if mean else 1.0) if features.dtype in _NARROW else weight
    return run(kind, x, y, weight, upstream, direction), direction


def _evaluate(kind: Kind, x: Tensor, y: Tensor, weight: float, upstream: float, direction: Tensor) -> Tensor:
    """On the CPU: the value; the direction is filled where it has elements."""
    plan = plans.take(kind)
    try:
        status = plan.evaluate(*_addresses(x, y, direction), upstream)
        if status == native.OK:
            value = weight * plan.result.value
        elif status == native.ARGUMENT and not bool((y >= 0).any()):
            value = 0.0  # no row is left: nothing to pull at
            direction.zero_()
        elif status in (native.DATA, native.NUMERIC):
            value = float("nan")
            direction.fill_(value)
        else:
            raise plan.failure()
    finally:
        plans.give(kind, plan)
    return torch.tensor(value, dtype=value_type(x))


def _queue(kind: Kind, x: Tensor, y: Tensor, weight: float, upstream: float, direction: Tensor) -> Tensor:
    """On a GPU: queues the evaluation and returns the value-to-be."""
    with torch.cuda.device(x.device):
        capturing = torch.cuda.is_current_stream_capturing()
        # A captured graph keeps working in the plan's memory: such a plan is never lent again.
        plan = Plan(kind) if capturing else plans.take(kind)
        outcome = torch.empty(native.OUTCOME_WORDS, dtype=torch.float64, device=x.device)
        try:
            plan.queue(*_addresses(x, y, direction), upstream, outcome.data_ptr(), kind.stream)
        finally:
            if capturing:
                plans.keep(plan)
            else:
                plans.give(kind, plan)
        value = torch.empty((), dtype=value_type(x), device=x.device)
        return torch.mul(outcome[0], weight, out=value)


def _addresses(x: Tensor, y: Tensor, direction: Tensor) -> Tuple[int, int, int, int, int, int]:
    """rows, features, stride, labels, label_type, gradient of a plan's calls."""
    label_type = native.I32 if y.dtype == torch.int32 else native.I64
    gradient = direction.data_ptr() if direction.numel() else 0
    return x.size(0), x.data_ptr(), x.stride(0), y.data_ptr(), label_type, gradient


def _pull_back(direction: Tensor, upstream: Tensor, scale: float, dtype: torch.dtype) -> Tensor:
    """The gradient: the direction times upstream, in the features' type."""
    if dtype in _NARROW:
        return (direction.to(torch.float32) * (upstream * scale)).to(dtype)
    return direction * upstream


def _scale(features: Tensor, weight: float, mean: bool) -> float:
    """What the direction of narrow features is still to be multiplied by."""
    rows = features.size(0)
    return weight / rows if mean and rows else weight


class _Loss(torch.autograd.Function):
    """For plain tensors, which is the cheapest way, and for torch before 2.4."""

    @staticmethod
    def forward(ctx: Any, features: Tensor, labels: Tensor, *options: Any) -> Tensor:
        value, direction = _run(features, labels, *options)
        ctx.scale, ctx.dtype = _scale(features, options[0], options[4]), features.dtype
        ctx.save_for_backward(direction)
        return value

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, upstream: Tensor) -> Tuple[Optional[Tensor], ...]:
        (direction,) = ctx.saved_tensors
        return (_pull_back(direction, upstream, ctx.scale, ctx.dtype),) + (None,) * 8


def _define_operator() -> Any:
    """ole::loss of torch.library, with its shapes and its derivative.

    torch keeps compiled graphs on disk by the names of their operators, with the backward pass in them: if the
    meaning of the direction ever changes, the operator needs another name.
    """
    operator = torch.library.custom_op("ole::loss", _run, mutates_args=(), schema=SCHEMA)

    def fake(features: Tensor, labels: Tensor, *options: Any) -> Tuple[Tensor, Tensor]:
        shape = tuple(features.shape) if options[-1] else (0,)
        direction = features.new_empty(shape, dtype=_direction_type(features))
        return features.new_empty((), dtype=value_type(features)), direction

    def setup(ctx: Any, inputs: Tuple[Any, ...], output: Tuple[Tensor, Tensor]) -> None:
        features, _, weight, _, _, _, mean = inputs[:7]
        ctx.scale, ctx.dtype = _scale(features, weight, mean), features.dtype
        ctx.save_for_backward(output[1])

    def backward(ctx: Any, upstream: Tensor, _: Optional[Tensor]) -> Tuple[Optional[Tensor], ...]:
        (direction,) = ctx.saved_tensors
        return (_pull_back(direction, upstream, ctx.scale, ctx.dtype),) + (None,) * 8

    operator.register_fake(fake)
    operator.register_autograd(backward, setup_context=setup)
    return torch.ops.ole.loss.default


_operator = _define_operator() if hasattr(torch.library, "custom_op") else None


def _is_plain(features: Tensor) -> bool:
    """Whether nobody traces what happens to the tensor; else only an operator will do."""
    return not (
        torch.compiler.is_compiling()
        or type(features) not in (Tensor, torch.nn.Parameter)
        or torch._C._len_torch_dispatch_stack()
    )


def loss_of(features: Tensor, labels: Tensor, *options: Any) -> Tensor:
    """The value, differentiable once; ``options`` are those of SCHEMA from weight to threads."""
    wanted = features.requires_grad and torch.is_grad_enabled()
    if _operator is None or _is_plain(features):
        value: Tensor = _Loss.apply(features, labels, *options, wanted)
    else:
        value = _operator(features, labels, *options, wanted)[0]
    return value
