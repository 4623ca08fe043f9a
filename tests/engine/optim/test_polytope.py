r"""Search and uniform points within linear limits."""

from itertools import product
from typing import Any

import cvxpy
import numpy as np
import pytest
import torch
from botorch.exceptions.errors import UnsupportedError
from numpy import ndarray
from torch import Tensor

from botorch_risk.engine import Polytope, PolytopeSampler, optimize_acqf_replicates
from botorch_risk.engine.optim import polytope_sampler
from botorch_risk.engine.optim.polytope_walk import Walk
from botorch_risk.engine.projected_bfgs.polyhedron import Polyhedron, quadratic_programs

UNIT = torch.tensor([[0.0, 0.0, 0.0], [1.0, 1.0, 1.0]], dtype=torch.double)
EVERY = torch.arange(3)
WHOLE = (EVERY, torch.ones(3), 1.0)


@pytest.mark.parametrize("seed", range(12))
def test_quadratic_programs_are_solved(seed: int) -> None:
    r"""Also where some limits bind at the start, or follow from others."""
    draw = np.random.default_rng(seed)
    p, rows = draw.integers(1, 6), 4
    free = draw.normal(size=(draw.integers(0, 4), p))
    matrix = np.concatenate([np.eye(p), -np.eye(p), free, free[:1]])
    slack = abs(draw.normal(size=(rows, len(matrix)))) * draw.integers(0, 2, (rows, len(matrix)))
    roots = draw.normal(size=(rows, p, p))
    metric = roots @ roots.transpose(0, 2, 1) + 0.1 * np.eye(p)
    gradient = 3 * draw.normal(size=(rows, p))
    steps, multipliers, solved = quadratic_programs(metric, gradient, matrix, slack)
    assert solved.all() and (multipliers >= 0).all()
    for row, step in enumerate(steps):
        assert (matrix @ step - slack[row]).max() <= 1e-11
        bend = np.linalg.inv(metric[row])
        x = cvxpy.Variable(p)
        loss = gradient[row] @ x + cvxpy.quad_form(x, cvxpy.psd_wrap((bend + bend.T) / 2)) / 2
        program = cvxpy.Problem(cvxpy.Minimize(loss), [matrix @ x <= slack[row]])
        program.solve(solver=cvxpy.CLARABEL)
        found = gradient[row] @ step + step @ bend @ step / 2
        assert found <= program.value + 1e-6 * (1 + abs(program.value))


def test_limits_that_exclude_each_other_are_not_solved() -> None:
    apart = Polyhedron(np.array([[1.0, 0.0], [-1.0, 0.0]]), np.array([0.2, -0.4]), np.eye(2))
    assert not apart.nearest(np.zeros((1, 2)))[1].any()
    assert apart.step(np.full((1, 2), 0.3), np.ones((1, 2)), np.eye(2)[None])[0].shape == (1, 2)


class Bowls:
    r"""Concave parabolas with their peaks outside the limits."""

    def __init__(self, peaks: Tensor, bend: Tensor) -> None:
        self.peaks, self.bend = peaks, bend  # R x d, d x d

    def evaluate(self, X: Tensor) -> Tensor:
        away = X - self.peaks.unsqueeze(-2)
        return -(away @ self.bend * away).sum(dim=-1)


@pytest.mark.parametrize("seed", range(6))
def test_the_maximum_of_a_parabola_within_limits_is_found(seed: int) -> None:
    draw = torch.Generator().manual_seed(seed)
    d, replicates = 2 + seed, 3
    bounds = torch.stack([torch.full((d,), -1.0), torch.linspace(1, 4, d)]).double()
    root = torch.randn(d, d, generator=draw).double()
    bowls = Bowls(3 * torch.randn(replicates, d, generator=draw).double(), root @ root.mT)
    weights = torch.randn(2, d, generator=draw).double()
    center = bounds.mean(dim=0)
    limits: dict[str, Any] = {
        "inequality_constraints": [(torch.arange(d), weights[0], float(weights[0] @ center) - 0.1)],
        "equality_constraints": [(torch.arange(d), weights[1], float(weights[1] @ center))],
    }
    X, values = optimize_acqf_replicates(
        bowls, bounds, seeds=range(replicates), num_restarts=2, raw_samples=16, **limits
    )
    x = X.squeeze(-2)
    assert ((x >= bounds[0]) & (x <= bounds[1])).all()
    assert float((x @ weights[0]).min()) >= limits["inequality_constraints"][0][2] - 1e-9
    sums = limits["equality_constraints"][0][2]
    torch.testing.assert_close(x @ weights[1], torch.full_like(values, sums), atol=1e-9, rtol=0)
    for row in range(replicates):
        point = cvxpy.Variable(d)
        away = point - bowls.peaks[row].numpy()
        within = [point >= bounds[0].numpy(), point <= bounds[1].numpy()]
        within += [
            weights[0].numpy() @ point >= limits["inequality_constraints"][0][2],
            weights[1].numpy() @ point == sums,
        ]
        loss = cvxpy.quad_form(away, cvxpy.psd_wrap(bowls.bend.numpy()))
        program = cvxpy.Problem(cvxpy.Minimize(loss), within)
        program.solve(solver=cvxpy.CLARABEL)
        assert float(values[row]) == pytest.approx(-program.value, rel=1e-5, abs=1e-5)


class Separable:
    r"""A sum of concave functions of each column, one for each replicate."""

    peaks = torch.tensor([[0.9, 0.2, 0.6], [0.1, 0.1, 0.1]], dtype=torch.double)
    sharpness = torch.tensor([1.0, 3.0, 0.5], dtype=torch.double)

    def evaluate(self, X: Tensor) -> Tensor:
        return -(self.sharpness * (X - self.peaks.unsqueeze(-2)).square()).sum(dim=-1)


def best_of_all(values: list[list[float]], inside: Any) -> Tensor:
    every = torch.tensor([each for each in product(*values) if inside(each)], dtype=torch.double)
    found: Tensor = Separable().evaluate(every.expand(2, -1, -1)).amax(dim=-1)
    return found


@pytest.mark.parametrize("relation", ["equal", "at most"])
def test_whole_steps_move_in_pairs(relation: str) -> None:
    r"""Steps of two columns that make up for each other reach the best of all settings."""
    steps = [0.05 * k for k in range(21)]
    limit = {"equality_constraints": [WHOLE]}
    if relation == "at most":
        limit = {"inequality_constraints": [(EVERY, -torch.ones(3), -1.0)]}
    X, values = optimize_acqf_replicates(
        Separable(),
        UNIT,
        seeds=[0, 1],
        num_restarts=1,
        raw_samples=2,
        discrete_dims=dict.fromkeys(range(3), steps),
        **limit,
    )

    def inside(each: Any) -> bool:
        off = sum(each) - 1
        return abs(off) < 1e-9 if relation == "equal" else off < 1e-9

    torch.testing.assert_close(values, best_of_all([steps] * 3, inside))
    assert float((X.sum(dim=-1) - 1).max()) <= 1e-9


def test_continuous_columns_make_up_for_steps_and_categories_are_free() -> None:
    tens = [0.1 * k for k in range(11)]
    bounds = torch.cat([UNIT, torch.tensor([[0.0], [2.0]])], dim=-1).double()

    class WithCategory(Separable):
        def evaluate(self, X: Tensor) -> Tensor:
            return super().evaluate(X[..., :3]) - (X[..., 3] != 1.0).to(X)

    X, values = optimize_acqf_replicates(
        WithCategory(),
        bounds,
        seeds=[0, 1],
        num_restarts=3,
        raw_samples=16,
        discrete_dims={0: tens},
        cat_dims={3: [0.0, 1.0, 2.0]},
        equality_constraints=[WHOLE],
    )
    x = X.squeeze(-2)
    torch.testing.assert_close(x[:, :3].sum(dim=-1), torch.ones(2).double(), atol=1e-9, rtol=0)
    assert (x[:, 3] == 1.0).all() and float(
        (10 * x[:, 0] - (10 * x[:, 0]).round()).abs().max()
    ) < 1e-9
    fine = [[k / 200 for k in range(201)]] * 2
    best = best_of_all([tens, *fine], lambda each: abs(sum(each) - 1) < 1e-9)
    assert (values >= best - 1e-9).all()


def test_a_column_may_be_held_fixed() -> None:
    X, _ = optimize_acqf_replicates(
        Separable(),
        UNIT,
        seeds=[0, 1],
        num_restarts=2,
        raw_samples=8,
        equality_constraints=[WHOLE],
        fixed_features={2: 0.25},
    )
    torch.testing.assert_close(X[..., 2], torch.full((2, 1), 0.25).double())
    torch.testing.assert_close(X[..., :2].sum(dim=-1), torch.full((2, 1), 0.75).double())
    # The minimum of 1 (x - p_0)^2 + 3 (0.75 - x - p_1)^2.
    peaks = Separable.peaks
    expected = ((peaks[:, :1] + 3 * (0.75 - peaks[:, 1:2])) / 4).clamp(0, 0.75)
    torch.testing.assert_close(X[..., 0], expected, atol=1e-6, rtol=0)


def test_one_replicate_is_searched_as_in_company() -> None:
    options: dict[str, Any] = {
        "num_restarts": 3,
        "raw_samples": 16,
        "equality_constraints": [WHOLE],
    }

    class Same:
        def evaluate(self, X: Tensor) -> Tensor:
            return (7 * X).sin().sum(dim=-1)

    many, _ = optimize_acqf_replicates(Same(), UNIT, seeds=[3, 4, 5], **options)
    alone, _ = optimize_acqf_replicates(Same(), UNIT, seeds=[4], **options)
    torch.testing.assert_close(many[1:2], alone, atol=1e-6, rtol=0)


# Uniform points.


def sampled(polytope: Polytope, walks: bool, monkeypatch: pytest.MonkeyPatch) -> ndarray:
    if walks:
        parts = polytope_sampler._parts_of(polytope)
        monkeypatch.setattr(
            polytope_sampler, "_parts_of", lambda _: [Walk(part.columns) for part in parts]
        )
    points: ndarray = PolytopeSampler(polytope).uniform([0, 1], 4000).flatten(0, 1).numpy()
    return points


@pytest.mark.parametrize("walks", [False, True])
@pytest.mark.parametrize("d", [3, 5])
def test_a_simplex_is_filled_uniformly(d: int, walks: bool, monkeypatch: Any) -> None:
    bounds = torch.stack([torch.zeros(d), torch.full((d,), 2.0)]).double()
    whole = (torch.arange(d), torch.ones(d), 1.0)
    X = sampled(Polytope.of(bounds, equality_constraints=[whole]), walks, monkeypatch)
    assert abs(X.sum(axis=1) - 1).max() < 1e-12 and X.min() >= 0
    moments = (np.eye(d) * d - 1) / (d**2 * (d + 1))
    np.testing.assert_allclose(X.mean(axis=0), np.full(d, 1 / d), atol=0.015)
    np.testing.assert_allclose(np.cov(X.T), moments, atol=0.07 * moments.max())


@pytest.mark.parametrize("walks", [False, True])
def test_a_band_with_steps_is_filled_uniformly(walks: bool, monkeypatch: Any) -> None:
    r"""x_0 in quarters, and 0.1 of x_1 free round it: a thin band, where axes alone go slowly."""
    near = [
        (EVERY[:2], torch.tensor([1.0, -1.0]), -0.05),
        (EVERY[:2], torch.tensor([-1.0, 1.0]), -0.05),
    ]
    polytope = Polytope.of(UNIT, near, discrete_dims={0: [0.25 * k for k in range(5)]})
    X = sampled(polytope, False, monkeypatch)
    shares = [(X[:, 0] == 0.25 * k).mean() for k in range(5)]
    np.testing.assert_allclose(shares, [0.125, 0.25, 0.25, 0.25, 0.125], atol=0.02)
    assert abs(X[:, 2].mean() - 0.5) < 0.01
    if walks:  # of continuous columns
        polytope = Polytope.of(UNIT, near)
        X = sampled(polytope, True, monkeypatch)
        np.testing.assert_allclose(
            np.quantile(X[:, 0], [0.25, 0.5, 0.75]), [0.25, 0.5, 0.75], atol=0.03
        )
        assert abs(np.std(X[:, 0] - X[:, 1]) - 0.1 / 12**0.5) < 0.002


@pytest.mark.parametrize("walks", [False, True])
def test_settings_in_steps_are_equally_probable(walks: bool, monkeypatch: Any) -> None:
    r"""Of 8,000 points each of ten settings has 800, with a standard error of 27."""
    limits = {"equality_constraints": [(EVERY, torch.ones(3), 3.0)]}
    steps = {column: [0.0, 1.0, 2.0, 3.0] for column in range(3)}
    X = sampled(Polytope.of(3 * UNIT, **limits, discrete_dims=steps), walks, monkeypatch)
    counts = np.unique(X, axis=0, return_counts=True)[1]
    assert len(counts) == 10 and counts.min() > 650 and counts.max() < 950


def test_settings_that_are_too_many_to_list_walk() -> None:
    r"""Twelve shares of 100: mean 100 / 12, variance 100 * 112 / 12 * 11 / (12 * 13)."""
    d = 12
    bounds = torch.stack([torch.zeros(d), torch.full((d,), 100.0)]).double()
    whole = (torch.arange(d), torch.ones(d), 100.0)
    shares = {column: [float(k) for k in range(101)] for column in range(d)}
    polytope = Polytope.of(bounds, equality_constraints=[whole], discrete_dims=shares)
    assert polytope.settings(10**5) is None
    X = PolytopeSampler(polytope).sobol(range(4), 256).flatten(0, 1)
    assert (X.sum(dim=-1) == 100).all() and (X.round() == X).all() and float(X.min()) == 0
    assert float((X.mean(dim=0) - 100 / d).abs().max()) < 1.2
    assert abs(float(X.var(dim=0).mean()) - 65.8) < 5


def test_one_point_may_be_all_that_is_left() -> None:
    edges = [(EVERY, -torch.ones(3), 0.0)]  # x_0 + x_1 + x_2 <= 0
    X, values = optimize_acqf_replicates(
        Separable(), UNIT, seeds=[0, 1], num_restarts=1, raw_samples=2, inequality_constraints=edges
    )
    assert float(X.abs().max()) <= 1e-12
    torch.testing.assert_close(values, Separable().evaluate(X).squeeze(-1))


def test_where_few_proposals_are_inside_points_walk() -> None:
    r"""Ten columns with two equalities of mixed signs."""
    draw = torch.Generator().manual_seed(0)
    bounds = torch.stack([torch.zeros(10), torch.ones(10)]).double()
    weights = torch.randn(2, 10, generator=draw).double()
    sums = 0.3 * weights[:, :5].sum(dim=-1) + 0.1 * weights[:, 5:].sum(dim=-1)
    limits = [(torch.arange(10), w, float(s)) for w, s in zip(weights, sums, strict=True)]
    limits.append((torch.arange(10), torch.ones(10), 2.0))
    polytope = Polytope.of(bounds, [], limits)
    assert isinstance(polytope_sampler._parts_of(polytope)[0], Walk)
    sampler = PolytopeSampler(polytope)
    X = sampler.sobol([0, 1], 50)
    for columns, w, s in limits:
        assert float((X[..., columns] @ w.double() - s).abs().max()) < 1e-9
    assert float(X.min()) >= 0 and float(X.max()) <= 1
    torch.testing.assert_close(sampler.sobol([1], 50), X[1:], atol=1e-12, rtol=0)


@pytest.mark.parametrize(
    ("limits", "error", "message"),
    [
        (
            {"inequality_constraints": [(EVERY, torch.ones(3), 4.0)]},
            ValueError,
            "exclude all points",
        ),
        (
            {"equality_constraints": [(EVERY[:1], torch.zeros(1), 1.0)]},
            ValueError,
            "exclude all points",
        ),
        (
            {"equality_constraints": [(torch.tensor([3]), torch.ones(1), 1.0)]},
            ValueError,
            r"\[0, 3\)",
        ),
        ({"equality_constraints": [(EVERY, torch.ones(2), 1.0)]}, ValueError, "one coefficient"),
        (
            {"equality_constraints": [(EVERY[None], torch.ones(3), 1.0)]},
            UnsupportedError,
            "by itself",
        ),
        (
            {"equality_constraints": [WHOLE], "cat_dims": {0: [0.0, 1.0]}},
            UnsupportedError,
            "of a category in column 0",
        ),
        (
            {"equality_constraints": [WHOLE], "discrete_dims": {0: [0.0, 0.1, 1.0]}},
            UnsupportedError,
            "not evenly spaced in column 0",
        ),
        (
            {"equality_constraints": [WHOLE], "raw_points": torch.zeros(1, 3, 3)},
            ValueError,
            "within the constraints",
        ),
    ],
)
def test_wrong_constraints(limits: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        optimize_acqf_replicates(
            Bowls(torch.zeros(1, 3).double(), torch.eye(3).double()),
            UNIT,
            seeds=0,
            num_restarts=1,
            raw_samples=4,
            **limits,
        )
