r"""Local neural surrogate optimisation of a value-at-risk."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from botorch.exceptions.errors import BotorchTensorDimensionError, InputDataError
from torch import Generator, Tensor

from botorch_risk.arguments import (
    as_floating,
    check_bounds,
    check_counts,
    check_positive,
    check_probability,
)
from botorch_risk.environments.uniforms import seeded_uniforms
from botorch_risk.risk import ValueAtRisk
from botorch_risk.seeding import Draws, as_seeds, generators, streams

Function = Callable[[Tensor], Tensor]
Sampler = Callable[[int, Sequence[Generator]], Tensor]

HIDDEN = 30  # units of each of the two layers (Sec. 4.1)


def maximize_value_at_risk(
    function: Function,
    sampler: Sampler,
    bounds: Tensor,
    risk_level: float,
    *,
    seeds: int | Sequence[int],
    num_starts: int = 10,
    raw_samples: int = 256,
    radius: float = 0.1,
    num_steps: int = 50,
    num_training_steps: int = 100,
    num_decisions: int = 50,
    num_samples: int = 10,
    step_size: float = 0.2,
    learning_rate: float = 0.02,
    num_final: int = 1024,
) -> tuple[Tensor, Tensor]:
    r"""Maximise `VaR(h(x, W))` of a cheap function, from samples of W alone.

        g(., theta) = argmin E_x E_W rho(h(x, W) - g(x, theta)),  x uniform in a ball of `radius`
        x <- project(x + step_size dg/dx), with a new ball and theta once x leaves the ball

    where `rho(v) = risk_level v` for `v >= 0` and `(risk_level - 1) v` otherwise is the pinball
    loss, which the quantile minimises. Source: Algorithm 2 of [Nguyen2021vucb]_, Eqs. (7) and
    (14). The surrogate is a network of two hidden layers of 30 sigmoid units.

    It suits distributions that can only be sampled or have many dimensions, and functions without a
    gradient. It is stochastic and needs millions of evaluations of h. If W has quasi-random or
    quantile points and h a gradient, as an upper confidence bound has, prefer
    `RiskUpperConfidenceBound` over a `ContinuousEnvironment` with `optimize_acqf_replicates`: on
    continuous problems of the paper, 64 quantile midpoints come at least as near the maximum and
    are four times faster or more (`bench/reproduction/vucb/continuous.md`).

    Where the paper is silent or slips: its test at line 4 uses `x^(i)` before it is computed, so
    the previous `x` is used here; its delta_x is taken as the radius; it gives no step sizes. Here
    x is on the unit cube, and the network's input is its position in the ball, in radii; h is
    centred and scaled by its values around the start; theta is trained by Adam; the starts are the
    best of some Sobol points; of all starts and ends, the one with the largest value-at-risk over
    `num_final` samples is returned.

    Args:
        function: `h`, from queries `R x m x (d_x + d_w)` to `R x m` values.
        sampler: Maps a number `n` and one generator for each replicate to `R x n x d_w` draws of W,
            such as `environment.sample`.
        bounds: The lower and the upper bounds of x, `2 x d_x`.
        risk_level: Lower-tail probability in (0, 1).
        seeds: One for each of `R` replicates.
        num_starts: Number of starts of each replicate.
        raw_samples: Number of Sobol points from which the starts are chosen.
        radius: Radius of the ball, on the unit cube.
        num_steps: Number of steps of x, the paper's t_v.
        num_training_steps: Number of steps of theta for each ball, t_g.
        num_decisions: Number of draws of x in each step of theta, n_x.
        num_samples: Number of draws of W in each step of theta, n_z.
        step_size: Step of x, in radii for a slope of 1 (the scale of h around the start) per
            radius.
        learning_rate: The learning rate of Adam.
        num_final: Number of draws of W for comparing the starts and the ends.

    Returns:
        The best decision of each replicate, `R x d_x`, and its value-at-risk over `num_final`
        draws, `R`.

    Raises:
        InputDataError: If a value of the function is not finite.

    Example:
        >>> def spread(queries):  # VaR = -(x - 0.5)^2 - 1.28 x
        ...     x, w = queries.unbind(dim=-1)
        ...     return -((x - 0.5) ** 2) + x * w
        >>> def draw(n, generators):
        ...     return torch.stack([torch.randn(n, 1, generator=g) for g in generators])
        >>> X, value = maximize_value_at_risk(
        ...     spread, draw, torch.tensor([[0.0], [1.0]]), 0.1, seeds=0, num_steps=10
        ... )
        >>> bool(X < 0.05)
        True
    """
    check_probability(risk_level=risk_level)
    bounds = as_floating(bounds, "bounds")
    check_bounds(bounds)
    check_counts(num_starts=num_starts, raw_samples=raw_samples, num_steps=num_steps)
    check_counts(num_training_steps=num_training_steps, num_decisions=num_decisions)
    check_counts(num_samples=num_samples, num_final=num_final)
    if num_starts > raw_samples:
        raise ValueError(
            f"Expected as many raw points as starts. Got {num_starts=}, {raw_samples=}."
        )
    check_positive(radius=radius, step_size=step_size, learning_rate=learning_rate)
    target = _Target(function, sampler, bounds.detach(), as_seeds(seeds), ValueAtRisk(risk_level))
    training = _Training(
        target, radius, num_training_steps, num_decisions, num_samples, learning_rate
    )
    listed = streams(target.seeds, "LNSO starts")
    raw = seeded_uniforms(raw_samples, bounds.shape[-1], listed, "LNSO").to(bounds)
    X, starting = _best(raw, target.value_at_risk(raw, num_final), num_starts)
    ends = _ascend(training, X, num_steps, step_size)
    # The surrogate may lead downhill: a start that no end improves on is kept.
    values = torch.cat([target.value_at_risk(ends, num_final), starting], dim=-1)
    best, value = _best(torch.cat([ends, X], dim=-2), values, 1)
    return target.scale_up(best).squeeze(-2), value.squeeze(-1)


def _ascend(training: _Training, X: Tensor, num_steps: int, step_size: float) -> Tensor:
    r"""Algorithm 2 from every start, `R x num_starts x d_x` on the unit cube."""
    radius, centre = training.radius, X
    network = _Networks.draw(training.target, X, training.num_samples)
    for step in range(num_steps):
        left = (X - centre).norm(dim=-1) >= radius * (1 - 1e-9)  # line 4
        moved = torch.full_like(left, True) if step == 0 else left
        if moved.any():
            centre = torch.where(moved.unsqueeze(-1), X, centre)  # line 6
            network = training(network, centre, step, moved)
        slope = network.slope((X - centre) / radius)
        X = (X + step_size * radius * slope).clamp(0, 1)  # lines 14 and 15
    return X


@dataclass(frozen=True)
class _Target:
    r"""The function at decisions on the unit cube and at draws of W."""

    function: Function
    sampler: Sampler
    bounds: Tensor
    seeds: list[int]
    measure: ValueAtRisk

    def scale_up(self, X: Tensor) -> Tensor:
        return self.bounds[0] + (self.bounds[1] - self.bounds[0]) * X

    def draw(self, num_samples: int, stream: str) -> Tensor:
        W = self.sampler(num_samples, generators(self.seeds, "LNSO", stream)).to(self.bounds)
        if W.dim() != 3 or W.shape[:2] != (len(self.seeds), num_samples):
            raise BotorchTensorDimensionError(
                f"Expected `sampler` to draw `{len(self.seeds)} x {num_samples} x d_w`. "
                f"Got {W.shape=}."
            )
        return W

    def values(self, X: Tensor, W: Tensor) -> Tensor:
        r"""Values at all pairs of `R x m x d_x` and `R x n x d_w`, `R x m x n`."""
        shape = (*X.shape[:-1], W.shape[-2])
        decisions = self.scale_up(X).unsqueeze(-2).expand(*shape, X.shape[-1])
        contexts = W.unsqueeze(-3).expand(*shape, W.shape[-1])
        queries = torch.cat([decisions, contexts], dim=-1).flatten(1, 2)
        with torch.no_grad():
            values = self.function(queries)
        if values.shape != queries.shape[:-1]:
            raise BotorchTensorDimensionError(
                f"Expected values of shape `R x m` from `function`. Got {values.shape=} for "
                f"{queries.shape=}."
            )
        if not values.isfinite().all():
            raise InputDataError(
                "Expected finite values of `function`. Got a value that is not finite."
            )
        return values.reshape(shape)

    def value_at_risk(self, X: Tensor, num_samples: int) -> Tensor:
        values = self.values(X, self.draw(num_samples, "comparison"))
        return self.measure(values, values.new_tensor([1 / num_samples]).expand(num_samples))

    def in_ball(self, shape: tuple[int, ...], stream: str) -> Tensor:
        r"""Uniform draws in the unit ball of `d_x` dimensions, `R x shape x d_x`."""
        d_x = self.bounds.shape[-1]
        draws = Draws(self.seeds, "LNSO balls", stream).normals(*shape, d_x + 2)
        normal = torch.as_tensor(draws).to(self.bounds)
        # The first d coordinates of a uniform point of the sphere in d + 2 are uniform in the ball.
        return (normal / normal.norm(dim=-1, keepdim=True))[..., :d_x]


@dataclass(frozen=True)
class _Networks:
    r"""One network for each start of each replicate; x relative to its ball, in radii.

    Attributes:
        parameters: Weights and biases of the three layers, `R x S x ...` each.
        shift: Offset of the network's values, `R x S x 1`.
        scale: Scale of the network's values, `R x S x 1`.
    """

    parameters: list[Tensor]
    shift: Tensor
    scale: Tensor

    @classmethod
    def draw(cls, target: _Target, X: Tensor, num_samples: int) -> _Networks:
        r"""Random weights (line 2); shift and scale from values at the starts."""
        starts, d_x = X.shape[-2:]
        draws = Draws(target.seeds, "LNSO network")
        parameters = []
        for rows, columns in ((d_x, HIDDEN), (HIDDEN, HIDDEN), (HIDDEN, 1)):
            weight = torch.as_tensor(draws.normals(starts, rows, columns))
            parameters += [weight.to(X) * (3 / rows**0.5), X.new_zeros(*X.shape[:-1], 1, columns)]
        parameters[-2] /= 10  # nearly flat at first
        values = target.values(X, target.draw(max(64, num_samples), "scale"))
        scale = values.std(dim=-1, keepdim=True).clamp_min(1e-12)
        return cls(parameters, values.mean(dim=-1, keepdim=True), scale)

    def __call__(self, Z: Tensor) -> Tensor:
        r"""Standardised values at `R x S x n x d_x`, `R x S x n`."""
        w_1, b_1, w_2, b_2, w_3, b_3 = self.parameters
        hidden = torch.sigmoid(torch.sigmoid(Z @ w_1 + b_1) @ w_2 + b_2)
        return (hidden @ w_3 + b_3).squeeze(-1)

    def slope(self, Z: Tensor) -> Tensor:
        Z = Z.detach().unsqueeze(-2).requires_grad_()
        (gradient,) = torch.autograd.grad(self(Z).sum(), Z)
        return gradient.squeeze(-2)

    def take(self, index: Tensor) -> _Networks:
        parameters = [_rows(part, index).clone().requires_grad_() for part in self.parameters]
        return _Networks(parameters, _rows(self.shift, index), _rows(self.scale, index))

    def put(self, index: Tensor, other: _Networks, where: Tensor) -> _Networks:
        parameters = []
        for old, new in zip(self.parameters, other.parameters, strict=True):
            kept = where[..., None, None]
            new = torch.where(kept, new.detach(), _rows(old, index))
            parameters.append(old.scatter(1, index[..., None, None].expand(new.shape), new))
        return _Networks(parameters, self.shift, self.scale)


@dataclass(frozen=True)
class _Training:
    r"""Fits networks to the quantiles in a ball (lines 5 to 12)."""

    target: _Target
    radius: float
    num_steps: int
    num_decisions: int
    num_samples: int
    learning_rate: float

    def __call__(self, network: _Networks, centre: Tensor, step: int, moved: Tensor) -> _Networks:
        r"""Networks for balls round `R x S x d_x`, refitted if the ball has moved."""
        # Replicates with fewer balls to fit are padded by some that stay.
        index = moved.to(torch.uint8).argsort(dim=-1, descending=True, stable=True)
        index = index[:, : int(moved.sum(dim=-1).max())]  # R x k
        trained, centre = network.take(index), _rows(centre, index).unsqueeze(-2)
        optimizer = torch.optim.Adam(trained.parameters, lr=self.learning_rate)
        for iteration in range(self.num_steps):
            stream = f"{step}, {iteration}"
            inside = self.target.in_ball((moved.shape[-1], self.num_decisions), stream)
            X = (centre + self.radius * _rows(inside, index)).clamp(0, 1)  # line 9
            W = self.target.draw(self.num_samples, stream)  # line 8
            values = self.target.values(X.flatten(1, 2), W).reshape(*X.shape[:-1], -1)
            values = (values - trained.shift.unsqueeze(-1)) / trained.scale.unsqueeze(-1)
            optimizer.zero_grad()
            excess = values - trained((X - centre) / self.radius).unsqueeze(-1)
            level = self.target.measure.risk_level
            pinball = torch.maximum(level * excess, (level - 1) * excess)
            pinball.mean(dim=(-2, -1)).sum().backward()  # Eq. (14) of each network
            optimizer.step()
        return network.put(index, trained, moved.gather(-1, index))


def _rows(values: Tensor, index: Tensor) -> Tensor:
    index = index.reshape(*index.shape, *(1 for _ in values.shape[2:]))
    return values.gather(1, index.expand(*index.shape[:2], *values.shape[2:]))


def _best(X: Tensor, values: Tensor, count: int) -> tuple[Tensor, Tensor]:
    top, index = values.topk(count, dim=-1)
    return X.gather(-2, index.unsqueeze(-1).expand(*index.shape, X.shape[-1])), top
