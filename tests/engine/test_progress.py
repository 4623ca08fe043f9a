r"""What a long computation says."""

import logging

import pytest
import torch
from botorch.models import SingleTaskGP

from botorch_risk.engine import fit_exact_gp, progress


def model(num_points: int = 12) -> SingleTaskGP:
    X = torch.rand(3, num_points, 2, dtype=torch.double)
    return SingleTaskGP(X, (4 * X).sin().sum(dim=-1, keepdim=True) + 0.1 * torch.randn(1).double())


@pytest.mark.parametrize("num_points", [12, 60, 300], ids=["in NumPy", "in blocks", "with trials"])
def test_a_long_fit_says_where_it_is(
    num_points: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    r"""Time passes at each evaluation, so that the message comes without waiting."""
    seconds = iter(range(0, 10**9, 11))
    monkeypatch.setattr(progress, "monotonic", lambda: float(next(seconds)))
    with caplog.at_level(logging.INFO, logger="botorch_risk"):
        result = fit_exact_gp(model(num_points))
    messages = [record.getMessage() for record in caplog.records]
    assert messages[0].startswith("Fit of 3 models: ")
    assert any("of 6 starts go on." in each for each in messages)
    counts = [
        int(each.split(" s, ")[1].split(" evaluations")[0].replace(",", "")) for each in messages
    ]
    assert counts == sorted(counts)
    assert result.num_evaluations is not None
    assert abs(counts[-1] - int(result.num_evaluations.sum())) <= 60  # trials are counted at once
    tried = [each for each in messages if "variation along an input is tried for noise" in each]
    assert bool(tried) == (num_points == 300)


def test_a_short_fit_says_nothing(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="botorch_risk"):
        fit_exact_gp(model())
        progress.advance(5)  # outside of any block
        progress.enter("nothing is done")
    assert not caplog.records


def test_a_block_within_another_belongs_to_it(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    seconds = iter((0.0, 4.0, 12.0, 13.0, 40.0, 60.0, 61.0))
    monkeypatch.setattr(progress, "monotonic", lambda: next(seconds))
    with caplog.at_level(logging.INFO, logger="botorch_risk"):
        with progress.reporting("Fit of all"):
            progress.advance(2)
            progress.enter("it goes on")
            with progress.reporting("Fit of few"):
                progress.advance(1000)
                progress.advance(1)
        with progress.reporting("Fit of another"):
            progress.advance(7)
    assert [record.getMessage() for record in caplog.records] == [
        "Fit of all: 12 s, 1,002 evaluations, it goes on.",
        "Fit of another: 20 s, 7 evaluations.",
    ]
