"""The OLÉ loss in PyTorch.

    from ole.torch import OLELoss

    criterion = OLELoss(weight=0.25)
    loss = cross_entropy(logits, labels) + criterion(features, labels)

``features`` [N, D] are what the last linear layer reads, ``labels`` [N] integers (below 0: ignored).
Any floating type, on the CPU or a CUDA GPU: read where they lie, evaluated on the current stream
without waiting for the GPU.  The loss is float32 (float64 of float64 features); the gradient has the
features' type.  Works under autocast, in torch.compile without a graph break and in CUDA graphs
(torch 2.4 and later).  Over several processes: ``OLELoss(group=...)``.
"""
from __future__ import annotations

from typing import Any, Optional, Tuple, Union

import torch
from torch import Tensor

from . import _library as native
from ._score import check_not_negative, kind_options, relative_cut, thread_count
from ._torch_op import check_batch, loss_of

__all__ = ["OLELoss", "ole_loss"]


def _options_of(reduction: str, weight: float) -> Tuple[bool, float]:
    if isinstance(weight, Tensor) and weight.requires_grad:
        raise native.InputError("weight wants a gradient, and would get none: multiply the loss by it instead")
    return kind_options(reduction, weight)


def ole_loss(
    features: Tensor,
    labels: Tensor,
    weight: float = 1.0,
    *,
    delta_floor: float = 1.0,
    delta_abs: float = 1e-6,
    delta_rel: Optional[float] = None,
    reduction: str = "mean",
    threads: Optional[int] = None,
    check: bool = True,
) -> Tensor:
    """The OLÉ loss of a batch, a tensor of no dimensions.

    ``weight`` is λ.  ``delta_floor`` is the floor under each class's norm; ``delta_abs`` and
    ``delta_rel`` say from which size on a singular value counts (``None``: 64 eps of the largest).
    ``reduction`` "mean" divides by the rows that are not ignored, "sum" does not.  ``threads`` of the
    CPU, by default torch's.  A batch without rows or columns, or with all rows ignored, gives 0 and a
    zero gradient.

    NaN or Inf in a row that is not ignored raise ``ole.InputError``, which names the row.  On a GPU,
    which is not waited for, they make value and gradient NaN, and with ``check=False`` on the CPU too:
    for loops that look for NaN themselves and skip the step, as torch.amp.GradScaler does.

    The loss can be differentiated once, backwards: what would differentiate its gradient is told so.
    """
    check_batch(features, labels)
    mean, weight = _options_of(reduction, weight)
    return loss_of(
        features,
        labels,
        weight,
        float(delta_floor),
        float(delta_abs),
        relative_cut(delta_rel),
        mean,
        thread_count(threads),
        bool(check),
    )


class OLELoss(torch.nn.Module):
    """The OLÉ loss as a module: ``OLELoss(weight=0.25)(features, labels)``.

    Options are those of ``ole_loss``; ``weight`` may be changed between steps.  The signature is that
    of pytorch-metric-learning, ``loss(embeddings, labels)``.

    ``group`` is a torch.distributed process group, or "world": features and labels are gathered, and
    the loss is that of the batches of all ranks together.  Every rank gets the same value and, exactly,
    the gradient of it with respect to its own features; batches may differ in size.

    DistributedDataParallel *averages* gradients over the ranks, which is right for a loss that is a
    mean of local means, but makes the gradient of this one, whose parts add up, too small by the number
    of ranks: set ``averaged=True`` and the gradients come multiplied by it (the value stays).

    Ranks first tell each other the shape and type of their batches, which waits for the GPU where there is one,
    and all raise where one's does not fit.  Where no batch has more than ``rows_per_rank`` rows, saying so
    spares that; a rank whose features have another width or type then fails inside the collective.
    """

    def __init__(
        self,
        weight: float = 1.0,
        *,
        delta_floor: float = 1.0,
        delta_abs: float = 1e-6,
        delta_rel: Optional[float] = None,
        reduction: str = "mean",
        threads: Optional[int] = None,
        check: bool = True,
        group: Union[Any, str, None] = None,
        averaged: bool = False,
        rows_per_rank: Optional[int] = None,
    ) -> None:
        super().__init__()
        _options_of(reduction, weight)
        check_not_negative("delta_floor", delta_floor)
        check_not_negative("delta_abs", delta_abs)
        relative_cut(delta_rel)
        thread_count(threads)
        if isinstance(group, str) and group != "world":
            raise native.InputError(f'group is {group!r}: give a process group of torch.distributed, or "world"')
        self.weight = weight
        self.delta_floor = delta_floor
        self.delta_abs = delta_abs
        self.delta_rel = delta_rel
        self.reduction = reduction
        self.threads = threads
        self.check = check
        self.group = group
        self.averaged = averaged
        self.rows_per_rank = rows_per_rank

    def forward(
        self,
        features: Tensor,
        labels: Tensor,
        indices_tuple: None = None,
        ref_emb: None = None,
        ref_labels: None = None,
    ) -> Tensor:
        """The loss of the batch, or with ``group`` of all ranks' batches."""
        if indices_tuple is not None or ref_emb is not None or ref_labels is not None:
            raise native.InputError(
                "OLE compares a batch's classes as wholes: it takes no pairs of a miner and no reference "
                "embeddings"
            )
        if self.group is not None:
            from ._torch_gather import gather

            features, labels = gather(
                features,
                labels,
                None if isinstance(self.group, str) else self.group,
                self.averaged,
                self.rows_per_rank,
            )
        return ole_loss(
            features,
            labels,
            self.weight,
            delta_floor=self.delta_floor,
            delta_abs=self.delta_abs,
            delta_rel=self.delta_rel,
            reduction=self.reduction,
            threads=self.threads,
            check=self.check,
        )

    def extra_repr(self) -> str:
        shown = [f"weight={self.weight:g}"]
        usual = {"delta_floor": 1.0, "delta_abs": 1e-6, "delta_rel": None, "reduction": "mean", "threads": None,
                 "check": True, "group": None, "averaged": False, "rows_per_rank": None}
        shown += [f"{name}={getattr(self, name)}" for name in usual if getattr(self, name) != usual[name]]
        return ", ".join(shown)
