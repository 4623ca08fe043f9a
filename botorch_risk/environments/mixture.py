r"""Mixtures of univariate distributions of any families."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

import torch
from torch import Tensor
from torch.distributions import Distribution, constraints

NUM_BISECTIONS = 80  # halves any bracket of doubles to neighbours


class Mixture(Distribution):
    r"""Equal shares of scalar distributions, with cdf and quantiles.

        log_prob(w) = log(sum_i exp(components[i].log_prob(w)) / len(components))

    Where torch's `MixtureSameFamily` has one family and no `icdf`. Quantiles are found by
    bisection between the smallest and the largest quantile of the components, and are not
    differentiable.

    Example:
        >>> from torch.distributions import Cauchy, Normal
        >>> mixture = Mixture([Normal(-1.0, 0.1), Cauchy(1.0, 0.1)])
        >>> mixture.cdf(torch.tensor(0.0)), mixture.icdf(torch.tensor(0.5))
        (tensor(0.5159), tensor(-0.7898))
    """

    arg_constraints: ClassVar[dict[str, constraints.Constraint]] = {}
    support = constraints.real

    def __init__(self, components: Sequence[Distribution], validate_args: bool | None = None):
        r"""Builds the mixture.

        Args:
            components: Scalar distributions with `log_prob`, `cdf`, `icdf` and the same batch
                shape.
            validate_args: As in torch.

        Raises:
            ValueError: If there is no component or one is not scalar.
        """
        shapes = {(each.batch_shape, each.event_shape) for each in components}
        if len(shapes) != 1 or next(iter(shapes))[1]:
            raise ValueError(
                "Expected scalar distributions of one batch shape. Got batch and event shapes "
                f"{sorted(shapes)}."
            )
        self.components = list(components)
        super().__init__(next(iter(shapes))[0], validate_args=validate_args)

    def log_prob(self, value: Tensor) -> Tensor:
        r"""Log density."""
        logs = torch.stack([each.log_prob(value) for each in self.components])
        return logs.logsumexp(dim=0) - math.log(len(self.components))

    def cdf(self, value: Tensor) -> Tensor:
        r"""Cumulative probability."""
        return torch.stack([each.cdf(value) for each in self.components]).mean(dim=0)

    def icdf(self, value: Tensor) -> Tensor:
        r"""Quantiles of the levels `value`."""
        with torch.no_grad():
            quantiles = torch.stack([each.icdf(value) for each in self.components])
            lower, upper = quantiles.amin(dim=0), quantiles.amax(dim=0)
            for _ in range(NUM_BISECTIONS):
                middle = lower + (upper - lower) / 2
                below = self.cdf(middle) < value
                lower, upper = torch.where(below, middle, lower), torch.where(below, upper, middle)
        return upper
