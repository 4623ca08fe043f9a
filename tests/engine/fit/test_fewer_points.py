r"""Fits of large data sets, which begin on some of their points."""

import math

import numpy as np
import pytest
import torch
from botorch.models import SingleTaskGP
from gpytorch.priors import GammaPrior
from torch import Tensor

from botorch_risk.engine import FitResult, MarginalLikelihoodObjective, Starts, fit_exact_gp
from botorch_risk.engine.fit import fewer_points
from botorch_risk.engine.fit.fewer_points import (
    FEWEST,
    LARGEST_GROWTH,
    choose,
    distinct,
    on_fewer_points,
    sizes_of_first_fits,
    takes_function_for_noise,
    variance_between_neighbours,
    with_noise_of_the_start,
)
from botorch_risk.engine.fit.parameters import ExactGPParts
from botorch_risk.engine.fit.results import FitStatus
from botorch_risk.engine.projected_bfgs.minima import Minima, RowStatus
from tests.engine.fit.examples import constant_mean, data, objective, scaled_matern

pytestmark = pytest.mark.filterwarnings("ignore::botorch.exceptions.warnings.InputDataWarning")

N = 320


@pytest.mark.parametrize("n", [800, 1599, 1601, 5000, 100_000])
def test_sizes_grow_by_a_bounded_factor(n: int) -> None:
    sizes = [*sizes_of_first_fits(torch.empty(1, n, 2)), n]
    assert sizes[0] == FEWEST
    growth = np.divide(sizes[1:], sizes[:-1])
    assert (growth > 1).all()
    assert (growth < LARGEST_GROWTH + 0.01).all()


def test_few_points_are_fitted_at_once() -> None:
    assert sizes_of_first_fits(torch.empty(1, 799, 2)) == []


def test_half_of_the_points_are_the_nearest_to_one_of_them() -> None:
    X = torch.rand(3, 100, 2, dtype=torch.float64)
    index = choose(X, 30)
    assert all(len(set(rows)) == 30 for rows in index.tolist())
    for points, rows in zip(X, index, strict=True):
        nearest = (points - points[rows[0]]).norm(dim=-1).argsort()
        assert rows[:15].tolist() == nearest[:15].tolist()


def test_points_depend_on_their_replicate_alone_and_ties_on_rows() -> None:
    X = torch.rand(4, 50, 2, dtype=torch.float64)
    X[2] = X[2, :5].repeat(10, 1)
    index = choose(X, 20)
    for row in range(4):
        assert torch.equal(choose(X[[row]], 20)[0], index[row])


def test_what_belongs_to_a_point_goes_with_it() -> None:
    X = torch.rand(2, 40, 2, dtype=torch.float64)
    Y = X.sum(dim=-1, keepdim=True)
    model = SingleTaskGP(X, Y, 1 + Y, outcome_transform=None)
    parts = on_fewer_points(ExactGPParts.read(model.train()), np.ones((2, 2)), 10)
    assert parts.X.shape == (2, 10, 2)
    torch.testing.assert_close(parts.Y, parts.X.sum(dim=-1))
    torch.testing.assert_close(parts.fixed_noise, 1 + parts.Y)


def test_the_range_of_an_input_does_not_matter() -> None:
    X, Y = data(2, n=60)
    stretch = torch.tensor([1e3, 1e-2], dtype=torch.float64)
    few, stretched = (
        on_fewer_points(ExactGPParts.read(SingleTaskGP(scale * X, Y).train()), extent, 20)
        for scale, extent in ((1.0, np.ones((2, 2))), (stretch, stretch.expand(2, 2).numpy()))
    )
    torch.testing.assert_close(few.Y, stretched.Y)


def test_minima_that_are_apart_are_kept() -> None:
    # Rows of replicates 0 and 1 in turns.
    x = np.array([[0.0], [5.0], [0.05], [7.0], [1.0], [5.02]])
    status = np.full(6, RowStatus.CONVERGED)
    status[3] = RowStatus.OVERTAKEN
    value = np.array([2.0, 1.0, 1.0, 0.0, 3.0, np.nan])
    minima = Minima(x, value, status, np.ones(6), np.zeros((6, 1, 1)))
    found = distinct(Starts(x + 1, np.arange(6), 2), minima)
    assert found.rows.tolist() == [1, 2, 4]  # the lower one of 0 and 2, of 1 and 5
    np.testing.assert_array_equal(found.theta, x[[1, 2, 4]])
    assert found.metric is not None


def test_every_replicate_keeps_a_start() -> None:
    x = np.zeros((6, 1))
    status = np.full(6, RowStatus.FAILED)
    minima = Minima(x, np.full(6, np.nan), status, np.ones(6), np.zeros((6, 1, 1)))
    rows = distinct(Starts(x, np.arange(6), 3), minima).rows
    assert set(rows % 3) == {0, 1, 2}


def test_the_variance_between_neighbours_equals_a_loop() -> None:
    X, Y = (each.squeeze(0) for each in data(1, n=150))
    both = torch.stack([X, X.flip(-1)]), torch.stack([Y, 2 * Y.flip(0)]).squeeze(-1)
    both[0][1, 7] = both[0][1, 90]  # two readings at a point
    found = variance_between_neighbours(*both)
    for replicate, (points, targets) in enumerate(zip(*both, strict=True)):
        halves = []
        for row, point in enumerate(points):
            apart = (points - point).norm(dim=-1)
            apart[row] = math.inf
            halves.append(float(targets[row] - targets[apart.argmin()]) ** 2 / 2)
        assert found[replicate] == pytest.approx(np.mean(halves), rel=1e-12)


def test_noise_is_doubted_if_neighbours_differ_by_less() -> None:
    model = SingleTaskGP(*data(3)).train()
    objective = MarginalLikelihoodObjective.of(model)
    theta = np.log(np.full((6, 3), 0.5))
    # Of the second replicate the other row is the better one.
    theta[4, 2] = np.log(0.1)
    value = np.array([1.0, 1.0, 1.0, 2.0, 0.5, np.nan])
    minima = Minima(theta, value, np.ones(6), np.ones(6), np.zeros((6, 3, 3)))
    starts = Starts(theta, np.arange(6), 3)
    doubtful = takes_function_for_noise(objective, starts, minima, np.array([0.4, 0.4, 0.6]))
    assert doubtful.tolist() == [True, False, False]


@pytest.fixture
def smaller(monkeypatch: pytest.MonkeyPatch) -> None:
    r"""Fits of 300 points and more begin on 150: the same in less time."""
    monkeypatch.setattr(fewer_points, "FEWEST", 150)
    monkeypatch.setattr(fewer_points, "LEAST_TO_DIVIDE", 300)


def at_once(model: SingleTaskGP, **options: object) -> FitResult:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fewer_points, "LEAST_TO_DIVIDE", math.inf)
        return fit_exact_gp(model, **options)


def tables() -> tuple[Tensor, Tensor]:
    r"""A smooth function, and one that moves faster, `2 x n`."""
    X, Y = data(2, n=N)
    Y[1] += (14 * X[1]).sin().sum(dim=-1, keepdim=True)
    return X, Y


@pytest.mark.usefixtures("smaller")
@pytest.mark.parametrize("build", [SingleTaskGP, scaled_matern])
def test_the_optimum_is_that_of_all_points_at_once(build: type[SingleTaskGP]) -> None:
    X, Y = tables()
    mine, theirs = build(X, Y), build(X, Y)
    found, expected = fit_exact_gp(mine), at_once(theirs)
    assert set(found.status) == {FitStatus.CONVERGED}
    torch.testing.assert_close(found.objective, expected.objective, rtol=0, atol=1e-8)
    assert (found.num_evaluations < 0.7 * expected.num_evaluations).all()
    for one, two in zip(mine.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(one, two, rtol=1e-3, atol=1e-3)


@pytest.mark.usefixtures("smaller")
@pytest.mark.slow
def test_a_function_that_moves_fast_between_a_few_points_is_found() -> None:
    X = data(3, n=N)[0][2]
    Y = (40 * X).sin().sum(dim=-1, keepdim=True)
    found, expected = fit_exact_gp(scaled_matern(X, Y)), at_once(scaled_matern(X, Y))
    torch.testing.assert_close(found.objective, expected.objective, rtol=0, atol=1e-8)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fewer_points, "DOUBTFUL", math.inf)
        trusting = fit_exact_gp(scaled_matern(X, Y))
    assert trusting.objective < expected.objective - 0.3


@pytest.mark.usefixtures("smaller")
@pytest.mark.parametrize("n", [8, 60, N])
def test_no_fit_ends_below_its_start(n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    r"""From the optimum of all points, a part of which looks like noise, and from the defaults."""
    X = data(2, n=n)[0]
    Y = (torch.tensor([[[40.0]], [[5.0]]]) * X).sin().sum(dim=-1, keepdim=True)
    monkeypatch.setattr(fewer_points, "DOUBTFUL", math.inf)
    best = scaled_matern(X, Y)
    reached = at_once(best).objective
    for begin in (best, scaled_matern(X, Y)):
        before = objective(begin)
        found = fit_exact_gp(begin)
        assert (found.objective >= before - 1e-9).all()
        torch.testing.assert_close(found.objective, objective(begin), rtol=0, atol=1e-9)
    if n == N:  # the default start alone is led astray by 150 points
        assert found.objective[0] < reached[0] - 0.3


def test_an_end_without_noise_is_also_tried_with_the_noise_of_the_start() -> None:
    model = scaled_matern(*data(3)).train()
    loss = MarginalLikelihoodObjective.of(model)
    names = [one.name for one in loss.moved]
    noise = loss.slices[names.index("noise")].start
    lower = loss.bounds(np.arange(3))[0][0, noise]
    first = Starts(np.full((3, loss.num_parameters), 0.5), np.arange(3), 3)
    # Rows of replicates 0, 1, 2 and 0: on the bound, far above it, just above it, far above it.
    theta = np.zeros((4, loss.num_parameters))
    theta[:, noise] = lower + np.array([0.0, 5.0, 1.0, 5.0])
    found = with_noise_of_the_start(loss, Starts(theta, np.arange(4), 3), first)
    assert found is not None
    assert found.rows.tolist() == [0, 2]
    assert found.theta[:, noise].tolist() == [0.5, 0.5]
    assert not np.delete(found.theta, noise, axis=1).any()
    far = Starts(theta[1:2], np.arange(1, 2), 3)
    assert with_noise_of_the_start(loss, far, first) is None


@pytest.mark.usefixtures("smaller")
def test_a_batch_is_its_replicates() -> None:
    X, Y = tables()
    together = fit_exact_gp(SingleTaskGP(X, Y))
    for row in range(2):
        alone = fit_exact_gp(SingleTaskGP(X[row], Y[row]))
        assert alone.num_evaluations == together.num_evaluations[row]
        torch.testing.assert_close(alone.objective, together.objective[row], rtol=0, atol=1e-10)


@pytest.mark.usefixtures("smaller")
def test_a_mask_of_all_rows_changes_nothing_but_the_way() -> None:
    X, Y = (each[0] for each in tables())
    masked = fit_exact_gp(SingleTaskGP(X, Y), observed=torch.ones(N, dtype=torch.bool))
    found = fit_exact_gp(SingleTaskGP(X, Y))
    torch.testing.assert_close(masked.objective, found.objective, rtol=0, atol=1e-8)


@pytest.mark.usefixtures("smaller")
def test_a_replicate_that_is_not_finite_fails_alone() -> None:
    X, Y = tables()
    model = SingleTaskGP(X, Y)
    model.train_targets[1, 4] = math.nan
    found, expected = fit_exact_gp(model), fit_exact_gp(SingleTaskGP(X, Y))
    assert [status.value for status in found.status] == ["converged", "failed"]
    torch.testing.assert_close(found.objective[0], expected.objective[0])


def test_a_mean_that_is_a_parameter_keeps_its_units() -> None:
    X, Y = data(2, n=60)
    model = constant_mean(constant_prior=GammaPrior(4.0, 0.005))(X, 100 * Y + 800.0)
    parts = ExactGPParts.read(model.train())
    whole = MarginalLikelihoodObjective(parts)
    few = on_fewer_points(parts, whole.units.extent, 20)
    shared, own = (
        MarginalLikelihoodObjective(few, units=whole.units),
        MarginalLikelihoodObjective(few),
    )
    theta, rows = np.full((2, whole.num_parameters), 0.3), np.arange(2)
    theirs = theta.copy()  # the mean is the last one, in units about the centre
    units = whole.units.scale * theta[:, -1] + whole.units.centre
    theirs[:, -1] = (units - own.units.centre) / own.units.scale
    np.testing.assert_allclose(shared(theta, rows)[0], own(theirs, rows)[0], rtol=1e-10)


@pytest.mark.usefixtures("smaller")
def test_the_next_fit_goes_on_and_starts_afresh_when_due() -> None:
    X, Y = (each[0] for each in tables())
    first = fit_exact_gp(SingleTaskGP(X, Y))
    assert first.optimum is not None
    again = fit_exact_gp(SingleTaskGP(X, Y), previous=first.optimum)
    assert again.num_evaluations <= 3
    far = first.optimum
    astray = type(far)(far.theta + 3.0, far.metric, far.fresh_at)
    back = fit_exact_gp(SingleTaskGP(X, Y), previous=astray)
    torch.testing.assert_close(back.objective, first.objective, rtol=0, atol=1e-8)
