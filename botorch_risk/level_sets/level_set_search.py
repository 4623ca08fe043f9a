r"""Classify decisions by whether their risk is above a level, with few readings."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import torch
from torch import Tensor

from botorch_risk.arguments import check_arguments, check_counts, check_fields, check_probability
from botorch_risk.environments import Environment, ObservedContexts
from botorch_risk.level_sets.expected_classification import ExpectedClassification
from botorch_risk.models.botorch_parts import parts_of
from botorch_risk.papers.truvar.goals import LevelSetGoal
from botorch_risk.risk import RiskMeasure
from botorch_risk.strategies.decision_then_value import largest_reduction
from botorch_risk.strategies.environment_risk import EnvironmentRisk, Turn
from botorch_risk.strategies.environment_space import EnvironmentSpace
from botorch_risk.strategies.finite_domain import FiniteDomain
from botorch_risk.strategies.method import Classification, ReportedMethod, View
from botorch_risk.strategies.prediction import predicted_risks
from botorch_risk.strategies.risk_search import RiskRecipe
from botorch_risk.strategies.space import Box
from botorch_risk.strategies.strategy import Strategy

Criterion = Literal["classified", "straddle"]


@dataclass(frozen=True)
class ReadingOfClasses:
    r"""The reading that is most informative about which listed decisions have a risk above a level.

    Args:
        goals: The levels.
        criterion: `"classified"` looks one reading ahead and counts the decisions that it is
            expected to classify, `ExpectedClassification`; `"straddle"` chooses the decision whose
            interval reaches farthest across a level, then the value of W whose reading most reduces
            the variance of its risk.
        confidence: The probability with which a decision belongs to its class.
        num_compared: The number of decisions in the look-ahead: those with the least certain class.
            The next reading is chosen among them too.
        num_samples: Number of joint samples of the outcomes over W, as in `predicted_risks`.
    """

    goals: tuple[LevelSetGoal, ...]
    criterion: Criterion = "straddle"
    confidence: float = 0.95
    num_compared: int = 48
    num_samples: int = 256

    def __post_init__(self) -> None:
        check_fields(self)
        check_counts(2, num_compared=self.num_compared)
        check_counts(num_samples=self.num_samples)
        check_probability(confidence=self.confidence)
        if not self.goals:
            raise ValueError("Expected at least one level, `goal`. Got none.")
        if self.confidence <= 0.5 or self.criterion not in get_args(Criterion):
            raise ValueError(
                f"Expected `confidence` above 0.5 and `criterion` in {get_args(Criterion)}. "
                f"Got {self.confidence}, {self.criterion!r}."
            )

    def __call__(self, turn: Turn) -> Tensor:
        listed: Any = turn.space.box
        domain: Tensor = listed.domain
        samples = self.samples(turn.bound, domain)  # R x |D| x S
        mean, deviation = samples.mean(dim=-1), samples.std(dim=-1, correction=0)
        deviation = deviation.clamp_min(torch.finfo(deviation.dtype).tiny)
        levels = torch.cat([goal.level(mean) for goal in self.goals], dim=-1)  # R x K
        distance = (mean.unsqueeze(-2) - levels.unsqueeze(-1)).abs().amin(dim=-2)
        if self.criterion == "straddle":
            score = listed.spared(self._width * deviation - distance, turn.pending_decisions)
            best = score.argmax(dim=-1)
            X = domain[best].unsqueeze(-2)
            return turn.space.row(X, largest_reduction(turn, X)) if turn.space.w_is_chosen else X
        number = min(self.num_compared, len(domain))
        certainty = listed.spared(-distance / deviation, turn.pending_decisions)
        least_certain = certainty.topk(number, dim=-1).indices
        return self._look_ahead(turn, domain[least_certain], levels)

    @property
    def _width(self) -> float:
        r"""How many standard deviations from a level a normal risk is on one side of it."""
        confidence = torch.tensor(self.confidence, dtype=torch.double)
        return float(torch.special.ndtri(confidence))

    def _look_ahead(self, turn: Turn, compared: Tensor, levels: Tensor) -> Tensor:
        r"""The decision of `R x P x d_x` whose reading is expected to classify most of them."""
        bound: Any = turn.bound
        score = ExpectedClassification(
            bound.model,
            bound.environment,
            bound.risk_measure,
            compared,
            levels,
            beta=self._width**2,
            w_is_chosen=turn.space.w_is_chosen,
            X_pending=bound.X_pending,
        )
        turn.keep_apart(score)
        with torch.no_grad():
            best = score.evaluate(compared).argmax(dim=-1)
        X = compared.gather(-2, best[:, None, None].expand(-1, 1, compared.shape[-1]))
        return turn.space.row(X, score.best_value(X)) if turn.space.w_is_chosen else X

    def classify(self, bound: Any, domain: Tensor) -> Classification:
        r"""The classes of decisions `N x d_x` under a bound of their risk.

        Returns:
            Classes of shape `R x N` for one goal and `R x K x N` for several.
        """
        samples = self.samples(bound, domain)
        lower, upper = (
            samples.quantile(share, dim=-1) for share in (1 - self.confidence, self.confidence)
        )
        every = torch.ones_like(lower, dtype=torch.bool)
        found = []
        for goal in self.goals:
            _, high, low = goal.classify((every, ~every, ~every), lower, upper)
            level = goal.level(samples.mean(dim=-1)).unsqueeze(-1)
            probability = (samples >= level).to(samples).mean(dim=-1)
            found.append((high, low, ~high & ~low, probability))
        several = (torch.stack(each, dim=-2) for each in zip(*found, strict=True))
        return Classification(*(several if len(found) > 1 else found[0]))

    def samples(self, bound: Any, domain: Tensor) -> Tensor:
        r"""Samples of the risks, `R x |D| x s`."""
        X = domain.expand(bound.model.batch_shape[-1], *domain.shape)
        return predicted_risks(bound, X, self.num_samples)


@dataclass(frozen=True)
class ClassifyRisk(ReportedMethod):
    r"""A method that classifies listed decisions by whether their risk is above a level.

    Args:
        report: An `EnvironmentRisk` whose rule of choice is `classes`.
        classes: The goals, the confidence that a class requires, and the rule for readings.
    """

    classes: ReadingOfClasses

    def propose(self, view: View) -> Tensor:
        return self.report.propose(view)

    def classify(self, view: View) -> Classification:
        r"""The decisions above and below, by quantiles of their risks under the interval belief."""
        return self.classes.classify(view.interval_belief, view.space.box.domain)


def level_set_search(
    decisions: Tensor | Box,
    seeds: int | Sequence[int],
    *,
    environment: Environment | ObservedContexts,
    risk_measure: RiskMeasure,
    goal: LevelSetGoal | Sequence[LevelSetGoal],
    w_is_chosen: bool = False,
    criterion: Criterion = "straddle",
    confidence: float = 0.95,
    num_points: int = 512,
    num_compared: int = 48,
    num_initial: int = 10,
    batch_size: int = 1,
    **options: Any,
) -> Strategy:
    r"""Find all decisions whose risk is above a level.

        {x: risk(f(x, W)) > h}

    `strategy.classify()` returns the decisions that are above and below with the stated confidence,
    those still unknown, and each one's probability of being above. It uses samples of the
    hyperparameters (`num_samples`); readings are chosen by the fit. Any risk measure works: with
    `ShareAbove(h)` the result is the set of decisions that are reliable on a share of the days;
    with `ShareAbove(h, under=TotalVariationBall(radius))`, the measure of [Inatsu2021drlse]_, those
    that are so under every distribution within the radius. `strategy.recommend()` is the listed
    decision with the best risk. Other arguments are as in `risk_search`.

    Args:
        decisions: The list of decisions, `N x d_x`; or a `Box`, represented by `num_points`
            distinct points of a Sobol sequence. For the risk of any other decision see
            `risk_samples`.
        goal: The level, `LevelSet(threshold)`, or `RelativeLevelSet(fraction)` of the largest risk;
            or several, whose classes are `R x K x N`.
        criterion: The rule that chooses readings, as in `ReadingOfClasses`.
        confidence: The probability with which a decision belongs to its class.
        num_points: The number of points that represent a box.
        num_compared: As in `ReadingOfClasses`.
        options: Further arguments of `EnvironmentRisk`, such as `model` and `num_samples`.

    Raises:
        UnsupportedError: If w is chosen although its distribution is learnt.

    Example:
        >>> from botorch_risk.examples import environment
        >>> from botorch_risk.papers import LevelSet
        >>> from botorch_risk.risk import ConditionalValueAtRisk
        >>> decisions = torch.linspace(0, 1, 21, dtype=torch.double).unsqueeze(-1)
        >>> strategy = level_set_search(
        ...     decisions, 0, environment=environment, risk_measure=ConditionalValueAtRisk(0.2),
        ...     goal=LevelSet(0.5), w_is_chosen=True, num_initial=6,
        ... )
        >>> for _ in range(4):
        ...     X = strategy.ask()  # pairs (x, w)
        ...     strategy.tell(X, (4 * X[..., :1]).sin() + 0.2 * X[..., 1:])
        >>> strategy.classify().high.shape
        torch.Size([1, 21])
    """
    check_arguments(level_set_search, locals())
    check_counts(num_points=num_points)
    goals = (goal,) if isinstance(goal, LevelSetGoal) else tuple(goal)
    categories: tuple[int, ...] = ()
    if isinstance(decisions, Box):
        categories = tuple(decisions.categories)
        rows = decisions.initial([0], num_points).squeeze(0)
        decisions = rows.new_tensor(list(dict.fromkeys(map(tuple, rows.tolist()))))  # each once
    if not isinstance(environment, ObservedContexts):
        environment, risk_measure = parts_of(environment, risk_measure)
    listed = FiniteDomain(decisions, categories=categories)
    initial_risk = risk_measure if w_is_chosen else None
    space = EnvironmentSpace(listed, environment, w_is_chosen, initial_risk)
    classes = ReadingOfClasses(goals, criterion, confidence, num_compared)
    options = {"reporting": "posterior_mean_everywhere", **options}
    report = EnvironmentRisk(RiskRecipe(risk_measure), classes, **options)
    method = ClassifyRisk(report, classes)
    return Strategy(space, method, seeds, num_initial=num_initial, batch_size=batch_size)
