r"""The uncertainty of the conditions' risks, including uncertain hyperparameters."""

from typing import NamedTuple

import torch
from torch import Generator, Tensor

from botorch_risk.chunks import ChunkSize
from botorch_risk.risk import RiskMeasure
from botorch_risk.tables.kernel import FittedTable, TableHyperparameters, TableLoss, TableReadings
from botorch_risk.tables.posterior import joint_samples

_NUM_DRAWS, _NUM_SAMPLES = 32, 64
# Entries of the factors of covariances, of several hyperparameters at a time.
_FACTORS = ChunkSize(cpu=2**21)
# How much wider the hyperparameters are drawn than the normal approximation at their maximum, whose
# tails are too short: in development .94 of nominal 95 % intervals held without it and .97 with it
# (bench/studies/reaction_tables).
_WIDENING = 1.5
_STEP = 1e-3
# Risks are equal up to this part of the largest.
_TIE = 1e-9
# A hyperparameter of which the readings say nothing is as wide as its prior twice over.
_LEAST_CURVATURE = 0.25


class RiskReport(NamedTuple):
    r"""The risks of `m` conditions.

    Attributes:
        risk: `m` expected risks.
        lower: `m` lower ends of intervals.
        upper: `m` upper ends.
        probability_best: `m` probabilities that no other of these conditions has a larger risk.
            A tie for the largest counts for each.
    """

    risk: Tensor
    lower: Tensor
    upper: Tensor
    probability_best: Tensor


def report_risks(
    readings: TableReadings,
    fitted: FittedTable,
    risk_measure: RiskMeasure,
    weights: Tensor,
    conditions: Tensor,
    generator: Generator,
    level: float = 0.95,
) -> RiskReport:
    r"""Risks with intervals, and the probability that each is the largest.

    All come from joint samples of the outcomes, under hyperparameters drawn around their maximum.

    Args:
        readings: The readings of one replicate.
        fitted: The fitted hyperparameters.
        risk_measure: A measure that is bound to the contexts.
        weights: `n_w` probabilities of the contexts.
        conditions: `m` of them.
        level: The probability of an interval.
    """
    readings, conditions = readings.of_conditions(conditions)  # of others nothing is needed
    (n_x, n_w), n = map(len, (readings.conditions, readings.contexts)), readings.pairs.shape[-1]
    size = _FACTORS.rows(weights.device, 3 * (n_x * n + n_w**2))
    parts = [
        risk_measure(outcomes, weights)
        for theta in _draws(readings, fitted, generator).split(size)
        for outcomes in joint_samples(
            readings, TableHyperparameters.of(theta), conditions, _NUM_SAMPLES, generator
        )
    ]
    risks = torch.cat(parts, dim=-1)  # m x samples
    ends = risks.new_tensor([(1 - level) / 2, (1 + level) / 2])
    lower, upper = risks.quantile(ends, dim=-1)
    # Equal shares are sums of the same weights in another order.
    wins = risks >= risks.amax(dim=0) - _TIE * risks.abs().amax()
    return RiskReport(risks.mean(dim=-1), lower, upper, wins.to(risks).mean(dim=-1))


def _draws(readings: TableReadings, fitted: FittedTable, generator: Generator) -> Tensor:
    r"""Logarithms of hyperparameters around their maximum, `draws x p`, the maximum first."""
    loss, theta = TableLoss(readings), fitted.theta[0]
    steps = _STEP * torch.eye(len(theta)).to(theta)
    rows = torch.zeros(2 * len(theta), dtype=torch.long, device=theta.device)
    _, slopes = loss.evaluate(torch.cat([theta + steps, theta - steps]), rows)
    above, below = slopes.chunk(2)
    hessian = (above - below) / (2 * _STEP)
    curvature, axes = torch.linalg.eigh((hessian + hessian.mT) / 2)
    z = torch.randn(_NUM_DRAWS, len(theta), generator=generator, dtype=torch.double)
    z[0] = 0.0
    lower, upper = (torch.tensor(end).to(theta) for end in loss.bounds)
    root = axes / curvature.clamp_min(_LEAST_CURVATURE).sqrt() @ axes.mT  # symmetric, as above
    return (theta + _WIDENING * z.to(theta) @ root).clamp(lower, upper)
