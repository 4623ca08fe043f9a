from __future__ import annotations

import pytest
import torch
from botorch.models import SingleTaskGP
from scipy.stats import norm
from torch import Tensor

from botorch_risk.fit import calibration, compare_losses, fit_exact_gp, fit_pseudo_data

BOUNDS = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.double)


def waves(X: Tensor) -> Tensor:
    return (5 * X).sin().sum(dim=-1)


def model_of(*batch_shape: int) -> SingleTaskGP:
    X = torch.rand(*batch_shape, 10, 2, dtype=torch.double)
    return SingleTaskGP(X, waves(X).unsqueeze(-1))


@pytest.mark.parametrize("batch_shape", [(), (2,)])
def test_both_losses_side_by_side(batch_shape: tuple[int, ...]) -> None:
    model, seeds = model_of(*batch_shape), list(range(max(1, *batch_shape, 1)))
    before = {key: value.clone() for key, value in model.state_dict().items()}
    table = compare_losses(model, BOUNDS, seeds=seeds)
    assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())
    fit_pseudo_data(model, BOUNDS, seeds=seeds)
    lengthscale = model.covar_module.lengthscale.detach().squeeze(-2)
    torch.testing.assert_close(table["lengthscale"].pseudo_data, lengthscale)
    assert (table["lengthscale"].ordinary != lengthscale).all()


@pytest.mark.parametrize("batch_shape", [(), (2,)])
def test_calibration_counts_what_lies_within(batch_shape: tuple[int, ...]) -> None:
    model, seeds = model_of(*batch_shape), list(range(max(1, *batch_shape, 1)))
    fit_exact_gp(model)
    points: list[Tensor] = []

    def watched(X: Tensor) -> Tensor:
        points.append(X)
        return waves(X)

    found = calibration(model, watched, BOUNDS, seeds=seeds, num_points=200, levels=(0.5, 0.9))
    X = points[0].reshape(-1, 200, 2)
    assert ((X >= 0) & (X <= 1)).all()
    for r, rows in enumerate(X):
        posterior = model.posterior(rows)
        at = (r,) if batch_shape else ()
        mean, variance = posterior.mean[at].flatten(), posterior.variance[at].flatten()
        z = (waves(rows) - mean) / variance.sqrt()
        for level, coverage in zip((0.5, 0.9), found.coverage[at], strict=True):
            inside = [abs(value) <= norm.ppf((1 + level) / 2) for value in z.tolist()]
            assert coverage.item() == pytest.approx(sum(inside) / 200, abs=0.01)
        assert found.root_mean_square[at].item() == pytest.approx(
            z.square().mean().sqrt().item(), rel=1e-3
        )
