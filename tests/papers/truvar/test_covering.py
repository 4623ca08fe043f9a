r"""Greedy batches, and the best points of a domain by hand."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from botorch.exceptions.errors import BotorchTensorDimensionError
from scipy.stats import norm

from botorch_risk.papers import Maximize, NoiseLevels, TruncatedVarianceReduction, top_candidates
from tests.acquisition.lake import NOISE, grid, printed_gain
from tests.papers.truvar.cases import ROWS, build


def moments(mean: list[Any], deviation: list[Any], best: Any = 0.0) -> Any:
    return SimpleNamespace(
        mean=torch.tensor(mean, dtype=torch.double),
        variance=torch.tensor(deviation, dtype=torch.double).square(),
        outcome_range=(torch.tensor(-9.0), torch.tensor(best, dtype=torch.double)),
    )


def chosen(*arguments: Any, **options: Any) -> list[int]:
    return top_candidates(*arguments, **options).nonzero().flatten().tolist()


def test_upper_bounds_by_hand() -> None:
    given = moments([0.0, 1.0, 2.0, 2.5], [2.0, 1.0, 0.6, 0.1])  # 4, 3, 3.2, 2.7 at beta = 4
    assert chosen(given, 1) == [0]
    assert chosen(given, 2) == [0, 2]
    assert chosen(given, 3) == [0, 1, 2]
    assert chosen(given, 4) == [0, 1, 2, 3]
    assert chosen(given, 2, beta=0.0) == [2, 3]
    assert chosen(given, 1, beta=1.0) == [2]  # 2, 2, 2.6, 2.6: the lower index
    mask = top_candidates(given, 2)
    assert mask.dtype == torch.bool and mask.shape == (4,)


def test_ties_go_to_the_lower_index() -> None:
    assert chosen(moments([1.0, 1.0, 1.0, 1.0], [1.0, 1.0, 1.0, 1.0]), 2) == [0, 1]


def test_the_best_points_within_a_mask() -> None:
    given = moments([0.0, 1.0, 2.0, 2.5], [2.0, 1.0, 0.6, 0.1])  # 4, 3, 3.2, 2.7 at beta = 4
    within = torch.tensor([False, True, False, True])
    assert chosen(given, 1, within=within) == [1]
    assert chosen(given, 3, within=within) == [1, 3]  # there are no others
    with pytest.raises(BotorchTensorDimensionError, match="Expected `within` to be booleans"):
        top_candidates(given, 1, within=within[:3])


def test_each_replicate_has_its_own_width() -> None:
    given = moments([[0.0, 1.0], [0.0, 1.0]], [[1.0, 0.1], [1.0, 0.1]], [0.0, 0.0])
    mask = top_candidates(given, 1, beta=torch.tensor([0.0, 9.0]))
    assert mask.tolist() == [[False, True], [True, False]]


def test_expected_improvements_by_hand() -> None:
    mean, deviation, best = [0.0, 0.5, 0.9, 0.2], [1.0, 0.4, 0.01, 0.9], 1.0
    z = [(m - best) / s for m, s in zip(mean, deviation, strict=True)]
    scores = [s * (u * norm.cdf(u) + norm.pdf(u)) for s, u in zip(deviation, z, strict=True)]
    order = sorted(range(4), key=lambda i: -scores[i])
    given = moments(mean, deviation, best)
    for count in (1, 2, 3):
        expected = sorted(order[:count])
        assert chosen(given, count, score="expected_improvement") == expected
    close = moments([1.0, 1.3], [1.0, 0.3], best)  # 0.40 and 0.32
    assert chosen(close, 1, score="expected_improvement") == [0]
    certain = moments([0.5, 2.0, 3.0], [0.0, 0.0, 0.1], 1.0)  # 0, 1 and 2
    assert chosen(certain, 1, score="expected_improvement") == [2]
    assert chosen(certain, 2, score="expected_improvement") == [1, 2]


def test_bad_arguments() -> None:
    given = moments([0.0, 1.0], [1.0, 1.0])
    for count in (0, 3):
        with pytest.raises(ValueError, match=rf"`num_candidates` from 1 to 2. Got {count}"):
            top_candidates(given, count)
    with pytest.raises(ValueError, match=r"Expected `score` .* Got 'best'"):
        top_candidates(given, 1, score="best")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"`beta` to be finite and >= 0. Got -1"):
        top_candidates(given, 1, beta=-1.0)


def test_a_batch_is_greedy_with_frozen_sets() -> None:
    posterior, state = build(eta=0.3)
    chosen = TruncatedVarianceReduction(posterior, state, noise=NOISE).select(4)
    X, noise = grid()[ROWS].numpy(), np.full(3, NOISE)
    within = grid().numpy()[state.unclassified.numpy()]
    for index, value in zip(chosen.row, chosen.value, strict=True):
        gains = np.array(
            [
                printed_gain(X, noise, x, NOISE, within, state.beta.item(), state.eta.item())
                for x in grid().numpy()
            ]
        )
        np.testing.assert_allclose(value, gains.max(), rtol=1e-6)
        assert gains[index] >= (1 - 1e-6) * gains.max()
        X, noise = np.append(X, grid().numpy()[index][None], axis=0), np.append(noise, NOISE)


def test_a_covered_batch_ends_short() -> None:
    posterior, state = build()
    state = replace(state, eta=torch.tensor(1.7, dtype=torch.float64))
    acqf = TruncatedVarianceReduction(posterior, state, noise=NOISE)
    chosen = acqf.select(30)
    count = int((chosen.row >= 0).sum())
    assert 1 <= count < 30
    assert (chosen.row[count:] == -1).all()
    assert chosen.X[count:].isnan().all() and chosen.X[:count].isfinite().all()
    trial = posterior.copy()
    for index in chosen.row[:count]:
        trial.observe(index, None, NOISE)
    variance = trial.variance[state.unclassified]
    assert (variance <= state.target_variance(posterior) + 1e-12).all()


@pytest.mark.parametrize("unit", [1e-8, 1.0, 1e8])
def test_plateaus_go_to_the_larger_untruncated_gain(unit: float) -> None:
    def cost(X: torch.Tensor, previous: Any, level: Any) -> torch.Tensor:
        return torch.full_like(X[..., 0], unit)

    posterior, state = build()
    top = posterior.variance[state.unclassified].max() * state.beta
    state = replace(state, eta=(top - 1e-4).sqrt())  # one sample is enough, at many points
    acqf = TruncatedVarianceReduction(posterior, state, noise=NOISE, cost=cost)
    values = acqf.evaluate_domain()
    tied = values >= (1 - 1e-9) * values.max()
    assert tied.sum() > 1
    whole = TruncatedVarianceReduction(
        posterior, replace(state, eta=0.0 * state.eta), noise=NOISE, cost=cost
    ).evaluate_domain()
    best = whole.where(tied, -torch.inf).max()
    assert acqf.select().row == (tied & (whole >= (1 - 1e-9) * best)).nonzero()[0]


def test_plateaus_of_one_level_among_several() -> None:
    posterior, state = build()
    top = posterior.variance[state.unclassified].max() * state.beta
    state = replace(state, eta=(top - 1e-4).sqrt())  # one accurate sample is enough
    levels = NoiseLevels((1e-4, 50.0), costs=(1.0, 9.0))
    acqf = TruncatedVarianceReduction(posterior, state, levels=levels)
    values = acqf.evaluate_domain().view(-1, 2)
    tied = values >= (1 - 1e-9) * values.max()
    assert tied[:, 0].sum() > 1 and not tied[:, 1].any()
    whole = TruncatedVarianceReduction(
        posterior, replace(state, eta=0.0 * state.eta), levels=levels
    ).evaluate_domain()
    best = whole.view(-1, 2)[:, 0].where(tied[:, 0], -torch.inf)
    chosen = acqf.select()
    assert chosen.row == best.argmax() != 0
    assert chosen.level == 0


def test_restricted_candidates() -> None:
    posterior, state = build(eta=0.4, goal=Maximize())
    full = TruncatedVarianceReduction(posterior, state, noise=NOISE).evaluate_domain()
    masks = {
        "unclassified": state.unclassified,
        "top": top_candidates(posterior, 5, beta=state.beta),
        "improvement": top_candidates(posterior, 5, score="expected_improvement"),
    }
    for name, mask in masks.items():
        choice: Any = name if name == "unclassified" else mask
        some = TruncatedVarianceReduction(posterior, state, noise=NOISE, candidates=choice)
        values = some.evaluate_domain()
        torch.testing.assert_close(values[mask], full[mask])
        assert (values[~mask] == -torch.inf).all()
        assert mask[some.select().row]


def test_a_choice_is_a_point_of_the_domain_and_then_its_level() -> None:
    posterior, state = build()
    alone = TruncatedVarianceReduction(posterior, state, noise=NOISE).select(2)
    assert torch.equal(alone.X, grid()[alone.row])
    levels = NoiseLevels((1e-2, 1e-4), costs=(1.0, 1.1))
    leveled = TruncatedVarianceReduction(posterior, state, levels=levels).select(2)
    expected = torch.cat([grid()[leveled.row], leveled.level.unsqueeze(-1).double()], dim=-1)
    assert torch.equal(leveled.X, expected)


def test_nothing_left_to_gain() -> None:
    posterior, state = build()
    state = replace(state, unclassified=torch.zeros(36, dtype=torch.bool))
    acqf = TruncatedVarianceReduction(posterior, state, noise=NOISE, candidates="unclassified")
    assert bool(state.finished)
    assert (acqf.evaluate_domain() == 0).all()
    assert (acqf.evaluate(torch.rand(3, 2).double()) == 0).all()
    assert (acqf.select(2).row == -1).all()
