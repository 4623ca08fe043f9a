r"""What a point is: boxes, with and without whole numbers, and spaces of one's own."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest
import torch
from botorch.exceptions.errors import BotorchTensorDimensionError, InputDataError, UnsupportedError
from torch import Tensor

from botorch_risk.acquisition.risk_bound import gp_ucb
from botorch_risk.environments import (
    DiscreteEnvironment,
    Environment,
    InputPerturbation,
    KernelDensityEnvironment,
)
from botorch_risk.papers import RandomOrAcquire
from botorch_risk.strategies import (
    Acquire,
    Box,
    EnvironmentSpace,
    FiniteDomain,
    RandomPoints,
    Strategy,
)

BOUNDS = torch.tensor([[-1.0, 0.0], [3.0, 1.0]], dtype=torch.double)


def test_the_unit_cube_and_back() -> None:
    box = Box(BOUNDS)
    X = BOUNDS[0] + (BOUNDS[1] - BOUNDS[0]) * torch.rand(2, 5, 2, dtype=torch.double)
    unit = box.unit(X)
    assert ((unit >= 0) & (unit <= 1)).all()
    torch.testing.assert_close(box.from_unit(unit), X)
    beyond = torch.full((1, 1, 2), 1 + 1e-12, dtype=torch.double)
    assert torch.equal(box.from_unit(beyond)[0, 0], BOUNDS[1])


def test_bounds_are_copied() -> None:
    mine = BOUNDS.clone()
    box = Box(mine)
    mine.zero_()
    assert torch.equal(box.bounds, BOUNDS)


@pytest.mark.parametrize(
    ("bounds", "error", "message"),
    [
        (torch.zeros(3, 2), BotorchTensorDimensionError, r"`bounds` .* `2 x d`, .* Got \(3, 2\)"),
        (torch.zeros(2, 0), BotorchTensorDimensionError, "d >= 1"),
        (torch.tensor([[1.0], [0.0]]), ValueError, "each lower bound below its upper bound"),
        (torch.tensor([[0.0], [torch.inf]]), ValueError, "finite `bounds`"),
    ],
)
def test_boxes_that_are_none(bounds: torch.Tensor, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        Box(bounds)


MIXED = torch.tensor([[0.5, 10.0, -1.0], [3.7, 20.0, 1.0]], dtype=torch.double)


def test_whole_numbers_within_the_bounds() -> None:
    box = Box(MIXED, integers=[-3], categories=(2,))
    assert (box.integers, box.categories, box.discrete) == ((0,), (2,), [0, 2])
    assert box.bounds.tolist() == [[1.0, 10.0, -1.0], [3.0, 20.0, 1.0]]
    assert box.discrete_dims == {0: [1.0, 2.0, 3.0]}
    assert box.cat_dims == {2: [-1.0, 0.0, 1.0]}
    assert torch.equal(MIXED[:, 0], torch.tensor([0.5, 3.7], dtype=torch.double))  # the user's own


def test_every_whole_number_is_as_probable() -> None:
    box = Box(MIXED, [0], [2])
    for X in (box.initial([0, 1], 900), box.random_points([0, 1], 9000, "draw", 3)):
        for column in (0, 2):
            for value in box.bounds[:, column].mean() + torch.tensor([-1.0, 0.0, 1.0]):
                share = (X[..., column] == value).double().mean(dim=-1)
                torch.testing.assert_close(share, share * 0 + 1 / 3, atol=0.02, rtol=0)
        plain = Box(box.bounds)
        continuous = plain.initial([0, 1], 900)[..., 1]
        if X.shape[1] == 900:
            assert torch.equal(X[..., 1], continuous)


def test_every_point_of_a_finite_domain_is_as_probable() -> None:
    domain = FiniteDomain(torch.linspace(0, 1, 4, dtype=torch.double).unsqueeze(-1))
    X = domain.random_points([0, 1], 9000, "draw")
    shares = X.eq(domain.domain.squeeze(-1)).double().mean(dim=-2)
    torch.testing.assert_close(shares, torch.full_like(shares, 0.25), atol=0.02, rtol=0)


@pytest.mark.parametrize("dtype", [torch.float, torch.double])
def test_points_off_the_grid_are_refused_and_rounding_is_taken_away(dtype: torch.dtype) -> None:
    box = Box(MIXED.to(dtype), [0], [2])
    X = torch.tensor([[[2.0, 12.5, 0.0], [3.0, 15.0, -1.0]]], dtype=dtype)
    assert torch.equal(box.rows(X, lambda: X), X)
    near = X + 1e-7 * torch.tensor([1.0, 0.0, -1.0], dtype=dtype)
    assert torch.equal(box.rows(near, lambda: X), X)
    missing = X.clone()
    missing[0, 0] = torch.nan
    assert box.rows(missing, lambda: X)[0, 0].isnan().all()
    for shift in ([0.5, 0.0, 0.0], [0.0, 0.0, 0.01]):
        moved = X - torch.tensor(shift, dtype=dtype)
        with pytest.raises(InputDataError, match=r"whole numbers in the columns \[0, 2\]"):
            box.rows(moved.clamp(-0.999, 99), lambda: X)
    with pytest.raises(InputDataError, match="Expected points within bounds"):
        box.rows(X + 3, lambda: X)


def test_the_unit_cube_has_a_column_for_each_category_and_back() -> None:
    box = Box(MIXED, [0], [2])
    X = box.initial([0, 1], 20)
    unit = box.unit(X)
    assert unit.shape == (2, 20, 5)
    assert torch.equal(unit[..., 0], (X[..., 0] - 1) / 2)
    assert torch.equal(unit[..., 2:].argmax(dim=-1) - 1, X[..., 2].long())
    assert torch.equal(unit[..., 2:].sum(dim=-1), torch.ones(2, 20).double())
    back = box.from_unit(unit)
    assert torch.equal(back[..., [0, 2]], X[..., [0, 2]])
    torch.testing.assert_close(back, X)
    assert box.unit(X * torch.nan)[..., :2].isnan().all()


def test_integers_alone_need_no_encoding() -> None:
    box = Box(MIXED, [0, 2])
    X = box.initial([0], 6)
    assert torch.equal(box.unit(X), Box(box.bounds).unit(X))
    assert torch.equal(box.from_unit(box.unit(X))[..., [0, 2]], X[..., [0, 2]])


def test_a_state_carries_the_whole_numbers() -> None:
    def build(*columns: Any) -> Strategy:
        return Strategy(Box(MIXED.round(), *columns), RandomPoints(), [0, 1], num_initial=4)

    strategy = build([0], [2])
    assert strategy.state_dict()["arguments"]["space"]["categories"] == [2]
    build([0], [2]).load_state_dict(strategy.state_dict())
    with pytest.raises(ValueError, match=r"integers=\[0\], .* Got integers=\[0, 2\] in space"):
        build([0, 2]).load_state_dict(strategy.state_dict())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"integers": [3]}, r"columns in \[0, 3\) in `integers`\. Got 3"),
        ({"categories": [-4]}, r"columns in \[0, 3\) in `categories`\. Got -4"),
        ({"integers": [0], "categories": [-3]}, "each column once in `integers` and `categories`"),
        ({"integers": [0, 0]}, r"each column once .* Got self.integers=\(0, 0\)"),
    ],
)
def test_columns_that_are_none(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Box(MIXED, **options)


def test_a_column_with_one_whole_number_is_refused() -> None:
    with pytest.raises(ValueError, match=r"two whole numbers .* column 0\. Got \[0.5, 1.7\]"):
        Box(torch.tensor([[0.5], [1.7]]), [0])


def test_perturbations_leave_whole_numbers_alone() -> None:
    box = Box(MIXED, [0], [2])
    delta = torch.tensor([[0.0, -0.5, 0.0], [0.0, 0.5, 0.0]], dtype=torch.double)
    assert EnvironmentSpace(box, InputPerturbation(delta)).perturbs
    with pytest.raises(UnsupportedError, match=r"of 0 in the columns .* \[0, 2\]\. Got 0\.1"):
        EnvironmentSpace(box, InputPerturbation(delta + 0.1))


class RelativeError(Environment):
    r"""A machine sets the decision to within a tenth of it."""

    def expand(self, X: Tensor) -> tuple[Tensor, Tensor]:
        errors = torch.tensor([-0.1, 0.0, 0.1]).to(X)
        return X.unsqueeze(-2) * (1 + errors).unsqueeze(-1), torch.full_like(errors, 1 / 3)


def test_an_environment_is_independent_or_a_perturbation() -> None:
    with pytest.raises(UnsupportedError, match=r"or an `InputPerturbation`\. Got RelativeError"):
        EnvironmentSpace(Box(BOUNDS), RelativeError())


def test_replicates_with_environments_of_their_own_are_told_apart_if_these_are_discrete() -> None:
    observed = torch.rand(2, 5, 1, dtype=torch.double)
    unit = torch.tensor([[0.0], [1.0]], dtype=torch.double)
    learnt = KernelDensityEnvironment(observed, unit, n_w=4, seeds=[0, 1])
    space = EnvironmentSpace(Box(BOUNDS), learnt)
    assert space.of([0, 1]) is space
    with pytest.raises(UnsupportedError, match=r"Got KernelDensityEnvironment of .*\[2\]"):
        space.of([1])
    known = EnvironmentSpace(Box(BOUNDS), DiscreteEnvironment(observed))
    assert torch.equal(known.of([1]).environment.points, observed[1:])


class WholeNumbers:
    r"""A space of one's own: the first column is a whole number, the last how often to repeat."""

    bounds = torch.tensor([[0.0, 0.0, 1.0], [9.0, 1.0, 4.0]], dtype=torch.double)
    num_columns = 3

    def of(self, replicates: Sequence[int]) -> WholeNumbers:
        return self

    def rounded(self, X: Tensor) -> Tensor:
        return torch.cat([X[..., :1].round(), X[..., 1:2], X[..., 2:].round()], dim=-1)

    def initial(self, seeds: Sequence[int], num_points: int) -> Tensor:
        return self.rounded(Box(self.bounds).initial(seeds, num_points))

    def shown(self, asked: Tensor) -> Tensor:
        return asked

    def rows(self, X: Tensor, asked: Any) -> Tensor:
        return Box(self.bounds).rows(X, asked)

    def unit(self, X: Tensor) -> Tensor:
        return Box(self.bounds).unit(X)

    def maximize(self, *arguments: Any) -> Tensor:
        return self.rounded(Box(self.bounds).maximize(*arguments))


def test_whole_numbers_and_a_number_of_repeats_that_the_method_chooses() -> None:
    r"""Nothing of a strategy takes a box for granted, or the number of repeats."""
    acquire = Acquire(partial(gp_ucb, beta=4.0), batched=True, num_restarts=2, raw_samples=16)
    strategy = Strategy(WholeNumbers(), acquire, [0, 1], num_initial=4)
    for _ in range(3):
        X = strategy.ask()
        assert (X[..., [0, 2]].frac() == 0).all()
        outcomes = (0.5 * X).sin().sum(dim=-1, keepdim=True).expand(*X.shape[:-1], 4)
        taken = torch.arange(4) < X[..., 2:]
        strategy.tell(X, outcomes.masked_fill(~taken, torch.nan))
    counts = strategy.history.Y[..., 0].isfinite().sum(dim=-1)
    assert torch.equal(counts, strategy.history.X[..., 2].long())
    resumed = Strategy(WholeNumbers(), acquire, [0, 1], num_initial=4)
    resumed.load_state_dict(strategy.state_dict())
    assert torch.equal(resumed.ask(), strategy.ask())


class Corners(RandomPoints):
    r"""Proposes points without the column of the level or of W."""

    def propose(self, view: Any) -> Tensor:
        return view.space.bounds[:1].expand(len(view.seeds), view.batch_size, -1)


def test_proposals_of_another_shape_are_refused() -> None:
    domain = FiniteDomain(torch.linspace(0, 1, 5, dtype=torch.double).unsqueeze(-1), num_levels=2)
    strategy = Strategy(domain, Corners(), seeds=[0, 1], num_initial=2)
    X = strategy.ask()
    strategy.tell(X, X[..., :1])
    with pytest.raises(BotorchTensorDimensionError, match=r"`propose` of Corners .* `2 x 1 x 2`"):
        strategy.ask()


def test_random_points_of_a_domain_have_a_level() -> None:
    domain = torch.linspace(0, 1, 5, dtype=torch.double).unsqueeze(-1)
    space = FiniteDomain(domain, num_levels=3, initial_level=2)
    X = space.random_points([0, 1], 6, "any")
    assert X.shape == (2, 6, 2)
    assert set(X[..., 1].flatten().tolist()) == {2.0}
    assert torch.isin(X[..., 0], domain).all()


@pytest.mark.parametrize("method", [RandomPoints(), RandomOrAcquire(RandomPoints())])
def test_a_space_without_what_a_method_needs_is_refused_at_once(method: Any) -> None:
    with pytest.raises(UnsupportedError, match="Got WholeNumbers, which has no `random_points`"):
        Strategy(WholeNumbers(), method, seeds=0)
    single = Acquire(partial(gp_ucb, beta=4.0))
    with pytest.raises(UnsupportedError, match="Got WholeNumbers, which has no `from_unit`"):
        Strategy(WholeNumbers(), single, seeds=0)


def test_an_initial_design_has_each_setting_once_before_one_comes_again() -> None:
    bounds = torch.tensor([[0.0, 1.0], [2.0, 2.0]], dtype=torch.double)
    box = Box(bounds, integers=[0], categories=[1])
    sequence, seeds = box._sobol_points(range(20), 6), list(range(20))
    assert any(len(rows.unique(dim=0)) < 6 for rows in sequence)  # Sobol points repeat some
    X = box.initial(seeds, 8)
    assert all(len(rows[:6].unique(dim=0)) == 6 for rows in X)
    assert torch.equal(box.initial(seeds, 4), X[:, :4])
    assert torch.equal(box.initial([7, 3], 6), X[[7, 3], :6])
    for rows, drawn in zip(X, sequence, strict=True):  # in the order of the sequence
        first = [tuple(row) for row in drawn.tolist()]
        kept = list(dict.fromkeys(first))
        assert [tuple(row) for row in rows.tolist()][: len(kept)] == kept
