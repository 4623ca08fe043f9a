r"""What strategies and bounds know of a constraint on the risk of an outcome."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from botorch.models.model import Model
from torch import Tensor

from botorch_risk.arguments import in_short
from botorch_risk.environments import Environment
from botorch_risk.models.outcomes import warn_if_out_of_reach


class OutcomeConstraint(ABC):
    r"""A constraint that holds if a risk of an outcome is at least `limit`.

    Attributes:
        outcome: The index of the outcome in the model.
        threshold: The threshold, in units of the outcome or of its risk.
        at_most: Whether small outcomes are good.
    """

    outcome: int
    threshold: float
    at_most: bool

    @property
    @abstractmethod
    def limit(self) -> float:
        r"""The value that the risk has to reach, where larger risks are better."""

    @abstractmethod
    def bound(self, model: Model, beta: float | Tensor) -> Any:
        r"""Confidence bounds of the risk: an object with `lower`, `mean` and `upper`."""

    @abstractmethod
    def constrained(
        self,
        model: Model,
        objective: Any,
        constraints: Sequence[OutcomeConstraint],
        beta: float,
        upper_beta: float | None,
        **options: Any,
    ) -> Any:
        r"""The bound of an objective with this and other constraints."""

    def under(self, environment: Environment) -> OutcomeConstraint:
        r"""The constraint under a distribution of W that has since been learnt; here, itself."""
        return self

    @abstractmethod
    def of_negative(self) -> OutcomeConstraint:
        r"""The same requirement, stated for minus the outcome."""

    def warn_if_out_of_reach(self, model: Model) -> None:
        r"""Warn if no observation is near the threshold, whose unit may then be wrong."""
        warn_if_out_of_reach(model, self.outcome, self.threshold, self.at_most)


def check_constraints(constraints: Sequence[Any]) -> None:
    r"""Raise TypeError unless each is an `OutcomeConstraint`."""
    for each in constraints:
        if not isinstance(each, OutcomeConstraint):
            raise TypeError(
                "Expected a `RiskConstraint`, a `NoisyChanceConstraint` or a `NoiseConstraint` "
                f"among the constraints. Got {in_short(each)}; functions of samples are "
                "`constraints` of BoTorch's acquisition functions, to which a reduced model "
                "shows one risk for each output."
            )


def under(
    environment: Environment, constraints: Sequence[OutcomeConstraint]
) -> list[OutcomeConstraint]:
    r"""The constraints, with `ObservedContexts` replaced by the learnt distribution."""
    return [each.under(environment) for each in constraints]
