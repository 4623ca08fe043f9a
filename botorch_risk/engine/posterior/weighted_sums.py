r"""Weighted sums of an outcome at groups of points, and what a reading says about them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from botorch_risk.engine.posterior.process import Process


@dataclass(frozen=True, eq=False)
class WeightedSums:
    r"""Sums `sum_j q_j f(z_j)` of an outcome over groups of points, for `B` replicates.

    Attributes:
        process: The GP given its data.
        points: The points of all `P` groups of `p`, `B x (P p)`.
        weights: `B x P x p`.
        explained: `B x t x P`, the columns of the points under their weights.
    """

    process: Process
    points: Process.Points
    weights: Tensor
    explained: Tensor

    @classmethod
    def of(cls, process: Process, points: Process.Points, weights: Tensor) -> WeightedSums:
        columns = points.whitened.unflatten(-1, weights.shape[-2:])
        return cls(process, points, weights, (columns * weights.unsqueeze(1)).sum(dim=-1))

    def covariance(self, at: Process.Points) -> Tensor:
        r"""Posterior covariances of the outcome at points with the sums, `B x m x P`."""
        prior = self.process.prior.covariance(at.prior, self.points.prior)
        prior = prior.unflatten(-1, self.weights.shape[-2:])
        prior = torch.einsum("bmpw,bpw->bmp", prior, self.weights)
        return prior - at.whitened.mT @ self.explained

    def variance(self) -> Tensor:
        r"""The posterior variance of each sum, `B x P`."""
        covariance = self.process.covariance_within(self.points, self.weights.shape[-1])
        along = (self.weights.unsqueeze(-2) @ covariance).squeeze(-2)
        return (along * self.weights).sum(dim=-1).clamp_min(0.0)
