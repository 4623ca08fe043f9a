from __future__ import annotations

import pytest
import torch
from botorch.models import SingleTaskGP
from torch import Tensor

from botorch_risk.fit import compare_losses, fit_pseudo_data

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
