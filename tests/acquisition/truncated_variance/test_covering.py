r"""The best points of a domain by hand."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from scipy.stats import norm

from botorch_risk.acquisition import top_candidates


def posterior(mean: list[Any], deviation: list[Any], best: Any = 0.0) -> Any:
    return SimpleNamespace(
        mean=torch.tensor(mean, dtype=torch.double),
        variance=torch.tensor(deviation, dtype=torch.double).square(),
        outcome_range=(torch.tensor(-9.0), torch.tensor(best, dtype=torch.double)),
    )


def chosen(*arguments: Any, **options: Any) -> list[int]:
    return top_candidates(*arguments, **options).nonzero().flatten().tolist()


def test_upper_bounds_by_hand() -> None:
    given = posterior([0.0, 1.0, 2.0, 2.5], [2.0, 1.0, 0.6, 0.1])  # 4, 3, 3.2, 2.7 at beta = 4
    assert chosen(given, 1) == [0]
    assert chosen(given, 2) == [0, 2]
    assert chosen(given, 3) == [0, 1, 2]
    assert chosen(given, 4) == [0, 1, 2, 3]
    assert chosen(given, 2, beta=0.0) == [2, 3]
    assert chosen(given, 1, beta=1.0) == [2]  # 2, 2, 2.6, 2.6: the lower index
    mask = top_candidates(given, 2)
    assert mask.dtype == torch.bool and mask.shape == (4,)


def test_ties_go_to_the_lower_index() -> None:
    assert chosen(posterior([1.0, 1.0, 1.0, 1.0], [1.0, 1.0, 1.0, 1.0]), 2) == [0, 1]


def test_each_replicate_has_its_own_width() -> None:
    given = posterior([[0.0, 1.0], [0.0, 1.0]], [[1.0, 0.1], [1.0, 0.1]], [0.0, 0.0])
    mask = top_candidates(given, 1, beta=torch.tensor([0.0, 9.0]))
    assert mask.tolist() == [[False, True], [True, False]]


def test_expected_improvements_by_hand() -> None:
    mean, deviation, best = [0.0, 0.5, 0.9, 0.2], [1.0, 0.4, 0.01, 0.9], 1.0
    z = [(m - best) / s for m, s in zip(mean, deviation, strict=True)]
    scores = [s * (u * norm.cdf(u) + norm.pdf(u)) for s, u in zip(deviation, z, strict=True)]
    order = sorted(range(4), key=lambda i: -scores[i])
    given = posterior(mean, deviation, best)
    for count in (1, 2, 3):
        expected = sorted(order[:count])
        assert chosen(given, count, score="expected_improvement") == expected
    certain = posterior([0.5, 2.0, 3.0], [0.0, 0.0, 0.1], 1.0)  # 0, 1 and 2
    assert chosen(certain, 1, score="expected_improvement") == [2]
    assert chosen(certain, 2, score="expected_improvement") == [1, 2]


def test_bad_arguments() -> None:
    given = posterior([0.0, 1.0], [1.0, 1.0])
    for count in (0, 3):
        with pytest.raises(ValueError, match=rf"`num_candidates` from 1 to 2. Got {count}"):
            top_candidates(given, count)
    with pytest.raises(ValueError, match=r"Expected `score` .* Got 'best'"):
        top_candidates(given, 1, score="best")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"`beta` to be finite and >= 0. Got -1"):
        top_candidates(given, 1, beta=-1.0)
