r"""The uncertainty of the conditions' risks, including hyperparameters."""

from typing import NamedTuple

import torch
from torch import Generator, Tensor

from botorch_risk.posterior.joint_moments import safe_root
from botorch_risk.risk import RiskMeasure
from botorch_risk.tables.kernel import FittedTable, TableHyperparameters, TableLoss, TableReadings
from botorch_risk.tables.posterior import TablePosterior
from botorch_risk.tables.rules import TableBelief

_NUM_DRAWS, _NUM_SAMPLES = 32, 64
# How much wider the hyperparameters are drawn than the normal approximation at their maximum, whose
# tails are too short: in development .94 of nominal 95 % intervals held without it and .97 with it
# (bench/studies/reaction_tables).
_WIDENING = 1.5
_STEP = 1e-3
# A hyperparameter of which the readings say nothing is as wide as its prior twice over.
_LEAST_CURVATURE = 0.25


class RiskReport(NamedTuple):
    r"""The risks of `m` conditions.

    Attributes:
        risk: `m` expected risks.
        lower: `m` lower ends of intervals.
        upper: `m` upper ends.
        probability_best: `m` probabilities of having the largest risk among these conditions.
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

    They come from samples of the outcomes over W, under hyperparameters drawn around their maximum.
    The probabilities linearise the risks in the outcomes.

    Args:
        readings: The readings of one replicate.
        fitted: Their hyperparameters.
        risk_measure: Bound to the contexts.
        weights: `n_w` probabilities of the contexts.
        conditions: `m` of them.
        generator: Draws.
        level: The probability of an interval.
    """
    lines = []
    wins = torch.zeros(len(conditions)).to(readings.Y)
    for theta in _draws(readings, fitted, generator):
        hyperparameters = TableHyperparameters.of(theta[None])
        posterior = TablePosterior.of(readings, hyperparameters, conditions)
        covariance = posterior.covariance_over_contexts()[0]
        steps = torch.randn(
            len(conditions), _NUM_SAMPLES, len(weights), generator=generator, dtype=torch.double
        )
        root = safe_root(covariance, covariance.diagonal(dim1=-2, dim2=-1).amax(dim=-1))
        outcomes = posterior.mean[0].unsqueeze(-2) + steps.to(root) @ root.mT
        lines.append(risk_measure(outcomes, weights))
        wins += _shares_of_wins(posterior, risk_measure, weights, generator)
    risks = torch.cat(lines, dim=-1)
    ends = risks.new_tensor([(1 - level) / 2, (1 + level) / 2])
    lower, upper = risks.quantile(ends, dim=-1)
    return RiskReport(risks.mean(dim=-1), lower, upper, wins / wins.sum())


def _shares_of_wins(
    posterior: TablePosterior, risk_measure: RiskMeasure, weights: Tensor, generator: Generator
) -> Tensor:
    r"""The frequency with which each condition has the largest risk in joint samples, `m`."""
    everything = torch.ones_like(posterior.mean, dtype=torch.bool)
    risk = TableBelief(posterior, risk_measure, weights, everything).risk
    covariance = posterior.combined_covariance(risk.gradient)[0]
    scale, axes = torch.linalg.eigh(covariance)
    steps = torch.randn(_NUM_SAMPLES, len(scale), generator=generator, dtype=torch.double)
    # The symmetric root: the signs of eigenvectors are for each device to choose.
    root = axes * scale.clamp_min(0.0).sqrt() @ axes.mT
    samples = risk.value[0] + steps.to(axes) @ root
    return torch.bincount(samples.argmax(dim=-1), minlength=len(scale)).double()


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
