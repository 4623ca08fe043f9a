r"""A Gaussian process given observations that arrive one at a time."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

from botorch_risk.models.prior_process import Points, PriorProcess


class ConditionedPoints(NamedTuple):
    r"""Points with what the posterior says of them, for `B` replicates.

    Attributes:
        prior: What the prior says of them.
        whitened: `B x t x m` columns `L^-1 k(X, points)`; products of two of them are the
            covariance that the `t` observations explain.
        mean: `B x m` posterior means.
        variance: `B x m` posterior variances, at least 0.
    """

    prior: Points
    whitened: Tensor
    mean: Tensor
    variance: Tensor

    def take(self, index: Tensor) -> ConditionedPoints:
        r"""The points of a `B x a` index."""
        spread = index.unsqueeze(-2).expand(-1, self.whitened.shape[-2], -1)
        return ConditionedPoints(
            self.prior.take(index),
            self.whitened.gather(-1, spread),
            self.mean.gather(-1, index),
            self.variance.gather(-1, index),
        )

    def part(self, replicates: slice, places: slice) -> ConditionedPoints:
        r"""Some of the points of some replicates, as views."""
        inputs = self.prior.inputs.expand(*self.mean.shape, -1)
        prior = Points(inputs, *self.prior[1:])
        return ConditionedPoints(
            Points(*(field[replicates, places] for field in prior)),
            self.whitened[replicates, :, places],
            self.mean[replicates, places],
            self.variance[replicates, places],
        )


@dataclass(frozen=True)
class ConditionedProcess:
    r"""The inverse Cholesky factor of all observations, extended row by row.

    With `L` the Cholesky factor of `K + S`, `V = L^-1 k(X, .)` and `z = L^-1 (y - m(X))`:

        mean = m + V' z,   covariance = k - V' V                        Eqs. (1), (2), (20)

    Attributes:
        process: The prior.
        inputs: `B x t x d` inputs in the space of the kernel.
        factor: `B x t x t`, which whitens the correlations with them.
        residuals: `B x t`, the `z` above.
    """

    process: PriorProcess
    inputs: Tensor
    factor: Tensor
    residuals: Tensor

    @classmethod
    def of(cls, process: PriorProcess) -> ConditionedProcess:
        r"""The process given the data of its model."""
        return cls(process, *(part.detach() for part in process.training()))

    def at(self, X: Tensor) -> ConditionedPoints:
        r"""The posterior at `m x d` or `B x m x d` points, differentiable in them."""
        with torch.set_grad_enabled(X.requires_grad and torch.is_grad_enabled()):
            prior = self.process.points(X)
            correlation = self.process.correlation(prior.inputs, self.inputs)  # B x m x t
            whitened = self.factor @ correlation.mT * prior.scale.unsqueeze(-2)
            mean = prior.mean + (whitened * self.residuals.unsqueeze(-1)).sum(dim=-2)
            variance = prior.variance - whitened.square().sum(dim=-2)
            return ConditionedPoints(prior, whitened, mean, variance.clamp_min(0.0))

    def covariance(self, first: ConditionedPoints, second: ConditionedPoints) -> Tensor:
        r"""`B x m x n` posterior covariances, differentiable in the first points."""
        prior = self.process.covariance(first.prior, second.prior)
        if prior.requires_grad:
            return prior - first.whitened.mT @ second.whitened
        return prior.baddbmm_(first.whitened.mT, second.whitened, alpha=-1.0)  # Eq. (20)

    def extended(
        self, point: ConditionedPoints, outcome: Tensor, precision_root: Tensor
    ) -> ConditionedProcess:
        r"""The process given one more observation.

        Args:
            point: Where, as this process sees it, `m = 1`.
            outcome: `B` outcomes.
            precision_root: `B` inverse standard deviations of the outcome; 0 where there is none.
        """
        root = precision_root.unsqueeze(-1)
        row = torch.cat([-point.whitened.mT @ self.factor, point.prior.scale.unsqueeze(-1)], dim=-1)
        wider = torch.cat([self.factor, torch.zeros_like(self.factor[..., :1])], dim=-1)
        surprise = (outcome.unsqueeze(-1) - point.mean).where(root > 0, 0.0)
        inputs = point.prior.inputs.expand(self.inputs.shape[0], 1, -1)
        return replace(
            self,
            inputs=torch.cat([self.inputs, inputs], dim=-2),
            factor=torch.cat([wider, row * root.unsqueeze(-1)], dim=-2),
            residuals=torch.cat([self.residuals, surprise * root], dim=-1),
        )
