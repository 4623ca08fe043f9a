r"""Kernel densities and their bandwidths."""

from collections.abc import Callable
from statistics import NormalDist

import numpy as np
import pytest
import torch
from botorch.exceptions.errors import UnsupportedError
from scipy.integrate import dblquad, quad
from scipy.stats import gaussian_kde, kstest, norm
from torch import Tensor

from botorch_risk.environments import KernelDensity, leave_one_out_bandwidth, silverman_bandwidth

UNIT = torch.tensor([[0.0], [1.0]], dtype=torch.double)
OBSERVED = torch.tensor([[0.02], [0.1], [0.4], [0.45], [0.9]], dtype=torch.double)


def draws(*shape, seed=0):
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.double)


def density(at_bounds="truncate", width=0.2, bounds=UNIT):
    return KernelDensity(OBSERVED, torch.tensor([width]).double(), bounds, at_bounds)


def pdf(kde):
    return lambda *w: kde.log_prob(torch.tensor(w, dtype=torch.double)).exp().item()


@pytest.mark.parametrize("width", [0.01, 0.2, 2.0])
@pytest.mark.parametrize("at_bounds", ["truncate", "reflect"])
def test_density_integrates_to_one_within_the_bounds(at_bounds, width):
    kde = density(at_bounds, width)
    points = OBSERVED.flatten().tolist() if width < 0.1 else None
    assert quad(pdf(kde), 0, 1, points=points, limit=400)[0] == pytest.approx(1, abs=1e-8)
    outside = torch.tensor([[-0.01], [1.01]], dtype=torch.double)
    assert kde.log_prob(outside).tolist() == [-torch.inf, -torch.inf]


@pytest.mark.parametrize("at_bounds", ["truncate", "reflect"])
def test_density_integrates_to_one_in_two_dimensions(at_bounds):
    kde = KernelDensity(
        draws(3, 2), torch.tensor([0.3, 0.4]).double(), UNIT.expand(2, 2), at_bounds
    )
    assert dblquad(pdf(kde), 0, 1, 0, 1, epsabs=1e-6)[0] == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize("at_bounds", ["truncate", "reflect"])
@pytest.mark.parametrize("shift", [-3.0, -0.5, 7.0])
def test_density_moves_with_its_box(shift, at_bounds):
    width, value = torch.tensor([0.4]).double(), draws(9, 1)
    moved = KernelDensity(OBSERVED + shift, width, UNIT + shift, at_bounds)
    expected = KernelDensity(OBSERVED, width, UNIT, at_bounds).log_prob(value)
    torch.testing.assert_close(moved.log_prob(value + shift), expected)


def test_without_bounds_equals_scipy():
    observed = draws(40, 2)
    kde = KernelDensity(observed, torch.tensor([0.1, 0.3], dtype=torch.double))
    for value in draws(5, 2, seed=1):
        kernels = norm(observed.numpy(), [0.1, 0.3]).pdf(value.numpy())
        assert pdf(kde)(*value.tolist()) == pytest.approx(kernels.prod(axis=1).mean(), rel=1e-10)


def test_reflected_density_is_flat_at_the_bounds():
    kde = density("reflect")
    values = torch.tensor([[0.0], [1.0]], dtype=torch.double, requires_grad=True)
    (slope,) = torch.autograd.grad(kde.log_prob(values).sum(), values)
    assert slope.abs().max() < 1e-10


@pytest.mark.parametrize("width", [0.05, 0.2, 1.5])
@pytest.mark.parametrize("at_bounds", ["truncate", "reflect", None])
def test_samples_follow_the_density(at_bounds, width):
    kde = density(at_bounds or "truncate", width, UNIT if at_bounds else None)
    samples = kde.from_uniforms(draws(20_000, 2)).flatten().sort().values
    assert at_bounds is None or ((samples >= 0) & (samples <= 1)).all()
    grid = torch.linspace(samples[0] - 1e-9, samples[-1] + 1e-9, 40_001, dtype=torch.double)
    masses = kde.log_prob((grid[1:] + grid[:-1]).unsqueeze(-1) / 2).exp() * grid.diff()
    cumulative = np.concatenate([[0.0], masses.cumsum(0).numpy()])
    assert kstest(samples.numpy(), lambda w: np.interp(w, grid.numpy(), cumulative)).pvalue > 1e-3


def test_torchs_own_sampling_is_there():
    batched = KernelDensity(draws(3, 5, 2), torch.full((3, 2), 0.1).double(), UNIT.expand(2, 2))
    assert batched.sample((7,)).shape == (7, 3, 2)
    assert batched.log_prob(batched.sample((7,))).shape == (7, 3)


def test_clipped_samples_lie_on_the_bounds_as_often_as_kernels_reach_beyond():
    kde = density("clip")
    samples = kde.from_uniforms(draws(100_000, 2))
    for bound, tail in ((0.0, norm.cdf), (1.0, norm.sf)):
        expected = tail((bound - OBSERVED.numpy()) / 0.2).mean()
        assert (samples == bound).double().mean().item() == pytest.approx(expected, abs=0.01)
    with pytest.raises(UnsupportedError, match=r"a distribution with a density\. Got .* clipped"):
        kde.log_prob(samples)


def test_points_do_not_depend_on_the_order_of_the_observed_values():
    uniforms = draws(64, 2)
    turned = KernelDensity(OBSERVED.flip(0), torch.tensor([0.2]).double(), UNIT)
    assert torch.equal(turned.from_uniforms(uniforms), density().from_uniforms(uniforms))


@pytest.mark.parametrize("d_w", [1, 2, 3])
def test_silverman_equals_scipys(d_w):
    observed = draws(30, d_w)
    scipys = gaussian_kde(observed.T.numpy(), bw_method="silverman")  # uses ddof = 1
    expected = np.sqrt(np.diag(scipys.covariance))
    np.testing.assert_allclose(silverman_bandwidth(observed, ddof=1), expected)
    ratio = silverman_bandwidth(observed) / silverman_bandwidth(observed, ddof=1)
    np.testing.assert_allclose(ratio, np.sqrt(29 / 30))


@pytest.mark.parametrize("at_bounds", ["truncate", "reflect", "clip"])
@pytest.mark.slow
def test_leave_one_out_equals_a_search_over_a_grid(at_bounds):
    centers = torch.tensor([0.2, 0.8]).double().repeat(15).unsqueeze(-1)
    observed = centers + 0.02 * (draws(30, 1) - 0.5)
    found = leave_one_out_bandwidth(observed, torch.tensor([1e-3]).double(), UNIT, at_bounds)

    def score(h):
        total = 0.0
        for i, w in enumerate(observed):
            others = torch.cat([observed[:i], observed[i + 1 :]])
            bounds = None if at_bounds == "clip" else UNIT
            kde = KernelDensity(
                others, torch.tensor([h]), bounds, "truncate" if bounds is None else at_bounds
            )
            total += kde.log_prob(w).item()
        return total

    silverman = silverman_bandwidth(observed).item()
    grid = np.geomspace(0.02 * silverman, 3 * silverman, 120)
    best = grid[np.argmax([score(h) for h in grid])]
    assert found.item() == pytest.approx(best, rel=0.05)
    assert score(found.item()) >= score(best) - 1e-9
    assert found < 0.2 * silverman  # two narrow modes far apart


def test_leave_one_out_is_batched_and_keeps_to_the_floor():
    observed = draws(3, 20, 2)
    observed[2] = observed[2, :1]  # identical values
    floor = torch.full((3, 2), 1e-3, dtype=torch.double)
    together = leave_one_out_bandwidth(observed, floor, UNIT.expand(2, 2))
    for r in range(3):
        alone = leave_one_out_bandwidth(observed[r], floor[r], UNIT.expand(2, 2))
        torch.testing.assert_close(together[r], alone, rtol=1e-6, atol=0)
    assert (together >= floor).all()


@pytest.mark.parametrize("batch_shape", [(), (2,), (2, 3)])
def test_draws_have_the_shape_of_a_distribution_of_torch(batch_shape):
    kde = KernelDensity(draws(*batch_shape, 6, 2), torch.full((2,), 0.1).double())
    assert kde.batch_shape == batch_shape and kde.event_shape == (2,)
    assert kde.sample((5, 4)).shape == (5, 4, *batch_shape, 2)
    assert kde.sample().shape == (*batch_shape, 2)


def test_support_is_the_box():
    values = torch.tensor([[-0.5], [0.5], [1.5]], dtype=torch.double)
    assert density().support.check(values).tolist() == [False, True, False]
    everywhere = density(bounds=None).support
    assert everywhere.check(1e9 * values).all() and everywhere.event_dim == 1
    pairs = torch.tensor([[0.0, torch.nan], [1e9, -1e9]])
    both = KernelDensity(draws(6, 2), torch.full((2,), 0.1).double()).support
    assert both.check(pairs).tolist() == [False, True]  # one for each value of W


def test_the_least_and_the_largest_uniform_numbers_are_values_too(monkeypatch):
    values, bandwidth = torch.tensor([[0.2], [0.7]]).double(), torch.tensor([0.1]).double()
    free = KernelDensity(values, bandwidth)
    ends = free.from_uniforms(torch.tensor([[0.0, 0.5], [1.0, 0.5]]).double())
    torch.testing.assert_close(ends, values)  # the first kernel and the last, at their medians
    monkeypatch.setattr(torch, "rand", torch.zeros)
    assert free.sample((3,)).isfinite().all()


@pytest.mark.parametrize("at_bounds", ["truncate", "reflect"])
def test_the_bounds_themselves_have_a_density(at_bounds):
    found = density(at_bounds=at_bounds)
    assert found.log_prob(UNIT).isfinite().all()
    beyond = torch.tensor([[-1e-9], [1 + 1e-9]], dtype=torch.double)
    assert (found.log_prob(beyond) == -torch.inf).all()


def test_refuses_a_bandwidth_that_is_none():
    with pytest.raises(ValueError, match="bandwidth"):
        KernelDensity(OBSERVED, torch.tensor([0.0]).double())
    with pytest.raises(ValueError, match=r"Expected `at_bounds` to be one of .*'fold'"):
        KernelDensity(OBSERVED, torch.tensor([0.1]).double(), UNIT, "fold")


BOXES = {"unit": (0.0, 1.0), "[3, 5]": (3.0, 5.0), "negative": (-4.0, -1.0)}


@pytest.mark.parametrize("d_w", [1, 2, 3])
def test_silvermans_rule_is_that_of_scipy(d_w: int) -> None:
    observed = torch.rand(17, d_w, dtype=torch.double)
    expected = gaussian_kde(observed.mT.numpy(), "silverman").factor * observed.std(dim=0)
    torch.testing.assert_close(silverman_bandwidth(observed, ddof=1), expected)


def near_a_bound(t: int, d_w: int, lower: float, upper: float) -> Tensor:
    r"""Values that crowd at the lower bound in the first column, at the upper in the others."""
    generator = torch.Generator().manual_seed(t)
    share = torch.rand(t, d_w, generator=generator, dtype=torch.double).square()
    share[:, 1:] = 1 - share[:, 1:].square()
    return lower + (upper - lower) * share


def likelihood(
    observed: np.ndarray, box: tuple[float, float] | None, at_bounds: str
) -> Callable[[np.ndarray], float]:
    r"""Mean log density of each value under the others."""

    def kernel(value: float, centre: float, width: float) -> float:
        normal = NormalDist(centre, width)
        if box is None:
            return normal.pdf(value)
        lower, upper = box
        if at_bounds == "truncate":
            return normal.pdf(value) / (normal.cdf(upper) - normal.cdf(lower))
        period, total = 2 * (upper - lower), 0.0
        for k in range(-4, 5):
            total += normal.pdf(value + k * period)
            total += normal.pdf(2 * lower - value + k * period)
        return total

    def score(widths: np.ndarray) -> float:
        logs = []
        for i, value in enumerate(observed):
            others = [w for j, w in enumerate(observed) if j != i]
            densities = [
                np.prod([kernel(*each) for each in zip(value, other, widths, strict=True)])
                for other in others
            ]
            logs.append(np.log(np.mean(densities)))
        return float(np.mean(logs))

    return score


@pytest.mark.parametrize("name", [*BOXES, None])
@pytest.mark.parametrize("at_bounds", ["truncate", "reflect", "clip"])
def test_is_a_maximum_of_the_likelihood(at_bounds: str, name: str | None) -> None:
    lower, upper = BOXES[name or "unit"]
    observed = near_a_bound(14, 1, lower, upper)
    bounds = None if name is None else torch.tensor([[lower], [upper]], dtype=torch.double)
    floor = torch.tensor([1e-6], dtype=torch.double)
    found = leave_one_out_bandwidth(observed, floor, bounds, at_bounds).item()
    box = None if bounds is None or at_bounds == "clip" else (lower, upper)
    score = likelihood(observed.numpy(), box, at_bounds)
    silverman = silverman_bandwidth(observed).item()
    best = max(score(np.array([h])) for h in silverman * np.geomspace(0.02, 3, 12))
    assert score(np.array([found])) >= best - 1e-5
    if 0.021 * silverman < found < 2.99 * silverman:
        slope = (score(np.array([found * 1.001])) - score(np.array([found * 0.999]))) / 2e-3
        assert abs(slope) < 1e-4


@pytest.mark.parametrize("boxed", [True, False], ids=["box", "whole plane"])
def test_is_a_maximum_in_both_columns(boxed: bool) -> None:
    observed = near_a_bound(9, 2, -4.0, -1.0)
    bounds = torch.tensor([[-4.0, -4.0], [-1.0, -1.0]]).double() if boxed else None
    floor = torch.full((2,), 1e-6, dtype=torch.double)
    found = leave_one_out_bandwidth(observed, floor, bounds).numpy()
    score = likelihood(observed.numpy(), (-4.0, -1.0) if boxed else None, "truncate")
    reference = silverman_bandwidth(observed).numpy()
    centre = score(found)
    for column in range(2):
        for factor in (0.99, 1.01):
            moved = found.copy()
            moved[column] *= factor
            if 0.02 * reference[column] <= moved[column] <= 3 * reference[column]:
                assert score(moved) <= centre + 1e-7


TWO_MAXIMA = {
    "Silverman's is nearer the better one": (
        [0.161, 0.218, 0.304, 0.314, 0.414, 0.43, 0.449, 0.549, 0.574, 0.581, 0.597],
        (0.101, 0.0347),
    ),
    "a third of it is": (
        [0.0, 0.076, 0.079, 0.353, 0.358, 0.365, 0.616, 0.653, 0.954, 0.974],
        (0.0323, 0.256),
    ),
}


@pytest.mark.parametrize("name", TWO_MAXIMA)
def test_is_the_better_of_two_maxima(name: str) -> None:
    values, (best, other) = TWO_MAXIMA[name]
    observed = torch.tensor(values, dtype=torch.double).unsqueeze(-1)
    found = leave_one_out_bandwidth(observed, torch.tensor([1e-6]).double()).item()
    assert found == pytest.approx(best, rel=0.05)
    score = likelihood(observed.numpy(), None, "truncate")
    assert score(np.array([found])) > score(np.array([other])) + 0.01
    for factor in (0.8, 1.25):  # both are maxima
        assert score(np.array([other])) > score(np.array([factor * other]))


def test_stays_between_its_limits() -> None:
    r"""A fiftieth and three times Silverman's, and the floor."""
    floor = torch.tensor([1e-9], dtype=torch.double)
    even = torch.linspace(0, 1, 40, dtype=torch.double).unsqueeze(-1)
    box = torch.tensor([[0.0], [1.0]], dtype=torch.double)
    widest = leave_one_out_bandwidth(even, floor, box)
    torch.testing.assert_close(widest, 3 * silverman_bandwidth(even))
    centres = torch.tensor([0.2, 0.8], dtype=torch.double).repeat(20).unsqueeze(-1)
    twins = centres + 1e-4 * torch.rand(40, 1, dtype=torch.double)  # two modes like needles
    narrowest = leave_one_out_bandwidth(twins, floor)
    torch.testing.assert_close(narrowest, 0.02 * silverman_bandwidth(twins))
    high = torch.tensor([0.5], dtype=torch.double)
    assert leave_one_out_bandwidth(twins, high).item() >= 0.5


def test_a_batch_equals_the_loop() -> None:
    observed = torch.stack([near_a_bound(t, 2, 0.0, 1.0)[:12] for t in (12, 13, 14)])
    floor = torch.tensor([0.01, 0.02], dtype=torch.double)
    alone = [leave_one_out_bandwidth(each, floor) for each in observed]
    together = leave_one_out_bandwidth(observed, floor.expand(3, 2))
    torch.testing.assert_close(together, torch.stack(alone), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("t", [1, 2])
def test_few_values_have_silvermans(t: int) -> None:
    observed = torch.tensor([[0.2], [0.5]], dtype=torch.double)[:t]
    floor = torch.tensor([0.01], dtype=torch.double)
    expected = max(0.01, silverman_bandwidth(observed).item())
    assert leave_one_out_bandwidth(observed, floor).item() == pytest.approx(expected)


def test_three_values_are_enough_for_a_likelihood() -> None:
    observed = torch.tensor([[0.2], [0.5], [0.9]], dtype=torch.double)
    found = leave_one_out_bandwidth(observed, torch.tensor([0.01], dtype=torch.double))
    score, silverman = likelihood(observed.numpy(), None, "truncate"), silverman_bandwidth(observed)
    assert score(found.numpy()) > score(silverman.numpy()) + 0.01


def test_silverman_of_no_more_values_than_degrees_of_freedom_is_nothing() -> None:
    observed = torch.tensor([[[0.2, 0.4]], [[0.5, 0.1]]])
    for ddof in (0, 1):
        assert torch.equal(silverman_bandwidth(observed, ddof), torch.zeros(2, 2))
    two = torch.tensor([[0.0], [1.0]], dtype=torch.double)
    ratio = silverman_bandwidth(two, ddof=1) / silverman_bandwidth(two)
    assert ratio.item() == pytest.approx(np.sqrt(2))
