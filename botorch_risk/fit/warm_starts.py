r"""Fits that start where the last one ended, and when they have to start afresh."""

from __future__ import annotations

import numpy as np
from botorch.exceptions.errors import BotorchTensorDimensionError
from numpy import ndarray

from botorch_risk.fit.objective import MarginalLikelihoodObjective
from botorch_risk.fit.results import Optimum
from botorch_risk.fit.starts import Starts
from botorch_risk.projected_bfgs.minima import Minima, RowStatus

# The factor by which data may grow before a fit starts afresh: between, the optimum moves a little,
# but another one may have become the better one.
GROWTH = 1.25
# While there are no more points than this, several explanations of the data compete.
FEW = 16
# The most that the logarithm of a hyperparameter may move before the landscape is another one.
FAR = float(np.log(2.0))


def warm_starts(objective: MarginalLikelihoodObjective, previous: Optimum) -> Starts:
    r"""One start for each replicate, with what is known of the curvature there.

    Args:
        objective: The loss of the new data.
        previous: Where the last fits ended.

    Raises:
        BotorchTensorDimensionError: If they were of other replicates or other hyperparameters.
    """
    expected = (len(objective.num_observed), sum(one.size for one in objective.moved))
    if previous.theta.shape != expected:
        raise BotorchTensorDimensionError(
            "Expected `previous` to be of the same replicates and hyperparameters, `R x p` = "
            f"{expected}. Got {tuple(previous.theta.shape)}."
        )
    theta, metric = (x.cpu().double().numpy() for x in (previous.theta, previous.metric))
    theta = np.where(previous.fresh_at.cpu().numpy()[:, None] > 0, theta, np.nan)
    return Starts(theta, np.arange(len(theta)), len(theta), metric)


def is_due(objective: MarginalLikelihoodObjective, previous: Optimum) -> ndarray:
    r"""The replicates that need their other starts whatever warm starts find, a mask `R`.

    Args:
        objective: The loss of the new data.
        previous: Where the last fits ended.
    """
    count, fresh_at = objective.num_observed, previous.fresh_at.cpu().numpy()
    due: ndarray = (count <= FEW) | (count >= GROWTH * fresh_at)
    return due


def has_moved(previous: Optimum, found: Minima) -> ndarray:
    r"""The replicates whose warm starts have not ended near where they began, a mask `R`.

    Args:
        previous: Where the last fits ended.
        found: What warm starts found, one for each replicate.
    """
    moved = np.abs(found.x - previous.theta.cpu().double().numpy()).max(axis=1, initial=0.0)
    stayed: ndarray = (moved <= FAR) & (found.status == RowStatus.CONVERGED)  # False for NaN
    return ~stayed
