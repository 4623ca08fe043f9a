r"""Moments of an outcome: of single points, and within groups of points."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor


class Marginals(NamedTuple):
    r"""Marginal moments of the posterior, `batch_shape x m` each, in the units of the outcome."""

    mean: Tensor
    variance: Tensor

    def mixed(self, dim: int) -> Marginals:
        r"""The moments of the mixture of members that lie along a dimension."""
        mean = self.mean.mean(dim=dim)
        # The law of total variance, about the mean: a difference of squares loses digits.
        between = (self.mean - mean.unsqueeze(dim)).square().mean(dim=dim)
        return Marginals(mean, self.variance.mean(dim=dim) + between)


class JointMoments(NamedTuple):
    r"""Moments of an outcome at groups of points, in its units."""

    mean: Tensor  # batch_shape x m x p
    covariance: Tensor  # batch_shape x m x p x p
    noise: Tensor  # batch_shape x m x p, the variance of the noise of one more reading
