r"""RAHBO, its rivals, and what every model-based strategy must obey."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from botorch.exceptions.errors import BotorchTensorDimensionError, InputDataError
from torch import Tensor

from botorch_risk.acquisition import RiskAverseLowerConfidenceBound, RiskAverseUpperConfidenceBound
from botorch_risk.models import MeanVarianceGP
from botorch_risk.seeding import generators
from botorch_risk.strategies import RAHBO, RAHBOUS, HeteroscedasticGPUCB, Strategy
from botorch_risk.test_functions import HeteroscedasticSine

PROBLEM = HeteroscedasticSine()
OPTIONS: dict[str, Any] = {"num_initial": 6, "num_restarts": 3, "raw_samples": 32}
STRATEGIES = [RAHBO, RAHBOUS, HeteroscedasticGPUCB]

every = pytest.mark.parametrize("kind", STRATEGIES, ids=lambda kind: kind.__name__)


def build(kind: Any, seeds: Any = (0, 1, 2), **options: Any) -> Any:
    return kind(PROBLEM.bounds, 4, 1.0, seeds, **{**OPTIONS, **options})


def evaluate(strategy: Any, X: Tensor, index: int) -> Tensor:
    return PROBLEM.sample_repeats(X, 4, generators(strategy.seeds, "observations", index))


def play(strategy: Any, rounds: int, first: int = 0) -> list[Tensor]:
    asked = []
    for index in range(first, first + rounds):
        asked.append(strategy.ask())
        strategy.tell(asked[-1], evaluate(strategy, asked[-1], index))
    return asked


@every
def test_protocol_and_shapes(kind: Any) -> None:
    strategy = build(kind, batch_size=2)
    assert isinstance(strategy, Strategy)
    first, second = play(strategy, 2)
    assert first.shape == (3, 6, 1)
    assert second.shape == (3, 2, 1)
    lower, upper = PROBLEM.bounds
    assert ((second >= lower) & (second <= upper)).all()
    single = build(kind)
    play(single, 1)
    torch.testing.assert_close(single.ask(), second[:, :1])  # the first does not know the second
    reported = strategy.recommend()
    assert reported.shape == (3, 1)
    evaluated = torch.cat([first, second], dim=-2)
    assert (evaluated == reported.unsqueeze(-2)).all(dim=-1).any(dim=-1).all()


@every
def test_asking_twice_changes_nothing(kind: Any) -> None:
    strategy = build(kind)
    play(strategy, 1)
    assert torch.equal(strategy.ask(), strategy.ask())


@every
def test_state_continues_bit_for_bit(kind: Any) -> None:
    strategy, resumed = build(kind), build(kind)
    play(strategy, 2)
    resumed.load_state_dict(strategy.state_dict())
    for left, right in zip(play(strategy, 2, 2), play(resumed, 2, 2), strict=True):
        assert torch.equal(left, right)
    assert torch.equal(strategy.recommend(), resumed.recommend())
    with pytest.raises(ValueError, match=r"state of seeds \[0, 1\]"):
        build(kind, seeds=[0, 1]).load_state_dict(strategy.state_dict())


@every
def test_a_replicate_does_not_depend_on_its_company(kind: Any) -> None:
    together = play(build(kind, seeds=[4, 0, 7]), 4)
    alone = play(build(kind, seeds=0), 4)
    for many, one in zip(together, alone, strict=True):
        torch.testing.assert_close(many[1:2], one, atol=1e-6, rtol=0)


def test_one_round_by_hand() -> None:
    r"""Algorithm 1 with BoTorch's own fit and a grid in place of the optimiser."""
    strategy = build(RAHBO, seeds=3, num_restarts=10, raw_samples=256)
    (X,) = play(strategy, 1)
    candidate = strategy.ask()
    acqf = RiskAverseUpperConfidenceBound(strategy.model, 4.0, 4.0, 1.0)
    grid = torch.linspace(0, 1, 2001, dtype=torch.float64).reshape(1, -1, 1)
    best = acqf.evaluate(grid).max()
    assert acqf.evaluate(candidate / 2).item() >= best.item() - 1e-9
    by_hand = MeanVarianceGP(X[0] / 2, evaluate(strategy, X, 0)[0])
    for ours, theirs in (
        (by_hand.noise_model, strategy.model.noise_model),
        (by_hand.mean_model, strategy.model.mean_model),
    ):
        ours.covar_module.lengthscale = theirs.covar_module.lengthscale[0]
        ours.mean_module.constant = theirs.mean_module.constant[0].item()
    by_hand.refresh_noise()
    single = RiskAverseUpperConfidenceBound(by_hand, 4.0, 4.0, 1.0)
    torch.testing.assert_close(single.evaluate(grid[0]), acqf.evaluate(grid)[0].detach())


def test_gp_ucb_explores_as_if_risk_neutral() -> None:
    neutral, rahbo = build(HeteroscedasticGPUCB), build(RAHBO)
    (X,) = play(neutral, 1)
    play(rahbo, 1)
    free = RiskAverseUpperConfidenceBound(neutral.model, 4.0, 4.0, 0.0)
    assert (free.evaluate(neutral.ask() / 2) >= free.evaluate(X / 2).amax(-1, keepdim=True)).all()
    assert torch.equal(neutral.recommend(), rahbo.recommend())  # same data, same rule


def test_uncertainty_sampling_comes_first() -> None:
    strategy = build(RAHBOUS, num_uncertainty=2)
    play(strategy, 1)
    for _ in range(2):
        spread = strategy.model.noise.marginals(strategy.ask() / 2).variance
        grid = torch.linspace(0, 1, 501, dtype=torch.float64).reshape(1, -1, 1).expand(3, -1, 1)
        best = strategy.model.noise.marginals(grid).variance.amax(dim=-1, keepdim=True)
        assert (spread >= best * (1 - 1e-3)).all()
        play(strategy, 1, first=strategy._round)
    acqf = RiskAverseUpperConfidenceBound(strategy.model, 4.0, 0.0, 1.0)
    assert (acqf.evaluate(strategy.ask() / 2) >= acqf.evaluate(grid).amax(-1, True) - 1e-6).all()
    with pytest.raises(ValueError, match="num_uncertainty=-1"):
        build(RAHBOUS, num_uncertainty=-1)


def test_known_noise_is_in_the_units_of_the_bounds() -> None:
    strategy = build(RAHBO, known_noise=lambda X: PROBLEM.noise_variance(X).unsqueeze(-1))
    play(strategy, 2)
    X = torch.rand(3, 5, 1, dtype=torch.float64)
    expected = PROBLEM.noise_variance(2 * X)
    torch.testing.assert_close(strategy.model.predicted_noise(X).squeeze(-1), expected)


def test_recorded_bounds_are_those_of_the_model_that_chose() -> None:
    strategy = build(RAHBO, rule="recorded_lower_confidence_bound")
    play(strategy, 1)
    bound = RiskAverseLowerConfidenceBound(strategy.model, 4.0, 4.0, 1.0)
    (X,) = play(strategy, 1, first=1)
    torch.testing.assert_close(strategy._recorded[:, -1:], bound.lower(X / 2).detach())
    assert strategy.recommend().shape == (3, 1)


@every
def test_missing_outcomes_of_a_replicate_leave_the_others_untouched(kind: Any) -> None:
    whole, holed = build(kind), build(kind)
    for index in range(4):
        X = whole.ask()
        Y = evaluate(whole, X, index)
        whole.tell(X, Y)
        asked = holed.ask()
        torch.testing.assert_close(asked[[0, 2]], X[[0, 2]], atol=1e-6, rtol=0)
        Z = evaluate(holed, asked, index)
        Z[1, :3] = torch.nan  # replicate 1 fails, at first in part, then wholly
        holed.tell(asked, Z)
    rows = holed._Y[1].isfinite().any(dim=-1)
    assert (holed._X[1][rows] == holed.recommend()[1]).all(dim=-1).any()
    assert holed.recommend().isfinite().all()


@pytest.mark.filterwarnings("ignore:Data .outcome observations. is not standardized")
def test_a_replicate_may_fail_from_the_start() -> None:
    strategy = build(RAHBO)
    for index in range(3):
        X = strategy.ask()
        Y = evaluate(strategy, X, index)
        Y[2] = torch.nan
        X[2] = torch.nan if index else X[2]
        with pytest.warns(match="constant in replicate 2"):
            strategy.tell(X, Y)
            strategy.ask()
    assert strategy.ask().isfinite().all()
    assert strategy.recommend()[:2].isfinite().all()


def test_bad_input_changes_nothing() -> None:
    strategy = build(RAHBO)
    X = strategy.ask()
    Y = evaluate(strategy, X, 0)
    for bad_X, bad_Y, error, message in (
        (X[:2], Y[:2], BotorchTensorDimensionError, "`3 x q x 1`"),
        (X, Y[..., :1, :], BotorchTensorDimensionError, "`3 x q x 4`"),
        (X, Y.masked_fill(Y > 0, torch.inf), InputDataError, "Got infinity"),
        (X * torch.nan, Y, InputDataError, "Got an outcome at NaN"),
    ):
        with pytest.raises(error, match=message):
            strategy.tell(bad_X, bad_Y)
    assert torch.equal(strategy.ask(), X)
    with pytest.raises(ValueError, match="Expected outcomes before a recommendation"):
        strategy.recommend()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"bounds": torch.tensor([[1.0], [0.0]])}, "each lower bound below its upper bound"),
        ({"bounds": torch.tensor([[0.0], [torch.inf]])}, "finite `bounds`"),
        ({"num_repeats": 1}, "num_repeats=1"),
        ({"risk_aversion": -1.0}, r"`risk_aversion` to be finite and >= 0\. Got -1"),
        ({"beta": -1.0}, "`beta`"),
        ({"seeds": [1, 1]}, "one distinct seed per replicate"),
        ({"num_initial": 0}, "num_initial=0"),
    ],
)
def test_bad_arguments(arguments: dict[str, Any], message: str) -> None:
    good: dict[str, Any] = {
        "bounds": PROBLEM.bounds,
        "num_repeats": 4,
        "risk_aversion": 1.0,
        "seeds": 0,
    }
    with pytest.raises(ValueError, match=message):
        RAHBO(**{**good, **arguments})
