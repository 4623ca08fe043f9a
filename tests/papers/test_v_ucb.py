r"""Strategies under an environment whose distribution is known."""

from functools import partial
from typing import Any

import pytest
import torch
from botorch.exceptions.errors import BotorchTensorDimensionError, InputDataError, UnsupportedError
from torch import Tensor
from torch.distributions import Normal

from botorch_risk.acquisition import RiskUpperConfidenceBound, bayesian_beta, lacing_mask
from botorch_risk.environments import ContinuousEnvironment, DiscreteEnvironment, InputPerturbation
from botorch_risk.papers import v_ucb
from botorch_risk.risk import ValueAtRisk, WorstCase
from botorch_risk.seeding import generators
from botorch_risk.strategies import (
    DecisionThenValue,
    LacingValue,
    Strategy,
    largest_bound,
    risk_search,
)
from botorch_risk.test_functions import ValueAtRiskBranin, ValueAtRiskHartmann

PROBLEM = ValueAtRiskBranin()
DECISIONS = torch.tensor([[0.0], [1.0]], dtype=torch.double)
SMALL: dict[str, Any] = {"num_initial": 4, "num_restarts": 2, "raw_samples": 16}
# StableOpt, Eq. (5) of the paper: the best decision under the worst w, which is then queried.
stable_opt = partial(
    risk_search,
    risk_measure=WorstCase(),
    beta=bayesian_beta,
    choose=DecisionThenValue(largest_bound, LacingValue("uniform")),
    w_is_chosen=True,
    reporting="posterior_mean",
)
CASES: dict[str, tuple[Any, dict[str, Any]]] = {
    "vucb_prob": (v_ucb, {"risk_level": 0.1}),
    "vucb_unif": (v_ucb, {"risk_level": 0.1, "rule": "uniform"}),
    "vucb_observed": (v_ucb, {"risk_level": 0.1, "w_is_chosen": False}),
    "stable_opt": (stable_opt, {}),
}
every = pytest.mark.parametrize("name", CASES)


def build(name: str, seeds: Any = (0, 1, 2), environment: Any = None, **options: Any) -> Strategy:
    make, chosen = CASES[name]
    environment = PROBLEM.environment if environment is None else environment
    return make(DECISIONS, seeds, environment=environment, **{**SMALL, **chosen, **options})


def meet(strategy: Any, X: Tensor, index: int) -> tuple[Tensor, Tensor]:
    r"""Pairs, with a w from its distribution where none was chosen, and their noisy outcomes."""
    if X.shape[-1] == 1:
        draws = generators(strategy.seeds, "contexts", index)
        X = torch.cat([X, PROBLEM.environment.sample(X.shape[-2], draws)], dim=-1)
    draws = generators(strategy.seeds, "noise", index)
    noise = [torch.randn(X.shape[-2], generator=each, dtype=torch.double) for each in draws]
    return X, (PROBLEM(X, noise=False) + 0.1 * torch.stack(noise)).unsqueeze(-1)


def play(strategy: Any, rounds: int, first: int = 0) -> list[Tensor]:
    asked = []
    for index in range(first, first + rounds):
        asked.append(strategy.ask())
        strategy.tell(*meet(strategy, asked[-1], index))
    return asked


@pytest.mark.parametrize("name", ["vucb_unif", "vucb_observed"])
@pytest.mark.slow
def test_missing_outcomes_leave_the_other_replicates_untouched(name: str) -> None:
    rule = "recorded_lower_confidence_bound"
    whole, holed = build(name, reporting=rule), build(name, reporting=rule)
    for index in range(3):
        X = whole.ask()
        asked = holed.ask()
        torch.testing.assert_close(asked[[0, 2]], X[[0, 2]], atol=1e-5, rtol=0)
        whole.tell(*meet(whole, X, index))
        points, Y = meet(holed, asked, index)
        Y[1, :2] = torch.nan
        if index == 2:
            points[1] = torch.nan  # it takes no part
        holed.tell(points, Y)
    assert holed.recommend().isfinite().all()
    torch.testing.assert_close(holed.recommend()[[0, 2]], whole.recommend()[[0, 2]])


def test_no_bound_is_recorded_of_a_row_that_is_missing() -> None:
    r"""And of no row at all unless the report asks for bounds."""
    for reporting in ("recorded_lower_confidence_bound", "posterior_mean"):
        strategy = build("vucb_prob", reporting=reporting)
        play(strategy, 1)
        ((_, view),) = strategy.views
        rows = strategy.ask().clone()
        rows[1] = torch.nan
        method: Any = strategy.method
        found = method.record(view, rows)
        if reporting == "posterior_mean":
            assert found is None
        else:
            assert found.isnan().flatten().tolist() == [False, True, False]


@pytest.mark.parametrize("name", ["vucb_prob", "vucb_unif"])
@pytest.mark.slow
def test_w_laces_given_the_pending_pairs(name: str) -> None:
    r"""Each pair of a batch, under a model that has seen its predecessors' own mean."""
    strategy = build(name, batch_size=3)
    play(strategy, 1)
    pairs = strategy.ask()
    bound = strategy.belief
    assert bound.beta == pytest.approx(bayesian_beta(1))
    for pick in range(3):
        model = bound.model
        if pick:
            before = pairs[:, :pick]
            model.posterior(before)
            model = model.condition_on_observations(before, model.posterior(before).mean)
        given = RiskUpperConfidenceBound(model, bound.environment, ValueAtRisk(0.1), bound.beta)
        lower, upper, weights = given.pointwise_bounds(pairs[:, pick : pick + 1, :1])
        mask = lacing_mask(lower, upper, weights, 0.1)
        chosen = (bound.environment.points[:, 0] == pairs[:, pick, 1:]).long().argmax(dim=-1)
        assert mask[torch.arange(3), 0, chosen].all()
        if name == "vucb_prob":
            best = weights.masked_fill(~mask, 0.0).amax(dim=-1)[:, 0]
            torch.testing.assert_close(bound.environment.weights[chosen], best)


def test_x_maximises_the_bound() -> None:
    strategy = build("vucb_prob", num_restarts=8, raw_samples=128)
    play(strategy, 2)
    X = strategy.ask()[..., :1]
    grid = torch.linspace(0, 1, 501, dtype=torch.double)[:, None].expand(3, 501, 1)
    best = strategy.belief.upper(grid).amax(dim=-1)
    assert (strategy.belief.upper(X)[:, 0] >= best - 1e-3).all()


@pytest.mark.parametrize("rule", ["probability", "uniform", "variance"])
def test_level_to_zero_is_stable_opt(rule: str) -> None:
    r"""Theorem 2 and Corollary 2.2: the same pairs, round after round."""
    vucb = build("vucb_prob", [0, 1], risk_level=1e-30, rule=rule)
    stable_opt = build("stable_opt", [0, 1])
    for one, two in zip(play(vucb, 3), play(stable_opt, 3), strict=True):
        torch.testing.assert_close(one, two, atol=1e-7, rtol=0)
    assert isinstance(stable_opt.belief.risk_measure, WorstCase)


@every
def test_initial_w_are_even_over_the_support(name: str) -> None:
    points = torch.linspace(0, 1, 5, dtype=torch.double).unsqueeze(-1)
    weather = DiscreteEnvironment(points, torch.tensor([0.9, 0.05, 0.0, 0.04, 0.01]))
    strategy = build(name, environment=weather, num_initial=400)
    first = strategy.ask()
    paired = build(name, environment=weather, num_initial=400).ask()
    assert torch.equal(first, paired)
    if name == "vucb_observed":
        assert first.shape == (3, 400, 1)
        return
    counts = torch.stack([(first[..., 1] == w).sum() for w in points[:, 0]])
    assert counts[2] == 0
    assert ((counts[[0, 1, 3, 4]] - 300).abs() < 75).all()


def test_reporting_rules() -> None:
    rules = [
        "posterior_mean",
        "lower_confidence_bound",
        "recorded_lower_confidence_bound",
        "posterior_mean_everywhere",
    ]
    strategies = [build("vucb_prob", seeds=[3, 4], reporting=rule) for rule in rules]
    recorded = []
    for index in range(3):
        asked = [strategy.ask() for strategy in strategies]
        assert all(torch.equal(asked[0], each) for each in asked)
        bound = strategies[0].belief if index else None
        rows = strategies[0].history.X if index == 1 else asked[0][:, :0]
        if bound is not None:  # the model of the round in which x was queried
            recorded.append(bound.lower(torch.cat([rows, asked[0]], dim=-2)[..., :1]))
        for strategy in strategies:
            strategy.tell(*meet(strategy, asked[0], index))
        if index == 0:
            assert torch.equal(strategies[1].recommend(), strategies[2].recommend())
    bounds = torch.cat(recorded, dim=-1).detach()
    torch.testing.assert_close(strategies[2].history.recorded, bounds)
    visited, final = strategies[0].history.X[..., :1], strategies[0].belief
    rows = torch.arange(2)
    for strategy, scores in zip(
        strategies, (final.mean(visited), final.lower(visited), bounds), strict=False
    ):
        expected = visited[rows, scores.argmax(dim=-1)]
        torch.testing.assert_close(strategy.recommend(), expected)
    grid = torch.linspace(0, 1, 401, dtype=torch.double)[:, None].expand(2, 401, 1)
    anywhere = final.mean(strategies[3].recommend().unsqueeze(-2))[:, 0]
    assert (anywhere >= final.mean(grid).amax(dim=-1) - 1e-3).all()


def test_constant_and_scheduled_beta() -> None:
    for beta, expected in ((4.0, [4.0, 4.0]), (lambda t: 10.0 * t, [10.0, 20.0])):
        strategy = build("vucb_prob", beta=beta)
        for index, value in enumerate(expected):
            play(strategy, 1, first=index)
            assert strategy.belief.beta == value


def test_continuous_law_and_two_environmental_variables() -> None:
    problem = ValueAtRiskHartmann(1, "continuous")
    strategy = build("vucb_prob", [0, 1], problem.environment)
    for _ in range(3):
        X = strategy.ask()
        strategy.tell(X, problem(X, noise=False).unsqueeze(-1))
    assert X.shape == (2, 1, 3)
    assert problem.environment.supports(X[..., 1:]).all()


def test_environments_of_their_own() -> None:
    points = torch.rand(3, 6, 1, generator=torch.Generator().manual_seed(0)).double()
    strategy = build("vucb_prob", environment=DiscreteEnvironment(points))
    play_pairs = [strategy.ask()]
    strategy.tell(play_pairs[0], PROBLEM(play_pairs[0]).unsqueeze(-1))
    play_pairs.append(strategy.ask())
    for pairs in play_pairs:
        for r in range(3):
            assert torch.isin(pairs[r, :, 1], points[r, :, 0]).all()


@pytest.mark.slow
def test_learns_what_matters() -> None:
    r"""After 20 rounds on Branin the regret of V-UCB is a tenth of where it began."""
    strategy = build("vucb_prob", seeds=range(4), num_restarts=6)
    play(strategy, 1)
    best = PROBLEM.optimal_value_at_risk
    first = (best - PROBLEM.objective(strategy.recommend())).mean()
    play(strategy, 20, first=1)
    last = (best - PROBLEM.objective(strategy.recommend())).mean()
    assert 0 <= last < 0.1 * first


def test_bad_arguments() -> None:
    with pytest.raises(ValueError, match=r"`risk_level` in \(0, 1\)"):
        build("vucb_prob", risk_level=0.0)
    with pytest.raises(ValueError, match=r"`rule` to be one of .* Got 'best'"):
        build("vucb_prob", rule="best")
    with pytest.raises(ValueError, match=r"Expected `reporting` to be one of .* Got 'best'"):
        build("vucb_prob", reporting="best")
    with pytest.raises(ValueError, match="`beta`"):
        build("vucb_prob", beta=-1.0)
    with pytest.raises(ValueError, match="finite `bounds`"):
        v_ucb(DECISIONS.flip(0), 0, environment=PROBLEM.environment, risk_level=0.1)
    with pytest.raises(BotorchTensorDimensionError, match="`batch_shape x m x 2`"):
        build("vucb_prob", environment=InputPerturbation(torch.zeros(3, 2)))
    unit = torch.tensor([[0.0], [1.0]], dtype=torch.double)
    clipped = ContinuousEnvironment(Normal(0.5, 0.5), unit, 16, seeds=0, beyond="clip")
    with pytest.raises(UnsupportedError, match="Expected a distribution with a density"):
        build("vucb_prob", environment=clipped)
    build("vucb_unif", environment=clipped)
    build("vucb_observed", environment=clipped)
    with pytest.raises(BotorchTensorDimensionError, match="one for each of 3 replicates"):
        build("vucb_prob", environment=DiscreteEnvironment(torch.rand(2, 6, 1)))


@every
def test_bad_outcomes_change_nothing(name: str) -> None:
    strategy = build(name)
    first = strategy.ask()
    X, Y = meet(strategy, first, 0)
    outside = X.clone()
    outside[1, 2, 1] = 0.1234
    for bad_X, bad_Y, error, message in (
        (X[..., :1], Y, BotorchTensorDimensionError, "`R x q x 2`"),
        (X, Y.masked_fill(Y > -9, torch.inf), InputDataError, "Got infinity"),
        (X * torch.nan, Y, InputDataError, "Got a point of NaN"),
        (outside, Y, InputDataError, r"its distribution\. Got \[0\.1234\] at \(1, 2\)"),
    ):
        with pytest.raises(error, match=message):
            strategy.tell(bad_X, bad_Y)
    assert torch.equal(strategy.ask(), first)
    with pytest.raises(ValueError, match="Expected the outcomes of the initial design"):
        strategy.recommend()


def two_peaks(queries: Tensor) -> Tensor:
    r"""An outcome with a wide peak, and a higher and narrow one to its right."""
    return (-8 * (queries - 0.25).square()).exp() + 1.3 * (-300 * (queries - 0.8).square()).exp()


@pytest.mark.parametrize(
    ("kind", "clipped"), [("vucb", False), ("stable_opt", True), ("observed", True)]
)
@pytest.mark.slow
def test_perturbed_decisions(kind: str, clipped: bool) -> None:
    r"""Sec. 3.4, `VaR(f(x + W))`: what is asked, kept and recommended is right by brute force."""
    shifts = torch.tensor([[-0.15], [-0.05], [0.0], [0.05], [0.15]], dtype=torch.double)
    masses = torch.tensor([0.1, 0.2, 0.4, 0.3, 0.0], dtype=torch.double)
    environment = InputPerturbation(shifts, masses, DECISIONS if clipped else None)
    options = {**SMALL, "num_initial": 6, "batch_size": 2}

    def build_one() -> Any:
        if kind == "stable_opt":
            return build("stable_opt", [0, 1], environment, **options)
        chosen = {"risk_level": 0.2, "w_is_chosen": kind == "vucb"}
        return build("vucb_prob", [0, 1], environment, **chosen, **options)

    strategy, resumed = build_one(), build_one()
    for index in range(2):
        asked = X = strategy.ask()
        assert X.shape == (2, 2 if index else 6, 1)
        resumed.load_state_dict(strategy.state_dict())
        if kind == "observed":
            X = environment.expand(X)[0][..., 1, :]
        strategy.tell(X, two_peaks(X))
    resumed.tell(X, two_peaks(X))
    decisions, queries = strategy.history.X.split(1, dim=-1)
    assert torch.equal(queries[:, -2:], X)
    if kind == "observed":
        assert torch.equal(decisions[:, -2:], asked)
    moved = decisions + shifts[:4, 0]  # R x n x n_w
    moved = moved.clamp(0, 1) if clipped else moved
    torch.testing.assert_close((moved - queries).abs().amin(dim=-1), torch.zeros(2, 8).double())
    model = strategy.belief.model
    expected = []
    for r in range(2):
        with torch.no_grad():
            means = model.posterior(moved[r].reshape(-1, 1).expand(2, -1, 1)).mean[r].reshape(8, 4)
        if kind == "stable_opt":
            risks = means.amin(dim=-1)
        else:
            orders = means.argsort(dim=-1)
            sorted_masses = masses[:4][orders].cumsum(dim=-1) >= 0.2 - 1e-12
            risks = means.gather(-1, orders).gather(-1, sorted_masses.long().argmax(-1, True))
        expected.append(decisions[r, risks.flatten().argmax()])
    assert torch.equal(strategy.recommend(), torch.stack(expected))
    assert torch.equal(resumed.recommend(), strategy.recommend())


def test_perturbed_decisions_are_told_as_they_were_asked() -> None:
    environment = InputPerturbation(torch.tensor([[-0.1], [0.1]], dtype=torch.double))
    strategy = build("vucb_prob", [0, 1], environment, risk_level=0.2)
    X = strategy.ask()
    for bad, error, message in (
        (torch.cat([X, X], dim=1), BotorchTensorDimensionError, r"as asked.* Got \(2, 8, 1\)"),
        (X + 0.01, InputDataError, "w in the support of its distribution"),
    ):
        with pytest.raises(error, match=message):
            strategy.tell(bad, two_peaks(bad))
    assert torch.equal(strategy.ask(), X)
