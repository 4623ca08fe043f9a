r"""Noise levels and costs of samples."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from botorch_risk.papers import NoiseLevels, TruncatedVarianceReduction
from botorch_risk.papers.truvar.sampling import SamplingTerms
from tests.acquisition.lake import NOISE, grid
from tests.papers.truvar.cases import LEVELS, assert_close, build, printed, travel


def test_costs() -> None:
    posterior, state = build(eta=0.4)
    domain, previous = posterior.domain, torch.tensor([0.8, 0.1], dtype=torch.float64)
    for last in (None, previous):
        acqf = TruncatedVarianceReduction(posterior, state, travel, noise=NOISE, previous=last)
        cost = 4 * (domain[:, 1] + 1)
        if last is not None:
            cost = cost + 0.25 * (domain[:, 0] - 0.8).abs()
        assert_close(acqf.evaluate_domain(), printed(state, NOISE) / cost.numpy())
        assert_close(acqf.evaluate(domain), printed(state, NOISE) / cost.numpy())


def test_noise_levels() -> None:
    posterior, state = build(eta=0.4)
    acqf = TruncatedVarianceReduction(posterior, state, levels=LEVELS)
    columns = zip(LEVELS.variances, LEVELS.costs, strict=True)
    expected = np.stack([printed(state, noise) / cost for noise, cost in columns], axis=-1)
    assert_close(acqf.evaluate_domain(), expected.flatten())
    candidates = acqf.domain_candidates()
    assert candidates.shape == (108, 3)
    assert_close(acqf.evaluate(candidates), expected.flatten())
    choice = acqf.select()
    assert (choice.row.item(), choice.level.item()) == divmod(int(expected.argmax()), 3)
    assert torch.equal(choice.X[0], candidates[expected.argmax()])
    known = TruncatedVarianceReduction(
        posterior, state, travel, levels=NoiseLevels(LEVELS.variances)
    )
    costs = np.stack([4 * (grid()[:, 1].numpy() + 1) * k for k in (1, 2, 3)], axis=-1)
    gains = np.stack([printed(state, noise) for noise in LEVELS.variances], axis=-1)
    assert_close(known.evaluate_domain(), (gains / costs).flatten())


def test_without_noise_levels_the_candidates_are_the_domain() -> None:
    posterior, state = build(eta=0.4)
    acqf = TruncatedVarianceReduction(posterior, state, noise=NOISE)
    assert torch.equal(acqf.domain_candidates(), posterior.domain)
    assert_close(acqf.evaluate(acqf.domain_candidates()), acqf.evaluate_domain())


def test_constant_cost_scales_and_one_level_is_no_level() -> None:
    posterior, state = build(eta=0.4)
    plain = TruncatedVarianceReduction(posterior, state, noise=NOISE)
    values = plain.evaluate_domain()
    costly = TruncatedVarianceReduction(
        posterior, state, lambda X, previous, level: torch.full_like(X[..., 0], 4.0), noise=NOISE
    )
    assert torch.equal(costly.evaluate_domain(), values / 4)
    assert torch.equal(costly.select(3).row, plain.select(3).row)
    for count in (1, 3):  # copies of one level
        levels = NoiseLevels((NOISE,) * count, costs=(1.0,) * count)
        copies = TruncatedVarianceReduction(posterior, state, levels=levels)
        many = copies.evaluate_domain().unflatten(-1, (-1, count))
        same = values.unsqueeze(-1).expand_as(many)
        torch.testing.assert_close(many, same, rtol=1e-13, atol=0.0)
        assert torch.equal(copies.select(3).row, plain.select(3).row)
        assert (copies.select(3).level == 0).all()


@pytest.mark.parametrize("bad", [0.0, -1.0, torch.nan, torch.inf])
def test_bad_costs(bad: float) -> None:
    posterior, state = build()

    def cost(X: Tensor, previous: Tensor | None, level: int | None) -> Tensor:
        return torch.ones_like(X[..., 0]).where(X[..., 0] > 0, bad)

    acqf = TruncatedVarianceReduction(posterior, state, cost, noise=NOISE)
    for call in (acqf.evaluate_domain, acqf.select, lambda: acqf.evaluate(grid())):
        with pytest.raises(ValueError, match=r"finite costs > 0\. Got .* at \[0\.0, 0\.0\]"):
            call()
    with pytest.raises(ValueError, match="finite costs > 0"):
        NoiseLevels((1.0,), costs=(bad,))
    with pytest.raises(ValueError, match="Got 2 costs for 1 levels"):
        NoiseLevels((1.0,), costs=(1.0, 1.0))
    for name, wrong, error in (
        ("variances", 1e-3, ValueError),
        ("variances", "low", TypeError),
        ("costs", [[1.0]], ValueError),
    ):
        with pytest.raises(error, match=f"Expected .*`{name}`"):
            NoiseLevels(**{"variances": (1.0,), name: wrong})  # type: ignore[arg-type]


def test_costs_along_the_paths_of_replicates() -> None:
    r"""The first sample has no travel, one that was not taken costs nothing and goes nowhere."""
    X = torch.tensor([[[0.0, 0.5], [1.0, 0.5]], [[0.2, 0.0], [0.0, 0.0]], [[0.4, 1.0], [0.9, 1.0]]])
    X = X.double()
    X[1, 1] = torch.nan
    level = torch.zeros(3, 2, dtype=torch.long)

    def distance(X: Tensor, previous: Tensor | None, level: int | None) -> Tensor:
        one = torch.ones_like(X[..., 0])
        return one if previous is None else one + (X - previous).abs().sum(dim=-1)

    terms = SamplingTerms(noise=NOISE, cost=distance)
    expected = torch.tensor([[1.0, 2.0], [1.0, 0.0], [1.0, 1.5]]).double()
    torch.testing.assert_close(terms.cost_of(X, level, None), expected)
    previous = torch.tensor([[0.0, 0.0], [0.2, 0.1], [0.4, 0.4]]).double()
    expected[:, 0] += torch.tensor([0.5, 0.1, 0.6]).double()
    torch.testing.assert_close(terms.cost_of(X, level, previous), expected)
    first = X[:, 1:]  # of which the second was not taken, and nothing was before
    assert terms.cost_of(first, level[:, 1:], None).tolist() == [[1.0], [0.0], [1.0]]


def test_a_noise_level_may_be_exact() -> None:
    posterior, state = build(eta=0.4)
    exact, nearly = (
        TruncatedVarianceReduction(posterior, state, levels=NoiseLevels((noise,), costs=(1.0,)))
        for noise in (0.0, 1e-14)
    )
    torch.testing.assert_close(exact.evaluate_domain(), nearly.evaluate_domain())


@pytest.mark.parametrize("variances", [(), (1e-3, -1.0), (torch.inf,), (torch.nan,)])
def test_bad_noise_levels(variances: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match=r"Expected finite noise variances >= 0\. Got \("):
        NoiseLevels(variances)


@pytest.mark.parametrize(
    ("costs", "cost", "got"), [(None, None, "neither"), ((1.0, 2.0), travel, "both")]
)
def test_levels_cost_by_themselves_or_by_a_function(costs: Any, cost: Any, got: str) -> None:
    levels = NoiseLevels((1e-3, 1e-2), costs)
    with pytest.raises(ValueError, match=f"Expected either costs of the 2 .* Got {got}"):
        SamplingTerms(levels=levels, cost=cost)
