r"""The objective of a fit, and the way from the starts to the result."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np
import torch
from numpy import ndarray
from torch import Size, Tensor

from botorch_risk.engine.fit.results import FitResult, FitStatus, Optimum
from botorch_risk.engine.fit.starts import ROUGHER, Starts, has_moved, is_due, warm_starts
from botorch_risk.engine.progress import advance, enter, reporting
from botorch_risk.engine.projected_bfgs import minimize_rows
from botorch_risk.engine.projected_bfgs.minima import Minima, RowStatus
from botorch_risk.engine.recorded import Portable
from botorch_risk.steady import sent, steady

# No step changes the logarithm of a hyperparameter by more than this: a longer one leaves the
# basin of the start on the strength of one gradient.
MAX_LOG_STEP = 4.0

# Nor has a start converged while its next step promises more than this, per observed point: towards
# a hyperparameter of 0 or infinity the objective flattens as an exponential does.
PROMISE = 1e-7
# The error of the objective in units of its precision, where covariance matrices are
# ill-conditioned: 1e-9. In values it hides far longer steps of a hyperparameter than in gradients.
NOISE = 5e6

_DEFAULTS = {
    "decrease_tolerance": PROMISE,
    "max_step": MAX_LOG_STEP,
    "hope": np.inf,  # a likelihood has long flat valleys, whose slopes promise little
}

_STATUS: dict[int, tuple[FitStatus, str]] = {
    RowStatus.CONVERGED: (FitStatus.CONVERGED, ""),
    RowStatus.ITERATION_LIMIT: (FitStatus.ITERATION_LIMIT, ""),
    RowStatus.STALLED: (FitStatus.STALLED, "no step along the gradient raises the objective"),
    RowStatus.FAILED: (
        FitStatus.FAILED,
        "the objective is not finite at any start: is the covariance matrix positive definite?",
    ),
}


def _rows_of_a_shape(number: int) -> int:
    r"""The number of rows that are computed for so many: 1, 2, 3, 4, 6, 8, 12, 16, ...

    Which replicates use several starts changes from round to round; a recording has one shape.
    """
    power = 1 << (number - 1).bit_length()
    return 3 * power // 4 if number <= 3 * power // 4 and power >= 4 else power


class FitObjective(ABC):
    r"""A loss over rows of parameters, several starts for each of `R` replicates.

    Row `i` belongs to replicate `i % R`. A subclass defines the attributes and the abstract
    methods; `maximize` runs the fit.

    Attributes:
        like: A tensor of the dtype and on the device of the model.
        batch_shape: The batch shape of the model.
        num_observed: The number of data of each replicate, `R`.
        num_parameters: The number `p` of parameters in a row.
        precision: The relative rounding error of the loss.
        rougher: The factors that make a second start from the first, by hyperparameter.
    """

    like: Tensor
    batch_shape: Size
    num_observed: ndarray
    num_parameters: int
    precision: float
    rougher: ClassVar[Mapping[str, float]] = ROUGHER

    @abstractmethod
    def __call__(self, theta: ndarray, rows: ndarray) -> tuple[ndarray, ndarray]:
        r"""The loss per datum, `rows`, and its gradient, `rows x p`, at parameters `rows x p`.

        `rows` has the row of each, ascending. A value that is not finite marks a row that fails.
        """

    def portable(self, rows: ndarray) -> Portable | None:
        r"""The loss of these rows as a function of tensors on a device; None if there is none."""
        return None

    @abstractmethod
    def bounds(self, rows: ndarray) -> tuple[ndarray, ndarray]:
        r"""Lower and upper bounds of the parameters, `rows x p` each."""

    @abstractmethod
    def broken_data(self) -> dict[int, str]:
        r"""The replicates that cannot be fitted, each with the reason."""

    @abstractmethod
    def write(self, theta: ndarray, keep: ndarray, rows: ndarray | None = None) -> ndarray:
        r"""Set the model's hyperparameters to `R x p` parameters, except for replicates in `keep`.

        Returns the parameters again. `rows` gives the row of each, if it is not its replicate.
        """

    def maximize(
        self,
        starts: Callable[[ndarray], Starts],
        previous: Optimum | None,
        options: Mapping[str, Any],
        compete: bool | ndarray = True,
        revise: Callable[[Minima, ndarray], tuple[Minima, ndarray]] | None = None,
    ) -> FitResult:
        r"""Maximise from the starts, or from where the previous fit ended, and keep the best end.

        `starts` makes the starts for the replicates of a mask. After a previous fit, replicates
        outside of the mask `compete`, whose data have no competing explanations, use them more
        rarely. Without a previous fit, `revise` may add minima.
        """
        with reporting(f"Fit of {len(self.num_observed):,} models"):
            return self._maximized(starts, previous, options, compete, revise)

    def _maximized(
        self,
        starts: Callable[[ndarray], Starts],
        previous: Optimum | None,
        options: Mapping[str, Any],
        compete: bool | ndarray,
        revise: Callable[[Minima, ndarray], tuple[Minima, ndarray]] | None,
    ) -> FitResult:
        if previous is None:
            begun = starts(np.ones(len(self.num_observed), dtype=bool))
            minima, rows = self.minimize(begun, options), begun.rows
            if revise is not None:
                minima, rows = revise(minima, rows)
            return self._collect(minima, rows, self.num_observed)
        warm_start = warm_starts(self, previous)
        due = is_due(self, previous, compete)
        begun = warm_start.followed_by(starts(due)) if due.any() else warm_start
        minima, rows, count = self.minimize(begun, options), begun.rows, len(due)
        warm = minima.of(np.arange(count))
        late = has_moved(previous, warm) & ~due
        if late.any():
            again = starts(late)
            # Rows of their own, in whatever the objective keeps of each.
            again = again._replace(rows=count + again.rows)
            known = warm.x, np.where(warm.status == RowStatus.CONVERGED, warm.value, np.nan)
            minima = minima.joined(self.minimize(again, {**options, "known": known}))
            rows = np.concatenate([rows, again.rows])
            order = np.argsort(rows)
            minima, rows = minima.of(order), rows[order]
        fresh_at = np.where(due | late, self.num_observed, previous.fresh_at.cpu().numpy())
        return self._collect(minima, rows, fresh_at)

    @steady()
    def minimize(self, starts: Starts, options: Mapping[str, Any]) -> Minima:
        r"""Minimise the loss from each start; `options` go to `minimize_rows`."""
        device, number = self.like.device, len(starts.rows)
        if device.type != "cpu":
            starts = starts.filled(_rows_of_a_shape(number))
        rows = starts.rows
        portable = self.portable(rows)

        def loss(theta: ndarray, index: ndarray) -> tuple[ndarray, ndarray]:
            enter(f"{len(index):,} of {number:,} starts go on")
            found = self(theta, rows[index])
            advance(len(index))
            return found

        minima = minimize_rows(
            portable or loss,
            starts.theta,
            *self.bounds(rows),
            relative_tolerance=1e-11,
            precision=self.precision,
            noise=min(NOISE * self.precision, 1e-4),  # in float32 the product is of order 1
            metric=starts.metric,
            groups=rows % len(self.num_observed),
            device=None if portable is None else device,
            **{**_DEFAULTS, **options},
        )
        return minima if number == len(rows) else minima.of(np.arange(number))

    def _collect(self, minima: Minima, rows: ndarray, fresh_at: ndarray) -> FitResult:
        r"""Write the best start of each replicate into the model and report on it."""
        count = self.batch_shape.numel()
        # Within its noise the value of a start that goes on may rise above one that was given up.
        ended = (minima.status != RowStatus.FAILED) & (minima.status != RowStatus.OVERTAKEN)
        values = np.full((rows[-1] // count + 1) * count, np.inf)
        values[rows] = np.where(ended, minima.value, np.inf)
        lowest = values.reshape(-1, count).argmin(axis=0) * count + np.arange(count)
        best = np.searchsorted(rows, lowest)
        evaluations = np.zeros(count, dtype=np.int64)
        np.add.at(evaluations, rows % count, minima.num_evaluations)
        outcomes = [_STATUS[code] for code in minima.status[best].tolist()]
        for replicate, reason in self.broken_data().items():
            outcomes[replicate] = (FitStatus.FAILED, reason)
        lost = np.array([status is FitStatus.FAILED for status, _ in outcomes])
        theta = self.write(minima.x[best], keep=lost, rows=rows[best])
        like = self.like

        both = np.stack([np.where(lost, np.nan, -minima.value[best]), evaluations])
        values, counts = sent(both, like.device).view(2, *self.batch_shape)
        return FitResult(
            objective=values.to(like.dtype),
            status=tuple([status for status, _ in outcomes]),
            reasons=tuple([reason for _, reason in outcomes]),
            num_evaluations=counts.long(),
            method="closed form",
            optimum=Optimum(
                torch.as_tensor(np.where(lost[:, None], np.nan, theta)),
                torch.as_tensor(minima.metric[best]),
                torch.as_tensor(fresh_at),
            ),
        )
