r"""The study of safe exploration: its problems and its counts, by hand."""

import pytest
import torch

from bench.studies.safe import violations


@pytest.fixture(scope="module")
def problems() -> violations.Problems:
    return violations.Problems([1, 3], tuple(violations.functions(n, [1, 3]) for n in PARTS))


PARTS = ("mean", "noise", "second")


def test_readings_have_the_moments_that_safety_is_judged_by(
    problems: violations.Problems, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(violations, "NUM_REPEATS", 4000)
    X = violations.START[:3].expand(2, -1, -1)
    mean, deviation, second = problems.truth(X)
    Y = problems.readings(X, [torch.Generator().manual_seed(seed) for seed in (0, 1)])
    assert Y.shape == (2, 3, 4000, 2)
    assert ((Y.mean(dim=-2)[..., 0] - mean).abs() < 5 * deviation / 4000**0.5).all()
    assert ((Y.mean(dim=-2)[..., 1] - second).abs() < 5 * 0.1 / 4000**0.5).all()
    torch.testing.assert_close(Y.std(dim=-2)[..., 0], deviation, rtol=0.06, atol=0)
    assert problems.safe(violations.START.expand(2, -1, -1)).all()
    assert (problems.best() >= problems.objective(X).amax(dim=-1)).all()


def test_a_penalty_is_paid_by_all_readings_of_a_point() -> None:
    first = torch.tensor([[[0.0, 2.0], [1.0, 1.0]]])
    second = torch.tensor([[[-1.0, -1.0], [0.5, 0.5]]])
    spread = first[0, 0].std().item() - violations.MOST_NOISE
    expected = first.clone()
    expected[0, 0] -= violations.PENALTY * (0.7 + spread)
    found = violations.penalised(torch.stack([first, second], dim=-1))
    torch.testing.assert_close(found, expected)


def test_a_recommendation_that_is_unsafe_counts_as_infinite_regret() -> None:
    rounds = violations.NUM_ROUNDS
    row = {
        "strategy": "safe",
        "safe": [[True, False, True]] * 2 + [[True, True, True]] * (rounds - 2),
        "regret": [[0.1, 0.2, 0.3]] * (rounds + 1),
        "recommended_safe": [[True, True, True]] * rounds + [[False, False, True]],
    }
    page = violations.summary([row])
    assert "| safe | 2 of 90 | 1 of 3 | 0.20 | 0.20 | 0.20 | inf | inf | 3 | 2 |" in page


@pytest.mark.slow
@pytest.mark.parametrize("name", violations.STRATEGIES)
def test_a_short_run(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(violations, "NUM_SEEDS", 2)
    monkeypatch.setattr(violations, "NUM_ROUNDS", 2)
    monkeypatch.setattr(violations, "NUM_DRAWN", 6)
    row = violations.play(name)
    assert torch.tensor(row["safe"]).shape == (2, 2)
    assert torch.tensor(row["regret"]).shape == (3, 2)
    assert torch.tensor(row["recommended_safe"][0]).all()
