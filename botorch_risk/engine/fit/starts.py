r"""Choose the starts of the fits of replicates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from botorch.exceptions.errors import BotorchTensorDimensionError
from numpy import ndarray
from torch import Size

from botorch_risk.engine.fit.priors import draw
from botorch_risk.engine.fit.results import Optimum
from botorch_risk.engine.projected_bfgs.minima import Minima, RowStatus
from botorch_risk.seeding import Draws, as_seeds

if TYPE_CHECKING:
    from botorch_risk.engine.fit.fit_objective import FitObjective
    from botorch_risk.engine.fit.objective import MarginalLikelihoodObjective

# From the start of the fit to the second one: a function that moves faster and is known better.
# Of the data that a loop collects this start often finds the better of two explanations.
ROUGHER = {"lengthscale": 0.3, "noise": 0.1}
# Starts for targets that are not standardised: the shares of noise and of signal in their variance,
# and the factor of the lengthscales. One for a rough function that is known well, and one for a
# smooth one below noise.
IN_UNITS_OF_TARGETS = (
    {"noise": 1e-3, "outputscale": 1.0, "lengthscale": 0.5},
    {"noise": 1.0, "outputscale": 1.0, "lengthscale": 3.0},
)


class Starts(NamedTuple):
    r"""Starts of several replicates.

    Args:
        theta: Parameters, `rows x p`.
        rows: The row of each start among `R` times their number; replicates may have fewer starts.
        num_replicates: The number `R`.
        metric: Approximate inverse Hessians there, `rows x p x p`, if they are known.
    """

    theta: ndarray
    rows: ndarray
    num_replicates: int
    metric: ndarray | None = None

    @property
    def own(self) -> Starts:
        r"""The first start of each replicate."""
        count = self.num_replicates
        return Starts(self.theta[:count], self.rows[:count], count)

    def followed_by(self, other: Starts) -> Starts:
        r"""These starts, then the starts of another list."""
        taken = self.rows[-1] // self.num_replicates + 1
        first, second = (
            np.full((len(each.theta), *(each.theta.shape[1:] * 2)), np.nan)
            if each.metric is None
            else each.metric
            for each in (self, other)
        )
        return Starts(
            np.concatenate([self.theta, other.theta]),
            np.concatenate([self.rows, taken * self.num_replicates + other.rows]),
            self.num_replicates,
            np.concatenate([first, second]),
        )

    def filled(self, count: int) -> Starts:
        r"""These starts, filled up to `count` with copies of the last one."""
        kept = np.minimum(np.arange(count), len(self.rows) - 1)
        metric = None if self.metric is None else self.metric[kept]
        return self._replace(theta=self.theta[kept], rows=self.rows[kept], metric=metric)

    def of(self, chosen: ndarray) -> Starts:
        r"""The starts of the replicates that a mask `R` chooses."""
        kept = chosen[self.rows % self.num_replicates]
        metric = None if self.metric is None else self.metric[kept]
        return self._replace(theta=self.theta[kept], rows=self.rows[kept], metric=metric)


def make_starts(
    objective: MarginalLikelihoodObjective,
    batch_shape: Size,
    rougher: Mapping[str, float] | None,
    restarts: Sequence[Draws] = (),
) -> Starts:
    r"""Collect the model's own values, a rough start and draws; more for raw targets.

    `rougher` has the factors that make a second start from the first, by hyperparameter; None for
    no second start. `restarts` has the stream of each further start.
    """
    moved = objective.moved
    own = objective.own()
    blocks = [own]
    if rougher is not None:
        shift = [np.full(h.size, np.log(rougher.get(h.name, 1.0))) for h in moved]
        blocks.append(own + np.concatenate(shift))
    blocks += [_drawn(objective, own, draws, batch_shape) for draws in restarts]
    every, replicates = np.concatenate(blocks), np.arange(len(own))
    far = replicates[~(objective.units.is_standard | objective.lost)]
    if not far.size:
        return Starts(every, np.arange(len(every)), len(own))
    scaled = [_in_units_of_targets(objective, own, shares)[far] for shares in IN_UNITS_OF_TARGETS]
    rows = [len(every) + k * len(own) + far for k in range(len(scaled))]
    every_row = np.concatenate([np.arange(len(every)), *rows])
    return Starts(np.concatenate([every, *scaled]), every_row, len(own))


def draws_of_restarts(
    batch_shape: Size, num_restarts: int, seeds: int | Sequence[int] | None
) -> Sequence[Draws]:
    r"""The streams of further starts."""
    if num_restarts == 0:
        return ()
    if seeds is None:
        raise ValueError(f"Expected `seeds` to draw restarts from. Got {num_restarts=}, {seeds=}.")
    return num_restarts * [Draws(as_seeds(seeds, batch_shape.numel()), "restarts of a fit")]


def _in_units_of_targets(
    objective: MarginalLikelihoodObjective, own: ndarray, shares: Mapping[str, float]
) -> ndarray:
    start, variance = own.copy(), objective.units.scale[:, None] ** 2
    for one, slice_ in zip(objective.moved, objective.slices, strict=True):
        if one.name == "constant":
            start[:, slice_] = 0.0  # about the centre
        elif one.name == "lengthscale":  # its unit is the inputs', so the model's start will do
            start[:, slice_] += np.log(shares[one.name])
        else:
            start[:, slice_] = np.log(shares[one.name] * variance)
    return start


def _drawn(
    objective: MarginalLikelihoodObjective, own: ndarray, draws: Draws, batch_shape: Size
) -> ndarray:
    r"""Parameters `R x p` from the priors, or around the first starts without them."""
    rows: ndarray = own + draws.normals(own.shape[1])
    centre, scale = objective.units.centre[:, None], objective.units.scale[:, None]
    for h, slice_ in zip(objective.moved, objective.slices, strict=True):
        for prior in h.priors:
            drawn = draw(prior, h.raw.shape, batch_shape, draws)
            if drawn is not None:
                rows[:, slice_] = np.log(drawn) if h.is_positive else (drawn - centre) / scale
    return rows


# The factor by which data may grow before a fit uses its other starts again: the optimum moves
# little from round to round, but over many another one may have become the better one.
GROWTH = 1.25
# While there are no more points than this, several explanations of the data compete: noise and
# roughness, unless repeats tell the noise. Where they did, the other starts ended higher than the
# warm one in three of 576 fits of a loop, by 0.4 nats at most.
FEW = 16
# The most that the logarithm of a hyperparameter may move before the landscape is another one.
FAR = float(np.log(2.0))


def warm_starts(objective: FitObjective, previous: Optimum) -> Starts:
    r"""One start for each replicate, with the curvature that is known there."""
    expected = (len(objective.num_observed), objective.num_parameters)
    if previous.theta.shape != expected:
        raise BotorchTensorDimensionError(
            "Expected `previous` to have the same replicates and hyperparameters, `R x p` = "
            f"{expected}. Got {tuple(previous.theta.shape)}."
        )
    theta, metric = (x.cpu().double().numpy() for x in (previous.theta, previous.metric))
    # A start of NaN fails at once; such a replicate is due, so its other starts count.
    theta = np.where(previous.fresh_at.cpu().numpy()[:, None] > 0, theta, np.nan)
    return Starts(theta, np.arange(len(theta)), len(theta), metric)


def is_due(objective: FitObjective, previous: Optimum, compete: bool | ndarray = True) -> ndarray:
    r"""The replicates that need their other starts in any case, a mask `R`."""
    count, fresh_at = objective.num_observed, previous.fresh_at.cpu().numpy()
    due: ndarray = (compete & (count <= FEW)) | (count >= GROWTH * fresh_at)
    return due


def has_moved(previous: Optimum, found: Minima) -> ndarray:
    r"""The replicates whose warm starts ended far from where they began, a mask `R`."""
    moved = np.abs(found.x - previous.theta.cpu().double().numpy()).max(axis=1, initial=0.0)
    stayed: ndarray = (moved <= FAR) & (found.status == RowStatus.CONVERGED)  # False for NaN
    return ~stayed
