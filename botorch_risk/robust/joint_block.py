r"""Points that are sampled before all others, and the process given their values."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from linear_operator.utils.cholesky import psd_safe_cholesky
from torch import Tensor

from botorch_risk.posterior.cache import is_same_tensor
from botorch_risk.posterior.process import ConditionedProcess, PriorProcess


@dataclass(frozen=True)
class Block:
    r"""Points that are sampled before all others, and what follows from them.

    Attributes:
        points: `N x d`, `N` may be 0.
        process: The prior.
        inputs: `1 x (n + r) x d`, the data and the `r` points that determine the rest, in the space
            of the kernel.
        factor: `1 x (n + r) x (n + r)`, which whitens the correlations with them.
        residuals: `1 x n`, the whitened data; the values of the `r` points are samples.
        mean: `N` posterior means.
        root: `N x r`, so that `mean + root @ e` is a sample.
        active: The `r` points.
    """

    points: Tensor
    process: PriorProcess
    inputs: Tensor
    factor: Tensor
    residuals: Tensor
    mean: Tensor
    root: Tensor
    active: Tensor
    _drawn: list[tuple[Tensor, int, Tensor]] = field(default_factory=list, compare=False)

    @torch.no_grad()
    def samples(self, base: Tensor) -> Tensor:
        r"""Samples made of normal numbers; the same tensor if these are the same as before.

        Of `base: sample_shape x ... x at least N` the first `N` count.
        """
        own = base[..., : len(self.points)]
        if own.is_inference():  # such a tensor does not tell whether it was written to
            return self.mean + own[..., self.active] @ self.root.mT
        for drawn, version, values in self._drawn:
            if is_same_tensor(drawn, own) and drawn._version == version:
                return values
        values = self.mean + own[..., self.active] @ self.root.mT
        self._drawn[:] = [(own, own._version, values)]
        return values

    @classmethod
    @torch.no_grad()
    def of(cls, data: ConditionedProcess, points: Tensor) -> Block:
        r"""Condition on points, `N x d`."""
        at = data.at(points)
        mean, whitened = at.mean[0], at.whitened[0]  # N, n x N
        if not len(points):
            none = mean.new_empty(0).long()
            root = mean.new_empty(0, 0)
            parts = (data.process, data.inputs, data.factor, data.residuals)
            return cls(points, *parts, mean, root, none)
        covariance = data.covariance(at, at)[0]
        variance = at.prior.variance[0]
        active = determining_points(covariance, jitter_of(variance) * variance.mean())
        factor = safe_root(covariance[active][:, active], variance.mean())
        # The rows of the inverse factor of the data and of these points.
        scale = at.prior.scale[0, active]
        own = torch.cat([-whitened[:, active].mT @ data.factor[0], scale.diag()], dim=-1)
        rows = torch.linalg.solve_triangular(factor, own, upper=False)
        wide = torch.nn.functional.pad(data.factor[0], (0, len(active)))
        inputs = at.prior.take(active.unsqueeze(0)).inputs
        factor_of_all = torch.cat([wide, rows], dim=-2).unsqueeze(0)
        inputs = torch.cat([data.inputs, inputs], dim=-2)
        root = torch.linalg.solve_triangular(factor, covariance[active], upper=False).mT
        return cls(points, data.process, inputs, factor_of_all, data.residuals, mean, root, active)


def determining_points(covariance: Tensor, tolerance: Tensor) -> Tensor:
    r"""Indices of points that determine all others, by a pivoted Cholesky factor of `N x N`.

    `tolerance` is the largest variance that may be left of any other point.
    """
    left = covariance.diagonal().clone()
    factor = covariance.new_empty(len(left), 0)
    chosen: list[int] = []
    while len(chosen) < len(left):
        largest, index = left.max(dim=0)
        if not largest > tolerance:
            break
        column = covariance[:, index] - factor @ factor[index]
        column = column / largest.sqrt()
        factor = torch.cat([factor, column.unsqueeze(-1)], dim=-1)
        left = left - column.square()
        left[index] = 0.0
        chosen.append(int(index))
    return torch.tensor(sorted(chosen), device=covariance.device, dtype=torch.long)


def jitter_of(like: Tensor) -> float:
    r"""The relative variance below which a point is determined by others, to rounding."""
    return 1e-8 if like.dtype == torch.float64 else 1e-5


def safe_root(covariance: Tensor, scale: Tensor) -> Tensor:
    r"""Cholesky factors `batch_shape x Q x Q`; with a jitter only for entries that need it.

    The jitter is relative to `scale`, the prior variance.
    """
    jitter = jitter_of(covariance) * scale
    factor, info = torch.linalg.cholesky_ex(covariance)
    smallest = factor.detach().diagonal(dim1=-2, dim2=-1).square().amin(dim=-1)
    weak = (info > 0) | ~(smallest >= jitter)
    if not weak.any():
        return factor
    identity = torch.eye(covariance.shape[-1]).to(covariance)
    root: Tensor = psd_safe_cholesky(covariance + (weak * jitter)[..., None, None] * identity)
    return root
