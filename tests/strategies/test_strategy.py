r"""What a strategy does around its method: state, atomic `tell`, missing rows, modes of PyTorch."""

import copy
import dataclasses
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import pytest
import torch
from botorch.exceptions.errors import InputDataError, UnsupportedError
from botorch.models import SingleTaskGP
from torch import Tensor

from botorch_risk.papers import LevelSet, rahbo, truvar
from botorch_risk.strategies import Strategy
from botorch_risk.strategies.history import ReplicateWithoutOutcomesWarning
from tests.strategies.cases import (
    DOMAIN,
    NUM_REPEATS,
    PROBLEM,
    STRATEGIES,
    StrategyCase,
    every_strategy,
)
from tests.strategies.loops import (
    SEEDS,
    decisions_of,
    evaluate,
    meet,
    play,
    recommended,
    undisturbed,
)

FAST: dict[str, Any] = {"num_restarts": 2, "raw_samples": 16}
OF_A_DOMAIN = [case for case in STRATEGIES if case.of_a_domain]
OF_MEAN_AND_VARIANCE = [case for case in STRATEGIES if "risk_aversion" in case.options][:4]
pytestmark = pytest.mark.filterwarnings("ignore")
on_a_domain = pytest.mark.parametrize("case", OF_A_DOMAIN, ids=lambda case: case.name)


def first_round(case: StrategyCase, strategy: Any) -> tuple[Tensor, Tensor]:
    X = meet(strategy, strategy.ask(), 0, case.problem)
    return X, evaluate(strategy, X, 0, case.problem)


def same(left: Any, right: Any) -> bool:
    r"""Whether two states are equal, NaN to NaN."""
    if isinstance(left, Tensor):
        return torch.equal(left.double().nan_to_num(), right.double().nan_to_num())
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    if isinstance(left, list | tuple):
        return len(left) == len(right) and all(map(same, left, right))
    return left == right


def with_boxes(case: StrategyCase, change: Callable[[Tensor], Tensor]) -> StrategyCase:
    r"""The case with other bounds, or another domain."""
    return dataclasses.replace(case, box=change(case.box))


# The state.


def refuses(other: Any, state: dict[str, Any], name: str) -> None:
    before = copy.deepcopy(other.state_dict())
    with pytest.raises(ValueError, match=rf"Expected ({name}).*=.* Got "):
        other.load_state_dict(state)
    assert same(other.state_dict(), before)


@every_strategy
def test_a_state_of_other_bounds_is_refused(case: StrategyCase) -> None:
    other = with_boxes(case, lambda box: 2 * box).build(SEEDS)
    refuses(other, undisturbed(case).states[0], "bounds|domain")


@every_strategy
@pytest.mark.slow
def test_a_state_of_another_initial_design_is_refused(case: StrategyCase) -> None:
    refuses(case.build(SEEDS, num_initial=5), undisturbed(case).states[0], "num_initial")


OPTIONS = {
    "beta": 7.0,
    "risk_aversion": 9.0,
    "noise": 0.5,
    "n_w": 8,
    "radius_scale": 0.7,
    "constraint_beta": 2.0,
}


def another_option(case: StrategyCase) -> tuple[str, Any]:
    r"""A strategy that was built with another of its own options, and the name of that."""
    for name, value in OPTIONS.items():
        try:
            return name, case.build(SEEDS, **{name: value})
        except TypeError:  # it has no such option
            continue
    return "num_restarts", case.build(SEEDS, num_restarts=7)


@every_strategy
def test_a_state_of_other_options_is_refused(case: StrategyCase) -> None:
    name, other = another_option(case)
    refuses(other, undisturbed(case).states[0], name)


@pytest.mark.parametrize("name", ["num_repeats", "risk_aversion"])
@pytest.mark.parametrize("case", OF_MEAN_AND_VARIANCE, ids=lambda case: case.name)
def test_a_state_of_other_repeats_or_aversion_is_refused(case: StrategyCase, name: str) -> None:
    refuses(case.build(SEEDS, **{name: 5}), undisturbed(case).states[0], name)


# What is told.


@contextmanager
def failing_linear_algebra() -> Iterator[None]:
    def fail(*arguments: Any, **options: Any) -> None:
        raise RuntimeError("the matrix is singular")

    with mock.patch("torch.linalg.cholesky_ex", fail), mock.patch("torch.linalg.cholesky", fail):
        yield


@every_strategy
def test_a_tell_that_fails_changes_nothing(case: StrategyCase) -> None:
    loop, strategy = undisturbed(case), case.build(SEEDS)
    for X, Y in loop.told[:2]:
        strategy.ask()
        before, told = copy.deepcopy(strategy.state_dict()), True
        with failing_linear_algebra():
            try:
                strategy.tell(X, Y)
            except RuntimeError:
                told = False
        if not told:
            assert same(strategy.state_dict(), before)
            strategy.tell(X, Y)
    assert same(strategy.ask(), loop.asked[2])
    assert same(strategy.recommend(), loop.reported[1])


def of_repeats() -> Strategy:
    options = {"num_repeats": NUM_REPEATS, "risk_aversion": 1.0, "num_initial": 4, **FAST}
    return rahbo(PROBLEM.bounds, (0, 1), **options)


def test_outcomes_that_overflow_leave_the_loop_as_it_was() -> None:
    strategy = of_repeats()
    X = strategy.ask()
    Y = (3 * X).sin() + 0.1 * torch.randn(2, 4, NUM_REPEATS).double()
    before = copy.deepcopy(strategy.state_dict())
    with pytest.raises(InputDataError, match=r"Got|NaN"):
        strategy.tell(X, 1e300 * Y)
    assert same(strategy.state_dict(), before)
    strategy.tell(X, Y)
    assert strategy.ask().shape == (2, 1, 1)


@every_strategy
@pytest.mark.slow
def test_the_rest_of_a_partly_told_initial_design_is_asked_again(case: StrategyCase) -> None:
    loop, strategy = undisturbed(case), case.build(SEEDS)
    X, Y = loop.told[0]
    assert same(strategy.ask(), loop.asked[0])
    strategy.tell(X[:, :2], Y[:, :2])
    assert same(strategy.ask(), loop.asked[0][:, 2:])
    strategy.tell(X[:, 2:], Y[:, 2:])
    torch.testing.assert_close(strategy.ask(), loop.asked[1], equal_nan=True)


@every_strategy
def test_a_replicate_without_outcomes_recommends_nothing_and_disturbs_nobody(
    case: StrategyCase,
) -> None:
    r"""It is told, and asked further; the point that it would recommend is NaN."""
    loop, strategy = undisturbed(case), case.build(SEEDS)
    X, Y = loop.told[0]
    holed = Y.clone()
    holed[1] = torch.nan
    strategy.tell(X, holed)
    torch.testing.assert_close(strategy.ask()[0], loop.asked[1][0], atol=1e-6, rtol=0)
    expected = decisions_of(loop.reported[0])[0]
    named = rf"without readings for seeds=\[{SEEDS[1]}\], whose recommendation is NaN"
    with pytest.raises(ValueError, match="equally many outcomes in every replicate"):
        strategy.belief  # noqa: B018
    with pytest.warns(ReplicateWithoutOutcomesWarning, match=named):
        torch.testing.assert_close(recommended(strategy)[0], expected, atol=1e-6, rtol=0)
    with pytest.warns(ReplicateWithoutOutcomesWarning, match=named) as warned:
        assert strategy.recommend()[1].isnan().all()
    assert warned[0].filename == __file__  # the line of the user


@every_strategy
@pytest.mark.slow
def test_the_number_of_repeats_may_vary(case: StrategyCase) -> None:
    loop, strategy = undisturbed(case), case.build(SEEDS)
    strategy.tell(*loop.told[0])
    X, Y = loop.told[1]
    strategy.tell(X, Y[:, :, :2])
    X = meet(strategy, strategy.ask(), 2, case.problem)
    Y = evaluate(strategy, X, 2, case.problem)
    strategy.tell(X, torch.cat([Y, Y + 0.1], dim=2)[:, :, :6])
    assert strategy.ask().shape[:2] == (3, 1)


# Rows without an outcome have no weight.

MISSING = {1: [5, 6, 7], 2: [0, 2, 3, 6]}  # which rows, by the replicate


def deviations_from_the_rows_that_are_there(case: StrategyCase) -> float:
    r"""Of replicates with missing rows, beside a whole one, from those of the other rows alone."""
    strategy = case.build([0, *MISSING], num_initial=8)
    X, Y = first_round(case, strategy)
    holed, deviations = Y.clone(), []
    for replicate, rows in MISSING.items():
        holed[replicate, rows] = torch.nan
        if case.learns_contexts:  # a context would count without its outcome
            X[replicate, rows] = torch.nan
    strategy.tell(X, holed)
    asked = strategy.ask()
    rows = meet(strategy, asked, 1, case.problem)
    outcomes = evaluate(strategy, rows, 1, case.problem)
    strategy.tell(rows, outcomes)
    asked_then, reported = strategy.ask(), recommended(strategy)
    for replicate, missing in MISSING.items():
        kept = [row for row in range(8) if row not in missing]
        alone = case.build([replicate], num_initial=len(kept))
        part = slice(replicate, replicate + 1)
        alone.ask()
        alone.tell(X[part, kept], Y[part, kept])
        pairs = [(alone.ask(), asked[part])]
        alone.tell(rows[part], outcomes[part])
        pairs += [(alone.ask(), asked_then[part]), (recommended(alone)[0], reported[replicate])]
        deviations += [(one - many).abs().nan_to_num().max().item() for one, many in pairs]
    return max(deviations)


OF_THE_OPTIMISERS = 2e-5  # what two of their runs may differ by; models agree to 1e-6


@every_strategy
@pytest.mark.handful
def test_rows_without_an_outcome_have_no_weight(case: StrategyCase) -> None:
    assert deviations_from_the_rows_that_are_there(case) < OF_THE_OPTIMISERS


def with_inferred_noise(X: Tensor, Y: Tensor, noise: Tensor | None) -> SingleTaskGP:
    return SingleTaskGP(X, Y)


@on_a_domain
def test_rows_without_an_outcome_have_no_weight_where_the_noise_is_inferred(
    case: StrategyCase,
) -> None:
    options = {**case.options, "model": with_inferred_noise, "noise": None, "refit_every": 1}
    inferred = dataclasses.replace(case, options=options)
    assert deviations_from_the_rows_that_are_there(inferred) < OF_THE_OPTIMISERS


# Models of a finite domain.


def metres() -> tuple[Tensor, Tensor]:
    r"""A domain of 500 m by 300 m, and a depth there."""
    domain = torch.cartesian_prod(torch.linspace(0, 500, 25), torch.linspace(0, 300, 15)).double()
    return domain, 10 * (domain[:, :1] / 120).sin() + domain[:, 1:] / 40


def test_the_default_model_knows_a_level_set_in_metres() -> None:
    domain, depth = metres()
    strategy = truvar(domain, 0, goal=LevelSet(5.0), noise=0.01, num_initial=8)
    for _ in range(10):
        X = strategy.ask()
        row = (X.unsqueeze(-2) == domain).all(dim=-1).to(torch.uint8).argmax(dim=-1)
        strategy.tell(X, depth[row] + 0.1 * torch.randn(*X.shape[:-1], 1).double())
    known, high = strategy.belief.posterior.mean >= 5, (depth >= 5).squeeze(-1)
    assert 2 * (known & high).sum() / (known.sum() + high.sum()) > 0.9  # the F1 score


@on_a_domain
def test_hyperparameters_are_fitted_unless_they_are_known(case: StrategyCase) -> None:
    X, Y = DOMAIN.domain[:3], DOMAIN.values[:3].unsqueeze(-1)
    initial = SingleTaskGP(X, Y).covar_module.lengthscale
    options = {name: value for name, value in case.options.items() if name != "estimator"}
    strategy = dataclasses.replace(case, options={**options, "model": SingleTaskGP}).build(SEEDS)
    play(strategy, 3, problem=case.problem)
    found = strategy.belief.posterior.model.covar_module.lengthscale
    assert not torch.isclose(found, initial.to(found)).any()


@on_a_domain
def test_points_between_those_of_the_domain_are_taken(case: StrategyCase) -> None:
    strategy, resumed = case.build((0, 1)), case.build((0, 1))
    strategy.tell(*first_round(case, strategy))
    X = torch.tensor([[[0.1234]], [[0.8765]]], dtype=torch.double)
    strategy.tell(X, (6 * X).sin().expand(2, 1, NUM_REPEATS))
    posterior = strategy.belief.posterior
    assert posterior.num_samples.tolist() == [7, 7]
    near = (DOMAIN.domain - X.flatten()).abs().argmin(dim=0)
    found = posterior.mean.gather(-1, near.unsqueeze(-1))
    torch.testing.assert_close(found.flatten(), (6 * X).sin().flatten(), atol=0.2, rtol=0)
    resumed.load_state_dict(strategy.state_dict())
    assert same(strategy.ask(), resumed.ask())


# Modes of PyTorch.


@every_strategy
def test_a_loop_in_inference_mode_runs_or_is_refused_in_one_line(case: StrategyCase) -> None:
    with torch.inference_mode():
        strategy = case.build(SEEDS)
        try:
            found = [*play(strategy, 2, problem=case.problem), strategy.ask(), strategy.recommend()]
        except UnsupportedError as error:
            assert "Expected gradients" in str(error)
            return
    loop = undisturbed(case)
    expected = [*loop.asked[:3], loop.reported[1]]
    for left, right in zip(expected, found, strict=True):
        torch.testing.assert_close(left, right, equal_nan=True)


def test_outcomes_that_were_made_in_inference_mode_are_taken() -> None:
    strategy = of_repeats()
    for _ in range(2):
        X = strategy.ask()
        with torch.inference_mode():
            Y = (3 * X).sin() + 0.1 * torch.randn(*X.shape[:-1], NUM_REPEATS).double()
        strategy.tell(X, Y)
    assert strategy.ask().shape == (2, 1, 1)


def test_nothing_can_be_set_that_nobody_reads() -> None:
    strategy = STRATEGIES[0].build(0)
    for name in ("rule", "risk_aversion", "method", "space", "batch_size"):
        with pytest.raises(AttributeError):
            setattr(strategy, name, None)


def test_further_readings_of_a_row_are_as_if_told_together() -> None:
    together, later = of_repeats(), of_repeats()
    X = together.ask()
    Y = (3 * X).sin() + 0.1 * torch.randn(*X.shape[:-1], NUM_REPEATS + 1).double()
    Y[1, 2, -1] = torch.nan
    together.tell(X, Y)
    later.tell(X, Y[..., :-1])
    later.cancel(later.ask())  # or else it would run, and another one be chosen
    for rows in ([2, 0], [index for index in range(X.shape[1]) if index not in (0, 2)]):
        later.add_readings(rows, Y[:, rows, -1:])
    assert same(later.history.Y, together.history.Y)
    assert later.history.round == together.history.round
    assert torch.equal(later.ask(), together.ask())
    before = later.state_dict()
    for rows, outcome in (([0, 0], 1.0), ([X.shape[1]], 1.0), ([0], torch.inf)):
        with pytest.raises((ValueError, InputDataError), match="Expected"):
            later.add_readings(rows, torch.full((2, len(rows), 1), outcome))
    assert same(later.state_dict(), before)
