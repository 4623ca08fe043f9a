r"""Recommends the decisions that are Pareto optimal by the risks of several objectives."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from botorch.exceptions.errors import InputDataError
from botorch.models.model import Model
from botorch.utils.multi_objective.pareto import is_non_dominated
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from botorch_risk.acquisition.risk_ucb import RiskUpperConfidenceBound
from botorch_risk.acquisition.widths import check_beta
from botorch_risk.arguments import check_fields, check_nonnegative
from botorch_risk.constraints.constrained_bound import ConstrainedUpperConfidenceBound
from botorch_risk.constraints.risk_constraint import RiskConstraint, check_constraints, under
from botorch_risk.environments import Environment
from botorch_risk.models.botorch_parts import check_risk_measure
from botorch_risk.recommend import InfeasibleRecommendationWarning
from botorch_risk.risk import RiskMeasure
from botorch_risk.strategies.environment import Chooser, EnvironmentRisk
from botorch_risk.strategies.method import Method, State, View


@dataclass(frozen=True)
class ObjectiveRisks:
    r"""What is believed of the risks of several objectives.

    Args:
        model: Of all outcomes, the objectives first.
        bounds: The confidence bounds of the risk of each objective.
        constraints: The confidence bounds of the constraints, if there are any.
    """

    model: Model
    bounds: tuple[RiskUpperConfidenceBound, ...]
    constraints: ConstrainedUpperConfidenceBound | None = None

    def mean(self, X: Tensor) -> Tensor:
        r"""Risks of the posterior mean at decisions `R x n x d_x`, `R x n x m`."""
        return torch.stack([bound.mean(X) for bound in self.bounds], dim=-1)

    def worst_slack(self, X: Tensor) -> Tensor | None:
        r"""By how much the worst lower bound of a constraint exceeds its limit, `R x n`.

        In standard deviations of the outcome; None without constraints.
        """
        if self.constraints is None:
            return None
        return self.constraints.worst_slack(self.constraints.slacks(X))


@dataclass(frozen=True)
class ObjectiveRisksRecipe:
    r"""The confidence bounds of the risks of the first outcomes, with constraints on any.

    Args:
        risk_measures: One for each objective; larger is better.
        constraints: What has to hold.
        constraint_beta: Squared width of the bounds of the constraints, by which a decision is
            feasible with confidence.

    Raises:
        ValueError: If the squared width is negative or not finite.

    Example:
        >>> from botorch_risk.risk import ConditionalValueAtRisk, Expectation
        >>> ObjectiveRisksRecipe((ConditionalValueAtRisk(0.1), Expectation())).num_outcomes
        2
    """

    risk_measures: Sequence[RiskMeasure]
    constraints: tuple[RiskConstraint, ...] = ()
    constraint_beta: float = 9.0

    def __post_init__(self) -> None:
        check_fields(self)
        check_constraints(self.constraints)
        object.__setattr__(self, "risk_measures", tuple(self.risk_measures))
        for measure in self.risk_measures:
            check_risk_measure(measure)
        check_nonnegative(constraint_beta=self.constraint_beta)

    @property
    def num_outcomes(self) -> int:
        r"""The number of objectives and of further outcomes that constraints ask for."""
        asked = [1 + each.outcome for each in self.constraints]
        return max(len(self.risk_measures), *asked, 0)

    def __call__(
        self, model: Any, environment: Environment, t: int, **options: Any
    ) -> ObjectiveRisks:
        r"""The bounds of round t, of a `ModelListGP`."""
        beta = self.constraint_beta
        bounds = tuple(
            RiskUpperConfidenceBound(model.models[i], environment, measure, beta, **options)
            for i, measure in enumerate(self.risk_measures)
        )
        if not self.constraints:
            return ObjectiveRisks(model, bounds)
        constraints = ConstrainedUpperConfidenceBound(
            model, bounds[0], under(environment, self.constraints), beta=beta, **options
        )
        return ObjectiveRisks(model, bounds, constraints)


@dataclass(frozen=True)
class ParetoSearch(Method):
    r"""Recommends the evaluated decisions that are Pareto optimal by the risks of the mean.

    A decision that was evaluated several times counts once. With constraints, the decisions are
    those that meet them with confidence; where there is none, it is the one whose worst bound
    misses least, in standard deviations of the outcome, and a warning says so.

    Args:
        search: Fits the processes and chooses rows; its recipe is an `ObjectiveRisksRecipe`.
    """

    search: EnvironmentRisk

    def __post_init__(self) -> None:
        check_fields(self)

    @property
    def num_outcomes(self) -> int:
        r"""The number of objectives and of further outcomes that constraints ask for."""
        return self.search.num_outcomes

    def start(self, space: Any, num_replicates: int) -> State:
        r"""No state; raises if there are environments for other replicates."""
        return self.search.start(space, num_replicates)

    @property
    def keeps_fits(self) -> bool:
        return self.search.keeps_fits

    def believe(self, view: View) -> ObjectiveRisks:
        r"""The confidence bounds of the risks of this round."""
        belief: Any = self.search.believe(view)
        return belief

    def propose(self, view: View) -> Tensor:
        r"""Rows one after the other, each with the ones before it pending."""
        return self.search.propose(view)

    def recommend(self, view: View) -> Tensor:
        r"""The set of each replicate, `R x p x d_x`, NaN where one has fewer than p."""
        risks: ObjectiveRisks = view.belief
        with torch.no_grad():
            values, slacks = risks.mean(view.decisions), risks.worst_slack(view.decisions)
        sets = [
            pareto_optimal(X, values[row], None if slacks is None else slacks[row])
            for row, X in enumerate(view.decisions)
        ]
        return pad_sequence(sets, batch_first=True, padding_value=torch.nan)


def of_measures(
    risk_measures: Sequence[RiskMeasure],
    choose: Chooser,
    *,
    constraints: Sequence[RiskConstraint] = (),
    constraint_beta: float = 9.0,
    num_restarts: int = 10,
    raw_samples: int = 256,
) -> ParetoSearch:
    r"""The method that chooses rows in a given way and recommends a set by these risks.

    Args:
        risk_measures: One for each objective.
        choose: How rows are chosen.
        constraints: What has to hold.
        constraint_beta: Squared width of the bounds of the constraints.
        num_restarts: Starts of the acquisition optimiser.
        raw_samples: Raw points of the acquisition optimiser.

    Raises:
        ValueError: If `constraint_beta` is negative.
    """
    check_beta(constraint_beta)
    recipe = ObjectiveRisksRecipe(risk_measures, tuple(constraints), constraint_beta)
    search = EnvironmentRisk(
        recipe,
        choose,
        num_restarts=num_restarts,
        raw_samples=raw_samples,
        num_outcomes=recipe.num_outcomes,
    )
    return ParetoSearch(search)


def pareto_optimal(X: Tensor, values: Tensor, slack: Tensor | None = None) -> Tensor:
    r"""The decisions that no other one dominates, each once, in the order of their evaluation.

    Args:
        X: Decisions, `n x d_x`.
        values: What is to be large, `n x m`; a decision with a NaN is not offered.
        slack: `n`; if given, only decisions where it is not negative are offered, or the one where
            it is largest if there is none.

    Raises:
        InputDataError: If no decision has all its values.
    """
    index = X.unique(dim=0, return_inverse=True)[1]
    rows = torch.arange(len(X), device=X.device)
    first = torch.full_like(rows, len(X)).scatter_reduce(0, index, rows, "amin")
    is_first = first[index] == rows
    offered = is_first & ~values.isnan().any(dim=-1)
    if slack is not None:
        offered = offered & ~slack.isnan()
    if not offered.any():
        raise InputDataError("Expected the risks of at least one decision. Got NaN alone.")
    if slack is not None:
        meets = offered & (slack >= 0)
        if not meets.any():
            best = slack.masked_fill(~offered, -torch.inf).argmax()
            _warn_of_infeasible(int(offered.sum()), float(slack[best]))
            return X[best : best + 1]
        offered = meets
    kept = rows[offered]
    return X[kept[is_non_dominated(values[kept], deduplicate=False)]]


def _warn_of_infeasible(count: int, slack: float) -> None:
    warnings.warn(
        "Expected a decision that meets all constraints with confidence. Got none among "
        f"{count}. The least infeasible is recommended: its worst lower bound exceeds its limit "
        f"by {slack:.4g} standard deviations of the outcome.",
        InfeasibleRecommendationWarning,
        stacklevel=4,
    )
