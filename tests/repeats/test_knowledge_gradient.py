r"""Knowledge gradients and expected improvement of risk-averse readings."""

import math

import pytest
import scipy.stats
import torch
from botorch.acquisition import LogExpectedImprovement
from botorch.exceptions.errors import BotorchTensorDimensionError, UnsupportedError
from botorch.models import SingleTaskGP

from botorch_risk.models import MeanVarianceGP, RepeatedOutcomes
from botorch_risk.repeats import LogRiskAverseKnowledgeGradient, rank_one_gain
from botorch_risk.repeats.rank_one_gain import log_expected_improvement
from tests.contracts import mean_variance_gp, repeated_data

DATA = repeated_data()


def test_further_readings_equal_a_model_of_all_readings_where_nothing_else_changes() -> None:
    r"""The precision of c + k readings: the noise process after c readings, then k."""
    link = mean_variance_gp(DATA).noise.link
    counts = torch.tensor([0.0, 1.0, 2.0, 5.0], dtype=torch.double)
    expected = [0.0, 0.0, 1 / (math.pi**2 / 2), 1 / (math.pi**2 / 6 - 1)]
    torch.testing.assert_close(link.precision(counts), torch.tensor(expected).double())


@pytest.mark.parametrize("order", [[0, 1, 2, 3], [3, 2, 1, 0]])
def test_choose_takes_the_largest_rate_of_new_and_measured_points(order: list[int]) -> None:
    model = mean_variance_gp(DATA).eval()
    X = torch.rand(4, 2, dtype=torch.double, generator=torch.Generator().manual_seed(0))[order]
    acqf = LogRiskAverseKnowledgeGradient(model, num_repeats=(2, 5))
    new, measured = acqf.log_rates(X), acqf.log_rates_of_measured()
    assert (new.shape, measured.shape) == ((4, 2), (9, 2))
    for start, is_measured in ((0.0, False), (1e6, True)):
        expensive = LogRiskAverseKnowledgeGradient(
            model, num_repeats=(2, 5), moving_cost=start, returning_cost=0.0 if start else 1e6
        )
        readings = expensive.choose(X)
        assert (readings.row >= 0).item() == is_measured
        rates = measured if is_measured else new
        assert readings.log_rate == rates.max()
        row, column = divmod(int(rates.argmax()), 2)
        assert readings.num_repeats == (2, 5)[column]
        assert torch.equal(readings.X, (model.train_X if is_measured else X)[row])
        assert readings.row == (row if is_measured else -1)


def test_a_cost_of_moving_asks_for_more_readings_at_a_time() -> None:
    model = mean_variance_gp(DATA).eval()
    X = torch.rand(20, 2, dtype=torch.double)
    free, expensive = (
        LogRiskAverseKnowledgeGradient(model, num_repeats=(1, 2, 5, 20), moving_cost=cost)
        for cost in (0.0, 20.0)
    )
    few, many = (acqf.log_rates(X).argmax(dim=-1) for acqf in (free, expensive))
    assert (many >= few).all()
    assert (many > few).any()


def test_rows_without_readings_are_no_points() -> None:
    r"""In a batch: the other replicate, and what it is worth, stay as they are alone."""
    X = torch.stack([DATA.X, DATA.X + 0.01])
    Y = torch.stack([DATA.Y, DATA.Y - 0.1])
    holed = Y.clone()
    holed[1, 3:5] = torch.nan
    outcomes = RepeatedOutcomes.from_repeats(holed, allow_missing=True)
    with_holes = LogRiskAverseKnowledgeGradient(MeanVarianceGP(X, outcomes).eval())
    rates = with_holes.log_rates_of_measured()
    assert (rates[1, 3:5] == -torch.inf).all()
    assert rates[0].isfinite().all()
    kept = [0, 1, 2, 5, 6, 7, 8]
    alone = LogRiskAverseKnowledgeGradient(MeanVarianceGP(X[1, kept], Y[1, kept]).eval())
    torch.testing.assert_close(rates[1, kept], alone.log_rates_of_measured(), atol=1e-4, rtol=1e-4)


def test_rates_of_replicates_are_those_of_each_alone() -> None:
    X, Y = torch.stack([DATA.X, DATA.X]), torch.stack([DATA.Y, DATA.Y - 0.1 * DATA.X[:, :1]])
    options = {"risk_aversion": 1.0, "num_repeats": [2, 3, 5]}
    rates = LogRiskAverseKnowledgeGradient(MeanVarianceGP(X, Y).eval(), **options)
    points = torch.rand(2, 4, 2).double()
    found = rates.log_rates(points)
    assert found.shape == (2, 4, 3)
    for row in range(2):
        alone = LogRiskAverseKnowledgeGradient(MeanVarianceGP(X[row], Y[row]).eval(), **options)
        torch.testing.assert_close(found[row], alone.log_rates(points[row]), atol=1e-4, rtol=1e-4)


def test_limits_of_the_noise_bound_what_is_expected_of_it() -> None:
    r"""Where the noise is as low as it may be there is no gain in learning it."""
    free = mean_variance_gp(DATA, max_noise_variance=1e-6).eval()
    acqf = LogRiskAverseKnowledgeGradient(free, risk_aversion=100.0, num_repeats=[5])
    neutral = LogRiskAverseKnowledgeGradient(free, risk_aversion=0.0, num_repeats=[5])
    X = torch.rand(5, 2, dtype=torch.double)
    torch.testing.assert_close(acqf.evaluate(X), neutral.evaluate(X), atol=1e-2, rtol=1e-2)


def test_bad_input() -> None:
    model = mean_variance_gp(DATA)
    for name, value in (
        ("moving_cost", -1.0),
        ("returning_cost", math.nan),
        ("risk_aversion", math.inf),
    ):
        with pytest.raises(ValueError, match=f"Expected `{name}` to be finite and >= 0"):
            LogRiskAverseKnowledgeGradient(model, **{name: value})
    for cost in (-1.0, 0.0):
        with pytest.raises(ValueError, match="Expected `reading_cost` to be finite and > 0"):
            LogRiskAverseKnowledgeGradient(model, reading_cost=cost)
    for counts in ([], [0, 2], [2.5]):
        with pytest.raises(ValueError, match="one or more whole `num_repeats`, each at least 1"):
            LogRiskAverseKnowledgeGradient(model, num_repeats=counts)
    with pytest.raises(ValueError, match=r"`num_compared` to be at least 1. Got 0"):
        LogRiskAverseKnowledgeGradient(model, num_compared=0)
    for other in (
        SingleTaskGP(DATA.X, DATA.Y[:, :1]),
        MeanVarianceGP(DATA.X, DATA.Y, known_noise=lambda X: X[..., :1]),
        MeanVarianceGP(DATA.X, DATA.Y, torch.ones_like(DATA.Y)),
        mean_variance_gp(DATA, variance_link="identity", min_noise_variance=1e-3),
    ):
        with pytest.raises(UnsupportedError, match="learns its noise with `variance_link='log'`"):
            LogRiskAverseKnowledgeGradient(other)  # type: ignore[arg-type]
    with pytest.raises(BotorchTensorDimensionError, match="Expected `X`"):
        LogRiskAverseKnowledgeGradient(model).log_rates(torch.rand(3, 3, dtype=torch.double))


def test_gains_of_a_tail_alone_are_exact() -> None:
    r"""Against a dense grid in logarithms, where ten nodes are off by hundreds."""
    torch.manual_seed(2)
    X = torch.rand(10, 1).double()
    Y = 3 * (6 * X).sin() + (0.02 + 0.3 * X) * torch.randn(10, 4)
    model = MeanVarianceGP(X, Y, noise_evidence="spread").eval()
    model.mean_model.covar_module.base_kernel.lengthscale = 0.3
    gain = LogRiskAverseKnowledgeGradient(model)._conditioned
    at, steps = torch.linspace(0, 1, 41, dtype=torch.double)[None, :, None], [2, 3, 5]
    counts = torch.zeros((), dtype=torch.double)
    found = gain.log_gains(at, steps, counts, tails=True)
    with pytest.MonkeyPatch.context() as patch:
        nodes = torch.linspace(-40, 40, 4_001, dtype=torch.double)
        weights = (-nodes.square() / 2).exp() * (nodes[1] - nodes[0]) / math.sqrt(2 * math.pi)
        weights = weights.clamp_min(1e-300)  # whose logarithms are finite
        patch.setattr(rank_one_gain, "_gauss_hermite", lambda like: (nodes, weights))
        exact = gain.log_gains(at, steps, counts)
    near = exact > -100
    assert (near & (exact < -25)).any()
    torch.testing.assert_close(found[near], exact[near], atol=0.05, rtol=0)
    by_nodes = gain.log_gains(at, steps, counts)
    assert (by_nodes - exact)[near].abs().max() > 10


def test_equals_the_textbook_formula_at_any_best_value() -> None:
    mean, deviation, best = torch.meshgrid(
        torch.linspace(-2, 2, 5, dtype=torch.double),
        torch.tensor([0.3, 1.0, 2.0], dtype=torch.double),
        torch.tensor([-1.0, 0.5, 3.0], dtype=torch.double),
        indexing="ij",
    )
    u = ((mean - best) / deviation).numpy()
    normal = scipy.stats.norm
    expected = torch.from_numpy(u * normal.cdf(u) + normal.pdf(u)).log() + deviation.log()
    found = log_expected_improvement(mean, deviation.square(), best)
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("best", [-0.4, 0.9, 4.0])
def test_equals_the_acquisition_of_botorch(best: float) -> None:
    X = torch.rand(8, 2, dtype=torch.double)
    model = SingleTaskGP(X, (4 * X).sin().sum(dim=-1, keepdim=True)).eval()
    points = torch.rand(20, 1, 2, dtype=torch.double)
    with torch.no_grad():
        expected = LogExpectedImprovement(model, best_f=best)(points)
        posterior = model.posterior(points.squeeze(-2))
    moments = posterior.mean.squeeze(-1), posterior.variance.squeeze(-1)
    found = log_expected_improvement(*moments, torch.tensor(best, dtype=torch.double))
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_is_smooth_and_finite_where_its_two_forms_meet(dtype: torch.dtype) -> None:
    bound = torch.finfo(dtype).eps ** -0.25
    u = -bound * torch.tensor([0.5, 0.999, 1.001, 2.0, 1e3], dtype=dtype)
    u.requires_grad_()
    found = log_expected_improvement(u, torch.ones_like(u), torch.zeros_like(u))
    far = u.detach().double()
    series = -far.square() / 2 - math.log(math.sqrt(2 * math.pi)) - 2 * (-far).log()
    series = series + torch.log1p(-3 / far.square() + 15 / far**4)
    torch.testing.assert_close(found.detach().double(), series, rtol=1e-6, atol=1e-3)
    (slope,) = torch.autograd.grad(found.sum(), u)
    torch.testing.assert_close(slope.double(), -far - 2 / far, rtol=1e-3, atol=0)


def test_rates_follow_another_fit_of_the_model() -> None:
    model, X = mean_variance_gp(DATA), torch.rand(3, 2, dtype=torch.double)
    acqf = LogRiskAverseKnowledgeGradient(model, X_pending=X[:1])
    before = acqf.evaluate(X)
    model.fit_processes()
    expected = LogRiskAverseKnowledgeGradient(model, X_pending=X[:1]).evaluate(X)
    torch.testing.assert_close(acqf.evaluate(X), expected)
    assert not torch.allclose(expected, before)
