r"""One experiment with one reading a row."""

import json
from collections.abc import Callable
from typing import Any

import pytest
import torch
from botorch.exceptions.errors import BotorchTensorDimensionError, InputDataError, UnsupportedError
from botorch.exceptions.warnings import InputDataWarning
from torch import Tensor

from botorch_risk.environments import InputPerturbation
from botorch_risk.frames import SingleExperiment
from botorch_risk.papers import rahbo, v_ucb
from botorch_risk.strategies import Strategy
from tests.strategies.cases import NUM_INITIAL, STRATEGIES, StrategyCase
from tests.strategies.loops import evaluate, meet

NAN = torch.nan
CASES = {case.name: case for case in STRATEGIES}
chosen = pytest.mark.parametrize(
    "case",
    [
        pytest.param(CASES[name], id=name)
        for name in (
            "rahbo",
            "rahbo-mixed",
            "adaptive_repeats-fixed",
            "random_or_acquire",
            "sbo_kde",
            "v_ucb",
            "truvar",
            "truvar-maximum",
            "pareto_search",
        )
    ],
)


def long_form(X: Tensor, Y: Tensor) -> tuple[Tensor, Tensor]:
    r"""A shuffled table, one reading a row, of points `q x d` and repeats `q x k (x m)`."""
    repeats = Y.unsqueeze(-1) if Y.dim() == 2 else Y
    q, k, m = repeats.shape
    # All first readings before all second ones, so that points keep their order.
    rows = torch.cat([torch.arange(q), torch.randperm(q * (k - 1)) + q])
    table = X.repeat(k, 1), repeats.transpose(0, 1).reshape(q * k, m)
    y = table[1][rows]
    return table[0][rows], y.squeeze(-1) if m == 1 else y


def ordered(X: Tensor, x: Tensor, y: Tensor) -> Tensor:
    r"""The readings of each point in the order of the table, `1 x q x k x m`, filled with NaN."""
    y = y.reshape(len(y), -1)
    rows = [y[(x == point).all(dim=-1)] for point in X]
    rows = [row[~row.isnan().all(dim=-1)] for row in rows]
    Y = X.new_full((len(X), max(1, *map(len, rows)), y.shape[-1]), NAN)
    for place, row in zip(Y, rows, strict=True):
        place[: len(row)] = row
    return Y.unsqueeze(0)


@chosen
@pytest.mark.slow
def test_long_form_equals_the_padded_table_to_the_last_bit(case: StrategyCase) -> None:
    padded, experiment = case.build(0), SingleExperiment(case.build(0))
    for index in range(3):
        asked = padded.ask()
        there = ~asked[0].isnan().any(dim=-1)
        assert torch.equal(experiment.ask(), asked[0, there])
        X = meet(padded, asked[:, there], index, case.problem)
        Y = evaluate(padded, X, index, case.problem).clone()
        Y[0, 1:2, 0] = NAN  # a reading is missing
        if index == 0:
            Y[0, 2] = NAN  # a point failed
        x, y = long_form(X[0], Y[0])
        padded.tell(X, ordered(X[0], x, y))
        experiment.tell(x, y)
        assert_equal(experiment.strategy, padded)
    recommended = padded.recommend()[0]
    torch.testing.assert_close(experiment.recommend(), recommended, rtol=0, atol=0, equal_nan=True)


def assert_equal(left: Strategy, right: Strategy) -> None:
    assert left.history.rounds.tolist() == right.history.rounds.tolist()
    assert torch.equal(left.history.X, right.history.X)
    assert torch.equal(left.history.Y.nan_to_num(nan=-1e9), right.history.Y.nan_to_num(nan=-1e9))
    assert left.state.keys() == right.state.keys()
    for name, value in left.state.items():
        torch.testing.assert_close(value, right.state[name], rtol=0, atol=0, equal_nan=True)


def readings(X: Tensor) -> Tensor:
    r"""A reading of each row."""
    return (5 * X[:, 0]).sin() + 0.1 * (1 + X[:, 0]) * torch.randn(len(X), dtype=torch.double)


def risk_averse(seeds: Any = 0, **options: Any) -> SingleExperiment:
    bounds = torch.tensor([[0.0, -1.0], [1.0, 1.0]], dtype=torch.double)
    few: dict[str, Any] = {"num_repeats": 2, "risk_aversion": 1.0, "num_initial": 4}
    few |= {"num_restarts": 2, "raw_samples": 16}
    return SingleExperiment(rahbo(bounds, seeds, **few, **options))


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.slow
def test_later_readings_are_as_if_told_together(missing: bool) -> None:
    together, later = risk_averse(), risk_averse()
    X = together.ask().repeat(3, 1)
    y = readings(X)
    if missing:
        y[1] = y[4] = NAN
    together.tell(X, y)
    later.tell(X[:8], y[:8])
    later.tell(X[8:], y[8:])
    assert later.strategy.history.round == 1
    assert_equal(later.strategy, together.strategy)
    models = [each.strategy.belief for each in (together, later)]
    for name, value in models[0].state_dict().items():
        torch.testing.assert_close(models[1].state_dict()[name], value, rtol=0, atol=0)
    assert torch.equal(later.ask(), together.ask())


@pytest.mark.parametrize(("rows", "counts"), [([3], [1, 1, 1, 1]), ([3, 0], [2, 1, 1, 1])])
def test_single_readings_are_enough_for_the_model(rows: list[int], counts: list[int]) -> None:
    experiment = risk_averse()
    X = experiment.ask()
    experiment.tell(X[:3], readings(X[:3]))
    experiment.tell(X[rows], readings(X[rows]))
    assert experiment.strategy.history.round == 1
    assert experiment.strategy.belief.train_counts.flatten().tolist() == counts


def test_a_refused_tell_takes_its_further_readings_back() -> None:
    experiment = risk_averse()
    X = experiment.ask()
    experiment.tell(X[:2], torch.ones(2))
    before = experiment.state_dict()
    with pytest.raises(InputDataWarning, match="constant"):  # warnings are errors here
        experiment.tell(torch.cat([X[:2], X[2:]]), torch.tensor([1.0, NAN, 1.0, 1.0]))
    assert experiment.state_dict() == before


def test_the_design_is_asked_in_any_order_and_old_data_take_the_places_near_them() -> None:
    experiment = risk_averse()
    design = experiment.ask()
    experiment.tell(design[[2]], readings(design[[2]]))
    assert torch.equal(experiment.ask(), design[[0, 1, 3]])
    old = design[[1]] + 0.01
    experiment.tell(old, readings(old))
    assert torch.equal(experiment.ask(), design[[0, 3]])


def test_old_data_may_replace_the_whole_design() -> None:
    experiment = risk_averse()
    old = torch.rand(6, 2, dtype=torch.double).repeat(2, 1)
    experiment.tell(old, readings(old))
    assert experiment.strategy.history.round == 1
    assert experiment.ask().shape == (1, 2)


def test_a_point_that_is_asked_for_again_is_a_row_of_its_own() -> None:
    case = CASES["truvar-maximum"]
    domain = case.box[:3]
    strategies = [case.make(domain, 0, num_initial=3, **case.options) for _ in range(2)]
    padded, experiment = strategies[0], SingleExperiment(strategies[1])
    for round in range(3):  # there are no other points
        X = padded.ask()[0]
        assert torch.equal(experiment.ask(), X)
        padded.tell(X.unsqueeze(0), readings(X).reshape(1, -1, 1) * 0 + round)
        experiment.tell(X, torch.full((len(X),), float(round)))
    assert_equal(experiment.strategy, padded)
    assert padded.history.rounds.tolist() == [0, 0, 0, 1, 2]


def test_contexts_are_part_of_a_row() -> None:
    experiment = SingleExperiment(CASES["sbo_kde"].build(0))
    X = experiment.ask()
    same = torch.cat([X, X.new_full((NUM_INITIAL, 1), 0.5)], dim=-1)
    other = torch.cat([X[:1], X.new_full((1, 1), 0.25)], dim=-1)
    rows = torch.cat([same, same, other])
    experiment.tell(rows, readings(rows))
    history = experiment.strategy.history
    assert history.num_rows == NUM_INITIAL + 1
    assert history.Y.isfinite().sum(dim=-2).flatten().tolist() == [2] * NUM_INITIAL + [1]


def test_state_continues_bit_for_bit() -> None:
    experiment, resumed = risk_averse(), risk_averse()
    X = experiment.ask().repeat(2, 1)
    experiment.tell(X, readings(X))
    experiment.tell(X[:1], torch.tensor([0.2]))
    resumed.load_state_dict(json.loads(json.dumps(experiment.state_dict())))
    assert torch.equal(resumed.ask(), experiment.ask())
    assert torch.equal(resumed.recommend(), experiment.recommend())
    with pytest.raises(ValueError, match=r"Expected seeds\[0\]=0, .* Got seeds\[0\]=1"):
        risk_averse(1).load_state_dict(experiment.state_dict())


ERRORS: list[tuple[Callable[[Tensor], tuple[Tensor, Tensor]], type[Exception], str]] = [
    (lambda X: (X[:, :1], X[:, 0]), BotorchTensorDimensionError, r"shape `n x 2`"),
    (lambda X: (X, X), BotorchTensorDimensionError, r"`y` of shape `n`"),
    (lambda X: (X[:2], X[:, 0]), BotorchTensorDimensionError, r"Expected `X` of shape"),
    (lambda X: (X, X[0, 0]), BotorchTensorDimensionError, r"Expected `X` of shape"),
    (lambda X: (X[:0], X[:0, 0]), BotorchTensorDimensionError, r"n >= 1"),
    (lambda X: (X * NAN, X[:, 0]), InputDataError, "Expected a finite point for each reading"),
    (lambda X: (X + 9, X[:, 0]), InputDataError, "Expected points within bounds"),
    (lambda X: (X, X[:, 0] / 0), InputDataError, "Got infinity"),
]


@pytest.mark.parametrize(("told", "error", "message"), ERRORS)
def test_errors_leave_all_as_it_was(told: Any, error: type[Exception], message: str) -> None:
    experiment = risk_averse()
    X = experiment.ask()
    experiment.tell(X[:2], readings(X[:2]))
    before = experiment.state_dict()
    with pytest.raises(error, match=message):
        experiment.tell(*told(X))
    assert experiment.state_dict() == before


def test_what_it_wraps() -> None:
    with pytest.raises(ValueError, match="Got 2 seeds"):
        risk_averse([0, 1])
    unit = torch.tensor([[0.0], [1.0]], dtype=torch.double)
    moves = InputPerturbation(torch.tensor([[-0.1], [0.1]], dtype=torch.double), bounds=unit)
    with pytest.raises(UnsupportedError, match="Got perturbed decisions"):
        SingleExperiment(v_ucb(unit, 0, environment=moves, risk_level=0.1))
