r"""Maximise any risk of an outcome, subject to constraints that hold under a risk."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from botorch.acquisition import AcquisitionFunction
from botorch.acquisition.objective import GenericMCObjective, MCAcquisitionObjective
from botorch.exceptions.errors import UnsupportedError
from botorch.models import ModelListGP
from botorch.models.model import Model, ModelList
from botorch.optim import optimize_acqf
from botorch.utils.sampling import manual_seed
from torch import Tensor

from botorch_risk.acquisition.lacing import check_has_lacing_value
from botorch_risk.acquisition.named import (
    RiskSchedule,
    check_risk,
    is_schedule,
    risk_bound,
    risk_of_round,
)
from botorch_risk.acquisition.widths import Beta, check_beta
from botorch_risk.acquisition.without_compiling import without_compiling
from botorch_risk.arguments import check_arguments, check_counts, check_fields, check_nonnegative
from botorch_risk.constraints.constrained_bound import ConstrainedUpperConfidenceBound
from botorch_risk.constraints.risk_constraint import RiskConstraint, check_constraints, under
from botorch_risk.engine import optimize_acqf_replicates
from botorch_risk.environments import Environment, ObservedContexts
from botorch_risk.models.botorch_parts import parts_of
from botorch_risk.risk import RiskMeasure
from botorch_risk.robust.robust import robust
from botorch_risk.strategies.decision_then_value import (
    DecisionThenValue,
    ValueRule,
    largest_bound,
    value_of_rule,
)
from botorch_risk.strategies.encoded_decisions import (
    AcquisitionOfDecisions,
    kept_apart,
    maximize_by_botorch,
)
from botorch_risk.strategies.environment_risk import (
    Bound,
    Chooser,
    EnvironmentRisk,
    Reporting,
    Turn,
    time_of,
)
from botorch_risk.strategies.environment_space import EnvironmentSpace
from botorch_risk.strategies.space import Box, decision_box
from botorch_risk.strategies.strategy import Strategy

AcquisitionOfRisk = Callable[..., AcquisitionFunction]
Reduce = Callable[..., tuple[Model, dict[str, Any]]]
# Options of `EnvironmentRisk` by which the papers' strategies recommend as their papers do.
AS_IN_PAPERS: dict[str, Any] = {"overrules_fit": False}


@dataclass(frozen=True)
class MonteCarloDecision:
    r"""The decision that maximises a BoTorch acquisition function on risks.

    It works replicate by replicate: each has its own model, with hyperparameters from the batched
    fit, and its own call of `optimize_acqf` (`optimize_acqf_mixed_alternating` in a box with
    integers or categories, `optimize_acqf_replicates` within limits), with the number of restarts
    and raw samples of the method.

    Args:
        acquisition: `acquisition(model, X_baseline, X_pending=, objective=, constraints=)`, the
            last two if `robust` returns them; such as `qLogNoisyExpectedImprovement`. A class
            receives an objective in standard deviations, so its smoothing has no unit.
        risk_measure: One measure for all objectives, or one for each; or a schedule,
            `risk_measure(t, d_w)`.
        constraints: What has to hold.
        max_iterations: Iterations of the acquisition optimiser.
        reduce: Maps a model, an environment, the measure and the constraints to the acquisition
            function's inputs: a model and keyword arguments.

    Raises:
        ValueError: If the number of iterations is below 1.
    """

    acquisition: AcquisitionOfRisk
    risk_measure: RiskMeasure | RiskSchedule | tuple[RiskMeasure, ...]
    constraints: tuple[RiskConstraint, ...] = ()
    max_iterations: int = 50
    reduce: Reduce = robust

    def __post_init__(self) -> None:
        check_fields(self)
        measures = self.risk_measure
        for measure in measures if isinstance(measures, tuple) else (measures,):
            check_risk(measure)
        check_constraints(self.constraints)
        check_counts(max_iterations=self.max_iterations)

    def __call__(self, turn: Turn) -> Tensor:
        r"""Decisions, `R x 1 x d_x`."""
        rows = enumerate(turn.streams("acquisition"))
        return torch.cat([self._decide(turn, row, seed % 2**31) for row, seed in rows])

    def _decide(self, turn: Turn, row: int, seed: int) -> Tensor:
        r"""The decision of one replicate, `1 x 1 x d_x`."""
        d_x = turn.space.bounds.shape[-1]
        model = model_of_replicate(turn, row)
        environment = turn.environment_of(row)
        measure = self.risk_measure
        if not isinstance(measure, tuple):
            measure = risk_of_round(measure, time_of(turn.view), environment, model)
        pending = None if turn.pending is None else turn.pending[row, :, :d_x]
        with manual_seed(seed):
            constraints = under(environment, self.constraints)
            risks, options = self.reduce(model, environment, measure, constraints)
            evaluated = turn.view.decisions[row]
            if isinstance(self.acquisition, type) and isinstance(measure, RiskMeasure):
                options["objective"] = in_spreads(risks, evaluated, options.get("objective"))
            with without_compiling():
                acquisition = self.acquisition(risks, evaluated, X_pending=pending, **options)
            if pending is not None:
                box: Any = turn.space.box
                acquisition = kept_apart(acquisition, pending, box.unit, box.bounds)
            return self._maximize(acquisition, turn, seed, pending).unsqueeze(0)

    def _maximize(
        self, acquisition: AcquisitionFunction, turn: Turn, seed: int, pending: Tensor | None
    ) -> Tensor:
        box: Any = turn.space.box
        method = turn.method
        numbers: dict[str, Any] = {
            "num_restarts": method.num_restarts,
            "raw_samples": method.raw_samples,
        }
        if box.limits is not None:
            dims = {"discrete_dims": box.discrete_dims, "cat_dims": box.cat_dims}
            limits: dict[str, Any] = {**dims, **box.constraints}
            limits["max_iterations"] = self.max_iterations
            X, _ = optimize_acqf_replicates(
                acquisition, box.bounds, seeds=[seed], **limits, **numbers
            )
            return box.spared(AcquisitionOfDecisions(acquisition), X, pending)[0]
        if box.discrete:
            options = {"maxiter_continuous": self.max_iterations}
            X = maximize_by_botorch(acquisition, box, seed, options=options, **numbers)
            return box.spared(AcquisitionOfDecisions(acquisition), X.unsqueeze(0), pending)[0]
        return optimize_acqf(
            acquisition,
            box.bounds,
            q=1,
            options={"maxiter": self.max_iterations, "seed": seed},
            retry_on_optimization_warning=False,
            **numbers,
        )[0]


def in_spreads(
    model: Model, X: Tensor, objective: MCAcquisitionObjective | None = None
) -> GenericMCObjective:
    r"""An objective divided by its spread over some decisions.

    BoTorch smooths an improvement by a constant that has a unit: 1e-6 of the objective.

    Args:
        model: A model of risks.
        X: Evaluated decisions, `n x d_x`.
        objective: Maps samples of the risks to the objective. Default: the first risk.
    """

    def of(risks: Tensor) -> Tensor:
        return risks[..., 0] if objective is None else objective(risks)

    spread = spreads_of_risks(model, X, of)

    def in_units_of_spread(risks: Tensor, X: Tensor | None = None) -> Tensor:
        return of(risks) / spread

    return GenericMCObjective(in_units_of_spread)


def spreads_of_risks(model: Any, X: Tensor, objective: Callable[[Tensor], Tensor]) -> Tensor:
    r"""The standard deviation of the posterior mean over decisions; 1 if it is constant.

    Args:
        model: A model of risks.
        X: Decisions, `n x d_x`.
        objective: Maps risks `n x m` to values `n` or `n x m'`.
    """
    with torch.no_grad():
        values = objective(model.posterior(X.unsqueeze(-2)).mean.squeeze(-2))
    centred = values - values.mean(dim=0)
    spread = centred.square().mean(dim=0).sqrt()
    resolution = 16 * torch.finfo(values.dtype).eps * values.abs().amax(dim=0)
    return spread.where(spread > resolution, torch.ones_like(spread))


def model_of_replicate(turn: Turn, row: int) -> Model:
    r"""The fitted model of one replicate, without a batch dimension."""
    joint: Any = turn.view.belief.model
    fitted = list(joint.models) if isinstance(joint, ModelList) else [joint]
    models = []
    for outcome, batched in enumerate(fitted):
        model = turn.method.unfitted(turn.view, outcome, row)
        state = batched.state_dict()
        alone = model.state_dict()
        for name, value in alone.items():
            alone[name] = state[name][row] if state[name].dim() > value.dim() else state[name]
        model.load_state_dict(alone)
        models.append(model.eval())
    return models[0] if len(models) == 1 else ModelListGP(*models)


@dataclass(frozen=True)
class RiskRecipe:
    r"""The confidence bound of a risk of the first outcome, with constraints on any of them.

    Args:
        risk_measure: Reduces the first outcome; larger is better. Or a schedule of measures,
            `risk_measure(t, d_w)`, with the t of `beta`.
        constraints: What has to hold.
        beta: Squared width of the objective's bounds: a number, or a function of t, the round from
            1, or with `ObservedContexts` the number of the next evaluation, initial ones counted.
        constraint_beta: Squared width of the bounds of the constraints, by which a decision is
            feasible with confidence.
        constraint_upper_beta: Squared width of their upper bounds alone; None for
            `constraint_beta`.
        joint: Whether the objective's bound is a `JointRiskUpperConfidenceBound`, under the joint
            posterior over W.

    Raises:
        ValueError: If a squared width is negative or not finite.

    Example:
        >>> from botorch_risk.risk import ConditionalValueAtRisk
        >>> RiskRecipe(ConditionalValueAtRisk(0.1)).num_outcomes
        1
    """

    risk_measure: RiskMeasure | RiskSchedule
    constraints: tuple[RiskConstraint, ...] = ()
    beta: Beta = 4.0
    constraint_beta: float = 9.0
    constraint_upper_beta: float | None = 0.0
    joint: bool = False

    def __post_init__(self) -> None:
        check_fields(self)
        check_risk(self.risk_measure)
        check_beta(self.beta)
        check_constraints(self.constraints)
        check_nonnegative(constraint_beta=self.constraint_beta)
        if self.constraint_upper_beta is not None:
            check_nonnegative(constraint_upper_beta=self.constraint_upper_beta)

    @property
    def num_outcomes(self) -> int:
        r"""The number of outcomes in the objective and the constraints."""
        return 1 + max((each.outcome for each in self.constraints), default=0)

    def reporting(self, space: EnvironmentSpace) -> Reporting:
        r"""The rule to report by.

        Any decision, by the expected risk unless the measure solves a program; an evaluated
        decision under a learnt distribution.
        """
        if self.constraints:
            return "posterior_mean_everywhere"
        if is_sampled(self.risk_measure, space):
            return "expected_risk_everywhere"
        return "posterior_mean_everywhere" if space.w_is_chosen else "posterior_mean"

    def __call__(
        self, model: Model, environment: Environment, t: int, previous: Any = None, **options: Any
    ) -> Bound:
        r"""The bound of round t."""
        objective = risk_bound(
            model.models[0] if isinstance(model, ModelList) else model,  # type: ignore[arg-type]
            environment,
            t,
            risk_measure=self.risk_measure,
            beta=self.beta,
            previous=previous,
            joint=self.joint,
            **options,
        )
        if not self.constraints:
            return objective
        return ConstrainedUpperConfidenceBound(
            model,
            objective,
            under(environment, self.constraints),
            beta=self.constraint_beta,
            upper_beta=self.constraint_upper_beta,
            **options,
        )


def is_sampled(risk_measure: RiskMeasure | RiskSchedule, space: EnvironmentSpace) -> bool:
    r"""Whether the risk of joint samples over W is the default, whatever their number."""
    return (
        isinstance(risk_measure, RiskMeasure)
        and not risk_measure.is_a_program
        and not space.is_learnt
    )


def risk_search(
    bounds: Tensor | Box,
    seeds: int | Sequence[int],
    *,
    environment: Environment | ObservedContexts,
    risk_measure: RiskMeasure | RiskSchedule,
    constraints: Sequence[RiskConstraint] = (),
    beta: Beta = 4.0,
    constraint_beta: float = 9.0,
    constraint_upper_beta: float | None = 0.0,
    acquisition: AcquisitionOfRisk | None = None,
    choose: Chooser | None = None,
    w_is_chosen: bool = False,
    value_rule: ValueRule = "risk_variance",
    joint: bool | None = None,
    num_initial: int = 10,
    batch_size: int = 1,
    reporting: Reporting | None = None,
    **options: Any,
) -> Strategy:
    r"""Maximise any risk of the first outcome, subject to constraints that hold under a risk.

        maximise   risk_measure(f_0(x, W))
        subject to risk_i(f_i(x, W)) >= threshold_i

    The distribution of W is known, or learnt from the contexts observed with the outcomes
    (`ObservedContexts`). The search uses the confidence bounds of this package, which treat all
    replicates at once, or an acquisition function of BoTorch on the samples of the risks
    (`robust`), replicate by replicate. Both recommend the decision with the best expected risk,
    evaluated or not, unless samples of the hyperparameters say that an evaluated one is better
    (`overrules_fit`). With constraints, both recommend the best risk of the posterior mean among
    all decisions that are feasible with confidence, evaluated or not: a search for the edge of the
    feasible set evaluates few feasible decisions. A warning says if no decision is feasible.

    If w is chosen, the shares of the values of W in the initial design follow their importance for
    the risk (`RiskMeasure.importance`).

    Outcomes beyond the first belong to constraints; then `tell` takes `R x q x k x m`.

    Args:
        bounds: The lower and the upper bounds of the decisions, `2 x d_x`, or a `Box`.
        seeds: One seed per replicate.
        environment: The distribution of W, or of the perturbation of the decision.
        risk_measure: The measure of the first outcome; larger is better. Or a schedule of measures,
            `risk_measure(t, d_w)`, with the t of `beta`.
        constraints: Constraints on outcomes, which are numbered from 0. A constraint under
            `ObservedContexts` holds under the distribution that the objective has learnt.
        beta: Squared width of the objective's bounds: a number, or a function of t, the round from
            1, or with `ObservedContexts` the number of the next evaluation, initial ones counted.
        constraint_beta: Squared width of the constraints' bounds, the confidence with which a
            recommendation is feasible. It is larger than `beta`, because optimisation tends to find
            decisions where a bound is wrong, and the bounds come from fitted hyperparameters.
            `predict_feasible` of the method has the probability by samples of them.
        constraint_upper_beta: Squared width of the constraints' upper bounds, which limit the
            search; None for `constraint_beta`, as in theory. See `ConstrainedUpperConfidenceBound`.
        acquisition: The class of a Monte-Carlo acquisition function of BoTorch, or a function with
            its arguments: `acquisition(model, X_baseline, X_pending=, objective=, constraints=)`,
            the last two if `robust` has them. Default: the largest confidence bound.
        choose: The rule that chooses rows, instead of `acquisition`. Default: `DecisionThenValue`.
        w_is_chosen: Whether w is chosen; otherwise the environment draws it, and it is observed
            with the outcome.
        value_rule: The rule that chooses w for a decision, see `VALUE_RULES`. Default: the one
            whose reading most reduces the variance of the risk (`select_value`).
        joint: Whether the objective's bound is a `JointRiskUpperConfidenceBound`, under the joint
            posterior over W. Default: True if w is chosen by the default rules and the measure
            solves no program, unlike the ball in maximum mean discrepancy. On one thread, a
            decision in two dimensions takes 0.1 s at 256 values and 0.4 s at 1,024; with a kernel
            that is no squared exponential, or w that depends on the decision, its cost grows with
            the square to the cube of the number of values, to 3 s and a minute.
        num_initial: The number of points in the initial design.
        batch_size: The number `q` of points in each later round.
        reporting: The rule of the recommendation, as in `EnvironmentRisk`. Default: any decision by
            its expected risk, which unless it has a closed form costs as much as `joint`;
            `"posterior_mean_everywhere"` is cheap at any number of values. For a measure that
            solves a program, with constraints or under a learnt distribution, it is the risk of the
            posterior mean: of any decision if w is chosen or there are constraints, else of an
            evaluated one.
        options: Further arguments of `EnvironmentRisk`.

    Raises:
        TypeError: If a part is not an environment or a risk measure.
        UnsupportedError: If w is chosen although its distribution is learnt, or although it
            perturbs the decision and there are constraints, or by a rule that does not support the
            measure.
        ValueError: If a number is out of its range, or both `acquisition` and `choose` are given.

    Example:
        >>> from botorch.acquisition.logei import qLogNoisyExpectedImprovement
        >>> from botorch_risk.environments import DiscreteEnvironment
        >>> from botorch_risk.risk import ConditionalValueAtRisk
        >>> bounds = torch.tensor([[0.0], [1.0]], dtype=torch.double)
        >>> weather = DiscreteEnvironment(torch.linspace(0, 1, 5, dtype=torch.double).unsqueeze(-1))
        >>> parts = {"environment": weather, "risk_measure": ConditionalValueAtRisk(0.2)}
        >>> load = RiskConstraint.chance(weather, 1.8, outcome=1, delta=0.1)
        >>> strategy = risk_search(bounds, [0, 2], constraints=[load], num_initial=6, **parts)
        >>> X = strategy.ask()  # decisions; the weather comes with the outcomes
        >>> w = weather.points[torch.arange(6) % 5].expand(2, 6, 1)
        >>> Y = torch.stack([(4 * X).sin() + w, X + w], dim=-1)  # R x q x k x m
        >>> strategy.tell(torch.cat([X, w], dim=-1), Y)
        >>> strategy.ask().shape, strategy.recommend().shape
        (torch.Size([2, 1, 1]), torch.Size([2, 1]))
        >>> by_botorch = risk_search(
        ...     bounds, 0, acquisition=qLogNoisyExpectedImprovement, num_initial=6, **parts
        ... )
    """
    check_arguments(risk_search, locals())
    check_beta(beta)
    if acquisition is not None and choose is not None:
        raise ValueError(f"Expected `acquisition` or `choose`. Got {acquisition!r}, {choose!r}.")
    if not isinstance(environment, ObservedContexts) and not is_schedule(risk_measure):
        environment, risk_measure = parts_of(environment, risk_measure)
    by_default = acquisition is None and choose is None
    space = EnvironmentSpace(
        decision_box(bounds),
        environment,
        w_is_chosen,
        risk_measure
        if w_is_chosen and by_default and isinstance(risk_measure, RiskMeasure)
        else None,
    )
    if joint is None:
        joint = w_is_chosen and by_default and is_sampled(risk_measure, space)
    recipe = RiskRecipe(
        risk_measure, tuple(constraints), beta, constraint_beta, constraint_upper_beta, joint
    )
    if w_is_chosen and space.perturbs and recipe.num_outcomes > 1:
        raise UnsupportedError(
            "Expected `w_is_chosen=False` if the environment perturbs the decision, with "
            f"constraints. Got {type(environment).__name__}."
        )
    if choose is None:
        decide: Chooser = largest_bound
        if acquisition is not None:
            decide = MonteCarloDecision(acquisition, risk_measure, recipe.constraints)
        choose = DecisionThenValue(decide, value_of_rule(value_rule))
        if w_is_chosen and value_rule == "lacing" and isinstance(risk_measure, RiskMeasure):
            check_has_lacing_value(risk_measure)
    method = EnvironmentRisk(
        recipe,
        choose,
        reporting or recipe.reporting(space),
        num_outcomes=recipe.num_outcomes,
        **{"overrules_fit": True, **options},
    )
    return Strategy(space, method, seeds, num_initial=num_initial, batch_size=batch_size)
