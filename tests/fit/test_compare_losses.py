from __future__ import annotations

import pytest
import torch

from botorch_risk.fit import compare_losses, fit_pseudo_data
from tests.waves import BOUNDS, model_of


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
