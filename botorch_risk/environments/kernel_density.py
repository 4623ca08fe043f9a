r"""Learn the distribution of W from observed values by kernel density estimation.

W with columns of labels, alone or next to numbers, is learnt by `label_frequencies`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal, get_args

import numpy as np
import torch
from botorch.exceptions.errors import InputDataError
from numpy import ndarray
from torch import Tensor
from torch.nn.functional import pad

from botorch_risk.arguments import (
    as_floating,
    as_tensor,
    check_bounds,
    check_counts,
    check_kind,
    check_rows,
    first_index,
    in_short,
)
from botorch_risk.engine import minimize_rows
from botorch_risk.environments.density import AtBounds, KernelDensity
from botorch_risk.environments.environment import IndependentEnvironment, inside
from botorch_risk.environments.uniforms import (
    box_points,
    legendre_axes,
    normalized,
    points_per_axis,
    seeded_uniforms,
    tensor_grid,
)
from botorch_risk.seeding import as_seeds
from botorch_risk.steady import expect, sent

Rule = Literal["sobol", "monte_carlo", "quadrature"]
Bandwidth = Literal["silverman", "leave_one_out"]


class KernelDensityEnvironment(IndependentEnvironment):
    r"""The kernel density estimate of observed values of W, and points drawn from it.

    The distribution of W in SBO-KDE and DRBO-KDE, Sec. 3 and B.1 of [Huang2024kde]_; the paper uses
    `rule="monte_carlo"`, `at_bounds="clip"` and 1,024 points, which 256 Sobol points match. A
    bandwidth below the floor (from one value, or identical ones) is raised to it: see `at_floor`.

    Choose `bandwidth="leave_one_out"`, which allows for rounded values, for distributions of
    several modes within bounds, once there are about 100 values: see `leave_one_out_bandwidth` for
    its errors. With few values, with heavy tails on the whole line or with one mode, Silverman's
    rule is as good or better.

    Args:
        observed: Values of W, `batch_shape x t x d_w`, within the bounds unless clipped.
        bounds: The box, `2 x d_w`, or None for a distribution on the whole space.
        n_w: The number of points in the support.
        seeds: One for each replicate, `batch_shape.numel()` in all.
        bandwidth: `"silverman"`, `"leave_one_out"`, or a tensor `batch_shape x d_w`.
        at_bounds: The treatment of kernels at the bounds: `"truncate"`, `"reflect"` or `"clip"`;
            see `KernelDensity`.
        rule: Points of equal weight: `"sobol"`, a scrambled Sobol sequence over kernels and
            quantiles; `"monte_carlo"`, independent draws. Points weighted by the density:
            `"quadrature"`, Gauss-Legendre nodes on a grid over the bounds: far more exact for a
            smooth function of 1 or 2 dimensions (where 64 or 256 nodes beat 1,024 other points),
            unless kernels are too narrow for it.
        n_ball: Number of further Sobol points over the bounds, of weight 0, for a ball's mass.
        ddof: 0 or 1, for the standard deviation in Silverman's rule.
        relative_floor: The smallest bandwidth, relative to the range of the bounds or, without
            bounds, of the observed values.

    Raises:
        InputDataError: If a value is outside the bounds and not clipped, or if there are no bounds
            and all values are the same in a dimension.
        ValueError: If a quadrature does not resolve the density.

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
        observed = as_floating(observed, "observed").detach()
        check_rows("observed", observed)
        check_counts(n_w=n_w)
        check_counts(0, n_ball=n_ball)
        bounds = as_tensor("bounds", bounds)
        if not isinstance(bandwidth, str):
            bandwidth = as_floating(bandwidth, "bandwidth").detach().clone()
        _check_options(bandwidth, rule, bounds, n_ball)
        if ddof not in (0, 1) or not 0 < as_floating(relative_floor, "relative_floor") < math.inf:
            raise ValueError(
                "Expected `ddof` 0 or 1 and a finite `relative_floor` > 0. "
                f"Got ddof={in_short(ddof)}, relative_floor={in_short(relative_floor)}."
            )
        if bounds is not None:
            check_bounds(bounds, observed.shape[-1])
            bounds = bounds.detach().to(observed).clone()
            _check_within(observed, bounds, at_bounds)
        floor = relative_floor * _range(observed, bounds)
        wanted = _bandwidth(bandwidth, observed, bounds, at_bounds, ddof, floor)
        width = torch.maximum(wanted, floor)
        box = None if bounds is None else bounds.double()
        kde = KernelDensity(observed.double(), width.double(), box, at_bounds, validate_args=False)
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
        return KernelDensity(self.observed, self.bandwidth, self.bounds, self.at_bounds)

    def condition(
        self, new: Tensor, seeds: int | Sequence[int] | None = None
    ) -> KernelDensityEnvironment:
        r"""An environment with the same options and further values `batch_shape x n x d_w` of W.

        `seeds` has one for each replicate; by default the seeds are kept, so points move little.
        """
        new = as_floating(new, "new").to(self.observed)
        observed = torch.cat([self.observed, new], dim=-2)
        listed = self._seeds if seeds is None else seeds
        return KernelDensityEnvironment(observed, self.bounds, seeds=listed, **self._options)

    def log_density(self, W: Tensor) -> Tensor:
        W = self.as_values(W)
        return self.density.log_prob(W.to(self.observed).movedim(-2, 0)).movedim(0, -1).to(W)

    @property
    def support_bounds(self) -> Tensor:
        r"""The bounds, `2 x d_w`; if there are none, the range of the points."""
        return super().support_bounds if self.bounds is None else self.bounds

    def supports(self, W: Tensor) -> Tensor:
        W = self.as_values(W)
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
    uniforms = uniforms.reshape(*kde.batch_shape, n_w, 1 + d_w)
    uniforms = sent(uniforms, kde.observed.device).to(kde.observed)
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
    r"""The bandwidth of the rule before the floor, `batch_shape x d_w`."""
    if isinstance(bandwidth, Tensor):
        return bandwidth.to(observed).expand_as(observed[..., 0, :])
    silverman = silverman_bandwidth(observed, ddof)
    if bandwidth == "silverman":
        return silverman
    best = leave_one_out_bandwidth(observed, floor, bounds, at_bounds)
    return torch.where(silverman < floor, silverman, best)  # nothing was there to choose from


def _range(observed: Tensor, bounds: Tensor | None) -> Tensor:
    if bounds is not None:
        return (bounds[1] - bounds[0]).expand_as(observed[..., 0, :])
    spread = observed.amax(dim=-2) - observed.amin(dim=-2)
    if not (spread > torch.finfo(observed.dtype).eps * observed.abs().amax(dim=-2)).all():
        raise InputDataError(
            "Expected `bounds`, or values of W that differ in every dimension, to derive a "
            f"bandwidth from. Got values that range over {in_short(spread)}."
        )
    return spread


def _check_options(
    bandwidth: Bandwidth | Tensor, rule: Rule, bounds: Tensor | None, n_ball: int
) -> None:
    check_kind(Rule, rule=rule)
    if isinstance(bandwidth, Tensor):
        if not ((bandwidth > 0) & bandwidth.isfinite()).all():
            raise ValueError(f"Expected a finite `bandwidth` > 0. Got {in_short(bandwidth)}.")
    elif bandwidth not in get_args(Bandwidth):
        raise ValueError(
            f"Expected `bandwidth` to be a tensor or one of {get_args(Bandwidth)}. "
            f"Got {bandwidth=}."
        )
    if bounds is None and (n_ball or rule == "quadrature"):
        raise ValueError(f"Expected `bounds` for a ball or a quadrature. Got {n_ball=}, {rule=}.")


def _check_within(observed: Tensor, bounds: Tensor, at_bounds: AtBounds) -> None:
    outside = (observed < bounds[0]) | (observed > bounds[1])

    def refuse() -> None:
        index = first_index(outside)
        raise InputDataError(
            "Expected `observed` to be within the bounds unless at_bounds='clip'. "
            f"Got {observed[index].item()} at {index}, outside {bounds[:, index[-1]].tolist()}."
        )

    if at_bounds != "clip":
        expect(~outside.any(), refuse)


NARROWEST, WIDEST = 0.02, 3.0  # multiples of Silverman's bandwidth among which a better one lies
# Of the rounding step: narrower kernels leave gaps between the values that instruments show.
RESOLVED = 0.4


def silverman_bandwidth(observed: Tensor, ddof: int = 0) -> Tensor:
    r"""Silverman's rule of thumb in each dimension.

        h(i) = (4 / (d_w + 2)) ** (1 / (d_w + 4)) * sd(i) * t ** (-1 / (d_w + 4))

    Sec. B.1 of [Huang2024kde]_. It is right for a normal distribution, and too wide for one of
    several modes.

    Args:
        observed: Values of W, `batch_shape x t x d_w`.
        ddof: 0 for the standard deviation of a population (default), 1 of a sample.

    Returns:
        `batch_shape x d_w`; 0, up to rounding, if the values are identical or there are no more
        than `ddof`.
    """
    observed = as_floating(observed, "observed")
    t, d_w = observed.shape[-2:]
    if ddof not in (0, 1):
        raise ValueError(f"Expected `ddof` 0 or 1. Got {in_short(ddof)}.")
    if t <= ddof:
        return torch.zeros_like(observed[..., 0, :])
    factor = (4 / (d_w + 2)) ** (1 / (d_w + 4)) * t ** (-1 / (d_w + 4))
    return factor * observed.std(dim=-2, correction=ddof)


def leave_one_out_bandwidth(
    observed: Tensor, floor: Tensor, bounds: Tensor | None = None, at_bounds: AtBounds = "truncate"
) -> Tensor:
    r"""The bandwidth under which each observed value is likely given the others.

        h = argmax_h sum_i log( sum_{j != i} K_h(w_i - w_j) / (t - 1) )

    On the eight-mode distribution of [Huang2024kde]_, Sec. B.2, cut to [0, 1], the l1 error of
    the density falls from 0.40 by Silverman's rule to 0.20 at t = 300, and from 0.45 to 0.32 at
    t = 100; at t = 10, or on a normal distribution, the error is up to a tenth larger. On the whole
    line with Cauchy tails it gains nothing.

    Values that are equal make the likelihood infinite at h = 0. If a column is rounded (some values
    equal, all others multiples of a step apart), each value counts as one somewhere in its cell,
    and h is at least 0.4 steps. On a normal distribution of standard deviation 0.1, rounded to 0.1,
    the l1 error at t = 100 is then 0.19 (0.15 unrounded; 1.29 without this care), on the eight-mode
    one 0.33 (0.29; 0.89). Other equal values, such as a context that is observed twice, are not
    evidence for each other. If W by nature takes few values, use a `DiscreteEnvironment` or an
    `EmpiricalGrid` instead.

    Each dimension has its own bandwidth: a local maximum near Silverman's or near a third of it,
    whichever is better. The memory holds `batch_shape x t x t x d_w` numbers. A clipped estimate
    has no density, so its bandwidth is found without bounds.

    Args:
        observed: Values of W, `batch_shape x t x d_w`. With fewer than three, Silverman's rule.
        floor: The smallest bandwidth, `batch_shape x d_w`.
        bounds: The box, `2 x d_w`, or None.
        at_bounds: The treatment of mass outside the bounds.

    Returns:
        `batch_shape x d_w`.
    """
    observed = as_floating(observed, "observed")
    floor, bounds = as_tensor("floor", floor), as_tensor("bounds", bounds)
    silverman = torch.maximum(silverman_bandwidth(observed), floor)
    if observed.shape[-2] < 3:
        return silverman
    t, d_w = observed.shape[-2:]
    rows = observed.detach().double().reshape(-1, t, d_w)
    box = None if bounds is None or at_bounds == "clip" else bounds.to(rows)
    step = rounding_step(rows)
    others = ~copies(rows, step)
    rows = spread_within_cells(rows, step, box)
    reference = torch.maximum(silverman.double().reshape(-1, d_w), RESOLVED * step)
    least = torch.maximum(floor.double().reshape(-1, d_w), NARROWEST * reference)
    least = torch.maximum(least, RESOLVED * step)

    def loss(log_h: ndarray, index: ndarray) -> tuple[ndarray, ndarray]:
        parameter = torch.from_numpy(log_h).to(rows).requires_grad_()
        replicate = index % len(rows)
        kde = KernelDensity(rows[replicate], parameter.exp(), box, at_bounds)
        values = -_leave_one_out(kde, others[replicate])
        (gradient,) = torch.autograd.grad(values.sum(), parameter)
        return values.detach().cpu().numpy(), gradient.cpu().numpy()

    starts = torch.cat([reference, torch.maximum(reference / 3, least)]).log().cpu().numpy()
    lower, upper = least.log().cpu().numpy(), (WIDEST * reference).log().cpu().numpy()
    found = minimize_rows(loss, starts, np.tile(lower, (2, 1)), np.tile(upper, (2, 1)))
    values = found.value.reshape(2, -1)
    x = found.x.reshape(2, -1, d_w)[values.argmin(axis=0), np.arange(values.shape[1])]
    return torch.from_numpy(x).exp().reshape(silverman.shape).to(observed)


def _leave_one_out(kde: KernelDensity, others: Tensor) -> Tensor:
    r"""Mean log density of each observed value under its `others`, `batch_shape`.

    A value without others adds nothing; if every value is a copy of one, this holds for all.
    """
    values = kde.observed.movedim(-2, 0)  # t x batch_shape x d_w
    logs = kde.kernel_log_prob(values).movedim(0, -2)  # batch_shape x t x t
    count = others.sum(dim=-1)
    known = count > 0
    logs = logs.masked_fill(~others & known.unsqueeze(-1), -torch.inf).logsumexp(dim=-1)
    logs = (logs - count.clamp_min(1).log()).where(known, 0.0)
    return logs.sum(dim=-1) / known.sum(dim=-1).clamp_min(1)


# Observed values that are rounded or repeated, which a likelihood of a bandwidth must know.
#
# The likelihood that each value has given the others grows without bound as the bandwidth shrinks
# where values are equal: it would learn the instrument's last digit, or that a value was copied.


_EQUAL = 1e-9  # of the range of a column: values nearer than this are one
_ON_LATTICE = 1e-3  # of a spacing: as near as a value must be to a multiple of it


def rounding_step(observed: Tensor) -> Tensor:
    r"""The step to which the values of a column were rounded, `batch_shape x d_w`.

    A column counts as rounded if values repeat and all differ by multiples of one step, the
    smallest difference. Otherwise the step is 0.
    """
    ordered = observed.sort(dim=-2).values
    equal = _EQUAL * (ordered[..., -1:, :] - ordered[..., :1, :])
    gaps = ordered.diff(dim=-2)
    repeats = (gaps <= equal).any(dim=-2)
    step = gaps.masked_fill(gaps <= equal, torch.inf).amin(dim=-2)  # inf in a constant column
    multiples = (ordered - ordered[..., :1, :]) / step.unsqueeze(-2)
    on_lattice = ((multiples - multiples.round()).abs() <= _ON_LATTICE).all(dim=-2)
    return step.where(repeats & on_lattice & step.isfinite(), 0.0)


def spread_within_cells(observed: Tensor, step: Tensor, bounds: Tensor | None) -> Tensor:
    r"""Spread values that rounding made equal evenly over their cell, inside the bounds.

    The same values always move to the same places.
    """
    if not (step > 0).any():
        return observed
    t, d_w = observed.shape[-2:]
    uniforms = seeded_uniforms(t, d_w, seeds=0, stream="rounding").to(observed)
    moved = observed + step.unsqueeze(-2) * (uniforms - 0.5)
    if bounds is not None:
        lower, upper = bounds
        moved = lower + (moved - lower).abs()
        moved = upper - (upper - moved).abs()
    return moved


def copies(observed: Tensor, step: Tensor) -> Tensor:
    r"""A mask of values that are copies of each other: equal, but not because of rounding.

    `batch_shape x t x t` booleans, each value a copy of itself. Columns that are constant or
    rounded are no evidence of copies.
    """
    extent = observed.amax(dim=-2) - observed.amin(dim=-2)  # batch_shape x d_w
    tells = (step == 0) & (extent > 0)
    apart = (observed.unsqueeze(-2) - observed.unsqueeze(-3)).abs()
    equal = (apart <= (_EQUAL * extent)[..., None, None, :]) & tells[..., None, None, :]
    itself = torch.eye(observed.shape[-2], dtype=torch.bool, device=observed.device)
    return equal.any(dim=-1) | itself
