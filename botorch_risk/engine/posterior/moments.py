r"""Moments of an outcome: of single points, and within groups of points."""

from typing import NamedTuple

from torch import Tensor


class Marginals(NamedTuple):
    r"""Marginal moments of the posterior, `batch_shape x m` each, in the units of the outcome."""

    mean: Tensor
    variance: Tensor


class JointMoments(NamedTuple):
    r"""Moments of an outcome at groups of points, in its units.

    Attributes:
        mean: `batch_shape x m x p`.
        covariance: `batch_shape x m x p x p`.
        noise: `batch_shape x m x p`, the variance of the noise of one more reading.
    """

    mean: Tensor
    covariance: Tensor
    noise: Tensor
