r"""The distribution of W learnt from observed values by kernel density estimation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal, get_args

import torch
from botorch.exceptions.errors import InputDataError
from torch import Tensor
from torch.nn.functional import pad

from botorch_risk.arguments import as_floating, as_tensor
from botorch_risk.environments.bandwidth import leave_one_out_bandwidth, silverman_bandwidth
from botorch_risk.environments.density import AtBounds, KernelDensity
from botorch_risk.environments.environment import (
    IndependentEnvironment,
    check_bounds,
    check_values,
    inside,
)
from botorch_risk.environments.uniforms import (
    box_points,
    legendre_axes,
    normalized,
    points_per_axis,
    seeded_uniforms,
    tensor_grid,
)
from botorch_risk.seeding import as_seeds

Rule = Literal["sobol", "monte_carlo", "quadrature"]
Bandwidth = Literal["silverman", "leave_one_out"]


class KernelDensityEnvironment(IndependentEnvironment):
    r"""The kernel density estimate of observed values of W, and points drawn from it.

    What SBO-KDE and DRBO-KDE learn of W, Sec. 3 and B.1 of [Huang2024kde]_; they take
    `rule="monte_carlo"`, `at_bounds="clip"` and 1,024 points, which 256 Sobol points match. A
    bandwidth below the floor (one value, or identical ones) is raised to it, and `at_floor` says
    where.

    Choose `bandwidth="leave_one_out"` for distributions of several modes within bounds, once there
    are about 100 values: see `leave_one_out_bandwidth` for its errors. With few values, with heavy
    tails on the whole line or with one mode, Silverman's rule is as good or better. It sees
    rounding.

    Example:
        >>> bounds = torch.tensor([[0.0], [1.0]])
        >>> observed = torch.tensor([[[0.2], [0.5]], [[0.7], [0.7]]])  # R x t x d_w
        >>> weather = KernelDensityEnvironment(observed, bounds, n_w=64, seeds=[0, 1], n_ball=32)
        >>> weather.points.shape, weather.weights.sum(dim=-1), weather.at_floor.flatten()
        (torch.Size([2, 96, 1]), tensor([1., 1.]), tensor([False,  True]))
        >>> weather.condition(torch.rand(2, 1, 1)).density.observed.shape
        torch.Size([2, 3, 1])
    """

    observed: Tensor
    bandwidth: Tensor
    bounds: Tensor | None
    at_floor: Tensor

    def __init__(
        self,
        observed: Tensor,
        bounds: Tensor | None,
        n_w: int,
        seeds: int | Sequence[int],
        bandwidth: Bandwidth | Tensor = "silverman",
        at_bounds: AtBounds = "truncate",
        rule: Rule = "sobol",
        n_ball: int = 0,
        ddof: int = 0,
        relative_floor: float = 1e-3,
    ) -> None:
        r"""Estimates the density and draws the points.

        Args:
            observed: Values of W, `batch_shape x t x d_w`, within the bounds unless clipped.
            bounds: The box, `2 x d_w`, or None for a distribution on the whole space.
            n_w: The number of points in the support.
            seeds: One for each replicate, `batch_shape.numel()` in all.
            bandwidth: `"silverman"`, `"leave_one_out"`, or a tensor `batch_shape x d_w`.
            at_bounds: What happens to kernels at the bounds: `"truncate"`, `"reflect"` or
                `"clip"`; see `KernelDensity`.
            rule: Points of equal weight: `"sobol"`, a scrambled Sobol sequence over kernels and
                quantiles; `"monte_carlo"`, independent draws. Of weights by the density:
                `"quadrature"`, the nodes of Gauss and Legendre on a grid over the bounds: for a
                smooth function of 1 or 2 dimensions far more exact (64 nodes, respectively 256,
                beat 1,024 of the others), if the kernels are not too narrow for the grid.
            n_ball: Further Sobol points over the bounds, of weight 0, where a ball may put mass.
            ddof: 0 or 1, for the standard deviation in Silverman's rule.
            relative_floor: The least bandwidth, relative to the range of the bounds; without
                bounds, of the observed values.

        Raises:
            BotorchTensorDimensionError: If the shapes do not match or are empty.
            InputDataError: If a value is not finite, or outside the bounds and not clipped; or
                without bounds, if all values are the same in a dimension.
            ValueError: If an option is unknown, a number out of its range, seeds do not fit,
                bounds are missing where a ball or a quadrature needs them, or a quadrature does
                not resolve the density.
        """
        observed = as_floating(observed, "observed").detach()
        check_values("observed", observed)
        bounds = as_tensor("bounds", bounds)
        if not isinstance(bandwidth, str):
            bandwidth = as_floating(bandwidth, "bandwidth").detach().clone()
        _check_options(bandwidth, rule, bounds, n_ball)
        if ddof not in (0, 1) or not 0 < relative_floor < math.inf:
            raise ValueError(
                "Expected `ddof` 0 or 1 and a finite `relative_floor` > 0. "
                f"Got {ddof=}, {relative_floor=}."
            )
        if bounds is not None:
            check_bounds(bounds, observed.shape[-1])
            bounds = bounds.detach().to(observed).clone()
            _check_within(observed, bounds, at_bounds)
        floor = relative_floor * _range(observed, bounds)
        wanted = _bandwidth(bandwidth, observed, bounds, at_bounds, ddof, floor)
        width = torch.maximum(wanted, floor)
        box = None if bounds is None else bounds.double()
        kde = KernelDensity(observed.double(), width.double(), box, at_bounds)
        listed = as_seeds(seeds, kde.batch_shape.numel())
        points, weights = _points(kde, rule, n_w, listed)
        if n_ball and box is not None:
            extra = box_points(box, n_ball, listed).reshape(*kde.batch_shape, n_ball, -1)
            points, weights = torch.cat([points, extra], dim=-2), pad(weights, (0, n_ball))
        super().__init__(points.to(observed), weights.to(observed))
        self.register_buffer("observed", observed.clone())
        self.register_buffer("bandwidth", width)
        self.register_buffer("bounds", bounds)
        self.register_buffer("at_floor", wanted < floor)
        self.at_bounds = at_bounds
        self._seeds = listed
        self._options: dict[str, Any] = {
            "n_w": n_w,
            "bandwidth": bandwidth,
            "at_bounds": at_bounds,
            "rule": rule,
            "n_ball": n_ball,
            "ddof": ddof,
            "relative_floor": relative_floor,
        }

    @property
    def density(self) -> KernelDensity:
        r"""The estimate itself, from which the points are drawn."""
        return KernelDensity(self.observed, self.bandwidth, self.bounds, self.at_bounds)

    def condition(
        self, new: Tensor, seeds: int | Sequence[int] | None = None
    ) -> KernelDensityEnvironment:
        r"""The environment once further values of W are observed; this one is left as it is.

        Args:
            new: Further values, `batch_shape x n x d_w`.
            seeds: One for each replicate. Default: the same, so that the points move little.

        Returns:
            An environment with the same options.
        """
        observed = torch.cat([self.observed, new.to(self.observed)], dim=-2)
        listed = self._seeds if seeds is None else seeds
        return KernelDensityEnvironment(observed, self.bounds, seeds=listed, **self._options)

    def log_density(self, W: Tensor) -> Tensor:
        r"""Log density at `batch_shape x n x d_w` values; raises if clipped."""
        return self.density.log_prob(W.to(self.observed).movedim(-2, 0)).movedim(0, -1).to(W)

    @property
    def support_bounds(self) -> Tensor:
        r"""The bounds, `2 x d_w`; without any, a box round the points."""
        return super().support_bounds if self.bounds is None else self.bounds

    def supports(self, W: Tensor) -> Tensor:
        r"""Whether values `batch_shape x n x d_w` are within the bounds, if there are any."""
        return W.isfinite().all(dim=-1) if self.bounds is None else inside(W, self.bounds)

    @property
    def _num_uniforms(self) -> int:
        return 1 + self.observed.shape[-1]

    def _from_uniforms(self, uniforms: Tensor) -> Tensor:
        return self.density.from_uniforms(uniforms)


def _points(kde: KernelDensity, rule: Rule, n_w: int, seeds: list[int]) -> tuple[Tensor, Tensor]:
    r"""Points `batch_shape x n_w x d_w` and weights `batch_shape x n_w` of the estimate."""
    (d_w,) = kde.event_shape
    if rule == "quadrature":
        assert kde.bounds is not None
        axes, lengths = legendre_axes(kde.bounds, points_per_axis(n_w, d_w))
        nodes, volumes = tensor_grid(list(axes.mT)), tensor_grid(list(lengths.mT)).prod(dim=-1)
        values = nodes.reshape(n_w, *[1] * len(kde.batch_shape), d_w)
        masses = kde.log_prob(values).exp().movedim(0, -1) * volumes  # batch_shape x n_w
        return nodes.expand(*kde.batch_shape, n_w, d_w), normalized(masses)
    uniforms = seeded_uniforms(n_w, 1 + d_w, seeds, "environment", quasi=rule == "sobol")
    uniforms = uniforms.reshape(*kde.batch_shape, n_w, 1 + d_w).to(kde.observed)
    points = kde.from_uniforms(uniforms)
    return points, points.new_full(points.shape[:-1], 1 / n_w)


def _bandwidth(
    bandwidth: Bandwidth | Tensor,
    observed: Tensor,
    bounds: Tensor | None,
    at_bounds: AtBounds,
    ddof: int,
    floor: Tensor,
) -> Tensor:
    r"""What the rule asks for before the floor, `batch_shape x d_w`."""
    if isinstance(bandwidth, Tensor):
        return bandwidth.to(observed).expand_as(observed[..., 0, :])
    silverman = silverman_bandwidth(observed, ddof)
    if bandwidth == "silverman":
        return silverman
    best = leave_one_out_bandwidth(observed, floor, bounds, at_bounds)
    return torch.where(silverman < floor, silverman, best)  # nothing was there to choose from


def _range(observed: Tensor, bounds: Tensor | None) -> Tensor:
    r"""What the floor is relative to, `batch_shape x d_w`."""
    if bounds is not None:
        return (bounds[1] - bounds[0]).expand_as(observed[..., 0, :])
    spread = observed.amax(dim=-2) - observed.amin(dim=-2)
    if not (spread > torch.finfo(observed.dtype).eps * observed.abs().amax(dim=-2)).all():
        raise InputDataError(
            "Expected `bounds`, or values of W that differ in every dimension, to tell a bandwidth "
            f"from. Got values that range over {spread.tolist()}."
        )
    return spread


def _check_options(
    bandwidth: Bandwidth | Tensor, rule: Rule, bounds: Tensor | None, n_ball: int
) -> None:
    if rule not in get_args(Rule):
        raise ValueError(f"Expected `rule` to be one of {get_args(Rule)}. Got {rule=}.")
    if isinstance(bandwidth, Tensor):
        if not ((bandwidth > 0) & bandwidth.isfinite()).all():
            raise ValueError(f"Expected a finite `bandwidth` > 0. Got {bandwidth=}.")
    elif bandwidth not in get_args(Bandwidth):
        raise ValueError(
            f"Expected `bandwidth` to be a tensor or one of {get_args(Bandwidth)}. "
            f"Got {bandwidth=}."
        )
    if bounds is None and (n_ball or rule == "quadrature"):
        raise ValueError(f"Expected `bounds` for a ball or a quadrature. Got {n_ball=}, {rule=}.")


def _check_within(observed: Tensor, bounds: Tensor, at_bounds: AtBounds) -> None:
    r"""Kernels around values beyond the bounds make sense only if they are clipped."""
    outside = ((observed < bounds[0]) | (observed > bounds[1])).any(dim=-1)
    if at_bounds != "clip" and outside.any():
        index = tuple(outside.nonzero()[0].tolist())
        raise InputDataError(
            "Expected `observed` to be within the bounds unless at_bounds='clip'. "
            f"Got {observed[index].tolist()} at {index} for {bounds.tolist()=}."
        )
