"""The OLÉ loss in PyTorch.

    from ole.torch import OLELoss

    criterion = OLELoss(weight=0.25)
    loss = cross_entropy(logits, labels) + criterion(features, labels)

``features`` [N, D] are the inputs of the last linear layer, ``labels`` [N] integers (negative: ignored).
Features may have any floating type and be on the CPU or a CUDA GPU; they are read in place and evaluated
on the current stream without synchronising.  The loss is float32 (float64 for float64 features), and the
gradient has the type of the features.  Works with autocast, torch.compile (without a graph break) and
CUDA graphs (torch 2.4 and later).  On multiple ranks use ``OLELoss(group=...)``.
"""
from __future__ import annotations

from typing import Any, Optional, Tuple, Union

import torch
from torch import Tensor

from . import _library as native
from ._arrays import thread_count
from ._score import check_not_negative, kind_options, relative_cut
from ._torch_op import check_batch, loss_of
from ._torch_sampler import BalancedBatchSampler

__all__ = ["BalancedBatchSampler", "OLELoss", "ole_loss"]


def _options_of(reduction: str, weight: float) -> Tuple[bool, float]:
    if isinstance(weight, Tensor) and weight.requires_grad:
        raise native.InputError("weight requires a gradient but would get none; multiply the loss by it instead")
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
    """The OLÉ loss of a batch, a scalar tensor.

    ``weight`` is λ.  ``delta_floor`` is the lower bound of each class's norm.  A singular value counts
    if it exceeds ``delta_abs`` and ``delta_rel`` times the largest one (``None``: 64 times the machine
    epsilon).  ``reduction`` "mean" divides by the number of rows that are not ignored, "sum" does not.
    ``threads`` is the number of CPU threads (default: torch's).  A batch without rows or columns, or
    with all rows ignored, gives 0 and a zero gradient.

    NaN or Inf in a row that is not ignored raises ``ole.InputError``, which names the row.  On a GPU,
    where checking would synchronise, value and gradient become NaN instead.  ``check=False`` gives NaN
    on the CPU too, for loops that detect NaN themselves and skip the step, as torch.amp.GradScaler does.

    The loss has a first derivative, in reverse mode only; differentiating its gradient raises an error.

    >>> import torch
    >>> from ole.torch import ole_loss
    >>> features = torch.tensor([[2.0, 1, 0], [3, 1, 0], [1, 0, 2], [1, 0, 3]])
    >>> round(float(ole_loss(features, torch.tensor([0, 0, 1, 1]))), 4)
    0.087
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

    The options are those of ``ole_loss``; ``weight`` may change between steps.  The signature matches
    pytorch-metric-learning: ``loss(embeddings, labels)``.

    ``group`` is a torch.distributed process group, or "world".  The loss is then that of the batches of
    all ranks together: features and labels are gathered, and every rank gets the same value and the exact
    gradient with respect to its own features.  Batches may differ in size.

    DistributedDataParallel *averages* gradients over the ranks.  That suits a loss that is a mean of
    local means; the parts of this gradient add up, so averaging makes it too small by the number of
    ranks.  ``averaged=True`` multiplies the gradients by that number (the value stays).

    Ranks first exchange the shape and type of their batches, which synchronises the GPU, and all of them
    raise if one batch does not fit.  To skip that step, pass ``rows_per_rank``, an upper bound of the
    batch size; a rank with another width or type then fails inside the collective.

    >>> import torch
    >>> from ole.torch import OLELoss
    >>> features = torch.tensor([[2.0, 1, 0], [3, 1, 0], [1, 0, 2], [1, 0, 3]], requires_grad=True)
    >>> loss = OLELoss(weight=0.25)(features, torch.tensor([0, 0, 1, 1]))
    >>> loss.backward()
    >>> features.grad.shape
    torch.Size([4, 3])
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
            raise native.InputError(f'group is {group!r}; use a torch.distributed process group or "world"')
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
        """The loss of the batch or, with ``group``, of the batches of all ranks.

        >>> import torch
        >>> from ole.torch import OLELoss
        >>> features = torch.tensor([[2.0, 1, 0], [3, 1, 0], [1, 0, 2], [1, 0, 3]])
        >>> round(float(OLELoss(weight=0.25)(features, torch.tensor([0, 0, 1, 1]))), 4)
        0.0217
        """
        if indices_tuple is not None or ref_emb is not None or ref_labels is not None:
            raise native.InputError(
                "OLE compares whole classes of a batch: indices_tuple, ref_emb and ref_labels are not supported"
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
        """The weight and the options that differ from their defaults, for ``print``.

        >>> from ole.torch import OLELoss
        >>> OLELoss(weight=0.25, reduction="sum")
        OLELoss(weight=0.25, reduction=sum)
        """
        shown = [f"weight={self.weight:g}"]
        usual = {"delta_floor": 1.0, "delta_abs": 1e-6, "delta_rel": None, "reduction": "mean", "threads": None,
                 "check": True, "group": None, "averaged": False, "rows_per_rank": None}
        shown += [f"{name}={getattr(self, name)}" for name in usual if getattr(self, name) != usual[name]]
        return ", ".join(shown)
