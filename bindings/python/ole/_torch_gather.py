"""Gathers the features and labels of all ranks, for ``OLELoss(group=...)``.

Rows travel as bytes, features and label side by side, so that one collective of any backend carries
any type.  Short batches are padded with rows of label -1, which the loss ignores.  In the gathered
matrix a rank's own rows are its own tensor, so that autograd propagates the gradient to them and to
nothing else.
"""
from __future__ import annotations

from typing import Any, List, Optional, Tuple

import torch
import torch.distributed as dist
from torch import Tensor

from . import _library as native
from ._torch_op import TYPES, check_batch, integers

_LABEL_BYTES = 8
_REFUSED = -1  # sent instead of the row count by a rank with an invalid batch


def _agree(features: Tensor, problem: Optional[native.InputError], group: Any, own: int) -> int:
    """The largest number of rows on any rank.  Raises on every rank if one of them has an invalid batch."""
    mine = [_REFUSED, 0, 0] if problem else [features.size(0), features.size(1), TYPES[features.dtype]]
    device = features.device if isinstance(features, Tensor) else None
    sent = torch.tensor(mine, dtype=torch.int64, device=device)
    received = [torch.empty_like(sent) for _ in range(dist.get_world_size(group))]
    dist.all_gather(received, sent, group=group)
    all_of: List[List[int]] = torch.stack(received).tolist()
    if problem:
        raise problem
    for rank, (rows, width, dtype) in enumerate(all_of):
        if rows == _REFUSED:
            raise native.Error(f"rank {rank} of the group has an invalid batch; see its own error")
        if [width, dtype] != mine[1:]:
            names = {code: str(kind) for kind, code in TYPES.items()}
            raise native.InputError(
                f"rank {own} has {names[mine[2]]} features of width {mine[1]}, rank {rank} {names[dtype]} of width "
                f"{width}; use the same on all ranks"
            )
    return max(rows for rows, _, _ in all_of)


def _pack(features: Tensor, labels: Tensor, rows: int) -> Tensor:
    """[rows, bytes of a row and its label]; padding rows have label -1."""
    width = features.size(1) * features.element_size()
    packed = torch.full((rows, width + _LABEL_BYTES), 255, dtype=torch.uint8, device=features.device)
    mine = features.size(0)
    packed[:mine, :width] = features.detach().resolve_neg().contiguous().view(torch.uint8)
    packed[:mine, width:] = labels.to(torch.int64).view(-1, 1).view(torch.uint8)
    return packed


def _unpack(packed: Tensor, like: Tensor) -> Tuple[Tensor, Tensor]:
    width = like.size(1) * like.element_size()
    rows = packed.size(0)
    features, labels = like.new_empty((rows, like.size(1))), like.new_empty((rows, 1), dtype=torch.int64)
    features.view(torch.uint8).copy_(packed[:, :width])
    labels.view(torch.uint8).copy_(packed[:, width:])
    return features, labels.view(-1)


class _Multiply(torch.autograd.Function):
    """The identity, whose gradient is multiplied by a number."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, factor: float) -> Tensor:
        ctx.factor = factor
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tuple[Tensor, None]:
        return gradient * ctx.factor, None


def gather(
    features: Tensor, labels: Tensor, group: Any, averaged: bool, rows_per_rank: Optional[int]
) -> Tuple[Tensor, Tensor]:
    """Features and labels of all ranks, in rank order; this rank's part is differentiable."""
    if not dist.is_available() or not dist.is_initialized():
        raise native.Error("OLELoss(group=...): call torch.distributed.init_process_group() first")
    ranks, own = dist.get_world_size(group), dist.get_rank(group)
    if own < 0:
        raise native.Error("OLELoss(group=...): this process is not in the group; do not call the loss here")
    if rows_per_rank is None:
        problem = None
        try:
            check_batch(features, labels)
            labels = integers(labels)
        except native.InputError as found:
            problem = found
        rows = _agree(features, problem, group, own)
    else:
        check_batch(features, labels)
        rows, labels = rows_per_rank, integers(labels)
    mine = features.size(0)
    if mine > rows:
        raise native.InputError(f"rows_per_rank is {rows}, but rank {own} has a batch of {mine} rows")
    packed = _pack(features, labels, rows)
    received: List[Tensor] = [torch.empty_like(packed) for _ in range(ranks)]
    if rows:
        dist.all_gather(received, packed, group=group)
    parts = [_unpack(part, features) for part in received]
    local = _Multiply.apply(features, float(ranks)) if averaged else features
    missing = features.new_zeros((rows - mine, features.size(1)))
    parts[own] = (torch.cat([local, missing]), parts[own][1])
    return torch.cat([x for x, _ in parts]), torch.cat([y for _, y in parts])
