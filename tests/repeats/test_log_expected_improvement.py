r"""The logarithm of expected improvement against the textbook formula and against BoTorch."""

from __future__ import annotations

import math

import pytest
import scipy.stats
import torch
from botorch.acquisition import LogExpectedImprovement
from botorch.models import SingleTaskGP

from botorch_risk.posterior.marginals import Marginals
from botorch_risk.repeats.log_expected_improvement import log_expected_improvement


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
    found = log_expected_improvement(Marginals(mean, deviation.square()), best)
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("best", [-0.4, 0.9, 4.0])
def test_equals_the_acquisition_of_botorch(best: float) -> None:
    X = torch.rand(8, 2, dtype=torch.double)
    model = SingleTaskGP(X, (4 * X).sin().sum(dim=-1, keepdim=True)).eval()
    points = torch.rand(20, 1, 2, dtype=torch.double)
    with torch.no_grad():
        expected = LogExpectedImprovement(model, best_f=best)(points)
        posterior = model.posterior(points.squeeze(-2))
    moments = Marginals(posterior.mean.squeeze(-1), posterior.variance.squeeze(-1))
    found = log_expected_improvement(moments, torch.tensor(best, dtype=torch.double))
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_is_smooth_and_finite_where_its_two_forms_meet(dtype: torch.dtype) -> None:
    bound = torch.finfo(dtype).eps ** -0.25
    u = -bound * torch.tensor([0.5, 0.999, 1.001, 2.0, 1e3], dtype=dtype)
    u.requires_grad_()
    found = log_expected_improvement(Marginals(u, torch.ones_like(u)), torch.zeros_like(u))
    far = u.detach().double()
    series = -far.square() / 2 - math.log(math.sqrt(2 * math.pi)) - 2 * (-far).log()
    series = series + torch.log1p(-3 / far.square() + 15 / far**4)
    torch.testing.assert_close(found.detach().double(), series, rtol=1e-6, atol=1e-3)
    (slope,) = torch.autograd.grad(found.sum(), u)
    torch.testing.assert_close(slope.double(), -far - 2 / far, rtol=1e-3, atol=0)
