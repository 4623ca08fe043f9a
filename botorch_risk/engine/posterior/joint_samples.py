r"""Joint posterior samples of an exact GP that samples its evaluated points once.

A noisy acquisition function samples its candidates jointly with the evaluated points, `n_b n_w`
points if each has `n_w` values of the environment. Sampled block by block,

    f(B) = mean(B) + L_B e_B,   f(P) = mean(P) + A e_B + L_P e_P,   A = cov(P, B) L_B^-T,
    L_P L_P' = cov(P, P) - A A'

the block B of the evaluated points is the same for every candidate P and every step. Conditioning
on its sample is conditioning on data without noise, so that one factor of the observations and of
B gives A. For a smooth kernel a few points of B determine the others, up to a variance of 1e-8
times the prior variance, and only these few are sampled.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from botorch_risk.engine.posterior.cache import is_same_tensor
from botorch_risk.engine.posterior.process import PriorPoints, PriorProcess, Process
from botorch_risk.matrices import jitter_of, safe_root

if TYPE_CHECKING:
    from botorch_risk.engine.posterior.belief import Belief


@dataclass(frozen=True)
class Block:
    r"""Points that are sampled before all others, with their factors.

    Attributes:
        points: `N x d`, `N` may be 0.
        prior: The GP before its data.
        inputs: `1 x (n + r) x d`, the data and the `r` points that determine the rest, in the space
            of the kernel.
        factor: `1 x (n + r) x (n + r)`, which whitens the correlations with them.
        residuals: `1 x n`, the whitened data; the values of the `r` points are samples.
        mean: `N` posterior means.
        root: `N x r`, so that `mean + root @ e` is a sample.
        active: The `r` points.
    """

    points: Tensor
    prior: PriorProcess
    inputs: Tensor
    factor: Tensor
    residuals: Tensor
    mean: Tensor
    root: Tensor
    active: Tensor
    _drawn: list[tuple[Tensor, int, Tensor]] = field(default_factory=list, compare=False)

    @torch.no_grad()
    def samples(self, base: Tensor) -> Tensor:
        r"""Samples made of normal numbers; the same tensor if the numbers are the same as before.

        Only the first `N` columns of `base: sample_shape x ... x at least N` are used.
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
    def of(cls, data: Process, points: Tensor) -> Block:
        r"""Condition on points, `N x d`."""
        at = data.at(points)
        mean, whitened = at.mean[0], at.whitened[0]  # N, n x N
        if not len(points):
            none = mean.new_empty(0).long()
            root = mean.new_empty(0, 0)
            parts = (data.prior, data.inputs, data.factor, data.residuals)
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
        return cls(points, data.prior, inputs, factor_of_all, data.residuals, mean, root, active)

    def given(self, X: Tensor) -> tuple[Tensor, Tensor]:
        r"""The joint distribution of further points given the block.

        Args:
            X: `batch_shape x Q x d`; `b` entries in all.

        Returns:
            Means `b x Q`, and the rows of the joint Cholesky factor that belong to these points,
            `b x Q x (r + Q)`.
        """
        with torch.set_grad_enabled(X.requires_grad and torch.is_grad_enabled()):
            prior = self.prior.points(X.reshape(-1, X.shape[-1]))
            correlation = self.prior.correlation(prior.inputs, self.inputs)  # 1 x bQ x t
            whitened = (correlation @ self.factor.mT)[0] * prior.scale[0].unsqueeze(-1)
            n = self.residuals.shape[-1]
            mean = prior.mean[0] + whitened[:, :n] @ self.residuals[0]
            Q = X.shape[-2]
            whitened = whitened.reshape(-1, Q, whitened.shape[-1])
            covariance = _within(self.prior, prior, Q) - whitened @ whitened.mT
            root = safe_root(covariance, prior.variance.detach().mean())
            return mean.reshape(-1, Q), torch.cat([whitened[..., n:], root], dim=-1)


def determining_points(covariance: Tensor, tolerance: Tensor) -> Tensor:
    r"""Indices of points that determine all others, by a pivoted Cholesky factor of `N x N`.

    `tolerance` is the largest variance that may be left of any other point. Each pivot depends on
    the one before, so the host would wait for a device: it works on a copy of its own.
    """
    device, covariance, tolerance = covariance.device, covariance.cpu(), tolerance.cpu()
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
    return torch.tensor(sorted(chosen), device=device, dtype=torch.long)


_KEPT = 4  # lists of constant points whose factors are remembered


class JointSampler:
    r"""Blocks of an exact GP with one output and without a batch shape; see the module."""

    def __init__(self, belief: Belief) -> None:
        self.belief = belief
        self._data: Process | None = None
        self._blocks: list[Block] = []
        self._last: tuple[Tensor, int, Block] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_data": None, "_blocks": [], "_last": None}

    def block(self, constant: Tensor) -> Block:
        r"""Constant points `N x d`, which are sampled before all others."""
        data = self._current()
        if self._last is not None:  # without a comparison, for which the host waits for a device
            given, version, block = self._last
            if given is constant and given._version == version:
                return block
        block = self._of(data, constant.detach())
        if not constant.is_inference():
            self._last = constant, constant._version, block
        return block

    def _of(self, data: Process, constant: Tensor) -> Block:
        for block in self._blocks:
            if block.points.shape == constant.shape and torch.equal(block.points, constant):
                return block
        self._blocks = [Block.of(data, constant.clone()), *self._blocks[: _KEPT - 1]]
        return self._blocks[0]

    def _current(self) -> Process:
        r"""The process given the data; all blocks are dropped if the model has changed."""
        if self.belief.model.training:
            self.belief.model.eval()
        if self._data is None or self._data.prior.cache is not self.belief.current_cache():
            self._data, self._blocks, self._last = self.belief.process(), [], None
        return self._data


def _within(process: PriorProcess, prior: PriorPoints, Q: int) -> Tensor:
    r"""Prior covariances of `b Q` points with the points of the same entry, `b x Q x Q`."""
    inputs = prior.inputs.reshape(-1, Q, prior.inputs.shape[-1])
    scale = prior.scale.reshape(-1, Q)
    kernel = process.cache.kernel
    if kernel is None:
        covariance = process.model.covar_module(inputs).to_dense()
        return covariance * scale.unsqueeze(-1) * scale.unsqueeze(-2)
    one_sided = process.correlation(inputs, inputs.detach())
    if one_sided.requires_grad:  # the gradient in the second points is that in the first
        one_sided = one_sided + one_sided.mT - one_sided.detach().mT
    covariance = one_sided * scale.unsqueeze(-1) * scale.unsqueeze(-2)
    # The distance of a point to itself is rounding, not 0: its variance is exact.
    return covariance.diagonal_scatter(scale.square(), dim1=-2, dim2=-1)
