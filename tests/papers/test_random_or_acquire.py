r"""Algorithm 1 of UHE-BO round by round, and what it may be wrapped round."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from botorch.acquisition import LogExpectedImprovement, UpperConfidenceBound, qUpperConfidenceBound
from botorch.acquisition.logei import qLogExpectedImprovement
from botorch.exceptions.errors import UnsupportedError
from botorch.models import SingleTaskGP
from botorch.models.model import Model
from botorch.sampling import SobolQMCNormalSampler
from torch import Tensor

from botorch_risk.acquisition import RiskUpperConfidenceBound
from botorch_risk.environments import DiscreteEnvironment, InputPerturbation
from botorch_risk.level_sets import Straddle
from botorch_risk.models.fixed_noise import mean_kernel
from botorch_risk.papers import MeanVarianceSearch, RandomOrAcquire, Weights
from botorch_risk.risk import ConditionalValueAtRisk, Expectation, WorstCase
from botorch_risk.robust.pareto_search import of_measures
from botorch_risk.strategies import (
    Acquire,
    Box,
    DecisionThenValue,
    EnvironmentSpace,
    RandomPoints,
    Strategy,
    initial_design,
    random_decision,
)
from botorch_risk.strategies.decision_then_value import least_certain
from botorch_risk.strategies.space import uniform_points

BOUNDS = torch.tensor([[-1.0, 0.0], [2.0, 1.0]], dtype=torch.double)
SMALL: dict[str, Any] = {"num_restarts": 2, "raw_samples": 16}


class Center:
    r"""An acquisition function whose maximum is the centre of the unit cube."""

    def __init__(self, model: Model, t: int) -> None:
        self.model = model

    def evaluate(self, X: Tensor) -> Tensor:
        return -(X - 0.5).square().sum(dim=-1)


def unfitted(model: Any, seeds: Any, t: int, observed: Tensor | None = None) -> Any:
    return model.eval()


def build(
    seeds: Any = (0, 1, 2),
    model: Any = SingleTaskGP,
    bandit: bool = True,
    num_initial: int = 4,
    **options: Any,
) -> Strategy:
    method: Any = Acquire(Center, batched=True, estimator=unfitted, model=model, **SMALL)
    if bandit:
        method = RandomOrAcquire(method, **options)
    return Strategy(Box(BOUNDS), method, seeds, num_initial=num_initial)


def arm(strategy: Strategy, t: int) -> Tensor:
    r"""The arm of each replicate at evaluation t, all of which are one batch."""
    ((_, view),) = strategy.views
    method: Any = strategy.method
    return method.chosen(view, t)


def outcomes(X: Tensor) -> Tensor:
    return (3 * X).sin().sum(dim=-1, keepdim=True)


def play(strategy: Strategy, rounds: int, f: Callable[[Tensor], Tensor] = outcomes) -> list[Tensor]:
    asked = []
    for _ in range(rounds):
        asked.append(strategy.ask())
        strategy.tell(asked[-1], f(asked[-1]))
    return asked


def rate(t: int) -> float:
    return min(1.0, math.sqrt(4 * math.log(2) / ((math.e - 1) * t)))


def test_is_algorithm_1() -> None:
    r"""Arms last two evaluations; only the first of the random arm is a random point."""
    strategy, center = build(range(6)), BOUNDS.mean(dim=0)
    play(strategy, 1)
    weights = [[1.0, 1.0] for _ in range(6)]
    y: list[Tensor] = []
    initial = outcomes(initial_design(BOUNDS, range(6), 4)).squeeze(-1)
    kinds = set()
    for t in range(1, 11):
        if t % 2 == 1:
            arms, total = arm(strategy, t), [sum(w) for w in weights]
            p = [
                [(1 - rate(t)) * w / s + rate(t) / 2 for w in ws]
                for ws, s in zip(weights, total, strict=True)
            ]
        (X,) = play(strategy, 1)
        uniform = uniform_points(BOUNDS, range(6), 1, "random point", t)
        for r in range(6):
            random = arms[r] == 0 and t % 2 == 1
            kinds.add((int(arms[r]), t % 2))
            expected = uniform[r, 0] if random else center
            torch.testing.assert_close(X[r, 0], expected, atol=1e-4, rtol=0)
        y.append(outcomes(X).flatten())
        if t % 2 == 0:
            for r in range(6):
                low, high = initial[r].min(), initial[r].max()
                reward = float((max(y[-1][r], y[-2][r]) - low) / (high - low))
                k = int(arms[r])
                step = rate(t) * min(max(reward, 0.0), 1.0) / (2 * p[r][k])
                weights[r][k] *= math.exp(step)
            expected = torch.tensor(weights).double().log()
            torch.testing.assert_close(strategy.state["log_weights"], expected)
            assert strategy.state["num_rewards"].tolist() == [t // 2] * 6
    assert kinds == {(0, 0), (0, 1), (1, 0), (1, 1)}


def test_a_last_odd_evaluation_earns_nothing() -> None:
    strategy = build()
    play(strategy, 1 + 3)
    assert strategy.state["num_rewards"].tolist() == [1, 1, 1]


def test_saturated_rewards_are_counted() -> None:
    strategy = build()
    initial = torch.tensor([0.0, 1.0, 0.3, 0.7]).double().view(1, 4, 1).expand(3, 4, 1)
    strategy.tell(strategy.ask(), initial)
    for value in (0.5, 0.4, 0.5, 7.0, -2.0, -1.0):
        X = strategy.ask()
        strategy.tell(X, torch.full_like(X[..., :1], value))
    assert strategy.state["num_saturated"].tolist() == [2, 2, 2]
    assert strategy.state["num_rewards"].tolist() == [3, 3, 3]


@pytest.mark.filterwarnings("ignore::botorch.exceptions.warnings.InputDataWarning")
def test_constant_initial_outcomes_leave_a_step() -> None:
    strategy, expected = build(0, exploration=0.5), torch.zeros(2).double()
    for t, value in enumerate((1.0, 1.0, 0.5, 2.0, 1.0)):
        X = strategy.ask()
        if t % 2 == 1:  # the pairs earn 1/2, at the level, and 1, above it
            k, p = int(arm(strategy, t)), 0.5 * expected.softmax(dim=0) + 0.25
            expected[k] += 0.25 * (0.5 if t == 1 else 1.0) / p[k]
        strategy.tell(X, torch.full_like(X[..., :1], value))
    torch.testing.assert_close(strategy.state["log_weights"][0], expected)


def test_missing_outcomes_earn_nothing_and_half_a_pair_counts() -> None:
    strategy = build()
    for t in range(3):
        X = strategy.ask()
        Y = outcomes(X)
        Y[1] = Y[1].masked_fill(torch.tensor(t > 0), torch.nan)
        Y[2] = Y[2].masked_fill(torch.tensor(t == 2), torch.nan)
        strategy.tell(X, Y)
    assert strategy.state["num_rewards"].tolist() == [1, 0, 1]
    assert (strategy.state["log_weights"][1] == 0).all()


def test_fixed_arms() -> None:
    center = BOUNDS.mean(dim=0)
    alternating = torch.stack(play(build(arms="alternate"), 5)[1:]).squeeze(-2)  # t x R x d
    at_center = ((alternating - center).abs() < 1e-4).all(dim=-1)
    assert at_center.all(dim=-1).tolist() == [False, True, False, True]
    acquired = torch.stack(play(build(bandit=False), 4)[1:])
    assert ((acquired - center).abs() < 1e-4).all()


def test_one_step_arms_are_a_portfolio() -> None:
    strategy = build(range(8), steps=1)
    play(strategy, 4)
    assert strategy.state["num_rewards"].tolist() == [3] * 8
    assert {int(k) for t in (1, 2, 3) for k in arm(strategy, t)} == {0, 1}


def test_state_holds_the_bandit() -> None:
    strategy, resumed = build(), build()
    play(strategy, 4)
    before = strategy.state["log_weights"]
    resumed.load_state_dict(strategy.state_dict())
    for left, right in zip(play(strategy, 4), play(resumed, 4), strict=True):
        assert torch.equal(left, right)
    assert torch.equal(strategy.state["log_weights"], resumed.state["log_weights"])
    assert torch.equal(strategy.state["num_saturated"], resumed.state["num_saturated"])
    assert not torch.equal(before, strategy.state["log_weights"])


def nothing(model: Model) -> InputPerturbation:
    shifts = torch.tensor([[-0.1, 0.0], [0.1, 0.0]], dtype=torch.double)
    return InputPerturbation(shifts)


def quasi(model: Model) -> SobolQMCNormalSampler:
    return SobolQMCNormalSampler(torch.Size([16]), seed=0)


FACTORIES: dict[str, tuple[Callable[[Any], Any], bool]] = {
    "botorch_ucb": (lambda model: UpperConfidenceBound(model, beta=4.0), False),
    "botorch_ucb_batched": (lambda model: UpperConfidenceBound(model, beta=4.0), True),
    "botorch_log_ei": (
        lambda model: LogExpectedImprovement(
            model, best_f=model.posterior(model.train_inputs[0]).mean.max()
        ),
        False,
    ),
    "botorch_q_log_ei": (
        lambda model: qLogExpectedImprovement(
            model, best_f=model.posterior(model.train_inputs[0]).mean.max(), sampler=quasi(model)
        ),
        False,
    ),
    "botorch_q_ucb": (
        lambda model: qUpperConfidenceBound(model, beta=4.0, sampler=quasi(model)),
        False,
    ),
    "expectation": (
        lambda model: RiskUpperConfidenceBound(model, nothing(model), Expectation(), 4.0),
        True,
    ),
    "worst_case": (
        lambda model: RiskUpperConfidenceBound(model, nothing(model), WorstCase(), 4.0),
        True,
    ),
    "cvar": (
        lambda model: RiskUpperConfidenceBound(
            model, nothing(model), ConditionalValueAtRisk(0.4), 4.0
        ),
        True,
    ),
    "straddle": (lambda model: Straddle(model, threshold=0.5), True),
    "cvar_one_by_one": (
        lambda model: RiskUpperConfidenceBound(
            model, nothing(model), ConditionalValueAtRisk(0.4), 4.0
        ),
        False,
    ),
}


@pytest.mark.parametrize("name", FACTORIES)
@pytest.mark.filterwarnings("ignore::linear_operator.utils.warnings.NumericalWarning")
# BoTorch tells where its line searches ended at kinks of CVaR.
@pytest.mark.slow
def test_works_round_any_acquisition_function(name: str) -> None:
    factory, batched = FACTORIES[name]
    built: list[Any] = []

    def watched(model: Any, t: int) -> Any:
        built.append(factory(model))
        return built[-1]

    def strategy_of(seeds: Any) -> Strategy:
        method = Acquire(watched, batched=batched, **SMALL)
        return Strategy(Box(BOUNDS), method, seeds, num_initial=6)

    strategy = strategy_of([3, 5])
    _, X = play(strategy, 2)
    assert ((BOUNDS[0] <= X) & (BOUNDS[1] >= X)).all()
    assert len(built) == (1 if batched else 2)
    grid = torch.rand(64, 1, 2, dtype=torch.double)
    with torch.no_grad():
        for r in range(2):
            acquisition = built[0] if batched else built[r]
            unit = (X[r] - BOUNDS[0]) / (BOUNDS[1] - BOUNDS[0])
            points = torch.cat([unit.unsqueeze(0), grid])  # m x 1 x d
            if batched:
                values = acquisition(points.unsqueeze(1).expand(65, 2, 1, 2))[:, r]
            else:
                values = acquisition(points)
            assert values[0] >= values.quantile(0.9)
    torch.testing.assert_close(play(strategy_of(5), 2)[1][0], X[1], atol=1e-5, rtol=0)


@pytest.mark.parametrize("batched", [True, False])
def test_a_model_of_the_users_is_what_the_acquisition_function_gets(batched: bool) -> None:
    made: list[SingleTaskGP] = []
    given: list[Any] = []

    def model(X: Tensor, Y: Tensor) -> SingleTaskGP:
        made.append(SingleTaskGP(X, Y))
        return made[-1]

    def acquisition(model: Any, t: int) -> Any:
        given.append(model)
        return Center(model, t) if batched else UpperConfidenceBound(model, beta=4.0)

    method = Acquire(acquisition, batched=batched, estimator=unfitted, model=model, **SMALL)
    strategy = Strategy(Box(BOUNDS), method, [0, 1, 2], num_initial=4)
    play(strategy, 2)
    assert len(made) == (1 if batched else 3)
    assert list(map(id, given)) == list(map(id, made))
    X = strategy.history.X[:, :4]
    unit = (X - BOUNDS[0]) / (BOUNDS[1] - BOUNDS[0])
    for row, each in enumerate(made):
        of = slice(None) if batched else row
        torch.testing.assert_close(each.train_inputs[0], unit[of])
        targets, _ = each.outcome_transform.untransform(each.train_targets.unsqueeze(-1))
        torch.testing.assert_close(targets, outcomes(X)[of])


def test_recommends_the_best_observed_mean() -> None:
    strategy = build(0)
    X = strategy.ask()
    Y = torch.tensor([[[1.0, 1.0], [math.nan, math.nan], [0.0, 5.0], [math.nan, 2.0]]]).double()
    strategy.tell(X, Y)
    assert torch.equal(strategy.recommend(), X[:, 2])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"arms": "ucb"}, "`arms` to be one of"),
        ({"reward_scale": "rank"}, "`reward_scale` to be one of"),
        ({"steps": 0}, "`steps` to be at least 1"),
        ({"exploration": 0.0}, "`exploration` to be finite and > 0"),
        ({"num_initial": 0}, "`num_initial` to be at least 1"),
    ],
)
def test_bad_arguments(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build(**options)


def test_an_inner_method_keeps_its_hyperparameters() -> None:
    r"""A round without a fit keeps the fitted ones, whatever the arms were."""
    inner = MeanVarianceSearch(Weights(risk_aversion=1.0), refit_every=3, **SMALL)
    strategy = Strategy(Box(BOUNDS), RandomOrAcquire(inner), range(6), num_initial=6)
    noise = torch.Generator().manual_seed(0)
    lengthscales = []
    for _ in range(3):
        X = strategy.ask()
        repeats = torch.randn(*X.shape[:-1], 3, generator=noise, dtype=torch.double)
        strategy.tell(X, outcomes(X) + 0.1 * repeats)
        model = strategy.method._for_all(strategy.views[0][1]).belief  # type: ignore[attr-defined]
        lengthscales.append(model.mean_model.covar_module.base_kernel.lengthscale.detach())
    assert (lengthscales[0] != mean_kernel(torch.rand(3, 2)).base_kernel.lengthscale).all()
    for later in lengthscales[1:]:
        torch.testing.assert_close(later, lengthscales[0])


def test_what_the_inner_method_knows_is_what_is_known() -> None:
    r"""The inner method records, predicts and checks."""
    inner = MeanVarianceSearch(
        Weights(risk_aversion=5.0), rule="recorded_lower_confidence_bound", **SMALL
    )
    wrapped = Strategy(Box(BOUNDS), RandomOrAcquire(inner, arms="alternate"), 0, num_initial=6)
    plain = Strategy(Box(BOUNDS), inner, 0, num_initial=6)
    X = wrapped.ask()
    Y = outcomes(X) + torch.randn(1, 6, 4, generator=torch.Generator().manual_seed(1))
    for strategy in (wrapped, plain):
        strategy.tell(X, Y)
    assert torch.equal(wrapped.history.recorded, plain.history.recorded)
    assert torch.equal(wrapped.recommend(), plain.recommend())
    at = X[:, :2]
    risks = [each.method.predict_risk(each.views[0][1], at) for each in (wrapped, plain)]
    torch.testing.assert_close(*risks)
    with pytest.raises(UnsupportedError, match="level set"):
        wrapped.classify()
    two = of_measures(
        [Expectation(), Expectation()], DecisionThenValue(random_decision, least_certain)
    )
    assert RandomOrAcquire(two).num_outcomes == 2


@pytest.mark.parametrize("w_is_chosen", [True, False])
def test_random_rows_are_rows_of_the_space(w_is_chosen: bool) -> None:
    r"""A value of W that is chosen is one of its support."""
    points = torch.tensor([[0.0], [0.4], [1.0]], dtype=torch.double)
    environment = DiscreteEnvironment(points, torch.tensor([0.7, 0.3, 0.0], dtype=torch.double))
    space = EnvironmentSpace(Box(BOUNDS), environment, w_is_chosen)
    for method in (RandomPoints(), RandomOrAcquire(RandomPoints())):
        strategy = Strategy(space, method, range(20), num_initial=2)
        for _ in range(2):
            X = strategy.ask()
            assert X.shape[-1] == 2 + w_is_chosen
            w = X[..., 2:] if w_is_chosen else points[:1].expand(*X.shape[:-1], 1)
            assert set(w.flatten().tolist()) == ({0.0, 0.4} if w_is_chosen else {0.0})
            told = X if w_is_chosen else torch.cat([X, w], dim=-1)
            strategy.tell(told, outcomes(told))


def test_predictions_and_the_next_points_share_a_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    fitted = []

    def counting(model: Any, seeds: Any, t: int, observed: Tensor | None = None) -> Any:
        fitted.append(t)
        return model.eval()

    method = Acquire(Center, batched=True, estimator=counting, model=SingleTaskGP, **SMALL)
    strategy = Strategy(Box(BOUNDS), RandomOrAcquire(method), range(3), num_initial=4)
    play(strategy, 2)  # in an even round nobody has a random point
    fitted.clear()
    for _ in range(3):
        strategy.method.predict(strategy.views[0][1], BOUNDS.expand(3, -1, -1))
        strategy.recommend()
        strategy.ask()
    assert fitted == [2]
