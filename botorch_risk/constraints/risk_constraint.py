r"""Constraints that hold under a risk, for BoTorch's acquisition functions and for our bounds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from botorch.acquisition.objective import ScalarizedPosteriorTransform
from botorch.exceptions.errors import UnsupportedError
from botorch.models.model import Model
from torch import Tensor

from botorch_risk.acquisition.outcome_constraint import OutcomeConstraint
from botorch_risk.acquisition.risk_ucb import RiskUpperConfidenceBound
from botorch_risk.arguments import (
    check_counts,
    check_finite,
    check_flags,
    check_nonnegative,
    check_positive,
)
from botorch_risk.constraints.constrained_bound import ConstrainedUpperConfidenceBound
from botorch_risk.constraints.noise_quantile import (
    NoiseDeviationBound,
    NoiseQuantileBound,
    normal_quantile,
)
from botorch_risk.environments import Environment, ObservedContexts
from botorch_risk.models.botorch_parts import check_risk_measure, parts_of
from botorch_risk.models.outcomes import single_outcome
from botorch_risk.risk import RiskMeasure, ValueAtRisk


class _Constraint(OutcomeConstraint):
    def constrained(
        self,
        model: Model,
        objective: Any,
        constraints: Sequence[OutcomeConstraint],
        beta: float,
        upper_beta: float | None,
        **options: Any,
    ) -> ConstrainedUpperConfidenceBound:
        return ConstrainedUpperConfidenceBound(
            model, objective, constraints, beta=beta, upper_beta=upper_beta, **options
        )

    def of_negative(self) -> Any:
        this: Any = self
        return replace(this, threshold=-self.threshold, at_most=not self.at_most)


@dataclass(frozen=True)
class RiskConstraint(_Constraint):
    r"""Require the risk of an outcome to be at least a threshold, or at most with `at_most`.

        risk_measure([f(x, w_j)]_j) >= threshold
        risk_measure([-f(x, w_j)]_j) >= -threshold,   with `at_most`

    The chance constraint P(f(x, W) <= c) >= 1 - delta is a value-at-risk, ties included:
    `RiskConstraint.chance`. The chance level is a property of the constraint; the confidence
    in the model is the `beta` of the bounds.

    Args:
        environment: The distribution of W. For an outcome that depends on the decision alone, use
            `InputPerturbation` with one perturbation, 0.
        risk_measure: Reduces the outcomes; larger is better.
        threshold: In units of the measure: for most measures, the unit of the outcome.
        outcome: The index of the outcome in the model.
        at_most: Whether small outcomes are good. The measure is then taken of the negative outcome,
            so `ConditionalValueAtRisk(0.1)` is the mean of the largest tenth. The measure has to be
            in the unit of the outcome: a probability has no such negative.

    Raises:
        UnsupportedError: If `at_most` is given with a measure in another unit.

    Example:
        >>> from botorch_risk.examples import environment
        >>> RiskConstraint.chance(environment, 1.5, outcome=1, delta=0.05).risk_measure
        ValueAtRisk(risk_level=0.05, strict=True)
    """

    environment: Environment | ObservedContexts
    risk_measure: RiskMeasure
    threshold: float
    outcome: int
    at_most: bool = False

    def __post_init__(self) -> None:
        check_flags(at_most=self.at_most)
        if isinstance(self.environment, ObservedContexts):
            check_risk_measure(self.risk_measure)
        else:
            environment, risk_measure = parts_of(self.environment, self.risk_measure)
            object.__setattr__(self, "environment", environment)
            object.__setattr__(self, "risk_measure", risk_measure)
        check_threshold(self.threshold, self.outcome)
        if self.at_most and not self.risk_measure.in_unit_of_outcome:
            raise UnsupportedError(
                "Expected a measure in the unit of the outcome for `at_most`. Got "
                f"{self.risk_measure!r}, a probability; P(y > c) <= delta is "
                "`RiskConstraint.chance(environment, c, outcome, delta)`."
            )

    @classmethod
    def chance(
        cls,
        environment: Environment | ObservedContexts,
        threshold: float,
        outcome: int,
        delta: float,
        at_most: bool = True,
    ) -> RiskConstraint:
        r"""Require P(f(x, W) <= threshold) >= 1 - delta, or P(f >= threshold) without `at_most`.

        `delta` is the probability that the threshold may be missed, in (0, 1).
        """
        # Where the values below the threshold have a probability of delta exactly, it holds.
        return cls(environment, ValueAtRisk(delta, strict=True), threshold, outcome, at_most)

    @property
    def limit(self) -> float:
        r"""The value that the risk has to reach."""
        return -self.threshold if self.at_most else self.threshold

    def under(self, environment: Environment) -> RiskConstraint:
        if isinstance(self.environment, ObservedContexts):
            return replace(self, environment=environment)
        return self

    @property
    def distribution(self) -> Environment:
        r"""The distribution of W.

        Raises:
            UnsupportedError: If it has not been learnt yet.
        """
        if isinstance(self.environment, ObservedContexts):
            raise UnsupportedError(
                "Expected a distribution of W. Got `ObservedContexts`, which a strategy learns: in "
                "your own loop, use `constraint.under(contexts.learnt(observed, seeds))`."
            )
        return self.environment

    def bound(self, model: Model, beta: float | Tensor) -> RiskUpperConfidenceBound:
        r"""Confidence bounds of the risk, in which larger is better, of squared width `beta`."""
        alone = single_outcome(model, self.outcome)
        transform = None
        if self.at_most:
            transform = ScalarizedPosteriorTransform(torch.tensor([-1.0], dtype=torch.double))
        return RiskUpperConfidenceBound(
            alone, self.distribution, self.risk_measure, beta, posterior_transform=transform
        )


@dataclass(frozen=True)
class NoisyChanceConstraint(_Constraint):
    r"""One evaluation, noise included, has to meet a threshold with a given probability.

        P(f(x) + noise(x) <= threshold) >= 1 - delta

    for a `MeanVarianceGP`, which learns the Gaussian noise as well as f. `delta` is the chance
    level; the confidence in the model is `beta`, for f, and `noise_beta`, for the noise. At a
    `delta` of 0.5 it is a constraint on f itself.

    Args:
        threshold: In units of the outcome.
        outcome: The index of the outcome in the model.
        delta: The probability that the threshold may be missed, in (0, 1).
        at_most: Whether small outcomes are good; else the outcome has to be at least the threshold.
        noise_beta: Squared width of the bounds of the noise; `None` for the predicted noise.

    Example:
        >>> from botorch_risk.examples import noisy_model, settings
        >>> constraint = NoisyChanceConstraint(threshold=0.8, outcome=0, delta=0.05)
        >>> constraint.bound(noisy_model, beta=4.0).lower(settings).shape
        torch.Size([10])
    """

    threshold: float
    outcome: int
    delta: float
    at_most: bool = True
    noise_beta: float | None = None

    def __post_init__(self) -> None:
        check_flags(at_most=self.at_most)
        check_threshold(self.threshold, self.outcome)
        normal_quantile(self.delta)
        if self.noise_beta is not None:
            check_nonnegative(noise_beta=self.noise_beta)

    @property
    def limit(self) -> float:
        r"""The value that the quantile has to reach."""
        return -self.threshold if self.at_most else self.threshold

    def bound(self, model: Model, beta: float | Tensor) -> NoiseQuantileBound:
        r"""Confidence bounds of the quantile, in which larger is better; `beta` is for f."""
        alone = single_outcome(model, self.outcome)
        return NoiseQuantileBound(alone, self.delta, beta, self.noise_beta, self.at_most)


@dataclass(frozen=True)
class NoiseConstraint(_Constraint):
    r"""The noise of an outcome has to have a standard deviation of at most a threshold.

    For a `MeanVarianceGP`, which learns the noise.

    Args:
        threshold: In units of the outcome, > 0.
        outcome: The index of the outcome in the model.

    Example:
        >>> from botorch_risk.examples import noisy_model, settings
        >>> NoiseConstraint(threshold=0.3).bound(noisy_model, beta=4.0).lower(settings).shape
        torch.Size([10])
    """

    threshold: float
    outcome: int = 0
    at_most: bool = field(default=True, init=False, repr=False)

    def __post_init__(self) -> None:
        check_threshold(self.threshold, self.outcome)
        check_positive(threshold=self.threshold)

    def of_negative(self) -> NoiseConstraint:
        return self

    def warn_if_out_of_reach(self, model: Model) -> None:
        r"""Do nothing: the threshold is for the noise, not for the outcome."""

    @property
    def limit(self) -> float:
        r"""The value that the negative standard deviation has to reach."""
        return -self.threshold

    def bound(self, model: Model, beta: float | Tensor) -> NoiseDeviationBound:
        r"""Confidence bounds of the negative standard deviation; `beta` is for the noise."""
        return NoiseDeviationBound(single_outcome(model, self.outcome), beta)


def check_threshold(threshold: float, outcome: int) -> None:
    r"""Raise ValueError unless the threshold is finite and the outcome's index is valid."""
    check_finite(threshold=threshold)
    check_counts(0, outcome=outcome)
