r"""Local neural surrogate optimisation on functions whose best quantile is known."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from botorch.exceptions.errors import BotorchTensorDimensionError, InputDataError
from scipy.stats import beta, kstest, norm
from torch import Generator, Tensor

from botorch_risk.environments.uniforms import seeded_uniforms
from botorch_risk.papers import maximize_value_at_risk
from botorch_risk.papers.lnso import _Target, _Training
from botorch_risk.risk import ValueAtRisk
from botorch_risk.seeding import generators, streams

SMALL: dict[str, Any] = {"num_starts": 2, "num_steps": 30, "num_training_steps": 60}
BOX = torch.tensor([[0.0, 0.0], [1.0, 2.0]], dtype=torch.float64)


def normal(n: int, generators: Sequence[Generator]) -> Tensor:
    return torch.stack([torch.randn(n, 1, generator=g, dtype=torch.float64) for g in generators])


def bump(queries: Tensor) -> Tensor:
    r"""`VaR = -4 (x - 0.3)^2 - (y - 1.4)^2 - 0.3 (0.5 + x) z`, z the normal quantile."""
    x, y, w = queries.unbind(dim=-1)
    return -4 * (x - 0.3) ** 2 - (y - 1.4) ** 2 + 0.3 * (0.5 + x) * w


@pytest.mark.parametrize("level", [0.1, 0.5, 0.8])
@pytest.mark.slow
def test_finds_the_best_quantile(level: float) -> None:
    X, value = maximize_value_at_risk(bump, normal, BOX, level, seeds=[0, 1], **SMALL)
    z = norm.ppf(level)
    best = 0.3 + 0.3 * z / 8
    optimum = -4 * (best - 0.3) ** 2 + 0.3 * (0.5 + best) * z
    assert X.shape == (2, 2)
    assert value.shape == (2,)
    assert X[:, 0].tolist() == pytest.approx([best] * 2, abs=0.05)
    assert X[:, 1].tolist() == pytest.approx([1.4] * 2, abs=0.1)
    assert value.tolist() == pytest.approx([optimum] * 2, abs=0.05)


def test_stays_within_the_bounds() -> None:
    def slope(queries: Tensor) -> Tensor:
        return queries[..., 0] - queries[..., 1] + 0.1 * queries[..., 2]

    X, _ = maximize_value_at_risk(slope, normal, BOX, 0.1, seeds=0, **SMALL)
    torch.testing.assert_close(X, torch.tensor([[1.0, 0.0]]).double(), atol=1e-3, rtol=0)


@pytest.mark.parametrize("d_x", [1, 2, 5])
def test_training_points_are_uniform_in_the_ball(d_x: int) -> None:
    r"""Radii to the power of d are uniform; each coordinate follows a beta distribution."""
    box = torch.tensor([[0.0], [1.0]]).double().expand(2, d_x)
    target = _Target(bump, normal, box, [0, 1], ValueAtRisk(0.1))
    draws = target.in_ball((40, 50), "a stream")
    assert draws.shape == (2, 40, 50, d_x) and not torch.equal(draws[0], draws[1])
    assert torch.equal(draws, target.in_ball((40, 50), "a stream"))
    assert not torch.equal(draws, target.in_ball((40, 50), "another"))
    coordinate = beta((d_x + 1) / 2, (d_x + 1) / 2)
    for points in draws.flatten(1, 2).numpy():
        radii = np.linalg.norm(points, axis=-1)
        assert kstest(radii**d_x, "uniform").pvalue > 1e-3
        for column in points.T:
            assert kstest((column + 1) / 2, coordinate.cdf).pvalue > 1e-3


@pytest.mark.slow
def test_never_ends_below_its_starts() -> None:
    r"""The surrogate of a wave that is faster than the ball leads anywhere."""

    def wave(queries: Tensor) -> Tensor:
        return (60 * queries[..., 0]).sin() - queries[..., 1].square()

    options: dict[str, Any] = {"num_training_steps": 5, "num_final": 128}
    box, seeds = BOX[:, :1], range(6)
    starts = [
        maximize_value_at_risk(
            wave, normal, box, 0.1, seeds=seeds, num_starts=1, num_steps=k, **options
        )
        for k in (1, 20)
    ]
    raw = streams(seeds, "LNSO starts")
    X = seeded_uniforms(256, 1, raw, "LNSO")
    W = normal(128, generators(seeds, "LNSO", "comparison"))
    pairs = torch.cat(
        [X.unsqueeze(-2).expand(6, 256, 128, 1), W.unsqueeze(-3).expand(6, 256, 128, 1)], dim=-1
    )
    risk = ValueAtRisk(0.1)(wave(pairs), torch.full((128,), 1 / 128).double())
    for X_best, value in starts:
        assert (value >= risk.amax(dim=-1) - 1e-12).all()
        pairs = torch.cat([X_best.unsqueeze(-2).expand(6, 128, 1), W], dim=-1)
        own = ValueAtRisk(0.1)(wave(pairs), torch.full((128,), 1 / 128).double())
        torch.testing.assert_close(own, value)


def test_a_ball_is_fitted_once_while_no_point_leaves_it(monkeypatch: Any) -> None:
    calls = []
    fit = _Training.__call__

    def counted(*arguments: Any) -> Any:
        calls.append(arguments)
        return fit(*arguments)

    monkeypatch.setattr(_Training, "__call__", counted)
    options = {**SMALL, "num_steps": 5, "num_training_steps": 2, "step_size": 1e-9}
    maximize_value_at_risk(bump, normal, BOX, 0.1, seeds=[0, 1], **options)
    assert len(calls) == 1


def test_whole_bounds_are_numbers() -> None:
    quick: dict[str, Any] = {**SMALL, "num_steps": 2, "num_training_steps": 2}
    found = maximize_value_at_risk(bump, normal, BOX.long(), 0.1, seeds=0, **quick)
    expected = maximize_value_at_risk(bump, normal, BOX, 0.1, seeds=0, **quick)
    assert torch.equal(found[0], expected[0])


def test_batch_equals_loop_on_every_device(device: torch.device) -> None:
    quick = {**SMALL, "num_steps": 3, "num_training_steps": 5}
    together = maximize_value_at_risk(bump, normal, BOX.to(device), 0.1, seeds=[5, 6], **quick)
    alone = maximize_value_at_risk(bump, normal, BOX, 0.1, seeds=6, **quick)
    for many, one in zip(together, alone, strict=True):
        assert many.device == device
        torch.testing.assert_close(many[1:].cpu(), one, atol=1e-9, rtol=0)


def test_bad_input() -> None:
    def call(**changes: Any) -> None:
        arguments: dict[str, Any] = {
            "function": bump,
            "sampler": normal,
            "bounds": BOX,
            "risk_level": 0.1,
            "seeds": 0,
        }
        maximize_value_at_risk(**{**arguments, **SMALL, **changes})

    with pytest.raises(ValueError, match=r"`risk_level` in \(0, 1\)"):
        call(risk_level=1.0)
    with pytest.raises(BotorchTensorDimensionError, match="`bounds` to have shape"):
        call(bounds=BOX[0])
    with pytest.raises(ValueError, match="each lower bound below its upper"):
        call(bounds=BOX * torch.inf)
    with pytest.raises(ValueError, match=r"as many raw points as starts\. Got num_starts=9"):
        call(num_starts=9, raw_samples=8)
    with pytest.raises(ValueError, match=r"`radius` to be finite and > 0\. Got 0"):
        call(radius=0.0)
    with pytest.raises(BotorchTensorDimensionError, match="Expected `sampler` to draw `1 x 1024 x"):
        call(sampler=lambda n, generators: torch.zeros(n, 1))
    with pytest.raises(BotorchTensorDimensionError, match="shape `R x m` from `function`"):
        call(function=lambda queries: queries)
    with pytest.raises(InputDataError, match="finite values of `function`"):
        call(function=lambda queries: queries[..., 0] * torch.nan)
