r"""Codes of categories are names: whatever they are called, no value and no choice changes."""

import inspect
from collections.abc import Callable
from typing import Any

import pytest
import torch
from botorch.acquisition.logei import qLogNoisyExpectedImprovement
from botorch.models import ModelListGP, SingleTaskGP
from torch import Tensor

from botorch_risk import acquisition, level_sets, stopping
from botorch_risk.acquisition import RiskAverseUpperConfidenceBound, RiskUpperConfidenceBound
from botorch_risk.constraints import ConstrainedUpperConfidenceBound, RiskConstraint
from botorch_risk.environments import (
    DiscreteEnvironment,
    InputPerturbation,
    PerturbedEnvironment,
    restricted,
)
from botorch_risk.level_sets import level_set_search
from botorch_risk.models import MeanVarianceGP, one_hot_inputs
from botorch_risk.papers import LevelSet, RelativeLevelSet, v_ucb
from botorch_risk.recommend import recommend
from botorch_risk.repeats import LogRiskAverseKnowledgeGradient
from botorch_risk.risk import (
    ConditionalValueAtRisk,
    Expectation,
    MaximumMeanDiscrepancyBall,
    ShareAbove,
    TotalVariationBall,
    ValueAtRisk,
    WassersteinBall,
    WassersteinRegularization,
    WorstCase,
)
from botorch_risk.robust import MonteCarloDecision, RiskObjective, pareto_search, robust
from botorch_risk.strategies import (
    Box,
    EnvironmentRisk,
    EnvironmentSpace,
    LargestKnowledgeGradient,
    Strategy,
    risk_search,
)
from botorch_risk.strategies.finite_domain import FiniteDomain
from botorch_risk.strategies.risk_search import RiskRecipe
from tests.public_objects import public_objects

Codes = tuple[int, ...]

# The same four lots; the second has no probability, but a ball may reach it.
CODES: Codes = (0, 1, 2, 3)
RENAMED = [(2, 3, 1, 0), (5, -1, 9, 4)]
SHARES = torch.tensor([0.4, 0.0, 0.35, 0.25]).double()
EFFECTS = torch.tensor([0.0, 0.6, -0.5, 1.1]).double()
WEATHER = torch.tensor([0.2, 0.9]).double()
X = torch.rand(7, 1, generator=torch.Generator().manual_seed(0)).double()
BOX = torch.tensor([[0.0], [1.0]]).double()


def equal_codes(v: Tensor, w: Tensor) -> Tensor:
    r"""A kernel that knows no order of the lots."""
    near = (-(v[..., :1].unsqueeze(-2) - w[..., :1].unsqueeze(-3)).square().sum(dim=-1)).exp()
    return near * (0.3 + 0.7 * (v[..., 1].unsqueeze(-1) == w[..., 1].unsqueeze(-2)))


MEASURES = [
    Expectation(),
    ValueAtRisk(0.3),
    ConditionalValueAtRisk(0.3),
    WorstCase(over="points"),
    ShareAbove(0.2),
    TotalVariationBall(0.2),
    WassersteinBall(0.2),
    WassersteinRegularization(0.2),
    MaximumMeanDiscrepancyBall(0.2, equal_codes),
]


def lots(codes: Codes) -> DiscreteEnvironment:
    r"""The weather and the lot, in all pairs."""
    points = torch.cartesian_prod(WEATHER, torch.tensor(codes).double())
    shares = torch.tensor([[0.5], [0.5]]).double() * SHARES
    return DiscreteEnvironment(points, shares.flatten(), categories=[1])


def outcome(x: Tensor, weather: Tensor, lot: Tensor) -> Tensor:
    r"""Of the number of the lot, whatever its code."""
    return (6 * x).sin() + weather * EFFECTS[lot] + EFFECTS[lot] * (9 * x).cos()


def numbers_of(codes: Codes, named: Tensor) -> Tensor:
    r"""The numbers of lots by their codes."""
    return (named.unsqueeze(-1) == torch.tensor(codes).to(named)).long().argmax(dim=-1)


def encoding(codes: Codes) -> Any:
    bounds = torch.tensor([[0.0, 0.0, 0.0], [1.0, 1.0, 1.0]]).double()
    return one_hot_inputs(bounds, {2: codes})


def model(codes: Codes, scale: float = 1.0) -> SingleTaskGP:
    generator = torch.Generator().manual_seed(1)
    x, weather = torch.rand(2, 12, generator=generator).double()
    lot = torch.arange(12) % 4
    inputs = torch.stack([x, weather, torch.tensor(codes)[lot].double()], dim=-1)
    Y = scale * outcome(x, weather, lot).unsqueeze(-1)
    gp = SingleTaskGP(inputs, Y, input_transform=encoding(codes)).eval()
    gp.covar_module.lengthscale = torch.tensor([0.4, 0.9, 1.0, 1.2, 0.8, 1.1]).double()
    return gp


def bound(codes: Codes, measure: Any, **options: Any) -> RiskUpperConfidenceBound:
    return RiskUpperConfidenceBound(model(codes), lots(codes), measure, beta=2.0, **options)


def chance(codes: Codes) -> RiskConstraint:
    return RiskConstraint.chance(lots(codes), 0.1, outcome=1, delta=0.3)


def constrained(codes: Codes) -> ConstrainedUpperConfidenceBound:
    both = ModelListGP(model(codes), model(codes, -0.5))
    objective = bound(codes, Expectation(), X_pending=X[:2])
    return ConstrainedUpperConfidenceBound(both, objective, [chance(codes)])


def gain(kind: Any, codes: Codes, *more: Any, **options: Any) -> Tensor:
    r"""Scores of decisions and the lots that they would be read with."""
    X_compared = torch.linspace(0, 1, 5).double().unsqueeze(-1)
    parts = model(codes), lots(codes), ConditionalValueAtRisk(0.3), X_compared
    scores = []
    for chosen in (False, True):
        score = kind(*parts, *more, w_is_chosen=chosen, X_pending=X[:2], **options)
        scores.append(score.evaluate(X))
    read = numbers_of(codes, score.best_value(X)[..., -1])
    return torch.stack([*scores, read.double()])


def chosen(codes: Codes, read: Tensor) -> Tensor:
    r"""Rows (x, weather, lot) with the number of the lot."""
    return torch.cat([read[..., :-1], numbers_of(codes, read[..., -1:]).double()], dim=-1)


def moved(codes: Codes) -> PerturbedEnvironment:
    steps = InputPerturbation(torch.tensor([[-0.1], [0.1]]).double())
    return PerturbedEnvironment(steps, lots(codes))


def without_one_pair(codes: Codes) -> DiscreteEnvironment:
    r"""In good weather, the third lot does not come."""
    return restricted(
        lots(codes), lambda W: (W[..., 0] < 0.5) | (numbers_of(codes, W[..., 1]) != 2)
    )


Values = Callable[[Codes], Tensor]

# By the name of the public function or class.
VALUES: dict[str, Values] = {
    "acquisition.RiskUpperConfidenceBound": lambda codes: torch.stack(
        [
            part
            for measure in MEASURES
            for pending in (None, X[:2])
            for acqf in [bound(codes, measure, X_pending=pending)]
            for part in (acqf.evaluate(X), acqf.lower(X), acqf.mean(X), acqf.expected_risk(X))
        ]
    ),
    "acquisition.JointRiskUpperConfidenceBound": lambda codes: (
        acquisition.JointRiskUpperConfidenceBound(
            model(codes), lots(codes), WassersteinBall(0.3), 2.0, X_pending=X[:2]
        ).evaluate(X)
    ),
    "acquisition.LogRiskKnowledgeGradient": lambda codes: gain(
        acquisition.LogRiskKnowledgeGradient, codes
    ),
    "acquisition.risk_bound": lambda codes: acquisition.risk_bound(
        model(codes), lots(codes), 3, risk_measure=ValueAtRisk(0.2), beta=2.0, X_pending=X[:1]
    ).evaluate(X),
    "acquisition.select_value": lambda codes: torch.cat(
        [
            chosen(codes, acquisition.select_value(model(codes), lots(codes), measure, X))
            for measure in MEASURES
        ]
    ),
    "acquisition.select_lacing_value": lambda codes: chosen(
        codes, acquisition.select_lacing_value(bound(codes, ValueAtRisk(0.3)), X, seeds=0)
    ),
    "acquisition.decisions_to_compare": lambda codes: acquisition.decisions_to_compare(
        bound(codes, WassersteinBall(0.2)), X, 4
    ),
    "acquisition.certified_regret": lambda codes: acquisition.certified_regret(
        bound(codes, ValueAtRisk(0.3)), lots(codes).expand(X)[0].flatten(0, 1)
    ),
    "constraints.RiskConstraint": lambda codes: (
        chance(codes).bound(ModelListGP(model(codes), model(codes, -0.5)), beta=2.0).lower(X)
    ),
    "constraints.ConstrainedUpperConfidenceBound": lambda codes: constrained(codes).evaluate(X),
    "environments.PerturbedEnvironment": lambda codes: RiskUpperConfidenceBound(
        model(codes), moved(codes), ValueAtRisk(0.3), 2.0, X_pending=X[:2]
    ).evaluate(X),
    "environments.restricted": lambda codes: RiskUpperConfidenceBound(
        model(codes), without_one_pair(codes), WassersteinBall(0.3), 2.0, X_pending=X[:2]
    ).evaluate(X),
    "level_sets.ExpectedClassification": lambda codes: gain(
        level_sets.ExpectedClassification, codes, 0.2
    ),
    "level_sets.RiskStraddle": lambda codes: level_sets.RiskStraddle(
        model(codes), lots(codes), WassersteinBall(0.2), 0.1, X_pending=X[:2]
    ).evaluate(X),
    "acquisition.risk_samples": lambda codes: acquisition.risk_samples(
        model(codes), lots(codes), WassersteinBall(0.2), X, num_samples=8
    ),
    "stopping.regret_samples": lambda codes: stopping.regret_samples(
        model(codes), lots(codes), ValueAtRisk(0.3), X[0], X, num_samples=32
    ),
    "robust.robust": lambda codes: (
        recommend(
            qLogNoisyExpectedImprovement(
                robust(model(codes), lots(codes), WassersteinBall(0.2)).model, X
            ),
            X,
            "posterior_mean",
        ).value
    ),
    "robust.RiskObjective": lambda codes: RiskObjective(lots(codes), WassersteinBall(0.2))(
        torch.linspace(0, 1, 16).double().sin().reshape(1, 16, 1), X=X[:2]
    ),
}

# Parts of those with a case, an optimiser of any function, constraints on the noise alone, and
# contexts with descriptors.
WITHOUT = {
    "constraints.safe_candidate",
    "engine.optimize_acqf_replicates",
    "frames.advise",
    "models.Reduction",
    "strategies.EnvironmentSpace",
    "strategies.LinearLimit",
    "tables.TableSearch",
}


@pytest.mark.parametrize("codes", RENAMED, ids=str)
@pytest.mark.parametrize("values", VALUES.values(), ids=VALUES)
def test_no_value_changes(values: Values, codes: Codes) -> None:
    expected = values(CODES)
    assert expected.isfinite().all() and (expected.dim() == 0 or expected.unique().numel() > 1)
    torch.testing.assert_close(values(codes), expected, rtol=1e-8, atol=1e-8)


def test_a_replicate_with_another_support_is_what_it_is_alone() -> None:
    points, shares = lots(CODES).points, lots(CODES).weights
    both = torch.stack([shares, torch.full_like(shares, 1 / 8)])
    environment = DiscreteEnvironment(points.expand(2, -1, -1), both, categories=[1])

    def values(environment: DiscreteEnvironment) -> Tensor:
        parts = model(CODES), environment, Expectation()
        return RiskUpperConfidenceBound(*parts, beta=2.0, X_pending=X[:2]).evaluate(X)

    alone = [values(environment.some([row])) for row in (0, 1)]
    torch.testing.assert_close(values(environment), torch.cat(alone))


@pytest.mark.parametrize("kind", [RiskAverseUpperConfidenceBound, LogRiskAverseKnowledgeGradient])
def test_no_value_of_a_decision_with_a_category_changes(kind: Any) -> None:
    r"""Its one-hot columns change places, as do its codes."""
    box = Box(torch.tensor([[0.0, 0.0], [1.0, 3.0]]).double(), categories=[1])
    values = []
    for codes in (CODES, RENAMED[0]):
        lot = torch.arange(12) % 4
        x = torch.rand(12, generator=torch.Generator().manual_seed(1)).double()
        noise = torch.randn(12, 4, generator=torch.Generator().manual_seed(2)).double()
        named = torch.stack([x, torch.tensor(codes)[lot].double()], dim=-1)
        Y = outcome(x, x.square(), lot).unsqueeze(-1) + (0.05 + 0.1 * lot.unsqueeze(-1)) * noise
        gp = MeanVarianceGP(box.unit(named[:8]), Y[:8])
        values.append(kind(gp, X_pending=box.unit(named[8:10])).evaluate(box.unit(named)))
    torch.testing.assert_close(*values, rtol=1e-8, atol=1e-8)


FAST: dict[str, Any] = {"num_initial": 8, "num_restarts": 2, "raw_samples": 16, "batch_size": 3}
DOMAIN = torch.linspace(0, 1, 13).double().unsqueeze(-1)


def search(make: Any = risk_search, measure: Any = None, **options: Any) -> Any:
    parts = {"risk_measure": measure or ConditionalValueAtRisk(0.3), **FAST, **options}
    return lambda codes: make(BOX, 0, environment=lots(codes), **parts)


def classify(**options: Any) -> Any:
    parts = {"risk_measure": ConditionalValueAtRisk(0.3), "num_initial": 8, "batch_size": 3}
    return lambda codes: level_set_search(
        DOMAIN, 0, environment=lots(codes), **{"goal": LevelSet(0.1), **parts, **options}
    )


def listed(codes: Codes) -> Strategy:
    r"""Decisions of a list, whose second column is a lot as well."""
    domain = torch.cartesian_prod(DOMAIN[::3, 0], torch.tensor(codes).double())
    space = EnvironmentSpace(FiniteDomain(domain, categories=(1,)), lots(codes), w_is_chosen=False)
    method = EnvironmentRisk(RiskRecipe(Expectation()), LargestKnowledgeGradient())
    return Strategy(space, method, 0, num_initial=8, batch_size=3)


STRATEGIES: dict[str, Callable[[Codes], Strategy]] = {
    "strategies.risk_search": search(),
    "with a ball": search(measure=WassersteinBall(0.3)),
    "by gain": search(choose=LargestKnowledgeGradient()),
    "by BoTorch": search(decide=MonteCarloDecision(qLogNoisyExpectedImprovement), batch_size=2),
    "w chosen": search(w_is_chosen=True),
    "w chosen by gain": search(choose=LargestKnowledgeGradient(), w_is_chosen=True),
    "papers.v_ucb": lambda codes: v_ucb(
        BOX, 0, environment=lots(codes), risk_level=0.3, w_is_chosen=True, **FAST
    ),
    "level_sets.level_set_search": classify(),
    "level set by expectation": classify(criterion="classified", w_is_chosen=True),
    "relative level": classify(goal=RelativeLevelSet(0.5)),
    "robust.pareto_search": search(
        pareto_search, num_objectives=2, reference_point=(-3.0, -3.0), batch_size=1
    ),
    "listed decisions": listed,
}


def asked(make: Callable[[Codes], Strategy], codes: Codes) -> tuple[Tensor, Tensor]:
    r"""The batch after the initial design, and the recommendation, with numbers for codes."""
    strategy = make(codes)
    rows = strategy.ask()
    d_x = strategy.space.bounds.shape[-1]
    if rows.shape[-1] == d_x:  # w comes with the outcome: pairs of positive weight in turn
        pairs = lots(codes).points[[0, 6, 3, 2, 7, 4, 0, 6]]
        rows = torch.cat([rows, pairs.expand(1, -1, -1)], dim=-1)
    lot = numbers_of(codes, rows[..., -1])
    y = outcome(rows[..., 0], rows[..., -2], lot).unsqueeze(-1)
    if d_x == 2:
        y = y + EFFECTS[numbers_of(codes, rows[..., 1:2])]
    if getattr(strategy.method, "num_outcomes", 1) == 2:
        y = torch.cat([y, -0.5 * y.square()], dim=-1).unsqueeze(-2)
    strategy.tell(rows, y)
    batch, best = strategy.ask(), strategy.recommend()
    if batch.shape[-1] > d_x:
        batch = chosen(codes, batch)
    if d_x == 2:
        batch, best = (
            torch.cat([each[..., :1], numbers_of(codes, each[..., 1:2])], dim=-1)
            for each in (batch, best)
        )
    return batch, best


@pytest.mark.parametrize("make", STRATEGIES.values(), ids=STRATEGIES)
@pytest.mark.handful
def test_no_question_changes(make: Callable[[Codes], Strategy]) -> None:
    expected = asked(make, CODES)
    torch.testing.assert_close(asked(make, RENAMED[1]), expected, rtol=1e-8, atol=1e-8)


def test_everything_with_an_environment_has_a_case() -> None:
    takes = {
        name
        for name, value in public_objects().items()
        if value.__module__.startswith("botorch_risk.")
        and not (isinstance(value, type) and issubclass(value, Exception))
        and {"environment", "acqf", "bound"} & inspect.signature(value).parameters.keys()
    }
    assert takes - VALUES.keys() - STRATEGIES.keys() == WITHOUT
    assert takes >= VALUES.keys()
