"""The loss in plain PyTorch, for tensors on a GPU where there is no native library.

Singular values come from torch.linalg.svd in float64, on a CUDA GPU where the tensors are, elsewhere (a Mac's GPU has
no float64) on the CPU.  Tensors on the CPU take ``_pure``, NumPy's version.  Waits for the GPU, as decompositions do.
"""
from __future__ import annotations

from typing import Any, Tuple

import torch
from torch import Tensor

from . import _library as native


def _decompose(rows: Tensor, absolute: float, relative: float) -> Tuple[Tensor, Tensor]:
    """Nuclear norm, and polar factor over the singular values that count."""
    u, sigma, vt = torch.linalg.svd(rows, full_matrices=False)
    counted = sigma > torch.clamp(relative * sigma[0], min=absolute)
    return sigma.sum(), u[:, counted] @ vt[counted]


def evaluate(
    features: Tensor,
    labels: Tensor,
    upstream: float,
    delta_floor: float,
    delta_abs: float,
    delta_rel: float,
    mean: bool,
) -> Tuple[float, Tensor]:
    """The value without weight, and the gradient times ``upstream``, in float64 on the features' device or the CPU.
    A row with NaN or Inf makes both NaN."""
    eps: Any = torch.finfo(torch.float64 if features.dtype == torch.float64 else torch.float32).eps
    relative = delta_rel if delta_rel != native.AUTO else 64 * eps
    x = features.detach()
    x = (x if x.is_cuda else x.cpu()).double()
    y = labels.to(x.device)
    direction = torch.zeros_like(x)
    used = y >= 0
    if x.numel() == 0 or not bool(used.any()):
        return 0.0, direction
    rows, names = x[used], y[used]
    if not bool(torch.isfinite(rows).all()):
        return float("nan"), direction.fill_(float("nan"))
    norm, polar = _decompose(rows, delta_abs, relative)
    value, of_rows = -norm, -polar
    for label in torch.unique(names):
        members = names == label
        norm, polar = _decompose(rows[members], delta_abs, relative)
        value = value + norm.clamp(min=delta_floor)
        of_rows[members] += polar * (norm > delta_floor)
    scale = 1.0 / len(rows) if mean else 1.0
    direction[used] = scale * upstream * of_rows
    return scale * float(value), direction
