r"""Strategies under an environment that is observed but not chosen."""

import math
from functools import partial
from typing import Any

import pytest
import torch
from botorch.acquisition.logei import qLogNoisyExpectedImprovement
from botorch.exceptions.errors import BotorchTensorDimensionError, InputDataError, UnsupportedError
from botorch.models import SingleTaskGP
from torch import Tensor

from botorch_risk.constraints import RiskConstraint
from botorch_risk.environments import EmpiricalGrid, KernelDensityEnvironment, ObservedContexts
from botorch_risk.papers import drbo_kde, drbo_mmd, risk_kde, sbo_kde
from botorch_risk.risk import (
    ConditionalValueAtRisk,
    Expectation,
    MaximumMeanDiscrepancyBall,
    MinimaxApproximation,
    TotalVariationBall,
)
from botorch_risk.robust import MonteCarloDecision
from botorch_risk.seeding import generators
from botorch_risk.strategies import DecisionThenValue, LacingValue, largest_bound, risk_search

DECISIONS = torch.tensor([[-32.0, -32.0], [32.0, 32.0]], dtype=torch.double)
CONTEXTS = torch.tensor([[0.0], [1.0]], dtype=torch.double)
SMALL: dict[str, Any] = {"num_initial": 6, "num_restarts": 3, "raw_samples": 32}
CASES: dict[str, tuple[Any, dict[str, Any]]] = {
    "sbo_kde": (sbo_kde, {"n_w": 32}),
    "risk_kde": (risk_kde, {"risk_measure": ConditionalValueAtRisk(0.1), "n_w": 32}),
    "drbo_kde": (drbo_kde, {"n_w": 32}),
    "drbo_mmd": (drbo_mmd, {"num_points": 10, "radius_scale": 0.1}),
    "drbo_mmd_minimax": (drbo_mmd, {"num_points": 10, "minimax": True, "radius_scale": 0.1}),
}
every = pytest.mark.parametrize("name", CASES)


def build(name: str, seeds: Any = (0, 1, 2), **options: Any) -> Any:
    kind, chosen = CASES[name]
    return kind(DECISIONS, seeds, context_bounds=CONTEXTS, **{**SMALL, **chosen, **options})


def meet(strategy: Any, X: Tensor, index: int) -> tuple[Tensor, Tensor]:
    r"""Decisions with the contexts that they meet, and their outcomes."""
    streams = generators(strategy.seeds, "contexts", index)
    draws = [torch.randn(X.shape[-2], 1, generator=each, dtype=torch.double) for each in streams]
    W = (0.5 + 0.2 * torch.stack(draws)).clamp(0, 1)
    distance = torch.cat([X / 10, 3 * (W - 0.6)], dim=-1).norm(dim=-1, keepdim=True)
    return torch.cat([X, W], dim=-1), (2 * distance).cos() - distance


def play(strategy: Any, rounds: int, first: int = 0) -> list[Tensor]:
    asked = []
    for index in range(first, first + rounds):
        asked.append(strategy.ask())
        strategy.tell(*meet(strategy, asked[-1], index))
    return asked


def test_every_method_is_its_environment_and_its_risk_measure() -> None:
    parts = {
        "sbo_kde": (KernelDensityEnvironment, Expectation),
        "risk_kde": (KernelDensityEnvironment, ConditionalValueAtRisk),
        "drbo_kde": (KernelDensityEnvironment, TotalVariationBall),
        "drbo_mmd": (EmpiricalGrid, MaximumMeanDiscrepancyBall),
        "drbo_mmd_minimax": (EmpiricalGrid, MinimaxApproximation),
    }
    for name, (environment, measure) in parts.items():
        strategy = build(name)
        play(strategy, 1)
        assert isinstance(strategy.belief.environment, environment)
        assert isinstance(strategy.belief.risk_measure, measure)
        assert strategy.belief.beta == 2.25


@pytest.mark.slow
def test_radii_follow_the_contexts_seen() -> None:
    r"""t^(-2/(4 + d_w)) and (2 + sqrt(2 log 10)) / sqrt(t), t from n_0 + 1 (Algorithm 2)."""
    total_variation, discrepancy = build("drbo_kde"), build("drbo_mmd", radius_scale=1.0)
    for index in range(3):
        for strategy in (total_variation, discrepancy):
            play(strategy, 1, first=index)
        t = total_variation.history.X.shape[-2] + 1
        assert t == SMALL["num_initial"] + index + 1
        assert math.isclose(total_variation.belief.risk_measure.radius, t ** (-2 / 5))
        expected = (2 + math.sqrt(2 * math.log(10))) / math.sqrt(t)
        assert math.isclose(discrepancy.belief.risk_measure.radius, expected)


def test_the_distribution_is_learnt_from_all_contexts() -> None:
    strategy = build("sbo_kde")
    play(strategy, 3)
    observed = strategy.belief.environment.observed
    torch.testing.assert_close(observed, strategy.history.X[..., 2:])


def test_the_kernel_matrix_of_the_grid_is_made_once() -> None:
    r"""And a resumed strategy, which makes it again, asks for the same."""
    calls = []

    def kernel(first: Tensor, second: Tensor) -> Tensor:
        calls.append(len(first))
        squares = (first.unsqueeze(-2) - second.unsqueeze(-3)).square().sum(dim=-1)
        return torch.exp(-0.5 * squares / 0.3**2)

    strategy, resumed = (build("drbo_mmd_minimax", kernel=kernel) for _ in range(2))
    play(strategy, 3)
    strategy.ask()
    made = len(calls)
    play(strategy, 1, first=3)
    state = strategy.state_dict()
    strategy.ask()
    assert len(calls) == made
    resumed.load_state_dict(state)
    assert torch.equal(resumed.ask(), strategy.ask())
    assert len(calls) > made


@pytest.mark.slow
def test_beta_may_follow_the_evaluations() -> None:
    times: list[int] = []

    def schedule(t: int) -> float:
        times.append(t)
        return 1.0 + t

    strategy, constant = build("sbo_kde", beta=schedule), build("sbo_kde", beta=9.0)
    play(strategy, 1)
    assert strategy.belief.beta == 8.0
    play(strategy, 1, first=1)
    assert strategy.belief.beta == 9.0
    assert times == [7, 8]  # after 6 and 7 contexts
    constant.tell(strategy.history.X[:, :6], strategy.history.Y[:, :6, :, 0])
    constant.tell(strategy.history.X[:, 6:], strategy.history.Y[:, 6:, :, 0])
    assert torch.equal(strategy.ask(), constant.ask())
    with pytest.raises(ValueError, match=r"Got beta=9\.0"):
        constant.load_state_dict(strategy.state_dict())
    with pytest.raises(ValueError, match=r"`beta` to be finite and >= 0. Got -1"):
        bad = build("sbo_kde", beta=lambda t: -1.0)
        play(bad, 2)


@pytest.mark.slow
def test_a_state_replaces_what_was_learnt_in_the_same_round() -> None:
    strategy, other = build("sbo_kde"), build("sbo_kde")
    play(strategy, 1)
    play(other, 1, first=7)
    assert not torch.equal(strategy.ask(), other.ask())
    other.load_state_dict(strategy.state_dict())
    assert torch.equal(strategy.ask(), other.ask())


def test_a_context_counts_even_if_its_outcome_is_missing() -> None:
    strategy = build("sbo_kde")
    points, Y = meet(strategy, strategy.ask(), 0)
    Y[1, :2] = torch.nan
    points[2, 3] = torch.nan  # took no part: neither context nor outcome
    Y[2, 3] = torch.nan
    strategy.tell(points, Y)
    seen = {tuple(group): view.belief.environment.observed for group, view in strategy.views}
    assert sorted(seen) == [(0,), (1,), (2,)]
    torch.testing.assert_close(seen[(1,)], points[1:2, :, 2:])
    torch.testing.assert_close(seen[(2,)][0], points[2, [0, 1, 2, 4, 5], 2:])


def test_bad_input() -> None:
    strategy = build("sbo_kde")
    X = strategy.ask()
    with pytest.raises(BotorchTensorDimensionError, match="`R x q x 3`"):
        strategy.tell(X, torch.zeros(3, 6, 1).double())  # the contexts are missing
    with pytest.raises(BotorchTensorDimensionError, match="`context_bounds` to have shape"):
        sbo_kde(DECISIONS, 0, context_bounds=CONTEXTS[0])
    with pytest.raises(ValueError, match="finite `context_bounds`"):
        sbo_kde(DECISIONS, 0, context_bounds=CONTEXTS.flip(0))
    for name, option in (
        ("sbo_kde", "beta"),
        ("drbo_kde", "radius_scale"),
        ("drbo_mmd", "radius_scale"),
    ):
        with pytest.raises(ValueError, match=rf"`{option}` to be finite and >= 0. Got -1"):
            build(name, **{option: -1.0})
    with pytest.raises(TypeError, match=r"Expected a `RiskMeasure`.*Got 'cvar'"):
        build("risk_kde", risk_measure="cvar")
    for name, option in (("sbo_kde", "n_w"), ("drbo_mmd", "num_points")):
        with pytest.raises(ValueError, match=rf"`{option}` to be at least 1. Got 0"):
            build(name, **{option: 0})


@pytest.mark.parametrize("name", ["sbo_kde", "drbo_kde"])
def test_contexts_outside_their_bounds_are_refused_before_anything_is_changed(name: str) -> None:
    strategy = build(name)
    X = strategy.ask()
    points, Y = meet(strategy, X, 0)
    points[1, 2, 2] = 1.25
    with pytest.raises(InputDataError, match=r"within `context_bounds`. Got 1.25"):
        strategy.tell(points, Y)
    assert torch.equal(strategy.ask(), X)


@pytest.mark.filterwarnings("ignore:Data .input features. is not contained to the unit cube")
def test_contexts_outside_their_bounds_may_be_clipped() -> None:
    strategy = build("sbo_kde", density_options={"at_bounds": "clip"})
    points, Y = meet(strategy, strategy.ask(), 0)
    points[1, 2, 2] = 1.25
    strategy.tell(points, Y)
    assert strategy.belief.environment.points.max() <= 1.0


@pytest.mark.filterwarnings("ignore:Data .input features. is not contained to the unit cube")
@pytest.mark.parametrize("learn", [None, KernelDensityEnvironment], ids=["default", "density"])
def test_contexts_that_may_leave_are_clipped(learn: Any) -> None:
    given = {} if learn is None else {"learn": partial(learn, n_w=32)}
    rain = ObservedContexts(CONTEXTS, may_leave=True, **given)
    strategy = risk_search(DECISIONS, 0, environment=rain, risk_measure=Expectation(), **SMALL)
    X = strategy.ask()
    W = CONTEXTS[1] + torch.linspace(-0.5, 0.2, X.shape[1]).double()[None, :, None]
    strategy.tell(torch.cat([X, W], dim=-1), X.sum(dim=-1, keepdim=True))
    assert strategy.ask().isfinite().all()
    support = strategy.belief.environment.points
    assert support.amax() == CONTEXTS[1]  # which carries probability


def test_the_error_of_a_context_outside_says_what_works() -> None:
    rain = ObservedContexts(CONTEXTS)
    strategy = risk_search(DECISIONS, 0, environment=rain, risk_measure=Expectation(), **SMALL)
    strategy.ask()
    outside = torch.cat([DECISIONS[:1], CONTEXTS[1:] + 0.1], dim=-1).expand(1, 6, -1)
    with pytest.raises(InputDataError, match=r"`ObservedContexts\(\.\.\., may_leave=True\)`"):
        strategy.tell(outside, torch.rand(1, 6, 1).double())


def test_a_density_without_clipping_is_refused_for_contexts_that_may_leave() -> None:
    learn = partial(KernelDensityEnvironment, n_w=8, at_bounds="reflect")
    with pytest.raises(ValueError, match=r"at_bounds='clip' .* Got at_bounds='reflect'"):
        ObservedContexts(CONTEXTS, learn, may_leave=True)


@pytest.mark.slow
def test_a_learnt_distribution_has_every_option_of_a_known_one() -> None:
    r"""Constraints, an acquisition function of BoTorch, the choice of w and the report."""
    rain = ObservedContexts(CONTEXTS, partial(KernelDensityEnvironment, n_w=16))
    few = {**SMALL, "num_restarts": 1, "raw_samples": 8}
    tail = ConditionalValueAtRisk(0.2)
    strategies: dict[str, Any] = {
        "constrained": {"constraints": [RiskConstraint.chance(rain, 5.0, outcome=0, delta=0.2)]},
        "of BoTorch": {"decide": MonteCarloDecision(qLogNoisyExpectedImprovement)},
        "reported": {"reporting": "recorded_lower_confidence_bound"},
        "chosen": {"choose": DecisionThenValue(largest_bound, LacingValue())},
    }
    for options in strategies.values():
        strategy = risk_search(
            DECISIONS, (0, 1), environment=rain, risk_measure=tail, **few, **options
        )
        play(strategy, 2)
        assert strategy.ask().shape == (2, 1, 2)
        assert strategy.recommend().isfinite().all()


def test_a_constraint_holds_under_what_was_learnt() -> None:
    r"""The same as if the learnt distribution had been known."""
    rain = ObservedContexts(CONTEXTS, partial(KernelDensityEnvironment, n_w=16))
    limit = RiskConstraint.chance(rain, 5.0, outcome=0, delta=0.2)
    with pytest.raises(UnsupportedError, match=r"distribution of W\. Got `Observed"):
        limit.bound(SingleTaskGP(torch.rand(4, 3).double(), torch.rand(4, 1).double()), 4.0)
    options = {"risk_measure": Expectation(), **SMALL}
    strategy = risk_search(DECISIONS, 0, environment=rain, constraints=[limit], **options)
    play(strategy, 2)
    learnt = strategy.belief.bound.environment
    (constraint,) = strategy.belief.risk_constraints
    assert constraint.environment is learnt
    torch.testing.assert_close(learnt.observed, strategy.history.X[..., 2:])


def test_w_that_is_chosen_does_not_show_its_distribution() -> None:
    with pytest.raises(UnsupportedError, match="known distribution of w if w is chosen"):
        risk_kde(
            DECISIONS, 0, context_bounds=CONTEXTS, risk_measure=Expectation(), w_is_chosen=True
        )


def test_a_batch_has_the_earlier_decisions_pending() -> None:
    strategy = build("sbo_kde", batch_size=2)
    play(strategy, 1)
    first, second = strategy.ask().unbind(dim=-2)
    assert ((first - second).abs().amax(dim=-1) > 1e-3).all()
