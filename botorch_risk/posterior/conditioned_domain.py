r"""An exact GP over a finite domain, updated by one observation at a time."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from botorch_risk.posterior.covariance import (
    CovarianceBlocks,
    DenseCovariance,
    HeldBlocks,
    MadeBlocks,
)
from botorch_risk.posterior.process import ConditionedPoints, ConditionedProcess, PriorProcess


class Observation(NamedTuple):
    r"""One outcome of each of `B` replicates.

    Attributes:
        X: `B x 1 x d` points in the units of the model's inputs.
        y: `B` outcomes, NaN where there is none.
        noise: `B` noise variances.
        row: `B` rows of the points in the domain, -1 off the domain.
    """

    X: Tensor
    y: Tensor
    noise: Tensor
    row: Tensor


@dataclass
class ConditionedDomain:
    r"""The posterior over the points of a domain, for `B` replicates.

    Attributes:
        process: The posterior at any point.
        points: The posterior at the domain.
        covariance: The dense covariance of the domain, or `None` where blocks are made on demand.
        count: `B` numbers of samples.
        low: `B` smallest outcomes.
        high: `B` largest outcomes.
    """

    process: ConditionedProcess
    points: ConditionedPoints
    covariance: DenseCovariance | None
    count: Tensor
    low: Tensor
    high: Tensor

    @classmethod
    @torch.no_grad()
    def of(
        cls, prior: PriorProcess, domain: Tensor, observed: Tensor, dense: bool
    ) -> ConditionedDomain:
        r"""The posterior of the data of a model.

        Args:
            prior: The process of the model.
            domain: `|D| x d` or `B x |D| x d` points.
            observed: `B x n`, which rows of the data are samples.
            dense: Whether to hold the covariance.
        """
        process = ConditionedProcess.of(prior)
        points, outcomes = process.at(domain), prior.outcomes()
        return cls(
            process=process,
            points=points,
            covariance=DenseCovariance(process, points) if dense else None,
            count=observed.sum(dim=-1),
            low=outcomes.where(observed, torch.inf).amin(dim=-1),
            high=outcomes.where(observed, -torch.inf).amax(dim=-1),
        )

    @property
    def rounding(self) -> Tensor:
        r"""One unit of rounding of the largest prior variance, `B`."""
        prior = self.points.prior.variance
        return prior.amax(dim=-1) * torch.finfo(prior.dtype).eps

    def blocks(self, rows: Tensor | None, columns: Tensor | None) -> CovarianceBlocks:
        r"""Blocks of the covariance between points of the domain; `None` for all in order."""
        if self.covariance is not None:
            return HeldBlocks(self.covariance, rows, columns)
        first, second = (self.points if i is None else self.points.take(i) for i in (rows, columns))
        return MadeBlocks(self.process, first, second)

    @torch.no_grad()
    def condition(self, observation: Observation) -> None:
        r"""Adds one observation, as a Cholesky factorisation extends itself by a row."""
        X, y, noise, row = observation
        point = self.process.at(X)
        variance = point.variance.squeeze(-1) + noise  # B
        # An outcome whose variance is rounding was known already: dividing by it adds only noise.
        known = y.isfinite() & (variance > self.rounding)
        root = variance.rsqrt().where(known, 0.0)
        column = self.process.covariance(point, self.points).squeeze(-2)  # B x |D|
        new_row = column * root.unsqueeze(-1)
        if self.covariance is not None:
            self.covariance.subtract(self.process, self.points, column, root, row)
        self.process = self.process.extended(point, y, root)
        self.points = self.points._replace(
            whitened=torch.cat([self.points.whitened, new_row.unsqueeze(-2)], dim=-2),
            mean=self.points.mean + new_row * self.process.residuals[..., -1:],
            variance=(self.points.variance - new_row.square()).clamp_min(0.0),
        )
        self.count = self.count + y.isfinite()
        self.low, self.high = torch.fmin(self.low, y), torch.fmax(self.high, y)

    def copy(self) -> ConditionedDomain:
        r"""An independent copy."""
        twin = copy.copy(self)
        if self.covariance is not None:
            twin.covariance = self.covariance.copy()
        return twin
