r"""A known continuous distribution of W on a box, whose coordinates are independent."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from typing import ClassVar, Literal

import torch
from botorch.exceptions.errors import UnsupportedError
from torch import Tensor
from torch.distributions import Distribution, constraints

from botorch_risk.arguments import as_floating, check_bounds, check_counts, check_kind
from botorch_risk.environments.environment import IndependentEnvironment, inside
from botorch_risk.environments.uniforms import (
    box_points,
    checked_seeds,
    legendre_axes,
    normalized,
    points_per_axis,
    seeded_uniforms,
    tensor_grid,
)
from botorch_risk.seeding import as_seeds

Rule = Literal["sobol", "monte_carlo", "midpoints", "quadrature"]


class ContinuousEnvironment(IndependentEnvironment):
    r"""Independent coordinates of known distributions, on a box.

    Mass outside the bounds is cut off (`"truncate"`: the distribution given that W is inside) or
    moved to the bounds (`"clip"`: they carry probability, as in the problems of SBO-KDE).

    The distribution of V-UCB's experiments, Sec. 4 of [Nguyen2021vucb]_, is a normal one cut at two
    standard deviations. For a uniform distribution, pass `Uniform(*bounds)`.

    Args:
        marginals: The distributions of the coordinates before the bounds: batch shape `[]`
            or `[d_w]`, with `cdf` and `icdf` (and `log_prob` for a quadrature), on the CPU.
        bounds: The box, `2 x d_w`, within the support of the marginals. The points take its dtype
            and device.
        n_w: The number of points in the support; for a grid rule, a `d_w`-th power.
        seeds: An integer for one distribution, or one integer per replicate for a distribution
            of batch shape `[R]`. The two grid rules need none unless `n_ball` > 0.
        rule: Points of equal weight: `"sobol"`, quantiles of scrambled Sobol points;
            `"monte_carlo"`, independent draws; `"midpoints"`, a grid of quantiles of the levels
            `(j - 1/2) / size`. Points weighted by the density: `"quadrature"`, a grid of
            Gauss-Legendre nodes, and the bounds if they carry probability; the most exact for few
            dimensions and smooth functions.
        beyond: The treatment of mass outside the bounds.
        n_ball: Number of Sobol points added over the box, of weight 0, where a ball may put mass.

    Raises:
        ValueError: If `n_w` fills no grid, or a quadrature of `n_w` points does not resolve the
            distribution.

    Example:
        >>> from torch.distributions import Normal
        >>> bounds = torch.tensor([[0.25], [0.75]])
        >>> normal = Normal(0.5, 0.125)
        >>> environment = ContinuousEnvironment(normal, bounds, n_w=4, rule="midpoints")
        >>> environment.points.flatten()
        tensor([0.3661, 0.4620, 0.5380, 0.6339])
    """

    def __init__(
        self,
        marginals: Distribution,
        bounds: Tensor,
        n_w: int,
        seeds: int | Sequence[int] | None = None,
        rule: Rule = "sobol",
        beyond: Beyond = "truncate",
        n_ball: int = 0,
    ) -> None:
        bounds = as_floating(bounds, "bounds")
        check_bounds(bounds)
        check_counts(n_w=n_w)
        check_counts(0, n_ball=n_ball)
        check_kind(Rule, rule=rule)
        if seeds is not None:
            as_seeds(seeds)  # also where the rule draws nothing
        # Copies: the caller may change the parameters later.
        box = bounds.detach().double().cpu().clone()
        distribution = BoundedMarginals(copy.deepcopy(marginals), box, beyond)
        if rule == "quadrature":
            points, weights = _quadrature(distribution, n_w)
        else:
            points = distribution.from_uniforms(_uniforms(rule, n_w, bounds.shape[-1], seeds))
            weights = points.new_full(points.shape[:-1], 1 / n_w)
        if n_ball:
            extra = box_points(distribution.bounds, n_ball, checked_seeds(seeds, "a ball"))
            points = torch.cat([points.expand(*extra.shape[:-2], -1, -1), extra], dim=-2)
            weights = weights.expand(points.shape[:-2] + weights.shape[-1:])
            weights = torch.nn.functional.pad(weights, (0, n_ball))
        super().__init__(points.to(bounds), weights.to(bounds))
        self._distribution = distribution

    @property
    def density(self) -> BoundedMarginals:
        r"""The distribution itself, in float64 on the CPU; its `log_prob` raises if clipped."""
        return self._distribution

    def log_density(self, W: Tensor) -> Tensor:
        W = self.as_values(W)
        return self._distribution.log_prob(W.double().cpu()).to(W)

    @property
    def support_bounds(self) -> Tensor:
        return self._distribution.bounds.to(self.points)

    def supports(self, W: Tensor) -> Tensor:
        return inside(self.as_values(W), self._distribution.bounds)

    @property
    def _num_uniforms(self) -> int:
        return self.points.shape[-1]

    def _from_uniforms(self, uniforms: Tensor) -> Tensor:
        return self._distribution.from_uniforms(uniforms.cpu())


def _uniforms(rule: Rule, n_w: int, d_w: int, seeds: int | Sequence[int] | None) -> Tensor:
    r"""Points of the unit cube, `(R x) n_w x d_w`, of which the environment has the quantiles."""
    if rule == "midpoints":
        size = points_per_axis(n_w, d_w)
        return tensor_grid([(torch.arange(size, dtype=torch.double) + 0.5) / size] * d_w)
    seeds = checked_seeds(seeds, f"{rule=}")
    return seeded_uniforms(n_w, d_w, seeds, "environment", quasi=rule == "sobol")


def _quadrature(marginals: BoundedMarginals, n_w: int) -> tuple[Tensor, Tensor]:
    r"""Nodes and probabilities on a grid; each axis ends in the bounds if they have mass."""
    d_w = marginals.bounds.shape[-1]
    atomic = marginals.beyond == "clip"
    size = points_per_axis(n_w, d_w)
    if atomic and size < 3:
        raise ValueError(
            "Expected at least 3 nodes on each axis for beyond='clip', of which the bounds are "
            f"two. Got {size}."
        )
    nodes, volumes = legendre_axes(marginals.bounds, size - 2 * atomic)  # size x d_w
    masses = marginals.interior_log_density(nodes).exp() * volumes
    if atomic:
        nodes = torch.cat([marginals.bounds[:1], nodes, marginals.bounds[1:]])
        masses = torch.cat([marginals.atoms[:1], masses, marginals.atoms[1:]])
    weights = normalized(masses.mT)
    return tensor_grid(list(nodes.mT)), tensor_grid(list(weights)).prod(dim=-1)


Beyond = Literal["truncate", "clip"]


class BoundedMarginals(Distribution):
    r"""Independent coordinates on a box.

        "truncate":  w(i) = icdf_i(cdf_i(lower_i) + u_i * (cdf_i(upper_i) - cdf_i(lower_i)))
        "clip":      w(i) = clamp(icdf_i(u_i), lower_i, upper_i)

    with `u` uniform. `"truncate"` is the distribution given that W lies in the box; `"clip"` puts
    the mass outside on the bounds, which then carry probability, so that there is no density.

    Args:
        marginals: Scalar distributions of batch shape `[]` (the same for every coordinate) or
            `[d_w]`, with `cdf` and `icdf`.
        bounds: The box, `2 x d_w`, within the support of the marginals.
        beyond: The treatment of mass outside the bounds.
        validate_args: As in torch.

    Raises:
        UnsupportedError: If the marginals have another shape or no quantiles.
        ValueError: If the box has no mass.
    """

    arg_constraints: ClassVar[dict[str, constraints.Constraint]] = {}

    def __init__(
        self,
        marginals: Distribution,
        bounds: Tensor,
        beyond: Beyond = "truncate",
        validate_args: bool | None = None,
    ) -> None:
        bounds = as_floating(bounds, "bounds")
        check_kind(Distribution, marginals=marginals)
        check_kind(Beyond, beyond=beyond)
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
        return constraints.independent(constraints.interval(*self.bounds), 1)

    @property
    def atoms(self) -> Tensor:
        r"""The probability of each bound, `2 x d_w`; zeros unless clipped."""
        if self.beyond == "truncate":
            return torch.zeros_like(self._levels)
        return torch.stack([self._levels[0], 1 - self._levels[1]])

    def from_uniforms(self, uniforms: Tensor) -> Tensor:
        r"""Map uniform numbers, `... x d_w`, to W, each coordinate by an increasing function."""
        lower, upper = self._levels
        if self.beyond == "truncate":
            uniforms = lower + uniforms * (upper - lower)
        values = self.marginals.icdf(uniforms)
        return torch.minimum(torch.maximum(values, self.bounds[0]), self.bounds[1])

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape = self._extended_shape(torch.Size(sample_shape))
        return self.from_uniforms(torch.rand(shape, dtype=self.bounds.dtype))

    def log_prob(self, value: Tensor) -> Tensor:
        r"""Log density at `... x d_w`; -inf outside the box.

        Raises:
            UnsupportedError: If clipped.
        """
        if self.beyond == "clip":
            raise UnsupportedError(
                "Expected a distribution with a density. Got a clipped distribution, which "
                "has positive probability at the bounds; use beyond='truncate'."
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


NUM_BISECTIONS = 80  # halves any bracket of doubles to neighbours


class Mixture(Distribution):
    r"""A mixture of scalar distributions in equal shares, with a cdf and quantiles.

        log_prob(w) = log(sum_i exp(components[i].log_prob(w)) / len(components))

    torch's `MixtureSameFamily` has one family and no `icdf`. Quantiles are found by
    bisection between the smallest and the largest quantile of the components, and are not
    differentiable.
    """

    arg_constraints: ClassVar[dict[str, constraints.Constraint]] = {}
    support = constraints.real

    def __init__(self, components: Sequence[Distribution], validate_args: bool | None = None):
        shapes = {(each.batch_shape, each.event_shape) for each in components}
        if len(shapes) != 1 or next(iter(shapes))[1]:
            raise ValueError(
                "Expected scalar distributions of one batch shape. Got batch and event shapes "
                f"{sorted(shapes)}."
            )
        self.components = list(components)
        super().__init__(next(iter(shapes))[0], validate_args=validate_args)

    def log_prob(self, value: Tensor) -> Tensor:
        logs = torch.stack([each.log_prob(value) for each in self.components])
        return logs.logsumexp(dim=0) - math.log(len(self.components))

    def cdf(self, value: Tensor) -> Tensor:
        return torch.stack([each.cdf(value) for each in self.components]).mean(dim=0)

    def icdf(self, value: Tensor) -> Tensor:
        with torch.no_grad():
            quantiles = torch.stack([each.icdf(value) for each in self.components])
            lower, upper = quantiles.amin(dim=0), quantiles.amax(dim=0)
            for _ in range(NUM_BISECTIONS):
                middle = lower + (upper - lower) / 2
                below = self.cdf(middle) < value
                lower, upper = torch.where(below, middle, lower), torch.where(below, upper, middle)
        return upper
