r"""The leave-one-out bandwidth against a likelihood of loops and scipy."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from scipy.stats import gaussian_kde, norm
from torch import Tensor

from botorch_risk.environments import leave_one_out_bandwidth, silverman_bandwidth

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
        if box is None:
            return norm.pdf(value, centre, width)
        lower, upper = box
        if at_bounds == "truncate":
            inside = norm.cdf(upper, centre, width) - norm.cdf(lower, centre, width)
            return norm.pdf(value, centre, width) / inside
        period, total = 2 * (upper - lower), 0.0
        for k in range(-4, 5):
            total += norm.pdf(value + k * period, centre, width)
            total += norm.pdf(2 * lower - value + k * period, centre, width)
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
