r"""Maximise a risk over an environmental variable, whose distribution is known or learnt."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, Protocol, runtime_checkable

import torch
from botorch.exceptions.errors import BotorchTensorDimensionError, UnsupportedError
from botorch.models import ModelListGP, SingleTaskGP
from botorch.models.model import Model, ModelList
from torch import Tensor

from botorch_risk.acquisition.pointwise import PointwiseAcquisitionFunction
from botorch_risk.acquisition.risk_ucb import RiskUpperConfidenceBound
from botorch_risk.arguments import check_counts, check_fields
from botorch_risk.engine import PointwiseAcquisition, optimize_acqf_replicates
from botorch_risk.environments import DiscreteEnvironment
from botorch_risk.models.hallucination import condition_on_mean
from botorch_risk.models.scaled_gp import scaled_gp
from botorch_risk.models.standardized_gp import (
    one_hot_inputs,
    renewed_standardized_gp,
    standardized_gp,
)
from botorch_risk.recommend import Recommendation, Rule, recommend, recommend_everywhere
from botorch_risk.strategies.environment_space import EnvironmentSpace
from botorch_risk.strategies.finite_domain import FiniteDomain
from botorch_risk.strategies.method import Method, State, View
from botorch_risk.strategies.prediction import (
    NUM_HYPERPARAMETERS,
    Interval,
    Prediction,
    check_num_samples,
    predict_by_models,
    predict_risks,
    predicted_risks,
    sample_for_intervals,
)

Bound = Any  # of a risk, with constraints or without
Recipe = Callable[..., Any]  # to a bound, or several of one model
Reporting = Literal[Rule, "posterior_mean_everywhere", "expected_risk_everywhere"]
# From inputs `... x n x d` and outcomes `... x n x 1`, with the keyword `input_transform`.
ModelFactory = Callable[..., SingleTaskGP]
_EVERYWHERE = "_everywhere"
# The probability, by samples, of a better evaluated decision at which a fit is overruled; how many
# decisions are compared, those with the best risk of the mean, by how many joint samples.
_DOUBT, _NUM_ALTERNATIVES, _NUM_RISKS_COMPARED = 0.8, 4, 64
# From pending decisions, in diagonals of the box; if w is observed, an acquisition's own distance.
DISTANCE_IF_W_IS_CHOSEN = 0.1


@runtime_checkable
class Chooser(Protocol):
    r"""A rule that chooses the next row of a batch."""

    def __call__(self, turn: Turn) -> Tensor:
        r"""The next row `R x 1 x d`, or decision `R x 1 x d_x` if w is not chosen."""
        ...


@dataclass(frozen=True)
class EnvironmentRisk(Method):
    r"""Choose decisions, and w if it can be chosen, by a Gaussian process of (x, w).

    Each round fits the process with BoTorch's default kernel and priors (V-UCB's authors use
    maximum likelihood in every third round), and learns the distribution of W from all contexts so
    far unless it is known. Later points of a batch are chosen with the earlier ones pending: the
    model is conditioned on its own mean at them. If the environment perturbs the decision, the
    process is of x + w alone. Each of several outcomes has its own process, fitted to the rows in
    which it was observed.

    Algorithm 1 of [Nguyen2021vucb]_ and Algorithms 1 and 2 of [Huang2024kde]_, but with any bound
    and any choice of w.

    Args:
        recipe: The confidence bound of a round, `recipe(model, environment, t)`, such as
            `risk_bound` with its risk and width, or a `RiskRecipe`. With several outcomes the
            model is a `ModelListGP`.
        choose: How rows are chosen.
        reporting: The rule of `recommend`, or, with the suffix `"_everywhere"`, of
            `recommend_everywhere`. Lower bounds, if the rule needs them, are recorded in the round
            of the query, and by the first model for the initial design.
        num_restarts: Starts of the acquisition optimiser.
        raw_samples: Raw points of the acquisition optimiser.
        num_outcomes: The number of outcomes observed at each point.
        uses_w: Whether the models are of (x, w), or only of x, with w as noise.
        uses_previous: Whether the recipe accepts the previous round's bound, `previous`.
        model: Returns the process of one outcome before it is fitted,
            `model(X, Y, input_transform=)`, for inputs `... x n x d` and outcomes `... x n x 1` in
            their own units. The transform maps the inputs to the unit cube, categories to one
            column per value. Default: BoTorch's `SingleTaskGP` with standardised outcomes.
        num_samples: Number of samples of the hyperparameters of `scaled_gp`, or of `model` if
            given, for predictions, intervals and stopping. They are drawn when an interval is first
            needed. Use 0 for the fitted hyperparameters, whose 95 % intervals contain the truth in
            69 to 86 % of cases (`docs/coverage.md`), and for a `model` that `sample_exact_gp` does
            not support.
        overrules_fit: Whether samples may overrule the recommendation of the fit, whose
            hyperparameters a single reading may have ruined (`docs/coverage.md`). Of the four
            evaluated decisions with the best risk of the mean by samples, the one with the best
            expected risk is recommended if it is better with a probability above 0.8 by samples.
            Ignored with constraints, and for a measure that solves an optimisation problem.

    Example:
        >>> from functools import partial
        >>> from botorch_risk.acquisition import bayesian_beta, risk_bound
        >>> from botorch_risk.examples import environment, unit
        >>> from botorch_risk.risk import ValueAtRisk
        >>> from botorch_risk.strategies import Box, DecisionThenValue, LacingValue, Strategy
        >>> from botorch_risk.strategies import largest_bound
        >>> recipe = partial(risk_bound, risk_measure=ValueAtRisk(0.1), beta=bayesian_beta)
        >>> choose = DecisionThenValue(largest_bound, LacingValue())
        >>> method = EnvironmentRisk(recipe, choose, num_restarts=2, raw_samples=16)
        >>> space = EnvironmentSpace(Box(unit), environment)
        >>> strategy = Strategy(space, method, seeds=0, num_initial=8)
        >>> X = strategy.ask()  # pairs (x, w)
        >>> strategy.tell(X, -((X[..., :1] - X[..., 1:]) ** 2))
        >>> strategy.ask()[..., 1:].squeeze() in environment.points
        True
    """

    recipe: Recipe
    choose: Chooser
    reporting: Reporting = "posterior_mean"
    num_restarts: int = 10
    raw_samples: int = 256
    num_outcomes: int = 1
    uses_w: bool = True
    uses_previous: bool = False
    model: ModelFactory = standardized_gp
    num_samples: int = NUM_HYPERPARAMETERS
    overrules_fit: bool = False

    def __post_init__(self) -> None:
        check_fields(self)
        check_num_samples(self.num_samples)
        check_counts(num_outcomes=self.num_outcomes, num_restarts=self.num_restarts)
        check_counts(raw_samples=self.raw_samples)

    def start(self, space: EnvironmentSpace, num_replicates: int) -> State:  # type: ignore[override]
        shape = () if space.is_learnt else space.environment.weights.shape[:-1]
        if shape not in ((), (num_replicates,)):
            raise BotorchTensorDimensionError(
                f"Expected one environment, or one for each of {num_replicates} replicates. "
                f"Got weights of {space.environment.weights.shape}."
            )
        return {}

    @property
    def keeps_fits(self) -> bool:
        return True

    def believe(self, view: View) -> Bound:
        models = [
            self.unfitted(view, outcome, before=before)
            for outcome, before in enumerate(self._models_before(view))
        ]
        for outcome, model in enumerate(models):
            view.fit(f"outcome {outcome}", model)
        joint = models[0] if len(models) == 1 else ModelListGP(*models)
        previous = {"previous": view.previous} if self.uses_previous else {}
        return self.recipe(joint, environment_of_round(view), time_of(view), **previous)

    def believe_intervals(self, view: View) -> Bound:
        r"""The confidence bound of this round under samples of the hyperparameters, `[S, R]`.

        Raises:
            UnsupportedError: If the hyperparameters of the model cannot be sampled.
        """
        if not self.num_samples:
            return view.belief
        models = []
        for outcome in range(self.num_outcomes):
            model = self.unfitted(view, outcome, num_samples=self.num_samples)
            sample_for_intervals(model, view.history.streams("hyperparameters", outcome))
            models.append(model)
        joint = models[0] if len(models) == 1 else ModelListGP(*models)
        return self.recipe(joint, environment_of_round(view), time_of(view))

    def unfitted(
        self,
        view: View,
        outcome: int,
        row: int | None = None,
        num_samples: int = 0,
        before: Any = None,
    ) -> SingleTaskGP:
        r"""The process of one outcome, before its hyperparameters are estimated.

        Args:
            row: The index of the replicate, for a model without a batch dimension. Default: all.
            num_samples: The number of samples of the hyperparameters; they form the model's first
                batch dimension.
            before: The process of the previous round, which may be overwritten.
        """
        rows, Y = view.history.means_of(outcome)
        X, bounds = view.space.inputs(rows), input_range(view.space)
        d_x = view.space.bounds.shape[-1]
        categories = view.space.box.cat_dims
        if not self.uses_w:
            X, bounds = X[..., :d_x], bounds[..., :d_x]
        else:
            categories |= view.space.categories_of_w
        if row is not None:
            X, Y = X[row], Y[row]
        transform = one_hot_inputs(bounds, categories)
        if not num_samples:
            if self.model is standardized_gp:
                return renewed_standardized_gp(before, X, Y, transform)
            return self.model(X, Y, input_transform=transform)
        X, Y = (each.expand(num_samples, *each.shape) for each in (X, Y))
        build = scaled_gp if self.model is standardized_gp else self.model
        return build(X, Y, input_transform=transform)

    def _models_before(self, view: View) -> list[Any]:
        r"""The models of the previous round, if nothing reads them any more."""
        joint = None if self.uses_previous else getattr(view.previous, "model", None)
        models = list(joint.models) if isinstance(joint, ModelList) else [joint]
        return models if len(models) == self.num_outcomes else [None] * self.num_outcomes

    def propose(self, view: View) -> Tensor:
        r"""Rows chosen in sequence, each with the earlier ones pending, and those that run."""
        pending, chosen = view.running, []
        for pick in range(view.batch_size):
            chosen.append(self.choose(Turn(self, view, pick, pending)))
            pending = torch.cat([chosen[-1]] if pending is None else [pending, chosen[-1]], dim=-2)
        return torch.cat(chosen, dim=-2)

    def record(self, view: View, rows: Tensor) -> Tensor | None:
        r"""The lower bound of the risk at the decisions of new rows, if the report needs it."""
        if self.reporting != "recorded_lower_confidence_bound":
            return None
        missing = rows.isnan().any(dim=-1)
        decisions = rows[..., : view.space.bounds.shape[-1]]
        decisions = decisions.where(~missing.unsqueeze(-1), view.space.bounds[0])
        with torch.no_grad():
            return view.belief.lower(decisions).masked_fill(missing, torch.nan)

    def recommend(self, view: View) -> Tensor:
        point = self.recommendation(view).point
        if not (self.overrules_fit and self.num_samples and self._compares(view.belief)):
            return point
        try:
            belief = view.interval_belief
        except UnsupportedError:  # of a model of one's own: its fit is all there is
            return point
        tried, shape = view.decisions, belief.model.batch_shape
        with torch.no_grad():
            risk_of_mean = belief.mean(tried.expand(*shape[:-1], *tried.shape)).mean(dim=0)
            best = risk_of_mean.topk(min(_NUM_ALTERNATIVES, tried.shape[-2]), dim=-1).indices
            alternatives = tried.gather(-2, best.unsqueeze(-1).expand(*best.shape, tried.shape[-1]))
            compared = torch.cat([point.unsqueeze(-2), alternatives], dim=-2)
            risks = predicted_risks(
                belief, compared, _NUM_RISKS_COMPARED
            )  # R x (1 + alternatives) x s
        best = risks.mean(dim=-1).argmax(dim=-1)[..., None, None]
        better = risks.gather(-2, best.expand(-1, 1, risks.shape[-1])) > risks[:, :1]
        doubted = better.to(risks).mean(dim=-1) > _DOUBT  # R x 1
        instead = compared.gather(-2, best.expand(-1, 1, compared.shape[-1])).squeeze(-2)
        return torch.where(doubted, instead, point)

    def _compares(self, belief: Bound) -> bool:
        r"""Whether samples of risks say at little cost which decision is better."""
        is_bound = isinstance(belief, RiskUpperConfidenceBound)
        return is_bound and not belief.risk_measure.is_a_program

    def recommendation(self, view: View) -> Recommendation:
        r"""The decision of each replicate with its score and, with constraints, its feasibility."""
        rule: Any = self.reporting.removesuffix(_EVERYWHERE)
        if rule == self.reporting:
            return recommend(view.belief, view.decisions, rule, view.recorded)
        if isinstance(view.space.box, FiniteDomain):
            listed = view.space.box.domain.expand(len(view.seeds), -1, -1)
            return recommend(view.belief, listed, rule)
        return recommend_everywhere(
            view.belief,
            view.space.bounds,
            seeds=view.history.streams("recommendation"),
            evaluated=view.decisions,
            rule=rule,
            num_restarts=self.num_restarts,
            raw_samples=self.raw_samples,
            discrete_dims=view.space.box.discrete_dims,
            cat_dims=view.space.box.cat_dims,
            **view.space.box.constraints,
        )

    def predict(self, view: View, X: Tensor) -> Prediction:
        r"""Predict by the processes of the outcomes, at pairs (x, w)."""
        model: Any = view.interval_belief.model
        inputs = view.space.inputs(X)
        if not self.uses_w:
            inputs = inputs[..., : view.space.bounds.shape[-1]]
        models: Any = model.models if isinstance(model, ModelList) else [model]
        return predict_by_models(list(models), inputs)

    def predict_risk(self, view: View, X: Tensor) -> Interval:
        return predict_risks([view.interval_belief.of_objective], X)

    def predict_feasible(self, view: View, X: Tensor) -> Tensor | None:
        belief = view.interval_belief
        if not belief.risk_constraints:
            return None
        found: Tensor = belief.probability_feasible(X, self.num_outcomes, predicted_risks)
        return found


@dataclass(frozen=True)
class Turn:
    r"""One choice within a batch.

    Args:
        pick: The number of the choice within the batch, from 0.
        pending: The rows that run, then those chosen before, `R x p x d`; None if there are none.
    """

    method: EnvironmentRisk
    view: View
    pick: int
    pending: Tensor | None

    @property
    def space(self) -> EnvironmentSpace:
        return self.view.space

    @cached_property
    def environment(self) -> Any:
        r"""The distribution of W in this round."""
        return environment_of_round(self.view)

    def environment_of(self, row: int) -> Any:
        r"""The distribution of W of one replicate in this round, without a batch dimension."""
        if not self.space.is_learnt:
            return self.space.of([row]).environment
        of_all = self.environment
        return DiscreteEnvironment(of_all.points[row], of_all.weights[row], of_all.categories)

    def streams(self, purpose: str) -> list[int]:
        r"""A seed for each replicate, for this round and this choice."""
        # A learnt distribution had the stream of the round for its first choice before it could
        # have others; experiments that were stored then go on with the same draws.
        first = self.space.is_learnt and self.pick == 0
        return self.view.history.streams(purpose, *(() if first else (self.pick,)))

    @cached_property
    def model(self) -> Model:
        r"""The model of this round, conditioned on its own mean at pending rows with their w."""
        model = self.view.belief.model
        if self.pending is None or not self.space.w_is_chosen:
            return model
        return condition_on_mean(model, self.space.inputs(self.pending))

    @cached_property
    def bound(self) -> Bound:
        r"""The confidence bound of this round, given the pending rows."""
        if self.pending is None:
            return self.view.belief
        decisions = None if self.space.w_is_chosen else self.pending
        bound = self.method.recipe(
            self.model, self.environment, time_of(self.view), X_pending=decisions
        )
        return self.keep_apart(bound)

    @property
    def pending_decisions(self) -> Tensor | None:
        r"""The decisions of pending rows, `R x p x d_x`; None if there are none."""
        return None if self.pending is None else self.pending[..., : self.space.bounds.shape[-1]]

    def keep_apart(self, acquisition: Any) -> Any:
        r"""An acquisition function, kept at a distance from pending decisions if w is chosen.

        If w is not chosen, the acquisition function's own pending decisions keep the distance.
        """
        if self.space.w_is_chosen and isinstance(acquisition, PointwiseAcquisitionFunction):
            acquisition.keep_apart(self.pending_decisions, DISTANCE_IF_W_IS_CHOSEN)
        return acquisition

    def maximize(self, bound: PointwiseAcquisition) -> Tensor:
        r"""The decision with the largest value, `R x 1 x d_x`."""
        if isinstance(self.space.box, FiniteDomain):
            listed = self.space.box.domain
            with torch.no_grad():
                values = bound.evaluate(listed.expand(len(self.view.seeds), -1, -1))
            best = self.space.box.spared(values, self.pending_decisions).argmax(dim=-1)
            return listed[best].unsqueeze(-2)
        X = optimize_acqf_replicates(
            bound,
            self.space.bounds,
            seeds=self.streams("acquisition"),
            num_restarts=self.method.num_restarts,
            raw_samples=self.method.raw_samples,
            discrete_dims=self.space.box.discrete_dims,
            cat_dims=self.space.box.cat_dims,
            **self.space.box.constraints,
        )[0]
        return self.space.box.spared(bound, X, self.pending_decisions)


def environment_of_round(view: View) -> Any:
    r"""The distribution of W of all replicates in this round: known, or learnt so far."""
    return view.space.environment_at(view.history.X, view.history.streams("environment"))


def time_of(view: View) -> int:
    r"""The `t` of recipes: the round, or if W is learnt the number of the next evaluation.

    The loops of SBO-KDE and DRBO-KDE begin at n_0 + 1 (Algorithms 1 and 2 of [Huang2024kde]_), and
    their radii shrink with the number of contexts, initial ones included.
    """
    return view.X.shape[-2] + 1 if view.space.is_learnt else view.round


def input_range(space: EnvironmentSpace) -> Tensor:
    r"""The range of the model's inputs, `2 x d`."""
    lower, upper = space.environment.range(space.bounds)
    return torch.stack([lower, upper.where(upper > lower, lower + 1)])  # a single value has none
