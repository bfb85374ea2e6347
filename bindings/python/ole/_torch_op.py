"""The loss in PyTorch: from tensors to plans, and the derivative.

ole.torch calls ``loss_of``.  Plain tensors take ``_Loss``, the cheapest path: a step is often bound by the
host, so every line of it counts (bench/bench_torch_step.py call).  Tracers such as torch.compile see two
operators of torch.library (torch 2.4 and later).  ``ole::unweighted_loss`` decomposes into ``_TracedLoss``,
arithmetic that the compiler fuses with its surroundings, around ``ole::evaluate``, an opaque library call.
The weight is multiplied outside, so that changing it does not recompile.  Every path ends in ``_evaluate`` or
``_queue``:

    forward    value = weight/N (class term - global norm), and the *direction*: the gradient.  For float16
               it is taken without the weight and, with the mean, times the number of rows: its entries
               then never exceed 2, so float16 can hold them.
    backward   direction * upstream, and for float16 * weight/rows; 16-bit types multiply in float32.

The library gets the tensors' addresses.  On a GPU everything is queued on the current stream and nothing
synchronises, so a row with NaN or Inf makes value and gradient NaN; on the CPU it raises, unless ``check``
is off.
"""
from __future__ import annotations

from typing import Any, Optional, Tuple

import torch
from torch import Tensor
from torch._C import _get_tracing_state as is_jit_traced
from torch.autograd import forward_ad
from torch.nn import Parameter

from . import _library as native
from ._plans import Addresses, Kind, Plan, bucket, plans
from ._arrays import too_large

TYPES = {
    torch.float16: native.F16,
    torch.bfloat16: native.BF16,
    torch.float32: native.F32,
    torch.float64: native.F64,
}
_NARROW = (torch.float16, torch.bfloat16)
_UINT64 = getattr(torch, "uint64", None)  # torch 2.3 and later
_unpack_dual: Any = forward_ad.unpack_dual  # untyped
_MAX_THREADS = 16  # by default; the loss of a batch gains nothing from more
_LARGEST = torch.finfo(torch.float32).max

_ARGUMENTS = (
    "(Tensor features, Tensor labels, float delta_floor, float delta_abs, float delta_rel, "
    "bool mean, int threads, bool check, bool want_gradient)"
)


def value_type(features: Tensor) -> torch.dtype:
    """The type of the loss: float64 for float64 features, otherwise float32."""
    return torch.float64 if features.dtype == torch.float64 else torch.float32


def check_batch(features: Tensor, labels: Tensor) -> None:
    """Raises unless features and labels form a valid batch."""
    if not isinstance(features, Tensor) or not isinstance(labels, Tensor):
        raise native.InputError(
            f"features and labels are {type(features).__name__} and {type(labels).__name__}; use tensors "
            "(ole.score takes NumPy arrays)"
        )
    if features.dim() != 2 or features.dtype not in TYPES or features.layout != torch.strided:
        raise native.InputError(
            f"features are {features.dtype} of shape {tuple(features.shape)}, {features.layout}; use 16-, 32- or 64-bit "
            "floats [N, D], one row per sample (flatten further dimensions)"
        )
    if labels.dim() != 1 or labels.size(0) != features.size(0):
        raise native.InputError(
            f"labels have shape {tuple(labels.shape)}; {features.size(0)} rows of features need "
            f"({features.size(0)},)"
        )
    if labels.is_floating_point() or labels.is_complex():
        raise native.InputError(f"labels are {labels.dtype}; use integers, the class index of each row")
    if not (features.is_cuda or features.is_cpu or (features.device.type == "mps" and native.is_pure())):
        raise native.InputError(f"features are on {features.device}; the loss runs on cpu and cuda")
    if labels.device != features.device:
        raise native.InputError(
            f"labels are on {labels.device}, features on {features.device}; move both to the same device"
        )


# ---- Evaluating -----------------------------------------------------------------------------------


def _in_rows(x: Tensor) -> Tensor:
    """A tensor that the library can read, with contiguous rows and no lazy negation; not copied if it is one."""
    x = x.resolve_neg()
    if x.is_contiguous():
        return x
    along, across = x.stride()
    return x if across == 1 and along >= x.size(1) else x.contiguous()


def integers(labels: Tensor) -> Tensor:
    """The labels as contiguous int32 or int64."""
    if labels.dtype not in (torch.int64, torch.int32):
        given, labels = labels, labels.to(torch.int64)
        # Not on a GPU, where checking would synchronise: such rows are ignored there.
        if given.dtype == _UINT64 and not given.is_cuda and bool((labels < 0).any()):
            at = int((labels < 0).nonzero()[0])
            raise too_large(at, 2**64 + int(labels[at]))
    return labels.contiguous()


def _room(x: Tensor, want_gradient: bool) -> Tensor:
    """A contiguous tensor for the direction; empty unless the gradient is needed."""
    return torch.empty_like(x) if want_gradient else x.new_empty(0)


def _addresses(x: Tensor, y: Tensor, direction: Tensor, want_gradient: bool) -> Addresses:
    label_type = native.I64 if y.dtype == torch.int64 else native.I32
    gradient = direction.data_ptr() if want_gradient else 0
    stride = x.stride(0) if x.size(0) > 1 else 0  # a single row may have any stride
    return x.size(0), x.data_ptr(), stride, y.data_ptr(), label_type, gradient


def _upstream(features: Tensor, weight: float, mean: bool) -> float:
    """The factor the library applies to the gradient; plans have weight 1."""
    if features.dtype != torch.float16:
        return weight
    return float(features.size(0)) if mean else 1.0


def _evaluate(
    features: Tensor,
    labels: Tensor,
    weight: float,
    delta_floor: float,
    delta_abs: float,
    delta_rel: float,
    mean: bool,
    threads: int,
    check: bool,
    want_gradient: bool,
) -> Tuple[float, Tensor]:
    """On the CPU: the value without weight, and the direction (float32 for narrow features)."""
    x = _in_rows(features.float() if features.dtype in _NARROW else features)
    y, direction = integers(labels), _room(x, want_gradient)
    rows, dim = x.shape
    if rows == 0 or dim == 0:
        return 0.0, direction
    threads = threads or min(torch.get_num_threads(), _MAX_THREADS)
    kind = Kind(bucket(rows), dim, TYPES[x.dtype], mean, delta_floor, delta_abs, delta_rel, threads)
    plan = plans.take(kind)
    try:
        status = plan.evaluate(_addresses(x, y, direction, want_gradient), _upstream(features, weight, mean))
        if status == native.OK:
            return plan.result.value, direction
        if status == native.ARGUMENT and not bool((y >= 0).any()):
            return 0.0, direction.zero_()  # every row is ignored
        if status in (native.DATA, native.NUMERIC) and not check:
            return float("nan"), direction.fill_(float("nan"))
        raise plan.failure()
    finally:
        plans.give(kind, plan)


def _capturing(gpu: int) -> bool:
    """Whether the GPU's current stream is being captured into a CUDA graph."""
    if gpu == torch.cuda.current_device():
        return torch.cuda.is_current_stream_capturing()
    with torch.cuda.device(gpu):
        return torch.cuda.is_current_stream_capturing()


def _queue(
    features: Tensor,
    labels: Tensor,
    weight: float,
    delta_floor: float,
    delta_abs: float,
    delta_rel: float,
    mean: bool,
    threads: int,
    check: bool,
    want_gradient: bool,
) -> Tuple[Tensor, Tensor]:
    """On a GPU: queues the evaluation. Returns the future outcome, whose first word is the value without
    weight, and the direction in the type of the features."""
    if native.is_pure():
        number, direction = _evaluate_plain(features, labels, weight, delta_floor, delta_abs, delta_rel, mean)
        return features.new_full((native.OUTCOME_WORDS,), number, dtype=torch.float64), direction
    x, y = _in_rows(features), integers(labels)
    direction, outcome = _room(x, want_gradient), x.new_empty(native.OUTCOME_WORDS, dtype=torch.float64)
    rows, dim = x.shape
    if rows == 0 or dim == 0:
        return outcome.zero_(), direction
    gpu = x.get_device()
    stream = torch._C._cuda_getCurrentRawStream(gpu)
    kind = Kind(bucket(rows), dim, TYPES[x.dtype], mean, delta_floor, delta_abs, delta_rel, 1, gpu, stream)
    # A captured graph keeps using the plan's memory, so such a plan is never lent again.
    captured = _capturing(gpu)
    plan = Plan(kind) if captured else plans.take(kind)
    try:
        addresses = _addresses(x, y, direction, want_gradient)
        plan.queue(addresses, _upstream(features, weight, mean), outcome.data_ptr(), stream)
    finally:
        if captured:
            plans.keep(plan)
        else:
            plans.give(kind, plan)
    return outcome, direction


def _evaluate_plain(
    features: Tensor, labels: Tensor, weight: float, delta_floor: float, delta_abs: float, delta_rel: float, mean: bool
) -> Tuple[float, Tensor]:
    """On a GPU without the native library: the value without weight, and the direction in the type of the features."""
    from . import _pure_torch

    upstream = _upstream(features, weight, mean)
    number, direction = _pure_torch.evaluate(features, labels, upstream, delta_floor, delta_abs, delta_rel, mean)
    return number, direction.to(features.dtype).to(features.device)


def _run(features: Tensor, labels: Tensor, weight: float, *options: Any) -> Tuple[Tensor, Tensor]:
    """Value and direction. Neither is a view, so both may be modified in place."""
    if features.is_cuda:
        outcome, direction = _queue(features, labels, weight, *options)
        value = features.new_empty((), dtype=value_type(features))
        return torch.mul(outcome[0], weight, out=value), direction
    if features.is_cpu:
        number, direction = _evaluate(features, labels, weight, *options)
    else:  # a Mac's GPU
        number, direction = _evaluate_plain(features, labels, weight, *options[:4])
    number *= weight
    if abs(number) > _LARGEST and direction.dtype == torch.float32:
        number *= float("inf")  # as on a GPU; torch would raise
    return direction.new_full((), number, dtype=value_type(features)), direction


# ---- The derivative -------------------------------------------------------------------------------


def _remember(ctx: Any, features: Tensor, weight: float, mean: bool) -> None:
    """Stores what backward needs: the type of the features, and the missing factor of a float16 direction."""
    ctx.dtype = features.dtype
    if ctx.dtype == torch.float16:
        rows = features.size(0)
        ctx.scale = weight / rows if mean and rows else weight


def _pull_back(ctx: Any, upstream: Tensor) -> Tensor:
    """The gradient. On a GPU this is one kernel, or two for float16, whose upstream needs scaling."""
    direction: Tensor
    (direction,) = ctx.saved_tensors
    if ctx.dtype not in _NARROW:
        return direction * upstream
    if ctx.dtype == torch.float16:
        upstream = upstream * ctx.scale
    if not direction.is_cuda:  # float32, in a form that supports is_grads_batched
        return (direction * upstream).to(ctx.dtype)
    # A tensor with a dimension takes part in type promotion; a scalar would be rounded to 16 bits first.
    return torch.mul(direction, upstream.reshape(1), out=torch.empty_like(direction, dtype=ctx.dtype))


def _product(ctx: Any, direction: Tensor, upstream: Tensor) -> Tensor:
    """The same with operators that can be traced and recorded."""
    if ctx.dtype == torch.float16:
        upstream = upstream * ctx.scale
    return (direction.to(upstream.dtype) * upstream).to(ctx.dtype)


def _refuse_second(ctx: Any, *grad_outputs: Any) -> Any:
    raise native.Error(
        "OLE can be differentiated once, and its gradient is being differentiated; exclude OLE from the loss "
        "whose second derivative you need, or detach it there"
    )


class _Once(torch.autograd.Function):
    """The gradient in a backward pass that is itself recorded (create_graph); differentiating it raises.
    ``anchor`` is the features: it puts this node on the path of everything that depends on them.

    torch's once_differentiable stays silent if the upstream gradient is a constant, as in
    torch.autograd.grad(loss, ..., create_graph=True): OLE's part would be missing from the result.
    """

    @staticmethod
    def forward(ctx: Any, gradient: Tensor, anchor: Tensor) -> Tensor:
        return gradient.view_as(gradient)

    backward = staticmethod(_refuse_second)


class _TracedOnce(torch.autograd.Function):
    """The same, in the form that torch.func requires."""

    generate_vmap_rule = True

    @staticmethod
    def forward(gradient: Tensor, anchor: Tensor) -> Tensor:
        return gradient.clone()

    @staticmethod
    def setup_context(ctx: Any, inputs: Tuple[Any, ...], output: Tensor) -> None:
        pass

    backward = staticmethod(_refuse_second)


class _Loss(torch.autograd.Function):
    """For plain tensors."""

    @staticmethod
    def forward(ctx: Any, features: Tensor, labels: Tensor, weight: float, options: Tuple[Any, ...]) -> Tensor:
        value, direction = _run(features, labels, weight, *options, True)
        _remember(ctx, features, weight, options[3])
        ctx.save_for_backward(direction)
        ctx.anchor = features  # not saved, so that it may be modified in place
        return value

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> Tuple[Optional[Tensor], ...]:
        if not torch.is_grad_enabled():
            return _pull_back(ctx, upstream), None, None, None
        (direction,) = ctx.saved_tensors
        return _product(ctx, _Once.apply(direction, ctx.anchor), upstream), None, None, None


def _slices(tensor: Tensor, dim: Optional[int], count: int) -> Tuple[Tensor, ...]:
    """The slices of a tensor that vmap batched along ``dim``, or the same tensor ``count`` times if it did not."""
    return (tensor,) * count if dim is None else tensor.unbind(dim)


class _TracedLoss(torch.autograd.Function):
    """For tracers: nothing but operators, so that a compiler can fuse casts and products.  Returns value and
    direction, because torch.func requires what backward needs to be an output."""

    @staticmethod
    def forward(features: Tensor, labels: Tensor, *options: Any) -> Tuple[Tensor, Tensor]:
        outcome, direction = torch.ops.ole.evaluate(features, labels, *options)
        return outcome[0].to(value_type(features)), direction

    @staticmethod
    def setup_context(ctx: Any, inputs: Tuple[Any, ...], output: Tuple[Tensor, Tensor]) -> None:
        ctx.mark_non_differentiable(output[1])
        ctx.set_materialize_grads(False)
        _remember(ctx, inputs[0], 1.0, inputs[5])
        ctx.save_for_backward(output[1], inputs[0])

    @staticmethod
    def vmap(info: Any, in_dims: Tuple[Any, ...], features: Tensor, labels: Tensor, *options: Any) -> Any:
        """One batch after the other.  torch would loop over ole::evaluate too, but warn that this is slow; in
        torch 2.6 that warning turns the exception for an invalid batch into a SystemError."""
        each = (_slices(tensor, dim, info.batch_size) for tensor, dim in zip((features, labels), in_dims))
        values, directions = zip(*(_TracedLoss.apply(x, y, *options) for x, y in zip(*each)))
        return (torch.stack(values), torch.stack(directions)), (0, 0)

    @staticmethod
    def backward(ctx: Any, upstream: Optional[Tensor], _: None) -> Tuple[Optional[Tensor], ...]:
        if upstream is None:
            return (None,) * len(ctx.needs_input_grad)
        direction, features = ctx.saved_tensors
        gradient = _product(ctx, direction, upstream)
        if torch.is_grad_enabled():
            gradient = _TracedOnce.apply(gradient, features)
        return (gradient,) + (None,) * (len(ctx.needs_input_grad) - 1)


# ---- The operators --------------------------------------------------------------------------------


def _define_operators() -> Tuple[Any, Any]:
    """Defines ole::evaluate and, on top of it, ole::unweighted_loss; returns their library and the latter.

    torch caches compiled graphs on disk by operator name, backward pass included: if the meaning of outcome or
    direction ever changes, the operators need new names.
    """
    make: Any = torch.library.Library  # untyped
    library = make("ole", "FRAGMENT")
    tags = (torch.Tag.pt2_compliant_tag,)
    library.define(f"evaluate{_ARGUMENTS} -> (Tensor, Tensor)", tags=tags)
    library.define(f"unweighted_loss{_ARGUMENTS} -> Tensor", tags=tags)

    def on_cpu(features: Tensor, labels: Tensor, *options: Any) -> Tuple[Tensor, Tensor]:
        number, direction = _evaluate(features, labels, 1.0, *options)
        return direction.new_full((1,), number, dtype=torch.float64), direction

    def on_gpu(features: Tensor, labels: Tensor, *options: Any) -> Tuple[Tensor, Tensor]:
        return _queue(features, labels, 1.0, *options)

    def fake(features: Tensor, labels: Tensor, *options: Any) -> Tuple[Tensor, Tensor]:
        on_cpu = features.device.type == "cpu"
        outcome = features.new_empty((1 if on_cpu else native.OUTCOME_WORDS,), dtype=torch.float64)
        shape = tuple(features.shape) if options[-1] else (0,)
        return outcome, features.new_empty(shape, dtype=value_type(features) if on_cpu else features.dtype)

    library.impl("evaluate", on_cpu, "CPU")
    library.impl("evaluate", on_gpu, "CUDA")
    torch.library.register_fake("ole::evaluate", fake, lib=library)
    library.impl("unweighted_loss", lambda *inputs: _TracedLoss.apply(*inputs)[0], "CompositeImplicitAutograd")
    return library, torch.ops.ole.unweighted_loss.default


_operators: Any = None
if hasattr(torch.library, "custom_op"):
    from torch._C import _len_torch_dispatch_stack as tracers
    from torch._C._functorch import is_functorch_wrapped_tensor as is_wrapped
    from torch.compiler import is_compiling

    _operators, _unweighted_loss = _define_operators()


def _is_traced(features: Tensor) -> bool:
    """Whether the tensor is being traced, so that the loss must be an operator."""
    kind = type(features)
    if is_compiling() or (kind is not Tensor and kind is not Parameter) or tracers() > 0:
        return True
    return is_jit_traced() is not None


def _refuse_unseen(features: Tensor) -> None:
    """Raises if the loss is differentiated or traced in a way that would miss it."""
    if forward_ad._current_level >= 0 and _unpack_dual(features).tangent is not None:
        raise native.Error("OLE has no forward-mode derivative; use reverse mode")
    if _operators is None and is_jit_traced() is not None:
        raise native.Error("torch.jit.trace supports OLE from torch 2.4 on; train without tracing")


def loss_of(features: Tensor, labels: Tensor, weight: float, *options: Any) -> Tensor:
    """The value, differentiable once; ``options`` are delta_floor, delta_abs, delta_rel, mean, threads, check."""
    wanted = features.requires_grad and torch.is_grad_enabled()
    if _operators is not None:
        if _is_traced(features):
            return _unweighted_loss(features, labels, *options, wanted) * weight
        if is_wrapped(features) or is_wrapped(labels):  # by torch.func, which cannot see into operators
            return _TracedLoss.apply(features, labels, *options, True)[0] * weight
    _refuse_unseen(features)
    if wanted:
        return _Loss.apply(features, labels, weight, options)
    return _run(features, labels, weight, *options, False)[0]
