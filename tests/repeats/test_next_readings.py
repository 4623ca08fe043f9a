r"""Where to read next and how often."""

import pytest
import torch
from botorch.exceptions.errors import BotorchTensorDimensionError, UnsupportedError
from botorch.models import SingleTaskGP

from botorch_risk.models import MeanVarianceGP
from botorch_risk.repeats import LogRiskAverseKnowledgeGradient, next_readings, repeat_advice
from tests.contracts import correlation_of, mean_variance_gp, repeated_data

UNIT = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.double)
FEW = {"num_restarts": 4, "raw_samples": 64}


@pytest.mark.parametrize("batch_shape", [(), (2,)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_nothing_on_a_grid_is_better(batch_shape: tuple[int, ...], dtype: torch.dtype) -> None:
    data = repeated_data(batch_shape, dtype=dtype)
    model = mean_variance_gp(data).eval()
    seeds = range(2) if batch_shape else 0
    options = {"risk_aversion": 0.5, "num_repeats": (1, 3), "moving_cost": 0.5}
    readings = next_readings(model, UNIT.to(dtype), seeds, **FEW, **options)
    assert readings.X.shape == (*batch_shape, 2)
    assert readings.num_repeats.shape == readings.row.shape == readings.log_rate.shape
    axis = torch.linspace(0, 1, 13, dtype=dtype)
    grid = torch.cartesian_prod(axis, axis).expand(*batch_shape, -1, -1)
    acqf = LogRiskAverseKnowledgeGradient(model, **options)
    best = acqf.choose(grid).log_rate
    assert (readings.log_rate >= best - 1e-2).all()


@pytest.mark.slow
def test_free_returns_are_taken_where_moving_is_expensive() -> None:
    data = repeated_data()
    model = mean_variance_gp(data).eval()
    moving = next_readings(model, UNIT, moving_cost=1e9, **FEW)
    assert moving.row >= 0
    assert torch.equal(moving.X, model.train_X[moving.row])
    returning = next_readings(model, UNIT, returning_cost=1e9, **FEW)
    assert returning.row == -1


def test_bad_input() -> None:
    data = repeated_data()
    model = mean_variance_gp(data)
    with pytest.raises(ValueError, match="Expected `moving_cost` to be finite and >= 0"):
        next_readings(model, UNIT, moving_cost=-1.0)
    with pytest.raises(ValueError, match="Expected `reading_cost` to be finite and > 0"):
        next_readings(model, UNIT, reading_cost=0.0)
    with pytest.raises(UnsupportedError, match="learns its noise"):
        next_readings(SingleTaskGP(data.X, data.Y[:, :1]), UNIT)  # type: ignore[arg-type]
    known = MeanVarianceGP(data.X, data.Y, known_noise=lambda X: X[..., :1])
    with pytest.raises(UnsupportedError, match="learns its noise"):
        next_readings(known, UNIT)


@pytest.mark.parametrize("link", ["log", "identity"])
def test_width_after_repeats_is_that_of_the_conditioned_model(link: str) -> None:
    data = repeated_data()
    model = mean_variance_gp(
        data,
        variance_link=link,
        sample_variance_noise="pointwise" if link == "identity" else None,
        min_noise_variance=1e-3,
    )
    x = torch.tensor([[0.3, 0.6]], dtype=torch.float64)
    conditioned = model.condition_on_pending(x, num_repeats=6)
    expected = conditioned.noise_confidence_bounds(x, 4.0)
    counts = torch.tensor([6.0], dtype=torch.float64)
    for ours, theirs in zip(
        model.noise.bounds_after_repeats(x, 4.0, counts), expected, strict=True
    ):
        torch.testing.assert_close(ours, theirs)


def test_advice_repeats_where_noise_dominates() -> None:
    generator = torch.Generator().manual_seed(0)
    X = torch.linspace(0, 1, 12, dtype=torch.float64).unsqueeze(-1)
    rho = torch.where(X > 0.5, 1.0, 0.01)
    Y = (3 * X).sin() + rho * torch.randn(12, 4, generator=generator, dtype=torch.float64)
    model = MeanVarianceGP(X, Y)
    for process in (model.noise_model, model.mean_model):
        correlation_of(process).lengthscale = 0.2
    model.refresh_noise()
    at = torch.tensor([[0.05], [0.95]], dtype=torch.float64)
    free = repeat_advice(model, at, risk_aversion=1.0, setup_cost=0.0)
    assert free.rate[1] > free.rate[0]
    expensive = repeat_advice(model, at, risk_aversion=1.0, setup_cost=10.0)
    assert (expensive.num_repeats >= free.num_repeats).all()
    assert (expensive.rate < free.rate).all()
    assert (expensive.num_repeats > 1).all()


def test_bad_input_of_advice() -> None:
    data = repeated_data()
    model = mean_variance_gp(data)
    with pytest.raises(ValueError, match=r"`max_repeats` to be at least 2. Got 1"):
        repeat_advice(model, data.X, max_repeats=1)
    with pytest.raises(ValueError, match="setup_cost"):
        repeat_advice(model, data.X, setup_cost=-1.0)
    with pytest.raises(UnsupportedError, match="Expected a MeanVarianceGP"):
        repeat_advice(SingleTaskGP(data.X, data.Y[:, :1]), data.X)  # type: ignore[arg-type]


def test_costs_of_advice_are_one_number_or_one_for_each_point() -> None:
    model = mean_variance_gp(repeated_data())
    X = torch.rand(2, 2, dtype=torch.double, generator=torch.Generator().manual_seed(0))
    both = repeat_advice(model, X, setup_cost=[1.0, 2.0]).num_repeats
    alone = [repeat_advice(model, X[i : i + 1], setup_cost=1.0 + i).num_repeats for i in range(2)]
    assert torch.equal(both, torch.cat(alone))
    for name in ("setup_cost", "risk_aversion"):
        with pytest.raises(BotorchTensorDimensionError, match=f"`{name}` to be a number, or"):
            repeat_advice(model, X, **{name: torch.tensor([[1.0], [2.0]])})
