r"""Maximise the risks of several objectives at once: find the set of best compromises."""

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from botorch.acquisition import AcquisitionFunction
from botorch.acquisition.multi_objective.logei import qLogNoisyExpectedHypervolumeImprovement
from botorch.acquisition.multi_objective.objective import (
    GenericMCMultiOutputObjective,
    IdentityMCMultiOutputObjective,
)
from botorch.exceptions.errors import InputDataError, UnsupportedError
from botorch.models.model import Model
from botorch.sampling.normal import SobolQMCNormalSampler
from botorch.utils.multi_objective.pareto import is_non_dominated
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from botorch_risk.acquisition.outcome_constraint import OutcomeConstraint, check_constraints, under
from botorch_risk.acquisition.risk_ucb import RiskUpperConfidenceBound
from botorch_risk.acquisition.widths import check_beta
from botorch_risk.acquisition.without_compiling import without_compiling
from botorch_risk.arguments import (
    check_arguments,
    check_counts,
    check_fields,
    check_nonnegative,
    in_short,
)
from botorch_risk.constraints.constrained_bound import ConstrainedUpperConfidenceBound
from botorch_risk.constraints.risk_constraint import RiskConstraint
from botorch_risk.environments import Environment, ObservedContexts
from botorch_risk.models.botorch_parts import check_risk_measure, parts_of
from botorch_risk.recommend import InfeasibleRecommendationWarning
from botorch_risk.risk import RiskMeasure
from botorch_risk.robust.monte_carlo import AcquisitionOfRisk, MonteCarloDecision, spreads_of_risks
from botorch_risk.robust.robust import robust
from botorch_risk.strategies.decision_then_value import DecisionThenValue, ValueRule, value_of_rule
from botorch_risk.strategies.environment_risk import Chooser, EnvironmentRisk
from botorch_risk.strategies.environment_space import EnvironmentSpace
from botorch_risk.strategies.method import ReportedMethod, View
from botorch_risk.strategies.prediction import Interval, predict_risks, predicted_risks
from botorch_risk.strategies.space import Box, decision_box
from botorch_risk.strategies.strategy import Strategy


@dataclass(frozen=True)
class ObjectiveRisks:
    r"""The belief about the risks of several objectives.

    Args:
        model: The model of all outcomes, the objectives first.
        bounds: The confidence bounds of the risk of each objective.
        constraints: The confidence bounds of the constraints, if there are any.
    """

    model: Model
    bounds: tuple[RiskUpperConfidenceBound, ...]
    constraints: ConstrainedUpperConfidenceBound | None = None

    @property
    def risk_measure(self) -> list[RiskMeasure]:
        r"""The measure of each objective."""
        return [bound.risk_measure for bound in self.bounds]

    @property
    def risk_constraints(self) -> Sequence[OutcomeConstraint]:
        return () if self.constraints is None else self.constraints.risk_constraints

    def mean(self, X: Tensor) -> Tensor:
        r"""Risks of the posterior mean at decisions `R x n x d_x`, `R x n x m`."""
        return torch.stack([bound.mean(X) for bound in self.bounds], dim=-1)

    def worst_slack(self, X: Tensor) -> Tensor | None:
        r"""The smallest excess of any constraint's lower bound over its limit, `R x n`.

        It is in standard deviations of the outcome; None without constraints.
        """
        if self.constraints is None:
            return None
        return self.constraints.worst_slack(self.constraints.slacks(X))


@dataclass(frozen=True)
class ObjectiveRisksRecipe:
    r"""The confidence bounds of the risks of the first outcomes, with constraints on any.

    Args:
        risk_measures: One for each objective; larger is better.
        constraints: The constraints on outcomes.
        constraint_beta: Squared width of the bounds of the constraints. If the lower ones reach the
            limits, a decision counts as feasible.
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
        r"""The number of outcomes in the objectives and the constraints."""
        asked = [1 + each.outcome for each in self.constraints]
        return max(len(self.risk_measures), *asked, 0)

    def __call__(
        self, model: Any, environment: Environment, t: int, **options: Any
    ) -> ObjectiveRisks:
        r"""The bounds of round t, for a `ModelListGP`."""
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
class ParetoSearch(ReportedMethod):
    r"""Recommends the evaluated decisions that are Pareto optimal by the risks of the mean.

    A decision that was evaluated several times counts once. With constraints, the decisions are
    those that meet them with confidence; if no decision does, it is the one whose worst bound
    misses least, in standard deviations of the outcome, and a warning says so.

    Args:
        report: Fits the processes and chooses rows; its recipe is an `ObjectiveRisksRecipe`.
    """

    report: EnvironmentRisk

    def __post_init__(self) -> None:
        check_fields(self)

    def propose(self, view: View) -> Tensor:
        r"""Rows chosen in sequence, each with the earlier ones pending."""
        return self.report.propose(view)

    def predict_risk(self, view: View, X: Tensor) -> Interval:
        return predict_risks(view.interval_belief.bounds, X)

    def predict_feasible(self, view: View, X: Tensor) -> Tensor | None:
        constraints = view.interval_belief.constraints
        if constraints is None:
            return None
        found: Tensor = constraints.probability_feasible(X, self.num_outcomes, predicted_risks)
        return found

    def recommend(self, view: View) -> Tensor:
        r"""The set of each replicate, `R x p x d_x`, NaN where a replicate has fewer than p."""
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
    r"""The method that chooses rows by a given rule and recommends a set by these risks.

    `choose` is the rule that chooses rows. The other arguments are as in `pareto_search`.
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
    r"""The decisions that no other dominates, each once, in the order of their evaluation.

    Args:
        X: Decisions, `n x d_x`.
        values: The values to maximise, `n x m`; a decision with a NaN is left out.
        slack: `n`; if given, only decisions with a slack >= 0 are considered or, if there are none,
            the one with the largest slack.

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
        raise InputDataError("Expected the risks of at least one decision. Got only NaN.")
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
        f"{count}. The least infeasible is recommended, whose worst lower bound misses a limit by "
        f"{-slack:.4g} standard deviations of the outcome.",
        InfeasibleRecommendationWarning,
        stacklevel=4,
    )


@dataclass(frozen=True)
class HypervolumeImprovement:
    r"""BoTorch's qLogNEHVI of risks [Daulton2021nehvi]_, an `acquisition` of `pareto_search`.

    Args:
        reference_point: One value for each risk; only decisions above all of them count.
        num_samples: Number of samples of the risks.
    """

    reference_point: tuple[float, ...]
    num_samples: int = 128

    def __post_init__(self) -> None:
        check_fields(self)
        check_counts(num_samples=self.num_samples)
        _reference_point(self.reference_point, len(self.reference_point))

    @without_compiling()
    def __call__(self, model: Model, X_baseline: Tensor, **options: Any) -> AcquisitionFunction:
        r"""The acquisition function; evaluated decisions are pruned.

        Args:
            X_baseline: Evaluated decisions, `n x d_x`.
        """
        of = options.pop("objective", None) or IdentityMCMultiOutputObjective()
        spreads = spreads_of_risks(model, X_baseline, of)  # BoTorch's smoothing has no unit then

        def in_spreads(risks: Tensor, X: Tensor | None = None) -> Tensor:
            values: Tensor = of(risks) / spreads
            return values

        return qLogNoisyExpectedHypervolumeImprovement(
            model,
            ref_point=spreads.new_tensor(self.reference_point) / spreads,
            X_baseline=X_baseline,
            objective=GenericMCMultiOutputObjective(in_spreads),
            sampler=quasi_random_sampler(self.num_samples),
            prune_baseline=True,
            cache_root=False,  # a model of risks shares what the evaluated decisions cost itself
            **options,
        )


def quasi_random_sampler(num_samples: int) -> SobolQMCNormalSampler:
    r"""A sampler of quasi-random numbers, seeded from PyTorch's current random state."""
    return SobolQMCNormalSampler(torch.Size([num_samples]), seed=int(torch.randint(2**31, (1,))))


def pareto_search(
    bounds: Tensor | Box,
    seeds: int | Sequence[int],
    *,
    environment: Environment | ObservedContexts,
    risk_measure: RiskMeasure | Sequence[RiskMeasure],
    num_objectives: int | None = None,
    reference_point: Sequence[float] | None = None,
    constraints: Sequence[RiskConstraint] = (),
    constraint_beta: float = 9.0,
    acquisition: AcquisitionOfRisk | None = None,
    max_iterations: int = 50,
    w_is_chosen: bool = False,
    value_rule: ValueRule = "risk_variance",
    num_initial: int = 10,
    batch_size: int = 1,
    **options: Any,
) -> Strategy:
    r"""Maximises the risks of several objectives at once.

        maximise   (risk_1(f_1(x, W)), ..., risk_m(f_m(x, W)))
        subject to risk_i(f_i(x, W)) >= threshold_i

    It uses the expected gain in the hypervolume that the risks dominate above a reference point:
    BoTorch's qLogNEHVI [Daulton2021nehvi]_ on samples of the risks (`robust`), replicate by
    replicate. It recommends the evaluated decisions that are Pareto optimal by the risks of the
    posterior mean, `R x p x d_x`; see `ParetoSearch`.

    The risk of each objective is computed separately, as in BoTorch's `IndependentCVaR`. The
    multivariate value-at-risk of [Daulton2022mars]_, a set for each decision, is a different risk.

    `tell` takes `R x q x k x m` outcomes, the objectives first. Other arguments are as in
    `risk_search`.

    Args:
        risk_measure: One measure for all objectives, or one for each; larger is better.
        num_objectives: The number of objectives. Default: one per measure, or 2 for one measure.
        reference_point: One value for each risk, in its units; only decisions above all of them
            count. Needed unless `acquisition` is given.
        acquisition: As in `risk_search`, for several outcomes.
            Default: `HypervolumeImprovement(reference_point)`.
        max_iterations: Iterations of the acquisition optimiser.
        w_is_chosen: Whether w is chosen (`DecisionThenValue`; in the initial design, by the mean of
            the measures' importances); otherwise the environment draws it, and it is observed with
            the outcomes.
        options: `num_restarts` and `raw_samples` of the acquisition optimiser.

    Raises:
        UnsupportedError: If w is chosen although the environment perturbs the decision.

    Example:
        >>> from botorch_risk.examples import environment, unit
        >>> from botorch_risk.risk import ConditionalValueAtRisk
        >>> strategy = pareto_search(
        ...     unit, [0, 1], environment=environment, risk_measure=ConditionalValueAtRisk(0.2),
        ...     reference_point=[-1.0, -1.0], num_initial=6, num_restarts=1, raw_samples=4,
        ... )
        >>> X = strategy.ask()  # decisions; w comes with the outcomes
        >>> w = environment.points[torch.arange(6) % 5].expand(2, 6, 1)
        >>> Y = torch.stack([-(X - w).square(), -(X - 1).square() - w], dim=-1)  # R x q x k x m
        >>> strategy.tell(torch.cat([X, w], dim=-1), Y)
        >>> strategy.ask().shape, strategy.recommend().dim()
        (torch.Size([2, 1, 1]), 3)
    """
    check_arguments(pareto_search, locals())
    measures = _measures(risk_measure, num_objectives)
    if not isinstance(environment, ObservedContexts):
        measures = tuple(parts_of(environment, measure)[1] for measure in measures)
    if acquisition is None:
        acquisition = HypervolumeImprovement(_reference_point(reference_point, len(measures)))
    elif reference_point is not None:
        raise ValueError("Expected `reference_point` or `acquisition`. Got both.")
    elif isinstance(acquisition, HypervolumeImprovement):
        _reference_point(acquisition.reference_point, len(measures))
    # Said, as an objective may have a constraint too.
    reduce = partial(robust, objectives=tuple(range(len(measures))))
    decide = MonteCarloDecision(
        acquisition, measures, tuple(constraints), max_iterations, reduce=reduce
    )
    method = of_measures(
        measures,
        DecisionThenValue(decide, value_of_rule(value_rule)),
        constraints=constraints,
        constraint_beta=constraint_beta,
        **options,
    )
    space = EnvironmentSpace(
        decision_box(bounds), environment, w_is_chosen, measures if w_is_chosen else None
    )
    if w_is_chosen and value_rule == "lacing":
        raise UnsupportedError(
            "Expected another `value_rule` for several objectives. Got 'lacing', whose bounds "
            "belong to one risk."
        )
    if w_is_chosen and space.perturbs:
        raise UnsupportedError(
            "Expected `w_is_chosen=False` if the environment perturbs the decision. "
            f"Got {type(environment).__name__}."
        )
    return Strategy(space, method, seeds, num_initial=num_initial, batch_size=batch_size)


def _measures(
    risk_measure: RiskMeasure | Sequence[RiskMeasure], num_objectives: int | None
) -> tuple[RiskMeasure, ...]:
    r"""One measure for each objective; raises ValueError if the numbers do not match."""
    if isinstance(risk_measure, Sequence):
        measures = tuple(risk_measure)
    else:
        measures = (risk_measure,) * (2 if num_objectives is None else num_objectives)
    if len(measures) < 2 or num_objectives not in (None, len(measures)):
        raise ValueError(
            "Expected at least 2 objectives, with one measure for all or one for each. "
            f"Got {risk_measure=}, {num_objectives=}."
        )
    return measures


def _reference_point(values: Sequence[float] | None, num_objectives: int) -> tuple[float, ...]:
    found = () if values is None else tuple(float(value) for value in values)
    if len(found) != num_objectives or not all(map(math.isfinite, found)):
        raise ValueError(
            f"Expected `reference_point` of {num_objectives} finite values, or an `acquisition`. "
            f"Got {in_short(values)}."
        )
    return found
