r"""Try at the end of a fit whether its noise is variation along one input, or the reverse."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import numpy as np
from numpy import ndarray

from botorch_risk.engine.fit.objective import MarginalLikelihoodObjective
from botorch_risk.engine.fit.starts import Starts
from botorch_risk.engine.progress import advance, enter
from botorch_risk.engine.projected_bfgs.minima import Minima
from botorch_risk.steady import steady

# The fewest points for which inputs are tried. Few points do not tell fast variation from noise,
# and their fits are made again and again in a loop.
FEWEST = 300
# The factors of the lengthscale of that input and of the noise: fast waves instead of most of the
# noise, a faster trend instead of little of it, and noise instead of an input. With the first, 6 of
# 12 fits of a scaled Matern kernel to 300 to 700 points of Levy's function of four inputs, with a
# fifth of its deviation as noise, end 0.03 to 0.07 nats a point higher. With the second, two of 29
# fits to real tables end higher by 0.008 and 0.002, with the third one to a noisy function of
# Michalewicz. Elsewhere each costs one value per input.
TRIALS = ((0.2, 0.4), (0.4, 0.95), (50.0, 2.0))

Minimize = Callable[[Starts], Minima]


class Ends:
    r"""The minima of a fit to all points, to which further ones are added.

    `rows` has the row of each minimum; `minimize` minimises the objective from starts.
    """

    def __init__(
        self,
        objective: MarginalLikelihoodObjective,
        minima: Minima,
        rows: ndarray,
        minimize: Minimize,
    ) -> None:
        self.objective, self.minima, self.rows, self.minimize = objective, minima, rows, minimize
        self.count = len(objective.num_observed)

    @property
    def best(self) -> ndarray:
        r"""The lowest minimum of each replicate, as an index among the minima, `R`."""
        values = np.nan_to_num(self.minima.value, nan=np.inf)
        order = np.argsort(-values, kind="stable")  # so that the lowest one remains
        found = np.zeros(self.count, dtype=np.int64)
        found[self.rows[order] % self.count] = order
        return found

    def extended(self, starts: ndarray, replicates: ndarray) -> ndarray:
        r"""Minimise from the lowest of several starts if this start is below the lowest minimum.

        `starts` are `r x s x p` parameters of `r` replicates in ascending order. Returns the
        replicates for which a minimum was added.
        """
        r, s, p = starts.shape
        rows = np.arange(s)[:, None] * self.count + replicates
        enter("variation along an input is tried for noise, and the reverse")
        with steady():
            values = self.objective.values(starts.swapaxes(0, 1).reshape(s * r, p), rows.ravel())
        advance(s * r)
        values = np.nan_to_num(values.reshape(s, r), nan=np.inf)
        best = self.best[replicates]
        self.minima.num_evaluations[best] += s
        lowest = self.minima.value[best]
        is_lower = values.min(axis=0) < np.nan_to_num(lowest, nan=np.inf)
        chosen = replicates[is_lower]
        if not chosen.size:
            return chosen
        theta = starts[is_lower, values.argmin(axis=0)[is_lower]]
        shifted = (self.rows[-1] // self.count + 1) * self.count + chosen
        self.minima = self.minima.joined(self.minimize(Starts(theta, shifted, self.count)))
        self.rows = np.concatenate([self.rows, shifted])
        return chosen


def try_input_or_noise(ends: Ends) -> None:
    r"""Try other lengthscales of each input and other noise, until no trial is better."""
    objective = ends.objective
    slices = {one.name: s for one, s in zip(objective.moved, objective.slices, strict=True)}
    if "lengthscale" not in slices:
        return
    columns = range(*slices["lengthscale"].indices(objective.num_parameters))
    replicates = np.flatnonzero(~objective.lost & (objective.num_observed >= FEWEST))
    for _ in columns:
        if not replicates.size:
            return
        end = ends.minima.x[ends.best[replicates]][:, None]
        trials = np.repeat(end, len(TRIALS) * len(columns), axis=1)
        for trial, ((lengthscale, noise), column) in enumerate(product(TRIALS, columns)):
            trials[:, trial, column] += np.log(lengthscale)
            if "noise" in slices:
                trials[:, trial, slices["noise"]] += np.log(noise)
        low, high = (bound[:, None] for bound in objective.bounds(replicates))
        replicates = ends.extended(np.clip(trials, low, high), replicates)
