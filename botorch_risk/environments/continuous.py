r"""A known continuous distribution of W on a box, whose coordinates are independent."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Literal, get_args

import torch
from torch import Tensor
from torch.distributions import Distribution

from botorch_risk.arguments import as_floating
from botorch_risk.environments.bounded import Beyond, BoundedMarginals
from botorch_risk.environments.environment import (
    IndependentEnvironment,
    check_bounds,
    inside,
)
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

    What lies beyond the bounds is cut off (`"truncate"`: the distribution given that W is inside)
    or moved to them (`"clip"`: the bounds carry probability, as in the problems of SBO-KDE).

    The distribution of V-UCB's experiments, Sec. 4 of [Nguyen2021vucb]_, is a normal one cut at two
    standard deviations. For a uniform distribution, pass `Uniform(*bounds)`.

    Example:
        >>> from torch.distributions import Normal, Uniform
        >>> bounds = torch.tensor([[0.25], [0.75]])
        >>> normal = Normal(0.5, 0.125)
        >>> environment = ContinuousEnvironment(normal, bounds, n_w=4, rule="midpoints")
        >>> environment.points.flatten()
        tensor([0.3661, 0.4620, 0.5380, 0.6339])
        >>> box = torch.tensor([[0.0, 0.0], [1.0, 1.0]])
        >>> ContinuousEnvironment(Uniform(*box), box, n_w=64, seeds=[0, 1]).points.shape
        torch.Size([2, 64, 2])
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
        r"""Draws the points.

        Args:
            marginals: The distributions of the coordinates before the bounds: batch shape `[]`
                or `[d_w]`, with `cdf` and `icdf` (and `log_prob` for a quadrature), on the CPU.
            bounds: The box, `2 x d_w`, within the support of the marginals. Gives the dtype and
                device of the points.
            n_w: The number of points in the support; a `d_w`-th power for the two grids.
            seeds: An integer for one distribution, or one integer per replicate for a distribution
                of batch shape `[R]`. The two grids draw nothing and need none unless there is a
                ball.
            rule: Of equal weight: `"sobol"`, quantiles of scrambled Sobol points;
                `"monte_carlo"`, independent draws; `"midpoints"`, quantiles of the levels
                `(j - 1/2) / size` on each axis of a grid. Of weights by the density:
                `"quadrature"`, the nodes of Gauss and Legendre, and the bounds if they carry
                probability; the most exact for few dimensions and smooth functions.
            beyond: What happens to mass outside the bounds.
            n_ball: Further Sobol points over the box, of weight 0, where a ball may put mass.

        Raises:
            BotorchTensorDimensionError: If `bounds` is not `2 x d_w`.
            UnsupportedError: If the marginals do not fit or have no quantiles.
            ValueError: If an option is unknown, seeds are missing, the bounds are not in order,
                `n_w` is not positive, fills no grid or is too small for a quadrature of this
                distribution.
        """
        bounds = as_floating(bounds, "bounds")
        check_bounds(bounds)
        if rule not in get_args(Rule):
            raise ValueError(f"Expected `rule` to be one of {get_args(Rule)}. Got {rule=}.")
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
        r"""The distribution itself, in float64 on the CPU; `log_prob` raises if it is clipped."""
        return self._distribution

    def log_density(self, W: Tensor) -> Tensor:
        r"""Log density at `... x n x d_w` values, -inf outside the box; raises if clipped."""
        return self._distribution.log_prob(W.double().cpu()).to(as_floating(W))

    @property
    def support_bounds(self) -> Tensor:
        r"""The bounds of the distribution, `2 x d_w`."""
        return self._distribution.bounds.to(self.points)

    def supports(self, W: Tensor) -> Tensor:
        r"""Whether values `... x n x d_w` are within the box."""
        return inside(W, self._distribution.bounds)

    @property
    def _num_uniforms(self) -> int:
        return self.points.shape[-1]

    def _from_uniforms(self, uniforms: Tensor) -> Tensor:
        return self._distribution.from_uniforms(uniforms.cpu())


def _uniforms(rule: Rule, n_w: int, d_w: int, seeds: int | Sequence[int] | None) -> Tensor:
    r"""The points of the unit cube, `(R x) n_w x d_w`, whose quantiles are the points."""
    if rule == "midpoints":
        size = points_per_axis(n_w, d_w)
        return tensor_grid([(torch.arange(size, dtype=torch.double) + 0.5) / size] * d_w)
    seeds = checked_seeds(seeds, f"{rule=}")
    return seeded_uniforms(n_w, d_w, seeds, "environment", quasi=rule == "sobol")


def _quadrature(marginals: BoundedMarginals, n_w: int) -> tuple[Tensor, Tensor]:
    r"""Nodes and probabilities on a grid; each axis ends in the bounds if they have mass."""
    d_w = marginals.bounds.shape[-1]
    atomic = marginals.beyond == "clip"
    size = points_per_axis(n_w, d_w) - 2 * atomic
    nodes, volumes = legendre_axes(marginals.bounds, size)  # size x d_w
    masses = marginals.interior_log_density(nodes).exp() * volumes
    if atomic:
        nodes = torch.cat([marginals.bounds[:1], nodes, marginals.bounds[1:]])
        masses = torch.cat([marginals.atoms[:1], masses, marginals.atoms[1:]])
    weights = normalized(masses.mT)
    return tensor_grid(list(nodes.mT)), tensor_grid(list(weights)).prod(dim=-1)
