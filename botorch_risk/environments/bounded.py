r"""Independent coordinates whose distributions are cut off at, or moved to, the bounds of a box."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal, get_args

import torch
from botorch.exceptions.errors import UnsupportedError
from torch import Tensor
from torch.distributions import Distribution, constraints

from botorch_risk.arguments import as_floating

Beyond = Literal["truncate", "clip"]


class BoundedMarginals(Distribution):
    r"""Independent coordinates on a box.

        "truncate":  w(i) = icdf_i(cdf_i(lower_i) + u_i * (cdf_i(upper_i) - cdf_i(lower_i)))
        "clip":      w(i) = clamp(icdf_i(u_i), lower_i, upper_i)

    with `u` uniform. `"truncate"` is the distribution given that W lies in the box; `"clip"` puts
    what lies beyond on the bounds, which then carry probability, so that there is no density.

    Example:
        >>> normal = torch.distributions.Normal(0.5, 0.125)
        >>> bounded = BoundedMarginals(normal, torch.tensor([[0.25], [0.75]]))
        >>> bounded.log_prob(torch.tensor([0.5])).exp(), bounded.log_prob(torch.tensor([0.8])).exp()
        (tensor(3.3437), tensor(0.))
    """

    arg_constraints: ClassVar[dict[str, constraints.Constraint]] = {}

    def __init__(
        self,
        marginals: Distribution,
        bounds: Tensor,
        beyond: Beyond = "truncate",
        validate_args: bool | None = None,
    ) -> None:
        r"""Bounds the marginals.

        Args:
            marginals: Scalar distributions of batch shape `[]` (the same for every coordinate) or
                `[d_w]`, with `cdf` and `icdf`.
            bounds: The box, `2 x d_w`, within the support of the marginals.
            beyond: What happens to mass outside the bounds.
            validate_args: As in torch.

        Raises:
            UnsupportedError: If the marginals are not of this shape or have no quantiles.
            ValueError: If `beyond` is unknown, or the box is outside the support or has no mass.
        """
        bounds = as_floating(bounds, "bounds")
        if beyond not in get_args(Beyond):
            raise ValueError(f"Expected `beyond` to be one of {get_args(Beyond)}. Got {beyond=}.")
        d_w = bounds.shape[-1]
        if marginals.event_shape or marginals.batch_shape not in (torch.Size(), torch.Size([d_w])):
            raise UnsupportedError(
                f"Expected scalar distributions of batch shape [] or [{d_w}], one for each "
                f"independent coordinate. Got {marginals.batch_shape=}, {marginals.event_shape=}."
            )
        self.marginals, self.bounds, self.beyond = marginals, bounds.clone(), beyond
        try:
            self._levels = marginals.cdf(bounds)  # 2 x d_w
            marginals.icdf(self._levels.mean(dim=0))
        except NotImplementedError as error:
            raise UnsupportedError(
                f"Expected `marginals` to have `cdf` and `icdf`. Got {type(marginals).__name__}."
            ) from error
        if not (self._levels[0] < self._levels[1]).all():
            raise ValueError(f"Expected mass within the bounds. Got none in {bounds=}.")
        super().__init__(torch.Size(), torch.Size([d_w]), validate_args=validate_args)

    @property
    def support(self) -> constraints.Constraint:
        r"""The box."""
        return constraints.independent(constraints.interval(*self.bounds), 1)

    @property
    def atoms(self) -> Tensor:
        r"""The probability of each bound, `2 x d_w`; zeros unless clipped."""
        if self.beyond == "truncate":
            return torch.zeros_like(self._levels)
        return torch.stack([self._levels[0], 1 - self._levels[1]])

    def from_uniforms(self, uniforms: Tensor) -> Tensor:
        r"""Maps uniform numbers, `... x d_w`, to W coordinate by coordinate, increasingly."""
        lower, upper = self._levels
        if self.beyond == "truncate":
            uniforms = lower + uniforms * (upper - lower)
        values = self.marginals.icdf(uniforms)
        return torch.minimum(torch.maximum(values, self.bounds[0]), self.bounds[1])

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        r"""Draws, from torch's global random state."""
        shape = self._extended_shape(torch.Size(sample_shape))
        return self.from_uniforms(torch.rand(shape, dtype=self.bounds.dtype))

    def log_prob(self, value: Tensor) -> Tensor:
        r"""Log density at `... x d_w`; -inf outside the box.

        Raises:
            UnsupportedError: If clipped.
        """
        if self.beyond == "clip":
            raise UnsupportedError(
                "Expected a distribution with a density. Got one that is clipped, so that its "
                "bounds carry probability; use beyond='truncate'."
            )
        return self.interior_log_density(value).sum(dim=-1)

    def interior_log_density(self, value: Tensor) -> Tensor:
        r"""Log density of each coordinate at `... x d_w` within the bounds, -inf outside."""
        inside = (value >= self.bounds[0]) & (value <= self.bounds[1])
        safe = torch.where(inside, value, self.bounds.mean(dim=0))
        logs = self.marginals.log_prob(safe)
        if self.beyond == "truncate":
            logs = logs - (self._levels[1] - self._levels[0]).log()
        return torch.where(inside, logs, -torch.inf)
