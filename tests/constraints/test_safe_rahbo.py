r"""RAHBO under constraints that hold while it searches."""

import json
from typing import Any

import pytest
import torch
from botorch.exceptions.errors import BotorchTensorDimensionError, InputDataError, UnsupportedError
from torch import Tensor

from botorch_risk.constraints import NoiseConstraint, NoisyChanceConstraint, safe_rahbo
from botorch_risk.constraints.safe_rahbo import SafeStart
from botorch_risk.papers import rahbo
from botorch_risk.strategies import Strategy
from botorch_risk.strategies.space import decision_box

BOUNDS = torch.tensor([[0.0], [2.0]], dtype=torch.double)
START = torch.tensor([[0.1], [0.2], [0.3], [0.4]], dtype=torch.double)
LOAD = NoisyChanceConstraint(threshold=1.1, outcome=1, delta=0.5)
OPTIONS: dict[str, Any] = {
    "safe_points": START,
    "num_repeats": 4,
    "risk_aversion": 0.5,
    "num_restarts": 3,
    "raw_samples": 32,
    "num_candidates": 200,
}


def readings(X: Tensor, seeds: Any, t: int) -> Tensor:
    r"""The objective rises up to 1.5; the load is x itself."""
    noise = []
    for seed in seeds:
        generator = torch.Generator().manual_seed(100 * seed + t)
        noise.append(torch.randn(X.shape[1], 4, 2, generator=generator, dtype=torch.double))
    means = torch.cat([(X - 1.5).square().neg(), X], dim=-1).unsqueeze(-2)
    return means + 0.05 * torch.stack(noise)


def played(strategy: Strategy, rounds: int) -> list[Tensor]:
    asked = []
    for t in range(rounds):
        asked.append(strategy.ask())
        strategy.tell(asked[-1], readings(asked[-1], strategy.seeds, t))
    return asked


def build(seeds: Any = (0, 1), **options: Any) -> Strategy:
    return safe_rahbo(BOUNDS, seeds, **{"constraints": [LOAD], **OPTIONS, **options})


def test_safe_points_in_single_precision_are_the_decimals_that_they_stand_for() -> None:
    for points in (START.float(), START.float().numpy(), START.tolist()):
        assert torch.equal(build(safe_points=points).ask(), START.expand(2, -1, -1))


@pytest.mark.slow
def test_every_point_was_safe_by_the_model_that_asked_for_it() -> None:
    strategy = build()
    assert torch.equal(strategy.ask(), START.expand(2, -1, -1))
    played(strategy, 1)
    for t in range(1, 9):
        X = strategy.ask()
        known = (X.unsqueeze(-2) == START).all(dim=-1).any(dim=-1)
        assert (strategy.belief.feasible(X / 2) | known).all()
        strategy.tell(X, readings(X, strategy.seeds, t))
    assert (strategy.recommend() <= 1.1).all()
    assert (strategy.recommend() > 0.8).all()  # far beyond the start, close to the limit


@pytest.mark.slow
def test_readings_may_serve_to_prove_another_point() -> None:
    r"""RAHBO wants what is not safe yet, and the set grows towards it."""
    strategy = build(safety_beta=100.0)
    played(strategy, 1)
    grid = torch.linspace(0, 1, 201, dtype=torch.double).reshape(1, -1, 1).expand(2, -1, 1)
    before = strategy.belief.feasible(grid).sum(dim=-1)
    wanted = grid[0, strategy.belief.bound.evaluate(grid).argmax(dim=-1)]
    assert not strategy.belief.feasible(wanted.unsqueeze(-2)).any()
    for t in range(1, 5):
        X = strategy.ask()
        strategy.tell(X, readings(X, strategy.seeds, t))
    assert (strategy.belief.feasible(grid).sum(dim=-1) > before).all()


def test_without_a_limit_in_reach_it_is_rahbo() -> None:
    far = [NoisyChanceConstraint(1e3, outcome=0, delta=0.5), NoiseConstraint(1e3)]
    safe = build(constraints=far)
    options = {name: value for name, value in OPTIONS.items() if "safe" not in name}
    del options["num_candidates"]
    method = rahbo(BOUNDS, 0, **options).method
    plain = Strategy(SafeStart(decision_box(BOUNDS), START), method, [0, 1], num_initial=4)
    for t in range(4):
        X = safe.ask()
        assert torch.equal(X, plain.ask())
        Y = readings(X, safe.seeds, t)[..., 0]
        safe.tell(X, Y)
        plain.tell(X, Y)
    assert torch.equal(safe.recommend(), plain.recommend())
    ((_, one),), ((_, other),) = safe.views, plain.views
    pairs = zip(safe.method.predict_risk(one, X), plain.method.predict_risk(other, X), strict=True)
    assert all(torch.equal(left, right) for left, right in pairs)
    assert torch.equal(safe.method.predict(one, X).noise, plain.method.predict(other, X).noise)


@pytest.mark.slow
def test_a_replicate_is_the_same_alone_and_a_second_time() -> None:
    both, again, alone = build(), build(), build(seeds=1)
    for one, two, three in zip(*(played(each, 4) for each in (both, again, alone)), strict=True):
        assert torch.equal(one, two)
        torch.testing.assert_close(one[1:], three, atol=1e-6, rtol=0)


@pytest.mark.slow
def test_a_state_of_two_outcomes_continues_bit_for_bit() -> None:
    strategy, resumed = build(), build()
    played(strategy, 3)
    resumed.load_state_dict(json.loads(json.dumps(strategy.state_dict())))
    assert any("outcome 1" in name for name in strategy.state)
    for t in (3, 4):
        X = strategy.ask()
        assert torch.equal(X, resumed.ask())
        for each in (strategy, resumed):
            each.tell(X, readings(X, strategy.seeds, t))


def test_a_batch_is_safe_and_the_model_forgets_what_is_pending() -> None:
    strategy = build(batch_size=3, constraints=[LOAD, NoiseConstraint(0.2)])
    played(strategy, 2)
    X = strategy.ask()
    assert X.shape == (2, 3, 1)
    known = (X.unsqueeze(-2) == START).all(dim=-1).any(dim=-1)
    assert (strategy.belief.feasible(X / 2) | known).all()
    assert strategy.belief.bound.X_pending is None


def test_where_nothing_is_safe_by_the_model_a_safe_point_is_read_again() -> None:
    r"""The model may come to doubt all points, but not those that are known to be safe."""
    strategy = build(constraints=[NoisyChanceConstraint(0.2, outcome=1, delta=0.001)])
    played(strategy, 1)
    X = strategy.ask()
    assert not strategy.belief.feasible(X / 2).any()
    assert (X == START.T).any(dim=-1).all()
    assert (strategy.recommend().unsqueeze(-2) == START).any(dim=1).all()  # and recommended


def test_whole_numbers_stay_whole() -> None:
    start = torch.tensor([[1.0], [2.0]], dtype=torch.double)
    box = decision_box(BOUNDS * 5)
    whole = type(box)(box.bounds, integers=[0])
    candidates = SafeStart(whole, start).candidates(start.expand(2, 2, 1), [0, 1], 50, 1)
    assert candidates.shape == (2, 54, 1)
    assert torch.equal(candidates, candidates.round())
    assert ((candidates >= 0) & (candidates <= 10)).all()


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"safe_points": torch.empty(0, 1)}, BotorchTensorDimensionError, "q >= 1"),
        ({"safe_points": torch.tensor([[0.1, 0.2]])}, BotorchTensorDimensionError, "x q x 1"),
        ({"safe_points": torch.tensor([[3.0]])}, InputDataError, "within bounds"),
        ({"constraints": []}, ValueError, "at least one constraint"),
        ({"constraints": [lambda x: x]}, TypeError, "each of type `NoisyChanceConstraint`"),
        ({"safety_beta": -1.0}, ValueError, "`beta`"),
        ({"epsilon": -1.0}, ValueError, "`epsilon`"),
        ({"num_candidates": 1}, ValueError, "`num_candidates`"),
        ({"refit_every": 2}, UnsupportedError, "`refit_every=1`"),
        (
            {"rule": "posterior_mean_everywhere"},
            UnsupportedError,
            "a reporting rule that recommends evaluated points",
        ),
        ({"num_repeats": 1}, ValueError, "`num_repeats` to be at least 2"),
    ],
)
def test_bad_arguments(options: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        build(**options)
